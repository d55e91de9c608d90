"""arithmetic="integer": COUNTs and SUMs of integers as 64-bit integers, exact or an error."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold
import workloads
from contract import engine
from contract.engine import many
from trendfold.errors import LimitError, UnsupportedError
from trendfold.testing import oracle

SEEDS = st.integers(0, 2**40)


def run(query: str, types: str, strategy: str = "auto", **columns: list[Any]) -> pa.Table:
    table = pa.table({"type": list(types), "ts": list(range(len(types))), **columns})
    return trendfold.parse(f"QUERY q {query}").run(table, strategy=strategy, arithmetic="integer")["q"]


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@many(60)
@given(seed=SEEDS)
def test_random_queries_agree_with_the_oracle(strategy: str, seed: int) -> None:
    case = workloads.random_case(random.Random(seed), aggregates=True, having=True)
    workload = trendfold.parse(case.query)
    (query,) = workload
    table = engine.to_table(case)
    options: dict[str, Any] = {"strategy": strategy, "order_column": case.order_column}
    try:
        found = workload.run(table, arithmetic="integer", **options)[query.name]
    except UnsupportedError:
        assert engine.is_gap(query, strategy)
        return
    exact = workload.run(table, arithmetic="exact", **options)[query.name]
    keys = 2 + len(query.group_by)
    integers = {f.name for f in list(exact.schema)[keys:] if pa.types.is_string(f.type)}
    assert all(found.schema.field(name).type == pa.int64() for name in integers)
    difference = engine.difference(found.to_pylist(), oracle.rows(*case), keys)
    assert difference is None, f"seed {seed}: {difference}\n{case.query}\n{case.events!r}"


def test_counts_and_sums_of_integers_are_integers_and_other_columns_keep_their_types() -> None:
    asked = "RETURN COUNT(*), COUNT(A), SUM(A.v), SUM(A.w), AVG(A.v), LOG2(COUNT(*)), MIN(A.v) PATTERN A+"
    found = run(asked, "AAA", v=[1, -2, None], w=[0.5, 1.0, 2.0])
    kinds = [pa.int64()] * 3 + [pa.float64()] * 3 + [pa.int64()]
    assert found.schema.types[2:] == kinds
    (row,) = found.to_pylist()
    assert (row["count"], row["count_A"], row["sum_A_v"]) == (7, 12, -4)


def test_a_sum_without_values_is_null() -> None:
    assert run("RETURN SUM(A.v) PATTERN A", "A", v=pa.array([None], pa.int64()))["sum_A_v"].to_pylist() == [
        None
    ]


@pytest.mark.parametrize("strategy", ["auto", "cogra", "greta"])
@pytest.mark.parametrize("events", [52, 53, 54, 62, 63])
def test_what_doubles_cannot_hold_is_exact(strategy: str, events: int) -> None:
    assert run("RETURN COUNT(*) PATTERN A+", "A" * events, strategy)["count"].to_pylist() == [2**events - 1]


def test_sums_that_cancel_are_exact() -> None:
    big = 2**62
    found = run("RETURN SUM(A.v) PATTERN A", "AAAA", v=[big, 3, -big, 4])
    assert found["sum_A_v"].to_pylist() == [7]
    found = run("RETURN SUM(A.v) PATTERN A", "AAA", v=[big, big, -big])
    assert found["sum_A_v"].to_pylist() == [big]


@pytest.mark.parametrize("events", [64, 65, 2_000])
def test_what_does_not_fit_is_an_error_that_names_query_window_and_column(events: int) -> None:
    asked = "RETURN COUNT(*) AS many PATTERN A+ WITHIN 10000 s SLIDE 10000 s"
    with pytest.raises(
        LimitError, match=r"query 'q': 'many' of the window that begins at 0 does not fit the 64"
    ):
        run(asked, "A" * events)
    with pytest.raises(LimitError, match=r"the only window .* arithmetic='auto'.*LOG2.*arithmetic='exact'"):
        run("RETURN COUNT(*) PATTERN A+", "A" * events)


def test_a_row_that_having_leaves_out_need_not_fit() -> None:
    asked = "RETURN COUNT(*) PATTERN A+ WITHIN 100 s SLIDE 100 s HAVING COUNT(*) < 1000"
    assert run(asked, "A" * 102)["count"].to_pylist() == [3]


def test_fifty_queries_share_a_fold_and_count_in_integers() -> None:
    text = ";".join(
        f"RETURN COUNT(*), SUM(A.v) PATTERN A+ WHERE A.v > {i} WITHIN 9 s SLIDE 9 s" for i in range(50)
    )
    table = pa.table({"type": ["A"] * 90, "ts": list(range(90)), "v": [i * 7 % 60 for i in range(90)]})
    workload = trendfold.parse(text)
    result, doubles = workload.run(table, arithmetic="integer"), workload.run(table)
    assert len(result.plan.steps) == 1
    for name in result:
        assert result[name].schema.field("count").type == pa.int64()
        assert result[name].to_pylist() == doubles[name].to_pylist()
