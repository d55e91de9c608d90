"""`:name` in a query stands for a value that is given beside the text and never becomes part of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from trendfold.errors import InputError, QueryError
from trendfold.query import parse, read_literal, to_text
from trendfold.query.nodes import Duration, Instant, Query

HEAD = "RETURN COUNT(*) PATTERN A WHERE "


def one(text: str, **params: Any) -> Query:
    (query,) = parse(text, params)
    return query


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (-5, "-5"),
        (0.25, "0.25"),
        ("it's :x -- ; \"", "'it''s :x -- ; \"'"),
        (True, "TRUE"),
        (None, "NULL"),
        (float("nan"), "NULL"),
        (np.int32(7), "7"),
        (datetime(2024, 1, 31, 12), "TIMESTAMP '2024-01-31 12:00:00'"),
        (datetime(2024, 1, 31, 13, tzinfo=timezone(timedelta(hours=1))), "TIMESTAMP '2024-01-31 12:00:00'"),
        (datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=UTC), "TIMESTAMP '1960-01-01 00:00:00.000001'"),
        (timedelta(minutes=90), "90 min"),
        (timedelta(seconds=-3), "-3 s"),
    ],
)
def test_a_value_becomes_a_literal(value: Any, text: str) -> None:
    query = one(f"{HEAD}A.v = :value AND A.w IN (1, :value)", value=value)
    assert query == one(f"{HEAD}A.v = {text} AND A.w IN (1, {text})")
    assert to_text(query).endswith(f"WHERE A.v = {text} AND A.w IN (1, {text})")
    assert parse(to_text(query)) == (query,)


@given(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_no_value_changes_the_rest_of_the_query(value: Any) -> None:
    query = one(f"{HEAD}A.v = :value AND -:value < A.w WITHIN 5 s", value=value)
    assert [len(query.where), query.window] == [2, one("RETURN COUNT(*) PATTERN A WITHIN 5 s").window]
    assert parse(to_text(query)) == (query,)


def test_parameters_stand_where_literals_and_durations_do() -> None:
    week, limit = timedelta(weeks=1), 3
    assert one("RETURN COUNT(*) PATTERN A WITHIN :w SLIDE :s", w=week, s=timedelta(days=1)) == one(
        "RETURN COUNT(*) PATTERN A WITHIN 1 week SLIDE 24 h"
    )
    assert one("RETURN MATCHES PATTERN A WITHIN :w LIMIT :limit", w=week, limit=limit).limit == 3
    assert one(f"{HEAD}A.s LIKE :like", like="x%") == one(f"{HEAD}A.s LIKE 'x%'")
    assert one("RETURN COUNT(*) AS n PATTERN A HAVING n BETWEEN :a AND :b", a=1, b=2) == one(
        "RETURN COUNT(*) AS n PATTERN A HAVING n BETWEEN 1 AND 2"
    )
    assert one("q:RETURN COUNT(*) PATTERN A").name == "q"


@pytest.mark.parametrize(
    ("text", "params", "message"),
    [
        (
            f"{HEAD}A.v > :least",
            {"leest": 1},
            "1:39: query 'q1': the parameter 'least' has no value\n"
            "   1 | RETURN COUNT(*) PATTERN A WHERE A.v > :least\n"
            "                                             ^^^^^^\n"
            "hint: did you mean 'leest'?",
        ),
        (f"{HEAD}A.v > :x", {"x": 1, "xx": 2}, "no query has the parameter 'xx'\nhint: did you mean 'x'?"),
        (
            "RETURN COUNT(*) PATTERN A WITHIN :w",
            {"w": 5},
            "1:34: query 'q1': WITHIN takes a positive duration\n"
            "   1 | RETURN COUNT(*) PATTERN A WITHIN :w\n"
            "                                        ^^\n"
            "hint: pass a timedelta, or on the command line a duration such as '10 min'",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_at_its_place(text: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text, params)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("RETURN MATCHES PATTERN A LIMIT :x", "5", "LIMIT is a positive whole number, not '5'"),
        ("RETURN MATCHES PATTERN A LIMIT :x", True, "LIMIT is a positive whole number, not True"),
        ("RETURN COUNT(*) PATTERN A WITHIN :x", timedelta(0), "WITHIN takes a positive duration"),
        (f"{HEAD}A.s LIKE :x", 5, "LIKE takes a string, and the parameter 'x' is none"),
    ],
)
def test_clauses_take_their_own_kinds_of_values(text: str, value: Any, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text, {"x": value})
    assert caught.value.problems[0].message == message


def test_other_values_are_refused() -> None:
    with pytest.raises(InputError, match="the parameter 'x' is a list; pass a number"):
        parse(f"{HEAD}A.v > :x", {"x": [1]})


def test_workloads_are_parsed_and_read_with_parameters(tmp_path: Path) -> None:
    text = f"{HEAD}A.v > :x; {HEAD}A.v < :y"
    (tmp_path / "q.tql").write_text(text)
    assert tf.parse(text, params={"x": 1, "y": 2}) == tf.read(tmp_path / "q.tql", params={"x": 1, "y": 2})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        (" -0.5 ", -0.5),
        ("'it''s'", "it's"),
        ("true", True),
        ("NULL", None),
        ("10 min", Duration(600_000_000)),
        ("-1 week", Duration(-604_800_000_000)),
        ("TIMESTAMP '1970-01-01 00:00:01'", Instant(1_000_000)),
    ],
)
def test_the_text_of_a_literal_is_read_on_the_command_line(text: str, value: Any) -> None:
    assert read_literal(text, "--param x") == value


@pytest.mark.parametrize("text", ["Paris", "5 OR TRUE", "1 + 1", "A.v", "", "'open", ":y", "10 parsec"])
def test_nothing_but_a_literal_is_read_there(text: str) -> None:
    with pytest.raises(InputError, match="--param x is"):
        read_literal(text, "--param x")
