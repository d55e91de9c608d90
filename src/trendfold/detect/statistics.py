"""Arrival rates and selectivities (the paper's Stat), from the rows or a sample of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.evaluate import Material
from trendfold.detect.join import JoinProgram
from trendfold.detect.pattern import JoinPattern, Relation
from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import holds

PairKey = tuple[int, int, Relation]
"""Two leaves, and what must hold between them."""

SAMPLE = 2_000
"""Events whose partners are looked at for one selectivity."""


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
        """WITHIN in units of place."""
        return self.span / max(self.segments, 1) if length is None else float(length)

    def drift(self, other: Statistics) -> float:
        """How far two statistics are apart: the largest ratio of rates, or of selectivities."""
        pairs = [*zip(self.rates, other.rates, strict=True)]
        pairs += [(value, other.selectivity.get(key, value)) for key, value in self.selectivity.items()]
        floor = 1e-3 * max((*self.rates, *other.rates, 1e-12))
        ratios = [(max(a, floor) / max(b, floor)) for a, b in pairs]
        return max((max(ratio, 1 / ratio) for ratio in ratios), default=1.0)


def measure(
    patterns: Iterable[JoinPattern],
    material: Material,
    segment: NDArray[np.int64],
    seed: int = 0,
    rows: tuple[int, int] | None = None,
) -> Statistics:
    """Statistics of some rows: rates are counted, selectivities sampled. By default of all rows."""
    space = material.space
    low, high = rows or (0, len(space.place))
    bounds = np.unique(np.clip(segment, low, high))
    span = sum(float(space.place[b - 1] - space.place[a]) for a, b in pairwise(bounds))
    span = max(span, 1.0)
    inside = [leaf[np.searchsorted(leaf, low) : np.searchsorted(leaf, high)] for leaf in material.leaves]
    rates = tuple(len(leaf) / span for leaf in inside)
    found = Statistics(rates, span, len(bounds) - 1)
    rng = np.random.default_rng(seed)
    for pattern in patterns:
        for (i, j), relation in pattern.relations.items():
            key = pattern.leaves[i], pattern.leaves[j], relation
            if key not in found.selectivity:
                found.selectivity[key] = _selectivity(key, inside, material, pattern.window, rng)
    return found


def _selectivity(
    key: PairKey,
    leaves: Sequence[NDArray[np.int32]],
    material: Material,
    window: int | None,
    rng: np.random.Generator,
) -> float:
    """The share of sampled pairs that fit; one in their number where none does."""
    a, b, relation = key
    first, second = leaves[a], leaves[b]
    if not (relation.asked or relation.guards) or not len(first) or not len(second):
        return 1.0
    asked = np.array([(c, *((1, 0) if back else (0, 1))) for c, back in relation.asked], np.int32)
    guards = np.array([(g, *((1, 0) if back else (0, 1))) for g, back in relation.guards], np.int32)
    nothing = np.zeros(0, np.int32)
    program = JoinProgram(
        0, nothing, nothing, np.zeros((0, 2), np.int32), np.zeros((0, 2), np.int32),
        asked.reshape(-1, 3), guards.reshape(-1, 3),
    )  # fmt: skip
    reach = material.reach(window)
    chosen = rng.integers(len(first), size=SAMPLE)
    fits, pairs = sample_pairs(
        first[chosen], second, rng.random(SAMPLE), relation.order, program, material.space, reach.low,
        reach.high, material.pairs, material.latest,
    )  # fmt: skip
    return float(max(fits, 1.0) / max(pairs, 1.0)) if pairs else 1.0


@kernel
def sample_pairs(first, second, draw, order, program, space, low, high, pairs, latest):
    """For each row of `first` one partner of `second` in its window: how many fit, of how many there are."""
    fits, total = 0.0, 0.0
    stack_f, stack_i, stack_n = (
        np.empty(pairs.depth),
        np.empty(pairs.depth, np.int64),
        np.empty(pairs.depth, np.int8),
    )
    for k in range(first.shape[0]):
        x = first[k]
        floor = space.after[x] if order > 0 else low[x]
        ceiling = space.first[x] if order < 0 else high[x]
        a, b = np.searchsorted(second, floor), np.searchsorted(second, ceiling)
        if a >= b:
            continue
        y = second[a + int(draw[k] * (b - a))]
        total += b - a
        ok = x != y
        for c in range(program.asked.shape[0]):
            left, right = (x, y) if program.asked[c, 1] == 0 else (y, x)
            ok = ok and holds(pairs, program.asked[c, 0], left, right, stack_f, stack_i, stack_n)
        for g in range(program.guards.shape[0]):
            left, right = (x, y) if program.guards[g, 1] == 0 else (y, x)
            ok = ok and latest[program.guards[g, 0], space.moment[right] - 1] <= space.moment[left]
        if ok:
            fits += b - a
    return fits, total
