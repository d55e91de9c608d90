"""What plans cost: the expected number of partial matches (MCEP, section 3.3 and appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.pattern import JoinPattern, Tree
from trendfold.detect.statistics import Statistics

LOOK = 0.2
"""What a pair costs that a join looks at, of what a partial match costs that it makes: measured on `join`.

With 0 costs are the paper's: it counts partial matches, and lets whoever finds them look at nothing else.
"""

MOST_SUBSETS = 60.0
"""Past 2^60 sub-sequences it does not matter how many more there are."""


class Terms(NamedTuple):
    """What C(S) is made of, as a kernel reads it.

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
class Priced:
    """One pattern under statistics: how many partial matches any set of its elements has at a time.

        C(S) = Π W r_i · Π sel_ij · order(S)        over i, j in S

    The paper counts an order as one more condition. Conditions of order depend on each other, so `order` is
    the share of arrangements of S in which every element comes after all that it must: Π 1 / (1 + number of
    elements of S before it), which is exact for a SEQ and for sequences beside each other.
    """

    pattern: JoinPattern
    statistics: Statistics
    look: float = LOOK
    _cost: dict[int, float] = field(default_factory=dict)
    _ordered: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pattern, count = self.pattern, len(self.pattern.leaves)
        self.window = self.statistics.window(pattern.window)
        self.weight = [max(self.window * self.statistics.rates[leaf], 1e-9) for leaf in pattern.leaves]
        self.before = [
            sum(1 << j for j in range(count) if j != i and pattern.relation(j, i).order > 0)
            for i in range(count)
        ]
        known = self.statistics.selectivity
        self.sel = [[1.0] * count for _ in range(count)]
        for (i, j), relation in pattern.relations.items():
            value = known.get((pattern.leaves[i], pattern.leaves[j], relation), 1.0)
            self.sel[i][j] = self.sel[j][i] = value

    @cached_property
    def terms(self) -> Terms:
        """All of it, for a kernel."""
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
        """order(S): the share of arrangements that are in order."""
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
        """The matches of patterns with `E+`: C of all elements, with 2^(W r) - 1 for each W r of an `E+`.

        Whatever `E+` precedes in an order is multiplied by that, so its cheapest place is the last: only its
        first event is joined, with a weight like others, and the rest is walked behind the root. Hence no
        plan of a pattern changes this part of its cost; it tells how much of the work planning can save.
        """
        if not self.pattern.kleene:
            return 0.0
        found = self.cost((1 << len(self.weight)) - 1)
        for i in self.pattern.kleene:
            found *= subsets(self.weight[i]) / self.weight[i]
        return found

    def join(self, left: int, right: int) -> float:
        """What a join costs: the partial matches it makes, and the pairs in order that it looks at."""
        both = left | right
        made = self.cost(both)
        if not self.look:
            return made
        share = self.ordered(both) / (self.ordered(left) * self.ordered(right))
        return made + self.look * self.cost(left) * self.cost(right) * share


@dataclass
class PricedPart:
    """Some elements of a pattern, priced as a pattern of their own."""

    priced: Priced
    elements: Sequence[int]

    def __post_init__(self) -> None:
        self.weight = [self.priced.weight[i] for i in self.elements]

    @property
    def terms(self) -> Terms:
        """What a kernel reads of these elements."""
        whole, own = self.priced.terms, np.array(self.elements)
        before = [
            sum(1 << k for k, e in enumerate(self.elements) if self.priced.before[i] >> e & 1)
            for i in self.elements
        ]
        sel = whole.sel[np.ix_(own, own)]
        return Terms(whole.weight[own], sel, np.array(before, np.int64), whole.look)

    def join(self, left: int, right: int) -> float:
        """What a join of two sets of elements costs."""
        return self.priced.join(self._of(left), self._of(right))

    def _of(self, elements: int) -> int:
        return sum(1 << e for i, e in enumerate(self.elements) if elements >> i & 1)


def order_cost(priced: Priced, order: tuple[int, ...]) -> float:
    """Cost_ord: the partial matches of every prefix of an order, and what is walked behind the last."""
    total, prefix = priced.walked, 0
    for element in order:
        prefix |= 1 << element
        total += priced.cost(prefix)
    return total


def tree_cost(priced: Priced, tree: Tree) -> float:
    """Cost_tree: the partial matches of every node, leaves too, and what is walked behind the root."""

    def visit(node: Tree) -> tuple[int, float]:
        if isinstance(node, int):
            return 1 << node, priced.cost(1 << node)
        (a, left), (b, right) = visit(node[0]), visit(node[1])
        return a | b, left + right + priced.cost(a | b)

    return visit(tree)[1] + priced.walked


def subsets(weight: float) -> float:
    """The sub-sequences of W r events that `E+` can be: 2^(W r) - 1."""
    return float(2.0 ** min(weight, MOST_SUBSETS) - 1.0)
