"""The plans of a workload with their common cost, kept up to date while single plans change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from trendfold.detect.join_cost import PricedPattern
from trendfold.detect.multitree import Multitree, longest
from trendfold.detect.pattern import JoinTree

Changes = list[tuple[int, JoinTree]]
"""New plans of some patterns."""


@dataclass
class PlanState:
    """The plans of all patterns, their cost together, and the multitree they share; made by `plan_state`."""

    priced: Sequence[PricedPattern]
    trees: list[JoinTree]
    tree: Multitree
    cost: float = 0.0
    _unit: dict[int, float] = field(default_factory=dict)
    """Per node its cost in a window of length one."""
    _scale: dict[tuple[int | None, int], float] = field(default_factory=dict)
    """Per window and number of events, the factor from a window of length one to this window."""
    _counted: dict[int, float] = field(default_factory=dict)
    """Per node its share of `cost`."""

    def apply(self, changes: Changes) -> Changes:
        """Change some plans; returns the changes that undo it."""
        undo = [(number, self.trees[number]) for number, _ in changes]
        for number, plan in changes:
            self._leave(number, self.trees[number])
            self.trees[number] = plan
            self.use(number, plan)
        return undo

    def shared_parts(self, number: int) -> list[JoinTree]:
        """The largest subtrees of a plan that other plans use as well."""
        found: list[JoinTree] = []
        pattern = self.priced[number].pattern

        def visit(plan: JoinTree) -> None:
            if isinstance(plan, int):
                return
            if self.tree.users(self.tree.plan(number, pattern, plan).root) > 1:
                found.append(plan)
                return
            visit(plan[0])
            visit(plan[1])

        visit(self.trees[number])
        return found

    def node_cost(self, node: int, users: Counter[int | None]) -> float:
        """The cost of a node per window, for the longest window among its users."""
        key = longest(users), len(self.tree.nodes[node].leaves)
        if key not in self._scale:
            self._scale[key] = self.priced[0].statistics.window(key[0]) ** key[1]
        return self._unit[node] * self._scale[key]

    def use(self, number: int, plan: JoinTree) -> None:
        """Add the plan of a pattern to the multitree and to the cost."""
        planned = self.tree.add(number, self.priced[number].pattern, plan)
        self._price(number, plan, planned.nodes)
        self._count(planned.nodes)

    def _leave(self, number: int, plan: JoinTree) -> None:
        pattern = self.priced[number].pattern
        self.tree.remove(number, pattern, plan)
        self._count(self.tree.plan(number, pattern, plan).nodes)

    def _count(self, nodes: tuple[int, ...]) -> None:
        """Update the cost of nodes whose users have changed."""
        for node in nodes:
            users = self.tree.windows.get(node)
            now = self.node_cost(node, users) if users else 0.0
            before = self._counted.get(node, 0.0)
            if now != before:
                self.cost += now - before
                self._counted[node] = now

    def _price(self, number: int, plan: JoinTree, nodes: tuple[int, ...]) -> None:
        if all(node in self._unit for node in nodes):
            return
        priced = self.priced[number]
        for node, (left, right) in zip(nodes, _joins(plan), strict=True):
            cost = priced.join(left, right) if right else 0.0
            self._unit.setdefault(node, cost / priced.window ** (left | right).bit_count())


def plan_state(
    priced: Sequence[PricedPattern], trees: Sequence[JoinTree], *, shares: bool = True
) -> PlanState:
    """The state in which every pattern has its plan of `trees`."""
    state = PlanState(priced, list(trees), Multitree(shares))
    for number, plan in enumerate(trees):
        state.use(number, plan)
    return state


def _joins(plan: JoinTree) -> list[tuple[int, int]]:
    """The elements that every node of a plan joins, in the multitree's order of nodes; a leaf joins none."""
    if isinstance(plan, int):
        return [(1 << plan, 0)]
    left, right = _joins(plan[0]), _joins(plan[1])
    return [*left, *right, (left[-1][0] | left[-1][1], right[-1][0] | right[-1][1])]
