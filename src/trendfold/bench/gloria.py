"""GLORIA beside what its paper compares with: Figures 11 to 19 at the size of one machine.

Figures 11 to 15: how long its optimizer takes, beside one without pruning and a greedy one, over workloads of
sequences, Kleene patterns and both; "events" are queries there. Figures 16 to 19: how fast plans are carried
out, beside `greta`, `hamlet` and `auto`. Plans are made beforehand; what is timed is a whole run.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from trendfold.bench import trade_queries
from trendfold.bench.curves import draw
from trendfold.bench.harness import Case, Promise, Report
from trendfold.events.batch import Options
from trendfold.events.generate import Options as Stream
from trendfold.events.generate import stock
from trendfold.plan import QueryPlan
from trendfold.plan.gloria import SharingPlan
from trendfold.plan.gloria.planner import share
from trendfold.plan.workload import plan_all
from trendfold.query.nodes import Query
from trendfold.runtime import local
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.result import Result

SEQUENCES, KLEENE_LENGTHS, MIXED = (40, 80, 120, 160, 200), (2, 4, 6, 8, 10), (12, 60, 120)
BURSTS = (1, 10, 100)
"""Events of one type in a row: Figure 19."""
PER_HOUR, HOURS = 60_000, 1
SECONDS, FASTER, OVER_GRETA, OF_BEST = 2.0, 5.0, 5.0, 0.8
"""Promises: 200 sequences optimized in so many seconds, so many times faster than without pruning; 120 mixed
queries so many times faster than GRETA; `auto` beside the best of all (0.9, but for one cell)."""

OPTIMIZERS = {"gloria": "gloria", "NoPrune": "gloria-noprune", "Greedy": "gloria-greedy"}
WAYS = ("greta", "hamlet", "gloria-greedy", "gloria", "auto")


def cases(seed: int, scale: float) -> list[Case]:
    """All lines; events are multiplied by `scale`, numbers of queries are not."""
    return [*_optimizing(seed), *_executing(seed, scale)]


def _optimizing(seed: int) -> list[Case]:
    found = []
    for kind, sizes in (("sequences", SEQUENCES), ("Kleene of length", KLEENE_LENGTHS), ("mixed", MIXED)):
        for size in sizes:
            queries = _workload(kind, size, seed)
            members = _members(queries)
            for way, strategy in OPTIMIZERS.items():
                name = f"optimize {kind}, {size}, {way}"
                promises: tuple[Promise, ...] = ()
                if (kind, size, way) == ("sequences", SEQUENCES[-1], "gloria"):
                    unpruned = Promise(FASTER, f"optimize {kind}, {size}, NoPrune")
                    promises = (Promise(len(queries) / SECONDS), unpruned)
                floor = None if way == "NoPrune" else f"optimize {kind}, {size}, NoPrune"
                found.append(Case(name, _optimize(members, strategy, seed), len(queries), floor, promises))
    return found


def _workload(kind: str, size: int, seed: int) -> tuple[Query, ...]:
    match kind:
        case "sequences":
            return trade_queries.sequences(size, seed)
        case "mixed":
            return trade_queries.mixed(size, seed)
    return trade_queries.kleene(100, seed, size)


def _executing(seed: int, scale: float) -> list[Case]:
    found = []
    for size, burst in [(size, 3) for size in MIXED] + [(MIXED[1], burst) for burst in BURSTS]:
        queries, table = trade_queries.mixed(size, seed), _stream(seed, scale, burst)
        for way in WAYS:
            greta = _name(size, burst, "greta")
            promises: tuple[Promise, ...] = ()
            if way == "gloria" and (size, burst) == (MIXED[-1], 3):
                promises = (Promise(OVER_GRETA, greta),)
            if way == "auto":
                promises = tuple(Promise(OF_BEST, _name(size, burst, other)) for other in WAYS[:-1])
            floor = None if way == "greta" else greta
            run = _run(queries, table, way, seed)
            name, alike = _name(size, burst, way), f"mixed, {size} queries, bursts of {burst}"
            found.append(Case(name, run, len(table), floor, promises, like=alike, answer=_tables))
    return found


def notes(report: Report) -> tuple[str, ...]:
    """Costs and memory of the optimizers; snapshots of the plans; `auto` beside the best of the others."""
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    found = [_told(seed, kind, queries) for kind, queries in _largest(seed).items()]
    table = _stream(seed, scale, 3)
    for way in ("gloria-greedy", "gloria"):
        result = _run(trade_queries.mixed(MIXED[-1], seed), table, way, seed)()
        counts = ", ".join(f"{count:,} {what}" for what, count in result.summary.sharing.items())
        found.append(f"mixed, {MIXED[-1]} queries, {way}: {counts}")
    return (*found, _beside_best(report))


def _told(seed: int, kind: str, queries: Sequence[Query]) -> str:
    """What each optimizer's plan costs by the paper's formulas, and the memory it takes to find it."""
    members = _members(queries)
    parts = []
    for way, strategy in OPTIMIZERS.items():
        tracemalloc.start()
        plan = _optimize(members, strategy, seed)()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        parts.append(f"{way} {plan.cost / plan.alone:.3f} ({peak / 2**20:.0f} MiB)")
    return f"cost beside sharing nothing, {kind}: {', '.join(parts)}"


def _largest(seed: int) -> Mapping[str, Sequence[Query]]:
    return {
        f"{SEQUENCES[-1]} sequences": trade_queries.sequences(SEQUENCES[-1], seed),
        f"{MIXED[-1]} mixed": trade_queries.mixed(MIXED[-1], seed),
    }


def _beside_best(report: Report) -> str:
    """How near `auto` comes to the best of the others, cell by cell."""
    median = {line.name: line.median_s for line in report.measurements}
    low = []
    cells = [(size, 3) for size in MIXED] + [(MIXED[1], burst) for burst in BURSTS]
    for size, burst in cells:
        if _name(size, burst, "auto") in median:
            best = min(median[_name(size, burst, way)] for way in WAYS[:-1])
            ratio = best / median[_name(size, burst, "auto")]
            low += [f"{size} queries, bursts of {burst}: {ratio:.2f}"] if ratio < 0.9 else []
    told = "; ".join(low) if low else "none"
    return f"auto beside the best of the others: {len(cells)} cells, below 0.9: {told} (at most one may be)"


def plot(report: Report) -> str:
    """Seconds against queries: optimizers over sequences, and ways over mixed workloads."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in report.measurements:
        kind, size, *_, way = (part.strip() for part in line.name.split(","))
        if kind == "optimize sequences":
            curves.setdefault(f"optimize, {way}", []).append((float(size), line.median_s))
        elif kind == "mixed" and "bursts of 3" in line.name:
            curves.setdefault(f"run, {way}", []).append((float(size.split()[0]), line.median_s))
    return draw({name: sorted(points) for name, points in curves.items()}, {})


