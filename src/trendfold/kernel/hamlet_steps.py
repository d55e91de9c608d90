"""Event by event: what HAMLET does with events outside bursts, and with queries that do not share one.

`t` is the table, `n` the work array, `at` the layout of both (see kernel.hamlet_program).
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.hamlet_program import GUARD, MEMBER, ROW, STEP, VOP, XROW, XTERM
from trendfold.kernel.jit import kernel
from trendfold.kernel.wide import RADIX, add, times


@kernel
def step_member(events, i, stop, k, t, at, numbers, n):
    """The rows [i, stop) for all open windows of member k, one event after the other."""
    symbol, moment = events.symbol, events.moment
    for item in range(n[at.first + k], n[at.upto + k]):
        lane = lane_of(k, item, t, at)
        base, xbase = t[at.lane + 2 * lane], t[at.lane + 2 * lane + 1]
        r = i
        while r < stop:
            j = r + 1
            while j < stop and moment[j] == moment[r]:
                j += 1
            step = at.step + STEP * (symbol[r] * at.members + k)
            if j > r + 1 or t[step + 4]:
                n[at.wide + lane] = _step_moment(events, r, j, k, lane, t, at, numbers)
            elif t[step] < t[step + 1] and (
                n[at.wide + lane] or not _step_near(events, r, step, base, xbase, t, at, numbers)
            ):
                n[at.wide + lane] |= _step_wide(events, r, step, base, xbase, t, at, numbers)
            r = j


@kernel
def lane_of(k, item, t, at):
    """The lane of a member's window."""
    own = at.member + MEMBER * k
    low, high = t[own + 7], t[own + 8]
    return low + (item - t[own + 9]) % (high - low)


@kernel
def _step_near(events, i, step, base, xbase, t, at, numbers):
    """One event where no number has an exponent; False, and nothing done, where that does not do."""
    m = numbers.m
    fresh = m.shape[0] - at.rows  # room behind the lanes
    fits = events.is_small
    for r in range(t[step], t[step + 1]):
        row = at.row + ROW * r
        total = m[base + t[row]]
        for o in range(t[row + 1], t[row + 2]):
            total += m[base + t[at.op + o]]
        for o in range(t[row + 3], t[row + 4]):
            total += m[base + t[at.vop + VOP * o]] * events.values[i, t[at.vop + VOP * o + 1]]
        fits &= abs(total) < RADIX
        m[fresh + r - t[step]] = total
    if not fits:
        return False
    _step_extremes(events, i, step, base, xbase, t, at, numbers)
    for r in range(t[step], t[step + 1]):
        m[base + t[at.row + ROW * r]] = m[fresh + r - t[step]]
    return True


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


@kernel
def wide_sum(m1, e1, m2, e2):
    """`wide.add`, compiled once."""
    return add(m1, e1, m2, e2)


@kernel
def wide_times(m, e, a):
    """`wide.times`, compiled once."""
    return times(m, e, a)
