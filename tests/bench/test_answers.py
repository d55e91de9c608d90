from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from trendfold.api import parse
from trendfold.bench.answers import DisagreementError, first_difference, rows
from trendfold.bench.harness import Case, Timed, UnfinishedError, measure, to_json


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (1.0, 1.0 + 5e-10, None),
        (1.0, 1.0 + 5e-9, "1 beside 1.000000005"),
        (1e300, 1e300 * (1 + 5e-10), None),
        (float("nan"), float("nan"), None),
        (float("nan"), 1.0, "nan beside 1"),
        (None, None, None),
        (None, 0, "None beside 0"),
        ("a", "b", "'a' beside 'b'"),
        ([1, 2], [1, 2, 3], "2 rows beside 3"),
        ([[1], [2, 3]], [[1], [2, 4]], "at [1][1], 3 beside 4"),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, None),
        ({"a": 1}, {"b": 1}, "at [0][0], 'a' beside 'b'"),
    ],
)
def test_the_first_difference_is_told_with_its_place(one: object, other: object, told: str | None) -> None:
    assert first_difference(one, other) == told


def test_arrays_are_compared_by_shape_and_value() -> None:
    some = np.array([[1.0, 2.0], [3.0, np.nan]])
    assert first_difference([some], [some.copy()]) is None
    assert first_difference([some], [some[:1]]) == "at [0], (2, 2) values beside (1, 2)"
    other = some.copy()
    other[1, 0] = 4
    assert "at [0][1][0]" in (first_difference([some], [other]) or "")


def test_tables_are_compared_row_by_row_in_order_of_window_and_group() -> None:
    table = pa.table({"window_start": [5, 0], "g": ["x", "y"], "count": [1.0, 2.0]})
    turned = table.take([1, 0])
    assert first_difference(rows({"q": table}), rows({"q": turned})) is None
    other = pa.table({"window_start": [0, 5], "g": ["y", "x"], "count": [2.0, 3.0]})
    assert first_difference(rows({"q": table}), rows({"q": other})) == "at [0][1][2], 1 beside 3"


def test_results_of_two_strategies_are_alike() -> None:
    events = pa.table({"type": list("ABBCABC"), "ts": range(7)})
    workload = parse("RETURN COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 4 s SLIDE 4 s")
    one, other = (rows(workload.run(events, strategy=name)) for name in ("construct", "greta"))
    assert first_difference(one, other) is None


def test_cases_that_disagree_are_an_error_that_names_both_and_nothing_is_timed() -> None:
    timed: list[str] = []

    def answers(name: str, value: float) -> Case:
        def run() -> float:
            timed.append(name)
            return value

        return Case(name, run, 1, like="how many")

    with pytest.raises(DisagreementError, match=r"'two' and 'one' .* disagree: 3 beside 4; no time is shown"):
        measure([answers("one", 3.0), answers("two", 4.0)], repeats=5)
    assert timed == ["one", "two"]


def test_cases_of_different_questions_may_differ() -> None:
    cases = [Case("one", lambda: 1, 1, like="a"), Case("two", lambda: 2, 1, like="b")]
    assert [line.like for line in measure(cases, repeats=1).measurements] == ["a", "b"]


def test_answers_are_compared_even_without_a_warm_up() -> None:
    with pytest.raises(DisagreementError):
        measure([Case("a", lambda: 1, 1, like="q"), Case("b", lambda: 2, 1, like="q")], repeats=1, warm_up=0)


def test_what_is_compared_may_be_a_part_of_the_result() -> None:
    cases = [Case(name, lambda name=name: (name, 7), 1, like="q", answer=lambda r: r[1]) for name in "ab"]  # type: ignore[misc]
    assert len(measure(cases, repeats=1).measurements) == 2


def test_a_run_elsewhere_tells_its_own_seconds_and_answer() -> None:
    cases = [
        Case("here", lambda: 5, 10, like="q"),
        Case("there", lambda: Timed(2.0, 5), 10, "here", like="q"),
    ]
    line = measure(cases, repeats=3).measurements[1]
    assert line.seconds == (2.0, 2.0, 2.0)
    assert line.events_per_s == 5.0


def test_what_is_finished_once_and_then_not_has_no_time_either() -> None:
    runs = iter([1, 1])

    def sometimes() -> int:
        found = next(runs, None)
        if found is None:
            raise UnfinishedError("not finished in 30 s")
        return found

    cases = [Case("steady", lambda: 1, 1), Case("tired", sometimes, 1, "steady")]
    tired = measure(cases, repeats=3).measurements[1]
    assert (tired.seconds, tired.unfinished) == ((), "not finished in 30 s")


def test_what_is_not_finished_has_a_reason_and_no_time() -> None:
    def never() -> None:
        raise UnfinishedError("not finished in 30 s")

    cases = [Case("quick", lambda: 1, 1, like="q"), Case("slow", never, 1, "quick", like="q")]
    report = measure(cases, repeats=2)
    slow = report.measurements[1]
    assert (slow.seconds, slow.unfinished) == ((), "not finished in 30 s")
    assert "NaN" not in to_json(report)
