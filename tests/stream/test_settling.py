"""Events that are folded as they become final give the oracle's rows, wherever they are cut."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import oracle
import trendfold as tf
from contract import engine
from contract.test_machine_lanes import growing_workload, many_events, random_workload
from contract.test_together import SCHEMA
from spark.agreement import agree
from stream.simulation import Simulation, arrival, cuts, ordered, simulate
from trendfold.api import Workload
from trendfold.kernel.jit import IS_PLAIN
from trendfold.runtime.stream import settling

START = 10_000
"""Spark's watermark begins in 1970."""


def keep_raw(monkeypatch: pytest.MonkeyPatch, most: int | None) -> None:
    """Segments with more than so many events get vectors; None leaves that to their sizes."""
    if most is not None:
        monkeypatch.setattr(settling, "most_raw_rows", lambda numbers, row_bytes: most)


def feed(stream: Simulation, table: pa.Table, delay: float, rng: random.Random, most_cuts: int = 8) -> None:
    """Feed events in some order within the delay, in micro-batches of any size, and end the stream."""
    shuffled = table.take(pa.array(arrival(table.column("ts").to_pylist(), delay, rng), pa.int64()))
    for cut in cuts(table.num_rows, rng, most_cuts):
        stream.feed(shuffled.slice(cut.start, cut.stop - cut.start))
    stream.flush()
    assert stream.late() == 0
    assert not any(store.text or store.parts for store in stream.shards.values())


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    texts = [text for text in texts if "WITHIN" in text]
    if not texts or not events:
        return
    events = [{**event, "ts": event["ts"] + START} for event in events]
    table = pa.Table.from_pylist(events, SCHEMA)
    delay = rng.choice([0, 1, 3, 10, 40])
    keep_raw(monkeypatch, rng.choice([0, 0, 1, 3, None]))
    monkeypatch.setattr(settling, "_LIGHT", rng.choice([0, 1 << 16]))
    workload = tf.parse(";".join(texts))
    shards = rng.choice([1, 2])
    stream = simulate(workload, table.schema, delay * 1_000_000, shards, order_column=order_column)
    feed(stream, table, delay, rng)
    found = stream.results()
    like = workload.run(table, order_column=order_column)
    for query, text in zip(workload, texts, strict=True):
        keys = len(query.group_by)
        rows = ordered(found[query.name], like[query.name], keys).to_pylist()
        wrong = engine.difference(rows, oracle.rows(text, events, order_column), keys)
        assert wrong is None, f"seed {seed}: {text}\n{wrong}"


@pytest.mark.parametrize("seed", range(3 if IS_PLAIN else 250))
def test_any_workload_order_and_cut_gives_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 4_000, 100))
def test_thousands_of_workloads_orders_and_cuts_give_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(seed, seed + 100):
        check(number, monkeypatch)


@pytest.mark.parametrize("seed", range(1 if IS_PLAIN else 6))
def test_counts_of_any_size_go_on_from_the_state(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    keep_raw(monkeypatch, rng.choice([0, None]))
    events = many_events(rng, 300 if IS_PLAIN else 2_000, with_ties=seed % 2 == 1)
    at = events.schema.get_field_index("ts")
    events = events.set_column(at, "ts", pa.array(events.column("ts").to_numpy() + START))
    queries = (*growing_workload(rng), *tf.parse("QUERY q RETURN COUNT(*) PATTERN A+ WITHIN 9 s SLIDE 3 s"))
    asked = Workload(tuple(query for query in queries if query.window is not None))
    stream = simulate(asked, events.schema, 5_000_000)
    feed(stream, events, 5, rng)
    batch = asked.run(events)
    for query in asked:
        agree(ordered(stream.results()[query.name], batch[query.name], 0), batch[query.name])
