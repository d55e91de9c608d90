"""Query -> Plan: which machine, which grain, which strategy. Pure: same query, same plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trendfold.automaton import build, split
from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import partition_attributes
from trendfold.errors import UnsupportedError
from trendfold.plan.carried import Carried, carried
from trendfold.plan.grain import Choice, Grain, coarsest, finest
from trendfold.query.nodes import Both, GroupKey, Matches, Query


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """One operand of an outermost AND, or the whole pattern: its machine, grains, and carried numbers."""

    machine: Machine
    grains: tuple[Choice, ...]
    carried: Carried


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """All a runtime needs to know about one query before it sees data."""

    query: Query
    strategy: str
    operands: tuple[OperandPlan, ...]
    partition: tuple[str, ...]
    """Equivalence attributes: an event with a null in one is in no partition."""

    @property
    def plain_keys(self) -> tuple[GroupKey, ...]:
        """GROUP BY attributes that partition every event."""
        return tuple(key for key in self.query.group_by if key.alias is None)

    @property
    def qualified_keys(self) -> tuple[GroupKey, ...]:
        """GROUP BY attributes of one alias."""
        return tuple(key for key in self.query.group_by if key.alias is not None)


Planner = Callable[[Query], QueryPlan]
"""A query in, its plan out. Never changes an answer, only its cost."""


def plan_cogra(query: Query) -> QueryPlan:
    """The coarsest grain per place."""
    return _plan(query, "cogra")


def plan_greta(query: Query) -> QueryPlan:
    """Every binding kept."""
    return _plan(query, "greta")


PLANNERS: dict[str, Planner] = {"auto": plan_cogra, "cogra": plan_cogra, "greta": plan_greta}


def plan(query: Query, strategy: str = "auto") -> QueryPlan:
    """The plan of one query under a strategy."""
    if strategy not in PLANNERS:
        raise UnsupportedError(f"unknown strategy {strategy!r}; choose one of {', '.join(PLANNERS)}")
    return PLANNERS[strategy](query)


def _plan(query: Query, strategy: str) -> QueryPlan:
    if isinstance(query.returns, Matches):
        raise UnsupportedError(f"query {query.name!r}: RETURN MATCHES is not there yet; use aggregates")
    patterns = query.pattern.parts if isinstance(query.pattern, Both) else (query.pattern,)
    planned = []
    for pattern in patterns:
        automaton = build(pattern)
        predicates = split(query, automaton)
        if predicates.cross:
            raise UnsupportedError(
                f"query {query.name!r}: WHERE compares two aliases without NEXT, which strategy "
                f"{strategy!r} does not support yet"
            )
        if strategy == "greta":
            grains = finest(automaton)
        else:
            grains = coarsest(automaton, query.semantics, predicates)
        by_event = frozenset(choice.place for choice in grains if choice.grain is Grain.EVENT)
        machine = Machine(automaton, query.semantics, predicates, by_event)
        planned.append(OperandPlan(machine, grains, carried(query, automaton)))
    return QueryPlan(query, strategy, tuple(planned), partition_attributes(query))
