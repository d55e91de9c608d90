"""The published cases: queries with events and their rows, worked out apart from this code base."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trendfold
from contract import engine
from trendfold.errors import UnsupportedError
from trendfold.query.names import key_column, list_names
from trendfold.query.partitions import partition_attributes
from workloads import Case

SHARED = Path(os.environ.get("TRENDFOLD_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")


def published(name: str) -> list[dict[str, Any]]:
    path = SHARED / "spec" / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


PUBLISHED, MORE = published("cases.json"), published("cases-2.json")
MATCHES = published("cases-2-matches.json")

pytestmark = pytest.mark.skipif(not PUBLISHED, reason="the published cases are not here")


def test_all_of_them_are_here() -> None:
    assert len(PUBLISHED) == len(MORE) == 600


@pytest.mark.parametrize("number", range(len(PUBLISHED)))
@pytest.mark.parametrize("strategy", engine.STRATEGIES)
def test_the_rows_are_the_published_ones(request: pytest.FixtureRequest, strategy: str, number: int) -> None:
    given = PUBLISHED[number]
    case = Case(given["query"], given["events"], given["order_column"])
    workload = trendfold.parse(case.query)
    (query,) = workload
    if engine.is_gap(query, strategy):
        reason = f"a gap of {strategy}"
        request.applymarker(pytest.mark.xfail(raises=UnsupportedError, strict=True, reason=reason))
    result = workload.run(engine.to_table(case), strategy=strategy, order_column=case.order_column)
    found = result[query.name].to_pylist()
    assert engine.difference(found, given["rows"], 2 + len(query.group_by)) is None


# ---- What the language gained since --------------------------------------------------------------


COLUMNS = {
    **{"type": pa.string(), "ts": pa.int64(), "k": pa.int64(), "g": pa.string(), "h": pa.string()},
    **{"v": pa.int64(), "w": pa.float64(), "seq": pa.int64()},
}


@pytest.mark.parametrize("number", range(len(MORE)))
def test_the_rows_of_the_grown_language_are_the_published_ones(number: int) -> None:
    given = MORE[number]
    (query,) = workload = trendfold.parse(given["query"])
    columns = [name for name in COLUMNS if name != "seq" or given["order_column"]]
    table = pa.table({n: pa.array([e.get(n) for e in given["events"]], COLUMNS[n]) for n in columns})
    for strategy in engine.STRATEGIES:
        if not engine.is_gap(query, strategy):
            result = workload.run(table, strategy=strategy, order_column=given["order_column"])
            found = result[query.name].to_pylist()
            assert engine.difference(found, given["rows"], 2 + len(query.group_by)) is None, strategy


# ---- Matches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["auto", "construct"])
def test_the_matches_are_the_published_ones(strategy: str) -> None:
    wrong = [number for number, given in enumerate(MATCHES) if _found(given, strategy) != _given(given)]
    assert wrong == []


def _given(given: dict[str, Any]) -> list[str]:
    """The matches of a published case, in any order; groups and partitions are lists of values."""
    return sorted(json.dumps(match, sort_keys=True) for match in given["matches"])


def _found(given: dict[str, Any], strategy: str) -> list[str]:
    (query,) = workload = trendfold.parse(given["query"])
    columns = [name for name in COLUMNS if name != "seq" or given["order_column"]]
    table = pa.table({n: pa.array([e.get(n) for e in given["events"]], COLUMNS[n]) for n in columns})
    result = workload.run(table, strategy=strategy, order_column=given["order_column"])
    keys = [key_column(query, key) for key in query.group_by]
    found = []
    for row in result[query.name].to_pylist():
        match = {"start": row["start"], "end": row["end"], "group": [row[name] for name in keys]}
        match["partition"] = [row[name] for name in partition_attributes(query)]
        names = [name for name in list_names(query.pattern) if row[name]]
        match["bindings"] = {name: [event["id"] for event in row[name]] for name in names}
        found.append(json.dumps(match, sort_keys=True))
    return sorted(found)
