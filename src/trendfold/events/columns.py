"""Arrow columns -> numpy arrays of values and validity, by kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.events.schema import Kind

_PER_MICROSECOND = {"s": 1, "ms": 1, "us": 1, "ns": 1000}


@dataclass(frozen=True, slots=True)
class Column:
    """Values, and where they are valid (not null).

    STRING values are codes into `words`, which is sorted bytewise, so codes compare like the strings.
    TIME values are microseconds, or nanoseconds where `per_microsecond` is 1000. A literal has shape () and
    broadcasts to any length.
    """

    kind: Kind
    values: NDArray[Any]
    valid: NDArray[np.bool_]
    words: pa.Array | None = None
    per_microsecond: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether there are no nulls: `valid` is a single True that broadcasts to all rows."""
        return not any(self.valid.strides) and (self.valid.size == 0 or bool(self.valid.flat[0]))

    def take(self, rows: NDArray[np.integer]) -> Column:
        """The column restricted to some rows."""
        valid = all_valid(len(rows)) if self.is_whole else self.valid[rows]
        return replace(self, values=self.values[rows], valid=valid)


def all_valid(rows: int) -> NDArray[np.bool_]:
    """Validity without nulls: one read-only True broadcast to all rows."""
    return np.broadcast_to(np.True_, (rows,))


def kind_of(type_: pa.DataType) -> Kind:
    """The kind of an Arrow type."""
    if pa.types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if pa.types.is_boolean(type_):
        return Kind.BOOLEAN
    if pa.types.is_integer(type_):
        return Kind.INTEGER
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return Kind.FLOAT
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return Kind.STRING
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return Kind.TIME
    return Kind.NULL if pa.types.is_null(type_) else Kind.OTHER


def scale_of(type_: pa.DataType) -> int | None:
    """The number of decimal places of a decimal type; None for any other type."""
    if pa.types.is_dictionary(type_):
        return scale_of(type_.value_type)
    return type_.scale if pa.types.is_decimal(type_) else None


def unscaled(data: pa.ChunkedArray) -> tuple[NDArray[np.uint64], NDArray[np.bool_]] | None:
    """Unscaled decimals as magnitudes and signs (null is 0); None if one exceeds 64 bits."""
    values = decoded(data)
    try:
        wide = values.cast(pa.decimal128(38, values.type.scale))
    except pa.ArrowInvalid:
        return None
    words = [np.zeros((0, 2), np.uint64)]
    for chunk in wide.chunks:
        if len(chunk):
            words.append(
                np.frombuffer(chunk.buffers()[1], np.uint64).reshape(-1, 2)[chunk.offset :][: len(chunk)]
            )
    low, high = np.where(_valid(wide)[:, None], np.concatenate(words), np.uint64(0)).T
    negative = high >> np.uint64(63) == 1
    size = np.where(negative, ~low + np.uint64(1), low)
    fits = np.where(negative, (high == _ALL_ONES) & (size > 0), high == 0)
    return (size, negative) if fits.all() else None


_ALL_ONES = np.uint64(2**64 - 1)


