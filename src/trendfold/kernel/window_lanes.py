"""The machine over events for many windows and queries at once, where neighbours are found by their values.

Overlapping windows see the same events, ask for the same values and continue the same bindings. They differ
only in how much mass a binding has, because trends begin with their window. Queries that differ in local
conditions only do so too. So a *batch* of windows is folded in one pass for all of them, with a lane per
query and window: for each lane, with q a position that the event e can take,

    mass(e, q) = sum of the states q follows + sum of the bindings that satisfy q's predicates      (gather)
    state(q), and the trees of q, += mass(e, q), for events of one moment together                  (settle)

In the lanes of queries whose conditions e does not satisfy at q, mass(e, q) is zero. The search for bindings
is done once for all lanes, and the arithmetic on eight lanes at a time. A lane is fed once its window has
begun, and read when it ends.

States and the nodes of trees are vectors of lanes in one flat array (`Room.m`), so that an event is two lists
of places (`Search.touched`): where it gathers, and where it leaves its mass. With lanes, cost is the number
of nodes an event touches, so trees are Fenwick trees where one side of a value is asked for, and binary trees
otherwise.

All records are lent, and `_gather`, `_spend` and `_settle` are part of the loop's code (`jit.phase`): as
calls, they would copy dozens of array headers for every event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bits import first_word, leave, next_between, take
from trendfold.kernel.guards import class_after
from trendfold.kernel.jit import inlined, kernel, lent, phase
from trendfold.kernel.lane_runs import (
    RUN,
    add_times,
    add_to_each,
    add_to_each_wide,
    add_up,
    add_up_wide,
    any_large,
    any_mass,
    count_bits,
    lower_each,
    take_least,
)
from trendfold.kernel.tree import EMPTY, OPEN
from trendfold.kernel.wide import add, normalise, times

FLAT, BELOW, ABOVE, BETWEEN = 0, 1, 2, 3
"""What is asked of a tree: single leaves, all leaves below a value, all above one, or any range of them."""

MOST_ASKED, MOST_ENTERED = 64, 33
"""Nodes that make up a range of a tree of 2^32 leaves, and those that a leaf of it is part of, at most."""

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_WORD, _LAST = np.uint64(6), np.uint64(63)


class BatchSteps(NamedTuple):
    """The arrays of BindingSteps that a batch reads, and the values of the rows that its weights refer to."""

    step_start: NDArray[np.int32]
    src_start: NDArray[np.int32]
    src: NDArray[np.int32]
    scan_start: NDArray[np.int32]
    dst_start: NDArray[np.int32]
    dst: NDArray[np.int32]
    kept_start: NDArray[np.int32]
    kept: NDArray[np.int32]
    is_start: NDArray[np.bool_]
    weight: NDArray[np.int32]
    xweight: NDArray[np.int32]
    values: NDArray[np.float64]
    lowest: NDArray[np.float64]


class LaneMasks(NamedTuple):
    """The queries of a batch, and which of them take each step; K is the number of steps.

    queries             how many there are
    stride              lanes per window: 1 for one query, otherwise the queries rounded up to whole runs
    is_full  bool[K]    whether all queries take the step
    mask     bool[K,.]  per lane of a window whether its query does
    at, runs uint64[K]  the runs of a window that have such a lane
    """

    queries: int
    stride: int
    is_full: NDArray[np.bool_]
    mask: NDArray[np.bool_]
    at: NDArray[np.uint64]
    runs: NDArray[np.uint64]


class BatchIndex(NamedTuple):
    """The arrays of BindingIndex that a batch reads; an access has one tree."""

    way: NDArray[np.int32]
    here: NDArray[np.int32]
    span: NDArray[np.int32]
    leaf: NDArray[np.int32]
    of_start: NDArray[np.int32]
    of: NDArray[np.int32]


class BatchTrees(NamedTuple):
    """The trees of one batch; T is the number of trees, one per access.

    asks    int8[T]      what is asked of each: FLAT, BELOW, ABOVE or BETWEEN
    base    uint64[T]    where its nodes begin
    leaves  uint64[T]    how many leaves the batch has in it
    top     uint64[T]    the last of these, as the segment numbers them
    marks   uint64[T,.]  which leaves of a segment the batch has, as bits
    before  uint32[T,.]  how many of them are before each word of bits
    """

    asks: NDArray[np.int8]
    base: NDArray[np.uint64]
    leaves: NDArray[np.uint64]
    top: NDArray[np.uint64]
    marks: NDArray[np.uint64]
    before: NDArray[np.uint32]


class LeafSets(NamedTuple):
    """The bindings of each tree that are not continued yet, under *next* (see kernel.bits).

    words   uint64[]    the sets; zeros between batches
    holder  int32[T,.]  the row at a leaf
    """

    words: NDArray[np.uint64]
    start: NDArray[np.uint64]
    levels: NDArray[np.uint64]
    holder: NDArray[np.int32]


class Search(NamedTuple):
    """How a step finds vectors: what it looks up, and `touched`, the list of vectors found."""

    ranked: BatchIndex
    trees: BatchTrees
    sets: LeafSets
    touched: NDArray[np.uint64]


class Room(NamedTuple):
    """Vectors: one number per lane.

    m, e, x              those of states and of nodes, number after number
    got_m, got_e, got_x  those that the steps of a moment gather
    has_mass  bool[]     whether such a step gathers anything
    """

    m: NDArray[np.float64]
    e: NDArray[np.int32]
    x: NDArray[np.float64]
    got_m: NDArray[np.float64]
    got_e: NDArray[np.int32]
    got_x: NDArray[np.float64]
    has_mass: NDArray[np.bool_]


class Open(NamedTuple):
    """The lanes of open windows during a moment.

    lanes, size  lanes of a vector, and all lanes of all nodes
    at, runs     the first open lane, and how many runs there are from it on
    is_one       whether only one window is open
    is_wide      whether numbers are wide
    """

    lanes: np.uint64
    size: np.uint64
    at: np.uint64
    runs: np.uint64
    is_one: bool
    is_wide: bool


@kernel
def cut_batches(segment, low, high, lanes, first):
    """Cut windows into batches of one segment that overlap, at most `lanes` in each; returns how many.

    segment, low, high  per window its segment and its rows [low, high), in order
    first  int64[]      out: the first window of each batch, and where the last one ends
    """
    count, reached = 0, 0
    for k in range(segment.shape[0]):
        goes_on = k > 0 and segment[k] == segment[k - 1] and low[k] < reached
        if not goes_on or k - first[count - 1] == lanes:
            first[count] = k
            count += 1
        reached = high[k]
    first[count] = segment.shape[0]
    return count


@kernel
def fold_batches(events, first, lows, highs, steps, guards, frame, is_next, masks, search, room, out):
    """Fold every batch of windows, a moment at a time: gather, spend, move classes, settle.

    The whole trends of query q in window k go to row k · queries + q of `out`. Numbers are plain doubles
    until one of them in the batch is too large for that; from then on they are wide.

    first        int64[B+1]  the windows of each batch
    lows, highs  int64[n]    per window its rows
    """
    events, guards, frame, out = lent(events), lent(guards), lent(frame), lent(out)
    steps, masks, search, room = lent(steps), lent(masks), lent(search), lent(room)
    symbol, moment, moves = events.symbol, events.moment, guards.moves
    stride = masks.stride
    for b in range(first.shape[0] - 1):
        begun = ended = first[b]
        end, i, last = first[b + 1], lows[begun], highs[first[b + 1] - 1]
        lanes = np.uint64(((end - begun) * stride + RUN - 1) // RUN * RUN)
        size = lanes * _number_leaves(search.ranked.leaf, i, last, np.uint64(frame.states), search.trees)
        room.m[: frame.width * size] = 0.0
        room.x[: frame.extremes * size] = np.inf
        is_wide = False
        while i < last:
            j = i + 1
            moved = moves[symbol[i]]
            while j < last and moment[j] == moment[i]:
                moved |= moves[symbol[j]]
                j += 1
            while begun < end and lows[begun] <= i:
                _open(np.uint64(frame.start) * lanes + np.uint64((begun - first[b]) * stride), masks, room.m)
                begun += 1
            while ended < begun and highs[ended] <= i:
                _close(ended, (ended - first[b]) * stride, masks, is_wide, frame, room, lanes, size, out)
                ended += 1
            at = np.uint64((ended - first[b]) * stride // RUN * RUN)
            runs = np.uint64(((begun - first[b]) * stride + RUN - 1) // RUN) - at // np.uint64(RUN)
            opened = Open(lanes, size, at, runs, begun - ended == 1, is_wide)
            while _gather(symbol, i, j, steps, is_next, masks, search, room, opened):  # at most twice
                _widen(room.m, room.e, np.uint64(frame.width) * size)
                is_wide = True
                opened = Open(lanes, size, at, runs, begun - ended == 1, is_wide)
            if is_next:
                _spend(symbol, i, j, steps, search, room, opened)
            if moved:
                _move_classes(guards, symbol, i, j, frame.width, frame.extremes, search.touched, room, opened)
            _settle(symbol, i, j, steps, is_next, masks, search, room, opened)
            i = j
        while ended < end:
            _close(ended, (ended - first[b]) * stride, masks, is_wide, frame, room, lanes, size, out)
            ended += 1
        if is_next:
            _empty_sets(search.sets, search.trees.top)


@kernel
def _number_leaves(leaf, low, high, nodes, trees):
    """Number the leaves of a batch's rows anew, tree by tree; returns how many nodes there are.

    A segment has far more leaves than a batch, so each tree is as small as its batch. `trees` is filled in.
    """
    asks, base, leaves, top, marks, before = trees
    for t in range(asks.shape[0]):
        top[t] = max(0, leaf[t, low:high].max())
        marks[t, : (top[t] >> _WORD) + _ONE] = 0
        for i in range(low, high):
            if leaf[t, i] > 0:
                here = np.uint64(leaf[t, i])
                marks[t, here >> _WORD] |= _ONE << (here & _LAST)
        count = _ZERO
        for word in range((top[t] >> _WORD) + _ONE):
            before[t, word] = count
            count += count_bits(marks[t, word])
        base[t], leaves[t] = nodes, count
        nodes += _TWO * count if asks[t] == BETWEEN else count
    return nodes


@kernel
def _empty_sets(sets, top):
    """Empty the leaf sets of all trees, up to the last leaf of the batch."""
    for t in range(top.shape[0]):
        last = top[t] >> _WORD
        for level in range(sets.levels[t]):
            start = sets.start[first_word(t) + level]
            sets.words[start : start + last + _ONE] = 0
            last >>= _WORD


@kernel
def _open(place, masks, m):
    """Give the start state of a window one empty trend in the lane of every query."""
    for lane in range(place, place + np.uint64(masks.queries)):
        m[lane] = 1.0


@kernel
def _close(window, lane, masks, is_wide, frame, room, lanes, size, out):
    """Write the whole trends of a window that is complete, query by query."""
    for query in range(masks.queries):
        k = window * masks.queries + query
        for s in frame.whole:
            place = np.uint64(s) * lanes + np.uint64(lane + query)
            for w in range(frame.width):
                here = place + np.uint64(w) * size
                part_m, part_e = normalise(room.m[here], room.e[here] if is_wide else np.int32(0))
                out.mantissa[k, w], out.exponent[k, w] = add(
                    out.mantissa[k, w], out.exponent[k, w], part_m, part_e
                )
            for f in range(frame.extremes):
                out.extreme[k, f] = min(out.extreme[k, f], room.x[place + np.uint64(f) * size])


# ---- Gather ----------------------------------------------------------------------------------------


@phase
def _gather(symbol, i, j, steps, is_next, masks, search, room, opened):
    """Gather the mass of every step of the rows [i, j); returns whether doubles are too small for it."""
    got_m, got_e, got_x, has_mass = room.got_m, room.got_e, room.got_x, room.has_mass
    lanes, size, is_wide, touched = opened.lanes, opened.size, opened.is_wide, search.touched
    width, extremes = steps.weight.shape[1], steps.xweight.shape[1]
    is_large = False
    slot = 0
    for r in range(i, j):
        for t in range(steps.step_start[symbol[r]], steps.step_start[symbol[r] + 1]):
            at, runs = _own_runs(masks, t, opened)
            count = _list_sources(t, r, steps, is_next, search, lanes) if masks.runs[t] > 0 else _ZERO
            mass = np.uint64(slot) * np.uint64(width) * lanes
            has_mass[slot] = False
            for w in range(width if count > 0 else 0):
                to, offset = mass + np.uint64(w) * lanes, np.uint64(w) * size
                _add_sources(is_wide, got_m, got_e, to, room.m, room.e, touched, count, offset, at, runs)
                if w > 0 and steps.weight[t, w] >= -1:
                    column = steps.weight[t, w]
                    value = steps.values[r, column] if column >= 0 else 1.0
                    _weigh(is_wide, got_m, got_e, to, mass, value, at, runs)
                if not masks.is_full[t]:
                    _mask(masks, t, got_m, got_e, to, at, runs)
                if w == 0:
                    has_mass[slot] = any_mass(got_m, mass, at, runs)
                if not has_mass[slot]:
                    break
                is_large |= not is_wide and any_large(got_m, to, at, runs)
            for k in range(extremes if has_mass[slot] else 0):
                to = (np.uint64(slot) * np.uint64(extremes) + np.uint64(k)) * lanes
                _empty_run(got_x, to, np.inf, at, runs)
                take_least(got_x, to, room.x, touched, count, np.uint64(k) * size, at, runs)
                if steps.xweight[t, k] >= 0:
                    value = steps.lowest[r, steps.xweight[t, k]]
                    _weigh_extreme(got_x, to, got_m, mass, value, at, runs)
                if not masks.is_full[t]:
                    _mask_extreme(got_x, to, got_m, mass, at, runs)
            slot += 1
    return is_large


@inlined
def _own_runs(masks, t, opened):
    """The runs of open lanes that step t concerns: where one window is open, those of its queries only."""
    at = opened.at + masks.at[t] if opened.is_one else opened.at
    runs = min(opened.runs, masks.runs[t]) if opened.is_one else opened.runs
    return at, runs


@inlined
def _list_sources(t, r, steps, is_next, search, lanes):
    """List in `touched` the vectors that step t of row r gathers from; returns how many."""
    index, trees, sets, touched = search
    count = _ZERO
    for o in range(steps.src_start[t], steps.src_start[t + 1]):
        touched[count] = np.uint64(steps.src[o]) * lanes
        count += _ONE
    for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
        tree = index.way[c]
        for p in range(0, index.span.shape[2], 2):
            low, high = index.span[tree, r, p], index.span[tree, r, p + 1]
            if low == EMPTY:
                continue
            if is_next:  # the bindings that are not continued yet, one by one
                leaf = _next_leaf(sets, tree, low, high)
                while leaf != 0:
                    touched[count] = _leaf_node(trees, tree, leaf) * lanes
                    count += _ONE
                    leaf = _next_leaf(sets, tree, leaf, high)
            else:
                count = _list_range(trees, tree, low, high, lanes, touched, count)
    return count


@inlined
def _next_leaf(sets, tree, low, high):
    """The first leaf between two whose binding is not continued yet, or 0."""
    return next_between(sets.words, sets.start, first_word(tree), sets.levels[tree], low, high)


@inlined
def _leaf_node(trees, tree, leaf):
    """The node of a leaf, in a tree that has leaves only."""
    return trees.base[tree] + _rank(trees, tree, leaf) - _ONE


@inlined
def _rank(trees, tree, leaf):
    """How many of the batch's leaves are not after one."""
    here = min(leaf, trees.top[tree])
    word = trees.marks[tree, here >> _WORD] & ((_TWO << (here & _LAST)) - _ONE)
    return np.uint64(trees.before[tree, here >> _WORD]) + count_bits(word)


