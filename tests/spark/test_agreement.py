"""Spark and the local engine give equal answers: random workloads, and every arrangement of larger data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import trendfold as tf
from spark.agreement import check, many_cases, put
from trendfold.runtime.spark import engine
from trendfold.runtime.spark.session import is_remote

pytestmark = pytest.mark.xdist_group("spark")


def slow(value: float) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)


STRETCHES, PARTITION, TIME = "stretches", "by partition", "split in time"


# ---------------------------------------------------------------- random workloads


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_random_workloads_over_files_in_order(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    workload, table = many_cases(seed, 25)
    ordered = table.sort_by("ts")
    cuts = sorted(np.random.default_rng(seed).integers(0, table.num_rows, 5).tolist())
    check(workload, put(ordered, tmp_path / "events", cuts), table, views=False)


@pytest.mark.parametrize("seed", [slow(3), slow(4), slow(5)])
def test_random_workloads_over_a_frame(spark: SparkSession, seed: int) -> None:
    workload, table = many_cases(seed, 25)
    check(workload, spark.createDataFrame(table).repartition(5), table, views=False)


@pytest.mark.parametrize("seed", [slow(6), slow(7)])
def test_random_workloads_with_an_order_column(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    workload, table = many_cases(seed, 25)
    shuffled = table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))
    path = put(shuffled, tmp_path / "events", [table.num_rows // 3, table.num_rows // 2])
    check(workload, path, shuffled, views=False, order_column="seq")


@pytest.mark.parametrize("seed", [8, slow(9)])
def test_random_workloads_of_bounded_trends(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    workload, table = many_cases(seed, 12, spans=True)
    ordered = table.sort_by("ts")
    cuts = sorted(np.random.default_rng(seed).integers(0, table.num_rows, 3).tolist())
    check(workload, put(ordered, tmp_path / "events", cuts), table, views=False)


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["exact", "integer"])
def test_random_workloads_in_whole_numbers(spark: SparkSession, arithmetic: str) -> None:
    workload, table = many_cases(9, 8)
    check(workload, spark.createDataFrame(table), table, views=False, arithmetic=arithmetic)


# ---------------------------------------------------------------- arrangements


def stream(events: int = 60_000, groups: int = 50, seed: int = 1, start: str = "2024-03-01") -> pa.Table:
    """Events every few milliseconds, some at the same time, in order."""
    rng = np.random.default_rng(seed)
    micros = np.cumsum(rng.integers(0, 20_000, events)) + np.datetime64(start, "us").astype(np.int64)
    return pa.table(
        {
            "type": pa.array(rng.choice(["A", "B", "C", "D"], events)),
            "ts": pa.array(micros).cast(pa.timestamp("us", "UTC")),
            "g": rng.integers(0, groups, events),
            "h": pa.array(rng.choice(["x", "y", "z"], events)),
            "v": rng.integers(0, 100, events),
            "x": rng.random(events),
        }
    )


WORKLOAD = tf.parse("""
QUERY grouped RETURN g, COUNT(*), SUM(B.v), MIN(B.x), MAX(B.x), AVG(B.x)
PATTERN SEQ(A, B+, C) WHERE B.v > 50 GROUP BY g WITHIN 60 s SLIDE 30 s;

QUERY whole RETURN COUNT(*), LOG2(COUNT(*)) PATTERN SEQ(A, B+, NOT D, C) WHERE [g];

QUERY unspent RETURN h, COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS next GROUP BY h WITHIN 100 s SLIDE 100 s;

QUERY adjacent RETURN g, COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS contiguous WHERE [g, h]
GROUP BY g WITHIN 100 s SLIDE 100 s;

QUERY rising RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE [g] AND B.v < NEXT(B).v WITHIN 20 s SLIDE 20 s;

QUERY frequent RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g HAVING COUNT(*) > 20 WITHIN 60 s SLIDE 60 s;

