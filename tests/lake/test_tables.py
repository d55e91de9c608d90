"""Delta and Iceberg tables as the source and the sink of a stream."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import trendfold as tf
from trendfold.errors import InputError
from trendfold.events.text_files import CsvOptions
from trendfold.runtime.spark.sinks import open_sink
from trendfold.runtime.spark.stream_sources import open_stream

pytestmark = pytest.mark.filterwarnings("default")  # PySpark's own are not ours to fix

QUERY = "QUERY pairs RETURN g, COUNT(*) PATTERN SEQ(A, B+) GROUP BY g WITHIN 10 s SLIDE 5 s"
FORMATS = {"delta": "", "iceberg": "ice.db."}
"""The formats, and the catalog in which their tables are."""


def events(first: int, count: int) -> pa.Table:
    """An event a second, in turn an A and a B, of three groups."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "type": ["AB"[i % 2] for i in numbers],
            "ts": pa.array([i * 1_000_000 for i in numbers], pa.timestamp("us", "UTC")),
            "g": [i // 2 % 3 for i in numbers],
        }
    )


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    found = frame.drop("batch").toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["window_start"], row["g"]))


def answer(lake: SparkSession, source: str, output: str, form: str, folder: Path, **more: Any) -> None:
    handle = tf.parse(QUERY).start(
        open_stream(lake, source, CsvOptions()),
        watermark="2 s",
        checkpoint=folder / "checkpoint",
        output=output,
        format=form,
        trigger="availableNow",
        **more,
    )
    handle.await_termination()


@pytest.mark.parametrize("form", FORMATS)
def test_a_stream_from_table_to_table_has_the_rows_of_batch(
    lake: SparkSession, tmp_path: Path, form: str
) -> None:
    number = time.time_ns()
    given, kept = f"{FORMATS[form]}events_{number}", f"{FORMATS[form]}rows_{number}"
    for first in (0, 60):  # between the two, the stream is stopped and started
        frame = lake.createDataFrame(events(first, 60))
        if first:
            frame.write.insertInto(given)
        else:
            frame.write.format(form).saveAsTable(given)
        answer(lake, f"table:{given}", f"table:{kept}", form, tmp_path, flush=first == 60)
    expected = tf.parse(QUERY).run(events(0, 120), engine="local")["pairs"].to_pylist()
    assert rows_of(lake.table(f"{kept}_pairs")) == sorted(
        expected, key=lambda row: (row["window_start"], row["g"])
    )
    # Another stream can read the rows: they were appended.
    read: list[int] = []
    again = lake.readStream.table(f"{kept}_pairs").writeStream.trigger(availableNow=True)
    again = again.foreachBatch(lambda frame, batch: read.append(frame.count()))
    again.option("checkpointLocation", str(tmp_path / "again")).start().awaitTermination()
    assert sum(read) == len(expected)


@pytest.mark.parametrize("form", FORMATS)
def test_a_batch_that_is_rerun_replaces_its_rows(lake: SparkSession, form: str) -> None:
    kept = f"{FORMATS[form]}rerun_{time.time_ns()}"
    sink = open_sink(f"table:{kept}", form)
    rows = pa.table({"window_start": pa.array([1, 2], pa.timestamp("us", "UTC")), "count": [1.0, 2.0]})
    for batch, part, is_again in ((0, rows, False), (1, rows, True), (1, rows.slice(1), True)):
        sink.write(lake, batch, {"one": part}, is_again)
    found = lake.table(f"{kept}_one").select("batch", "count").collect()
    assert sorted(tuple(row) for row in found) == [(0, 1.0), (0, 2.0), (1, 2.0)]


def test_a_folder_of_delta_is_a_source(lake: SparkSession, tmp_path: Path) -> None:
    lake.createDataFrame(events(0, 60)).write.format("delta").save(str(tmp_path / "in"))
    source = f"delta:{tmp_path / 'in'}"
    answer(lake, source, str(tmp_path / "out"), "parquet", tmp_path, flush=True)
    expected = tf.parse(QUERY).run(events(0, 60), engine="local")["pairs"]
    assert lake.read.parquet(str(tmp_path / "out" / "pairs")).count() == expected.num_rows


def test_a_table_that_is_not_there_is_named(lake: SparkSession) -> None:
    with pytest.raises(InputError, match="cannot read 'table:nowhere' as a stream"):
        open_stream(lake, "table:nowhere", CsvOptions())
