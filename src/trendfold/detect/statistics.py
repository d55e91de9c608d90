"""Arrival rates and selectivities: the paper's Stat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trendfold.detect.pattern import JoinPattern, Relation

PairKey = tuple[int, int, Relation]
"""Two leaves, and what must hold between them."""


@dataclass(frozen=True)
class Statistics:
    """How often leaves occur, and how often what must hold between two of them does.

    rates         per leaf: rows per unit of place (time, or event numbers)
    span          places covered, over all segments; without WITHIN, a window is a segment
    selectivity   per pair: the share of pairs in a window, and in order, for which the rest holds
    """

    rates: tuple[float, ...]
    span: float
    segments: int
    selectivity: dict[PairKey, float] = field(default_factory=dict)

    def window(self, length: int | None) -> float:
        """WITHIN in units of place; no window reaches further than a segment."""
        whole = self.span / max(self.segments, 1)
        return whole if length is None else min(float(length), whole)


UNKNOWN = 0.5
"""The selectivity of a condition that was never asked."""
EACH = 10.0
"""Events of every leaf in the longest window, before any was seen."""


def assumed(patterns: Sequence[JoinPattern], leaves: int) -> Statistics:
    """Before any event was seen: all rates are equal, and conditions hold half of the time."""
    windows = [pattern.window for pattern in patterns if pattern.window is not None]
    span = float(max(windows, default=1))
    known = {
        (pattern.leaves[i], pattern.leaves[j], relation): UNKNOWN ** len(relation.asked + relation.guards)
        for pattern in patterns
        for (i, j), relation in pattern.relations.items()
    }
    return Statistics((EACH / span,) * leaves, span, 1, known)
