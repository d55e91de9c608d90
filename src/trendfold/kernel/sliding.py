"""Sliding windows as matrix products: overlapping windows share panes (two-stack aggregation).

Every stretch of rows between two window edges is a matrix over states, and a window is ⊥ times the product of
its stretches. Two stacks meet at the *middle* of the window. The front holds, per stretch before the middle,
⊥ times the product from that stretch up to the middle. The back is the product from the middle on. A window
is one vector of the front times the back:

    window k = front[first[k]] · back

The back grows on its right, stretch by stretch. When a window begins at the middle or after it, the front is
used up: the middle moves to that window's end, and a new front grows on its left from there. So a stretch is
multiplied twice, in however many windows it lies, and nothing is ever divided or subtracted.

A long stretch comes as a matrix. One of a few rows is multiplied moment by moment: their matrices are sparse.

A growing product is stored as [state, slot, number], so that both directions are the same loops. In the back,
slot u is what mass 1 at u in the middle becomes at each state; it is multiplied from the right. In the front,
slot u is how much reaches u in the middle from mass 1 at each state; it is multiplied from the left. An event
leads from sources to targets: gathered at one end, added at the other.

Source: two-stack sliding window aggregation (Tangwongsan et al., DEBS 2017), over COGRA's counts.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.bindings import NEXT
from trendfold.kernel.guards import class_after
from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.program import ONE, Folded
from trendfold.kernel.wide import add, times, wide_product


@kernel
def slide_windows(
    events, cut, steps, links, guards, semantics, frame, starts, matrix, stacks, k, fronts, out
):
    """Write the whole trends of windows: window k is the stretches [first[k], last[k]) of the cut.

    Begins with window k and grows at most so many fronts; returns the first window that is not written.

    cut     WindowStretches
    links   Links           the symbols that take the fast path
    starts  int32[R]        the states that have a row in a matrix; mass at the others passes through
    matrix  Folded [slots, R, states, ...]  rank i is at i modulo slots, as long as a window still needs it
    stacks  Stacks          as the windows before these have left them
    """
    passes = np.ones(steps.is_start.shape[0], np.bool_)
    for r in range(starts.shape[0]):
        passes[starts[r]] = False
    moments = steps, links, guards, semantics, np.empty(passes.shape[0], np.int64)
    while k < cut.first.shape[0]:
        if cut.first[k] >= stacks.at[0]:
            if fronts == 0:
                return k
            fronts -= 1
            stacks.at[0] = stacks.at[1] = cut.last[k]
            stacks.at[2] = 0
            _identity(stacks.back, frame)
            _grow_front(events, cut, k, moments, frame, starts, passes, matrix, stacks)
        k = _grow_back(events, cut, k, moments, frame, starts, passes, matrix, stacks, out)
    return k


@kernel
def _grow_front(events, cut, k, moments, frame, starts, passes, matrix, stacks):
    """Write the vectors of a new front, for every stretch of window k, from the last to the first."""
    steps, links, guards, semantics, kept = moments
    events, cut, links = lent(events), lent(cut), lent(links)
    front, total = lent(stacks.front), lent(stacks.total)
    side = stacks.growing
    product = lent(_flat(side))
    symbol, moment, states = events.symbol, events.moment, passes.shape[0]
    here = 0
    _identity(side, frame)
    for j in range(cut.last[k] - 1, cut.first[k] - 1, -1):
        low, high = cut.low[j], cut.high[j]
        if cut.rank[j] < cut.rank[j + 1]:
            slot = cut.rank[j] % matrix.mantissa.shape[0]
            here = _multiply(matrix, slot, starts, passes, True, frame, side, here)
            high = low
        while high > low:
            i = high - 1
            a = symbol[i]
            if links.is_alone[a] and (i == low or moment[i - 1] != moment[i]):
                base = here * states
                _gather(events, i, a, links, links.dst_start, links.dst, frame, product, base, total)
                _empty_spent(a, links, product, base, total)
                _scatter(a, links.src_start, links.src, product, base, total)
            else:
                while i > low and moment[i - 1] == moment[i]:
                    i -= 1
                here = _apply(
                    events, i, high, steps, guards, semantics, True, frame, side, here, stacks.total, kept
                )
            _pass_time(events, i, frame, product, here * states, total)  # it passes before the moment
            high = i
        _write_front(front, j % front.mantissa.shape[0], product, here * states + frame.start)


@kernel
def _grow_back(events, cut, k, moments, frame, starts, passes, matrix, stacks, out):
    """Write the windows from k on that begin before the middle; returns the first that does not."""
    steps, links, guards, semantics, kept = moments
    events, cut, links = lent(events), lent(cut), lent(links)
    front, total = lent(stacks.front), lent(stacks.total)
    out, side = lent(out), stacks.back
    product = lent(_flat(side))
    symbol, moment, states = events.symbol, events.moment, passes.shape[0]
    first, last, whole = cut.first, cut.last, frame.whole
    middle, j, here = stacks.at
    while k < first.shape[0] and first[k] < middle:
        while j < last[k]:
            low, high = cut.low[j], cut.high[j]
            if cut.rank[j] < cut.rank[j + 1]:
                slot = cut.rank[j] % matrix.mantissa.shape[0]
                here = _multiply(matrix, slot, starts, passes, False, frame, side, here)
                low = high
            while low < high:
                a = symbol[low]
                i = low + 1
                _pass_time(events, low, frame, product, here * states, total)
                if links.is_alone[a] and (i == high or moment[i] != moment[low]):
                    base = here * states
                    _gather(events, low, a, links, links.src_start, links.src, frame, product, base, total)
                    _empty_spent(a, links, product, base, total)
                    _scatter(a, links.dst_start, links.dst, product, base, total)
                else:
                    while i < high and moment[i] == moment[low]:
                        i += 1
                    here = _apply(
                        events, low, i, steps, guards, semantics, False, frame, side, here, stacks.total, kept
                    )
                low = i
            j += 1
        for t in whole:
            _meet(front, first[k] % front.mantissa.shape[0], product, here * states + t, frame, out, k)
        k += 1
    stacks.at[1], stacks.at[2] = j, here
    return k


@inlined
def _flat(side):
    """A growing product as flat arrays: a view of a state costs more than the arithmetic on it."""
    return Folded(side.mantissa.reshape(-1), side.exponent.reshape(-1), side.extreme.reshape(-1))


@inlined
def _pass_time(events, i, frame, product, base, total):
    """Let the time since the row before row i pass, in every slot."""
    if frame.elapsed > 0:
        numbers, passed = total.mantissa.shape[0], events.values[i, frame.passed]
        for s in frame.open:
            for n in range((base + s) * numbers, (base + s + 1) * numbers, frame.width):
                gain, gain_e = times(product.mantissa[n], product.exponent[n], passed)
                at = n + frame.elapsed
                product.mantissa[at], product.exponent[at] = add(
                    product.mantissa[at], product.exponent[at], gain, gain_e
                )


@inlined
def _empty_spent(a, links, product, base, total):
    """Empty the states that an event of symbol a uses up, between gathering and adding."""
    for o in range(links.spent_start[a], links.spent_start[a + 1]):
        _empty(product, base + links.spent[o], total)


@inlined
def _write_front(front, place, product, at):
    """Write what ⊥ (the state that begins at `at`) has become into a place of the front."""
    numbers, extremes = front.mantissa.shape[1], front.extreme.shape[1]
    for n in range(numbers):
        front.mantissa[place, n] = product.mantissa[at * numbers + n]
        front.exponent[place, n] = product.exponent[at * numbers + n]
    for n in range(extremes):
        front.extreme[place, n] = product.extreme[at * extremes + n]


@kernel
def _identity(side, frame):
    """The product of no stretches, at place 0."""
    side.mantissa[0] = 0.0
    side.exponent[0] = 0
    side.extreme[0] = np.inf
    for s in range(side.mantissa.shape[1]):
        side.mantissa[0, s, s * frame.width] = 1.0
        side.extreme[0, s, s * frame.extremes : s * frame.extremes + frame.added] = 0.0


@inlined
def _meet(front, place, product, at, frame, out, k):
    """Add a vector of the front times the back, at one state, to row k of `out`."""
    width = frame.width
    m, e, x = product.mantissa, product.exponent, product.extreme
    extremes, base = out.extreme.shape[1], at * front.mantissa.shape[1]
    for u in range(0, front.mantissa.shape[1], width):
        c, ce, d, de = front.mantissa[place, u], front.exponent[place, u], m[base + u], e[base + u]
        if c == 0.0 or d == 0.0:
            continue
        part, part_e = wide_product(c, ce, d, de)
        out.mantissa[k, 0], out.exponent[k, 0] = add(out.mantissa[k, 0], out.exponent[k, 0], part, part_e)
        for w in range(1, width):
            n = u + w
            part, part_e = _ride(
                (c, ce, front.mantissa[place, n], front.exponent[place, n]), (d, de, m[base + n], e[base + n])
            )
            out.mantissa[k, w], out.exponent[k, w] = add(out.mantissa[k, w], out.exponent[k, w], part, part_e)
        for y in range(extremes):
            n = u // width * extremes + y
            least = _extreme_of(y, frame.added, front.extreme[place, n], x[at * front.extreme.shape[1] + n])
            out.extreme[k, y] = min(out.extreme[k, y], least)


# ---- A stretch as a matrix -------------------------------------------------------------------------


@kernel
def _multiply(matrix, slot, starts, passes, is_before, frame, side, here):
    """Multiply a product by a matrix, from the left if `is_before`; returns the place where it is now.

    Mass at a state that is no start passes through.
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
                part, part_e = wide_product(c, ce, d, de)
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
                    least = _extreme_of(y, frame.added, matrix.extreme[slot, r, t, y], x[here, of, n])
                    x[there, to, n] = min(x[there, to, n], least)
    return there


