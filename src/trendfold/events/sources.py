"""Whatever a user hands over -> one Arrow table of the columns a workload needs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from trendfold.errors import InputError


def read_table(data: Any, columns: Collection[str] | None = None) -> pa.Table:
    """The rows of `data` as Arrow; only `columns`, where they are known and there."""
    table = _in_memory(data)
    if columns is None:
        return table
    return table.select([name for name in dict.fromkeys(table.column_names) if name in columns])


def _in_memory(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    module = type(data).__module__.partition(".")[0]
    if module == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    if module == "polars":
        return (data.collect() if hasattr(data, "collect") else data).to_arrow()
    raise InputError(
        f"cannot read events from a {type(data).__module__}.{type(data).__name__}; pass a pyarrow Table, "
        f"a pandas or polars frame, or a path"
    )
