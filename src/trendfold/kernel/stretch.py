"""Stretches of the stream as matrices, multiplied into windows that overlap.

A stretch changes the vector of masses linearly, so it is a matrix: row s is what mass 1 at s becomes. It
is folded once, however many windows it lies in. Numbers that ride on the count need no rows of their own:
with c the counts and n a number, both over states,

    c' = c C        n' = n C + c N        (C: counts of the stretch, N: what the number gains on the way)
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.fold import fold_moment, fold_stretch, no_mass
from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.wide import RADIX, SHRINK, add, lift, normalise


@kernel
def fold_stretches(events, bounds, rows, grid, guards, frame, starts, fades, matrix):
    """Fold the rows [bounds[k], bounds[k+1]) once from each start state, into matrix k.

    starts  int32[R]  the states that mass may come in from (⊤ only passes through, unless a NOT guards it)
    fades   bool[R]   whether mass that came in lasts for one moment only (*contiguous*)
    matrix  Folded of shape [stretches, R, states, ...]
    """
    fresh = no_mass(frame)
    factor = np.empty_like(grid.times)
    is_count = frame.width == 1 and frame.extremes == 0 and grid.dst.shape[1] == 1
    is_any = rows.spend.shape[1] + rows.fade.shape[1] == 0
    for k in range(bounds.shape[0] - 1):
        if is_count and is_any:
            for first in range(0, starts.shape[0], LANES):
                _fold_counts(
                    events, bounds[k], bounds[k + 1], rows, grid, guards, starts, first, k, matrix, fresh
                )
            continue
        for r in range(starts.shape[0]):
            mantissa, exponent, extreme = matrix.mantissa[k, r], matrix.exponent[k, r], matrix.extreme[k, r]
            mantissa[starts[r], 0] = 1.0
            factor[:] = grid.times
            inherited = starts[r] if fades[r] else -1
            fold_stretch(
                events,
                bounds[k],
                bounds[k + 1],
                rows,
                grid,
                guards,
                mantissa,
                exponent,
                extreme,
                factor,
                fresh,
                inherited,
            )


LANES = 4


@kernel
def _fold_counts(events, low, high, rows, grid, guards, starts, first, k, matrix, fresh):
    """Four rows of one matrix in one pass over the events, where counts are all there is; under *any*.

    The rows from `first` on are independent of each other, so the processor works on all four at a time;
    where the matrix has fewer, the rest is empty. See fold.fold_stretch for the short way.
    """
    symbol, moment, moves = events.symbol, events.moment, guards.moves
    dst, src, times = grid.dst.reshape(-1), grid.src.reshape(-1), grid.times.reshape(-1)
    states, terms = matrix.mantissa.shape[2], np.uint32(grid.src.shape[2])
    count = min(LANES, starts.shape[0] - first)
    lanes = np.uint32(LANES)
    # One state's mass from all starts lies together.
    m, e = np.zeros(states * LANES), np.zeros(states * LANES, np.int32)
    factor = np.repeat(times, LANES)
    for r in range(count):
        m[starts[first + r] * LANES + r] = 1.0
    i = low
    while i < high:
        a = np.uint32(symbol[i])
        if (i + 1 == high or moment[i + 1] != moment[i]) and not moves[a]:
            sum0 = sum1 = sum2 = sum3 = 0.0
            t = a * terms
            f = t * lanes
            for _ in range(terms):
                s = src[t] * lanes
                sum0 += m[s] * factor[f]
                sum1 += m[s + np.uint32(1)] * factor[f + np.uint32(1)]
                sum2 += m[s + np.uint32(2)] * factor[f + np.uint32(2)]
                sum3 += m[s + np.uint32(3)] * factor[f + np.uint32(3)]
                t += np.uint32(1)
                f += lanes
            most = abs(sum0) + abs(sum1) + abs(sum2) + abs(sum3)
            if not np.isnan(most):
                d = dst[a] * lanes
                m[d], m[d + np.uint32(1)] = sum0, sum1
                m[d + np.uint32(2)], m[d + np.uint32(3)] = sum2, sum3
                i += 1
                if most >= RADIX:
                    for r in range(LANES):
                        m[d + r], e[d + r] = normalise(m[d + r], e[d + r])
                    _bridge_lanes(dst, src, times, terms, e, factor)
                continue
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        for r in range(count):
            mantissa, exponent = matrix.mantissa[k, first + r], matrix.exponent[k, first + r]
            mantissa[:, 0], exponent[:, 0] = m[r::LANES], e[r::LANES]
            fold_moment(
                events, i, i, j, rows, guards, mantissa, exponent, matrix.extreme[k, first + r], fresh, -1
            )
            m[r::LANES], e[r::LANES] = mantissa[:, 0], exponent[:, 0]
        _bridge_lanes(dst, src, times, terms, e, factor)
        i = j
    for r in range(count):
        matrix.mantissa[k, first + r, :, 0] = m[r::LANES]
        matrix.exponent[k, first + r, :, 0] = e[r::LANES]


@kernel
def _bridge_lanes(dst, src, times, terms, exponent, factor):
    """The factors of every term, one per lane; see fold.bridge."""
    for t in range(src.shape[0]):
        for r in range(LANES):
            to, of = exponent[dst[t // terms] * LANES + r], exponent[src[t] * LANES + r]
            factor[t * LANES + r] = times[t] * lift(to, of)


@kernel
def multiply_windows(lows, highs, frame, starts, matrix, out):
    """The whole trends of every window: ⊥ times the matrices of its stretches [lows[k], highs[k])."""
    states, width, extremes = frame.states, frame.width, frame.extremes
    here = np.zeros((states, width)), np.zeros((states, width), np.int32), np.full((states, extremes), np.inf)
    there = (
        np.zeros((states, width)),
        np.zeros((states, width), np.int32),
        np.full((states, extremes), np.inf),
    )
    passes = np.ones(states, np.bool_)
    for r in range(starts.shape[0]):
        passes[starts[r]] = False
    for k in range(lows.shape[0]):
        here[0][:] = 0.0
        here[1][:] = 0
        here[2][:] = np.inf
        here[0][frame.start, 0] = 1.0
        for j in range(lows[k], highs[k]):
            _multiply(here, matrix, j, starts, passes, there)
            here, there = there, here
        for s in frame.whole:
            for w in range(width):
                out.mantissa[k, w], out.exponent[k, w] = add(
                    out.mantissa[k, w], out.exponent[k, w], here[0][s, w], here[1][s, w]
                )
            for x in range(extremes):
                out.extreme[k, x] = min(out.extreme[k, x], here[2][s, x])


@kernel
def _multiply(vector, matrix, j, starts, passes, product):
    """product = vector times matrix j; states that are no start pass through."""
    m, e, x = vector
    states, width, extremes = m.shape[0], m.shape[1], x.shape[1]
    for t in range(states):
        for w in range(width):
            product[0][t, w], product[1][t, w] = (m[t, w], e[t, w]) if passes[t] else (0.0, np.int32(0))
        for k in range(extremes):
            product[2][t, k] = x[t, k] if passes[t] else np.inf
    for r in range(starts.shape[0]):
        s = starts[r]
        if m[s, 0] == 0.0:
            continue
        for t in range(states):
            c, ce = matrix.mantissa[j, r, t, 0], matrix.exponent[j, r, t, 0]
            if c == 0.0:
                continue
            for w in range(width):
                part, part_e = _times(m[s, w], e[s, w], c, ce)
                if w > 0:
                    gain, gain_e = _times(
                        m[s, 0], e[s, 0], matrix.mantissa[j, r, t, w], matrix.exponent[j, r, t, w]
                    )
                    part, part_e = add(part, part_e, gain, gain_e)
                product[0][t, w], product[1][t, w] = add(product[0][t, w], product[1][t, w], part, part_e)
            for k in range(extremes):
                product[2][t, k] = min(product[2][t, k], min(x[s, k], matrix.extreme[j, r, t, k]))


@inlined
def _times(m1, e1, m2, e2):
    """The product of two wide numbers."""
    m, e = m1 * m2, e1 + e2
    if abs(m) >= RADIX:
        m *= SHRINK
        e += 1
    if m == 0.0:
        e = 0
    while e > 0 and abs(m) < 1.0:
        m *= RADIX
        e -= 1
    return m, e