def decoded(data: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decode a dictionary column."""
    return data.cast(data.type.value_type) if pa.types.is_dictionary(data.type) else data


def from_arrow(data: pa.ChunkedArray) -> Column:
    """Convert a column: NaN and infinity become null, -0.0 becomes 0.0, strings become codes."""
    type_ = data.type.value_type if pa.types.is_dictionary(data.type) else data.type
    match kind_of(type_):
        case Kind.STRING:
            return _strings(data)
        case Kind.INTEGER:
            return _integers(data.cast(type_))
        case Kind.FLOAT:
            return floats(*_filled(data.cast(type_).cast(pa.float64()), 0.0))
        case Kind.BOOLEAN:
            return Column(Kind.BOOLEAN, *_filled(data.cast(type_), value=False))
        case Kind.TIME:
            return _times(data.cast(type_))
        case kind:
            nothing = np.zeros(len(data), np.bool_)
            return Column(kind, np.zeros(len(data), np.int64), nothing)


def floats(values: NDArray[np.float64], valid: NDArray[np.bool_]) -> Column:
    """A FLOAT column: non-finite values become null, -0.0 becomes 0.0."""
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):  # a damaged file may hold a signalling NaN
        return Column(Kind.FLOAT, values + 0.0, valid if finite.all() else valid & finite)


def _filled(data: pa.ChunkedArray, value: object) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    valid = _valid(data)
    return (pc.fill_null(data, value) if data.null_count else data).to_numpy(), valid


def _valid(data: pa.ChunkedArray | pa.Array) -> NDArray[np.bool_]:
    if not data.null_count:
        return all_valid(len(data))
    valid: NDArray[np.bool_] = pc.is_valid(data).to_numpy(zero_copy_only=False)
    return valid


def _integers(data: pa.ChunkedArray) -> Column:
    try:
        wide = data.cast(pa.int64())
    except pa.ArrowInvalid:  # unsigned values above 2^63
        return floats(*_filled(data.cast(pa.float64(), safe=False), 0.0))
    return Column(Kind.INTEGER, *_filled(wide, 0))


def _times(data: pa.ChunkedArray) -> Column:
    unit = data.type.unit if pa.types.is_timestamp(data.type) else "us"
    fine = data.cast(pa.timestamp("ns" if unit == "ns" else "us")).cast(pa.int64())
    return Column(Kind.TIME, *_filled(fine, 0), per_microsecond=_PER_MICROSECOND[unit])


def _strings(data: pa.ChunkedArray) -> Column:
    encoded = data if pa.types.is_dictionary(data.type) else data.dictionary_encode()
    encoded = encoded.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # no chunks at all
        nothing = [pa.array([], pa.string()).dictionary_encode()]
        encoded = pa.concat_arrays(encoded.chunks or nothing)
    words = encoded.dictionary.cast(pa.large_string())
    order = pc.sort_indices(words).to_numpy()
    rank = np.empty(len(words) + 1, np.int64)
    rank[order] = np.arange(len(words))
    rank[-1] = 0
    valid = _valid(encoded.indices)
    indices = encoded.indices
    if indices.null_count:
        indices = pc.fill_null(indices.cast(pa.int64()), -1)
    codes = indices.to_numpy(zero_copy_only=False)
    words, rank = _without_repeats(words.take(pa.array(order)), rank)
    return Column(Kind.STRING, rank[codes], valid, words)


def _without_repeats(words: pa.Array, rank: NDArray[np.int64]) -> tuple[pa.Array, NDArray[np.int64]]:
    """Merge duplicate dictionary entries: equal words must have equal codes."""
    if len(words) < 2:
        return words, rank
    fresh = np.ones(len(words), np.bool_)
    fresh[1:] = pc.not_equal(words[1:], words[:-1]).to_numpy(zero_copy_only=False)
    if fresh.all():
        return words, rank
    return words.filter(pa.array(fresh)), (np.cumsum(fresh) - 1)[rank]


def codes(column: Column) -> tuple[NDArray[Any], int]:
    """Dense codes, equal exactly where the values are, and an upper bound above all of them.

    Null is 0 and sorts first.
    """
    if column.kind is Kind.FLOAT:
        return _ranks(column.values, column)
    values = column.values.astype(np.int64, copy=False)
    low = int(values.min()) if len(values) else 0
    high = int(values.max(initial=low)) - low + 2
    if high >= 2**62:
        return _ranks(values, column)
    found = empty(len(values), np.int32 if high < 2**31 else np.int64)
    np.subtract(values, low - 1, out=found, casting="same_kind")
    if not column.is_whole:
        found[~column.valid] = 0
    return found, high


def _ranks(values: NDArray[Any], column: Column) -> tuple[NDArray[np.int64], int]:
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.where(column.valid, inverse.reshape(-1) + 1, 0), len(distinct) + 1
