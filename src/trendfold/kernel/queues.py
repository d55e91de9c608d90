"""The machine over events, where neighbours are compared by time alone.

A binding can be continued while least <= TIME(NEXT) - TIME <= most. Events come in order of time, so the
bindings of a place that an event may continue are a stretch of all its bindings, and neither end of that
stretch ever moves back: a queue. Its sum is kept by two stacks, as that of sliding windows is (ADR 9):

    front[b] = the sum of the bindings b .. middle - 1        back = that of middle .. end - 1

so what an event continues is front[begin] + back. Once the front has expired, the back becomes the front.
Each binding is added twice, whatever the bound, and nothing is ever subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bindings import weigh
from trendfold.kernel.fold import pass_time
from trendfold.kernel.jit import inlined, kernel, lent, phase
from trendfold.kernel.program import Folded, Ints
from trendfold.kernel.wide import add, times

BEGIN, MIDDLE, END = 0, 1, 2
_ONE, _TWO = np.uint64(1), np.uint64(2)


class QueueGaps(NamedTuple):
    """Which bindings an event may continue.

    way          int32[C]  per scan (see `BindingSteps`): its queue
    here         int32[Q]  the list whose bindings are in a queue
    least, most  int64[Q]  how much later the next event is, in microseconds
    """

    way: Ints
    here: Ints
    least: NDArray[np.int64]
    most: NDArray[np.int64]


class QueueRoom(NamedTuple):
    """Memory for the bindings of one window; of vectors, all arrays are flat.

    most           the most bindings of a list
    time, clock    int64, float64 [lists · most]  when each binding was made; the clock if durations are added
    kept           Folded [lists · most]   bindings, in the order they were made
    length, ready  int64[lists]            bindings of each list, and those from before the moment
    at             int64[Q · 3]            BEGIN, MIDDLE and END of each queue
    front          Folded [Q · most]; back  Folded [Q]
    since          float64[Q · 2]          when durations were last added up, in the front and in the back
    state          Folded [states]
    mass, moment   Folded: of one step; of all steps of a moment
    """

    most: int
    time: NDArray[np.int64]
    clock: NDArray[np.float64]
    kept: Folded
    length: NDArray[np.int64]
    ready: NDArray[np.int64]
    at: NDArray[np.int64]
    front: Folded
    back: Folded
    since: NDArray[np.float64]
    state: Folded
    mass: Folded
    moment: Folded


FEW = 8
"""So many bindings are added up one by one."""


@kernel
def count_queued_windows(events, time, lows, highs, steps, queues, frame, room, out):
    """`fold_queued_windows` where nothing is carried but counts: a few plain arrays, and no calls.

    A queue of few bindings has no front: they are added up where they are.
    """
    events, steps, queues, room = lent(events), lent(steps), lent(queues), lent(room)
    symbol, moment, step_start, scan_start = events.symbol, events.moment, steps.step_start, steps.scan_start
    src_start, src, dst_start, dst = steps.src_start, steps.src, steps.dst_start, steps.dst
    kept_start, kept, way, list_of = steps.kept_start, steps.kept, queues.way, queues.here
    least, most, size = queues.least, queues.most, np.uint64(room.most)
    length, ready, at, made = room.length, room.ready, room.at, room.time
    m, e = room.state.mantissa, room.state.exponent
    kept_m, kept_e = room.kept.mantissa, room.kept.exponent
    front_m, front_e = room.front.mantissa, room.front.exponent
    back_m, back_e = room.back.mantissa, room.back.exponent
    got_m, got_e = room.moment.mantissa, room.moment.exponent
    lists, states, queued = length.shape[0], frame.states, list_of.shape[0]
    for k in range(lows.shape[0]):
        for s in range(states):
            m[s], e[s] = 0.0, 0
        m[frame.start] = 1.0
        for here in range(lists):
            length[here] = 0
        for w in range(queued):
            at[3 * w], at[3 * w + 1], at[3 * w + 2] = 0, -1, 0
        i, high = lows[k], highs[k]
        while i < high:
            j = i + 1
            while j < high and moment[j] == moment[i]:
                j += 1
            for here in range(lists):
                ready[here] = length[here]
            now, slot = time[i], np.uint64(0)
            for row in range(i, j):
                for t in range(step_start[symbol[row]], step_start[symbol[row] + 1]):
                    sum_m, sum_e = 0.0, np.int32(0)
                    for o in range(src_start[t], src_start[t + 1]):
                        sum_m, sum_e = add(sum_m, sum_e, m[src[o]], e[src[o]])
                    for c in range(scan_start[t], scan_start[t + 1]):
                        q = np.uint64(way[c])
                        first, place = np.uint64(list_of[q]) * size, np.uint64(3) * q
                        begin, middle, end = at[place], at[place + _ONE], at[place + _TWO]
                        old, stop = end, ready[list_of[q]]
                        while end < stop and now - made[first + np.uint64(end)] >= least[q]:
                            end += 1
                        while begin < end and now - made[first + np.uint64(begin)] > most[q]:
                            begin += 1
                        if end - begin <= FEW:
                            middle = -1
                            for b in range(first + np.uint64(begin), first + np.uint64(end)):
                                sum_m, sum_e = add(sum_m, sum_e, kept_m[b], kept_e[b])
                        else:
                            if begin > middle:  # the front has expired: all that is left becomes the front
                                middle, part_m, part_e = end, 0.0, np.int32(0)
                                for b in range(end - begin):
                                    one = np.uint64(end - 1 - b)
                                    part_m, part_e = add(
                                        part_m, part_e, kept_m[first + one], kept_e[first + one]
                                    )
                                    front_m[q * size + one], front_e[q * size + one] = part_m, part_e
                                back_m[q], back_e[q] = 0.0, 0
                            else:
                                for b in range(first + np.uint64(old), first + np.uint64(end)):
                                    back_m[q], back_e[q] = add(back_m[q], back_e[q], kept_m[b], kept_e[b])
                            if begin < middle:
                                one = q * size + np.uint64(begin)
                                sum_m, sum_e = add(sum_m, sum_e, front_m[one], front_e[one])
                            sum_m, sum_e = add(sum_m, sum_e, back_m[q], back_e[q])
                        at[place], at[place + _ONE], at[place + _TWO] = begin, middle, end
                    got_m[slot], got_e[slot] = sum_m, sum_e
                    slot += _ONE
            slot = np.uint64(0)
            for row in range(i, j):
                for t in range(step_start[symbol[row]], step_start[symbol[row] + 1]):
                    sum_m, sum_e = got_m[slot], got_e[slot]
                    slot += _ONE
                    if sum_m == 0.0:
                        continue
                    for d in range(dst_start[t], dst_start[t + 1]):
                        m[dst[d]], e[dst[d]] = add(m[dst[d]], e[dst[d]], sum_m, sum_e)
                    for b in range(kept_start[t], kept_start[t + 1]):
                        new = np.uint64(kept[b]) * size + np.uint64(length[kept[b]])
                        made[new], kept_m[new], kept_e[new] = now, sum_m, sum_e
                        length[kept[b]] += 1
            i = j
        for s in frame.whole:
            out.mantissa[k], out.exponent[k] = add(out.mantissa[k], out.exponent[k], m[s], e[s])


@kernel
def fold_queued_windows(events, time, lows, highs, steps, queues, frame, room, out):
    """Fold the rows [lows[k], highs[k]) of every window item; its whole trends go to row k of `out`."""
    events, steps, queues, room = lent(events), lent(steps), lent(queues), lent(room)
    frame, out = lent(frame), lent(out)
    state, moment = room.state, events.moment
    for k in range(lows.shape[0]):
        _begin(frame, room)
        i, high = lows[k], highs[k]
        while i < high:
            j = i + 1
            while j < high and moment[j] == moment[i]:
                j += 1
            if frame.elapsed > 0:
                pass_time(events.values[i, frame.passed], frame, state.mantissa, state.exponent)
            for here in range(room.ready.shape[0]):
                room.ready[here] = room.length[here]
            slot = 0
            for row in range(i, j):
                slot = _gather(events, row, time[row], slot, steps, queues, frame, room)
            slot = 0
            for row in range(i, j):
                slot = _settle(events, row, time[row], slot, steps, frame, room)
            i = j
        for s in frame.whole:
            _add_to(out, k, state, s, 0.0, frame)


@inlined
def _begin(frame, room):
    """An empty window: only ⊥ has mass."""
    for s in range(frame.states):
        _clear(room.state, s, frame)
    for here in range(room.length.shape[0]):
        room.length[here] = 0
    for q in range(room.at.shape[0]):
        room.at[q] = 0
    for q in range(room.back.exponent.shape[0] // frame.width):
        _clear(room.back, q, frame)
    room.state.mantissa[frame.start * frame.width] = 1.0
    for x in range(frame.start * frame.extremes, frame.start * frame.extremes + frame.added):
        room.state.extreme[x] = 0.0


@phase
def _gather(events, row, now, slot, steps, queues, frame, room):
    """The mass that an event continues at each of its steps, from before the moment."""
    mass, most, at = room.mass, room.most, room.at
    for t in range(steps.step_start[events.symbol[row]], steps.step_start[events.symbol[row] + 1]):
        _clear(mass, 0, frame)
        for o in range(steps.src_start[t], steps.src_start[t + 1]):
            _add_to(mass, 0, room.state, steps.src[o], 0.0, frame)
        for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
            q = queues.way[c]
            _move_on(q, now, queues, frame, room)
            clock = events.clock[row] if frame.elapsed > 0 else 0.0
            if at[3 * q + BEGIN] < at[3 * q + MIDDLE]:
                aged = clock - room.since[2 * q]
                _add_to(mass, 0, room.front, q * most + at[3 * q + BEGIN], aged, frame)
            if at[3 * q + MIDDLE] < at[3 * q + END]:
                _add_to(mass, 0, room.back, q, clock - room.since[2 * q + 1], frame)
        if mass.mantissa[0] != 0.0:
            weigh(events, row, t, steps, frame.added, mass)
        _copy(room.moment, slot, mass, 0, frame)
        slot += 1
    return slot


@phase
def _settle(events, row, now, slot, steps, frame, room):
    """Leave the mass of an event's steps at states, and as bindings."""
    moment = room.moment
    for t in range(steps.step_start[events.symbol[row]], steps.step_start[events.symbol[row] + 1]):
        if moment.mantissa[slot * frame.width] != 0.0:
            for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                _add_to(room.state, steps.dst[d], moment, slot, 0.0, frame)
            for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
                here = steps.kept[b]
                new = here * room.most + room.length[here]
                room.time[new] = now
                if frame.elapsed > 0:
                    room.clock[new] = events.clock[row]
                _copy(room.kept, new, moment, slot, frame)
                room.length[here] += 1
        slot += 1
    return slot