@inlined
def _add_sources(is_wide, got_m, got_e, to, m, e, touched, count, offset, at, runs):
    """Add one number of the listed vectors up, at `to`."""
    _empty_run(got_m, to, 0.0, at, runs)
    if is_wide:
        _empty_run(got_e, to, np.int32(0), at, runs)
        add_up_wide(got_m, got_e, to, m, e, touched, count, offset, at, runs)
    else:
        add_up(got_m, to, m, touched, count, offset, at, runs)


@inlined
def _weigh(is_wide, got_m, got_e, to, mass, value, at, runs):
    """Add count times value to the number at `to`; the count is at `mass`."""
    if is_wide:
        _weigh_wide(got_m, got_e, to, mass, value, at, runs)
    else:
        add_times(got_m, to, got_m, mass, value, at, runs)


# ---- Spend and settle ------------------------------------------------------------------------------


@phase
def _spend(symbol, i, j, steps, search, room, opened):
    """Under *next*, empty what the rows [i, j) have continued: states, and bindings in all their trees."""
    index, trees, sets, _ = search
    width, extremes = steps.weight.shape[1], steps.xweight.shape[1]
    for r in range(i, j):
        for t in range(steps.step_start[symbol[r]], steps.step_start[symbol[r] + 1]):
            for o in range(steps.src_start[t], steps.src_start[t + 1]):
                if not steps.is_start[steps.src[o]]:
                    _empty_node(room, np.uint64(steps.src[o]), width, extremes, opened)
            for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
                tree = index.way[c]
                for p in range(0, index.span.shape[2], 2):
                    high = index.span[tree, r, p + 1]
                    leaf = _next_leaf(sets, tree, index.span[tree, r, p], high)
                    while leaf != 0:
                        row, here = sets.holder[tree, leaf], index.here[tree]
                        for o in range(index.of_start[here], index.of_start[here + 1]):
                            other, gone = index.of[o], np.uint64(index.leaf[index.of[o], row])
                            if gone != 0:
                                _empty_node(room, _leaf_node(trees, other, gone), width, extremes, opened)
                                leave(sets.words, sets.start, first_word(other), sets.levels[other], gone)
                        leaf = _next_leaf(sets, tree, leaf, high)


