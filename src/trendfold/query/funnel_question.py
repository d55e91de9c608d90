"""What a funnel asks: steps in order, keys, and how long an attempt may take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from trendfold.errors import InputError, Problem, QueryError
from trendfold.query.compose import compose, read_length
from trendfold.query.in_python import ConditionExpr, EventExpr, Same, event, same, seq
from trendfold.query.names import PredicateKind, extent, kind
from trendfold.query.nodes import EventRef, Query, Seq, WindowUnit
from trendfold.query.parser import placed

if TYPE_CHECKING:
    from trendfold.query.in_python import Conjunct

MOST_STEPS = 60


@dataclass(frozen=True, slots=True)
class FunnelQuestion:
    """A checked funnel. The query is that of its last step; its prefixes are the steps before.

    within  the last event of an attempt is less than this after its first, in microseconds
    every   the length of the periods in which attempts begin, or None for one period over the whole input
    """

    query: Query
    within: int
    every: int | None

    @property
    def steps(self) -> tuple[EventRef, ...]:
        """The steps in order."""
        pattern = self.query.pattern
        parts = pattern.parts if isinstance(pattern, Seq) else (pattern,)
        return tuple(part for part in parts if isinstance(part, EventRef))

    @property
    def names(self) -> tuple[str, ...]:
        """What each step is called: its alias, its type, or its set of types."""
        return tuple(step.name or str(step.type) for step in self.steps)


def funnel_question(
    steps: Sequence[EventExpr | str],
    by: str | Sequence[str],
    within: timedelta | str,
    every: timedelta | str | None,
    where: Conjunct | Sequence[Conjunct],
) -> FunnelQuestion:
    """The question of these arguments; raises one QueryError for all that is wrong with its query."""
    made = [event(step) if isinstance(step, str) else step for step in _listed(steps)]
    for step in made:
        if not isinstance(step, EventExpr):
            raise InputError(f"{step!r} is no step; a step is an event type, event(...) or any_of(...)")
    if not 0 < len(made) <= MOST_STEPS:
        raise InputError(f"a funnel has 1 to {MOST_STEPS} steps, not {len(made)}")
    conditions: list[Conjunct] = [same(*_listed(by)), *_listed(where)]
    query = compose("funnel", {"pattern": seq(*made), "where": conditions, "semantics": "next"})
    if problems := list(_problems(query)):
        raise QueryError(problems)
    longest = _micros("within", within)
    return FunnelQuestion(query, longest, None if every is None else _micros("every", every))


def _listed(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str | EventExpr | ConditionExpr | Same) else tuple(value)


def _micros(name: str, length: timedelta | str) -> int:
    try:
        found = read_length(length)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if found is None or found[1] is WindowUnit.EVENTS:
        raise InputError(f"{name} is a timedelta or a duration such as '7 d', not {length!r}")
    return found[0]


def _problems(query: Query) -> Iterator[Problem]:
    """A step takes an event for what it is, not for what the others are."""
    shown = placed(query)
    for conjunct in shown.where:
        if kind(conjunct) is not PredicateKind.LOCAL:
            hint = "to relate steps, write a query that returns COUNT(DISTINCT ...) or MATCHES"
            message = "a condition of a funnel names one step"
            yield Problem(message, shown.name, shown.text, extent(conjunct), hint)
