"""The optimizers: template and weights -> sharing plan, by the paper's graph (pruned or not), or greedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from trendfold.papers.gloria import Alternative, Considered, Crossing, Share, SharingPlan
from trendfold.papers.gloria.candidates import alone, generate, prune
from trendfold.papers.gloria.cheapest_path import Path, alone_path, find_path, path_cost
from trendfold.papers.gloria.graph import GloriaGraph, GloriaNode, NodePool, make_pools
from trendfold.papers.gloria.path_cost import Weights
from trendfold.papers.gloria.template import GloriaTemplate, Transition, bits


@dataclass(frozen=True)
class FoundPlan:
    """A path in its graph, and what it costs beside sharing nothing."""

    graph: GloriaGraph
    path: Path
    cost: float
    alone: float


def build(template: GloriaTemplate, weights: Weights, prunes: bool = True) -> GloriaGraph:
    """The graph from start to end, pool by pool; each is pruned before the next is made."""
    graph = begin(template, weights, prunes)
    for pool in graph.pools:
        extend(graph, pool)
    return graph


def begin(template: GloriaTemplate, weights: Weights, prunes: bool = True) -> GloriaGraph:
    """A graph without nodes, which will hold the path of two quick searches: the one that is cheaper."""
    quick = min(optimize_greedily(template, weights), sketch(template, weights), key=lambda plan: plan.cost)
    pools = quick.graph.pools
    known = tuple(quick.path[pool.number].sets for pool in pools)
    return GloriaGraph(template, weights, pools, prunes, known=known, known_cost=quick.cost)


def extend(graph: GloriaGraph, pool: NodePool) -> None:
    """The nodes of the next pool."""
    nodes = connected(graph, pool)
    if len(nodes) > WIDE:
        graph.bound = graph.known_cost
    kept, pruned = prune(graph, nodes) if graph.prunes else (nodes, [])
    graph.nodes.append(kept)
    graph.pruned.append(pruned)


def connected(graph: GloriaGraph, pool: NodePool) -> list[GloriaNode]:
    """All nodes of a pool that can be reached, with their distances; the one that shares nothing is last."""
    nodes = [graph.weigh(pool, sets) for sets in generate(graph, pool)]
    graph.connect(nodes)
    return [node for node in nodes if node.distance < inf]


WIDE, NEAREST = 32, 3
"""From a pool with so many nodes on the known plan is a bound; and how many nodes per pool a sketch keeps."""


def sketch(template: GloriaTemplate, weights: Weights) -> FoundPlan:
    """A quick plan: only the nearest nodes of every pool are kept."""
    graph = GloriaGraph(template, weights, make_pools(template))
    for pool in graph.pools:
        *sharing, nothing = connected(graph, pool)
        graph.nodes.append([*sorted(sharing, key=lambda node: node.through)[:NEAREST], nothing])
    return find(graph)


def find(graph: GloriaGraph) -> FoundPlan:
    """The best path of a graph."""
    return found(graph, find_path(graph))


def found(graph: GloriaGraph, path: Path) -> FoundPlan:
    """A path with its costs."""
    return FoundPlan(graph, path, path_cost(graph, path), path_cost(graph, alone_path(graph)))


def optimize(template: GloriaTemplate, weights: Weights) -> FoundPlan:
    """The paper's optimizer."""
    return find(build(template, weights))


def optimize_unpruned(template: GloriaTemplate, weights: Weights) -> FoundPlan:
    """NoPrune of Section 8.1: the full graph, then the path."""
    return find(build(template, weights, prunes=False))


def optimize_greedily(template: GloriaTemplate, weights: Weights) -> FoundPlan:
    """Greedy of Section 8.1: per pool the nearest node of those that reuse, or the one that shares nothing.

    Where nothing arrives that could be reused, sharing begins; between equals the one that shares is taken.
    """
    graph = GloriaGraph(template, weights, make_pools(template))
    nothing = GloriaGraph(template, weights, graph.pools)
    path: Path = {}
    for pool in graph.pools:
        nodes = connected(graph, pool)
        best = min([n for n in nodes if n.taken] or nodes, key=lambda node: node.distance)
        path[pool.number] = best
        graph.nodes.append([best])
        graph.pruned.append([node for node in nodes if node is not best])
        nothing.nodes.append([nothing.weigh(pool, alone(pool))])
    return FoundPlan(graph, path, path_cost(graph, path), path_cost(nothing, alone_path(nothing)))


def plan_of(found: FoundPlan) -> SharingPlan:
    """A path as the value that the executor carries out."""
    template = found.graph.template
    shares: dict[Transition, tuple[Share, ...]] = {}
    for node in found.path.values():
        shares |= shares_of(node)
    crossings = tuple(Crossing(*edge, shares[edge]) for edge in template.transitions)
    considered = tuple(_considered(found, number) for number in range(len(found.graph.pools)))
    return SharingPlan(template.states, template.positions, crossings, found.cost, found.alone, considered)


def _considered(found: FoundPlan, number: int) -> Considered:
    graph, node = found.graph, found.path[number]
    pool = node.pool
    weight = node.own + node.ending
    weight += sum(graph.evaluation(found.path[k], node, state) for k, state in pool.preceding)
    others = [(other, False) for other in graph.nodes[number] if other.sets != node.sets]
    others += [
        (other, True) for other in (graph.pruned[number] if graph.pruned else ()) if other.distance < inf
    ]
    edges = ((pool.source, pool.target),) if pool.cycle is None else pool.cycle.transitions
    return Considered(
        edges,
        _told(node),
        weight,
        node.distance,
        tuple(Alternative(_told(other), other.distance, is_pruned) for other, is_pruned in others),
    )


def _told(node: GloriaNode) -> tuple[Share, ...]:
    return _shares((own.queries, own.snapshot) for own in node.sets)


def shares_of(node: GloriaNode) -> dict[Transition, tuple[Share, ...]]:
    """The shares of a node, per transition."""
    pool = node.pool
    if pool.cycle is None:
        return {(pool.source, pool.target): _shares((own.queries, own.snapshot) for own in node.sets)}
    found = {}
    for source, target in pool.cycle.transitions:
        held = node.held[source]
        left = pool.queries & ~sum(queries for queries, _ in held)
        found[source, target] = _shares([*held, *((1 << q, "") for q in bits(left))])
    return found


def _shares(held: Iterable[tuple[int, str]]) -> tuple[Share, ...]:
    return tuple(sorted((Share(tuple(bits(q)), snapshot) for q, snapshot in held), key=lambda s: s.queries))
