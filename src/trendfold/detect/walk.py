"""Walked elements: trends of a sub-pattern, found by depth-first search in each match of the joined elements.

A walk binds the rows that the element's positions can take, between the elements that must come before it and
those that must come after it. Where a clause has no other element, the walk builds whole matches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bindings import CONTIGUOUS, NEXT
from trendfold.kernel.construct import NO_MOMENT
from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.pairs import holds

Ints = NDArray[np.int32]


class WalkBounds(NamedTuple):
    """The bounds of a walk, per partial match.

    lower, upper  int32[n]   the element's rows are in [lower, upper)
    start         int64[n+1] where the bindings of each match begin in row and position
    row, position int32[]
    before, before_at  int32[n]  row and position of the binding directly before the element, or -1
    behind, behind_at  int32[n]  row and position of the binding directly after it, or -1
    pinned        int32[n]   the element's first row, if the match has it already, or -1
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


class WalkedTrends(NamedTuple):
    """Trends found: `source` is the match each belongs to, its bindings are row[start[k] : start[k + 1]]."""

    source: NDArray[np.int64]
    start: NDArray[np.int64]
    row: Ints
    position: Ints


class WalkState(NamedTuple):
    """Where a walk has stopped, so that it can be resumed.

    at        int64[6]   MATCH, FIRST, TAKER, DEPTH, TRIED, IS_DONE; see below
    row, position  int32[d]   the bindings of the current trend, DEPTH of them
    next      int64[d]   per binding, the index in the element's rows from which its successor is searched
    taking    int64[d]   ... and which of that row's positions comes next, or -1 for the first
    until     int32[d]   ... and the last moment at which the successor may be
    """

    at: NDArray[np.int64]
    row: Ints
    position: Ints
    next: NDArray[np.int64]
    taking: NDArray[np.int64]
    until: Ints


MATCH, FIRST, TAKER, DEPTH, TRIED, IS_DONE = range(6)
"""The current match; the index of the current first row, and which of its positions comes next (-1: begin);
the number of bindings in the current trend; the bindings tried so far; and whether the walk is complete."""
MOST_BINDINGS = 1 << 22
"""A call returns once its trends have this many bindings; a single trend may have more."""


def new_walk(tried: int) -> WalkState:
    """A walk that has not begun, after other walks have tried so many bindings."""
    at = np.array([0, -1, -1, 0, tried, 0], np.int64)
    none = np.empty(64, np.int32)
    return WalkState(at, none, none.copy(), np.empty(64, np.int64), np.empty(64, np.int64), none.copy())


@kernel
def walk_element(
    bounds, own, is_own, symbol, moment, high, paths, pairs, latest, semantics, steps, most, state
):
    """More trends of an element in every match, at most `most`; and the state to resume from.

    Returns after more than `steps` bindings were tried, with `most` trends, or when all trends are found.

    own     int32[m]   the rows that can take one of the element's positions
    is_own  bool[P]    those positions
    symbol  int32[n]   the symbol of every row
    moment  int32[n]   the moment of every row
    high    int32[n]   how far a window reaches from a row
    paths   Paths      the element's machine
    latest  int32[G, m]  see JoinInput
    """
    is_linked = _linked(paths)
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    trends = WalkedTrends(
        np.empty(64, np.int64), np.zeros(65, np.int64), np.empty(256, np.int32), np.empty(256, np.int32)
    )
    found, used, is_full = 0, 0, True
    while is_full:
        found, used, is_full = _walk(
            bounds, own, is_own, is_linked, symbol, moment, high, paths, pairs, latest, stacks, semantics,
            steps, most, state, trends, found, used,
        )  # fmt: skip
        if is_full:
            state, trends = _longer_stack(state), _longer_trends(trends, found, used + state.at[DEPTH] + 1)
    source, start, row, position = trends
    return WalkedTrends(source[:found], start[: found + 1], row[:used], position[:used]), state


@kernel
def _walk(
    bounds, own, is_own, is_linked, symbol, moment, high, paths, pairs, latest, stacks, semantics, steps,
    most, state, trends, found, used,
):  # fmt: skip
    """Walk on: how many trends there are now, how many bindings they have, and whether arrays are too short.

    Arrays are lent and steps are inlined: as calls, they count references to every array for every binding,
    and walks take about twice as long. Hence no array grows here. The arrays are given one by one: as fields
    of a record, walks take 8 to 16 % longer.
    """
    bounds, paths, pairs, stacks = lent(bounds), lent(paths), lent(pairs), lent(stacks)
    own, is_own, is_linked, symbol = lent((own, is_own, is_linked, symbol))
    moment, high, latest = lent((moment, high, latest))
    at, row, position, after, taking, until = lent(state)
    source, start, out_row, out_position = lent(trends)
    t, s, f, depth, tried = at[MATCH], at[FIRST], at[TAKER], at[DEPTH], at[TRIED]
    is_full = False
    while found < most and used < MOST_BINDINGS:
        is_full = depth == row.shape[0] or found == source.shape[0] or used + depth + 1 > out_row.shape[0]
        if is_full:
            break
        index, q, depth = _next_successor(
            t, depth, row, position, after, taking, until, bounds.upper, own, is_own, symbol, moment, high,
            paths, pairs, latest, semantics, stacks,
        )  # fmt: skip
        if index < 0:
            index, q, t, s, f = _next_first(
                t, s, f, bounds, own, is_own, symbol, moment, paths, pairs, latest, stacks
            )
        if index < 0:
            at[IS_DONE] = 1
            break
        tried += 1
        if tried > steps:
            break
        y = own[index]
        lead = 1 if bounds.pinned[t] >= 0 else 0  # a pinned first event is in the match already
        if depth >= lead and not _fits(
            t, y, q, depth, row, position, bounds, is_linked, paths, pairs, stacks
        ):
            continue
        row[depth], position[depth] = y, q
        after[depth], taking[depth], until[depth] = index + 1, -1, NO_MOMENT
        depth += 1
        z, r = bounds.behind[t], bounds.behind_at[t]
        if paths.is_last[q] and (z < 0 or _follows(y, q, z, r, moment, paths, pairs, latest, stacks)):
            for d in range(lead, depth):
                out_row[used], out_position[used] = row[d], position[d]
                used += 1
            source[found] = t
            found += 1
            start[found] = used
    at[MATCH], at[FIRST], at[TAKER], at[DEPTH], at[TRIED] = t, s, f, depth, tried
    return found, used, is_full


