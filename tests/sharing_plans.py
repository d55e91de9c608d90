"""Sharing plans that no optimizer would find: any Q-sets, any snapshots that can be had."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from trendfold.automaton.glushkov import Automaton
from trendfold.plan import Group, QueryPlan, plan_auto, plan_cogra
from trendfold.plan.gloria import Crossing, Share, SharingPlan
from trendfold.plan.gloria.valid import transitions, unfit_shares
from trendfold.plan.workload import WorkloadPlanner, rows_key, windows_at_once, PER_EVENT
from trendfold.query.nodes import Query, Semantics, WindowUnit


def template(automata: Sequence[Automaton]) -> SharingPlan:
    """The states of a workload, and no crossings yet."""
    positions = []
    for automaton in automata:
        seen: dict[str, int] = {}
        states = []
        for position in automaton.positions:
            seen[position.type] = seen.get(position.type, 0) + 1
            many = seen[position.type]
            states.append(position.type if many == 1 else f"{position.type}:{many}")
        positions.append(tuple(states))
    states = tuple(dict.fromkeys(state for own in positions for state in own))
    return SharingPlan(states, tuple(positions), (), 0.0, 0.0)


def random_plan(rng: random.Random, members: Sequence[QueryPlan], reuse: float = 0.6) -> SharingPlan:
    """Any valid plan: Q-sets that cannot have the snapshots they were given take their own."""
    automata = [member.operands[0].machine.automaton for member in members]
    empty = template(automata)
    usual = {q: rng.randrange(3) for q in range(len(members))}
    crossings = []
    for (source, target), queries in transitions(empty, automata).items():
        own = usual if rng.random() < 0.75 else {q: rng.randrange(3) for q in queries}
        sets: dict[object, list[int]] = {}
        for q in queries:
            sets.setdefault((own[q], _compared(members[q], empty.positions[q], source, target)), []).append(q)
        shares = []
        for group in sets.values():
            shares += _shares(rng, tuple(group), source, empty.states, reuse)
        crossings.append(Crossing(source, target, tuple(shares)))
    plan = replace(empty, crossings=tuple(crossings))
    while unfit := list(unfit_shares(plan, automata)):
        plan = _with_own(plan, {(c.source, c.target, share) for c, share, _ in unfit})
    return plan


def _compared(member: QueryPlan, states: Sequence[str], source: str, target: str) -> tuple[object, ...]:
    """The conditions between neighbours on a transition."""
    predicates = member.operands[0].machine.predicates
    numbers = predicates.between(states.index(source), states.index(target))
    return tuple(sorted(str(predicates.adjacency[i].condition) for i in numbers))


def _shares(
    rng: random.Random, queries: tuple[int, ...], source: str, states: Sequence[str], reuse: float
) -> list[Share]:
    if rng.random() < 0.15 or (len(queries) == 1 and rng.random() < 0.7):
        return [Share((q,)) for q in queries]
    return [Share(queries, rng.choice(states) if rng.random() < reuse else source)]


def _with_own(plan: SharingPlan, unfit: set[tuple[str, str, Share]]) -> SharingPlan:
    crossings = tuple(
        replace(
            crossing,
            shares=tuple(
                replace(share, snapshot=crossing.source)
                if (crossing.source, crossing.target, share) in unfit
                else share
                for share in crossing.shares
            ),
        )
        for crossing in plan.crossings
    )
    return replace(plan, crossings=crossings)


def reusing(plan: SharingPlan, automata: Sequence[Automaton], snapshot: str) -> SharingPlan:
    """All who can go together, with snapshots of one state wherever they can be had."""
    crossings = tuple(
        Crossing(source, target, (Share(tuple(queries), snapshot),))
        for (source, target), queries in transitions(plan, automata).items()
    )
    found = replace(plan, crossings=crossings)
    while unfit := list(unfit_shares(found, automata)):
        found = _with_own(found, {(c.source, c.target, share) for c, share, _ in unfit})
    return found


def can_share(plan: QueryPlan) -> bool:
    """Whether a query may be a member of a group under GLORIA."""
    window = plan.query.window
    return not (
        len(plan.operands) > 1
        or plan.query.semantics is not Semantics.ANY
        or plan.query.having is not None
        or plan.operands[0].machine.automaton.guards
        or plan.operands[0].machine.predicates.cross
        or windows_at_once(plan) == PER_EVENT
        or (window is not None and window.unit is not WindowUnit.MICROSECONDS)
    )


def planner(rng: random.Random, reuse: float = 0.6) -> WorkloadPlanner:
    """All queries that can be in a group are, under random plans."""

    def plan_all(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
        plans = [_planned(query) for query in queries]
        together: dict[object, list[int]] = {}
        for i, each in enumerate(plans):
            if can_share(each) and (key := rows_key(each)) is not None:
                together.setdefault(key, []).append(i)
        for numbers in together.values():
            members = tuple(plans[i] for i in numbers)
            group = Group("gloria", "gloria", members, random_plan(rng, members, reuse))
            for place, i in enumerate(numbers):
                plans[i] = replace(members[place], group=group, number=place)
        return tuple(plans)

    return plan_all


def _planned(query: Query) -> QueryPlan:
    plan = plan_auto(query)
    return plan if plan.strategy == "construct" else plan_cogra(query)
