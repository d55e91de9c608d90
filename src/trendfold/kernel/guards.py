"""NOT inside a fold: mass moves between classes (how much of N has come since), or NOT is judged by time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.pairs import holds
from trendfold.kernel.wide import add

BROKEN = np.uint64(1 << 63)


@kernel
def move_classes(guards, symbol, start, stop, mantissa, exponent, extreme):
    """Move waiting mass to its next class after the moment [start, stop).

    All events of the moment read the class from before it, so their reaches are united first. A class
    only grows, and higher numbers are bigger sets: going down, mass is never moved twice.

    mantissa, exponent  [S, W]   extreme  [S, X]
    """
    for g in range(guards.class_start.shape[0] - 1):
        low, broken = guards.class_start[g], guards.class_start[g + 1] - 1
        for c in range(broken - 1, low - 1, -1):
            target = class_after(guards, symbol, start, stop, c, broken)
            if target == c:
                continue
            for p in range(guards.place_start[g], guards.place_start[g + 1]):
                _move(guards.place[p] + c - low, guards.place[p] + target - low, mantissa, exponent, extreme)


@kernel
def class_after(guards, symbol, start, stop, c, broken):
    """The class that mass of class `c` is in after the moment [start, stop)."""
    reached = guards.class_mask[c]
    for i in range(start, stop):
        reached |= guards.reach[symbol[i], c]
    if reached == guards.class_mask[c]:
        return c
    if reached & BROKEN != 0:
        return broken
    target = c
    while guards.class_mask[target] != reached:
        target += 1
    return target


@kernel
def _move(here, there, mantissa, exponent, extreme):
    """Add the mass of one state to another, and empty it."""
    for w in range(mantissa.shape[1]):
        mantissa[there, w], exponent[there, w] = add(
            mantissa[there, w], exponent[there, w], mantissa[here, w], exponent[here, w]
        )
        mantissa[here, w], exponent[here, w] = 0.0, 0
    for x in range(extreme.shape[1]):
        extreme[there, x] = min(extreme[there, x], extreme[here, x])
        extreme[here, x] = np.inf


class NegatedBindings(NamedTuple):
    """The bindings of N's positions so far; n is the most rows of a segment.

    row, start  int32[R, n]  its row, and the latest start of an N-trend that ends with it
    many        int32[R]     how many there are
    best        int32[R]     the latest start so far, from before the moment; -1 if there is none
    stack_f, stack_i, stack_n   scratch for conditions (see kernel.pairs)
    """

    row: NDArray[np.int32]
    start: NDArray[np.int32]
    many: NDArray[np.int32]
    best: NDArray[np.int32]
    stack_f: NDArray[np.float64]
    stack_i: NDArray[np.int64]
    stack_n: NDArray[np.int8]


@kernel
def latest_starts(negated, symbol, moment, segment, pairs, latest):
    """Per guard and moment: the latest start among N's trends that have ended by then.

    A pair (x, y) is broken exactly when the latest start among N-trends that ended before y lies after x: one
    MAX aggregate of N, whatever the window. For an event e at N's position r,

        start(e, r) = max([r in First] · moment(e), start(s) for s in Pred(r))

    where start(s) is the best so far or, if the edge has predicates, the best of the bindings that satisfy
    them. Predicates are judged binding by binding, in O(n) per event.

    negated  Negated
    segment  int64[s+1]    where each partition's rows begin
    latest   int32[G, m]   out; -1 before the first
    """
    kept = _no_bindings(negated.is_first.shape[0], segment, pairs)
    fresh = np.empty_like(kept.best)
    for s in range(segment.shape[0] - 1):
        kept.many[:] = 0
        kept.best[:] = -1
        i = segment[s]
        while i < segment[s + 1]:
            j = i + 1
            while j < segment[s + 1] and moment[j] == moment[i]:
                j += 1
            now = moment[i]
            fresh[:] = -1
            for e in range(i, j):
                for t in range(negated.take_start[symbol[e]], negated.take_start[symbol[e] + 1]):
                    r = negated.take[t]
                    start = _latest_start(e, r, now, negated, moment, pairs, kept)
                    if start >= 0:
                        fresh[r] = max(fresh[r], start)
                        kept.row[r, kept.many[r]], kept.start[r, kept.many[r]] = e, start
                        kept.many[r] += 1
            for g in range(negated.npos_start.shape[0] - 1):
                ended = latest[g, now - 1] if i > segment[s] else -1
                for r in range(negated.npos_start[g], negated.npos_start[g + 1]):
                    kept.best[r] = max(kept.best[r], fresh[r])
                    if negated.is_last[r]:
                        ended = max(ended, fresh[r])
                latest[g, now] = ended
            i = j


@inlined
def _no_bindings(positions, segment, pairs):
    """Room for the bindings of the largest segment."""
    most = 0
    for s in range(segment.shape[0] - 1):
        most = max(most, segment[s + 1] - segment[s])
    return NegatedBindings(
        np.empty((positions, most), np.int32),
        np.empty((positions, most), np.int32),
        np.zeros(positions, np.int32),
        np.empty(positions, np.int32),
        np.empty(pairs.depth),
        np.empty(pairs.depth, np.int64),
        np.empty(pairs.depth, np.int8),
    )


@inlined
def _latest_start(e, r, now, negated, moment, pairs, kept):
    """The latest start of an N-trend that ends with event e at position r, or -1."""
    start = now if negated.is_first[r] else -1
    for f in range(negated.from_start[r], negated.from_start[r + 1]):
        p = negated.from_[f]
        low, high = negated.pred_start[f], negated.pred_start[f + 1]
        if low == high:
            start = max(start, kept.best[p])
            continue
        for k in range(kept.many[p]):
            if moment[kept.row[p, k]] == now or kept.start[p, k] <= start:
                continue
            fits = True
            for c in range(low, high):
                fits = fits and holds(
                    pairs, negated.pred[c], kept.row[p, k], e, kept.stack_f, kept.stack_i, kept.stack_n
                )
            if fits:
                start = kept.start[p, k]
    return start
