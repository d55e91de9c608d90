"""Streams on Spark give the rows of batch, once, whatever the arrival order, the cuts, or the changes."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import trendfold as tf
from spark.agreement import agree
from stream.simulation import arrival, cuts, ordered
from stream.test_shards import random_stream
from trendfold.errors import InputError, QueryError
from trendfold.plan.physical import SharedPlan
from trendfold.runtime.spark.session import is_remote
from trendfold.runtime.spark.sinks import open_sink
from trendfold.runtime.spark.watch import Progress

pytestmark = pytest.mark.xdist_group("spark")


def slow(value: int) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)


class Inbox:
    """A folder that files arrive in: one micro-batch each."""

    def __init__(self, spark: SparkSession, folder: Path, schema: pa.Schema) -> None:
        self.spark, self.folder, self.schema, self.count = spark, folder, schema, 0
        folder.mkdir()

    def put(self, table: pa.Table) -> None:
        beside = self.folder / f".{self.count}"
        pq.write_table(table, beside)
        beside.rename(self.folder / f"{self.count:03}.parquet")
        self.count += 1
        time.sleep(0.02)  # Spark takes files in the order of their times

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.schema(from_arrow_schema(self.schema)).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))


def written(output: Path, query: str, like: pa.Table, keys: int) -> pa.Table:
    """What a query wrote, in the order of batch."""
    parts = sorted((output / query).glob("batch=*/*.parquet"))
    return ordered([pq.read_table(path, partitioning=None) for path in parts], like, keys)


@pytest.mark.parametrize("seed", [100, slow(101), slow(102)])
def test_random_workloads_in_any_order_and_any_cut_give_the_rows_of_batch(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    workload, table = random_stream(seed, 12)
    rng = random.Random(seed)
    delay = rng.choice([5, 30])
    shuffled = table.take(pa.array(arrival(table.column("ts").to_pylist(), delay, rng)))
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    for cut in cuts(table.num_rows, rng)[:4]:
        inbox.put(shuffled.slice(cut.start, cut.stop - cut.start))
    inbox.put(shuffled.slice(cut.stop))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    handle = workload.start(
        inbox.stream(),
        watermark=f"{delay} s",
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        trigger="availableNow",
        flush=True,
    )
    assert handle.await_termination()
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    batch = workload.run(table, engine="local")
    for query in workload:
        wanted = batch[query.name]
        agree(written(tmp_path / "out", query.name, wanted, len(query.group_by)), wanted)
    progress = handle.progress
    assert dict(progress.rows) == dict(batch.summary.rows)
    assert (progress.late, progress.state_rows, progress.open_windows) == (0, 0, 0)
    with pytest.raises(InputError, match="has ended"):
        workload.start(
            inbox.stream(), watermark="5 s", checkpoint=tmp_path / "checkpoint", output=tmp_path / "out"
        )


ALERTS = """
QUERY trips RETURN g, COUNT(*) PATTERN SEQ(A, B+) GROUP BY g WITHIN 60 s SLIDE 60 s;
QUERY rising RETURN MATCHES(v) PATTERN SEQ(A, B, C) WHERE [g] AND A.v < C.v WITHIN 8 s;
QUERY missing RETURN MATCHES PATTERN SEQ(A, NOT C) WHERE [g] WITHIN 20 s;
QUERY keyless RETURN MATCHES PATTERN SEQ(C, A) SEMANTICS contiguous WITHIN 5 s
"""


def test_matches_beside_aggregates_come_once_and_are_those_of_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng, count = random.Random(1), 1_200
    table = pa.table(
        {
            "type": rng.choices("AABBC", k=count),
            "ts": pa.array(range(10_000, 10_000 + count), pa.int64()),
            "g": pa.array([rng.randrange(5) for _ in range(count)], pa.int64()),
            "v": [rng.choice([None, 0.0, 2.0, 7.25]) for _ in range(count)],
            "id": [f"e{i}" for i in range(count)],
        }
    )
    shuffled = table.take(pa.array(arrival(table.column("ts").to_pylist(), 5, rng)))
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    for low in range(0, count, 300):
        inbox.put(shuffled.slice(low, 300))
    workload = tf.parse(ALERTS)
    handle = workload.start(
        inbox.stream(),
        watermark="5 s",
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        trigger="availableNow",
        id_column="id",
        flush=True,
        shards=2,
    )
    assert handle.await_termination()
    batch = workload.run(table, engine="local", id_column="id")
    for query in workload:
        wanted = batch[query.name]
        parts = sorted((tmp_path / "out" / query.name).glob("batch=*/*.parquet"))
        found = pa.concat_tables(pq.read_table(path, partitioning=None) for path in parts)
        assert found.column_names == wanted.column_names
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
        assert query.name == "trips" or len(parts) >= 2  # as the stream flows, not only at its end
    progress = handle.progress
    assert progress.raw["rising"] == "matches consist of events"
    assert (progress.late, progress.state_rows) == (0, 0)


ONLINE = """
QUERY tumbling RETURN g, COUNT(*), SUM(B.v), MAX(B.v) PATTERN SEQ(A, B+) GROUP BY g WITHIN 60 s SLIDE 60 s;
QUERY sliding RETURN g, COUNT(*), AVG(B.v) PATTERN SEQ(A, NOT C, B+) GROUP BY g WITHIN 60 s SLIDE 10 s;
QUERY spending RETURN g, COUNT(*) PATTERN SEQ(A, B, C) SEMANTICS next GROUP BY g WITHIN 30 s SLIDE 15 s;
QUERY strict RETURN COUNT(*) PATTERN SEQ(A, B+) SEMANTICS contiguous WHERE [g] WITHIN 60 s SLIDE 60 s;
QUERY compared RETURN g, COUNT(*) PATTERN SEQ(A+, B) WHERE A.v < NEXT(A).v GROUP BY g WITHIN 60 s SLIDE 30 s;
QUERY crossed RETURN g, COUNT(*) PATTERN SEQ(A, B, C) WHERE A.v < C.v GROUP BY g WITHIN 60 s SLIDE 60 s
"""


def test_dense_keys_are_folded_online_and_give_the_rows_of_batch(spark: SparkSession, tmp_path: Path) -> None:
    rng, count = random.Random(0), 4_000
    table = pa.table(
        {
            "type": rng.choices("AABBBC", k=count),
            "ts": pa.array([1_700_000_000_000_000 + 100_000 * i for i in range(count)]).cast(
                pa.timestamp("us", "UTC")
            ),
            "g": pa.array([rng.randrange(8) for _ in range(count)], pa.int64()),
            "v": [rng.choice([None, -1.5, 0.0, 2.0, 7.25]) for _ in range(count)],
        }
    )
    micros = table.column("ts").cast(pa.int64()).to_pylist()
    shuffled = table.take(pa.array(arrival(micros, 3e6, rng)))
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    for low in range(0, count, 800):
        inbox.put(shuffled.slice(low, 800))
    workload, seen = tf.parse(ONLINE), list[Progress]()
    handle = workload.start(
        inbox.stream(),
        watermark="3 s",
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        trigger="availableNow",
        flush=True,
        shards=2,
    )
    handle.listen(seen.append)
    assert handle.await_termination()
    batch = workload.run(table, engine="local")
    for query in workload:
        wanted = batch[query.name]
        agree(written(tmp_path / "out", query.name, wanted, len(query.group_by)), wanted)
    assert max(progress.vectors for progress in seen) > 8
    assert dict(handle.progress.raw) == {"crossed": "a predicate compares events that need not be neighbours"}
    assert handle.progress.late == 0


ONE = "QUERY one RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 10 s SLIDE 10 s"
TWO = "QUERY two RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.v > 3 WITHIN 10 s SLIDE 10 s"
JOINS = """
QUERY joins RETURN g, COUNT(*), SUM(B.v) PATTERN SEQ(A, B+) WHERE B.v > 3 GROUP BY g WITHIN 10 s SLIDE 10 s
"""
"""Its events travel with those of ONE."""


def regular(low: int, high: int) -> pa.Table:
    """An event a second, in turn an A and a B, at times that a clock could show."""
    at = range(low, high)
    return pa.table(
        {
            "type": pa.array(["AB"[i % 2] for i in at]),
            "ts": pa.array([i * 1_000_000 for i in at], pa.timestamp("us", "UTC")),
            "g": pa.array([i % 3 for i in at], pa.int64()),
            "v": pa.array([i % 10 for i in at], pa.int64()),
        }
    )


def test_queries_come_and_go_late_events_are_told_of_and_a_restart_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, stamp = regular(1_000, 1_080), pa.timestamp("us", "UTC")
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    inbox.put(table.slice(0, 20))
    places: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    given: dict[str, Any] = {**places, "watermark": "5 s", "rejects": tmp_path / "rejects"}
    handle = tf.parse(ONE).start(inbox.stream(), **given)
    seen: list[Progress] = []
    try:
        listener = handle.listen(seen.append)
        handle.process_all_available()  # the watermark is 1,014 now
        late = regular(1_003, 1_004)
        nothing = late.set_column(0, "type", pa.nulls(1, pa.string()))
        inbox.put(pa.concat_tables([late, nothing, table.slice(20, 10)]))
        handle.process_all_available()
        assert (handle.progress.late, handle.progress.rejects) == (1, 1)
        handle.add(f"{TWO};{JOINS}")  # the latest time is 1,029
        assert handle.queries == ("one", "two", "joins")
        inbox.put(table.slice(30, 20))
        handle.process_all_available()
        with pytest.raises(InputError, match="did you mean 'one'"):
            handle.remove("on")
        with pytest.raises(QueryError, match="count windows are for batch"):
            handle.add("QUERY three RETURN COUNT(*) PATTERN A+ WITHIN 5 events SLIDE 5 events")
        with pytest.raises(InputError, match="'ONE' would get the same folder as query 'one'"):
            handle.add(TWO.replace("two", "ONE"))
        handle.remove("one")  # the watermark is 1,044
        assert handle.is_active
    finally:
        handle.stop()
    again = tf.parse(ONE).start(inbox.stream(), **given)
    try:
        assert again.queries == ("two", "joins")
        inbox.put(table.slice(50))
        again.process_all_available()
        progress = again.progress
        listener.remove()
    finally:
        again.stop()
    one = tf.parse(ONE).run(table)["one"]
    one = one.filter(pc.less_equal(one.column("window_end"), pa.scalar(1_044_000_000, stamp)))
    agree(written(tmp_path / "out", "one", one, 1), one)
    bounds = pa.scalar(1_029_000_000, stamp), pa.scalar(1_074_000_000, stamp)
    for text, name, keys in ((TWO, "two", 0), (JOINS, "joins", 1)):
        wanted = tf.parse(text).run(table)[name]
        wanted = wanted.filter(pc.greater(wanted.column("window_start"), bounds[0]))
        wanted = wanted.filter(pc.less_equal(wanted.column("window_end"), bounds[1]))
        assert len(wanted.column("window_start").unique()) == 4
        agree(written(tmp_path / "out", name, wanted, keys), wanted)
        assert progress.rows[name] == wanted.num_rows
    files = (tmp_path / "rejects").rglob("*.parquet")
    reasons = [reason for path in files for reason in pq.read_table(path).column("reason").to_pylist()]
    assert sorted(reasons) == ["late", "null type"]
    assert (progress.events, progress.late, progress.rejects) == (82, 1, 1)
    assert progress.open_windows == 2  # one of each query
    assert 0 < progress.state_rows < 20
    if not is_remote(spark):
        assert seen
        assert any(progress.watermark for progress in seen)
    with pytest.raises(InputError, match="query 'two' differs from the one"):
        tf.parse(TWO.replace("> 3", "> 4")).start(inbox.stream(), **given)


def test_an_idle_source_lets_windows_end_by_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    table = regular(1_000, 1_013)
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    inbox.put(table)
    places: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    given: dict[str, Any] = {**places, "watermark": "1 s", "idle_timeout": "2 s"}
    handle = tf.parse(ONE).start(inbox.stream(), **given)
    wanted = tf.parse(ONE).run(table)["one"]
    try:
        until = time.monotonic() + 120
        while handle.progress.rows["one"] < wanted.num_rows and time.monotonic() < until:
            time.sleep(0.2)
        latest = handle.progress.latest
        inbox.put(regular(1_005, 1_006))
        handle.process_all_available()
        assert handle.progress.late == 1
    finally:
        handle.stop()
    assert latest == datetime.fromtimestamp(1_012, UTC)
    agree(written(tmp_path / "out", "one", wanted, 1), wanted)
    with pytest.raises(InputError, match="idle_timeout is missing, but the checkpoint was made with one"):
        tf.parse(ONE).start(inbox.stream(), watermark="1 s", **places)


@pytest.mark.slow
def test_no_heartbeat_follows_a_stream_that_fails_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    table = regular(1_000, 1_013)
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    inbox.put(table)

    def fail(rows: object, batch: int, query: str) -> None:
        raise OSError("no space left")

    given: dict[str, Any] = {"watermark": "1 s", "idle_timeout": "1 s", "output": fail}
    handle = tf.parse(ONE).start(inbox.stream(), checkpoint=tmp_path / "checkpoint", **given)
    with pytest.raises(Exception, match="no space left"):
        handle.await_termination(120)
    time.sleep(0.5)
    beats = sorted((tmp_path / "checkpoint" / "heartbeats").glob("*.json"))
    time.sleep(2.5)
    assert sorted((tmp_path / "checkpoint" / "heartbeats").glob("*.json")) == beats
    assert not any(thread.name == "trendfold heartbeats" for thread in threading.enumerate())


@pytest.mark.parametrize("strategy", ["hamlet", pytest.param("gloria", marks=pytest.mark.slow)])
def test_the_sharing_of_papers_reaches_the_progress(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    count = 600
    table = pa.table(
        {
            "type": ["ABBBBBBC"[i % 8] for i in range(count)],
            "ts": pa.array([1_000 + i // 4 for i in range(count)], pa.int64()),
        }
    )
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    for low in range(0, count, 300):
        inbox.put(table.slice(low, 300))
    text = "QUERY {} RETURN COUNT(*) PATTERN SEQ({}, B+) WITHIN 30 s SLIDE 30 s"
    workload = tf.parse(";".join(text.format(*each) for each in (("one", "A"), ("two", "C"))))
    handle = workload.start(
        inbox.stream(),
        watermark="1 s",
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        trigger="availableNow",
        flush=True,
        strategy=strategy,
    )
    assert handle.await_termination()
    batch = workload.run(table, engine="local", strategy=strategy)
    for query in workload:
        wanted = batch[query.name]
        agree(written(tmp_path / "out", query.name, wanted, 0), wanted)
    progress = handle.progress
    assert set(progress.raw) == {"one", "two"}
    (step,) = progress.plan
    assert isinstance(step.way, SharedPlan)
    assert step.way.method == next(iter(batch.plan)).way.method
    assert dict(progress.sharing) == dict(batch.summary.sharing)


def test_open_windows_report_what_they_hold_so_far(spark: SparkSession, tmp_path: Path) -> None:
    table, files, text = regular(1_000, 1_040), 5, ONE.replace("SLIDE 10 s", "SLIDE 5 s")
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    size = table.num_rows // files
    for number in range(files):
        inbox.put(table.slice(number * size, size))
    handle = tf.parse(text).start(
        inbox.stream(),
        watermark="2 s",
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        trigger="availableNow",
        flush=True,
        emit="update",
    )
    assert handle.await_termination()
    ended: list[dict[str, Any]] = []
    open_seen = 0
    for path in sorted((tmp_path / "out" / "one").glob("batch=*"), key=lambda path: int(path.name[6:])):
        rows = pq.read_table(path, partitioning=None).to_pylist()
        said: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for row in rows:
            said[row.pop("is_final")].append(row)
        ended += said[True]
        if said[False]:
            arrived = table.slice(0, (int(path.name[6:]) + 1) * size)
            so_far = tf.parse(text).run(arrived, engine="local")["one"].to_pylist()
            over = {row["window_start"] for row in ended}
            assert by_key(said[False]) == by_key(row for row in so_far if row["window_start"] not in over)
            open_seen += 1
    assert open_seen >= files - 1
    assert by_key(ended) == by_key(tf.parse(text).run(table, engine="local")["one"].to_pylist())


def by_key(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["window_start"], row["g"]))


@pytest.mark.slow
def test_a_query_is_replaced_at_a_window_border(spark: SparkSession, tmp_path: Path) -> None:
    table, stamp = regular(1_000, 1_100), pa.timestamp("us", "UTC")
    versions = [TWO, TWO.replace("> 3", "> 6"), TWO.replace("COUNT(*)", "COUNT(*), SUM(B.v)")]
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    inbox.put(table.slice(0, 35))
    places: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    handle = tf.parse(f"{ONE}; {versions[0]}").start(inbox.stream(), watermark="5 s", **places)
    try:
        handle.process_all_available()
        with pytest.raises(InputError, match="there is no query 'three'"):
            handle.replace(TWO.replace("two", "three"))
        with pytest.raises(InputError, match="column 'count' of query 'two' would change"):
            handle.replace(TWO.replace("RETURN COUNT(*)", "RETURN MIN(B.v) AS count"))
        handle.replace(versions[1])  # the latest time is 1,034
        assert handle.queries == ("one", "two")
        inbox.put(table.slice(35, 30))
        handle.process_all_available()
    finally:
        handle.stop()
    changed = tf.parse(f"{ONE}; {versions[2]}")
    with pytest.raises(InputError, match="on_change is 'ask'; choose one of fail, replace"):
        changed.start(inbox.stream(), watermark="5 s", on_change="ask", **places)
    again = changed.start(inbox.stream(), watermark="5 s", on_change="replace", **places)  # after 1,064
    try:
        inbox.put(table.slice(65))
        again.process_all_available()
    finally:
        again.stop()
    wanted = []
    for text, low, high in zip(versions, [0, 1_034, 1_064], [1_034, 1_064, 1_080], strict=True):
        rows = tf.parse(text).run(table)["two"]
        begin = rows.column("window_start")
        is_after = pc.greater(begin, pa.scalar(low * 1_000_000, stamp))
        wanted.append(
            rows.filter(pc.and_(is_after, pc.less_equal(begin, pa.scalar(high * 1_000_000, stamp))))
        )
    both = pa.concat_tables(wanted, promote_options="default")
    parts = [pq.read_table(path, partitioning=None) for path in (tmp_path / "out" / "two").rglob("*.parquet")]
    found = pa.concat_tables([both.slice(0, 0), *parts], promote_options="default").sort_by("window_start")
    assert len({len(part.column_names) for part in parts}) == 2
    agree(found, both)
    one = tf.parse(ONE).run(table)["one"]
    one = one.filter(pc.less_equal(one.column("window_end"), pa.scalar(1_094_000_000, stamp)))
    agree(written(tmp_path / "out", "one", one, 1), one)


def test_what_cannot_be_streamed_is_told_before_anything_starts(spark: SparkSession, tmp_path: Path) -> None:
    table = regular(0, 10)
    inbox = Inbox(spark, tmp_path / "in", table.schema)
    given: dict[str, Any] = {"checkpoint": tmp_path / "c", "output": tmp_path / "o", "watermark": "5 s"}
    with pytest.raises(InputError, match="needs a streaming DataFrame"):
        tf.parse(ONE).start(spark.createDataFrame(table), **given)
    with pytest.raises(InputError, match="watermark is 'soon'"):
        tf.parse(ONE).start(inbox.stream(), **{**given, "watermark": "soon"})
    with pytest.raises(InputError, match=r"no column 'tz' \(time_column\); did you mean 'ts'"):
        tf.parse(ONE).start(inbox.stream(), **given, time_column="tz")
    with pytest.raises(QueryError, match=r"column .*'?w'?"):
        tf.parse(ONE.replace("BY g", "BY w").replace("RETURN g", "RETURN w")).start(inbox.stream(), **given)
    with pytest.raises(InputError, match="trigger='availableNow'"):
        tf.parse(ONE).start(inbox.stream(), **given, flush=True)


def test_a_table_keeps_a_batch_once_and_a_function_gets_the_rows_of_each_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = pa.table({"window_start": pa.array([1, 2], pa.timestamp("us", "UTC")), "count": [1.0, 2.0]})
    handed: list[tuple[int, int, str]] = []
    foreach = open_sink(lambda frame, batch, query: handed.append((frame.count(), batch, query)))
    foreach.write(spark, 4, {"one": rows, "two": rows.slice(0, 0)})
    assert handed == [(2, 4, "one")]
    if is_remote(spark):
        return  # the warehouse is the server's
    prefix = f"kept_{time.time_ns()}"
    sink = open_sink(f"table:{prefix}")
    try:
        for batch, part, is_again in ((0, rows, False), (1, rows, True), (1, rows.slice(1), True)):
            sink.write(spark, batch, {"one": part}, is_again)
        found = spark.table(f"{prefix}_one").orderBy("batch", "count").toArrow()
        assert found.select(["batch", "count"]).to_pylist() == [
            {"batch": 0, "count": 1.0},
            {"batch": 0, "count": 2.0},
            {"batch": 1, "count": 2.0},
        ]
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {prefix}_one")
