"""The demo's report: one self-contained HTML page, without scripts or network access."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from trendfold import api
from trendfold.cli.plot import figures
from trendfold.errors import plural
from trendfold.query import to_text
from trendfold.query.names import key_column
from trendfold.query.nodes import Query

if TYPE_CHECKING:
    import pyarrow as pa

    from trendfold.runtime.result import Summary


def report(workload: api.Workload, tables: Mapping[str, pa.Table], summary: Summary) -> str:
    """The page: a summary, each query with plots of its results over time, and the plans."""
    parts = [
        "<h1>Event trends of generated rides, counted without building them</h1>",
        _summary(summary),
        *(_query(query, tables[query.name], summary) for query in workload),
        "<h2>How it was computed</h2>",
        workload.explain()._repr_html_(),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>trendfold: demo</title><style>{_STYLE}</style>"
    )
    body = f"<body><main>{''.join(parts)}</main></body>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n'


def _summary(summary: Summary) -> str:
    facts = {
        "engine": summary.engine,
        "events": f"{summary.events:,}",
        "rejects": f"{summary.rejects:,}",
        "windows": f"{summary.windows:,}",
        "rows": f"{sum(summary.rows.values()):,}",
        "seconds": f"{summary.seconds:.2f}",
    }
    cells = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    warnings = "".join(f"<p>warning: {escape(warning)}</p>" for warning in summary.warnings)
    told = escape(str(summary).partition("\n")[0])
    return f'<dl class="facts">{cells}</dl><p class="soft">{told}</p>{warnings}'


def _query(query: Query, table: pa.Table, summary: Summary) -> str:
    keys = [key_column(query, key) for key in query.group_by]
    shown = "".join(
        f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"
        for caption, svg in figures(table, keys).items()
    )
    way = summary.routes.get(query.name)
    told = f"{plural(summary.rows[query.name], 'row')}, strategy {summary.strategy[query.name]}" + (
        f", {way} on Spark" if way else ""
    )
    return (
        f"<section><h2>{escape(query.name)}</h2><pre>{escape(to_text(query))}</pre>"
        f'<p class="soft">{escape(told)}</p>{shown}</section>'
    )


_STYLE = """
:root{--ink:#1c2330;--soft:#667085;--rule:#e2e8f0;--paper:#fff;--panel:#f4f6f9;--accent:#2563eb}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--rule:#2b3340;--paper:#12161d;
--panel:#1b212b;--accent:#6cb0ff}}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.6rem}
pre{background:var(--panel);padding:.7rem 1rem;border-radius:6px;white-space:pre-wrap}
figure{margin:1rem 0}
figcaption,.soft{color:var(--soft)}
.facts{display:flex;flex-wrap:wrap;gap:.6rem 2.2rem;margin:1rem 0 0}
.facts dt{color:var(--soft);font-size:.85rem}
.facts dd{margin:0;font-size:1.3rem;font-weight:600}
figure svg{width:100%;height:auto;font:12px system-ui,sans-serif}
figure svg text{fill:var(--soft)}
figure svg .grid{stroke:var(--rule)}
figure svg .bar{fill:var(--accent)}
figure svg .band{fill:var(--accent);opacity:.18}
figure svg .line{fill:none;stroke:var(--accent);stroke-width:1.6}
main .trendfold{padding:0}
"""
