"""A graph that is kept: new frequencies, more queries, fewer queries."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

import trendfold as tf
from sharing_plans import (
    automata_of,
    backbone,
    cost,
    random_frequencies,
    random_kleene,
    random_sequences,
    why_not,
)
from trendfold.papers.gloria.graph import GloriaGraph, GloriaNode
from trendfold.papers.gloria.incremental import KeptWorkload, add, keep, remove, reweigh
from trendfold.plan import QueryPlan, plan


def members_of(patterns: Sequence[str]) -> list[QueryPlan]:
    texts = (f"QUERY n{k} RETURN COUNT(*) PATTERN {pattern}" for k, pattern in enumerate(patterns))
    return [plan(query, "cogra") for query in tf.parse("; ".join(texts))]


def case(seed: int, most: int = 5) -> tuple[list[str], Random]:
    random = Random(seed)
    return (random_sequences(random, most) if seed % 3 else random_kleene(random)), random


def distances(kept: KeptWorkload) -> list[list[tuple[str, float]]]:
    return [[(str(node), node.distance) for node in nodes] for nodes in kept.found.graph.nodes]


def test_new_frequencies_and_back_leave_every_distance_as_it_was() -> None:
    for seed in range(50):
        patterns, random = case(seed)
        old, new = (random_frequencies(automata_of(patterns), random) for _ in range(2))
        kept = keep(members_of(patterns), old, prunes=False)
        there = reweigh(kept, new)
        assert old == new or distances(there) != distances(kept)
        assert distances(reweigh(there, old)) == distances(kept)


def test_a_path_by_new_frequencies_is_never_dearer_than_the_old_one_by_them() -> None:
    for seed in range(50):
        patterns, random = case(seed)
        automata = automata_of(patterns)
        old, new = (random_frequencies(automata, random) for _ in range(2))
        kept = keep(members_of(patterns), old)
        after = reweigh(kept, new)
        assert why_not(automata, after.plan()) == ""
        assert cost(automata, after.plan(), new) == pytest.approx(after.found.cost)
        assert after.found.cost <= cost(automata, kept.plan(), new) + 1e-9


def test_most_often_it_costs_what_planning_from_scratch_would_find() -> None:
    same = 0
    for seed in range(50):
        patterns, random = case(seed)
        old, new = (random_frequencies(automata_of(patterns), random) for _ in range(2))
        again = reweigh(keep(members_of(patterns), old), new)
        same += again.found.cost <= keep(members_of(patterns), new).found.cost + 1e-9
    assert same >= 40


def test_with_the_frequencies_it_had_nothing_changes() -> None:
    patterns, random = case(4)
    frequencies = random_frequencies(automata_of(patterns), random)
    kept = keep(members_of(patterns), frequencies)
    again = reweigh(kept, frequencies)
    assert distances(again) == distances(kept)
    assert again.plan().crossings == kept.plan().crossings


@pytest.mark.parametrize("prunes", [True, False])
def test_queries_that_are_added_are_planned_as_from_scratch(prunes: bool) -> None:
    for seed in range(50):
        patterns, random = case(seed)
        frequencies = random_frequencies(automata_of(patterns), random)
        members = members_of(patterns)
        cut = random.randint(1, len(members) - 1)
        grown = add(keep(members[:cut], frequencies, prunes=prunes), members[cut:])
        scratch = keep(members, frequencies, prunes=prunes)
        assert distances(grown) == distances(scratch)
        assert grown.found.cost == scratch.found.cost
        assert why_not(automata_of(patterns), grown.plan()) == ""


def test_queries_that_are_removed_leave_a_plan_as_from_scratch() -> None:
    for seed in range(50):
        patterns, random = case(seed)
        frequencies = random_frequencies(automata_of(patterns), random)
        members = members_of(patterns)
        gone = set(random.sample(range(len(members)), random.randint(1, len(members) - 1)))
        left = [q for q in range(len(members)) if q not in gone]
        shrunk = remove(keep(members, frequencies), gone)
        assert shrunk.found.cost == keep([members[q] for q in left], frequencies).found.cost
        plan = shrunk.plan()
        automata = automata_of([patterns[q] for q in left])
        assert why_not(automata, plan) == ""
        assert cost(automata, plan, frequencies) == pytest.approx(plan.cost)


def test_pools_that_see_nothing_of_a_change_are_kept() -> None:
    members = members_of([*backbone(60, 14, 3), "SEQ(T00, X, Y)", "SEQ(X, Y)"])
    kept = keep(members[:-1])
    grown = add(kept, members[-1:])
    assert (kept.made, grown.made) == (len(kept.found.graph.pools), 1)
    assert remove(grown, [len(members) - 1]).made == 1
    assert reweigh(grown, {"T00": 5.0}).made == 0


def test_a_new_path_asks_every_edge_twice_and_every_node_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """O(2N + 2T): distances ask each edge, and so do those to the ends; paths ask the neighbours of nodes."""
    kept = keep(members_of(backbone(60, 14, 5)))
    asked = 0
    ask = GloriaGraph.evaluation

    def count(graph: GloriaGraph, first: GloriaNode, second: GloriaNode, state: str) -> float:
        nonlocal asked
        asked += 1
        return ask(graph, first, second, state)

    monkeypatch.setattr(GloriaGraph, "evaluation", count)
    reweigh(kept, {"T03": 7.0})
    nodes, edges = kept.found.graph.size
    assert edges > 10 * nodes
    assert asked <= 2 * edges + 80 * nodes
