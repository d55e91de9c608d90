"""The machine over events, where some places must keep their bindings one by one.

A neighbour predicate asks each earlier binding; a NOT judged by time asks when it was made. Every other place
keeps one vector. GRETA keeps all places binding by binding, COGRA only those that need it. For an event e, a
position q that it can take, and the places p that q may follow,

    mass(e, q) = sum of state(p) + sum of mass(e', p) over the kept bindings (e', p) before e
                 where the predicates of the edge hold, and no NOT has come between           (gather)
    state(q) += mass(e, q), or (e, q) is kept with mass(e, q)                                 (settle)

All events of a moment read what was there before it. Numbers that ride on the count and extremes are folded
alike: a sum s becomes s + value · count, and an extreme the least of all and of the event's own value.

Where `BindingIndex` says so, bindings are in sum trees and found by their values; otherwise they are asked
one by one.

Sources: GRETA (VLDB 2017); COGRA (SIGMOD 2019) for which places keep one vector.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel import growing
from trendfold.kernel.bits import first_word, leave, next_between, take
from trendfold.kernel.fold import pass_time
from trendfold.kernel.guards import move_classes
from trendfold.kernel.jit import inlined, inner, kernel, lent, phase
from trendfold.kernel.nested import MOST_SPANS, find_spans
from trendfold.kernel.ordered import fold_any, fold_next
from trendfold.kernel.pairs import holds
from trendfold.kernel.program import (
    LAST_MOMENT,
    BindingIndex,
    BindingLists,
    BindingSteps,
    Folded,
    Frame,
    Guards,
    Ints,
    KeptBindings,
    Pairs,
)
from trendfold.kernel.scan import total_where
from trendfold.kernel.tree import (
    empty_path,
    first_level,
    least,
    put_extreme,
    put_number,
    remove,
    scratch,
    total,
    visit,
)
from trendfold.kernel.wide import add, times

ANY, NEXT, CONTIGUOUS = 0, 1, 2
UNSPENT = np.int32(2**31 - 1)


class TreeNodes(NamedTuple):
    """The nodes of all trees (see kernel.tree), number after number; empty trees are zeros.

    m, e   float64[W · size], int32[W · size]   x  float64[X · size]
    size   uint64    nodes of one number
    words  uint64[]  sets of leaves, under *next* (see kernel.bits)
    """

    m: NDArray[np.float64]
    e: NDArray[np.int32]
    x: NDArray[np.float64]
    size: np.uint64
    words: NDArray[np.uint64]


class ComparedMachine(NamedTuple):
    """A machine that keeps some bindings, and the columns it compares: records of kernel.program.

    latest  int32[G, m]  see guards.latest_starts
    """

    steps: BindingSteps
    guards: Guards
    pairs: Pairs
    latest: Ints
    lists: BindingLists
    trees: BindingIndex
    frame: Frame


class BindingRoom(NamedTuple):
    """Memory for the bindings of one window.

    nodes   all trees, empty
    holder  int32[T, leaves]  the row at a leaf, where bindings are in several trees and may leave
    """

    kept: KeptBindings
    nodes: TreeNodes
    holder: Ints


class _Work(NamedTuple):
    """Scratch memory of `fold_moments`.

    length    int32[lists]    bindings of each list
    entered   int32[lists]    ... that are in its trees
    dropped   int32[A]        bindings that the guard of an access has dropped
    is_found  bool[C]         under *next*: scans that found bindings in this moment, which are spent
    mass      of one step
    stacks, blocks, spans     of conditions, of sums in trees, and of ranges of leaves
    """

    length: Ints
    entered: Ints
    dropped: Ints
    is_found: NDArray[np.bool_]
    mass: Folded
    stacks: tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int8]]
    blocks: NDArray[np.uint64]
    spans: Ints


@kernel
def fold_binding_windows(events, lows, untils, highs, machine, semantics, frame, room, growth, out):
    """Fold the rows [lows[k], highs[k]) of every window item; its whole trends go to row k of `out`.

    No trend begins at row untils[k] or after it.

    machine    ComparedMachine; room  BindingRoom
    semantics  ANY, NEXT or CONTIGUOUS
    growth     where trees grow: a pool of empty ones (see kernel.growing), its scratch, and room for the rows
               of a window; None otherwise, so that nothing of it is compiled
    """
    steps, lists, index, kept = machine.steps, machine.lists, machine.trees, room.kept
    state, fresh, work = empty_state(frame), empty_state(frame), no_work(frame, machine)
    for k in range(lows.shape[0]):
        low, high = lows[k], highs[k]
        state.mantissa[:] = 0.0
        state.exponent[:] = 0
        state.extreme[:] = np.inf
        forget_all(work)
        if frame.start >= 0:
            state.mantissa[frame.start, 0] = 1.0
            state.extreme[frame.start, : frame.added] = 0.0
        if lists.start >= 0 and low < high:
            _keep_start(lists.start, low, events.moment[low] - 1, machine, kept, work.length)
        fold_moments(
            events, low, untils[k], high, machine, semantics, frame, state, fresh, room, work, growth, False
        )
        for s in frame.whole:
            collect(k, state.mantissa[s], state.exponent[s], state.extreme[s], out)
        if lists.end >= 0 and low < high:
            ended = ended_before(lists.end_guard, machine.latest, events.moment[high - 1])
            _collect_list(k, lists.end, ended, events.moment[high - 1], kept, work.length, out)
        if k + 1 < lows.shape[0]:
            empty_trees(events.symbol, low, high, steps, index, room.nodes)
            if growth is not None:
                growing.clear(growth[0])


@inlined
def ended_before(guard, latest, now):
    """Bindings of the list of ⊤ that were made before this moment do not count."""
    if guard == LAST_MOMENT:
        return now
    return latest[guard, now] if guard >= 0 else np.int32(-1)


@inlined
def no_work(frame, machine):
    """Scratch memory for the windows of one machine."""
    lists, depth = machine.lists.value.shape[0], machine.pairs.depth
    return _Work(
        np.zeros(lists, np.int32),
        np.zeros(lists, np.int32),
        np.zeros(machine.trees.here.shape[0], np.int32),
        np.zeros(machine.steps.scan.shape[0], np.bool_),
        Folded(np.zeros(frame.width), np.zeros(frame.width, np.int32), np.zeros(frame.extremes)),
        (np.empty(depth), np.empty(depth, np.int64), np.empty(depth, np.int8)),
        scratch(),
        np.empty((MOST_SPANS, 3), np.int32),
    )


@inlined
def forget_all(work):
    """No bindings are kept yet."""
    work.length[:] = 0
    work.entered[:] = 0
    work.dropped[:] = 0


@inlined
def empty_state(frame):
    """A vector of zeros for every state."""
    return Folded(
        np.zeros((frame.states, frame.width)),
        np.zeros((frame.states, frame.width), np.int32),
        np.full((frame.states, frame.extremes), np.inf),
    )


@kernel
def longest_moment(moment):
    """The number of events in the largest moment."""
    most, start = 0, 0
    for i in range(1, moment.shape[0] + 1):
        if i == moment.shape[0] or moment[i] != moment[start]:
            most = max(most, i - start)
            start = i
    return most


@kernel
def most_kept(events, lows, highs, steps, is_stored):
    """The most bindings any list must hold at once in any window item; a list not stored holds one moment."""
    symbol, moment = events.symbol, events.moment
    most = 1
    count = np.zeros(is_stored.shape[0], np.int64)
    for k in range(lows.shape[0]):
        count[:] = 0
        for i in range(lows[k], highs[k]):
            is_new = i == lows[k] or moment[i] != moment[i - 1]
            for t in range(steps.step_start[symbol[i]], steps.step_start[symbol[i] + 1]):
                for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
                    here = steps.kept[b]
                    if is_new and not is_stored[here]:
                        count[here] = 0
                    count[here] += 1
                    most = max(most, count[here])
    return most


def binding_bytes(frame):
    """Bytes of one binding in a list."""
    return 3 * 4 + 8 + frame.width * (8 + 4) + frame.extremes * 8


def node_bytes(frame):
    """Bytes of one node of a tree."""
    return frame.width * (8 + 4) + frame.extremes * 8


@kernel
def _keep_start(here, row, moment, machine, kept, length):
    """Keep ⊥ as a binding just before the window's first moment, with a count of 1.

    Conditions with ⊥ read the window's first row.
    """
    value = machine.lists.value[here]
    if value >= 0:
        kept.value[here, 0] = machine.pairs.floats[machine.pairs.left[value], row]
    kept.row[here, 0] = row
    kept.moment[here, 0], kept.spent[here, 0] = moment, UNSPENT
    kept.mantissa[here, 0], kept.exponent[here, 0], kept.extreme[here, 0] = 0.0, 0, np.inf
    kept.mantissa[here, 0, 0] = 1.0
    kept.extreme[here, 0, : machine.frame.added] = 0.0
    length[here] = 1


@inner
def collect(k, mantissa, exponent, extreme, out):
    """Add one vector of whole trends to row k."""
    for w in range(mantissa.shape[0]):
        out.mantissa[k, w], out.exponent[k, w] = add(
            out.mantissa[k, w], out.exponent[k, w], mantissa[w], exponent[w]
        )
    for x in range(extreme.shape[0]):
        out.extreme[k, x] = min(out.extreme[k, x], extreme[x])


@kernel
def _collect_list(k, here, ended, last, kept, length, out):
    """Add the bindings of the list of ⊤ to row k; those made before `ended` are broken by a NOT.

    So are those that a NOT with conditions breaks by the window's `last` moment.
    """
    for b in range(length[here]):
        if kept.moment[here, b] >= ended and kept.value[here, b] > last:
            collect(k, kept.mantissa[here, b], kept.exponent[here, b], kept.extreme[here, b], out)


@inner
def fold_moments(
    events, low, until, high, machine, semantics, frame, state, fresh, room, work, growth, goes_on
):
    """Fold the rows [low, high), a moment at a time: gather, spend or fade, move classes, settle.

    No trend begins from row `until` on.
    goes_on  whether `state` and bindings are those of an earlier moment, directly before row `low`
    """
    events, machine, room, work = lent(events), lent(machine), lent(room), lent(work)
    state, fresh = lent(state), lent(fresh)
    steps, guards, index, nodes = machine.steps, machine.guards, machine.trees, room.nodes
    symbol, moment, moves = events.symbol, events.moment, guards.moves
    is_short = machine.lists.is_short and state.mantissa.shape[1] == 1 and state.extreme.shape[1] == 0
    fading = steps.fades.any()
    before = i = low
    while i < high:
        if i == until:
            _begin_no_more(frame, machine.lists, state, room.kept)
        if is_short:
            if semantics == NEXT:
                i = fold_next(events, i, high, steps, moves, state, index, nodes)
            else:
                i = fold_any(events, i, high, steps, moves, state, index, nodes, work.blocks)
            if i == high:
                break
        j = i + 1
        while j < high and moment[j] == moment[i]:
            j += 1
        moved = False
        if frame.elapsed > 0:
            passed = events.values[i, frame.passed]
            pass_time(passed, frame, state.mantissa.reshape(-1), state.exponent.reshape(-1))
        for e in range(i, j):
            moved |= moves[symbol[e]]
            _gather(events, e, machine, semantics, state, fresh, room, work, growth)
        if semantics == NEXT:
            _spend(symbol, i, j, steps, state)
            _spend_bindings(symbol, i, j, steps, index, room, work, growth)
        if fading:
            if goes_on and i == low:
                _fade_all(steps, state)
            _fade(symbol, before, i, steps, state)
        if moved:
            move_classes(guards, symbol, i, j, state.mantissa, state.exponent, state.extreme)
        for e in range(i, j):
            for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
                for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                    _settle(steps.dst[d], state, fresh)
                for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
                    enter(steps.kept[b], machine.lists.is_stored, index, room, work, growth)
        before = i
        i = j


@inlined
def _begin_no_more(frame, lists, state, kept):
    """Empty ⊥."""
    if frame.start >= 0:
        state.mantissa[frame.start, 0] = 0.0
        state.extreme[frame.start] = np.inf
    if lists.start >= 0:
        kept.mantissa[lists.start, 0, 0] = 0.0
        kept.extreme[lists.start, 0] = np.inf


@phase
def _gather(events, e, machine, semantics, state, fresh, room, work, growth):
    """The mass that event `e` continues, at each position it can take; it is not in state nor trees yet."""
    steps, index, mass, now = machine.steps, machine.trees, work.mass, events.moment[e]
    for t in range(steps.step_start[events.symbol[e]], steps.step_start[events.symbol[e] + 1]):
        _gather_states(t, steps, state, mass)
        for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
            guard, access = steps.scan_guard[c], index.way[c]
            since = machine.latest[guard, now - 1] if guard >= 0 and now > 0 else -1
            if access < 0:
                _scan(events, e, c, since, machine, semantics, room.kept, work)
                continue
            if guard >= 0:
                _drop(access, since, index, room, work, growth)
            if growth is not None and index.grown.is_grown[access]:
                work.is_found[c] |= _ask_grown(access, e, index.grown, growth, mass)
            elif semantics == NEXT:
                work.is_found[c] |= _look(access, e, index, room.nodes, work.spans, mass)
            elif index.nested.is_nested[access]:
                _ask_nested(access, e, index, room.nodes, work.spans, work.blocks, mass)
            else:
                _ask(access, e, index, room.nodes, work.blocks, mass)
        if mass.mantissa[0] == 0.0:
            continue
        weigh(events, e, t, steps, machine.frame.added, mass)
        for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
            _merge(steps.dst[d], fresh, mass)
        for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
            keep(steps.kept[b], e, now, machine, room.kept, work.length, mass)
            if steps.kept[b] == machine.lists.end:
                _keep_end(t, e, machine, room.kept, work.length)


@inlined
def _gather_states(t, steps, state, mass):
    """The mass of a step's states, from before the moment."""
    mantissa, exponent, extreme = mass.mantissa, mass.exponent, mass.extreme
    for w in range(mantissa.shape[0]):
        mantissa[w], exponent[w] = 0.0, 0
    for x in range(extreme.shape[0]):
        extreme[x] = np.inf
    for o in range(steps.src_start[t], steps.src_start[t + 1]):
        s = steps.src[o]
        for w in range(mantissa.shape[0]):
            mantissa[w], exponent[w] = add(
                mantissa[w], exponent[w], state.mantissa[s, w], state.exponent[s, w]
            )
        for x in range(extreme.shape[0]):
            extreme[x] = min(extreme[x], state.extreme[s, x])