@phase
def _settle(symbol, i, j, steps, is_next, masks, search, room, opened):
    """Add the mass of every step of the rows [i, j) to its states and trees."""
    got_m, got_e, got_x, touched = room.got_m, room.got_e, room.got_x, search.touched
    lanes, size = opened.lanes, opened.size
    width, extremes = steps.weight.shape[1], steps.xweight.shape[1]
    slot = 0
    for r in range(i, j):
        for t in range(steps.step_start[symbol[r]], steps.step_start[symbol[r] + 1]):
            if room.has_mass[slot]:
                at, runs = _own_runs(masks, t, opened)
                count = _list_targets(t, r, steps, is_next, search, lanes)
                for w in range(width):
                    added = (np.uint64(slot) * np.uint64(width) + np.uint64(w)) * lanes
                    offset = np.uint64(w) * size
                    if opened.is_wide:
                        add_to_each_wide(
                            room.m, room.e, touched, count, offset, got_m, got_e, added, at, runs
                        )
                    else:
                        add_to_each(room.m, touched, count, offset, got_m, added, at, runs)
                for k in range(extremes):
                    added = (np.uint64(slot) * np.uint64(extremes) + np.uint64(k)) * lanes
                    lower_each(room.x, touched, count, np.uint64(k) * size, got_x, added, at, runs)
            slot += 1


