"""HAMLET's benefit model as published, the reference for the kernel's choice of who shares a burst.

One function per published formula, in the paper's symbols:

    b    events in the burst            n    events per window so far
    g    events in the graphlet         t    event types per query
    k    queries that share; a query counts once per open window
    s_c  snapshots created              s_p  snapshots propagated

Source: HAMLET (SIGMOD 2021), Sections 4.1 to 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class Burst:
    """The parameters of a complete burst."""

    b: int
    n: int
    g: int
    t: int


@dataclass(frozen=True, slots=True)
class Sharer:
    """Queries with the same predicates, which all share a burst or all do not.

    windows  the number of open windows of all these queries
    rejects  the events of the burst that they cannot take, by number
    """

    windows: int = 1
    rejects: frozenset[int] = frozenset()


Chosen = frozenset[int]
"""The numbers of the sharers that share; the others process every event on their own."""


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
    """One at the start of the graphlet, and one per event that only some can take (3.11)."""
    rejects = [sharers[q].rejects for q in chosen]
    if not rejects:
        return 1
    return 1 + len(frozenset[int]().union(*rejects) - frozenset.intersection(*rejects))


def plan_cost(burst: Burst, sharers: Sequence[Sharer], chosen: Chosen) -> int:
    """The cost of a plan of Figure 7: the chosen share one graphlet, each other has its own."""
    total = sum(sharer.windows for sharer in sharers)
    k = sum(sharers[q].windows for q in chosen)
    if k < 2:
        return nonshared_cost(burst, total)
    created = snapshots(sharers, chosen)
    return shared_cost(burst, k, created, created) + nonshared_cost(burst, total - k)


def all_plans(sharers: int) -> Iterator[Chosen]:
    """Figure 7: all sets that may share; also sets of one sharer, which may have many windows."""
    for size in range(sharers + 1):
        yield from map(frozenset, combinations(range(sharers), size))


def exhaustive_choice(burst: Burst, sharers: Sequence[Sharer]) -> Chosen:
    """The cheapest of all plans, by exhaustive search; ties go to the one that shares less."""
    return min(all_plans(len(sharers)), key=lambda chosen: plan_cost(burst, sharers, chosen))


def pruned_choice(burst: Burst, sharers: Sequence[Sharer]) -> Chosen:
    """The paper's choice in O(m): levels 1 and 2 of the search space, and both pruning principles.

    Snapshot-driven (Theorem 4.3): a sharer that adds no snapshots shares. Benefit-driven (Theorem 4.5): any
    other shares if it pays in the set of all. The result is compared with not sharing at all. Neither
    theorem holds under Equation 7 in general (docs/hamlet.md), so this may miss the best plan.
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
