"""Patterns as clauses (spec 8): disjunctive normal form, one clause one plan (MCEP, section 2).

A clause is a set of elements and which of them come before which. Most elements are one event each and are
joined. Of `E+` the first event is joined and the others are *walked*: built one by one for every match of the
joined rest. What is repeated as a whole (`SEQ(A, B)+`), or would make too many clauses, is walked altogether.
Under *next* and *contiguous* a whole operand is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from trendfold.query.nodes import (
    Both,
    Either,
    EventRef,
    Maybe,
    Not,
    Pattern,
    Plus,
    Query,
    Repeat,
    Semantics,
    Seq,
)

MOST_CLAUSES = 64
"""A pattern without AND that would make more clauses is walked."""


@dataclass(frozen=True, slots=True)
class Element:
    """One event at one position, or, if it is walked, a trend of a part of the pattern."""

    positions: frozenset[int]
    first: frozenset[int]
    last: frozenset[int]
    is_walked: bool = False
    is_kleene: bool = False
    """Whether it is walked from a first event that is joined."""
    operand: int = 0
    """Which operand of an outermost AND it is in."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two elements, the second directly after the first, and the NOT that stands between them."""

    left: int
    right: int
    guard: int | None = None


@dataclass(frozen=True, slots=True)
class Clause:
    """Elements that occur together, what is before what (closed), and who are neighbours."""

    elements: tuple[Element, ...]
    before: frozenset[tuple[int, int]] = frozenset()
    neighbours: tuple[Neighbours, ...] = ()
    at_start: tuple[tuple[int, int], ...] = ()
    """(operand, guard) of every NOT at an operand's start."""
    at_end: tuple[tuple[int, int], ...] = ()

    @property
    def fixed(self) -> tuple[int, ...]:
        """The elements that are joined, by their only or their first event."""
        return tuple(i for i, e in enumerate(self.elements) if not e.is_walked or e.is_kleene)

    @property
    def walked(self) -> tuple[int, ...]:
        """The elements that are walked, in the order written."""
        return tuple(i for i, element in enumerate(self.elements) if element.is_walked)


def clauses(query: Query, *, joins: bool = True) -> tuple[Clause, ...]:
    """The clauses of a query; without `joins`, all that AND does not tear apart is walked."""
    counter = _Counter()
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, Both) else (pattern,)
    most = MOST_CLAUSES if joins and query.semantics is Semantics.ANY else 0
    operands = [_operand(counter.node(part), i, most) for i, part in enumerate(parts)]
    found = (_beside(blocks) for blocks in product(*operands))
    return tuple(dict.fromkeys(block.clause for block in found))


