"""NOT inside a fold: moving mass between classes, and the latest start of N's trends."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
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
    for w in range(mantissa.shape[1]):
        mantissa[there, w], exponent[there, w] = add(
            mantissa[there, w], exponent[there, w], mantissa[here, w], exponent[here, w]
        )
        mantissa[here, w], exponent[here, w] = 0.0, 0
    for x in range(extreme.shape[1]):
        extreme[there, x] = min(extreme[there, x], extreme[here, x])
        extreme[here, x] = np.inf


@kernel
def latest_starts(negated, symbol, moment, segment, pairs, latest):
    """Per guard and moment: the latest start among N's trends that have ended by then.

    A pair (x, y) is broken exactly when the latest start among N-trends that ended before y lies after
    x: one MAX aggregate of N, whatever the window. For an event e at N's position r,

        start(e, r) = max([r in First] · moment(e), start(s) for s in Pred(r))

    where start(s) is the best so far, or, when the edge has predicates, the best of the bindings that
    satisfy them. Predicates are judged binding by binding, in O(n) per event.

    segment  int32[s+1]    where each partition's rows begin
    latest   int32[G, m]   out; -1 before the first
    """
    positions = negated.is_first.shape[0]
    most = 0
    for s in range(segment.shape[0] - 1):
        most = max(most, segment[s + 1] - segment[s])
    kept_row = np.empty((positions, most), np.int32)
    kept_start = np.empty((positions, most), np.int32)
    kept = np.zeros(positions, np.int32)
    best = np.empty(positions, np.int32)
    fresh = np.empty(positions, np.int32)
    stack_f, stack_i, stack_n = (
        np.empty(pairs.depth),
        np.empty(pairs.depth, np.int64),
        np.empty(pairs.depth, np.int8),
    )
    for s in range(segment.shape[0] - 1):
        kept[:] = 0
        best[:] = -1
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
                    start = now if negated.is_first[r] else -1
                    for f in range(negated.from_start[r], negated.from_start[r + 1]):
                        p = negated.from_[f]
                        low, high = negated.pred_start[f], negated.pred_start[f + 1]
                        if low == high:
                            start = max(start, best[p])
                            continue
                        for k in range(kept[p]):
                            if moment[kept_row[p, k]] == now or kept_start[p, k] <= start:
                                continue
                            fits = True
                            for c in range(low, high):
                                fits = fits and holds(
                                    pairs, negated.pred[c], kept_row[p, k], e, stack_f, stack_i, stack_n
                                )
                            if fits:
                                start = kept_start[p, k]
                    if start >= 0:
                        fresh[r] = max(fresh[r], start)
                        kept_row[r, kept[r]], kept_start[r, kept[r]] = e, start
                        kept[r] += 1
            for g in range(negated.npos_start.shape[0] - 1):
                ended = latest[g, now - 1] if i > segment[s] else -1
                for r in range(negated.npos_start[g], negated.npos_start[g + 1]):
                    best[r] = max(best[r], fresh[r])
                    if negated.is_last[r]:
                        ended = max(ended, fresh[r])
                latest[g, now] = ended
            i = j
