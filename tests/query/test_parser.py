from __future__ import annotations

import re
import time
from importlib.resources import files

import pytest

from trendfold.errors import Problem, QueryError
from trendfold.events.schema import Kind
from trendfold.query import check_columns, parse, to_text
from trendfold.query.names import RESERVED
from trendfold.query.nodes import (
    Aggregate,
    Attribute,
    Between,
    Binary,
    Both,
    Compare,
    Either,
    EventRef,
    Expression,
    Function,
    GroupKey,
    In,
    IsNull,
    Like,
    Literal,
    Logic,
    Matches,
    Maybe,
    Not,
    Pattern,
    Plus,
    Query,
    Repeat,
    ReturnItem,
    Semantics,
    Seq,
    Unary,
    Window,
    WindowUnit,
)

COUNT = ReturnItem(Aggregate(Function.COUNT))
A, B, C, D = map(EventRef, "ABCD")


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return caught.value.problems


def problem(text: str) -> Problem:
    (only,) = problems(text)
    return only


def pattern(text: str) -> Pattern:
    return parse(f"RETURN COUNT(*) PATTERN {text}")[0].pattern


def where(text: str) -> tuple[Expression, ...]:
    return parse(f"RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE {text}")[0].where


# ---------------------------------------------------------------- queries and clauses


def test_a_whole_query() -> None:
    text = """
    QUERY trips   -- the example of the documentation
    RETURN T.district, COUNT(*), SUM(T.duration) AS total
    PATTERN SEQ(Request R, Travel T+, NOT Pickup P)
    SEMANTICS skip-till-any-match
    WHERE [driver, rider] AND T.speed < 10 AND T.speed < NEXT(T).speed
    GROUP BY T.district
    HAVING COUNT(*) > 100
    WITHIN 30 min SLIDE 1 min;
    """
    speed = Attribute("T", "speed")
    assert parse(text) == (
        Query(
            name="trips",
            returns=(
                ReturnItem(GroupKey("T", "district")),
                COUNT,
                ReturnItem(Aggregate(Function.SUM, "T", "duration"), "total"),
            ),
            pattern=Seq(
                (EventRef("Request", "R"), Plus(EventRef("Travel", "T")), Not(EventRef("Pickup", "P")))
            ),
            equivalence=("driver", "rider"),
            where=(
                Compare("<", speed, Literal(10)),
                Compare("<", speed, Attribute("T", "speed", is_next=True)),
            ),
            group_by=(GroupKey("T", "district"),),
            having=Compare(">", Aggregate(Function.COUNT), Literal(100)),
            window=Window(1_800_000_000, 60_000_000, WindowUnit.MICROSECONDS),
        ),
    )


def test_a_query_keeps_its_place_in_the_text() -> None:
    text = "RETURN COUNT(*) PATTERN A;\nRETURN COUNT(*) PATTERN SEQ(B b, C)"
    second = parse(text)[1]
    assert text[second.span.start : second.span.end] == "RETURN COUNT(*) PATTERN SEQ(B b, C)"
    assert isinstance(second.pattern, Seq)
    assert isinstance(first := second.pattern.parts[0], EventRef)
    assert text[first.span.start : first.span.end] == "B b"


def test_clauses_come_in_any_order_and_keywords_in_any_case() -> None:
    assert parse("slide 1 s within 5 s pattern A return count(*)") == parse(
        "RETURN COUNT(*) PATTERN A WITHIN 5 s SLIDE 1 s"
    )


@pytest.mark.parametrize("words", ["GROUP BY", "group  by", "GROUP-BY", "GROUPBY", "Group_By"])
def test_group_by_may_be_written_as_the_papers_do(words: str) -> None:
    assert parse(f"RETURN COUNT(*) PATTERN A {words} g")[0].group_by == (GroupKey(None, "g"),)


