"""HAMLET: a burst of E events is folded once, in a graphlet that many queries share.

What depends on the query when a burst begins is a *snapshot* x: per lane (a query in one of its windows) the
mass of all that E may follow. Inside the burst only E's own mass grows, the same way for every lane, so an
event's mass is a coefficient times x. An event that only some sharers can take gets a snapshot of its own,
with a value per lane. Masses are sums over all snapshots s of the graphlet, coefficients sums over all e'
before e in it:

    count(e) = Σ c(e)[s] · value(s)                                c(e)[s] = [s is x] + Σ c(e')[s]
    sum(e)   = Σ c(e)[s] · sum(s) + σ(e)[s] · value(s)             σ(e)[s] = Σ σ(e')[s] + a(e) · c(e)[s]
    min(e)   = min over s with value(s) > 0 of min(s), μ(e)[s]     μ(e)[s] = min(a(e), μ(e')[s])

No predicate compares E with the next E, so the sums over e' are running sums: an event costs O(snapshots).
A graphlet ends after MOST_EVENTS events at the latest: coefficients at most double with each event, and so
stay doubles; masses of lanes are wide numbers.

`t` is the table, `n` the work array, `at` the layout of both (see papers.hamlet.arrays).
Source: HAMLET (SIGMOD 2021), Algorithm 1, Sections 3.3, 4.2 and 4.3.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.wide import RADIX, lowered, normalise, wide_sum, wide_times
from trendfold.papers.hamlet.arrays import (
    BURST,
    ENDS,
    NOTHING,
    SHARING,
    mark_far,
    read_concern,
    read_family,
    read_lane,
    read_loop,
    read_member,
    read_sharer,
    read_sharing,
)
from trendfold.papers.hamlet.steps import lane_of, step_rows

MOST_EVENTS = 200
"""Events of a graphlet; a moment may end past it, but has no more itself."""
MOST_SNAPSHOTS = 2 * MOST_EVENTS + 1

ALWAYS, BY_BENEFIT = 0, 1
"""Who shares: all members that can, or those that the benefit model chooses."""

BURSTS, SHARED, GRAPHLETS, SNAPSHOTS, SPLITS, MERGES, DECISIONS, BURST_EVENTS, SHARED_EVENTS = range(9)
"""Counters of the tally. SNAPSHOTS are those of events; every graphlet has one more, at its beginning."""
TALLIES = 9


@kernel
def fold_group(events, t, at, choice, numbers, n, graphlet, out, journal):
    """Fold the rows of all members, pane by pane; the whole trends of window k go to row k of `out`.

    In a burst, the members that share it are folded in graphlets, all others event by event.

    t, at     int64[], Layout   tables, see papers.hamlet.arrays; n  int64[]  work
    choice    ALWAYS or BY_BENEFIT
    numbers   LaneNumbers       state       graphlet  Graphlet  scratch
    journal   float64[J,5]      what graphlets held, for debugging and tests; J is 0 otherwise (see note)
    """
    symbol, moment = events.symbol, events.moment
    rows = symbol.shape[0]
    edge = oldest = i = 0
    while i < rows:
        if i == edge:
            edge, oldest = turn(i, rows, t, at, numbers, n, out)
            if oldest < 0:
                i = edge
                continue
        f = t[at.of + symbol[i]] if events.is_small else -1
        stop, count = i, 0
        if f >= 0:
            stop, b, uneven = find_burst(symbol, moment, i, edge, f, t, at, n)
            if stop > i and _decide(f, b, stop - oldest, uneven, t, at, choice, n):
                count = gather_sharers(f, t, at, n)
            for k in range(uneven):
                n[at.many + n[at.seen + k]] = 0
        alike = stop == i
        if alike:
            f = -1
            stop, alike = find_run(symbol, moment, i, edge)
        step_rows(events, i, stop, f, alike, count > 0, t, at, numbers, n)
        while count > 0 and i < stop:
            i = _fold_graphlet(events, i, stop, f, count, t, at, numbers, n, graphlet, journal)
        i = stop
    turn(rows, rows, t, at, numbers, n, out)


@kernel
def find_run(symbol, moment, i, edge):
    """The moments from row i on that hold nothing but its symbol; or its moment alone, and False."""
    j = i
    while j < edge:
        stop = j + 1
        same = symbol[j] == symbol[i]
        while stop < edge and moment[stop] == moment[j]:
            same &= symbol[stop] == symbol[i]
            stop += 1
        if not same:
            return (j, True) if j > i else (stop, False)
        j = stop
    return j, True


@kernel
def gather_sharers(f, t, at, n):
    """List the lanes of all members whose units were chosen, with each loop; returns how many they are."""
    count = 0
    for k in range(at.members):
        sharer = read_sharer(t, at, f, k)
        if sharer.unit >= 0 and n[at.chosen + sharer.unit]:
            for item in range(n[at.first + k], n[at.upto + k]):
                for loop in range(sharer.loop_low, sharer.loop_high):
                    here = at.sharing + SHARING * count
                    n[here], n[here + 1], n[here + 2] = lane_of(k, item, t, at), k, loop
                    count += 1
    return count


# ---------------------------------------------------------------- windows


@kernel
def turn(i, rows, t, at, numbers, n, out):
    """Report the windows that end at row i and begin those that begin there.

    Returns the next row at which one does, and where the oldest open one began; -1 if none is open.
    """
    edge, oldest = rows, -1
    for k in range(at.members):
        last = read_member(t, at, k).window_high
        first, upto = n[at.first + k], n[at.upto + k]
        while first < upto and t[at.window + 2 * first + 1] <= i:
            _report(k, first, t, at, numbers, out)
            first += 1
        while upto < last and t[at.window + 2 * upto] <= i:
            _begin(k, upto, t, at, numbers, n)
            upto += 1
        n[at.first + k], n[at.upto + k] = first, upto
        if first < upto:
            edge = min(edge, t[at.window + 2 * first + 1])
            began = t[at.window + 2 * first]
            oldest = began if oldest < 0 else min(oldest, began)
        if upto < last:
            edge = min(edge, t[at.window + 2 * upto])
    _count_windows(t, at, n)
    return edge, oldest


@kernel
def _begin(k, item, t, at, numbers, n):
    """Empty the lane of a window, with a count of 1 at ⊥."""
    lane, member = lane_of(k, item, t, at), read_member(t, at, k)
    base, xbase, end, xend = read_lane(t, at, lane)
    for s in range(base, end):
        numbers.m[s], numbers.e[s] = 0.0, 0
    for s in range(xbase, xend):
        numbers.x[s] = np.inf
    n[at.wide + lane] = 0
    numbers.m[base + member.start * member.width] = 1.0


@kernel
def _report(k, item, t, at, numbers, out):
    """Write the whole trends of a window to its row."""
    lane, member = lane_of(k, item, t, at), read_member(t, at, k)
    base, xbase, _, _ = read_lane(t, at, lane)
    width, extremes = member.width, member.extremes
    for o in range(member.whole_low, member.whole_high):
        s = t[at.whole + o]
        for w in range(width):
            here = base + s * width + w
            out.mantissa[item, w], out.exponent[item, w] = wide_sum(
                out.mantissa[item, w], out.exponent[item, w], numbers.m[here], numbers.e[here]
            )
        for y in range(extremes):
            out.extreme[item, y] = min(out.extreme[item, y], numbers.x[xbase + s * extremes + y])


@kernel
def _count_windows(t, at, n):
    """Count the open windows of each unit of each family."""
    for u in range(at.families * at.units):
        n[at.open + u] = 0
    for f in range(at.families):
        for k in range(at.members):
            unit = read_sharer(t, at, f, k).unit
            if unit >= 0:
                n[at.open + f * at.units + unit] += n[at.upto + k] - n[at.first + k]


# ---------------------------------------------------------------- bursts


@kernel
def find_burst(symbol, moment, i, edge, f, t, at, n):
    """The end of the burst of family f that begins at row i: no moment of it holds an event that ends it.

    Returns that row, its events, and the number of uneven symbols among them. A moment of more events than a
    graphlet may have is no part of a burst.
    """
    b, uneven, j = 0, 0, i
    while j < edge:
        stop = j + 1
        fits = read_concern(t, at, f, symbol[j]).means != ENDS
        while stop < edge and moment[stop] == moment[j]:
            fits &= read_concern(t, at, f, symbol[stop]).means != ENDS
            stop += 1
        if not fits or stop - j > MOST_EVENTS:
            break
        for r in range(j, stop):
            a = symbol[r]
            concern = read_concern(t, at, f, a)
            b += concern.means == BURST
            if concern.is_uneven:
                if n[at.many + a] == 0:
                    n[at.seen + uneven] = a
                    uneven += 1
                n[at.many + a] += 1
        j = stop
    return j, b, uneven


# ---------------------------------------------------------------- deciding

NONE, ALL, SOME = 0, 1, 2
"""How many of the chosen units can take an event."""


@kernel
def _decide(f, b, window_events, uneven, t, at, choice, n):
    """Choose the units that share a burst of b events; False if none do."""
    family = read_family(t, at, f)
    units, types = family.units, family.types
    own, windows = f * at.symbols, n[at.open + f * at.units : at.open + (f + 1) * at.units]
    alone, chosen = n[at.alone : at.alone + units], n[at.chosen : at.chosen + units]
    tally = n[at.tally : at.tally + TALLIES]
    tally[BURSTS] += 1
    tally[BURST_EVENTS] += b
    for u in range(units):
        alone[u], chosen[u] = 0, windows[u] > 0
    if choice == BY_BENEFIT:
        tally[DECISIONS] += 1
        created = 1
        for k in range(uneven):
            a = n[at.seen + k]
            created += n[at.many + a]
            sole = read_concern(t, at, f, a).sole
            if sole >= 0:
                alone[sole] += n[at.many + a]
        choose(b, window_events, b, types, created, windows, alone, chosen)
    sharing, created = 0, 1
    for u in range(units):
        sharing += windows[u] * chosen[u]
    for k in range(uneven):
        a = n[at.seen + k]
        meaning = _meaning(t[at.takes + (own + a) * at.units : at.takes + (own + a + 1) * at.units], chosen)
        n[at.meaning + a] = meaning
        created += n[at.many + a] * (meaning == SOME)
    pays = cost(b, window_events, b, types, sharing, created, created) < sharing * b * window_events
    shares = int(sharing > 0 and (choice == ALWAYS or pays))
    tally[SHARED] += shares
    tally[SHARED_EVENTS] += b * shares
    tally[MERGES] += shares * (n[at.before + f] == 0)
    tally[SPLITS] += (1 - shares) * (n[at.before + f] == 1)
    n[at.before + f] = shares
    return shares


@kernel
def cost(b, n, g, t, k, s_c, s_p):
    """Equation 7: the cost of a burst that k queries share; fewer than two share nothing.

        alone = k b n        shared = b n s_p + s_c k g t

    b  events of the burst      n  events of the window        g  events of the graphlet
    t  types of a query         s_c, s_p  snapshots created and propagated
    """
    if k < 2:
        return k * b * n
    return b * n * s_p + s_c * k * g * t


@kernel
def choose(b, n, g, t, created, windows, alone, chosen):
    """The query set by both pruning principles, in O(m), for m units: queries with the same predicates.

    Snapshot-driven (Theorem 4.3): a unit that adds no snapshots shares. Benefit-driven (Theorem 4.5): any
    other shares if it pays in the set of all. Neither theorem holds under Equation 7 in general
    (docs/hamlet.md), so this may miss the best plan.

    created  snapshots if all share           windows  int64[m]  windows of each unit
    alone    int64[m]  how many fewer snapshots there are without a unit
    chosen   int64[m]  out: 1 for those that share
    """
    k = 0
    for u in range(chosen.shape[0]):
        k += windows[u]
    together = cost(b, n, g, t, k, created, created)
    for u in range(chosen.shape[0]):
        fewer = created - alone[u]
        without = cost(b, n, g, t, k - windows[u], fewer, fewer) + windows[u] * b * n
        chosen[u] = windows[u] > 0 and (alone[u] == 0 or together <= without)


@kernel
def _meaning(takes, chosen):
    """Whether none, all or some of the chosen units can take an uneven symbol."""
    many = can = 0
    for u in range(chosen.shape[0]):
        many += chosen[u]
        can += chosen[u] * takes[u]
    if can == 0:
        return NONE
    return ALL if can == many else SOME


# ---------------------------------------------------------------- graphlets


@kernel
def _fold_graphlet(events, i, stop, f, count, t, at, numbers, n, graphlet, journal):
    """One graphlet from row i on, shared by `count` lanes; returns the row after it (Algorithm 1)."""
    symbol, moment, given = events.symbol, events.moment, graphlet.given
    family = read_family(t, at, f)
    columns, xcolumns = family.column_high - family.column_low, family.xcolumn_high - family.xcolumn_low
    column, xcolumn = at.column + family.column_low, at.xcolumn + family.xcolumn_low
    begin_snapshot(i, count, t, at, numbers, n, graphlet, journal)
    _start_coefficients(graphlet, 0, 0.0)
    snapshots, taken = 1, 0
    while i < stop and taken < MOST_EVENTS:
        before, alike = snapshots, 0
        given[:columns] = 0.0
        given[columns : columns + xcolumns] = np.inf
        now = moment[i]
        while i < stop and moment[i] == now:
            a = symbol[i]
            means = ALL
            concern = read_concern(t, at, f, a)
            if concern.means == NOTHING:
                means = NONE
            elif concern.is_uneven:
                means = n[at.meaning + a]
            if means == ALL:
                alike += 1
                for v in range(columns):
                    given[v] += events.values[i, t[column + v]]
                for v in range(xcolumns):
                    given[columns + v] = min(given[columns + v], events.extremes[i, t[xcolumn + v]])
                if journal.shape[0] > 0:
                    for s in range(before):
                        note(journal, COEFFICIENT, i, s, -1, graphlet.c[0, s] + (s == 0))
            elif means == SOME:
                _event_snapshot(events, i, f, count, before, snapshots, t, at, n, graphlet, journal)
                snapshots += 1
            i += 1
        if alike > 0:
            _pass_moment(graphlet, before, alike, columns, xcolumns)
        for s in range(before, snapshots):
            _start_coefficients(graphlet, s, 1.0)
        taken += alike + snapshots - before
    n[at.tally + GRAPHLETS] += 1
    n[at.tally + SNAPSHOTS] += snapshots - 1
    _end_graphlet(count, snapshots, t, at, numbers, n, graphlet)
    return i


@kernel
def _start_coefficients(graphlet, s, count):
    """Set the coefficients of a new snapshot: 0 for x, 1 for the snapshot of an event."""
    graphlet.c[1:, s] = 0.0
    graphlet.c[0, s] = count
    graphlet.mu[:, s] = np.inf


@kernel
def _pass_moment(graphlet, snapshots, alike, columns, xcolumns):
    """Update the running coefficients after a moment of `alike` events that all lanes can take.

    c(e) = [s is x] + c for each of them, so c grows by `alike` times that, and σ by the sum of all σ(e).
    """
    c, mu, given = graphlet.c, graphlet.mu, graphlet.given
    for v in range(columns):
        for s in range(snapshots):
            c[1 + v, s] += alike * c[1 + v, s] + given[v] * c[0, s]
        c[1 + v, 0] += given[v]
    for s in range(snapshots):
        c[0, s] += alike * c[0, s]
    c[0, 0] += alike
    for v in range(xcolumns):
        for s in range(snapshots):
            mu[v, s] = min(mu[v, s], given[columns + v])


@kernel
def begin_snapshot(row, count, t, at, numbers, n, graphlet, journal):
    """The snapshot at graphlet level: per lane the mass of all that E may follow (Equation 5)."""
    m, e, x = numbers.m, numbers.e, numbers.x
    for q in range(count):
        lane, k, j, _ = read_sharing(n, at, q)
        member, loop = read_member(t, at, k), read_loop(t, at, j)
        width, extremes = member.width, member.extremes
        base, xbase, _, _ = read_lane(t, at, lane)
        low, high = at.state + loop.source_low, at.state + loop.source_high
        far = n[at.wide + lane]
        for w in range(width):
            sum_m, sum_e = 0.0, np.int32(0)
            for o in range(low, high):
                here = base + t[o] * width + w
                if far:
                    sum_m, sum_e = wide_sum(sum_m, sum_e, m[here], e[here])
                else:
                    sum_m += m[here]
            if abs(sum_m) >= RADIX:
                sum_m, sum_e = normalise(sum_m, sum_e)
                far = 1
            graphlet.value_m[q, w, 0], graphlet.value_e[q, w, 0] = sum_m, sum_e
        for y in range(extremes):
            best = np.inf
            for o in range(low, high):
                best = min(best, x[xbase + t[o] * extremes + y])
            graphlet.value_x[q, y, 0] = best
        n[at.sharing + SHARING * q + 3] = far  # SharingRecord.is_far
        if journal.shape[0] > 0:
            note(journal, VALUE, row, 0, k, graphlet.value_m[q, 0, 0])


@kernel
def _event_snapshot(events, r, f, count, before, s, t, at, n, graphlet, journal):
    """The snapshot s of the event in row r: per lane its mass, or nothing where it cannot be taken.

    before  the snapshots from before the event's moment, all that it reads
    """
    takes, family = at.takes + (f * at.symbols + events.symbol[r]) * at.units, read_family(t, at, f)
    column, xcolumn = at.column + family.column_low, at.xcolumn + family.xcolumn_low
    value_m, value_e, c = graphlet.value_m, graphlet.value_e, graphlet.c
    for q in range(count):
        _, k, j, far = read_sharing(n, at, q)
        member = read_member(t, at, k)
        can = t[takes + read_sharer(t, at, f, k).unit]
        for w in range(member.width):
            fed = t[at.fed + j * at.width + w]
            sum_m, sum_e = 0.0, np.int32(0)
            if can:
                sum_m, sum_e = _value(value_m, value_e, c, q, w, fed, before, 1.0, far)
                if fed >= 0:
                    a = events.values[r, t[column + fed]]
                    part_m, part_e = wide_times(value_m[q, 0, s], value_e[q, 0, s], a)
                    sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
            value_m[q, w, s], value_e[q, w, s] = sum_m, sum_e
            mark_far(n, at, q, sum_e > 0)
        for y in range(member.extremes):
            fed = t[at.xfed + j * at.extremes + y]
            best = np.inf
            if can:
                best = _least(graphlet, q, y, fed, before, 1.0)
                if fed >= 0 and value_m[q, 0, s] != 0.0:
                    best = min(best, events.extremes[r, t[xcolumn + fed]])
            graphlet.value_x[q, y, s] = best
        if journal.shape[0] > 0:
            note(journal, VALUE, r, s, k, value_m[q, 0, s])


@kernel
def _end_graphlet(count, snapshots, t, at, numbers, n, graphlet):
    """Add the masses of all events of the graphlet to every lane: snapshots are replaced by their values."""
    m, e, x = numbers.m, numbers.e, numbers.x
    value_m, value_e, c = graphlet.value_m, graphlet.value_e, graphlet.c
    for q in range(count):
        lane, k, j, far = read_sharing(n, at, q)
        member, loop = read_member(t, at, k), read_loop(t, at, j)
        width, extremes = member.width, member.extremes
        base, xbase, _, _ = read_lane(t, at, lane)
        low, high = at.state + loop.target_low, at.state + loop.target_high
        for w in range(width):
            fed = t[at.fed + j * at.width + w]
            sum_m, sum_e = _value(value_m, value_e, c, q, w, fed, snapshots, 0.0, far)
            for o in range(low, high):
                here = base + t[o] * width + w
                m[here], e[here] = wide_sum(m[here], e[here], sum_m, sum_e)
                n[at.wide + lane] |= e[here] > 0
        for y in range(extremes):
            best = _least(graphlet, q, y, t[at.xfed + j * at.extremes + y], snapshots, 0.0)
            for o in range(low, high):
                here = xbase + t[o] * extremes + y
                x[here] = min(x[here], best)


@kernel
def _value(value_m, value_e, c, q, w, fed, snapshots, own, far):
    """Evaluate number w of lane q; `own` is 1 for the next event, 0 for the sum of all events until now."""
    if not far:
        total = value_m[q, w, 0] * own
        for s in range(snapshots):
            total += value_m[q, w, s] * c[0, s]
        if fed >= 0:
            for s in range(snapshots):
                total += value_m[q, 0, s] * c[1 + fed, s]
        return ranged(total, np.int32(0))
    # Coefficients are below 2^600: of values whose exponents are four apart, the smaller cannot be seen.
    top = np.int32(0)
    for s in range(snapshots):
        top = max(top, value_e[q, w, s])
        if fed >= 0:
            top = max(top, value_e[q, 0, s])
    total = 0.0
    for s in range(snapshots):
        total += value_m[q, w, s] * lowered(top - value_e[q, w, s]) * (c[0, s] + own * (s == 0))
        if fed >= 0:
            total += value_m[q, 0, s] * lowered(top - value_e[q, 0, s]) * c[1 + fed, s]
    return ranged(total, top)


@kernel
def ranged(m, e):
    """A wide number whose mantissa is in its range; see kernel.wide."""
    m, e = normalise(m, e)
    if m == 0.0:
        return m, np.int32(0)
    while e > 0 and abs(m) < 1.0:
        m *= RADIX
        e -= np.int32(1)
    return m, e


@kernel
def _least(graphlet, q, y, fed, snapshots, own):
    """Extreme y of lane q, from the snapshots that hold any mass and have been continued."""
    best = np.inf
    for s in range(snapshots):
        if graphlet.value_m[q, 0, s] != 0.0 and graphlet.c[0, s] + own > 0.0:
            best = min(best, graphlet.value_x[q, y, s])
            if fed >= 0:
                best = min(best, graphlet.mu[fed, s])
    return best


VALUE, COEFFICIENT = 0, 1
"""Kinds of journal lines: the value of a snapshot for a member, or its coefficient in an event."""


@kernel
def note(journal, kind, row, snapshot, member, number):
    """Append a line to the journal: kind, row, snapshot, member, number; journal[0, 0] counts the lines."""
    line = int(journal[0, 0]) + 1
    if line < journal.shape[0]:
        journal[line, 0], journal[line, 1], journal[line, 2] = kind, row, snapshot
        journal[line, 3], journal[line, 4] = member, number
        journal[0, 0] = line
