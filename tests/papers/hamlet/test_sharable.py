"""Which queries share what: Definitions 3.1 and 3.2 of HAMLET, panes, and reasons."""

from __future__ import annotations

import pytest

import trendfold as tf
from contract import engine
from trendfold.papers.hamlet.plan import Analysis, Pair, analyse, elements, kleene
from trendfold.plan import plan
from trendfold.plan.workload import rows_key

# Figure 1, verbatim but for the quotes around Pool and the semicolons.
RIDES = """
q1: RETURN T.district, COUNT(*), SUM(T.duration)
    PATTERN SEQ(Request R, Travel T+, NOT Pickup P)
    WHERE [driver, rider] GROUP-BY T.district
    WITHIN 30 min SLIDE 1 min;
q2: RETURN T.district, COUNT(*), AVG(T.speed)
    PATTERN SEQ(Request R, Travel T+, Dropoff D)
    WHERE [driver, rider] AND R.type='Pool' GROUP-BY T.district
    WITHIN 30 min SLIDE 5 min;
q3: RETURN T.district, COUNT(*), SUM(T.duration)
    PATTERN SEQ(Request R, Travel T+, Cancel C)
    WHERE [driver, rider] AND T.speed<10 GROUP-BY T.district
    WITHIN 20 min SLIDE 1 min
"""


def analysed(*queries: str) -> Analysis:
    texts = [f"QUERY n{i} {text}" for i, text in enumerate(queries)]
    return analyse([plan(query, "cogra") for query in tf.parse("; ".join(texts))], rows_key)


def counted(pattern: str, more: str = "") -> str:
    return f"RETURN COUNT(*) PATTERN {pattern} {more}"


def test_figure_1_of_hamlet_is_one_group() -> None:
    [group] = analyse([plan(query, "cogra") for query in tf.parse(RIDES)], rows_key).groups
    assert group.members == (0, 1, 2)
    [family] = group.families
    assert (family.type, family.positions) == ("Travel", {0: (1,), 1: (1,), 2: (1,)})
    assert group.pane == 60_000_000
    labels = {(t.source, t.target): t.queries for t in group.template.transitions}
    assert labels["Travel", "Travel"] == {0, 1, 2}
    assert labels["Travel", "Cancel"] == {2}
    assert [pair.aggregates for pair in group.pairs] == [
        ("COUNT(*)",),
        ("COUNT(*)", "SUM(Travel.duration)"),
        ("COUNT(*)",),
    ]


def test_figure_1_of_hamlet_shares_bursts_of_travel_and_gives_the_rows_of_each_query_alone() -> None:
    rides = tf.datasets.ridesharing(events=4_000, seed=7).rename_columns(
        ["event", "ts", "driver", "rider", "district", "type", "speed", "duration", "price"]
    )
    workload = tf.parse(RIDES)
    shared = workload.run(rides, type_column="event", strategy="hamlet")
    [step] = shared.plan
    assert step.queries == ("q1", "q2", "q3")
    assert shared.summary.sharing["shared bursts"] > 100
    for strategy in ("cogra", "auto"):
        other = workload.run(rides, type_column="event", strategy=strategy)
        for query in workload:
            assert shared[query.name].num_rows > 0
            rows = [result[query.name].to_pylist() for result in (shared, other)]
            assert engine.difference(*rows, 3) is None, f"{strategy}, {query.name}"


def test_the_pane_is_the_gcd_of_all_windows_and_slides() -> None:
    two = analysed(counted("A+", "WITHIN 10 min SLIDE 5 min"), counted("A+", "WITHIN 15 min SLIDE 5 min"))
    assert two.groups[0].pane == 5 * 60_000_000
    assert analysed(counted("A+"), counted("A+")).groups[0].pane is None


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("COUNT(*)", "COUNT(*)", ("COUNT(*)",)),
        ("COUNT(*)", "SUM(B.x)", ()),
        ("AVG(B.x)", "SUM(B.x)", ("SUM(B.x)",)),
        ("AVG(B.x)", "COUNT(B)", ("COUNT(B)",)),
        ("AVG(B.x)", "SUM(B.y)", ()),
        ("MIN(B.x)", "MIN(B.x)", ("MIN(B.x)",)),
        ("MIN(B.x)", "MAX(B.x)", ()),
        ("SUM(B.x)", "COUNT(B)", ()),
    ],
)
def test_aggregates_that_can_be_shared(one: str, other: str, common: tuple[str, ...]) -> None:
    found = analysed(f"RETURN {one} PATTERN SEQ(A, B+)", f"RETURN {other} PATTERN SEQ(C, B+)")
    [pair] = found.groups[0].pairs
    assert pair.aggregates == common
    assert pair.types == (("B",) if common else ())
    assert bool(pair.obstacle) != bool(common)


