"""Translate conditions on one event to Spark columns, with the semantics of `runtime.expressions`.

Raises Untranslatable for expressions that Spark's functions cannot express; tasks evaluate those instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from trendfold.events.schema import Kind
from trendfold.query.nodes import (
    EVENT_TIME,
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
from trendfold.runtime.expressions import like_regex

_MOST = 2**63
_BITS = 63


class Untranslatable(Exception):  # noqa: N818 - not an error
    """Spark's functions cannot express this expression."""


def bits(conditions: Sequence[Expression], kinds: Mapping[str, Kind]) -> list[Column]:
    """The truth values of conditions as integer columns of 63 bits each."""
    found = []
    for begin in range(0, len(conditions), _BITS):
        part = conditions[begin : begin + _BITS]
        held = [
            F.when(condition(one, kinds), F.lit(1 << k).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
            for k, one in enumerate(part)
        ]
        found.append(reduce(lambda a, b: a.bitwiseOR(b), held))
    return found


def condition(node: Expression, kinds: Mapping[str, Kind]) -> Column:
    """Translate a condition on an event's attributes."""
    return _Translator(kinds).read(node)[0]


class _Translator:
    """Translates each node to a column and its kind."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self.kinds = kinds

    def read(self, node: Expression) -> tuple[Column, Kind]:
        match node:
            case Literal(value):
                return _literal(value)
            case Attribute(name=name) if name != EVENT_TIME:
                return self._attribute(name)
            case Unary(op, operand):
                return _unary(op, *self.read(operand))
            case Binary(op, left, right):
                return _arithmetic(op, *self.read(left), *self.read(right))
            case Compare(op, left, right):
                return self._compare(op, left, right), Kind.BOOLEAN
            case Logic(op, parts):
                return reduce(and_ if op == "AND" else or_, map(self._truth, parts)), Kind.BOOLEAN
            case IsNull(operand, negated):
                column, _ = self.read(operand)
                return column.isNotNull() if negated else column.isNull(), Kind.BOOLEAN
            case In(operand, items, negated):
                found = reduce(or_, [self._compare("=", operand, item) for item in items])
                return ~found if negated else found, Kind.BOOLEAN
            case Between(operand, low, high, negated):
                inside = self._compare(">=", operand, low) & self._compare("<=", operand, high)
                return ~inside if negated else inside, Kind.BOOLEAN
            case Like(operand, pattern, negated):
                return self._like(operand, pattern, negated), Kind.BOOLEAN
            case Attribute() | Aggregate():
                raise Untranslatable

    def _attribute(self, name: str) -> tuple[Column, Kind]:
        column, kind = F.col(spark_name(name)), self.kinds[name]
        match kind:
            case Kind.INTEGER:
                return column.cast("bigint"), kind
            case Kind.FLOAT:
                return _finite(column.cast("double")), kind
            case Kind.STRING | Kind.BOOLEAN:
                return column, kind
        raise Untranslatable

    def _truth(self, node: Expression) -> Column:
        column, kind = self.read(node)
        return _unknown() if kind is Kind.NULL else column

    def _compare(self, op: str, left: Expression, right: Expression) -> Column:
        a, of_a = self.read(left)
        b, of_b = self.read(right)
        if Kind.NULL in (of_a, of_b):
            return _unknown()
        if of_a is not of_b:
            if {of_a, of_b} != {Kind.INTEGER, Kind.FLOAT}:
                raise Untranslatable
            a, b = a.cast("double"), b.cast("double")
        match op:
            case "=":
                return a == b
            case "!=":
                return a != b
            case "<":
                return a < b
            case "<=":
                return a <= b
            case ">":
                return a > b
            case _:
                return a >= b

    def _like(self, operand: Expression, pattern: str, negated: bool) -> Column:
        column, kind = self.read(operand)
        if kind is Kind.NULL:
            return _unknown()
        # Java's $ also matches before a last line break; \z does not.
        matched = column.rlike(like_regex(pattern).removesuffix("$") + r"\z")
        return ~matched if negated else matched


def spark_name(name: str) -> str:
    """A column name quoted for Spark, so that dots and backticks are part of the name."""
    return "`" + name.replace("`", "``") + "`"


_DOT = "\x1f"


def without_dots(frame: DataFrame) -> DataFrame:
    """The frame as mapInArrow takes it, which would look for the field b in a column called a.b."""
    names = undotted(frame.columns)
    return frame if names == frame.columns else frame.toDF(*names)


def undotted(names: Iterable[str]) -> list[str]:
    """The names of columns while they are sent to tasks."""
    return [name.replace(".", _DOT) for name in names]


def with_dots(table: pa.Table) -> pa.Table:
    """Rows in a task, with the names they had before `without_dots`."""
    return table.rename_columns([name.replace(_DOT, ".") for name in table.column_names])


def _unknown() -> Column:
    return F.lit(None).cast("boolean")


def _finite(column: Column) -> Column:
    """Replace NaN and infinity by null."""
    return F.when(F.abs(column) < F.lit(float("inf")), column)


def _literal(value: Value) -> tuple[Column, Kind]:
    match value:
        case Instant() | Duration():
            raise Untranslatable
        case None:
            return F.lit(None), Kind.NULL
        case bool():
            return F.lit(value), Kind.BOOLEAN
        case int() if -_MOST <= value < _MOST:
            return F.lit(value).cast("bigint"), Kind.INTEGER
        case int() | float():
            return _finite(F.lit(float(value))), Kind.FLOAT
        case str():
            return F.lit(value), Kind.STRING


def _unary(op: str, column: Column, kind: Kind) -> tuple[Column, Kind]:
    if kind is Kind.NULL:
        return column, kind
    if op == "NOT":
        return ~column, kind
    if kind is Kind.FLOAT:
        return F.abs(column) if op == "ABS" else F.lit(0.0) - column, kind
    if kind is not Kind.INTEGER:
        raise Untranslatable
    negative = F.try_subtract(F.lit(0).cast("bigint"), column)  # the smallest integer overflows
    return F.when(column < 0, negative).otherwise(column) if op == "ABS" else negative, kind


def _arithmetic(op: str, left: Column, of_left: Kind, right: Column, of_right: Kind) -> tuple[Column, Kind]:
    if not {of_left, of_right} <= {Kind.INTEGER, Kind.FLOAT}:
        raise Untranslatable
    if op != "/" and of_left is of_right is Kind.INTEGER:
        match op:
            case "+":
                return F.try_add(left, right), Kind.INTEGER
            case "-":
                return F.try_subtract(left, right), Kind.INTEGER
            case "*":
                return F.try_multiply(left, right), Kind.INTEGER
            case _:
                return F.try_mod(left, right), Kind.INTEGER
    a, b = left.cast("double"), right.cast("double")
    match op:
        case "+":
            return _finite(a + b), Kind.FLOAT
        case "-":
            return _finite(a - b), Kind.FLOAT
        case "*":
            return _finite(a * b), Kind.FLOAT
        case "/":
            return _finite(F.try_divide(a, b)), Kind.FLOAT
        case _:
            return _finite(F.try_mod(a, b)), Kind.FLOAT
