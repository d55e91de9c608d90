"""Whether a sharing plan is expected to be cheaper than queries side by side: GLORIA for `auto`.

Side by side a query costs a fraction of a nanosecond per event, so little is left to share: snapshots must be
few and lanes many. That is told from what was seen of the rows, by costs that were measured on both kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trendfold.papers.gloria import SharingPlan
from trendfold.papers.gloria.cost import KernelCosts, Weights
from trendfold.papers.gloria.extended import optimize_extended
from trendfold.papers.gloria.plan import misfit, template_of
from trendfold.papers.gloria.search import plan_of
from trendfold.plan import QueryPlan

SURE = 0.6
"""A plan is taken if it is expected to cost at most so much of what it is compared with; both are rough."""
MOST_DOUBLINGS = 300
"""In a Kleene sub-pattern coefficients double with events; past 2^400 every expression is evaluated again."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What was seen of the rows of some queries; all of it for as long as their longest window.

    frequencies   events per type
    windows       in how many windows an event is, on average over queries
    side_by_side  nanoseconds that the queries are expected to take side by side
    """

    frequencies: Mapping[str, float]
    windows: float
    side_by_side: float


def cheaper(members: Sequence[QueryPlan], rates: Rates, costs: KernelCosts) -> SharingPlan | None:
    """The best plan found for the members, if it is cheaper than all of them side by side."""
    rows = sum(rates.frequencies.values())
    if any(map(misfit, members)) or rows * costs.event > SURE * rates.side_by_side:
        return None
    template = template_of(members, parts=True)
    weights = Weights(template.types, rates.frequencies, replace(costs, windows=rates.windows))
    if any(sum(map(weights.events, states)) > MOST_DOUBLINGS for states in template.cycles):
        return None
    found = optimize_extended(template, weights)
    return plan_of(found) if found.cost + rows * costs.event <= SURE * rates.side_by_side else None
