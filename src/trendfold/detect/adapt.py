"""Adaptive plans: counts taken while joins run show when rates or selectivities have changed.

A batch counts the rows of every leaf and, per join, the pairs compared and those that fit. Replanning takes
time too, so it must be expected to save more than it takes: what has lasted for n rows is expected to last
for n more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.evaluate import JoinedBatch
from trendfold.detect.join_cost import price
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.one_pattern import best_tree
from trendfold.detect.pattern import JoinPattern, JoinTree
from trendfold.detect.plan_state import plan_state

FEW = 16
"""Added to both sides of a comparison, so that small counts that differ by chance are not a change."""


@dataclass(frozen=True)
class Replanned:
    """New plans of all patterns, and the cost of the old and of the new ones."""

    trees: tuple[JoinTree, ...]
    old_cost: float
    new_cost: float


Replanner = Callable[[Sequence[JoinPattern], JoinStatistics, Sequence[JoinTree]], Replanned]


Improver = Callable[[Sequence[JoinPattern], JoinStatistics, Sequence[JoinTree], float], tuple[JoinTree, ...]]
"""Searches around a plan for some seconds; returns a plan that costs no more."""


def replan(
    patterns: Sequence[JoinPattern], statistics: JoinStatistics, trees: Sequence[JoinTree]
) -> Replanned:
    """Every pattern's own best plan under new statistics; equal parts are shared.

    What else can be shared is searched for only where enough rows are ahead (`Adapting.improve`).
    """
    priced = [price(pattern, statistics) for pattern in patterns]
    walked = sum(each.walked for each in priced)
    state = plan_state(priced, trees)
    old = state.cost
    better = [(i, best_tree(each)) for i, each in enumerate(priced)]
    state.apply([(i, tree) for i, tree in better if tree != trees[i]])
    return Replanned(tuple(state.trees), old + walked, state.cost + walked)


@dataclass(frozen=True)
class Adapting:
    """When plans are changed."""

    looks_after: int = 1 << 15
    """Rates and selectivities are compared with earlier ones every so many rows."""
    drift: float = 2.0
    """Replanning is considered if one of them has changed by more than this factor, ..."""
    reluctance: float = 3.0
    """... and if the joins ahead are expected to take so many times as long as replanning."""
    worth: float = 1.1
    """A new plan is followed if the old one costs so many times as much."""
    replan: Replanner = replan
    improve: Improver | None = None
    """Searches for a cheaper plan than a new one, ..."""
    search_share: float = 0.05
    """... for such a share of the time that the joins ahead are expected to take."""


@dataclass
class StretchCounts:
    """The work of joins over a stretch of rows: its span, its time, and the counts of every slot."""

    made: NDArray[np.float64]
    looked: NDArray[np.float64]
    rows: int = 0
    span: float = 0.0
    seconds: float = 0.0

    def add(self, batch: JoinedBatch, span: float) -> None:
        """Count one more batch."""
        self.made += batch.made
        self.looked += batch.looked
        self.rows += batch.high - batch.low
        self.span += span
        self.seconds += batch.seconds


def no_counts(slots: int) -> StretchCounts:
    """The counts of no rows."""
    return StretchCounts(np.zeros(slots), np.zeros(slots))


def drift(now: StretchCounts, then: StretchCounts, leaves: int) -> float:
    """The largest factor by which a rate (of a leaf) or a selectivity (of a join) has changed."""
    expected = then.made.copy()
    expected[:leaves] *= now.span / max(then.span, 1.0)
    expected[leaves:] *= now.looked[leaves:] / np.maximum(then.looked[leaves:], 1.0)
    ratio = (now.made + FEW) / (expected + FEW)
    return float(max(ratio.max(initial=1.0), 1 / ratio.min(initial=1.0)))


@dataclass
class PlanWatch:
    """Compares the work of the current plan with what it was made for."""

    adapting: Adapting
    leaves: int
    expected: StretchCounts
    """The rates that the plan was made for, and the counts of joins in its first stretch."""
    now: StretchCounts
    """The latest stretch."""
    rows: int = 0
    """Rows since the plan was made."""
    first_pace: float = 0.0
    """Seconds per row in the first stretch."""

    @property
    def pace(self) -> float:
        """Seconds per row in the latest stretch."""
        return self.now.seconds / self.now.rows

    def add(self, batch: JoinedBatch, span: float) -> None:
        """Count one more batch."""
        if self.now.rows >= self.adapting.looks_after:
            self.now = no_counts(len(self.now.made))
        self.now.add(batch, span)
        self.rows += batch.high - batch.low
        if self.rows <= self.adapting.looks_after:
            self.first_pace = self.pace
            self.expected.made[self.leaves :] += batch.made[self.leaves :]
            self.expected.looked += batch.looked

    def ahead_s(self, rows_left: int) -> float:
        """How long joins are expected to run before the next change."""
        return min(self.rows, rows_left) * self.pace

    def calls_for_plan(self, planning_s: float, rows_left: int) -> bool:
        """Whether rates or selectivities have changed, and enough rows are ahead for replanning to pay."""
        if self.now.rows < self.adapting.looks_after:
            return False
        is_long = self.ahead_s(rows_left) > self.adapting.reluctance * planning_s
        return is_long and drift(self.now, self.expected, self.leaves) > self.adapting.drift


def watch_plan(adapting: Adapting, leaves: int, expected: StretchCounts) -> PlanWatch:
    """Begin to watch a plan."""
    return PlanWatch(adapting, leaves, expected, no_counts(len(expected.made)))
