"""Plans as an HTML page, or as a fragment for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from trendfold.errors import plural
from trendfold.explain.multitree_picture import picture_joins
from trendfold.explain.path_picture import path_picture
from trendfold.explain.picture import MAX_DRAWN, picture
from trendfold.explain.sections import Section, blocks
from trendfold.explain.template_picture import pointing_style, template_html
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
    queries = "\n".join(_query_html(query) for query in value["queries"])
    return styled(template_html(value) + _shares_html(value["queries"]) + queries)


def styled(html: str) -> str:
    """HTML with the styles that all fragments share."""
    return f'<div class="trendfold"><style>{_style()}</style>\n{html}</div>'


def _shares_html(queries: Sequence[Value]) -> str:
    """Who is folded together with whom, and what each fold took; empty for one query or without data."""
    folds: dict[tuple[str, ...], Value] = {}
    for query in queries:
        for step in query.get("steps", ()):
            names = tuple(sorted({query["query"], *step["with"]}))
            folds[(step["way"], *names)] = step
    if len(queries) < 2 or not folds:
        return ""
    longest = max(step["seconds"] for step in folds.values())
    rows = "".join(_fold_html(names[1:], step, longest) for names, step in folds.items())
    heads = "".join(
        f'<th scope="col">{name}</th>' for name in ("queries folded together", "how", "rows", "time")
    )
    return f"<section><h2>Who shares what</h2><table><tr>{heads}</tr>{rows}</table></section>"


def _fold_html(names: Sequence[str], step: Value, longest: float) -> str:
    shown = ", ".join(names[:_MOST_NAMES]) + (
        f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    )
    width = 100 * step["seconds"] / longest if longest else 0
    bar = f'<div class="bar" style="width:{width:.0f}%"></div>' if width else ""
    seconds = f"{step['seconds']:.3f} s" if step["seconds"] else "not run"
    return (
        f"<tr><td>{escape(shown)}</td><td>{escape(step['way'])}<br><small>{escape(step['why'])}</small></td>"
        f'<td class="number">{step["rows"]:,}</td><td>{seconds}{bar}</td></tr>'
    )


def _query_html(value: Value) -> str:
    """The pictures of a query first, with what it took, then its text and the tables."""
    parts = [f"<h2>{escape(value['query'])}</h2>", _took_html(value.get("steps", ()))]
    parts.append(picture_joins(value["matches"]) if "matches" in value else "")
    parts.append(path_picture(value.get("sharing", {})))
    operands = value.get("operands", ())
    took = _took(value.get("steps", ()))
    drawn = "".join(_operand_picture(operand, len(operands) > 1, took) for operand in operands)
    parts.append(drawn + _LEGEND if drawn else "")
    parts.append(f"<pre>{escape(value['text'])}</pre>")
    for heading, sections in blocks(value):
        parts.append(f"<h3>{escape(heading)}</h3>" if heading else "")
        parts += [_section_html(section) for section in sections]
    return f"<section>{''.join(parts)}</section>"


def _operand_picture(operand: Value, has_title: bool, took: Mapping[str, str]) -> str:
    return (f"<h3>{escape(operand['pattern'])}</h3>" if has_title else "") + picture(operand, took)


def _took(steps: Sequence[Value]) -> dict[str, str]:
    """Words below the places of a picture: the rows read, at its start; the time of a run, at its end."""
    if not steps:
        return {}
    read = {"⊥": plural(max(step["rows"] for step in steps), "row")}
    seconds = sum(step["seconds"] for step in steps)
    return read | ({"⊤": f"{seconds:.3f} s"} if seconds else {})


def _took_html(steps: Sequence[Value]) -> str:
    """Rows and time of the folds of a query that ran."""
    took = _took(steps)
    if "⊤" not in took:
        return ""
    others = len({name for step in steps for name in step["with"]})
    shared = f", together with {plural(others, 'other query', 'other queries')}" if others else ""
    return f"<p><strong>{took['⊥']}</strong> in <strong>{took['⊤']}</strong>{shared}</p>"


def _section_html(section: Section) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in section.rows)
    return f"<details open><summary>{escape(section.title)}</summary><table>{rows}</table></details>"


def _style() -> str:
    """Styles for light and dark mode; hovering a place highlights its edges."""
    touching = "".join(
        f".trendfold svg:has(.at-{i}:hover) .touch-{i}{{stroke:var(--accent);fill:var(--accent)}}"
        for i in range(MAX_DRAWN + 2)
    )
    return _STYLE + touching + pointing_style()


_MOST_NAMES = 12
_LEGEND = (
    '<p class="legend">A trend goes from <strong>⊥</strong> along the arrows to <strong>⊤</strong>. '
    "A <strong>box</strong> is an event of the pattern; below its name stands how finely its partial trends "
    "are kept. An <strong>arrow</strong> leads to the event that may come next; on it stand the "
    '<strong>conditions</strong> between the two and, in <strong class="not">red</strong>, what may not lie '
    "between. Point at a box to see its arrows.</p>"
)
"""How to read the picture of an automaton."""

_STYLE = """
.trendfold{--ink:#1c2330;--soft:#667085;--line:#98a2b3;--paper:#fff;--panel:#f4f6f9;--accent:#1f6feb;--not:#b42318;--pick:#b8256f;
background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,sans-serif;padding:1rem 1.5rem}
@media (prefers-color-scheme:dark){.trendfold{--ink:#e6e9ef;--soft:#98a2b3;--line:#667085;--paper:#12161d;
--panel:#1b212b;--accent:#6cb0ff;--not:#ff8a7a;--pick:#f58bbf}}
.trendfold section{max-width:70rem;margin:0 auto 2.5rem}
.trendfold h2,.trendfold h3{font:600 1.3rem/1.4 system-ui,sans-serif;letter-spacing:normal;margin:0 0 .4rem}
.trendfold h3{font-size:1rem;margin:.6rem 0 .3rem}
.trendfold pre{background:var(--panel);color:var(--ink);padding:.7rem 1rem;border-radius:6px;
white-space:pre-wrap}
.trendfold details{display:grid;margin:.3rem 0}
.trendfold summary{cursor:pointer;color:var(--soft)}
.trendfold table{border-collapse:collapse;margin:.1rem 0 .4rem 1rem}
.trendfold td{padding:.1rem 1.2rem .1rem 0;text-align:left;vertical-align:top;border:0;overflow-wrap:anywhere}
.trendfold th{padding:.1rem 1.2rem .1rem 0;text-align:left;color:var(--soft);font-weight:normal}
.trendfold td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.trendfold .legend{color:var(--soft);font-size:.9em;max-width:48rem}
.trendfold .legend .not{color:var(--not)}
.trendfold .groups{list-style:none;margin:.4rem 0;padding:0}
.trendfold .groups li{margin:.3rem 0;color:var(--soft)}
.trendfold .pick{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:0 .6rem;
margin:0 .3rem .2rem 0;color:var(--ink);cursor:default}
.trendfold .pick:hover,.trendfold .pick:focus{border-color:var(--pick);outline:1px solid var(--pick)}
.trendfold .bar{height:6px;border-radius:3px;background:var(--accent);min-width:2px}
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
.trendfold svg .edge text{stroke:var(--paper);stroke-width:3px;paint-order:stroke}
.trendfold svg .common,.trendfold svg .common polygon{stroke:var(--accent);fill:var(--accent)}
.trendfold svg .took{fill:var(--ink);font-weight:600}
"""