# ---------------------------------------------------------------- patterns with numbers


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of the pattern whose positions and guards have their numbers; copies are written out."""

    kind: str  # event, not, seq, or, and, plus, maybe, some
    parts: tuple[_Node, ...] = ()
    number: int = 0
    """The position of an event, the guard of a NOT, or how many copies a `some` must have."""

    @property
    def positions(self) -> frozenset[int]:
        """The positive positions under it."""
        if self.kind in ("event", "not"):
            return frozenset({self.number} if self.kind == "event" else ())
        return frozenset().union(*(part.positions for part in self.parts))

    @property
    def has_and(self) -> bool:
        return self.kind == "and" or any(part.has_and for part in self.parts)


@dataclass(slots=True)
class _Counter:
    """Numbers positions and guards in the order in which `automaton.build` does."""

    positions: int = 0
    guards: int = 0

    def node(self, pattern: Pattern) -> _Node:
        match pattern:
            case EventRef():
                self.positions += 1
                return _Node("event", number=self.positions - 1)
            case Not(body):
                self.node(body)
                self.guards += 1
                return _Node("not", number=self.guards - 1)
            case Seq(parts):
                return _Node("seq", tuple(map(self.node, parts)))
            case Either(parts):
                return _Node("or", tuple(map(self.node, parts)))
            case Both(parts):
                return _Node("and", tuple(map(self.node, parts)))
            case Plus(body):
                return _Node("plus", (self.node(body),))
            case Maybe(body):
                return _Node("maybe", (self.node(body),))
            case Repeat(body, low, high):
                copies = [self.node(body) for _ in range(high or low)]
                if high is None:
                    copies[-1] = _Node("plus", (copies[-1],))
                return _Node("some", tuple(copies), low)


@dataclass(frozen=True, slots=True)
class _Ends:
    first: frozenset[int]
    last: frozenset[int]
    can_be_empty: bool


def _ends(node: _Node) -> _Ends:
    """Where a part without AND can begin and end."""
    if node.kind == "event":
        here = frozenset({node.number})
        return _Ends(here, here, can_be_empty=False)
    inner = [_ends(part) for part in node.parts if part.kind != "not"]
    if node.kind in ("plus", "maybe"):
        return replace(inner[0], can_be_empty=inner[0].can_be_empty or node.kind == "maybe")
    if node.kind == "or":
        first, last = (frozenset().union(*(getattr(e, side) for e in inner)) for side in ("first", "last"))
        return _Ends(first, last, any(e.can_be_empty for e in inner))
    needed = len(inner) if node.kind == "seq" else node.number
    last = _reach(inner[:needed][::-1], "last").union(*(e.last for e in inner[needed:]))
    return _Ends(_reach(inner, "first"), last, all(e.can_be_empty for e in inner[:needed]))


def _reach(ends: list[_Ends], side: str) -> frozenset[int]:
    found: set[int] = set()
    for each in ends:
        found |= getattr(each, side)
        if not each.can_be_empty:
            break
    return frozenset(found)


# ---------------------------------------------------------------- clauses under construction


@dataclass(frozen=True, slots=True)
class _Block:
    """A clause of a part. `head` and `tail`: its only first and last element, unless an AND is there."""

    clause: Clause
    head: int | None = None
    tail: int | None = None
    pending: int | None = None
    """The guard of a NOT after the last element so far."""


_EMPTY = _Block(Clause(()))


def _operand(node: _Node, number: int, most: int) -> list[_Block]:
    """The clauses of one operand, its NOTs at the ends apart."""
    parts = node.parts if node.kind == "seq" else (node,)
    at_start = [(number, parts[0].number)] if parts[0].kind == "not" else []
    at_end = [(number, parts[-1].number)] if parts[-1].kind == "not" else []
    inner = parts[len(at_start) : len(parts) - len(at_end)]
    found = []
    for block in _expand(inner[0] if len(inner) == 1 else _Node("seq", inner), most):
        elements = tuple(replace(element, operand=number) for element in block.clause.elements)
        clause = replace(block.clause, elements=elements, at_start=tuple(at_start), at_end=tuple(at_end))
        found.append(replace(block, clause=clause))
    return [block for block in found if block.clause.elements]


def _expand(node: _Node, most: int) -> list[_Block]:
    """Every clause of a part, the empty one too if it can be empty; none twice."""
    if not node.has_and and node.kind != "event" and (node.kind == "plus" or _count(node) > most):
        return _walked(node, most)
    match node.kind:
        case "event" if most == 0:
            return _walked(node, most)
        case "event":
            here = frozenset({node.number})
            return [_Block(Clause((Element(here, here, here),)), 0, 0)]
        case "seq":
            return _distinct(_chain(row) for row in product(*(_expand_part(p, most) for p in node.parts)))
        case "and":
            return _distinct(_beside(row) for row in product(*(_expand(p, most) for p in node.parts)))
        case "or":
            return _distinct(block for part in node.parts for block in _expand(part, most))
        case "maybe":
            return _distinct([_EMPTY, *_expand(node.parts[0], most)])
        case _:
            return _distinct(_some(node, most))


def _expand_part(node: _Node, most: int) -> list[_Block]:
    return [_Block(Clause(()), pending=node.number)] if node.kind == "not" else _expand(node, most)


def _some(node: _Node, most: int) -> Iterator[_Block]:
    """`P{m,n}`: the first m copies, or one more, and so on."""
    copies = [_expand(part, most) for part in node.parts]
    for count in range(node.number, len(copies) + 1):
        yield from (_chain(row) for row in product(*copies[:count]))


def _walked(node: _Node, most: int) -> list[_Block]:
    ends = _ends(node)
    is_kleene = most > 0 and node.kind == "plus" and node.parts[0].kind == "event"
    element = Element(node.positions, ends.first, ends.last, is_walked=True, is_kleene=is_kleene)
    found = [_Block(Clause((element,)), 0, 0)]
    return [_EMPTY, *found] if ends.can_be_empty else found


def _count(node: _Node) -> int:
    """How many clauses a part without AND has, at most."""
    match node.kind:
        case "event" | "not" | "plus":
            return 1
        case "or":
            return sum(map(_count, node.parts))
        case "maybe":
            return 1 + _count(node.parts[0])
        case "seq":
            return prod(map(_count, node.parts))
        case _:
            counts = [_count(part) for part in node.parts]
            return sum(prod(counts[:k]) for k in range(node.number, len(counts) + 1))


def _distinct(blocks: Iterable[_Block]) -> list[_Block]:
    """Each clause once: `(A?)?` is empty in two ways, and yet there is one empty sequence."""
    return list(dict.fromkeys(blocks))


def _chain(blocks: Iterable[_Block]) -> _Block:
    """One after the other. A NOT stands between what is last before it and first after it."""
    found = _EMPTY
    for block in blocks:
        if not block.clause.elements:
            found = replace(found, pending=block.pending) if block.pending is not None else found
            continue
        joined = _together(found.clause, block.clause)
        size = len(found.clause.elements)
        if size:
            across = product(range(size), range(size, len(joined.elements)))
            joined = replace(joined, before=joined.before | frozenset(across))
            if found.tail is not None and block.head is not None:
                meeting = Neighbours(found.tail, block.head + size, found.pending)
                joined = replace(joined, neighbours=(*joined.neighbours, meeting))
        head = block.head if not size else found.head
        tail = None if block.tail is None else block.tail + size
        found = _Block(joined, head, tail, block.pending)
    return found


def _beside(blocks: Iterable[_Block]) -> _Block:
    """The operands of an AND: in any order."""
    joined = Clause(())
    for block in blocks:
        joined = _together(joined, block.clause)
    return _Block(joined)


def _together(one: Clause, other: Clause) -> Clause:
    """The elements of both; nothing between them yet."""
    size = len(one.elements)
    return Clause(
        (*one.elements, *other.elements),
        one.before | {(i + size, j + size) for i, j in other.before},
        (
            *one.neighbours,
            *(replace(n, left=n.left + size, right=n.right + size) for n in other.neighbours),
        ),
        (*one.at_start, *other.at_start),
        (*one.at_end, *other.at_end),
    )
