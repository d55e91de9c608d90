"""Line plots as self-contained SVG: one curve per method, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

Curve = Sequence[tuple[float, float]]
"""Numbers of events, and seconds."""

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 420, 70, 190, 20, 50
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568")
_STYLE = (
    "text{font:12px sans-serif;fill:#555}.grid{stroke:#ccc;stroke-width:.5}"
    ".line{fill:none;stroke-width:2}.guide{fill:none;stroke:#999;stroke-dasharray:4 4}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}.grid{stroke:#555}}"
)


def draw_all(figures: Mapping[str, Mapping[str, Curve]], what: str = "gain over the trivial plan") -> str:
    """Plots of gains below each other, each with its title; the varied parameter is the x axis."""
    parts = []
    for number, (title, curves) in enumerate(figures.items()):
        body = _plot(curves, {}, lambda power: f"{10.0**power:g}", lambda power: f"{10.0**power:g}×")
        head = f'<text x="{_LEFT}" y="14">{escape(title)}</text>'
        parts.append(f'<g transform="translate(0,{number * _HEIGHT})">{head}{"".join(body)}</g>')
    return _svg(parts, max(1, len(figures)), what)


def draw(curves: Mapping[str, Curve], guides: Mapping[str, Curve]) -> str:
    """Curves as lines with a dot per measurement, and guides as dashed lines behind them."""
    return _svg(_plot(curves, guides, _amount, _time))


def _plot(
    curves: Mapping[str, Curve],
    guides: Mapping[str, Curve],
    across_name: Callable[[int], str],
    up_name: Callable[[int], str],
) -> list[str]:
    points = [point for curve in (*curves.values(), *guides.values()) for point in curve]
    if not points:
        return []
    x_low, x_high = _decades(x for x, _ in points)
    y_low, y_high = _decades(y for _, y in points)

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)
        up = (math.log10(y) - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM)
        return _LEFT + across, _HEIGHT - _BOTTOM - up

    parts = [
        _tick(*at(10**p, 10**y_low), *at(10**p, 10**y_high), across_name(p)) for p in range(x_low, x_high + 1)
    ]
    parts += [
        _tick(*at(10**x_low, 10**p), *at(10**x_high, 10**p), up_name(p)) for p in range(y_low, y_high + 1)
    ]
    for name, curve in guides.items():
        places = [at(*point) for point in curve]
        parts.append(
            f'<polyline class="guide" points="{_joined(places)}"/>' + _label(places[-1], name, "#999")
        )
    for (name, curve), colour in zip(curves.items(), _COLOURS * len(curves), strict=False):
        places = [at(*point) for point in curve]
        parts.append(f'<polyline class="line" stroke="{colour}" points="{_joined(places)}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(_label(places[-1], name, colour))
    return parts


def _decades(values: Iterable[float]) -> tuple[int, int]:
    """The powers of ten that enclose all values."""
    logs = [math.log10(value) for value in values]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return low, max(high, low + 1)


def _amount(power: int) -> str:
    return f"{10**power:,} events"


def _time(power: int) -> str:
    return f"{10**power:g} s" if power >= 0 else f"{10.0 ** (power + 3):g} ms"


def _tick(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    line = f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
    if x1 == x2:
        return line + f'<text x="{x1:.1f}" y="{y1 + 18:.1f}" text-anchor="middle">{name}</text>'
    return line + f'<text x="{x1 - 8:.1f}" y="{y1 + 4:.1f}" text-anchor="end">{name}</text>'


def _label(place: tuple[float, float], name: str, colour: str) -> str:
    x, y = place
    return f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" style="fill:{colour}">{escape(name)}</text>'


def _joined(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _svg(parts: Iterable[str], figures: int = 1, what: str = "time against events") -> str:
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {figures * _HEIGHT}" role="img"'
    return f'<svg {head} aria-label="{what}"><style>{_STYLE}</style>{"".join(parts)}</svg>\n'
