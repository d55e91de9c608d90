"""The reference runtime: one process, no JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.errors import nearest
from trendfold.events.batch import EventBatch, Options, read_batch
from trendfold.events.buffers import empty
from trendfold.events.required import require_columns
from trendfold.events.sources import Source, in_format
from trendfold.events.sources import read as read_source
from trendfold.kernel.program import Events, Folded
from trendfold.kernel.rows import number_moments
from trendfold.plan import QueryPlan
from trendfold.plan.papers import offer
from trendfold.runtime.calibration import costs_for, pays_as_lanes, with_costs
from trendfold.runtime.compiling import tell_of_compiling
from trendfold.runtime.exact import Exact
from trendfold.runtime.fold import fold_items, read_events
from trendfold.runtime.groups import alone_as_lanes, counted, fold_group, folds_together
from trendfold.runtime.lanes import Lanes, read_lanes
from trendfold.runtime.lanes import applies as lanes_apply
from trendfold.runtime.lanes import fold as fold_lanes
from trendfold.runtime.limits import DEFAULTS, Limits
from trendfold.runtime.match_tables import run_matches
from trendfold.runtime.result import Result, Summary
from trendfold.runtime.rows import Rows, Workspace, group_count, read_rows, shared_partitionings
from trendfold.runtime.side_by_side import Ready
from trendfold.runtime.tables import Totals, build_table, total
from trendfold.runtime.windows import Asked, Items, cut

Progress = Callable[[str, int, int], None]
"""Called with the query just finished, how many are done, and how many there are."""


def read(data: Any, columns: Collection[str], options: Options) -> Source:
    """The rows of an input, with the columns that are asked for."""
    named = options.time_column, options.time_format
    source = read_source(in_format(data, *named), columns, options.time_column).with_text(*named)
    require_columns(source.schema, options)
    return source


def run(
    plans: Sequence[QueryPlan],
    source: Source,
    options: Options,
    origin: int,
    limits: Limits,
    progress: Progress | None = None,
    arithmetic: str = "auto",
) -> Result:
    """All queries over one source: its columns are read once, each query's rows in turn."""
    started = time.perf_counter()
    if options.on_reject == "fail":
        source.require_whole()
    tell_of_compiling()
    batch = read_batch(source.table, options)
    if any(plan.group is not None and plan.group.method == "lanes" for plan in plans):
        plans = with_costs(plans, costs_for(len(batch)))
    workspace = Workspace(batch, shared=shared_partitionings(plans))
    if arithmetic == "auto" and any(plan.group is not None for plan in plans):
        plans = offer().with_sharing_plans(plans, workspace, origin, limits)
    tables: dict[str, pa.Table] = {}
    windows = 0
    matches, _ = run_matches(plans, workspace, options, limits)
    for done, plan in enumerate(plans, 1):
        if plan.finds_matches:
            tables[plan.query.name] = matches[plan.query.name]
        else:
            answer = run_query(plan, workspace, origin, limits, arithmetic)
            tables[plan.query.name] = answer.table
            windows += len(answer.windows)
        if progress is not None:
            progress(plan.query.name, done, len(plans))
    rejects = source.with_rejects(batch.rejects)
    events, found = source.table.num_rows + source.rejects.num_rows, source.findings + batch.findings
    told = found.warnings(events, options)
    summary = Summary(
        engine="local",
        events=events,
        rejects=rejects.num_rows,
        windows=windows,
        rows={name: result.num_rows for name, result in tables.items()},
        strategy={plan.query.name: plan.strategy for plan in plans},
        seconds=time.perf_counter() - started,
        sharing=counted(workspace),
        warnings=(
            *told,
            *source.warnings,
            *unseen_types(plans, batch.type_names),
            *infinite_columns(tables),
        ),
        reject_reasons=found.rejects,
    )
    return Result(tables, rejects, summary)


@dataclass(frozen=True)
class Prepared:
    """A query whose rows are selected, sorted and cut into windows: only the fold is left."""

    plan: QueryPlan
    rows: Rows
    items: Items
    events: tuple[Events, ...]
    batch: EventBatch
    lanes: tuple[Lanes, Items] | None = None
    """Where groups are lanes: they, and the items of all lanes together."""
    done: Folded | None = None
    """What the query's group has folded already."""
    as_lanes: Ready | None = None
    """Where rows come in bursts: the query as lanes, though it is alone."""

    def fold(self, limits: Limits = DEFAULTS) -> tuple[Folded, ...]:
        """The aggregates of every window item, per operand."""
        if self.done is not None:
            return (self.done,)
        if self.as_lanes is not None:
            return self.as_lanes.fold()
        if self.lanes is not None:
            return (fold_lanes(self.plan, self.events[0], self.rows, self.lanes[1], self.lanes[0]),)
        return tuple(
            fold_items(self.plan, i, events, self.rows, self.items, self.batch, limits)
            for i, events in enumerate(self.events)
        )

    def exact(self, folded: tuple[Folded, ...], totals: Totals, limits: Limits = DEFAULTS) -> Exact:
        """What gives the whole numbers of some rows, once the fold is done."""
        done = folded, totals.of_item, totals.operands
        return Exact(self.plan, self.rows, self.items, self.events, self.batch, limits, *done)


