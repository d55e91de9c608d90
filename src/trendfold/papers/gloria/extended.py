"""Sharing plans beyond the paper's: Q-sets may split, merge with others, or leave single queries.

The paper merges all Q-sets or none, and never splits a Q-set (Lemma 5.2); tests/papers/gloria has cases in
which both miss the best plan. Here each query of a pool chooses one of:

    go on       with its current expression, together with the other queries of its Q-set that go on
    begin       with new snapshots of the state, together with all queries that do so
    alone       without sharing

No other choice can be better: evaluation is paid per query, so queries with the same choice only gain by
sharing. The rest of a plan depends only on the nodes of pools with successors to come (the *front*), so the
cheapest choice per front is kept. If no front is dropped, the plan found is optimal; if there are more than
`width`, the cheapest are kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from trendfold.papers.gloria.candidates import alone, in_order, together
from trendfold.papers.gloria.cheapest_path import Path, path_cost
from trendfold.papers.gloria.graph import GloriaGraph, GloriaNode, NodePool, QSet, Sets, make_pools
from trendfold.papers.gloria.kleene import cuttings
from trendfold.papers.gloria.path_cost import Weights
from trendfold.papers.gloria.search import FoundPlan, found, optimize
from trendfold.papers.gloria.template import GloriaTemplate, bits

FEW = 6
"""Up to this many queries, the limits are large enough that no test drops a front or choice."""
MOST_FRONTS = 2_000, 8
"""The most fronts kept, for few and for many queries."""
MOST_CHOICES = 3_000, 64
"""With more combinations, queries with the same future choose together, or all but one alike."""

GO_ON, BEGIN, ALONE = "go on", "begin", "alone"


@dataclass(frozen=True)
class Front:
    """The nodes of pools that still have successors, the cost so far, and the path behind them."""

    cost: float
    nodes: tuple[GloriaNode, ...]
    node: GloriaNode | None = None
    before: Front | None = None


@dataclass(frozen=True)
class FrontSearch:
    """A graph without nodes, and how widely it is searched; `ahead` are the pools of every query."""

    graph: GloriaGraph
    bound: float
    fronts: int
    choices: int
    ahead: tuple[tuple[int, ...], ...]


def optimize_extended(template: GloriaTemplate, weights: Weights) -> FoundPlan:
    """The best plan found; never dearer than the paper's."""
    paper = optimize(template, weights)
    graph = GloriaGraph(template, weights, make_pools(template), splits=True)
    graph.nodes = [[graph.weigh(pool, alone(pool))] for pool in graph.pools]
    is_many = len(template.positions) > FEW
    ahead = tuple(
        tuple(pool.number for pool in graph.pools if pool.queries >> q & 1)
        for q in range(len(template.positions))
    )
    search = FrontSearch(graph, paper.cost, MOST_FRONTS[is_many], MOST_CHOICES[is_many], ahead)
    path = _cheapest(search)
    return found(graph, path) if path and path_cost(graph, path) < paper.cost else paper


def _cheapest(search: FrontSearch) -> Path:
    """The cheapest path by fronts; none if all are dearer than the bound."""
    graph = search.graph
    begin = sum(graph.weights.start(s, q.bit_count()) for s, q in graph.template.starts.items())
    last_use = {first: pool.number for pool in graph.pools for first, _ in pool.preceding}
    fronts = [Front(begin, ())]
    for pool in graph.pools:
        fresh: dict[tuple[Sets, ...], Front] = {}
        known: dict[Sets, GloriaNode] = {}
        for front in fronts:
            stays = tuple(n for n in front.nodes if last_use.get(n.pool.number, -1) > pool.number)
            for node, cost in _nexts(search, pool, front, known):
                nodes = (*stays, node) if pool.number in last_use else stays
                key = tuple(each.sets for each in nodes)
                if key not in fresh or cost < fresh[key].cost:
                    fresh[key] = Front(cost, nodes, node, front)
        fronts = sorted(fresh.values(), key=lambda front: front.cost)[: search.fronts]
    return _path_of(fronts[0]) if fronts else {}


def _nexts(
    search: FrontSearch, pool: NodePool, front: Front, known: dict[Sets, GloriaNode]
) -> Iterator[tuple[GloriaNode, float]]:
    """The nodes that can follow a front, and what all costs with them."""
    graph, came = search.graph, {node.pool.number: node for node in front.nodes}
    for sets in _choices(search, pool, came):
        if sets not in known:
            known[sets] = graph.weigh(pool, sets)
        node = known[sets]
        cost = front.cost + node.own + node.ending
        cost += sum(graph.evaluation(came[number], node, state) for number, state in pool.preceding)
        if cost <= search.bound and not _is_lonely(node):
            yield node, cost


