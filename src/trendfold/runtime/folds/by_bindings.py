"""Bindings kept one by one, found by value or scanned (see kernel.bindings)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel import bindings
from trendfold.kernel.lower import SEMANTICS
from trendfold.kernel.program import (
    BindingIndex,
    BindingLists,
    BindingSteps,
    Events,
    Folded,
    Frame,
    KeptBindings,
)
from trendfold.plan.physical import Bindings
from trendfold.plan.statistics import OperandStatistics
from trendfold.query.nodes import Semantics
from trendfold.runtime.folds import window_batches
from trendfold.runtime.folds.compared_operand import Compared, read_compared
from trendfold.runtime.folds.growing_trees import growth, pool_bytes
from trendfold.runtime.folds.nested_trees import nested_bytes
from trendfold.runtime.folds.operand import OperandRows
from trendfold.runtime.folds.window_batches import Batches
from trendfold.runtime.windows import Items


@dataclass(frozen=True)
class InBatches:
    """A compared operand, and its overlapping windows in batches, keyed by windows per batch."""

    compared: Compared
    batches: dict[int, Batches]


def measure(here: OperandRows) -> tuple[OperandStatistics, InBatches]:
    """Measure batches of windows, and prepare what folding needs with or without batches."""
    compared = read_compared(here)
    statistics, batches = window_batches.measure(here, compared)
    return statistics, InBatches(compared, batches)


def fold(here: OperandRows, way: Bindings, material: InBatches) -> tuple[Folded, int]:
    """The aggregates of every window, and the bytes of all bindings and trees kept."""
    compared = material.compared
    if way.windows > 1:
        return window_batches.fold_batches(here, compared, material.batches[way.windows])
    items, out = here.items, here.nothing()
    room, size = make_room(here, compared)
    machine, index = compared.for_kernels, compared.index
    longest = int((items.high - items.low).max(initial=0))
    semantics = SEMANTICS[here.operand.machine.semantics]
    growable = growth(index.grown, longest, compared.frame)
    bindings.fold_binding_windows(
        here.events,
        items.low,
        items.until,
        items.high,
        machine,
        semantics,
        compared.frame,
        room,
        growable,
        out,
    )
    return out, size


def make_room(here: OperandRows, compared: Compared) -> tuple[bindings.BindingRoom, int]:
    """Memory for the bindings of one window, and the bytes of all bindings and trees kept."""
    items, events = here.items, here.events
    frame, index = compared.frame, compared.index
    is_next = here.operand.machine.semantics is Semantics.NEXT
    capacity = _capacity(events, items, compared.steps, compared.lists)
    trees = len(index.levels)
    holders = index.leaves if is_next and trees > 1 else 0
    longest = int((items.high - items.low).max(initial=0))
    size = (
        compared.places * capacity * bindings.binding_bytes(frame)
        + index.nodes * bindings.node_bytes(frame)
        + holders * trees * 4
        + nested_bytes(index.nested)
        + pool_bytes(index.grown, longest, frame)
        + index.words * 8
    )
    held = "bindings kept one by one" + ", in sum trees" * compared.has_trees
    here.limits.check_state(here.plan.query.name, size, held)
    room = bindings.BindingRoom(
        _lists(compared.places, capacity, frame),
        _nodes(index, frame),
        empty((trees if holders else 0, holders), np.int32),
    )
    return room, size


def _capacity(events: Events, items: Items, steps: BindingSteps, lists: BindingLists) -> int:
    """The capacity of a list of bindings: those of a window, or of a moment if trees hold the rest."""
    if lists.is_stored.any():
        return int(bindings.most_kept(events, items.low, items.high, steps, lists.is_stored))
    of_one_event = int(np.diff(steps.kept_start[steps.step_start]).max(initial=0))
    return max(1, of_one_event * int(bindings.longest_moment(events.moment)))


def _lists(lists: int, capacity: int, frame: Frame) -> KeptBindings:
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
