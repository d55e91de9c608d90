"""A set of leaves in order, as bits: which bindings are not continued yet, under *next*.

Under *next* an event uses up the bindings that it continues, so it may visit them one by one: each binding is
visited once. That needs the next leaf of the set only: a bit per leaf, a bit per word of those, and so on, so
that any of 64^4 leaves is four words away. See kernel.tree for how `start` and
`at` tell the levels of many sets apart; leaf 0 is never used, and stands for none.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.simd import trailing_zeros
from trendfold.kernel.tree import EMPTY, OPEN

MOST_LEVELS = 6
"""Enough for 2^36 leaves."""
_MOST, _BITS, _LAST = np.uint64(MOST_LEVELS), np.uint64(6), np.uint64(63)
_NONE, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)


def level_sizes(leaves: int) -> list[int]:
    """How many words each level needs."""
    sizes = [_words(leaves + 2)]
    while sizes[-1] > 1:
        sizes.append(_words(sizes[-1]))
    return sizes


def _words(bits: int) -> int:
    return -(-bits // 64)


@inlined
def first_word(tree):
    """Where the levels of a set stand in `start`."""
    return np.uint64(tree) * _MOST


@kernel
def take(words, start, at, levels, leaf):
    """Put a leaf into the set."""
    node = np.uint64(leaf)
    for level in range(levels):
        here = start[at + level] + (node >> _BITS)
        before = words[here]
        words[here] = before | (_ONE << (node & _LAST))
        if before != _NONE:
            return
        node >>= _BITS


@kernel
def leave(words, start, at, levels, leaf):
    """Take a leaf out of the set, if it is there."""
    node = np.uint64(leaf)
    for level in range(levels):
        here = start[at + level] + (node >> _BITS)
        words[here] &= ~(_ONE << (node & _LAST))
        if words[here] != _NONE:
            return
        node >>= _BITS


@kernel
def next_between(words, start, at, levels, low, high):
    """The first leaf of the set strictly between two (see kernel.tree), or 0."""
    if low == EMPTY:
        return _NONE
    node = np.uint64(low)
    for level in range(levels):
        # Bits above the node's own; a shift by 64 in two steps.
        above = words[start[at + level] + (node >> _BITS)] & ~((_TWO << (node & _LAST)) - _ONE)
        if above != _NONE:
            node = (node & ~_LAST) | trailing_zeros(above)
            for down in range(level):
                node = (node << _BITS) | trailing_zeros(words[start[at + level - _ONE - down] + node])
            return node if high == OPEN or node < np.uint64(high) else _NONE
        node >>= _BITS
    return _NONE
