"""A-Seq's plan: prefix trees, chops and links, and what they are said to cost."""

from __future__ import annotations

import itertools
import random
import time

import pytest

import trendfold as tf
from trendfold.papers.aseq.counter_prices import CounterPrices
from trendfold.papers.aseq.plan import fitted, line_of
from trendfold.papers.aseq.prefixes import Cuts, Line, PrefixPlan, chop, describe, share_prefixes
from trendfold.plan.statistics import GroupStatistics

PURCHASES = {
    "Q1": "VKindle, BKindle, VCase, BCase",
    "Q2": "VKindle, BKindle, VKindleFire",
    "Q3": "VKindle, BKindle, VCase, BCase, VeBook, BeBook",
    "Q4": "VKindle, BKindle, VCase, BCase, VLight, BLight",
    "Q5": "ViPad, VKindleFire, VKindle, BKindle",
}
"""Example 6 of the paper."""


def lines_of(*queries: str) -> list[Line]:
    return [line_of(plan) for query in queries for plan in tf.parse(f"RETURN COUNT(*) {query}").plan("aseq")]


def shared(*queries: str, cuts: Cuts | None = None) -> PrefixPlan:
    return share_prefixes(lines_of(*queries), cuts)


def words(plan: PrefixPlan) -> list[str]:
    """Every prefix that has a counter, as text."""
    return [
        " ".join(str(tree.nodes[step].step) for step in tree.path(node))
        for family in plan.families
        for tree in family.trees
        for node in range(len(tree.nodes))
    ]


def test_example_7_four_queries_are_one_tree() -> None:
    plan = shared(*[f"PATTERN SEQ({PURCHASES[name]})" for name in ("Q1", "Q2", "Q3", "Q4")])
    [family] = plan.families
    [tree] = family.trees
    assert (plan.alone, plan.updates) == (19, 9)
    by_name = {str(node.step): node for node in tree.nodes}
    # "When a bKindle instance arrives, one update on PreTree is needed in place of four."
    assert by_name["BKindle"].users == (0, 1, 2, 3)
    # "the result of (vKindle, bKindle) is pipelined into both Q1 and Q2, ... the Q1 result to both Q3 and Q4"
    assert by_name["BCase"].users == (0, 2, 3)
    assert [str(tree.nodes[reading.node].step) for reading in family.readings] == [
        "BCase",
        "VKindleFire",
        "BeBook",
        "BLight",
    ]
    parent = {str(node.step): str(tree.nodes[node.parent].step) for node in tree.nodes[1:]}
    assert parent["VCase"] == parent["VKindleFire"] == "BKindle"
    assert parent["VeBook"] == parent["VLight"] == "BCase"


def test_the_fifth_query_is_chopped_before_what_the_others_begin_with() -> None:
    plan = shared(*[f"PATTERN SEQ({pattern}) WITHIN 1 h" for pattern in PURCHASES.values()])
    [family] = plan.families
    fifth = family.readings[4]
    assert fifth.cuts == (2,)
    assert [str(tree.nodes[0].step) for tree in family.trees] == ["VKindle", "ViPad"]
    assert (fifth.tree, str(family.trees[0].nodes[fifth.node].step)) == (0, "BKindle")
    [link] = family.links
    assert (link.before, link.tree, link.into) == (-1, 1, 0)
    assert (plan.alone, plan.updates) == (23, 12)  # 9 in the first tree, 2 in the second, 1 snapshot


def test_only_windows_that_move_with_every_event_are_worth_a_snapshot() -> None:
    for window in ("", "WITHIN 4 s SLIDE 2 s", "WITHIN 4 s SLIDE 4 s"):
        plan = shared(*[f"PATTERN SEQ({pattern}) {window}" for pattern in PURCHASES.values()])
        assert [family.links for family in plan.families] == [()]