def _is_lonely(node: GloriaNode) -> bool:
    """Whether one query begins with snapshots that it shares with nobody: then it is by itself."""
    return node.pool.cycle is not None and any(
        origin == state and queries.bit_count() == 1
        for state, held in node.held.items()
        for queries, origin in held
    )


def _path_of(front: Front | None) -> Path:
    path: Path = {}
    while front is not None:
        if front.node is not None:
            path[front.node.pool.number] = front.node
        front = front.before
    return path


Arrived = tuple[int, str]
"""Queries that arrive with one expression, and its snapshots; empty if they cannot go on with it."""


def _arrivals(graph: GloriaGraph, pool: NodePool, came: dict[int, GloriaNode]) -> list[Arrived]:
    """The queries of a pool by what they come with, from every pool they come from."""
    started = 0
    for state in (pool.source,) if pool.cycle is None else pool.cycle.states:
        started |= graph.template.starts.get(state, 0) & pool.queries
    groups: list[tuple[int, str | None]] = [(kind & ~started, None) for kind in pool.kinds]
    for number, state in pool.preceding:
        node, split = came[number], []
        for queries, snapshot in groups:
            here = queries & node.pool.queries
            split.append((queries & ~here, snapshot))
            for held, origin in node.held[state]:
                fits = origin if snapshot in (None, origin) and origin != state else ""
                split.append((here & held, fits))
                here &= ~held
            split.append((here, ""))
        groups = split
    found = [(queries, snapshot or "") for queries, snapshot in groups if queries]
    return found + [(kind & started, "") for kind in pool.kinds if kind & started]


Unit = tuple[int, str, int]
"""Queries that choose together, the snapshots they can go on with, and the index of their arrival."""


def _choices(search: FrontSearch, pool: NodePool, came: dict[int, GloriaNode]) -> Iterator[Sets]:
    arrivals = _arrivals(search.graph, pool, came)
    begins: Sequence[object] = [BEGIN] if pool.cycle is None else cuttings(pool.cycle, pool.queries)
    units = _units(search, pool, arrivals, len(begins))
    options = [[*([GO_ON] if snapshot else []), *begins, ALONE] for _, snapshot, _ in units]
    made: dict[Sets, None] = {}
    for choice in _vary(options, search.choices):
        made[_sets(pool, units, choice)] = None
    yield from made


def _units(search: FrontSearch, pool: NodePool, arrivals: Sequence[Arrived], begins: int) -> list[Unit]:
    """Every query by itself, if that is not too many; else those of one future, or all that come together."""
    single = [(1 << q, snapshot, i) for i, (queries, snapshot) in enumerate(arrivals) for q in bits(queries)]
    if (begins + 2) ** len(single) <= search.choices:
        return single
    alike: dict[tuple[tuple[int, ...], str, int], int] = {}
    for own, snapshot, i in single:
        pools = search.ahead[own.bit_length() - 1]
        key = pools[bisect_right(pools, pool.number) :], snapshot, i if snapshot else -1
        alike[key] = alike.get(key, 0) | own
    if (begins + 2) ** len(alike) <= search.choices:
        return [(queries, snapshot, i) for (_, snapshot, i), queries in alike.items()]
    return [(queries, snapshot, i) for i, (queries, snapshot) in enumerate(arrivals)]


def _vary(options: Sequence[Sequence[object]], most: int) -> Iterator[tuple[object, ...]]:
    """All combinations; if there are too many, the uniform ones, and those with one deviation."""
    if prod(map(len, options)) <= most:
        yield from product(*options)
        return
    for place in (0, 1, -1):
        base = tuple(each[min(place, len(each) - 1)] for each in options)
        yield base
        for i, each in enumerate(options[:most]):
            yield from ((*base[:i], other, *base[i + 1 :]) for other in each if other is not base[i])


def _sets(pool: NodePool, units: Sequence[Unit], choice: Sequence[object]) -> Sets:
    """The Q-sets of a choice; in a Kleene sub-pattern one for each way to cut it."""
    going: dict[tuple[int, str], int] = {}
    beginning: dict[tuple[str, ...], int] = {}
    left = 0
    for (queries, snapshot, arrival), how in zip(units, choice, strict=True):
        if how == GO_ON:
            going[arrival, snapshot] = going.get((arrival, snapshot), 0) | queries
        elif how == ALONE:
            left |= queries
        else:
            origins = tuple(how.values()) if isinstance(how, dict) else ()
            beginning[origins] = beginning.get(origins, 0) | queries
    sets = [QSet(queries, snapshot) for (_, snapshot), queries in going.items()]
    for origins, queries in beginning.items():
        if pool.cycle is None:
            sets += together(queries, pool, pool.source)
        else:
            label = next(filter(None, origins))
            sets += [QSet(queries & kind, label, origins) for kind in pool.kinds if queries & kind]
    return in_order([*sets, *(QSet(1 << q, "") for q in bits(left))])
