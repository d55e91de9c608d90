"""Tables as text for people: counts without decimals, times in ISO 8601, nothing for null."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from trendfold.errors import printable

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_SHOWN = 20
"""The most rows of a query shown on a terminal, or by `print(result)`."""


def table_lines(table: pa.Table) -> Iterator[str]:
    """A head, a rule, and a line per row."""
    heads, cells = list(map(printable, table.column_names)), text_cells(table)
    widths = [max([len(head), *map(len, column)]) for head, column in zip(heads, cells, strict=True)]
    right = [not is_text(field.type) for field in table.schema]
    for row in [heads, ["-" * width for width in widths], *zip(*cells, strict=True)]:
        padded = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(row, widths, right, strict=True))
        yield "  ".join(padded).rstrip()


def text_cells(table: pa.Table) -> list[list[str]]:
    """The formatted values of each column."""
    return [[_cell(value) for value in column.to_pylist()] for column in table.columns]


def is_text(kind: pa.DataType) -> bool:
    """Whether a column is aligned left."""
    import pyarrow as pa

    is_words = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_list(kind)
    return bool(is_words or pa.types.is_temporal(kind))


def _cell(value: object) -> str:
    """Format a value: counts without decimals, other numbers with six digits, null as empty."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float() if math.isfinite(value) and value == int(value) and abs(value) < 2**53:
            return f"{int(value):,}"
        case float():
            return f"{value:.6g}"
        case datetime():
            return value.isoformat(" ", "auto").replace("+00:00", "Z")
        case list():  # the events of a match
            return ", ".join(map(_cell, value))
        case dict():
            return " ".join(_attribute(name, each) for name, each in value.items())
        case _:
            return printable(str(value))


def _attribute(name: str, value: object) -> str:
    """Format an attribute of an event: id and time without, others with their name."""
    match name:
        case "id":
            return f"#{_cell(value)}"
        case "time":
            return f"at {_cell(value)}"
        case _:
            return f"{printable(name)}={_cell(value)}"
