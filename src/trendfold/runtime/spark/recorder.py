"""Write the results of each micro-batch, and keep a tally of all batches.

Spark runs this on the driver, or on the server of a Connect client, so it holds plain values only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from trendfold import errors
from trendfold.errors import InputError, TrendfoldError
from trendfold.events.sources import untaken
from trendfold.plan.fold_steps import FoldStep, from_value, merged, to_value
from trendfold.runtime.places import Place
from trendfold.runtime.release import ALWAYS, NEVER
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob, Content, fit, from_batches
from trendfold.runtime.spark.manifest import Tally
from trendfold.runtime.spark.sink_claims import SinkClaim
from trendfold.runtime.spark.sinks import Sink, TableSink
from trendfold.runtime.stream.stream_job import StreamJob
from trendfold.runtime.tables import times_column

REJECTS = "rejects"
"""The name under which rejects are written, in place of a query's name."""


@dataclass
class Recorder:
    """The foreachBatch function: called with the blobs of each micro-batch."""

    stream: StreamJob
    sink: Sink
    rejects: Sink | None
    folder: Place
    """Where the tally is stored."""
    claims: tuple[SinkClaim, ...] = ()
    _tally: Tally | None = field(default=None, repr=False)
    _schemas: dict[int, pa.Schema] = field(default_factory=dict, repr=False)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Handle the blobs of one micro-batch."""
        told = list(from_batches(frame.toArrow().to_batches()))
        self._tally = self.write(frame.sparkSession, batch, told)
        self._tally.write(self.folder)

    def write(self, spark: SparkSession, batch: int, told: list[Blob]) -> Tally:
        """Write the rows of finished windows; returns the new tally, which is not stored yet."""
        job = self.stream.job
        finished = list(tasks.finish(job, told))
        failed = [json.loads(bytes(blob.payload)) for blob in finished if blob.content is Content.ERROR]
        if failed:
            kind, message = min(failed)
            raise getattr(errors, kind, TrendfoldError)(message)
        is_first, before = self._tally is None, self._tally or Tally.read(self.folder)
        tables: dict[int, list[pa.Table]] = {
            query: [] for query, release in enumerate(self.stream.releases) if release is not None
        }
        for blob in finished:
            if blob.content is Content.RESULT:
                tables[blob.owner].append(blob.table())
        shards = [blob for blob in told if blob.content is Content.STATE]
        states = [json.loads(bytes(blob.payload)) for blob in shards]
        watermark = max((state["watermark"] for state in states), default=ALWAYS)
        rows_of: dict[str, list[pa.Table]] = {}
        for query, parts in tables.items():
            if query not in self._schemas:
                self._schemas[query] = tasks.empty_result(job, query).schema
            schema = self._schemas[query]
            own = rows_of.setdefault(job.plans[query].query.name, [])
            fitted = [schema.empty_table(), *(fit(part, schema) for part in parts)]
            own += [with_finality(self.stream, query, part, watermark) for part in fitted]
        # As one chunk: Spark stops reading a table at its first empty chunk (ADR 7). A query and the one that
        # replaced it may both have rows, and a column that only one of them has is null for the other.
        found = {
            name: pa.concat_tables(parts, promote_options="default").combine_chunks()
            for name, parts in rows_of.items()
        }
        for claim in self.claims:
            claim.require_held(spark)
        self.sink.write(spark, batch, found, is_again=is_first)
        refused = [b for b in told if b.content in (Content.REJECTS, Content.LATE)]
        if self.rejects is not None:
            kept = [blob.table() for blob in refused if len(blob.payload)]
            if kept:
                together = pa.concat_tables(kept, promote_options="permissive")
                self.rejects.write(spark, batch, {REJECTS: together}, is_again=is_first)
        state = {str(b.bucket): {"rows": b.rows, **each} for b, each in zip(shards, states, strict=True)}
        ran = merged(_steps(told))
        return before.after(
            batch,
            max((_latest(blob) for blob in told), default=ALWAYS),
            _count(told, Content.SEEN),
            _count(refused, Content.REJECTS),
            _count(refused, Content.LATE),
            {name: table.num_rows for name, table in found.items()},
            state,
            [to_value(step) for step in ran],
            sum(each["read"] for each in states),
            ran.counts,
        )


IS_FINAL = "is_final"
"""The column that tells ended windows from open ones, where both are reported."""


def with_finality(stream: StreamJob, query: int, table: pa.Table, watermark: int) -> pa.Table:
    """Rows with a column that says whether their windows have ended, if open ones are reported too."""
    if not stream.emits_updates:
        return table
    release = stream.releases[query]
    assert release is not None
    if stream.job.plans[query].finds_matches:
        is_final = pa.array([True] * table.num_rows, pa.bool_())
    elif watermark in (ALWAYS, NEVER):
        is_final = pa.array([watermark == NEVER] * table.num_rows, pa.bool_())
    else:
        until = times_column(np.array([release.ended(watermark)]), stream.job.nothing)
        is_final = pc.less_equal(table.column("window_end"), until[0])
    return table.append_column(untaken(IS_FINAL, table.column_names), is_final)


def require_same_columns(stream: StreamJob, sink: Sink) -> None:
    """Raise if a query has columns that do not go together with those of the query that it replaced."""
    together: dict[str, list[int]] = {}
    for query, release in enumerate(stream.releases):
        if release is not None:
            together.setdefault(stream.job.plans[query].query.name, []).append(query)
    for name, versions in together.items():
        if len(versions) > 1:
            first, *later = (tasks.empty_result(stream.job, query).schema for query in versions)
            for schema in later:
                _require_fitting(name, first, schema, is_fixed=isinstance(sink, TableSink))


def _require_fitting(name: str, old: pa.Schema, new: pa.Schema, is_fixed: bool) -> None:
    if is_fixed and old.names != new.names:
        raise InputError(
            f"query {name!r} would have the columns {', '.join(new.names)}, but its table has "
            f"{', '.join(old.names)}; give it another name"
        )
    for column in set(old.names) & set(new.names):
        was, is_now = old.field(column).type, new.field(column).type
        if was != is_now:
            raise InputError(
                f"column {column!r} of query {name!r} would change from {was} to {is_now}; choose another "
                f"name for it with AS, or for the query"
            )


def _steps(told: Iterable[Blob]) -> Iterator[FoldStep]:
    """What shards ran."""
    return (from_value(json.loads(bytes(b.payload))) for b in told if b.content is Content.STEP)


def _latest(blob: Blob) -> int:
    found = json.loads(bytes(blob.payload))["latest"] if blob.content is Content.SEEN else None
    return ALWAYS if found is None else int(found)


def _count(told: Iterable[Blob], content: Content) -> int:
    return sum(blob.rows for blob in told if blob.content is content)
