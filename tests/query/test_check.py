from __future__ import annotations

import random
from itertools import product

import pytest

import workloads
from trendfold.automaton.glushkov import build
from trendfold.errors import NOWHERE, Problem, QueryError
from trendfold.events.schema import Kind, Schema
from trendfold.query import (
    PredicateKind,
    caution_text,
    cautions,
    check,
    check_columns,
    columns,
    having_value,
    key_column,
    kind,
    named,
    parse,
    refs,
    stands_for,
)
from trendfold.query.names import can_follow, sides
from trendfold.query.nodes import (
    Aggregate,
    Attribute,
    EventRef,
    Function,
    GroupKey,
    Matches,
    Maybe,
    Not,
    Pattern,
    Query,
    Seq,
    TypeSet,
)


def problem(text: str) -> Problem:
    with pytest.raises(QueryError) as caught:
        parse(text)
    (only,) = caught.value.problems
    return only


def count(rest: str) -> str:
    return f"RETURN COUNT(*) {rest}"


def marked(found: Problem) -> str:
    return found.text[found.span.start : found.span.end]


# ---------------------------------------------------------------- patterns


@pytest.mark.parametrize("pattern", ["A*", "A?", "A{0,3}", "A | B?", "SEQ(A?, B*)", "(A*)+", "AND(A, B?)"])
def test_a_pattern_that_accepts_the_empty_sequence_is_an_error(pattern: str) -> None:
    assert problem(count(f"PATTERN {pattern}")).message == "the pattern accepts the empty sequence"


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A, NOT B, C)",
        "SEQ(NOT B, A)",
        "SEQ(A, NOT B)",
        "SEQ(NOT B, A, NOT C)",
        "SEQ(A, NOT B, C)+",
        "SEQ(A, NOT SEQ(B, C+), D)",
        "SEQ(A, NOT (B | C), D)",
        "SEQ(A, SEQ(NOT B, C))",
        "SEQ(SEQ(A, X?), NOT B, C)",
        "SEQ(A, NOT B) & SEQ(NOT C, D)",
        "OR(SEQ(A, NOT B, C), D)",
    ],
)
def test_not_stands_between_events_or_at_an_end_of_an_outermost_seq(pattern: str) -> None:
    assert parse(count(f"PATTERN {pattern}"))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("NOT A", "NOT is only allowed in a SEQ"),
        ("SEQ(A, B | NOT C)", "NOT is only allowed in a SEQ"),
        ("A & NOT B", "NOT is an operand of AND, which combines events"),
        ("SEQ(A, (NOT B)+, C)", "NOT is only allowed in a SEQ"),
        ("SEQ(A, NOT B, NOT C, D?, E)", "NOT is next to a pattern that can be empty"),
        ("SEQ(A?, NOT B, NOT C, D)", "NOT is next to a pattern that can be empty"),
        ("SEQ(A, NOT B, NOT C)+", "NOT is last in a SEQ that is not the outermost one"),
        ("SEQ(NOT B, NOT C)", "the pattern accepts the empty sequence"),
        ("SEQ(A, NOT B)+", "NOT is last in a SEQ that is not the outermost one"),
        ("SEQ(A, NOT B) | C", "NOT is last in a SEQ that is not the outermost one"),
        ("SEQ(C, SEQ(NOT A, B){2})", "NOT is first in a SEQ that is not the outermost one"),
        ("SEQ(A, B?, NOT C, D)", "NOT is next to a pattern that can be empty"),
        ("SEQ(NOT C, A*, D)", "NOT is next to a pattern that can be empty"),
        ("SEQ(SEQ(A, NOT C), B?, D)", "NOT is next to a pattern that can be empty"),
        ("SEQ(A, NOT B?, C)", "NOT takes a type, or a pattern of SEQ, + and OR over types"),
        ("SEQ(A, NOT B*, C)", "NOT takes a type, or a pattern of SEQ, + and OR over types"),
        ("SEQ(A, NOT B{2}, C)", "NOT takes a type, or a pattern of SEQ, + and OR over types"),
    ],
)
def test_not_anywhere_else_is_an_error(pattern: str, message: str) -> None:
    found = problem(count(f"PATTERN {pattern}"))
    assert found.message == message
    assert marked(found).startswith("NOT")


