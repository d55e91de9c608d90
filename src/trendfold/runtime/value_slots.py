"""GROUP BY T.g with the values of g as slots: rows stay in one stream per partition, and are not copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.query.nodes import GroupKey
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.windows import Items
from trendfold.runtime.workspace import Workspace


@dataclass(frozen=True)
class ValueSlots:
    """The group values of every segment, numbered as slots.

    slot   int32[n]    the slot, within its segment, of a row that can take T; else -1
    start  int64[s+1]  where each segment's slots begin, numbered consecutively
    """

    slot: NDArray[np.int32]
    start: NDArray[np.int64]

    @property
    def most(self) -> int:
        """The most values of a segment."""
        return int(np.diff(self.start).max(initial=0))

    def count(self, items: Items) -> NDArray[np.int64]:
        """How many slots each window item has."""
        return np.diff(self.start)[items.segment]

    def per_slot(self, items: Items, query: str, limits: Limits) -> Items:
        """Repeat each item for every slot of its segment, as if each slot were a segment."""
        count = self.count(items)
        limits.check_windows(query, int(count.sum()))
        which = np.repeat(np.arange(len(count)), count)
        segment = (self.start[items.segment[which]] + _places(count)).astype(np.int32)
        return Items(segment, items.index[which], items.low[which], items.high[which])

    def places(self, items: Items) -> NDArray[np.int64]:
        """The slot, within its segment, of every item of `per_slot`."""
        return _places(self.count(items))


def _places(count: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... so many times, one after another."""
    return np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)


def assign_slots(
    keys: Sequence[GroupKey], takes: NDArray[np.bool_], rows: Rows, workspace: Workspace
) -> tuple[ValueSlots, Rows]:
    """Assign slots to the rows that can take T, and set a group per slot."""
    value, distinct = workspace.partition((), tuple(key.attribute for key in keys))
    at = np.flatnonzero(takes)
    owner = np.searchsorted(rows.segment, at, side="right") - 1
    code = value[rows.row[at]].astype(np.int64) if len(value) else np.zeros(len(at), np.int64)
    seen, example, which = _numbered(owner * distinct + code, (len(rows.segment) - 1) * distinct)
    start = np.searchsorted(seen // distinct, np.arange(len(rows.segment)))
    slot = np.full(len(rows.row), -1, np.int32)
    slot[at] = which - start[owner]
    pairs, representative, group = _numbered(
        rows.group[seen // distinct] * distinct + seen % distinct,
        (int(rows.group.max(initial=-1)) + 1) * distinct,
    )
    kept = {key: row[pairs // distinct] for key, row in rows.group_rows.items()}
    shown = rows.row[at][example][representative]
    return ValueSlots(slot, start), replace(rows, group=group, group_rows=kept | dict.fromkeys(keys, shown))


def _numbered(codes: NDArray[Any], limit: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Distinct codes below a limit, sorted; where each comes first; and which one each code is."""
    if limit > 8 * len(codes) + 1024:
        seen, first, which = np.unique(codes, return_index=True, return_inverse=True)
        return seen, first, which.reshape(-1)
    at = np.full(limit, -1, np.int64)
    at[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last to be written is the first of its code
    seen = np.flatnonzero(at >= 0)
    number = np.zeros(limit, np.int64)
    number[seen] = np.arange(len(seen))
    return seen, at[seen], number[codes]