# ---------------------------------------------------------------- ways


def _members(queries: Sequence[Query]) -> tuple[QueryPlan, ...]:
    """The queries as a group would have them."""
    group = plan_all(queries, "gloria-greedy")[0].group
    assert group is not None
    assert len(group.members) == len(queries)
    return group.members


def _optimize(members: Sequence[QueryPlan], strategy: str, seed: int) -> Callable[[], SharingPlan]:
    """Template, graph and path; frequencies are those of a stream."""
    frequencies = _frequencies(_stream(seed, 0.2, 3))
    return lambda: share(members, strategy, frequencies)


def _run(queries: Sequence[Query], table: pa.Table, strategy: str, seed: int) -> Callable[[], Result]:
    plans = plan_all(queries, strategy)
    source = local.read(table, table.column_names, Options())
    return lambda: local.run(plans, source, Options(), 0, DEFAULTS)


def _tables(result: object) -> object:
    """The rows of all queries."""
    assert isinstance(result, Result)
    return {name: result[name] for name in result}


def _stream(seed: int, scale: float, burst: int) -> pa.Table:
    n = max(500, int(PER_HOUR * HOURS * scale))
    return stock(
        Stream(events=n, seed=seed, types=trade_queries.TYPES, rate=n / (3_600 * HOURS), burst=burst)
    )


def _frequencies(table: pa.Table) -> dict[str, float]:
    counted = table.column("type").value_counts().to_pylist()
    return {each["values"]: float(each["counts"]) for each in counted}


def _name(size: int, burst: int, way: str) -> str:
    return f"mixed, {size} queries, bursts of {burst}, {way}"
