"""Lanes whose overlapping windows are products of stretches give each query the oracle's rows."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from contract import engine
from contract.test_machine_lanes import (
    check,
    close,
    growing_workload,
    many_events,
    random_workload,
    run_in_lanes,
)
from contract.test_mixed_lanes import check_mixed
from contract.test_together import SCHEMA
from trendfold.kernel.jit import IS_PLAIN
from trendfold.plan import physical
from trendfold.plan.cost import DEFAULT_COSTS
from trendfold.plan.physical import Lanes, choose
from trendfold.plan.statistics import GroupStatistics, PaneStatistics
from trendfold.plan.workload import plan_all

WINDOWS = ("WITHIN 8 s SLIDE 4 s", "WITHIN 7 s SLIDE 3 s", "WITHIN 20 s SLIDE 5 s", "WITHIN 9 s SLIDE 1 s")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that overlap share their stretches."""
    monkeypatch.setattr(physical, "_shares_panes", lambda _, known, __: known.panes is not None)


def in_windows(texts: list[str], window: str) -> list[str]:
    """The same queries with the same windows."""
    return [f"{re.sub(' WITHIN .*', '', text)} {window}" for text in texts]


@pytest.mark.usefixtures("always")
@engine.many(300)
@given(seed=st.integers(0, 2**40))
def test_random_workloads(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    table = pa.Table.from_pylist(events, SCHEMA)
    check(in_windows(texts, rng.choice(WINDOWS)), events, table, order_column, in_bursts=seed % 3 > 0)


@pytest.mark.usefixtures("always")
@engine.many(100)
@given(seed=st.integers(0, 2**40))
def test_mixed_workloads(seed: int) -> None:
    check_mixed(seed, most=8, windows=(WINDOWS[seed % len(WINDOWS)],))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(2 if IS_PLAIN else 24))
def test_counts_of_any_size_are_as_each_query_alone(seed: int) -> None:
    rng = random.Random(seed)
    size = 400 if IS_PLAIN else 3_000
    events = many_events(rng, size, with_ties=seed % 2 == 1)
    window = rng.choice(["WITHIN 900 s SLIDE 300 s", "WITHIN 900 s SLIDE 50 s", "WITHIN 40 s SLIDE 7 s"])
    asked = growing_workload(rng, [window])
    found, wanted = run_in_lanes(list(asked), events, None, seed % 3 > 0), asked.run(events, strategy="cogra")
    assert list(found) == list(wanted)
    for name in wanted:
        rows, right = found[name].to_pylist(), wanted[name].to_pylist()
        assert len(rows) == len(right), name
        for row, other in zip(rows, right, strict=True):
            weight = 1e6 * other["count"] * size if np.isfinite(other["count"]) else 1.0
            for column in other:
                assert close(row[column], other[column], weight), (name, column, row, other)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(2 if IS_PLAIN else 8))
def test_values_of_any_size_are_as_each_query_alone(seed: int) -> None:
    rng = random.Random(seed)
    events = many_events(rng, 300, with_ties=seed % 2 == 1)
    asked = growing_workload(rng, ["WITHIN 90 s SLIDE 20 s"])
    sizes = [None, 0.0, 3.25, 1e6, 1e70, 1e300, 1e-70, 5e-300]  # no two signs: nothing cancels out
    events = events.set_column(2, "x", pa.array([rng.choice(sizes) for _ in range(300)]))
    found, wanted = run_in_lanes(list(asked), events, None), asked.run(events, strategy="cogra")
    for name in wanted:
        for row, other in zip(found[name].to_pylist(), wanted[name].to_pylist(), strict=True):
            assert all(close(row[column], other[column], 0.0) for column in other), (name, row, other)


@pytest.mark.parametrize(
    ("stretches", "multiplied", "is_shared"), [(1_000, 30_000, True), (1_000_000, 4_000_000, False)]
)
def test_stretches_are_shared_where_that_is_cheaper(stretches: int, multiplied: int, is_shared: bool) -> None:
    text = "QUERY q{} RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS next WITHIN 30 min SLIDE 1 min"
    group = plan_all(tf.parse(";".join(text.format(i) for i in range(50))).queries)[0].group
    assert group is not None
    known = GroupStatistics(rows=1_000_000, open_windows=30, panes=PaneStatistics(stretches, multiplied))
    way = choose(group, known, DEFAULT_COSTS)
    assert isinstance(way, Lanes)
    assert way.shares_panes == is_shared
    assert ("share stretches" in way.why) == is_shared
