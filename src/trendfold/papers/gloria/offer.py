"""Choices that need data statistics: lanes or a sharing plan, and which plan.

In one process that is before queries are folded. On Spark it is not: there queries that may be lanes are
lanes, and sharing plans are made as if all types were equally frequent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trendfold.kernel.lower_together import work_of
from trendfold.papers.gloria.calibrate import sharing_costs_here
from trendfold.papers.gloria.choose import Rates, cheaper
from trendfold.papers.gloria.plan import share
from trendfold.plan import Group, QueryPlan
from trendfold.plan.costs import Costs
from trendfold.plan.workload import windows_at_once, with_groups
from trendfold.runtime.groups import GroupRows, rows_of_group
from trendfold.runtime.limits import Limits
from trendfold.runtime.rows import Workspace
from trendfold.runtime.side_by_side import make_ready

WORTH_NS = 0.25e9
"""Finding a plan takes a while: not where queries are expected to take less than this side by side."""


def with_sharing_plans(
    plans: Sequence[QueryPlan], workspace: Workspace, origin: int, limits: Limits
) -> tuple[QueryPlan, ...]:
    """The plans, with a sharing plan for the groups of lanes for which one is expected to be cheaper.

    A sharing plan that has the graph it was found in is found anew, by the frequencies of the rows.
    """

    def change(group: Group) -> Group:
        if group.method == "lanes":
            return chosen(group, workspace, origin, limits)
        return weighed(group, workspace, origin, limits) if group.method == "gloria" else group

    return with_groups(plans, change)


def chosen(group: Group, workspace: Workspace, origin: int, limits: Limits) -> Group:
    """A group of lanes, or the same queries with a sharing plan."""
    costs = group.details if isinstance(group.details, Costs) else Costs()
    lanes = sum(map(windows_at_once, group.members))
    if len(workspace.batch) * lanes / 8 * costs.vector < WORTH_NS:
        return group
    together = rows_of_group(group, workspace, origin, limits)
    rates = rates_of(group, together, costs) if together is not None else None
    if rates is None:
        return group
    plan = cheaper(group.members, rates, sharing_costs_here())
    return replace(group, method="gloria", details=plan) if plan is not None else group


def rates_of(group: Group, together: GroupRows, costs: Costs) -> Rates | None:
    """What the rows of a group are like; None where they are few, or values too large for expressions."""
    ready = make_ready(group, together)
    symbol = together.rows.symbols[0]
    kinds = len(together.alphabet)
    total = np.bincount(symbol, minlength=kinds)
    changes = np.concatenate([symbol[:1], symbol[1:][symbol[1:] != symbol[:-1]]])
    bursts = np.bincount(changes, minlength=kinds)
    ns = sum(
        float(bursts[a]) * costs.apply(*work) + float(total[a] - bursts[a]) * costs.next
        for a, work in enumerate(work_of(ready.program))
    )
    if ns < WORTH_NS or not ready.events.is_small:
        return None
    windows = sum(map(windows_at_once, group.members)) / len(group.members)
    return Rates(frequencies_of(group, together), windows, ns * _share(together))


def weighed(group: Group, workspace: Workspace, origin: int, limits: Limits) -> Group:
    """A group whose sharing plan is found by the frequencies of its rows."""
    if not group.details.considered:
        return group
    together = rows_of_group(group, workspace, origin, limits)
    if together is None:
        return group
    return replace(group, details=share(group.members, group.strategy, frequencies_of(group, together)))


def frequencies_of(group: Group, together: GroupRows) -> dict[str, float]:
    """Events per type in the longest windows."""
    total = np.bincount(together.rows.symbols[0], minlength=len(together.alphabet)) * _share(together)
    frequencies: dict[str, float] = {}
    for a, symbols in enumerate(together.alphabet):
        for type_ in _types(group, symbols):
            frequencies[type_] = frequencies.get(type_, 0.0) + float(total[a])
    return frequencies


def _share(together: GroupRows) -> float:
    """What part of all rows one of the longest windows holds, on average."""
    means = [float(np.mean(items.high - items.low)) for items in together.items if len(items.low)]
    return max(means, default=0.0) / max(1, len(together.moment))


def _types(group: Group, symbols: Sequence[frozenset[int]]) -> set[str]:
    """The type of the rows of a symbol, as the members name it; none if nobody can take them."""
    return {
        member.operands[0].machine.automaton.positions[p].type
        for member, taken in zip(group.members, symbols, strict=True)
        for p in taken
    }