@inlined
def _extreme_of(y, added, left, right):
    """Extreme y of a product, from those of both sides: the first `added` are sums along a trend."""
    return left + right if y < added else min(left, right)


@inlined
def _ride(left, right):
    """One number of a product, from (count, exponent, number, exponent) of both sides: n · d + c · o."""
    c, ce, n, ne = left
    d, de, o, oe = right
    part, part_e = wide_product(n, ne, d, de)
    gain, gain_e = wide_product(c, ce, o, oe)
    return add(part, part_e, gain, gain_e)


# ---- Windows that do not overlap ---------------------------------------------------------------------


@kernel
def multiply_windows(lows, highs, frame, starts, matrix, out):
    """Windows that share no stretch: ⊥ times the matrices [lows[k], highs[k]), vector by matrix."""
    width, extremes = frame.width, frame.extremes
    here, there, passes = _no_trends(frame), _no_trends(frame), _passed(frame, starts)
    for k in range(lows.shape[0]):
        here[0][:] = 0.0
        here[1][:] = 0
        here[2][:] = np.inf
        here[0][frame.start, 0] = 1.0
        here[2][frame.start, : frame.added] = 0.0
        for j in range(lows[k], highs[k]):
            _multiply_vector(here, matrix, j, starts, passes, frame.added, there)
            here, there = there, here
        for s in frame.whole:
            for w in range(width):
                out.mantissa[k, w], out.exponent[k, w] = add(
                    out.mantissa[k, w], out.exponent[k, w], here[0][s, w], here[1][s, w]
                )
            for x in range(extremes):
                out.extreme[k, x] = min(out.extreme[k, x], here[2][s, x])