def test_window_is_within_and_agg_is_return() -> None:
    published = "AGG COUNT PATTERN A WINDOW 20 min SLIDE 5 min"
    assert parse(published) == parse("RETURN COUNT(*) PATTERN A WITHIN 20 min SLIDE 5 min")
    assert parse("AGG COUNT AS n, SUM(A.x), COUNT(A) PATTERN A") == parse(
        "RETURN COUNT(*) AS n, SUM(A.x), COUNT(A) PATTERN A"
    )


def test_queries_are_named_by_query_by_colon_before_return_or_by_number() -> None:
    body = "RETURN COUNT(*) PATTERN A"
    text = f'QUERY a {body}; b: {body}; c {body}; {body}; "d e": {body}; {body};'
    assert [query.name for query in parse(text)] == ["a", "b", "c", "q4", "d e", "q6"]


def test_a_bare_name_before_return_ends_the_query_before_it() -> None:
    text = "q0\nRETURN COUNT(*)\nPATTERN A+\n\nq1\nRETURN COUNT(*)\nPATTERN SEQ(B b, C)\n"
    assert [(query.name, query.pattern) for query in parse(text)] == [
        ("q0", Plus(A)),
        ("q1", Seq((EventRef("B", "b"), C))),
    ]


def test_a_type_before_the_first_return_is_no_new_query() -> None:
    (query,) = parse("PATTERN A RETURN COUNT(*)")
    assert query.pattern == A
    (query,) = parse("PATTERN A a RETURN COUNT(*)")
    assert query.pattern == EventRef("A", "a")


def test_semicolons_in_strings_names_and_comments_cut_nothing() -> None:
    (query,) = parse("""RETURN COUNT(*) PATTERN A "x;y" -- one; two
    WHERE "x;y".s = 'it''s; QUERY a'""")
    assert query.where == (Compare("=", Attribute("x;y", "s"), Literal("it's; QUERY a")),)


@pytest.mark.parametrize("word", ["any", "skip-till-any-match", "ANY"])
def test_the_default_semantics_may_be_written(word: str) -> None:
    assert parse(f"RETURN COUNT(*) PATTERN A SEMANTICS {word}")[0].semantics is Semantics.ANY


@pytest.mark.parametrize(
    ("word", "semantics"),
    [("next", Semantics.NEXT), ("Skip-Till-Next-Match", Semantics.NEXT), ("cont", Semantics.CONTIGUOUS)],
)
def test_semantics_have_short_words(word: str, semantics: Semantics) -> None:
    assert parse(f"RETURN COUNT(*) PATTERN A SEMANTICS {word} WHERE A.x > 1")[0].semantics is semantics


@pytest.mark.parametrize(
    ("within", "length"),
    [
        ("1 ms", 1_000),
        ("0.5 s", 500_000),
        ("1e3 sec", 10**9),
        ("0.001 milliseconds", 1),
        ("2min", 120_000_000),
        ("1 HOUR", 3_600_000_000),
        ("7 days", 604_800_000_000),
    ],
)
def test_durations_are_microseconds(within: str, length: int) -> None:
    window = parse(f"RETURN COUNT(*) PATTERN A WITHIN {within}")[0].window
    assert window == Window(length, None, WindowUnit.MICROSECONDS)


def test_matches_with_and_without_attributes() -> None:
    assert parse("RETURN MATCHES PATTERN A LIMIT 3")[0].returns == Matches()
    assert parse('RETURN matches(speed, "a b") PATTERN A')[0].returns == Matches(("speed", "a b"))


def test_only_reserved_words_are_no_names() -> None:
    (query,) = parse(
        "RETURN count AS log2, matches, COUNT(*) AS as, MIN(Min.min) AS avg "
        "PATTERN SEQ(D as, Count events, Min) "
        "WHERE events.sum = as.abs GROUP BY count, matches"
    )
    assert query.pattern == Seq((EventRef("D", "as"), EventRef("Count", "events"), EventRef("Min")))
    assert query.group_by == (GroupKey(None, "count"), GroupKey(None, "matches"))


