"""Sets of leaves: every stretch gives the leaves that are in it, in order."""

from __future__ import annotations

import random

import numpy as np
import pytest

from trendfold.kernel import bits
from trendfold.kernel.tree import EMPTY, OPEN


@pytest.mark.parametrize("leaves", [1, 62, 63, 64, 4_000, 300_000])
def test_leaves_come_in_order(leaves: int) -> None:
    rng = random.Random(leaves)
    sizes = bits.level_sizes(leaves)
    start = np.zeros(bits.MOST_LEVELS, np.uint64)
    start[: len(sizes)] = np.cumsum([0, *sizes[:-1]])
    words = np.zeros(sum(sizes), np.uint64)
    where = start, np.uint64(0), np.uint64(len(sizes))
    held: set[int] = set()

    def between(low: int, high: int) -> list[int]:
        found = []
        leaf = bits.next_between(words, *where, low, high)
        while leaf:
            found.append(int(leaf))
            leaf = bits.next_between(words, *where, leaf, high)
        return found

    for _ in range(300):
        leaf = rng.choice([1, leaves, rng.randint(1, leaves)])
        if rng.random() < 0.6:
            bits.take(words, *where, leaf)
            held.add(leaf)
        else:
            bits.leave(words, *where, leaf)
            held.discard(leaf)
        low, high = sorted((rng.randint(0, leaves + 1), rng.randint(1, leaves + 1)))
        assert between(low, high) == sorted(x for x in held if low < x < high)
        assert between(OPEN, OPEN) == sorted(held)
        assert between(leaf - 1, leaf + 1) == [leaf] * (leaf in held)
        assert between(EMPTY, high) == []
