"""A fast path: only counts are carried, and every binding is found by its value.

It folds from row i to the first row that it cannot handle, and returns that row: a moment of several events,
or one that moves mass between classes. It needs a machine without NOTs judged by time and without scans, and
under *next* one tree per list. For an event e at position q:

    count(e, q) = Σ state(p) + Σ of the tree between the bounds that e asks for
    state(q) += count(e, q), and count(e, q) is added to the trees of q at e's own leaf

Each is one loop over plain arrays: a call per event would load the whole machine from memory again.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.bits import first_word, leave, next_between, take
from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.simd import prefetch
from trendfold.kernel.tree import BITS, first_level, put_number, total, visit
from trendfold.kernel.wide import add

_AHEAD = 12
"""Events to prefetch ahead: about as many as are folded while a cache line arrives."""
_NONE, _ONE, _BITS = np.uint64(0), np.uint64(1), np.uint64(BITS)


@kernel
def fold_any(events, i, high, steps, moves, state, index, nodes, blocks):
    """Fold rows from i on under *any*; returns the first row that is left."""
    symbol, moment, way = events.symbol, events.moment, index.way
    step_start, scan_start = steps.step_start, steps.scan_start
    kept_start, kept = steps.kept_start, steps.kept
    src_start, src, dst_start, dst = steps.src_start, steps.src, steps.dst_start, steps.dst
    of_start, of, start, levels = index.of_start, index.of, index.start, index.levels
    mantissa, exponent = state.mantissa.reshape(-1), state.exponent.reshape(-1)
    m, e = nodes.m, nodes.e
    rows, ends = index.span.shape[1], index.span.shape[2]
    span, leaf = index.span.reshape(-1), index.leaf.reshape(-1)
    got_m, got_e = np.empty(_most_steps(steps)), np.empty(_most_steps(steps), np.int32)
    while i < high:
        a = symbol[i]
        if moves[a] or (i + 1 < high and moment[i + 1] == moment[i]):
            return i
        low, stop = step_start[a], step_start[a + 1]
        if i + _AHEAD < high:  # neighbours have distant ranks: prefetch the two lowest levels
            for tree in range(levels.shape[0]):
                soon, at = np.uint64(leaf[tree * rows + i + _AHEAD]), first_level(tree)
                prefetch(m, start[at] + soon)
                prefetch(e, start[at] + soon)
                prefetch(m, start[at + _ONE] + (soon >> _BITS))
                prefetch(e, start[at + _ONE] + (soon >> _BITS))
        for t in range(low, stop):
            sum_m, sum_e = 0.0, np.int32(0)
            for o in range(src_start[t], src_start[t + 1]):
                sum_m, sum_e = add(sum_m, sum_e, mantissa[src[o]], exponent[src[o]])
            for c in range(scan_start[t], scan_start[t + 1]):
                tree = way[c]
                for p in range((tree * rows + i) * ends, (tree * rows + i + 1) * ends, 2):
                    count = visit(start, first_level(tree), levels[tree], span[p], span[p + 1], blocks)
                    part_m, part_e = total(m, e, _NONE, blocks, count)
                    sum_m, sum_e = add(sum_m, sum_e, part_m, part_e)
            got_m[t - low], got_e[t - low] = sum_m, sum_e
        for t in range(low, stop):
            sum_m, sum_e = got_m[t - low], got_e[t - low]
            if sum_m == 0.0:
                continue
            for d in range(dst_start[t], dst_start[t + 1]):
                s = dst[d]
                mantissa[s], exponent[s] = add(mantissa[s], exponent[s], sum_m, sum_e)
            for b in range(kept_start[t], kept_start[t + 1]):
                for o in range(of_start[kept[b]], of_start[kept[b] + 1]):
                    here, at = leaf[of[o] * rows + i], first_level(of[o])
                    if here > 0:
                        put_number(m, e, start, at, levels[of[o]], here, _NONE, sum_m, sum_e)
        i += 1
    return i


@inlined
def _most_steps(steps):
    return np.diff(steps.step_start).max()


@kernel
def _last_looks(steps, way):
    """Per scan: whether no later step of the same event looks into the same tree."""
    is_last = np.ones(way.shape[0], np.bool_)
    for a in range(steps.step_start.shape[0] - 1):
        low, high = steps.scan_start[steps.step_start[a]], steps.scan_start[steps.step_start[a + 1]]
        for c in range(low, high):
            for later in range(c + 1, high):
                is_last[c] &= way[later] != way[c]
    return is_last


@kernel
def fold_next(events, i, high, steps, moves, state, index, nodes):
    """Fold rows from i on under *next*; returns the first row that is left.

    The bindings that an event continues leave at its last look into their tree; all its looks there find the
    same ones.
    """
    symbol, moment, way = events.symbol, events.moment, index.way
    step_start, scan_start = steps.step_start, steps.scan_start
    kept_start, kept = steps.kept_start, steps.kept
    src_start, src, dst_start, dst = steps.src_start, steps.src, steps.dst_start, steps.dst
    is_start, of_start, of, start = steps.is_start, index.of_start, index.of, index.start
    mantissa, exponent = state.mantissa.reshape(-1), state.exponent.reshape(-1)
    m, e, words = nodes.m, nodes.e, nodes.words
    bit_start, bit_levels = index.bit_start, index.bit_levels
    rows, ends = index.span.shape[1], index.span.shape[2]
    span, leaf = index.span.reshape(-1), index.leaf.reshape(-1)
    is_last = _last_looks(steps, way)
    got_m, got_e = np.empty(_most_steps(steps)), np.empty(_most_steps(steps), np.int32)
    while i < high:
        a = symbol[i]
        if moves[a] or (i + 1 < high and moment[i + 1] == moment[i]):
            return i
        low, stop = step_start[a], step_start[a + 1]
        if i + _AHEAD < high:
            for tree in range(bit_levels.shape[0]):
                soon = np.uint64(leaf[tree * rows + i + _AHEAD])
                prefetch(m, start[first_level(tree)] + soon)
                prefetch(e, start[first_level(tree)] + soon)
        for t in range(low, stop):
            sum_m, sum_e = 0.0, np.int32(0)
            for o in range(src_start[t], src_start[t + 1]):
                sum_m, sum_e = add(sum_m, sum_e, mantissa[src[o]], exponent[src[o]])
            for c in range(scan_start[t], scan_start[t + 1]):
                tree = way[c]
                at, depth, leaves = first_word(tree), bit_levels[tree], start[first_level(tree)]
                for p in range((tree * rows + i) * ends, (tree * rows + i + 1) * ends, 2):
                    here = next_between(words, bit_start, at, depth, span[p], span[p + 1])
                    while here != 0:
                        node = leaves + here
                        sum_m, sum_e = add(sum_m, sum_e, m[node], e[node])
                        if is_last[c]:
                            m[node], e[node] = 0.0, 0
                            leave(words, bit_start, at, depth, here)
                        here = next_between(words, bit_start, at, depth, here, span[p + 1])
            got_m[t - low], got_e[t - low] = sum_m, sum_e
        for t in range(low, stop):
            for o in range(src_start[t], src_start[t + 1]):
                if not is_start[src[o]]:
                    mantissa[src[o]], exponent[src[o]] = 0.0, 0
        for t in range(low, stop):
            sum_m, sum_e = got_m[t - low], got_e[t - low]
            if sum_m == 0.0:
                continue
            for d in range(dst_start[t], dst_start[t + 1]):
                s = dst[d]
                mantissa[s], exponent[s] = add(mantissa[s], exponent[s], sum_m, sum_e)
            for b in range(kept_start[t], kept_start[t + 1]):
                for o in range(of_start[kept[b]], of_start[kept[b] + 1]):
                    tree = of[o]
                    here = np.uint64(leaf[tree * rows + i])
                    if here > 0:
                        node = start[first_level(tree)] + here
                        m[node], e[node] = add(m[node], e[node], sum_m, sum_e)
                        take(words, bit_start, first_word(tree), bit_levels[tree], here)
        i += 1
    return i
