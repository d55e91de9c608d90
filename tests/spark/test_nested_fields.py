"""Fields of structs on Spark: frames, files and streams have the rows of the local engine."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from events.test_fields import WORKLOAD, events
from spark.agreement import agree, check, put
from spark.test_stream import Inbox, written
from trendfold.errors import QueryError
from trendfold.runtime.spark.source import with_field_columns

pytestmark = pytest.mark.xdist_group("spark")


def test_frames_files_and_streams(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.Table.from_pylist(events())
    check(WORKLOAD, spark.createDataFrame(table), table)
    check(WORKLOAD, put(table, tmp_path / "parquet", [100]), table)
    check(WORKLOAD, table, table)
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    inbox.put(table.slice(0, 120))
    inbox.put(table.slice(120))
    given = {"watermark": "1 s", "checkpoint": tmp_path / "c", "output": tmp_path / "out", "flush": True}
    handle = WORKLOAD.start(inbox.stream(), **given, trigger="availableNow")
    assert handle.await_termination()
    for query in WORKLOAD:
        wanted = WORKLOAD.run(table)[query.name]
        agree(written(tmp_path / "out", query.name, wanted, len(query.group_by)), wanted)


def test_only_needed_fields_leave_the_source(spark: SparkSession, tmp_path: Path) -> None:
    path = put(pa.Table.from_pylist(events()), tmp_path / "parquet", [100])
    frame = with_field_columns(spark.read.parquet(str(path)), {"type", "place.city"})
    assert frame.columns == ["type", "ts", "place", "user", "place.city"]
    needed = frame.select("type", "`place.city`").where("`place.city` = 'x'")
    assert "ReadSchema: struct<type:string,place:struct<city:string>>" in explained(needed)
    with pytest.raises(QueryError, match=r"did you mean 'place\.city'"):
        tf.parse("RETURN COUNT(*) PATTERN A WHERE A.place.cty = 'x'").run(frame)


def explained(frame: object) -> str:
    """The physical plan of a DataFrame, as it prints it."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        frame.explain("formatted")  # type: ignore[attr-defined]
    return text.getvalue()
