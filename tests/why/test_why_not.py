"""`why_not`: what is left at each step is what the oracle counts; the nearest misses are true."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trendfold as tf
import workloads
from contract.engine import to_table
from trendfold.cli import main
from trendfold.errors import InputError
from trendfold.query import pattern_text, to_text
from trendfold.testing import oracle
from trendfold.why.beginnings import beginnings, cut_to


def events(*rows: tuple[str, int] | tuple[str, int, float]) -> pa.Table:
    types, times, values = zip(*((*row, 0.0)[:3] for row in rows), strict=True)
    return pa.table({"type": types, "ts": times, "x": values, "u": [1] * len(rows)})


STREAM = events(("A", 1, 1.0), ("B", 2, 5.0), ("B", 3, 7.0), ("C", 100, 2.0))


def why(text: str, data: Any = STREAM, **options: Any) -> tf.api.WhyNot:  # type: ignore[name-defined]
    return tf.parse(text).why_not(data, **options)


@pytest.mark.parametrize("seed", range(60))
def test_each_step_has_the_trends_that_the_oracle_counts(seed: int) -> None:
    rng = random.Random(seed)
    case = workloads.random_case(
        rng, having=True, cross=seed % 3 == 0, nots=seed % 2 == 0, sets=seed % 5 == 0
    )
    [query] = tf.parse(case.query)
    found = tf.parse(case.query).why_not(to_table(case), order_column=case.order_column)
    asked = [cut_to(query, pattern) for pattern in beginnings(query.pattern)]
    assert [step.pattern for step in found.steps] == [pattern_text(each.pattern) for each in asked]
    for step, each in zip(found.steps, asked, strict=True):
        rows = oracle.rows(to_text(each), case.events, case.order_column)
        assert step.trends == sum(row["count"] for row in rows), to_text(each)
    assert found.rows == len(oracle.rows(case.query, case.events, case.order_column))


def test_a_type_that_differs_by_case_is_named() -> None:
    found = why("RETURN COUNT(*) PATTERN SEQ(A, b)")
    assert found.verdict == (
        "no rows: nothing is left at step 2, SEQ(A, b); no event has the type 'b', but 2 events have 'B'"
    )


def test_a_constant_that_would_pass_is_named() -> None:
    found = why("RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.x > 10")
    assert "the largest B.x is 7; B.x >= 7 would pass 1 event" in found.verdict


@pytest.mark.parametrize(
    ("condition", "miss"),
    [
        ("B.x < 2", "the smallest B.x is 5; B.x <= 5 would pass 1 event"),
        ("9 <= B.x", "the largest B.x is 7; B.x >= 7 would pass 1 event"),
        ("B.x = 6", "the nearest B.x is 5; B.x = 5 would pass 1 event"),
        ("B.x BETWEEN 8 AND 20", "the largest B.x is 7; B.x >= 7 would pass 1 event"),
        ("B.x IN (1, 2)", "the nearest B.x is 5; B.x = 5 would pass 1 event"),
        ("B.type = 'b'", "the nearest B.type is 'B'; B.type = 'B' would pass 2 events"),
        ("TIME(B) > TIMESTAMP '2024-01-01'", "the largest TIME(B) is TIMESTAMP '1970-01-01 00:00:03'"),
    ],
)
def test_the_nearest_miss_of_a_condition(condition: str, miss: str) -> None:
    [sieve] = why(f"RETURN COUNT(*) PATTERN SEQ(A, B) WHERE {condition}").steps[1].added[0].sieves
    assert (sieve.passed, sieve.of) == (0, 2)
    assert sieve.near_miss.startswith(miss)


def test_a_column_of_nulls_is_named() -> None:
    data = STREAM.set_column(2, "x", pa.nulls(4, pa.float64()))
    assert "B.x is null in all 2 events" in why("RETURN COUNT(*) PATTERN B WHERE B.x > 1", data).verdict


def test_a_window_that_is_too_short_says_how_long_it_must_be() -> None:
    [loose] = why("RETURN COUNT(*) PATTERN SEQ(A, C) WITHIN 10 s SLIDE 5 s").loosened
    assert loose.clause == "WITHIN 10 s SLIDE 5 s"
    assert loose.trends == 1
    length = int(loose.hint.split()[1])
    assert tf.parse(f"RETURN COUNT(*) PATTERN SEQ(A, C) WITHIN {length} s").run(STREAM)["q1"].num_rows == 1
    assert 99 <= length <= 115


def test_trends_across_the_edges_of_windows() -> None:
    data = events(("A", 9), ("B", 11))
    [loose] = why("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s", data).loosened
    assert loose.hint == "trends cross the edges of these windows: take a shorter SLIDE"


def test_the_condition_between_two_events_that_leaves_nothing() -> None:
    found = why("RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE B.x < NEXT(C).x")
    assert [(each.clause, each.trends) for each in found.loosened] == [("B.x < NEXT(C).x", 2)]


def test_two_clauses_that_only_together_leave_nothing() -> None:
    found = why("RETURN COUNT(*) PATTERN SEQ(A, NOT B, C) WITHIN 10 s SLIDE 5 s")
    assert [each.clause for each in found.loosened] == ["NOT B and without WITHIN 10 s SLIDE 5 s"]


def test_events_in_another_order() -> None:
    assert why("RETURN COUNT(*) PATTERN SEQ(C, A)").verdict.endswith("its events never come in this order")


def test_having_tells_the_nearest_value_even_of_what_is_not_returned() -> None:
    found = why("RETURN COUNT(*) PATTERN SEQ(A, B+) HAVING SUM(B.x) > 100")
    assert found.having is not None
    assert (found.having.passed, found.having.of) == (0, 1)
    assert "the largest SUM(B.x) is 24" in found.verdict


def test_a_query_with_rows_tells_what_costs_most_trends() -> None:
    found = why("RETURN COUNT(*) PATTERN SEQ(A, B) WHERE B.x > 6")
    assert found.empty_step is None
    assert found.verdict == "1 row, 1 trend in all windows; without B.x > 6 there would be 2"


def test_matches_are_told_as_matches() -> None:
    found = why("RETURN MATCHES PATTERN SEQ(A, AND(B, C), A) WITHIN 1 h")
    assert [step.trends for step in found.steps][-1] == 0


def test_all_rows_rejected_and_no_rows_at_all() -> None:
    bad = pa.table({"type": ["A"], "ts": pa.array([None], pa.int64())})
    assert why("RETURN COUNT(*) PATTERN A", bad).verdict == "no event was read; all 1 rows are rejected"
    assert why("RETURN COUNT(*) PATTERN A", bad.slice(0, 0)).verdict == "there are no events"


def test_a_query_must_be_named_if_there_are_several() -> None:
    two = "QUERY one RETURN COUNT(*) PATTERN A; QUERY two RETURN COUNT(*) PATTERN B"
    with pytest.raises(InputError, match="name one of one, two"):
        why(two)
    with pytest.raises(InputError, match="did you mean 'two'"):
        why(two, query="tow")
    assert why(two, query="two").rows == 1


def test_it_prints_as_json_and_in_a_notebook() -> None:
    found = why("RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.x > 10")
    told = json.loads(found.to_json())
    assert told["steps"][1]["added"][0]["sieves"][0]["passed"] == 0
    assert "nothing is left" in found._repr_html_()
    assert "<script" not in why('RETURN COUNT(*) PATTERN "<script>"')._repr_html_()


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.tql").write_text("RETURN COUNT(*) PATTERN SEQ(A, b)", encoding="utf-8")
    (tmp_path / "e.csv").write_text("type,ts\nA,1\nB,2\n", encoding="utf-8")
    words = ["why", str(tmp_path / "q.tql"), "--input", str(tmp_path / "e.csv")]
    assert main(words) == 0
    assert "no event has the type 'b', but 1 event has 'B'" in capsys.readouterr().out
    assert main([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 0
