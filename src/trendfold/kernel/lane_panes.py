"""Overlapping windows of many queries as products of their stretches, eight queries at a time.

A stretch between window edges is a matrix per query, folded by kernel.machine_lanes from every start state. A
window is ⊥ times the matrices of its stretches, vector by matrix:

    v <- v · M:   v[t] = sum of v[s] · M[s, t];   numbers: v_w[s] · M[s, t] + v[s] · M_w[s, t]

for all queries at once. States that are no start (⊤) pass through. So an event is folded once per start
state, in however many windows it lies; a window costs a few vectors per stretch.

Mantissas suffice as long as neither a matrix nor a window has an exponent; then numbers are wide, lane by
lane.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.wide import RADIX, add, normalise, wide_product

_ROOM = 2.0**500
"""Products of mantissas below this, and of a matrix's below RADIX, stay in the range of doubles."""

_SUMMED = RADIX / 2**8
"""Whole trends below this add up to less than RADIX, in however many classes of a NOT they are."""


@kernel
def multiply_panes(first, last, pairs, passes, start, whole, matrix, size, most, window, out, queries, added):
    """Window k of every query is the matrices [first[k], last[k]); its whole trends go to `out`.

    pairs    int64[P,3]   start slot, its state, and a state that mass may reach from there
    passes   bool[states] whether a state is no start
    start    ⊥;  whole  int64[]  the states that hold whole trends
    matrix   LaneVectors  [stretch, state, number, start, lane], flat; lanes are whole vectors
    size     four int     numbers, extremes, start slots, lanes
    most     float64[stretches]  how much a matrix may multiply mantissas by; inf if it has exponents
    window   two LaneVectors  [state, number, lane], flat: what a window holds, before and after a stretch
    out      LaneVectors  [item, number, query], flat
    queries  how many of the lanes are queries
    added    how many extremes, which are the first, are sums along a trend
    """
    matrix, out = lent(matrix), lent(out)
    here, there = lent(window[0]), lent(window[1])
    has_exponents = False
    for k in range(first.shape[0]):
        _begin(here, start, size, added)
        bound, is_wide = 1.0, False
        for j in range(first[k], last[k]):
            if not is_wide and not bound * most[j] < _ROOM:
                bound = _largest(here)
                is_wide = not bound * most[j] < _ROOM  # 0 times inf is NaN
                if is_wide:
                    _widen(here)
            _pass_on(here, there, passes, size, is_wide)
            for p in range(pairs.shape[0]):
                slot, s, t = pairs[p, 0], pairs[p, 1], pairs[p, 2]
                _multiply(j, slot, s, t, here, there, matrix, size, passes.shape[0], is_wide, added)
            here, there = there, here
            bound *= most[j]
        if not is_wide and bound >= _SUMMED and _largest(here) >= _SUMMED:
            is_wide = True
            _widen(here)
        if is_wide and not has_exponents:
            out.exponent[:] = 0
            has_exponents = True
        _end(k, here, whole, size, out, queries, is_wide)
    return has_exponents


@kernel
def _begin(window, start, size, added):
    """⊥ holds 1."""
    window.mantissa[:] = 0.0
    window.extreme[:] = np.inf
    at = start * size[0] * size[3]
    window.mantissa[at : at + size[3]] = 1.0
    at = start * size[1] * size[3]
    window.extreme[at : at + added * size[3]] = 0.0


@kernel
def _largest(window):
    """The largest mantissa of a window."""
    found = 0.0
    for cell in range(window.mantissa.shape[0]):
        found = max(found, abs(window.mantissa[cell]))
    return found


@kernel
def _widen(window):
    """Bring the mantissas of a window, which has had no exponents so far, below RADIX."""
    for cell in range(window.mantissa.shape[0]):
        window.mantissa[cell], window.exponent[cell] = normalise(window.mantissa[cell], 0)


@inlined
def _pass_on(here, there, passes, size, is_wide):
    """States that are no start keep what they hold; the others are empty before a product."""
    numbers, extremes = size[0] * size[3], size[1] * size[3]
    for s in range(passes.shape[0]):
        low = np.uint64(s * numbers)
        for i in range(numbers):
            there.mantissa[low + np.uint64(i)] = here.mantissa[low + np.uint64(i)] if passes[s] else 0.0
        if is_wide:
            for i in range(s * numbers, (s + 1) * numbers):
                there.exponent[i] = here.exponent[i] if passes[s] else 0
        for i in range(s * extremes, (s + 1) * extremes):
            there.extreme[i] = here.extreme[i] if passes[s] else np.inf


