"""Plans as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from textwrap import wrap

from trendfold.explain.sections import Row, Section, blocks
from trendfold.explain.value import Value

WIDTH = 100
_INDENT, _TITLE = 2, 12


def to_text(value: Value) -> str:
    """Plans as aligned text, no line longer than 100 characters."""
    return "\n\n\n".join(_query_text(query) for query in value["queries"])


def _query_text(value: Value) -> str:
    name = wrap(value["query"], WIDTH) or [""]
    lines = [*name, "=" * max(map(len, name)), ""]
    for clause in value["text"].splitlines():
        lines += wrap(clause, WIDTH, initial_indent="    ", subsequent_indent=" " * 8)
    for heading, sections in blocks(value):
        lines += ["", *wrap(heading, WIDTH)]
        for section in sections:
            lines += _section_lines(section)
    return "\n".join(lines)


def _section_lines(section: Section) -> list[str]:
    margin = " " * (_INDENT + _TITLE)
    table = _align(section.rows, WIDTH - len(margin))
    first = f"{'':{_INDENT}}{section.title:{_TITLE}}{table[0]}"
    return [line.rstrip() for line in (first, *(margin + line for line in table[1:]))]


def _align(rows: Sequence[Row], room: int) -> list[str]:
    """Align rows in columns within `room` characters; long cells are wrapped."""
    if len(rows[-1]) < len(rows[0]):  # the note under a truncated table spans all columns
        return [*_align(rows[:-1], room), *_align(rows[-1:], room)]
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns]
    while sum(widths) + 2 * (len(widths) - 1) > room:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in zip(*columns, strict=True):
        cells = [wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            lines.append("  ".join(f"{part:{width}}" for part, width in zip(parts, widths, strict=True)))
    return lines
