"""Queries -> the plans of a workload: which queries are folded together, and how."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from trendfold.errors import UnsupportedError
from trendfold.plan.alike import shared_trees_key
from trendfold.plan.logical import LANES, PLANNERS, SHARED_TREES, Group, QueryPlan, plan, plan_auto
from trendfold.plan.papers import NEED_RATES, PAPERS, paper
from trendfold.plan.statistics import GroupStatistics
from trendfold.plan.stream_statistics import StreamStatistics
from trendfold.query.nodes import Query, TypeSet

WorkloadPlanner = Callable[[Sequence[Query]], tuple[QueryPlan, ...]]
"""Plans all queries of a workload; those with a group are folded together."""

MOST_WINDOWS = 64
"""A query with more windows per event is folded alone, so that its windows can share stretches."""

PER_EVENT = 1 << 30
"""Stands for one window per event: an event is in as many windows as a window has events."""


def plan_auto_together(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """Plan each query by itself, and group those that can be lanes of one machine, or share trees."""
    found = grouped(tuple(map(plan_auto, queries)), "auto", LANES, lanes_key)
    found = grouped(found, "auto", LANES, _per_event_key)
    found = grouped(found, "auto", SHARED_TREES, _trees_key)
    if len(found) < 2:
        return found
    return tuple(replace(p, alone=_why_alone(p)) if p.group is None else p for p in found)


def _why_alone(plan: QueryPlan) -> str:
    """The reason that a query is in no group."""
    if shared_trees_key(plan) is not None:
        return "no other query compares neighbours alike in the same windows, partitions and groups"
    if _per_event_key(plan) is not None:
        return "no other query with windows per event has the same partitions and groups"
    return why_no_lanes(plan) or "no other query that fits into lanes has the same partitions and groups"


def _per_event_key(plan: QueryPlan) -> Hashable | None:
    """A key equal for queries with windows per event that can be lanes of one machine.

    They have groups of their own: how many of their windows are open at once depends on the data, and with
    too many they are folded one by one.
    """
    if windows_at_once(plan) != PER_EVENT or plan.qualified_keys or why_no_lanes(plan, PER_EVENT):
        return None
    return plan.partition, tuple(key.attribute for key in plan.plain_keys)


def _trees_key(plan: QueryPlan) -> Hashable | None:
    """A key equal for queries that can share trees."""
    rows, trees = rows_key(plan), shared_trees_key(plan)
    return None if rows is None or trees is None else (rows, trees)


def plan_all(queries: Sequence[Query], strategy: str = "auto") -> tuple[QueryPlan, ...]:
    """Plan a workload under a strategy."""
    if strategy == "auto":
        return plan_auto_together(queries)
    if strategy in PAPERS:
        planner: WorkloadPlanner = paper(strategy, "plan").PLANNERS[strategy]
        return planner(queries)
    if strategy not in PLANNERS:
        known = dict.fromkeys([*PLANNERS, *PAPERS])
        raise UnsupportedError(f"unknown strategy {strategy!r}; choose one of {', '.join(known)}")
    return tuple(plan(query, strategy) for query in queries)


@dataclass(frozen=True, slots=True)
class Unit:
    """The queries for which `choose` makes one choice: those of a group, or a single one.

    plans    some or all members of the group
    numbers  their indices in the workload
    """

    plans: tuple[QueryPlan, ...]
    numbers: tuple[int, ...]
    group: Group | None = None


def units(plans: Mapping[int, QueryPlan]) -> list[Unit]:
    """Split plans, given by their indices in the workload, into units, ordered by their first queries."""
    together: dict[str | int, list[int]] = {}
    for number, each in plans.items():
        together.setdefault(number if each.group is None else each.group.key, []).append(number)
    return [
        Unit(tuple(plans[n] for n in numbers), tuple(numbers), plans[numbers[0]].group)
        for numbers in together.values()
    ]


def regrouped(plans: Sequence[QueryPlan]) -> tuple[QueryPlan, ...]:
    """Plan the queries of incomplete groups again, for a subset of a workload's plans."""
    found = list(plans)
    for unit in units(dict(enumerate(plans))):
        if unit.group is not None and len(unit.plans) < len(unit.group.members):
            anew = plan_all([each.query for each in unit.plans], unit.group.strategy)
            for number, each in zip(unit.numbers, anew, strict=True):
                found[number] = each
    return tuple(found)


def needs_rates(plans: Sequence[QueryPlan]) -> bool:
    """Whether any group is planned by how often types come, and is not yet."""
    return any(p.group is not None and p.group.method in NEED_RATES and not p.group.fitted_by for p in plans)


