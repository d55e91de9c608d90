"""The joined part of a clause: its elements of one event each, and the conditions between any two of them.

This is the paper's P = (E, S, C, W): `leaves` are E, the orders in `relations` are S, the rest of them C.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import Pairwise, Predicates
from trendfold.detect.canonical import CanonicalNumbers
from trendfold.detect.clauses import Clause, Neighbours

JoinTree = int | tuple["JoinTree", "JoinTree"]
"""A plan of one pattern: an element, or two plans that are joined. A left-deep tree is an order."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The conditions between a first and a second element.

    Conditions and guards are pairs (number, whether the second element is the left side).
    """

    order: int = 0
    """1: the first element comes before the second; -1: after it; 0: in any order."""
    asked: tuple[tuple[int, bool], ...] = ()
    guards: tuple[tuple[int, bool], ...] = ()
    is_apart: bool = False
    """Whether one event could take both elements, which must not happen."""

    def flipped(self) -> Relation:
        """The same conditions with the two elements exchanged."""
        return Relation(
            -self.order,
            tuple((c, not back) for c, back in self.asked),
            tuple((g, not back) for g, back in self.guards),
            self.is_apart,
        )


NO_RELATION = Relation()


@dataclass(frozen=True)
class JoinPattern:
    """Elements to join. Equal leaves have the same rows, in whichever pattern they occur.

    `relations` holds (i, j) for i < j where there are conditions.
    """

    name: str
    leaves: tuple[int, ...]
    relations: Mapping[tuple[int, int], Relation]
    window: int | None
    kleene: frozenset[int] = frozenset()
    """The elements that are the first event of an `E+`."""

    def relation(self, i: int, j: int) -> Relation:
        """The conditions between i and j."""
        if i < j:
            return self.relations.get((i, j), NO_RELATION)
        return self._flipped.get((i, j), NO_RELATION)

    @cached_property
    def _flipped(self) -> dict[tuple[int, int], Relation]:
        return {(j, i): relation.flipped() for (i, j), relation in self.relations.items()}

    @cached_property
    def written(self) -> JoinTree:
        """The trivial plan: elements in the order in which the query has them."""
        return left_deep(range(len(self.leaves)))


def left_deep(order: range | tuple[int, ...]) -> JoinTree:
    """The tree of an order-based plan: elements are joined one by one."""
    tree: JoinTree = order[0]
    for element in order[1:]:
        tree = (tree, element)
    return tree


def elements_of(tree: JoinTree) -> tuple[int, ...]:
    """The elements of a tree, from left to right."""
    return (tree,) if isinstance(tree, int) else elements_of(tree[0]) + elements_of(tree[1])


def join_pattern(
    name: str,
    clause: Clause,
    machine: Machine,
    window: int | None,
    leaf_of: Callable[[int], int],
    canonical: CanonicalNumbers,
) -> JoinPattern:
    """The joined part of a clause; `leaf_of` gives the leaf with the rows of a position."""
    joined = _joined_elements(clause, machine, canonical)
    pairs = ((i, j) for j in range(len(joined.at)) for i in range(j))
    relations = {(i, j): joined.relation(i, j) for i, j in pairs}
    kleene = frozenset(k for k, i in enumerate(clause.fixed) if clause.elements[i].is_kleene)
    return JoinPattern(
        name,
        tuple(map(leaf_of, joined.at)),
        {pair: relation for pair, relation in relations.items() if relation != NO_RELATION},
        window,
        kleene,
    )


@dataclass(frozen=True, slots=True)
class _JoinedElements:
    """The joined elements of a clause, numbered in the order written, and what the clause says of them."""

    machine: Machine
    canonical: CanonicalNumbers
    at: tuple[int, ...]
    """Per element its position."""
    ordered: frozenset[tuple[int, int]]
    meeting: Mapping[tuple[int, int], Neighbours]
    crossing: tuple[tuple[int, Pairwise], ...]
    """The cross predicates among these elements, with their canonical numbers."""

    def relation(self, i: int, j: int) -> Relation:
        """All conditions between two elements."""
        order = ((i, j) in self.ordered) - ((j, i) in self.ordered)
        one, other = (self.machine.automaton.positions[self.at[k]].types for k in (i, j))
        both_ways = (i, j, False), (j, i, True)
        asked = {(c, back) for a, b, back in both_ways for c in self._asked(a, b)}
        guards = {(g, back) for a, b, back in both_ways for g in self._guards(a, b)}
        return Relation(order, tuple(sorted(asked)), tuple(sorted(guards)), not order and one.meets(other))

    def _asked(self, a: int, b: int) -> Iterator[int]:
        """The conditions whose left side is a and whose right side is b."""
        left, right = self.at[a], self.at[b]
        if (a, b) in self.meeting:
            between = self.machine.predicates.between(left, right)
            yield from (self.canonical.conditions[c] for c in between)
        yield from (c for c, cross in self.crossing if left in cross.left and right in cross.right)

    def _guards(self, a: int, b: int) -> Iterator[int]:
        """The NOT between a and its neighbour b, if there is one."""
        meeting = self.meeting.get((a, b))
        guards = self.machine.automaton.guards
        if meeting is not None and meeting.guard is not None and guards[meeting.guard].first:
            yield self.canonical.guards[meeting.guard]


def _joined_elements(clause: Clause, machine: Machine, canonical: CanonicalNumbers) -> _JoinedElements:
    number = {element: i for i, element in enumerate(clause.fixed)}
    at = tuple(min(clause.elements[i].positions) for i in clause.fixed)
    return _JoinedElements(
        machine,
        canonical,
        at,
        frozenset((number[i], number[j]) for i, j in clause.before if i in number and j in number),
        {
            (number[n.left], number[n.right]): n
            for n in clause.neighbours
            # What follows E+ is compared with its last event, which is known only after the walk.
            if n.left in number and n.right in number and not clause.elements[n.left].is_kleene
        },
        tuple(_crossing(at, machine.predicates, canonical)),
    )


def _crossing(
    at: Collection[int], predicates: Predicates, canonical: CanonicalNumbers
) -> Iterator[tuple[int, Pairwise]]:
    for number, cross in enumerate(predicates.cross, len(predicates.adjacency)):
        if not cross.left.isdisjoint(at) and not cross.right.isdisjoint(at):
            yield canonical.conditions[number], cross
