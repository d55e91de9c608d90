"""The speed on Spark: sorted and unsorted Parquet files, many queries, DataFrames, and one giant group.

Baselines are measured in the same run: one process that reads and folds the same files without Spark, and
Spark passing the same rows to Python, which does nothing with them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from trendfold.api import Workload, parse
from trendfold.bench.hand_written import read_and_fold
from trendfold.bench.harness import Case, Promise
from trendfold.runtime.spark.session import session

EVENTS, FILES, GROUPS, QUERIES = 20_000_000, 8, 1_000, 50
TYPES = "ABCDEFGHIJ"
_WINDOW = 1_000_000_000
Counts = list[NDArray[np.float64]]
_CORES = 2
_ONE_PROCESS = "one process, pyarrow read and fold"
_BY_GROUP = "counts by window and group"
_ALONE = "counts by window"
_BARE_MAP = "DataFrame, bare mapInArrow count"
_BARE_SHUFFLE = "bare repartition and mapInArrow count"
_ONE_CORE = "one giant group in no order, one core"


def cases(seed: int, scale: float) -> list[Case]:
    """COUNT(*) of SEQ(A, B+, C) by group, over the same rows in different layouts."""
    events = max(FILES, int(EVENTS * scale))
    folder = Path(tempfile.mkdtemp(prefix="trendfold-bench-"))
    ordered, shuffled = _write(folder, seed, events)
    spark = session(f"local[{_CORES}]")
    frame = spark.read.parquet(str(ordered))
    moved = spark.read.parquet(str(shuffled))
    one, many, alone, small = _grouped(), _many(), _alone(), _grouped(3)
    single = _Elsewhere(f"local[{_CORES // 2}]", shuffled)
    return [
        Case(
            _ONE_PROCESS,
            partial(read_and_fold, ordered, GROUPS, _WINDOW, ("A", "B", "C")),
            events,
            like=_BY_GROUP,
            answer=_all_of,
        ),
        Case(
            "ordered files",
            _on_spark(one, str(ordered)),
            events,
            _ONE_PROCESS,
            (Promise(10e6), Promise(0.45, _ONE_PROCESS)),
            _BY_GROUP,
            partial(_counts, one, str(ordered)),
        ),
        Case(
            f"ordered files, {QUERIES} queries",
            _on_spark(many, str(ordered)),
            events,
            promises=(Promise(4e6),),
            answer=partial(_counts, many, str(ordered)),
            expected=partial(_locally, many, str(ordered)),
        ),
        Case(
            "ordered files, about one event per group and window",
            _on_spark(small, str(ordered)),
            events,
            promises=(Promise(6e6),),
            answer=partial(_counts, small, str(ordered)),
            expected=partial(_locally, small, str(ordered)),
        ),
        Case(_BARE_SHUFFLE, partial(_count, moved.repartition("g")), events, expected=lambda: events),
        Case(
            "disordered files",
            _on_spark(one, str(shuffled)),
            events,
            _BARE_SHUFFLE,
            (Promise(2e6), Promise(0.6, _BARE_SHUFFLE)),
            _BY_GROUP,
            partial(_counts, one, str(shuffled)),
        ),
        Case(_BARE_MAP, partial(_count, frame), events, expected=lambda: events),
        Case(
            "ordered DataFrame",
            _on_spark(one, frame),
            events,
            _BARE_MAP,
            (Promise(0.55, _BARE_MAP),),
            _BY_GROUP,
            partial(_counts, one, frame),
        ),
        Case(_ONE_CORE, single.run, events, like=_ALONE, answer=single.counts),
        Case(
            "one giant group in no order, two cores",
            _on_spark(alone, str(shuffled)),
            events,
            _ONE_CORE,
            (Promise(1.6, _ONE_CORE),),
            _ALONE,
            partial(_counts, alone, str(shuffled)),
            partial(_locally, alone, str(ordered)),
        ),
    ]


def _grouped(seconds: int = 1_000) -> Workload:
    """Three of ten types count: in a window of 3 s a group has 0.9 events."""
    return parse(f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY g WITHIN {seconds} s SLIDE {seconds} s")


def _alone() -> Workload:
    """A query whose counts have many thousand bits."""
    return parse("RETURN COUNT(*), LOG2(COUNT(*)) PATTERN SEQ(A, B+, C) WITHIN 1000 s SLIDE 1000 s")


def _many() -> Workload:
    """Queries over three of the ten types each."""
    chosen = list(permutations(TYPES, 3))[:: len(TYPES) * 9 * 8 // QUERIES][:QUERIES]
    texts = [
        f"QUERY q{i} RETURN COUNT(*) PATTERN SEQ({a}, {b}+, {c}) GROUP BY g WITHIN 1000 s SLIDE 1000 s"
        for i, (a, b, c) in enumerate(chosen)
    ]
    return parse(";\n".join(texts))


def _on_spark(workload: Workload, data: str | DataFrame) -> Callable[[], None]:
    def run() -> None:
        workload.run(data, engine="spark").unpersist()

    return run


def _counts(workload: Workload, data: str | DataFrame, _: object = None) -> Counts:
    """The answer: the counts of each query by window and group, in order."""
    result = workload.run(data, engine="spark")
    found = [_last_column(result[name].toArrow()) for name in result]
    result.unpersist()
    return found


def _locally(workload: Workload, data: str) -> Counts:
    """The same run without Spark."""
    result = workload.run(data, engine="local")
    return [_last_column(result[name]) for name in result]


def _last_column(table: pa.Table) -> NDArray[np.float64]:
    """Counts, or their logarithms if the query returns those."""
    keys = [(name, "ascending") for name in ("window_start", "g") if name in table.column_names]
    return np.asarray(table.sort_by(keys).columns[-1])


def _all_of(found: NDArray[np.float64]) -> Counts:
    """The same for the hand-written baseline: counts by window and group."""
    return [found[found > 0]]


def _count(frame: DataFrame) -> int:
    """Pass all rows to Python, and only count them."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([total], pa.int64())})

    return sum(row.rows for row in frame.mapInArrow(count, "rows bigint").collect())


