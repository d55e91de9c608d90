"""Queries that compare neighbours alike share ranks, tables and trees: a lane is a query in an open window.

The rows are those that any query needs. A step is taken by the queries whose local conditions the row
satisfies; in all other lanes its mass is set to zero (see kernel.window_lanes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.lane_runs import RUN
from trendfold.kernel.program import Folded
from trendfold.kernel.window_lanes import LaneMasks
from trendfold.plan import Group
from trendfold.plan.physical import SharedTrees
from trendfold.plan.statistics import BatchSize, OperandStatistics
from trendfold.runtime.folds.compared_operand import Compared, read_compared
from trendfold.runtime.folds.operand import OperandRows
from trendfold.runtime.folds.window_batches import Batches, cut, fold_masked
from trendfold.runtime.lane_rows import LaneRows
from trendfold.runtime.limits import Limits
from trendfold.runtime.values import no_trends, values_beside

WINDOWS = (1, 8, 32)
"""Possible windows per batch, where windows overlap."""
QUERIES = (8, 16, 32, 64, 128, 256)
"""Possible queries per pass; all of them, too."""

Masks = NDArray[np.bool_]


@dataclass(frozen=True)
class ReadyTrees:
    """A group of queries whose rows are ranked and cut into batches: only the fold is left.

    order     the members, those that take most rows first, so that the lanes of a step are next to each other
    is_taken  bool[K,Q]  per step and member, in this order, whether the member takes it
    batches   keyed by windows per batch
    own_share share of the rows that a member needs on average
    """

    here: OperandRows
    compared: Compared
    order: NDArray[np.int64]
    is_taken: Masks
    batches: dict[int, Batches]
    own_share: float

    @property
    def statistics(self) -> OperandStatistics:
        """Windows, and all batch sizes that fit the limit on state, for one query and for several."""
        every = -(-len(self.order) // RUN) * RUN
        sizes = [
            BatchSize(windows, batches.passed, self._bytes(windows, queries), queries)
            for windows, batches in self.batches.items()
            for queries in (1, *(n for n in QUERIES if n < every), every)
        ]
        fitting = tuple(size for size in sizes if size.bytes <= self.here.limits.state)
        window_rows = int((self.here.items.high - self.here.items.low).sum())
        return OperandStatistics(window_rows=window_rows, batches=fitting)

    def fold(self, way: SharedTrees) -> tuple[tuple[Folded, ...], int]:
        """Per member the aggregates of its windows, and the bytes held."""
        found: dict[int, Folded] = {}
        for first in range(0, len(self.order), way.queries):
            members = self.order[first : first + way.queries]
            masks = lane_masks(self.is_taken[:, first : first + way.queries])
            found.update(zip(members.tolist(), self._fold(way.windows, masks), strict=True))
        return tuple(found[k] for k in range(len(found))), self._bytes(way.windows, way.queries)

    def _fold(self, windows: int, masks: LaneMasks) -> Iterator[Folded]:
        """One pass over the rows; yields the aggregates of each query."""
        carried, items = self.here.operand.carried, len(self.here.items.low)
        out = no_trends(items * masks.queries, carried.width, len(carried.extremes))
        batches = replace(self.batches[windows], stride=masks.stride)
        fold_masked(self.here, self.compared, batches, masks, out)
        for query in range(masks.queries):
            own = slice(query, None, masks.queries)
            yield Folded(out.mantissa[own], out.exponent[own], out.extreme[own])

    def _bytes(self, windows: int, queries: int) -> int:
        return replace(self.batches[windows], stride=queries).bytes(self.compared.frame)


def make_trees(group: Group, together: LaneRows, limits: Limits) -> ReadyTrees:
    """Rank the values that rows are compared by, once for all members, and measure batches of windows."""
    first = group.members[0]
    (operand,) = first.operands
    taken = together.taken.is_taken.reshape(together.kinds, len(group.members), -1)
    alphabet = tuple(frozenset(np.flatnonzero(kind).tolist()) for kind in np.any(taken, axis=1))
    rows = replace(together.rows, alphabets=(alphabet,))
    events = values_beside(operand.carried, rows.symbols[0], together.moment, rows, together.batch)
    (items,) = together.windows
    here = OperandRows(first, 0, events, rows, items, together.batch, limits)
    compared = read_compared(here)
    of_kind = np.bincount(rows.symbols[0], minlength=together.kinds)
    needed = np.any(taken, axis=2).T @ of_kind
    order = np.argsort(-needed, kind="stable")
    steps = [
        (a, step.position) for a, symbol in enumerate(alphabet) for step in operand.machine.steps(symbol)
    ]
    kind, position = np.array(steps, np.int64).reshape(-1, 2).T
    overlap = bool(np.any(items.high[:-1] > items.low[1:]))
    batches = cut(here, compared, WINDOWS if overlap else WINDOWS[:1])
    share = float(needed.mean()) / max(1, len(rows.row))
    return ReadyTrees(here, compared, order, taken[kind, :, position][:, order], batches, share)


def lane_masks(is_taken: Masks) -> LaneMasks:
    """Lanes of these queries; `is_taken` is bool[steps, queries]."""
    steps, queries = is_taken.shape
    runs = -(-queries // RUN)
    mask = np.zeros((steps, runs * RUN), np.bool_)
    mask[:, :queries] = is_taken
    of_run = np.any(mask.reshape(steps, runs, RUN), axis=2)
    first = of_run.argmax(axis=1)
    last = np.where(np.any(of_run, axis=1), runs - of_run[:, ::-1].argmax(axis=1), first)
    at, count = (first * RUN).astype(np.uint64), (last - first).astype(np.uint64)
    return LaneMasks(queries, runs * RUN, np.all(is_taken, axis=1), mask, at, count)
