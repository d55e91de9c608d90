"""The work of Spark's tasks: tables in, blobs out. Plain functions over Arrow, without Spark.

scan    a part of the source  ->  rows by bucket, or matrices if the part is in time order
chunk   rows of one time range  ->  matrices
fold    all rows and matrices of some segments  ->  totals, or finished rows
finish  all totals of some groups  ->  finished rows
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.detect.running_plan import RunningPlan
from trendfold.errors import TrendfoldError
from trendfold.events.batch import EventBatch, read_batch
from trendfold.events.columns import Column, from_arrow, kind_of
from trendfold.events.findings import Findings
from trendfold.events.options import Options
from trendfold.events.schema import Kind
from trendfold.kernel.program import Folded
from trendfold.plan import QueryPlan
from trendfold.plan.carried import distinct_attributes, distinct_sets
from trendfold.plan.fold_steps import FoldStep, to_value
from trendfold.plan.physical import Products, SharedPlan, choose_exchange, matrices_together
from trendfold.plan.spread import Mode, ends_with_segment
from trendfold.plan.workload import units
from trendfold.query.nodes import Expression, GroupKey, Window, WindowUnit
from trendfold.runtime.distinct import apart_by_value, codes_of, count_distinct
from trendfold.runtime.exact_values import Exact
from trendfold.runtime.folding import FoldedQuery, fold_unit, prepare
from trendfold.runtime.folds.matrices_together import (
    CutAlone,
    CutTogether,
    apart,
    cut_together,
    fold_together,
)
from trendfold.runtime.limits import Limits
from trendfold.runtime.local import counts_of, infinite_columns, table_of
from trendfold.runtime.match_tables import run_matches
from trendfold.runtime.pieces import (
    FIRST,
    OverlapError,
    as_batch,
    concat,
    cut_pieces,
    fold_pieces,
    matrix_bytes,
    multiply_pieces,
    pack_folded,
    unpack_folded,
)
from trendfold.runtime.query_rows import Rows, group_count
from trendfold.runtime.request import Request
from trendfold.runtime.sorting import numbered_pairs
from trendfold.runtime.spark.blobs import (
    Blob,
    Content,
    bit_columns,
    bit_names,
    hashes,
    is_bits,
    pack,
    read_bits,
    split,
)
from trendfold.runtime.spark.exchanges import Exchange
from trendfold.runtime.spark.ranges import EVER, alone_between
from trendfold.runtime.tables import Groups, Totals, add_up, build_table, total
from trendfold.runtime.values import rows_with_trends
from trendfold.runtime.whole_matches import MatchChoice
from trendfold.runtime.windows import Asked, Items, distinct_windows
from trendfold.runtime.workspace import Partitioning, Workspace, shared_partitionings

WINDOW, KEY, COUNTED = "window index", "key {}", "counted {}"
"""Columns of a table of totals, in addition to the numbers."""


class Route(StrEnum):
    """How an exchange's rows reach the tasks that fold them."""

    STRETCHES = "stretches"
    PARTITION = "by partition"
    TIME = "split in time"
    OVERLAPS = "overlapping in time"


@dataclass(frozen=True)
class Job:
    """Everything a task needs to know; small, and sent with the task's function.

    schema  of the events, restricted to the columns queries read
    shared  intervals [from, to] in which parts of the source overlap: their rows are shuffled, int64[z,2]
    ranges  the first and last time of every part of the source, if all are known, int64[p,2]
    chunks  times at which the input is split for Route.TIME, int64[c]
    bits    conditions whose truth values come with the rows, in bit order
    """

    plans: tuple[QueryPlan, ...]
    exchanges: tuple[Exchange, ...]
    routes: tuple[Route, ...]
    options: Options
    schema: pa.Schema
    origin: int
    limits: Limits
    arithmetic: str
    buckets: int
    finishers: int
    shared: NDArray[np.int64]
    chunks: NDArray[np.int64]
    bits: tuple[Expression, ...] = ()
    ranges: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @cached_property
    def shared_partitionings(self) -> frozenset[Partitioning]:
        """Partitionings by which rows are sorted once for several queries."""
        return shared_partitionings(self.plans)

    @cached_property
    def nothing(self) -> EventBatch:
        """A batch without events."""
        return read_batch(self.schema.empty_table(), self.options)


