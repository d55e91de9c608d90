"""What is joined: the elements of a clause that are one event each, and what must hold between any two.

This is the paper's P = (E, S, C, W): `leaves` are E, the orders of `relations` are S, the rest of them C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from trendfold.automaton.glushkov import Position
from trendfold.automaton.predicates import Predicates
from trendfold.detect.clauses import Clause

Tree = int | tuple["Tree", "Tree"]
"""A plan of one pattern: an element, or two plans that are joined. A left-deep tree is an order."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What must hold between two elements, the first and the second.

    Conditions and guards are (number, whether the second element is its left side).
    """

    order: int = 0
    """1: the first is before the second; -1: after it; 0: they may come in any order."""
    asked: tuple[tuple[int, bool], ...] = ()
    guards: tuple[tuple[int, bool], ...] = ()
    is_apart: bool = False
    """Whether one event could be both, and must not."""

    def flipped(self) -> Relation:
        """The same with the two elements exchanged."""
        return Relation(
            -self.order,
            tuple((c, not back) for c, back in self.asked),
            tuple((g, not back) for g, back in self.guards),
            self.is_apart,
        )


NO_RELATION = Relation()


@dataclass(frozen=True)
class JoinPattern:
    """Elements to join; equal leaves are the same rows, whichever pattern they are in.

    `relations` holds (i, j) for i < j where anything must hold.
    """

    name: str
    leaves: tuple[int, ...]
    relations: Mapping[tuple[int, int], Relation]
    window: int | None
    kleene: frozenset[int] = frozenset()
    """The elements that are the first event of `E+`."""

    def relation(self, i: int, j: int) -> Relation:
        """What must hold between i and j."""
        if i < j:
            return self.relations.get((i, j), NO_RELATION)
        return self._back.get((i, j), NO_RELATION)

    @cached_property
    def _back(self) -> dict[tuple[int, int], Relation]:
        return {(j, i): relation.flipped() for (i, j), relation in self.relations.items()}

    @cached_property
    def written(self) -> Tree:
        """The trivial plan: elements in the order written."""
        return left_deep(range(len(self.leaves)))


def left_deep(order: range | tuple[int, ...]) -> Tree:
    """The tree of an order-based plan: the elements join one by one."""
    tree: Tree = order[0]
    for element in order[1:]:
        tree = (tree, element)
    return tree


def elements_of(tree: Tree) -> tuple[int, ...]:
    """The elements under a tree, from left to right."""
    return (tree,) if isinstance(tree, int) else elements_of(tree[0]) + elements_of(tree[1])


def join_pattern(
    name: str,
    clause: Clause,
    positions: tuple[Position, ...],
    predicates: Predicates,
    window: int | None,
    leaf_of: Callable[[int], int],
    same_condition: Mapping[int, int],
    same_guard: Mapping[int, int],
) -> JoinPattern:
    """The part of a clause that is joined. Conditions and guards that say the same get the same number."""
    at = [min(clause.elements[i].positions) for i in clause.fixed]
    place = {element: i for i, element in enumerate(clause.fixed)}
    ordered = {(place[i], place[j]) for i, j in clause.before if i in place and j in place}
    meeting = {
        (place[n.left], place[n.right]): n
        for n in clause.neighbours
        if n.left in place and n.right in place and not clause.elements[n.left].is_kleene
    }  # what comes after the last event of E+ is judged when that is known
    crossing = [
        (same_condition[len(predicates.adjacency) + c], cross.left, cross.right)
        for c, cross in enumerate(predicates.cross)
        if not cross.left.isdisjoint(at) and not cross.right.isdisjoint(at)
    ]
    relations = {}
    for j in range(len(at)):
        for i in range(j):
            asked: list[tuple[int, bool]] = []
            guards: list[tuple[int, bool]] = []
            for a, b, back in ((i, j, False), (j, i, True)):
                if (a, b) in meeting:
                    asked += [(same_condition[c], back) for c in predicates.between(at[a], at[b])]
                    guard = meeting[a, b].guard
                    guards += [(same_guard[guard], back)] if guard is not None else []
                asked += [(c, back) for c, left, right in crossing if at[a] in left and at[b] in right]
            order = ((i, j) in ordered) - ((j, i) in ordered)
            is_apart = not order and positions[at[i]].type == positions[at[j]].type
            found = Relation(order, tuple(sorted(set(asked))), tuple(sorted(set(guards))), is_apart)
            if found != NO_RELATION:
                relations[i, j] = found
    kleene = frozenset(place[i] for i in clause.fixed if clause.elements[i].is_kleene)
    return JoinPattern(name, tuple(map(leaf_of, at)), relations, window, kleene)
