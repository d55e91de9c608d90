"""Memory limits, each with an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from trendfold.errors import InputError, LimitError, nearest


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds on what a run may hold in memory."""

    trends: int = 10_000_000
    """Trends built one by one, per query that cannot be answered any other way."""
    groups: int = 10_000_000
    """Groups of one query."""
    matches: int = 1_000_000
    """Matches reported by one RETURN MATCHES query."""
    state: int = 4 << 30
    """Bytes of state of one query."""
    windows: int = 20_000_000
    """Windows of one query in one process, counted once per partition and group that has events in them.

    Each takes about 200 bytes until it becomes a row, so the default is about what `state` allows.
    """
    rows: int = 100_000_000
    """Rows in the result of one query."""

    def check_groups(self, query: str, groups: int) -> None:
        """Raise if a query has too many groups."""
        if groups > self.groups:
            raise LimitError(
                f"query {query!r} has {groups:,} groups, over limits groups={self.groups:,}; "
                f"raise the limit or group more coarsely"
            )

    def check_windows(self, query: str, windows: int) -> int:
        """The number of windows; raises if there are too many."""
        if windows > self.windows:
            raise LimitError(
                f"query {query!r} has more than {self.windows:,} windows, counted once per partition and "
                f"group, over limits windows={self.windows:,}; raise the limit, lengthen SLIDE, shorten "
                f"WITHIN, or take fewer events at a time"
            )
        return windows

    def check_rows(self, query: str, rows: int) -> None:
        """Raise if the result of a query has too many rows."""
        if rows > self.rows:
            raise LimitError(
                f"query {query!r} has {rows:,} result rows, over limits rows={self.rows:,}; raise the limit, "
                f"lengthen SLIDE, group more coarsely, or keep fewer rows with HAVING"
            )

    def check_matches(self, query: str, found: int, limit: int | None = None) -> int:
        """The number of matches to report, at most LIMIT; raises if there are too many."""
        kept = found if limit is None else min(found, limit)
        if kept > self.matches:
            raise LimitError(
                f"query {query!r} has more than {self.matches:,} matches, over limits "
                f"matches={self.matches:,}; raise the limit, add LIMIT, shorten WITHIN, or ask for COUNT(*)"
            )
        return kept

    def check_trends(self, query: str, built: int) -> None:
        """Raise if too many trends of a query were built."""
        if built > self.trends:
            raise LimitError(
                f"query {query!r}: more than {self.trends:,} trends had to be built, over limits "
                f"trends={self.trends:,}; raise the limit, shorten WITHIN, partition the stream, or compare "
                f"neighbours with NEXT"
            )

    def check_state(self, query: str, size: int, held: str, instead: str = "shorten WITHIN") -> None:
        """Raise if a query needs too many bytes of state; `instead` says how to reduce them."""
        if size > self.state:
            raise self.too_much_state(query, size, held, instead)

    def too_much_state(self, query: str, size: int, held: str, instead: str = "shorten WITHIN") -> LimitError:
        """The error of `check_state`."""
        return LimitError(
            f"query {query!r} needs {size:,} bytes of state for {held}, over limits "
            f"state={self.state:,}; raise the limit, {instead}, or partition the stream"
        )


DEFAULTS = Limits()


def read_limits(given: Mapping[str, Any] | Limits | None) -> Limits:
    """Limits from a mapping; unknown names and non-positive values are errors."""
    if isinstance(given, Limits):
        return given
    given = {} if given is None else dict(given)
    known = [f.name for f in fields(Limits)]
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"unknown limit {name!r}; {nearest(name, known) or 'choose ' + ', '.join(known)}"
            )
        if not isinstance(value, int) or value <= 0:
            raise InputError(f"limit {name!r} is {value!r}; it must be a positive whole number")
    return Limits(**given)
