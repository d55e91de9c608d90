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

from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.program import (
    ADD,
    BLOCK,
    DENSE,
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
    START,
    TARGET,
    TARGETS,
    WAY,
    WEIGHT,
    WIDTH,
    XTARGET,
    Events,
    Together,
)
from trendfold.kernel.simd import (
    empty_rows,
    gather_rows,
    gather_rows_by_factor,
    grow_rows,
    grow_rows_by_both,
    grow_rows_by_factor,
    grow_rows_by_weight,
    pour_rows,
    pour_rows_by_weight,
)
from trendfold.kernel.wide import RADIX, SHRINK, add, blend, lift, normalise, times

HEADROOM = 2.0**400
"""Mantissas may grow to here before they are brought below RADIX."""
_FINITE = 2.0**1000
LONGEST = 256
"""Events of one burst: its coefficients stay below 2^256 times a value."""

BURSTS, SHARED, SNAPSHOTS, SPLITS, MERGES = range(5)
"""Places of the tally."""


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
    was_shared   per symbol, whether its last burst acted once: 1, -1 if not, 0 if there was none
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
    was_shared: np.ndarray


class Coefficients(NamedTuple):
    """What the events of a burst add up to, column by column of their values.

    looped  where each event may follow those before it in the burst
    flat    where none does
    least   the least of values that extremes compare
    ways    2^0, 2^1, ... of events that follow each other
    gain_m, gain_e   what one lane gains, number by number
    """

    looped: np.ndarray
    flat: np.ndarray
    least: np.ndarray
    ways: np.ndarray
    gain_m: np.ndarray
    gain_e: np.ndarray


def no_mass(program: Together) -> Mass:
    """The state before the first event."""
    cells, xcells, rows = program.cells, program.xcells, len(program.at)
    return Mass(
        m=np.zeros(cells),
        e=np.zeros(cells, np.int32),
        x=np.full(xcells, np.inf),
        factor=np.ones(program.pair_cells),
        bound=np.zeros(rows),
        most=np.ones(len(program.pair_at)),
        is_raised=np.zeros(rows, np.bool_),
        is_wide=np.zeros(len(program.block), np.bool_),
        open=np.zeros(len(program.block), np.int64),
        fresh_m=np.zeros(cells),
        fresh_e=np.zeros(cells, np.int32),
        fresh_x=np.full(xcells, np.inf),
        was_shared=np.zeros(len(program.share_from), np.int8),
    )


def state_bytes(program: Together) -> int:
    """Bytes of `no_mass`, up to a few numbers per row."""
    return 24 * program.cells + 16 * program.xcells + 8 * program.pair_cells


def no_burst(program: Together, events: Events) -> Coefficients:
    """Room for the coefficients of a burst."""
    columns, numbers = max(1, events.values.shape[1]), program.feed.shape[1]
    return Coefficients(
        looped=np.zeros(columns),
        flat=np.zeros(columns),
        least=np.full(max(1, events.extremes.shape[1]), np.inf),
        ways=2.0 ** np.arange(LONGEST + 1),
        gain_m=np.zeros(numbers),
        gain_e=np.zeros(numbers, np.int32),
    )


@kernel
def fold_together(events, cuts, program, mass, burst, out, counts):
    """Fold all rows for all lanes; what a window holds when it closes goes to its row of `out`.

    events  symbol int32[n], moment int32[n], values float64[n,V] (column 0 is 1), extremes float64[n,X]
    mass    of no_mass, burst of no_burst
    counts  int64[5]  see BURSTS
    """
    events, cuts, program, mass, burst, out = (
        lent(events),
        lent(cuts),
        lent(program),
        lent(mass),
        lent(burst),
        lent(out),
    )
    rows, last = events.symbol.shape[0], cuts.row.shape[0]
    i = cut = 0
    while i < rows or cut < last:
        cut = _cut_windows(i, cut, cuts, program, mass, out)
        stop = cuts.row[cut] if cut < last else rows
        _fold_rows(np.uint64(i), np.uint64(stop), events, program, mass, burst, counts)
        i = stop


