"""Walked elements: the trends of a part of the pattern, built one by one beside each match of the rest.

A walk goes depth first through the rows that the element's positions can take, between what must come before
it and what must come after it. With nothing else in the match, it is a walk of the whole pattern.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bindings import CONTIGUOUS, NEXT
from trendfold.kernel.construct import NO_MOMENT
from trendfold.kernel.jit import kernel, lent
from trendfold.kernel.pairs import holds

Ints = NDArray[np.int32]


class Bound(NamedTuple):
    """What a walk must fit, per match so far.

    lower, upper  int32[n]   the element's rows are in [lower, upper)
    start         int64[n+1] the bindings of the match so far: rows and positions
    row, position int32[]
    before, before_at  int32[n]  the binding directly before the element, or -1
    behind, behind_at  int32[n]  ... and directly after it
    pinned        int32[n]   the element's first event, if the match has it already, or -1
    """

    lower: Ints
    upper: Ints
    start: NDArray[np.int64]
    row: Ints
    position: Ints
    before: Ints
    before_at: Ints
    behind: Ints
    behind_at: Ints
    pinned: Ints


class Walked(NamedTuple):
    """Trends found: `source` is the match each belongs to, its bindings are row[start[k] : start[k + 1]]."""

    source: NDArray[np.int64]
    start: NDArray[np.int64]
    row: Ints
    position: Ints


class Pace(NamedTuple):
    """Where a walk is, so that it can go on from there: MATCH, FIRST, TAKER, DEPTH, TRIED, IS_DONE."""

    at: NDArray[np.int64]
    row: Ints
    position: Ints
    next: NDArray[np.int64]
    taking: NDArray[np.int64]
    until: Ints


MATCH, FIRST, TAKER, DEPTH, TRIED, IS_DONE = range(6)
MOST_BINDINGS = 1 << 22
"""Of all trends that one call gives; one trend may have more."""


def no_pace(tried: int) -> Pace:
    """A walk that has not begun, after others have tried so many bindings."""
    at = np.array([0, -1, -1, 0, tried, 0], np.int64)
    none = np.empty(64, np.int32)
    return Pace(at, none, none.copy(), np.empty(64, np.int64), np.empty(64, np.int64), none.copy())


@kernel
def walk(bound, own, is_own, symbol, moment, high, paths, pairs, latest, semantics, steps, most, pace):
    """More trends of an element in every match, at most `most`, and the pace.

    Ends with more than `steps` bindings tried, with `most` trends found, or when all is done. A call with the
    pace that the last one gave goes on.

    own     int32[m]   the rows that can take one of the element's positions
    is_own  bool[P]    those positions
    high    int32[n]   how far a window reaches from a row
    """
    bound, paths, pairs = lent(bound), lent(paths), lent(pairs)
    lower, upper, pinned, bound_start = bound.lower, bound.upper, bound.pinned, bound.start
    bound_row, bound_position, before, behind = bound.row, bound.position, bound.before, bound.behind
    take_start, take, edges, is_last = paths.take_start, paths.take, paths.edge, paths.is_last
    is_linked = _linked(paths)
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    at, row, position, after, taking, until = pace
    t, s, f, depth, tried = at[MATCH], at[FIRST], at[TAKER], at[DEPTH], at[TRIED]
    source, start = np.empty(64, np.int64), np.zeros(65, np.int64)
    out_row, out_position = np.empty(256, np.int32), np.empty(256, np.int32)
    found, used, step, q = 0, 0, 0, 0
    while found < most and used < MOST_BINDINGS:
        y = -1
        while depth > 0 and y < 0:  # the next binding adjacent to the one on top (spec 5), or one less
            top = depth - 1
            x, p, i = row[top], position[top], after[top]
            is_over = i == own.shape[0]
            if not is_over:
                z, now = own[i], moment[own[i]]
                is_over = z >= min(upper[t], high[row[0]]) or now > until[top]
                is_over = is_over or (semantics == CONTIGUOUS and now > moment[x] + 1)
            if is_over:
                depth -= 1
                continue
            end = take_start[symbol[z] + 1]
            k = taking[top] if taking[top] >= 0 else take_start[symbol[z]]
            if now <= moment[x]:
                k = end
            while k < end and y < 0:
                q = take[k]
                k += 1
                if (
                    is_own[q]
                    and edges[p, q] >= 0
                    and _follows(x, p, z, q, moment, paths, pairs, latest, stacks)
                ):
                    y, step = z, i
            if y < 0:
                after[top], taking[top] = i + 1, -1
            else:
                taking[top] = k
                if semantics == NEXT:
                    until[top] = now  # all of the earliest moment, nothing after it
        while y < 0 and t < lower.shape[0]:  # the next first binding
            is_pinned = pinned[t] >= 0  # it is in the match already
            if s < 0:
                s, f = np.searchsorted(own, pinned[t] if is_pinned else lower[t]), -1
            if s == own.shape[0] or own[s] >= upper[t] or (is_pinned and own[s] != pinned[t]):
                t, s = t + 1, -1
                continue
            if f < 0:
                f = take_start[symbol[own[s]]]
            while f < take_start[symbol[own[s]] + 1] and y < 0:
                q = take[f]
                f += 1
                if is_own[q] and paths.is_first[q]:
                    x, p = before[t], bound.before_at[t]
                    if is_pinned or x < 0 or _follows(x, p, own[s], q, moment, paths, pairs, latest, stacks):
                        y, step = own[s], s
            if y < 0:
                s, f = s + 1, -1
        if y < 0:
            at[IS_DONE] = 1
            break
        tried += 1
        if tried > steps:
            break
        lead = 1 if pinned[t] >= 0 else 0
        fits = True
        if depth >= lead:  # an event of its own, and every cross predicate holds with all others
            for k in range(bound_start[t], bound_start[t + 1]):
                x, p = bound_row[k], bound_position[k]
                fits = x != y and (
                    not (is_linked[q] and is_linked[p]) or _agree(x, p, y, q, paths, pairs, stacks)
                )
                if not fits:
                    break
            for d in range(depth if fits and is_linked[q] else 0):
                if is_linked[position[d]] and not _agree(row[d], position[d], y, q, paths, pairs, stacks):
                    fits = False
                    break
        if not fits:
            continue
        if depth == row.shape[0]:
            deep = 2 * depth
            row, position, until = _longer(row, deep), _longer(position, deep), _longer(until, deep)
            after, taking = _longer(after, deep), _longer(taking, deep)
        row[depth], position[depth] = y, q
        after[depth], taking[depth], until[depth] = step + 1, -1, NO_MOMENT
        depth += 1
        z, r = behind[t], bound.behind_at[t]
        if is_last[q] and (z < 0 or _follows(y, q, z, r, moment, paths, pairs, latest, stacks)):
            if found == source.shape[0]:
                source, start = _longer(source, 2 * found), _longer(start, 2 * found + 1)
            size = depth - lead
            while used + size > out_row.shape[0]:
                out_row = _longer(out_row, 2 * out_row.shape[0])
                out_position = _longer(out_position, 2 * out_position.shape[0])
            out_row[used : used + size] = row[lead:depth]
            out_position[used : used + size] = position[lead:depth]
            used += size
            source[found] = t
            found += 1
            start[found] = used
    at[MATCH], at[FIRST], at[TAKER], at[DEPTH], at[TRIED] = t, s, f, depth, tried
    walked = Walked(source[:found], start[: found + 1], out_row[:used], out_position[:used])
    return walked, Pace(at, row, position, after, taking, until)


@kernel
def _linked(paths):
    """The positions that a cross predicate names."""
    found = np.zeros(paths.is_first.shape[0], np.bool_)
    for c in range(paths.cross.shape[0]):
        found |= paths.cross_left[c] | paths.cross_right[c]
    return found


@kernel
def _longer(values, size):
    grown = np.empty(size, values.dtype)
    grown[: values.shape[0]] = values
    return grown


@kernel
def _follows(x, p, y, q, moment, paths, pairs, latest, stacks):
    """Whether the edge from (x, p) to (y, q) has its conditions met and its NOT unbroken."""
    edge = paths.edge[p, q]
    guard = paths.guard[edge]
    if guard >= 0 and latest[guard, moment[y] - 1] > moment[x]:
        return False
    for c in range(paths.pred_start[edge], paths.pred_start[edge + 1]):
        if not holds(pairs, paths.pred[c], x, y, stacks[0], stacks[1], stacks[2]):
            return False
    return True


@kernel
def _agree(x, p, y, q, paths, pairs, stacks):
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
def append(start, row, position, walked_source, walked_start, walked_row, walked_position, out):
    """The bindings of each walked trend behind those of the match it belongs to: start, row, position."""
    out_start, out_row, out_position = out
    used = 0
    for k in range(walked_source.shape[0]):
        t = walked_source[k]
        for i in range(start[t], start[t + 1]):
            out_row[used], out_position[used] = row[i], position[i]
            used += 1
        for i in range(walked_start[k], walked_start[k + 1]):
            out_row[used], out_position[used] = walked_row[i], walked_position[i]
            used += 1
        out_start[k + 1] = used
