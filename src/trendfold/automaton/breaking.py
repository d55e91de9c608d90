"""Conditions between an event of a NOT and a neighbour of that NOT, as conditions between the two neighbours.

Of the events of a NOT that come after x, only the first for which the conditions with x hold matters: y is
cut off from x if it comes later. So where only one neighbour is compared, the NOT is a comparison of moments,

    first(x) >= moment(y)     or, where only y is compared,     moment(x) >= last(y)

and the columns `first` and `last` are read like any attribute. Where both are compared, one event must
satisfy both, and the events between x and y are asked one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from trendfold.automaton.glushkov import END, START, Automaton
from trendfold.query.nodes import Attribute, Compare, Expression, Semantics

MOMENT, TIME = "\0moment", "\0time"
"""The columns of an event's moment, its number among the moments of all rows, and of its time."""


@dataclass(frozen=True, slots=True)
class Breaking:
    """A condition between an event of a NOT (bare names) and a neighbour of the NOT (NEXT).

    An event of the NOT breaks a pair of neighbours only if it holds, where a neighbour is at `beside`.
    """

    condition: Expression
    negated: frozenset[int]
    beside: frozenset[int]
    written: Expression = field(compare=False)
    """The conjunct it comes from."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """A column of moments: of the nearest event at a negated position for which some conditions hold.

    conditions  numbers of Breaking
    is_first    whether it is the first such event after a row; else the last one before it
    span        where the span of trends is bounded by it, and the NOT is at an end: the column is of times,
                of the last event plus the span, or the first one less the span
    """

    name: str
    position: int
    conditions: tuple[int, ...]
    is_first: bool
    span: int | None = None

    def shifted(self, positions: int, conditions: int) -> Breaker:
        """The same behind so many other positions and conditions."""
        numbers = tuple(i + conditions for i in self.conditions)
        return replace(self, position=self.position + positions, conditions=numbers)


@dataclass(frozen=True, slots=True)
class NoneBetween:
    """No event at a negated position lies between two neighbours that satisfies the conditions with both.

    The columns are equal only for the same events under the same conditions, so they alone are compared.
    """

    first: Breaker
    last: Breaker

    @property
    def names(self) -> tuple[str, str]:
        """The names of both columns."""
        return self.first.name, self.last.name

    def shifted(self, positions: int, conditions: int) -> NoneBetween:
        """The same behind so many other positions and conditions."""
        return NoneBetween(
            self.first.shifted(positions, conditions), self.last.shifted(positions, conditions)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoneBetween) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)


@dataclass(frozen=True, slots=True)
class JudgedNot:
    """A NOT as a condition between neighbours: one at `left`, or ⊥, and one at `right`, or ⊤."""

    condition: Expression | NoneBetween
    left: frozenset[int]
    right: frozenset[int]
    breakers: tuple[Breaker, ...]
    text: str


def with_conditions(breaking: Sequence[Breaking]) -> frozenset[int]:
    """The negated positions whose events break only under conditions with a neighbour."""
    return frozenset[int]().union(*(each.negated for each in breaking))


def without_conditional(automaton: Automaton, breaking: Sequence[Breaking]) -> Automaton:
    """The automaton whose guards leave out the events that break only under conditions."""
    if not (own := with_conditions(breaking)):
        return automaton
    guards = tuple(replace(g, first=g.first - own, last=g.last - own) for g in automaton.guards)
    guard_of = {edge: g for edge, g in automaton.guard_of.items() if guards[g].first}
    return Automaton(automaton.positions, automaton.edges, guards, guard_of)


def judged(
    automaton: Automaton,
    breaking: Sequence[Breaking],
    semantics: Semantics,
    wanted_at: Callable[[int], tuple[Expression, ...]],
    *,
    at_ends: bool,
    span: int | None = None,
) -> Iterator[JudgedNot]:
    """Every NOT with conditions as conditions between neighbours; without `at_ends` only those in the middle.

    With a bound on the span of trends, those at the ends are conditions between a trend's first and last
    event.
    Under contiguous semantics nothing lies between neighbours, so a NOT in the middle breaks nothing.
    """
    own, columns = with_conditions(breaking), _Columns(automaton, breaking, wanted_at, span)
    found: dict[_Place, list[tuple[int, int]]] = {}
    for (p, q), g in sorted(automaton.guard_of.items()):
        is_end = p == START or q == END
        if not (at_ends if is_end else semantics is not Semantics.CONTIGUOUS):
            continue
        for r in sorted(own.intersection(automaton.guards[g].positions)):
            place = _Place(r, _applying(breaking, r, p), _applying(breaking, r, q), p == START, q == END)
            found.setdefault(place, []).append((p, q))
    for place, edges in found.items():
        yield columns.judged(place, frozenset(p for p, _ in edges), frozenset(q for _, q in edges))


def _applying(breaking: Sequence[Breaking], negated: int, beside: int) -> tuple[int, ...]:
    """The conditions between two positions, a negated one and one of a neighbour."""
    return tuple(i for i, b in enumerate(breaking) if negated in b.negated and beside in b.beside)


@dataclass(frozen=True, slots=True)
class _Place:
    """A negated position between neighbours, and the conditions with the one before and the one after."""

    negated: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    at_start: bool
    at_end: bool


@dataclass(frozen=True, slots=True)
class _Columns:
    automaton: Automaton
    breaking: Sequence[Breaking]
    wanted_at: Callable[[int], tuple[Expression, ...]]
    span: int | None

    def judged(self, place: _Place, left: frozenset[int], right: frozenset[int]) -> JudgedNot:
        first = self._breaker(place.negated, place.before, is_first=True)
        last = self._breaker(place.negated, place.after, is_first=False)
        text = self._text(place)
        if place.before and place.after:
            return JudgedNot(NoneBetween(first, last), left, right, (first, last), text)
        if self.span is not None and (place.at_start or place.at_end):
            return self._spanning(place, left, right)
        if place.before or place.at_end:
            # At ⊤ the right side is the last moment, which an event of the NOT may be in.
            op, sides, breaker = ">" if place.at_end else ">=", (first.name, MOMENT), first
        else:
            op, sides, breaker = ">" if place.at_start else ">=", (MOMENT, last.name), last
        one, other = Attribute(None, sides[0]), Attribute(None, sides[1], is_next=True)
        return JudgedNot(Compare(op, one, other), left, right, (breaker,), text)

    def _spanning(self, place: _Place, left: frozenset[int], right: frozenset[int]) -> JudgedNot:
        """A NOT at an end, from the first event of a trend of bounded span to its last.

        The NOT looks back from the last event and ahead from the first one, by the span.
        """
        conditions = place.before if place.at_end else place.after
        nearest = self._breaker(place.negated, conditions, is_first=place.at_end)
        breaker = replace(nearest, name=f"{nearest.name}\0{self.span}", span=self.span)
        sides = (TIME, breaker.name) if place.at_end else (breaker.name, TIME)
        one, other = Attribute(None, sides[0]), Attribute(None, sides[1], is_next=True)
        return JudgedNot(Compare("<=", one, other), left, right, (breaker,), self._text(place))

    def _breaker(self, negated: int, conditions: tuple[int, ...], *, is_first: bool) -> Breaker:
        asked = tuple(self.breaking[i].condition for i in conditions)
        key = self.automaton.positions[negated].label, self.wanted_at(negated), asked, is_first
        return Breaker(f"\0{key!r}", negated, conditions, is_first)  # equal for equal events and conditions

    def _text(self, place: _Place) -> str:
        position = self.automaton.positions[place.negated]
        where = "before it" if place.at_start else "after it" if place.at_end else "in between"
        return f"no {position.alias or position.label} {where} that meets its conditions"
