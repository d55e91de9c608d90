"""Trends that count once, if they are short enough: `WITHIN w EVERY s` and `WITHIN w ONCE`."""

from __future__ import annotations

import random
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold
import workloads
from contract import engine
from contract.engine import many
from contract.more_clauses import with_more_clauses
from trendfold.errors import QueryError, UnsupportedError
from trendfold.plan import physical
from trendfold.plan.physical import Products, Vectors
from trendfold.testing import oracle
from workloads import Case

SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@given(seed=SEEDS)
@many(80)
def test_every_strategy_counts_short_trends_once(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, spans=True, aggregates=True, sets=True, nots=True)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@given(seed=SEEDS)
@many(40)
def test_predicates_between_any_two_events(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, spans=True, aggregates=True, cross=True, times=True)


@pytest.mark.parametrize("strategy", ["auto", "greta"])
@given(seed=SEEDS)
@many(40)
def test_comparisons_of_neighbours_with_having(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, spans=True, aggregates=True, neighbours=True, having=True)


@pytest.mark.parametrize("arithmetic", ["exact", "integer"])
@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@given(seed=SEEDS)
@many(20)
def test_whole_numbers(strategy: str, arithmetic: str, seed: int) -> None:
    case = workloads.random_case(random.Random(seed), spans=True, having=True, neighbours=seed % 2 == 0)
    workload = trendfold.parse(case.query)
    (query,) = workload
    table = engine.to_table(case)
    if engine.is_gap(query, strategy):
        return
    result = workload.run(table, strategy=strategy, order_column=case.order_column, arithmetic=arithmetic)
    found = [
        {name: int(value) if name not in ("window_start", "window_end") and _is_text(value) else value}
        for row in result[query.name].to_pylist()
        for name, value in row.items()
    ]
    expected = [{name: value} for row in oracle.rows(*case) for name, value in row.items()]
    assert len(found) == len(expected)
    for (one,), (other,) in zip(map(dict.items, found), map(dict.items, expected), strict=True):
        assert one[0] == other[0]
        assert engine.same(one[1], other[1]) or str(one[1]) == str(other[1]), case.query


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.lstrip("-").isdigit()


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@given(seed=SEEDS)
@many(40)
def test_periods_without_trends_and_distinct_values(strategy: str, seed: int) -> None:
    rng = random.Random(seed)
    case = workloads.random_case(rng, spans=True, sets=True, nots=True)
    engine.check(case._replace(query=with_more_clauses(case.query, rng)), strategy, origin=f"seed {seed}")


SEMANTICS = ["skip-till-any-match", "skip-till-next-match", "contiguous"]
PATTERNS = ["A+", "SEQ(A, B+)", "SEQ(A+, NOT C, B)", "SEQ(NOT C, A, B+)", "SEQ(A, B+, NOT C)"]
PATTERNS += ["SEQ(NOT C, A, B+, NOT SEQ(C, C))", "SEQ(NOT C, NOT SEQ(C, B), A+, NOT C, B, NOT C)"]


