"""Matches as tables: one row per match, one list of events per alias (spec 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.detect.evaluate import Counts
from trendfold.detect.family import families
from trendfold.detect.plans import WorkloadPlanner
from trendfold.events.batch import EventBatch
from trendfold.events.options import Options
from trendfold.plan import QueryPlan
from trendfold.query.names import key_column, list_names
from trendfold.query.nodes import Matches
from trendfold.runtime.detection import Detection
from trendfold.runtime.limits import Limits
from trendfold.runtime.matches import find, plan_joins, prepare
from trendfold.runtime.tables import times_column, values_at
from trendfold.runtime.whole import Bindings, Found, Prepared, concatenated
from trendfold.runtime.workspace import Workspace


def run_matches(
    plans: Sequence[QueryPlan],
    workspace: Workspace,
    options: Options,
    limits: Limits,
    planner: WorkloadPlanner | None = None,
    *,
    has_positions: bool = True,
    ends: tuple[int, int] | None = None,
) -> dict[str, pa.Table]:
    """The table of every query that asks for matches.

    has_positions  whether a row's position says something, and is its id where no column is
    ends           only matches whose last event is at a time in [ends[0], ends[1])
    """
    shown = Shown(workspace.batch, options, has_positions)
    tables = {}
    for family in families(plan for plan in plans if plan.finds_matches):
        ready = prepare(family, workspace, limits, ends)
        first = 0
        for found in find(ready, limits, planner):
            size = len(found.plan.operands[0].machine.automaton.positions)
            tables[found.plan.query.name] = build_table(found, ready, first, shown)
            first += size
    return tables


def trace(plans: Sequence[QueryPlan], batch: EventBatch, limits: Limits) -> list[tuple[Detection, Counts]]:
    """How every family's matches are found, and the partial matches on the way."""
    workspace, runs = Workspace(batch), []
    for family in families(plans):
        detection, counts = plan_joins(prepare(family, workspace, limits)), Counts()
        detection.run(limits, counts)
        runs.append((detection, counts))
    return runs


@dataclass(frozen=True)
class Shown:
    """What is shown of the events of matches; see `run_matches`."""

    batch: EventBatch
    options: Options
    has_positions: bool


def build_table(found: Found, ready: Prepared, first: int, shown: Shown) -> pa.Table:
    """The matches of one query, whose positions begin at `first`; ordered by start, end and group."""
    query, rows, batch = found.plan.query, ready.rows, shown.batch
    bindings = concatenated(found.parts)
    least, most = bindings.least(), bindings.most()
    columns = {
        "start": times_column(rows.time[least], batch),
        "end": times_column(rows.time[most], batch),
    }
    segment = np.searchsorted(rows.segment, least, side="right") - 1
    for key in query.group_by:
        at = rows.group_rows[key][rows.group[segment]]
        columns[key_column(query, key)] = values_at(batch, key.attribute, at)
    # Sorted before lists are made: Arrow moves them slowly.
    keys = [(name, "ascending", "at_start") for name in columns]
    order = pc.sort_indices(pa.table(columns), sort_keys=keys)
    columns = {name: column.take(order) for name, column in columns.items()}
    listed = _Lists(bindings.take(order.to_numpy()), found.plan, first)
    assert isinstance(query.returns, Matches)
    for name in list_names(query.pattern):
        start, row = listed.of(name)
        events = _events(rows.row[row], query.returns.attributes, shown)
        columns[name] = pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), events)
    return pa.table(columns)


class _Lists:
    """The bindings of matches by name and in time."""

    def __init__(self, bindings: Bindings, plan: QueryPlan, first: int) -> None:
        positions = plan.operands[0].machine.automaton.positions
        self.names = list(dict.fromkeys(p.alias or p.type for p in positions))
        label = np.array([self.names.index(p.alias or p.type) for p in positions], np.int64)
        self.count = len(bindings)
        self.match = np.repeat(np.arange(self.count), np.diff(bindings.start))
        self.label = label[bindings.position - first]
        self.row = bindings.row

    def of(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where each match's list begins, and all rows."""
        mine = np.flatnonzero(self.label == self.names.index(name))
        match, row = self.match[mine], self.row[mine]
        start = np.concatenate([[0], np.cumsum(np.bincount(match, minlength=self.count))])
        if np.diff(start).max(initial=0) > 1:  # what is alone is in order
            row = row[np.lexsort((row, match))]
        return start, row


def _events(row: NDArray[np.int64], attributes: Sequence[str], shown: Shown) -> pa.StructArray:
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
