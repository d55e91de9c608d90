"""Charts of results, made with Altair: over time, by group, as a heat map, and matches as timelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.errors import UnsupportedError
from trendfold.query.names import list_names
from trendfold.report.view import NumberColumn, QueryView, cells, durations
from trendfold.report.words import number, span

try:
    import altair as alt
except ModuleNotFoundError:  # pragma: no cover
    raise UnsupportedError("charts need Altair; pip install 'trendfold[report]'") from None

WIDTH = 680
"""The width charts are made with; the page fits them to the window."""
MOST_LINES, MOST_TIMES = 8, 240
"""The most groups drawn as lines, and stretches of time."""
HEAT_GROUPS, HEAT_TIMES = 16, 12
MOST_BARS = 20
MOST_TIMELINES, MOST_EVENTS = 24, 400
_FAR = 1e3
"""Numbers that differ by a larger factor are drawn on a logarithmic scale."""
_HIGHEST = 1e300
"""Larger numbers are drawn as this one."""

_SHORT = (
    "datum.value == 0 ? '0' : abs(datum.value) >= 1e15 || abs(datum.value) < 1e-4 ? "
    "replace(format(datum.value, '.0e'), 'e+', 'e') : abs(datum.value) < 1 ? format(datum.value, '~g') : "
    "replace(format(datum.value, '~s'), 'G', 'B')"
)
"""Labels of numbers: 0.05, 200, 15k, 3M, 1e20."""
_POWERS = "abs(datum.value) < 1e6 ? " + _SHORT + " : replace(format(datum.value, '.0e'), 'e+', 'e')"
"""Labels of an axis that goes beyond trillions: 200, 15k, 1e6, 1e20."""
_CLOCK = (
    "datum.value % 1000 ? utcFormat(datum.value, '%H:%M:%S.%L') : "
    "utcseconds(datum.value) || SECONDS && (utchours(datum.value) || utcminutes(datum.value)) ? "
    "utcFormat(datum.value, '%H:%M:%S') : "
    "utchours(datum.value) || utcminutes(datum.value) ? utcFormat(datum.value, '%H:%M') : "
    "utcdate(datum.value) > 1 ? utcFormat(datum.value, '%-d %b') : "
    "utcmonth(datum.value) ? utcFormat(datum.value, '%b %Y') : utcFormat(datum.value, '1 Jan %Y')"
)
"""Labels of times, as fine as they are; where there are seconds, full minutes have them too."""
_SECONDS_BELOW = 400_000
"""Milliseconds: a shorter axis has seconds on it."""


@dataclass(frozen=True)
class Figure:
    """One picture: what it shows, how to read it, the chart, and the groups one can pick from."""

    title: str
    note: str
    chart: Any
    groups: tuple[str, ...] = ()


def figures(view: QueryView) -> tuple[Figure, ...]:
    """The pictures of a query, the most telling one first."""
    return tuple(_figures(view)) if view.rows and view.table.num_rows else ()


def chart_of(view: QueryView) -> Any:
    """The first picture of a query, with a legend, for a notebook."""
    found = next(iter(_figures(view, has_legend=True)), None) if view.table.num_rows else None
    if found is None:
        return (
            alt.Chart(alt.Data(values=[{"text": f"{view.name}: nothing to draw"}]))
            .mark_text()
            .encode(text="text:N")
        )
    return found.chart.properties(title=alt.TitleParams(found.title, subtitle=found.note, anchor="start"))


def _figures(view: QueryView, has_legend: bool = False) -> Iterator[Figure]:
    if view.finds_matches:
        yield from _match_figures(view)
        return
    if view.main is None:
        return
    if len(view.windows) > 1:
        yield _over_time(view, has_legend)
        if view.has_groups:
            yield _heat_map(view, view.main)
    elif view.has_groups:
        yield _bars(view, view.main)


# ---------------------------------------------------------------- scales


def _is_log(values: NDArray[np.float64]) -> bool:
    found = values[np.isfinite(values) & (values > 0)]
    is_positive = not np.any(values[np.isfinite(values)] < 0)
    return bool(len(found) > 1 and is_positive and found.max() / found.min() > _FAR)


def _scale(values: NDArray[np.float64], **more: Any) -> Any:
    if not _is_log(values):
        return alt.Scale(zero=True, **more)
    return alt.Scale(type="log", nice=False, domainMax=float(min(np.nanmax(values) * 2, 1e305)), **more)


def _scale_note(values: NDArray[np.float64]) -> str:
    if not _is_log(values):
        return ""
    zeros = " zeros are not drawn." if np.any(values == 0) else ""
    return f"The scale is logarithmic: each step is ten times the one below, or more.{zeros}"


def _number_axis(title: str | None = None, values: NDArray[np.float64] | None = None) -> Any:
    """An axis with about five labels; whole numbers have no labels between them."""
    if values is None or not _is_log(values):
        known = np.zeros(0) if values is None else values[np.isfinite(values)]
        whole: dict[str, Any] = {"tickMinStep": 1} if len(known) and np.all(known == np.floor(known)) else {}
        return alt.Axis(title=title, labelExpr=_SHORT, tickCount=5, labelFlush=False, **whole)
    ticks = _powers_of_ten(values)
    return alt.Axis(title=title, labelExpr=_POWERS if ticks[-1] >= 1e15 else _SHORT, values=ticks)


def _powers_of_ten(values: NDArray[np.float64]) -> list[float]:
    """About five labels of a logarithmic axis."""
    found = values[np.isfinite(values) & (values > 0)]
    low, high = int(np.floor(np.log10(found.min()))), int(np.floor(np.log10(found.max())))
    step = max(1, -(-(high - low) // 5))
    return [float(f"1e{power}") for power in range(low, high + 1, step)]


def _time_x(view: QueryView, title: str | None = None, **more: Any) -> Any:
    """The time axis, in UTC, or an axis of numbers."""
    clock = f"{title} (UTC)" if title and view.is_clock else title
    low, high = _ends(view)
    has_seconds = high - low < _SECONDS_BELOW
    label = _CLOCK.replace("SECONDS", str(has_seconds).lower()) if view.is_clock else _SHORT
    more = {"domainMin": _plain(low), "domainMax": _plain(high), "padding": 5, **more}
    axis = alt.Axis(title=clock, labelOverlap=True, tickCount=7, labelSeparation=8, labelExpr=label)
    if view.is_clock:
        return alt.X("t:T", axis=axis, scale=alt.Scale(type="utc", **more))
    return alt.X("t:Q", axis=axis, scale=alt.Scale(zero=False, nice=False, **more))


def _ends(view: QueryView) -> tuple[float, float]:
    """The ends of the time axis: also of a picture with a part of the rows only."""
    return float(view.windows[0]), float(view.windows[-1])


def _title(measure: NumberColumn) -> str:
    return "Trends per window" if measure.name == "count" else f"{measure.name} per window"


# ---------------------------------------------------------------- over time


def _over_time(view: QueryView, has_legend: bool) -> Figure:
    """Each number over the same time axis; a strip below selects what to zoom into."""
    main = view.main
    assert main is not None
    chosen = _largest(view, main, MOST_LINES)
    brush = alt.selection_interval(encodings=["x"], name="zoom")
    measures = [main, *(each for each in view.measures if each is not main)][:4]
    panels = [_lines(view, each, chosen, brush, i == 0, has_legend) for i, each in enumerate(measures)]
    strip = _strip(view, main, brush)
    groups = tuple(view.groups[i] for i in chosen) if view.has_groups else ()
    picked = alt.param(name="picked", value=[])
    chart = alt.vconcat(*panels, strip, spacing=18).add_params(picked).resolve_scale(color="shared")
    notes = [_scale_note(cells(view, main, chosen if view.has_groups else None, MOST_TIMES).values)]
    if view.has_groups and len(view.groups) > len(chosen):
        notes.append(
            f"Of {len(view.groups):,} groups by {view.group_title}, the {len(chosen)} largest can be picked."
        )
    each = -(-len(view.windows) // MOST_TIMES)
    if each > 1:
        notes.append(f"A point is the mean of {each:,} windows, for MIN and MAX their least and greatest.")
    notes.append("Drag over the strip at the bottom to zoom in, double-click it to see everything.")
    return Figure("Over time", " ".join(filter(None, notes)), chart, groups)


def _largest(view: QueryView, measure: NumberColumn, most: int) -> NDArray[np.int64]:
    return np.argsort(-view.by_group(measure), kind="stable")[:most]


def _lines(
    view: QueryView,
    measure: NumberColumn,
    chosen: NDArray[np.int64],
    brush: Any,
    is_first: bool,
    has_legend: bool,
) -> Any:
    found = cells(view, measure, chosen if view.has_groups else None, MOST_TIMES)
    names = [view.groups[i] for i in chosen] if view.has_groups else ["all"]
    base = alt.Chart(alt.Data(values=_points(view, found.start, found.values, names)))
    x = _time_x(view, domain=brush)
    y = alt.Y("y:Q", axis=_number_axis(values=found.values), scale=_scale(found.values))
    legend = (
        alt.Legend(title=view.group_title, orient="bottom", columns=4) if has_legend and is_first else None
    )
    color = alt.Color("g:N", scale=alt.Scale(domain=names), legend=legend)
    hover = alt.selection_point(
        on="pointerover",
        nearest=True,
        fields=["t"],
        empty=False,
        clear="pointerout",
        name=f"hover_{_safe(measure)}",
    )
    tips = [alt.Tooltip("when:N", title="window from")]
    tips += [alt.Tooltip("g:N", title=view.group_title)] if view.has_groups else []
    tips += [alt.Tooltip("label:N", title=measure.name)]
    is_sparse = len(found.start) <= 60 and not view.has_groups
    if is_sparse and not _is_log(found.values) and measure.is_count:
        return (
            base.mark_bar(clip=True, binSpacing=1, size=max(2, int(WIDTH / len(found.start)) - 3))
            .encode(x=x, y=y, color=color, tooltip=tips)
            .properties(width=WIDTH, height=170 if is_first else 110, title=_title(measure))
        )
    lines = base.mark_line(clip=True, strokeWidth=1.8).encode(x=x, y=y, color=color)
    points = base.mark_circle(clip=True, size=55).encode(
        x=x,
        y=y,
        color=color,
        tooltip=tips,
        opacity=alt.condition(hover, alt.value(1), alt.Opacity("lone:Q", scale=None, legend=None)),
    )
    rule = base.mark_rule(clip=True, opacity=0.4).encode(x=x).transform_filter(hover)
    layers = alt.layer(lines, rule, points.add_params(hover))
    return layers.transform_filter("length(picked) == 0 || indexof(picked, datum.g) >= 0").properties(
        width=WIDTH, height=220 if is_first else 120, title=_title(measure)
    )


def _strip(view: QueryView, main: NumberColumn, brush: Any) -> Any:
    """All groups together, small, to select a stretch of time on."""
    found = cells(view, main, None, MOST_TIMES)
    rows = _points(view, found.start, found.values, ["all"])
    lowest = min((row["y"] for row in rows), default=1.0)
    for row in rows:  # an area has no bottom on a logarithmic scale
        row["y"] = float(np.log10(row["y"] / lowest)) + 0.2 if _is_log(found.values) else row["y"]
    base = alt.Chart(alt.Data(values=rows))
    return (
        base.mark_area(opacity=0.35, clip=True)
        .encode(x=_time_x(view, "begin of the window"), y=alt.Y("y:Q", axis=None, scale=alt.Scale(zero=True)))
        .properties(width=WIDTH, height=36)
        .add_params(brush)
    )


def _points(
    view: QueryView, start: NDArray[np.float64], values: NDArray[np.float64], names: Sequence[str]
) -> list[dict[str, Any]]:
    """A row per number that can be drawn; `lone` is 1 for the only one of a group, which makes no line."""
    is_log = _is_log(values)
    drawn = np.isfinite(values) & ((values > 0) if is_log else True)
    lone = drawn.sum(axis=0) == 1
    return [
        {
            "t": _plain(start[i]),
            "when": view.when(start[i]),
            "g": names[j],
            "y": float(y),
            "label": number(float(y)),
            "lone": int(lone[j]),
        }
        for i, j in np.argwhere(drawn)
        if abs(y := values[i, j]) <= _HIGHEST
    ]


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else float(value)


def _safe(measure: NumberColumn) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in measure.name)


# ---------------------------------------------------------------- by group


def _heat_map(view: QueryView, measure: NumberColumn) -> Figure:
    """A row per group, a column per stretch of time, and the number in every cell."""
    chosen = _largest(view, measure, HEAT_GROUPS)
    found = cells(view, measure, chosen, HEAT_TIMES)
    names = [view.groups[i] for i in chosen]
    rows = _points(view, found.start, found.values, names)
    for row in rows:
        row["short"] = _short(row["y"])
    order = list(dict.fromkeys(row["t"] for row in rows))
    labels = _times_in_short(view, order)
    for row in rows:
        row["x"] = labels[row["t"]]
    middle = float(np.nanmedian([row["y"] for row in rows])) if rows else 0.0
    top = max((row["y"] for row in rows), default=0.0)
    dark = np.sqrt(middle * top) if _is_log(found.values) else top * 0.55
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "x:O",
            sort=[labels[t] for t in sorted(order)],
            axis=alt.Axis(title=None, labelAngle=0, labelOverlap=True),
        ),
        y=alt.Y("g:N", sort=names, axis=alt.Axis(title=None, labelLimit=120)),
        tooltip=[
            alt.Tooltip("when:N", title="from"),
            alt.Tooltip("g:N", title=view.group_title),
            alt.Tooltip("label:N", title=measure.name),
        ],
    )
    scale = alt.Scale(type="log", nice=False) if _is_log(found.values) else alt.Scale(zero=True)
    boxes = base.mark_rect(cornerRadius=2, stroke=None).encode(
        color=alt.Color("y:Q", scale=scale, legend=None)
    )
    texts = base.mark_text(fontSize=10.5).encode(
        text="short:N",
        color=alt.condition(f"datum.y > {dark}", alt.value("#ffffff"), alt.value("#111827")),
    )
    chart = (boxes + texts).properties(width=WIDTH, height=24 * len(names))
    each = f"the mean of {found.windows_each:,} windows" if found.windows_each > 1 else "a window"
    more = (
        f" The {len(chosen)} largest of {len(view.groups):,} groups."
        if len(view.groups) > len(chosen)
        else ""
    )
    note = f"Each cell is {each}; darker is more.{more} {_scale_note(found.values)}"
    return Figure(f"By {view.group_title}", note.strip(), chart)


def _short(value: float) -> str:
    """At most five characters."""
    if value >= 1e15:
        return f"{value:.0e}".replace("e+", "e")
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}" if value / size < 999.5 else f"{value / size:.0f}{letter}"
    return f"{value:.3g}"


def _times_in_short(view: QueryView, times: Sequence[float]) -> dict[float, str]:
    """The shortest text that still tells the times apart: the time of day if all are of one day."""
    full = {t: view.when(t) for t in times}
    if not view.is_clock or not times:
        return full
    if max(times) - min(times) < _SECONDS_BELOW and any(t % 1000 for t in times):
        return {t: f"{datetime.fromtimestamp(t / 1000, UTC):%H:%M:%S.%f}"[:-3] for t in times}
    if max(times) - min(times) < 86_400_000:
        size = max(map(len, full.values()))
        return {t: text[11:] if len(text) == size else f"{text[11:]}:00" for t, text in full.items()}
    days = {t: text[5:10] for t, text in full.items()}
    return days if len(set(days.values())) == len(full) else {t: text[5:] for t, text in full.items()}


def _bars(view: QueryView, measure: NumberColumn) -> Figure:
    """The largest groups, without time."""
    values = view.by_group(measure)
    chosen = _largest(view, measure, MOST_BARS)
    rows = [
        {"g": view.groups[i], "y": float(min(values[i], _HIGHEST)), "label": number(float(values[i]))}
        for i in chosen
    ]
    drawn = values[chosen]
    scale = (
        alt.Scale(type="log", domainMin=float(max(drawn[drawn > 0].min() / 2, 1e-300)), nice=False)
        if _is_log(drawn)
        else alt.Scale(zero=True)
    )
    y = alt.Y("g:N", sort=None, axis=alt.Axis(title=view.group_title, labelLimit=140))
    base = alt.Chart(alt.Data(values=[row for row in rows if row["y"] > 0 or not _is_log(drawn)]))
    tips = [alt.Tooltip("g:N", title=view.group_title), alt.Tooltip("label:N", title=measure.name)]
    bars = base.mark_bar(cornerRadiusEnd=3).encode(
        x=alt.X("y:Q", scale=scale, axis=_number_axis(measure.name, drawn)), y=y, tooltip=tips
    )
    texts = base.mark_text(align="left", dx=4).encode(x=alt.X("y:Q", scale=scale), y=y, text="label:N")
    more = f"The {len(chosen)} largest of {len(view.groups):,}. " if len(view.groups) > len(chosen) else ""
    chart = (bars + texts).properties(width=WIDTH, height=22 * len(rows) + 10)
    return Figure(f"By {view.group_title}", f"{more}{_scale_note(drawn)}".strip(), chart)


# ---------------------------------------------------------------- matches


def _match_figures(view: QueryView) -> Iterator[Figure]:
    if view.times is None:
        return
    yield _timelines(view)
    if len(view.windows) > MOST_TIMELINES:
        yield _begins(view)


def _timelines(view: QueryView) -> Figure:
    """The first matches, a line each, with their events."""
    assert view.times is not None
    order = np.argsort(view.times, kind="stable")[:MOST_TIMELINES]
    begins = _times_in_short(view, [float(view.times[at]) for at in order])
    rows = [
        row
        for i, at in enumerate(order)
        for row in _events_of(view, int(at), f"{i + 1}. {begins[float(view.times[at])]}")
    ]
    unit = "seconds" if view.is_clock else "time"
    base = alt.Chart(alt.Data(values=rows))
    axis = alt.Axis(title=None, labelLimit=150, domain=False, ticks=False, labelPadding=12)
    y = alt.Y("match:N", sort=None, axis=axis)
    lines = base.mark_line(opacity=0.35, strokeWidth=2, color="#94a3b8").encode(
        x="after:Q", y=y, detail="match:N"
    )
    names = list(list_names(view.query.pattern))
    tips = ["match", "event", "when", "attributes"]
    points = base.mark_circle(size=70, opacity=0.95).encode(
        x=alt.X("after:Q", axis=_number_axis(f"{unit} since the match began"), scale=alt.Scale(zero=True)),
        y=y,
        color=alt.Color(
            "event:N", scale=alt.Scale(domain=names), legend=alt.Legend(title=None, orient="top", columns=4)
        ),
        tooltip=[alt.Tooltip(f"{name}:N", title=name) for name in tips],
    )
    chart = (lines + points).properties(width=WIDTH, height=22 * len(order) + 10)
    more = f"The first {len(order)} of {view.rows:,} matches. " if view.rows > len(order) else ""
    return Figure(
        "The matches",
        f"{more}A line is a match, a dot one of its events; point at it to see its attributes.",
        chart,
    )


def _events_of(view: QueryView, row: int, title: str) -> Iterator[dict[str, Any]]:
    found = view.table.slice(row, 1).to_pylist()[0]
    begin = next(iter(found.values()))
    for name in list_names(view.query.pattern):
        for event in (found.get(name) or ())[:MOST_EVENTS]:
            at = event["time"]
            after = (at - begin).total_seconds() if view.is_clock else at - begin
            attributes = ", ".join(f"{k}: {v}" for k, v in event.items() if k not in ("id", "time"))
            yield {
                "match": title,
                "event": name,
                "after": after,
                "when": str(at).removesuffix("+00:00"),
                "attributes": attributes or f"id: {event.get('id')}",
            }


def _begins(view: QueryView) -> Figure:
    """How many matches begin when."""
    assert view.times is not None
    low, high = float(view.times.min()), float(view.times.max())
    counts, edges = np.histogram(view.times, bins=min(60, max(2, len(view.windows))), range=(low, high))
    rows = [
        {
            "t": _plain(float(a)),
            "end": _plain(float(b)),
            "y": int(n),
            "when": view.when(float(a)),
            "label": f"{n:,}",
        }
        for n, a, b in zip(counts, edges, edges[1:], strict=False)
    ]
    step = (high - low) / len(counts)
    each = span(step) if view.is_clock else number(step)
    x = _time_x(view, "begin of the match")
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(binSpacing=1)
        .encode(
            x=x,
            x2="end",
            y2=alt.datum(0),
            y=alt.Y("y:Q", axis=_number_axis("matches")),
            tooltip=[alt.Tooltip("when:N", title="from"), alt.Tooltip("label:N", title="matches")],
        )
        .properties(width=WIDTH, height=150)
    )
    lengths = durations(view)
    return Figure("When matches begin", f"A bar is {each} wide." if len(lengths) else "", chart)
