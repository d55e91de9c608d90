"""Query -> canonical text; `parse(to_text(query))` returns an equal query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby

from trendfold.query.names import RESERVED, can_be_empty
from trendfold.query.nodes import (
    EVENT_TIME,
    Aggregate,
    Attribute,
    Between,
    Binary,
    Both,
    Compare,
    Duration,
    Either,
    EventRef,
    Expression,
    GroupKey,
    In,
    Instant,
    IsNull,
    Like,
    Literal,
    Logic,
    Matches,
    Maybe,
    Not,
    OfTrend,
    Pattern,
    Plus,
    Query,
    Repeat,
    ReturnItem,
    Semantics,
    Seq,
    TypeSet,
    Unary,
    Value,
    Window,
    WindowUnit,
)

_BARE = re.compile(rf"(?!(?:{'|'.join(RESERVED)})\b)[^\W\d]\w*", re.IGNORECASE)
_UNITS_US = {"d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1_000}

_EPOCH = datetime(1970, 1, 1)

# Precedence; an operand that binds less tightly than its place requires gets parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(8)
_BINDING = {"OR": _OR, "AND": _AND, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def to_text(query: Query) -> str:
    """The canonical text of a query, one clause per line.

    >>> from trendfold.query import parse
    >>> print(to_text(parse("trips: AGG COUNT pattern SEQ(A, SEQ(B b+, !C, D)) window 120 sec")[0]))
    QUERY trips
    RETURN COUNT(*)
    PATTERN SEQ(A, B b+, NOT C, D)
    WITHIN 2 min
    """
    lines = [
        f"QUERY {quoted(query.name)}",
        f"RETURN {_returns(query.returns)}",
        f"PATTERN {pattern_text(query.pattern)}",
        f"SEMANTICS {query.semantics}" if query.semantics is not Semantics.ANY else "",
        _where(query),
        f"GROUP BY {_list(map(_key, query.group_by))}" if query.group_by else "",
        f"HAVING {expression_text(query.having)}" if query.having is not None else "",
        within_text(query),
        f"LIMIT {query.limit}" if query.limit is not None else "",
        "INCLUDE EMPTY" if query.includes_empty else "",
    ]
    return "\n".join(filter(None, lines))


def quoted(name: str) -> str:
    """A name as written in a query: quoted if it is reserved or not a plain word."""
    if _BARE.fullmatch(name):
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _path(name: str) -> str:
    """A column, or a field inside one with a dot before it: `place.city`."""
    parts = name.split(".")
    return ".".join(map(quoted, parts)) if all(parts) else quoted(name)


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)


# ---------------------------------------------------------------- clauses


def _returns(returns: tuple[ReturnItem, ...] | Matches) -> str:
    match returns:
        case Matches(()):
            return "MATCHES"
        case Matches(attributes):
            return f"MATCHES({_list(map(_path, attributes))})"
        case items:
            return _list(map(_item, items))


def _item(item: ReturnItem) -> str:
    match item.value:
        case Aggregate() as aggregate:
            value = expression_text(aggregate)
        case GroupKey(None, attribute) if attribute.upper() == "MATCHES":
            value = f'"{attribute}"'  # unquoted, it could be parsed as RETURN MATCHES
        case key:
            value = _key(key)
    return value if item.name is None else f"{value} AS {quoted(item.name)}"


def _key(key: GroupKey) -> str:
    return quoted(key.attribute) if key.alias is None else f"{quoted(key.alias)}.{_path(key.attribute)}"


def _where(query: Query) -> str:
    """The WHERE clause; a conjunct that is itself an AND gets parentheses, so that it stays one conjunct."""
    parts = [f"[{_list(map(_path, query.equivalence))}]"] if query.equivalence else []
    match parts, query.where:
        case [], [Logic("OR") as only]:
            parts = [expression_text(only)]
        case _:
            parts += [expression_text(conjunct, _NOT) for conjunct in query.where]
    return f"WHERE {' AND '.join(parts)}" if parts else ""


def within_text(query: Query) -> str:
    """The text of `WITHIN ...` with all that belongs to it; empty without it."""
    if query.bound is None:
        return window_text(query.window) if query.window is not None else ""
    within = f"WITHIN {_length(query.bound.length, WindowUnit.MICROSECONDS)}"
    if query.window is None:
        return f"{within} ONCE"
    return f"{within} EVERY {_length(query.window.length, WindowUnit.MICROSECONDS)}"


def window_text(window: Window) -> str:
    """The text of `WITHIN ... SLIDE ...`."""
    slide = f" SLIDE {_length(window.slide, window.unit)}" if window.slide is not None else ""
    return f"WITHIN {_length(window.length, window.unit)}{slide}"


def _length(length: int, unit: WindowUnit) -> str:
    """A length in the largest unit that divides it; microseconds as a fraction of ms."""
    if unit is WindowUnit.EVENTS:
        return f"{length} events"
    for word, microseconds in _UNITS_US.items():
        if length % microseconds == 0:
            return f"{length // microseconds} {word}"
    return f"{length // 1_000}.{length % 1_000:03d} ms"


# ---------------------------------------------------------------- patterns


def pattern_text(pattern: Pattern) -> str:
    """A pattern written with SEQ, OR, AND and NOT; only a repeated NOT needs parentheses."""
    match pattern:
        case EventRef(type_, alias):
            return type_text(type_) if alias is None else f"{type_text(type_)} {_in_pattern(alias)}"
        case Seq(parts):
            return f"SEQ({_list(map(pattern_text, _regrouped(parts)))})"
        case Either(parts):
            return f"OR({_list(map(pattern_text, parts))})"
        case Both(parts):
            return f"AND({_list(map(pattern_text, parts))})"
        case Not(body):
            return f"NOT {_repeatable(body)}"
        case Maybe(Plus(body)):
            return f"{_repeatable(body)}*"
        case Plus(body):
            return f"{_repeatable(body)}+"
        case Maybe(body):
            return f"{_repeatable(body)}?"
        case Repeat(body, low, high):
            times = f"{low}" if low == high else f"{low},{'' if high is None else high}"
            return f"{_repeatable(body)}{{{times}}}"


def type_text(type_: str | TypeSet) -> str:
    """A type or a set of types as written in PATTERN."""
    match type_:
        case TypeSet(None):
            return "ANY"
        case TypeSet(frozenset() as names):
            return f"ANY({_list(map(_in_pattern, sorted(names)))})"
    return _in_pattern(str(type_))


def _in_pattern(name: str) -> str:
    """A name as written in PATTERN, where ANY is reserved."""
    return f'"{name}"' if name.upper() == "ANY" else quoted(name)


def _regrouped(parts: tuple[Pattern, ...]) -> Iterator[Pattern]:
    """NOT's neighbours must be non-empty as written: group parts that can be empty into a SEQ."""
    runs = [(is_not, tuple(run)) for is_not, run in groupby(parts, lambda part: isinstance(part, Not))]
    for i, (is_not, run) in enumerate(runs):
        is_beside = (i > 0 and can_be_empty(run[0])) or (i + 1 < len(runs) and can_be_empty(run[-1]))
        if not is_not and is_beside and len(run) > 1:
            yield Seq(run)
        else:
            yield from run


