"""Evaluate expressions column-wise, with SQL's null handling and three-valued logic (spec 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.events.columns import Column, floats
from trendfold.events.schema import Kind
from trendfold.query.nodes import (
    Aggregate,
    Attribute,
    Between,
    Binary,
    Compare,
    Duration,
    Expression,
    In,
    Instant,
    IsNull,
    Like,
    Literal,
    Logic,
    Unary,
    Value,
)

Lookup = Callable[[Attribute | Aggregate], Column]
"""The column of a leaf: an attribute, or in HAVING an aggregate."""

_INT_MIN, _INT_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_TRUE = np.ones((), np.bool_)


def evaluate(node: Expression, lookup: Lookup) -> Column:
    """Evaluate an expression; literals have shape () and broadcast."""
    match node:
        case Literal(value):
            return literal(value)
        case Attribute() | Aggregate():
            return lookup(node)
        case Unary(op, operand):
            return _unary(op, evaluate(operand, lookup))
        case Binary(op, left, right):
            return _arithmetic(op, evaluate(left, lookup), evaluate(right, lookup))
        case Compare(op, left, right):
            return compare(op, evaluate(left, lookup), evaluate(right, lookup))
        case Logic(op, parts):
            return _logic(op, [evaluate(part, lookup) for part in parts])
        case IsNull(operand, negated):
            valid = evaluate(operand, lookup).valid
            return _truth(valid if negated else ~valid, np.ones_like(valid))
        case In(operand, items, negated):
            one = evaluate(operand, lookup)
            found = _logic("OR", [compare("=", one, evaluate(item, lookup)) for item in items])
            return _unary("NOT", found) if negated else found
        case Between(operand, low, high, negated):
            one = evaluate(operand, lookup)
            ends = compare(">=", one, evaluate(low, lookup)), compare("<=", one, evaluate(high, lookup))
            inside = _logic("AND", list(ends))
            return _unary("NOT", inside) if negated else inside
        case Like(operand, pattern, negated):
            return _like(evaluate(operand, lookup), pattern, negated)


def attribute_lookup(column: Callable[[str], Column]) -> Lookup:
    """A lookup for expressions whose leaves are event attributes."""

    def lookup(node: Attribute | Aggregate) -> Column:
        assert isinstance(node, Attribute), "aggregates are only allowed in HAVING"
        return column(node.name)

    return lookup


def is_true(column: Column) -> NDArray[np.bool_]:
    """Where a condition is true; null counts as not true."""
    return column.values.astype(np.bool_) & column.valid


def literal(value: Value) -> Column:
    """A literal as a column of shape ()."""
    match value:
        case Instant(micros):
            return Column(Kind.TIME, np.array(micros, np.int64), _TRUE)
        case Duration(micros):
            return Column(Kind.DURATION, np.array(micros, np.int64), _TRUE)
        case None:
            return Column(Kind.NULL, np.zeros((), np.int64), np.zeros((), np.bool_))
        case bool():
            return Column(Kind.BOOLEAN, np.array(value), _TRUE)
        case int() if _INT_MIN <= value <= _INT_MAX:
            return Column(Kind.INTEGER, np.array(value, np.int64), _TRUE)
        case int() | float():
            return floats(np.array(float(value)), _TRUE)
        case str():
            return Column(Kind.STRING, np.zeros((), np.int64), _TRUE, pa.array([value], pa.large_string()))


def _truth(values: NDArray[np.bool_], valid: NDArray[np.bool_]) -> Column:
    return Column(Kind.BOOLEAN, values, valid)


def _unary(op: str, operand: Column) -> Column:
    if op == "NOT":
        return _truth(~operand.values.astype(np.bool_), operand.valid)
    if operand.kind not in (Kind.INTEGER, Kind.DURATION) or operand.values.dtype.kind == "f":
        return replace(operand, values=np.abs(operand.values) if op == "ABS" else -operand.values + 0.0)
    with np.errstate(over="ignore"):
        values = np.abs(operand.values) if op == "ABS" else -operand.values
    return replace(operand, values=values, valid=operand.valid & (operand.values != _INT_MIN))


def _arithmetic(op: str, left: Column, right: Column) -> Column:
    valid = left.valid & right.valid
    if left.kind in _TIMES or right.kind in _TIMES:
        return _time_arithmetic(op, left, right)
    if op != "/" and left.kind is Kind.INTEGER and right.kind is Kind.INTEGER:
        return _integer_arithmetic(op, left.values.astype(np.int64), right.values.astype(np.int64), valid)
    a, b = left.values.astype(np.float64), right.values.astype(np.float64)
    with np.errstate(all="ignore"):
        match op:
            case "+":
                return floats(a + b, valid)
            case "-":
                return floats(a - b, valid)
            case "*":
                return floats(a * b, valid)
            case "/":
                return floats(a / b, valid & (b != 0))
            case _:
                return floats(np.fmod(a, b), valid & (b != 0))


_TIMES = (Kind.TIME, Kind.DURATION)


def _time_arithmetic(op: str, left: Column, right: Column) -> Column:
    """Times and durations as integers on the finer scale; a duration times a float is a float."""
    fine = max(left.per_microsecond, right.per_microsecond)
    a, b = (left.values, right.values) if op == "*" else (_finer(left, fine), _finer(right, fine))
    valid = left.valid & right.valid
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        found = _integer_arithmetic(op, a.astype(np.int64), b.astype(np.int64), valid)
    else:
        with np.errstate(all="ignore"):
            found = floats(a * b if op == "*" else a + b if op == "+" else a - b, valid)
    is_duration = op == "*" or left.kind is right.kind
    return replace(found, kind=Kind.DURATION if is_duration else Kind.TIME, per_microsecond=fine)


def _integer_arithmetic(
    op: str, a: NDArray[np.int64], b: NDArray[np.int64], valid: NDArray[np.bool_]
) -> Column:
    """64-bit integer arithmetic; an overflow gives null, detected without wider integers."""
    with np.errstate(all="ignore"):
        match op:
            case "+":
                values = a + b
                fits = ((a ^ values) & (b ^ values)) >= 0
            case "-":
                values = a - b
                fits = ((a ^ b) & (a ^ values)) >= 0
            case "*":
                values = a * b
                near = np.abs(a.astype(np.float64) * b) < 9.2e18
                fits = (
                    near
                    | ((a != 0) & (a != -1) & (np.floor_divide(values, np.where(a == 0, 1, a)) == b))
                    | ((a == -1) & (b != _INT_MIN))
                )
            case _:
                safe = np.where((b == 0) | (b == -1), 1, b)  # INT_MIN % -1 traps; x % -1 is 0 as x % 1
                values, fits = np.fmod(a, safe), b != 0
    return Column(Kind.INTEGER, values, valid & fits)


def compare(op: str, left: Column, right: Column) -> Column:
    """Compare two columns of compatible kinds."""
    valid = left.valid & right.valid
    a, b = _comparable(left, right)
    match op:
        case "=":
            return _truth(a == b, valid)
        case "!=":
            return _truth(a != b, valid)
        case "<":
            return _truth(a < b, valid)
        case "<=":
            return _truth(a <= b, valid)
        case ">":
            return _truth(a > b, valid)
        case _:
            return _truth(a >= b, valid)


def _comparable(left: Column, right: Column) -> tuple[NDArray[Any], NDArray[Any]]:
    """The values of both columns on one scale."""
    if left.words is not None and right.words is not None:
        return common_codes(left, right)
    if left.per_microsecond != right.per_microsecond:
        fine = max(left.per_microsecond, right.per_microsecond)
        return _finer(left, fine), _finer(right, fine)
    return left.values, right.values


def _finer(column: Column, per_microsecond: int) -> NDArray[Any]:
    """Times on a finer scale; out-of-range times are clipped, which keeps their order."""
    factor = per_microsecond // column.per_microsecond
    if factor == 1 or column.values.dtype.kind == "f":
        return column.values if factor == 1 else column.values * factor
    values: NDArray[np.int64] = np.clip(
        column.values.astype(np.int64), _INT_MIN // factor, _INT_MAX // factor
    )
    return values * factor


def common_codes(left: Column, right: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Codes of two string columns in one sorted dictionary."""
    if left.words is right.words:
        return left.values.astype(np.int64), right.values.astype(np.int64)
    both = pc.unique(pa.concat_arrays([left.words, right.words]))
    both = both.take(pc.sort_indices(both))
    recoded = []
    for column in (left, right):
        place = pc.index_in(column.words, value_set=both).to_numpy(zero_copy_only=False)
        place = place.astype(np.int64) if len(place) else np.zeros(1, np.int64)
        recoded.append(place[column.values.astype(np.int64)])
    return recoded[0], recoded[1]


