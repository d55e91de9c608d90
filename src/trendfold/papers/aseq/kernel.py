"""Prefix counters over events: dynamic prefix counting, START event marking, snapshots that connect pieces.

An event updates one entry of all active marks, in one loop over contiguous numbers (see papers.aseq.marks):

    count(p_m) += count(p_(m-1))                                            (Lemma 1)

Where windows move with every event, a mark is one START event (SEM); where they do not, few marks, or one,
serve all START events (dynamic prefix counting). Source: A-Seq (SIGMOD 2014), sections 3 and 4.

In loops arrays are locals: numba counts references when an array is taken out of a tuple, which takes longer
than an update.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel, reassociated
from trendfold.kernel.wide import RADIX, add, normalise, times
from trendfold.papers.aseq.marks import (
    COL,
    DEPTH,
    DST,
    KIND,
    LEAST,
    OWN,
    RESET,
    RESET_LEAST,
    SRC,
    TREE,
    VALUE,
)


@kernel
def most_marks(symbol, moment, segment, stops, program):
    """The most marks that are active at once, per tree: a walk over its START events alone."""
    trees = program.is_joined.shape[0]
    most, longest = np.zeros(trees, np.int64), np.int64(0)
    for s in range(segment.shape[0] - 1):
        longest = max(longest, segment[s + 1] - segment[s])
    begin = np.empty(longest, np.int64)
    for tree in range(trees):
        begins = np.zeros(program.start_start.shape[0] - 1, np.bool_)
        for a in range(begins.shape[0]):
            for k in range(program.start_start[a], program.start_start[a + 1]):
                begins[a] |= program.start[k] == tree
        for s in range(segment.shape[0] - 1):
            head, tail, born = 0, 0, np.int64(-1)
            for i in range(segment[s], segment[s + 1]):
                if not begins[symbol[i]] or stops.floor[i] > i:
                    continue
                while head < tail and begin[head] < stops.floor[i]:
                    head += 1
                last = begin[tail - 1] if tail > head else -1
                if _needs_mark(program.is_joined[tree], last, stops.edge[i], born, moment[i]):
                    begin[tail] = i
                    tail += 1
                    born = moment[i]
                most[tree] = max(most[tree], tail - head)
    return most


@inlined
def _needs_mark(is_joined, last, edge, born, now):
    """Whether a START event needs a mark of its own; `last` is where the last mark began, -1 for none.

    Without snapshots, START events expire together when no item begins between them. Snapshots are the same
    for the events of one moment only.
    """
    return last < 0 or (born != now if is_joined else edge > last)


@kernel
def fold_prefixes(events, segment, stops, program, state, out):
    """Fold all segments; the numbers of every item go to `out`, flat: mantissa, exponent, extreme.

    `state` is left as it is after the last segment.
    """
    symbol, moment, item = events.symbol, events.moment, 0
    floors, highs, joints = stops.floor, stops.high, stops.joint
    is_slow, before = program.is_slow, program.before
    op_start, op, mantissa, values = program.op_start, program.op, state.mantissa, events.values
    head, tail, is_wide = state.head, state.tail, state.is_wide
    start_start, start, edges = program.start_start, program.start, stops.edge
    for s in range(segment.shape[0] - 1):
        _forget(state)
        floor = np.int64(-1)
        i, high = segment[s], segment[s + 1]
        while i < high:
            a, j = symbol[i], i + 1
            while j < high and moment[j] == moment[i]:
                j += 1
            if floors[i] != floor:
                floor = floors[i]
                _expire(floor, state)
            if j > i + 1 or is_slow[a] or is_wide:
                _fold_moment(events, i, j, stops, program, state)
            else:
                # The common case is written out here: a call would pass a hundred arrays.
                for o in range(op_start[a], op_start[a + 1]):
                    factor = values[i, op[o, COL]] if op[o, KIND] == VALUE else 1.0
                    dst, src, tree = np.uint64(op[o, DST]), np.uint64(op[o, SRC]), op[o, TREE]
                    for k in range(np.uint64(head[tree]), np.uint64(tail[tree])):
                        mantissa[dst, k] += mantissa[src, k] * factor
                for k in range(start_start[a], start_start[a + 1] if floor <= i else start_start[a]):
                    _begin(start[k], events, i, edges[i], program, state)
            while item < highs.shape[0] and highs[item] <= j:
                if before[joints[item]] < 0:
                    _read_marks(item, stops, program, state, out)
                else:
                    _read_joined(item, stops, program, state, out)
                item += 1
            i = j


@kernel
def _forget(state):
    """Begin a segment without marks."""
    for tree in range(state.head.shape[0]):
        state.head[tree] = state.tail[tree] = state.base[tree] = 0
        state.born[tree] = state.taken[tree] = state.closed[tree] = -1


@kernel
def _expire(floor, state):
    """Drop marks whose START events are in no window that is still to be read."""
    for tree in range(state.head.shape[0]):
        k = state.head[tree]
        while k < state.tail[tree] and state.begin[tree, k] < floor:
            k += 1
        state.head[tree] = k


@kernel
def _fold_moment(events, i, j, stops, program, state):
    """Fold the rows [i, j) of one moment: snapshots, operations, then new marks. All read what was before."""
    symbol = events.symbol
    for r in range(i, j):
        for k in range(program.start_start[symbol[r]], program.start_start[symbol[r] + 1]):
            tree = program.start[k]
            if program.is_joined[tree] and state.taken[tree] != events.moment[i] and stops.floor[r] <= r:
                state.taken[tree] = events.moment[i]
                for link in range(program.join_start[tree], program.join_start[tree + 1]):
                    _take_snapshot(program.join[link], tree, program, state)
    if j == i + 1:
        for o in range(program.op_start[symbol[i]], program.op_start[symbol[i] + 1]):
            _operate(program.op, o, events, i, state)
    else:
        _operate_together(events, i, j, program, state)
    for r in range(i, j):
        for k in range(program.start_start[symbol[r]], program.start_start[symbol[r] + 1]):
            if stops.floor[r] <= r:
                _begin(program.start[k], events, r, stops.edge[r], program, state)
    for r in range(i, j):
        for k in range(program.bar_start[symbol[r]], program.bar_start[symbol[r] + 1]):
            state.closed[program.bar[k]] = r


@kernel
def _operate_together(events, i, j, program, state):
    """Operations of tied events, depth by depth from the deepest, so that none reads what another changed."""
    symbol, op = events.symbol, program.op
    for depth in range(program.deepest, -1, -1):
        for resets in (True, False):
            for r in range(i, j):
                for o in range(program.op_start[symbol[r]], program.op_start[symbol[r] + 1]):
                    is_reset = op[o, KIND] == RESET or op[o, KIND] == RESET_LEAST
                    if op[o, DEPTH] == depth and is_reset == resets:
                        _operate(op, o, events, r, state)


@kernel
def _operate(op, o, events, i, state):
    """One operation of row i, on all active marks."""
    kind, dst, src = op[o, KIND], op[o, DST], op[o, SRC]
    low, high = state.head[op[o, TREE]], state.tail[op[o, TREE]]
    if kind == RESET:
        for k in range(low, high):
            state.mantissa[dst, k] = 0.0
        for k in range(low, high if state.is_wide else low):
            state.exponent[dst, k] = 0
    elif kind == RESET_LEAST:
        for k in range(low, high):
            state.least[dst, k] = np.inf
    elif kind == LEAST:
        to, of = state.least[dst], state.least[src]
        for k in range(low, high):
            to[k] = min(to[k], of[k])
    elif kind == OWN:
        own, to, of = events.extremes[i, op[o, COL]], state.least[dst], state.mantissa[src]
        for k in range(low, high):
            to[k] = min(to[k], own if of[k] != 0.0 else np.inf)
    else:
        factor = events.values[i, op[o, COL]] if kind == VALUE else 1.0
        if state.is_wide:
            _add_wide(state.mantissa, state.exponent, dst, src, factor, low, high)
        else:
            to, of = state.mantissa[dst], state.mantissa[src]
            for k in range(low, high):
                to[k] += of[k] * factor


@kernel
def _add_wide(m, e, dst, src, factor, low, high):
    for k in range(low, high):
        part_m, part_e = _times(m[src, k], e[src, k], factor)
        m[dst, k], e[dst, k] = _plus(m[dst, k], e[dst, k], part_m, part_e)


@kernel
def _begin(tree, events, i, edge, program, state):
    """A START event: it joins the last mark, or gets a mark of its own."""
    if state.closed[tree] >= edge:
        return  # every window that holds it holds the NOT's event before it, too
    head, tail = state.head[tree], state.tail[tree]
    last = state.begin[tree, tail - 1] if tail > head else np.int64(-1)
    if _needs_mark(program.is_joined[tree], last, edge, state.born[tree], events.moment[i]):
        if tail == state.begin.shape[1]:
            _make_room(tree, program, state)
            tail = state.tail[tree]
        state.begin[tree, tail], state.barred[tree, tail] = i, state.closed[tree]
        state.born[tree] = events.moment[i]
        for entry in range(program.entry_start[tree], program.entry_start[tree + 1]):
            state.mantissa[entry, tail] = 0.0
            if state.is_wide:
                state.exponent[entry, tail] = 0
        for entry in range(program.low_start[tree], program.low_start[tree + 1]):
            state.least[entry, tail] = np.inf
        tail += 1
        state.tail[tree] = tail
    m, e = state.mantissa, state.exponent
    for r in range(program.root_start[tree], program.root_start[tree + 1]):
        entry, col = program.root[r, 0], program.root[r, 1]
        own = events.values[i, col] if col >= 0 else 1.0
        if state.is_wide:
            own_m, own_e = _times(1.0, np.int32(0), own)
            m[entry, tail - 1], e[entry, tail - 1] = _plus(
                m[entry, tail - 1], e[entry, tail - 1], own_m, own_e
            )
        else:
            m[entry, tail - 1] += own
    for r in range(program.low_root_start[tree], program.low_root_start[tree + 1]):
        entry = program.low_root[r, 0]
        own = events.extremes[i, program.low_root[r, 1]]
        state.least[entry, tail - 1] = min(state.least[entry, tail - 1], own)


@kernel
def _make_room(tree, program, state):
    """Move the active marks of a tree to the front; less than half of the columns are active."""
    head, tail = state.head[tree], state.tail[tree]
    size = tail - head
    for k in range(size):
        state.begin[tree, k] = state.begin[tree, head + k]
        state.barred[tree, k] = state.barred[tree, head + k]
    for entry in range(program.entry_start[tree], program.entry_start[tree + 1]):
        for k in range(size):
            state.mantissa[entry, k] = state.mantissa[entry, head + k]
        for k in range(size if state.is_wide else 0):
            state.exponent[entry, k] = state.exponent[entry, head + k]
    for entry in range(program.low_start[tree], program.low_start[tree + 1]):
        for k in range(size):
            state.least[entry, k] = state.least[entry, head + k]
    state.head[tree], state.tail[tree], state.base[tree] = 0, size, state.base[tree] + head


# ---------------------------------------------------------------- snapshots


@inlined
def _cell(tag, slot, slots, tags):
    """Where the row of a tag lies in the table of a link's snapshots, from the table's beginning on.

    Eight rows of a snapshot lie side by side, and then the same rows of the next: to write a snapshot, and to
    read one row of all of them, both go through memory in order. Numbers of tags and slots are powers of two.
    """
    row = tag & (tags - 1)
    return np.uint64(((row >> 3) * slots + slot) * 8 + (row & 7))


@kernel
def _take_snapshot(link, into, program, state):
    """Keep the counts from before an event that begins tree `into`, per tag: a mark of the line's first tree.

    Rows are sums from the last tag down to each. Of a line's first piece they are its counters; further on,
    each event that began the piece before gives its own snapshot times its count, and these add up
    (multi-connect).
    """
    origin, slot = program.origin[link], (state.base[into] + state.tail[into]) & (state.slots[link] - 1)
    state.ends[link, slot] = state.base[origin] + state.tail[origin]
    for o in range(program.out_start[link], program.out_start[link + 1]):
        if program.before[link] < 0:
            _sum_tags(o, link, slot, program, state)
        else:
            _multiply_tags(o, link, slot, program, state)
    for o in range(program.low_out_start[link], program.low_out_start[link + 1]):
        if program.before[link] < 0:
            _least_of_tags(o, link, slot, program, state)
        else:
            _least_of_products(o, link, slot, program, state)


@kernel
def _sum_tags(o, link, slot, program, state):
    """Number o of a first piece: its counters, summed from the last mark down to each."""
    origin, slots, tags = program.origin[link], state.slots[link], state.tags[link]
    entry, at = program.term[program.term_start[o], 1], np.uint64(state.snap_at[o])
    numbers, snap, base = state.mantissa[entry], state.snap, state.base[origin]
    total, exponent = 0.0, np.int32(0)
    if not state.is_wide:
        for k in range(state.tail[origin] - 1, state.head[origin] - 1, -1):
            total += numbers[k]
            snap[at + _cell(base + k, slot, slots, tags)] = total
        return
    for k in range(state.tail[origin] - 1, state.head[origin] - 1, -1):
        total, exponent = _plus(total, exponent, numbers[k], state.exponent[entry, k])
        to = at + _cell(base + k, slot, slots, tags)
        snap[to], state.snap_exponent[to] = total, exponent


@kernel
def _least_of_tags(o, link, slot, program, state):
    """Extreme o of a first piece: the least from the last mark down to each."""
    origin, slots, tags = program.origin[link], state.slots[link], state.tags[link]
    entry, least = program.low_out[o, 1], np.inf
    for k in range(state.tail[origin] - 1, state.head[origin] - 1, -1):
        least = min(least, state.least[entry, k])
        state.low_snap[np.uint64(state.low_at[o]) + _cell(state.base[origin] + k, slot, slots, tags)] = least


@kernel
def _multiply_tags(o, link, slot, program, state):
    """Number o of a further piece: over its marks, the mark's own snapshot times its count."""
    origin, before, tree = program.origin[link], program.before[link], program.tree[link]
    first, end = state.base[origin] + state.head[origin], state.base[origin] + state.tail[origin]
    slots, there_slots, tags = state.slots[link], state.slots[before], state.tags[link]
    m, e = state.snap, state.snap_exponent
    for tag in range(first, end):
        to = np.uint64(state.snap_at[o]) + _cell(tag, slot, slots, tags)
        m[to] = 0.0
        if state.is_wide:
            e[to] = 0
    for t in range(program.term_start[o], program.term_start[o + 1]):
        at, entry = np.uint64(state.snap_at[program.term[t, 0]]), program.term[t, 1]
        for k in range(state.head[tree], state.tail[tree]):
            count = state.mantissa[entry, k]
            there = (state.base[tree] + k) & (there_slots - 1)
            if count == 0.0:
                continue
            for tag in range(first, state.ends[before, there]):
                to = np.uint64(state.snap_at[o]) + _cell(tag, slot, slots, tags)
                of = at + _cell(tag, there, there_slots, tags)
                if state.is_wide:
                    part_m, part_e = _multiply(m[of], e[of], count, state.exponent[entry, k])
                    m[to], e[to] = _plus(m[to], e[to], part_m, part_e)
                else:
                    m[to] += m[of] * count


