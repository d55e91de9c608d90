"""What ways to fold cost, in nanoseconds measured on the kernels. Only the ratios matter.

`trendfold bench windows`, `neighbour` and `sharing` show whether they still hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log2

from trendfold.plan.overlap import MatrixShape, Overlap
from trendfold.plan.statistics import Work

NEVER = 1 << 62
"""More rows than there are."""


# ---------------------------------------------------------------- queries side by side


@dataclass(frozen=True, slots=True)
class Costs:
    """What kernel.together costs, measured on one machine.

    event      to take up an event, or a burst, whatever it does
    operation  to begin with one block of lanes
    vector     eight lanes of one row
    next       one more event of a burst
    alone      an event of one query in a loop of its own
    """

    event: float = 6.0
    operation: float = 4.0
    vector: float = 2.0
    next: float = 1.0
    alone: float = 10.0

    def apply(self, vectors: int, operations: int) -> float:
        """The cost of one event, or of a burst that acts as one."""
        return self.event + self.operation * operations + self.vector * vectors

    def pays_alone(self, burst: float, vectors: int) -> bool:
        """Whether a single query is cheaper as lanes, where events come in bursts of this length.

        Telling bursts apart costs about as much again as applying them.
        """
        return 2 * self.apply(vectors, 1) + (burst - 1) * self.next < burst * self.alone


DEFAULT_COSTS = Costs()

WORTH_NS = 0.25e9
"""Finding a shared plan takes a while: not where lanes are expected to take less than this."""


def may_be_worth_sharing(rows: int, lanes: int, costs: Costs) -> bool:
    """Whether lanes may take so long that a shared plan should be looked for; a quick bound on `lanes_ns`."""
    return rows * lanes / 8 * costs.vector >= WORTH_NS


def lanes_ns(work: Iterable[Work], costs: Costs) -> float:
    """All queries of a group side by side: a burst acts as one event, and is told apart event by event."""
    return sum(
        each.bursts * costs.apply(each.vectors, each.operations) + (each.events - each.bursts) * costs.next
        for each in work
    )


# ---------------------------------------------------------------- overlapping windows: products of stretches

_WINDOW_NS = 650
"""A window on its own, besides its rows."""
_MEETING_NS = 200
"""A window as a product, besides its stretches."""
_FRONT_NS = 1_000
"""A new front stack, besides its stretches."""


def long_stretch(shape: MatrixShape) -> int:
    """Rows from which on a stretch is worth a matrix of its own."""
    saved = _short_row_ns(shape) - _long_row_ns(shape)
    return int(_product_ns(shape) / saved) + 1 if saved > 0 else NEVER


def products_ns(overlap: Overlap, shape: MatrixShape) -> float:
    """Windows as products by two stacks; the front stack is rebuilt about once per window length."""
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
    """The same windows, each on its own."""
    return overlap.windows * _WINDOW_NS + overlap.window_rows * _row_ns(shape)


def _row_ns(shape: MatrixShape) -> float:
    """A row folded once; one that may change the class of a NOT takes the slow path."""
    if shape.is_guarded:
        return 350
    return 6 if shape.is_count else 15 + 5 * shape.entry


def _long_row_ns(shape: MatrixShape) -> float:
    """A row folded into a matrix, from every start state."""
    if shape.is_count and shape.is_any and not shape.is_guarded:
        return 9 * -(-shape.starts // 4)
    return (_row_ns(shape) + 2) * shape.starts


def _short_row_ns(shape: MatrixShape) -> float:
    """A row multiplied into both stacks."""
    return 100 + 9 * (shape.states - 1) * shape.entry + 450 * shape.is_guarded


def _product_ns(shape: MatrixShape) -> float:
    """A matrix multiplied into both stacks."""
    return 400 + 18 * shape.starts * (shape.states - 1) ** 2 * shape.entry


# ---------------------------------------------------------------- overlapping windows of compared bindings

_NEAR_BYTES = 1 << 19


def bindings_ns(window_rows: int, entry: int, is_next: bool) -> float:
    """Windows one by one, where neighbours are compared: every row in each of its windows."""
    return window_rows * (120 + 80 * entry if is_next else 100 * entry)


def batches_ns(passed: int, window_rows: int, windows: int, entry: int, size: int, is_next: bool) -> float:
    """The same in batches of so many windows: rows pass once per batch, and touch all windows of it.

    Under *next* a row looks at a few bindings one by one; otherwise it walks a path of tree nodes, more of
    which miss the cache the larger a batch is. Every window of a batch is cleared first, open or not.

    passed  rows of all batches together
    size    bytes of the largest batch
    """
    far = log2(1 + size / _NEAR_BYTES)
    row = 450 + 35 * far * entry if is_next else 130 + 10 * far**2 * entry
    return passed * (row + windows * entry) + window_rows * entry * 2
