"""The joins of one batch in one kernel: range searches by row number, then conditions pair by pair.

A table of partial matches has a row per match: its first and last row number, then one row number per column.
All comparisons of time are comparisons of row numbers (see detect.row_ranges). The tables of a batch lie one
after the other in one array, the pool: those of leaves first, then those of joins, children before parents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.row_ranges import RowRanges
from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.pairs import holds
from trendfold.kernel.program import Pairs

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
PartialMatches = NDArray[np.int32]
SPAN = 2
"""Columns before those of events: the first and the last row of a partial match."""
LEAF_WIDTH = SPAN + 1


class JoinSteps(NamedTuple):
    """How tables are joined, per join. Columns are numbered as probe's, then sorted's, span included.

    probe, sorted      the slots of the table that is read row by row, and of the one searched for partners
    probe_at, sorted_at  where their columns of events go in the result
    key                the column that `sorted` is sorted by, numbered in itself
    window             which of the reaches
    X_start            int32[n+1]   where the entries of a join begin, for X in
    after              int32[]      columns of probe whose events come before the key's
    before             int32[]      columns of probe whose events come after the key's
    order              int32[, 2]   the other pairs (a, b) where a comes before b
    apart              int32[, 2]   pairs that must not be one event
    asked              int32[, 3]   (condition, column of its left event, column of its right event)
    guards             int32[, 3]   (guard, column before it, column after it)
    """

    probe: Ints
    sorted: Ints
    probe_at: Ints
    sorted_at: Ints
    key: Ints
    window: Ints
    after_start: Ints
    after: Ints
    before_start: Ints
    before: Ints
    order_start: Ints
    order: Ints
    apart_start: Ints
    apart: Ints
    asked_start: Ints
    asked: Ints
    guards_start: Ints
    guards: Ints


class JoinSlots(NamedTuple):
    """The tables of a batch: those of leaves, then those of joins.

    window             int32[s]    which of the reaches
    width              int32[s]    columns, span included
    leaf_start, leaf   the rows of every leaf, in order
    """

    window: Ints
    width: Ints
    leaf_start: Longs
    leaf: Ints


class PoolTables(NamedTuple):
    """Where the tables of a batch lie in the pool: `old` rows that ended before the batch, then `new` ones.

    made, looked  int64[s]  partial matches made (of a leaf: rows) and pairs compared, per slot
    """

    begin: Longs
    old: Longs
    new: Longs
    made: Longs
    looked: Longs


class JoinedRows(NamedTuple):
    """The columns that joins read.

    low, high  int32[w, n]  how far each window reaches from a row
    pairs      conditions on two events
    latest     int32[G, m]  see JoinInput
    """

    ranges: RowRanges
    low: Ints
    high: Ints
    pairs: Pairs
    latest: Ints


class JoinSide(NamedTuple):
    """A table of partial matches, flat, and its columns."""

    table: Ints
    width: int


@kernel
def join_batch(low, high, steps, slots, rows, most, kept, tables, pool):
    """Make all tables of the rows [low, high); returns the pool, which may have grown, and its used length.

    The used length is -1 if more than `most` partial matches would be made. `kept` has the old partial
    matches of all joins, one after the other, and `tables.old` how many of them every slot has.

    steps, slots  JoinSteps, JoinSlots: the program; rows  JoinedRows
    """
    leaves = slots.leaf_start.shape[0] - 1
    pool, used = _load_leaves(low, high, slots, rows.low, tables, pool)
    room, taken = most, 0
    stacks = _stacks(rows.pairs)
    for n in range(steps.probe.shape[0]):
        s = leaves + n
        tables.begin[s], tables.new[s], tables.looked[s] = used, 0, 0
        size = slots.width[s] * tables.old[s]
        pool = _grown(pool, used, used + size)
        pool[used : used + size] = kept[taken : taken + size]
        taken += size
        used += size
        asked = _comparisons(n, steps, slots.width[steps.probe[n]], rows.pairs)
        for turn in range(2):
            left, right = _sides(turn, n, steps, slots, tables, pool)
            if left.table.shape[0] == 0 or right.table.shape[0] == 0:
                continue
            found, looked, pool = _join(n, left, right, steps, asked, rows, stacks, room, pool, used)
            tables.looked[s] += looked
            if found < 0:
                return pool, -1
            room -= found
            used += slots.width[s] * found
            tables.new[s] += found
        tables.made[s] = tables.new[s]
    return pool, used


@kernel
def join_block(n, left, right, steps, slots, rows, most):
    """Join two tables by step n; returns how many rows, or -1 if more than `most`, and the rows."""
    ours, theirs = slots.width[steps.probe[n]], slots.width[steps.sorted[n]]
    sides = JoinSide(left, ours), JoinSide(right, theirs)
    asked, stacks = _comparisons(n, steps, ours, rows.pairs), _stacks(rows.pairs)
    found, _, pool = _join(n, *sides, steps, asked, rows, stacks, most, np.empty(256, np.int32), 0)
    return found, pool


@inlined
def _stacks(pairs):
    """Scratch memory for conditions that are expressions."""
    return np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)


@kernel
def keep_alive(high, slots, is_joined, reach_high, tables, pool):
    """The partial matches that a row from `high` on can still join, one slot after the other; how many.

    Only of joins that another join reads. From here on, `tables.old` is the number kept per slot.
    """
    total, used = 0, 0
    leaves = slots.leaf_start.shape[0] - 1
    for s in range(leaves, slots.width.shape[0]):
        if is_joined[s]:
            total += slots.width[s] * (tables.old[s] + tables.new[s])
    kept, alive = np.empty(total, np.int32), 0
    for s in range(leaves, slots.width.shape[0]):
        width, ends, count = slots.width[s], reach_high[slots.window[s]], 0
        for i in range(tables.old[s] + tables.new[s] if is_joined[s] else 0):
            at = tables.begin[s] + width * i
            if ends[pool[at]] > high:
                kept[used : used + width] = pool[at : at + width]
                used += width
                count += 1
        tables.old[s] = count
        alive += count
    return kept[:used].copy(), alive


# ---------------------------------------------------------------- the tables of a batch


@kernel
def _load_leaves(low, high, slots, reach_low, tables, pool):
    """Write the tables of leaves: rows before `low` that a window reaches are old, the others new."""
    used = 0
    for s in range(slots.leaf_start.shape[0] - 1):
        first, last = slots.leaf_start[s], slots.leaf_start[s + 1]
        begin = _search(slots.leaf, first, last, reach_low[slots.window[s], low])
        start = _search(slots.leaf, begin, last, low)
        stop = _search(slots.leaf, start, last, high)
        pool = _grown(pool, used, used + LEAF_WIDTH * (stop - begin))
        tables.begin[s], tables.old[s], tables.new[s] = used, start - begin, stop - start
        tables.made[s] = stop - start
        for i in range(begin, stop):
            row = slots.leaf[i]
            pool[used], pool[used + 1], pool[used + 2] = row, row, row
            used += LEAF_WIDTH
    return pool, used


@kernel
def _sides(turn, n, steps, slots, tables, pool):
    """The two tables of a turn: first new with all, then old with new."""
    p, q = steps.probe[n], steps.sorted[n]
    ours, theirs = slots.width[p], slots.width[q]
    begin, count = tables.begin[p] + ours * tables.old[p], tables.new[p]
    at, size = tables.begin[q], tables.old[q] + tables.new[q]
    if turn == 1:
        begin, count = tables.begin[p], tables.old[p]
        at, size = tables.begin[q] + theirs * tables.old[q], tables.new[q]
    left, right = pool[begin : begin + ours * count], pool[at : at + theirs * size]
    if theirs > LEAF_WIDTH and count > 0 and size > 0:  # the rows of a leaf are in order
        right = _sorted(right, theirs, steps.key[n])
    return JoinSide(left, ours), JoinSide(right, theirs)


@kernel
def _search(values, first, last, wanted):
    """The first index in [first, last) whose value is at least `wanted`, or else `last`."""
    while first < last:
        middle = (first + last) >> 1
        if values[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _grown(pool, used, needed):
    """The pool, or a longer copy of its used part."""
    if needed <= pool.shape[0]:
        return pool
    grown = np.empty(max(2 * pool.shape[0], needed), np.int32)
    grown[:used] = pool[:used]
    return grown


@kernel
def _sorted(table, width, key):
    """A table sorted by one of its columns."""
    count = table.shape[0] // width
    keys = np.empty(count, np.int32)
    for i in range(count):
        keys[i] = table[i * width + key]
    order = np.argsort(keys)
    found = np.empty_like(table)
    for i in range(count):
        found[i * width : (i + 1) * width] = table[order[i] * width : (order[i] + 1) * width]
    return found


# ---------------------------------------------------------------- one join


class Comparisons(NamedTuple):
    """The conditions of one join, taken apart; `value` holds the probe side of plain comparisons.

    condition    int32[c]  its number in `pairs`
    op           int32[c]  its comparison of two columns (kernel.pairs), or 0 if it is an expression
    is_onward    bool[c]   whether the probe side is its left side
    mine, theirs int32[c]  the columns of the two events, each in its own table
    my_float, their_float  int32[c]  the attributes that `op` compares
    """

    condition: Ints
    op: Ints
    is_onward: NDArray[np.bool_]
    mine: Ints
    theirs: Ints
    my_float: Ints
    their_float: Ints
    value: NDArray[np.float64]


@kernel
def _join(n, probe, partners, steps, asked, rows, stacks, most, pool, used):
    """Join two tables into the pool: how many rows, or -1 if more than `most`; pairs compared; the pool.

    probe, partners  JoinSide     the tables of probe and of sorted
    asked            Comparisons; stacks: scratch memory for conditions that are expressions
    used             where in the pool the first row goes

    For every row of `left`, order and window leave a range of key values: [floor, ceiling). The rows of
    `right` in this range are its partners; a row is written only if all conditions hold.

    The steps of the loop are inlined and their arrays are lent: as calls, they count references to every
    array for every pair, and joins take 8 to 17 times as long. For the same reason the pool grows once per
    row of `left`, not where a row is written.
    """
    (left, wide), (right, narrow) = probe, partners
    low, high, latest = rows.low[steps.window[n]], rows.high[steps.window[n]], rows.latest
    found, looked, width, key = 0, 0, wide + narrow - SPAN, steps.key[n]
    orders = steps.order[steps.order_start[n] : steps.order_start[n + 1]]
    aparts = steps.apart[steps.apart_start[n] : steps.apart_start[n + 1]]
    guards = steps.guards[steps.guards_start[n] : steps.guards_start[n + 1]]
    after = steps.after[steps.after_start[n] : steps.after_start[n + 1]]
    before = steps.before[steps.before_start[n] : steps.before_start[n + 1]]
    probe_at, sorted_at = steps.probe_at[n], steps.sorted_at[n]
    asked, ranges, pairs, stacks = lent(asked), lent(rows.ranges), lent(rows.pairs), lent(stacks)
    left, right, low, high, after, before = lent((left, right, low, high, after, before))
    orders, aparts, guards, latest = lent((orders, aparts, guards, latest))
    for i in range(0, left.shape[0], wide):
        floor, ceiling = _key_range(left, i, after, before, ranges, low, high)
        if floor >= ceiling:
            continue
        start = _first_partner(right, narrow, key, floor)
        stop = start
        while stop < right.shape[0] and right[stop + key] < ceiling:
            stop += narrow
        count = (stop - start) // narrow
        looked += count
        if used + width * count > pool.shape[0]:
            pool = _grown(pool, used, used + width * min(count, most - found))
        _read_values(asked, left, i, pairs)
        for j in range(start, stop, narrow):
            begin, end = min(left[i], right[j]), max(left[i + 1], right[j + 1])
            if (
                end < high[begin]
                and _is_ordered(orders, left, i, right, j, wide, ranges.after)
                and _is_apart(aparts, left, i, right, j, wide)
                and _all_hold(asked, left, i, right, j, pairs, stacks)
                and _is_unbroken(guards, left, i, right, j, wide, ranges.moment, latest)
            ):
                if found == most:
                    return -1, looked, pool
                pool[used], pool[used + 1] = begin, end
                for k in range(SPAN, wide):
                    pool[used + probe_at + k] = left[i + k]
                for k in range(SPAN, narrow):
                    pool[used + sorted_at + k] = right[j + k]
                used += width
                found += 1
    return found, looked, pool


@kernel
def _comparisons(n, steps, wide, pairs):
    """The conditions of step n, whose probe side has `wide` columns."""
    asked = steps.asked[steps.asked_start[n] : steps.asked_start[n + 1]]
    count = asked.shape[0]
    found = Comparisons(
        asked[:, 0].copy(),
        np.empty(count, np.int32),
        np.empty(count, np.bool_),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count),
    )
    for k in range(count):
        c, x, y = asked[k, 0], asked[k, 1], asked[k, 2]
        is_onward = x < wide
        found.op[k], found.is_onward[k] = pairs.compare[c], is_onward
        found.mine[k], found.theirs[k] = (x, y - wide + SPAN) if is_onward else (y, x - wide + SPAN)
        found.my_float[k] = pairs.left[c] if is_onward else pairs.right[c]
        found.their_float[k] = pairs.right[c] if is_onward else pairs.left[c]
    return found


@inlined
def _key_range(left, i, after, before, ranges, low, high):
    """The rows that the key's event can be, for the partial match at `i`: [floor, ceiling)."""
    floor, ceiling = low[left[i + 1]], high[left[i]]
    for k in range(after.shape[0]):
        floor = max(floor, ranges.after[left[i + after[k]]])
    for k in range(before.shape[0]):
        ceiling = min(ceiling, ranges.first[left[i + before[k]]])
    return floor, ceiling


