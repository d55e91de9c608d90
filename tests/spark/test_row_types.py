"""Types of rows by conditions on Spark: frames, files and streams have the rows of the local engine."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from runtime.test_row_types import as_events, rows_of
from spark.agreement import agree, check, put
from spark.test_stream import Inbox, written
from trendfold.errors import InputError

pytestmark = pytest.mark.xdist_group("spark")

WORKLOAD = tf.parse("""
QUERY a RETURN COUNT(*), SUM(Fast.speed) PATTERN SEQ(Slow, Fast) WITHIN 20 s SLIDE 10 s;
QUERY b RETURN lane, COUNT(*) PATTERN SEQ(Slow, Slow x, Fast) GROUP BY lane WITHIN 20 s SLIDE 20 s
""")
TYPES = {"Slow": "speed < 10 AND lane != 'bus'", "Fast": "speed >= 10"}


def test_frames_files_and_tables(spark: SparkSession, tmp_path: Path) -> None:
    table = as_events(rows_of(random.Random(1), 400))
    for types in (TYPES, {"Slow": "speed < 10 AND 10 min > 5 min", "Fast": "TRUE"}):  # the second in Python
        check(WORKLOAD, spark.createDataFrame(table), table, type_expr=types)
    path = put(table, tmp_path / "parquet", [100, 200])
    check(WORKLOAD, path, table, type_expr=TYPES)
    check(WORKLOAD, table.drop_columns(["type"]), table, type_expr=TYPES)
    with pytest.raises(InputError, match="did you mean 'speed'"):
        WORKLOAD.run(spark.createDataFrame(table), type_expr={"Slow": "sped < 1"})
    with pytest.raises(InputError, match="did you mean 'speed'"):
        WORKLOAD.run(path, engine="spark", type_expr={"Slow": "sped < 1"})


def test_streams(spark: SparkSession, tmp_path: Path) -> None:
    table = as_events(rows_of(random.Random(2), 200))
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    inbox.put(table.slice(0, 120))
    inbox.put(table.slice(120))
    given = {"watermark": "1 s", "checkpoint": tmp_path / "c", "output": tmp_path / "out", "flush": True}
    handle = WORKLOAD.start(inbox.stream(), **given, trigger="availableNow", type_expr=TYPES)
    assert handle.await_termination()
    batch = WORKLOAD.run(table, type_expr=TYPES)
    for query in WORKLOAD:
        wanted = batch[query.name]
        agree(written(tmp_path / "out", query.name, wanted, len(query.group_by)), wanted)
    assert handle.progress.rejects == batch.summary.rejects
    manifest = json.loads((tmp_path / "c" / "workload.json").read_text(encoding="utf-8"))
    assert manifest["settings"]["type_expr"] == [list(each) for each in TYPES.items()]  # it cannot change
