"""The closed forms of bursts are what their events do one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from trendfold.kernel.lane_bursts import LONGEST, Factor, dense, grown, grown_feed, parts_of
from trendfold.kernel.machine_lanes import HEADROOM, LARGEST


def value(factor: Factor, events: int) -> float:
    one, twos, each = parts_of(factor)
    return one + twos * 2.0**events + each * events


def at(powers: dict[int, dict[int, Factor]], size: int, events: int, is_change: bool) -> np.ndarray:
    """The matrix of a burst."""
    numbers = {t: {s: round(value(f, events)) for s, f in row.items()} for t, row in powers.items()}
    return dense(numbers, size, is_change)


def has_closed_form(matrices: list[np.ndarray]) -> bool:
    """Whether the matrices of n = 1, 2, ... are A·2^n + B·n + C, with A, B and C from the first three."""
    first, second, third = matrices[:3]
    twos, each = third - 2 * second + first, 3 * second - third - 2 * first
    rest = first - twos - each
    return all((twos * 2**n // 2 + each * n + rest == m).all() for n, m in enumerate(matrices, 1))


@pytest.mark.parametrize("seed", range(400))
def test_powers_have_their_closed_form_or_none(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.randint(1, 4)
    once = np.array([[rng.choice([0, 0, 0, 1, 1, 2]) * (s >= t) for s in range(size)] for t in range(size)])
    powers = grown(once)
    expected = [np.linalg.matrix_power(once, events) for events in range(1, 12)]
    assert (powers is not None) == has_closed_form(expected)
    for events, matrix in enumerate(expected if powers else [], 1):
        assert (at(powers, size, events, True) == matrix).all()


@pytest.mark.parametrize("seed", range(400))
def test_values_add_up_or_not(seed: int) -> None:
    rng = random.Random(seed)
    loops, size = rng.choice([0, 1]), 3
    once = np.array([[1 + loops, rng.randint(0, 1), 1], [0, 1, rng.randint(0, 1)], [0, 0, 1]])
    fed = np.array([[loops, rng.randint(0, 1), 1], [0, 0, rng.randint(0, 1)], [0, 0, 0]])
    gained = grown_feed(once, once, fed)
    if gained is None:
        power = [np.linalg.matrix_power(once, n) for n in range(9)]
        is_commutative = (once @ fed == fed @ once).all()
        assert not (is_commutative and has_closed_form([fed @ power[n - 1] for n in range(1, 9)]))
        return
    for events in range(1, 9):
        values = [rng.randint(-5, 5) for _ in range(events)]
        sums, counts = np.zeros((size, size), int), np.eye(size, dtype=int)
        for each in values:
            sums, counts = once @ sums + each * (fed @ counts), once @ counts
        assert (at(gained, size, events, False) * sum(values) == sums).all()


def test_the_longest_burst_stays_in_the_range_of_doubles() -> None:
    assert np.log2(HEADROOM) + np.log2(LARGEST) + LONGEST + np.log2(LONGEST) < 1_000
