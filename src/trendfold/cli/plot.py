"""Plots of results over time as SVG, and as one terminal line. Colours are CSS variables of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

WIDTH, LEFT, RIGHT = 860, 70, 20
_LARGEST = 1e308
"""Counts may be infinite as doubles; bar heights may not."""
_FAR = 1e4
"""Values that differ by a larger factor are drawn on a logarithmic scale."""


@dataclass(frozen=True, slots=True)
class Series:
    """A result column by window: minimum, median and maximum over all groups."""

    name: str
    times: tuple[datetime, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]


Bars = Sequence[tuple[datetime, float]]
"""Window starts, and the counts over all groups."""


def counts(table: pa.Table) -> Bars:
    """Trends per window, over all groups."""
    totals: dict[datetime, float] = {}
    columns = (table.column(name).to_pylist() for name in ("window_start", "count"))
    for start, count in zip(*columns, strict=True):
        totals[start] = totals.get(start, 0.0) + count
    return [(start, min(totals[start], _LARGEST)) for start in sorted(totals)]


def series(table: pa.Table, column: str) -> Series:
    """The values of a column by window; nulls are left out."""
    found: dict[datetime, list[float]] = {}
    columns = (table.column(name).to_pylist() for name in ("window_start", column))
    for start, value in zip(*columns, strict=True):
        if value is not None and math.isfinite(value):
            found.setdefault(start, []).append(value)
    times = tuple(sorted(found))
    low, middle, high = (tuple(f(found[t]) for t in times) for f in (min, median, max))
    return Series(column, times, low, middle, high)


# ---------------------------------------------------------------- a terminal


def sparkline(bars: Bars, width: int = 60) -> str:
    """One line of block characters, logarithmic; with many windows, the maximum of neighbours."""
    if not bars:
        return "(no rows)"
    per_block = -(-len(bars) // width)
    tall = [math.log10(count + 1) for _, count in bars]
    tops = [max(tall[i : i + per_block]) for i in range(0, len(tall), per_block)]
    highest = max(tops) or 1.0
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(top / highest * 8))] for top in tops)


# ---------------------------------------------------------------- SVG


def bar_chart(bars: Bars, height: int = 170) -> str:
    """A bar per window; its height is the logarithm of the count."""
    base, high = height - 26, height - 44
    decades = max(1, math.ceil(max((math.log10(count + 1) for _, count in bars), default=1)))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(bars))
    parts = []
    for power in range(0, decades + 1, -(-decades // 4)):
        y = base - high * power / decades
        parts.append(_grid_line(y, _power(power)))
    for i, (start, count) in enumerate(bars):
        tall = high * math.log10(count + 1) / decades
        parts.append(
            f'<rect class="bar" x="{LEFT + i * step + 0.5:.1f}" y="{base - tall:.1f}" '
            f'width="{max(1.0, step - 1):.1f}" height="{tall:.1f}">'
            f"<title>{start:%H:%M}: {count:,.0f}</title></rect>"
        )
    parts += _hours([start for start, _ in bars], step, base)
    return _svg(height, parts, "trends per window, logarithmic")


def line_chart(values: Series, height: int = 130) -> str:
    """The median of all groups in a band from minimum to maximum; logarithmic if they are far apart."""
    base, high = height - 26, height - 40
    step = (WIDTH - LEFT - RIGHT) / max(1, len(values.times))
    bottom, top = min(0.0, *values.low, 0.0), max(values.high, default=1.0)
    is_log = min(values.low, default=0.0) > 0 and top / min(values.low) > _FAR
    if is_log:
        bottom, top = math.floor(math.log10(min(values.low))), math.ceil(math.log10(top))
    span = (top - bottom) or 1.0

    def points(numbers: Iterable[float]) -> list[str]:
        found = (math.log10(v) if is_log else v for v in numbers)
        return [
            f"{LEFT + (i + 0.5) * step:.1f},{base - high * (v - bottom) / span:.1f}"
            for i, v in enumerate(found)
        ]

    middle = (bottom + top) // 2 if is_log else bottom + span / 2
    parts = [
        _grid_line(base - high * (tick - bottom) / span, _power(tick) if is_log else f"{tick:,.4g}")
        for tick in (bottom, middle, bottom + span)
    ]
    if values.times:
        around = points(values.high) + points(values.low)[::-1]
        parts.append(f'<polygon class="band" points="{" ".join(around)}"/>')
        parts.append(f'<polyline class="line" points="{" ".join(points(values.middle))}"/>')
    parts += _hours(values.times, step, base)
    return _svg(height, parts, values.name)


def _power(exponent: float) -> str:
    return f'10<tspan dy="-5" font-size="9">{exponent:.3g}</tspan>'


def heat_map(table: pa.Table, key: str) -> str:
    """A row per group and a column per window; darker means more trends, on a logarithmic scale."""
    cells: dict[tuple[str, datetime], float] = {}
    rows = zip(*(table.column(name).to_pylist() for name in (key, "window_start", "count")), strict=True)
    order: dict[object, str] = {}
    for group, start, count in rows:
        order.setdefault(group, str(group))
        cells[str(group), start] = min(count, _LARGEST)
    groups = [order[g] for g in sorted(order, key=lambda g: (g is None, isinstance(g, str), g or 0))]
    times = sorted({start for _, start in cells})
    step, row = (WIDTH - LEFT - RIGHT) / max(1, len(times)), 11
    base = row * len(groups) + 6
    at = {start: LEFT + i * step for i, start in enumerate(times)}
    most = max((math.log10(count + 1) for count in cells.values()), default=1.0) or 1.0
    parts = []
    for number, group in enumerate(groups):
        y = 6 + number * row
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 9}" font-size="9" text-anchor="end">{escape(group)}</text>'
        )
        for start in times:
            count = cells.get((group, start), 0.0)
            if count:
                shade = math.log10(count + 1) / most
                parts.append(
                    f'<rect class="bar" x="{at[start]:.1f}" y="{y}" width="{step:.2f}" height="{row - 1}" '
                    f'opacity="{shade:.2f}"/>'
                )
    parts += _hours(times, step, base)
    return _svg(base + 24, parts, f"trends by {key}")


def _svg(height: float, parts: Iterable[str], label: str) -> str:
    head = f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}"'
    return f"<svg {head}>{''.join(parts)}</svg>"


def _grid_line(y: float, label: str) -> str:
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    )


def _hours(times: Sequence[datetime], step: float, base: float) -> list[str]:
    """About eight time labels under the axis."""
    every = max(1, len(times) // 8)
    at = [(LEFT + (i + 0.5) * step, times[i]) for i in range(0, len(times), every)]
    y = f"{base + 16:.1f}"
    return [f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{time:%H:%M}</text>' for x, time in at]


def figures(table: pa.Table, keys: Sequence[str]) -> Mapping[str, str]:
    """All plots of one query's results, by title."""
    found = {"Trends per window, logarithmic scale": bar_chart(counts(table))}
    if keys:
        found[f"The same by {keys[0]}: darker is more"] = heat_map(table, keys[0])
    others = [
        name for name in table.column_names if name not in ("window_start", "window_end", "count", *keys)
    ]
    among = f": the median {keys[0]}, and the range from minimum to maximum" if keys else ""
    for name in others:
        found[f"{name}{among}"] = line_chart(series(table, name))
    return found
