"""What lanes cost on this machine, measured: the numbers of plan.cost.Costs."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.plan import Group, QueryPlan, plan_auto
from trendfold.plan.cost import NEVER, Costs
from trendfold.plan.logical import LANES
from trendfold.query import parse
from trendfold.runtime.folding import ReadyQuery, prepare
from trendfold.runtime.folds.in_lanes import ReadyLanes, make_ready
from trendfold.runtime.group_rows import read_group
from trendfold.runtime.workspace import Workspace

_EVENTS = 100_000
_REPEATS = 3
FEW, MANY = 8, 256
"""Numbers of queries: one vector of lanes, and many."""
_LONG = 200
"""Events of a long burst."""


def measure_lanes() -> Costs:
    """Time events one by one and in long bursts, over few lanes and many."""
    alone = _ns_per_event(_alone().fold)
    few, many = (_ns_per_event(_ready(queries, NEVER).fold) for queries in (FEW, MANY))
    long = _ns_per_event(_ready(FEW, 2).fold)
    vector = max(0.1, (many - few) / ((MANY - FEW) / 8))
    act = max(0.2, few - vector)
    step = max(0.05, long - few / _LONG)
    # A single event is taken up and does one operation; they are not told apart.
    return Costs(event=act / 2, operation=act / 2, vector=vector, next=step, alone=alone)


def _ns_per_event(fold: Callable[[], object]) -> float:
    return fastest_ns(fold) / _EVENTS


def fastest_ns(fold: Callable[[], object]) -> float:
    """The fastest of some runs, after one that is not timed."""
    fold()
    best = np.inf
    for _ in range(_REPEATS):
        started = perf_counter()
        fold()
        best = min(best, perf_counter() - started)
    return float(best) * 1e9


def _ready(queries: int, share_from: int) -> ReadyLanes:
    """So many queries SEQ(A, B+, C), over long bursts of B."""
    group = Group("auto", LANES, _plans(queries))
    together, _ = read_group(group, _bursts())
    assert together is not None
    return make_ready(group, together, share_from)


def _alone() -> ReadyQuery:
    """One query in a loop of its own, though its rows come in bursts."""
    return prepare(_plans(1)[0], _bursts(), costs=Costs(alone=0.0))


def _plans(queries: int) -> tuple[QueryPlan, ...]:
    return tuple(map(plan_auto, parse("RETURN COUNT(*) PATTERN SEQ(A, B+, C)") * queries))


def _bursts() -> Workspace:
    types = np.full(_EVENTS, "B")
    types[:: _LONG + 1] = "A"
    return one_a_second(types)


def one_a_second(types: NDArray[np.str_]) -> Workspace:
    """One event a second."""
    table = pa.table({"type": types, "ts": np.arange(len(types))})
    return Workspace(read_batch(table, Options()))
