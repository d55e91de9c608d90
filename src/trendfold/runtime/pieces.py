"""Rows of a linear query -> a matrix per segment and stretch, so that tasks can fold parts of a segment.

A piece is a stretch of one segment that lies in one pane. The pieces of a segment do not overlap in time; in
time order they make up the segment, and windows are products of them, wherever each was folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.errors import TrendfoldError
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.events.columns import decoded
from trendfold.kernel import rows as kernels
from trendfold.kernel.program import Folded
from trendfold.plan import QueryPlan
from trendfold.plan.overlap import matrix_shape
from trendfold.plan.spread import pane_of, segment_attributes
from trendfold.runtime.empty_rows import have_takers
from trendfold.runtime.folds.by_products import fold_matrices, multiply_matrices, pass_time_between
from trendfold.runtime.limits import DEFAULTS, Limits
from trendfold.runtime.query_rows import Rows, name_plain_groups, read_rows
from trendfold.runtime.values import read_events, starting_at
from trendfold.runtime.windows import Items, cut
from trendfold.runtime.workspace import Workspace

FIRST, LAST = "first time", "last time"
"""Columns of a table of pieces, besides the segment's attributes and the matrices."""
TAKERS = "takers 0"
"""With INCLUDE EMPTY, whether an event of the piece can take a positive position."""


class OverlapError(TrendfoldError):
    """Two pieces of one segment overlap in time, so neither comes before the other."""


def matrix_bytes(plan: QueryPlan) -> int:
    """The size of one piece of a query."""
    return sum(matrix_shape(operand.machine, operand.carried).bytes for operand in plan.operands)


@dataclass(frozen=True)
class Cut:
    """The rows of a query cut into pieces: rows [bounds[k], bounds[k+1]) are piece k."""

    rows: Rows
    bounds: NDArray[np.int64]
    segment: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.segment)

    @property
    def items(self) -> Items:
        """The pieces as stretches of rows; their numbers are consecutive."""
        return Items(self.segment, np.arange(len(self), dtype=np.int64), self.bounds[:-1], self.bounds[1:])


def cut_pieces(plan: QueryPlan, workspace: Workspace, origin: int, gaps: NDArray[np.int64]) -> Cut:
    """Cut a query's rows at all window edges, and where a time of `gaps` lies between two rows."""
    return cut_rows(read_rows(plan, workspace), pane_of(plan), origin, gaps)


def cut_rows(rows: Rows, pane: int | None, origin: int, gaps: NDArray[np.int64]) -> Cut:
    """Cut rows at the panes of every segment, and at `gaps`."""
    if pane is None:
        starts, owner = rows.segment[:-1], np.arange(len(rows.segment) - 1, dtype=np.int32)
    else:
        ever = np.iinfo(np.int64)
        panes = rows.segment, rows.time, pane, pane, origin, ever.min, ever.max
        count = kernels.count_sliding(
            *panes, len(rows.row)
        )  # every pane holds a row that no other pane holds
        owner, _, starts, _ = kernels.cut_sliding(*panes, count)
    bounds = np.append(starts, len(rows.row)).astype(np.int64)
    if len(gaps) and len(starts):
        side = np.searchsorted(gaps, rows.time)
        turns = np.flatnonzero(side[1:] != side[:-1]) + 1
        bounds = np.union1d(bounds, turns)
        owner = (np.searchsorted(rows.segment, bounds[:-1], side="right") - 1).astype(np.int32)
    return Cut(rows, bounds, owner)


def fold_pieces(plan: QueryPlan, workspace: Workspace, cut: Cut) -> pa.Table:
    """Fold every piece into a matrix, with the attributes of its segment and its first and last times."""
    rows, batch = cut.rows, workspace.batch
    columns = name_pieces(plan, workspace, cut)
    moment = moments(rows, batch)
    if plan.query.includes_empty:
        columns[TAKERS] = pa.array(have_takers(plan, rows, cut.items))
    for i, operand in enumerate(plan.operands):
        events = starting_at(read_events(operand, i, rows, moment, batch), operand.carried, cut.bounds)
        matrix = fold_matrices(operand, events, rows.alphabets[i], cut.bounds)
        columns |= pack_folded(str(i), matrix, len(cut))
    return pa.table(columns)


def moments(rows: Rows, batch: EventBatch) -> NDArray[np.int32]:
    """The moment of every row."""
    found = empty(len(rows.row), np.int32)
    kernels.number_moments(rows.segment, rows.time, batch.order_of(rows.row), found)
    return found


def name_pieces(plan: QueryPlan, workspace: Workspace, cut: Cut) -> dict[str, Any]:
    """The key columns of pieces: the attributes of their segments, and their first and last times."""
    rows = cut.rows
    at = pa.array(rows.row[rows.segment[:-1]][cut.segment])
    columns = {
        name: decoded(workspace.batch.table.column(name).take(at)) for name in segment_attributes(plan)
    }
    columns[FIRST] = pa.array(rows.time[cut.bounds[:-1]])
    columns[LAST] = pa.array(rows.time[cut.bounds[1:] - 1])
    return columns


