"""The options of each command, and the values read from them."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trendfold import api
from trendfold.cli.shells import SHELLS
from trendfold.cli.show import EXTENSIONS
from trendfold.errors import InputError
from trendfold.query import read_literal

if TYPE_CHECKING:
    from trendfold.events.sources import Files
    from trendfold.events.text_files import CsvOptions


class StrictParser(argparse.ArgumentParser):
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


# ---------------------------------------------------------------- one function per command


def add_run(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold run`."""
    _add_queries(parser)
    _add_input(parser, required=True)
    _add_engine(parser, "spark; local for under 256 MB, or where pyspark is not installed")
    parser.add_argument("--strategy", default="auto", help="how queries are computed; default: auto")
    _add_arithmetic(parser)
    parser.add_argument(
        "--origin", help="what windows are aligned to: a time, or a time zone for its midnight"
    )
    parser.add_argument("--output", metavar="DIR", help="write one file per query instead of printing")
    parser.add_argument(
        "--format", choices=tuple(EXTENSIONS), help="format of the files, or json to print; default: parquet"
    )
    parser.add_argument("--rejects", metavar="DIR", help="write the rejected rows, with their reasons")
    parser.add_argument(
        "--report", metavar="PAGE", help="write a page to look at, with answers in words, charts and tables"
    )
    parser.add_argument("--on-reject", choices=("keep", "fail"), default="keep")
    _add_overwrite(parser)
    _add_limits(parser)
    _add_planning(parser)
    _add_statistics(parser)
    _add_save_statistics(parser)


