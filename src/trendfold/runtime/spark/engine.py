"""Run a workload on Spark: choose how each exchange moves its rows, chain the stages, persist one table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from trendfold import errors
from trendfold.errors import RejectError, TrendfoldError, plural
from trendfold.events.batch import read_batch, schema_of
from trendfold.events.columns import decoded, kind_of
from trendfold.events.findings import Findings, sum_of
from trendfold.events.options import Options
from trendfold.events.schema import Kind
from trendfold.events.sources import read_file
from trendfold.plan import QueryPlan
from trendfold.plan.fold_steps import from_value, merged
from trendfold.plan.spread import Mode, ends_with_segment
from trendfold.plan.stream_statistics import StreamStatistics, statistics_of
from trendfold.plan.workload import GIVEN, SAMPLED, fitted_to, needs_rates
from trendfold.query.names import attributes_in, key_column
from trendfold.query.nodes import Expression
from trendfold.runtime.compiling import tell_of_compiling_on_workers
from trendfold.runtime.limits import Limits
from trendfold.runtime.local import Progress, statistics_in, unseen_types
from trendfold.runtime.result import Result, Summary
from trendfold.runtime.spark import blobs, catalyst, tasks
from trendfold.runtime.spark.blobs import BITS, Blob, Content
from trendfold.runtime.spark.buckets import partition_labels
from trendfold.runtime.spark.exchanges import Exchange, conditions_of, exchanges, within_exchanges
from trendfold.runtime.spark.ranges import Range, chunk_times, overlapping_share, overlaps
from trendfold.runtime.spark.session import ARROW_BATCH, UNCHECKED, parallelism
from trendfold.runtime.spark.shipping import adopt_compiled, ship_compiled
from trendfold.runtime.spark.source import FileSource, FrameSource, Split, open_source, tasks_of
from trendfold.runtime.spark.tasks import Job, Route
from trendfold.runtime.typed_rows import columns_to_read, with_types
from trendfold.runtime.workspace import Workspace

MOST_OVERLAP = 0.2
"""If a larger share of rows is in overlaps, parts are treated as unordered."""
CHUNKS_PER_CORE = 2
MANY_WINDOWS = 1 << 20
"""If a task has more windows of a query, Spark counts them instead of collecting them."""
_TOLD = (
    Content.WINDOWS,
    Content.GROUPS,
    Content.SEEN,
    Content.FINDINGS,
    Content.WARNING,
    Content.STEP,
    Content.ERROR,
    Content.OVERLAP,
)
"""The content the driver collects from the persisted table; of the rest it only gets row counts."""

Batches = Iterator[pa.RecordBatch]


def read(data: Any, columns: Collection[str], options: Options) -> FileSource | FrameSource:
    """Open the source of a run; only its columns are read yet."""
    return open_source(data, columns, options)


def run(
    plans: Sequence[QueryPlan],
    source: FileSource | FrameSource,
    options: Options,
    origin: int,
    limits: Limits,
    progress: Progress | None = None,
    arithmetic: str = "auto",
    statistics: StreamStatistics | None = None,
) -> Result:
    """Run all queries in one job over the source, and in a second one if parts turn out to be unordered."""
    started = time.perf_counter()
    tell_of_compiling_on_workers()
    ship_compiled(source.spark)
    job = _fitted(_job(plans, source, options, origin, limits, arithmetic), source, statistics)
    done = _run_stages(job, source)
    if done.overlap:
        done.tall.unpersist()
        done = _run_stages(_disordered(job, source), source)
        if done.overlap:  # never ignored: rows would be missing from the answer
            raise TrendfoldError(
                "parts of one group overlap after a shuffle; this is a bug, please report it"
            )
    result = done.result(started)
    if progress is not None:
        progress(plans[-1].query.name if plans else "", len(plans), len(plans))
    return result


def _fitted(job: Job, source: FileSource | FrameSource, statistics: StreamStatistics | None) -> Job:
    """Plan groups by how often types come, once for all tasks: as given, or in a sample."""
    if statistics is not None:
        return replace(job, plans=fitted_to(job.plans, statistics, GIVEN))
    if not needs_rates(job.plans):
        return job
    some = _sample(source, (job.options.time_column, job.options.type_column), job.options)
    batch = read_batch(some, replace(job.options, order_column=None, id_column=None, on_reject="keep"))
    return replace(job, plans=fitted_to(job.plans, statistics_in(Workspace(batch)), SAMPLED))


# ---------------------------------------------------------------- choosing a route


def _job(
    plans: Sequence[QueryPlan],
    source: FileSource | FrameSource,
    options: Options,
    origin: int,
    limits: Limits,
    arithmetic: str,
) -> Job:
    kinds = schema_of(source.schema)
    own = exchanges(plans, kinds, options, arithmetic)
    cores = parallelism(source.spark)
    job = Job(
        plans=within_exchanges(plans, own),
        exchanges=own,
        routes=tuple(Route.STRETCHES if f.mode is Mode.LINEAR else Route.PARTITION for f in own),
        options=options,
        schema=source.schema,
        origin=origin,
        limits=limits,
        arithmetic=arithmetic,
        buckets=2 * cores,
        finishers=cores,
        shared=np.zeros((0, 2), np.int64),
        chunks=np.zeros(0, np.int64),
    )
    job = _overlapping(job, source, cores)
    if isinstance(source, FrameSource):
        return replace(job, bits=translatable(conditions_of(plans), kinds))
    parts = tasks_of([split for split in source.splits if split.rows], cores)
    ranges = _ranges(parts)
    if ranges is None:
        return job
    if overlapping_share(ranges, [sum(s.rows for s in part) for part in parts]) > MOST_OVERLAP:
        return _disordered(job, source)
    job = replace(job, ranges=np.array(ranges, np.int64).reshape(-1, 2))
    if all(
        route is Route.STRETCHES for route in job.routes
    ):  # the shuffled data is small: one task per core is enough
        job = replace(job, buckets=cores)
    return replace(job, shared=overlaps(ranges))


def _overlapping(job: Job, source: FileSource | FrameSource, cores: int) -> Job:
    """Find matches without a shuffle key in overlapping time ranges, if the time span is known."""
    if cores == 1 or not any(exchange.reach is not None for exchange in job.exchanges):
        return job
    span = _span(source, job.options)
    longest = max(exchange.reach or 0 for exchange in job.exchanges)
    parts = 0 if span is None else min(job.buckets, (span[1] - span[0]) // (2 * longest))
    if span is None or parts < 2:  # most rows would be in every range
        return job
    routes = tuple(
        Route.OVERLAPS if exchange.reach is not None else route
        for exchange, route in zip(job.exchanges, job.routes, strict=True)
    )
    return replace(job, routes=routes, chunks=chunk_times(*span, parts))


def _told(exchange: Exchange, route: Route) -> str:
    """A route's name for the summary: matches without a key and without a time window run in one task."""
    is_alone = exchange.finds_matches and route is Route.PARTITION and not exchange.key
    return "in one task" if is_alone else str(route)


