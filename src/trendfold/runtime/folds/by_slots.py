"""GROUP BY T.g in one pass: from T on, each value of g has its own slot (see kernel.lanes)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel import lanes as kernels
from trendfold.kernel.lower import lower_lanes
from trendfold.kernel.program import Events, Folded
from trendfold.plan import QueryPlan
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.values import no_trends
from trendfold.runtime.windows import Items
from trendfold.runtime.workspace import Workspace


@dataclass(frozen=True)
class GroupSlots:
    """The group values of every segment as slots.

    slot   int32[n]       the slot, within its segment, of a row that can take T; else -1
    start  int64[s+1]     where each segment's slots begin, numbered consecutively
    own    the positions of T
    items  the windows of all slots together
    """

    slot: NDArray[np.int32]
    start: NDArray[np.int64]
    own: frozenset[int]
    items: Items

    def per_slot(self, query: str, limits: Limits) -> Items:
        """Repeat each item for every slot of its segment, as if each slot were a segment."""
        items = self.items
        count = np.diff(self.start)[items.segment]
        limits.check_windows(query, int(count.sum()))
        which = np.repeat(np.arange(len(count)), count)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        segment = (self.start[items.segment[which]] + offset).astype(np.int32)
        return Items(segment, items.index[which], items.low[which], items.high[which])


def read_slots(plan: QueryPlan, workspace: Workspace, rows: Rows, items: Items) -> tuple[GroupSlots, Rows]:
    """Assign slots to rows that are not split by group, and set a group per slot."""
    keys = plan.qualified_keys
    own = plan.operands[0].machine.automaton.called(keys[0].alias or "")
    value, distinct = workspace.partition((), tuple(key.attribute for key in keys))
    takes = np.array([bool(symbol & own) for symbol in rows.alphabets[0]], np.bool_)[rows.symbols[0]]
    at = np.flatnonzero(takes)
    owner = np.searchsorted(rows.segment, at, side="right") - 1
    code = value[rows.row[at]].astype(np.int64) if len(value) else np.zeros(len(at), np.int64)
    seen, example, which = np.unique(owner * distinct + code, return_index=True, return_inverse=True)
    start = np.searchsorted(seen // distinct, np.arange(len(rows.segment)))
    slot = np.full(len(rows.row), -1, np.int32)
    slot[at] = which.reshape(-1) - start[owner]
    pairs, representative, group = np.unique(
        rows.group[seen // distinct] * distinct + seen % distinct, return_index=True, return_inverse=True
    )
    kept = {key: row[pairs // distinct] for key, row in rows.group_rows.items()}
    shown = rows.row[at][example][representative]
    grouped = replace(rows, group=group.reshape(-1), group_rows=kept | dict.fromkeys(keys, shown))
    return GroupSlots(slot, start, own, items), grouped


def fold_slots(plan: QueryPlan, events: Events, rows: Rows, slots: GroupSlots) -> tuple[Folded, int]:
    """The aggregates of every item and slot, in the order of `GroupSlots.per_slot`, and bytes of state."""
    (operand,) = plan.operands
    program = lower_lanes(operand.machine, rows.alphabets[0], operand.carried, slots.own)
    items = slots.items
    count = np.diff(slots.start)[items.segment]
    out = no_trends(int(count.sum()), operand.carried.width, 0)
    kernels.fold_lanes(events, slots.slot, items.low, items.high, count, program, out)
    states = len(operand.machine.states) * int(count.max(initial=0))
    return out, 12 * states * operand.carried.width
