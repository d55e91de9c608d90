"""The plans that MCEP is compared with: the trivial plan, and sharing or reordering alone (section 6)."""

from __future__ import annotations

from collections.abc import Sequence

from trendfold.detect.join_cost import price
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.one_pattern import greedy_order
from trendfold.detect.pattern import JoinPattern, JoinTree, left_deep
from trendfold.detect.workplan import JoinPlanner, Workplan
from trendfold.papers.mcep.pattern_graph import MultiPatternGraph, build_graph


def plan_as_written(patterns: Sequence[JoinPattern], statistics: JoinStatistics) -> Workplan:
    """The trivial plan: every pattern on its own, in the order written."""
    return Workplan(tuple(pattern.written for pattern in patterns), shares=False)


def plan_shared_first(patterns: Sequence[JoinPattern], statistics: JoinStatistics) -> Workplan:
    """SH: sharing without reordering.

    Every pattern begins with its largest maximal common sub-pattern, in the order written, then the rest.
    """
    graph = build_graph(patterns)
    return Workplan(tuple(_shared_first(graph, i) for i in range(len(patterns))))


def _shared_first(graph: MultiPatternGraph, number: int) -> JoinTree:
    pattern, parts = graph.patterns[number], graph.of_pattern.get(number, set())
    if not parts:
        return pattern.written
    part = max(parts, key=lambda part: (len(part) * len(graph.shared[part]), part.names))
    first = sorted(graph.element[number][name] for name in part.names)
    return left_deep((*first, *(i for i in range(len(pattern.leaves)) if i not in first)))


def plan_reordered(patterns: Sequence[JoinPattern], statistics: JoinStatistics) -> Workplan:
    """RE: reordering without sharing. Every pattern on its own, in its greedy order."""
    return Workplan(tuple(greedy_order(price(p, statistics)) for p in patterns), shares=False)


BASELINES: dict[str, JoinPlanner] = {
    "trivial": plan_as_written,
    "SH": plan_shared_first,
    "RE": plan_reordered,
}
