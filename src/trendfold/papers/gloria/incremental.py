"""Incremental planning: keep the graph when frequencies change, or queries are added or removed.

    reweigh   same nodes, new weights, new path: O(2N + 2T) for N nodes and T edges
    add       rebuild the pools of the new queries and those after them; keep all others
    remove    likewise

The paper plans added queries separately, which is even faster but shares nothing with the others. Here a pool
is kept if nothing before it has changed, so the plan is as good as planning from scratch.

Streams use it where their plans follow the rates of their events (follow.py).

Source: GLORIA (SIGMOD 2022), Section 7.2.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from trendfold.papers.gloria import Alternative, Considered, Crossing, Share, SharingPlan
from trendfold.papers.gloria.graph import GloriaGraph, NodePool
from trendfold.papers.gloria.path_cost import PAPER, CostModel, Weights
from trendfold.papers.gloria.plan import UNKNOWN, template_of
from trendfold.papers.gloria.search import FoundPlan, begin, build, extend, find, plan_of
from trendfold.papers.gloria.template import GloriaTemplate
from trendfold.plan import QueryPlan


@dataclass(frozen=True)
class KeptWorkload:
    """A workload under way; queries keep their numbers, and one that is gone is None.

    made  how many pools were made anew for it, the others were kept
    """

    members: tuple[QueryPlan | None, ...]
    found: FoundPlan
    prunes: bool = True
    made: int = 0

    def plan(self) -> SharingPlan:
        """The plan of the current queries, renumbered consecutively."""
        there = [q for q, member in enumerate(self.members) if member is not None]
        return _renumbered(plan_of(self.found), {q: number for number, q in enumerate(there)})


def keep(
    members: Sequence[QueryPlan],
    frequencies: Mapping[str, float] = UNKNOWN,
    model: CostModel = PAPER,
    prunes: bool = True,
) -> KeptWorkload:
    """Plan queries that fit into one group, and keep the graph."""
    template = template_of(members)
    graph = build(template, Weights(template.types, frequencies, model), prunes)
    return KeptWorkload(tuple(members), find(graph), prunes, len(graph.pools))


def reweigh(kept: KeptWorkload, frequencies: Mapping[str, float]) -> KeptWorkload:
    """A new path by new frequencies, through the nodes that are there."""
    graph = kept.found.graph
    weights = replace(graph.weights, frequencies=frequencies)
    return replace(kept, found=find(graph.reweighted(weights)), made=0)


def add(kept: KeptWorkload, members: Sequence[QueryPlan]) -> KeptWorkload:
    """More queries, numbered after all others."""
    return _changed(kept, (*kept.members, *members))


def remove(kept: KeptWorkload, queries: Collection[int]) -> KeptWorkload:
    """Without the queries of these numbers."""
    return _changed(kept, tuple(None if q in queries else each for q, each in enumerate(kept.members)))


def _changed(kept: KeptWorkload, members: tuple[QueryPlan | None, ...]) -> KeptWorkload:
    """The graph of other queries; pools that see nothing of the change keep their nodes."""
    before, template = kept.found.graph, template_of(members)
    graph = begin(template, replace(before.weights, types=template.types), kept.prunes)
    known = {_signature(before.template, before.pools, pool): pool.number for pool in before.pools}
    same: set[int] = set()
    for pool in graph.pools:
        number = known.get(_signature(template, graph.pools, pool))
        if number is None or any(first not in same for first, _ in pool.preceding):
            extend(graph, pool)
        else:
            _take_over(graph, pool, before, number)
            same.add(pool.number)
    return KeptWorkload(members, find(graph), kept.prunes, len(graph.pools) - len(same))


def _take_over(graph: GloriaGraph, pool: NodePool, before: GloriaGraph, number: int) -> None:
    *sharing, nothing = [node.sets for node in before.nodes[number]]
    kept = dict.fromkeys((*sharing, graph.known[pool.number], nothing))
    pruned = [node.sets for node in before.pruned[number] if node.sets not in kept]
    for each, new in ((kept, graph.nodes), (pruned, graph.pruned)):
        nodes = [graph.weigh(pool, sets) for sets in each]
        if nodes:
            graph.connect(nodes)
        new.append(nodes)


def _signature(template: GloriaTemplate, pools: Sequence[NodePool], pool: NodePool) -> Hashable:
    """Equal for pools that get the same nodes, if those before them do."""
    states = (pool.source, pool.target) if pool.cycle is None else pool.cycle.states
    sides = tuple(
        (template.starts.get(s, 0) & pool.queries, template.ends.get(s, 0) & pool.queries) for s in states
    )
    firsts = tuple((str(pools[number]), pools[number].queries, state) for number, state in pool.preceding)
    return states, pool.cycle is None, pool.queries, pool.kinds, sides, firsts


def _renumbered(plan: SharingPlan, number: Mapping[int, int]) -> SharingPlan:
    """A plan with renumbered queries."""

    def shares(own: tuple[Share, ...]) -> tuple[Share, ...]:
        return tuple(Share(tuple(number[q] for q in share.queries), share.snapshot) for share in own)

    return replace(
        plan,
        positions=tuple(at for q, at in enumerate(plan.positions) if q in number),
        crossings=tuple(Crossing(each.source, each.target, shares(each.shares)) for each in plan.crossings),
        considered=tuple(
            Considered(
                each.transitions,
                shares(each.chosen),
                each.weight,
                each.distance,
                tuple(Alternative(shares(o.shares), o.distance, o.is_pruned) for o in each.others),
            )
            for each in plan.considered
        ),
    )
