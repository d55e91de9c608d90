"""The machine over events, where one vector per place is enough.

Neither the cost of an event nor the state depends on how many events came before.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.guards import move_classes
from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.wide import RADIX, add, scale, times


@kernel
def fold_windows(events, lows, highs, rows, guards, frame, out):
    """Fold the rows [lows[k], highs[k]) of every window item from nothing; its whole trends go to row k of `out`."""
    states, width = frame.states, frame.width
    mantissa, exponent = np.zeros((states, width)), np.zeros((states, width), np.int32)
    extreme = np.full((states, frame.extremes), np.inf)
    fresh = np.zeros(states * width), np.zeros(states * width, np.int32), np.full(states * frame.extremes, np.inf)
    factors = np.ones(rows.op.shape[0]), np.ones(rows.vop.shape[0])
    for k in range(lows.shape[0]):
        mantissa[:] = 0.0
        exponent[:] = 0
        extreme[:] = np.inf
        mantissa[frame.start, 0] = 1.0
        factors[0][:] = 1.0
        factors[1][:] = 1.0
        _fold(events, lows[k], highs[k], rows, guards, mantissa, exponent, extreme, factors, fresh)
        for s in frame.whole:
            for w in range(width):
                out.mantissa[k, w], out.exponent[k, w] = add(
                    out.mantissa[k, w], out.exponent[k, w], mantissa[s, w], exponent[s, w]
                )
            for x in range(frame.extremes):
                out.extreme[k, x] = min(out.extreme[k, x], extreme[s, x])


@kernel
def _fold(events, low, high, rows, guards, mantissa, exponent, extreme, factors, fresh):
    """Fold the rows [low, high) into the state, in place.

    A moment of one event that moves no class takes the short way: its rows are evaluated on mantissas,
    with a factor per term that bridges the exponents of its two entries. Factors change only when an
    exponent does. A factor is NaN where a term would not fit, so one comparison sees both an overflow
    and a misfit, and the moment is done in wide arithmetic instead. What is emptied along the way
    (*next*, *contiguous*) must not keep an exponent, so there the short way ends at the first one.
    """
    symbol, moment, moves = events.symbol, events.moment, guards.moves
    row_start, dst, keep, op_start, op = rows.row_start, rows.dst, rows.keep, rows.op_start, rows.op
    spend_start, spend, fade_start, fade = rows.spend_start, rows.spend, rows.fade_start, rows.fade
    m, e = mantissa.reshape(-1), exponent.reshape(-1)
    factor, vfactor = factors
    sums = fresh[0]
    has_values, has_extremes = rows.vop.shape[0] > 0, rows.xdst.shape[0] > 0
    has_spends, has_fades = spend.shape[0] > 0, fade.shape[0] > 0
    is_count = mantissa.shape[1] == 1 and not has_extremes  # a state is one entry
    is_short = True
    before = low  # where the moment before begins
    i = low
    while i < high:
        a = symbol[i]
        if is_short and (i + 1 == high or moment[i + 1] != moment[i]) and not moves[a]:
            first, stop = row_start[a], row_start[a + 1]
            if is_count and stop == first + 1:
                total = m[dst[first]] * keep[first]
                for o in range(op_start[first], op_start[stop]):
                    total += m[op[o]] * factor[o]
                if abs(total) < RADIX:
                    if has_spends:
                        for k in range(spend_start[a], spend_start[a + 1]):
                            m[spend[k]] = 0.0
                    if has_fades:
                        for k in range(fade_start[symbol[before]], fade_start[symbol[before] + 1]):
                            m[fade[k]] = 0.0
                        for p in range(before + 1, i):
                            for k in range(fade_start[symbol[p]], fade_start[symbol[p] + 1]):
                                m[fade[k]] = 0.0
                    m[dst[first]] = total
                    before = i
                    i += 1
                    continue
            else:
                fits = True
                for r in range(first, stop):
                    total = m[dst[r]] * keep[r]
                    for o in range(op_start[r], op_start[r + 1]):
                        total += m[op[o]] * factor[o]
                    if has_values:
                        for o in range(rows.vop_start[r], rows.vop_start[r + 1]):
                            total += m[rows.vop[o]] * vfactor[o] * events.values[rows.vcol[o], i]
                    fits &= abs(total) < RADIX
                    sums[r - first] = total
                if fits:
                    if has_extremes:
                        _gather_extremes(events, i, rows, m, extreme, fresh[2])
                    if has_spends:
                        for k in range(spend_start[a], spend_start[a + 1]):
                            _clear(spend[k], mantissa, exponent, extreme)
                    if has_fades:
                        _fade(symbol, before, i, fade_start, fade, mantissa, exponent, extreme)
                    for r in range(first, stop):
                        m[dst[r]] = sums[r - first]
                    if has_extremes:
                        _settle_extremes(a, rows, extreme, fresh[2])
                    before = i
                    i += 1
                    continue
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        if _fold_moment(events, before, i, j, rows, guards, mantissa, exponent, extreme, fresh):
            _bridge(rows, e, factor, vfactor)
            is_short = not ((has_spends or has_fades) and exponent.any())
        before = i
        i = j


@kernel
def _fold_moment(events, before, start, stop, rows, guards, mantissa, exponent, extreme, fresh):
    """One moment in wide arithmetic: gather, spend, fade, move classes, settle. Whether an exponent changed."""
    m, e = mantissa.reshape(-1), exponent.reshape(-1)
    fresh_m, fresh_e, _ = fresh
    symbol = events.symbol
    for i in range(start, stop):
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            fresh_m[rows.dst[r]], fresh_e[rows.dst[r]] = 0.0, 0
    moved = False
    for i in range(start, stop):
        moved |= guards.moves[symbol[i]]
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            for o in range(rows.op_start[r], rows.op_start[r + 1]):
                s = rows.op[o]
                fresh_m[d], fresh_e[d] = add(fresh_m[d], fresh_e[d], m[s], e[s])
            for o in range(rows.vop_start[r], rows.vop_start[r + 1]):
                s = rows.vop[o]
                part_m, part_e = times(m[s], e[s], events.values[rows.vcol[o], i])
                fresh_m[d], fresh_e[d] = add(fresh_m[d], fresh_e[d], part_m, part_e)
        _gather_extremes(events, i, rows, m, extreme, fresh[2])
    rescaled = moved and exponent.any()
    for i in range(start, stop):
        for s in range(rows.spend_start[symbol[i]], rows.spend_start[symbol[i] + 1]):
            rescaled |= _clear(rows.spend[s], mantissa, exponent, extreme)
    rescaled |= _fade(symbol, before, start, rows.fade_start, rows.fade, mantissa, exponent, extreme)
    if moved:
        move_classes(guards, symbol, start, stop, mantissa, exponent, extreme)
    for i in range(start, stop):
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            old = e[d]
            m[d], e[d] = add(m[d], e[d], fresh_m[d], fresh_e[d])
            rescaled |= e[d] != old
            fresh_m[d], fresh_e[d] = 0.0, 0  # tied events may share a row
        _settle_extremes(symbol[i], rows, extreme, fresh[2])
    return rescaled


@inlined
def _clear(state, mantissa, exponent, extreme):
    """Empty one state; whether that changed an exponent."""
    rescaled = False
    for w in range(mantissa.shape[1]):
        rescaled |= exponent[state, w] != 0
        mantissa[state, w], exponent[state, w] = 0.0, 0
    for x in range(extreme.shape[1]):
        extreme[state, x] = np.inf
    return rescaled


@inlined
def _fade(symbol, start, stop, fade_start, fade, mantissa, exponent, extreme):
    """Empty what the moment [start, stop) left for the next one only; whether an exponent changed."""
    rescaled = False
    for i in range(start, stop):
        for f in range(fade_start[symbol[i]], fade_start[symbol[i] + 1]):
            rescaled |= _clear(fade[f], mantissa, exponent, extreme)
    return rescaled


@kernel
def _gather_extremes(events, i, rows, m, extreme, fresh):
    """min over the sources, and over the event's own value if it continues any trend."""
    flat = extreme.reshape(-1)
    a = events.symbol[i]
    for r in range(rows.xrow_start[a], rows.xrow_start[a + 1]):
        best, continues = np.inf, False
        for o in range(rows.xop_start[r], rows.xop_start[r + 1]):
            best = min(best, flat[rows.xop[o]])
            continues |= m[rows.xgate[o]] != 0.0
        if continues and rows.xcol[r] >= 0:
            best = min(best, events.extremes[rows.xcol[r], i])
        fresh[rows.xdst[r]] = min(fresh[rows.xdst[r]], best)


@kernel
def _settle_extremes(a, rows, extreme, fresh):
    flat = extreme.reshape(-1)
    for r in range(rows.xrow_start[a], rows.xrow_start[a + 1]):
        d = rows.xdst[r]
        flat[d] = min(flat[d], fresh[d])
        fresh[d] = np.inf


@kernel
def _bridge(rows, exponent, factor, vfactor):
    """Recompute the factor of every term from the exponents of its two entries."""
    for r in range(rows.dst.shape[0]):
        to = exponent[rows.dst[r]]
        for o in range(rows.op_start[r], rows.op_start[r + 1]):
            factor[o] = scale(to, exponent[rows.op[o]])
        for o in range(rows.vop_start[r], rows.vop_start[r + 1]):
            vfactor[o] = scale(to, exponent[rows.vop[o]])
