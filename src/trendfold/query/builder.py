"""Build nodes from grammar rules, and check what the grammar cannot express."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from importlib.util import cache_from_source
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from lark import Lark, Token, Transformer, v_args

from trendfold.errors import NOWHERE, InputError, QueryError, Span, nearest, query_error
from trendfold.query.check import beside_empty
from trendfold.query.names import can_be_empty, depth, walk
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
    Function,
    GroupKey,
    In,
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
    SpanBound,
    TypeSet,
    Unary,
    Window,
    WindowUnit,
)
from trendfold.query.parameters import MAX_NUMBER_DIGITS, Parameter, Parameters, instant, negative
from trendfold.query.split import MAX_NESTING, UNITS_US, unquoted

MAX_AMOUNT_DIGITS = 40

SEMANTICS = {"any": Semantics.ANY, "next": Semantics.NEXT, "cont": Semantics.CONTIGUOUS} | {
    semantics.value: semantics for semantics in Semantics
}
_EVENTS = ("events", "event")
FUNCTIONS = [*(function.value for function in Function), "LOG2", "ABS", "TIME"]
"""Every function of the language."""
_OTHER_UNITS = {
    "m": "write min for minutes, ms for milliseconds",
    "us": "the shortest unit is ms",
    "ns": "the shortest unit is ms",
    "microseconds": "the shortest unit is ms",
    "month": "months differ in length; write days, such as 30 d",
    "quarter": "quarters differ in length; write days, such as 90 d",
    "year": "years differ in length; write days, such as 365 d",
}
_BEFORE = "compare with the event after it instead: A.x > PREV(A).x is written A.x < NEXT(A).x"
FUNCTION_HINTS = {
    "PREV": _BEFORE,
    "PREVIOUS": _BEFORE,
    "LAG": _BEFORE,
    "LEAD": "the event directly after it is NEXT(A).x",
    "MEAN": "write AVG",
    "AVERAGE": "write AVG",
    "MINIMUM": "write MIN",
    "MAXIMUM": "write MAX",
}
"""Alternatives for functions known from other languages."""
_MAX_INT64 = 2**63 - 1


def read_duration(text: str, what: str) -> int:
    """Parse a duration such as `10 min` into microseconds; `what` names it in the error."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", str(text))
    if found is None or found[2].lower() not in UNITS_US:
        raise InputError(f"{what} is {text!r}; write a duration such as '10 s', '5 min' or '1 h'")
    return int(Fraction(found[1]) * UNITS_US[found[2].lower()])


@cache
def grammar() -> Lark:
    """The parser; its tables are cached next to the compiled modules if that folder is writable."""
    kept = Path(cache_from_source(__file__)).with_name("grammar.lark.tables")
    with suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        parser="lalr",
        start=["start", "value", "steps", "expression"],
        transformer=_Builder(),
        cache=str(kept) if os.access(kept.parent, os.W_OK) else False,
    )


@dataclass(frozen=True, slots=True)
class _Clause:
    """One clause; `keyword` is the printer's spelling, so WITHIN and WINDOW are the same."""

    keyword: str
    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class _Equivalence:
    """`[a, b]`: must be a top-level conjunct, which an LALR grammar cannot express without conflicts."""

    attributes: tuple[str, ...]
    span: Span


