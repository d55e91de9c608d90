"""Queries with GROUP BY T.g in lanes, values as slots or with a copy of the rows each: the oracle's rows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from contract import engine
from contract.test_lane_windows import COUNTED, apart
from contract.test_machine_lanes import check, close, many_events, random_events
from contract.test_together import SCHEMA
from trendfold.kernel.jit import IS_PLAIN
from trendfold.plan import physical
from trendfold.plan.physical import Lanes, Slots

SHAPES = (
    "SEQ({0}, {1}+)",
    "SEQ({0}, {1}+, {2})",
    "SEQ({1}, {0}, {2})",
    "{1}+",
    "SEQ({0}+, {1}+)",
    "SEQ({0}, {1}+, {2})+",
    "SEQ({0}, {1}, {2}+)+",
    "SEQ({0}, {2}?, {1})",
    "SEQ({2}?, {1}, {2}+)",
    "OR(SEQ({0}, {1}+), SEQ({1}, {2}))",
)
"""Patterns in which every trend has {1}, by which all queries group."""
WINDOWS = ("", "WITHIN 9 s SLIDE 9 s", "WITHIN 8 s SLIDE 4 s", "WITHIN 9 s SLIDE 1 s", "WITHIN 4 s SLIDE 5 s")


@contextmanager
def forced(in_slots: bool) -> Iterator[None]:
    """Values are slots wherever they can be, or never."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "_in_slots_ns", lambda *_: 0.0 if in_slots else math.inf)
        patch.setattr(physical, "_copied_ns", lambda *_: 1.0)
        yield


def workload(rng: random.Random, counted: bool, most: int) -> list[str]:
    """Queries that group by the same attribute of the same type, and differ in the rest."""
    key, where = rng.choice(["T.g", "T.g", "T.u", "T.g, T.u"]), rng.choice(["", "", "[u]"])
    shapes = rng.sample(SHAPES, rng.choice([1, 2, len(SHAPES)]))
    windows = (*WINDOWS, *COUNTED) if counted else WINDOWS
    semantics = ["any"] if rng.random() < 0.7 else ["any", "next", "contiguous"]
    aggregates = ["COUNT(*)", "SUM(T.x)", "AVG(T.y)", "COUNT(T)"]
    aggregates += ["MIN(T.x)", "MAX(T.y)"] if rng.random() < 0.3 else []
    found = []
    for i in range(rng.randint(2, most)):
        types = [*rng.sample("ABCD", 1), "T", *rng.sample("FGH", 1)]
        pattern = rng.choice(shapes).format(*types)
        asked = ", ".join(dict.fromkeys(["COUNT(*)", *rng.sample(aggregates, rng.choice([0, 0, 1, 2]))]))
        conditions = [where] if where else []
        if rng.random() < 0.6:
            conditions.append(f"{rng.choice([t for t in types if t in pattern])}.x > {rng.randint(0, 3)}")
        chosen = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        found.append(
            f"QUERY w{i} RETURN {asked} PATTERN {pattern} SEMANTICS {rng.choice(semantics)} {chosen} "
            f"GROUP BY {key} {rng.choice(windows)}"
        )
    return found


def events_of(rng: random.Random) -> list[dict]:
    """Random events of the types above; T comes often."""
    return [event | {"type": rng.choice("TTTTABCDFGH")} for event in random_events(rng)]


@engine.many(400)
@given(seed=st.integers(0, 2**40))
def test_random_workloads(seed: int) -> None:
    rng = random.Random(seed)
    counted = rng.random() < 0.3
    events = events_of(rng)
    events = apart(events) if counted else events
    texts = workload(rng, counted, most=40 if seed % 10 == 0 else 8)
    with forced(in_slots=seed % 4 > 0):
        check(texts, events, pa.Table.from_pylist(events, SCHEMA), None, in_bursts=seed % 3 > 0)


@pytest.mark.parametrize("seed", range(2 if IS_PLAIN else 12))
def test_counts_of_any_size_are_as_each_query_alone(seed: int) -> None:
    rng = random.Random(seed)
    size = 400 if IS_PLAIN else 3_000
    events = many_events(rng, size, with_ties=seed % 2 == 1)
    events = events.append_column("g", pa.array([rng.randint(0, rng.choice([1, 9])) for _ in range(size)]))
    patterns = ("SEQ(A, B+, C)", "SEQ(A+, B+, C)", "SEQ(A, B+, C+)+", "SEQ(B+, C)")
    windows = ("", "WITHIN 700 s SLIDE 700 s", "WITHIN 900 s SLIDE 300 s")
    asked = tf.parse(
        ";".join(
            f"QUERY q{i} RETURN COUNT(*), LOG2(COUNT(*)), AVG(B.x) PATTERN {rng.choice(patterns)} "
            f"{rng.choice(['', 'WHERE B.x < 2', 'WHERE C.y > 4'])} GROUP BY B.g {rng.choice(windows)}"
            for i in range(rng.randint(2, 10))
        )
    )
    with forced(in_slots=True):
        found = asked.run(events)
    assert [type(step.way) for step in found.plan] == [Lanes]
    wanted = asked.run(events, strategy="cogra")
    for name in wanted:
        for row, other in zip(found[name].to_pylist(), wanted[name].to_pylist(), strict=True):
            weight = 1e6 * other["count"] * size if math.isfinite(other["count"]) else 1.0
            assert all(close(row[column], other[column], weight) for column in other), (name, row, other)


def test_many_values_are_slots_and_few_copies_are_made() -> None:
    rng = random.Random(3)
    types, values = rng.choices("ABC", k=6_000), rng.choices(range(200), k=6_000)
    table = pa.table({"type": types, "ts": range(6_000), "g": values, "v": rng.choices(range(9), k=6_000)})
    text = "RETURN COUNT(*) PATTERN SEQ(A, B+, C) WHERE B.v > {} GROUP BY B.g WITHIN 1000 s SLIDE 1000 s"
    asked = tf.parse(";".join(text.format(i % 8) for i in range(20)))
    [step] = asked.run(table).plan
    assert isinstance(step.way, Lanes)
    assert "values of GROUP BY are slots" in step.way.why
    [alone] = tf.parse(text.format(1)).run(table).plan
    assert isinstance(alone.way, Slots)