# ---------------------------------------------------------------- scan


def scan(
    job: Job, table: pa.Table, rejects: pa.Table | None = None, found: Findings | None = None
) -> Iterator[Blob]:
    """Read a part of the source, and send what each exchange needs of it.

    `rejects` are rejected lines, and `found` the findings of reading them.
    """
    batch = read_batch(table, replace(job.options, on_reject="keep"))
    times = [int(batch.time.min()), int(batch.time.max())] if len(batch) else []
    seen = json.dumps({"types": counts_of(batch), "times": times}).encode()
    yield Blob(0, Content.SEEN, 0, table.num_rows + (rejects.num_rows if rejects is not None else 0), seen)
    yield Blob(0, Content.FINDINGS, 0, 0, (batch.findings + (found or Findings())).to_json())
    for refused in (batch.rejects, rejects):
        if refused is not None and refused.num_rows:
            kept = refused.drop_columns([name for name in refused.column_names if is_bits(name)])
            yield Blob(0, Content.REJECTS, 0, kept.num_rows, pack(kept))
    if not len(batch):
        return
    everything = Workspace(batch, read_bits(batch, job.bits) or {}, shared=job.shared_partitionings)
    for number, route in enumerate(job.routes):
        workspace, done = _finish_inside(job, number, everything)
        yield from done
        match route:
            case _ if not len(workspace.batch):
                pass
            case Route.STRETCHES:
                yield from _stretch(job, number, workspace)
            case Route.PARTITION:
                yield from _send(job, number, workspace, np.ones(len(workspace.batch), np.bool_))
            case Route.TIME:
                yield from _send_by_time(job, number, workspace)
            case Route.OVERLAPS:
                yield from _send_overlapping(job, number, workspace)


MOST_OUTSIDE = 0.25
"""If more rows are in windows that other parts share, windows are not finished where rows are read."""


def _finish_inside(job: Job, number: int, workspace: Workspace) -> tuple[Workspace, Iterator[Blob]]:
    """Finish the windows of which no other part has rows; returns the rows of the others.

    Small windows would send more matrices, or rows, than they have results.
    """
    exchange, batch = job.exchanges[number], workspace.batch
    windows = {job.plans[query].query.window for query in exchange.queries}
    window = next(iter(windows))
    is_bounded = any(job.plans[query].query.bound is not None for query in exchange.queries)
    if len(windows) > 1 or exchange.finds_matches or is_bounded or window is None or not _is_apart(window):
        return workspace, iter(())
    after, until = alone_between(job.ranges, int(batch.time.min()), int(batch.time.max()))
    asked = Asked(-EVER, until, after)
    assert window.slide is not None
    first, last = asked.numbers(window.length, window.slide, job.origin)
    if first > last:
        return workspace, iter(())
    begin, end = job.origin + first * window.slide, job.origin + last * window.slide + window.length
    outside = (batch.time < begin) | (batch.time >= end)
    if outside.mean() > MOST_OUTSIDE:
        return workspace, iter(())
    done = fold_rows(job, exchange, exchange.queries, workspace, asked, is_part=True)
    return subset(workspace, outside, exchange.conditions), done


def _is_apart(window: Window) -> bool:
    """Whether windows are times that do not overlap."""
    return window.unit is not WindowUnit.EVENTS and (window.slide or 0) >= window.length


