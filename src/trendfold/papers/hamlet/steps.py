"""Event by event: what HAMLET does with events outside bursts, and with queries that do not share one.

`t` is the table, `n` the work array, `at` the layout of both (see papers.hamlet.arrays).
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.wide import RADIX, SHRINK, wide_sum, wide_times
from trendfold.papers.hamlet.arrays import GUARD, MEMBER, ROW, SHARER, STEP, VOP, XROW, XTERM


@kernel
def step_rows(events, i, stop, f, alike, shares, t, at, numbers, n):
    """The rows [i, stop) for all members that do not share them: a burst of family f, a moment, or a run.

    Where all rows are alike, members that their symbol does nothing to are not even looked at.
    """
    a = events.symbol[i]
    low = t[at.concerned + 2 * a] if alike else 0
    high = t[at.concerned + 2 * a + 1] if alike else at.members
    for c in range(low, high):
        k = t[at.who + c] if alike else c
        if f >= 0:
            own = at.sharer + SHARER * (f * at.members + k)
            if t[own + 1] == 0 or (shares and t[own] >= 0 and n[at.chosen + t[own]]):
                continue
        for item in range(n[at.first + k], n[at.upto + k]):
            _step_lane(events, i, stop, k, lane_of(k, item, t, at), t, at, numbers, n)


@kernel
def _step_lane(events, i, stop, k, lane, t, at, numbers, n):
    """The rows [i, stop) for one window of member k.

    An event is folded on mantissas: what it gathers is brought to the exponent of its target. Where a source
    has a higher one, or the sum leaves the range of mantissas, it is folded in wide arithmetic.
    """
    symbol, moment, values, m, e = events.symbol, events.moment, events.values, numbers.m, numbers.e
    base, xbase = t[at.lane + 2 * lane], t[at.lane + 2 * lane + 1]
    rows, ops, vops, fresh = at.row, at.op, at.vop, m.shape[0] - at.rows  # room behind the lanes
    while i < stop:
        step = at.step + STEP * (symbol[i] * at.members + k)
        if t[step + 4] or (i + 1 < stop and moment[i + 1] == moment[i]):
            j = i + 1
            while j < stop and moment[j] == moment[i]:
                j += 1
            n[at.wide + lane] = _step_moment(events, i, j, k, lane, t, at, numbers)
            i = j
            continue
        low, high = t[step], t[step + 1]
        fits = events.is_small
        for r in range(low, high):
            row = rows + ROW * r
            total, to = m[base + t[row]], e[base + t[row]]
            for o in range(ops + t[row + 1], ops + t[row + 2]):
                s = base + t[o]
                fits &= e[s] <= to
                total += m[s] * (1.0 if e[s] == to else (SHRINK if e[s] + 1 == to else 0.0))
            for o in range(t[row + 3], t[row + 4]):
                s = base + t[vops + VOP * o]
                fits &= e[s] <= to
                part = m[s] * values[i, t[vops + VOP * o + 1]]
                total += part * (1.0 if e[s] == to else (SHRINK if e[s] + 1 == to else 0.0))
            fits &= abs(total) < RADIX and (to == 0 or abs(total) >= 1.0)
            m[fresh + r - low] = total
        if fits:
            if t[step + 2] < t[step + 3]:
                _step_extremes(events, i, step, base, xbase, t, at, numbers)
            for r in range(low, high):
                m[base + t[rows + ROW * r]] = m[fresh + r - low]
        else:
            n[at.wide + lane] |= _step_wide(events, i, step, base, xbase, t, at, numbers)
        i += 1


@kernel
def lane_of(k, item, t, at):
    """The lane of a member's window."""
    own = at.member + MEMBER * k
    low, high = t[own + 7], t[own + 8]
    return low + (item - t[own + 9]) % (high - low)


@kernel
def _step_wide(events, i, step, base, xbase, t, at, numbers):
    """One event in wide arithmetic; whether a number has an exponent after it."""
    m, e = numbers.m, numbers.e
    fresh = m.shape[0] - at.rows - t[step]
    for r in range(t[step], t[step + 1]):
        d = base + t[at.row + ROW * r]
        m[fresh + r], e[fresh + r] = _gather(events, i, r, base, t, at, m, e, m[d], e[d])
    _step_extremes(events, i, step, base, xbase, t, at, numbers)
    far = False
    for r in range(t[step], t[step + 1]):
        d = base + t[at.row + ROW * r]
        m[d], e[d] = m[fresh + r], e[fresh + r]
        far |= e[d] > 0
    return far


