"""Events outside bursts, and queries that do not share one, event by event.

For every lane of member k, an event of symbol a writes each row of the step (a, k):

    new[dst] = old[dst] + Σ old[op] + Σ old[vop's entry] · value[vop's column]
    new[dst] = min(old[dst], old[source]..., value[column] where the gate holds mass)      (extremes)

`t` is the table, `n` the work array, `at` the layout of both (see papers.hamlet.arrays).
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.wide import RADIX, SHRINK, wide_sum, wide_times
from trendfold.papers.hamlet.arrays import (
    read_guard,
    read_lane,
    read_member,
    read_row,
    read_sharer,
    read_step,
    read_vop,
    read_xrow,
    read_xterm,
)


@kernel
def step_rows(events, i, stop, f, alike, shares, t, at, numbers, n):
    """Fold the rows [i, stop), a burst of family f, a moment or a run, for all members that do not share it.

    Where all rows are alike, members that their symbol does not concern are skipped.
    """
    a = events.symbol[i]
    low = t[at.concerned + 2 * a] if alike else 0
    high = t[at.concerned + 2 * a + 1] if alike else at.members
    for c in range(low, high):
        k = t[at.who + c] if alike else c
        if f >= 0:
            sharer = read_sharer(t, at, f, k)
            if sharer.is_touched == 0 or (shares and sharer.unit >= 0 and n[at.chosen + sharer.unit]):
                continue
        for item in range(n[at.first + k], n[at.upto + k]):
            _step_lane(events, i, stop, k, lane_of(k, item, t, at), t, at, numbers, n)


@kernel
def _step_lane(events, i, stop, k, lane, t, at, numbers, n):
    """Fold the rows [i, stop) for one window of member k.

    An event is folded on mantissas, each term scaled to the exponent of its target. Where a source has a
    higher one, or the sum leaves the range of mantissas, it is folded in wide arithmetic.
    """
    symbol, moment, values, m, e = events.symbol, events.moment, events.values, numbers.m, numbers.e
    base, xbase, _, _ = read_lane(t, at, lane)
    fresh = m.shape[0] - at.rows  # room behind the lanes
    while i < stop:
        step = read_step(t, at, symbol[i], k)
        if step.moves or (i + 1 < stop and moment[i + 1] == moment[i]):
            j = i + 1
            while j < stop and moment[j] == moment[i]:
                j += 1
            n[at.wide + lane] = _step_moment(events, i, j, k, lane, t, at, numbers)
            i = j
            continue
        low, high = step.row_low, step.row_high
        fits = events.is_small
        for r in range(low, high):
            row = read_row(t, at, r)
            total, to = m[base + row.dst], e[base + row.dst]
            for o in range(at.op + row.op_low, at.op + row.op_high):
                s = base + t[o]
                fits &= e[s] <= to
                total += m[s] * (1.0 if e[s] == to else (SHRINK if e[s] + 1 == to else 0.0))
            for o in range(row.vop_low, row.vop_high):
                term = read_vop(t, at, o)
                s = base + term.entry
                fits &= e[s] <= to
                part = m[s] * values[i, term.column]
                total += part * (1.0 if e[s] == to else (SHRINK if e[s] + 1 == to else 0.0))
            fits &= abs(total) < RADIX and (to == 0 or abs(total) >= 1.0)
            m[fresh + r - low] = total
        if fits:
            if step.xrow_low < step.xrow_high:
                _step_extremes(events, i, step, base, xbase, t, at, numbers)
            for r in range(low, high):
                m[base + read_row(t, at, r).dst] = m[fresh + r - low]
        else:
            n[at.wide + lane] |= _step_wide(events, i, step, base, xbase, t, at, numbers)
        i += 1


@kernel
def lane_of(k, item, t, at):
    """The lane of a member's window."""
    member = read_member(t, at, k)
    return member.lane_low + (item - member.window_low) % (member.lane_high - member.lane_low)


@kernel
def _step_wide(events, i, step, base, xbase, t, at, numbers):
    """Fold one event in wide arithmetic; whether a number has an exponent after it."""
    m, e = numbers.m, numbers.e
    fresh = m.shape[0] - at.rows - step.row_low
    for r in range(step.row_low, step.row_high):
        d = base + read_row(t, at, r).dst
        m[fresh + r], e[fresh + r] = _gather(events, i, r, base, t, at, m, e, m[d], e[d])
    _step_extremes(events, i, step, base, xbase, t, at, numbers)
    far = False
    for r in range(step.row_low, step.row_high):
        d = base + read_row(t, at, r).dst
        m[d], e[d] = m[fresh + r], e[fresh + r]
        far |= e[d] > 0
    return far


