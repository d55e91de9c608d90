"""A funnel's result: its table, and a picture of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import Any

import pyarrow as pa

from trendfold.errors import plural
from trendfold.query.funnel_question import FunnelQuestion
from trendfold.query.printer import to_text
from trendfold.runtime.result import to_frame_of_polars
from trendfold.runtime.text_tables import table_lines


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many keys reached each step: `table` has a row per step, and per period if there are several."""

    question: FunnelQuestion = field(repr=False)
    table: pa.Table = field(repr=False)
    engine: str
    events: int
    rejects: int
    seconds: float
    warnings: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The query of the last step."""
        return to_text(self.question.query)

    @property
    def summary(self) -> str:
        """Counts and time, notices and warnings."""
        told = f"{plural(self.events, 'event')}, {plural(self.rejects, 'reject')}"
        return "\n".join(
            [
                f"{told} in {self.seconds:.2f} s ({self.engine})",
                *(f"notice: {notice}" for notice in self.notices),
                *(f"warning: {warning}" for warning in self.warnings),
            ]
        )

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """The table as a polars DataFrame."""
        return to_frame_of_polars(self.table)

    def svg(self) -> str:
        """A bar per step; with periods, a group of bars for each."""
        return _svg(self.table.to_pylist())

    def __str__(self) -> str:
        return "\n".join(table_lines(self.table))

    def _repr_html_(self) -> str:
        return self.svg()


_WIDTH, _LEFT, _RIGHT, _BAR, _LINE = 760, 150, 190, 22, 28


def _svg(rows: list[dict[str, Any]]) -> str:
    most = max((row["keys"] for row in rows), default=0) or 1
    parts, y = [], 8
    for start, steps in groupby(rows, key=lambda row: row.get("window_start")):
        if start is not None:
            parts.append(f'<text x="{_LEFT}" y="{y + 14}" font-weight="600">{escape(str(start))}</text>')
            y += _LINE
        for row in steps:
            parts.append(_bar(row, y, (_WIDTH - _LEFT - _RIGHT) * row["keys"] / most))
            y += _LINE
    head = f'viewBox="0 0 {_WIDTH} {y + 4}" width="{_WIDTH}" role="img" aria-label="funnel"'
    style = "font:13px system-ui,sans-serif;fill:currentColor"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {head} style="{style}">{"".join(parts)}</svg>'


def _bar(row: dict[str, Any], y: int, length: float) -> str:
    told, shown = f"{row['keys']:,}", max(1.0, length)
    if row["of_previous"] is not None:
        told += f" · {row['of_first']:.1%} of all, {row['of_previous']:.1%} of the step before"
    name = escape(row["name"])
    median = row["median_seconds"]
    tip = name if median is None else f"{name}: half of them within {median:,.6g} s of the step before"
    return (
        f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end">{name}</text>'
        f'<rect x="{_LEFT}" y="{y}" width="{shown:.1f}" height="{_BAR}" fill="#2563eb" opacity="0.8">'
        f"<title>{tip}</title></rect>"
        f'<text x="{_LEFT + shown + 8:.1f}" y="{y + 15}" font-size="11">{told}</text>'
    )
