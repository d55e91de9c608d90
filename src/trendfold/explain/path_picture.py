"""A query's path through GLORIA's graph as SVG: one column per pool, the chosen node on top."""

from __future__ import annotations

from html import escape

from trendfold.explain.gloria_path import nearest, sets_text, transition_text
from trendfold.explain.value import Value

MAX_POOLS = 24
"""Longer paths are not drawn; the JSON has them."""

_WIDTH, _HEIGHT, _GAP, _STEP, _ROOM = 168, 40, 56, 52, 24


def path_picture(sharing: Value) -> str:
    """The pools of a query from left to right; pruned nodes are dashed."""
    pools = sharing.get("path", ())
    if not 0 < len(pools) <= MAX_POOLS:
        return ""
    tallest = max(len(nearest(pool)) for pool in pools)
    width = len(pools) * (_WIDTH + _GAP)
    height = 24 + (1 + tallest) * _STEP
    drawn = "".join(
        _column(pool, 8 + i * (_WIDTH + _GAP), i + 1 < len(pools)) for i, pool in enumerate(pools)
    )
    return (
        f'<div class="picture"><svg width="{width}" height="{height}" role="img" '
        f'viewBox="0 0 {width} {height}"><title>the path through the GLORIA graph</title>{drawn}</svg></div>'
    )


def _column(pool: Value, x: int, goes_on: bool) -> str:
    middle = x + _WIDTH / 2
    parts = [f'<text class="small" x="{middle:.0f}" y="14">{escape(_cut(transition_text(pool)))}</text>']
    parts.append(_box(x, 22, "chosen", pool["sets"], f"weight {pool['weight']:,.0f}"))
    for i, other in enumerate(nearest(pool), 1):
        style = "pruned" if other["pruned"] else "box"
        parts.append(_box(x, 22 + i * _STEP, style, other["sets"], f"distance {other['distance']:,.0f}"))
    if goes_on:
        start, end, y = x + _WIDTH, x + _WIDTH + _GAP, 22 + _HEIGHT / 2
        tip = f"{end},{y:.0f} {end - 8},{y - 4:.0f} {end - 8},{y + 4:.0f}"
        parts.append(f'<g class="edge"><path d="M{start} {y:.0f}H{end - 8}"/><polygon points="{tip}"/></g>')
    return "".join(parts)


def _box(x: int, y: int, style: str, sets: list[Value], words: str) -> str:
    text, middle = sets_text(sets), x + _WIDTH / 2
    return (
        f"<g><title>{escape(text)}</title>"
        f'<rect class="{style}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{middle:.0f}" y="{y + 17}">{escape(_cut(text))}</text>'
        f'<text class="small" x="{middle:.0f}" y="{y + 32}">{escape(words)}</text></g>'
    )


def _cut(text: str) -> str:
    return text if len(text) <= _ROOM else text[: _ROOM - 1] + "…"