@pytest.mark.parametrize("before", [(), (EventRef("Z"), Not(EventRef("Y")))])
def test_not_beside_nothing_but_what_can_be_empty_is_seen_in_nodes_too(before: tuple[Pattern, ...]) -> None:
    pattern = Seq((*before, Maybe(EventRef("A")), Not(EventRef("B")), EventRef("C")))
    (found, *_) = check(Query("q", Matches(), pattern))
    assert found.message == "NOT is next to a pattern that can be empty"
    assert (found.query, found.span) == ("q", NOWHERE)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("SEQ(A x, NOT B x, C)", "the alias 'x' refers to both negated and positive events"),
        ("SEQ(A B, B)", "the alias 'B' of 'A' is the name of another type in the pattern"),
        ("SEQ(A B, ANY(B, C))", "the alias 'B' of 'A' is the name of another type in the pattern"),
        ("ANY(A, B) A+", "the alias 'A' of 'ANY(A, B)' is the name of another type in the pattern"),
        ("AND(A, ANY(B, A))", "a type of ANY(A, B) is in two operands of AND"),
        ("AND(ANY, B)", "the type 'B' is in two operands of AND"),
    ],
)
def test_an_alias_is_no_other_type_and_not_both_negated_and_positive(pattern: str, message: str) -> None:
    assert problem(count(f"PATTERN {pattern}")).message == message


@pytest.mark.parametrize("clause", ["WHERE A.v > 1", "GROUP BY A.v", "HAVING COUNT(A) > 1"])
def test_a_type_that_stands_only_in_sets_cannot_be_named(clause: str) -> None:
    found = problem(count(f"PATTERN ANY(A, B) x+ {clause}"))
    assert (found.message, found.hint) == ("unknown alias 'A'", "the pattern has x")


def test_a_pattern_may_have_no_names() -> None:
    assert problem(count("PATTERN ANY+ WHERE x.v > 1")).hint == "give ANY an alias, as in ANY x"
    assert problem(count("PATTERN ANY+ WHERE v > 1")).hint == "write whose it is, as in x.v"


def test_any_is_reserved_in_patterns_only() -> None:
    assert problem(count("PATTERN A any")).message == "ANY is no alias: the word is reserved in PATTERN"
    (query,) = parse('QUERY any RETURN SUM(x.any) AS any PATTERN SEQ("Any", ANY(A, "any") x) WHERE x.any > 1')
    assert query.pattern == Seq((EventRef("Any"), EventRef(TypeSet(frozenset({"A", "any"})), "x")))


def test_an_alias_may_stand_on_several_positions_and_be_its_own_type() -> None:
    assert parse(count("PATTERN SEQ(A x, B, A x)"))
    assert parse(count("PATTERN OR(SEQ(A x, B), SEQ(ANY(C, D) x, ANY x))"))
    assert parse(count("PATTERN SEQ(A A, B)"))


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("PATTERN SEQ(A, B & C)", "AND is only allowed outermost in a query that aggregates"),
        ("PATTERN (A & B)+", "AND is only allowed outermost in a query that aggregates"),
        ("PATTERN (A & B) | C", "AND is only allowed outermost in a query that aggregates"),
        ("PATTERN A & SEQ(B, A)", "the type 'A' is in two operands of AND"),
        ("PATTERN A & SEQ(B, NOT A, C)", "the type 'A' is in two operands of AND"),
        ("PATTERN A & B WHERE A.x = B.x", "a predicate links two operands of AND"),
        ("PATTERN A+ & B WHERE A.x < NEXT(B).x", "a predicate links two operands of AND"),
    ],
)
def test_operands_of_and_are_judged_alone_in_an_aggregate(rest: str, message: str) -> None:
    assert problem(count(rest)).message == message


def test_operands_of_and_have_predicates_of_their_own() -> None:
    assert parse(count("PATTERN A+ & SEQ(B, C) WHERE [k] AND A.x < NEXT(A).x AND B.x = C.x AND A.y > 1"))


# ---------------------------------------------------------------- MATCHES


