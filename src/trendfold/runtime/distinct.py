"""COUNT(DISTINCT a, b): how many values partitions with a trend have. Partial counts cannot be added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch
from trendfold.plan.carried import distinct_attributes
from trendfold.query.nodes import GroupKey, Query
from trendfold.runtime.pieces import as_batch
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.sorting import numbered_pairs
from trendfold.runtime.workspace import Workspace


def count_distinct(row: NDArray[np.int64], value: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """How many different values each row has; a value of -1 does not count."""
    counted = value >= 0
    owner, _, _ = numbered_pairs(row[counted], value[counted])
    return np.bincount(owner, minlength=rows)


def values_of_segments(rows: Rows, batch: EventBatch, attributes: Sequence[str]) -> NDArray[np.int64]:
    """Codes of the values that some attributes have in each segment; -1 where one is null."""
    return codes_of(_of_segments(rows, batch, attributes), batch)


def _of_segments(rows: Rows, batch: EventBatch, attributes: Sequence[str]) -> pa.Table:
    return batch.table.select(attributes).take(pa.array(_examples(rows)))


def _examples(rows: Rows) -> NDArray[np.int32]:
    """A row of each segment. A stream without rows gets that of another, and holds no trend."""
    return rows.row[np.minimum(rows.segment[:-1], len(rows.row) - 1)]


def codes_of(table: pa.Table, like: EventBatch, *, with_nulls: bool = False) -> NDArray[np.int64]:
    """Codes of the rows of a table, equal where rows are; -1 where a value is null, unless `with_nulls`."""
    batch, names = as_batch(table, table.schema, like), tuple(table.column_names)
    code, _ = Workspace(batch).partition(*(((), names) if with_nulls else (names, ())))
    return code.astype(np.int64)


def apart_by_value(query: Query, rows: Rows, batch: EventBatch) -> Rows:
    """Rows whose groups are told apart by the attributes of COUNT(DISTINCT), too.

    So a task sends values with its totals, and the task that adds these up counts the values.
    """
    names = distinct_attributes(query)
    if not names:
        return rows
    value = codes_of(_of_segments(rows, batch, names), batch, with_nulls=True)
    group, _, which = numbered_pairs(rows.group, value)
    example = np.empty(len(group), np.int64)
    example[which] = _examples(rows)
    kept = {key: at[group] for key, at in rows.group_rows.items()}
    named = {GroupKey(None, name): example for name in names}
    return replace(rows, group=which.astype(np.int64), group_rows=named | kept)
