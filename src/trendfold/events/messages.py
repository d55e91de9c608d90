"""Messages of one JSON object each -> columns; unreadable messages are rejected with their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trendfold.events.depth import MOST_NESTED
from trendfold.events.text_files import convert, read_objects

Array: TypeAlias = "pa.Array[Any]"

_FEW = 256
"""Up to this many messages are parsed one by one if they cannot be parsed in bulk."""


@dataclass(frozen=True)
class Messages:
    """A row per message; a rejected one is a row of nulls with its `text` and a `reason`."""

    table: pa.Table
    text: Array
    reason: Array


def read_messages(values: Array, types: Mapping[str, pa.DataType]) -> Messages:
    """Parse the declared columns of messages; other fields are ignored."""
    table = _quick(values, types)
    if table is not None:
        nothing = pa.nulls(len(values), pa.string())
        return Messages(table, nothing, nothing)
    if len(values) <= _FEW:
        return _careful(values.to_pylist(), types)
    half = len(values) // 2  # most messages are fine: bisect to isolate the bad ones
    low, high = read_messages(values[:half], types), read_messages(values[half:], types)
    return Messages(
        pa.concat_tables([low.table, high.table]),
        pa.concat_arrays([low.text, high.text]),
        pa.concat_arrays([low.reason, high.reason]),
    )


def _careful(values: Sequence[bytes | None], types: Mapping[str, pa.DataType]) -> Messages:
    """Parse messages one by one."""
    refused = [_unreadable(value) for value in values]
    texts = [None if value is None else value.decode("utf-8", "backslashreplace") for value in values]
    readable = ["{}" if reason else str(text) for reason, text in zip(refused, texts, strict=True)]
    table, found = read_objects(readable, types)
    reasons = [first or second or None for first, second in zip(refused, found, strict=True)]
    told = [text if reason else None for text, reason in zip(texts, reasons, strict=True)]
    return Messages(table, pa.array(told, pa.string()), pa.array(reasons, pa.string()))


def _unreadable(value: bytes | None) -> str:
    """Why a message cannot be decoded, or ""."""
    if value is None:
        return "no value"
    try:
        value.decode("utf-8")
        return ""
    except UnicodeDecodeError:
        return "not UTF-8"


def _quick(values: Array, types: Mapping[str, pa.DataType]) -> pa.Table | None:
    """Parse all messages at once with Arrow; None if that fails or could misread them."""
    import pyarrow.json as arrow_json

    if not len(values) or not _is_a_line_each(values):
        return None
    # Arrow parses times differently, and dates not at all.
    as_text = {name: kind for name, kind in types.items() if pa.types.is_temporal(kind)}
    columns = pa.schema([(name, pa.string() if name in as_text else kind) for name, kind in types.items()])
    options = arrow_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")
    lines = pa.py_buffer(b"\n".join(values.to_pylist()))
    # One block, because an object must not span two and lines may have any length.
    whole = arrow_json.ReadOptions(use_threads=False, block_size=lines.size + 1)
    try:
        table = arrow_json.read_json(pa.BufferReader(lines), whole, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(values):
        return None
    for name, kind in as_text.items():
        parsed, fits, _ = convert(pa.concat_arrays(table.column(name).chunks), kind)
        if not fits.all():
            return None
        table = table.set_column(table.column_names.index(name), name, parsed)
    return table


def _is_a_line_each(values: Array) -> bool:
    """Whether messages joined by line feeds would still be parsed separately.

    Arrow accepts nothing but an object's end between `}` and `{`, so halves of an object in two messages
    never merge.
    """
    if values.null_count:
        return False
    try:
        text = values.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return False
    trimmed = pc.ascii_trim_whitespace(text)
    is_object = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))
    has_break = pc.match_substring_regex(text, r"[\r\n]")
    depth = pc.add(pc.count_substring(text, "["), pc.count_substring(text, "{"))
    fits = pc.and_(pc.and_not(is_object, has_break), pc.less(depth, MOST_NESTED))
    return bool(np.all(fits.to_numpy(zero_copy_only=False)))