@kernel
def _fold_rows(i, stop, events, program, mass, burst, counts):
    """The rows [i, stop), between which no window closes or opens.

    Indices are unsigned where it matters: a signed one costs a test for wraparound.
    """
    symbol, moment = events.symbol, events.moment
    m, e, x, factor, bound, most = mass.m, mass.e, mass.x, mass.factor, mass.bound, mass.most
    is_wide, is_raised, fresh = mass.is_wide, mass.is_raised, mass.fresh_m
    op, op_start, at, block, feed = program.op, program.op_start, program.at, program.block, program.feed
    pair_at, lane, weight, source, pair = (
        program.pair_at,
        program.lane,
        program.weight,
        program.source,
        program.pair,
    )
    xat, xsource, xfeed = program.xat, program.xsource, program.xfeed
    share_from, is_plain, is_apart = program.share_from, program.is_plain, program.is_apart
    column_start, column = program.column_start, program.column
    xcolumn_start, xcolumn = program.xcolumn_start, program.xcolumn
    values, extremes, least = events.values, events.extremes, burst.least
    sums_looped, sums_flat, ways = burst.looped, burst.flat, burst.ways
    gain_m, gain_e, was_shared = burst.gain_m, burst.gain_e, mass.was_shared
    one = np.uint64(1)
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
                c, y = column_start[a], xcolumn_start[a]
                _gather(
                    i, i + step, c, column_start[a + one], is_tied, column, values, sums_looped, sums_flat
                )
                if y < xcolumn_start[a + one]:
                    _gather_least(i, i + step, y, xcolumn_start[a + one], xcolumn, extremes, least)
            i += step
            for k in range(low, high):
                times_ = looped if op[k, IS_LOOP] else flat
                t, b = np.uint64(op[k, TARGET]), np.uint64(op[k, BLOCK])
                if op[k, WAY] == GROW:
                    other, p = np.uint64(op[k, OTHER]), np.uint64(op[k, PAIR])
                    own = 1.0 if op[k, IS_LOOP] else 0.0
                    d, s, f, w, lanes = at[t], at[other], pair_at[p], op[k, WEIGHT], block[b, LANES]
                    if is_wide[b]:
                        top = bound[t] + times_ * (own * bound[t] + most[p] * bound[other])
                        if top < _FINITE:
                            bound[t] = top
                            if w < 0:
                                grow_rows_by_factor(m, d, s, lanes, times_, own, factor, f, weight, w)
                            else:
                                grow_rows_by_both(m, d, s, lanes, times_, own, factor, f, weight, w)
                            if top >= HEADROOM:
                                _bring_back(op[k, TARGET], op[k, BLOCK], program, mass)
                            continue
                    else:
                        top = bound[t] + times_ * (own * bound[t] + bound[other])
                        if top < HEADROOM:
                            bound[t] = top
                            if w < 0:
                                grow_rows(m, d, s, lanes, times_, own, factor, f, weight, w)
                            else:
                                grow_rows_by_weight(m, d, s, lanes, times_, own, factor, f, weight, w)
                            continue
                elif op[k, WAY] == ADD:
                    other = np.uint64(op[k, OTHER])
                    d, s, top = np.uint64(at[t]), np.uint64(at[other]), bound[t]
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
                if block[b, EXTREMES]:
                    _lower(k, least, op, at, xat, source, xsource, lane, xfeed, block, m, x)
                is_loop, done = op[k, IS_LOOP], op[k, KIND] == DENSE
                if done:
                    done = _add_to_all(
                        k, times_, is_loop, sums_looped, sums_flat, op, at, pair_at, source, pair, feed,
                        block, m, fresh, factor, weight, bound, most, is_wide[b],
                    )  # fmt: skip
                    if done and _is_high(k, op, block, bound):
                        _bring_all_back(k, program, mass)
                if not done and _add_to_lanes(
                    k, times_, is_loop, sums_looped, sums_flat, op, at, source, lane, feed, block, m, e,
                    bound, gain_m, gain_e,
                ):  # fmt: skip
                    _bridge_lanes(k, program, mass)
    counts[BURSTS] += bursts
    counts[SHARED] += shared
    counts[SNAPSHOTS] += snapshots