# ---- Bindings in trees ------------------------------------------------------------------------------
#
# Trees hold the bindings from before the moment that is being folded: those of the moment enter when it is
# over, and under *next* those that it continued leave.


@inlined
def _ask(a, e, index, nodes, blocks, mass):
    """Add the mass that event `e` continues through access `a`."""
    tree = index.tree_start[a]
    for p in range(0, index.span.shape[2], 2):
        count = visit(
            index.start,
            first_level(tree),
            index.levels[tree],
            index.span[a, e, p],
            index.span[a, e, p + 1],
            blocks,
        )
        _add_blocks(nodes.m, nodes.e, nodes.x, nodes.size, blocks, count, mass)


@kernel
def _ask_nested(a, e, index, nodes, spans, blocks, mass):
    """`_ask`, where the access has trees below one another."""
    start, levels = index.start, index.levels
    for s in range(find_spans(index.nested, a, index.tree_start[a], index.span, e, spans)):
        tree = spans[s, 0]
        count = visit(start, first_level(tree), levels[tree], spans[s, 1], spans[s, 2], blocks)
        _add_blocks(nodes.m, nodes.e, nodes.x, nodes.size, blocks, count, mass)


@kernel
def _ask_grown(a, e, grown, growth, mass):
    """`_ask`, where the tree of the access grows; whether there is any mass."""
    pool, (blocks, _), _ = growth
    cut, is_behind = grown.cut, grown.is_behind
    found = False
    for p in range(0, cut.shape[2], 2):
        low, high = cut[a, e, p], cut[a, e, p + 1]
        count = growing.visit(pool, a, low, is_behind[a, e, p], high, is_behind[a, e, p + 1], blocks)
        found |= _add_blocks(pool.m, pool.e, pool.x, pool.size, blocks, count, mass)
    return found


