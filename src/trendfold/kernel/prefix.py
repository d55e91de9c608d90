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

from trendfold.kernel.jit import inlined, kernel
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

    Snapshots of link l lie in slots, mark number modulo `slots[l]`, with a row for each tag: a mark of the line's
    first tree. Row t holds the sum over tags t and later, so that those not expired are one number.
    first, many    int64[L, S]   per slot: number of its first tag, and how many
    snap_at, low_at  int64[.]    per number, and extreme, of a link: where its rows begin
    tags, slots    int64[L]
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
    first: NDArray[np.int64]
    many: NDArray[np.int64]
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
    """Fold all segments; the numbers of every item go to `out`, flat: mantissa, exponent, extreme."""
    item = 0
    for s in range(segment.shape[0] - 1):
        item = fold_rows(events, segment[s], segment[s + 1], item, stops, program, state, out)
        item = _read_until(segment[s + 1], item, stops, program, state, out)
        forget(state)


@kernel
def forget(state):
    """Begin a segment: no marks."""
    state.head[:] = 0
    state.tail[:] = 0
    state.base[:] = 0
    state.born[:] = -1
    state.taken[:] = -1
    state.closed[:] = -1


@kernel
def fold_rows(events, low, high, item, stops, program, state, out):
    """Fold rows [low, high), whole moments of one segment, reading the items that end before each; the next item."""
    moment, floor = events.moment, np.int64(-1)
    i = low
    while i < high:
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        if item < stops.high.shape[0] and stops.high[item] <= i:
            item = _read_until(i, item, stops, program, state, out)
        if stops.floor[i] != floor:
            floor = stops.floor[i]
            _expire(floor, state)
        _fold_moment(events, i, j, stops, program, state)
        i = j
    return item


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
        state.mantissa[dst, low:high] = 0.0
        if state.is_wide:
            state.exponent[dst, low:high] = 0
    elif kind == RESET_LEAST:
        state.least[dst, low:high] = np.inf
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
        part_m, part_e = times(m[src, k], e[src, k], factor)
        m[dst, k], e[dst, k] = add(m[dst, k], e[dst, k], part_m, part_e)


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
        state.mantissa[program.entry_start[tree] : program.entry_start[tree + 1], tail] = 0.0
        state.least[program.low_start[tree] : program.low_start[tree + 1], tail] = np.inf
        if state.is_wide:
            state.exponent[program.entry_start[tree] : program.entry_start[tree + 1], tail] = 0
        tail += 1
        state.tail[tree] = tail
    m, e = state.mantissa, state.exponent
    for r in range(program.root_start[tree], program.root_start[tree + 1]):
        entry, col = program.root[r, 0], program.root[r, 1]
        own = events.values[i, col] if col >= 0 else 1.0
        if state.is_wide:
            own_m, own_e = times(1.0, np.int32(0), own)
            m[entry, tail - 1], e[entry, tail - 1] = add(m[entry, tail - 1], e[entry, tail - 1], own_m, own_e)
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
        state.begin[tree, k], state.barred[tree, k] = state.begin[tree, head + k], state.barred[tree, head + k]
    for entry in range(program.entry_start[tree], program.entry_start[tree + 1]):
        state.mantissa[entry, :size] = state.mantissa[entry, head:tail]
        if state.is_wide:
            state.exponent[entry, :size] = state.exponent[entry, head:tail]
    for entry in range(program.low_start[tree], program.low_start[tree + 1]):
        state.least[entry, :size] = state.least[entry, head:tail]
    state.head[tree], state.tail[tree], state.base[tree] = 0, size, state.base[tree] + head


# ---------------------------------------------------------------- snapshots


@kernel
def _take_snapshot(link, into, program, state):
    """What was counted before an event that begins tree `into`, per tag: a mark of the line's first tree.

    Rows are sums from the last tag down to each. Of a line's first piece they are its counters; further on, each event
    that began the piece before gives its own snapshot times its count, and these add up (multi-connect).
    """
    origin, before = program.origin[link], program.before[link]
    slot = (state.base[into] + state.tail[into]) % state.slots[link]
    head, tail = state.head[origin], state.tail[origin]
    state.first[link, slot], state.many[link, slot] = state.base[origin] + head, tail - head
    rows = slot * state.tags[link]
    if before < 0:
        _sum_tags(link, rows, head, tail, program, state)
        return
    for o in range(program.out_start[link], program.out_start[link + 1]):
        at = state.snap_at[o] + rows
        state.snap[at : at + tail - head] = 0.0
        if state.is_wide:
            state.snap_exponent[at : at + tail - head] = 0
    for o in range(program.low_out_start[link], program.low_out_start[link + 1]):
        at = state.low_at[o] + rows
        state.low_snap[at : at + tail - head] = np.inf
    tree, first = program.tree[link], state.base[origin] + head
    for k in range(state.head[tree], state.tail[tree]):
        if state.mantissa[program.gate[link], k] == 0.0:
            continue
        there = (state.base[tree] + k) % state.slots[before]
        begins = state.first[before, there]
        for tag in range(max(first, begins), begins + state.many[before, there]):
            _connect(
                link,
                k,
                there * state.tags[before] + tag - begins,
                rows + tag - first,
                program,
                state,
            )


@kernel
def _sum_tags(link, rows, head, tail, program, state):
    """The counters of a line's first piece, summed from the last mark down to each."""
    for o in range(program.out_start[link], program.out_start[link + 1]):
        entry, at = program.term[program.term_start[o], 1], state.snap_at[o] + rows
        total, exponent = 0.0, np.int32(0)
        for k in range(tail - 1, head - 1, -1):
            if state.is_wide:
                total, exponent = add(total, exponent, state.mantissa[entry, k], state.exponent[entry, k])
                state.snap_exponent[at + k - head] = exponent
            else:
                total += state.mantissa[entry, k]
            state.snap[at + k - head] = total
    for o in range(program.low_out_start[link], program.low_out_start[link + 1]):
        entry, at = program.low_out[o, 1], state.low_at[o] + rows
        least = np.inf
        for k in range(tail - 1, head - 1, -1):
            least = min(least, state.least[entry, k])
            state.low_snap[at + k - head] = least