def test_an_alias_and_its_type_are_one() -> None:
    [query] = tf.parse("RETURN AVG(T.x), COUNT(T) PATTERN SEQ(A, B T+)")
    assert list(elements(plan(query, "cogra"))) == ["SUM(B.x)", "COUNT(B)"]


@pytest.mark.parametrize(
    ("pattern", "types"),
    [
        ("SEQ(A, B+)", {"B": (1,)}),
        ("SEQ(A+, B+)", {"A": (0,), "B": (1,)}),
        ("SEQ(A+, B)+", {"A": (0,)}),
        ("(A | B)+", {"A": (0,), "B": (1,)}),
        ("SEQ(A, B)+", {}),
        ("SEQ(A, B, B+)", {}),
        ("SEQ(A, B{2,})", {}),
        ("SEQ(A+, NOT B, C)", {"A": (0,)}),
        ("SEQ(A+, NOT A, C)", {}),
        ("SEQ(A, B*)", {"B": (1,)}),
        ("SEQ(A, B+, C, B+)", {"B": (1, 3)}),
        ("SEQ(A, B+, C?, B+)", {}),
        ("SEQ(A, B+) | SEQ(B+, C)", {"B": (1, 2)}),
    ],
)
def test_sub_patterns_that_can_be_shared(pattern: str, types: dict[str, tuple[int, ...]]) -> None:
    [query] = tf.parse(counted(pattern))
    assert kleene(plan(query, "cogra")) == types


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (counted("AND(A+, B)"), "AND folds its operands"),
        (counted("A+", "SEMANTICS next"), "consume the bindings"),
        (counted("A+", "SEMANTICS cont"), "consume the bindings"),
        (counted("A+", "HAVING COUNT(*) > 1"), "HAVING"),
        (counted("A+", "WITHIN 5 s"), "a window per event"),
        (counted("A+", "WITHIN 5 events SLIDE 2 events"), "count windows"),
        (counted("A+", "WHERE A.x < NEXT(A).x"), "kept one by one at A"),
        (counted("SEQ(A+, B)", "WHERE A.x < NEXT(B).x"), "kept one by one at A"),
    ],
)
def test_what_does_not_fit_is_alone_with_a_reason(query: str, reason: str) -> None:
    found = analysed(counted("A+"), counted("SEQ(A+, B)"), query)
    assert [group.members for group in found.groups] == [(0, 1)]
    assert reason in found.alone[2]


def test_queries_are_grouped_by_their_streams_and_by_what_connects_them() -> None:
    found = analysed(
        counted("SEQ(A, B+)"),
        counted("SEQ(B+, C+)"),
        counted("SEQ(A, C+)"),
        counted("SEQ(A, B+)", "WHERE [u]"),
        counted("D"),
        counted("SEQ(D, E)"),
    )
    assert [group.members for group in found.groups] == [(0, 1, 2), (4, 5)]
    assert [(f.type, dict(f.positions)) for f in found.groups[0].families] == [
        ("B", {0: (1,), 1: (0,)}),
        ("C", {1: (1,), 2: (1,)}),
    ]
    assert found.groups[1].families == ()
    assert found.groups[1].pairs == (Pair(0, 1, obstacle="no Kleene sub-pattern of one type in common"),)
    assert found.alone == {3: "no other query has the same partitions and groups"}


def test_a_type_at_several_positions_is_told() -> None:
    found = analysed(counted("SEQ(A, A+)"), counted("A+"))
    assert (
        found.groups[0].pairs[0].obstacle == "A stands at several positions that do not all loop on their own"
    )
