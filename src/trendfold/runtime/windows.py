"""Rows -> window items: the stretch of each segment that belongs to each window (spec 7)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import InputError
from trendfold.events.options import TICKS
from trendfold.kernel import rows as kernels
from trendfold.plan import QueryPlan
from trendfold.query.nodes import Window, WindowUnit
from trendfold.runtime.limits import DEFAULTS, Limits
from trendfold.runtime.query_rows import Rows, group_count
from trendfold.runtime.sorting import numbered_pairs


@dataclass(frozen=True)
class SpanRows:
    """Where trends of a bounded span begin and end.

    until          int64[k]  per item: no trend of its begins at this row or after it
    since, before  int64[n]  per row: trends that begin there end at the rows [since, before)
    """

    until: NDArray[np.int64]
    since: NDArray[np.int64]
    before: NDArray[np.int64]


@dataclass(frozen=True)
class Items:
    """One stretch of rows per segment and window: rows [low, high) of `segment` are window `index`.

    With `spans`, an item is a moment at which trends of a bounded span end, and `index` its period: several
    items of a segment have the same.
    """

    segment: NDArray[np.int32]
    index: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    spans: SpanRows | None = None

    @property
    def until(self) -> NDArray[np.int64]:
        """Per item: no trend begins at this row or after it."""
        return self.high if self.spans is None else self.spans.until

    def at(self, some: NDArray[Any]) -> Items:
        """Some of the items."""
        spans = None if self.spans is None else replace(self.spans, until=self.spans.until[some])
        return Items(self.segment[some], self.index[some], self.low[some], self.high[some], spans)


@dataclass(frozen=True)
class HeldWindows:
    """The windows that hold a row of a query: those of many queries, without a few.

    every    int64[n]  numbers of windows, sorted
    without  int[m]    places among them
    """

    every: NDArray[np.int64]
    without: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.every) - len(self.without)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Their numbers."""
        return np.delete(self.every, self.without) if len(self.without) else self.every


LOWEST, HIGHEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
LONGEST = 2**62
"""No two events are farther apart: their times are below 2^61."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The windows to compute: those that end in (after, until] and begin in (since, begin_by]."""

    after: int
    until: int
    since: int
    begin_by: int = HIGHEST

    def numbers(self, length: int, slide: int, origin: int) -> tuple[int, int]:
        """The numbers of the first and last of these among sliding windows."""
        ends_after = (self.after - origin - length) // slide + 1
        first = max(ends_after, (self.since - origin) // slide + 1, LOWEST)
        last = min((self.until - origin - length) // slide, (self.begin_by - origin) // slide)
        return first, min(last, HIGHEST)

    def holds(self, ending: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
        """Which of the windows that end at the given times are to be computed."""
        first, last = (min(begin + length, HIGHEST) for begin in (self.since, self.begin_by))
        found: NDArray[np.bool_] = (ending > max(self.after, first)) & (ending <= min(self.until, last))
        return found


def cut(
    plan: QueryPlan,
    rows: Rows,
    time: NDArray[np.int64],
    origin: int,
    limits: Limits = DEFAULTS,
    asked: Asked | None = None,
) -> Items:
    """Cut rows into all window items that hold a row, or those in `asked`; `time` is in microseconds.

    Items are counted before memory is allocated: windows of days that slide by milliseconds are many.
    """
    window, name = plan.query.window, plan.query.name
    if window is None:
        low, high = rows.segment[:-1], rows.segment[1:]
        return Items(np.arange(len(low), dtype=np.int32), np.zeros(len(low), np.int64), low, high)
    if window.slide is None:
        length = min(window.length, LONGEST)
        moving = rows.segment, time, length, rows.group, *_endings(plan, rows, time, asked)
        count = limits.check_windows(name, kernels.count_per_event(*moving, limits.windows))
        return Items(*kernels.cut_per_event(*moving, count))
    at, origin, (first, last) = time, origin, (LOWEST, HIGHEST)
    if window.unit is WindowUnit.EVENTS:
        assert rows.number is not None
        at, origin, first = rows.number, 0, 0
    elif asked is not None:
        first, last = asked.numbers(window.length, window.slide, origin)
    sliding = rows.segment, at, window.length, window.slide, origin, first, last
    count = len(at)  # windows that do not overlap are no more than rows
    if window.slide < window.length or count > limits.windows:
        count = limits.check_windows(name, kernels.count_sliding(*sliding, limits.windows))
    return Items(*kernels.cut_sliding(*sliding, count))


def _endings(
    plan: QueryPlan, rows: Rows, time: NDArray[np.int64], asked: Asked | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per group the times of events that can take a *last* position of any operand."""
    ends = np.zeros(len(rows.row), np.bool_)
    for operand, symbol, alphabet in zip(plan.operands, rows.symbols, rows.alphabets, strict=True):
        last = operand.machine.automaton.last
        ends |= np.array([bool(s & last) for s in alphabet], np.bool_)[symbol]
    if asked is not None:
        assert plan.query.window is not None
        ends &= asked.holds(time, plan.query.window.length)
    group = np.repeat(rows.group, np.diff(rows.segment))[ends]
    owner, ending, _ = numbered_pairs(group, time[ends])
    return np.searchsorted(owner, np.arange(group_count(rows) + 1)), ending


def bounds(
    window: Window, index: NDArray[np.int64], origin: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bounds of windows: in microseconds, or in event numbers."""
    if window.slide is None:
        return index - window.length, index
    start = index * window.slide + (origin if window.unit is WindowUnit.MICROSECONDS else 0)
    return start, start + window.length


def distinct_windows(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct windows of items."""
    return np.asarray(pc.unique(pa.array(index)))


def open_at_once(items: Items) -> int:
    """The most windows that hold one row; windows end in the order in which they begin."""
    ended = np.searchsorted(items.high, items.low, side="right")
    return int((np.arange(1, len(items.low) + 1) - ended).max(initial=1))


def read_origin(origin: int | float | str | datetime | None, time_unit: str) -> int:
    """The origin of windows in microseconds: a time, or midnight on 1970-01-01 in a time zone."""
    match origin:
        case None:
            return 0
        case bool():
            raise InputError("origin must be a time or the name of a time zone")
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
        message = f"origin {origin!r} is neither an ISO 8601 time nor a time zone such as 'Europe/Berlin'"
        raise InputError(message) from None


def _micros(when: datetime) -> int:
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    gap = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds
