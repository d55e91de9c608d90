"""Optimizing sharing plans: GLORIA's Figures 11 to 15. The "events" of these lines are queries."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import pyarrow as pa

from trendfold.bench import trade_queries
from trendfold.bench.harness import Case, Promise, Verdict
from trendfold.events.generate import StreamSettings, stock
from trendfold.papers.gloria import SharingPlan
from trendfold.papers.gloria.plan import share
from trendfold.papers.gloria.valid import why_invalid
from trendfold.plan import QueryPlan
from trendfold.plan.workload import plan_all
from trendfold.query.nodes import Query

SEQUENCES, KLEENE_LENGTHS, MIXED, KLEENE_SHARES = (
    range(40, 201, 40),
    range(2, 11, 2),
    (12, 60, 120),
    (10, 30, 60),
)
SECONDS, FASTER, SAME = 2.0, 5.0, 0.999
"""Promises for 200 sequences: seconds to optimize, speedup over no pruning, and the least cost of the plan
without pruning relative to ours."""
OPTIMIZERS = {"gloria": "gloria", "NoPrune": "gloria-noprune", "Greedy": "gloria-greedy"}
Members = Callable[[], Sequence[QueryPlan]]
"""The members of a group, planned on first use."""
LARGEST = f"sequences, {SEQUENCES[-1]}"


def workloads(seed: int) -> dict[str, tuple[Query, ...]]:
    """The workloads of Figures 11 (two), 12, 13 and 15, 14."""
    found = {f"sequences, {n}": trade_queries.sequences(n, seed) for n in SEQUENCES}
    found |= {f"through a hub, {n}": trade_queries.through_a_hub(n, seed) for n in SEQUENCES[::4]}
    found |= {f"Kleene of length, {n}": trade_queries.kleene(100, seed, n) for n in KLEENE_LENGTHS}
    found |= {f"mixed, {n}": trade_queries.mixed(n, seed) for n in MIXED}
    found |= {f"100 mixed, {n} % Kleene": trade_queries.mixed(100, seed, n / 100) for n in KLEENE_SHARES}
    return found


def cases(seed: int) -> Iterator[Case]:
    """Time template, graph and path of each optimizer; plans must be valid, costs are checked separately."""
    for what, queries in workloads(seed).items():
        members = cache(partial(members_of, queries))
        unpruned = name(what, "NoPrune")
        for way, strategy in OPTIMIZERS.items():
            promises: tuple[Promise, ...] = ()
            if (what, way) == (LARGEST, "gloria"):
                promises = (Promise(len(queries) / SECONDS), Promise(FASTER, unpruned))
            yield Case(
                name(what, way),
                partial(optimized, members, strategy, seed),
                len(queries),
                None if way == "NoPrune" else unpruned,
                promises,
                answer=partial(_problem, members),
                expected=str,
            )


def _problem(members: Members, plan: SharingPlan) -> str:
    """Why a plan is invalid; empty if it is valid."""
    return why_invalid(plan, [member.operands[0].machine.automaton for member in members()])


def name(what: str, way: str) -> str:
    """The name of a line."""
    return f"optimize {what}, {way}"


def verdicts(seed: int) -> dict[str, Verdict]:
    """The plan of 200 sequences costs the same without pruning."""
    unpruned, pruned = (costs(seed, LARGEST)[way] for way in ("NoPrune", "gloria"))
    return {name(LARGEST, "gloria"): Verdict(Promise(SAME, "the cost of NoPrune's plan"), unpruned / pruned)}


@cache
def costs(seed: int, what: str) -> dict[str, float]:
    """The cost of each optimizer's plan by the paper's formulas, and of not sharing."""
    members = cache(partial(members_of, workloads(seed)[what]))
    plans = {way: optimized(members, strategy, seed) for way, strategy in OPTIMIZERS.items()}
    return {way: plan.cost / plan.alone for way, plan in plans.items()}


@cache
def memory(seed: int, what: str) -> dict[str, int]:
    """The peak memory of each optimizer in bytes."""
    members, found = cache(partial(members_of, workloads(seed)[what])), {}
    members()
    for way, strategy in OPTIMIZERS.items():
        tracemalloc.start()
        optimized(members, strategy, seed)
        found[way] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return found


def ratios(seed: int) -> dict[str, float]:
    """Figure 15, and how much cheaper plans are than greedy ones."""
    found = {}
    for what in (LARGEST, f"mixed, {MIXED[-1]}"):
        held, cost = memory(seed, what), costs(seed, what)
        found[f"memory of NoPrune over gloria, {what}"] = held["NoPrune"] / held["gloria"]
        found[f"cost of Greedy's plan over gloria's, {what}"] = cost["Greedy"] / cost["gloria"]
        found[f"cost of NoPrune's plan over gloria's, {what}"] = cost["NoPrune"] / cost["gloria"]
    return found


def members_of(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """The plans of queries as members of one group."""
    group = plan_all(queries, "gloria-greedy")[0].group
    assert group is not None
    assert len(group.members) == len(queries)
    return group.members


def optimized(members: Members, strategy: str, seed: int) -> SharingPlan:
    """Optimize a group with the type frequencies of a stream."""
    return share(members(), strategy, _frequencies(seed))


@cache
def _frequencies(seed: int) -> dict[str, float]:
    return frequencies_of(stream(seed, 12_000))


def stream(seed: int, events: int, burst: int = 3) -> pa.Table:
    """An hour of trades."""
    return stock(
        StreamSettings(events=events, seed=seed, types=trade_queries.TYPES, rate=events / 3_600, burst=burst)
    )


def frequencies_of(table: pa.Table) -> dict[str, float]:
    """Events by type."""
    counted = table.column("type").value_counts().to_pylist()
    return {each["values"]: float(each["counts"]) for each in counted}