@pytest.mark.parametrize(
    "rest",
    [
        "PATTERN SEQ(A, B & C, D)",
        "PATTERN SEQ(A, B) & SEQ(A, C)",
        "PATTERN AND(SEQ(A, B & C), D) WHERE A.x = D.x",
        "PATTERN A & B SEMANTICS next",
        "PATTERN A+ & B WHERE A.x < NEXT(A).x",
        "PATTERN SEQ(A, NOT B, C) WITHIN 5 events LIMIT 10",
        "PATTERN A GROUP BY g WITHIN 5 min",
    ],
)
def test_what_goes_with_matches(rest: str) -> None:
    assert parse(f"RETURN MATCHES {rest}")


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("PATTERN (A & B)+", "AND is only allowed outermost or in a SEQ"),
        ("PATTERN SEQ(A, (B & C) | D)", "AND is only allowed outermost or in a SEQ"),
        ("PATTERN SEQ(A, NOT B & C)", "NOT is an operand of AND, which combines events"),
        ("PATTERN SEQ(A, B? & C)", "an operand of AND accepts the empty sequence"),
        (
            "PATTERN SEQ(A, B & C) SEMANTICS next",
            "AND in a SEQ needs skip-till-any-match, not skip-till-next-match",
        ),
        ("PATTERN SEQ(A, B+ & C) WHERE B.x < NEXT(B).x", "NEXT names an operand of AND"),
        ("PATTERN A & A SEMANTICS next", "the type 'A' is in two operands of AND"),
        ("PATTERN A HAVING COUNT(*) > 1", "HAVING cannot be combined with RETURN MATCHES"),
        ("PATTERN A WITHIN 5 s SLIDE 1 s", "SLIDE cannot be combined with RETURN MATCHES"),
        ("PATTERN A LIMIT 0", "LIMIT must be positive, not 0"),
        ("PATTERN A LIMIT 1.5", "LIMIT 1.5 is not a whole number"),
        ("PATTERN SEQ(A start, B)", "two columns of the result are named 'start'"),
        ("PATTERN A GROUP BY A", "two columns of the result are named 'A'"),
    ],
)
def test_what_does_not_go_with_matches(rest: str, message: str) -> None:
    assert problem(f"RETURN MATCHES {rest}").message == message


def test_matches_stands_alone() -> None:
    found = problem("RETURN g, MATCHES PATTERN A GROUP BY g")
    assert found.hint == "RETURN MATCHES takes no other items; the grouping attributes are always included"


def test_limit_is_for_matches_only() -> None:
    found = problem(count("PATTERN A LIMIT 3"))
    assert (found.message, marked(found)) == ("LIMIT is only for RETURN MATCHES", "LIMIT")


def test_a_count_window_of_an_aggregate_slides() -> None:
    found = problem(count("PATTERN A WITHIN 100 events"))
    assert found.message == "WITHIN a number of events needs SLIDE"
    assert found.hint == "add for example SLIDE 100 events"


# ---------------------------------------------------------------- WHERE


def test_an_unknown_alias_is_shown_with_the_nearest() -> None:
    assert str(problem(count("PATTERN SEQ(Request R, Travel trip+)\nWHERE R.x = 1 AND trp.speed > 10"))) == (
        "2:19: query 'q1': unknown alias 'trp'\n"
        "   2 | WHERE R.x = 1 AND trp.speed > 10\n"
        "                         ^^^^^^^^^\n"
        "hint: did you mean 'trip'?"
    )


@pytest.mark.parametrize(
    ("where", "message", "hint"),
    [
        ("speed > 10", "the attribute 'speed' has no alias", "write whose it is, as in A.speed"),
        (
            "A.kind = Pool",
            "the attribute 'Pool' has no alias",
            "quotes are missing: 'Pool'; or write whose it is, as in A.Pool",
        ),
        (
            "A.kind IN ('Taxi', Pool)",
            "the attribute 'Pool' has no alias",
            "quotes are missing: 'Pool'; or write whose it is, as in A.Pool",
        ),
        (
            'A.kind = "Pool"',
            "the attribute 'Pool' has no alias",
            "strings take single quotes: 'Pool'; or write whose it is, as in A.Pool",
        ),
        ("Z.x > 10", "unknown alias 'Z'", "the pattern has A, B, c, C, N, ..."),
        (
            "COUNT(*) > 10",
            "the aggregate COUNT(*) is not allowed in WHERE",
            "put conditions on aggregates in HAVING",
        ),
        ("1 = 1", "the condition names no event", "name one, as in T.speed < 10"),
        (
            "NEXT(A).x > 1",
            "the condition names only NEXT",
            "compare it with the event before, as in T.speed < NEXT(T).speed",
        ),
        (
            "A.x + B.x > c.x",
            "the condition names 3 events",
            "a conjunct names one alias, two aliases, or one and the NEXT of one; split it with AND",
        ),
        ("A.x = N.x", "'A' is never next to the NOT of 'N'", "next to it are c, D"),
        (
            "A.x < NEXT(N).x",
            "NEXT compares 'N', which is negated, with 'A', which is not",
            "leave NEXT out: the condition is judged next to the NOT",
        ),
    ],
)
def test_conditions_that_mean_nothing(where: str, message: str, hint: str) -> None:
    found = problem(count(f"PATTERN SEQ(A+, B, C c, NOT N, D) WHERE {where}"))
    assert (found.message, found.hint) == (message, hint)


