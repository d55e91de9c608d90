"""Inputs on Spark: messages, counts and warnings as in one process, from frames, files and streams."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from spark.agreement import agree
from trendfold.cli import main
from trendfold.errors import InputError
from trendfold.runtime.spark.session import is_remote

WORKLOAD = tf.parse("QUERY q RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B+) WITHIN 1 h SLIDE 1 h")
FORMAT = "%d/%m/%Y %H:%M"


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("typ string, ts bigint, x int", {}, "no column 'type' (type_column); did you mean 'typ'?"),
        ("type string, time bigint, x int", {}, "no column 'ts' (time_column)"),
        ("type string, ts bigint, x int, ts bigint", {}, "column 'ts' exists more than once"),
        ("type array<string>, ts bigint, x int", {}, "column 'type' (type_column) is of type list<"),
        ("type struct<a: string>, ts bigint, x int", {}, "column 'type' (type_column) is of type struct<"),
        ("type string, ts bigint, x int, n array<int>", {"order_column": "n"}, "'n' (order_column) is of"),
        (
            "type string, ts bigint, x int, n array<int>",
            {"id_column": "n"},
            "'n' (id_column) is of type list<",
        ),
        ("type string, ts timestamp, x int", {"time_format": FORMAT}, "time_format is for text or whole"),
    ],
)
def test_a_frame_whose_columns_do_not_fit_says_so_before_anything_runs(
    spark: SparkSession, columns: str, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError) as caught:
        WORKLOAD.run(spark.createDataFrame([], columns), **options)
    assert told in str(caught.value)


def test_a_streaming_frame_is_not_for_run(spark: SparkSession) -> None:
    with pytest.raises(InputError, match=r"use start\(\) for a streaming DataFrame"):
        WORKLOAD.run(spark.readStream.format("rate").load())


def test_files_whose_columns_do_not_fit_say_so(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "e.parquet")
    ones = [pa.array(["A"]), pa.array([1]), pa.array([1.0])]
    pq.write_table(pa.table([*ones, ones[1]], ["type", "ts", "x", "ts"]), path)
    with pytest.raises(InputError, match="'ts'"):
        WORKLOAD.run(path, engine="spark")
    pq.write_table(pa.table([pa.array([["A"]]), *ones[1:]], ["type", "ts", "x"]), path)
    with pytest.raises(InputError, match=r"column 'type' \(type_column\) is of type list<"):
        WORKLOAD.run(path, engine="spark")


def events(times: Any) -> pa.Table:
    types = ["A", "B", "B", None][: len(times)]
    prices = pa.array([Decimal(f"{i}.10") for i in range(len(times))], pa.decimal128(10, 2))
    return pa.table({"type": pa.array(types, pa.string()), "ts": times, "x": prices})


NANOSECONDS = pa.array([1_700_000_000_000_000_001, 1_700_000_001_000_000_000, None, 5], pa.timestamp("ns"))
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "nanoseconds": (NANOSECONDS, {"arithmetic": "exact"}),
    "numbers in text": (pa.array(["1700000000", "1700000001.5", "x", "2023-11-14T22:13:21Z"]), {}),
    "no format": (pa.array(["31/12/2023 10:00", "31/12/2023 10:01", "x"]), {}),
    "a format": (pa.array(["31/12/2023 10:00", "31/12/2023 10:01", "x"]), {"time_format": FORMAT}),
    "dates as numbers": (pa.array([200802010900, 200802010901, 200802010902]), {}),
    "numbers in a format": (
        pa.array([200802010900, 200802010901, 200802010902]),
        {"time_format": "%Y%m%d%H%M"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_times_are_read_and_told_of_as_in_one_process(spark: SparkSession, tmp_path: Path, name: str) -> None:
    times, options = CASES[name]
    table = events(times)
    here = WORKLOAD.run(table, **options)
    path = tmp_path / "e.parquet"
    pq.write_table(table, path)
    # Spark's own frames have no nanoseconds; a table that goes to Spark has.
    other = table if name == "nanoseconds" else spark.createDataFrame(table)
    for source, data in {"file": str(path), "other": other}.items():
        there = WORKLOAD.run(data, engine="spark", **options)
        assert dict(there.summary.reject_reasons) == dict(here.summary.reject_reasons), source
        assert told(there.summary.warnings) == told(here.summary.warnings), source
        assert there.summary.has_no_events == here.summary.has_no_events == (name == "no format")
        found = there["q"].toArrow()
        for column in ("count", "sum_B_x"):
            assert found.column(column).to_pylist() == here["q"].column(column).to_pylist()
        if source == "file" and here.rejects.num_rows:
            reasons = there.rejects.toArrow().column("reason").to_pylist()
            assert sorted(reasons) == sorted(here.rejects.column("reason").to_pylist())
        there.unpersist()


def told(warnings: tuple[str, ...]) -> list[str]:
    """What is not about the session; which example is told depends on the parts of the source."""
    kept = [warning for warning in warnings if "this Spark session" not in warning]
    return [warning.partition(": 2008")[0] for warning in kept]


def test_text_is_read_in_tasks_as_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    deep = '{"type":"B","ts":"31/12/2023 10:02","x":1,"y":' + "[" * 30_000 + "]" * 30_000 + "}\n"
    line = '{{"type":"{}","ts":"31/12/2023 10:0{}","x":1}}\n'
    path = tmp_path / "e.jsonl"
    path.write_text(line.format("A", 0) + line.format("B", 1) + deep + "no object\n")
    if is_remote(spark):
        return  # Spark reads it there
    there = WORKLOAD.run(str(path), engine="spark", time_format=FORMAT)
    here = WORKLOAD.run(path, engine="local", time_format=FORMAT)
    assert dict(there.summary.reject_reasons) == dict(here.summary.reject_reasons)
    assert dict(here.summary.reject_reasons) == {
        "line nests deeper than 200 levels": 1,
        "line is not a JSON object": 1,
    }
    agree(there["q"].toArrow(), here["q"])


def test_text_that_spark_reads_itself_has_its_format_too(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("type,ts,x\nA,0102200810,1\nB,0102200811,2\n")
    options: dict[str, Any] = {"time_format": "%d%m%Y%H", "engine": "spark"}
    workload = tf.parse("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 d SLIDE 1 d")
    found = workload.run(path.as_uri(), **options)
    assert found.summary.rejects == 0
    assert found["q"].toArrow().column("window_start").to_pylist()[0].year == 2008


@pytest.mark.slow
def test_a_stream_is_read_in_the_format_of_its_times(spark: SparkSession, tmp_path: Path) -> None:
    table = events(pa.array([200802010900, 200802010901, 200802011500]))
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    stream = spark.readStream.schema(spark.createDataFrame(table).schema).parquet(str(tmp_path / "in"))
    given: dict[str, Any] = {"watermark": "1 s", "checkpoint": tmp_path / "state", "output": tmp_path / "out"}
    given |= {"trigger": "availableNow", "flush": True}
    with pytest.raises(InputError, match=r"no column 'typ' \(type_column\); did you mean 'type'"):
        WORKLOAD.start(stream, type_column="typ", **given)
    handle = WORKLOAD.start(stream, time_format="%Y%m%d%H%M", **given)
    handle.await_termination()
    found = pq.read_table(tmp_path / "out" / "q")
    wanted = WORKLOAD.run(table, time_format="%Y%m%d%H%M")["q"]
    assert found.column("window_start").to_pylist() == wanted.column("window_start").to_pylist()
    assert found.column("count").to_pylist() == wanted.column("count").to_pylist() == [1]
    assert handle.progress.rejects == 0


@pytest.mark.slow
def test_the_stream_command_reads_a_format_and_fails_where_no_event_is_left(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.tql").write_text("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 d SLIDE 1 d")
    Path("in").mkdir()
    Path("in/a.csv").write_text("type,ts\nA,0102200810\nB,0102200811\n")
    command = [
        "stream",
        "q.tql",
        "--source",
        f"csv:{tmp_path}/in",
        "--watermark",
        "1 s",
        "--trigger",
        "available-now",
    ]
    formats = ["--time-format", "%d%m%Y%H", "--flush", "--format", "json"]
    assert main([*command, "--checkpoint", f"{tmp_path}/one", *formats]) == 0
    assert '"window_start": "2008-02-01' in capsys.readouterr().out
    assert main([*command, "--checkpoint", f"{tmp_path}/two", "--time-format", "%Y-%m-%d"]) == 1
    assert "warning: all 2 rows are rejected" in capsys.readouterr().err
