"""A sum tree over ranks: how much mass lies on one side of a value, in O(log n).

Leaves are ranks, numbered from 1; a node is the sum of the eight below it, so that each level is one block of
siblings, a cache line of mantissas. Adding to a leaf adds to one node per level. The sum right of a leaf is,
level by level, that of the siblings right of its node; the sum left of it likewise. Nothing is ever
subtracted: a leaf that leaves is set to zero, and the nodes above are summed again.

The nodes of all trees of a query lie together: `m` float64[W · size] and `e` int32[W · size] hold a wide
number per node, number after number, and `x` float64[X · size] its extremes. Where the levels of a tree begin
is in `start` uint64, from `at` on. Arrays are flat: making a view of a row costs more than the sum.
Zero has the exponent 0.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.simd import sum_blocks, top_of_blocks
from trendfold.kernel.vectors import WIDTH
from trendfold.kernel.wide import blend, normalise

BITS = 3
_BITS, _SLOT, _ONE, _NONE = np.uint64(BITS), np.uint64(WIDTH - 1), np.uint64(1), np.uint64(0)
_WIDTH = np.uint64(WIDTH)

OPEN = 0
"""No bound on this side: leaf 0 is never used."""
EMPTY = -1
"""Instead of a lower bound: no leaf at all."""

MOST_LEVELS = 11
"""Enough for 2^32 leaves."""
_MOST = np.uint64(MOST_LEVELS)


@inlined
def first_level(tree):
    """Where the levels of a tree stand in `start`; unsigned, like everything that is added to it."""
    return np.uint64(tree) * _MOST


def level_sizes(leaves: int, is_flat: bool) -> list[int]:
    """How many nodes each level needs, in whole blocks; a flat tree has leaves only."""
    sizes = [_blocks(leaves + 2) * WIDTH]
    while sizes[-1] > WIDTH and not is_flat:
        sizes.append(_blocks(sizes[-1] // WIDTH) * WIDTH)
    return sizes


def _blocks(nodes: int) -> int:
    return -(-nodes // WIDTH)


@kernel
def scratch():
    """Scratch for one sum: the blocks it visits."""
    return np.empty((2 * MOST_LEVELS, 4), np.uint64)


@kernel
def visit(start, at, levels, low, high, blocks):
    """The blocks whose slots make up the leaves strictly between `low` and `high`; returns how many.

    blocks  uint64[., 4]  first node, slots [1, 2), level
    """
    if low == EMPTY:
        return 0
    a, b = np.uint64(low), np.uint64(high)
    count = 0
    if high == OPEN:
        for level in range(levels):
            count = _visit_block(blocks, count, start[at + level], a, (a & _SLOT) + _ONE, _WIDTH, level)
            a >>= _BITS
        return count
    if low == OPEN:
        for level in range(levels):
            count = _visit_block(blocks, count, start[at + level], b, _NONE, b & _SLOT, level)
            b >>= _BITS
        return count
    for level in range(levels):
        if a >> _BITS == b >> _BITS:
            return _visit_block(blocks, count, start[at + level], a, (a & _SLOT) + _ONE, b & _SLOT, level)
        count = _visit_block(blocks, count, start[at + level], a, (a & _SLOT) + _ONE, _WIDTH, level)
        count = _visit_block(blocks, count, start[at + level], b, _NONE, b & _SLOT, level)
        a >>= _BITS
        b >>= _BITS
    return count


@inlined
def _visit_block(blocks, count, start, node, low, high, level):
    blocks[count, 0] = start + (node & ~_SLOT)
    blocks[count, 1] = low
    blocks[count, 2] = high
    blocks[count, 3] = level
    return count + 1


@inlined
def total(m, e, offset, blocks, count):
    """The sum over blocks of the number whose nodes begin at `offset`."""
    top = top_of_blocks(e, offset, blocks, count)
    whole, top = normalise(sum_blocks(m, e, offset, blocks, count, top), top)
    return whole, top if whole != 0.0 else np.int32(0)


@kernel
def least(x, offset, blocks, count):
    """The least over blocks of the extreme whose nodes begin at `offset`."""
    found = np.inf
    for v in range(count):
        for slot in range(blocks[v, 1], blocks[v, 2]):
            found = min(found, x[offset + blocks[v, 0] + slot])
    return found


@kernel
def put_number(m, e, start, at, levels, leaf, offset, part_m, part_e):
    """Add to one number of a leaf, and of all nodes above it."""
    node = np.uint64(leaf)
    for level in range(levels):
        here = start[at + level] + node + offset
        m[here], e[here] = blend(m[here], e[here], part_m, part_e)
        node >>= _BITS


@kernel
def put_extreme(x, start, at, levels, leaf, offset, least):
    """Lower one extreme of a leaf, and of all nodes above it."""
    node = np.uint64(leaf)
    for level in range(levels):
        here = start[at + level] + node + offset
        x[here] = min(x[here], least)
        node >>= _BITS


@kernel
def empty_path(m, e, x, size, start, at, levels, leaf):
    """Set a leaf and all nodes above it to zero, for emptying a whole tree."""
    node = np.uint64(leaf)
    for level in range(levels):
        empty_node(m, e, x, size, start[at + level] + node)
        node >>= _BITS


@inlined
def empty_node(m, e, x, size, node):
    """Set all numbers of a node to zero."""
    here = node  # no range: it would divide to know how often
    while here < np.uint64(m.shape[0]):
        m[here], e[here] = 0.0, 0
        here += size
    here = node
    while here < np.uint64(x.shape[0]):
        x[here] = np.inf
        here += size


@kernel
def remove(m, e, x, size, start, at, levels, leaf, blocks):
    """Set a leaf to zero, and add up the nodes above it again."""
    node = np.uint64(leaf)
    empty_node(m, e, x, size, start[at] + node)
    for level in range(_ONE, levels):
        _visit_block(blocks, 0, start[at + level - _ONE], node, _NONE, _WIDTH, _NONE)
        node >>= _BITS
        here = start[at + level] + node
        _add_up(m, e, x, size, here, blocks)


@inlined
def _add_up(m, e, x, size, node, blocks):
    """Make a node the sum of the one block in `blocks`."""
    offset = _NONE
    while offset < np.uint64(m.shape[0]):
        m[node + offset], e[node + offset] = total(m, e, offset, blocks, 1)
        offset += size
    offset = _NONE
    while offset < np.uint64(x.shape[0]):
        x[node + offset] = least(x, offset, blocks, 1)
        offset += size
