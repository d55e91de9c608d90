"""The cost table of this machine: a measurement of a fraction of a second, kept for the next run."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from trendfold.events.batch import Options, read_batch
from trendfold.plan import Group, QueryPlan
from trendfold.plan.costs import NEVER, Costs
from trendfold.plan.workload import plan_all
from trendfold.query import parse
from trendfold.runtime.groups import GroupRows, read_group
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.rows import Workspace
from trendfold.runtime.side_by_side import Ready, make_ready

_EVENTS = 100_000
_REPEATS = 3
_FEW, _MANY = 8, 256
"""Numbers of queries: one vector of lanes, and many."""
_LONG = 200
"""Events of a long burst."""


def with_costs(plans: Sequence[QueryPlan], costs: Costs) -> tuple[QueryPlan, ...]:
    """The plans, with the cost table in the groups that choose by it."""
    made: dict[int, Group] = {}
    found = []
    for plan in plans:
        group = plan.group
        if group is not None and group.method == "lanes":
            if id(group) not in made:
                made[id(group)] = replace(group, details=costs)
            plan = replace(plan, group=made[id(group)])
        found.append(plan)
    return tuple(found)


def known_costs() -> Costs:
    """What an earlier run has measured, or what one machine had."""
    try:
        return Costs(**json.loads(_place().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Costs()


def costs_here() -> Costs:
    """What this machine needs, measured unless an earlier run has done so."""
    place = _place()
    if place.is_file():
        return known_costs()
    costs = measure()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(asdict(costs)), encoding="utf-8")
        beside.replace(place)
    except OSError:
        pass  # measured again the next time
    return costs


def _place() -> Path:
    """A file per machine and version of the kernels."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = (
        platform.machine(),
        platform.processor(),
        platform.node(),
        _version("trendfold"),
        _version("numba"),
    )
    key = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]
    return Path(home) / "trendfold" / f"costs-{key}.json"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def measure() -> Costs:
    """Time events one by one and in long bursts, over few lanes and many, and with a value to add up."""
    few, many = (_ns_per_event(queries, _LONG, NEVER) for queries in (_FEW, _MANY))
    long = _ns_per_event(_FEW, _LONG, 2)
    valued = _ns_per_event(_FEW, _LONG, 2, "COUNT(*), SUM(B.x)")
    vector = max(0.1, (many - few) / ((_MANY - _FEW) / 8))
    act = max(0.2, few - vector)
    step = max(0.05, long - few / _LONG)
    value = max(0.05, valued - long)
    # A single event is taken up and does one operation; they are not told apart.
    return Costs(event=act / 2, operation=act / 2, vector=vector, next=step, value=value)


def _ns_per_event(queries: int, burst: int, share_from: int, returns: str = "COUNT(*)") -> float:
    """What an event of SEQ(A, B+) with so many queries costs, where so many B come together."""
    ready = _ready(queries, burst, share_from, returns)
    ready.fold()
    best = np.inf
    for _ in range(_REPEATS):
        started = perf_counter()
        ready.fold()
        best = min(best, perf_counter() - started)
    return float(best) / _EVENTS * 1e9


def _ready(queries: int, burst: int, share_from: int, returns: str) -> Ready:
    text = ";".join(f"QUERY q{i} RETURN {returns} PATTERN SEQ(A, B+, C)" for i in range(queries))
    types = np.full(_EVENTS, "B")
    types[:: burst + 1] = "A"
    table = pa.table({"type": types, "ts": np.arange(_EVENTS), "x": np.ones(_EVENTS)})
    group = plan_all(parse(text))[0].group
    assert group is not None
    together = read_group(group, Workspace(read_batch(table, Options())), 0, DEFAULTS, None)
    assert isinstance(together, GroupRows)
    return make_ready(group, together, [share_from] * len(together.alphabet))
