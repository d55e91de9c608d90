"""Streams for benches: files of one micro-batch each, and streams that stay up and get one file at a time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from trendfold.api import Workload, parse
from trendfold.events.generate import StreamSettings, ridesharing
from trendfold.runtime.spark.session import session
from trendfold.runtime.spark.stream import Handle
from trendfold.runtime.spark.watch import Progress

CORES = 2
TYPES = "ABC"
"""The query uses all of them: every row must go through the state, as the baselines count every row."""
CONDITIONS = 50
"""How many queries can differ in a condition on x."""
_ROW_US = 1_000
_AT_MOST = 4
_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def spark_for_streams() -> SparkSession:
    """A session on which all lines of a bench run."""
    spark = session(f"local[{CORES}]")
    spark.conf.set("spark.sql.shuffle.partitions", str(CORES))
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STORE)
    # A batch without data only advances the watermark; here the next batch with data does.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return spark


# ---------------------------------------------------------------- files


class BatchFiles:
    """Files of one micro-batch each, consecutive in time; written before they are used."""

    def __init__(self, rows: int, tables: Iterator[pa.Table]) -> None:
        self.folder, self.rows = Path(tempfile.mkdtemp(prefix="trendfold-bench-")), rows
        self._tables, self._made = tables, 0

    def at(self, number: int) -> Path:
        """The file of a micro-batch, with two row groups so that two cores read."""
        while self._made <= number:
            path = self.folder / f"{self._made}.parquet"
            pq.write_table(next(self._tables), path, row_group_size=-(-self.rows // 2))
            self._made += 1
        return self.folder / f"{number}.parquet"

    @property
    def seconds(self) -> int:
        """The time from the first event of a file to the first of the next, where it is the same for all."""
        return self.rows * _ROW_US // 1_000_000


def by_group(seed: int, rows: int, groups: int) -> BatchFiles:
    """Events of three types, one a millisecond, in random groups."""
    return BatchFiles(rows, _group_tables(seed, rows, groups))


def _group_tables(seed: int, rows: int, groups: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(seed)
    for number in count():
        times = (np.arange(rows) + number * rows) * _ROW_US
        codes = pa.array(rng.integers(0, len(TYPES), rows, dtype=np.int32))
        yield pa.table(
            {
                "g": rng.integers(0, groups, rows, dtype=np.int32),
                "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "type": pa.DictionaryArray.from_arrays(codes, pa.array(list(TYPES))).cast(pa.string()),
                "x": rng.integers(0, CONDITIONS, rows, dtype=np.int32),
            }
        )


def rides(seed: int, rows: int, files: int, minutes: float) -> BatchFiles:
    """Some files of rides that take so many minutes together."""
    table = ridesharing(StreamSettings(events=rows * files, seed=seed, rate=rows * files / (60 * minutes)))
    return BatchFiles(rows, (table.slice(first, rows) for first in range(0, rows * files, rows)))


# ---------------------------------------------------------------- lines


class BenchStream:
    """A stream that stays up and gets one file at a time."""

    def __init__(self, spark: SparkSession, files: BatchFiles, start: Start, workload: str = "") -> None:
        self.spark, self.files, self._start = spark, files, start
        self.workload: Workload | None = parse(workload) if workload else None
        self.folder = Path(tempfile.mkdtemp(prefix="trendfold-bench-"))
        (self.folder / "in").mkdir()
        self.done = 0
        """How many files it has got."""
        self._query: StreamingQuery | None = None
        self.handle: Handle | None = None
        self.counted = 0
        """The count of a baseline in the latest micro-batch."""

    def run(self) -> int:
        """Process one more file."""
        number = self.done
        self.done += 1
        os.link(self.files.at(number), self.folder / "in" / f"{number}.parquet")
        if self._query is None:
            schema = self.spark.read.parquet(str(self.files.at(0))).schema
            reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            # Make each row group a separate split, whatever its size.
            self.spark.conf.set("spark.sql.files.maxPartitionBytes", str(_half(self.files.at(0))))
            self._query = self._start(reader.parquet(str(self.folder / "in")), self)
        self._query.processAllAvailable()
        return self.counted

    @property
    def progress(self) -> Progress:
        """The progress of a stream of trendfold."""
        assert self.handle is not None
        return self.handle.progress

    @property
    def durations_ms(self) -> dict[str, int]:
        """Where Spark says the time of the last micro-batch went."""
        assert self._query is not None
        recent: list[Any] = list(self._query.recentProgress)
        spent: list[dict[str, int]] = [told["durationMs"] for told in recent]
        return next((each for each in reversed(spent) if "addBatch" in each), {})

    def first_window(self, _: object = None) -> pa.Table:
        """The rows reported for the first window that has some, after as many files as needed."""
        for _ in range(_AT_MOST):
            for path in sorted((self.folder / "out" / "q1").glob("batch=*")):
                table = pq.read_table(path, partitioning=None)
                own = table.filter(pc.equal(table["window_start"], _EPOCH))
                if own.num_rows:
                    return _by_key(own)
            self.run()
        raise RuntimeError(f"no window was reported after {_AT_MOST} files")

    def rows_of(self, files: int) -> Callable[[object], list[pa.Table]]:
        """The rows that are reported for the first files, query by query; runs those that are missing."""

        def answer(_: object) -> list[pa.Table]:
            assert self.workload is not None
            while self.done < files:
                self.run()
            return [self._reported(query.name) for query in self.workload]

        return answer

    def _reported(self, query: str) -> pa.Table:
        paths = sorted((self.folder / "out" / query).glob("batch=*"))
        if not paths:
            return pa.table({})
        found = pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])
        return found.sort_by([(name, "ascending") for name in found.column_names])

    def in_batch(self) -> pa.Table:
        """The rows of that window from a batch run over the first file."""
        assert self.workload is not None
        found = self.workload.run(self.files.at(0), engine="local")["q1"]
        return _by_key(found.filter(pc.equal(found["window_start"], _EPOCH)))


_EPOCH = pa.scalar(0, pa.timestamp("us", "UTC"))
"""The start of the first window of `by_group`."""


def _by_key(table: pa.Table) -> pa.Table:
    return table.select(["g", "count"]).sort_by("g")


Start = Callable[[DataFrame, BenchStream], StreamingQuery]


def _half(path: Path) -> int:
    return path.stat().st_size // 2 + 4_096


# ---------------------------------------------------------------- what runs on a line


def trendfold(stream: DataFrame, line: BenchStream) -> StreamingQuery:
    """The workload of the line."""
    assert line.workload is not None
    line.handle = line.workload.start(
        stream, watermark="1 s", checkpoint=line.folder / "checkpoint", output=line.folder / "out"
    )
    return line.handle.query


def collect(frame: DataFrame, line: BenchStream, mode: str = "append") -> StreamingQuery:
    """Collect all rows, and sum the numbers in their last column."""

    def add_up(frame: DataFrame, batch: int) -> None:
        line.counted = sum(row[-1] for row in frame.collect())

    writer = frame.writeStream.outputMode(mode).foreachBatch(add_up)
    return writer.option("checkpointLocation", str(line.folder / "checkpoint")).start()


def stateless(stream: DataFrame, line: BenchStream) -> StreamingQuery:
    """Pass all rows to Python and count them there."""

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([total], pa.int64())})

    return collect(stream.mapInArrow(counted, "rows bigint"), line)
