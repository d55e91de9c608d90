"""A-Seq and E-Cube: check that queries are sequences of fixed length, and turn each into a line of steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from trendfold.automaton import Automaton, build, split
from trendfold.automaton.glushkov import END, START
from trendfold.errors import UnsupportedError
from trendfold.papers.aseq.counter_prices import CounterPrices
from trendfold.papers.aseq.prefixes import Cuts, Line, LineElement, LineStep, PrefixPlan, chop, share_prefixes
from trendfold.plan import Group, QueryPlan, plan_cogra
from trendfold.plan.carried import of_trends
from trendfold.plan.statistics import GroupStatistics
from trendfold.plan.workload import PER_EVENT, grouped, rows_key, windows_at_once
from trendfold.query.names import PredicateKind, kind, walk
from trendfold.query.nodes import (
    Both,
    Either,
    Matches,
    Maybe,
    Not,
    Pattern,
    Plus,
    Query,
    Repeat,
    Semantics,
)
from trendfold.query.printer import expression_text


@dataclass(frozen=True, slots=True)
class _Refusals:
    """What a strategy says of clauses that it does not support."""

    strategy: str
    matches: str
    """What it counts instead of returning matches."""
    comparing: str
    """Why it cannot compare events."""

    def refuse(self, query: Query, clause: str, why: str) -> UnsupportedError:
        """An error that names the query and the clause."""
        why = why.format(f"strategy {self.strategy!r}")
        return UnsupportedError(f"query {query.name!r}: {clause}, {why}; use 'auto'")


_ASEQ = _Refusals("aseq", "counts trends without building them", "it keeps counts, no events")
_ECUBE = _Refusals("ecube", "counts the sequences that it builds", "it joins sequences by time alone")


def plan_sequence(query: Query, refusals: _Refusals = _ASEQ) -> QueryPlan:
    """Plan one sequence on its own; raises an error naming the clause that the strategy does not support."""
    _check_clauses(query, refusals)  # before an AND, which has no automaton
    _check_pattern(query, automaton := build(query.pattern), refusals)
    _check_predicates(query, automaton, refusals)
    return replace(plan_cogra(query), strategy=refusals.strategy)


def refuse_unsupported(query: Query, automaton: Automaton) -> None:
    """Raise an error naming the first clause that A-Seq does not support."""
    _check_clauses(query, _ASEQ)
    _check_pattern(query, automaton, _ASEQ)
    _check_predicates(query, automaton, _ASEQ)


def share_lines(members: Sequence[QueryPlan]) -> PrefixPlan:
    """Plan how sequences share counters; see `papers.aseq.prefixes`."""
    return share_prefixes([line_of(member) for member in members])


def share_stacks(members: Sequence[QueryPlan]) -> PrefixPlan:
    """Plan which sequences are built once: those of common prefixes, and of common sub-patterns elsewhere."""
    lines = [line_of(member) for member in members]
    windows = {line.window for line in lines}
    cuts: Cuts = {}
    for window in windows:
        cuts |= chop({member: line for member, line in enumerate(lines) if line.window == window})
    return replace(share_prefixes(lines, cuts), is_built=True)


def _check_clauses(query: Query, refusals: _Refusals) -> None:
    if isinstance(query.returns, Matches):
        raise UnsupportedError(
            f"query {query.name!r}: RETURN MATCHES, and strategy {refusals.strategy!r} {refusals.matches}; "
            f"use aggregates"
        )
    if found := of_trends(query):
        clause = f"{expression_text(found[0])} is of whole trends"
        raise refusals.refuse(query, clause, "and {} counts trends and adds up values of events")
    if query.semantics is not Semantics.ANY:
        clause = f"SEMANTICS {query.semantics}"
        raise refusals.refuse(query, clause, "and {} counts under skip-till-any-match only")
    if isinstance(query.pattern, Both):
        raise refusals.refuse(query, "PATTERN has an outermost AND", "and {} counts one sequence")
    if query.bound is not None:
        clause = f"WITHIN has {'ONCE' if query.window is None else 'EVERY'}"
        raise refusals.refuse(query, clause, "and {} counts trends in windows")


def _check_pattern(query: Query, automaton: Automaton, refusals: _Refusals) -> None:
    """Raise unless all trends have the same length, and a single event breaks every NOT."""
    if automaton.guards and refusals is _ECUBE:
        raise refusals.refuse(query, "PATTERN has NOT", "and {} joins events that occur")
    if any(guard.first & guard.last != {*guard.positions} for guard in automaton.guards):
        raise refusals.refuse(query, "PATTERN has a NOT of a pattern", "and {} resets counts by one event")
    line = [position.index for position in automaton.positive]
    if automaton.edges != {*pairwise([START, *line, END])}:
        clause = f"PATTERN has {_branching(query.pattern)}"
        raise refusals.refuse(query, clause, "and {} counts sequences of one length")


def _check_predicates(query: Query, automaton: Automaton, refusals: _Refusals) -> None:
    """Raise if WHERE compares events with each other."""
    why = f"which {{}} cannot judge: {refusals.comparing}"
    for conjunct in query.where:
        if kind(conjunct) is PredicateKind.ADJACENCY:
            clause = f"WHERE compares neighbours in {expression_text(conjunct)}"
            raise refusals.refuse(query, clause, why)
    predicates = split(query, automaton)
    if predicates.breaking:
        raise refusals.refuse(query, "WHERE compares an event of a NOT with a neighbour", why)
    if predicates.cross:
        raise refusals.refuse(query, "WHERE compares two aliases without NEXT", why)


_WORDS: tuple[tuple[type, str], ...] = (
    (Plus, "+ or * (Kleene)"),
    (Either, "OR"),
    (Maybe, "? (an option)"),
    (Repeat, "{m,n} (repetition)"),
)


def _branching(pattern: Pattern) -> str:
    """The operator that makes trends differ in length or types."""
    negated = {id(inner) for node in walk(pattern) if isinstance(node, Not) for inner in walk(node)}
    found = [node for node in walk(pattern) if id(node) not in negated]
    return next(word for type_, word in _WORDS if any(isinstance(node, type_) for node in found))


def line_of(plan: QueryPlan) -> Line:
    """The steps of a sequence accepted by `plan_sequence`."""
    automaton = plan.operands[0].machine.automaton
    guarded = {
        edge: tuple(sorted({_element(plan, p) for p in automaton.guards[guard].positions}, key=str))
        for edge, guard in automaton.guard_of.items()
    }
    line = [position.index for position in automaton.positive]
    steps = [
        LineStep(_element(plan, here), guarded.get((here, after), ()))
        for here, after in pairwise([*line, END])
    ]
    return Line(tuple(steps), plan.query.window, guarded.get((START, line[0]), ()))


def _element(plan: QueryPlan, position: int) -> LineElement:
    machine = plan.operands[0].machine
    wanted = machine.predicates.wanted_at(position)
    place = machine.automaton.positions[position]
    keyed = [key.attribute for key in plan.qualified_keys if place.is_called(key.alias or "")]
    return LineElement(place.type, frozenset(map(expression_text, wanted)), frozenset(keyed), position)


def plan_aseq(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """Plan sequences; those whose rows are partitioned alike share prefix counters."""
    return _grouped(tuple(map(plan_sequence, queries)), "aseq", share_lines)


def plan_ecube(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """The same, but the sequences are built, and those that queries have in common are built once."""
    return _grouped(tuple(plan_sequence(query, _ECUBE) for query in queries), "ecube", share_stacks)


def _grouped(
    plans: tuple[QueryPlan, ...], strategy: str, share: Callable[[Sequence[QueryPlan]], PrefixPlan]
) -> tuple[QueryPlan, ...]:
    def key(each: QueryPlan) -> Hashable:
        # With per-event windows, each partition has a stream for every value of GROUP BY T.g in its group,
        # otherwise only for its own values: members must agree in that.
        alike = rows_key(each)
        return each.query.name if alike is None else alike, windows_at_once(each) == PER_EVENT

    return grouped(plans, strategy, strategy, key, least=1, details=share)


_SEARCH_NS = 30_000
"""The time to judge one sub-pattern."""


def fitted(group: Group, known: GroupStatistics) -> PrefixPlan:
    """The plan of a group, cut anew by the frequencies of its rows; not cut if searching takes too long."""
    planned: PrefixPlan = group.details
    lines = [line_of(member) for member in group.members]
    subpatterns = sum(len(line.steps) ** 2 / 2 for line in lines)
    if not planned.is_guess or not known.frequencies:
        return planned
    prices = CounterPrices(known.frequencies)
    if known.rows * len(lines) * prices.update < subpatterns * _SEARCH_NS:
        return share_prefixes(lines, dict.fromkeys(range(len(lines)), ()))
    return share_prefixes(lines, prices=prices)


PLANNERS = {"aseq": plan_aseq, "ecube": plan_ecube}