@kernel
def _add_blocks(m, e, x, size, blocks, count, mass):
    """Add the mass of blocks of siblings; whether there is any."""
    mantissa, exponent, extreme = mass.mantissa, mass.exponent, mass.extreme
    found = False
    if count > 0:
        for w in range(mantissa.shape[0]):
            part_m, part_e = total(m, e, np.uint64(w) * size, blocks, count)
            if w == 0 and part_m == 0.0:
                break
            found = True
            mantissa[w], exponent[w] = add(mantissa[w], exponent[w], part_m, part_e)
        for k in range(extreme.shape[0]):
            extreme[k] = min(extreme[k], least(x, np.uint64(k) * size, blocks, count))
    return found


@kernel
def _look(a, e, index, nodes, spans, mass):
    """`_ask` under *next*, binding by binding, since each will leave; whether there is any."""
    mantissa, exponent, extreme = mass.mantissa, mass.exponent, mass.extreme
    found = False
    for s in range(_spans(index, a, e, spans)):
        tree, high = spans[s, 0], spans[s, 2]
        start, at, levels = index.bit_start, first_word(tree), index.bit_levels[tree]
        leaf = next_between(nodes.words, start, at, levels, spans[s, 1], high)
        while leaf != 0:
            found = True
            node = index.start[first_level(tree)] + leaf
            for w in range(mantissa.shape[0]):
                here = node + np.uint64(w) * nodes.size
                mantissa[w], exponent[w] = add(mantissa[w], exponent[w], nodes.m[here], nodes.e[here])
            for k in range(extreme.shape[0]):
                extreme[k] = min(extreme[k], nodes.x[node + np.uint64(k) * nodes.size])
            leaf = next_between(nodes.words, start, at, levels, leaf, high)
    return found


