"""The published cases: queries with events and their rows, worked out apart from this code base."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import trendfold
from contract import engine
from trendfold.errors import UnsupportedError
from workloads import Case

SHARED = Path(os.environ.get("TRENDFOLD_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")
CASES = SHARED / "spec" / "cases.json"
PUBLISHED = json.loads(CASES.read_text(encoding="utf-8")) if CASES.exists() else []

pytestmark = pytest.mark.skipif(not PUBLISHED, reason="the published cases are not here")


def test_all_of_them_are_here() -> None:
    assert len(PUBLISHED) == 600


@pytest.mark.parametrize("number", range(len(PUBLISHED)))
@pytest.mark.parametrize("strategy", engine.STRATEGIES)
def test_the_rows_are_the_published_ones(request: pytest.FixtureRequest, strategy: str, number: int) -> None:
    published = PUBLISHED[number]
    case = Case(published["query"], published["events"], published["order_column"])
    workload = trendfold.parse(case.query)
    (query,) = workload
    if engine.is_gap(query, strategy):
        reason = f"a gap of {strategy}"
        request.applymarker(pytest.mark.xfail(raises=UnsupportedError, strict=True, reason=reason))
    result = workload.run(engine.to_table(case), strategy=strategy, order_column=case.order_column)
    found = result[query.name].to_pylist()
    assert engine.difference(found, published["rows"], 2 + len(query.group_by)) is None
