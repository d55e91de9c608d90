"""The short way through events whose bindings are all found by their values.

It goes from row i on to the first row it cannot do, and returns it: a moment of several events, or one that
moves mass between classes. There must be no NOT judged by time, no scan, and under *next* one tree per list.
A function that is handed a machine reads it from memory at every call, so all is one loop over plain arrays.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.bits import first_between, first_word, leave, next_before, take
from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.simd import prefetch
from trendfold.kernel.tree import (
    EMPTY,
    OPEN,
    POINT,
    empty_node,
    first_level,
    least,
    put_count,
    put_extreme,
    put_number,
    sum_left,
    sum_right,
    total,
    visit,
)
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
    m, e, x, size, words = nodes
    bit_start, bit_levels = index.bit_start, index.bit_levels
    span, tree_start, start, levels = index.span, index.tree_start, index.start, index.levels
    leaf, of = index.leaf, index.of
    of_start = index.of_start
    blocks, tops, sums = work
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
                    if is_next:
                        at, depth = first_word(tree), bit_levels[tree]
                        here = first_between(words, bit_start, at, depth, first, last)
                        while here != 0:
                            is_found[c] = True
                            node = start[first_level(tree)] + here
                            for w in range(width):
                                part = node + np.uint64(w) * size
                                got_m[g, w], got_e[g, w] = add(got_m[g, w], got_e[g, w], m[part], e[part])
                            for k in range(extremes):
                                got_x[g, k] = min(got_x[g, k], x[node + np.uint64(k) * size])
                            here = next_before(words, bit_start, at, depth, here, last)
                        continue
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
                        _spend(m, e, x, size, start, tree, words, bit_start, bit_levels[tree], first, last)
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
                    if is_next:
                        take(words, bit_start, first_word(tree), bit_levels[tree], here)
        i += 1
    return i


_AHEAD = 12
"""Events: about as many as are folded while a line comes from memory."""


@kernel
def fold_counts(events, i, high, steps, moves, is_next, state, index, nodes, work, got):
    """`fold_ordered` where counts are all there is; got as there, with one number.

    The same steps once more, with every sum over a tree written out in place: a call that is handed arrays
    costs as much as the sum.
    """
    symbol, moment, way = events.symbol, events.moment, index.way
    step_start, scan_start, kept_start, kept = (
        steps.step_start,
        steps.scan_start,
        steps.kept_start,
        steps.kept,
    )
    src_start, src, dst_start, dst = steps.src_start, steps.src, steps.dst_start, steps.dst
    is_start, of_start, of = steps.is_start, index.of_start, index.of
    mantissa, exponent = state[0].reshape(-1), state[1].reshape(-1)
    got_m, got_e, is_found = got[0].reshape(-1), got[1].reshape(-1), got[3]
    m, e, x, size, words = nodes
    bit_start, bit_levels = index.bit_start, index.bit_levels
    start, levels = index.start, index.levels
    rows, ends = index.span.shape[1], index.span.shape[2]
    span, leaf = index.span.reshape(-1), index.leaf.reshape(-1)
    blocks, tops, sums = work
    while i < high:
        a = symbol[i]
        if moves[a] or (i + 1 < high and moment[i + 1] == moment[i]):
            return i
        low, stop = step_start[a], step_start[a + 1]
        if i + _AHEAD < high:  # ranks of neighbours lie far apart: fetch the two lowest levels in time
            for tree in range(levels.shape[0]):
                soon = np.uint64(leaf[tree * rows + i + _AHEAD])
                at = first_level(tree)
                prefetch(m, start[at] + soon)
                prefetch(e, start[at] + soon)
                if levels[tree] > 1:
                    prefetch(m, start[at + np.uint64(1)] + (soon >> np.uint64(3)))
                    prefetch(e, start[at + np.uint64(1)] + (soon >> np.uint64(3)))
        for t in range(low, stop):
            sum_m, sum_e = 0.0, np.int32(0)
            for o in range(src_start[t], src_start[t + 1]):
                sum_m, sum_e = add(sum_m, sum_e, mantissa[src[o]], exponent[src[o]])
            for c in range(scan_start[t], scan_start[t + 1]):
                tree = way[c]
                is_found[c] = False
                for p in range((tree * rows + i) * ends, (tree * rows + i + 1) * ends, 2):
                    first, last = span[p], span[p + 1]
                    if first == EMPTY:
                        continue
                    at, depth = first_level(tree), levels[tree]
                    if is_next:
                        at, depth = first_word(tree), bit_levels[tree]
                        here = first_between(words, bit_start, at, depth, first, last)
                        while here != 0:
                            is_found[c] = True
                            node = start[first_level(tree)] + here
                            sum_m, sum_e = add(sum_m, sum_e, m[node], e[node])
                            here = next_before(words, bit_start, at, depth, here, last)
                        continue
                    if last == OPEN:
                        part_m, part_e = sum_right(m, e, start, at, depth, np.uint64(first), tops, sums)
                    elif first == OPEN and last != POINT:
                        part_m, part_e = sum_left(m, e, start, at, depth, np.uint64(last), tops, sums)
                    else:
                        count = visit(start, at, depth, first, last, blocks)
                        part_m, part_e = total(m, e, np.uint64(0), blocks, count, tops, sums)
                    sum_m, sum_e = add(sum_m, sum_e, part_m, part_e)
            got_m[t - low], got_e[t - low] = sum_m, sum_e
        if is_next:
            for t in range(low, stop):
                for o in range(src_start[t], src_start[t + 1]):
                    if not is_start[src[o]]:
                        mantissa[src[o]], exponent[src[o]] = 0.0, 0
                for c in range(scan_start[t], scan_start[t + 1]):
                    if not is_found[c]:
                        continue
                    tree = way[c]
                    for p in range((tree * rows + i) * ends, (tree * rows + i + 1) * ends, 2):
                        first, last = span[p], span[p + 1]
                        _spend(m, e, x, size, start, tree, words, bit_start, bit_levels[tree], first, last)
        for t in range(low, stop):
            sum_m, sum_e = got_m[t - low], got_e[t - low]
            if sum_m == 0.0:
                continue
            for d in range(dst_start[t], dst_start[t + 1]):
                s = dst[d]
                mantissa[s], exponent[s] = add(mantissa[s], exponent[s], sum_m, sum_e)
            for b in range(kept_start[t], kept_start[t + 1]):
                for o in range(of_start[kept[b]], of_start[kept[b] + 1]):
                    here = leaf[of[o] * rows + i]
                    if here > 0:
                        at, depth = first_level(of[o]), levels[of[o]]
                        put_count(m, e, start, at, depth, np.uint64(here), sum_m, sum_e)
                        if is_next:
                            take(words, bit_start, first_word(of[o]), bit_levels[of[o]], here)
        i += 1
    return i


@kernel
def _spend(m, e, x, size, start, tree, words, bit_start, depth, first, last):
    """Under *next*, empty the leaves of a stretch and take them out of the set."""
    at = first_word(tree)
    here = first_between(words, bit_start, at, depth, first, last)
    while here != 0:
        empty_node(m, e, x, size, start[first_level(tree)] + here)
        leave(words, bit_start, at, depth, here)
        here = next_before(words, bit_start, at, depth, here, last)


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
