"""A query's rows as arrays to draw and to tell about: times, groups and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.events.columns import decoded
from trendfold.query.names import default_column, key_column
from trendfold.query.nodes import Aggregate, Function, Matches, Query
from trendfold.runtime.result import to_table

MOST_FETCHED = 1_000_000
"""The most rows of a query that are fetched from Spark for a report."""


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: NaN where it is null, infinite where it exceeds the range of doubles."""

    name: str
    function: Function
    values: NDArray[np.float64]

    @property
    def is_count(self) -> bool:
        """Whether it counts trends, so that its sum means something."""
        return self.name == "count" or self.function is Function.COUNT


@dataclass(frozen=True)
class QueryView:
    """The rows of one query.

    times     float64[n]  window starts: milliseconds since 1970, or numbers
    group     int64[n]    into `groups`
    """

    query: Query
    table: pa.Table
    rows: int
    """The rows of the result; `table` may hold only some of them."""
    times: NDArray[np.float64] | None
    is_clock: bool
    group: NDArray[np.int64]
    groups: tuple[str, ...]
    measures: tuple[NumberColumn, ...]

    @property
    def name(self) -> str:
        """The query's name."""
        return self.query.name

    @property
    def has_groups(self) -> bool:
        """Whether there is more than one group."""
        return len(self.groups) > 1

    @property
    def group_title(self) -> str:
        """What the groups are."""
        return ", ".join(key_column(self.query, key) for key in self.query.group_by)

    @property
    def finds_matches(self) -> bool:
        """Whether rows are matches."""
        return isinstance(self.query.returns, Matches)

    @property
    def is_sampled(self) -> bool:
        """Whether only some rows were fetched."""
        return int(self.table.num_rows) < self.rows

    @cached_property
    def windows(self) -> NDArray[np.float64]:
        """The distinct window starts, sorted."""
        return np.zeros(0) if self.times is None else np.unique(self.times)

    @property
    def main(self) -> NumberColumn | None:
        """The count of trends, or else the first number."""
        counts = [each for each in self.measures if each.is_count]
        return next(iter((*counts, *self.measures)), None)

    def by_group(self, measure: NumberColumn) -> NDArray[np.float64]:
        """A number per group over all windows: sums of counts, otherwise means."""
        known = np.where(np.isnan(measure.values), 0.0, measure.values)
        sums = np.bincount(self.group, known, len(self.groups)).astype(np.float64, copy=False)
        if measure.is_count:
            return sums
        many = np.bincount(self.group, np.isfinite(measure.values), len(self.groups))
        return sums / np.maximum(many, 1)

    def per_window(self, measure: NumberColumn) -> NDArray[np.float64]:
        """A number per window over all groups, as `by_group`."""
        known = np.where(np.isnan(measure.values), 0.0, measure.values)
        at = np.searchsorted(self.windows, self.times if self.times is not None else np.zeros(0))
        sums = np.bincount(at, known, len(self.windows)).astype(np.float64, copy=False)
        if measure.is_count:
            return sums
        return sums / np.maximum(np.bincount(at, np.isfinite(measure.values), len(self.windows)), 1)

    def when(self, time: float) -> str:
        """A window start as text."""
        if not self.is_clock:
            return f"{time:,.6g}"
        at = datetime.fromtimestamp(time / 1000, UTC)
        return f"{at:%Y-%m-%d %H:%M:%S}".removesuffix(":00") if at.year else str(at)


def view_of(query: Query, rows: Any, total: int) -> QueryView:
    """The rows of a query; of more than a million on Spark, a random sample."""
    if hasattr(rows, "sample") and total > MOST_FETCHED:
        rows = rows.sample(fraction=MOST_FETCHED / total, seed=0)
    table = to_table(rows)
    times, is_clock = _times(table.column(0), query)
    group, groups = _groups(query, table)
    return QueryView(query, table, total, times, is_clock, group, groups, _measures(query, table))


def _times(data: pa.ChunkedArray, query: Query) -> tuple[NDArray[np.float64] | None, bool]:
    if data.null_count == len(data):
        return None, False
    type_ = data.type
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        micros = data.cast(pa.timestamp("us", getattr(type_, "tz", None)), safe=False).cast(pa.int64())
        return micros.to_numpy() / 1000.0, True
    return data.cast(pa.float64()).to_numpy(), False


