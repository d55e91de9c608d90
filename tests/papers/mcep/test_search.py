"""The multi-pattern graph, the baselines, and what a search makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from time import monotonic

import pytest

from join_patterns import sequence, statistics, workload
from trendfold.detect.join_cost import price
from trendfold.detect.one_pattern import best_order, best_tree
from trendfold.detect.pattern import JoinPattern, elements_of
from trendfold.detect.plan_state import plan_state
from trendfold.papers.mcep.baselines import BASELINES
from trendfold.papers.mcep.pattern_graph import build_graph
from trendfold.papers.mcep.plan import PlanSearch


def names(patterns: Sequence[JoinPattern]) -> set[tuple[str, tuple[int, ...]]]:
    graph = build_graph(patterns)
    return {
        ("".join(chr(leaf) for leaf, _ in part.names), tuple(sorted(users)))
        for part, users in graph.shared.items()
    }


def test_maximal_common_sub_patterns_are_the_papers() -> None:
    """Section 4.1: SEQ(A, B, C, D) and SEQ(A, E, C, D) have SEQ(A, C, D); SEQ(C, A) is in neither."""
    assert names([sequence("ABCD"), sequence("AECD", window=20)]) == {("ACD", (0, 1))}


def test_there_may_be_several_maximal_common_sub_patterns() -> None:
    """Appendix A: SEQ(A, B, C) and SEQ(A, C, B) have SEQ(A, B) and SEQ(A, C)."""
    assert names([sequence("ABC"), sequence("ACB")]) == {("AB", (0, 1)), ("AC", (0, 1))}


def test_conditions_that_differ_are_not_common() -> None:
    assert names([sequence("ABC", AB=1), sequence("ABC", AB=2)]) == {("AC", (0, 1)), ("BC", (0, 1))}


def test_components_are_planned_apart() -> None:
    graph = build_graph([sequence("ABC"), sequence("DEF"), sequence("ABD"), sequence("GH")])
    assert graph.components() == [[0, 2], [1], [3]]


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_plan_every_pattern(name: str) -> None:
    patterns = [sequence("ABC"), sequence("ABC")]
    assert len(BASELINES[name](patterns, statistics(patterns)).trees) == 2


@pytest.mark.parametrize(
    "search",
    [PlanSearch(0.3), PlanSearch(0.3, "tabu"), PlanSearch(0.3, together=4), PlanSearch(0.3, is_prefix=True)],
    ids=["annealing", "tabu", "vertex", "prefix"],
)
def test_a_search_never_ends_worse_than_it_began(search: PlanSearch) -> None:
    patterns = workload(1)
    known = statistics(patterns)
    priced = [price(pattern, known) for pattern in patterns]
    local = best_order if search.is_prefix else best_tree
    began = plan_state(priced, [local(each) for each in priced]).cost
    found = search.search(patterns, known)
    trees = found.workplan.trees
    assert plan_state(priced, trees).cost <= began * (1 + 1e-9)
    costs = [step.cost for step in found.history]
    assert costs == sorted(costs, reverse=True)
    assert all(
        sorted(elements_of(t)) == list(range(len(p.leaves))) for t, p in zip(trees, patterns, strict=True)
    )


@pytest.mark.parametrize("search", [PlanSearch(0.5), PlanSearch(0.5, "tabu")], ids=["annealing", "tabu"])
def test_a_search_ends_when_its_time_is_up(search: PlanSearch) -> None:
    rng = Random(5)
    patterns = [sequence("".join(rng.sample("ABCDEFGHIJ", 5))) for _ in range(60)]
    known = statistics(patterns)
    PlanSearch(0.0)(patterns, known)  # compiled
    began = monotonic()
    search(patterns, known)
    assert monotonic() - began < 0.5 + 2.0
