"""Sequences built over events, shared between queries, and counted window by window: E-Cube.

An event extends every sequence of the prefix before its own. Those that complete a piece are joined with the
sequences of the pieces before it that ended earlier. A sequence is its last event and what it continues: five
numbers whatever its length. Every window walks through the sequences it holds.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.wide import add, times
from trendfold.papers.aseq.stacks import Built

FREE, ROOM, BUILT = range(3)
"""The places of `Built.counts`."""


@kernel
def build_sequences(events, segment, stops, program, built, limit, out):
    """Build the sequences of all segments and add up those of every item; returns how many were built.

    It stops when these are more than `limit`.
    """
    symbol, moment, item = events.symbol, events.moment, 0
    for s in range(segment.shape[0] - 1):
        _clear(built)
        i, high = segment[s], segment[s + 1]
        while i < high:
            j = i
            while j < high and moment[j] == moment[i]:
                if stops.floor[j] <= j:
                    for t in range(program.take_start[symbol[j]], program.take_start[symbol[j] + 1]):
                        built = _take(program.take[t], j, events, stops.floor[j], program, built)
                        if built.counts[BUILT] > limit:
                            return built.counts[BUILT]
                j += 1
            while item < stops.high.shape[0] and stops.high[item] <= j:
                _add_up(item, events, stops, program, built, out)
                item += 1
            i = j
    return built.counts[BUILT]


@kernel
def _clear(built):
    """Begin a segment without sequences."""
    room = built.row.shape[0]
    built.top[:] = -1
    built.size[:] = 0
    for k in range(room):
        built.below[k] = k + 1 if k + 1 < room else -1
    built.counts[FREE], built.counts[ROOM] = 0, room


@kernel
def _take(node, i, events, floor, program, built):
    """Row i takes the last step of a node: the sequences of its parent go on, or one begins."""
    moment, parent = events.moment, program.parent[node]
    built = _with_room(built, 1 if parent < 0 else built.size[parent])
    if parent < 0:
        _push(node, i, i, -1, -1, built)
    else:
        at = _newest(parent, floor, built)
        while at >= 0:
            if moment[built.row[at]] < moment[i]:
                _push(node, i, built.begin[at], at, -1, built)
            at = _older(parent, at, floor, built)
    for k in range(program.join_start[node], program.join_start[node + 1]):
        built = _join(program.join[k], node, i, events, floor, program, built)
    return built


@kernel
def _join(joint, node, i, events, floor, program, built):
    """Join the sequences that row i completed at a node with those that ended before they began."""
    moment, left, own = events.moment, program.left[joint], program.parent.shape[0] + joint
    right = built.top[node]
    while right >= 0 and built.row[right] == i:
        built = _with_room(built, built.size[left])
        at = _newest(left, floor, built)
        while at >= 0:
            if moment[built.row[at]] < moment[built.begin[right]]:
                _push(own, i, built.begin[at], at, right, built)
            at = _older(left, at, floor, built)
        right = built.below[right]
    return built


@inlined
def _push(stack, row, begin, left, right, built):
    """Put a sequence on top of a stack; there is room."""
    to = built.counts[FREE]
    built.counts[FREE] = built.below[to]
    built.counts[ROOM] -= 1
    built.counts[BUILT] += 1
    built.row[to], built.begin[to], built.left[to], built.right[to] = row, begin, left, right
    built.below[to] = built.top[stack]
    built.top[stack] = to
    built.size[stack] += 1


@inlined
def _newest(stack, floor, built):
    """The newest sequence of a stack that begins at row `floor` or later; those above it are dropped."""
    at = built.top[stack]
    while at >= 0 and built.begin[at] < floor:
        under = built.below[at]
        _drop(stack, at, built)
        built.top[stack] = at = under
    return at


@inlined
def _older(stack, at, floor, built):
    """The next older sequence that begins at row `floor` or later; those between are dropped."""
    under = built.below[at]
    while under >= 0 and built.begin[under] < floor:
        after = built.below[under]
        _drop(stack, under, built)
        built.below[at] = under = after
    return under


@inlined
def _drop(stack, at, built):
    """Free the place of a sequence. What continues it began at the same row, so nothing reads it any more."""
    built.below[at] = built.counts[FREE]
    built.counts[FREE] = at
    built.counts[ROOM] += 1
    built.size[stack] -= 1


@kernel
def _with_room(built, needed):
    """The same sequences with room for so many more."""
    if built.counts[ROOM] >= needed:
        return built
    old = built.row.shape[0]
    new = 2 * old + needed
    below = _longer(built.below, new)
    for k in range(old, new):
        below[k] = k + 1 if k + 1 < new else built.counts[FREE]
    built.counts[FREE] = old
    built.counts[ROOM] += new - old
    return Built(
        _longer(built.row, new),
        _longer(built.begin, new),
        _longer(built.left, new),
        _longer(built.right, new),
        below,
        built.top,
        built.size,
        built.counts,
    )


@kernel
def _longer(values, size):
    found = np.empty(size, np.int64)
    found[: values.shape[0]] = values
    return found


@kernel
def _add_up(item, events, stops, program, built, out):
    """Count the sequences of a window, and add up what their events hold."""
    reading, low = stops.joint[item], stops.low[item]
    stack, to, count = program.stack[reading], stops.at[item], 0
    is_counted = program.width[reading] == 1 and program.extremes[reading] == 0
    floor = stops.floor[stops.high[item] - 1]
    at = _newest(stack, floor, built)
    while at >= 0:
        if built.begin[at] >= low:
            count += 1
            if not is_counted:
                _walk(at, item, events, stops, program, built, out)
        at = _older(stack, at, floor, built)
    out.mantissa[to] += count


@kernel
def _walk(at, item, events, stops, program, built, out):
    """Add up the events of one sequence, from the last to the first."""
    reading = stops.joint[item]
    place, before = program.place[reading] + program.length[reading], np.int64(-1)
    while at >= 0:
        if built.right[at] >= 0:
            before, at = built.left[at], built.right[at]
        place -= 1
        for u in range(program.use_start[place], program.use_start[place + 1]):
            number, column = program.use[u, 0], program.use[u, 1]
            if number < 0:
                to = stops.low_at[item] - 1 - number
                out.extreme[to] = min(out.extreme[to], events.extremes[built.row[at], column])
            else:
                to, own = (
                    stops.at[item] + number,
                    events.values[built.row[at], column] if column >= 0 else 1.0,
                )
                m, e = times(1.0, 0, own)
                m, e = add(out.mantissa[to], out.exponent[to], m, e)
                out.mantissa[to], out.exponent[to] = m, e
        at = built.left[at]
        if at < 0:
            at, before = before, np.int64(-1)
