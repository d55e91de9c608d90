"""GLORIA's executor: one pass over rows carries out any sharing plan (see papers.gloria.network).

An event at a node has a value per lane, or an expression over the snapshots s of a ring, or both:

    count = Σ c[s] · count(s)                            c of an event is that of the node's row
    sum   = Σ c[s] · sum(s) + σ[s] · count(s)            σ = σ of the row + a · c
    min   = min over s with c[s] · count(s) > 0 of min(s), μ[s]       μ = min(μ of the row, a)

Values go to inboxes and become snapshots; expressions are added to the rows of the nodes after. All events
of a moment read what was there before it: first each event adds to the sums of its nodes and bundles (_take),
then these are added to the nodes after (_settle). A single event of a moment does both at once.

Snapshots from before a window are 0 in its lanes, so windows share expressions. Events join one snapshot
until it is read. Where a ring is full, or coefficients grow past 2^400, every row becomes one snapshot
(fold_up), so that no coefficient needs an exponent. Values are wide numbers, but as long as no number of a
block has an exponent, the block is computed in plain doubles, eight lanes at a time.

Source: GLORIA (SIGMOD 2022), Section 3.2.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel, lent
from trendfold.kernel.pairs import holds
from trendfold.kernel.simd import gather_rows, gather_rows_by_factor
from trendfold.kernel.wide import RADIX, normalise, wide_sum, wide_times
from trendfold.papers.gloria import board as rec
from trendfold.papers.gloria.blocks import (
    MISSING,
    NONE,
    cell,
    empty_block,
    fill,
    pour,
    xcell,
)  # fmt: skip
from trendfold.papers.gloria.rings import (
    add_row,
    begin,
    clear_row,
    fold_up,
    grow,
    lane_least,
    lane_sum,
    new_slot,
)
from trendfold.papers.gloria.turns import turn


@kernel
def fold_plan(events, many, pairs, stack, board, out):
    """Fold the rows of all members; the whole trends of window k go to row k of `out`.

    events  Events; pairs  Pairs  conditions; board  Board  tables, state and work
    many    float64[n]  how many equal events a row stands for; more than one where none can follow another
    stack   scratch for conditions: doubles, integers, null flags (see kernel.pairs)
    """
    events, pairs, s, out, stack = lent(events), lent(pairs), lent(board), lent(out), lent(stack)
    symbol, moment, t, n = events.symbol, events.moment, s.i, s.i
    rows = moment.shape[0]
    begin(s)
    i = edge = NONE
    while i < rows:
        if i == edge:
            edge, is_open = turn(i, rows, s, out)
            if not is_open:
                i = edge
                continue
        if n[t[rec.TALLY] + rec.IS_FULL]:
            fold_up(i, s)
        stop = i + 1
        while stop < rows and moment[stop] == moment[i]:
            stop += 1
        dirty = NONE
        for r in range(i, stop):
            met = rec.lists_met_at(t, symbol[r])
            for q in range(t[met], t[met + 1]):
                _match(moment[r], pairs, stack, r, t[t[rec.LISTS_OF] + q], s)
            dirty = _take(events, many[r], r, dirty, stop - i == 1, s)
        for d in range(dirty):
            _settle(n[t[rec.DIRTY] + d], stop - 1, moment[i], stop - i > 1, s)
        i = stop
    turn(rows, rows, s, out)


@kernel
def _take(events, k_times, r, dirty, is_single, s):
    """Add the events of row r to the sums of its nodes and bundles; returns how many nodes are touched."""
    t, n, c = s.i, s.i, s.f
    a = events.symbol[r]
    is_single = is_single and t[t[rec.STEPS] + a + 1] - t[t[rec.STEPS] + a] == 1
    for op in range(t[t[rec.STEPS] + a], t[t[rec.STEPS] + a + 1]):
        o = rec.op_at(t, op)
        k = t[o + rec.OP_NODE]
        node, touched = rec.node_at(t, k), rec.touched_at(t, k)
        if n[touched] == 0:
            n[t[rec.DIRTY] + dirty] = k
            dirty += 1
            n[touched] = rec.TOUCHED
        for q in range(t[node + rec.NODE_READS], t[node + rec.NODE_READS + 1]):
            read = rec.read_at(t, q)
            ring = rec.ring_state_at(t, t[read + rec.READ_RING])
            if n[ring + rec.OPEN] >= 0:  # the open snapshot is read now: no later event may join it
                here = rec.row_begin(t, t[read + rec.READ_ROW])
                if c[here + n[ring + rec.OPEN]] != 0.0:
                    n[ring + rec.OPEN] = -1
            if t[read + rec.READ_LISTS] < t[read + rec.READ_LISTS + 1]:
                _gather_listed(read, s)
        if t[o + rec.OP_WEIGHT] >= 0:
            value, gain = t[node + rec.NODE_VALUE], t[node + rec.NODE_GAIN]
            into = gain if n[touched] == rec.VALUED else value
            _find_values(events, k_times, r, node, into, t[o + rec.OP_WEIGHT], s)
            n[t[rec.TALLY] + rec.EVALUATIONS] += t[o + rec.OP_LANES]
            if into == gain:
                lo = t[rec.block_at(t, gain) + rec.BLOCK_LO]
                size = t[rec.block_at(t, gain) + rec.BLOCK_SIZE]
                pour(value, NONE, gain, lo, lo + size, t[o + rec.OP_WEIGHT], s)
            n[touched] = rec.VALUED
            for q in range(t[o + rec.OP_KEEPS], t[o + rec.OP_KEEPS + 1]):
                _keep(r, events.moment[r], rec.keep_at(t, q), into, s)
            for q in range(t[o + rec.OP_UNEVEN], t[o + rec.OP_UNEVEN + 1]):
                _add_uneven(r, events.moment[r], t[t[rec.USES] + q], into, s)
        for q in range(t[o + rec.OP_EVEN], t[o + rec.OP_EVEN + 1]):
            b = t[t[rec.USES] + q]
            bundle = rec.bundle_at(t, b)
            if is_single and t[node + rec.NODE_BUNDLES + 1] - t[node + rec.NODE_BUNDLES] == 1:
                # The row that is read, if it is among the targets, is their last.
                for i in range(t[bundle + rec.BUNDLE_TARGETS], t[bundle + rec.BUNDLE_TARGETS + 1]):
                    _hand_on(events, k_times, r, bundle, t[t[rec.TARGETS] + i], s)
            elif t[bundle + rec.BUNDLE_TARGETS] < t[bundle + rec.BUNDLE_TARGETS + 1]:
                n[rec.adding_at(t, b)] = 1
                _hand_on(events, k_times, r, bundle, t[bundle + rec.BUNDLE_SUM], s)
            for i in range(t[bundle + rec.BUNDLE_LISTS_], t[bundle + rec.BUNDLE_LISTS_ + 1]):
                number = t[t[rec.BUNDLE_LISTS] + i]
                at = _enter(r, events.moment[r], number, MISSING, s)
                clear_row(t[rec.list_at(t, number) + rec.LIST_FIRST] + at, s)
                _hand_on(events, k_times, r, bundle, t[rec.list_at(t, number) + rec.LIST_FIRST] + at, s)
    return dirty


# ---------------------------------------------------------------- values


@kernel
def _find_values(events, k_times, r, node, into, weight, s):
    """Write the values of a row's events at a node to block `into`, lane by lane; 0 where the weight is 0."""
    t, n, m, w = s.i, s.i, s.f, s.f
    block = rec.block_at(t, into)
    lo, size, width = t[block + rec.BLOCK_LO], t[block + rec.BLOCK_SIZE], t[block + rec.BLOCK_WIDTH]
    base = t[block + rec.BLOCK_BASE]
    inbox = t[node + rec.NODE_INBOX]
    far = 0 if events.is_small else 1
    if inbox >= 0:
        far |= n[rec.far_at(t, inbox)]
    for q in range(t[node + rec.NODE_READS], t[node + rec.NODE_READS + 1]):
        far |= n[rec.far_at(t, t[rec.ring_at(t, t[rec.read_at(t, q) + rec.READ_RING]) + rec.RING_BLOCK])]
    for q in range(t[node + rec.NODE_LISTS], t[node + rec.NODE_LISTS + 1]):
        far |= n[rec.far_at(t, t[rec.list_at(t, t[t[rec.LISTS_READ] + q]) + rec.LIST_FIRST])]
    if far:
        _find_wide_values(events, k_times, r, node, into, weight, s)
    else:
        top = 0.0
        for number in range(width):
            d = base + number * size
            if inbox >= 0:
                here = cell(inbox, NONE, number, lo, t)
                gather_rows_by_factor(m, d, 0.0, m, here, size, 1.0, w, weight)
            else:
                fill(m, d, size, 0.0)
        if inbox >= 0:
            top = s.f[rec.bound_at(s.i, inbox)]
        for q in range(t[node + rec.NODE_LISTS], t[node + rec.NODE_LISTS + 1]):
            each = rec.list_at(t, t[t[rec.LISTS_READ] + q])
            listed = t[each + rec.LIST_FIRST]
            for i in range(n[t[rec.FOUND] + t[t[rec.LISTS_READ] + q]]):
                at = n[t[rec.MATCHED] + t[each + rec.LIST_ENTRIES] + i]
                top += s.f[rec.bound_at(s.i, listed)]
                for number in range(width):
                    here = cell(listed, at, number, lo, t)
                    gather_rows_by_factor(m, base + number * size, 1.0, m, here, size, 1.0, w, weight)
        for q in range(t[node + rec.NODE_READS], t[node + rec.NODE_READS + 1]):
            top += _insert(rec.read_at(t, q), base, lo, size, width, s)
        if t[node + rec.NODE_READS] < t[node + rec.NODE_READS + 1]:
            for number in range(width):
                d = base + number * size
                gather_rows_by_factor(m, d, 0.0, m, d, size, 1.0, w, weight)
        if k_times != 1.0:
            for number in range(1, width):
                d = base + number * size
                gather_rows_by_factor(m, d, 0.0, m, d, size, k_times, w, weight)
            top *= k_times
        for q in range(t[node + rec.NODE_FEEDS], t[node + rec.NODE_FEEDS + 1]):
            feed = rec.feed_at(t, q)
            value = events.values[r, t[feed + 1]]
            gather_rows_by_factor(m, base + t[feed] * size, 1.0, m, base, size, value, w, t[feed + 2])
            top *= 1.0 + abs(value)
        if k_times != 1.0:
            gather_rows_by_factor(m, base, 0.0, m, base, size, k_times, w, weight)
        if n[rec.far_at(t, into)] or not top < RADIX:
            _look_at(into, base, width * size, s)
        else:
            s.f[rec.bound_at(s.i, into)] = top
    if t[block + rec.BLOCK_EXTREMES] > 0:
        _find_extremes(events, r, node, into, weight, s)


