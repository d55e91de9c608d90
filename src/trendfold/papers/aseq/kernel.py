"""Prefix counters over events: dynamic prefix counting, START event marking, snapshots that connect pieces.

An event updates one entry of all active marks, in one loop over contiguous numbers (see papers.aseq.marks):

    count(p_m) += count(p_(m-1))                                            (Lemma 1)

Where windows move with every event, a mark is one START event (SEM); where they do not, few marks, or one,
serve all START events (dynamic prefix counting). Source: A-Seq (SIGMOD 2014), sections 3 and 4.

Arrays are lent (kernel.jit): counting references to dozens of them takes longer than the updates of an event.
What most events do, in plain doubles, is compiled into the loop; the rest is called.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel, lent, phase, reassociated
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
    events, stops, program, state, out = lent(events), lent(stops), lent(program), lent(state), lent(out)
    symbol, moment, floors, highs, item = events.symbol, events.moment, stops.floor, stops.high, 0
    for s in range(segment.shape[0] - 1):
        _forget(state)
        floor = np.int64(-1)
        i, high = segment[s], segment[s + 1]
        while i < high:
            j = i + 1
            while j < high and moment[j] == moment[i]:
                j += 1
            if floors[i] != floor:
                floor = floors[i]
                _expire(floor, state)
            if j > i + 1 or program.is_slow[symbol[i]] or state.is_wide:
                _fold_moment(events, i, j, stops, program, state)
            else:
                _fold_event(events, i, stops, program, state)
            while item < highs.shape[0] and highs[item] <= j:
                _read(item, stops, program, state, out)
                item += 1
            i = j


@phase
def _fold_event(events, i, stops, program, state):
    """Fold row i, alone in its moment and not slow, in plain doubles: snapshots, operations, new marks."""
    a, op, mantissa = events.symbol[i], program.op, state.mantissa
    begun = program.start_start[a + 1] if stops.floor[i] <= i else program.start_start[a]
    for s in range(program.start_start[a], begun):
        tree = program.start[s]
        for join in range(program.join_start[tree], program.join_start[tree + 1]):
            link = program.join[join]
            slot = _open_snapshot(link, tree, program, state)
            for o in range(program.out_start[link], program.out_start[link + 1]):
                _sum_tags(o, link, slot, program, state)
    for o in range(program.op_start[a], program.op_start[a + 1]):
        factor = events.values[i, op[o, COL]] if op[o, KIND] == VALUE else 1.0
        dst, src, tree = np.uint64(op[o, DST]), np.uint64(op[o, SRC]), op[o, TREE]
        for k in range(np.uint64(state.head[tree]), np.uint64(state.tail[tree])):
            mantissa[dst, k] += mantissa[src, k] * factor
    for s in range(program.start_start[a], begun):
        _begin(program.start[s], events, i, stops.edge[i], program, state)


@kernel
def _forget(state):
    """Begin a segment without marks."""
    for tree in range(state.head.shape[0]):
        state.head[tree] = state.tail[tree] = state.base[tree] = 0
        state.born[tree] = state.taken[tree] = state.closed[tree] = -1


@phase
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


@phase
def _begin(tree, events, i, edge, program, state):
    """A START event: it joins the last mark, or gets a mark of its own."""
    if state.closed[tree] >= edge:
        return  # every window that holds it holds the NOT's event before it, too
    last = state.begin[tree, state.tail[tree] - 1] if state.tail[tree] > state.head[tree] else np.int64(-1)
    if _needs_mark(program.is_joined[tree], last, edge, state.born[tree], events.moment[i]):
        if state.tail[tree] == state.begin.shape[1]:
            _make_room(tree, program, state)
        _add_mark(tree, events, i, program, state)
    mark = state.tail[tree] - 1
    for r in range(program.root_start[tree], program.root_start[tree + 1]):
        entry, col = program.root[r, 0], program.root[r, 1]
        own = events.values[i, col] if col >= 0 else 1.0
        if state.is_wide:
            _add_wide_root(entry, mark, own, state)
        else:
            state.mantissa[entry, mark] += own
    for r in range(program.low_root_start[tree], program.low_root_start[tree + 1]):
        entry, own = program.low_root[r, 0], events.extremes[i, program.low_root[r, 1]]
        state.least[entry, mark] = min(state.least[entry, mark], own)


@phase
def _add_mark(tree, events, i, program, state):
    """Append a mark that begins at row i, with all counters at zero."""
    mark = state.tail[tree]
    state.begin[tree, mark], state.barred[tree, mark] = i, state.closed[tree]
    state.born[tree] = events.moment[i]
    for entry in range(program.entry_start[tree], program.entry_start[tree + 1]):
        state.mantissa[entry, mark] = 0.0
        if state.is_wide:
            state.exponent[entry, mark] = 0
    for entry in range(program.low_start[tree], program.low_start[tree + 1]):
        state.least[entry, mark] = np.inf
    state.tail[tree] = mark + 1


@kernel
def _add_wide_root(entry, mark, own, state):
    m, e = state.mantissa, state.exponent
    own_m, own_e = _times(1.0, np.int32(0), own)
    m[entry, mark], e[entry, mark] = _plus(m[entry, mark], e[entry, mark], own_m, own_e)


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


@phase
def _open_snapshot(link, into, program, state):
    """The slot of a new snapshot, that of the mark which will begin tree `into`."""
    origin, slot = program.origin[link], (state.base[into] + state.tail[into]) & (state.slots[link] - 1)
    state.ends[link, slot] = state.base[origin] + state.tail[origin]
    return slot


@kernel
def _take_snapshot(link, into, program, state):
    """Keep the counts from before an event that begins tree `into`, per tag: a mark of the line's first tree.

    Rows are sums from the last tag down to each. Of a line's first piece they are its counters; further on,
    each event that began the piece before gives its own snapshot times its count, and these add up
    (multi-connect).
    """
    slot = _open_snapshot(link, into, program, state)
    for o in range(program.out_start[link], program.out_start[link + 1]):
        if program.before[link] >= 0:
            _multiply_tags(o, link, slot, program, state)
        elif state.is_wide:
            _sum_wide_tags(o, link, slot, program, state)
        else:
            _sum_tags(o, link, slot, program, state)
    for o in range(program.low_out_start[link], program.low_out_start[link + 1]):
        if program.before[link] < 0:
            _least_of_tags(o, link, slot, program, state)
        else:
            _least_of_products(o, link, slot, program, state)


@phase
def _sum_tags(o, link, slot, program, state):
    """Number o of a first piece: its counters, summed from the last mark down to each."""
    origin, slots, tags = program.origin[link], state.slots[link], state.tags[link]
    entry, at = np.uint64(program.term[program.term_start[o], 1]), np.uint64(state.snap_at[o])
    base, total = state.base[origin], 0.0
    for k in range(state.tail[origin] - 1, state.head[origin] - 1, -1):
        total += state.mantissa[entry, np.uint64(k)]
        state.snap[at + _cell(base + k, slot, slots, tags)] = total


@kernel
def _sum_wide_tags(o, link, slot, program, state):
    """The same for wide numbers."""
    origin, slots, tags = program.origin[link], state.slots[link], state.tags[link]
    entry, base, total, exponent = (
        program.term[program.term_start[o], 1],
        state.base[origin],
        0.0,
        np.int32(0),
    )
    for k in range(state.tail[origin] - 1, state.head[origin] - 1, -1):
        total, exponent = _plus(total, exponent, state.mantissa[entry, k], state.exponent[entry, k])
        to = np.uint64(state.snap_at[o]) + _cell(base + k, slot, slots, tags)
        state.snap[to], state.snap_exponent[to] = total, exponent


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


@phase
def _read(item, stops, program, state, out):
    """The numbers of a window."""
    joint, low, at = stops.joint[item], stops.low[item], stops.at[item]
    origin = program.origin[joint]
    k = state.head[origin]
    if k < state.tail[origin] and state.begin[origin, k] < low:
        k = _seek(state.begin, origin, k, state.tail[origin], low)
    tag = state.base[origin] + k
    first, end = _marks_read(joint, tag, low, program, state)
    if state.is_wide or program.low_out_start[joint] < program.low_out_start[joint + 1]:
        _read_wide_and_least(item, tag, first, end, stops, program, state, out)
    if state.is_wide:
        return
    for o in range(program.out_start[joint], program.out_start[joint + 1]):
        m, e = _plain_number(o, joint, tag, first, end, program, state), np.int32(0)
        if abs(m) >= RADIX:
            m, e = _normal(m, e)
        out.mantissa[at], out.exponent[at] = m, e
        at += 1


@phase
def _plain_number(o, joint, tag, first, end, program, state):
    """Number o of a joint in doubles: over its marks, their counts, or those times what snapshots hold."""
    tree, before, total = program.tree[joint], program.before[joint], 0.0
    if before < 0:
        return _sum(state.mantissa, program.term[program.term_start[o], 1], first, end)
    cell, base = _cell(tag, 0, state.slots[before], state.tags[before]), state.base[tree]
    for t in range(program.term_start[o], program.term_start[o + 1]):
        of = np.uint64(state.snap_at[program.term[t, 0]]) + cell
        entry, mask = program.term[t, 1], state.slots[before] - 1
        total += _dot(state.snap, of, state.mantissa, entry, first, end, base, mask)
    return total


@phase
def _marks_read(joint, tag, low, program, state):
    """The marks [first, end) of a joint's tree whose trends are in a window that begins at row `low`."""
    tree, before = program.tree[joint], program.before[joint]
    end = state.tail[tree]
    if before < 0:
        first = tag - state.base[tree]
        if state.closed[tree] >= low:  # a NOT's event in the window closes it for the marks after that
            end = _seek(state.barred, tree, first, end, low)
        return first, end
    first, base, mask = state.head[tree], state.base[tree], state.slots[before] - 1
    if first < end and state.begin[tree, first] < low:
        first = _seek(state.begin, tree, first, end, low)
    while first < end and state.ends[before, (base + first) & mask] <= tag:
        first += 1  # its snapshot ends before the first START event of the window
    return first, end


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


