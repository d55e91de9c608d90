"""`trendfold.testing`: the oracle for users, random streams and asserts."""

from __future__ import annotations

import doctest
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.testing import (
    OracleError,
    agreement,
    assert_agrees,
    assert_rows_equal,
    expected_matches,
    expected_rows,
    expected_trends,
    oracle,
    random_events,
    random_streams,
)

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EVENTS = [{"type": kind, "ts": at, "x": at} for at, kind in enumerate("ABBC")]
COUNT = "RETURN COUNT(*) PATTERN SEQ(A, B+)"


@pytest.mark.parametrize("module", [agreement, random_streams])
def test_the_examples_of_the_docstrings_are_true(module: Any) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_examples_of_the_page_are_true() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    steps = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "testing.md", None, 0)
    found = doctest.DocTestRunner().run(steps)
    assert found.attempted >= 10
    assert found.failed == 0


@pytest.mark.parametrize(
    "as_given", [list, pa.Table.from_pylist, pd.DataFrame], ids=["rows", "arrow", "pandas"]
)
def test_events_come_as_rows_tables_and_frames(as_given: Any) -> None:
    assert expected_rows(COUNT, as_given(EVENTS))[0]["count"] == 3
    assert_agrees(COUNT, as_given(EVENTS))


def test_trends_are_rows_of_the_input_with_the_aliases_they_take() -> None:
    found = expected_trends("RETURN COUNT(*) PATTERN SEQ(A, B b+, C) SEMANTICS next", EVENTS)
    assert found == [[(0, "A"), (1, "b"), (2, "b"), (3, "C")]]


def test_timestamps_are_seconds_since_1970_on_both_sides() -> None:
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    events = [row | {"ts": begin + timedelta(seconds=row["ts"], milliseconds=500)} for row in EVENTS]
    query = f"{COUNT} WITHIN 10 s SLIDE 10 s"
    assert expected_rows(query, events)[0]["window_start"] == begin.timestamp()
    assert_agrees(query, events)
    assert_agrees("RETURN MATCHES(x) PATTERN SEQ(A, B) WITHIN 10 s", events)


@pytest.mark.parametrize("time", ["2024-01-01", True])
def test_a_time_that_the_oracle_would_drop_is_an_error(time: Any) -> None:
    with pytest.raises(OracleError, match=r"row 1 has the time .*; give seconds, or timestamps"):
        expected_rows(COUNT, [EVENTS[0], EVENTS[1] | {"ts": time}])


def test_too_many_events_and_too_many_trends_are_errors_that_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OracleError, match="more than 500 events are too many to enumerate"):
        expected_rows("RETURN COUNT(*) PATTERN A", [{"type": "A", "ts": at} for at in range(501)])
    monkeypatch.setattr(oracle, "MOST_STEPS", 1000)
    with pytest.raises(OracleError, match="more than 1,000 trends, finished or not"):
        expected_rows("RETURN COUNT(*) PATTERN B+", [{"type": "B", "ts": at} for at in range(40)])


@pytest.mark.parametrize(
    ("found", "expected", "told"),
    [
        ([{"n": 3.0}], [{"n": 4}], "row 0: n is 3.0 instead of 4"),
        ([], [{"n": 4}], "row 0: it is missing"),
        ([{"n": 1}, {"n": 2}], [{"n": 1}], "row 1: it is not expected"),
        ([{"n": 1}], [{"m": 1}], r"row 0: columns \['n'\] instead of \['m'\]"),
        ([{"n": None}], [{"n": 0}], "n is None instead of 0"),
        ([{"n": True}], [{"n": 1}], "n is True instead of 1"),
        ([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1}], "row 0: n is 1 instead of 2"),
        ([{"b": [{"id": 1}]}], [{"b": [{"id": 2}]}], "b is"),
    ],
)
def test_rows_that_differ_are_named(found: list[dict], expected: list[dict], told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        assert_rows_equal(found, expected)


def test_rows_are_equal_to_one_part_in_a_billion_and_in_any_order_if_asked() -> None:
    assert_rows_equal(pa.table({"n": [1.0, 1e18]}), [{"n": 1}, {"n": 1e18 + 1e6}])
    assert_rows_equal([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1}], any_order=True)


def test_a_wrong_engine_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(workload: tf.Workload, data: Any, **options: Any) -> dict[str, pa.Table]:
        return {"q1": pa.table({"window_start": [None], "window_end": [None], "count": [4.0]})}

    monkeypatch.setattr(tf.Workload, "run", run)
    with pytest.raises(
        AssertionError, match=r"query 'q1' disagrees with the oracle in row 0: count is 4.0 instead of 3"
    ):
        assert_agrees(COUNT, EVENTS)


def test_every_query_of_a_workload_is_compared_matches_with_and_without_limit_too() -> None:
    text = f"""{COUNT};
        found: RETURN MATCHES(x) PATTERN SEQ(A, B) WITHIN 10 s;
        few: RETURN MATCHES PATTERN SEQ(A, B) WITHIN 10 s LIMIT 1"""
    assert_agrees(text, EVENTS)
    assert len(expected_matches("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 10 s", EVENTS)) == 2


def test_options_are_those_of_run() -> None:
    for strategy in ("greta", "cogra", "construct"):
        assert_agrees(COUNT, EVENTS, strategy=strategy)


def test_random_events_have_ties_nulls_and_the_columns_asked_for() -> None:
    events = random_events(3, events=200, types=["View", "Pay"], columns={"city": ["Rome", None]}, ties=0.5)
    assert events == random_events(3, 200, ["View", "Pay"], {"city": ["Rome", None]}, 0.5)
    assert events != random_events(4, 200, ["View", "Pay"], {"city": ["Rome", None]}, 0.5)
    times = events["ts"].to_pylist()
    assert times == sorted(times)
    assert 70 < 200 - len(set(times)) < 130
    assert 0 < events["city"].null_count < 200
