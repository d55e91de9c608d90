"""The machine over events, where some places must keep their bindings one by one.

A neighbour predicate asks each earlier binding; a NOT judged by time asks when it was made. Every
other place keeps one vector. GRETA keeps all places so; COGRA only those that need it.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.guards import move_classes
from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import holds
from trendfold.kernel.wide import add, times

ANY, NEXT, CONTIGUOUS = 0, 1, 2
UNSPENT = np.int32(2**31 - 1)


@kernel
def fold_windows(
    events, lows, highs, steps, guards, frame, pairs, latest, semantics, lists, end_guard, capacity, out
):
    """Fold the rows [lows[k], highs[k]) of every window item; its whole trends go to row k of `out`.

    latest     int32[G, m]  see guards.latest_starts
    lists      (count, list of ⊥ or -1, list of ⊤ or -1)
    end_guard  the guard judged by time at ⊤, or -1
    capacity   see most_kept
    """
    kept = (
        np.zeros((lists[0], capacity), np.int32),  # row
        np.zeros((lists[0], capacity), np.int32),  # moment
        np.zeros((lists[0], capacity), np.int32),  # moment at which it was continued (next)
        np.zeros((lists[0], capacity, frame.width)),
        np.zeros((lists[0], capacity, frame.width), np.int32),
        np.zeros((lists[0], capacity, frame.extremes)),
    )
    length = np.zeros(lists[0], np.int32)
    state = (
        np.zeros((frame.states, frame.width)),
        np.zeros((frame.states, frame.width), np.int32),
        np.full((frame.states, frame.extremes), np.inf),
    )
    fresh = (np.zeros_like(state[0]), np.zeros_like(state[1]), np.full_like(state[2], np.inf))
    for k in range(lows.shape[0]):
        low, high = lows[k], highs[k]
        state[0][:] = 0.0
        state[1][:] = 0
        state[2][:] = np.inf
        length[:] = 0
        if frame.start >= 0:
            state[0][frame.start, 0] = 1.0
        if lists[1] >= 0 and low < high:
            _keep_start(lists[1], events.moment[low] - 1, kept, length)
        _fold(events, low, high, steps, guards, pairs, latest, semantics, state, fresh, kept, length)
        for s in frame.whole:
            _collect(k, state[0][s], state[1][s], state[2][s], out)
        if lists[2] >= 0 and low < high:
            ended = latest[end_guard, events.moment[high - 1]] if end_guard >= 0 else -1
            for b in range(length[lists[2]]):
                if kept[1][lists[2], b] >= ended:
                    _collect(k, kept[3][lists[2], b], kept[4][lists[2], b], kept[5][lists[2], b], out)


@kernel
def most_kept(symbol, lows, highs, steps, lists):
    """The most bindings any list must hold in any window item."""
    most = 1
    count = np.zeros(lists, np.int64)
    for k in range(lows.shape[0]):
        count[:] = 0
        for i in range(lows[k], highs[k]):
            for t in range(steps.step_start[symbol[i]], steps.step_start[symbol[i] + 1]):
                for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
                    count[steps.kept[b]] += 1
        if lists:
            most = max(most, count.max())
    return most


def binding_bytes(frame):
    """How large one place of a list is."""
    return 3 * 4 + frame.width * (8 + 4) + frame.extremes * 8


@kernel
def _keep_start(here, moment, kept, length):
    """⊥ as a binding just before the window's first moment, with a count of 1."""
    kept[1][here, 0], kept[2][here, 0] = moment, UNSPENT
    kept[3][here, 0], kept[4][here, 0], kept[5][here, 0] = 0.0, 0, np.inf
    kept[3][here, 0, 0] = 1.0
    length[here] = 1


@kernel
def _collect(k, mantissa, exponent, extreme, out):
    for w in range(mantissa.shape[0]):
        out.mantissa[k, w], out.exponent[k, w] = add(
            out.mantissa[k, w], out.exponent[k, w], mantissa[w], exponent[w]
        )
    for x in range(extreme.shape[0]):
        out.extreme[k, x] = min(out.extreme[k, x], extreme[x])


