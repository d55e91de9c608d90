"""Folds that go on where neighbours are compared: see continued_lanes for what that means.

Beside a vector, a window then has bindings, which later events may continue. Bindings at one place whose
compared values are equal are one: a later event continues all of them or none. So as many are saved as there
are distinct values, or under *next* unspent bindings, or under *contiguous* bindings of the last moment. Each
is saved as its mass and the event that made it, its *representative*; a fold that goes on reads the
representatives of a segment as its first rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import START
from trendfold.automaton.machine import State
from trendfold.events.buffers import empty
from trendfold.kernel import continued_bindings as kernels
from trendfold.kernel.continued_bindings import BY_LIST, GivenWindows, Masses, SavedWindows
from trendfold.kernel.lower import SEMANTICS, list_numbers
from trendfold.kernel.program import Folded, Ints
from trendfold.plan import Group, OperandPlan
from trendfold.plan.carried import Carried
from trendfold.plan.neighbour import Structure, compared_values, scanned_places
from trendfold.runtime.folds.binding_index import with_tree
from trendfold.runtime.folds.by_bindings import make_room
from trendfold.runtime.folds.compared_operand import Compared, read_compared
from trendfold.runtime.folds.continued_lanes import LAYOUT, WindowVectors, meaning_of
from trendfold.runtime.folds.operand import OperandRows
from trendfold.runtime.workspace import Workspace

Longs = NDArray[np.int64]
_ROOM = 1 << 20
"""About so many bindings are saved in one call of the kernel."""


@dataclass(frozen=True)
class BindingFamily:
    """What the windows of a query that compares neighbours save: see Family."""

    operand: OperandPlan
    members: tuple[int, ...] = (0,)
    which: int = 0

    @property
    def states(self) -> tuple[State, ...]:
        """The states that hold one vector, in its order."""
        return self.operand.machine.states

    @property
    def carried(self) -> Carried:
        """The numbers and extremes of a vector, and of a binding."""
        return self.operand.carried

    @property
    def start(self) -> int:
        """The state that holds 1 when a window begins."""
        return self.states.index(State(START))

    @property
    def whole(self) -> tuple[int, ...]:
        """The states whose mass is that of whole trends."""
        return tuple(self.states.index(state) for state in self.operand.machine.whole())

    @property
    def lists(self) -> int:
        """How many places keep their bindings."""
        return len(list_numbers(self.operand.machine))

    @property
    def entry(self) -> tuple[int, int]:
        """The numbers and extremes of a binding."""
        return self.carried.width, len(self.carried.extremes)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """A digest of what vectors and bindings mean."""
        machine = self.operand.machine
        states = [(state.place, state.cls) for state in self.states]
        meaning = [LAYOUT, states, sorted(machine.by_event), meaning_of(machine, self.carried)]
        return (sha256(json.dumps(meaning).encode()).hexdigest()[:16],)

    def sizes(self, windows: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the mantissas, or exponents, and of the extremes of so many windows."""
        width, extremes = self.entry
        return (windows, len(self.states), width, 1), (windows, len(self.states), extremes, 1)


def binding_families(group: Group) -> tuple[BindingFamily, ...]:
    """What a query that compares neighbours saves."""
    (plan,) = group.members
    return tuple(BindingFamily(operand) for operand in plan.operands)


@dataclass(frozen=True)
class ContinuedWindows:
    """What rows make of windows: the aggregates of all items, and vectors and bindings of the saved ones.

    item      per binding its window
    bindings  their rows are rows of the fold
    """

    result: Folded
    vectors: WindowVectors
    item: Longs
    bindings: Masses


def fold_bindings_on(
    here: OperandRows,
    workspace: Workspace,
    family: BindingFamily,
    given: GivenWindows,
    saves: NDArray[np.bool_],
) -> ContinuedWindows:
    """Fold rows into windows of which some are open already; `saves` tells which go on after them."""
    compared, tree = _savable(here, workspace, read_compared(here))
    room, _ = make_room(here, compared)
    machine, semantics = compared.for_kernels, SEMANTICS[here.operand.machine.semantics]
    vectors, out = _vectors(family, int(saves.sum())), here.nothing()
    number = np.where(saves, np.cumsum(saves) - 1, -1).astype(np.int64)
    items, parts, bindings = here.items, [np.zeros(0, np.int32)], [no_masses(0, *family.entry)]
    for low, high, most in _rounds(here, saves, compared):
        saved = SavedWindows(
            number,
            vectors,
            empty(most, np.int32),
            no_masses(most, *family.entry),
            tree,
            np.zeros(max(1, compared.index.nodes), np.int32),
        )
        count = kernels.continue_windows(
            here.events,
            items.low,
            items.high,
            np.array([low, high]),
            machine,
            semantics,
            compared.frame,
            room,
            given,
            saved,
            out,
        )
        parts.append(saved.item[:count])
        bindings.append(some_masses(saved.bindings, slice(count)))
    numbers, exponents, extremes = vectors
    parts_of = numbers[..., None], exponents[..., None], extremes[..., None]
    kept = WindowVectors(family.fingerprints, *parts_of, np.zeros(len(numbers), np.int64))
    return ContinuedWindows(out, kept, np.concatenate(parts).astype(np.int64), joined_masses(bindings))


