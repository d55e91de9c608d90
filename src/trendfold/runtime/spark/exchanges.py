"""Plans -> exchanges: queries whose rows are shuffled together, and how much each task can finish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from trendfold.automaton.breaking import NoneBetween
from trendfold.events.options import Options
from trendfold.events.schema import Kind
from trendfold.plan import QueryPlan
from trendfold.plan.spread import (
    Mode,
    aggregates_of,
    keeps_other_rows,
    matching_attributes,
    mode_of,
    segment_attributes,
)
from trendfold.plan.workload import regrouped
from trendfold.query.names import attributes_in
from trendfold.query.nodes import Expression, Matches, TypeSet, WindowUnit


@dataclass(frozen=True, slots=True)
class Exchange:
    """Queries that share one shuffle of rows, by the same key attributes.

    columns     attributes they read, besides those only used in conditions
    conditions  on one event; each is sent as one bit per row
    types       event types they need; None for all
    """

    mode: Mode
    key: tuple[str, ...]
    queries: tuple[int, ...]
    columns: tuple[str, ...]
    conditions: tuple[Expression, ...]
    types: frozenset[str] | None
    finds_matches: bool = False
    reach: int | None = None
    """The longest window in microseconds, if matches can be found in overlapping time ranges."""


def exchanges(
    plans: Sequence[QueryPlan], kinds: Mapping[str, Kind], options: Options, arithmetic: str
) -> tuple[Exchange, ...]:
    """Split a workload into exchanges; every query is in exactly one."""
    members: dict[tuple[Mode, tuple[str, ...], bool, bool], list[int]] = {}
    for number, plan in enumerate(plans):
        mode, _ = mode_of(plan, kinds, arithmetic)
        key = _plain(plan) if mode is Mode.COMPLETE else segment_attributes(plan)
        key = matching_attributes(plan) if plan.finds_matches else key
        is_cut = plan.finds_matches and not key and _reach(plan) is not None
        members.setdefault((mode, tuple(sorted(key)), plan.finds_matches, is_cut), []).append(number)
    found = []
    for (mode, key, finds_matches, is_cut), numbers in members.items():
        own = [plans[n] for n in numbers]
        columns = {*options.columns, *key, *(name for plan in own for name in columns_of(plan))}
        everything = any(keeps_other_rows(plan) for plan in own)
        types = types_of(own)
        found.append(
            Exchange(
                mode,
                key,
                tuple(numbers),
                tuple(sorted(columns)),
                conditions_of(own),
                None if everything else types.names,
                finds_matches,
                max(_reach(plan) or 0 for plan in own) if is_cut else None,
            )
        )
    return tuple(found)


def joined(one: Exchange, other: Exchange) -> Exchange | None:
    """An exchange with the queries of another behind its own; None if their rows cannot travel together.

    What it stores keeps its meaning: conditions keep their bits, and events of before have no value in new
    columns, and meet no new condition.
    """
    ways = [(each.mode, each.key, each.finds_matches) for each in (one, other)]
    if ways[0] != ways[1] or one.finds_matches:
        return None
    return replace(
        one,
        queries=(*one.queries, *other.queries),
        columns=tuple(sorted({*one.columns, *other.columns})),
        conditions=tuple(dict.fromkeys((*one.conditions, *other.conditions))),
        types=None if one.types is None or other.types is None else one.types | other.types,
    )


def within_exchanges(plans: Sequence[QueryPlan], found: Sequence[Exchange]) -> tuple[QueryPlan, ...]:
    """The plans regrouped within exchanges: only queries of one exchange can be folded together."""
    own = list(plans)
    for exchange in found:
        for query, plan in zip(
            exchange.queries, regrouped([plans[q] for q in exchange.queries]), strict=True
        ):
            own[query] = plan
    return tuple(own)


def _reach(plan: QueryPlan) -> int | None:
    """The length of a time window; None without a window, or for a window of events."""
    window = plan.query.window
    return None if window is None or window.unit is WindowUnit.EVENTS else window.length


def _plain(plan: QueryPlan) -> tuple[str, ...]:
    return tuple(key.attribute for key in plan.plain_keys)


def columns_of(plan: QueryPlan) -> frozenset[str]:
    """The attributes a query reads, besides those in conditions on single events."""
    found = {*plan.partition, *(key.attribute for key in plan.query.group_by)}
    found |= {a.attribute for a in aggregates_of(plan) if a.attribute is not None}
    found |= set(plan.query.returns.attributes) if isinstance(plan.query.returns, Matches) else set()
    for operand in plan.operands:
        predicates = operand.machine.predicates
        pairs, beside = (*predicates.adjacency, *predicates.cross), predicates.breaking
        conditions = (pair.condition for pair in pairs if not isinstance(pair.condition, NoneBetween))
        for condition in (*conditions, *(each.condition for each in beside)):
            found |= attributes_in(condition)
    return frozenset(found)


def types_of(plans: Sequence[QueryPlan]) -> TypeSet:
    """The event types of some plans' patterns."""
    operands = (operand for plan in plans for operand in plan.operands)
    sets = (position.types for operand in operands for position in operand.machine.automaton.positions)
    return reduce(or_, sets)


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
