"""GROUP BY T.g folded online: a segment becomes a stream per value of T.g, and a base without events of T.

All streams of a segment have its other events. While a window holds no event of T with some value, the vector
of that value would equal the base's: so it begins as a copy of the base's vector with the first such event.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel import rows as kernels
from trendfold.kernel.lower_machine_lanes import Taken
from trendfold.runtime.lane_rows import positions_of_alias
from trendfold.runtime.limits import Limits
from trendfold.runtime.query_rows import Rows
from trendfold.runtime.stream.segments import SegmentKeys
from trendfold.runtime.windows import Items
from trendfold.runtime.workspace import Workspace

Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]

_COPY_BYTES = 40
"""About what the copy of an event in one stream takes."""
_HELD = "a copy of the events per group", "group by an attribute with fewer values"


@dataclass
class GroupStreams:
    """Splits rows into streams.

    segment  per event the number of its segment, which is that of the base
    is_open  per stream whether a window has a vector of it
    number   per segment of the split rows the number of the stream
    takes    per split row whether it can be an event of T with the stream's value
    """

    keys: SegmentKeys
    workspace: Workspace
    segment: Longs
    is_open: Mask
    limits: Limits
    number: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    takes: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))

    def split(self, rows: Rows, taken: Taken) -> tuple[Rows, Taken]:
        """Rows of segments -> rows of streams, and what their kinds mean."""
        group, name = self.keys.group, self.keys.group.plans[0].query.name
        batch, alias = self.workspace.batch, group.qualified[0].alias or ""
        types, positions = positions_of_alias(group.group, taken, alias, batch.type_names)
        own = np.array(sorted(positions), np.int64)
        can_take = np.asarray(taken.is_taken[:, own].any(axis=1))[rows.symbols[0]]
        value, known = self.keys.values(self.workspace)
        value = value[rows.row]
        start, values = self._streams(rows, value, known, can_take)
        is_own = np.array([each in types for each in batch.type_names])[batch.type_code[rows.row]]
        segment = kernels.start_streams(rows.segment, value, is_own, start, values)
        self.limits.check_state(name, int(segment[-1]) * _COPY_BYTES, *_HELD)
        without, grown = _without(taken, own)
        size = int(segment[-1])
        copies = [empty(size, kind) for kind in (np.int64, np.int64, np.int32, np.bool_)]
        given = rows.row, rows.time, rows.symbols[0], without, can_take
        kernels.copy_into_streams(rows.segment, value, is_own, start, values, given, tuple(copies))
        row, time, kind, self.takes = copies
        return replace(rows, row=row, time=time, symbols=(kind,), segment=segment), grown

    def _streams(self, rows: Rows, value: Longs, known: Longs, can_take: Mask) -> tuple[Longs, Longs]:
        """Where the streams of each segment begin, and their values; the base's is -1.

        Values that occur for the first time get streams now. Known ones that no window holds are left out.
        """
        base = self.segment[rows.row[rows.segment[:-1]]]
        owner = np.repeat(np.arange(len(base)), np.diff(rows.segment))
        place = np.full(len(self.keys), -1, np.int64)
        place[base] = np.arange(len(base))
        distinct = int(max(known.max(initial=-1), value.max(initial=-1))) + 2
        own = np.flatnonzero(place[self.keys.base_of] >= 0)
        pairs = place[self.keys.base_of[own]] * distinct + known[own] + 1
        seen, example = np.unique(owner[can_take] * distinct + value[can_take] + 1, return_index=True)
        kept = self.is_open[own] | (known[own] < 0) | np.isin(pairs, seen)
        fresh = ~np.isin(seen, pairs)
        rows_of = rows.row[can_take][example[fresh]]
        added = self.keys.add_streams(base[seen[fresh] // distinct], self.workspace.batch.table, rows_of)
        groups = int((known >= 0).sum()) + len(added)
        self.limits.check_groups(self.keys.group.plans[0].query.name, groups)
        pairs = np.concatenate([pairs[kept], seen[fresh]])
        number = np.concatenate([own[kept], added])
        order = np.argsort(pairs, kind="stable")
        self.number = number[order]
        owners = pairs[order] // distinct
        return np.searchsorted(owners, np.arange(len(base) + 1)), pairs[order] % distinct - 1

    def base(self, stream: Longs) -> Longs:
        """The bases of streams."""
        found: Longs = self.keys.base_of[stream]
        return found

    def begin(self, items: Items) -> Mask:
        """Which windows of streams hold an event of T with the stream's value; a base is one in any case."""
        number, takers = self.number[items.segment], np.flatnonzero(self.takes)
        before, after = np.searchsorted(takers, items.low), np.searchsorted(takers, items.high)
        found: Mask = (after > before) | (self.base(number) == number)
        return found


def _without(taken: Taken, positions: Longs) -> tuple[NDArray[Any], Taken]:
    """Per kind of row the kind without some positions, and all kinds."""
    less = taken.is_taken.copy()
    less[:, positions] = False
    is_other = (less != taken.is_taken).any(axis=1)
    some = is_other & less.any(axis=1)
    kind = np.where(is_other, 0, np.arange(len(less)))
    kind[some] = len(less) + np.arange(some.sum())
    return kind.astype(np.int32), Taken(np.concatenate([taken.is_taken, less[some]]), taken.first)
