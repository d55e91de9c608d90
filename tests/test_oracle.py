"""The oracle against the published cases and against examples worked out by hand."""

from __future__ import annotations

import json
import math
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings

import workloads
from trendfold.testing import oracle

SHARED = Path(os.environ.get("TRENDFOLD_SHARED") or Path(__file__).resolve().parents[1].parent / "shared")
CASES = [SHARED / "spec" / name for name in ("cases.json", "cases-2.json")]


def stream(text: str, **columns: list) -> list[dict]:
    """ "a1 b2 c5": events of type A at 1, B at 2, C at 5; columns by keyword, in order."""
    events = []
    for i, word in enumerate(text.split()):
        event = {"type": word[0].upper(), "ts": int(word[1:])}
        event.update({name: values[i] for name, values in columns.items()})
        events.append(event)
    return events


def count(query: str, events: list[dict], **options) -> int:
    found = oracle.rows(f"RETURN COUNT(*) {query}", events, **options)
    return found[0]["count"] if found else 0


def same(x, y) -> bool:
    if isinstance(x, float) and isinstance(y, float):
        return math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9)
    return type(x) is type(y) and x == y


# ---- The published cases -------------------------------------------------------------------------


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_published_cases(path: Path):
    if not path.exists():
        pytest.skip("the published cases are not here")
    cases = json.loads(path.read_text())
    assert len(cases) == 600
    wrong = []
    for number, case in enumerate(cases):
        found = oracle.rows(case["query"], case["events"], case["order_column"])
        expected = case["rows"]
        if len(found) != len(expected) or not all(
            list(x) == list(y) and all(same(x[name], y[name]) for name in x)
            for x, y in zip(found, expected, strict=True)
        ):
            wrong.append(number)
    assert wrong == []


def test_published_matches():
    path = SHARED / "spec" / "cases-2-matches.json"
    if not path.exists():
        pytest.skip("the published cases are not here")
    cases = json.loads(path.read_text())
    wrong = [number for number, case in enumerate(cases) if _as_published(case) != _published(case)]
    assert wrong == []


def _published(case: dict) -> list[str]:
    """The matches of a published case, in any order; groups and partitions are lists of values."""
    return sorted(json.dumps(match, sort_keys=True) for match in case["matches"])


def _as_published(case: dict) -> list[str]:
    meaning = oracle.Meaning(case["query"])
    labels = {p.label for p in meaning.real if not p.negated and p.label}
    found = []
    for row in oracle.matches(case["query"], case["events"], case["order_column"]):
        match = {"start": row["start"], "end": row["end"]}
        match["group"] = [row[name] for name in meaning.group_columns()]
        match["partition"] = [row[name] for name in meaning.equivalence]
        match["bindings"] = {name: [e["id"] for e in row[name]] for name in labels if row[name]}
        found.append(json.dumps(match, sort_keys=True))
    return sorted(found)


# ---- Section 5: semantics ------------------------------------------------------------------------


@pytest.mark.parametrize(("semantics", "expected"), [("any", 43), ("next", 8), ("contiguous", 2)])
def test_cogra_figure_2(semantics, expected):
    events = stream("a1 b2 a3 a4 c5 b6 a7 b8")
    assert count(f"PATTERN (SEQ(A+, B))+ SEMANTICS {semantics}", events) == expected


def test_next_is_judged_for_each_binding_alone():
    # a1-b2-c4 only: a3 starts a trend of its own but has no B after it.
    assert count("PATTERN SEQ(A, B, C) SEMANTICS next", stream("a1 b2 a3 c4")) == 1
    assert count("PATTERN SEQ(A, B) SEMANTICS next", stream("a1 a2 b3 b4")) == 2
    assert count("PATTERN SEQ(A, B) SEMANTICS any", stream("a1 a2 b3 b4")) == 4


def test_next_skips_what_is_no_candidate():
    events = stream("a1 b2 b3", v=[5, 1, 7])
    query = "PATTERN SEQ(A, B) SEMANTICS next WHERE A.v < NEXT(B).v"
    assert oracle.trends(f"RETURN COUNT(*) {query}", events) == {(None, None, ()): [((0, "A"), (2, "B"))]}