def _write(folder: Path, seed: int, events: int) -> tuple[Path, Path]:
    """Write one event per millisecond, to files in time order, and to files in random order."""
    rng = np.random.default_rng(seed)
    codes = pa.array(rng.integers(0, len(TYPES), events, dtype=np.int32))
    columns = {
        "g": rng.integers(0, GROUPS, events, dtype=np.int32),
        "ts": pa.array(np.arange(events) * 1_000).cast(pa.timestamp("us", "UTC")),
        "type": pa.DictionaryArray.from_arrays(codes, pa.array(list(TYPES))).cast(pa.string()),
        "x": rng.random(events),
    }
    table = pa.table(columns)
    for name, rows in (("ordered", table), ("shuffled", table.take(pa.array(rng.permutation(events))))):
        (folder / name).mkdir()
        for i in range(FILES):
            low, high = events * i // FILES, events * (i + 1) // FILES
            pq.write_table(rows.slice(low, high - low), folder / name / f"part-{i}.parquet")
    return folder / "ordered", folder / "shuffled"


class _Elsewhere:
    """The giant group in another process, on a Spark with fewer cores; runs on request."""

    def __init__(self, master: str, data: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trendfold.bench.spark_bench", master, str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self) -> None:
        """Run once in that process."""
        self._ask("run")

    def counts(self, _: object) -> Counts:
        """The answer of that process."""
        return [np.array(each) for each in self._ask("counts")]

    def _ask(self, what: str) -> list[list[float]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        if not told:
            raise RuntimeError("the process with one core ended early")
        answer: list[list[float]] = json.loads(told)
        return answer


def _serve(master: str, data: str) -> None:
    """Answer each request line with a line: [] after a run, or the counts."""
    # Otherwise Java's threads, and Python next to Java, would use other cores too.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: _CORES // 2])
    spark: SparkSession = session(master)
    workload = _alone()
    run = _on_spark(workload, data)
    for line in sys.stdin:
        found: Counts = []
        if line.strip() == "counts":
            found = _counts(workload, data)
        else:
            run()
        print(json.dumps([each.tolist() for each in found]), flush=True)
    spark.stop()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
