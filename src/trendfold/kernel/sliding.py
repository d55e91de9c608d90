"""Windows that go on to the right at both ends, as products by two stacks.

Two stacks meet in the middle of the window. The front holds ⊥ times the product from each earlier stretch up
to the middle, the back the product from the middle on: a window is one vector of the front times the back.
The back grows on its right, stretch by stretch. When a window begins at the middle or after it, the front is
used up: the middle moves to the window's end, and a new front grows on its left from there. So a stretch is
multiplied twice, in however many windows it lies, and nothing is ever divided or taken away.

A long stretch comes as a matrix. One of a few rows is multiplied moment by moment: a moment's matrix is sparse.

A growing product is kept as [state, lane, number], so that both ways are the same few loops. For the back,
lane u is what mass 1 at u in the middle becomes, at each state; it is multiplied from the right. For the
front, lane u is how much reaches u in the middle, from mass 1 at each state; it is multiplied from the left.
An event leads from sources to targets: what is gathered at the one end is added at the other.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.bindings import ANY, CONTIGUOUS, NEXT
from trendfold.kernel.guards import class_after
from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.program import ONE
from trendfold.kernel.wide import RADIX, SHRINK, add, times


@kernel
def slide_windows(
    events, first, last, low, high, rank, steps, guards, semantics, frame, starts, matrix, stacks, out
):
    """The whole trends of windows: window k is the stretches [first[k], last[k]); neither ever goes back.

    low, high  int64[S]    the rows of each stretch
    rank       int64[S+1]  how many stretches before it have a matrix; stretch j has one if rank[j + 1] is more
    matrix     Folded [slots, R, states, ...]  the matrix of rank i is at i modulo slots; the window's are there
    stacks     where the windows before these have left off
    """
    passes = np.ones(steps.is_start.shape[0], np.bool_)
    for r in range(starts.shape[0]):
        passes[starts[r]] = False
    at, front, growing, back, total = stacks
    kept = np.empty(passes.shape[0], np.int64)
    places, slots = front.mantissa.shape[0], matrix.mantissa.shape[0]
    here = 0
    for k in range(first.shape[0]):
        if first[k] >= at[0]:
            at[0] = at[1] = last[k]
            at[2] = here = 0
            _identity(back, frame)
            _identity(growing, frame)
            for j in range(last[k] - 1, first[k] - 1, -1):
                if rank[j] < rank[j + 1]:
                    here = _multiply(matrix, rank[j] % slots, starts, passes, True, frame, growing, here)
                else:
                    here = _precede(
                        events, low[j], high[j], steps, guards, semantics, frame, growing, here, total, kept
                    )
                front.mantissa[j % places] = growing.mantissa[here, frame.start]
                front.exponent[j % places] = growing.exponent[here, frame.start]
                front.extreme[j % places] = growing.extreme[here, frame.start]
        for j in range(at[1], last[k]):
            if rank[j] < rank[j + 1]:
                at[2] = _multiply(matrix, rank[j] % slots, starts, passes, False, frame, back, at[2])
            else:
                at[2] = _follow(
                    events, low[j], high[j], steps, guards, semantics, frame, back, at[2], total, kept
                )
        at[1] = last[k]
        _meet(front, first[k] % places, back, at[2], frame, out, k)


@kernel
def _identity(side, frame):
    """The product of no stretches, at place 0."""
    side.mantissa[0] = 0.0
    side.exponent[0] = 0
    side.extreme[0] = np.inf
    for s in range(side.mantissa.shape[1]):
        side.mantissa[0, s, s * frame.width] = 1.0


@kernel
def _meet(front, i, back, here, frame, out, k):
    """Row k of `out` = vector i of the front times the back, at the states that are whole."""
    width, extremes = frame.width, frame.extremes
    for t in frame.whole:
        for u in range(back.mantissa.shape[1]):
            c, ce = front.mantissa[i, u * width], front.exponent[i, u * width]
            d, de = back.mantissa[here, t, u * width], back.exponent[here, t, u * width]
            if c == 0.0 or d == 0.0:
                continue
            part, part_e = _times(c, ce, d, de)
            out.mantissa[k, 0], out.exponent[k, 0] = add(out.mantissa[k, 0], out.exponent[k, 0], part, part_e)
            for w in range(u * width + 1, (u + 1) * width):
                part, part_e = _ride(
                    (c, ce, front.mantissa[i, w], front.exponent[i, w]),
                    (d, de, back.mantissa[here, t, w], back.exponent[here, t, w]),
                )
                n = w - u * width
                out.mantissa[k, n], out.exponent[k, n] = add(
                    out.mantissa[k, n], out.exponent[k, n], part, part_e
                )
            for x in range(extremes):
                least = min(front.extreme[i, u * extremes + x], back.extreme[here, t, u * extremes + x])
                out.extreme[k, x] = min(out.extreme[k, x], least)


# ---- A stretch as a matrix -------------------------------------------------------------------------


@kernel
def _multiply(matrix, slot, starts, passes, is_before, frame, side, here):
    """Multiply a product by a matrix, from the left where it comes before; returns where the product is now.

    A state that is no start passes through.
    """
    there = 1 - here
    states, width, extremes = passes.shape[0], frame.width, frame.extremes
    m, e, x = side.mantissa, side.exponent, side.extreme
    for s in range(states):
        if passes[s]:
            m[there, s], e[there, s], x[there, s] = m[here, s], e[here, s], x[here, s]
        else:
            m[there, s] = 0.0
            e[there, s] = 0
            x[there, s] = np.inf
    for r in range(starts.shape[0]):
        for t in range(states):
            c, ce = matrix.mantissa[slot, r, t, 0], matrix.exponent[slot, r, t, 0]
            if c == 0.0:
                continue
            of, to = (t, starts[r]) if is_before else (starts[r], t)
            for u in range(states):
                d, de = m[here, of, u * width], e[here, of, u * width]
                if d == 0.0:
                    continue
                n = u * width
                part, part_e = _times(c, ce, d, de)
                m[there, to, n], e[there, to, n] = add(m[there, to, n], e[there, to, n], part, part_e)
                for w in range(1, width):
                    n = u * width + w
                    part, part_e = _ride(
                        (c, ce, matrix.mantissa[slot, r, t, w], matrix.exponent[slot, r, t, w]),
                        (d, de, m[here, of, n], e[here, of, n]),
                    )
                    m[there, to, n], e[there, to, n] = add(m[there, to, n], e[there, to, n], part, part_e)
                for y in range(extremes):
                    n = u * extremes + y
                    least = min(matrix.extreme[slot, r, t, y], x[here, of, n])
                    x[there, to, n] = min(x[there, to, n], least)
    return there


@inlined
def _ride(left, right):
    """What a number is after a product: (count, its exponent, number, its exponent) on both sides."""
    c, ce, n, ne = left
    d, de, o, oe = right
    part, part_e = _times(n, ne, d, de)
    gain, gain_e = _times(c, ce, o, oe)
    return add(part, part_e, gain, gain_e)


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


# ---- A stretch moment by moment --------------------------------------------------------------------


@kernel
def _follow(events, low, high, steps, guards, semantics, frame, side, here, total, kept):
    """Multiply a product by the moments of the rows [low, high) from the right."""
    ends = steps.src_start, steps.src, steps.dst_start, steps.dst
    i = low
    while i < high:
        j = i + 1
        while j < high and events.moment[j] == events.moment[i]:
            j += 1
        here = _apply(events, i, j, steps, ends, guards, semantics, False, frame, side, here, total, kept)
        i = j
    return here


@kernel
def _precede(events, low, high, steps, guards, semantics, frame, side, here, total, kept):
    """Multiply a product by the moments of the rows [low, high) from the left."""
    ends = steps.dst_start, steps.dst, steps.src_start, steps.src
    j = high
    while j > low:
        i = j - 1
        while i > low and events.moment[i - 1] == events.moment[i]:
            i -= 1
        here = _apply(events, i, j, steps, ends, guards, semantics, True, frame, side, here, total, kept)
        j = i
    return here


@kernel
def _apply(events, start, stop, steps, ends, guards, semantics, is_before, frame, side, here, total, kept):
    """Multiply a product by one moment; returns where it is now.

    Every step of the moment reads the product from before it. One step alone may add in place, since all
    that it reads is gathered first.
    """
    symbol = events.symbol
    a = symbol[start]
    t = steps.step_start[a]
    if stop == start + 1 and not guards.moves[a] and steps.step_start[a + 1] - t <= 1:
        if steps.step_start[a + 1] == t:
            if semantics == CONTIGUOUS:
                _forget(steps, t, semantics, side, here)
            return here
        _gather(events, start, steps, t, ends, frame, side, here, total)
        if semantics != ANY:
            _forget(steps, t, semantics, side, here)
        _scatter(t, ends, side, here, total)
        return here
    there = 1 - here
    _mark_kept(symbol, start, stop, steps, guards, semantics, kept)
    _keep(kept, is_before, side, here, there)
    for i in range(start, stop):
        for t in range(steps.step_start[symbol[i]], steps.step_start[symbol[i] + 1]):
            _gather(events, i, steps, t, ends, frame, side, here, total)
            _scatter(t, ends, side, there, total)
    return there


@inlined
def _gather(events, i, steps, t, ends, frame, side, here, total):
    """What step t of row i carries from its one end, in every lane."""
    of_start, of = ends[0], ends[1]
    m, e, x = side.mantissa, side.exponent, side.extreme
    total_m, total_e, total_x = total
    width, extremes = frame.width, frame.extremes
    numbers, lows = total_m.shape[0], total_x.shape[0]
    for n in range(numbers):
        total_m[n], total_e[n] = 0.0, 0
    for n in range(lows):
        total_x[n] = np.inf
    for o in range(of_start[t], of_start[t + 1]):
        s = of[o]
        for n in range(numbers):
            total_m[n], total_e[n] = add(total_m[n], total_e[n], m[here, s, n], e[here, s, n])
        for n in range(lows):
            total_x[n] = min(total_x[n], x[here, s, n])
    for w in range(1, width):
        column = steps.weight[t, w]
        if column >= ONE:
            value = 1.0 if column == ONE else events.values[i, column]
            for n in range(0, numbers, width):
                gain, gain_e = times(total_m[n], total_e[n], value)
                total_m[n + w], total_e[n + w] = add(total_m[n + w], total_e[n + w], gain, gain_e)
    for y in range(extremes):
        column = steps.xweight[t, y]
        if column >= 0:
            value = events.extremes[i, column]
            for u in range(numbers // width):
                if total_m[u * width] != 0.0:
                    total_x[u * extremes + y] = min(total_x[u * extremes + y], value)


@inlined
def _scatter(t, ends, side, there, total):
    """Add what was gathered for step t at its other end."""
    to_start, to = ends[2], ends[3]
    m, e, x = side.mantissa, side.exponent, side.extreme
    total_m, total_e, total_x = total
    for o in range(to_start[t], to_start[t + 1]):
        s = to[o]
        for n in range(total_m.shape[0]):
            m[there, s, n], e[there, s, n] = add(m[there, s, n], e[there, s, n], total_m[n], total_e[n])
        for n in range(total_x.shape[0]):
            x[there, s, n] = min(x[there, s, n], total_x[n])


@inlined
def _forget(steps, t, semantics, side, here):
    """Empty what one step alone uses up (*next*), or all but ⊥ and ⊤ (*contiguous*)."""
    if semantics == NEXT:
        for o in range(steps.src_start[t], steps.src_start[t + 1]):
            if not steps.is_start[steps.src[o]]:
                _empty(side, here, steps.src[o])
    else:
        for s in range(steps.is_start.shape[0]):
            if not (steps.is_start[s] or steps.is_end[s]):
                _empty(side, here, s)


@inlined
def _empty(side, here, s):
    side.mantissa[here, s] = 0.0
    side.exponent[here, s] = 0
    side.extreme[here, s] = np.inf


@kernel
def _mark_kept(symbol, start, stop, steps, guards, semantics, kept):
    """The state where mass that waited at each state is after the moment [start, stop), or -1."""
    for s in range(kept.shape[0]):
        kept[s] = s if semantics != CONTIGUOUS or steps.is_start[s] or steps.is_end[s] else -1
    if semantics == NEXT:
        for i in range(start, stop):
            low, high = steps.step_start[symbol[i]], steps.step_start[symbol[i] + 1]
            for o in range(steps.src_start[low], steps.src_start[high]):
                if not steps.is_start[steps.src[o]]:
                    kept[steps.src[o]] = -1
    for g in range(guards.class_start.shape[0] - 1):
        low, broken = guards.class_start[g], guards.class_start[g + 1] - 1
        for c in range(low, broken):
            target = class_after(guards, symbol, start, stop, c, broken)
            for p in range(guards.place_start[g], guards.place_start[g + 1]):
                s = guards.place[p] + c - low
                if kept[s] >= 0:
                    kept[s] = guards.place[p] + target - low


@kernel
def _keep(kept, is_before, side, here, there):
    """What is left of a product after a moment, before anything new is added."""
    m, e, x = side.mantissa, side.exponent, side.extreme
    for s in range(kept.shape[0]):
        _empty(side, there, s)
    for s in range(kept.shape[0]):
        if kept[s] < 0:
            continue
        of, to = (kept[s], s) if is_before else (s, kept[s])
        for n in range(m.shape[2]):
            m[there, to, n], e[there, to, n] = add(
                m[there, to, n], e[there, to, n], m[here, of, n], e[here, of, n]
            )
        for n in range(x.shape[2]):
            x[there, to, n] = min(x[there, to, n], x[here, of, n])