@kernel
def _look_at(block, base, cells, s):
    """Normalise numbers that were computed as doubles; note whether any has an exponent."""
    n, far, top = s.i, rec.far_at(s.i, block), 0.0
    n[far] = 0
    for here in range(base, base + cells):
        s.f[here], s.e[here] = normalise(s.f[here], np.int32(0))
        n[far] |= s.e[here] != 0
        top = max(top, abs(s.f[here]))
    s.f[rec.bound_at(s.i, block)] = top


@kernel
def _insert(read, base, lo, size, width, s):
    """Add the values of an expression: snapshots are replaced by their values in each lane.

    Returns a bound on how much any number has grown.
    """
    t, n, m, c, w = s.i, s.i, s.f, s.f, s.f
    ring = rec.ring_at(t, t[read + rec.READ_RING])
    row = rec.row_begin(t, t[read + rec.READ_TOTAL])
    top = n[rec.ring_state_at(t, t[read + rec.READ_RING]) + rec.TOP]
    block, cap = t[ring + rec.RING_BLOCK], t[ring + rec.RING_CAP]
    of = rec.block_at(t, block)
    many = min(width, t[of + rec.BLOCK_WIDTH])
    for slot in range(top):
        times = c[row + slot]
        if times != 0.0:
            for number in range(many):
                gather_rows(
                    m, base + number * size, 1.0, m, cell(block, slot, number, lo, t), size, times, m, 0
                )
    total = s.f[rec.row_bound_at(s.i, t[read + rec.READ_TOTAL])]
    for q in range(t[ring + rec.RING_PHI_SPAN], t[ring + rec.RING_PHI_SPAN + 1]):
        phi = rec.phi_at(t, q)
        if t[phi] >= width:
            continue
        shift = t[phi + 2] + lo - t[of + rec.BLOCK_LO]
        for slot in range(top):
            times = c[row + (1 + t[phi + 1]) * cap + slot]
            if times != 0.0:
                total += abs(times)
                d = base + t[phi] * size
                gather_rows_by_factor(m, d, 1.0, m, cell(block, slot, NONE, lo, t), size, times, w, shift)
    return total * s.f[rec.bound_at(s.i, block)]


