"""The user's entry point: parse a workload, plan it, explain it, run it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trendfold.errors import NOWHERE, InputError, Problem, QueryError, nearest, plural
from trendfold.events.schema import Kind, Schema
from trendfold.explain import Drawing, Explanation, explain, require_format
from trendfold.plan import QueryPlan
from trendfold.plan.join_planning import read_planning, with_statistics
from trendfold.plan.logical import planned_so, unknown_types
from trendfold.plan.stream_statistics import read_statistics
from trendfold.plan.workload import GIVEN, fitted_to, plan_all
from trendfold.query import caution_text, cautions, check_columns, needed_columns, to_text
from trendfold.query import parse as parse_queries
from trendfold.query.compose import compose
from trendfold.query.funnel_question import funnel_question
from trendfold.query.in_python import ConditionExpr, Conjunct, EventExpr, PatternExpr, Returned, count
from trendfold.query.nodes import Matches, Query, WindowUnit
from trendfold.query.parser import MAX_BYTES, placed
from trendfold.query.row_types import read_type_expr

if TYPE_CHECKING:
    from trendfold.events.options import Options
    from trendfold.explain.funnel import Funnel
    from trendfold.runtime.limits import Limits
    from trendfold.runtime.result import Result
    from trendfold.runtime.spark.sinks import Output
    from trendfold.runtime.spark.stream import Handle
    from trendfold.why import WhyNot


TypeExpr = Mapping[str, str] | str | None
"""Conditions by type, or one type for all rows."""
ARITHMETICS = ("auto", "integer", "exact")
COUNT_ALL = count()
UNBOUNDED = 2**62
"""The limit on matches that are only counted, not kept."""

logging.getLogger("trendfold").addHandler(logging.NullHandler())
_STEPS, _SUMMARY = logging.getLogger("trendfold.steps"), logging.getLogger("trendfold.summary")


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries that are run together."""

    queries: tuple[Query, ...]

    def __iter__(self) -> Iterator[Query]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    def __str__(self) -> str:
        return "\n\n".join(to_text(query) + ";" for query in self.queries)

    def __add__(self, other: Workload) -> Workload:
        """Both workloads' queries as one; raises a QueryError where two have one name."""
        if not isinstance(other, Workload):
            return NotImplemented
        taken = {query.name for query in self.queries}
        hint = "give one of them another name"
        problems = [
            Problem(f"both workloads have a query named {query.name!r}", query.name, hint=hint)
            for query in other.queries
            if query.name in taken
        ]
        if problems:
            raise QueryError(problems)
        return Workload(self.queries + other.queries)

    def _repr_html_(self) -> str:
        return f"<p><b>{plural(len(self), 'query', 'queries')}</b></p><pre>{escape(str(self))}</pre>"

    def plan(self, strategy: str = "auto") -> tuple[QueryPlan, ...]:
        """Plan every query under a strategy."""
        return plan_all(self.queries, strategy)

    def explain(
        self,
        strategy: str = "auto",
        format: str = "text",
        data: Any = None,
        analyze: bool = False,
        **options: Any,
    ) -> Explanation:
        """Explain how each query will be computed, or why it cannot be: `format` is text, json or html.

        data     choose the ways to fold for these rows, on the local engine; columns are named as for `run`.
                 Joins of RETURN MATCHES are planned from the rates of the rows and run once, so that partial
                 matches are measured, not only estimated
        planning, statistics  as for `run`
        analyze  run the workload over `data`, on any engine, and report rows, time and memory of each step
        """
        require_format(format)
        if data is None:
            if analyze:
                raise InputError("analyze=True runs the queries, so it needs data; pass data=...")
            known = read_statistics(options.get("statistics"))
            return explain(self.queries, strategy, format, statistics=known)
        if analyze:
            ran = self.run(data, strategy=strategy, **options).plan
            return explain(self.queries, strategy, format, ran=ran)
        from trendfold.events.batch import read_batch, schema_of
        from trendfold.runtime import runtime
        from trendfold.runtime.limits import Limits
        from trendfold.runtime.local import choices
        from trendfold.runtime.match_tables import trace_joins
        from trendfold.runtime.request import Request
        from trendfold.runtime.workspace import Workspace

        data = _with_csv(data, options.pop("csv", None))
        known = read_statistics(options.pop("statistics", None))
        wanted = with_statistics(read_planning(options.pop("planning", None)), known)
        read = read_options(**options)
        source = runtime("local").read(data, needed_columns(self.queries, read.columns), read)
        self.check_columns(schema_of(source.schema), read.time_column, read.ticks)
        plans = fitted_to(planned_so(self.plan(strategy), wanted), known, GIVEN)
        batch = read_batch(source.table, read)
        runs = trace_joins([p for p in plans if p.finds_matches], batch, Limits(matches=UNBOUNDED))
        drawings = [
            Drawing(d.ready.joint, d.joins, d.route.workplan, d.statistics, d.names, c.made) for d, c in runs
        ]
        return explain(self.queries, strategy, format, drawings, choices(plans, Workspace(batch), Request()))

    def run(
        self,
        data: Any,
        *,
        type_column: str = "type",
        time_column: str = "ts",
        order_column: str | None = None,
        id_column: str | None = None,
        time_unit: str = "s",
        origin: int | float | str | datetime | None = None,
        engine: str | None = None,
        strategy: str = "auto",
        arithmetic: str = "auto",
        on_reject: str = "keep",
        limits: Mapping[str, int] | Limits | None = None,
        time_format: str | None = None,
        csv: Mapping[str, Any] | None = None,
        type_expr: TypeExpr = None,
        planning: Mapping[str, Any] | None = None,
        statistics: Mapping[str, Any] | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Result:
        """Answer every query over `data`: a pyarrow Table, a pandas or polars frame, or a path.

        time_unit    the unit of numeric times: s, ms or us
        arithmetic   `auto`: COUNT and SUM are doubles; `integer`: COUNTs, and SUMs of integers, are 64-bit
                     integers, and an error where they do not fit; `exact`: digits of any length, as text
        time_format  the format of times, as for Python's strptime; without it, ISO 8601 or numbers
        csv          how to read a text file: `header`, `delimiter` and `schema`
        planning     how the joins of RETURN MATCHES are planned: `search` is "annealing" or "tabu",
                     `neighbourhood` "edge" or "vertex", `seconds` the longest search, and `statistics`
                     the events per second of types whose rates are known
        statistics   how often events come, for plans that depend on it: `result.statistics` of another run,
                     {"rates": events per second by type, "joins": what joins of matches measured}; without
                     it, they are measured or sampled
        progress     called with a query, the number of queries done and of all; a notebook shows a bar
        type_expr    conditions by type, in place of a type column: the first that holds names a row's type;
                     or one type for all rows

        >>> import trendfold as tf
        >>> events = tf.datasets.ridesharing(events=1_000, seed=7)
        >>> result = tf.parse("RETURN COUNT(*) PATTERN SEQ(Request R, Travel T+)").run(events)
        >>> result["q1"].column_names
        ['window_start', 'window_end', 'count']
        """
        # Imported here: `import trendfold` must load neither numba nor a JVM.
        from trendfold.events.batch import schema_of
        from trendfold.events.options import Options
        from trendfold.runtime import engine_for, runtime
        from trendfold.runtime.limits import read_limits
        from trendfold.runtime.notebook import progress_bar
        from trendfold.runtime.windows import read_origin

        _require_arithmetic(arithmetic)
        conditions = read_type_expr(type_expr)
        options = Options(
            type_column, time_column, order_column, id_column, time_unit, on_reject, time_format, conditions
        )
        data = _with_csv(data, csv)
        chosen, notices = (engine, ()) if engine is not None else engine_for(data)
        module = runtime(chosen)
        known = read_statistics(statistics)
        wanted = with_statistics(read_planning(planning), known)
        plans = planned_so(self.plan(strategy), wanted)
        source = module.read(data, needed_columns(self.queries, options.columns), options)
        self.check_columns(schema_of(source.schema), options.time_column, options.ticks)
        begin, bounds = read_origin(origin, time_unit), read_limits(limits)
        result: Result = module.run(
            plans, source, options, begin, bounds, progress or progress_bar(), arithmetic, known
        )
        result = replace(result, queries=self.queries)
        result = result.with_notices(notices).with_warnings((*self.cautions(), *unknown_types(plans, wanted)))
        _log_run(result)
        return result

    def why_not(
        self,
        data: Any,
        query: str | None = None,
        *,
        origin: int | float | str | datetime | None = None,
        csv: Mapping[str, Any] | None = None,
        format: str = "text",
        **options: Any,
    ) -> WhyNot:
        """Tell why a query has no rows over `data`, or fewer than expected: what is left after each step.

        query    the name of the query; may be left out if there is only one
        options  how columns are read: `type_column`, `time_column` and so on, as for `run`

        Runs in one process, whatever the size of the data.

        >>> import trendfold as tf
        >>> events = tf.datasets.ridesharing(events=1_000, seed=7)
        >>> why = tf.parse("RETURN COUNT(*) PATTERN request+").why_not(events)
        >>> print(why.steps[0].added[0].near_miss)
        no event has the type 'request', but 62 events have 'Request'
        """
        from trendfold.events.batch import read_batch, schema_of
        from trendfold.runtime import runtime
        from trendfold.runtime.windows import read_origin
        from trendfold.runtime.workspace import Workspace
        from trendfold.why import ask, require_why_format

        require_why_format(format)
        asked = self._query(query)
        read = read_options(**options)
        source = runtime("local").read(_with_csv(data, csv), needed_columns([asked], read.columns), read)
        Workload((asked,)).check_columns(schema_of(source.schema), read.time_column, read.ticks)
        batch = read_batch(source.table, read)
        rejects = source.with_rejects(batch.rejects).num_rows
        begin = read_origin(origin, read.time_unit)
        return replace(ask(asked, Workspace(batch), read, begin, rejects), format=format)

    def _query(self, name: str | None) -> Query:
        """The query of a name, or the only one."""
        names = [query.name for query in self.queries]
        if name is None and len(names) > 1:
            raise InputError(f"there are {len(names):,} queries; name one of {', '.join(names[:20])}")
        if name is not None and name not in names:
            hint = nearest(name, names) or f"queries are {', '.join(names[:20])}"
            raise InputError(f"no query {name!r}; {hint}")
        return self.queries[0 if name is None else names.index(name)]

    def start(
        self,
        stream: Any,
        *,
        watermark: str,
        checkpoint: str | os.PathLike[str],
        output: Output,
        type_column: str = "type",
        time_column: str = "ts",
        order_column: str | None = None,
        id_column: str | None = None,
        time_unit: str = "s",
        origin: int | float | str | datetime | None = None,
        strategy: str = "auto",
        arithmetic: str = "auto",
        on_reject: str = "keep",
        limits: Mapping[str, int] | Limits | None = None,
        time_format: str | None = None,
        type_expr: TypeExpr = None,
        trigger: str | Mapping[str, Any] | None = None,
        flush: bool = False,
        format: str = "parquet",
        rejects: str | os.PathLike[str] | None = None,
        shards: int | None = None,
        name: str | None = None,
        overwrite: bool = False,
        max_ahead: str | None = "1 d",
        on_change: str = "fail",
        idle_timeout: str | None = None,
        emit: str = "final",
        planning: Mapping[str, Any] | None = None,
        statistics: Mapping[str, Any] | None = None,
    ) -> Handle:
        """Answer every query over a streaming DataFrame, window by window (docs/streaming.md).

        watermark   how late an event may arrive, such as `10 min`
        checkpoint  a folder; a stream restarted on it resumes where it stopped
        output      a folder, `table:NAME`, `kafka:SERVERS/TOPIC`, `webhook:URL`, `terminal`, or a function of
                    (rows, batch, query)
        trigger     a duration, `availableNow`, or Spark's own keywords
        flush       with `availableNow`: report the windows that are open at the end
        type_expr   conditions by type, in place of a type column, as for `run`
        rejects     a folder for rejected rows, late events and events too far in the future
        overwrite   take over an output or rejects folder of another stream or run, and remove its rows
        max_ahead   how far ahead of the clock an event may be before it is rejected; None for no bound
        idle_timeout  after so long without events the watermark moves on with the clock; None: never
        on_change   `replace` replaces queries whose text differs from the checkpoint's; `fail` refuses them
        emit        `final` reports a window once, when it has ended; `update` also reports what open windows
                    hold so far, after every micro-batch, and adds the column `is_final`
        planning    how the joins of RETURN MATCHES are planned, as for `run`
        statistics  how often events come, as for `run`
        """
        from trendfold.events.options import Options
        from trendfold.runtime import runtime
        from trendfold.runtime.limits import read_limits
        from trendfold.runtime.windows import read_origin

        runtime("spark")  # says what to install where pyspark is not
        from trendfold.runtime.spark import stream as streaming

        _require_arithmetic(arithmetic)
        conditions = read_type_expr(type_expr)
        options = Options(
            type_column, time_column, order_column, id_column, time_unit, on_reject, time_format, conditions
        )

        known = read_statistics(statistics)
        wanted = with_statistics(read_planning(planning), known)

        def planned(queries: Sequence[Query], schema: Schema) -> tuple[QueryPlan, ...]:
            workload = Workload(tuple(queries))
            workload.check_columns(schema, options.time_column, options.ticks)
            return planned_so(workload.plan(strategy), wanted)

        settings = streaming.Settings(
            options,
            read_origin(origin, time_unit),
            read_limits(limits),
            arithmetic,
            watermark,
            checkpoint,
            output,
            format,
            rejects,
            trigger,
            flush,
            shards,
            name,
            overwrite,
            max_ahead,
            on_change,
            idle_timeout,
            emit,
            read_statistics(statistics),
        )
        return streaming.start(self.queries, stream, planned, settings)

    def cautions(self) -> tuple[str, ...]:
        """Warnings about queries that are valid but hardly intended; the summary of `run` includes them."""
        return tuple(caution_text(caution) for query in self.queries for caution in cautions(query))

    def check_columns(self, schema: Schema, time_column: str, ticks: int) -> None:
        """Raise one QueryError with every query that does not fit the columns."""
        problems = []
        for query in self.queries:
            found = check_columns(query, schema)
            if found and not query.text:  # written in Python
                query = placed(query)
                found = check_columns(query, schema)
            if schema.get(time_column) is Kind.INTEGER:
                found += _misfit_durations(query, ticks)
            problems += found[:1]
        if problems:
            raise QueryError(problems)


def _log_run(result: Result) -> None:
    """What ran, for applications that collect logs; without a handler nothing is printed."""
    for step in result.plan:
        _STEPS.debug("%s: %s", ", ".join(step.queries), step.way)
    for line in str(result.summary).splitlines():
        _SUMMARY.log(logging.WARNING if line.startswith("warning: ") else logging.INFO, "%s", line)


def _require_arithmetic(arithmetic: str) -> None:
    if arithmetic not in ARITHMETICS:
        hint = nearest(str(arithmetic), ARITHMETICS) or f"choose {' or '.join(ARITHMETICS)}"
        raise InputError(f"unknown arithmetic {arithmetic!r}; {hint}")


def _with_csv(data: Any, csv: Mapping[str, Any] | None) -> Any:
    """Attach CSV options to a path."""
    if csv is None:
        return data
    from trendfold.events.sources import as_files
    from trendfold.events.text_files import CsvOptions

    known = ("header", "delimiter", "schema")
    for name in csv:
        if name not in known:
            hint = nearest(str(name), known) or f"it takes {', '.join(known)}"
            raise InputError(f"unknown csv option {name!r}; {hint}")
    files = as_files(data)
    if files is None:
        raise InputError("csv is for paths; leave it out")
    return replace(files, csv=CsvOptions(**csv))


def read_options(type_expr: TypeExpr = None, **columns: Any) -> Options:
    """How rows are read, as `run` takes it."""
    from trendfold.events.options import Options

    return Options(**columns, type_conditions=read_type_expr(type_expr))


def _misfit_durations(query: Query, ticks: int) -> list[Problem]:
    """Problems of durations that are not whole numbers of ticks of an integer time column."""
    window, bound = query.window, query.bound
    if window is not None and window.unit is not WindowUnit.MICROSECONDS:
        return []
    sizes = [] if window is None else [window.length, window.slide or 0]
    sizes += [] if bound is None else [bound.length]
    if not any(size % ticks for size in sizes):
        return []
    words = "WITHIN and SLIDE" if bound is None else "WITHIN and EVERY"
    message = f"{words} must be whole numbers of the time column's ticks of {ticks:,} microseconds"
    span = bound.span if bound is not None else NOWHERE if window is None else window.span
    return [Problem(message, query.name, query.text, span, "pass a finer time_unit")]


def parse(text: str, params: Mapping[str, Any] | None = None) -> Workload:
    """Parse a workload; raises one QueryError with every problem in the text.

    `params` gives the values of parameters, written `:name`. They never become text of the query.

    >>> import trendfold as tf
    >>> print(tf.parse("RETURN COUNT(*) PATTERN A WHERE A.city = :city", params={"city": "it's"}))
    QUERY q1
    RETURN COUNT(*)
    PATTERN A
    WHERE A.city = 'it''s';
    """
    return Workload(parse_queries(text, params))


def query(
    pattern: PatternExpr | str,
    *,
    name: str = "q1",
    returns: Returned | Matches | Sequence[Returned] = COUNT_ALL,
    semantics: str = "any",
    where: Conjunct | Sequence[Conjunct] = (),
    group_by: Returned | Sequence[Returned] = (),
    having: ConditionExpr | None = None,
    within: timedelta | str | None = None,
    slide: timedelta | str | None = None,
    every: timedelta | str | None = None,
    once: bool = False,
    limit: int | None = None,
    include_empty: bool = False,
) -> Workload:
    """A query written in Python: a workload of its own, to run or to add to others (docs/python-queries.md).

    pattern    events and patterns of them: `tf.seq(Request, Travel.plus(), ~Cancel)`
    returns    aggregates and grouping attributes, or `tf.matches(...)`
    semantics  `any`, `next` or `cont`: which events may lie between two events of a trend
    where      conditions, and `tf.same(...)`
    within     a timedelta, a duration such as `30 min`, or `1000 events`; `slide` as well
    every      the length of periods: a trend shorter than `within` counts once, where it ends; or `once=True`
    include_empty  whether windows and groups without trends have rows too

    >>> import trendfold as tf
    >>> Request, Travel = tf.events("Request", "Travel")
    >>> print(tf.query(tf.seq(Request, Travel.plus()), where=Travel.speed < 10, within="1 h"))
    QUERY q1
    RETURN COUNT(*)
    PATTERN SEQ(Request, Travel+)
    WHERE Travel.speed < 10
    WITHIN 1 h;
    """
    clauses = {
        "pattern": pattern,
        "returns": returns,
        "semantics": semantics,
        "where": where,
        "group_by": group_by,
        "having": having,
        "within": within,
        "slide": slide,
        "every": every,
        "once": once,
        "limit": limit,
        "includes_empty": include_empty,
    }
    return Workload((compose(name, clauses),))


def funnel(
    data: Any,
    *,
    steps: Sequence[EventExpr | str],
    by: str | Sequence[str],
    within: timedelta | str,
    every: timedelta | str | None = None,
    where: Conjunct | Sequence[Conjunct] = (),
    type_column: str = "type",
    time_column: str = "ts",
    order_column: str | None = None,
    time_unit: str = "s",
    origin: int | float | str | datetime | None = None,
    engine: str | None = None,
    on_reject: str = "keep",
    time_format: str | None = None,
    csv: Mapping[str, Any] | None = None,
    type_expr: TypeExpr = None,
) -> Funnel:
    """Count the keys that got through each step of a funnel (docs/funnels.md); the rest is as for `run`.

    steps   event types in order, or events with conditions in `where`: `tf.event("Pay", as_="p")`
    by      the attribute, or attributes, of a key, such as `user`
    within  an attempt's last event is less than this after its first: a timedelta, or `7 d`
    every   count by the period in which attempts begin, such as `1 d`; None: over the whole input

    >>> import trendfold as tf
    >>> events = {"type": ["view", "cart", "view"], "ts": [1, 5, 2], "user": ["ann", "ann", "bob"]}
    >>> import pyarrow as pa
    >>> tf.funnel(pa.table(events), steps=["view", "cart"], by="user", within="1 h").table["keys"].to_pylist()
    [2, 1]
    """
    from trendfold.events.batch import read_batch, schema_of
    from trendfold.events.options import Options
    from trendfold.explain.funnel import Funnel
    from trendfold.runtime import FUNNELS, engine_for, runtime
    from trendfold.runtime.funnels import funnel_table
    from trendfold.runtime.windows import read_origin

    started = time.perf_counter()
    question = funnel_question(steps, by, within, every, where)
    conditions = read_type_expr(type_expr)
    options = Options(
        type_column, time_column, order_column, None, time_unit, on_reject, time_format, conditions
    )
    data, begin = _with_csv(data, csv), read_origin(origin, time_unit)
    chosen, notices = (engine, ()) if engine is not None else engine_for(data)
    module = runtime(chosen, FUNNELS)
    workload = Workload((question.query,))
    source = module.read(data, needed_columns(workload.queries, options.columns), options)
    workload.check_columns(schema_of(source.schema), options.time_column, options.ticks)
    [plan] = workload.plan()
    found = module.count(question, plan, source, options, begin)
    nothing = read_batch(source.schema.empty_table(), options)
    table = funnel_table(question, found.counts, nothing, begin)
    seconds = time.perf_counter() - started
    return Funnel(question, table, chosen, found.events, found.rejects, seconds, found.warnings, notices)


def read(path: str | Path, params: Mapping[str, Any] | None = None) -> Workload:
    """Read a workload from a file; `params` as for `parse`."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"{path} is larger than {MAX_BYTES // 1_000_000} MB; split the workload")
        text = data.decode("utf-8")
    except FileNotFoundError:
        from trendfold.events.sources import missing_file

        raise InputError(missing_file(Path(path))) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, params)