@pytest.mark.parametrize("word", sorted(RESERVED - {"TRUE", "FALSE", "NULL"}))
def test_a_reserved_word_is_a_name_only_in_quotes(word: str) -> None:
    assert pattern(f'SEQ(A, "{word}" "{word.lower()}")') == Seq((A, EventRef(word, word.lower())))
    assert problems(f"RETURN COUNT(*) PATTERN SEQ(A, B {word.lower()})")


def test_true_may_be_a_type_because_it_is_a_ticker() -> None:
    assert pattern("SEQ(TRUE, CBAY, null n)") == Seq(
        (EventRef("TRUE"), EventRef("CBAY"), EventRef("null", "n"))
    )


def test_the_grammar_reserves_the_words_the_printer_quotes() -> None:
    grammar = files("trendfold.query").joinpath("grammar.lark").read_text(encoding="utf-8")
    listed = re.search(r"NOT_RESERVED: /\(\?!\((.*?)\)", grammar, re.DOTALL)
    assert listed is not None
    assert {word.strip().upper() for word in listed.group(1).split("|")} == RESERVED


# ---------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", A),
        ("(((A)))", A),
        ("SEQ(A)", A),
        ("OR(AND(SEQ(A)))", A),
        ("SEQ(A, SEQ(B, (SEQ(C, D))))", Seq((A, B, C, D))),
        ("SEQ(A, SEQ(B, C)+)", Seq((A, Plus(Seq((B, C)))))),
        ("A | B ∨ C", Either((A, B, C))),
        ("A & B ∧ C", Both((A, B, C))),
        ("AND(A, AND(B, C))", Both((A, B, C))),
        ("OR(A, OR(B, C))", Either((A, Either((B, C))))),
        ("SEQ(A*, B)", Seq((Maybe(Plus(A)), B))),
        ("SEQ(A{0,}, B)", Seq((Maybe(Plus(A)), B))),
        ("A{1}", Repeat(A, 1, 1)),
        ("A{2,}", Repeat(A, 2, None)),
        ("SEQ(A{0,3}, B)", Seq((Repeat(A, 0, 3), B))),
        ("A a+{2}", Repeat(Plus(EventRef("A", "a")), 2, 2)),
        ("SEQ(A, !B+, C)", Seq((A, Not(Plus(B)), C))),
        ("SEQ(NOT A, B | C)", Seq((Not(A), Either((B, C))))),
    ],
)
def test_patterns_are_normalised(text: str, expected: Pattern) -> None:
    assert pattern(text) == expected


# ---------------------------------------------------------------- expressions

X, Y = Attribute("A", "x"), Attribute("A", "y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A.x <> 1", Compare("!=", X, Literal(1))),
        ("A.x = -1", Compare("=", X, Literal(-1))),
        ("A.x = - -1.5e3", Compare("=", X, Literal(1500.0))),
        (f"A.x = {10**30}", Compare("=", X, Literal(10**30))),
        ("A.x - -A.y > .5", Compare(">", Binary("-", X, Unary("-", Y)), Literal(0.5))),
        (
            "A.x + A.y * 2 % 3 > 0",
            Compare(
                ">",
                Binary("+", X, Binary("%", Binary("*", Y, Literal(2)), Literal(3))),
                Literal(0),
            ),
        ),
        ("NOT A.x IS NOT NULL", Unary("NOT", IsNull(X, negated=True))),
        ("A.x IN (1, 'a', NULL)", In(X, (Literal(1), Literal("a"), Literal(None)))),
        ("A.x NOT IN (-2)", In(X, (Literal(-2),), negated=True)),
        ("A.x BETWEEN 1 AND A.y + 1", Between(X, Literal(1), Binary("+", Y, Literal(1)))),
        ("A.x NOT BETWEEN 1 AND 2", Between(X, Literal(1), Literal(2), negated=True)),
        ("A.x NOT LIKE 'a''%'", Like(X, "a'%", negated=True)),
        ("abs(A.x) > 1", Compare(">", Unary("ABS", X), Literal(1))),
        ("A.x = true", Compare("=", X, Literal(True))),
        (
            "A.x > 1 OR A.y > 1 AND NOT A.x > 2",
            Logic(
                "OR",
                (
                    Compare(">", X, Literal(1)),
                    Logic("AND", (Compare(">", Y, Literal(1)), Unary("NOT", Compare(">", X, Literal(2))))),
                ),
            ),
        ),
    ],
)
def test_conditions(text: str, expected: Expression) -> None:
    assert where(text) == (expected,)


