"""Overlapping windows in batches that share the same trees, where neighbours are found by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel import window_lanes as kernels
from trendfold.kernel.bindings import node_bytes
from trendfold.kernel.lane_runs import RUN
from trendfold.kernel.program import BindingIndex, Events, Folded, Frame
from trendfold.plan.neighbour import Access, Structure
from trendfold.plan.overlap import Sharing
from trendfold.plan.statistics import BatchSize, OperandStatistics
from trendfold.query.nodes import Semantics
from trendfold.runtime.folds.compared_operand import Compared
from trendfold.runtime.folds.operand import OperandRows

SIZES = (8, 16, 32, 64, 128)
"""Possible windows per batch: more windows share each search, and take more memory."""


@dataclass(frozen=True)
class Batches:
    """Windows in batches, and the sizes of the largest batch."""

    first: NDArray[np.int64]
    """The first window of each batch, and where the last one ends."""
    windows: int
    passed: int
    """Rows of all batches together."""
    nodes: int
    """An upper bound on the states and nodes of the largest batch."""
    slots: int
    """The most steps of the events of one moment."""
    touched: int
    """The most vectors that a step reads or writes."""
    holders: int
    """Per tree, the number of leaves that store their row."""
    asks: NDArray[np.int8]
    """The kind of lookups of each tree."""
    stride: int = 1
    """Lanes per window: more than one where queries share the trees."""

    @property
    def lanes(self) -> int:
        """The lanes of a vector, in whole runs."""
        return -(-self.windows * self.stride // RUN) * RUN

    def bytes(self, frame: Frame) -> int:
        """The bytes of the largest batch."""
        vectors = (self.nodes + self.slots) * self.lanes * int(node_bytes(frame))
        return vectors + 8 * self.touched + 4 * self.holders * len(self.asks)


def measure(here: OperandRows, compared: Compared) -> tuple[OperandStatistics, dict[int, Batches]]:
    """Statistics of the batches that fit the limit on state, and all batches keyed by windows per batch."""
    if here.plan.sharing(here.operand) is not Sharing.TREES:
        return OperandStatistics(), {}
    found = cut(here, compared, SIZES)
    sizes = [BatchSize(n, each.passed, each.bytes(compared.frame)) for n, each in found.items()]
    fitting = tuple(size for size in sizes if size.bytes <= here.limits.state)
    window_rows = int((here.items.high - here.items.low).sum())
    return OperandStatistics(window_rows=window_rows, batches=fitting), found


def cut(here: OperandRows, compared: Compared, sizes: Sequence[int]) -> dict[int, Batches]:
    """Cut the windows into batches of every size; keyed by windows per batch."""
    items, events = here.items, here.events
    steps, index, frame = compared.steps, compared.index, compared.frame
    is_next = here.operand.machine.semantics is Semantics.NEXT
    asks = np.array([_asked(access, is_next) for access in compared.asked.accesses], np.int8)
    per_row = np.zeros(len(events.symbol) + 1, np.int64)
    for asked, leaf in zip(asks, index.leaf, strict=True):
        per_row[1:] += (leaf > 0) * (2 if asked == kernels.BETWEEN else 1)
    nodes_before = np.cumsum(per_row)
    steps_taken = np.diff(steps.step_start)[events.symbol]
    slots = int(np.bincount(events.moment, steps_taken).max(initial=1))
    holders = index.leaves if is_next else 0
    looked_at = holders or kernels.MOST_ASKED * index.span.shape[2] // 2
    scans = int(np.diff(steps.scan_start).max(initial=0))
    touched = frame.states + max(scans * looked_at, len(asks) * kernels.MOST_ENTERED)
    found = {}
    for windows in sizes:
        first = empty(len(items.low) + 1, np.int64)
        count = kernels.cut_batches(items.segment, items.low, items.high, windows, first)
        low, high = items.low[first[:count]], items.high[first[1 : count + 1] - 1]
        passed = int((high - low).sum())
        nodes = frame.states + int((nodes_before[high] - nodes_before[low]).max(initial=0))
        found[windows] = Batches(first[: count + 1], windows, passed, nodes, slots, touched, holders, asks)
    return found


def _asked(access: Access, is_next: bool) -> int:
    """The kind of lookups of an access; under *next*, events scan its leaves."""
    if is_next or access.structure is Structure.TABLE:
        return kernels.FLAT
    ops = {compared.op for compared in access.ordered}
    if access.equal or not (ops <= {"<", "<="} or ops <= {">", ">="}):
        return kernels.BETWEEN
    return kernels.BELOW if ops <= {"<", "<="} else kernels.ABOVE


def fold_batches(here: OperandRows, compared: Compared, batches: Batches) -> tuple[Folded, int]:
    """The aggregates of every window, and the bytes of the largest batch."""
    out = here.nothing()
    fold_masked(here, compared, batches, _one_query(len(compared.steps.weight)), out)
    return out, batches.bytes(compared.frame)


def fold_masked(
    here: OperandRows, compared: Compared, batches: Batches, masks: kernels.LaneMasks, out: Folded
) -> None:
    """Fold every batch for the queries of `masks`; a row of `out` is a query in a window."""
    index, frame = compared.index, compared.frame
    kernels.fold_batches(
        here.events,
        batches.first,
        here.items.low,
        here.items.high,
        _steps(compared, here.events),
        compared.guards,
        frame,
        here.operand.machine.semantics is Semantics.NEXT,
        masks,
        _search(batches, index),
        _room(batches, frame),
        out,
    )


def _one_query(steps: int) -> kernels.LaneMasks:
    """One query, which takes every step."""
    everywhere, nowhere = np.ones(steps, np.bool_), np.zeros((steps, 0), np.bool_)
    return kernels.LaneMasks(
        1, 1, everywhere, nowhere, np.zeros(steps, np.uint64), everywhere.astype(np.uint64)
    )


def _steps(compared: Compared, events: Events) -> kernels.BatchSteps:
    own = {name: getattr(compared.steps, name) for name in kernels.BatchSteps._fields[:-2]}
    return kernels.BatchSteps(**own, values=events.values, lowest=events.extremes)


def _search(batches: Batches, index: BindingIndex) -> kernels.Search:
    trees, words = len(batches.asks), index.leaves // 64 + 1
    base, leaves, top = np.zeros((3, trees), np.uint64)
    return kernels.Search(
        kernels.BatchIndex(index.way, index.here, index.span, index.leaf, index.of_start, index.of),
        kernels.BatchTrees(
            batches.asks,
            base,
            leaves,
            top,
            empty((trees, words), np.uint64),
            empty((trees, words), np.uint32),
        ),
        kernels.LeafSets(
            np.zeros(index.words, np.uint64),
            index.bit_start,
            index.bit_levels,
            empty((trees, batches.holders), np.int32),
        ),
        empty(batches.touched, np.uint64),
    )


def _room(batches: Batches, frame: Frame) -> kernels.Room:
    """Memory that one batch after another uses."""
    nodes, slots = batches.nodes * batches.lanes, batches.slots * batches.lanes
    return kernels.Room(
        m=empty(nodes * frame.width, np.float64),
        e=empty(nodes * frame.width, np.int32),
        x=empty(nodes * frame.extremes, np.float64),
        got_m=empty(slots * frame.width, np.float64),
        got_e=empty(slots * frame.width, np.int32),
        got_x=empty(slots * frame.extremes, np.float64),
        has_mass=np.zeros(batches.slots, np.bool_),
    )
