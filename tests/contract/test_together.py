"""Queries that are folded together give each the rows it would have alone: the oracle's."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import bursty
import trendfold
from contract.engine import difference, many
from trendfold.testing import oracle

SCHEMA = pa.schema(
    [
        ("type", pa.string()),
        ("ts", pa.int64()),
        ("seq", pa.int64()),
        ("u", pa.int64()),
        ("g", pa.string()),
        ("x", pa.int64()),
        ("y", pa.float64()),
    ]
)


def check_workload(workload: bursty.Workload, strategy: str) -> None:
    """Fail unless every query has the oracle's rows."""
    table = pa.Table.from_pylist(workload.events, SCHEMA)
    parsed = trendfold.parse(workload.text)
    result = parsed.run(table, strategy=strategy, order_column=workload.order_column)
    for query, text in zip(parsed, workload.queries, strict=True):
        expected = oracle.rows(text, workload.events, workload.order_column)
        found = difference(result[query.name].to_pylist(), expected, 2 + len(query.group_by))
        assert found is None, f"{strategy}: {text}: {found}\n{workload!r}"


@many(160)
@given(seed=st.integers(0, 2**40))
def test_random_workloads_over_bursts(seed: int) -> None:
    workload = bursty.random_workload(random.Random(seed))
    check_workload(workload, "auto")