@kernel
def _find_wide_values(events, k_times, r, node, into, weight, s):
    """`_find_values` in wide arithmetic, lane by lane."""
    t, n, m, e, w = s.i, s.i, s.f, s.e, s.f
    block = rec.block_at(t, into)
    lo, size, width = t[block + rec.BLOCK_LO], t[block + rec.BLOCK_SIZE], t[block + rec.BLOCK_WIDTH]
    base, inbox = t[block + rec.BLOCK_BASE], t[node + rec.NODE_INBOX]
    far, top = False, 0.0
    for lane in range(lo, lo + size):
        for number in range(width):
            d = base + number * size + lane - lo
            m[d], e[d] = 0.0, 0
            if w[weight + lane - lo] == 0.0:
                continue
            if inbox >= 0:
                here = cell(inbox, NONE, number, lane, t)
                m[d], e[d] = m[here], e[here]
            for q in range(t[node + rec.NODE_LISTS], t[node + rec.NODE_LISTS + 1]):
                each = rec.list_at(t, t[t[rec.LISTS_READ] + q])
                for i in range(n[t[rec.FOUND] + t[t[rec.LISTS_READ] + q]]):
                    at = n[t[rec.MATCHED] + t[each + rec.LIST_ENTRIES] + i]
                    here = cell(t[each + rec.LIST_FIRST], at, number, lane, t)
                    m[d], e[d] = wide_sum(m[d], e[d], m[here], e[here])
            for q in range(t[node + rec.NODE_READS], t[node + rec.NODE_READS + 1]):
                read = rec.read_at(t, q)
                part_m, part_e = lane_sum(t[read + rec.READ_RING], t[read + rec.READ_TOTAL], number, lane, s)
                m[d], e[d] = wide_sum(m[d], e[d], part_m, part_e)
            if number > 0:
                m[d], e[d] = wide_times(m[d], e[d], k_times)
    for q in range(t[node + rec.NODE_FEEDS], t[node + rec.NODE_FEEDS + 1]):
        feed = rec.feed_at(t, q)
        value = events.values[r, t[feed + 1]]
        for lane in range(size):
            if w[t[feed + 2] + lane] != 0.0 and m[base + lane] != 0.0:
                d = base + t[feed] * size + lane
                part_m, part_e = wide_times(m[base + lane], e[base + lane], value)
                m[d], e[d] = wide_sum(m[d], e[d], part_m, part_e)
    for d in range(base, base + size):
        m[d], e[d] = wide_times(m[d], e[d], k_times)
    for here in range(base, base + width * size):
        far |= e[here] != 0
        top = max(top, abs(m[here]))
    n[rec.far_at(t, into)], s.f[rec.bound_at(s.i, into)] = far, top


