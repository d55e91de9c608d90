"""Patterns as clauses (spec 8): the disjunctive normal form, with one join plan per clause (MCEP, section 2).

A clause is a set of elements and a partial order on them. Most elements are one event each and are joined.
Of `E+` the first event is joined and the others are *walked*: a depth-first search adds them to every match
of the joined elements. A repeated sub-pattern (`SEQ(A, B)+`), or one with too many clauses, is walked as a
whole. Under *next* and *contiguous* the whole operand is walked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from trendfold.query.names import joined_nots
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
"""A pattern without AND that has more clauses than this is walked."""


@dataclass(frozen=True, slots=True)
class ClauseElement:
    """One event at one position or, if it is walked, a trend of a sub-pattern."""

    positions: frozenset[int]
    first: frozenset[int]
    last: frozenset[int]
    is_walked: bool = False
    is_kleene: bool = False
    """Whether its first event is joined and the walk starts there."""
    operand: int = 0
    """The operand of an outermost AND that it belongs to."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two elements, the second directly after the first in a trend, and the NOT between them."""

    left: int
    right: int
    guard: int | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """A NOT that is judged once a match is whole, and the elements next to it: several of an AND.

    `before` is empty for a NOT at the start of an operand, `after` for one at its end.
    """

    guard: int
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    operand: int = 0
    """The operand of an outermost AND that it belongs to."""

    def moved(self, by: int) -> Beside:
        """The same for elements that stand behind so many others."""
        return replace(
            self, before=tuple(i + by for i in self.before), after=tuple(i + by for i in self.after)
        )


@dataclass(frozen=True, slots=True)
class Clause:
    """Elements that occur together, their order (transitively closed), and which of them are neighbours."""

    elements: tuple[ClauseElement, ...]
    before: frozenset[tuple[int, int]] = frozenset()
    neighbours: tuple[Neighbours, ...] = ()
    at_start: tuple[Beside, ...] = ()
    """The NOTs at the start of an operand."""
    at_end: tuple[Beside, ...] = ()
    """... and at the end of one."""
    across: tuple[Beside, ...] = ()
    """... and between elements of which one is an AND."""

    @property
    def fixed(self) -> tuple[int, ...]:
        """The joined elements; a Kleene element is joined by its first event."""
        return tuple(i for i, e in enumerate(self.elements) if not e.is_walked or e.is_kleene)

    @property
    def walked(self) -> tuple[int, ...]:
        """The walked elements, in the order written."""
        return tuple(i for i, element in enumerate(self.elements) if element.is_walked)

    @property
    def ends_joined(self) -> bool:
        """Whether the last event of every match is a joined one, and makes the match complete."""
        every = range(len(self.elements))
        joined = [i for i in every if not self.elements[i].is_walked]
        return not self.at_end and all(any((i, j) in self.before for j in joined) for i in self.walked)


def clauses(query: Query, *, joins: bool = True) -> tuple[Clause, ...]:
    """The clauses of a query; without `joins`, each operand of an AND is walked as a whole."""
    counter = _Counter()
    pattern = query.pattern
    parts = pattern.parts if isinstance(pattern, Both) else (pattern,)
    most = MOST_CLAUSES if joins and query.semantics is Semantics.ANY else 0
    operands = [_operand(counter.numbered(part), i, most) for i, part in enumerate(parts)]
    found = (_beside(drafts) for drafts in product(*operands))
    return tuple(dict.fromkeys(draft.clause for draft in found))


# ---------------------------------------------------------------- positions and guards numbered


@dataclass(frozen=True, slots=True)
class _NumberedPattern:
    """A sub-pattern whose positions and guards are numbered; the copies of `{m,n}` are written out."""

    kind: str  # event, not, seq, or, and, plus, maybe, some
    parts: tuple[_NumberedPattern, ...] = ()
    number: int = 0
    """The position of an event, the guard of a NOT, or the least number of copies of a `some`."""

    @property
    def positions(self) -> frozenset[int]:
        """Its positions outside NOT."""
        if self.kind in ("event", "not"):
            return frozenset({self.number} if self.kind == "event" else ())
        return frozenset().union(*(part.positions for part in self.parts))

    @property
    def has_and(self) -> bool:
        return self.kind == "and" or any(part.has_and for part in self.parts)


