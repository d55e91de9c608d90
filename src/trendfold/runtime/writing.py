"""Write tables as Parquet, CSV or JSON lines, under safe file names."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import IO, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

_WHOLE_DOUBLES = 2**53
"""From here on doubles are not all whole numbers."""


def file_name(name: str) -> str:
    """A name valid on any file system: other characters are written as %XX."""
    return quote(name, safe=" ") if name.strip(".") else name.replace(".", "%2E")


def json_lines(table: pa.Table, first: Mapping[str, str]) -> Iterator[str]:
    """One JSON object per row, each starting with the items of `first`."""
    for batch in table.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            yield json.dumps({**first, **{k: _json_value(v) for k, v in row.items()}}, ensure_ascii=False)


def query_lines(name: str, table: pa.Table) -> Iterator[str]:
    """One JSON object per row, starting with `query`; a column of that name gets an underscore."""
    columns = [f"_{column}" if column == "query" else column for column in table.column_names]
    return json_lines(table.rename_columns(columns), {"query": name})


def keyed_lines(tables: Mapping[str, pa.Table]) -> list[tuple[str, str]]:
    """The rows of queries as JSON objects with keys, for receivers that may get a row more than once.

    A key is `QUERY/HASH`, where the hash is that of the row: the same match or window has the same key in
    every run. Equal rows of one table are numbered.
    """
    found = []
    for name, table in tables.items():
        seen: Counter[str] = Counter()
        for line in sorted(query_lines(name, table)):
            key = f"{name}/{hashlib.sha256(line.encode()).hexdigest()[:_KEY_DIGITS]}"
            seen[key] += 1
            found.append((key if seen[key] == 1 else f"{key}/{seen[key]}", line))
    return found


_KEY_DIGITS = 32


def _json_value(value: object) -> object:
    """A value for JSON, which has no infinities and no times: both become text, times as ISO 8601.

    A double that is a whole number is written without a point, as people read counts.
    """
    match value:
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case float() if math.isnan(value):
            return None
        case float() if value.is_integer() and abs(value) < _WHOLE_DOUBLES:
            return int(value)
        case date():
            return value.isoformat()
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_json_value(item) for item in value]
        case dict():
            return {k: _json_value(v) for k, v in value.items()}
    return str(value)


def _write_parquet(table: pa.Table, file: IO[bytes]) -> None:
    pq.write_table(table, file)


def _write_csv(table: pa.Table, file: IO[bytes]) -> None:
    """Write CSV; lists, such as the events of a match, become JSON in a cell."""
    for i, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            cells = [json.dumps(_json_value(v), ensure_ascii=False) for v in table.column(i).to_pylist()]
            table = table.set_column(i, field.name, pa.array(cells, pa.string()))
    csv.write_csv(table, file)


def _write_json(table: pa.Table, file: IO[bytes]) -> None:
    for line in json_lines(table, {}):
        file.write(line.encode() + b"\n")


WRITERS: dict[str, Callable[[pa.Table, IO[bytes]], Any]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "json": _write_json,
}
