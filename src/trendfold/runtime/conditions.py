"""Compile conditions on two events into columns and small programs for kernel.pairs.

Subexpressions of one event are evaluated column-wise here, once; the kernel only evaluates what
mixes both events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.breaking import NoneBetween
from trendfold.automaton.predicates import Pairwise
from trendfold.errors import UnsupportedError
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.kernel.pairs import Op
from trendfold.kernel.program import Pairs
from trendfold.plan.neighbour import comparison, is_first, is_second, mentions
from trendfold.query.nodes import (
    Between,
    Binary,
    Compare,
    Expression,
    In,
    IsNull,
    Literal,
    Logic,
    Unary,
    Value,
)
from trendfold.query.printer import expression_text
from trendfold.runtime.expressions import attribute_lookup, common_codes, evaluate, literal

_COMPARE = {"=": Op.EQ, "!=": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_FLOAT = {"+": Op.ADD, "-": Op.SUB, "*": Op.MUL, "/": Op.DIV, "%": Op.MOD}
_INTEGER = {"+": Op.ADD_INT, "-": Op.SUB_INT, "*": Op.MUL_INT, "%": Op.MOD_INT}
_NEVER_ASKED = 0
_EXACT = 2**53
"""Doubles represent integers exactly up to this."""


def compile_pairs(
    conditions: Sequence[Pairwise],
    lookup: Callable[[str], Column],
    rows: int,
    asked: Collection[int] | None = None,
    negated: NegatedRows | None = None,
) -> Pairs:
    """Compile all conditions of a machine, or only those in `asked`, which keep their numbers."""
    programs = _Programs(lookup, rows, negated)
    for number, condition in enumerate(conditions):
        if asked is None or number in asked:
            programs.add(condition.condition)
        else:
            programs.skip()
    return programs.pairs()


@dataclass(frozen=True)
class NegatedRows:
    """What conditions read of the events between two others.

    moment  int32[n]; rows_at: the rows that can take a position
    inner   the number of the first condition between a NOT and a neighbour
    """

    moment: NDArray[np.int32]
    rows_at: Callable[[int], NDArray[np.int32]]
    inner: int


@dataclass
class _Programs:
    """Programs under construction, with the columns and constants they share."""

    lookup: Callable[[str], Column]
    rows: int
    negated: NegatedRows | None = None
    negated_rows: list[NDArray[np.int32]] = field(default_factory=list)
    compare: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    code: list[tuple[int, int]] = field(default_factory=list)
    floats: list[NDArray[np.float64]] = field(default_factory=list)
    ints: list[NDArray[np.int64]] = field(default_factory=list)
    valid: list[NDArray[np.bool_]] = field(default_factory=list)
    constants: list[float] = field(default_factory=list)
    int_constants: list[int] = field(default_factory=list)
    compared: dict[tuple[Expression, Expression], tuple[int, int]] = field(default_factory=dict)
    """The columns of comparisons already compiled: many patterns may share a comparison."""

    def add(self, condition: Expression | NoneBetween) -> None:
        """Compile a condition: a plain comparison of two sides, or a program."""
        if isinstance(condition, NoneBetween):
            self._add_none_between(condition)
            return
        compared = comparison(condition)
        if compared is not None:
            self._add_compare(_COMPARE[compared.op], compared.first, compared.second)
        else:
            self._emit(condition)
            self._close(0, 0, 0)

    def _add_none_between(self, condition: NoneBetween) -> None:
        """Name the rows of the NOT and the two columns, then the conditions with either neighbour."""
        assert self.negated is not None
        first, last = condition.first, condition.last
        columns = [self._float_column(self.lookup(b.name).values.astype(np.float64)) for b in (first, last)]
        self.negated_rows.append(self.negated.rows_at(first.position))
        inner = self.negated.inner
        self.code += [(Op.NONE_BETWEEN, len(self.negated_rows) - 1), *((Op.NONE_BETWEEN, c) for c in columns)]
        self.code += [(Op.WITH_LEFT, inner + i) for i in first.conditions]
        self.code += [(Op.WITH_RIGHT, inner + i) for i in last.conditions]
        self._close(0, 0, 0)

    def skip(self) -> None:
        """Leave a condition out, keeping its number."""
        self._close(_NEVER_ASKED, 0, 0)

    def _close(self, op: int, left: int, right: int) -> None:
        self.compare.append(op)
        self.left.append(left)
        self.right.append(right)
        self.starts.append(len(self.code))

    def _add_compare(self, op: int, first: Expression, second: Expression) -> None:
        if (first, second) not in self.compared:
            a, b = ranks(self._column(first), self._column(second))
            self.compared[first, second] = self._float_column(a), self._float_column(b)
        self._close(op, *self.compared[first, second])

    def _column(self, node: Expression) -> Column:
        return side_column(node, self.lookup, self.rows)

    def _float_column(self, values: NDArray[np.float64]) -> int:
        self.floats.append(values)
        return len(self.floats) - 1

    def _emit(self, node: Expression) -> Kind:
        """Append code that pushes the value of `node` onto the stack; returns its kind."""
        if isinstance(node, Literal):
            return self._emit_constant(node.value)
        if not (mentions(node, is_next=False) and mentions(node, is_next=True)):
            return self._emit_column(node)
        match node:
            case Unary("NOT", operand):
                self._emit(operand)
                return self._op(Op.NOT, Kind.BOOLEAN)
            case Unary(op, operand):
                kind = self._emit(operand)
                signs = {"-": (Op.NEG, Op.NEG_INT), "ABS": (Op.ABS, Op.ABS_INT)}[op]
                return self._op(signs[kind is Kind.INTEGER], kind)
            case Binary(op, left, right):
                return self._emit_arithmetic(op, left, right)
            case Compare(op, left, right):
                return self._emit_compare(op, left, right)
            case Logic(op, parts):
                for i, part in enumerate(parts):
                    self._emit(part)
                    if i:
                        self._op(Op.AND if op == "AND" else Op.OR, Kind.BOOLEAN)
                return Kind.BOOLEAN
            case IsNull(operand, negated):
                self._emit(operand)
                return self._op(Op.IS_NULL, Kind.BOOLEAN, negated)
            case In(operand, items, negated):
                either = [Compare("=", operand, item) for item in items]
                self._emit(either[0] if len(either) == 1 else Logic("OR", tuple(either)))
                return self._negate(negated)
            case Between(operand, low, high, negated):
                ends = (Compare(">=", operand, low), Compare("<=", operand, high))
                self._emit(Logic("AND", ends))
                return self._negate(negated)
            case _:
                raise AssertionError(f"{type(node).__name__} cannot mix two events")

    def _op(self, op: Op, kind: Kind, negated: bool = False) -> Kind:
        self.code.append((op, 0))
        return self._negate(negated) if negated else kind

    def _negate(self, negated: bool) -> Kind:
        if negated:
            self.code.append((Op.NOT, 0))
        return Kind.BOOLEAN

    def _emit_constant(self, value: Value) -> Kind:
        column = literal(value)
        match column.kind:
            case Kind.INTEGER | Kind.BOOLEAN | Kind.TIME | Kind.DURATION:
                self.int_constants.append(int(column.values))
                self.code.append((Op.CONST_INT, len(self.int_constants) - 1))
            case Kind.NULL:
                self.code.append((Op.NULL, 0))
            case Kind.FLOAT:
                self.constants.append(float(column.values))
                self.code.append((Op.CONST, len(self.constants) - 1))
            case _:
                raise AssertionError("a string constant is compared column-wise")
        return _number_kind(column)

    def _emit_column(self, node: Expression) -> Kind:
        """Push a value that depends on one event: a column."""
        column = self._column(node)
        second = mentions(node, is_next=True)
        if column.per_microsecond != 1:
            raise UnsupportedError(
                f"{expression_text(node)} has nanoseconds, by which two events cannot be compared so; "
                f"use TIME, or cast the column to microseconds"
            )
        if _number_kind(column) is Kind.FLOAT:
            values = np.where(column.valid, column.values, np.nan)
            self.code.append((Op.RIGHT if second else Op.LEFT, self._float_column(values)))
        elif column.kind is Kind.NULL:
            self.code.append((Op.NULL, 0))
        else:
            self.ints.append(column.values.astype(np.int64))
            self.valid.append(column.valid)
            self.code.append((Op.RIGHT_INT if second else Op.LEFT_INT, len(self.ints) - 1))
        return _number_kind(column)

    def _emit_float(self, node: Expression) -> None:
        if self._emit(node) is Kind.INTEGER:
            self.code.append((Op.FLOAT, 0))

    def _kind(self, node: Expression) -> Kind:
        """The kind of `node`, found by emitting it into discarded code."""
        probe = _Programs(self.lookup, self.rows)
        return probe._emit(node)

    def _emit_arithmetic(self, op: str, left: Expression, right: Expression) -> Kind:
        kinds = {self._kind(left), self._kind(right)}
        if op != "/" and kinds <= {Kind.INTEGER, Kind.NULL}:
            self._emit(left)
            self._emit(right)
            return self._op(_INTEGER[op], Kind.INTEGER)
        self._emit_float(left)
        self._emit_float(right)
        return self._op(_FLOAT[op], Kind.FLOAT)

    def _emit_compare(self, op: str, left: Expression, right: Expression) -> Kind:
        """Compare columns of two events by rank, mixed values as integers or doubles."""
        if (is_first(left) and is_second(right)) or (is_second(left) and is_first(right)):
            a, b = ranks(self._column(left), self._column(right))
            second = mentions(left, is_next=True)
            self.code.append((Op.RIGHT if second else Op.LEFT, self._float_column(a)))
            self.code.append((Op.LEFT if second else Op.RIGHT, self._float_column(b)))
            return self._op(_COMPARE[op], Kind.BOOLEAN)
        kinds = {self._kind(left), self._kind(right)}
        if Kind.FLOAT in kinds:
            self._emit_float(left)
            self._emit_float(right)
            return self._op(_COMPARE[op], Kind.BOOLEAN)
        self._emit(left)
        self._emit(right)
        return self._op(Op(_COMPARE[op] + 40), Kind.BOOLEAN)

    def pairs(self) -> Pairs:
        rows = self.rows
        return Pairs(
            np.array(self.compare, np.int32),
            np.array(self.left, np.int32),
            np.array(self.right, np.int32),
            np.array(self.starts, np.int32),
            np.array([x for pair in self.code for x in pair], np.int32),
            np.array(self.floats, np.float64).reshape(len(self.floats), rows),
            np.array(self.ints, np.int64).reshape(len(self.ints), rows),
            np.array(self.valid, np.bool_).reshape(len(self.valid), rows),
            np.array(self.constants, np.float64),
            np.array(self.int_constants, np.int64),
            len(self.code) + 1,
            np.empty(0, np.int32) if self.negated is None else self.negated.moment,
            np.concatenate([np.empty(0, np.int32), *self.negated_rows]),
            np.cumsum([0, *map(len, self.negated_rows)]).astype(np.int32),
        )


def _number_kind(column: Column) -> Kind:
    """The kind by which programs compute: times and durations are integers, or floats where they must be."""
    if column.kind in (Kind.TIME, Kind.DURATION):
        return Kind.FLOAT if column.values.dtype.kind == "f" else Kind.INTEGER
    return column.kind


def side_column(node: Expression, lookup: Callable[[str], Column], rows: int) -> Column:
    """The values of a one-event expression, for every row."""
    column = evaluate(node, attribute_lookup(lookup))
    values, valid = np.broadcast_to(column.values, (rows,)), np.broadcast_to(column.valid, (rows,))
    return replace(column, values=values, valid=valid)


def ranks(left: Column, right: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Doubles that compare like the values of both columns; null is NaN. Equal columns share an array."""
    a: NDArray[Any]
    b: NDArray[Any]
    if left.words is not None and right.words is not None:
        a, b = common_codes(left, right)
    elif is_exact(left) and is_exact(right) and left.per_microsecond == right.per_microsecond:
        a, b = left.values, right.values
    else:
        a, b = _joint_ranks(left, right)
    first = _with_nulls(a, left)
    return first, first if right is left else _with_nulls(b, right)


def _with_nulls(values: NDArray[Any], column: Column) -> NDArray[np.float64]:
    whole = values.astype(np.float64, copy=False)
    return whole if column.is_whole else np.where(column.valid, whole, np.nan)


def is_exact(column: Column) -> bool:
    """Whether doubles represent all values of a column exactly."""
    if column.kind not in (Kind.INTEGER, Kind.TIME, Kind.DURATION) or column.values.dtype.kind == "f":
        return True
    return bool(np.all(np.abs(column.values.astype(np.float64)) < _EXACT))


def _joint_ranks(left: Column, right: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks in the sorted union of two columns whose values are too large for doubles."""
    if Kind.FLOAT in (_number_kind(left), _number_kind(right)):
        values = np.concatenate([left.values.astype(np.float64), right.values.astype(np.float64)])
    else:
        top = max(left.per_microsecond, right.per_microsecond)
        parts = [np.array(c.values.tolist(), object) * (top // c.per_microsecond) for c in (left, right)]
        values = np.concatenate(parts) if top > 1 else np.concatenate([left.values, right.values])
    _, inverse = np.unique(values, return_inverse=True)
    return inverse[: len(left.values)], inverse[len(left.values) :]
