"""Bounds on the time between neighbours, and nothing else: bindings expire in order, in queues."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine
from trendfold.plan import plan_auto
from trendfold.plan.physical import Queues
from trendfold.plan.time_gaps import Gap, gap_of

SEEDS = st.integers(0, 2**40)
PATTERNS = ["A+", "SEQ(A, B+)", "SEQ(A+, B+)", "SEQ(A, ANY(A, B) x+, C)", "SEQ(A, B, C)+", "SEQ(A, B?, C)"]
RETURNED = [
    "COUNT(*)",
    "COUNT(*), SUM(A.v), MAX(A.w)",
    "AVG(DURATION), MIN(LENGTH)",
    "MAX(DURATION), AVG(A.v)",
]
WINDOWS = ["", "WITHIN 6 s SLIDE 6 s", "WITHIN 60 s SLIDE 60 s", "WITHIN 9 s SLIDE 3 s", "WITHIN 8 s"]


def gap_case(seed: int) -> workloads.Case:
    """A query that bounds gaps between neighbours, over events at few moments; many wait at once."""
    rng = random.Random(seed)
    pattern = rng.choice(PATTERNS)
    pairs = {"A+": ["AA"], "SEQ(A, ANY(A, B) x+, C)": ["xx", "Ax"], "SEQ(A, B?, C)": ["BC"]}
    pairs |= {"SEQ(A, B, C)+": ["AB", "CA"]}
    wheres = [
        f"TIME(NEXT({b})) - TIME({a}) {rng.choice(['<=', '<', '>=', '>', '='])} {rng.randint(0, 6)} s"
        for a, b in pairs.get(pattern, ["AB", "BB", "AB"])
    ]
    group = rng.choice(["", "GROUP BY g"])
    where = f"WHERE {' AND '.join(wheres)}"
    text = f"q: RETURN {rng.choice(RETURNED)} PATTERN {pattern} {where} {group} {rng.choice(WINDOWS)}"
    times = sorted(rng.randint(0, 25) for _ in range(rng.randint(3, 13)))
    events = [
        {
            "type": rng.choice("AABBC"),
            "ts": t,
            "g": rng.choice("xy"),
            "v": rng.choice([1, 2, None]),
            "w": 0.5 * t,
        }
        for t in times
    ]
    return workloads.Case(text, events, None)


@engine.many(300)
@given(seed=SEEDS)
def test_rows_are_the_oracles(seed: int) -> None:
    engine.check(gap_case(seed), "auto", origin=f"gap_case({seed})")


def test_sums_of_long_queues_are_those_of_scans() -> None:
    rng = random.Random(5)
    events = pa.table(
        {
            "type": rng.choices("AB", k=3_000),
            "ts": sorted(rng.randrange(9_000) for _ in range(3_000)),
            "x": [rng.random() for _ in range(3_000)],
        }
    )
    queries = tf.parse(
        "a: RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE TIME(NEXT(B)) - TIME(B) BETWEEN 5 s AND 90 s AND "
        "TIME(NEXT(B)) - TIME(A) <= 300 s;"
        "b: RETURN COUNT(*), SUM(B.x), MIN(B.x), AVG(DURATION), MAX(LENGTH) PATTERN SEQ(A, B+) "
        "WHERE TIME(NEXT(B)) - TIME(B) <= 60 s WITHIN 3000 s SLIDE 3000 s"
    )
    auto, scanned = (queries.run(events, strategy=strategy) for strategy in ("auto", "cogra"))
    assert [step.way for step in auto.plan] == [
        Queues("neighbours are compared by time alone, so bindings expire in order")
    ] * 2
    for name in "ab":
        assert engine.difference(auto[name].to_pylist(), scanned[name].to_pylist(), 2) is None


@pytest.mark.parametrize(
    ("where", "gap"),
    [
        ("TIME(NEXT(B)) - TIME(B) <= 10 min", Gap(most=600_000_000)),
        ("TIME(NEXT(B)) > TIME(B) + 1 s", Gap(least=1_000_001)),
        ("TIME(NEXT(B)) - TIME(B) BETWEEN 1 s AND 2 s", Gap(1_000_000, 2_000_000)),
        ("TIME(NEXT(B)) - TIME(B) = 2 s", None),
        ("TIME(NEXT(B)) - TIME(B) < B.v * 1 s", None),
        ("TIME(NEXT(B)) - TIME(B) < 1 s AND NEXT(B).v > B.v", None),
    ],
)
def test_which_conditions_are_gaps(where: str, gap: Gap | None) -> None:
    (query,) = tf.parse(f"RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE {where}")
    plan = plan_auto(query)
    (access,) = [found for found in plan.operands[0].accesses if found.predicates]
    assert gap_of(access) == gap
    assert plan.has_queues(plan.operands[0]) == (gap is not None)


def test_explain_shows_queues() -> None:
    text = str(tf.parse("RETURN COUNT(*) PATTERN A+ WHERE TIME(NEXT(A)) - TIME(A) <= 2 s").explain())
    assert "queue  O(1) per event  only times are compared" in text
