"""RETURN MATCHES on streams: each match once, when it is complete, in any arrival order (spec 8, 10)."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine, matching
from contract.engine import many
from stream.simulation import Simulation, arrival, cuts, simulate
from trendfold.api import Workload
from trendfold.detect import evaluate
from trendfold.detect.adapt import Adapting
from trendfold.errors import QueryError
from trendfold.query.nodes import Matches, Query, Window, WindowUnit
from trendfold.runtime import find_matches
from trendfold.runtime.release import require_streamable
from trendfold.runtime.spark.blobs import Content
from trendfold.runtime.stream.stream_job import Epoch, stream_job

SEEDS = st.integers(0, 2**40)
SECOND = 1_000_000


def random_query(rng: random.Random) -> tuple[Query, pa.Table]:
    """A query for matches within a duration, and its events."""
    if rng.random() < 0.3:
        case = matching.nested_case(rng)
    else:
        features = {"cross": rng.random() < 0.5, "both": rng.random() < 0.4}
        beside = rng.random() < 0.3
        case = workloads.random_case(rng, matches=True, rejects=True, nots=beside, beside=beside, **features)
    (query,) = tf.parse(case.query)
    window = Window(rng.choice([3, 6, 12, 30]) * SECOND, None, WindowUnit.MICROSECONDS)
    if query.window is None or query.window.unit is WindowUnit.EVENTS:
        query = replace(query, window=window)
    assert isinstance(query.returns, Matches)
    returns = replace(query.returns, attributes=tuple(dict.fromkeys((*query.returns.attributes, "id"))))
    table = engine.to_table(case)
    ids = pa.array(range(table.num_rows), pa.int64())
    at = table.schema.get_field_index("ts")
    times = pa.array([None if t is None else t + 1_000 for t in table.column("ts").to_pylist()])
    table = table.set_column(at, "ts", times.cast(table.schema.field("ts").type)).append_column("id", ids)
    return replace(query, limit=None, returns=returns), table


def canonical(tables: list[pa.Table]) -> list[str]:
    """Matches without the order of their rows."""
    return sorted(repr(row) for table in tables for row in table.to_pylist())


def expected(workload: Workload, table: pa.Table, **options: Any) -> pa.Table:
    return workload.run(table, engine="local", id_column="id", **options)[workload.queries[0].name]


def run(workload: Workload, table: pa.Table, delay: int, rng: random.Random, **options: Any) -> Simulation:
    order = arrival(table.column("ts").to_pylist(), delay, rng)
    shuffled = table.take(pa.array(order, pa.int64()))
    stream = simulate(
        workload, table.schema, delay * SECOND, shards=rng.choice([1, 3]), id_column="id", **options
    )
    for cut in cuts(len(order), rng):
        stream.feed(shuffled.slice(cut.start, cut.stop - cut.start))
    return stream


@many(150)
@given(seed=SEEDS)
def test_any_order_inside_the_delay_gives_the_matches_of_batch(seed: int) -> None:
    rng = random.Random(seed)
    query, table = random_query(rng)
    workload = Workload((query,))
    options = {"order_column": "seq"} if "seq" in table.column_names else {}
    stream = run(workload, table, rng.choice([0, 1, 5, 30]), rng, **options)
    early = canonical(stream.results()[query.name])
    stream.flush()
    wanted = canonical([expected(workload, table, **options)])
    assert stream.late() == 0
    assert canonical(stream.results()[query.name]) == wanted, f"seed {seed}\n{workload}\n{table.to_pylist()}"
    assert set(early) <= set(wanted)
    assert not any(store.text or store.parts for store in stream.shards.values())


def restless(rows: int = 3) -> Adapting:
    """Plans change at every release, and after so many rows, whatever that costs."""
    return Adapting(looks_after=rows, drift=0.0, reluctance=0.0, worth=0.0)


@many(100)
@given(seed=SEEDS)
def test_plans_that_change_all_the_time_change_no_match(seed: int) -> None:
    rng = random.Random(seed)
    query, table = random_query(rng)
    workload = Workload((query,))
    options = {"order_column": "seq"} if "seq" in table.column_names else {}
    wanted = canonical([expected(workload, table, **options)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "FIRST_BATCH", 4)
        patch.setattr(find_matches, "ADAPTING", restless())
        stream = run(workload, table, rng.choice([0, 1, 5]), rng, **options)
        stream.flush()
    assert canonical(stream.results()[query.name]) == wanted, f"seed {seed}\n{workload}\n{table.to_pylist()}"
    assert not any(store.text or store.parts for store in stream.shards.values())
    event("replanned" if plans(stream) > 1 else "never replanned")


def plans(stream: Simulation) -> int:
    """How many join plans were made."""
    told = (blob for batch in stream.told for blob in batch if blob.content is Content.STEP)
    return sum(json.loads(bytes(blob.payload))["counts"].get("plans", 0) for blob in told)


MANY = ";".join(
    f"QUERY q{n} RETURN MATCHES PATTERN SEQ({a} a, {b} b, {c} c) WHERE a.v <= b.v AND b.v < c.v WITHIN 40 s"
    for n, (a, b, c) in enumerate(permutations("ABCD", 3))
)


def changing(count: int, seed: int = 3) -> pa.Table:
    """Events whose rates change halfway."""
    rng = random.Random(seed)
    early, late = rng.choices("AABBBCD", k=count // 2), rng.choices("ABCCCCDDDDDDDD", k=count // 2)
    table = pa.table({"type": early + late, "ts": range(1_000, 1_000 + count)})
    values = pa.array([rng.randint(0, 9) for _ in range(count)])
    return table.append_column("v", values).append_column("id", pa.array(range(count)))


def fed(table: pa.Table, step: int, **options: Any) -> Simulation:
    stream = simulate(tf.parse(MANY), table.schema, 0, shards=1, id_column="id", **options)
    for start in range(0, len(table), step):
        stream.feed(table.slice(start, step))
    return stream


def test_a_plan_goes_on_from_one_micro_batch_to_the_next_and_is_made_anew_when_rates_change() -> None:
    table = changing(2_400)
    stream = fed(table, 60)
    assert 2 <= plans(stream) <= 12  # of 40 releases
    (store,) = stream.shards.values()
    index = json.loads(store.text)
    ((number, size),) = index["join_plans"].values()
    ((opened, opened_bytes, *_),) = index["open_joins"].values()
    assert (len(store.parts[number]), len(store.parts[opened])) == (size, opened_bytes)
    states = [json.loads(bytes(b.payload)) for b in stream.told[-1] if b.content is Content.STATE]
    assert states[-1]["bytes"] == sum(map(len, store.parts.values()))
    stream.flush()
    batch = tf.parse(MANY).run(table, engine="local", id_column="id")
    for name, parts in stream.results().items():
        assert canonical(parts) == canonical([batch[name]])
    assert not store.parts


def keyless(rng: random.Random) -> Workload:
    """Patterns without a key over the same few types: most go on from partial matches, some must not."""
    texts = []
    for n in range(rng.randint(1, 4)):
        parts = [f"{kind} {kind.lower()}" for kind in rng.sample("ABC", rng.choice([2, 3, 3]))]
        names = [part[-1] for part in parts]
        if rng.random() < 0.2:
            parts[rng.randrange(len(parts))] += "+"
        if rng.random() < 0.3:
            parts.insert(rng.randint(0, len(parts)), "NOT D")
        operator = "AND" if "NOT D" not in parts and rng.random() < 0.3 else "SEQ"
        asked = [f"{x}.v <= {y}.v" for x, y in pairwise(names) if rng.random() < 0.7]
        where = f"WHERE {' AND '.join(asked)}" if asked else ""
        window = f"WITHIN {rng.choice([3, 8, 20])} s"
        texts.append(f"QUERY q{n} RETURN MATCHES(id) PATTERN {operator}({', '.join(parts)}) {where} {window}")
    return tf.parse(";".join(texts))


@many(60)
@given(seed=SEEDS)
def test_partial_matches_that_are_kept_between_micro_batches_change_no_match(seed: int) -> None:
    rng = random.Random(seed)
    workload, count = keyless(rng), rng.randint(5, 60)
    times = pa.array(sorted(1_000 + rng.randint(0, count) for _ in range(count)), pa.int64())
    table = pa.table({"type": rng.choices("ABCCD", k=count), "ts": times, "id": pa.array(range(count))})
    table = table.append_column("v", pa.array([rng.choice([None, 0, 1, 2]) for _ in range(count)]))
    stream = run(workload, table, rng.choice([0, 2]), rng)
    event("kept partial matches" if any(open_matches(stream)) else "kept none")
    stream.flush()
    batch = workload.run(table, engine="local", id_column="id")
    for name, parts in stream.results().items():
        assert canonical(parts) == canonical([batch[name]]), f"seed {seed}\n{workload}\n{table.to_pylist()}"
    assert not any(store.text or store.parts for store in stream.shards.values())


def open_matches(stream: Simulation) -> list[int]:
    """How many partial matches were kept after each release."""
    told = (blob for batch in stream.told for blob in batch if blob.content is Content.STATE)
    return [json.loads(bytes(blob.payload))["partial_matches"] for blob in told]


def test_partial_matches_are_extended_by_new_events_and_their_number_follows_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [0]
    join = evaluate._Pool.join

    def counting(pool: Any, *args: Any) -> bool:
        done = join(pool, *args)
        made[0] += pool.made
        return done

    monkeypatch.setattr(evaluate._Pool, "join", counting)
    table = changing(500)
    extending = fed(table, 5)
    kept, first = open_matches(extending), made[0]
    assert 0 < max(kept) < 12 * 40 * 40  # pairs of events of 40 seconds, in every order of two types
    monkeypatch.setattr(find_matches, "MOST_OPEN", -1)
    other = fed(table, 5)
    assert not any(open_matches(other))
    assert first < 0.6 * (made[0] - first)


def test_restless_plans_of_patterns_that_share_find_what_steady_ones_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = changing(600)
    steady = fed(table, 37)
    monkeypatch.setattr(find_matches, "ADAPTING", restless(50))
    other = fed(table, 37)
    assert plans(other) > 10 > plans(steady)
    for stream in (steady, other):
        stream.flush()
    for name, parts in steady.results().items():
        assert canonical(other.results()[name]) == canonical(parts)


def events(*rows: tuple[str, int]) -> pa.Table:
    types, times = zip(*rows, strict=True)
    table = pa.table({"type": types, "ts": pa.array(times, pa.int64())})
    return table.append_column("id", pa.array([f"{t}{s}" for t, s in rows]))


def found(stream: Simulation, name: str = "q1") -> list[tuple[int, int]]:
    return [(row["start"], row["end"]) for part in stream.results()[name] for row in part.to_pylist()]


def test_a_match_is_reported_when_the_watermark_has_passed_its_end() -> None:
    stream = simulate(
        tf.parse("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 10 s"), events(("A", 0)).schema, 2 * SECOND
    )
    stream.feed(events(("A", 1_000), ("B", 1_004)))
    assert found(stream) == []
    stream.feed(events(("C", 1_006)))  # the watermark is 1,004: another event of that time may come
    assert found(stream) == []
    stream.feed(events(("B", 1_004), ("C", 1_007)))
    assert found(stream) == [(1_000, 1_004)] * 2
    stream.feed(events(("C", 1_030)))
    assert found(stream) == [(1_000, 1_004)] * 2


def test_a_missing_event_is_told_when_its_time_is_over() -> None:
    workload = tf.parse("RETURN MATCHES PATTERN SEQ(Request, NOT Pickup) WITHIN 30 min")
    stream = simulate(workload, events(("Request", 0)).schema, 0)
    stream.feed(events(("Request", 1_000), ("Request", 1_100), ("Pickup", 2_850)))
    assert found(stream) == [(1_000, 1_000)]
    stream.feed(events(("Other", 2_899)))
    assert found(stream) == [(1_000, 1_000)]
    stream.feed(events(("Other", 9_000)))
    assert found(stream) == [(1_000, 1_000)]  # the second one was picked up


def test_the_state_holds_the_events_of_one_window() -> None:
    stream = simulate(tf.parse("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 10 s"), events(("A", 0)).schema, 0)
    sizes = []
    for start in range(1_000, 3_000, 100):
        stream.feed(events(*(("A", start + i) for i in range(100))))
        sizes.append(sum(len(part) for store in stream.shards.values() for part in store.parts.values()))
    assert max(sizes[1:]) <= 1.5 * sizes[1]


def test_the_state_holds_only_events_that_can_match() -> None:
    workload = tf.parse(
        "RETURN MATCHES PATTERN SEQ(A, NOT N, B) WHERE A.ts > 1050 AND N.id = 'none' WITHIN 1 h"
    )
    table = events(*((kind, 1_000 + i) for i in range(100) for kind in "ABN"))
    stream = simulate(workload, table.schema, 10 * SECOND)
    stream.feed(table.slice(0, 150))
    stream.feed(events(("A", 1_010)))  # late, though it could not match
    stream.feed(table.slice(150))
    states = [json.loads(bytes(b.payload)) for b in stream.told[-1] if b.content is Content.STATE]
    rows = sum(b.rows for b in stream.told[-1] if b.content is Content.STATE)
    assert (len(states), rows) == (1, 49 + 100)
    assert stream.late() == 1
    stream.flush()
    assert len(found(stream)) == 49 * 48 / 2


def test_a_query_that_is_added_reports_matches_that_begin_later() -> None:
    asked = "RETURN MATCHES PATTERN SEQ(A, B) WITHIN 10 s"
    stream = simulate(tf.parse(asked), events(("A", 0)).schema, 0)
    stream.feed(events(("A", 1_000), ("A", 1_002)))
    old, job = stream.stream, stream.stream.job
    plans = tf.parse(f"QUERY later {asked}").plan()
    epochs = [Epoch(job.plans), Epoch(plans, 1_002 * SECOND)]
    stream.stream = replace(
        stream_job(epochs, (), job.schema, job.options, 0, job.limits, "auto", 3, True), delay_ms=old.delay_ms
    )
    stream.feed(events(("B", 1_003), ("A", 1_004), ("B", 1_005)))
    stream.flush()
    assert sorted(found(stream)) == [
        (1_000, 1_003),
        (1_000, 1_005),
        (1_002, 1_003),
        (1_002, 1_005),
        (1_004, 1_005),
    ]
    assert found(stream, "later") == [(1_004, 1_005)]


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("", "needs WITHIN: without it every event may still be part of a match"),
        ("WITHIN 5 events", "count windows are for batch"),
        ("WITHIN 5 s LIMIT 3", "LIMIT is for batch: a stream reports every match"),
    ],
)
def test_what_a_stream_cannot_report_is_an_error(clauses: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        require_streamable(tf.parse(f"RETURN MATCHES PATTERN SEQ(A, B) {clauses}").queries)