@kernel
def _least_of_products(o, link, slot, program, state):
    """Extreme o of a further piece: over its marks with trends, the least of both sides."""
    origin, before, tree = program.origin[link], program.before[link], program.tree[link]
    first, end = state.base[origin] + state.head[origin], state.base[origin] + state.tail[origin]
    slots, tags = state.slots[link], state.tags[link]
    for tag in range(first, end):
        state.low_snap[np.uint64(state.low_at[o]) + _cell(tag, slot, slots, tags)] = np.inf
    for k in range(state.head[tree], state.tail[tree]):
        there = (state.base[tree] + k) & (state.slots[before] - 1)
        for tag in range(first, state.ends[before, there]):
            to = np.uint64(state.low_at[o]) + _cell(tag, slot, slots, tags)
            state.low_snap[to] = min(state.low_snap[to], _least(o, link, k, tag, there, program, state))


@kernel
def _least(o, joint, k, tag, there, program, state):
    """Extreme o of a joint for mark k: of both sides, where both have trends."""
    before, left, entry = program.before[joint], program.low_out[o, 0], program.low_out[o, 1]
    cell = _cell(tag, there, state.slots[before], state.tags[before])
    is_some = state.snap[np.uint64(state.snap_at[program.out_start[before]]) + cell] != 0.0
    if not is_some or state.mantissa[program.gate[joint], k] == 0.0:
        return np.inf
    found = state.low_snap[np.uint64(state.low_at[left]) + cell] if left >= 0 else np.inf
    return min(found, state.least[entry, k]) if entry >= 0 else found


