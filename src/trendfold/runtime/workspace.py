"""Conditions, keys and sort orders over a batch of events, computed once for all queries of a workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.events.columns import Column, codes
from trendfold.events.schema import Kind
from trendfold.kernel import rows as kernels
from trendfold.plan import QueryPlan
from trendfold.query.nodes import Expression
from trendfold.runtime.expressions import attribute_lookup, evaluate, is_true
from trendfold.runtime.sorting import combine, narrow, numbered, row_numbers, sort_with_rows


@dataclass(frozen=True)
class TimeOrder:
    """All rows of a batch by (time, order).

    row   int[n]    row numbers, or empty if the batch is already in that order
    time  int64[n]  the times in that order
    """

    row: NDArray[Any]
    time: NDArray[np.int64]


Partitioning = tuple[tuple[str, ...], tuple[str, ...]]
"""Attributes that must not be null, and attributes that may."""


def partitioning(plan: QueryPlan) -> Partitioning:
    """The attributes by which a query partitions its rows."""
    return plan.partition, tuple(key.attribute for key in plan.plain_keys)


def shared_partitionings(plans: Iterable[QueryPlan]) -> frozenset[Partitioning]:
    """The partitionings by which all rows are sorted once: those of three queries or more."""
    counts = Counter(partitioning(plan) for plan in plans if len(plan.operands) == 1)
    return frozenset(each for each, count in counts.items() if count >= _MANY)


_MANY = 3


@dataclass
class Workspace:
    """A batch with a cache of every predicate, key and sort order that its queries need."""

    batch: EventBatch
    _conditions: dict[Expression, NDArray[np.bool_]] = field(default_factory=dict)
    _keys: dict[tuple[tuple[str, ...], ...], tuple[NDArray[Any], int]] = field(default_factory=dict)
    shared: frozenset[Partitioning] = frozenset()
    """Partitionings of several queries: all rows are sorted once, and each query selects its own."""
    _placed: dict[Partitioning, Placed] = field(default_factory=dict)
    _time_order: TimeOrder | None = None

    def holds(self, condition: Expression) -> NDArray[np.bool_]:
        """Where a local predicate is true, over all rows."""
        if condition not in self._conditions:
            column = evaluate(condition, attribute_lookup(self.batch.column))
            self._conditions[condition] = np.broadcast_to(is_true(column), (len(self.batch),))
        return self._conditions[condition]

    def knows(self, condition: Expression) -> bool:
        """Whether a condition is already evaluated; its columns may then be missing from the batch."""
        return condition in self._conditions

    def partition(self, strict: tuple[str, ...], loose: tuple[str, ...]) -> tuple[NDArray[Any], int]:
        """Codes of the values of some attributes, and their number; -1 where a `strict` one is null.

        Without attributes the array is empty: all rows are in partition 0.
        """
        if (strict, loose) not in self._keys:
            self._keys[strict, loose] = self._encode(strict, loose)
        return self._keys[strict, loose]

    def _encode(self, strict: tuple[str, ...], loose: tuple[str, ...]) -> tuple[NDArray[Any], int]:
        names = tuple(dict.fromkeys((*strict, *loose)))
        columns = [self.batch.column(name) for name in names]
        if not names:
            return np.zeros(0, np.int32), 1
        combined, distinct = narrow(*_codes(columns[0]))
        for column in columns[1:]:
            combined, distinct = combine(combined, distinct, *_codes(column))
        for name, column in zip(names, columns, strict=True):
            if name in strict and not column.is_whole:
                combined[~column.valid] = -1
        return combined, distinct

    def placed(self, by: Partitioning) -> Placed:
        """All rows, of any type, sorted by partition and time; their symbols are type codes."""
        if by not in self._placed:
            self._placed[by] = place(self, self.batch.type_code, *self.partition(*by), keeps_all=True)
        return self._placed[by]

    @property
    def time_order(self) -> TimeOrder:
        """All rows by (time, order)."""
        if self._time_order is None:
            self._time_order = _sort(self.batch)
        return self._time_order

    @property
    def row_type(self) -> type[np.integer[Any]]:
        """The integer type of row numbers: 32 bits if that is enough."""
        return np.int32 if len(self.batch) < 2**31 else np.int64


def _codes(column: Column) -> tuple[NDArray[Any], int]:
    """Codes that are equal exactly where the values are, and an upper bound on them; null is 0."""
    if column.kind is not Kind.FLOAT:
        return codes(column)
    distinct, code = numbered(column.values.view(np.int64))  # zeros have one sign, and NaN is null
    return np.where(column.valid, code + 1, 0), len(distinct) + 1


def _sort(batch: EventBatch) -> TimeOrder:
    """Stable sort: by order first, then by time."""
    if batch.order is None and kernels.is_sorted(batch.time):
        return TimeOrder(np.zeros(0, np.int32), batch.time)
    row, time = row_numbers(len(batch)), batch.time
    if batch.order is not None:
        _, row = sort_with_rows(batch.order, row)
        time = time[row]
    time, row = sort_with_rows(time, row)
    return TimeOrder(row, time)


@dataclass(frozen=True)
class Placed:
    """Rows by partition and time."""

    row: NDArray[Any]
    time: NDArray[np.int64]
    symbol: NDArray[np.int32]
    segment: NDArray[np.int64]


def place(
    workspace: Workspace, symbol: NDArray[Any], partition: NDArray[Any], distinct: int, keeps_all: bool
) -> Placed:
    """Sort rows by partition, stable in time; with `keeps_all`, include rows that can take no position."""
    order = workspace.time_order
    start = np.zeros(distinct + 1, np.uint32 if len(workspace.batch) < 2**31 else np.uint64)
    kernels.count_rows(symbol, partition, keeps_all, start)
    segment, count = start.astype(np.int64), int(start[-1])
    # One more than is found: rows that are not selected are written, too, and overwritten.
    row = empty(count + 1, workspace.row_type)
    symbols, times = empty(count + 1, np.int32), empty(count + 1, np.int64)
    if len(partition):
        row, symbols, times = row[:count], symbols[:count], times[:count]
        packed = empty((count, 2), np.int64)
        kernels.place_rows(order.row, order.time, symbol, partition, keeps_all, start, packed)
        kernels.unpack_rows(packed, row, symbols, times)
    else:
        kernels.select_rows(order.row, order.time, symbol, keeps_all, row, symbols, times)
        row, symbols, times = row[:count], symbols[:count], times[:count]
    return Placed(row, times, symbols, segment)


def occupied(segment: NDArray[np.int64]) -> NDArray[np.int64]:
    """Segment starts without the empty segments."""
    return np.concatenate([segment[:1], segment[1:][np.diff(segment) > 0]])
