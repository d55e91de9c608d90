"""The joins of one batch in one kernel: new against old, by ranges of rows, order, window and conditions.

A table of partial matches has a row per match: its first and last row, then one row number per column. All
comparisons of time are comparisons of row numbers (see detect.space). The tables of a batch stand behind each
other in one array, the pool; those of leaves first, then those of joins, children before their parents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import holds

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Table = NDArray[np.int32]
SPAN = 2
"""Columns before those of events: the first and the last row of a partial match."""


class Steps(NamedTuple):
    """How tables are joined, per join. Columns are numbered as probe's, then sorted's, span included.

    probe, sorted      the table that is asked row by row, and the one in which its partners are found
    probe_at, sorted_at  where their columns of events go in the result
    key                the column of `sorted` that it is sorted by, numbered in itself
    window             which of the reaches
    X_start            int32[n+1]   where the entries of a join begin, for X in
    after              int32[]      columns of probe whose events come before the key's
    before             int32[]      ... and after it
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


class Slots(NamedTuple):
    """The tables of a batch: those of leaves, then those of joins.

    window             int32[s]    which of the reaches
    width              int32[s]    columns, span included
    leaf_start, leaf   the rows of every leaf, in order
    """

    window: Ints
    width: Ints
    leaf_start: Longs
    leaf: Ints


class Tables(NamedTuple):
    """Where a batch's tables are in its pool: `old` rows that ended before, then `new` ones.

    made, looked  int64[s]  partial matches made (rows, of a leaf), and pairs looked at, per slot
    """

    begin: Longs
    old: Longs
    new: Longs
    made: Longs
    looked: Longs


@kernel
def join_batch(
    low, high, steps, slots, space, reach_low, reach_high, pairs, latest, most, kept, tables, pool
):
    """Make all tables of the rows [low, high); the pool, which may have grown, and what is used of it.

    Returns -1 for the latter if more than `most` partial matches would be made. `kept` is the pool of the
    batch before, compact, and `tables.old` says how much of it every slot has.
    """
    used, leaves = 0, slots.leaf_start.shape[0] - 1
    for s in range(leaves):
        first, last = slots.leaf_start[s], slots.leaf_start[s + 1]
        begin = _search(slots.leaf, first, last, reach_low[slots.window[s], low])
        start = _search(slots.leaf, begin, last, low)
        stop = _search(slots.leaf, start, last, high)
        size = stop - begin
        pool = _room(pool, used, used + 3 * size)
        for i in range(size):
            row = slots.leaf[begin + i]
            pool[used + 3 * i], pool[used + 3 * i + 1], pool[used + 3 * i + 2] = row, row, row
        tables.begin[s], tables.old[s], tables.new[s] = used, start - begin, stop - start
        tables.made[s] = stop - start
        used += 3 * size
    room, taken = most, 0
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    for n in range(steps.probe.shape[0]):
        s = leaves + n
        width, old = slots.width[s], tables.old[s]
        tables.begin[s], tables.new[s], tables.looked[s] = used, 0, 0
        pool = _room(pool, used, used + width * old)
        pool[used : used + width * old] = kept[taken : taken + width * old]
        taken += width * old
        used += width * old
        p, q = steps.probe[n], steps.sorted[n]
        ours, theirs = slots.width[p], slots.width[q]
        for turn in range(2):  # what is new with all there is, then what is old with what is new
            begin, count = tables.begin[p] + ours * tables.old[p], tables.new[p]
            at, size = tables.begin[q], tables.old[q] + tables.new[q]
            if turn == 1:
                begin, count = tables.begin[p], tables.old[p]
                at, size = tables.begin[q] + theirs * tables.old[q], tables.new[q]
            if count == 0 or size == 0:
                continue
            left, right = pool[begin : begin + ours * count], pool[at : at + theirs * size]
            if theirs > 3:  # a leaf's rows are in order
                right = _sorted(right, theirs, steps.key[n])
            found, looked, pool = _join(
                n, left, ours, right, theirs, steps, space, reach_low[steps.window[n]],
                reach_high[steps.window[n]], pairs, latest, stacks, room, pool, used,
            )  # fmt: skip
            tables.looked[s] += looked
            if found < 0:
                return pool, -1
            room -= found
            used += width * found
            tables.new[s] += found
        tables.made[s] = tables.new[s]
    return pool, used


@kernel
def join_block(n, left, right, steps, slots, space, reach_low, reach_high, pairs, latest, most):
    """Join two tables by step n: how many rows, or -1 if more than `most`; the rows."""
    ours, theirs = slots.width[steps.probe[n]], slots.width[steps.sorted[n]]
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    found, _, pool = _join(
        n, left, ours, right, theirs, steps, space, reach_low[steps.window[n]],
        reach_high[steps.window[n]], pairs, latest, stacks, most, np.empty(256, np.int32), 0,
    )  # fmt: skip
    return found, pool