def fitted_to(
    plans: Sequence[QueryPlan], statistics: StreamStatistics | None, source: str
) -> tuple[QueryPlan, ...]:
    """Fit the plans of groups to statistics, so that the same plan runs everywhere; `source` says whose."""
    found = list(plans)
    for unit in units(dict(enumerate(plans))) if statistics is not None and statistics.rates else ():
        if unit.group is None or unit.group.method not in NEED_RATES or statistics is None:
            continue
        rates = _per_window(unit.plans, statistics.rates)
        details = paper(unit.group.method, "plan").fitted(unit.group, GroupStatistics(frequencies=rates))
        group = replace(unit.group, details=details, fitted_by=source, rates=tuple(rates.items()))
        for number, each in zip(unit.numbers, unit.plans, strict=True):
            found[number] = replace(each, group=group)
    return tuple(found)


GIVEN, SAMPLED = "the statistics given", "a sample of the rows"
"""Sources of statistics."""
_UNBOUNDED_S = 3_600.0
"""Queries without windows are planned as for windows of so many seconds: mostly ratios of rates matter."""


def _per_window(plans: Sequence[QueryPlan], rates: Mapping[str, float]) -> dict[str, float]:
    """Events per type in one of the longest windows."""
    windows = [plan.query.window for plan in plans]
    bounded = [window.length / 1e6 for window in windows if window is not None]
    seconds = max(bounded) if len(bounded) == len(windows) else _UNBOUNDED_S
    return {name: rate * seconds for name, rate in rates.items()}


def grouped(
    plans: Sequence[QueryPlan],
    strategy: str,
    method: str,
    key: Callable[[QueryPlan], Hashable | None],
    least: int = 2,
    details: Callable[[Sequence[QueryPlan]], object] = lambda members: None,
) -> tuple[QueryPlan, ...]:
    """Group plans with equal keys, if at least `least` have the key; a key of None leaves a plan alone."""
    together: dict[Hashable, list[int]] = {}
    for number, each in enumerate(plans):
        if (found := key(each)) is not None:
            together.setdefault(found, []).append(number)
    result = list(plans)
    for numbers in together.values():
        if len(numbers) < least:
            continue
        members = tuple(plans[n] for n in numbers)
        group = Group(strategy, method, members, details(members))
        for place, n in enumerate(numbers):
            result[n] = replace(plans[n], group=group, number=place)
    return tuple(result)


def rows_key(plan: QueryPlan) -> Hashable | None:
    """A key equal for queries whose rows have the same segments; None if no other query can have the same.

    GROUP BY T.g is the same for two queries if T stands for all positions of the same types. Keys are in the
    same order, since a member's keys name those of the first one by one.
    """
    if len(plan.operands) != 1:
        return None
    automaton = plan.operands[0].machine.automaton
    keys: list[tuple[TypeSet | None, str]] = []
    for key in plan.query.group_by:
        types = None if key.alias is None else automaton.types_at(key.alias)
        called = automaton.called(key.alias or "")
        if types is not None and any(
            types.meets(p.types) and p.index not in called for p in automaton.positions
        ):
            return None
        keys.append((types, key.attribute))
    return plan.partition, tuple(keys)


def lanes_key(plan: QueryPlan) -> Hashable | None:
    """A key equal for queries that can be lanes of one machine; None if a query can not be one."""
    if why_no_lanes(plan):
        return None
    if len(plan.operands) > 1:
        return plan.partition, tuple((None, key.attribute) for key in plan.plain_keys)
    return rows_key(plan)


def why_no_lanes(plan: QueryPlan, most_windows: int = MOST_WINDOWS) -> str:
    """The reason that a query cannot be folded in lanes (kernel.machine_lanes); empty if it can."""
    if plan.finds_matches:
        return "it returns matches, not aggregates"
    if any(operand.builds_trends or operand.machine.by_event for operand in plan.operands):
        return "a predicate compares events, so bindings are kept one by one"
    if plan.query.bound is not None:
        return f"WITHIN {'ONCE' if plan.query.window is None else 'EVERY'} bounds each trend by itself"
    if len(plan.operands) > 1 and plan.qualified_keys:
        return "GROUP BY names an alias of one operand of AND"
    if len({key.alias for key in plan.qualified_keys}) > 1:
        return "GROUP BY names several aliases"
    if windows_at_once(plan) == PER_EVENT > most_windows:
        return "it has a window per event"
    if windows_at_once(plan) > most_windows:
        return f"more than {most_windows:,} of its windows overlap, so they share stretches instead"
    return ""


def lane_shape(plan: QueryPlan) -> Hashable:
    """A key equal for queries whose machines differ only in the types and conditions of their positions."""
    return plan.query.semantics, tuple(
        (len(o.machine.automaton.positions), o.machine.automaton.edges, o.machine.automaton.guards, o.carried)
        for o in plan.operands
    )


def windows_at_once(plan: QueryPlan) -> int:
    """The most windows that hold one event; PER_EVENT for windows without SLIDE."""
    window = plan.query.window
    if window is None:
        return 1
    return PER_EVENT if window.slide is None else -(-window.length // window.slide)
