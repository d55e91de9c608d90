"""A join plan for every pattern of a workload, and what makes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.multitree import Multitree, Planned
from trendfold.detect.pattern import JoinPattern, JoinTree


@dataclass(frozen=True)
class Workplan:
    """A plan for every pattern, and whether equal parts of them are computed once."""

    trees: tuple[JoinTree, ...]
    shares: bool = True
    tried: str = field(default="", compare=False)
    """What the search for it tried, as text."""

    def lay_out(self, patterns: Sequence[JoinPattern]) -> tuple[Multitree, list[Planned]]:
        """All plans in one multitree."""
        tree = Multitree(self.shares)
        pairs = zip(patterns, self.trees, strict=True)
        return tree, [tree.add(i, pattern, plan) for i, (pattern, plan) in enumerate(pairs)]


JoinPlanner = Callable[[Sequence[JoinPattern], JoinStatistics], Workplan]
"""Patterns and statistics in, a plan out. Never changes which matches are found, only the cost."""
