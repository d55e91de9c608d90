"""Final events of a query that compares neighbours -> vectors and bindings of its open windows.

The representatives of kept bindings are read as the first rows of their segments, just before the new events:
so they lie in every window that is open then, and in no later one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trendfold.events.columns import Column, all_valid
from trendfold.events.schema import Kind
from trendfold.kernel.continued_bindings import GivenWindows
from trendfold.kernel.program import Folded
from trendfold.kernel.rows import number_moments
from trendfold.plan import QueryPlan
from trendfold.runtime.empty_rows import have_takers
from trendfold.runtime.folds.continued_lanes import WindowVectors
from trendfold.runtime.folds.continued_neighbours import (
    BindingFamily,
    ContinuedWindows,
    fold_bindings_on,
    some_masses,
)
from trendfold.runtime.folds.operand import OperandRows
from trendfold.runtime.query_rows import Rows, read_rows
from trendfold.runtime.request import Request
from trendfold.runtime.stream.open_bindings import SegmentBindings
from trendfold.runtime.values import read_events
from trendfold.runtime.windows import HIGHEST, Items, cut
from trendfold.runtime.workspace import Workspace

Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]
Gather = Callable[[SegmentBindings], Workspace]
"""The representatives of some bindings, followed by the new events."""


@dataclass(frozen=True)
class NeighbourRows:
    """New events with the representatives of their segments before them, cut into windows.

    kept      the bindings of these segments
    segment   per event, representatives first, its segment
    """

    plan: QueryPlan
    request: Request
    kept: SegmentBindings
    segment: Longs
    workspace: Workspace
    rows: Rows
    items: Items

    @cached_property
    def of(self) -> Longs:
        """The numbers of the segments that the rows are of, in their order."""
        found: Longs = self.segment[self.rows.row[self.rows.segment[:-1]]]
        return found

    def takers(self) -> Mask:
        """With INCLUDE EMPTY whether a new event in a window can take one of the query's positions."""
        if not self.plan.query.includes_empty:
            return np.zeros((len(self.items.low), 0), np.bool_)
        return have_takers(self.plan, self.rows, replace(self.items, low=self.first()))[:, None]

    def first(self) -> Longs:
        """Per window the first row that is a new event."""
        old = np.append(0, np.cumsum(self.rows.row < len(self.kept.segment)))
        found: Longs = self.items.low + old[self.items.high] - old[self.items.low]
        return found

    def fold(
        self, family: BindingFamily, place: Longs, vectors: WindowVectors, saves: Mask
    ) -> ContinuedWindows:
        """Fold the windows on; `place` is that of a window's vector among all vectors, -1 without one."""
        start, order = self._given_bindings()
        row = np.zeros(len(self.kept.segment), np.int32)
        is_old = self.rows.row < len(row)
        row[self.rows.row[is_old]] = np.flatnonzero(is_old)
        masses = some_masses(self.kept.masses, order)
        masses = masses._replace(row=row[masses.row])
        old = Folded(vectors.mantissa[..., 0], vectors.exponent[..., 0], vectors.extreme[..., 0])
        given = GivenWindows(self.first(), place, Folded(*map(np.ascontiguousarray, old)), start, masses)
        return fold_bindings_on(self._operand(), self.workspace, family, given, saves)

    def _given_bindings(self) -> tuple[Longs, Longs]:
        """Where the bindings of each window begin, and which they are in this order."""
        own_segment = self.kept.segment[self.kept.masses.row]
        index = np.concatenate([self.items.index, self.kept.index])
        segment = np.concatenate([self.of[self.items.segment], own_segment])
        _, window = np.unique(index, return_inverse=True)
        key = window.reshape(-1) * (int(segment.max(initial=0)) + 1) + segment
        items, kept = key[: len(self.items.index)], key[len(self.items.index) :]
        by_key = np.argsort(items, kind="stable")
        at = np.minimum(np.searchsorted(items, kept, sorter=by_key), len(items) - 1)
        item = np.where(items[by_key[at]] == kept, by_key[at], len(items))
        order = np.argsort(item, kind="stable")
        start = np.searchsorted(item[order], np.arange(len(items) + 1))
        return start, order[: start[-1]]

    def _operand(self) -> OperandRows:
        rows, batch = self.rows, self.workspace.batch
        moment = np.empty(len(rows.row), np.int32)
        number_moments(rows.segment, rows.time, batch.order_of(rows.row), moment)
        events = read_events(self.plan.operands[0], 0, rows, moment, batch)
        return OperandRows(self.plan, 0, events, rows, self.items, batch, self.request.limits)

    def bindings(self, found: ContinuedWindows) -> SegmentBindings:
        """The bindings that the windows have left."""
        used, number = np.unique(self.rows.row[found.bindings.row], return_inverse=True)
        return SegmentBindings(
            self.workspace.batch.table.take(used),
            self.segment[used],
            self.items.index[found.item],
            found.bindings._replace(row=number.reshape(-1).astype(np.int32)),
        )


def read_neighbour_rows(
    plan: QueryPlan, kept: SegmentBindings, gather: Gather, segment: Longs, request: Request
) -> NeighbourRows:
    """Read new events and the representatives in `kept`; `segment` has the segments of the new events."""
    workspace = _representatives_first(gather(kept), kept.segment, segment)
    rows = read_rows(plan, workspace, limits=request.limits)
    items = cut(plan, rows, rows.time, request.origin, request.limits, request.asked)
    return NeighbourRows(plan, request, kept, np.concatenate([kept.segment, segment]), workspace, rows, items)


def _representatives_first(workspace: Workspace, old: Longs, new: Longs) -> Workspace:
    """Date representatives just before the new events of their segments.

    old, new  the segments of representatives, and of new events
    What predicates read as the time of an event stays.
    """
    batch, count = workspace.batch, len(old)
    if not count:
        return workspace
    time = batch.time.copy()
    first = np.full(int(new.max()) + 1, HIGHEST)
    np.minimum.at(first, new, time[count:])
    time[:count] = first[old] - 1
    told = {"": Column(Kind.TIME, batch.time, all_valid(len(batch)))}
    order = batch.order
    if order is not None:
        order = np.where(np.arange(len(order)) < count, 0, order)
    return replace(workspace, batch=replace(batch, time=time, order=order, _columns=told))