@inner
def enter(here, is_stored, index, room, work, growth):
    """Put the moment's bindings of a list into its trees."""
    kept, nodes, holder, length, entered = room.kept, room.nodes, room.holder, work.length, work.entered
    start, size = index.start, nodes.size
    for b in range(entered[here], length[here]):
        row = kept.row[here, b]
        for o in range(index.of_start[here], index.of_start[here + 1]):
            tree = index.of[o]
            if growth is not None and index.grown.is_grown[index.grown.access[tree]]:
                _grow(index.grown.access[tree], row, index.grown, kept, here, b, growth)
                continue
            leaf, at, levels = index.leaf[tree, row], first_level(tree), index.levels[tree]
            if leaf <= 0:
                continue
            for w in range(kept.mantissa.shape[2]):
                part_m, part_e = kept.mantissa[here, b, w], kept.exponent[here, b, w]
                put_number(nodes.m, nodes.e, start, at, levels, leaf, np.uint64(w) * size, part_m, part_e)
            for k in range(kept.extreme.shape[2]):
                least_value = kept.extreme[here, b, k]
                put_extreme(nodes.x, start, at, levels, leaf, np.uint64(k) * size, least_value)
            if index.bit_levels[tree] > 0:
                take(nodes.words, index.bit_start, first_word(tree), index.bit_levels[tree], leaf)
            if holder.shape[0]:
                holder[tree, leaf] = row
    if not is_stored[here]:
        length[here] = 0
    entered[here] = length[here]


