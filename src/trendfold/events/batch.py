"""A table of events, read once: times, types, order, and columns on demand; rejects kept apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import InputError, RejectError, nearest
from trendfold.events.columns import Column, codes, decoded, from_arrow, kind_of
from trendfold.events.schema import Kind, Schema

TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds per tick of a numeric time column."""

REASONS = (
    "",
    "null type",
    "null time",
    "unparsable time",
    "time finer than 1 us",
    "time out of range",
    "null order",
)
"""Why a row is no event; 0 where it is one."""
_GOOD, _NULL_TYPE, _NULL_TIME, _UNPARSABLE, _TOO_FINE, _OUT_OF_RANGE, _NULL_ORDER = range(len(REASONS))


@dataclass(frozen=True, slots=True)
class Options:
    """Which columns mean what."""

    type_column: str = "type"
    time_column: str = "ts"
    order_column: str | None = None
    id_column: str | None = None
    time_unit: str = "s"
    on_reject: str = "keep"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read whatever the queries are."""
        named = (self.type_column, self.time_column, self.order_column, self.id_column)
        return tuple(name for name in named if name is not None)

    @property
    def ticks(self) -> int:
        """Microseconds per unit of a numeric time column."""
        return TICKS[self.time_unit]

    def __post_init__(self) -> None:
        if self.time_unit not in TICKS:
            raise InputError(f"unknown time_unit {self.time_unit!r}; choose one of {', '.join(TICKS)}")
        if self.on_reject not in ("keep", "fail"):
            raise InputError(f"unknown on_reject {self.on_reject!r}; choose 'keep' or 'fail'")


@dataclass(frozen=True)
class EventBatch:
    """The rows that are events, in the order given.

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
    """Where its rows stood before rejects were taken out; None where nothing was."""
    _columns: dict[str, Column] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.time)

    def column(self, name: str) -> Column:
        """A column of the table as arrays, converted on first use."""
        if name not in self._columns:
            self._columns[name] = from_arrow(self.table.column(name))
        return self._columns[name]

    def order_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        """The order ranks of some rows; empty where there is no order column."""
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
    _require(table, options)
    types = _types(table.column(options.type_column), options.type_column)
    time, reasons = _times(table.column(options.time_column), options)
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
        if options.on_reject == "fail":
            row = int(np.flatnonzero(reasons)[0])
            why = REASONS[reasons[row]]
            raise RejectError(f"row {row} is rejected: {why}; pass on_reject='keep' to keep rejects apart")
        good = reasons == _GOOD
        table, types = table.filter(pa.array(good)), types.filter(pa.array(good))
        time, positions = time[good], np.flatnonzero(good)
        order = None if order is None else order[good]
    coded, unit = _encode(types), (options.time_column, options.ticks)
    return EventBatch(table, time, *coded, order, *unit, rejects, positions)


def _mark(reasons: NDArray[np.uint8], where: NDArray[np.bool_], reason: int) -> None:
    """Give rows a reason that have none yet."""
    if where.any():
        reasons[where & (reasons == _GOOD)] = reason


def _encode(types: pa.ChunkedArray) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """A code per row, and the names the codes stand for."""
    encoded = types.dictionary_encode().unify_dictionaries()
    indices = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    if not indices:
        return np.zeros(0, np.int32), ()
    together = indices[0] if len(indices) == 1 else np.concatenate(indices)
    return together.astype(np.int32, copy=False), tuple(encoded.chunk(0).dictionary.to_pylist())


def _require(table: pa.Table, options: Options) -> None:
    """Every column an option names is there, once, and can be what it is said to be."""
    problems = []
    wanted = [
        ("type_column", options.type_column),
        ("time_column", options.time_column),
        ("order_column", options.order_column),
        ("id_column", options.id_column),
    ]
    for option, name in wanted:
        if name is not None and name not in table.column_names:
            hint = nearest(name, table.column_names) or f"columns are {', '.join(table.column_names)}"
            problems.append(f"there is no column {name!r} ({option}); {hint}")
    doubled = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    problems += [f"column {name!r} is there more than once; rename one" for name in doubled]
    if problems:
        raise InputError("\n".join(problems))
    kind = kind_of(table.schema.field(options.time_column).type)
    if kind in (Kind.BOOLEAN, Kind.OTHER):
        given = table.schema.field(options.time_column).type
        raise InputError(
            f"column {options.time_column!r} (time_column) is of type {given}; "
            f"times are timestamps, numbers or ISO 8601 strings"
        )


