"""Rates that flip: a sharing plan that follows them, beside the best fixed plan of either half (Section 7.2).

Every micro-batch is read, planned and folded as when a stream releases its windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from trendfold.bench.answers import trends_of_each
from trendfold.bench.harness import Case, Promise
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.kernel.program import Folded
from trendfold.papers.gloria.follow import forget_graphs
from trendfold.papers.gloria.plan import share
from trendfold.plan import Group
from trendfold.plan.physical import SharedPlan
from trendfold.plan.workload import plan_all
from trendfold.query import parse
from trendfold.runtime.folding import prepare_group
from trendfold.runtime.request import Request
from trendfold.runtime.workspace import Workspace

QUERIES, BATCHES, EVENTS = 100, 20, 8_000
"""How many queries, micro-batches, and events in each; windows last half as long, and four overlap."""
TYPES = ("A", "B", "C", "D", "E", "F", "G", "H")
FIRST, SECOND = (
    (0.05, 0.05, 0.001, 0.3, 0.3, 0.25, 0.02, 0.02),
    (0.05, 0.05, 0.3, 0.001, 0.3, 0.25, 0.02, 0.02),
)
"""How often each type comes: at first C is rare and D frequent, then it is the other way round."""
FLIPS = "rates that flip"
FASTER = 1.5
"""The promised speed beside either fixed plan."""


def cases(seed: int, scale: float) -> Iterator[Case]:
    """A run over all windows, with two fixed plans, and with one that follows the rates."""
    events = max(200, int(EVENTS * scale))
    fixed = {f"{FLIPS}, {name}": weights for name, weights in _HALVES.items()}
    for name, weights in fixed.items():
        run = partial(_run, seed, events, partial(_fixed, weights, events))
        yield Case(name, run, BATCHES * events, like=FLIPS, answer=_answer)
    promises = tuple(Promise(FASTER, name) for name in fixed) if scale >= 1 else ()
    run, first = (
        partial(_run, seed, events, partial(group_of_queries, events), follows=True),
        next(iter(fixed)),
    )
    yield Case(f"{FLIPS}, migrated", run, BATCHES * events, first, promises, like=FLIPS, answer=_answer)


_HALVES: Mapping[str, Sequence[float]] = {"plan of the first half": FIRST, "plan of the second half": SECOND}


@cache
def group_of_queries(events: int) -> Group:
    """Queries with a long common beginning; a micro-batch lasts as many seconds as it has events."""
    within = f"WITHIN {events // 2} s SLIDE {events // 8} s"
    text = "QUERY q{} RETURN SUM(D.x), MIN(D.x), AVG(F.y) PATTERN SEQ(A, B, C, D, E, F, {}) " + within
    group = plan_all(parse(";".join(text.format(n, "GH"[n % 2]) for n in range(QUERIES))), "gloria")[0].group
    assert group is not None
    return group


@cache
def _fixed(weights: Sequence[float], events: int) -> Group:
    """The group with the best plan for some rates."""
    group = group_of_queries(events)
    rates = {name: share * events / 2 for name, share in zip(TYPES, weights, strict=True)}
    return replace(group, details=share(group.members, "gloria", rates), fitted_by="the rates of one half")


@cache
def batches(seed: int, events: int) -> tuple[pa.Table, ...]:
    """A table per micro-batch; halfway the rates flip."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(BATCHES):
        weights = np.array(FIRST if number < BATCHES // 2 else SECOND)
        types = np.array(TYPES)[rng.choice(len(TYPES), events, p=weights / weights.sum())]
        x, y = rng.random((2, events))
        found.append(pa.table({"type": types, "ts": np.arange(events), "x": x, "y": y}))
    return tuple(found)


def _run(
    seed: int, events: int, group: Callable[[], Group], follows: bool = False
) -> list[tuple[Folded, ...]]:
    """Read, plan and fold one micro-batch after the other; graphs are not those of the run before."""
    forget_graphs()
    found: list[tuple[Folded, ...]] = []
    running: dict[str, Mapping[str, Any]] = {}
    for table in batches(seed, events):
        request = Request(running=running if follows else None)
        ready = prepare_group(group(), Workspace(read_batch(table, Options())), request)
        assert isinstance(ready.way, SharedPlan)
        running = {ready.group.name: ready.way.running or {}}
        found.append(ready.fold()[0])
    return found


def _answer(folds: object) -> object:
    assert isinstance(folds, list)
    return trends_of_each(folds)
