"""Group queries for GLORIA: which queries can be in a group, and which optimizer plans it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from trendfold.papers.gloria import SharingPlan
from trendfold.papers.gloria.extended import optimize_extended
from trendfold.papers.gloria.path_cost import PAPER, CostModel, Weights
from trendfold.papers.gloria.search import FoundPlan, optimize, optimize_greedily, optimize_unpruned, plan_of
from trendfold.papers.gloria.template import GloriaTemplate, make_template
from trendfold.plan import Group, QueryPlan
from trendfold.plan.company import OWN_ROWS, OWN_STREAMS, plan_coarsely, unfit
from trendfold.plan.statistics import GroupStatistics
from trendfold.plan.workload import rows_key
from trendfold.query.nodes import Query

METHOD = "gloria"
"""How such groups are folded: a key of `run.FOLDS`."""

Optimizer = Callable[[GloriaTemplate, Weights], FoundPlan]

OPTIMIZERS: dict[str, Optimizer] = {
    "gloria": optimize,
    "gloria-greedy": optimize_greedily,
    "gloria-noprune": optimize_unpruned,
    "auto": optimize_extended,
}
"""The optimizer of each strategy; `auto` uses the extended one."""

UNKNOWN: Mapping[str, float] = MappingProxyType({})
"""Unknown type frequencies: all types are equally frequent."""


def plan_with_gloria(
    queries: Sequence[Query], strategy: str, key: Callable[[QueryPlan], Hashable | None]
) -> tuple[QueryPlan, ...]:
    """Plan queries: groups for those that can share, COGRA's plan for each of the others.

    `key` is equal for queries whose rows are split into the same streams; None if a query cannot be grouped.
    """
    plans = [plan_coarsely(query) for query in queries]
    alone = {i: reason for i, plan in enumerate(plans) if (reason := misfit(plan))}
    together: dict[Hashable, list[int]] = {}
    for i, plan in enumerate(plans):
        if i not in alone:
            own = key(plan)
            together.setdefault((OWN_STREAMS, i) if own is None else own, []).append(i)
    found = list(plans)
    for numbers in together.values():
        if len(numbers) == 1:
            alone[numbers[0]] = OWN_STREAMS if key(plans[numbers[0]]) is None else OWN_ROWS
            continue
        members = tuple(replace(plans[i], strategy=strategy) for i in numbers)
        group = Group(strategy, METHOD, members, share(members, strategy))
        for place, i in enumerate(numbers):
            found[i] = replace(members[place], group=group, number=place)
    for i, reason in alone.items():
        found[i] = replace(plans[i], alone=reason)
    return tuple(found)


def misfit(plan: QueryPlan) -> str:
    """Why a query cannot be in a group; empty if it can."""
    if reason := unfit(plan):
        return reason
    return "a NOT undoes trends, query by query" if plan.operands[0].machine.automaton.guards else ""


def share(
    members: Sequence[QueryPlan],
    strategy: str = "gloria",
    frequencies: Mapping[str, float] = UNKNOWN,
    model: CostModel = PAPER,
) -> SharingPlan:
    """The sharing plan of compatible queries; `frequencies` are events per type and window."""
    template = template_of(members)
    return plan_of(OPTIMIZERS[strategy](template, Weights(template.types, frequencies, model)))


def fitted(group: Group, known: GroupStatistics) -> SharingPlan:
    """The plan of a group, searched for again by the frequencies of its rows."""
    planned: SharingPlan = group.details
    return share(group.members, group.strategy, known.frequencies) if planned.considered else planned


def template_of(members: Sequence[QueryPlan | None], parts: bool = False) -> GloriaTemplate:
    """The template of planned queries; those that compare neighbours differently do not go together there.

    With `parts`, neither do those that differ in what they ask of an event: in our kernels an event that only
    some of a Q-set can take is a snapshot of its own.
    """
    machines = [member.operands[0].machine if member else None for member in members]

    def compared(query: int, p: int, q: int) -> Hashable:
        if (machine := machines[query]) is None:
            return None
        predicates = machine.predicates
        neighbours = frozenset(predicates.adjacency[i].condition for i in predicates.between(p, q))
        return neighbours, frozenset(predicates.wanted_at(q)) if parts else None

    return make_template([machine.automaton if machine else None for machine in machines], compared)


def plan_gloria(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """Queries share transitions, with snapshots of some type, by the cheapest path of the GLORIA graph."""
    return plan_with_gloria(queries, "gloria", rows_key)


def plan_gloria_greedy(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """The same with the greedy optimizer."""
    return plan_with_gloria(queries, "gloria-greedy", rows_key)


def plan_gloria_noprune(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """The same without pruning the graph."""
    return plan_with_gloria(queries, "gloria-noprune", rows_key)


PLANNERS = {
    "gloria": plan_gloria,
    "gloria-greedy": plan_gloria_greedy,
    "gloria-noprune": plan_gloria_noprune,
}
