"""A plan followed over rows: batch by batch, from its joins to whole matches; another one where that pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter

import numpy as np

from trendfold.detect.adapt import Adapting, Stretch, Watch
from trendfold.detect.evaluate import Counts, Material, PartialMatchError, detect
from trendfold.detect.family import Joins
from trendfold.detect.join import Table
from trendfold.detect.lower import JoinProgram, lower
from trendfold.detect.multitree import Planned
from trendfold.detect.plans import WorkloadPlanner, Workplan
from trendfold.detect.sample import covered, measure
from trendfold.detect.statistics import Statistics
from trendfold.runtime.limits import Limits
from trendfold.runtime.whole import Found, Prepared, Task

WAITING = 1 << 16
"""Matches of a node that wait at most: making many whole at a time takes little longer than a few."""
QUICK_SAMPLE = 200
"""Pairs that are looked at for a selectivity while rows wait."""
PLANNING_S = 6e-4
"""How long planning a pattern anew takes, until it was done once."""


@dataclass(frozen=True)
class Route:
    """A plan laid out: where every pattern is in one multitree, and the program of its joins."""

    workplan: Workplan
    planned: tuple[Planned, ...]
    program: JoinProgram

    @property
    def roots(self) -> list[int]:
        """The nodes whose partial matches are whole."""
        return sorted({plan.root for plan in self.planned})

    def inboxes(self, tasks: Sequence[Task]) -> dict[int, _Inbox]:
        """Who gets the matches of which root."""
        found: dict[int, _Inbox] = {}
        for task, plan in zip(tasks, self.planned, strict=True):
            task.planned = plan
            found.setdefault(plan.root, _Inbox()).tasks.append(task)
        return found


def lay_out(workplan: Workplan, joins: Joins, material: Material) -> Route:
    """A plan as it is followed."""
    tree, planned = workplan.lay_out(joins.patterns)
    return Route(workplan, tuple(planned), lower(tree, material.leaves, material.reaches.lengths))


@dataclass
class _Inbox:
    """Matches of one node on their way to the clauses that it is the root of."""

    tasks: list[Task] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    rows: int = 0

    def put(self, table: Table) -> None:
        """Let matches wait until they are many, or as many as somebody may have."""
        if len(table):
            self.tables.append(table)
            self.rows += len(table)
            if self.rows >= min(WAITING, *(task.found.room for task in self.tasks)):
                self.empty()

    def empty(self) -> None:
        """Make whole what waits."""
        if self.tables:
            table = np.concatenate(self.tables)
            self.tables, self.rows = [], 0
            for task in self.tasks:
                if not task.found.is_enough:
                    task.take(table)


@dataclass
class Detection:
    """The joins of a family, planned: patterns, what they are joined from, and how."""

    ready: Prepared
    joins: Joins
    material: Material
    statistics: Statistics
    route: Route
    replans: int = 0
    """How often the plan was changed."""

    def by(self, planner: WorkloadPlanner) -> Detection:
        """The same joins by another plan."""
        workplan = planner(self.joins.patterns, self.statistics)
        return replace(self, route=lay_out(workplan, self.joins, self.material))

    def run(
        self, limits: Limits, counts: Counts | None = None, adapting: Adapting | None = None
    ) -> list[Found]:
        """All matches of the family's queries; with `adapting`, plans follow the stream."""
        family = self.ready.family
        found = [Found(plan, limits) for plan in family.plans]
        for q, split in enumerate(family.clauses):
            for clause in split:
                if not clause.fixed and not found[q].is_enough:
                    Task(self.ready, clause, found[q], limits).take(None)
        tasks = [Task(self.ready, family.clauses[q][k], found[q], limits) for q, k in self.joins.clauses]
        if tasks and len(self.ready.rows.row):
            _Run(self, tasks, limits, counts, adapting).follow()
        return found


@dataclass
class _Run:
    """One pass over the rows."""

    detection: Detection
    tasks: Sequence[Task]
    limits: Limits
    counts: Counts | None
    adapting: Adapting | None
    planning_s: float = field(init=False)
    """How long joins must take for planning anew to pay; twice that after each time that it did not."""
    pace: float = inf
    """Seconds per row before the plan was changed last."""

    def __post_init__(self) -> None:
        self.planning_s = PLANNING_S * len(self.tasks)

    def follow(self) -> None:
        """Follow plans through all rows."""
        at: int | None = 0
        route, statistics = self.detection.route, self.detection.statistics
        while at is not None:
            watch = self._watch(route, statistics)
            at = self._follow(route, at, watch)
            if at is not None and watch is not None:
                route, statistics = self._planned_anew(route, at, watch)

    def _follow(self, route: Route, start: int, watch: Watch | None) -> int | None:
        """Follow a plan from a row on; to the end, or to the row from which another may pay."""
        inboxes = route.inboxes(self.tasks)
        material, rows = self.detection.material, len(self.detection.ready.rows.row)
        most = max(1, self.limits.state // _PARTIAL_BYTES)
        largest = self.adapting.looks_after if self.adapting is not None else None
        stopped = None
        try:
            for batch in detect(material, route.program, route.roots, most, start, largest):
                if self.counts is not None:
                    self.counts.add(route.program, batch)
                for root, table in batch.tables.items():
                    inboxes[root].put(table)
                if all(task.found.is_enough for task in self.tasks):
                    break
                if watch is not None:
                    watch.add(batch, self._covered(batch.low, batch.high))
                    if batch.high < rows and watch.calls_for_plan(self.planning_s, rows - batch.high):
                        stopped = batch.high
                        break
        except PartialMatchError:
            names = ", ".join(dict.fromkeys(task.found.plan.query.name for task in self.tasks))
            self.limits.check_state(names, self.limits.state + 1, "partial matches of a single event")
        for inbox in inboxes.values():
            inbox.empty()
        return stopped

    def _watch(self, route: Route, statistics: Statistics) -> Watch | None:
        """Observe a plan that was made for some statistics."""
        if self.adapting is None:
            return None
        program, slots = route.program, len(route.program.nodes)
        expected = Stretch(np.zeros(slots), np.zeros(slots), span=statistics.span)
        rates = [statistics.rates[node.leaves[0]] for node in program.nodes[: program.leaves]]
        expected.made[: program.leaves] = np.array(rates) * statistics.span
        return Watch(self.adapting, program.leaves, slots, expected)

    def _covered(self, low: int, high: int) -> float:
        return covered(self.detection.material, self.detection.ready.rows.segment, low, high)[0]

    def _planned_anew(self, route: Route, at: int, watch: Watch) -> tuple[Route, Statistics]:
        """The plan from a row on, the old one if no other is cheaper; and what it is made for."""
        began = perf_counter()
        detection, adapting = self.detection, watch.adapting
        patterns, segment = detection.joins.patterns, detection.ready.rows.segment
        recent = max(0, at - adapting.looks_after), at
        statistics = measure(patterns, detection.material, segment, rows=recent, sample=QUICK_SAMPLE)
        mended = adapting.mend(patterns, statistics, route.workplan.trees)
        is_cheaper = mended.old_cost > adapting.worth * mended.new_cost
        has_helped = watch.first_pace <= self.pace  # the last time, if there was one
        if is_cheaper:
            workplan = Workplan(mended.trees, route.workplan.shares)
            route = lay_out(workplan, detection.joins, detection.material)
            detection.replans += 1
            self.pace = watch.pace
        took = perf_counter() - began
        self.planning_s = took if is_cheaper and has_helped else max(took, 2 * self.planning_s)
        return route, statistics


_PARTIAL_BYTES = 4 * 8 * 2
"""A partial match of six events, old and new."""