def test_next_takes_all_of_the_earliest_moment():
    assert count("PATTERN SEQ(A, B) SEMANTICS next", stream("a1 b2 b2 b3")) == 2
    # One event at several positions: b2 continues as B x and as B y.
    assert count("PATTERN SEQ(A, OR(B x, B y)) SEMANTICS next", stream("a1 b2")) == 2
    # The earliest candidate is b2; c3 is later, whatever its position.
    assert count("PATTERN SEQ(A, OR(B, C)) SEMANTICS next", stream("a1 b2 c3")) == 1


def test_contiguous_sees_events_of_every_type():
    assert count("PATTERN SEQ(A, B) SEMANTICS contiguous", stream("a1 x2 b3")) == 0
    assert count("PATTERN SEQ(A, B) SEMANTICS contiguous", stream("a1 x1 x3 b3")) == 1
    # The partition is the stream.
    events = stream("a1 x2 b3", k=[1, 2, 1])
    assert count("PATTERN SEQ(A, B) SEMANTICS contiguous WHERE [k]", events) == 1


def test_ties_are_not_before_each_other():
    assert count("PATTERN A+", stream("a1 a1")) == 2
    assert count("PATTERN A+", stream("a1 a2")) == 3
    events = [{**e, "seq": i} for i, e in enumerate(stream("a1 a1"))]
    assert count("PATTERN A+", events, order_column="seq") == 3


def test_rejects_are_left_out():
    events = stream("a1 a2 a3", seq=[1, None, 1])
    events.append({"type": None, "ts": 4, "seq": 1})
    events.append({"type": "A", "ts": None, "seq": 1})
    events.append({"type": "A", "ts": math.nan, "seq": 1})
    assert count("PATTERN A+", events, order_column="seq") == 3


# ---- Section 3: positions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A+", 7),
        ("(A+)+", 7),  # one position: one way to bind
        ("A{2}", 3),
        ("A{2,}", 4),
        ("A{1,2}", 6),
        ("SEQ(A, A?, A?)", 3 + 2 * 3 + 1),  # a pair stands in two ways
        ("A+{2}", 5),  # a pair splits in one way, a triple in two
        ("OR(A, A)", 6),
        ("A | A+", 10),
        ("SEQ(A*, A)", 7),
        ("SEQ(A x, B*, A x)", 3),
    ],
)
def test_each_way_of_binding_is_a_trend(pattern, expected):
    assert count(f"PATTERN {pattern}", stream("a1 a2 a3")) == expected


def test_a_pattern_that_can_be_empty_is_an_error():
    with pytest.raises(ValueError, match="empty"):
        count("PATTERN SEQ(A*, B?)", [])


# ---- Predicates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("A.v > 1", [2, 3]),
        ("NOT A.v > 1", [0, 1]),
        ("A.v IS NULL", [4]),
        ("A.v IN (2, NULL)", [2]),
        ("A.v NOT IN (2, NULL)", []),
        ("A.v NOT IN (2, 3)", [0, 1]),
        ("A.v BETWEEN 1 AND 2", [1, 2]),
        ("A.v NOT BETWEEN 1 AND 2", [0, 3]),
        ("A.v = 3 OR A.v IS NULL", [3, 4]),
        ("A.v % 2 = 1", [1, 3]),
        ("A.v % 2 = -1", [0]),  # the sign of the left side
        ("A.v / 2 = 1.5", [3]),
        ("1 / (A.v - 1) IS NULL", [1, 4]),
        ("3 % (A.v - 1) IS NULL", [1, 4]),
        ("A.v * 9223372036854775807 IS NULL", [2, 3, 4]),  # overflow
        ("ABS(A.v) = 1", [0, 1]),
        ("-A.v < -2", [3]),
        ("A.s LIKE 'a%'", [0, 1]),
        ("A.s LIKE 'a\\_b'", [0]),
        ("A.s LIKE 'a_b'", [0, 1]),
        ("A.s NOT LIKE '%b'", [2, 3]),
        ("A.s < 'b'", [0, 1, 2]),
        ("TRUE AND A.v = 1", [1]),
    ],
)
def test_local_conditions(condition, kept):
    events = stream("a1 a2 a3 a4 a5", v=[-1, 1, 2, 3, None], s=["a_b", "axb", "", "é", None])
    where = condition if not condition.startswith("TRUE") else f"({condition})"
    found = oracle.trends(f"RETURN COUNT(*) PATTERN A WHERE {where}", events)
    assert [trend[0][0] for some in found.values() for trend in some] == kept


