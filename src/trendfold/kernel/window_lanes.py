"""The machine over events for many windows at once, where neighbours are found by their values.

Overlapping windows see the same events, ask for the same values and continue the same bindings. They differ
only in how much mass a binding has, because trends begin with their window. So a *batch* of windows is folded
in one pass, a lane per window: for each lane, with q a position that the event e can take,

    mass(e, q) = sum of the states q follows + sum of the bindings that satisfy q's predicates      (gather)
    state(q), and the trees of q, += mass(e, q), for events of one moment together                  (settle)

The search for bindings is done once for all lanes, and the arithmetic on eight lanes at a time. A lane is fed
once its window has begun, and read when it ends.

States and the nodes of trees are vectors of lanes in one flat array (`Room.node_m`), so that an event is two
lists of places (`Room.touched`): where it gathers, and where it leaves its mass. With lanes, cost is the
number of nodes an event touches, so trees are Fenwick trees where one side of a value is asked for, and
binary trees otherwise.

The lists of places are inlined, and records that are handed on are small and lent. As functions of whole
records, the phases of `_fold` were 4 times slower (COUNT over windows of 9 s sliding by 100 ms: 3.0 ms, not
0.7 ms); inlined with whole records, they took 16 s to compile instead of 7 s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bits import first_word, leave, next_between, take
from trendfold.kernel.guards import class_after
from trendfold.kernel.jit import inlined, kernel, lent
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

_ONE, _TWO = np.uint64(1), np.uint64(2)
_WORD, _LAST = np.uint64(6), np.uint64(63)


class BatchTrees(NamedTuple):
    """The trees of one batch; T is the number of trees, one per access.

    asks    int8[T]    what is asked of each: FLAT, BELOW, ABOVE or BETWEEN
    base    uint64[T]  where its nodes begin
    leaves  uint64[T]  how many leaves the batch has in it
    top     uint64[T]  the last of these, as the segment numbers them
    """

    asks: NDArray[np.int8]
    base: NDArray[np.uint64]
    leaves: NDArray[np.uint64]
    top: NDArray[np.uint64]


class BatchSteps(NamedTuple):
    """The arrays of BindingSteps that a batch reads."""

    step_start: NDArray[np.int32]
    src_start: NDArray[np.int32]
    src: NDArray[np.int32]
    scan_start: NDArray[np.int32]
    dst_start: NDArray[np.int32]
    dst: NDArray[np.int32]
    kept_start: NDArray[np.int32]
    kept: NDArray[np.int32]


class BatchIndex(NamedTuple):
    """The arrays of BindingIndex that a batch reads; an access has one tree."""

    way: NDArray[np.int32]
    span: NDArray[np.int32]
    leaf: NDArray[np.int32]
    of_start: NDArray[np.int32]
    of: NDArray[np.int32]


class LeafSets(NamedTuple):
    """The bindings of each tree that are not continued yet, under *next* (see kernel.bits)."""

    words: NDArray[np.uint64]
    start: NDArray[np.uint64]
    levels: NDArray[np.uint64]
    holder: NDArray[np.int32]


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
def fold_batches(events, first, lows, highs, steps, guards, frame, is_next, index, asks, room, out):
    """Fold every batch of windows; the whole trends of window k go to row k of `out`.

    first        int64[B+1]  the windows of each batch
    lows, highs  int64[n]    per window its rows
    asks         int8[T]     what is asked of each tree
    room         Room        memory; its words are zeros
    """
    base, leaves, top = np.zeros((3, asks.shape[0]), np.uint64)
    trees = BatchTrees(asks, base, leaves, top)
    for b in range(first.shape[0] - 1):
        begin, end = first[b], first[b + 1]
        lanes = np.uint64((end - begin + RUN - 1) // RUN * RUN)
        nodes = _number_leaves(index.leaf, lows[begin], highs[end - 1], np.uint64(frame.states), room, trees)
        size = nodes * lanes
        room.node_m[: frame.width * size] = 0.0
        room.node_x[: frame.extremes * size] = np.inf
        _fold(
            events,
            lows[begin:end],
            highs[begin:end],
            begin,
            steps,
            guards,
            frame,
            is_next,
            index,
            trees,
            room,
            lanes,
            size,
            out,
        )
        if is_next:
            _empty_sets(index, top, room.words)


@kernel
def _empty_sets(index, top, words):
    """Empty the leaf sets of all trees, up to the last leaf of the batch."""
    for t in range(top.shape[0]):
        last = top[t] >> _WORD
        for level in range(index.bit_levels[t]):
            start = index.bit_start[first_word(t) + level]
            words[start : start + last + _ONE] = 0
            last >>= _WORD


@kernel
def _number_leaves(leaf, low, high, nodes, room, trees):
    """Number the leaves of a batch's rows anew, tree by tree; returns how many nodes there are.

    A segment has far more leaves than a batch, so each tree is as small as its batch. `trees` is filled in.
    """
    asks, base, leaves, top = trees
    marks, before = room.marks, room.before
    for t in range(asks.shape[0]):
        top[t] = max(0, leaf[t, low:high].max())
        marks[t, : (top[t] >> _WORD) + _ONE] = 0
        for i in range(low, high):
            if leaf[t, i] > 0:
                here = np.uint64(leaf[t, i])
                marks[t, here >> _WORD] |= _ONE << (here & _LAST)
        count = np.uint64(0)
        for word in range((top[t] >> _WORD) + _ONE):
            before[t, word] = count
            count += count_bits(marks[t, word])
        base[t], leaves[t] = nodes, count
        nodes += _TWO * count if asks[t] == BETWEEN else count
    return nodes


@inlined
def _rank(marks, before, tree, leaf, top):
    """How many of the batch's leaves are not after one."""
    here = min(leaf, top)
    word = marks[tree, here >> _WORD] & ((_TWO << (here & _LAST)) - _ONE)
    return np.uint64(before[tree, here >> _WORD]) + count_bits(word)


