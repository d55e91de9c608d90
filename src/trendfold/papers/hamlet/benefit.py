"""HAMLET's benefit model: is a burst of E worth sharing, and by which queries?

One function per published formula, in the paper's symbols:

    b    events in the burst            n    events per window so far
    g    events in the graphlet         t    event types per query
    k    queries that share; one that is in several windows at once counts as often
    s_c  snapshots created              s_p  snapshots propagated

Source: HAMLET (SIGMOD 2021), Sections 4.1 to 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class Burst:
    """What is known of a burst when it is complete."""

    b: int
    n: int
    g: int
    t: int


@dataclass(frozen=True, slots=True)
class Sharer:
    """Queries with the same predicates, which share a burst together or not at all.

    windows  the windows they are in, all queries together
    rejects  the events of the burst, by number, that they cannot take
    """

    windows: int = 1
    rejects: frozenset[int] = frozenset()


Chosen = frozenset[int]
"""Numbers of the sharers that share; the others take every event on their own."""


def shared_cost(burst: Burst, k: int, s_c: int, s_p: int) -> int:
    """Equation 7: b · n · s_p + s_c · k · g · t."""
    return burst.b * burst.n * s_p + s_c * k * burst.g * burst.t


def nonshared_cost(burst: Burst, k: int) -> int:
    """Equation 7: k · b · n."""
    return k * burst.b * burst.n


def benefit(burst: Burst, k: int, s_c: int, s_p: int) -> int:
    """Definition 4.2: what sharing saves; share if it is positive."""
    return nonshared_cost(burst, k) - shared_cost(burst, k, s_c, s_p)


def snapshots(sharers: Sequence[Sharer], chosen: Chosen) -> int:
    """One at the graphlet's beginning, and one per event that some can take and others cannot (3.11)."""
    rejects = [sharers[q].rejects for q in chosen]
    if not rejects:
        return 1
    return 1 + len(frozenset[int]().union(*rejects) - frozenset.intersection(*rejects))


def plan_cost(burst: Burst, sharers: Sequence[Sharer], chosen: Chosen) -> int:
    """The cost of a plan of Figure 7: the chosen share one graphlet, all others have their own."""
    total = sum(sharer.windows for sharer in sharers)
    k = sum(sharers[q].windows for q in chosen)
    if k < 2:
        return nonshared_cost(burst, total)
    created = snapshots(sharers, chosen)
    return shared_cost(burst, k, created, created) + nonshared_cost(burst, total - k)


def all_plans(sharers: int) -> Iterator[Chosen]:
    """Figure 7: every set that may share; sets of one sharer too, since it may be in many windows."""
    for size in range(sharers + 1):
        yield from map(frozenset, combinations(range(sharers), size))


def exhaustive_choice(burst: Burst, sharers: Sequence[Sharer]) -> Chosen:
    """The cheapest of all plans, by looking at every one; among equals the one that shares less."""
    return min(all_plans(len(sharers)), key=lambda chosen: plan_cost(burst, sharers, chosen))


def pruned_choice(burst: Burst, sharers: Sequence[Sharer]) -> Chosen:
    """The paper's choice in O(m): levels 1 and 2 of the search space, and both pruning principles.

    Snapshot-driven (Theorem 4.3): who brings no snapshots of its own shares. Benefit-driven (Theorem 4.5):
    any other shares if it pays in the set of all. What is left is compared with not sharing at all. Neither
    theorem holds under Equation 7 in general (tests/plan/test_hamlet.py), so this may miss the best plan.
    """
    everybody, nobody = frozenset(range(len(sharers))), frozenset[int]()
    created = snapshots(sharers, everybody)
    chosen = frozenset(
        q
        for q in everybody
        if snapshots(sharers, everybody - {q}) == created or pays_among(burst, sharers, everybody, q)
    )
    is_worth = plan_cost(burst, sharers, chosen) < plan_cost(burst, sharers, nobody)
    return chosen if is_worth else nobody


def pays_among(burst: Burst, sharers: Sequence[Sharer], others: Chosen, q: int) -> bool:
    """The condition of Theorem 4.5: Shared(Q) <= Shared(Q without q) + NonShared(q)."""
    return plan_cost(burst, sharers, others | {q}) <= plan_cost(burst, sharers, others - {q})