def test_adjacency_leaves_other_neighbours_alone():
    events = stream("a1 a2 b3", v=[3, 1, 0])
    assert count("PATTERN SEQ(A+, B) WHERE A.v < NEXT(A).v", events) == 2
    assert count("PATTERN SEQ(A+, B) WHERE A.v > NEXT(A).v", events) == 3
    assert count("PATTERN SEQ(A+, B) WHERE A.v + NEXT(B).v > 2", events) == 1
    assert count("PATTERN SEQ(A+, B) WHERE A.v < NEXT(A).v OR A.v = 3", events) == 3


def test_cross_binds_every_pair_and_no_candidates():
    events = stream("a1 a2 b3", v=[3, 1, 2])
    assert count("PATTERN SEQ(A+, B) WHERE A.v < B.v", events) == 1  # a2 b3
    # Under next a1 goes to a2 first, and only then the cross predicate is asked.
    assert count("PATTERN SEQ(A+, B) SEMANTICS next WHERE A.v > B.v", events) == 0
    assert count("PATTERN SEQ(A, B?) WHERE A.v > 9 OR B.v > 9", events) == 2  # B absent: nothing to satisfy


def test_equalities_that_connect_all_aliases_are_a_partition():
    events = stream("a1 x2 b3 c4", u=[1, 2, 1, 1])
    chained = "PATTERN SEQ(A, B, C) SEMANTICS contiguous WHERE A.u = B.u = C.u"
    assert count(chained, events) == 1
    assert count("PATTERN SEQ(A, B, C) SEMANTICS contiguous WHERE A.u = B.u AND C.u = B.u", events) == 1
    # Two of three aliases: a cross predicate, and x2 stands between.
    assert count("PATTERN SEQ(A, B, C) SEMANTICS contiguous WHERE A.u = B.u", events) == 0


# ---- Section 4: groups ---------------------------------------------------------------------------


def test_a_null_is_a_group_but_not_an_equal():
    events = stream("a1 a2 a3", g=["x", None, None])
    found = oracle.rows("RETURN g, COUNT(*) PATTERN A+ GROUP BY g", events)
    assert [(row["g"], row["count"]) for row in found] == [(None, 3), ("x", 1)]
    assert oracle.rows("RETURN g, COUNT(*) PATTERN A+ WHERE [g] GROUP BY g", events) == [
        {"window_start": None, "window_end": None, "g": "x", "count": 1}
    ]


def test_group_of_one_alias_has_its_own_stream():
    events = stream("a1 a2 b3", g=["x", "y", "z"])
    query = "RETURN A.g, COUNT(*) PATTERN SEQ(A, B) SEMANTICS contiguous GROUP BY A.g"
    assert [(row["g"], row["count"]) for row in oracle.rows(query, events)] == [("x", 1), ("y", 1)]
    # A also stands at another position, so its events of another g stay in the stream.
    query = "RETURN p.g, COUNT(*) PATTERN SEQ(A p, A q?, B) SEMANTICS contiguous GROUP BY p.g"
    assert oracle.trends(query, events) == {
        (None, None, ("x",)): [((0, "p"), (1, "q"), (2, "B"))],
        (None, None, ("y",)): [((1, "p"), (2, "B"))],
    }


def test_group_columns_that_would_be_equal():
    events = stream("a1 b2", g=["x", "y"])
    query = "RETURN A.g, B.g, COUNT(*) PATTERN SEQ(A, B) GROUP BY A.g, B.g"
    assert oracle.rows(query, events) == [
        {"window_start": None, "window_end": None, "A_g": "x", "B_g": "y", "count": 1}
    ]