def _groups(query: Query, table: pa.Table) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    names = [key_column(query, key) for key in query.group_by]
    if not names or not table.num_rows:
        return np.zeros(table.num_rows, np.int64), ("",)
    texts = [pc.fill_null(decoded(table.column(name)).cast(pa.string()), "null") for name in names]
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, " · ")
    coded = pa.chunked_array([joined]) if isinstance(joined, pa.Array) else joined
    found = coded.combine_chunks().dictionary_encode()
    whole = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return whole.indices.to_numpy().astype(np.int64), tuple(whole.dictionary.to_pylist())


def _measures(query: Query, table: pa.Table) -> tuple[NumberColumn, ...]:
    if isinstance(query.returns, Matches):
        return ()
    found = []
    for item in query.returns:
        if isinstance(item.value, Aggregate):
            name = item.name or default_column(item.value)
            values = _numbers(table.column(name))
            function = Function.AVG if item.value.log2 else item.value.function
            found += [NumberColumn(name, function, values)] if values is not None else []
    return tuple(found)


def _numbers(data: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """A column as doubles; None if it is not of numbers. Exact numbers are text."""
    if pa.types.is_temporal(data.type) or pa.types.is_boolean(data.type):
        return None
    try:
        found: NDArray[np.float64] = pc.fill_null(data.cast(pa.float64()), np.nan).to_numpy()
        return found
    except pa.ArrowException:
        return None


@dataclass(frozen=True)
class Cells:
    """One number per stretch of windows and group.

    start   float64[k]  where each stretch begins
    values  float64[k, groups]  NaN where there is none
    """

    start: NDArray[np.float64]
    values: NDArray[np.float64]
    windows_each: int


def cells(view: QueryView, measure: NumberColumn, chosen: NDArray[np.int64] | None, most: int) -> Cells:
    """A measure by stretches of at most `most` windows and groups; without `chosen`, all groups together."""
    each = max(1, -(-len(view.windows) // most))
    at = np.searchsorted(view.windows, view.times if view.times is not None else np.zeros(0)) // each
    start = view.windows[::each]
    if chosen is None:
        column, many = np.zeros(len(at), np.int64), 1
    else:
        place = np.full(len(view.groups), -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        column, many = place[view.group], len(chosen)
    known = (column >= 0) & np.isfinite(measure.values)
    cell = (at * many + column)[known]
    return Cells(
        start, _merged(measure, cell, known, len(start) * many, view, each, chosen).reshape(-1, many), each
    )


def _merged(
    measure: NumberColumn,
    cell: NDArray[np.int64],
    known: NDArray[np.bool_],
    size: int,
    view: QueryView,
    each: int,
    chosen: NDArray[np.int64] | None,
) -> NDArray[np.float64]:
    """Counts and sums are added up over groups and averaged over windows; others keep their meaning."""
    values = measure.values[known]
    if measure.function in (Function.MIN, Function.MAX):
        ends = np.full(size, np.inf if measure.function is Function.MIN else -np.inf)
        (np.minimum if measure.function is Function.MIN else np.maximum).at(ends, cell, values)
        return np.where(np.isinf(ends), np.nan, ends)
    many = np.bincount(cell, minlength=size)
    sums = np.bincount(cell, values, size)
    if measure.function is Function.AVG:
        return np.where(many > 0, sums / np.maximum(many, 1), np.nan)
    in_stretch = np.minimum(each, len(view.windows) - np.arange(0, len(view.windows), each))
    over = np.repeat(in_stretch, size // max(1, len(in_stretch)))
    return np.where(many > 0, sums / over, np.nan)


def durations(view: QueryView) -> NDArray[np.float64]:
    """How long each match takes, in milliseconds or, without a clock, in the time column's unit."""
    assert view.times is not None
    ends, _ = _times(view.table.column(1), view.query)
    return np.zeros(0) if ends is None else ends - view.times


def overlaps(query: Query) -> bool:
    """Whether one trend can lie in several windows."""
    window = query.window
    return window is not None and (window.slide is None or window.slide < window.length)
