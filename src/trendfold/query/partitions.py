"""The attributes that partition the events of a query: `[a]`, and equalities that mean the same (spec 4)."""

from __future__ import annotations

from itertools import groupby

from trendfold.query.names import named, refs, sides, stands_for
from trendfold.query.nodes import EVENT_TIME, Attribute, Compare, Expression, Pattern, Query


def partition_attributes(query: Query) -> tuple[str, ...]:
    """The attributes that partition all events: `[a]`, or equalities equivalent to it."""
    return tuple(dict.fromkeys((*query.equivalence, *connecting_attributes(query))))


def connecting_attributes(query: Query) -> tuple[str, ...]:
    """The attributes u whose equalities `A.u = B.u` connect all positive positions."""
    equalities = [(u, c) for c in query.where if (u := equal_attribute(c)) is not None]
    if not equalities:
        return ()
    positive = {name for name, is_negated in sides(query.pattern).items() if True not in is_negated}
    equalities = [(u, c) for u, c in equalities if {name for name, _ in named(c)} <= positive]
    found = []
    for attribute, group in groupby(sorted(equalities, key=lambda e: e[0]), key=lambda e: e[0]):
        if _is_connected([conjunct for _, conjunct in group], query.pattern):
            found.append(attribute)
    return tuple(found)


def equal_attribute(conjunct: Expression) -> str | None:
    """u, for a conjunct `A.u = B.u` between two aliases without NEXT."""
    match conjunct:
        case Compare(
            op="=",
            left=Attribute(alias=a, name=u, is_next=False),
            right=Attribute(alias=b, name=v, is_next=False),
        ) if u == v and a != b and u != EVENT_TIME:
            return u
    return None


def _is_connected(equalities: list[Expression], pattern: Pattern) -> bool:
    """Whether the names in `equalities` link every positive occurrence to every other."""
    positive = [ref for ref, is_negated in refs(pattern) if not is_negated]
    components = [{i} for i in range(len(positive))]
    for conjunct in equalities:
        names = {name for name, _ in named(conjunct) if name}
        linked = {i for i, ref in enumerate(positive) if any(stands_for(ref, name) for name in names)}
        joined = set().union(linked, *(c for c in components if c & linked))
        components = [c for c in components if not c & linked] + [joined]
    return len(components) == 1
