"""GROUP BY T.g in one pass: from T on, each value of g has its own slot (kernel.machine_lanes)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.lower_machine_lanes import LaneMember, taken_of
from trendfold.kernel.program import Events, Folded
from trendfold.kernel.vectors import WIDTH as VECTOR
from trendfold.plan import QueryPlan
from trendfold.plan.workload import MOST_WINDOWS, windows_at_once
from trendfold.runtime.folds.in_machine_lanes import HELD, LaneMaterial, step_rows
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.value_slots import ValueSlots, assign_slots
from trendfold.runtime.values import no_trends, with_constant
from trendfold.runtime.windows import Items
from trendfold.runtime.workspace import Workspace


@dataclass(frozen=True)
class GroupSlots:
    """The group values of one query as slots.

    own    the positions of T
    items  the windows of all slots together
    """

    values: ValueSlots
    own: frozenset[int]
    items: Items

    def per_slot(self, query: str, limits: Limits) -> Items:
        """Each item for every slot of its segment, as if each slot were a segment."""
        return self.values.per_slot(self.items, query, limits)


def read_slots(plan: QueryPlan, workspace: Workspace, rows: Rows, items: Items) -> tuple[GroupSlots, Rows]:
    """Assign slots to rows that are not split by group, and set a group per slot."""
    keys = plan.qualified_keys
    own = plan.operands[0].machine.automaton.called(keys[0].alias or "")
    takes = np.array([bool(symbol & own) for symbol in rows.alphabets[0]], np.bool_)[rows.symbols[0]]
    values, grouped = assign_slots(keys, takes, rows, workspace)
    return GroupSlots(values, own, items), grouped


def fold_slots(
    plan: QueryPlan, events: Events, rows: Rows, slots: GroupSlots, in_bursts: bool, limits: Limits
) -> tuple[Folded, int]:
    """The aggregates of every item and slot, in the order of `GroupSlots.per_slot`, and bytes of state."""
    (operand,) = plan.operands
    count = slots.values.count(slots.items)
    out, size = no_trends(int(count.sum()), operand.carried.width, 0), 0
    taken = taken_of([(symbol,) for symbol in rows.alphabets[0]], [operand.machine])
    own = with_constant(events, operand.carried)
    for alike in _by_size(count):
        values = int(count[alike].max())
        cells = values * len(operand.machine.states) * operand.carried.width
        at_once = _at_once(windows_at_once(plan), cells)
        member = LaneMember(operand.machine, operand.carried, at_once, 0, slots.own, values)
        lined_up = replace(step_rows([member], own, taken), value=slots.values.slot)
        lanes = LaneMaterial([member], lined_up, taken, [slots.items.at(alike)]).lower_values(in_bursts)
        size = max(size, lanes.bytes)
        limits.check_state(plan.query.name, size, HELD)
        for some in _turns(slots.items, alike, windows_at_once(plan), at_once):
            found = lanes.over(slots.items.at(some)).fold_values()
            if len(some) * values == len(out.mantissa):
                return found, size
            _put(found, count, some, values, out)
    return out, size


def _put(found: Folded, count: NDArray[np.int64], some: NDArray[np.int64], values: int, out: Folded) -> None:
    """The aggregates of some items, of so many values each, to the places of those that an item has."""
    start = np.cumsum(count) - count
    place, is_one = start[some][:, None] + np.arange(values), np.arange(values) < count[some][:, None]
    to, of = place[is_one], is_one.reshape(-1)
    out.mantissa[to], out.exponent[to] = found.mantissa[of], found.exponent[of]


_CELLS = 1 << 16
"""Windows are open at once as long as their numbers stay in the cache."""


def _at_once(windows: int, cells: int) -> int:
    """How many of the windows that hold an event are folded in one pass, given the cells of each."""
    return max(1, min(windows, MOST_WINDOWS, _CELLS // cells))


def _by_size(count: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The items, by how many slots they have: all slots of a pass take part in every event after T."""
    size = np.frexp((count - 1) // VECTOR)[1]
    for each in np.unique(size[count > 0]).tolist():
        yield np.flatnonzero((size == each) & (count > 0))


def _turns(items: Items, some: NDArray[np.int64], windows: int, at_once: int) -> Iterator[NDArray[np.int64]]:
    """Some items, split into passes in which no more than so many windows overlap."""
    turn = items.index[some] % windows // at_once
    for each in range(-(-windows // at_once)):
        yield some[turn == each]