def _stretch(job: Job, number: int, workspace: Workspace) -> Iterator[Blob]:
    """Send matrices for times that no other part overlaps, and rows for the others."""
    batch, exchange = workspace.batch, job.exchanges[number]
    alone, gaps = _alone(job, batch)
    if not alone.all():
        yield from _send(job, number, workspace, ~alone)
        if not alone.any():
            return
        workspace = subset(workspace, alone, exchange.conditions)
    together = [
        here
        for queries in matrices_together({query: job.plans[query] for query in exchange.queries})
        for here in _cut(job, queries, workspace, gaps)
    ]
    size = sum(len(here) * sum(map(matrix_bytes, here.plans.values())) for here in together)
    way = choose_exchange(len(workspace.batch), size)
    if way is None:
        yield from _send(job, number, workspace, np.ones(len(workspace.batch), np.bool_))
        return
    for here in together:
        if len(here):
            started = perf_counter()
            yield from _send_matrices(job, number, here, workspace)
            names = tuple(plan.query.name for plan in here.plans.values())
            took = len(here.cut.rows.row), perf_counter() - started, size
            yield step_blob(next(iter(here.plans)), FoldStep(names, way, *took))


def _send_matrices(
    job: Job, number: int, here: CutTogether | CutAlone, workspace: Workspace
) -> Iterator[Blob]:
    """The matrices of one query, or of several side by side."""
    query = next(iter(here.plans))
    if isinstance(here, CutAlone):
        pieces = fold_pieces(job.plans[query], workspace, here.cut)
        yield from _send_pieces(job, number, Content.PIECES, query, pieces)
    else:
        yield from _send_pieces(job, number, Content.BUNDLE, query, fold_together(here, workspace))


def _cut(
    job: Job, queries: Sequence[int], workspace: Workspace, gaps: NDArray[np.int64]
) -> Iterator[CutTogether | CutAlone]:
    """The rows of one query, or of several side by side, cut into pieces."""
    plans = {query: job.plans[query] for query in queries}
    if len(plans) > 1:
        yield from cut_together(plans, workspace, job.origin, gaps)
    else:
        yield CutAlone(plans, cut_pieces(job.plans[queries[0]], workspace, job.origin, gaps))