@phase
def _move_on(q, now, queues, frame, room):
    """Let the bindings into a queue that are old enough now, and those out that are too old."""
    here, at = queues.here[q], room.at
    first, ready, begin, end = here * room.most, room.ready[here], at[3 * q + BEGIN], at[3 * q + END]
    while end < ready and now - room.time[first + end] >= queues.least[q]:
        _join(q, first + end, frame, room)
        end += 1
    at[3 * q + END] = end
    while begin < end and now - room.time[first + begin] > queues.most[q]:
        begin += 1
    at[3 * q + BEGIN] = begin
    if begin > at[3 * q + MIDDLE]:
        _turn(q, first, begin, end, frame, room)


@phase
def _join(q, binding, frame, room):
    """Add a binding to the back of a queue."""
    aged = 0.0
    if frame.elapsed > 0:
        aged, room.since[2 * q + 1] = room.clock[binding] - room.since[2 * q + 1], room.clock[binding]
        _age(room.back, q, aged, frame)
    _add_to(room.back, q, room.kept, binding, 0.0, frame)


@phase
def _turn(q, first, begin, end, frame, room):
    """Make the whole queue its front: sums from each binding to the last."""
    front = room.front
    last = q * room.most + end - 1
    if frame.elapsed > 0 and begin < end:
        room.since[2 * q] = room.clock[first + end - 1]
    for b in range(end - begin):
        into, binding = last - b, first + end - 1 - b
        if b == 0:
            _clear(front, into, frame)
        else:
            _copy(front, into, front, into + 1, frame)
        aged = room.since[2 * q] - room.clock[binding] if frame.elapsed > 0 else 0.0
        _add_to(front, into, room.kept, binding, aged, frame)
    room.at[3 * q + MIDDLE] = end
    _clear(room.back, q, frame)


