"""Workloads of every kind of query in one run: lanes of one machine beside queries folded alone.

Semantics, NOT, every aggregate, HAVING, AND, ties, plain and qualified GROUP BY, windows of every kind, and
conditions that differ per query; exact digits, and counts past the range of doubles.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from contract import engine
from contract.test_machine_lanes import FEW, SHAPES, TYPES, aggregate, close, many_events, random_events
from contract.test_together import SCHEMA
from trendfold.kernel.jit import IS_PLAIN
from trendfold.plan.physical import Lanes
from trendfold.testing import oracle

PAIRS = (
    "AND(SEQ({0}, {1}+), {2}+)",
    "AND({1}, SEQ({0}, {2}))",
    "AND(SEQ({0}, NOT {3}, {1}), {2})",
)
WINDOWS = (
    "",
    "WITHIN 4 s SLIDE 4 s",
    "WITHIN 9 s SLIDE 3 s",
    "WITHIN 7 s SLIDE 3 s",
    "WITHIN 6 s SLIDE 8 s",
    "WITHIN 5 s",
)
COUNTED = "WITHIN 3 events SLIDE 2 events"
"""Needs events in order: without ties."""


def mixed_query(rng: random.Random, number: int, where: str, group: str, windows: tuple[str, ...]) -> str:
    """One query of any kind."""
    shape = rng.choice(PAIRS) if rng.random() < 0.15 else rng.choice(SHAPES)
    types = rng.sample(TYPES, 4) if rng.random() < 0.3 else [*rng.sample(FEW, 3), "D"]
    pattern = shape.format(*types)
    plain = "NOT" not in shape
    named = [t for i, t in enumerate(types[:3]) if f"{{{i}}}" in shape] if plain else []
    conditions = [where] if where and rng.random() < 0.9 else []
    for type_ in rng.sample(types[:2], rng.choice([0, 0, 1, 2])):
        if type_ in pattern:
            conditions.append(f"{type_}.x {rng.choice(['<', '>', '!='])} {rng.randint(0, 4)}")
    extra = [aggregate(rng, rng.choice(named)) for _ in range(rng.choice([0, 0, 1, 2]))] if named else []
    may_be_absent = "OR" in shape or "?" in shape or shape in PAIRS
    key = group if group and rng.random() < 0.9 else ""
    if "." in key and (may_be_absent or key[0] not in named):
        key = ""
    returned = dict.fromkeys([*([key] if key else []), "COUNT(*)", *extra])
    counted = rng.choice(["COUNT(*)", *(each for each in extra if not each.startswith(("MIN", "MAX")))])
    having = f"HAVING {counted} {rng.choice(['>', '<=', '!='])} {rng.randint(0, 6)}"
    parts = [
        f"QUERY w{number} RETURN {', '.join(returned)}",
        f"PATTERN {pattern} SEMANTICS {rng.choice(['any', 'next', 'contiguous'])}",
        f"WHERE {' AND '.join(conditions)}" if conditions else "",
        f"GROUP BY {key}" if key else "",
        having if rng.random() < 0.25 else "",
        rng.choice(windows),
    ]
    return " ".join(part for part in parts if part)


def mixed_workload(rng: random.Random, most: int, windows: tuple[str, ...]) -> list[str]:
    """2 to `most` queries; most have the same partitions and groups."""
    where, group = rng.choice(["", "", "[u]"]), rng.choice(["", "", "g", "B.g"])
    return [mixed_query(rng, i, where, group, windows) for i in range(rng.randint(2, most))]


def check_mixed(seed: int, most: int, windows: tuple[str, ...] | None = None) -> int:
    """Fail unless every query has the oracle's rows; how many were lanes of a machine."""
    rng = random.Random(seed)
    events, order_column = random_events(rng), rng.choice([None, None, "seq"])
    has_ties = len({event["ts"] for event in events}) < len(events)
    texts = mixed_workload(rng, most, windows or (WINDOWS if has_ties else (*WINDOWS, COUNTED)))
    arithmetic = rng.choice(["auto", "auto", "exact"])
    workload, table = tf.parse(";\n".join(texts)), pa.Table.from_pylist(events, SCHEMA)
    result = workload.run(table, order_column=order_column, arithmetic=arithmetic)
    for query, text in zip(workload, texts, strict=True):
        keys, expected = 2 + len(query.group_by), oracle.rows(text, events, order_column)
        wrong = engine.difference(_numbers(result[query.name].to_pylist(), keys), expected, keys)
        assert wrong is None, (
            f"{text}: {wrong}\n{seed}: {texts!r}\n{events!r}\n{order_column!r}, {arithmetic}"
        )
    return sum(len(step.queries) for step in result.plan if isinstance(step.way, Lanes))


def _numbers(rows: Sequence[dict], keys: int) -> list[dict]:
    """Exact digits as numbers; there are few enough for doubles."""
    return [
        {name: float(v) if i >= keys and isinstance(v, str) else v for i, (name, v) in enumerate(row.items())}
        for row in rows
    ]


@engine.many(120)
@given(seed=st.integers(0, 2**40))
def test_mixed_workloads(seed: int) -> None:
    check_mixed(seed, most=12)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_large_mixed_workloads(part: int) -> None:
    lanes = sum(check_mixed(seed, most=40) for seed in range(1_000 * part, 1_000 * part + 80))
    assert lanes > 400


@pytest.mark.parametrize("seed", range(2 if IS_PLAIN else 10))
def test_having_and_and_past_the_range_of_doubles(seed: int) -> None:
    rng = random.Random(seed)
    events = many_events(rng, 200 if IS_PLAIN else 1_500, with_ties=seed % 2 == 1)
    bound = rng.choice(["1e300", "1e9", "100"])
    texts = [
        f"QUERY a RETURN COUNT(*), LOG2(COUNT(*)) PATTERN SEQ(A, B+) HAVING COUNT(*) > {bound}",
        "QUERY b RETURN LOG2(COUNT(*)), AVG(B.x) PATTERN AND(B+, SEQ(A, C+)) WITHIN 300 s SLIDE 100 s",
        "QUERY c RETURN COUNT(*), LOG2(COUNT(*)) PATTERN SEQ(A, B+, NOT D) HAVING COUNT(*) % 3 = 0",
        f"QUERY d RETURN COUNT(A) PATTERN AND(A+, B+) HAVING COUNT(*) > {bound} WITHIN 99 s SLIDE 33 s",
        "QUERY e RETURN COUNT(*), SUM(B.y) PATTERN SEQ(A, B+) SEMANTICS next HAVING SUM(B.y) > 4",
    ]
    asked = tf.parse(";".join(texts))
    found, alone = asked.run(events), asked.run(events, strategy="cogra")
    assert any(isinstance(step.way, Lanes) and len(step.queries) == 5 for step in found.plan)
    for name in alone:
        rows, wanted = found[name].to_pylist(), alone[name].to_pylist()
        assert len(rows) == len(wanted), name
        for row, right in zip(rows, wanted, strict=True):
            weight = 1e6 * 2.0 ** min(right.get("log2_count") or 0.0, 900.0)
            assert all(close(row[c], right[c], weight) or _is_far(row[c], right[c]) for c in right), (
                row,
                right,
            )


def _is_far(found: object, wanted: object) -> bool:
    return isinstance(found, float) and isinstance(wanted, float) and math.isinf(found) and math.isinf(wanted)
