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

The phases of `_fold` are inlined, and their records are lent: calling them with counted arrays made the
kernel 4 times slower (COUNT over windows of 9 s sliding by 100 ms: 3.0 ms instead of 0.7 ms).
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
    events, steps, guards, index = lent(events), lent(steps), lent(guards), lent(index)
    room, trees, out = lent(room), lent(trees), lent(out)
    symbol, moment, windows = events.symbol, events.moment, lows.shape[0]
    last = highs[windows - 1]
    is_wide = False
    begun = ended = 0
    i = lows[0]
    while i < last:
        j = i + 1
        while j < last and moment[j] == moment[i]:
            j += 1
        while begun < windows and lows[begun] <= i:
            room.node_m[np.uint64(frame.start) * lanes + np.uint64(begun)] = 1.0
            begun += 1
        while ended < begun and highs[ended] <= i:
            _collect(first + ended, np.uint64(ended), is_wide, frame, room, lanes, size, out)
            ended += 1
        at = np.uint64(ended // RUN * RUN)
        runs = np.uint64((begun + RUN - 1) // RUN) - at // np.uint64(RUN)
        while _gather(
            events, i, j, is_wide, steps, frame, is_next, index, trees, room, lanes, size, at, runs
        ):
            _widen(room.node_m, room.node_e, np.uint64(frame.width) * size)
            is_wide = True
        if is_next:
            _spend(symbol, i, j, steps, frame, index, trees, room, lanes, size, at, runs)
        if _moves_any(symbol, i, j, guards.moves):
            _move_classes(guards, symbol, i, j, is_wide, frame, room, lanes, size, at, runs)
        _settle(symbol, i, j, is_wide, steps, frame, is_next, index, trees, room, lanes, size, at, runs)
        i = j
    while ended < windows:
        _collect(first + ended, np.uint64(ended), is_wide, frame, room, lanes, size, out)
        ended += 1


@inlined
def _moves_any(symbol, i, j, moves):
    """Whether any event of the moment [i, j) moves mass between classes."""
    moved = False
    for r in range(i, j):
        moved |= moves[symbol[r]]
    return moved


# ---- Gather: the mass that each step of the moment continues ---------------------------------------


@inlined
def _gather(events, i, j, is_wide, steps, frame, is_next, index, trees, room, lanes, size, at, runs):
    """Gather for every step of the rows [i, j), in slots of `room.got_*`, one after the other.

    Returns whether a double has become too large: then the moment must be gathered again, in wide numbers.
    """
    symbol, step_start = events.symbol, steps.step_start
    is_large = False
    slot = 0
    for r in range(i, j):
        for t in range(step_start[symbol[r]], step_start[symbol[r] + 1]):
            count = _list_sources(t, r, steps, is_next, index, trees, room, lanes)
            room.has_mass[slot] = count > 0 and _add_sources(
                slot, count, is_wide, frame, room, lanes, size, at, runs
            )
            if room.has_mass[slot]:
                is_large |= _weigh(events, r, t, slot, is_wide, steps, frame, room, lanes, at, runs)
                _gather_extremes(events, r, t, slot, count, steps, frame, room, lanes, size, at, runs)
            slot += 1
    return is_large


@inlined
def _list_sources(t, r, steps, is_next, index, trees, room, lanes):
    """List in `room.touched` the vectors that step t of row r gathers from; returns how many."""
    touched, span, way = room.touched, index.span, index.way  # an access has one tree
    count = np.uint64(0)
    for o in range(steps.src_start[t], steps.src_start[t + 1]):
        touched[count] = np.uint64(steps.src[o]) * lanes
        count += _ONE
    for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
        tree = way[c]
        for p in range(0, span.shape[2], 2):
            low, high = span[tree, r, p], span[tree, r, p + 1]
            if low == EMPTY:
                continue
            if is_next:
                count = _list_taken(tree, low, high, index, trees, room, lanes, count)
            else:
                count = _list_range(tree, low, high, trees, room, lanes, count)
    return count


@inlined
def _list_taken(tree, low, high, index, trees, room, lanes, count):
    """List the bindings between two leaves that are not continued yet, one by one."""
    at, levels = first_word(tree), index.bit_levels[tree]
    leaf = next_between(room.words, index.bit_start, at, levels, low, high)
    while leaf != 0:
        room.touched[count] = _leaf_node(tree, leaf, trees, room) * lanes
        count += _ONE
        leaf = next_between(room.words, index.bit_start, at, levels, leaf, high)
    return count


@inlined
def _leaf_node(tree, leaf, trees, room):
    """The node of a leaf, in a tree that has leaves only."""
    return trees.base[tree] + _rank(room.marks, room.before, tree, leaf, trees.top[tree]) - _ONE


@inlined
def _add_sources(slot, count, is_wide, frame, room, lanes, size, at, runs):
    """Add the listed vectors up in a slot, number by number; whether there is any mass."""
    has_mass = True
    for w in range(frame.width):
        if has_mass:
            to, offset = _number_of(slot, w, frame.width, lanes), np.uint64(w) * size
            _empty_run(room.got_m, to, 0.0, at, runs)
            if is_wide:
                _empty_run(room.got_e, to, np.int32(0), at, runs)
                add_up_wide(
                    room.got_m,
                    room.got_e,
                    to,
                    room.node_m,
                    room.node_e,
                    room.touched,
                    count,
                    offset,
                    at,
                    runs,
                )
            else:
                add_up(room.got_m, to, room.node_m, room.touched, count, offset, at, runs)
            if w == 0:
                has_mass = any_mass(room.got_m, to, at, runs)
    return has_mass


@inlined
def _number_of(slot, w, width, lanes):
    """Where number w of a slot begins among what a moment gathers."""
    return (np.uint64(slot) * np.uint64(width) + np.uint64(w)) * lanes


@inlined
def _weigh(events, r, t, slot, is_wide, steps, frame, room, lanes, at, runs):
    """Add count times value to the numbers that step t feeds; whether a double has become too large."""
    mass = _number_of(slot, 0, frame.width, lanes)
    is_large = False
    for w in range(frame.width):
        to, column = mass + np.uint64(w) * lanes, steps.weight[t, w]
        if w > 0 and column >= -1:
            value = events.values[r, column] if column >= 0 else 1.0
            if is_wide:
                _weigh_wide(room.got_m, room.got_e, to, mass, value, at, runs)
            else:
                add_times(room.got_m, to, room.got_m, mass, value, at, runs)
        is_large |= not is_wide and any_large(room.got_m, to, at, runs)
    return is_large


@inlined
def _gather_extremes(events, r, t, slot, count, steps, frame, room, lanes, size, at, runs):
    """The least of the listed vectors, and of the event's own value in lanes that have mass."""
    mass = _number_of(slot, 0, frame.width, lanes)
    for k in range(frame.extremes):
        to, column = _number_of(slot, k, frame.extremes, lanes), steps.xweight[t, k]
        _empty_run(room.got_x, to, np.inf, at, runs)
        take_least(room.got_x, to, room.node_x, room.touched, count, np.uint64(k) * size, at, runs)
        if column >= 0:
            _weigh_extreme(room.got_x, to, room.got_m, mass, events.extremes[r, column], at, runs)


# ---- Spend and settle ------------------------------------------------------------------------------


@inlined
def _spend(symbol, i, j, steps, frame, index, trees, room, lanes, size, at, runs):
    """Under *next*, empty what the rows [i, j) have continued: states, and bindings in all their trees."""
    span, words = index.span, room.words
    for r in range(i, j):
        for t in range(steps.step_start[symbol[r]], steps.step_start[symbol[r] + 1]):
            for o in range(steps.src_start[t], steps.src_start[t + 1]):
                if not steps.is_start[steps.src[o]]:
                    _empty_node(room, np.uint64(steps.src[o]) * lanes, size, frame, at, runs)
            for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
                tree = index.way[c]
                start, levels = first_word(tree), index.bit_levels[tree]
                for p in range(0, span.shape[2], 2):
                    low, high = span[tree, r, p], span[tree, r, p + 1]
                    leaf = next_between(words, index.bit_start, start, levels, low, high)
                    while leaf != 0:
                        row = room.holder[tree, leaf]
                        _remove_binding(
                            index.here[tree], row, frame, index, trees, room, lanes, size, at, runs
                        )
                        leaf = next_between(words, index.bit_start, start, levels, leaf, high)


@inlined
def _remove_binding(here, row, frame, index, trees, room, lanes, size, at, runs):
    """Take the binding that a row made out of all trees of list `here`."""
    for o in range(index.of_start[here], index.of_start[here + 1]):
        tree = index.of[o]
        leaf = np.uint64(index.leaf[tree, row])
        if leaf != 0:
            _empty_node(room, _leaf_node(tree, leaf, trees, room) * lanes, size, frame, at, runs)
            leave(room.words, index.bit_start, first_word(tree), index.bit_levels[tree], leaf)


@inlined
def _settle(symbol, i, j, is_wide, steps, frame, is_next, index, trees, room, lanes, size, at, runs):
    """Add what the steps of the rows [i, j) have gathered to their states and trees."""
    step_start, touched = steps.step_start, room.touched
    slot = 0
    for r in range(i, j):
        for t in range(step_start[symbol[r]], step_start[symbol[r] + 1]):
            if room.has_mass[slot]:
                count = _list_targets(t, r, steps, is_next, index, trees, room, lanes)
                for w in range(frame.width):
                    added, offset = _number_of(slot, w, frame.width, lanes), np.uint64(w) * size
                    if is_wide:
                        add_to_each_wide(
                            room.node_m,
                            room.node_e,
                            touched,
                            count,
                            offset,
                            room.got_m,
                            room.got_e,
                            added,
                            at,
                            runs,
                        )
                    else:
                        add_to_each(room.node_m, touched, count, offset, room.got_m, added, at, runs)
                for k in range(frame.extremes):
                    added, offset = _number_of(slot, k, frame.extremes, lanes), np.uint64(k) * size
                    lower_each(room.node_x, touched, count, offset, room.got_x, added, at, runs)
            slot += 1


@inlined
def _list_targets(t, r, steps, is_next, index, trees, room, lanes):
    """List in `room.touched` the vectors that step t of row r adds to; returns how many."""
    count = np.uint64(0)
    for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
        room.touched[count] = np.uint64(steps.dst[d]) * lanes
        count += _ONE
    for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
        here = steps.kept[b]
        for o in range(index.of_start[here], index.of_start[here + 1]):
            tree = index.of[o]
            if index.leaf[tree, r] > 0:
                leaf = np.uint64(index.leaf[tree, r])
                count = _list_ancestors(tree, leaf, trees, room, lanes, count)
                if is_next:
                    room.holder[tree, leaf] = r
                    take(room.words, index.bit_start, first_word(tree), index.bit_levels[tree], leaf)
    return count


# ---- Nodes of a tree -------------------------------------------------------------------------------


@inlined
def _list_range(tree, low, high, trees, room, lanes, count):
    """List the nodes that add up to the leaves strictly between two; returns the list's new length."""
    marks, before, touched = room.marks, room.before, room.touched
    asks, base, leaves, top = trees.asks[tree], trees.base[tree], trees.leaves[tree], trees.top[tree]
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


@inlined
def _list_ancestors(tree, leaf, trees, room, lanes, count):
    """List the nodes that a leaf is part of; returns the list's new length."""
    touched = room.touched
    asks, base, leaves, top = trees.asks[tree], trees.base[tree], trees.leaves[tree], trees.top[tree]
    rank = _rank(room.marks, room.before, tree, leaf, top)
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


@inlined
def _empty_node(room, place, size, frame, at, runs):
    """Set all numbers of a vector to zero in its open lanes."""
    for w in range(frame.width):
        _empty_run(room.node_m, place + np.uint64(w) * size, 0.0, at, runs)
        _empty_run(room.node_e, place + np.uint64(w) * size, np.int32(0), at, runs)
    for k in range(frame.extremes):
        _empty_run(room.node_x, place + np.uint64(k) * size, np.inf, at, runs)


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
def _move_classes(guards, symbol, start, stop, is_wide, frame, room, lanes, size, at, runs):
    """`guards.move_classes`, for all open lanes."""
    m, e, x, touched = room.node_m, room.node_e, room.node_x, room.touched
    for g in range(guards.class_start.shape[0] - 1):
        low, broken = guards.class_start[g], guards.class_start[g + 1] - 1
        for c in range(broken - 1, low - 1, -1):
            target = class_after(guards, symbol, start, stop, c, broken)
            if target == c:
                continue
            for p in range(guards.place_start[g], guards.place_start[g + 1]):
                here = np.uint64(guards.place[p] + c - low) * lanes
                touched[0] = np.uint64(guards.place[p] + target - low) * lanes
                for w in range(frame.width):
                    offset = np.uint64(w) * size
                    if is_wide:
                        add_to_each_wide(m, e, touched, _ONE, offset, m, e, here + offset, at, runs)
                    else:
                        add_to_each(m, touched, _ONE, offset, m, here + offset, at, runs)
                for k in range(frame.extremes):
                    offset = np.uint64(k) * size
                    lower_each(x, touched, _ONE, offset, x, here + offset, at, runs)
                _empty_node(room, here, size, frame, at, runs)


@kernel
def _collect(k, lane, is_wide, frame, room, lanes, size, out):
    """Write the whole trends of a window whose lane is complete to row k."""
    m, e, x = room.node_m, room.node_e, room.node_x
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
