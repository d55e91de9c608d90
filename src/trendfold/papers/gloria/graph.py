"""The GLORIA graph: pools of transition sharing plans, weighted edges between consecutive pools, distances.

A pool belongs to a transition, or to a whole Kleene sub-pattern (see kleene.py). The weight of an edge is the
cost of the events of the state between its two nodes, for the queries in both (Definition 4.1):

    transition     Equations 2 and 3, by the Q-sets of the first node
    evaluation     Equation 4, for expressions that the second node does not reuse, once per query

A subset of a Q-set can reuse its expressions, so an edge has infinite weight if the second node reuses a
Q-set that is not a subset of one of the first.

Source: GLORIA (SIGMOD 2022), Sections 4 and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from trendfold.papers.gloria.kleene import Cycle, before, cycles_of, evaluation
from trendfold.papers.gloria.path_cost import Weights
from trendfold.papers.gloria.template import GloriaTemplate, bits


class QSet(NamedTuple):
    """Queries that go together, as bits; `snapshot` is empty for one query by itself.

    origins  in a Kleene sub-pattern, the snapshot state of each state; empty if one is used throughout
    """

    queries: int
    snapshot: str
    origins: tuple[str, ...] = ()


Sets = tuple[QSet, ...]
"""A transition sharing plan (Definition 2.6): a partition of a pool's queries, in their order."""


@dataclass(frozen=True)
class NodePool:
    """A transition, or a Kleene sub-pattern, and the queries that go through it.

    kinds      sets of queries that may share
    preceding  numbers of preceding pools, and the state of this pool they lead to
    following  numbers of following pools
    """

    number: int
    source: str
    target: str
    queries: int
    cycle: Cycle | None
    kinds: tuple[int, ...]
    preceding: tuple[tuple[int, str], ...] = ()
    following: tuple[tuple[int, str], ...] = ()
    counts_once: bool = True
    """Whether no pool is on two paths to this one, so that distances count each pool once."""

    def takes_over(self, own: QSet) -> bool:
        """Whether a Q-set reuses the expressions it arrives with."""
        if self.cycle is not None:
            return bool(own.snapshot) and not own.origins
        return own.snapshot not in ("", self.source)

    def __str__(self) -> str:
        if self.cycle is None:
            return f"{self.source} → {self.target}"
        return f"({', '.join(self.cycle.states)})+"


Held = dict[str, tuple[tuple[int, str], ...]]
"""For each state a pool leads to: queries that share an expression there, and its snapshots.

If the snapshots are the state's own, values are known.
"""


@dataclass(eq=False, slots=True)
class GloriaNode:
    """A candidate for a pool: what it shares, what that costs, and how it is best reached.

    own       the cost of the pool's transitions, in a Kleene sub-pattern including its evaluations
    ending    the cost of queries that end at its target
    taken     the Q-sets that reuse expressions, and all their queries
    held      the queries that arrive at each state with an expression
    distance  d_s of Equation 22
    back      the best predecessor node in each preceding pool
    """

    pool: NodePool
    sets: Sets
    own: float
    ending: float
    taken: tuple[QSet, ...]
    taken_queries: int
    held: Held
    distance: float = 0.0
    back: dict[int, GloriaNode] = field(default_factory=dict)
    is_pruned: bool = False
    pruned_by: GloriaNode | None = None

    @property
    def leaving(self) -> float:
        """The weight of its edges without evaluation; a Kleene sub-pattern's is part of its distance."""
        return 0.0 if self.pool.cycle is not None else self.own

    @property
    def through(self) -> float:
        """Its distance plus the cost of its pool."""
        return self.distance + self.leaving + self.ending

    def __str__(self) -> str:
        return ", ".join(set_text(own) for own in self.sets)


def set_text(own: QSet) -> str:
    """A Q-set in the paper's notation: `(1, 2)^A`."""
    return f"({', '.join(map(str, bits(own.queries)))}){'^' + own.snapshot if own.snapshot else ''}"