def _ranges(parts: Sequence[Sequence[Split]]) -> list[Range] | None:
    """The time range of each task's rows; None if the files do not tell."""
    found = []
    for part in parts:
        known = [split.range for split in part]
        if any(one is None for one in known):
            return None
        found.append((min(r[0] for r in known if r), max(r[1] for r in known if r)))
    return found


def _disordered(job: Job, source: FileSource | FrameSource) -> Job:
    """Shuffle rows by key, or by time if one key has too many of them."""
    cores = parallelism(source.spark)
    heavy = [
        each
        for each in job.exchanges
        if each.mode is Mode.LINEAR and _is_heavy(each, source, cores, job.options)
    ]
    span = _span(source, job.options) if heavy else None

    def shuffled(exchange: Exchange, route: Route) -> Route:
        if route is Route.OVERLAPS:
            return route
        return Route.TIME if exchange in heavy and span is not None else Route.PARTITION

    routes = tuple(map(shuffled, job.exchanges, job.routes))
    if span is not None and Route.OVERLAPS not in routes:
        job = replace(job, chunks=chunk_times(*span, CHUNKS_PER_CORE * cores))
    return _joined_by_few(replace(job, routes=routes), cores)


def _joined_by_few(job: Job, cores: int) -> Job:
    """If only matrices are shuffled, one task per core is enough to join them."""
    return job if Route.PARTITION in job.routes else replace(job, buckets=cores)


def _is_heavy(exchange: Exchange, source: FileSource | FrameSource, cores: int, options: Options) -> bool:
    """Whether one key has more rows than a core's share, estimated from a sample."""
    if not exchange.key or cores == 1:
        return not exchange.key
    some = _sample(source, exchange.key, options)
    if not some.num_rows:
        return False
    counts = some.group_by(list(exchange.key)).aggregate([([], "count_all")]).column("count_all")
    return bool(max(counts.to_pylist()) > some.num_rows / cores * 0.75)


