"""The work on one shard: absorb what arrives, release what the watermark has passed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from trendfold.events.batch import read_batch
from trendfold.events.columns import decoded
from trendfold.runtime.find_matches import NUMBER
from trendfold.runtime.lane_rows import read_taken
from trendfold.runtime.pieces import concat
from trendfold.runtime.release import ALWAYS, NEVER, Release
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob, Content, unpack
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.parcels import HOME, LATE, Parcel, refused, with_reason
from trendfold.runtime.stream.reporting import report
from trendfold.runtime.stream.settling import RawEvents, has_vectors, is_worth_settling, settle
from trendfold.runtime.stream.shard_state import GroupState, ShardIndex, StatePart, Store
from trendfold.runtime.stream.stream_job import StreamJob

FOLLOWED_FACTS = ("cost", "best", "alone", "migrations")
"""What progress tells of a plan that follows the rates of the stream."""
MANY_PARTS = 8
"""As many parts of about the same size are merged into one."""


# ---------------------------------------------------------------- absorb


def absorb(stream: StreamJob, store: Store, parcels: Iterable[Parcel], watermark: int) -> Iterator[Blob]:
    """Fold and store the arrived events, and emit those that are late.

    Called once per micro-batch, with all of the shard's parcels: what is final after it is folded at once.
    """
    index = ShardIndex.load(store, watermark)
    arrived: dict[int, list[RawEvents]] = {}
    for parcel in parcels:
        blob = parcel.blob
        if blob.content is not Content.ROWS:
            yield from [] if blob.content is Content.TICK else [blob]
        elif blob.owner in stream.asked and not stream.is_over(blob.owner, watermark):
            cutoff = max(watermark, index.settled.get(blob.owner, ALWAYS))
            kept, late = _without_late(stream, parcel, cutoff)
            yield from [] if late is None else [late]
            if kept is not None:
                arrived.setdefault(blob.owner, []).append(kept)
    if arrived:
        yield from _absorb(stream, store, index, arrived, watermark)
    if stream.emits_updates:
        yield from preview(stream, store, watermark)


def _absorb(
    stream: StreamJob, store: Store, index: ShardIndex, arrived: Mapping[int, list[RawEvents]], watermark: int
) -> Iterator[Blob]:
    """Fold what is final, and store the rest."""
    _forget_removed(stream, store, index)
    latest = max(part.high for parts in arrived.values() for part in parts)
    for exchange, parts in arrived.items():
        until = max(stream.final(latest, watermark), index.settled.get(exchange, ALWAYS))
        if stream.online[exchange] and is_worth_settling(stream, index, exchange, parts, until):
            yield from settle(stream, store, index, exchange, parts, until)
            continue
        for part in parts:
            kept = _that_can_match(stream, exchange, part)
            if stream.job.exchanges[exchange].reach is not None:
                kept = _numbered(index, kept)
            if kept.rows:
                index.add(store, exchange, kept.low, kept.high, kept.rows, kept.payload)
    _put_together(stream, store, index)
    index.timer = _due(stream, index)
    index.write(store)
    yield _state(stream, index, watermark)


def _without_late(stream: StreamJob, parcel: Parcel, cutoff: int) -> tuple[RawEvents | None, Blob | None]:
    """The events of a parcel that are not late, and a report of the late ones."""
    if parcel.low >= cutoff:
        return RawEvents(parcel.low, parcel.high, parcel.blob.rows, bytes(parcel.blob.payload)), None
    table = layout.from_bytes(parcel.blob.payload)
    time = read_batch(table, stream.job.options).time
    kept = time >= cutoff
    at_home = ~kept
    if HOME in table.column_names:
        at_home &= table.column(HOME).to_numpy()
    late = None
    if at_home.any():
        whole = {name: table.column(name) for name in table.column_names}
        if parcel.rest:
            rest = unpack(parcel.rest)
            whole |= {name: rest.column(name) for name in rest.column_names}
        rows = pa.table(whole).filter(pa.array(at_home))
        rows = pa.table({name: decoded(rows.column(name)) for name in rows.column_names})
        late = refused(stream, Content.LATE, with_reason(rows, LATE))
    if not kept.any():
        return None, late
    rest, time = table.filter(pa.array(kept)), time[kept]
    return RawEvents(int(time.min()), int(time.max()), rest.num_rows, layout.to_bytes(rest)), late


def _that_can_match(stream: StreamJob, exchange: int, part: RawEvents) -> RawEvents:
    """The events that can be part of a match or break one: conditions on one event may leave only a few.

    Events are dropped here, not where they are packed, because late events are reported in any case.
    """
    here = stream.job.exchanges[exchange]
    if not here.finds_matches or here.types is None or not here.conditions:
        return part
    table = layout.from_bytes(part.payload)
    plans = [stream.job.plans[query] for query in stream.of(here)]
    machines = [operand.machine for plan in plans for operand in plan.operands]
    kinds, _ = read_taken(machines, tasks.gather(stream.job, exchange, [table]))
    kept = kinds.symbol > 0
    if kept.sum() > 0.9 * len(kept):
        return part
    table = table.filter(pa.array(kept))
    return RawEvents(part.low, part.high, table.num_rows, layout.to_bytes(table))


def _numbered(index: ShardIndex, part: RawEvents) -> RawEvents:
    """The events with numbers, by which partial matches name them; only of patterns without a key."""
    table = layout.from_bytes(part.payload)
    numbers = np.arange(index.events, index.events + table.num_rows)
    index.events += table.num_rows
    payload = layout.to_bytes(table.append_column(NUMBER, pa.array(numbers)))
    return RawEvents(part.low, part.high, part.rows, payload)


def _forget_removed(stream: StreamJob, store: Store, index: ShardIndex) -> None:
    """Drop the state of queries that were removed."""
    index.remove(store, [part for part in index.parts if part.exchange not in stream.asked])
    names = {group.name for groups in stream.online.values() for group in groups}
    for name in set(index.groups) - names:
        state = index.groups.pop(name)
        for number in [state.keys, *(part.number for part in state.windows)]:
            if number >= 0:
                store.drop(number)
    for exchange in set(index.join_plans).difference(stream.asked):
        index.forget_join_plans(store, exchange)
    for query in set(index.moving).difference(*stream.moving.values()):
        index.forget_moving(store, query)
    if index.running:
        index.running = _inherited(index.running, stream.followed)


def _inherited(running: Mapping[str, Any], groups: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """What is stored of plans: a group that got queries, or lost some, goes on from its old rates."""
    found = {}
    for name, queries in groups.items():
        old = name if name in running else max(running, key=lambda each: len(queries & {*each.split(", ")}))
        if queries & {*old.split(", ")}:
            found[name] = running[old]
    return found


def _put_together(stream: StreamJob, store: Store, index: ShardIndex) -> None:
    """Merge small parts of one pane, so that their number grows logarithmically with the batches."""
    panes = {}
    for number in stream.asked:
        has_blocks = any(
            query in index.moving and index.moving[query].parts for query in stream.moving[number]
        )
        panes[number] = stream.stored_pane(stream.job.exchanges[number], has_blocks)
    while True:
        alike: dict[tuple[int, bool, int, int], list[StatePart]] = {}
        for part in index.parts:
            if part.exchange in panes:
                pane = (part.low - stream.job.origin) // panes[part.exchange]
                key = part.exchange, part.is_settled, pane, part.bytes.bit_length() // 3
                alike.setdefault(key, []).append(part)
        many = [parts for parts in alike.values() if len(parts) >= MANY_PARTS]
        if not many:
            return
        for parts in many:
            together = concat([layout.from_bytes(store.get(part.number)) for part in parts])
            index.read += together.num_rows
            index.remove(store, parts)
            span = min(p.low for p in parts), max(p.high for p in parts)
            payload = layout.to_bytes(together)
            index.add(store, parts[0].exchange, *span, together.num_rows, payload, parts[0].is_settled)


def _due(stream: StreamJob, index: ShardIndex) -> int | None:
    """The watermark at which the next window is due, in microseconds.

    All shards must report a window in the same micro-batch, or its partial sums would not be added. So a time
    that the watermark has already passed is kept: it is due after the rows of this batch.
    """
    times = [part.end(stream.job.origin) for state in index.groups.values() for part in state.windows]
    for number in stream.asked:
        low = min((part.low for part in index.own(number)), default=None)
        if low is not None:
            releases = stream.of(stream.job.exchanges[number]).values()
            times += [release.due(low, index.released) for release in releases]
    return min(times, default=None)


# ---------------------------------------------------------------- release


def release(stream: StreamJob, store: Store, watermark: int) -> Iterator[Blob]:
    """The rows of all windows that ended since the last release; drops what is no longer needed."""
    index = ShardIndex.load(store, watermark)
    _forget_removed(stream, store, index)
    for number in stream.asked:
        if _must_settle(stream, index, number, watermark):
            yield from settle(stream, store, index, number, (), watermark)
        yield from report(stream, store, index, number, watermark)
    floor = {number: _floor(stream, number, watermark) for number in {p.exchange for p in index.parts}}
    index.remove(store, [part for part in index.parts if part.high < floor[part.exchange]])
    index.weighed = {number: min(size, index.raw_bytes(number)) for number, size in index.weighed.items()}
    index.released = watermark
    index.timer = _due(stream, index)
    index.write(store)
    yield _state(stream, index, watermark)


def _must_settle(stream: StreamJob, index: ShardIndex, exchange: int, watermark: int) -> bool:
    """Whether a window ends now whose last events may not be folded yet."""
    settled = index.settled.get(exchange, ALWAYS)
    if not has_vectors(stream, index, exchange):
        return False  # all of its events are raw
    releases = stream.of(stream.job.exchanges[exchange])
    ends = [releases[q].last_end(watermark) for group in stream.online[exchange] for q in group.queries]
    return any(settled < end for end in ends)


def _floor(stream: StreamJob, exchange: int, watermark: int) -> int:
    """Events of an exchange before this time are no longer needed."""
    if exchange not in stream.asked or watermark == NEVER or stream.is_over(exchange, watermark):
        return NEVER
    return min(r.floor(watermark) for r in stream.of(stream.job.exchanges[exchange]).values())


def flush(stream: StreamJob, store: Store) -> Iterator[Blob]:
    """The rows of all open windows, as if the watermark had passed every time."""
    return release(stream, store, NEVER)


# ---------------------------------------------------------------- open windows


@dataclass
class Overlay:
    """A store whose changes are not stored."""

    below: Store
    parts: dict[int, bytes] = field(default_factory=dict)

    def index(self) -> str | None:
        """Read the index."""
        return self.below.index()

    def get(self, number: int) -> bytes:
        """Read a part."""
        return self.parts[number] if number in self.parts else self.below.get(number)

    def put(self, number: int, payload: bytes) -> None:
        """Write a part beside the store."""
        self.parts[number] = payload

    def drop(self, number: int) -> None:
        """Leave the part where it is: numbers are not used twice."""

    def set_index(self, text: str) -> None:
        """Leave the index as it is."""

    def clear(self) -> None:
        """Leave everything as it is."""


def preview(stream: StreamJob, store: Store, watermark: int) -> Iterator[Blob]:
    """The rows of the windows that are open after the watermark, from the events so far."""
    beside = Overlay(store)
    index = ShardIndex.load(beside, watermark)
    index.released = max(index.released, watermark)
    for number in stream.asked:
        if stream.job.exchanges[number].finds_matches:
            continue  # a match that is not complete yet may be broken, and would have to be taken back
        told: list[Blob] = []
        if stream.online[number]:
            told += settle(stream, beside, index, number, (), NEVER)
        told += report(stream, beside, index, number, NEVER)
        yield from (blob for blob in told if blob.content is not Content.STEP)


# ---------------------------------------------------------------- progress


def _state(stream: StreamJob, index: ShardIndex, watermark: int) -> Blob:
    """The size of a shard's state, for progress reports."""
    vectors = [part for state in index.groups.values() for part in state.windows]
    raw = sum(part.bytes for part in index.parts)
    folded = sum(state.bytes for state in index.groups.values())
    folded += sum(state.bytes for state in index.moving.values())
    told = {
        "bytes": raw
        + folded
        + sum(size for _, size in index.join_plans.values())
        + sum(kept.bytes for kept in index.open_joins.values()),
        "partial_matches": sum(kept.rows for kept in index.open_joins.values()),
        "vector_bytes": folded,
        "vectors": sum(part.rows for part in vectors),
        "read": index.read,
        "watermark": watermark,
        "parts": len(index.parts) + len(vectors),
        "windows": _open_windows(stream, index, max(watermark, index.released)),
        "sharing_plans": {
            name: {fact: state[fact] for fact in FOLLOWED_FACTS} for name, state in index.running.items()
        },
    }
    rows = sum(part.rows for part in index.parts)
    return Blob(0, Content.STATE, 0, rows, json.dumps(told).encode())


def _open_windows(stream: StreamJob, index: ShardIndex, watermark: int) -> dict[int, tuple[int, int]]:
    """Per query the numbers of the first and last window that is open."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for number in stream.asked:
        own = index.own(number)
        for query, each in stream.of(stream.job.exchanges[number]).items() if own else ():
            found = each.open_windows(min(p.low for p in own), max(p.high for p in own), watermark)
            spans.setdefault(query, []).extend([] if found is None else [found])
        for group in stream.online[number]:
            state = index.groups.get(group.name, GroupState())
            for kind, window in enumerate(group.windows):
                parts = [(p.first, p.last) for p in state.open if p.is_of(window)]
                for k in group.members(kind):
                    spans.setdefault(group.queries[k], []).extend(parts)
    reported = {query: _reported(stream.releases[query], own) for query, own in spans.items()}
    return {query: (min(own)[0], max(last for _, last in own)) for query, own in reported.items() if own}


def _reported(release: Release | None, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without windows that began before a query was added: they are folded for it, too, but not reported."""
    assert release is not None
    return [(max(first, release.first), last) for first, last in spans if last >= release.first]