def pack_folded(
    label: str, folded: Folded, count: int, is_there: NDArray[np.bool_] | None = None
) -> dict[str, pa.Array]:
    """Pack one operand's numbers into columns of fixed-size lists; exponents only if there are any.

    Missing rows are null.
    """
    parts: dict[str, NDArray[Any]] = folded._asdict()
    mask = None if is_there is None else pa.array(~is_there)
    return {
        f"{name} {label}": pa.FixedSizeListArray.from_arrays(
            pa.array(part.reshape(-1)), part.size // count, mask=mask
        )
        for name, part in parts.items()
        if part.size and (name != "exponent" or part.any())
    }


def unpack_folded(table: pa.Table, operand: int, shape: tuple[int, ...], extremes: int) -> Folded:
    """Unpack what `pack_folded` packed; `shape` is that of one row's mantissas, numbers last."""
    count = table.num_rows

    def part(name: str, last: int, dtype: type[np.generic], nothing: float) -> NDArray[Any]:
        whole = np.full((count, prod(shape[:-1]) * last), nothing, dtype)
        if f"{name} {operand}" in table.column_names:
            lists = table.column(f"{name} {operand}")
            for chunk, rows in zip(lists.chunks, _rows_of(lists), strict=True):
                values = chunk.flatten().to_numpy(zero_copy_only=False)  # non-null rows only
                whole[rows][chunk.is_valid().to_numpy(zero_copy_only=False)] = values.reshape(
                    -1, whole.shape[1]
                )
        return whole.reshape(count, *shape[:-1], last)

    return Folded(
        part("mantissa", shape[-1], np.float64, 0.0),
        part("exponent", shape[-1], np.int32, 0),
        part("extreme", extremes, np.float64, np.inf),
    )


def _rows_of(lists: pa.ChunkedArray) -> Iterator[slice]:
    """The range of rows of every chunk."""
    ends = list(accumulate(map(len, lists.chunks), initial=0))
    return (slice(*edges) for edges in pairwise(ends))


@dataclass(frozen=True)
class Multiplied:
    """Products of pieces: the aggregates of window items, and the items that have a row in any case."""

    rows: Rows
    items: Items
    folded: tuple[Folded, ...]
    with_takers: Items | None


def multiply_pieces(
    plan: QueryPlan, pieces: pa.Table, batch: EventBatch, origin: int, limits: Limits = DEFAULTS
) -> Multiplied:
    """The aggregates of every window, from all pieces of some segments; raises OverlapError.

    `batch` holds the pieces' attributes, row by row (see `as_batch`).
    """
    workspace = Workspace(batch)
    plain = tuple(key.attribute for key in plan.plain_keys)
    code, _ = workspace.partition(plan.partition, plain)
    code = code if len(code) else np.zeros(pieces.num_rows, np.int32)
    first, last = (pieces.column(name).to_numpy() for name in (FIRST, LAST))
    order = np.lexsort((first, code))
    code, first, last = code[order], first[order], last[order]
    same = code[1:] == code[:-1]
    if np.any(same & (last[:-1] >= first[1:])):
        raise OverlapError(f"query {plan.query.name!r}: parts of one group overlap in time")
    segment = np.concatenate([[0], np.flatnonzero(~same) + 1, [len(code)]] if len(code) else [[0]])
    rows = Rows(order, first, (), (), segment.astype(np.int64), np.zeros(0, np.int64), {})
    rows = name_plain_groups(rows, workspace, plan)
    items = cut(plan, rows, rows.time, origin, limits)
    pieces = pieces.take(pa.array(order))
    between = np.where(same, first[1:] - last[:-1], 0)  # none follows the last one
    folded = []
    for i, operand in enumerate(plan.operands):
        shape = matrix_shape(operand.machine, operand.carried)
        matrix = unpack_folded(pieces, i, (shape.starts, shape.states, shape.width), shape.extremes)
        pass_time_between(operand, matrix, between)
        folded.append(multiply_matrices(operand, matrix, items.low, items.high))
    takers = None
    if plan.query.includes_empty:
        before = np.append(0, np.cumsum(pieces.column(TAKERS).to_numpy()))
        takers = items.at(np.flatnonzero(before[items.high] > before[items.low]))
    return Multiplied(rows, items, tuple(folded), takers)


def as_batch(keys: pa.Table, schema: pa.Schema, like: EventBatch) -> EventBatch:
    """A batch with one row per segment or group, which holds only its attributes."""
    count = keys.num_rows
    columns = [
        decoded(keys.column(f.name)).cast(f.type) if f.name in keys.column_names else pa.nulls(count, f.type)
        for f in schema
    ]
    table = pa.table(columns, schema=schema)
    none = np.zeros(count, np.int64)
    return EventBatch(
        table, none, none.astype(np.int32), ("",), None, like.time_column, like.ticks, like.rejects
    )


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables with the same columns; a column without values takes the others' type."""
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()