# Wide numbers are rare here, so these are calls: inlined into every loop they would be slow to compile.


@kernel
def _plus(m1, e1, m2, e2):
    m, e = add(m1, e1, m2, e2)
    return m, np.int32(e)


@kernel
def _times(m1, e1, a):
    m, e = times(m1, e1, a)
    return m, np.int32(e)


@kernel
def _normal(m, e):
    m, e = normalise(m, e)
    return m, np.int32(e)


@kernel
def _multiply(m1, e1, m2, e2):
    """(m1, e1) · (m2, e2) for wide numbers."""
    m = m1 * m2
    m, e = normalise(m, e1 + e2 if m != 0.0 else np.int32(0))
    while e > 0 and abs(m) < 1.0:
        m, e = m * RADIX, e - 1
    return m, np.int32(e)


# ---------------------------------------------------------------- readings


@kernel
def _read_marks(item, stops, program, state, out):
    """The sum over the marks that begin in an item, and are not closed by a NOT's event in it."""
    joint, low = stops.joint[item], stops.low[item]
    tree, at, low_at = program.tree[joint], stops.at[item], stops.low_at[item]
    begin, barred, mantissa, term = state.begin, state.barred, state.mantissa, program.term
    first = _seek(begin, tree, state.head[tree], state.tail[tree], low)
    end = _seek(barred, tree, first, state.tail[tree], low)
    for o in range(program.out_start[joint], program.out_start[joint + 1]):
        entry, m, e = term[program.term_start[o], 1], 0.0, np.int32(0)
        if state.is_wide:
            for k in range(first, end):
                m, e = _plus(m, e, mantissa[entry, k], state.exponent[entry, k])
        else:
            m, e = _normal(_sum(mantissa, entry, first, end), e)
        out.mantissa[at], out.exponent[at] = m, e
        at += 1
    for o in range(program.low_out_start[joint], program.low_out_start[joint + 1]):
        for k in range(first, end):
            out.extreme[low_at] = min(out.extreme[low_at], state.least[program.low_out[o, 1], k])
        low_at += 1