def test_negated_events_have_predicates_among_themselves() -> None:
    pattern = "PATTERN SEQ(A, NOT SEQ(N, M), B, NOT K)"
    assert parse(count(f"{pattern} WHERE N.x < NEXT(M).x AND N.y = M.y AND N.z > 1 AND A.x = B.x"))
    found = problem(count(f"{pattern} WHERE N.x = K.x"))
    assert found.message == "the predicate names events of two different NOTs"


def test_a_type_that_is_both_negated_and_positive_needs_an_alias_unless_local() -> None:
    pattern = "PATTERN SEQ(A, B b, NOT SEQ(B, M), C)"
    assert parse(count(f"{pattern} WHERE B.x > 1 AND b.x = A.x"))
    found = problem(count(f"{pattern} WHERE A.x = B.x"))
    assert found.message == "'B' refers to both negated and positive events"
    assert found.hint == "give the ones you mean an alias of their own"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("A.x > 1 AND A.y > A.x", [PredicateKind.LOCAL, PredicateKind.LOCAL]),
        ("A.x > NEXT(A).x", [PredicateKind.ADJACENCY]),
        ("NEXT(B).x + 1 = A.x", [PredicateKind.ADJACENCY]),
        ("(A.x > 1 OR B.x > 1)", [PredicateKind.CROSS]),
    ],
)
def test_the_kind_of_a_predicate_is_what_it_names(where: str, expected: list[PredicateKind]) -> None:
    (query,) = parse(count(f"PATTERN SEQ(A+, B) WHERE {where}"))
    assert [kind(conjunct) for conjunct in query.where] == expected


def test_names_of_an_expression_and_of_a_pattern() -> None:
    (query,) = parse(count("PATTERN SEQ(A a, NOT N, B) WHERE a.x < NEXT(B).x"))
    assert named(query.where[0]) == {("a", False), ("B", True)}
    assert [(ref.type, is_negated) for ref, is_negated in refs(query.pattern)] == [
        ("A", False),
        ("N", True),
        ("B", False),
    ]
    first = refs(query.pattern)[0][0]
    assert stands_for(first, "a")
    assert stands_for(first, "A")
    assert not stands_for(first, "B")


# ---------------------------------------------------------------- GROUP BY, RETURN, HAVING


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RETURN COUNT(*) PATTERN SEQ(A, NOT N) GROUP BY N.g", "GROUP BY names 'N', which is negated"),
        ("RETURN COUNT(*) PATTERN A GROUP BY B.g", "unknown alias 'B'"),
        ("RETURN COUNT(*) PATTERN A GROUP BY g, g", "'g' is in GROUP BY twice"),
        ("RETURN g, COUNT(*) PATTERN A", "'g' is returned but is not in GROUP BY"),
        ("RETURN g, g PATTERN A GROUP BY g", "'g' is in RETURN twice"),
        ("RETURN SUM(N.x) PATTERN SEQ(A, NOT N)", "SUM takes 'N', which is negated"),
        ("RETURN COUNT(B) PATTERN SEQ(A, B b, NOT B)", "'B' refers to both negated and positive events"),
        ("RETURN COUNT(*), COUNT(*) PATTERN A", "two columns of the result are named 'count'"),
        ("RETURN COUNT(*) AS g PATTERN A GROUP BY g", "two columns of the result are named 'g'"),
        ("RETURN COUNT(*) AS window_end PATTERN A", "two columns of the result are named 'window_end'"),
        (
            "RETURN COUNT(*) PATTERN A GROUP BY window_start",
            "two columns of the result are named 'window_start'",
        ),
        ("RETURN ABS(A.x) PATTERN A", "RETURN takes grouping attributes and aggregates"),
    ],
)
def test_groups_and_columns_that_cannot_be(text: str, message: str) -> None:
    assert problem(text).message == message


