"""RETURN MATCHES over a batch of events: rows, statistics, a plan, and joins that follow it (spec 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trendfold.detect.cost import Priced
from trendfold.detect.evaluate import Counts, Material, PartialMatchError, detect
from trendfold.detect.family import Family, Joins, read_joins
from trendfold.detect.join import Table
from trendfold.detect.lower import JoinProgram, lower
from trendfold.detect.multitree import Planned
from trendfold.detect.plans import Search, WorkloadPlanner, Workplan
from trendfold.detect.sample import measure, rate_drift, recount
from trendfold.detect.search import PlanState
from trendfold.detect.space import read_reaches, read_space
from trendfold.detect.statistics import Statistics
from trendfold.events.buffers import empty
from trendfold.kernel.rows import number_moments
from trendfold.runtime.bindings import pairs_of
from trendfold.runtime.fold import latest_of, read_events
from trendfold.runtime.limits import Limits
from trendfold.runtime.rows import Workspace, read_rows
from trendfold.runtime.whole import Found, Prepared, Task

SEARCH_S, SEARCH_S_PER_ROW = 5.0, 5e-8
"""The longest a plan is searched for, and how long per row and pattern: about what it takes to join them."""
DRIFT, WORTH = 2.0, 1.3
"""Plans are made anew when a rate has changed by this factor, and followed if they are that much cheaper."""
ADAPTS_FROM, LOOKS_AFTER = 500_000, 1 << 17
"""Rows from which on plans may change, and rows after which rates are looked at."""


def prepare(family: Family, workspace: Workspace, limits: Limits) -> Prepared:
    """Read a family's rows, and all that is asked about them."""
    batch, machine = workspace.batch, family.machine
    rows = read_rows(family.joint, workspace, limits=limits)
    moment = empty(len(rows.row), np.int32)
    number_moments(rows.segment, rows.time, batch.order_of(rows.row), moment)
    events = read_events(family.joint.operands[0], 0, rows, moment, batch)
    pairs = pairs_of(machine, rows, batch)
    latest = latest_of(family.joint, 0, rows, events, pairs, limits)
    space = read_space(rows.segment, rows.time if rows.number is None else rows.number, moment)

    windows = (plan.query.window for plan in family.plans)
    lengths = (None if window is None else window.length for window in windows)
    reaches = read_reaches(space, rows.segment, lengths)
    return Prepared(family, rows, events, space, pairs, latest, reaches)


WAITING = 1 << 16
"""Matches of a node that wait at most: making many whole at a time takes little longer than a few."""


@dataclass
class _Inbox:
    """Matches of one node on their way to the clauses that it is the root of."""

    tasks: list[Task]
    tables: list[Table] = field(default_factory=list)
    rows: int = 0

    def put(self, table: Table) -> None:
        """Let matches wait until they are many, or as many as somebody may have."""
        if not len(table):
            return
        self.tables.append(table)
        self.rows += len(table)
        if self.rows > min(WAITING, *(task.found.room for task in self.tasks)):
            self.empty()

    def empty(self) -> None:
        """Make whole what waits."""
        if self.tables:
            table = np.concatenate(self.tables)
            self.tables, self.rows = [], 0
            for task in self.tasks:
                if not task.found.is_enough:
                    task.take(table)


@dataclass(frozen=True)
class Route:
    """A plan laid out: one multitree, where every pattern is in it, and the program of its joins."""

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
            found.setdefault(plan.root, _Inbox([])).tasks.append(task)
        return found


def lay_out(workplan: Workplan, joins: Joins, material: Material) -> Route:
    """A plan as it is followed."""
    tree, planned = workplan.lay_out(joins.patterns)
    return Route(workplan, tuple(planned), lower(tree, material.leaves, material.reaches.lengths))


