"""The nodes of a pool: the paper's node generation and node pruning principles.

The Q-sets that arrive from one node of every preceding pool (its *parts*) give nodes that

    reuse     Q-sets and their snapshots                                        (principle 1)
    local     keep Q-sets, but start with snapshots of the pool's own state     (principle 2)
    merge     merge all Q-sets, with such snapshots                             (principle 3)

in every combination over parts, one that merges all parts, and one that shares nothing. A Q-set of one query
is that query alone.

Source: GLORIA (SIGMOD 2022), Sections 5.1, 5.2 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from math import inf, prod

from trendfold.papers.gloria.graph import GloriaGraph, GloriaNode, NodePool, QSet, Sets
from trendfold.papers.gloria.kleene import close
from trendfold.papers.gloria.template import bits

MOST_COMBINATIONS = 64
"""If there are more combinations of parts, those of nearer nodes are used; unpruned, four times as many."""


MOST_EDGES, FEWEST_NODES = 120_000, 16
"""A graph has about this many edges. Each pool keeps the nearest nodes, at least so many, and leaves the
edges that it does not need to later pools."""


def alone(pool: NodePool) -> Sets:
    """The node that shares nothing."""
    return tuple(QSet(1 << q, "") for q in bits(pool.queries))


def in_order(sets: Iterable[QSet]) -> Sets:
    """Q-sets as a node has them."""
    return tuple(sorted(sets, key=lambda own: own.queries & -own.queries))


def together(queries: int, pool: NodePool, snapshot: str) -> Iterator[QSet]:
    """Queries as one Q-set of each kind; those that nobody goes with are by themselves."""
    for kind in pool.kinds:
        own = queries & kind
        if own.bit_count() > 1:
            yield QSet(own, snapshot)
        elif own:
            yield QSet(own, "")


def generate(graph: GloriaGraph, pool: NodePool) -> list[Sets]:
    """All nodes of a pool, each once; the one that shares nothing is last."""
    made: dict[Sets, None] = {}
    if pool.cycle is not None:
        made |= dict.fromkeys(_paths(pool))
    else:
        options = [[*_variants(graph, pool, part)] for part in _parts(graph, pool)]
        for combination in combine(options, MOST_COMBINATIONS if graph.prunes else 4 * MOST_COMBINATIONS):
            made[in_order(own for part in combination for own in part)] = None
        made[in_order(together(pool.queries, pool, pool.source))] = None
    made |= dict.fromkeys(graph.known_at(pool))
    made.pop(alone(pool), None)
    return [*made, alone(pool)]


def _paths(pool: NodePool) -> Iterator[Sets]:
    """The path generation principle: all of a Kleene sub-pattern with one state's snapshots."""
    cycle = pool.cycle
    assert cycle is not None
    for state in cycle.states:
        yield in_order(
            own._replace(origins=tuple(close(cycle, own.queries, [state]).values())) if own.snapshot else own
            for own in together(pool.queries, pool, state)
        )


Part = tuple[int, tuple[tuple[tuple[int, str], ...], ...]]
"""Queries from one preceding pool, and the Q-sets with snapshots they can arrive in, cheapest first."""


def _parts(graph: GloriaGraph, pool: NodePool) -> Iterator[Part]:
    """Queries by the preceding pool they come from; those that begin here or come from several are apart."""
    seen, twice = 0, graph.template.starts.get(pool.source, 0) & pool.queries
    for number, _ in pool.preceding:
        here = graph.pools[number].queries & pool.queries
        seen, twice = seen | here, twice | (seen & here)
    for number, state in pool.preceding:
        queries = graph.pools[number].queries & pool.queries & ~twice
        if queries:
            firsts = sorted(graph.nodes[number], key=lambda node: node.through)
            yield queries, tuple(dict.fromkeys(_arrived(node, state, queries, pool) for node in firsts))
    if twice:
        yield twice, ((),)