@dataclass
class GloriaGraph:
    """Pools in an order in which edges run forward; `nodes` are those kept, `pruned` the others.

    prunes  whether to prune edges and nodes that cannot be on the best path
    splits  whether queries of a Q-set may split; Lemma 5.2 says that this never pays
    bound   a cost that a plan can have: if distances count pools once, farther nodes are useless
    known   per pool the node of a known plan, which is never pruned: no plan found costs more than that
    """

    template: GloriaTemplate
    weights: Weights
    pools: tuple[NodePool, ...]
    prunes: bool = True
    splits: bool = False
    bound: float = inf
    known: tuple[Sets, ...] = ()
    known_cost: float = inf
    nodes: list[list[GloriaNode]] = field(default_factory=list)
    pruned: list[list[GloriaNode]] = field(default_factory=list)

    def known_at(self, pool: NodePool) -> tuple[Sets, ...]:
        """The node of the known plan in a pool, if there is one."""
        return self.known[pool.number : pool.number + 1]

    def weigh(self, pool: NodePool, sets: Sets) -> GloriaNode:
        """A node with all that does not depend on others."""
        taken = tuple(each for each in sets if pool.takes_over(each))
        if pool.cycle is None:
            held = {pool.target: tuple((own.queries, own.snapshot) for own in sets if own.snapshot)}
            own = sum(self.weights.cross(pool.source, pool.target, each.snapshot) for each in sets)
        else:
            held = together_at(pool, sets)
            own = self._cycle_cost(pool.cycle, sets, held)
        node = GloriaNode(pool, sets, own, 0.0, taken, sum(each.queries for each in taken), held)
        node.ending = sum(self._ending(pool, state, held[state]) for state in held)
        return node

    def _cycle_cost(self, cycle: Cycle, sets: Sets, held: Held) -> float:
        """Equations 2 to 4 inside a Kleene sub-pattern."""
        cost = 0.0
        for source, target in cycle.transitions:
            left = cycle.queries & ~sum(queries for queries, _ in held[source])
            cost += left.bit_count() * self.weights.cross(source, target, "")
            cost += sum(self.weights.cross(source, target, snapshot) for _, snapshot in held[source])
        for own in sets:
            if own.origins:
                origins = dict(zip(cycle.states, own.origins, strict=True))
                cost += evaluation(cycle, origins, own.queries.bit_count(), self.weights)
        return cost

    def _ending(self, pool: NodePool, state: str, held: tuple[tuple[int, str], ...]) -> float:
        """Equation 4 for the queries whose trends end where the pool leads to."""
        ended = self.template.ends.get(state, 0) & pool.queries
        return sum(
            self.weights.end(state, snapshot, (queries & ended).bit_count())
            for queries, snapshot in held
            if snapshot != state
        )

    def evaluation(self, first: GloriaNode, second: GloriaNode, state: str) -> float:
        """The cost of evaluating expressions between two nodes; infinity if the nodes do not fit."""
        held = first.held[state]
        if not _fits(first, second, held) or not (self.splits or _stays(second, held)):
            return inf
        if not held:
            return 0.0
        asked = second.pool.queries & ~second.taken_queries & ~self.template.ends.get(state, 0)
        cost = 0.0
        for queries, snapshot in held:
            if snapshot != state and queries & asked:
                cost += self.weights.evaluate(state, snapshot, (queries & asked).bit_count())
        return cost

    def connect(self, nodes: Sequence[GloriaNode]) -> None:
        """Equation 22 for the nodes of a pool, and the edge pruning principle: one way from each other pool.

        Evaluation costs nothing less than nothing, so edges from nodes that are too far away are not weighed.
        """
        begin = self._beginning(nodes[0].pool)
        for node in nodes:
            node.distance = begin + node.own - node.leaving
        for number, state in nodes[0].pool.preceding:
            ways = sorted(
                ((first.distance + first.leaving, first) for first in self.nodes[number]),
                key=lambda way: way[0],
            )
            for node in nodes:
                best, node.back[number] = inf, ways[0][1]
                for so_far, first in ways:
                    if so_far >= best and self.prunes:
                        break
                    found = so_far + self.evaluation(first, node, state)
                    if found < best:
                        best, node.back[number] = found, first
                node.distance += best

    def _beginning(self, pool: NodePool) -> float:
        states = (pool.source,) if pool.cycle is None else pool.cycle.states
        started = [(s, self.template.starts.get(s, 0) & pool.queries) for s in states]
        return sum(self.weights.start(s, queries.bit_count()) for s, queries in started if queries)

    def reweighted(self, weights: Weights) -> GloriaGraph:
        """The same nodes with new weights and distances, in one pass over nodes and edges (Section 7.2)."""
        graph = GloriaGraph(self.template, weights, self.pools, self.prunes, self.splits)
        for pool, kept in zip(self.pools, self.nodes, strict=True):
            fresh = [graph.weigh(pool, node.sets) for node in kept]
            graph.connect(fresh)
            graph.nodes.append([node for node in fresh if node.distance < inf])
            graph.pruned.append([])
        return graph

    @property
    def size(self) -> tuple[int, int]:
        """N and T: the number of nodes, and of edges between nodes of consecutive pools."""
        counts = [len(nodes) for nodes in self.nodes]
        made = self.pools[: len(counts)]
        edges = sum(counts[k] * counts[pool.number] for pool in made for k, _ in pool.preceding)
        return sum(counts), edges


