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

    Returns the count, the table, and how many pairs were looked at.

    left   int32[n, 2 + a]    right  int32[m, 2 + b], sorted by its column program.key
    low, high  int32[]        how far a window reaches from a row
    """
    wide, narrow = left.shape[1], right.shape[1] - 2
    found, looked = 0, 0
    room = out.shape[0]
    stack_f, stack_i, stack_n = (
        np.empty(pairs.depth),
        np.empty(pairs.depth, np.int64),
        np.empty(pairs.depth, np.int8),
    )
    count, key = right.shape[0], program.key
    for i in range(left.shape[0]):
        least, most_row = left[i, 0], left[i, 1]
        floor, ceiling = low[most_row], high[least]
        for k in range(program.after.shape[0]):
            floor = max(floor, space.after[left[i, program.after[k]]])
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
        for j in range(a, count):
            if right[j, key] >= ceiling:
                break
            looked += 1
            begin, end = min(least, right[j, 0]), max(most_row, right[j, 1])
            if end >= high[begin]:
                continue
            if found == room:
                if room >= most:
                    return -1, out, looked
                room = min(2 * room, most)
                grown = np.empty((room, out.shape[1]), np.int32)
                grown[:found] = out[:found]
                out = grown
            row = out[found]
            row[0], row[1] = begin, end
            for k in range(2, wide):
                row[k] = left[i, k]
            for k in range(narrow):
                row[wide + k] = right[j, 2 + k]
            fits = True
            for k in range(program.order.shape[0]):
                fits = fits and space.after[row[program.order[k, 0]]] <= row[program.order[k, 1]]
            for k in range(program.apart.shape[0]):
                fits = fits and row[program.apart[k, 0]] != row[program.apart[k, 1]]
            if not fits:
                continue
            for k in range(program.asked.shape[0]):
                c, x, y = program.asked[k, 0], row[program.asked[k, 1]], row[program.asked[k, 2]]
                if not holds(pairs, c, x, y, stack_f, stack_i, stack_n):
                    fits = False
                    break
            if not fits:
                continue
            for k in range(program.guards.shape[0]):
                x, y = row[program.guards[k, 1]], row[program.guards[k, 2]]
                fits = fits and latest[program.guards[k, 0], space.moment[y] - 1] <= space.moment[x]
            if fits:
                found += 1
    return found, out, looked
