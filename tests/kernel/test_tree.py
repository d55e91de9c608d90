"""Sum trees: every stretch of leaves sums up to what was put there, whatever has left since."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from trendfold.kernel import tree

RADIX = 2**256


class Trees:
    """One tree beside a plain list of exact numbers."""

    def __init__(self, leaves: int) -> None:
        sizes = tree.level_sizes(leaves, is_flat=False)
        self.size = np.uint64(sum(sizes))
        self.levels = np.uint64(len(sizes))
        self.start = np.zeros(tree.MOST_LEVELS, np.uint64)
        self.start[: len(sizes)] = np.cumsum([0, *sizes[:-1]])
        self.m, self.e = np.zeros(int(self.size)), np.zeros(int(self.size), np.int32)
        self.x = np.full(int(self.size), np.inf)
        self.blocks = tree.scratch()
        self.exact = [Fraction(0)] * (leaves + 2)
        self.least = [float("inf")] * (leaves + 2)

    @property
    def where(self) -> tuple[np.ndarray, np.uint64, np.uint64]:
        return self.start, np.uint64(0), self.levels

    def put(self, leaf: int, mantissa: float, exponent: int, extreme: float) -> None:
        none = np.uint64(0)
        tree.put_number(self.m, self.e, *self.where, leaf, none, mantissa, np.int32(exponent))
        tree.put_extreme(self.x, *self.where, leaf, none, extreme)
        self.exact[leaf] += Fraction(mantissa) * RADIX**exponent
        self.least[leaf] = min(self.least[leaf], extreme)

    def remove(self, leaf: int) -> None:
        nodes = self.m, self.e, self.x, self.size
        tree.remove(*nodes, *self.where, leaf, self.blocks)
        self.exact[leaf], self.least[leaf] = Fraction(0), float("inf")

    def between(self, low: int, high: int) -> range:
        return range(low + 1, high if high != tree.OPEN else len(self.exact))

    def check(self, low: int, high: int) -> None:
        count = tree.visit(*self.where, low, high, self.blocks)
        m, e = tree.total(self.m, self.e, np.uint64(0), self.blocks, count)
        expected = sum((self.exact[leaf] for leaf in self.between(low, high)), Fraction(0))
        found = Fraction(m) * RADIX ** int(e)
        assert abs(found - expected) <= abs(expected) * Fraction(1, 10**12)
        least = min((self.least[leaf] for leaf in self.between(low, high)), default=float("inf"))
        assert tree.least(self.x, np.uint64(0), self.blocks, count) == least


def stretch(rng: random.Random, leaves: int) -> tuple[int, int]:
    """Exclusive bounds, open on either side at times."""
    low, high = sorted(rng.sample(range(leaves + 2), 2))
    return low if rng.random() < 0.7 else tree.OPEN, high if high and rng.random() < 0.7 else tree.OPEN


@pytest.mark.parametrize("most_exponent", [0, 1, 6])
@pytest.mark.parametrize("leaves", [1, 7, 8, 62, 63, 600])
def test_sums_are_those_of_the_leaves(leaves: int, most_exponent: int) -> None:
    rng = random.Random(leaves * 10 + most_exponent)
    trees = Trees(leaves)
    for _ in range(400):
        draw = rng.random()
        if draw < 0.6:
            mantissa = float(rng.randint(1, 10**6)) * 2.0 ** rng.randint(0, 230)
            exponent = rng.randint(0, most_exponent)
            trees.put(rng.randint(1, leaves), mantissa, exponent, rng.uniform(-5, 5))
        elif draw < 0.8:
            trees.remove(rng.randint(1, leaves))
        trees.check(*stretch(rng, leaves))
    trees.check(tree.OPEN, tree.OPEN)


def test_a_small_number_beside_a_huge_one_is_not_lost() -> None:
    trees = Trees(8)
    trees.put(1, 3.0, 0, 0.0)
    trees.put(2, 1.0, 9, 0.0)
    trees.check(0, 2)
    trees.remove(2)
    trees.check(tree.OPEN, tree.OPEN)
