"""Queries in lanes with windows of every kind, side by side: each has the oracle's rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from contract import engine
from contract.test_machine_lanes import check, random_events, random_workload
from contract.test_together import SCHEMA
from trendfold.errors import InputError
from trendfold.plan.physical import Lanes
from trendfold.testing import oracle

COUNTED = (
    "WITHIN 4 events SLIDE 4 events",
    "WITHIN 6 events SLIDE 2 events",
    "WITHIN 5 events SLIDE 1 event",
    "WITHIN 3 events SLIDE 5 events",
)


def with_windows(rng: random.Random, texts: list[str], windows: tuple[str, ...], share: float) -> list[str]:
    """The same queries, some with other windows."""
    found = []
    for text in texts:
        bare = text.split(" WITHIN ")[0]
        found.append(f"{bare} {rng.choice(windows)}" if rng.random() < share else text)
    return found


def apart(events: list[dict]) -> list[dict]:
    """The same events at times of their own: count windows have no ties."""
    ordered = sorted(events, key=lambda event: event["ts"])
    return [event | {"ts": 2 * i - 7} for i, event in enumerate(ordered)]


@engine.many(300)
@given(seed=st.integers(0, 2**40))
def test_count_windows_beside_windows_of_time(seed: int) -> None:
    rng = random.Random(seed)
    texts, _, _ = random_workload(rng, most=40 if seed % 10 == 0 else 8)
    texts = with_windows(rng, texts, COUNTED, rng.choice([0.5, 1.0]))
    events = rng.sample(made := apart(random_events(rng)), len(made))
    table = pa.Table.from_pylist(events, SCHEMA)
    assert check(texts, events, table, None, in_bursts=seed % 3 > 0) == len(texts)


PER_EVENT = ("WITHIN 3 s", "WITHIN 8 s", "WITHIN 8 s", "WITHIN 30 s")


@engine.many(300)
@given(seed=st.integers(0, 2**40))
def test_windows_per_event(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng, most=40 if seed % 10 == 0 else 8)
    texts = with_windows(rng, texts, PER_EVENT[: rng.choice([1, 4])], rng.choice([0.5, 1.0]))
    found = tf.parse(";\n".join(texts)).run(pa.Table.from_pylist(events, SCHEMA), order_column=order_column)
    for text, (name, table) in zip(texts, found.items(), strict=True):
        expected = oracle.rows(text, events, order_column)
        keys = 2 + ("GROUP BY" in text)
        wrong = engine.difference(table.to_pylist(), expected, keys)
        assert wrong is None, f"{name} {text}: {wrong}\n{texts!r}\n{events!r}\n{order_column!r}"


def test_queries_with_windows_per_event_are_lanes_of_one_run() -> None:
    table = pa.table({"type": list("AABBCABBC") * 20, "ts": range(180), "v": [i % 7 for i in range(180)]})
    text = "RETURN COUNT(*), MIN(B.v) PATTERN SEQ(A, B+, C) WHERE B.v > {} AND C.v < {} WITHIN {} s"
    asked = tf.parse(";".join(text.format(i, 6 - i % 2, 20 + i % 2) for i in range(6)))
    found, alone = asked.run(table), asked.run(table, strategy="cogra")
    assert [type(step.way) for step in found.plan] == [Lanes]
    assert all(found[name].equals(alone[name]) for name in alone)


def test_queries_with_count_windows_are_lanes_of_one_run() -> None:
    table = pa.table({"type": list("AABBCABBC") * 20, "ts": range(180), "v": [i % 7 for i in range(180)]})
    text = "RETURN COUNT(*) PATTERN SEQ(A, B+, C) WHERE B.v > {} WITHIN {} events SLIDE {} events"
    asked = tf.parse(";".join(text.format(i, 20 + i % 2, 5) for i in range(6)))
    found, alone = asked.run(table), asked.run(table, strategy="cogra")
    assert [type(step.way) for step in found.plan] == [Lanes]
    assert all(found[name].equals(alone[name]) for name in alone)


def test_ties_in_count_windows_are_an_error_beside_other_queries() -> None:
    table = pa.table({"type": ["A", "B", "B"], "ts": [1, 2, 2]})
    counted = "QUERY b RETURN COUNT(*) PATTERN B WITHIN 2 events SLIDE 1 event"
    with pytest.raises(InputError, match="query 'b': two events of one group share the time 2"):
        tf.parse(f"QUERY a RETURN COUNT(*) PATTERN A; {counted}").run(table)
