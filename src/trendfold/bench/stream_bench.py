"""The speed of streams: micro-batches of a million rows, with few and many groups, overlaps and queries.

Baselines are measured in the same run, each as a stream over the same files: rows passed to Python and
counted, without state; and Spark's stateful operator with a counter per key. All streams stay up while they
take turns, so no line includes a start. One run of a line is one file, that is one micro-batch, which reports
the windows of the previous one. Before any is timed, the rows of the first window are compared with a batch
run, and the baselines' counts with their input.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from trendfold.api import Workload, parse
from trendfold.bench.harness import Case, Promise
from trendfold.runtime.spark.session import session

ROWS, FEW, MANY = 1_000_000, 1_000, 100_000
TYPES = "ABC"
"""The query uses all of them: every row must go through the state, as the baselines count every row."""
_CORES = 2
_ROW_US = 1_000
_AT_MOST = 4
_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
QUERIES, OVERLAPS = 50, (30, 60)


def cases(seed: int, scale: float) -> list[Case]:
    """COUNT(*) of SEQ(A, B+, C) by group; a window is as long as a micro-batch."""
    rows = max(1_000, int(ROWS * scale))
    spark = session(f"local[{_CORES}]")
    spark.conf.set("spark.sql.shuffle.partitions", str(_CORES))
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STORE)
    # A batch without data only advances the watermark; here the next batch with data does.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    root = Path(tempfile.mkdtemp(prefix="trendfold-bench-"))
    few = _Files(root / "few", seed, rows, FEW)
    many = _Files(root / "many", seed, rows, MANY)
    floor, floor_many = (f"stateless mapInArrow count, {groups:,} groups" for groups in (FEW, MANY))
    per_key = f"transformWithStateInPandas, a counter per key, {FEW:,} groups"
    tumbling = f"trendfold, {FEW:,} groups"
    return [
        Case(floor, _Line(spark, few).runner(_stateless), rows, expected=lambda: rows),
        Case(per_key, _Line(spark, few).runner(_per_key), rows, expected=lambda: rows),
        _ours(spark, few, tumbling, floor, (Promise(0.5, floor), Promise(3.0, per_key))),
        *(
            _ours(
                spark,
                few,
                f"trendfold, {FEW:,} groups, {overlap} overlapping windows",
                tumbling,
                (Promise(least, tumbling),),
                overlap=overlap,
            )
            for overlap, least in zip(OVERLAPS, (0.75, 0.65), strict=True)
        ),
        _ours(
            spark,
            few,
            f"trendfold, {FEW:,} groups, {QUERIES} queries",
            tumbling,
            (Promise(0.25, tumbling),),
            queries=QUERIES,
        ),
        Case(floor_many, _Line(spark, many).runner(_stateless), rows, expected=lambda: rows),
        _ours(spark, many, f"trendfold, {MANY:,} groups", floor_many, (Promise(0.4, floor_many),)),
    ]


def _ours(
    spark: SparkSession,
    files: _Files,
    name: str,
    floor: str,
    promises: tuple[Promise, ...],
    overlap: int = 1,
    queries: int = 1,
) -> Case:
    """A stream of trendfold; its first window is compared with a batch run."""
    line = _Line(spark, files, overlap, queries)
    return Case(
        name,
        line.runner(_trendfold),
        files.rows,
        floor,
        promises,
        answer=lambda _: line.first_window(_trendfold),
        expected=line.in_batch,
    )


class _Files:
    """Files of one micro-batch each, consecutive in time; written before they are used."""

    def __init__(self, folder: Path, seed: int, rows: int, groups: int) -> None:
        self.folder, self.rows, self.groups = folder, rows, groups
        self.rng = np.random.default_rng(seed)
        folder.mkdir(parents=True)
        self.made = 0
        self.at(11 + _AT_MOST)

    def at(self, number: int) -> Path:
        """The file of a micro-batch, with two row groups so that two cores read."""
        while self.made <= number:
            times = (np.arange(self.rows) + self.made * self.rows) * _ROW_US
            codes = pa.array(self.rng.integers(0, len(TYPES), self.rows, dtype=np.int32))
            table = pa.table(
                {
                    "g": self.rng.integers(0, self.groups, self.rows, dtype=np.int32),
                    "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
                    "type": pa.DictionaryArray.from_arrays(codes, pa.array(list(TYPES))).cast(pa.string()),
                    "x": self.rng.integers(0, QUERIES, self.rows, dtype=np.int32),
                }
            )
            pq.write_table(table, self.folder / f"{self.made}.parquet", row_group_size=-(-self.rows // 2))
            self.made += 1
        return self.folder / f"{number}.parquet"


class _Line:
    """A stream that stays up and gets one file at a time."""

    def __init__(self, spark: SparkSession, files: _Files, overlap: int = 1, queries: int = 1) -> None:
        self.spark, self.files, self.overlap, self.queries = spark, files, overlap, queries
        self.folder = Path(tempfile.mkdtemp(prefix="trendfold-bench-"))
        (self.folder / "in").mkdir()
        self.numbers = count()
        self.query: StreamingQuery | None = None
        self.counted = 0
        """The count of a baseline in the latest micro-batch."""

    @property
    def window_s(self) -> int:
        """The window length: that of a file."""
        return self.files.rows * _ROW_US // 1_000_000

    @property
    def workload(self) -> Workload:
        """COUNT(*) of SEQ(A, B+, C) by group; queries differ in a condition."""
        slide_s = max(1, self.window_s // self.overlap)
        texts = [
            f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) {f'WHERE B.x != {n}' if self.queries > 1 else ''} "
            f"GROUP BY g WITHIN {slide_s * self.overlap} s SLIDE {slide_s} s"
            for n in range(self.queries)
        ]
        return parse(";".join(texts))

    def runner(self, start: Start) -> Callable[[], int]:
        """A function that runs one file."""
        return lambda: self.run(start)

    def run(self, start: Start) -> int:
        """Process one more file."""
        number = next(self.numbers)
        os.link(self.files.at(number), self.folder / "in" / f"{number}.parquet")
        if self.query is None:
            schema = self.spark.read.parquet(str(self.files.folder)).schema
            reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            # Make each row group a separate split, whatever its size.
            self.spark.conf.set("spark.sql.files.maxPartitionBytes", str(_half(self.files.at(0))))
            self.query = start(reader.parquet(str(self.folder / "in")), self)
        assert self.query is not None
        self.query.processAllAvailable()
        return self.counted

    def first_window(self, start: Start) -> pa.Table:
        """The rows reported for the first window that a file fills, after as many files as needed."""
        for _ in range(_AT_MOST):
            for path in sorted((self.folder / "out" / "q1").glob("batch=*")):
                table = pq.read_table(path, partitioning=None)
                own = table.filter(pc.equal(table["window_start"], self.first))
                if own.num_rows:
                    return _by_group(own)
            self.run(start)
        raise RuntimeError(f"no window was reported after {_AT_MOST} files")

    def in_batch(self) -> pa.Table:
        """The rows of that window from a batch run over the first file."""
        found = self.workload.run(self.files.at(0), engine="local")["q1"]
        return _by_group(found.filter(pc.equal(found["window_start"], self.first)))

    @property
    def first(self) -> pa.Scalar:
        """The start of that window: the first event's time, 1970."""
        return pa.scalar(0, pa.timestamp("us", "UTC"))


