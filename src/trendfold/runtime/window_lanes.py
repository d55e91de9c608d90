"""Windows that overlap as lanes of one fold, where neighbours are found by their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel import window_lanes as kernels
from trendfold.kernel.bindings import node_bytes
from trendfold.kernel.program import BindingIndex, BindingSteps, Events, Folded, Frame, Guards, Room
from trendfold.plan.neighbour import Access, Structure
from trendfold.plan.windows import alone_ns, lanes_ns
from trendfold.runtime.windows import Items

LANES = (8, 16, 32, 64, 128)
"""Windows of a batch: more of them share a search, and take more memory."""
_LARGEST_BATCH = 1 << 28
"""Bytes that a batch may take at once."""


@dataclass(frozen=True)
class Batches:
    """Windows in batches, and how large the largest is."""

    first: NDArray[np.int64]
    """The first window of each batch, and where the last one ends."""
    lanes: int
    passed: int
    """Rows of all batches together."""
    nodes: int
    """States and nodes of the largest batch, at most."""
    slots: int
    """The most steps that the events of one moment take."""
    touched: int
    """The most vectors that a step gathers from or leaves its mass at."""
    holders: int
    """Leaves whose row must be known, per tree."""
    asks: NDArray[np.int8]
    """What is asked of each tree."""

    def bytes(self, frame: Frame) -> int:
        """What the largest batch takes."""
        vectors = (self.nodes + self.slots) * self.lanes * int(node_bytes(frame))
        return vectors + 8 * self.touched + 4 * self.holders * len(self.asks)


def cut_batches(
    items: Items,
    events: Events,
    steps: BindingSteps,
    accesses: Sequence[Access],
    index: BindingIndex,
    frame: Frame,
    is_next: bool,
    most_bytes: int,
) -> Batches | None:
    """The batches that cost least, or None where every window on its own costs less."""
    asks = np.array([_asked(access, is_next) for access in accesses], np.int8)
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
    window_rows = int((items.high - items.low).sum())
    entry = frame.width + frame.extremes
    best, least = None, alone_ns(window_rows, entry, is_next)
    for lanes in LANES:
        first = empty(len(items.low) + 1, np.int64)
        count = kernels.cut_batches(items.segment, items.low, items.high, lanes, first)
        low, high = items.low[first[:count]], items.high[first[1 : count + 1] - 1]
        passed = int((high - low).sum())
        nodes = frame.states + int((nodes_before[high] - nodes_before[low]).max(initial=0))
        batches = Batches(first[: count + 1], lanes, passed, nodes, slots, touched, holders, asks)
        size = batches.bytes(frame)
        cost = lanes_ns(passed, window_rows, lanes, entry, size, is_next)
        if size <= min(most_bytes, _LARGEST_BATCH) and cost < least:
            best, least = batches, cost
    return best


def _asked(access: Access, is_next: bool) -> int:
    """What events ask of a tree; under *next* they look at its leaves one by one."""
    if is_next or access.structure is Structure.TABLE:
        return kernels.FLAT
    ops = {compared.op for compared in access.ordered}
    if access.equal or not (ops <= {"<", "<="} or ops <= {">", ">="}):
        return kernels.BETWEEN
    return kernels.BELOW if ops <= {"<", "<="} else kernels.ABOVE


def fold_batches(
    batches: Batches,
    items: Items,
    events: Events,
    steps: BindingSteps,
    guards: Guards,
    frame: Frame,
    is_next: bool,
    index: BindingIndex,
    out: Folded,
) -> None:
    """The whole trends of every window item; they go to `out`."""
    kernels.fold_batches(
        events,
        batches.first,
        items.low,
        items.high,
        steps,
        guards,
        frame,
        is_next,
        index,
        batches.asks,
        _room(batches, index, frame),
        out,
    )


def _room(batches: Batches, index: BindingIndex, frame: Frame) -> Room:
    """Memory for one batch after another."""
    trees, words = len(batches.asks), index.leaves // 64 + 1
    nodes, slots = batches.nodes * batches.lanes, batches.slots * batches.lanes
    return Room(
        node_m=empty(nodes * frame.width, np.float64),
        node_e=empty(nodes * frame.width, np.int32),
        node_x=empty(nodes * frame.extremes, np.float64),
        got_m=empty(slots * frame.width, np.float64),
        got_e=empty(slots * frame.width, np.int32),
        got_x=empty(slots * frame.extremes, np.float64),
        has_mass=np.zeros(batches.slots, np.bool_),
        marks=empty((trees, words), np.uint64),
        before=empty((trees, words), np.uint32),
        words=np.zeros(index.words, np.uint64),
        holder=empty((trees, batches.holders), np.int32),
        touched=empty(batches.touched, np.uint64),
    )
