"""How fast matches are found, and what sharing and reordering gain over the trivial plan (MCEP, section 6).

Lines are whole detections by a plan that was made before. The geometric mean over five workloads is promised;
notes and plot are the paper's Figures 10 to 14 at this machine's size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import exp, log
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from trendfold.api import parse
from trendfold.bench.curves import draw_all
from trendfold.bench.harness import Case, Measurement, Promise, Report, Verdict
from trendfold.bench.patterns import Shape, Stream, aarhus, reshuffled, stock, traffic, workload
from trendfold.detect.family import families
from trendfold.detect.plans import BASELINES, Search, WorkloadPlanner, Workplan
from trendfold.events.batch import Options, read_batch
from trendfold.runtime.detection import Detection
from trendfold.runtime.limits import Limits
from trendfold.runtime.matches import plan_joins, prepare
from trendfold.runtime.rows import Workspace

EVENTS, WORKLOADS, SEARCH_S = 30_000, 5, 30.0
WINDOW = 10.0
OVER_TRIVIAL, OVER_BASELINES = 10.0, 1.25
FAST = 1e6
FOUND = "MCEP"
ANY = Limits(matches=2**62, trends=2**62)
STREAMS: dict[str, Callable[[int, int], Stream]] = {"stock": stock, "traffic": traffic}


def cases(seed: int, scale: float) -> list[Case]:
    """One pattern alone; then five workloads of 100 patterns, by every plan."""
    found = [_alone(seed, max(1_000, int(1_000_000 * scale)))]
    planners: dict[str, WorkloadPlanner] = {**BASELINES, FOUND: Search(SEARCH_S * min(1.0, scale))}
    for number in range(WORKLOADS):
        name = list(STREAMS)[number % len(STREAMS)]
        events = max(500, int(EVENTS * scale))
        stream = STREAMS[name](events, seed + number)
        detection = _measured(stream, Shape(window=WINDOW), seed + number)
        for plan, planner in planners.items():
            found.append(
                Case(
                    f"{name} {number + 1}, {plan}",
                    _run(detection.by(planner)),
                    events,
                    None if plan == "trivial" else f"{name} {number + 1}, trivial",
                )
            )
    return found


def _alone(seed: int, events: int) -> Case:
    """SEQ of 3 of 10 types with a condition, 100 matches per 1,000 events; rows in, table out."""
    rng = np.random.default_rng(seed)
    codes = pa.array(rng.integers(0, 10, events).astype(np.int32))
    types = pa.DictionaryArray.from_arrays(codes, pa.array([f"T{i}" for i in range(10)]))
    table = pa.table({"type": types, "ts": np.arange(events), "x": rng.normal(size=events)})
    query = parse("RETURN MATCHES PATTERN SEQ(T0 a, T1 b, T2 c) WHERE a.x < c.x WITHIN 22 s")
    return Case(
        "one pattern, SEQ of 3 types",
        lambda: query.run(table, limits={"matches": events}),
        events,
        promises=(Promise(FAST),),
    )


def planned(stream: Stream, shape: Shape, seed: int, planner: WorkloadPlanner) -> Detection:
    """A workload's joins, planned."""
    return _measured(stream, shape, seed).by(planner)


def _measured(stream: Stream, shape: Shape, seed: int) -> Detection:
    """A workload whose rows are read and whose statistics are known, with the trivial plan."""
    plans = workload(stream, shape, seed).plan()
    workspace = Workspace(read_batch(stream.table, Options(time_unit="us")))
    (family,) = families(plans)
    return plan_joins(prepare(family, workspace, ANY), BASELINES["trivial"])


def _run(detection: Detection) -> Callable[[], object]:
    return lambda: [found.count for found in detection.run(ANY)]


# ---------------------------------------------------------------- promises


def gains(report: Report) -> dict[str, list[float]]:
    """Per plan, how many times faster than the trivial one it is in each workload."""
    found: dict[str, list[float]] = {}
    for line in report.measurements:
        if line.of_floor is not None:
            found.setdefault(line.name.rsplit(", ", 1)[1], []).append(line.of_floor)
    return found


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def judged(report: Report) -> Report:
    """With the promises about all workloads together, at the last line."""
    found = gains(report)
    rivals = [max(pair) for pair in zip(found["SH"], found["RE"], strict=True)]
    over = [ours / theirs for ours, theirs in zip(found[FOUND], rivals, strict=True)]
    verdicts = (
        Verdict(Promise(OVER_TRIVIAL, "trivial, geometric mean"), mean(found[FOUND])),
        Verdict(Promise(OVER_BASELINES, "the better of SH and RE, geometric mean"), mean(over)),
    )
    last: Measurement = report.measurements[-1]
    return replace(report, measurements=(*report.measurements[:-1], replace(last, verdicts=verdicts)))


# ---------------------------------------------------------------- the paper's figures

Figure = dict[str, list[tuple[float, float]]]
"""Per curve: what is varied, and the gain over the trivial plan."""

SHORT_S = 3.0
LOCAL: dict[str, WorkloadPlanner] = {
    "SA-EDGE": Search(SHORT_S),
    "TS-EDGE": Search(SHORT_S, "tabu"),
    "SA-VERTEX4": Search(SHORT_S, together=4),
    "SA-VERTEX8": Search(SHORT_S, together=8),
    "SA-EDGE-PREFIX": Search(SHORT_S, is_prefix=True),
}
BEST = {
    "SA-EDGE": LOCAL["SA-EDGE"],
    "TS-EDGE": LOCAL["TS-EDGE"],
    "SH": BASELINES["SH"],
    "RE": BASELINES["RE"],
}


