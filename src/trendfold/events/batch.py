"""A table of events: times, types and order are read once, other columns on demand; rejects are separate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import InputError, RejectError
from trendfold.events.columns import Column, all_valid, codes, decoded, from_arrow, kind_of
from trendfold.events.findings import (
    NULL_ORDER,
    NULL_TIME,
    NULL_TYPE,
    OUT_OF_RANGE,
    UNPARSABLE,
    Findings,
    because,
    odd_numbers,
)
from trendfold.events.options import Options
from trendfold.events.required import require_columns
from trendfold.events.schema import Kind, Schema
from trendfold.events.times import LONGEST, flat_text, read_format, read_iso, read_numbers

REASONS = ("", NULL_TYPE, NULL_TIME, UNPARSABLE, OUT_OF_RANGE, NULL_ORDER)
"""Why a row is rejected, by code; 0 means it is accepted."""
_GOOD, _NULL_TYPE, _NULL_TIME, _UNPARSABLE, _OUT_OF_RANGE, _NULL_ORDER = range(len(REASONS))


@dataclass(frozen=True)
class EventBatch:
    """The accepted rows, in the order given.

    time        int64[n]  microseconds
    type_code   int32[n]  into type_names
    order       int64[n]  ranks of the order column, or None
    """

    table: pa.Table
    time: NDArray[np.int64]
    type_code: NDArray[np.int32]
    type_names: tuple[str, ...]
    order: NDArray[np.int64] | None
    time_column: str
    ticks: int
    """Microseconds per unit of a numeric time column."""
    rejects: pa.Table
    positions: NDArray[np.int64] | None = None
    """The rows' positions before rejects were removed; None if nothing was rejected."""
    findings: Findings = field(default_factory=Findings, repr=False)
    _columns: dict[str, Column] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.time)

    def column(self, name: str) -> Column:
        """A column as numpy arrays, converted on first use; the empty name is the time of events."""
        if name not in self._columns:
            self._columns[name] = from_arrow(self.table.column(name)) if name else self._event_time()
        return self._columns[name]

    def _event_time(self) -> Column:
        return Column(Kind.TIME, self.time, all_valid(len(self)))

    def order_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """The order ranks of some rows; empty without an order column."""
        return np.zeros(0, np.int64) if self.order is None else self.order[rows]

    @cached_property
    def schema(self) -> Schema:
        """The kinds of the columns."""
        return {f.name: kind_of(f.type) for f in self.table.schema}


def schema_of(schema: pa.Schema) -> Schema:
    """The kinds of columns."""
    return {f.name: kind_of(f.type) for f in schema}


def read_batch(table: pa.Table, options: Options) -> EventBatch:
    """Split a table into events and rejects, and read the columns every query needs."""
    require_columns(table.schema, options)
    types = _types(table.column(options.type_column), options.type_column)
    time, reasons, found = _times(table.column(options.time_column), options)
    order = None
    if types.null_count:
        reasons[~pc.is_valid(types).to_numpy()] = _NULL_TYPE
    if options.order_column is not None:
        column = from_arrow(table.column(options.order_column))
        order = codes(column)[0].astype(np.int64, copy=False)
        _mark(reasons, ~column.valid, _NULL_ORDER)
    rejects = _rejects(table, reasons)
    positions = None
    if rejects.num_rows:
        found = found + _refused(table, reasons, options)
        good = reasons == _GOOD
        table, types = table.filter(pa.array(good)), types.filter(pa.array(good))
        time, positions = time[good], np.flatnonzero(good)
        order = None if order is None else order[good]
    coded, unit = _encode(types), (options.time_column, options.ticks)
    return EventBatch(table, time, *coded, order, *unit, rejects, positions, found)


def _refused(table: pa.Table, reasons: NDArray[np.uint8], options: Options) -> Findings:
    """Rejects by kind, with an example of each; raises if `on_reject` is "fail"."""
    kinds, first, counts = np.unique(reasons, return_index=True, return_counts=True)
    times = table.column(options.time_column)
    examples = {REASONS[k]: str(times[int(row)].as_py()) for k, row in zip(kinds, first, strict=True)}
    if options.on_reject == "fail":
        row = int(np.flatnonzero(reasons)[0])
        kind = REASONS[reasons[row]]
        why = f"{kind}: {because(kind, examples[kind], options)}"
        raise RejectError(f"row {row} is rejected: {why}; pass on_reject='keep' to keep rejects apart")
    found = {REASONS[k]: int(count) for k, count in zip(kinds, counts, strict=True) if k != _GOOD}
    return Findings(found, {kind: examples[kind] for kind in found})


def _mark(reasons: NDArray[np.uint8], where: NDArray[np.bool_], reason: int) -> None:
    """Set a reason for rows that have none yet."""
    if where.any():
        reasons[where & (reasons == _GOOD)] = reason


