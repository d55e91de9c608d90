"""The bindings of open windows, for a query that compares neighbours and is folded online.

A binding is the event that made it, its *representative*, and its mass in each open window. All windows of a
segment share the events.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.kernel.continued_bindings import Masses
from trendfold.runtime.folds.continued_neighbours import (
    BindingFamily,
    joined_masses,
    no_masses,
    some_masses,
)
from trendfold.runtime.pieces import concat
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.online_groups import OnlineGroup
from trendfold.runtime.stream.packed_columns import pack_columns, unpack_columns
from trendfold.runtime.stream.shard_state import GroupState, ShardIndex, Store, WindowPart
from trendfold.runtime.windows import bounds

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class SegmentBindings:
    """The bindings of some segments.

    events   the representatives
    segment  per representative
    index    per mass its window; `masses.row` is its representative
    """

    events: pa.Table
    segment: Longs
    index: Longs
    masses: Masses

    def of(self, representatives: NDArray[np.bool_]) -> SegmentBindings:
        """Some representatives with their masses."""
        if representatives.all():
            return self
        own = representatives[self.masses.row]
        number = np.cumsum(representatives) - 1
        masses = some_masses(self.masses, own)
        masses = masses._replace(row=number[masses.row].astype(np.int32))
        return SegmentBindings(
            self.events.filter(pa.array(representatives)),
            self.segment[representatives],
            self.index[own],
            masses,
        )

    def and_more(self, other: SegmentBindings) -> SegmentBindings:
        """With the bindings of other segments."""
        if not len(self.segment):
            return other
        moved = other.masses._replace(row=other.masses.row + np.int32(len(self.segment)))
        return SegmentBindings(
            concat([self.events, other.events]),
            np.concatenate([self.segment, other.segment]),
            np.concatenate([self.index, other.index]),
            joined_masses([self.masses, moved]),
        )

    def of_windows(self, kept: NDArray[np.bool_]) -> SegmentBindings:
        """Some masses, and the representatives that have any."""
        if kept.all():
            return self
        part = replace(self, index=self.index[kept], masses=some_masses(self.masses, kept))
        used = np.zeros(len(self.segment), np.bool_)
        used[part.masses.row] = True
        return part.of(used)


@dataclass
class OpenBindings:
    """The bindings of one group in one shard: loaded when they are needed, and written back at the end."""

    group: OnlineGroup
    state: GroupState
    index: ShardIndex
    store: Store
    origin: int
    _loaded: SegmentBindings | None = None
    _is_changed: bool = field(default=False)

    @property
    def family(self) -> BindingFamily:
        """What a window saves."""
        (family,) = self.group.families
        assert isinstance(family, BindingFamily)
        return family

    def get(self, like: pa.Table) -> SegmentBindings:
        """All bindings; `like` has the columns of events."""
        if self._loaded is None:
            stored = [_read(self.store.get(part.number)) for part in self.state.kept]
            none = np.zeros(0, np.int64)
            nothing = SegmentBindings(like.slice(0, 0), none, none, no_masses(0, *self.family.entry))
            self._loaded = stored[0] if stored else nothing
        return self._loaded

    def set(self, found: SegmentBindings) -> None:
        """Set all bindings."""
        self._loaded, self._is_changed = found, True

    def close(self, until: int) -> None:
        """Drop the bindings of windows that end by a time."""
        if not self._is_changed and not any(part.end(self.origin) <= until for part in self.state.kept):
            return
        found = self._loaded or _read(self.store.get(self.state.kept[0].number))
        is_open = bounds(self.group.windows[0], found.index, self.origin)[1] > until
        self.set(found.of_windows(is_open))

    def renumber(self, number_of: Longs) -> None:
        """Give segments other numbers."""
        if self.state.kept:
            found = self._loaded or _read(self.store.get(self.state.kept[0].number))
            self.set(replace(found, segment=number_of[found.segment]))
            self.write()

    def write(self) -> None:
        """Write what has changed."""
        if not self._is_changed or self._loaded is None:
            return
        for part in self.state.kept:
            self.store.drop(part.number)
        self.state.kept.clear()
        found, window = self._loaded, self.group.windows[0]
        if len(found.index):
            payload = _to_bytes(found)
            assert window.slide is not None
            span = int(found.index.min()), int(found.index.max())
            number = self.index.put(self.store, payload)
            self.state.kept.append(
                WindowPart(number, window.length, window.slide, *span, len(found.index), len(payload))
            )
        self._is_changed = False


def _to_bytes(found: SegmentBindings) -> bytes:
    """Representatives, then segments, places of masses, and their numbers."""
    events, masses = layout.to_bytes(found.events), found.masses
    places = np.stack([found.index - found.index.min(), masses.row, masses.place], axis=1)
    arrays: list[NDArray[Any]] = [found.segment[:, None], places, masses.mantissa]
    numbers = pack_columns({"first": int(found.index.min())}, [*arrays, masses.exponent, masses.extreme])
    return b"".join([len(events).to_bytes(8, "little"), events, numbers])


def _read(payload: bytes) -> SegmentBindings:
    size = 8 + int.from_bytes(payload[:8], "little")
    told, (segment, places, mantissa, exponent, extreme) = unpack_columns(payload[size:])
    index, row, place = places.T
    masses = Masses(row.astype(np.int32), place.astype(np.int32), mantissa, exponent, extreme)
    return SegmentBindings(layout.from_bytes(payload[8:size]), segment[:, 0], index + told["first"], masses)