@phase
def _clear(into, a, frame):
    """Make an entry empty."""
    for w in range(a * frame.width, (a + 1) * frame.width):
        into.mantissa[w], into.exponent[w] = 0.0, 0
    for x in range(a * frame.extremes, (a + 1) * frame.extremes):
        into.extreme[x] = np.inf


@phase
def _copy(into, a, found, b, frame):
    """Entry b of `found` becomes entry a of another."""
    for w in range(frame.width):
        to, of = a * frame.width + w, b * frame.width + w
        into.mantissa[to], into.exponent[to] = found.mantissa[of], found.exponent[of]
    for x in range(frame.extremes):
        into.extreme[a * frame.extremes + x] = found.extreme[b * frame.extremes + x]


@phase
def _add_to(into, a, found, b, aged, frame):
    """Add entry b of `found`, for which so much time has passed, to entry a of another."""
    width, extremes = frame.width, frame.extremes
    for w in range(width):
        to, of = a * width + w, b * width + w
        into.mantissa[to], into.exponent[to] = add(
            into.mantissa[to], into.exponent[to], found.mantissa[of], found.exponent[of]
        )
    if frame.elapsed > 0 and aged != 0.0:
        to = a * width + frame.elapsed
        part_m, part_e = times(found.mantissa[b * width], found.exponent[b * width], aged)
        into.mantissa[to], into.exponent[to] = add(into.mantissa[to], into.exponent[to], part_m, part_e)
    for x in range(extremes):
        to = a * extremes + x
        into.extreme[to] = min(into.extreme[to], found.extreme[b * extremes + x])


@phase
def _age(into, a, aged, frame):
    """Let time pass for an entry."""
    count, to = a * frame.width, a * frame.width + frame.elapsed
    part_m, part_e = times(into.mantissa[count], into.exponent[count], aged)
    into.mantissa[to], into.exponent[to] = add(into.mantissa[to], into.exponent[to], part_m, part_e)
