"""Costs, plans of one pattern, the multitree, and the cost of plans that change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from math import prod
from random import Random

import pytest

from join_patterns import BEFORE, sequence, statistics, workload
from trendfold.detect.join_cost import PricedPattern, price, subsets
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.multitree import Multitree
from trendfold.detect.one_pattern import best_order, best_tree, greedy_order, greedy_tree
from trendfold.detect.pattern import JoinPattern, JoinTree, Relation, elements_of, left_deep
from trendfold.detect.plan_state import plan_state
from trendfold.detect.workplan import Workplan


def every_tree(elements: tuple[int, ...]) -> Iterator[JoinTree]:
    if len(elements) == 1:
        yield elements[0]
    for pick in range(1, 1 << (len(elements) - 1)):
        left = tuple(e for i, e in enumerate(elements) if pick >> i & 1)
        right = tuple(e for e in elements if e not in left)
        for a in every_tree(left):
            yield from ((a, b) for b in every_tree(right))


def order_cost(priced: PricedPattern, order: tuple[int, ...]) -> float:
    """Cost_ord: the partial matches of every prefix of an order, and the walked matches."""
    total, prefix = priced.walked, 0
    for element in order:
        prefix |= 1 << element
        total += priced.cost(prefix)
    return total


def tree_cost(priced: PricedPattern, tree: JoinTree) -> float:
    """Cost_tree: the partial matches of every node, leaves included, and the walked matches."""

    def visit(node: JoinTree) -> tuple[int, float]:
        if isinstance(node, int):
            return 1 << node, priced.cost(1 << node)
        (a, left), (b, right) = visit(node[0]), visit(node[1])
        return a | b, left + right + priced.cost(a | b)

    return visit(tree)[1] + priced.walked


def test_cost_is_the_papers_for_an_order_and_for_a_tree() -> None:
    """A conjunction, where no order is part of C(S): Cost_ord and Cost_tree by hand."""
    pattern = JoinPattern("p", (0, 1, 2), {(0, 2): Relation(asked=((0, False),))}, 10)
    known = JoinStatistics((0.1, 0.2, 0.3), 100.0, 1, {(0, 2, pattern.relations[0, 2]): 0.5})
    priced = price(pattern, known, look=0.0)
    assert order_cost(priced, (0, 1, 2)) == pytest.approx(1 + 1 * 2 + 1 * 2 * 3 * 0.5)
    assert order_cost(priced, (0, 2, 1)) == pytest.approx(1 + 1 * 3 * 0.5 + 1 * 2 * 3 * 0.5)
    assert tree_cost(priced, ((0, 2), 1)) == pytest.approx(1 + 2 + 3 + 1 * 3 * 0.5 + 1 * 2 * 3 * 0.5)


def test_cost_with_negation_is_one_more_selectivity_and_with_kleene_two_to_the_power_of_its_events() -> None:
    """AND(A, B+) with a NOT between them that leaves a quarter, W r = 2 and 3; 2^3 - 1 = 7 subsets of B."""
    guarded = Relation(guards=((0, False),))
    pattern = JoinPattern("p", (0, 1), {(0, 1): guarded}, 10, kleene=frozenset({1}))
    priced = price(pattern, JoinStatistics((0.2, 0.3), 100.0, 1, {(0, 1, guarded): 0.25}), look=0.0)
    assert subsets(3.0) == 7.0
    assert priced.walked == pytest.approx(2 * 7 * 0.25)
    assert order_cost(priced, (0, 1)) == pytest.approx(2 + 2 * 3 * 0.25 + 2 * 7 * 0.25)
    assert order_cost(priced, (1, 0)) == pytest.approx(3 + 2 * 3 * 0.25 + 2 * 7 * 0.25)
    assert tree_cost(priced, (0, 1)) == pytest.approx(2 + 3 + 2 * 3 * 0.25 + 2 * 7 * 0.25)


def test_a_kleene_closure_is_cheapest_behind_all_joins() -> None:
    """Multiplied in at any earlier place, its 2^(W r) - 1 would count in every prefix from there on."""
    pattern = JoinPattern("p", (0, 1, 2), {}, 10, kleene=frozenset({0}))
    priced = price(pattern, JoinStatistics((0.4, 0.1, 0.2), 100.0, 1), look=0.0)
    weights = [subsets(4.0), 1.0, 2.0]

    def papers(order: tuple[int, ...]) -> float:
        return sum(prod(weights[i] for i in order[: k + 1]) for k in range(3))

    first_events = min(order_cost(priced, order) for order in permutations(range(3)))
    assert first_events <= min(papers(order) for order in permutations(range(3))) + 4 * 2


def test_a_sequence_of_k_events_has_one_of_their_k_factorial_orders() -> None:
    priced = price(sequence("ABCD"), statistics([]))
    assert priced.ordered(0b1111) == pytest.approx(1 / 24)
    assert priced.ordered(0b0101) == pytest.approx(1 / 2)


@pytest.mark.parametrize("look", [0.0, 0.25])
@pytest.mark.parametrize("seed", range(5))
def test_dynamic_programming_finds_the_best_tree_and_order(seed: int, look: float) -> None:
    pattern = sequence("ABCDE", AC=1, BE=2, CD=3)
    priced = price(pattern, statistics([pattern], seed), look)

    def cost(tree: JoinTree) -> float:
        return plan_state([priced], [tree]).cost

    everything = [cost(tree) for tree in every_tree((0, 1, 2, 3, 4))]
    assert cost(best_tree(priced)) == pytest.approx(min(everything))
    orders = [cost(left_deep(order)) for order in permutations(range(5))]
    assert cost(best_order(priced)) == pytest.approx(min(orders))
    assert cost(greedy_order(priced)) >= min(orders) * (1 - 1e-9)
    assert cost(greedy_tree(priced)) >= min(everything) * (1 - 1e-9)


def test_given_parts_stay_in_the_plan() -> None:
    priced = price(sequence("ABCDE"), statistics([]))
    tree = best_tree(priced, [(0, 3), (4, 1)])
    assert {(0, 3), (4, 1)} <= set(subtrees(tree))
    assert {(0, 3), (4, 1)} <= set(subtrees(greedy_tree(priced, [(0, 3), (4, 1)])))
    assert elements_of(best_order(priced, (3, 1)))[:2] == (3, 1)
    assert elements_of(greedy_order(priced, (3, 1)))[:2] == (3, 1)


@pytest.mark.parametrize("size", [13, 70])
def test_long_patterns_are_planned_greedily(size: int) -> None:
    relations = {(i, j): BEFORE for j in range(size) for i in range(j)}
    pattern = JoinPattern("long", tuple(range(size)), relations, 10)
    priced = price(pattern, JoinStatistics((0.1,) * size, 1000.0, 1))
    for tree in (best_tree(priced), best_order(priced)):
        assert sorted(elements_of(tree)) == list(range(size))


def subtrees(tree: JoinTree) -> Iterator[JoinTree]:
    yield tree
    if not isinstance(tree, int):
        yield from subtrees(tree[0])
        yield from subtrees(tree[1])


def test_a_multitree_shares_what_is_the_same_and_forgets_what_is_removed() -> None:
    """The example of section 5: P1 shares SEQ(A, C) with P2 and SEQ(B, D) with P3."""
    patterns = [sequence("ABCD", 10), sequence("AECF", 20), sequence("GBHD", 10)]
    tree = Multitree()
    plans: list[JoinTree] = [((0, 2), (1, 3)), (((0, 2), 1), 3), (((1, 3), 0), 2)]
    roots = [tree.add(i, p, plan).root for i, (p, plan) in enumerate(zip(patterns, plans, strict=True))]
    joins = [node for node in tree.in_use() if not node.is_leaf]
    assert len(joins) == 9 - 2
    shared = [node for node in joins if tree.users(node.number) == 2]
    assert sorted("".join(sorted(map(chr, node.leaves))) for node in shared) == ["AC", "BD"]
    assert tree.window(next(n.number for n in shared if ord("A") in n.leaves)) == 20
    tree.remove(1, patterns[1], plans[1])
    assert {node.number for node in tree.in_use() if not node.is_leaf} >= {roots[0], roots[2]}
    assert all(tree.users(node.number) == 1 or node.is_leaf for node in tree.in_use() if len(node.leaves) > 2)
    for i in (0, 2):
        tree.remove(i, patterns[i], plans[i])
    assert tree.in_use() == []


def test_without_sharing_every_pattern_has_its_own_nodes() -> None:
    patterns = [sequence("ABC"), sequence("ABC")]
    joins = {}
    for name, plan in [("alone", Workplan((((0, 1), 2),) * 2, shares=False)),
                       ("shared", Workplan((((0, 1), 2),) * 2))]:  # fmt: skip
        tree, _ = plan.lay_out(patterns)
        joins[name] = sum(not node.is_leaf for node in tree.in_use())
    assert joins == {"alone": 4, "shared": 2}


def test_costs_kept_along_the_way_are_those_counted_anew() -> None:
    patterns = workload(2)
    known = statistics(patterns)
    priced = [price(pattern, known) for pattern in patterns]
    state = plan_state(priced, [pattern.written for pattern in patterns])
    rng = Random(3)
    for _ in range(200):
        number = rng.randrange(len(patterns))
        order = tuple(rng.sample(range(len(patterns[number].leaves)), len(patterns[number].leaves)))
        state.apply([(number, left_deep(order))])
    assert state.cost == pytest.approx(plan_state(priced, state.trees).cost)