class _Path(NamedTuple):
    """`a` or `place.city`: a column, or a field inside one."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class _NextEvent:
    """`NEXT(F)` without an attribute: only TIME takes it."""

    alias: str
    span: Span


@dataclass(frozen=True, slots=True)
class _Types:
    """`ANY` or `ANY(A, B)`, before its alias is known."""

    types: TypeSet
    span: Span


def _span(first: Token, last: Token | None = None) -> Span:
    return Span(cast(int, first.start_pos), cast(int, (last or first).end_pos))


def _cover(left: Expression, sign: Token, right: Expression) -> Span:
    """From the left operand to the right one, as far as their spans are known."""
    return Span(
        getattr(left, "span", _span(sign)).start,
        getattr(right, "span", _span(sign)).end,
    )


@dataclass(frozen=True, slots=True)
class Draft:
    """The clauses of a query, in which parameters still stand for values."""

    clauses: dict[str, _Clause]

    def query(self, parameters: Parameters) -> Query:
        """The query with values in place of its parameters."""
        clauses = {
            keyword: replace(clause, value=_filled(clause, parameters))
            for keyword, clause in self.clauses.items()
        }
        return _query({keyword: clause.value for keyword, clause in clauses.items()}, clauses)


@v_args(inline=True)
class _Builder(Transformer[Token, Draft]):
    """One method per rule of the grammar, called bottom-up while parsing, so nesting costs no recursion."""

    def NAME(self, token: Token) -> Token:  # noqa: N802
        return token.update(value=unquoted(token)) if token.startswith('"') else token

    def STRING(self, token: Token) -> Token:  # noqa: N802
        return token.update(value=unquoted(token))

    # ------------------------------------------------------------ clauses

    def start(self, *children: Token | _Clause) -> Draft:
        clauses: dict[str, _Clause] = {}
        for clause in children:
            if isinstance(clause, _Clause) and clauses.setdefault(clause.keyword, clause) is not clause:
                raise query_error(f"{clause.keyword} is given twice", clause.span)
        return Draft(clauses)

    def return_clause(self, keyword: Token, *items: Any) -> _Clause:
        value = items[0] if isinstance(items[0], Matches) else items
        return _Clause("RETURN", value, _span(keyword))

    def pattern_clause(self, keyword: Token, pattern: Pattern) -> _Clause:
        _check_depth(pattern, "the pattern", _span(keyword))
        return _Clause("PATTERN", pattern, _span(keyword))

    def semantics_clause(self, keyword: Token, word: Token) -> _Clause:
        if word.lower() not in SEMANTICS:
            hint = nearest(word, SEMANTICS) or f"choose one of {', '.join(Semantics)}"
            raise query_error(f"unknown semantics {str(word)!r}", _span(word), hint)
        return _Clause("SEMANTICS", SEMANTICS[word.lower()], _span(keyword))

    def where_clause(self, keyword: Token, *conjuncts: Any) -> _Clause:
        equivalence: list[str] = []
        where: list[Expression] = []
        for conjunct in conjuncts:
            if isinstance(conjunct, _Equivalence):
                equivalence += conjunct.attributes
            else:
                check_expression(conjunct, "WHERE", _span(keyword))
                where += _chained(conjunct)
        return _Clause("WHERE", (tuple(dict.fromkeys(equivalence)), tuple(where)), _span(keyword))

    def group_clause(self, keyword: Token, *keys: GroupKey) -> _Clause:
        return _Clause("GROUP BY", keys, _span(keyword))

    def having_clause(self, keyword: Token, condition: Expression) -> _Clause:
        check_expression(condition, "HAVING", _span(keyword))
        return _Clause("HAVING", condition, _span(keyword))

    def within_clause(self, keyword: Token, amount: Token | Parameter, unit: Token | None = None) -> _Clause:
        return _window_clause("WITHIN", keyword, amount, unit)

    def every_clause(self, keyword: Token, amount: Token | Parameter, unit: Token | None = None) -> _Clause:
        return _window_clause("EVERY", keyword, amount, unit)

    def once_clause(self, keyword: Token) -> _Clause:
        return _Clause("ONCE", None, _span(keyword))

    def slide_clause(self, keyword: Token, amount: Token | Parameter, unit: Token | None = None) -> _Clause:
        return _window_clause("SLIDE", keyword, amount, unit)

    def limit_clause(self, keyword: Token, amount: Token | Parameter) -> _Clause:
        if isinstance(amount, Parameter):
            return _Clause("LIMIT", amount, _span(keyword))
        return _Clause("LIMIT", _whole("LIMIT", amount, _size("LIMIT", amount)), _span(keyword))

    def include_clause(self, keyword: Token, word: Token) -> _Clause:
        return _Clause("INCLUDE EMPTY", True, _span(keyword, word))

    def amount(self, sign: Token | None, number: Token) -> Token:
        if sign is None:
            return number
        signed = number.update(value=f"-{number}")
        signed.start_pos = sign.start_pos
        return signed

    def steps(self, *steps: Pattern) -> tuple[Pattern, ...]:
        return steps

    # ------------------------------------------------------------ RETURN, GROUP BY

    def matches(self, word: Token, *attributes: _Path | None) -> Matches:
        names = (path.name for path in attributes if path is not None)
        return Matches(tuple(dict.fromkeys(names)), _span(word))

    def item(self, value: object, name: Token | None) -> ReturnItem:
        if not isinstance(value, GroupKey | Aggregate):
            span = getattr(value, "span", NOWHERE)
            raise query_error("RETURN takes grouping attributes and aggregates", span, "such as COUNT(*)")
        return ReturnItem(value, None if name is None else str(name), value.span)

    def count_all(self, word: Token, name: Token | None) -> ReturnItem:
        return self.item(Aggregate(Function.COUNT, span=_span(word)), name)

    def key(self, first: Token, *path: Token) -> GroupKey:
        if not path:
            return GroupKey(None, str(first), _span(first))
        return GroupKey(str(first), ".".join(path), _span(first, path[-1]))

    def path(self, *path: Token) -> _Path:
        return _Path(".".join(path), _span(path[0], path[-1]))

    # ------------------------------------------------------------ patterns

    def any_type(self, word: Token) -> _Types:
        return _Types(TypeSet(), _span(word))

    def any_of(self, word: Token, *names: Token) -> _Types:
        return _Types(TypeSet(frozenset(map(str, names[:-1]))), _span(word, names[-1]))

    def event(self, types: Token | _Types, alias: Token | None) -> EventRef:
        what, span = (types.types, types.span) if isinstance(types, _Types) else (str(types), _span(types))
        if alias is None:
            return EventRef(what, None, span)
        if alias.upper() == "ANY" and _span(alias).end - _span(alias).start == len(alias):
            raise query_error("ANY is no alias: the word is reserved in PATTERN", _span(alias), 'write "any"')
        return EventRef(what, str(alias), Span(span.start, _span(alias).end))

    def sequence(self, *parts: Pattern) -> Pattern:
        for left, right in pairwise(parts):
            _check_neighbours(left, right)
        return parts[0] if len(parts) == 1 else Seq(_flat(Seq, parts))

    def either(self, *parts: Pattern) -> Pattern:
        return parts[0] if len(parts) == 1 else Either(parts)

    def both(self, *parts: Pattern) -> Pattern:
        return parts[0] if len(parts) == 1 else Both(_flat(Both, parts))

    def negated(self, sign: Token, body: Pattern) -> Pattern:
        return Not(body, _span(sign))

    def plus(self, body: Pattern) -> Pattern:
        return Plus(body)

    def maybe(self, body: Pattern) -> Pattern:
        return Maybe(body)

    def star(self, body: Pattern) -> Pattern:
        return Maybe(Plus(body))

    def exactly(self, body: Pattern, brace: Token, count: Token) -> Pattern:
        return self._repeat(body, _times(count), _times(count), _span(brace, count))

    def times(self, body: Pattern, brace: Token, low: Token, high: Token | None) -> Pattern:
        most = None if high is None else _times(high)
        return self._repeat(body, _times(low), most, _span(brace, high or low))

    def _repeat(self, body: Pattern, low: int, high: int | None, span: Span) -> Pattern:
        if high is None:
            return Repeat(body, low, None, span) if low else Maybe(Plus(body))
        if high == 0:
            raise query_error("a pattern repeated 0 times matches nothing", span, "repeat at least once: {1}")
        if low > high:
            raise query_error(f"{{{low},{high}}} has its bounds swapped", span, f"write {{{high},{low}}}")
        return Repeat(body, low, high, span)

    # ------------------------------------------------------------ expressions

    def conjunction(self, *parts: Expression) -> Expression:
        return Logic("AND", parts)

    def disjunction(self, *parts: Expression) -> Expression:
        return Logic("OR", parts)

    def not_(self, _: Token, operand: Expression) -> Expression:
        return Unary("NOT", operand)

    def compare(self, left: Expression, sign: Token, right: Expression) -> Expression:
        op = "!=" if sign == "<>" else str(sign)
        return Compare(op, left, right, _cover(left, sign, right))

    def chain(self, *parts: Any) -> Expression:
        """`a = b = c`: the comparisons share operands, by which `_chained` recognizes them."""
        signs = parts[1::2]
        if wrong := [sign for sign in signs if sign != "="]:
            hint = "join two comparisons by AND"
            raise query_error(f"{str(wrong[0])!r} cannot be chained", _span(wrong[0]), hint)
        pairs = zip(pairwise(parts[::2]), signs, strict=True)
        return Logic("AND", tuple(self.compare(left, sign, right) for (left, right), sign in pairs))

    def is_null(self, operand: Expression, negation: Token | None, _: Token) -> Expression:
        return IsNull(operand, negation is not None)

    def in_(self, operand: Expression, negation: Token | None, word: Token, *items: Expression) -> Expression:
        return In(operand, items, negation is not None, _cover(operand, word, items[-1]))

    def between(
        self, operand: Expression, negation: Token | None, word: Token, low: Expression, high: Expression
    ) -> Expression:
        return Between(operand, low, high, negation is not None, _cover(operand, word, high))

    def like(
        self, operand: Expression, negation: Token | None, word: Token, pattern: Token | Parameter
    ) -> Expression:
        if isinstance(pattern, Parameter):
            span = Span(_cover(operand, word, operand).start, pattern.span.end)
            return Like(operand, cast(str, pattern), negation is not None, span)
        span = _cover(operand, word, Literal(str(pattern), _span(pattern)))
        return Like(operand, str(pattern), negation is not None, span)

    def equivalence(self, left: Token, *paths: Any) -> _Equivalence:
        *inside, right = paths
        return _Equivalence(tuple(path.name for path in inside), _span(left, right))

    def binary(self, left: Expression, sign: Token, right: Expression) -> Expression:
        return Binary(str(sign), left, right, _cover(left, sign, right))

    def minus(self, sign: Token, operand: Expression) -> Expression:
        match negative(operand):
            case Literal(value, span):
                return Literal(value, Span(_span(sign).start, span.end))
            case other:
                return other

    def attribute(self, first: Token, *path: Token) -> Expression:
        if not path:
            return Attribute(None, str(first), span=_span(first))
        return Attribute(str(first), ".".join(path), span=_span(first, path[-1]))

    def next_attribute(self, word: Token, alias: Token, end: Token, *path: Token) -> Expression:
        if not path:
            return cast(Expression, _NextEvent(str(alias), _span(word, end)))
        return Attribute(str(alias), ".".join(path), True, _span(word, path[-1]))

    def number(self, token: Token) -> Expression:
        return Literal(_number(token), _span(token))

    def duration(self, amount: Token, unit: Token) -> Expression:
        size = _amount("a duration", amount) * UNITS_US[unit.lower()]
        micros = _whole("the duration", amount, size, "a whole number of microseconds")
        return Literal(Duration(micros), _span(amount, unit))

    def timestamp(self, word: Token, text: Token) -> Expression:
        try:
            return Literal(instant(datetime.fromisoformat(str(text))), _span(word, text))
        except ValueError:
            hint = "write it in ISO 8601, as in TIMESTAMP '2024-01-31 12:00:00'"
            raise query_error(f"{str(text)!r} is not a time", _span(text), hint) from None

    def parameter(self, token: Token) -> Parameter:
        return Parameter(str(token)[1:], _span(token))

    def string(self, token: Token) -> Expression:
        return Literal(str(token), _span(token))

    def true(self, token: Token) -> Expression:
        return Literal(True, _span(token))

    def false(self, token: Token) -> Expression:
        return Literal(False, _span(token))

    def null(self, token: Token) -> Expression:
        return Literal(None, _span(token))

    def call(self, word: Token, *rest: Any) -> Expression:
        return _call(word, rest[:-1], _span(word, rest[-1]))


def _filled(clause: _Clause, parameters: Parameters) -> Any:
    """The value of a clause with values in place of its parameters."""
    match clause.keyword, clause.value:
        case "WHERE", (equivalence, where):
            return equivalence, tuple(map(parameters.fill, where))
        case "HAVING", condition:
            return parameters.fill(condition)
        case "LIMIT", Parameter() as parameter:
            value = parameters.literal(parameter).value
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MAX_INT64:
                raise query_error(f"LIMIT is a positive whole number, not {value!r}", parameter.span)
            return value
        case keyword, Parameter() as parameter:
            value = parameters.literal(parameter).value
            if not isinstance(value, Duration) or value.micros <= 0:
                hint = "pass a timedelta, or on the command line a duration such as '10 min'"
                raise query_error(f"{keyword} takes a positive duration", parameter.span, hint)
            return value.micros, WindowUnit.MICROSECONDS
    return clause.value


def _window_clause(name: str, keyword: Token, amount: Token | Parameter, unit: Token | None) -> _Clause:
    if isinstance(amount, Parameter):
        return _Clause(name, amount, Span(_span(keyword).start, amount.span.end))
    assert unit is not None
    return _Clause(name, _length(name, amount, unit), _span(keyword, unit))


def _query(values: dict[str, Any], clauses: dict[str, _Clause]) -> Query:
    for needed in ("RETURN", "PATTERN"):
        if needed not in values:
            first = next(iter(clauses.values()))
            raise query_error(f"the query has no {needed} clause", first.span, _EXAMPLES[needed])
    equivalence, where = values.get("WHERE", ((), ()))
    return Query(
        name="",
        returns=values["RETURN"],
        pattern=values["PATTERN"],
        semantics=values.get("SEMANTICS", Semantics.ANY),
        equivalence=equivalence,
        where=where,
        group_by=values.get("GROUP BY", ()),
        having=values.get("HAVING"),
        window=_window(clauses),
        bound=_bound(clauses),
        limit=values.get("LIMIT"),
        includes_empty=values.get("INCLUDE EMPTY", False),
    )


_EXAMPLES = {"RETURN": "add for example RETURN COUNT(*)", "PATTERN": "add for example PATTERN SEQ(A, B+)"}


def _window(clauses: dict[str, _Clause]) -> Window | None:
    """The windows; of a query with EVERY the periods, and none with ONCE."""
    within, slide, every = (clauses.get(keyword) for keyword in ("WITHIN", "SLIDE", "EVERY"))
    if within is None:
        if slide is not None:
            raise query_error("SLIDE needs WITHIN", slide.span, "add WITHIN before SLIDE")
        return None
    if "ONCE" in clauses:
        return None
    length, unit = within.value
    if every is not None:
        return Window(every.value[0], every.value[0], every.value[1], _cover_clauses(within, every))
    if slide is None:
        return Window(length, None, unit, within.span)
    step, step_unit = slide.value
    if unit != step_unit:
        raise query_error(
            "WITHIN and SLIDE have different units", slide.span, "give both as durations or both in events"
        )
    return Window(length, step, unit, _cover_clauses(within, slide))


def _bound(clauses: dict[str, _Clause]) -> SpanBound | None:
    """The bound on the span of a trend: WITHIN, where EVERY or ONCE follows."""
    within, by_trend = clauses.get("WITHIN"), clauses.get("EVERY") or clauses.get("ONCE")
    if within is None or by_trend is None:
        return None
    if slide := clauses.get("SLIDE"):
        hint = f"SLIDE counts a trend in every window that holds it, {by_trend.keyword} counts it once"
        raise query_error(f"SLIDE cannot be combined with {by_trend.keyword}", slide.span, hint)
    for clause in (within, by_trend):
        if clause.value is not None and clause.value[1] is WindowUnit.EVENTS:
            hint = "give a duration, as in WITHIN 10 min EVERY 1 h"
            message = f"{clause.keyword} counts events, and {by_trend.keyword} needs durations"
            raise query_error(message, clause.span, hint)
    return SpanBound(within.value[0], _cover_clauses(within, by_trend))


def _cover_clauses(one: _Clause, other: _Clause) -> Span:
    ends = (one.span.start, one.span.end, other.span.start, other.span.end)
    return Span(min(ends), max(ends))


def _size(clause: str, amount: Token) -> Fraction:
    """A clause's positive number as a fraction."""
    size = _amount(clause, amount)
    if size <= 0:
        raise query_error(f"{clause} must be positive, not {amount}", _span(amount))
    return size


