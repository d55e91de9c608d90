"""Events that are folded as they become final give the oracle's rows, wherever they are cut."""

from __future__ import annotations

import base64
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import trendfold as tf
from contract import engine
from contract.test_machine_lanes import growing_workload, many_events, random_events, random_workload
from contract.test_mixed_lanes import mixed_workload
from contract.test_together import SCHEMA
from contract.test_type_sets import with_sets
from spark.agreement import agree
from stream.simulation import Memory, Simulation, arrival, cuts, ordered, simulate
from trendfold.api import Workload
from trendfold.kernel.jit import IS_PLAIN
from trendfold.plan import stream_choices
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.release import ALWAYS, NEVER
from trendfold.runtime.spark.blobs import Content
from trendfold.runtime.spark.recorder import with_finality
from trendfold.runtime.stream import settling
from trendfold.runtime.stream.shard_state import ShardIndex
from trendfold.runtime.stream.stream_job import Epoch, stream_job
from trendfold.testing import oracle

FIXTURES = Path(__file__).parents[1] / "fixtures" / "stream"

START = 10_000
"""Spark's watermark begins in 1970."""


def keep_raw(monkeypatch: pytest.MonkeyPatch, most: int | None) -> None:
    """Segments with more than so many events get vectors; None leaves that to their sizes."""
    if most is not None:
        monkeypatch.setattr(settling, "most_raw_rows", lambda *_: most)
        monkeypatch.setattr(settling, "most_raw_rows_per_value", lambda *_: 0)


def feed(stream: Simulation, table: pa.Table, delay: float, rng: random.Random, most_cuts: int = 8) -> None:
    """Feed events in some order within the delay, in micro-batches of any size, and end the stream."""
    shuffled = table.take(pa.array(arrival(table.column("ts").to_pylist(), delay, rng), pa.int64()))
    for cut in cuts(table.num_rows, rng, most_cuts):
        stream.feed(shuffled.slice(cut.start, cut.stop - cut.start))
    stream.flush()
    assert stream.late() == 0
    assert not any(store.text or store.parts for store in stream.shards.values())


WINDOWS = (
    "WITHIN 4 s SLIDE 4 s",
    "WITHIN 9 s SLIDE 3 s",
    "WITHIN 7 s SLIDE 3 s",
    "WITHIN 6 s SLIDE 8 s",
    "WITHIN 20 s SLIDE 1 s",
    "WITHIN 140 s SLIDE 2 s",
    "WITHIN 5 s",
)


def check(
    seed: int, monkeypatch: pytest.MonkeyPatch, texts: list[str] | None = None, most_cuts: int = 8
) -> None:
    """Some queries, or random ones that differ in everything but the rows they need, over any stream."""
    rng = random.Random(seed)
    if texts is None:
        texts, events, order_column = random_workload(rng)
    else:
        events, order_column = random_events(rng), rng.choice([None, None, "seq"])
    texts = [text for text in texts if "WITHIN" in text]
    if not texts or not events:
        return
    events = [{**event, "ts": event["ts"] + START} for event in events]
    table = pa.Table.from_pylist(events, SCHEMA)
    delay = rng.choice([0, 1, 3, 10, 40])
    keep_raw(monkeypatch, rng.choice([0, 0, 1, 3, None]))
    monkeypatch.setattr(stream_choices, "_LIGHT", rng.choice([0, 1 << 16]))
    monkeypatch.setattr(stream_choices, "_PER_VECTOR", rng.choice([0, 8]))
    monkeypatch.setattr(stream_choices, "_PER_BINDING", rng.choice([0, 0, 2]))
    workload = tf.parse(";".join(texts))
    shards = rng.choice([1, 2])
    stream = simulate(workload, table.schema, delay * 1_000_000, shards, order_column=order_column)
    feed(stream, table, delay, rng, most_cuts)
    found = stream.results()
    like = workload.run(table, order_column=order_column)
    for query, text in zip(workload, texts, strict=True):
        keys = len(query.group_by)
        rows = ordered(found[query.name], like[query.name], keys).to_pylist()
        wrong = engine.difference(rows, oracle.rows(text, events, order_column), keys)
        assert wrong is None, f"seed {seed}: {text}\n{wrong}"


def seeds(quick: int, every: int) -> list[Any]:
    """Seeds of a property; only the first ones outside `make test-all`."""
    shown = range(min(3, quick)) if IS_PLAIN else range(every)
    return [pytest.param(seed, marks=pytest.mark.slow if seed >= quick else ()) for seed in shown]