@kernel
def _find_extremes(events, r, node, into, weight, s):
    """Write the extremes of one event at a node."""
    t, n, m, x, w = s.i, s.i, s.f, s.f, s.f
    block = rec.block_at(t, into)
    lo, size, base = t[block + rec.BLOCK_LO], t[block + rec.BLOCK_SIZE], t[block + rec.BLOCK_BASE]
    inbox = t[node + rec.NODE_INBOX]
    for y in range(t[block + rec.BLOCK_EXTREMES]):
        d = t[block + rec.BLOCK_XBASE] + y * size
        for lane in range(lo, lo + size):
            best = np.inf
            if w[weight + lane - lo] != 0.0:
                if inbox >= 0:
                    best = x[xcell(inbox, NONE, y, lane, t)]
                for q in range(t[node + rec.NODE_LISTS], t[node + rec.NODE_LISTS + 1]):
                    each = rec.list_at(t, t[t[rec.LISTS_READ] + q])
                    for i in range(n[t[rec.FOUND] + t[t[rec.LISTS_READ] + q]]):
                        at = n[t[rec.MATCHED] + t[each + rec.LIST_ENTRIES] + i]
                        best = min(best, x[xcell(t[each + rec.LIST_FIRST], at, y, lane, t)])
                for q in range(t[node + rec.NODE_READS], t[node + rec.NODE_READS + 1]):
                    read = rec.read_at(t, q)
                    best = min(
                        best, lane_least(t[read + rec.READ_RING], t[read + rec.READ_TOTAL], y, lane, s)
                    )
            x[d + lane - lo] = best
    for q in range(t[node + rec.NODE_XFEEDS], t[node + rec.NODE_XFEEDS + 1]):
        feed = rec.xfeed_at(t, q)
        d = t[block + rec.BLOCK_XBASE] + t[feed] * size
        for lane in range(size):
            if w[t[feed + 2] + lane] != 0.0 and m[base + lane] != 0.0:
                x[d + lane] = min(x[d + lane], events.extremes[r, t[feed + 1]])


