"""A plan that follows the rates of a stream: when it costs too much, another one takes over (Section 7.2).

The graph is kept in the memory of the process, and built again where it is missing. What a stream stores is
small: the rates by which the graph was built, and those by which the plan in force was chosen from it. Both
determine the plan, whichever process folds the next windows.

At every release the rates are averaged with those of the windows that end. If one has moved by more than a
threshold, and not by chance, the graph is re-weighted. A migration pays if the plan in force costs more than
the best path by that threshold, and if the difference, over as many windows as rates are expected to last, is
more than the reconfiguration. Windows are folded whole when they end, so a plan never meets expressions of
another one: it takes over with the windows that end next.

Source: GLORIA (SIGMOD 2022), Section 7.2.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from typing import Any, Generic, TypeVar

from trendfold.papers.gloria import SharingPlan
from trendfold.papers.gloria.cheapest_path import path_cost
from trendfold.papers.gloria.graph import GloriaGraph
from trendfold.papers.gloria.incremental import KeptWorkload, add, keep, remove, reweigh
from trendfold.papers.gloria.path_cost import Weights
from trendfold.papers.gloria.plan import fitted
from trendfold.papers.gloria.search import FoundPlan, begin
from trendfold.plan import Group, QueryPlan
from trendfold.plan.statistics import GroupStatistics

THRESHOLD = 0.2
"""By what fraction the plan in force may cost more than the best one, and rates may move unnoticed."""
CHANCE = 2.0
"""So many standard deviations of a count are no change."""
LASTING = 10.0
"""For how many windows rates are expected to last."""
MEMORY = 0.5
"""The weight of earlier windows in the rates."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanInForce:
    """What a stream stores of its plan; rates are events by type in one of the longest windows.

    rates       the current ones
    built       those by which the graph was built
    chosen      those by which the plan in force was chosen from the graph
    weighed     those by which the graph was last re-weighted
    cost, best  of the plan in force and of the best path, by `weighed`; `alone` is without sharing
    """

    rates: Mapping[str, float]
    built: Mapping[str, float]
    chosen: Mapping[str, float]
    weighed: Mapping[str, float]
    cost: float = 0.0
    best: float = 0.0
    alone: float = 0.0
    migrations: int = 0

    @staticmethod
    def begin(rates: Mapping[str, float]) -> PlanInForce:
        """The plan that is the best by these rates."""
        return PlanInForce(rates, rates, rates, {})

    def to_value(self) -> dict[str, Any]:
        """As a JSON value."""
        return asdict(self)


FOLLOWED = {"gloria": True, "gloria-noprune": False}
"""The strategies whose plans follow the rates of a stream, and whether they prune the graph."""


def followed(group: Group, known: GroupStatistics) -> tuple[SharingPlan, Mapping[str, Any], str]:
    """The plan of a group on a stream, what the stream stores of it, and the reason for it.

    Greedy plans are made anew for every release.
    """
    if group.strategy not in FOLLOWED:
        return fitted(group, known), {}, ""
    first = dict(group.rates) or known.frequencies
    before = PlanInForce(**known.running) if known.running else PlanInForce.begin(first)
    details, now = follow(group.members, known.frequencies, before, FOLLOWED[group.strategy])
    return details, now.to_value(), "it follows the rates of the stream"


def follow(
    members: Sequence[QueryPlan], measured: Mapping[str, float], before: PlanInForce, prunes: bool = True
) -> tuple[SharingPlan, PlanInForce]:
    """The plan for the windows that end now, given the rates measured in them."""
    now = replace(before, rates=_averaged(before.rates, measured))
    if _have_moved(now.rates, now.weighed):
        now = _look_again(members, now, prunes)
    return _PLANS.get(_chosen(members, now, prunes), lambda: _workload(members, now, prunes).plan()), now


def _look_again(members: Sequence[QueryPlan], now: PlanInForce, prunes: bool) -> PlanInForce:
    """Re-weight the graph, and migrate if that pays.

    What was pruned by the rates of old may be best now (Challenge 1): if quick searches find a cheaper
    plan, the graph is built anew.
    """
    running = _workload(members, now, prunes)
    weights = replace(running.found.graph.weights, frequencies=now.rates)
    other = replace(now, chosen=now.rates)
    best = _workload(members, other, prunes)
    if begin(running.found.graph.template, weights).known_cost < best.found.cost:
        other = replace(other, built=now.rates)
        best = _workload(members, other, prunes)
    cost, least = cost_by(running.found, weights), best.found.cost
    now = replace(now, weighed=now.rates, cost=cost, best=min(cost, least), alone=best.found.alone)
    gain = cost - least
    if gain <= THRESHOLD * least or LASTING * gain <= reconfiguration(running.plan(), best.plan(), weights):
        return now
    moved = now.migrations + 1
    return replace(now, built=other.built, chosen=other.chosen, cost=least, migrations=moved)


