"""Statistics of rows: rates are counted, selectivities are those of sampled pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.evaluate import Material
from trendfold.detect.pattern import JoinPattern
from trendfold.detect.statistics import PairKey, Statistics
from trendfold.kernel.jit import kernel
from trendfold.kernel.pairs import holds

SAMPLE = 2_000
"""Events whose partners are looked at for one selectivity."""


def measure(
    patterns: Iterable[JoinPattern],
    material: Material,
    segment: NDArray[np.int64],
    seed: int = 0,
    rows: tuple[int, int] | None = None,
    sample: int = SAMPLE,
) -> Statistics:
    """Statistics of some rows: rates are counted, selectivities sampled. By default of all rows."""
    low, high = rows or (0, len(material.space.place))
    span, segments = covered(material, segment, low, high)
    inside = [leaf[slice(*np.searchsorted(leaf, (low, high)))] for leaf in material.leaves]
    found = Statistics(tuple(len(leaf) / span for leaf in inside), span, segments)
    rng = np.random.default_rng(seed)
    for pattern in patterns:
        for (i, j), relation in pattern.relations.items():
            key = pattern.leaves[i], pattern.leaves[j], relation
            if key not in found.selectivity:
                found.selectivity[key] = _selectivity(key, inside, material, pattern.window, rng, sample)
    return found


def covered(material: Material, segment: NDArray[np.int64], low: int, high: int) -> tuple[float, int]:
    """The places that some rows cover, and in how many segments."""
    inner = segment[np.searchsorted(segment, low, side="right") : np.searchsorted(segment, high)]
    bounds, place = np.unique(np.concatenate([[low], inner, [high]])), material.space.place
    starts, ends = bounds[:-1], bounds[1:] - 1
    return max(float((place[ends] - place[starts]).sum()), 1.0), len(starts)


def _selectivity(
    key: PairKey,
    leaves: Sequence[NDArray[np.int32]],
    material: Material,
    window: int | None,
    rng: np.random.Generator,
    sample: int,
) -> float:
    """The share of sampled pairs that fit; one in their number where none does."""
    a, b, relation = key
    first, second = leaves[a], leaves[b]
    if not (relation.asked or relation.guards) or not len(first) or not len(second):
        return 1.0
    asked, guards = (
        np.array([(number, back) for number, back in some], np.int32).reshape(-1, 2)
        for some in (relation.asked, relation.guards)
    )
    reach = material.reaches.of(window)
    chosen = rng.integers(len(first), size=sample)
    fits, pairs = sample_pairs(
        first[chosen], second, rng.random(sample), relation.order, asked, guards, material.space, reach.low,
        reach.high, material.pairs, material.latest,
    )  # fmt: skip
    return float(max(fits, 1.0) / max(pairs, 1.0)) if pairs else 1.0


@kernel
def sample_pairs(first, second, draw, order, asked, guards, space, low, high, pairs, latest):
    """For each row of `first` one partner of `second` in its window: how many fit, of how many there are.

    asked, guards  int32[, 2]  (number, whether `second` is its left side)
    """
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
        for c in range(asked.shape[0]):
            left, right = (x, y) if asked[c, 1] == 0 else (y, x)
            ok = ok and holds(pairs, asked[c, 0], left, right, stack_f, stack_i, stack_n)
        for g in range(guards.shape[0]):
            left, right = (x, y) if guards[g, 1] == 0 else (y, x)
            ok = ok and latest[guards[g, 0], space.moment[right] - 1] <= space.moment[left]
        if ok:
            fits += b - a
    return fits, total