# ---------------------------------------------------------------- expressions


@kernel
def _hand_on(events, k_times, r, bundle, to, s):
    """Add the event's coefficients, from its node's row, to row `to`, which may be that row: c goes last."""
    t, n, c = s.i, s.i, s.f
    ring = rec.ring_at(t, t[bundle + rec.BUNDLE_RING])
    cap, phis, psis = t[ring + rec.RING_CAP], t[ring + rec.RING_PHIS], t[ring + rec.RING_PSIS]
    top = n[rec.ring_state_at(t, t[bundle + rec.BUNDLE_RING]) + rec.TOP]
    read = rec.row_begin(t, t[bundle + rec.BUNDLE_READ])
    d = rec.row_begin(t, to)
    column = t[rec.COLUMNS] + t[bundle + rec.BUNDLE_COLUMNS]
    for phi in range(phis):
        gather_rows(c, d + (1 + phi) * cap, 1.0, c, read + (1 + phi) * cap, top, k_times, c, 0)
        if t[column + phi] >= 0:
            gather_rows(c, d + (1 + phi) * cap, 1.0, c, read, top, events.values[r, t[column + phi]], c, 0)
    for psi in range(phis, phis + psis):
        at, own = (1 + psi) * cap, t[column + psi]
        for slot in range(top):
            if c[read + slot] != 0.0:
                low = c[read + at + slot]
                if own >= 0:
                    low = min(low, events.extremes[r, own])
                c[d + at + slot] = min(c[d + at + slot], low)
    gather_rows(c, d, 1.0, c, read, top, k_times, c, 0)
    grow(to, t[bundle + rec.BUNDLE_READ], k_times, s)
    n[t[rec.TALLY] + rec.PROPAGATIONS] += top


@kernel
def _gather_listed(read, s):
    """Sum a node's row and all entries that the event may follow into the row of the total."""
    t, n, c = s.i, s.i, s.f
    total = t[read + rec.READ_TOTAL]
    clear_row(total, s)
    add_row(total, t[read + rec.READ_ROW], s)
    here = rec.row_begin(t, total)
    for q in range(t[read + rec.READ_LISTS], t[read + rec.READ_LISTS + 1]):
        number = t[t[rec.LISTS_READ] + q]
        each = rec.list_at(t, number)
        for k in range(n[t[rec.FOUND] + number]):
            at = n[t[rec.MATCHED] + t[each + rec.LIST_ENTRIES] + k]
            slot = n[rec.entry_at(t, t[each + rec.LIST_ENTRIES] + at) + rec.ENTRY_SLOT]
            if slot >= 0:
                c[here + slot] += 1.0
                s.f[rec.row_bound_at(s.i, total)] += 1.0
            else:
                add_row(total, t[each + rec.LIST_FIRST] + at, s)