def add_stream(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold stream`."""
    _add_queries(parser)
    parser.add_argument(
        "--source",
        required=True,
        help="parquet:FOLDER, csv:FOLDER or json:FOLDER for arriving files; table:NAME or delta:FOLDER for a "
        "table; kafka:SERVERS/TOPIC for a topic of JSON objects, with --schema; rate:N for N rows a second",
    )
    parser.add_argument(
        "--watermark",
        required=True,
        metavar="D",
        help="how late an event may arrive, such as '10 min'",
    )
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="where to resume after a stop")
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="write a folder per query instead of printing, or table:NAME, kafka:SERVERS/TOPIC, webhook:URL",
    )
    parser.add_argument(
        "--format",
        choices=("parquet", "json", "delta", "iceberg"),
        help="format of the files or tables, or json to print",
    )
    parser.add_argument("--rejects", metavar="DIR", help="write rejected and late rows, with their reasons")
    parser.add_argument("--on-reject", choices=("keep", "fail"), default="keep")
    parser.add_argument("--trigger", metavar="T", help="a duration, or available-now for one pass")
    parser.add_argument(
        "--overwrite", action="store_true", help="remove what another stream or run wrote to the output"
    )
    parser.add_argument(
        "--max-ahead",
        default="1 d",
        metavar="D",
        help="how far in the future an event may be, or none for no limit; default: 1 d",
    )
    parser.add_argument(
        "--metrics", metavar="[HOST:]PORT", help="serve the progress as a page for Prometheus"
    )
    parser.add_argument(
        "--idle-timeout",
        metavar="D",
        help="after so long without events, move the watermark on with the clock; default: never",
    )
    parser.add_argument(
        "--on-change",
        choices=("fail", "replace"),
        default="fail",
        help="what to do with a query whose text differs from the checkpoint's; default: fail",
    )
    parser.add_argument(
        "--emit",
        choices=("final", "update"),
        default="final",
        help="report windows once they have ended, or also what open ones hold so far; default: final",
    )
    parser.add_argument("--flush", action="store_true", help="with available-now: report open windows too")
    parser.add_argument("--files-per-batch", type=int, metavar="N", help="the most files in one micro-batch")
    parser.add_argument(
        "--rows-per-batch", type=int, metavar="N", help="with kafka: the most messages in one micro-batch"
    )
    parser.add_argument(
        "--starting-offsets",
        default="earliest",
        metavar="O",
        help="with kafka, where a new checkpoint begins: earliest (the default), latest, or Spark's JSON",
    )
    parser.add_argument(
        "--source-option", action="append", default=[], metavar="K=V", help="an option of Spark's source"
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="K=V", help="a setting of the Spark session"
    )
    parser.add_argument("--types", default="", help="with rate: names of the event types, used in turn")
    parser.add_argument("--strategy", default="auto")
    _add_arithmetic(parser)
    parser.add_argument("--origin", help="what windows are aligned to")
    _add_limits(parser)
    _add_planning(parser)
    _add_statistics(parser)
    _add_save_statistics(parser)
    parser.add_argument("--master", metavar="URL", help="Spark master, such as local[2] or spark://HOST:PORT")
    parser.set_defaults(engine="spark")
    _add_columns(parser)


def add_check(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold check`."""
    _add_queries(parser)
    _add_input(parser, required=False)


def add_explain(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold explain`."""
    _add_queries(parser)
    _add_input(parser, required=False)
    _add_statistics(parser)
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--format", choices=("text", "json", "html"), default="text")
    parser.add_argument(
        "--analyze", action="store_true", help="run the queries over --input, and tell what every step took"
    )
    _add_planning(parser)


def add_why(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold why`."""
    _add_queries(parser)
    _add_input(parser, required=True)
    parser.add_argument("--query", metavar="NAME", help="which of the queries; needed if there are several")
    parser.add_argument("--origin", help="what windows are aligned to")
    parser.add_argument("--format", choices=("text", "json", "html"), default="text")


def add_funnel(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold funnel`."""
    parser.add_argument(
        "--steps", required=True, help="event types in order: View, Cart c, ANY(Card, Cash) pay"
    )
    parser.add_argument("--by", required=True, metavar="C", help="the attributes of a key, as in user")
    parser.add_argument(
        "--within", required=True, metavar="D", help="how long the steps of one attempt may take: '7 d'"
    )
    parser.add_argument("--every", metavar="D", help="count by the period in which attempts begin: '1 d'")
    parser.add_argument(
        "--where", metavar="CONDITIONS", help="such as \"c.amount > 10 AND pay.country = 'FR'\""
    )
    _add_input(parser, required=True)
    _add_engine(parser, "spark; local for under 256 MB, or where pyspark is not installed")
    parser.add_argument(
        "--origin", help="what periods are aligned to: a time, or a time zone for its midnight"
    )
    parser.add_argument("--on-reject", choices=("keep", "fail"), default="keep")
    parser.add_argument("--format", choices=("json",), help="print JSON objects instead of a table")
    parser.add_argument("--svg", metavar="FILE", help="also write a picture")


def add_generate(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold generate`."""
    parser.add_argument(
        "dataset", metavar="DATASET", help="ridesharing, stock, taxi, bus, smart-home or activity"
    )
    parser.add_argument("--events", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--output", required=True, metavar="PATH", help=".parquet, .csv or .jsonl")
    parser.add_argument("--rate", type=float, help="events per second")
    parser.add_argument("--groups", type=int, help="distinct values of the attribute to group by")
    parser.add_argument("--burst", type=float, help="mean length of a run of events of one type")
    parser.add_argument(
        "--disorder", type=float, default=0.0, metavar="SECONDS", help="how late a row may be"
    )
    parser.add_argument(
        "--ties", type=float, default=0.0, help="fraction of events with the same time as the event before"
    )
    parser.add_argument(
        "--types", default="", help="names of the event types, for datasets that do not fix them"
    )


def add_bench(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold bench`."""
    parser.add_argument("name", metavar="NAME", nargs="+", help="one or several; see docs/benchmarks.md")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="multiply the numbers of events"
    )
    parser.add_argument("--repeats", type=int, default=9, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--parts", action="store_true", help="with stream: take a micro-batch apart")
    parser.add_argument("--json", metavar="FILE", help="also write every figure to a file")
    parser.add_argument("--plot", metavar="FILE", help="also plot the figures, as SVG")
    parser.add_argument(
        "--report", metavar="DIR", help="also write report.html: tables and plots on one page"
    )
    parser.add_argument("--into", metavar="FILE", help="merge the figures into a file")


def add_demo(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold demo`."""
    _add_engine(parser, "spark, or local where pyspark is not installed")
    parser.add_argument("--events", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--seed", type=int, default=7, metavar="S")
    parser.add_argument("--output", default="trendfold-demo", metavar="DIR")
    _add_overwrite(parser)


def add_console(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold console`."""
    parser.add_argument("folder", nargs="?", default=".", help="whose files can be opened; default: this one")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: one that is free")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open nothing")


def add_warm(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold warm`."""
    parser.add_argument("--papers", action="store_true", help="also the strategies of the papers")
    parser.add_argument("--spark", action="store_true", help="also what only Spark's tasks need")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="default: one per core"
    )


def add_completion(parser: argparse.ArgumentParser) -> None:
    """The options of `trendfold completion`."""
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


# ---------------------------------------------------------------- options of several commands


def add_common(parser: argparse.ArgumentParser, again: bool = False) -> None:
    """The options of all commands, before the command; `again` after it, where they are not listed."""

    def told(text: str) -> str:
        return argparse.SUPPRESS if again else text

    unset: Any = argparse.SUPPRESS if again else None
    off: Any = argparse.SUPPRESS if again else False
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=unset,
        help=told("defaults of options; default: trendfold.toml, if it is there"),
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        default=off,
        help=told("tell what is done, and the defaults in use"),
    )
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=off,
        help=told("print results, warnings and errors only"),
    )
    parser.add_argument(
        "--debug", action="store_true", default=off, help=told("show the traceback of an error")
    )


def _add_overwrite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--overwrite", action="store_true", help="write into a folder that holds other results or data"
    )


def _add_queries(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queries", metavar="QUERIES.tql")
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of :NAME in the queries, as a literal: 5, \"'Paris'\", '10 min'; repeatable",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=N",
        help="limit a query: trends, groups, matches, windows, rows, bytes of state; repeatable",
    )


def _add_planning(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--planning",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how joins of RETURN MATCHES are planned: search=annealing|tabu, neighbourhood=edge|vertex, "
        "seconds=N, or TYPE=N events per second as statistics.TYPE=N; repeatable",
    )


def _add_statistics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--statistics",
        metavar="FILE",
        help="how often events come, for plans that depend on it: a JSON file of an earlier run's "
        "--save-statistics",
    )


def _add_save_statistics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--save-statistics",
        metavar="FILE",
        help="write how often events came and what joins measured, as JSON",
    )


def _add_engine(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--engine", choices=("spark", "local"), help=f"default: {default}")
    parser.add_argument(
        "--master", metavar="URL", help="Spark master, such as local[2], spark://HOST:PORT or sc://HOST:PORT"
    )


def _add_arithmetic(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--arithmetic",
        choices=api.ARITHMETICS,
        default="auto",
        help="COUNT and SUM as doubles (auto), 64-bit integers, or exact digits of any length",
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
    parser.add_argument(
        "--type-expr",
        action="append",
        default=[],
        metavar="TYPE=CONDITION",
        help="names the type of rows by a condition, as in 'Slow=speed < 10'; repeatable, the first that "
        "holds counts; a TYPE alone is that of all rows",
    )
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


# ---------------------------------------------------------------- values


def limits_of(args: argparse.Namespace) -> dict[str, Any]:
    """Limits by name; an invalid number stays text, for the API to report."""
    found: dict[str, Any] = {}
    for text in args.limit:
        name, separator, value = text.partition("=")
        if not separator:
            raise InputError(f"--limit is {text!r}; write a name and a number, as in 'groups=1000'")
        if name in found:
            raise InputError(f"--limit {name!r} is given twice; leave one out")
        found[name] = number_or_text(value)
    return found


def planning_of(args: argparse.Namespace) -> dict[str, Any] | None:
    """How joins are to be planned; an invalid value stays text, for the API to report."""
    found: dict[str, Any] = {}
    rates: dict[str, Any] = {}
    for text in args.planning:
        name, separator, value = text.partition("=")
        if not separator:
            raise InputError(f"--planning is {text!r}; write a key and a value, as in 'search=tabu'")
        at, key = (
            (rates, name.removeprefix("statistics.")) if name.startswith("statistics.") else (found, name)
        )
        at[key] = number_or_text(value)
    if rates:
        found["statistics"] = rates
    return found or None


def statistics_of(args: argparse.Namespace) -> Any:
    """The statistics of an earlier run; what is wrong with their content is for the API to report."""
    if args.statistics is None:
        return None
    try:
        return json.loads(Path(args.statistics).read_text())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or f"it is not JSON: {error}"
        raise InputError(f"cannot read statistics from {args.statistics}: {why}") from None


def workload_of(args: argparse.Namespace) -> api.Workload:
    """The queries, with the values of their parameters."""
    found: dict[str, Any] = {}
    for text in args.param:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise InputError(f"--param is {text!r}; write a name and a value, as in 'least=10'")
        if name in found:
            raise InputError(f"--param {name!r} is given twice; leave one out")
        found[name] = read_literal(value, f"--param {name}")
    return api.read(args.queries, found)


def columns_of(args: argparse.Namespace) -> dict[str, Any]:
    """How columns are read, as `run`, `start` and `explain` take it."""
    names = "type_column", "time_column", "order_column", "id_column", "time_unit", "time_format"
    return {name: getattr(args, name) for name in names} | {"type_expr": _type_expr(args.type_expr)}


def _type_expr(given: list[str]) -> api.TypeExpr:
    if not given:
        return None
    [first, *_] = given
    if len(given) == 1 and "=" not in first:
        return first
    found: dict[str, str] = {}
    for text in given:
        name, separator, condition = text.partition("=")
        if not separator or not name.strip():
            raise InputError(
                f"--type-expr is {text!r}; write a type and a condition, as in 'Slow=speed < 10'"
            )
        if name.strip() in found:
            raise InputError(f"--type-expr {name.strip()!r} is given twice; join the conditions by OR")
        found[name.strip()] = condition
    return found


def files_of(args: argparse.Namespace) -> Files:
    """The input files."""
    from trendfold.events.sources import Files

    return Files(args.input, csv_options(args))


def csv_options(args: argparse.Namespace) -> CsvOptions:
    """How CSV files are written."""
    from trendfold.events.text_files import CsvOptions

    delimiter = "\t" if args.csv_delimiter == r"\t" else args.csv_delimiter
    return CsvOptions(args.csv_header == "yes", delimiter, args.schema)


def number_or_text(text: str | None) -> int | float | str | None:
    """An origin may be a number, in the time column's unit."""
    for kind in (int, float):
        try:
            return kind(text) if text is not None else None
        except ValueError:
            pass
    return text
