"""Plans as an HTML page, or as a fragment for notebooks."""

from __future__ import annotations

from html import escape

from trendfold.explain.multitree_picture import picture_joins
from trendfold.explain.path_picture import path_picture
from trendfold.explain.picture import MAX_DRAWN, picture
from trendfold.explain.sections import Section, blocks
from trendfold.explain.value import Value


def to_html(value: Value) -> str:
    """Plans as one self-contained HTML page."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>trendfold</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f'<body style="margin:0">{fragment(value)}</body></html>\n'
    )


def fragment(value: Value) -> str:
    """An HTML fragment for notebooks; its styles do not affect the rest of the page."""
    return styled("\n".join(_query_html(query) for query in value["queries"]))


def styled(html: str) -> str:
    """HTML with the styles that all fragments share."""
    return f'<div class="trendfold"><style>{_style()}</style>\n{html}</div>'


def _query_html(value: Value) -> str:
    parts = [f"<h2>{escape(value['query'])}</h2><pre>{escape(value['text'])}</pre>"]
    parts.append(picture_joins(value["matches"]) if "matches" in value else "")
    operands = [None, *value.get("operands", ())]
    for (heading, sections), operand in zip(blocks(value), operands, strict=True):
        parts.append(f"<h3>{escape(heading)}</h3>" if heading else "")
        parts.append(path_picture(value.get("sharing", {})) if operand is None else picture(operand))
        parts += [_section_html(section) for section in sections]
    return f"<section>{''.join(parts)}</section>"


def _section_html(section: Section) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in section.rows)
    return f"<details open><summary>{escape(section.title)}</summary><table>{rows}</table></details>"


def _style() -> str:
    """Styles for light and dark mode; hovering a place highlights its edges."""
    touching = "".join(
        f".trendfold svg:has(.at-{i}:hover) .touch-{i}{{stroke:var(--accent);fill:var(--accent)}}"
        for i in range(MAX_DRAWN + 2)
    )
    return _STYLE + touching


_STYLE = """
.trendfold{--ink:#1c2330;--soft:#667085;--line:#98a2b3;--paper:#fff;--panel:#f4f6f9;--accent:#1f6feb;--not:#b42318;
background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,sans-serif;padding:1rem 1.5rem}
@media (prefers-color-scheme:dark){.trendfold{--ink:#e6e9ef;--soft:#98a2b3;--line:#667085;--paper:#12161d;
--panel:#1b212b;--accent:#6cb0ff;--not:#ff8a7a}}
.trendfold section{max-width:70rem;margin:0 auto 2.5rem}
.trendfold pre{background:var(--panel);color:var(--ink);padding:.7rem 1rem;border-radius:6px;
white-space:pre-wrap}
.trendfold details{display:grid;margin:.3rem 0}
.trendfold summary{cursor:pointer;color:var(--soft)}
.trendfold table{border-collapse:collapse;margin:.1rem 0 .4rem 1rem}
.trendfold td{padding:.1rem 1.2rem .1rem 0;text-align:left;vertical-align:top;border:0;overflow-wrap:anywhere}
.trendfold th{padding:.1rem 1.2rem .1rem 0;text-align:left;color:var(--soft);font-weight:normal}
.trendfold td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.trendfold .picture{overflow-x:auto}
.trendfold svg .box{fill:var(--panel);stroke:var(--line)}
.trendfold svg .shared{stroke:var(--accent);stroke-width:2}
.trendfold svg g:hover>.box{stroke:var(--accent)}
.trendfold svg text{fill:var(--ink);font:12px system-ui,sans-serif;text-anchor:middle}
.trendfold svg .small{fill:var(--soft);font-size:11px}
.trendfold svg .chosen{fill:var(--panel);stroke:var(--accent);stroke-width:1.6}
.trendfold svg .pruned{fill:none;stroke:var(--line);stroke-dasharray:4 3}
.trendfold svg .not{fill:var(--not)}
.trendfold svg .edge{stroke:var(--line);stroke-width:1.4}
.trendfold svg .edge path{fill:none}
.trendfold svg .edge polygon{fill:var(--line)}
.trendfold svg .edge:hover{stroke:var(--accent)}
.trendfold svg .edge text{stroke:none}
"""
