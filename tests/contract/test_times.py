"""Times and durations in conditions: TIME(E), TIMESTAMP, and bounds on gaps between neighbours."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from contract import engine
from trendfold.errors import QueryError, UnsupportedError
from trendfold.plan import plan_auto
from trendfold.plan.neighbour import Structure

SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(250)
@given(seed=SEEDS)
def test_conditions_on_times_give_the_oracles_rows(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, times=True, aggregates=True, both=seed % 4 == 0, sets=seed % 3 == 0)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(120)
@given(seed=SEEDS)
def test_times_of_any_two_events_are_compared(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, times=True, cross=True, aggregates=True)


@engine.many(120)
@given(seed=SEEDS)
def test_gaps_beside_other_comparisons_of_neighbours(seed: int) -> None:
    engine.check_seed(seed, "auto", times=True, neighbours=True, aggregates=True)


@pytest.mark.parametrize(
    "gap",
    [
        "TIME(NEXT(B)) - TIME(B) <= 10 min",
        "10 min >= TIME(NEXT(B)) - TIME(B)",
        "TIME(B) - TIME(NEXT(B)) >= -10 min",
        "TIME(NEXT(B)) - TIME(B) BETWEEN 1 s AND 2 * 5 min",
        "TIME(NEXT(B)) - TIME(B) < B.v * 1 s + 5 min",
    ],
)
@pytest.mark.parametrize("semantics", ["any", "next"])
def test_a_bound_on_a_gap_is_found_by_value(gap: str, semantics: str) -> None:
    (query,) = tf.parse(f"RETURN COUNT(*) PATTERN SEQ(A, B+) SEMANTICS {semantics} WHERE {gap}")
    (access,) = [found for found in plan_auto(query).operands[0].accesses if found.predicates]
    assert access.structure is Structure.TREE


def table(times: pa.Array) -> pa.Table:
    return pa.table({"type": ["A", "B", "A", "B"], "ts": times, "v": [1, 2, 3, 4]})


TIMES = [1_700_000_000_000_000, 1_700_000_001_500_000, 1_700_000_002_000_000, 1_700_000_004_000_000]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_column_of_timestamps_is_a_time_too(unit: str) -> None:
    times = pa.array(np.array(TIMES) * (1 if unit == "us" else 1000)).cast(pa.timestamp(unit, "UTC"))
    count = tf.parse(
        "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE B.ts - 1 s > TIMESTAMP '2023-11-14 22:13:20.4';"
        "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.ts + 1500 ms >= NEXT(B).ts;"
        "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE TIME(A) = A.ts AND TIME(NEXT(B)) - TIME(A) > 0.001 s"
    ).run(table(times))
    assert [count[f"q{i}"].column("count").to_pylist() for i in (1, 2, 3)] == [[3.0], [1.0], [3.0]]
    mixed = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B) WHERE ABS(A.ts - NEXT(B).ts) < 2 s")
    if unit == "us":
        assert mixed.run(table(times))["q1"].column("count").to_pylist() == [1.0]
    else:
        with pytest.raises(UnsupportedError, match="nanoseconds"):
            mixed.run(table(times))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("TIME(A) > 5", "cannot compare TIME(A) (time) with 5 (integer)"),
        ("TIME(A) - TIME(A) > 5", "cannot compare TIME(A) - TIME(A) (duration) with 5 (integer)"),
        ("TIME(A) + TIME(A) > 5 s", "'+' cannot combine a time with a time: TIME(A) + TIME(A)"),
        ("5 s / 2 > 1 s", "the condition names no event"),
        ("A.v * 5 s / 2 > 1 s", "'/' cannot combine a duration with an integer: A.v * 5 s / 2"),
        ("TIME(A) * 2 > TIME(A)", "'*' cannot combine a time with an integer: TIME(A) * 2"),
        ("-TIME(A) IS NULL", "'-' takes numbers, but TIME(A) is a time"),
        ("A.v < 1 s", "cannot compare A.v (integer) with 1 s (duration)"),
        ("A.v < 1 fortnight", "expected an operator or a clause, found 'fortnight'"),
    ],
)
def test_what_times_do_not_mean_is_an_error_at_its_place(condition: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        tf.parse(f"RETURN COUNT(*) PATTERN A WHERE {condition}").run(table(pa.array([1, 2, 3, 4])))
    (problem,) = caught.value.problems
    assert problem.message == message
    assert problem.column > 32


def test_a_duration_is_no_attribute_of_an_aggregate() -> None:
    with pytest.raises(QueryError, match="SUM takes one attribute of an alias"):
        tf.parse("RETURN SUM(TIME(A)) PATTERN A")
    with pytest.raises(QueryError, match=r"HAVING names 'TIME\(A\)'"):
        tf.parse("RETURN COUNT(*) PATTERN A HAVING TIME(A) > TIMESTAMP '2024-01-01'")


def test_having_compares_times() -> None:
    times = pa.array(TIMES).cast(pa.timestamp("us"))
    workload = tf.parse(
        "RETURN MAX(B.ts) AS latest PATTERN SEQ(A, B) HAVING latest - 2 s > TIMESTAMP '2023-11-14 22:13:21'"
    )
    assert workload.run(table(times))["q1"].num_rows == 1
