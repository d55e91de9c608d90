"""What overlapping windows can share, and how large it is.

If no predicate compares neighbours, a stretch of rows is a matrix, and a window is the product of its
stretches. Otherwise a batch of windows can share one set of trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
    """Whether only counts are carried, and an event changes one of them."""
    is_any: bool = False
    """Whether mass is never removed (skip-till-any-match)."""
    is_guarded: bool = False
    """Whether a NOT splits pending counts into classes."""

    @property
    def folds_counts(self) -> bool:
        """Whether four matrix rows are folded at a time, if each event changes one state (ADR 28)."""
        return self.is_count and self.is_any and not self.is_guarded

    @property
    def bytes(self) -> int:
        """The size of one matrix; a number is a mantissa of 8 bytes and an exponent of 4."""
        return self.starts * self.states * (12 * self.width + 8 * self.extremes)

    @property
    def entry(self) -> int:
        """Numbers and extremes of one entry."""
        return self.width + self.extremes


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far windows overlap: rows counted once per window, and the rows of long and of short stretches."""

    windows: int
    window_rows: int
    long: int
    long_rows: int
    short_rows: int


class Sharing(StrEnum):
    """What overlapping windows can share."""

    STRETCHES = "stretches"
    """Stretches between window edges are folded once and multiplied (two-stack aggregation)."""
    TREES = "trees"
    """The windows of a batch share one set of trees."""
    NOTHING = "nothing"


def sharing(
    window: Window | None, machine: Machine, accesses: tuple[Access, ...], carried: Carried
) -> Sharing | None:
    """What the windows of an operand can share; None where they do not overlap."""
    if machine.is_bounded:  # a window per moment at which trends may end
        return Sharing.NOTHING if machine.by_event else Sharing.STRETCHES
    if window is None or (window.slide is not None and window.slide >= window.length):
        return None
    if not machine.by_event:
        return Sharing.STRETCHES
    shares = can_share_trees(machine, accesses) and not carried.added
    return Sharing.TREES if shares else Sharing.NOTHING


def can_share_trees(machine: Machine, accesses: tuple[Access, ...]) -> bool:
    """Whether windows, or queries that compare neighbours alike, can share one set of trees.

    Each binding must be one leaf of a tree or table, which never changes or, under *next*, is only removed.
    A NOT judged by time discards bindings; scans and nested trees keep them elsewhere.
    """
    found = all(a.structure in (Structure.TABLE, Structure.TREE) and not a.is_online for a in accesses)
    is_judged = any(a.guard is not None for a in accesses) or machine.by_event & {START, END}
    return bool(accesses) and found and not is_judged


def matrix_shape(machine: Machine, carried: Carried) -> MatrixShape:
    """The shape of an operand's matrices; one extra state stays empty."""
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
    """The states from which mass can enter a stretch; ⊤ only collects mass, unless a NOT guards it."""
    passing = machine.guard_at(END) is None
    return tuple(i for i, s in enumerate(machine.states) if not (passing and s.place == END))
