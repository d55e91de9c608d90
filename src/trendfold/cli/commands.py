"""The commands: each takes its arguments and returns its exit code.

Each imports what it needs, so that `trendfold check` loads no engine.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trendfold import api
from trendfold.cli.arguments import (
    columns_of,
    csv_options,
    files_of,
    limits_of,
    number_or_text,
    planning_of,
    statistics_of,
    workload_of,
)
from trendfold.cli.shells import SHELLS
from trendfold.cli.show import (
    EXTENSIONS,
    located,
    note,
    print_json,
    print_table,
    rows_shown,
    say,
    say_summary,
    table_files,
    text_file,
)
from trendfold.cli.spark_engine import choose_engine, progress_on, session_for
from trendfold.errors import InputError, QueryError, TrendfoldError, nearest, plural, printable
from trendfold.runtime.result import require_page, to_table

if TYPE_CHECKING:
    from trendfold.events.sources import Files
    from trendfold.runtime.result import Result


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


def run(args: argparse.Namespace) -> int:
    """Answer queries over files, and print or write the rows."""
    from trendfold.cli.folders import claim_folders, require_input, write_results

    if args.output is None and args.format not in (None, "json"):
        raise InputError(f"--format {args.format} needs --output DIR; without it only json is printed")
    if args.report is not None:
        require_page(args.report)
    workload = workload_of(args)
    require_input(args)  # report what is wrong before Spark starts
    _settle_engine(args, files_of(args))
    with claim_folders(workload, args) as claims, session_for(args.engine, args.master, args.debug):
        result = _answer_or_report(workload, args)
        write_results(result, claims, args)
        if args.save_statistics is not None:
            _save_statistics(result.statistics, Path(args.save_statistics))
        if args.report is not None:
            result.report(args.report, Path(args.queries).stem)
            note(f"report: {args.report}")
        if args.output is None:
            _print(result, args.format)
        say_summary(result.summary)
        _say_rejects(result, args.rejects)
    return 1 if result.summary.has_no_events else 0


def stream(args: argparse.Namespace) -> int:
    """Answer queries over a stream until it ends or is stopped."""
    from trendfold.cli.stream_command import pairs, require_options, run_stream
    from trendfold.plan.join_planning import read_planning
    from trendfold.plan.stream_statistics import StreamStatistics, read_statistics
    from trendfold.runtime.limits import read_limits
    from trendfold.runtime.release import require_streamable

    workload = workload_of(args)
    require_streamable(workload.queries)  # report what is wrong before Spark starts
    limits = limits_of(args)
    read_limits(limits)
    read_planning(planning_of(args))
    read_statistics(statistics_of(args))
    require_options(args)
    with session_for("spark", args.master, args.debug, pairs(args.conf, "--conf")):
        csv = replace(csv_options(args), as_text=args.time_column if args.time_format is not None else None)
        progress = run_stream(workload, args, csv, number_or_text(args.origin), limits)
    if args.save_statistics is not None:
        known = StreamStatistics(joins=progress.plan.statistics)
        _save_statistics(known.to_value(), Path(args.save_statistics))
    if not 0 < progress.events == progress.rejects:
        return 0
    say(f"warning: all {progress.events:,} rows are rejected; --rejects DIR writes them, with their reasons")
    return 1


def _answer_or_report(workload: api.Workload, args: argparse.Namespace) -> Result:
    """Answer the queries; where a report is wanted, it tells of a failure too."""
    if args.report is None:
        return _answer(workload, args)
    from trendfold.report import failure_page
    from trendfold.runtime.staging import make_folder, write_files

    try:
        return _answer(workload, args)
    except TrendfoldError as error:
        page = failure_page(workload.queries, error, Path(args.queries).stem)
        make_folder(Path(args.report).parent)
        write_files({Path(args.report): text_file(page)})
        raise


def _answer(workload: api.Workload, args: argparse.Namespace) -> Result:
    with progress_on(args.engine) as tell:
        return workload.run(
            files_of(args),
            **columns_of(args),
            origin=number_or_text(args.origin),
            engine=args.engine,
            strategy=args.strategy,
            arithmetic=args.arithmetic,
            on_reject=args.on_reject,
            limits=limits_of(args),
            planning=planning_of(args),
            statistics=statistics_of(args),
            progress=tell,
        )


def _save_statistics(statistics: Mapping[str, Any], path: Path) -> None:
    from trendfold.runtime.staging import make_folder, write_files

    make_folder(path.parent)
    write_files({path: text_file(json.dumps(statistics, indent=1) + "\n")})


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


def check(args: argparse.Namespace) -> int:
    """Check a query file, and the events it would read if they are given."""
    workload = workload_of(args)
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
    from trendfold.query import needed_columns
    from trendfold.runtime.local import read_rows

    options = api.read_options(**columns_of(args))
    source = read_rows(files_of(args), needed_columns(workload.queries, options.columns), options)
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
        say(located(cast(QueryError, problems[0]), args.queries) + "\n")
        raise problems[1]
    events = source.table.num_rows + source.rejects.num_rows
    for warning in found.warnings(events, options):
        say(f"warning: {warning}")
    return _Checked(events, sum(found.rejects.values()))


def explain(args: argparse.Namespace) -> int:
    """Print how each query would be computed, or was."""
    workload = workload_of(args)
    if args.input is None:
        if args.analyze:
            raise InputError("--analyze runs the queries, so it needs --input PATH")
        print(workload.explain(args.strategy, args.format, statistics=statistics_of(args)))
        return 0
    _check_input(workload, args)
    joins = {"planning": planning_of(args), "statistics": statistics_of(args)}
    print(
        workload.explain(
            args.strategy, args.format, files_of(args), args.analyze, **columns_of(args), **joins
        )
    )
    return 0


def why(args: argparse.Namespace) -> int:
    """Print why a query has no rows, or fewer than expected."""
    workload, origin = workload_of(args), number_or_text(args.origin)
    print(workload.why_not(files_of(args), args.query, origin=origin, format=args.format, **columns_of(args)))
    return 0


def funnel(args: argparse.Namespace) -> int:
    """Count keys step by step, and print them."""
    from trendfold.query.in_python import ConditionExpr, event_of
    from trendfold.query.parser import read_conditions, read_steps
    from trendfold.runtime.staging import write_files

    steps = [event_of(step) for step in read_steps(args.steps)]
    where = [ConditionExpr(each) for each in read_conditions(args.where)] if args.where is not None else []
    files = files_of(args)
    _settle_engine(args, files)
    with session_for(args.engine, args.master, args.debug):
        found = api.funnel(
            files,
            steps=steps,
            by=[name.strip() for name in args.by.split(",")],
            within=args.within,
            every=args.every,
            where=where,
            **{name: value for name, value in columns_of(args).items() if name != "id_column"},
            origin=number_or_text(args.origin),
            engine=args.engine,
            on_reject=args.on_reject,
        )
    if args.format == "json":
        print_json("funnel", found.table)
    else:
        print_table("funnel", found.table, found.table.num_rows)
    note(found.summary)
    if args.svg is not None:
        write_files({Path(args.svg): text_file(found.svg())})
    return 0


def warm(args: argparse.Namespace) -> int:
    """Compile kernels ahead."""
    from trendfold.cli.warming import run_queries, warm
    from trendfold.kernel.compiled_files import compiled

    if args.processes < 1:
        raise InputError(f"--processes is {args.processes}; it must be 1 or more")
    kinds = ("core", "papers") if args.papers else ("core",)
    say("compiling; this takes a minute or two")
    if failed := warm(kinds, args.processes):
        raise TrendfoldError(f"a process that compiles failed: {failed[0]}")
    if args.spark:
        run_queries(("core",), "spark")
    files = [path for _, path in compiled()]
    kernels, size = sum(path.suffix == ".nbi" for path in files), sum(path.stat().st_size for path in files)
    print(f"{kernels:,} kernels are compiled and kept, {size / 1e6:.0f} MB")
    return 0


def generate(args: argparse.Namespace) -> int:
    """Write synthetic events."""
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


def bench(args: argparse.Namespace) -> int:
    """Measure, print, and write what is asked for; fails if a promise is not kept."""
    from rich.console import Console

    from trendfold.bench import draws
    from trendfold.bench import run as measure
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
        report = measure(
            name, seed=args.seed, scale=args.scale, repeats=args.repeats, parts=args.parts, progress=note
        )
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


def console(args: argparse.Namespace) -> int:
    """Serve the console until it is interrupted."""
    if not Path(args.folder).is_dir():
        raise InputError(f"there is no folder {args.folder!r}")
    from trendfold.console.served import serve

    serve(args.folder, args.port, not args.no_browser, say)
    return 0


def completion(args: argparse.Namespace) -> int:
    """Print a script for a shell."""
    print(SHELLS[args.shell](args.commands()), end="")
    return 0


def demo(args: argparse.Namespace) -> int:
    """Run the demo."""
    from trendfold.cli.demo import demo as run_demo

    _settle_engine(args)
    with session_for(args.engine, args.master, args.debug):
        run_demo(args.events, args.seed, args.output, args.engine, args.overwrite)
    return 0
