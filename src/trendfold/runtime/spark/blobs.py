"""The rows that tasks exchange: few and large, each containing a whole Arrow table.

To Spark, a blob is one binary value; it never processes single events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel.shuffle import add_key, group_by_bucket
from trendfold.query.nodes import Expression

BITS = "condition bits {}"
"""Names of the columns whose bits say which conditions a row satisfies."""


def is_bits(name: str) -> bool:
    """Whether a column holds condition bits, and is not one of the user's."""
    return name.startswith(BITS.format(""))


_BITS_PER_COLUMN = 63


class Content(IntEnum):
    """The content of a blob."""

    ROWS = 0
    """Events of one exchange."""
    PIECES = 1
    """Matrices of one query."""
    TOTALS = 2
    """Partial sums of one query."""
    RESULT = 3
    """Finished rows of one query."""
    REJECTS = 4
    WINDOWS = 5
    """The windows evaluated for one query."""
    GROUPS = 6
    """The number of groups of one query finished in this task; or their hashes, if others have them too."""
    SEEN = 7
    """The types that occur; `rows` is the number of events read."""
    WARNING = 8
    ERROR = 9
    OVERLAP = 10
    """Signals that parts assumed to be in time order are not."""
    BUNDLE = 11
    """Matrices of several queries; the first query is the owner."""
    LATE = 12
    """Events of a stream that arrived after one of their windows was reported."""
    STATE = 13
    """The size of a stream shard's state."""
    STEP = 14
    """A step that ran (plan.fold_steps)."""
    FINDINGS = 15
    """Findings of reading a part of the source."""
    TICK = 16
    """Sent to every shard of a stream that reports open windows, so that none is left out."""


SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("content", pa.int32()),
        ("owner", pa.int32()),
        ("rows", pa.int64()),
        ("payload", pa.binary()),
    ]
)
DDL = "bucket int, content int, owner int, rows bigint, payload binary"


@dataclass(frozen=True, slots=True)
class Blob:
    """One row sent between tasks; `owner` is an exchange for ROWS, a query otherwise."""

    bucket: int
    content: Content
    owner: int
    rows: int
    payload: bytes | pa.Buffer = b""

    def table(self) -> pa.Table:
        """Unpack the table."""
        return unpack(self.payload)


def pack(table: pa.Table) -> pa.Buffer:
    """Serialize a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack(payload: bytes | pa.Buffer) -> pa.Table:
    """Deserialize a table."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_all()


def for_spark(schema: pa.Schema) -> pa.Schema:
    """The schema in types Spark accepts: it has no times finer than a microsecond."""
    return pa.schema([column.with_type(_coarse(column.type)) for column in schema])


def _coarse(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_struct(type_):
        return pa.struct([column.with_type(_coarse(column.type)) for column in type_])
    return pa.list_(_coarse(type_.value_type)) if pa.types.is_list(type_) else type_


def fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly these columns; missing ones are null, and times are truncated to their unit."""
    columns = [
        table.column(f.name).cast(options=pc.CastOptions(f.type, allow_time_truncate=True))
        if f.name in table.column_names
        else pa.chunked_array([pa.nulls(table.num_rows, f.type)])
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def to_batches(blobs: Iterable[Blob]) -> Iterator[pa.RecordBatch]:
    """Blobs as Spark rows, one per batch because they are large."""
    for blob in blobs:
        payload = blob.payload if isinstance(blob.payload, bytes) else blob.payload.to_pybytes()
        columns = [[blob.bucket], [int(blob.content)], [blob.owner], [blob.rows], [payload]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, f.type) for values, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Blob]:
    """Read blobs from Spark rows."""
    for batch in batches:
        fixed = [batch.column(i).to_pylist() for i in range(4)]
        payloads = batch.column(4)
        for i, (bucket, content, owner, rows) in enumerate(zip(*fixed, strict=True)):
            yield Blob(bucket, Content(content), owner, rows, payloads[i].as_buffer())


# ---------------------------------------------------------------- buckets


def hashes(column_of: Mapping[str, Column], count: int) -> NDArray[np.uint64]:
    """A hash per row of its key values, the same in every process."""
    known = np.zeros(count, np.uint64)
    for column in column_of.values():
        add_key(_key_values(column), np.broadcast_to(column.valid, (count,)), known)
    return known


def _key_values(column: Column) -> NDArray[np.int64]:
    if column.kind is Kind.FLOAT:
        return column.values.view(np.int64)
    if column.words is None:
        return column.values.astype(np.int64, copy=False)
    digests = [
        int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        for word in column.words.to_pylist()
    ]
    words = np.array(digests or [0], np.uint64).view(np.int64)
    found: NDArray[np.int64] = words[column.values]
    return found


def split(
    table: pa.Table, known: NDArray[np.uint64], is_sent: NDArray[np.bool_], buckets: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows to send, split by bucket."""
    start, order = np.zeros(buckets + 1, np.int64), np.empty(int(is_sent.sum()), np.int64)
    group_by_bucket(known, is_sent, buckets, order, start)
    moved = table.take(pa.array(order))
    for bucket in range(buckets):
        low, high = int(start[bucket]), int(start[bucket + 1])
        if high > low:
            yield bucket, moved.slice(low, high - low)


# ---------------------------------------------------------------- conditions as bits


def bit_columns(held: Mapping[Expression, NDArray[np.bool_]], count: int) -> dict[str, pa.Array]:
    """The truth values of conditions as integer columns, one bit each."""
    found = {}
    conditions = list(held)
    for k in range(0, len(conditions), _BITS_PER_COLUMN):
        bits = np.zeros(count, np.int64)
        for b, condition in enumerate(conditions[k : k + _BITS_PER_COLUMN]):
            bits |= held[condition].astype(np.int64) << b
        found[BITS.format(k // _BITS_PER_COLUMN)] = pa.array(bits)
    return found


def bit_names(conditions: Collection[Expression]) -> list[str]:
    """The columns that have the truth values of so many conditions."""
    return [BITS.format(k) for k in range(-(-len(conditions) // _BITS_PER_COLUMN))]


def read_bits(
    batch: EventBatch, conditions: tuple[Expression, ...]
) -> dict[Expression, NDArray[np.bool_]] | None:
    """The truth values of conditions from a batch's bits; None if it has no bits."""
    if BITS.format(0) not in batch.table.column_names:
        return None
    found = {}
    for number, condition in enumerate(conditions):
        column, bit = divmod(number, _BITS_PER_COLUMN)
        data = batch.table.column(BITS.format(column))  # null: stored before a query with more joined
        bits = (data if not data.null_count else pc.fill_null(data, 0)).to_numpy()
        found[condition] = ((bits >> bit) & 1).astype(np.bool_)
    return found
