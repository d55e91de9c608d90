"""Stretches of the stream as matrices, multiplied into windows that overlap.

A stretch changes the vector of masses linearly, so it is a matrix: row s is what mass 1 at s becomes. It
is folded once, however many windows it lies in. Numbers that ride on the count need no rows of their own:
with c the counts and n a number, both over states,

    c' = c C        n' = n C + c N        (C: counts of the stretch, N: what the number gains on the way)

Windows are products of stretches, and go on to the right at both ends: two stacks (see `slide_windows`).
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.fold import fold_moment, fold_stretch, no_mass
from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.wide import RADIX, SHRINK, add, lift, normalise


@kernel
def cut_stretches(lows, highs):
    """Cut the rows at the edges of all windows; returns the stretches that lie in any, and each window's.

    lows, highs  int64[n]  the rows [low, high) of a window; neither ever goes back
    Returns low, high: the rows of a stretch; first, last: window k is the stretches [first[k], last[k]).
    """
    windows = lows.shape[0]
    first, last = np.empty(windows, np.int64), np.empty(windows, np.int64)
    low = high = np.empty(0, np.int64)
    count = 0
    for turn in range(2):  # first count, then fill
        if turn == 1:
            low, high = np.empty(count, np.int64), np.empty(count, np.int64)
        count = opened = closed = 0
        edge = np.int64(0)
        while closed < windows:
            before = edge
            edge = min(lows[opened], highs[closed]) if opened < windows else highs[closed]
            if opened > closed:
                if turn == 1:
                    low[count], high[count] = before, edge
                count += 1
            while closed < windows and highs[closed] == edge:
                last[closed] = count
                closed += 1
            while opened < windows and lows[opened] == edge:
                first[opened] = count
                opened += 1
    return low, high, first, last


@kernel
def fold_stretches(events, lows, highs, rows, grid, guards, frame, starts, fades, matrix, slot):
    """Fold the rows [lows[k], highs[k]) once from each start state, into the matrices from `slot` on.

    starts  int32[R]  the states that mass may come in from (⊤ only passes through, unless a NOT guards it)
    fades   bool[R]   whether mass that came in lasts for one moment only (*contiguous*)
    matrix  Folded of shape [slots, R, states, ...]; after the last slot comes the first again
    """
    fresh = no_mass(frame)
    factor = np.empty_like(grid.times)
    lanes = (
        np.empty(frame.states * LANES),
        np.empty(frame.states * LANES, np.int32),
        np.empty(grid.times.size * LANES),
    )
    is_count = frame.width == 1 and frame.extremes == 0 and grid.dst.shape[1] == 1
    is_any = rows.spend.shape[1] + rows.fade.shape[1] == 0
    for i in range(lows.shape[0]):
        k = (slot + i) % matrix.mantissa.shape[0]
        matrix.mantissa[k] = 0.0
        matrix.exponent[k] = 0
        matrix.extreme[k] = np.inf
        low, high = lows[i], highs[i]
        if is_count and is_any:
            for first in range(0, starts.shape[0], LANES):
                _fold_counts(events, low, high, rows, grid, guards, starts, first, k, matrix, fresh, lanes)
            continue
        for r in range(starts.shape[0]):
            mantissa, exponent, extreme = matrix.mantissa[k, r], matrix.exponent[k, r], matrix.extreme[k, r]
            mantissa[starts[r], 0] = 1.0
            factor[:] = grid.times
            inherited = starts[r] if fades[r] else -1
            fold_stretch(
                events,
                low,
                high,
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
def _fold_counts(events, low, high, rows, grid, guards, starts, first, k, matrix, fresh, scratch):
    """Four rows of one matrix in one pass over the events, where counts are all there is; under *any*.

    The rows from `first` on are independent of each other, so the processor works on all four at a time;
    where the matrix has fewer, the rest is empty. See fold.fold_stretch for the short way.
    """
    symbol, moment, moves = events.symbol, events.moment, guards.moves
    dst, src, times = grid.dst.reshape(-1), grid.src.reshape(-1), grid.times.reshape(-1)
    terms = np.uint32(grid.src.shape[2])
    count = min(LANES, starts.shape[0] - first)
    lanes = np.uint32(LANES)
    # One state's mass from all starts lies together.
    m, e, factor = scratch
    m[:] = 0.0
    e[:] = 0
    for t in range(times.shape[0]):
        factor[t * LANES : (t + 1) * LANES] = times[t]
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
def slide_windows(first, last, frame, starts, matrix, stacks, out):
    """The whole trends of windows that go on to the right: ⊥ times the stretches [first[k], last[k]).

    Two stacks meet at a stretch in the middle of the window. The front holds ⊥ times the product from each
    earlier stretch up to the middle, the back the product from the middle on: a window is one of the front
    times the back. Each stretch is multiplied into the back once, from the right. When a window begins at
    the middle or after it, the front is used up: the middle moves to the window's end, and the window's
    stretches are multiplied from the right to the left into a new front, each once. So a stretch costs two
    products, in however many windows it lies, and nothing is ever divided or taken away.

    matrix  Folded [slots, R, states, ...]  stretch j is at slot j modulo slots; the window's must be there
    stacks  where the windows before these have left off (see program.Stacks)
    """
    passes = np.ones(frame.states, np.bool_)
    for r in range(starts.shape[0]):
        passes[starts[r]] = False
    top = 0
    while starts[top] != frame.start:
        top += 1
    slots, at, front, work = matrix.mantissa.shape[0], stacks.at, stacks.front, stacks.work
    for k in range(first.shape[0]):
        if first[k] >= at[0]:
            at[0] = at[1] = last[k]
            at[2] = 0
            _identity(work, 0, starts)
            _identity(work, 2, starts)
            here = 2
            for j in range(last[k] - 1, first[k] - 1, -1):
                there = 5 - here
                _multiply(matrix, j % slots, work, here, starts, passes, work, there)
                front.mantissa[j % slots, 0] = work.mantissa[there, top]
                front.exponent[j % slots, 0] = work.exponent[there, top]
                front.extreme[j % slots, 0] = work.extreme[there, top]
                here = there
        while at[1] < last[k]:
            _multiply(work, at[2], matrix, at[1] % slots, starts, passes, work, 1 - at[2])
            at[1] += 1
            at[2] = 1 - at[2]
        for t in frame.whole:
            _add_entry(front, first[k] % slots, 0, work, at[2], t, starts, passes, out, k, 0, 0)


@kernel
def _identity(into, k, starts):
    """The product of no stretches."""
    into.mantissa[k] = 0.0
    into.exponent[k] = 0
    into.extreme[k] = np.inf
    for r in range(starts.shape[0]):
        into.mantissa[k, r, starts[r], 0] = 1.0


@kernel
def _multiply(left, i, right, j, starts, passes, into, k):
    """Matrix k of `into` = left[i] times right[j]."""
    into.mantissa[k] = 0.0
    into.exponent[k] = 0
    into.extreme[k] = np.inf
    for r in range(starts.shape[0]):
        for t in range(passes.shape[0]):
            _add_entry(left, i, r, right, j, t, starts, passes, into, k, r, t)


@inlined
def _add_entry(left, i, r, right, j, t, starts, passes, into, k, row, to):
    """Add entry t of (row r of left[i]) times right[j] to into[k, row, to].

    A state that is no start passes through.
    """
    m, e, x = into
    width, extremes = m.shape[3], x.shape[3]
    if passes[t]:
        for w in range(width):
            m[k, row, to, w], e[k, row, to, w] = add(
                m[k, row, to, w], e[k, row, to, w], left.mantissa[i, r, t, w], left.exponent[i, r, t, w]
            )
        for y in range(extremes):
            x[k, row, to, y] = min(x[k, row, to, y], left.extreme[i, r, t, y])
    for q in range(starts.shape[0]):
        s = starts[q]
        c, ce = left.mantissa[i, r, s, 0], left.exponent[i, r, s, 0]
        d, de = right.mantissa[j, q, t, 0], right.exponent[j, q, t, 0]
        if c == 0.0 or d == 0.0:
            continue
        part, part_e = _times(c, ce, d, de)
        m[k, row, to, 0], e[k, row, to, 0] = add(m[k, row, to, 0], e[k, row, to, 0], part, part_e)
        for w in range(1, width):
            part, part_e = _times(left.mantissa[i, r, s, w], left.exponent[i, r, s, w], d, de)
            gain, gain_e = _times(c, ce, right.mantissa[j, q, t, w], right.exponent[j, q, t, w])
            part, part_e = add(part, part_e, gain, gain_e)
            m[k, row, to, w], e[k, row, to, w] = add(m[k, row, to, w], e[k, row, to, w], part, part_e)
        for y in range(extremes):
            gain = min(left.extreme[i, r, s, y], right.extreme[j, q, t, y])
            x[k, row, to, y] = min(x[k, row, to, y], gain)


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
