"""Decide whether a sharing plan is cheaper than lanes: GLORIA for `auto`.

As lanes, a query costs a fraction of a nanosecond per event, so sharing only pays with few snapshots and many
lanes. The decision uses statistics of the rows, and measured costs of both kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trendfold.papers.gloria import SharingPlan
from trendfold.papers.gloria.extended import optimize_extended
from trendfold.papers.gloria.path_cost import KernelCosts, Weights
from trendfold.papers.gloria.plan import METHOD, misfit, template_of
from trendfold.papers.gloria.search import plan_of
from trendfold.plan import QueryPlan
from trendfold.plan.statistics import GroupStatistics
from trendfold.plan.workload import windows_at_once

__all__ = ["METHOD", "cheaper"]

COSTS = KernelCosts()
"""Measured on the machine on which plan.cost was: only the ratio of the two matters."""
SURE = 0.6
"""A plan is chosen if its estimate is at most this fraction of the alternative's; both are rough."""
MOST_DOUBLINGS = 300
"""In a Kleene sub-pattern coefficients double with events; past 2^400 every expression is evaluated again."""


def cheaper(
    members: Sequence[QueryPlan], known: GroupStatistics, lanes_ns: float, costs: KernelCosts = COSTS
) -> SharingPlan | None:
    """The best plan found for the members, if it is expected to be cheaper than all of them as lanes.

    lanes_ns  what lanes are expected to take for all rows
    """
    rows, lanes = sum(known.frequencies.values()), lanes_ns * known.window_share
    if any(map(misfit, members)) or rows * costs.event > SURE * lanes:
        return None
    template = template_of(members, parts=True)
    windows = sum(map(windows_at_once, members)) / len(members)
    weights = Weights(template.types, known.frequencies, replace(costs, windows=windows))
    if any(sum(map(weights.events, states)) > MOST_DOUBLINGS for states in template.cycles):
        return None
    found = optimize_extended(template, weights)
    return plan_of(found) if found.cost + rows * costs.event <= SURE * lanes else None
