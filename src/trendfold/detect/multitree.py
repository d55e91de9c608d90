"""Many join plans as one: the multi-pattern tree and multitree (MCEP, sections 3.2 and 5).

A node is known by what it computes: its two children and what must hold between their columns. So two
patterns that join the same leaves in the same way share the node, and adding or removing a plan looks up one
node per element.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from trendfold.detect.pattern import JoinPattern, Tree

Entry = tuple[str, int, int, int]
"""What must hold between columns a and b: (kind, number, a, b).

Kinds are "before" and "apart", whose number is 0, "asked" (a condition), and "guard" (a NOT).
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A join of two nodes, or a leaf. Its columns are those of the left child, then those of the right."""

    number: int
    leaves: tuple[int, ...]
    left: int = -1
    right: int = -1
    between: tuple[Entry, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Whether it is joined from nothing."""
        return self.left < 0


@dataclass(frozen=True, slots=True)
class Planned:
    """One pattern's plan in the multitree: its root, and which element each column of the root is."""

    root: int
    columns: tuple[int, ...]
    nodes: tuple[int, ...]
    """All nodes of the plan, each as often as it stands there."""


@dataclass
class Multitree:
    """Nodes with the patterns that use them; without `shares`, every pattern has nodes of its own."""

    shares: bool = True
    nodes: list[Node] = field(default_factory=list)
    _number: dict[object, int] = field(default_factory=dict)
    _planned: dict[tuple[int, Tree], Planned] = field(default_factory=dict)
    windows: dict[int, Counter[int | None]] = field(default_factory=dict)
    """Per node in use: how many plans with which window use it."""

    def plan(self, owner: int, pattern: JoinPattern, tree: Tree) -> Planned:
        """The nodes of a plan; new ones where nothing computes the same."""
        known = self._planned.get((owner, tree))
        if known is None:
            nodes: list[int] = []
            root, columns = self._build(owner, pattern, tree, nodes)
            known = self._planned[owner, tree] = Planned(root, columns, tuple(nodes))
        return known

    def add(self, owner: int, pattern: JoinPattern, tree: Tree) -> Planned:
        """Use the nodes of a plan once more."""
        planned = self.plan(owner, pattern, tree)
        for node in planned.nodes:
            self.windows.setdefault(node, Counter())[pattern.window] += 1
        return planned

    def remove(self, owner: int, pattern: JoinPattern, tree: Tree) -> None:
        """Use them once less; nodes that nobody uses any more are out of the plan."""
        for node in self.plan(owner, pattern, tree).nodes:
            users = self.windows[node]
            users[pattern.window] -= 1
            if not users[pattern.window]:
                del users[pattern.window]
                if not users:
                    del self.windows[node]

    def window(self, node: int) -> int | None:
        """The longest window of those that use a node; None is no window at all."""
        return longest(self.windows[node])

    def in_use(self) -> list[Node]:
        """The nodes of the plan, children first."""
        return [self.nodes[number] for number in sorted(self.windows)]

    def users(self, node: int) -> int:
        """How many plans use a node."""
        return sum(self.windows[node].values())

    def _build(
        self, owner: int, pattern: JoinPattern, tree: Tree, nodes: list[int]
    ) -> tuple[int, tuple[int, ...]]:
        if isinstance(tree, int):
            leaf = pattern.leaves[tree]
            number = self._intern(("leaf", leaf), (leaf,), -1, -1, ())
            nodes.append(number)
            return number, (tree,)
        sides = [self._build(owner, pattern, part, nodes) for part in tree]
        (left, a), (right, b) = sorted(sides)  # a join is the same from both sides
        between = _between(pattern, a + b, len(a))
        key = (left, right, between) if self.shares else (left, right, between, owner)
        leaves = self.nodes[left].leaves + self.nodes[right].leaves
        number = self._intern(key, leaves, left, right, between)
        nodes.append(number)
        return number, a + b

    def _intern(
        self, key: object, leaves: tuple[int, ...], left: int, right: int, between: tuple[Entry, ...]
    ) -> int:
        number = self._number.setdefault(key, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(Node(number, leaves, left, right, between))
        return number


def longest(windows: Counter[int | None]) -> int | None:
    """The longest of some windows; None is longer than all."""
    if len(windows) == 1:
        return next(iter(windows))
    return None if None in windows else max(w for w in windows if w is not None)


def _between(pattern: JoinPattern, columns: tuple[int, ...], cut: int) -> tuple[Entry, ...]:
    """What must hold between the columns before `cut` and those from there on."""
    found: list[Entry] = []
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
