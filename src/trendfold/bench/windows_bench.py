"""The cost of windows: of small ones, and of overlapping ones against each window on its own; one core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trendfold.bench import recurrences
from trendfold.bench.answers import Columns, columns, trends
from trendfold.bench.harness import Case, Promise
from trendfold.bench.kernel_bench import FIVE, fold, ready, stream
from trendfold.bench.neighbour_bench import random_walk
from trendfold.bench.small_windows import small_windows
from trendfold.kernel.program import Folded
from trendfold.plan.physical import Bindings
from trendfold.runtime.workspace import Workspace

EVENTS = 4_000_000
SLIDE = 1_000
MOST = 1_000
NEVER_WORSE = 0.85
PATTERN = "PATTERN SEQ(A, B+, C)"
ALONE = "{}, alone"
NEIGHBOURS = {8: 1.5, 32: 3.0, 128: 5.0}
"""Overlaps with adjacency predicates, and the promised speedup over each window on its own."""
NEIGHBOUR_WINDOW = 6_400
SOME = 2_000
"""How many windows are compared if there is one per event."""


def cases(seed: int, scale: float) -> list[Case]:
    """Small windows; 1 to 1,000 overlaps, few events per slide, a window per event, adjacency predicates."""
    events = max(1, int(EVENTS * scale))
    workspace = stream(seed, events)
    found = small_windows(seed, scale)
    for overlap in (1, 2, 5, 30):
        found += _beside(workspace, events, "COUNT(*)", overlap, SLIDE)
    found += _beside(workspace, events, FIVE, 30, SLIDE)
    found += _beside(workspace, events, "COUNT(*)", 30, 10)
    found += [*_most_overlaps(workspace, events), *_per_event(workspace, events)]
    for overlap, times in NEIGHBOURS.items():
        found += _neighbours(seed, events, overlap, times)
    return found


def _beside(workspace: Workspace, events: int, returns: str, overlap: int, slide: int) -> list[Case]:
    """Each window on its own, and the chosen method, which must never be much slower."""
    name = f"{overlap:,} overlaps of {slide:,} events" + ", five aggregates" * (returns == FIVE)
    text = _text(returns, overlap, slide)
    promise = Promise(NEVER_WORSE, ALONE.format(name))
    return [
        _case(ALONE.format(name), fold(workspace, text, "cogra"), events, name),
        _case(name, fold(workspace, text), events, name, promise),
    ]


def _case(name: str, run: Callable[[], object], events: int, like: str | None, *promises: Promise) -> Case:
    """A case whose floor is the line its promise refers to."""
    floor = next((promise.of for promise in promises if promise.of), None)
    return Case(name, run, events, floor, promises, like, trends)


def _most_overlaps(workspace: Workspace, events: int) -> list[Case]:
    """1,000 overlaps. Folding each window on its own is measured for a part of the windows only."""
    name, text = f"{MOST:,} overlaps of {SLIDE:,} events", _text("COUNT(*)", MOST, SLIDE)
    alone = ready(workspace, text, "cogra")
    windows = len(alone.items.low)
    every = slice(windows // 16, None, max(1, windows // 8))
    some = alone.items.at(np.arange(windows)[every])
    operands = tuple(replace(operand, items=some) for operand in alone.operands)
    share = max(1, events * len(some.low) // windows)
    promises = Promise(20e6), Promise(5, ALONE.format(name))
    shared = _case(name, fold(workspace, text), events, name, *promises)
    return [
        _case(ALONE.format(name), replace(alone, operands=operands).fold, share, name),
        replace(shared, answer=partial(_some, every)),
    ]


def _some(every: slice, folded: tuple[Folded, ...]) -> object:
    """The answer for the windows that were also folded on their own."""
    return trends([Folded(of.mantissa[every], of.exponent[every], of.extreme[every]) for of in folded])


def _per_event(workspace: Workspace, events: int) -> list[Case]:
    """A window per event: the cost of an event does not depend on the window length."""
    codes, found = workspace.batch.type_code, list[Case]()
    ends = np.flatnonzero(codes == codes.max())
    every = slice(0, None, max(1, len(ends) // SOME))
    for length in (100, 1_000, 10_000):
        text = f"RETURN COUNT(*) {PATTERN} WITHIN {length} s"
        promise = Promise(0.8, found[-1].name) if found else Promise(1e6)
        case = _case(f"a window of {length:,} s per event", fold(workspace, text), events, None, promise)
        expected = partial(_recurrence, codes, ends[every], length)
        found.append(replace(case, answer=partial(_some, every), expected=expected))
    return found


def _recurrence(codes: NDArray[np.int32], ends: NDArray[np.int64], length: int) -> list[Columns]:
    """The reference answer for the windows that end at some events."""
    return [columns(recurrences.counts(codes, *recurrences.windows_to(ends, length)))]


def _neighbours(seed: int, events: int, overlap: int, times: float) -> list[Case]:
    """Adjacency predicates: each window on its own, and as lanes."""
    slide = NEIGHBOUR_WINDOW // overlap
    text = (
        "RETURN COUNT(*) PATTERN S+ WHERE S.price > NEXT(S).price "
        f"WITHIN {NEIGHBOUR_WINDOW} s SLIDE {slide} s"
    )
    shared = ready(random_walk(seed, max(2 * NEIGHBOUR_WINDOW, events // (4 * overlap))), text, "auto")
    alone = replace(shared, way=Bindings(1, "to compare with"))
    count = len(shared.rows.row)
    name = f"{overlap:,} overlaps of {slide:,} events, neighbours compared"
    promise = Promise(times, ALONE.format(name))
    return [
        _case(ALONE.format(name), alone.fold, count, name),
        _case(name, shared.fold, count, name, promise),
    ]


def _text(returns: str, overlap: int, slide: int) -> str:
    return f"RETURN {returns} {PATTERN} WITHIN {overlap * slide} s SLIDE {slide} s"
