"""Funnels: how far each key gets through steps, from one fold of the last step's query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch, read_batch
from trendfold.events.options import Options
from trendfold.events.sources import Source
from trendfold.kernel import funnel_steps as kernels
from trendfold.plan import QueryPlan
from trendfold.query.funnel_question import FunnelQuestion
from trendfold.runtime.compiling import tell_of_compiling
from trendfold.runtime.local import read, unseen_types
from trendfold.runtime.query_rows import read_rows
from trendfold.runtime.sorting import sort_with_rows
from trendfold.runtime.tables import times_column
from trendfold.runtime.workspace import Workspace

__all__ = ["count", "funnel_table", "read"]


@dataclass(frozen=True)
class Attempts:
    """The attempt that counts, of each key and period.

    period   int64[m]
    depth    int32[m]        how many steps it got through
    reached  int64[m,steps]  when, in microseconds
    """

    period: NDArray[np.int64]
    depth: NDArray[np.int32]
    reached: NDArray[np.int64]


def follow(question: FunnelQuestion, plan: QueryPlan, workspace: Workspace, origin: int) -> Attempts:
    """Follow the attempts of every key."""
    rows = read_rows(plan, workspace)
    [symbol], [alphabet] = rows.symbols, rows.alphabets
    takes = np.array([sum(1 << position for position in taken) for taken in alphabet], np.int64)
    steps, every = len(question.steps), question.every or 0
    count = kernels.count_entries(rows.segment, rows.time, symbol, takes, every, origin)
    found = Attempts(np.empty(count, np.int64), np.empty(count, np.int32), np.empty((count, steps), np.int64))
    events = rows.segment, rows.time, workspace.batch.order_of(rows.row), symbol
    asked = takes, steps, question.within, every, origin
    kernels.follow_attempts(*events, *asked, found.period, found.depth, found.reached)
    return found


@dataclass(frozen=True)
class StepCounts:
    """Per period and step: the keys that got through it, and the time since the step before, in seconds.

    period  int64[p]        in order
    keys    int64[p,steps]
    mean, median  float64[p,steps]  NaN at the first step, and where no key got
    """

    period: NDArray[np.int64]
    keys: NDArray[np.int64]
    mean: NDArray[np.float64]
    median: NDArray[np.float64]

    @classmethod
    def none(cls, periods: Iterable[int], steps: int) -> StepCounts:
        """Counts of 0 in these periods, to fill in."""
        period = np.array(list(periods), np.int64)
        shape = len(period), steps
        return cls(period, np.zeros(shape, np.int64), np.full(shape, np.nan), np.full(shape, np.nan))


@dataclass(frozen=True)
class CountedFunnel:
    """The counts of a run, and what it saw."""

    counts: StepCounts
    events: int
    rejects: int
    warnings: tuple[str, ...]


def count(
    question: FunnelQuestion, plan: QueryPlan, source: Source, options: Options, origin: int
) -> CountedFunnel:
    """Count the keys of each step over a source, in this process."""
    if options.on_reject == "fail":
        source.require_whole()
    tell_of_compiling()
    batch = read_batch(source.table, options)
    counts = count_steps(question, follow(question, plan, Workspace(batch), origin))
    events = source.table.num_rows + source.rejects.num_rows
    told = (source.findings + batch.findings).warnings(events, options)
    rejects = source.with_rejects(batch.rejects).num_rows
    return CountedFunnel(
        counts, events, rejects, (*told, *source.warnings, *unseen_types([plan], batch.type_names))
    )


def count_steps(question: FunnelQuestion, attempts: Attempts) -> StepCounts:
    """Count the keys of each step, period by period."""
    steps = len(question.steps)
    if question.every is None:
        counts = StepCounts.none([0], steps)
        _count_period(attempts.depth, attempts.reached, 0, counts)
        return counts
    period, row = sort_with_rows(attempts.period, np.arange(len(attempts.period)))
    begins = np.flatnonzero(np.diff(period, prepend=period[:1] - 1))
    counts = StepCounts.none(period[begins], steps)
    for p, some in enumerate(np.split(row, begins[1:])):
        if len(begins):
            _count_period(attempts.depth[some], attempts.reached[some], p, counts)
    return counts


def _count_period(depth: NDArray[Any], reached: NDArray[Any], p: int, counts: StepCounts) -> None:
    at_depth = np.bincount(depth, minlength=counts.keys.shape[1] + 1)
    counts.keys[p] = at_depth[:0:-1].cumsum()[::-1]
    for k in range(1, counts.keys.shape[1]):
        if counts.keys[p, k]:
            got = depth > k
            gap = reached[got, k] - reached[got, k - 1]
            counts.mean[p, k], counts.median[p, k] = gap.mean() / _SECOND, np.median(gap) / _SECOND


_SECOND = 1_000_000


def funnel_table(question: FunnelQuestion, counts: StepCounts, batch: EventBatch, origin: int) -> pa.Table:
    """The rows of a funnel: one per step, and per period if there are several."""
    periods, steps = counts.keys.shape
    keys = counts.keys.reshape(-1)
    first = np.repeat(counts.keys[:, 0], steps)
    before = np.concatenate([np.zeros((periods, 1), np.int64), counts.keys[:, :-1]], axis=1).reshape(-1)
    columns: dict[str, pa.Array] = {}
    if question.every is not None:
        start = np.repeat(counts.period, steps) * question.every + origin
        columns["window_start"] = times_column(start, batch)
        columns["window_end"] = times_column(start + question.every, batch)
    columns["step"] = pa.array(np.tile(np.arange(1, steps + 1), periods))
    columns["name"] = pa.array(question.names * periods, pa.string())
    columns["keys"] = pa.array(keys)
    columns["of_first"] = _share(keys, first)
    columns["of_previous"] = _share(keys, before)
    for name, seconds in (("mean_seconds", counts.mean), ("median_seconds", counts.median)):
        columns[name] = pa.array(seconds.reshape(-1), mask=np.isnan(seconds.reshape(-1)))
    return pa.table(columns)


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> pa.Array:
    none = whole == 0
    return pa.array(part / np.where(none, 1, whole), mask=none)
