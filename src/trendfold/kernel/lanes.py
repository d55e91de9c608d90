"""GROUP BY T.g as lanes: one pass over a partition's events for all of its groups.

Until a trend has bound T it belongs to every group, so that mass is kept once, *shared*. From T on it is
kept per group, in lanes side by side: an event at T touches its *own* lane, any other event acts on all
lanes alike (*public*), in a loop over contiguous memory. Under *any*, without guards and extremes.

Mass is in wide numbers, mantissa and exponent in one array, and arrays are handed on one by one: whenever
numba takes one out of a tuple it counts references, which costs more than what most events do.

    one     float64[shared entries, 2]  shared mass
    mass    float64[entries, 2, lanes]  mass in lanes
    fresh   like either                 what an event adds
    bound   float64[entries]            no lane's mantissa is larger
    factor  float64[terms, lanes + 1]   per public term and lane, what brings the mantissa read to the
                                        exponent written; last, in how many lanes that is not 1
    odd     int32[2, lanes + 1]         the lanes without such factors, last how many; below, which they are
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.wide import RADIX, SHRINK, add, scale, times

HEADROOM = 2.0**400
"""Mantissas of lanes may grow to here between two normalisations, which bring all of them below RADIX."""


@kernel
def fold_lanes(events, lane, lows, highs, lanes, program, out):
    """Fold every window item [lows[k], highs[k]) for its lanes[k] lanes; one row of `out` per item and lane.

    lane      int32[n]     the lane of a row that can take T, else -1
    program   LaneProgram
    """
    most, width = 1, program.width
    for k in range(lanes.shape[0]):
        most = max(most, lanes[k])
    one = np.zeros((program.shared_states * width, 2))
    mass = np.zeros((program.states * width, 2, most))
    fresh_one, fresh = np.zeros_like(one), np.zeros_like(mass)
    factor = np.ones((program.public.term.shape[0], most + 1))
    row = 0
    for k in range(lows.shape[0]):
        one[:] = 0.0
        one[0, 0] = 1.0  # ⊥ is the first shared state
        mass[:] = 0.0
        factor[:] = 1.0
        factor[:, most] = 0.0
        _fold(events, lane, lows[k], highs[k], lanes[k], program, one, fresh_one, mass, fresh, factor)
        for at in range(lanes[k]):
            for w in range(width):
                end = program.end * width + w
                out.mantissa[row, w], out.exponent[row, w] = mass[end, 0, at], mass[end, 1, at]
            row += 1


@kernel
def _fold(events, lane, low, high, lanes, program, one, fresh_one, mass, fresh, factor):
    """A single event of a small value that acts on its own lane or on all takes the fast path."""
    symbol, moment, values, is_small = events.symbol, events.moment, events.values, events.is_small
    shared_span, shared_term, shared_entry = program.shared
    own_span, own_term, own_entry = program.own
    all_span, all_term, all_entry = program.public
    bound, odd = np.zeros(mass.shape[0]), np.zeros((2, lanes + 1), np.int32)
    i = low
    while i < high:
        a = symbol[i]
        owns, acts = own_span[a, 0] < own_span[a, 1], all_span[a, 0] < all_span[a, 1]
        is_alone = i + 1 == high or moment[i + 1] != moment[i]
        if not (is_small and is_alone) or (owns and acts):
            j = i + 1
            while j < high and moment[j] == moment[i]:
                j += 1
            _fold_moment(events, lane, i, j, lanes, program, one, fresh_one, mass, fresh, bound)
            _shrink(lanes, all_term, mass, bound, factor, odd)
            i = j
            continue
        _gather_shared(values, i, a, shared_span, shared_term, one, fresh_one)
        if acts:
            _act_on_all(values, i, a, all_span, all_term, all_entry, lanes, mass, fresh, bound, factor, odd)
        if owns:
            _gather_own(values, i, a, lane[i], own_span, own_term, one, mass, fresh)
            if _settle_lane(a, lane[i], own_span, own_entry, mass, fresh, bound):
                _bridge(lane[i], all_term, mass, factor, odd)
        _settle_shared(a, shared_span, shared_entry, one, fresh_one)
        i += 1


# ---- One event, all lanes ---------------------------------------------------------------------------


@inlined
def _act_on_all(values, i, a, span, term, entry, lanes, mass, fresh, bound, factor, odd):
    """A public event on mantissas, in place where none of its terms reads what another writes.

    Odd lanes have factors of 0, so nothing is added to them; their sums are gathered in wide arithmetic.
    """
    if not _has_room(values, i, a, span, term, bound):
        _shrink(lanes, term, mass, bound, factor, odd)
        _has_room(values, i, a, span, term, bound)
    if odd[0, lanes]:
        _gather_odd(values, i, a, span, term, lanes, mass, fresh, odd)
    if span[a, 4]:
        _spread(values, i, a, span, term, lanes, mass, factor, mass)
    else:
        _spread(values, i, a, span, term, lanes, mass, factor, fresh)
    if odd[0, lanes]:
        _settle_odd(a, span, term, entry, lanes, mass, fresh, bound, factor, odd)
    if not span[a, 4]:
        _pour(a, span, entry, lanes, fresh, mass)


@inlined
def _has_room(values, i, a, span, term, bound):
    """Raise the bounds of what an event writes; whether they stay below HEADROOM."""
    fits = True
    for t in range(span[a, 0], span[a, 1]):
        d = term[t, 0]
        bound[d] += bound[term[t, 1]] * abs(_value(values, i, term[t, 2]))
        fits &= bound[d] < HEADROOM
    return fits


@inlined
def _spread(values, i, a, span, term, lanes, mass, factor, target):
    """Loops over contiguous memory become vector instructions; not to read factors of 1 saves a third."""
    for t in range(span[a, 0], span[a, 1]):
        d, s, value = term[t, 0], term[t, 1], _value(values, i, term[t, 2])
        if factor[t, factor.shape[1] - 1] == 0.0:
            for at in range(lanes):
                target[d, 0, at] += mass[s, 0, at] * value
        else:
            for at in range(lanes):
                target[d, 0, at] += mass[s, 0, at] * factor[t, at] * value


@kernel
def _pour(a, span, entry, lanes, fresh, mass):
    """Add what was spread apart from the mass, and clear it."""
    for n in range(span[a, 2], span[a, 3]):
        d = entry[n]
        for at in range(lanes):
            mass[d, 0, at] += fresh[d, 0, at]
            fresh[d, 0, at] = 0.0


@kernel
def _gather_odd(values, i, a, span, term, lanes, mass, fresh, odd):
    for k in range(odd[0, lanes]):
        _gather_lane(values, i, a, odd[0, k], span, term, mass, fresh)


@kernel
def _settle_odd(a, span, term, entry, lanes, mass, fresh, bound, factor, odd):
    """Add what was gathered for the odd lanes, and see which of them still are odd."""
    count = odd[0, lanes]
    odd[0, lanes] = 0
    for k in range(count):
        at = odd[0, k]
        odd[1, at] = 0
        _settle_lane(a, at, span, entry, mass, fresh, bound)
        _bridge(at, term, mass, factor, odd)


@kernel
def _shrink(lanes, term, mass, bound, factor, odd):
    """Bring every mantissa below RADIX again; find bounds, factors and odd lanes anew."""
    for d in range(mass.shape[0]):
        most = 0.0
        for at in range(lanes):
            if abs(mass[d, 0, at]) >= RADIX:
                mass[d, 0, at] *= SHRINK
                mass[d, 1, at] += 1.0
            most = max(most, abs(mass[d, 0, at]))
        bound[d] = most
    for at in range(lanes):
        _bridge(at, term, mass, factor, odd)


@kernel
def _bridge(at, term, mass, factor, odd):
    """Recompute one lane's factors from its exponents; it is odd if any does not fit.

    A lane that is odd already keeps its factors of 0 until `_settle_odd` asks again.
    """
    fits = odd[1, at] == 0
    for t in range(term.shape[0]):
        fits &= mass[term[t, 0], 1, at] >= mass[term[t, 1], 1, at]
    last = factor.shape[1] - 1
    for t in range(term.shape[0]):
        bridge = scale(mass[term[t, 0], 1, at], mass[term[t, 1], 1, at]) if fits else 0.0
        factor[t, last] += int(bridge != 1.0) - int(factor[t, at] != 1.0)
        factor[t, at] = bridge
    if not (fits or odd[1, at]):
        last = odd.shape[1] - 1
        odd[1, at], odd[0, odd[0, last]] = 1, at
        odd[0, last] += 1


# ---- One event, one lane; and what all lanes share --------------------------------------------------


@inlined
def _value(values, i, column):
    return values[i, column] if column > 0 else 1.0


@inlined
def _gather_lane(values, i, a, at, span, term, mass, fresh):
    """Gather the mass that an event continues in one lane, from the lane's own mass."""
    for t in range(span[a, 0], span[a, 1]):
        d, s = term[t, 0], term[t, 1]
        part_m, part_e = times(mass[s, 0, at], mass[s, 1, at], _value(values, i, term[t, 2]))
        fresh[d, 0, at], fresh[d, 1, at] = add(fresh[d, 0, at], fresh[d, 1, at], part_m, part_e)


