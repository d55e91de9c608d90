"""RETURN MATCHES over a batch of events: read rows, measure statistics, plan joins, run them (spec 8)."""

from __future__ import annotations

import numpy as np

from trendfold.detect.adapt import Adapting
from trendfold.detect.evaluate import JoinInput
from trendfold.detect.joint_queries import ClauseJoins, JointQueries, read_joins
from trendfold.detect.row_ranges import read_reaches, read_row_ranges
from trendfold.detect.sample import measure_joins
from trendfold.detect.workplan import JoinPlanner
from trendfold.events.buffers import empty
from trendfold.kernel.rows import number_moments
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
    statistics = measure_joins(patterns, joined, ready.rows.segment)
    planner = planner or join_plans().PlanSearch(_search_s(rows, joins))
    workplan = planner(patterns, statistics)
    return Detection(ready, joins, joined, statistics, lay_out(workplan, patterns, joined))


def _search_s(rows: int, joins: ClauseJoins) -> float:
    """How long to search for a plan that joins so many rows."""
    return min(SEARCH_S, SEARCH_S_PER_ROW * rows * len(joins.patterns))


def find_matches(ready: DetectionInput, limits: Limits, planner: JoinPlanner | None = None) -> DetectionRun:
    """All matches of joint queries; plans adapt to the stream."""
    return plan_joins(ready, planner).run(limits, adapting=Adapting())