def test_prefixes_are_shared_by_type_conditions_not_and_group_key() -> None:
    same = "PATTERN SEQ(A, B, C) WHERE A.v > 1"
    for other, updates in [
        ("PATTERN SEQ(A x, B, D) WHERE x.v > 1", 4),  # names do not matter
        ("PATTERN SEQ(A, B, C) WHERE A.v > 2", 6),
        ("PATTERN SEQ(A, B, C) WHERE A.v > 1 AND B.v > 1", 5),
        ("PATTERN SEQ(A, NOT N, B, C) WHERE A.v > 1", 6),
        ("PATTERN SEQ(A, B, NOT N, C) WHERE A.v > 1", 5),
        ("PATTERN SEQ(A, B, C, NOT N) WHERE A.v > 1", 4),
        ("PATTERN SEQ(NOT N, A, B, C) WHERE A.v > 1", 6),
    ]:
        assert shared(same, other).updates == updates, other


def test_a_condition_on_a_whole_number_is_not_that_on_a_fraction() -> None:
    assert shared("PATTERN A WHERE A.v * 2 > 1", "PATTERN A WHERE A.v * 2.0 > 1").updates == 2


def test_queries_of_different_windows_do_not_share_marks() -> None:
    plan = shared(
        "PATTERN SEQ(A, B)", "PATTERN SEQ(A, B) WITHIN 3 s", "PATTERN SEQ(A, B) WITHIN 3 s SLIDE 1 s"
    )
    assert [len(family.readings) for family in plan.families] == [1, 1, 1]


def test_lines_that_begin_alike_share_marks_in_windows_of_different_length() -> None:
    plan = shared(
        "PATTERN SEQ(A, B, C) WITHIN 3 s",
        "PATTERN SEQ(A, B, D) WITHIN 9 s",
        "PATTERN SEQ(X, B, D) WITHIN 9 s",
        "PATTERN SEQ(A, B) WITHIN 9 s SLIDE 3 s",
        "PATTERN SEQ(A, B) WITHIN 6 s SLIDE 3 s",
        "PATTERN SEQ(A, B) WITHIN 6 s SLIDE 2 s",
    )
    assert [[reading.member for reading in family.readings] for family in plan.families] == [
        [0, 1],
        [2],
        [3, 4],
        [5],
    ]
    assert (plan.alone, plan.updates) == (15, 4 + 3 + 2 + 2)
    assert "WITHIN 3 s, WITHIN 9 s:" in describe(plan, "abcdef")


def test_windows_share_marks_where_few_updates_grow_longer() -> None:
    lines = lines_of("PATTERN SEQ(A, B, C) WITHIN 10 s", "PATTERN SEQ(A, B, D) WITHIN 1000 s")

    def families(**frequencies: float) -> int:
        return len(share_prefixes(lines, prices=CounterPrices(frequencies)).families)

    assert families(A=10.0, B=10.0, C=10.0, D=10.0) == 1
    assert families(A=1_000.0, B=100.0, C=1_000.0, D=10.0) == 2  # C would update a thousand marks, not ten


def test_a_line_is_chopped_twice_where_both_rests_are_shared() -> None:
    plan = shared(
        "PATTERN SEQ(A, B, C, D, E, F, G, H) WITHIN 9 s",
        "PATTERN SEQ(D, E, X) WITHIN 9 s",
        "PATTERN SEQ(Y, D, E, Z) WITHIN 9 s",
        "PATTERN SEQ(F, G, H) WITHIN 9 s",
        "PATTERN SEQ(Z, F, G, H) WITHIN 9 s",
    )
    [family] = plan.families
    assert family.readings[0].cuts == (3, 5)
    last = family.links[family.readings[0].link]
    assert last.before >= 0
    assert [str(family.trees[t].nodes[n].step) for t, n in family.pieces(family.readings[0])] == [
        "C",
        "E",
        "H",
    ]


def test_a_line_that_begins_with_not_is_not_chopped() -> None:
    queries = [f"PATTERN SEQ(NOT N, {first}, D, E, F) WITHIN 9 s" for first in "ABC"]
    [family] = shared(*queries, "PATTERN SEQ(D, E, F) WITHIN 9 s").families
    assert family.links == ()


def cost(lines: dict[int, Line], cuts: Cuts) -> int:
    """Distinct prefixes of pieces, and distinct links: the pieces before, and the next step."""
    prefixes, links = set(), set()
    for member, line in lines.items():
        pieces = [
            line.steps[low:high] for low, high in itertools.pairwise((0, *cuts[member], len(line.steps)))
        ]
        prefixes |= {(piece[: end + 1]) for piece in pieces for end in range(len(piece))}
        links |= {(tuple(pieces[:i]), pieces[i][0]) for i in range(1, len(pieces))}
    return len(prefixes) + len(links)