def _arrived(node: GloriaNode, state: str, queries: int, pool: NodePool) -> tuple[tuple[int, str], ...]:
    found = []
    for held, snapshot in node.held[state]:
        for kind in pool.kinds:
            if (own := held & queries & kind).bit_count() > 1:
                found.append((own, snapshot))
    return tuple(found)


def _variants(graph: GloriaGraph, pool: NodePool, part: Part) -> Iterator[tuple[QSet, ...]]:
    """The Q-sets of a part under each principle; its remaining queries are not shared."""
    queries, arrivals = part
    here = graph.weights.events(pool.source)
    made: dict[tuple[QSet, ...], None] = {}
    for arrived in arrivals:
        left = queries & ~sum(own for own, _ in arrived)
        rest = tuple(QSet(1 << q, "") for q in bits(left))
        rarer = [i for i, (_, snapshot) in enumerate(arrived) if here < graph.weights.events(snapshot)]
        for changed in _choices(rarer):
            sets = (QSet(q, pool.source if i in changed else s) for i, (q, s) in enumerate(arrived))
            made[(*sets, *rest)] = None
    made[tuple(together(queries, pool, pool.source))] = None
    yield from made


def _choices(numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All subsets; for many numbers only the empty set, singletons, and all."""
    sizes = range(len(numbers) + 1) if len(numbers) <= 3 else sorted({0, 1, len(numbers)})
    for size in sizes:
        yield from combinations(numbers, size)


def combine(
    options: Sequence[Sequence[tuple[QSet, ...]]], most: int
) -> Iterator[tuple[tuple[QSet, ...], ...]]:
    """All combinations of one option per part; if too many, those of near nodes."""
    few = [list(each) for each in options]
    while prod(map(len, few)) > most:
        longest = max(few, key=len)
        del longest[-2]
    yield from product(*few)
    first = tuple(each[0] for each in options)
    for i, each in enumerate(options):
        for other in each[len(few[i]) - 1 : -1]:
            yield (*first[:i], other, *first[i + 1 :])


# ---------------------------------------------------------------- pruning


def prune(graph: GloriaGraph, nodes: Sequence[GloriaNode]) -> tuple[list[GloriaNode], list[GloriaNode]]:
    """The node pruning principle: of equal Q-sets, those that are farther and have more snapshots go.

    Those that are farther away than a plan that is known go too. The node that shares nothing and that of the
    known plan stay. Returns those kept and those pruned.
    """
    stay = [nodes[-1].sets, *graph.known_at(nodes[0].pool)]
    kept: dict[tuple[int, ...], list[GloriaNode]] = {}
    bound = graph.bound if nodes[0].pool.counts_once else inf
    for node in sorted(nodes, key=lambda each: each.distance):
        comparable = kept.setdefault(tuple(own.queries for own in node.sets), [])
        node.pruned_by = next((other for other in comparable if _has_fewer(graph, other, node)), None)
        is_far = node.distance > bound
        node.is_pruned = node.sets not in stay and (is_far or node.pruned_by is not None)
        if not node.is_pruned:
            comparable.append(node)
    left = [node for node in nodes if not node.is_pruned and node.sets not in stay]
    for node in sorted(left, key=lambda each: each.through)[_most_nodes(graph, nodes[0].pool) :]:
        node.is_pruned = True
    return [n for n in nodes if not n.is_pruned], [n for n in nodes if n.is_pruned]


def _most_nodes(graph: GloriaGraph, pool: NodePool) -> int:
    _, edges = graph.size
    free = MOST_EDGES * (pool.number + 1) // len(graph.pools) - edges
    return max(FEWEST_NODES, free // max(1, sum(len(graph.nodes[number]) for number, _ in pool.preceding)))


def _has_fewer(graph: GloriaGraph, one: GloriaNode, other: GloriaNode) -> bool:
    """Whether each Q-set of one node has snapshots of a state that is no more frequent than the other's."""
    events = graph.weights.events
    return all(
        bool(a.snapshot) == bool(b.snapshot) and (not a.snapshot or events(a.snapshot) <= events(b.snapshot))
        for a, b in zip(one.sets, other.sets, strict=True)
    )
