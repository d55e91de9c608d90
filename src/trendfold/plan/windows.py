"""Windows that overlap: each on its own, products of the stretches between their edges, or lanes of one fold.

All ways give the same rows. Which one is cheaper depends on how far windows overlap and how many rows lie
between two edges, so it is decided when these are known, by costs in nanoseconds that were measured on the
kernels. Only their ratios matter; `trendfold bench windows` shows whether they still hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import log2

from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine
from trendfold.plan.carried import Carried
from trendfold.plan.neighbour import Access, Structure
from trendfold.query.nodes import Semantics, Window


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """The matrix of a stretch: rows, columns, and the numbers and extremes of an entry."""

    starts: int
    states: int
    width: int
    extremes: int
    is_count: bool = False
    """Whether counts are all there is, and an event changes one of them."""
    is_any: bool = False
    """Whether nothing is spent or forgotten: of counts, four rows are then folded at a time."""
    is_guarded: bool = False
    """Whether the events of a NOT move mass between classes."""

    @property
    def bytes(self) -> int:
        """What one matrix takes; a number is a mantissa of 8 bytes and an exponent of 4."""
        return self.starts * self.states * (12 * self.width + 8 * self.extremes)

    @property
    def entry(self) -> int:
        """Numbers and extremes of one entry."""
        return self.width + self.extremes


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much windows overlap: their rows, each in every window, and those of long and short stretches."""

    windows: int
    window_rows: int
    long: int
    long_rows: int
    short_rows: int


class Sharing(StrEnum):
    """What windows that overlap may share."""

    STACKS = "stacks"  # stretches between edges, multiplied by two stacks
    LANES = "lanes"  # one fold of many windows
    NOTHING = "each"


def sharing(window: Window | None, machine: Machine, accesses: tuple[Access, ...]) -> Sharing | None:
    """What the windows of an operand may share; None where they do not overlap.

    Without bindings kept one by one, a stretch of rows is a matrix. With them, windows can be lanes where a
    binding is one leaf of a tree or table that stays there, or leaves alone under *next*: not if a NOT judged
    by time drops bindings, nor if they are asked one by one, or are in nested trees.
    """
    if window is None or (window.slide is not None and window.slide >= window.length):
        return None
    if not machine.by_event:
        return Sharing.STACKS
    found = all(a.structure in (Structure.TABLE, Structure.TREE) and not a.is_online for a in accesses)
    is_judged = any(a.guard is not None for a in accesses) or machine.by_event & {START, END}
    return Sharing.LANES if accesses and found and not is_judged else Sharing.NOTHING


def shape_of(machine: Machine, carried: Carried) -> MatrixShape:
    """The shape of an operand's matrices; there is one more state, which is always empty."""
    automaton = machine.automaton
    return MatrixShape(
        starts=len(starts_of(machine)),
        states=len(machine.states) + 1,
        width=carried.width,
        extremes=len(carried.extremes),
        is_count=carried == Carried() and not automaton.followed & automaton.last,
        is_any=machine.semantics is Semantics.ANY,
        is_guarded=any(split is not None for split in machine.guard_classes),
    )


def starts_of(machine: Machine) -> tuple[int, ...]:
    """The states that mass may come into a stretch from; ⊤ only collects, unless a NOT guards it."""
    passing = machine.guard_at(END) is None
    return tuple(i for i, s in enumerate(machine.states) if not (passing and s.place == END))


def long_stretch(shape: MatrixShape) -> int:
    """Rows from which on a stretch is worth a matrix of its own."""
    saved = _short_row_ns(shape) - _long_row_ns(shape)
    return int(_product_ns(shape) / saved) + 1 if saved > 0 else _NEVER


def stacks_pay(overlap: Overlap, shape: MatrixShape) -> bool:
    """Whether two stacks are cheaper than every window on its own.

    The front is made anew about once per length of a window.
    """
    rows = overlap.long_rows + overlap.short_rows
    fronts = rows * overlap.windows / overlap.window_rows
    alone = overlap.windows * _WINDOW_NS + overlap.window_rows * _row_ns(shape)
    stacks = (
        overlap.windows * _MEETING_NS
        + fronts * _FRONT_NS
        + overlap.long * _product_ns(shape)
        + overlap.long_rows * _long_row_ns(shape)
        + overlap.short_rows * _short_row_ns(shape)
    )
    return stacks < alone


def alone_ns(window_rows: int, entry: int, is_next: bool) -> float:
    """What windows cost one by one where neighbours are compared: their rows, each in every window."""
    return window_rows * (120 + 80 * entry if is_next else 100 * entry)


def lanes_ns(passed: int, window_rows: int, lanes: int, entry: int, size: int, is_next: bool) -> float:
    """What they cost as lanes: rows passed once per batch of windows, and the lanes of every row.

    Under *next* a row looks at a few bindings one by one; otherwise it touches a path of nodes, and the
    larger a batch is, the more of them are in no near cache. All lanes are emptied at first, open or not.

    size  bytes of the largest batch
    """
    far = log2(1 + size / _NEAR_BYTES)
    row = 450 + 35 * far * entry if is_next else 130 + 10 * far**2 * entry
    return passed * (row + lanes * entry) + window_rows * entry * 2


_NEAR_BYTES = 1 << 19

_NEVER = 1 << 62
_WINDOW_NS = 650
"""A window on its own, besides its rows."""
_MEETING_NS = 200
"""A window as a product, besides its stretches."""
_FRONT_NS = 1_000
"""A new front, besides its stretches."""


def _row_ns(shape: MatrixShape) -> float:
    """A row folded once; one that may move classes is folded the long way."""
    if shape.is_guarded:
        return 350
    return 6 if shape.is_count else 15 + 5 * shape.entry


def _long_row_ns(shape: MatrixShape) -> float:
    """A row folded into a matrix, from every start."""
    if shape.is_count and shape.is_any and not shape.is_guarded:
        return 9 * -(-shape.starts // 4)
    return (_row_ns(shape) + 2) * shape.starts


def _short_row_ns(shape: MatrixShape) -> float:
    """A row multiplied into both stacks; each state has a lane."""
    return 100 + 9 * (shape.states - 1) * shape.entry + 450 * shape.is_guarded


def _product_ns(shape: MatrixShape) -> float:
    """A matrix multiplied into both stacks."""
    return 400 + 18 * shape.starts * (shape.states - 1) ** 2 * shape.entry