def _vectors(family: BindingFamily, windows: int) -> Folded:
    """Room for vectors."""
    numbers, extremes = (size[:3] for size in family.sizes(windows))
    return Folded(empty(numbers, np.float64), empty(numbers, np.int32), empty(extremes, np.float64))


def _rounds(
    here: OperandRows, saves: NDArray[np.bool_], compared: Compared
) -> Iterator[tuple[int, int, int]]:
    """Windows [0, 1) that are folded in one call, and the most bindings they can save."""
    steps, items = compared.steps, here.items
    per_event = int(np.diff(steps.kept_start[steps.step_start]).max(initial=0))
    most = np.cumsum(np.where(saves, (items.high - items.low) * per_event, 0))
    low = 0
    while low < len(most):
        before = int(most[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(most, before + _ROOM, side="right")))
        yield low, high, int(most[high - 1]) - before
        low = high


# ---- Bindings by value --------------------------------------------------------------------------------


def _savable(here: OperandRows, workspace: Workspace, compared: Compared) -> tuple[Compared, Ints]:
    """Per list the tree by whose leaves its bindings are saved, which may be an additional one."""
    machine, asked, index = here.operand.machine, compared.asked.accesses, compared.index
    scanned = scanned_places(machine, here.operand.accesses)
    is_stored = np.array([place in scanned for place in list_numbers(machine)], np.bool_)
    found = np.full(compared.places, BY_LIST, np.int32)
    for number in np.flatnonzero(~is_stored).tolist():
        own = [i for i, at in enumerate(compared.index.here) if at == number]
        if len(own) == 1 and asked[own[0]].structure is not Structure.NESTED:
            found[number] = index.tree_start[own[0]]
            continue
        found[number] = len(index.levels)
        index = with_tree(index, number, _leaves(here, workspace, compared, number))
    lists = compared.lists._replace(
        is_stored=is_stored, is_short=compared.lists.is_short and not is_stored.any()
    )
    return replace(compared, index=index, lists=lists), found


def _leaves(here: OperandRows, workspace: Workspace, compared: Compared, number: int) -> Ints:
    """Per row that makes a binding in a list the number of its compared values among those of its segment."""
    rows, steps = here.rows, compared.steps
    code, distinct = workspace.partition((), compared_values(here.operand.machine))
    code = code[rows.row].astype(np.int64) if len(code) else np.zeros(len(rows.row), np.int64)
    owner = np.repeat(np.arange(len(rows.segment) - 1), np.diff(rows.segment))
    kept = [steps.kept[low:high] for low, high in _kept_of_symbols(compared)]
    makes = np.array([number in each for each in kept], np.bool_)[here.events.symbol]
    pairs, found = np.unique(owner[makes] * distinct + code[makes], return_inverse=True)
    begin = np.searchsorted(pairs // distinct, np.arange(len(rows.segment) - 1))
    leaf = np.zeros(len(rows.row), np.int32)
    leaf[makes] = found.reshape(-1) - begin[owner[makes]] + 1
    return leaf


def _kept_of_symbols(compared: Compared) -> list[tuple[int, int]]:
    """Per symbol where the lists are that its events make bindings in."""
    edge = compared.steps.kept_start[compared.steps.step_start]
    return list(zip(edge[:-1].tolist(), edge[1:].tolist(), strict=True))


# ---- Masses -------------------------------------------------------------------------------------------


def no_masses(count: int, width: int, extremes: int) -> Masses:
    """Room for some bindings."""
    return Masses(
        empty(count, np.int32),
        empty(count, np.int32),
        empty((count, width), np.float64),
        empty((count, width), np.int32),
        empty((count, extremes), np.float64),
    )


def some_masses(masses: Masses, which: NDArray[np.generic] | slice) -> Masses:
    """Some bindings: their places, or a mask."""
    row, place, mantissa, exponent, extreme = masses
    return Masses(row[which], place[which], mantissa[which], exponent[which], extreme[which])


def joined_masses(parts: Sequence[Masses]) -> Masses:
    """All bindings of several parts."""
    row, place, mantissa, exponent, extreme = map(np.concatenate, zip(*parts, strict=True))
    return Masses(row, place, mantissa, exponent, extreme)
