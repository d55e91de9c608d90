"""Local search for the plan of a workload (MCEP, sections 4 and 5, appendix B).

The search starts from every pattern's own best plan. A step takes a sub-pattern that patterns have in common,
plans it once, and plans these patterns anew around it; what they share already is kept or not, by chance.
It can be stopped at any time: the best plan so far is the answer.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp
from random import Random
from time import monotonic

from trendfold.detect.cost import Priced, PricedPart
from trendfold.detect.graph import Graph, Name, SubPattern
from trendfold.detect.local import best_order, best_tree
from trendfold.detect.multitree import Multitree, longest
from trendfold.detect.pattern import Tree, elements_of

COOLING, PROBES = 0.99, 1_000
"""Simulated annealing: c_k = 0.99 c_(k-1); c_0 is the largest difference among 1,000 neighbours."""
COLDEST = 1e-6
"""Of c_0: from there on the search only goes down."""
TABU_LENGTH, TABU_NEIGHBOURS = 10_000, 100
PATIENCE = 20_000
"""Steps without a better plan after which a search ends by itself."""

Changes = list[tuple[int, Tree]]
"""New plans of some patterns."""


@dataclass
class PlanState:
    """The plans of all patterns, what they cost together, and the tree they share."""

    priced: Sequence[Priced]
    trees: list[Tree]
    tree: Multitree = field(default_factory=Multitree)
    cost: float = 0.0
    _unit: dict[int, float] = field(default_factory=dict)
    """Per node its cost in a window of one unit."""
    _scale: dict[tuple[int | None, int], float] = field(default_factory=dict)
    """Per window and number of events, how many times as much it costs in that window."""
    _counted: dict[int, float] = field(default_factory=dict)
    """Per node the part of `cost` that it is."""

    def __post_init__(self) -> None:
        for number, plan in enumerate(self.trees):
            self._use(number, plan)

    def apply(self, changes: Changes) -> Changes:
        """Change some plans; returns what changes them back."""
        back = [(number, self.trees[number]) for number, _ in changes]
        for number, plan in changes:
            self._leave(number, self.trees[number])
            self.trees[number] = plan
            self._use(number, plan)
        return back

    def shared_parts(self, number: int) -> list[Tree]:
        """The largest subtrees of a plan that other plans use, too."""
        found: list[Tree] = []
        pattern = self.priced[number].pattern

        def visit(plan: Tree) -> None:
            if isinstance(plan, int):
                return
            if self.tree.users(self.tree.plan(number, pattern, plan).root) > 1:
                found.append(plan)
                return
            visit(plan[0])
            visit(plan[1])

        visit(self.trees[number])
        return found

    def _use(self, number: int, plan: Tree) -> None:
        pattern = self.priced[number].pattern
        planned = self.tree.add(number, pattern, plan)
        self._price(number, plan, planned.nodes)
        self._count(planned.nodes)

    def _leave(self, number: int, plan: Tree) -> None:
        pattern = self.priced[number].pattern
        self.tree.remove(number, pattern, plan)
        self._count(self.tree.plan(number, pattern, plan).nodes)

    def _count(self, nodes: tuple[int, ...]) -> None:
        """Bring the cost up to date where nodes are used by others than before."""
        for node in nodes:
            users = self.tree.windows.get(node)
            now = self.node_cost(node, users) if users else 0.0
            before = self._counted.get(node, 0.0)
            if now != before:
                self.cost += now - before
                self._counted[node] = now

    def node_cost(self, node: int, users: Counter[int | None]) -> float:
        """What a node costs per window, in the longest of those who use it."""
        key = longest(users), len(self.tree.nodes[node].leaves)
        if key not in self._scale:
            self._scale[key] = self.priced[0].statistics.window(key[0]) ** key[1]
        return self._unit[node] * self._scale[key]

    def _price(self, number: int, plan: Tree, nodes: tuple[int, ...]) -> None:
        if all(node in self._unit for node in nodes):
            return
        priced = self.priced[number]
        for node, (left, right) in zip(nodes, _joins(plan), strict=True):
            cost = priced.join(left, right) if right else 0.0
            self._unit.setdefault(node, cost / priced.window ** (left | right).bit_count())


def _joins(plan: Tree) -> list[tuple[int, int]]:
    """What every node of a plan joins, in the order in which a multitree lists them; a leaf joins nothing."""
    if isinstance(plan, int):
        return [(1 << plan, 0)]
    left, right = _joins(plan[0]), _joins(plan[1])
    return [*left, *right, (left[-1][0] | left[-1][1], right[-1][0] | right[-1][1])]


# ---------------------------------------------------------------- neighbours


@dataclass
class Neighbourhood:
    """N_edge and N_vertex^k: `together` patterns are planned anew around a common sub-pattern (edge: 2).

    With `is_prefix`, plans are orders, and only what they begin with is shared.
    """

    graph: Graph
    state: PlanState
    rng: Random
    together: int = 2
    is_prefix: bool = False
    _best: dict[tuple[int, object], Tree] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts = list(self.graph.shared)
        self.weights = [
            len(self.graph.shared[part]) * (len(self.graph.shared[part]) - 1) for part in self.parts
        ]

    def draw(self) -> Changes:
        """A random neighbour of the current state; nothing where it is the state itself."""
        (maximal,) = self.rng.choices(self.parts, self.weights)
        some = self.rng.choice(tuple(self.graph.shared[maximal]))
        names = self._subset(maximal)
        if not names:
            return self._unlike([(some, self._plan(some, ()))])
        part = self.graph.part(some, names)
        users = sorted(self.graph.shared[maximal] if self.together == 2 else self.graph.containing(part))
        chosen = self.rng.sample(users, min(self.together, len(users)))
        return self._unlike([(number, self._around(number, part)) for number in chosen])

    def _unlike(self, changes: Changes) -> Changes:
        return [(number, plan) for number, plan in changes if plan != self.state.trees[number]]

    def _subset(self, part: SubPattern) -> tuple[Name, ...]:
        """Any subset of two names or more, or none at all."""
        size = len(part)
        pick = self.rng.randrange(1 << size)
        if pick & (pick - 1):
            return tuple(name for i, name in enumerate(part.names) if pick >> i & 1)
        return () if not pick else part.names

    def _around(self, number: int, part: SubPattern) -> Tree:
        """A pattern's best plan with the sub-pattern's in it, and perhaps with what it shares already."""
        inner = self._part_plan(number, part)
        given = [inner]
        if not self.is_prefix and self.rng.random() < 0.5:
            taken = set(elements_of(inner))
            kept = self.state.shared_parts(number)
            given += [plan for plan in kept if not taken & set(elements_of(plan))]
        return self._plan(number, tuple(given))

    def _part_plan(self, number: int, part: SubPattern) -> Tree:
        """The best plan of a sub-pattern, in the elements of one pattern that has it."""
        key = (-1, part)
        if key not in self._best:
            owner = min(self.graph.containing(part))
            priced = self.state.priced[owner]
            at = self.graph.element[owner]
            elements = [at[name] for name in part.names]
            alone = PricedPart(priced, elements)
            self._best[key] = best_order(alone) if self.is_prefix else best_tree(alone)
        at = self.graph.element[number]
        return _renamed(self._best[key], [at[name] for name in part.names])

    def _plan(self, number: int, given: tuple[Tree, ...]) -> Tree:
        key = (number, given)
        if key not in self._best:
            priced = self.state.priced[number]
            if self.is_prefix:
                self._best[key] = best_order(priced, elements_of(given[0]) if given else ())
            else:
                self._best[key] = best_tree(priced, given)
        return self._best[key]


def _renamed(plan: Tree, names: Sequence[int]) -> Tree:
    """A plan of a part in the elements of a pattern that has it."""
    return names[plan] if isinstance(plan, int) else (_renamed(plan[0], names), _renamed(plan[1], names))


# ---------------------------------------------------------------- meta-heuristics


@dataclass(frozen=True, slots=True)
class Progress:
    """The cost of the best plan after some seconds of search."""

    seconds: float
    cost: float


@dataclass
class Best:
    """The best plan so far, and when it was found."""

    state: PlanState
    cost: float = float("inf")
    trees: list[Tree] = field(default_factory=list)
    history: list[Progress] = field(default_factory=list)
    steps: int = 0
    last: int = 0
    started: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        self.look()

    def look(self) -> None:
        """Keep the state if it is better."""
        if self.state.cost < self.cost * (1 - 1e-12):
            self.cost, self.trees, self.last = self.state.cost, list(self.state.trees), self.steps
            self.history.append(Progress(monotonic() - self.started, self.cost))

    @property
    def is_stuck(self) -> bool:
        """Whether nothing better was found for long."""
        return self.steps - self.last > PATIENCE


Heuristic = Callable[[Neighbourhood, float], Best]


def anneal(near: Neighbourhood, deadline: float) -> Best:
    """Simulated annealing: worse neighbours are taken with probability exp(-Δ / c_k)."""
    state, rng = near.state, near.rng
    best = Best(state)
    warmest = _largest_difference(near, deadline)
    heat = warmest
    while monotonic() < deadline and not best.is_stuck:
        best.steps += 1
        before = state.cost
        back = state.apply(near.draw())
        worse = state.cost - before
        if worse > 0 and (heat <= COLDEST * warmest or rng.random() >= exp(-worse / heat)):
            state.apply(back)
            state.cost = before  # no drift by rounding
        best.look()
        heat *= COOLING
    return best


def _largest_difference(near: Neighbourhood, deadline: float) -> float:
    state, most = near.state, 0.0
    soon = monotonic() + (deadline - monotonic()) / 10
    for _ in range(PROBES):
        before = state.cost
        back = state.apply(near.draw())
        most = max(most, abs(state.cost - before))
        state.apply(back)
        state.cost = before
        if monotonic() > soon:
            break
    return most or 1.0


def tabu(near: Neighbourhood, deadline: float) -> Best:
    """Tabu search: the cheapest of 100 neighbours that was not visited lately, even if it is worse."""
    state = near.state
    best = Best(state)
    visited: OrderedDict[int, None] = OrderedDict()
    while monotonic() < deadline and not best.is_stuck:
        found: tuple[float, int, Changes] | None = None
        before = state.cost
        for _ in range(TABU_NEIGHBOURS):
            best.steps += 1
            changes = near.draw()
            back = state.apply(changes)
            mark = _mark(state)
            if changes and mark not in visited and (found is None or state.cost < found[0]):
                found = state.cost, mark, changes
            state.apply(back)
            state.cost = before
            if monotonic() > deadline:
                break
        if found is None:
            continue
        state.apply(found[2])
        visited[found[1]] = None
        if len(visited) > TABU_LENGTH:
            visited.popitem(last=False)
        best.look()
    return best


def _mark(state: PlanState) -> int:
    """What tells states apart."""
    return hash(tuple(state.trees))


HEURISTICS: dict[str, Heuristic] = {"annealing": anneal, "tabu": tabu}
