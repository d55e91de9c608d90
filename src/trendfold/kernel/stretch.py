"""Stretches of rows as matrices, which overlapping windows share.

A stretch changes the vector of masses linearly, so it is a matrix: row s is what mass 1 at s becomes. It
is folded once, however many windows it lies in. Numbers that ride on the count need no rows of their own:
with c the counts and n a number, both over states,

    c' = c C        n' = n C + c N        (C: counts of the stretch, N: the number's gains in it)

Windows are products of stretches (see kernel.sliding).
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.fold import fold_moment, no_mass
from trendfold.kernel.jit import kernel
from trendfold.kernel.wide import RADIX, add, lift, normalise, times


@kernel
def cut_stretches(lows, highs, long, low, high, rank, first, last):
    """Cut the rows at the edges of all windows, into the stretches that lie in any; returns how many.

    lows, highs  int64[n]    the rows [low, high) of a window; neither ever decreases
    long                     the fewest rows of a stretch that gets a matrix
    low, high    int64[2n]   written: the rows of a stretch
    rank         int64[2n]   written: how many stretches before it are long, and all in the end
    first, last  int64[n]    written: window k is the stretches [first[k], last[k])
    """
    windows = lows.shape[0]
    count = opened = closed = 0
    edge = np.int64(0)
    rank[0] = 0
    while closed < windows:
        before = edge
        edge = min(lows[opened], highs[closed]) if opened < windows else highs[closed]
        if opened > closed:
            low[count], high[count] = before, edge
            rank[count + 1] = rank[count] + (edge - before >= long)
            count += 1
        while closed < windows and highs[closed] == edge:
            last[closed] = count
            closed += 1
        while opened < windows and lows[opened] == edge:
            first[opened] = count
            opened += 1
    return count


@kernel
def pass_time_between(mantissa, exponent, passed, open_states, elapsed):
    """Let time pass between a stretch and the next, for every trend that has begun and not ended.

    mantissa, exponent  [stretches, A, states, numbers, B]   changed in place
    passed              float64[stretches or fewer]  microseconds; no time passes after the others
    open_states         int[k]  see Frame.open;  elapsed  the number that grows
    """
    for k in range(passed.shape[0]):
        if passed[k] > 0.0:
            for a in range(mantissa.shape[1]):
                for s in open_states:
                    for b in range(mantissa.shape[4]):
                        gain, gain_e = times(mantissa[k, a, s, 0, b], exponent[k, a, s, 0, b], passed[k])
                        mantissa[k, a, s, elapsed, b], exponent[k, a, s, elapsed, b] = add(
                            mantissa[k, a, s, elapsed, b], exponent[k, a, s, elapsed, b], gain, gain_e
                        )


@kernel
def fold_stretches(events, lows, highs, rows, grid, guards, frame, starts, matrix, slot):
    """Fold the rows [lows[k], highs[k]) once from each start state, into the matrices from `slot` on.

    For counts under *any*, where an event changes one state; folds.lane_matrices has all others.

    starts  int32[R]  the states that mass may come in from (⊤ only passes through)
    matrix  Folded of shape [slots, R, states, ...]; used as a ring
    """
    fresh = no_mass(frame)
    slots = (
        np.empty(frame.states * SLOTS),
        np.empty(frame.states * SLOTS, np.int32),
        np.empty(grid.times.size * SLOTS),
    )
    for i in range(lows.shape[0]):
        k = (slot + i) % matrix.mantissa.shape[0]
        matrix.mantissa[k] = 0.0
        matrix.exponent[k] = 0
        for first in range(0, starts.shape[0], SLOTS):
            _fold_counts(
                events, lows[i], highs[i], rows, grid, guards, starts, first, k, matrix, fresh, slots
            )


SLOTS = 4


@kernel
def _fold_counts(events, low, high, rows, grid, guards, starts, first, k, matrix, fresh, scratch):
    """Four rows of one matrix in one pass over the events, where only counts are carried, under *any*.

    The rows from `first` on are independent of each other, so the processor works on all four at a time;
    where the matrix has fewer, the rest is empty. See kernel.fold.fold_windows for the fast path.
    """
    symbol, moment, moves = events.symbol, events.moment, guards.moves
    dst, src, times = grid.dst.reshape(-1), grid.src.reshape(-1), grid.times.reshape(-1)
    terms = np.uint32(grid.src.shape[2])
    count = min(SLOTS, starts.shape[0] - first)
    slots = np.uint32(SLOTS)
    # One state's mass from all starts lies together.
    m, e, factor = scratch
    m[:] = 0.0
    e[:] = 0
    for n in range(times.shape[0]):
        factor[n * SLOTS : (n + 1) * SLOTS] = times[n]
    for r in range(count):
        m[starts[first + r] * SLOTS + r] = 1.0
    i = low
    while i < high:
        a = np.uint32(symbol[i])
        if (i + 1 == high or moment[i + 1] != moment[i]) and not moves[a]:
            sum0 = sum1 = sum2 = sum3 = 0.0
            t = a * terms
            f = t * slots
            for _ in range(terms):
                s = src[t] * slots
                sum0 += m[s] * factor[f]
                sum1 += m[s + np.uint32(1)] * factor[f + np.uint32(1)]
                sum2 += m[s + np.uint32(2)] * factor[f + np.uint32(2)]
                sum3 += m[s + np.uint32(3)] * factor[f + np.uint32(3)]
                t += np.uint32(1)
                f += slots
            most = abs(sum0) + abs(sum1) + abs(sum2) + abs(sum3)
            if not np.isnan(most):
                d = dst[a] * slots
                m[d], m[d + np.uint32(1)] = sum0, sum1
                m[d + np.uint32(2)], m[d + np.uint32(3)] = sum2, sum3
                i += 1
                if most >= RADIX:
                    for r in range(SLOTS):
                        m[d + r], e[d + r] = normalise(m[d + r], e[d + r])
                    _bridge_slots(dst, src, times, terms, e, factor)
                continue
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        for r in range(count):
            mantissa, exponent = matrix.mantissa[k, first + r], matrix.exponent[k, first + r]
            mantissa[:, 0], exponent[:, 0] = m[r::SLOTS], e[r::SLOTS]
            fold_moment(
                events, i, i, j, rows, guards, mantissa, exponent, matrix.extreme[k, first + r], fresh
            )
            m[r::SLOTS], e[r::SLOTS] = mantissa[:, 0], exponent[:, 0]
        _bridge_slots(dst, src, times, terms, e, factor)
        i = j
    for r in range(count):
        matrix.mantissa[k, first + r, :, 0] = m[r::SLOTS]
        matrix.exponent[k, first + r, :, 0] = e[r::SLOTS]


@kernel
def _bridge_slots(dst, src, times, terms, exponent, factor):
    """The factors of every term, one per start state; see fold.bridge."""
    for t in range(src.shape[0]):
        for r in range(SLOTS):
            to, of = exponent[dst[t // terms] * SLOTS + r], exponent[src[t] * SLOTS + r]
            factor[t * SLOTS + r] = times[t] * lift(to, of)
