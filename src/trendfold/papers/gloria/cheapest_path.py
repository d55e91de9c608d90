"""The cheapest path through a graph: one node of every pool (Definition 4.3).

Three cases, as in Algorithm 1. With one end node, the kept edges lead back from it; likewise if every end
node is reached by one path only. Otherwise edges are reversed: distances to the ends give each node one best
successor too, and so one path through every node of a pool.

If paths diverge and meet again, the paths of two nodes may disagree in a pool before both: the first one
found wins; another path takes the pools in order, so that its nodes always fit; and in the cheapest paths
every pool is then re-optimized given its neighbours.

Source: GLORIA (SIGMOD 2022), Section 5.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from trendfold.papers.gloria.graph import GloriaGraph, GloriaNode
from trendfold.papers.gloria.template import bits

Path = dict[int, GloriaNode]
"""Per pool its node."""

ASKED, SWEEPS = 16, 3
"""How many paths are re-optimized, and the maximum number of sweeps."""


def path_cost(graph: GloriaGraph, path: Path) -> float:
    """The weight of a path: every pool and every evaluation once (Lemma 4.4), and where trends begin."""
    cost = sum(graph.weights.start(s, q.bit_count()) for s, q in graph.template.starts.items())
    for _, node in sorted(path.items()):  # a fixed order, so that equal paths have equal sums
        cost += node.own + node.ending
        for number, state in node.pool.preceding:
            cost += graph.evaluation(path[number], node, state)
    return cost


def alone_path(graph: GloriaGraph) -> Path:
    """The path that shares nothing: generation puts its node last."""
    return {pool.number: graph.nodes[pool.number][-1] for pool in graph.pools}


def _known_path(graph: GloriaGraph) -> Path:
    found = {}
    for pool, sets in zip(graph.pools, graph.known, strict=True):
        found[pool.number] = next(node for node in graph.nodes[pool.number] if node.sets == sets)
    return found


def find_path(graph: GloriaGraph) -> Path:
    """The cheapest path found; never dearer than sharing nothing, or than a known plan."""
    path: Path = {}
    safe = [alone_path(graph), *([_known_path(graph)] if graph.known else [])]
    for pools in _connected(graph):
        candidates = sorted(_candidates(graph, pools), key=lambda each: _part_cost(graph, each))[:ASKED]
        candidates += [{number: each[number] for number in pools} for each in safe]
        for each in candidates:
            _ask_again(graph, each)
        best = min(candidates, key=lambda each: _part_cost(graph, each))
        path |= best
    return path


def _part_cost(graph: GloriaGraph, path: Path) -> float:
    """The weight of a path through some pools, which no others precede or follow, but for beginnings."""
    return sum(
        node.own
        + node.ending
        + sum(graph.evaluation(path[number], node, state) for number, state in node.pool.preceding)
        for node in path.values()
    )


def _connected(graph: GloriaGraph) -> Iterator[list[int]]:
    """Pools that are connected by edges, in order."""
    left = (1 << len(graph.pools)) - 1
    near = [sum({1 << number for number, _ in (*pool.preceding, *pool.following)}) for pool in graph.pools]
    while left:
        found = fresh = left & -left
        while fresh:
            reached = 0
            for number in bits(fresh):
                reached |= near[number]
            fresh = reached & ~found
            found |= fresh
        left &= ~found
        yield list(bits(found))


def _candidates(graph: GloriaGraph, pools: list[int]) -> Iterator[Path]:
    """Algorithm 1 on connected pools; where ways back from the ends do not agree, case 3 comes in as well."""
    ends = _end_nodes(graph, pools)
    into = [number for numbers in ends.values() for number in numbers]
    if len(ends) == 1 or all(len(graph.nodes[number]) == 1 for number in into):
        path = _back_from_ends(graph, into)
        yield path
        if all(path[number] is way for node in path.values() for number, way in node.back.items()):
            return
    onward, to_end = _onward(graph, pools)
    widest = max(pools, key=lambda number: len(graph.nodes[number]))
    for node in graph.nodes[widest]:
        yield _complete([node], onward)
    yield _in_turn(graph, pools, to_end)


def _end_nodes(graph: GloriaGraph, pools: Iterable[int]) -> dict[str, list[int]]:
    """Per state where trends end the pools from which they come."""
    ends: dict[str, list[int]] = {}
    for number in pools:
        pool = graph.pools[number]
        for state in (pool.target,) if pool.cycle is None else pool.cycle.states:
            if graph.template.ends.get(state, 0) & pool.queries:
                ends.setdefault(state, []).append(number)
    return ends


def _back_from_ends(graph: GloriaGraph, into: list[int]) -> Path:
    """Cases 1 and 2: the best edge into an end node from each pool, and the ways back that were kept."""
    best = [min(graph.nodes[number], key=lambda node: node.through) for number in into]
    return _complete(best, {})


Onward = dict[int, dict[int, GloriaNode]]
"""Per node (by its id) and following pool the node on the best way from it to the ends."""


def _onward(graph: GloriaGraph, pools: list[int]) -> tuple[Onward, dict[int, float]]:
    """Reversed edges: edge pruning backwards, and d_e with what a node itself costs, by its id."""
    onward: Onward = {}
    to_end: dict[int, float] = {}
    nearest: dict[int, list[tuple[float, GloriaNode]]] = {}
    for number in reversed(pools):
        distances = []
        for node in graph.nodes[number]:
            total, ways = node.own + node.ending, onward.setdefault(id(node), {})
            for following, state in node.pool.following:
                best, ways[following] = inf, nearest[following][0][1]
                for ahead, other in nearest[following]:
                    if ahead >= best and graph.prunes:
                        break
                    found = ahead + graph.evaluation(node, other, state)
                    if found < best:
                        best, ways[following] = found, other
                total += best
            distances.append((total, node))
            to_end[id(node)] = total
        nearest[number] = sorted(distances, key=lambda each: each[0])
    return onward, to_end


def _in_turn(graph: GloriaGraph, pools: list[int], to_end: dict[int, float]) -> Path:
    """Every pool takes the node that is nearest to the ends, given those before it: the nodes always fit."""
    path: Path = {}
    for number in pools:
        preceding = graph.pools[number].preceding
        path[number] = min(
            graph.nodes[number],
            key=lambda node: to_end[id(node)] + sum(graph.evaluation(path[k], node, s) for k, s in preceding),
        )
    return path


def _complete(through: list[GloriaNode], onward: Onward) -> Path:
    """The path through given nodes: back by edges that were kept, and forward; what is first found stands."""
    path: Path = {}
    waiting = list(through)
    while waiting:
        node = waiting.pop()
        if node.pool.number not in path:
            path[node.pool.number] = node
            waiting += onward.get(id(node), {}).values()
            waiting += node.back.values()
    return path


def _ask_again(graph: GloriaGraph, path: Path) -> None:
    """Every pool takes its best node, given those before and behind it, until none does better."""
    for _ in range(SWEEPS):
        changed = [_take_best(graph, path, number) for number in list(path) if len(graph.nodes[number]) > 1]
        if not any(changed):
            return


def _take_best(graph: GloriaGraph, path: Path, number: int) -> bool:
    best, cost = path[number], _local_cost(graph, path, path[number])
    for node in graph.nodes[number]:
        if node is not path[number] and (found := _local_cost(graph, path, node)) < cost:
            best, cost = node, found
    is_other = best is not path[number]
    path[number] = best
    return is_other


def _local_cost(graph: GloriaGraph, path: Path, node: GloriaNode) -> float:
    """The cost of a node with its neighbours on the path."""
    cost = node.own + node.ending
    cost += sum(graph.evaluation(path[number], node, state) for number, state in node.pool.preceding)
    return cost + sum(graph.evaluation(node, path[number], state) for number, state in node.pool.following)
