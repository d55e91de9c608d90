"""The segments of a group of queries that is folded online: their keys, and the numbers they have there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch
from trendfold.events.columns import decoded
from trendfold.runtime.pieces import as_batch, concat
from trendfold.runtime.spark.tasks import Job
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.online_groups import OnlineGroup
from trendfold.runtime.stream.shard_state import GroupState, ShardIndex, Store
from trendfold.runtime.workspace import Workspace

Longs = NDArray[np.int64]
_ONE = "the only segment"
"""The column of keys where no attribute tells segments apart."""


def segment_codes(group: OnlineGroup, workspace: Workspace) -> tuple[NDArray[np.int64], int]:
    """A code of every row's segment, -1 where it is in none, and how many there may be."""
    code, distinct = workspace.partition(*group.partitioning)
    found = code if len(code) else np.zeros(len(workspace.batch), np.int64)
    return found.astype(np.int64, copy=False), distinct


def examples(code: Longs, distinct: int) -> tuple[Longs, Longs]:
    """The codes that occur, and for each the first row that has it."""
    first = np.full(distinct + 1, -1, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)  # the last assignment stays; -1 is the last place
    present = np.flatnonzero(first[:-1] >= 0)
    return present, first[present]


def keys_of(group: OnlineGroup, table: pa.Table, rows: Longs) -> pa.Table:
    """The keys of the segments of some rows."""
    at = pa.array(rows)
    columns = {name: decoded(table.column(name).take(at)) for name in group.attributes}
    return pa.table(columns or {_ONE: np.zeros(len(rows), np.int8)})


@dataclass
class SegmentKeys:
    """The keys of all segments that have vectors; the place of a key is the segment's number."""

    group: OnlineGroup
    state: GroupState
    index: ShardIndex
    store: Store
    job: Job
    is_changed: bool = False

    @cached_property
    def table(self) -> pa.Table:
        """The keys, a row per segment."""
        if self.state.keys < 0:
            return keys_of(self.group, self.job.schema.empty_table(), np.zeros(0, np.int64))
        return layout.from_bytes(self.store.get(self.state.keys))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def batch(self) -> EventBatch:
        """The keys as rows."""
        return as_batch(self.table, self.job.schema, self.job.nothing)

    def find(self, keys: pa.Table) -> Longs:
        """The numbers of segments, -1 for those that have none."""
        if not len(self):
            return np.full(keys.num_rows, -1, np.int64)
        if not self.group.attributes:
            return np.zeros(keys.num_rows, np.int64)
        both = as_batch(concat([self.table, keys]), self.job.schema, self.job.nothing)
        code, distinct = segment_codes(self.group, Workspace(both))
        number = np.full(distinct, -1, np.int64)
        number[code[: len(self)]] = np.arange(len(self))
        return number[code[len(self) :]]

    def add(self, keys: pa.Table) -> Longs:
        """Number more segments."""
        before = len(self)
        self.table = concat([self.table, keys]) if before else keys
        self.is_changed = True
        return np.arange(before, len(self))

    def keep(self, segments: Longs) -> None:
        """Keep some segments only; they are numbered anew in this order."""
        self.table = self.table.take(pa.array(segments))
        self.is_changed = True

    def write(self) -> None:
        """Write the keys if they have changed."""
        if not self.is_changed:
            return
        if self.state.keys >= 0:
            self.store.drop(self.state.keys)
        payload = layout.to_bytes(self.table)
        self.state.keys = self.index.put(self.store, payload) if len(self) else -1
        self.state.segments, self.state.key_bytes = len(self), len(payload) if len(self) else 0
        self.is_changed = False
