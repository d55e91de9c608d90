"""The search for a plan, component by component of the multi-pattern graph (MCEP, section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from time import monotonic

from trendfold.detect.join_cost import PricedPattern, price
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.one_pattern import best_order, best_tree
from trendfold.detect.pattern import JoinPattern, JoinTree
from trendfold.detect.plan_state import plan_state
from trendfold.detect.workplan import JoinPlanner, Workplan
from trendfold.papers.mcep.fixed_order import plan_motto, plan_spass
from trendfold.papers.mcep.heuristics import HEURISTICS, Best, SearchProgress
from trendfold.papers.mcep.neighbourhood import neighbourhood
from trendfold.papers.mcep.pattern_graph import build_graph


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best plan that was found, and the cost of the best one over time in the last component searched."""

    workplan: Workplan
    history: tuple[SearchProgress, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """Local search until a deadline; a planner for `detect`."""

    seconds: float
    heuristic: str = "annealing"
    together: int = 2
    """How many patterns one step replans: 2 is N_edge, k > 2 is N_vertex^k."""
    is_prefix: bool = False
    """Whether plans are orders that share prefixes (section 3), not trees that share any part (section 5)."""
    seed: int = 0
    running: tuple[JoinTree, ...] | None = None
    """The plan to start from, unless every pattern's own best plan costs less."""

    def __call__(self, patterns: Sequence[JoinPattern], statistics: JoinStatistics) -> Workplan:
        """The best plan that was found in time."""
        return self.search(patterns, statistics).workplan

    def search(self, patterns: Sequence[JoinPattern], statistics: JoinStatistics) -> SearchResult:
        """Start from every pattern's own best plan or the running one, and search until the deadline."""
        started = monotonic()
        priced = [price(pattern, statistics) for pattern in patterns]
        trees, first, what = self._first(priced)
        history: tuple[SearchProgress, ...] = ()
        if len(patterns) < 2 or self.seconds <= 0:
            return SearchResult(Workplan(tuple(trees), tried=f"{what}, cost {first:.4g}"))
        steps = 0
        for component, deadline in _deadlines(patterns, started + self.seconds):
            best = self._search_component(component, priced, trees, deadline)
            history = tuple(best.history)
            steps += best.steps
            for i, tree in zip(component, best.trees, strict=True):
                trees[i] = tree
        cost = plan_state(priced, trees).cost
        near = "edges" if self.together == 2 else f"vertices of {self.together}"
        tried = f"{self.heuristic} over {near}: {steps:,} plans in {monotonic() - started:.2g} s"
        tried += f" from {what}"
        return SearchResult(Workplan(tuple(trees), tried=f"{tried}, cost {first:.4g} -> {cost:.4g}"), history)

    def _first(self, priced: Sequence[PricedPattern]) -> tuple[list[JoinTree], float, str]:
        """The plan to start from, its cost, and what it is."""
        own = [best_order(each) if self.is_prefix else best_tree(each) for each in priced]
        cost = plan_state(priced, own).cost
        if self.running is not None:
            running = plan_state(priced, self.running).cost
            if running < cost:
                return list(self.running), running, "the running plan"
        return own, cost, "every pattern's own best plan"

    def _search_component(
        self,
        component: Sequence[int],
        priced: Sequence[PricedPattern],
        trees: Sequence[JoinTree],
        deadline: float,
    ) -> Best:
        own = [priced[i] for i in component]
        state = plan_state(own, [trees[i] for i in component])
        graph = build_graph([each.pattern for each in own])
        near = neighbourhood(graph, state, Random(self.seed), self.together, self.is_prefix)
        return HEURISTICS[self.heuristic](near, deadline)


def _deadlines(patterns: Sequence[JoinPattern], end: float) -> Iterator[tuple[list[int], float]]:
    """The components of several patterns, smallest first, each with its share of the remaining time."""
    components = [component for component in build_graph(patterns).components() if len(component) > 1]
    left = sum(map(len, components))
    for component in sorted(components, key=len):
        now = monotonic()
        yield component, now + (end - now) * len(component) / left
        left -= len(component)


def improve(
    patterns: Sequence[JoinPattern],
    statistics: JoinStatistics,
    trees: Sequence[JoinTree],
    seconds: float,
) -> tuple[JoinTree, ...]:
    """A running plan, with what a short search finds to share."""
    return PlanSearch(seconds, running=tuple(trees))(patterns, statistics).trees


STRATEGIES: dict[str, JoinPlanner] = {"spass": plan_spass, "motto": plan_motto}
"""Strategies that plan joins in their own way, for comparison; all others search."""
