"""INCLUDE EMPTY and COUNT(DISTINCT ...) give the oracle's rows, with every other clause."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine
from contract.more_clauses import with_more_clauses
from contract.test_machine_lanes import check as check_lanes
from contract.test_machine_lanes import random_workload
from contract.test_together import SCHEMA
from trendfold.errors import LimitError
from trendfold.testing import oracle

SEEDS = st.integers(0, 2**40)


def random_case(seed: int, **features: bool) -> workloads.Case:
    rng = random.Random(seed)
    case = workloads.random_case(rng, aggregates=True, having=rng.random() < 0.3, both=True, **features)
    return case._replace(query=with_more_clauses(case.query, rng))


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(200)
@given(seed=SEEDS)
def test_random_queries_agree_with_the_oracle(strategy: str, seed: int) -> None:
    features = {"sets": seed % 3 == 0, "nots": seed % 4 == 0, "neighbours": seed % 5 == 0}
    engine.check(random_case(seed, **features), strategy, origin=f"seed {seed}")


@pytest.mark.parametrize("arithmetic", ["exact", "integer"])
@engine.many(100)
@given(seed=SEEDS)
def test_whole_numbers(arithmetic: str, seed: int) -> None:
    case = random_case(seed)
    table = engine.to_table(case)
    workload = tf.parse(case.query)
    (query,) = workload
    found = workload.run(table, arithmetic=arithmetic, order_column=case.order_column)[query.name]
    kind = pa.string() if arithmetic == "exact" else pa.int64()
    counted = [i for i, item in enumerate(query.returns) if getattr(item.value, "distinct", ())]
    assert all(found.schema.field(f"d{i}").type == kind for i in range(len(counted)))
    if arithmetic == "integer":
        wrong = engine.difference(found.to_pylist(), oracle.rows(*case), 2 + len(query.group_by))
        assert wrong is None, f"seed {seed}: {wrong}\n{case!r}"


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
def test_the_last_stream_of_a_group_may_have_no_rows(strategy: str) -> None:
    """In partition 2 all rows are of another g, so the stream of g = 2 is empty there."""
    types, times = ["A", "T", "A", "T", "T"], [1, 2, 3, 4, 5]
    rows = zip(types, times, [1, 1, 1, 1, 2], [0, 1, 0, 2, 1], strict=True)
    events = [dict(zip(("type", "ts", "u", "g"), row, strict=True)) for row in rows]
    query = "RETURN T.g, COUNT(*), COUNT(DISTINCT u) PATTERN SEQ(A, T) WHERE [u] GROUP BY T.g WITHIN 10 s"
    found = tf.parse(query).run(pa.Table.from_pylist(events), strategy=strategy)["q1"].to_pylist()
    assert engine.difference(found, oracle.rows(query, events), 3) is None


@engine.many(150)
@given(seed=SEEDS)
def test_queries_in_lanes_agree_with_the_oracle(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    texts = [with_more_clauses(text, rng, "u") if rng.random() < 0.7 else text for text in texts]
    table = pa.Table.from_pylist(events, SCHEMA)
    check_lanes(texts, events, table, order_column, seed % 2 == 0)


@pytest.mark.parametrize("strategy", ["auto", "aseq", "hamlet", "hamlet-static", "gloria"])
@engine.many(60)
@given(seed=SEEDS)
def test_workloads_of_every_method_agree_with_the_oracle(strategy: str, seed: int) -> None:
    """Many queries over one pass, some of them with the clauses."""
    rng = random.Random(seed)
    asked = ["COUNT(*)", "COUNT(B)", "SUM(B.x)", "AVG(B.x)"] if strategy != "aseq" else ["COUNT(*)"]
    lines, closures = ["SEQ(A, B, C)", "SEQ(A, B)", "SEQ(B, C)"], ["SEQ(A, B+)", "SEQ(C, B+)"]
    patterns = lines if strategy == "aseq" else closures
    where, keys = rng.choice(["", " WHERE [u]"]), rng.choice(["", " GROUP BY g"])
    window = rng.choice([" WITHIN 8 s SLIDE 4 s", " WITHIN 5 s SLIDE 5 s"])
    texts = []
    for number in range(4):
        returned = ("g, " if keys else "") + rng.choice(asked)
        text = f"QUERY t{number} RETURN {returned} PATTERN {rng.choice(patterns)}{where}{keys}{window}"
        texts.append(with_more_clauses(text, rng, "u") if where and rng.random() < 0.7 else text)
    count = rng.randint(0, 30)
    events: list[dict[str, Any]] = [
        {"type": rng.choice("ABBCD"), "ts": i, "x": rng.randint(0, 3)}
        | {"u": rng.choice([1, 2, None]), "g": rng.choice(["a", "b", None])}
        for i in sorted(rng.sample(range(60), count))
    ]
    workload = tf.parse(";\n".join(texts))
    result = workload.run(pa.Table.from_pylist(events, SCHEMA), strategy=strategy)
    for query, text in zip(workload, texts, strict=True):
        found = result[query.name].to_pylist()
        wrong = engine.difference(found, oracle.rows(text, events, None), 2 + len(query.group_by))
        assert wrong is None, f"{strategy}: {text}: {wrong}\n{texts!r}\n{events!r}"


# ---- By hand ------------------------------------------------------------------------------------


def rows(text: str, types: str, times: list[int] | None = None, **columns: list[Any]) -> list[dict[str, Any]]:
    table = pa.table({"type": list(types), "ts": times or list(range(len(types))), **columns})
    return tf.parse(f"QUERY q RETURN {text}").run(table)["q"].to_pylist()


def test_windows_without_trends_have_a_row_if_an_event_could_take_a_position() -> None:
    found = rows("COUNT(*), SUM(B.x) PATTERN SEQ(A, NOT C, B) WITHIN 2 s SLIDE 2 s INCLUDE EMPTY", "ABBCA",
                 [0, 1, 4, 7, 9], x=[0, 5, 6, 7, 8])  # fmt: skip
    assert [(r["window_start"], r["count"], r["sum_B_x"]) for r in found] == [
        (0, 1.0, 5.0),
        (4, 0.0, None),
        (8, 0.0, None),
    ]


def test_without_within_the_window_is_the_whole_input() -> None:
    asked = "COUNT(*), LOG2(COUNT(*)), AVG(A.x), MIN(A.x) PATTERN SEQ(A, B) INCLUDE EMPTY"
    (row,) = rows(asked, "AA", x=[1, 2])
    assert list(row.values()) == [None, None, 0.0, None, None, None]
    assert rows(asked, "CD", x=[1, 2]) == []


def test_having_applies_to_empty_rows() -> None:
    asked = "COUNT(*) PATTERN SEQ(A, B) WITHIN 2 s SLIDE 2 s INCLUDE EMPTY HAVING COUNT(*) = 0"
    assert [row["window_start"] for row in rows(asked, "ABAC")] == [2]


def test_values_of_partitions_with_a_trend_are_counted_once() -> None:
    asked = "COUNT(DISTINCT u), LOG2(COUNT(DISTINCT u)) AS l, COUNT(DISTINCT u, v) PATTERN SEQ(A, B) "
    (row,) = rows(asked + "WHERE [u, v]", "AABBABA", u=[1, 1, 1, 1, 2, 2, 3], v=[1, 2, 1, 2, 1, 1, 1])
    assert (row["count_distinct_u"], row["l"], row["count_distinct_u_v"]) == (2.0, 1.0, 3.0)


def test_a_null_is_no_value() -> None:
    found = rows("g, COUNT(*), COUNT(DISTINCT g), LOG2(COUNT(DISTINCT g)) AS l PATTERN A GROUP BY g", "AAA",
                 g=["a", None, "a"])  # fmt: skip
    assert [tuple(row.values())[2:] for row in found] == [(None, 1.0, 0.0, None), ("a", 2.0, 1.0, 0.0)]


def test_empty_rows_count_towards_the_limit_of_rows() -> None:
    table = pa.table({"type": ["A"] * 20, "ts": list(range(20))})
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 s SLIDE 1 s INCLUDE EMPTY")
    with pytest.raises(LimitError, match="rows"):
        workload.run(table, limits={"rows": 19})
    assert workload.run(table, limits={"rows": 20}).summary.rows == {"q1": 20}


@pytest.mark.parametrize("seed", range(30))
def test_queries_that_compare_neighbours_alike_agree_with_the_oracle(seed: int) -> None:
    """Shared trees, and group values as copies."""
    rng = random.Random(seed)
    window = rng.choice(["WITHIN 8 s SLIDE 4 s", "WITHIN 6 s SLIDE 6 s", "WITHIN 7 s"])
    key = rng.choice(["", "g", "B.g"])
    texts = [
        with_more_clauses(
            f"QUERY t{i} RETURN {f'{key}, ' * bool(key)}COUNT(*), SUM(B.x) PATTERN SEQ(A, B+) "
            f"WHERE [u] AND B.x < NEXT(B).x AND B.y > {i} {f'GROUP BY {key} ' * bool(key)}{window}",
            rng,
        )
        for i in range(4)
    ]
    events: list[dict[str, Any]] = [
        {"type": rng.choice("ABBC"), "ts": i // 2, "x": rng.randint(0, 5), "y": rng.randint(0, 5) / 1.0}
        | {"u": rng.choice([1, 1, 2, None]), "g": rng.choice(["a", "b", None])}
        for i in range(rng.randint(0, 40))
    ]
    workload = tf.parse(";\n".join(texts))
    result = workload.run(pa.Table.from_pylist(events, SCHEMA))
    for query, text in zip(workload, texts, strict=True):
        found = result[query.name].to_pylist()
        wrong = engine.difference(found, oracle.rows(text, events, None), 2 + len(query.group_by))
        assert wrong is None, f"{text}: {wrong}\n{texts!r}\n{events!r}"
