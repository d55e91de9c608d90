"""A stream that the console runs and watches: its progress and its latest rows."""

from __future__ import annotations

import tempfile
from collections import deque
from typing import Any

from trendfold import api
from trendfold.console.desk import Folder
from trendfold.errors import InputError
from trendfold.events.text_files import CsvOptions
from trendfold.query import to_text
from trendfold.runtime import runtime
from trendfold.runtime.notebook import rows_html
from trendfold.runtime.result import to_table

KINDS = ("parquet", "csv", "json")
LATEST = 20
"""How many rows of each query are kept to look at."""


class Flow:
    """One running stream; its checkpoint goes with it."""

    def __init__(
        self, folder: Folder, workload: api.Workload, source: str, types: str, watermark: str, **columns: Any
    ) -> None:
        runtime("spark")  # says what to install where pyspark is missing
        from trendfold.runtime.spark.session import session
        from trendfold.runtime.spark.stream_sources import open_stream

        names = [name.strip() for name in types.split(",") if name.strip()]
        frame = open_stream(session(), within(folder, source), CsvOptions(), names)
        self.latest: dict[str, deque[dict[str, Any]]] = {}
        self._checkpoint = tempfile.TemporaryDirectory(prefix="trendfold-console-")
        self.handle = workload.start(
            frame,
            watermark=watermark,
            checkpoint=self._checkpoint.name,
            output=self._keep,
            trigger="1 second",
            **columns,
        )

    def _keep(self, rows: Any, _: int, query: str) -> None:
        kept = self.latest.setdefault(query, deque(maxlen=LATEST))
        kept.extendleft(to_table(rows).to_pylist())

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries that run."""
        return self.handle.queries

    def html(self) -> str:
        """The progress, and the latest rows of each query."""
        import pyarrow as pa

        kept = {name: pa.Table.from_pylist(list(self.latest.get(name, ()))) for name in self.queries}
        progress = self.handle.progress
        tables = (rows_html(name, table, progress.rows.get(name, 0)) for name, table in kept.items())
        return self.handle._repr_html_() + "".join(tables)

    def add(self, workload: api.Workload) -> str:
        """Add the queries of other names than those that run; tells which."""
        new = [query for query in workload if query.name not in self.queries]
        if not new:
            raise InputError("the stream has queries of these names already; name another with QUERY name")
        self.handle.add(";\n".join(map(to_text, new)))
        return f"Added {', '.join(query.name for query in new)}; windows begin with the next events"

    def remove(self, name: str) -> str:
        """Remove a query."""
        self.handle.remove(name)
        self.latest.pop(name, None)
        return f"Removed {name}"

    def stop(self) -> None:
        """Stop, and forget the stream."""
        self.handle.stop()
        self._checkpoint.cleanup()


def within(folder: Folder, source: str) -> str:
    """A source of the folder, or generated rows; raises for any other."""
    kind, _, rest = source.partition(":")
    if kind == "rate":
        return source
    if kind not in KINDS or not rest:
        raise InputError(
            f"unknown source {source!r}; use {', '.join(f'{k}:FOLDER' for k in KINDS)} or rate:N"
        )
    path = folder.inside(rest)
    if not path.is_dir():
        raise InputError(f"there is no folder {rest!r} here")
    return f"{kind}:{path}"