def events(rng: random.Random, many: int) -> list[dict]:
    """Events of which several share a time."""
    times = sorted(rng.randint(0, many // 2) for _ in range(many))
    return [
        {
            "type": rng.choice("AAAAAABBBBBBBBBBC"),
            "ts": ts,
            "k": 0,
            "g": "x",
            "v": rng.randint(0, 9),
            "w": None,
            "s": None,
        }
        for ts in times
    ]


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("by", ["ONCE", "EVERY 3 s", "EVERY 20 s"])
def test_products_of_stretches_give_what_windows_one_by_one_do(
    monkeypatch: pytest.MonkeyPatch, pattern: str, semantics: str, by: str
) -> None:
    monkeypatch.setattr(physical, "products_ns", lambda overlap, shape: 0.0)
    rng = random.Random(f"{pattern}{semantics}{by}")
    returned = "RETURN COUNT(*), SUM(A.v), AVG(A.v)" + rng.choice(["", ", MAX(A.v)"])
    query = f"{returned} PATTERN {pattern} SEMANTICS {semantics} WITHIN 9 s {by}"
    table = engine.to_table(Case("", events(rng, 300), None))
    workload = trendfold.parse(query)
    auto, cogra = (workload.run(table, strategy=strategy) for strategy in ("auto", "cogra"))
    assert engine.difference(auto["q1"].to_pylist(), cogra["q1"].to_pylist(), 2) is None
    (shared,), (apart,) = auto.plan, cogra.plan
    assert isinstance(shared.way, Products) or "NOT" in pattern  # which may leave no window to share
    assert isinstance(apart.way, Vectors)


@pytest.mark.compiled
@pytest.mark.parametrize("pattern", ["A+", "SEQ(A, B+)"])
@pytest.mark.parametrize("within", [900, 3_000])
def test_counts_past_the_range_of_doubles(pattern: str, within: int) -> None:
    rng = random.Random(pattern)
    table = engine.to_table(Case("", events(rng, 7_000), None))
    text = f"RETURN LOG2(COUNT(*)), AVG(A.v) PATTERN {pattern} WITHIN {within} s EVERY 700 s"
    workload = trendfold.parse(text)
    auto, cogra = (workload.run(table, strategy=strategy)["q1"] for strategy in ("auto", "cogra"))
    assert max(auto.column(2).to_pylist()) > within / 3  # doubles end at 1,023
    assert engine.difference(auto.to_pylist(), cogra.to_pylist(), 2) is None


def test_a_trend_counts_in_the_period_of_its_last_event() -> None:
    table = pa.table({"type": ["A", "B", "B", "A", "B"], "ts": [8, 9, 11, 13, 22]})
    counted = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 s"
    workload = trendfold.parse(f"{counted} EVERY 10 s; {counted} ONCE")
    result = workload.run(table)
    assert result["q1"].to_pylist() == [
        {"window_start": 0, "window_end": 10, "count": 1.0},
        {"window_start": 10, "window_end": 20, "count": 1.0},
    ]
    assert result["q2"].to_pylist() == [{"window_start": None, "window_end": None, "count": 2.0}]


def test_origin_shifts_the_periods() -> None:
    table = pa.table({"type": ["A", "B"], "ts": [8, 9]})
    result = trendfold.parse("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 s EVERY 10 s").run(table, origin=4)
    assert result["q1"].column("window_start").to_pylist() == [4]


def test_queries_with_a_bound_stand_beside_others_in_a_workload() -> None:
    rng = random.Random(7)
    table = engine.to_table(Case("", events(rng, 60), None))
    texts = [
        f"RETURN COUNT(*), SUM(A.v) PATTERN {pattern} WITHIN 7 s {by}"
        for pattern in PATTERNS
        for by in ("ONCE", "EVERY 5 s", "SLIDE 5 s", "")
    ]
    together = trendfold.parse(";".join(texts)).run(table)
    for number, text in enumerate(texts, start=1):
        assert together[f"q{number}"].equals(trendfold.parse(text).run(table)["q1"]), text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RETURN COUNT(*) PATTERN A WITHIN 3 s EVERY 1 min SLIDE 2 s", "SLIDE cannot be combined with EVERY"),
        ("RETURN COUNT(*) PATTERN A WITHIN 3 s ONCE SLIDE 2 s", "SLIDE cannot be combined with ONCE"),
        ("RETURN COUNT(*) PATTERN A WITHIN 3 events ONCE", "WITHIN counts events, and ONCE needs durations"),
        ("RETURN COUNT(*) PATTERN A WITHIN 3 s EVERY 3 events", "EVERY counts events"),
        ("RETURN MATCHES PATTERN A WITHIN 3 s EVERY 1 s", "EVERY cannot be combined with RETURN MATCHES"),
        ("RETURN COUNT(*) PATTERN A & B WITHIN 3 s ONCE", "ONCE cannot be combined with AND"),
        ("RETURN COUNT(*) PATTERN A EVERY 3 s", "EVERY comes directly after WITHIN"),
    ],
)
def test_what_does_not_fit_together_is_an_error(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        trendfold.parse(text)


def test_durations_are_whole_ticks() -> None:
    table = pa.table({"type": ["A"], "ts": [1]})
    with pytest.raises(QueryError, match="WITHIN and EVERY must be whole numbers"):
        trendfold.parse("RETURN COUNT(*) PATTERN A WITHIN 1 s EVERY 1500 ms").run(table)


@pytest.mark.parametrize("by", ["EVERY 5 s", "ONCE"])
def test_a_seq_names_the_clause_it_cannot_count(by: str) -> None:
    workload = trendfold.parse(f"RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 3 s {by}")
    with pytest.raises(UnsupportedError, match=f"WITHIN has {by.split()[0]}"):
        workload.run(pa.table({"type": ["A"], "ts": [1]}), strategy="aseq")


@pytest.mark.parametrize("strategy", ["hamlet", "gloria"])
def test_papers_that_share_fold_bounded_queries_alone(strategy: str) -> None:
    rng = random.Random(3)
    table = engine.to_table(Case("", events(rng, 40), None))
    text = "RETURN COUNT(*) PATTERN SEQ(A, B+) WITHIN 7 s EVERY 5 s"
    workload = trendfold.parse(f"{text}; {text}; RETURN COUNT(*) PATTERN SEQ(C, B+) WITHIN 7 s SLIDE 7 s")
    auto, shared = workload.run(table), workload.run(table, strategy=strategy)
    for name in ("q1", "q2", "q3"):
        assert shared[name].equals(auto[name])


def test_parameters_may_be_both_durations() -> None:
    text = "RETURN COUNT(*) PATTERN A WITHIN :w EVERY :s"
    workload = trendfold.parse(text, params={"w": timedelta(seconds=3), "s": timedelta(hours=1)})
    assert "WITHIN 3 s EVERY 1 h" in str(workload)
