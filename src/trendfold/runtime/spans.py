"""Rows -> a window per moment at which trends of a bounded span may end (see kernel.trend_ends)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.kernel import trend_ends as kernels
from trendfold.kernel.program import Events
from trendfold.plan import QueryPlan
from trendfold.runtime.compared import compared_rows, latest_of, pairs_of
from trendfold.runtime.promising import keep_promising, needs_of
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.request import Request
from trendfold.runtime.windows import HIGHEST, LONGEST, LOWEST, Items, SpanRows, distinct_windows


def cut_spans(
    plan: QueryPlan, rows: Rows, events: Events, batch: EventBatch, request: Request
) -> tuple[Items, NDArray[np.int64]]:
    """Cut rows into the moments that may end a trend; also returns the periods that hold one."""
    (operand,), (alphabet,), (symbol,) = plan.operands, rows.alphabets, rows.symbols
    since, before = _find_ends(plan, rows, events, batch, request)
    last = operand.machine.automaton.last
    ends = np.array([bool(each & last) for each in alphabet], np.bool_)[symbol]
    period, (first, latest) = _periods(plan, request)
    moments = int(np.count_nonzero(ends))  # or fewer
    out = empty(moments, np.int32), *(empty(moments, np.int64) for _ in range(4))
    cut = rows.segment, rows.time, events.moment, ends, since, before
    count = kernels.cut_moments(*cut, period, request.origin, first, latest, out)
    segment, index, low, until, high = (part[:count] for part in out)
    items = Items(segment, index, low, high, SpanRows(until, since, before))
    return keep_promising(items, needs_of(operand.machine, alphabet), symbol), distinct_windows(index)


def _periods(plan: QueryPlan, request: Request) -> tuple[int, tuple[int, int]]:
    """The length of periods, and the numbers of the first and last to compute."""
    window, asked = plan.query.window, request.asked
    if window is None:
        return 0, (0, 0)
    if asked is None:
        return window.length, (LOWEST, HIGHEST)
    return window.length, asked.numbers(window.length, window.length, request.origin)


def _find_ends(
    plan: QueryPlan, rows: Rows, events: Events, batch: EventBatch, request: Request
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per row where a trend that begins there may end; see kernel.trend_ends."""
    machine, bound = plan.operands[0].machine, plan.query.bound
    assert bound is not None
    none = np.zeros(0, np.int32)
    begins, closes = none, none
    if any(guard is not None for guard in machine.end_guards):
        pairs = pairs_of(compared_rows(plan, 0, rows, events.moment, batch))
        latest = latest_of(plan, 0, rows, events, pairs, request.limits)
        begins, closes = (none if guard is None else latest[guard] for guard in machine.end_guards)
    since, before = empty(len(rows.row), np.int64), empty(len(rows.row), np.int64)
    length = min(bound.length, LONGEST)
    kernels.find_ends(rows.segment, rows.time, events.moment, length, begins, closes, since, before)
    return since, before
