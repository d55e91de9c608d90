"""Funnels beside ClickHouse's `windowFunnel`, where both define the same; `make test-chdb` gets it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trendfold as tf

pytest.importorskip("chdb", reason="`make test-chdb` gets ClickHouse")

from chdb_funnel import window_funnel

pytestmark = pytest.mark.filterwarnings("default")


def stream(seed: int, has_ties: bool, events: int = 2_000) -> pa.Table:
    draw = np.random.default_rng(seed)
    times = draw.integers(0, 60, events) if has_ties else draw.permutation(events)
    types = np.array(["A", "B", "C", "D", "x"])[draw.integers(0, 5, events)]
    return pa.table({"type": types, "ts": times, "user": draw.integers(0, 250, events)})


def ours(table: pa.Table, steps: Sequence[str], within: int) -> list[int]:
    """Ours is less than `within`; ClickHouse's windows include their end."""
    return tf.funnel(table, steps=steps, by="user", within=f"{within + 1} s").table["keys"].to_pylist()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("mode", ["", "strict_increase"])
def test_different_steps_at_different_times_are_counted_alike(seed: int, mode: str, tmp_path: Path) -> None:
    table, steps = stream(seed, has_ties=False), ["A", "B", "C", "D"]
    within = int(np.random.default_rng(seed).integers(1, 1_500))
    pq.write_table(table, tmp_path / "events.parquet")
    assert ours(table, steps, within) == window_funnel(tmp_path / "events.parquet", steps, within, mode)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("steps", [["A", "A", "B"], ["A", "B", "A", "B"]])
def test_repeated_steps_are_counted_as_by_strict_once(seed: int, steps: list[str], tmp_path: Path) -> None:
    table = stream(seed, has_ties=False)
    pq.write_table(table, tmp_path / "events.parquet")
    assert ours(table, steps, 500) == window_funnel(tmp_path / "events.parquet", steps, 500, "strict_once")


def test_where_they_differ(tmp_path: Path) -> None:
    """An A at 1 and a B at 2; another A at the time of the B hides the first one from strict_increase."""
    table = pa.table({"type": ["A", "A", "B"], "ts": [1, 2, 2], "user": [1, 1, 1]})
    pq.write_table(table, tmp_path / "events.parquet")
    assert ours(table, ["A", "B"], 10) == [1, 1]
    assert window_funnel(tmp_path / "events.parquet", ["A", "B"], 10, "strict_increase") == [1, 0]
    table = table.slice(1)  # A and B at one time: neither is before the other
    pq.write_table(table, tmp_path / "events.parquet")
    assert ours(table, ["A", "B"], 10) == [1, 0]
    assert window_funnel(tmp_path / "events.parquet", ["A", "B"], 10, "") == [1, 1]
