"""Plans -> families: queries whose rows travel together, and how much of the work each task can finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trendfold.events.batch import Options
from trendfold.events.schema import Kind
from trendfold.plan import QueryPlan
from trendfold.query.names import walk
from trendfold.query.nodes import Aggregate, Attribute, Expression, Function, Matches
from trendfold.runtime.pieces import is_linear, keeps_other_rows, segment_attributes


class Mode(StrEnum):
    """What a task can do with a part of the rows."""

    LINEAR = "linear"
    """Any stretch of a segment becomes a matrix: the rows may stay where they are."""
    PARTIAL = "partial"
    """Whole segments give totals, which are added up."""
    COMPLETE = "complete"
    """Whole groups give finished rows."""


@dataclass(frozen=True, slots=True)
class Family:
    """Queries whose rows are brought together by the same attributes.

    columns     what they read of a row, besides the truth of conditions
    conditions  on one event; each is a bit of a row
    types       whose rows they need; None for all
    """

    mode: Mode
    key: tuple[str, ...]
    queries: tuple[int, ...]
    columns: tuple[str, ...]
    conditions: tuple[Expression, ...]
    types: frozenset[str] | None


def families(
    plans: Sequence[QueryPlan], kinds: Mapping[str, Kind], options: Options, arithmetic: str
) -> tuple[Family, ...]:
    """The families of a workload; every query is in exactly one."""
    members: dict[tuple[Mode, tuple[str, ...]], list[int]] = {}
    for number, plan in enumerate(plans):
        mode, _ = mode_of(plan, kinds, arithmetic)
        key = _plain(plan) if mode is Mode.COMPLETE else segment_attributes(plan)
        members.setdefault((mode, tuple(sorted(key))), []).append(number)
    found = []
    for (mode, key), numbers in members.items():
        own = [plans[n] for n in numbers]
        columns = {*options.columns, *key, *(name for plan in own for name in columns_of(plan))}
        everything = any(keeps_other_rows(plan) for plan in own)
        types = frozenset(t for plan in own for t in types_of(plan))
        found.append(
            Family(
                mode,
                key,
                tuple(numbers),
                tuple(sorted(columns)),
                conditions_of(own),
                None if everything else types,
            )
        )
    return tuple(found)


def mode_of(plan: QueryPlan, kinds: Mapping[str, Kind], arithmetic: str) -> tuple[Mode, str]:
    """What a task can do for one query, and why."""
    window = plan.query.window
    if arithmetic == "exact":
        return Mode.COMPLETE, "whole numbers of any size are counted where a group's rows are together"
    if plan.query.having is not None:
        return Mode.COMPLETE, "HAVING is judged on true values, where a group's rows are together"
    if window is not None and not is_linear(plan) and _moves(plan):
        return Mode.COMPLETE, "its windows move with the events of a whole group"
    if any(kinds.get(name) is not Kind.FLOAT for name in _compared(plan)):
        return Mode.COMPLETE, "MIN and MAX of other values than floats are ranks among a group's rows"
    if is_linear(plan):
        return Mode.LINEAR, "any stretch of its rows is a matrix"
    if plan.qualified_keys:
        return Mode.PARTIAL, f"GROUP BY {plan.qualified_keys[0].alias}.… groups trends, not rows"
    return Mode.PARTIAL, "neighbours are compared, so a segment's rows must be together"


def _moves(plan: QueryPlan) -> bool:
    window = plan.query.window
    return window is not None and (window.slide is None or window.unit != "microseconds")


def _plain(plan: QueryPlan) -> tuple[str, ...]:
    return tuple(key.attribute for key in plan.plain_keys)


def _aggregates(plan: QueryPlan) -> list[Aggregate]:
    assert not isinstance(plan.query.returns, Matches)
    returned = [item.value for item in plan.query.returns if isinstance(item.value, Aggregate)]
    having = walk(plan.query.having) if plan.query.having is not None else ()
    return [*returned, *(node for node in having if isinstance(node, Aggregate))]


def _compared(plan: QueryPlan) -> list[str]:
    extremes = (Function.MIN, Function.MAX)
    return [a.attribute for a in _aggregates(plan) if a.function in extremes and a.attribute is not None]


def columns_of(plan: QueryPlan) -> frozenset[str]:
    """The attributes a query reads besides its conditions on single events."""
    found = {*plan.partition, *(key.attribute for key in plan.query.group_by)}
    found |= {a.attribute for a in _aggregates(plan) if a.attribute is not None}
    for operand in plan.operands:
        predicates = operand.machine.predicates
        for pair in (*predicates.adjacency, *predicates.cross):
            found |= {node.name for node in walk(pair.condition) if isinstance(node, Attribute)}
    return frozenset(found)


def types_of(plan: QueryPlan) -> frozenset[str]:
    """The types of a pattern."""
    return frozenset(p.type for operand in plan.operands for p in operand.machine.automaton.positions)


def conditions_of(plans: Sequence[QueryPlan]) -> tuple[Expression, ...]:
    """The distinct conditions on single events."""
    return tuple(
        dict.fromkeys(
            local.condition
            for plan in plans
            for operand in plan.operands
            for local in operand.machine.predicates.local
        )
    )
