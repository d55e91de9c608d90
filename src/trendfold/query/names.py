"""Name resolution: which positions a name refers to, kinds of predicates, and result columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from itertools import groupby
from typing import TypeVar

from trendfold.errors import NOWHERE, Span
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
    GroupKey,
    In,
    IsNull,
    Like,
    Literal,
    Logic,
    Matches,
    Maybe,
    Not,
    Pattern,
    Plus,
    Query,
    Repeat,
    Seq,
    Unary,
)

RESERVED = frozenset(
    "QUERY RETURN AGG PATTERN SEMANTICS WHERE GROUP GROUPBY GROUP_BY HAVING WITHIN WINDOW SLIDE LIMIT "
    "INCLUDE SEQ OR AND NOT NEXT IN LIKE BETWEEN IS NULL TRUE FALSE".split()
)
"""Words that are never bare names, case-insensitive; the grammar's NOT_RESERVED has the same list."""

Node = TypeVar("Node", Pattern, Expression)

# ---------------------------------------------------------------- trees


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly under a node of a pattern or an expression."""
    match node:
        case Attribute() | Literal():  # most nodes are leaves of conditions, and most conditions compare
            return ()
        case Compare() | Binary():
            return (node.left, node.right)
        case Seq() | Either() | Both() | Logic():
            return node.parts
        case Plus() | Maybe() | Not() | Repeat():
            return (node.body,)
        case Unary() | IsNull() | Like():
            return (node.operand,)
        case In():
            return (node.operand, *node.items)
        case Between(child, low, high):
            return (child, low, high)
    return ()


def with_children(node: Expression, parts: tuple[Expression, ...]) -> Expression:
    """An expression with other nodes directly under it, in the order of `children`."""
    match node:
        case Logic():
            return replace(node, parts=parts)
        case Unary() | IsNull() | Like():
            return replace(node, operand=parts[0])
        case In():
            return replace(node, operand=parts[0], items=parts[1:])
        case Binary() | Compare():
            return replace(node, left=parts[0], right=parts[1])
        case Between():
            return replace(node, operand=parts[0], low=parts[1], high=parts[2])
    return node


def walk(node: Node) -> Iterator[Node]:
    """The node and all its descendants, in text order. Not recursive: safe at any depth."""
    stack = [node]
    while stack:
        yield (top := stack.pop())
        if under := children(top):
            stack.extend(reversed(under))


def depth(node: Node) -> int:
    """The nesting depth of operators. Not recursive: it guards the functions that are."""
    deepest, level = 0, list(children(node))
    while level:
        deepest += 1
        level = [child for above in level for child in children(above)]
    return deepest


def extent(node: Node) -> Span:
    """The span from the first to the last character of a node, as far as its spans are known."""
    spans = [part.span for part in walk(node) if hasattr(part, "span") and part.span != NOWHERE]
    if not spans:
        return NOWHERE
    return Span(min(span.start for span in spans), max(span.end for span in spans))


# ---------------------------------------------------------------- patterns


def refs(pattern: Pattern) -> tuple[tuple[EventRef, bool], ...]:
    """Every event type written in a pattern, in order, and whether it is under a NOT."""
    found: list[tuple[EventRef, bool]] = []
    stack = [(pattern, False)]
    while stack:
        node, is_negated = stack.pop()
        if isinstance(node, EventRef):
            found.append((node, is_negated))
        below = is_negated or isinstance(node, Not)
        stack.extend((child, below) for child in reversed(children(node)))
    return tuple(found)


def stands_for(ref: EventRef, name: str) -> bool:
    """Whether a name in another clause refers to this position: by its alias or its type."""
    return name in (ref.alias, ref.type)


def sides(pattern: Pattern) -> dict[str, frozenset[bool]]:
    """Every alias and type, in the order written, with the `is_negated` of its positions: two if mixed."""
    found: dict[str, frozenset[bool]] = {}
    for ref, is_negated in refs(pattern):
        for name in filter(None, (ref.alias, ref.type if isinstance(ref.type, str) else None)):
            found[name] = found.get(name, frozenset()) | {is_negated}
    return found


def joined_nots(parts: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    """The parts of a SEQ with NOTs side by side as one NOT of their OR: a trend of any of them breaks."""
    found: list[Pattern] = []
    for is_not, run in groupby(parts, lambda part: isinstance(part, Not)):
        own = list(run)
        if is_not and len(own) > 1:
            bodies = tuple(body for part in own for body in children(part))
            found.append(Not(Either(bodies), extent(own[0])))
        else:
            found += own
    return tuple(found)


def is_beside_not(pattern: Pattern, one: str, other: str) -> bool:
    """Whether one of two names is of negated events, and the other of positive ones."""
    known = sides(pattern)
    return known.get(one) != known.get(other)


def beside_nots(pattern: Pattern) -> Iterator[tuple[Not, tuple[EventRef, ...]]]:
    """Every NOT with the events that can be directly before or after it."""
    for node in walk(pattern):
        if isinstance(node, Seq):
            for i, part in enumerate(node.parts):
                if isinstance(part, Not):
                    before, after = node.parts[:i][::-1], node.parts[i + 1 :]
                    yield part, (*_reached(before, is_last=True), *_reached(after, is_last=False))


def _reached(parts: Iterable[Pattern], *, is_last: bool) -> Iterator[EventRef]:
    """The events that can come first (last) in a run of parts, from its near end; none of those in NOTs."""
    for part in parts:
        yield from _end_refs(part, is_last=is_last)
        if not can_be_empty(part):
            return


def _end_refs(pattern: Pattern, *, is_last: bool) -> Iterator[EventRef]:
    match pattern:
        case EventRef():
            yield pattern
        case Not():
            return
        case Seq(parts):
            yield from _reached(parts[::-1] if is_last else parts, is_last=is_last)
        case _:
            for child in children(pattern):
                yield from _end_refs(child, is_last=is_last)


def positions(pattern: Pattern) -> int:
    """The number of positions of a pattern, counting the copies of `{m,n}`."""
    match pattern:
        case EventRef():
            return 1
        case Repeat(body, low, high):
            return positions(body) * (low if high is None else high)
    total = 0
    for child in children(pattern):
        total += positions(child)
    return total


def can_be_empty(pattern: Pattern) -> bool:
    """Whether a pattern accepts the empty sequence. A NOT matches no events."""
    match pattern:
        case Maybe() | Not():
            return True
        case Plus(body):
            return can_be_empty(body)
        case Repeat(body, low):
            return low == 0 or can_be_empty(body)
        case Seq(parts):
            return all(map(can_be_empty, parts))
        case Either(parts):
            return any(map(can_be_empty, parts))
    return False


def can_avoid(pattern: Pattern, name: str) -> bool:
    """Whether some trend of a pattern has no event at `name`."""
    match pattern:
        case EventRef():
            return not stands_for(pattern, name)
        case Maybe() | Not():
            return True
        case Plus(body):
            return can_avoid(body, name)
        case Repeat(body, low):
            return low == 0 or can_avoid(body, name)
        case Either(parts):
            return any(can_avoid(part, name) for part in parts)
        case Seq(parts) | Both(parts):
            return all(can_avoid(part, name) for part in parts)


def can_follow(pattern: Pattern, first: str, second: str) -> bool:
    """Whether an event at `second` can directly follow one at `first`, in the pattern or inside a NOT."""
    return _ends(pattern, first, second)[2]


def _ends(pattern: Pattern, first: str, second: str) -> tuple[bool, bool, bool]:
    """Whether a pattern can begin at `second`, end at `first`, and have `second` directly after `first`."""
    if isinstance(pattern, EventRef):
        return stands_for(pattern, second), stands_for(pattern, first), False
    parts = [_ends(child, first, second) for child in children(pattern)]
    begins, ends, follows = (any(each) for each in zip(*parts, strict=True))
    match pattern:
        case Not():
            return False, False, follows
        case Plus() | Repeat(high=None):
            return begins, ends, follows or (ends and begins)
        case Repeat(_, _, high):
            return begins, ends, follows or (high != 1 and ends and begins)
        case Seq(elements):
            is_empty, begins, ends = True, False, False
            for element, (b, e, _) in zip(elements, parts, strict=True):
                follows = follows or (ends and b)
                begins = begins or (is_empty and b)
                ends = e or (ends and can_be_empty(element))
                is_empty = is_empty and can_be_empty(element)
    return begins, ends, follows


def can_meet(pattern: Pattern, one: str, other: str) -> bool:
    """Whether one trend can have events at both names, in the pattern or inside a NOT."""

    def has(part: Pattern, name: str) -> bool:
        return any(stands_for(ref, name) and not is_negated for ref, is_negated in refs(part))

    if any(can_meet(child, one, other) for child in children(pattern)):
        return True
    match pattern:
        case Plus(body) | Repeat(body, high=None):
            return has(body, one) and has(body, other)
        case Repeat(body, _, high):
            return high != 1 and has(body, one) and has(body, other)
        case Seq(parts) | Both(parts):
            taken = [part for part in parts if not isinstance(part, Not)]
            ones, others = ({i for i, part in enumerate(taken) if has(part, name)} for name in (one, other))
            return bool(ones and others) and len(ones | others) > 1
    return False


# ---------------------------------------------------------------- predicates


class PredicateKind(StrEnum):
    """What a conjunct of WHERE constrains, by what it names (spec 5)."""

    LOCAL = "local"
    ADJACENCY = "adjacency"
    CROSS = "cross"


def named(expression: Expression) -> frozenset[tuple[str, bool]]:
    """The aliases an expression names, each with whether it is inside NEXT( )."""
    return frozenset(
        (node.alias, node.is_next)
        for node in walk(expression)
        if isinstance(node, Attribute) and node.alias is not None
    )


def kind(conjunct: Expression) -> PredicateKind | None:
    """The kind of a conjunct; None if the language does not define its meaning."""
    return kind_by_names(named(conjunct))


def kind_by_names(names: frozenset[tuple[str, bool]]) -> PredicateKind | None:
    """The same, from the aliases it names."""
    match sorted(is_next for _, is_next in names):
        case [False]:
            return PredicateKind.LOCAL
        case [False, True]:
            return PredicateKind.ADJACENCY
        case [False, False]:
            return PredicateKind.CROSS
    return None


# ---------------------------------------------------------------- columns

DERIVED = "\0"
"""How the name of a column begins that is computed from others, not read."""


def attributes_in(expression: Expression) -> frozenset[str]:
    """The columns that an expression reads; TIME(E) reads none by name."""
    names = (node.name for node in walk(expression) if isinstance(node, Attribute))
    return frozenset(name for name in names if name != EVENT_TIME and not name.startswith(DERIVED))


def needed_columns(queries: Iterable[Query], always: Iterable[str] = ()) -> frozenset[str]:
    """The attributes that any of the queries reads, plus those in `always`."""
    found = set(always)
    for query in queries:
        found |= {key.attribute for key in query.group_by} | set(query.equivalence)
        expressions = [*query.where, *([query.having] if query.having is not None else [])]
        if isinstance(query.returns, Matches):
            found |= set(query.returns.attributes)
        else:
            expressions += [item.value for item in query.returns if isinstance(item.value, Aggregate)]
        for expression in expressions:
            for node in walk(expression):
                if isinstance(node, Attribute) and node.alias is not None and node.name != EVENT_TIME:
                    found.add(node.name)
                elif isinstance(node, Aggregate) and node.attribute is not None:
                    found.add(node.attribute)
    return frozenset(found)


def key_column(query: Query, key: GroupKey) -> str:
    """The result column of a GROUP BY attribute: its AS name, `g`, or `T_g` if `g` is ambiguous."""
    if not isinstance(query.returns, Matches):
        for item in query.returns:
            if item.value == key and item.name is not None:
                return item.name
    shared = Counter(other.attribute for other in query.group_by)[key.attribute] > 1
    return f"{key.alias}_{key.attribute}" if shared and key.alias is not None else key.attribute


def default_column(aggregate: Aggregate) -> str:
    """The column of an aggregate without AS: `count`, `sum_T_x`, `max_length`, `count_distinct_a`."""
    distinct = ("distinct", *aggregate.distinct) if aggregate.distinct else ()
    of = aggregate.of.value.lower() if aggregate.of is not None else None
    parts = (aggregate.function.lower(), aggregate.alias, aggregate.attribute, *distinct, of)
    return "log2_" * aggregate.log2 + "_".join(part for part in parts if part is not None)


def list_names(pattern: Pattern) -> tuple[str, ...]:
    """The names under which MATCHES lists events: the alias, or the type, of each positive position.

    The events of a set without an alias are in no list.
    """
    names = (ref.name for ref, is_negated in refs(pattern) if not is_negated)
    return tuple(dict.fromkeys(name for name in names if name is not None))


def columns(query: Query) -> tuple[str, ...]:
    """The result's columns after its first two: the groups, then the aggregates or the lists of events."""
    keys = tuple(key_column(query, key) for key in query.group_by)
    match query.returns:
        case Matches():
            return keys + list_names(query.pattern)
        case items:
            return keys + tuple(
                item.name or default_column(item.value) for item in items if isinstance(item.value, Aggregate)
            )


def having_value(query: Query, attribute: Attribute) -> Aggregate | GroupKey | None:
    """Resolve an attribute in HAVING: AS names first, then grouping attributes; None if unknown."""
    items = () if isinstance(query.returns, Matches) else query.returns
    if attribute.alias is None:
        for item in items:
            if item.name == attribute.name:
                return item.value
    for key in query.group_by:
        if (key.alias, key.attribute) == (attribute.alias, attribute.name):
            return key
    bare = [k for k in query.group_by if attribute.alias is None and key_column(query, k) == attribute.name]
    return bare[0] if bare else None
