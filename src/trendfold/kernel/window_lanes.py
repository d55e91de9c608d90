"""The machine over events for many windows at once, where neighbours are found by their values.

Windows that overlap see the same events, ask for the same values and continue the same bindings; only how
much mass a binding has differs, because trends begin with their window. So a *batch* of windows is folded in
one pass, each a lane: whatever holds a number holds one per window. A lane is fed once its window has begun,
and read when it ends. The search is done once for all lanes, and the arithmetic on eight of them at a time.

States and the nodes of trees are vectors of lanes in one array, so that an event is two lists of places:
where it gathers, and where it leaves its mass. With lanes, what counts is how many nodes an event touches, so
trees are Fenwick trees where one side of a value is asked for, and otherwise have two children to a node.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.bits import first_word, leave, next_between, take
from trendfold.kernel.guards import class_after
from trendfold.kernel.jit import inlined, kernel
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
"""What is asked of a tree: single leaves, all leaves below a value, all above one, or any stretch of them."""

MOST_ASKED, MOST_ENTERED = 64, 33
"""Nodes that make up a stretch of a tree of 2^32 leaves, and those that a leaf of it is part of, at most."""

_ONE, _TWO, _NO_BITS = np.uint64(1), np.uint64(2), np.uint64(0)
_WORD, _LAST = np.uint64(6), np.uint64(63)


@kernel
def cut_batches(segment, low, high, lanes, first):
    """Windows in batches of one segment, at most `lanes` in each, that overlap; returns how many.

    first  int64[]  out: the first window of each batch, and where the last one ends
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

    first  int64[B+1]  the windows of each batch
    asks   int8[T]     what is asked of each tree
    room   Room        memory; its words are zeros
    """
    base, leaves, top = np.zeros((3, asks.shape[0]), np.uint64)
    for b in range(first.shape[0] - 1):
        begin, end = first[b], first[b + 1]
        low, high = lows[begin], highs[end - 1]
        lanes = np.uint64((end - begin + RUN - 1) // RUN * RUN)
        nodes = _number_leaves(index.leaf, low, high, asks, np.uint64(frame.states), room, base, leaves, top)
        size = nodes * lanes
        room.node_m[: frame.width * size] = 0.0
        room.node_x[: frame.extremes * size] = np.inf
        _fold(
            events,
            begin,
            end,
            lows,
            highs,
            steps,
            guards,
            frame,
            is_next,
            index,
            asks,
            room,
            base,
            leaves,
            top,
            lanes,
            size,
            out,
        )
        if is_next:
            _empty_sets(index, top, room.words)


@kernel
def _empty_sets(index, top, words):
    """Take all leaves out of the sets of all trees; none is after the last of the batch."""
    for t in range(top.shape[0]):
        last = top[t] >> _WORD
        for level in range(index.bit_levels[t]):
            start = index.bit_start[first_word(t) + level]
            words[start : start + last + _ONE] = 0
            last >>= _WORD


@kernel
def _number_leaves(leaf, low, high, asks, nodes, room, base, leaves, top):
    """Number the leaves of a batch's rows anew, tree by tree; returns how many nodes there are.

    The leaves of a segment are far more than those of a batch, so each tree is as small as its batch.

    base, leaves, top  uint64[T]  out: where the nodes of each tree begin, its leaves, and the last of these
    """
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
def _fold(
    events,
    begin,
    end,
    lows,
    highs,
    steps,
    guards,
    frame,
    is_next,
    index,
    asks,
    room,
    base,
    leaves,
    top,
    lanes,
    size,
    out,
):
    """Fold the windows [begin, end), a moment at a time: gather, spend, move classes, settle.

    Numbers are plain doubles until one of them is too large for that; from then on they are wide.
    """
    symbol, moment, values, lowest = events.symbol, events.moment, events.values, events.extremes
    step_start, src_start, src, dst_start, dst = (
        steps.step_start,
        steps.src_start,
        steps.src,
        steps.dst_start,
        steps.dst,
    )
    scan_start, kept_start, kept, weight, xweight = (
        steps.scan_start,
        steps.kept_start,
        steps.kept,
        steps.weight,
        steps.xweight,
    )
    is_start, span, leaf = steps.is_start, index.span, index.leaf
    tree_of, list_of = index.way, index.here  # an access has one tree
    of_start, of, bit_start, bit_levels = index.of_start, index.of, index.bit_start, index.bit_levels
    m, e, x = room.node_m, room.node_e, room.node_x
    got_m, got_e, got_x, has_mass = room.got_m, room.got_e, room.got_x, room.has_mass
    marks, before, words, holder, touched = room.marks, room.before, room.words, room.holder, room.touched
    width, extremes, pairs = frame.width, frame.extremes, span.shape[2]
    moves = guards.moves
    is_wide = False
    begun, ended = begin, begin
    i = lows[begin]
    while i < highs[end - 1]:
        j = i + 1
        while j < highs[end - 1] and moment[j] == moment[i]:
            j += 1
        while begun < end and lows[begun] <= i:
            m[np.uint64(frame.start) * lanes + np.uint64(begun - begin)] = 1.0
            begun += 1
        while ended < begun and highs[ended] <= i:
            _collect(ended, np.uint64(ended - begin), is_wide, frame, m, e, x, lanes, size, out)
            ended += 1
        at = np.uint64((ended - begin) // RUN * RUN)
        runs = np.uint64((begun - begin + RUN - 1) // RUN) - at // np.uint64(RUN)
        moved = False
        is_large = True
        while is_large:  # once more with wide numbers, if a double is not enough
            is_large = False
            slot = 0
            for r in range(i, j):
                moved |= moves[symbol[r]]
                for t in range(step_start[symbol[r]], step_start[symbol[r] + 1]):
                    count = np.uint64(0)
                    for o in range(src_start[t], src_start[t + 1]):
                        touched[count] = np.uint64(src[o]) * lanes
                        count += _ONE
                    for c in range(scan_start[t], scan_start[t + 1]):
                        tree = tree_of[c]
                        for p in range(0, pairs, 2):
                            low, high = span[tree, r, p], span[tree, r, p + 1]
                            if low == EMPTY:
                                continue
                            if is_next:
                                found = next_between(
                                    words, bit_start, first_word(tree), bit_levels[tree], low, high
                                )
                                while found != 0:
                                    place = base[tree] + _rank(marks, before, tree, found, top[tree]) - _ONE
                                    touched[count] = place * lanes
                                    count += _ONE
                                    found = next_between(
                                        words, bit_start, first_word(tree), bit_levels[tree], found, high
                                    )
                                continue
                            count = _asked(
                                asks[tree],
                                tree,
                                low,
                                high,
                                base[tree],
                                leaves[tree],
                                top[tree],
                                marks,
                                before,
                                lanes,
                                touched,
                                count,
                            )
                    own = np.uint64(slot)
                    has_mass[slot] = False
                    slot += 1
                    if count == 0:
                        continue
                    for w in range(width):
                        to, offset = (own * np.uint64(width) + np.uint64(w)) * lanes, np.uint64(w) * size
                        _empty_run(got_m, to, 0.0, at, runs)
                        if is_wide:
                            _empty_run(got_e, to, np.int32(0), at, runs)
                            add_up_wide(got_m, got_e, to, m, e, touched, count, offset, at, runs)
                        else:
                            add_up(got_m, to, m, touched, count, offset, at, runs)
                        if w == 0:
                            has_mass[slot - 1] = any_mass(got_m, to, at, runs)
                            if not has_mass[slot - 1]:
                                break
                    if not has_mass[slot - 1]:
                        continue
                    mass = own * np.uint64(width) * lanes
                    for w in range(width):
                        to, column = mass + np.uint64(w) * lanes, weight[t, w]
                        if w > 0 and column >= -1:
                            value = values[r, column] if column >= 0 else 1.0
                            if is_wide:
                                _weigh_wide(got_m, got_e, to, mass, value, at, runs)
                            else:
                                add_times(got_m, to, got_m, mass, value, at, runs)
                        is_large |= not is_wide and any_large(got_m, to, at, runs)
                    for k in range(extremes):
                        to, offset = (own * np.uint64(extremes) + np.uint64(k)) * lanes, np.uint64(k) * size
                        _empty_run(got_x, to, np.inf, at, runs)
                        take_least(got_x, to, x, touched, count, offset, at, runs)
                        if xweight[t, k] >= 0:
                            _weigh_extreme(got_x, to, got_m, mass, lowest[r, xweight[t, k]], at, runs)
            if is_large:
                _widen(m, e, np.uint64(width) * size)
                is_wide = True
        if is_next:
            for r in range(i, j):
                for t in range(step_start[symbol[r]], step_start[symbol[r] + 1]):
                    for o in range(src_start[t], src_start[t + 1]):
                        if not is_start[src[o]]:
                            _empty_node(m, e, x, np.uint64(src[o]) * lanes, size, width, extremes, at, runs)
                    for c in range(scan_start[t], scan_start[t + 1]):
                        tree = tree_of[c]
                        for p in range(0, pairs, 2):
                            low, high = span[tree, r, p], span[tree, r, p + 1]
                            found = next_between(
                                words, bit_start, first_word(tree), bit_levels[tree], low, high
                            )
                            while found != 0:
                                row = holder[tree, found]
                                for o in range(of_start[list_of[tree]], of_start[list_of[tree] + 1]):
                                    other, gone = of[o], np.uint64(leaf[of[o], row])
                                    if gone == 0:
                                        continue
                                    place = base[other] + _rank(marks, before, other, gone, top[other]) - _ONE
                                    _empty_node(m, e, x, place * lanes, size, width, extremes, at, runs)
                                    leave(words, bit_start, first_word(other), bit_levels[other], gone)
                                found = next_between(
                                    words, bit_start, first_word(tree), bit_levels[tree], found, high
                                )
        if moved:
            _move_classes(
                guards, symbol, i, j, is_wide, m, e, x, size, width, extremes, lanes, touched, at, runs
            )
        slot = 0
        for r in range(i, j):
            for t in range(step_start[symbol[r]], step_start[symbol[r] + 1]):
                own = np.uint64(slot)
                slot += 1
                if not has_mass[slot - 1]:
                    continue
                count = np.uint64(0)
                for d in range(dst_start[t], dst_start[t + 1]):
                    touched[count] = np.uint64(dst[d]) * lanes
                    count += _ONE
                for b in range(kept_start[t], kept_start[t + 1]):
                    for o in range(of_start[kept[b]], of_start[kept[b] + 1]):
                        tree = of[o]
                        if leaf[tree, r] <= 0:
                            continue
                        one = np.uint64(leaf[tree, r])
                        rank = _rank(marks, before, tree, one, top[tree])
                        count = _entered(asks[tree], rank, base[tree], leaves[tree], lanes, touched, count)
                        if is_next:
                            holder[tree, one] = r
                            take(words, bit_start, first_word(tree), bit_levels[tree], one)
                for w in range(width):
                    added, offset = (own * np.uint64(width) + np.uint64(w)) * lanes, np.uint64(w) * size
                    if is_wide:
                        add_to_each_wide(m, e, touched, count, offset, got_m, got_e, added, at, runs)
                    else:
                        add_to_each(m, touched, count, offset, got_m, added, at, runs)
                for k in range(extremes):
                    added, offset = (own * np.uint64(extremes) + np.uint64(k)) * lanes, np.uint64(k) * size
                    lower_each(x, touched, count, offset, got_x, added, at, runs)
        i = j
    while ended < end:
        _collect(ended, np.uint64(ended - begin), is_wide, frame, m, e, x, lanes, size, out)
        ended += 1


@kernel
def _asked(asked, tree, low, high, base, leaves, top, marks, before, lanes, touched, count):
    """List the nodes of a tree that make up the leaves strictly between two; returns the list's length."""
    a = _rank(marks, before, tree, np.uint64(low), top)
    b = leaves if high == OPEN else _rank(marks, before, tree, np.uint64(high) - _ONE, top)
    if a >= b:
        return count
    if asked == FLAT:
        touched[count] = (base + a) * lanes
        return count + _ONE
    if asked != BETWEEN:
        upto = b if asked == BELOW else leaves - a
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
def _entered(asked, rank, base, leaves, lanes, touched, count):
    """List the nodes of a tree that a leaf is part of, its rank from 1 on; returns the list's length."""
    if asked == FLAT:
        touched[count] = (base + rank - _ONE) * lanes
        return count + _ONE
    if asked == BETWEEN:
        node = rank - _ONE + leaves
        while node > 0:
            touched[count] = (base + node) * lanes
            count += _ONE
            node >>= _ONE
        return count
    node = rank if asked == BELOW else leaves + _ONE - rank
    while node <= leaves:
        touched[count] = (base + node - _ONE) * lanes
        count += _ONE
        node += node & (~node + _ONE)
    return count


@inlined
def _empty_run(numbers, place, nothing, at, runs):
    for lane in range(place + at, place + at + runs * np.uint64(RUN)):
        numbers[lane] = nothing


@kernel
def _empty_node(m, e, x, place, size, width, extremes, at, runs):
    """Set all numbers of a vector of lanes to zero, in a run."""
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
    """Plain doubles as wide numbers."""
    for i in range(count):
        m[i], e[i] = normalise(m[i], np.int32(0))


@kernel
def _move_classes(
    guards, symbol, start, stop, is_wide, m, e, x, size, width, extremes, lanes, touched, at, runs
):
    """`guards.move_classes`, for all lanes."""
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
    """The whole trends of a window whose lane is done."""
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
