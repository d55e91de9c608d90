"""`trendfold stream`: a workload over a stream until it ends or is stopped, with a live table beside."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from trendfold import api
from trendfold.cli.show import print_json, print_table, printable, rows_shown, say, to_table

if TYPE_CHECKING:
    from rich.table import Table

    from trendfold.events.text import CsvOptions
    from trendfold.runtime.spark.watch import Progress

_PATIENCE_S = 1.0
"""How long Ctrl-C may take to be noticed."""


def run_stream(workload: api.Workload, args: Namespace, csv: CsvOptions, origin: Any) -> None:
    """Start, look on, and stop when told to."""
    from trendfold.runtime.spark.session import session
    from trendfold.runtime.spark.stream_sources import open_stream

    for caution in workload.cautions():
        say(f"warning: {caution}")
    types = [name.strip() for name in args.types.split(",") if name.strip()]
    stream = open_stream(session(), args.source, csv, types, args.files_per_batch)
    handle = workload.start(
        stream,
        watermark=args.watermark,
        checkpoint=args.checkpoint,
        output=args.output or (_print_json if args.format == "json" else _print),
        type_column=args.type_column,
        time_column=args.time_column,
        order_column=args.order_column,
        id_column=args.id_column,
        time_unit=args.time_unit,
        origin=origin,
        strategy=args.strategy,
        arithmetic=args.arithmetic,
        on_reject=args.on_reject,
        trigger=args.trigger,
        flush=args.flush,
        format=args.format or "parquet",
        rejects=args.rejects,
    )
    try:
        with _watching(is_live=args.output is not None and sys.stderr.isatty()) as watcher:
            listener = handle.listen(watcher)
            while not handle.await_termination(_PATIENCE_S):
                pass
            with suppress(Exception):
                listener.remove()
        say(str(handle.progress))
    finally:
        with suppress(Exception):  # Spark may have gone with the interrupt
            handle.stop()


def _print(rows: Any, batch: int, query: str) -> None:
    print_table(query, to_table(rows, rows_shown()), rows.count() if rows_shown() is not None else None)
    sys.stdout.flush()


def _print_json(rows: Any, batch: int, query: str) -> None:
    print_json(query, to_table(rows))
    sys.stdout.flush()


@contextmanager
def _watching(is_live: bool) -> Iterator[Callable[[Progress], None]]:
    """A table that changes in place on a terminal, elsewhere a line per micro-batch."""
    if not is_live:
        yield lambda progress: say(str(progress))
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True) as live:
        yield lambda progress: live.update(live_table(progress))


def live_table(progress: Progress) -> Table:
    """The progress of a stream as a table."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=f"batch {progress.batch:,}", title_justify="left")
    drawn.add_column("what")
    drawn.add_column("now", justify="right")
    for what, now in (
        ("events", f"{progress.events:,}"),
        ("events/s", f"{progress.events_per_second:,.0f}"),
        ("watermark", str(progress.watermark or "none yet")),
        ("open windows", f"{progress.open_windows:,}"),
        ("state", f"{progress.state_rows:,} events in {progress.state_bytes:,} bytes"),
        ("late", f"{progress.late:,}"),
        ("rejects", f"{progress.rejects:,}"),
        *((f"rows of {name}", f"{count:,}") for name, count in progress.rows.items()),
    ):
        drawn.add_row(Text(printable(what)), now)
    return drawn