@dataclass
class Detection:
    """The joins of a family, planned: patterns, what they are joined from, and how."""

    ready: Prepared
    joins: Joins
    material: Material
    statistics: Statistics
    route: Route
    planner: WorkloadPlanner
    replans: int = 0
    """How often the plan was changed."""
    looks_after: int | None = None
    """Rows after which rates are looked at, if plans may change; LOOKS_AFTER where nothing is said."""

    @property
    def _stretch(self) -> int:
        return self.looks_after or LOOKS_AFTER

    def by(self, planner: WorkloadPlanner) -> Detection:
        """The same joins by another plan."""
        workplan = planner(self.joins.patterns, self.statistics)
        return replace(self, route=lay_out(workplan, self.joins, self.material), planner=planner)

    def run(self, limits: Limits, counts: Counts | None = None, *, adapts: bool = False) -> list[Found]:
        """All matches of the family's queries; with `adapts`, plans follow the rates."""
        family = self.ready.family
        found = [Found(plan, limits) for plan in family.plans]
        for q, split in enumerate(family.clauses):
            for clause in split:
                if not clause.fixed and not found[q].is_enough:
                    Task(self.ready, clause, found[q], limits).take(None)
        tasks = [Task(self.ready, family.clauses[q][k], found[q], limits) for q, k in self.joins.clauses]
        at: int | None = 0 if tasks and len(self.ready.rows.row) else None
        route, statistics = self.route, self.statistics
        while at is not None:
            at = self._follow(route, statistics, tasks, at, limits, counts, adapts)
            if at is not None:
                recent = max(0, at - self._stretch), at
                statistics = recount(statistics, self.material, self.ready.rows.segment, recent)
                route = self._cheaper(route, statistics)
        return found

    def _follow(
        self,
        route: Route,
        statistics: Statistics,
        tasks: Sequence[Task],
        start: int,
        limits: Limits,
        counts: Counts | None,
        adapts: bool,
    ) -> int | None:
        """Follow a plan from a row on; to the end, or to the row from which rates call for another."""
        inboxes = route.inboxes(tasks)
        most = max(1, limits.state // _PARTIAL_BYTES)
        rows = len(self.ready.rows.row)
        largest = self._stretch if adapts else rows
        try:
            for batch in detect(self.material, route.program, route.roots, most, start, largest):
                if counts is not None:
                    counts.add(route.program, batch)
                for root, table in batch.tables.items():
                    inboxes[root].put(table)
                if all(task.found.is_enough for task in tasks):
                    return None
                if adapts and start < batch.high < rows and self._has_drifted(statistics, start, batch.high):
                    return batch.high
        except PartialMatchError:
            names = ", ".join(dict.fromkeys(task.found.plan.query.name for task in tasks))
            limits.check_state(names, limits.state + 1, "partial matches of a single event")
        finally:
            for inbox in inboxes.values():
                inbox.empty()
        return None

    def _has_drifted(self, statistics: Statistics, start: int, high: int) -> bool:
        low = max(start, high - self._stretch)
        return rate_drift(statistics, self.material, self.ready.rows.segment, (low, high)) > DRIFT

    def _cheaper(self, route: Route, statistics: Statistics) -> Route:
        """A new plan if it pays under new statistics, or the one there is."""
        planner = self.planner
        if isinstance(planner, Search):  # only a stretch is left to be gained from
            planner = replace(planner, seconds=min(planner.seconds, _search_s(self._stretch, self.joins)))
        found = planner(self.joins.patterns, statistics)
        priced = [Priced(pattern, statistics) for pattern in self.joins.patterns]
        old, new = (PlanState(priced, list(plan.trees)).cost for plan in (route.workplan, found))
        if old <= WORTH * new:
            return route
        self.replans += 1
        return lay_out(found, self.joins, self.material)


_PARTIAL_BYTES = 4 * 8 * 2
"""A partial match of six events, old and new."""


def plan_joins(ready: Prepared, planner: WorkloadPlanner | None = None) -> Detection:
    """Measure, and plan the joins of a family's clauses."""
    joins = read_joins(ready.family)
    patterns, rows = joins.patterns, len(ready.rows.row)
    leaves = [ready.leaf(position) for position in joins.leaves]
    material = Material(ready.space, leaves, ready.reaches, ready.pairs, ready.latest)
    planner = planner or Search(_search_s(rows, joins))
    statistics = measure(patterns, material, ready.rows.segment)
    route = lay_out(planner(patterns, statistics), joins, material)
    return Detection(ready, joins, material, statistics, route, planner)


def _search_s(rows: int, joins: Joins) -> float:
    """How long a plan may be searched for, if some rows are joined by it."""
    return min(SEARCH_S, SEARCH_S_PER_ROW * rows * len(joins.patterns))


def find(
    ready: Prepared, limits: Limits, planner: WorkloadPlanner | None = None, counts: Counts | None = None
) -> list[Found]:
    """All matches of a family's queries."""
    adapts = len(ready.rows.row) >= ADAPTS_FROM and len(ready.family.plans) > 1
    return plan_joins(ready, planner).run(limits, counts, adapts=adapts)
