"""How windows that overlap are folded: each on its own, or as products of the stretches between their edges."""

from __future__ import annotations

from dataclasses import dataclass

from trendfold.automaton.machine import Machine
from trendfold.query.nodes import Window


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """The matrix of a stretch: rows, columns, and the numbers and extremes of an entry."""

    starts: int
    states: int
    width: int
    extremes: int

    @property
    def bytes(self) -> int:
        """What one matrix takes; a number is a mantissa of 8 bytes and an exponent of 4."""
        return self.starts * self.states * (12 * self.width + 8 * self.extremes)


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much windows overlap: their rows, each in every window, and those of long and of short stretches."""

    windows: int
    window_rows: int
    long: int
    long_rows: int
    short_rows: int


def may_share(window: Window | None, machines: tuple[Machine, ...]) -> bool:
    """Whether windows overlap at all, and any stretch of rows is a matrix for some operand."""
    overlaps = window is not None and (window.slide is None or window.slide < window.length)
    return overlaps and any(not machine.by_event for machine in machines)


def stacks_pay(overlap: Overlap, shape: MatrixShape) -> bool:
    """Whether two stacks are cheaper than every window on its own."""
    return True


def long_stretch(shape: MatrixShape) -> int:
    """Rows from which on a stretch is folded into a matrix."""
    return 16
