"""Build every trend, then aggregate: for cross predicates, and as a baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel import construct
from trendfold.kernel.lower import SEMANTICS, lower_paths
from trendfold.kernel.program import Events, Folded, Pairs, Paths
from trendfold.plan.physical import Trends
from trendfold.runtime.compared import compared_rows, latest_of, pairs_of
from trendfold.runtime.folds.operand import OperandRows
from trendfold.runtime.windows import Items


@dataclass(frozen=True, slots=True)
class TrendsToBuild:
    """The events of an operand, its pattern as a graph to walk, and what is compared on the way."""

    events: Events
    paths: Paths
    pairs: Pairs
    latest: NDArray[np.int32]
    semantics: int

    def build(self, items: Items, limit: int, out: Folded) -> int:
        """Add the trends of every item to `out`; returns how many were begun, at most limit + 1."""
        tables = self.paths, self.pairs, self.latest, self.semantics, limit, out
        if items.spans is None:
            return int(construct.build_windows(self.events, items.low, items.high, *tables))
        if not len(items.low):
            return 0
        moment, spans = self.events.moment, items.spans
        to = np.full(int(moment[-1]) + 1, -1)
        to[moment[items.high - 1]] = np.arange(len(items.high))
        begins = np.flatnonzero(np.diff(items.segment, prepend=-1))  # the first item of each segment
        ends = np.append(begins[1:], len(items.high)) - 1
        bounds = items.low[begins], items.high[ends], spans.since, spans.before, to[moment]
        return int(construct.build_bounded(self.events, *bounds, *tables))


_BINDING_BYTES = 16
"""Approximate bytes of one binding of the trend under construction."""


def fold(here: OperandRows, way: Trends, material: None) -> tuple[Folded, int]:
    """The aggregates of every window, and the bytes of the longest trend under construction."""
    machine, out, items = here.operand.machine, here.nothing(), here.items
    pairs = pairs_of(compared_rows(here.plan, here.number, here.rows, here.events.moment, here.batch))
    latest = latest_of(here.plan, here.number, here.rows, here.events, pairs, here.limits)
    paths = lower_paths(machine, here.alphabet, here.operand.carried)
    trends = TrendsToBuild(here.events, paths, pairs, latest, SEMANTICS[machine.semantics])
    built = trends.build(items, here.limits.trends, out)
    here.limits.check_trends(here.plan.query.name, built)
    return out, _BINDING_BYTES * int((items.high - items.low).max(initial=0))