@inlined
def _list_targets(t, r, steps, is_next, search, lanes):
    """List in `touched` the vectors that step t of row r adds to; returns how many."""
    index, trees, sets, touched = search
    count = _ZERO
    for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
        touched[count] = np.uint64(steps.dst[d]) * lanes
        count += _ONE
    for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
        here = steps.kept[b]
        for o in range(index.of_start[here], index.of_start[here + 1]):
            tree = index.of[o]
            if index.leaf[tree, r] > 0:
                leaf = np.uint64(index.leaf[tree, r])
                rank = _rank(trees, tree, leaf)
                count = _list_ancestors(
                    trees.asks[tree], rank, trees.base[tree], trees.leaves[tree], lanes, touched, count
                )
                if is_next:
                    sets.holder[tree, leaf] = r
                    take(sets.words, sets.start, first_word(tree), sets.levels[tree], leaf)
    return count


# ---- Nodes of a tree -------------------------------------------------------------------------------


@phase
def _list_range(trees, tree, low, high, lanes, touched, count):
    """List the nodes that add up to the leaves strictly between two; returns the list's new length."""
    asks, base, leaves = trees.asks[tree], trees.base[tree], trees.leaves[tree]
    a = _rank(trees, tree, np.uint64(low))
    b = leaves if high == OPEN else _rank(trees, tree, np.uint64(high) - _ONE)
    if a >= b:
        return count
    if asks == FLAT:
        touched[count] = (base + a) * lanes
        return count + _ONE
    if asks != BETWEEN:  # a Fenwick tree
        upto = b if asks == BELOW else leaves - a
        while upto > 0:
            touched[count] = (base + upto - _ONE) * lanes
            count += _ONE
            upto &= upto - _ONE
        return count
    a += leaves
    b += leaves
    while a < b:
        if a & _ONE:
            touched[count] = (base + a) * lanes
            count += _ONE
            a += _ONE
        if b & _ONE:
            b -= _ONE
            touched[count] = (base + b) * lanes
            count += _ONE
        a >>= _ONE
        b >>= _ONE
    return count


