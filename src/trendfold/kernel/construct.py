"""Trends built one by one, then aggregated: what every engine before these papers does.

Exponential; the baseline to compare with, and the only way to judge a predicate between events that are
not neighbours. A walk goes depth first through the bindings of one window, so memory holds one trend.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.bindings import ANY, CONTIGUOUS, NEXT
from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import holds
from trendfold.kernel.wide import add, times

NO_MOMENT = np.int32(2**31 - 1)


@kernel
def build_windows(events, lows, highs, paths, pairs, latest, semantics, limit, out):
    """Build and aggregate the trends of every window item; how many were begun, at most limit + 1."""
    built = 0
    nothing = np.empty(0, np.int32)
    for k in range(lows.shape[0]):
        built = _build(
            events, lows[k], highs[k], paths, pairs, latest, semantics, k, out, nothing, built, limit
        )
        if built > limit:
            break
    return built


@kernel
def latest_built_starts(events, segment, paths, pairs, limit, out, latest):
    """guards.latest_starts for a NOT whose trends must be built: a predicate compares far events."""
    built = 0
    nothing = np.empty((0, 0), np.int32)
    for s in range(segment.shape[0] - 1):
        low, high = segment[s], segment[s + 1]
        built = _build(events, low, high, paths, pairs, nothing, ANY, 0, out, latest, built, limit)
        for i in range(low + 1, high):
            now = events.moment[i]
            if now != events.moment[i - 1]:
                latest[now] = max(latest[now], latest[now - 1])
        if built > limit:
            break
    return built


@kernel
def _build(events, low, high, paths, pairs, latest, semantics, k, out, ended, built, limit):
    """Walk all trends of the rows [low, high).

    With `ended` of length 0, whole trends are added to row k of `out`; otherwise each trend writes its start
    to `ended` at the moment of its end, if that is later than what is there.
    """
    symbol, moment = events.symbol, events.moment
    width, extremes = paths.weight.shape[1], paths.xweight.shape[1]
    size = high - low + 1
    row, position = np.empty(size, np.int32), np.empty(size, np.int32)
    at, taking, until = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int32)
    sum_m, sum_e = np.zeros((size, width)), np.zeros((size, width), np.int32)
    best = np.full((size, extremes), np.inf)
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    last_moment = moment[high - 1] if high > low else 0
    for start in range(low, high):
        if (
            paths.ends[0] >= 0
            and moment[start] > 0
            and latest[paths.ends[0], moment[start] - 1] >= moment[low]
        ):
            continue  # the NOT at ⊥ is broken before this event
        for first in range(paths.take_start[symbol[start]], paths.take_start[symbol[start] + 1]):
            if not paths.is_first[paths.take[first]]:
                continue
            depth = 0
            candidate_row, candidate_position = start, paths.take[first]
            while depth >= 0:
                if candidate_row >= 0:
                    fits = _crosses(
                        paths, pairs, row, position, depth, candidate_row, candidate_position, stacks
                    )
                    if fits:
                        row[depth], position[depth] = candidate_row, candidate_position
                        at[depth], taking[depth], until[depth] = candidate_row + 1, -1, NO_MOMENT
                        built += 1
                        if built > limit:
                            return built
                        _carry(events, paths, depth, candidate_row, candidate_position, sum_m, sum_e, best)
                        if paths.is_last[candidate_position]:
                            now = moment[candidate_row]
                            if ended.shape[0] > 0:
                                ended[now] = max(ended[now], moment[row[0]])
                            elif paths.ends[1] < 0 or latest[paths.ends[1], last_moment] <= now:
                                _add_trend(k, sum_m[depth], sum_e[depth], best[depth], out)
                        depth += 1
                    candidate_row = -1
                if depth == 0:
                    break
                top = depth - 1
                candidate_row, candidate_position = _next_candidate(
                    events,
                    high,
                    paths,
                    pairs,
                    latest,
                    semantics,
                    top,
                    row,
                    position,
                    at,
                    taking,
                    until,
                    stacks,
                )
                if candidate_row < 0:
                    depth -= 1
    return built


@kernel
def _next_candidate(
    events, high, paths, pairs, latest, semantics, top, row, position, at, taking, until, stacks
):
    """The next binding adjacent to the one on top of the walk, or row -1 (spec 5)."""
    symbol, moment = events.symbol, events.moment
    x, p = row[top], position[top]
    while at[top] < high:
        y = at[top]
        if moment[y] > until[top] or (semantics == CONTIGUOUS and moment[y] > moment[x] + 1):
            break
        if taking[top] < 0:
            taking[top] = paths.take_start[symbol[y]]
        if moment[y] == moment[x]:
            taking[top] = paths.take_start[symbol[y] + 1]
        while taking[top] < paths.take_start[symbol[y] + 1]:
            q = paths.take[taking[top]]
            taking[top] += 1
            edge = paths.edge[p, q]
            if edge < 0:
                continue
            guard = paths.guard[edge]
            if guard >= 0 and latest[guard, moment[y] - 1] > moment[x]:
                continue
            fits = True
            for c in range(paths.pred_start[edge], paths.pred_start[edge + 1]):
                fits = fits and holds(pairs, paths.pred[c], x, y, stacks[0], stacks[1], stacks[2])
            if fits:
                if semantics == NEXT:
                    until[top] = moment[y]  # all of the earliest moment, nothing after it
                return y, q
        at[top] += 1
        taking[top] = -1
    return -1, -1


@kernel
def _crosses(paths, pairs, row, position, depth, y, q, stacks):
    """Whether every cross predicate holds between a new binding and all before it."""
    if paths.cross.shape[0] > 0:
        for d in range(depth):
            if not agree(row[d], position[d], y, q, paths, pairs, stacks):
                return False
    return True


@kernel
def agree(x, p, y, q, paths, pairs, stacks):
    """Whether every cross predicate between the bindings (x, p) and (y, q) holds."""
    for c in range(paths.cross.shape[0]):
        onward = paths.cross_left[c, p] and paths.cross_right[c, q]
        if onward and not holds(pairs, paths.cross[c], x, y, stacks[0], stacks[1], stacks[2]):
            return False
        back = paths.cross_left[c, q] and paths.cross_right[c, p]
        if back and not holds(pairs, paths.cross[c], y, x, stacks[0], stacks[1], stacks[2]):
            return False
    return True


@kernel
def _carry(events, paths, depth, i, p, sum_m, sum_e, best):
    """The trend's own numbers and extremes after one more binding."""
    sum_m[depth, 0], sum_e[depth, 0] = 1.0, 0
    for w in range(1, sum_m.shape[1]):
        m, e = (sum_m[depth - 1, w], sum_e[depth - 1, w]) if depth else (0.0, np.int32(0))
        column = paths.weight[p, w]
        if column >= -1:
            part_m, part_e = (1.0, 0) if column < 0 else times(1.0, 0, events.values[i, column])
            m, e = add(m, e, part_m, part_e)
        sum_m[depth, w], sum_e[depth, w] = m, e
    for x in range(best.shape[1]):
        value = best[depth - 1, x] if depth else np.inf
        if paths.xweight[p, x] >= 0:
            value = min(value, events.extremes[i, paths.xweight[p, x]])
        best[depth, x] = value


@kernel
def _add_trend(k, sum_m, sum_e, best, out):
    for w in range(sum_m.shape[0]):
        out.mantissa[k, w], out.exponent[k, w] = add(
            out.mantissa[k, w], out.exponent[k, w], sum_m[w], sum_e[w]
        )
    for x in range(best.shape[0]):
        out.extreme[k, x] = min(out.extreme[k, x], best[x])
