"""The position automaton of an operand, drawn as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from trendfold.errors import plural
from trendfold.explain.sections import Names, names_of
from trendfold.explain.value import Value

MAX_DRAWN = 40
"""Larger automata are not drawn; the JSON has them."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A place in the drawing: its centre and width."""

    number: int
    x: float
    width: float


_RADIUS, _NARROWEST, _GAP, _LETTER, _LINE = 20, 86, 130, 7, 15


def picture(operand: Value, took: Mapping[str, str]) -> str:
    """The position automaton as SVG: ⊥ on the left, ⊤ on the right, back edges below.

    took  words below places, such as the rows that were read
    """
    name = names_of(operand)
    places: list[int | str] = ["⊥", *(p["index"] for p in operand["positions"] if not p["negated"]), "⊤"]
    if len(places) > MAX_DRAWN + 2:
        return f"<p>{plural(len(places) - 2, 'position')}: too many to draw</p>"
    boxes = _lay_out(places, name)
    edges = [(edge, boxes[edge["from"]], boxes[edge["to"]]) for edge in operand["edges"]]
    above = max(_rise(a, b) + _LINE * len(_notes(edge, operand)) for edge, a, b in edges) + 2 * _LINE
    below = max((_rise(a, b) for _, a, b in edges if b.number < a.number), default=0) + 4 * _LINE
    width = boxes["⊤"].x + boxes["⊤"].width / 2 + 12
    grain = {g["place"]: g for g in operand["grains"]}
    drawn = [_edge_svg(edge, a, b, operand, name) for edge, a, b in edges]
    drawn += [_box_svg(boxes[place], name[place], grain.get(place)) for place in places]
    drawn += [_below(boxes[place], words) for place, words in took.items()]
    return (
        f'<div class="picture"><svg width="{width:.0f}" height="{above + below:.0f}" role="img" '
        f'aria-label="automaton of {escape(operand["pattern"])}" '
        f'viewBox="0 {-above:.0f} {width:.0f} {above + below:.0f}">{"".join(drawn)}</svg></div>'
    )


def _lay_out(places: Sequence[int | str], name: Names) -> dict[int | str, _Box]:
    boxes = {}
    left = 12.0
    for number, place in enumerate(places):
        width = max(_NARROWEST, _LETTER * len(cut(name[place], 18)) + 20)
        boxes[place] = _Box(number, left + width / 2, width)
        left += width + _GAP
    return boxes


def _rise(a: _Box, b: _Box) -> float:
    """The height of an edge's arc: 0 between neighbours, otherwise enough to pass the places between."""
    span = b.number - a.number
    return 0 if span == 1 else 48 if span == 0 else 24 + 30 * abs(span)


def _notes(edge: Value, operand: Value) -> list[tuple[str, str]]:
    """The labels of an edge: (style, words)."""
    found = []
    if edge["guard"] is not None:
        found.append(("not", f"NOT {operand['guards'][edge['guard']]['pattern']}"))
    return found + [("small", text) for text in edge["predicates"]]


def _edge_svg(edge: Value, a: _Box, b: _Box, operand: Value, name: Names) -> str:
    path, tip, apex = _curve(a, b)
    notes = _notes(edge, operand)
    room = int(max(_GAP, abs(b.x - a.x) - 60) / 6)
    x, y = apex
    step = -_LINE if b.number >= a.number else _LINE
    offset = -6 if step < 0 else _LINE
    words = "".join(
        f'<text class="{style}" x="{x:.0f}" y="{y + offset + step * i:.0f}">{escape(cut(text, room))}</text>'
        for i, (style, text) in enumerate(notes)
    )
    title = f"{name[edge['from']]} → {name[edge['to']]}" + "".join(f"\n{text}" for _, text in notes)
    return (
        f'<g class="edge touch-{a.number} touch-{b.number}"><title>{escape(title)}</title>'
        f'<path d="{path}"/><polygon points="{tip}"/>{words}</g>'
    )


def _curve(a: _Box, b: _Box) -> tuple[str, str, tuple[float, float]]:
    """An edge's path, the corners of its arrow head, and the position of its label."""
    rise = _rise(a, b)
    if rise == 0:
        start, end = a.x + a.width / 2, b.x - b.width / 2
        tip = f"{end:.0f},0 {end - 8:.0f},-4 {end - 8:.0f},4"
        return f"M{start:.0f} 0H{end - 8:.0f}", tip, ((start + end) / 2, 0)
    side = -1 if b.number >= a.number else 1
    inset = 8 if b.number >= a.number else -8
    start, end = a.x + inset, b.x - inset
    near, far = side * _RADIUS, side * (_RADIUS + 8)
    # The middle of this curve is three quarters of the way to its two control points.
    control = near + side * rise / 0.75
    lean = 14 if a.number == b.number else 0
    left, right = start + lean, end - lean
    tip = f"{end:.0f},{near} {end - 4:.0f},{far} {end + 4:.0f},{far}"
    path = f"M{start:.0f} {near}C{left:.0f} {control:.0f} {right:.0f} {control:.0f} {end:.0f} {far}"
    return path, tip, ((start + end) / 2, near + side * rise)


def _box_svg(box: _Box, label: str, grain: Value | None) -> str:
    words = f"{grain['grain']} grain" if grain else ""
    title = f"{label}: {words}, {grain['why']}" if grain else label
    left, middle = box.x - box.width / 2, -2 if grain else 4
    return (
        f'<g class="at-{box.number}"><title>{escape(title)}</title>'
        f'<rect class="box" x="{left:.0f}" y="{-_RADIUS}" width="{box.width:.0f}" '
        f'height="{2 * _RADIUS}" rx="{_RADIUS}"/>'
        f'<text x="{box.x:.0f}" y="{middle}">{escape(cut(label, 18))}</text>'
        f'<text class="small" x="{box.x:.0f}" y="12">{escape(words)}</text></g>'
    )


def _below(box: _Box, words: str) -> str:
    return f'<text class="took" x="{box.x:.0f}" y="{_RADIUS + _LINE:.0f}">{escape(words)}</text>'


def cut(text: str, room: int) -> str:
    """The text, truncated to `room` characters with an ellipsis."""
    return text if len(text) <= room else text[: room - 1] + "…"
