"""Bindings kept one by one: what the kernel needs beside the machine, and the memory it works in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel import bindings
from trendfold.kernel.lower import (
    SEMANTICS,
    ValueAccesses,
    list_numbers,
    lower_asked,
    lower_guards,
    lower_steps,
)
from trendfold.kernel.program import (
    BindingIndex,
    BindingLists,
    BindingSteps,
    Events,
    Folded,
    Frame,
    KeptBindings,
    Pairs,
)
from trendfold.plan import OperandPlan
from trendfold.plan.neighbour import Structure
from trendfold.query.nodes import Semantics
from trendfold.runtime.conditions import compile_pairs
from trendfold.runtime.growing import growth, pool_bytes
from trendfold.runtime.limits import Limits
from trendfold.runtime.neighbour import build_index
from trendfold.runtime.nested import nested_bytes
from trendfold.runtime.rows import Rows
from trendfold.runtime.window_lanes import cut_batches, fold_batches
from trendfold.runtime.windows import Items


def pairs_of(machine: Machine, rows: Rows, batch: EventBatch, asked: Collection[int] | None = None) -> Pairs:
    """The conditions on two events, over the columns of the rows; only those `asked`, if it is given."""
    conditions = (*machine.predicates.adjacency, *machine.predicates.cross)
    return compile_pairs(conditions, lambda name: batch.column(name).take(rows.row), len(rows.row), asked)


def asked_one_by_one(plan: OperandPlan) -> frozenset[int]:
    """The adjacency predicates that are judged pair by pair: those of scans, and inside a NOT."""
    machine = plan.machine
    indexed = {(a.place, a.predicates, a.guard) for a in plan.accesses if a.is_indexed}
    everything = frozenset(p.index for p in machine.automaton.positive)
    scans = [scan for step in machine.steps(everything) for scan in step.scans]
    found = {p for s in scans if (s.place, s.predicates, s.guard) not in indexed for p in s.predicates}
    inside = [edge for guard in machine.automaton.guards for edge in guard.edges]
    return frozenset(found.union(*(machine.predicates.between(p, q) for p, q in inside)))


def fold_bindings(
    plan: OperandPlan,
    query: str,
    events: Events,
    rows: Rows,
    number: int,
    items: Items,
    batch: EventBatch,
    pairs: Pairs,
    latest: NDArray[np.int32],
    end_guard: int,
    frame: Frame,
    limits: Limits,
    shares_windows: bool,
    out: Folded,
) -> None:
    """The whole trends of one operand, the `number`-th, in every window item; they go to `out`."""
    machine, alphabet = plan.machine, rows.alphabets[number]
    places = list_numbers(machine)
    steps = lower_steps(machine, alphabet, plan.carried)
    asked = lower_asked(machine, alphabet, plan.accesses)
    is_next = machine.semantics is Semantics.NEXT
    lists = _lists(places, steps, asked, pairs, end_guard, machine.semantics)
    index = build_index(
        asked,
        events.symbol,
        _ranked_apart(rows, items),
        lambda name: batch.column(name).take(rows.row),
        is_next,
        places,
    )
    guards = lower_guards(machine, alphabet)
    if shares_windows:
        batches = cut_batches(items, events, steps, asked.accesses, index, frame, is_next, limits.state)
        if batches is not None:
            fold_batches(batches, items, events, steps, guards, frame, is_next, index, out)
            return
    capacity = _capacity(events, items, steps, lists)
    trees = len(index.levels)
    holders = index.leaves if is_next and trees > 1 else 0
    size = len(places) * capacity * bindings.binding_bytes(frame)
    size += index.nodes * bindings.node_bytes(frame) + holders * trees * 4 + nested_bytes(index.nested)
    longest = int((items.high - items.low).max(initial=0))
    size += pool_bytes(index.grown, longest, frame)
    size += index.words * 8
    held = "bindings kept one by one" + ", in sum trees" * bool(asked.accesses)
    limits.check_state(query, size, held)
    bindings.fold_binding_windows(
        events,
        items.low,
        items.high,
        steps,
        guards,
        frame,
        pairs,
        latest,
        SEMANTICS[machine.semantics],
        lists,
        index,
        _room(len(places), capacity, frame),
        _nodes(index, frame),
        empty((trees if holders else 0, holders), np.int32),
        growth(index.grown, longest, frame),
        out,
    )


def _ranked_apart(rows: Rows, items: Items) -> NDArray[np.int64]:
    """Where values are ranked anew: at every window if none overlap, so that no tree is larger than one."""
    if np.any(items.high[:-1] > items.low[1:]):
        return rows.segment
    return np.unique(np.concatenate([rows.segment, items.low, items.high]))


def _lists(
    places: dict[int, int],
    steps: BindingSteps,
    asked: ValueAccesses,
    pairs: Pairs,
    end_guard: int,
    semantics: Semantics,
) -> BindingLists:
    is_stored = np.zeros(len(places), np.bool_)
    value = np.full(len(places), -1, np.int32)
    for place in (START, END):
        if place in places:
            is_stored[places[place]] = True
    for access in asked.accesses:
        is_stored[places[access.place]] |= access.guard is not None
    for c in np.flatnonzero(asked.way < 0):
        here = steps.scan[c]
        is_stored[here] = True
        predicates = steps.pred[steps.pred_start[c] : steps.pred_start[c + 1]]
        if len(predicates) == 1 and pairs.compare[predicates[0]]:
            value[here] = predicates[0]
    one_tree_each = len({access.place for access in asked.accesses}) == len(asked.accesses)
    allowed = {Semantics.ANY: True, Semantics.NEXT: one_tree_each, Semantics.CONTIGUOUS: False}
    is_plain = all(a.structure is not Structure.NESTED and not a.is_online for a in asked.accesses)
    is_short = allowed[semantics] and not is_stored.any() and is_plain
    return BindingLists(places.get(START, -1), places.get(END, -1), end_guard, is_stored, value, is_short)


def _capacity(events: Events, items: Items, steps: BindingSteps, lists: BindingLists) -> int:
    """How many bindings a list has room for: those of a window, or where trees hold them, of a moment."""
    if lists.is_stored.any():
        return int(bindings.most_kept(events, items.low, items.high, steps, lists.is_stored))
    of_one_event = int(np.diff(steps.kept_start[steps.step_start]).max(initial=0))
    return max(1, of_one_event * int(bindings.longest_moment(events.moment)))


def _room(lists: int, capacity: int, frame: Frame) -> KeptBindings:
    def column(kind: Any, *more: int) -> NDArray[Any]:
        return empty((lists, capacity, *more), kind)

    return KeptBindings(
        column(np.int32),
        column(np.int32),
        column(np.int32),
        column(np.float64, frame.width),
        column(np.int32, frame.width),
        column(np.float64, frame.extremes),
        column(np.float64),
    )


def _nodes(index: BindingIndex, frame: Frame) -> bindings.TreeNodes:
    """Empty trees."""
    mantissa = empty(frame.width * index.nodes, np.float64)
    exponent = empty(frame.width * index.nodes, np.int32)
    extreme = empty(frame.extremes * index.nodes, np.float64)
    mantissa[:], exponent[:], extreme[:] = 0.0, 0, np.inf
    size, words = np.uint64(max(1, index.nodes)), np.zeros(index.words, np.uint64)
    return bindings.TreeNodes(mantissa, exponent, extreme, size, words)