@pytest.mark.parametrize("seed", seeds(50, 250))
def test_any_workload_order_and_cut_gives_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(seed, monkeypatch)


@pytest.mark.parametrize("seed", seeds(35, 150))
def test_workloads_of_every_kind_of_query_give_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(seed, monkeypatch, mixed_workload(random.Random(seed + 7_000), 6, WINDOWS))


@pytest.mark.parametrize("seed", seeds(15, 100))
def test_positions_of_several_types_give_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed + 8_000)
    texts = [with_sets(text, rng) for text in random_workload(rng, 6)[0]]
    for number, pattern in enumerate(("SEQ(A, ANY(B, C) x+)", "SEQ(ANY(A, B), ANY x, C)", "ANY x+")):
        keys = rng.choice(["g", "x.g", "x.x"])
        texts.append(
            f"QUERY t{number} RETURN {keys}, COUNT(*), SUM(x.x), MAX(x.y) PATTERN {pattern} "
            f"SEMANTICS {rng.choice(['any', 'next', 'cont'])} GROUP BY {keys} {rng.choice(WINDOWS)}"
        )
    check(seed, monkeypatch, texts)


@pytest.mark.parametrize("seed", seeds(15, 40))
def test_extremes_of_integers_and_times_go_on_from_the_state(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    keep_raw(monkeypatch, rng.choice([0, 0, 2]))
    ends = [2**63 - 1, -(2**63), 0, 1, -1]
    whole = [
        *ends,
        *(rng.choice([1, -1]) * (2 ** rng.randint(1, 62) + rng.randint(-2, 2)) for _ in range(60)),
    ]
    whole = [v for v in whole if abs(v) < 4_370_000_000_000_000_000 or v in ends]
    count = 60
    table = pa.table(
        {
            "type": rng.choices("AB", k=count),
            "ts": pa.array([START + i // 2 for i in range(count)], pa.timestamp("s")),
            "n": pa.array(rng.choices([*whole, None], k=count), pa.int64()),
            "t": pa.array([rng.randint(0, 2 * 10**18) for _ in range(count)], pa.timestamp("ns")),
            "i": pa.array(rng.choices(range(-5, 5), k=count), pa.int32()),
            "g": rng.choices("ab", k=count),
        }
    )
    text = """
    QUERY a RETURN g, MIN(B.n), MAX(B.n), MIN(A.t), MAX(B.i) PATTERN SEQ(A, B+) GROUP BY g
    WITHIN 9 s SLIDE 3 s;
    QUERY b RETURN MAX(B.t), MIN(A.n) PATTERN SEQ(A, B+) WITHIN 8 s SLIDE 8 s;
    QUERY c RETURN MAX(B.n), MIN(A.n), MAX(A.t) PATTERN SEQ(A, B+) WHERE [g] WITHIN 8 s SLIDE 4 s;
    QUERY d RETURN B.g, MAX(B.n), MIN(A.n) PATTERN SEQ(A, B+) GROUP BY B.g WITHIN 8 s SLIDE 4 s
    """
    workload = tf.parse(text)
    stream = simulate(workload, table.schema, 0, 2)
    assert stream.stream.raw == {}
    for cut in cuts(count, rng):
        stream.feed(table.slice(cut.start, cut.stop - cut.start))
    stream.flush()
    batch = workload.run(table)
    for query in workload:
        found = ordered(stream.results()[query.name], batch[query.name], len(query.group_by))
        assert found.equals(batch[query.name])


def test_an_integer_too_large_to_be_carried_over_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_raw(monkeypatch, 0)
    table = pa.table({"type": list("AA"), "ts": [START, START + 1], "n": [1, 9_000_000_000_000_000_000]})
    stream = simulate(tf.parse("QUERY top RETURN MAX(A.n) PATTERN A WITHIN 9 s SLIDE 9 s"), table.schema, 0)
    stream.feed(table)
    stream.flush()
    (error,) = [b for blobs in stream.told for b in blobs if b.content is Content.ERROR]
    assert b"query 'top': over a stream, MIN and MAX take values of 'n' up to" in bytes(error.payload)


SUMS_OF_FLOATS = ("HAVING SUM(B.y) > 1", "HAVING SUM(B.y) / COUNT(*) <= 1", "HAVING COUNT(*) > SUM(B.y)")
"""Conditions that are decided without further digits."""


def workload_by_alias(rng: random.Random) -> list[str]:
    """Queries with GROUP BY B.…, alone and with keys beside it; some name B in other places too."""
    shapes = ["SEQ(A, B+)", "SEQ(A+, B)", "SEQ(B, C)", "SEQ(A, NOT D, B+, C)", "SEQ(B+, NOT A)", "B+"]
    shapes += ["SEQ(B, B x+)", "SEQ(A, B, B x)", "OR(SEQ(A, B), SEQ(B, C))"]
    by = rng.choice(["B.g", "B.x", "g, B.x", "B.g, u", "B.x, B.g", "g, B.g", "B.y"])
    where = rng.choice(["", "", "WHERE [u]", "WHERE B.x > 1", "WHERE [u] AND A.x > 0"])
    texts = []
    for i in range(rng.randint(1, 4)):
        shape = rng.choice(shapes)
        own = where if "A" in shape or "A.x" not in where else ""
        extra = rng.choice(["", ", SUM(B.x)", ", MAX(B.y)", ", COUNT(B)"])
        having = rng.choice(["", "", "", "HAVING COUNT(*) > 1", *SUMS_OF_FLOATS])
        semantics = rng.choice(["any", "any", "next", "contiguous"])
        texts.append(
            f"QUERY w{i} RETURN {by}, COUNT(*){extra} PATTERN {shape} SEMANTICS {semantics} {own} "
            f"GROUP BY {by} {having} {rng.choice(WINDOWS)}"
        )
    return texts


@pytest.mark.parametrize("seed", seeds(80, 150))
def test_trends_grouped_by_an_alias_give_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(seed, monkeypatch, workload_by_alias(random.Random(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 4_000, 100))
def test_thousands_of_workloads_orders_and_cuts_give_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(seed, seed + 100):
        check(number, monkeypatch)
        check(number, monkeypatch, mixed_workload(random.Random(number), 6, WINDOWS))
        check(number, monkeypatch, workload_by_alias(random.Random(number)))


@pytest.mark.parametrize("seed", range(1 if IS_PLAIN else 6))
def test_counts_of_any_size_go_on_from_the_state(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    keep_raw(monkeypatch, rng.choice([0, None]))
    events = many_events(rng, 300 if IS_PLAIN else 2_000, with_ties=seed % 2 == 1)
    at = events.schema.get_field_index("ts")
    events = events.set_column(at, "ts", pa.array(events.column("ts").to_numpy() + START))
    queries = (*growing_workload(rng), *tf.parse("QUERY q RETURN COUNT(*) PATTERN A+ WITHIN 9 s SLIDE 3 s"))
    asked = Workload(tuple(query for query in queries if query.window is not None))
    stream = simulate(asked, events.schema, 5_000_000)
    feed(stream, events, 5, rng)
    batch = asked.run(events)
    for query in asked:
        agree(ordered(stream.results()[query.name], batch[query.name], 0), batch[query.name])


ONLINE = {
    "AND": "RETURN COUNT(*) PATTERN AND(A+, SEQ(B, C)) WITHIN 9 s SLIDE 3 s",
    "MIN of integers": "RETURN g, MIN(B.x), MAX(A.ts) PATTERN SEQ(A, B) GROUP BY g WITHIN 9 s SLIDE 3 s",
    "120 overlaps": "RETURN COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 120 s SLIDE 1 s",
    "GROUP BY T.g": "RETURN B.g, COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY B.g WITHIN 9 s SLIDE 3 s",
    "a plain key beside it": "RETURN g, B.x, COUNT(*) PATTERN SEQ(A, B) GROUP BY g, B.x WITHIN 9 s SLIDE 3 s",
}


@pytest.mark.parametrize("kind", ONLINE)
def test_these_queries_keep_no_events_that_are_final(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_raw(monkeypatch, 0)
    monkeypatch.setattr(stream_choices, "_PER_VECTOR", 0)
    stream = simulate(tf.parse(ONLINE[kind]), SCHEMA, 0)
    assert stream.stream.raw == {}
    for at in range(START, START + 12, 3):
        rows = [{"type": "ABC"[t % 3], "ts": t, "g": "g", "x": t, "y": 0.5} for t in range(at, at + 3)]
        stream.feed(pa.Table.from_pylist(rows, SCHEMA))
        kept = [part for store in stream.shards.values() for part in ShardIndex.load(store, ALWAYS).parts]
        assert sum(part.rows for part in kept) <= 1  # the event at the watermark itself


KEPT = {
    "all digits": "RETURN COUNT(*) PATTERN SEQ(A, B+) HAVING SUM(B.x) > 3 WITHIN 9 s SLIDE 3 s",
    "sum of integers": "RETURN COUNT(*) PATTERN SEQ(A, B+) HAVING COUNT(*) > COUNT(B) WITHIN 9 s SLIDE 3 s",
    "a period": "RETURN COUNT(*) PATTERN SEQ(A, B+) WITHIN 9 s EVERY 3 s",
    "several aliases": "RETURN A.g, B.g, COUNT(*) PATTERN SEQ(A, B) GROUP BY A.g, B.g WITHIN 9 s SLIDE 3 s",
    "one operand of AND": "RETURN A.g, COUNT(*) PATTERN AND(A, B) GROUP BY A.g WITHIN 9 s SLIDE 3 s",
    "durations": "RETURN AVG(DURATION) PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 9 s SLIDE 3 s",
    "need not be neighbours": "RETURN COUNT(*) PATTERN SEQ(A, B+, C) WHERE A.x < C.x WITHIN 9 s SLIDE 3 s",
    "1,024": "RETURN COUNT(*) PATTERN A WITHIN 9999 s SLIDE 1 s",
    "over several partitions": "RETURN MAX(A.x) PATTERN SEQ(A, B) WHERE [u] WITHIN 9 s",
}


@pytest.mark.parametrize("why", KEPT)
def test_queries_that_keep_their_events_say_why(why: str) -> None:
    workload = tf.parse(KEPT[why])
    raw = simulate(workload, SCHEMA, 0).stream.raw
    assert why in raw[0]
    assert raw[0] in " ".join(str(workload.explain()).split())
    (exact,) = simulate(tf.parse(ONLINE["AND"]), SCHEMA, 0, arithmetic="exact").stream.raw.values()
    assert exact == "exact arithmetic needs all events of a window"


def test_too_many_values_of_an_alias_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_raw(monkeypatch, 0)
    table = pa.table({"type": list("ABBBB"), "ts": range(START, START + 5), "g": list("abcde")})
    workload = tf.parse("QUERY many RETURN B.g, COUNT(*) PATTERN SEQ(A, B) GROUP BY B.g WITHIN 9 s SLIDE 9 s")
    stream = simulate(workload, table.schema, 0, 1, limits=replace(DEFAULTS, groups=2))
    stream.feed(table)
    (error,) = [b for blobs in stream.told for b in blobs if b.content is Content.ERROR]
    assert b"query 'many' has 3 groups, over limits groups=2" in bytes(error.payload)


def test_many_values_of_an_alias_in_one_segment_stay_raw(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_raw(monkeypatch, 0)
    events = [{"type": "AB"[i % 2], "ts": START + i // 10, "x": i} for i in range(400)]
    text = "RETURN B.x, COUNT(*) PATTERN SEQ(A, B) GROUP BY B.x WITHIN 10 s SLIDE 5 s"
    table, workload = pa.Table.from_pylist(events, SCHEMA), tf.parse(text)
    stream = simulate(workload, SCHEMA, 0, 1)
    stream.feed(table.slice(0, 200))
    assert ShardIndex.load(stream.shards[0], ALWAYS).parts
    stream.feed(table.slice(200))
    stream.flush()
    batch = workload.run(table)["q1"]
    agree(ordered(stream.results()["q1"], batch, 1), batch)


# ---------------------------------------------------------------- state


def by_group(rate: int, window_s: int, windows: int = 2) -> int:
    """The bytes of state in the middle of a window with `rate` events per group, of 50 groups."""
    rng = np.random.default_rng(0)
    count = rate * 50 * windows
    times = START * 1_000 + np.arange(count) * (window_s * 1_000 * windows) // count
    table = pa.table({"type": rng.choice(list("AB"), count), "ts": times, "g": np.arange(count) % 50})
    text = f"RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN {window_s} s SLIDE {window_s} s"
    stream = simulate(tf.parse(text), table.schema, 0, 1, time_unit="ms")
    sizes = []
    for part in range(0, count, count // 20):
        stream.feed(table.slice(part, count // 20))
        sizes.append(sum(len(part) for store in stream.shards.values() for part in store.parts.values()))
    return max(sizes)


def test_having_judges_keys_with_many_and_with_few_events_of_a_group_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep_raw(monkeypatch, 3)  # the first key of each group has vectors, the others are kept raw
    u = [0 if i % 5 else i % 3 for i in range(200)]
    table = pa.table(
        {
            "type": ["AB"[i // 2 % 2] for i in range(200)],
            "ts": [1_000 + i for i in range(200)],
            "u": u,
            "g": [i % 2 for i in range(200)],
        }
    )
    query = "RETURN g, COUNT(*) PATTERN SEQ(A, B) WHERE [u] GROUP BY g {} WITHIN 40 s SLIDE 20 s"
    counts = sorted(tf.parse(query.format("")).run(table)["q1"].column("count").to_pylist())
    half = int(counts[len(counts) // 2])
    conditions = [f"HAVING COUNT(*) > {half}", f"HAVING COUNT(*) <= {half}", f"HAVING COUNT(*) = {half}"]
    workload = tf.parse(";".join(map(query.format, conditions)))
    stream = simulate(workload, table.schema, 3_000_000)
    assert stream.stream.raw == {}
    for first in range(0, 200, 30):
        stream.feed(table.slice(first, 30))
    stream.flush()
    batch = workload.run(table)
    assert all(batch[name].num_rows for name in batch)
    for name, parts in stream.results().items():
        agree(ordered(parts, batch[name], 1), batch[name])


def test_state_does_not_grow_with_the_rate_of_events() -> None:
    assert by_group(4_000, 100) <= 1.1 * by_group(1_000, 100)


def test_state_does_not_grow_with_the_length_of_windows() -> None:
    sizes = [by_group(1_000, length) for length in (60, 3_600, 86_400)]
    assert max(sizes) <= 1.1 * min(sizes)


def test_state_of_a_linear_query_is_far_smaller_than_its_events() -> None:
    size = by_group(4_000, 100)
    assert size * 20 < 4_000 * 50 * 3  # a raw event takes more than three bytes


def test_an_event_is_read_from_the_state_about_twice_however_wide_the_delay() -> None:
    rng = random.Random(1)
    count = 4_000
    table = pa.table({"type": rng.choices("AB", k=count), "ts": START + np.arange(count), "g": [0] * count})
    workload = tf.parse("RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 1000 s SLIDE 1000 s")
    stream = simulate(workload, table.schema, 500_000_000, 1)
    shuffled = table.take(pa.array(arrival(table.column("ts").to_pylist(), 500, rng)))
    for part in range(0, count, 40):
        stream.feed(shuffled.slice(part, 40))
    told = [
        json.loads(bytes(b.payload)) for blobs in stream.told for b in blobs if b.content is Content.STATE
    ]
    assert sum(each["read"] for each in told) <= 8 * count  # merging small parts reads them too


def test_state_of_layout_1_is_continued() -> None:
    """The fixture was written by the release before layout 2: raw events, half way through a stream."""
    kept = json.loads((FIXTURES / "layout_1.json").read_text())
    workload, done = tf.parse(kept["text"]), kept["events"]
    everything = layout_1_events(0, 320)
    stream = simulate(workload, everything.schema, 4_000_000, 2)
    stream.watermark_ms, stream.latest = kept["watermark_ms"], kept["latest"]
    for number, shard in kept["shards"].items():
        parts = {int(n): base64.b64decode(payload) for n, payload in shard["parts"].items()}
        stream.shards[int(number)] = Memory(shard["text"], parts)
    for low in range(done, 320, 32):
        stream.feed(layout_1_events(low, low + 32))
    stream.flush()
    assert stream.late() == 0
    batch = workload.run(everything)
    for query in workload:
        before = pa.Table.from_pylist(kept["rows"][query.name], batch[query.name].schema)
        keys = len(query.group_by)
        agree(ordered([before, *stream.results()[query.name]], batch[query.name], keys), batch[query.name])


def layout_1_events(low: int, high: int) -> pa.Table:
    """The events of the fixture, and those that follow."""
    rows = range(low, high)
    columns = {
        "type": ["ABBC"[(i * 7 + i // 5) % 4] for i in rows],
        "ts": pa.array([10_000 + i // 2 for i in rows], pa.int64()),
        "g": pa.array([i % 3 for i in rows], pa.int64()),
        "x": [float((i * 13) % 11) for i in rows],
    }
    return pa.table(columns)


def test_vectors_of_another_machine_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_raw(monkeypatch, 0)
    table = layout_1_events(0, 100)
    text = "QUERY one RETURN g, COUNT(*) PATTERN {} GROUP BY g WITHIN 1000 s SLIDE 1000 s"
    stream = simulate(tf.parse(text.format("SEQ(A, B+)")), table.schema, 0, 1)
    stream.feed(table.slice(0, 50))
    stream.stream = simulate(tf.parse(text.format("SEQ(A+, B)")), table.schema, 0, 1).stream
    stream.feed(table.slice(50))
    (error,) = [b for blobs in stream.told for b in blobs if b.content is Content.ERROR]
    assert b"query 'one': this release keeps its open windows differently" in bytes(error.payload)


def test_a_removed_query_leaves_the_vectors_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_raw(monkeypatch, 0)
    texts = [
        f"QUERY q{i} RETURN g, COUNT(*) PATTERN SEQ(A, B+) WHERE B.x > {i} GROUP BY g WITHIN {w} s SLIDE 10 s"
        for i, w in enumerate([20, 20, 20, 30])
    ]
    workload, table = tf.parse(";".join(texts)), layout_1_events(0, 200)
    stream = simulate(workload, table.schema, 2_000_000, 2)
    stream.feed(table.slice(0, 100))
    epochs, old = [Epoch(workload.plan())], stream.stream
    stream.stream = replace(
        stream_job(epochs, (0, 3), table.schema, old.job.options, 0, DEFAULTS, "auto", 2), delay_ms=2_000
    )
    before = {name: len(parts) for name, parts in stream.results().items()}
    stream.feed(table.slice(100))
    stream.flush()
    batch, found = workload.run(table), stream.results()
    for name in ("q1", "q2"):
        agree(ordered(found[name], batch[name], 1), batch[name])
    assert (len(found["q0"]), len(found["q3"])) == (before["q0"], before["q3"])
    assert not any(store.text or store.parts for store in stream.shards.values())


# ---------------------------------------------------------------- open windows


@pytest.mark.parametrize("seed", seeds(5, 12))
def test_updates_are_the_rows_of_batch_over_the_events_so_far(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    keep_raw(monkeypatch, rng.choice([0, 3, None]))
    text = """
    QUERY sliding RETURN g, COUNT(*), SUM(B.x) PATTERN SEQ(A, B+) GROUP BY g WITHIN 20 s SLIDE 5 s;
    QUERY whole RETURN COUNT(*) PATTERN SEQ(A, NOT C, B) WHERE [g] WITHIN 10 s SLIDE 10 s;
    QUERY kept RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 10 s SLIDE 10 s HAVING COUNT(*) > 1;
    QUERY quiet RETURN COUNT(*), COUNT(DISTINCT g), SUM(B.x) PATTERN SEQ(A, B) WHERE [g] AND B.x > 4
    WITHIN 6 s SLIDE 2 s INCLUDE EMPTY
    """
    workload, table = tf.parse(text), layout_1_events(0, 240)
    stream = simulate(workload, table.schema, 3_000_000, 3)
    stream.stream = replace(stream.stream, emits_updates=True)
    shuffled = table.take(pa.array(arrival(table.column("ts").to_pylist(), 3, rng)))
    for cut in cuts(table.num_rows, rng):
        before, watermark = len(stream.told), stream.watermark_ms / 1_000
        stream.feed(shuffled.slice(cut.start, cut.stop - cut.start))
        if cut.stop == cut.start:
            continue
        batch = workload.run(shuffled.slice(0, cut.stop))
        for query in workload:
            own = [part.cast(batch[query.name].schema) for part in rows_of(stream, before, query.name)]
            found = ordered(own, batch[query.name], len(query.group_by))
            found = found.filter(pc.greater(found.column("window_end"), watermark))
            wanted = batch[query.name]
            agree(found, wanted.filter(pc.greater(wanted.column("window_end"), watermark)))


def rows_of(stream: Simulation, batch: int, query: str) -> list[pa.Table]:
    """What a query reported in one micro-batch."""
    told, stream.told = stream.told, stream.told[batch : batch + 1]
    found = stream.results()[query]
    stream.told = told
    return found


def test_rows_of_ended_windows_are_final() -> None:
    stream = simulate(tf.parse("RETURN COUNT(*) PATTERN A WITHIN 10 s SLIDE 5 s"), SCHEMA, 0).stream
    ends = pa.table({"window_end": pa.array([5, 10, 15])})
    assert with_finality(stream, 0, ends, 10_000_000).column_names == ["window_end"]
    stream = replace(stream, emits_updates=True)
    for watermark, wanted in ((10_000_000, [True, True, False]), (ALWAYS, [False] * 3), (NEVER, [True] * 3)):
        assert with_finality(stream, 0, ends, watermark).column("is_final").to_pylist() == wanted