@pytest.mark.parametrize("pattern", ["A | B", "SEQ(A?, B)", "SEQ(A*, B)", "SEQ(A{0,2}, B)", "SEQ(A, B) | B"])
def test_a_group_of_an_event_needs_the_event_in_every_trend(pattern: str) -> None:
    found = problem(count(f"PATTERN {pattern} GROUP BY A.g"))
    assert found.message == "GROUP BY A.g needs 'A' in every trend, and some have none"


@pytest.mark.parametrize("pattern", ["SEQ(A, B)", "A+", "SEQ(A, B) | SEQ(B, A)", "A & B", "SEQ(B?, A{1,2})"])
def test_a_group_of_an_event_that_is_always_there(pattern: str) -> None:
    assert parse(count(f"PATTERN {pattern} GROUP BY A.g"))


def test_columns_are_the_groups_then_the_aggregates() -> None:
    (query,) = parse(
        "RETURN LOG2(COUNT(*)), A.g, h AS hour, COUNT(A), SUM(A.x) AS total, LOG2(COUNT(B)), AVG(B.y) "
        "PATTERN SEQ(A, B) GROUP BY B.g, h, A.g"
    )
    assert columns(query) == (
        "B_g",
        "hour",
        "A_g",
        "log2_count",
        "count_A",
        "total",
        "log2_count_B",
        "avg_B_y",
    )
    assert key_column(query, GroupKey("A", "g")) == "A_g"


def test_a_plain_group_keeps_its_name_beside_one_of_an_alias() -> None:
    (query,) = parse(count("PATTERN A GROUP BY g, A.g"))
    assert columns(query) == ("g", "A_g", "count")


def test_only_attributes_may_be_returned() -> None:
    assert columns(parse("RETURN g PATTERN A GROUP BY g")[0]) == ("g",)


def test_having_knows_aggregates_as_names_and_groups() -> None:
    (query,) = parse(
        "RETURN COUNT(*) AS n, g AS h PATTERN A GROUP BY g, A.k "
        "HAVING n > 1 AND SUM(A.x) > 1 AND h = 1 AND g = 1 AND A.k = 2 AND k = 2"
    )
    assert having_value(query, Attribute(None, "n")) == Aggregate(Function.COUNT)
    assert having_value(query, Attribute(None, "h")) == GroupKey(None, "g")
    assert having_value(query, Attribute(None, "k")) == GroupKey("A", "k")


@pytest.mark.parametrize(
    ("having", "message", "hint"),
    [
        (
            "totl > 1",
            "HAVING names 'totl', which is not an aggregate, AS name or grouping attribute",
            "did you mean 'total'?",
        ),
        (
            "count > 1",
            "HAVING names 'count', which is not an aggregate, AS name or grouping attribute",
            "did you mean 'COUNT(*)'?",
        ),
        ("SUM(B.x) > 1", "unknown alias 'B'", "the pattern has A"),
        ("NEXT(A).x > 1", "NEXT is only allowed in WHERE", ""),
    ],
)
def test_having_knows_nothing_else(having: str, message: str, hint: str) -> None:
    found = problem(f"RETURN COUNT(*), SUM(A.x) AS total PATTERN A HAVING {having}")
    assert (found.message, found.hint) == (message, hint)


# ---------------------------------------------------------------- columns and types

SCHEMA: Schema = {
    "i": Kind.INTEGER,
    "f": Kind.FLOAT,
    "s": Kind.STRING,
    "b": Kind.BOOLEAN,
    "t": Kind.TIME,
    "o": Kind.OTHER,
    "n": Kind.NULL,
}


def typed(text: str) -> list[Problem]:
    return check_columns(parse(text)[0], SCHEMA)


