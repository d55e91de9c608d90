"""The windows of a group of queries that is folded online: vectors while open, aggregates once ended.

Loaded from a shard's state when they are needed, changed in memory, and written back at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.errors import TrendfoldError
from trendfold.kernel.program import Folded
from trendfold.runtime.folds.continued_lanes import Family, WindowVectors, fresh, whole_trends
from trendfold.runtime.stream.online_groups import OnlineGroup
from trendfold.runtime.stream.packed_columns import pack_columns, unpack_columns
from trendfold.runtime.stream.shard_state import GroupState, ShardIndex, Store, WindowPart
from trendfold.runtime.values import no_trends
from trendfold.runtime.windows import bounds

Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class SegmentVectors:
    """Windows of one kind in some segments: per family of the kind a vector for each of them.

    takers  bool[n, m]  for each member with INCLUDE EMPTY, whether an event can take a positive position
    """

    index: Longs
    segment: Longs
    vectors: tuple[WindowVectors, ...]
    takers: Mask

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: NDArray[Any]) -> SegmentVectors:
        """Some rows: their places, or a mask."""
        vectors = tuple(each.take(rows) for each in self.vectors)
        return SegmentVectors(self.index[rows], self.segment[rows], vectors, self.takers[rows])

    def find(self, index: Longs, segment: Longs) -> Longs:
        """The places of windows in segments, -1 for those that have none."""
        if not len(self) or not len(index):
            return np.full(len(index), -1, np.int64)
        first, last = int(self.index.min()), int(self.index.max())
        segments = int(max(self.segment.max(), segment.max())) + 1
        known, is_inside = (self.index - first) * segments + self.segment, (index >= first) & (index <= last)
        asked = np.where(is_inside, (index - first) * segments + segment, -1)
        if (last - first + 1) * segments <= _DENSE:
            place = np.full((last - first + 1) * segments + 1, -1, np.int64)  # the last is that of -1
            place[known] = np.arange(len(known))
            return place[asked]
        order = np.argsort(known, kind="stable")
        at = order[np.minimum(np.searchsorted(known, asked, sorter=order), len(order) - 1)]
        return np.where(known[at] == asked, at, -1)

    def with_rows(self, place: Longs, other: SegmentVectors) -> SegmentVectors:
        """The same with other rows too; one that has a place here replaces the row there, in place."""
        old = place >= 0
        for mine, new in zip(self.vectors, other.vectors, strict=True):
            mine.put(place[old], new.take(old))
        self.takers[place[old]] = other.takers[old]
        return joined_segments([self, other.take(~old)]) if not old.all() else self


_DENSE = 1 << 22
"""A table of all windows in all segments may have so many entries."""


def joined_segments(parts: Sequence[SegmentVectors]) -> SegmentVectors:
    """All rows of several parts."""
    if len(parts) == 1:
        return parts[0]
    return SegmentVectors(
        np.concatenate([part.index for part in parts]),
        np.concatenate([part.segment for part in parts]),
        tuple(joined_vectors(each) for each in zip(*(part.vectors for part in parts), strict=True)),
        np.concatenate([part.takers for part in parts]),
    )


def joined_vectors(parts: Sequence[WindowVectors]) -> WindowVectors:
    """All vectors of several parts."""
    arrays = [[part.mantissa, part.exponent, part.extreme, part.time] for part in parts]
    return WindowVectors(parts[0].fingerprints, *(np.concatenate(each) for each in zip(*arrays, strict=True)))


@dataclass(frozen=True)
class EndedWindows:
    """The aggregates of windows of one kind that have ended, per window and segment, by operand."""

    index: Longs
    segment: Longs
    folded: tuple[Folded, ...]
    takers: Mask

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: NDArray[Any]) -> EndedWindows:
        """Some rows: their places, or a mask."""
        folded = tuple(some_rows(each, rows) for each in self.folded)
        return EndedWindows(self.index[rows], self.segment[rows], folded, self.takers[rows])

    def with_rows(self) -> EndedWindows:
        """Only those in which some operand has a trend, or that a query reports without one."""
        some = [each.mantissa[:, 0] > 0 for each in self.folded]
        return self.take(np.logical_or.reduce([*some, self.takers.any(axis=1)]))


def some_rows(folded: Folded, rows: NDArray[Any]) -> Folded:
    """Some rows of aggregates: their places, or a mask."""
    return Folded(folded.mantissa[rows], folded.exponent[rows], folded.extreme[rows])


def joined_windows(parts: Sequence[EndedWindows]) -> EndedWindows:
    """All rows of several parts."""
    folded = zip(*(part.folded for part in parts), strict=True)
    return EndedWindows(
        np.concatenate([part.index for part in parts]),
        np.concatenate([part.segment for part in parts]),
        tuple(Folded(*map(np.concatenate, zip(*own, strict=True))) for own in folded),
        np.concatenate([part.takers for part in parts]),
    )


@dataclass
class OpenWindows:
    """The windows of one group in one shard."""

    group: OnlineGroup
    state: GroupState
    index: ShardIndex
    store: Store
    origin: int
    _loaded: dict[int, SegmentVectors] = field(default_factory=dict)
    _changed: set[int] = field(default_factory=set)
    _ended: dict[int, list[EndedWindows]] = field(default_factory=dict)

    # ------------------------------------------------------------ open windows

    def get(self, kind: int) -> SegmentVectors:
        """The vectors of all open windows of a kind."""
        if kind not in self._loaded:
            nothing = tuple(fresh(family, 0) for family in self.group.of_kind(kind))
            takers = np.zeros((0, len(self.group.including_empty(kind))), np.bool_)
            none = SegmentVectors(np.zeros(0, np.int64), np.zeros(0, np.int64), nothing, takers)
            stored = [
                _read_vectors(self.store.get(part.number), self.group, kind, part.first)
                for part in self._stored(kind)
            ]
            self._loaded[kind] = joined_segments(stored or [none])
        return self._loaded[kind]

    def set(self, kind: int, held: SegmentVectors) -> None:
        """Set the vectors of all open windows of a kind."""
        self._loaded[kind] = held
        self._changed.add(kind)

    def _stored(self, kind: int) -> list[WindowPart]:
        window = self.group.windows[kind]
        return [part for part in self.state.open if part.is_of(window)]

    # ------------------------------------------------------------ ended windows

    def close(self, until: int) -> None:
        """End all windows that end by a time."""
        for kind, window in enumerate(self.group.windows):
            if kind in self._loaded or any(part.end(self.origin) <= until for part in self._stored(kind)):
                held = self.get(kind)
                is_over = bounds(window, held.index, self.origin)[1] <= until
                if is_over.any():
                    self._close(kind, held.take(is_over))
                    self.set(kind, held.take(~is_over))

    def _close(self, kind: int, held: SegmentVectors) -> None:
        found: dict[int, Folded] = {}
        for family, vectors in zip(self.group.of_kind(kind), held.vectors, strict=True):
            found |= zip(family.members, whole_trends(family, vectors), strict=True)
        folded = tuple(found[k] for k in sorted(found))
        self.end(kind, EndedWindows(held.index, held.segment, folded, held.takers))

    def end(self, kind: int, ended: EndedWindows) -> None:
        """Add windows that have ended."""
        self._ended.setdefault(kind, []).append(ended.with_rows())

    # ------------------------------------------------------------ state

    def write(self) -> None:
        """Write what has changed."""
        for kind in sorted(self._changed):
            held = self._loaded[kind]
            for part in self._stored(kind):
                self.store.drop(part.number)
                self.state.open.remove(part)
            for low in range(0, len(held), _ROWS):
                some = held.take(np.arange(low, min(low + _ROWS, len(held)))) if len(held) > _ROWS else held
                first, last = int(some.index.min()), int(some.index.max())
                payload = _vector_bytes(some, self.group, kind)
                self.state.open.append(self._part(kind, first, last, len(some), payload))
        self._changed.clear()
        for kind, parts in self._ended.items():
            self.keep_ended(kind, joined_windows(parts))
        self._ended.clear()

    def keep_ended(self, kind: int, ended: EndedWindows) -> None:
        """Store windows that have ended until they are reported."""
        if len(ended):
            first, last = int(ended.index.min()), int(ended.index.max())
            payload = _ended_bytes(ended, self.group, kind)
            self.state.ended.append(self._part(kind, first, last, len(ended), payload))

    def _part(self, kind: int, first: int, last: int, rows: int, payload: bytes) -> WindowPart:
        window, number = self.group.windows[kind], self.index.put(self.store, payload)
        assert window.slide is not None
        return WindowPart(number, window.length, window.slide, first, last, rows, len(payload))

    def take_ended(self, until: int) -> Iterator[tuple[int, EndedWindows]]:
        """Per kind the windows that end by a time; they leave the state."""
        for kind, window in enumerate(self.group.windows):
            own = [p for p in self.state.ended if p.is_of(window) and p.end(self.origin) <= until]
            if not own:
                continue
            found = joined_windows([_read_ended(self.store.get(p.number), self.group, kind) for p in own])
            for part in own:
                self.store.drop(part.number)
                self.state.ended.remove(part)
            is_due = bounds(window, found.index, self.origin)[1] <= until
            self.keep_ended(kind, found.take(~is_due))
            yield kind, found.take(is_due)

    def renumber(self, number_of: Longs) -> None:
        """Give segments other numbers."""
        for kind in {self._kind(part) for part in self.state.open}:
            held = self.get(kind)
            self.set(kind, replace(held, segment=number_of[held.segment]))
        for part in list(self.state.ended):
            kind = self._kind(part)
            found = _read_ended(self.store.get(part.number), self.group, kind)
            self.store.drop(part.number)
            self.state.ended.remove(part)
            self.keep_ended(kind, replace(found, segment=number_of[found.segment]))
        self.write()

    def held(self, segments: int) -> NDArray[np.bool_]:
        """Which of so many segments any open window has a vector of."""
        found = np.zeros(segments, np.bool_)
        for kind in range(len(self.group.windows)):
            found[self.get(kind).segment] = True
        return found

    def used(self) -> Longs:
        """The segments that any window holds."""
        found = [self.get(kind).segment for kind in {self._kind(part) for part in self.state.open}]
        for part in self.state.ended:
            found.append(_read_ended(self.store.get(part.number), self.group, self._kind(part)).segment)
        return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))

    def _kind(self, part: WindowPart) -> int:
        return next(k for k, window in enumerate(self.group.windows) if part.is_of(window))

    def forget_others(self) -> None:
        """Drop windows of kinds that no query has any more."""
        for parts in (self.state.open, self.state.ended):
            for part in list(parts):
                if not any(part.is_of(window) for window in self.group.windows):
                    self.store.drop(part.number)
                    parts.remove(part)


_ROWS = 1 << 16
"""The most vectors in one part of the state."""


# ---------------------------------------------------------------- bytes


def _vector_bytes(held: SegmentVectors, group: OnlineGroup, kind: int) -> bytes:
    """Segments and windows, then per family mantissas, exponents and extremes: [row, state, number, query].

    Last are the takers. Windows are counted from the first of the part. Where durations are added up, it also
    says until when.
    """
    told: list[Any] = []
    places = [held.segment, held.index - held.index.min()]
    places += [each.time for each in held.vectors[:1] if _adds_up_durations(group, kind)]
    arrays: list[NDArray[Any]] = [np.stack(places, axis=1)]
    for family, vectors in zip(group.of_kind(kind), held.vectors, strict=True):
        told.append([[group.operand_names[k] for k in family.members], family.fingerprints])
        for part in (vectors.mantissa, vectors.exponent, vectors.extreme):
            arrays.append(part.reshape(len(part), part[0].size if len(part) else 0))
    header = {"families": told, "takers": _takers_told(group, kind)}
    return pack_columns(header, [*arrays, held.takers.astype(np.uint8)])


def _takers_told(group: OnlineGroup, kind: int) -> list[str]:
    return [str(group.queries[k]) for k in group.including_empty(kind)]


def _read_takers(told: dict[str, Any], array: NDArray[Any], group: OnlineGroup, kind: int, rows: int) -> Mask:
    """What is kept for members with INCLUDE EMPTY; a part of an earlier release has nothing of the kind."""
    place = {name: at for at, name in enumerate(told.get("takers", ()))}
    asked = _takers_told(group, kind)
    found = np.zeros((rows, len(asked)), np.bool_)
    for at, name in enumerate(asked):
        if name in place:
            found[:, at] = array[:, place[name]] > 0
    return found


def _read_vectors(payload: bytes, group: OnlineGroup, kind: int, first: int) -> SegmentVectors:
    """The vectors of the queries that are still asked; `first` is the first window of the part."""
    told, (places, *arrays) = unpack_columns(payload)
    segment = places[:, 0].astype(np.int64)
    # A part of an earlier release holds one window only.
    index = first + (places[:, 1] if places.shape[1] > 1 else np.zeros(len(segment), np.int64))
    found: dict[str, tuple[int, int, str]] = {}
    for i, (names, prints) in enumerate(told["families"]):
        found |= {str(name): (i, at, prints[at]) for at, name in enumerate(names)}
    time = places[:, 2].astype(np.int64) if places.shape[1] > 2 else np.zeros(len(segment), np.int64)
    vectors = []
    for family in group.of_kind(kind):
        # Queries that were added since then have nothing here: their windows begin later.
        known = [lane for lane, k in enumerate(family.members) if group.operand_names[k] in found]
        lanes_of = {k: found[group.operand_names[k]] for k in (family.members[lane] for lane in known)}
        _require_known({k: print_ for k, (_, _, print_) in lanes_of.items()}, family, group)
        held = replace(fresh(family, len(segment)), time=time.copy())
        for i in {i for i, _, _ in lanes_of.values()}:  # queries of one shape stay together
            count, lanes = len(told["families"][i][0]), [at for _, at, _ in lanes_of.values()]
            parts = zip(arrays[3 * i : 3 * i + 3], _sizes(family), strict=True)
            kept = [part.reshape(len(segment), *size[1:3], count)[..., lanes] for part, size in parts]
            held = _with_lanes(held, known, kept)
        vectors.append(held)
    takers = _read_takers(told, arrays[-1], group, kind, len(segment))
    return SegmentVectors(index, segment, tuple(vectors), takers)


def _with_lanes(held: WindowVectors, lanes: list[int], kept: list[NDArray[Any]]) -> WindowVectors:
    """Vectors with those of some lanes: mantissas, exponents and extremes."""
    if len(lanes) == held.mantissa.shape[-1]:
        mantissa, exponent, extreme = kept
        return replace(held, mantissa=mantissa, exponent=exponent, extreme=extreme)
    parts: tuple[NDArray[Any], ...] = held.mantissa, held.exponent, held.extreme
    for part, own in zip(parts, kept, strict=True):
        part[..., lanes] = own
    return held


def _adds_up_durations(group: OnlineGroup, kind: int) -> bool:
    return any(family.carried.elapsed for family in group.of_kind(kind))


def _sizes(family: Family) -> tuple[tuple[int, ...], ...]:
    numbers, extremes = family.sizes(1)
    return numbers, numbers, extremes


def _require_known(prints: Mapping[int, str], family: Family, group: OnlineGroup) -> None:
    for k, now in zip(family.members, family.fingerprints, strict=True):
        if prints.get(k, now) != now:
            raise TrendfoldError(
                f"query {group.owner(k).query.name!r}: this release keeps its open windows differently from "
                f"the one that wrote the checkpoint; use that release, or start with a new checkpoint"
            )


def _ended_bytes(ended: EndedWindows, group: OnlineGroup, kind: int) -> bytes:
    """Windows and segments, then the numbers, exponents and extremes of all operands side by side."""
    told = [
        [group.operand_names[k], part.mantissa.shape[1], part.extreme.shape[1]]
        for k, part in zip(group.operands(kind), ended.folded, strict=True)
    ]
    arrays = [np.concatenate(parts, axis=1) for parts in zip(*ended.folded, strict=True)]
    places = np.stack([ended.index, ended.segment], axis=1)
    header = {"queries": told, "takers": _takers_told(group, kind)}
    return pack_columns(header, [places, *arrays, ended.takers.astype(np.uint8)])


def _read_ended(payload: bytes, group: OnlineGroup, kind: int) -> EndedWindows:
    told, (places, mantissa, exponent, extreme, *more) = unpack_columns(payload)
    found, at, xat = {}, 0, 0
    for name, width, extremes in told["queries"]:
        own = slice(at, at + width)
        found[str(name)] = Folded(mantissa[:, own], exponent[:, own], extreme[:, xat : xat + extremes])
        at, xat = at + width, xat + extremes
    nothing = {
        k: no_trends(len(places), family.carried.width, len(family.carried.extremes))
        for family in group.of_kind(kind)
        for k in family.members
    }  # of queries that were added since then
    folded = tuple(found.get(group.operand_names[k], nothing[k]) for k in group.operands(kind))
    takers = _read_takers(told, more[-1] if more else extreme, group, kind, len(places))
    return EndedWindows(places[:, 0].copy(), places[:, 1].copy(), folded, takers)