def cost_by(found: FoundPlan, weights: Weights) -> float:
    """What a path costs by other weights: only its own nodes are weighed."""
    graph = GloriaGraph(found.graph.template, weights, found.graph.pools)
    return path_cost(graph, {n: graph.weigh(node.pool, node.sets) for n, node in found.path.items()})


def reconfiguration(old: SharingPlan, new: SharingPlan, weights: Weights) -> float:
    """What it takes to replace expressions of the old plan that the new one does not carry on a transition.

    The paper evaluates the expression of every earlier event. Here a state has one running sum for all of its
    events, so Equation 4 is paid once per state.
    """
    kept = {(each.source, each.target): set(each.shares) for each in new.crossings}
    return sum(
        weights.model.evaluate(1.0, weights.events(share.snapshot), len(share.queries))
        for each in old.crossings
        for share in each.shares
        if share.snapshot and share not in kept.get((each.source, each.target), ())
    )


def _averaged(old: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    names = sorted({*old, *measured})
    return {n: MEMORY * old.get(n, 0.0) + (1 - MEMORY) * measured.get(n, 0.0) for n in names}


def _have_moved(rates: Mapping[str, float], before: Mapping[str, float]) -> bool:
    """Whether a rate has changed by more than the threshold, and more than counts vary by chance."""
    pairs = ((rates.get(n, 0.0), before.get(n, 0.0)) for n in {*rates, *before})
    return not before or any(abs(a - b) > THRESHOLD * b + CHANCE * sqrt(max(a, b)) for a, b in pairs)


# ---------------------------------------------------------------- graphs in memory

MOST_KEPT = 8
"""How many graphs, paths and plans a process keeps."""


@dataclass
class Recent(Generic[T]):
    """The values that were asked for most recently."""

    values: OrderedDict[Hashable, T] = field(default_factory=OrderedDict)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, made where it is missing."""
        if key not in self.values:
            self.values[key] = make()
        self.values.move_to_end(key)
        while len(self.values) > MOST_KEPT:
            self.values.popitem(last=False)
        return self.values[key]


_GRAPHS: Recent[KeptWorkload] = Recent()
_PATHS: Recent[KeptWorkload] = Recent()
_PLANS: Recent[SharingPlan] = Recent()


def forget_graphs() -> None:
    """Drop what this process keeps, as if it had just started."""
    for each in (_GRAPHS, _PATHS, _PLANS):
        each.values.clear()


def _workload(members: Sequence[QueryPlan], now: PlanInForce, prunes: bool) -> KeptWorkload:
    """The graph of queries with the path by the chosen rates."""
    return _PATHS.get(_chosen(members, now, prunes), lambda: _path(members, now, prunes))


def _path(members: Sequence[QueryPlan], now: PlanInForce, prunes: bool) -> KeptWorkload:
    built = _GRAPHS.get(_built(members, now, prunes), lambda: _build(members, now, prunes))
    return built if now.chosen == now.built else reweigh(built, now.chosen)


def _build(members: Sequence[QueryPlan], now: PlanInForce, prunes: bool) -> KeptWorkload:
    """From the graph of a workload that had other queries as well, or not yet all; or from scratch."""
    asked = [member.query for member in members]
    for kept in reversed(_GRAPHS.values.values()):
        there = [None if each is None else each.query for each in kept.members]
        gone = [q for q, query in enumerate(there) if query is not None and query not in asked]
        left = [query for query in there if query is not None and query in asked]
        is_like = kept.prunes == prunes and kept.found.graph.weights.frequencies == now.built
        if is_like and left and left == asked[: len(left)]:
            fewer = remove(kept, gone) if gone else kept
            more = members[len(left) :]
            return add(fewer, more) if more else fewer
    return keep(members, now.built, prunes=prunes)


def _built(members: Sequence[QueryPlan], now: PlanInForce, prunes: bool) -> Hashable:
    return tuple(member.query for member in members), _pairs(now.built), prunes


def _chosen(members: Sequence[QueryPlan], now: PlanInForce, prunes: bool) -> Hashable:
    return _built(members, now, prunes), _pairs(now.chosen)


def _pairs(rates: Mapping[str, float]) -> Hashable:
    return tuple(sorted(rates.items()))
