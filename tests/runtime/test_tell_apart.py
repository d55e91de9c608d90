"""Rows of one kind meet the same conditions, whatever is compared with what."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.automaton import build, split
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.kernel import lane_masks
from trendfold.kernel.lane_masks import distinct_rows
from trendfold.kernel.rows import find_intervals
from trendfold.query.nodes import Expression
from trendfold.runtime.tell_apart import tell_apart
from trendfold.runtime.workspace import Workspace

ROWS = 500


def conditions(*texts: str) -> list[Expression]:
    """Conditions on one event, from their texts."""
    (query,) = tf.parse(f"RETURN COUNT(*) PATTERN A WHERE {' AND '.join(texts)}")
    return [local.condition for local in split(query, build(query.pattern)).local]


@pytest.fixture
def workspace() -> Workspace:
    rng = np.random.default_rng(3)
    whole = rng.integers(-3, 9, ROWS)
    table = {
        "type": ["A"] * ROWS,
        "ts": np.arange(ROWS),
        "i": pa.array(whole, mask=rng.random(ROWS) < 0.2),
        "f": pa.array(whole / 2, mask=rng.random(ROWS) < 0.2),
        "s": rng.choice(["x", "y"], ROWS),
    }
    return Workspace(read_batch(pa.table(table), Options()))


@pytest.mark.parametrize(
    "texts",
    [
        ["A.i > 1", "A.i < 5", "A.i != 3", "3 <= A.i"],
        ["A.f > 1", "A.f <= 2.5", "A.f = 0", "A.f < 1.25"],
        ["A.i > 1.5", "A.i < 2", "A.f > 0", "A.f > 1", "A.s = 'x'"],
        ["A.i > 1", "A.s = 'y'"],
        ["A.i IN (1, 4)", "A.i NOT IN (1, 2)", "NOT A.i = 3", "A.i BETWEEN 0 AND 4", "(A.i < 0 OR A.i > 6)"],
        ["A.f IN (1, 2.5)", "A.f NOT BETWEEN 0 AND 1", "(A.f = 1 OR A.i = 1)", "A.f IN (1, NULL)"],
        [f"A.i + {k} > A.f" for k in range(40)],
        [f"A.i * 2 - A.i > {k}" for k in range(-2, 8)] + ["A.i / A.f > 1", "A.i / A.f < 2", "A.i > 2"],
        ["A.i * 9000000000000000000 > 1", "A.i * 9000000000000000000 < 7", "ABS(A.i) IN (1, 3)", "-A.f < 0"],
    ],
)
def test_a_kind_meets_what_its_rows_meet(workspace: Workspace, texts: list[str]) -> None:
    wanted, rows = conditions(*texts), np.arange(0, ROWS, 2)
    held, kind = tell_apart(wanted, rows, workspace)
    for condition in wanted:
        assert (held[condition][kind] == workspace.holds(condition)[rows]).all()


def test_a_condition_that_was_judged_before_still_tells_rows_apart(workspace: Workspace) -> None:
    wanted, rows = conditions("A.i > 3", "A.i > 1", "A.i < 0"), np.arange(ROWS)
    workspace.holds(wanted[0])
    held, kind = tell_apart(wanted, rows, workspace)
    for condition in wanted:
        assert (held[condition][kind] == workspace.holds(condition)[rows]).all()


@pytest.mark.parametrize("cuts", [[1.0], [1.0, 2.0], [0.0, 1.0, 5.0], [0.0, 1.0, 2.0, 3.0, 4.0]])
def test_intervals_are_those_of_a_search(cuts: list[float]) -> None:
    values = np.array([-1, 0, 0.5, 1, 1.5, 2, 3, 5, 6])
    found = np.empty(len(values), np.int64)
    find_intervals(values, np.array(cuts), found)
    assert found.tolist() == [2 * np.searchsorted(cuts, v) + 1 + (v in cuts) for v in values]


@pytest.mark.parametrize("columns", [1, 7, 64, 65, 300])
def test_distinct_rows_are_told_apart_and_an_empty_one_comes_first(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(columns)
    table = np.concatenate([rng.random((40, columns)) < 0.5, np.zeros((1, columns), np.bool_)])
    table = table[rng.integers(0, len(table), 200)]
    table[17] = False
    for _ in range(2):
        rows, code = distinct_rows(table)
        assert (rows[code] == table).all()
        assert not rows[0].any()
        assert len(rows) == len(np.unique(table, axis=0))
        monkeypatch.setattr(lane_masks, "_weights", lambda count: np.eye(1, count, dtype=np.uint64)[0])
