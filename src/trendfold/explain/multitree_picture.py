"""The joins of a query that returns matches, as SVG: leaves on the left, roots on the right."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from trendfold.errors import plural
from trendfold.explain.picture import MAX_DRAWN, cut
from trendfold.explain.sections import held_between, partial_matches
from trendfold.explain.value import Value

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN, _LETTERS = 190, 58, 250, 78, 12, 28


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a node is drawn: its number in the drawing, its left edge, and its vertical centre."""

    number: int
    x: float
    y: float


def picture_joins(matches: Value) -> str:
    """The multitree of a query with shared nodes marked, and partial matches per node."""
    nodes = {node["number"]: node for node in matches["nodes"]}
    if not nodes:
        return ""
    if len(nodes) > MAX_DRAWN:
        return f"<p>{plural(len(nodes), 'node')}: too many to draw</p>"
    spots = _lay_out(nodes, [clause["node"] for clause in matches["clauses"] if clause["node"] is not None])
    roots = {clause["node"]: k for k, clause in enumerate(matches["clauses"], 1)}
    drawn = [
        _edge(spots[child], spots[number]) for number, node in nodes.items() for child in node["joins"] or ()
    ]
    drawn += [
        _box(node, spots[number], matches["is_measured"], roots.get(number)) for number, node in nodes.items()
    ]
    width = max(spot.x for spot in spots.values()) + _WIDTH + _MARGIN
    height = max(spot.y for spot in spots.values()) + _HEIGHT / 2 + _MARGIN
    return (
        f'<div class="picture"><svg width="{width:.0f}" height="{height:.0f}" role="img" aria-label="joins" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">{"".join(drawn)}</svg></div>'
    )


def _lay_out(nodes: dict[int, Value], roots: list[int]) -> dict[int, _Spot]:
    """Columns by height in the tree; rows so that a join is centred between its children."""
    depth: dict[int, int] = {}
    rows: dict[int, float] = {}

    def visit(number: int) -> None:
        if number in depth:
            return
        below = nodes[number]["joins"] or ()
        for child in below:
            visit(child)
        column = 1 + max((depth[child] for child in below), default=-1)
        beside = [rows[other] for other, at in depth.items() if at == column]
        row = sum(rows[child] for child in below) / 2
        while any(abs(row - other) < 1 for other in beside):
            row += 0.5
        depth[number], rows[number] = column, row

    for root in roots:
        visit(root)
    return {
        node: _Spot(number, _MARGIN + _ACROSS * depth[node], _MARGIN + _HEIGHT / 2 + _DOWN * row)
        for number, (node, row) in enumerate(rows.items())
    }


def _edge(child: _Spot, parent: _Spot) -> str:
    start, middle = child.x + _WIDTH, (child.x + _WIDTH + parent.x) / 2
    bend = f"{middle:.0f} {child.y:.0f} {middle:.0f} {parent.y:.0f}"
    path = f"M{start:.0f} {child.y:.0f}C{bend} {parent.x:.0f} {parent.y:.0f}"
    return f'<g class="edge touch-{child.number} touch-{parent.number}"><path d="{path}"/></g>'


def _box(node: Value, spot: _Spot, is_measured: bool, clause: int | None) -> str:
    """A node: its aliases, partial matches, and conditions or sharing queries; its tooltip has everything."""
    numbers, others = partial_matches(node, is_measured), node["shared_with"]
    shared = f"shared with {', '.join(others)}" if others else ""
    whole = "" if clause is None else f"clause {clause}: "
    title = "\n".join([f"#{node['number']}", *held_between(node), numbers, *[shared] * bool(shared)])
    asked = "; ".join(node["asked"]) or shared
    lines = [("", whole + ", ".join(node["names"])), ("small", numbers), ("small", asked)]
    words = "".join(
        f'<text class="{style}" x="{spot.x + _WIDTH / 2:.0f}" y="{spot.y - 12 + 16 * i:.0f}">'
        f"{escape(cut(line, _LETTERS))}</text>"
        for i, (style, line) in enumerate(lines)
    )
    is_shared = " shared" if others else ""
    return (
        f'<g class="at-{spot.number}"><title>{escape(title)}</title>'
        f'<rect class="box{is_shared}" x="{spot.x:.0f}" y="{spot.y - _HEIGHT / 2:.0f}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="8"/>{words}</g>'
    )