@kernel
def _grow(a, row, grown, kept, here, b, growth):
    """Put binding `b` of a list into the tree of an access that grows."""
    pool, work, _ = growth
    value = grown.value[a, row]
    if value != value:
        return
    count = growing.place(pool, a, value, row if grown.is_apart[a] else np.int32(0), work)
    path = work[1][0]
    for w in range(kept.mantissa.shape[2]):
        part_m, part_e = kept.mantissa[here, b, w], kept.exponent[here, b, w]
        growing.put_number(pool, path, count, np.uint64(w) * pool.size, part_m, part_e)
    for k in range(kept.extreme.shape[2]):
        growing.put_extreme(pool, path, count, np.uint64(k) * pool.size, kept.extreme[here, b, k])


@kernel
def _drop(a, since, index, room, work, growth):
    """Take the bindings made before `since` out of an access: a NOT has come between."""
    here, kept, entered, dropped = index.here[a], room.kept, work.entered, work.dropped
    while dropped[a] < entered[here] and kept.moment[here, dropped[a]] < since:
        row = kept.row[here, dropped[a]]
        for tree in range(index.tree_start[a], index.tree_start[a + 1]):
            _remove_row(tree, row, index, room.nodes, growth, work.blocks)
        dropped[a] += 1


@kernel
def _remove_row(tree, row, index, nodes, growth, blocks):
    """Take the binding that a row made out of one tree, if it is there."""
    if growth is not None:
        a = index.grown.access[tree]
        if index.grown.is_grown[a]:
            value = index.grown.value[a, row]
            if value == value:
                growing.remove(growth[0], a, value, row, growth[1])
            return
    _remove(tree, index.leaf[tree, row], index, nodes, blocks)


