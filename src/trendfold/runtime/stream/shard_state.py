"""The state of a shard: an index, and numbered parts of bytes that it lists.

A part holds raw events of an exchange; or, of a group of queries that are folded online, the keys of its
segments, the vectors or bindings of open windows, or the aggregates of windows that have ended; or, of a
query with a window per event, matrices.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from trendfold.query.nodes import Window
from trendfold.runtime.release import ALWAYS, NEVER
from trendfold.runtime.stream import layout


class Store(Protocol):
    """Storage for a shard's state: an index, and numbered parts."""

    def index(self) -> str | None:
        """Read the index; None if the shard has no state."""

    def set_index(self, text: str) -> None:
        """Write the index."""

    def get(self, number: int) -> bytes:
        """Read a part."""

    def put(self, number: int, payload: bytes) -> None:
        """Write a part."""

    def drop(self, number: int) -> None:
        """Delete a part."""

    def clear(self) -> None:
        """Delete the shard's state."""


@dataclass(slots=True)
class StatePart:
    """Raw events of one exchange; `is_settled` if groups that are folded online have folded theirs."""

    number: int
    exchange: int
    low: int
    high: int
    rows: int
    bytes: int
    is_settled: bool = False


@dataclass(slots=True)
class WindowPart:
    """Vectors or aggregates of the windows [first, last] of one kind, in `rows` segments."""

    number: int
    length: int
    slide: int
    first: int
    last: int
    rows: int
    bytes: int

    def end(self, origin: int) -> int:
        """When the first of them ends."""
        return origin + self.first * self.slide + self.length

    def is_of(self, window: Window) -> bool:
        """Whether they are windows of this kind."""
        return (self.length, self.slide) == (window.length, window.slide)


def _told(part: StatePart | WindowPart | EventBlock | OpenJoins) -> list[Any]:
    """The fields of a part, in order; an index has hundreds of parts, and `astuple` copies each deeply."""
    return [getattr(part, name) for name in part.__slots__]


_PARTS = ("open", "ended", "kept")


@dataclass
class GroupState:
    """The state of a group that is folded online.

    keys, segments, key_bytes  the part with the keys of its segments, how many, and its size
    open    a part per open window: vectors
    ended   parts with the aggregates of windows that are not reported yet
    kept    where neighbours are compared, a part with the bindings of all open windows
    """

    keys: int = -1
    segments: int = 0
    key_bytes: int = 0
    open: list[WindowPart] = field(default_factory=list)
    ended: list[WindowPart] = field(default_factory=list)
    kept: list[WindowPart] = field(default_factory=list)

    @property
    def windows(self) -> list[WindowPart]:
        """All parts with windows."""
        return [*self.open, *self.ended, *self.kept]

    @property
    def bytes(self) -> int:
        """The size of all parts."""
        return self.key_bytes + sum(part.bytes for part in self.windows)

    @staticmethod
    def from_value(value: dict[str, Any]) -> GroupState:
        """What `to_value` gave."""
        parts = {name: [WindowPart(*part) for part in value.get(name, ())] for name in _PARTS}
        return GroupState(**{**value, **parts})

    def to_value(self) -> dict[str, Any]:
        """As a JSON value."""
        lists = {name: [_told(part) for part in getattr(self, name)] for name in _PARTS}
        return {"keys": self.keys, "segments": self.segments, "key_bytes": self.key_bytes, **lists}


@dataclass(slots=True)
class EventBlock:
    """The events in [begin, end) as a matrix per segment, in one part; -1 if there are no events."""

    begin: int
    end: int
    number: int = -1
    segments: int = 0
    events: int = 0
    bytes: int = 0


@dataclass
class MovingState:
    """What a query with a window per event keeps beside its raw events; see moving_windows.

    meaning  a digest of what its matrices mean
    middle   blocks that begin before it reach up to it; the others reach up to the next one
    back     from the middle up to the last block
    blocks   ascending; the last one grows
    """

    meaning: str
    middle: int
    back: EventBlock
    blocks: list[EventBlock]

    @staticmethod
    def from_value(value: list[Any]) -> MovingState:
        """What `to_value` gave."""
        meaning, middle, back, *blocks = value
        return MovingState(meaning, middle, EventBlock(*back), [EventBlock(*block) for block in blocks])

    def to_value(self) -> list[Any]:
        """As a JSON value."""
        return [self.meaning, self.middle, _told(self.back), *map(_told, self.blocks)]

    @property
    def parts(self) -> list[EventBlock]:
        """The blocks that have a part."""
        return [block for block in (self.back, *self.blocks) if block.number >= 0]

    @property
    def bytes(self) -> int:
        """The size of all parts."""
        return sum(block.bytes for block in self.parts)


@dataclass(slots=True)
class OpenJoins:
    """A part with partial matches as numbers of events up to a time; per plan the shapes of its tables."""

    number: int
    bytes: int
    until: int
    shapes: dict[str, list[list[int]]]

    @property
    def rows(self) -> int:
        """How many partial matches."""
        return sum(rows for shapes in self.shapes.values() for rows, _ in shapes)


