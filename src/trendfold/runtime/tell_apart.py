"""Classify rows into kinds: hundreds of queries may test `x > 1`, `x > 2`, ... on one column.

All rows of a kind satisfy the same conditions, so conditions are evaluated once per kind. Comparisons of a
column, or of arithmetic, with constants cut its values into intervals; IN and BETWEEN do, too. A row's
interval is found by one binary search, whatever the number of constants. Any other condition is a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel.rows import find_intervals, look_up
from trendfold.query.nodes import (
    Attribute,
    Between,
    Binary,
    Compare,
    Expression,
    In,
    Literal,
    Logic,
    Unary,
)
from trendfold.runtime.expressions import Lookup, attribute_lookup, evaluate, is_true
from trendfold.runtime.sorting import combine, dense
from trendfold.runtime.workspace import Workspace

_BITS = 31
"""How many conditions are packed into one number."""


def tell_apart(
    conditions: Sequence[Expression], rows: NDArray[np.int64], workspace: Workspace
) -> tuple[dict[Expression, NDArray[np.bool_]], NDArray[Any]]:
    """Classify rows: per condition and kind whether it holds, and the kind of every row."""
    cut, bits = _comparisons(conditions, rows, workspace)
    parts = [_intervals(*each) for each in cut]
    parts += [_packed(bits[k : k + _BITS], rows, workspace) for k in range(0, len(bits), _BITS)]
    code, high = parts[0] if parts else (np.zeros(len(rows), np.int64), 1)
    for part, limit in parts[1:]:
        code, high = combine(code, high, part, limit)
    kinds, kind = dense(code, high)
    example = np.zeros(kinds, np.int64)
    example[kind] = np.arange(len(rows))
    some = rows[example]
    lookup, held, is_bit = _lookup(some, workspace), {}, frozenset(bits)
    for condition in conditions:
        if condition in is_bit:
            held[condition] = workspace.holds(condition)[some]
        else:
            held[condition] = np.broadcast_to(is_true(evaluate(condition, lookup)), (kinds,))
    return held, kind


def _lookup(rows: NDArray[np.int64], workspace: Workspace) -> Lookup:
    """The attributes of some rows, each taken once."""
    return attribute_lookup(cache(lambda name: workspace.batch.column(name).take(rows)))


def _comparisons(
    conditions: Sequence[Expression], rows: NDArray[np.int64], workspace: Workspace
) -> tuple[list[tuple[Column, NDArray[Any]]], list[Expression]]:
    """What conditions compare with several numbers, with these numbers sorted; and all other conditions.

    A condition that is already evaluated becomes a bit, because its columns may be missing from the batch.
    """
    compared: dict[Expression, dict[Expression, frozenset[int | float]]] = {}
    for condition in conditions:
        found = _thresholds(condition)
        if found is not None and not workspace.knows(condition):
            compared.setdefault(found[0], {})[condition] = found[1]
    lookup, cut, judged = _lookup(rows, workspace), [], set()
    for operand, constants in compared.items():
        numbers = sorted(frozenset[int | float]().union(*constants.values()))
        if len(numbers) < 2:
            continue
        column = evaluate(operand, lookup)
        cuts = _cuts(numbers, column.kind)
        if cuts is not None:
            cut.append((column, cuts))
            judged |= set(constants)
    return cut, [condition for condition in conditions if condition not in judged]


_Thresholds = tuple[Expression, frozenset[int | float]]


def _thresholds(condition: Expression) -> _Thresholds | None:
    """The one expression that a condition compares with numbers, and these numbers; or None."""
    match condition:
        case Compare(_, operand, Literal() as other) | Compare(_, Literal() as other, operand):
            return _numbers(operand, (other,))
        case In(operand, items):
            return _numbers(operand, items)
        case Between(operand, low, high):
            return _numbers(operand, (low, high))
        case Unary("NOT", operand):
            return _thresholds(operand)
        case Logic(_, parts):
            return _of_all([_thresholds(part) for part in parts])
    return None


def _numbers(operand: Expression, others: Sequence[Expression]) -> _Thresholds | None:
    """What an attribute, or arithmetic on attributes, is compared with, if these are numbers."""
    if not isinstance(operand, Attribute | Binary | Unary) or not _has_attribute(operand):
        return None
    values = [other.value for other in others if isinstance(other, Literal)]
    numbers = [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(numbers) < len(others):
        return None
    if isinstance(operand, Attribute) and operand.alias is not None:
        operand = replace(operand, alias=None)
    return operand, frozenset(numbers)


def _has_attribute(operand: Expression) -> bool:
    match operand:
        case Attribute():
            return True
        case Unary(_, inner):
            return _has_attribute(inner)
        case Binary(_, left, right):
            return _has_attribute(left) or _has_attribute(right)
    return False


def _of_all(parts: Sequence[_Thresholds | None]) -> _Thresholds | None:
    """The thresholds of several conditions, if they are all about one expression."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({operand for operand, _ in known}) > 1:
        return None
    return known[0][0], frozenset[int | float]().union(*(numbers for _, numbers in known))


def _cuts(numbers: list[int | float], kind: Kind) -> NDArray[Any] | None:
    """Numbers converted to the column's type; None if converting changes any."""
    if kind is Kind.FLOAT and all(float(number) == number for number in numbers):
        return np.array(numbers, np.float64)
    is_whole = all(isinstance(number, int) and abs(number) < 2**62 for number in numbers)
    return np.array(numbers, np.int64) if kind is Kind.INTEGER and is_whole else None


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
