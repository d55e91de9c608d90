"""Warnings about valid queries that are probably wrong: idle conditions, gaps between windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trendfold.errors import Problem
from trendfold.query.names import (
    PredicateKind,
    can_follow,
    can_meet,
    extent,
    is_beside_not,
    kind_by_names,
    named,
    walk,
)
from trendfold.query.nodes import Compare, Expression, Literal, Pattern, Query, Window
from trendfold.query.printer import expression_text


def cautions(query: Query) -> list[Problem]:
    """The warnings for a query; it can still be run."""
    found = [*_idle_conditions(query), *_gaps(query)]
    return [replace(problem, query=query.name, text=query.text) for problem in found]


def caution_text(problem: Problem) -> str:
    """A warning in one line."""
    where = f"query {problem.query!r}" + (f", line {problem.line}" if problem.text else "")
    return f"{where}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")


def _idle_conditions(query: Query) -> Iterator[Problem]:
    """Conditions that apply to no two events of a trend, and conditions that are never true."""
    for conjunct in query.where:
        pattern = query.pattern
        names = named(conjunct)
        match kind_by_names(names), sorted((is_next, name) for name, is_next in names):
            case PredicateKind.ADJACENCY, [(_, first), (_, second)] if not can_follow(pattern, first, second):
                text = expression_text(conjunct)
                message = f"{text} never applies: {second} never directly follows {first} in this pattern"
                yield Problem(message, span=extent(conjunct), hint=_other_way(pattern, first, second))
            case PredicateKind.CROSS, [(_, one), (_, other)] if is_beside_not(pattern, one, other):
                pass
            case PredicateKind.CROSS, [(_, one), (_, other)] if not can_meet(pattern, one, other):
                text = expression_text(conjunct)
                message = f"{text} never applies: no trend of this pattern has both {one} and {other}"
                yield Problem(message, span=extent(conjunct))
        yield from _never_true(conjunct)


def _other_way(pattern: Pattern, first: str, second: str) -> str:
    if can_follow(pattern, second, first):
        return f"did you mean NEXT({first})? {first} does follow {second}"
    return f"without NEXT, {first} is compared with every {second} of a trend" if first != second else ""


def _never_true(conjunct: Expression) -> Iterator[Problem]:
    for node in walk(conjunct):
        match node:
            case Compare(op, left, right) if _is_null(left) or _is_null(right):
                other = expression_text(right if _is_null(left) else left)
                hint = f"write {other} {'IS NULL' if op == '=' else 'IS NOT NULL'}"
                message = f"{expression_text(node)} is never true: nothing compares with NULL"
                yield Problem(message, span=extent(node), hint=hint)


def _is_null(node: Expression) -> bool:
    return isinstance(node, Literal) and node.value is None


def _gaps(query: Query) -> Iterator[Problem]:
    """Gaps between windows."""
    match query.window:
        case Window(length, int(slide), _, span) if slide > length:
            message = "SLIDE is longer than WITHIN: events between two windows are in no window"
            yield Problem(message, span=span, hint="let SLIDE be at most WITHIN if every event should count")
