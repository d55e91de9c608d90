"""The cost of a plan: the expected number of partial matches (MCEP, section 3.3 and appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.pattern import JoinPattern

LOOK = 0.2
"""The cost of comparing a pair of partial matches, relative to writing one; measured on `detect.join`.

With 0 the cost is the paper's, which counts partial matches only.
"""

MOST_SUBSETS = 60.0
"""The number of sub-sequences is cut off at 2^60: plans no longer differ beyond that."""


class Terms(NamedTuple):
    """The factors of C(S), as a kernel reads them.

    weight  float64[n]     W r_i
    sel     float64[n, n]  sel_ij
    before  int64[n]       per element, the bits of those that come before it
    look                   see LOOK
    """

    weight: NDArray[np.float64]
    sel: NDArray[np.float64]
    before: NDArray[np.int64]
    look: float


@dataclass
class PricedPattern:
    """One pattern under statistics: the expected partial matches in a window of any set S of its elements.

        C(S) = Π W r_i · Π sel_ij · order(S)        over i, j in S

    The paper counts an order as one more condition. Conditions of order depend on each other, so `order` is
    the share of arrangements of S in which every element comes after all that it must: Π 1 / (1 + number of
    elements of S before it), which is exact for a SEQ and for an AND of sequences.

    weight, sel, before, look  see Terms
    """

    pattern: JoinPattern
    statistics: JoinStatistics
    look: float
    window: float
    weight: Sequence[float]
    sel: Sequence[Sequence[float]]
    before: Sequence[int]
    _cost: dict[int, float] = field(default_factory=dict)
    _ordered: dict[int, float] = field(default_factory=dict)

    @cached_property
    def terms(self) -> Terms:
        """The factors for a kernel."""
        return Terms(np.array(self.weight), np.array(self.sel), np.array(self.before, np.int64), self.look)

    def cost(self, elements: int) -> float:
        """C(S) of the elements whose bits are set."""
        found = self._cost.get(elements)
        if found is None:
            inside = [i for i in range(len(self.weight)) if elements >> i & 1]
            found = self.ordered(elements)
            for n, i in enumerate(inside):
                found *= self.weight[i]
                for j in inside[:n]:
                    found *= self.sel[i][j]
            self._cost[elements] = found
        return found

    def ordered(self, elements: int) -> float:
        """order(S): the share of arrangements of S that are in order."""
        found = self._ordered.get(elements)
        if found is None:
            found = 1.0
            for i, before in enumerate(self.before):
                if elements >> i & 1:
                    found /= 1 + (before & elements).bit_count()
            self._ordered[elements] = found
        return found

    @cached_property
    def walked(self) -> float:
        """The matches of a pattern with `E+`: C of all elements, with 2^(W r) - 1 for each W r of an `E+`.

        An `E+` multiplies the cost of every join above it by that, so it is cheapest last: only its first
        event is joined, with the weight of a single event, and the others are walked above the root. So this
        part of the cost is the same for every plan of the pattern; it bounds what planning can save.
        """
        if not self.pattern.kleene:
            return 0.0
        found = self.cost((1 << len(self.weight)) - 1)
        for i in self.pattern.kleene:
            found *= subsets(self.weight[i]) / self.weight[i]
        return found

    def join(self, left: int, right: int) -> float:
        """The cost of a join: the partial matches it makes, and the pairs in order that it compares."""
        both = left | right
        made = self.cost(both)
        if not self.look:
            return made
        share = self.ordered(both) / (self.ordered(left) * self.ordered(right))
        return made + self.look * self.cost(left) * self.cost(right) * share


def price(pattern: JoinPattern, statistics: JoinStatistics, look: float = LOOK) -> PricedPattern:
    """A pattern with the factors of its cost under statistics."""
    window = statistics.window(pattern.window)
    weight = [max(window * statistics.rates[leaf], 1e-9) for leaf in pattern.leaves]
    return PricedPattern(
        pattern, statistics, look, window, weight, _selectivities(pattern, statistics), _before(pattern)
    )


def _selectivities(pattern: JoinPattern, statistics: JoinStatistics) -> list[list[float]]:
    count = len(pattern.leaves)
    found = [[1.0] * count for _ in range(count)]
    for (i, j), relation in pattern.relations.items():
        key = pattern.leaves[i], pattern.leaves[j], relation
        found[i][j] = found[j][i] = statistics.selectivity.get(key, 1.0)
    return found


def _before(pattern: JoinPattern) -> list[int]:
    """Per element, the bits of those that come before it."""
    every = range(len(pattern.leaves))
    return [sum(1 << j for j in every if j != i and pattern.relation(j, i).order > 0) for i in every]


@dataclass(frozen=True)
class PricedPart:
    """Some elements of a pattern, priced as if they were a pattern of their own."""

    priced: PricedPattern
    elements: Sequence[int]

    @cached_property
    def weight(self) -> list[float]:
        """The weight of each element."""
        return [self.priced.weight[i] for i in self.elements]

    @property
    def terms(self) -> Terms:
        """The factors for a kernel."""
        whole, own = self.priced.terms, np.array(self.elements)
        before = [
            sum(1 << k for k, e in enumerate(self.elements) if self.priced.before[i] >> e & 1)
            for i in self.elements
        ]
        sel = whole.sel[np.ix_(own, own)]
        return Terms(whole.weight[own], sel, np.array(before, np.int64), whole.look)

    def join(self, left: int, right: int) -> float:
        """The cost of joining two sets of elements."""
        return self.priced.join(self._in_pattern(left), self._in_pattern(right))

    def _in_pattern(self, elements: int) -> int:
        return sum(1 << e for i, e in enumerate(self.elements) if elements >> i & 1)


def subsets(weight: float) -> float:
    """The sub-sequences of W r events that can be an `E+`: 2^(W r) - 1."""
    return float(2.0 ** min(weight, MOST_SUBSETS) - 1.0)