# Loops instead of any() and all(): these two run for every edge.


def _fits(first: GloriaNode, second: GloriaNode, held: Sequence[tuple[int, str]]) -> bool:
    """Whether every Q-set that takes expressions over is part of one that has them."""
    for own in second.taken:
        if own.queries & first.pool.queries:
            for queries, snapshot in held:
                if snapshot == own.snapshot and not own.queries & ~queries:
                    break
            else:
                return False
    return True


def _stays(node: GloriaNode, held: Sequence[tuple[int, str]]) -> bool:
    """Whether the queries of each Q-set that go on together, and may, are in one again."""
    for queries, _ in held:
        for kind in node.pool.kinds:
            own = queries & kind
            if not own & (own - 1):
                continue
            for other in node.sets:
                if not own & ~other.queries:
                    break
            else:
                return False
    return True


def together_at(pool: NodePool, sets: Sets) -> Held:
    """Per state of a Kleene sub-pattern the queries that leave it together, and the snapshots they hold."""
    assert pool.cycle is not None
    cut = [own for own in sets if own.origins]
    carried = tuple((own.queries, own.snapshot) for own in sets if own.snapshot and not own.origins)
    found: Held = dict.fromkeys(pool.cycle.states, carried)
    for i, (state, labels) in enumerate(_labels(pool, cut).items()):
        groups: dict[tuple[str, object], int] = {}
        for own, label in zip(cut, labels, strict=True):
            if origin := own.origins[i]:
                groups[origin, label] = groups.get((origin, label), 0) | own.queries
        found[state] = (*((queries, origin) for (origin, _), queries in groups.items()), *carried)
    return found


def _labels(pool: NodePool, cut: Sequence[QSet]) -> dict[str, list[object]]:
    """Per state a label for every Q-set, equal for those that leave it together.

    Where events become snapshots all do that may; elsewhere those that came together, from everywhere.
    """
    cycle = pool.cycle
    assert cycle is not None
    kind = [next(k for k, queries in enumerate(pool.kinds) if queries & own.queries) for own in cut]
    origin = {state: [own.origins[i] for own in cut] for i, state in enumerate(cycle.states)}
    labels: dict[str, list[object]] = {s: [*zip(origin[s], kind, strict=True)] for s in cycle.states}
    for _ in cycle.states if len(cut) > 1 else ():
        finer: dict[str, list[object]] = {}
        for state, own in labels.items():
            came = [labels[p] for p in before(cycle, state)]
            finer[state] = [
                own[i] if origin[state][i] in ("", state) else (own[i], *(each[i] for each in came))
                for i in range(len(cut))
            ]
        labels = {state: [own.index(each) for each in own] for state, own in finer.items()}
    return labels