@kernel
def _match(now, pairs, stack, r, number, s):
    """Find the entries of a list that the event in row r may follow."""
    t, n, found = s.i, s.i, 0
    each, work = rec.list_at(t, number), rec.list_work_at(t, number)
    for k in range(n[work + 1]):
        at = (n[work] + k) % t[each + rec.LIST_CAP]
        entry = rec.entry_at(t, t[each + rec.LIST_ENTRIES] + at)
        fits = n[entry + rec.ENTRY_MOMENT] < now
        for q in range(t[each + rec.LIST_CONDITIONS], t[each + rec.LIST_CONDITIONS + 1]):
            if fits:
                wanted = t[t[rec.CONDITIONS] + q]
                fits = holds(pairs, wanted, n[entry + rec.ENTRY_ROW], r, stack.f, stack.i, stack.n)
        if fits:
            n[t[rec.MATCHED] + t[each + rec.LIST_ENTRIES] + found] = at
            found += 1
    n[t[rec.FOUND] + number] = found


@kernel
def _enter(r, moment, number, slot, s):
    """Append an entry to a list; returns its place."""
    t, n = s.i, s.i
    each, work = rec.list_at(t, number), rec.list_work_at(t, number)
    at = (n[work] + n[work + 1]) % t[each + rec.LIST_CAP]
    n[work + 1] += 1
    entry = rec.entry_at(t, t[each + rec.LIST_ENTRIES] + at)
    n[entry + rec.ENTRY_ROW], n[entry + rec.ENTRY_MOMENT], n[entry + rec.ENTRY_SLOT] = r, moment, slot
    return at


@kernel
def _keep(r, moment, keep, source, s):
    """Keep the values of one event in a list, or as a snapshot of its own."""
    t = s.i
    number, lo, hi, weight = t[keep], t[keep + 1], t[keep + 2], t[keep + 3]
    ring = t[rec.list_at(t, number) + rec.LIST_RING]
    if ring < 0:
        block = t[rec.list_at(t, number) + rec.LIST_FIRST]
        at = _enter(r, moment, number, MISSING, s)
        of = rec.block_at(t, block)
        size = t[of + rec.BLOCK_SIZE]
        cells = size * t[of + rec.BLOCK_WIDTH]
        first = t[of + rec.BLOCK_BASE] + at * cells
        fill(s.f, first, cells, 0.0)
        for here in range(first, first + cells):
            s.e[here] = 0
        cells = size * t[of + rec.BLOCK_EXTREMES]
        fill(s.f, t[of + rec.BLOCK_XBASE] + at * cells, cells, np.inf)
        pour(block, at, source, lo, hi, weight, s)
    else:
        slot = new_slot(ring, r, s)
        pour(t[rec.ring_at(t, ring) + rec.RING_BLOCK], slot, source, lo, hi, weight, s)
        _enter(r, moment, number, slot, s)


@kernel
def _add_uneven(r, moment, b, source, s):
    """Add an event that only some queries of a bundle can take: a snapshot, 0 for those that cannot."""
    t, n = s.i, s.i
    bundle = rec.bundle_at(t, b)
    lo, hi, weight = (
        t[bundle + rec.BUNDLE_HULL],
        t[bundle + rec.BUNDLE_HULL + 1],
        t[bundle + rec.BUNDLE_HULL + 2],
    )
    if t[bundle + rec.BUNDLE_TARGETS] < t[bundle + rec.BUNDLE_TARGETS + 1]:
        block = t[bundle + rec.BUNDLE_BLOCK]
        if n[rec.adding_at(t, b) + 1] == 0:
            empty_block(block, s)
            n[rec.adding_at(t, b) + 1] = 1
        pour(block, NONE, source, lo, hi, weight, s)
    for i in range(t[bundle + rec.BUNDLE_LISTS_], t[bundle + rec.BUNDLE_LISTS_ + 1]):
        slot = new_slot(t[bundle + rec.BUNDLE_RING], r, s)
        to = t[rec.ring_at(t, t[bundle + rec.BUNDLE_RING]) + rec.RING_BLOCK]
        pour(to, slot, source, lo, hi, weight, s)
        _enter(r, moment, t[t[rec.BUNDLE_LISTS] + i], slot, s)


