"""When the windows and matches of a stream are reported, and which events they still need (spec 10).

Times are microseconds. A watermark is the time before which events are no longer awaited; ALWAYS is the
watermark before the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trendfold.errors import Problem, QueryError
from trendfold.plan import QueryPlan
from trendfold.plan.stream_choices import BLOCKS
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
from trendfold.runtime.windows import LONGEST, Asked

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
        return self._end_before(watermark) + self.window.slide - self.window.length

    def ended(self, watermark: int) -> int:
        """Windows that end by this time are reported once the watermark is there."""
        return watermark - (self.window.slide is None)

    def asked(self, before: int, watermark: int) -> Asked:
        """The windows to report when the watermark advances from `before`.

        A window (t - w, t] is complete only when the watermark is past t itself.
        """
        if self.window.slide is None and before > ALWAYS:
            before -= 1
        return Asked(before, self.ended(watermark), self.since, self.until)

    def is_over(self, watermark: int) -> bool:
        """Whether all windows have been reported: those of a query that was replaced."""
        return watermark > self.until + self.window.length

    @property
    def pane(self) -> int:
        """The length of the time ranges by which events are kept."""
        return self.window.slide or self.window.length

    def due(self, low: int, watermark: int) -> int:
        """The watermark at which the first window that holds an event from `low` on must be reported."""
        if self.window.slide is None:
            return max(low, watermark) + 1
        first = self._end_before(low) + self.window.slide
        return first if watermark == ALWAYS else max(first, self._end_before(watermark) + self.window.slide)

    def open_windows(self, low: int, high: int, watermark: int) -> tuple[int, int] | None:
        """The numbers of the first and last open windows that may hold an event between two times."""
        if self.window.slide is None or high < low:
            return None
        first = self._number(max(low, watermark)) + 1
        last = (high - self.origin) // self.window.slide
        return (first, last) if first <= last else None

    @property
    def first(self) -> int:
        """The number of the first window, where windows have one and the query was added later."""
        if self.window.slide is None or self.since == ALWAYS:
            return ALWAYS
        return (self.since - self.origin) // self.window.slide + 1

    def _number(self, time: int) -> int:
        """The number of the last window that ends at or before a time."""
        assert self.window.slide is not None
        return (time - self.origin - self.window.length) // self.window.slide

    def last_end(self, time: int) -> int:
        """The last window end that a watermark reports; a window per event may end at any time."""
        return self._end_before(time)

    def _end_before(self, time: int) -> int:
        """The last window end at or before a time."""
        if self.window.slide is None or time == NEVER:
            return time
        return self.origin + self._number(time) * self.window.slide + self.window.length


@dataclass(frozen=True, slots=True)
class BoundedRelease(Release):
    """The periods of a query with WITHIN w EVERY s, reported once the watermark is past their end.

    reach  w: trends that end in a period may begin so long before it
    wait   w if a NOT at the end may break trends so long after the period, otherwise 0
    """

    reach: int = 0
    wait: int = 0

    def floor(self, watermark: int) -> int:
        """No open period needs an event before this time."""
        before = Release.floor(self, self._heard(watermark))
        return ALWAYS if before == ALWAYS else max(ALWAYS, before - self.reach + 1)

    def ended(self, watermark: int) -> int:
        """Periods that end by this time are reported once the watermark is there."""
        return self._heard(watermark)

    def asked(self, before: int, watermark: int) -> Asked:
        """The periods to report when the watermark advances from `before`."""
        return Asked(self._heard(before), self.ended(watermark), self.since, self.until)

    def is_over(self, watermark: int) -> bool:
        """Whether all periods have been reported: those of a query that was replaced."""
        return Release.is_over(self, self._heard(watermark))

    @property
    def pane(self) -> int:
        """The length of the time ranges by which events are kept."""
        return max(self.window.length, self.reach // BLOCKS)

    def due(self, low: int, watermark: int) -> int:
        """The watermark at which the first period that an event from `low` on may end must be reported."""
        return Release.due(self, low, self._heard(watermark)) + self.wait

    def open_windows(self, low: int, high: int, watermark: int) -> tuple[int, int] | None:
        """The numbers of the first and last open periods that may hold an event between two times."""
        return Release.open_windows(self, low, high, self._heard(watermark))

    def last_end(self, time: int) -> int:
        """The time before which events matter for the periods that are reported by a watermark."""
        return time if time == NEVER else self._end_before(self._heard(time)) + self.wait

    def _heard(self, watermark: int) -> int:
        """The watermark up to which all that may break a trend has been seen."""
        return watermark if watermark in (ALWAYS, NEVER) else watermark - self.wait


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
    if (bound := plan.query.bound) is not None:
        reach = min(bound.length, LONGEST)
        # Trends reach back: the first period whose trends all lie after `since` begins later.
        since, until = (time if time in (ALWAYS, NEVER) else time + reach for time in (since, until))
        wait = reach if plan.operands[0].machine.has_not_at_end else 0
        return BoundedRelease(window, origin, since, until, reach, wait)
    if not plan.finds_matches:
        return Release(window, origin, since, until)
    pattern = plan.query.pattern
    operands = pattern.parts if isinstance(pattern, Both) else (pattern,)
    lines = [operand.parts for operand in operands if isinstance(operand, Seq)]
    at_start, at_end = (any(isinstance(parts[i], Not) for parts in lines) for i in (0, -1))
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
        if window is None and query.bound is not None:
            message = "WITHIN ... ONCE is for batch: its only period never ends on a stream"
            hint = "give the length of periods, as in WITHIN 10 min EVERY 1 h"
            problems.append(Problem(message, query.name, query.text, query.bound.span, hint))
        elif window is None:
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
