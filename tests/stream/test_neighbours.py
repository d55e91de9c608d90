"""Queries that compare neighbours are folded online: their bindings are kept by value, and go on."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import trendfold as tf
from contract.test_together import SCHEMA
from spark.agreement import agree
from stream.simulation import ordered, simulate
from stream.test_settling import START, WINDOWS, check, feed, keep_raw, seeds
from trendfold.kernel.jit import IS_PLAIN
from trendfold.plan import stream_choices

SHAPES = {
    "A+": ["A.x < NEXT(A).x", "A.x = NEXT(A).x", "A.y != NEXT(A).y", "A.x <= NEXT(A).x AND A.y > NEXT(A).y"],
    "SEQ(A+, B)": ["A.x < NEXT(A).x", "A.x < NEXT(B).x", "A.x < NEXT(A).x AND A.y >= NEXT(B).y", "A.y < 0.5"],
    "SEQ(A, B+, C)": ["B.x > NEXT(B).x", "A.x = NEXT(B).x", "B.x < NEXT(B).y AND B.y != NEXT(C).x"],
    "(SEQ(A+, B))+": ["A.x < NEXT(A).x", "B.x > NEXT(A).x", "A.x + NEXT(A).x > 1"],
    "SEQ(A, NOT D, B+)": [
        "B.x < NEXT(B).x",
        "B.x * NEXT(B).x >= 0",
        "B.g = NEXT(B).g",
        "TIME(NEXT(B)) - TIME(B) <= 2 s",
    ],
    "SEQ(A+, NOT B)": ["A.x < NEXT(A).x", "A.x BETWEEN NEXT(A).x AND NEXT(A).y"],
    "SEQ(ANY(A, B) v+, C)": ["v.x < NEXT(v).x", "v.x <= NEXT(C).y", "v.ts < NEXT(v).ts"],
}


def neighbour_workload(rng: random.Random, count: int = 4) -> list[str]:
    """Queries that compare neighbours, of every semantics, and sometimes one beside them that does not."""
    texts = []
    for i in range(rng.randint(1, count)):
        pattern = rng.choice(list(SHAPES))
        alias = "v" if "v" in pattern else "B" if "B+" in pattern else "A"
        where = [rng.choice(SHAPES[pattern]), *rng.choices(["", "[u]", f"{alias}.x > 0"], k=1)]
        carried = rng.choice(
            ["", f", SUM({alias}.x)", f", MAX({alias}.y)", f", AVG({alias}.y), COUNT({alias})"]
        )
        group = rng.choice(["", "", "GROUP BY g"])
        semantics = rng.choice(["any", "any", "next", "contiguous"])
        more = f"{rng.choice(['', '', 'HAVING COUNT(*) > 1'])} {rng.choice(['', '', 'INCLUDE EMPTY'])}"
        texts.append(
            f"QUERY n{i} RETURN {'g, ' if group else ''}COUNT(*){carried} PATTERN {pattern} "
            f"SEMANTICS {semantics} WHERE {' AND '.join(filter(None, where))} {group} "
            f"{rng.choice(WINDOWS[:-1])} {more}"
        )
    if rng.random() < 0.3:
        texts.append("QUERY linear RETURN g, COUNT(*) PATTERN SEQ(A, B+) GROUP BY g WITHIN 9 s SLIDE 3 s")
    return texts


@pytest.mark.parametrize("seed", seeds(60, 400))
def test_compared_neighbours_give_the_rows_of_the_oracle(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, monkeypatch, neighbour_workload(random.Random(seed + 9_000)))


def many_neighbours(rng: random.Random, count: int) -> pa.Table:
    """Events of a few groups with values that come again, ties in time and nulls."""
    times = sorted(START + rng.randint(0, count // 4) for _ in range(count))
    return pa.table(
        {
            "type": rng.choices("AABBCD", k=count),
            "ts": pa.array(times, pa.int64()),
            "g": rng.choices("abc", k=count),
            "u": pa.array(rng.choices([1, 2, None], k=count), pa.int64()),
            "x": pa.array(rng.choices([*range(6), None], k=count), pa.int64()),
            "y": pa.array(rng.choices([0.25, 0.5, 1.5, -2.0, None], k=count), pa.float64()),
        }
    )


@pytest.mark.parametrize("seed", seeds(8, 80))
def test_bindings_go_on_over_many_micro_batches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    keep_raw(monkeypatch, rng.choice([0, 0, None]))
    monkeypatch.setattr(stream_choices, "_LIGHT", 0)
    monkeypatch.setattr(stream_choices, "_PER_VECTOR", 0)
    monkeypatch.setattr(stream_choices, "_PER_BINDING", rng.choice([0, 0, 1]))
    events = many_neighbours(rng, 60 if IS_PLAIN else 400)
    workload = tf.parse(";".join(neighbour_workload(rng)))
    stream = simulate(workload, events.schema, 3_000_000, 2)
    feed(stream, events, 3, rng, 20)
    batch = workload.run(events)
    for query in workload:
        keys = len(query.group_by)
        agree(ordered(stream.results()[query.name], batch[query.name], keys), batch[query.name])


def largest_state(semantics: str, rate: int, values: int) -> int:
    """The bytes of state of a stream of ten groups with so many events each in every window."""
    count = rate * 10 * 2
    rng = random.Random(0)
    times = [START * 1_000 + i * 200_000 // count for i in range(count)]
    x = [rng.randrange(values) for _ in range(count)]
    table = pa.table({"type": ["A"] * count, "ts": times, "g": [i % 10 for i in range(count)], "x": x})
    query = (
        f"RETURN g, COUNT(*) PATTERN A+ SEMANTICS {semantics} WHERE A.x < NEXT(A).x GROUP BY g "
        "WITHIN 100 s SLIDE 100 s"
    )
    stream = simulate(tf.parse(query), table.schema, 0, 1, time_unit="ms")
    assert stream.stream.raw == {}
    sizes = []
    for part in range(0, count, count // 20):
        stream.feed(table.slice(part, count // 20))
        sizes.append(sum(len(part) for store in stream.shards.values() for part in store.parts.values()))
    return max(sizes)


@pytest.mark.parametrize(("semantics", "values"), [("any", 20), ("next", 20), ("contiguous", 1_000_000)])
def test_state_grows_with_compared_values_and_not_with_events(semantics: str, values: int) -> None:
    rate = 300 if IS_PLAIN else 2_000
    assert largest_state(semantics, 4 * rate, values) <= 1.3 * largest_state(semantics, rate, values)


RAW = {
    "PATTERN AND(A+, B) WHERE A.x < NEXT(A).x": "in an operand of AND",
    "PATTERN SEQ(A+, B) WHERE A.x < NEXT(A).x GROUP BY B.g": "GROUP BY names an alias",
    "PATTERN SEQ(A+, NOT C, B) WHERE A.x < NEXT(B).x": "a NOT breaks trends by the times",
    "PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 200 s SLIDE 1 s": "more than 128 windows overlap",
    "PATTERN SEQ(A+, NOT C, B) WHERE A.x < NEXT(A).x AND C.x > A.x": "a NOT breaks trends by the times",
    "PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 200 s": "a window per event",
}


@pytest.mark.parametrize("query", RAW)
def test_what_must_keep_its_events_says_why(query: str) -> None:
    window = "" if "WITHIN" in query else "WITHIN 9 s SLIDE 9 s"
    key = "B.g, " if "B.g" in query else ""
    (why,) = simulate(tf.parse(f"RETURN {key}COUNT(*) {query} {window}"), SCHEMA, 0).stream.raw.values()
    assert RAW[query] in why


def test_durations_of_compared_neighbours_need_the_events() -> None:
    query = "RETURN AVG(DURATION) PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 9 s SLIDE 9 s"
    (why,) = simulate(tf.parse(query), SCHEMA, 0).stream.raw.values()
    assert "durations" in why


def test_many_queries_that_compare_alike_share_trees_over_raw_events() -> None:
    texts = [
        f"RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x AND A.y > {i} WITHIN 9 s SLIDE 9 s"
        for i in range(4)
    ]
    assert not simulate(tf.parse(";".join(texts[:3])), SCHEMA, 0).stream.raw
    raw = simulate(tf.parse(";".join(texts)), SCHEMA, 0).stream.raw
    assert set(raw.values()) == {"4 queries compare neighbours alike: they share trees of whole windows"}
