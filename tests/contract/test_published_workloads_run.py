"""The workloads the papers published, run end to end over a generated stock stream."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import trendfold as tf
from trendfold.bench.answers import first_difference
from trendfold.papers.gloria import plan as planning
from trendfold.query import refs

SHARED = Path(os.environ.get("TRENDFOLD_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")
FILES = sorted((SHARED / "data" / "workloads").rglob("*.txt"))
FEW = FILES[::12]

pytestmark = pytest.mark.skipif(not FILES, reason="the published workloads are not here")


def run(path: Path) -> None:
    """All queries of a file over one stream of their types; in lanes and in a stream per group alike."""
    workload = tf.read(path)
    types = sorted({ref.type for query in workload for ref, _ in refs(query.pattern)})
    events = tf.datasets.stock(events=3_000, seed=7, types=types, ties=0.1, burst=3)
    result = workload.run(events)
    assert list(result) == [query.name for query in workload]
    assert result.summary.rejects == 0
    exact = workload.run(events, arithmetic="exact")  # never in lanes
    for name, table in result.items():
        assert table.num_rows == exact[name].num_rows
        if "count" in table.column_names:
            counts = zip(table["count"].to_pylist(), exact[name]["count"].to_pylist(), strict=True)
            assert all(count == pytest.approx(float(digits), rel=1e-9) for count, digits in counts)


@pytest.mark.parametrize("path", FEW, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_published_workload_runs_end_to_end(path: Path) -> None:
    run(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_published_workload_runs_end_to_end(path: Path) -> None:
    run(path)


GLORIA = [path for path in FILES if "gloria-stock" in path.parts]
KINDS = ("SEQWorkload/workload_40", "KleeneLayers/workload_3", "MixWorkload/workload_12")


def shares(workload: tf.Workload, strategy: str) -> bool:
    """Whether any plan has snapshots; for ten queries SEQ(x+, y, z) sharing costs 301,200, not 301,000."""
    plans = [plan.group.details for plan in workload.plan(strategy) if plan.group is not None]
    return any(share.snapshot for plan in plans for crossing in plan.crossings for share in crossing.shares)


def agree(path: Path) -> None:
    """By the plans of GLORIA every query has the rows that it has alone: by those found by the frequencies of
    the rows, and by those for types that are equally frequent.
    """
    workload = tf.read(path)
    types = sorted({ref.type for query in workload for ref, _ in refs(query.pattern)})
    events = tf.datasets.stock(events=3_000, seed=7, types=types, ties=0.1, burst=3)
    alone = workload.run(events, strategy="cogra")
    for strategy in ("gloria", "gloria-greedy"):
        weighed = workload.run(events, strategy=strategy)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planning, "fitted", lambda group, known: group.details)
            shared = workload.run(events, strategy=strategy)
        assert (shared.summary.sharing["snapshots"] > 0) == shares(workload, strategy)
        for query in workload:
            for found in (weighed, shared):
                assert first_difference(alone[query.name], found[query.name]) is None


@pytest.mark.parametrize(
    "path",
    [p for p in GLORIA if str(p.with_suffix("")).endswith(KINDS)],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_plans_of_gloria_agree_with_queries_alone(path: Path) -> None:
    assert shares(tf.read(path), "gloria")
    agree(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", GLORIA, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_plans_of_gloria_agree_on_every_published_workload(path: Path) -> None:
    agree(path)
