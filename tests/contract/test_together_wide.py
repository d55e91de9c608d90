"""Counts that leave the range of doubles, for queries together and for each alone."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf

PATTERNS = (
    "SEQ(A, B+, C)",
    "SEQ(A, B+)",
    "SEQ(C, B+, A)",
    "SEQ(A, B, C)",
    "B+",
    "SEQ(A+, B+, C)",
    "SEQ(A, B+, C)+",
    "OR(SEQ(A, C), SEQ(B+, D))",
    "SEQ(B, B+)",
    "SEQ(A, B?, C)",
)
RETURNS = ("COUNT(*)", "SUM(B.x)", "AVG(B.x)", "MIN(B.y)", "MAX(B.x)", "COUNT(B)", "LOG2(COUNT(*))")
WINDOWS = ("", "WITHIN 700 s SLIDE 700 s", "WITHIN 900 s SLIDE 300 s", "WITHIN 400 s SLIDE 500 s")


def bursts(rng: random.Random, events: int) -> pa.Table:
    """Bursts of 1 to 300 events of one type; some share a time."""
    types: list[str] = []
    while len(types) < events:
        types += rng.choice("AABBBCD") * rng.choice([1, 1, 2, 5, 40, 300])
    steps = np.array([rng.choice([0, 1, 1, 1]) if rng.random() < 0.2 else 1 for _ in range(events)])
    return pa.table(
        {
            "type": types[:events],
            "ts": np.cumsum(steps),
            "g": [rng.choice("pq") for _ in range(events)],
            "x": [rng.choice([None, -2.5, 0.0, 1.0, 3.25, 1e6]) for _ in range(events)],
            "y": [rng.choice([None, 4, 7, -1]) for _ in range(events)],
        }
    )


def workload(rng: random.Random, queries: int) -> tf.Workload:
    """Queries that differ in everything but the rows they need."""
    texts = []
    for i in range(queries):
        pattern = rng.choice(PATTERNS)
        fit = [item for item in RETURNS if "B" in pattern or "B" not in item]
        returned = ", ".join(dict.fromkeys(["COUNT(*)", *rng.sample(fit, rng.randint(0, min(3, len(fit))))]))
        where = f"WHERE B.x < {rng.choice([0, 2, 4])}" if "B" in pattern and rng.random() < 0.4 else ""
        texts.append(f"QUERY q{i} RETURN {returned} PATTERN {pattern} {where} {rng.choice(WINDOWS)}")
    return tf.parse(";".join(texts))


def close(found: object, wanted: object, weight: float) -> bool:
    if found is None or wanted is None or not isinstance(wanted, float):
        return found == wanted
    if math.isinf(wanted) or math.isinf(found):
        return found == wanted
    return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9 * weight)


@pytest.mark.parametrize("seed", range(12))
def test_queries_together_are_as_each_alone(seed: int) -> None:
    rng = random.Random(seed)
    events, asked = bursts(rng, 3_000), workload(rng, rng.randint(2, 9))
    together, alone = asked.run(events), asked.run(events, strategy="cogra")
    for name in alone:
        found, wanted = together[name].to_pylist(), alone[name].to_pylist()
        assert len(found) == len(wanted), name
        for row, right in zip(found, wanted, strict=True):
            weight = 1e6 * right["count"] * 3_000 if math.isfinite(right["count"]) else 1.0
            for column in right:
                assert close(row[column], right[column], weight), (name, column, row, right)


def test_a_single_query_over_bursts_is_as_every_window_on_its_own() -> None:
    events = bursts(random.Random(99), 5_000)
    for window in WINDOWS:
        asked = tf.parse(f"RETURN COUNT(*), LOG2(COUNT(*)) PATTERN SEQ(A, B+, C) {window}")
        found, wanted = asked.run(events)["q1"], asked.run(events, strategy="cogra")["q1"]
        assert found.num_rows == wanted.num_rows
        assert np.allclose(found["log2_count"], wanted["log2_count"], rtol=1e-12)
