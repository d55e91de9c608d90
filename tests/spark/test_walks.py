"""The driver's walk of docs/architecture.md, on real Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import trendfold as tf
from walks import astray, calls_of, walks


def test_the_walk_of_the_driver_is_that_of_the_code(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"type": list("ABCABBCB") * 5, "ts": range(40)}), path)
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 8 s SLIDE 8 s")
    calls = calls_of(lambda: workload.run(str(path), engine="spark"))
    assert astray(walks()["Spark: the driver"], calls) == []


def test_what_ran_in_tasks_reaches_the_result(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"type": list("ABCABBCB") * 5, "ts": range(40)}), path)
    text = (
        "RETURN COUNT(*) PATTERN SEQ(A, B+, C); RETURN COUNT(*) PATTERN A+ WHERE A.ts > 3 HAVING COUNT(*) > 1"
    )
    result = tf.parse(text).run(str(path), engine="spark")
    assert {name for step in result.plan for name in step.queries} == {"q1", "q2"}
    assert all(step.rows >= 0 and step.seconds > 0 for step in result.plan)
    assert {type(step.way).__name__ for step in result.plan.of("q1")} == {"Matrices", "Products"}
    assert "q2: " in str(result.plan)
