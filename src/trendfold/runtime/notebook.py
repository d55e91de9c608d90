"""What a notebook shows: summaries, rows, plans and streams as HTML, and a bar while a workload runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from trendfold.errors import plural

ROWS = 10
"""The most rows of a query that a notebook shows."""
_EVERY = 2.0
"""Seconds between two looks at a running stream."""


def facts_html(facts: Mapping[str, object], notes: Iterable[str] = ()) -> str:
    """Names and values side by side, and notes below."""
    cells = "".join(
        f'<div style="margin-right:2em"><small style="opacity:.7">{escape(name)}</small><br>'
        f"<b>{escape(str(value))}</b></div>"
        for name, value in facts.items()
    )
    told = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<div style="display:flex;flex-wrap:wrap">{cells}</div>' + (f"<ul>{told}</ul>" if told else "")


def table_html(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """A table with its title."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(cell))}</td>' for cell in row)}</tr>" for row in rows)
    foot = f"<small>{escape(note)}</small>" if note else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p><b>{escape(title)}</b></p>{table}{foot}"


def rows_html(name: str, table: Any, total: int) -> str:
    """The first rows of a query."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    note = f"... and {plural(total - table.num_rows, 'more row')}" if total > table.num_rows else ""
    return table_html(f"{name}: {plural(total, 'row')}", table.column_names, rows, note)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:,.6g}"
    return "" if value is None else str(value).removesuffix("+00:00")


# ---------------------------------------------------------------- while something runs


def is_notebook() -> bool:
    """Whether this is a Jupyter kernel."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return hasattr(found, "kernel")


def progress_bar() -> Callable[[str, int, int], None] | None:
    """Tell of progress in the cell that runs; None outside of a notebook. The bar goes when all is done."""
    if not is_notebook():
        return None
    from IPython.display import HTML, display

    cell = display(HTML(""), display_id=True)
    last = 0.0

    def tell(name: str, done: int, total: int) -> None:
        nonlocal last
        if done < total and time.monotonic() - last < 0.1:
            return
        last = time.monotonic()
        bar = f'<progress value="{done}" max="{total}" aria-label="queries done"></progress>'
        told = f"{bar} {done:,} of {plural(total, 'query', 'queries')} ({escape(name)})"
        cell.update(HTML(told if done < total else ""))

    return tell


def show_live(html: Callable[[], str], is_running: Callable[[], bool]) -> None:
    """Show something in this cell, again and again while it runs."""
    from IPython.display import HTML, display

    cell = display(HTML(html()), display_id=True)

    def follow() -> None:
        while is_running():
            time.sleep(_EVERY)
            cell.update(HTML(html()))

    if cell is not None:
        threading.Thread(target=follow, name="trendfold-display", daemon=True).start()
