"""Windows that overlap as products of the stretches between their edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine, Symbol
from trendfold.events.buffers import empty
from trendfold.kernel import stretch
from trendfold.kernel.lower import lower_frame, lower_guards, lower_rows, no_grid
from trendfold.kernel.program import Events, Folded, Frame, Stacks
from trendfold.plan import OperandPlan
from trendfold.plan.windows import MatrixShape, Overlap, stacks_pay
from trendfold.query.nodes import Semantics
from trendfold.runtime.windows import Items

_LARGEST_MATRICES = 1 << 28
"""Bytes of matrices that may be held at once; past it windows are folded one by one."""

_CHUNK = 4_096
"""Stretches folded at a time, at least: enough to forget what a call costs, few enough for a cache."""


@dataclass(frozen=True)
class Stretches:
    """Rows [low, high) of each stretch; window k is the stretches [first[k], last[k])."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @property
    def most_alive(self) -> int:
        """The most stretches in one window."""
        return int((self.last - self.first).max(initial=0))

    def chunks(self, slots: int) -> Iterator[tuple[slice, slice]]:
        """Windows in order, and the stretches that none before had: as many as fit with those still alive."""
        windows, folded = 0, 0
        while windows < len(self.first):
            until = int(np.searchsorted(self.last, self.first[windows] + slots, side="right"))
            stop = int(self.last[until - 1])
            yield slice(windows, until), slice(folded, stop)
            windows, folded = until, stop


def share(plan: OperandPlan, items: Items) -> Stretches | None:
    """The stretches of windows that overlap, where multiplying them is cheaper than folding every window."""
    if np.all(items.high[:-1] <= items.low[1:]):
        return None
    cut = Stretches(*stretch.cut_stretches(items.low, items.high))
    shape = matrix_shape(plan)
    overlap = Overlap(
        windows=len(items.low),
        window_rows=int((items.high - items.low).sum()),
        stretches=len(cut.low),
        rows=int((cut.high - cut.low).sum()),
    )
    fits = _slots(cut) * shape.bytes <= _LARGEST_MATRICES
    return cut if fits and stacks_pay(overlap, shape) else None


def _slots(cut: Stretches) -> int:
    """Room for twice the stretches of the longest window, so that half of them are always new."""
    return max(1, min(len(cut.low), max(_CHUNK, 2 * cut.most_alive)))


def fold_shared(plan: OperandPlan, events: Events, alphabet: tuple[Symbol, ...], cut: Stretches) -> Folded:
    """The whole trends of every window; matrices live only while a window that is still to come needs them."""
    frame = lower_frame(plan.machine, plan.carried)
    starts = _starts(plan.machine)
    slots = _slots(cut)
    matrix, stacks = _no_matrices(slots, len(starts), frame), _no_stacks(slots, len(starts), frame)
    out = _no_windows(len(cut.first), frame)
    for windows, fresh in cut.chunks(slots):
        _fold_into(matrix, fresh.start, plan, events, alphabet, cut.low[fresh], cut.high[fresh])
        part = Folded(*(numbers[windows] for numbers in out))
        stretch.slide_windows(cut.first[windows], cut.last[windows], frame, starts, matrix, stacks, part)
    return _flat(out)


def fold_matrices(
    plan: OperandPlan, events: Events, alphabet: tuple[Symbol, ...], bounds: NDArray[np.int64]
) -> Folded:
    """The rows [bounds[k], bounds[k+1]) as matrix k: what mass 1 at each start becomes."""
    frame = lower_frame(plan.machine, plan.carried)
    matrix = _no_matrices(len(bounds) - 1, len(_starts(plan.machine)), frame)
    _fold_into(matrix, 0, plan, events, alphabet, bounds[:-1], bounds[1:])
    return matrix


def multiply_matrices(
    plan: OperandPlan, matrix: Folded, first: NDArray[np.int64], last: NDArray[np.int64]
) -> Folded:
    """The whole trends of windows: window k is the product of the matrices [first[k], last[k])."""
    frame = lower_frame(plan.machine, plan.carried)
    starts = _starts(plan.machine)
    out = _no_windows(len(first), frame)
    stacks = _no_stacks(len(matrix.mantissa), len(starts), frame)
    stretch.slide_windows(first, last, frame, starts, matrix, stacks, out)
    return _flat(out)


def _fold_into(
    matrix: Folded,
    slot: int,
    plan: OperandPlan,
    events: Events,
    alphabet: tuple[Symbol, ...],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> None:
    machine = plan.machine
    program, grid = lower_rows(machine, alphabet, plan.carried)
    starts = _starts(machine)
    stretch.fold_stretches(
        events,
        low,
        high,
        program,
        grid if events.is_small else no_grid(grid),
        lower_guards(machine, alphabet),
        lower_frame(machine, plan.carried),
        starts,
        _fades(machine, starts),
        matrix,
        slot,
    )


def matrix_shape(plan: OperandPlan) -> MatrixShape:
    """The size of a stretch's matrix."""
    frame = lower_frame(plan.machine, plan.carried)
    return MatrixShape(len(_starts(plan.machine)), frame.states, frame.width, frame.extremes)


def _starts(machine: Machine) -> NDArray[np.int32]:
    """The states that mass may come into a stretch from; ⊤ only collects, unless a NOT guards it."""
    passing = machine.guard_at(END) is None
    return np.array([i for i, s in enumerate(machine.states) if not (passing and s.place == END)], np.int32)


def _fades(machine: Machine, starts: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether mass that comes in at a start lasts for one moment only."""
    is_contiguous = machine.semantics is Semantics.CONTIGUOUS
    return np.array([is_contiguous and machine.states[s].place not in (START, END) for s in starts], np.bool_)


def _no_matrices(slots: int, rows: int, frame: Frame) -> Folded:
    """Memory for matrices; folding one empties it first."""
    shape = (slots, rows, frame.states)
    return Folded(
        empty((*shape, frame.width), np.float64),
        empty((*shape, frame.width), np.int32),
        empty((*shape, frame.extremes), np.float64),
    )


def _no_stacks(slots: int, rows: int, frame: Frame) -> Stacks:
    return Stacks(np.zeros(3, np.int64), _no_matrices(slots, 1, frame), _no_matrices(4, rows, frame))


def _no_windows(windows: int, frame: Frame) -> Folded:
    """Windows without any trend, each as a matrix of one entry."""
    out = _no_matrices(windows, 1, frame._replace(states=1))
    for part, nothing in zip(out, (0.0, 0, np.inf), strict=True):
        part.fill(nothing)
    return out


def _flat(out: Folded) -> Folded:
    return Folded(*(part.reshape(len(part), part.shape[-1]) for part in out))
