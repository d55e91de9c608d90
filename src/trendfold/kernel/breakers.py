"""Per row the nearest event of a NOT for which the conditions between the two hold: a column of moments."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import plainly_holds

NO_FIRST, NO_LAST = 2**31 - 1, -1
"""Where there is none: later than every moment, and before it."""


@kernel
def first_breakers(own, conditions, pairs, segment, moment, stamp, within, out):
    """Write the moment of the first event of a NOT after each row for which all conditions hold.

    own         int32[k]    the rows of the NOT's events
    conditions  int32[c]    numbers of conditions on such an event and the row
    stamp       int64[n]    what windows measure; within: events as far away do not matter; -1: no window
    out         int64[n]
    """
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    out[:] = NO_FIRST
    k = 0
    for s in range(segment.shape[0] - 1):
        for x in range(segment[s], segment[s + 1]):
            while k < own.shape[0] and own[k] <= x:
                k += 1
            j = k
            while j < own.shape[0] and own[j] < segment[s + 1]:
                n = own[j]
                j += 1
                if within >= 0 and stamp[n] - stamp[x] >= within:
                    break
                if moment[n] > moment[x] and _all_hold(conditions, pairs, n, x, stacks):
                    out[x] = moment[n]
                    break


@kernel
def last_breakers(own, conditions, pairs, segment, moment, stamp, within, out):
    """The same for the last such event before each row."""
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    out[:] = NO_LAST
    k = 0
    for s in range(segment.shape[0] - 1):
        for y in range(segment[s], segment[s + 1]):
            while k < own.shape[0] and own[k] < y:
                k += 1
            j = k - 1
            while j >= 0 and own[j] >= segment[s]:
                n = own[j]
                j -= 1
                if within >= 0 and stamp[y] - stamp[n] >= within:
                    break
                if moment[n] < moment[y] and _all_hold(conditions, pairs, n, y, stacks):
                    out[y] = moment[n]
                    break


@kernel
def any_breaks(own, conditions, beside, low, high, row, position, start, pairs, found):
    """Set `found` for matches in whose rows [low, high) an event of a NOT meets all of its conditions.

    conditions       int32[c]      as above
    beside           bool[c, P]    the positions that each condition is about
    low, high        int32[m]      per match
    row, position, start           per match its bindings beside the NOT
    """
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    for m in range(low.shape[0]):
        j = np.searchsorted(own, low[m])
        while not found[m] and j < own.shape[0] and own[j] < high[m]:
            breaks = True
            for b in range(start[m], start[m + 1]):
                for c in range(conditions.shape[0]):
                    if breaks and beside[c, position[b]]:
                        breaks = plainly_holds(
                            pairs, conditions[c], own[j], row[b], stacks[0], stacks[1], stacks[2]
                        )
            found[m] = breaks
            j += 1


@kernel
def _all_hold(conditions, pairs, n, other, stacks):
    fits = True
    for c in conditions:
        fits = fits and plainly_holds(pairs, c, n, other, stacks[0], stacks[1], stacks[2])
    return fits
