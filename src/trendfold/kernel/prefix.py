"""Prefix counters over events: dynamic prefix counting, START event marking, and snapshots that connect pieces.

Counters of one tree stand in rows, one for each *entry* (a prefix, and a number that rides on it), and in columns, one for
each *mark*: the START events that expire together. Where windows move with every event, that is one START event each
(A-Seq's SEM); where they do not, few marks, or one, serve all of them (dynamic prefix counting). An event updates an entry
of all active marks in one loop over contiguous numbers:

    count(p_m) += count(p_(m-1))                                            (Lemma 1)

Entries are numbered through all trees. Source: A-Seq (SIGMOD 2014), sections 3 and 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import inlined, kernel, reassociated
from trendfold.kernel.program import Ints
from trendfold.kernel.wide import RADIX, add, normalise, times

RESET, ADD, VALUE, RESET_LEAST, LEAST, OWN = range(6)
"""What an operation does; a NOT's event resets (Lemma 6), the others gather from the prefix before.

ADD     entry[dst] += entry[src]                    VALUE  entry[dst] += entry[src] · value[col]
LEAST   least[dst] = min(least[dst], least[src])    OWN    the same with the event's value, where entry[src] is not 0
"""

KIND, TREE, DEPTH, DST, SRC, COL = range(6)
"""The columns of an operation."""


class PrefixProgram(NamedTuple):
    """The trees of one family, and how their pieces connect.

    op, op_start        per symbol: its operations [., 6], the deepest first, and at one depth resets first, so that done
                        in this order each reads what was before the event
    start, start_start  per symbol: trees that its events begin
    is_slow    bool[A]  whether its events do more than begin trees, ADD and VALUE
    bar, bar_start      per symbol: trees that its events close to later START events (NOT at the start)
    root, root_start    per tree: (entry, value column or -1 for one) of a START event
    low_root, low_root_start   the same for entries of extremes
    entry_start, low_start  int32[T+1]   the entries of a tree, and those of extremes
    is_joined  bool[T]  whether events that begin the tree take snapshots
    join, join_start    per tree: the links into it

    A *joint* is a link or, after all links, a reading. What it gives, per active START event of the whole line:
    before  int32[J]    the link whose snapshots it continues, or -1
    tree    int32[J]    the tree whose counts it multiplies them with, or takes as they are
    origin  int32[J]    the tree of the line's START events
    gate    int32[J]    the count among that tree's entries
    out_start  int32[J+1]  its numbers, COUNT first; those of links are numbers of snapshots
    term, term_start    per number: (number of a snapshot or -1, entry) products that add up to it
    low_out, low_out_start   per joint: (extreme of a snapshot or -1, entry of an extreme or -1) for each extreme
    """

    op_start: Ints
    op: Ints
    start_start: Ints
    start: Ints
    is_slow: NDArray[np.bool_]
    bar_start: Ints
    bar: Ints
    root_start: Ints
    root: Ints
    low_root_start: Ints
    low_root: Ints
    is_joined: NDArray[np.bool_]
    join_start: Ints
    join: Ints
    entry_start: Ints
    low_start: Ints
    before: Ints
    tree: Ints
    origin: Ints
    gate: Ints
    out_start: Ints
    term_start: Ints
    term: Ints
    low_out_start: Ints
    low_out: Ints
    links: int
    deepest: int


class Marked(NamedTuple):
    """What the fold holds: counters by entry and mark, and snapshots.

    mantissa, exponent   float64, int32 [E, C]   exponents only where numbers may leave a double's range
    least      float64[X, C]
    begin      int64[T, C]   the row of the first START event of each mark
    barred     int64[T, C]   the last row of a NOT at the start before it, or -1
    head, tail, base  int64[T]   active marks are [head, tail); mark k is number base + k of its segment
    born, taken  int64[T]    the moment in which the last mark was made, and the last snapshot taken
    closed     int64[T]      the last row of a NOT at the start so far, or -1

    Snapshots of link l lie in slots, mark number modulo `slots[l]`, with a row for each tag: the number of a mark of the
    line's first tree, modulo `tags[l]`. A row holds the sum over its tag and all later ones, so that what has not
    expired is one number.
    ends       int64[L, S]       per slot: the number of the mark after its last tag
    snap_at, low_at  int64[.]    per number, and extreme, of a link: where its table begins (see _cell)
    tags, slots      int64[L]    powers of two
    """

    mantissa: NDArray[np.float64]
    exponent: NDArray[np.int32]
    least: NDArray[np.float64]
    begin: NDArray[np.int64]
    barred: NDArray[np.int64]
    head: NDArray[np.int64]
    tail: NDArray[np.int64]
    base: NDArray[np.int64]
    born: NDArray[np.int64]
    taken: NDArray[np.int64]
    closed: NDArray[np.int64]
    ends: NDArray[np.int64]
    snap_at: NDArray[np.int64]
    snap: NDArray[np.float64]
    snap_exponent: NDArray[np.int32]
    low_at: NDArray[np.int64]
    low_snap: NDArray[np.float64]
    tags: NDArray[np.int64]
    slots: NDArray[np.int64]
    is_wide: bool


class Stops(NamedTuple):
    """Window items of all readings, by where they end, and what marks need to know of them.

    low, high  int64[I]   the rows of an item
    joint      int32[I]   the reading's joint
    at, low_at  int64[I]  where its numbers and extremes go in the output
    edge       int64[n]   per row: the last row at or before it where an item begins, or -1
    floor      int64[n]   per row: the first row of all items that end after it
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    joint: NDArray[np.int32]
    at: NDArray[np.int64]
    low_at: NDArray[np.int64]
    edge: NDArray[np.int64]
    floor: NDArray[np.int64]


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

    Without snapshots, START events expire together when no item begins between them. Snapshots are the same for the
    events of one moment only.
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
                # The usual event stands here, since a call hands over a hundred arrays.
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
    """Begin a segment: no marks."""
    for tree in range(state.head.shape[0]):
        state.head[tree] = state.tail[tree] = state.base[tree] = 0
        state.born[tree] = state.taken[tree] = state.closed[tree] = -1


@kernel
def _expire(floor, state):
    """Let go of marks whose START events are in no window that is still to be read."""
    for tree in range(state.head.shape[0]):
        k = state.head[tree]
        while k < state.tail[tree] and state.begin[tree, k] < floor:
            k += 1
        state.head[tree] = k


@kernel
def _fold_moment(events, i, j, stops, program, state):
    """Rows [i, j) of one moment: snapshots, then operations, then what begins. All read what was before."""
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
    """The operations of tied events, depth by depth from below: what one reads none of them has changed."""
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
            m[entry, tail - 1], e[entry, tail - 1] = _plus(m[entry, tail - 1], e[entry, tail - 1], own_m, own_e)
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

    Eight rows of a snapshot lie side by side, and then the same rows of the next: to write a snapshot, and to read one
    row of all of them, both go through memory in order. Numbers of tags and slots are powers of two.
    """
    row = tag & (tags - 1)
    return np.uint64(((row >> 3) * slots + slot) * 8 + (row & 7))


@kernel
def _take_snapshot(link, into, program, state):
    """What was counted before an event that begins tree `into`, per tag: a mark of the line's first tree.

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


# Wide numbers are rare here, so these are calls: compiled into every loop they would take long to compile.


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
    """The sum over marks of a chopped line's last piece, each times what its snapshot counts for this item."""
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