@dataclass
class ShardIndex:
    """The index of a shard's parts.

    released  the watermark up to which windows were reported
    settled   per exchange, the time before which events are folded, where queries are folded online
    weighed   per exchange, the bytes of raw parts that were kept when they were last weighed
    groups    the state of groups that are folded online, by name
    moving    the state of queries with a window per event, by their indices in the workload
    join_plans  per exchange that finds matches the part with its join plans, and its size
    open_joins  per exchange that keeps partial matches, these
    events    how many events were numbered, of exchanges that keep partial matches
    running   what is stored of plans that follow the rates of the stream, by the names of their queries
    read      how many raw events were read from the state since the index was read; not stored
    """

    released: int = ALWAYS
    next: int = 0
    timer: int | None = None
    parts: list[StatePart] = field(default_factory=list)
    settled: dict[int, int] = field(default_factory=dict)
    weighed: dict[int, int] = field(default_factory=dict)
    groups: dict[str, GroupState] = field(default_factory=dict)
    moving: dict[int, MovingState] = field(default_factory=dict)
    join_plans: dict[int, list[int]] = field(default_factory=dict)
    open_joins: dict[int, OpenJoins] = field(default_factory=dict)
    events: int = 0
    running: dict[str, Any] = field(default_factory=dict)
    read: int = 0

    @staticmethod
    def load(store: Store, watermark: int) -> ShardIndex:
        """Read a shard's index; a shard without state starts at the watermark."""
        text = store.index()
        if text is None:
            return ShardIndex(watermark)
        value = json.loads(text)
        layout.require_known(value["layout"])
        found = ShardIndex(value["released"], value["next"], value["timer"])
        found.parts = [StatePart(*part) for part in value["parts"]]
        found.settled = {int(k): v for k, v in value.get("settled", {}).items()}
        found.weighed = {int(k): v for k, v in value.get("weighed", {}).items()}
        found.groups = {k: GroupState.from_value(v) for k, v in value.get("groups", {}).items()}
        found.open_joins = {int(k): OpenJoins(*v) for k, v in value.get("open_joins", {}).items()}
        found.events = value.get("events", 0)
        found.join_plans = {int(k): v for k, v in value.get("join_plans", {}).items()}
        found.moving = {int(k): MovingState.from_value(v) for k, v in value.get("moving", {}).items()}
        found.running = value.get("running", {})
        return found

    def write(self, store: Store) -> None:
        """Write the index; delete the state if nothing is left."""
        self.groups = {name: group for name, group in self.groups.items() if group.segments}
        self.running = {name: state for name, state in self.running.items() if state}
        if not self.parts and not self.groups and (not self.running or self.released == NEVER):
            for exchange in list(self.join_plans):
                self.forget_join_plans(store, exchange)
            self.timer = None
            store.clear()
            return
        value = {
            "layout": layout.VERSION,
            "released": self.released,
            "next": self.next,
            "timer": self.timer,
            "parts": [_told(part) for part in self.parts],
            "settled": self.settled,
            "weighed": self.weighed,
            "groups": {name: group.to_value() for name, group in self.groups.items()},
            "moving": {query: state.to_value() for query, state in self.moving.items()},
            "join_plans": self.join_plans,
            "open_joins": {exchange: _told(kept) for exchange, kept in self.open_joins.items()},
            "events": self.events,
        }
        if self.running:
            value["running"] = self.running
        store.set_index(json.dumps(value))

    def put(self, store: Store, payload: bytes) -> int:
        """Store bytes under the next number."""
        store.put(self.next, payload)
        self.next += 1
        return self.next - 1

    def add(
        self,
        store: Store,
        exchange: int,
        low: int,
        high: int,
        rows: int,
        payload: bytes,
        is_settled: bool = False,
    ) -> None:
        """Add a part of raw events."""
        number = self.put(store, payload)
        self.parts.append(StatePart(number, exchange, low, high, rows, len(payload), is_settled))

    def remove(self, store: Store, parts: Sequence[StatePart]) -> None:
        """Remove parts of raw events."""
        gone = {part.number for part in parts}
        for number in gone:
            store.drop(number)
        self.parts = [part for part in self.parts if part.number not in gone]

    def forget_moving(self, store: Store, query: int) -> None:
        """Drop what a query with a window per event keeps beside its raw events."""
        if query in self.moving:
            for block in self.moving.pop(query).parts:
                store.drop(block.number)

    def forget_join_plans(self, store: Store, exchange: int) -> None:
        """Drop the join plans of an exchange, and its partial matches."""
        self.forget_plans(store, exchange)
        self.forget_open(store, exchange)

    def forget_plans(self, store: Store, exchange: int) -> None:
        """Drop only the plans."""
        if exchange in self.join_plans:
            store.drop(self.join_plans.pop(exchange)[0])

    def forget_open(self, store: Store, exchange: int) -> None:
        """Drop only the partial matches."""
        if exchange in self.open_joins:
            store.drop(self.open_joins.pop(exchange).number)

    def own(self, exchange: int) -> list[StatePart]:
        """The raw parts of an exchange."""
        return [part for part in self.parts if part.exchange == exchange]

    def raw_bytes(self, exchange: int) -> int:
        """The size of the raw parts of an exchange."""
        return sum(part.bytes for part in self.own(exchange))
