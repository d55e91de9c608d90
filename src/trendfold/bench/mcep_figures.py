"""The paper's Figures 10 to 14, scaled to this machine: gains over the trivial plan, best of several runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from trendfold.bench.patterns import PatternShape, PatternStream, aarhus, reshuffled, stock, traffic, workload
from trendfold.detect.adapt import Adapting
from trendfold.detect.joint_queries import joint_queries
from trendfold.detect.workplan import JoinPlanner, Workplan
from trendfold.errors import TrendfoldError
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.papers.mcep.baselines import BASELINES
from trendfold.papers.mcep.pattern_graph import build_graph
from trendfold.papers.mcep.plan import STRATEGIES, PlanSearch, improve
from trendfold.runtime.detection import Detection
from trendfold.runtime.find_matches import plan_joins, read_detection_input
from trendfold.runtime.limits import Limits
from trendfold.runtime.whole_matches import QueryMatches, concatenated
from trendfold.runtime.workspace import Workspace

ANY = Limits(matches=2**62, trends=2**62)
STREAMS: dict[str, Callable[[int, int], PatternStream]] = {"stock": stock, "traffic": traffic}


def measured(stream: PatternStream, shape: PatternShape, seed: int) -> Detection:
    """A workload with the trivial plan; rows are read and statistics are measured."""
    plans = workload(stream, shape, seed).plan()
    workspace = Workspace(read_batch(stream.table, Options(time_unit="us")))
    (joint,) = joint_queries(plans)
    return plan_joins(read_detection_input(joint, workspace, ANY), BASELINES["trivial"])


ADAPTIVE = Adapting(improve=improve)
"""How plans change where a run is asked for."""


def found_by(detection: Detection, adapting: Adapting | None = None) -> Callable[[], Sequence[QueryMatches]]:
    """A whole detection."""
    return lambda: detection.run(ANY, None, adapting).matches


# ---------------------------------------------------------------- answers


def agree(detections: Mapping[str, Detection]) -> None:
    """Raise unless all detections find the same matches."""
    expected: list[NDArray[np.uint64]] = []
    for name, detection in detections.items():
        answers = all_marks(detection.run(ANY).matches)
        expected = expected or answers
        if not all(map(np.array_equal, answers, expected)):
            raise TrendfoldError(f"plan {name} finds other matches than {next(iter(detections))}")


def all_marks(found: Sequence[QueryMatches]) -> list[NDArray[np.uint64]]:
    """The matches of every pattern."""
    return [marks(each) for each in found]


def marks(found: QueryMatches) -> NDArray[np.uint64]:
    """A number per match that tells it from others, in order."""
    bindings = concatenated(found.parts)
    pair = bindings.row.astype(np.uint64) << np.uint64(32) | bindings.position.astype(np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):  # MurmurHash3's last steps
        pair = (pair ^ (pair >> np.uint64(shift))) * np.uint64(factor)
    each = np.add.reduceat(pair, bindings.start[:-1]) if len(bindings) else pair
    return np.sort(each)


# ---------------------------------------------------------------- figures

Figure = dict[str, list[tuple[float, float]]]
"""By curve: the varied parameter, and the gain over the trivial plan."""

EVENTS, CHANGING_EVENTS = 20_000, 200_000
SHORT_S = 2.0
EDGE = PlanSearch(SHORT_S)
NEIGHBOURS = {
    "EDGE": EDGE,
    "VERTEX4": replace(EDGE, together=4),
    "VERTEX8": replace(EDGE, together=8),
    "EDGE-PREFIX": replace(EDGE, is_prefix=True),
}
LOCAL: dict[str, JoinPlanner] = {
    f"{short}-{name}": replace(search, heuristic=heuristic)
    for short, heuristic in (("SA", "annealing"), ("TS", "tabu"))
    for name, search in NEIGHBOURS.items()
}
RIVALS = {name: BASELINES[name] for name in ("SH", "RE")} | {
    name.upper(): planner for name, planner in STRATEGIES.items()
}
"""The plans of Figure 12: sharing alone, reordering alone, and SPASS and MOTTO."""
BEST = {name: LOCAL[name] for name in ("SA-EDGE", "TS-EDGE")} | RIVALS
BASE = PatternShape(window=8.0)


@cache
def figures(seed: int, scale: float) -> dict[str, Figure]:
    """All figures possible with the available streams."""
    found: dict[str, Figure] = {}
    for name, stream in _streams(max(300, int(EVENTS * scale)), seed).items():
        gain = _Gains(stream, seed, min(1.0, scale))
        found[f"Figures 10, 12a, {name}: patterns"] = gain.over(
            {n: replace(BASE, patterns=n) for n in (10, 30, 100)}, LOCAL | RIVALS
        )
        found[f"Figures 11a, 12b, {name}: size"] = gain.over(
            {n: replace(BASE, size=n) for n in (3, 5, 7)}, BEST
        )
        found[f"Figure 11b, {name}: seconds of search"] = gain.over_time((0.3, 1.0, 3.0, 10.0))
        found[f"Figures 11c, 12c, {name}: window, events per type"] = gain.over(
            {w: replace(BASE, window=w) for w in (4.0, 8.0, 12.0)}, BEST
        )
        found[f"Figures 11d, 12d, {name}: window of events"] = gain.over(
            {w * 20: replace(BASE, window=w, is_counted=True) for w in (4.0, 8.0, 12.0)}, BEST
        )
        found[f"Figure 14ab, {name}: density of the multi-pattern graph"] = gain.over_density((10, 14, 20))
        found[f"Figure 14cd, {name}: difference of rates"] = gain.over(
            {d: replace(BASE, rate_difference=d) for d in (0.1, 0.5, 1.0)}, BEST
        )
    for name, make in STREAMS.items():
        stream = make(max(600, int(CHANGING_EVENTS * scale)), seed)
        found[f"Figure 13, {name}: reshuffles per 1,000 events"] = _changing(stream, seed, min(1.0, scale))
    return {title: figure for title, figure in found.items() if figure}


def _streams(events: int, seed: int) -> dict[str, PatternStream]:
    """The generated streams, and the real sensor data if it is available."""
    found = {name: make(events, seed) for name, make in STREAMS.items()}
    folder = os.environ.get("TRENDFOLD_SHARED")
    path = Path(folder or "", "data", "events", "aarhus_traffic_20.csv.gz")
    return found | {"Aarhus sensors": aarhus(str(path), events)} if folder and path.exists() else found


def density(detection: Detection) -> float:
    """The average share of other patterns that a pattern has something in common with."""
    graph = build_graph(detection.joins.patterns)
    count = len(graph.patterns)
    near = (set().union(*(graph.shared[part] for part in parts)) for parts in graph.of_pattern.values())
    return sum(len(some) - 1 for some in near) / (count * max(count - 1, 1))


class _Gains:
    """Speedups over the trivial plan on one stream."""

    def __init__(self, stream: PatternStream, seed: int, quick: float) -> None:
        self.stream, self.seed, self.quick = stream, seed, quick
        self.trivial: dict[PatternShape, tuple[Detection, float]] = {}

    def of(self, shape: PatternShape, planner: JoinPlanner) -> float:
        """The gain of one plan."""
        detection, seconds = self._trivially(shape)
        if isinstance(planner, PlanSearch):
            planner = replace(planner, seconds=planner.seconds * self.quick)
        found = detection.by(planner)
        agree({"trivial": detection, "other": found})
        return seconds / _best(found_by(found))

    def over(self, shapes: Mapping[float, PatternShape], planners: Mapping[str, JoinPlanner]) -> Figure:
        """Gains of plans for workloads of some shapes; none where windows of events would have ties."""
        if any(shape.is_counted for shape in shapes.values()) and self.stream.has_ties:
            return {}
        return {
            name: [(x, self.of(shape, planner)) for x, shape in shapes.items()]
            for name, planner in planners.items()
        }

    def over_time(self, seconds: tuple[float, ...]) -> Figure:
        """Gains by search time."""
        return {
            name: [(s, self.of(BASE, PlanSearch(s, heuristic))) for s in seconds]
            for name, heuristic in (("SA-EDGE", "annealing"), ("TS-EDGE", "tabu"))
        }

    def over_density(self, types: tuple[int, ...]) -> Figure:
        """Gains by density: patterns made of fewer types have more in common."""
        shapes = [replace(BASE, types=n) for n in types]
        found = {round(density(self._trivially(shape)[0]), 2): shape for shape in shapes}
        return self.over(dict(sorted(found.items())), BEST)

    def _trivially(self, shape: PatternShape) -> tuple[Detection, float]:
        if shape not in self.trivial:
            detection = measured(self.stream, shape, self.seed)
            self.trivial[shape] = detection, _best(found_by(detection))
        return self.trivial[shape]


def _best(run: Callable[[], object], runs: int = 5, enough_s: float = 1.0) -> float:
    """The shortest of several runs; fewer if they take long."""
    shortest, total = _timed(run), 0.0
    for _ in range(runs - 1):
        total += shortest
        if total > enough_s:
            break
        shortest = min(shortest, _timed(run))
    return shortest


def _timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def _changing(stream: PatternStream, seed: int, quick: float) -> Figure:
    """A plan for the first part of the stream, kept or replanned when rates change; planning is timed too."""
    curves: Figure = {"static": [], "adaptive": []}
    shape, events = CHANGING, stream.table.num_rows
    for changes in (1, 4, 16, 64):
        trivial, static = planned_for_the_beginning(stream, shape, changes, seed, quick)
        agree({"trivial": trivial, "static": static})
        seconds = _best(found_by(trivial), 2)
        runs = {"static": found_by(static), "adaptive": found_by(static, ADAPTIVE)}
        turns = [{name: _timed(run) for name, run in runs.items()} for _ in range(5)]
        for name, curve in curves.items():
            curve.append((changes * 1000 / events, seconds / min(turn[name] for turn in turns)))
    return curves


def planned_for_the_beginning(
    stream: PatternStream, shape: PatternShape, changes: int, seed: int, quick: float
) -> tuple[Detection, Detection]:
    """A stream whose rates change so many times: its trivial plan, and the best one for its first part."""
    every = max(1, stream.table.num_rows // (changes + 1))
    changed = reshuffled(stream, every, 5, seed)
    first = measured(replace(changed, table=changed.table.slice(0, every)), shape, seed)
    known = first.by(PlanSearch(SHORT_S * quick)).route.workplan
    trivial = measured(changed, shape, seed)
    return trivial, replace(trivial.by(_fixed(known)), statistics=first.statistics)


CHANGING = replace(BASE, special=0.0, rarity=0.02)
"""No Kleene closure, and few matches before rates change: all plans report the same matches."""


def _fixed(workplan: Workplan) -> JoinPlanner:
    """A plan that was made before."""
    return lambda patterns, statistics: workplan
