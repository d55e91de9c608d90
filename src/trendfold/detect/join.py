"""One join of partial matches: new against old, by ranges of rows, order, window and conditions.

A table of partial matches has a row per match: its first and last row, then one row number per column. All
comparisons of time are comparisons of row numbers (see detect.space).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import holds

Ints = NDArray[np.int32]
Table = NDArray[np.int32]
SPAN = 2
"""Columns before those of events: the first and the last row of a partial match."""


class JoinProgram(NamedTuple):
    """How two tables are joined. Columns are numbered as in the result, span included.

    key     the column of the right table that it is sorted by, numbered in the right table
    after   int32[]      columns of the left table whose events come before the key's
    before  int32[]      ... and after it
    order   int32[n, 2]  the other pairs (a, b) where a comes before b
    apart   int32[n, 2]  pairs that must not be one event
    asked   int32[n, 3]  (condition, column of its left event, column of its right event)
    guards  int32[n, 3]  (guard, column before it, column after it)
    """

    key: int
    after: Ints
    before: Ints
    order: Ints
    apart: Ints
    asked: Ints
    guards: Ints


@kernel
def join(left, right, program, space, low, high, pairs, latest, most, out):
    """Join two tables into `out`, growing it; how many rows there are, or -1 if more than `most`.

    Returns the count, the table, and how many pairs were looked at. What a plain comparison needs of the left
    table is read once for all partners; a row is written only when everything fits.

    left   int32[n, 2 + a]    right  int32[m, 2 + b], sorted by its column program.key
    low, high  int32[]        how far a window reaches from a row
    """
    wide, narrow = left.shape[1], right.shape[1] - 2
    found, looked, room = 0, 0, out.shape[0]
    asked = program.asked.shape[0]
    # Per condition: its comparison, whether the left table has its left side, and the columns of both.
    op, is_onward = np.empty(asked, np.int32), np.empty(asked, np.bool_)
    mine, theirs = np.empty(asked, np.int32), np.empty(asked, np.int32)
    my_float, their_float = np.empty(asked, np.int32), np.empty(asked, np.int32)
    value = np.empty(asked)
    for k in range(asked):
        c, x, y = program.asked[k, 0], program.asked[k, 1], program.asked[k, 2]
        op[k], is_onward[k] = pairs.compare[c], x < wide
        mine[k], theirs[k] = (x, y - wide + 2) if x < wide else (y, x - wide + 2)
        my_float[k] = pairs.left[c] if x < wide else pairs.right[c]
        their_float[k] = pairs.right[c] if x < wide else pairs.left[c]
    stack_f, stack_i, stack_n = (
        np.empty(pairs.depth),
        np.empty(pairs.depth, np.int64),
        np.empty(pairs.depth, np.int8),
    )
    floats, after, moment = pairs.floats, space.after, space.moment
    orders, aparts, guards = program.order, program.apart, program.guards
    count, key = right.shape[0], program.key
    for i in range(left.shape[0]):
        least, most_row = left[i, 0], left[i, 1]
        floor, ceiling = low[most_row], high[least]
        for k in range(program.after.shape[0]):
            floor = max(floor, after[left[i, program.after[k]]])
        for k in range(program.before.shape[0]):
            ceiling = min(ceiling, space.first[left[i, program.before[k]]])
        if floor >= ceiling:
            continue
        a, b = 0, count
        while a < b:
            middle = (a + b) >> 1
            if right[middle, key] < floor:
                a = middle + 1
            else:
                b = middle
        if a == count or right[a, key] >= ceiling:
            continue
        for k in range(asked):
            if op[k] != 0:
                value[k] = floats[my_float[k], left[i, mine[k]]]
        for j in range(a, count):
            if right[j, key] >= ceiling:
                break
            looked += 1
            begin, end = min(least, right[j, 0]), max(most_row, right[j, 1])
            fits = end < high[begin]
            for k in range(orders.shape[0]):
                x, y = orders[k, 0], orders[k, 1]
                x = left[i, x] if x < wide else right[j, x - wide + 2]
                y = left[i, y] if y < wide else right[j, y - wide + 2]
                fits = fits and after[x] <= y
            for k in range(aparts.shape[0]):
                x, y = aparts[k, 0], aparts[k, 1]
                fits = fits and left[i, min(x, y)] != right[j, max(x, y) - wide + 2]
            if not fits:
                continue
            for k in range(asked):
                if op[k] != 0:
                    other = floats[their_float[k], right[j, theirs[k]]]
                    fits = _holds(op[k], value[k], other) if is_onward[k] else _holds(op[k], other, value[k])
                else:
                    x, y = left[i, mine[k]], right[j, theirs[k]]
                    if not is_onward[k]:
                        x, y = y, x
                    fits = holds(pairs, program.asked[k, 0], x, y, stack_f, stack_i, stack_n)
                if not fits:
                    break
            if not fits:
                continue
            for k in range(guards.shape[0]):
                x, y = guards[k, 1], guards[k, 2]
                x = left[i, x] if x < wide else right[j, x - wide + 2]
                y = left[i, y] if y < wide else right[j, y - wide + 2]
                fits = fits and latest[guards[k, 0], moment[y] - 1] <= moment[x]
            if not fits:
                continue
            if found == room:
                if room >= most:
                    return -1, out, looked
                room = min(2 * room, most)
                grown = np.empty((room, out.shape[1]), np.int32)
                grown[:found] = out[:found]
                out = grown
            out[found, 0], out[found, 1] = begin, end
            for k in range(2, wide):
                out[found, k] = left[i, k]
            for k in range(narrow):
                out[found, wide + k] = right[j, 2 + k]
            found += 1
    return found, out, looked


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