@pytest.mark.parametrize(
    "where",
    [
        "A.i < A.f AND A.s = 'x' AND A.b AND NOT A.b = FALSE AND A.t <= NEXT(A).t",
        "A.i = NULL AND A.o IS NULL AND A.s LIKE 'a%' AND A.i IN (1, 2.5, NULL)",
        "ABS(A.i - 1) / 2 > -A.f AND A.t BETWEEN A.t AND NULL",
        "A.n AND A.n = 1 AND A.n < 'x' AND A.t > A.n AND A.n + 1 > 2 AND A.n LIKE 'x' AND A.n IN ('x', 1)",
    ],
)
def test_conditions_with_the_right_types(where: str) -> None:
    assert typed(count(f"PATTERN A+ WHERE {where}")) == []


@pytest.mark.parametrize(
    ("where", "message", "mark"),
    [
        ("A.j = 1", "there is no column 'j'", "A.j"),
        ("A.i = 'x'", "cannot compare A.i (integer) with 'x' (string)", "A.i = 'x'"),
        ("A.t > 5", "cannot compare A.t (time) with 5 (integer)", "A.t > 5"),
        ("A.b = 1", "cannot compare A.b (boolean) with 1 (integer)", "A.b = 1"),
        ("A.i IN (1, 'x')", "cannot compare A.i (integer) with 'x' (string)", "A.i IN (1, 'x'"),
        ("A.s BETWEEN 1 AND 'x'", "cannot compare A.s (string) with 1 (integer)", "A.s BETWEEN 1"),
        ("A.o = A.o", "A.o cannot be compared: its column holds no plain values", "A.o = A.o"),
        ("A.s + 1 > 1", "'+' takes numbers, but A.s is a string", "A.s + 1"),
        ("ABS(A.b) > 1", "'ABS' takes numbers, but A.b is a boolean", "A.b"),
        ("A.i LIKE 'x'", "LIKE takes a string, not an integer", "A.i"),
        ("A.i", "expected a condition, found an integer: A.i", "A.i"),
        ("A.b AND (A.i OR A.b)", "expected a condition, found an integer: A.i", "A.i"),
    ],
)
def test_conditions_with_the_wrong_types(where: str, message: str, mark: str) -> None:
    found = typed(count(f"PATTERN A+ WHERE {where}"))
    assert [(p.message, marked(p)) for p in found] == [(message, mark)]


@pytest.mark.parametrize(
    ("text", "message", "mark"),
    [
        ("RETURN SUM(A.s) PATTERN A", "SUM takes numbers, but 's' is a string", "SUM(A.s)"),
        ("RETURN AVG(A.t) PATTERN A", "AVG takes numbers, but 't' is a time", "AVG(A.t)"),
        ("RETURN MAX(A.b) PATTERN A", "MAX takes numbers or times, but 'b' is a boolean", "MAX(A.b)"),
        ("RETURN COUNT(*) PATTERN A GROUP BY z", "there is no column 'z'", "z"),
        (
            "RETURN COUNT(*) PATTERN A GROUP BY A.o",
            "the column 'o' cannot be grouped by: its values have no equality",
            "A.o",
        ),
        ("RETURN COUNT(*) PATTERN A WHERE [i, user]", "there is no column 'user'", "user"),
        ("RETURN MATCHES(i, z) PATTERN A", "there is no column 'z'", "MATCHES"),
        (
            "RETURN MAX(A.t) AS m PATTERN A HAVING m > 5",
            "cannot compare m (time) with 5 (integer)",
            "m > 5",
        ),
        (
            "RETURN COUNT(*) AS n PATTERN A GROUP BY s HAVING s > n",
            "cannot compare s (string) with n (float)",
            "s > n",
        ),
    ],
)
def test_columns_with_the_wrong_types(text: str, message: str, mark: str) -> None:
    assert [(p.message, marked(p)) for p in typed(text)] == [(message, mark)]


def test_a_column_without_a_single_value_goes_with_every_kind() -> None:
    having = "n > 'x' AND least > 5 AND least > 'x'"
    query = f"RETURN n, SUM(A.n), MIN(A.n) AS least PATTERN A GROUP BY n HAVING {having}"
    assert typed(query) == []
    assert typed("RETURN MATCHES(n) PATTERN A WHERE [n]") == []


