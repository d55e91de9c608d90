"""Bounds on the time between neighbours, as numbers: then bindings expire in the order they were made."""

from __future__ import annotations

from dataclasses import dataclass

from trendfold.automaton.gaps import terms
from trendfold.plan.neighbour import Access, Comparison
from trendfold.query.nodes import EVENT_TIME, Attribute, Duration, Expression, Literal

FOREVER = 2**62
"""More microseconds than lie between any two events."""


@dataclass(frozen=True, slots=True)
class Gap:
    """`least <= TIME(NEXT) - TIME <= most`, in microseconds."""

    least: int = -FOREVER
    most: int = FOREVER


def gap_of(access: Access) -> Gap | None:
    """The bounds on the time from a binding to the event after it; None if more is asked than that."""
    if access.guard is not None or access.equal or access.first_if or access.second_if:
        return None
    found = [_one_bound(comparison) for comparison in access.ordered]
    known = [gap for gap in found if gap is not None]
    if not known or len(known) < len(found):
        return None
    return Gap(max(gap.least for gap in known), min(gap.most for gap in known))


def _one_bound(comparison: Comparison) -> Gap | None:
    """`TIME op TIME(NEXT) + later` as a gap."""
    later = _added(comparison.second)
    if comparison.first != Attribute(None, EVENT_TIME) or later is None:
        return None
    bounds = {">=": Gap(most=-later), ">": Gap(most=-later - 1), "<=": Gap(-later), "<": Gap(1 - later)}
    return bounds.get(comparison.op)


def _added(second: Expression) -> int | None:
    """The microseconds that are added to TIME(NEXT); None if anything else is."""
    times, later = 0, 0
    for is_added, term in terms(second):
        match term:
            case Literal(value=Duration(micros)):
                later += micros if is_added else -micros
            case Attribute(None, name, True) if name == EVENT_TIME and is_added:
                times += 1
            case _:
                return None
    return later if times == 1 else None