@inlined
def _first_partner(right, narrow, key, floor):
    """Where the first row of the sorted table whose key is at least `floor` begins, or the table's end."""
    a, b = 0, right.shape[0] // narrow
    while a < b:
        middle = (a + b) >> 1
        if right[middle * narrow + key] < floor:
            a = middle + 1
        else:
            b = middle
    return a * narrow


@inlined
def _read_values(asked, left, i, pairs):
    """Read the probe side of plain comparisons, once for all partners."""
    for k in range(asked.op.shape[0]):
        if asked.op[k] != 0:
            asked.value[k] = pairs.floats[asked.my_float[k], left[i + asked.mine[k]]]


@inlined
def _row_at(column, left, i, right, j, wide):
    """The row number in a column of a pair; columns are numbered as in JoinSteps."""
    return left[i + column] if column < wide else right[j + column - wide + SPAN]


@inlined
def _is_ordered(orders, left, i, right, j, wide, after):
    for k in range(orders.shape[0]):
        x = _row_at(orders[k, 0], left, i, right, j, wide)
        y = _row_at(orders[k, 1], left, i, right, j, wide)
        if after[x] > y:
            return False
    return True


@inlined
def _is_apart(aparts, left, i, right, j, wide):
    """Whether events that must differ do; of each pair of columns, one is in each table."""
    for k in range(aparts.shape[0]):
        x, y = aparts[k, 0], aparts[k, 1]
        if left[i + min(x, y)] == right[j + max(x, y) - wide + SPAN]:
            return False
    return True


