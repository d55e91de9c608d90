"""A micro-batch taken apart: the same stream, cut off after one more step in each line.

The difference of two lines is the cost of a step. A small micro-batch shows the fixed costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from trendfold.bench.harness import Case, Report
from trendfold.bench.stream_lines import (
    CORES,
    BatchFiles,
    BenchStream,
    Start,
    by_group,
    collect,
    spark_for_streams,
    stateless,
    trendfold,
)
from trendfold.events.options import Options
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.spark.blobs import SCHEMA
from trendfold.runtime.spark.operators import judged_by_spark, pack, to_shards
from trendfold.runtime.spark.source import FrameSource
from trendfold.runtime.stream.stream_job import Epoch, StreamJob, stream_job

SIZES = (10_000, 1_000_000, 4_000_000)
GROUPS, DELAY_MS = 1_000, 1_000


def parts(seed: int, scale: float) -> list[Case]:
    """Per size of a micro-batch: Spark reads, Python gets, rows are packed, shuffled, folded and reported."""
    spark = spark_for_streams()
    found = []
    for size in SIZES:
        rows = max(1_000, int(size * scale))
        files = by_group(seed, rows, GROUPS)
        for step, start in _STEPS.items():
            name = f"{rows:,} rows: {step}"
            _lines[name] = BenchStream(spark, files, start, _query(files))
            found.append(Case(name, _lines[name].run, rows))
    return found


_lines: dict[str, BenchStream] = {}


def _query(files: BatchFiles) -> str:
    length_s = max(1, files.seconds)
    return f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY g WITHIN {length_s} s SLIDE {length_s} s"


def parts_notes(report: Report) -> tuple[str, ...]:
    """What each step adds, and Spark's own account of the last micro-batch of the whole stream."""
    found = []
    lines, steps = report.measurements, list(_STEPS)
    for first in range(0, len(lines), len(steps)):
        own = lines[first : first + len(steps)]
        added = [own[0].median_s, *(after.median_s - before.median_s for before, after in pairwise(own))]
        told = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in zip(steps, added, strict=True))
        whole = _lines[own[-1].name]
        folding = sum(step.seconds for step in whole.progress.plan)
        spark = ", ".join(f"{name} {ms / 1e3:.2f} s" for name, ms in sorted(whole.durations_ms.items()))
        found.append(f"{own[0].events:,} rows: {told}")
        found.append(f"{own[0].events:,} rows: the kernels folded for {folding:.2f} s; Spark: {spark}")
    return tuple(found)


# ---------------------------------------------------------------- the steps


def _scan(stream: DataFrame, line: BenchStream) -> StreamingQuery:
    """Spark reads the files and drops the rows."""

    def drop(frame: DataFrame, batch: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    writer = stream.writeStream.foreachBatch(drop)
    return writer.option("checkpointLocation", str(line.folder / "checkpoint")).start()


def _pack(stream: DataFrame, line: BenchStream) -> StreamingQuery:
    """Rows become parcels; those are collected."""
    source, job = _job(stream, line)
    return collect(pack(job, source).selectExpr("cast(rows as bigint) as rows"), line)


class _ParcelCounter(StatefulProcessor):
    """Takes parcels, and keeps nothing."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """No state."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Count the rows of parcels."""
        total = sum(int(frame["rows"].sum()) for frame in rows)
        values = key[0], 0, 0, total, b""
        yield pd.DataFrame({name: [value] for name, value in zip(SCHEMA.names, values, strict=True)})

    def close(self) -> None:
        """Nothing to release."""


def _shuffle(stream: DataFrame, line: BenchStream) -> StreamingQuery:
    """Parcels are sent to shards, which drop them."""
    source, job = _job(stream, line)
    sent = to_shards(pack(job, source), _ParcelCounter(), DELAY_MS)
    return collect(sent.selectExpr("cast(rows as bigint) as rows"), line)


_STEPS: dict[str, Start] = {
    "Spark reads": _scan,
    "rows cross to Python": stateless,
    "pack": _pack,
    "shuffle": _shuffle,
    "fold, state and report": trendfold,
}


def _job(stream: DataFrame, line: BenchStream) -> tuple[FrameSource, StreamJob]:
    """The source and the job of the line's workload, as a stream of trendfold has them."""
    assert line.workload is not None
    names = ["g", "ts", "type"]
    nothing = line.spark.createDataFrame([], stream.select(names).schema).toArrow()
    schema = nothing.schema.remove_metadata()
    options, plans = Options(), line.workload.plan()
    job = stream_job([Epoch(plans)], (), schema, options, 0, DEFAULTS, "auto", CORES, delay_ms=DELAY_MS)
    return FrameSource(stream, schema), judged_by_spark(job)
