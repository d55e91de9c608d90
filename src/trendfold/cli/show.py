"""Print and write results: tables, JSON lines, and files that appear complete or not at all."""

from __future__ import annotations

import math
import posixpath
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from trendfold.errors import QueryError, plural

if TYPE_CHECKING:
    import pyarrow as pa

    from trendfold.runtime.staging import Write

ROWS_SHOWN = 20
"""The most rows of a query shown on a terminal."""

EXTENSIONS = {"parquet": "parquet", "csv": "csv", "json": "jsonl"}
"""The file name extension of each format."""


def say(line: str) -> None:
    """Print a message to standard error, which keeps standard output for results."""
    print(line, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- progress


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on a terminal, elsewhere one line a second."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(name: str, done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last >= 1:
                last = time.monotonic()
                say(f"{done:,} of {plural(total, 'query', 'queries')} done ({printable(name)})")

        yield line
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("queries", total=None)
        yield lambda name, done, total: bars.update(task, completed=done, total=total)


# ---------------------------------------------------------------- printing


def rows_shown() -> int | None:
    """How many rows of a query to print: the first few on a terminal, elsewhere all (None)."""
    return ROWS_SHOWN if sys.stdout.isatty() else None


def print_table(name: str, table: pa.Table, rows: int | None = None) -> None:
    """Print rows under their query's name, and how many more there are."""
    is_terminal = sys.stdout.isatty()
    cells = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    right = [not _is_text(field.type) for field in table.schema]
    if is_terminal:
        _print_rich(name, table.column_names, cells, right)
        if rows is not None and rows > table.num_rows:
            print(f"... and {plural(rows - table.num_rows, 'more row')} (--output DIR writes all of them)")
        return
    print(printable(name))
    widths = [
        max([len(head), *map(len, column)]) for head, column in zip(table.column_names, cells, strict=True)
    ]
    for row in [table.column_names, ["-" * width for width in widths], *zip(*cells, strict=True)]:
        padded = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(row, widths, right, strict=True))
        print("  ".join(padded).rstrip())
    print()


def _print_rich(
    name: str, heads: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(printable(name)), title_justify="left")
    for head, is_right in zip(heads, right, strict=True):
        drawn.add_column(Text(printable(head)), justify="right" if is_right else "left", overflow="fold")
    for row in zip(*cells, strict=True):
        drawn.add_row(*(Text(value) for value in row))
    Console().print(drawn)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_list(kind)
    return bool(is_text or pa.types.is_temporal(kind))


def _cell(value: object) -> str:
    """Format a value: counts without decimals, other numbers with six digits, null as empty."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float() if math.isfinite(value) and value == int(value) and abs(value) < 2**53:
            return f"{int(value):,}"
        case float():
            return f"{value:.6g}"
        case datetime():
            return value.isoformat(" ", "auto").replace("+00:00", "Z")
        case list():  # the events of a match
            return ", ".join(map(_cell, value))
        case dict():
            return " ".join(_attribute(name, each) for name, each in value.items())
        case _:
            return printable(str(value))


def _attribute(name: str, value: object) -> str:
    """Format an attribute of an event: id and time without, others with their name."""
    match name:
        case "id":
            return f"#{_cell(value)}"
        case "time":
            return f"at {_cell(value)}"
        case _:
            return f"{printable(name)}={_cell(value)}"


def printable(text: str) -> str:
    """Text without control characters, so that it cannot move the terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(name: str, table: pa.Table) -> None:
    """Print one JSON object per row, with the query's name."""
    from trendfold.runtime.writing import query_lines

    for line in query_lines(name, table):
        print(line)


# ---------------------------------------------------------------- writing


def table_files(tables: Mapping[str, Any], file_format: str, folder: str = "") -> dict[str, Write]:
    """One file per table, named after it, optionally in a subfolder."""
    from trendfold.runtime.result import to_table
    from trendfold.runtime.writing import WRITERS

    writer = WRITERS[file_format]

    def fetch_and_write(rows: Any, file: IO[bytes]) -> None:
        writer(to_table(rows), file)

    return {
        posixpath.join(folder, table_file(name, file_format)): partial(fetch_and_write, rows)
        for name, rows in tables.items()
    }


def table_file(name: str, file_format: str) -> str:
    """A table's file name; characters not allowed in file names are written as %XX."""
    from trendfold.runtime.writing import file_name

    return f"{file_name(name)}.{EXTENSIONS[file_format]}"


def text_file(text: str) -> Write:
    """A writer of a text file."""
    return lambda file: file.write(text.encode())


def located(error: QueryError, path: str | None) -> str:
    """All problems of a workload, each as file:line:column."""
    if path is None:
        return str(error)
    return "\n\n".join(f"{path}:{'' if p.text else ' '}{p}" for p in error.problems)
