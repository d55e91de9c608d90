"""One step of the search (MCEP, sections 4 and 5).

A step takes a sub-pattern that patterns have in common, plans it once, and replans some of these patterns
around it. The parts that their plans share already are kept with probability 1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from trendfold.detect.join_cost import PricedPart
from trendfold.detect.one_pattern import best_order, best_tree
from trendfold.detect.pattern import JoinTree, elements_of
from trendfold.detect.plan_state import Changes, PlanState
from trendfold.papers.mcep.pattern_graph import ElementName, MultiPatternGraph, SubPattern


@dataclass(frozen=True)
class Neighbourhood:
    """N_edge and N_vertex^k: a step replans `together` patterns around a common sub-pattern (edge: 2).

    With `is_prefix`, plans are orders that share only prefixes.
    """

    graph: MultiPatternGraph
    state: PlanState
    rng: Random
    together: int
    is_prefix: bool
    parts: Sequence[SubPattern]
    """The maximal common sub-patterns ..."""
    weights: Sequence[int]
    """... and twice the number of edges that each stands for in the multi-pattern graph."""
    _part_plans: dict[SubPattern, JoinTree] = field(default_factory=dict)
    _plans: dict[tuple[int, tuple[JoinTree, ...]], JoinTree] = field(default_factory=dict)

    def draw(self) -> Changes:
        """A random neighbour of the current state; no changes where it is the state itself."""
        (maximal,) = self.rng.choices(self.parts, self.weights)
        some = self.rng.choice(tuple(self.graph.shared[maximal]))
        names = self._subset(maximal)
        if not names:
            return self._changed([(some, self._plan(some, ()))])
        part = self.graph.part(some, names)
        users = sorted(self.graph.shared[maximal] if self.together == 2 else self.graph.containing(part))
        chosen = self.rng.sample(users, min(self.together, len(users)))
        return self._changed([(number, self._plan_around(number, part)) for number in chosen])

    def _changed(self, changes: Changes) -> Changes:
        return [(number, plan) for number, plan in changes if plan != self.state.trees[number]]

    def _subset(self, part: SubPattern) -> tuple[ElementName, ...]:
        """A random subset of at least two names, or none at all."""
        size = len(part)
        pick = self.rng.randrange(1 << size)
        if pick & (pick - 1):
            return tuple(name for i, name in enumerate(part.names) if pick >> i & 1)
        return () if not pick else part.names

    def _plan_around(self, number: int, part: SubPattern) -> JoinTree:
        """A pattern's best plan that contains the sub-pattern's and perhaps the parts it shares already."""
        inner = self._part_plan(number, part)
        given = [inner]
        if not self.is_prefix and self.rng.random() < 0.5:
            taken = set(elements_of(inner))
            kept = self.state.shared_parts(number)
            given += [plan for plan in kept if not taken & set(elements_of(plan))]
        return self._plan(number, tuple(given))

    def _part_plan(self, number: int, part: SubPattern) -> JoinTree:
        """The best plan of a sub-pattern, in the elements of one pattern that contains it."""
        if part not in self._part_plans:
            owner = min(self.graph.containing(part))
            alone = PricedPart(self.state.priced[owner], self._elements(owner, part))
            self._part_plans[part] = best_order(alone) if self.is_prefix else best_tree(alone)
        return _renamed(self._part_plans[part], self._elements(number, part))

    def _elements(self, number: int, part: SubPattern) -> list[int]:
        return [self.graph.element[number][name] for name in part.names]

    def _plan(self, number: int, given: tuple[JoinTree, ...]) -> JoinTree:
        key = (number, given)
        if key not in self._plans:
            priced = self.state.priced[number]
            if self.is_prefix:
                self._plans[key] = best_order(priced, elements_of(given[0]) if given else ())
            else:
                self._plans[key] = best_tree(priced, given)
        return self._plans[key]


def neighbourhood(
    graph: MultiPatternGraph, state: PlanState, rng: Random, together: int, is_prefix: bool
) -> Neighbourhood:
    """The neighbourhood of a state; sub-patterns are drawn in proportion to their edges."""
    parts = list(graph.shared)
    weights = [len(graph.shared[part]) * (len(graph.shared[part]) - 1) for part in parts]
    return Neighbourhood(graph, state, rng, together, is_prefix, parts, weights)


def _renamed(plan: JoinTree, names: Sequence[int]) -> JoinTree:
    """A plan of a sub-pattern in the elements of a pattern that contains it."""
    return names[plan] if isinstance(plan, int) else (_renamed(plan[0], names), _renamed(plan[1], names))
