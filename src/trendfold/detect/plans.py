"""Plans of whole workloads by name: the trivial one, the two baselines, and the paper's search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import monotonic

from trendfold.detect.cost import Priced
from trendfold.detect.graph import Graph, build_graph
from trendfold.detect.local import best_order, best_tree, greedy_order
from trendfold.detect.multitree import Multitree, Planned
from trendfold.detect.pattern import JoinPattern, Tree, left_deep
from trendfold.detect.search import HEURISTICS, Neighbourhood, PlanState, Progress
from trendfold.detect.statistics import Statistics


@dataclass(frozen=True)
class Workplan:
    """A plan for every pattern, and whether equal parts of them are computed once."""

    trees: tuple[Tree, ...]
    shares: bool = True
    history: tuple[Progress, ...] = field(default=(), compare=False)
    """How the search got there: the cost of the best plan after some seconds."""

    def lay_out(self, patterns: Sequence[JoinPattern]) -> tuple[Multitree, list[Planned]]:
        """All plans in one multitree."""
        tree = Multitree(self.shares)
        pairs = zip(patterns, self.trees, strict=True)
        return tree, [tree.add(i, pattern, plan) for i, (pattern, plan) in enumerate(pairs)]


WorkloadPlanner = Callable[[Sequence[JoinPattern], Statistics], Workplan]


def trivial(patterns: Sequence[JoinPattern], statistics: Statistics) -> Workplan:
    """Every pattern alone, in the order written."""
    return Workplan(tuple(pattern.written for pattern in patterns), shares=False)


def sharing(patterns: Sequence[JoinPattern], statistics: Statistics) -> Workplan:
    """SH: nothing is reordered, but every pattern begins with what it can share with most others.

    The largest maximal common sub-pattern comes first, its elements in the order written, then the rest.
    """
    graph = build_graph(patterns)
    return Workplan(tuple(_shared_first(graph, i) for i in range(len(patterns))))


def _shared_first(graph: Graph, number: int) -> Tree:
    pattern, parts = graph.patterns[number], graph.of_pattern.get(number, set())
    if not parts:
        return pattern.written
    part = max(parts, key=lambda part: (len(part) * len(graph.shared[part]), part.names))
    first = sorted(graph.element[number][name] for name in part.names)
    return left_deep((*first, *(i for i in range(len(pattern.leaves)) if i not in first)))


def reordering(patterns: Sequence[JoinPattern], statistics: Statistics) -> Workplan:
    """RE: every pattern alone, in its own greedy order."""
    return Workplan(tuple(greedy_order(Priced(p, statistics)) for p in patterns), shares=False)


@dataclass(frozen=True, slots=True)
class Search:
    """MCEP: local search until a deadline, on every connected component of the multi-pattern graph."""

    seconds: float
    heuristic: str = "annealing"
    together: int = 2
    """2 is N_edge; k > 2 is N_vertex^k."""
    is_prefix: bool = False
    """Whether plans are orders that share prefixes (section 3) and not trees that share any part (5)."""
    seed: int = 0

    def __call__(self, patterns: Sequence[JoinPattern], statistics: Statistics) -> Workplan:
        """The best plan that was found in time."""
        started = monotonic()
        priced = [Priced(pattern, statistics) for pattern in patterns]
        local = best_order if self.is_prefix else best_tree
        trees = [local(each) for each in priced]
        history: tuple[Progress, ...] = ()
        if len(patterns) < 2 or self.seconds <= 0:
            return Workplan(tuple(trees))
        components = [c for c in build_graph(patterns).components() if len(c) > 1]
        left = sum(map(len, components))
        for component in sorted(components, key=len):
            remaining = started + self.seconds - monotonic()
            deadline = monotonic() + remaining * len(component) / left
            left -= len(component)
            state = PlanState([priced[i] for i in component], [trees[i] for i in component])
            graph = build_graph([patterns[i] for i in component])
            near = Neighbourhood(graph, state, Random(self.seed), self.together, self.is_prefix)
            best = HEURISTICS[self.heuristic](near, deadline)
            history = tuple(best.history)
            for i, tree in zip(component, best.trees, strict=True):
                trees[i] = tree
        return Workplan(tuple(trees), history=history)


BASELINES: dict[str, WorkloadPlanner] = {"trivial": trivial, "SH": sharing, "RE": reordering}
