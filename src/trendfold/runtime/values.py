"""Rows -> the values that numbers add and extremes compare, and aggregates back to an attribute's values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.errors import InputError
from trendfold.events.batch import EventBatch
from trendfold.events.buffers import empty
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel import wide
from trendfold.kernel.lower import PASSED, ExtremeColumn, extreme_columns, value_columns
from trendfold.kernel.lower import Column as ValueColumn
from trendfold.kernel.program import Events, Folded
from trendfold.kernel.rows import write_passed, write_times
from trendfold.plan import OperandPlan
from trendfold.plan.carried import Carried, Measure
from trendfold.query.nodes import OfTrend
from trendfold.runtime.conditions import is_exact
from trendfold.runtime.query_rows import Rows

_LARGEST_VALUE = 2.0**200
"""Beyond this, a value times a count far smaller than a sum may still affect the sum; see kernel.wide."""


def read_events(
    plan: OperandPlan, number: int, rows: Rows, moment: NDArray[np.int32], batch: EventBatch
) -> Events:
    """The rows as kernels read them for operand `number`."""
    events = values_beside(plan.carried, rows.symbols[number], moment, rows, batch)
    if plan.carried.elapsed and (plan.machine.by_event or plan.builds_trends):
        return events._replace(clock=rows.time.astype(np.float64))
    return events


def values_beside(
    carried: Carried,
    symbol: NDArray[np.int32],
    moment: NDArray[np.int32],
    rows: Rows,
    batch: EventBatch,
) -> Events:
    """Rows with the values that numbers add and extremes compare, one array each."""
    added, compared = value_columns(carried), extreme_columns(carried)
    values, extremes = _room(1.0, len(added), len(symbol)), _room(np.inf, len(compared), len(symbol))
    sizes = [_write_added(column, rows, batch, values[:, k]) for k, column in enumerate(added, 1)]
    for k, each in enumerate(compared, 1):
        _write_compared(each, rows, batch, extremes[:, k])
    return Events(symbol, moment, values, extremes, max(sizes, default=0.0) <= _LARGEST_VALUE, NO_CLOCK)


def _write_added(column: ValueColumn, rows: Rows, batch: EventBatch, into: NDArray[np.float64]) -> float:
    """What numbers add: values of an attribute, or the time since the row before; the largest in size."""
    measure, name = column
    if column == PASSED:
        write_passed(rows.time, into)
        return 0.0  # it always fits
    into[:] = found = _values(batch.column(name).take(rows.row), measure)
    return float(max(found.max(initial=0.0), -found.min(initial=0.0)))


def _write_compared(column: ExtremeColumn, rows: Rows, batch: EventBatch, into: NDArray[np.float64]) -> None:
    """What extremes compare or add: values of an attribute, times, or 1 for each binding."""
    name, is_negated = column
    if isinstance(name, str):
        into[:] = _extremes(batch.column(name), rows.row, is_negated)
    elif name is OfTrend.DURATION:
        write_times(rows.time, -1.0 if is_negated else 1.0, into)
    else:
        into[:] = -1.0 if is_negated else 1.0


def _room(first: float, columns: int, rows: int) -> NDArray[np.float64]:
    """Room for columns behind a constant, row-major: the values of an event are contiguous."""
    found = empty((rows, columns + 1 if columns else 0), np.float64)
    found[:, :1] = first
    return found


NO_CLOCK = np.zeros(0)
"""The clock of events whose durations nobody adds up."""


def starting_at(
    events: Events, carried: Carried, rows: NDArray[np.int64], passed: NDArray[np.int64] | None = None
) -> Events:
    """The same, with other times or none passed before some rows, where parts of a segment begin."""
    if not carried.elapsed:
        return events
    values = events.values.copy()
    column, inside = 1 + value_columns(carried).index(PASSED), rows < len(values)
    values[rows[inside], column] = 0.0 if passed is None else passed[inside]
    return events._replace(values=values)


def with_constant(events: Events, carried: Carried) -> Events:
    """The same, with a column 0 of 1 if numbers are carried, as the machines of lanes read it."""
    if carried.numbers and events.values.shape[1] == 0:  # only bindings are counted
        return events._replace(values=np.ones((len(events.symbol), 1)))
    return events


def no_trends(items: int, width: int, extremes: int) -> Folded:
    """The aggregates of items that have no trend."""
    return Folded(
        np.zeros((items, width)), np.zeros((items, width), np.int32), np.full((items, extremes), np.inf)
    )


def rows_with_trends(folded: Folded) -> NDArray[np.int64]:
    """The rows whose count is positive."""
    some = np.empty(len(folded.mantissa) + 1, np.int64)
    return some[: wide.find_positive(folded.mantissa[:, 0], some)]


def at_rows(folded: Folded, some: NDArray[Any]) -> Folded:
    """Some rows of aggregates."""
    sizes = folded.mantissa.shape[1], folded.extreme.shape[1]
    taken = no_trends(len(some), *sizes)
    wide.take_rows(some, *folded, *taken)
    return taken


def _values(column: Column, measure: Measure) -> NDArray[np.float64]:
    """The values that SUM adds up, 0 for null; or 1 per non-null value."""
    if measure is Measure.PRESENT:
        return column.valid.astype(np.float64)
    return np.where(column.valid, column.values.astype(np.float64), 0.0)


def _extremes(column: Column, rows: NDArray[np.int64], is_max: bool) -> NDArray[np.float64]:
    """The numbers that MIN compares: codes of the values, or their ranks if there are values without code."""
    values = coded(column.values) if has_codes(column) else ranked(column)[1].astype(np.float64)
    return np.where(column.valid, -values if is_max else values, np.inf)[rows]


def ranked(column: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sorted distinct values of a column, and per row the index of its value among them."""
    return np.unique(column.values.astype(np.int64), return_inverse=True)