def test_and_joins_conjuncts_but_not_in_parentheses() -> None:
    one, two = Compare(">", X, Literal(1)), Compare(">", Y, Literal(2))
    assert where("A.x > 1 AND A.y > 2") == (one, two)
    assert where("(A.x > 1 AND A.y > 2)") == (Logic("AND", (one, two)),)


@pytest.mark.parametrize("text", ["A.u = B.u = C.u", "(A.u = B.u = C.u)", "A.u = B.u AND B.u = C.u"])
def test_a_chain_of_equalities_is_its_pairs(text: str) -> None:
    a, b, c = (Attribute(alias, "u") for alias in "ABC")
    assert where(text) == (Compare("=", a, b), Compare("=", b, c))


def test_equivalences_are_collected_without_repeats() -> None:
    (query,) = parse("RETURN COUNT(*) PATTERN A WHERE [b, a] AND A.x > 1 AND [a, c]")
    assert query.equivalence == ("b", "a", "c")
    assert len(query.where) == 1


# ---------------------------------------------------------------- errors


def test_a_misspelt_clause_is_pointed_at() -> None:
    assert str(problem("RETURN COUNT(*)\nPATERN SEQ(A, B)")) == (
        "2:1: query 'q1': expected ',', AS or a clause, found 'PATERN'\n"
        "   2 | PATERN SEQ(A, B)\n"
        "       ^^^^^^\n"
        "hint: did you mean 'PATTERN'?"
    )


def test_a_misspelt_clause_that_was_read_as_an_alias_is_guessed() -> None:
    found = problem("RETURN COUNT(*) PATTERN A WHRE A.x > 1")
    assert found.hint == "did you mean 'WHERE' instead of 'WHRE'?"


def test_a_missing_semicolon_is_pointed_at_and_the_rest_is_checked() -> None:
    first, second = problems("QUERY a RETURN COUNT(*) PATTERN A\nQUERY b RETURN COUNT(*) PATTERN SEQ(B, )")
    assert str(first) == (
        "2:1: query 'a': expected ';' before 'QUERY'\n"
        "   2 | QUERY b RETURN COUNT(*) PATTERN SEQ(B, )\n"
        "       ^^^^^\n"
        "hint: put ';' before it"
    )
    assert (second.query, second.message) == ("b", "expected a pattern, found ')'")


def test_every_bad_query_is_reported_and_no_good_one() -> None:
    good = "RETURN COUNT(*) PATTERN A"
    found = problems(f"{good}; RETURN COUNT(*); {good}; x: RETURN COUNT(*) PATTERN B*; {good}")
    assert [(p.query, p.message) for p in found] == [
        ("q2", "the query has no PATTERN clause"),
        ("x", "the pattern accepts the empty sequence"),
    ]