@kernel
def _list_ancestors(asks, rank, base, leaves, lanes, touched, count):
    """List the nodes that a leaf is part of, its rank from 1 on; returns the list's new length."""
    if asks == FLAT:
        touched[count] = (base + rank - _ONE) * lanes
        return count + _ONE
    if asks == BETWEEN:
        node = rank - _ONE + leaves
        while node > 0:
            touched[count] = (base + node) * lanes
            count += _ONE
            node >>= _ONE
        return count
    node = rank if asks == BELOW else leaves + _ONE - rank  # a Fenwick tree
    while node <= leaves:
        touched[count] = (base + node - _ONE) * lanes
        count += _ONE
        node += node & (~node + _ONE)
    return count


# ---- Lanes of a vector -----------------------------------------------------------------------------


@inlined
def _empty_run(numbers, place, nothing, at, runs):
    for lane in range(place + at, place + at + runs * np.uint64(RUN)):
        numbers[lane] = nothing


@kernel
def _mask(masks, t, m, e, place, at, runs):
    """Set the lanes of queries that do not take step t to zero."""
    own = at % np.uint64(masks.stride)
    for first in range(place + at, place + at + runs * np.uint64(RUN), np.uint64(RUN)):
        for k in range(np.uint64(RUN)):
            is_taken = masks.mask[t, own + k]
            m[first + k] = m[first + k] if is_taken else 0.0
            e[first + k] = e[first + k] if is_taken else 0
        own += np.uint64(RUN)
        own = _ZERO if own == np.uint64(masks.stride) else own


