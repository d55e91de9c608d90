"""Statistics of rows: rates are counted, selectivities are estimated from sampled pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.evaluate import JoinInput
from trendfold.detect.join_statistics import JoinStatistics, LeafPair
from trendfold.detect.pattern import JoinPattern
from trendfold.detect.row_ranges import RowNumbers
from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import holds

SAMPLE = 2_000
"""How many events are paired with a random partner to estimate one selectivity."""


def measure_joins(
    patterns: Iterable[JoinPattern],
    joined: JoinInput,
    segment: NDArray[np.int64],
    seed: int = 0,
    rows: tuple[int, int] | None = None,
    sample: int = SAMPLE,
    known: Mapping[LeafPair, float] = MappingProxyType({}),
) -> JoinStatistics:
    """The statistics of the rows [rows[0], rows[1]), or of all rows; known selectivities are not measured."""
    low, high = rows or (0, len(joined.ranges.stamp))
    span, segments = covered_span(joined, segment, low, high)
    inside = [leaf[slice(*np.searchsorted(leaf, (low, high)))] for leaf in joined.leaves]
    found = JoinStatistics(tuple(len(leaf) / span for leaf in inside), span, segments)
    sampling = _Sampling(joined, inside, np.random.default_rng(seed), sample)
    for pattern in patterns:
        for (i, j), relation in pattern.relations.items():
            key = pattern.leaves[i], pattern.leaves[j], relation
            if key not in found.selectivity:
                is_known = key in known
                found.selectivity[key] = known[key] if is_known else sampling.selectivity(key, pattern.window)
    return found


def covered_span(joined: JoinInput, segment: NDArray[np.int64], low: int, high: int) -> tuple[float, int]:
    """The span of some rows (see JoinStatistics), and in how many segments they are."""
    inner = segment[np.searchsorted(segment, low, side="right") : np.searchsorted(segment, high)]
    bounds, stamp = np.unique(np.concatenate([[low], inner, [high]])), joined.ranges.stamp
    starts, ends = bounds[:-1], bounds[1:] - 1
    return max(float((stamp[ends] - stamp[starts]).sum()), 1.0), len(starts)


@dataclass(frozen=True)
class _Sampling:
    """Estimates selectivities from `sample` random pairs of rows each."""

    joined: JoinInput
    leaves: Sequence[RowNumbers]
    rng: np.random.Generator
    sample: int

    def selectivity(self, key: LeafPair, window: int | None) -> float:
        """The share of sampled pairs for which the conditions hold; at least one pair is taken to."""
        a, b, relation = key
        first, second = self.leaves[a], self.leaves[b]
        if not (relation.asked or relation.guards) or not len(first) or not len(second):
            return 1.0
        asked, guards = (
            np.array([(number, back) for number, back in some], np.int32).reshape(-1, 2)
            for some in (relation.asked, relation.guards)
        )
        joined, reach = self.joined, self.joined.reaches.of(window)
        chosen = self.rng.integers(len(first), size=self.sample)
        fits, pairs = sample_pairs(
            first[chosen], second, self.rng.random(self.sample), relation.order, asked, guards,
            joined.ranges, reach.low, reach.high, joined.pairs, joined.latest,
        )  # fmt: skip
        return float(max(fits, 1.0) / max(pairs, 1.0)) if pairs else 1.0


@kernel
def sample_pairs(first, second, draw, order, asked, guards, ranges, low, high, pairs, latest):
    """Pair each row of `first` with one row of `second` in its window: how many pairs fit, of how many.

    Every pair counts for all rows of `second` that were in the window.

    first, second  int32[]     rows of the two leaves, in order; `first` may repeat rows
    draw           float64[]   per row of `first`, which partner is drawn: 0 is the first, 1 the last
    order                      see Relation
    asked, guards  int32[, 2]  (number, whether `second` is the left side)
    low, high      int32[n]    the reach of the window
    """
    fits, total = 0.0, 0.0
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    for k in range(first.shape[0]):
        x = first[k]
        floor = ranges.after[x] if order > 0 else low[x]
        ceiling = ranges.first[x] if order < 0 else high[x]
        a, b = np.searchsorted(second, floor), np.searchsorted(second, ceiling)
        if a >= b:
            continue
        y = second[a + int(draw[k] * (b - a))]
        total += b - a
        if _pair_fits(x, y, asked, guards, ranges, pairs, latest, stacks):
            fits += b - a
    return fits, total


@kernel
def _pair_fits(x, y, asked, guards, ranges, pairs, latest, stacks):
    """Whether the conditions between rows x and y hold and no NOT between them is broken."""
    if x == y:
        return False
    for c in range(asked.shape[0]):
        left, right = (x, y) if asked[c, 1] == 0 else (y, x)
        if not holds(pairs, asked[c, 0], left, right, stacks[0], stacks[1], stacks[2]):
            return False
    for g in range(guards.shape[0]):
        left, right = (x, y) if guards[g, 1] == 0 else (y, x)
        if latest[guards[g, 0], ranges.moment[right] - 1] > ranges.moment[left]:
            return False
    return True
