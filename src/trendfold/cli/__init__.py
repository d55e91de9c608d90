"""The command line. Each command imports what it needs, so that `trendfold check` loads no engine."""

from __future__ import annotations

import argparse
import errno
import math
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trendfold import __version__, api, interrupt
from trendfold.cli.show import (
    EXTENSIONS,
    print_json,
    print_table,
    printable,
    rows_shown,
    say,
    table_files,
    text_file,
    to_table,
)
from trendfold.cli.spark_engine import choose_engine, progress_on, session_for
from trendfold.errors import InputError, QueryError, TrendfoldError, UnsupportedError, nearest, plural

if TYPE_CHECKING:
    from trendfold.events.sources import Files
    from trendfold.events.text_files import CsvOptions
    from trendfold.runtime.result import Result


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 success, 1 failed while running, 2 bad query, option or input, 130 interrupted.
    """
    if argv is None:
        interrupt.listen()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # the terminal may not be able to encode names and values
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else argv
    try:
        args = _parser().parse_args(words) if not _is_later(words) else _LATER
    except SystemExit as done:  # --help, --version, or an option that is wrong
        return int(done.code or 0)
    try:
        args.is_own_process = argv is None
        return _command(args)
    except BaseException as error:
        if interrupt.is_asked() or isinstance(error, KeyboardInterrupt):
            say("interrupted")
            return interrupt.EXIT_CODE
        if args.debug and not isinstance(error, BrokenPipeError):
            raise
        return _say_failure(error, args)


def _command(args: argparse.Namespace) -> int:
    code = args.command(args)
    sys.stdout.flush()
    if interrupt.is_asked():  # some library swallowed the interrupt
        raise KeyboardInterrupt
    return int(code or 0)


def _say_failure(error: BaseException, args: argparse.Namespace) -> int:
    """Print what went wrong, and return the exit code."""
    match error:
        case BrokenPipeError():
            # The reader of the output is gone. Python flushes again at exit: send that to nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        case QueryError():
            say(_located(error, getattr(args, "queries", None)))
            return error.exit_code
        case TrendfoldError():
            say(f"error: {error}")
            return error.exit_code
        case _ if _is_out_of_memory(error):
            say("error: out of memory; take fewer events or queries at a time")
            return 1
        case Exception():
            told = f"{type(error).__name__}: {error}".partition("\n")[0]
            say(f"error: {told} (unexpected: run again with --debug and report the traceback)")
            return 1
    raise error


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, possibly while loading a library."""
    is_unloadable = isinstance(error, ImportError) and "failed to map segment" in str(error)
    return isinstance(error, MemoryError) or is_unloadable or getattr(error, "errno", None) == errno.ENOMEM


def _is_later(words: Sequence[str]) -> bool:
    return next((word for word in words if not word.startswith("-")), None) == "console"


def _not_yet(_: argparse.Namespace) -> int:
    raise UnsupportedError("'trendfold console' is not available yet; use 'trendfold run'")


_LATER = argparse.Namespace(command=_not_yet, debug=False)
"""A planned command, not shown in the help."""


class _NoPandas(MetaPathFinder):
    """Hide pandas: pyarrow imports it with its first array, which takes longer than answering a small file.

    Only for the command line's own process: nothing that runs locally needs pandas.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Raise for pandas; leave all other modules to the other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not needed here", name=name)


def _settle_engine(args: argparse.Namespace, events: Files | None = None) -> None:
    """Choose the engine, once the input is known."""
    args.engine = choose_engine(args.engine, args.master, events)
    if args.is_own_process and args.engine == "local":
        sys.meta_path.insert(0, _NoPandas())


def _located(error: QueryError, path: str | None) -> str:
    """All problems of a workload, each as file:line:column."""
    if path is None:
        return str(error)
    return "\n\n".join(f"{path}:{'' if p.text else ' '}{p}" for p in error.problems)


# ---------------------------------------------------------------- options


class _Parser(argparse.ArgumentParser):
    """A parser that rejects repeated options, unless they may be repeated; no value silently wins."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        self.register("action", None, _StoreOnce)


