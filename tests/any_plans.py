"""Sharing plans that no optimizer would find: any Q-sets, any snapshots that can be had."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from trendfold.automaton.glushkov import Automaton
from trendfold.papers.gloria import Crossing, Share, SharingPlan
from trendfold.papers.gloria.valid import transitions, unfit_shares
from trendfold.plan import Group, QueryPlan, plan_auto, plan_cogra
from trendfold.plan.workload import PER_EVENT, WorkloadPlanner, rows_key, windows_at_once
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


def random_plan(rng: random.Random, members: Sequence[QueryPlan], reuse: float = 0.9) -> SharingPlan:
    """Any valid plan: Q-sets that cannot have the snapshots they were given take their own."""
    automata = [member.operands[0].machine.automaton for member in members]
    empty = template(automata)
    classes = rng.randint(1, 3)
    usual = {q: rng.randrange(classes) for q in range(len(members))}
    first = [empty.positions[q][p] for q, automaton in enumerate(automata) for p in automaton.first]
    favourites = [rng.choice(first)] * 9 + [rng.choice(empty.states)]
    crossings = []
    for (source, target), queries in transitions(empty, automata).items():
        own = usual if rng.random() < 0.85 else {q: rng.randrange(3) for q in queries}
        sets: dict[object, list[int]] = {}
        for q in queries:
            sets.setdefault((own[q], _compared(members[q], empty.positions[q], source, target)), []).append(q)
        shares = []
        for group in sets.values():
            shares += _shares(rng, tuple(group), source, favourites, reuse)
        crossings.append(Crossing(source, target, tuple(shares)))
    plan = replace(empty, crossings=tuple(crossings))
    while unfit := list(unfit_shares(plan, automata)):
        plan = _mended(plan, automata, {(c.source, c.target, share) for c, share, _ in unfit})
    return plan


def _compared(member: QueryPlan, states: Sequence[str], source: str, target: str) -> tuple[object, ...]:
    """The conditions between neighbours on a transition."""
    predicates = member.operands[0].machine.predicates
    numbers = predicates.between(states.index(source), states.index(target))
    return tuple(sorted(str(predicates.adjacency[i].condition) for i in numbers))


def _shares(
    rng: random.Random, queries: tuple[int, ...], source: str, favourites: Sequence[str], reuse: float
) -> list[Share]:
    if rng.random() < 0.05 or (len(queries) == 1 and rng.random() < 0.5):
        return [Share((q,)) for q in queries]
    return [Share(queries, rng.choice(favourites) if rng.random() < reuse else source)]


def _mended(
    plan: SharingPlan, automata: Sequence[Automaton], unfit: set[tuple[str, str, Share]]
) -> SharingPlan:
    """Q-sets that are unfit are split by how their queries come there; what cannot be split has its own."""
    crossings = []
    for crossing in plan.crossings:
        shares: list[Share] = []
        for share in crossing.shares:
            if (crossing.source, crossing.target, share) not in unfit:
                shares.append(share)
                continue
            parts: dict[object, list[int]] = {}
            for q in share.queries:
                parts.setdefault(_coming(plan, automata, crossing.source, q), []).append(q)
            snapshot = share.snapshot if len(parts) > 1 else crossing.source
            shares += [Share(tuple(part), snapshot) for part in parts.values()]
        crossings.append(replace(crossing, shares=tuple(shares)))
    return replace(plan, crossings=tuple(crossings))


def _coming(plan: SharingPlan, automata: Sequence[Automaton], state: str, q: int) -> object:
    """With whom a query comes to a state."""
    sources = automata[q].sources(plan.positions[q].index(state))
    before = {plan.positions[q][p] for p in sources if p >= 0}
    come = frozenset(
        (crossing.source, share)
        for crossing in plan.crossings
        if crossing.target == state and crossing.source in before
        for share in crossing.shares
        if q in share.queries
    )
    return come, len(before) < len(sources)


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


def planner(rng: random.Random, reuse: float = 0.9) -> WorkloadPlanner:
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
