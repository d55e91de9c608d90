"""What became of the events of a query, as a value that prints as text, JSON and HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape

from trendfold.errors import InputError, plural
from trendfold.explain.page import styled

WHY_FORMATS = ("text", "json", "html")


@dataclass(frozen=True, slots=True)
class Sieve:
    """How many of some events pass a condition, and what would let one more pass."""

    condition: str
    passed: int
    of: int
    near_miss: str = ""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The events that one position of the pattern asks for."""

    position: str
    is_negated: bool
    events: int
    sieves: tuple[Sieve, ...]
    passed: int
    """The events that satisfy every condition on this event alone."""
    near_miss: str = ""


@dataclass(frozen=True, slots=True)
class PatternStep:
    """A beginning of the pattern, the events it adds, and the number of its trends in all windows."""

    pattern: str
    added: tuple[Candidates, ...]
    trends: float | None
    """None if they must be built one by one and are over a million; beyond the range of doubles, infinity."""


@dataclass(frozen=True, slots=True)
class Loosened:
    """How many trends there would be without a clause, and how little would have to change."""

    clause: str
    trends: float
    hint: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class WhyNot:
    """Why a query has no rows, or so few: the first step at which nothing is left, and the nearest misses."""

    query: str
    text: str
    events: int
    rejects: int
    rows: int | None
    """The rows of the query itself; None if it could not be answered."""
    steps: tuple[PatternStep, ...]
    loosened: tuple[Loosened, ...]
    """Clauses that, left out, give the first empty step, or else the whole pattern, more trends."""
    having: Sieve | None
    verdict: str
    format: str = "text"

    @property
    def empty_step(self) -> PatternStep | None:
        """The first step without a trend."""
        return next((step for step in self.steps if step.trends == 0), None)

    def __str__(self) -> str:
        return {"text": self._text, "json": self.to_json, "html": self._page}[self.format]()

    __repr__ = __str__

    def to_json(self) -> str:
        """The same as JSON; a count beyond the range of doubles is the text "inf"."""
        told = {name: value for name, value in asdict(self).items() if name != "format"}
        return json.dumps(_finite(told), indent=2, ensure_ascii=False)

    def _text(self) -> str:
        return "\n".join([*_paragraph(self), "", *_align(_rows(self)), *_more(self)])

    def _page(self) -> str:
        return (
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><body>{self._repr_html_()}</body></html>'
        )

    def _repr_html_(self) -> str:
        heads = "".join(f'<th scope="col">{name}</th>' for name in _HEADS)
        rows = "".join(_row_html(row) for row in _rows(self)[1:])
        more = "".join(f"<li>{escape(line.strip())}</li>" for line in _more(self) if line.startswith("  "))
        title = f"<p><b>What if?</b></p><ul>{more}</ul>" if more else ""
        return styled(
            f"<section><h2>{escape(self.query)}</h2><p>{escape(self.verdict)}</p><pre>{escape(self.text)}</pre>"
            f"<table><tr>{heads}</tr>{rows}</table>{title}</section>"
        )


def require_why_format(format: str) -> None:
    """Raise if the format is unknown."""
    if format not in WHY_FORMATS:
        raise InputError(f"unknown format {format!r}; choose one of {', '.join(WHY_FORMATS)}")


def amount(number: float | None) -> str:
    """A number of trends as text."""
    if number is None:
        return "over 1,000,000"
    if math.isinf(number):
        return "over 1.8e308"
    return f"{number:,.0f}" if number < 1e15 else f"{number:.3g}"


def amount_of_trends(number: float | None) -> str:
    """A number of trends with its noun."""
    return f"{amount(number)} trend{'' if number == 1 else 's'}"


_Row = tuple[str, str, str]
_HEADS = ("step", "events", "partial trends")


def _paragraph(why: WhyNot) -> list[str]:
    return [f"{why.query}: {why.verdict}", "", *(f"    {line}" for line in why.text.splitlines())]


def _rows(why: WhyNot) -> list[_Row]:
    found: list[_Row] = [_HEADS]
    for number, step in enumerate(why.steps, start=1):
        mark = "  <- nothing is left" if step is why.empty_step else ""
        found.append((f"{number}. {step.pattern}", "", amount(step.trends) + mark))
        for each in step.added:
            found += _candidates(each)
    if why.having is not None:
        found += [
            (f"HAVING {why.having.condition}", f"{why.having.passed:,}", f"of {plural(why.having.of, 'row')}")
        ]
        found += [(f"    {why.having.near_miss}", "", "")] if why.having.near_miss else []
    return found


def _candidates(each: Candidates) -> Iterator[_Row]:
    yield f"   {'NOT ' * each.is_negated}{each.position}", f"{each.events:,}", ""
    if each.near_miss:
        yield f"      {each.near_miss}", "", ""
    for sieve in each.sieves:
        yield f"      {sieve.condition}", f"{sieve.passed:,}", ""
        if sieve.near_miss:
            yield f"         {sieve.near_miss}", "", ""
    if len(each.sieves) > 1:
        yield "      all of these", f"{each.passed:,}", ""


def _align(rows: Sequence[_Row]) -> list[str]:
    lefts = [len(first) for first, second, third in rows if second or third]
    left, middle = max(lefts), max(len(second) for _, second, _ in rows)
    return [f"{a:{left}}  {b:>{middle}}  {c}".rstrip() for a, b, c in rows]


def _more(why: WhyNot) -> list[str]:
    if not why.loosened:
        return []
    width = max(len(each.clause) for each in why.loosened)
    lines = [
        f"  without {each.clause:{width}}  {amount_of_trends(each.trends)}"
        + (f"; {each.hint}" if each.hint else "")
        for each in why.loosened
    ]
    return ["", "What if?", *lines]


def _row_html(row: _Row) -> str:
    name, events, trends = row
    indent = (len(name) - len(name.lstrip())) * 0.45
    cells = f'<td style="padding-left:{indent:.1f}em">{escape(name.strip())}</td>'
    return f'<tr>{cells}<td class="number">{escape(events)}</td><td>{escape(trends)}</td></tr>'


def _finite(value: object) -> object:
    match value:
        case dict():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case float() if math.isinf(value):
            return "inf"
        case float() if value.is_integer() and value < 2**53:
            return int(value)
    return value
