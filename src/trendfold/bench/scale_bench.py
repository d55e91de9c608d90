"""CPU seconds and bytes per event of every stage, from a file to results and to the state of a stream.

The figures from which docs/scale.md models a cluster. Times are CPU times of one process, so a busy machine
changes them little. What Spark does (its scan, rows that cross to Python, its shuffle and state store) is
measured by `trendfold bench spark` and `bench stream --parts`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from time import process_time

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from trendfold.api import Workload, parse
from trendfold.bench.harness import Case, Report, Timed
from trendfold.bench.many_queries import mixed_events
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.events.sources import Files
from trendfold.query import needed_columns
from trendfold.runtime import local
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.release import ALWAYS
from trendfold.runtime.spark.blobs import Content
from trendfold.runtime.stream.parcels import Parcel, pack_events
from trendfold.runtime.stream.shards import absorb
from trendfold.runtime.stream.stream_job import Epoch, StreamJob, stream_job

EVENTS, GROUPS = 1_000_000, 100
QUERIES = (1, 50, 1_000, 10_000)
WINDOW_S = 100_000
"""With an event a second and 100 groups: 1,000 events per key and window."""
_NAMES = "type", "ts", "v", "g"
_READ = "read Parquet", "read CSV"
_COLUMNS, _FOLD = "rows become columns", "sort and fold, {}"
_PLAN = "parse and plan {}"
_PACK, _STATE = "pack for a shuffle", "fold into the state of a stream, {}"


def workload(queries: int, window_s: int = WINDOW_S) -> Workload:
    """Queries with a condition each, over windows in 1,000 groups."""
    text = (
        "RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS next WHERE B.v > {} "
        f"GROUP BY g WITHIN {window_s} s SLIDE {window_s} s"
    )
    return parse(";".join(text.format(1_000 * i // queries) for i in range(queries)))


@dataclass
class StageData:
    """The events of a bench in every form in which a stage takes them."""

    seed: int
    events: int
    bytes_of: dict[str, float] = field(default_factory=dict)
    """Bytes per event, or per key, window and query, by what they are bytes of."""

    @cached_property
    def folder(self) -> tempfile.TemporaryDirectory[str]:
        """Where the files are; removed with this object."""
        return tempfile.TemporaryDirectory(prefix="trendfold-scale-")

    @cached_property
    def table(self) -> pa.Table:
        """The columns that the queries need, as they come from a file."""
        table = (
            mixed_events(self.seed, self.events).select(["type", "ts", "v", "h"]).rename_columns(list(_NAMES))
        )
        self.bytes_of["Arrow"] = table.nbytes / self.events
        return table

    @cached_property
    def files(self) -> dict[str, str]:
        """The same events as Parquet and as CSV."""
        found = {kind: str(Path(self.folder.name, f"events.{kind}")) for kind in ("parquet", "csv")}
        pq.write_table(self.table, found["parquet"])
        plain = self.table.set_column(0, "type", self.table["type"].cast(pa.string()))
        pyarrow.csv.write_csv(plain, found["csv"])
        for kind, path in found.items():
            self.bytes_of[kind] = os.path.getsize(path) / self.events
        return found

    def job(self, queries: int) -> StreamJob:
        """The queries as a stream has them, in one shard and one window that stays open."""
        plans = workload(queries, self.events + 10).plan()
        schema = self.table.schema
        return stream_job([Epoch(plans)], (), schema, Options(), 0, DEFAULTS, "auto", 1, True, delay_ms=1_000)

    def parcels(self, job: StreamJob) -> list[Parcel]:
        """What travels to a shard."""
        _, found = pack_events(job, self.table)
        size = sum(len(parcel.blob.payload) for parcel in found if parcel.blob.content is Content.ROWS)
        self.bytes_of["packed for a shuffle"] = size / self.events
        return found


def cases(seed: int, scale: float) -> list[Case]:
    """One line per stage; those that fold, by the number of queries."""
    data = StageData(seed, max(20_000, int(EVENTS * scale)))
    _last.clear()
    _last.append(data)
    one = workload(1)
    found = [
        Case(_READ[0], partial(_timed, partial(_read, data, "parquet", one)), data.events),
        Case(_READ[1], partial(_timed, partial(_read, data, "csv", one)), data.events),
        Case(_COLUMNS, partial(_timed, lambda: read_batch(data.table, Options())), data.events),
    ]
    for queries in QUERIES:
        asked = workload(queries)
        found.append(Case(_FOLD.format(_plural(queries)), partial(_run, data, asked), data.events))
    most = max(QUERIES)
    found.append(Case(_PLAN.format(_plural(most)), partial(_timed, lambda: workload(most).plan()), most))
    found.append(Case(_PACK, partial(_pack, data), data.events))
    for queries in (1, 50):
        found.append(Case(_STATE.format(_plural(queries)), partial(_absorb, data, queries), data.events))
    return found


_last: list[StageData] = []
"""The data of the lines made last, for the notes."""


def notes(report: Report) -> tuple[str, ...]:
    """Nanoseconds per event of every line, and bytes."""
    data = _last[0]
    times = (
        f"{line.name}: {line.median_s / line.events * 1e9:,.0f} ns of CPU time per {_unit(line.name)}"
        for line in report.measurements
    )
    sizes = (f"{what}: {size:,.1f} bytes" for what, size in data.bytes_of.items())
    return (*times, *sizes)


def _unit(line: str) -> str:
    return "query" if line.startswith("parse") else "event"


def _plural(queries: int) -> str:
    return "1 query" if queries == 1 else f"{queries:,} queries"


def _timed(work: Callable[[], object]) -> Timed:
    began = process_time()
    work()
    return Timed(process_time() - began)


def _read(data: StageData, kind: str, asked: Workload) -> object:
    options = Options()
    return local.read_rows(Files([data.files[kind]]), needed_columns(asked.queries, options.columns), options)


def _run(data: StageData, asked: Workload) -> Timed:
    """Plans are made before; columns are read before, so only their use is timed."""
    plans, options = asked.plan(), Options()
    source = local.read(data.table, needed_columns(asked.queries, options.columns), options)
    return _timed(lambda: local.run(plans, source, options, 0, DEFAULTS))


def _pack(data: StageData) -> Timed:
    job = data.job(1)
    return _timed(lambda: data.parcels(job))


def _absorb(data: StageData, queries: int) -> Timed:
    """The parcels of all events in one micro-batch, folded into the open window of a shard."""
    job, state = data.job(queries), ShardMemory()
    parcels = data.parcels(job)
    timed = _timed(lambda: _exhaust(absorb(job, state, parcels, ALWAYS)))
    what = f"state per key and open window, {_plural(queries)}"
    data.bytes_of[what] = sum(map(len, state.parts.values())) / GROUPS
    return timed


def _exhaust(found: Iterable[object]) -> None:
    for _ in found:
        pass


@dataclass
class ShardMemory:
    """The state of a shard in memory, as `runtime.stream` takes a store."""

    text: str | None = None
    parts: dict[int, bytes] = field(default_factory=dict)

    def index(self) -> str | None:
        """What `set_index` kept."""
        return self.text

    def set_index(self, text: str) -> None:
        """Keep the index."""
        self.text = text

    def get(self, number: int) -> bytes:
        """A part of the state."""
        return self.parts[number]

    def put(self, number: int, payload: bytes) -> None:
        """Keep a part."""
        self.parts[number] = payload

    def drop(self, number: int) -> None:
        """Forget a part."""
        del self.parts[number]

    def clear(self) -> None:
        """Forget the index."""
        self.text = None