# ---------------------------------------------------------------- the end of a moment


@kernel
def _settle(k, row, moment, is_tied, s):
    """Add the sums of a moment at a node to the nodes after it; `row` is the moment's last."""
    t, n = s.i, s.i
    node = rec.node_at(t, k)
    if n[rec.touched_at(t, k)] == rec.VALUED:
        value = t[node + rec.NODE_VALUE]
        for q in range(t[node + rec.NODE_PUSHES], t[node + rec.NODE_PUSHES + 1]):
            push = rec.push_at(t, q)
            pour(t[push], NONE, value, t[push + 1], t[push + 2], t[push + 3], s)
        for q in range(t[node + rec.NODE_POURS], t[node + rec.NODE_POURS + 1]):
            taken = rec.pour_at(t, q)
            slot = _snapshot(t[taken], row, moment, is_tied, s)
            to = t[rec.ring_at(t, t[taken]) + rec.RING_BLOCK]
            pour(to, slot, value, t[taken + 1], t[taken + 2], t[taken + 3], s)
    n[rec.touched_at(t, k)] = 0
    for b in range(t[node + rec.NODE_BUNDLES], t[node + rec.NODE_BUNDLES + 1]):
        bundle, adding = rec.bundle_at(t, b), rec.adding_at(t, b)
        low, high = t[bundle + rec.BUNDLE_TARGETS], t[bundle + rec.BUNDLE_TARGETS + 1]
        if n[adding]:
            for i in range(low, high):
                add_row(t[t[rec.TARGETS] + i], t[bundle + rec.BUNDLE_SUM], s)
            clear_row(t[bundle + rec.BUNDLE_SUM], s)
        if n[adding + 1]:
            slot = new_slot(t[bundle + rec.BUNDLE_RING], row, s)
            to = t[rec.ring_at(t, t[bundle + rec.BUNDLE_RING]) + rec.RING_BLOCK]
            lo, hi = t[bundle + rec.BUNDLE_HULL], t[bundle + rec.BUNDLE_HULL + 1]
            weight = t[bundle + rec.BUNDLE_HULL + 2]
            pour(to, slot, t[bundle + rec.BUNDLE_BLOCK], lo, hi, weight, s)
            for i in range(low, high):
                target = t[t[rec.TARGETS] + i]
                s.f[rec.row_begin(t, target) + slot] = 1.0
                s.f[rec.row_bound_at(s.i, target)] += 1.0
        n[adding] = n[adding + 1] = 0


@kernel
def _snapshot(ring, row, moment, is_tied, s):
    """The snapshot that an event joins: the open one if nobody has read it, or a new one."""
    t, n = s.i, s.i
    work = rec.ring_state_at(t, ring)
    if n[work + rec.OPEN] >= 0 and (not is_tied or n[work + rec.MOMENT] == moment):
        n[t[rec.SLOTS] + t[rec.ring_at(t, ring) + rec.RING_SLOTS] + n[work + rec.OPEN]] = row
        return n[work + rec.OPEN]
    slot = new_slot(ring, row, s)
    n[work + rec.OPEN], n[work + rec.MOMENT] = slot, moment
    for i in range(t[rec.ring_at(t, ring) + rec.RING_FED], t[rec.ring_at(t, ring) + rec.RING_FED + 1]):
        target = t[t[rec.FED] + i]
        s.f[rec.row_begin(t, target) + slot] = 1.0
        s.f[rec.row_bound_at(s.i, target)] += 1.0
    return slot
