"""The cost of each way to fold, in nanoseconds measured on the kernels. Only the ratios matter.

`trendfold bench windows`, `neighbour` and `sharing` check that the ratios still hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log2

from trendfold.plan.overlap import MatrixShape, Overlap
from trendfold.plan.statistics import PaneStatistics, Work

NEVER = 1 << 62
"""More rows than any input has."""


# ---------------------------------------------------------------- queries in lanes


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of kernel.machine_lanes, measured on one machine.

    event      fixed cost of an event or a burst
    operation  fixed cost of a block of lanes
    vector     updating eight lanes of one row
    next       one more event of a burst
    detect     finding where a burst ends
    alone      an event of one query, folded by itself
    window     opening and closing a window of one query
    stretch    folding a stretch between window edges into matrices, and multiplying it into a window
    copy       copying a row for a value of GROUP BY T.g
    moved      an event of one query with windows per event, which share stretches
    slot_event an event of one query with group values as slots, folded by itself
    """

    event: float = 6.0
    operation: float = 4.0
    vector: float = 2.0
    next: float = 1.0
    detect: float = 6.0
    alone: float = 10.0
    window: float = 1_000.0
    stretch: float = 100.0
    copy: float = 20.0
    moved: float = 250.0
    slot_event: float = 40.0

    def apply(self, vectors: int, operations: int) -> float:
        """The cost of one event, or of a burst, which is applied as one event."""
        return self.event + self.operation * operations + self.vector * vectors

    def pays_in_bursts(self, burst: float, vectors: int) -> bool:
        """Whether events are better applied in bursts than one by one, given the mean length of a burst."""
        return (burst - 1) * (self.event + self.vector * vectors) > self.detect

    def pays_alone(self, burst: float, vectors: int, windows: float) -> bool:
        """Whether lanes are cheaper for a single query whose events come in bursts of this length.

        Detecting bursts costs about as much again as applying them. `windows` are the windows per event.
        """
        applied = 2 * self.apply(vectors, 1) + (burst - 1) * self.next
        return applied + burst * windows * self.window < burst * self.alone


DEFAULT_COSTS = Costs()

WORTH_NS = 0.25e9
"""Searching for a shared plan takes time, so it is skipped if lanes are expected to take less than this."""


def may_be_worth_sharing(rows: int, lanes: int, costs: Costs) -> bool:
    """Whether lanes may be slow enough to search for a shared plan; a quick bound on `lanes_ns`."""
    return rows * lanes / 8 * costs.vector >= WORTH_NS


def lanes_ns(work: Iterable[Work], costs: Costs) -> float:
    """All queries of a group in lanes: a burst is applied as one event, and detected event by event."""
    return sum(
        each.bursts * costs.apply(each.vectors, each.operations) + (each.events - each.bursts) * costs.next
        for each in work
    )


def panes_ns(panes: PaneStatistics, vectors: float, costs: Costs) -> float:
    """Stretches saved as matrices of so many vectors, and multiplied into every window that they lie in."""
    return (panes.stretches + panes.multiplied) * (costs.stretch + costs.vector * vectors)


# ---------------------------------------------------------------- overlapping windows: products of stretches

_WINDOW_NS = 150
"""Fixed cost of a window folded separately."""
_MEETING_NS = 200
"""Fixed cost of a window computed as a product."""
_FRONT_NS = 1_000
"""Fixed cost of a new front stack."""


def long_stretch(shape: MatrixShape) -> int:
    """The least number of rows for which a stretch is worth a matrix."""
    saved = _short_row_ns(shape) - _long_row_ns(shape)
    return int(_product_ns(shape) / saved) + 1 if saved > 0 else NEVER


def products_ns(overlap: Overlap, shape: MatrixShape) -> float:
    """Overlapping windows share stretches (two stacks); the front stack is rebuilt about once per window."""
    rows = overlap.long_rows + overlap.short_rows
    fronts = rows * overlap.windows / overlap.window_rows
    return (
        overlap.windows * _MEETING_NS
        + fronts * _FRONT_NS
        + overlap.long * _product_ns(shape)
        + overlap.long_rows * _long_row_ns(shape)
        + overlap.short_rows * _short_row_ns(shape)
    )


def vectors_ns(overlap: Overlap, shape: MatrixShape) -> float:
    """The same windows, each folded separately."""
    return overlap.windows * _WINDOW_NS + overlap.window_rows * _row_ns(shape)


def _row_ns(shape: MatrixShape) -> float:
    """Fold a row once; a row that may change the class of a NOT takes the slow path."""
    if shape.is_guarded:
        return 350
    return 6 if shape.is_count else 15 + 5 * shape.entry


def _long_row_ns(shape: MatrixShape) -> float:
    """Fold a row into a matrix: all start states at once, as lanes."""
    if shape.folds_counts:
        return 9 * -(-shape.starts // 4)
    return (4 + 9 * shape.entry) * (1 + 0.2 * (shape.starts // 8))


def _short_row_ns(shape: MatrixShape) -> float:
    """Multiply a row into both stacks."""
    return 100 + 9 * (shape.states - 1) * shape.entry + 450 * shape.is_guarded


def _product_ns(shape: MatrixShape) -> float:
    """Multiply a matrix into both stacks."""
    return 400 + 18 * shape.starts * (shape.states - 1) ** 2 * shape.entry


# ---------------------------------------------------------------- overlapping windows of compared bindings

_NEAR_BYTES = 1 << 19


def bindings_ns(window_rows: int, entry: int, is_next: bool) -> float:
    """Windows one by one, where neighbours are compared: a row is processed in each of its windows."""
    return window_rows * (120 + 80 * entry if is_next else 100 * entry)


def batches_ns(passed: int, window_rows: int, windows: int, entry: int, size: int, is_next: bool) -> float:
    """The same in batches of windows: a row is processed once per batch, and updates all windows of it.

    Under *next* a row scans a few bindings; otherwise it walks a path of tree nodes, and the larger the
    batch, the more of them miss the cache. Every window of a batch is cleared first, open or not.

    passed  total rows of all batches
    size    bytes of the largest batch
    """
    far = log2(1 + size / _NEAR_BYTES)
    row = 450 + 35 * far * entry if is_next else 130 + 10 * far**2 * entry
    return passed * (row + windows * entry) + window_rows * entry * 2
