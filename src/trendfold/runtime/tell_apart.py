"""Which kinds of rows conditions tell apart: hundreds of queries ask `x > 1`, `x > 2`, ... of the same column.

A row of a kind meets the same conditions as any other, so conditions are judged once per kind. Comparisons of
one column with constants cut it into intervals: a row's kind is its interval, found by one search, whatever
the number of constants. Any other condition is a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel.rows import find_intervals
from trendfold.query.nodes import Attribute, Compare, Expression, Literal
from trendfold.runtime.expressions import attribute_lookup, evaluate, is_true
from trendfold.runtime.sorting import combine, dense

if TYPE_CHECKING:
    from trendfold.runtime.rows import Workspace

_BITS = 31
"""Conditions that are packed into one number."""


def tell_apart(
    conditions: Sequence[Expression], rows: NDArray[np.int64], workspace: Workspace
) -> tuple[dict[Expression, NDArray[np.bool_]], NDArray[Any]]:
    """Per condition and kind of row whether it holds, and the kind of every row."""
    bounds = _constants(conditions, workspace)
    bits = [c for c in conditions if _threshold(c) is None or _attribute(c) not in bounds]
    parts = [_intervals(workspace.batch.column(name).take(rows), cuts) for name, cuts in bounds.items()]
    parts += [_packed(bits[k : k + _BITS], rows, workspace) for k in range(0, len(bits), _BITS)]
    code, high = np.zeros(len(rows), np.int64), 1
    for part, limit in parts:
        code, high = combine(code, high, part, limit)
    kinds, kind = dense(code, high)
    example = np.zeros(kinds, np.int64)
    example[kind] = np.arange(len(rows))
    some = rows[example]
    lookup = attribute_lookup(lambda name: workspace.batch.column(name).take(some))
    known = set(bits)
    held = {}
    for condition in conditions:
        if condition in known:
            held[condition] = workspace.holds(condition)[some]
        else:
            held[condition] = np.broadcast_to(is_true(evaluate(condition, lookup)), (kinds,))
    return held, kind


def _threshold(condition: Expression) -> tuple[str, int | float] | None:
    """The attribute and the number that a condition compares."""
    match condition:
        case Compare(_, Attribute(name=name), Literal(value=value)) | Compare(
            _, Literal(value=value), Attribute(name=name)
        ):
            if isinstance(value, int | float) and not isinstance(value, bool):
                return name, value
    return None


def _attribute(condition: Expression) -> str:
    found = _threshold(condition)
    return found[0] if found is not None else ""


def _constants(conditions: Sequence[Expression], workspace: Workspace) -> dict[str, NDArray[Any]]:
    """Per attribute that several conditions compare with numbers: these numbers, in order."""
    found: dict[str, set[int | float]] = {}
    for condition in conditions:
        compared = _threshold(condition)
        if compared is not None and not workspace.knows(condition):
            found.setdefault(compared[0], set()).add(compared[1])
    result = {}
    for name, values in found.items():
        kind = workspace.batch.column(name).kind if len(values) > 1 else None
        if kind is Kind.FLOAT and all(float(v) == v for v in values):
            result[name] = np.array(sorted(map(float, values)))
        elif kind is Kind.INTEGER and all(isinstance(v, int) and abs(v) < 2**62 for v in values):
            result[name] = np.array(sorted(values), np.int64)
    return result


def _intervals(column: Column, cuts: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Per row where its value lies among the cuts, on one or between two; null is 0."""
    code = np.empty(len(column.values), np.int64)
    find_intervals(column.values.astype(cuts.dtype, copy=False), cuts, code)
    return (code if column.is_whole else np.where(column.valid, code, 0)), 2 * len(cuts) + 2


def _packed(
    conditions: Sequence[Expression], rows: NDArray[np.int64], workspace: Workspace
) -> tuple[NDArray[np.int64], int]:
    """Per row a bit for each condition that holds."""
    code = np.zeros(len(rows), np.int64)
    for k, condition in enumerate(conditions):
        code |= workspace.holds(condition)[rows].astype(np.int64) << k
    return code, 1 << len(conditions)
