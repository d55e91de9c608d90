"""A sum tree over ranks: how much mass lies on one side of a value, in O(log n).

Leaves are ranks, numbered from 1; a node is the sum of the eight below it, so that each level is one block of
siblings, a cache line of mantissas. Adding to a leaf adds to one node per level. The sum right of a leaf is, level
by level, that of the siblings right of its node; the sum left of it likewise. Nothing is ever subtracted: what leaves
is set to zero, and the nodes above are added up again.

A tree's nodes are a tuple (mantissa float64[W,N], exponent int32[W,N], extreme float64[X,N]), all trees of a query
together; `start` uint64[L] says where the levels of one begin. Zero has the exponent 0.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.simd import LANES, add_lanes, raise_tops
from trendfold.kernel.wide import add, normalise

BITS = 3
_BITS, _LANE, _ONE, _NONE = np.uint64(BITS), np.uint64(LANES - 1), np.uint64(1), np.uint64(0)
_LANES = np.uint64(LANES)

OPEN = 0
"""No bound on this side: leaf 0 is never used."""
POINT = -1
"""Instead of an upper bound: exactly the leaf named as the lower one."""
EMPTY = -1
"""Instead of a lower bound: no leaf at all."""

MOST_LEVELS = 11
"""Enough for 2^32 leaves."""


def level_sizes(leaves: int, is_flat: bool) -> list[int]:
    """How many nodes each level needs, in whole blocks; a flat tree has leaves only."""
    sizes = [_blocks(leaves + 2) * LANES]
    while sizes[-1] > LANES and not is_flat:
        sizes.append(_blocks(sizes[-1] // LANES) * LANES)
    return sizes


def _blocks(nodes: int) -> int:
    return -(-nodes // LANES)


@kernel
def scratch():
    """What one sum needs: the blocks it visits, their exponents, their sums, and a path down."""
    return (
        np.empty((2 * MOST_LEVELS, 4), np.uint64),
        np.empty(LANES, np.int32),
        np.empty(LANES),
        np.empty((2, MOST_LEVELS), np.uint64),
    )


@kernel
def visit(start, levels, low, high, blocks):
    """The blocks whose lanes make up the leaves strictly between `low` and `high`; returns how many.

    blocks  uint64[., 4]  first node, lanes [1, 2), level
    """
    if low == EMPTY:
        return 0
    a, b = np.uint64(low), np.uint64(high)
    if high == POINT:
        return _visit_block(blocks, 0, start[0], a, a & _LANE, (a & _LANE) + _ONE, _NONE)
    count = 0
    if high == OPEN:
        for level in range(levels):
            count = _visit_block(blocks, count, start[level], a, (a & _LANE) + _ONE, _LANES, level)
            a >>= _BITS
        return count
    if low == OPEN:
        for level in range(levels):
            count = _visit_block(blocks, count, start[level], b, _NONE, b & _LANE, level)
            b >>= _BITS
        return count
    for level in range(levels):
        if a >> _BITS == b >> _BITS:
            return _visit_block(blocks, count, start[level], a, (a & _LANE) + _ONE, b & _LANE, level)
        count = _visit_block(blocks, count, start[level], a, (a & _LANE) + _ONE, _LANES, level)
        count = _visit_block(blocks, count, start[level], b, _NONE, b & _LANE, level)
        a >>= _BITS
        b >>= _BITS
    return count


@inlined
def _visit_block(blocks, count, start, node, low, high, level):
    blocks[count, 0] = start + (node & ~_LANE)
    blocks[count, 1] = low
    blocks[count, 2] = high
    blocks[count, 3] = level
    return count + 1


@kernel
def total(mantissa, exponent, blocks, count, tops, sums):
    """The sum of one number, flat arrays, over blocks."""
    for lane in range(LANES):
        tops[lane] = 0
        sums[lane] = 0.0
    for v in range(count):
        raise_tops(exponent, blocks[v, 0], blocks[v, 1], blocks[v, 2], tops)
    top = np.int32(0)
    for lane in range(LANES):
        top = max(top, tops[lane])
    for v in range(count):
        add_lanes(mantissa, exponent, blocks[v, 0], blocks[v, 1], blocks[v, 2], top, sums)
    whole = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    return normalise(whole, top)


@kernel
def least(extreme, blocks, count):
    """The least of one extreme over blocks."""
    found = np.inf
    for v in range(count):
        for lane in range(blocks[v, 1], blocks[v, 2]):
            found = min(found, extreme[blocks[v, 0] + lane])
    return found


@kernel
def take(nodes, start, levels, low, high, work, sum_m, sum_e, best):
    """Add the mass of the leaves strictly between `low` and `high` to a vector; whether there is any."""
    blocks, tops, sums, _ = work
    count = visit(start, levels, low, high, blocks)
    if count == 0:
        return False
    found = False
    for w in range(sum_m.shape[0]):
        m, e = total(nodes[0][w], nodes[1][w], blocks, count, tops, sums)
        if w == 0:
            if m == 0.0:
                return False
            found = True
        sum_m[w], sum_e[w] = add(sum_m[w], sum_e[w], m, e)
    for x in range(best.shape[0]):
        best[x] = min(best[x], least(nodes[2][x], blocks, count))
    return found


@kernel
def put(nodes, start, levels, leaf, sum_m, sum_e, best):
    """Add a vector to a leaf, and to all nodes above it."""
    mantissa, exponent, extreme = nodes
    node = np.uint64(leaf)
    for level in range(levels):
        at = start[level] + node
        for w in range(sum_m.shape[0]):
            m, e = add(mantissa[w, at], exponent[w, at], sum_m[w], sum_e[w])
            mantissa[w, at], exponent[w, at] = m, e if m != 0.0 else np.int32(0)
        for x in range(best.shape[0]):
            extreme[x, at] = min(extreme[x, at], best[x])
        node >>= _BITS


@kernel
def empty_path(nodes, start, levels, leaf):
    """Set a leaf and all nodes above it to zero: when everything goes, in any order."""
    node = np.uint64(leaf)
    for level in range(levels):
        _empty_node(nodes, start[level] + node)
        node >>= _BITS


@inlined
def _empty_node(nodes, at):
    for w in range(nodes[0].shape[0]):
        nodes[0][w, at] = 0.0
        nodes[1][w, at] = 0
    for x in range(nodes[2].shape[0]):
        nodes[2][x, at] = np.inf


@kernel
def remove(nodes, start, levels, leaf, work):
    """Set a leaf to zero, and add up the nodes above it again."""
    mantissa, exponent, extreme = nodes
    blocks, tops, sums, _ = work
    node = np.uint64(leaf)
    _empty_node(nodes, start[0] + node)
    for level in range(1, levels):
        _visit_block(blocks, 0, start[level - 1], node, _NONE, _LANES, _NONE)
        node >>= _BITS
        at = start[level] + node
        for w in range(mantissa.shape[0]):
            m, e = total(mantissa[w], exponent[w], blocks, 1, tops, sums)
            mantissa[w, at], exponent[w, at] = m, e if m != 0.0 else np.int32(0)
        for x in range(extreme.shape[0]):
            extreme[x, at] = least(extreme[x], blocks, 1)


@kernel
def occupied(nodes, start, levels, low, high, work, leaves):
    """The leaves strictly between `low` and `high` that hold mass, in `leaves`; returns how many.

    Only nodes that hold mass are opened, so the cost is that of the leaves found.
    """
    blocks = work[0]
    visited = visit(start, levels, low, high, blocks)
    count = 0
    for v in range(visited):
        level = np.int64(blocks[v, 3])
        for lane in range(blocks[v, 1], blocks[v, 2]):
            at = blocks[v, 0] + lane
            if nodes[0][0, at] != 0.0:
                count = _open(nodes, start, level, at - start[level], work[3], leaves, count)
    return count


@kernel
def _open(nodes, start, level, node, path, leaves, count):
    """Append the leaves with mass under one node, depth first."""
    if level == 0:
        leaves[count] = node
        return count + 1
    here, lane = path
    depth = level - 1
    here[depth], lane[depth] = node << _BITS, 0
    while depth < level:
        if lane[depth] == _LANES:
            depth += 1
            continue
        child = here[depth] + lane[depth]
        lane[depth] += _ONE
        if nodes[0][0, start[depth] + child] == 0.0:
            continue
        if depth == 0:
            leaves[count] = child
            count += 1
        else:
            depth -= 1
            here[depth], lane[depth] = child << _BITS, 0
    return count