# ---- Section 6: NOT ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "events", "expected"),
    [
        ("SEQ(A, NOT N, B)", "a1 n2 b3", 0),
        ("SEQ(A, NOT N, B)", "a1 n1 b3", 1),  # not after a
        ("SEQ(A, NOT N, B)", "a1 n3 b3", 1),  # not before b
        ("SEQ(A, NOT N, B)", "a1 n2 a3 b4", 1),
        ("SEQ(A+, NOT N, B)", "a1 n2 a3 b4", 2),  # the place is between the last A and B
        ("SEQ(A, NOT N, B)+", "a1 b2 n3 a4 b5", 3),  # N between rounds does no harm
        ("SEQ(A, NOT SEQ(N, M), B)", "a1 m2 n3 b4", 1),
        ("SEQ(A, NOT SEQ(N, M), B)", "a1 n2 m3 b4", 0),
        ("SEQ(A, NOT SEQ(N, M), B)", "n1 a2 m3 b4", 1),  # the whole of n between
        ("SEQ(A, NOT SEQ(N+, OR(M, X)), B)", "a1 n2 n3 x4 b5", 0),
        ("SEQ(NOT N, A)", "a1 n2 a3", 1),
        ("SEQ(NOT N, A)", "n1 a1", 1),
        ("SEQ(NOT SEQ(N, M), A)", "n1 m2 a2 a3", 1),
        ("SEQ(A, NOT N)", "a1 n2 a3", 1),
        ("SEQ(A, NOT SEQ(N, M))", "n1 a2 m3", 1),
        ("SEQ(A, NOT A x)", "a1 a2 a3", 1),
        ("SEQ(SEQ(NOT N, A), B)", "n1 a2 b3", 0),  # nested SEQs are flattened
        ("SEQ(A, SEQ(!N, B))", "a1 n2 b3", 0),
    ],
)
def test_not(pattern, events, expected):
    assert count(f"PATTERN {pattern}", stream(events)) == expected


def test_predicates_among_the_names_of_n():
    events = stream("a1 n2 m3 b4", v=[0, 5, 4, 0])
    assert count("PATTERN SEQ(A, NOT SEQ(N, M), B) WHERE N.v < NEXT(M).v", events) == 1
    assert count("PATTERN SEQ(A, NOT SEQ(N, M), B) WHERE N.v > NEXT(M).v", events) == 0
    assert count("PATTERN SEQ(A, NOT SEQ(N, M), B) WHERE N.v > M.v + 1", events) == 1
    assert count("PATTERN SEQ(A, NOT SEQ(N, M), B) WHERE M.v = 5", events) == 1


def test_a_trend_whole_in_one_window_and_broken_in_another():
    found = oracle.rows("RETURN COUNT(*) PATTERN SEQ(A, NOT N) WITHIN 4 s SLIDE 2 s", stream("a3 n5"))
    assert found == [{"window_start": 0, "window_end": 4, "count": 1}]


@pytest.mark.parametrize(
    "pattern",
    ["SEQ(NOT N, A)+", "OR(SEQ(A, NOT N), B)", "NOT A", "SEQ(A?, NOT N, B)"],
)
def test_not_elsewhere_is_an_error(pattern):
    with pytest.raises(ValueError, match="NOT"):
        count(f"PATTERN {pattern}", [])


# ---- Section 7: windows, aggregates --------------------------------------------------------------


def windows(query: str, events: list[dict], **options) -> list[tuple]:
    found = oracle.rows(f"RETURN COUNT(*) {query}", events, **options)
    return [(row["window_start"], row["window_end"], row["count"]) for row in found]


