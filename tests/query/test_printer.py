from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from query.strategies import queries
from trendfold.query import parse, pattern_text, to_text
from trendfold.query.nodes import Query


def written(text: str, name: str = "q1") -> str:
    """What the printer makes of a clause or two, without the lines every query has."""
    lines = to_text(parse(text)[0]).splitlines()
    return "\n".join(line for line in lines if line not in (f"QUERY {name}", "RETURN COUNT(*)", "PATTERN A"))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries())
def test_what_is_printed_reads_back_the_same(query: Query) -> None:
    text = to_text(query)
    (again,) = parse(text)
    assert again == query
    assert repr(again) == repr(query)  # 1, 1.0 and TRUE are equal but not the same
    assert to_text(again) == text


def test_a_query_is_printed_clause_by_clause() -> None:
    text = "trips: agg COUNT, SUM(T.duration) AS total window 1800 sec slide 60000 ms"
    text += " having total > 10 groupby T.district pattern SEQ(Request R, SEQ(Travel T+), !Pickup P)"
    text += " where [driver] and T.speed <> 10 and [rider] semantics NEXT"
    assert to_text(parse(text)[0]) == (
        "QUERY trips\n"
        "RETURN COUNT(*), SUM(T.duration) AS total\n"
        "PATTERN SEQ(Request R, Travel T+, NOT Pickup P)\n"
        "SEMANTICS skip-till-next-match\n"
        "WHERE [driver, rider] AND T.speed != 10\n"
        "GROUP BY T.district\n"
        "HAVING total > 10\n"
        "WITHIN 30 min SLIDE 1 min"
    )


@pytest.mark.parametrize(
    ("where", "printed"),
    [
        ("((A.x)) + (A.y * 2) > 1", "A.x + A.y * 2 > 1"),
        ("(A.x + A.y) * 2 > 1", "(A.x + A.y) * 2 > 1"),
        ("A.x - (A.y - 1) > 1", "A.x - (A.y - 1) > 1"),
        ("(A.x - A.y) - 1 > 1", "A.x - A.y - 1 > 1"),
        ("A.x - -1 > - - A.y", "A.x - -1 > -(-A.y)"),
        ("(A.x > 1 OR A.y > 1)", "A.x > 1 OR A.y > 1"),
        ("(A.x > 1 OR A.y > 1) AND A.z > 1", "(A.x > 1 OR A.y > 1) AND A.z > 1"),
        ("(A.x > 1 AND A.y > 1)", "(A.x > 1 AND A.y > 1)"),
        ("NOT (A.x > 1)", "NOT A.x > 1"),
        ("NOT (A.x > 1 AND A.y > 1)", "NOT (A.x > 1 AND A.y > 1)"),
        ("(A.x = 1) = TRUE", "(A.x = 1) = TRUE"),
        ("A.x = 'it''s'", "A.x = 'it''s'"),
        ('A."in" = 1.50', 'A."in" = 1.5'),
        ("A.x NOT IN (-1, null)", "A.x NOT IN (-1, NULL)"),
    ],
)
def test_parentheses_and_quotes_are_only_where_they_are_needed(where: str, printed: str) -> None:
    assert written(f"RETURN COUNT(*) PATTERN A WHERE {where}") == f"WHERE {printed}"


@pytest.mark.parametrize(
    ("pattern", "printed"),
    [
        ("A | B ∨ (C)", "OR(A, B, C)"),
        ("A | OR(B, C)", "OR(A, OR(B, C))"),
        ("A & B ∧ AND(C, SEQ(D))", "AND(A, B, C, D)"),
        ("SEQ((A+)?, B)", "SEQ(A*, B)"),
        ("SEQ((A?)+, B)", "SEQ(A?+, B)"),
        ("SEQ(A a{0,}, SEQ(B, SEQ(C)))", "SEQ(A a*, B, C)"),
        ("A{2}{1,}{1,3}", "A{2}{1,}{1,3}"),
        ("SEQ(SEQ(A, B?), NOT C, D)", "SEQ(SEQ(A, B?), NOT C, D)"),
        ("SEQ(!C, SEQ(SEQ(A?, B), D), !(E | F)+)", "SEQ(NOT C, SEQ(A?, B, D), NOT OR(E, F)+)"),
        ('SEQ("A b" "limit", TRUE, "Plain")', 'SEQ("A b" "limit", "TRUE", Plain)'),
    ],
)
def test_patterns_are_printed_in_words(pattern: str, printed: str) -> None:
    query = parse(f"RETURN COUNT(*) PATTERN {pattern}")[0]
    assert pattern_text(query.pattern) == printed


@pytest.mark.parametrize(
    ("within", "printed"),
    [("0.5 s", "500 ms"), ("0.001 ms", "0.001 ms"), ("1.5 days", "36 h"), ("120 SECONDS", "2 min")],
)
def test_durations_are_printed_in_the_largest_unit_that_divides_them(within: str, printed: str) -> None:
    assert written(f"RETURN COUNT(*) PATTERN A WITHIN {within}") == f"WITHIN {printed}"


def test_a_grouping_attribute_called_matches_is_quoted() -> None:
    text = 'RETURN "matches", COUNT(*) PATTERN A GROUP BY matches'
    assert '"matches"' in to_text(parse(text)[0])
    assert parse(to_text(parse(text)[0])) == parse(text)
