"""The numbers and extremes that are carried beside the count for a query's aggregates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from trendfold.automaton.glushkov import Automaton
from trendfold.query.names import walk
from trendfold.query.nodes import EVENT_TIME, Aggregate, Function, Matches, OfTrend, Query


class Measure(StrEnum):
    """The value that one binding adds to a number."""

    BINDINGS = "bindings"  # always 1: COUNT(E)
    VALUE = "value"  # the attribute, 0 if null: SUM
    PRESENT = "present"  # 1 if the attribute is not null: tells a SUM of 0 from a null SUM, and divides AVG
    ELAPSED = "elapsed"  # no value of bindings: grows as time passes, once per trend begun and not ended


@dataclass(frozen=True, slots=True)
class Number:
    """The sum, over all trends, of a measure of the bindings at some positions."""

    measure: Measure
    positions: frozenset[int]
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or greatest attribute of the bindings at some positions, over all trends.

    With `of`, the least or greatest duration or length of a trend: an *added* extreme. Its value is a sum
    along the trend, so it adds what a binding brings instead of comparing it, and is 0 at ⊥.
    """

    attribute: str
    positions: frozenset[int]
    is_max: bool
    of: OfTrend | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """The aggregates kept at every state. Number 0 is COUNT(*); `numbers` follow it.

    Added extremes come first.
    """

    numbers: tuple[Number, ...] = ()
    extremes: tuple[Extreme, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers a state carries, including COUNT(*)."""
        return 1 + len(self.numbers)

    @property
    def elapsed(self) -> int:
        """The number that grows as time passes; 0 if there is none."""
        return 1 + self.numbers.index(ELAPSED) if ELAPSED in self.numbers else 0

    @property
    def added(self) -> int:
        """How many extremes, which are the first, are sums along a trend."""
        return sum(extreme.of is not None for extreme in self.extremes)


ELAPSED = Number(Measure.ELAPSED, frozenset(), EVENT_TIME)
"""The durations of all trends, added up, in microseconds.

Every term is a span of time that has passed: no sum of times is ever subtracted from another, which would
lose the digits of short trends.
"""


def union(parts: Iterable[Carried]) -> Carried:
    """The union of what several queries carry, without duplicates."""
    every = list(parts)
    return Carried(
        tuple(dict.fromkeys(number for part in every for number in part.numbers)),
        tuple(dict.fromkeys(extreme for part in every for extreme in part.extremes)),
    )


def aggregates(query: Query) -> tuple[Aggregate, ...]:
    """The distinct aggregates of RETURN and HAVING."""
    if isinstance(query.returns, Matches):
        return ()
    returned = [item.value for item in query.returns if isinstance(item.value, Aggregate)]
    having = [node for node in walk(query.having) if isinstance(node, Aggregate)] if query.having else []
    return tuple(dict.fromkeys([*returned, *having]))


def distinct_sets(query: Query) -> tuple[tuple[str, ...], ...]:
    """The attributes of each COUNT(DISTINCT a, b): those of partitions, so that nothing is carried for it."""
    return tuple(dict.fromkeys(each.distinct for each in aggregates(query) if each.distinct))


def distinct_attributes(query: Query) -> tuple[str, ...]:
    """All of these attributes."""
    return tuple(dict.fromkeys(name for names in distinct_sets(query) for name in names))


def of_trends(query: Query) -> tuple[Aggregate, ...]:
    """The aggregates of DURATION and LENGTH."""
    return tuple(aggregate for aggregate in aggregates(query) if aggregate.of is not None)


def carried(query: Query, automaton: Automaton) -> Carried:
    """The numbers and extremes that one operand must carry for the query's aggregates."""
    numbers: dict[Number, None] = {}
    extremes: dict[Extreme, None] = {}
    for aggregate in aggregates(query):
        if not (positions := positions_of(aggregate, automaton)):
            continue
        numbers |= dict.fromkeys(numbers_of(aggregate, positions))
        if (extreme := extreme_of(aggregate, positions)) is not None:
            extremes[extreme] = None
    return Carried(tuple(numbers), tuple(sorted(extremes, key=lambda extreme: extreme.of is None)))


def positions_of(aggregate: Aggregate, automaton: Automaton) -> frozenset[int]:
    """The positions whose bindings an aggregate ranges over; none for COUNT(*), or in another operand."""
    if aggregate.of is not None:
        return frozenset(position.index for position in automaton.positive)
    return automaton.called(aggregate.alias) if aggregate.alias is not None else frozenset()


def numbers_of(aggregate: Aggregate, positions: frozenset[int]) -> tuple[Number, ...]:
    """The numbers from which an aggregate of these positions is computed."""
    match aggregate.function:
        case Function.COUNT:
            return (Number(Measure.BINDINGS, positions),)
        case Function.SUM | Function.AVG if aggregate.of is not None:
            is_length = aggregate.of is OfTrend.LENGTH
            return (Number(Measure.BINDINGS, positions) if is_length else ELAPSED,)
        case Function.SUM | Function.AVG:
            return tuple(Number(m, positions, aggregate.attribute) for m in (Measure.VALUE, Measure.PRESENT))
        case _:
            return ()


def extreme_of(aggregate: Aggregate, positions: frozenset[int]) -> Extreme | None:
    """The extreme an aggregate of these positions reads, if it is MIN or MAX."""
    if aggregate.function not in (Function.MIN, Function.MAX):
        return None
    return Extreme(aggregate.attribute or "", positions, aggregate.function is Function.MAX, aggregate.of)