@kernel
def _remove(tree, leaf, index, nodes, blocks):
    """Take a leaf out of one tree, and out of its set under *next*."""
    if leaf <= 0:
        return
    start, at, levels = index.start, first_level(tree), index.levels[tree]
    remove(nodes.m, nodes.e, nodes.x, nodes.size, start, at, levels, leaf, blocks)
    if index.bit_levels[tree] > 0:
        leave(nodes.words, index.bit_start, first_word(tree), index.bit_levels[tree], leaf)


@kernel
def _spend_bindings(symbol, first, stop, steps, index, room, work, growth):
    """Under *next*, take the bindings that the moment continued out of all trees of their list."""
    nodes, is_found, spans, blocks = room.nodes, work.is_found, work.spans, work.blocks
    for e in range(first, stop):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
                if not is_found[c]:
                    continue
                a = index.way[c]
                if growth is not None and index.grown.is_grown[a]:
                    _spend_grown(index, a, e, nodes, growth, blocks)
                    continue
                for s in range(_spans(index, a, e, spans)):
                    _spend_span(index, a, spans[s], nodes, room.holder, growth, blocks)
    for e in range(first, stop):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for c in range(steps.scan_start[t], steps.scan_start[t + 1]):
                is_found[c] = False


@kernel
def _spans(index, a, e, spans):
    """The ranges of leaves that event `e` asks for through access `a`, with their trees; returns how many."""
    if index.nested.is_nested[a]:
        return find_spans(index.nested, a, index.tree_start[a], index.span, e, spans)
    pairs = index.span.shape[2] // 2
    for p in range(pairs):
        spans[p, 0] = index.tree_start[a]
        spans[p, 1], spans[p, 2] = index.span[a, e, 2 * p], index.span[a, e, 2 * p + 1]
    return pairs


@kernel
def _spend_span(index, a, span, nodes, holder, growth, blocks):
    """Take the bindings of one range of leaves out of all trees of their list."""
    tree, low, high = span[0], span[1], span[2]
    start, at, levels = index.bit_start, first_word(tree), index.bit_levels[tree]
    leaf = next_between(nodes.words, start, at, levels, low, high)
    while leaf != 0:
        _leave(tree, index.here[a], leaf, index, nodes, holder, growth, blocks)
        leaf = next_between(nodes.words, start, at, levels, leaf, high)


@kernel
def _spend_grown(index, a, e, nodes, growth, blocks):
    """Take the bindings that event `e` found in a tree that grows out of all trees of their list."""
    pool, (visited, path), rows = growth
    cut, is_behind = index.grown.cut, index.grown.is_behind
    for p in range(0, cut.shape[2], 2):
        low, high = cut[a, e, p], cut[a, e, p + 1]
        low_behind, high_behind = is_behind[a, e, p], is_behind[a, e, p + 1]
        many = growing.occupied(pool, a, low, low_behind, high, high_behind, visited, path, rows)
        for o in range(many):
            _leave_row(index.here[a], rows[o], index, nodes, growth, blocks)


@kernel
def _leave(tree, here, leaf, index, nodes, holder, growth, blocks):
    """Take what is at a leaf of one tree out of all trees of its list."""
    low, high = index.of_start[here], index.of_start[here + 1]
    if high == low + 1:
        _remove(tree, leaf, index, nodes, blocks)
        return
    _leave_row(here, holder[tree, leaf], index, nodes, growth, blocks)


