"""Run a workload over a stream: one stateful Spark query, restarted when the workload changes."""

from __future__ import annotations

import os
import re
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from html import escape
from itertools import combinations
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from trendfold import errors
from trendfold.errors import InputError, TrendfoldError
from trendfold.events.batch import schema_of
from trendfold.events.options import Options
from trendfold.events.required import require_columns, require_names
from trendfold.events.schema import Schema
from trendfold.plan import QueryPlan
from trendfold.plan.stream_statistics import StreamStatistics
from trendfold.plan.workload import GIVEN, fitted_to
from trendfold.query import needed_columns, parse, read_duration, to_text
from trendfold.query.nodes import Query
from trendfold.runtime.limits import Limits
from trendfold.runtime.notebook import show_live
from trendfold.runtime.ownership import require_apart
from trendfold.runtime.places import Place, place
from trendfold.runtime.release import NEVER, require_streamable
from trendfold.runtime.spark.buckets import partition_labels
from trendfold.runtime.spark.heartbeats import FOLDER as HEARTBEATS
from trendfold.runtime.spark.heartbeats import Heartbeats, read_heartbeats
from trendfold.runtime.spark.lease import Lease
from trendfold.runtime.spark.manifest import (
    FILE,
    SPARK,
    Entry,
    Manifest,
    Tally,
    carried_on,
    column_types,
    describe,
    require_same_exchanges,
    require_whole,
)
from trendfold.runtime.spark.metrics import MetricsPage, observe
from trendfold.runtime.spark.operators import flush_from, judged_by_spark, pack, to_shards
from trendfold.runtime.spark.processor import Shards
from trendfold.runtime.spark.recorder import REJECTS, Recorder, require_same_columns
from trendfold.runtime.spark.session import ARROW_BATCH, UNCHECKED, is_remote, parallelism, with_settings
from trendfold.runtime.spark.shipping import ship_compiled
from trendfold.runtime.spark.sink_claims import SinkClaim, claims, require_query_names
from trendfold.runtime.spark.sinks import Output, Sink, folder_of, no_place, open_rejects, open_sink
from trendfold.runtime.spark.source import (
    FrameSource,
    is_frame,
    typed_frame,
    with_field_columns,
    with_text_times,
)
from trendfold.runtime.spark.watch import Listener, Progress, Watcher, progress_of
from trendfold.runtime.stream.stream_job import Epoch, StreamJob, stream_job

Planner = Callable[[Sequence[Query], Schema], tuple[QueryPlan, ...]]
"""Checks queries against the columns, and plans them."""

_STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A commit writes only the changes, not all files of the store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Do not stop a stream that is already running on the checkpoint.
    "spark.sql.streaming.stopActiveRunOnRestart": "false",
}
_IDLE_INTERVAL = "spark.sql.streaming.noDataProgressEventInterval"


@dataclass(frozen=True)
class Settings:
    """How a stream is read, stored and written."""

    options: Options
    origin: int
    limits: Limits
    arithmetic: str
    watermark: str
    checkpoint: str | os.PathLike[str]
    output: Output
    file_format: str = "parquet"
    rejects: str | os.PathLike[str] | None = None
    trigger: str | Mapping[str, Any] | None = None
    flush: bool = False
    shards: int | None = None
    name: str | None = None
    overwrite: bool = False
    max_ahead: str | None = None
    on_change: str = "fail"
    idle_timeout: str | None = None
    emit: str = "final"
    statistics: StreamStatistics | None = None


ON_CHANGE = ("fail", "replace")
"""What a start does with a query whose text differs from the checkpoint's."""
EMIT = ("final", "update")
"""Which windows are reported: those that have ended, or open ones too."""


def start(queries: Sequence[Query], frame: Any, planner: Planner, settings: Settings) -> Handle:
    """Check everything that can be checked up front, then start the stream."""
    if not is_frame(frame) or not frame.isStreaming:
        raise InputError("start() needs a streaming DataFrame, from spark.readStream; use run() for others")
    if not settings.output:
        raise no_place(settings.output)
    places = {"output": settings.output, "rejects": settings.rejects, "checkpoint": settings.checkpoint}
    require_all_apart({name: folder_of(path) for name, path in places.items()})
    ship_compiled(frame.sparkSession)
    return Handle(queries, frame, planner, settings)