@kernel
def _gather(events, i, r, base, t, at, m, e, sum_m, sum_e):
    """A number plus the terms of row r."""
    row = read_row(t, at, r)
    for o in range(at.op + row.op_low, at.op + row.op_high):
        s = base + t[o]
        sum_m, sum_e = wide_sum(sum_m, sum_e, m[s], e[s])
    for o in range(row.vop_low, row.vop_high):
        term = read_vop(t, at, o)
        s = base + term.entry
        part_m, part_e = wide_times(m[s], e[s], events.values[i, term.column])
        sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
    return sum_m, sum_e


@kernel
def _step_extremes(events, i, step, base, xbase, t, at, numbers):
    """Write the extremes of one event; they read numbers that it has not changed yet."""
    x = numbers.x
    fresh = x.shape[0] - at.xrows - step.xrow_low
    for r in range(step.xrow_low, step.xrow_high):
        d = xbase + read_xrow(t, at, r).dst
        x[fresh + r] = _gather_extreme(events, i, r, base, xbase, t, at, numbers.m, x, x[d])
    for r in range(step.xrow_low, step.xrow_high):
        x[xbase + read_xrow(t, at, r).dst] = x[fresh + r]


@kernel
def _gather_extreme(events, i, r, base, xbase, t, at, m, x, best):
    """The least of an extreme and the terms of row r."""
    row = read_xrow(t, at, r)
    for o in range(row.low, row.high):
        term = read_xterm(t, at, o)
        best = min(best, x[xbase + term.source])
        if term.column > 0 and m[base + term.gate] != 0.0:
            best = min(best, events.extremes[i, term.column])
    return best


@kernel
def _step_moment(events, i, stop, k, lane, t, at, numbers):
    """Fold events of one moment, or one that moves mass between classes: all read what was there before.

    Returns whether a number has an exponent after it.
    """
    m, e, x = numbers.m, numbers.e, numbers.x
    base, xbase, high, xhigh = read_lane(t, at, lane)
    old_m, old_e, old_x = m[base:high].copy(), e[base:high].copy(), x[xbase:xhigh].copy()
    moves = 0
    for r in range(i, stop):
        moves |= read_step(t, at, events.symbol[r], k).moves
    if moves:
        _move_classes(events.symbol, i, stop, k, base, xbase, t, at, numbers)
    for event in range(i, stop):
        step = read_step(t, at, events.symbol[event], k)
        for r in range(step.row_low, step.row_high):
            d = base + read_row(t, at, r).dst
            m[d], e[d] = _gather(events, event, r, 0, t, at, old_m, old_e, m[d], e[d])
        for r in range(step.xrow_low, step.xrow_high):
            d = xbase + read_xrow(t, at, r).dst
            x[d] = _gather_extreme(events, event, r, 0, 0, t, at, old_m, old_x, x[d])
    far = False
    for s in range(base, high):
        far |= e[s] > 0
    return far


@kernel
def _move_classes(symbol, i, stop, k, base, xbase, t, at, numbers):
    """`guards.move_classes`, for one lane of member k; bit 63, the sign, is `broken`."""
    member = read_member(t, at, k)
    for g in range(member.guard_low, member.guard_high):
        guard = read_guard(t, at, g)
        low, broken = guard.class_low, guard.class_high - 1
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
            for p in range(guard.place_low, guard.place_high):
                place = t[at.place + p] - low
                _move(place + c, place + target, base, xbase, member.width, member.extremes, numbers)


@kernel
def _move(here, there, base, xbase, width, extremes, numbers):
    """Move the mass of a state to another, in the lane whose numbers begin at `base` and `xbase`."""
    m, e, x = numbers.m, numbers.e, numbers.x
    for w in range(width):
        a, b = base + here * width + w, base + there * width + w
        m[b], e[b] = wide_sum(m[b], e[b], m[a], e[a])
        m[a], e[a] = 0.0, 0
    for y in range(extremes):
        a, b = xbase + here * extremes + y, xbase + there * extremes + y
        x[b] = min(x[b], x[a])
        x[a] = np.inf
