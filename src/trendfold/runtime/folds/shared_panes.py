"""Queries in lanes whose windows overlap share the stretches between window edges.

A stretch is folded once per start state, for all queries (lane_matrices); a window is the product of its
stretches (kernel.lane_panes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.lane_panes import multiply_panes
from trendfold.kernel.machine_lanes import LaneVectors, no_vectors, state_bytes
from trendfold.kernel.program import Folded, WindowStretches
from trendfold.plan.overlap import starts_of
from trendfold.plan.statistics import PaneStatistics
from trendfold.runtime.folds.by_products import cut_stretches
from trendfold.runtime.folds.in_machine_lanes import (
    LaneMaterial,
    LaneTrends,
    room_for_results,
    trends_by_lane,
    turned_by_lane,
)
from trendfold.runtime.folds.lane_matrices import StartSlots, StretchFolder, stretch_folder
from trendfold.runtime.windows import Items


def measure_panes(windows: Sequence[Items]) -> PaneStatistics | None:
    """How far the windows of a group overlap; None if they do not, or if queries have different windows."""
    if len(windows) != 1 or np.all(windows[0].high[:-1] <= windows[0].low[1:]):
        return None
    cut = cut_stretches(windows[0], long=1)
    return PaneStatistics(len(cut.low), int((cut.last - cut.first).sum()))


@dataclass(frozen=True)
class ReadySharedPanes:
    """Queries with the same windows, whose stretches are lowered: only the fold is left.

    cut     the stretches of each window
    counts  how many bursts the fold found, and how many were more than one event
    """

    folder: StretchFolder
    cut: WindowStretches
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The state of all lanes, and all matrices."""
        sizes = [block.sizes(len(self.cut.low)) for block in self.folder.blocks]
        return int(state_bytes(self.folder.program)) + sum(12 * numbers + 8 * x for numbers, x in sizes)

    def fold(self) -> tuple[Folded, ...]:
        """Per member the whole trends of its items."""
        found: dict[int, Folded] = {}
        for members, results, is_wide in self._results():
            found.update(zip(members, turned_by_lane(results, is_wide), strict=True))
        return tuple(found[k] for k in range(len(found)))

    def fold_trends(self, orders: Sequence[NDArray[Any]]) -> tuple[LaneTrends, ...]:
        """Per member the items that have a trend, in the given order of the only kind of window."""
        found: dict[int, LaneTrends] = {}
        for members, results, is_wide in self._results():
            found.update(zip(members, trends_by_lane(orders[0], results, is_wide), strict=True))
        return tuple(found[k] for k in range(len(found)))

    def _results(self) -> Iterator[tuple[list[int], LaneVectors, bool]]:
        """Block by block its members, [item, number, query], and whether that has exponents."""
        times = self.folder.steps.times
        if len(times):
            self.counts.update({"bursts": len(times), "shared bursts": int((times > 1).sum())})
        for slots, vectors in zip(self.folder.blocks, self.folder.fold_vectors(), strict=True):
            yield slots.block.members, *_multiplied(slots, vectors, self.cut)


def lower_panes(material: LaneMaterial, in_bursts: bool) -> ReadySharedPanes:
    """Lower the stretches of all windows; the rows of `material` can be lanes."""
    cut = cut_stretches(material.windows[0], long=1)
    given = material.members, material.rows.events, material.taken
    folder = stretch_folder(*given, cut.low, cut.high, in_bursts)
    assert folder is not None
    return ReadySharedPanes(folder, cut)


def _multiplied(slots: StartSlots, vectors: LaneVectors, cut: WindowStretches) -> tuple[LaneVectors, bool]:
    """The results of all windows of one block, and whether they have exponents."""
    shape, queries = slots.block.shape, len(slots.block.members)
    starts = [shape.number.get(shape.machine.states[s], -1) for s in starts_of(shape.machine)]
    passes = np.ones(len(shape.states), np.bool_)
    passes[[s for s in starts if s >= 0]] = False
    lanes = slots.block.slots.stride
    size = shape.carried.width, len(shape.carried.extremes), len(starts), lanes
    many, states = len(cut.low), len(shape.states)
    counts = vectors.mantissa.reshape(many, states, size[0], -1, lanes)[:, :, 0]
    pairs = [
        (slot, starts[slot], t)
        for t, slot in np.argwhere(counts.any(axis=(0, 3))).tolist()
        if starts[slot] >= 0
    ]
    window = [no_vectors(states * size[0] * lanes, states * size[1] * lanes) for _ in range(2)]
    out = room_for_results(len(cut.first) * size[0] * queries, len(cut.first) * size[1] * queries)
    is_wide = multiply_panes(
        cut.first,
        cut.last,
        np.array(pairs, np.int64).reshape(-1, 3),
        passes,
        shape.start,
        np.array(shape.whole, np.int64),
        vectors,
        size,
        _most(vectors, many, len(pairs)),
        (window[0], window[1]),
        out,
        queries,
        shape.carried.added,
    )
    m, e = (each.reshape(len(cut.first), size[0], queries) for each in out[:2])
    return LaneVectors(m, e, out.extreme.reshape(len(cut.first), size[1], queries)), bool(is_wide)


def _most(vectors: LaneVectors, many: int, pairs: int) -> NDArray[np.float64]:
    """How much each stretch may multiply mantissas by: inf if its matrix has exponents."""
    of_stretch = vectors.mantissa.reshape(many, -1)
    largest = np.maximum(of_stretch.max(axis=1, initial=0.0), -of_stretch.min(axis=1, initial=0.0))
    has_exponents = vectors.exponent.reshape(many, -1).any(axis=1)
    return np.where(has_exponents, np.inf, 1.0 + 2.0 * pairs * largest)
