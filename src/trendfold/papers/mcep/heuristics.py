"""Simulated annealing and tabu search (MCEP, section 4 and appendix B).

Both can be stopped at any time: the answer is the best plan so far.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp
from time import monotonic

from trendfold.detect.pattern import JoinTree
from trendfold.detect.plan_state import Changes, PlanState
from trendfold.papers.mcep.neighbourhood import Neighbourhood

COOLING, PROBES = 0.99, 1_000
"""Simulated annealing: c_k = 0.99 c_(k-1); c_0 is the largest difference among 1,000 neighbours."""
COLDEST = 1e-6
"""As a share of c_0: below it the search accepts no plan that costs more."""
TABU_LENGTH, TABU_NEIGHBOURS = 10_000, 100
PATIENCE = 20_000
"""A search ends after this many steps without a cheaper plan."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The cost of the best plan after some seconds of search."""

    seconds: float
    cost: float


@dataclass
class Best:
    """The best plan so far, and when it was found."""

    started: float
    cost: float = float("inf")
    trees: list[JoinTree] = field(default_factory=list)
    history: list[SearchProgress] = field(default_factory=list)
    steps: int = 0
    last: int = 0
    """The step that found it."""

    def look(self, state: PlanState) -> None:
        """Keep the plans of a state if they are cheaper."""
        if state.cost < self.cost * (1 - 1e-12):
            self.cost, self.trees, self.last = state.cost, list(state.trees), self.steps
            self.history.append(SearchProgress(monotonic() - self.started, self.cost))

    @property
    def is_stuck(self) -> bool:
        """Whether the search has found nothing cheaper for PATIENCE steps."""
        return self.steps - self.last > PATIENCE


def _best_of(state: PlanState) -> Best:
    best = Best(monotonic())
    best.look(state)
    return best


Heuristic = Callable[[Neighbourhood, float], Best]


def anneal(near: Neighbourhood, deadline: float) -> Best:
    """Simulated annealing: a neighbour that costs Δ more is accepted with probability exp(-Δ / c_k)."""
    state, rng = near.state, near.rng
    best = _best_of(state)
    warmest = _largest_difference(near, deadline)
    heat = warmest
    while monotonic() < deadline and not best.is_stuck:
        best.steps += 1
        before = state.cost
        undo = state.apply(near.draw())
        worse = state.cost - before
        if worse > 0 and (heat <= COLDEST * warmest or rng.random() >= exp(-worse / heat)):
            _undo(state, undo, before)
        best.look(state)
        heat *= COOLING
    return best


def _largest_difference(near: Neighbourhood, deadline: float) -> float:
    """c_0, from as many probes as a tenth of the time allows."""
    state, most = near.state, 0.0
    soon = monotonic() + (deadline - monotonic()) / 10
    for _ in range(PROBES):
        before = state.cost
        undo = state.apply(near.draw())
        most = max(most, abs(state.cost - before))
        _undo(state, undo, before)
        if monotonic() > soon:
            break
    return most or 1.0


def _undo(state: PlanState, undo: Changes, cost: float) -> None:
    """Go back to a state of known cost."""
    state.apply(undo)
    state.cost = cost  # exactly, so that rounding errors do not add up


def tabu(near: Neighbourhood, deadline: float) -> Best:
    """Tabu search: go to the cheapest of 100 neighbours not visited lately, even if it costs more."""
    state = near.state
    best = _best_of(state)
    visited: OrderedDict[int, None] = OrderedDict()
    while monotonic() < deadline and not best.is_stuck:
        found = _cheapest_unvisited(near, best, visited, deadline)
        if found is None:
            continue
        mark, changes = found
        state.apply(changes)
        visited[mark] = None
        if len(visited) > TABU_LENGTH:
            visited.popitem(last=False)
        best.look(state)
    return best


def _cheapest_unvisited(
    near: Neighbourhood, best: Best, visited: OrderedDict[int, None], deadline: float
) -> tuple[int, Changes] | None:
    """The mark of the cheapest neighbour, and the changes that lead there."""
    state, before, least = near.state, near.state.cost, float("inf")
    found: tuple[int, Changes] | None = None
    for _ in range(TABU_NEIGHBOURS):
        best.steps += 1
        changes = near.draw()
        undo = state.apply(changes)
        mark = hash(tuple(state.trees))
        if changes and mark not in visited and state.cost < least:
            least, found = state.cost, (mark, changes)
        _undo(state, undo, before)
        if monotonic() > deadline:
            break
    return found


HEURISTICS: dict[str, Heuristic] = {"annealing": anneal, "tabu": tabu}
