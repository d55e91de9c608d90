"""RETURN MATCHES over a batch of events: rows, statistics, a plan, and joins that follow it (spec 8)."""

from __future__ import annotations

import numpy as np

from trendfold.detect.adapt import Adapting
from trendfold.detect.evaluate import Counts, Material
from trendfold.detect.family import Family, Joins, read_joins
from trendfold.detect.plans import Search, WorkloadPlanner
from trendfold.detect.sample import measure
from trendfold.detect.space import read_reaches, read_space
from trendfold.events.buffers import empty
from trendfold.kernel.rows import number_moments
from trendfold.runtime.compared import latest_of, pairs_of
from trendfold.runtime.detection import Detection, lay_out
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import read_rows
from trendfold.runtime.values import read_events
from trendfold.runtime.whole import Found, Prepared
from trendfold.runtime.workspace import Workspace

SEARCH_S, SEARCH_S_PER_ROW = 5.0, 5e-8
"""The longest a plan is searched for, and how long per row and pattern: about what it takes to join them."""


def prepare(
    family: Family, workspace: Workspace, limits: Limits, ends: tuple[int, int] | None = None
) -> Prepared:
    """Read a family's rows, and all that is asked about them; `ends` as in `run_matches`."""
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
    return Prepared(family, rows, events, space, pairs, latest, reaches, ends)


def plan_joins(ready: Prepared, planner: WorkloadPlanner | None = None) -> Detection:
    """Measure, and plan the joins of a family's clauses."""
    joins = read_joins(ready.family)
    patterns, rows = joins.patterns, len(ready.rows.row)
    leaves = [ready.leaf(position) for position in joins.leaves]
    material = Material(ready.space, leaves, ready.reaches, ready.pairs, ready.latest)
    statistics = measure(patterns, material, ready.rows.segment)
    workplan = (planner or Search(_search_s(rows, joins)))(patterns, statistics)
    return Detection(ready, joins, material, statistics, lay_out(workplan, patterns, material))


def _search_s(rows: int, joins: Joins) -> float:
    """How long a plan may be searched for, if some rows are joined by it."""
    return min(SEARCH_S, SEARCH_S_PER_ROW * rows * len(joins.patterns))


def find(
    ready: Prepared, limits: Limits, planner: WorkloadPlanner | None = None, counts: Counts | None = None
) -> list[Found]:
    """All matches of a family's queries."""
    return plan_joins(ready, planner).run(limits, counts, Adapting())
