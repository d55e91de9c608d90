"""GROUP BY T.g in one pass: from T on, each value of g has its own slot (see kernel.lanes)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trendfold.kernel import lanes as kernels
from trendfold.kernel.lower import lower_lanes
from trendfold.kernel.program import Events, Folded
from trendfold.plan import QueryPlan
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.value_slots import ValueSlots, assign_slots
from trendfold.runtime.values import no_trends
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


def fold_slots(plan: QueryPlan, events: Events, rows: Rows, slots: GroupSlots) -> tuple[Folded, int]:
    """The aggregates of every item and slot, in the order of `GroupSlots.per_slot`, and bytes of state."""
    (operand,) = plan.operands
    program = lower_lanes(operand.machine, rows.alphabets[0], operand.carried, slots.own)
    items, count = slots.items, slots.values.count(slots.items)
    out = no_trends(int(count.sum()), operand.carried.width, 0)
    kernels.fold_lanes(events, slots.values.slot, items.low, items.high, count, program, out)
    states = len(operand.machine.states) * int(count.max(initial=0))
    return out, 12 * states * operand.carried.width