def _alone(job: Job, batch: EventBatch) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which rows lie outside the overlaps, and the edges of the overlaps."""
    if not len(job.shared):
        return np.ones(len(batch), np.bool_), np.zeros(0, np.int64)
    at = np.searchsorted(job.shared[:, 0], batch.time, side="right") - 1
    inside = (at >= 0) & (batch.time <= job.shared[at, 1])
    return ~inside, job.shared[:, 0]


def subset(workspace: Workspace, kept: NDArray[np.bool_], conditions: tuple[Expression, ...]) -> Workspace:
    """A workspace of some rows, keeping the known truth values of their conditions."""
    batch = workspace.batch
    held = {condition: workspace.holds(condition)[kept] for condition in conditions}
    chosen = replace(
        batch,
        table=batch.table.filter(pa.array(kept)),
        time=batch.time[kept],
        type_code=batch.type_code[kept],
        order=None if batch.order is None else batch.order[kept],
        _columns={},
    )
    return Workspace(chosen, held, shared=workspace.shared)


def _send(job: Job, number: int, workspace: Workspace, wanted: NDArray[np.bool_]) -> Iterator[Blob]:
    """Send the wanted rows of an exchange to the buckets of their keys."""
    batch, exchange = workspace.batch, job.exchanges[number]
    keys = {name: batch.column(name) for name in exchange.key}
    known = hashes(keys, len(batch)) if keys else np.full(len(batch), number, np.uint64)
    wanted = wanted & is_needed(batch, exchange)
    for bucket, part in split(
        packed_rows(workspace, exchange, job.options.type_column), known, wanted, job.buckets
    ):
        yield Blob(bucket, Content.ROWS, number, part.num_rows, pack(part))


def _send_by_time(job: Job, number: int, workspace: Workspace) -> Iterator[Blob]:
    """Send the rows of an exchange to their time ranges."""
    batch, exchange = workspace.batch, job.exchanges[number]
    chunk = np.searchsorted(job.chunks, batch.time, side="right").astype(np.uint64)
    parts = split(
        packed_rows(workspace, exchange, job.options.type_column),
        chunk,
        is_needed(batch, exchange),
        len(job.chunks) + 1,
    )
    for bucket, part in parts:
        yield Blob(bucket, Content.ROWS, number, part.num_rows, pack(part))


def _send_overlapping(job: Job, number: int, workspace: Workspace) -> Iterator[Blob]:
    """Send the rows of an exchange that finds matches to every time range in which such a match may end.

    A match that ends in [a, b) lies in (a - w, b), and a NOT at its end looks as far as b + w.
    """
    batch, exchange = workspace.batch, job.exchanges[number]
    assert exchange.reach is not None
    needed, rows = is_needed(batch, exchange), packed_rows(workspace, exchange, job.options.type_column)
    for part, (low, high) in enumerate(_parts(job)):
        inside = needed & (batch.time > low - exchange.reach) & (batch.time < high + exchange.reach)
        if inside.any():
            chosen = rows.filter(pa.array(inside))
            yield Blob(part, Content.ROWS, number, chosen.num_rows, pack(chosen))


def _parts(job: Job) -> list[tuple[int, int]]:
    """The time ranges between chunks; the first and last are unbounded."""
    return list(pairwise([-EVER, *job.chunks.tolist(), EVER]))


def _send_pieces(job: Job, number: int, content: Content, query: int, pieces: pa.Table) -> Iterator[Blob]:
    batch = as_batch(pieces, job.schema, job.nothing)
    keys = {name: batch.column(name) for name in job.exchanges[number].key}
    known = hashes(keys, len(batch)) if keys else np.full(len(batch), number, np.uint64)
    for bucket, part in split(pieces, known, np.ones(len(batch), np.bool_), job.buckets):
        yield Blob(bucket, content, query, part.num_rows, pack(part))


def is_needed(batch: EventBatch, exchange: Exchange) -> NDArray[np.bool_]:
    """Which rows have one of the exchange's types."""
    if exchange.types is None:
        return np.ones(len(batch), np.bool_)
    wanted = np.array([name in exchange.types for name in batch.type_names], np.bool_)
    found: NDArray[np.bool_] = wanted[batch.type_code]
    return found


def packed_rows(workspace: Workspace, exchange: Exchange, type_column: str) -> pa.Table:
    """The columns of an exchange: strings as codes, conditions as bits."""
    batch = workspace.batch
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for each in batch.table.schema:
        if each.name in exchange.columns:
            columns[each.name] = (
                _type_codes(batch, each) if each.name == type_column else _as_codes(batch, each)
            )
    held = {condition: workspace.holds(condition) for condition in exchange.conditions}
    return pa.table(columns | bit_columns(held, len(batch)))


