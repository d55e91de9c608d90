"""Matches on Spark are the local engine's: by partition, or in parts of the time that overlap by a window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from spark.agreement import put
from trendfold.runtime.spark.blobs import Content

pytestmark = pytest.mark.xdist_group("spark")

BY_KEY, OVERLAPPING = "by partition", "overlapping in time"
WORKLOAD = """
QUERY keyed RETURN MATCHES(v) PATTERN SEQ(A a, B b+, NOT N, C c) WHERE [k] AND a.v < c.v WITHIN 40 s;
QUERY grouped RETURN MATCHES PATTERN SEQ(A, B) WHERE A.v = B.v GROUP BY k WITHIN 9 events;
QUERY cut RETURN MATCHES(k) PATTERN SEQ(NOT N, A a, AND(B b, C c), A z, NOT M) WHERE a.v < b.v WITHIN 12 s;
QUERY beside RETURN MATCHES(v) PATTERN SEQ(A a, NOT N n, NOT M m, B b)
    WHERE [k] AND n.v >= a.v AND n.v < b.v AND m.v = a.v WITHIN 50 s;
QUERY both RETURN MATCHES(v) PATTERN SEQ(AND(A a, B b), NOT N n, C c)
    WHERE n.v = c.v AND n.v <= a.v AND a.v < b.v WITHIN 8 s;
QUERY nearest RETURN MATCHES PATTERN SEQ(A a+, B) SEMANTICS next WHERE a.v <= NEXT(a).v WITHIN 9 s;
QUERY count RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s
"""


def events(count: int = 600) -> pa.Table:
    rng = np.random.default_rng(5)
    types = rng.choice(list("AABBCCNMX"), count)
    time = np.sort(rng.integers(0, count, count))
    return pa.table(
        {
            "type": [None if i % 97 == 0 else kind for i, kind in enumerate(types.tolist())],
            "ts": time,
            "seq": np.arange(count),
            "k": rng.integers(0, 12, count),
            "v": rng.integers(0, 5, count),
            "id": [f"e{i}" for i in range(count)],
        }
    )


def rows(table: pa.Table) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in table.to_pylist())


def check(data: Any, table: pa.Table) -> tf.Workload:
    workload = tf.parse(WORKLOAD)
    options = {"id_column": "id", "order_column": "seq"}
    there = workload.run(data, engine="spark", **options)
    here = workload.run(table, engine="local", **options)
    for query in workload:
        found = there[query.name].toArrow()
        assert found.num_rows == there.summary.rows[query.name]
        assert found.column_names == here[query.name].column_names
        assert rows(found) == rows(here[query.name]), query.name
        assert len(found), query.name
    assert there.summary.rejects == here.summary.rejects > 0
    ways = there.summary.routes
    assert (ways["keyed"], ways["grouped"]) == (BY_KEY, BY_KEY)
    assert (ways["cut"], ways["nearest"]) == (OVERLAPPING, OVERLAPPING)
    assert (ways["beside"], ways["both"]) == (BY_KEY, OVERLAPPING)
    return workload


def test_matches_over_a_frame(spark: SparkSession) -> None:
    table = events()
    check(spark.createDataFrame(table).repartition(3), table)


@pytest.mark.slow
def test_matches_over_files(spark: SparkSession, tmp_path: Path) -> None:
    table = events()
    check(put(table, tmp_path / "events", [200, 350]), table)


def test_without_an_id_column_events_have_none_and_limit_is_kept(spark: SparkSession) -> None:
    frame = spark.createDataFrame(events(200))
    query = tf.parse("RETURN MATCHES PATTERN SEQ(A, B) WHERE A.v < B.v WITHIN 9 s LIMIT 7")
    result = query.run(frame, order_column="seq")
    found = result["q1"].toArrow().to_pylist()
    assert len(found) == result.summary.rows["q1"] == 7
    assert set(found[0]["A"][0]) == {"time"}


@pytest.mark.slow
def test_without_a_key_and_a_window_of_time_one_task_finds_all_and_the_summary_says_so(
    spark: SparkSession,
) -> None:
    frame = spark.createDataFrame(events(60))
    result = tf.parse("RETURN MATCHES PATTERN SEQ(A, B) WHERE A.v < B.v").run(frame, order_column="seq")
    assert result.summary.routes["q1"] == "in one task"
    assert "spark: in one task" in str(result.summary)


@pytest.mark.slow
def test_too_many_matches_of_all_tasks_together_are_an_error(spark: SparkSession) -> None:
    frame = spark.createDataFrame(events(200))
    query = tf.parse("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 9 s")
    with pytest.raises(tf.TrendfoldError, match="over limits matches=40"):
        query.run(frame, order_column="seq", limits={"matches": 40})


@pytest.mark.slow
def test_limit_and_the_limit_of_matches_are_as_locally(spark: SparkSession) -> None:
    table = events(400)
    frame = spark.createDataFrame(table)
    for text in (
        "RETURN MATCHES PATTERN SEQ(A, B) WHERE A.v < B.v WITHIN 9 s",
        "RETURN MATCHES PATTERN SEQ(A, B+, C) WHERE [k] WITHIN 80 s",
    ):
        total = len(tf.parse(text).run(table, order_column="seq")["q1"])
        assert total > 20
        for limit in (total // 2, total + 5):
            there = tf.parse(f"{text} LIMIT {limit}").run(frame, order_column="seq")
            assert there.summary.rows["q1"] == there["q1"].count() == min(limit, total)
            there.unpersist()
        for limited in (text, f"{text} LIMIT {total}"):
            told = []
            for data in (frame, table):
                with pytest.raises(tf.TrendfoldError) as caught:
                    tf.parse(limited).run(data, order_column="seq", limits={"matches": total // 2})
                told.append(str(caught.value))
            assert told[0] == told[1]


def test_tasks_find_no_more_than_limit(spark: SparkSession) -> None:
    frame = spark.createDataFrame(events(400))
    query = tf.parse("RETURN MATCHES PATTERN SEQ(A, B) WHERE A.v < B.v WITHIN 9 s LIMIT 3")
    result = query.run(frame, order_column="seq")
    assert result.summary.routes["q1"] == OVERLAPPING
    found = result.kept.filter(f"content = {int(Content.RESULT)}").select("rows").toArrow()
    assert 0 < max(found.column("rows").to_pylist()) <= 3
