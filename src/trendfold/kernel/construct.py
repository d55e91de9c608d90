"""Trends built one by one, then aggregated, as every engine before these papers does.

Exponential in the number of events: the baseline to compare with, and the only way to judge a predicate
between events that are not neighbours. The walk goes depth first through the bindings of one window, so
memory holds one trend:

    a trend (b1, ..., bd) is followed by every binding b that is adjacent to bd under the semantics, where
    the edge's predicates and guard hold, and every cross predicate holds between b and each of b1, ..., bd
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bindings import ANY, CONTIGUOUS, NEXT
from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.pairs import holds
from trendfold.kernel.wide import add, times

NO_MOMENT = np.int32(2**31 - 1)


class TrendWalk(NamedTuple):
    """The trend that is being built, binding by binding; n is the most bindings it can have, plus 1.

    row, position      int32[n]
    at, taking, until  int64[n], int64[n], int32[n]  where the search for the next binding after it resumes:
                       row, index in `Paths.take` (-1: the row's first), and the last moment to search
    sum_m, sum_e       float64[n, W], int32[n, W]    the numbers of the trend up to a binding
    best               float64[n, X]                 the extremes of the trend up to a binding
    linked, links      int32[n], int32[n+1]  the bindings that a cross predicate names; links[d] of them are
                       among the first d
    is_linked          bool[P]  the positions that a cross predicate names
    stack_f, stack_i, stack_n   scratch for conditions (see kernel.pairs)
    """

    row: NDArray[np.int32]
    position: NDArray[np.int32]
    at: NDArray[np.int64]
    taking: NDArray[np.int64]
    until: NDArray[np.int32]
    sum_m: NDArray[np.float64]
    sum_e: NDArray[np.int32]
    best: NDArray[np.float64]
    linked: NDArray[np.int32]
    links: NDArray[np.int32]
    is_linked: NDArray[np.bool_]
    stack_f: NDArray[np.float64]
    stack_i: NDArray[np.int64]
    stack_n: NDArray[np.int8]


@kernel
def build_windows(events, lows, highs, paths, pairs, latest, semantics, limit, out):
    """Build and aggregate the trends of every window item; returns how many were begun, at most limit + 1.

    lows, highs  int64[]      the rows [lows[k], highs[k]) of item k; its trends are added to row k of `out`
    latest       int32[G, m]  per guard and moment, see guards.latest_starts
    semantics    ANY, NEXT or CONTIGUOUS
    """
    longest = 0
    for k in range(lows.shape[0]):
        longest = max(longest, highs[k] - lows[k])
    nothing = np.empty(0, np.int32)
    walk = _no_walk(longest, paths, pairs)
    return _build_all(events, lows, highs, paths, pairs, latest, semantics, limit, walk, nothing, None, out)


@kernel
def build_bounded(events, lows, highs, since, before, to, paths, pairs, latest, semantics, limit, out):
    """The same for trends of bounded span, in the rows [lows[k], highs[k]) of each segment.

    since, before  int64[n]  a trend that begins at a row ends at a row from since[row] on, before before[row]
    to             int64[n]  the row of `out` for trends that end at a row; -1 for none
    """
    longest = 0
    for k in range(lows.shape[0]):
        for i in range(lows[k], highs[k]):
            longest = max(longest, before[i] - i)
    nothing = np.empty(0, np.int32)
    walk, bounds = _no_walk(longest, paths, pairs), (since, before, to)
    return _build_all(events, lows, highs, paths, pairs, latest, semantics, limit, walk, nothing, bounds, out)


@kernel
def latest_built_starts(events, segment, paths, pairs, limit, out, latest):
    """`guards.latest_starts` for a NOT whose trends must be built, because it has cross predicates."""
    longest = 0
    for s in range(segment.shape[0] - 1):
        longest = max(longest, segment[s + 1] - segment[s])
    nothing = np.empty((0, 0), np.int32)
    walk = _no_walk(longest, paths, pairs)
    lows, highs = segment[:-1], segment[1:]
    built = _build_all(events, lows, highs, paths, pairs, nothing, ANY, limit, walk, latest, None, out)
    for s in range(segment.shape[0] - 1):
        for i in range(segment[s] + 1, segment[s + 1]):
            now = events.moment[i]
            if now != events.moment[i - 1]:
                latest[now] = max(latest[now], latest[now - 1])
    return built


@kernel
def _no_walk(longest, paths, pairs):
    """An empty trend with room for `longest` bindings."""
    size, width, extremes = longest + 1, paths.weight.shape[1], paths.xweight.shape[1]
    is_linked = np.zeros(paths.is_first.shape[0], np.bool_)
    for c in range(paths.cross.shape[0]):
        is_linked |= paths.cross_left[c] | paths.cross_right[c]
    return TrendWalk(
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int32),
        np.empty((size, width)),
        np.empty((size, width), np.int32),
        np.empty((size, extremes)),
        np.empty(size, np.int32),
        np.zeros(size + 1, np.int32),
        is_linked,
        np.empty(pairs.depth),
        np.empty(pairs.depth, np.int64),
        np.empty(pairs.depth, np.int8),
    )


@kernel
def _build_all(events, lows, highs, paths, pairs, latest, semantics, limit, walk, ended, bounds, out):
    """Build the trends of the rows [lows[k], highs[k]), k by k, until there are more than `limit`."""
    built = 0
    for k in range(lows.shape[0]):
        built = _build(
            events,
            lows[k],
            highs[k],
            paths,
            pairs,
            latest,
            semantics,
            k,
            out,
            ended,
            bounds,
            walk,
            built,
            limit,
        )
        if built > limit:
            break
    return built


@kernel
def _build(events, low, high, paths, pairs, latest, semantics, k, out, ended, bounds, walk, built, limit):
    """Walk depth first through all trends of the rows [low, high); returns how many were begun so far.

    With `ended` of length 0, whole trends are added to row k of `out`. Otherwise the latest start of a trend
    that ends at a moment is written to `ended` at that moment. `bounds` are those of build_bounded, or None,
    so that nothing of them is compiled.

    Phases are inlined into this loop: a trend is one step of it, and a call would take longer than the step.
    """
    events, paths, pairs, walk, out = lent(events), lent(paths), lent(pairs), lent(walk), lent(out)
    symbol, moment, take_start, take = events.symbol, events.moment, paths.take_start, paths.take
    begins, closes = paths.ends[0], paths.ends[1]
    last_moment = moment[high - 1] if high > low else 0
    for start in range(low, high):
        stop = high if bounds is None else min(high, bounds[1][start])
        if begins >= 0 and moment[start] > 0 and latest[begins, moment[start] - 1] >= moment[low]:
            continue  # the NOT at ⊥ is broken before this event
        for first in range(take_start[symbol[start]], take_start[symbol[start] + 1]):
            if not paths.is_first[take[first]]:
                continue
            if bounds is None and not _is_open(low, start, take[first], paths, pairs, walk):
                continue
            depth, y, q = 0, np.int64(start), take[first]
            while y >= 0:
                # The binding (y, q) is adjacent to the last of the trend; now the cross predicates.
                if _fits_trend(y, q, depth, paths, pairs, walk):
                    built += 1
                    if built > limit:
                        return built
                    _push(y, q, depth, walk)
                    _carry(events, paths, walk, depth)
                    if paths.is_last[q] and ended.shape[0] > 0:
                        ended[moment[y]] = max(ended[moment[y]], moment[walk.row[0]])
                    elif bounds is not None:
                        if (
                            paths.is_last[q]
                            and y >= bounds[0][start]
                            and bounds[2][y] >= 0
                            and _is_open(start, y, take[first], paths, pairs, walk)
                            and _is_open_after(start, y, q, paths, pairs, walk)
                        ):
                            _add_trend(events, paths, bounds[2][y], walk, depth, out)
                    elif (
                        paths.is_last[q]
                        and (closes < 0 or latest[closes, last_moment] <= moment[y])
                        and _is_open_after(y, high - 1, q, paths, pairs, walk)
                    ):
                        _add_trend(events, paths, k, walk, depth, out)
                    depth += 1
                depth, y, q = _next_adjacent(events, stop, depth, paths, pairs, latest, semantics, walk)
    return built


@kernel
def _is_open(x, y, q, paths, pairs, walk):
    """Whether the conditions of a NOT at the start let a trend begin at position q.

    x, y  the first row of the window and that of the trend; with bounded spans, the trend's first and last
    """
    for c in range(paths.opening_start[q], paths.opening_start[q + 1]):
        if not holds(pairs, paths.opening[c], x, y, walk.stack_f, walk.stack_i, walk.stack_n):
            return False
    return True


@kernel
def _is_open_after(x, y, p, paths, pairs, walk):
    """Whether the conditions of a NOT at the end let a trend end at position p.

    x, y  the last row of the trend and the last of the window; with bounded spans, the trend's first and last
    """
    for c in range(paths.closing_start[p], paths.closing_start[p + 1]):
        if not holds(pairs, paths.closing[c], x, y, walk.stack_f, walk.stack_i, walk.stack_n):
            return False
    return True


@inlined
def _fits_trend(y, q, depth, paths, pairs, walk):
    """Whether a binding satisfies all cross predicates with the first `depth` bindings of the trend."""
    cross, left, right = paths.cross, paths.cross_left, paths.cross_right
    stack_f, stack_i, stack_n = walk.stack_f, walk.stack_i, walk.stack_n
    fits = True
    for i in range(walk.links[depth] if walk.is_linked[q] else 0):
        x, p = walk.row[walk.linked[i]], walk.position[walk.linked[i]]
        for c in range(cross.shape[0]):
            if fits and left[c, p] and right[c, q]:
                fits = holds(pairs, cross[c], x, y, stack_f, stack_i, stack_n)
            if fits and left[c, q] and right[c, p]:
                fits = holds(pairs, cross[c], y, x, stack_f, stack_i, stack_n)
        if not fits:
            break
    return fits


@inlined
def _push(y, q, depth, walk):
    """Append a binding to the trend; the search for what follows it begins at the next row."""
    walk.row[depth], walk.position[depth] = y, q
    walk.at[depth], walk.taking[depth], walk.until[depth] = y + 1, -1, NO_MOMENT
    walk.linked[walk.links[depth]] = depth
    walk.links[depth + 1] = walk.links[depth] + walk.is_linked[q]


@inlined
def _next_adjacent(events, high, depth, paths, pairs, latest, semantics, walk):
    """The next binding (y, q) adjacent to the last of the trend (spec 5); bindings without one are popped.

    Returns the trend's new length, y and q; y is -1 when the trend is empty.
    """
    symbol, moment, row, position = events.symbol, events.moment, walk.row, walk.position
    at, taking, until, take_start, take = walk.at, walk.taking, walk.until, paths.take_start, paths.take
    stack_f, stack_i, stack_n = walk.stack_f, walk.stack_i, walk.stack_n
    y, q = np.int64(-1), np.int32(-1)
    while depth > 0 and y < 0:
        top = depth - 1
        x, p, i = row[top], position[top], at[top]
        is_over = (
            i >= high or moment[i] > until[top] or (semantics == CONTIGUOUS and moment[i] > moment[x] + 1)
        )
        if is_over:
            depth -= 1
            continue
        end = take_start[symbol[i] + 1]
        t = taking[top] if taking[top] >= 0 else take_start[symbol[i]]
        if moment[i] == moment[x]:
            t = end
        while t < end and y < 0:
            q = take[t]
            t += 1
            edge = paths.edge[p, q]
            if edge < 0:
                continue
            guard = paths.guard[edge]
            fits = guard < 0 or latest[guard, moment[i] - 1] <= moment[x]
            for c in range(paths.pred_start[edge], paths.pred_start[edge + 1]):
                fits = fits and holds(pairs, paths.pred[c], x, i, stack_f, stack_i, stack_n)
            if fits:
                y = i
        if y < 0:
            at[top], taking[top] = i + 1, -1
            continue
        taking[top] = t
        if semantics == NEXT:
            until[top] = moment[y]  # all of the earliest moment, nothing after it
    return depth, y, q


@kernel
def _carry(events, paths, walk, depth):
    """Set the trend's numbers and extremes up to the binding at `depth`."""
    i, p, sum_m, sum_e, best = walk.row[depth], walk.position[depth], walk.sum_m, walk.sum_e, walk.best
    sum_m[depth, 0], sum_e[depth, 0] = 1.0, 0
    for w in range(1, sum_m.shape[1]):
        m, e = (sum_m[depth - 1, w], sum_e[depth - 1, w]) if depth else (0.0, np.int32(0))
        column = paths.weight[p, w]
        if column >= -1:
            part_m, part_e = (1.0, 0) if column < 0 else times(1.0, 0, events.values[i, column])
            m, e = add(m, e, part_m, part_e)
        sum_m[depth, w], sum_e[depth, w] = m, e
    for x in range(best.shape[1]):
        is_added = x < paths.added
        value = best[depth - 1, x] if depth else 0.0 if is_added else np.inf
        if is_added and depth == 0 and paths.xends[x, 0] >= 0:
            value += events.extremes[i, paths.xends[x, 0]]
        if paths.xweight[p, x] >= 0:
            own = events.extremes[i, paths.xweight[p, x]]
            value = value + own if is_added else min(value, own)
        best[depth, x] = value


@kernel
def _add_trend(events, paths, k, walk, depth, out):
    """Add the numbers of a whole trend, whose last binding is at `depth`, to row k."""
    first, last = walk.row[0], walk.row[depth]
    if paths.elapsed > 0:
        passed, passed_e = times(1.0, 0, events.clock[last] - events.clock[first])
        walk.sum_m[depth, paths.elapsed], walk.sum_e[depth, paths.elapsed] = passed, passed_e
    for w in range(walk.sum_m.shape[1]):
        out.mantissa[k, w], out.exponent[k, w] = add(
            out.mantissa[k, w], out.exponent[k, w], walk.sum_m[depth, w], walk.sum_e[depth, w]
        )
    for x in range(walk.best.shape[1]):
        value = walk.best[depth, x]
        if paths.xends[x, 1] >= 0:
            value += events.extremes[last, paths.xends[x, 1]]
        out.extreme[k, x] = min(out.extreme[k, x], value)