@kernel
def _fold(events, low, high, steps, guards, pairs, latest, semantics, state, fresh, kept, length):
    """Fold the rows [low, high), a moment at a time: gather, spend, fade, move classes, settle."""
    symbol, moment = events.symbol, events.moment
    mantissa, exponent, extreme = state
    width, extremes = mantissa.shape[1], extreme.shape[1]
    sum_m, sum_e, best = np.zeros(width), np.zeros(width, np.int32), np.zeros(extremes)
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    before = low
    i = low
    while i < high:
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        moved = False
        for e in range(i, j):
            moved |= guards.moves[symbol[e]]
            for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                _gather(
                    events,
                    e,
                    t,
                    steps,
                    pairs,
                    latest,
                    semantics,
                    state,
                    kept,
                    length,
                    stacks,
                    sum_m,
                    sum_e,
                    best,
                )
                if sum_m[0] == 0.0:
                    continue
                _weigh(events, e, t, steps, sum_m, sum_e, best)
                for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                    _merge(steps.dst[d], fresh, sum_m, sum_e, best)
                for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
                    _keep(steps.kept[b], e, moment[e], kept, length, sum_m, sum_e, best)
        if semantics == NEXT:
            _spend(symbol, i, j, steps, state)
        elif semantics == CONTIGUOUS:
            _fade(symbol, before, i, steps, state)
        if moved:
            move_classes(guards, symbol, i, j, mantissa, exponent, extreme)
        for e in range(i, j):
            for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                    s = steps.dst[d]
                    _merge(s, state, fresh[0][s], fresh[1][s], fresh[2][s])
                    _clear(s, fresh)
        before = i
        i = j


@kernel
def _gather(events, e, t, steps, pairs, latest, semantics, state, kept, length, stacks, sum_m, sum_e, best):
    """Sum the mass that event `e` continues at step `t`, from before its moment."""
    sum_m[:] = 0.0
    sum_e[:] = 0
    best[:] = np.inf
    for o in range(steps.src_start[t], steps.src_start[t + 1]):
        s = steps.src[o]
        for w in range(sum_m.shape[0]):
            sum_m[w], sum_e[w] = add(sum_m[w], sum_e[w], state[0][s, w], state[1][s, w])
        for x in range(best.shape[0]):
            best[x] = min(best[x], state[2][s, x])
    now = events.moment[e]
    for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
        here, fixed, guard = steps.scan[c], steps.scan_fixed[c], steps.scan_guard[c]
        since = latest[guard, now - 1] if guard >= 0 and now > 0 else -1
        if semantics == CONTIGUOUS and not fixed:
            since = max(since, now - 1)
        for b in range(length[here] - 1, -1, -1):
            made = kept[1][here, b]
            if made >= now:
                continue
            if made < since:
                break
            if semantics == NEXT and kept[2][here, b] < now:
                continue
            fits = True
            for p in range(steps.pred_start[c], steps.pred_start[c + 1]):
                fits = fits and holds(
                    pairs, steps.pred[p], kept[0][here, b], e, stacks[0], stacks[1], stacks[2]
                )
            if not fits:
                continue
            if not fixed:
                kept[2][here, b] = now
            for w in range(sum_m.shape[0]):
                sum_m[w], sum_e[w] = add(sum_m[w], sum_e[w], kept[3][here, b, w], kept[4][here, b, w])
            for x in range(best.shape[0]):
                best[x] = min(best[x], kept[5][here, b, x])


@kernel
def _weigh(events, e, t, steps, sum_m, sum_e, best):
    """Let the numbers ride on the count: (c, s) becomes (c, s + a·c) for an event with value a."""
    for w in range(1, sum_m.shape[0]):
        column = steps.weight[t, w]
        if column >= -1:
            part_m, part_e = sum_m[0], sum_e[0]
            if column >= 0:
                part_m, part_e = times(part_m, part_e, events.values[e, column])
            sum_m[w], sum_e[w] = add(sum_m[w], sum_e[w], part_m, part_e)
    for x in range(best.shape[0]):
        if steps.xweight[t, x] >= 0:
            best[x] = min(best[x], events.extremes[e, steps.xweight[t, x]])


@kernel
def _merge(s, state, sum_m, sum_e, best):
    for w in range(sum_m.shape[0]):
        state[0][s, w], state[1][s, w] = add(state[0][s, w], state[1][s, w], sum_m[w], sum_e[w])
    for x in range(best.shape[0]):
        state[2][s, x] = min(state[2][s, x], best[x])


@kernel
def _keep(here, row, moment, kept, length, sum_m, sum_e, best):
    b = length[here]
    kept[0][here, b], kept[1][here, b], kept[2][here, b] = row, moment, UNSPENT
    kept[3][here, b], kept[4][here, b], kept[5][here, b] = sum_m, sum_e, best
    length[here] = b + 1


@kernel
def _clear(s, state):
    state[0][s] = 0.0
    state[1][s] = 0
    state[2][s] = np.inf


@kernel
def _spend(symbol, start, stop, steps, state):
    """Under *next*, what an event has continued is used up; ⊥ is not."""
    for e in range(start, stop):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for o in range(steps.src_start[t], steps.src_start[t + 1]):
                if not steps.is_start[steps.src[o]]:
                    _clear(steps.src[o], state)


@kernel
def _fade(symbol, start, stop, steps, state):
    """Under *contiguous*, mass lasts until the next moment; ⊤ keeps its own."""
    for e in range(start, stop):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                if not steps.is_end[steps.dst[d]]:
                    _clear(steps.dst[d], state)