def require_all_apart(places: Mapping[str, str | None]) -> None:
    """Raise if two of a stream's folders overlap."""
    for (name, path), (other, its_path) in combinations(places.items(), 2):
        if path is not None:
            require_apart((name, path), {other: its_path})


class Handle:
    """A running stream."""

    def __init__(
        self, queries: Sequence[Query], frame: DataFrame, planner: Planner, settings: Settings
    ) -> None:
        require_streamable(tuple(queries))
        frame = typed_frame(with_field_columns(frame), settings.options)
        require_names(frame.columns, settings.options, settings.options.columns)
        self._frame = with_text_times(frame, settings.options)
        self._planner, self._settings = planner, settings
        self._spark: SparkSession = frame.sparkSession
        self._delay_ms = -(-read_duration(settings.watermark, "watermark") // 1_000)
        self._max_ahead: int | None = None
        if settings.max_ahead is not None:
            self._max_ahead = read_duration(settings.max_ahead, "max_ahead")
        self._idle_us: int | None = None
        if settings.idle_timeout is not None:
            self._idle_us = read_duration(settings.idle_timeout, "idle_timeout")
        self._heartbeats: Heartbeats | None = None
        if settings.emit not in EMIT:
            raise InputError(f"emit is {settings.emit!r}; choose one of {', '.join(EMIT)}")
        if settings.on_change not in ON_CHANGE:
            raise InputError(f"on_change is {settings.on_change!r}; choose one of {', '.join(ON_CHANGE)}")
        self._trigger = _trigger(settings.trigger)
        if settings.flush and self._trigger != {"availableNow": True}:
            raise InputError("flush=True needs a stream that ends; pass trigger='availableNow' too")
        self._sink = open_sink(settings.output, settings.file_format)
        self._rejects: Sink | None = None
        if settings.rejects is not None:
            self._rejects = open_rejects(settings.rejects, settings.file_format)
        self._folder: Place = place(settings.checkpoint)
        self._fields: dict[str, pa.Field] = {}
        self._changing = threading.RLock()
        self._query: StreamingQuery | None = None
        self._recorder: Recorder | None = None
        self._is_done = False
        self._lease = Lease(self._folder, self._is_busy)
        self._lease.take()
        try:
            kept = self._kept_manifest()
            name = (kept.id if kept is not None else "") or str(uuid.uuid4())
            self._claims = claims(name, self._sink, self._rejects)
            self._require_places(kept, queries)
            self._manifest = self._first_manifest(queries, kept, name)
            self._launch(self._manifest)
        except BaseException:
            self._lease.release()
            raise

    # ------------------------------------------------------------ the workload

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the current queries."""
        return tuple(self._manifest.asked)

    def add(self, text: str) -> None:
        """Add queries; their first windows begin after the latest time seen. Restarts the stream."""
        with self._changing:
            queries = parse(text)
            require_streamable(queries)
            self._plan(queries)
            changed = self._manifest.with_queries(queries, 0)  # raise errors while the stream still runs
            require_query_names(self._sink, changed.names)
            self._halt()
            self._launch(self._manifest.with_queries(queries, Tally.read(self._folder).latest))

    def replace(self, text: str) -> None:
        """Replace queries by others of the same names. Restarts the stream.

        Windows that begin after the latest time seen are those of the new queries; windows that began earlier
        are completed by the old ones.
        """
        with self._changing:
            queries = parse(text)
            require_streamable(queries)
            self._plan(queries)
            changed = self._manifest.with_replaced(queries, 0)  # raise errors while the stream still runs
            require_same_columns(self._job(changed), self._sink)
            self._halt()
            self._launch(self._manifest.with_replaced(queries, Tally.read(self._folder).latest))

    def remove(self, name: str) -> None:
        """Remove a query without affecting the others. Restarts the stream."""
        with self._changing:
            changed = self._manifest.without(name)
            self._halt()
            self._launch(changed)

    def _kept_manifest(self) -> Manifest | None:
        """The manifest of the checkpoint; None for a new one."""
        kept = Manifest.read(self._folder)
        if kept is not None:
            require_whole(self._folder, Tally.read(self._folder))
        elif (self._folder / SPARK).exists():
            raise InputError(
                f"{self._folder.url!r} holds a checkpoint but no {FILE}; start with a new checkpoint"
            )
        return kept

    def _require_places(self, kept: Manifest | None, queries: Sequence[Query]) -> None:
        """Raise if this stream would replace the rows of others, or if its own rows are missing."""
        known = kept.names if kept is not None else ()
        names = tuple(dict.fromkeys((*known, *(query.name for query in queries))))
        require_query_names(self._sink, names)
        if self._settings.overwrite:
            return
        claimed = () if kept is None else kept.claimed
        if claimed and Tally.read(self._folder).batch < 0:
            claimed = ()  # nothing has been written yet
        for claim in self._claims:
            claim.require(self._spark, _held(claim, names), claimed)

    def _first_manifest(self, queries: Sequence[Query], kept: Manifest | None, name: str) -> Manifest:
        options = self._settings.options
        self._plan(queries)
        entries = tuple(Entry(to_text(query)) for query in queries)
        settings = {
            "type_column": options.type_column,
            "time_column": options.time_column,
            "order_column": options.order_column,
            "time_unit": options.time_unit,
            "time_format": options.time_format,
            "type_expr": [[each.type, each.text] for each in options.type_conditions] or None,
            "origin": self._settings.origin,
            "arithmetic": self._settings.arithmetic,
            "shards": self._settings.shards or parallelism(self._spark),
            "has_heartbeats": self._idle_us is not None,
            "emit": self._settings.emit,
        }
        fresh = Manifest(settings, column_types(self._schema(queries)), entries, id=name, claimed=())
        if kept is None:
            return fresh
        if self._settings.shards is None:  # a checkpoint fixes Spark's number of partitions
            fresh = replace(fresh, settings={**settings, "shards": kept.settings["shards"]})
        asked = [entry.query for entry in kept.entries]
        both = self._schema([*queries, *asked], kept.columns)
        fresh = replace(fresh, columns=column_types(both))
        latest = Tally.read(self._folder).latest
        return carried_on(replace(kept, id=name), fresh, latest, self._settings.on_change)

    def _claim(self, manifest: Manifest) -> Manifest:
        """Claim the stream's sinks: store the stream's id first, and the fact that they are claimed last."""
        manifest.write(self._folder)
        for claim in self._claims:
            claim.take(self._spark, _held(claim, manifest.names), manifest.claimed)
        claimed = dict.fromkeys((*(manifest.claimed or ()), *(claim.what for claim in self._claims)))
        manifest = replace(manifest, claimed=tuple(claimed))
        manifest.write(self._folder)
        return manifest

    def _schema(self, queries: Sequence[Query], also: Mapping[str, str] | None = None) -> pa.Schema:
        """The columns that queries need, as far as they exist."""
        needed = {*needed_columns(tuple(queries), self._settings.options.columns), *(also or ())}
        given = self._frame.schema
        names = [name for name in given.fieldNames() if name in needed]
        new = [given[name] for name in names if name not in self._fields]
        if new:  # this runs a small job, so each column is looked up once
            nothing = self._spark.createDataFrame([], type(given)(new)).toArrow()
            self._fields |= {field.name: field for field in nothing.schema.remove_metadata()}
        return pa.schema([self._fields[name] for name in names])

    def _plan(self, queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
        schema = self._schema(queries)
        require_columns(schema, self._settings.options)
        return self._planner(queries, schema_of(schema))

    # ------------------------------------------------------------ running

    def _launch(self, manifest: Manifest) -> None:
        """Write the manifest, then start the query: a crash in between changes nothing."""
        stream = self._job(manifest)
        job = stream.job
        names = [[job.plans[query].query.name for query in exchange.queries] for exchange in job.exchanges]
        told = tuple(describe(exchange, own) for exchange, own in zip(job.exchanges, names, strict=True))
        require_same_exchanges(manifest.exchanges, told, names)
        require_same_columns(stream, self._sink)
        manifest = replace(manifest, exchanges=told)
        self._folder.make()
        self._manifest = self._claim(manifest)
        self._recorder = Recorder(stream, self._sink, self._rejects, self._folder, self._claims)
        source = FrameSource(self._frame, job.schema)
        settings = {**_STATE_STORE, "spark.sql.shuffle.partitions": str(job.buckets)}
        if self._spark.conf.get(ARROW_BATCH, None) is None or not is_remote(self._spark):
            settings[ARROW_BATCH] = UNCHECKED
        if self._settings.flush:
            settings[_IDLE_INTERVAL] = "0"  # so that Spark reports the end (_has_read_all)
        with with_settings(self._spark, settings):
            writer = (
                to_shards(self._parcels(stream, source), Shards(stream), self._delay_ms)
                .writeStream.foreachBatch(self._recorder)
                .option("checkpointLocation", (self._folder / SPARK).url)
            )
            if self._settings.name is not None:
                writer = writer.queryName(self._settings.name)
            if self._trigger is not None:
                writer = writer.trigger(**self._trigger)
            try:
                self._query = writer.start()
            except Exception as error:
                raise _own_error(error) from error
        if self._idle_us is not None and self._trigger != {"availableNow": True}:
            query = self._query
            self._heartbeats = Heartbeats(
                self._folder, self._idle_us / 1e6, is_running=lambda: bool(query.isActive)
            )
            self._heartbeats.start()

    def _parcels(self, stream: StreamJob, source: FrameSource) -> DataFrame:
        """The stream's events as parcels, and heartbeats if the stream has them."""
        parcels = pack(stream, source)
        if self._idle_us is None:
            return parcels
        (self._folder / HEARTBEATS).make()
        first = partition_labels(stream.job.buckets)[0]
        return parcels.unionByName(read_heartbeats(self._spark, self._folder, first))

    def _job(self, manifest: Manifest) -> StreamJob:
        epochs = [Epoch(self._plan(queries), since, joins) for queries, since, joins in manifest.epochs()]
        entries = _by_epoch(manifest)
        removed = {n for n, entry in enumerate(entries) if entry.is_removed}
        replaced = {n: entry.until for n, entry in enumerate(entries) if entry.until != NEVER}
        settings = self._settings
        stream = stream_job(
            epochs,
            removed,
            self._schema([entry.query for entry in manifest.entries]),
            settings.options,
            settings.origin,
            settings.limits,
            settings.arithmetic,
            manifest.settings["shards"],
            settings.rejects is not None,
            self._max_ahead,
            self._delay_ms,
            replaced,
        )
        plans = fitted_to(stream.job.plans, settings.statistics, GIVEN)
        stream = replace(stream, job=replace(stream.job, plans=plans))
        return replace(judged_by_spark(stream), emits_updates=settings.emit == "update")

    def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.stop()

    def _halt(self) -> None:
        self._stop_heartbeats()
        if self._query is not None:
            self._query.stop()

    def _repr_html_(self) -> str:
        error = self.query.exception()
        state = "running" if self.is_active else "stopped" if error is None else "failed"
        told = "" if error is None else f"<pre>{escape(str(_own_error(error)))}</pre>"
        return f"<p><b>Stream, {state}</b></p>{told}{self.progress._repr_html_()}"

    def _ipython_display_(self) -> None:
        show_live(self._repr_html_, lambda: self.is_active)

    def stop(self) -> None:
        """Stop; a later start on the same checkpoint resumes from here."""
        with self._changing:
            self._halt()
            self._is_done = True
            self._lease.release()

    def _is_busy(self) -> bool:
        """Whether the checkpoint is in use: the stream is running, (re)starting or being flushed."""
        if not self._changing.acquire(blocking=False):
            return True
        try:
            return self._query is None or bool(self._query.isActive)
        except Exception:  # Spark itself has ended
            return False
        finally:
            self._changing.release()

    @property
    def is_active(self) -> bool:
        """Whether the stream is running."""
        with self._changing:
            return self._query is not None and bool(self._query.isActive)

    @property
    def query(self) -> StreamingQuery:
        """Spark's handle of the running stream."""
        assert self._query is not None
        return self._query

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends; returns whether it did, and raises the stream's errors.

        With `flush`, open windows are then reported if all input has been read; a stream that was stopped
        early resumes with the next start instead (see `is_flushed`).
        """
        while True:
            running = self.query
            try:
                ended = _wait(running, timeout)
            except Exception as error:
                self._stop_heartbeats()
                raise _own_error(error) from error
            if not ended:
                return False
            with self._changing:
                if running is not self._query:
                    continue  # restarted with another workload
                self._stop_heartbeats()
                if self._settings.flush and not self._is_done and _has_read_all(running):
                    self._flush()
                self._is_done = True
                self._lease.release()
                return True

    @property
    def is_flushed(self) -> bool:
        """Whether the open windows have been reported, which ends the stream for good."""
        return self._manifest.is_flushed

    def process_all_available(self) -> None:
        """Wait until everything that has arrived is processed; for tests and notebooks."""
        paused = nullcontext() if self._heartbeats is None else self._heartbeats.paused()
        try:
            with paused:
                self.query.processAllAvailable()
        except Exception as error:
            raise _own_error(error) from error

    def _flush(self) -> None:
        """Report the open windows, from the state after the last batch.

        The tally is written last: an interrupted flush is repeated under the same batch number.
        """
        assert self._recorder is not None
        if not self._lease.is_held:
            raise TrendfoldError(
                f"another stream has taken over the checkpoint {self._folder.url!r}; flush that one"
            )
        batch = Tally.read(self._folder).batch + 1
        told = flush_from(self._spark, self._recorder.stream, (self._folder / SPARK).url)
        tally = self._recorder.write(self._spark, batch, told)
        self._manifest = replace(self._manifest, is_flushed=True)
        self._manifest.write(self._folder)
        tally.write(self._folder)

    # ------------------------------------------------------------ progress

    @property
    def progress(self) -> Progress:
        """The stream's progress."""
        assert self._recorder is not None
        stream = self._recorder.stream
        raw = {stream.job.plans[query].query.name: why for query, why in stream.raw.items()}
        return progress_of(self.query, Tally.read(self._folder), self.queries, raw)

    def serve_metrics(self, port: int, host: str = "127.0.0.1") -> MetricsPage:
        """Serve the progress as a page that Prometheus reads, until `close()` (docs/monitoring.md)."""
        return MetricsPage(lambda: self.progress, host, port)

    def observe(self, meter: Any = None) -> None:
        """Add the progress to a meter of OpenTelemetry, by default to the application's."""
        observe(lambda: self.progress, meter)

    def listen(self, watcher: Watcher) -> Listener:
        """Call a function with the progress after every micro-batch; `listener.remove()` stops that."""
        listener = Listener(self._spark, lambda: self.query.id, lambda: self.progress, watcher)
        self._spark.streams.addListener(listener)
        return listener


def _held(claim: SinkClaim, queries: tuple[str, ...]) -> tuple[str, ...]:
    """The names under which a stream writes rows to a sink."""
    return queries if claim.what == "output" else (REJECTS,)


def _has_read_all(query: StreamingQuery) -> bool:
    """Whether a query that ended had read everything, and was not stopped before.

    Spark ends it after polling its sources without getting a batch, and reports that poll. It reports every
    batch too, but then with the duration of adding the batch.
    """
    told: list[Any] = list(query.recentProgress)
    return bool(told) and "addBatch" not in told[-1]["durationMs"]


def _by_epoch(manifest: Manifest) -> list[Entry]:
    """Entries in the order of their plans."""
    return sorted(manifest.entries, key=lambda entry: entry.epoch)


def _wait(query: StreamingQuery, timeout: float | None) -> bool:
    """Wait; returns whether the query ended. Spark accepts fractions of seconds, despite its type hint."""
    seconds: Any = timeout
    return query.awaitTermination(seconds) is not False


_TAKEN = re.compile(r"CONCURRENT_(QUERY|STREAM_LOG_UPDATE)|another query with same id is already active")


def _own_error(error: Exception) -> Exception:
    """The trendfold error inside a Spark error, or the error for two streams on one checkpoint."""
    if _TAKEN.search(str(error)):
        return TrendfoldError("another stream is using this checkpoint; stop it first, or choose another")
    found = re.search(r"trendfold\.errors\.(\w+): (.*)", str(error))
    kind = getattr(errors, found[1], None) if found is not None else None
    if found is None or kind is None or kind is errors.QueryError:
        return error
    made: TrendfoldError = kind(found[2])
    return made


def _trigger(given: str | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A trigger in Spark's keywords, from a duration, `availableNow`, or those keywords."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        return dict(given)
    if given.replace("-", "").lower() == "availablenow":
        return {"availableNow": True}
    return {"processingTime": f"{read_duration(given, 'trigger') // 1_000} milliseconds"}