@kernel
def _no_trends(frame):
    """A vector without trends: numbers, exponents and extremes per state."""
    size = frame.states, frame.width
    return np.zeros(size), np.zeros(size, np.int32), np.full((frame.states, frame.extremes), np.inf)


@kernel
def _passed(frame, starts):
    """The states that are no start of a matrix: a vector keeps what it has there."""
    found = np.ones(frame.states, np.bool_)
    for r in range(starts.shape[0]):
        found[starts[r]] = False
    return found


@kernel
def _multiply_vector(vector, matrix, j, starts, passes, added, product):
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
                part, part_e = wide_product(m[s, w], e[s, w], c, ce)
                if w > 0:
                    gain, gain_e = wide_product(
                        m[s, 0], e[s, 0], matrix.mantissa[j, r, t, w], matrix.exponent[j, r, t, w]
                    )
                    part, part_e = add(part, part_e, gain, gain_e)
                product[0][t, w], product[1][t, w] = add(product[0][t, w], product[1][t, w], part, part_e)
            for k in range(extremes):
                least = _extreme_of(k, added, x[s, k], matrix.extreme[j, r, t, k])
                product[2][t, k] = min(product[2][t, k], least)


# ---- Products of stretches that are kept --------------------------------------------------------------


@kernel
def multiply_runs(run, frame, starts, matrix, out):
    """Matrix k of `out` is the product of the matrices [run[k], run[k+1]): row by row, vector by matrix."""
    here, there, passes = _no_trends(frame), _no_trends(frame), _passed(frame, starts)
    for k in range(run.shape[0] - 1):
        for r in range(starts.shape[0]):
            first = run[k]
            here[0][:] = matrix.mantissa[first, r]
            here[1][:] = matrix.exponent[first, r]
            here[2][:] = matrix.extreme[first, r]
            for j in range(first + 1, run[k + 1]):
                _multiply_vector(here, matrix, j, starts, passes, frame.added, there)
                here, there = there, here
            out.mantissa[k, r] = here[0]
            out.exponent[k, r] = here[1]
            out.extreme[k, r] = here[2]


