"""Measure the cost of running sharing plans on this machine: the numbers of papers.gloria.cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trendfold.papers.gloria import Crossing, Share, SharingPlan
from trendfold.papers.gloria import run as gloria
from trendfold.papers.gloria.cost import KernelCosts
from trendfold.papers.gloria.kept_costs import keep, kept
from trendfold.papers.gloria.lanes_costs import FEW, MANY, fastest_ns, measure_lanes, one_a_second
from trendfold.plan import Group, plan_auto
from trendfold.plan.cost import Costs
from trendfold.query import parse
from trendfold.runtime.group_rows import read_group
from trendfold.runtime.limits import DEFAULTS

_SNAPSHOTS = 200
_ROWS = 20_000
_CLOSING = 400
"""Rows per window, for measuring the closing of many windows."""


def measure_sharing() -> KernelCosts:
    """Time short and long expressions, few and many lanes, and closing windows."""
    short, long = (fastest_ns(_planned(2, snapshots, "shared").fold) / _ROWS for snapshots in (1, _SNAPSHOTS))
    coefficient = max(0.01, (long - short) / (_SNAPSHOTS - 1))
    few, many = (fastest_ns(_planned(queries, 1, "alone").fold) / _ROWS for queries in (FEW, MANY))
    lane = max(0.01, (many - few) / (MANY - FEW))
    evaluated = fastest_ns(_planned(MANY, _SNAPSHOTS, "evaluated").fold) / _ROWS
    value = max(0.01, (evaluated - many) / (MANY * _SNAPSHOTS))
    open_, closing = (fastest_ns(_planned(MANY, 20, "shared", rows).fold) for rows in (_ROWS, _CLOSING))
    close = max(0.1, (closing - open_) / (_ROWS / _CLOSING * MANY * 20))
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
    together, _ = read_group(group, one_a_second(types))
    assert together is not None
    return gloria.ready(group, together, DEFAULTS)


def sharing_costs_here() -> KernelCosts:
    """The costs of sharing plans on this machine, measured on first use."""
    return kept(KernelCosts) or keep(measure_sharing())


def costs_here() -> Costs:
    """What lanes and a shared plan cost on this machine, measured unless an earlier run has done so."""
    return replace(kept(Costs) or keep(measure_lanes()), sharing=sharing_costs_here())
