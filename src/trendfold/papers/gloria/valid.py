"""Check whether sharing plans are valid, and find which snapshots pass through which transition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trendfold.automaton.glushkov import Automaton
from trendfold.papers.gloria import Crossing, Share, SharingPlan

Origin = tuple[str, tuple[int, ...]]
"""Where snapshots are taken: a state, and the Q-set that takes them."""

Ways = Mapping[tuple[str, str, int], Origin | None]
"""For each transition and query, the origin of its snapshots; None if it uses values."""


def why_invalid(plan: SharingPlan, automata: Sequence[Automaton]) -> str:
    """Why a plan is invalid for queries with these automata; empty if it is valid."""
    if len(plan.positions) != len(automata):
        return f"it is for {len(plan.positions)} queries, not for {len(automata)}"
    if problem := _misplaced(plan, automata) or _unfit_crossings(plan, automata):
        return problem
    for crossing, share, problem in unfit_shares(plan, automata):
        return f"{crossing.source} -> {crossing.target} {share}: {problem}"
    return ""


def unfit_shares(plan: SharingPlan, automata: Sequence[Automaton]) -> Iterator[tuple[Crossing, Share, str]]:
    """The Q-sets that cannot share a transition as planned, and why."""
    ways, beside = origins(plan), companions(plan)
    for crossing in plan.crossings:
        for share in crossing.shares:
            if problem := _unfit(share, crossing, plan, automata, ways, beside):
                yield crossing, share, problem


def origins(plan: SharingPlan) -> Ways:
    """The origin of each query's snapshots on each transition, propagated from state to state."""
    found: dict[tuple[str, str, int], Origin | None] = {}
    waiting: list[tuple[Crossing, Share]] = []
    arriving: dict[tuple[str, int], Origin] = {}
    for crossing in plan.crossings:
        for share in crossing.shares:
            if share.snapshot in ("", crossing.source):
                origin = (crossing.source, share.queries) if share.snapshot else None
                _hand_on(crossing, share, origin, found, arriving)
            else:
                waiting.append((crossing, share))
    is_new = True
    while is_new:
        is_new = False
        for crossing, share in waiting:
            if (crossing.source, crossing.target, share.queries[0]) in found:
                continue
            known = arriving.get((crossing.source, share.queries[0]))
            if known is not None and known[0] == share.snapshot:
                _hand_on(crossing, share, known, found, arriving)
                is_new = True
    return found


def companions(plan: SharingPlan) -> Mapping[tuple[str, str, int], Share]:
    """The Q-set of each query on each transition."""
    return {
        (crossing.source, crossing.target, q): share
        for crossing in plan.crossings
        for share in crossing.shares
        for q in share.queries
    }


def _hand_on(
    crossing: Crossing,
    share: Share,
    origin: Origin | None,
    found: dict[tuple[str, str, int], Origin | None],
    arriving: dict[tuple[str, int], Origin],
) -> None:
    for q in share.queries:
        found[crossing.source, crossing.target, q] = origin
        if origin is not None:
            arriving.setdefault((crossing.target, q), origin)


def transitions(plan: SharingPlan, automata: Sequence[Automaton]) -> dict[tuple[str, str], list[int]]:
    """The template's transitions, and the queries of each."""
    found: dict[tuple[str, str], list[int]] = {}
    for k, automaton in enumerate(automata):
        states = plan.positions[k]
        for p, q in sorted(automaton.edges):
            if p >= 0 and q >= 0:
                found.setdefault((states[p], states[q]), []).append(k)
    return found


def _misplaced(plan: SharingPlan, automata: Sequence[Automaton]) -> str:
    for k, (states, automaton) in enumerate(zip(plan.positions, automata, strict=True)):
        if len(states) != len(automaton.positions):
            return f"query {k} has {len(automaton.positions)} positions, and states for {len(states)}"
        if len(set(states)) < len(states):
            return f"two positions of query {k} are one state"
        if unknown := set(states) - set(plan.states):
            return f"query {k} has states that are none of the template's: {', '.join(sorted(unknown))}"
    return ""


def _unfit_crossings(plan: SharingPlan, automata: Sequence[Automaton]) -> str:
    wanted = transitions(plan, automata)
    found = {(crossing.source, crossing.target): crossing for crossing in plan.crossings}
    if len(found) < len(plan.crossings):
        return "a transition has several sharing plans"
    for source, target in wanted.keys() ^ found.keys():
        said = "has no sharing plan" if (source, target) in wanted else "is no query's"
        return f"{source} -> {target} {said}"
    for (source, target), crossing in found.items():
        queries = sorted(q for share in crossing.shares for q in share.queries)
        if queries != wanted[source, target]:
            return f"{source} -> {target}: the Q-sets are no partition of {wanted[source, target]}"
    return ""


def _unfit(
    share: Share,
    crossing: Crossing,
    plan: SharingPlan,
    automata: Sequence[Automaton],
    ways: Ways,
    beside: Mapping[tuple[str, str, int], Share],
) -> str:
    """Why a Q-set cannot share a transition as planned."""
    if not share.snapshot:
        return "several queries need a snapshot type" if len(share.queries) > 1 else ""
    if share.snapshot == crossing.source:
        return ""
    origin = ways.get((crossing.source, crossing.target, share.queries[0]))
    if origin is None:
        return f"no snapshots of {share.snapshot} come to {crossing.source}"
    for q in share.queries:
        here = plan.positions[q].index(crossing.source)
        if here in automata[q].first:
            return f"trends of query {q} begin at {crossing.source}, so it has values of its own"
        for source in automata[q].sources(here):
            before = plan.positions[q][source]
            come = beside[before, crossing.source, q]
            if not set(share.queries).issubset(come.queries):
                return f"{before} -> {crossing.source} is not crossed by all of them together"
            if ways.get((before, crossing.source, q)) != origin:
                return f"{before} -> {crossing.source} is not crossed with the same snapshots"
    return ""


def unshared(plan: SharingPlan) -> SharingPlan:
    """The same plan without sharing."""
    crossings = tuple(
        Crossing(
            crossing.source,
            crossing.target,
            tuple(Share((q,)) for q in sorted(q for share in crossing.shares for q in share.queries)),
        )
        for crossing in plan.crossings
    )
    return SharingPlan(plan.states, plan.positions, crossings, plan.alone, plan.alone)