@kernel
def _leave_row(here, row, index, nodes, growth, blocks):
    """Take the binding that a row made out of all trees of its list."""
    for o in range(index.of_start[here], index.of_start[here + 1]):
        _remove_row(index.of[o], row, index, nodes, growth, blocks)


@inner
def empty_trees(symbol, low, high, steps, index, nodes):
    """Make all trees empty again, at no more than the cost of what entered them."""
    m, x, extreme, size, words = nodes.m, nodes.e, nodes.x, nodes.size, nodes.words
    if (high - low) * index.leaf.shape[0] >= index.nodes // 16:
        m[:] = 0.0
        x[:] = 0
        extreme[:] = np.inf
        words[:] = 0
        return
    for e in range(low, high):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for b in range(steps.kept_start[t], steps.kept_start[t + 1]):
                for o in range(index.of_start[steps.kept[b]], index.of_start[steps.kept[b] + 1]):
                    tree = index.of[o]
                    leaf, levels = index.leaf[tree, e], index.levels[tree]
                    empty_path(m, x, extreme, size, index.start, first_level(tree), levels, leaf)
                    leave(words, index.bit_start, first_word(tree), index.bit_levels[tree], leaf)


# ---- Bindings one by one ----------------------------------------------------------------------------


@kernel
def _scan(events, e, c, since, machine, semantics, kept, work):
    """Add the mass that event `e` continues in scan `c`, by asking binding after binding."""
    steps, pairs, lists, length, stacks = (
        machine.steps,
        machine.pairs,
        machine.lists,
        work.length,
        work.stacks,
    )
    mantissa, exponent, extreme = work.mass.mantissa, work.mass.exponent, work.mass.extreme
    here, fixed, now = steps.scan[c], steps.scan_fixed[c], events.moment[e]
    elapsed = machine.frame.elapsed
    low, high = steps.pred_start[c], steps.pred_start[c + 1]
    is_count = mantissa.shape[0] == 1 and extreme.shape[0] == 0
    is_compared = high == low + 1 and lists.value[here] == steps.pred[low]
    if semantics == ANY and is_count and since < 0 and is_compared:
        count = length[here]
        while count > 0 and kept.moment[here, count - 1] >= now:
            count -= 1
        op, bound = pairs.compare[steps.pred[low]], pairs.floats[pairs.right[steps.pred[low]], e]
        m, x = total_where(
            kept.value[here],
            kept.mantissa[here].reshape(-1),
            kept.exponent[here].reshape(-1),
            count,
            op,
            bound,
        )
        mantissa[0], exponent[0] = add(mantissa[0], exponent[0], m, x)
        return
    if semantics == CONTIGUOUS and not fixed:
        since = max(since, now - 1)
    for b in range(length[here] - 1, -1, -1):
        made = kept.moment[here, b]
        if made >= now:
            continue
        if made < since:
            break
        if semantics == NEXT and kept.spent[here, b] < now:
            continue
        fits = True
        for p in range(low, high):
            fits = fits and holds(pairs, steps.pred[p], kept.row[here, b], e, stacks[0], stacks[1], stacks[2])
        if not fits:
            continue
        if not fixed:
            kept.spent[here, b] = now
        for w in range(mantissa.shape[0]):
            mantissa[w], exponent[w] = add(
                mantissa[w], exponent[w], kept.mantissa[here, b, w], kept.exponent[here, b, w]
            )
        if elapsed > 0 and not fixed:  # time has passed since the binding was made
            since_then = events.clock[e] - events.clock[kept.row[here, b]]
            part_m, part_e = times(kept.mantissa[here, b, 0], kept.exponent[here, b, 0], since_then)
            mantissa[elapsed], exponent[elapsed] = add(mantissa[elapsed], exponent[elapsed], part_m, part_e)
        for x in range(extreme.shape[0]):
            extreme[x] = min(extreme[x], kept.extreme[here, b, x])