@reassociated
def _dot(snap, of, numbers, entry, low, high, base, mask):
    """One row of the snapshots of marks [low, high), times their counts."""
    total = 0.0
    for k in range(low, high):
        total += snap[of + np.uint64(((base + k) & mask) * 8)] * numbers[entry, k]
    return total


@kernel
def _read_wide_and_least(item, tag, first, end, stops, program, state, out):
    """What is rare of a window: numbers if they are wide, and extremes."""
    joint, at = stops.joint[item], stops.at[item]
    for o in range(program.out_start[joint], program.out_start[joint + 1] if state.is_wide else 0):
        out.mantissa[at], out.exponent[at] = _wide_number(o, joint, tag, first, end, program, state)
        at += 1
    at, base, before = stops.low_at[item], state.base[program.tree[joint]], program.before[joint]
    for o in range(program.low_out_start[joint], program.low_out_start[joint + 1]):
        for k in range(first, end):
            if before < 0:
                found = state.least[program.low_out[o, 1], k]
            else:
                found = _least(o, joint, k, tag, (base + k) & (state.slots[before] - 1), program, state)
            out.extreme[at] = min(out.extreme[at], found)
        at += 1


@kernel
def _wide_number(o, joint, tag, first, end, program, state):
    """Number o of a joint: the same as `_plain_number` for wide numbers."""
    before, base, m, e = program.before[joint], state.base[program.tree[joint]], 0.0, np.int32(0)
    for t in range(program.term_start[o], program.term_start[o + 1]):
        entry = program.term[t, 1]
        for k in range(first, end):
            part_m, part_e = state.mantissa[entry, k], state.exponent[entry, k]
            if before >= 0:
                slot = (base + k) & (state.slots[before] - 1)
                here = np.uint64(state.snap_at[program.term[t, 0]])
                here += _cell(tag, slot, state.slots[before], state.tags[before])
                part_m, part_e = _multiply(state.snap[here], state.snap_exponent[here], part_m, part_e)
            m, e = _plus(m, e, part_m, part_e)
    return m, e
