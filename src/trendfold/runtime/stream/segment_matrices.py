"""Stretches of a stream's events as a matrix per segment: folded, multiplied, stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.columns import decoded
from trendfold.kernel.program import Folded
from trendfold.plan import QueryPlan
from trendfold.plan.overlap import matrix_shape, starts_of
from trendfold.plan.spread import segment_attributes
from trendfold.runtime.folds.by_products import fold_matrices, multiply_runs
from trendfold.runtime.folds.continued_lanes import meaning_of
from trendfold.runtime.pieces import as_batch, concat, cut_rows, moments
from trendfold.runtime.query_rows import read_rows
from trendfold.runtime.spark.exchanges import Exchange, columns_of
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.packed_columns import pack_columns, unpack_columns
from trendfold.runtime.stream.stream_job import StreamJob
from trendfold.runtime.values import read_events
from trendfold.runtime.workspace import Workspace

_ONE = "the only segment"
"""The column of keys where no attribute tells segments apart."""


@dataclass(frozen=True)
class SegmentMatrices:
    """A matrix per segment and operand: [segments, starts, states, numbers]."""

    keys: pa.Table
    folded: tuple[Folded, ...]

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    def at(self, operand: int, segments: NDArray[np.int64]) -> Folded:
        """The matrices of one operand in some segments."""
        part = self.folded[operand]
        return Folded(part.mantissa[segments], part.exponent[segments], part.extreme[segments])

    def to_bytes(self) -> bytes:
        """The keys, and the numbers column by column."""
        keys = layout.to_bytes(self.keys)
        arrays = [part.reshape(len(self), part[0].size) for each in self.folded for part in each]
        return len(keys).to_bytes(8, "little") + keys + pack_columns({}, arrays)

    @staticmethod
    def from_bytes(payload: bytes, plan: QueryPlan) -> SegmentMatrices:
        """What `to_bytes` gave."""
        end = 8 + int.from_bytes(payload[:8], "little")
        keys, (_, arrays) = layout.from_bytes(payload[8:end]), unpack_columns(payload[end:])
        folded = []
        for i, (width, extremes, size) in enumerate(_sizes(plan)):
            m, e, x = arrays[3 * i : 3 * i + 3]
            count = len(m), *size
            parts = m.reshape(*count, width), e.reshape(*count, width), x.reshape(*count, extremes)
            folded.append(Folded(*parts))
        return SegmentMatrices(keys, tuple(folded))


def _sizes(plan: QueryPlan) -> Iterator[tuple[int, int, tuple[int, int]]]:
    for operand in plan.operands:
        shape = matrix_shape(operand.machine, operand.carried)
        yield shape.width, shape.extremes, (shape.starts, shape.states)


def numbers_of_matrix(plan: QueryPlan) -> int:
    """How many numbers the matrices of one segment have."""
    return sum((width + extremes) * starts * states for width, extremes, (starts, states) in _sizes(plan))


def meaning_of_matrices(plan: QueryPlan) -> str:
    """A digest of what the matrices of a query mean."""
    told = [
        [
            [(state.place, state.cls) for state in operand.machine.states],
            starts_of(operand.machine),
            meaning_of(operand.machine, operand.carried),
        ]
        for operand in plan.operands
    ]
    return sha256(json.dumps([1, told]).encode()).hexdigest()[:16]


def no_matrices(plan: QueryPlan, stream: StreamJob) -> SegmentMatrices:
    """The matrices of no segments."""
    nothing = stream.job.schema.empty_table()
    folded = tuple(
        Folded(
            np.zeros((0, *size, width)), np.zeros((0, *size, width), np.int32), np.zeros((0, *size, extremes))
        )
        for width, extremes, size in _sizes(plan)
    )
    return SegmentMatrices(_keys(plan, nothing, np.zeros(0, np.int64)), folded)


def _keys(plan: QueryPlan, table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """The attributes of the segments of some rows."""
    at = pa.array(rows)
    columns = {name: decoded(table.column(name).take(at)) for name in segment_attributes(plan)}
    return pa.table(columns or {_ONE: np.zeros(len(rows), np.int8)})


def matrices_of(plan: QueryPlan, workspace: Workspace) -> SegmentMatrices:
    """Events as a matrix per segment."""
    batch = workspace.batch
    pieces = cut_rows(read_rows(plan, workspace), None, 0, np.zeros(0, np.int64))
    rows, moment = pieces.rows, moments(pieces.rows, batch)
    folded = tuple(
        fold_matrices(operand, read_events(operand, i, rows, moment, batch), rows.alphabets[i], pieces.bounds)
        for i, operand in enumerate(plan.operands)
    )
    return SegmentMatrices(_keys(plan, batch.table, rows.row[rows.segment[:-1]].astype(np.int64)), folded)


def multiply_in_order(
    plan: QueryPlan, parts: Sequence[SegmentMatrices], stream: StreamJob
) -> SegmentMatrices:
    """Multiply matrices of the same segments, in this order."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    keys = concat([part.keys for part in parts])
    workspace = Workspace(as_batch(keys, stream.job.schema, stream.job.nothing))
    code, _ = workspace.partition(plan.partition, tuple(key.attribute for key in plan.plain_keys))
    code = code if len(code) else np.zeros(keys.num_rows, np.int64)
    order = np.argsort(code, kind="stable")
    is_first = np.append(True, code[order][1:] != code[order][:-1])
    run = np.append(np.flatnonzero(is_first), len(code))
    folded = tuple(
        multiply_runs(operand, Folded(*(np.concatenate(each)[order] for each in zip(*own, strict=True))), run)
        for operand, own in zip(
            plan.operands, zip(*(part.folded for part in parts), strict=True), strict=True
        )
    )
    return SegmentMatrices(keys.take(pa.array(order[run[:-1]])), folded)


def with_matrix_rows(
    workspace: Workspace, plan: QueryPlan, keys: pa.Table, time: int, exchange: Exchange
) -> Workspace:
    """The same events, and behind them a row at one time for each of some segments.

    These rows stand for matrices: they take any position, so that they are not left out.
    """
    batch, count = workspace.batch, keys.num_rows
    allowed = plan.operands[0].machine.automaton.positions[0].types.names
    type_ = min(batch.type_names if allowed is None else allowed, default="")
    names = batch.type_names if type_ in batch.type_names else (*batch.type_names, type_)
    columns = {name: batch.table.column(name) for name in sorted({*columns_of(plan), batch.time_column})}
    own = {name: decoded(column) for name, column in columns.items()}
    more = {
        name: keys.column(name).cast(each.type) if name in keys.column_names else pa.nulls(count, each.type)
        for name, each in own.items()
    }
    held = {each: np.append(workspace.holds(each), np.ones(count, np.bool_)) for each in exchange.conditions}
    extended = replace(
        batch,
        table=pa.concat_tables([pa.table(own), pa.table(more)]),
        time=np.append(batch.time, np.full(count, time)),
        type_code=np.append(batch.type_code, np.full(count, names.index(type_), batch.type_code.dtype)),
        type_names=names,
        order=None if batch.order is None else np.append(batch.order, np.zeros(count, batch.order.dtype)),
        _columns={},
    )
    return Workspace(extended, held)
