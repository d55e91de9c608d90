"""Windows that go on to the right at both ends, as products by two stacks.

Two stacks meet in the middle of the window. The front holds ⊥ times the product from each earlier stretch up
to the middle, the back the product from the middle on: a window is one vector of the front times the back.
The back grows on its right, stretch by stretch. When a window begins at the middle or after it, the front is
used up: the middle moves to the window's end, and a new front grows on its left from there. So a stretch is
multiplied twice, in however many windows it lies, and nothing is ever divided or taken away.

A long stretch comes as a matrix. One of a few rows is multiplied moment by moment: their matrices are sparse.

A growing product is kept as [state, lane, number], so that both ways are the same few loops. For the back,
lane u is what mass 1 at u in the middle becomes, at each state; it is multiplied from the right. For the
front, lane u is how much reaches u in the middle, from mass 1 at each state; it is multiplied from the left.
An event leads from sources to targets: what is gathered at the one end is added at the other.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.bindings import CONTIGUOUS, NEXT
from trendfold.kernel.guards import class_after
from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.program import ONE
from trendfold.kernel.wide import RADIX, SHRINK, add, times


@kernel
def slide_windows(events, cut, steps, links, guards, semantics, frame, starts, matrix, stacks, out):
    """The whole trends of windows: window k is the stretches [first[k], last[k]) of the cut.

    matrix  Folded [slots, R, states, ...]  that of rank i is at i modulo slots, where a window still needs it
    stacks  where the windows before these have left off
    """
    passes = np.ones(steps.is_start.shape[0], np.bool_)
    for r in range(starts.shape[0]):
        passes[starts[r]] = False
    moments = steps, links, guards, semantics, np.empty(passes.shape[0], np.int64)
    k = 0
    while k < cut.first.shape[0]:
        if cut.first[k] >= stacks.at[0]:
            stacks.at[0] = stacks.at[1] = cut.last[k]
            stacks.at[2] = 0
            _identity(stacks.back, frame)
            _grow_front(events, cut, k, moments, frame, starts, passes, matrix, stacks)
        k = _grow_back(events, cut, k, moments, frame, starts, passes, matrix, stacks, out)


# The loops below take arrays out of tuples before they begin: it costs more than what is done with a number.


@kernel
def _grow_front(events, cut, k, moments, frame, starts, passes, matrix, stacks):
    """The vectors of a new front, for every stretch of window k."""
    steps, links, guards, semantics, kept = moments
    symbol, moment, values, lows = events.symbol, events.moment, events.values, events.extremes
    is_alone, weight, xweight = links.is_alone, links.weight, links.xweight
    src_start, src, dst_start, dst = links.src_start, links.src, links.dst_start, links.dst
    spent_start, spent = links.spent_start, links.spent
    side, front = stacks.growing, stacks.front
    m, e, x = side.mantissa.reshape(-1), side.exponent.reshape(-1), side.extreme.reshape(-1)
    front_m, front_e, front_x = front.mantissa, front.exponent, front.extreme
    total_m, total_e, total_x = stacks.total
    numbers, extremes = total_m.shape[0], total_x.shape[0]
    rank, row_low, row_high = cut.rank, cut.low, cut.high
    slots = matrix.mantissa.shape[0]
    states, start, width = passes.shape[0], frame.start, frame.width
    here = 0
    _identity(side, frame)
    for j in range(cut.last[k] - 1, cut.first[k] - 1, -1):
        low, high = row_low[j], row_high[j]
        if rank[j] < rank[j + 1]:
            here = _multiply(matrix, rank[j] % slots, starts, passes, True, frame, side, here)
            high = low
        while high > low:
            i = high - 1
            a = symbol[i]
            if is_alone[a] and (i == low or moment[i - 1] != moment[i]):
                base = here * states
                _gather(
                    i,
                    a,
                    dst_start,
                    dst,
                    weight,
                    xweight,
                    values,
                    lows,
                    width,
                    m,
                    e,
                    x,
                    base,
                    total_m,
                    total_e,
                    total_x,
                )
                for o in range(spent_start[a], spent_start[a + 1]):
                    _empty(m, e, x, base + spent[o], numbers, extremes)
                _scatter(a, src_start, src, m, e, x, base, total_m, total_e, total_x)
            else:
                while i > low and moment[i - 1] == moment[i]:
                    i -= 1
                here = _apply(
                    events, i, high, steps, guards, semantics, True, frame, side, here, stacks.total, kept
                )
            high = i
        place, at = j % front_m.shape[0], here * states + start
        for n in range(numbers):
            front_m[place, n], front_e[place, n] = m[at * numbers + n], e[at * numbers + n]
        for n in range(extremes):
            front_x[place, n] = x[at * extremes + n]


@kernel
def _grow_back(events, cut, k, moments, frame, starts, passes, matrix, stacks, out):
    """The windows from k on that begin before the middle; returns the first that does not."""
    steps, links, guards, semantics, kept = moments
    symbol, moment, values, lows = events.symbol, events.moment, events.values, events.extremes
    is_alone, weight, xweight = links.is_alone, links.weight, links.xweight
    src_start, src, dst_start, dst = links.src_start, links.src, links.dst_start, links.dst
    spent_start, spent = links.spent_start, links.spent
    side, front = stacks.back, stacks.front
    m, e, x = side.mantissa.reshape(-1), side.exponent.reshape(-1), side.extreme.reshape(-1)
    front_m, front_e, front_x = front.mantissa, front.exponent, front.extreme
    out_m, out_e, out_x = out.mantissa, out.exponent, out.extreme
    total_m, total_e, total_x = stacks.total
    numbers, extremes = total_m.shape[0], total_x.shape[0]
    first, last, rank, row_low, row_high = cut.first, cut.last, cut.rank, cut.low, cut.high
    slots = matrix.mantissa.shape[0]
    states, width, whole = passes.shape[0], frame.width, frame.whole
    middle, j, here = stacks.at
    while k < first.shape[0] and first[k] < middle:
        while j < last[k]:
            low, high = row_low[j], row_high[j]
            if rank[j] < rank[j + 1]:
                here = _multiply(matrix, rank[j] % slots, starts, passes, False, frame, side, here)
                low = high
            while low < high:
                a = symbol[low]
                i = low + 1
                if is_alone[a] and (i == high or moment[i] != moment[low]):
                    base = here * states
                    _gather(
                        low,
                        a,
                        src_start,
                        src,
                        weight,
                        xweight,
                        values,
                        lows,
                        width,
                        m,
                        e,
                        x,
                        base,
                        total_m,
                        total_e,
                        total_x,
                    )
                    for o in range(spent_start[a], spent_start[a + 1]):
                        _empty(m, e, x, base + spent[o], numbers, extremes)
                    _scatter(a, dst_start, dst, m, e, x, base, total_m, total_e, total_x)
                else:
                    while i < high and moment[i] == moment[low]:
                        i += 1
                    here = _apply(
                        events, low, i, steps, guards, semantics, False, frame, side, here, stacks.total, kept
                    )
                low = i
            j += 1
        place = first[k] % front_m.shape[0]
        for t in whole:
            _meet(front_m, front_e, front_x, place, m, e, x, here * states + t, width, out_m, out_e, out_x, k)
        k += 1
    stacks.at[1], stacks.at[2] = j, here
    return k


@kernel
def _identity(side, frame):
    """The product of no stretches, at place 0."""
    side.mantissa[0] = 0.0
    side.exponent[0] = 0
    side.extreme[0] = np.inf
    for s in range(side.mantissa.shape[1]):
        side.mantissa[0, s, s * frame.width] = 1.0


@inlined
def _meet(front_m, front_e, front_x, place, m, e, x, at, width, out_m, out_e, out_x, k):
    """Add a vector of the front times the back, at one state, to row k of `out`."""
    extremes, base = out_x.shape[1], at * front_m.shape[1]
    for u in range(0, front_m.shape[1], width):
        c, ce, d, de = front_m[place, u], front_e[place, u], m[base + u], e[base + u]
        if c == 0.0 or d == 0.0:
            continue
        part, part_e = _times(c, ce, d, de)
        out_m[k, 0], out_e[k, 0] = add(out_m[k, 0], out_e[k, 0], part, part_e)
        for w in range(1, width):
            n = u + w
            part, part_e = _ride(
                (c, ce, front_m[place, n], front_e[place, n]), (d, de, m[base + n], e[base + n])
            )
            out_m[k, w], out_e[k, w] = add(out_m[k, w], out_e[k, w], part, part_e)
        for y in range(extremes):
            n = u // width * extremes + y
            out_x[k, y] = min(out_x[k, y], min(front_x[place, n], x[at * front_x.shape[1] + n]))


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


# ---- Windows apart ---------------------------------------------------------------------------------


@kernel
def multiply_windows(lows, highs, frame, starts, matrix, out):
    """Windows that share no stretch: ⊥ times the matrices [lows[k], highs[k]) of each, vector by matrix."""
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
            _multiply_vector(here, matrix, j, starts, passes, there)
            here, there = there, here
        for s in frame.whole:
            for w in range(width):
                out.mantissa[k, w], out.exponent[k, w] = add(
                    out.mantissa[k, w], out.exponent[k, w], here[0][s, w], here[1][s, w]
                )
            for x in range(extremes):
                out.extreme[k, x] = min(out.extreme[k, x], here[2][s, x])


@kernel
def _multiply_vector(vector, matrix, j, starts, passes, product):
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


# ---- A stretch moment by moment --------------------------------------------------------------------


@kernel
def _apply(events, start, stop, steps, guards, semantics, is_before, frame, side, here, total, kept):
    """Multiply a product by one moment of any kind; returns where it is now.

    Every step of the moment reads the product from before it.
    """
    symbol, values, lows = events.symbol, events.values, events.extremes
    of_start, of, to_start, to = steps.src_start, steps.src, steps.dst_start, steps.dst
    if is_before:
        of_start, of, to_start, to = to_start, to, of_start, of
    m, e, x = side.mantissa.reshape(-1), side.exponent.reshape(-1), side.extreme.reshape(-1)
    total_m, total_e, total_x = total
    there, states = 1 - here, kept.shape[0]
    _mark_kept(symbol, start, stop, steps, guards, semantics, kept)
    _keep(kept, is_before, side, here, there)
    for i in range(start, stop):
        for t in range(steps.step_start[symbol[i]], steps.step_start[symbol[i] + 1]):
            _gather(
                i,
                t,
                of_start,
                of,
                steps.weight,
                steps.xweight,
                values,
                lows,
                frame.width,
                m,
                e,
                x,
                here * states,
                total_m,
                total_e,
                total_x,
            )
            _scatter(t, to_start, to, m, e, x, there * states, total_m, total_e, total_x)
    return there


@inlined
def _gather(
    i, t, of_start, of, weight, xweight, values, lows, width, m, e, x, base, total_m, total_e, total_x
):
    """What step t of row i carries from its one end, in every lane; the product's states begin at `base`."""
    numbers, extremes = total_m.shape[0], total_x.shape[0]
    for n in range(numbers):
        total_m[n], total_e[n] = 0.0, 0
    for n in range(extremes):
        total_x[n] = np.inf
    for o in range(of_start[t], of_start[t + 1]):
        at = (base + of[o]) * numbers
        for n in range(numbers):
            total_m[n], total_e[n] = add(total_m[n], total_e[n], m[at + n], e[at + n])
        at = (base + of[o]) * extremes
        for n in range(extremes):
            total_x[n] = min(total_x[n], x[at + n])
    for w in range(1, width):
        column = weight[t, w]
        if column >= ONE:
            value = 1.0 if column == ONE else values[i, column]
            for n in range(0, numbers, width):
                gain, gain_e = times(total_m[n], total_e[n], value)
                total_m[n + w], total_e[n + w] = add(total_m[n + w], total_e[n + w], gain, gain_e)
    each = xweight.shape[1]
    for y in range(each):
        column = xweight[t, y]
        if column >= 0:
            value = lows[i, column]
            for u in range(numbers // width):
                if total_m[u * width] != 0.0:
                    total_x[u * each + y] = min(total_x[u * each + y], value)


@inlined
def _scatter(t, to_start, to, m, e, x, base, total_m, total_e, total_x):
    """Add what was gathered for step t at its other end."""
    numbers, extremes = total_m.shape[0], total_x.shape[0]
    for o in range(to_start[t], to_start[t + 1]):
        at = (base + to[o]) * numbers
        for n in range(numbers):
            m[at + n], e[at + n] = add(m[at + n], e[at + n], total_m[n], total_e[n])
        at = (base + to[o]) * extremes
        for n in range(extremes):
            x[at + n] = min(x[at + n], total_x[n])


@inlined
def _empty(m, e, x, at, numbers, extremes):
    """Empty every lane of one state."""
    for n in range(at * numbers, (at + 1) * numbers):
        m[n], e[n] = 0.0, 0
    for n in range(at * extremes, (at + 1) * extremes):
        x[n] = np.inf


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
    m[there] = 0.0
    e[there] = 0
    x[there] = np.inf
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
