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
            _fold_counts(events, bounds[k], bounds[k + 1], rows, grid, guards, starts, k, matrix, fresh)
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


@kernel
def _fold_counts(events, low, high, rows, grid, guards, starts, k, matrix, fresh):
    """All rows of one matrix in one pass over the events, where counts are all there is; under *any*.

    The rows are independent, so the processor works on several at a time. See fold.fold_stretch.
    """
    symbol, moment, moves = events.symbol, events.moment, guards.moves
    dst, src, times = grid.dst.reshape(-1), grid.src.reshape(-1), grid.times.reshape(-1)
    count, states, terms = starts.shape[0], matrix.mantissa.shape[2], grid.src.shape[2]
    e = matrix.exponent[k].reshape(-1)
    # One state's mass from all starts lies together, so that the innermost loop reads it in a row.
    m, sums = np.zeros(states * count), np.empty(count)
    factor = np.empty(src.shape[0] * count)
    for t in range(src.shape[0]):
        factor[t * count : (t + 1) * count] = times[t]
    for r in range(count):
        m[starts[r] * count + r] = 1.0
    lanes = np.uint32(count)
    i = low
    while i < high:
        a = np.uint32(symbol[i])
        if (i + 1 == high or moment[i + 1] != moment[i]) and not moves[a]:
            sums[:] = 0.0
            t = a * np.uint32(terms)
            for _ in range(terms):
                s, f = src[t] * lanes, t * lanes
                for r in range(lanes):
                    sums[r] += m[s + r] * factor[f + r]
                t += np.uint32(1)
            fits = True
            for r in range(lanes):
                fits &= abs(sums[r]) < RADIX
            if fits or not np.isnan(sums).any():
                d = dst[a] * lanes
                for r in range(lanes):
                    m[d + r] = sums[r]
                i += 1
                if not fits:
                    for r in range(count):
                        at = r * states + dst[a]
                        m[d + r], e[at] = normalise(sums[r], e[at])
                    _bridge_rows(dst, src, times, terms, count, states, e, factor)
                continue
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        for r in range(count):
            matrix.mantissa[k, r, :, 0] = m[r::count]
            fold_moment(
                events, i, i, j, rows, guards,
                matrix.mantissa[k, r], matrix.exponent[k, r], matrix.extreme[k, r], fresh, -1,
            )  # fmt: skip
            m[r::count] = matrix.mantissa[k, r, :, 0]
        _bridge_rows(dst, src, times, terms, count, states, e, factor)
        i = j
    for r in range(count):
        matrix.mantissa[k, r, :, 0] = m[r::count]


@kernel
def _bridge_rows(dst, src, times, terms, count, states, exponent, factor):
    """The factors of every term, one per row of the matrix; see fold.bridge."""
    for t in range(src.shape[0]):
        for r in range(count):
            to, of = exponent[r * states + dst[t // terms]], exponent[r * states + src[t]]
            factor[t * count + r] = times[t] * lift(to, of)


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
