"""Windows whose bindings are kept one by one, folded on from where earlier rows have left them.

The rows of a window begin with *representatives*: earlier rows whose bindings are given, with their mass.
They are not folded again. Bindings at one place that every later event finds together are one: their mass is
at the leaf of a tree, and the last row that has the leaf represents them all. What a window leaves is its
vector, and per list and leaf that row with the mass there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.bindings import (
    CONTIGUOUS,
    NEXT,
    UNSPENT,
    collect,
    empty_state,
    empty_trees,
    enter,
    fold_moments,
    forget_all,
    keep,
    no_work,
)
from trendfold.kernel.jit import inlined, inner, kernel, lent
from trendfold.kernel.program import Folded, Ints
from trendfold.kernel.tree import first_level

BY_LIST = -1
"""Instead of a tree: bindings of this place are saved from their list, one by one."""


class Masses(NamedTuple):
    """Bindings with their mass.

    row, place  int32[b]  the row of a binding, and the number of its list
    mantissa, exponent    [b, W]; extreme [b, X]
    """

    row: Ints
    place: Ints
    mantissa: NDArray[np.float64]
    exponent: Ints
    extreme: NDArray[np.float64]


class GivenWindows(NamedTuple):
    """What windows begin with.

    first   int64[items]    the first row that is folded; those before it are representatives
    vector  int64[items]    the window's vector among `vectors`; -1 if it begins here
    start   int64[items+1]  where its bindings begin among `bindings`
    """

    first: NDArray[np.int64]
    vector: NDArray[np.int64]
    vectors: Folded
    start: NDArray[np.int64]
    bindings: Masses


class SavedWindows(NamedTuple):
    """Room for what windows leave.

    vector  int64[items]  where the window's vector goes among `vectors`; -1 if it ends, and has a result
    item    int32[room]   per binding the window that leaves it
    tree    int32[lists]  the tree by whose leaves bindings are saved, or BY_LIST
    seen    int32[nodes]  per leaf the last window that saved it, counted from 1; zeros at first
    """

    vector: NDArray[np.int64]
    vectors: Folded
    item: Ints
    bindings: Masses
    tree: Ints
    seen: Ints


@kernel
def continue_windows(events, lows, highs, some, machine, semantics, frame, room, given, saved, out):
    """Fold windows on; returns how many bindings were saved.

    some  int64[2]  the first of the windows to fold, and the first of those not to
    out   per window its whole trends, if it ends
    """
    state, fresh, work = empty_state(frame), empty_state(frame), no_work(frame, machine)
    count = 0
    for k in range(some[0], some[1]):
        _load(given.vector[k], given.vectors, frame.start, state)
        forget_all(work)
        _give(given.start[k], given.start[k + 1], given.bindings, events.moment, machine, room, work)
        low, until = given.first[k], highs[k]
        fold_moments(
            events, low, until, until, machine, semantics, frame, state, fresh, room, work, None, True
        )
        if saved.vector[k] >= 0:
            _store(saved.vector[k], state, saved.vectors)
            count = _save(events, k, lows[k], highs[k], machine, semantics, room, work, saved, count)
        else:
            for s in frame.whole:
                collect(k, state.mantissa[s], state.exponent[s], state.extreme[s], out)
        empty_trees(events.symbol, lows[k], highs[k], machine.steps, machine.trees, room.nodes)
    return count


@inlined
def _load(vector, vectors, start, state):
    """Begin with a vector, or with 1 at ⊥."""
    state.mantissa[:] = 0.0
    state.exponent[:] = 0
    state.extreme[:] = np.inf
    if vector < 0:
        state.mantissa[start, 0] = 1.0
        return
    states = vectors.mantissa.shape[1]
    state.mantissa[:states] = vectors.mantissa[vector]
    state.exponent[:states] = vectors.exponent[vector]
    state.extreme[:states] = vectors.extreme[vector]


@inlined
def _store(vector, state, vectors):
    """Save a vector, without the state that is always empty."""
    states = vectors.mantissa.shape[1]
    vectors.mantissa[vector] = state.mantissa[:states]
    vectors.exponent[vector] = state.exponent[:states]
    vectors.extreme[vector] = state.extreme[:states]


@inner
def _give(low, high, bindings, moment, machine, room, work):
    """Keep the bindings [low, high) that are given, and put them into their trees.

    Their rows are of one moment, so that every list has room for them.
    """
    bindings, machine, room, work = lent(bindings), lent(machine), lent(room), lent(work)
    mass, length, kept = work.mass, work.length, room.kept
    for g in range(low, high):
        mass.mantissa[:] = bindings.mantissa[g]
        mass.exponent[:] = bindings.exponent[g]
        mass.extreme[:] = bindings.extreme[g]
        keep(bindings.place[g], bindings.row[g], moment[bindings.row[g]], machine, kept, length, mass)
    for place in range(length.shape[0]):
        enter(place, machine.lists.is_stored, machine.trees, room, work, None)


@inner
def _save(events, k, low, high, machine, semantics, room, work, saved, count):
    """Append the bindings that window `k` leaves; returns how many there are in all."""
    events, machine, room, work, saved = lent(events), lent(machine), lent(room), lent(work), lent(saved)
    steps, leaf, start, nodes = machine.steps, machine.trees.leaf, machine.trees.start, room.nodes
    symbol, step_start, kept_start, kept = events.symbol, steps.step_start, steps.kept_start, steps.kept
    trees, seen, mass = saved.tree, saved.seen, nodes.m
    for e in range(high - 1, low - 1, -1):
        for b in range(kept_start[step_start[symbol[e]]], kept_start[step_start[symbol[e] + 1]]):
            tree = trees[kept[b]]
            if tree == BY_LIST or leaf[tree, e] <= 0:
                continue
            node = start[first_level(tree)] + np.uint64(leaf[tree, e])
            if seen[node] == k + 1 or mass[node] == 0.0:
                continue
            seen[node] = k + 1
            count = _append_node(k, e, kept[b], node, nodes, saved, count)
    last = events.moment[high - 1]
    for place in range(saved.tree.shape[0]):
        if saved.tree[place] == BY_LIST:
            count = _save_list(k, place, last, semantics, room.kept, work.length[place], saved, count)
    return count


@inlined
def _append_node(k, row, place, node, nodes, saved, count):
    """Append what is at a leaf."""
    bindings = saved.bindings
    saved.item[count], bindings.row[count], bindings.place[count] = k, row, place
    for w in range(bindings.mantissa.shape[1]):
        here = node + np.uint64(w) * nodes.size
        bindings.mantissa[count, w], bindings.exponent[count, w] = nodes.m[here], nodes.e[here]
    for x in range(bindings.extreme.shape[1]):
        bindings.extreme[count, x] = nodes.x[node + np.uint64(x) * nodes.size]
    return count + 1


@inner
def _save_list(k, place, last, semantics, kept, length, saved, count):
    """Append the bindings of a list that a later event may continue."""
    bindings = saved.bindings
    for b in range(length):
        if semantics == NEXT and kept.spent[place, b] != UNSPENT:
            continue
        if semantics == CONTIGUOUS and kept.moment[place, b] != last:
            continue
        saved.item[count], bindings.row[count], bindings.place[count] = k, kept.row[place, b], place
        bindings.mantissa[count], bindings.exponent[count] = kept.mantissa[place, b], kept.exponent[place, b]
        bindings.extreme[count] = kept.extreme[place, b]
        count += 1
    return count