# ---- A stretch moment by moment --------------------------------------------------------------------


@kernel
def _apply(events, start, stop, steps, guards, semantics, is_before, frame, side, here, total, kept):
    """Multiply a product by one moment of any kind; returns the place where the product is now.

    Every step of the moment reads the product from before it.
    """
    events, steps, side, total = lent(events), lent(steps), lent(side), lent(total)
    symbol = events.symbol
    of_start, of, to_start, to = steps.src_start, steps.src, steps.dst_start, steps.dst
    if is_before:
        of_start, of, to_start, to = to_start, to, of_start, of
    product, there, states = _flat(side), 1 - here, kept.shape[0]
    _mark_kept(symbol, start, stop, steps, guards, semantics, kept)
    _keep(kept, is_before, side, here, there)
    for i in range(start, stop):
        for t in range(steps.step_start[symbol[i]], steps.step_start[symbol[i] + 1]):
            _gather(events, i, t, steps, of_start, of, frame, product, here * states, total)
            _scatter(t, to_start, to, product, there * states, total)
    return there


@inlined
def _gather(events, i, t, steps, of_start, of, frame, product, base, total):
    """Sum into `total` what step t of row i carries from one end, in every slot.

    steps  BindingSteps or Links  for the weights     of, of_start  the states at that end
    base   the product's first state
    """
    total_m, total_e, total_x, width = total.mantissa, total.exponent, total.extreme, frame.width
    numbers, extremes = total_m.shape[0], total_x.shape[0]
    for n in range(numbers):
        total_m[n], total_e[n] = 0.0, 0
    for n in range(extremes):
        total_x[n] = np.inf
    for o in range(of_start[t], of_start[t + 1]):
        at = (base + of[o]) * numbers
        for n in range(numbers):
            total_m[n], total_e[n] = add(
                total_m[n], total_e[n], product.mantissa[at + n], product.exponent[at + n]
            )
        at = (base + of[o]) * extremes
        for n in range(extremes):
            total_x[n] = min(total_x[n], product.extreme[at + n])
    for w in range(1, width):
        column = steps.weight[t, w]
        if column >= ONE:
            value = 1.0 if column == ONE else events.values[i, column]
            for n in range(0, numbers, width):
                gain, gain_e = times(total_m[n], total_e[n], value)
                total_m[n + w], total_e[n + w] = add(total_m[n + w], total_e[n + w], gain, gain_e)
    each = steps.xweight.shape[1]
    for y in range(each):
        column = steps.xweight[t, y]
        if column >= 0:
            value = events.extremes[i, column]
            for u in range(numbers // width):
                if y < frame.added:
                    total_x[u * each + y] += value
                elif total_m[u * width] != 0.0:
                    total_x[u * each + y] = min(total_x[u * each + y], value)


@inlined
def _scatter(t, to_start, to, product, base, total):
    """Add what was gathered for step t at its other end."""
    m, e, x = product.mantissa, product.exponent, product.extreme
    total_m, total_e, total_x = total.mantissa, total.exponent, total.extreme
    numbers, extremes = total_m.shape[0], total_x.shape[0]
    for o in range(to_start[t], to_start[t + 1]):
        at = (base + to[o]) * numbers
        for n in range(numbers):
            m[at + n], e[at + n] = add(m[at + n], e[at + n], total_m[n], total_e[n])
        at = (base + to[o]) * extremes
        for n in range(extremes):
            x[at + n] = min(x[at + n], total_x[n])


@inlined
def _empty(product, at, total):
    """Empty every slot of one state."""
    numbers, extremes = total.mantissa.shape[0], total.extreme.shape[0]
    for n in range(at * numbers, (at + 1) * numbers):
        product.mantissa[n], product.exponent[n] = 0.0, 0
    for n in range(at * extremes, (at + 1) * extremes):
        product.extreme[n] = np.inf


@kernel
def _mark_kept(symbol, start, stop, steps, guards, semantics, kept):
    """The state where mass that waited at each state is after the moment [start, stop), or -1."""
    for s in range(kept.shape[0]):
        kept[s] = -1 if steps.fades[s] else s
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
    """Apply the spending, forgetting and class moves of a moment to a product, before new mass is added."""
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