def test_equal_names_are_named_with_both_lines() -> None:
    text = "QUERY q2 RETURN COUNT(*) PATTERN A;\nRETURN COUNT(*) PATTERN B"
    assert problem(text).message == "two queries are named 'q2', on line 1 and on line 2"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("PATTERN A WHERE A.x == 1", "expected a value, found '='", "equality is written ="),
        ("PATTERN A WHERE A.x = 1 && A.y = 1", "expected an operator or a clause, found '&'", "write AND"),
        ("PATTERN A WHERE A.x < 1 < 2", "'<' cannot be chained", "join two comparisons by AND"),
        ("PATTERN A WHERE A.x = 'abc", "this string is not closed", "end it with '"),
        ('PATTERN "A', "this quoted name is not closed", 'end it with "'),
        ('PATTERN ""', "a quoted name is empty", ""),
        (
            "PATTERN A WHERE A.in = 1",
            "expected a name, found 'in'",
            "'in' is a reserved word; as a name it is written \"in\"",
        ),
        ("PATTERN (A, B)", "expected ')', found ','", ""),
        ("PATTERN SEQ(A, B", "expected ')' or ',', found the end of the query", ""),
        ("PATTERN A WHERE", "expected a value, found the end of the query", ""),
        ("PATTERN A WITHIN 10", "expected a unit such as 'min' or 'events', found the end of the query", ""),
        ("PATTERN A WITHIN 10 mins", "unknown unit 'mins'", "did you mean 'min'?"),
        ("PATTERN A WITHIN 10 min, SLIDE 5 min", "expected a clause, found ','", ""),
        ("PATTERN A WITHIN 0 s", "WITHIN must be positive, not 0", ""),
        ("PATTERN A WITHIN -5 min", "WITHIN must be positive, not -5", ""),
        ("PATTERN A WITHIN 5 s SLIDE 0 s", "SLIDE must be positive, not 0", ""),
        ("PATTERN A WITHIN 0.0000001 s", "WITHIN 0.0000001 is not a whole number of microseconds", ""),
        ("PATTERN A WITHIN 1.5 events", "WITHIN 1.5 is not a whole number of events", ""),
        ("PATTERN A WITHIN 200000000 days", "WITHIN 200000000 is out of range", ""),
        ("PATTERN A WITHIN 1e999999999 s", "WITHIN 1e999999999 is out of range", ""),
        ("PATTERN A WITHIN 1e-999999999 s", "WITHIN 1e-999999999 is out of range", ""),
        ("PATTERN A SLIDE 5 s", "SLIDE needs WITHIN", "add WITHIN before SLIDE"),
        (
            "PATTERN A WITHIN 5 s SLIDE 5 events",
            "WITHIN and SLIDE have different units",
            "give both as durations or both in events",
        ),
        ("PATTERN A WITHIN 5 s WINDOW 5 s", "WITHIN is given twice", ""),
        ("PATTERN A PATTERN B", "PATTERN is given twice", ""),
        ("PATTERN A{3,2}", "{3,2} has its bounds swapped", "write {2,3}"),
        ("PATTERN A{0}", "a pattern repeated 0 times matches nothing", "repeat at least once: {1}"),
        ("PATTERN A{1.5}", "a pattern is repeated a whole number of times, not 1.5", ""),
        ("PATTERN A SEMANTICS anny", "unknown semantics 'anny'", "did you mean 'any'?"),
        (
            "PATTERN A WHERE [k] OR A.x > 1",
            "[k] is not a conjunct of WHERE on its own",
            "join it to the other conjuncts by AND, outside of parentheses, OR and NOT",
        ),
        ("PATTERN A WHERE A.x > 1e999", "the number 1e999 is too large for a double", ""),
        ("PATTERN A WHERE COUNTT(A) > 1", "unknown function 'COUNTT'", "did you mean 'COUNT'?"),
        (
            "PATTERN A HAVING SUM(A) > 1",
            "SUM takes one attribute of an alias, as in SUM(T.duration), or DURATION or LENGTH",
            "",
        ),
        (
            "PATTERN A HAVING COUNT(A.x) > 1",
            "COUNT takes *, an alias or DISTINCT, as in COUNT(*), COUNT(T) or COUNT(DISTINCT a)",
            "",
        ),
        ("PATTERN A HAVING LOG2(SUM(A.x)) > 1", "LOG2 takes a COUNT, as in LOG2(COUNT(*))", ""),
        ("PATTERN A HAVING ABS() > 1", "ABS takes one number", ""),
    ],
)
def test_an_error_says_what_is_wrong_and_what_to_do(text: str, message: str, hint: str) -> None:
    found = problem(f"RETURN COUNT(*) {text}")
    assert (found.message, found.hint) == (message, hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT COUNT(*) FROM events", "a query begins with RETURN"),
        ("WITH x AS (SELECT 1) RETURN COUNT(*) PATTERN A", "a query begins with RETURN"),
        ("RETURN COUNT(*) FROM events PATTERN A", "a query names no table"),
        ("RETURN COUNT(*) PATTERN A+ ORDER BY x", "results are ordered by window and group"),
        ("RETURN COUNT(*) PATTERN A+ PARTITION BY x", "write WHERE [a] to keep trends within one value"),
        ("RETURN COUNT(*) MATCH_RECOGNIZE (PATTERN (A B+))", "(A B+) is written SEQ(A, B+)"),
        ("RETURN COUNT(*) PATTERN A+ DEFINE A AS A.x > 1", "conditions go to WHERE"),
        ("RETURN COUNT(*) PATTERN A+ MEASURES A.x", "aggregates go to RETURN"),
        ("RETURN COUNT(*) PATTERN A+ AFTER MATCH SKIP", "SEMANTICS says which events a trend may skip"),
        ("RETURN COUNT(*) PATTERN SEQ(A, B) ON A.x = B.x", "conditions go to WHERE"),
        ("RETURN COUNT(*) PATTERN A+ JOIN B", "events are combined by PATTERN"),
        ("RETURN COUNT(*) PATTERN A+ UNION ALL RETURN COUNT(*) PATTERN B", "queries are separated by ';'"),
        ("RETURN MATCHES PATTERN A+ FETCH FIRST 5 ROWS", "takes LIMIT n"),
        ("RETURN * PATTERN A+", "RETURN MATCHES gives the events of trends"),
        ("RETURN COUNT(DISTINCT A.x) PATTERN A+", "write COUNT(DISTINCT x) beside WHERE [x]"),
        ("RETURN DISTINCT A.x PATTERN A+", "COUNT(DISTINCT a) counts values of WHERE [a] or GROUP BY a"),
        ("RETURN COUNT(*) PATTERN A+ INCLUD EMPTY", "did you mean 'INCLUDE'"),
        ("RETURN MEDIAN(A.x) PATTERN A+", "choose one of COUNT, SUM, MIN, MAX, AVG, LOG2, ABS"),
        ("RETURN STDDEV(A.x) PATTERN A+", "choose one of COUNT, SUM, MIN, MAX, AVG, LOG2, ABS"),
        ("RETURN MEAN(A.x) PATTERN A+", "write AVG"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN 1 month", "months differ in length; write days"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN 2 years", "years differ in length"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN 5 us", "the shortest unit is ms"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN 5 m", "write min for minutes"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN '5 min'", "write the duration as it is"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN INTERVAL 5 min", "write the duration as it is"),
        ("RETURN COUNT(*) PATTERN A+ WITHIN 5 min HOP 1 min", "windows are written WITHIN 10 min SLIDE"),
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x > PREV(A).x", "written A.x < NEXT(A).x"),
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x > PREV(A.x)", "written A.x < NEXT(A).x"),
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x > LAG(A.x, 1)", "written A.x < NEXT(A).x"),
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A.x)", "NEXT takes an alias, as in NEXT(A).x"),
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x || A.y", "write OR"),
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x => 1", "write >="),
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x =! 1", "write !="),
        ("RETURN COUNT(*) PATTERN A+ WHERE !(A.x = 1)", "write NOT"),
        ("RETURN COUNT(*) PATTERN A -> B", "written SEQ(A, B)"),
        ("RETURN COUNT(*) PATTERN A B+ C", "an alias comes before '+'"),
        ("RETURN COUNT(*) PATTERN SEQ(A, B+ b)", "an alias comes before '+', as in Travel b+"),
        ("RETURN COUNT(*) PATTERN SEQ(A AS a, B)", "an alias follows its type without AS"),
        ("RETURN COUNT(*) PATTERN A b c", "are written SEQ(A, c)"),
        ("RETURN COUNT(*) PATTERN A+ /* all */", "a comment begins with --"),
        ("RETURN COUNT(*) PATTERN A+ # all", "a comment begins with --"),
    ],
)
def test_words_and_signs_of_other_languages_are_answered_with_ours(text: str, hint: str) -> None:
    assert hint in problem(text).hint