def _type_codes(batch: EventBatch, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """The type column, of which the batch has the codes already."""
    if kind_of(field.type) is not Kind.STRING or not len(batch):
        return batch.table.column(field.name)
    words = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.DictionaryArray.from_arrays(pa.array(batch.type_code), pa.array(batch.type_names, words))


def _as_codes(batch: EventBatch, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    data = batch.table.column(field.name)
    if kind_of(data.type) is not Kind.STRING or not len(batch) or field.name == batch.time_column:
        return data
    column: Column = batch.column(field.name)
    assert column.words is not None
    indices = pa.array(column.values.astype(np.int32), mask=None if column.is_whole else ~column.valid)
    words = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.DictionaryArray.from_arrays(indices, column.words.cast(words))


# ---------------------------------------------------------------- chunk


def chunk(job: Job, blobs: Iterable[Blob]) -> Iterator[Blob]:
    """Turn the rows of each time range into matrices; pass everything else through."""
    rows: dict[tuple[int, int], list[pa.Table]] = defaultdict(list)
    for blob in blobs:
        if blob.content is Content.ROWS and job.routes[blob.owner] is Route.TIME:
            rows[blob.owner, blob.bucket].append(blob.table())  # one task may have several time ranges
        else:
            yield blob
    apart = replace(job, shared=np.zeros((0, 2), np.int64))
    for number, stretch in list(rows):
        yield from _stretch(apart, number, gather(job, number, rows.pop((number, stretch))))


# ---------------------------------------------------------------- fold


def fold(job: Job, blobs: Iterable[Blob]) -> Iterator[Blob]:
    """Fold all rows and matrices of some segments into totals per group and window, or finished rows."""
    rows: dict[int, list[pa.Table]] = defaultdict(list)
    pieces: dict[int, list[pa.Table]] = defaultdict(list)
    overlapping: dict[tuple[int, int], list[pa.Table]] = defaultdict(list)
    for blob in blobs:
        match blob.content:
            case Content.ROWS if job.routes[blob.owner] is Route.OVERLAPS:
                overlapping[blob.owner, blob.bucket].append(blob.table())
            case Content.ROWS:
                rows[blob.owner].append(blob.table())
            case Content.PIECES:
                pieces[blob.owner].append(blob.table())
            case Content.BUNDLE:
                for query, part in apart(blob.table()):
                    if part.num_rows:
                        pieces[query].append(part)
            case _:
                yield blob
    for number, part in list(overlapping):
        here = gather(job, number, overlapping.pop((number, part)))
        yield from find_in_rows(job, job.exchanges[number].queries, here, ends=_parts(job)[part])
    for number, exchange in enumerate(job.exchanges):
        if exchange.finds_matches:
            if number in rows:
                yield from find_in_rows(job, exchange.queries, gather(job, number, rows.pop(number)))
            continue
        workspace = gather(job, number, rows.pop(number)) if number in rows else None
        cut = [query for query in exchange.queries if query in pieces]
        for query in cut:
            yield from multiply(job, query, workspace, pieces.pop(query))
        whole = [query for query in exchange.queries if query not in cut]
        if workspace is not None and whole:
            yield from fold_rows(job, exchange, whole, workspace)


def find_in_rows(
    job: Job,
    queries: Sequence[int],
    workspace: Workspace,
    *,
    ends: tuple[int, int] | None = None,
    asked: Asked | None = None,
    running: dict[str, RunningPlan] | None = None,
) -> Iterator[Blob]:
    """Find the matches of queries in these rows: all, those that end in `ends`, or those `asked` for.

    running  see run_matches
    """
    plans = [job.plans[query] for query in queries]
    try:
        found, steps = run_matches(
            plans,
            workspace,
            job.options,
            job.limits,
            has_positions=False,
            chosen=MatchChoice(ends, asked),
            running=running,
        )
    except TrendfoldError as error:
        yield failure(queries[0], error)
        return
    yield from (step_blob(queries[0], step) for step in steps)
    for query in queries:
        yield from _results(job, query, found[job.plans[query].query.name])


def failure(query: int, error: TrendfoldError) -> Blob:
    """A blob that reports an error to the driver."""
    return Blob(0, Content.ERROR, query, 0, json.dumps([type(error).__name__, str(error)]).encode())


def gather(job: Job, number: int, tables: list[pa.Table]) -> Workspace:
    """The rows of an exchange from all tasks, with the known truth values of their conditions."""
    exchange = job.exchanges[number]
    batch = read_batch(_complete(concat(tables), exchange, job.schema), job.options)
    known = read_bits(batch, exchange.conditions) or {}
    return Workspace(batch, known, shared=job.shared_partitionings)


def _complete(rows: pa.Table, exchange: Exchange, schema: pa.Schema) -> pa.Table:
    """Rows with all columns of an exchange: those that a stream stored before a query joined it lack some."""
    for name in exchange.columns:
        if name not in rows.column_names and name in schema.names:
            type_ = schema.field(name).type
            is_text = kind_of(type_) is Kind.STRING and not pa.types.is_dictionary(type_)
            type_ = pa.dictionary(pa.int32(), type_) if is_text else type_
            rows = rows.append_column(name, pa.nulls(rows.num_rows, type_))
    for name in bit_names(exchange.conditions):
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.array(np.zeros(rows.num_rows, np.int64)))
    return rows


def fold_rows(
    job: Job,
    exchange: Exchange,
    queries: Sequence[int],
    workspace: Workspace,
    asked: Asked | None = None,
    *,
    is_part: bool = False,
    running: dict[str, Any] | None = None,
) -> Iterator[Blob]:
    """Fold queries over all rows of some segments, for all windows or those `asked` for.

    With `is_part` the rows are those of all segments in the windows asked for. `running` has what a stream
    stores of plans that follow its rates, before and after.
    """
    request = Request(job.origin, job.limits, job.arithmetic, asked, running)
    for unit in units({query: job.plans[query] for query in queries}):
        try:
            folds = fold_unit(unit, workspace, request)
            for query, (folded, step) in zip(unit.numbers, folds, strict=True):
                if step is not None:
                    yield step_blob(query, step)
                    if running is not None and unit.group is not None and isinstance(step.way, SharedPlan):
                        running[unit.group.name] = step.way.running or {}
                tell = _answer_part if is_part else answer
                yield from tell(job, exchange, query, folded, request)
        except TrendfoldError as error:
            yield failure(unit.numbers[0], error)


def step_blob(query: int, step: FoldStep) -> Blob:
    """A blob that reports a step that ran to the driver."""
    return Blob(0, Content.STEP, query, 0, json.dumps(to_value(step)).encode())


def answer(job: Job, exchange: Exchange, query: int, folded: FoldedQuery, request: Request) -> Iterator[Blob]:
    """The aggregates of one query as finished rows, or as totals if other tasks have some of a group."""
    if request.asked is None:
        yield _windows(query, folded.windows.numbers)
    if exchange.mode is Mode.COMPLETE:
        yield Blob(0, Content.GROUPS, query, group_count(folded.rows))
        yield from _results(job, query, table_of(folded, request))
    else:
        parts = Parts(folded.rows, folded.items, folded.folded, folded.batch, folded.with_takers)
        yield from add_up_groups(job, query, parts)


def _answer_part(
    job: Job, exchange: Exchange, query: int, folded: FoldedQuery, request: Request
) -> Iterator[Blob]:
    """The finished rows of windows that no other task has rows of; other tasks have the same groups."""
    yield _windows(query, folded.windows.numbers)
    if group_count(folded.rows) * len(job.ranges) > job.limits.groups:
        yield Blob(0, Content.GROUPS, query, 0, _group_hashes(folded).tobytes())
    yield from _results(job, query, table_of(folded, request))


def _group_hashes(folded: FoldedQuery) -> NDArray[np.uint64]:
    """A hash per group, the same in every task."""
    rows, batch = folded.rows, folded.batch
    keys = {
        str(i): batch.column(key.attribute).take(at) for i, (key, at) in enumerate(rows.group_rows.items())
    }
    return hashes(keys, group_count(rows))


def multiply(job: Job, query: int, workspace: Workspace | None, pieces: list[pa.Table]) -> Iterator[Blob]:
    """Multiply the matrices of one query in some segments, and fold the rows between them."""
    try:
        yield from _multiply(job, query, workspace, pieces)
    except OverlapError as error:
        yield Blob(0, Content.OVERLAP, query, 0, str(error).encode())
    except TrendfoldError as error:
        yield failure(query, error)


def _multiply(job: Job, query: int, workspace: Workspace | None, pieces: list[pa.Table]) -> Iterator[Blob]:
    started, plan, between = perf_counter(), job.plans[query], 0
    if workspace is not None:
        # Rows may lie before and after a matrix: split them wherever a matrix begins.
        begins = np.unique(np.concatenate([part.column(FIRST).to_numpy() for part in pieces]))
        cut = cut_pieces(plan, workspace, job.origin, begins)
        between = len(cut.rows.row)
        if len(cut):
            pieces = [*pieces, fold_pieces(plan, workspace, cut)]
    together = concat(pieces)
    batch = as_batch(together, job.schema, job.nothing)
    found = multiply_pieces(plan, together, batch, job.origin, job.limits)
    way = Products(1, "the matrices of all parts of the source are multiplied in time order")
    seconds, size = perf_counter() - started, together.num_rows * matrix_bytes(plan)
    yield step_blob(query, FoldStep((plan.query.name,), way, between, seconds, size))
    yield _windows(query, distinct_windows(found.items.index))
    yield from add_up_groups(
        job, query, Parts(found.rows, found.items, found.folded, batch, found.with_takers)
    )


@dataclass(frozen=True)
class Parts:
    """What a task has folded of a query: aggregates of window items, not yet added up over partitions."""

    rows: Rows
    items: Items
    folded: tuple[Folded, ...]
    batch: EventBatch
    with_takers: Items | None = None

    def totals(self, plan: QueryPlan) -> Totals:
        """Add them up by window and group."""
        return total(plan, self.rows, self.items, self.folded, self.batch, self.with_takers)


def add_up_groups(job: Job, query: int, parts: Parts) -> Iterator[Blob]:
    """Totals that end here become rows; the others go to where their groups are finished."""
    plan = job.plans[query]
    if ends_with_segment(plan):
        yield from _finished(job, query, parts.totals(plan), parts.rows, parts.batch)
    else:
        apart = replace(parts, rows=apart_by_value(plan.query, parts.rows, parts.batch))
        yield from _send_totals(job, query, _named(plan, apart.totals(plan), apart.rows, apart.batch))


def _windows(query: int, windows: NDArray[np.int64]) -> Blob:
    """The windows that were evaluated, for the summary; not used in streams."""
    return Blob(0, Content.WINDOWS, query, len(windows), windows.tobytes())


def _named(plan: QueryPlan, totals: Totals, rows: Rows, batch: EventBatch) -> pa.Table:
    """A table of totals per group and window, with the group's key values."""
    columns: dict[str, pa.Array] = {}
    groups = Groups.of(totals.group)
    for name, key in _named_keys(plan).items():
        columns[name] = groups.values(key, rows, batch).take(pa.array(groups.of_row))
    columns[WINDOW] = pa.array(totals.index)
    for i, part in enumerate(totals.operands):
        columns |= pack_folded(str(i), part, len(totals))
    return pa.table(columns)


def _send_totals(job: Job, query: int, totals: pa.Table) -> Iterator[Blob]:
    """Send totals to the tasks that finish their groups."""
    count = totals.num_rows
    keys = {name: from_arrow(totals.column(name)) for name in _key_names(job.plans[query])}
    known = hashes(keys, count) if keys else np.full(count, query, np.uint64)
    for bucket, part in split(totals, known, np.ones(count, np.bool_), job.finishers):
        yield Blob(bucket, Content.TOTALS, query, part.num_rows, pack(part))


def _named_keys(plan: QueryPlan) -> dict[str, GroupKey]:
    """The columns that name a total: keys of GROUP BY, and what COUNT(DISTINCT) counts values of."""
    counted = {COUNTED.format(name): GroupKey(None, name) for name in distinct_attributes(plan.query)}
    return {KEY.format(i): key for i, key in enumerate(plan.query.group_by)} | counted


def _key_names(plan: QueryPlan) -> tuple[str, ...]:
    return tuple(KEY.format(i) for i in range(len(plan.query.group_by)))


# ---------------------------------------------------------------- finish


def finish(job: Job, blobs: Iterable[Blob]) -> Iterator[Blob]:
    """Sum the totals of each group and window into finished rows."""
    totals: dict[int, list[pa.Table]] = defaultdict(list)
    for blob in blobs:
        if blob.content is Content.TOTALS:
            totals[blob.owner].append(blob.table())
        else:
            yield blob
    for query in sorted(totals):
        try:
            yield from _finish_query(job, query, concat(totals.pop(query)))
        except TrendfoldError as error:
            yield failure(query, error)


def _finish_query(job: Job, query: int, table: pa.Table) -> Iterator[Blob]:
    if not table.num_rows:
        return
    plan, names = job.plans[query], _key_names(job.plans[query])
    keyed = as_batch(table.select(names), pa.schema([table.schema.field(n) for n in names]), job.nothing)
    code, _ = Workspace(keyed).partition((), names)
    code = code if len(code) else np.zeros(table.num_rows, np.int64)
    _, group_row, group = np.unique(code, return_index=True, return_inverse=True)
    index, owner, where = numbered_pairs(table.column(WINDOW).to_numpy(), group.reshape(-1).astype(np.int64))
    summed = []
    for i, operand in enumerate(plan.operands):
        carried = operand.carried
        part = unpack_folded(table, i, (carried.width,), len(carried.extremes))
        summed.append(add_up(part, where, len(index)))
    none = np.zeros(0, np.int64)
    totals = Totals(index, owner, tuple(summed), none, _count_values(job, plan, table, where, len(index)))
    batch, group_rows = _group_batch(job, plan, table.take(pa.array(group_row)))
    yield from _finished(job, query, totals, Rows(none, none, (), (), none, none, group_rows), batch)


def _count_values(
    job: Job, plan: QueryPlan, table: pa.Table, where: NDArray[np.int64], rows: int
) -> dict[tuple[str, ...], NDArray[np.int64]]:
    """COUNT(DISTINCT ...) of totals that are added up to the rows `where`."""
    found = {}
    for names in distinct_sets(plan.query):
        values = table.select([COUNTED.format(name) for name in names]).rename_columns(list(names))
        operand = plan.operands[0].carried
        some = rows_with_trends(unpack_folded(table, 0, (operand.width,), len(operand.extremes)))
        found[names] = count_distinct(where[some], codes_of(values, job.nothing)[some], rows)
    return found


def _finished(job: Job, query: int, totals: Totals, rows: Rows, batch: EventBatch) -> Iterator[Blob]:
    """The finished rows of groups that no other task has totals for."""
    none = np.zeros(0, np.int64)
    no_items = Items(none.astype(np.int32), none, none, none)
    exact = Exact(job.plans[query], rows, no_items, (), batch, job.limits, (), none, totals.operands)
    yield Blob(0, Content.GROUPS, query, len(np.unique(totals.group)))
    yield from _results(job, query, build_table(totals, exact, job.origin))


def _group_batch(
    job: Job, plan: QueryPlan, keys: pa.Table
) -> tuple[EventBatch, dict[GroupKey, NDArray[np.int64]]]:
    """A batch with a row per group that has its key values; two keys may use the same attribute."""
    parts, rows = [job.schema.empty_table()], {}
    for i, key in enumerate(plan.query.group_by):
        values = keys.select([KEY.format(i)]).rename_columns([key.attribute])
        parts.append(as_batch(values, job.schema, job.nothing).table)
        rows[key] = np.arange(i * keys.num_rows, (i + 1) * keys.num_rows)
    return as_batch(pa.concat_tables(parts), job.schema, job.nothing), rows


def _results(job: Job, query: int, table: pa.Table) -> Iterator[Blob]:
    for warning in infinite_columns({job.plans[query].query.name: table}):
        yield Blob(0, Content.WARNING, query, 0, warning.encode())
    if table.num_rows:
        yield Blob(0, Content.RESULT, query, table.num_rows, pack(table))


def empty_result(job: Job, query: int) -> pa.Table:
    """The result of a query over no events, for its schema."""
    plan = job.plans[query]
    nothing = Workspace(job.nothing)
    if plan.finds_matches:
        tables, _ = run_matches([plan], nothing, job.options, job.limits, has_positions=False)
        return tables[plan.query.name]
    request = Request(job.origin, job.limits, job.arithmetic)
    ready = prepare(plan, nothing, request)
    return table_of(ready.folded(ready.fold()), request)
