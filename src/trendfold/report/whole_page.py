"""The report: a page that needs no network. Answers in words first, then charts and tables, then the plan."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

from trendfold.errors import UnsupportedError, plural
from trendfold.explain import explain
from trendfold.query import to_text
from trendfold.query.nodes import Query
from trendfold.report.charts import Figure, figures
from trendfold.report.view import QueryView, view_of
from trendfold.report.words import headline, sentences
from trendfold.runtime.result import Result, Summary

MOST_ROWS = 1_000
"""The most rows of a table on the page."""
FIRST_PICKED = 4
"""How many groups are drawn until others are picked."""
MANY = 12
"""More queries are listed in columns."""
MOST_DRAWN = 30
"""The most queries with charts and tables; others are told in words."""


def report_page(result: Result, title: str = "") -> str:
    """The page of a result."""
    views = [view_of(query, result[query.name], result.summary.rows[query.name]) for query in result.queries]
    parts = [
        _header(title or _title(result.queries), result.summary),
        _contents(views) if len(views) > 1 else "",
        *(_section(view, i < MOST_DRAWN) for i, view in enumerate(views)),
        _plan(result),
    ]
    return _page(title or _title(result.queries), "".join(parts))


def failure_page(queries: Sequence[Query], error: BaseException, title: str = "") -> str:
    """The page of a run that failed: what went wrong, and the queries."""
    texts = "".join(f"<pre>{escape(to_text(query))}</pre>" for query in queries)
    body = (
        f"<header><h1>{escape(title or _title(queries))}</h1></header>"
        '<section class="failed" role="alert"><h2>The run failed</h2>'
        f"<pre>{escape(str(error))}</pre></section>"
        f"<section><h2>{plural(len(queries), 'query', 'queries')}</h2>{texts}</section>"
    )
    return _page(title or _title(queries), body, has_charts=False)


def _title(queries: Sequence[Query]) -> str:
    names = ", ".join(query.name for query in queries[:3])
    return names + (f" and {len(queries) - 3:,} more" if len(queries) > 3 else "")


def _page(title: str, body: str, has_charts: bool = True) -> str:
    bundle = f"<script>{_bundle()}</script>" if has_charts and "data-chart" in body else ""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{_asset('report.css')}</style>"
    )
    scripts = f"{bundle}<script>{_asset('report.js')}</script>"
    shown = f"<body><main>{body}</main>{scripts}</body>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{shown}</html>\n'


_EXPORT = "window.vegaEmbed = vegaEmbed;"
"""What the bundle shows to the page's own script."""


@lru_cache
def _asset(name: str) -> str:
    return files("trendfold.report").joinpath(name).read_text(encoding="utf-8")


