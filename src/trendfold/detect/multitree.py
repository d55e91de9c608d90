"""The plans of many patterns as one graph of joins: the multi-pattern multitree (MCEP, sections 3.2 and 5).

A node is identified by what it computes: its two children and the conditions between their columns. Two
patterns that join the same leaves in the same way therefore share the node, and adding or removing a plan
takes one lookup per node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from trendfold.detect.pattern import JoinPattern, JoinTree

ColumnCondition = tuple[str, int, int, int]
"""A condition between columns a and b: (kind, number, a, b).

Kinds are "before" and "apart", whose number is 0, "asked" (a condition), and "guard" (a NOT).
"""


@dataclass(frozen=True, slots=True)
class JoinNode:
    """A join of two nodes, or a leaf. Its columns are those of the left child, then those of the right."""

    number: int
    leaves: tuple[int, ...]
    left: int = -1
    right: int = -1
    between: tuple[ColumnCondition, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether it has no children."""
        return self.left < 0


@dataclass(frozen=True, slots=True)
class Planned:
    """One pattern's plan in the multitree: its root, and the element of each column of the root."""

    root: int
    columns: tuple[int, ...]
    nodes: tuple[int, ...]
    """All nodes of the plan, each as often as the plan contains it."""


@dataclass
class Multitree:
    """Join nodes and the plans that use them; without `shares`, every pattern has nodes of its own."""

    shares: bool = True
    nodes: list[JoinNode] = field(default_factory=list)
    windows: dict[int, Counter[int | None]] = field(default_factory=dict)
    """Per node in use: how many plans with which window use it."""
    _number: dict[Hashable, int] = field(default_factory=dict)
    _planned: dict[tuple[int, JoinTree], Planned] = field(default_factory=dict)

    def plan(self, owner: int, pattern: JoinPattern, tree: JoinTree) -> Planned:
        """The nodes of a plan; a node is made only if no other computes the same."""
        known = self._planned.get((owner, tree))
        if known is None:
            nodes: list[int] = []
            root, columns = self._build(owner, pattern, tree, nodes)
            known = self._planned[owner, tree] = Planned(root, columns, tuple(nodes))
        return known

    def add(self, owner: int, pattern: JoinPattern, tree: JoinTree) -> Planned:
        """Count a plan as a user of its nodes."""
        planned = self.plan(owner, pattern, tree)
        for node in planned.nodes:
            self.windows.setdefault(node, Counter())[pattern.window] += 1
        return planned

    def remove(self, owner: int, pattern: JoinPattern, tree: JoinTree) -> None:
        """Undo `add`; nodes without users are no longer in use."""
        for node in self.plan(owner, pattern, tree).nodes:
            users = self.windows[node]
            users[pattern.window] -= 1
            if not users[pattern.window]:
                del users[pattern.window]
                if not users:
                    del self.windows[node]

    def window(self, node: int) -> int | None:
        """The longest window among the users of a node; None is no window."""
        return longest(self.windows[node])

    def in_use(self) -> list[JoinNode]:
        """The nodes that plans use, children before parents."""
        return [self.nodes[number] for number in sorted(self.windows)]

    def users(self, node: int) -> int:
        """How many plans use a node."""
        return sum(self.windows[node].values())

    def _build(
        self, owner: int, pattern: JoinPattern, tree: JoinTree, nodes: list[int]
    ) -> tuple[int, tuple[int, ...]]:
        """The root of a plan and the elements of its columns; `nodes` collects all of its nodes."""
        if isinstance(tree, int):
            leaf = pattern.leaves[tree]
            number = self._intern(("leaf", leaf), JoinNode(len(self.nodes), (leaf,)))
            nodes.append(number)
            return number, (tree,)
        sides = [self._build(owner, pattern, part, nodes) for part in tree]
        (left, a), (right, b) = sorted(sides)  # so that (x, y) and (y, x) are one node
        between = _between(pattern, a + b, len(a))
        key = (left, right, between) if self.shares else (left, right, between, owner)
        leaves = self.nodes[left].leaves + self.nodes[right].leaves
        number = self._intern(key, JoinNode(len(self.nodes), leaves, left, right, between))
        nodes.append(number)
        return number, a + b

    def _intern(self, key: Hashable, node: JoinNode) -> int:
        """The number of the node with this key; the given one if it is the first."""
        number = self._number.setdefault(key, node.number)
        if number == len(self.nodes):
            self.nodes.append(node)
        return number


def longest(windows: Counter[int | None]) -> int | None:
    """The longest of some windows; None is longer than all."""
    if len(windows) == 1:
        return next(iter(windows))
    return None if None in windows else max(w for w in windows if w is not None)


def _between(pattern: JoinPattern, columns: tuple[int, ...], cut: int) -> tuple[ColumnCondition, ...]:
    """The conditions between the columns before `cut` and the others."""
    found: list[ColumnCondition] = []
    for a in range(cut):
        for b in range(cut, len(columns)):
            relation = pattern.relation(columns[a], columns[b])
            if relation.order:
                found.append(("before", 0, a, b) if relation.order > 0 else ("before", 0, b, a))
            if relation.is_apart:
                found.append(("apart", 0, a, b))
            found += [("asked", c, *((b, a) if back else (a, b))) for c, back in relation.asked]
            found += [("guard", g, *((b, a) if back else (a, b))) for g, back in relation.guards]
    return tuple(sorted(found))
