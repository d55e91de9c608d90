"""What fails in a task of a real Spark, and how it is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from trendfold.cli.spark_engine import readable


def out_of_python_memory(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    raise MemoryError


def out_of_arrow_memory(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    pa.allocate_buffer(1 << 60)
    yield from batches


def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield from batches


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (out_of_python_memory, "a Spark task ran out of memory; run fewer tasks at once"),
        (out_of_arrow_memory, "a Spark task ran out of memory; run fewer tasks at once"),
        (killed, "a Python worker of Spark died, usually because it ran out of memory"),
    ],
)
def test_want_of_memory_in_a_task_is_told_as_such(spark: SparkSession, task: object, message: str) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's own, of several classes
        spark.range(0, 1, 1, 1).mapInArrow(task, "id bigint").collect()
    told = readable(raised.value)
    assert told is not None
    assert str(told).startswith(message)
    assert told.exit_code == 1