@kernel
def _seek(rows, tree, low, high, row):
    """The first mark in [low, high) of a tree whose row, in ascending order, is not before `row`."""
    while low < high:
        middle = (low + high) // 2
        if rows[tree, middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@reassociated
def _sum(numbers, entry, low, high):
    total = 0.0
    for k in range(low, high):
        total += numbers[entry, k]
    return total


@kernel
def _read_joined(item, stops, program, state, out):
    """The sum over marks of a chopped line's last piece, each times what its snapshot counts for the item."""
    joint, low = stops.joint[item], stops.low[item]
    tree, origin, before = program.tree[joint], program.origin[joint], program.before[joint]
    tag = state.base[origin] + _seek(state.begin, origin, state.head[origin], state.tail[origin], low)
    end = state.tail[tree]
    first = _seek(state.begin, tree, state.head[tree], end, low)
    base, mask = state.base[tree], state.slots[before] - 1
    while first < end and state.ends[before, (base + first) & mask] <= tag:
        first += 1  # its snapshot ends before the first START event of the window
    cell = _cell(tag, 0, state.slots[before], state.tags[before])
    at = stops.at[item]
    for o in range(program.out_start[joint], program.out_start[joint + 1]):
        m, e = 0.0, np.int32(0)
        for t in range(program.term_start[o], program.term_start[o + 1]):
            entry, of = program.term[t, 1], np.uint64(state.snap_at[program.term[t, 0]]) + cell
            if state.is_wide:
                for k in range(first, end):
                    here = of + np.uint64(((base + k) & mask) * 8)
                    part_m, part_e = _multiply(
                        state.snap[here],
                        state.snap_exponent[here],
                        state.mantissa[entry, k],
                        state.exponent[entry, k],
                    )
                    m, e = _plus(m, e, part_m, part_e)
            else:
                m += _dot(state.snap, of, state.mantissa, entry, first, end, base, mask)
        out.mantissa[at], out.exponent[at] = _normal(m, e)
        at += 1
    at = stops.low_at[item]
    for o in range(program.low_out_start[joint], program.low_out_start[joint + 1]):
        for k in range(first, end):
            found = _least(o, joint, k, tag, (base + k) & mask, program, state)
            out.extreme[at] = min(out.extreme[at], found)
        at += 1


@reassociated
def _dot(snap, of, numbers, entry, low, high, base, mask):
    """One row of the snapshots of marks [low, high), times their counts."""
    total = 0.0
    for k in range(low, high):
        total += snap[of + np.uint64(((base + k) & mask) * 8)] * numbers[entry, k]
    return total
