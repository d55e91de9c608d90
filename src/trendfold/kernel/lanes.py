"""GROUP BY T.g as lanes: one pass over a partition's events for all of its groups.

Until a trend has bound T it belongs to every group, so that mass is kept once, *shared*. From T on it is
kept per group, in lanes side by side: an event at T touches its *own* lane, any other event acts on all
lanes alike (*public*), in a loop over contiguous memory. Under *any*, without guards and extremes.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.wide import RADIX, SHRINK, add, scale, times

HEADROOM = 2.0**400
"""Mantissas of lanes may grow to here between two times that all are brought below RADIX."""


@kernel
def fold_lanes(events, lane, lows, highs, lanes, program, out):
    """Fold every window item [lows[k], highs[k]) for its lanes[k] lanes; one row of `out` per item and lane.

    lane      int32[n]     the lane of a row that can take T, else -1
    program   LaneProgram
    """
    most, width = 1, program.width
    for k in range(lanes.shape[0]):
        most = max(most, lanes[k])
    entries = program.states * width
    shared = np.zeros(program.shared_states * width), np.zeros(program.shared_states * width, np.int32)
    shared_fresh = np.zeros_like(shared[0]), np.zeros_like(shared[1])
    state = np.zeros((entries, most)), np.zeros((entries, most), np.int32)
    fresh = np.zeros((entries, most)), np.zeros((entries, most), np.int32)
    factor = np.ones((program.public.op.shape[0], most))
    row = 0
    for k in range(lows.shape[0]):
        shared[0][:] = 0.0
        shared[1][:] = 0
        shared[0][0] = 1.0  # ⊥ is the first shared state
        state[0][:] = 0.0
        state[1][:] = 0
        factor[:] = 1.0
        _fold(
            events,
            lane,
            lows[k],
            highs[k],
            lanes[k],
            program,
            shared,
            shared_fresh,
            state,
            fresh,
            factor,
        )
        for at in range(lanes[k]):
            for w in range(width):
                end = program.end * width + w
                out.mantissa[row, w], out.exponent[row, w] = state[0][end, at], state[1][end, at]
            row += 1


@kernel
def _fold(events, lane, low, high, lanes, program, shared, shared_fresh, state, fresh, factor):
    """A single event that acts on its own lane or on all takes a short way; the rest is `_fold_moment`.

    A public event runs in place over all lanes, on mantissas. `bound` says per entry that none is larger;
    there is room up to HEADROOM, after which all are brought below RADIX again. An *odd* lane has a
    factor that does not fit: its result is computed apart, in wide arithmetic, and written over.
    """
    symbol, moment, values = events.symbol, events.moment, events.values
    public_start, public_dst, public_ops = (
        program.public.row_start,
        program.public.dst,
        program.public.op_start,
    )
    public_op, public_col = program.public.op, program.public.col
    own_start, own_dst, own_ops = program.own.row_start, program.own.dst, program.own.op_start
    own_op, own_col, own_shared = program.own.op, program.own.col, program.own.is_shared
    shared_start, shared_dst, shared_ops = (
        program.shared.row_start,
        program.shared.dst,
        program.shared.op_start,
    )
    shared_op, shared_col = program.shared.op, program.shared.col
    m, e, one_m, one_e = state[0], state[1], shared[0], shared[1]
    fresh_m, fresh_e, fresh_one_m, fresh_one_e = fresh[0], fresh[1], shared_fresh[0], shared_fresh[1]
    bound = np.zeros(m.shape[0])
    odd, odds, is_odd = np.zeros(lanes, np.int32), 0, np.zeros(lanes, np.bool_)
    odd_m, odd_e = np.zeros(lanes), np.zeros(lanes, np.int32)
    i = low
    while i < high:
        a = symbol[i]
        owns, acts = own_start[a + 1] - own_start[a], public_start[a + 1] - public_start[a]
        fits = events.is_small and (i + 1 == high or moment[i + 1] != moment[i]) and (owns == 0 or acts == 0)
        fits = fits and acts <= 1  # with more rows, one could read what another has written
        if fits and acts == 1:
            r = public_start[a]
            gain = 0.0
            for o in range(public_ops[r], public_ops[r + 1]):
                gain += bound[public_op[o]] * abs(values[i, public_col[o]] if public_col[o] > 0 else 1.0)
                fits = fits and public_op[o] != public_dst[r]
            if fits and not bound[public_dst[r]] + gain < HEADROOM:
                _shrink(lanes, m, e, bound)
                for at in range(lanes):
                    odds = _bridge(public_dst, public_ops, public_op, at, e, factor, odd, odds, is_odd)
                gain = RADIX
            bound[public_dst[r]] += gain
        if not fits:
            j = i + 1
            while j < high and moment[j] == moment[i]:
                j += 1
            _fold_moment(events, lane, i, j, lanes, program, shared, shared_fresh, state, fresh)
            _shrink(lanes, m, e, bound)
            for at in range(lanes):
                odds = _bridge(public_dst, public_ops, public_op, at, e, factor, odd, odds, is_odd)
            i = j
            continue
        for r in range(shared_start[a], shared_start[a + 1]):
            for o in range(shared_ops[r], shared_ops[r + 1]):
                v = values[i, shared_col[o]] if shared_col[o] > 0 else 1.0
                part_m, part_e = times(one_m[shared_op[o]], one_e[shared_op[o]], v)
                d = shared_dst[r]
                fresh_one_m[d], fresh_one_e[d] = add(fresh_one_m[d], fresh_one_e[d], part_m, part_e)
        if acts:
            r = public_start[a]
            d = public_dst[r]
            for k in range(odds):
                at = odd[k]
                odd_m[k], odd_e[k] = m[d, at], e[d, at]
                for o in range(public_ops[r], public_ops[r + 1]):
                    v = values[i, public_col[o]] if public_col[o] > 0 else 1.0
                    part_m, part_e = times(m[public_op[o], at], e[public_op[o], at], v)
                    odd_m[k], odd_e[k] = add(odd_m[k], odd_e[k], part_m, part_e)
            for o in range(public_ops[r], public_ops[r + 1]):
                v = values[i, public_col[o]] if public_col[o] > 0 else 1.0
                _spread(m[public_op[o]], factor[o], v, m[d], lanes)
            count, odds = odds, 0
            for k in range(count):
                at = odd[k]
                m[d, at], e[d, at] = odd_m[k], odd_e[k]
                is_odd[at] = False
                odds = _bridge(public_dst, public_ops, public_op, at, e, factor, odd, odds, is_odd)
        if owns:
            at = lane[i]
            rescaled = False
            for r in range(own_start[a], own_start[a + 1]):
                d = own_dst[r]
                for o in range(own_ops[r], own_ops[r + 1]):
                    s, v = own_op[o], values[i, own_col[o]] if own_col[o] > 0 else 1.0
                    if own_shared[o]:
                        part_m, part_e = times(one_m[s], one_e[s], v)
                    else:
                        part_m, part_e = times(m[s, at], e[s, at], v)
                    fresh_m[d, at], fresh_e[d, at] = add(fresh_m[d, at], fresh_e[d, at], part_m, part_e)
            for r in range(own_start[a], own_start[a + 1]):
                d = own_dst[r]
                old = e[d, at]
                m[d, at], e[d, at] = add(m[d, at], old, fresh_m[d, at], fresh_e[d, at])
                fresh_m[d, at], fresh_e[d, at] = 0.0, 0
                rescaled |= e[d, at] != old
                bound[d] = max(bound[d], abs(m[d, at]))
            if rescaled:
                odds = _bridge(public_dst, public_ops, public_op, at, e, factor, odd, odds, is_odd)
        for r in range(shared_start[a], shared_start[a + 1]):
            d = shared_dst[r]
            one_m[d], one_e[d] = add(one_m[d], one_e[d], fresh_one_m[d], fresh_one_e[d])
            fresh_one_m[d], fresh_one_e[d] = 0.0, 0
        i += 1


@kernel
def _spread(source, factor, value, target, lanes):
    """A loop of its own over flat rows, so that it becomes vector instructions."""
    for at in range(lanes):
        target[at] += source[at] * factor[at] * value


@kernel
def _fold_moment(events, lane, start, stop, lanes, program, shared, shared_fresh, state, fresh):
    """One moment in wide arithmetic: all events read the state from before it."""
    public = program.public
    for i in range(start, stop):
        a = events.symbol[i]
        for r in range(public.row_start[a], public.row_start[a + 1]):
            d = public.dst[r]
            for o in range(public.op_start[r], public.op_start[r + 1]):
                s, v = public.op[o], _value(events, i, public.col[o])
                for at in range(lanes):
                    part_m, part_e = times(state[0][s, at], state[1][s, at], v)
                    fresh[0][d, at], fresh[1][d, at] = add(fresh[0][d, at], fresh[1][d, at], part_m, part_e)
        if lane[i] >= 0:
            _gather_own(events, i, lane[i], program.own, shared, state, fresh)
        _gather_shared(events, i, program.shared, shared, shared_fresh)
    for i in range(start, stop):
        a = events.symbol[i]
        if public.row_start[a + 1] > public.row_start[a]:
            for at in range(lanes):
                _settle_lane(a, at, public, state, fresh)
        if lane[i] >= 0:
            _settle_lane(a, lane[i], program.own, state, fresh)
        _settle_shared(a, program.shared, shared, shared_fresh)


@inlined
def _value(events, i, column):
    return events.values[i, column] if column > 0 else 1.0


@inlined
def _gather_own(events, i, at, own, shared, state, fresh):
    """What an event at T adds to its own lane, from shared mass and from the lane's."""
    a = events.symbol[i]
    for r in range(own.row_start[a], own.row_start[a + 1]):
        d = own.dst[r]
        for o in range(own.op_start[r], own.op_start[r + 1]):
            s, v = own.op[o], _value(events, i, own.col[o])
            if own.is_shared[o]:
                part_m, part_e = times(shared[0][s], shared[1][s], v)
            else:
                part_m, part_e = times(state[0][s, at], state[1][s, at], v)
            fresh[0][d, at], fresh[1][d, at] = add(fresh[0][d, at], fresh[1][d, at], part_m, part_e)