@inlined
def _tame(m, e):
    """`normalise` for mantissas below RADIX squared, without a branch."""
    is_over = m >= RADIX
    return m * (SHRINK if is_over else 1.0), e + np.int32(is_over)


@kernel
def _is_uniform(symbol, i, j):
    """Whether all rows [i, j) have the same symbol."""
    differ = 0
    for k in range(i, j):
        differ += symbol[k] != symbol[i]
    return differ == 0


@kernel
def _gather(i, j, first, last, is_tied, column, values, looped, flat):
    """The coefficients of the events [i, j); those that are tied do not follow each other."""
    for c in range(first, last):
        through, ways, alone = 0.0, 1.0, 0.0
        for k in range(i, j):
            value = values[k, column[c]]
            through = 2.0 * through + value * ways
            ways += ways
            alone += value
        looped[column[c]], flat[column[c]] = alone if is_tied else through, alone


@kernel
def _gather_least(i, j, first, last, column, extremes, least):
    """The least values of the events [i, j)."""
    for c in range(first, last):
        low = np.inf
        for k in range(i, j):
            low = min(low, extremes[k, column[c]])
        least[column[c]] = low


# ---- What an event or a burst does to all lanes of a block --------------------------------------------


@kernel
def _add_to_all(
    k, times_, is_loop, looped, flat, op, at, pair_at, source, pair, feed, block, m, fresh, factor, weight,
    bound, most, is_wide,
):  # fmt: skip
    """All lanes on mantissas; False, with nothing done, where a bound or a factor does not allow it."""
    width, lanes, targets = block[op[k, BLOCK], WIDTH], block[op[k, BLOCK], LANES], op[k, TARGETS]
    fits = True
    # Whatever is read is read before anything is written: sums and bounds stand in `fresh` for a while.
    for target in range(targets):
        for w in range(width):
            column, row = feed[k, w], op[k, TARGET + target] + w
            kept, top = 0.0, bound[row]
            for o in range(op[k, SOURCE], op[k, SOURCE_STOP]):
                p, s = pair[o, target], at[source[o] + w]
                if is_wide:
                    gather_rows_by_factor(fresh, at[row], kept, m, s, lanes, times_, factor, pair_at[p + w])
                    top += times_ * bound[source[o] + w] * most[p + w]
                else:
                    gather_rows(fresh, at[row], kept, m, s, lanes, times_, factor, 0)
                    top += times_ * bound[source[o] + w]
                kept = 1.0
                if column >= 0:
                    value = looped[column] if is_loop else flat[column]
                    s = at[source[o]]
                    if is_wide:
                        p += width + w - 1
                        gather_rows_by_factor(fresh, at[row], 1.0, m, s, lanes, value, factor, pair_at[p])
                        top += abs(value) * bound[source[o]] * most[p]
                    else:
                        gather_rows(fresh, at[row], 1.0, m, s, lanes, value, factor, 0)
                        top += abs(value) * bound[source[o]]
            fits &= top < _FINITE
            fresh[at[row] + lanes] = top
    for target in range(targets):
        for w in range(width):
            row = op[k, TARGET + target] + w
            top = fresh[at[row] + lanes]
            fresh[at[row] + lanes] = 0.0
            if not fits:
                empty_rows(fresh, at[row], lanes)
            elif op[k, WEIGHT] < 0:
                bound[row] = top
                pour_rows(m, at[row], fresh, lanes, weight, 0)
            else:
                bound[row] = top
                pour_rows_by_weight(m, at[row], fresh, lanes, weight, op[k, WEIGHT])
    return fits


@kernel
def _is_high(k, op, block, bound):
    """Whether mantissas of a target may have grown too large."""
    high = False
    for target in range(op[k, TARGETS]):
        for w in range(block[op[k, BLOCK], WIDTH]):
            high |= bound[op[k, TARGET + target] + w] >= HEADROOM
    return high


