"""The work of a stream, batch by batch: plain functions over Arrow and a store, without Spark.

pack     a part of a micro-batch  ->  parcels: events by shard and time range
absorb   a shard's parcels        ->  its state; emits late events
release  a shard, when the watermark advances  ->  the rows of ended windows; drops events no longer needed
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import RejectError, TrendfoldError
from trendfold.events.batch import EventBatch, read_batch, schema_of
from trendfold.events.columns import decoded
from trendfold.events.options import Options
from trendfold.events.sources import untaken
from trendfold.plan import QueryPlan
from trendfold.runtime.limits import Limits
from trendfold.runtime.pieces import concat
from trendfold.runtime.release import ALWAYS, NEVER, Release
from trendfold.runtime.spark import layout, tasks
from trendfold.runtime.spark.blobs import Blob, Content, hashes, pack, read_bits, split, unpack
from trendfold.runtime.spark.exchanges import Exchange, exchanges, within_exchanges
from trendfold.runtime.spark.tasks import Job, Route
from trendfold.runtime.workspace import Workspace

REFUSED, WHY = "text of a refused message", "why it was refused"
"""Columns for rows that a source could not parse: such a row has text and reason, and nulls otherwise."""
HOME = "is home"
"""A column of events that are sent to several shards: whether this one reports them if they are late."""
CLOCK = "clock of the micro-batch"
"""A column with the time at which Spark started a micro-batch; a rerun of the batch has the same time."""
AHEAD, LATE = "ahead of the clock by more than max_ahead", "late"
"""Why an event of a stream is rejected."""
MOST_STRETCHES = 32
"""The most time ranges into which a part of a micro-batch is split, however long it is."""
MANY_PARTS = 8
"""As many parts of about the same size are merged into one."""


@dataclass(frozen=True)
class StreamJob:
    """A job, and for each query when its windows are reported; None for a removed query."""

    job: Job
    releases: tuple[Release | None, ...]
    keeps_rejects: bool = False
    max_ahead: int | None = None
    """How far in the future an event may be, in microseconds; None for no limit."""

    def of(self, exchange: Exchange) -> dict[int, Release]:
        """The queries of an exchange that are not removed."""
        found = {query: self.releases[query] for query in exchange.queries}
        return {query: release for query, release in found.items() if release is not None}

    @cached_property
    def asked(self) -> tuple[int, ...]:
        """The exchanges that still have a query."""
        return tuple(n for n, exchange in enumerate(self.job.exchanges) if self.of(exchange))

    def cutoff(self, watermark: int) -> int:
        """Events before this time are late: a window that contains them may already be reported."""
        if watermark == ALWAYS:
            return ALWAYS
        return max((r.cutoff(watermark) for r in self.releases if r is not None), default=ALWAYS)

    def pane(self, exchange: Exchange) -> int:
        """The length of the time ranges by which events of an exchange are stored: the shortest slide."""
        return min(r.window.slide or r.window.length for r in self.of(exchange).values())


@dataclass(frozen=True, slots=True)
class Epoch:
    """Queries added together, and the time after which their first windows begin."""

    plans: tuple[QueryPlan, ...]
    since: int = ALWAYS


def stream_job(
    epochs: Sequence[Epoch],
    removed: Collection[int],
    schema: pa.Schema,
    options: Options,
    origin: int,
    limits: Limits,
    arithmetic: str,
    shards: int,
    keeps_rejects: bool = False,
    max_ahead: int | None = None,
) -> StreamJob:
    """The job of a stream.

    Queries of different epochs never share an exchange, so adding or removing queries leaves the layout of
    the state of all others unchanged.
    """
    kinds = schema_of(schema)
    plans: list[QueryPlan] = []
    own: list[Exchange] = []
    releases: list[Release | None] = []
    for epoch in epochs:
        for exchange in exchanges(epoch.plans, kinds, options, arithmetic):
            own.append(replace(exchange, queries=tuple(len(plans) + query for query in exchange.queries)))
        for plan in epoch.plans:
            assert plan.query.window is not None
            is_removed = len(plans) in removed
            releases.append(None if is_removed else Release(plan.query.window, origin, epoch.since))
            plans.append(plan)
    job = Job(
        plans=within_exchanges(plans, own),
        exchanges=tuple(own),
        routes=(Route.PARTITION,) * len(own),
        options=options,
        schema=schema,
        origin=origin,
        limits=limits,
        arithmetic=arithmetic,
        buckets=shards,
        finishers=1,
        shared=np.zeros((0, 2), np.int64),
        chunks=np.zeros(0, np.int64),
    )
    return StreamJob(job, tuple(releases), keeps_rejects, max_ahead)


@dataclass(frozen=True, slots=True)
class Parcel:
    """A blob sent to a shard; for events, with their first and last times.

    rest  if rejects are written: the columns that queries read but the state does not need
    """

    blob: Blob
    low: int = 0
    high: int = 0
    rest: bytes = b""


# ---------------------------------------------------------------- pack


def pack_events(stream: StreamJob, table: pa.Table) -> tuple[int | None, list[Parcel]]:
    """The latest time in a part of a micro-batch, and the parcels for its shards."""
    job, rows = stream.job, table.num_rows
    table, unread = _readable(table)
    batch, rejects = _read(stream, table)
    latest = int(batch.time.max()) if len(batch) else None
    told = json.dumps({"types": batch.type_names, "latest": latest}).encode()
    parcels = [Parcel(Blob(0, Content.SEEN, 0, rows, told))]
    if unread.num_rows:
        parcels.append(Parcel(_refused(stream, Content.REJECTS, unread, told=2)))
    parcels += [Parcel(_refused(stream, Content.REJECTS, part)) for part in rejects if part.num_rows]
    if not len(batch):
        return latest, parcels
    workspace = Workspace(batch, read_bits(batch, job.bits) or {}, shared=job.shared_partitionings)
    elsewhere = np.zeros(len(batch), np.bool_)
    for number in stream.asked:
        needed = tasks.is_needed(batch, job.exchanges[number])
        parcels += _send(stream, number, workspace, needed, ~elsewhere)
        elsewhere |= needed
    return latest, parcels


def _read(stream: StreamJob, table: pa.Table) -> tuple[EventBatch, list[pa.Table]]:
    """The events of a part of a micro-batch, and its rejects: invalid rows, or too far in the future.

    A single event in the far future would advance the watermark past all others.
    """
    options = replace(stream.job.options, on_reject="keep")
    clock = None
    if CLOCK in table.column_names and table.num_rows:
        clock = table.column(CLOCK)[0].cast(pa.timestamp("us", "UTC")).value
    batch = read_batch(table.drop_columns([CLOCK]) if CLOCK in table.column_names else table, options)
    if clock is None or stream.max_ahead is None or not len(batch):
        return batch, [batch.rejects]
    ahead = batch.time > clock + stream.max_ahead
    if not ahead.any():
        return batch, [batch.rejects]
    refused = _with_reason(batch.table.filter(pa.array(ahead)), AHEAD)
    return read_batch(batch.table.filter(pa.array(~ahead)), options), [batch.rejects, refused]


def _with_reason(rows: pa.Table, reason: str) -> pa.Table:
    reasons = pa.array([reason] * rows.num_rows, pa.string())
    return rows.append_column(untaken("reason", rows.column_names), reasons)


def _readable(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of a table that its source could parse, and the others with text and reason."""
    if WHY not in table.column_names:
        return table, table.slice(0, 0)
    bad, columns = table.column(WHY).is_valid(), [n for n in table.column_names if n not in (REFUSED, WHY)]
    unread = table.select([*columns, REFUSED, WHY]).filter(bad)
    names = [*columns, untaken("text", columns), untaken("reason", columns)]
    return table.select(columns).filter(pc.invert(bad)), unread.rename_columns(names)


