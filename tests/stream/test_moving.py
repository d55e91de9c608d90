"""Windows per event on streams: blocks of events as matrices give the rows of the oracle and of batch."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from contract.test_mixed_lanes import mixed_workload
from spark.agreement import agree
from stream.simulation import Simulation, arrival, ordered, simulate
from stream.test_settling import START, check, seeds
from trendfold.runtime.spark.blobs import Content
from trendfold.runtime.stream import moving_windows
from trendfold.runtime.stream.shard_state import ShardIndex

WINDOWS = ("WITHIN 3 s", "WITHIN 5 s", "WITHIN 9 s", "WITHIN 20 s", "WITHIN 200 s", "WITHIN 6 s SLIDE 2 s")


def use_blocks(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    """Blocks wherever there are events; they end at every watermark, or at some."""
    share = rng.choice([1.0, 0.5])
    monkeypatch.setattr(moving_windows, "pays_matrices", lambda *_: True)
    monkeypatch.setattr(moving_windows, "ends_block", lambda *_: rng.random() < share)


@pytest.mark.parametrize("seed", seeds(25, 400))
def test_any_workload_order_and_cut_gives_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    use_blocks(monkeypatch, rng)
    check(seed, monkeypatch, mixed_workload(rng, 4, WINDOWS), most_cuts=30)


def told(stream: Simulation, what: str) -> list[int]:
    """A figure of every report on the state."""
    blobs = [b for blobs in stream.told for b in blobs if b.content is Content.STATE]
    return [json.loads(bytes(blob.payload))[what] for blob in blobs]


def rides(count: int, groups: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "type": rng.choice(list("ABC"), count),
            "ts": START * 1_000 + np.arange(count) * 10,
            "g": rng.integers(0, groups, count),
            "x": rng.integers(0, 9, count),
        }
    )


@pytest.mark.parametrize("delay", [0, 2])
def test_an_event_is_read_a_few_times_however_many_micro_batches_a_window_has(delay: int) -> None:
    table = rides(20_000, 2)
    workload = tf.parse("RETURN g, COUNT(*), SUM(B.x), MAX(C.x) PATTERN SEQ(A, B, C) GROUP BY g WITHIN 40 s")
    stream = simulate(workload, table.schema, delay * 1_000_000, 1, time_unit="ms")
    assert stream.stream.raw == {}
    for low in range(0, 20_000, 200):  # 2 s, so 20 micro-batches in a window
        stream.feed(table.slice(low, 200))
    stream.flush()
    assert sum(told(stream, "read")) <= 4 * 20_000
    batch = workload.run(table, time_unit="ms")["q1"]
    agree(ordered(stream.results()["q1"], batch, 1), batch)


def test_few_events_of_many_keys_have_no_matrices() -> None:
    table = rides(2_000, 1_000)
    workload = tf.parse("RETURN g, COUNT(*) PATTERN SEQ(A, B) GROUP BY g WITHIN 4 s")
    stream = simulate(workload, table.schema, 0, 1, time_unit="ms")
    for low in range(0, 2_000, 100):
        stream.feed(table.slice(low, 100))
    assert max(told(stream, "vector_bytes")) == 0


def test_matrices_of_another_machine_are_made_anew() -> None:
    table = rides(6_000, 1)
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN 10 s")
    stream = simulate(workload, table.schema, 0, 1, time_unit="ms")
    for low in range(0, 6_000, 100):
        stream.feed(table.slice(low, 100))
        store = stream.shards[0]
        if store.text is not None and low % 700 == 0:
            index = ShardIndex.load(store, 0)
            for state in index.moving.values():
                state.meaning = "other"
            index.write(store)
    stream.flush()
    batch = workload.run(table, time_unit="ms")["q1"]
    agree(ordered(stream.results()["q1"], batch, 0), batch)


def test_integers_without_a_code_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    use_blocks(monkeypatch, random.Random(0))
    rng = random.Random(1)
    large = [9_200_000_000_000_000_000 + i for i in range(9)]
    count = 400
    values: list[Any] = [rng.choice(large) if 100 < i < 130 else rng.randint(0, 2**60) for i in range(count)]
    times = pa.array(START + np.arange(count))
    table = pa.table({"type": rng.choices("AB", k=count), "ts": times, "n": pa.array(values)})
    workload = tf.parse("RETURN MIN(A.n), MAX(B.n) PATTERN SEQ(A, B) WITHIN 20 s")
    stream = simulate(workload, table.schema, 3_000_000, 1)
    shuffled = table.take(pa.array(arrival(times.to_pylist(), 3, rng)))
    for low in range(0, count, 7):
        stream.feed(shuffled.slice(low, 7))
    stream.flush()
    batch = workload.run(table)["q1"]
    assert ordered(stream.results()["q1"], batch, 0).equals(batch)
