"""Queries side by side: machines of one shape are lanes of a block, and a burst of equal events acts once.

A block is a shape; its lanes are the open windows of all queries of that shape. Each state of the shape has a
row of mass, one number per lane, so an event is a loop over contiguous memory, whichever queries it is for:

    x = Σ mass of the sources;   mass of a target += A · x            (counts)
    mass of a target += A · x + S · count of the sources              (sums of an attribute)

One event has A = 1 and S = its value. A *burst*, consecutive events that mean the same to every query, has
the same form: with e events at a place that follows itself, A = 2^e - 1, and S is found in one pass over
their values. The x of a query is HAMLET's snapshot, A and S are its coefficients; they are the same for all
queries, however different their aggregates. So a burst costs each query as much as one event.

Mass is in wide numbers (kernel.wide). A row has a bound on its mantissas, so that most events look at no
number twice; where exponents differ, a factor per lane bridges them (see kernel.fold).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.program import (
    ADD,
    BLOCK,
    END,
    EXTREMES,
    FIRST,
    FIRST_EXTREME,
    GROW,
    IS_LOOP,
    KIND,
    LANE,
    LANE_STOP,
    LANES,
    OTHER,
    PAIR,
    ROWS,
    SOURCE,
    SOURCE_STOP,
    SPARSE,
    START,
    TARGET,
    TARGETS,
    WAY,
    WEIGHT,
    WIDTH,
    XTARGET,
)
from trendfold.kernel.simd import grow_rows, grow_rows_by_both, grow_rows_by_factor, grow_rows_by_weight
from trendfold.kernel.wide import RADIX, SHRINK, add, blend, lift, normalise, times

HEADROOM = 2.0**400
"""Mantissas may grow to here before they are brought below RADIX."""
_FINITE = 2.0**1000
LONGEST = 256
"""Events of one burst: its coefficients stay below 2^256 times a value."""

BURSTS, SHARED, SNAPSHOTS, SPLITS, MERGES = range(5)
"""What is counted."""


class Mass(NamedTuple):
    """The state of a fold.

    m, e, x      mantissas, exponents and extremes, cell by cell
    factor       per pair of rows and lane, what brings the mantissa read to the exponent written
    bound        per row, no lane's mantissa is larger
    most         per pair, the largest factor; NaN where one does not fit
    is_raised    per row, whether any exponent may differ from 0
    is_wide      per block, whether that is so for any of its rows
    open         per block, its open lanes
    fresh_m, fresh_e, fresh_x   what a moment adds
    sums         per number: mantissa and exponent of what one lane gathers
    """

    m: np.ndarray
    e: np.ndarray
    x: np.ndarray
    factor: np.ndarray
    bound: np.ndarray
    most: np.ndarray
    is_raised: np.ndarray
    is_wide: np.ndarray
    open: np.ndarray
    fresh_m: np.ndarray
    fresh_e: np.ndarray
    fresh_x: np.ndarray
    sums: np.ndarray


class Coefficients(NamedTuple):
    """What the events of a burst add up to, column by column of their values.

    looped  where each event may follow those before it in the burst
    flat    where none does
    least   the least of values that extremes compare
    """

    looped: np.ndarray
    flat: np.ndarray
    least: np.ndarray


@kernel
def fold_together(events, cuts, program, out, counts):
    """Fold all rows for all lanes; what a window holds when it closes goes to its row of `out`.

    events  symbol int32[n], moment int32[n], values float64[n,V] (column 0 is 1), extremes float64[n,X]
    counts  int64[5]  see BURSTS
    """
    mass = _no_mass(program)
    columns = max(1, events.values.shape[1])
    burst = Coefficients(
        np.zeros(columns), np.zeros(columns), np.full(max(1, events.extremes.shape[1]), np.inf)
    )
    was_shared = np.zeros(program.share_from.shape[0], np.int8)
    rows, last_cut = events.symbol.shape[0], cuts.row.shape[0]
    i = next_cut = 0
    while i < rows or next_cut < last_cut:
        while next_cut < last_cut and cuts.row[next_cut] == i:
            _cut(next_cut, cuts, program, mass, out)
            next_cut += 1
        stop = cuts.row[next_cut] if next_cut < last_cut else rows
        _fold_rows(np.uint64(i), np.uint64(stop), events, program, mass, burst, was_shared, counts)
        i = stop


@kernel
def _fold_rows(i, stop, events, program, mass, burst, was_shared, counts):
    """The rows [i, stop), between which no window closes or opens.

    Indices are unsigned: a signed one costs a test for wraparound.
    """
    symbol, moment = events.symbol, events.moment
    m, e, factor, bound, most = mass.m, mass.e, mass.factor, mass.bound, mass.most
    is_wide, is_raised = mass.is_wide, mass.is_raised
    op, op_start, at, block = program.op, program.op_start, program.at, program.block
    pair_at, lane, weight = program.pair_at, program.lane, program.weight
    share_from, is_plain, is_apart = program.share_from, program.is_plain, program.is_apart
    one, ways = np.uint64(1), 2.0 ** np.arange(LONGEST + 1)
    bursts, shared, snapshots = 0, 0, 0
    while i < stop:
        a = np.uint64(symbol[i])
        end = i + one
        while end < stop and moment[end] == moment[i]:
            end += one
        is_tied = end > i + one
        if not is_apart[a] or (is_tied and not _is_uniform(symbol, i, end)):
            _fold_moment(i, end, events, program, mass, burst)
            i = end
            continue
        low, high = op_start[a], op_start[a + one]
        if is_tied:  # equal events of one moment: none follows another
            step = end - i
            flat = looped = float(step)
        else:
            last = min(stop, i + np.uint64(LONGEST))
            while end < last and symbol[end] == symbol[i]:
                if end + one < stop and moment[end + one] == moment[end]:
                    break
                end += one
            is_shared = end - i >= np.uint64(share_from[a])
            step = end - i if is_shared else one
            flat, looped = float(step), ways[step] - 1.0
            bursts += 1
            if is_shared:
                shared += 1
                snapshots += high - low
                counts[MERGES] += was_shared[a] < 0
            else:
                counts[SPLITS] += was_shared[a] > 0
            was_shared[a] = 1 if is_shared else -1
        while i < end:
            if not is_plain[a]:
                _gather(i, i + step, a, is_tied, events, program, burst)
            i += step
            # Written out: where functions are inlined, numba counts references to the arrays they get.
            for k in range(low, high):
                times_ = looped if op[k, IS_LOOP] else flat
                t, b = np.uint64(op[k, TARGET]), np.uint64(op[k, BLOCK])
                d, top = np.uint64(at[t]), bound[t]
                if op[k, WAY] == GROW:
                    other, pair = np.uint64(op[k, OTHER]), np.uint64(op[k, PAIR])
                    s, f, w, lanes = at[other], pair_at[pair], op[k, WEIGHT], block[b, LANES]
                    if is_wide[b]:
                        top += times_ * (top + most[pair] * bound[other])
                        if top < _FINITE:
                            bound[t] = top
                            if w < 0:
                                grow_rows_by_factor(m, at[t], s, lanes, times_, factor, f, weight, w)
                            else:
                                grow_rows_by_both(m, at[t], s, lanes, times_, factor, f, weight, w)
                            if top >= HEADROOM:
                                _bring_back(op[k, TARGET], op[k, BLOCK], program, mass)
                            continue
                    else:
                        top += times_ * (top + bound[other])
                        if top < HEADROOM:
                            bound[t] = top
                            if w < 0:
                                grow_rows(m, at[t], s, lanes, times_, factor, f, weight, w)
                            else:
                                grow_rows_by_weight(m, at[t], s, lanes, times_, factor, f, weight, w)
                            continue
                elif op[k, WAY] == ADD:
                    other = np.uint64(op[k, OTHER])
                    s = np.uint64(at[other])
                    if is_raised[t] or is_raised[other]:  # exponents come in no order: no branch on them
                        for o in range(op[k, LANE], op[k, LANE_STOP]):
                            n = np.uint64(lane[o])
                            gain, exponent = _tame(m[s + n], e[s + n])
                            gain, exponent = _tame(gain * times_, exponent)
                            before = e[d + n]
                            old, old_exponent = _tame(m[d + n], before)
                            m[d + n], exponent = blend(old, old_exponent, gain, exponent)
                            top = max(top, m[d + n])
                            if exponent != before:
                                e[d + n], is_raised[t] = exponent, True
                                _bridge(op[k, TARGET], lane[o], program, mass)
                        bound[t] = top
                        continue
                    top += times_ * bound[other]
                    if top < HEADROOM:
                        bound[t] = top
                        for o in range(op[k, LANE], op[k, LANE_STOP]):
                            n = np.uint64(lane[o])
                            m[d + n] += times_ * m[s + n]
                        continue
                _apply(k, times_, program, mass, burst)
    counts[BURSTS] += bursts
    counts[SHARED] += shared
    counts[SNAPSHOTS] += snapshots


@inlined
def _tame(m, e):
    """`normalise` for mantissas below RADIX squared, without a branch."""
    is_over = m >= RADIX
    return m * (SHRINK if is_over else 1.0), e + np.int32(is_over)


@kernel
def _no_mass(program):
    cells, xcells = program.cells, program.xcells
    return Mass(
        np.zeros(cells),
        np.zeros(cells, np.int32),
        np.full(xcells, np.inf),
        np.ones(program.pair_cells),
        np.zeros(program.at.shape[0]),
        np.ones(program.pair_at.shape[0]),
        np.zeros(program.at.shape[0], np.bool_),
        np.zeros(program.block.shape[0], np.bool_),
        np.zeros(program.block.shape[0], np.int64),
        np.zeros(cells),
        np.zeros(cells, np.int32),
        np.full(xcells, np.inf),
        np.zeros((2, program.feed.shape[1], 2)),
    )


@kernel
def _is_uniform(symbol, i, j):
    for k in range(i, j):
        if symbol[k] != symbol[i]:
            return False
    return True


# ---- Coefficients -----------------------------------------------------------------------------------


@kernel
def _gather(i, j, a, is_tied, events, program, burst):
    """The coefficients of the events [i, j); those that are tied do not follow each other."""
    for c in range(program.column_start[a], program.column_start[a + np.uint64(1)]):
        column = program.column[c]
        through, ways, alone = 0.0, 1.0, 0.0
        for k in range(i, j):
            value = events.values[k, column]
            through = 2.0 * through + value * ways
            ways += ways
            alone += value
        burst.looped[column], burst.flat[column] = alone if is_tied else through, alone
    for c in range(program.xcolumn_start[a], program.xcolumn_start[a + np.uint64(1)]):
        column = program.xcolumn[c]
        low = np.inf
        for k in range(i, j):
            low = min(low, events.extremes[k, column])
        burst.least[column] = low


# ---- What an event or a burst does ------------------------------------------------------------------


@kernel
def _apply(k, times_, program, mass, burst):
    """Any operation: all its lanes at once where that fits, else lane by lane in wide arithmetic."""
    op = program.op
    sums = burst.looped if op[k, IS_LOOP] else burst.flat
    if op[k, KIND] != SPARSE and program.block[op[k, BLOCK], EXTREMES] == 0:
        if _apply_dense(k, times_, sums, program, mass):
            return
    for o in range(op[k, LANE], op[k, LANE_STOP]):
        lane = program.lane[o]
        is_some = _sum_lane(k, lane, times_, sums, program, mass)
        for target in range(op[k, TARGETS]):
            _settle(k, lane, target, mass.sums[1], program, mass)
            _settle_least(k, lane, target, is_some, burst.least, program, mass)
    if op[k, KIND] != SPARSE and mass.is_wide[op[k, BLOCK]]:  # factors that did not fit may do so now
        lanes, width = program.block[op[k, BLOCK], LANES], program.block[op[k, BLOCK], WIDTH]
        for o in range(op[k, SOURCE], op[k, SOURCE_STOP]):
            for target in range(op[k, TARGETS]):
                for pair in range(program.pair[o, target], program.pair[o, target] + 2 * width - 1):
                    _bridge_all(pair, lanes, program, mass)


@kernel
def _apply_dense(k, times_, sums, program, mass):
    """All lanes on mantissas; False, with nothing done, where a bound or a factor does not allow it."""
    op, b = program.op, program.op[k, BLOCK]
    width, lanes = program.block[b, WIDTH], program.block[b, LANES]
    low, high = op[k, SOURCE], op[k, SOURCE_STOP]
    for target in range(op[k, TARGETS]):
        for w in range(width):
            most_now = _bound_of(k, target, w, times_, sums, program, mass)
            if not most_now < _FINITE:
                return False
            mass.sums[0, w, target] = most_now
    # Whatever is read is read before anything is written: sums of one target stand in `fresh` for a while.
    for target in range(op[k, TARGETS]):
        for w in range(width):
            row = op[k, TARGET + target] + w
            d = program.at[row]
            fresh = mass.fresh_m[d : d + lanes]
            column = program.feed[k, w]
            for o in range(low, high):
                pair = program.pair[o, target]
                _add_scaled(fresh, program.source[o] + w, pair + w, times_, lanes, b, program, mass)
                if w > 0 and column >= 0:
                    value = sums[column]
                    _add_scaled(
                        fresh, program.source[o], pair + width + w - 1, value, lanes, b, program, mass
                    )
    at = op[k, WEIGHT]
    for target in range(op[k, TARGETS]):
        for w in range(width):
            row = op[k, TARGET + target] + w
            d = program.at[row]
            if at < 0:
                for n in range(lanes):
                    mass.m[d + n] += mass.fresh_m[d + n]
                    mass.fresh_m[d + n] = 0.0
            else:
                for n in range(lanes):
                    mass.m[d + n] += program.weight[at + n] * mass.fresh_m[d + n]
                    mass.fresh_m[d + n] = 0.0
            mass.bound[row] = mass.sums[0, w, target]
    for target in range(op[k, TARGETS]):
        for w in range(width):
            row = op[k, TARGET + target] + w
            if mass.bound[row] >= HEADROOM:
                _bring_back(row, b, program, mass)
    return True


@kernel
def _bound_of(k, target, w, times_, sums, program, mass):
    """No mantissa of a row will be larger."""
    op = program.op
    width, is_wide = program.block[op[k, BLOCK], WIDTH], mass.is_wide[op[k, BLOCK]]
    column = program.feed[k, w]
    found = mass.bound[op[k, TARGET + target] + w]
    for o in range(op[k, SOURCE], op[k, SOURCE_STOP]):
        pair = program.pair[o, target]
        found += times_ * mass.bound[program.source[o] + w] * (mass.most[pair + w] if is_wide else 1.0)
        if w > 0 and column >= 0:
            factor = mass.most[pair + width + w - 1] if is_wide else 1.0
            found += abs(sums[column]) * mass.bound[program.source[o]] * factor
    return found


@kernel
def _add_scaled(fresh, row, pair, value, lanes, b, program, mass):
    s = program.at[row]
    read = mass.m[s : s + lanes]
    if mass.is_wide[b]:
        f = program.pair_at[pair]
        factor = mass.factor[f : f + lanes]
        for n in range(lanes):
            fresh[n] += value * factor[n] * read[n]
    else:
        for n in range(lanes):
            fresh[n] += value * read[n]


@kernel
def _sum_lane(k, lane, times_, sums, program, mass):
    """What one lane gains, into mass.sums[1]; returns whether any trend goes on."""
    op, width = program.op, program.block[program.op[k, BLOCK], WIDTH]
    count_m, count_e = 0.0, np.int32(0)
    for w in range(width):
        total_m, total_e = 0.0, np.int32(0)
        for o in range(op[k, SOURCE], op[k, SOURCE_STOP]):
            cell = program.at[program.source[o] + w] + lane
            part_m, part_e = normalise(mass.m[cell], mass.e[cell])
            total_m, total_e = add(total_m, total_e, part_m, part_e)
        if w == 0:
            count_m, count_e = total_m, total_e
        gain_m, gain_e = times(total_m, total_e, times_)
        column = program.feed[k, w]
        if w > 0 and column >= 0:
            part_m, part_e = times(count_m, count_e, sums[column])
            gain_m, gain_e = add(gain_m, gain_e, part_m, part_e)
        mass.sums[1, w, 0], mass.sums[1, w, 1] = gain_m, gain_e
    return count_m != 0.0


@kernel
def _settle(k, lane, target, gains, program, mass):
    """Add what a lane gains to one target."""
    op, b = program.op, program.op[k, BLOCK]
    for w in range(program.block[b, WIDTH]):
        row = op[k, TARGET + target] + w
        _add_to(row, lane, gains[w, 0], np.int32(gains[w, 1]), b, program, mass)


@kernel
def _add_to(row, lane, gain_m, gain_e, b, program, mass):
    cell = program.at[row] + lane
    before = mass.e[cell]
    old_m, old_e = normalise(mass.m[cell], before)
    mass.m[cell], mass.e[cell] = add(old_m, old_e, gain_m, gain_e)
    mass.bound[row] = max(mass.bound[row], abs(mass.m[cell]))
    if mass.e[cell] != before:
        mass.is_wide[b] = mass.is_raised[row] = True
        _bridge(row, lane, program, mass)


@kernel
def _bridge(row, lane, program, mass):
    """The factors of one lane that change with the exponent of a row."""
    for o in range(program.touching_start[row], program.touching_start[row + 1]):
        pair = program.touching[o]
        reach = _reach(pair, lane, program, mass)
        mass.factor[program.pair_at[pair] + lane] = reach
        if np.isnan(reach) or reach > mass.most[pair]:
            mass.most[pair] = reach


@inlined
def _reach(pair, lane, program, mass):
    to, of = program.at[program.pair_row[pair, 0]], program.at[program.pair_row[pair, 1]]
    return lift(mass.e[to + lane], mass.e[of + lane])


@kernel
def _bridge_all(pair, lanes, program, mass):
    """The factors of all lanes of a pair."""
    to, of = program.at[program.pair_row[pair, 0]], program.at[program.pair_row[pair, 1]]
    f, most = program.pair_at[pair], 0.0
    for n in range(lanes):
        reach = lift(mass.e[to + n], mass.e[of + n])
        mass.factor[f + n] = reach
        if np.isnan(reach) or reach > most:
            most = reach
    mass.most[pair] = most


@kernel
def _settle_least(k, lane, target, is_some, least, program, mass):
    """The least values of a target: those of its sources, and of the events if any trend goes on."""
    op, b = program.op, program.op[k, BLOCK]
    for x in range(program.block[b, EXTREMES]):
        cell = program.xat[op[k, XTARGET + target] + x] + lane
        low = mass.x[cell]
        for o in range(op[k, SOURCE], op[k, SOURCE_STOP]):
            low = min(low, mass.x[program.xat[program.xsource[o] + x] + lane])
        column = program.xfeed[k, x]
        if is_some and column >= 0:
            low = min(low, least[column])
        mass.x[cell] = low


@kernel
def _bring_back(row, b, program, mass):
    """Bring the mantissas of a row below RADIX, and find the factors that change with it."""
    d, lanes = program.at[row], program.block[b, LANES]
    top = 0.0
    for n in range(lanes):
        mass.m[d + n], mass.e[d + n] = normalise(mass.m[d + n], mass.e[d + n])
        top = max(top, abs(mass.m[d + n]))
    mass.bound[row] = top
    mass.is_wide[b] = mass.is_raised[row] = True
    for o in range(program.touching_start[row], program.touching_start[row + 1]):
        _bridge_all(program.touching[o], lanes, program, mass)


# ---- Moments of several events ------------------------------------------------------------------------


@kernel
def _fold_moment(i, j, events, program, mass, burst):
    """Events of one moment, or one event at several places of a query: all read what was there before."""
    op = program.op
    for k in range(i, j):
        a = np.uint64(events.symbol[k])
        _gather(k, k + np.uint64(1), a, False, events, program, burst)
        for o in range(program.op_start[a], program.op_start[a + np.uint64(1)]):
            for q in range(op[o, LANE], op[o, LANE_STOP]):
                lane = program.lane[q]
                is_some = _sum_lane(o, lane, 1.0, burst.flat, program, mass)
                for target in range(op[o, TARGETS]):
                    _put_aside(o, lane, target, is_some, burst.least, program, mass)
    for k in range(i, j):
        a = np.uint64(events.symbol[k])
        for o in range(program.op_start[a], program.op_start[a + np.uint64(1)]):
            for q in range(op[o, LANE], op[o, LANE_STOP]):
                for target in range(op[o, TARGETS]):
                    _take_in(o, program.lane[q], target, program, mass)


@kernel
def _put_aside(k, lane, target, is_some, least, program, mass):
    op, b = program.op, program.op[k, BLOCK]
    for w in range(program.block[b, WIDTH]):
        cell = program.at[op[k, TARGET + target] + w] + lane
        gain_m, gain_e = mass.sums[1, w, 0], np.int32(mass.sums[1, w, 1])
        mass.fresh_m[cell], mass.fresh_e[cell] = add(mass.fresh_m[cell], mass.fresh_e[cell], gain_m, gain_e)
    for x in range(program.block[b, EXTREMES]):
        cell = program.xat[op[k, XTARGET + target] + x] + lane
        low = mass.fresh_x[cell]
        for o in range(op[k, SOURCE], op[k, SOURCE_STOP]):
            low = min(low, mass.x[program.xat[program.xsource[o] + x] + lane])
        column = program.xfeed[k, x]
        mass.fresh_x[cell] = min(low, least[column]) if is_some and column >= 0 else low


@kernel
def _take_in(k, lane, target, program, mass):
    """What was put aside for a target; tied events may share it."""
    op, b = program.op, program.op[k, BLOCK]
    for w in range(program.block[b, WIDTH]):
        row = op[k, TARGET + target] + w
        cell = program.at[row] + lane
        _add_to(row, lane, mass.fresh_m[cell], mass.fresh_e[cell], b, program, mass)
        mass.fresh_m[cell], mass.fresh_e[cell] = 0.0, 0
    for x in range(program.block[b, EXTREMES]):
        cell = program.xat[op[k, XTARGET + target] + x] + lane
        mass.x[cell] = min(mass.x[cell], mass.fresh_x[cell])
        mass.fresh_x[cell] = np.inf


# ---- Windows ------------------------------------------------------------------------------------------


@kernel
def _cut(c, cuts, program, mass, out):
    """A window of some members closes or opens: each has a lane for it."""
    which, is_open = cuts.which[c], cuts.is_open[c]
    for k in range(cuts.member_start[which], cuts.member_start[which + 1]):
        member = cuts.member[k]
        b, lane = program.home[member, 0], program.home[member, 1] + cuts.slot[c]
        if is_open:
            mass.m[program.at[program.block[b, START]] + lane] = 1.0
            mass.bound[program.block[b, START]] = max(1.0, mass.bound[program.block[b, START]])
            mass.open[b] += 1
        else:
            _harvest(b, lane, cuts.out_start[member] + cuts.item[c], program, mass, out)
            _empty(b, lane, program, mass)


@kernel
def _harvest(b, lane, row, program, mass, out):
    block = program.block
    for w in range(block[b, WIDTH]):
        cell = program.at[block[b, END] + w] + lane
        out.mantissa[row, w], out.exponent[row, w] = normalise(mass.m[cell], mass.e[cell])
    end = (block[b, END] - block[b, FIRST]) // block[b, WIDTH]
    for x in range(block[b, EXTREMES]):
        cell = program.xat[block[b, FIRST_EXTREME] + end * block[b, EXTREMES] + x] + lane
        out.extreme[row, x] = mass.x[cell]


@kernel
def _empty(b, lane, program, mass):
    """Nothing is left in a lane; where no lane is open, bounds and factors begin anew."""
    block = program.block
    states = block[b, ROWS] // block[b, WIDTH]
    for row in range(block[b, FIRST], block[b, FIRST] + block[b, ROWS]):
        cell = program.at[row] + lane
        mass.m[cell], mass.e[cell] = 0.0, 0
    for row in range(block[b, FIRST_EXTREME], block[b, FIRST_EXTREME] + states * block[b, EXTREMES]):
        mass.x[program.xat[row] + lane] = np.inf
    mass.open[b] -= 1
    is_last = mass.open[b] == 0
    if mass.is_wide[b]:
        for pair in range(program.block_pair[b], program.block_pair[b + 1]):
            mass.factor[program.pair_at[pair] + lane] = 1.0
            mass.most[pair] = 1.0 if is_last else max(1.0, mass.most[pair])
    if is_last:
        mass.is_wide[b] = False
        for row in range(block[b, FIRST], block[b, FIRST] + block[b, ROWS]):
            mass.bound[row], mass.is_raised[row] = 0.0, False
