"""The columns that result tables of queries with the same windows and groups have in common, found once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch
from trendfold.kernel.program import Folded
from trendfold.kernel.rows import is_count_up, look_up
from trendfold.plan import QueryPlan
from trendfold.query.names import default_column, key_column
from trendfold.query.nodes import Aggregate, Matches
from trendfold.runtime.query_rows import Rows, group_count
from trendfold.runtime.tables import Groups, Totals, aggregate, window_columns
from trendfold.runtime.windows import Items


@dataclass(frozen=True)
class CommonRows:
    """The window items of some queries in the order of result rows. A query has rows for some of them.

    plan    any of the queries: their windows and keys are the same
    rows    a group is one segment, so that an item is a row
    groups  the groups of all items, in the order of `items`
    order   int[items]  which item comes where; empty if they are in that order already
    items   in that order
    keys    the values of each GROUP BY key, by group
    """

    plan: QueryPlan
    rows: Rows
    batch: EventBatch
    origin: int
    order: NDArray[Any]
    items: Items
    groups: Groups
    keys: tuple[pa.Array, ...]

    @cached_property
    def columns(self) -> tuple[pa.Array, ...]:
        """Start and end of the windows, and the keys."""
        every = Totals(self.items.index, self.groups.of_row, (), self.groups.of_row)
        of_row = pa.array(self.groups.of_row)
        start, end = window_columns(self.plan, every, self.batch, self.origin)
        return start, end, *(key.take(of_row) for key in self.keys)

    def columns_at(self, at: NDArray[np.int32]) -> tuple[pa.Array, ...]:
        """The same for some of the rows, in order; columns are shared where that is all of them."""
        if len(at) == len(self.items.low):
            return self.columns
        return tuple(_take(column, at) for column in self.columns)


def _take(column: pa.Array, at: NDArray[np.int32]) -> pa.Array:
    """Some values of a column; those of eight bytes are copied without the checks of pyarrow."""
    is_plain = pa.types.is_primitive(column.type) and column.type.bit_width == _BITS and not column.null_count
    if not is_plain:
        return column.take(pa.array(at))
    values = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]
    found = pa.allocate_buffer(8 * len(at))
    look_up(values, at, np.frombuffer(found, np.int64))
    return pa.Array.from_buffers(column.type, len(at), [None, found])


_BITS = 64


def find_common_rows(
    plan: QueryPlan, rows: Rows, items: Items, batch: EventBatch, origin: int
) -> CommonRows | None:
    """The rows of queries with the same windows; None where several segments are added up to one row."""
    if group_count(rows) != len(rows.group):
        return None
    groups = Groups.of(rows.group[items.segment])
    keys = tuple(groups.values(key, rows, batch) for key in plan.query.group_by)
    order = groups.order(items.index, list(keys))
    if is_count_up(order, len(order)):
        order = order[:0]
    else:
        items, groups = items.at(order), Groups(groups.which, groups.of_row[order])
    return CommonRows(plan, rows, batch, origin, order, items, groups, keys)


def table_of_common(
    plan: QueryPlan, common: CommonRows, at: NDArray[np.int32], folded: tuple[Folded, ...]
) -> pa.Table:
    """The table of a query without HAVING.

    at      its rows among the common ones
    folded  their aggregates, by operand, already multiplied by the other operands' counts
    """
    query = plan.query
    assert not isinstance(query.returns, Matches)
    names = "window_start", "window_end", *(key_column(query, key) for key in query.group_by)
    columns = dict(zip(names, common.columns_at(at), strict=True))
    for item in query.returns:
        if isinstance(item.value, Aggregate):
            name = item.name or default_column(item.value)
            columns[name] = aggregate(item.value, plan, folded, common.batch)
    return pa.table(columns)
