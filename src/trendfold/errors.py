"""The exceptions trendfold raises, and the text spans they point to."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters in the text that was parsed."""

    start: int
    end: int


NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one query: what, where, and what to do about it."""

    message: str
    query: str = ""
    text: str = field(default="", repr=False)
    span: Span = NOWHERE
    hint: str = ""

    @property
    def line(self) -> int:
        """The line of the span's start, counted from 1."""
        return self.text.count("\n", 0, self.span.start) + 1

    @property
    def column(self) -> int:
        """The column of the span's start, counted from 1."""
        return self.span.start - self.text.rfind("\n", 0, self.span.start)

    def __str__(self) -> str:
        """The message with its line of text, a caret under the span, and the hint."""
        where = f"query {self.query!r}: " if self.query else ""
        lines = [f"{where}{self.message}"]
        if self.span != NOWHERE or self.text:
            lines[0] = f"{self.line}:{self.column}: {lines[0]}"
            lines += _excerpt(self)
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


def _excerpt(problem: Problem) -> list[str]:
    """The line a problem points into, and carets under it; long lines are cut around the caret."""
    start = problem.span.start - problem.column + 1
    end = problem.text.find("\n", start)
    shown = problem.text[start : end if end >= 0 else len(problem.text)].replace("\t", " ")
    column = problem.column - 1
    cut = max(0, column - 60)
    gutter = f"{problem.line:>4} | "
    width = min(problem.span.end - problem.span.start, len(shown) - column)
    carets = " " * (len(gutter) + column - cut) + "^" * max(1, min(width, 60))
    return [gutter + shown[cut : cut + 120], carets]


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint naming the known name most similar to `name`; empty if none is close."""
    known = list(known)
    folded = {k.lower(): k for k in known}
    close = get_close_matches(name, known, n=1, cutoff=0.5) or [
        folded[m] for m in get_close_matches(name.lower(), list(folded), n=1, cutoff=0.5)
    ]
    return f"did you mean {close[0]!r}?" if close else ""


def plural(number: int, one: str, many: str = "") -> str:
    """A count with its noun: `1 query`, `2,000 queries`; `many` is the plural if it is not `one` plus s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def printable(text: str) -> str:
    """Text without control characters, so that it cannot move the terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class TrendfoldError(Exception):
    """Base of all errors trendfold raises; `exit_code` is what the command line returns for it."""

    exit_code = 1


class QueryError(TrendfoldError):
    """The query text is wrong; lists every problem of the workload with its position."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n\n".join(str(problem) for problem in problems))


def query_error(message: str, span: Span = NOWHERE, hint: str = "") -> QueryError:
    """An error with one problem; the caller that knows the query and its text adds them."""
    return QueryError([Problem(message, span=span, hint=hint)])


class InputError(TrendfoldError):
    """The events, or an option, cannot be used: a missing file or column, a wrong type."""

    exit_code = 2


class UnsupportedError(TrendfoldError):
    """A strategy or engine does not support a query; the message names the clause."""

    exit_code = 2


class RejectError(TrendfoldError):
    """A row was rejected while `on_reject="fail"` is set."""


class LimitError(TrendfoldError):
    """A limit that guards memory was reached; the message names the limit."""
