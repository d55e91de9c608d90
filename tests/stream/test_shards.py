"""Any arrival order inside the delay and any cut into micro-batches gives the rows of batch."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import trendfold as tf
import workloads
from contract import engine
from spark.agreement import agree
from stream.simulation import arrival, cuts, ordered, simulate
from trendfold.api import Workload
from trendfold.errors import RejectError, TrendfoldError
from trendfold.query.nodes import Query, WindowUnit
from trendfold.runtime.limits import DEFAULTS, Limits
from trendfold.runtime.release import ALWAYS
from trendfold.runtime.spark.blobs import Content
from trendfold.runtime.stream.parcels import AHEAD, CLOCK
from trendfold.runtime.stream.shard_state import ShardIndex
from trendfold.runtime.stream.stream_job import Epoch, stream_job


def random_stream(seed: int, count: int) -> tuple[Workload, pa.Table]:
    """Random queries with windows that end, over the events of all of them."""
    rng = random.Random(seed)
    queries: list[Query] = []
    tables = []
    while len(queries) < count:
        case = workloads.random_case(
            rng,
            aggregates=True,
            having=rng.random() < 0.3,
            both=rng.random() < 0.2,
            cross=rng.random() < 0.1,
            sets=rng.random() < 0.3,
            times=rng.random() < 0.3,
        )
        (query,) = tf.parse(case.query)
        if query.window is None or query.window.unit is WindowUnit.EVENTS:
            continue
        if query.where or rng.random() < 0.5:
            query = replace(query, equivalence=(*query.equivalence, "case"))
        number = len(queries)
        queries.append(replace(query, name=f"q{number}"))
        table = engine.to_table(case)
        at = table.schema.get_field_index("ts")
        times = [None if t is None else t + 40 * number + 1_000 for t in table.column("ts").to_pylist()]
        table = table.set_column(at, "ts", pa.array(times, table.schema.field("ts").type))
        tables.append(table.append_column("case", pa.array([number] * table.num_rows, pa.int64())))
    return Workload(tuple(queries)), pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def slow(*seeds: int) -> list[Any]:
    return [pytest.param(seed, marks=pytest.mark.slow) for seed in seeds]


@pytest.mark.parametrize("seed", [0, 1, *slow(*range(2, 40))])
def test_random_workloads_in_any_order_inside_the_delay_give_the_rows_of_batch(seed: int) -> None:
    workload, table = random_stream(seed, 12)
    rng = random.Random(seed)
    delay = rng.choice([0, 1, 5, 30, 200])
    order = arrival(table.column("ts").to_pylist(), delay, rng)
    stream = simulate(workload, table.schema, delay * 1_000_000, shards=rng.choice([1, 3]))
    shuffled = table.take(pa.array(order))
    for cut in cuts(len(order), rng):
        stream.feed(shuffled.slice(cut.start, cut.stop - cut.start))
    batch = workload.run(table, engine="local")
    for query in workload:  # whatever the watermark has passed is there before the end
        ends = [row["window_end"] for part in stream.results()[query.name] for row in part.to_pylist()]
        passed = stream.watermark_ms / 1000 - (query.window.slide is None)
        assert len(ends) == sum(end <= passed for end in batch[query.name].column("window_end").to_pylist())
    stream.flush()
    assert stream.late() == 0
    found = stream.results()
    for query in workload:
        keys = len(query.group_by)
        agree(ordered(found[query.name], batch[query.name], keys), batch[query.name])
    assert not any(store.text or store.parts for store in stream.shards.values())


# ---------------------------------------------------------------- late events


COUNTS = tf.parse("RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 10 s SLIDE 10 s")


def events(*rows: tuple[str, int, int]) -> pa.Table:
    types, times, groups = zip(*rows, strict=True)
    return pa.table({"type": types, "ts": pa.array(times, pa.int64()), "g": pa.array(groups, pa.int64())})


def test_a_late_event_is_a_reject_and_never_part_of_a_row() -> None:
    stream = simulate(COUNTS, events(("A", 0, 0)).schema, 5_000_000)
    stream.feed(events(("A", 1_001, 1), ("B", 1_002, 1), ("A", 1_019, 1)))  # the watermark is then 1,014
    stream.feed(events(("B", 1_009, 1), ("A", 1_014, 1), ("B", 1_015, 1)))
    assert stream.late() == 1
    (late,) = [b for blobs in stream.told for b in blobs if b.content is Content.LATE]
    assert late.table().to_pylist() == [{"g": 1, "ts": 1_009, "type": "B", "reason": "late"}]
    stream.flush()
    found = pa.concat_tables(stream.results()["q1"]).to_pylist()
    assert [(row["window_start"], row["count"]) for row in found] == [(1_000, 1.0), (1_010, 1.0)]


def test_an_event_below_the_watermark_is_late_even_if_its_windows_are_all_open() -> None:
    stream = simulate(COUNTS, events(("A", 0, 0)).schema, 1_000_000)
    stream.feed(events(("A", 1_001, 1), ("B", 1_008, 1)))  # the watermark is then 1,007
    stream.feed(events(("B", 1_002, 1), ("B", 1_007, 1)))
    stream.flush()
    assert stream.late() == 1
    assert pa.concat_tables(stream.results()["q1"]).to_pylist()[0]["count"] == 2.0


def test_an_event_that_several_exchanges_need_is_late_once() -> None:
    workload = tf.parse("""
    QUERY one RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 10 s SLIDE 10 s;
    QUERY two RETURN COUNT(*) PATTERN SEQ(B, A) WITHIN 10 s SLIDE 10 s HAVING COUNT(*) > 0
    """)
    stream = simulate(workload, events(("A", 0, 0)).schema, 0)
    stream.feed(events(("A", 1_001, 1), ("B", 1_030, 1)))
    stream.feed(events(("A", 1_001, 1), ("B", 1_002, 1)))
    assert stream.late() == 2


def test_a_late_event_is_kept_with_all_columns_that_queries_read() -> None:
    workload = tf.parse("""
    QUERY one RETURN g, COUNT(*) PATTERN SEQ(A, B) WHERE A.v > 3 GROUP BY g WITHIN 10 s SLIDE 10 s;
    QUERY two RETURN COUNT(*) PATTERN SEQ(B, A) WHERE B.w = 'x' WITHIN 10 s SLIDE 10 s
    """)
    table = events(("A", 1_001, 1), ("B", 1_030, 1), ("B", 1_002, 2), ("A", 1_031, 2))
    table = table.append_column("v", pa.array([7, 8, None, 9])).append_column(
        "w", pa.array(["x", "y", "z", ""])
    )
    stream = simulate(workload, table.schema, 0)
    stream.feed(table.slice(0, 2))
    stream.feed(table.slice(2))
    (late,) = [b for blobs in stream.told for b in blobs if b.content is Content.LATE]
    row = {"type": "B", "ts": 1_002, "g": 2, "v": None, "w": "z", "reason": "late"}
    assert late.table().to_pylist() == [row]
    assert late.table().column_names == list(row)


def test_an_event_of_the_far_future_is_rejected_and_makes_no_other_late() -> None:
    now, day = 1_700_000_000, 86_400
    table = events(("A", now, 1), ("A", now + 9_000_000_000, 1), ("B", now + day, 1), ("B", now + day + 1, 1))
    for max_ahead, left in ((day * 1_000_000, 2), (None, 0)):
        stream = simulate(COUNTS, table.schema, 0)
        stream.stream = replace(stream.stream, max_ahead=max_ahead)
        clock = pa.array([now * 1_000_000] * 4, pa.timestamp("us", "UTC"))
        stream.feed(table.append_column(CLOCK, clock))
        refused = [b.table() for blobs in stream.told for b in blobs if b.content is Content.REJECTS]
        assert sum(part.num_rows for part in refused) == left
        for part in refused:
            assert set(part.column("reason").to_pylist()) == {AHEAD}
        stream.feed(events(("A", now + day + 5, 1)))
        assert stream.late() == (0 if max_ahead else 1)


def test_on_reject_fail_stops_at_a_late_event() -> None:
    stream = simulate(COUNTS, events(("A", 0, 0)).schema, 0, on_reject="fail")
    stream.feed(events(("A", 1_030, 1)))
    with pytest.raises(RejectError, match="late"):
        stream.feed(events(("A", 1_001, 1)))


# ---------------------------------------------------------------- state


@pytest.mark.parametrize(
    "window", ["WITHIN 60 s SLIDE 60 s", "WITHIN 60 s SLIDE 10 s", "WITHIN 30 s", "WITHIN 5 s SLIDE 20 s"]
)
def test_state_is_flat_and_groups_that_stop_sending_leave_nothing_behind(window: str) -> None:
    workload = tf.parse(f"RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g {window}")
    rng = np.random.default_rng(0)
    stream = simulate(workload, events(("A", 0, 0)).schema, 10_000_000)
    sizes = []
    for minute in range(60):  # other groups every minute
        times = 1_000 + 60 * minute + np.sort(rng.integers(0, 60, 200))
        kinds = rng.choice(["A", "B"], 200).tolist()
        groups = (1_000 * minute + rng.integers(0, 1_000, 200)).tolist()
        stream.feed(events(*zip(kinds, times.tolist(), groups, strict=True)))
        sizes.append(sum(len(part) for store in stream.shards.values() for part in store.parts.values()))
    assert max(sizes[30:]) <= 1.5 * max(sizes[3:30])
    stream.feed(events(("A", 100_000, 1), ("B", 200_000, 1)))
    stream.feed(events(("B", 300_000, 1)))
    kept = [part for store in stream.shards.values() for part in store.parts.values()]
    assert len(kept) <= 1


@pytest.mark.slow
def test_an_hour_at_ten_thousand_groups_holds_state_flat() -> None:
    workload = tf.parse("RETURN g, COUNT(*) PATTERN SEQ(A, B+) GROUP BY g WITHIN 5 min SLIDE 1 min")
    rng = np.random.default_rng(1)
    schema = events(("A", 0, 0)).schema
    stream = simulate(workload, schema, 30_000_000)
    sizes = []
    for batch in range(360):  # ten seconds each
        times = 10_000 + 10 * batch + np.sort(rng.integers(0, 10, 5_000))
        kinds = pa.array(rng.choice(["A", "B"], 5_000))
        stream.feed(pa.table([kinds, times, rng.integers(0, 10_000, 5_000)], schema=schema))
        stream.told = stream.told[-2:]
        sizes.append(sum(len(part) for store in stream.shards.values() for part in store.parts.values()))
    assert max(sizes[180:]) <= 1.1 * max(sizes[60:180])


def test_many_small_batches_of_one_window_are_put_together() -> None:
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10000 s SLIDE 10000 s")
    stream = simulate(workload, events(("A", 0, 0)).schema, 0)
    table = events(*[("AB"[i % 2], 10_000 + i, i) for i in range(400)])
    for i in range(400):
        stream.feed(table.slice(i, 1))
    assert sum(len(store.parts) for store in stream.shards.values()) < 40
    stream.flush()
    assert stream.results()["q1"][0].to_pylist() == workload.run(table)["q1"].to_pylist()


def test_state_of_another_layout_is_refused() -> None:
    stream = simulate(COUNTS, events(("A", 0, 0)).schema, 0)
    stream.feed(events(("A", 1_001, 1)))
    (store,) = [store for store in stream.shards.values() if store.text]
    store.text = store.text.replace('"layout": 2', '"layout": 99')
    with pytest.raises(TrendfoldError, match="layout 99"):
        stream.feed(events(("A", 1_002, 1)))


# ---------------------------------------------------------------- a changing workload


def test_an_added_query_starts_with_the_first_window_after_the_latest_time_and_disturbs_no_other() -> None:
    other = tf.parse("QUERY more RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.g > 0 WITHIN 20 s SLIDE 5 s")
    table = events(*[("AB"[i % 2], 1_000 + i, i % 4) for i in range(120)])
    stream = simulate(COUNTS, table.schema, 3_000_000)
    stream.feed(table.slice(0, 50))
    old = stream.stream
    epochs = [Epoch(COUNTS.plan()), Epoch(other.plan(), since=1_049_000_000)]
    changed = stream_job(epochs, (), table.schema, old.job.options, 0, DEFAULTS, "auto", 3)
    stream.stream = changed
    stream.feed(table.slice(50, 20))
    stream.stream = stream_job(epochs, (0,), table.schema, old.job.options, 0, DEFAULTS, "auto", 3)
    rows_before = len(stream.results()["q1"])
    stream.feed(table.slice(70))
    stream.flush()
    assert len(stream.results()["q1"]) == rows_before  # it was removed
    (wanted,) = [other.run(table)["more"]]
    wanted = wanted.filter(pc.greater(wanted.column("window_start"), 1_049))
    agree(ordered(stream.results()["more"], wanted, 0), wanted)
    first = COUNTS.run(table)["q1"]
    first = first.filter(pc.less_equal(first.column("window_end"), 1_066))
    agree(ordered(stream.results()["q1"], first, 1), first)
    assert not any(store.text for store in stream.shards.values())


@pytest.mark.parametrize("window", ["WITHIN 20 s SLIDE 5 s", "WITHIN 10 s SLIDE 10 s", "WITHIN 7 s"])
@pytest.mark.parametrize("batch", [1, 7, 40])
def test_every_window_is_reported_once_by_a_query_or_the_one_that_replaced_it(
    window: str, batch: int
) -> None:
    old = tf.parse(f"QUERY q RETURN COUNT(*) PATTERN SEQ(A, B+) GROUP BY g {window}")
    new = tf.parse(f"QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WHERE B.g > 0 GROUP BY g {window}")
    table = events(*[("AB"[i % 2], 1_000 + i, i // 2 % 4) for i in range(120)])
    stream = simulate(old, table.schema, 3_000_000)
    for first in range(0, 50, batch):
        stream.feed(table.slice(first, min(batch, 50 - first)))
    options, latest = stream.stream.job.options, 1_049_000_000
    epochs = [Epoch(old.plan()), Epoch(new.plan(), since=latest)]
    stream.stream = stream_job(
        epochs, (), table.schema, options, 0, DEFAULTS, "auto", 3, replaced={0: latest}, delay_ms=3_000
    )
    for first in range(50, 120, batch):
        stream.feed(table.slice(first, batch))
    # Once the old query's windows are reported, nothing is kept for it.
    kept = [part for store in stream.shards.values() for part in ShardIndex.load(store, ALWAYS).parts]
    assert {part.exchange for part in kept} <= {1}
    stream.flush()
    before, after = old.run(table)["q"], new.run(table)["q"]
    begins_later = pc.greater(before.column("window_start"), 1_049)
    successor = after.filter(pc.greater(after.column("window_start"), 1_049))
    wanted = ordered([before.filter(pc.invert(begins_later)), successor], before, 1)
    assert 0 < pc.sum(begins_later).as_py() < before.num_rows
    agree(ordered(stream.results()["q"], wanted, 1), wanted)


@pytest.mark.parametrize("slide", ["SLIDE 1 ms", ""], ids=["sliding", "per event"])
def test_a_release_cuts_only_the_windows_that_it_reports(slide: str) -> None:
    workload = tf.parse(f"RETURN COUNT(*) PATTERN A WITHIN 1 h {slide}")
    table = pa.table({"type": ["A"] * 1_000, "ts": [10 * i for i in range(1_000)]})
    stream = simulate(workload, table.schema, 0, 1, time_unit="ms", limits=Limits(windows=1_000))
    for first in range(0, 200, 50):
        stream.feed(table.slice(first, 50))
    (found,) = stream.results().values()
    assert sum(part.num_rows for part in found) >= 190
    if slide:  # half a second on, all at once, would be too many
        stream.feed(table.slice(500, 1))
        stream.feed(table.slice(501, 1))
        errors = [blob for told in stream.told for blob in told if blob.content is Content.ERROR]
        assert b"over limits windows=1,000" in bytes(errors[0].payload)