def test_windows():
    events = stream("a1 a2 a4")
    assert windows("PATTERN A+ WITHIN 3 s SLIDE 2 s", events) == [(0, 3, 3), (2, 5, 3), (4, 7, 1)]
    assert windows("PATTERN A+ WITHIN 2 s SLIDE 4 s", events) == [(0, 2, 1), (4, 6, 1)]
    assert windows("PATTERN A+ WITHIN 2 s", events) == [(-1, 1, 1), (0, 2, 3), (2, 4, 1)]
    assert windows("PATTERN A+ WITHIN 2 events SLIDE 1 events", events) == [(0, 2, 3), (1, 3, 3), (2, 4, 1)]
    assert windows("PATTERN A+ WITHIN 3 s SLIDE 3 s", stream("a-1 a0")) == [(-3, 0, 1), (0, 3, 1)]
    assert windows("PATTERN A+", events) == [(None, None, 7)]


def test_windows_per_event_are_for_events_that_can_end_a_trend():
    assert windows("PATTERN SEQ(A, B) WITHIN 3 s", stream("a1 b2 a3 b4")) == [(-1, 2, 1), (1, 4, 1)]


def test_windows_per_event_look_into_every_partition_of_the_group():
    events = stream("a1 b2 b3", k=[1, 1, 2])
    assert windows("PATTERN SEQ(A, B) WHERE [k] WITHIN 5 s", events) == [(-3, 2, 1), (-2, 3, 1)]


def test_count_windows_number_the_events_of_a_plain_group():
    events = stream("a1 x2 a3 a4", g=["x", "x", "y", "x"])
    query = "RETURN g, COUNT(*) PATTERN A+ GROUP BY g WITHIN 2 events SLIDE 2 events"
    found = [(row["window_start"], row["g"], row["count"]) for row in oracle.rows(query, events)]
    assert found == [(0, "x", 1), (0, "y", 1), (2, "x", 1)]
    with pytest.raises(ValueError, match="tie"):
        count("PATTERN A+ WITHIN 2 events SLIDE 2 events", stream("a1 a1"))