QUERY of_b RETURN B.h, COUNT(*) PATTERN SEQ(A, B+, C) WHERE [g] GROUP BY B.h WITHIN 20 s SLIDE 10 s
""")
LINEAR = tf.parse("RETURN COUNT(*), SUM(B.v) PATTERN SEQ(A, B+, C) WITHIN 60 s SLIDE 30 s")


def test_files_in_order_are_folded_where_they_are(spark: SparkSession, tmp_path: Path) -> None:
    table = stream()
    summary = check(WORKLOAD, put(table, tmp_path / "e", [10_000, 30_000, 45_000]), table).summary
    if not is_remote(spark):
        assert summary.routes["grouped"] == summary.routes["whole"] == summary.routes["adjacent"] == STRETCHES
    assert summary.routes["rising"] == summary.routes["frequent"] == summary.routes["of_b"] == PARTITION


def test_files_that_overlap_a_little_exchange_those_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = stream()
    order = np.arange(table.num_rows)
    for cut in (15_000, 30_000, 45_000):  # neighbours across each cut change places
        order[cut - 500 : cut + 500] = np.random.default_rng(cut).permutation(order[cut - 500 : cut + 500])
    straddling = table.take(pa.array(order))
    summary = check(WORKLOAD, put(straddling, tmp_path / "e", [15_000, 30_000, 45_000]), table).summary
    if not is_remote(spark):
        assert summary.routes["grouped"] == STRETCHES


def test_files_in_no_order_are_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    table = stream()
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(table.num_rows)))
    summary = check(WORKLOAD, put(shuffled, tmp_path / "e", [20_000, 40_000]), table).summary
    assert summary.routes["grouped"] == PARTITION


@pytest.mark.parametrize("share", [1.0, slow(0.9)])
def test_a_giant_group_is_split_in_time(spark: SparkSession, tmp_path: Path, share: float) -> None:
    table = stream()
    rng = np.random.default_rng(2)
    group = np.where(rng.random(table.num_rows) < share, 7, rng.integers(0, 50, table.num_rows))
    table = table.set_column(table.schema.get_field_index("g"), "g", pa.array(group))
    shuffled = table.take(pa.array(rng.permutation(table.num_rows)))
    path = put(shuffled, tmp_path / "e", [20_000, 40_000])
    summary = check(WORKLOAD, path, table).summary
    assert summary.routes["grouped"] == TIME
    assert check(LINEAR, path, table).summary.routes["q1"] == TIME


@pytest.mark.slow
def test_a_frame_in_order_and_one_in_none(spark: SparkSession, tmp_path: Path) -> None:
    table = stream()
    path = put(table, tmp_path / "e", [30_000])
    frame = spark.read.parquet(path)
    assert check(WORKLOAD, frame, table).summary.routes["unspent"] == STRETCHES
    assert check(WORKLOAD, frame.repartition(4), table).summary.routes["grouped"] == PARTITION
    assert check(LINEAR, frame.repartition(4), table).summary.routes["q1"] == TIME


@pytest.mark.slow
def test_parts_without_events(spark: SparkSession, tmp_path: Path) -> None:
    table = stream(2_000)
    check(WORKLOAD, put(table, tmp_path / "e", [0, 0, 1_000, 1_000, 2_000]), table)
    check(
        WORKLOAD,
        spark.createDataFrame(table).repartition(7).filter("g < 3"),
        table.filter(pc.less(table["g"], 3)),
    )
    check(WORKLOAD, put(table.slice(0, 0), tmp_path / "none", []), table.slice(0, 0))


@pytest.mark.slow
def test_null_keys_and_many_groups(spark: SparkSession, tmp_path: Path) -> None:
    table = stream(20_000, groups=5_000)
    mask = np.random.default_rng(3).random(table.num_rows) < 0.1
    for name in ("g", "h"):
        values = pa.array(table.column(name).to_pylist())
        nulled = pc.if_else(pa.array(mask), pa.scalar(None, values.type), values)
        table = table.set_column(table.schema.get_field_index(name), name, nulled)
    check(WORKLOAD, put(table, tmp_path / "e", [5_000]), table)
    check(WORKLOAD, spark.createDataFrame(table).repartition(3), table)


@pytest.mark.slow
def test_times_before_1970_and_zones(spark: SparkSession, tmp_path: Path) -> None:
    table = stream(5_000, start="1969-12-31T23:59:30")
    check(WORKLOAD, put(table, tmp_path / "e", [2_000]), table, origin="Asia/Kolkata")
    naive = table.set_column(1, "ts", table.column("ts").cast(pa.timestamp("us")))
    frame = spark.createDataFrame(table).withColumn("ts", F.col("ts").cast("timestamp_ntz"))
    check(WORKLOAD, frame, naive)
    berlin = table.set_column(1, "ts", table.column("ts").cast(pa.timestamp("us", "Europe/Berlin")))
    check(WORKLOAD, put(berlin, tmp_path / "b", [2_000]), berlin)
    numbers = table.set_column(1, "ts", pa.array(np.arange(5_000) - 2_500))
    check(WORKLOAD, spark.createDataFrame(numbers), numbers)


def test_conditions_of_every_kind_are_judged_by_spark(spark: SparkSession) -> None:
    table = stream(3_000)
    odd: list[Any] = [0.0, -0.0, 1.5, float("nan"), float("inf"), None, 1e300]
    large = [2**63 - 1, -(2**63), 0, 1, -1, None]
    table = table.append_column("f", pa.array([odd[i % 7] for i in range(3_000)], pa.float64()))
    table = table.append_column("i", pa.array([large[i % 6] for i in range(3_000)], pa.int64()))
    table = table.append_column("b", pa.array([[True, False, None][i % 3] for i in range(3_000)]))
    words = ["a_b", "50%", "x\n", "", None, "é", "A.B"]
    table = table.append_column("s", pa.array([words[i % 7] for i in range(3_000)]))
    conditions = [
        "B.i + 1 > 0", "B.i - 1 < 0", "B.i * 2 > 0", "-B.i < 0", "ABS(B.i) > 5", "B.i % 3 = 1", "B.i / 2 > 1",
        "B.f / B.f = 1", "B.f * 1e300 > 0", "B.f % 0 = 0", "B.f = 0", "B.f IS NULL", "NOT (B.f > 1)", "B.b",
        "NOT B.b", "B.b = TRUE", "B.s LIKE 'a\\_b'", "B.s LIKE 'x_'", "B.s LIKE 'x'", "B.s NOT LIKE '%%'",
        "B.s IN ('a_b', 'é')", "B.s > 'a'", "B.i BETWEEN -1 AND 1", "B.v IN (1, 2, B.i)", "B.v = NULL",
        "B.x + B.i > 0.5", "B.h = B.s OR B.v > 90", "B.i = 9223372036854775808", "B.v NOT BETWEEN 10 AND 90",
    ]  # fmt: skip
    queries = [f"QUERY q{k} RETURN COUNT(*) PATTERN SEQ(A, B) WHERE {c}" for k, c in enumerate(conditions)]
    check(tf.parse(";\n".join(queries)), spark.createDataFrame(table), table, views=False)


@pytest.mark.slow
def test_windows_and_rows_past_their_limits_are_told_as_locally(spark: SparkSession) -> None:
    table = pa.table({"type": list("ABAB"), "ts": [0, 1_000, 2_000, 3_000], "g": [1, 1, 2, 2]})
    frame = spark.createDataFrame(table)
    for text, limits in (
        ("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 d SLIDE 1 ms", {}),
        ("RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.g < NEXT(B).g WITHIN 10 d SLIDE 1 ms", {}),
        ("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 1 s", {"rows": 5}),
        ("RETURN g, COUNT(*) PATTERN SEQ(A, B) WHERE [g] GROUP BY g", {"groups": 1}),
    ):
        told = []
        for data in (frame, table):
            with pytest.raises(tf.LimitError) as caught:
                tf.parse(text).run(data, time_unit="ms", limits=limits)
            told.append(str(caught.value))
        assert told[0] == told[1]


def test_many_windows_are_counted_where_they_are(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MANY_WINDOWS", 5)
    table = pa.table({"type": list("AB") * 20, "ts": range(40), "g": [k // 2 % 5 for k in range(40)]})
    workload = tf.parse(
        "RETURN g, COUNT(*) PATTERN SEQ(A, B) WHERE [g] GROUP BY g WITHIN 10 s SLIDE 2 s;"
        "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 40 s SLIDE 40 s"
    )
    here, there = workload.run(table), workload.run(spark.createDataFrame(table))
    assert there.summary.windows == here.summary.windows > 5