@inlined
def _next_successor(
    t, depth, row, position, after, taking, until, upper, own, is_own, symbol, moment, high, paths, pairs,
    latest, semantics, stacks,
):  # fmt: skip
    """The next binding adjacent to the last one of the trend (spec 5); bindings without any are removed.

    Returns its index in `own`, or -1 when the trend is empty; its position; and the depth.
    """
    while depth > 0:
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
        end = paths.take_start[symbol[z] + 1]
        k = taking[top] if taking[top] >= 0 else paths.take_start[symbol[z]]
        if now <= moment[x]:
            k = end
        while k < end:
            q = paths.take[k]
            k += 1
            if (
                is_own[q]
                and paths.edge[p, q] >= 0
                and _follows(x, p, z, q, moment, paths, pairs, latest, stacks)
            ):
                taking[top] = k
                if semantics == NEXT:
                    until[top] = now  # all of the earliest moment, nothing after it
                return i, q, depth
        after[top], taking[top] = i + 1, -1
    return -1, 0, depth


@inlined
def _next_first(t, s, f, bounds, own, is_own, symbol, moment, paths, pairs, latest, stacks):
    """The next binding that a trend can begin with, in this match or the next ones.

    Returns its index in `own`, or -1 when all matches are done; its position; and the new t, s and f.
    """
    while t < bounds.lower.shape[0]:
        pinned = bounds.pinned[t]
        if s < 0:
            s, f = np.searchsorted(own, pinned if pinned >= 0 else bounds.lower[t]), -1
        if s == own.shape[0] or own[s] >= bounds.upper[t] or (pinned >= 0 and own[s] != pinned):
            t, s = t + 1, -1
            continue
        if f < 0:
            f = paths.take_start[symbol[own[s]]]
        while f < paths.take_start[symbol[own[s]] + 1]:
            q = paths.take[f]
            f += 1
            if is_own[q] and paths.is_first[q]:
                x, p = bounds.before[t], bounds.before_at[t]
                if pinned >= 0 or x < 0 or _follows(x, p, own[s], q, moment, paths, pairs, latest, stacks):
                    return s, q, t, s, f
        s, f = s + 1, -1
    return -1, 0, t, s, f


@inlined
def _fits(t, y, q, depth, row, position, bounds, is_linked, paths, pairs, stacks):
    """Whether the match has event y nowhere else, and every cross predicate holds with its other bindings."""
    for k in range(bounds.start[t], bounds.start[t + 1]):
        x, p = bounds.row[k], bounds.position[k]
        if x == y or (is_linked[q] and is_linked[p] and not _agree(x, p, y, q, paths, pairs, stacks)):
            return False
    for d in range(depth if is_linked[q] else 0):
        if is_linked[position[d]] and not _agree(row[d], position[d], y, q, paths, pairs, stacks):
            return False
    return True


@kernel
def _linked(paths):
    """The positions that a cross predicate names."""
    found = np.zeros(paths.is_first.shape[0], np.bool_)
    for c in range(paths.cross.shape[0]):
        found |= paths.cross_left[c] | paths.cross_right[c]
    return found


@kernel
def _longer_stack(state):
    """The state with room for a longer trend, if it is full."""
    at, row, position, after, taking, until = state
    if at[DEPTH] < row.shape[0]:
        return state
    return WalkState(at, _longer(row), _longer(position), _longer(after), _longer(taking), _longer(until))


@kernel
def _longer_trends(trends, found, needed):
    """The trends with room for one more, and for so many bindings."""
    source, start, row, position = trends
    if found == source.shape[0]:
        source, start = _longer(source), _longer(start)
    while needed > row.shape[0]:
        row, position = _longer(row), _longer(position)
    return WalkedTrends(source, start, row, position)


@kernel
def _longer(values):
    """The same values with room for as many more."""
    grown = np.empty(2 * values.shape[0], values.dtype)
    grown[: values.shape[0]] = values
    return grown


@kernel
def _follows(x, p, y, q, moment, paths, pairs, latest, stacks):
    """Whether the conditions on the edge from (x, p) to (y, q) hold and its NOT is unbroken."""
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
def append_walked(start, row, position, walked_source, walked_start, walked_row, walked_position, out):
    """Write the bindings of each walked trend behind those of its match to `out`: start, row, position."""
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