@kernel
def _bring_all_back(k, program, mass):
    b = program.op[k, BLOCK]
    for target in range(program.op[k, TARGETS]):
        for w in range(program.block[b, WIDTH]):
            row = program.op[k, TARGET + target] + w
            if mass.bound[row] >= HEADROOM:
                _bring_back(row, b, program, mass)


@kernel
def _bring_back(row, b, program, mass):
    """Bring the mantissas of a row below RADIX, and find the factors that change with it."""
    m, e = mass.m, mass.e
    d, lanes, top = program.at[row], program.block[b, LANES], 0.0
    for n in range(lanes):
        m[d + n], e[d + n] = normalise(m[d + n], e[d + n])
        top = max(top, abs(m[d + n]))
    mass.bound[row] = top
    mass.is_wide[b] = mass.is_raised[row] = True
    for o in range(program.touching_start[row], program.touching_start[row + 1]):
        _bridge_all(program.touching[o], lanes, program, mass)


@kernel
def _bridge_all(pair, lanes, program, mass):
    """The factors of all lanes of a pair."""
    e, factor = mass.e, mass.factor
    to, of = program.at[program.pair_row[pair, 0]], program.at[program.pair_row[pair, 1]]
    f, most = program.pair_at[pair], 0.0
    for n in range(lanes):
        reach = lift(e[to + n], e[of + n])
        factor[f + n] = reach
        if np.isnan(reach) or reach > most:
            most = reach
    mass.most[pair] = most


# ---- What it does to a few lanes, in wide arithmetic --------------------------------------------------


@kernel
def _add_to_lanes(
    k, times_, is_loop, looped, flat, op, at, source, lane, feed, block, m, e, bound, gain_m, gain_e
):
    """Lane by lane; whether an exponent changed."""
    width, has_moved = block[op[k, BLOCK], WIDTH], False
    for o in range(op[k, LANE], op[k, LANE_STOP]):
        n = lane[o]
        _sum_lane(k, n, times_, is_loop, looped, flat, op, at, source, feed, width, m, e, gain_m, gain_e)
        for target in range(op[k, TARGETS]):
            for w in range(width):
                row = op[k, TARGET + target] + w
                cell = at[row] + n
                before = e[cell]
                old_m, old_e = normalise(m[cell], before)
                m[cell], e[cell] = add(old_m, old_e, gain_m[w], gain_e[w])
                bound[row] = max(bound[row], abs(m[cell]))
                has_moved |= e[cell] != before
    return has_moved


@kernel
def _sum_lane(k, n, times_, is_loop, looped, flat, op, at, source, feed, width, m, e, gain_m, gain_e):
    """What one lane gains."""
    count_m, count_e = 0.0, np.int32(0)
    for w in range(width):
        total_m, total_e = 0.0, np.int32(0)
        for o in range(op[k, SOURCE], op[k, SOURCE_STOP]):
            cell = at[source[o] + w] + n
            part_m, part_e = normalise(m[cell], e[cell])
            total_m, total_e = add(total_m, total_e, part_m, part_e)
        if w == 0:
            count_m, count_e = total_m, total_e
        if times_ != 1.0:
            total_m, total_e = times(total_m, total_e, times_)
        column = feed[k, w]
        if column >= 0:
            value = looped[column] if is_loop else flat[column]
            part_m, part_e = times(count_m, count_e, value)
            total_m, total_e = add(total_m, total_e, part_m, part_e)
        gain_m[w], gain_e[w] = total_m, total_e


@kernel
def _lower(k, least, op, at, xat, source, xsource, lane, xfeed, block, m, x):
    """The extremes of the targets: those of the sources, and the events' own if any trend goes on."""
    for o in range(op[k, LANE], op[k, LANE_STOP]):
        n = lane[o]
        is_some = False
        for s in range(op[k, SOURCE], op[k, SOURCE_STOP]):
            is_some |= m[at[source[s]] + n] != 0.0
        for y in range(block[op[k, BLOCK], EXTREMES]):
            low = least[xfeed[k, y]] if is_some and xfeed[k, y] >= 0 else np.inf
            for s in range(op[k, SOURCE], op[k, SOURCE_STOP]):
                low = min(low, x[xat[xsource[s] + y] + n])
            for target in range(op[k, TARGETS]):
                cell = xat[op[k, XTARGET + target] + y] + n
                x[cell] = min(x[cell], low)


