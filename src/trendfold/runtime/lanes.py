"""GROUP BY T.g in one pass: groups as lanes, where the machine allows it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel import lanes as kernels
from trendfold.kernel.lower import lower_lanes
from trendfold.kernel.program import Events, Folded
from trendfold.plan import QueryPlan
from trendfold.query.nodes import Semantics
from trendfold.runtime.limits import Limits
from trendfold.runtime.rows import Rows, Workspace
from trendfold.runtime.windows import Items


def applies(plan: QueryPlan) -> bool:
    """Whether the groups of a query can be lanes; otherwise each gets a stream of its own.

    HAVING may ask for exact values, which are computed stream by stream; a window that moves with every
    event depends on its own group's events.
    """
    if len(plan.operands) != 1 or len({key.alias for key in plan.qualified_keys}) != 1:
        return False
    (operand,) = plan.operands
    query, machine = plan.query, operand.machine
    is_per_event = query.window is not None and query.window.slide is None
    return (
        query.semantics is Semantics.ANY
        and query.having is None
        and not is_per_event
        and not machine.by_event
        and not machine.automaton.guards
        and not operand.carried.extremes
    )


@dataclass(frozen=True)
class Lanes:
    """The groups of every segment, side by side.

    lane   int32[n]    the lane of a row that can take T, in its segment; else -1
    start  int64[s+1]  where each segment's lanes begin, numbered through
    """

    lane: NDArray[np.int32]
    start: NDArray[np.int64]
    own: frozenset[int]

    def per_lane(self, items: Items, query: str, limits: Limits) -> Items:
        """Each item once per lane of its segment, as if every lane were a segment."""
        count = np.diff(self.start)[items.segment]
        limits.check_windows(query, int(count.sum()))
        which = np.repeat(np.arange(len(count)), count)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        segment = (self.start[items.segment[which]] + offset).astype(np.int32)
        return Items(segment, items.index[which], items.low[which], items.high[which])


def read_lanes(plan: QueryPlan, workspace: Workspace, rows: Rows) -> tuple[Lanes, Rows]:
    """The lanes of unsplit rows, and the rows with a group per lane."""
    keys = plan.qualified_keys
    own = plan.operands[0].machine.automaton.called(keys[0].alias or "")
    value, distinct = workspace.partition((), tuple(key.attribute for key in keys))
    takes = np.array([bool(symbol & own) for symbol in rows.alphabets[0]], np.bool_)[rows.symbols[0]]
    at = np.flatnonzero(takes)
    owner = np.searchsorted(rows.segment, at, side="right") - 1
    code = value[rows.row[at]].astype(np.int64) if len(value) else np.zeros(len(at), np.int64)
    seen, example, which = np.unique(owner * distinct + code, return_index=True, return_inverse=True)
    start = np.searchsorted(seen // distinct, np.arange(len(rows.segment)))
    lane = np.full(len(rows.row), -1, np.int32)
    lane[at] = which.reshape(-1) - start[owner]
    pairs, representative, group = np.unique(
        rows.group[seen // distinct] * distinct + seen % distinct, return_index=True, return_inverse=True
    )
    kept = {key: row[pairs // distinct] for key, row in rows.group_rows.items()}
    shown = rows.row[at][example][representative]
    grouped = replace(rows, group=group.reshape(-1), group_rows=kept | dict.fromkeys(keys, shown))
    return Lanes(lane, start, own), grouped


def fold(plan: QueryPlan, events: Events, rows: Rows, items: Items, lanes: Lanes) -> Folded:
    """The whole trends of every item and lane, in the order of `Lanes.per_lane`."""
    (operand,) = plan.operands
    program = lower_lanes(operand.machine, rows.alphabets[0], operand.carried, lanes.own)
    count = np.diff(lanes.start)[items.segment]
    size = int(count.sum())
    width = operand.carried.width
    out = Folded(np.zeros((size, width)), np.zeros((size, width), np.int32), np.zeros((size, 0)))
    kernels.fold_lanes(events, lanes.lane, items.low, items.high, count, program, out)
    return out
