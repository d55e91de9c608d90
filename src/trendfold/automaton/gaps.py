"""Bounds on the time between two events, with all that is known of one event on one side.

`TIME(NEXT(B)) - TIME(A) <= 10 min` becomes `TIME(NEXT(B)) - 10 min <= TIME(A)`: a comparison of a value of
each event, whose bindings are found by value (plan/neighbour.py). Times are integers of microseconds, so
nothing is rounded and nothing overflows; conditions on other values stay as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from trendfold.query.names import children, walk, with_children
from trendfold.query.nodes import (
    EVENT_TIME,
    Attribute,
    Between,
    Binary,
    Compare,
    Expression,
    Logic,
)

_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_Term = tuple[bool, Expression]
"""Whether something is added, and what."""


def separated(condition: Expression) -> Expression:
    """A condition on two events, in which comparisons of times have one event on each side where they can."""
    match condition:
        case Between(operand, low, high, False) if _reads_times(operand):
            ends = Compare(">=", operand, low), Compare("<=", operand, high)
            return Logic("AND", tuple(map(separated, ends)))
        case Compare(op, left, right) if _reads_times(left) or _reads_times(right):
            summed = [*terms(left), *terms(right, is_added=False)]
            return _rearranged(op, summed) or condition
        case Logic():
            return with_children(condition, tuple(map(separated, children(condition))))
    return condition


def _reads_times(expression: Expression) -> bool:
    return any(isinstance(node, Attribute) and node.name == EVENT_TIME for node in walk(expression))


def terms(expression: Expression, *, is_added: bool = True) -> Iterator[tuple[bool, Expression]]:
    """The terms of a sum, and whether each is added or subtracted."""
    match expression:
        case Binary("+" | "-" as op, left, right):
            yield from terms(left, is_added=is_added)
            yield from terms(right, is_added=is_added == (op == "+"))
        case _:
            yield is_added, expression


def _rearranged(op: str, summed: list[_Term]) -> Expression | None:
    """`sum op 0` as a comparison of the second event's terms with the others; None if a term mixes both."""
    names = [_events(term) for _, term in summed]
    if any(len(found) == 2 for found in names):
        return None
    if {False} not in names or {True} not in names:
        return None
    # Constants stand beside the second event, so that a lower and an upper bound read one value of the first.
    first = [term for term, found in zip(summed, names, strict=True) if found == {False}]
    second = [term for term, found in zip(summed, names, strict=True) if found == {True}]
    second += [term for term, found in zip(summed, names, strict=True) if not found]
    if not second[0][0]:
        op, second, first = _MIRRORED[op], _turned(second), _turned(first)
    other = _turned(first)
    if not any(is_added for is_added, _ in other):
        return None
    return Compare(op, _sum(second), _sum(other))


def _events(term: Expression) -> set[bool]:
    """Whether a term reads the first event (False), the second (True), both, or none."""
    return {node.is_next for node in walk(term) if isinstance(node, Attribute)}


def _turned(summed: list[_Term]) -> list[_Term]:
    return [(not is_added, term) for is_added, term in summed]


def _sum(summed: list[_Term]) -> Expression:
    """The sum of terms; one that is added comes first."""
    ordered = sorted(summed, key=lambda term: not term[0])

    def plus(total: Expression, term: _Term) -> Expression:
        return Binary("+" if term[0] else "-", total, term[1])

    return reduce(plus, ordered[1:], ordered[0][1])
