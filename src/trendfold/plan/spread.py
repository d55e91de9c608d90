"""How the work of one query can be distributed over tasks, and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import gcd

from trendfold.events.schema import Kind
from trendfold.plan import QueryPlan
from trendfold.query.names import walk
from trendfold.query.nodes import Aggregate, Function, Matches, Semantics, WindowUnit


class Mode(StrEnum):
    """What a task can do with a part of the rows."""

    LINEAR = "linear"
    """Any stretch of a segment becomes a matrix: no shuffle is needed."""
    PARTIAL = "partial"
    """A task needs whole segments and returns partial totals, which are added up."""
    COMPLETE = "complete"
    """A task needs whole groups and returns finished rows."""


def mode_of(plan: QueryPlan, kinds: Mapping[str, Kind] | None, arithmetic: str = "auto") -> tuple[Mode, str]:
    """The mode of one query, and the reason; without `kinds`, all values are assumed to be floats."""
    window = plan.query.window
    if plan.finds_matches:
        return Mode.COMPLETE, "finding matches needs all rows of a partition, or of a time range, in one task"
    if arithmetic != "auto":
        return Mode.COMPLETE, "exact arithmetic needs all rows of a group in one task"
    if plan.query.having is not None:
        return Mode.COMPLETE, "HAVING needs exact values, and so all rows of a group in one task"
    if window is not None and not is_linear(plan) and _moves(plan):
        return Mode.COMPLETE, "its windows depend on the events of the whole group"
    if kinds is not None and any(kinds.get(name) is not Kind.FLOAT for name in compared_attributes(plan)):
        return Mode.COMPLETE, "MIN and MAX of values other than floats are ranks among a group's rows"
    if plan.group is not None and plan.group.strategy != "auto":
        return Mode.PARTIAL, f"{plan.group.strategy} folds queries together, segment by segment"
    if is_linear(plan):
        return Mode.LINEAR, "any stretch of its rows can be folded into a matrix"
    if plan.query.bound is not None and not plan.qualified_keys:
        return Mode.PARTIAL, "trends reach back over periods, so a segment's rows must be in one task"
    if plan.qualified_keys:
        return Mode.PARTIAL, f"GROUP BY {plan.qualified_keys[0].alias}.… groups trends, not rows"
    return Mode.PARTIAL, "bindings are kept one by one, so a segment's rows must be in one task"


def _moves(plan: QueryPlan) -> bool:
    window = plan.query.window
    return window is not None and (window.slide is None or window.unit != "microseconds")


def segment_attributes(plan: QueryPlan) -> tuple[str, ...]:
    """The attributes whose values identify a segment."""
    return tuple(dict.fromkeys((*plan.partition, *(key.attribute for key in plan.plain_keys))))


def matching_attributes(plan: QueryPlan) -> tuple[str, ...]:
    """The shuffle key for finding matches; for count windows the group, in which events are numbered."""
    window = plan.query.window
    if window is not None and window.unit is WindowUnit.EVENTS:
        return tuple(key.attribute for key in plan.plain_keys)
    return segment_attributes(plan)


def ends_with_segment(plan: QueryPlan) -> bool:
    """Whether all trends of a group lie in one segment, so that its totals are already final."""
    return set(plan.partition) <= {key.attribute for key in plan.plain_keys}


def pane_of(plan: QueryPlan) -> int | None:
    """The pane length: the distance between window edges; None for a single window without edges."""
    window = plan.query.window
    return None if window is None else gcd(window.length, window.slide or window.length)


def is_linear(plan: QueryPlan) -> bool:
    """Whether stretches of the query's rows fold into matrices, and windows are products of them."""
    window = plan.query.window
    moves = window is not None and (window.slide is None or window.unit is WindowUnit.EVENTS)
    moves |= plan.query.bound is not None
    return not moves and not plan.qualified_keys and not plan.compares_neighbours


def keeps_other_rows(plan: QueryPlan) -> bool:
    """Whether rows of types outside the pattern matter: they separate neighbours, or fill count windows."""
    window = plan.query.window
    counts = window is not None and window.unit is WindowUnit.EVENTS
    return counts or plan.query.semantics is Semantics.CONTIGUOUS


def aggregates_of(plan: QueryPlan) -> list[Aggregate]:
    """The aggregates of RETURN and HAVING."""
    if isinstance(plan.query.returns, Matches):
        return []
    returned = [item.value for item in plan.query.returns if isinstance(item.value, Aggregate)]
    having = walk(plan.query.having) if plan.query.having is not None else ()
    return [*returned, *(node for node in having if isinstance(node, Aggregate))]


def compared_attributes(plan: QueryPlan) -> list[str]:
    """The attributes of MIN and MAX."""
    extremes = (Function.MIN, Function.MAX)
    return [a.attribute for a in aggregates_of(plan) if a.function in extremes and a.attribute is not None]
