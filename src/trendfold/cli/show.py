"""Print and write results: tables, JSON lines, and files that appear complete or not at all."""

from __future__ import annotations

import logging
import posixpath
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Literal

from trendfold.errors import QueryError, plural, printable
from trendfold.runtime.text_tables import ROWS_SHOWN, is_text, table_lines, text_cells

if TYPE_CHECKING:
    import pyarrow as pa

    from trendfold.runtime.staging import Write

EXTENSIONS = {"parquet": "parquet", "csv": "csv", "json": "jsonl"}
"""The file name extension of each format."""


log = logging.getLogger("trendfold.cli")
"""What `-q` leaves out, and `-v` adds."""


def say(line: str) -> None:
    """Print a message to standard error, which keeps standard output for results."""
    print(line, file=sys.stderr, flush=True)


def note(line: str) -> None:
    """As `say`, for what nobody must read: progress and summaries. `-q` leaves it out."""
    log.log(NOTE, line)


def say_summary(summary: object) -> None:
    """A summary: its warnings are for everybody, the rest is a note."""
    for line in str(summary).splitlines():
        (say if line.startswith("warning: ") else note)(line)


NOTE = logging.INFO + 5
"""The level of notes, above what only `-v` shows."""


class _ToStderr(logging.Handler):
    """Writes records of the library with their time, and those of the command line as they are."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        with suppress(Exception):  # a log line must not end a command
            told = record.getMessage()
            is_own = record.levelno == NOTE and record.name == log.name
            say(told if is_own else f"{time.strftime('%H:%M:%S')} {record.name}: {told}")


@contextmanager
def log_to_stderr(verbose: bool, quiet: bool) -> Iterator[None]:
    """Show notes, unless the command is to be quiet; all that the library logs, if it is to be verbose."""
    logger, compiling = (
        logging.getLogger("trendfold") if verbose else log,
        logging.getLogger("trendfold.compiling"),
    )
    handler, before = _ToStderr(), (logger.level, compiling.level)
    handler.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else NOTE)
    handler.addFilter(lambda record: record.name != "trendfold.summary")  # which commands print themselves
    logger.addHandler(handler)
    logger.setLevel(handler.level)
    compiling.setLevel(logging.ERROR if quiet else logging.NOTSET)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        for each, level in zip((logger, compiling), before, strict=True):
            each.setLevel(level)


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
                note(f"{done:,} of {plural(total, 'query', 'queries')} done ({printable(name)})")

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
    if not sys.stdout.isatty():
        print("\n".join([printable(name), *table_lines(table), ""]))
        return
    _print_rich(name, table)
    if rows is not None and rows > table.num_rows:
        print(f"... and {plural(rows - table.num_rows, 'more row')} (--output DIR writes all of them)")


def _print_rich(name: str, table: pa.Table) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=Text(printable(name)), title_justify="left")
    for field in table.schema:
        side: Literal["left", "right"] = "left" if is_text(field.type) else "right"
        drawn.add_column(Text(printable(field.name)), justify=side, overflow="fold")
    for row in zip(*text_cells(table), strict=True):
        drawn.add_row(*(Text(value) for value in row))
    Console().print(drawn)


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