def _refused(stream: StreamJob, content: Content, rejects: pa.Table, told: int = 1) -> Blob:
    """A blob that reports rejected rows; it contains them if rejects are written.

    The last `told` columns give the reason; of the others only the events' columns are kept.
    """
    if stream.job.options.on_reject == "fail":
        why = rejects.column(rejects.num_columns - 1)[0]
        raise RejectError(f"a row is rejected: {why}; pass on_reject='keep' to keep rejects apart")
    if not stream.keeps_rejects:
        return Blob(0, content, 0, rejects.num_rows)
    names = [*stream.job.schema.names, *rejects.column_names[-told:]]
    kept = rejects.select([name for name in names if name in rejects.column_names])
    return Blob(0, content, 0, rejects.num_rows, pack(kept))


def _send(
    stream: StreamJob, number: int, workspace: Workspace, needed: NDArray[np.bool_], home: NDArray[np.bool_]
) -> Iterator[Parcel]:
    """The needed events of an exchange as parcels, by shard and time range."""
    if not needed.any():
        return
    job, batch = stream.job, workspace.batch
    exchange, shards = job.exchanges[number], job.buckets
    keys = {name: batch.column(name) for name in exchange.key}
    known = hashes(keys, len(batch)) if keys else np.full(len(batch), number, np.uint64)
    packed = tasks.packed_rows(workspace, exchange)
    if not home[needed].all():
        packed = packed.append_column(HOME, pa.array(home))
    rest = _columns_of_rejects(stream, batch.table, packed.column_names)
    for name in rest:
        packed = packed.append_column(name, batch.table.column(name))
    pane, stretches = _stretches(batch.time, stream.pane(exchange), job.origin)
    place = pane * np.uint64(shards) + known % np.uint64(shards)
    packed = packed.append_column(_TIME, pa.array(batch.time))
    for which, part in split(packed, place, needed, stretches * shards):
        time = part.column(_TIME).to_numpy()
        low, high = int(time.min()), int(time.max())
        payload = layout.to_bytes(part.drop_columns([_TIME, *rest]))
        beside = pack(part.select(rest)).to_pybytes() if rest else b""
        blob = Blob(which % shards, Content.ROWS, number, part.num_rows, payload)
        yield Parcel(blob, low, high, beside)


