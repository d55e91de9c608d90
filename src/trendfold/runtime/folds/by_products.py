"""Overlapping windows share the stretches between their edges (two-stack aggregation).

A stretch is a matrix, and a window is the product of its stretches (see kernel.stretch and kernel.sliding).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Machine, Symbol
from trendfold.events.buffers import empty
from trendfold.kernel import sliding, stretch
from trendfold.kernel.bindings import longest_moment
from trendfold.kernel.lower import (
    SEMANTICS,
    lower_frame,
    lower_guards,
    lower_links,
    lower_rows,
    lower_steps,
    spent_by,
)
from trendfold.kernel.lower_machine_lanes import LaneMember, taken_of
from trendfold.kernel.program import BindingSteps, Events, Folded, Frame, Stacks, WindowStretches
from trendfold.kernel.sliding_doubles import DoubleStacks, slide_doubles
from trendfold.plan import OperandPlan
from trendfold.plan.cost import long_stretch
from trendfold.plan.overlap import MatrixShape, Overlap, Sharing, matrix_shape, starts_of
from trendfold.plan.physical import Products
from trendfold.plan.statistics import OperandStatistics
from trendfold.runtime.folds import by_vectors
from trendfold.runtime.folds.lane_matrices import StretchFolder, stretch_folder
from trendfold.runtime.folds.operand import OperandRows
from trendfold.runtime.values import NO_CLOCK, with_constant
from trendfold.runtime.windows import Items

_CHUNK = 4_096
"""The least number of stretches per call: enough to amortize the call, few enough for the cache."""


@dataclass(frozen=True)
class SharedStretches:
    """Windows cut into stretches at their edges.

    which  int64[]  the windows; None for all. The others, in which trends begin up to some row only, are
                    folded one by one
    """

    cut: WindowStretches
    which: NDArray[np.int64] | None = None


def measure(here: OperandRows) -> tuple[OperandStatistics, SharedStretches | None]:
    """Measure how far windows overlap, and cut stretches at their edges; None if no two share a row."""
    items, operand, which = here.items, here.operand, None
    if items.spans is not None and np.any(items.until < items.high):
        which = np.flatnonzero(items.until == items.high)
        items = items.at(which)
    if here.plan.sharing(operand) is not Sharing.STRETCHES or np.all(items.high[:-1] <= items.low[1:]):
        return OperandStatistics(), None
    shape = matrix_shape(operand.machine, operand.carried)
    # Products of matrices keep the mass at ⊤, which must fade where the spans of trends are bounded.
    long = _NEVER if operand.machine.is_bounded else long_stretch(shape)
    cut = cut_stretches(items, long)
    found = OperandStatistics(_overlap(items, cut), _bytes(cut, shape), here.events.is_small)
    return found, SharedStretches(cut, which)


def fold(here: OperandRows, way: Products, material: SharedStretches) -> tuple[Folded, int]:
    """The aggregates of every window, and the bytes of all matrices and stacks held at once."""
    shape, which = matrix_shape(here.operand.machine, here.operand.carried), material.which
    size = _bytes(material.cut, shape)
    shared = fold_shared(here.operand, here.events, here.alphabet, material.cut, way.in_doubles)
    if which is None:
        return shared, size
    out, others = here.nothing(), np.delete(np.arange(len(here.items.low)), which)
    apart, own = by_vectors.fold_items(replace(here, items=here.items.at(others)))
    for some, part in ((which, shared), (others, apart)):
        out.mantissa[some], out.exponent[some], out.extreme[some] = part
    return out, size + own


def _bytes(cut: WindowStretches, shape: MatrixShape) -> int:
    return _slots(cut) * shape.bytes + _most_alive(cut) * shape.bytes // shape.starts


def cut_stretches(items: Items, long: int) -> WindowStretches:
    """Cut at the edges of all windows; stretches of at least `long` rows get a matrix."""
    windows = len(items.low)
    low, high, rank = (empty(2 * windows, np.int64) for _ in range(3))
    first, last = empty(windows, np.int64), empty(windows, np.int64)
    count = stretch.cut_stretches(items.low, items.high, long, low, high, rank, first, last)
    return WindowStretches(low[:count], high[:count], rank[: count + 1], first, last)


def _most_alive(cut: WindowStretches) -> int:
    """The most stretches in one window."""
    return int((cut.last - cut.first).max(initial=0))


def _slots(cut: WindowStretches) -> int:
    """Matrices held at once: twice as many as a window has, so that half of them can always be new."""
    most = int((cut.rank[cut.last] - cut.rank[cut.first]).max(initial=0))
    return max(1, min(int(cut.rank[-1]), max(_CHUNK, 2 * most)))


def _chunks(cut: WindowStretches, slots: int) -> Iterator[tuple[slice, slice]]:
    """Chunks of windows in order, each with its new matrices: as many as fit into `slots`."""
    begins, ends = cut.rank[cut.first], cut.rank[cut.last]
    windows, folded = 0, 0
    while windows < len(begins):
        until = int(np.searchsorted(ends, begins[windows] + slots, side="right"))
        yield slice(windows, until), slice(folded, int(ends[until - 1]))
        windows, folded = until, int(ends[until - 1])


def _overlap(items: Items, cut: WindowStretches) -> Overlap:
    length = cut.high - cut.low
    is_long = cut.rank[1:] > cut.rank[:-1]
    return Overlap(
        windows=len(items.low),
        window_rows=int((items.high - items.low).sum()),
        long=int(is_long.sum()),
        long_rows=int(length[is_long].sum()),
        short_rows=int(length[~is_long].sum()),
    )


def fold_shared(
    plan: OperandPlan,
    events: Events,
    alphabet: tuple[Symbol, ...],
    cut: WindowStretches,
    in_doubles: bool,
) -> Folded:
    """The aggregates of every window; a matrix is kept only while a later window needs it."""
    frame, slots = lower_frame(plan.machine, plan.carried), _slots(cut)
    is_long = cut.rank[1:] > cut.rank[:-1]
    low, high = cut.low[is_long], cut.high[is_long]
    matrix = _no_matrices(slots, len(_starts(plan.machine)), frame)
    stacks, out = _no_stacks(_most_alive(cut), frame), _no_windows(len(cut.first), frame)
    fold_into = _folder(plan, events, alphabet, low, high)
    slide = _slider(plan, events, alphabet, in_doubles)
    for windows, fresh in _chunks(cut, slots):
        fold_into(matrix, fresh)
        part = cut._replace(first=cut.first[windows], last=cut.last[windows])
        rows = Folded(out.mantissa[windows], out.exponent[windows], out.extreme[windows])
        slide(part, matrix, stacks, rows)
    return out


def fold_matrices(
    plan: OperandPlan, events: Events, alphabet: tuple[Symbol, ...], bounds: NDArray[np.int64]
) -> Folded:
    """Fold rows [bounds[k], bounds[k+1]) into matrix k: what mass 1 at each start state becomes."""
    if not _folds_counts(plan, alphabet):
        return _in_lanes(plan, events, alphabet, bounds[:-1], bounds[1:]).fold()[0]
    frame = lower_frame(plan.machine, plan.carried)
    matrix = _no_matrices(len(bounds) - 1, len(_starts(plan.machine)), frame)
    _folder(plan, events, alphabet, bounds[:-1], bounds[1:])(matrix, slice(0, len(bounds) - 1))
    return matrix


def multiply_matrices(
    plan: OperandPlan, matrix: Folded, first: NDArray[np.int64], last: NDArray[np.int64]
) -> Folded:
    """The aggregates of windows: window k is the product of the matrices [first[k], last[k])."""
    frame = lower_frame(plan.machine, plan.carried)
    if np.all(last[:-1] <= first[1:]):
        out = _no_windows(len(first), frame)
        sliding.multiply_windows(first, last, frame, _starts(plan.machine), matrix, out)
        return out
    count = len(matrix.mantissa)
    nowhere = np.zeros(count, np.int64)
    cut = WindowStretches(nowhere, nowhere, np.arange(count + 1), first, last)
    out, stacks = _no_windows(len(first), frame), _no_stacks(_most_alive(cut), frame)
    none = np.zeros(0, np.int32)
    events = Events(none, none, np.zeros((0, 0)), np.zeros((0, 0)), True, NO_CLOCK)
    _slider(plan, events, ())(cut, matrix, stacks, out)
    return out


def pass_time_between(plan: OperandPlan, matrix: Folded, passed: NDArray[np.int64]) -> None:
    """Let time pass after each matrix, in place: microseconds until the next of its segment begins."""
    frame = lower_frame(plan.machine, plan.carried)
    if frame.elapsed:
        m, e = (part[..., np.newaxis] for part in (matrix.mantissa, matrix.exponent))
        stretch.pass_time_between(m, e, passed.astype(np.float64), frame.open, frame.elapsed)


def multiply_runs(plan: OperandPlan, matrix: Folded, run: NDArray[np.int64]) -> Folded:
    """The products of the matrices [run[k], run[k+1])."""
    frame, starts = lower_frame(plan.machine, plan.carried), _starts(plan.machine)
    out = _no_matrices(len(run) - 1, len(starts), frame)
    sliding.multiply_runs(run, frame, starts, matrix, out)
    return out


def fold_around(
    plan: OperandPlan,
    events: Events,
    alphabet: tuple[Symbol, ...],
    items: Items,
    at: NDArray[np.int64],
    matrix: Folded,
) -> Folded:
    """The aggregates of windows in which some rows stand for stretches that were folded before.

    at  these rows, ascending; row at[k] stands for matrix k, and every window of its segment holds it
    """
    cut = _apart(cut_stretches(items, long=_NEVER), at)
    frame = lower_frame(plan.machine, plan.carried)
    out = _no_windows(len(cut.first), frame)
    _slider(plan, events, alphabet)(cut, matrix, _no_stacks(_most_alive(cut), frame), out)
    return out


_NEVER = np.iinfo(np.int64).max
"""No stretch is so long."""


def _apart(cut: WindowStretches, at: NDArray[np.int64]) -> WindowStretches:
    """The same stretches, with some rows each a stretch of its own, that has a matrix."""
    own = np.searchsorted(cut.low, at, side="right") - 1
    pieces = np.ones(len(cut.low), np.int64)
    pieces[own] = 3
    begin = np.append(0, np.cumsum(pieces))
    low, high = np.repeat(cut.low, pieces), np.repeat(cut.high, pieces)
    here = begin[own] + 1
    high[here - 1], low[here], high[here], low[here + 1] = at, at, at + 1, at + 1
    is_matrix = np.zeros(len(low), np.int64)
    is_matrix[here] = 1
    return WindowStretches(low, high, np.append(0, np.cumsum(is_matrix)), begin[cut.first], begin[cut.last])


def _folder(
    plan: OperandPlan,
    events: Events,
    alphabet: tuple[Symbol, ...],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> Callable[[Folded, slice], None]:
    """A function that folds some stretches [low, high) into matrices, a ring; its arrays are lowered once."""
    if not len(low):
        return lambda matrix, some: None
    if _folds_counts(plan, alphabet):
        program, grid = lower_rows(plan.machine, alphabet, plan.carried)
        guards, frame = lower_guards(plan.machine, alphabet), lower_frame(plan.machine, plan.carried)
        tables = program, grid, guards, frame, _starts(plan.machine)

        def fold_counts(matrix: Folded, some: slice) -> None:
            stretch.fold_stretches(events, low[some], high[some], *tables, matrix, some.start)

        return fold_counts
    lanes = _in_lanes(plan, events, alphabet, low, high)

    def fold_lanes(matrix: Folded, some: slice) -> None:
        places = np.arange(some.start, some.stop) % len(matrix.mantissa)
        (found,) = lanes.fold(some)
        matrix.mantissa[places], matrix.exponent[places] = found.mantissa, found.exponent
        matrix.extreme[places] = found.extreme

    return fold_lanes


def _folds_counts(plan: OperandPlan, alphabet: tuple[Symbol, ...]) -> bool:
    """Whether four matrix rows are folded at a time: that loop needs a grid of one row per symbol.

    There is none where an event changes several states, or where no event changes any.
    """
    if not matrix_shape(plan.machine, plan.carried).folds_counts:
        return False
    _, grid = lower_rows(plan.machine, alphabet, plan.carried)
    return int(grid.dst.shape[1]) == 1


def _in_lanes(
    plan: OperandPlan,
    events: Events,
    alphabet: tuple[Symbol, ...],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> StretchFolder:
    """The stretches of one query in the machine of lanes."""
    members = [LaneMember(plan.machine, plan.carried)]
    taken = taken_of([(symbol,) for symbol in alphabet], [member.machine for member in members])
    found = stretch_folder(members, with_constant(events, plan.carried), taken, low, high)
    assert found is not None  # one query always fits
    return found


def _slider(
    plan: OperandPlan, events: Events, alphabet: tuple[Symbol, ...], in_doubles: bool = False
) -> Callable[[WindowStretches, Folded, Stacks, Folded], None]:
    """A function that slides windows on from the current stacks; its arrays are lowered once."""
    machine = plan.machine
    steps = lower_steps(machine, alphabet, plan.carried)
    links, guards = lower_links(machine, alphabet, steps), lower_guards(machine, alphabet)
    frame = lower_frame(machine, plan.carried)
    tables = steps, links, guards, SEMANTICS[machine.semantics], frame, _starts(machine)

    def slide(cut: WindowStretches, matrix: Folded, stacks: Stacks, out: Folded) -> None:
        k, windows = 0, len(cut.first)
        left = _ATTEMPTS if in_doubles else 0
        doubles = _double_stacks(plan, events, alphabet, steps, cut) if left else None
        while k < windows:
            if doubles is not None and left:
                begun, k = k, slide_doubles(events, cut, doubles, frame, k, out)
                left -= k - begun < _FEW
                stacks.at[0] = -1  # wide numbers begin with a new front
            fronts = 1 if left else windows
            k = sliding.slide_windows(events, cut, *tables, matrix, stacks, k, fronts, out)

    return slide


_ATTEMPTS = 8
"""So often numbers may soon leave the range of doubles, before wide numbers take over for good."""
_FEW = 1_024
"""Windows."""


def _double_stacks(
    plan: OperandPlan,
    events: Events,
    alphabet: tuple[Symbol, ...],
    steps: BindingSteps,
    cut: WindowStretches,
) -> DoubleStacks:
    """The steps of a machine and memory for two stacks of doubles."""
    states = len(plan.machine.states)
    numbers = -(-states * plan.carried.width // 4) * 4
    spent = [spent_by(plan.machine, symbol) for symbol in alphabet]
    most = int(np.diff(steps.step_start).max(initial=1)) * int(longest_moment(events.moment))
    return DoubleStacks(
        steps.step_start.astype(np.uint64),
        steps.src_start.astype(np.uint64),
        steps.src.astype(np.uint64),
        steps.dst_start.astype(np.uint64),
        steps.dst.astype(np.uint64),
        steps.weight,
        np.cumsum([0, *map(len, spent)]).astype(np.uint64),
        np.array([state for states in spent for state in states], np.uint64),
        empty((_most_alive(cut), numbers), np.float64),
        empty((states, numbers), np.float64),
        empty((most, numbers), np.float64),
    )


def _starts(machine: Machine) -> NDArray[np.int32]:
    return np.array(starts_of(machine), np.int32)


def _no_matrices(slots: int, rows: int, frame: Frame) -> Folded:
    """Memory for matrices; folding clears a matrix first."""
    return _memory((slots, rows, frame.states), frame.width, frame.extremes)


def _no_stacks(alive: int, frame: Frame) -> Stacks:
    """Memory for two stacks; every state but the void one has a lane."""
    states = frame.states - 1
    numbers, extremes = states * frame.width, states * frame.extremes
    growing, back = (_memory((2, states), numbers, extremes) for _ in range(2))
    front, total = _memory((alive,), numbers, extremes), _memory((), numbers, extremes)
    return Stacks(np.zeros(3, np.int64), front, growing, back, total)


def _no_windows(windows: int, frame: Frame) -> Folded:
    """The aggregates of windows that have no trend yet."""
    out = _memory((windows,), frame.width, frame.extremes)
    out.mantissa.fill(0.0)
    out.exponent.fill(0)
    out.extreme.fill(np.inf)
    return out


def _memory(shape: tuple[int, ...], numbers: int, extremes: int) -> Folded:
    return Folded(
        empty((*shape, numbers), np.float64),
        empty((*shape, numbers), np.int32),
        empty((*shape, extremes), np.float64),
    )
