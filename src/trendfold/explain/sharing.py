"""What a query shares with the other queries of its group, or why it is folded alone."""

from __future__ import annotations

from typing import Any

from trendfold.papers.gloria import Considered, Share, SharingPlan
from trendfold.papers.hamlet.plan import Pair, Sharable
from trendfold.plan import Group, QueryPlan
from trendfold.plan.logical import LANES, SHARED_TREES
from trendfold.plan.workload import PER_EVENT, lane_shape, windows_at_once

Value = dict[str, Any]


def describe_sharing(plan: QueryPlan) -> Value:
    """The sharing of one plan as a JSON value; empty if queries are planned one by one."""
    if plan.alone:
        return {"alone": plan.alone}
    if plan.group is not None and isinstance(plan.group.details, SharingPlan):
        return _path(plan.group.details, plan.number, [member.query.name for member in plan.group.members])
    if plan.group is None or not isinstance(plan.group.details, Sharable):
        return {}
    details, names = plan.group.details, [member.query.name for member in plan.group.members]
    own = [pair for pair in details.pairs if plan.number in (pair.first, pair.second)]
    return {
        "pane": details.pane,
        "with": [_pair(pair, plan.number, names) for pair in own],
        "sub_patterns": [
            {"type": family.type, "queries": [names[k] for k in family.positions]}
            for family in details.families
        ],
        "template": [
            {"from": t.source, "to": t.target, "queries": [names[k] for k in sorted(t.queries)]}
            for t in details.template.transitions
        ],
    }


_SHARED = {
    LANES: "a burst of equal events is applied once",
    SHARED_TREES: "values are ranked and bindings are found once",
}
OWN_LANE = "a lane of its own: NOT changes the class of pending counts in a few operations"


def tell_lanes(plan: QueryPlan, group: Group) -> list[str]:
    """What a query has in common with each other query of its lanes."""
    lines = [f"one pass over rows sorted once; {_SHARED[group.method]} for all queries"]
    slots = windows_at_once(plan)
    if slots == PER_EVENT:
        lines.append("a slot per open window: as many as events that may end a trend within WITHIN")
    elif slots > 1:
        lines.append(f"{slots} slots: as many windows can hold one event")
    for k, member in enumerate(group.members):
        if k == plan.number:
            continue
        is_alike = lane_shape(member) == lane_shape(plan)
        what = "same shape: lanes side by side" if is_alike else "different shape: a block of its own"
        lines.append(f"{member.query.name}: {what}")
    return lines


def _pair(pair: Pair, number: int, names: list[str]) -> Value:
    other = pair.second if pair.first == number else pair.first
    return {
        "query": names[other],
        "types": list(pair.types),
        "aggregates": list(pair.aggregates),
        "why_not": pair.obstacle,
    }


def _path(details: SharingPlan, number: int, names: list[str]) -> Value:
    """The nodes of a GLORIA path that concern one query, and what the whole path saves over not sharing."""
    own = [each for each in details.considered if any(number in share.queries for share in each.chosen)]
    return {
        "cost": details.cost,
        "cost_alone": details.alone,
        "queries": len(names),
        "path": [_pool(each, names) for each in own],
    }


def _pool(pool: Considered, names: list[str]) -> Value:
    return {
        "transitions": [list(edge) for edge in pool.transitions],
        "sets": _sets(pool.chosen, names),
        "weight": pool.weight,
        "distance": pool.distance,
        "others": [
            {"sets": _sets(other.shares, names), "distance": other.distance, "pruned": other.is_pruned}
            for other in pool.others
        ],
    }


def _sets(shares: tuple[Share, ...], names: list[str]) -> list[Value]:
    return [{"queries": [names[q] for q in share.queries], "snapshot": share.snapshot} for share in shares]