def test_times_have_a_least_and_a_greatest_and_other_columns_are_carried_along() -> None:
    assert typed("RETURN MIN(A.t), MAX(A.f) PATTERN A HAVING MIN(A.t) < MAX(A.t)") == []
    assert typed("RETURN MATCHES(o, i) PATTERN A") == []


def test_a_missing_column_is_shown_with_the_nearest() -> None:
    (found,) = check_columns(parse(count("PATTERN A WHERE A.sped > 1"))[0], {"speed": Kind.FLOAT})
    assert str(found) == (
        "1:33: query 'q1': there is no column 'sped'\n"
        "   1 | RETURN COUNT(*) PATTERN A WHERE A.sped > 1\n"
        "                                       ^^^^^^\n"
        "hint: did you mean 'speed'?"
    )


# ---------------------------------------------------------------- cautions


def warned(clauses: str) -> list[str]:
    (query,) = parse(f"QUERY q RETURN COUNT(*)\n{clauses}")
    return [caution_text(caution) for caution in cautions(query)]


@pytest.mark.parametrize(
    ("clauses", "caution"),
    [
        (
            "PATTERN SEQ(A, B) WHERE B.x < NEXT(A).x",
            "B.x < NEXT(A).x never applies: A never directly follows B in this pattern; "
            "did you mean NEXT(B)? B does follow A",
        ),
        (
            "PATTERN SEQ(A, B, C) WHERE A.x < NEXT(C).x",
            "A.x < NEXT(C).x never applies: C never directly follows A in this pattern; "
            "without NEXT, A is compared with every C of a trend",
        ),
        (
            "PATTERN SEQ(A, B+) WHERE A.x < NEXT(A).x",
            "A.x < NEXT(A).x never applies: A never directly follows A in this pattern",
        ),
        (
            "PATTERN SEQ(A, NOT N n, B) WHERE n.x < NEXT(n).x",
            "n.x < NEXT(n).x never applies: n never directly follows n in this pattern",
        ),
        (
            "PATTERN OR(A, B) WHERE A.x < B.x",
            "A.x < B.x never applies: no trend of this pattern has both A and B",
        ),
        (
            "PATTERN A+ WHERE A.x = NULL OR NULL <> A.y",
            "A.x = NULL is never true: nothing compares with NULL; write A.x IS NULL",
        ),
        (
            "PATTERN A+ WITHIN 5 min SLIDE 10 min",
            "SLIDE is longer than WITHIN: events between two windows are in no window; "
            "let SLIDE be at most WITHIN if every event should count",
        ),
    ],
)
def test_what_is_allowed_and_hardly_meant_is_a_caution(clauses: str, caution: str) -> None:
    assert warned(clauses)[0] == f"query 'q', line 2: {caution}"


@pytest.mark.parametrize(
    "clauses",
    [
        "PATTERN SEQ(A, B) WHERE A.x < NEXT(B).x",
        "PATTERN SEQ(A, B)+ WHERE B.x < NEXT(A).x AND A.x != B.y",
        "PATTERN SEQ(A a, B b){2,3} WHERE b.x < NEXT(a).x",
        "PATTERN SEQ(A, B?, C) WHERE A.x < NEXT(C).x AND A.x < C.y",
        "PATTERN SEQ(A, NOT N, B) WHERE A.x < NEXT(B).x",
        "PATTERN SEQ(A, NOT SEQ(N n+, M m), B) WHERE n.x < NEXT(n).x AND n.y < m.y",
        "PATTERN OR(A, B)+ WHERE A.x < B.x AND B.x < NEXT(A).x",
        "PATTERN A{2} WHERE A.x < NEXT(A).x",
        "PATTERN A+ WHERE A.x IS NOT NULL WITHIN 5 min SLIDE 5 min",
    ],
)
def test_what_is_meant_is_no_caution(clauses: str) -> None:
    assert warned(clauses) == []


def test_who_can_follow_whom_is_as_the_automaton_has_it() -> None:
    for seed in range(300):
        (query,) = parse(workloads.random_case(random.Random(seed)).query)
        automaton = build(query.pattern)
        edges = automaton.edges.union(*(guard.edges for guard in automaton.guards))
        for first, second in product(sides(query.pattern), repeat=2):
            left, right = automaton.called(first), automaton.called(second)
            expected = any(p in left and q in right for p, q in edges)
            assert can_follow(query.pattern, first, second) == expected, (seed, first, second)
