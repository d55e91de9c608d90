from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trendfold.query import parse, to_text

SHARED = Path(os.environ.get("TRENDFOLD_SHARED", Path(__file__).parents[2].parent / "shared"))
WORKLOADS = sorted((SHARED / "data" / "workloads").rglob("*.txt"))
CASES = SHARED / "spec" / "cases.json"


@pytest.mark.skipif(not WORKLOADS, reason="the published workloads are not here; set TRENDFOLD_SHARED")
def test_every_published_query_parses() -> None:
    queries = [query for path in WORKLOADS for query in parse(path.read_text(encoding="utf-8"))]
    assert len(queries) == 4_820
    for query in queries[::20]:
        assert parse(to_text(query)) == (query,)


@pytest.mark.skipif(not CASES.exists(), reason="the worked cases are not here; set TRENDFOLD_SHARED")
def test_every_worked_case_parses_and_reads_back() -> None:
    for case in json.loads(CASES.read_text(encoding="utf-8")):
        (query,) = parse(case["query"])
        assert parse(to_text(query)) == (query,)