@inlined
def _gather_own(values, i, a, at, span, term, one, mass, fresh):
    """Gather the mass that an event at T continues in its own lane, from shared mass and from the lane's."""
    for t in range(span[a, 0], span[a, 1]):
        d, s, v = term[t, 0], term[t, 1], _value(values, i, term[t, 2])
        if term[t, 3]:
            part_m, part_e = times(one[s, 0], one[s, 1], v)
        else:
            part_m, part_e = times(mass[s, 0, at], mass[s, 1, at], v)
        fresh[d, 0, at], fresh[d, 1, at] = add(fresh[d, 0, at], fresh[d, 1, at], part_m, part_e)


@inlined
def _settle_lane(a, at, span, entry, mass, fresh, bound):
    """Add what was gathered for one lane; whether an exponent changed."""
    rescaled = False
    for n in range(span[a, 2], span[a, 3]):
        d = entry[n]
        before = mass[d, 1, at]
        mass[d, 0, at], mass[d, 1, at] = add(mass[d, 0, at], before, fresh[d, 0, at], fresh[d, 1, at])
        fresh[d, 0, at], fresh[d, 1, at] = 0.0, 0.0
        rescaled |= mass[d, 1, at] != before
        bound[d] = max(bound[d], abs(mass[d, 0, at]))
    return rescaled


