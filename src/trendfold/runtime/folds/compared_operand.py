"""An operand whose neighbours are compared: conditions over its rows, and ranks of the compared values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
from trendfold.kernel.bindings import ComparedMachine
from trendfold.kernel.lower import ValueAccesses, list_numbers, lower_asked, lower_guards, lower_steps
from trendfold.kernel.program import (
    LAST_MOMENT,
    BindingIndex,
    BindingLists,
    BindingSteps,
    Frame,
    Guards,
    Pairs,
)
from trendfold.plan.neighbour import Structure
from trendfold.query.nodes import Semantics
from trendfold.runtime.compared import (
    asked_one_by_one,
    compared_rows,
    end_guard,
    latest_of,
    pairs_of,
)
from trendfold.runtime.folds.binding_index import build_index
from trendfold.runtime.folds.operand import OperandRows
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.windows import Items


@dataclass(frozen=True)
class Compared:
    """What kernels read, besides the rows, for an operand whose neighbours are compared."""

    frame: Frame
    steps: BindingSteps
    guards: Guards
    pairs: Pairs
    latest: NDArray[np.int32]
    lists: BindingLists
    asked: ValueAccesses
    index: BindingIndex
    places: int
    """The lists of bindings, one per place whose bindings are kept one by one."""

    @property
    def for_kernels(self) -> ComparedMachine:
        """What kernels.bindings reads."""
        return ComparedMachine(
            self.steps, self.guards, self.pairs, self.latest, self.lists, self.index, self.frame
        )

    @property
    def has_trees(self) -> bool:
        """Whether any bindings are found by value."""
        return bool(self.asked.accesses)


def read_compared(here: OperandRows) -> Compared:
    """Compile an operand's conditions over its rows, and rank the values that they compare."""
    plan, rows = here.operand, here.rows
    machine, alphabet = plan.machine, here.alphabet
    places = list_numbers(machine)
    steps = lower_steps(machine, alphabet, plan.carried)
    asked = lower_asked(machine, alphabet, plan.accesses, plan.carried)
    found = compared_rows(here.plan, here.number, rows, here.events.moment, here.batch)
    pairs = pairs_of(found, asked_one_by_one(plan))
    index = build_index(
        asked,
        here.events.symbol,
        _ranked_apart(rows, here.items),
        found.column,
        machine.semantics is Semantics.NEXT,
        places,
    )
    return Compared(
        here.frame,
        steps,
        lower_guards(machine, alphabet),
        pairs,
        latest_of(here.plan, here.number, rows, here.events, pairs, here.limits),
        _lists(places, steps, asked, pairs, end_guard(plan), machine.semantics),
        asked,
        index,
        len(places),
    )


def _ranked_apart(rows: Rows, items: Items) -> NDArray[np.int64]:
    """Where ranking restarts: at every window if none overlap, so that no tree is larger than a window."""
    if np.any(items.high[:-1] > items.low[1:]):
        return rows.segment
    return np.unique(np.concatenate([rows.segment, items.low, items.high]))


def _lists(
    places: dict[int, int],
    steps: BindingSteps,
    asked: ValueAccesses,
    pairs: Pairs,
    end_guard: int,
    semantics: Semantics,
) -> BindingLists:
    is_stored = np.zeros(len(places), np.bool_)
    value = np.full(len(places), -1, np.int32)
    for place in (START, END):
        if place in places:
            is_stored[places[place]] = True
    for access in asked.accesses:
        is_stored[places[access.place]] |= access.guard is not None
    for c in np.flatnonzero(asked.way < 0):
        here = steps.scan[c]
        is_stored[here] = True
        predicates = steps.pred[steps.pred_start[c] : steps.pred_start[c + 1]]
        if len(predicates) == 1 and pairs.compare[predicates[0]]:
            value[here] = predicates[0]
    one_tree_each = len({access.place for access in asked.accesses}) == len(asked.accesses)
    allowed = {Semantics.ANY: True, Semantics.NEXT: one_tree_each, Semantics.CONTIGUOUS: False}
    is_plain = all(a.structure is not Structure.NESTED and not a.is_online for a in asked.accesses)
    is_short = allowed[semantics] and end_guard != LAST_MOMENT and not is_stored.any() and is_plain
    return BindingLists(places.get(START, -1), places.get(END, -1), end_guard, is_stored, value, is_short)