# ---------------------------------------------------------------- pools


def make_pools(template: GloriaTemplate) -> tuple[NodePool, ...]:
    """The pools of a template, each after those that precede it."""
    made = [_of_cycle(template, cycle) for cycle in cycles_of(template)]
    inside = {state: pool for pool in made if pool.cycle for state in pool.cycle.states}
    outer = [e for e in template.transitions if inside.get(e[0]) is None or e not in _inner(inside[e[0]])]
    made += [_of_transition(template, edge) for edge in outer]
    order = {state: i for i, state in enumerate(template.types)}
    for states in template.cycles:
        order |= dict.fromkeys(states, max(order[state] for state in states))
    made.sort(key=lambda pool: _place(pool, order))
    made = [replace(pool, number=number) for number, pool in enumerate(made)]
    into: dict[str, list[NodePool]] = {}
    for pool in made:
        for state in _heads(pool):
            into.setdefault(state, []).append(pool)
    preceding = {pool.number: _preceding(pool, into) for pool in made}
    following: dict[int, list[tuple[int, str]]] = {pool.number: [] for pool in made}
    for number, firsts in preceding.items():
        for first, state in firsts:
            following[first].append((number, state))
    once = _counted_once(preceding)
    return tuple(
        replace(
            p,
            preceding=tuple(preceding[p.number]),
            following=tuple(following[p.number]),
            counts_once=p.number in once,
        )
        for p in made
    )


def _counted_once(preceding: dict[int, list[tuple[int, str]]]) -> set[int]:
    """The pools to which no two paths share a pool."""
    behind: dict[int, int] = {}
    once = set()
    for number, firsts in preceding.items():
        behind[number] = 1 << number
        is_once = True
        for first in dict(firsts):
            is_once = is_once and first in once and not behind[number] & behind[first]
            behind[number] |= behind[first]
        if is_once:
            once.add(number)
    return once


def _place(pool: NodePool, order: dict[str, int]) -> tuple[int, int, int]:
    """Pools by the state they lead from; a Kleene sub-pattern's is before those that leave it."""
    if pool.cycle is not None:
        return order[pool.cycle.states[0]], 0, 0
    return order[pool.source], 1, order[pool.target]


def _inner(pool: NodePool) -> frozenset[tuple[str, str]]:
    return frozenset(pool.cycle.transitions) if pool.cycle is not None else frozenset()


def _of_transition(template: GloriaTemplate, edge: tuple[str, str]) -> NodePool:
    queries = template.transitions[edge]
    return NodePool(0, *edge, queries, None, template.alike.get(edge, (queries,)))


def _of_cycle(template: GloriaTemplate, cycle: Cycle) -> NodePool:
    kinds: tuple[int, ...] = (cycle.queries,)
    for edge in cycle.transitions:
        finer = template.alike.get(edge, (cycle.queries,))
        kinds = tuple(one & other for one in kinds for other in finer if one & other)
    return NodePool(0, "", "", cycle.queries, cycle, kinds)


def _heads(pool: NodePool) -> Sequence[str]:
    return (pool.target,) if pool.cycle is None else pool.cycle.states


def _preceding(pool: NodePool, into: dict[str, list[NodePool]]) -> list[tuple[int, str]]:
    """The pools that queries come from; a state of a Kleene sub-pattern stands for the whole sub-pattern."""
    states = (pool.source,) if pool.cycle is None else pool.cycle.states
    found = []
    for state in states:
        here = [p for p in into.get(state, ()) if p.number != pool.number and p.queries & pool.queries]
        through = [p for p in here if p.cycle is not None]
        found += [(p.number, state) for p in (through if pool.cycle is None and through else here)]
    return found
