"""Every line of a bench is compared with another way, and the other ways are right."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest

from trendfold.api import parse
from trendfold.bench import BENCHES, exact_cases, kernel_bench, mcep_bench, recurrences
from trendfold.bench.answers import DisagreementError
from trendfold.bench.harness import Case, measure

SEMANTICS = ("skip-till-any-match", "skip-till-next-match", "contiguous")


def built(text: str, **columns: object) -> list[tuple[object, ...]]:
    """Rows that come of building all trends; one event per second."""
    (first, *_) = columns.values()
    table = pa.table({"ts": range(len(first)), **columns})
    return [tuple(row.values()) for row in parse(text).run(table, strategy="construct")["q1"].to_pylist()]


def letters(seed: int, count: int, kinds: str = "ABC") -> tuple[np.ndarray, list[str]]:
    codes = np.random.default_rng(seed).integers(0, len(kinds), count)
    return codes, [kinds[code] for code in codes]


def some(logs: np.ndarray) -> list[float]:
    return np.exp2(logs[np.isfinite(logs)]).tolist()


# ---------------------------------------------------------------- harness


def test_a_case_that_another_way_contradicts_is_an_error_and_nothing_is_timed() -> None:
    ran: list[int] = []
    case = Case("fast", lambda: ran.append(1) or 4.0, 1, expected=lambda: 3.0)
    with pytest.raises(DisagreementError, match=r"'fast' and 'another way' .* 3 beside 4; no time is shown"):
        measure([case], repeats=5)
    assert ran == [1]


def test_another_way_is_asked_once_and_even_without_a_warm_up() -> None:
    asked: list[int] = []
    case = Case("fast", lambda: (1, 2), 1, answer=lambda r: r[1], expected=lambda: asked.append(1) or 2)
    assert len(measure([case], repeats=3, warm_up=0).measurements[0].seconds) == 3
    assert asked == [1]


@pytest.mark.parametrize(
    "name", ["aseq", "cogra", "hamlet", "kernel", "language", "neighbour", "sharing", "windows"]
)
def test_every_line_is_compared_with_another_one_or_another_way(name: str) -> None:
    cases: list[Case] = import_module(BENCHES[name]).cases(0, 0.001)
    questions = Counter(case.like for case in cases if case.like)
    assert [case.name for case in cases if not case.expected and questions[case.like or ""] < 2] == []


def test_a_wrong_answer_of_the_exact_fold_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = exact_cases.exact_cases(0, 0.0001)
    assert len(measure(cases, repeats=1).measurements) == len(cases)
    right = recurrences.whole_numbers
    monkeypatch.setattr(
        recurrences, "whole_numbers", lambda *args: [(n + 1, *rest) for n, *rest in right(*args)]
    )
    with pytest.raises(DisagreementError):
        measure(exact_cases.exact_cases(0, 0.0001), repeats=1)


# ---------------------------------------------------------------- recurrences


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_the_trends(semantics: str, seed: int) -> None:
    codes, types = letters(seed, 40, "ABCD")
    rows = built(
        f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS {semantics} WITHIN 12 s SLIDE 5 s", type=types
    )
    found = recurrences.counts(codes, *recurrences.windows(40, 12, 5), semantics)
    assert some(found) == pytest.approx([row[-1] for row in rows])


def test_counts_of_a_window_per_event_are_those_of_the_trends() -> None:
    codes, types = letters(7, 40)
    rows = built("RETURN COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 9 s", type=types)
    found = recurrences.counts(codes, *recurrences.windows_to(np.flatnonzero(codes == 2), 9))
    assert some(found) == pytest.approx([row[-1] for row in rows])


def test_counts_past_a_double_s_range_are_right() -> None:
    codes = np.array([0, *[1] * 2_000, 2])
    assert recurrences.counts(codes, np.array([0]), np.array([2_002])) == pytest.approx([2_000.0])


def test_what_rides_on_counts_is_that_of_the_trends() -> None:
    codes, types = letters(3, 24)
    x = np.random.default_rng(3).random(24)
    text = (
        "RETURN SUM(B.x), COUNT(B), MIN(B.x), MAX(B.x), COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 12 s SLIDE 12 s"
    )
    rows = built(text, type=types, x=x)
    found = recurrences.aggregates(codes, x, *recurrences.windows(24, 12, 12))
    expected = [(np.log2(n), s / n, b / n, low, -high) for *_, s, b, low, high, n in rows]
    assert found[np.isfinite(found[:, 0])] == pytest.approx(np.array(expected))
    whole = recurrences.whole_numbers(codes, np.arange(24), *recurrences.windows(24, 12, 12))
    ints = built("RETURN COUNT(*), COUNT(B), SUM(B.x) PATTERN SEQ(A, B+, C) WITHIN 12 s SLIDE 12 s",
                 type=types, x=np.arange(24))  # fmt: skip
    assert [each for each in whole if each[0]] == [row[2:] for row in ints]


def test_counts_by_group_are_those_of_the_trends() -> None:
    codes, types = letters(5, 40)
    g = np.random.default_rng(5).integers(0, 3, 40)
    text = "RETURN COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY {} WITHIN 40 s SLIDE 40 s"
    rows, low, high = recurrences.stretches(g)
    plain = recurrences.counts(codes[rows], low, high)
    assert some(plain) == pytest.approx([row[-1] for row in built(text.format("g"), type=types, g=g)])
    lanes = recurrences.lanes(codes, g, *recurrences.windows(40, 40, 40))
    assert some(lanes) == pytest.approx([row[-1] for row in built(text.format("B.g"), type=types, g=g)])


@pytest.mark.parametrize("semantics", ["any", "next"])
def test_falling_values_are_counted_like_trends(semantics: str) -> None:
    values = np.random.default_rng(6).normal(size=14)
    text = f"RETURN COUNT(*) PATTERN S+ SEMANTICS {semantics} WHERE S.x > NEXT(S).x"
    rows = built(text, type=["S"] * 14, x=values)
    assert some(recurrences.falling(values, semantics)) == pytest.approx([row[-1] for row in rows])


def test_matches_are_those_of_three_loops() -> None:
    (line,) = measure([mcep_bench._alone(0, 1_000)], repeats=1).measurements
    assert line.events == 1_000


def test_a_small_scale_names_no_case_twice() -> None:
    names = [case.name for case in kernel_bench.cases(0, 0.01)]
    assert len(set(names)) == len(names)