@inlined
def _multiply(j, slot, s, t, here, there, matrix, size, states, is_wide, added):
    """What reaches state t from state s, the start of a slot, in stretch j."""
    width, extremes, starts, lanes = size
    stride = np.uint64(starts * lanes)
    of = np.uint64(s * width * lanes)
    to = np.uint64(t * width * lanes)
    at = np.uint64(((j * states + t) * width * starts + slot) * lanes)
    m, n, found = here.mantissa, matrix.mantissa, there.mantissa
    if is_wide:
        _multiply_wide(here, of, matrix, at, there, to, size)
    else:
        for i in range(lanes):
            lane = np.uint64(i)
            found[to + lane] += m[of + lane] * n[at + lane]
        for w in range(1, width):
            own, number = np.uint64(w * lanes), np.uint64(w) * stride
            for i in range(lanes):
                lane = np.uint64(i)
                found[to + own + lane] += (
                    m[of + own + lane] * n[at + lane] + m[of + lane] * n[at + number + lane]
                )
    if extremes:
        _lower_extremes(j, slot, s, t, here, of, matrix, at, there, size, states, added)


@kernel
def _lower_extremes(j, slot, s, t, here, of, matrix, at, there, size, states, added):
    """The extremes of trends that reach state t from state s."""
    _, extremes, starts, lanes = size
    m, n = here.mantissa, matrix.mantissa
    for y in range(extremes):
        into, source = (t * extremes + y) * lanes, (s * extremes + y) * lanes
        value = ((j * states + t) * extremes * starts + y * starts + slot) * lanes
        for i in range(lanes):
            if m[of + np.uint64(i)] != 0.0 and n[at + np.uint64(i)] != 0.0:
                past, own = here.extreme[source + i], matrix.extreme[value + i]
                least = past + own if y < added else min(past, own)
                there.extreme[into + i] = min(there.extreme[into + i], least)


@kernel
def _multiply_wide(here, of, matrix, at, there, to, size):
    """The same for numbers with exponents."""
    width, _, starts, lanes = size
    m, e, n, f = here.mantissa, here.exponent, matrix.mantissa, matrix.exponent
    for i in range(lanes):
        s, c, t = of + np.uint64(i), at + np.uint64(i), to + np.uint64(i)
        if m[s] == 0.0 or n[c] == 0.0:
            continue
        for w in range(width):
            own = np.uint64(w * lanes)
            part, part_e = wide_product(m[s + own], e[s + own], n[c], f[c])
            if w > 0:
                value = c + np.uint64(w * starts * lanes)
                gain, gain_e = wide_product(m[s], e[s], n[value], f[value])
                part, part_e = add(part, part_e, gain, gain_e)
            there.mantissa[t + own], there.exponent[t + own] = add(
                there.mantissa[t + own], there.exponent[t + own], part, part_e
            )


@kernel
def _end(k, here, whole, size, out, queries, is_wide):
    """The whole trends of a window."""
    width, extremes, _, lanes = size
    for w in range(width):
        to = (k * width + w) * queries
        for which in range(whole.shape[0]):
            at = (whole[which] * width + w) * lanes
            for q in range(queries):
                before, before_e = 0.0, np.int32(0)
                if which:
                    before, before_e = out.mantissa[to + q], out.exponent[to + q] if is_wide else np.int32(0)
                added_e = here.exponent[at + q] if is_wide else np.int32(0)
                found, found_e = add(before, before_e, here.mantissa[at + q], added_e)
                out.mantissa[to + q] = found
                if is_wide:
                    out.exponent[to + q] = found_e
    for y in range(extremes):
        to = (k * extremes + y) * queries
        for which in range(whole.shape[0]):
            at = (whole[which] * extremes + y) * lanes
            for q in range(queries):
                before = out.extreme[to + q] if which else np.inf
                out.extreme[to + q] = min(before, here.extreme[at + q])