def notes(report: Report) -> tuple[str, ...]:
    """The means, and the figures as lines of numbers."""
    lines = [f"{plan}: {mean(values):.1f} times the trivial plan" for plan, values in gains(report).items()]
    for title, figure in figures(int(report.settings["seed"]), report.settings["scale"]).items():
        lines.append(title)
        for curve, points in figure.items():
            lines.append(f"  {curve}: " + ", ".join(f"{x:g} → {y:.1f}×" for x, y in points))
    return tuple(lines)


def plot(report: Report) -> str:
    """All figures, one under the other."""
    return draw_all(figures(int(report.settings["seed"]), report.settings["scale"]))


@cache
def figures(seed: int, scale: float) -> dict[str, Figure]:
    """Gains over the trivial plan, each measured once: best of two runs."""
    events = max(300, int(20_000 * scale))
    quick = min(1.0, scale)
    found: dict[str, Figure] = {}
    sources = {name: make(events, seed) for name, make in STREAMS.items()}
    folder = os.environ.get("TRENDFOLD_SHARED")
    path = Path(folder or "", "data", "events", "aarhus_traffic_20.csv.gz")
    if folder and path.exists():
        sources["Aarhus sensors"] = aarhus(str(path), events)
    for name, stream in sources.items():
        gain = _Gains(stream, seed, quick)
        base = Shape(window=8.0)
        found[f"Figure 10, {name}: patterns"] = gain.over(
            {n: replace(base, patterns=n) for n in (10, 30, 100)}, LOCAL
        )
        found[f"Figures 11a, 12b, {name}: size"] = gain.over(
            {n: replace(base, size=n) for n in (3, 5, 7)}, BEST
        )
        found[f"Figures 11c, 12c, {name}: window, events per type"] = gain.over(
            {w: replace(base, window=w) for w in (4.0, 8.0, 12.0)}, BEST
        )
        found[f"Figures 11d, 12d, {name}: window of events"] = (
            gain.over({w * 20: replace(base, window=w, is_counted=True) for w in (4.0, 8.0, 12.0)}, BEST)
            if name in STREAMS
            else {}
        )
        found[f"Figure 14, {name}: types to choose from"] = gain.over(
            {n: replace(base, types=n) for n in (10, 14, 20)}, BEST
        )
        found[f"Figure 14, {name}: difference of rates"] = gain.over(
            {d: replace(base, rate_difference=d) for d in (0.1, 0.5, 1.0)}, BEST
        )
    stream = sources["stock"]
    gain = _Gains(stream, seed, quick)
    found["Figure 11b, stock: seconds of search"] = {
        name: [(s, gain.of(Shape(window=8.0), Search(s * quick, heuristic))) for s in (0.3, 1.0, 3.0, 10.0)]
        for name, heuristic in (("SA-EDGE", "annealing"), ("TS-EDGE", "tabu"))
    }
    found["Figure 13, stock: reshuffles per 1,000 events"] = _changing(stream, seed, quick)
    return {title: figure for title, figure in found.items() if figure}


class _Gains:
    """How many times faster than the trivial plan others are, on one stream."""

    def __init__(self, stream: Stream, seed: int, quick: float) -> None:
        self.stream, self.seed, self.quick = stream, seed, quick
        self.trivial: dict[Shape, tuple[Detection, float]] = {}

    def of(self, shape: Shape, planner: WorkloadPlanner) -> float:
        """The gain of one plan."""
        if shape not in self.trivial:
            detection = _measured(self.stream, shape, self.seed)
            self.trivial[shape] = detection, _best(_run(detection))
        detection, seconds = self.trivial[shape]
        return seconds / _best(_run(detection.by(planner)))

    def over(self, shapes: dict[float, Shape], planners: dict[str, WorkloadPlanner]) -> Figure:
        return {
            name: [(x, self.of(shape, self._quick(planner))) for x, shape in shapes.items()]
            for name, planner in planners.items()
        }

    def _quick(self, planner: WorkloadPlanner) -> WorkloadPlanner:
        return (
            replace(planner, seconds=planner.seconds * self.quick) if isinstance(planner, Search) else planner
        )


def _best(run: Callable[[], object]) -> float:
    return min(_timed(run), _timed(run))


def _timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def _changing(stream: Stream, seed: int, quick: float) -> Figure:
    """A plan made once, beside one that follows the rates; planning again is part of the time."""
    curves: Figure = {"static": [], "adaptive": []}
    events = stream.table.num_rows
    for every in (events // 2, events // 4, events // 16):
        changed = reshuffled(stream, max(1, every), 5, seed)
        shape = Shape(window=8.0)
        first = replace(changed, table=changed.table.slice(0, max(1, every)))
        known = planned(first, shape, seed, Search(SHORT_S * quick))
        detections = {
            "trivial": planned(changed, shape, seed, BASELINES["trivial"]),
            "static": planned(changed, shape, seed, _fixed(known.route.workplan)),
            "adaptive": replace(planned(changed, shape, seed, Search(0.0)), looks_after=max(100, every // 2)),
        }
        seconds = {
            name: _timed(partial(detection.run, ANY, adapts=name == "adaptive"))
            for name, detection in detections.items()
        }
        for name, points in curves.items():
            points.append((1000 / every, seconds["trivial"] / seconds[name]))
    return curves


def _fixed(workplan: Workplan) -> WorkloadPlanner:
    """A plan that was made before."""
    return lambda patterns, statistics: workplan