def _amount(clause: str, amount: Token) -> Fraction:
    """A number as a fraction. Checks its size first: 1e999999999 would exhaust memory."""
    if len(amount) > MAX_AMOUNT_DIGITS:
        raise query_error(f"{clause} has a number of more than {MAX_AMOUNT_DIGITS} digits", _span(amount))
    number = Decimal(amount)
    if number > _MAX_INT64 or (number != 0 and number.adjusted() < -20):
        raise query_error(f"{clause} {amount} is out of range", _span(amount))
    return Fraction(number)


def _whole(clause: str, amount: Token, size: Fraction, unit: str = "a whole number") -> int:
    if size.denominator != 1:
        raise query_error(f"{clause} {amount} is not {unit}", _span(amount))
    if size > _MAX_INT64:
        raise query_error(f"{clause} {amount} is out of range", _span(amount))
    return int(size)


def _length(clause: str, amount: Token, unit: Token) -> tuple[int, WindowUnit]:
    """A duration in microseconds, or a number of events."""
    word = unit.lower()
    if word in _EVENTS:
        return _whole(clause, amount, _size(clause, amount), "a whole number of events"), WindowUnit.EVENTS
    if word not in UNITS_US:
        raise query_error(f"unknown unit {str(unit)!r}", _span(unit), _unit_hint(word))
    size = _size(clause, amount) * UNITS_US[word]
    return _whole(clause, amount, size, "a whole number of microseconds"), WindowUnit.MICROSECONDS


