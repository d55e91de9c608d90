"""The merged template of a workload as SVG: each type once, each arrow with the queries that take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log2

from trendfold.automaton.glushkov import END, START
from trendfold.automaton.merge import ENDS
from trendfold.errors import plural
from trendfold.explain.picture import MAX_DRAWN, cut
from trendfold.explain.value import Value

MOST_PICKED = 60
"""The most queries whose arrows can be pointed out."""

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN, _LANE = 118, 40, 210, 74, 14, 20
_FIRST, _LAST = ENDS[START], ENDS[END]


@dataclass(frozen=True, slots=True)
class _Node:
    """A type in the drawing: its column, and its centre."""

    column: int
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class _Curve:
    """An arrow: its path, the corners of its head, and where its words stand."""

    path: str
    tip: str
    words: tuple[float, float]


def template_html(value: Value) -> str:
    """What queries have in common: the picture, how to read it, and the queries to point at."""
    template = value.get("template")
    if not template:
        return ""
    if len(template["types"]) > MAX_DRAWN:
        picture = f"<p>{plural(len(template['types']), 'type')}: too many to draw</p>"
    else:
        picture = _picture(template)
    return (
        f"<section><h2>What the queries have in common</h2>{picture}"
        f'<p class="legend">{_LEGEND}</p>{_groups_html(template)}</section>'
    )


def _picture(template: Value) -> str:
    arrows = template["transitions"]
    number = {name: i for i, name in enumerate(template["queries"])}
    nodes = _lay_out([_FIRST, *template["types"], _LAST], [(a["from"], a["to"]) for a in arrows])
    users: dict[str, dict[str, None]] = {type_: {} for type_ in nodes}
    for arrow in arrows:
        users[arrow["from"]] |= dict.fromkeys(arrow["queries"])
        users[arrow["to"]] |= dict.fromkeys(arrow["queries"])
    curves = _curves(nodes, [(arrow["from"], arrow["to"]) for arrow in arrows])
    drawn = [_arrow(arrow, curve, number) for arrow, curve in zip(arrows, curves, strict=True)]
    drawn += [_box(type_, node, list(users[type_]), number) for type_, node in nodes.items()]
    edges = [y for curve in curves for y in (curve.words[1] - 14, curve.words[1] + 8)]
    low = min([node.y - _HEIGHT for node in nodes.values()] + edges)
    high = max([node.y + _HEIGHT for node in nodes.values()] + edges)
    width = max(node.x for node in nodes.values()) + _WIDTH / 2 + _MARGIN
    label = f"merged template of {plural(len(number), 'query', 'queries')}: {', '.join(template['types'])}"
    return (
        f'<div class="picture"><svg width="{width:.0f}" height="{high - low:.0f}" role="img" '
        f'aria-label="{escape(cut(label, 200))}" viewBox="0 {low:.0f} {width:.0f} {high - low:.0f}">'
        f"{''.join(drawn)}</svg></div>"
    )


def _lay_out(types: Sequence[str], arrows: Sequence[tuple[str, str]]) -> dict[str, _Node]:
    """A column per longest way from the start; arrows back to earlier types do not count."""
    order = {name: i for i, name in enumerate(types)}
    column = dict.fromkeys(types, 0)
    for source, target in sorted(arrows, key=lambda arrow: order[arrow[0]]):
        if order[target] > order[source]:
            column[target] = max(column[target], column[source] + 1)
    column[_LAST] = max(column.values(), default=0) + (column[_LAST] < max(column.values()))
    beside: dict[int, list[str]] = {}
    for name in types:
        beside.setdefault(column[name], []).append(name)
    return {
        name: _Node(at, _MARGIN + _WIDTH / 2 + _ACROSS * at, _DOWN * (row - (len(names) - 1) / 2))
        for at, names in beside.items()
        for row, name in enumerate(names)
    }


def _curves(nodes: Mapping[str, _Node], arrows: Sequence[tuple[str, str]]) -> list[_Curve]:
    """The arrows' ways. One that passes columns has a height of its own beside their boxes."""
    found, passing = [], {-1: 0, 1: 0}
    for source, target in arrows:
        a, b = nodes[source], nodes[target]
        between = [node.y for node in nodes.values() if a.column < node.column < b.column]
        if a == b:
            found.append(_loop(a))
        elif b.column <= a.column:
            low = max(node.y for node in nodes.values() if b.column <= node.column <= a.column)
            found.append(_around(a, b, low + _HEIGHT / 2 + 18))
        elif between:
            side = -1 if a.y + b.y <= 0 else 1
            far = max(side * y for y in between) + _HEIGHT / 2 + 14 + _LANE * passing[side]
            passing[side] += 1
            found.append(_over(a, b, side * far))
        else:
            found.append(_over(a, b, (a.y + b.y) / 2))
    return found


def _loop(a: _Node) -> _Curve:
    top = a.y - _HEIGHT / 2
    bend = f"{a.x + 30:.0f} {top - 40:.0f} {a.x - 30:.0f} {top - 40:.0f}"
    path = f"M{a.x + 12:.0f} {top:.0f}C{bend} {a.x - 12:.0f} {top - 7:.0f}"
    tip = f"{a.x - 10:.0f},{top:.0f} {a.x - 17:.0f},{top - 7:.0f} {a.x - 7:.0f},{top - 8:.0f}"
    return _Curve(path, tip, (a.x, top - 34))


