"""A sum tree that grows: the mass on one side of a value in O(log n), without knowing the values ahead.

A B-tree with eight slots to a node. A slot of the lowest level is an entry: a value, a serial number that
tells equal values apart, and its mass. A slot above stands for a node, with the least value in it and its
sum. A full node is split on the way down, before it is entered, so that no split goes back up. A sum is, as
in kernel.tree, a few blocks of siblings. Nothing is ever subtracted: halves of a node are summed again, and
an entry that leaves is set to zero and the slots above it summed again; its slot stays until the tree is
cleared.

A *cut* is where values are divided: before all entries of a value, or behind them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.tree import least, total
from trendfold.kernel.vectors import WIDTH
from trendfold.kernel.wide import blend

_HALF = WIDTH // 2

MOST_HEIGHT = 17
"""Nodes but the root are at least half full: enough for 2^32 entries."""


class TreePool(NamedTuple):
    """The nodes of all trees, and where each tree begins.

    value, serial  float64[S], int32[S]  per slot: the entry, or the least one below it
    child          int32[S]   the node a slot stands for
    filled         int32[N]   slots in use per node
    root, height   int32[T]   per tree; its entries are at height 0
    used           int32[1]   nodes in use
    m, e, x        float64[W · S], int32[W · S], float64[X · S]  mass, number after number
    size           uint64     S
    """

    value: NDArray[np.float64]
    serial: NDArray[np.int32]
    child: NDArray[np.int32]
    filled: NDArray[np.int32]
    root: NDArray[np.int32]
    height: NDArray[np.int32]
    used: NDArray[np.int32]
    m: NDArray[np.float64]
    e: NDArray[np.int32]
    x: NDArray[np.float64]
    size: np.uint64


def most_nodes(entries: int, trees: int) -> int:
    """Nodes for so many entries in each tree, whatever their order."""
    return trees * (entries // 3 + 2 * MOST_HEIGHT) if trees else 0


def node_bytes(width: int, extremes: int) -> int:
    """Bytes of one node."""
    return 4 + WIDTH * (8 + 4 + 4 + width * (8 + 4) + extremes * 8)


def make_pool(nodes: int, trees: int, width: int, extremes: int) -> TreePool:
    """Empty trees, with room for so many nodes."""
    slots = nodes * WIDTH
    pool = TreePool(
        value=np.zeros(slots),
        serial=np.zeros(slots, np.int32),
        child=np.zeros(slots, np.int32),
        filled=np.zeros(nodes, np.int32),
        root=np.zeros(trees, np.int32),
        height=np.zeros(trees, np.int32),
        used=np.zeros(1, np.int32),
        m=np.zeros(width * slots),
        e=np.zeros(width * slots, np.int32),
        x=np.full(extremes * slots, np.inf),
        size=np.uint64(slots),
    )
    clear(pool)
    return pool


def is_full(pool: TreePool) -> bool:
    """Whether the next entry might not find room: then the pool must be enlarged."""
    return int(pool.used[0]) + MOST_HEIGHT + 2 > len(pool.filled)


def enlarged(pool: TreePool) -> TreePool:
    """The same trees with twice the room."""

    def twice(array: NDArray[Any], runs: int) -> NDArray[Any]:
        old = array.reshape(runs, -1)
        return np.concatenate([old, np.zeros_like(old)], axis=1).reshape(-1)

    slots = int(pool.size)
    width, extremes = len(pool.m) // slots, len(pool.x) // slots
    return pool._replace(
        value=twice(pool.value, 1),
        serial=twice(pool.serial, 1),
        child=twice(pool.child, 1),
        filled=twice(pool.filled, 1),
        m=twice(pool.m, width),
        e=twice(pool.e, width),
        x=twice(pool.x, extremes) if extremes else pool.x,
        size=np.uint64(2 * slots),
    )


@kernel
def scratch():
    """Scratch for one call: the blocks it visits, and a path down."""
    return np.empty((2 * MOST_HEIGHT, 4), np.uint64), np.empty((2, MOST_HEIGHT), np.int64)


@kernel
def clear(pool):
    """Make all trees empty, in constant time for each."""
    pool.used[0] = pool.root.shape[0]
    for tree in range(pool.root.shape[0]):
        pool.root[tree], pool.height[tree] = tree, 0
        pool.filled[tree] = 0


# ---- Sums -------------------------------------------------------------------------------------------


@kernel
def visit(pool, tree, low, low_behind, high, high_behind, blocks):
    """The blocks whose slots make up the entries between two cuts; returns how many.

    blocks  uint64[., 4]  first slot, slots [1, 2), height
    """
    if not (low < high or (low == high and high_behind and not low_behind)):
        return 0
    node, height = pool.root[tree], pool.height[tree]
    while True:
        first, last = _before(pool, node, low, low_behind), _before(pool, node, high, high_behind)
        if height == 0:
            return _append(blocks, 0, node, first, last, height)
        if last == 0:
            return 0
        if first < last:
            break
        node = pool.child[node * WIDTH + first - 1]
        height -= 1
    count = _append(blocks, 0, node, first, last - 1, height)
    if first > 0:
        count = _visit_behind(
            pool, pool.child[node * WIDTH + first - 1], height - 1, low, low_behind, blocks, count
        )
    return _visit_before(
        pool, pool.child[node * WIDTH + last - 1], height - 1, high, high_behind, blocks, count
    )


@kernel
def _visit_behind(pool, node, height, cut, is_behind, blocks, count):
    """Visit what lies behind a cut, below one node."""
    while True:
        first = _before(pool, node, cut, is_behind)
        count = _append(blocks, count, node, first, pool.filled[node], height)
        if height == 0 or first == 0:
            return count
        node = pool.child[node * WIDTH + first - 1]
        height -= 1


@kernel
def _visit_before(pool, node, height, cut, is_behind, blocks, count):
    """Visit what lies before a cut, below one node."""
    while True:
        last = _before(pool, node, cut, is_behind)
        if height == 0:
            return _append(blocks, count, node, 0, last, height)
        if last == 0:
            return count
        count = _append(blocks, count, node, 0, last - 1, height)
        node = pool.child[node * WIDTH + last - 1]
        height -= 1


@inlined
def _before(pool, node, cut, is_behind):
    """How many slots of a node begin before a cut."""
    first = node * WIDTH
    count = 0
    while count < pool.filled[node] and (
        pool.value[first + count] < cut or (is_behind and pool.value[first + count] == cut)
    ):
        count += 1
    return count


@inlined
def _append(blocks, count, node, low, high, height):
    """Append slots of one node, unless there are none."""
    if low < high:
        blocks[count, 0], blocks[count, 1] = node * WIDTH, low
        blocks[count, 2], blocks[count, 3] = high, height
        count += 1
    return count


@kernel
def occupied(pool, tree, low, low_behind, high, high_behind, blocks, path, serials):
    """The serial numbers of the entries with mass between two cuts, in `serials`; returns how many.

    Only nodes that hold mass are opened, so the cost is that of the entries found.
    """
    count = 0
    for v in range(visit(pool, tree, low, low_behind, high, high_behind, blocks)):
        for lane in range(blocks[v, 1], blocks[v, 2]):
            slot = np.int64(blocks[v, 0]) + np.int64(lane)
            if pool.m[slot] != 0.0:
                count = _open(pool, slot, np.int64(blocks[v, 3]), path, serials, count)
    return count


@kernel
def _open(pool, slot, height, path, serials, count):
    """Append the entries with mass under one slot, depth first."""
    if height == 0:
        serials[count] = pool.serial[slot]
        return count + 1
    at = height - 1
    path[0, at], path[1, at] = pool.child[slot], 0
    while at < height:
        node, lane = path[0, at], path[1, at]
        if lane == pool.filled[node]:
            at += 1
            continue
        path[1, at] += 1
        here = node * WIDTH + lane
        if pool.m[here] == 0.0:
            continue
        if at == 0:
            serials[count] = pool.serial[here]
            count += 1
        else:
            at -= 1
            path[0, at], path[1, at] = pool.child[here], 0
    return count


# ---- Entries ----------------------------------------------------------------------------------------


@kernel
def place(pool, tree, value, serial, work):
    """The slots that an entry's mass goes to, from the root to its own, in `path`; returns how many.

    The entry is made if there is none; the pool must not be full.
    """
    path = work[1][0]
    if pool.filled[pool.root[tree]] == WIDTH:
        _raise_root(pool, tree, work)
    node = pool.root[tree]
    count = 0
    for _ in range(pool.height[tree]):
        slot = node * WIDTH + max(0, _upto(pool, node, value, serial) - 1)
        if pool.filled[pool.child[slot]] == WIDTH:
            _split(pool, node, slot, work)
            slot += not _is_less(value, serial, pool.value[slot + 1], pool.serial[slot + 1])
        if _is_less(value, serial, pool.value[slot], pool.serial[slot]):
            pool.value[slot], pool.serial[slot] = value, serial
        path[count] = slot
        count += 1
        node = pool.child[slot]
    slot = node * WIDTH + _upto(pool, node, value, serial)
    if slot > node * WIDTH and pool.value[slot - 1] == value and pool.serial[slot - 1] == serial:
        path[count] = slot - 1
        return count + 1
    _shift(pool, node, slot)
    pool.value[slot], pool.serial[slot] = value, serial
    _empty(pool, slot)
    path[count] = slot
    return count + 1


@kernel
def put_number(pool, path, count, offset, part_m, part_e):
    """Add to one number along a path."""
    for p in range(count):
        here = np.uint64(path[p]) + offset
        pool.m[here], pool.e[here] = blend(pool.m[here], pool.e[here], part_m, part_e)


@kernel
def put_extreme(pool, path, count, offset, part):
    """Lower one extreme along a path."""
    for p in range(count):
        here = np.uint64(path[p]) + offset
        pool.x[here] = min(pool.x[here], part)


@kernel
def remove(pool, tree, value, serial, work):
    """Set an entry to zero, if there is one, and add up the slots above it again."""
    path = work[1][0]
    node, height = pool.root[tree], pool.height[tree]
    for depth in range(height + 1):
        path[depth] = node * WIDTH + max(0, _upto(pool, node, value, serial) - 1)
        if depth < height:
            node = pool.child[path[depth]]
    slot = path[height]
    if pool.filled[node] == 0 or pool.value[slot] != value or pool.serial[slot] != serial:
        return
    _empty(pool, slot)
    for depth in range(height - 1, -1, -1):
        _add_up(pool, path[depth], work)


@inlined
def _is_less(value, serial, other, other_serial):
    return value < other or (value == other and serial < other_serial)


@inlined
def _upto(pool, node, value, serial):
    """How many slots of a node begin at an entry or before it."""
    first = node * WIDTH
    count = 0
    while count < pool.filled[node] and not _is_less(
        value, serial, pool.value[first + count], pool.serial[first + count]
    ):
        count += 1
    return count


@kernel
def _raise_root(pool, tree, work):
    """Put a node above a root that is full, and split that."""
    below, above = pool.root[tree], _new_node(pool)
    slot = above * WIDTH
    pool.value[slot], pool.serial[slot] = pool.value[below * WIDTH], pool.serial[below * WIDTH]
    pool.child[slot] = below
    pool.filled[above] = 1
    pool.root[tree] = above
    pool.height[tree] += 1
    _split(pool, above, slot, work)


@kernel
def _split(pool, parent, slot, work):
    """Move the upper half of a full node to a new one beside it; the parent has room for it."""
    full, new = pool.child[slot], _new_node(pool)
    for lane in range(_HALF):
        _copy(pool, full * WIDTH + _HALF + lane, new * WIDTH + lane)
    pool.filled[full], pool.filled[new] = _HALF, WIDTH - _HALF
    _shift(pool, parent, slot + 1)
    pool.value[slot + 1], pool.serial[slot + 1] = pool.value[new * WIDTH], pool.serial[new * WIDTH]
    pool.child[slot + 1] = new
    _add_up(pool, slot, work)
    _add_up(pool, slot + 1, work)


@kernel
def _new_node(pool):
    node = pool.used[0]
    pool.used[0] += 1
    pool.filled[node] = 0
    return np.int64(node)


@kernel
def _shift(pool, node, slot):
    """Make room at a slot of a node that is not full."""
    for here in range(node * WIDTH + pool.filled[node], slot, -1):
        _copy(pool, here - 1, here)
    pool.filled[node] += 1


@kernel
def _copy(pool, source, target):
    """Copy one slot to another, with all its numbers."""
    pool.value[target], pool.serial[target] = pool.value[source], pool.serial[source]
    pool.child[target] = pool.child[source]
    offset = np.uint64(0)
    while offset < np.uint64(pool.m.shape[0]):
        here, there = np.uint64(source) + offset, np.uint64(target) + offset
        pool.m[there], pool.e[there] = pool.m[here], pool.e[here]
        offset += pool.size
    offset = np.uint64(0)
    while offset < np.uint64(pool.x.shape[0]):
        pool.x[np.uint64(target) + offset] = pool.x[np.uint64(source) + offset]
        offset += pool.size


@kernel
def _empty(pool, slot):
    here = np.uint64(slot)
    while here < np.uint64(pool.m.shape[0]):
        pool.m[here], pool.e[here] = 0.0, 0
        here += pool.size
    here = np.uint64(slot)
    while here < np.uint64(pool.x.shape[0]):
        pool.x[here] = np.inf
        here += pool.size


@kernel
def _add_up(pool, slot, work):
    """Make a slot the sum of the node it stands for."""
    blocks, _ = work
    node = pool.child[slot]
    count = _append(blocks, 0, node, 0, pool.filled[node], 0)
    offset = np.uint64(0)
    while offset < np.uint64(pool.m.shape[0]):
        here = np.uint64(slot) + offset
        pool.m[here], pool.e[here] = total(pool.m, pool.e, offset, blocks, count)
        offset += pool.size
    offset = np.uint64(0)
    while offset < np.uint64(pool.x.shape[0]):
        pool.x[np.uint64(slot) + offset] = least(pool.x, offset, blocks, count)
        offset += pool.size