@lru_cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed, as one script."""
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise UnsupportedError("reports need vl-convert-python; pip install 'trendfold[report]'") from None
    return str(vl_convert.javascript_bundle(_EXPORT)).replace("</script", "<\\/script")


# ---------------------------------------------------------------- above the queries


def _header(title: str, summary: Summary) -> str:
    facts = {
        "events": f"{summary.events:,}",
        "rejected": f"{summary.rejects:,}",
        "windows": f"{summary.windows:,}",
        "rows": f"{sum(summary.rows.values()):,}",
        "seconds": f"{summary.seconds:.2f}",
        "engine": summary.engine,
    }
    if not summary.windows:  # of matches
        del facts["windows"]
    cells = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    warnings = "".join(f"<li>{escape(each)}</li>" for each in summary.warnings)
    told = f'<ul class="warnings" aria-label="Warnings">{warnings}</ul>' if warnings else ""
    return (
        f'<header><h1>{escape(title)}</h1><dl class="facts">{cells}</dl>{_rejected(summary)}{told}</header>'
    )


def _rejected(summary: Summary) -> str:
    if not summary.has_no_events:
        return ""
    reasons = "; ".join(f"{count:,} × {reason}" for reason, count in summary.reject_reasons.items())
    return (
        '<p class="failed" role="alert">No row could be read as an event: '
        f"all {summary.rejects:,} are rejected ({escape(reasons)}).</p>"
    )


def _contents(views: Sequence[QueryView]) -> str:
    items = "".join(
        f'<li><a href="#{_anchor(view)}"><span>{escape(view.name)}</span> '
        f"<b>{escape(headline(view))}</b></a></li>"
        for view in views
    )
    many = ' class="many"' if len(views) > MANY else ""
    return f'<nav aria-label="Queries"{many}><ul>{items}</ul></nav>'


def _anchor(view: QueryView) -> str:
    return "q-" + "".join(c if c.isalnum() else f"-{ord(c)}-" for c in view.name)


# ---------------------------------------------------------------- a query


def _section(view: QueryView, is_drawn: bool) -> str:
    first, *others = sentences(view)
    drawn = figures(view) if is_drawn else ()
    face = "" if view.rows else ' class="empty"'
    parts = [
        f"<h2>{escape(view.name)}</h2>",
        f'<p class="question">{escape(asked)}</p>' if (asked := question(view.query)) else "",
        f'<p class="answer">{escape(first)}</p>',
        f"<p>{escape(' '.join(others))}</p>" if others else "",
        f"<details><summary>The query</summary><pre>{escape(to_text(view.query))}</pre></details>",
        *(_figure(view, figure, i) for i, figure in enumerate(drawn)),
        _table(view) if view.rows and is_drawn else "",
    ]
    return f'<section id="{_anchor(view)}"{face}>{"".join(parts)}</section>'


def _figure(view: QueryView, figure: Figure, number: int) -> str:
    key = f"{_anchor(view)}-{number}"
    chips = "".join(
        f'<button type="button" class="chip" aria-pressed="{_is_picked(i, figure)}" '
        f'data-group="{escape(name)}">'
        f'<i data-color="{i}"></i>{escape(name)}</button>'
        for i, name in enumerate(figure.groups)
    )
    picker = (
        f'<div class="chips" role="group" aria-label="Groups by {escape(view.group_title)}">'
        f"<span>{escape(view.group_title)}</span>{chips}</div>"
        if chips
        else ""
    )
    spec = _script(figure.chart.to_dict())
    label = f"{figure.title} of {view.name}. {' '.join(sentences(view))}"
    return (
        f"<figure><h3>{escape(figure.title)}</h3>{picker}"
        f'<div class="chart" role="img" aria-label="{escape(label)}" data-chart="{key}"></div>'
        f'<script type="application/json" id="{key}">{spec}</script>'
        f"<figcaption>{escape(figure.note)}</figcaption></figure>"
    )


def question(query: Query) -> str:
    """The comment right above a query: what it is asked for."""
    lines = []
    for line in reversed(query.text[: query.span.start].rstrip(" \t").splitlines()):
        if not line.strip().startswith("--"):
            break
        lines.append(line.strip().removeprefix("--").strip())
    return " ".join(reversed(lines))


def _is_picked(number: int, figure: Figure) -> str:
    """Whether a group is drawn at first: more than a few lines cannot be told apart."""
    return "true" if number < FIRST_PICKED or len(figure.groups) <= FIRST_PICKED + 1 else "false"


def _table(view: QueryView) -> str:
    """The rows, some of them if they are many, to sort and filter."""
    key = f"{_anchor(view)}-rows"
    table = view.table
    step = max(1, -(-table.num_rows // MOST_ROWS))
    shown = table.take(list(range(0, table.num_rows, step))) if step > 1 else table
    names = shown.column_names
    columns = [[_cell(value) for value in shown.column(i).to_pylist()] for i in range(len(names))]
    value = {"columns": names, "rows": list(zip(*columns, strict=True))}
    sampled = (
        f'<p class="sampled">These are {len(columns[0]):,} of {view.rows:,} rows: a sample, evenly over all '
        "of them.</p>"
        if len(columns[0]) < view.rows
        else ""
    )
    return (
        f'<details class="rows"><summary>{plural(view.rows, "row")} as a table</summary>{sampled}'
        '<label>Filter <input type="search" placeholder="any text, or column:text"></label>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Rows of {escape(view.name)}">'
        f'<table data-table="{key}"></table></div><p class="count" aria-live="polite"></p>'
        f'<script type="application/json" id="{key}">{_script(value)}</script></details>'
    )


def _cell(value: object) -> object:
    """A value of the table: numbers stay numbers, so that they sort as such."""
    match value:
        case None | bool() | int() if not isinstance(value, int) or abs(value) < 2**53:
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case list():
            return ", ".join(str(event.get("id", event.get("time"))) for event in value)
    return str(value).removesuffix("+00:00")


def _script(value: Mapping[str, Any]) -> str:
    """JSON that cannot end the script it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _plan(result: Result) -> str:
    told = explain(result.queries[:MOST_DRAWN], ran=result.plan)._repr_html_()
    return f"<details class='plan'><summary>How it was computed</summary>{told}</details>"