def _unit_hint(word: str) -> str:
    other = _OTHER_UNITS.get(word) or _OTHER_UNITS.get(word.removesuffix("s"))
    return other or nearest(word, [*UNITS_US, "events"]) or "use ms, s, min, h, d or events"


def _times(token: Token) -> int:
    number = _number(token)
    if not isinstance(number, int):
        raise query_error(f"a pattern is repeated a whole number of times, not {token}", _span(token))
    return number


def _number(token: Token) -> int | float:
    if len(token) > MAX_NUMBER_DIGITS:
        raise query_error(f"the number has more than {MAX_NUMBER_DIGITS} digits", _span(token))
    if token.isdigit():
        return int(token)
    if (number := float(token)) == float("inf"):
        raise query_error(f"the number {token} is too large for a double", _span(token))
    return number


Composite = TypeVar("Composite", Seq, Both)


def _flat(composite: type[Composite], parts: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """The parts, with nested composites of the same type flattened: AND and SEQ are associative."""
    flat: list[Pattern] = []
    for part in parts:
        flat += part.parts if isinstance(part, composite) else (part,)
    return tuple(flat)


def _check_neighbours(left: Pattern, right: Pattern) -> None:
    """NOT's neighbours must be non-empty as written: in SEQ(SEQ(A, B?), NOT C, D) that is SEQ(A, B?)."""
    for negation, neighbour in ((_edge(left, -1), right), (_edge(right, 0), left)):
        if isinstance(negation, Not) and not isinstance(neighbour, Not):
            _check_depth(neighbour, "the pattern", negation.span)
            if can_be_empty(neighbour):
                raise QueryError([beside_empty(negation)])


def _edge(pattern: Pattern, index: int) -> Pattern:
    return pattern.parts[index] if isinstance(pattern, Seq) else pattern


def _chained(conjunct: Expression) -> tuple[Expression, ...]:
    """Split `a = b = c` into its comparisons; return any other conjunct unchanged."""
    match conjunct:
        case Logic("AND", parts) if all(_are_linked(left, right) for left, right in pairwise(parts)):
            return parts
    return (conjunct,)


def _are_linked(left: Expression, right: Expression) -> bool:
    return isinstance(left, Compare) and isinstance(right, Compare) and left.right is right.left


def _check_depth(node: Any, what: str, span: Span) -> None:
    if depth(node) > MAX_NESTING:
        raise query_error(f"{what} is nested deeper than {MAX_NESTING} levels", span)


def check_expression(expression: Expression, clause: str, span: Span) -> None:
    """Raise if a condition is too deep, or has something that is none."""
    _check_depth(expression, f"the condition of {clause}", span)
    for node in cast("Iterator[object]", walk(expression)):
        if isinstance(node, _Equivalence):
            listed = ", ".join(node.attributes)
            hint = "join it to the other conjuncts by AND, outside of parentheses, OR and NOT"
            raise query_error(f"[{listed}] is not a conjunct of WHERE on its own", node.span, hint)
        if isinstance(node, _NextEvent):
            name = node.alias
            hint = f"name one, as in NEXT({name}).x, or write TIME(NEXT({name}))"
            raise query_error("NEXT is followed by an attribute", node.span, hint)


def _call(word: Token, arguments: tuple[Any, ...], span: Span) -> Expression:
    """An aggregate, or ABS."""
    match str(word.upper()), arguments:
        case "COUNT", [Token()]:
            return Aggregate(Function.COUNT, span=span)
        case "COUNT", [Token(type="DISTINCT"), *keys]:
            return Aggregate(Function.COUNT, distinct=_distinct(keys), span=span)
        case "COUNT", [Attribute(None, name)]:
            return Aggregate(Function.COUNT, name, span=span)
        case "TIME", [Attribute(None, name)]:
            return Attribute(name, EVENT_TIME, span=span)
        case "TIME", [_NextEvent(name)]:
            return Attribute(name, EVENT_TIME, True, span)
        case "SUM" | "MIN" | "MAX" | "AVG" as name, [Attribute(None, attribute)] if of := _OF_TREND.get(
            attribute.upper()
        ):
            return Aggregate(Function(name), of=of, span=span)
        case "SUM" | "MIN" | "MAX" | "AVG" as name, [Attribute(str(alias), str(attribute), False)] if (
            attribute
        ):
            return Aggregate(Function(name), alias, attribute, span=span)
        case "LOG2", [Aggregate(Function.COUNT, log2=False) as count]:
            return replace(count, log2=True, span=span)
        case "ABS", [operand] if not isinstance(operand, Token):
            return Unary("ABS", operand)
        case name, _ if name in TAKES:
            raise query_error(f"{name} takes {TAKES[name]}", span)
        case _, _:
            raise query_error(f"unknown function {str(word)!r}", _span(word), _function_hint(word.upper()))


def _distinct(keys: Iterable[GroupKey]) -> tuple[str, ...]:
    """The attributes of COUNT(DISTINCT a, b): those of partitions, so of no alias."""
    for key in keys:
        if key.alias is not None:
            name = key.attribute
            hint = f"it counts values of partitions: write COUNT(DISTINCT {name}) beside WHERE [{name}]"
            raise query_error("COUNT(DISTINCT ...) takes attributes without an alias", key.span, hint)
    return tuple(dict.fromkeys(key.attribute for key in keys))


def _function_hint(name: str) -> str:
    close = get_close_matches(name, FUNCTIONS, n=1, cutoff=0.75)  # MEDIAN is not a misspelt MIN
    guess = f"did you mean {close[0]!r}?" if close else ""
    return FUNCTION_HINTS.get(name) or guess or f"choose one of {', '.join(FUNCTIONS)}"


TAKES = {
    "COUNT": "*, an alias or DISTINCT, as in COUNT(*), COUNT(T) or COUNT(DISTINCT a)",
    "LOG2": "a COUNT, as in LOG2(COUNT(*))",
    "ABS": "one number",
    "TIME": "an alias, as in TIME(T) or TIME(NEXT(T))",
} | {
    name: f"one attribute of an alias, as in {name}(T.duration), or DURATION or LENGTH"
    for name in ("SUM", "MIN", "MAX", "AVG")
}

_OF_TREND = {of.value: of for of in OfTrend}
