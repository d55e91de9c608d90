"""Query -> QueryPlan: machine, grains and strategy. Pure: same query, same plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from trendfold.automaton import Automaton, build, split
from trendfold.automaton.breaking import without_conditional
from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import Predicates, about_neighbours
from trendfold.errors import UnsupportedError, nearest
from trendfold.plan.carried import Carried, carried
from trendfold.plan.grain import Choice, Grain, coarsest, finest
from trendfold.plan.join_planning import JoinPlanning
from trendfold.plan.match_machine import match_machine
from trendfold.plan.neighbour import Access, accesses
from trendfold.plan.overlap import Sharing, sharing
from trendfold.plan.time_gaps import gap_of
from trendfold.query.nodes import Both, GroupKey, Matches, Pattern, Query, Semantics
from trendfold.query.partitions import partition_attributes


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """One operand of an outermost AND, or the whole pattern: its machine, grains, and carried numbers."""

    machine: Machine
    grains: tuple[Choice, ...]
    carried: Carried
    builds_trends: bool = False
    """Whether its trends are built one by one, because no coarser state can evaluate its predicates."""
    accesses: tuple[Access, ...] = ()
    """How bindings kept one by one are found; if empty, they are scanned."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """Everything a runtime needs to know about one query before it reads data."""

    query: Query
    strategy: str
    operands: tuple[OperandPlan, ...]
    partition: tuple[str, ...]
    """Equivalence attributes: an event with a null in one is in no partition."""
    shares_windows: bool = False
    """Whether overlapping windows may share work, where that is cheaper."""
    group: Group | None = None
    """The queries it may be folded together with; `physical.choose` decides, once rows are known."""
    number: int = -1
    """Its index among the members of the group."""
    planning: JoinPlanning | None = None
    """How the joins of matches are planned, if the user said so."""
    alone: str = ""
    """The reason that a strategy which folds queries together folds this one alone."""

    def sharing(self, operand: OperandPlan) -> Sharing | None:
        """What the windows of an operand can share; None where they do not overlap."""
        found = sharing(self.query.window, operand.machine, operand.accesses, operand.carried)
        return found if found is None or self.shares_windows else Sharing.NOTHING

    def has_queues(self, operand: OperandPlan) -> bool:
        """Whether only times of neighbours are compared, so that bindings expire in the order they were made.

        Overlapping windows share trees instead, unless durations are added up: trees do not know how old
        bindings are.
        """
        machine = operand.machine
        if not operand.accesses or machine.semantics is not Semantics.ANY or machine.is_bounded:
            return False
        if machine.automaton.guards or machine.by_event & {START, END}:
            return False
        if any(gap_of(access) is None for access in operand.accesses):
            return False
        return bool(operand.carried.elapsed) or self.sharing(operand) is not Sharing.TREES

    @property
    def finds_matches(self) -> bool:
        """Whether the query returns trends (RETURN MATCHES) rather than aggregates."""
        return isinstance(self.query.returns, Matches)

    @property
    def compares_neighbours(self) -> bool:
        """Whether bindings are kept one by one at some place."""
        return any(operand.machine.by_event for operand in self.operands)

    @property
    def plain_keys(self) -> tuple[GroupKey, ...]:
        """GROUP BY attributes that partition every event."""
        return tuple(key for key in self.query.group_by if key.alias is None)

    @property
    def qualified_keys(self) -> tuple[GroupKey, ...]:
        """GROUP BY attributes of one alias."""
        return tuple(key for key in self.query.group_by if key.alias is not None)


LANES, SHARED_TREES = "lanes", "shared-trees"
"""The core's own methods for a group of queries; all others are papers' methods.

