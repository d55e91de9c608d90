"""Compare the answers of cases before any time is shown.

An answer is a number, a text, None, an array, a table, or any nesting of sequences of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.errors import TrendfoldError
from trendfold.kernel.program import Folded
from trendfold.kernel.wide import log2, ratio

TOLERANCE = 1e-9
"""Relative tolerance; absolute for values near 0, such as the logarithm of one trend."""


class DisagreementError(TrendfoldError):
    """Two cases of a table gave different answers, so their times mean nothing."""

    def __init__(self, one: str, other: str, difference: str) -> None:
        super().__init__(
            f"{other!r} and {one!r} answer the same question and disagree: {difference}; no time is shown"
        )


def require_alike(one: str, expected: object, other: str, found: object) -> None:
    """Raise at the first difference, naming both cases."""
    difference = first_difference(expected, found)
    if difference is not None:
        raise DisagreementError(one, other, difference)


def first_difference(expected: object, found: object, where: str = "") -> str | None:
    """The first difference of two answers, such as `[2][0]: 3.0 beside 4.0`; None if they are equal."""
    one, other = _plain(expected), _plain(found)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _first_of_arrays(one, other, where)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        if len(one) != len(other):
            return f"{_at(where)}{len(one)} rows beside {len(other)}"
        pairs = enumerate(zip(one, other, strict=True))
        differences = (first_difference(a, b, f"{where}[{i}]") for i, (a, b) in pairs)
        return next((difference for difference in differences if difference), None)
    return None if _is_close(one, other) else f"{_at(where)}{_value(one)} beside {_value(other)}"


def _first_of_arrays(one: NDArray[Any], other: NDArray[Any], where: str) -> str | None:
    if one.shape != other.shape:
        return f"{_at(where)}{one.shape} values beside {other.shape}"
    if one.dtype.kind in "iu" and other.dtype.kind in "iu":
        far = one != other
    else:
        far = ~np.isclose(one, other, TOLERANCE, TOLERANCE, equal_nan=True)
    if not far.any():
        return None
    i = tuple(int(k) for k in np.argwhere(far)[0])
    place = where + "".join(f"[{k}]" for k in i)
    return f"{_at(place)}{_value(one[i])} beside {_value(other[i])}"


def _plain(value: object) -> object:
    """Tables as rows, mappings sorted by key."""
    if isinstance(value, pa.Table):
        return [tuple(row.values()) for row in value.to_pylist()]
    if isinstance(value, Mapping):
        return [(key, value[key]) for key in sorted(value)]
    return value


def _is_close(one: object, other: object) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    if isinstance(one, float | int | np.number) and isinstance(other, float | int | np.number):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return one == other


def _at(where: str) -> str:
    return f"at {where}, " if where else ""


def _value(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else repr(value)


# ---------------------------------------------------------------- results of trendfold


Columns = list[NDArray[np.float64]]
"""For one operand or query: log2 of the trends of each non-empty window, then its other aggregates."""


def trends(folded: Any) -> list[Columns]:
    """The columns of a fold per operand or query: numbers divided by the count, extremes unchanged.

    Cases may split, order and omit windows differently, so columns are sorted, and windows are not compared.
    """
    return [_columns(part) for part in _parts(folded)]


def trends_of_each(folds: Any) -> list[Columns]:
    """The same for queries that were folded one by one."""
    return [_columns(part) for folded in folds for part in _parts(folded)]


def columns(log: NDArray[np.float64], *others: NDArray[np.float64]) -> Columns:
    """The same for one operand whose columns are given; -inf means no trend."""
    return [np.sort(column[np.isfinite(log)]) for column in (log, *others)]


def _parts(folded: Any) -> Sequence[Folded]:
    return (folded,) if isinstance(folded, Folded) else folded


def _columns(part: Folded) -> Columns:
    count = part.mantissa[:, 0], part.exponent[:, 0]
    numbers = zip(part.mantissa.T[1:], part.exponent.T[1:], strict=True)
    return columns(log2(*count), *(ratio(*number, *count) for number in numbers), *part.extreme.T)


def rows(result: Any) -> list[pa.Table]:
    """The tables of a result, with rows sorted by window and group."""
    return [_ordered(result[name]) for name in sorted(result)]


def _ordered(table: Any) -> pa.Table:
    there = table if isinstance(table, pa.Table) else table.toArrow()
    keys = [name for name in there.column_names if not name.startswith(("count", "sum", "min", "max", "avg"))]
    return there.sort_by([(name, "ascending") for name in keys])


Answer = Callable[[Any], object]
"""Maps the result of a case's run to the answer that is compared."""
