"""When the windows and matches of a stream are reported, and which events they still need (spec 10).

Times are microseconds. A watermark is the time before which events are no longer awaited; ALWAYS is the
watermark before the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trendfold.automaton.glushkov import END, START
from trendfold.errors import Problem, QueryError
from trendfold.plan import QueryPlan
from trendfold.query.nodes import (
    Both,
    Either,
    Matches,
    Maybe,
    Not,
    Pattern,
    Plus,
    Query,
    Repeat,
    Seq,
    Window,
    WindowUnit,
)
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


@dataclass(frozen=True, slots=True)
class MatchRelease(Release):
    """The matches of one query that begin in (since, until], reported once they are complete.

    A match is complete when the watermark is past its end; with NOT at the end, when it has reached the time
    by which the NOT may still break it (start + w).

    spans  how many times WITHIN an incomplete match may look back from the watermark
    """

    spans: int = 1

    def floor(self, watermark: int) -> int:
        """No match that is still incomplete needs an event before this time."""
        return ALWAYS if watermark == ALWAYS else watermark - self.spans * self.window.length + 1

    def is_over(self, watermark: int) -> bool:
        """Whether all matches have been reported: those of a query that was replaced."""
        return watermark > self.until + _LONGEST_WAIT * self.window.length


_LONGEST_WAIT = 3
"""A match begins up to w after its NOT begins to look, and may wait for an operand that begins w later."""


def release_of(plan: QueryPlan, origin: int, since: int, until: int) -> Release:
    """When the rows of a query are reported."""
    window = plan.query.window
    assert window is not None
    if not plan.finds_matches:
        return Release(window, origin, since, until)
    guarded = plan.operands[0].machine.automaton.guard_of
    at_start, at_end = any(p == START for p, _ in guarded), any(q == END for _, q in guarded)
    has_and = _has_and(plan.query.pattern)
    # A NOT at the start looks back by w from the end of its operand. An incomplete match may have passed that
    # end by w, if it waits for a NOT at the end or another operand; that with the NOT may begin w later.
    spans = 1 + (at_start and (at_end or has_and)) + (at_end and has_and)
    return MatchRelease(window, origin, since, until, spans)


def _has_and(pattern: Pattern) -> bool:
    match pattern:
        case Both():
            return True
        case Seq(parts) | Either(parts):
            return any(map(_has_and, parts))
        case Not(body) | Plus(body) | Maybe(body) | Repeat(body):
            return _has_and(body)
    return False


def require_streamable(queries: tuple[Query, ...]) -> None:
    """Raise one QueryError with every query that cannot be answered over a stream."""
    problems = []
    for query in queries:
        window = query.window
        finds_matches = isinstance(query.returns, Matches)
        if window is None:
            ends = "every event may still be part of a match" if finds_matches else "no window ever ends"
            message = f"a query over a stream needs WITHIN: without it {ends}"
            hint = f"add a window, such as WITHIN 10 min{'' if finds_matches else ' SLIDE 1 min'}"
            problems.append(Problem(message, query.name, query.text, hint=hint))
        elif window.unit is WindowUnit.EVENTS:
            message = "count windows are for batch: in a stream an event's number is never final"
            hint = f"use a duration, such as WITHIN 10 min{'' if finds_matches else ' SLIDE 1 min'}"
            problems.append(Problem(message, query.name, query.text, window.span, hint))
        elif query.limit is not None:
            message = "LIMIT is for batch: a stream reports every match"
            hint = "leave LIMIT out, and limit what reads the matches"
            problems.append(Problem(message, query.name, query.text, hint=hint))
    if problems:
        raise QueryError(problems)