@pytest.mark.parametrize("seed", range(60))
def test_every_chop_lowers_the_cost_and_the_cost_is_what_is_laid(seed: int) -> None:
    rng = random.Random(seed)
    patterns = ["".join(rng.choices("ABCD", k=rng.randint(2, 5))) for _ in range(rng.randint(2, 5))]
    lines = dict(enumerate(lines_of(*[f"PATTERN SEQ({', '.join(p)}) WITHIN 9 s" for p in patterns])))
    found = chop(lines)
    plan = share_prefixes([*lines.values()])
    whole: Cuts = dict.fromkeys(lines, ())
    assert plan.updates == cost(lines, found) <= cost(lines, whole)
    assert cost(lines, whole) == share_prefixes([*lines.values()], whole).updates
    if sum(map(len, patterns)) <= 13:
        assert plan.updates <= best_cost(lines) + 1  # greedy, and near the best


def best_cost(lines: dict[int, Line]) -> int:
    """By trying all chops."""
    ways = [
        [
            tuple(i for i in range(1, len(line.steps)) if bits >> i & 1)
            for bits in range(0, 2 ** len(line.steps), 2)
        ]
        for line in lines.values()
    ]
    return min(cost(lines, dict(enumerate(cuts))) for cuts in itertools.product(*ways))


def test_a_run_cuts_by_how_many_start_events_a_window_has() -> None:
    plans = tf.parse(
        "; ".join(f"RETURN COUNT(*) PATTERN SEQ(S{i}, A, B, C, D, E, F, G, H) WITHIN 9 s" for i in range(8))
    ).plan("aseq")
    group = plans[0].group
    assert group is not None
    assert group.details.is_guess

    def cuts(each: float, starts: float, rows: int = 10**6) -> set[tuple[int, ...]]:
        known = dict.fromkeys("ABCDEFGH", each) | {f"S{i}": starts for i in range(8)}
        plan = fitted(group, GroupStatistics(rows=rows, frequencies=known))
        assert not plan.is_guess
        return {reading.cuts for reading in plan.families[0].readings}

    assert cuts(10.0, 10.0) == {(1,)}  # ten numbers in a snapshot, read ten at a time
    assert cuts(1_000.0, 1_000.0) == {()}  # a thousand
    assert cuts(1_000.0, 10.0) == {()}  # marks of its own for each of the thousand events of A
    assert cuts(10.0, 10.0, rows=10) == {()}  # searching takes longer than folding


def test_a_hundred_queries_are_planned_in_time() -> None:
    rng = random.Random(7)
    types = [f"T{i}" for i in range(12)]
    queries = [f"PATTERN SEQ({', '.join(rng.choices(types, k=8))}) WITHIN 9 s" for _ in range(100)]
    lines = lines_of(*queries)
    started = time.process_time()
    plan = share_prefixes(lines)
    assert time.process_time() - started < 10
    assert plan.updates < 750  # of 800


def test_a_plan_is_told_in_lines() -> None:
    plan = shared(
        "PATTERN SEQ(A, B, C, D) WHERE A.v > 1 WITHIN 9 s",
        "PATTERN SEQ(X, C, D) WITHIN 9 s",
        "PATTERN SEQ(C, D, NOT N) WITHIN 9 s",
        "PATTERN SEQ(Y, C, D) WITHIN 9 s",
        "PATTERN SEQ(NOT N, A, B)",
    )
    assert describe(plan, ["one", "two", "three", "four", "five"]) == (
        "14 prefix counters alone, 12 counters and snapshots shared",
        "cuts are by the paper's cost; a run cuts by measured costs, which know its START events",
        "WITHIN 9 s:",
        "  tree 1",
        "    A[v > 1]",
        "      B",
        "  tree 2",
        "    C",
        "      D  -> one, two, four",
        "      D, NOT N  -> three",
        "    each C keeps a snapshot of: A[v > 1] B",
        "    each C keeps a snapshot of: X",
        "    each C keeps a snapshot of: Y",
        "  tree 3",
        "    X",
        "  tree 4",
        "    Y",
        "no window:",
        "  tree 1 (NOT N before)",
        "    A",
        "      B  -> five",
    )