def test_words_of_other_languages_are_names_where_a_name_can_stand() -> None:
    assert parse("RETURN From, COUNT(*) PATTERN SEQ(Select, Order top+) WHERE top.every > 1 GROUP BY From")


@pytest.mark.parametrize("text", ["", "  \n -- nothing\n", ";;"])
def test_an_empty_workload_is_an_error(text: str) -> None:
    assert problem(text).message == "the workload has no query"


# ---------------------------------------------------------------- limits


def test_ten_thousand_parentheses_are_a_clear_error() -> None:
    text = "(" * 10_000 + "A" + ")" * 10_000
    assert problem(f"RETURN COUNT(*) PATTERN {text}").message == "brackets are nested deeper than 200 levels"
    assert pattern("(" * 200 + "A" + ")" * 200) == A


@pytest.mark.parametrize("operators", ["+" * 10_000, "?+" * 5_000, "{1}" * 10_000])
def test_a_long_chain_of_repetitions_is_a_clear_error(operators: str) -> None:
    deep = "the pattern is nested deeper than 200 levels"
    assert problem(f"RETURN COUNT(*) PATTERN A{operators}").message == deep
    assert problem(f"RETURN COUNT(*) PATTERN SEQ(NOT B, A{operators})").message == deep


def test_patterns_of_two_hundred_levels_pass_every_check() -> None:
    nested = pattern("(" * 200 + "A" + ")+" * 200)
    assert to_text(Query("q", (COUNT,), nested)).endswith("PATTERN A" + "+" * 200)


