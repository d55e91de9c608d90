"""The answer in words: how much, where most, and how it changed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from trendfold.errors import plural
from trendfold.report.view import NumberColumn, QueryView, durations, overlaps

_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SCALES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_STEADY = 1.25
"""Medians of the first and the last third that differ by less are about the same."""


def number(value: float) -> str:
    """A number for people: `1,234`, `3.2 million`, `4.5×10²⁰`."""
    if not math.isfinite(value):
        return "more than 1.8×10³⁰⁸" if value > 0 else "no number"
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        digits, _, power = f"{value:.1e}".partition("e")
        return f"{digits.removesuffix('.0')}×10{str(int(power)).translate(_SUPERSCRIPTS)}"
    for scale, name in _SCALES:
        if size >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:,.0f}" if size >= 1000 or value == int(value) else f"{value:.3g}"


def span(milliseconds: float) -> str:
    """A length of time for people: `3 min 20 s`."""
    seconds = milliseconds / 1000
    for size, unit, lower, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            whole, rest = divmod(round(seconds / lower), size // lower)
            return f"{whole:,} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{seconds:.3g} s"


def headline(view: QueryView) -> str:
    """How much, in a few words."""
    if not view.rows:
        return "no matches" if view.finds_matches else "no trends"
    if view.finds_matches:
        return plural(view.rows, "match", "matches")
    main = view.main
    if main is None:
        return plural(view.rows, "row")
    if main.is_count:
        return f"{number(_total(main))} {'trend' if _total(main) == 1 else 'trends'}"
    return plural(view.rows, "row")


def sentences(view: QueryView) -> tuple[str, ...]:
    """The answer of a query, a sentence at a time."""
    if not view.rows:
        return (
            "No trend of this pattern was found, or none passed its conditions.",
            f"To see where nothing is left: workload.why_not(data, query={view.name!r}), or trendfold why.",
        )
    return tuple(_of_matches(view) if view.finds_matches else _of_rows(view))


def _total(measure: NumberColumn) -> float:
    values = measure.values
    return float(np.sum(values[~np.isnan(values)]))


def _of_rows(view: QueryView) -> Iterator[str]:
    main = view.main
    where = []
    if view.times is not None:
        where.append(plural(len(view.windows), "window"))
    if view.query.group_by:
        where.append(f"{plural(len(view.groups), 'group')} by {view.group_title}")
    within = f" in {' and '.join(where)}" if where else ""
    many = f"in a sample of {plural(view.table.num_rows, 'row')} " if view.is_sampled else ""
    if main is not None and main.is_count:
        yield f"{headline(view)[0].upper()}{headline(view)[1:]} {many}{within.strip()}".strip() + "."
    else:
        yield f"{plural(view.rows, 'row')}{within}."
    if main is not None and view.times is not None and overlaps(view.query) and main.is_count:
        yield "Windows overlap: a trend counts in every window that holds it."
    if main is not None and view.has_groups:
        yield _most(view, main)
    if main is not None and len(view.windows) > 1:
        yield from _over_time(view, main)
    for other in view.measures:
        if other is not main:
            yield _range(view, other)


def _most(view: QueryView, main: NumberColumn) -> str:
    by = view.by_group(main)
    order = np.argsort(-by, kind="stable")
    first, second = view.groups[order[0]], view.groups[order[1]]
    if main.is_count and not math.isfinite(by.sum()):
        return f"Most are of {view.group_title} {first}: {number(by[order[0]])}."
    if not main.is_count or not by.sum():
        return f"The highest mean {main.name} has {view.group_title} {first}: {number(by[order[0]])}."
    shares = [_percent(by[i] / by.sum()) for i in order[:2]]
    if by[order[0]] == by[order[-1]]:
        return f"Every {view.group_title} has the same: {number(by[order[0]])}."
    if by[order[0]] == by[order[1]]:
        many = int(np.sum(by == by[order[0]]))
        return f"{many:,} groups by {view.group_title} share the most, {number(by[order[0]])} each."
    most = "Most are of" if 2 * by[order[0]] > by.sum() else "The largest share is that of"
    return f"{most} {view.group_title} {first} ({shares[0]}), then {second} ({shares[1]})."


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "under 1%"


def _over_time(view: QueryView, main: NumberColumn) -> Iterator[str]:
    values = view.per_window(main)
    peak = int(np.argmax(values))
    if values.min() == values.max():
        yield f"It does not change: every window has {number(values[peak])}."
        return
    middle = float(np.median(values))
    times = (
        f", {number(values[peak] / middle)} times the median window"
        if 0 < middle < values[peak] < math.inf
        else ""
    )
    yield f"The peak is {number(values[peak])}, in the window from {view.when(view.windows[peak])}{times}."
    third = len(values) // 3
    if third < 2:
        return
    early, late = float(np.median(values[:third])), float(np.median(values[-third:]))
    if not (0 < early < math.inf and 0 < late < math.inf):
        return
    more, less = number(late / early), number(early / late)
    if late / early >= _STEADY:
        yield f"It rises: typical windows of the last third have {more} times the first third's."
    elif early / late >= _STEADY:
        yield f"It falls: typical windows of the first third have {less} times the last third's."
    else:
        yield "It stays about the same: typical windows of both ends differ by under a quarter."


def _range(view: QueryView, measure: NumberColumn) -> str:
    values = measure.values[np.isfinite(measure.values)]
    if not len(values):
        return f"{measure.name} is null in every row."
    if len(values) == 1 or values.min() == values.max():
        return f"{measure.name} is {number(float(values[0]))}."
    low, middle, high = (number(float(of(values))) for of in (np.min, np.median, np.max))
    return f"{measure.name} goes from {low} to {high}, with a median of {middle}."


def _of_matches(view: QueryView) -> Iterator[str]:
    told = headline(view)
    yield (
        f"{told} of the pattern"
        + (f", in {plural(len(view.groups), 'group')}" if view.has_groups else "")
        + "."
    )
    lengths = durations(view)
    if view.times is None or not len(lengths):
        return
    middle, longest = (
        span(v) if view.is_clock else number(v) for v in (float(np.median(lengths)), float(lengths.max()))
    )
    yield f"From first to last event a match takes {middle} (median), at most {longest}."
    first, last = view.when(float(view.times.min())), view.when(float(view.times.max()))
    if first != last:
        yield f"The first begins at {first}, the last at {last}."