@inlined
def weigh(events, e, t, steps, added, mass):
    """Let the numbers ride on the count: (c, s) becomes (c, s + a·c) for an event with value a.

    The first `added` extremes add the event's value, the others compare it.
    """
    mantissa, exponent, extreme = mass.mantissa, mass.exponent, mass.extreme
    for w in range(1, mantissa.shape[0]):
        column = steps.weight[t, w]
        if column >= -1:
            part_m, part_e = mantissa[0], exponent[0]
            if column >= 0:
                part_m, part_e = times(part_m, part_e, events.values[e, column])
            mantissa[w], exponent[w] = add(mantissa[w], exponent[w], part_m, part_e)
    for x in range(extreme.shape[0]):
        if steps.xweight[t, x] >= 0:
            value = events.extremes[e, steps.xweight[t, x]]
            extreme[x] = extreme[x] + value if x < added else min(extreme[x], value)


@inlined
def _merge(s, state, mass):
    """Add the mass of a step to state s."""
    for w in range(mass.mantissa.shape[0]):
        state.mantissa[s, w], state.exponent[s, w] = add(
            state.mantissa[s, w], state.exponent[s, w], mass.mantissa[w], mass.exponent[w]
        )
    for x in range(mass.extreme.shape[0]):
        state.extreme[s, x] = min(state.extreme[s, x], mass.extreme[x])


@inlined
def _settle(s, state, fresh):
    """Add what the moment has brought to state s, once: tied events may share a state."""
    for w in range(state.mantissa.shape[1]):
        state.mantissa[s, w], state.exponent[s, w] = add(
            state.mantissa[s, w], state.exponent[s, w], fresh.mantissa[s, w], fresh.exponent[s, w]
        )
    for x in range(state.extreme.shape[1]):
        state.extreme[s, x] = min(state.extreme[s, x], fresh.extreme[s, x])
    _clear(s, fresh)


@inlined
def keep(here, row, moment, machine, kept, length, mass):
    """Append a binding with the mass of a step to a list."""
    pairs, value, b = machine.pairs, machine.lists.value[here], length[here]
    kept.row[here, b], kept.moment[here, b], kept.spent[here, b] = row, moment, UNSPENT
    for w in range(mass.mantissa.shape[0]):
        kept.mantissa[here, b, w], kept.exponent[here, b, w] = mass.mantissa[w], mass.exponent[w]
    for x in range(mass.extreme.shape[0]):
        kept.extreme[here, b, x] = mass.extreme[x]
    if value >= 0:
        kept.value[here, b] = pairs.floats[pairs.left[value], row]
    length[here] = b + 1


@kernel
def _keep_end(t, row, machine, kept, length):
    """Keep the first moment that breaks the binding last added to ⊤: a condition's left side."""
    steps, pairs, here = machine.steps, machine.pairs, machine.lists.end
    first = np.inf
    for c in range(steps.closing_start[t], steps.closing_start[t + 1]):
        first = min(first, pairs.floats[pairs.left[steps.closing[c]], row])
    kept.value[here, length[here] - 1] = first


@inlined
def _clear(s, state):
    """Empty state s."""
    for w in range(state.mantissa.shape[1]):
        state.mantissa[s, w], state.exponent[s, w] = 0.0, 0
    for x in range(state.extreme.shape[1]):
        state.extreme[s, x] = np.inf


@kernel
def _spend(symbol, start, stop, steps, state):
    """Under *next*, empty the states that the moment has continued; ⊥ is not spent."""
    for e in range(start, stop):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for o in range(steps.src_start[t], steps.src_start[t + 1]):
                if not steps.is_start[steps.src[o]]:
                    _clear(steps.src[o], state)


@kernel
def _fade(symbol, start, stop, steps, state):
    """Empty the states whose mass lasts only until the next moment."""
    for e in range(start, stop):
        for t in range(steps.step_start[symbol[e]], steps.step_start[symbol[e] + 1]):
            for d in range(steps.dst_start[t], steps.dst_start[t + 1]):
                if steps.fades[steps.dst[d]]:
                    _clear(steps.dst[d], state)


@kernel
def _fade_all(steps, state):
    """Empty all states whose mass lasts for a moment only."""
    for s in range(steps.fades.shape[0]):
        if steps.fades[s] and not steps.is_start[s]:
            _clear(s, state)
