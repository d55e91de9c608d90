"""HAVING conditions that doubles decide, however large aggregates are; it compares true values (spec 9)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from trendfold.events.schema import Kind
from trendfold.query.names import having_value, walk
from trendfold.query.nodes import (
    Aggregate,
    Attribute,
    Between,
    Compare,
    Expression,
    Function,
    In,
    IsNull,
    Literal,
    OfTrend,
    Query,
    Unary,
)

_SMALL = 2**51
"""A count that is not exactly a double is far above every number up to this."""


def aggregate_of(query: Query, node: Expression) -> Aggregate | None:
    """The aggregate that a node of HAVING is, by itself or by its AS name."""
    value = having_value(query, node) if isinstance(node, Attribute) else node
    return value if isinstance(value, Aggregate) else None


def unbounded_aggregates(query: Query, node: Expression) -> list[Aggregate]:
    """The aggregates under a node whose values doubles may not represent exactly."""
    found = [aggregate_of(query, leaf) for leaf in walk(node)]
    big = (Function.COUNT, Function.SUM)
    return list(
        dict.fromkeys(
            a for a in found if a is not None and a.function in big and not a.log2 and not a.distinct
        )
    )


def is_decided_by_doubles(query: Query, kinds: Mapping[str, Kind] | None = None) -> bool:
    """Whether HAVING needs no digits that doubles lack.

    It does if it compares a count, or a sum of integers, with anything but a count with a small number, or
    computes something with them. What a sum of floats is part of is as exact as floats are. Without
    `kinds`, all values are assumed to be floats.
    """
    if query.having is None:
        return True
    return all(
        _is_decided(query, pair, kinds or {}) for part in walk(query.having) for pair in _compared(part)
    )


def _compared(part: Expression) -> list[tuple[Expression, ...]]:
    """What a condition compares, in pairs; IS NULL is about one value, which may be a quotient."""
    match part:
        case IsNull(operand) if not isinstance(operand, Attribute | Aggregate):
            return [(operand,)]
        case Compare(_, left, right):
            return [(left, right)]
        case In(operand, items):
            return [(operand, item) for item in items]
        case Between(operand, low, high):
            return [(operand, low), (operand, high)]
    return []


def _is_decided(query: Query, pair: tuple[Expression, ...], kinds: Mapping[str, Kind]) -> bool:
    found = [each for side in pair for each in unbounded_aggregates(query, side)]
    if not found or any(_is_float(each, kinds) for each in found):
        return True
    return any(_is_count(query, a) and _is_small(b) for a, b in permutations(pair, 2))


def _is_float(aggregate: Aggregate, kinds: Mapping[str, Kind]) -> bool:
    """Whether an aggregate is a sum of floats, of decimals, or of durations."""
    if aggregate.function is not Function.SUM:
        return False
    if aggregate.of is not None:
        return aggregate.of is OfTrend.DURATION
    return kinds.get(aggregate.attribute or "", Kind.FLOAT) in (Kind.FLOAT, Kind.NULL)


def _is_count(query: Query, node: Expression) -> bool:
    found = aggregate_of(query, node)
    return found is not None and found.function is Function.COUNT


def _is_small(node: Expression) -> bool:
    number = node.operand if isinstance(node, Unary) and node.op == "-" else node
    return (
        isinstance(number, Literal) and isinstance(number.value, int | float) and abs(number.value) <= _SMALL
    )