@pytest.mark.parametrize(
    "condition",
    ["NOT " * 10_000 + "A.x > 1", "- " * 10_000 + "A.x > 1", "A.x" + " + 1" * 10_000 + " > 1"],
)
def test_a_deep_condition_is_a_clear_error(condition: str) -> None:
    found = problem(f"RETURN COUNT(*) PATTERN A WHERE {condition}")
    assert found.message == "the condition of WHERE is nested deeper than 200 levels"


def test_conditions_of_two_hundred_levels_pass_every_check() -> None:
    for condition in ("NOT " * 199 + "A.x > 1", "ABS(" * 198 + "A.x" + ")" * 198 + " > 1"):
        (query,) = parse(f"RETURN COUNT(*) PATTERN A WHERE {condition}")
        assert to_text(query).endswith(condition)
        assert check_columns(query, {"x": Kind.FLOAT}) == []


def test_wide_conditions_are_not_deep() -> None:
    assert len(where(" AND ".join(["A.x > 1"] * 1_000))) == 1_000
    assert where(" OR ".join(["A.x > 1"] * 1_000))


def test_positions_are_limited_copies_included() -> None:
    assert pattern("A{1000}") == Repeat(A, 1000, 1000)
    found = problem("RETURN COUNT(*) PATTERN SEQ(A{20,}, B){1,48}")
    assert found.message == "the pattern has 1,008 positions; the limit is 1,000"
    found = problem("RETURN COUNT(*) PATTERN A{999999}{999999}")
    assert found.message == "the pattern has more than a billion positions; the limit is 1,000"


def test_text_is_limited() -> None:
    assert problem("-- " + "x" * 5_000_000).message == "the text is larger than 5 MB"


def test_endless_numbers_are_refused() -> None:
    found = problem(f"RETURN COUNT(*) PATTERN A WHERE A.x > {'9' * 5_000}")
    assert found.message == "the number has more than 4000 digits"
    found = problem(f"RETURN COUNT(*) PATTERN A WITHIN 0.{'9' * 5_000} s")
    assert found.message == "WITHIN has a number of more than 40 digits"


def test_five_thousand_small_queries_are_parsed_in_seconds() -> None:
    text = ";\n".join(["RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE A.x > 1 WITHIN 10 min SLIDE 5 min"] * 5_000)
    start = time.perf_counter()
    assert len(parse(text)) == 5_000
    assert time.perf_counter() - start < 30  # about 1 ms each; the bound catches what is not linear
