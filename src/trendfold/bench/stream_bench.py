"""The speed of streams: micro-batches of a million rows, with few and many groups, overlaps and queries.

Baselines are measured in the same run, each as a stream over the same files: rows passed to Python and
counted, without state; and Spark's stateful operator with a counter per key. All streams stay up while they
take turns, so no line includes a start. One run of a line is one file, that is one micro-batch, which reports
the windows of the previous one. Before any is timed, the rows of the first window are compared with a batch
run, and the baselines' counts with their input. `--parts` takes a micro-batch apart (`stream_parts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from trendfold.bench.harness import Case, Promise, Report
from trendfold.bench.stream_lines import (
    CONDITIONS,
    BatchFiles,
    BenchStream,
    by_group,
    collect,
    rides,
    spark_for_streams,
    stateless,
    trendfold,
)
from trendfold.bench.stream_parts import parts, parts_notes

__all__ = ["cases", "parts", "parts_notes", "ratios"]

ROWS, FEW, MANY = 1_000_000, 1_000, 100_000
OVERLAPS = {30: 0.75, 60: 0.65}
"""Overlapping windows, and the promised fraction of the speed of windows that do not overlap."""
RIDE_FILES, RIDE_MINUTES = 30, 150
"""HAMLET's Figure 1: a million events in 150 minutes, five minutes a file; windows have 20 and 30."""
OPEN_FILES = 3
"""How many files a window holds whose state is measured."""

_lines: dict[str, BenchStream] = {}
"""The lines of trendfold by name, for `ratios`."""


def cases(seed: int, scale: float) -> list[Case]:
    """COUNT(*) of SEQ(A, B+, C) by group; a window is as long as a micro-batch."""
    rows = max(1_000 * max(OVERLAPS), int(ROWS * scale))  # a file spans a window: a slide is a second or more
    spark = spark_for_streams()
    few, many = by_group(seed, rows, FEW), by_group(seed, rows, MANY)
    floor, floor_many = (f"stateless mapInArrow count, {groups:,} groups" for groups in (FEW, MANY))
    per_key = f"transformWithStateInPandas, a counter per key, {FEW:,} groups"
    tumbling, tumbling_many = (f"trendfold, {groups:,} groups" for groups in (FEW, MANY))
    return [
        Case(floor, BenchStream(spark, few, stateless).run, rows, expected=lambda: rows),
        Case(per_key, BenchStream(spark, few, _per_key).run, rows, expected=lambda: rows),
        _ours(spark, few, tumbling, floor, (Promise(0.5, floor), Promise(3.0, per_key))),
        *(
            _ours(
                spark,
                few,
                f"{tumbling}, {overlap} overlapping windows",
                tumbling,
                (Promise(least, tumbling),),
                overlap,
            )
            for overlap, least in OVERLAPS.items()
        ),
        _ours(
            spark,
            few,
            f"{tumbling}, {CONDITIONS} queries",
            tumbling,
            (Promise(0.25, tumbling),),
            queries=CONDITIONS,
        ),
        Case(floor_many, BenchStream(spark, many, stateless).run, rows, expected=lambda: rows),
        _ours(spark, many, tumbling_many, floor_many, (Promise(0.4, floor_many),)),
        _ours(spark, many, f"{tumbling_many}, 30 overlapping windows", tumbling_many, overlap=30),
        _figure_1(spark, seed, rows),
        *_open_windows(spark, seed, rows),
    ]


def _ours(
    spark: SparkSession,
    files: BatchFiles,
    name: str,
    floor: str,
    promises: tuple[Promise, ...] = (),
    overlap: int = 1,
    queries: int = 1,
) -> Case:
    """A stream of trendfold; its first window is compared with a batch run."""
    slide_s = max(1, files.seconds // overlap)
    line = _line(name, spark, files, _counts(slide_s * overlap, slide_s, queries))
    return Case(name, line.run, files.rows, floor, promises, answer=line.first_window, expected=line.in_batch)


def _line(name: str, spark: SparkSession, files: BatchFiles, text: str) -> BenchStream:
    _lines[name] = BenchStream(spark, files, trendfold, text)
    return _lines[name]


def _counts(within_s: int, slide_s: int, queries: int = 1) -> str:
    """COUNT(*) of SEQ(A, B+, C) by group; several queries differ in a condition."""
    return ";".join(
        f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) {f'WHERE B.x != {n}' if queries > 1 else ''} "
        f"GROUP BY g WITHIN {within_s} s SLIDE {slide_s} s"
        for n in range(queries)
    )


# ---------------------------------------------------------------- HAMLET's Figure 1

FIGURE_1 = """
RETURN T.district, COUNT(*), SUM(T.duration) PATTERN SEQ(Request R, Travel T+, NOT Pickup P)
WHERE [driver, rider] GROUP BY T.district WITHIN 30 min SLIDE 1 min;
RETURN T.district, COUNT(*), AVG(T.speed) PATTERN SEQ(Request R, Travel T+, Dropoff D)
WHERE [driver, rider] AND R.kind = 'Pool' GROUP BY T.district WITHIN 30 min SLIDE 5 min;
RETURN T.district, COUNT(*), SUM(T.duration) PATTERN SEQ(Request R, Travel T+, Cancel C)
WHERE [driver, rider] AND T.speed < 10 GROUP BY T.district WITHIN 20 min SLIDE 1 min
"""


def _figure_1(spark: SparkSession, seed: int, rows: int) -> Case:
    own = max(1_000, rows // RIDE_FILES)
    line = _line(RIDES, spark, rides(seed, own, RIDE_FILES, RIDE_MINUTES), FIGURE_1)
    return Case(RIDES, line.run, own)


RIDES = "trendfold, HAMLET's Figure 1"

# ---------------------------------------------------------------- the size of the state

FOLDED = f"trendfold, {FEW:,} groups, one long window"
RAW = f"trendfold, {FEW:,} groups, one long window, all events kept"


def _open_windows(spark: SparkSession, seed: int, rows: int) -> Iterator[Case]:
    """Windows that stay open: what a query keeps that is folded online, and one that keeps its events."""
    files = by_group(seed + 1, rows, FEW)
    day = "GROUP BY g WITHIN 1 d SLIDE 1 d"
    texts = {
        FOLDED: f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) {day}",
        RAW: f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) WHERE A.x < C.x {day}",
    }
    for name, text in texts.items():
        yield Case(name, _line(name, spark, files, text).run, rows)


def ratios(report: Report) -> dict[str, float]:
    """How much smaller the state is than the events in it, and how often an event is read from it."""
    folded, raw = _lines[FOLDED].progress, _lines[RAW].progress
    found = {
        f"state of {raw.events:,} events in a window, raw / folded": raw.state_bytes / folded.state_bytes,
        "rows read from the state per event": max(
            line.progress.read / max(1, line.progress.events)
            for name, line in _lines.items()
            if name not in (RAW, RIDES)
        ),
    }
    return found


# ---------------------------------------------------------------- Spark's own state


class _RowCounter(StatefulProcessor):
    """A counter per key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Create the state: one number."""
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Count the rows."""
        total = sum(len(frame) for frame in rows)
        kept = self.count.get()
        total += 0 if kept is None else kept[0]
        self.count.update((total,))
        yield pd.DataFrame({"g": [key[0]], "n": [total]})

    def close(self) -> None:
        """Nothing to release."""


def _per_key(stream: DataFrame, line: BenchStream) -> StreamingQuery:
    keyed = stream.groupBy("g").transformWithStateInPandas(_RowCounter(), "g int, n bigint", "update", "None")
    return collect(keyed, line, "update")