def _types(data: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Names of types, or codes of names where no name has two."""
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


def _times(data: pa.ChunkedArray, options: Options) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Times in microseconds, and per row why it cannot be one, as a number into REASONS."""
    reasons = np.zeros(len(data), np.uint8)
    if data.null_count:
        reasons[pc.is_null(data).to_numpy()] = _NULL_TIME
    if kind_of(data.type) is Kind.STRING:
        data, unparsable = _parse_times(data)
        _mark(reasons, unparsable, _UNPARSABLE)
    column = from_arrow(data)
    if not column.is_whole:
        _mark(reasons, ~column.valid, _NULL_TIME)
    match column.kind:
        case Kind.TIME:
            return _whole_micros(column, reasons), reasons
        case Kind.INTEGER:
            return _scaled_integers(column.values, options.ticks, reasons), reasons
        case _:
            exact = column.values.astype(np.float64) * options.ticks
            _mark(reasons, np.abs(exact) >= 2**62, _OUT_OF_RANGE)
            return np.rint(np.where(reasons == _GOOD, exact, 0)).astype(np.int64), reasons


def _whole_micros(column: Column, reasons: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Microseconds; what is finer is marked."""
    values = column.values.astype(np.int64, copy=False)
    if column.per_microsecond == 1:
        return values
    micros, rest = np.divmod(values, column.per_microsecond)
    _mark(reasons, rest != 0, _TOO_FINE)
    return micros


def _scaled_integers(values: NDArray[np.int64], ticks: int, reasons: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Whole numbers of ticks as microseconds; what 62 bits cannot hold is marked."""
    furthest = max(-int(values.min(initial=0)), int(values.max(initial=0)))
    if furthest * ticks >= 2**61:  # near the limit: look at every one
        _mark(reasons, np.abs(values.astype(np.float64)) * ticks >= 2**62, _OUT_OF_RANGE)
        values = np.where(reasons == _GOOD, values, 0)
    return values if ticks == 1 else values * ticks


def _parse_times(data: pa.ChunkedArray) -> tuple[pa.ChunkedArray, NDArray[np.bool_]]:
    """ISO 8601 text to UTC microseconds; without an offset it is UTC. Unparsable text is marked."""
    flat = data.cast(pa.string()).combine_chunks()
    text = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
    zoned = pc.match_substring_regex(text, r"(Z|[+-]\d\d(:?\d\d)?)$")
    has_time = pc.match_substring_regex(text, r"^\d{4}-\d\d-\d\d[T ]")
    zoned = pc.and_(zoned, has_time)
    fits = pc.fill_null(
        pc.match_substring_regex(
            text,
            r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
            r"([T ]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?"
            r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?)?$",
        ),
        False,
    )
    zones = pc.fill_null(pc.and_(zoned, fits), False)
    plain = pc.and_not(fits, zones)
    out = np.zeros(len(text), np.int64)
    good = np.zeros(len(text), np.bool_)
    for mask, kind in ((zones, pa.timestamp("us", "UTC")), (plain, pa.timestamp("us"))):
        rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
        values, parsed = _cast_times(text.take(pa.array(rows)), kind)
        out[rows], good[rows] = values, parsed
    times = pa.array(out).cast(pa.timestamp("us"))
    return pa.chunked_array([times]), ~good & ~pc.is_null(text).to_numpy(zero_copy_only=False)


def _cast_times(text: pa.Array, kind: pa.DataType) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Cast at once; where a value such as 2024-02-31 stops the whole cast, halve until it stands alone."""
    if not len(text):
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    try:
        return text.cast(kind).cast(pa.int64()).to_numpy(zero_copy_only=False), np.ones(len(text), np.bool_)
    except pa.ArrowInvalid:
        if len(text) == 1:
            return np.zeros(1, np.int64), np.zeros(1, np.bool_)
        half = len(text) // 2
        parts = [_cast_times(text[:half], kind), _cast_times(text[half:], kind)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _rejects(table: pa.Table, reasons: NDArray[np.uint8]) -> pa.Table:
    """The rows that have a reason, with it."""
    bad = np.flatnonzero(reasons)
    rows = table.take(pa.array(bad)) if len(bad) else table.slice(0, 0)
    rows = pa.table({name: decoded(rows.column(name)) for name in rows.column_names})
    name = "reason"
    while name in rows.column_names:
        name = f"_{name}"
    return rows.append_column(name, pa.array([REASONS[code] for code in reasons[bad]], pa.string()))
