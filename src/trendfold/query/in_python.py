"""Queries written in Python: patterns, values and conditions with operators make the nodes of the language.

Values of Python become literal nodes; they are never pasted into text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NoReturn, TypeAlias, TypeGuard

from trendfold.errors import InputError, nearest
from trendfold.query.nodes import (
    EVENT_TIME,
    Aggregate,
    Attribute,
    Between,
    Binary,
    Both,
    Compare,
    Either,
    EventRef,
    Expression,
    Function,
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
    Repeat,
    Seq,
    TypeSet,
    Unary,
)
from trendfold.query.parameters import negative, plain
from trendfold.query.printer import expression_text, pattern_text, quoted

# ---------------------------------------------------------------- values and conditions


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConditionExpr:
    """A condition: join conditions by `&` and `|`, negate one by `~`."""

    _node: Expression
    _is_joint: bool = False
    """Whether an AND is one conjunct, as in parentheses; see `jointly`."""

    def __and__(self, other: ConditionExpr) -> ConditionExpr:
        return ConditionExpr(Logic("AND", (*_joined("AND", self), *_joined("AND", other))))

    def __or__(self, other: ConditionExpr) -> ConditionExpr:
        return ConditionExpr(Logic("OR", (*_joined("OR", self), *_joined("OR", other))))

    def __invert__(self) -> ConditionExpr:
        match self._node:
            case In() | Between() | Like() | IsNull():
                return ConditionExpr(replace(self._node, negated=not self._node.negated))
        return ConditionExpr(Unary("NOT", self._node))

    def __bool__(self) -> bool:
        raise TypeError(_NO_TRUTH)

    def __repr__(self) -> str:
        return expression_text(self._node)


_NO_TRUTH = (
    "a condition has no truth value before the query runs: join conditions by & and |, negate one by ~, "
    "and write 1 < T.x < 5 as T.x.between(1, 5) or (T.x > 1) & (T.x < 5)"
)


def _joined(op: str, condition: object) -> tuple[Expression, ...]:
    if not isinstance(condition, ConditionExpr):
        raise InputError(
            f"{condition!r} is no condition; put comparisons in parentheses: (T.x > 1) & (T.y < 5)"
        )
    node = condition._node
    return node.parts if isinstance(node, Logic) and node.op == op and not condition._is_joint else (node,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ValueExpr:
    """A value: an attribute, a time, an aggregate, or arithmetic of them. Comparisons make conditions."""

    _node: Expression
    _name: str | None = None

    __array_ufunc__ = None  # so that numpy's numbers leave operators to this class

    def alias(self, name: str) -> ValueExpr:
        """The same value under another name of its result column, as AS gives it."""
        return ValueExpr(self._node, _required(name, "an alias"))

    def __eq__(self, other: object) -> ConditionExpr:  # type: ignore[override]
        return _compare("=", self, other)

    def __ne__(self, other: object) -> ConditionExpr:  # type: ignore[override]
        return _compare("!=", self, other)

    def __lt__(self, other: Operand) -> ConditionExpr:
        return _compare("<", self, other)

    def __le__(self, other: Operand) -> ConditionExpr:
        return _compare("<=", self, other)

    def __gt__(self, other: Operand) -> ConditionExpr:
        return _compare(">", self, other)

    def __ge__(self, other: Operand) -> ConditionExpr:
        return _compare(">=", self, other)

    def is_in(self, items: Iterable[Operand]) -> ConditionExpr:
        """Whether the value is one of the items: `x IN (...)`."""
        nodes = tuple(_operand(item) for item in items)
        if not nodes:
            raise InputError("is_in takes at least one item")
        return ConditionExpr(In(self._node, nodes))

    def between(self, low: Operand, high: Operand) -> ConditionExpr:
        """Whether the value is from low to high, both ends included."""
        return ConditionExpr(Between(self._node, _operand(low), _operand(high)))

    def like(self, pattern: str) -> ConditionExpr:
        r"""Whether a string has this form: `%` is any text, `_` one character, `\` escapes."""
        return ConditionExpr(Like(self._node, str(pattern)))

    def is_null(self) -> ConditionExpr:
        """Whether there is no value."""
        return ConditionExpr(IsNull(self._node))

    def is_not_null(self) -> ConditionExpr:
        """Whether there is a value."""
        return ConditionExpr(IsNull(self._node, True))

    def __add__(self, other: Operand) -> ValueExpr:
        return _binary("+", self, other)

    def __radd__(self, other: Operand) -> ValueExpr:
        return _binary("+", other, self)

    def __sub__(self, other: Operand) -> ValueExpr:
        return _binary("-", self, other)

    def __rsub__(self, other: Operand) -> ValueExpr:
        return _binary("-", other, self)

    def __mul__(self, other: Operand) -> ValueExpr:
        return _binary("*", self, other)

    def __rmul__(self, other: Operand) -> ValueExpr:
        return _binary("*", other, self)

    def __truediv__(self, other: Operand) -> ValueExpr:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Operand) -> ValueExpr:
        return _binary("/", other, self)

    def __mod__(self, other: Operand) -> ValueExpr:
        return _binary("%", self, other)

    def __rmod__(self, other: Operand) -> ValueExpr:
        return _binary("%", other, self)

    def __neg__(self) -> ValueExpr:
        return ValueExpr(negative(self._node))

    def __abs__(self) -> ValueExpr:
        return ValueExpr(Unary("ABS", self._node))

    def __getattr__(self, name: str) -> ValueExpr:
        if name.startswith("_") or not _is_attribute(self._node):
            raise AttributeError(f"{self!r} has no {name!r}; fields that begin with _ are written [{name!r}]")
        return self[name]

    def __getitem__(self, name: str) -> ValueExpr:
        """A field of a nested column: `B.place.city`."""
        if not _is_attribute(self._node):
            raise TypeError(f"{self!r} has no fields; only attributes of events have")
        return ValueExpr(replace(self._node, name=f"{self._node.name}.{_column(name)}"))

    def __call__(self, *_: object) -> NoReturn:
        """No value can be called: what stands before the parentheses is no method, but read as a field."""
        name = expression_text(self._node).rpartition(".")[2]
        methods = [each for each in dir(ValueExpr) if not each.startswith("_")]
        raise TypeError(f"values have no method {name!r}; {nearest(name, methods) or ', '.join(methods)}")

    def __and__(self, other: object) -> ConditionExpr:
        raise TypeError("& joins conditions; put comparisons in parentheses: (T.x > 1) & (T.y < 5)")

    __rand__ = __or__ = __ror__ = __and__

    def __bool__(self) -> bool:
        raise TypeError(_NO_TRUTH)

    def __repr__(self) -> str:
        return expression_text(self._node) + (f" AS {quoted(self._name)}" if self._name is not None else "")


def _is_attribute(node: Expression) -> TypeGuard[Attribute]:
    """Whether a value is an attribute of an event, which may have fields."""
    return isinstance(node, Attribute) and node.alias is not None and node.name != EVENT_TIME


Operand: TypeAlias = ValueExpr | ConditionExpr | int | float | str | bool | datetime | timedelta | None
"""What values are compared and combined with."""


def _operand(value: object) -> Expression:
    match value:
        case ValueExpr(_node=node) | ConditionExpr(_node=node):
            return node
        case PatternExpr() | NextEvent():
            raise InputError(f"{value!r} is an event, not a value; name an attribute, as in T.speed")
    return Literal(plain("a value of a condition", value))


def _compare(op: str, left: object, right: object) -> ConditionExpr:
    return ConditionExpr(Compare(op, _operand(left), _operand(right)))


def _binary(op: str, left: object, right: object) -> ValueExpr:
    return ValueExpr(Binary(op, _operand(left), _operand(right)))


def _required(name: object, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise InputError(f"{what} is a string that is not empty, not {name!r}")
    return name


@dataclass(frozen=True, slots=True)
class Same:
    """`[a, b]`: all events of a trend have equal values of these attributes."""

    attributes: tuple[str, ...]


def same(*attributes: str) -> Same:
    """All events of a trend have equal values of these attributes: `[driver, rider]`."""
    if not attributes:
        raise InputError("same takes the names of attributes, as in same('driver', 'rider')")
    return Same(tuple(_required(name, "an attribute") for name in attributes))


def jointly(*conditions: ConditionExpr) -> ConditionExpr:
    """Several conditions as one conjunct of WHERE: AND in parentheses.

    Every pair of events it names must satisfy all of them together. `&` makes conjuncts of their own.
    """
    parts = tuple(part for condition in conditions for part in _joined("", condition))
    return ConditionExpr(Logic("AND", parts), True) if len(parts) > 1 else conditions[0]


def col(name: str) -> ValueExpr:
    """A column of the result by its name, in `having`: an alias or a grouping attribute."""
    return ValueExpr(Attribute(None, _required(name, "a column")))


# ---------------------------------------------------------------- patterns


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternExpr:
    """A pattern: `|` is OR, `&` is AND, `~` is NOT; methods repeat it."""

    _pattern: Pattern

    def plus(self) -> PatternExpr:
        """One or more times: `P+`."""
        return PatternExpr(Plus(self._pattern))

    def star(self) -> PatternExpr:
        """Any number of times: `P*`."""
        return PatternExpr(Maybe(Plus(self._pattern)))

    def optional(self) -> PatternExpr:
        """At most once: `P?`."""
        return PatternExpr(Maybe(self._pattern))

    def times(self, low: int, high: int | None = None) -> PatternExpr:
        """This often, or `low` to `high` times: `P{3}`, `P{2,5}`."""
        most = low if high is None else high
        if not (_is_whole(low) and _is_whole(most)):
            raise InputError(f"times takes whole numbers, not {low!r} and {most!r}")
        if not 0 <= low <= most or most == 0:
            raise InputError(f"times({low}, {most}): give low <= high, both 0 or more, and high at least 1")
        return PatternExpr(Repeat(self._pattern, low, most))

    def at_least(self, low: int) -> PatternExpr:
        """This often or more: `P{2,}`."""
        if not _is_whole(low) or low < 0:
            raise InputError(f"at_least takes a whole number, not {low!r}")
        return PatternExpr(Repeat(self._pattern, low, None)) if low else self.star()

    def __or__(self, other: PatternExpr | str) -> PatternExpr:
        return PatternExpr(Either((*_parts(Either, self), *_parts(Either, other))))

    def __ror__(self, other: str) -> PatternExpr:
        return event(other) | self

    def __and__(self, other: PatternExpr | str) -> PatternExpr:
        return PatternExpr(Both((*_parts(Both, self), *_parts(Both, other))))

    def __rand__(self, other: str) -> PatternExpr:
        return event(other) & self

    def __invert__(self) -> PatternExpr:
        return PatternExpr(Not(self._pattern))

    def __repr__(self) -> str:
        return pattern_text(self._pattern)


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def pattern_of(pattern: object) -> Pattern:
    """The node of a pattern; a string is an event type."""
    match pattern:
        case PatternExpr(_pattern=node):
            return node
        case str():
            return event(pattern)._pattern
    raise InputError(f"{pattern!r} is no pattern; write an event, such as event('Travel'), or its type")


def _parts(
    composite: type[Seq] | type[Either] | type[Both], pattern: PatternExpr | str
) -> tuple[Pattern, ...]:
    node = pattern_of(pattern)
    return node.parts if isinstance(node, Seq | Either | Both) and isinstance(node, composite) else (node,)


class EventExpr(PatternExpr):
    """An event of a pattern. `T.speed` and `T["speed"]` are its attributes, for conditions and aggregates."""

    __slots__ = ()

    def __getattr__(self, name: str) -> ValueExpr:
        if name.startswith("_"):  # asked for by copy, pickle and notebooks
            raise AttributeError(f"write [{name!r}] for a column that begins with an underscore")
        return self[name]

    def __getitem__(self, name: str) -> ValueExpr:
        return ValueExpr(Attribute(name_of(self), _column(name)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NextEvent:
    """The event directly after one in a trend; see `next_`."""

    _event: str

    def __getattr__(self, name: str) -> ValueExpr:
        if name.startswith("_"):
            raise AttributeError(f"write [{name!r}] for a column that begins with an underscore")
        return self[name]

    def __getitem__(self, name: str) -> ValueExpr:
        return ValueExpr(Attribute(self._event, _column(name), True))

    def __repr__(self) -> str:
        return f"NEXT({quoted(self._event)})"


def _column(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"an attribute is named by a string, not {name!r}")
    return _required(name, "an attribute")


def name_of(event: object) -> str:
    """What conditions and aggregates call an event: its alias, or its type."""
    if not isinstance(event, EventExpr) or not isinstance(event._pattern, EventRef):
        raise InputError(f"{event!r} is no event, such as event('Travel'), without a repetition")
    if event._pattern.name is None:
        raise InputError(f"{event!r} has no name; give it one with as_='x'")
    return event._pattern.name


def event_of(pattern: Pattern) -> EventExpr:
    """The event that a node of a pattern is; an error if it is more than one."""
    if not isinstance(pattern, EventRef):
        raise InputError(f"{pattern_text(pattern)} is no single event")
    return EventExpr(pattern)


def event(type: str, as_: str | None = None) -> EventExpr:
    """An event of a type, with an alias for other clauses: `Travel T` is `event("Travel", as_="T")`."""
    return EventExpr(EventRef(_required(type, "an event type"), _alias(as_)))


def events(*types: str) -> tuple[EventExpr, ...]:
    """Events of several types: `Request, Travel = events("Request", "Travel")`."""
    return tuple(event(name) for name in types)


def any_of(*types: str, as_: str | None = None) -> EventExpr:
    """An event of one of these types: `ANY(A, B) x`."""
    if not types:
        raise InputError("any_of takes event types; an event of any type is any_event()")
    names = frozenset(_required(name, "an event type") for name in types)
    return EventExpr(EventRef(TypeSet(names), _alias(as_)))


def any_event(as_: str | None = None) -> EventExpr:
    """An event of any type: `ANY x`."""
    return EventExpr(EventRef(TypeSet(), _alias(as_)))


def _alias(name: str | None) -> str | None:
    return None if name is None else _required(name, "an alias")


def seq(*patterns: PatternExpr | str) -> PatternExpr:
    """These patterns, one after another: `SEQ(P, Q)`. A string is an event type."""
    parts = tuple(part for pattern in patterns for part in _parts(Seq, pattern))
    if not parts:
        raise InputError("seq takes patterns, as in seq(Request, Travel.plus())")
    return PatternExpr(parts[0] if len(parts) == 1 else Seq(parts))


# ---------------------------------------------------------------- times and aggregates


def next_(event: EventExpr) -> NextEvent:
    """The event directly after one at `event`: `T.speed < next(T).speed`."""
    return NextEvent(name_of(event))


def time(event: EventExpr | NextEvent) -> ValueExpr:
    """The time of an event; time less time is a duration, which compares with timedeltas."""
    if isinstance(event, NextEvent):
        return ValueExpr(Attribute(event._event, EVENT_TIME, True))
    return ValueExpr(Attribute(name_of(event), EVENT_TIME))


def count(event: EventExpr | None = None) -> ValueExpr:
    """The number of trends, `COUNT(*)`, or of the bindings of an event in them, `COUNT(T)`."""
    return ValueExpr(Aggregate(Function.COUNT, None if event is None else name_of(event)))


def count_distinct(*attributes: str) -> ValueExpr:
    """The number of different values among the partitions that have a trend: `COUNT(DISTINCT user)`.

    Each attribute is in `same` or `group_by`.
    """
    names = tuple(dict.fromkeys(_required(name, "an attribute") for name in attributes))
    if not names:
        raise InputError("count_distinct takes the names of attributes, as in count_distinct('user')")
    return ValueExpr(Aggregate(Function.COUNT, distinct=names))


DURATION = OfTrend.DURATION
"""The time from a trend's first event to its last: `tf.mean(tf.DURATION)`."""
LENGTH = OfTrend.LENGTH
"""The number of a trend's events: `tf.max(tf.LENGTH)`."""


def sum_(value: ValueExpr | OfTrend) -> ValueExpr:
    """The sum of an attribute over all bindings of an event in all trends, as in `SUM(T.duration)`."""
    return _aggregate(Function.SUM, value)


def min_(value: ValueExpr | OfTrend) -> ValueExpr:
    """The least value of an attribute: `MIN(T.duration)`."""
    return _aggregate(Function.MIN, value)


def max_(value: ValueExpr | OfTrend) -> ValueExpr:
    """The greatest value of an attribute: `MAX(T.duration)`."""
    return _aggregate(Function.MAX, value)


def mean(value: ValueExpr | OfTrend) -> ValueExpr:
    """The mean of an attribute: `AVG(T.duration)`."""
    return _aggregate(Function.AVG, value)


def _aggregate(function: Function, value: object) -> ValueExpr:
    match value:
        case ValueExpr(_node=Attribute(str(alias), name, False)) if name != EVENT_TIME:
            return ValueExpr(Aggregate(function, alias, name))
        case OfTrend():
            return ValueExpr(Aggregate(function, of=value))
    takes = "one attribute of an event, such as T.duration, or DURATION or LENGTH"
    raise InputError(f"{function} takes {takes}, not {value!r}")


def log2(count: ValueExpr) -> ValueExpr:
    """The logarithm of a count, for counts beyond the range of doubles: `LOG2(COUNT(*))`."""
    match count:
        case ValueExpr(_node=Aggregate(Function.COUNT, log2=False) as node):
            return ValueExpr(replace(node, log2=True))
    raise InputError(f"log2 takes a count, as in log2(count()), not {count!r}")


def matches(*attributes: str) -> Matches:
    """The trends themselves, with these attributes of their events: `RETURN MATCHES(speed)`."""
    return Matches(tuple(dict.fromkeys(_required(name, "an attribute") for name in attributes)))


Returned: TypeAlias = ValueExpr | str
"""An item of RETURN: an aggregate, or a grouping attribute."""

Conjunct: TypeAlias = ConditionExpr | Same
"""An item of WHERE."""
