"""Trees that grow: between any two cuts lies what was put there, whatever came before and has left since."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from trendfold.kernel import growing, tree

RADIX = 2**256
INF = float("inf")

Cut = tuple[float, bool]
"""A value, and whether the cut is behind the entries that have it."""


class Grown:
    """Two trees in one pool, with two numbers and an extreme each, beside dictionaries of exact numbers."""

    def __init__(self, nodes: int = 2 * growing.MOST_HEIGHT) -> None:
        self.pool = growing.make_pool(nodes, 2, 2, 1)
        self.work = growing.scratch()
        self.exact: list[dict[tuple[float, int], tuple[Fraction, Fraction, float]]] = [{}, {}]

    def put(self, which: int, key: tuple[float, int], mantissa: float, exponent: int, extreme: float) -> None:
        if growing.is_full(self.pool):
            self.pool = growing.enlarged(self.pool)
        count = growing.place(self.pool, which, *key, self.work)
        path = self.work[1][0]
        for w, part in enumerate((mantissa, -mantissa / 2)):
            offset = np.uint64(w) * self.pool.size
            growing.put_number(self.pool, path, count, offset, part, np.int32(exponent))
        growing.put_extreme(self.pool, path, count, np.uint64(0), extreme)
        mass = Fraction(mantissa) * RADIX**exponent
        before = self.exact[which].get(key, (Fraction(0), Fraction(0), INF))
        self.exact[which][key] = (before[0] + mass, before[1] - mass / 2, min(before[2], extreme))

    def remove(self, which: int, key: tuple[float, int]) -> None:
        growing.remove(self.pool, which, *key, self.work)
        self.exact[which].pop(key, None)

    def check(self, which: int, low: Cut, high: Cut) -> None:
        blocks, path = self.work
        held = [key for key in self.exact[which] if is_behind(key[0], low) and not is_behind(key[0], high)]
        count = growing.visit(self.pool, which, *low, *high, blocks)
        for w in range(2):
            offset = np.uint64(w) * self.pool.size
            m, e = tree.total(self.pool.m, self.pool.e, offset, blocks, count)
            expected = sum((self.exact[which][key][w] for key in held), Fraction(0))
            assert abs(Fraction(m) * RADIX ** int(e) - expected) <= abs(expected) * Fraction(1, 10**12)
        expected_least = min((self.exact[which][key][2] for key in held), default=INF)
        assert tree.least(self.pool.x, np.uint64(0), blocks, count) == expected_least
        serials = np.empty(len(self.exact[which]) + 1, np.int32)
        many = growing.occupied(self.pool, which, *low, *high, blocks, path, serials)
        assert sorted(serials[:many].tolist()) == sorted(serial for _, serial in held)


def is_behind(value: float, cut: Cut) -> bool:
    return value > cut[0] or (value == cut[0] and not cut[1])


def a_cut(rng: random.Random, values: list[float]) -> Cut:
    return rng.choice([*values, -INF, INF]) + rng.choice([0, 0, 0.5]), rng.random() < 0.5


VALUES = {
    "one value": lambda rng, i: 7.0,
    "few values": lambda rng, i: float(rng.randint(0, 5)),
    "any values": lambda rng, i: rng.uniform(-1, 1),
    "ever larger": lambda rng, i: float(i),
    "ever smaller": lambda rng, i: float(-i),
    "a walk": lambda rng, i: float(rng.randint(-3, 3) + i // 4),
}


@pytest.mark.parametrize("most_exponent", [0, 1, 6])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("is_apart", [True, False])
def test_between_two_cuts_lies_what_was_put_there(is_apart: bool, kind: str, most_exponent: int) -> None:
    rng = random.Random(f"{kind} {most_exponent} {is_apart}")
    grown = Grown()
    for i in range(700):
        which = rng.randrange(2)
        value = VALUES[kind](rng, i)
        key = (value, rng.randint(0, 10**6) if is_apart else 0)
        if rng.random() < 0.75 or not grown.exact[which]:
            mantissa = float(rng.randint(1, 10**6)) * 2.0 ** rng.randint(0, 230)
            grown.put(which, key, mantissa, rng.randint(0, most_exponent), rng.uniform(-5, 5))
        elif rng.random() < 0.9:
            grown.remove(which, rng.choice(list(grown.exact[which])))
        else:
            grown.remove(which, (value, -1))  # which was never there
        values = [value for value, _ in grown.exact[which]][-40:] or [0.0]
        grown.check(which, a_cut(rng, values), a_cut(rng, values))
    for which in range(2):
        grown.check(which, (-INF, False), (INF, True))


def test_the_height_is_logarithmic_and_the_room_enough_for_any_order() -> None:
    for order in (range(20_000), range(20_000, 0, -1), np.random.default_rng(1).permutation(20_000)):
        pool = growing.make_pool(growing.most_nodes(20_000, 1), 1, 1, 0)
        work = growing.scratch()
        for value in order:
            growing.place(pool, 0, float(value), 0, work)
        assert pool.used[0] <= len(pool.filled)
        assert 4 ** pool.height[0] <= 20_000


def test_a_small_number_beside_a_huge_one_is_not_lost() -> None:
    grown = Grown()
    grown.put(0, (1.0, 0), 3.0, 0, 0.0)
    grown.put(0, (2.0, 0), 1.0, 9, 0.0)
    grown.check(0, (-INF, False), (2.0, False))
    grown.remove(0, (2.0, 0))
    grown.check(0, (-INF, False), (INF, True))


def test_what_is_cleared_is_empty_and_takes_entries_again() -> None:
    grown = Grown()
    for i in range(200):
        grown.put(i % 2, (float(i % 7), i), 1.0, 0, 0.0)
    growing.clear(grown.pool)
    grown.exact = [{}, {}]
    grown.check(0, (-INF, False), (INF, True))
    grown.put(1, (5.0, 3), 2.0, 0, 1.0)
    grown.check(1, (5.0, False), (5.0, True))
