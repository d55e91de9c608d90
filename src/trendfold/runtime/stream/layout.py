"""The compact serialization of events in a stream's state. Versioned, because state outlives a release.

Integers are stored as offsets from their minimum in as few bytes as possible, strings as dictionary codes;
other columns unchanged.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import TrendfoldError
from trendfold.runtime.spark.blobs import pack, unpack

VERSION = 2
"""The version of a shard's state. 1 had raw events only, and is read too; any other is refused."""
EVENTS = 1
"""The version of the bytes of events."""

_VERSION, _LEAST, _TYPE = b"trendfold layout", b"least", b"type"
_WIDTHS = (np.uint8, np.uint16, np.uint32)


def require_known(version: int, what: str = "the state of this stream has") -> None:
    """Raise if state was written by a release with another layout."""
    if version not in (1, VERSION):
        raise _unknown(what, str(version), VERSION)


def _unknown(what: str, version: str, known: int) -> TrendfoldError:
    return TrendfoldError(
        f"{what} layout {version}, and this release reads {known}; "
        f"use the release that wrote it, or start with a new checkpoint"
    )


def to_bytes(table: pa.Table) -> bytes:
    """Serialize a table of events."""
    columns, fields = [], []
    for field in table.schema:
        column, metadata = _shrunk(table.column(field.name))
        columns.append(column)
        fields.append(pa.field(field.name, column.type, metadata=metadata))
    schema = pa.schema(fields, metadata={_VERSION: str(EVENTS).encode()})
    found: bytes = pack(pa.table(columns, schema=schema)).to_pybytes()
    return found


def from_bytes(payload: bytes | pa.Buffer) -> pa.Table:
    """Deserialize a table of events."""
    table = unpack(payload)
    version = (table.schema.metadata or {}).get(_VERSION, b"none").decode()
    if version != str(EVENTS):
        raise _unknown("the events of this stream have", version, EVENTS)
    columns = [_grown(table.column(i), field) for i, field in enumerate(table.schema)]
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _shrunk(data: pa.ChunkedArray) -> tuple[pa.Array | pa.ChunkedArray, dict[bytes, bytes] | None]:
    if pa.types.is_dictionary(data.type):
        return _few_words(data), None
    is_whole = pa.types.is_integer(data.type) or pa.types.is_timestamp(data.type)
    is_whole = is_whole and data.type.bit_width >= 32 and not pa.types.is_unsigned_integer(data.type)
    if not is_whole or data.null_count or not len(data):
        return data, None
    whole = data.cast(pa.int64()) if not pa.types.is_int32(data.type) else data
    values = whole.to_numpy()
    least, most = int(values.min()), int(values.max())
    for width in _WIDTHS:
        if most - least <= np.iinfo(width).max and np.dtype(width).itemsize < values.itemsize:
            kept = pa.schema([pa.field("kept", data.type)]).serialize().to_pybytes().hex()
            # Offsets wrap around like the integers do, so narrow ones are correct even on overflow.
            small = (values - values.dtype.type(least)).astype(width)
            return pa.array(small), {_LEAST: json.dumps(least).encode(), _TYPE: kept.encode()}
    return data, None


def _grown(data: pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_dictionary(field.type):
        return data.cast(pa.dictionary(pa.int32(), field.type.value_type))
    metadata: dict[bytes, bytes] = field.metadata or {}
    if _LEAST not in metadata:
        return data
    kept = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(metadata[_TYPE].decode()))).field(0).type
    values = data.to_numpy().astype(np.int64) + json.loads(metadata[_LEAST])
    return pa.array(values).cast(kept)


def _few_words(data: pa.ChunkedArray) -> pa.Array:
    """Only the words that occur, and codes as narrow as they allow: a slice brings along all words."""
    whole: Any = data.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.unify_dictionaries()
        whole = whole.chunk(0) if whole.num_chunks == 1 else pa.chunked_array(whole).combine_chunks()
    words = whole.dictionary
    codes: NDArray[Any] = pc.fill_null(whole.indices, 0).to_numpy(zero_copy_only=False)
    mask = None if not whole.null_count else whole.is_null().to_numpy(zero_copy_only=False)
    if len(words) > len(codes) // 4:
        used, codes = np.unique(codes, return_inverse=True)
        words = words.take(pa.array(used))
    width = next((w for w in (np.int8, np.int16) if len(words) <= np.iinfo(w).max), np.int32)
    indices = pa.array(codes.reshape(-1).astype(width), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, words)
