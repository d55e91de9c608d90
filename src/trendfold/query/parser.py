"""Text -> queries. The text is split into queries first, so that errors in one do not hide another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from lark import UnexpectedInput
from lark.utils import TextSlice

from trendfold.errors import InputError, QueryError, query_error
from trendfold.query.builder import Draft, grammar
from trendfold.query.check import check
from trendfold.query.complaint import syntax_error
from trendfold.query.nodes import Expression, Literal, Logic, Pattern, Query, Value
from trendfold.query.parameters import Parameters
from trendfold.query.printer import to_text
from trendfold.query.split import Piece, check_nesting, split_queries

MAX_BYTES = 5_000_000


def parse(text: str, params: Mapping[str, Any] | None = None) -> tuple[Query, ...]:
    """Parse the queries of a workload, and check them as far as possible without data.

    `params` are the values of `:name` in the text: numbers, strings, booleans, None, datetimes (times) and
    timedeltas (durations). Raises one QueryError with one Problem per bad query.

    >>> [query.name for query in parse("RETURN COUNT(*) PATTERN A+; QUERY b RETURN COUNT(*) PATTERN B")]
    ['q1', 'b']
    """
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise query_error(f"the text is larger than {MAX_BYTES // 1_000_000} MB", hint="split the workload")
    pieces = split_queries(text)
    if not pieces:
        raise query_error("the workload has no query", hint="a query is at least RETURN COUNT(*) PATTERN A")
    queries, problems = [], []
    named: dict[str, Piece] = {}
    parameters = Parameters(params or {})
    for number, piece in enumerate(pieces, start=1):
        name = piece.name or f"q{number}"
        try:
            query = replace(_parse_piece(text, piece, parameters), name=name, text=text, span=piece.span)
            _check_name(text, name, named.setdefault(name, piece), piece)
            problems += check(query)[:1]
            queries.append(query)
        except QueryError as error:
            problems += [replace(problem, query=name, text=text) for problem in error.problems]
    if problems:
        raise QueryError(problems)
    parameters.check_all_asked()
    return tuple(queries)


def placed(query: Query) -> Query:
    """The same query with its printed text, and spans into it, so that errors can show a place."""
    text = to_text(query)
    [piece] = split_queries(text)
    found = _parse_piece(text, piece, Parameters({}))
    return replace(found, name=query.name, text=text, span=piece.span)


def read_literal(text: str, what: str) -> Value:
    """Read the text of a literal, such as `10 min` or `'Paris'`; `what` names it in the error."""
    try:
        found = grammar().parse(text, start="value")
        if isinstance(found, Literal):
            return found.value
    except (UnexpectedInput, QueryError):
        pass
    kinds = "a number, a 'string', TRUE, FALSE, NULL, a duration such as 10 min, or TIMESTAMP '2024-01-31'"
    raise InputError(f"{what} is {text!r}; write {kinds}, as in a query")


def read_steps(text: str) -> tuple[Pattern, ...]:
    """Read steps of a funnel: `View, Cart c, ANY(Card, Cash) pay`."""
    return cast(
        "tuple[Pattern, ...]", _read_part(text, "steps", "such as 'View, Cart c, ANY(Card, Cash) pay'")
    )


def read_conditions(text: str) -> tuple[Expression, ...]:
    """Read conditions joined by AND: `c.amount > 10 AND pay.country = 'FR'`."""
    found = cast(Expression, _read_part(text, "expression", "such as \"c.amount > 10 AND c.country = 'FR'\""))
    return found.parts if isinstance(found, Logic) and found.op == "AND" else (found,)


def _read_part(text: str, start: str, example: str) -> object:
    pieces = split_queries(text)
    if not pieces:
        raise query_error("there is no text", hint=example)
    piece = pieces[0]
    try:
        check_nesting(piece)
        return grammar().parse(text, start=start)
    except UnexpectedInput as error:
        problem = syntax_error(text, piece, error)
    except QueryError as error:
        problem = error
    raise QueryError([replace(each, text=text, hint=each.hint or example) for each in problem.problems])


def _check_name(text: str, name: str, first: Piece, piece: Piece) -> None:
    if first is not piece:
        lines = [text.count("\n", 0, p.span.start) + 1 for p in (first, piece)]
        message = f"two queries are named {name!r}, on line {lines[0]} and on line {lines[1]}"
        raise query_error(message, piece.tokens[0].span, "give one of them another name with QUERY name")


def _parse_piece(text: str, piece: Piece, parameters: Parameters) -> Query:
    check_nesting(piece)
    try:
        draft = grammar().parse(TextSlice(text, piece.span.start, piece.span.end), start="start")
    except UnexpectedInput as error:
        raise syntax_error(text, piece, error) from None
    if piece.next is not None:
        raise query_error(f"expected ';' before {piece.next.text!r}", piece.next.span, "put ';' before it")
    return cast(Draft, draft).query(parameters)
