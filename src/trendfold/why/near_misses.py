"""What would have let an event pass: another spelling, another constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trendfold.errors import nearest, plural
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.query.nodes import (
    Between,
    Compare,
    Duration,
    Expression,
    In,
    Instant,
    Literal,
    Logic,
    Value,
)
from trendfold.query.printer import expression_text
from trendfold.runtime.expressions import Lookup, evaluate, is_true

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def near_type(wanted: str, counts: dict[str, int]) -> str:
    """Types that could have been meant where no event has the one written."""
    folded = [name for name in counts if name.strip().casefold() == wanted.strip().casefold()]
    if folded:
        name = max(folded, key=lambda each: counts[each])
        have = "event has" if counts[name] == 1 else "events have"
        return f"no event has the type {wanted!r}, but {counts[name]:,} {have} {name!r}"
    hint = nearest(wanted, counts)
    if hint:
        return f"no event has the type {wanted!r}; {hint}"
    most = sorted(counts, key=lambda name: -counts[name])[:5]
    return f"no event has the type {wanted!r}; there are {', '.join(map(repr, most)) or 'none'}"


@dataclass(frozen=True, slots=True)
class Among:
    """The rows in question, and how to read their columns."""

    rows: NDArray[np.bool_]
    lookup: Lookup
    noun: str = "event"

    def passing(self, condition: Expression) -> int:
        """How many of the rows satisfy a condition."""
        return int(
            np.count_nonzero(
                np.broadcast_to(is_true(evaluate(condition, self.lookup)), self.rows.shape) & self.rows
            )
        )


def near_miss(condition: Expression, among: Among) -> str:
    """What passes if one constant is changed; empty if nothing simple does, or there are no rows."""
    if not among.rows.any():
        return ""
    match condition:
        case Compare(op, left, Literal(value)) if value is not None:
            return _compared(
                condition, left, op, lambda v: replace(condition, right=Literal(v)), value, among
            )
        case Compare(op, Literal(value), right) if value is not None:
            mirrored = Compare(_MIRRORED[op], right, Literal(value))
            return near_miss(mirrored, among)
        case Between(operand, low, high, False):
            ends = Compare(">=", operand, low), Compare("<=", operand, high)
            return near_miss(Logic("AND", ends), among)
        case Logic("AND", parts):
            failing = [part for part in parts if not among.passing(part)]
            return near_miss(failing[0], among) if failing else ""
        case In(operand, items, False):
            texts = [item.value for item in items if isinstance(item, Literal)]
            close = (near_miss(Compare("=", operand, Literal(text)), among) for text in texts)
            return next(filter(None, close), "")
    return ""


def _compared(
    condition: Compare,
    left: Expression,
    op: str,
    with_value: Callable[[Value], Compare],
    value: Value,
    among: Among,
) -> str:
    found = _values(evaluate(left, among.lookup), among.rows)
    text = expression_text(left)
    if not len(found):
        return f"{text} is null in all {plural(int(among.rows.sum()), among.noun)}"
    if op in (">", ">="):
        best, told = found[-1], f"the largest {text} is"
        other = replace(with_value(best), op=">=")
    elif op in ("<", "<="):
        best, told = found[0], f"the smallest {text} is"
        other = replace(with_value(best), op="<=")
    elif op == "=":
        best = _closest(value, found)
        if best is None:
            return ""
        told, other = f"the nearest {text} is", with_value(best)
    else:
        many = plural(int(among.rows.sum()), among.noun)
        return f"{text} is {expression_text(Literal(found[0]))} in all {many}"
    passing = plural(among.passing(other), among.noun)
    return f"{told} {expression_text(Literal(best))}; {expression_text(other)} would pass {passing}"


def _values(column: Column, rows: NDArray[np.bool_]) -> list[Value]:
    """The distinct values of some rows, sorted, without nulls; of strings at most the 10,000 first."""
    valid = np.broadcast_to(column.valid, rows.shape) & rows
    distinct = np.unique(np.broadcast_to(column.values, rows.shape)[valid])
    match column.kind:
        case Kind.STRING if column.words is not None:
            return cast(list[Value], column.words.take(distinct[:10_000]).to_pylist())
        case Kind.TIME:
            return [Instant(int(v) // column.per_microsecond) for v in _ends(distinct)]
        case Kind.DURATION:
            return [Duration(int(v) // column.per_microsecond) for v in _ends(distinct)]
        case Kind.BOOLEAN:
            return [bool(v) for v in distinct]
    some = distinct[:: max(1, len(distinct) // 100_000)]
    return [_number(v.item()) for v in (*some[:-1], *distinct[-1:])]


def _number(value: int | float) -> int | float:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _ends(distinct: NDArray[Any]) -> NDArray[Any]:
    return distinct[[0, -1]] if len(distinct) > 1 else distinct


def _closest(value: Value, found: Sequence[Value]) -> Value:
    if isinstance(value, str):
        texts = [each for each in found if isinstance(each, str)]
        same = [each for each in texts if each.strip().casefold() == value.strip().casefold()]
        hint = nearest(value, texts)
        return same[0] if same else next((each for each in texts if f"{each!r}?" in hint), None)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        numbers = [each for each in found if isinstance(each, (int, float))]
        return min(numbers, key=lambda each: abs(each - value), default=None)
    return found[0]
