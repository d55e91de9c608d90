"""`trendfold stream`: run a workload over a stream until it ends or is stopped, with a live table."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from trendfold import api, interrupt
from trendfold.cli.arguments import columns_of, planning_of, statistics_of
from trendfold.cli.show import note, print_json, print_table, rows_shown, say
from trendfold.errors import InputError, plural, printable
from trendfold.runtime.result import to_table

if TYPE_CHECKING:
    from rich.table import Table

    from trendfold.events.text_files import CsvOptions
    from trendfold.runtime.spark.stream import Handle
    from trendfold.runtime.spark.watch import Progress

_NONE = "none"
_PATIENCE_S = 1.0
"""How long it may take to notice Ctrl-C."""


def require_options(args: Namespace) -> None:
    """Raise for invalid options that can be detected before Spark starts."""
    from trendfold.query import read_duration
    from trendfold.runtime import runtime

    read_duration(args.watermark, "--watermark")
    if args.max_ahead.lower() == _NONE:
        args.max_ahead = None
    else:
        read_duration(args.max_ahead, "--max-ahead")
    if args.idle_timeout is not None:
        read_duration(args.idle_timeout, "--idle-timeout")
    runtime("spark")  # says what to install if pyspark is missing
    from trendfold.runtime.topics import is_topic, read_topic

    for named in (args.source, args.rejects):
        if named is not None and is_topic(named):
            read_topic(named)
    if is_topic(args.source) and args.schema is None:
        raise InputError("--source kafka: needs --schema, as in 'type string, ts timestamp, speed double'")
    from trendfold.runtime.spark.metrics import read_address
    from trendfold.runtime.spark.sinks import TABLE_FORMATS, folder_of, open_sink
    from trendfold.runtime.spark.stream import require_all_apart
    from trendfold.runtime.spark.stream_sources import folder_read
    from trendfold.runtime.staging import make_folder

    if args.metrics is not None:
        read_address(args.metrics)
    if args.output is not None:
        open_sink(args.output, args.format or "parquet")
    elif args.format is not None and args.format in TABLE_FORMATS:
        raise InputError(f"--format {args.format} needs --output; without it only json is printed")
    places = {"--output": folder_of(args.output), "--rejects": folder_of(args.rejects)}
    read = {"--checkpoint": args.checkpoint, "--source": folder_read(args.source)}
    require_all_apart(places | read)
    for folder in places.values():
        if folder is not None and "://" not in folder:
            make_folder(folder)


def run_stream(
    workload: api.Workload, args: Namespace, csv: CsvOptions, origin: Any, limits: dict[str, Any]
) -> Progress:
    """Start the stream, show its progress, and stop it on Ctrl-C; returns its last progress."""
    from trendfold.runtime.spark.metrics import read_address
    from trendfold.runtime.spark.session import session
    from trendfold.runtime.spark.stream_sources import SourceSettings, open_stream

    address = read_address(args.metrics) if args.metrics is not None else None
    for caution in workload.cautions():
        say(f"warning: {caution}")
    types = [name.strip() for name in args.types.split(",") if name.strip()]
    options = pairs(args.source_option, "--source-option")
    reading = SourceSettings(args.files_per_batch, args.rows_per_batch, args.starting_offsets, options)
    stream = open_stream(session(), args.source, csv, types, reading)
    handle = workload.start(
        stream,
        watermark=args.watermark,
        checkpoint=args.checkpoint,
        output=args.output or (_print_json if args.format == "json" else _print),
        **columns_of(args),
        origin=origin,
        strategy=args.strategy,
        arithmetic=args.arithmetic,
        on_reject=args.on_reject,
        limits=limits,
        trigger=args.trigger,
        flush=args.flush,
        format=args.format or "parquet",
        rejects=args.rejects,
        overwrite=args.overwrite,
        max_ahead=args.max_ahead,
        on_change=args.on_change,
        idle_timeout=args.idle_timeout,
        emit=args.emit,
        planning=planning_of(args),
        statistics=statistics_of(args),
    )
    try:
        with (
            interrupt.gracefully(None),
            _serving_metrics(handle, address),
            _watching(is_live=args.output is not None and sys.stderr.isatty()) as watcher,
        ):
            listener = handle.listen(watcher)
            while not handle.await_termination(_PATIENCE_S):
                if interrupt.is_asked():
                    raise KeyboardInterrupt
            with suppress(Exception):
                listener.remove()
        note(str(handle.progress))
        if args.flush and not handle.is_flushed:
            say("stopped early, so open windows are not reported; run the same command to resume")
        return handle.progress
    finally:
        with suppress(Exception):  # the interrupt may have ended Spark
            handle.stop()


def pairs(given: Sequence[str], option: str) -> dict[str, str]:
    """The values of a repeatable `--option NAME=VALUE`, by name."""
    wrong = [text for text in given if not text.partition("=")[0] or "=" not in text]
    if wrong:
        raise InputError(f"{option} is {wrong[0]!r}; write NAME=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in given)}


def _print(rows: Any, batch: int, query: str) -> None:
    print_table(query, to_table(rows, rows_shown()), rows.count() if rows_shown() is not None else None)
    sys.stdout.flush()


def _print_json(rows: Any, batch: int, query: str) -> None:
    print_json(query, to_table(rows))
    sys.stdout.flush()


@contextmanager
def _serving_metrics(handle: Handle, address: tuple[str, int] | None) -> Iterator[None]:
    """Serve a page for Prometheus, if there is an address for it."""
    if address is None:
        yield
        return
    host, port = address
    page = handle.serve_metrics(port, host)
    note(f"metrics: http://{page.address}/metrics")
    try:
        yield
    finally:
        page.close()


@contextmanager
def _watching(is_live: bool) -> Iterator[Callable[[Progress], None]]:
    """A table updated in place on a terminal, elsewhere one line per micro-batch."""
    if not is_live:
        yield lambda progress: note(str(progress))
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True) as live:
        yield lambda progress: live.update(live_table(progress))


def live_table(progress: Progress) -> Table:
    """The progress of a stream as a table."""
    from rich.table import Table
    from rich.text import Text

    latency = "none yet"
    if progress.latency_p50_s is not None:
        latency = f"{progress.latency_p50_s:.2f} s, {progress.latency_p99_s:.2f} s"
    drawn = Table(title=f"batch {progress.batch:,}", title_justify="left")
    drawn.add_column("what")
    drawn.add_column("now", justify="right")
    for what, now in (
        ("events", f"{progress.events:,}"),
        ("events/s", f"{progress.events_per_second:,.0f}"),
        ("watermark", str(progress.watermark or "none yet")),
        ("open windows", f"{progress.open_windows:,}"),
        ("raw events in state", f"{progress.state_rows:,}"),
        ("vectors in state", f"{progress.vectors:,}"),
        ("state", plural(progress.state_bytes, "byte")),
        ("late", f"{progress.late:,}"),
        ("rejects", f"{progress.rejects:,}"),
        ("latency, p50 and p99", latency),
        *((f"rows of {name}", f"{count:,}") for name, count in progress.rows.items()),
    ):
        drawn.add_row(Text(printable(what)), now)
    return drawn
