"""The windows of a group of queries that is folded online: vectors while open, aggregates once ended.

Loaded from a shard's state when they are needed, changed in memory, and written back at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.errors import TrendfoldError
from trendfold.kernel.program import Folded
from trendfold.query.nodes import Window
from trendfold.runtime.folds.continued_lanes import LaneFamily, WindowVectors, whole_trends
from trendfold.runtime.stream.online_groups import OnlineGroup
from trendfold.runtime.stream.packed_columns import pack_columns, unpack_columns
from trendfold.runtime.stream.shard_state import GroupState, ShardIndex, Store, WindowPart
from trendfold.runtime.windows import bounds

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class SegmentVectors:
    """One window in some segments: per family of its kind a vector for each of them."""

    segment: Longs
    vectors: tuple[WindowVectors, ...]

    def with_rows(self, segment: Longs, vectors: Sequence[WindowVectors]) -> SegmentVectors:
        """The same with the vectors of other segments in addition, or instead of those they have."""
        is_new = np.zeros(max(self.segment.max(initial=-1), segment.max(initial=-1)) + 1, np.bool_)
        is_new[segment] = True
        stay = ~is_new[self.segment]
        kept = np.concatenate([self.segment[stay], segment])
        pairs = zip(self.vectors, vectors, strict=True)
        return SegmentVectors(kept, tuple(joined_vectors([old.take(stay), new]) for old, new in pairs))


def joined_vectors(parts: Sequence[WindowVectors]) -> WindowVectors:
    """All vectors of several parts."""
    arrays = [[part.mantissa, part.exponent, part.extreme] for part in parts]
    return WindowVectors(parts[0].fingerprints, *(np.concatenate(each) for each in zip(*arrays, strict=True)))


@dataclass(frozen=True)
class EndedWindows:
    """The aggregates of windows of one kind that have ended, per window and segment, by operand."""

    index: Longs
    segment: Longs
    folded: tuple[Folded, ...]

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: NDArray[Any]) -> EndedWindows:
        """Some rows: their places, or a mask."""
        folded = tuple(some_rows(each, rows) for each in self.folded)
        return EndedWindows(self.index[rows], self.segment[rows], folded)

    def with_trends(self) -> EndedWindows:
        """Only the rows in which some operand has a trend."""
        return self.take(np.logical_or.reduce([each.mantissa[:, 0] > 0 for each in self.folded]))


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
    )


@dataclass
class OpenWindows:
    """The windows of one group in one shard."""

    group: OnlineGroup
    state: GroupState
    index: ShardIndex
    store: Store
    origin: int
    _loaded: dict[tuple[int, int], SegmentVectors] = field(default_factory=dict)
    _changed: set[tuple[int, int]] = field(default_factory=set)
    _ended: dict[int, list[EndedWindows]] = field(default_factory=dict)

    # ------------------------------------------------------------ open windows

    def known(self, kind: int) -> set[int]:
        """The windows of a kind that are open."""
        window = self.group.windows[kind]
        stored = {part.first for part in self.state.open if part.is_of(window)}
        return stored | {number for which, number in self._loaded if which == kind}

    def get(self, kind: int, number: int) -> SegmentVectors:
        """The vectors of an open window."""
        if (kind, number) not in self._loaded:
            (part,) = self._stored(kind, number)
            self._loaded[kind, number] = _read_vectors(self.store.get(part.number), self.group, kind)
        return self._loaded[kind, number]

    def put(self, kind: int, number: int, segment: Longs, vectors: Sequence[WindowVectors]) -> None:
        """Set the vectors of some segments in a window."""
        if number in self.known(kind):
            made = self.get(kind, number).with_rows(segment, vectors)
        else:
            made = SegmentVectors(segment, tuple(vectors))
        self._loaded[kind, number] = made
        self._changed.add((kind, number))

    def _stored(self, kind: int, number: int) -> list[WindowPart]:
        window = self.group.windows[kind]
        return [part for part in self.state.open if part.is_of(window) and part.first == number]

    # ------------------------------------------------------------ ended windows

    def close(self, until: int) -> None:
        """End all windows that end by a time."""
        for kind, window in enumerate(self.group.windows):
            for number in sorted(self.known(kind)):
                if window_end(window, number, self.origin) <= until:
                    self._close(kind, number)

    def _close(self, kind: int, number: int) -> None:
        held = self.get(kind, number)
        families = self.group.of_kind(kind)
        found: dict[int, Folded] = {}
        for family, vectors in zip(families, held.vectors, strict=True):
            found |= zip(family.members, whole_trends(family, vectors), strict=True)
        folded = tuple(found[k] for k in sorted(found))
        self.end(kind, EndedWindows(np.full(len(held.segment), number), held.segment, folded))
        self._drop(kind, number)

    def end(self, kind: int, ended: EndedWindows) -> None:
        """Add windows that have ended."""
        self._ended.setdefault(kind, []).append(ended.with_trends())

    def _drop(self, kind: int, number: int) -> None:
        for part in self._stored(kind, number):
            self.store.drop(part.number)
            self.state.open.remove(part)
        self._loaded.pop((kind, number), None)
        self._changed.discard((kind, number))

    # ------------------------------------------------------------ state

    def write(self) -> None:
        """Write what has changed."""
        for kind, number in sorted(self._changed):
            held = self._loaded[kind, number]
            for part in self._stored(kind, number):
                self.store.drop(part.number)
                self.state.open.remove(part)
            payload = _vector_bytes(held, self.group, kind)
            self.state.open.append(self._part(kind, number, number, len(held.segment), payload))
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
        for part in list(self.state.open):
            kind = self._kind(part)
            held = self.get(kind, part.first)
            self._loaded[kind, part.first] = replace(held, segment=number_of[held.segment])
            self._changed.add((kind, part.first))
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
            for number in self.known(kind):
                found[self.get(kind, number).segment] = True
        return found

    def used(self) -> Longs:
        """The segments that any window holds."""
        found = [self.get(self._kind(part), part.first).segment for part in self.state.open]
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


def window_end(window: Window, number: int, origin: int) -> int:
    """When a window ends."""
    assert window.slide is not None
    return origin + number * window.slide + window.length


# ---------------------------------------------------------------- bytes


def _vector_bytes(held: SegmentVectors, group: OnlineGroup, kind: int) -> bytes:
    """The segments, then per family mantissas, exponents and extremes: [segment, state, number, query]."""
    told: list[Any] = []
    arrays: list[NDArray[Any]] = [held.segment[:, None]]
    for family, vectors in zip(group.of_kind(kind), held.vectors, strict=True):
        told.append([[group.operand_names[k] for k in family.members], family.fingerprints])
        for part in (vectors.mantissa, vectors.exponent, vectors.extreme):
            arrays.append(part.reshape(len(part), part[0].size if len(part) else 0))
    return pack_columns({"families": told}, arrays)


def _read_vectors(payload: bytes, group: OnlineGroup, kind: int) -> SegmentVectors:
    """The vectors of the queries that are still asked."""
    told, (segment, *arrays) = unpack_columns(payload)
    found: dict[str, tuple[int, int, str]] = {}
    for i, (names, prints) in enumerate(told["families"]):
        found |= {str(name): (i, at, prints[at]) for at, name in enumerate(names)}
    vectors = []
    for family in group.of_kind(kind):
        places = [found[group.operand_names[k]] for k in family.members]
        _require_known([print_ for _, _, print_ in places], family, group)
        which = {i for i, _, _ in places}
        assert len(which) == 1  # queries of one shape stay together
        i, count = which.pop(), len(told["families"][places[0][0]][0])
        lanes = [at for _, at, _ in places]
        own = [
            part.reshape(len(segment), *size[1:3], count)[..., lanes]
            for part, size in zip(arrays[3 * i : 3 * i + 3], _sizes(family), strict=True)
        ]
        vectors.append(WindowVectors(family.fingerprints, *own))
    return SegmentVectors(segment[:, 0].astype(np.int64), tuple(vectors))


def _sizes(family: LaneFamily) -> tuple[tuple[int, ...], ...]:
    numbers, extremes = family.sizes(1)
    return numbers, numbers, extremes


def _require_known(prints: Sequence[str], family: LaneFamily, group: OnlineGroup) -> None:
    for k, was, now in zip(family.members, prints, family.fingerprints, strict=True):
        if was != now:
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
    return pack_columns({"queries": told}, [places, *arrays])


def _read_ended(payload: bytes, group: OnlineGroup, kind: int) -> EndedWindows:
    told, (places, mantissa, exponent, extreme) = unpack_columns(payload)
    found, at, xat = {}, 0, 0
    for name, width, extremes in told["queries"]:
        own = slice(at, at + width)
        found[str(name)] = Folded(mantissa[:, own], exponent[:, own], extreme[:, xat : xat + extremes])
        at, xat = at + width, xat + extremes
    folded = tuple(found[group.operand_names[k]] for k in group.operands(kind))
    return EndedWindows(places[:, 0].copy(), places[:, 1].copy(), folded)
