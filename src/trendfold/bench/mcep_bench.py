"""The speed of finding matches, and the gain of sharing and reordering over trivial plans (MCEP, section 6).

Lines are whole detections with a plan made beforehand; all plans of a workload must give the same matches.
SPASS and MOTTO are planned as papers.mcep.fixed_order says. Promises are about the geometric mean over five
workloads, and about plans that adapt. Notes and plot are the paper's Figures 10 to 14,
scaled to this machine; `bench/patterns.py` describes streams and patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, log
from time import perf_counter

import numpy as np
import pyarrow as pa

from trendfold.api import parse
from trendfold.bench.curves import draw_all
from trendfold.bench.harness import Case, Measurement, Promise, Report, Verdict
from trendfold.bench.mcep_figures import (
    ADAPTIVE,
    ANY,
    CHANGING,
    CHANGING_EVENTS,
    STREAMS,
    Figure,
    all_marks,
    density,
    figures,
    found_by,
    measured,
    planned_for_the_beginning,
)
from trendfold.bench.mcep_ratios import headlines
from trendfold.bench.patterns import PatternShape
from trendfold.detect.adapt import Adapting, replan
from trendfold.detect.evaluate import JoinCounts
from trendfold.detect.workplan import JoinPlanner, Workplan
from trendfold.errors import TrendfoldError
from trendfold.papers.mcep.baselines import BASELINES
from trendfold.papers.mcep.plan import STRATEGIES, PlanSearch
from trendfold.runtime.detection import Detection, lay_out

EVENTS, WORKLOADS, SEARCH_S = 30_000, 5, 30.0
WINDOW, SPAN = 10.0, 23
OVER_TRIVIAL, OVER_BASELINES, OVER_RIVALS = 10.0, 1.25, 1.0
SH, RE = "SH", "RE"
FAST, PER_THOUSAND = 1e6, 100
AS_STATIC, OVER_STATIC = 0.95, 1.0
"""The speed of adaptive plans relative to a static one, while rates stay and while they change."""
FOUND = "MCEP"


def cases(seed: int, scale: float) -> list[Case]:
    """One pattern alone; then five workloads of 100 patterns with every plan."""
    found = [_alone(seed, max(1_000, int(1_000_000 * scale))), *_adaptive(seed, scale)]
    rivals = {name.upper(): planner for name, planner in STRATEGIES.items()}
    search = PlanSearch(SEARCH_S * min(1.0, scale))
    planners: dict[str, JoinPlanner] = {**BASELINES, **rivals, FOUND: search}
    for number in range(WORKLOADS):
        name = list(STREAMS)[number % len(STREAMS)]
        events = max(500, int(EVENTS * scale))
        trivial = measured(STREAMS[name](events, seed + number), PatternShape(window=WINDOW), seed + number)
        detections = {plan: trivial.by(planner) for plan, planner in planners.items()}
        what = f"{name} {number + 1}"
        for plan, detection in detections.items():
            floor = None if plan == "trivial" else f"{what}, trivial"
            run = found_by(detection)
            found.append(Case(f"{what}, {plan}", run, events, floor, like=what, answer=all_marks))
    return found


def _adaptive(seed: int, scale: float) -> list[Case]:
    """A plan for the beginning of a stream, kept or adapted: while rates stay, and while they change."""
    stream = STREAMS["stock"](max(2_000, int(CHANGING_EVENTS * scale)), seed)
    found = []
    for changes, least in ((0, AS_STATIC), (4, OVER_STATIC)):
        _, static = planned_for_the_beginning(stream, CHANGING, changes, seed, min(1.0, scale))
        what, events = f"stock, rates change {changes} times", stream.table.num_rows
        promise = (Promise(least, f"{what}: static plan"),)
        for name, adapting, promises in (("static", None, ()), ("adaptive", ADAPTIVE, promise)):
            run = found_by(static, adapting)
            found.append(
                Case(f"{what}: {name} plan", run, events, promises=promises, like=what, answer=all_marks)
            )
    return found


def _alone(seed: int, events: int) -> Case:
    """SEQ of 3 of 10 types with a condition, 100 matches per 1,000 events; rows in, table out."""
    rng = np.random.default_rng(seed)
    codes = pa.array(rng.integers(0, 10, events).astype(np.int32))
    types = pa.DictionaryArray.from_arrays(codes, pa.array([f"T{i}" for i in range(10)]))
    x = rng.normal(size=events)
    table = pa.table({"type": types, "ts": np.arange(events), "x": x})
    query = parse(f"RETURN MATCHES PATTERN SEQ(T0 a, T1 b, T2 c) WHERE a.x < c.x WITHIN {SPAN} s")
    matches = query.run(table, limits={"matches": events})["q1"].num_rows
    if events >= 100_000 and matches * 1_000 < PER_THOUSAND * events:
        raise TrendfoldError(f"{matches:,} matches of {events:,} events are fewer than this line needs")
    return Case(
        f"one pattern, SEQ of 3 types, {matches * 1_000 / events:.0f} matches per 1,000 events",
        lambda: query.run(table, limits={"matches": events}),
        events,
        promises=(Promise(FAST),),
        answer=lambda result: _bound(result["q1"]),
        expected=lambda: _loops(codes.to_pylist(), x.tolist()),
    )


def _bound(matches: pa.Table) -> list[tuple[int, ...]]:
    """The rows of every match; here the times are the row numbers."""
    rows = (matches[name].combine_chunks().flatten().field("time").to_pylist() for name in "abc")
    return sorted(zip(*rows, strict=True))


def _loops(codes: list[int], x: list[float]) -> list[tuple[int, ...]]:
    """The same with three nested loops."""
    found = []
    for c in (row for row, code in enumerate(codes) if code == 2):
        for a in range(max(0, c - SPAN + 1), c - 1):
            if codes[a] == 0 and x[a] < x[c]:
                found += [(a, b, c) for b in range(a + 1, c) if codes[b] == 1]
    return sorted(found)


# ---------------------------------------------------------------- promises


def gains(report: Report) -> dict[str, list[float]]:
    """The speedup of each plan over the trivial one, per workload."""
    found: dict[str, list[float]] = {}
    for line in report.measurements:
        if line.of_floor is not None:
            found.setdefault(line.name.rsplit(", ", 1)[1], []).append(line.of_floor)
    return found


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def judged(report: Report) -> Report:
    """Add the promises about all workloads to the last line."""
    found = gains(report)
    verdicts = [Verdict(Promise(OVER_TRIVIAL, "trivial, geometric mean"), mean(found[FOUND]))]
    for rivals, least in (
        ((SH, RE), OVER_BASELINES),
        (tuple(name.upper() for name in STRATEGIES), OVER_RIVALS),
    ):
        if all(name in found for name in rivals):
            best = [max(gains) for gains in zip(*(found[name] for name in rivals), strict=True)]
            over = [ours / theirs for ours, theirs in zip(found[FOUND], best, strict=True)]
            which = f"the better of {' and '.join(rivals)}, geometric mean"
            verdicts.append(Verdict(Promise(least, which), mean(over)))
    last: Measurement = report.measurements[-1]
    return replace(report, measurements=(*report.measurements[:-1], replace(last, verdicts=tuple(verdicts))))


# ---------------------------------------------------------------- ratios, notes and plot


def ratios(report: Report) -> dict[str, float]:
    """The paper's headline ratios, from our figures."""
    return headlines(_figures(report))


