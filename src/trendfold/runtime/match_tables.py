"""Matches as tables: one row per match, one list of events per alias (spec 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.detect.clauses import MOST_CLAUSES
from trendfold.detect.evaluate import PARTIAL_BYTES, JoinCounts
from trendfold.detect.joint_queries import JointQueries, joint_queries
from trendfold.detect.row_ranges import RowNumbers
from trendfold.detect.running_plan import RunningPlan
from trendfold.detect.workplan import JoinPlanner
from trendfold.errors import plural
from trendfold.events.batch import EventBatch
from trendfold.events.options import Options
from trendfold.events.sources import untaken
from trendfold.plan import QueryPlan
from trendfold.plan.fold_steps import FoldStep
from trendfold.plan.physical import Joins, Walks
from trendfold.query.names import key_column, list_names
from trendfold.query.nodes import Matches, Semantics
from trendfold.runtime.detection import Detection, DetectionRun
from trendfold.runtime.find_matches import find_matches, plan_joins, read_detection_input
from trendfold.runtime.limits import Limits
from trendfold.runtime.tables import times_column, values_at
from trendfold.runtime.whole_matches import (
    ALL_MATCHES,
    DetectionInput,
    MatchBindings,
    MatchChoice,
    QueryMatches,
    concatenated,
)
from trendfold.runtime.workspace import Workspace


def run_matches(
    plans: Sequence[QueryPlan],
    workspace: Workspace,
    options: Options,
    limits: Limits,
    planner: JoinPlanner | None = None,
    *,
    has_positions: bool = True,
    chosen: MatchChoice = ALL_MATCHES,
    running: dict[str, RunningPlan] | None = None,
) -> tuple[dict[str, pa.Table], tuple[FoldStep, ...]]:
    """The table of every query that returns matches, and how they were found.

    has_positions  whether a row's position is meaningful, so that it is the id of an event without id column
    chosen         which matches are wanted
    running        the join plans to go on with, by the first query of each; afterwards, the last ones
    """
    running = {} if running is None else running
    shown = Shown(workspace.batch, options, has_positions)
    tables: dict[str, pa.Table] = {}
    steps = []
    for joint in joint_queries(plan for plan in plans if plan.finds_matches):
        started = perf_counter()
        ready = read_detection_input(joint, workspace, limits, chosen)
        first = joint.plans[0].query.name
        run = find_matches(ready, limits, planner, running.get(first))
        if run.running is not None:
            running[first] = run.running
        tables |= match_tables(run, ready, shown)
        steps.append(_step(run, ready, perf_counter() - started))
    return tables, tuple(steps)


def _step(run: DetectionRun, ready: DetectionInput, seconds: float) -> FoldStep:
    """How matches were found, from which rows, and how many partial matches joins made on the way."""
    joint = ready.joint
    joined = sum(bool(clause.fixed) for split in joint.clauses for clause in split)
    return FoldStep(
        tuple(plan.query.name for plan in joint.plans),
        Joins(_why_joins(joint, joined, run.tried)) if joined else Walks(_why_walks(joint.plans[0])),
        len(ready.rows.row),
        seconds,
        run.partial_matches * PARTIAL_BYTES,
        counts={"partial matches": run.partial_matches, "plans": run.plans, "replans": run.replans},
        statistics=run.statistics,
    )


def _why_joins(joint: JointQueries, joined: int, tried: str) -> str:
    has_walks = any(clause.walked for split in joint.clauses for clause in split)
    reason = f"one plan for measured rates and selectivities joins {plural(joined, 'pattern')}"
    reason += f" ({tried})" if tried else ""
    return f"{reason}; repeated events are added one by one" if has_walks else reason


def _why_walks(plan: QueryPlan) -> str:
    if plan.query.semantics is not Semantics.ANY:
        return (
            f"under {plan.query.semantics} the next event depends on the one before, so nothing can be joined"
        )
    if plan.strategy == "construct":
        return "strategy 'construct' builds matches event by event"
    return f"all of the pattern is repeated, or it has more than {MOST_CLAUSES} clauses"


def trace_joins(
    plans: Sequence[QueryPlan], batch: EventBatch, limits: Limits
) -> list[tuple[Detection, JoinCounts]]:
    """The join plans of queries that return matches, and the partial matches that each node makes."""
    workspace, runs = Workspace(batch), []
    for joint in joint_queries(plans):
        detection, counts = plan_joins(read_detection_input(joint, workspace, limits)), JoinCounts()
        detection.run(limits, counts)
        runs.append((detection, counts))
    return runs


@dataclass(frozen=True)
class Shown:
    """What tables show of the events of matches; see `run_matches`."""

    batch: EventBatch
    options: Options
    has_positions: bool


def match_tables(run: DetectionRun, ready: DetectionInput, shown: Shown) -> dict[str, pa.Table]:
    """The tables of joint queries."""
    tables, first = {}, 0
    for found in run.matches:
        tables[found.plan.query.name] = _match_table(found, ready, first, shown)
        first += len(found.plan.operands[0].machine.automaton.positions)
    return tables


def _match_table(found: QueryMatches, ready: DetectionInput, first: int, shown: Shown) -> pa.Table:
    """The matches of one query, whose positions begin at `first`; ordered by start, end and group."""
    query, batch = found.plan.query, shown.batch
    bindings = concatenated(found.parts)
    columns = _span_columns(found.plan, bindings, ready, batch)
    # Sorted before there are lists, which Arrow is slow to reorder.
    keys = [(name, "ascending", "at_start") for name in columns]
    order = pc.sort_indices(pa.table(columns), sort_keys=keys)
    columns = {name: column.take(order) for name, column in columns.items()}
    listed = _listed(bindings.take(order.to_numpy()), found.plan, first)
    assert isinstance(query.returns, Matches)
    for name in list_names(query.pattern):
        start, row = listed.of(name)
        events = _event_values(ready.rows.row[row], query.returns.attributes, shown)
        columns[name] = pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), events)
    return pa.table(columns)


def _span_columns(
    plan: QueryPlan, bindings: MatchBindings, ready: DetectionInput, batch: EventBatch
) -> dict[str, pa.Array]:
    """The times at which matches start and end, their groups, and their equivalence attributes."""
    rows, least = ready.rows, bindings.least()
    columns = {
        "start": times_column(rows.time[least], batch),
        "end": times_column(rows.time[bindings.most()], batch),
    }
    segment = np.searchsorted(rows.segment, least, side="right") - 1
    for key in plan.query.group_by:
        at = rows.group_rows[key][rows.group[segment]]
        columns[key_column(plan.query, key)] = values_at(batch, key.attribute, at)
    for attribute in plan.partition:
        if attribute not in columns:
            name = untaken(attribute, list_names(plan.query.pattern))
            columns[name] = values_at(batch, attribute, rows.row[least])
    return columns


@dataclass(frozen=True)
class _Listed:
    """The bindings of matches by the name of the list that each is in.

    match  int64[]  per binding its match
    label  int64[]  ... and which of the names
    row    int32[]  ... and its row
    """

    names: Sequence[str]
    matches: int
    match: NDArray[np.int64]
    label: NDArray[np.int64]
    row: RowNumbers

    def of(self, name: str) -> tuple[NDArray[np.int64], RowNumbers]:
        """Where the list of each match begins, and the rows of all lists, each in order of time."""
        mine = np.flatnonzero(self.label == self.names.index(name))
        match, row = self.match[mine], self.row[mine]
        start = np.concatenate([[0], np.cumsum(np.bincount(match, minlength=self.matches))])
        if np.diff(start).max(initial=0) > 1:
            row = row[np.lexsort((row, match))]
        return start, row


def _listed(bindings: MatchBindings, plan: QueryPlan, first: int) -> _Listed:
    positions = plan.operands[0].machine.automaton.positions
    names = list(dict.fromkeys(p.alias or p.label for p in positions))
    label = np.array([names.index(p.alias or p.label) for p in positions], np.int64)
    match = np.repeat(np.arange(len(bindings)), np.diff(bindings.start))
    return _Listed(names, len(bindings), match, label[bindings.position - first], bindings.row)


def _event_values(row: NDArray[np.int64], attributes: Sequence[str], shown: Shown) -> pa.StructArray:
    """Events as values: id, time, and the attributes asked for."""
    batch, fields = shown.batch, {}
    if shown.options.id_column is not None:
        fields["id"] = values_at(batch, shown.options.id_column, row)
    elif shown.has_positions:
        at = row if batch.positions is None else batch.positions[row]
        fields["id"] = pa.array(np.asarray(at, np.int64))
    fields["time"] = times_column(batch.time[row], batch)
    fields |= {name: values_at(batch, name, row) for name in attributes}
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))
