"""A stream from a Kafka topic into another, with the driver and the broker killed on the way."""

from __future__ import annotations

import json
import random
import subprocess
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import trendfold as tf
from chaos.broker import Broker, broker
from chaos.feed import common_queries, write_queries
from chaos.figures import Figures, compare, written
from chaos.streams import Job, kill
from spark.test_agreement import stream

SCHEMA = "type string, ts timestamp, g bigint, h string, v bigint, x double"
DELAY_S = 20
"""Partitions are not read at one pace."""
NO_EVENTS = (b"no JSON", b"[]", b'{"type": "A", "ts": "yesterday"}', b'{"type": "A", "v": "many"}')


def driver_and_broker_killed(rng: random.Random, folder: Path, jars: Path) -> Figures:
    """Results are compared after copies with the same key are dropped."""
    table = stream(events=6_000, groups=20, seed=rng.randrange(1 << 30))
    workload, bad = common_queries(rng), rng.choices(NO_EVENTS, k=rng.randint(1, 9))
    write_queries(workload, folder)
    with broker(jars / "kafka", folder / "broker") as running:
        job = _job(folder, running, jars)
        for topic in ("events", "results"):
            running.create_topic(topic)
        half = table.num_rows // 2
        running.send("events", [*_messages(table.slice(0, half)), *(("bad", text) for text in bad)])
        running.send("events", _messages(table.slice(half)))
        kills = sum(_killed_once(job, running, rng) for _ in range(2))
        figures = job.finish() + _check(workload, table, running.receive("results"))
    told = len(written(folder / "rejects", ["rejects"])["rejects"])
    lost, doubled = max(0, len(bad) - told), max(0, told - len(bad))
    return figures + Figures(1, kills, events=table.num_rows + len(bad), lost=lost, doubled=doubled)


def _job(folder: Path, running: Broker, jars: Path) -> Job:
    connector = ",".join(str(path) for path in sorted((jars / "connector").glob("*.jar")))
    source = ("--source", f"kafka:{running.servers}/events", "--schema", SCHEMA, "--rows-per-batch", "1500")
    output = f"kafka:{running.servers}/results"
    return Job(folder, DELAY_S, source, output, settings=("--conf", f"spark.jars={connector}"))


def _killed_once(job: Job, running: Broker, rng: random.Random) -> int:
    """The driver, and sometimes the broker before it."""
    process, kills = job.start(), 0
    job.wait_for(job.committed + rng.randint(1, 3), process)
    if rng.random() < 0.5:
        running.kill()
        running.start()
        kills += 1
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=rng.uniform(0, 6))
    return kills + kill(process)


def _messages(table: pa.Table) -> list[tuple[str, bytes]]:
    """Keyed by group, so that events of all partitions have about the same times."""
    return [
        (str(row["g"]), json.dumps({**row, "ts": row["ts"].isoformat()}).encode())
        for row in table.to_pylist()
    ]


def _check(workload: tf.Workload, table: pa.Table, received: list[tuple[str, str]]) -> Figures:
    found: dict[str, list[dict[str, Any]]] = {query.name: [] for query in workload.queries}
    for text in dict(received).values():
        row = json.loads(text)
        times = {name: datetime.fromisoformat(row[name]) for name in ("window_start", "window_end")}
        found[row.pop("query")].append({**row, **times})
    return compare(workload, dict(workload.run(table, engine="local")), found)
