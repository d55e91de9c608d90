"""`type_expr`: conditions that name the type of each row, in the expressions of queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lark import UnexpectedInput

from trendfold.errors import InputError, Problem, QueryError, Span, query_error
from trendfold.events.schema import Schema
from trendfold.query.builder import check_expression, grammar
from trendfold.query.check import check_condition
from trendfold.query.complaint import syntax_error
from trendfold.query.names import attributes_in, children, walk, with_children
from trendfold.query.nodes import Aggregate, Attribute, Expression, Literal
from trendfold.query.parameters import Parameter
from trendfold.query.split import check_nesting, split_queries


@dataclass(frozen=True, slots=True)
class TypeCondition:
    """Rows for which the condition holds, and none before it, have the type; `text` is how it is written."""

    type: str
    condition: Expression
    text: str


def read_type_expr(given: Mapping[str, str] | str | None) -> tuple[TypeCondition, ...]:
    """Read conditions by type, as in `{"Slow": "speed < 10", "Fast": "TRUE"}`, or one type for all rows."""
    if given is None:
        return ()
    if isinstance(given, str):
        return (TypeCondition(given, Literal(True), "TRUE"),)
    if not given:
        raise InputError("type_expr takes conditions by type, such as {'Slow': 'speed < 10', 'Fast': 'TRUE'}")
    return tuple(_read(name, text) for name, text in given.items())


def columns_of_types(conditions: Collection[TypeCondition]) -> frozenset[str]:
    """The columns that conditions read."""
    return frozenset(name for each in conditions for name in attributes_in(each.condition))


def check_type_conditions(conditions: Collection[TypeCondition], schema: Schema) -> None:
    """Raise an InputError for the first condition that does not fit the columns."""
    for each in conditions:
        if problems := check_condition(each.condition, schema):
            raise _said(each.type, each.text, problems[0])


def _read(name: object, text: object) -> TypeCondition:
    if not isinstance(name, str) or not isinstance(text, str):
        raise InputError(f"type_expr maps types to conditions, both as text; {name!r} has {text!r}")
    try:
        pieces = split_queries(text)
        if len(pieces) != 1:
            raise query_error("expected one condition", hint="write for example speed < 10, or TRUE")
        check_nesting(pieces[0])
        try:
            found: Any = grammar().parse(text, start="expression")
        except UnexpectedInput as error:
            raise syntax_error(text, pieces[0], error) from None
        _require_plain(found)
        return TypeCondition(name, _bare(found), text)
    except QueryError as error:
        raise _said(name, text, error.problems[0]) from None


def _require_plain(condition: Any) -> None:
    """Raise if a condition has anything that only queries have."""
    if isinstance(condition, Parameter):
        raise query_error("a parameter has no value here", condition.span)
    check_expression(condition, "type_expr", Span(0, 1))
    for node in walk(condition):
        match node:
            case Attribute(is_next=True):
                raise query_error("NEXT is only allowed in queries: a row has its type by itself", node.span)
            case Aggregate():
                raise query_error("aggregates are only allowed in queries", node.span)
            case Parameter():
                raise query_error("a parameter has no value here", node.span)


def _bare(node: Expression) -> Expression:
    """There are no aliases: what looks like one is the column of a nested field."""
    match node:
        case Attribute(str(column), name):
            return replace(node, alias=None, name=f"{column}.{name}")
    under = children(node)
    return with_children(node, tuple(map(_bare, under))) if under else node


def _said(name: str, text: str, problem: Problem) -> InputError:
    lines = str(replace(problem, query="", text=text))
    return InputError(f"type_expr of {name!r}: {lines}")
