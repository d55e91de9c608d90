"""Plans that follow the stream: what is counted while joins run, and when another plan pays.

Rates and selectivities are counted on the way: a batch knows the rows of every leaf, and per join the pairs
that it looked at and those that held. Planning takes time that joins could have used, so it must promise to
save more: what lasted for so many rows is expected to last for as many again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.cost import Priced
from trendfold.detect.evaluate import Batch
from trendfold.detect.local import best_tree
from trendfold.detect.pattern import JoinPattern, Tree
from trendfold.detect.search import PlanState
from trendfold.detect.statistics import Statistics

FEW = 16
"""Rows of a leaf, or partial matches of a join, that may be there by chance."""


@dataclass(frozen=True)
class Mended:
    """New plans of all patterns, and what they and the old ones cost."""

    trees: tuple[Tree, ...]
    old_cost: float
    new_cost: float


Mend = Callable[[Sequence[JoinPattern], Statistics, Sequence[Tree]], Mended]


def mend(patterns: Sequence[JoinPattern], statistics: Statistics, trees: Sequence[Tree]) -> Mended:
    """Every pattern's own best plan under new statistics; what is the same in several is still shared.

    Nothing is searched for: that would take longer than most stretches of a stream do.
    """
    priced = [Priced(pattern, statistics) for pattern in patterns]
    walked = sum(each.walked for each in priced)
    state = PlanState(priced, list(trees))
    old = state.cost
    better = [(i, best_tree(each)) for i, each in enumerate(priced)]
    state.apply([(i, tree) for i, tree in better if tree != trees[i]])
    return Mended(tuple(state.trees), old + walked, state.cost + walked)


@dataclass(frozen=True)
class Adapting:
    """When plans may change."""

    looks_after: int = 1 << 15
    """Rows after which rates and selectivities are compared with those before."""
    drift: float = 2.0
    """A new plan is made where one has changed by more than this factor, ..."""
    reluctance: float = 3.0
    """... if joins take that many times as long, as far ahead as can be seen, as planning does."""
    worth: float = 1.1
    """It is followed if it is that much cheaper."""
    mend: Mend = mend


@dataclass
class Stretch:
    """What joins did over some rows: places covered, seconds, and per slot what was made and looked at."""

    made: NDArray[np.float64]
    looked: NDArray[np.float64]
    rows: int = 0
    span: float = 0.0
    seconds: float = 0.0

    def add(self, batch: Batch, span: float) -> None:
        """One more batch."""
        self.made += batch.made
        self.looked += batch.looked
        self.rows += batch.high - batch.low
        self.span += span
        self.seconds += batch.seconds


def drift(now: Stretch, then: Stretch, leaves: int) -> float:
    """By which factor a rate (of a leaf) or a selectivity (of a join) has changed most."""
    expected = then.made.copy()
    expected[:leaves] *= now.span / max(then.span, 1.0)
    expected[leaves:] *= now.looked[leaves:] / np.maximum(then.looked[leaves:], 1.0)
    ratio = (now.made + FEW) / (expected + FEW)
    return float(max(ratio.max(initial=1.0), 1 / ratio.min(initial=1.0)))


@dataclass
class Watch:
    """One plan under observation."""

    adapting: Adapting
    leaves: int
    slots: int
    expected: Stretch
    """What it was made for; from joins, what they did first."""
    now: Stretch = field(init=False)
    rows: int = 0
    """Rows since the plan was made."""
    first_pace: float = 0.0
    """Seconds per row, at first ..."""

    @property
    def pace(self) -> float:
        """... and now."""
        return self.now.seconds / self.now.rows

    def __post_init__(self) -> None:
        self.now = self._nothing()

    def _nothing(self) -> Stretch:
        return Stretch(np.zeros(self.slots), np.zeros(self.slots))

    def add(self, batch: Batch, span: float) -> None:
        """One more batch."""
        if self.now.rows >= self.adapting.looks_after:
            self.now = self._nothing()
        self.now.add(batch, span)
        self.rows += batch.high - batch.low
        if self.rows <= self.adapting.looks_after:
            self.first_pace = self.pace
            self.expected.made[self.leaves :] += batch.made[self.leaves :]
            self.expected.looked += batch.looked

    def calls_for_plan(self, planning_s: float, rows_left: int) -> bool:
        """Whether things have changed, and for so long that planning could pay."""
        if self.now.rows < self.adapting.looks_after:
            return False
        ahead = min(self.rows, rows_left) * self.pace
        is_long = ahead > self.adapting.reluctance * planning_s
        return is_long and drift(self.now, self.expected, self.leaves) > self.adapting.drift
