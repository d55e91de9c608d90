"""Folds over many events: counts that no double holds, ties, and state that does not grow."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import trendfold
from trendfold.kernel import fold
from trendfold.plan import plan
from trendfold.testing import oracle

COUNT_WINDOWS = fold.count_windows
STRATEGIES = ["cogra", "greta"]
both_kernels = pytest.mark.parametrize("strategy", STRATEGIES)
"""cogra folds vectors; greta keeps every binding."""


def run(query: str, types: str, strategy: str, times: list[int] | None = None, **columns: Any) -> Any:
    table = pa.table({"type": list(types), "ts": times or list(range(len(types))), **columns})
    return trendfold.parse(f"QUERY q {query}").run(table, strategy=strategy)


def one_row(query: str, types: str, strategy: str, times: list[int] | None = None, **columns: Any) -> dict:
    (row,) = run(query, types, strategy, times, **columns)["q"].to_pylist()
    return row


def trends(pattern: str, types: str, times: list[int] | None = None) -> int:
    """The exact number of trends under any: Python's integers over the oracle's automaton."""
    (automaton,) = oracle.Meaning(f"RETURN COUNT(*) PATTERN {pattern}").operands
    before = dict.fromkeys(automaton.own, 0)
    total, now, fresh = 0, None, []
    for kind, time in zip(types, times or range(len(types)), strict=True):
        if time != now:
            for q, count in fresh:
                before[q] += count
            now, fresh = time, []
        for q in automaton.own:
            if automaton.positions[q].holds(kind):
                count = (q in automaton.first) + sum(n for p, n in before.items() if q in automaton.follow[p])
                fresh.append((q, count))
                total += count * (q in automaton.last)
    return total


def is_log2(found: float, exact: int) -> bool:
    return math.isclose(found, math.log2(exact), rel_tol=1e-9, abs_tol=1e-9)


def nearest_double(exact: int) -> float:
    """Infinite past the range: 2^1024 - 1 rounds to 2^1024, which no double holds."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf


# ---- Counts past doubles --------------------------------------------------------------------------


@both_kernels
@pytest.mark.parametrize("n", [1, 52, 53, 54, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 1500])
def test_a_kleene_plus_of_n_events_has_2_to_the_n_less_one_trends(strategy: str, n: int) -> None:
    row = one_row("RETURN COUNT(*), LOG2(COUNT(*)) PATTERN A+", "A" * n, strategy)
    assert is_log2(row["log2_count"], 2**n - 1)
    if n <= 53:
        assert row["count"] == 2**n - 1
    else:
        assert row["count"] == pytest.approx(nearest_double(2**n - 1), rel=1e-9)


@both_kernels
@pytest.mark.parametrize("n", [52, 53, 54, 1022, 1023, 1024, 1025])
def test_counts_are_exact_below_2_to_the_53_and_infinite_past_doubles(strategy: str, n: int) -> None:
    exact = trends("SEQ(A+, B)", "A" * n + "B")
    found = one_row("RETURN COUNT(*) PATTERN SEQ(A+, B)", "A" * n + "B", strategy)["count"]
    if exact < 2**53:
        assert found == exact
    else:
        assert found == pytest.approx(nearest_double(exact), rel=1e-9)


@pytest.mark.parametrize("n", [20_000, 100_000])
def test_a_hundred_thousand_doublings_are_still_counted(n: int) -> None:
    row = one_row("RETURN COUNT(*), LOG2(COUNT(*)), COUNT(A) PATTERN A+", "A" * n, "cogra")
    assert row["log2_count"] == pytest.approx(n, rel=1e-12)
    assert row["count"] == math.inf
    assert row["count_A"] == math.inf