@kernel
def keep_alive(high, slots, is_joined, reach_high, tables, pool):
    """The partial matches that a row from `high` on can still join, compact; how many in all.

    Only of joins that are joined further. `tables.old` says from here on how many every slot has.
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


@kernel
def _search(values, first, last, wanted):
    """The first place in [first, last) with a value that is not below what is wanted."""
    while first < last:
        middle = (first + last) >> 1
        if values[middle] < wanted:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _room(pool, used, needed):
    """The pool, or a longer one with what is used of it."""
    if needed <= pool.shape[0]:
        return pool
    grown = np.empty(max(2 * pool.shape[0], needed), np.int32)
    grown[:used] = pool[:used]
    return grown


@kernel
def _sorted(table, width, key):
    """A table by one of its columns."""
    count = table.shape[0] // width
    keys = np.empty(count, np.int32)
    for i in range(count):
        keys[i] = table[i * width + key]
    order = np.argsort(keys)
    found = np.empty_like(table)
    for i in range(count):
        found[i * width : (i + 1) * width] = table[order[i] * width : (order[i] + 1) * width]
    return found


@kernel
def _join(n, left, wide, right, narrow, steps, space, low, high, pairs, latest, stacks, most, pool, used):
    """Join two tables into the pool: how many rows, or -1 if more than `most`; pairs looked at; the pool.

    What a plain comparison needs of the left table is read once for all partners; a row is written only when
    everything fits.
    """
    found, looked, width = 0, 0, wide + narrow - 2
    asked = steps.asked[steps.asked_start[n] : steps.asked_start[n + 1]]
    orders = steps.order[steps.order_start[n] : steps.order_start[n + 1]]
    aparts = steps.apart[steps.apart_start[n] : steps.apart_start[n + 1]]
    guards = steps.guards[steps.guards_start[n] : steps.guards_start[n + 1]]
    begins, ends = steps.after_start[n], steps.after_start[n + 1]
    bounds, until = steps.before_start[n], steps.before_start[n + 1]
    probe_at, sorted_at, key = steps.probe_at[n], steps.sorted_at[n], steps.key[n]
    # Per condition: its comparison, whether the left table has its left side, and the columns of both.
    conditions = asked.shape[0]
    op, is_onward = np.empty(conditions, np.int32), np.empty(conditions, np.bool_)
    mine, theirs = np.empty(conditions, np.int32), np.empty(conditions, np.int32)
    my_float, their_float = np.empty(conditions, np.int32), np.empty(conditions, np.int32)
    value = np.empty(conditions)
    for k in range(conditions):
        c, x, y = asked[k, 0], asked[k, 1], asked[k, 2]
        op[k], is_onward[k] = pairs.compare[c], x < wide
        mine[k], theirs[k] = (x, y - wide + 2) if x < wide else (y, x - wide + 2)
        my_float[k] = pairs.left[c] if x < wide else pairs.right[c]
        their_float[k] = pairs.right[c] if x < wide else pairs.left[c]
    floats, after, moment = pairs.floats, space.after, space.moment
    count = right.shape[0] // narrow
    for i in range(0, left.shape[0], wide):
        least, most_row = left[i], left[i + 1]
        floor, ceiling = low[most_row], high[least]
        for k in range(begins, ends):
            floor = max(floor, after[left[i + steps.after[k]]])
        for k in range(bounds, until):
            ceiling = min(ceiling, space.first[left[i + steps.before[k]]])
        if floor >= ceiling:
            continue
        a, b = 0, count
        while a < b:
            middle = (a + b) >> 1
            if right[middle * narrow + key] < floor:
                a = middle + 1
            else:
                b = middle
        if a == count or right[a * narrow + key] >= ceiling:
            continue
        for k in range(conditions):
            if op[k] != 0:
                value[k] = floats[my_float[k], left[i + mine[k]]]
        for j in range(a * narrow, count * narrow, narrow):
            if right[j + key] >= ceiling:
                break
            looked += 1
            begin, end = min(least, right[j]), max(most_row, right[j + 1])
            fits = end < high[begin]
            for k in range(orders.shape[0]):
                x, y = orders[k, 0], orders[k, 1]
                x = left[i + x] if x < wide else right[j + x - wide + 2]
                y = left[i + y] if y < wide else right[j + y - wide + 2]
                fits = fits and after[x] <= y
            for k in range(aparts.shape[0]):
                x, y = aparts[k, 0], aparts[k, 1]
                fits = fits and left[i + min(x, y)] != right[j + max(x, y) - wide + 2]
            if not fits:
                continue
            for k in range(conditions):
                if op[k] != 0:
                    other = floats[their_float[k], right[j + theirs[k]]]
                    fits = _holds(op[k], value[k], other) if is_onward[k] else _holds(op[k], other, value[k])
                else:
                    x, y = left[i + mine[k]], right[j + theirs[k]]
                    if not is_onward[k]:
                        x, y = y, x
                    fits = holds(pairs, asked[k, 0], x, y, stacks[0], stacks[1], stacks[2])
                if not fits:
                    break
            if not fits:
                continue
            for k in range(guards.shape[0]):
                x, y = guards[k, 1], guards[k, 2]
                x = left[i + x] if x < wide else right[j + x - wide + 2]
                y = left[i + y] if y < wide else right[j + y - wide + 2]
                fits = fits and latest[guards[k, 0], moment[y] - 1] <= moment[x]
            if not fits:
                continue
            if found == most:
                return -1, looked, pool
            if used + width > pool.shape[0]:
                pool = _room(pool, used, used + width)
            pool[used], pool[used + 1] = begin, end
            for k in range(2, wide):
                pool[used + probe_at + k] = left[i + k]
            for k in range(2, narrow):
                pool[used + sorted_at + k] = right[j + k]
            used += width
            found += 1
    return found, looked, pool


@kernel
def _holds(op, left, right):
    """Whether a comparison of two columns holds (kernel.pairs); NaN is null, which compares with nothing."""
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