def in_unit(values: NDArray[np.float64], of: OfTrend | None) -> NDArray[np.float64]:
    """What trends as a whole have: durations in seconds, from microseconds; all else as it is."""
    return values / 1e6 if of is OfTrend.DURATION else values


def decode_extreme(column: Column, extreme: NDArray[np.float64], is_max: bool) -> NDArray[Any]:
    """Decode what MIN compared into values of the attribute; 0 where there was none."""
    found = np.where(np.isfinite(extreme), -extreme if is_max else extreme, 0.0) + 0.0
    if column.kind is Kind.FLOAT:
        return found
    return uncoded(found) if has_codes(column) else ranked(column)[0][np.rint(found).astype(np.int64)]


# ---- Codes: every integer is a double ------------------------------------------------------------------

_WHOLE = 2**53
"""Up to here an integer is its own code. Above, the n-th integer has the n-th double as its code."""
_FROM = int(np.array(float(_WHOLE)).view(np.int64))
_MOST = int(np.array(np.finfo(np.float64).max).view(np.int64)) - _FROM + _WHOLE
"""The integers below have codes, 4.4e18 or so; and the two ends of the 64 bits, which often mean nothing."""
_ENDS = np.iinfo(np.int64)


def has_codes(column: Column) -> bool:
    """Whether all values of a column have codes: doubles in the same order, whatever the other values."""
    if column.kind not in (Kind.INTEGER, Kind.TIME) or is_exact(column):
        return True
    values = column.values[column.valid].astype(np.int64)
    inside = (values > -_MOST) & (values < _MOST)
    return bool(np.all(inside | (values == _ENDS.max) | (values == _ENDS.min)))


def require_codes(query: str, name: str, column: Column) -> None:
    """Raise if a value has no code: extremes that are carried from one batch to the next are codes."""
    if not has_codes(column):
        raise InputError(
            f"query {query!r}: over a stream, MIN and MAX take values of {name!r} up to ±{_MOST - 1:,}; "
            f"exclude larger ones by a condition in WHERE"
        )


def coded(values: NDArray[Any]) -> NDArray[np.float64]:
    """The codes of values."""
    found = values.astype(np.float64)
    if values.dtype.kind == "f" or not (large := np.abs(found) >= _WHOLE).any():
        return found
    whole = values[large].astype(np.int64)
    size = np.where(whole < 0, ~whole, whole - 1) + 1 - _WHOLE  # no overflow at the least integer
    place = np.where(np.isin(whole, (_ENDS.max, _ENDS.min)), _MOST - _WHOLE, np.minimum(size, _MOST - _WHOLE))
    found[large] = np.copysign((place + _FROM).view(np.float64), found[large])
    return found


def uncoded(codes: NDArray[np.float64]) -> NDArray[np.int64]:
    """The integers that have these codes."""
    found = np.where(np.abs(codes) < _WHOLE, codes, 0.0).astype(np.int64)
    if not (large := np.abs(codes) >= _WHOLE).any():
        return found
    place = np.abs(codes[large]).view(np.int64) - _FROM
    is_end, is_less = place >= _MOST - _WHOLE, codes[large] < 0
    whole = np.where(is_less, -1, 1) * (place + _WHOLE)
    found[large] = np.where(is_end, np.where(is_less, _ENDS.min, _ENDS.max), whole)
    return found