_SAMPLE = 20_000


def _sample(source: FileSource | FrameSource, columns: Sequence[str], options: Options) -> pa.Table:
    if isinstance(source, FrameSource):
        return source.frame.select(*map(catalyst.spark_name, columns)).limit(_SAMPLE).toArrow()
    needed = columns_to_read(columns, options) if options.type_column in columns else columns
    taken = pa.schema([source.raw.field(name) for name in needed])
    step = max(1, len(source.splits) // 4)
    parts = [
        read_file(s.path, source.files.csv, taken, s.row_groups).table.slice(0, _SAMPLE)
        for s in source.splits[::step][:4]
    ]
    if options.type_column in columns:
        parts = [with_types(part, options) for part in parts]
    tables = [pa.table({name: decoded(part.column(name)) for name in columns}) for part in parts]
    return pa.concat_tables(tables) if tables else taken.empty_table()


def _span(source: FileSource | FrameSource, options: Options) -> Range | None:
    """The first and last time of all events."""
    if isinstance(source, FileSource):
        ranges = [split.range for split in source.splits if split.rows]
        if ranges and all(r is not None for r in ranges):
            return min(r[0] for r in ranges if r), max(r[1] for r in ranges if r)
        return None
    name = catalyst.spark_name(options.time_column)
    ends = source.frame.agg(F.min(name).alias("low"), F.max(name).alias("high")).toArrow()
    times = pa.chunked_array([pa.concat_arrays([*ends.column(0).chunks, *ends.column(1).chunks])])
    table = pa.table({options.time_column: times, options.type_column: pa.array(["", ""])})
    batch = read_batch(table, replace(options, order_column=None, id_column=None, on_reject="keep"))
    return (int(batch.time.min()), int(batch.time.max())) if len(batch) == 2 else None


# ---------------------------------------------------------------- the chain of stages


def _run_stages(job: Job, source: FileSource | FrameSource) -> _BatchRun:
    """Run one chain of stages; its table stays persisted, and what tasks reported is collected."""
    counted = Observation()
    scanned = Observation() if isinstance(source, FrameSource) else None
    # The condition is unique, or Spark would reuse the table of an equal run.
    tall = _chain(job, source, scanned).where(F.lit(time.time_ns()) > 0).persist()
    rejects = F.sum(F.when(F.col("content") == int(Content.REJECTS), F.col("rows"))).alias("rejects")
    events = F.sum(F.when(F.col("content") == int(Content.SEEN), F.col("rows"))).alias("events")
    is_told = F.col("content").isin([int(content) for content in _TOLD]) & ~(
        (F.col("content") == int(Content.WINDOWS)) & (F.col("rows") > MANY_WINDOWS)
    )
    told = tall.observe(counted, rejects, events).select(
        "bucket", "content", "owner", "rows", F.when(is_told, F.col("payload")).alias("payload")
    )
    found = [
        Blob(row.bucket, Content(row.content), row.owner, row.rows, bytes(row.payload or b""))
        for row in told.collect()
    ]
    return _BatchRun(job, source, tall, found, counted, scanned)


def _chain(job: Job, source: FileSource | FrameSource, scanned: Observation | None) -> DataFrame:
    """The stages of a job: scan, chunk where one key is too heavy, fold, and finish where totals are left."""
    if isinstance(source, FileSource):
        stages = _scan_files(job, source)
    else:
        assert scanned is not None
        stages = _scan_frame(job, source, scanned)
    if Route.TIME in job.routes:
        stages = _stage(stages, len(job.chunks) + 1, tasks.chunk, job)
    stages = _stage(stages, job.buckets, tasks.fold, job)
    if any(each.mode is not Mode.COMPLETE and not _is_finished(job, each) for each in job.exchanges):
        stages = _stage(stages, job.finishers, tasks.finish, job)
    return stages


def _scan_frame(job: Job, source: FrameSource, scanned: Observation) -> DataFrame:
    """Scan a DataFrame; only the needed rows and columns are sent to Python, once."""
    seen = source.frame.observe(scanned, F.count(F.lit(1)).alias("events"))
    frame = narrowed(job, replace(source, frame=seen))

    def scan(batches: Batches) -> Batches:
        adopt_compiled()
        parts = list(batches)
        if parts:
            yield from blobs.to_batches(tasks.scan(job, catalyst.with_dots(pa.Table.from_batches(parts))))

    return catalyst.without_dots(frame).mapInArrow(scan, blobs.DDL)


@dataclass(frozen=True)
class _BatchRun:
    """A chain of stages that has run: its persisted table, and what tasks reported."""

    job: Job
    source: FileSource | FrameSource
    tall: DataFrame
    told: list[Blob]
    counted: Observation
    scanned: Observation | None

    def of(self, content: Content) -> Iterator[Blob]:
        """The blobs of one kind that tasks reported."""
        return (blob for blob in self.told if blob.content is content)

    @property
    def overlap(self) -> bool:
        """Whether parts assumed to be in time order are not."""
        return any(self.of(Content.OVERLAP))

    @property
    def found(self) -> Findings:
        """The findings of reading all parts of the source."""
        told = [Findings.from_json(bytes(blob.payload)) for blob in self.of(Content.FINDINGS)]
        return sum_of([*told, self.source.findings] if isinstance(self.source, FrameSource) else told)

    def result(self, started: float) -> Result:
        """Views of the persisted table, and the summary."""
        job, counts = self.job, self.counted.get
        names = [plan.query.name for plan in job.plans]
        self._raise_errors(int(counts["rejects"] or 0))
        rows = dict.fromkeys(range(len(names)), 0)
        for blob in self.of(Content.RESULT):
            rows[blob.owner] += blob.rows
        for q, plan in enumerate(job.plans):
            if plan.finds_matches:
                rows[q] = job.limits.check_matches(plan.query.name, rows[q], plan.query.limit)
            else:
                job.limits.check_rows(plan.query.name, rows[q])
        tables = _Views(self.tall, job, {name: (q, rows[q]) for q, name in enumerate(names)})
        rejects = _view(self.tall, Content.REJECTS, 0, self._rejects_schema())
        told = [json.loads(blob.payload) for blob in self.of(Content.SEEN)]
        seen = sorted({name for each in told for name in each["types"]})
        scanned = self.scanned.get["events"] if self.scanned is not None else counts["events"]
        events, found = int(scanned or 0), self.found
        warnings = [*found.warnings(events, job.options), *self.source.warnings]
        warnings += [*_slow_session(self.source), *unseen_types(job.plans, seen)]
        warnings += sorted({bytes(blob.payload).decode() for blob in self.of(Content.WARNING)})
        steps = merged(from_value(json.loads(blob.payload)) for blob in self.of(Content.STEP))
        ran = steps.with_details(job.plans)
        summary = Summary(
            engine="spark",
            events=events,
            rejects=int(counts["rejects"] or 0),
            windows=self._count_windows(),
            rows={name: rows[q] for q, name in enumerate(names)},
            strategy={plan.query.name: plan.strategy for plan in job.plans},
            seconds=time.perf_counter() - started,
            warnings=tuple(warnings),
            routes={
                names[query]: _told(exchange, route)
                for exchange, route in zip(job.exchanges, job.routes, strict=True)
                for query in exchange.queries
            },
            sharing=ran.counts,
            reject_reasons=found.rejects,
        )
        known = replace(_statistics(told), joins=ran.statistics)
        return Result(tables, rejects, summary, ran, self.tall, statistics=known.to_value())

    def _count_windows(self) -> int:
        """The number of distinct windows evaluated for all queries; tasks may share windows."""
        told: dict[int, list[Blob]] = {}
        for blob in self.of(Content.WINDOWS):
            told.setdefault(blob.owner, []).append(blob)
        many = [query for query, own in told.items() if any(blob.rows > MANY_WINDOWS for blob in own)]
        total = _distinct_windows(self.tall, many) if many else 0
        for query, own in told.items():
            if query not in many:
                total += len(np.unique(np.concatenate([np.frombuffer(b.payload, np.int64) for b in own])))
        return total

    def _raise_errors(self, rejects: int) -> None:
        failed = [json.loads(blob.payload) for blob in self.of(Content.ERROR)]
        if failed:
            kind, message = min(failed)
            raise getattr(errors, kind, TrendfoldError)(message)
        if rejects and self.job.options.on_reject == "fail":
            kinds = ", ".join(f"{count:,} × {kind}" for kind, count in self.found.rejects.items())
            told = f"{plural(rejects, 'row')} {'is' if rejects == 1 else 'are'} rejected: {kinds}"
            raise RejectError(f"{told}; pass on_reject='keep' to keep rejects apart")
        self._check_groups()

    def _check_groups(self) -> None:
        """Check the groups of all tasks: different ones where they are counted, or else named by a hash."""
        counted: dict[int, int] = {}
        named: dict[int, list[NDArray[np.uint64]]] = {}
        for blob in self.of(Content.GROUPS):
            counted[blob.owner] = counted.get(blob.owner, 0) + blob.rows
            named.setdefault(blob.owner, []).append(np.frombuffer(blob.payload, np.uint64))
        for query, count in counted.items():
            groups = max(count, len(np.unique(np.concatenate(named[query]))))
            self.job.limits.check_groups(self.job.plans[query].query.name, groups)

    def _rejects_schema(self) -> pa.Schema:
        if isinstance(self.source, FileSource):
            return self.source.rejects
        return self.job.nothing.rejects.schema


def _statistics(told: Sequence[Mapping[str, Any]]) -> StreamStatistics:
    """How often events of each type came, of what tasks have seen."""
    counts: dict[str, int] = {}
    for each in told:
        for name, count in each["types"].items():
            counts[name] = counts.get(name, 0) + count
    times = [time for each in told for time in each["times"]]
    return statistics_of(counts, max(times) - min(times) if times else 0)


def _distinct_windows(tall: DataFrame, queries: Sequence[int]) -> int:
    """The number of distinct windows of some queries, counted by Spark."""
    schema = pa.schema([("owner", pa.int32()), ("window", pa.int64())])

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for owner, payload in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                found = np.frombuffer(payload.as_buffer(), np.int64)
                for some in range(0, len(found), _UNPACKED):
                    part = found[some : some + _UNPACKED]
                    columns = [pa.array(np.full(len(part), owner, np.int32)), pa.array(part)]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

    is_asked = (F.col("content") == int(Content.WINDOWS)) & F.col("owner").isin(list(queries))
    found = tall.filter(is_asked).select("owner", "payload").mapInArrow(unpack, "owner int, window bigint")
    return found.distinct().count()


_UNPACKED = 1 << 16


def _is_finished(job: Job, exchange: Exchange) -> bool:
    """Whether folding an exchange's segments already gives finished rows."""
    return all(ends_with_segment(job.plans[query]) for query in exchange.queries)


def _stage(
    frame: DataFrame, parts: int, work: Callable[[Job, Iterable[Blob]], Iterator[Blob]], job: Job
) -> DataFrame:
    """Shuffle blobs by bucket, and apply `work` to those of each task."""

    def on(batches: Batches) -> Batches:
        adopt_compiled()
        yield from blobs.to_batches(work(job, blobs.from_batches(batches)))

    labels = F.array([F.lit(label) for label in partition_labels(parts)])
    return frame.repartition(parts, F.get(labels, F.col("bucket") % parts)).mapInArrow(on, blobs.DDL)


def _scan_files(job: Job, source: FileSource) -> DataFrame:
    """Scan files: tasks open them directly, and only blobs go through Spark."""
    parts = tasks_of(source.splits, parallelism(source.spark))
    csv, schema, options = source.files.csv, source.raw, job.options

    def scan(batches: Batches) -> Batches:
        adopt_compiled()
        context = TaskContext.get()
        pa.set_cpu_count(context.cpus() if context is not None else 1)  # the other cores are for other tasks
        for batch in batches:
            for number in batch.column(0).to_pylist():
                read = [
                    read_file(s.path, csv, schema, s.row_groups, options.time_column) for s in parts[number]
                ]
                table = with_types(pa.concat_tables([one.table for one in read]), options)
                refused = [one.rejects for one in read if one.rejects.num_rows]
                lines = pa.concat_tables(refused, promote_options="permissive") if refused else None
                found = sum_of(one.findings for one in read)
                yield from blobs.to_batches(tasks.scan(job, table, lines, found))

    numbers = source.spark.range(0, len(parts), 1, max(1, len(parts)))
    return numbers.mapInArrow(scan, blobs.DDL)


def narrowed(job: Job, source: FrameSource, also: Collection[str] = ()) -> DataFrame:
    """The DataFrame reduced to needed rows and columns plus `also`; conditions become bits."""
    frame, read_there = source.frame, _columns_read(job).union(also)
    frame = frame.filter(keep) if (keep := _kept_rows(job, source)) is not None else frame
    bits = catalyst.bits(job.bits, schema_of(source.schema))
    names = [name for name in source.schema.names if name in read_there]
    names += [name for name in also if name not in names]
    chosen = map(catalyst.spark_name, names)
    return frame.select(*chosen, *(column.alias(BITS.format(k)) for k, column in enumerate(bits)))


def translatable(conditions: Iterable[Expression], kinds: Mapping[str, Kind]) -> tuple[Expression, ...]:
    """The conditions that Spark can evaluate."""
    found = []
    for condition in conditions:
        try:
            catalyst.condition(condition, kinds)
        except catalyst.Untranslatable:
            continue
        found.append(condition)
    return tuple(found)


def _columns_read(job: Job) -> frozenset[str]:
    """The columns of a DataFrame that tasks read."""
    found = {name for exchange in job.exchanges for name in exchange.columns}
    for exchange in job.exchanges:
        for condition in exchange.conditions:
            if condition not in job.bits:
                found |= attributes_in(condition)
    return frozenset(found)


def _kept_rows(job: Job, source: FrameSource) -> Any:
    """A filter for the rows to read: those of needed types, and those that may be rejects."""
    options, schema = job.options, source.schema
    kinds = {name: kind_of(schema.field(name).type) for name in options.columns if name in schema.names}
    wanted: set[str] = set()
    for exchange in job.exchanges:
        if exchange.types is None:
            return None
        wanted |= exchange.types
    if kinds[options.type_column] is not Kind.STRING or kinds[options.time_column] not in (
        Kind.TIME,
        Kind.INTEGER,
    ):
        return None
    type_ = F.col(catalyst.spark_name(options.type_column))
    time_ = F.col(catalyst.spark_name(options.time_column))
    kept = [type_.isin(sorted(wanted)), type_.isNull(), time_.isNull()]
    if kinds[options.time_column] is Kind.INTEGER:
        kept.append(F.abs(time_.cast("double")) >= float(2**61 // options.ticks))
    if options.order_column is not None:
        kept.append(F.col(catalyst.spark_name(options.order_column)).isNull())
    return reduce(or_, kept)


# ---------------------------------------------------------------- views


@dataclass
class _Views(Mapping[str, DataFrame]):
    """The results of all queries by name; each is created on first access, which takes a while."""

    tall: DataFrame
    job: Job
    queries: dict[str, tuple[int, int]]
    """The number and row count of each query, by name."""
    _made: dict[str, DataFrame] = field(default_factory=dict)

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._made:
            query, rows = self.queries[name]
            schema = tasks.empty_result(self.job, query).schema
            view = _view(self.tall, Content.RESULT, query, schema)
            limit = self.job.plans[query].query.limit
            view = view if limit is None else view.limit(limit)
            self._made[name] = _ordered(view, _order(self.job.plans[query]), rows)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    def __contains__(self, name: object) -> bool:
        return name in self.queries


def _view(tall: DataFrame, content: Content, owner: int, schema: pa.Schema) -> DataFrame:
    """A DataFrame of the rows inside the blobs of one kind."""
    schema = blobs.for_spark(schema)

    def unpack(batches: Batches) -> Batches:
        for batch in batches:
            for payload in batch.column(0):
                yield from blobs.fit(blobs.unpack(payload.as_buffer()), schema).to_batches()

    chosen = tall.filter((F.col("content") == int(content)) & (F.col("owner") == owner)).select("payload")
    return chosen.mapInArrow(unpack, from_arrow_schema(schema))


def _ordered(frame: DataFrame, order: Sequence[str], rows: int) -> DataFrame:
    """The rows in order; few rows are sorted in one task, which needs no shuffle."""
    columns = [F.col(catalyst.spark_name(name)) for name in order]
    return frame.coalesce(1).sortWithinPartitions(*columns) if rows <= _FEW_ROWS else frame.orderBy(*columns)


_FEW_ROWS = 1_000_000


def _order(plan: QueryPlan) -> tuple[str, ...]:
    first = ("start", "end") if plan.finds_matches else ("window_start",)
    return (*first, *(key_column(plan.query, key) for key in plan.query.group_by))


def _slow_session(source: FileSource | FrameSource) -> list[str]:
    """A warning for sessions that send rows to Python four times slower than possible."""
    if isinstance(source, FileSource) or source.spark.conf.get(ARROW_BATCH, None) == UNCHECKED:
        return []
    return [f"rows reach Python faster with spark.conf.set({ARROW_BATCH!r}, {UNCHECKED!r})"]