@kernel
def _connect(link, k, row, to, program, state):
    """Add to row `to` of a link's snapshot: mark k of its tree, times row `row` of that mark's own snapshot."""
    for o in range(program.out_start[link], program.out_start[link + 1]):
        at = state.snap_at[o] + to
        m, e = _product(o, k, row, program, state)
        if state.is_wide:
            state.snap[at], state.snap_exponent[at] = add(state.snap[at], state.snap_exponent[at], m, e)
        else:
            state.snap[at] += m
    for o in range(program.low_out_start[link], program.low_out_start[link + 1]):
        at = state.low_at[o] + to
        state.low_snap[at] = min(state.low_snap[at], _least(o, link, k, row, program, state))


@kernel
def _product(o, k, row, program, state):
    """Number o of a joint for mark k of its tree, whose snapshot's row is `row`."""
    m, e = 0.0, np.int32(0)
    for t in range(program.term_start[o], program.term_start[o + 1]):
        left, entry = program.term[t, 0], program.term[t, 1]
        at = state.snap_at[left] + row
        part = state.snap[at] * state.mantissa[entry, k]
        if state.is_wide:
            part_e = state.snap_exponent[at] + state.exponent[entry, k] if part != 0.0 else np.int32(0)
            part, part_e = normalise(part, np.int32(part_e))
            while part_e > 0 and abs(part) < 1.0:
                part, part_e = part * RADIX, np.int32(part_e - 1)
            m, e = add(m, e, part, part_e)
        else:
            m += part
    return m, np.int32(e)


@kernel
def _least(o, joint, k, row, program, state):
    """Extreme o of a joint for mark k, whose count is not 0; its own counts only where the snapshot has trends."""
    left, entry = program.low_out[o, 0], program.low_out[o, 1]
    found = state.low_snap[state.low_at[left] + row] if left >= 0 else np.inf
    count = program.out_start[program.before[joint]]
    if entry >= 0 and state.snap[state.snap_at[count] + row] != 0.0:
        found = min(found, state.least[entry, k])
    return found


# ---------------------------------------------------------------- readings


@kernel
def _read_until(row, item, stops, program, state, out):
    """Read all items that end at or before `row`; the next item."""
    while item < stops.high.shape[0] and stops.high[item] <= row:
        joint = stops.joint[item]
        if program.before[joint] < 0:
            _read_marks(joint, item, stops, program, state, out)
        else:
            _read_joined(joint, item, stops, program, state, out)
        item += 1
    return item


@kernel
def _read_marks(joint, item, stops, program, state, out):
    """The sum over the marks of an item: those that begin in it, and are not closed by a NOT's event in it."""
    tree, low = program.tree[joint], stops.low[item]
    first, end = state.head[tree], state.tail[tree]
    first += np.searchsorted(state.begin[tree, first:end], low)
    end = first + np.searchsorted(state.barred[tree, first:end], low)
    at = stops.at[item]
    for o in range(program.out_start[joint], program.out_start[joint + 1]):
        m, e = 0.0, np.int32(0)
        for t in range(program.term_start[o], program.term_start[o + 1]):
            entry = program.term[t, 1]
            for k in range(first, end):
                if state.is_wide:
                    m, e = add(m, e, state.mantissa[entry, k], state.exponent[entry, k])
                else:
                    m += state.mantissa[entry, k]
        out.mantissa[at], out.exponent[at] = normalise(m, e)
        at += 1
    at = stops.low_at[item]
    for o in range(program.low_out_start[joint], program.low_out_start[joint + 1]):
        entry = program.low_out[o, 1]
        if entry >= 0:
            for k in range(first, end):
                out.extreme[at] = min(out.extreme[at], state.least[entry, k])
        at += 1


@kernel
def _read_joined(joint, item, stops, program, state, out):
    """The sum over marks of a chopped line's last piece, each times what its snapshot counts for this item."""
    tree, origin, before = program.tree[joint], program.origin[joint], program.before[joint]
    low = stops.low[item]
    tag = state.base[origin] + state.head[origin]
    tag += np.searchsorted(state.begin[origin, state.head[origin] : state.tail[origin]], low)
    first = state.head[tree] + np.searchsorted(state.begin[tree, state.head[tree] : state.tail[tree]], low)
    outs = program.out_start[joint + 1] - program.out_start[joint]
    for k in range(first, state.tail[tree]):
        there = (state.base[tree] + k) % state.slots[before]
        skipped = max(0, tag - state.first[before, there])
        if state.mantissa[program.gate[joint], k] == 0.0 or skipped >= state.many[before, there]:
            continue
        row = there * state.tags[before] + skipped
        for w in range(outs):
            m, e = _product(program.out_start[joint] + w, k, row, program, state)
            at = stops.at[item] + w
            if state.is_wide:
                out.mantissa[at], out.exponent[at] = add(out.mantissa[at], out.exponent[at], m, e)
            else:
                out.mantissa[at] += m
        for o in range(program.low_out_start[joint], program.low_out_start[joint + 1]):
            at = stops.low_at[item] + o - program.low_out_start[joint]
            out.extreme[at] = min(out.extreme[at], _least(o, joint, k, row, program, state))
    for at in range(stops.at[item], stops.at[item] + outs):
        out.mantissa[at], out.exponent[at] = normalise(out.mantissa[at], out.exponent[at])