@kernel
def _mask_extreme(x, to, m, mass, at, runs):
    """Empty an extreme in lanes without mass."""
    for lane in range(at, at + runs * np.uint64(RUN)):
        if m[mass + lane] == 0.0:
            x[to + lane] = np.inf


@kernel
def _empty_node(room, node, width, extremes, opened):
    """Set all numbers of a vector to zero in its open lanes."""
    place, at, runs = node * opened.lanes, opened.at, opened.runs
    for w in range(width):
        _empty_run(room.m, place + np.uint64(w) * opened.size, 0.0, at, runs)
        _empty_run(room.e, place + np.uint64(w) * opened.size, np.int32(0), at, runs)
    for k in range(extremes):
        _empty_run(room.x, place + np.uint64(k) * opened.size, np.inf, at, runs)


@kernel
def _weigh_wide(m, e, to, mass, value, at, runs):
    """Add the count times a value, lane by lane."""
    for lane in range(at, at + runs * np.uint64(RUN)):
        part_m, part_e = times(m[mass + lane], e[mass + lane], value)
        m[to + lane], e[to + lane] = add(m[to + lane], e[to + lane], part_m, part_e)
        if m[to + lane] == 0.0:
            e[to + lane] = 0


@kernel
def _weigh_extreme(x, to, m, mass, value, at, runs):
    """Lower an extreme to a value, in lanes that have mass."""
    for lane in range(at, at + runs * np.uint64(RUN)):
        if m[mass + lane] != 0.0:
            x[to + lane] = min(x[to + lane], value)


@kernel
def _widen(m, e, count):
    """Turn plain doubles into wide numbers."""
    for i in range(count):
        m[i], e[i] = normalise(m[i], np.int32(0))


@kernel
def _move_classes(guards, symbol, start, stop, width, extremes, touched, room, opened):
    """`guards.move_classes`, for all open lanes."""
    m, e, x, lanes, size, at, runs = room.m, room.e, room.x, opened.lanes, opened.size, opened.at, opened.runs
    for g in range(guards.class_start.shape[0] - 1):
        low, broken = guards.class_start[g], guards.class_start[g + 1] - 1
        for c in range(broken - 1, low - 1, -1):
            target = class_after(guards, symbol, start, stop, c, broken)
            if target == c:
                continue
            for p in range(guards.place_start[g], guards.place_start[g + 1]):
                node = np.uint64(guards.place[p] + c - low)
                here = node * lanes
                touched[0] = np.uint64(guards.place[p] + target - low) * lanes
                for w in range(width):
                    offset = np.uint64(w) * size
                    if opened.is_wide:
                        add_to_each_wide(m, e, touched, _ONE, offset, m, e, here + offset, at, runs)
                    else:
                        add_to_each(m, touched, _ONE, offset, m, here + offset, at, runs)
                for k in range(extremes):
                    offset = np.uint64(k) * size
                    lower_each(x, touched, _ONE, offset, x, here + offset, at, runs)
                _empty_node(room, node, width, extremes, opened)
