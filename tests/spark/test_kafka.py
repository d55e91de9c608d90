"""Streams of JSON messages: by Spark's text source, and from a Kafka broker where its jars are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from chaos.broker import broker
from trendfold.errors import InputError, RejectError, UnsupportedError
from trendfold.events.text_files import CsvOptions
from trendfold.runtime.spark.sinks import open_sink
from trendfold.runtime.spark.stream_sources import json_events, open_stream

pytestmark = pytest.mark.xdist_group("spark")

JARS = Path(__file__).parents[2] / ".chaos"
"""Where `make chaos` puts the jars of a broker and of Spark's connector."""
SCHEMA = "type string, ts timestamp, g bigint"
QUERY = "QUERY pairs RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 10 s SLIDE 10 s"


def events(count: int) -> list[dict[str, Any]]:
    """An event a second, in turn an A and a B."""
    stamp = "2024-01-01T00:{:02}:{:02}"
    return [{"type": "AB"[i % 2], "ts": stamp.format(i // 60, i % 60), "g": i // 2 % 3} for i in range(count)]


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist(rows)
    return tf.parse(QUERY).run(table, engine="local")["pairs"].to_pylist()


def by_window(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["window_start"], row["g"]))


@pytest.mark.slow
def test_a_message_that_is_no_event_is_a_reject_with_its_text(spark: SparkSession, tmp_path: Path) -> None:
    good = events(60)
    lines = [json.dumps(row) for row in good]
    lines[5:5], lines[40:40] = ["nope"], ['{"type": "A", "ts": "2024-01-01", "g": "x"}', '{"type": null}']
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "messages.txt").write_text("\n".join(lines), encoding="utf-8")
    messages = spark.readStream.text(str(tmp_path / "in"))
    places: dict[str, Any] = {"watermark": "5 s", "trigger": "availableNow", "flush": True}
    handle = tf.parse(QUERY).start(
        json_events(messages, SCHEMA),
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        rejects=tmp_path / "rejects",
        **places,
    )
    assert handle.await_termination()
    written = [pq.read_table(path, partitioning=None) for path in (tmp_path / "out").glob("pairs/*/*")]
    assert by_window(pa.concat_tables(written).to_pylist()) == expected(good)
    assert (handle.progress.events, handle.progress.rejects) == (63, 3)
    parts = [pq.read_table(path, partitioning=None) for path in (tmp_path / "rejects").glob("rejects/*/*")]
    told = {row["reason"]: row["text"] for part in parts for row in part.to_pylist()}
    assert told == {
        "not a JSON object: Expecting value: line 1 column 1 (char 0)": "nope",
        "column 'g' holds 'x', which is not a bigint": '{"type": "A", "ts": "2024-01-01", "g": "x"}',
        "null type": None,
    }
    failing = tf.parse(QUERY).start(
        json_events(messages, SCHEMA),
        checkpoint=tmp_path / "other",
        output=tmp_path / "other-out",
        on_reject="fail",
        **places,
    )
    with pytest.raises(RejectError, match="a row is rejected: not a JSON object"):
        failing.await_termination()


def test_without_a_connector_or_a_schema_it_is_said_what_to_pass(spark: SparkSession) -> None:
    with pytest.raises(
        UnsupportedError, match=r"spark\.jars\.packages=org\.apache\.spark:spark-sql-kafka-0-10"
    ):
        open_stream(spark, "kafka:localhost:9/rides", CsvOptions(schema=SCHEMA))
    rows = {"pairs": pa.table({"count": [1]})}
    with pytest.raises(UnsupportedError, match="has no Kafka connector"):
        open_sink("kafka:localhost:9/rides").write(spark, 0, rows)
    with pytest.raises(InputError, match="pass --schema"):
        open_stream(spark, "kafka:localhost:9/rides", CsvOptions())
    with pytest.raises(InputError, match="'kafka:localhost/rides' is not a Kafka topic"):
        open_stream(spark, "kafka:localhost/rides", CsvOptions(schema=SCHEMA))


@pytest.mark.slow
@pytest.mark.skipif(not (JARS / "kafka").exists(), reason="`make chaos` gets the jars of a broker")
def test_a_topic_in_and_a_topic_out_by_the_command_line(tmp_path: Path) -> None:
    good = events(600)
    (tmp_path / "q.tql").write_text(QUERY, encoding="utf-8")
    jars = ",".join(str(path) for path in sorted((JARS / "connector").glob("*.jar")))
    with broker(JARS / "kafka", tmp_path / "broker") as kafka:
        kafka.create_topic("events")
        kafka.create_topic("results")
        messages = [(str(row["g"]), json.dumps(row).encode()) for row in good]
        kafka.send("events", [*messages[:300], ("x", b"no JSON"), *messages[300:]])
        done = subprocess.run(
            [
                *(sys.executable, "-m", "trendfold", "stream", "q.tql", "--master", "local[2]"),
                *("--source", f"kafka:{kafka.servers}/events", "--schema", SCHEMA, "--rows-per-batch", "150"),
                *("--watermark", "1 h", "--checkpoint", "state", "--trigger", "available-now", "--flush"),
                *("--output", f"kafka:{kafka.servers}/results", "--rejects", "rejects"),
                *("--conf", f"spark.jars={jars}"),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3_000:]
        received = dict(kafka.receive("results"))
    rows = [json.loads(value) for value in received.values()]
    wanted = expected(good)
    assert len(rows) == len(wanted)
    assert {row.pop("query") for row in rows} == {"pairs"}
    for row in wanted:
        row |= {name: row[name].isoformat() for name in ("window_start", "window_end")}
    assert by_window(rows) == wanted
    [refused] = (tmp_path / "rejects" / "rejects").glob("*/*.parquet")
    [row] = pq.read_table(refused, partitioning=None).to_pylist()
    assert row["text"] == "no JSON"
    assert row["reason"].startswith("not a JSON object: Expecting value")
    assert "partition " in row["reason"]
    assert "offset " in row["reason"]