@inlined
def _settle_lane(a, at, rows, state, fresh):
    """Add what was gathered for one lane; whether an exponent changed."""
    rescaled = False
    for r in range(rows.row_start[a], rows.row_start[a + 1]):
        d = rows.dst[r]
        before = state[1][d, at]
        state[0][d, at], state[1][d, at] = add(state[0][d, at], before, fresh[0][d, at], fresh[1][d, at])
        rescaled |= state[1][d, at] != before
        fresh[0][d, at], fresh[1][d, at] = 0.0, 0
    return rescaled


@inlined
def _gather_shared(events, i, rows, shared, shared_fresh):
    a = events.symbol[i]
    for r in range(rows.row_start[a], rows.row_start[a + 1]):
        d = rows.dst[r]
        for o in range(rows.op_start[r], rows.op_start[r + 1]):
            part_m, part_e = times(
                shared[0][rows.op[o]], shared[1][rows.op[o]], _value(events, i, rows.col[o])
            )
            shared_fresh[0][d], shared_fresh[1][d] = add(
                shared_fresh[0][d], shared_fresh[1][d], part_m, part_e
            )


@inlined
def _settle_shared(a, rows, shared, shared_fresh):
    for r in range(rows.row_start[a], rows.row_start[a + 1]):
        d = rows.dst[r]
        shared[0][d], shared[1][d] = add(shared[0][d], shared[1][d], shared_fresh[0][d], shared_fresh[1][d])
        shared_fresh[0][d], shared_fresh[1][d] = 0.0, 0


@kernel
def _shrink(lanes, m, e, bound):
    """Bring every mantissa below RADIX again, and find the bounds anew."""
    for d in range(m.shape[0]):
        most = 0.0
        for at in range(lanes):
            if abs(m[d, at]) >= RADIX:
                m[d, at] *= SHRINK
                e[d, at] += 1
            most = max(most, abs(m[d, at]))
        bound[d] = most


@kernel
def _bridge(dst, ops, op, at, exponent, factor, odd, odds, is_odd):
    """Recompute one lane's factors from its exponents; note it among the odd ones if any does not fit."""
    fits = True
    for r in range(dst.shape[0]):
        for o in range(ops[r], ops[r + 1]):
            bridge = scale(exponent[dst[r], at], exponent[op[o], at])
            fits &= bridge == bridge
            factor[o, at] = bridge if bridge == bridge else 0.0
    if not fits and not is_odd[at]:
        is_odd[at] = True
        odd[odds] = at
        odds += 1
    return odds