Linear queries are lanes of one machine (kernel.machine_lanes). Queries that compare neighbours alike share
trees (kernel.window_lanes).
"""


@dataclass(frozen=True)
class Group:
    """Queries that are folded together, in one pass over the rows of all of them."""

    strategy: str
    """The strategy that grouped them; it regroups those that are left if some are removed."""
    method: str
    """LANES, SHARED_TREES, or the paper's method: a key of its `run.FOLDS`."""
    members: tuple[QueryPlan, ...]
    """The plan of each query by itself."""
    details: Any = None
    """The plan of a paper's method: a plain value that only the paper's package reads."""
    fitted_by: str = ""
    """The statistics `details` were planned by; empty if they are fitted to the rows when these are read."""
    rates: tuple[tuple[str, float], ...] = ()
    """In that case, the events by type in one of the longest windows."""

    @property
    def key(self) -> str:
        """The name of its first query, unique among the groups of a workload."""
        return self.members[0].query.name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its queries."""
        return tuple(member.query.name for member in self.members)

    @property
    def name(self) -> str:
        """The same as one."""
        return ", ".join(self.names)


FINDERS = ("mcep", "spass", "motto")
"""Strategies that find matches by joins, and plan these differently."""

Planner = Callable[[Query], QueryPlan]
"""Plans one query. The choice of planner changes the cost, never the answer."""


def plan_auto(query: Query) -> QueryPlan:
    """Plan at the coarsest grain, with bindings found by value and shared work for overlapping windows.

    Trends are built only where a predicate on events that are not neighbours needs them. A plan equal to a
    named strategy's keeps that name.
    """
    if isinstance(query.returns, Matches):
        return _plan_matches(query, "mcep" if query.semantics is Semantics.ANY else "construct")
    parts = _operands(query)
    if any(part.predicates.cross or part.predicates.judges_first_and_last for part in parts):
        return _plan(query, "construct", parts)
    coarse = _plan(query, "cogra", parts, shares_windows=True)
    if not coarse.compares_neighbours:
        return coarse
    found = tuple(replace(operand, accesses=accesses(operand.machine)) for operand in coarse.operands)
    fine = replace(coarse, strategy="auto", operands=found)
    if any(operand.carried.elapsed and not fine.has_queues(operand) for operand in found):
        return coarse
    return fine if any(access.is_indexed for operand in found for access in operand.accesses) else coarse


def plan_construct(query: Query) -> QueryPlan:
    """Build every trend, then aggregate: the two-step baseline of all five papers."""
    if isinstance(query.returns, Matches):
        return _plan_matches(query, "construct")
    return _plan(query, "construct", _operands(query))


def plan_cogra(query: Query) -> QueryPlan:
    """Plan at the coarsest grain per place, with every window folded separately."""
    return _plan(query, "cogra", _operands(query))


def plan_greta(query: Query) -> QueryPlan:
    """Keep every binding."""
    return _plan(query, "greta", _operands(query))


def plan_joined(query: Query, strategy: str) -> QueryPlan:
    """Find matches by joins that patterns share; parts of variable length are walked."""
    if not isinstance(query.returns, Matches):
        raise UnsupportedError(
            f"query {query.name!r}: RETURN has aggregates, but strategy {strategy!r} only finds matches; "
            f"use 'auto', or RETURN MATCHES"
        )
    return _plan_matches(query, strategy)


PLANNERS: dict[str, Planner] = {
    "auto": plan_auto,
    "construct": plan_construct,
    "greta": plan_greta,
    "cogra": plan_cogra,
    **{name: partial(plan_joined, strategy=name) for name in FINDERS},
}


def planned_so(plans: Sequence[QueryPlan], planning: JoinPlanning | None) -> tuple[QueryPlan, ...]:
    """The plans, with a wish for how the joins of those that find matches are planned."""
    return tuple(replace(p, planning=planning) if p.finds_matches and planning else p for p in plans)


def unknown_types(plans: Sequence[QueryPlan], planning: JoinPlanning | None) -> tuple[str, ...]:
    """A warning for each rate of `planning` that may be meant for a type, but is named otherwise."""
    if planning is None:
        return ()
    machines = (operand.machine for p in plans if p.finds_matches for operand in p.operands)
    types = {position.label for machine in machines for position in machine.automaton.positions}
    hints = ((name, nearest(name, types)) for name, _ in planning.rates if name not in types)
    return tuple(
        f"planning's statistics name no type of a pattern by {name!r}; {hint}" for name, hint in hints if hint
    )


def plan(query: Query, strategy: str = "auto") -> QueryPlan:
    """Plan one query under a strategy."""
    if strategy not in PLANNERS:
        raise UnsupportedError(f"unknown strategy {strategy!r}; choose one of {', '.join(PLANNERS)}")
    return PLANNERS[strategy](query)


@dataclass(frozen=True, slots=True)
class _Operand:
    """One operand of a query, and the predicates that refer to it."""

    pattern: Pattern
    automaton: Automaton
    predicates: Predicates


def _operands(query: Query) -> tuple[_Operand, ...]:
    if isinstance(query.returns, Matches):
        raise UnsupportedError(
            f"query {query.name!r}: RETURN MATCHES needs trends, but this strategy aggregates without "
            f"building them; use 'auto', 'mcep' or 'construct'"
        )
    patterns = query.pattern.parts if isinstance(query.pattern, Both) else (query.pattern,)
    return tuple(_operand(query, pattern) for pattern in patterns)


def _operand(query: Query, pattern: Pattern) -> _Operand:
    automaton = build(pattern)
    predicates = about_neighbours(split(query, automaton), automaton, query.semantics)
    return _Operand(pattern, without_conditional(automaton, predicates.breaking), predicates)


def _plan_matches(query: Query, strategy: str) -> QueryPlan:
    operand = OperandPlan(match_machine(query), (), Carried(), builds_trends=True)
    return QueryPlan(query, strategy, (operand,), partition_attributes(query))


def _plan(
    query: Query, strategy: str, parts: tuple[_Operand, ...], shares_windows: bool = False
) -> QueryPlan:
    planned = tuple(_plan_operand(query, part, strategy) for part in parts)
    return QueryPlan(query, strategy, planned, partition_attributes(query), shares_windows)


def _plan_operand(query: Query, part: _Operand, strategy: str) -> OperandPlan:
    automaton, predicates, is_bounded = part.automaton, part.predicates, query.bound is not None
    if predicates.cross and strategy != "construct":
        raise UnsupportedError(
            f"query {query.name!r}: WHERE compares two aliases without NEXT, which strategy {strategy!r} "
            f"cannot evaluate; use 'construct' or 'auto'"
        )
    if predicates.judges_first_and_last and strategy != "construct":
        raise UnsupportedError(
            f"query {query.name!r}: PATTERN has a NOT at an end with conditions, and WITHIN bounds spans: "
            f"whether it breaks a trend depends on both ends of the trend, which strategy {strategy!r} does "
            f"not know together; use 'construct' or 'auto'"
        )
    if strategy != "cogra":
        grains = finest(automaton, f"{strategy} keeps every binding")
    elif predicates.adjacency:
        grains = coarsest(automaton, query.semantics, predicates, is_bounded)
    else:
        grains = _coarsest_without_neighbours(part.pattern, query.semantics, is_bounded)
    by_event = frozenset(choice.place for choice in grains if choice.grain is Grain.EVENT)
    machine = Machine(automaton, query.semantics, predicates, by_event, is_bounded)
    return OperandPlan(machine, grains, carried(query, automaton), strategy == "construct")


@lru_cache(maxsize=1_024)
def _coarsest_without_neighbours(
    pattern: Pattern, semantics: Semantics, is_bounded: bool
) -> tuple[Choice, ...]:
    """The grains of all queries that differ only in conditions on one event."""
    return coarsest(build(pattern), semantics, Predicates(), is_bounded)