def notes(report: Report) -> tuple[str, ...]:
    """The means, the cost of planning and memory, and the figures as lines of numbers."""
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    lines = [f"{plan}: {mean(values):.1f} times the trivial plan" for plan, values in gains(report).items()]
    lines += [*_planning(seed, scale), *_memory(seed, scale)]
    for title, figure in _figures(report).items():
        lines.append(title)
        for curve, points in figure.items():
            lines.append(f"  {curve}: " + ", ".join(f"{x:g} → {y:.1f}×" for x, y in points))
    return tuple(lines)


def plot(report: Report) -> str:
    """All figures, one below the other."""
    return draw_all(_figures(report))


def _figures(report: Report) -> dict[str, Figure]:
    return figures(int(report.settings["seed"]), report.settings["scale"])


def _planning(seed: int, scale: float) -> list[str]:
    """What a plan takes without a search, in rows that could be joined meanwhile; how much patterns share."""
    detection = _stock(seed, max(500, int(EVENTS * scale))).by(PlanSearch(0.0))
    patterns = detection.joins.patterns
    trees = tuple(pattern.written for pattern in patterns)

    def plan() -> None:
        found = replan(patterns, detection.statistics, trees)
        lay_out(Workplan(found.trees), patterns, detection.joined)

    planning, joining = (_best_of_three(run) for run in (plan, found_by(detection)))
    rows = len(detection.ready.rows.row) * planning / joining
    return [
        f"multi-pattern graph density of stock 1: {density(detection):.2f}",
        f"planning {len(patterns)} patterns anew takes as long as joining {rows:,.0f} rows",
    ]


def _memory(seed: int, scale: float) -> list[str]:
    """Partial matches and bytes with the same window and rate, for n, 2n and 4n events."""
    events, found = max(500, int(EVENTS * scale)), []
    for times in (1, 2, 4):
        counts = JoinCounts()
        _stock(seed, times * events).by(PlanSearch(0.0)).run(ANY, counts, Adapting(looks_after=1 << 12))
        kept, size = counts.most_kept, counts.most_bytes / 2**20
        found.append(f"{times * events:,} events → {kept:,} kept, {size:.1f} MiB")
    return ["partial matches: " + "; ".join(found)]


def _stock(seed: int, events: int) -> Detection:
    """The first workload's patterns over a given number of events."""
    return measured(STREAMS["stock"](events, seed), PatternShape(window=WINDOW), seed)


def _best_of_three(run: Callable[[], object]) -> float:
    def timed() -> float:
        start = perf_counter()
        run()
        return perf_counter() - start

    return min(timed() for _ in range(3))
