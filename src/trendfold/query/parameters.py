"""Parameters: `:name` in a query stands for a value given beside the text, which becomes a literal node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from trendfold.errors import InputError, Span, nearest, query_error
from trendfold.query.names import children, with_children
from trendfold.query.nodes import Duration, Expression, Instant, Like, Literal, Unary, Value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

MAX_NUMBER_DIGITS = 4_000
"""Python refuses to parse or print longer numbers."""
_TOO_LARGE = 10**MAX_NUMBER_DIGITS


@dataclass(frozen=True, slots=True)
class Parameter:
    """`:name`, until its value takes its place."""

    name: str
    span: Span


@dataclass
class Parameters:
    """The values of a workload's parameters, and which of them were asked for."""

    values: Mapping[str, Any]
    asked: set[str] = field(default_factory=set)

    def literal(self, parameter: Parameter) -> Literal:
        """The value of a parameter, as a node at its place in the text."""
        name = parameter.name
        self.asked.add(name)
        if name not in self.values:
            hint = nearest(name, self.values) or f"pass params={{{name!r}: ...}}, or --param {name}=..."
            raise query_error(f"the parameter {name!r} has no value", parameter.span, hint)
        return Literal(plain(f"the parameter {name!r}", self.values[name]), parameter.span)

    def fill(self, node: Expression) -> Expression:
        """The expression with values in place of its parameters."""
        if isinstance(parameter := cast(object, node), Parameter):
            return self.literal(parameter)
        if isinstance(node, Like) and isinstance(pattern := cast(object, node.pattern), Parameter):
            value = self.literal(pattern).value
            if not isinstance(value, str):
                message = f"LIKE takes a string, and the parameter {pattern.name!r} is none"
                raise query_error(message, pattern.span)
            node = replace(node, pattern=value)
        filled = with_children(node, tuple(self.fill(child) for child in children(node)))
        return negative(filled.operand) if isinstance(filled, Unary) and filled.op == "-" else filled

    def check_all_asked(self) -> None:
        """Raise for values that no query asks for."""
        for name in self.values:
            if name not in self.asked:
                hint = nearest(name, self.asked) or "remove it, or write it in a query as :" + name
                raise query_error(f"no query has the parameter {name!r}", hint=hint)


def negative(operand: Expression) -> Expression:
    """`-x`. A minus before a number or a duration is part of it, so that printed text gives the same node."""
    match operand:
        case Literal(bool()):
            return Unary("-", operand)
        case Literal(int() | float() as number, span):
            return Literal(-number, span)
        case Literal(Duration(micros), span):
            return Literal(Duration(-micros), span)
    return Unary("-", operand)


def instant(when: datetime) -> Instant:
    """A time; one without an offset is in UTC."""
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return Instant((aware - _EPOCH) // _MICROSECOND)


def plain(what: str, value: Any) -> Value:
    """A value of Python as a literal has it; `what` names it in the error."""
    match value:
        case int() if abs(value) >= _TOO_LARGE:
            raise InputError(f"a number has more than {MAX_NUMBER_DIGITS} digits")
        case None | bool() | Instant() | Duration():
            return value
        case int():
            return int(value)  # and no enum
        case str():
            return str.__str__(value)
        case float():  # and no number of numpy
            return float(value) if value == value and abs(value) != float("inf") else None
        case datetime():
            return instant(value)
        case timedelta():
            return Duration(value // _MICROSECOND)
    if hasattr(value, "item"):  # a scalar of numpy
        return plain(what, cast(Any, value).item())
    kinds = "a number, a string, a boolean, None, a datetime or a timedelta"
    raise InputError(f"{what} is a {type(value).__name__}; pass {kinds}")