@dataclass(slots=True)
class _Counter:
    """Numbers positions and guards in the same order as `automaton.build`."""

    positions: int = 0
    guards: int = 0

    def numbered(self, pattern: Pattern) -> _NumberedPattern:
        match pattern:
            case EventRef():
                self.positions += 1
                return _NumberedPattern("event", number=self.positions - 1)
            case Not(body):
                self.numbered(body)
                self.guards += 1
                return _NumberedPattern("not", number=self.guards - 1)
            case Seq(parts):
                return _NumberedPattern("seq", tuple(map(self.numbered, joined_nots(parts))))
            case Either(parts):
                return _NumberedPattern("or", tuple(map(self.numbered, parts)))
            case Both(parts):
                return _NumberedPattern("and", tuple(map(self.numbered, parts)))
            case Plus(body):
                return _NumberedPattern("plus", (self.numbered(body),))
            case Maybe(body):
                return _NumberedPattern("maybe", (self.numbered(body),))
            case Repeat(body, low, high):
                copies = [self.numbered(body) for _ in range(high or low)]
                if high is None:
                    copies[-1] = _NumberedPattern("plus", (copies[-1],))
                return _NumberedPattern("some", tuple(copies), low)


@dataclass(frozen=True, slots=True)
class _FirstLast:
    """Where trends of a sub-pattern can begin and end."""

    first: frozenset[int]
    last: frozenset[int]
    can_be_empty: bool


def _first_last(pattern: _NumberedPattern) -> _FirstLast:
    """The *first* and *last* of a sub-pattern without AND."""
    if pattern.kind == "event":
        here = frozenset({pattern.number})
        return _FirstLast(here, here, can_be_empty=False)
    inner = [_first_last(part) for part in pattern.parts if part.kind != "not"]
    if pattern.kind in ("plus", "maybe"):
        return replace(inner[0], can_be_empty=inner[0].can_be_empty or pattern.kind == "maybe")
    if pattern.kind == "or":
        first, last = (frozenset().union(*(getattr(e, side) for e in inner)) for side in ("first", "last"))
        return _FirstLast(first, last, any(e.can_be_empty for e in inner))
    needed = len(inner) if pattern.kind == "seq" else pattern.number
    last = _reach(inner[:needed][::-1], "last").union(*(e.last for e in inner[needed:]))
    return _FirstLast(_reach(inner, "first"), last, all(e.can_be_empty for e in inner[:needed]))


def _reach(ends: list[_FirstLast], side: str) -> frozenset[int]:
    found: set[int] = set()
    for each in ends:
        found |= getattr(each, side)
        if not each.can_be_empty:
            break
    return frozenset(found)


# ---------------------------------------------------------------- clauses under construction


@dataclass(frozen=True, slots=True)
class _Draft:
    """A clause of a sub-pattern.

    `heads` and `tails` are its first and last elements: one, or one of each operand of an AND.
    """

    clause: Clause
    heads: tuple[int, ...] = ()
    tails: tuple[int, ...] = ()
    pending: int | None = None
    """The guard of a NOT that follows the last element so far."""


_EMPTY = _Draft(Clause(()))


def _operand(pattern: _NumberedPattern, number: int, most: int) -> list[_Draft]:
    """The clauses of one operand; a NOT at its start or end is kept in `at_start` or `at_end`."""
    parts = pattern.parts if pattern.kind == "seq" else (pattern,)
    at_start = [parts[0].number] if parts[0].kind == "not" else []
    at_end = [parts[-1].number] if parts[-1].kind == "not" else []
    inner = parts[len(at_start) : len(parts) - len(at_end)]
    found = []
    for draft in _expand(inner[0] if len(inner) == 1 else _NumberedPattern("seq", inner), most):
        elements = tuple(replace(element, operand=number) for element in draft.clause.elements)
        clause = replace(
            draft.clause,
            elements=elements,
            at_start=tuple(Beside(guard, after=draft.heads, operand=number) for guard in at_start),
            at_end=tuple(Beside(guard, before=draft.tails, operand=number) for guard in at_end),
        )
        found.append(replace(draft, clause=clause))
    return [draft for draft in found if draft.clause.elements]


def _expand(pattern: _NumberedPattern, most: int) -> list[_Draft]:
    """Every clause of a sub-pattern once, including the empty one if it can be empty."""
    if not pattern.has_and and pattern.kind != "event" and (pattern.kind == "plus" or _count(pattern) > most):
        return _walked(pattern, most)
    match pattern.kind:
        case "event" if most == 0:
            return _walked(pattern, most)
        case "event":
            here = frozenset({pattern.number})
            return [_Draft(Clause((ClauseElement(here, here, here),)), (0,), (0,))]
        case "seq":
            return _distinct(_chain(row) for row in product(*(_expand_part(p, most) for p in pattern.parts)))
        case "and":
            return _distinct(_beside(row) for row in product(*(_expand(p, most) for p in pattern.parts)))
        case "or":
            return _distinct(draft for part in pattern.parts for draft in _expand(part, most))
        case "maybe":
            return _distinct([_EMPTY, *_expand(pattern.parts[0], most)])
        case _:
            return _distinct(_some(pattern, most))