def _encode(types: pa.ChunkedArray) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """A code per row, and the type name of each code."""
    encoded = types.dictionary_encode().unify_dictionaries()
    indices = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    if not indices:
        return np.zeros(0, np.int32), ()
    together = indices[0] if len(indices) == 1 else np.concatenate(indices)
    return together.astype(np.int32, copy=False), tuple(encoded.chunk(0).dictionary.to_pylist())


def _types(data: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Type names, or dictionary codes if the dictionary has no duplicates."""
    if kind_of(data.type) is Kind.STRING and (
        not pa.types.is_dictionary(data.type) or all(_is_distinct(chunk.dictionary) for chunk in data.chunks)
    ):
        return data
    try:
        return decoded(data).cast(pa.string())
    except pa.ArrowException:
        raise InputError(
            f"column {name!r} (type_column) is of type {data.type}; the names of types are text"
        ) from None


def _is_distinct(words: pa.Array) -> bool:
    return not words.null_count and len(words.unique()) == len(words)


def _times(data: pa.ChunkedArray, options: Options) -> tuple[NDArray[np.int64], NDArray[np.uint8], Findings]:
    """Times in microseconds, a code into REASONS per row, and the findings."""
    reasons = np.zeros(len(data), np.uint8)
    if data.null_count:
        reasons[pc.is_null(data).to_numpy()] = _NULL_TIME
    if kind_of(data.type) is Kind.STRING:
        return _text_times(data, options, reasons)
    column = from_arrow(data)
    if not column.is_whole:
        _mark(reasons, ~column.valid, _NULL_TIME)
    if column.kind is Kind.TIME:
        micros, cut = _whole_micros(column, reasons)
        return micros, reasons, Findings(cut=cut)
    if column.kind is Kind.INTEGER:
        micros = _scaled_integers(column.values, options.ticks, reasons)
    else:
        exact = column.values.astype(np.float64) * options.ticks
        _mark(reasons, np.abs(exact) >= LONGEST, _OUT_OF_RANGE)
        micros = np.rint(np.where(reasons == _GOOD, exact, 0)).astype(np.int64)
    if not reasons.any():
        return micros, reasons, odd_numbers(column.values, micros)
    good = reasons == _GOOD
    return micros, reasons, odd_numbers(column.values[good], micros[good])


def _whole_micros(column: Column, reasons: NDArray[np.uint8]) -> tuple[NDArray[np.int64], int]:
    """Times in microseconds, and how many were truncated to them."""
    values = column.values.astype(np.int64, copy=False)
    if column.per_microsecond == 1:
        return values, 0
    micros, rest = np.divmod(values, column.per_microsecond)
    return micros, int(((rest != 0) & (reasons == _GOOD)).sum())


def _scaled_integers(values: NDArray[np.int64], ticks: int, reasons: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Ticks converted to microseconds; values beyond 62 bits are marked as out of range."""
    furthest = max(-int(values.min(initial=0)), int(values.max(initial=0)))
    if furthest * ticks >= 2**61:  # near the limit: check each one
        _mark(reasons, np.abs(values.astype(np.float64)) * ticks >= LONGEST, _OUT_OF_RANGE)
        values = np.where(reasons == _GOOD, values, 0)
    return values if ticks == 1 else values * ticks


def _text_times(
    data: pa.ChunkedArray, options: Options, reasons: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], Findings]:
    """Parse text times by the given format; without one, as ISO 8601 or numbers in the time unit."""
    text = flat_text(data)
    if options.time_format is not None:
        times = read_format(options.time_format).read(text)
        _mark(reasons, ~times.is_time, _UNPARSABLE)
        return times.micros, reasons, Findings(cut=int(times.is_finer.sum()))
    times = read_iso(text)
    rest = np.flatnonzero(~times.is_time & (reasons == _GOOD))
    found = Findings()
    if len(rest):
        numbers = read_numbers(text.take(pa.array(rest)), options.ticks)
        times.put(rest, numbers.times)
        reasons[rest] = np.where(numbers.is_number, _OUT_OF_RANGE, _UNPARSABLE)
        reasons[times.is_time] = _GOOD
        good = numbers.times.is_time
        found = odd_numbers(numbers.values[good], numbers.times.micros[good])
    return times.micros, reasons, found + Findings(cut=int(times.is_finer.sum()))


def _rejects(table: pa.Table, reasons: NDArray[np.uint8]) -> pa.Table:
    """The rejected rows with their reasons."""
    bad = np.flatnonzero(reasons)
    rows = table.take(pa.array(bad)) if len(bad) else table.slice(0, 0)
    rows = pa.table({name: decoded(rows.column(name)) for name in rows.column_names})
    name = "reason"
    while name in rows.column_names:
        name = f"_{name}"
    return rows.append_column(name, pa.array(REASONS).take(pa.array(reasons[bad])))
