"""Walked elements: the trends of a part of the pattern, built one by one beside each match of the rest.

A walk goes depth first through the rows that the element's positions can take, between what must come before
it and what must come after it. With nothing else in the match, it is a walk of the whole pattern.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bindings import CONTIGUOUS, NEXT
from trendfold.kernel.construct import NO_MOMENT, agree
from trendfold.kernel.jit import kernel
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


@kernel
def walk(bound, own, is_own, symbol, moment, high, paths, pairs, latest, semantics, steps, most):
    """Every trend of an element in every match: arrays as in Walked, how many trends, steps, bindings.

    Stops after `steps` bindings were tried, or when `most` trends are found.

    own     int32[m]   the rows that can take one of the element's positions
    is_own  bool[P]    those positions
    high    int32[n]   how far a window reaches from a row
    """
    source, start = np.empty(64, np.int64), np.zeros(65, np.int64)
    out_row, out_position = np.empty(256, np.int32), np.empty(256, np.int32)
    found, used, tried = 0, 0, 0
    deep = 64
    row, position = np.empty(deep, np.int32), np.empty(deep, np.int32)
    at, taking, until = np.empty(deep, np.int64), np.empty(deep, np.int64), np.empty(deep, np.int32)
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    for t in range(bound.lower.shape[0]):
        lead = 1 if bound.pinned[t] >= 0 else 0  # what is pinned is in the match already
        begin = np.searchsorted(own, bound.pinned[t] if lead else bound.lower[t])
        for s in range(begin, begin + 1 if lead else own.shape[0]):
            first = own[s]
            if first >= bound.upper[t]:
                break
            ceiling = min(bound.upper[t], high[first])
            for f in range(paths.take_start[symbol[first]], paths.take_start[symbol[first] + 1]):
                y, q = first, paths.take[f]
                if not (is_own[q] and paths.is_first[q]):
                    continue
                if (
                    lead == 0
                    and bound.before[t] >= 0
                    and not _follows(
                        bound.before[t], bound.before_at[t], y, q, moment, paths, pairs, latest, stacks
                    )
                ):
                    continue
                depth, step = 0, s
                while depth >= 0:
                    if y >= 0:
                        tried += 1
                        if tried > steps:
                            return source, start, out_row, out_position, found, tried, used
                        if depth < lead or _fits(bound, t, row, position, depth, y, q, paths, pairs, stacks):
                            if depth == deep:
                                deep *= 2
                                row, position = _longer(row, deep), _longer(position, deep)
                                at, taking = _longer(at, deep), _longer(taking, deep)
                                until = _longer(until, deep)
                            row[depth], position[depth] = y, q
                            at[depth], taking[depth], until[depth] = step + 1, -1, NO_MOMENT
                            depth += 1
                            z, r = bound.behind[t], bound.behind_at[t]
                            if paths.is_last[q] and (
                                z < 0 or _follows(y, q, z, r, moment, paths, pairs, latest, stacks)
                            ):
                                if found == source.shape[0]:
                                    source = _longer(source, 2 * found)
                                    start = _longer(start, 2 * found + 1)
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
                                if found == most:
                                    return source, start, out_row, out_position, found, tried, used
                        y = -1
                    if depth == 0:
                        break
                    top = depth - 1
                    step, q = _next(
                        own, is_own, symbol, moment, ceiling, paths, pairs, latest, semantics,
                        row[top], position[top], top, at, taking, until, stacks,
                    )  # fmt: skip
                    if step < 0:
                        depth -= 1
                    else:
                        y = own[step]
    return source, start, out_row, out_position, found, tried, used


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
def _next(
    own,
    is_own,
    symbol,
    moment,
    ceiling,
    paths,
    pairs,
    latest,
    semantics,
    x,
    p,
    top,
    at,
    taking,
    until,
    stacks,
):
    """The next binding adjacent to (x, p) (spec 5): its place in `own` and its position, or -1."""
    while at[top] < own.shape[0]:
        y = own[at[top]]
        if y >= ceiling or moment[y] > until[top] or (semantics == CONTIGUOUS and moment[y] > moment[x] + 1):
            break
        end = paths.take_start[symbol[y] + 1]
        if taking[top] < 0:
            taking[top] = paths.take_start[symbol[y]] if moment[y] > moment[x] else end
        while taking[top] < end:
            q = paths.take[taking[top]]
            taking[top] += 1
            if (
                is_own[q]
                and paths.edge[p, q] >= 0
                and _follows(x, p, y, q, moment, paths, pairs, latest, stacks)
            ):
                if semantics == NEXT:
                    until[top] = moment[y]  # all of the earliest moment, nothing after it
                return at[top], q
        at[top] += 1
        taking[top] = -1
    return -1, -1


@kernel
def _fits(bound, t, row, position, depth, y, q, paths, pairs, stacks):
    """Whether a new binding is an event of its own, and every cross predicate holds with all others."""
    for k in range(bound.start[t], bound.start[t + 1]):
        if bound.row[k] == y or not agree(bound.row[k], bound.position[k], y, q, paths, pairs, stacks):
            return False
    if paths.cross.shape[0] > 0:
        for d in range(depth):
            if not agree(row[d], position[d], y, q, paths, pairs, stacks):
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