def _logic(op: str, parts: list[Column]) -> Column:
    """AND: false if any part is false, else null if any is null. OR: the same with true."""
    decisive = op == "OR"
    settled: NDArray[np.bool_] = np.zeros((), np.bool_)
    known: NDArray[np.bool_] = np.ones((), np.bool_)
    for part in parts:
        settled = settled | (part.valid & (part.values.astype(np.bool_) == decisive))
        known = known & part.valid
    return _truth(settled if decisive else ~settled, settled | known)


def _like(operand: Column, pattern: str, negated: bool) -> Column:
    """Evaluate LIKE once per distinct word."""
    if operand.words is None:  # NULL LIKE ...
        return _truth(operand.values.astype(np.bool_), np.zeros_like(operand.valid))
    matched = pc.match_substring_regex(operand.words, like_regex(pattern)).to_numpy(zero_copy_only=False)
    matched = matched.astype(np.bool_) if len(matched) else np.zeros(1, np.bool_)
    return _truth(matched[operand.values.astype(np.int64)] != negated, operand.valid)


def like_regex(pattern: str) -> str:
    r"""A LIKE pattern as an RE2 regular expression: % any text, _ one character, \ escapes."""
    parts, escaped = [], False
    for character in pattern:
        if escaped or character not in "%_\\":
            parts.append(f"\\x{{{ord(character):x}}}")
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append(".*" if character == "%" else ".")
    tail = r"\x{5c}" if escaped else ""  # a lone escape at the end is literal
    return f"(?s)^{''.join(parts)}{tail}$"
