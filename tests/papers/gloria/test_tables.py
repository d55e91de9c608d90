"""The published Tables 3 to 5: distances as far as the text determines them, and which nodes are pruned."""

from __future__ import annotations

import pytest

from sharing_plans import automata_of
from trendfold.papers.gloria.cheapest_path import find_path
from trendfold.papers.gloria.graph import GloriaGraph
from trendfold.papers.gloria.kleene import Cycle, cycles_of, evaluation
from trendfold.papers.gloria.path_cost import Weights, eval_cost, nonshared_cost, share_cost
from trendfold.papers.gloria.search import build, find, optimize_greedily, plan_of
from trendfold.papers.gloria.template import GloriaTemplate, make_template

FREQUENCIES = {"F": 10, "A": 5, "B": 10, "C": 12, "D": 4, "E": 3}
FIGURE_5 = ("SEQ(F, A, B, C, D)", "SEQ(A, B, C, D)", "SEQ(E, C, D)")


def template_of(*patterns: str) -> GloriaTemplate:
    return make_template(automata_of(patterns))


def graph_of(*patterns: str, prunes: bool = True) -> GloriaGraph:
    template = template_of(*patterns)
    return build(template, Weights(template.types, FREQUENCIES), prunes)


def pools(graph: GloriaGraph, pruned: bool = False) -> dict[str, dict[str, float]]:
    nodes = graph.pruned if pruned else graph.nodes
    return {
        str(pool): {str(node): node.distance for node in own}
        for pool, own in zip(graph.pools, nodes, strict=True)
    }


def test_equations_2_to_4() -> None:
    """Figure 4: two As after one and two predecessors cost 6 for two queries, and 3 shared."""
    assert nonshared_cost(events=10, before=5) == 50
    assert share_cost(before=10, length=5) == 50
    assert eval_cost(events=12, length=5, queries=2) == 120


def test_table_3_number_for_number() -> None:
    """q1, q2, q3 of the paper are 0, 1, 2 here; n1 to n12 from top to bottom."""
    graph = graph_of(*FIGURE_5)
    assert pools(graph) == {
        "F → A": {"(0)": 10},
        "E → C": {"(2)": 3},
        "A → B": {"(0, 1)^A": 65, "(0), (1)": 65},
        "B → C": {"(0, 1)^A": 70, "(0), (1)": 165},
        "C → D": {"(0, 1)^A, (2)": 159, "(0, 1, 2)^C": 279, "(0), (1), (2)": 444},
    }


def test_the_nodes_that_table_3_prunes() -> None:
    """n5 and n10; n9 is made from n5 alone, and so never."""
    graph = graph_of(*FIGURE_5)
    assert pools(graph, pruned=True) == {
        "F → A": {},
        "E → C": {},
        "A → B": {},
        "B → C": {"(0, 1)^B": 165},
        "C → D": {"(0, 1)^C, (2)": 279},
    }
    [n5], [n10] = graph.pruned[3], graph.pruned[4]
    assert (str(n5.pruned_by), str(n10.pruned_by)) == ("(0, 1)^A", "(0, 1)^A, (2)")


def test_figure_7a_has_all_nodes() -> None:
    full = pools(graph_of(*FIGURE_5, prunes=False))
    assert full["B → C"] == {"(0, 1)^A": 70, "(0, 1)^B": 165, "(0), (1)": 165}
    assert list(full["C → D"]) == [
        "(0, 1)^A, (2)",
        "(0, 1)^B, (2)",
        "(0, 1)^C, (2)",
        "(0, 1, 2)^C",
        "(0), (1), (2)",
    ]


def test_of_two_ways_to_n5_the_lighter_is_kept() -> None:
    """Example 5.7: 170 from n2, 165 from n3."""
    graph = graph_of(*FIGURE_5, prunes=False)
    n2, n3 = graph.nodes[2]
    n5 = graph.nodes[3][1]
    ways = [node.distance + node.leaving + graph.evaluation(node, n5, "B") for node in (n2, n3)]
    assert ways == [170, 165]
    assert n5.back == {2: n3}


