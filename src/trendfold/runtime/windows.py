"""Rows -> window items: which stretch of which segment belongs to which window (spec 7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from trendfold.errors import InputError
from trendfold.events.batch import TICKS
from trendfold.kernel import rows as kernels
from trendfold.plan import QueryPlan
from trendfold.query.nodes import Window, WindowUnit
from trendfold.runtime.rows import Rows
from trendfold.runtime.sorting import numbered_pairs


@dataclass(frozen=True)
class Items:
    """One stretch of rows per segment and window: rows [low, high) of `segment` are window `index`."""

    segment: NDArray[np.int32]
    index: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Asked:
    """The windows that are asked for: those that end in (after, until] and begin after `since`."""

    after: int
    until: int
    since: int

    def of(self, items: Items, window: Window, origin: int) -> Items:
        """Only the items of these windows."""
        start, end = bounds(window, items.index, origin)
        kept = (end > self.after) & (end <= self.until) & (start > self.since)
        return Items(items.segment[kept], items.index[kept], items.low[kept], items.high[kept])


def cut(
    plan: QueryPlan, rows: Rows, time: NDArray[np.int64], origin: int, asked: Asked | None = None
) -> Items:
    """All window items that hold any row, or those asked for. `time` is that of the rows, in microseconds."""
    items, window = _cut_all(plan, rows, time, origin), plan.query.window
    return items if asked is None or window is None else asked.of(items, window, origin)


def _cut_all(plan: QueryPlan, rows: Rows, time: NDArray[np.int64], origin: int) -> Items:
    window = plan.query.window
    if window is None:
        low, high = rows.segment[:-1], rows.segment[1:]
        return Items(np.arange(len(low), dtype=np.int32), np.zeros(len(low), np.int64), low, high)
    if window.slide is None:
        endings = _endings(plan, rows, time)
        return Items(*kernels.cut_per_event(rows.segment, time, window.length, rows.group, *endings))
    if window.unit is WindowUnit.EVENTS:
        assert rows.number is not None
        return Items(*kernels.cut_sliding(rows.segment, rows.number, window.length, window.slide, 0, 0))
    lowest = np.iinfo(np.int64).min
    return Items(*kernels.cut_sliding(rows.segment, time, window.length, window.slide, origin, lowest))


def _endings(
    plan: QueryPlan, rows: Rows, time: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per group the times at which it has an event that can take a *last* position, of any operand."""
    ends = np.zeros(len(rows.row), np.bool_)
    for operand, symbol, alphabet in zip(plan.operands, rows.symbols, rows.alphabets, strict=True):
        last = operand.machine.automaton.last
        ends |= np.array([bool(s & last) for s in alphabet], np.bool_)[symbol]
    group = np.repeat(rows.group, np.diff(rows.segment))[ends]
    owner, ending, _ = numbered_pairs(group, time[ends])
    groups = int(rows.group.max(initial=-1)) + 1
    return np.searchsorted(owner, np.arange(groups + 1)), ending


def bounds(
    window: Window, index: NDArray[np.int64], origin: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where windows begin and end: microseconds, or numbers of events."""
    if window.slide is None:
        return index - window.length, index
    start = index * window.slide + (origin if window.unit is WindowUnit.MICROSECONDS else 0)
    return start, start + window.length


def open_at_once(items: Items) -> int:
    """The most windows that hold one row; they end in the order in which they begin."""
    ended = np.searchsorted(items.high, items.low, side="right")
    return int((np.arange(1, len(items.low) + 1) - ended).max(initial=1))


def read_origin(origin: int | float | str | datetime | None, time_unit: str) -> int:
    """Where windows are counted from, in microseconds: a time, or the midnight of a zone on 1970-01-01."""
    match origin:
        case None:
            return 0
        case bool():
            raise InputError("origin is a time or the name of a zone")
        case int() | float():
            return round(origin * TICKS[time_unit])
        case datetime():
            return _micros(origin)
    try:
        return _micros(datetime.fromisoformat(origin))
    except ValueError:
        pass
    try:
        return _micros(datetime(1970, 1, 1, tzinfo=ZoneInfo(origin)))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"origin {origin!r} is neither an ISO 8601 time nor a zone such as 'Europe/Berlin'"
        raise InputError(message) from None


def _micros(when: datetime) -> int:
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    gap = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds
