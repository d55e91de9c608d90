"""HAMLET where a predicate compares an event of E with the next: pairs of events are judged one by one.

Every event of E in an open window is kept, its mass as an expression over snapshots. An event that may follow
the same events in all queries gets the sum of their expressions; any other becomes a snapshot z with a value
per lane (Definition 3.11). Sums are over all e' that e, or z, may follow:

    count(e) = Σ c(e)[s] · value(s)                            c(e)[s] = [s is x] + Σ c(e')[s]
    sum(e)   = Σ c(e)[s] · sum(s) + σ(e)[s] · value(s)         σ(e)[s] = Σ σ(e')[s] + a(e) · c(e)[s]
    value(z) = base + Σ C[s] · value(s)                        C[s]    = Σ c(e')[s], by a query's predicates

`base` is a lane's mass of all other types that E may follow, and x its snapshot. All members of the group
share E, and nothing else.

`t` is the table, `n` the work array, `at` the layout of both (see papers.hamlet.arrays).
Source: HAMLET (SIGMOD 2021), Algorithm 1, Definition 3.11, Table 5.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel, lent, reassociated
from trendfold.kernel.pairs import holds
from trendfold.kernel.wide import normalise, wide_sum, wide_times
from trendfold.papers.hamlet.arrays import (
    BURST,
    read_concern,
    read_family,
    read_lane,
    read_loop,
    read_member,
    read_sharer,
    read_sharing,
)
from trendfold.papers.hamlet.event_log import (
    FAR,
    HEAD,
    JUDGED,
    NEXT,
    OLDEST,
    TAIL,
    UNEVEN,
    USED,
    empty_lanes,
    forget,
)
from trendfold.papers.hamlet.kernel import (
    BURST_EVENTS,
    BURSTS,
    BY_BENEFIT,
    COEFFICIENT,
    DECISIONS,
    GRAPHLETS,
    MERGES,
    SHARED,
    SHARED_EVENTS,
    SNAPSHOTS,
    SPLITS,
    VALUE,
    begin_snapshot,
    cost,
    find_burst,
    find_run,
    gather_sharers,
    note,
    ranged,
    turn,
)
from trendfold.papers.hamlet.steps import step_rows

MOST_SHARED = 256
"""The most snapshots in the expression of an event; with more it becomes a snapshot itself."""


@kernel
def fold_edges(events, t, at, choice, numbers, n, graphlet, log, pairs, out, journal):
    """Fold the rows of all members; the whole trends of window k go to row k of `out`.

    Arguments as in kernel.fold_group; log is the EventLog, pairs are the predicates between events of E.
    """
    events, numbers, graphlet, log, pairs, out = (
        lent(events),
        lent(numbers),
        lent(graphlet),
        lent(log),
        lent(pairs),
        lent(out),
    )
    symbol, moment = events.symbol, events.moment
    rows = symbol.shape[0]
    n[at.chosen : at.chosen + at.units] = 1
    edge = i = 0
    while i < rows:
        if i == edge:
            edge, oldest = turn(i, rows, t, at, numbers, n, out)
            empty_lanes(t, at, n, log)
            forget(i if oldest < 0 else oldest, log)
            if oldest < 0:
                i = edge
                continue
        stop, b, uneven = find_burst(symbol, moment, i, edge, 0, t, at, n)
        for u in range(uneven):
            n[at.many + n[at.seen + u]] = 0
        is_burst, alike = stop > i, False
        if not is_burst:
            stop, alike = find_run(symbol, moment, i, edge)
            b = _events_of_burst(symbol, i, stop, t, at)
        count = 0
        if b > 0:
            count = gather_sharers(0, t, at, n)
            shares = is_burst and _pays(b, stop - oldest, count, choice, t, at, n, log)
            begin_snapshot(i, count, t, at, numbers, n, graphlet, journal)
            _fold_burst(events, i, stop, shares, count, t, at, n, graphlet, log, pairs, journal)
        if not is_burst:
            step_rows(events, i, stop, -1, alike, False, t, at, numbers, n)
        if b > 0:
            _settle(count, t, at, numbers, n, log)
        i = stop
    turn(rows, rows, t, at, numbers, n, out)


@kernel
def _events_of_burst(symbol, i, stop, t, at):
    """How many rows of [i, stop) are events of E."""
    b = 0
    for r in range(i, stop):
        b += read_concern(t, at, 0, symbol[r]).means == BURST
    return b


# ---------------------------------------------------------------- deciding


@kernel
def _pays(b, window_events, lanes, choice, t, at, n, log):
    """Whether a burst is shared: Equation 7, with the share of events that needed a snapshot so far."""
    k, tally, before = log.k, n[at.tally :], n[at.before]
    shares = True
    if choice == BY_BENEFIT:
        created = 1 + (b * k[UNEVEN]) // max(1, k[JUDGED])
        carried = created + k[NEXT] - k[OLDEST]
        types = read_family(t, at, 0).types
        shares = cost(b, window_events, b, types, lanes, created, carried) < lanes * b * window_events
        tally[DECISIONS] += 1
    shares = shares and lanes > 1
    tally[BURSTS] += 1
    tally[BURST_EVENTS] += b
    tally[SHARED] += shares
    tally[SHARED_EVENTS] += b * shares
    tally[MERGES] += shares and before == 0
    tally[SPLITS] += (not shares) and before == 1
    n[at.before] = shares
    return shares


# ---------------------------------------------------------------- events


@kernel
def _fold_burst(events, i, stop, shares, count, t, at, n, graphlet, log, pairs, journal):
    """Keep the events of E in the rows [i, stop), and sum their expressions.

    Events of one moment do not follow each other: they are kept when all of them are judged.
    """
    k, total = log.k, log.sum_m.shape[0] - 1
    for s in range(k[OLDEST], k[NEXT]):
        _clear(log, total, s)
    for q in range(count):
        for w in range(read_member(t, at, read_sharing(n, at, q).member).width):
            k[FAR] |= graphlet.value_e[q, w, 0] > 0
    x = -1
    if shares:
        x = k[NEXT]
        k[NEXT] += 1
        _keep_base(i, x, count, t, at, n, graphlet, log)
        n[at.tally + GRAPHLETS] += 1
    moment = events.moment
    while i < stop:
        now, tail, fresh = moment[i], k[TAIL], k[NEXT]
        while i < stop and moment[i] == now:
            concern = read_concern(t, at, 0, events.symbol[i])
            if concern.means == BURST:
                alike = _judge(i, log, pairs) and concern.is_uneven == 0
                k[JUDGED] += 1
                k[UNEVEN] += not alike
                if shares and alike and k[NEXT] - k[OLDEST] <= MOST_SHARED:
                    _share_event(events, i, x, tail, fresh, t, at, log, journal)
                else:
                    _value_event(events, i, tail, fresh, count, t, at, n, graphlet, log, journal)
                    n[at.tally + SNAPSHOTS] += shares
                tail += 1
            i += 1
        k[TAIL] = tail


@kernel
def _keep_base(row, s, count, t, at, n, graphlet, log):
    """Snapshot x: per lane the mass of all other types that E may follow."""
    _clear(log, log.sum_m.shape[0] - 1, s)
    log.born[s] = row
    _empty(log, s)
    for q in range(count):
        sharing = read_sharing(n, at, q)
        lane, member = sharing.lane, read_member(t, at, sharing.member)
        for w in range(member.width):
            log.m[lane, w, s], log.e[lane, w, s] = graphlet.value_m[q, w, 0], graphlet.value_e[q, w, 0]
        for y in range(member.extremes):
            log.x[lane, y, s] = graphlet.value_x[q, y, 0]


@kernel
def _empty(log, s):
    """Set the values of snapshot s to zero in every lane."""
    for lane in range(log.m.shape[0]):
        for w in range(log.m.shape[1]):
            log.m[lane, w, s], log.e[lane, w, s] = 0.0, 0
        for y in range(log.x.shape[1]):
            log.x[lane, y, s] = np.inf


@kernel
def _judge(row, log, pairs):
    """Find the events that the one in `row` may follow, per class of edges; whether all classes agree."""
    head, tail = log.k[HEAD], log.k[TAIL]
    alike = True
    for c in range(log.may.shape[0]):
        low, high = log.edge_start[c], log.edge_start[c + 1]
        for j in range(head, tail):
            may = True
            for p in range(low, high):
                may = may and holds(
                    pairs, log.edge[p], log.row[j], row, log.stack_f, log.stack_i, log.stack_n
                )
            log.may[c, j] = may
            alike = alike and may == log.may[0, j]
    return alike


@kernel
def _clear(log, c, s):
    """Set the coefficients of snapshot s to zero."""
    for v in range(log.sum_m.shape[1]):
        log.sum_m[c, v, s], log.sum_e[c, v, s] = 0.0, 0
    for v in range(log.sum_x.shape[1]):
        log.sum_x[c, v, s] = np.inf


@kernel
def _add_up(c, fresh, log):
    """The expressions of all events that may be followed, for a class of edges; snapshots [OLDEST, fresh)."""
    k, m, e, x = log.k, log.sum_m[c], log.sum_e[c], log.sum_x[c]
    first = k[OLDEST]
    for s in range(first, fresh):
        _clear(log, c, s)
    for j in range(k[HEAD], k[TAIL]):
        if not log.may[c, j]:
            continue
        low, at = log.low[j], log.at[j]
        if at < 0:
            if low >= first:
                m[0, low], e[0, low] = wide_sum(m[0, low], e[0, low], 1.0, np.int32(0))
            continue
        skipped = max(0, first - low)  # their snapshots are zero in all open windows
        for v in range(m.shape[0]):
            if k[FAR]:
                for p in range(skipped, log.size[j]):
                    s = low + p
                    m[v, s], e[v, s] = wide_sum(m[v, s], e[v, s], log.c[v, at + p], log.ce[v, at + p])
            else:  # mantissas are brought into their range at the end
                for p in range(skipped, log.size[j]):
                    m[v, low + p] += log.c[v, at + p]
        for v in range(x.shape[0]):
            for p in range(skipped, log.size[j]):
                x[v, low + p] = min(x[v, low + p], log.mu[v, at + p])
    for v in range(m.shape[0]):
        for s in range(first, fresh):
            m[v, s], e[v, s] = normalise(m[v, s], e[v, s])
            k[FAR] |= e[v, s] > 0


@kernel
def _share_event(events, row, x, j, fresh, t, at, log, journal):
    """Keep an event that may follow the same events in all queries: the sum of their expressions, and x."""
    _add_up(0, fresh, log)
    k, m, e, mu = log.k, log.sum_m[0], log.sum_e[0], log.sum_x[0]
    total = log.sum_m.shape[0] - 1
    m[0, x], e[0, x] = wide_sum(m[0, x], e[0, x], 1.0, np.int32(0))
    family = read_family(t, at, 0)
    column, xcolumn = at.column + family.column_low, at.xcolumn + family.xcolumn_low
    first, used = k[OLDEST], k[USED]
    log.row[j], log.low[j], log.at[j], log.size[j] = row, first, used, fresh - first
    k[USED] += fresh - first
    for s in range(first, fresh):
        p = used + s - first
        for v in range(m.shape[0]):
            log.c[v, p], log.ce[v, p] = 0.0, 0
        for v in range(mu.shape[0]):
            log.mu[v, p] = np.inf
        if m[0, s] == 0.0:
            continue
        for v in range(family.column_high - family.column_low):
            a = events.values[row, t[column + v]]
            part_m, part_e = wide_times(m[0, s], e[0, s], a)
            m[1 + v, s], e[1 + v, s] = wide_sum(m[1 + v, s], e[1 + v, s], part_m, part_e)
        for v in range(m.shape[0]):
            log.c[v, p], log.ce[v, p] = m[v, s], e[v, s]
            log.sum_m[total, v, s], log.sum_e[total, v, s] = wide_sum(
                log.sum_m[total, v, s], log.sum_e[total, v, s], m[v, s], e[v, s]
            )
            k[FAR] |= e[v, s] > 0 or log.sum_e[total, v, s] > 0
        for v in range(family.xcolumn_high - family.xcolumn_low):
            log.mu[v, p] = min(mu[v, s], events.extremes[row, t[xcolumn + v]])
            log.sum_x[total, v, s] = min(log.sum_x[total, v, s], log.mu[v, p])
        if journal.shape[0] > 0:
            note(journal, COEFFICIENT, row, s, -1, m[0, s])


@kernel
def _value_event(events, row, j, fresh, count, t, at, n, graphlet, log, journal):
    """Keep an event as a snapshot of its own: its mass per lane, zero where a query cannot take it."""
    k = log.k
    for c in range(log.may.shape[0]):
        _add_up(c, fresh, log)
    z = k[NEXT]
    k[NEXT] += 1
    total = log.sum_m.shape[0] - 1
    _clear(log, total, z)
    log.sum_m[total, 0, z] = 1.0
    log.row[j], log.low[j], log.at[j], log.size[j] = row, z, -1, 1
    log.born[z] = row
    _empty(log, z)
    takes, family = at.takes + events.symbol[row] * at.units, read_family(t, at, 0)
    column, xcolumn = at.column + family.column_low, at.xcolumn + family.xcolumn_low
    for q in range(count):
        lane, member, loop, _ = read_sharing(n, at, q)
        if not t[takes + read_sharer(t, at, 0, member).unit]:
            continue
        own, edges = read_member(t, at, member), log.edges_of[member]
        for w in range(own.width):
            fed = t[at.fed + loop * at.width + w]
            base_m, base_e = graphlet.value_m[q, w, 0], graphlet.value_e[q, w, 0]
            sum_m, sum_e = _evaluate(edges, lane, w, fed, fresh, base_m, base_e, log)
            if fed >= 0:
                part_m, part_e = wide_times(
                    log.m[lane, 0, z], log.e[lane, 0, z], events.values[row, t[column + fed]]
                )
                sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
            log.m[lane, w, z], log.e[lane, w, z] = sum_m, sum_e
            k[FAR] |= sum_e > 0
        for y in range(own.extremes):
            fed = t[at.xfed + loop * at.extremes + y]
            best = min(graphlet.value_x[q, y, 0], _least(edges, lane, y, fed, fresh, log))
            if fed >= 0 and log.m[lane, 0, z] != 0.0:
                best = min(best, events.extremes[row, t[xcolumn + fed]])
            log.x[lane, y, z] = best
        if journal.shape[0] > 0:
            note(journal, VALUE, row, z, member, log.m[lane, 0, z])


@kernel
def _evaluate(c, lane, w, fed, fresh, sum_m, sum_e, log):
    """(sum_m, sum_e) plus number w of a lane, by the coefficients of class c."""
    first, m, e = log.k[OLDEST], log.sum_m[c], log.sum_e[c]
    if not log.k[FAR]:
        sum_m += _dot(m[0], log.m[lane, w], first, fresh)
        if fed >= 0:
            sum_m += _dot(m[1 + fed], log.m[lane, 0], first, fresh)
        return normalise(sum_m, sum_e)
    for s in range(first, fresh):
        part_m, part_e = _product(m[0, s], e[0, s], log.m[lane, w, s], log.e[lane, w, s])
        sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
        if fed >= 0:
            part_m, part_e = _product(m[1 + fed, s], e[1 + fed, s], log.m[lane, 0, s], log.e[lane, 0, s])
            sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
    return sum_m, sum_e


@reassociated
def _dot(a, b, low, high):
    total = 0.0
    for s in range(low, high):
        total += a[s] * b[s]
    return total


@kernel
def _product(m1, e1, m2, e2):
    """(m1, e1) · (m2, e2)."""
    m, e = wide_times(m1, e1, m2)
    return ranged(m, np.int32(e + e2))


@kernel
def _least(c, lane, y, fed, fresh, log):
    """Extreme y of a lane, from snapshots that hold any mass and have been continued."""
    best = np.inf
    for s in range(log.k[OLDEST], fresh):
        if log.m[lane, 0, s] != 0.0 and log.sum_m[c, 0, s] != 0.0:
            best = min(best, log.x[lane, y, s])
            if fed >= 0:
                best = min(best, log.sum_x[c, fed, s])
    return best


@kernel
def _settle(count, t, at, numbers, n, log):
    """Add the masses of all events of a burst, or a moment, to where those after E find them."""
    m, e, x = numbers.m, numbers.e, numbers.x
    total, fresh = log.sum_m.shape[0] - 1, log.k[NEXT]
    for q in range(count):
        lane, member, j, _ = read_sharing(n, at, q)
        loop, own = read_loop(t, at, j), read_member(t, at, member)
        width, extremes = own.width, own.extremes
        base, xbase, _, _ = read_lane(t, at, lane)
        low, high = at.state + loop.target_low, at.state + loop.target_high
        for w in range(width):
            fed = t[at.fed + j * at.width + w]
            sum_m, sum_e = _evaluate(total, lane, w, fed, fresh, 0.0, np.int32(0), log)
            for o in range(low, high):
                here = base + t[o] * width + w
                m[here], e[here] = wide_sum(m[here], e[here], sum_m, sum_e)
                n[at.wide + lane] |= e[here] > 0
        for y in range(extremes):
            best = _least(total, lane, y, t[at.xfed + j * at.extremes + y], fresh, log)
            for o in range(low, high):
                here = xbase + t[o] * extremes + y
                x[here] = min(x[here], best)