@kernel
def _bridge_lanes(k, program, mass):
    """All factors that exponents of the targets of an operation change."""
    b = program.op[k, BLOCK]
    mass.is_wide[b] = True
    is_dense = program.op[k, KIND] == DENSE
    for target in range(program.op[k, TARGETS]):
        for w in range(program.block[b, WIDTH]):
            row = program.op[k, TARGET + target] + w
            mass.is_raised[row] = True
            if is_dense:  # factors that did not fit may do so now
                for o in range(program.touching_start[row], program.touching_start[row + 1]):
                    _bridge_all(program.touching[o], program.block[b, LANES], program, mass)
                continue
            for o in range(program.op[k, LANE], program.op[k, LANE_STOP]):
                _bridge(row, program.lane[o], program, mass)


@kernel
def _bridge(row, n, program, mass):
    """The factors of one lane that change with the exponent of a row."""
    e, at, pair_row = mass.e, program.at, program.pair_row
    for o in range(program.touching_start[row], program.touching_start[row + 1]):
        pair = program.touching[o]
        reach = lift(e[at[pair_row[pair, 0]] + n], e[at[pair_row[pair, 1]] + n])
        mass.factor[program.pair_at[pair] + n] = reach
        if np.isnan(reach) or reach > mass.most[pair]:
            mass.most[pair] = reach


# ---- Moments of several events ------------------------------------------------------------------------


@kernel
def _fold_moment(i, j, events, program, mass, burst):
    """Events of one moment, or one event at several places of a query: all read what was there before."""
    op, op_start, at, source, lane = program.op, program.op_start, program.at, program.source, program.lane
    feed, block, m, e, flat = program.feed, program.block, mass.m, mass.e, burst.flat
    gain_m, gain_e, column_start, xcolumn_start = (
        burst.gain_m,
        burst.gain_e,
        program.column_start,
        program.xcolumn_start,
    )
    one = np.uint64(1)
    for k in range(i, j):
        a = np.uint64(events.symbol[k])
        c, y = column_start[a], xcolumn_start[a]
        _gather(k, k + one, c, column_start[a + one], True, program.column, events.values, flat, flat)
        _gather_least(k, k + one, y, xcolumn_start[a + one], program.xcolumn, events.extremes, burst.least)
        for o in range(op_start[a], op_start[a + one]):
            width = block[op[o, BLOCK], WIDTH]
            for q in range(op[o, LANE], op[o, LANE_STOP]):
                _sum_lane(o, lane[q], 1.0, 0, flat, flat, op, at, source, feed, width, m, e, gain_m, gain_e)
                _put_aside(o, lane[q], program, mass, burst)
    for k in range(i, j):
        a = np.uint64(events.symbol[k])
        for o in range(op_start[a], op_start[a + one]):
            for q in range(op[o, LANE], op[o, LANE_STOP]):
                _take_in(o, lane[q], program, mass)


@kernel
def _put_aside(k, n, program, mass, burst):
    """What one lane gains from one event, until the moment is over."""
    op, b = program.op, program.op[k, BLOCK]
    fresh_m, fresh_e = mass.fresh_m, mass.fresh_e
    for target in range(op[k, TARGETS]):
        for w in range(program.block[b, WIDTH]):
            cell = program.at[op[k, TARGET + target] + w] + n
            fresh_m[cell], fresh_e[cell] = add(fresh_m[cell], fresh_e[cell], burst.gain_m[w], burst.gain_e[w])
        for y in range(program.block[b, EXTREMES]):
            cell = program.xat[op[k, XTARGET + target] + y] + n
            low, column = mass.fresh_x[cell], program.xfeed[k, y]
            for o in range(op[k, SOURCE], op[k, SOURCE_STOP]):
                low = min(low, mass.x[program.xat[program.xsource[o] + y] + n])
            is_fed = burst.gain_m[0] != 0.0 and column >= 0
            mass.fresh_x[cell] = min(low, burst.least[column]) if is_fed else low


