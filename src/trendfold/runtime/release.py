"""When the windows of a stream are reported, and which events they still need (spec 10).

Times are microseconds. A watermark is the time before which events are no longer awaited; ALWAYS is the
watermark before the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trendfold.errors import Problem, QueryError
from trendfold.query.nodes import Matches, Query, Window, WindowUnit
from trendfold.runtime.windows import Asked

ALWAYS = int(np.iinfo(np.int64).min)
"""Before every time."""
NEVER = int(np.iinfo(np.int64).max)
"""After every time: the watermark of a stream that has ended."""


@dataclass(frozen=True, slots=True)
class Release:
    """The windows of one query that begin in (since, until], reported as the watermark advances."""

    window: Window
    origin: int
    since: int = ALWAYS
    until: int = NEVER

    def floor(self, watermark: int) -> int:
        """No open window needs an event before this time."""
        if watermark == ALWAYS:
            return ALWAYS
        if self.window.slide is None:
            return watermark - self.window.length + 1
        return self.last_end(watermark) + self.window.slide - self.window.length

    def asked(self, before: int, watermark: int) -> Asked:
        """The windows to report when the watermark advances from `before`.

        A window (t - w, t] is complete only when the watermark is past t itself.
        """
        if self.window.slide is None and before > ALWAYS:
            before -= 1
        return Asked(before, watermark - (self.window.slide is None), self.since, self.until)

    def is_over(self, watermark: int) -> bool:
        """Whether all windows have been reported: those of a query that was replaced."""
        return watermark > self.until + self.window.length

    def due(self, low: int, watermark: int) -> int:
        """The watermark at which the first window that holds an event from `low` on must be reported."""
        if self.window.slide is None:
            return max(low, watermark) + 1
        first = self.last_end(low) + self.window.slide
        return first if watermark == ALWAYS else max(first, self.last_end(watermark) + self.window.slide)

    def open_windows(self, low: int, high: int, watermark: int) -> tuple[int, int] | None:
        """The numbers of the first and last open windows that may hold an event between two times."""
        if self.window.slide is None or high < low:
            return None
        first = self._number(max(low, watermark)) + 1
        last = (high - self.origin) // self.window.slide
        return (first, last) if first <= last else None

    def _number(self, time: int) -> int:
        """The number of the last window that ends at or before a time."""
        assert self.window.slide is not None
        return (time - self.origin - self.window.length) // self.window.slide

    def last_end(self, time: int) -> int:
        """The last window end at or before a time; a window per event may end at any time."""
        if self.window.slide is None or time == NEVER:
            return time
        return self.origin + self._number(time) * self.window.slide + self.window.length


def require_streamable(queries: tuple[Query, ...]) -> None:
    """Raise one QueryError with every query whose windows never close in a stream."""
    problems = []
    for query in queries:
        window = query.window
        if isinstance(query.returns, Matches):
            message = "RETURN MATCHES is for batch: streams report aggregates"
            hint = "run it over files or a DataFrame, or ask for COUNT(*)"
            problems.append(Problem(message, query.name, query.text, query.returns.span, hint))
        elif window is None:
            message = "a query over a stream needs WITHIN: without it no window ever ends"
            hint = "add a window, such as WITHIN 10 min SLIDE 1 min"
            problems.append(Problem(message, query.name, query.text, hint=hint))
        elif window.unit is WindowUnit.EVENTS:
            message = "count windows are for batch: in a stream an event's number is never final"
            hint = "use a duration, such as WITHIN 10 min SLIDE 1 min"
            problems.append(Problem(message, query.name, query.text, window.span, hint))
    if problems:
        raise QueryError(problems)
