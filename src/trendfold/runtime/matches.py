"""RETURN MATCHES over a batch of events: rows, statistics, a plan, and joins that follow it (spec 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from trendfold.detect.cost import Priced
from trendfold.detect.evaluate import Counts, Material, PartialMatchError, detect
from trendfold.detect.family import Family, Joins, read_joins
from trendfold.detect.plans import Search, WorkloadPlanner, Workplan
from trendfold.detect.sample import measure, rate_drift, recount
from trendfold.detect.search import PlanState
from trendfold.detect.space import Reach, read_reach, read_space
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

    @cache
    def reach(length: int | None) -> Reach:
        return read_reach(space, rows.segment, length)

    return Prepared(family, rows, events, space, pairs, latest, reach)


@dataclass
class Detection:
    """The joins of a family, planned: patterns, what they are joined from, and how."""

    ready: Prepared
    joins: Joins
    material: Material
    statistics: Statistics
    workplan: Workplan
    planner: WorkloadPlanner
    replans: int = 0
    """How often the plan was changed."""
    looks_after: int | None = None
    """Rows after which rates are looked at, if plans may change; LOOKS_AFTER where nothing is said."""

    @property
    def _stretch(self) -> int:
        return self.looks_after or LOOKS_AFTER

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
        workplan, statistics = self.workplan, self.statistics
        while at is not None:
            at = self._follow(workplan, statistics, tasks, at, limits, counts, adapts)
            if at is not None:
                recent = max(0, at - self._stretch), at
                statistics = recount(statistics, self.material, self.ready.rows.segment, recent)
                workplan = self._cheaper(workplan, statistics)
        return found

    def _follow(
        self,
        workplan: Workplan,
        statistics: Statistics,
        tasks: Sequence[Task],
        start: int,
        limits: Limits,
        counts: Counts | None,
        adapts: bool,
    ) -> int | None:
        """Follow a plan from a row on; to the end, or to the row from which rates call for another."""
        tree, planned = workplan.lay_out(self.joins.patterns)
        for task, plan in zip(tasks, planned, strict=True):
            task.planned = plan
        wanted = sorted({plan.root for plan in planned})
        most = max(1, limits.state // _PARTIAL_BYTES)
        rows = len(self.ready.rows.row)
        largest = self._stretch if adapts else rows
        try:
            for high, tables in detect(self.material, tree, wanted, most, counts, start, largest):
                for task, plan in zip(tasks, planned, strict=True):
                    if not task.found.is_enough and len(tables[plan.root]):
                        task.take(tables[plan.root])
                if all(task.found.is_enough for task in tasks):
                    return None
                if adapts and start < high < rows and self._has_drifted(statistics, start, high):
                    return high
        except PartialMatchError:
            names = ", ".join(dict.fromkeys(task.found.plan.query.name for task in tasks))
            limits.check_state(names, limits.state + 1, "partial matches of a single event")
        return None

    def _has_drifted(self, statistics: Statistics, start: int, high: int) -> bool:
        low = max(start, high - self._stretch)
        return rate_drift(statistics, self.material, self.ready.rows.segment, (low, high)) > DRIFT

    def _cheaper(self, workplan: Workplan, statistics: Statistics) -> Workplan:
        """A new plan if it pays under new statistics, or the one there is."""
        planner = self.planner
        if isinstance(planner, Search):  # only a stretch is left to be gained from
            planner = replace(planner, seconds=min(planner.seconds, _search_s(self._stretch, self.joins)))
        found = planner(self.joins.patterns, statistics)
        priced = [Priced(pattern, statistics) for pattern in self.joins.patterns]
        old, new = (PlanState(priced, list(plan.trees)).cost for plan in (workplan, found))
        if old <= WORTH * new:
            return workplan
        self.replans += 1
        return found


_PARTIAL_BYTES = 4 * 8 * 2
"""A partial match of six events, old and new."""


def plan_joins(ready: Prepared, planner: WorkloadPlanner | None = None) -> Detection:
    """Measure, and plan the joins of a family's clauses."""
    joins = read_joins(ready.family)
    patterns, rows = joins.patterns, len(ready.rows.row)
    leaves = [ready.leaf(position) for position in joins.leaves]
    material = Material(ready.space, leaves, ready.reach, ready.pairs, ready.latest)
    planner = planner or Search(_search_s(rows, joins))
    statistics = measure(patterns, material, ready.rows.segment)
    return Detection(ready, joins, material, statistics, planner(patterns, statistics), planner)


def _search_s(rows: int, joins: Joins) -> float:
    """How long a plan may be searched for, if some rows are joined by it."""
    return min(SEARCH_S, SEARCH_S_PER_ROW * rows * len(joins.patterns))


def find(
    ready: Prepared, limits: Limits, planner: WorkloadPlanner | None = None, counts: Counts | None = None
) -> list[Found]:
    """All matches of a family's queries."""
    adapts = len(ready.rows.row) >= ADAPTS_FROM and len(ready.family.plans) > 1
    return plan_joins(ready, planner).run(limits, counts, adapts=adapts)