def _expand_part(pattern: _NumberedPattern, most: int) -> list[_Draft]:
    return [_Draft(Clause(()), pending=pattern.number)] if pattern.kind == "not" else _expand(pattern, most)


def _some(pattern: _NumberedPattern, most: int) -> Iterator[_Draft]:
    """`P{m,n}`: m copies, m + 1 copies, and so on up to n."""
    copies = [_expand(part, most) for part in pattern.parts]
    for count in range(pattern.number, len(copies) + 1):
        yield from (_chain(row) for row in product(*copies[:count]))


def _walked(pattern: _NumberedPattern, most: int) -> list[_Draft]:
    ends = _first_last(pattern)
    is_kleene = most > 0 and pattern.kind == "plus" and pattern.parts[0].kind == "event"
    element = ClauseElement(pattern.positions, ends.first, ends.last, is_walked=True, is_kleene=is_kleene)
    found = [_Draft(Clause((element,)), (0,), (0,))]
    return [_EMPTY, *found] if ends.can_be_empty else found


def _count(pattern: _NumberedPattern) -> int:
    """An upper bound on the clauses of a sub-pattern without AND."""
    match pattern.kind:
        case "event" | "not" | "plus":
            return 1
        case "or":
            return sum(map(_count, pattern.parts))
        case "maybe":
            return 1 + _count(pattern.parts[0])
        case "seq":
            return prod(map(_count, pattern.parts))
        case _:
            counts = [_count(part) for part in pattern.parts]
            return sum(prod(counts[:k]) for k in range(pattern.number, len(counts) + 1))


def _distinct(drafts: Iterable[_Draft]) -> list[_Draft]:
    """Each clause once: `(A?)?` is empty in two ways, but there is only one empty sequence."""
    return list(dict.fromkeys(drafts))


def _chain(drafts: Iterable[_Draft]) -> _Draft:
    """Drafts in sequence."""
    found = _EMPTY
    for draft in drafts:
        if draft.clause.elements:
            found = _followed(found, draft) if found.clause.elements else draft
        elif draft.pending is not None:
            found = replace(found, pending=draft.pending)
    return found


def _followed(one: _Draft, other: _Draft) -> _Draft:
    """One draft before the other. A NOT lies between the last element before it and the first after it."""
    size = len(one.clause.elements)
    clause = _together(one.clause, other.clause)
    across = product(range(size), range(size, len(clause.elements)))
    clause = replace(clause, before=clause.before | frozenset(across))
    heads = tuple(i + size for i in other.heads)
    if len(one.tails) == len(heads) == 1:
        meeting = Neighbours(one.tails[0], heads[0], one.pending)
        clause = replace(clause, neighbours=(*clause.neighbours, meeting))
    elif one.pending is not None:
        clause = replace(clause, across=(*clause.across, Beside(one.pending, one.tails, heads)))
    return _Draft(clause, one.heads, tuple(i + size for i in other.tails), other.pending)


def _beside(drafts: Iterable[_Draft]) -> _Draft:
    """The operands of an AND, in any order."""
    joined = _Draft(Clause(()))
    for draft in drafts:
        size = len(joined.clause.elements)
        heads, tails = (tuple(i + size for i in ends) for ends in (draft.heads, draft.tails))
        clause = _together(joined.clause, draft.clause)
        joined = _Draft(clause, (*joined.heads, *heads), (*joined.tails, *tails))
    return joined


def _together(one: Clause, other: Clause) -> Clause:
    """The elements of both clauses, with no order between the two."""
    size = len(one.elements)
    return Clause(
        (*one.elements, *other.elements),
        one.before | {(i + size, j + size) for i, j in other.before},
        (
            *one.neighbours,
            *(replace(n, left=n.left + size, right=n.right + size) for n in other.neighbours),
        ),
        *(
            (*own, *(beside.moved(size) for beside in others))
            for own, others in (
                (one.at_start, other.at_start),
                (one.at_end, other.at_end),
                (one.across, other.across),
            )
        ),
    )
