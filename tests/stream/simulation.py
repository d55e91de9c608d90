"""Helpers: a stream without Spark. Micro-batches, shards, timers and the watermark as Spark keeps them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trendfold.api import Workload
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.release import ALWAYS
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob, Content, fit
from trendfold.runtime.stream.parcels import pack_events
from trendfold.runtime.stream.shard_state import ShardIndex
from trendfold.runtime.stream.shards import absorb, flush, release
from trendfold.runtime.stream.stream_job import Epoch, StreamJob, stream_job


@dataclass
class Memory:
    """The state of one shard."""

    text: str | None = None
    parts: dict[int, bytes] = field(default_factory=dict)

    def index(self) -> str | None:
        return self.text

    def set_index(self, text: str) -> None:
        self.text = text

    def get(self, number: int) -> bytes:
        return self.parts[number]

    def put(self, number: int, payload: bytes) -> None:
        self.parts[number] = payload

    def drop(self, number: int) -> None:
        del self.parts[number]

    def clear(self) -> None:
        assert not self.parts
        self.text = None


class Simulation:
    """A stream that is fed batch by batch."""

    def __init__(self, stream: StreamJob, delay_us: int, tasks_per_batch: int = 2) -> None:
        self.stream, self.delay, self.tasks = stream, delay_us, tasks_per_batch
        self.shards = {number: Memory() for number in range(stream.job.buckets)}
        self.timers: dict[int, int | None] = dict.fromkeys(self.shards)
        self.watermark_ms, self.latest = 0, ALWAYS
        self.told: list[list[Blob]] = []
        """What came out, batch by batch."""

    def feed(self, table: pa.Table) -> None:
        """One micro-batch, and the one without data that follows where the watermark moved."""
        self._batch(table)
        if self._move():
            self._batch(table.slice(0, 0))

    def flush(self) -> None:
        """The end of the stream."""
        self.told.append([blob for store in self.shards.values() for blob in flush(self.stream, store)])

    def _batch(self, table: pa.Table) -> None:
        out: list[Blob] = []
        sent: dict[int, list[Any]] = {}
        cuts = np.linspace(0, table.num_rows, self.tasks + 1).astype(int)
        for low, high in pairwise(cuts):
            latest, parcels = pack_events(self.stream, table.slice(low, high - low))
            self.latest = max(self.latest, ALWAYS if latest is None else latest)
            for parcel in parcels:
                sent.setdefault(parcel.blob.bucket, []).append(parcel)
        for shard, parcels in sent.items():
            out += absorb(self.stream, self.shards[shard], parcels, self._watermark())
        for store in self.shards.values():
            timer = self._timer(store)
            if timer is not None and timer <= self.watermark_ms:
                out += release(self.stream, store, self._watermark())
        self.told.append(out)

    def _timer(self, store: Memory) -> int | None:
        due = ShardIndex.load(store, ALWAYS).timer
        return None if due is None else -(-due // 1000)

    def _watermark(self) -> int:
        return self.watermark_ms * 1000 if self.watermark_ms else ALWAYS

    def _move(self) -> bool:
        if self.latest == ALWAYS:
            return False
        reached = self.latest // 1000 - self.delay // 1000
        moves = reached > self.watermark_ms
        self.watermark_ms = max(self.watermark_ms, reached)
        return moves

    def results(self) -> dict[str, list[pa.Table]]:
        """Per query its rows, a table per batch that has some."""
        found: dict[str, list[pa.Table]] = {plan.query.name: [] for plan in self.stream.job.plans}
        for blobs in self.told:
            errors = [blob for blob in blobs if blob.content is Content.ERROR]
            assert not errors, bytes(errors[0].payload)
            for blob in tasks.finish(self.stream.job, blobs):
                if blob.content is Content.RESULT:
                    schema = tasks.empty_result(self.stream.job, blob.owner).schema
                    name = self.stream.job.plans[blob.owner].query.name
                    found[name].append(fit(blob.table(), schema))
        return found

    def late(self) -> int:
        """How many events came too late."""
        return sum(b.rows for blobs in self.told for b in blobs if b.content is Content.LATE)


def simulate(
    workload: Workload, schema: pa.Schema, delay_us: int, shards: int = 3, **options: Any
) -> Simulation:
    arithmetic, strategy = options.pop("arithmetic", "auto"), options.pop("strategy", "auto")
    limits = options.pop("limits", DEFAULTS)
    epochs = [Epoch(workload.plan(strategy))]
    stream = stream_job(epochs, (), schema, Options(**options), 0, limits, arithmetic, shards, True)
    stream = replace(stream, delay_ms=delay_us // 1_000)
    return Simulation(stream, delay_us)


def ordered(tables: Sequence[pa.Table], like: pa.Table, keys: int) -> pa.Table:
    """The rows of many tables in the order of a result of batch."""
    together = pa.concat_tables([like.slice(0, 0), *[t.cast(like.schema) for t in tables]])
    by = [(name, "ascending", "at_start") for name in together.column_names[: 2 + keys]]
    return together.take(pc.sort_indices(together, by))


def arrival(times: Sequence[int | None], delay: float, rng: random.Random) -> list[int]:
    """An order in which no event comes more than `delay` after a later one; those without a time anywhere."""
    shift = [rng.uniform(0, delay) for _ in times]
    known = [t for t in times if t is not None] or [0]
    anywhere = [rng.uniform(min(known), max(known)) for _ in times]
    keys = [a if t is None else t + s for t, s, a in zip(times, shift, anywhere, strict=True)]
    return sorted(range(len(times)), key=keys.__getitem__)


def cuts(count: int, rng: random.Random, most: int = 8) -> list[slice]:
    """Micro-batches of any size, some of them empty."""
    edges = sorted(rng.randint(0, count) for _ in range(rng.randint(1, most)))
    return [slice(low, high) for low, high in zip([0, *edges], [*edges, count], strict=True)]


def micros(table: pa.Table, **options: Any) -> Iterable[int]:
    return read_batch(table, Options(**options)).time.tolist()


Shuffle = Callable[[pa.Table], pa.Table]
