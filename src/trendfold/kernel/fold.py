"""The machine over events, where one vector per place is enough.

Neither the cost of an event nor the state depends on how many events came before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.guards import move_classes
from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.program import Events, Frame, Grid, Guards
from trendfold.kernel.wide import RADIX, add, lift, normalise, times


class FoldMass(NamedTuple):
    """Scratch memory of a fold: what the states of one window hold, factors, and what a moment gathers.

    mantissa, exponent  [states, width]; extreme  [states, extremes]
    factor              float64[A,R,K]   see `bridge`
    value               float64[V + open]  the values of an event, and the ages of open states
    since               float64[1 + open]  the clock of the window, and what it said when durations were last
                        added up at each open state
    fresh               per entry a mantissa and an exponent, per extreme entry twice an extreme
    """

    mantissa: NDArray[np.float64]
    exponent: NDArray[np.int32]
    extreme: NDArray[np.float64]
    factor: NDArray[np.float64]
    value: NDArray[np.float64]
    since: NDArray[np.float64]
    fresh: tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]


def empty_mass(frame: Frame, grid: Grid, columns: int) -> FoldMass:
    """Memory for `fold_windows`; allocated here, because numba takes seconds to compile it."""
    entries, extremes = frame.states * frame.width, frame.states * frame.extremes
    nothing = np.full(extremes, np.inf)
    return FoldMass(
        np.zeros((frame.states, frame.width)),
        np.zeros((frame.states, frame.width), np.int32),
        np.full((frame.states, frame.extremes), np.inf),
        np.empty_like(grid.times),
        np.empty(columns + len(frame.open)),
        np.zeros(1 + len(frame.open)),
        (np.zeros(entries), np.zeros(entries, np.int32), nothing, nothing.copy()),
    )


@kernel
def fold_windows(events, lows, untils, highs, rows, grid, guards, frame, mass, out):
    """Fold the rows [lows[k], highs[k]) of every window item; its whole trends go to row k of `out`.

    No trend begins at row untils[k] or after it.

    rows  SparseRows; grid  Grid  the same rows for the fast path; guards, frame: see kernel.program

    Many windows are small, so what is done per window counts: nothing is called or copied.

    A moment of one event that moves no class takes the fast path: its grid is evaluated on mantissas, with a
    factor per term that bridges the exponents of its two entries. Factors change only when an exponent does:
    one comparison shows that a sum has left its range, and it is normalised. A factor is NaN where the
    exponents are too far apart, and the moment is folded in wide arithmetic instead. States that are emptied
    on the way (*next*, *contiguous*) must not keep an exponent, so there the fast path ends at the first one.
    """
    events, rows, grid, guards = lent(events), lent(rows), lent(grid), lent(guards)
    frame, out = lent(frame), lent(out)
    mantissa, exponent, extreme, factor, value, since, fresh = lent(mass)
    m, e, x = mantissa.reshape(-1), exponent.reshape(-1), extreme.reshape(-1)
    moment, width, extremes = events.moment, frame.width, frame.extremes
    counted = _count_tables(events, rows, grid, guards.moves, factor)
    added = _number_tables(events, rows, grid, guards.moves, factor, frame)
    aged = value, since, frame.passed, grid.touch.reshape(-1), np.uint32(grid.touch.shape[1])
    is_count, has_grid = _is_count(width, extremes, grid), grid.dst.shape[1] > 0
    fades = rows.fade.shape[1]
    empties = rows.spend.shape[1] + fades > 0
    copy_factors(grid.times, factor)
    for k in range(lows.shape[0]):
        for entry in range(m.shape[0]):
            m[entry] = 0.0
        for entry in range(x.shape[0]):
            x[entry] = np.inf
        for s in range(since.shape[0]):
            since[s] = 0.0
        m[frame.start * width] = 1.0
        for entry in range(frame.start * extremes, frame.start * extremes + frame.added):
            x[entry] = 0.0
        i, high, end = lows[k], untils[k], highs[k]
        before, is_short = i, has_grid  # where the moment before row i begins
        while i < end:
            if i == high:
                _empty(frame.start, m, x, width, extremes)
                high = end
            j = i
            if is_short and (fades == 0 or before + 1 >= i):
                if is_count and high - i > LONG:
                    j = _count_long(i, high, grid, counted, factor, m, e)
                elif is_count:
                    j = _count_rows(i, high, grid, counted, factor, m, e)
                else:
                    j = _add_rows(i, high, grid, added, aged, factor, m, e, x, fresh)
            if j > i:
                before = j - 1
            else:
                while j < high and moment[j] == moment[i]:
                    j += 1
                changed = frame.elapsed > 0 and _bring_up(events.values[i, frame.passed], frame, since, m, e)
                changed |= fold_moment(events, before, i, j, rows, guards, mantissa, exponent, extreme, fresh)
                if changed:
                    bridge(grid, e, factor)
                before = i
            i = j
            if i < end:
                is_short = has_grid and not (empties and exponent.any())
        _close(k, frame, m, e, x, out)
        _forget_exponents(grid, e, factor)


@kernel
def count_windows(events, lows, highs, rows, grid, guards, frame, mass, out):
    """`fold_windows` where queries only count, and events are alone at their moments and move no class.

    Most first queries need no more, and it compiles in a third of the time. See `only_counts`.
    """
    events, rows, grid, guards = lent(events), lent(rows), lent(grid), lent(guards)
    frame, out = lent(frame), lent(out)
    mantissa, exponent, _, factor, _, _, fresh = lent(mass)
    m, e, total, total_e = mantissa.reshape(-1), exponent.reshape(-1), fresh[0], fresh[1]
    tables = _count_tables(events, rows, grid, guards.moves, factor)
    empties, is_one = rows.spend.shape[1] + rows.fade.shape[1] > 0, grid.dst.shape[1] == 1
    copy_factors(grid.times, factor)
    for k in range(lows.shape[0]):
        for entry in range(m.shape[0]):
            m[entry] = 0.0
        m[frame.start] = 1.0
        i, high, is_short = lows[k], highs[k], True
        while i < high:
            j = i
            if is_short and is_one:
                j = _count_rows(i, high, grid, tables, factor, m, e)
            elif is_short:
                j = _count_entries(i, high, grid, tables, factor, m, e, total)
            if j == i:
                before = events.symbol[max(0, i - 1)]
                if _count_wide(events.symbol[i], before, rows, grid, m, e, total, total_e):
                    bridge(grid, e, factor)
                j += 1
            i = j
            if i < high and empties:
                is_short = not e.any()
        for s in frame.whole:
            out.mantissa[k, 0], out.exponent[k, 0] = add(out.mantissa[k, 0], out.exponent[k, 0], m[s], e[s])
        _forget_exponents(grid, e, factor)


@inlined
def _count_entries(i, high, grid, tables, factor, m, e, sums):
    """`_count_rows` where an event writes several entries."""
    symbol = tables[0][0]
    src, factors, dst, terms = tables[1]
    drain, drains = tables[2]
    fade, fades = tables[3]
    count = np.uint32(grid.dst.shape[1])
    faded = np.uint32(symbol[max(0, i - 1)])
    while i < high:
        a = np.uint32(symbol[i])
        fits, is_known = True, True
        t = a * count * terms
        for r in range(count):
            total = 0.0
            for _ in range(terms):
                total += m[src[t]] * factors[t]
                t += np.uint32(1)
            fits &= abs(total) < RADIX
            is_known &= total == total
            sums[r] = total
        if not is_known:
            break
        for k in range(drains):
            m[drain[a * drains + k]] = 0.0
        for k in range(fades):
            m[fade[faded * fades + k]] = 0.0
        for r in range(count):
            m[dst[a * count + r]] = sums[r]
        faded = a
        i += 1
        if not fits:
            _bring_back(a, grid, m, e, factor)
            if drains + fades:
                break
    return i


@kernel
def _count_wide(a, faded, rows, grid, m, e, total, total_e):
    """One event of `count_windows` in wide arithmetic; whether an exponent changed."""
    changed = False
    for r in range(grid.dst.shape[1]):
        total[r], total_e[r] = 0.0, 0
        for k in range(grid.src.shape[2]):
            s = grid.src[a, r, k]
            part, part_e = normalise(m[s] * grid.times[a, r, k], e[s])
            total[r], total_e[r] = add(total[r], total_e[r], part, part_e)
    for k in range(rows.drain.shape[1]):
        changed |= _forget(rows.drain[a, k], m, e)
    for k in range(rows.fade.shape[1]):
        changed |= _forget(rows.fade[faded, k], m, e)
    for r in range(grid.dst.shape[1]):
        d = grid.dst[a, r]
        changed |= e[d] != total_e[r]
        m[d], e[d] = total[r], total_e[r]
    return changed


@inlined
def _forget(entry, m, e):
    """Empty an entry; whether it had an exponent."""
    had = e[entry] != 0
    m[entry], e[entry] = 0.0, 0
    return had


def only_counts(events: Events, grid: Grid, guards: Guards, frame: Frame) -> bool:
    """Whether `count_windows` can fold these events."""
    has_ties = len(events.moment) > 0 and int(events.moment[-1]) + 1 < len(events.moment)
    is_count = frame.width == 1 and frame.extremes == 0 and grid.dst.shape[1] > 0
    return is_count and not has_ties and not guards.moves.any()


@inlined
def _bring_up(passed, frame, since, m, e):
    """Let all time pass up to a moment, `passed` after the one before; whether that changed an exponent."""
    changed = False
    since[0] += passed
    for k in range(frame.open.shape[0]):
        changed |= _grow(frame.open[k] * frame.width, since[0] - since[1 + k], frame, m, e)
        since[1 + k] = since[0]
    return changed


@inlined
def pass_time(elapsed, frame, m, e):
    """Let time pass for every trend that has begun and not ended; whether that changed an exponent."""
    changed = False
    for s in frame.open:
        changed |= _grow(s * frame.width, elapsed, frame, m, e)
    return changed


@inlined
def _grow(count, elapsed, frame, m, e):
    """Let time pass for the state whose count is at an entry; whether that changed an exponent."""
    entry = count + frame.elapsed
    gain, gain_e = times(m[count], e[count], elapsed)
    before = e[entry]
    m[entry], e[entry] = add(m[entry], e[entry], gain, gain_e)
    return e[entry] != before


LONG = 1024
"""From here on rows are counted in a call, where the loop has all registers: 10 to 15 % faster."""


@inlined
def _forget_exponents(grid, e, factor):
    """Set exponents to 0, and factors accordingly, if there are any."""
    has_any = 0
    for entry in range(e.shape[0]):
        has_any |= e[entry]
        e[entry] = 0
    if has_any:
        copy_factors(grid.times, factor)


@inlined
def _is_count(width, extremes, grid):
    """Whether a state is one entry, and an event writes one."""
    return width == 1 and extremes == 0 and grid.dst.shape[1] == 1


@inlined
def _close(k, frame, m, e, x, out):
    """The whole trends of a window, into row k of `out`."""
    for s in frame.whole:
        for w in range(frame.width):
            entry = s * frame.width + w
            out.mantissa[k, w], out.exponent[k, w] = add(
                out.mantissa[k, w], out.exponent[k, w], m[entry], e[entry]
            )
        for w in range(frame.extremes):
            out.extreme[k, w] = min(out.extreme[k, w], x[s * frame.extremes + w])


@inlined
def copy_factors(times, factor):
    """`factor[:] = times`; as one assignment numba takes seconds to compile its message about shapes."""
    given, taken = times.reshape(-1), factor.reshape(-1)
    for i in range(given.shape[0]):
        taken[i] = given[i]


@inlined
def no_mass(frame):
    """Scratch for the mass that a moment gathers before it settles."""
    entries = frame.states * frame.extremes
    return (
        np.zeros(frame.states * frame.width),
        np.zeros(frame.states * frame.width, np.int32),
        np.full(entries, np.inf),
        np.full(entries, np.inf),
    )


# The fast paths fold from row i to the first row they cannot handle, and return that row. Where mass fades,
# the moment before row i must have one event. They read every table by one flat index: computing the address
# of [a, r, k] would take longer than the arithmetic.


@kernel
def _count_long(i, high, grid, tables, factor, m, e):
    """`_count_rows` as a function of its own."""
    return _count_rows(i, high, grid, tables, factor, m, e)


@inlined
def _count_tables(events, rows, grid, moves, factor):
    """The tables of `_count_rows`, flat."""
    return (
        (events.symbol, events.moment, moves),
        (grid.src.reshape(-1), factor.reshape(-1), grid.dst.reshape(-1), np.uint32(grid.src.shape[2])),
        (rows.drain.reshape(-1), np.uint32(rows.drain.shape[1])),
        (rows.fade.reshape(-1), np.uint32(rows.fade.shape[1])),
    )


@inlined
def _count_rows(i, high, grid, tables, factor, m, e):
    """Rows of counts:

    new[dst] = Σ times · old[src]        drained and faded states are 0 before dst is written
    """
    symbol, moment, moves = tables[0]
    src, factors, dst, terms = tables[1]
    drain, drains = tables[2]
    fade, fades = tables[3]
    faded = np.uint32(symbol[max(0, i - 1)])  # where a window begins, there is nothing to fade
    while i < high:
        a = np.uint32(symbol[i])
        if moves[a] or (i + 1 < high and moment[i + 1] == moment[i]):
            break
        total = 0.0
        t = a * terms
        for _ in range(terms):
            total += m[src[t]] * factors[t]
            t += np.uint32(1)
        if np.isnan(total):
            break
        if drains == 1:  # the usual number, without a loop
            m[drain[a]] = 0.0
        else:
            for k in range(drains):
                m[drain[a * drains + k]] = 0.0
        if fades == 1:
            m[fade[faded]] = 0.0
        else:
            for k in range(fades):
                m[fade[faded * fades + k]] = 0.0
        m[dst[a]] = total
        faded = a
        i += 1
        if abs(total) >= RADIX:
            _bring_back(a, grid, m, e, factor)
            if drains + fades:
                break
    return i


@inlined
def _number_tables(events, rows, grid, moves, factor, frame):
    """The tables of `_add_rows`, flat."""
    return (
        (events.symbol, events.moment, moves),
        (grid.src.reshape(-1), grid.col.reshape(-1), factor.reshape(-1), np.uint32(grid.src.shape[2])),
        (events.values.reshape(-1), np.uint64(events.values.shape[1])),
        (grid.dst.reshape(-1), np.uint32(grid.dst.shape[1]), np.uint32(grid.plain)),
        (rows.spend.reshape(-1), np.uint32(rows.spend.shape[1])),
        (rows.fade.reshape(-1), np.uint32(rows.fade.shape[1])),
        (rows.xdst.reshape(-1), np.uint32(rows.xdst.shape[1])),
        _extreme_tables(events, rows),
        (frame.width, frame.extremes),
    )


@inlined
def _add_rows(i, high, grid, tables, aged, factor, m, e, x, fresh):
    """Rows of numbers and extremes:

    new[dst] = Σ times · old[src] · value[col]        (col 0 is 1)

    Where durations are added up, values go on with the ages of open states.
    """
    symbol, moment, moves = tables[0]
    src, col, factors, terms = tables[1]
    values, columns = tables[2]
    dst, count, plain = tables[3]
    spend, spends = tables[4]
    fade, fades = tables[5]
    xdst, lows = tables[6]
    compared = tables[7]
    width, extremes = tables[8]
    sums, best = fresh[0], fresh[3]
    value, since, passed, touch, touches = aged
    ages = since.shape[0] if passed else 0
    faded = np.uint32(symbol[max(0, i - 1)])
    while i < high:
        a = np.uint32(symbol[i])
        if moves[a] or (i + 1 < high and moment[i + 1] == moment[i]):
            break
        fits = True
        t = a * count * terms
        for r in range(plain):
            total = 0.0
            for _ in range(terms):
                total += m[src[t]] * factors[t]
                t += np.uint32(1)
            fits &= abs(total) < RADIX
            sums[r] = total
        own = np.uint64(i) * columns
        now = since[0]
        if ages:
            now += values[own + np.uint64(passed)]
            for c in range(columns):
                value[c] = values[own + np.uint64(c)]
            for k in range(1, ages):
                value[columns + np.uint64(k - 1)] = now - since[k]
            for r in range(plain, count):
                total = 0.0
                for _ in range(terms):
                    total += m[src[t]] * factors[t] * value[col[t]]
                    t += np.uint32(1)
                fits &= abs(total) < RADIX
                sums[r] = total
        else:
            for r in range(plain, count):
                total = 0.0
                for _ in range(terms):
                    total += m[src[t]] * factors[t] * values[own + np.uint64(col[t])]
                    t += np.uint32(1)
                fits &= abs(total) < RADIX
                sums[r] = total
        if not fits and np.isnan(sums[:count]).any():
            break
        if ages:
            since[0] = now
            for k in range(touches):
                since[touch[a * touches + k]] = now  # padded with 0, the clock itself
        if lows:
            _gather_extremes(a, i, compared, m, x, best)
        for k in range(spends):
            _empty(spend[a * spends + k], m, x, width, extremes)
        for k in range(fades):
            _empty(fade[faded * fades + k], m, x, width, extremes)
        for r in range(count):
            m[dst[a * count + r]] = sums[r]
        for r in range(lows):
            d = xdst[a * lows + r]
            x[d] = best[r] if best[r] < x[d] else x[d]
        faded = a
        i += 1
        if not fits:
            _bring_back(a, grid, m, e, factor)
            if spends + fades:
                break
    return i


@kernel
def _bring_back(a, grid, m, e, factor):
    """Bring what an event of symbol a has written back into the range of mantissas."""
    for r in range(grid.dst.shape[1]):
        d = grid.dst[a, r]
        m[d], e[d] = normalise(m[d], e[d])
    bridge(grid, e, factor)


@inlined
def _empty(state, m, x, width, extremes):
    """Empty a state that has no exponent."""
    for w in range(width):
        m[state * width + w] = 0.0
    for k in range(extremes):
        x[state * extremes + k] = np.inf


@inlined
def _gather_extremes(a, i, tables, m, x, best):
    """Per extreme row: min over the sources, and over the event's own value if it continues any trend.

    In rows that add, min over the sources plus the event's own value.
    """
    xsrc, xgate, xcol, xadds, values, columns, lows, terms = tables
    own = np.uint64(i) * columns
    t = a * lows * terms
    for r in range(lows):
        least = np.inf
        if xadds[a * lows + np.uint32(r)]:
            for _ in range(terms):
                past = x[xsrc[t]] + (values[own + np.uint64(xcol[t])] if xcol[t] else 0.0)
                least = past if past < least else least
                t += np.uint32(1)
            best[r] = least
            continue
        for _ in range(terms):
            gain, past = values[own + np.uint64(xcol[t])], x[xsrc[t]]
            gain = gain if m[xgate[t]] != 0.0 else np.inf  # read before it is judged: no branch
            gain = gain if gain < past else past
            least = gain if gain < least else least
            t += np.uint32(1)
        best[r] = least


@inlined
def _extreme_tables(events, rows):
    """The tables that extremes are gathered from, flat."""
    return (
        rows.xsrc.reshape(-1),
        rows.xgate.reshape(-1),
        rows.xcol.reshape(-1),
        rows.xadds.reshape(-1),
        events.extremes.reshape(-1),
        np.uint64(events.extremes.shape[1]),
        np.uint32(rows.xdst.shape[1]),
        np.uint32(rows.xsrc.shape[2]),
    )


@kernel
def fold_moment(events, before, start, stop, rows, guards, mantissa, exponent, extreme, fresh):
    """One moment in wide arithmetic: gather, spend, fade, move classes, settle. True if exponents changed."""
    m, e, x = mantissa.reshape(-1), exponent.reshape(-1), extreme.reshape(-1)
    fresh_m, fresh_e, fresh_x, best = fresh
    tables = _extreme_tables(events, rows)
    symbol = events.symbol
    for i in range(start, stop):
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            fresh_m[rows.dst[r]], fresh_e[rows.dst[r]] = 0.0, 0
    moved = False
    for i in range(start, stop):
        moved |= guards.moves[symbol[i]]
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            for o in range(rows.op_start[r], rows.op_start[r + 1]):
                s = rows.op[o]
                fresh_m[d], fresh_e[d] = add(fresh_m[d], fresh_e[d], m[s], e[s])
            for o in range(rows.vop_start[r], rows.vop_start[r + 1]):
                s = rows.vop[o]
                part_m, part_e = times(m[s], e[s], events.values[i, rows.vcol[o]])
                fresh_m[d], fresh_e[d] = add(fresh_m[d], fresh_e[d], part_m, part_e)
        _gather_extremes(np.uint32(symbol[i]), i, tables, m, x, best)
        for r in range(rows.xdst.shape[1]):
            fresh_x[rows.xdst[symbol[i], r]] = min(fresh_x[rows.xdst[symbol[i], r]], best[r])
    rescaled = moved and exponent.any()
    for i in range(start, stop):
        for k in range(rows.spend.shape[1]):
            rescaled |= _clear(rows.spend[symbol[i], k], mantissa, exponent, extreme)
    for i in range(before, start):
        for k in range(rows.fade.shape[1]):
            rescaled |= _clear(rows.fade[symbol[i], k], mantissa, exponent, extreme)
    if moved:
        move_classes(guards, symbol, start, stop, mantissa, exponent, extreme)
        rescaled |= exponent.any()  # masses that come together may leave the range only now
    for i in range(start, stop):
        for r in range(rows.row_start[symbol[i]], rows.row_start[symbol[i] + 1]):
            d = rows.dst[r]
            old = e[d]
            m[d], e[d] = add(m[d], e[d], fresh_m[d], fresh_e[d])
            rescaled |= e[d] != old
            fresh_m[d], fresh_e[d] = 0.0, 0  # tied events may share a row
        for r in range(rows.xdst.shape[1]):
            d = rows.xdst[symbol[i], r]
            x[d] = min(x[d], fresh_x[d])
            fresh_x[d] = np.inf
    return rescaled


@inlined
def _clear(state, mantissa, exponent, extreme):
    """Empty one state; whether that changed an exponent."""
    rescaled = False
    for w in range(mantissa.shape[1]):
        rescaled |= exponent[state, w] != 0
        mantissa[state, w], exponent[state, w] = 0.0, 0
    for x in range(extreme.shape[1]):
        extreme[state, x] = np.inf
    return rescaled


@kernel
def bridge(grid, exponent, factor):
    """Recompute the factor of every term: how often it counts, and the exponents of its two entries."""
    for a in range(grid.src.shape[0]):
        for r in range(grid.src.shape[1]):
            to = exponent[grid.dst[a, r]]
            for k in range(grid.src.shape[2]):
                factor[a, r, k] = grid.times[a, r, k] * lift(to, exponent[grid.src[a, r, k]])