def _by_group(table: pa.Table) -> pa.Table:
    return table.select(["g", "count"]).sort_by("g")


Start = Callable[[DataFrame, _Line], StreamingQuery]


def _half(path: Path) -> int:
    return path.stat().st_size // 2 + 4_096


def _write(frame: DataFrame, line: _Line, mode: str = "append") -> StreamingQuery:
    """Collect all rows, and sum the numbers in their last column."""

    def add_up(frame: DataFrame, batch: int) -> None:
        line.counted = sum(row[-1] for row in frame.collect())

    writer = frame.writeStream.outputMode(mode).foreachBatch(add_up)
    return writer.option("checkpointLocation", str(line.folder / "checkpoint")).start()


def _stateless(stream: DataFrame, line: _Line) -> StreamingQuery:
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([total], pa.int64())})

    return _write(stream.mapInArrow(counted, "rows bigint"), line)


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


def _per_key(stream: DataFrame, line: _Line) -> StreamingQuery:
    keyed = stream.groupBy("g").transformWithStateInPandas(_RowCounter(), "g int, n bigint", "update", "None")
    return _write(keyed, line, "update")


def _trendfold(stream: DataFrame, line: _Line) -> StreamingQuery:
    handle = line.workload.start(
        stream, watermark="1 s", checkpoint=line.folder / "checkpoint", output=line.folder / "out"
    )
    return handle.query
