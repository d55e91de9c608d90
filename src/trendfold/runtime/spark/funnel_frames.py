"""Funnels on Spark: rows travel by key, tasks follow the attempts of their keys, and Spark adds up."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from trendfold.errors import RejectError, plural
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.events.sources import as_files, in_format
from trendfold.plan import QueryPlan
from trendfold.query.funnel_question import FunnelQuestion
from trendfold.runtime.compiling import tell_of_compiling_on_workers
from trendfold.runtime.funnels import CountedFunnel, StepCounts, follow
from trendfold.runtime.local import unseen_types
from trendfold.runtime.spark.catalyst import spark_name, undotted, with_dots, without_dots
from trendfold.runtime.spark.session import session
from trendfold.runtime.spark.shipping import adopt_compiled, ship_compiled
from trendfold.runtime.spark.source import FrameSource, frame_source, is_frame, open_source, read_by_spark
from trendfold.runtime.workspace import Workspace

_ROWS = "period bigint, depth int, reached array<bigint>, events bigint, rejects bigint, seen array<string>"
_SCHEMA = pa.schema(
    [
        ("period", pa.int64()),
        ("depth", pa.int32()),
        ("reached", pa.list_(pa.int64())),
        ("events", pa.int64()),
        ("rejects", pa.int64()),
        ("seen", pa.list_(pa.string())),
    ]
)


def read(data: Any, columns: Collection[str], options: Options) -> FrameSource:
    """The input as a DataFrame."""
    files = None if is_frame(data) else as_files(in_format(data, options.time_column, options.time_format))
    if files is not None:
        return frame_source(read_by_spark(session(), files), columns, options)
    source = open_source(data, columns, options)
    assert isinstance(source, FrameSource)
    return source


def count(
    question: FunnelQuestion, plan: QueryPlan, source: FrameSource, options: Options, origin: int
) -> CountedFunnel:
    """Count the keys of each step over a DataFrame."""
    tell_of_compiling_on_workers()
    ship_compiled(source.spark)
    kept = replace(options, on_reject="keep")
    sent = pa.schema(list(zip(undotted(source.schema.names), source.schema.types, strict=True)))

    # Nested, not functools.partial: PySpark reads the type hints and fails on a partial.
    def follow_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        adopt_compiled()
        table = with_dots(pa.Table.from_batches(batches, schema=sent))
        batch = read_batch(table, kept)
        found = follow(question, plan, Workspace(batch), origin)
        yield pa.RecordBatch.from_pydict(
            {
                "period": pa.array(found.period),
                "depth": pa.array(found.depth),
                "reached": _lists(found.reached),
                **{name: pa.nulls(len(found.period), _SCHEMA.field(name).type) for name in _SCHEMA.names[3:]},
            },
            schema=_SCHEMA,
        )
        counted = [
            [None],
            [None],
            [None],
            [table.num_rows],
            [table.num_rows - len(batch)],
            [batch.type_names],
        ]
        yield pa.RecordBatch.from_arrays(
            [pa.array(v, t) for v, t in zip(counted, _SCHEMA.types, strict=True)], schema=_SCHEMA
        )

    by_key = source.frame.repartition(*(F.col(spark_name(name)) for name in question.query.equivalence))
    counts, events, rejects, seen = _added_up(question, without_dots(by_key).mapInArrow(follow_task, _ROWS))
    if rejects and options.on_reject == "fail":
        raise RejectError(f"{plural(rejects, 'row')} would be rejected; use on_reject='keep' to go on")
    return CountedFunnel(counts, events, rejects, (*source.warnings, *unseen_types([plan], seen)))


def _lists(rows: Any) -> pa.Array:
    flat = pa.array(rows.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1]).cast(pa.list_(pa.int64()))


def _added_up(question: FunnelQuestion, attempts: DataFrame) -> tuple[StepCounts, int, int, tuple[str, ...]]:
    """The counts, the numbers of events and rejects, and the types seen."""
    steps = range(len(question.steps))
    got = [F.col("depth") > k for k in steps]
    gaps = [F.when(got[k], F.col("reached")[k] - F.col("reached")[k - 1]) for k in steps[1:]]
    added = (
        attempts.groupBy("period")
        .agg(
            F.sum("events").alias("events"),
            F.sum("rejects").alias("rejects"),
            F.array_distinct(F.flatten(F.collect_list("seen"))).alias("seen"),
            F.array(*(F.count_if(each) for each in got)).alias("keys"),
            F.array(F.lit(None), *(F.avg(gap) / 1e6 for gap in gaps)).alias("mean"),
            F.array(F.lit(None), *(F.median(gap) / 1e6 for gap in gaps)).alias("median"),
        )
        .collect()
    )
    told = [row for row in added if row["period"] is None]
    events, rejects = (sum(row[name] for row in told) for name in ("events", "rejects"))
    rows = sorted((row for row in added if row["period"] is not None), key=lambda row: row["period"])
    periods = [0] if question.every is None else [row["period"] for row in rows]
    counts = StepCounts.none(periods, len(steps))
    for p, row in enumerate(rows):
        counts.keys[p] = row["keys"]
        for k in steps[1:]:
            if row["keys"][k]:
                counts.mean[p, k], counts.median[p, k] = row["mean"][k], row["median"][k]
    return counts, events, rejects, tuple(sorted({name for row in told for name in row["seen"]}))