@kernel
def _fold(events, lows, highs, first, steps, guards, frame, is_next, index, trees, room, lanes, size, out):
    """Fold the windows of one batch, a moment at a time: gather, spend, move classes, settle.

    Numbers are plain doubles until one of them is too large for that; from then on they are wide.

    lows, highs  int64[]  rows of the batch's windows; the first of them is window `first`
    lanes, size           lanes of a vector, and all lanes of all nodes
    """
    steps, index, room, trees = lent(steps), lent(index), lent(room), lent(trees)
    symbol, moment, values, lowest = events.symbol, events.moment, events.values, events.extremes
    step_start, weight, xweight, is_start = steps.step_start, steps.weight, steps.xweight, steps.is_start
    own_steps = BatchSteps(
        step_start,
        steps.src_start,
        steps.src,
        steps.scan_start,
        steps.dst_start,
        steps.dst,
        steps.kept_start,
        steps.kept,
    )
    own_index = BatchIndex(index.way, index.span, index.leaf, index.of_start, index.of)
    sets = LeafSets(room.words, index.bit_start, index.bit_levels, room.holder)
    m, e, x = room.node_m, room.node_e, room.node_x
    got_m, got_e, got_x, has_mass, touched = room.got_m, room.got_e, room.got_x, room.has_mass, room.touched
    marks, before, moves = room.marks, room.before, guards.moves
    width, extremes, windows = frame.width, frame.extremes, lows.shape[0]
    last = highs[windows - 1]
    is_wide = False
    begun = ended = 0
    i = lows[0]
    while i < last:
        j = i + 1
        while j < last and moment[j] == moment[i]:
            j += 1
        while begun < windows and lows[begun] <= i:
            m[np.uint64(frame.start) * lanes + np.uint64(begun)] = 1.0
            begun += 1
        while ended < begun and highs[ended] <= i:
            _collect(first + ended, np.uint64(ended), is_wide, frame, m, e, x, lanes, size, out)
            ended += 1
        at = np.uint64(ended // RUN * RUN)
        runs = np.uint64((begun + RUN - 1) // RUN) - at // np.uint64(RUN)
        moved = False
        is_large = True
        while is_large:  # once more with wide numbers, if a double is not enough
            is_large = False
            slot = 0
            for r in range(i, j):
                moved |= moves[symbol[r]]
                for t in range(step_start[symbol[r]], step_start[symbol[r] + 1]):
                    count = _list_sources(
                        t, r, own_steps, is_next, own_index, sets, trees, marks, before, lanes, touched
                    )
                    mass = np.uint64(slot) * np.uint64(width) * lanes
                    has_mass[slot] = False
                    for w in range(width if count > 0 else 0):
                        to, offset = mass + np.uint64(w) * lanes, np.uint64(w) * size
                        if w == 0 or has_mass[slot]:
                            _add_sources(is_wide, got_m, got_e, to, m, e, touched, count, offset, at, runs)
                        if w == 0:
                            has_mass[slot] = any_mass(got_m, to, at, runs)
                    for w in range(width if has_mass[slot] else 0):
                        to, column = mass + np.uint64(w) * lanes, weight[t, w]
                        if w > 0 and column >= -1:
                            value = values[r, column] if column >= 0 else 1.0
                            _weigh(is_wide, got_m, got_e, to, mass, value, at, runs)
                        is_large |= not is_wide and any_large(got_m, to, at, runs)
                    for k in range(extremes if has_mass[slot] else 0):
                        to = (np.uint64(slot) * np.uint64(extremes) + np.uint64(k)) * lanes
                        _empty_run(got_x, to, np.inf, at, runs)
                        take_least(got_x, to, x, touched, count, np.uint64(k) * size, at, runs)
                        if xweight[t, k] >= 0:
                            _weigh_extreme(got_x, to, got_m, mass, lowest[r, xweight[t, k]], at, runs)
                    slot += 1
            if is_large:
                _widen(m, e, np.uint64(width) * size)
                is_wide = True
        if is_next:
            _spend(
                symbol, i, j, own_steps, is_start, index.here, own_index, sets, trees, marks, before,
                m, e, x, width, extremes, lanes, size, at, runs,
            )  # fmt: skip
        if moved:
            _move_classes(
                guards, symbol, i, j, is_wide, m, e, x, size, width, extremes, lanes, touched, at, runs
            )
        slot = 0
        for r in range(i, j):
            for t in range(step_start[symbol[r]], step_start[symbol[r] + 1]):
                if has_mass[slot]:
                    count = _list_targets(
                        t, r, own_steps, is_next, own_index, sets, trees, marks, before, lanes, touched
                    )
                    for w in range(width):
                        added = (np.uint64(slot) * np.uint64(width) + np.uint64(w)) * lanes
                        offset = np.uint64(w) * size
                        if is_wide:
                            add_to_each_wide(m, e, touched, count, offset, got_m, got_e, added, at, runs)
                        else:
                            add_to_each(m, touched, count, offset, got_m, added, at, runs)
                    for k in range(extremes):
                        added = (np.uint64(slot) * np.uint64(extremes) + np.uint64(k)) * lanes
                        lower_each(x, touched, count, np.uint64(k) * size, got_x, added, at, runs)
                slot += 1
        i = j
    while ended < windows:
        _collect(first + ended, np.uint64(ended), is_wide, frame, m, e, x, lanes, size, out)
        ended += 1


# ---- What a step gathers ---------------------------------------------------------------------------


@inlined
def _list_sources(t, r, steps, is_next, index, sets, trees, marks, before, lanes, touched):
    """List in `touched` the vectors that step t of row r gathers from; returns how many."""
    count = np.uint64(0)
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
                    touched[count] = _leaf_node(trees, marks, before, tree, leaf) * lanes
                    count += _ONE
                    leaf = _next_leaf(sets, tree, leaf, high)
            else:
                count = _list_range(
                    trees.asks[tree],
                    tree,
                    low,
                    high,
                    trees.base[tree],
                    trees.leaves[tree],
                    trees.top[tree],
                    marks,
                    before,
                    lanes,
                    touched,
                    count,
                )
    return count


@inlined
def _next_leaf(sets, tree, low, high):
    """The first leaf between two whose binding is not continued yet, or 0."""
    return next_between(sets.words, sets.start, first_word(tree), sets.levels[tree], low, high)


@inlined
def _leaf_node(trees, marks, before, tree, leaf):
    """The node of a leaf, in a tree that has leaves only."""
    return trees.base[tree] + _rank(marks, before, tree, leaf, trees.top[tree]) - _ONE


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


# ---- What a moment uses up, and where it adds to ---------------------------------------------------


@kernel
def _spend(
    symbol, i, j, steps, is_start, list_of, index, sets, trees, marks, before,
    m, e, x, width, extremes, lanes, size, at, runs,
):  # fmt: skip
    """Under *next*, empty what the rows [i, j) have continued: states, and bindings in all their trees."""
    for r in range(i, j):
        for t in range(steps.step_start[symbol[r]], steps.step_start[symbol[r] + 1]):
            for o in range(steps.src_start[t], steps.src_start[t + 1]):
                if not is_start[steps.src[o]]:
                    _empty_node(m, e, x, np.uint64(steps.src[o]) * lanes, size, width, extremes, at, runs)
            for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
                tree = index.way[c]
                for p in range(0, index.span.shape[2], 2):
                    high = index.span[tree, r, p + 1]
                    leaf = _next_leaf(sets, tree, index.span[tree, r, p], high)
                    while leaf != 0:
                        row, here = sets.holder[tree, leaf], list_of[tree]
                        for o in range(index.of_start[here], index.of_start[here + 1]):
                            other, gone = index.of[o], np.uint64(index.leaf[index.of[o], row])
                            if gone != 0:
                                place = _leaf_node(trees, marks, before, other, gone) * lanes
                                _empty_node(m, e, x, place, size, width, extremes, at, runs)
                                leave(sets.words, sets.start, first_word(other), sets.levels[other], gone)
                        leaf = _next_leaf(sets, tree, leaf, high)


@inlined
def _list_targets(t, r, steps, is_next, index, sets, trees, marks, before, lanes, touched):
    """List in `touched` the vectors that step t of row r adds to; returns how many."""
    count = np.uint64(0)
    for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
        touched[count] = np.uint64(steps.dst[d]) * lanes
        count += _ONE
    for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
        here = steps.kept[b]
        for o in range(index.of_start[here], index.of_start[here + 1]):
            tree = index.of[o]
            if index.leaf[tree, r] > 0:
                leaf = np.uint64(index.leaf[tree, r])
                rank = _rank(marks, before, tree, leaf, trees.top[tree])
                count = _list_ancestors(
                    trees.asks[tree], rank, trees.base[tree], trees.leaves[tree], lanes, touched, count
                )
                if is_next:
                    sets.holder[tree, leaf] = r
                    take(sets.words, sets.start, first_word(tree), sets.levels[tree], leaf)
    return count


# ---- Nodes of a tree -------------------------------------------------------------------------------


@kernel
def _list_range(asks, tree, low, high, base, leaves, top, marks, before, lanes, touched, count):
    """List the nodes that add up to the leaves strictly between two; returns the list's new length."""
    a = _rank(marks, before, tree, np.uint64(low), top)
    b = leaves if high == OPEN else _rank(marks, before, tree, np.uint64(high) - _ONE, top)
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
def _empty_node(m, e, x, place, size, width, extremes, at, runs):
    """Set all numbers of a vector to zero in its open lanes."""
    for w in range(width):
        _empty_run(m, place + np.uint64(w) * size, 0.0, at, runs)
        _empty_run(e, place + np.uint64(w) * size, np.int32(0), at, runs)
    for k in range(extremes):
        _empty_run(x, place + np.uint64(k) * size, np.inf, at, runs)


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
def _move_classes(
    guards, symbol, start, stop, is_wide, m, e, x, size, width, extremes, lanes, touched, at, runs
):
    """`guards.move_classes`, for all open lanes."""
    for g in range(guards.class_start.shape[0] - 1):
        low, broken = guards.class_start[g], guards.class_start[g + 1] - 1
        for c in range(broken - 1, low - 1, -1):
            target = class_after(guards, symbol, start, stop, c, broken)
            if target == c:
                continue
            for p in range(guards.place_start[g], guards.place_start[g + 1]):
                here = np.uint64(guards.place[p] + c - low) * lanes
                touched[0] = np.uint64(guards.place[p] + target - low) * lanes
                for w in range(width):
                    offset = np.uint64(w) * size
                    if is_wide:
                        add_to_each_wide(m, e, touched, _ONE, offset, m, e, here + offset, at, runs)
                    else:
                        add_to_each(m, touched, _ONE, offset, m, here + offset, at, runs)
                for k in range(extremes):
                    offset = np.uint64(k) * size
                    lower_each(x, touched, _ONE, offset, x, here + offset, at, runs)
                _empty_node(m, e, x, here, size, width, extremes, at, runs)


@kernel
def _collect(k, lane, is_wide, frame, m, e, x, lanes, size, out):
    """Write the whole trends of a window whose lane is complete to row k."""
    for s in frame.whole:
        place = np.uint64(s) * lanes + lane
        for w in range(frame.width):
            here = place + np.uint64(w) * size
            part_m, part_e = normalise(m[here], e[here] if is_wide else np.int32(0))
            out.mantissa[k, w], out.exponent[k, w] = add(
                out.mantissa[k, w], out.exponent[k, w], part_m, part_e
            )
        for f in range(frame.extremes):
            out.extreme[k, f] = min(out.extreme[k, f], x[place + np.uint64(f) * size])