@kernel
def _gather(events, i, r, base, t, at, m, e, sum_m, sum_e):
    """A number, and what row r adds to it."""
    row = at.row + ROW * r
    for o in range(t[row + 1], t[row + 2]):
        s = base + t[at.op + o]
        sum_m, sum_e = wide_sum(sum_m, sum_e, m[s], e[s])
    for o in range(t[row + 3], t[row + 4]):
        s = base + t[at.vop + VOP * o]
        part_m, part_e = wide_times(m[s], e[s], events.values[i, t[at.vop + VOP * o + 1]])
        sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
    return sum_m, sum_e


@kernel
def _step_extremes(events, i, step, base, xbase, t, at, numbers):
    """The extremes of one event, from numbers that it has not changed yet."""
    x = numbers.x
    fresh = x.shape[0] - at.xrows - t[step + 2]
    for r in range(t[step + 2], t[step + 3]):
        d = xbase + t[at.xrow + XROW * r]
        x[fresh + r] = _gather_extreme(events, i, r, base, xbase, t, at, numbers.m, x, x[d])
    for r in range(t[step + 2], t[step + 3]):
        x[xbase + t[at.xrow + XROW * r]] = x[fresh + r]


@kernel
def _gather_extreme(events, i, r, base, xbase, t, at, m, x, best):
    """An extreme, and what row r compares with it."""
    row = at.xrow + XROW * r
    for o in range(t[row + 1], t[row + 2]):
        term = at.xterm + XTERM * o
        best = min(best, x[xbase + t[term]])
        if t[term + 2] > 0 and m[base + t[term + 1]] != 0.0:
            best = min(best, events.extremes[i, t[term + 2]])
    return best


@kernel
def _step_moment(events, i, stop, k, lane, t, at, numbers):
    """Events of one moment, or one that moves mass between classes: all read what was there before.

    Returns whether a number has an exponent after it.
    """
    m, e, x = numbers.m, numbers.e, numbers.x
    base, xbase = t[at.lane + 2 * lane], t[at.lane + 2 * lane + 1]
    high, xhigh = t[at.lane + 2 * lane + 2], t[at.lane + 2 * lane + 3]
    old_m, old_e, old_x = m[base:high].copy(), e[base:high].copy(), x[xbase:xhigh].copy()
    moves = 0
    for r in range(i, stop):
        moves |= t[at.step + STEP * (events.symbol[r] * at.members + k) + 4]
    if moves:
        _move_classes(events.symbol, i, stop, k, base, xbase, t, at, numbers)
    for event in range(i, stop):
        step = at.step + STEP * (events.symbol[event] * at.members + k)
        for r in range(t[step], t[step + 1]):
            d = base + t[at.row + ROW * r]
            m[d], e[d] = _gather(events, event, r, 0, t, at, old_m, old_e, m[d], e[d])
        for r in range(t[step + 2], t[step + 3]):
            d = xbase + t[at.xrow + XROW * r]
            x[d] = _gather_extreme(events, event, r, 0, 0, t, at, old_m, old_x, x[d])
    far = False
    for s in range(base, high):
        far |= e[s] > 0
    return far


@kernel
def _move_classes(symbol, i, stop, k, base, xbase, t, at, numbers):
    """As guards.move_classes, for one lane of member k; bit 63, the sign, is `broken`."""
    own = at.member + MEMBER * k
    for g in range(t[own + 3], t[own + 4]):
        guard = at.guard + GUARD * g
        low, broken = t[guard], t[guard + 1] - 1
        for c in range(broken - 1, low - 1, -1):
            reached = t[at.mask + c]
            for r in range(i, stop):
                reached |= t[at.reach + symbol[r] * at.classes + c]
            if reached == t[at.mask + c]:
                continue
            target = broken
            if reached >= 0:
                target = c
                while t[at.mask + target] != reached:
                    target += 1
            for p in range(t[guard + 2], t[guard + 3]):
                place = t[at.place + p] - low
                _move(place + c, place + target, base, xbase, t[own], t[own + 1], numbers)


@kernel
def _move(here, there, base, xbase, width, extremes, numbers):
    m, e, x = numbers.m, numbers.e, numbers.x
    for w in range(width):
        a, b = base + here * width + w, base + there * width + w
        m[b], e[b] = wide_sum(m[b], e[b], m[a], e[a])
        m[a], e[a] = 0.0, 0
    for y in range(extremes):
        a, b = xbase + here * extremes + y, xbase + there * extremes + y
        x[b] = min(x[b], x[a])
        x[a] = np.inf
