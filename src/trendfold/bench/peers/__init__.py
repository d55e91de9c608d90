"""trendfold against Flink CEP, Flink SQL's MATCH_RECOGNIZE and Esper: same events, same questions.

The question is COUNT(*) of SEQ(A, B+, C) by key and tumbling window. Streams and patterns are chosen so that
all definitions agree (see docs/benchmarks.md), and the counts of every window and key are compared before any
time is shown. Peers run in their own processes, which report the seconds of the job, without Java's start,
compilation, reading events and submission. `make bench-peers` sets up their environment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trendfold.api import parse
from trendfold.bench.curves import draw_all
from trendfold.bench.harness import Case, Report
from trendfold.bench.peers.aligned_stream import HALF_S, KINDS, WINDOW_S, AlignedStream, known_counts, stream
from trendfold.bench.peers.process import Peer, found_peers
from trendfold.runtime.result import Result

SEMANTICS = ("any", "next", "contiguous")
LENGTHS = {"any": (5, 8, 10, 12, 15, 20, 30), "next": (5, 10, 20, 30), "contiguous": (5, 10, 20, 30)}
"""Numbers of B per window and key."""
BUILT = 10
"""Up to this many B, our strategy `construct` is measured too."""
QUERIES = (1, 10, 50)
MANY_LENGTH = {"any": 5, "next": 10, "contiguous": 10}
"""The number of B if the number of queries is varied."""
EVENTS = {"any": 2_000, "next": 50_000, "contiguous": 50_000}
MANY_EVENTS = {"any": 2_000, "next": 20_000, "contiguous": 20_000}
OURS = "trendfold"


def cases(seed: int, scale: float) -> list[Case]:
    """Growing numbers of B for one query, then growing numbers of queries."""
    peers = found_peers()
    found: list[Case] = []
    for semantics in SEMANTICS:
        for b in LENGTHS[semantics]:
            events = stream(seed, _scaled(EVENTS[semantics], scale), b)
            found += _question(peers, semantics, events, 1)
        for queries in QUERIES[1:]:
            events = stream(seed, _scaled(MANY_EVENTS[semantics], scale), MANY_LENGTH[semantics])
            found += _question(peers, semantics, events, queries)
    return found


def _question(peers: list[Peer], semantics: str, events: AlignedStream, queries: int) -> list[Case]:
    """One question for every engine that can answer it."""
    what = f"{semantics}, {events.length} B, {queries} {'query' if queries == 1 else 'queries'}"
    ours, n = f"{OURS}, {what}", len(events.table)
    ways = [(OURS, "auto")] + [(f"{OURS} construct", "construct")] * (semantics == "any" and queries == 1)
    found = [
        Case(f"{name}, {what}", _run(events, semantics, queries, way), n, None if way == "auto" else ours)
        for name, way in ways
        if way == "auto" or events.length <= BUILT
    ]
    known = partial(known_counts, events, semantics, queries)
    found = [replace(_asked(case, what, counts_of), expected=known) for case in found]
    for peer in peers:
        if semantics in peer.can:
            run = partial(peer.ask, semantics, queries, events)
            found.append(_asked(Case(f"{peer.name}, {what}", run, n, ours), what, np.asarray))
    return found


def _asked(case: Case, what: str, answer: Callable[[Result], object]) -> Case:
    return Case(case.name, case.run, case.events, case.floor, like=what, answer=answer)


def text(semantics: str, queries: int) -> str:
    """Queries that differ in which A may start a trend."""
    a, b, c, _ = KINDS
    return ";".join(
        f"QUERY q{i} RETURN COUNT(*) PATTERN SEQ({a}, {b}+, {c}) SEMANTICS {semantics} WHERE {a}.x != {i} "
        f"GROUP BY g WITHIN {WINDOW_S} s SLIDE {WINDOW_S} s"
        for i in range(queries)
    )


def _run(events: AlignedStream, semantics: str, queries: int, strategy: str) -> Callable[[], Result]:
    """A run from a table in memory to tables of counts."""
    workload = parse(text(semantics, queries))
    return lambda: workload.run(events.table, strategy=strategy, time_unit="ms")


def counts_of(result: Result) -> NDArray[np.float64]:
    """Query, window, key and count of all nonzero results."""
    parts = []
    for name, table in result.items():
        window = np.asarray(table["window_start"]) // (WINDOW_S * 1_000)
        query = np.full(len(window), int(name[1:]))
        parts.append(np.column_stack([query, window, np.asarray(table["g"]), np.asarray(table["count"])]))
    rows = np.concatenate(parts).astype(np.float64)
    return rows[np.lexsort(rows.T[2::-1])]


def notes(report: Report) -> tuple[str, ...]:
    """How times are measured, and the largest point each peer finished if it did not finish all."""
    lines = [
        f"windows of {WINDOW_S} s by key, each with one A, the B and one C inside {HALF_S} s; within of the "
        f"peers is {HALF_S} s, so that no match of theirs crosses a window",
        "seconds of the peers are those of the job, from its first event to its end, after one to warm up; "
        "trendfold's are those of the whole run from a table in memory, on one core",
    ]
    for who, what, last in _last_finished(report):
        lines.append(f"{who}, {what}: {last}")
    return tuple(lines)


def _last_finished(report: Report) -> list[tuple[str, str, str]]:
    """For methods with unfinished lines: the largest finished one."""
    curves: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for line in report.measurements:
        who, semantics, b, queries = line.name.split(", ")
        if queries == "1 query":
            curves.setdefault((who, semantics), []).append((int(b.split()[0]), line.unfinished))
    found = []
    for (who, what), points in curves.items():
        done = [b for b, why in points if not why]
        if len(done) < len(points):
            found.append((who, what, f"last finished: {max(done)} B" if done else "nothing finished"))
    return found


def plot(report: Report) -> str:
    """The speedup of trendfold, by number of B and by number of queries."""
    figures: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in report.measurements:
        who, semantics, b, queries = line.name.split(", ")
        if who == OURS or not line.of_floor or line.unfinished:
            continue
        if queries == "1 query":
            curves = figures.setdefault(f"{semantics}: times faster than, by B in a window", {})
            curves.setdefault(who, []).append((float(b.split()[0]), 1 / line.of_floor))
    return draw_all(figures, "times faster than the peers")


def _scaled(events: int, scale: float) -> int:
    return max(200, int(events * scale))
