"""A plan followed over rows: batch by batch, from its joins to whole matches; another one where that pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter

import numpy as np

from trendfold.detect.adapt import Adapting, Stretch, Watch
from trendfold.detect.cost import Priced
from trendfold.detect.evaluate import (
    PARTIAL_BYTES,
    TOO_MANY,
    Counts,
    Material,
    PartialMatchError,
    detect,
    detect_in_blocks,
)
from trendfold.detect.family import Joins
from trendfold.detect.join import Table
from trendfold.detect.local import best_order
from trendfold.detect.lower import JoinProgram, lower
from trendfold.detect.multitree import Planned
from trendfold.detect.pattern import JoinPattern
from trendfold.detect.plans import WorkloadPlanner, Workplan
from trendfold.detect.sample import covered, measure
from trendfold.detect.statistics import Statistics
from trendfold.errors import LimitError
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


def lay_out(workplan: Workplan, patterns: Sequence[JoinPattern], material: Material) -> Route:
    """A plan as it is followed."""
    tree, planned = workplan.lay_out(patterns)
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
                for some in range(0, len(table), WAITING):
                    if not task.found.is_enough:
                        task.take(table[some : some + WAITING])


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
        return replace(self, route=lay_out(workplan, self.joins.patterns, self.material))

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
            _Run(self, tasks, self.joins.patterns, limits, counts, adapting).follow()
        return found


@dataclass
class _Run:
    """One pass over the rows: clauses that are not answered yet, and the pattern of each."""

    detection: Detection
    tasks: Sequence[Task]
    patterns: Sequence[JoinPattern]
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
            if at is not None and self._is_any_answered:
                route = self._without_answered(route)
            elif at is not None and watch is not None:
                route, statistics = self._planned_anew(route, at, watch)

    def _follow(self, route: Route, start: int, watch: Watch | None) -> int | None:
        """Follow a plan from a row on; to the end, or to the row from which another may pay.

        Where partial matches become many, queries with LIMIT are answered in blocks; the others go on.
        """
        inboxes = route.inboxes(self.tasks)
        try:
            stopped = self._follow_batches(route, inboxes, start, watch)
            self._empty(inboxes)
        except PartialMatchError as error:
            self._empty(inboxes)
            if not self._limited:
                raise self._too_many_partial_matches(self.tasks) from None
            self._find_in_blocks(error.row)
            stopped = error.row
        return None if self._is_enough else stopped

    def _follow_batches(
        self, route: Route, inboxes: Mapping[int, _Inbox], start: int, watch: Watch | None
    ) -> int | None:
        rows = len(self.detection.ready.rows.row)
        most = min(self._most, TOO_MANY) if self._limited else self._most
        largest = self.adapting.looks_after if self.adapting is not None else None
        for batch in detect(self.detection.material, route.program, route.roots, most, start, largest):
            if self.counts is not None:
                self.counts.add(route.program, batch)
            for root, table in batch.tables.items():
                inboxes[root].put(table)
            if self._is_enough or self._is_any_answered:
                return batch.high
            if watch is not None:
                watch.add(batch, self._covered(batch.low, batch.high))
                if batch.high < rows and watch.calls_for_plan(self.planning_s, rows - batch.high):
                    return batch.high
        return None

    def _empty(self, inboxes: Mapping[int, _Inbox]) -> None:
        for inbox in inboxes.values():
            inbox.empty()

    @property
    def _is_any_answered(self) -> bool:
        """Whether there are joins that nobody waits for; where they are counted, they go on."""
        return self.counts is None and any(task.found.is_enough for task in self.tasks)

    def _without_answered(self, route: Route) -> Route:
        """The same plans without those of queries whose LIMIT is reached."""
        left = [k for k, task in enumerate(self.tasks) if not task.found.is_enough]
        trees = tuple(route.workplan.trees[k] for k in left)
        self.tasks, self.patterns = [self.tasks[k] for k in left], [self.patterns[k] for k in left]
        workplan = Workplan(trees, route.workplan.shares)
        return lay_out(workplan, self.patterns, self.detection.material)

    @property
    def _most(self) -> int:
        """How many partial matches may be held."""
        return max(1, self.limits.state // PARTIAL_BYTES)

    @property
    def _is_enough(self) -> bool:
        return all(task.found.is_enough for task in self.tasks)

    @property
    def _limited(self) -> list[tuple[Task, JoinPattern]]:
        """The clauses of queries whose LIMIT is not reached."""
        return [
            (task, pattern)
            for task, pattern in zip(self.tasks, self.patterns, strict=True)
            if task.found.plan.query.limit is not None and not task.found.is_enough
        ]

    def _find_in_blocks(self, row: int) -> None:
        """The matches of queries with LIMIT that end in a row or later, as many as are wanted."""
        limited, material = self._limited, self.detection.material
        for task, pattern in limited:
            order = best_order(Priced(pattern, self.detection.statistics))
            route = lay_out(Workplan((order,)), [pattern], material)
            (task.planned,) = route.planned
            try:
                for table in detect_in_blocks(material, route.program, self._most):
                    if task.found.is_enough:
                        break
                    task.take(table[table[:, 1] >= row])
            except PartialMatchError:
                raise self._too_many_partial_matches([task]) from None
        for task, _ in limited:
            task.found.is_complete = True

    def _too_many_partial_matches(self, tasks: Sequence[Task]) -> LimitError:
        names = ", ".join(dict.fromkeys(task.found.plan.query.name for task in tasks))
        return self.limits.too_much_state(names, self.limits.state + 1, "partial matches")

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
        patterns, segment = self.patterns, detection.ready.rows.segment
        recent = max(0, at - adapting.looks_after), at
        statistics = measure(patterns, detection.material, segment, rows=recent, sample=QUICK_SAMPLE)
        mended = adapting.mend(patterns, statistics, route.workplan.trees)
        is_cheaper = mended.old_cost > adapting.worth * mended.new_cost
        has_helped = watch.first_pace <= self.pace  # the last time, if there was one
        if is_cheaper:
            workplan = Workplan(mended.trees, route.workplan.shares)
            route = lay_out(workplan, patterns, detection.material)
            detection.replans += 1
            self.pace = watch.pace
        took = perf_counter() - began
        self.planning_s = took if is_cheaper and has_helped else max(took, 2 * self.planning_s)
        return route, statistics