class _StoreOnce(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        given = namespace.__dict__.setdefault("given", set())
        if option is not None and self.dest in given:
            parser.error(f"argument {option}: given twice; leave one out")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="trendfold", description="Aggregates event trends without building them.")
    parser.add_argument("--version", action="version", version=f"trendfold {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str, run: Callable[[argparse.Namespace], int | None], text: str
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        added.set_defaults(command=run)
        return added

    run = command("run", _run, "answer the queries of a file over events")
    run.add_argument("queries", metavar="QUERIES.tql")
    _add_input(run, required=True)
    _add_engine(run, "spark; local for under 256 MB, or where pyspark is not installed")
    run.add_argument("--strategy", default="auto", help="how queries are computed; default: auto")
    run.add_argument("--arithmetic", choices=("auto", "exact"), default="auto")
    run.add_argument("--origin", help="what windows are aligned to: a time, or a time zone for its midnight")
    run.add_argument("--output", metavar="DIR", help="write one file per query instead of printing")
    run.add_argument(
        "--format", choices=tuple(EXTENSIONS), help="format of the files, or json to print; default: parquet"
    )
    run.add_argument("--rejects", metavar="DIR", help="write the rejected rows, with their reasons")
    run.add_argument("--on-reject", choices=("keep", "fail"), default="keep")
    _add_overwrite(run)
    _add_limits(run)

    stream = command("stream", _stream, "answer the queries of a file over a stream, window by window")
    stream.add_argument("queries", metavar="QUERIES.tql")
    stream.add_argument(
        "--source",
        required=True,
        help="parquet:FOLDER, csv:FOLDER or json:FOLDER for arriving files; kafka:SERVERS/TOPIC for a "
        "topic of JSON objects, with --schema; rate:N for N rows a second",
    )
    stream.add_argument(
        "--watermark",
        required=True,
        metavar="D",
        help="how late an event may arrive, such as '10 min'",
    )
    stream.add_argument("--checkpoint", required=True, metavar="DIR", help="where to resume after a stop")
    stream.add_argument(
        "--output",
        metavar="DIR",
        help="write a folder per query instead of printing, or table:NAME, or kafka:SERVERS/TOPIC",
    )
    stream.add_argument("--format", choices=("parquet", "json"), help="format of the files, or json to print")
    stream.add_argument("--rejects", metavar="DIR", help="write rejected and late rows, with their reasons")
    stream.add_argument("--on-reject", choices=("keep", "fail"), default="keep")
    stream.add_argument("--trigger", metavar="T", help="a duration, or available-now for one pass")
    stream.add_argument(
        "--overwrite", action="store_true", help="remove what another stream or run wrote to the output"
    )
    stream.add_argument(
        "--max-ahead",
        default="1 d",
        metavar="D",
        help="how far in the future an event may be, or none for no limit; default: 1 d",
    )
    stream.add_argument(
        "--idle-timeout",
        metavar="D",
        help="after so long without events, move the watermark on with the clock; default: never",
    )
    stream.add_argument(
        "--on-change",
        choices=("fail", "replace"),
        default="fail",
        help="what to do with a query whose text differs from the checkpoint's; default: fail",
    )
    stream.add_argument(
        "--emit",
        choices=("final", "update"),
        default="final",
        help="report windows once they have ended, or also what open ones hold so far; default: final",
    )
    stream.add_argument("--flush", action="store_true", help="with available-now: report open windows too")
    stream.add_argument("--files-per-batch", type=int, metavar="N", help="the most files in one micro-batch")
    stream.add_argument(
        "--rows-per-batch", type=int, metavar="N", help="with kafka: the most messages in one micro-batch"
    )
    stream.add_argument(
        "--starting-offsets",
        default="earliest",
        metavar="O",
        help="with kafka, where a new checkpoint begins: earliest (the default), latest, or Spark's JSON",
    )
    stream.add_argument(
        "--source-option", action="append", default=[], metavar="K=V", help="an option of Spark's source"
    )
    stream.add_argument(
        "--conf", action="append", default=[], metavar="K=V", help="a setting of the Spark session"
    )
    stream.add_argument("--types", default="", help="with rate: names of the event types, used in turn")
    stream.add_argument("--strategy", default="auto")
    stream.add_argument("--arithmetic", choices=("auto", "exact"), default="auto")
    stream.add_argument("--origin", help="what windows are aligned to")
    _add_limits(stream)
    stream.add_argument("--master", metavar="URL", help="Spark master, such as local[2] or spark://HOST:PORT")
    stream.set_defaults(engine="spark")
    _add_columns(stream)

    check = command("check", _check, "report every error of a query file, with line, column and caret")
    check.add_argument("queries", metavar="QUERIES.tql")
    _add_input(check, required=False)

    explain = command("explain", _explain, "show how each query would be computed")
    explain.add_argument("queries", metavar="QUERIES.tql")
    _add_input(explain, required=False)
    explain.add_argument("--strategy", default="auto")
    explain.add_argument("--format", choices=("text", "json", "html"), default="text")
    explain.add_argument(
        "--analyze", action="store_true", help="run the queries over --input, and tell what every step took"
    )

    generate = command("generate", _generate, "write a seeded stream of synthetic events")
    generate.add_argument(
        "dataset", metavar="DATASET", help="ridesharing, stock, taxi, bus, smart-home or activity"
    )
    generate.add_argument("--events", type=int, default=10_000, metavar="N")
    generate.add_argument("--seed", type=int, default=0, metavar="S")
    generate.add_argument("--output", required=True, metavar="PATH", help=".parquet, .csv or .jsonl")
    generate.add_argument("--rate", type=float, help="events per second")
    generate.add_argument("--groups", type=int, help="distinct values of the attribute to group by")
    generate.add_argument("--burst", type=float, help="mean length of a run of events of one type")
    generate.add_argument(
        "--disorder", type=float, default=0.0, metavar="SECONDS", help="how late a row may be"
    )
    generate.add_argument(
        "--ties", type=float, default=0.0, help="fraction of events with the same time as the event before"
    )
    generate.add_argument(
        "--types", default="", help="names of the event types, for datasets that do not fix them"
    )

    bench = command("bench", _bench, "run benchmarks side by side; fails if a promised figure is missed")
    bench.add_argument("name", metavar="NAME", nargs="+", help="one or several; see docs/benchmarks.md")
    bench.add_argument("--scale", type=float, default=1.0, metavar="X", help="multiply the numbers of events")
    bench.add_argument("--repeats", type=int, default=9, metavar="N")
    bench.add_argument("--seed", type=int, default=0, metavar="S")
    bench.add_argument("--json", metavar="FILE", help="also write every figure to a file")
    bench.add_argument("--plot", metavar="FILE", help="also plot the figures, as SVG")
    bench.add_argument("--report", metavar="DIR", help="also write report.html: tables and plots on one page")
    bench.add_argument("--into", metavar="FILE", help="merge the figures into a file")

    demo = command("demo", _demo, "queries over generated rides, and a report with pictures")
    _add_engine(demo, "spark, or local where pyspark is not installed")
    demo.add_argument("--events", type=int, default=1_000_000, metavar="N")
    demo.add_argument("--seed", type=int, default=7, metavar="S")
    demo.add_argument("--output", default="trendfold-demo", metavar="DIR")
    _add_overwrite(demo)
    return parser


def _add_overwrite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--overwrite", action="store_true", help="write into a folder that holds other results or data"
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=N",
        help="limit a query: trends, groups, matches, windows, rows, bytes of state; repeatable",
    )


