"""The short way through events whose bindings are all found by their values.

It goes from row i on to the first row it cannot do, and returns it: a moment of several events, or one that
moves mass between classes. There must be no NOT judged by time, no scan, and under *next* one tree per list.
A function that is handed a machine reads it from memory at every call, so all is one loop over plain arrays.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.tree import first_level, least, put_extreme, put_number, sweep, total, visit
from trendfold.kernel.wide import add, times


@kernel
def fold_ordered(events, i, high, steps, moves, is_next, state, index, nodes, work, got):
    """Fold rows from i on, into state and trees; returns the first row that is left.

    got  (float64[K,W], int32[K,W], float64[K,X], bool[C])  what each step gathers, before any settles
    """
    symbol, moment = events.symbol, events.moment
    step_start, scan_start, kept_start, kept = (
        steps.step_start,
        steps.scan_start,
        steps.kept_start,
        steps.kept,
    )
    dst_start, dst, way = steps.dst_start, steps.dst, index.way
    mantissa, exponent, extreme = state
    got_m, got_e, got_x, is_found = got
    m, e, x, size = nodes
    span, tree_start, start, levels = index.span, index.tree_start, index.start, index.levels
    leaf, of = index.leaf, index.of
    of_start = index.of_start
    blocks, tops, sums, path = work
    src_start, src, is_start = steps.src_start, steps.src, steps.is_start
    weight, xweight, values, lows = steps.weight, steps.xweight, events.values, events.extremes
    width, extremes, pairs = mantissa.shape[1], extreme.shape[1], span.shape[2]
    while i < high:
        a = symbol[i]
        if moves[a] or (i + 1 < high and moment[i + 1] == moment[i]):
            return i
        low, stop = step_start[a], step_start[a + 1]
        for t in range(low, stop):
            g = t - low
            _gather_states(g, t, src_start, src, mantissa, exponent, extreme, got_m, got_e, got_x)
            for c in range(scan_start[t], scan_start[t + 1]):
                tree = tree_start[way[c]]
                is_found[c] = False
                for p in range(0, pairs, 2):
                    first, last = span[way[c], i, p], span[way[c], i, p + 1]
                    count = visit(start, first_level(tree), levels[tree], first, last, blocks)
                    if count == 0:
                        continue
                    for w in range(width):
                        part_m, part_e = total(m, e, np.uint64(w) * size, blocks, count, tops, sums)
                        is_found[c] |= w == 0 and part_m != 0.0
                        got_m[g, w], got_e[g, w] = add(got_m[g, w], got_e[g, w], part_m, part_e)
                    for k in range(extremes):
                        found = least(x, np.uint64(k) * size, blocks, count)
                        got_x[g, k] = min(got_x[g, k], found)
        if is_next:
            for t in range(low, stop):
                for o in range(src_start[t], src_start[t + 1]):
                    if not is_start[src[o]]:
                        _empty_state(src[o], mantissa, exponent, extreme)
                for c in range(scan_start[t], scan_start[t + 1]):
                    if not is_found[c]:
                        continue
                    tree = tree_start[way[c]]
                    for p in range(0, pairs, 2):
                        first, last = span[way[c], i, p], span[way[c], i, p + 1]
                        at = first_level(tree)
                        sweep(m, e, x, size, start, at, levels[tree], first, last, blocks, tops, sums, path)
        for t in range(low, stop):
            g = t - low
            if got_m[g, 0] == 0.0:
                continue
            _weigh(g, t, i, weight, xweight, values, lows, got_m, got_e, got_x)
            for d in range(dst_start[t], dst_start[t + 1]):
                s = dst[d]
                for w in range(width):
                    mantissa[s, w], exponent[s, w] = add(
                        mantissa[s, w], exponent[s, w], got_m[g, w], got_e[g, w]
                    )
                for k in range(extremes):
                    extreme[s, k] = min(extreme[s, k], got_x[g, k])
            for b in range(kept_start[t], kept_start[t + 1]):
                for o in range(of_start[kept[b]], of_start[kept[b] + 1]):
                    tree = of[o]
                    here, at = leaf[tree, i], first_level(tree)
                    if here <= 0:
                        continue
                    for w in range(width):
                        offset = np.uint64(w) * size
                        put_number(m, e, start, at, levels[tree], here, offset, got_m[g, w], got_e[g, w])
                    for k in range(extremes):
                        offset = np.uint64(k) * size
                        put_extreme(x, start, at, levels[tree], here, offset, got_x[g, k])
        i += 1
    return i


@inlined
def _gather_states(g, t, src_start, src, mantissa, exponent, extreme, got_m, got_e, got_x):
    """The mass of a step's states, into row g."""
    for w in range(got_m.shape[1]):
        got_m[g, w], got_e[g, w] = 0.0, 0
    for k in range(got_x.shape[1]):
        got_x[g, k] = np.inf
    for o in range(src_start[t], src_start[t + 1]):
        s = src[o]
        for w in range(got_m.shape[1]):
            got_m[g, w], got_e[g, w] = add(got_m[g, w], got_e[g, w], mantissa[s, w], exponent[s, w])
        for k in range(got_x.shape[1]):
            got_x[g, k] = min(got_x[g, k], extreme[s, k])


@inlined
def _weigh(g, t, i, weight, xweight, values, extremes, got_m, got_e, got_x):
    """Let the numbers of row g ride on the count, for event i in step t."""
    for w in range(1, got_m.shape[1]):
        column = weight[t, w]
        if column >= -1:
            part_m, part_e = got_m[g, 0], got_e[g, 0]
            if column >= 0:
                part_m, part_e = times(part_m, part_e, values[i, column])
            got_m[g, w], got_e[g, w] = add(got_m[g, w], got_e[g, w], part_m, part_e)
    for k in range(got_x.shape[1]):
        if xweight[t, k] >= 0:
            got_x[g, k] = min(got_x[g, k], extremes[i, xweight[t, k]])


@inlined
def _empty_state(s, mantissa, exponent, extreme):
    for w in range(mantissa.shape[1]):
        mantissa[s, w], exponent[s, w] = 0.0, 0
    for k in range(extreme.shape[1]):
        extreme[s, k] = np.inf
