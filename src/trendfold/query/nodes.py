"""The syntax tree of a query as plain values. Spans give text positions and are ignored by equality."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import lru_cache
from typing import TypeAlias

from trendfold.errors import NOWHERE, Span

# ---------------------------------------------------------------- patterns (spec 2, 3)


@dataclass(frozen=True, slots=True, repr=False)
class TypeSet:
    """`ANY(A, B)`, or `ANY` for every type (`names` is None): what events one position takes."""

    names: frozenset[str] | None = None

    def __contains__(self, name: str) -> bool:
        return self.names is None or name in self.names

    def __or__(self, other: TypeSet) -> TypeSet:
        return TypeSet(None if self.names is None or other.names is None else self.names | other.names)

    def __str__(self) -> str:
        return "ANY" if self.names is None else f"ANY({', '.join(sorted(self.names))})"

    def __repr__(self) -> str:
        return f"TypeSet({self.names if self.names is None else sorted(self.names)})"  # the same in every run

    def meets(self, other: TypeSet) -> bool:
        """Whether some type is in both sets."""
        if self.names is None or other.names is None:
            return True
        return not self.names.isdisjoint(other.names)


@lru_cache(maxsize=1_024)
def type_set(type_: str | TypeSet) -> TypeSet:
    """The types of the events that can take a position: the set, or the one type written."""
    return type_ if isinstance(type_, TypeSet) else TypeSet(frozenset({type_}))


@dataclass(frozen=True, slots=True)
class EventRef:
    """`Travel T`: one written occurrence of an event type or a set of types, with its alias if it has one."""

    type: str | TypeSet
    alias: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def name(self) -> str | None:
        """What other clauses call it at first: its alias or type. A set without an alias has no name."""
        return self.alias or (self.type if isinstance(self.type, str) else None)


@dataclass(frozen=True, slots=True)
class Seq:
    """`SEQ(p1, ..., pn)`: the parts in this order. Never holds a Seq, never has fewer than two parts."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """`OR(p1, ..., pn)` or `p1 | p2`: one of the parts."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Both:
    """`AND(p1, ..., pn)` or `p1 & p2`: every combination of one trend of each part."""

    parts: tuple[Pattern, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT N`: no trend of the body between its neighbours in a SEQ."""

    body: Pattern
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Plus:
    """`p+`: the body one or more times."""

    body: Pattern


@dataclass(frozen=True, slots=True)
class Maybe:
    """`p?`: the body or nothing. `p*` is Maybe(Plus(p))."""

    body: Pattern


@dataclass(frozen=True, slots=True)
class Repeat:
    """`p{m,n}`, `p{m}` (low == high) or `p{m,}` (high is None, low >= 1)."""

    body: Pattern
    low: int
    high: int | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Pattern: TypeAlias = EventRef | Seq | Either | Both | Not | Plus | Maybe | Repeat

# ---------------------------------------------------------------- expressions (WHERE, HAVING)


@dataclass(frozen=True, slots=True)
class Instant:
    """A time, in microseconds since 1970 in UTC."""

    micros: int


@dataclass(frozen=True, slots=True)
class Duration:
    """A difference of times, in microseconds."""

    micros: int


Value: TypeAlias = int | float | str | bool | Instant | Duration | None
"""What a literal may be."""

EVENT_TIME = ""
"""The name of the attribute that TIME(E) reads; no column can be called so in a query."""


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A number, a string, TRUE, FALSE, NULL, a time or a duration.

    2 and 2.0 differ: integer arithmetic overflows to null, float arithmetic does not.
    """

    value: Value
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self.value)

    def _told(self) -> tuple[type, object]:
        return type(self.value), self.value


@dataclass(frozen=True, slots=True)
class Attribute:
    """`T.speed`, `NEXT(T).speed`, or in HAVING a bare name (`alias` is None); TIME(T) reads EVENT_TIME."""

    alias: str | None
    name: str
    is_next: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x`, `ABS(x)` or `NOT x`; `op` is "-", "ABS" or "NOT"."""

    op: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic; `op` is one of + - * / %."""

    op: str
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """`op` is one of = != < <= > >= (`<>` is read as !=)."""

    op: str
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logic:
    """`a AND b AND c`, `a OR b`; `op` is "AND" or "OR", two parts or more."""

    op: str
    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`x IS NULL`, or with `negated` `x IS NOT NULL`."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    """`x IN (1, 2)`: equal to one of the items."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Between:
    """`x BETWEEN low AND high`, both ends included."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Like:
    r"""`x LIKE 'a%'`: `%` is any text, `_` one character, `\` escapes."""

    operand: Expression
    pattern: str
    negated: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class Function(StrEnum):
    """The aggregates of RETURN and HAVING."""

    COUNT = "COUNT"
    SUM = "SUM"
    MIN = "MIN"
    MAX = "MAX"
    AVG = "AVG"


class OfTrend(Enum):
    """What an aggregate ranges over if not over attributes: `SUM(DURATION)`, `MAX(LENGTH)`."""

    DURATION = "DURATION"  # from a trend's first event to its last, in seconds
    LENGTH = "LENGTH"  # the number of a trend's bindings


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`COUNT(*)` (no alias), `COUNT(T)` (no attribute), `SUM(T.duration)`, `AVG(DURATION)`.

    `log2` wraps a COUNT. `COUNT(DISTINCT a, b)` has the attributes in `distinct`: it counts values of
    partitions, not trends. `of` is what a trend as a whole has, instead of an alias and an attribute.
    """

    function: Function
    alias: str | None = None
    attribute: str | None = None
    log2: bool = False
    distinct: tuple[str, ...] = ()
    of: OfTrend | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expression: TypeAlias = (
    Literal | Attribute | Unary | Binary | Compare | Logic | IsNull | In | Between | Like | Aggregate
)

# ---------------------------------------------------------------- clauses


class Semantics(StrEnum):
    """Which later events may directly follow an event in a trend (spec 5)."""

    ANY = "skip-till-any-match"
    NEXT = "skip-till-next-match"
    CONTIGUOUS = "contiguous"


class WindowUnit(StrEnum):
    """What a window's length and slide are counted in."""

    MICROSECONDS = "microseconds"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Window:
    """`WITHIN length [SLIDE slide]`. Without a slide: one window per event (spec 7)."""

    length: int
    slide: int | None
    unit: WindowUnit
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SpanBound:
    """`WITHIN length EVERY s` or `... ONCE`: a trend counts once, if its last time - first time < length.

    Windows do not cut trends then: the window of the query is the period, of length s, that holds the time of
    a trend's last event. With ONCE the query has none.
    """

    length: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """One GROUP BY attribute: plain (`alias` is None), or of one alias."""

    alias: str | None
    attribute: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ReturnItem:
    """One item of RETURN, with its AS name if it has one."""

    value: Aggregate | GroupKey
    name: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Matches:
    """`RETURN MATCHES` or `MATCHES(attr, ...)`: the trends themselves."""

    attributes: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One query. Omitted clauses have their defaults."""

    name: str
    returns: tuple[ReturnItem, ...] | Matches
    pattern: Pattern
    semantics: Semantics = Semantics.ANY
    equivalence: tuple[str, ...] = ()
    """The attributes of every `[a, b]` conjunct, without repeats."""
    where: tuple[Expression, ...] = ()
    """The other conjuncts of WHERE."""
    group_by: tuple[GroupKey, ...] = ()
    having: Expression | None = None
    window: Window | None = None
    bound: SpanBound | None = None
    limit: int | None = None
    includes_empty: bool = False
    """INCLUDE EMPTY: windows and groups without trends have rows too."""
    text: str = field(default="", compare=False, repr=False)
    """The whole text this query was parsed from, for errors found later."""
    span: Span = field(default=NOWHERE, compare=False, repr=False)