def test_the_path_of_figure_7() -> None:
    """n8 to the end: 159 + 12 · 5 shared, 2 · 4 · 5 evaluated, 4 · 12 for the third query by itself."""
    found = find(graph_of(*FIGURE_5))
    assert [str(node) for _, node in sorted(found.path.items())] == [
        "(0)",
        "(2)",
        "(0, 1)^A",
        "(0, 1)^A",
        "(0, 1)^A, (2)",
    ]
    assert (found.cost, found.alone) == (159 + 60 + 40 + 48, 588)
    plan = plan_of(found)
    assert sum(each.weight for each in plan.considered) + 10 + 5 + 3 == plan.cost


def test_greedy_takes_what_is_nearest() -> None:
    template = template_of(*FIGURE_5)
    path = optimize_greedily(template, Weights(template.types, FREQUENCIES)).path
    assert str(path[3]) == "(0, 1)^A"


# ---------------------------------------------------------------- Kleene


def test_table_4() -> None:
    """SEQ(A, B)+ of two queries that start with A, and go on: P1 and P3 as printed, and n2 is pruned.

    The paper has 110 for P2, which is Equation 2 on the way into B and nothing evaluated; by Equations 3
    and 4 it is more. Either way n2 is farther than n1, and has more snapshots.
    """
    graph = graph_of("SEQ(SEQ(A, B)+, D)", "SEQ(SEQ(A, B)+, D)")
    assert pools(graph)["(A, B)+"] == {"(0, 1)^A": 115, "(0), (1)": 210}
    [n2] = graph.pruned[0]
    assert (str(n2), str(n2.pruned_by)) == ("(0, 1)^B", "(0, 1)^A")
    assert n2.distance > 115


def weight_of(cycle: Cycle, snapshot: str, queries: int, weights: Weights) -> float:
    """Equations 2 to 4 on a cycle, as in the paper: every state has the snapshots of one state."""
    crossed = sum(weights.cross(p, q, snapshot) for p, q in cycle.transitions) * (1 if snapshot else queries)
    return crossed + evaluation(cycle, dict.fromkeys(cycle.states, snapshot), queries, weights)


@pytest.mark.parametrize(("snapshot", "weight"), [("A", 105), ("B", 260)])
def test_paths_of_a_flat_cycle(snapshot: str, weight: float) -> None:
    template = template_of("SEQ(A, B)+", "SEQ(A, B)+")
    [cycle] = cycles_of(template)
    weights = Weights(template.types, FREQUENCIES)
    assert weight_of(cycle, snapshot, 2, weights) == weight


def test_the_ranking_of_table_5() -> None:
    """SEQ(C, SEQ(A, B)+, D)+ of four queries: D before A, B and C, and not sharing last."""
    template = template_of(*["SEQ(C, SEQ(A, B)+, D)+"] * 4)
    [cycle] = cycles_of(template)
    weights = Weights(template.types, FREQUENCIES)
    paths = {state: weight_of(cycle, state, 4, weights) for state in ("D", "A", "B", "C", "")}
    assert list(paths) == sorted(paths, key=lambda state: paths[state])
    assert all(weights.events("D") < weights.events(state) for state in "ABC")  # so it prunes them all


def test_nested_sub_patterns_have_a_node_per_state_and_one_that_shares_nothing() -> None:
    graph = graph_of(*["SEQ(C, SEQ(A, B)+, D)+"] * 4, prunes=False)
    [nodes] = pools(graph).values()
    assert list(nodes) == [
        "(0, 1, 2, 3)^C",
        "(0, 1, 2, 3)^A",
        "(0, 1, 2, 3)^B",
        "(0, 1, 2, 3)^D",
        "(0), (1), (2), (3)",
    ]
    assert str(find_path(graph)[0]) == "(0, 1, 2, 3)^D"
