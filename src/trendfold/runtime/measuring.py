"""What the kernels cost on this machine, measured: the numbers of plan.costs and plan.gloria.cost."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import Options, read_batch
from trendfold.plan import Group, QueryPlan, plan_auto
from trendfold.plan.costs import NEVER, Costs
from trendfold.plan.gloria import Crossing, Share, SharingPlan
from trendfold.plan.gloria.cost import KernelCosts
from trendfold.query import parse
from trendfold.runtime import gloria
from trendfold.runtime.groups import read_group
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.local import Prepared, prepare
from trendfold.runtime.rows import Workspace
from trendfold.runtime.side_by_side import Ready, make_ready

_EVENTS = 100_000
_REPEATS = 3
_FEW, _MANY = 8, 256
"""Numbers of queries: one vector of lanes, and many."""
_LONG = 200
"""Events of a long burst."""


def measure() -> Costs:
    """Time events one by one and in long bursts, over few lanes and many."""
    alone = _ns_per_event(_alone().fold)
    few, many = (_ns_per_event(_ready(queries, NEVER).fold) for queries in (_FEW, _MANY))
    long = _ns_per_event(_ready(_FEW, 2).fold)
    vector = max(0.1, (many - few) / ((_MANY - _FEW) / 8))
    act = max(0.2, few - vector)
    step = max(0.05, long - few / _LONG)
    # A single event is taken up and does one operation; they are not told apart.
    return Costs(event=act / 2, operation=act / 2, vector=vector, next=step, alone=alone)


def _ns_per_event(fold: Callable[[], object]) -> float:
    return _ns(fold) / _EVENTS


def _ns(fold: Callable[[], object]) -> float:
    """The fastest of some runs, after one that is not timed."""
    fold()
    best = np.inf
    for _ in range(_REPEATS):
        started = perf_counter()
        fold()
        best = min(best, perf_counter() - started)
    return float(best) * 1e9


def _ready(queries: int, share_from: int) -> Ready:
    """So many queries SEQ(A, B+, C), over long bursts of B."""
    group = Group("auto", "lanes", _plans(queries))
    together = read_group(group, _bursts(), 0, DEFAULTS, None)
    assert together is not None
    return make_ready(group, together, [share_from] * len(together.alphabet))


def _alone() -> Prepared:
    """One query in a loop of its own."""
    return prepare(_plans(1)[0], _bursts(), 0, may_be_lanes=False)


def _plans(queries: int) -> tuple[QueryPlan, ...]:
    return tuple(map(plan_auto, parse("RETURN COUNT(*) PATTERN SEQ(A, B+, C)") * queries))


def _bursts() -> Workspace:
    types = np.full(_EVENTS, "B")
    types[:: _LONG + 1] = "A"
    return _workspace(types)


def _workspace(types: NDArray[np.str_]) -> Workspace:
    """One event a second."""
    table = pa.table({"type": types, "ts": np.arange(len(types))})
    return Workspace(read_batch(table, Options()))


# ---------------------------------------------------------------- sharing plans

_SNAPSHOTS = 200
_ROWS = 20_000
_CLOSING = 400
"""Rows of a window where many of them close."""


def measure_sharing() -> KernelCosts:
    """Time one expression that is short and long, lanes that are few and many, and windows that close."""
    short, long = (_ns(_planned(2, snapshots, "shared").fold) / _ROWS for snapshots in (1, _SNAPSHOTS))
    coefficient = max(0.01, (long - short) / (_SNAPSHOTS - 1))
    few, many = (_ns(_planned(queries, 1, "alone").fold) / _ROWS for queries in (_FEW, _MANY))
    lane = max(0.01, (many - few) / (_MANY - _FEW))
    evaluated = _ns(_planned(_MANY, _SNAPSHOTS, "evaluated").fold) / _ROWS
    value = max(0.01, (evaluated - many) / (_MANY * _SNAPSHOTS))
    open_, closing = (_ns(_planned(_MANY, 20, "shared", rows).fold) for rows in (_ROWS, _CLOSING))
    close = max(0.1, (closing - open_) / (_ROWS / _CLOSING * _MANY * 20))
    return KernelCosts(event=short, lane=lane, coefficient=coefficient, value=value, close=close)


def _planned(queries: int, snapshots: int, how: str, window: int = _ROWS) -> gloria.Ready:
    """Queries SEQ(A, B, C): in each window so many A, told apart by a B, then B.

    shared     by snapshots of A all the way      evaluated  at every B
    """
    types = np.full(_ROWS, "B")
    for start in range(0, _ROWS, window):
        types[start : start + 2 * snapshots : 2] = "A"
    pattern = f"RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN {window} s SLIDE {window} s"
    members = tuple(map(plan_auto, parse(pattern) * queries))
    everybody, each = Share(tuple(range(queries)), "A"), tuple(Share((q,)) for q in range(queries))
    crossings = (
        Crossing("A", "B", each if how == "alone" else (everybody,)),
        Crossing("B", "C", (everybody,) if how == "shared" else each),
    )
    plan = SharingPlan(("A", "B", "C"), (("A", "B", "C"),) * queries, crossings, 0.0, 0.0)
    group = Group("auto", "gloria", members, plan)
    together = read_group(group, _workspace(types), 0, DEFAULTS, None)
    assert together is not None
    return gloria.ready(group, together, DEFAULTS)