@inlined
def _all_hold(asked, left, i, right, j, pairs, stacks):
    """Whether all conditions on two events hold."""
    for k in range(asked.op.shape[0]):
        if asked.op[k] != 0:
            other = pairs.floats[asked.their_float[k], right[j + asked.theirs[k]]]
            one = asked.value[k]
            fits = _holds(asked.op[k], one, other) if asked.is_onward[k] else _holds(asked.op[k], other, one)
        else:
            x, y = left[i + asked.mine[k]], right[j + asked.theirs[k]]
            if not asked.is_onward[k]:
                x, y = y, x
            fits = holds(pairs, asked.condition[k], x, y, stacks[0], stacks[1], stacks[2])
        if not fits:
            return False
    return True


@inlined
def _is_unbroken(guards, left, i, right, j, wide, moment, latest):
    """Whether no trend of a NOT lies between the two events it stands between."""
    for k in range(guards.shape[0]):
        x = _row_at(guards[k, 1], left, i, right, j, wide)
        y = _row_at(guards[k, 2], left, i, right, j, wide)
        if latest[guards[k, 0], moment[y] - 1] > moment[x]:
            return False
    return True


@kernel
def _holds(op, left, right):
    """Whether a comparison of two columns holds (kernel.pairs); NaN is null, for which none does."""
    if op == 3:
        return left < right
    if op == 4:
        return left <= right
    if op == 5:
        return left > right
    if op == 6:
        return left >= right
    if op == 1:
        return left == right
    return left < right or left > right
