"""Running sharing plans: GLORIA's Figures 16 to 19, and the choices of `auto`.

Plans are made beforehand; timed is a whole run or, for the comparison with lanes, only the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from time import perf_counter

import numpy as np
import pyarrow as pa

from trendfold.bench import trade_queries
from trendfold.bench.answers import trends
from trendfold.bench.gloria_plans import MIXED, stream
from trendfold.bench.harness import Case, Promise
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.papers.gloria import run as gloria
from trendfold.papers.gloria.choose import COSTS
from trendfold.plan import QueryPlan
from trendfold.plan.physical import Lanes, SharedPlan
from trendfold.plan.workload import plan_all, units
from trendfold.query.nodes import Query
from trendfold.runtime import local
from trendfold.runtime.folding import ReadyGroup, prepare_group
from trendfold.runtime.folds.in_machine_lanes import lane_material
from trendfold.runtime.group_rows import GroupRows, read_group
from trendfold.runtime.lane_rows import read_lane_rows
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.result import Result
from trendfold.runtime.workspace import Workspace

EVENTS = 60_000
"""Events in one hour of the stream."""
BURSTS, COMPLEX = (1, 10, 100), (0, 50, 100)
"""Burst lengths, and percentages of complex queries: Figure 19."""
OVER_GRETA, OF_BEST, MOSTLY, SIDE_BY_SIDE = 5.0, 0.8, 0.9, 1.3
"""Promises: the speedup of 120 mixed queries over GRETA; `auto` relative to the best strategy, in all cells
and in all but one; and relative to lanes if START events are rare."""
WAYS = ("greta", "hamlet", "gloria-greedy", "gloria-noprune", "gloria", "auto")
CELLS = (*((size, 3) for size in MIXED), *((MIXED[1], burst) for burst in BURSTS))
RARE, RARE_QUERIES = "rare beginnings, 1000 queries", 1_000


def cases(seed: int, scale: float) -> Iterator[Case]:
    """All lines; `scale` multiplies events, not numbers of queries."""
    for size, burst in CELLS:
        yield from _mixed(size, burst, seed, scale)
    for burst in BURSTS:
        for percent in COMPLEX if burst == BURSTS[-1] else COMPLEX[::2]:
            yield from _beside_hamlet(percent, burst, seed, scale)
    yield from _rare(seed, scale)


def mixed_name(size: int, burst: int, way: str) -> str:
    """The name of a line of Figure 16."""
    return f"mixed, {size} queries, bursts of {burst}, {way}"


def _mixed(size: int, burst: int, seed: int, scale: float) -> Iterator[Case]:
    queries, table = trade_queries.mixed(size, seed), _trades(seed, scale, burst)
    alike, greta = f"mixed, {size} queries, bursts of {burst}", mixed_name(size, burst, "greta")
    for way in WAYS:
        promises: tuple[Promise, ...] = ()
        if way == "gloria" and (size, burst) == (MIXED[-1], 3):
            promises = (Promise(OVER_GRETA, greta),)
        if way == "auto":
            promises = tuple(Promise(OF_BEST, mixed_name(size, burst, other)) for other in WAYS[:-1])
        floor = None if way == "greta" else greta
        run = _run(queries, table, way)
        yield Case(mixed_name(size, burst, way), run, len(table), floor, promises, alike, _tables)


def hamlet_name(percent: int, burst: int, way: str) -> str:
    """The name of a line of Figure 19."""
    return f"100 queries, {percent} % complex, bursts of {burst}, {way}"


def _beside_hamlet(percent: int, burst: int, seed: int, scale: float) -> Iterator[Case]:
    queries = trade_queries.beside_hamlet(100, seed, percent / 100)
    table, hamlet = _trades(seed, scale, burst), hamlet_name(percent, burst, "hamlet")
    for way in ("hamlet", "gloria", "auto"):
        floor = None if way == "hamlet" else hamlet
        run = _run(queries, table, way)
        yield Case(hamlet_name(percent, burst, way), run, len(table), floor, like=hamlet, answer=_tables)


def _rare(seed: int, scale: float) -> Iterator[Case]:
    """Only the fold: with lanes, and with the plan that `auto` chooses instead."""
    events = max(1_000, int(20 * EVENTS * scale))

    @cache
    def ready() -> Mapping[str, ReadyGroup]:
        workspace = Workspace(read_batch(rare_stream(seed, events), Options()))
        group = plan_all(trade_queries.rare_beginnings(RARE_QUERIES))[0].group
        assert group is not None
        chosen = prepare_group(group, workspace)
        return {"side by side": replace(chosen, way=Lanes("to compare with")), "auto": chosen}

    def fold(way: str) -> object:
        return ready()[way].fold()[0]

    beside, promises = f"{RARE}, side by side", (Promise(SIDE_BY_SIDE, f"{RARE}, side by side"),)
    yield Case(beside, partial(fold, "side by side"), events, like=RARE, answer=trends)
    yield Case(
        f"{RARE}, auto",
        partial(fold, "auto"),
        events,
        beside,
        promises if scale >= 1 else (),
        like=RARE,
        answer=trends,
    )


def rare_stream(seed: int, events: int) -> pa.Table:
    """30 trades a second, one in 2,000 of the company that patterns begin with."""
    rng = np.random.default_rng(seed)
    types = np.array([trade_queries.COMPANY, *trade_queries.ORDER[:2], *trade_queries.AROUND[:20]])
    weights = np.array([0.0005, 0.35, 0.35, *[0.2995 / 20] * 20])
    picked = types[rng.choice(len(types), events, p=weights / weights.sum())]
    return pa.table({"type": picked, "ts": np.arange(events) / 30})


# ---------------------------------------------------------------- what the plans do


@cache
def tallies(seed: int, scale: float) -> Mapping[str, dict[str, float]]:
    """For 120 mixed queries and each plan: counters, bytes of state, and a time breakdown in milliseconds."""
    queries, table = trade_queries.mixed(MIXED[-1], seed), _trades(seed, scale, 3)
    costs, found = COSTS, {}
    for way in ("gloria", "gloria-greedy"):
        plans = _plans(queries, table, way)
        group = plans[0].group
        assert group is not None
        workspace = Workspace(read_batch(table, Options()))
        together, _ = read_group(group, workspace)
        assert together is not None
        ready = gloria.ready(group, together, DEFAULTS)
        _, tally = ready.fold()
        lanes = len(queries) * _windows(together)
        fold_ms, run_ms = _ms(ready.fold), _ms(_run(queries, table, way))
        found[way] = {
            "snapshots": tally.snapshots,
            "propagations": tally.propagations,
            "evaluations": tally.evaluations,
            "steps": ready.steps(),
            "state": ready.lowered.size(),
            "run ms": run_ms,
            "fold ms": fold_ms,
            "propagation ms": tally.propagations * costs.coefficient / 1e6,
            "insertion ms": tally.snapshots * lanes * costs.lane / 1e6,
        }
    return found


@cache
def lanes_state(seed: int, scale: float) -> int:
    """Bytes of state of the same queries as lanes."""
    plans = plan_all(trade_queries.mixed(MIXED[-1], seed))
    group = plans[0].group
    assert group is not None
    together, _ = read_lane_rows(group, Workspace(read_batch(_trades(seed, scale, 3), Options())))
    return 0 if together is None else lane_material(group, together).lower(in_bursts=True).bytes


def ratios(seed: int, scale: float) -> dict[str, float]:
    """Figures 17 and 18, the fold of 120 mixed queries, and its memory."""
    plans = tallies(seed, scale)
    ours, greedy = plans["gloria"], plans["gloria-greedy"]
    return {
        "fold of Greedy's plan over gloria's, 120 mixed": greedy["fold ms"] / ours["fold ms"],
        "run over value insertion, 120 mixed": ours["run ms"] / max(ours["insertion ms"], 1e-6),
        "snapshots of Greedy over gloria, 120 mixed": greedy["snapshots"] / max(ours["snapshots"], 1),
        "state of Greedy over gloria, 120 mixed": greedy["state"] / ours["state"],
    }


def notes(seed: int, scale: float) -> tuple[str, ...]:
    """Where the time goes."""
    lines = []
    for way, found in tallies(seed, scale).items():
        lines.append(
            f"mixed, {MIXED[-1]} queries, {way}: a run is {found['run ms']:.1f} ms, "
            f"{found['run ms'] - found['fold ms']:.1f} of them for rows, windows and tables, "
            f"{found['fold ms']:.1f} for the fold. Of these {found['propagations']:,} coefficients are "
            f"{found['propagation ms']:.1f} ms and values in {found['snapshots']:,} snapshots "
            f"{found['insertion ms']:.2f} ms, by unit costs; the rest is that events are taken up at nodes, "
            f"{found['steps']:,} times, and {found['evaluations']:,} evaluations. "
            f"State {found['state'] / 2**20:.1f} MiB"
        )
    state = lanes_state(seed, scale)
    return (*lines, f"the same queries side by side: state {state / 2**20:.1f} MiB")


# ---------------------------------------------------------------- ways


def _run(queries: Sequence[Query], table: pa.Table, strategy: str) -> Callable[[], Result]:
    """A whole run; the first run, which is not timed, makes the plans."""
    planned = cache(lambda: _plans(queries, table, strategy))
    source = local.read(table, table.column_names, Options())
    return lambda: local.run(planned(), source, Options(), 0, DEFAULTS)


def _plans(queries: Sequence[Query], table: pa.Table, strategy: str) -> tuple[QueryPlan, ...]:
    """Plans; sharing plans use the type frequencies of the rows, as in a run, but are made only once."""
    plans = plan_all(queries, strategy)
    if not strategy.startswith("gloria"):
        return plans
    workspace = Workspace(read_batch(table, Options()))
    found = list(plans)
    for unit in units(dict(enumerate(plans))):
        if unit.group is not None:
            way = prepare_group(unit.group, workspace).way
            assert isinstance(way, SharedPlan)
            group = replace(unit.group, details=replace(way.details, considered=()))
            for number, plan in zip(unit.numbers, unit.plans, strict=True):
                found[number] = replace(plan, group=group)
    return tuple(found)


def _tables(result: object) -> object:
    """The rows of all queries."""
    assert isinstance(result, Result)
    return {name: result[name] for name in result}


def _trades(seed: int, scale: float, burst: int) -> pa.Table:
    return stream(seed, max(500, int(EVENTS * scale)), burst)


def _windows(together: GroupRows) -> float:
    """The average number of open windows of a query."""
    rows = max(1, len(together.moment))
    return float(np.mean([int((items.high - items.low).sum()) / rows for items in together.items]))


def _ms(run: Callable[[], object]) -> float:
    """The fastest of three runs, in milliseconds."""
    best = np.inf
    for _ in range(3):
        started = perf_counter()
        run()
        best = min(best, perf_counter() - started)
    return float(best) * 1e3
