"""Windows as products of stretches give what windows one by one give: the oracle's rows."""

from __future__ import annotations

import random

import pytest

import oracle
import trendfold as tf
import workloads
from contract import engine
from trendfold.runtime import stretches


@pytest.fixture
def always_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "stacks_pay", lambda overlap, shape: True)


@pytest.mark.usefixtures("always_stretches")
@pytest.mark.parametrize("seeds", range(10))
def test_products_of_stretches_are_the_windows(seeds: int) -> None:
    for seed in range(100 * seeds, 100 * seeds + 100):
        case = workloads.random_case(random.Random(seed), aggregates=True, having=True, both=True)
        result = tf.parse(case.query).run(
            engine.to_table(case), order_column=case.order_column, strategy="auto"
        )
        (query,) = tf.parse(case.query)
        expected = oracle.rows(case.query, case.events, case.order_column)
        found = result[query.name].to_pylist()
        assert engine.difference(found, expected, 2 + len(query.group_by)) is None, (seed, case.query)


def test_overlapping_windows_past_doubles_agree_with_windows_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(5)
    types = rng.choice(["A", "B", "C"], 6_000)
    events = pa.table(
        {"type": types.tolist(), "ts": list(range(6_000)), "x": rng.normal(size=6_000).tolist()}
    )
    query = tf.parse(
        "RETURN LOG2(COUNT(*)), AVG(B.x), MIN(B.x) PATTERN SEQ(A, B+, C) WITHIN 3000 s SLIDE 100 s"
    )
    shared = query.run(events)["q1"].to_pylist()
    monkeypatch.setattr(stretches, "stacks_pay", lambda overlap, shape: False)
    alone = query.run(events)["q1"].to_pylist()
    assert len(shared) == len(alone) > 60
    for one, other in zip(shared, alone, strict=True):
        assert one == pytest.approx(other, rel=1e-9)
