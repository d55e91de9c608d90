"""RETURN MATCHES over a batch of events: read rows, measure statistics, plan joins, run them (spec 8)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.adapt import Adapting
from trendfold.detect.evaluate import JoinInput
from trendfold.detect.join import SPAN, PartialMatches
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.joint_queries import ClauseJoins, JointQueries, read_joins
from trendfold.detect.named_statistics import statistic_names
from trendfold.detect.pattern import JoinTree
from trendfold.detect.row_ranges import read_reaches, read_row_ranges
from trendfold.detect.running_plan import RunningPlan
from trendfold.detect.sample import SAMPLE, measure_joins
from trendfold.detect.workplan import JoinPlanner, Workplan
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel.rows import number_moments
from trendfold.plan import QueryPlan
from trendfold.plan.join_planning import JoinPlanning
from trendfold.plan.papers import join_plans
from trendfold.runtime.compared import latest_of, pairs_of
from trendfold.runtime.compared_rows import ComparedRows
from trendfold.runtime.detection import QUICK_SAMPLE, Detection, DetectionRun, Resumed, lay_out
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import read_rows
from trendfold.runtime.values import read_events
from trendfold.runtime.whole_matches import ALL_MATCHES, DetectionInput, MatchChoice
from trendfold.runtime.workspace import Workspace

SEARCH_S, SEARCH_S_PER_ROW = 5.0, 5e-8
"""The longest search for a plan, and its time per row and pattern: about what joining them takes."""


def read_detection_input(
    joint: JointQueries, workspace: Workspace, limits: Limits, chosen: MatchChoice = ALL_MATCHES
) -> DetectionInput:
    """Read the rows of joint queries and evaluate their conditions."""
    batch, machine = workspace.batch, joint.machine
    rows = read_rows(joint.merged, workspace, limits=limits)
    moment = empty(len(rows.row), np.int32)
    number_moments(rows.segment, rows.time, batch.order_of(rows.row), moment)
    events = read_events(joint.merged.operands[0], 0, rows, moment, batch)
    no_end = -1  # windows of joint queries differ
    pairs = pairs_of(ComparedRows(machine, rows, rows.alphabets[0], events.symbol, moment, batch, no_end))
    latest = latest_of(joint.merged, 0, rows, events, pairs, limits)
    ranges = read_row_ranges(rows.segment, rows.time if rows.number is None else rows.number, moment)

    windows = (plan.query.window for plan in joint.plans)
    lengths = (None if window is None else window.length for window in windows)
    reaches = read_reaches(ranges, rows.segment, lengths)
    return DetectionInput(
        joint, rows, events, ranges, pairs, latest, reaches, chosen, _numbers(batch, rows.row)
    )


def _numbers(batch: EventBatch, row: NDArray[np.integer]) -> NDArray[np.int64] | None:
    """The numbers of events, where a stream gave them any."""
    if NUMBER not in batch.table.column_names or batch.table.column(NUMBER).null_count:
        return None
    return np.asarray(batch.table.column(NUMBER).to_numpy()[row], np.int64)


NUMBER = "number of event"
"""The column in which a stream keeps them."""


def plan_joins(
    ready: DetectionInput,
    planner: JoinPlanner | None = None,
    running: RunningPlan | None = None,
    drift: float = Adapting().drift,
) -> Detection:
    """Measure statistics, and plan the joins of all clauses; by default with MCEP's search.

    running  a plan to go on with, unless a rate or a selectivity differs from its own by more than `drift`
    """
    joins = read_joins(ready.joint)
    patterns, plan = joins.patterns, ready.joint.plans[0]
    leaves = [ready.rows_of(frozenset({position})) for position in joins.leaves]
    joined = JoinInput(ready.ranges, leaves, ready.reaches, ready.pairs, ready.latest)
    names = statistic_names(ready.joint, joins)
    planning = plan.planning or JoinPlanning()
    known_pairs, segment = names.known_pairs(planning.known), ready.rows.segment

    def measured(sample: int) -> JoinStatistics:
        found = measure_joins(patterns, joined, segment, known=known_pairs, sample=sample)
        return names.with_rates(found, planning)

    if running is not None and not running.is_of(joins):
        running = None
    if running is not None and planner is None:
        statistics = measured(QUICK_SAMPLE)
        if running.drift(statistics, joins.pairs, QUICK_SAMPLE) <= drift:
            route = lay_out(Workplan(running.trees, tried="the running plan"), patterns, joined)
            made_for = running.made_for(statistics, joins)
            return Detection(ready, joins, joined, statistics, route, names, made_for)
    statistics = measured(SAMPLE)
    planner = planner or join_plans().STRATEGIES.get(plan.strategy)
    planner = planner or _search(plan, len(ready.rows.row), joins, None if running is None else running.trees)
    return Detection(
        ready, joins, joined, statistics, lay_out(planner(patterns, statistics), patterns, joined), names
    )


def _search(
    plan: QueryPlan, rows: int, joins: ClauseJoins, running: tuple[JoinTree, ...] | None
) -> JoinPlanner:
    """The search that a user asked for, or the usual one."""
    asked, usual = plan.planning or JoinPlanning(), _search_s(rows, joins)
    seconds = usual if asked.seconds is None else asked.seconds
    planner: JoinPlanner = join_plans().PlanSearch(seconds, asked.search, asked.together, running=running)
    return planner


def _search_s(rows: int, joins: ClauseJoins) -> float:
    """How long to search for a plan that joins so many rows."""
    return min(SEARCH_S, SEARCH_S_PER_ROW * rows * len(joins.patterns))


def find_matches(
    ready: DetectionInput,
    limits: Limits,
    planner: JoinPlanner | None = None,
    running: RunningPlan | None = None,
) -> DetectionRun:
    """All matches of joint queries; plans adapt to the stream, from the running one if there is one."""
    planning = join_plans()
    if ready.joint.plans[0].strategy in planning.STRATEGIES:
        return plan_joins(ready, planner).run(limits)
    adapting = ADAPTING if ADAPTING.improve is not None else replace(ADAPTING, improve=planning.improve)
    detection = plan_joins(ready, planner, running, adapting.drift)
    goes_on = detection.made_for is not None
    resumed = _resumed(ready, running if goes_on else None)
    run = detection.run(limits, adapting=adapting, resumed=resumed)
    if run.running is None or resumed is None:
        return run
    return replace(run, running=replace(run.running, open=_open(ready, run), until=resumed.until))


MOST_OPEN = 16
"""A stream keeps at most so many numbers of partial matches per row; where there are more, it joins again."""


def _resumed(ready: DetectionInput, running: RunningPlan | None) -> Resumed | None:
    """Where a stream goes on: in one segment, rows that were there before come before all others.

    Not where a match may become complete without a new event that is joined.
    """
    asked, time = ready.chosen.asked, ready.rows.time
    joined = (clause for split in ready.joint.clauses for clause in split if clause.fixed)
    is_one = len(ready.rows.segment) == 2 and ready.number is not None
    if asked is None or not is_one or not all(clause.ends_joined for clause in joined):
        return None
    start = int(np.searchsorted(time, asked.after, "right"))
    if running is None or running.open is None or np.searchsorted(time, running.until, "right") != start:
        return Resumed(start, asked.until)
    return Resumed(start, asked.until, _as_rows(ready, running.open))


def _as_rows(
    ready: DetectionInput, known: tuple[NDArray[np.int64], ...]
) -> tuple[PartialMatches, ...] | None:
    """Partial matches as rows instead of numbers of events; None if one of these is not there."""
    assert ready.number is not None
    order, found = np.argsort(ready.number), []
    for table in known:
        at = order[np.searchsorted(ready.number, table, sorter=order).clip(max=len(order) - 1)]
        if not np.array_equal(ready.number[at], table):
            return None
        ends = at.min(axis=1, keepdims=True), at.max(axis=1, keepdims=True)
        found.append(np.concatenate([*ends, at], axis=1).astype(np.int32))
    return tuple(found)


def _open(ready: DetectionInput, run: DetectionRun) -> tuple[NDArray[np.int64], ...] | None:
    """What later events can join, as numbers of events; None if it is unknown, or too much to keep."""
    size = 0 if run.open is None else sum(table[:, SPAN:].size for table in run.open)
    if run.open is None or ready.number is None or size > MOST_OPEN * len(ready.rows.row):
        return None
    return tuple(ready.number[table[:, SPAN:]] for table in run.open)


ADAPTING = Adapting()
"""When plans change; with the search of the table of papers, unless it names another."""
