"""Classify rows into kinds: hundreds of queries may test `x > 1`, `x > 2`, ... on one column.

All rows of a kind satisfy the same conditions, so conditions are evaluated once per kind. Comparisons of a
column with constants cut it into intervals: a row's kind is its interval, found by one binary search whatever
the number of constants. Any other condition is a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel.rows import find_intervals, look_up
from trendfold.query.nodes import Attribute, Compare, Expression, Literal
from trendfold.runtime.expressions import attribute_lookup, evaluate, is_true
from trendfold.runtime.sorting import combine, dense
from trendfold.runtime.workspace import Workspace

_BITS = 31
"""How many conditions are packed into one number."""


def tell_apart(
    conditions: Sequence[Expression], rows: NDArray[np.int64], workspace: Workspace
) -> tuple[dict[Expression, NDArray[np.bool_]], NDArray[Any]]:
    """Classify rows: per condition and kind whether it holds, and the kind of every row."""
    cut_by, bits = _comparisons(conditions, workspace)
    parts = [_intervals(workspace.batch.column(name).take(rows), cuts) for name, cuts in cut_by.items()]
    parts += [_packed(bits[k : k + _BITS], rows, workspace) for k in range(0, len(bits), _BITS)]
    code, high = parts[0] if parts else (np.zeros(len(rows), np.int64), 1)
    for part, limit in parts[1:]:
        code, high = combine(code, high, part, limit)
    kinds, kind = dense(code, high)
    example = np.zeros(kinds, np.int64)
    example[kind] = np.arange(len(rows))
    some = rows[example]
    examples = {name: workspace.batch.column(name).take(some) for name in cut_by}
    lookup = attribute_lookup(examples.__getitem__)
    held = {}
    for condition in conditions:
        if condition in bits:
            held[condition] = workspace.holds(condition)[some]
        else:
            held[condition] = np.broadcast_to(is_true(evaluate(condition, lookup)), (kinds,))
    return held, kind


def _comparisons(
    conditions: Sequence[Expression], workspace: Workspace
) -> tuple[dict[str, NDArray[Any]], list[Expression]]:
    """Per attribute that several conditions compare with numbers, these numbers sorted; and all others.

    A condition that is already evaluated becomes a bit, because its columns may be missing from the batch.
    """
    compared: dict[str, dict[Expression, int | float]] = {}
    for condition in conditions:
        found = _threshold(condition)
        if found is not None and not workspace.knows(condition):
            compared.setdefault(found[0], {})[condition] = found[1]
    cut_by, judged = {}, set()
    for name, constants in compared.items():
        cuts = _cuts(sorted(set(constants.values())), workspace.batch.column(name).kind)
        if cuts is not None:
            cut_by[name] = cuts
            judged |= set(constants)
    return cut_by, [condition for condition in conditions if condition not in judged]


def _threshold(condition: Expression) -> tuple[str, int | float] | None:
    """The attribute and the number that a condition compares, or None."""
    match condition:
        case Compare(_, Attribute(name=name), Literal(value=value)) | Compare(
            _, Literal(value=value), Attribute(name=name)
        ):
            if isinstance(value, int | float) and not isinstance(value, bool):
                return name, value
    return None


def _cuts(numbers: list[int | float], kind: Kind) -> NDArray[Any] | None:
    """Numbers converted to the column's type; None if there is only one, or if converting changes any."""
    if len(numbers) > 1 and kind is Kind.FLOAT and all(float(number) == number for number in numbers):
        return np.array(numbers, np.float64)
    is_whole = all(isinstance(number, int) and abs(number) < 2**62 for number in numbers)
    return np.array(numbers, np.int64) if len(numbers) > 1 and kind is Kind.INTEGER and is_whole else None


def _intervals(column: Column, cuts: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Per row the interval of its value: on a cut or between two; null is 0."""
    values, code = column.values.astype(cuts.dtype, copy=False), empty(len(column.values), np.int64)
    low, high = (values.min(), values.max()) if len(values) else (0, 0)
    if values.dtype == np.int64 and int(high) - int(low) < min(_FEW_VALUES, len(values)):
        of_value = np.empty(int(high) - int(low) + 1, np.int64)
        find_intervals(np.arange(low, high + 1), cuts, of_value)
        look_up(of_value, values - low, code)
    else:
        find_intervals(values, cuts, code)
    return (code if column.is_whole else np.where(column.valid, code, 0)), 2 * len(cuts) + 2


_FEW_VALUES = 1 << 16
"""A column of so few integers is looked up in a table, instead of searching for each row's interval."""


def _packed(
    conditions: Sequence[Expression], rows: NDArray[np.int64], workspace: Workspace
) -> tuple[NDArray[np.int64], int]:
    """Per row the conditions that hold, as bits."""
    code = np.zeros(len(rows), np.int64)
    for k, condition in enumerate(conditions):
        code |= workspace.holds(condition)[rows].astype(np.int64) << k
    return code, 1 << len(conditions)
