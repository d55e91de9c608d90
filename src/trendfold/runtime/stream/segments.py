"""The segments of a group of queries that is folded online: their keys, and the numbers they have there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.events.batch import EventBatch
from trendfold.events.columns import decoded
from trendfold.query.nodes import GroupKey
from trendfold.runtime.pieces import as_batch, concat
from trendfold.runtime.spark.tasks import Job
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.online_groups import OnlineGroup
from trendfold.runtime.stream.shard_state import GroupState, ShardIndex, Store
from trendfold.runtime.workspace import Workspace

Longs = NDArray[np.int64]
_ONE = "the only segment"
"""The column of keys where no attribute tells segments apart."""
_VALUE, _HAS_VALUE = "value {}", "has a value"
"""The columns of GROUP BY T.g, and which rows have a value: those of streams."""


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


def _no_values(group: OnlineGroup, schema: pa.Schema, count: int) -> dict[str, pa.Array]:
    """The columns of GROUP BY T.g, for segments without a value of it."""
    found = {_VALUE.format(i): pa.nulls(count, schema.field(k.attribute).type) for i, k in _values(group)}
    return found | ({_HAS_VALUE: pa.array(np.zeros(count, np.bool_))} if found else {})


def _values(group: OnlineGroup) -> Iterator[tuple[int, GroupKey]]:
    return enumerate(group.qualified)


@dataclass
class SegmentKeys:
    """The keys of all segments that have vectors; the place of a key is the segment's number.

    With GROUP BY T.g, a segment is the base of streams, which have a key and a number each (group_streams).
    """

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
            return self._based(keys_of(self.group, self.job.schema.empty_table(), np.zeros(0, np.int64)))
        return layout.from_bytes(self.store.get(self.state.keys))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def _based(self, keys: pa.Table) -> pa.Table:
        """Keys of segments as rows of the table."""
        for name, column in _no_values(self.group, self.job.schema, keys.num_rows).items():
            keys = keys.append_column(name, column)
        return keys

    def batch(self) -> EventBatch:
        """The keys as rows; after them, per key of GROUP BY T.g, as many rows with its values."""
        parts = [as_batch(self.table, self.job.schema, self.job.nothing).table]
        for i, key in _values(self.group):
            values = self.table.select([_VALUE.format(i)]).rename_columns([key.attribute])
            parts.append(as_batch(values, self.job.schema, self.job.nothing).table)
        return as_batch(pa.concat_tables(parts), self.job.schema, self.job.nothing)

    @property
    def bases(self) -> Longs:
        """The numbers of segments; the others are those of streams."""
        if not self.group.qualified:
            return np.arange(len(self))
        return np.flatnonzero(~self.table.column(_HAS_VALUE).to_numpy())

    def find(self, keys: pa.Table) -> Longs:
        """The numbers of segments, -1 for those that have none."""
        bases = self.bases
        if not len(bases):
            return np.full(keys.num_rows, -1, np.int64)
        if not self.group.attributes:
            return np.full(keys.num_rows, bases[0])
        known = self.table.select(keys.column_names)
        known = known.take(pa.array(bases)) if len(bases) < len(self) else known
        both = as_batch(concat([known, keys]), self.job.schema, self.job.nothing)
        code, distinct = segment_codes(self.group, Workspace(both))
        number = np.full(distinct, -1, np.int64)
        number[code[: len(bases)]] = bases
        return number[code[len(bases) :]]

    def add(self, keys: pa.Table) -> Longs:
        """Number more segments."""
        return self._add(self._based(keys))

    def _add(self, keys: pa.Table) -> Longs:
        before = len(self)
        self.table = concat([self.table, keys]) if before else keys
        self.__dict__.pop("base_of", None)
        self.is_changed = True
        return np.arange(before, len(self))

    # ------------------------------------------------------------ streams of GROUP BY T.g

    @cached_property
    def base_of(self) -> Longs:
        """Per number that of the segment."""
        return self.find(self.table.select(list(self.group.attributes) or [_ONE]))

    def values(self, workspace: Workspace) -> tuple[Longs, Longs]:
        """Codes of the values of T.g: per row of a batch, and per number here, -1 for a segment."""
        names = [key.attribute for key in self.group.qualified]
        own = self.table.select([_VALUE.format(i) for i in range(len(names))]).rename_columns(names)
        rows = {name: decoded(workspace.batch.table.column(name)) for name in names}
        both = as_batch(concat([own, pa.table(rows)]), self.job.schema, self.job.nothing)
        code, _ = Workspace(both).partition((), tuple(names))
        code = code.astype(np.int64)
        has_value = self.table.column(_HAS_VALUE).to_numpy()
        return code[len(self) :], np.where(has_value, code[: len(self)], -1)

    def add_streams(self, base: Longs, table: pa.Table, rows: Longs) -> Longs:
        """Number streams of segments, with the values of some rows."""
        keys = self.table.select(list(self.group.attributes) or [_ONE]).take(pa.array(base))
        for i, key in _values(self.group):
            keys = keys.append_column(
                _VALUE.format(i), decoded(table.column(key.attribute).take(pa.array(rows)))
            )
        return self._add(keys.append_column(_HAS_VALUE, pa.array(np.ones(len(base), np.bool_))))

    def keep(self, segments: Longs) -> None:
        """Keep some segments only; they are numbered anew in this order."""
        self.table = self.table.take(pa.array(segments))
        self.__dict__.pop("base_of", None)
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
