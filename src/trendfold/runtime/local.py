"""The reference engine: one process, no JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from trendfold.errors import nearest
from trendfold.events.batch import EventBatch, read_batch
from trendfold.events.options import Options
from trendfold.events.required import require_columns
from trendfold.events.sources import Source, in_format
from trendfold.events.sources import read as read_source
from trendfold.plan import QueryPlan
from trendfold.plan.fold_steps import FoldStep, PhysicalPlan
from trendfold.plan.stream_statistics import StreamStatistics, statistics_of
from trendfold.plan.workload import GIVEN, fitted_to, units
from trendfold.runtime.compiling import tell_of_compiling
from trendfold.runtime.folding import FoldedQuery, choose_unit, fold_unit
from trendfold.runtime.limits import Limits
from trendfold.runtime.match_tables import run_matches
from trendfold.runtime.request import Request
from trendfold.runtime.result import Result, Summary
from trendfold.runtime.tables import build_table
from trendfold.runtime.typed_rows import columns_to_read, with_types
from trendfold.runtime.workspace import Workspace, shared_partitionings

Progress = Callable[[str, int, int], None]
"""Called with the query just finished, the number of finished queries, and their total number."""


def read(data: Any, columns: Collection[str], options: Options) -> Source:
    """Read the given columns of an input."""
    source = read_rows(data, columns, options)
    require_columns(source.schema, options)
    return source


def read_rows(data: Any, columns: Collection[str], options: Options) -> Source:
    """The same, whether they fit the options or not."""
    named, wanted = (options.time_column, options.time_format), columns_to_read(columns, options)
    source = read_source(in_format(data, *named), wanted, options.time_column).with_text(*named)
    return replace(source, table=with_types(source.table, options))


def run(
    plans: Sequence[QueryPlan],
    source: Source,
    options: Options,
    origin: int,
    limits: Limits,
    progress: Progress | None = None,
    arithmetic: str = "auto",
    statistics: StreamStatistics | None = None,
) -> Result:
    """Run all queries over one source: read its columns once, then fold one unit of queries after another."""
    started = time.perf_counter()
    plans = fitted_to(plans, statistics, GIVEN)
    if options.on_reject == "fail":
        source.require_whole()
    tell_of_compiling()
    batch = read_batch(source.table, options)
    first = (unit.plans[0] for unit in units(dict(enumerate(plans))))  # a unit reads its rows once
    workspace = Workspace(batch, shared=shared_partitionings(first))
    tables: dict[str, pa.Table] = {}
    exceeding: set[str] = set()
    steps: list[FoldStep] = []
    windows = 0
    for answer in answers(plans, workspace, options, Request(origin, limits, arithmetic)):
        tables[answer.query] = answer.table
        if answer.may_be_infinite:
            exceeding.add(answer.query)
        windows += answer.windows
        steps += [answer.step] if answer.step is not None else []
        if progress is not None:
            progress(answer.query, len(tables), len(plans))
    tables = {plan.query.name: tables[plan.query.name] for plan in plans}
    ran = PhysicalPlan(tuple(steps))
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
        sharing=ran.counts,
        warnings=(
            *told,
            *source.warnings,
            *unseen_types(plans, batch.type_names),
            *infinite_columns({name: table for name, table in tables.items() if name in exceeding}),
        ),
        reject_reasons=found.rejects,
    )
    known = replace(statistics_in(workspace), joins=ran.statistics)
    return Result(tables, rejects, summary, ran, statistics=known.to_value())


def statistics_in(workspace: Workspace) -> StreamStatistics:
    """How often events of each type come."""
    time = workspace.time_order.time
    return statistics_of(counts_of(workspace.batch), int(time[-1] - time[0]) if len(time) else 0)


def counts_of(batch: EventBatch) -> dict[str, int]:
    """Events by type. Comparing with a few types takes a fraction of what `bincount` does."""
    codes, many = batch.type_code, len(batch.type_names)
    if many <= _FEW_TYPES:
        counts = [int(np.count_nonzero(codes == code)) for code in range(many)]
    else:
        counts = np.bincount(codes, minlength=many).tolist()
    return dict(zip(batch.type_names, counts, strict=True))


_FEW_TYPES = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """The table of one query, its number of windows, and the step of its unit (with the first query only)."""

    query: str
    table: pa.Table
    windows: int = 0
    step: FoldStep | None = None
    may_be_infinite: bool = True


def answers(
    plans: Sequence[QueryPlan], workspace: Workspace, options: Options, request: Request
) -> Iterator[Answer]:
    """Answer all queries: matches first, then aggregates, unit by unit."""
    matches, steps = run_matches(plans, workspace, options, request.limits)
    told = {step.queries[0]: step for step in steps}
    for name, table in matches.items():
        yield Answer(name, table, step=told.get(name))
    for unit in units({i: plan for i, plan in enumerate(plans) if not plan.finds_matches}):
        for folded, step in fold_unit(unit, workspace, request):
            table, many = table_of(folded, request), len(folded.windows)
            yield Answer(folded.plan.query.name, table, many, step, folded.has_exponents)


def choices(plans: Sequence[QueryPlan], workspace: Workspace, request: Request) -> PhysicalPlan:
    """Choose how aggregates would be folded over these rows, without folding."""
    found = units({i: plan for i, plan in enumerate(plans) if not plan.finds_matches})
    return PhysicalPlan(tuple(step for unit in found for step in choose_unit(unit, workspace, request)))


def table_of(folded: FoldedQuery, request: Request) -> pa.Table:
    """Build the table of one query: aggregates per window and group, filtered by HAVING."""
    if not request.is_exact and (table := folded.table(request.limits)) is not None:
        return table
    totals = folded.totals()
    exact = folded.exact(totals, request.limits)
    return build_table(totals, exact, request.origin, request.arithmetic)


def unseen_types(plans: Sequence[QueryPlan], seen: Sequence[str]) -> tuple[str, ...]:
    """A warning for each type of a pattern that no event has (spec 1)."""
    asked: dict[str, list[str]] = {}
    known = frozenset(seen)
    for plan in plans:
        every = frozenset[str]().union(*(o.machine.automaton.types for o in plan.operands))
        for name in sorted(every - known):
            asked.setdefault(name, []).append(plan.query.name)
    found = []
    for name, queries in asked.items():
        hint = nearest(name, seen)
        found.append(
            f"no event has the type {name!r} of {', '.join(queries)}" + (f"; {hint}" if hint else "")
        )
    return tuple(found)


def infinite_columns(tables: dict[str, pa.Table]) -> tuple[str, ...]:
    """A warning for each column with numbers beyond the range of doubles (spec 9)."""
    found = []
    for name, table in tables.items():
        for field in table.schema:
            if pa.types.is_float64(field.type) and field.name not in ("window_start", "window_end"):
                values = table.column(field.name).drop_null().to_numpy()
                if np.isinf(values).any():
                    found.append(
                        f"query {name!r}: {field.name!r} exceeds 1.8e308 and is reported as inf; "
                        f"use LOG2 or arithmetic='exact'"
                    )
    return tuple(found)
