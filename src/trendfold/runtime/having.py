"""HAVING on exact values (spec 9): by doubles where they suffice, else row by row with big integers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.errors import LimitError
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel import wide
from trendfold.plan.judged import aggregate_of, unbounded_aggregates
from trendfold.query.names import walk
from trendfold.query.nodes import (
    Aggregate,
    Attribute,
    Between,
    Binary,
    Compare,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Logic,
    Query,
    Unary,
)
from trendfold.runtime.exact_values import EXACT_BITS, NEAR, Exact, digits_after_point, is_whole
from trendfold.runtime.expressions import Lookup, evaluate, is_true

_LARGEST = float(np.finfo(np.float64).max)

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Value = int | Fraction | bool | None


def having(exact: Exact, lookup: Lookup, *, is_strict: bool) -> NDArray[np.bool_]:
    """Where HAVING is true.

    Numbers beyond MOST_BITS are an error if `is_strict`, and otherwise approximated by wide numbers.
    """
    query, rows = exact.plan.query, len(exact.totals[0].mantissa)
    assert query.having is not None
    found = np.broadcast_to(is_true(evaluate(query.having, lookup)), (rows,))
    sizes = {
        leaf: _Size(exact, leaf, is_strict=is_strict) for leaf in unbounded_aggregates(query, query.having)
    }
    open_ = _undecided(query, query.having, lookup, sizes, rows)
    if not open_.any():
        return found
    judge = _Judge(query, lookup, _true_values(exact, sizes, open_, is_strict=is_strict), rows)
    found = found.copy()
    for k, row in enumerate(np.flatnonzero(open_)):
        found[row] = judge.value(query.having, k, int(row)) is True
    return found


class _Size:
    """The magnitude, row by row, of an aggregate that may exceed doubles."""

    def __init__(self, exact: Exact, leaf: Aggregate, *, is_strict: bool) -> None:
        self.scale_digits = digits_after_point(leaf, exact.batch) if is_strict else None
        self.is_whole = is_whole(leaf, exact.batch) or self.scale_digits is not None
        self.mantissa, self.exponent = exact.wide(leaf)
        double = wide.to_double(self.mantissa, self.exponent)
        self.scale = np.abs(np.clip(double, -_LARGEST, _LARGEST))
        self.is_large = ~np.isfinite(double)
        if self.is_whole:
            bits = exact.bits(leaf)
            self.is_large |= bits >= EXACT_BITS
            largest = np.where(bits < 1023, np.exp2(np.minimum(bits, 1023)), _LARGEST)
            self.scale = np.maximum(self.scale, largest)
        if self.scale_digits is not None:  # doubles do not have the last digit of a decimal
            self.is_large = np.ones(len(double), np.bool_)


def _undecided(
    query: Query, node: Expression, lookup: Lookup, sizes: Mapping[Aggregate, _Size], rows: int
) -> NDArray[np.bool_]:
    """Where doubles do not suffice: arithmetic on large numbers, and comparisons of large, close numbers."""
    found = np.zeros(rows, np.bool_)
    for part in walk(node):
        match part:
            case Compare(_, left, right):
                pairs = [(left, right)]
            case In(operand, items):
                pairs = [(operand, item) for item in items]
            case Between(operand, low, high):
                pairs = [(operand, low), (operand, high)]
            case Binary() | Unary("-" | "ABS"):
                for leaf in unbounded_aggregates(query, part):
                    found |= sizes[leaf].is_large
                continue
            case _:
                continue
        for left, right in pairs:
            large = [sizes[leaf] for side in (left, right) for leaf in unbounded_aggregates(query, side)]
            if any(size.is_large.any() for size in large):
                a, b = (_doubles(evaluate(side, lookup)) for side in (left, right))
                scale = np.maximum.reduce([np.maximum(np.abs(a), np.abs(b)), *[s.scale for s in large]])
                near = ~(np.abs(a / 2 - b / 2) > NEAR / 2 * scale)
                found |= near & np.logical_or.reduce([size.is_large for size in large])
    return found


def _doubles(column: Column) -> NDArray[np.float64]:
    return np.clip(column.values.astype(np.float64), -_LARGEST, _LARGEST)


def _true_values(
    exact: Exact, sizes: Mapping[Aggregate, _Size], open_: NDArray[np.bool_], *, is_strict: bool
) -> dict[Aggregate, list[Value]]:
    """The exact values of each aggregate in the undecided rows."""
    whole: Mapping[Aggregate, Any] = {}
    try:
        if exact.events:  # a stream or a part of it has folded and forgotten them
            whole = exact.values([leaf for leaf, size in sizes.items() if size.is_whole], open_)
    except LimitError:
        if is_strict:
            raise
    found: dict[Aggregate, list[Value]] = {}
    for leaf, size in sizes.items():
        values: list[Value]
        if leaf in whole:
            values = [_pointed(value, size.scale_digits) for value in whole[leaf]]
        else:
            values = [
                _number(Fraction(float(m)) * (1 << (int(e) * wide.RADIX_BITS)))
                for m, e in zip(size.mantissa[open_], size.exponent[open_], strict=True)
            ]
        none = exact.is_null(leaf)[open_]
        found[leaf] = [None if is_none else value for value, is_none in zip(values, none, strict=True)]
    return found


def _pointed(whole: int, digits: int | None) -> int | Fraction:
    """An integer; for an unscaled decimal, the nearest double, as for literals."""
    if digits is None:
        return whole
    exact = Fraction(whole) / Fraction(10) ** digits
    try:
        return _number(float(exact))
    except OverflowError:
        return _number(exact)


def _number(value: float | Fraction) -> int | Fraction:
    fraction = Fraction(value)
    return fraction.numerator if fraction.denominator == 1 else fraction


class _Judge:
    """Evaluates SQL expressions on Python numbers, one row at a time."""

    def __init__(
        self, query: Query, lookup: Lookup, known: Mapping[Aggregate, list[Value]], rows: int
    ) -> None:
        self.query, self.lookup, self.known, self.rows = query, lookup, known, rows
        self.columns: dict[Expression, Column] = {}

    def value(self, node: Expression, k: int, row: int) -> Any:
        """The value of an expression in the k-th undecided row, which is row `row` of all."""
        if not unbounded_aggregates(self.query, node):
            return self._plain(node, row)
        match node:
            case Attribute() | Aggregate():
                aggregate = aggregate_of(self.query, node)
                assert aggregate is not None
                return self.known[aggregate][k]
            case Unary(op, operand):
                value = self.value(operand, k, row)
                if value is None:
                    return None
                return not value if op == "NOT" else abs(value) if op == "ABS" else -value
            case Binary(op, left, right):
                return _calculate(op, self.value(left, k, row), self.value(right, k, row))
            case Compare(op, left, right):
                return _compare(op, self.value(left, k, row), self.value(right, k, row))
            case Logic(op, parts):
                return _logic(op, [self.value(part, k, row) for part in parts])
            case IsNull(operand, negated):
                return (self.value(operand, k, row) is None) != negated
            case In(operand, items, negated):
                one = self.value(operand, k, row)
                found = _logic("OR", [_compare("=", one, self.value(item, k, row)) for item in items])
                return None if found is None else found != negated
            case Between(operand, low, high, negated):
                one, ends = self.value(operand, k, row), (self.value(low, k, row), self.value(high, k, row))
                inside = _logic("AND", [_compare(">=", one, ends[0]), _compare("<=", one, ends[1])])
                return None if inside is None else inside != negated
            case Literal() | Like():
                raise AssertionError("contains no exact number")

    def _plain(self, node: Expression, row: int) -> Any:
        if isinstance(node, Literal) and isinstance(node.value, int):
            return node.value
        if node not in self.columns:
            self.columns[node] = evaluate(node, self.lookup)
        column = self.columns[node]
        if not np.broadcast_to(column.valid, (self.rows,))[row]:
            return None
        value = np.broadcast_to(column.values, (self.rows,))[row].item()
        return _number(value) if column.kind is Kind.FLOAT else value


def _compare(op: str, left: Value, right: Value) -> bool | None:
    return None if left is None or right is None else _COMPARE[op](left, right)


def _logic(op: str, parts: list[Value]) -> bool | None:
    decisive = op == "OR"
    if any(part is decisive for part in parts):
        return decisive
    return None if None in parts else not decisive


def _calculate(op: str, left: Any, right: Any) -> Any:
    if left is None or right is None or (op in "/%" and right == 0):
        return None
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            try:
                return _number(left / right)
            except OverflowError:
                return _number(Fraction(left) / Fraction(right))
        case _:
            rest = abs(left) % abs(right)  # takes the sign of the left operand
            return -rest if left < 0 else rest
