"""The machine over events, where one vector per place is enough.

Neither the cost of an event nor the state depends on how many events came before.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.guards import move_classes
from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.wide import RADIX, add, scale, times


@kernel
def fold_windows(events, lows, highs, rows, grid, guards, frame, out):
    """Fold the rows [lows[k], highs[k]) of every window item; its whole trends go to row k of `out`."""
    states, width = frame.states, frame.width
    mantissa, exponent = np.zeros((states, width)), np.zeros((states, width), np.int32)
    extreme = np.full((states, frame.extremes), np.inf)
    fresh = (
        np.zeros(states * width),
        np.zeros(states * width, np.int32),
        np.full(states * frame.extremes, np.inf),
    )
    factor = np.ones(grid.src.shape)
    for k in range(lows.shape[0]):
        mantissa[:] = 0.0
        exponent[:] = 0
        extreme[:] = np.inf
        mantissa[frame.start, 0] = 1.0
        factor[:] = 1.0
        fold_stretch(
            events, lows[k], highs[k], rows, grid, guards, mantissa, exponent, extreme, factor, fresh, -1
        )
        for s in frame.whole:
            for w in range(width):
                out.mantissa[k, w], out.exponent[k, w] = add(
                    out.mantissa[k, w], out.exponent[k, w], mantissa[s, w], exponent[s, w]
                )
            for x in range(frame.extremes):
                out.extreme[k, x] = min(out.extreme[k, x], extreme[s, x])


@kernel
def fold_stretch(
    events, low, high, rows, grid, guards, mantissa, exponent, extreme, factor, fresh, inherited
):
    """Fold the rows [low, high) into the state, in place.

    `inherited` is a state whose mass fades with the first moment (*contiguous*), or -1.

    A moment of one event that moves no class takes the short way: its grid is evaluated on mantissas,
    with a factor per term that bridges the exponents of its two entries. Factors change only when an
    exponent does. A factor is NaN where a term would not fit, so one comparison sees both an overflow
    and a misfit, and the moment is done in wide arithmetic instead. What is emptied along the way
    (*next*, *contiguous*) must not keep an exponent, so there the short way ends at the first one.
    """
    symbol, moment, values, values_x = events.symbol, events.moment, events.values, events.extremes
    dst, src, col, moves = grid.dst, grid.src, grid.col, guards.moves
    spend, drain, fade = rows.spend, rows.drain, rows.fade
    xdst, xsrc, xgate, xcol = rows.xdst, rows.xsrc, rows.xgate, rows.xcol
    m, e, x = mantissa.reshape(-1), exponent.reshape(-1), extreme.reshape(-1)
    sums, fresh_x = fresh[0], fresh[2]
    has_values, has_extremes = values.shape[1] > 0, xdst.shape[1] > 0
    spends, drains, fades = spend.shape[1], drain.shape[1], fade.shape[1]
    count, terms = dst.shape[1], src.shape[2]
    is_count = mantissa.shape[1] == 1 and not has_extremes and count == 1  # a state is one entry
    is_short = count > 0 and inherited < 0
    before = low  # where the moment before begins
    i = low
    while i < high:
        a = symbol[i]
        if is_short and (i + 1 == high or moment[i + 1] != moment[i]) and not moves[a]:
            fits = True
            if is_count:
                total = 0.0
                for k in range(terms):
                    total += m[src[a, 0, k]] * factor[a, 0, k]
                if abs(total) < RADIX:
                    for k in range(drains):
                        m[drain[a, k]] = 0.0
                    for k in range(fades):
                        m[fade[symbol[before], k]] = 0.0
                    for p in range(before + 1, i):
                        for k in range(fades):
                            m[fade[symbol[p], k]] = 0.0
                    m[dst[a, 0]] = total
                    before = i
                    i += 1
                    continue
                fits = False
            elif has_values:
                for r in range(count):
                    total = 0.0
                    for k in range(terms):
                        total += m[src[a, r, k]] * factor[a, r, k] * values[i, col[a, r, k]]
                    fits &= abs(total) < RADIX
                    sums[r] = total
            else:
                for r in range(count):
                    total = 0.0
                    for k in range(terms):
                        total += m[src[a, r, k]] * factor[a, r, k]
                    fits &= abs(total) < RADIX
                    sums[r] = total
            if fits:
                if has_extremes:
                    _gather_extremes(a, i, values_x, xdst, xsrc, xgate, xcol, m, x, fresh_x)
                for k in range(spends):
                    _empty(spend[a, k], mantissa, extreme)
                if fades:
                    for p in range(before, i):
                        for k in range(fades):
                            _empty(fade[symbol[p], k], mantissa, extreme)
                for r in range(count):
                    m[dst[a, r]] = sums[r]
                if has_extremes:
                    _settle_extremes(a, xdst, x, fresh_x)
                before = i
                i += 1
                continue
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        fading = inherited if i == low else -1
        if fold_moment(events, before, i, j, rows, guards, mantissa, exponent, extreme, fresh, fading):
            _bridge(grid, e, factor)
        is_short = count > 0 and not (spends + fades > 0 and exponent.any())
        before = i
        i = j


@inlined
def _empty(state, mantissa, extreme):
    """Empty a state that has no exponent."""
    for w in range(mantissa.shape[1]):
        mantissa[state, w] = 0.0
    for x in range(extreme.shape[1]):
        extreme[state, x] = np.inf


@kernel
def fold_moment(events, before, start, stop, rows, guards, mantissa, exponent, extreme, fresh, inherited):
    """One moment in wide arithmetic: gather, spend, fade, move classes, settle. True if exponents changed."""
    m, e, x = mantissa.reshape(-1), exponent.reshape(-1), extreme.reshape(-1)
    fresh_m, fresh_e = fresh[0], fresh[1]
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
                part_m, part_e = times(m[s], e[s], events.values[i, rows.vcol[o]])
                fresh_m[d], fresh_e[d] = add(fresh_m[d], fresh_e[d], part_m, part_e)
        _gather_extremes(
            symbol[i], i, events.extremes, rows.xdst, rows.xsrc, rows.xgate, rows.xcol, m, x, fresh[2]
        )
    rescaled = moved and exponent.any()
    for i in range(start, stop):
        for k in range(rows.spend.shape[1]):
            rescaled |= _clear(rows.spend[symbol[i], k], mantissa, exponent, extreme)
    for i in range(before, start):
        for k in range(rows.fade.shape[1]):
            rescaled |= _clear(rows.fade[symbol[i], k], mantissa, exponent, extreme)
    if inherited >= 0:
        rescaled |= _clear(inherited, mantissa, exponent, extreme)
    if moved:
        move_classes(guards, symbol, start, stop, mantissa, exponent, extreme)
    for i in range(start, stop):
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            old = e[d]
            m[d], e[d] = add(m[d], e[d], fresh_m[d], fresh_e[d])
            rescaled |= e[d] != old
            fresh_m[d], fresh_e[d] = 0.0, 0  # tied events may share a row
        _settle_extremes(symbol[i], rows.xdst, x, fresh[2])
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
def _gather_extremes(a, i, values_x, xdst, xsrc, xgate, xcol, m, x, fresh_x):
    """min over the sources, and over the event's own value if it continues any trend."""
    for r in range(xdst.shape[1]):
        best = fresh_x[xdst[a, r]]
        for k in range(xsrc.shape[2]):
            own = values_x[i, xcol[a, r, k]] if m[xgate[a, r, k]] != 0.0 else np.inf
            best = min(best, min(own, x[xsrc[a, r, k]]))
        fresh_x[xdst[a, r]] = best


@inlined
def _settle_extremes(a, xdst, x, fresh_x):
    for r in range(xdst.shape[1]):
        x[xdst[a, r]] = min(x[xdst[a, r]], fresh_x[xdst[a, r]])
        fresh_x[xdst[a, r]] = np.inf


@kernel
def _bridge(grid, exponent, factor):
    """Recompute the factor of every term from the exponents of its two entries."""
    for a in range(grid.src.shape[0]):
        for r in range(grid.src.shape[1]):
            to = exponent[grid.dst[a, r]]
            for k in range(grid.src.shape[2]):
                factor[a, r, k] = scale(to, exponent[grid.src[a, r, k]])