def _limits(args: argparse.Namespace) -> dict[str, Any]:
    """Limits by name; an invalid number stays text, for the API to report."""
    found: dict[str, Any] = {}
    for text in args.limit:
        name, separator, value = text.partition("=")
        if not separator:
            raise InputError(f"--limit is {text!r}; write a name and a number, as in 'groups=1000'")
        if name in found:
            raise InputError(f"--limit {name!r} is given twice; leave one out")
        found[name] = _number_or_text(value)
    return found


def _add_engine(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--engine", choices=("spark", "local"), help=f"default: {default}")
    parser.add_argument(
        "--master", metavar="URL", help="Spark master, such as local[2], spark://HOST:PORT or sc://HOST:PORT"
    )


def _add_input(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument(
        "--input",
        required=required,
        action="append",
        metavar="PATH",
        help="a file, a folder or a glob: Parquet, CSV, JSON lines; may be repeated",
    )
    _add_columns(parser)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--type-column", default="type", metavar="C", help="default: type")
    parser.add_argument("--time-column", default="ts", metavar="C", help="default: ts")
    parser.add_argument("--order-column", metavar="C", help="breaks ties in time")
    parser.add_argument("--id-column", metavar="C")
    parser.add_argument(
        "--time-unit", choices=("s", "ms", "us"), default="s", help="unit of a numeric time column"
    )
    parser.add_argument(
        "--time-format",
        metavar="F",
        help="format of times, as for Python's strptime: '%%d/%%m/%%Y %%H:%%M'",
    )
    parser.add_argument("--csv-header", choices=("yes", "no"), default="yes")
    parser.add_argument("--csv-delimiter", metavar="C", help="default: a comma, for .tsv a tab")
    parser.add_argument("--schema", help='types of CSV or JSON columns, as in "type string, speed double"')


def _files(args: argparse.Namespace) -> Files:
    from trendfold.events.sources import Files

    return Files(args.input, _csv(args))


def _csv(args: argparse.Namespace) -> CsvOptions:
    from trendfold.events.text_files import CsvOptions

    delimiter = "\t" if args.csv_delimiter == r"\t" else args.csv_delimiter
    return CsvOptions(args.csv_header == "yes", delimiter, args.schema)


def _number_or_text(text: str | None) -> int | float | str | None:
    """An origin may be a number, in the time column's unit."""
    for kind in (int, float):
        try:
            return kind(text) if text is not None else None
        except ValueError:
            pass
    return text


# ---------------------------------------------------------------- commands


def _run(args: argparse.Namespace) -> int:
    from trendfold.cli.folders import claim_folders, require_input, write_results

    if args.output is None and args.format not in (None, "json"):
        raise InputError(f"--format {args.format} needs --output DIR; without it only json is printed")
    workload = api.read(args.queries)
    require_input(args)  # report what is wrong before Spark starts
    _settle_engine(args, _files(args))
    with claim_folders(workload, args) as claims, session_for(args.engine, args.master, args.debug):
        result = _answer(workload, args)
        write_results(result, claims, args)
        if args.output is None:
            _print(result, args.format)
        say(str(result.summary))
        _say_rejects(result, args.rejects)
    return 1 if result.summary.has_no_events else 0


def _stream(args: argparse.Namespace) -> int:
    from trendfold.cli.stream_command import pairs, require_options, run_stream
    from trendfold.runtime.limits import read_limits
    from trendfold.runtime.release import require_streamable

    workload = api.read(args.queries)
    require_streamable(workload.queries)  # report what is wrong before Spark starts
    limits = _limits(args)
    read_limits(limits)
    require_options(args)
    with session_for("spark", args.master, args.debug, pairs(args.conf, "--conf")):
        csv = replace(_csv(args), as_text=args.time_column if args.time_format is not None else None)
        progress = run_stream(workload, args, csv, _number_or_text(args.origin), limits)
    if not 0 < progress.events == progress.rejects:
        return 0
    say(f"warning: all {progress.events:,} rows are rejected; --rejects DIR writes them, with their reasons")
    return 1


def _answer(workload: api.Workload, args: argparse.Namespace) -> Result:
    with progress_on(args.engine) as tell:
        return workload.run(
            _files(args),
            type_column=args.type_column,
            time_column=args.time_column,
            order_column=args.order_column,
            id_column=args.id_column,
            time_unit=args.time_unit,
            origin=_number_or_text(args.origin),
            engine=args.engine,
            strategy=args.strategy,
            arithmetic=args.arithmetic,
            on_reject=args.on_reject,
            time_format=args.time_format,
            limits=_limits(args),
            progress=tell,
        )


def _print(result: Result, form: str | None) -> None:
    for name in result:
        if form == "json":
            print_json(name, to_table(result[name]))
        else:
            print_table(name, to_table(result[name], rows_shown()), result.summary.rows[name])


def _say_rejects(result: Result, folder: str | None) -> None:
    if not result.summary.rejects:
        return
    counts = sorted(result.summary.reject_reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [f"{count:,} × {printable(reason)}" for reason, count in counts[:3]]
    shown += [plural(len(counts) - 3, "other reason")] * (len(counts) > 3)
    say(f"rejects: {'; '.join(shown)}" + ("" if folder else " (--rejects DIR writes them)"))


def _check(args: argparse.Namespace) -> int:
    workload = api.read(args.queries)
    about = _check_input(workload, args) if args.input is not None else None
    for caution in workload.cautions():
        say(f"warning: {caution}")
    fine = "1 query is fine" if len(workload) == 1 else f"all {len(workload):,} queries are fine"
    print(f"{args.queries}: {fine}{about or ''}")
    return 1 if about is not None and 0 < about.events == about.rejects else 0


@dataclass(frozen=True, slots=True)
class _Checked:
    """The number of rows, and how many of them are rejected."""

    events: int
    rejects: int

    def __str__(self) -> str:
        rejects = "a reject" if self.rejects == 1 else "rejects"
        return f" over {plural(self.events, 'event')}, {self.rejects:,} of them {rejects}"


def _check_input(workload: api.Workload, args: argparse.Namespace) -> _Checked:
    """Read the events as `run` would, and check the queries against their columns."""
    from trendfold.events.batch import read_batch, schema_of
    from trendfold.events.options import Options
    from trendfold.events.sources import in_format, read
    from trendfold.query import needed_columns

    named = args.type_column, args.time_column, args.order_column, args.id_column
    options = Options(*named, time_unit=args.time_unit, time_format=args.time_format)
    needed = needed_columns(workload.queries, options.columns)
    times = args.time_column, args.time_format
    source = read(in_format(_files(args), *times), needed, args.time_column).with_text(*times)
    problems: list[TrendfoldError] = []
    found = source.findings
    try:
        workload.check_columns(schema_of(source.schema), options.time_column, options.ticks)
    except QueryError as error:
        problems.append(error)
    try:
        found += read_batch(source.table, options).findings
    except InputError as error:
        problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        say(_located(cast(QueryError, problems[0]), args.queries) + "\n")
        raise problems[1]
    events = source.table.num_rows + source.rejects.num_rows
    for warning in found.warnings(events, options):
        say(f"warning: {warning}")
    return _Checked(events, sum(found.rejects.values()))


def _explain(args: argparse.Namespace) -> int:
    workload = api.read(args.queries)
    if args.input is None:
        if args.analyze:
            raise InputError("--analyze runs the queries, so it needs --input PATH")
        print(workload.explain(args.strategy, args.format))
        return 0
    _check_input(workload, args)
    columns = {
        name: getattr(args, name)
        for name in ("type_column", "time_column", "order_column", "time_unit", "time_format")
    }
    print(workload.explain(args.strategy, args.format, _files(args), args.analyze, **columns))
    return 0


def _generate(args: argparse.Namespace) -> int:
    from trendfold.events.generate import DATASETS, StreamSettings
    from trendfold.runtime.staging import make_folder, write_files

    if args.dataset not in DATASETS:
        hint = nearest(args.dataset, DATASETS) or f"choose one of {', '.join(DATASETS)}"
        raise InputError(f"unknown dataset {args.dataset!r}; {hint}")
    path = Path(args.output)
    formats = {f".{ending}": name for name, ending in EXTENSIONS.items()} | {".json": "json"}
    if path.suffix not in formats:
        raise InputError(f"cannot tell the format of {args.output!r}; end it in .parquet, .csv or .jsonl")
    make_folder(path.parent)
    table = DATASETS[args.dataset](
        StreamSettings(
            events=args.events,
            seed=args.seed,
            rate=args.rate,
            groups=args.groups,
            burst=args.burst,
            disorder_s=args.disorder,
            ties=args.ties,
            types=tuple(name.strip() for name in args.types.split(",") if name.strip()),
        )
    )
    [write] = table_files({"events": table}, formats[path.suffix]).values()
    write_files({path: write})
    print(f"{args.output}: {plural(table.num_rows, 'event')} of {args.dataset}, seed {args.seed}")
    return 0


def _bench(args: argparse.Namespace) -> int:
    from rich.console import Console

    from trendfold.bench import draws, run
    from trendfold.bench.harness import render, to_json
    from trendfold.bench.published import put
    from trendfold.bench.report_page import to_html
    from trendfold.runtime.staging import make_folder, write_files

    if not 0 < args.scale < math.inf:
        raise InputError(f"--scale is {args.scale}; it must be above 0")
    _check_bench_files(args, {name for name in args.name if draws(name)})
    page = Path(args.report, "report.html") if args.report is not None else None
    for path in (args.json, args.plot, args.into, page):
        if path is not None:
            make_folder(Path(path).parent)
    console = Console()
    reports = []
    for name in args.name:
        report = run(name, seed=args.seed, scale=args.scale, repeats=args.repeats, progress=say)
        console.print(render(report), width=console.width if console.is_terminal else 200)
        reports.append(report)
    written: dict[Any, Callable[[], str]] = {
        args.json: lambda: to_json(reports[0]),
        args.plot: lambda: reports[0].plot,
        page: lambda: to_html(reports),
        args.into: lambda: put(Path(args.into), reports),
    }
    for path, text in written.items():
        if path is not None:
            write_files({Path(path): text_file(text())})
    return 0 if all(report.is_kept for report in reports) else 1


def _check_bench_files(args: argparse.Namespace, drawn: Collection[str]) -> None:
    if args.plot is not None and args.name[0] not in drawn:
        raise InputError(f"bench {args.name[0]!r} draws nothing; leave out --plot")
    if len(args.name) > 1 and (args.json is not None or args.plot is not None):
        raise InputError("--json and --plot are for one bench; use --report or --into for several")


def _demo(args: argparse.Namespace) -> int:
    from trendfold.cli.demo import demo

    _settle_engine(args)
    with session_for(args.engine, args.master, args.debug):
        demo(args.events, args.seed, args.output, args.engine, args.overwrite)
    return 0