def _columns_of_rejects(stream: StreamJob, table: pa.Table, there: Collection[str]) -> list[str]:
    """The columns of rejects that an exchange does not store: those used only in conditions (now bits)."""
    if not stream.keeps_rejects:
        return []
    known = set(table.column_names) - set(there)
    return [name for name in stream.job.schema.names if name in known]


_TIME = "time in microseconds"


def _stretches(time: NDArray[np.int64], pane: int, origin: int) -> tuple[NDArray[np.uint64], int]:
    """The time range of each event, and how many ranges there are: panes, or runs of panes."""
    low, high = int(time.min()), int(time.max())
    first = (low - origin) // pane
    count = (high - origin) // pane - first + 1
    run = -(-count // MOST_STRETCHES)
    found = ((time - (origin + first * pane)) // (pane * run)).astype(np.uint64)
    return found, -(-count // run)


# ---------------------------------------------------------------- the state of a shard


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
    """A stored part: events of one exchange."""

    number: int
    exchange: int
    low: int
    high: int
    rows: int
    bytes: int


@dataclass
class ShardIndex:
    """The index of a shard's parts; `released` is the watermark up to which windows were reported."""

    released: int = ALWAYS
    next: int = 0
    timer: int | None = None
    parts: list[StatePart] = field(default_factory=list)

    @staticmethod
    def read(store: Store, watermark: int) -> ShardIndex:
        """Read a shard's index; a shard without state starts at the watermark."""
        text = store.index()
        if text is None:
            return ShardIndex(watermark)
        value = json.loads(text)
        if value["layout"] != layout.VERSION:
            raise TrendfoldError(
                f"the state of this stream has layout {value['layout']}, and this release reads "
                f"{layout.VERSION}; use the release that wrote it, or start with a new checkpoint"
            )
        parts = [StatePart(*part) for part in value["parts"]]
        return ShardIndex(value["released"], value["next"], value["timer"], parts)

    def write(self, store: Store) -> None:
        """Write the index; delete the state if no events are left."""
        if not self.parts:
            self.timer = None
            store.clear()
            return
        parts = [[p.number, p.exchange, p.low, p.high, p.rows, p.bytes] for p in self.parts]
        value = {"layout": layout.VERSION, "released": self.released, "next": self.next}
        store.set_index(json.dumps({**value, "timer": self.timer, "parts": parts}))

    def add(self, store: Store, exchange: int, low: int, high: int, rows: int, payload: bytes) -> StatePart:
        """Add a part."""
        part = StatePart(self.next, exchange, low, high, rows, len(payload))
        store.put(part.number, payload)
        self.parts.append(part)
        self.next += 1
        return part

    def remove(self, store: Store, parts: Sequence[StatePart]) -> None:
        """Remove parts."""
        gone = {part.number for part in parts}
        for number in gone:
            store.drop(number)
        self.parts = [part for part in self.parts if part.number not in gone]


# ---------------------------------------------------------------- absorb


def absorb(stream: StreamJob, store: Store, parcels: Iterable[Parcel], watermark: int) -> Iterator[Blob]:
    """Store the arrived events, and emit those that are too late."""
    index, cutoff = ShardIndex.read(store, watermark), stream.cutoff(watermark)
    changed = False
    for parcel in parcels:
        blob = parcel.blob
        if blob.content is not Content.ROWS:
            yield blob
            continue
        if blob.owner not in stream.asked:
            continue
        low, high, rows, payload = parcel.low, parcel.high, blob.rows, bytes(blob.payload)
        if low < cutoff:
            kept, late = _without_late(stream, parcel, cutoff)
            if late is not None:
                yield late
            if kept is None:
                continue
            low, high, rows, payload = kept
        index.add(store, blob.owner, low, high, rows, payload)
        changed = True
    if changed:
        index.remove(store, [part for part in index.parts if part.exchange not in stream.asked])
        _put_together(stream, store, index)
        index.timer = _due(stream, index)
        index.write(store)
        yield _state(stream, index, watermark)


def _without_late(
    stream: StreamJob, parcel: Parcel, cutoff: int
) -> tuple[tuple[int, int, int, bytes] | None, Blob | None]:
    """The events of a parcel to store, and a report of the late ones."""
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
        late = _refused(stream, Content.LATE, _with_reason(rows, LATE))
    if not kept.any():
        return None, late
    rest, time = table.filter(pa.array(kept)), time[kept]
    return (int(time.min()), int(time.max()), rest.num_rows, layout.to_bytes(rest)), late


def _put_together(stream: StreamJob, store: Store, index: ShardIndex) -> None:
    """Merge small parts of one pane, so that their number grows logarithmically with the batches."""
    panes = {number: stream.pane(stream.job.exchanges[number]) for number in stream.asked}
    while True:
        alike: dict[tuple[int, int, int], list[StatePart]] = {}
        for part in index.parts:
            if part.exchange in panes:
                pane = (part.low - stream.job.origin) // panes[part.exchange]
                alike.setdefault((part.exchange, pane, part.bytes.bit_length() // 3), []).append(part)
        many = [parts for parts in alike.values() if len(parts) >= MANY_PARTS]
        if not many:
            return
        for parts in many:
            together = concat([layout.from_bytes(store.get(part.number)) for part in parts])
            index.remove(store, parts)
            low, high = min(p.low for p in parts), max(p.high for p in parts)
            payload = layout.to_bytes(together)
            index.add(store, parts[0].exchange, low, high, together.num_rows, payload)


def _due(stream: StreamJob, index: ShardIndex) -> int | None:
    """The watermark at which the next window is due, in microseconds.

    All shards must report a window in the same micro-batch, or its partial sums would not be added. So a time
    that the watermark has already passed is kept: it is due after the rows of this batch.
    """
    times = []
    for number in stream.asked:
        low = min((part.low for part in index.parts if part.exchange == number), default=None)
        if low is not None:
            times += [
                release.due(low, index.released)
                for release in stream.of(stream.job.exchanges[number]).values()
            ]
    return min(times, default=None)


def _state(stream: StreamJob, index: ShardIndex, watermark: int) -> Blob:
    """The size of a shard's state, for progress reports."""
    windows: dict[int, tuple[int, int]] = {}
    for number in stream.asked:
        own = [part for part in index.parts if part.exchange == number]
        for query, release in stream.of(stream.job.exchanges[number]).items() if own else ():
            span = min(p.low for p in own), max(p.high for p in own)
            found = release.open_windows(*span, max(watermark, index.released))
            if found is not None:
                windows[query] = found
    told = {"bytes": sum(p.bytes for p in index.parts), "parts": len(index.parts), "windows": windows}
    return Blob(0, Content.STATE, 0, sum(p.rows for p in index.parts), json.dumps(told).encode())


# ---------------------------------------------------------------- release


def release(stream: StreamJob, store: Store, watermark: int) -> Iterator[Blob]:
    """The rows of all windows that ended since the last release; drops events no longer needed."""
    index = ShardIndex.read(store, watermark)
    for number in stream.asked:
        own = [part for part in index.parts if part.exchange == number]
        if own:
            yield from _report(stream, store, number, own, index.released, watermark)
    index.remove(
        store, [part for part in index.parts if part.high < _floor(stream, part.exchange, watermark)]
    )
    index.released = watermark
    index.timer = _due(stream, index)
    index.write(store)
    yield _state(stream, index, watermark)


def _floor(stream: StreamJob, exchange: int, watermark: int) -> int:
    """Events of an exchange before this time are no longer needed."""
    if exchange not in stream.asked or watermark == NEVER:
        return NEVER
    return min(r.floor(watermark) for r in stream.of(stream.job.exchanges[exchange]).values())


def _report(
    stream: StreamJob, store: Store, number: int, own: Sequence[StatePart], before: int, watermark: int
) -> Iterator[Blob]:
    job, exchange = stream.job, stream.job.exchanges[number]
    queries = {
        query: release.asked(before, watermark)
        for query, release in stream.of(exchange).items()
        if release.due(min(part.low for part in own), before) <= watermark
    }
    if not queries:
        return
    low = min(stream.of(exchange)[query].floor(before) for query in queries)
    tables = [layout.from_bytes(store.get(p.number)) for p in own if p.high >= low and p.low < watermark]
    if not tables:
        return
    workspace = _between(tasks.gather(job, number, tables), exchange, low, watermark)
    # Per-event windows are released one moment later than the others.
    for asked in dict.fromkeys(queries.values()):
        due = [query for query, windows in queries.items() if windows == asked]
        yield from tasks.fold_rows(job, exchange, due, workspace, asked)


def _between(workspace: Workspace, exchange: Exchange, low: int, high: int) -> Workspace:
    """Only the events in [low, high), if that removes many."""
    time = workspace.batch.time
    kept = (time >= low) & (time < high)
    if kept.sum() > 0.9 * len(kept):
        return workspace
    return tasks.subset(workspace, kept, exchange.conditions)


def flush(stream: StreamJob, store: Store) -> Iterator[Blob]:
    """The rows of all open windows, as if the watermark had passed every time."""
    return release(stream, store, NEVER)
