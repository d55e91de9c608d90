"""What a checkpoint can carry, what is written once, and what is told where it cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trendfold as tf
from trendfold.errors import InputError, QueryError, TrendfoldError
from trendfold.plan.spread import Mode
from trendfold.query import to_text
from trendfold.runtime.ownership import OWNER_FILE, Owner
from trendfold.runtime.places import place
from trendfold.runtime.release import ALWAYS, NEVER, Release, require_streamable
from trendfold.runtime.spark.exchanges import Exchange, joined
from trendfold.runtime.spark.heartbeats import FOLDER, Heartbeats
from trendfold.runtime.spark.lease import Lease
from trendfold.runtime.spark.manifest import (
    Entry,
    Manifest,
    Tally,
    carried_on,
    describe,
    require_same_exchanges,
)
from trendfold.runtime.stream import layout

pytest.importorskip("pyspark")

from trendfold.runtime.spark.sink_claims import claims
from trendfold.runtime.spark.sinks import open_sink

ONE = "QUERY one RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s"
TWO = "QUERY two RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE A.v > 3 WITHIN 10 s SLIDE 10 s"


def manifest(*texts: str, **columns: str) -> Manifest:
    entries = tuple(Entry(to_text(query)) for text in texts for query in tf.parse(text))
    return Manifest({"shards": 2, "origin": 0}, {"type": "string", **columns}, entries)


# ---------------------------------------------------------------- workloads


def test_an_unchanged_workload_goes_on() -> None:
    assert carried_on(manifest(ONE, TWO), manifest(ONE, TWO), 5).asked.keys() == {"one", "two"}


def test_a_new_query_is_added_after_the_latest_time() -> None:
    found = carried_on(manifest(ONE), manifest(ONE, TWO), 5)
    assert found.asked["two"].since == 5
    assert found.asked["two"].epoch == 1


def test_what_was_added_and_removed_while_it_ran_stays_so() -> None:
    changed = manifest(ONE).with_queries(tuple(tf.parse(TWO)), 7).without("one")
    again = Manifest.from_json(changed.to_json())
    assert list(carried_on(again, manifest(ONE), 9).asked) == ["two"]
    assert carried_on(again, manifest(ONE), 9).asked["two"].since == 7


def test_a_query_that_changed_is_an_error_that_names_it() -> None:
    other = TWO.replace("> 3", "> 4")
    with pytest.raises(InputError, match="query 'two' differs from the one"):
        carried_on(manifest(ONE, TWO), manifest(ONE, other), 5)


def test_a_query_that_changed_is_replaced_if_that_is_asked_for() -> None:
    other = TWO.replace("> 3", "> 4")
    found = carried_on(manifest(ONE, TWO), manifest(ONE, other), 5, "replace")
    found = Manifest.from_json(found.to_json())
    assert [(entry.query.name, entry.since, entry.until) for entry in found.entries] == [
        ("one", ALWAYS, NEVER),
        ("two", ALWAYS, 5),
        ("two", 5, NEVER),
    ]
    assert found.asked["two"].text == found.entries[2].text != found.entries[1].text
    assert carried_on(found, manifest(ONE, other), 9, "replace") == found
    back = carried_on(found, manifest(ONE, TWO), 9, "replace")
    assert (back.asked["two"].text, back.asked["two"].since) == (found.entries[1].text, 9)


def test_only_a_query_that_is_there_can_be_replaced() -> None:
    with pytest.raises(InputError, match="did you mean 'one'"):
        manifest(ONE).with_replaced(tuple(tf.parse(ONE.replace("one", "ome"))), 5)


def test_a_column_of_another_type_is_an_error_that_names_the_query() -> None:
    with pytest.raises(InputError, match="column 'v' of query 'two' is double"):
        carried_on(manifest(ONE, TWO, v="int64"), manifest(ONE, TWO, v="double"), 5)
    with pytest.raises(InputError, match="column 'v' of query 'two' is gone"):
        carried_on(manifest(ONE, TWO, v="int64"), manifest(ONE, TWO), 5)


def test_settings_that_the_state_depends_on_cannot_change() -> None:
    other = replace(manifest(ONE), settings={"shards": 2, "origin": 3})
    with pytest.raises(InputError, match="origin is 3"):
        carried_on(manifest(ONE), other, 5)


def test_heartbeats_are_there_from_the_first_start_or_never() -> None:
    beating = replace(manifest(ONE), settings={"shards": 2, "origin": 0, "has_heartbeats": True})
    with pytest.raises(InputError, match="idle_timeout is given, but the checkpoint was made without one"):
        carried_on(manifest(ONE), beating, 5)
    assert carried_on(beating, beating, 5) == beating


def test_heartbeats_end_with_the_stream(tmp_path: Path) -> None:
    def ended() -> bool:
        raise OSError("Spark has ended")

    for is_running in (lambda: False, ended):
        beats = Heartbeats(place(tmp_path), 0.04, is_running=is_running)
        beats.start()
        beats._thread.join(5)
        assert not beats._thread.is_alive()


def test_a_heartbeat_goes_on_from_the_latest_event_once_the_source_is_idle(tmp_path: Path) -> None:
    folder, clock = place(tmp_path), [100.0]
    (folder / FOLDER).make()
    beats = Heartbeats(folder, 10, now=lambda: clock[0])
    clock[0] = 200.0
    assert beats.beat() is None  # no event has arrived yet
    Tally(batch=0, latest=7_000_000, events=3).write(folder)
    assert beats.beat() is None
    clock[0] = 205.0
    Tally(batch=1, latest=7_500_000, events=4).write(folder)
    assert beats.beat() is None
    clock[0] = 214.0
    assert beats.beat() is None
    clock[0] = 215.0
    assert beats.beat() == 17_500_000
    clock[0] = 224.0
    assert beats.beat() is None
    clock[0] = 225.0
    assert beats.beat() == 27_500_000
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} == {"17500000.json", "27500000.json"}


def test_a_flushed_stream_has_ended() -> None:
    with pytest.raises(InputError, match="has ended"):
        carried_on(replace(manifest(ONE), is_flushed=True), manifest(ONE), 5)


def told_of(*exchanges: Exchange) -> list[str]:
    """How exchanges are told of in a manifest; their queries are named a, b, c, ..."""
    return [describe(each, [chr(ord("a") + query) for query in each.queries]) for each in exchanges]


def test_events_kept_in_another_way_are_refused_by_the_name_of_a_query() -> None:
    one = Exchange(Mode.LINEAR, ("g",), (0,), ("g", "ts"), (), frozenset("AB"))
    two = replace(one, key=("u",), queries=(1,))
    names = [["a"], ["b"], ["c"]]
    require_same_exchanges(told_of(one), told_of(one, two), names)
    for other in (
        replace(two, columns=("g", "ts", "x")),
        replace(two, types=None),
        replace(two, queries=(2,)),
    ):
        with pytest.raises(TrendfoldError, match="query 'b'"):
            require_same_exchanges(told_of(one, two), told_of(one, other, one), names)


def test_queries_may_join_an_exchange_and_widen_what_it_stores() -> None:
    (query,) = tf.parse("RETURN COUNT(*) PATTERN A WHERE A.x > 1")
    one = Exchange(Mode.LINEAR, ("g",), (0,), ("g", "ts"), (), frozenset("AB"))
    more = Exchange(Mode.LINEAR, ("g",), (1, 2), ("g", "ts", "x"), query.where, frozenset("BC"))
    both = joined(one, more)
    assert both == replace(more, queries=(0, 1, 2), types=frozenset("ABC"))
    require_same_exchanges(told_of(one), told_of(both), [["a", "b", "c"]])
    for wrong in (
        replace(both, columns=("ts", "x")),
        replace(both, types=frozenset("BC")),
        replace(both, queries=(1, 0)),
    ):
        with pytest.raises(TrendfoldError, match="differently"):
            require_same_exchanges(told_of(one), told_of(wrong), [["a", "b", "c"]])
    everything = joined(replace(one, types=None), more)
    assert everything is not None
    assert everything.types is None
    assert joined(one, replace(more, key=("u",))) is None
    matching = replace(one, finds_matches=True)
    assert joined(matching, matching) is None


def test_added_queries_join_others_and_those_that_replace_others_do_not() -> None:
    kept = manifest(ONE).with_queries(tuple(tf.parse(TWO)), 5)
    assert [joins for _, _, joins in kept.epochs()] == [False, True]
    changed = tuple(tf.parse(ONE.replace("WITHIN", "HAVING COUNT(*) > 1 WITHIN")))
    assert [joins for _, _, joins in kept.with_replaced(changed, 9).epochs()] == [False, True, False]
    assert Manifest.from_json(kept.to_json()) == kept


def test_adding_a_name_that_is_there_and_removing_one_that_is_not() -> None:
    with pytest.raises(InputError, match="'one' already"):
        manifest(ONE).with_queries(tuple(tf.parse(ONE)), 0)
    with pytest.raises(InputError, match="did you mean 'one'"):
        manifest(ONE, TWO).without("ome")
    with pytest.raises(InputError, match="the only query left"):
        manifest(ONE).without("one")


def test_windows_that_never_end_in_a_stream_are_all_told_of_at_once() -> None:
    workload = tf.parse("""
    QUERY counted RETURN COUNT(*) PATTERN A+ WITHIN 10 events SLIDE 5 events;
    QUERY endless RETURN COUNT(*) PATTERN A+;
    """)
    with pytest.raises(QueryError) as told:
        require_streamable(workload.queries)
    assert "query 'counted': count windows are for batch" in str(told.value)
    assert "query 'endless': a query over a stream needs WITHIN" in str(told.value)


# ---------------------------------------------------------------- counts and files


def test_a_batch_that_is_run_again_is_counted_once() -> None:
    first = Tally().after(0, 10, 5, 1, 0, {"one": 3}, {})
    second = first.after(1, 12, 5, 0, 2, {"one": 1}, {})
    assert second.after(1, 12, 5, 0, 2, {"one": 1}, {}) == second
    assert (second.events, second.late, second.rows["one"], second.latest) == (10, 2, 4, 12)


def test_the_tally_survives_on_disk(tmp_path: Path) -> None:
    kept = Tally().after(0, 10, 5, 1, 0, {"one": 3}, {"4": {"rows": 1}})
    kept.write(place(tmp_path))
    assert Tally.read(place(tmp_path)) == kept


@pytest.mark.parametrize("file_format", ["parquet", "json"])
def test_a_batch_that_is_written_again_overwrites_itself(tmp_path: Path, file_format: str) -> None:
    sink, nobody = open_sink(tmp_path, file_format), Any
    sink.write(nobody, 3, {"a/b": pa.table({"x": [1, 2]})})
    sink.write(nobody, 3, {"a/b": pa.table({"x": [7]})})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.parent.name for path in files] == ["batch=3"]
    if file_format == "parquet":
        assert pq.read_table(tmp_path / "a%2Fb").column("x").to_pylist() == [7]
    else:
        assert files[0].read_text() == '{"x": 7}\n'
    sink.write(nobody, 3, {"a/b": pa.table({"x": pa.array([], pa.int64())})}, is_again=True)
    assert not list(tmp_path.rglob("batch=3"))


def test_what_is_written_is_synced_before_it_takes_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, list[str]]] = []

    def sync(opened: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{opened}"))
        synced.append((path.name, sorted(inner.name for inner in path.parent.iterdir())))

    monkeypatch.setattr(os, "fsync", sync)
    (place(tmp_path) / "tally.json").write(b"{}")
    assert synced[0] == ("tally.json.part", ["tally.json.part"])
    assert synced[1][0] == tmp_path.name
    synced.clear()
    open_sink(tmp_path / "out").write(Any, 3, {"one": pa.table({"x": [1]})})
    before = [name for name, beside in synced if "batch=3" not in beside]
    assert before[-3:] == ["part-0.parquet", ".batch=3", "one"]  # the last after the batch has its name


def test_rows_of_a_run_are_replaced_by_a_stream_only_if_asked_for_and_other_files_never(
    tmp_path: Path,
) -> None:
    folder, nobody = place(tmp_path), Any
    for name in ("one.parquet", "notes.txt"):
        (tmp_path / name).write_text("kept")
    Owner("run", "r", files=("one.parquet",)).write(folder)
    (claim,) = claims("s", open_sink(tmp_path), None)
    with pytest.raises(InputError, match="holds the rows of a batch run"):
        claim.require(nobody, ["one"], ())
    assert (tmp_path / "one.parquet").exists()
    claim.take(nobody, ["one"], ())
    assert [path.name for path in sorted(tmp_path.iterdir())] == [OWNER_FILE, "notes.txt"]
    claim.require_held(nobody)
    Owner("stream", "t").write(folder)
    with pytest.raises(TrendfoldError, match="no longer this stream's output"):
        claim.require_held(nobody)


def test_a_checkpoint_is_for_one_process_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    hold = (
        "import sys, time; from trendfold.runtime.places import place; "
        "from trendfold.runtime.spark.lease import Lease; "
        "Lease(place(sys.argv[1]), lambda: True).take(); print('held', flush=True); time.sleep(60)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", hold, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        mine = Lease(place(tmp_path), lambda: True)
        with pytest.raises(
            InputError, match=rf"another process \({other.pid} on .*\) is running on the checkpoint"
        ):
            mine.take()
        other.kill()
    mine.take()
    with pytest.raises(InputError, match="a stream of this process is running"):
        Lease(place(tmp_path), lambda: True).take()
    mine.release()
    Lease(place(tmp_path), lambda: False).take()
    again = Lease(place(tmp_path), lambda: False)
    again.take()  # the one before has ended
    again.release()


def test_an_output_of_another_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="format 'csv'"):
        open_sink(tmp_path, "csv")


def test_events_come_back_from_bytes_as_they_were() -> None:
    table = pa.table(
        {
            "small": pa.array(range(-5, 95), pa.int64()),
            "far": pa.array([2**63 - 1, -(2**63)] * 50),
            "null": pa.array([None, 1] * 50, pa.int64()),
            "time": pa.array(range(100), pa.timestamp("us", "Europe/Berlin")),
            "day": pa.array(range(100), pa.date32()),
            "word": pa.array(["x", None, "y", "zz"] * 25).dictionary_encode(),
            "narrow": pa.array([2**31 - 1, -(2**31)] * 50, pa.int32()),
            "real": pa.array([0.5] * 100),
            "text": pa.array(["a"] * 100),
        }
    )
    for part in (table, table.slice(3, 1), table.slice(0, 0)):
        back = layout.from_bytes(layout.to_bytes(part))
        assert back.schema == part.schema
        assert back.to_pylist() == part.to_pylist()


# ---------------------------------------------------------------- when windows are reported


def test_a_window_is_due_when_the_watermark_reaches_its_end() -> None:
    (query,) = tf.parse("RETURN COUNT(*) PATTERN A+ WITHIN 10 s SLIDE 4 s")
    release = Release(query.window, origin=0)
    assert release.due(12_000_000, 0) == 14_000_000  # of [4, 14)
    assert release.last_end(15_000_000) == 14_000_000
    assert release.floor(15_000_000) == 8_000_000  # [8, 18) is open
    assert release.floor(13_999_999) == 4_000_000


def test_a_window_per_event_is_due_after_its_event() -> None:
    (query,) = tf.parse("RETURN COUNT(*) PATTERN A+ WITHIN 10 s")
    release = Release(query.window, origin=0)
    assert release.due(12_000_000, 0) == 12_000_001
    asked = release.asked(5, 12)
    assert (asked.after, asked.until) == (4, 11)
    assert release.floor(12_000_000) == 2_000_001
