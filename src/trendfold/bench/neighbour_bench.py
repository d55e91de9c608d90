"""The speed of looking up neighbours by value: against scans, for growing n, and for fifty queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.api import parse
from trendfold.bench import recurrences
from trendfold.bench.answers import Columns, columns, rows, trends
from trendfold.bench.curves import draw
from trendfold.bench.harness import Case, Promise, Report
from trendfold.bench.many_queries import mixed_events
from trendfold.bench.ways import run
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.plan import plan
from trendfold.runtime.folding import prepare
from trendfold.runtime.workspace import Workspace

QUERY = "RETURN COUNT(*) PATTERN S+ SEMANTICS {} WHERE S.price > NEXT(S).price"
SCANNED = {20_000: 15.0, 100_000: 80.0}
"""Events in one window, and the promised speedup over the scan."""
GROWING = (10_000, 30_000, 100_000, 300_000, 1_000_000)
FAST = 4e6
_GROWS, _SCAN = "any, growing n", "any, scan"


def cases(seed: int, scale: float) -> list[Case]:
    """One window over a random walk: against the vectorized scan, under next, and for growing n."""
    found: list[Case] = []
    for events, times in SCANNED.items():
        n = _scaled(events, scale)
        scan = f"{_SCAN}, {n:,} events"
        found.append(_case(scan, _fold(seed, n, "any", "cogra"), n))
        found.append(
            _case(
                f"any, {n:,} events", _fold(seed, n, "any"), n, floor=scan, promises=(Promise(times, scan),)
            )
        )
    for events in (*SCANNED, GROWING[-1]):
        n = _scaled(events, scale)
        expected = partial(_falling, seed, n, "next")
        fold, promises = _fold(seed, n, "next"), (Promise(FAST),)
        found.append(
            Case(f"next, {n:,} events", fold, n, promises=promises, answer=trends, expected=expected)
        )
    for events in GROWING:
        n = _scaled(events, scale)
        promised = (Promise(FAST),) if events == GROWING[-1] else ()
        expected = partial(_falling, seed, n, "any")
        name, fold = f"{_GROWS}, {n:,} events", _fold(seed, n, "any")
        found.append(_case(name, fold, n, promises=promised, expected=expected))
    return [*found, *_shared(seed, scale)]


FIFTY, EACH = 50, 200_000
TOGETHER = (
    "RETURN COUNT(*) PATTERN SEQ(A, B+, C) WHERE B.x < NEXT(B).x AND B.v > {} WITHIN 1000 s SLIDE 1000 s"
)


def _shared(seed: int, scale: float) -> list[Case]:
    """Whole runs: one query, fifty that differ in a threshold and share trees, and the fifty one by one."""
    table = mixed_events(seed, max(1_000, int(EACH * scale)))
    fifty = parse(";".join(TOGETHER.format(1_000 * i // FIFTY) for i in range(FIFTY))).queries
    one, alone = "one query, windows of 1,000 events", f"{FIFTY} queries, one by one"
    promises = (Promise(0.2, one), Promise(8, alone)) if scale >= 1 else ()
    apart, together = (run(table, fifty, "auto", together=share, unit="s") for share in (False, True))
    like, name = "fifty thresholds", f"{FIFTY} queries, shared trees"
    scanned = run(table, fifty[:1], "greta", unit="s")
    return [
        Case(
            one,
            run(table, fifty[:1], "auto", unit="s"),
            len(table),
            None,
            (),
            one,
            rows,
            lambda: rows(scanned()),
        ),
        Case(alone, apart, len(table), one, like=like, answer=rows),
        Case(name, together, len(table), one, promises, like, rows),
    ]


def notes(report: Report) -> tuple[str, ...]:
    """The log-log slope of time over n, compared with that of n log n."""
    lines = [line for line in report.measurements if line.name.startswith(_GROWS)]
    sizes = [log(line.events) for line in lines]
    measured = np.polyfit(sizes, [log(line.median_s) for line in lines], 1)[0]
    ideal = np.polyfit(sizes, [log(line.events * log(line.events)) for line in lines], 1)[0]
    return (f"time grows as n^{measured:.2f}; n log n would be n^{ideal:.2f}, n² is n^2",)


def plot(report: Report) -> str:
    """Time over n for each method, with n log n and n² as guides."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in report.measurements:
        curves.setdefault(line.name.rsplit(", ", 1)[0], []).append((line.events, line.median_s))
    scan, grown, spent = curves[_SCAN], curves[_GROWS], curves["next"]
    (n, seconds), (few, scanned) = grown[0], scan[0]
    most = grown[-1][0]
    guides = {
        "n log n": [(x, seconds * x * log(x) / (n * log(n))) for x in (n, most)],
        "n²": [(x, scanned * (x / few) ** 2) for x in (few, 2 * scan[-1][0])],
    }
    return draw({"any, every binding asked": scan, "any": grown, "next": spent}, guides)


def _case(name: str, run: Callable[[], object], n: int, **compared: Any) -> Case:
    """A case that counts the trends under skip-till-any-match over n events."""
    return Case(name, run, n, like=f"any, {n} events", answer=trends, **compared)


def _scaled(events: int, scale: float) -> int:
    return max(2, int(events * scale))


def _fold(seed: int, events: int, semantics: str, strategy: str = "auto") -> Callable[[], object]:
    """Time ranks and fold; rows are selected and sorted by time beforehand."""
    workspace = random_walk(seed, events)
    return prepare(plan(parse(QUERY.format(semantics)).queries[0], strategy), workspace).fold


def _falling(seed: int, events: int, semantics: str) -> list[Columns]:
    return [columns(recurrences.falling(_walk(seed, events), semantics))]


def _walk(seed: int, events: int) -> NDArray[np.float64]:
    return np.cumsum(np.random.default_rng(seed).normal(size=events))


def random_walk(seed: int, events: int) -> Workspace:
    """Prices, one event per second, already in order."""
    walk = _walk(seed, events)
    types = pa.DictionaryArray.from_arrays(pa.array(np.zeros(events, np.int32)), pa.array(["S"]))
    table = pa.table({"type": types, "ts": np.arange(events), "price": walk})
    return Workspace(read_batch(table, Options()))
