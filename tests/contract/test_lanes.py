"""Groups as lanes give what a stream per group gives: the oracle's rows."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
import workloads
from contract import engine
from trendfold.plan import plan
from trendfold.plan.cost import Costs
from trendfold.plan.physical import groups_as_slots
from trendfold.runtime import folding
from trendfold.runtime.folds import by_slots
from trendfold.testing import oracle


@pytest.mark.parametrize("part", range(4))
def test_groups_as_lanes_are_the_streams_of_the_oracle(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = 0
    monkeypatch.setattr(Costs, "pays_in_bursts", lambda *_: part % 2 == 1)
    if part > 1:
        monkeypatch.setattr(by_slots, "_CELLS", 1)  # a pass for every window that holds an event
    for seed in range(1_000 * part, 1_000 * part + 1_000):
        case = workloads.random_case(random.Random(seed), aggregates=seed % 2 == 0)
        (query,) = tf.parse(case.query)
        if not query.group_by or not groups_as_slots(plan(query), "auto"):
            continue
        judged += 1
        result = tf.parse(case.query).run(engine.to_table(case), order_column=case.order_column)
        expected = oracle.rows(case.query, case.events, case.order_column)
        found = result[query.name].to_pylist()
        assert engine.difference(found, expected, 2 + len(query.group_by)) is None, (seed, case.query)
    assert judged > 10


@pytest.mark.parametrize("count", [pytest.param(20_000, marks=pytest.mark.compiled), 1_000])
@pytest.mark.parametrize(
    ("returns", "pattern"),
    [
        ("LOG2(COUNT(*)), AVG(B.x)", "SEQ(A, (B+ | SEQ(B, C))+, C)"),
        ("LOG2(COUNT(*)), AVG(C.x), AVG(B.x), AVG(A.x)", "SEQ(A+, B+, C+)"),
        ("LOG2(COUNT(*)), AVG(C.y), LOG2(COUNT(C))", "SEQ(A, B, (B | C)+, C+, A*)"),
        ("LOG2(COUNT(*)), AVG(C.z), SUM(C.z)", "SEQ(B, A+, C+)"),
    ],
)
@pytest.mark.parametrize("ties", [1, 3])
def test_lanes_past_doubles_agree_with_a_stream_per_group(
    ties: int, returns: str, pattern: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(ties)
    events = pa.table(
        {
            "type": rng.choice(["A", "B", "C"], count).tolist(),
            "ts": [i // ties for i in range(count)],
            "g": rng.integers(0, 7, count).tolist(),
            "x": rng.normal(size=count).tolist(),
            "y": (2.0 ** rng.uniform(-190, 190, count)).tolist(),
            "z": (2.0 ** rng.uniform(100, 300, count)).tolist(),  # not small
        }
    )
    size = count * 9 // 20 // ties
    query = tf.parse(f"RETURN B.g, {returns} PATTERN {pattern} GROUP BY B.g WITHIN {size} s SLIDE {size} s")
    in_lanes = query.run(events)["q1"].to_pylist()
    monkeypatch.setattr(folding, "groups_as_slots", lambda plan, arithmetic: False)
    alone = query.run(events)["q1"].to_pylist()
    assert len(in_lanes) == len(alone) >= 7
    assert max(row["log2_count"] for row in alone) > (1024 if count > 1_000 else 50)
    for one, other in zip(in_lanes, alone, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_a_partition_of_many_values_is_folded_apart_from_those_of_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(7)
    count, many = 2_000, 200
    partition = np.where(rng.random(count) < 0.5, 0, rng.integers(1, 9, count))
    values = np.where(partition == 0, rng.integers(0, many, count), rng.integers(0, 3, count))
    events = pa.table(
        {
            "type": rng.choice(["A", "B", "C"], count).tolist(),
            "ts": range(count),
            "p": partition,
            "g": values,
            "x": rng.integers(-3, 9, count),
        }
    )
    window = "WITHIN 300 s SLIDE 100 s"
    text = f"RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B+, C) WHERE [p] GROUP BY p, B.g {window}"
    query = tf.parse(text)
    found = query.run(events)["q1"].to_pylist()
    monkeypatch.setattr(folding, "groups_as_slots", lambda plan, arithmetic: False)
    alone = query.run(events)["q1"].to_pylist()
    assert found == alone
    assert len({row["g"] for row in alone}) > many // 2
