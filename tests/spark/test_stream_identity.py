"""A stream's rows are its own: no other stream replaces them, and what is damaged or gone is told of."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from spark.agreement import agree
from spark.test_stream import Inbox, regular, written
from trendfold.cli import main
from trendfold.errors import InputError, TrendfoldError
from trendfold.runtime.ownership import OWNER_FILE
from trendfold.runtime.spark.session import is_remote
from trendfold.runtime.spark.sinks import open_sink

pytestmark = pytest.mark.xdist_group("spark")

ONE = "QUERY one RETURN g, COUNT(*) PATTERN SEQ(A, B) WHERE B.v >= 0 GROUP BY g WITHIN 10 s SLIDE 10 s"


def rows(folder: Path) -> dict[str, bytes]:
    """All that was delivered, byte by byte."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("part-*"))}


def forget_identity(checkpoint: Path, *places: Path) -> None:
    """As a release left them that did not know of identities."""
    kept = json.loads((checkpoint / "workload.json").read_text())
    del kept["id"], kept["claimed"]
    (checkpoint / "workload.json").write_text(json.dumps(kept))
    for place in places:
        (place / OWNER_FILE).unlink()


@pytest.mark.slow
def test_what_a_stream_has_delivered_is_never_replaced_by_another(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = regular(1_000, 1_080)
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    inbox.put(table.slice(0, 20))
    inbox.put(table.slice(20, 20))
    late = regular(1_003, 1_004)
    far = late.set_column(1, "ts", pa.array([10_413_792_000_000_000], pa.timestamp("us", "UTC")))  # 2300
    inbox.put(pa.concat_tables([far, late]))
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    given: dict[str, Any] = {
        "checkpoint": checkpoint,
        "output": out,
        "rejects": tmp_path / "rejects",
        "watermark": "5 s",
        "trigger": "availableNow",
    }

    def start(queries: str = ONE, **other: Any) -> Any:
        return tf.parse(queries).start(inbox.stream(), **{**given, **other})

    first = start()
    with pytest.raises(InputError, match="a stream of this process is running on the checkpoint"):
        start()
    assert first.await_termination()
    delivered = rows(out)
    assert delivered
    kept = pa.concat_tables([pq.read_table(p) for p in (tmp_path / "rejects").rglob("*.parquet")])
    assert [(row["reason"], row["g"], row["v"]) for row in kept.sort_by("reason").to_pylist()] == [
        ("ahead of the clock by more than max_ahead", 1, 3),
        ("late", 1, 3),
    ]

    with pytest.raises(InputError, match=r"\(output\) holds the rows of another stream"):
        start(checkpoint=tmp_path / "new", rejects=None)
    with pytest.raises(InputError, match=r"\(rejects\) holds the rows of another stream"):
        start(checkpoint=tmp_path / "new", output=tmp_path / "elsewhere")
    with pytest.raises(InputError, match="does not hold the rows that this stream has written"):
        start(output=tmp_path / "elsewhere")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        start(checkpoint=tmp_path / "new", output=tmp_path / "foreign", rejects=None)
    for inside in ({"output": checkpoint / "out"}, {"rejects": out}, {"checkpoint": out / "state"}):
        with pytest.raises(InputError, match="would overwrite or read the other; choose another folder"):
            start(**inside)

    for name, told in (("spark", "is missing"), ("tally.json", "but Spark has done")):
        shutil.move(checkpoint / name, tmp_path / "moved")
        with pytest.raises(InputError, match=told):
            start()
        shutil.move(tmp_path / "moved", checkpoint / name)
    for name in ("workload.json", "tally.json"):
        whole = (checkpoint / name).read_text()
        for broken in (whole[:-20], "[]", "{}" if name == "workload.json" else '{"bitch": 1}'):
            (checkpoint / name).write_text(broken)
            with pytest.raises(InputError, match=rf"{name}' is damaged"):
                start()
        (checkpoint / name).write_text(whole)
    with pytest.raises(InputError, match="'ONE' would get the same folder as query 'one'"):
        start(ONE.replace("one", "ONE"))
    assert rows(out) == delivered

    forget_identity(
        checkpoint, out, tmp_path / "rejects"
    )  # such a checkpoint goes on, and has an identity from then on
    inbox.put(table.slice(40, 30))
    assert start().await_termination()
    wanted = tf.parse(ONE).run(table)["one"]
    closed = pc.less_equal(wanted.column("window_end"), pa.scalar(1_064_000_000, pa.timestamp("us", "UTC")))
    agree(written(out, "one", wanted, 1), wanted.filter(closed))
    with pytest.raises(InputError, match="holds the rows of another stream"):
        start(checkpoint=tmp_path / "new", rejects=None)

    (out / "one" / "notes.txt").write_text("mine")
    over = start(ONE.replace("one", "two"), checkpoint=tmp_path / "new", rejects=None, overwrite=True)
    assert over.await_termination()
    assert {path.split("/")[0] for path in rows(out)} == {"two"}
    assert (out / "one" / "notes.txt").read_text() == "mine"
    with pytest.raises(InputError, match="another stream"):
        start()


@pytest.mark.slow
def test_a_stream_that_was_only_stopped_is_not_flushed_and_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = regular(1_000, 1_120)
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    for low in range(0, 120, 10):
        inbox.put(table.slice(low, 10))
    given: dict[str, Any] = {
        "checkpoint": tmp_path / "checkpoint",
        "output": tmp_path / "out",
        "watermark": "5 s",
        "trigger": "availableNow",
        "flush": True,
    }
    handle = tf.parse(ONE).start(inbox.stream(), **given)
    while handle.progress.batch < 2:
        time.sleep(0.05)
    handle.query.stop()
    assert handle.await_termination()
    assert not handle.is_flushed
    assert handle.progress.batch < 11
    again = tf.parse(ONE).start(inbox.stream(), **given)
    assert again.await_termination()
    assert again.is_flushed
    wanted = tf.parse(ONE).run(table)["one"]
    agree(written(tmp_path / "out", "one", wanted, 1), wanted)


@pytest.mark.slow
def test_all_was_read_before_a_crash_so_the_next_start_only_flushes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two streams start at once in one session: each with its settings, and the session keeps its own."""
    table = regular(1_000, 1_040)
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    inbox.put(table)
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    failures: list[BaseException] = []

    def run(number: int, flush: bool) -> None:
        try:
            handle = tf.parse(ONE).start(
                inbox.stream(),
                checkpoint=tmp_path / f"checkpoint-{number}",
                output=tmp_path / f"out-{number}",
                watermark="5 s",
                trigger="availableNow",
                shards=1 + number,
                flush=flush,
            )
            assert handle.await_termination()
            assert handle.is_flushed is flush
        except BaseException as error:
            failures.append(error)

    for flush in (False, True):
        threads = [threading.Thread(target=run, args=(number, flush)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert {name: spark.conf.get(name, None) for name in SETTINGS} == before
    wanted = tf.parse(ONE).run(table)["one"]
    for number in (0, 1):
        agree(written(tmp_path / f"out-{number}", "one", wanted, 1), wanted)


SETTINGS = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stopActiveRunOnRestart",
    "spark.sql.streaming.noDataProgressEventInterval",
)


@pytest.mark.slow
def test_a_micro_batch_that_is_run_again_later_rejects_what_was_ahead_of_its_clock(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path / "in", regular(0, 1).schema)
    rejects = tmp_path / "rejects"
    given: dict[str, Any] = {
        "checkpoint": tmp_path / "checkpoint",
        "output": tmp_path / "out",
        "rejects": rejects,
        "watermark": "5 s",
        "max_ahead": "1 min",
        "trigger": "availableNow",
    }
    assert tf.parse(ONE).start(inbox.stream(), **given).await_termination()
    (rejects / "rejects").write_text("in the way")  # so the batch fails when its rejects are written
    soon = int(time.time()) + 90
    inbox.put(regular(soon, soon + 1))
    with pytest.raises(TrendfoldError, match="cannot make the folder"):
        tf.parse(ONE).start(inbox.stream(), **given).await_termination()
    (rejects / "rejects").unlink()
    while time.time() < soon - 55:  # by now it would be no longer ahead
        time.sleep(1)
    again = tf.parse(ONE).start(inbox.stream(), **given)
    assert again.await_termination()
    assert (again.progress.rejects, again.progress.state_rows) == (1, 0)


def test_names_and_sources_that_cannot_be_are_told_before_anything_starts(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = regular(1_000, 1_010)
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    given: dict[str, Any] = {"checkpoint": tmp_path / "c", "watermark": "5 s"}

    def refused(name: str, output: Any) -> str:
        with pytest.raises(InputError) as told:
            tf.parse(ONE.replace("one", f'"{name}"')).start(inbox.stream(), **given, output=output)
        return str(told.value)

    assert "file systems allow 255" in refused("x" * 300, tmp_path / "out")
    assert "file systems allow 255" in refused("é" * 60, tmp_path / "out")
    assert "as trendfold itself" in refused("_TRENDFOLD.json", tmp_path / "out")
    assert "cannot be part of a table name" in refused("rides of a day", "table:kept")
    assert "as trendfold itself" in refused("_trendfold", "table:kept")
    assert "'a b' is not a table name" in refused("one", "table:a b")

    monkeypatch.chdir(tmp_path)
    Path("q.tql").write_text(ONE, encoding="utf-8")
    Path("empty").mkdir()
    command = ["stream", "q.tql", "--checkpoint", "state", "--watermark", "5 s", "--source"]
    for source, output, told in (
        (f"parquet:{tmp_path}/empty", "out", "gives the columns yet; pass --schema, or add a file"),
        (f"json:{tmp_path}/empty", "table:kept", "gives the columns yet"),
        (
            f"csv:{tmp_path}/nowhere",
            "out",
            f"there is no folder '{tmp_path}/nowhere'; create it, or correct the path",
        ),
        ("parquet:in", "in/results", "--output 'in/results' lies in --source 'in'"),
    ):
        assert main([*command, source, "--output", output]) == 2
        assert told in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "empty", "in", "out", "q.tql"]


def test_a_table_that_the_catalog_has_forgotten_goes_on_from_its_files(spark: SparkSession) -> None:
    if is_remote(spark):
        pytest.skip("the warehouse is the server's")
    prefix = f"forgotten_{time.time_ns()}"
    home = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    counted = pa.table({"window_start": pa.array([1, 2], pa.timestamp("us", "UTC")), "count": [1.0, 2.0]})
    frame = spark.createDataFrame(counted)
    for batch in (0, 1):
        frame.write.parquet(str(home / f"{prefix}_one" / f"batch={batch}"))
    sink = open_sink(f"table:{prefix}")
    try:
        assert sink.holds_any(spark, ["one"])
        sink.write(spark, 1, {"one": counted.slice(1)}, is_again=True)
        sink.write(spark, 2, {"one": counted})
        found = spark.table(f"{prefix}_one").select("batch", "count").orderBy("batch", "count").collect()
        assert [tuple(row) for row in found] == [
            (0, 1.0), (0, 2.0), (1, 2.0), (2, 1.0), (2, 2.0),
        ]  # fmt: skip
        with pytest.raises(TrendfoldError, match="drop the table, or choose another"):
            sink.write(spark, 3, {"one": counted.rename_columns(["window_start", "sum"])})
        sink.clear(spark, ["one", "two"], ())
        assert spark.table(f"{prefix}_one").count() == 0
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {prefix}_one")
        shutil.rmtree(home / f"{prefix}_one", ignore_errors=True)