@both_kernels
@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A+, B)+",
        "SEQ(A, B+, C)",
        "SEQ(A+, B*, C?)",
        "OR(SEQ(A+, B), C+)",
        "SEQ(A{2,4}, B+)",
        "SEQ(A, SEQ(B, C+)+)+",
        "SEQ(A x+, A y+, B)",
    ],
)
@pytest.mark.parametrize("ties", [False, True])
def test_long_streams_agree_with_exact_integers(strategy: str, pattern: str, ties: bool) -> None:
    rng = random.Random(f"{pattern} {ties}")
    types = "".join(rng.choices("ABCX", [4, 3, 2, 1], k=1200))
    times = [i // 3 for i in range(1200)] if ties else None
    exact = trends(pattern, types, times)
    assert exact.bit_length() > 150
    row = one_row(f"RETURN COUNT(*), LOG2(COUNT(*)) PATTERN {pattern}", types, strategy, times)
    assert is_log2(row["log2_count"], exact)
    if exact.bit_length() < 1000:
        assert math.isclose(row["count"], exact, rel_tol=1e-9)


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
@pytest.mark.parametrize("pattern", ["SEQ(A, B+, C)", "SEQ(A+, B+)", "SEQ(C, A, B+)", "A+", "SEQ(A, B)"])
@pytest.mark.parametrize("window", ["", "WITHIN 30 s SLIDE 30 s", "WITHIN 900 s SLIDE 450 s"])
def test_counts_alone_are_folded_as_with_everything_else(
    monkeypatch: pytest.MonkeyPatch, semantics: str, pattern: str, window: str
) -> None:
    rng = random.Random(f"{pattern} {semantics}")
    types = "".join(rng.choice("AABBC") * rng.choice([1, 1, 2, 40]) for _ in range(1500))[:3000]
    query = f"RETURN COUNT(*), LOG2(COUNT(*)) PATTERN {pattern} SEMANTICS {semantics} {window}"
    ran = []
    monkeypatch.setattr(fold, "count_windows", lambda *given: ran.append(COUNT_WINDOWS(*given)))
    found = run(query, types, "cogra")["q"]
    assert ran
    monkeypatch.setattr(fold, "only_counts", lambda *_: False)
    wanted = run(query, types, "cogra")["q"].to_pylist()
    assert len(ran) == 1
    for row, right in zip(found.to_pylist(), wanted, strict=True):
        assert row["window_start"] == right["window_start"]
        assert row["count"] == pytest.approx(right["count"], rel=1e-12)
        assert row["log2_count"] == pytest.approx(right["log2_count"], rel=1e-12)


@both_kernels
def test_a_not_moves_wide_counts_between_its_classes(strategy: str) -> None:
    # The Ns come after 600 and after 1,200 doublings; only what waits behind the last may still end.
    types = "A" * 600 + "N" + "A" * 600 + "N" + "A" * 600 + "B"
    row = one_row("RETURN LOG2(COUNT(*)) PATTERN SEQ(A+, NOT N, B)", types, strategy)
    assert is_log2(row["log2_count"], 2**1800 - 2**1200)


@both_kernels
def test_a_not_of_two_types_moves_wide_counts_twice(strategy: str) -> None:
    types = "A" * 700 + "N" + "A" * 700 + "M" + "A" * 3 + "B"
    row = one_row("RETURN LOG2(COUNT(*)) PATTERN SEQ(A+, NOT SEQ(N, M), B)", types, strategy)
    # An A before the N is followed by both; one between them is not.
    assert is_log2(row["log2_count"], 2**1403 - 2**700)


@both_kernels
@pytest.mark.parametrize("semantics", ["next", "contiguous"])
def test_counts_that_shrink_again_keep_no_exponent(strategy: str, semantics: str) -> None:
    # Three As at each of 700 moments: 3^700 ways; then an N empties what waits, and it starts again.
    types = "AAA" * 700 + "N" + "AAA" * 2 + "B"
    times = [i // 3 for i in range(2100)] + [700] + [701] * 3 + [702] * 3 + [703]
    row = one_row(f"RETURN COUNT(*) PATTERN SEQ(A+, B) SEMANTICS {semantics}", types, strategy, times)
    if semantics == "contiguous":
        assert row["count"] == 3 + 9
    else:
        assert row["count"] == math.inf
        before = sum(3**k for k in range(1, 703))
        row = one_row("RETURN LOG2(COUNT(*)) PATTERN SEQ(A+, B) SEMANTICS next", types, strategy, times)
        assert is_log2(row["log2_count"], before)


# ---- Sums past doubles ----------------------------------------------------------------------------


@both_kernels
@pytest.mark.parametrize("n", [10, 300, 1400])
def test_averages_stay_right_where_sums_are_infinite(strategy: str, n: int) -> None:
    rng = random.Random(n)
    values = [rng.uniform(-5, 10) for _ in range(n)]
    row = one_row("RETURN AVG(A.v), SUM(A.v) PATTERN A+", "A" * n, strategy, v=values)
    # Every event is in half of the trends.
    mean = sum(map(Fraction, values)) / n
    assert math.isclose(row["avg_A_v"], mean, rel_tol=1e-9)
    total = sum(map(Fraction, values)) * 2 ** (n - 1)
    assert row["sum_A_v"] == (math.inf if n > 1000 else pytest.approx(float(total), rel=1e-9))


@both_kernels
def test_a_negative_sum_past_doubles_reads_minus_inf(strategy: str) -> None:
    result = run("RETURN SUM(A.v), MIN(A.v), MAX(A.v) PATTERN A+", "A" * 1400, strategy, v=[-2.5] * 1400)
    assert result["q"].to_pylist() == [
        {"window_start": None, "window_end": None, "sum_A_v": -math.inf, "min_A_v": -2.5, "max_A_v": -2.5}
    ]
    assert [w for w in result.summary.warnings if "'sum_A_v'" in w and "inf" in w]


@both_kernels
@pytest.mark.parametrize(
    "values", [[1e300] * 5, [1e200, -1e200] * 3, [1.5e308] * 600, [1.5e308, -1.5e308] * 300], ids=len
)
def test_values_near_the_end_of_doubles_are_summed_like_others(strategy: str, values: list[float]) -> None:
    row = one_row("RETURN AVG(A.v), SUM(A.v) PATTERN A+", "A" * len(values), strategy, v=values)
    exact, size = sum(map(Fraction, values)), sum(map(abs, map(Fraction, values)))
    assert abs(Fraction(row["avg_A_v"]) - exact / len(values)) <= Fraction(1e-9) * size / len(values)
    if len(values) < 10:
        assert row["sum_A_v"] == pytest.approx(float(exact * 2 ** (len(values) - 1)), rel=1e-9)


@both_kernels
def test_tiny_values_of_many_trends_do_not_hide_a_larger_value_of_one(strategy: str) -> None:
    values, keys = [1e-300] * 520 + [1.0], [1] * 520 + [2]
    row = one_row("RETURN SUM(A.v) PATTERN A+ WHERE [k]", "A" * 521, strategy, v=values, k=keys)
    exact = 520 * 2**519 * Fraction(1e-300) + 1
    assert math.isclose(row["sum_A_v"], exact, rel_tol=1e-9)


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
@both_kernels
def test_an_and_multiplies_counts_past_doubles(strategy: str, semantics: str) -> None:
    types, times = "A" * 900 + "B" * 900, [i // 3 for i in range(1800)]
    row = one_row(
        f"RETURN LOG2(COUNT(*)), AVG(A.v) PATTERN AND(A+, B+) SEMANTICS {semantics}",
        types, strategy, times, v=[2.0] * 1800,
    )  # fmt: skip
    ways = 4**300 - 1 if semantics == "any" else _chains(3, 300, starts=True)
    assert is_log2(row["log2_count"], ways * ways)
    assert row["avg_A_v"] == pytest.approx(2.0, rel=1e-9)


# ---- HAVING past doubles --------------------------------------------------------------------------


@both_kernels
@pytest.mark.parametrize(
    "having",
    [
        "COUNT(*) > 5",
        "COUNT(*) > 1e300",
        "COUNT(*) IS NOT NULL",
        "NOT COUNT(*) BETWEEN 1 AND 5",
        "LOG2(COUNT(*)) BETWEEN 1099.9 AND 1100.1",
        "SUM(A.w) < 0",
        "AVG(A.v) = 1",
        "COUNT(*) + 1 > 5",
        "COUNT(*) * 2 > 5",
        "COUNT(A) > COUNT(*)",
        "NOT COUNT(A) = COUNT(*)",
        "SUM(A.v) / COUNT(A) > 0.5",
    ],
)
def test_having_compares_the_true_value_also_past_doubles(strategy: str, having: str) -> None:
    ones, query = [1.0] * 1100, f"RETURN COUNT(*) PATTERN A+ HAVING {having}"
    assert run(query, "A" * 1100, strategy, v=ones, w=[-1.0] * 1100)["q"].num_rows == 1


# ---- Ties -----------------------------------------------------------------------------------------


def _chains(tied: int, moments: int, *, starts: bool) -> int:
    """Trends of A+ where each binding continues to every event of the next moment, and only there."""
    ending, total = 0, 0
    for _ in range(moments):
        ending = tied * (ending + starts)
        total += ending
    return total


@both_kernels
@pytest.mark.parametrize(("tied", "moments"), [(1, 40), (2, 30), (5, 20), (3, 700), (1200, 1), (40, 30)])
def test_windows_of_ties_are_counted_moment_by_moment(strategy: str, tied: int, moments: int) -> None:
    types, times = "A" * (tied * moments), [i // tied for i in range(tied * moments)]
    found = one_row("RETURN LOG2(COUNT(*)) PATTERN A+", types, strategy, times)["log2_count"]
    assert is_log2(found, (1 + tied) ** moments - 1)
    for semantics in ("next", "contiguous"):
        query = f"RETURN LOG2(COUNT(*)) PATTERN A+ SEMANTICS {semantics}"
        found = one_row(query, types, strategy, times)["log2_count"]
        assert is_log2(found, _chains(tied, moments, starts=True))


@both_kernels
def test_sliding_windows_each_start_from_nothing(strategy: str) -> None:
    table = run("RETURN LOG2(COUNT(*)) PATTERN A+ WITHIN 1100 s SLIDE 500 s", "A" * 2000, strategy)["q"]
    sizes = [100, 600, 1100, 1100, 1000, 500]
    assert table["window_start"].to_pylist() == [-1000, -500, 0, 500, 1000, 1500]
    for found, size in zip(table["log2_count"].to_pylist(), sizes, strict=True):
        assert is_log2(found, 2**size - 1)


# ---- State ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("A+", 3),
        ("SEQ(A, B+, C)", 4),
        ("SEQ(A+, B)+", 4),
        ("SEQ(A, B+, NOT N, C)", 5),
        ("SEQ(NOT N, A, B, NOT SEQ(N, M))", 2 + 1 + 3),
    ],
)
def test_without_adjacency_predicates_no_binding_is_kept(semantics: str, pattern: str, states: int) -> None:
    (query,) = trendfold.parse(f"RETURN COUNT(*) PATTERN {pattern} SEMANTICS {semantics}")
    (operand,) = plan(query, "cogra").operands
    assert operand.machine.by_event == frozenset()
    expected = states
    if semantics == "contiguous" and pattern == "SEQ(A, B+, NOT N, C)":
        expected -= 1  # nothing lies between neighbours, so a NOT there has no classes
    assert len(operand.machine.states) == expected


def test_with_an_adjacency_predicate_only_its_left_side_is_kept() -> None:
    (query,) = trendfold.parse("RETURN COUNT(*) PATTERN SEQ(A+, B+, C) WHERE B.v < NEXT(B).v")
    (operand,) = plan(query, "cogra").operands
    kept = {operand.machine.automaton.positions[p].type for p in operand.machine.by_event}
    assert kept == {"B"}