def _over(a: _Node, b: _Node, height: float) -> _Curve:
    """To a later column: past a height in the middle."""
    start, end = a.x + _WIDTH / 2, b.x - _WIDTH / 2 - 8
    reach = max(40.0, (end - start) / 3)
    lift = (height - (a.y + b.y) / 2) / 0.75  # the middle of the curve is three quarters of the way
    bend = f"{start + reach:.0f} {a.y + lift:.0f} {end - reach:.0f} {b.y + lift:.0f}"
    tip = f"{end + 8:.0f},{b.y:.0f} {end:.0f},{b.y - 4:.0f} {end:.0f},{b.y + 4:.0f}"
    return _Curve(f"M{start:.0f} {a.y:.0f}C{bend} {end:.0f} {b.y:.0f}", tip, ((start + end) / 2, height - 6))


def _around(a: _Node, b: _Node, height: float) -> _Curve:
    """Back to an earlier column, or to another box of the same: below all boxes between."""
    start, end = a.y + _HEIGHT / 2, b.y + _HEIGHT / 2
    lift = height + (height - (start + end) / 2) / 3
    bend = f"{a.x - 10:.0f} {lift:.0f} {b.x + 10:.0f} {lift:.0f}"
    path = f"M{a.x - 10:.0f} {start:.0f}C{bend} {b.x + 10:.0f} {end + 8:.0f}"
    tip = f"{b.x + 10:.0f},{end:.0f} {b.x + 6:.0f},{end + 8:.0f} {b.x + 14:.0f},{end + 8:.0f}"
    return _Curve(path, tip, ((a.x + b.x) / 2, height + 12))


def _arrow(arrow: Value, curve: _Curve, number: Mapping[str, int]) -> str:
    names = arrow["queries"]
    is_shared = len(names) > 1
    words = plural(len(names), "query", "queries") if is_shared else cut(names[0], 14)
    title = f"{arrow['from']} → {arrow['to']}: {', '.join(names)}"
    style = f"edge{' common' if is_shared else ''} {_taken_by(names, number)}"
    x, y = curve.words
    return (
        f'<g class="{style}"><title>{escape(title)}</title>'
        f'<path d="{curve.path}" style="stroke-width:{min(1.4 + log2(len(names)), 6):.1f}"/>'
        f'<polygon points="{curve.tip}"/>'
        f'<text class="small" x="{x:.0f}" y="{y:.0f}">{escape(words)}</text></g>'
    )


def _box(type_: str, node: _Node, users: Sequence[str], number: Mapping[str, int]) -> str:
    words = plural(len(users), "query", "queries") if len(users) > 1 else cut("".join(users), 16)
    title = f"{type_}: {', '.join(users)}"
    style = "box shared" if len(users) > 1 and type_ not in (_FIRST, _LAST) else "box"
    left, top = node.x - _WIDTH / 2, node.y - _HEIGHT / 2
    return (
        f'<g class="{_taken_by(users, number)}"><title>{escape(title)}</title>'
        f'<rect class="{style}" x="{left:.0f}" y="{top:.0f}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="{_HEIGHT / 2:.0f}"/>'
        f'<text x="{node.x:.0f}" y="{node.y - 2:.0f}">{escape(cut(type_, 16))}</text>'
        f'<text class="small" x="{node.x:.0f}" y="{node.y + 12:.0f}">{escape(words)}</text></g>'
    )


def _taken_by(names: Sequence[str], number: Mapping[str, int]) -> str:
    return " ".join(f"in-{number[name]}" for name in names if number[name] < MOST_PICKED)


def _groups_html(template: Value) -> str:
    """The queries that may be folded together, and those by themselves."""
    number = {name: i for i, name in enumerate(template["queries"])}
    rows = "".join(
        f"<li>{''.join(_pick(name, number[name]) for name in group['queries'])} {escape(group['how'])}</li>"
        for group in template["together"]
    )
    return f'<ul class="groups">{rows}</ul>'


def _pick(name: str, number: int) -> str:
    if number >= MOST_PICKED:
        return f'<span class="pick">{escape(name)}</span>'
    return f'<span class="pick pick-{number}" tabindex="0">{escape(name)}</span>'


def pointing_style() -> str:
    """Styles that show the way of a query while its name has the pointer or the focus."""
    found = []
    for i in range(MOST_PICKED):
        chosen = f".trendfold section:has(.pick-{i}:hover,.pick-{i}:focus)"
        found.append(f"{chosen} .in-{i}{{--line:var(--pick);--accent:var(--pick)}}")
        found.append(f"{chosen} svg g:not(.in-{i}){{opacity:.25}}")
    return "".join(found)


_LEGEND = (
    "All patterns in one picture, each type once: a trend of a query goes from <strong>⊥</strong> to "
    "<strong>⊤</strong> along the arrows that the query takes. <strong>Thick</strong> arrows and boxes "
    "are of several queries. Point at a box or an arrow to see of which, or at a query to see its way."
)
