"""A part of a micro-batch -> parcels: the events of each exchange, by shard and time range."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import RejectError
from trendfold.events.batch import EventBatch, read_batch
from trendfold.events.sources import untaken
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob, Content, hashes, pack, read_bits, split
from trendfold.runtime.stream import layout
from trendfold.runtime.stream.stream_job import StreamJob
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


@dataclass(frozen=True, slots=True)
class Parcel:
    """A blob sent to a shard; for events, with their first and last times.

    rest  if rejects are written: the columns that queries read but the state does not need
    """

    blob: Blob
    low: int = 0
    high: int = 0
    rest: bytes = b""


def pack_events(stream: StreamJob, table: pa.Table) -> tuple[int | None, list[Parcel]]:
    """The latest time in a part of a micro-batch, and the parcels for its shards."""
    job, rows = stream.job, table.num_rows
    table, unread = _readable(table)
    batch, rejects = _read(stream, table)
    latest = int(batch.time.max()) if len(batch) else None
    told = json.dumps({"types": batch.type_names, "latest": latest}).encode()
    parcels = [Parcel(Blob(0, Content.SEEN, 0, rows, told))]
    if unread.num_rows:
        parcels.append(Parcel(refused(stream, Content.REJECTS, unread, told=2)))
    parcels += [Parcel(refused(stream, Content.REJECTS, part)) for part in rejects if part.num_rows]
    if stream.emits_updates:
        parcels += [Parcel(Blob(shard, Content.TICK, 0, 0)) for shard in range(job.buckets)]
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
    early = with_reason(batch.table.filter(pa.array(ahead)), AHEAD)
    return read_batch(batch.table.filter(pa.array(~ahead)), options), [batch.rejects, early]


def with_reason(rows: pa.Table, reason: str) -> pa.Table:
    """Rejected rows with the reason."""
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


def refused(stream: StreamJob, content: Content, rejects: pa.Table, told: int = 1) -> Blob:
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
    packed = tasks.packed_rows(workspace, exchange, job.options.type_column)
    if not home[needed].all():
        packed = packed.append_column(HOME, pa.array(home))
    rest = _columns_of_rejects(stream, batch.table, packed.column_names)
    for name in rest:
        packed = packed.append_column(name, batch.table.column(name))
    pane, ranges = stretches(batch.time, stream.pane(exchange), job.origin)
    place = pane * np.uint64(shards) + known % np.uint64(shards)
    packed = packed.append_column(_TIME, pa.array(batch.time))
    for which, part in split(packed, place, needed, ranges * shards):
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


def stretches(time: NDArray[np.int64], pane: int, origin: int) -> tuple[NDArray[np.uint64], int]:
    """The time range of each event, and how many ranges there are: panes, or runs of panes."""
    low, high = int(time.min()), int(time.max())
    first = (low - origin) // pane
    count = (high - origin) // pane - first + 1
    run = -(-count // MOST_STRETCHES)
    found = ((time - (origin + first * pane)) // (pane * run)).astype(np.uint64)
    return found, -(-count // run)
