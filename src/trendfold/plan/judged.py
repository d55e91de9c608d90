"""HAVING conditions that doubles decide, however large aggregates are; it compares true values (spec 9)."""

from __future__ import annotations

from trendfold.query.names import having_value, walk
from trendfold.query.nodes import (
    Aggregate,
    Attribute,
    Between,
    Binary,
    Compare,
    Expression,
    Function,
    In,
    Literal,
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


def is_decided_by_doubles(query: Query) -> bool:
    """Whether HAVING compares counts with small numbers only, and computes nothing with counts and sums."""
    return query.having is None or all(_is_decided(query, part) for part in walk(query.having))


def _is_decided(query: Query, part: Expression) -> bool:
    match part:
        case Compare(_, left, right):
            return _is_small_comparison(query, left, right)
        case In(operand, items):
            return all(_is_small_comparison(query, operand, item) for item in items)
        case Between(operand, low, high):
            return all(_is_small_comparison(query, operand, bound) for bound in (low, high))
        case Binary() | Unary("-" | "ABS"):
            return not unbounded_aggregates(query, part)
    return True


def _is_small_comparison(query: Query, left: Expression, right: Expression) -> bool:
    if not unbounded_aggregates(query, left) and not unbounded_aggregates(query, right):
        return True
    return any(_is_count(query, a) and _is_small(b) for a, b in ((left, right), (right, left)))


def _is_count(query: Query, node: Expression) -> bool:
    found = aggregate_of(query, node)
    return found is not None and found.function is Function.COUNT


def _is_small(node: Expression) -> bool:
    number = node.operand if isinstance(node, Unary) and node.op == "-" else node
    return (
        isinstance(number, Literal) and isinstance(number.value, int | float) and abs(number.value) <= _SMALL
    )
