"""RETURN MATCHES over a batch of events: read rows, measure statistics, plan joins, run them (spec 8)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trendfold.detect.adapt import Adapting
from trendfold.detect.evaluate import JoinInput
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.joint_queries import ClauseJoins, JointQueries, read_joins
from trendfold.detect.row_ranges import read_reaches, read_row_ranges
from trendfold.detect.sample import measure_joins
from trendfold.detect.workplan import JoinPlanner
from trendfold.events.buffers import empty
from trendfold.kernel.rows import number_moments
from trendfold.plan import QueryPlan
from trendfold.plan.join_planning import JoinPlanning
from trendfold.plan.papers import join_plans
from trendfold.runtime.compared import latest_of, pairs_of
from trendfold.runtime.compared_rows import ComparedRows
from trendfold.runtime.detection import Detection, DetectionRun, lay_out
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
    return DetectionInput(joint, rows, events, ranges, pairs, latest, reaches, chosen)


def plan_joins(ready: DetectionInput, planner: JoinPlanner | None = None) -> Detection:
    """Measure statistics, and plan the joins of all clauses; by default with MCEP's search."""
    joins = read_joins(ready.joint)
    patterns, rows = joins.patterns, len(ready.rows.row)
    leaves = [ready.rows_of(frozenset({position})) for position in joins.leaves]
    joined = JoinInput(ready.ranges, leaves, ready.reaches, ready.pairs, ready.latest)
    plan = ready.joint.plans[0]
    statistics = _with_known_rates(measure_joins(patterns, joined, ready.rows.segment), ready, joins)
    planner = planner or join_plans().STRATEGIES.get(plan.strategy) or _search(plan, rows, joins)
    workplan = planner(patterns, statistics)
    return Detection(ready, joins, joined, statistics, lay_out(workplan, patterns, joined))


def _search(plan: QueryPlan, rows: int, joins: ClauseJoins) -> JoinPlanner:
    """The search that a user asked for, or the usual one."""
    asked, usual = plan.planning or JoinPlanning(), _search_s(rows, joins)
    seconds = usual if asked.seconds is None else asked.seconds
    planner: JoinPlanner = join_plans().PlanSearch(seconds, asked.search, asked.together)
    return planner


def _with_known_rates(measured: JoinStatistics, ready: DetectionInput, joins: ClauseJoins) -> JoinStatistics:
    """The statistics, with the rates of types that the user knows instead of those measured."""
    plan = ready.joint.plans[0]
    known = {} if plan.planning is None else dict(plan.planning.rates)
    labels = (ready.joint.machine.automaton.positions[p].label for p in joins.leaves)
    unit = 1.0 if ready.rows.number is not None else 1e-6  # times are microseconds
    rates = [
        known[name] * unit if name in known else rate
        for name, rate in zip(labels, measured.rates, strict=True)
    ]
    return replace(measured, rates=tuple(rates))


def _search_s(rows: int, joins: ClauseJoins) -> float:
    """How long to search for a plan that joins so many rows."""
    return min(SEARCH_S, SEARCH_S_PER_ROW * rows * len(joins.patterns))


def find_matches(ready: DetectionInput, limits: Limits, planner: JoinPlanner | None = None) -> DetectionRun:
    """All matches of joint queries; plans adapt to the stream."""
    is_fixed = ready.joint.plans[0].strategy in join_plans().STRATEGIES
    return plan_joins(ready, planner).run(limits, adapting=None if is_fixed else Adapting())