def _repeatable(pattern: Pattern) -> str:
    text = pattern_text(pattern)
    return f"({text})" if isinstance(pattern, Not) else text


# ---------------------------------------------------------------- expressions


def expression_text(expression: Expression, place: int = _OR) -> str:
    """An expression, in parentheses if it binds less tightly than its place."""
    text, binding = _expression(expression)
    return text if binding >= place else f"({text})"


def _expression(expression: Expression) -> tuple[str, int]:
    """The text of an expression, and its precedence."""
    match expression:
        case Literal(value):
            return _literal(value), _UNARY
        case Attribute(str(alias), name, is_next) if name == EVENT_TIME:
            return f"TIME(NEXT({quoted(alias)}))" if is_next else f"TIME({quoted(alias)})", _PRIMARY
        case Attribute(alias, name, is_next):
            owner = "" if alias is None else f"NEXT({quoted(alias)})." if is_next else f"{quoted(alias)}."
            return owner + (quoted(name) if alias is None else _path(name)), _PRIMARY
        case Aggregate():
            return _aggregate(expression), _PRIMARY
        case Unary("NOT", operand):
            return f"NOT {expression_text(operand, _NOT)}", _NOT
        case Unary("-", operand):
            text = expression_text(operand, _UNARY)
            return f"-({text})" if text.startswith("-") else f"-{text}", _UNARY  # "--" begins a comment
        case Unary(function, operand):
            return f"{function}({expression_text(operand)})", _PRIMARY
        case Binary(op, left, right):
            here = _BINDING[op]
            return f"{expression_text(left, here)} {op} {expression_text(right, here + 1)}", here
        case Logic(op, parts):
            here = _BINDING[op]
            return f" {op} ".join([expression_text(part, here + 1) for part in parts]), here
        case Compare(op, left, right):
            return f"{expression_text(left, _SUM)} {op} {expression_text(right, _SUM)}", _COMPARISON
    return _predicate(expression), _COMPARISON


def _predicate(expression: IsNull | In | Between | Like) -> str:
    operand = expression_text(expression.operand, _SUM)
    maybe_not = "NOT " if expression.negated else ""
    match expression:
        case IsNull():
            return f"{operand} IS {maybe_not}NULL"
        case In(_, items):
            return f"{operand} {maybe_not}IN ({_list(expression_text(item, _SUM) for item in items)})"
        case Between(_, low, high):
            ends = f"{expression_text(low, _SUM)} AND {expression_text(high, _SUM)}"
            return f"{operand} {maybe_not}BETWEEN {ends}"
        case Like(_, pattern):
            return f"{operand} {maybe_not}LIKE {_literal(pattern)}"


def _literal(value: Value) -> str:
    match value:
        case Instant(micros):
            return f"TIMESTAMP '{_EPOCH + timedelta(microseconds=micros)}'"
        case Duration(micros):
            return f"{'-' if micros < 0 else ''}{_length(abs(micros), WindowUnit.MICROSECONDS)}"
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            doubled = value.replace("'", "''")
            return f"'{doubled}'"
        case number:
            return repr(number)


def _aggregate(aggregate: Aggregate) -> str:
    match aggregate:
        case Aggregate(distinct=(_, *_) as attributes):
            argument = f"DISTINCT {_list(map(quoted, attributes))}"
        case Aggregate(of=OfTrend() as of):
            argument = of.value
        case Aggregate(alias=None):
            argument = "*"
        case Aggregate(alias=str(alias), attribute=None):
            argument = quoted(alias)
        case Aggregate(alias=str(alias), attribute=str(attribute)):
            argument = f"{quoted(alias)}.{_path(attribute)}"
    text = f"{aggregate.function}({argument})"
    return f"LOG2({text})" if aggregate.log2 else text