def test_aggregates():
    events = stream("a1 a2 b3", v=[1, None, 4], w=[0.5, 1.5, 2.0])
    query = """
    RETURN COUNT(*), COUNT(A), SUM(A.v), AVG(A.v), SUM(A.w), AVG(A.w), MIN(A.w), MAX(A.w) AS top,
           LOG2(COUNT(A)), SUM(C.v), COUNT(C), LOG2(COUNT(C))
    PATTERN SEQ(A+, B, C?)
    """
    assert oracle.rows(query, events) == [
        {
            "window_start": None, "window_end": None,
            "count": 3, "count_A": 4, "sum_A_v": 2, "avg_A_v": 1.0, "sum_A_w": 4.0, "avg_A_w": 1.0,
            "min_A_w": 0.5, "top": 1.5, "log2_count_A": 2.0,
            "sum_C_v": None, "count_C": 0, "log2_count_C": None,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("having", "kept"),
    [
        ("COUNT(*) > 1", ["y"]),
        ("n = 1", ["x"]),
        ("g = 'x'", ["x"]),
        ("SUM(A.v) > 3", ["y"]),
        ("NOT SUM(A.v) > 3", []),  # null is not true
        ("SUM(A.v) IS NULL OR COUNT(*) % 2 = 0", ["x"]),
    ],
)
def test_having(having, kept):
    events = stream("a1 a2 a3", g=["x", "y", "y"], v=[None, 1, 2])
    query = f"RETURN g, COUNT(*) AS n PATTERN A+ GROUP BY g HAVING {having}"
    assert [row["g"] for row in oracle.rows(query, events)] == kept


def test_outermost_and():
    events = stream("a1 b2 b3 a4", v=[1, 10, 20, 3])
    query = "RETURN COUNT(*), SUM(A.v), SUM(B.v), COUNT(B), MAX(A.v) PATTERN AND(A+, B)"
    assert oracle.rows(query, events) == [
        {
            "window_start": None, "window_end": None,
            "count": 6, "sum_A_v": 16, "sum_B_v": 90, "count_B": 6, "max_A_v": 3,
        }
    ]  # fmt: skip
    assert len(oracle.trends(query, events)[None, None, ()]) == 6
    assert count("PATTERN A & C", events) == 0


def test_spellings():
    events = stream("a1 b2", g=["x", "x"])
    plain = oracle.rows("RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 20 min SLIDE 5 min", events)
    for other in (
        "q1 RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP-BY g WINDOW 20 min SLIDE 5 min",
        "q1: agg COUNT -- a comment\npattern SEQ(A, B) GROUP_BY g within 1200 s slide 300000 ms;",
        'QUERY q1 SLIDE 5 minutes WITHIN 1200 sec GROUPBY g PATTERN (SEQ("A", B)) RETURN g, COUNT(*)',
    ):
        assert oracle.rows(other, events) == plain


# ---- Section 8: matches --------------------------------------------------------------------------


def found_ids(query: str, events: list[dict], **options) -> list[dict]:
    rows = oracle.matches(f"RETURN MATCHES {query}", events, **options)
    return [
        {name: [one["id"] for one in value] for name, value in row.items() if isinstance(value, list)}
        for row in rows
    ]


def test_matches():
    events = stream("a1 a2 b4", v=[7, 8, 9])
    assert oracle.matches("RETURN MATCHES(v) PATTERN SEQ(A x+, B) WITHIN 3 s", events) == [
        {"start": 2, "end": 4, "x": [{"id": 1, "time": 2, "v": 8}], "B": [{"id": 2, "time": 4, "v": 9}]}
    ]
    assert len(found_ids("PATTERN SEQ(A, B) WITHIN 3 events", events)) == 2
    assert len(found_ids("PATTERN SEQ(A, B) WITHIN 2 events", events)) == 1


def test_not_at_the_ends_of_a_match():
    # NOT at the end is judged over (end, start + w), at the start over (end - w, start).
    assert len(found_ids("PATTERN SEQ(A, B, NOT N) WITHIN 5 s", stream("a1 b3 n5"))) == 0
    assert len(found_ids("PATTERN SEQ(A, B, NOT N) WITHIN 5 s", stream("a1 b3 n6"))) == 1
    assert len(found_ids("PATTERN SEQ(NOT N, A, B) WITHIN 5 s", stream("n4 a6 b8"))) == 0
    assert len(found_ids("PATTERN SEQ(NOT N, A, B) WITHIN 5 s", stream("n3 a6 b8"))) == 1


def test_and_inside_a_match():
    assert found_ids("PATTERN SEQ(A, AND(B, SEQ(C, D)), E)", stream("a1 c2 b3 d4 e5 b6")) == [
        {"A": [0], "B": [2], "C": [1], "D": [3], "E": [4]}
    ]
    # The operands share no event.
    assert len(found_ids("PATTERN AND(A x, A y)", stream("a1 a2"))) == 2
    # A predicate between the operands of an outermost AND holds for every pair (section 5).
    assert found_ids("PATTERN AND(A, B) WHERE A.v < B.v", stream("a1 b2 b3", v=[1, 0, 2])) == [
        {"A": [0], "B": [2]}
    ]


# ---- Random cases --------------------------------------------------------------------------------

FEATURES = {"aggregates": True, "having": True, "cross": True, "both": True, "rejects": True}


@settings(max_examples=150, deadline=None)
@given(workloads.cases(cross=True, both=True, rejects=True))
def test_count_is_the_number_of_trends_and_row_order_does_not_matter(case):
    query, events, order_column = case
    found = oracle.rows(query, events, order_column)
    counts = [value for row in found for name, value in row.items() if name in ("count", "r0")]
    trends = oracle.trends(query, events, order_column)
    assert counts == [len(some) for some in trends.values()]
    shuffled = random.Random(1).sample(events, len(events))
    assert oracle.rows(query, shuffled, order_column) == found


def test_random_cases_cover_the_language():
    texts, with_rows = [], 0
    for seed in range(600):
        case = workloads.random_case(random.Random(seed), **FEATURES)
        with_rows += bool(oracle.rows(*case))
        texts.append(case.query)
    assert with_rows > 150
    words = ["SEQ(", "OR(", " | ", "AND(", " & ", "NOT ", "!", "+", "*", "?", "{", "NEXT(", "[k]", "LIKE",
             "BETWEEN", "IS NULL", " IN (", " % ", " / ", "GROUP BY", "events", "SLIDE", "HAVING", "LOG2",
             "SUM(", "AVG(", "MIN(", "MAX(", "contiguous", "next", "ABS("]  # fmt: skip
    assert [word for word in words if not any(word in text for text in texts)] == []


def test_a_failing_case_is_reduced():
    case = workloads.Case("RETURN COUNT(*)\nPATTERN A\nWITHIN 9 s", stream("a1 b2 a3"), None)
    small = workloads.reduced(case, lambda one: bool(oracle.rows(*one)))
    assert len(small.events) == 1
    assert small.query == "RETURN COUNT(*)\nPATTERN A"


# ---- language-2.md ---------------------------------------------------------------------------------


def test_a_set_is_one_position_and_any_holds_every_type():
    assert count("PATTERN ANY(A, B)+", stream("a1 b2 c3")) == 3
    assert count("PATTERN (A | B)+", stream("a1 b2 c3")) == 3
    assert count("PATTERN SEQ(A, ANY w+, C) WHERE w.type LIKE 'B%'", stream("a1 b2 x3 c4")) == 1
    assert count("PATTERN ANY", stream("a1 b2 x3")) == 3


def test_times_and_durations():
    events = stream("a0 b5 b20", v=[2, None, None])
    assert count("PATTERN SEQ(A, B) WHERE TIME(NEXT(B)) - TIME(A) < 10 s", events) == 1
    assert count("PATTERN SEQ(A, B) WHERE TIME(B) - TIME(A) <= A.v * 10 s", events) == 2
    assert count("PATTERN B WHERE TIME(B) >= TIMESTAMP '1970-01-01 00:00:20'", events) == 1
    with pytest.raises(ValueError, match="unlike types"):
        count("PATTERN B WHERE TIME(B) > 3", events)


def test_a_span_per_trend():
    events = stream("a1 b4 a9 b12 b40")
    found = oracle.rows("RETURN COUNT(*), MAX(DURATION) PATTERN SEQ(A, B) WITHIN 10 s EVERY 10 s", events)
    assert found == [
        {"window_start": 0, "window_end": 10, "count": 1, "max_duration": 3.0},
        {"window_start": 10, "window_end": 20, "count": 1, "max_duration": 3.0},
    ]
    assert count("PATTERN SEQ(A, B) WITHIN 12 s ONCE", events) == 3
    # NOT at the end is broken by an event less than w after the first one.
    assert count("PATTERN SEQ(A, NOT B) WITHIN 5 s ONCE", stream("a1 b5 a7 b12")) == 1


def test_partitions_are_counted_once_and_trends_by_length():
    events = stream("a1 b2 a3 b4", k=[1, 1, 2, 2], h=["p", "p", None, None])
    query = (
        "RETURN COUNT(DISTINCT k), COUNT(DISTINCT k, h), SUM(LENGTH) PATTERN SEQ(A, B) WHERE [k] GROUP BY h"
    )
    assert [row["count_distinct_k"] for row in oracle.rows(query, events)] == [1, 1]
    assert [row["count_distinct_k_h"] for row in oracle.rows(query, events)] == [0, 1]
    assert [row["sum_length"] for row in oracle.rows(query, events)] == [2, 2]


def test_rows_without_trends():
    query = "RETURN COUNT(*), MAX(B.v) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s INCLUDE EMPTY"
    found = oracle.rows(query, stream("a1 b2 a11 c21", v=[1, 2, 3, 4]))
    assert [(row["window_start"], row["count"], row["max_B_v"]) for row in found] == [
        (0, 1, 2),
        (10, 0, None),
    ]


def test_several_nots_and_conditions_on_them():
    assert count("PATTERN SEQ(A, NOT N, NOT M, B)", stream("a1 n2 b3 a4 m5 b6 a7 b8")) == 1
    events = stream("a1 n2 b3", v=[5, 7, 9])
    assert count("PATTERN SEQ(A, NOT N, B) WHERE N.v > A.v", events) == 0
    assert count("PATTERN SEQ(A, NOT N, B) WHERE N.v > B.v", events) == 1