@kernel
def _take_in(k, n, program, mass):
    """What was put aside for the targets of an operation; tied events may share it."""
    op, b = program.op, program.op[k, BLOCK]
    m, e, fresh_m, fresh_e = mass.m, mass.e, mass.fresh_m, mass.fresh_e
    for target in range(op[k, TARGETS]):
        for w in range(program.block[b, WIDTH]):
            row = op[k, TARGET + target] + w
            cell = program.at[row] + n
            before = e[cell]
            old_m, old_e = normalise(m[cell], before)
            m[cell], e[cell] = add(old_m, old_e, fresh_m[cell], fresh_e[cell])
            fresh_m[cell], fresh_e[cell] = 0.0, 0
            mass.bound[row] = max(mass.bound[row], abs(m[cell]))
            if e[cell] != before:
                mass.is_wide[b] = mass.is_raised[row] = True
                _bridge(row, n, program, mass)
        for y in range(program.block[b, EXTREMES]):
            cell = program.xat[op[k, XTARGET + target] + y] + n
            mass.x[cell] = min(mass.x[cell], mass.fresh_x[cell])
            mass.fresh_x[cell] = np.inf


# ---- Windows ------------------------------------------------------------------------------------------


@kernel
def _cut_windows(i, cut, cuts, program, mass, out):
    """Windows that close or open before row i: each of their members has a lane for it. The next cut."""
    m, e, at, block, home = mass.m, mass.e, program.at, program.block, program.home
    last = cuts.row.shape[0]
    while cut < last and cuts.row[cut] == i:
        which = cuts.which[cut]
        for k in range(cuts.member_start[which], cuts.member_start[which + 1]):
            member = cuts.member[k]
            b, n = home[member, 0], home[member, 1] + cuts.slot[cut]
            if cuts.is_open[cut]:
                m[at[block[b, START]] + n] = 1.0
                mass.bound[block[b, START]] = max(1.0, mass.bound[block[b, START]])
                mass.open[b] += 1
                continue
            row = cuts.out_start[member] + cuts.item[cut]
            for w in range(block[b, WIDTH]):
                cell = at[block[b, END] + w] + n
                out.mantissa[row, w], out.exponent[row, w] = normalise(m[cell], e[cell])
            for r in range(block[b, FIRST], block[b, FIRST] + block[b, ROWS]):
                m[at[r] + n], e[at[r] + n] = 0.0, 0
            if block[b, EXTREMES]:
                _harvest_extremes(b, n, row, program, mass, out)
            mass.open[b] -= 1
            if mass.is_wide[b] or mass.open[b] == 0:
                _forget_factors(b, n, program, mass)
        cut += 1
    return cut


@kernel
def _harvest_extremes(b, n, row, program, mass, out):
    """The extremes of a window that closes; its lane is empty then."""
    extremes, first = program.block[b, EXTREMES], program.block[b, FIRST_EXTREME]
    width, rows = program.block[b, WIDTH], program.block[b, ROWS]
    end = (program.block[b, END] - program.block[b, FIRST]) // width
    for y in range(extremes):
        out.extreme[row, y] = mass.x[program.xat[first + end * extremes + y] + n]
    for r in range(first, first + rows // width * extremes):
        mass.x[program.xat[r] + n] = np.inf


@kernel
def _forget_factors(b, n, program, mass):
    """The exponents of an empty lane are 0; where no lane is open, bounds and factors begin anew."""
    is_last = mass.open[b] == 0
    for pair in range(program.block_pair[b], program.block_pair[b + 1]):
        mass.factor[program.pair_at[pair] + n] = 1.0
        if is_last or mass.most[pair] < 1.0:
            mass.most[pair] = 1.0
    if is_last:
        mass.is_wide[b] = False
        for row in range(program.block[b, FIRST], program.block[b, FIRST] + program.block[b, ROWS]):
            mass.bound[row], mass.is_raised[row] = 0.0, False
