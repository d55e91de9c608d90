"""What a round is about: a random workload, events that arrive as files, and the rows that batch gives."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import trendfold as tf
from spark.test_agreement import stream
from stream.simulation import arrival
from stream.test_shards import random_stream
from trendfold.query import to_text

FILES = 5
_LONG_BEFORE_S = 600
"""So much earlier than the first event is an event that must be late."""


@dataclass(frozen=True)
class Feed:
    """Events in the order of their arrival, in files; what is late among them, and what is no event."""

    workload: tf.Workload
    files: tuple[pa.Table, ...]
    on_time: pa.Table
    """Every event that counts, and the rows that are no events."""
    late: int
    delay_s: int
    options: tuple[str, ...] = field(default=())

    def write(self, folder: Path) -> None:
        """The query file, and a folder of files that Spark reads one after the other."""
        write_queries(self.workload, folder)
        (folder / "in").mkdir(parents=True, exist_ok=True)
        for number, table in enumerate(self.files):
            path = folder / "in" / f"{number:03}.parquet"
            pq.write_table(table, path)
            at = 1_700_000_000 + number  # Spark takes files in the order of their times
            os.utime(path, (at, at))

    def expected(self) -> tuple[dict[str, pa.Table], int]:
        """Per query the rows of batch, and how many rows must be told of as rejects or late."""
        result = self.workload.run(self.on_time, engine="local")
        return dict(result), result.summary.rejects + self.late


def write_queries(workload: tf.Workload, folder: Path) -> None:
    """As a file that the command line takes."""
    text = ";\n".join(to_text(query) for query in workload.queries)
    (folder / "q.tql").write_text(text, encoding="utf-8")


def random_feed(rng: random.Random) -> Feed:
    """Few events and queries of every kind, or many events and queries of common kinds."""
    return _many_queries(rng) if rng.random() < 0.4 else _many_events(rng)


def _many_queries(rng: random.Random) -> Feed:
    workload, table = random_stream(rng.randrange(1 << 30), 20)
    delay = rng.choice([5, 30, 120])
    order = arrival(table.column("ts").to_pylist(), delay, rng)
    return Feed(workload, _cut(table.take(pa.array(order)), rng), table, 0, delay)


def _many_events(rng: random.Random) -> Feed:
    table = stream(events=rng.choice([1_000, 4_000, 12_000]), groups=20, seed=rng.randrange(1 << 30))
    table = _with_rejects(table, rng)
    workload = common_queries(rng)
    delay = rng.choice([2, 5, 20])
    times = table.column("ts").cast(pa.int64()).to_pylist()
    files = _cut(table.take(pa.array(arrival(times, delay * 1e6, rng))), rng)
    files, copies = _replayed(files, delay * 1_000_000, rng)
    files, late = _with_late(files, min(t for t in times if t is not None), rng)
    return Feed(workload, files, pa.concat_tables([table, *copies]), late, delay)


def common_queries(rng: random.Random) -> tf.Workload:
    """A few queries as people write them."""
    return tf.parse(";\n".join(f"QUERY q{n} {_query(rng)}" for n in range(rng.randint(2, 6))))


def _query(rng: random.Random) -> str:
    pattern = rng.choice(
        ["SEQ(A, B+, C)", "SEQ(A, B)", "SEQ(A, NOT D, B)", "SEQ(A, B, NOT D)", "SEQ(A, B, C)"]
    )
    where = rng.sample(["[g]", f"B.v > {rng.randint(20, 80)}", "A.h = 'x'"], rng.randint(0, 2))
    group = rng.choice(["", "g", "h", "g"])
    length = rng.randint(2, 20)
    slide = rng.choice([f" SLIDE {length} s", f" SLIDE {max(1, length // 2)} s", ""])
    if not slide:
        length = rng.randint(1, 2)
    aggregates = rng.sample(["COUNT(*)", "SUM(B.v)", "MIN(B.x)", "MAX(A.v)", "AVG(B.x)"], rng.randint(1, 3))
    return " ".join(
        [
            f"RETURN {', '.join([*([group] if group else []), *aggregates])} PATTERN {pattern}",
            rng.choice(["", "", "SEMANTICS next"]),
            f"WHERE {' AND '.join(where)}" if where else "",
            f"GROUP BY {group}" if group else "",
            f"WITHIN {length} s{slide}",
        ]
    )


def _with_rejects(table: pa.Table, rng: random.Random) -> pa.Table:
    """A few rows without a type or without a time."""
    rows = set(rng.sample(range(table.num_rows), rng.randint(0, 20)))
    name = rng.choice(["type", "ts"])
    at = table.schema.get_field_index(name)
    values = [None if i in rows else value for i, value in enumerate(table.column(name).to_pylist())]
    return table.set_column(at, name, pa.array(values, table.schema.field(name).type))


def _cut(table: pa.Table, rng: random.Random) -> tuple[pa.Table, ...]:
    """Files of any size."""
    edges = sorted({0, table.num_rows, *(rng.randint(1, table.num_rows - 1) for _ in range(FILES - 1))})
    return tuple(table.slice(a, b - a) for a, b in itertools.pairwise(edges))


def _replayed(
    files: Sequence[pa.Table], delay_us: int, rng: random.Random
) -> tuple[tuple[pa.Table, ...], list[pa.Table]]:
    """Sometimes a file comes once more under another name at once: its rows are events of their own.

    Only those within the delay of what came before: the others would be late, and no part of the batch run.
    """
    if rng.random() < 0.7:
        return tuple(files), []
    at = rng.randrange(len(files))
    seen = pa.concat_tables(files[: at + 1]).column("ts").cast(pa.int64())
    times = files[at].column("ts").cast(pa.int64())
    floor = (pc.max(seen).as_py() or 0) - delay_us
    copy = files[at].filter(pc.or_(pc.is_null(times), pc.fill_null(pc.greater_equal(times, floor), False)))
    return (*files[: at + 1], copy, *files[at + 1 :]), [copy]


def _with_late(
    files: Sequence[pa.Table], first_us: int, rng: random.Random
) -> tuple[tuple[pa.Table, ...], int]:
    """In some files, events from long before the first: every window they could be in has been reported."""
    found, count = [], 0
    for number, table in enumerate(files):
        extra = rng.randint(1, 5) if number > 1 and rng.random() < 0.4 else 0
        times = [first_us - _LONG_BEFORE_S * 1_000_000 + n for n in range(extra)]
        rows = [{"type": "A", "ts": at, "g": 1, "h": "x", "v": 50, "x": 0.5} for at in times]
        columns = [
            pa.array([row[f.name] for row in rows], pa.int64() if f.name == "ts" else f.type).cast(f.type)
            for f in table.schema
        ]
        found.append(pa.concat_tables([pa.table(columns, table.schema), table]))
        count += extra
    return tuple(found), count