@inlined
def _gather_shared(values, i, a, span, term, one, fresh):
    for t in range(span[a, 0], span[a, 1]):
        d, s = term[t, 0], term[t, 1]
        part_m, part_e = times(one[s, 0], one[s, 1], _value(values, i, term[t, 2]))
        fresh[d, 0], fresh[d, 1] = add(fresh[d, 0], fresh[d, 1], part_m, part_e)


@inlined
def _settle_shared(a, span, entry, one, fresh):
    for n in range(span[a, 2], span[a, 3]):
        d = entry[n]
        one[d, 0], one[d, 1] = add(one[d, 0], one[d, 1], fresh[d, 0], fresh[d, 1])
        fresh[d, 0], fresh[d, 1] = 0.0, 0.0


# ---- Moments of several events, and values that are not small ---------------------------------------


@kernel
def _fold_moment(events, lane, start, stop, lanes, program, one, fresh_one, mass, fresh, bound):
    """One moment in wide arithmetic: all events read the mass from before it."""
    symbol, values = events.symbol, events.values
    shared, own, public = program.shared, program.own, program.public
    for i in range(start, stop):
        a = symbol[i]
        for at in range(lanes if public.span[a, 0] < public.span[a, 1] else 0):
            _gather_lane(values, i, a, at, public.span, public.term, mass, fresh)
        _gather_own(values, i, a, lane[i], own.span, own.term, one, mass, fresh)
        _gather_shared(values, i, a, shared.span, shared.term, one, fresh_one)
    for i in range(start, stop):
        a = symbol[i]
        for at in range(lanes if public.span[a, 0] < public.span[a, 1] else 0):
            _settle_lane(a, at, public.span, public.entry, mass, fresh, bound)
        _settle_lane(a, lane[i], own.span, own.entry, mass, fresh, bound)
        _settle_shared(a, shared.span, shared.entry, one, fresh_one)
