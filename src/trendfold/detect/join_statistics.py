"""Arrival rates and selectivities: the paper's Stat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trendfold.detect.pattern import JoinPattern, Relation

LeafPair = tuple[int, int, Relation]
"""Two leaves and the conditions between them."""


@dataclass(frozen=True)
class JoinStatistics:
    """How often the events of a leaf arrive, and how often the conditions between two leaves hold.

    rates         per leaf: rows per unit of the window's measure (time, or event numbers)
    span          the sum over all segments of the time (or event numbers) from first to last row
    segments      how many segments there are; without WITHIN, a window is a segment
    selectivity   per pair: the share of pairs in one window and in order for which the conditions hold
    """

    rates: tuple[float, ...]
    span: float
    segments: int
    selectivity: dict[LeafPair, float] = field(default_factory=dict)

    def window(self, length: int | None) -> float:
        """The length of a window, at most that of an average segment."""
        segment = self.span / max(self.segments, 1)
        return segment if length is None else min(float(length), segment)


UNKNOWN_SELECTIVITY = 0.5
EVENTS_PER_WINDOW = 10.0
"""Assumed events of every leaf in the longest window, as long as there is no data."""


def assumed_statistics(patterns: Sequence[JoinPattern], leaves: int) -> JoinStatistics:
    """Statistics to plan with before there is data: equal rates, and conditions hold half of the time."""
    windows = [pattern.window for pattern in patterns if pattern.window is not None]
    span = float(max(windows, default=1))
    known = {
        (pattern.leaves[i], pattern.leaves[j], relation): _assumed_selectivity(relation)
        for pattern in patterns
        for (i, j), relation in pattern.relations.items()
    }
    return JoinStatistics((EVENTS_PER_WINDOW / span,) * leaves, span, 1, known)


def _assumed_selectivity(relation: Relation) -> float:
    return float(UNKNOWN_SELECTIVITY ** len(relation.asked + relation.guards))