def prepare(
    plan: QueryPlan,
    workspace: Workspace,
    origin: int,
    arithmetic: str = "auto",
    limits: Limits = DEFAULTS,
    asked: Asked | None = None,
    may_be_lanes: bool = True,
) -> Prepared:
    """Select and sort a query's rows, number their moments, and cut them into the items of windows."""
    batch = workspace.batch
    if folds_together(plan, arithmetic) and (shared := fold_group(plan, workspace, origin, limits, asked)):
        rows, items = shared.rows_of(plan), shared.items[plan.number]
        require_few_groups(plan, rows, limits)
        return Prepared(plan, rows, items, (), batch, done=shared.folded[plan.number])
    in_lanes = arithmetic == "auto" and lanes_apply(plan)
    rows = read_rows(plan, workspace, splits=not in_lanes, limits=limits)
    require_few_groups(plan, rows, limits)
    moment = empty(len(rows.row), np.int32)
    number_moments(rows.segment, rows.time, batch.order_of(rows.row), moment)
    events = tuple(read_events(operand, i, rows, moment, batch) for i, operand in enumerate(plan.operands))
    items = cut(plan, rows, rows.time, origin, limits, asked)
    if not in_lanes:
        pays = may_be_lanes and arithmetic == "auto" and pays_as_lanes(plan, rows)
        as_lanes = alone_as_lanes(plan, rows, moment, items, batch) if pays else None
        return Prepared(plan, rows, items, events, batch, as_lanes=as_lanes)
    lanes, grouped = read_lanes(plan, workspace, rows)
    require_few_groups(plan, grouped, limits)
    per_lane = lanes.per_lane(items, plan.query.name, limits)
    return Prepared(plan, grouped, per_lane, events, batch, (lanes, items))


def require_few_groups(plan: QueryPlan, rows: Rows, limits: Limits) -> None:
    """Raise if a query has too many groups, before anything is kept per group."""
    limits.check_groups(plan.query.name, group_count(rows))


@dataclass(frozen=True)
class Answer:
    """The result of one query, the windows that were looked at, and how many groups there are."""

    table: pa.Table
    windows: NDArray[np.int64]
    groups: int


def run_query(
    plan: QueryPlan,
    workspace: Workspace,
    origin: int,
    limits: Limits,
    arithmetic: str = "auto",
    asked: Asked | None = None,
) -> Answer:
    """Prepare, fold, add up, and make a table; of all windows, or of those asked for."""
    ready = prepare(plan, workspace, origin, arithmetic, limits, asked)
    folded = ready.fold(limits)
    totals = total(ready.rows, ready.items, folded)
    table = build_table(totals, ready.exact(folded, totals, limits), origin, is_exact=arithmetic == "exact")
    return Answer(table, np.unique(ready.items.index), group_count(ready.rows))


def unseen_types(plans: Sequence[QueryPlan], seen: Sequence[str]) -> tuple[str, ...]:
    """A warning per type of a pattern that never occurs (spec 1)."""
    asked: dict[str, list[str]] = {}
    for plan in plans:
        types = {p.type for operand in plan.operands for p in operand.machine.automaton.positions}
        for name in sorted(types - set(seen)):
            asked.setdefault(name, []).append(plan.query.name)
    found = []
    for name, queries in asked.items():
        hint = nearest(name, seen)
        found.append(
            f"no event has the type {name!r} of {', '.join(queries)}" + (f"; {hint}" if hint else "")
        )
    return tuple(found)


def infinite_columns(tables: dict[str, pa.Table]) -> tuple[str, ...]:
    """A warning per column whose numbers left the range of doubles (spec 9)."""
    found = []
    for name, table in tables.items():
        for field in table.schema:
            if pa.types.is_float64(field.type) and field.name not in ("window_start", "window_end"):
                values = table.column(field.name).drop_null().to_numpy()
                if np.isinf(values).any():
                    found.append(
                        f"query {name!r}: {field.name!r} passes 1.8e308 and reads inf; "
                        f"use LOG2 or arithmetic='exact'"
                    )
    return tuple(found)
