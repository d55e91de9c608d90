"""Many queries over one stream: as lanes event by event, with shared bursts, and as `auto` chooses; one core.

SEQ(X, B+, Y) with ten types for X and ten for Y; B come in bursts. Rows are selected, sorted and split into
windows beforehand, and all methods must give the same numbers before any is timed. Then fifty queries of
every kind beside one (`many_queries`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from trendfold.api import parse
from trendfold.bench.answers import trends, trends_of_each
from trendfold.bench.harness import Case, Promise, Report
from trendfold.bench.many_queries import many_queries
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.kernel.program import Folded
from trendfold.plan import Group, QueryPlan
from trendfold.plan.logical import LANES
from trendfold.plan.workload import plan_all, units
from trendfold.runtime.folding import fold_unit, prepare, prepare_group
from trendfold.runtime.folds.in_machine_lanes import lane_material
from trendfold.runtime.lane_rows import read_lane_rows
from trendfold.runtime.request import EVERYTHING
from trendfold.runtime.workspace import Workspace, shared_partitionings

EVENTS = 6_000_000
BURSTS = (2, 10, 100)
QUERIES = (1, 10, 50, 100)
STARTS = 10
WINDOW = 100_000
PROMISED = {(2, 50): 30e6, (100, 50): 120e6}
WITH_PREDICATES = 10e6
NEARLY, ALWAYS = 0.9, 0.8
"""The least speed of `auto` relative to the better method; one cell may be as low as the second."""

Fold = Callable[[], tuple[Folded, ...]]


def cases(seed: int, scale: float) -> list[Case]:
    """All burst lengths and numbers of queries, a condition per query; then fifty queries of every kind."""
    found = []
    for burst in BURSTS:
        workspace = bursts(seed, max(1_000, int(EVENTS * scale)), burst)
        for queries in QUERIES:
            found += _cell(workspace, burst, queries)
        found += _with_predicates(workspace, burst)
    return found + many_queries(seed, scale)


def _cell(workspace: Workspace, burst: int, queries: int) -> list[Case]:
    plans = plan_all(parse(texts(queries)).queries)
    lanes, shared = (_together(plans, workspace, in_bursts) for in_bursts in (False, True))
    chosen = _chosen(plans, workspace) if plans[0].group is not None else _alone(plans, workspace)
    names = [f"{way}, {queries} queries, bursts of {burst}" for way in ("lanes", "shared", "auto")]
    promises = [Promise(ALWAYS, name) for name in names[:2]]
    if (burst, queries) in PROMISED:
        promises.append(Promise(PROMISED[burst, queries]))
    events = len(workspace.batch)
    cell = f"{queries} queries, bursts of {burst}"
    alone = partial(_answer_alone, plans, workspace)
    return [
        Case(names[0], lanes, events, like=cell, answer=trends, expected=alone),
        Case(names[1], shared, events, names[0], like=cell, answer=trends),
        Case(names[2], chosen, events, names[0], tuple(promises), like=cell, answer=trends),
    ]


def _with_predicates(workspace: Workspace, burst: int) -> list[Case]:
    """50 queries with different thresholds: only the fold, and everything from rows to totals."""
    plans = plan_all(parse(texts(50, "WHERE B.x > {}")).queries)
    chosen = _chosen(plans, workspace)
    name, events = f"auto, 50 queries with a condition each, bursts of {burst}", len(workspace.batch)
    alone = partial(_answer_alone, plans, workspace)

    def all_of_it() -> object:
        fresh = Workspace(workspace.batch, shared=shared_partitionings(plans))
        [unit] = units(dict(enumerate(plans)))
        return [folded.folded for folded, _ in fold_unit(unit, fresh, EVERYTHING)]

    return [
        Case(name, chosen, events, None, (Promise(WITH_PREDICATES),), name, trends, alone),
        Case(f"{name}, rows selected and sorted too", all_of_it, events, like=name, answer=trends_of_each),
    ]


def texts(queries: int, where: str = "") -> str:
    """Queries that differ in their first and last type, and in the condition if there is one."""
    return ";".join(
        f"QUERY q{i} RETURN COUNT(*) PATTERN SEQ(X{i % STARTS}, B+, Y{(i // STARTS + i) % STARTS}) "
        f"{where.format(900 * i // queries)} WITHIN {WINDOW} s SLIDE {WINDOW} s"
        for i in range(queries)
    )


def bursts(seed: int, events: int, size: int) -> Workspace:
    """Alternating one X or Y with `size` B; one event per second, in time order."""
    rng = np.random.default_rng(seed)
    names = [f"{kind}{i}" for kind in "XY" for i in range(STARTS)] + ["B"]
    codes = np.full((events // (size + 1) + 1, size + 1), len(names) - 1, np.int32)
    codes[:, 0] = rng.integers(0, 2 * STARTS, len(codes))
    flat = codes.reshape(-1)[:events]
    table = {
        "type": pa.DictionaryArray.from_arrays(pa.array(flat), pa.array(names)),
        "ts": np.arange(events),
        "x": rng.integers(0, 1_000, events).astype(np.float64),
    }
    return Workspace(read_batch(pa.table(table), Options()))


def _together(plans: Sequence[QueryPlan], workspace: Workspace, in_bursts: bool) -> Fold:
    """All queries in one pass, events one by one or in bursts."""
    group = plans[0].group or Group("auto", LANES, tuple(plans))
    rows, _ = read_lane_rows(group, workspace)
    assert rows is not None
    return lane_material(group, rows).lower(in_bursts).fold


def _chosen(plans: Sequence[QueryPlan], workspace: Workspace) -> Fold:
    """All queries in one pass, as `choose` says."""
    assert plans[0].group is not None
    ready = prepare_group(plans[0].group, workspace)
    return lambda: ready.fold()[0]


def _alone(plans: Sequence[QueryPlan], workspace: Workspace) -> Fold:
    """Each query in its own pass."""
    alone = plans[0].group.members if plans[0].group is not None else plans
    ready = [prepare(plan, workspace) for plan in alone]
    return lambda: tuple(each.fold()[0] for each in ready)


def _answer_alone(plans: Sequence[QueryPlan], workspace: Workspace) -> object:
    return trends(_alone(plans, workspace)())


def notes(report: Report) -> tuple[str, ...]:
    """In how many cells `auto` is close to the better method."""
    speed = {line.name: line.events_per_s for line in report.measurements}
    ratios = {}
    for name in speed:
        way, _, cell = name.partition(", ")
        if way == "auto" and f"lanes, {cell}" in speed:
            ratios[cell] = speed[name] / max(speed[f"lanes, {cell}"], speed[f"shared, {cell}"])
    low = {cell: ratio for cell, ratio in ratios.items() if ratio < NEARLY}
    told = ", ".join(f"{cell}: {ratio:.2f}" for cell, ratio in low.items()) or "none"
    kept = len(low) <= 1 and all(ratio >= ALWAYS for ratio in low.values())
    return (
        f"auto beside the better of lanes and shared: {len(ratios)} cells, below {NEARLY}: {told} "
        f"({'kept' if kept else 'broken'}: at most one, and that at least {ALWAYS})",
    )
