"""How fast a stream is answered: micro-batches of a million rows, at few groups and at many.

Floors are measured in the same run, each a stream of its own over the same files: rows handed to Python and
counted, without state; and Spark's stateful operator with a counter per key. All streams stay up while they
take turns, so no line pays for a start. A line's run is one file: one micro-batch, in which the windows of
the one before are reported.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from trendfold.api import parse
from trendfold.bench.harness import Case, Promise
from trendfold.runtime.spark.session import session

ROWS, FEW, MANY = 1_000_000, 1_000, 100_000
TYPES = "ABC"
"""All of them asked for: every row must go through the state, as the floors count every row."""
_CORES = 2
_ROW_US = 1_000
_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
QUERY = "RETURN COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY g WITHIN {0} s SLIDE {0} s"


def cases(seed: int, scale: float) -> list[Case]:
    """COUNT(*) of SEQ(A, B+, C) by group; a window is as long as a micro-batch."""
    rows = max(1_000, int(ROWS * scale))
    spark = session(f"local[{_CORES}]")
    spark.conf.set("spark.sql.shuffle.partitions", str(_CORES))
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STORE)
    # A batch without data only moves the watermark on; here the next one with data does.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    root = Path(tempfile.mkdtemp(prefix="trendfold-bench-"))
    few = _Files(root / "few", seed, rows, FEW)
    many = _Files(root / "many", seed, rows, MANY)
    counted, counted_many, keyed = (_Line(spark, few), _Line(spark, many), _Line(spark, few))
    ours, ours_many = _Line(spark, few), _Line(spark, many)
    stateless = f"stateless mapInArrow count, {FEW:,} groups"
    stateless_many = f"stateless mapInArrow count, {MANY:,} groups"
    per_key = f"transformWithStateInPandas, a counter per key, {FEW:,} groups"
    return [
        Case(stateless, lambda: counted.run(_stateless), rows),
        Case(per_key, lambda: keyed.run(_per_key), rows),
        Case(
            f"trendfold, {FEW:,} groups",
            lambda: ours.run(_trendfold),
            rows,
            stateless,
            (Promise(0.25, stateless), Promise(3.0, per_key)),
        ),
        Case(stateless_many, lambda: counted_many.run(_stateless), rows),
        Case(
            f"trendfold, {MANY:,} groups",
            lambda: ours_many.run(_trendfold),
            rows,
            stateless_many,
            (Promise(0.2, stateless_many),),
        ),
    ]


class _Files:
    """Files of one micro-batch each, that follow each other in time; written before they are asked for."""

    def __init__(self, folder: Path, seed: int, rows: int, groups: int) -> None:
        self.folder, self.rows, self.groups = folder, rows, groups
        self.rng = np.random.default_rng(seed)
        folder.mkdir(parents=True)
        self.made = 0
        self.at(11)

    def at(self, number: int) -> Path:
        """The file of a micro-batch. Two row groups, so that both cores read."""
        while self.made <= number:
            times = (np.arange(self.rows) + self.made * self.rows) * _ROW_US
            codes = pa.array(self.rng.integers(0, len(TYPES), self.rows, dtype=np.int32))
            table = pa.table(
                {
                    "g": self.rng.integers(0, self.groups, self.rows, dtype=np.int32),
                    "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
                    "type": pa.DictionaryArray.from_arrays(codes, pa.array(list(TYPES))).cast(pa.string()),
                }
            )
            pq.write_table(table, self.folder / f"{self.made}.parquet", row_group_size=-(-self.rows // 2))
            self.made += 1
        return self.folder / f"{number}.parquet"


class _Line:
    """A stream that stays up, fed with one file at a time."""

    def __init__(self, spark: SparkSession, files: _Files) -> None:
        self.spark, self.files = spark, files
        self.folder = Path(tempfile.mkdtemp(prefix="trendfold-bench-"))
        (self.folder / "in").mkdir()
        self.numbers = count()
        self.query: StreamingQuery | None = None

    def run(self, start: Any) -> None:
        """One more file."""
        number = next(self.numbers)
        os.link(self.files.at(number), self.folder / "in" / f"{number}.parquet")
        if self.query is None:
            schema = self.spark.read.parquet(str(self.files.folder)).schema
            reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
            # Both row groups are a split of their own, whatever their size.
            self.spark.conf.set("spark.sql.files.maxPartitionBytes", str(_half(self.files.at(0))))
            window = self.files.rows * _ROW_US // 1_000_000
            self.query = start(reader.parquet(str(self.folder / "in")), self.folder, window)
        assert self.query is not None
        self.query.processAllAvailable()


def _half(path: Path) -> int:
    return path.stat().st_size // 2 + 4_096


def _discard(frame: DataFrame, batch: int) -> None:
    frame.collect()


def _write(frame: DataFrame, folder: Path, mode: str = "append") -> StreamingQuery:
    writer = frame.writeStream.outputMode(mode).foreachBatch(_discard)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _stateless(stream: DataFrame, folder: Path, window_s: int) -> StreamingQuery:
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([total], pa.int64())})

    return _write(stream.mapInArrow(counted, "rows bigint"), folder)


class _Counter(StatefulProcessor):
    """A counter per key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """One number."""
        self.count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Add the rows up."""
        total = sum(len(frame) for frame in rows)
        kept = self.count.get()
        total += 0 if kept is None else kept[0]
        self.count.update((total,))
        yield pd.DataFrame({"g": [key[0]], "n": [total]})

    def close(self) -> None:
        """Nothing is held."""


def _per_key(stream: DataFrame, folder: Path, window_s: int) -> StreamingQuery:
    keyed = stream.groupBy("g").transformWithStateInPandas(_Counter(), "g int, n bigint", "update", "None")
    return _write(keyed, folder, "update")


def _trendfold(stream: DataFrame, folder: Path, window_s: int) -> StreamingQuery:
    handle = parse(QUERY.format(window_s)).start(
        stream, watermark="1 s", checkpoint=folder / "checkpoint", output=folder / "out"
    )
    return handle.query
