"""The speed of streams: micro-batches of a million rows, with few and many groups, overlaps and queries.

Baselines are measured in the same run, each as a stream over the same files: rows passed to Python and
counted, without state; and Spark's stateful operator with a counter per key. All streams stay up while they
take turns, so no line includes a start. One run of a line is one file, that is one micro-batch, which reports
the windows of the previous one. Before any is timed, the rows of the first window are compared with a batch
run, and the baselines' counts with their input. `--parts` takes a micro-batch apart (`stream_parts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from trendfold.bench.harness import Case, Promise, Report, Verdict
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

__all__ = ["cases", "judged", "parts", "parts_notes", "ratios"]

ROWS, FEW, MANY = 1_000_000, 1_000, 100_000
OVERLAPS = {30: 0.75, 60: 0.65}
"""Overlapping windows, and the promised fraction of the speed of windows that do not overlap."""
RIDE_FILES, RIDE_MINUTES, RIDE_WINDOW = 30, 150, 7
"""HAMLET's Figure 1: a million events in 150 minutes, five minutes a file. Windows have 20 and 30 minutes,
and so are full after 7 files."""
OPEN_FILES = 3
"""How many files a window holds whose state is measured."""
ALL_KEPT = "HAVING 2 * COUNT(*) > 0"
"""Always true. But doubles do not decide it, so events are kept and folded when their windows end."""

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
    kept_many = f"{tumbling_many}, all events kept"
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
        _ours(spark, many, kept_many, floor_many, more=ALL_KEPT),
        _ours(spark, many, tumbling_many, floor_many, (Promise(0.4, floor_many), Promise(0.9, kept_many))),
        _ours(spark, many, f"{tumbling_many}, 30 overlapping windows", tumbling_many, overlap=30),
        *_figure_1(spark, seed, rows),
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
    more: str = "",
) -> Case:
    """A stream of trendfold; its first window is compared with a batch run."""
    slide_s = max(1, files.seconds // overlap)
    line = _line(name, spark, files, _counts(slide_s * overlap, slide_s, queries, more))
    return Case(name, line.run, files.rows, floor, promises, answer=line.first_window, expected=line.in_batch)


def _line(name: str, spark: SparkSession, files: BatchFiles, text: str) -> BenchStream:
    _lines[name] = BenchStream(spark, files, trendfold, text)
    return _lines[name]


def _counts(within_s: int, slide_s: int, queries: int = 1, more: str = "") -> str:
    """COUNT(*) of SEQ(A, B+, C) by group; several queries differ in a condition."""
    return ";".join(
        f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) {f'WHERE B.x != {n}' if queries > 1 else ''} "
        f"GROUP BY g {more} WITHIN {within_s} s SLIDE {slide_s} s"
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


def _figure_1(spark: SparkSession, seed: int, rows: int) -> Iterator[Case]:
    """The rows of both lines are compared, too."""
    own = max(1_000, rows // RIDE_FILES)
    files = rides(seed, own, RIDE_FILES, RIDE_MINUTES)
    texts = {RIDES_KEPT: FIGURE_1.replace("WITHIN", f"{ALL_KEPT} WITHIN"), RIDES: FIGURE_1}
    for name, text in texts.items():
        line = _line(name, spark, files, text)
        promises = (Promise(2.0, RIDES_KEPT),) if name == RIDES else ()
        yield Case(name, line.run, own, promises=promises, like="Figure 1", answer=line.rows_of(RIDE_WINDOW))


RIDES = "trendfold, HAMLET's Figure 1"
RIDES_KEPT = f"{RIDES}, all events kept"

# ---------------------------------------------------------------- the size of the state

FOLDED = f"trendfold, {FEW:,} groups, one long window"
RAW = f"{FOLDED}, all events kept"
SMALLER, READ = 20, 2
"""Vectors are so many times smaller than events, and an event is read from the state at most twice."""


def _open_windows(spark: SparkSession, seed: int, rows: int) -> Iterator[Case]:
    """Windows that stay open: what a query keeps that is folded online, and one that keeps its events."""
    files = by_group(seed + 1, rows, FEW)
    for name, more in {RAW: ALL_KEPT, FOLDED: ""}.items():
        text = f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY g {more} WITHIN 1 d SLIDE 1 d"
        line = _line(name, spark, files, text)
        yield Case(name, line.run, rows, like="one long window", answer=line.rows_of(OPEN_FILES))


def ratios(report: Report) -> dict[str, float]:
    """How much smaller the state is than the events in it, and how often an event is read from it."""
    folded, raw = _lines[FOLDED].progress, _lines[RAW].progress
    per_event = raw.state_bytes / raw.events
    return {
        f"state of {raw.events:,} events in a window, raw / folded": (
            per_event * folded.events / folded.state_bytes
        ),
        "rows read from the state per event": max(_reads().values()),
    }


def _reads() -> dict[str, float]:
    """Rows that were read from the state per event, of the lines that fold events by the million online."""
    lines = ((name, line.progress) for name, line in _lines.items())
    return {
        name: progress.read / progress.events
        for name, progress in lines
        if not progress.raw and progress.events and name != RIDES
    }


def judged(report: Report) -> Report:
    """Add the promises about the size of the state and what is read from it."""
    smaller, _ = ratios(report).values()
    found = {
        name: [Verdict(Promise(1 / READ, "an event per row read"), 1 / max(reads, 1e-9))]
        for name, reads in _reads().items()
    }
    found.setdefault(FOLDED, []).append(Verdict(Promise(SMALLER, "a state of all events"), smaller))
    lines = (
        replace(line, verdicts=(*line.verdicts, *found.get(line.name, ()))) for line in report.measurements
    )
    return replace(report, measurements=tuple(lines))


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
