"""Queries that are added to a stream join the state of the others, and have the oracle's rows from then."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import trendfold as tf
from contract import engine
from contract.test_machine_lanes import random_events, random_workload
from contract.test_mixed_lanes import mixed_workload
from contract.test_together import SCHEMA
from spark.agreement import agree
from stream.simulation import Simulation, arrival, cuts, ordered, simulate
from stream.test_checkpoint import told_of
from stream.test_settling import START, WINDOWS, keep_raw, layout_1_events, seeds, workload_by_alias
from trendfold.api import Workload
from trendfold.plan import stream_choices
from trendfold.runtime.release import ALWAYS
from trendfold.runtime.spark.manifest import require_same_exchanges
from trendfold.runtime.stream.shard_state import ShardIndex
from trendfold.runtime.stream.stream_job import Epoch, stream_job
from trendfold.testing import oracle


class GrowingStream(Simulation):
    """A stream to which queries are added, and from which they are removed."""

    @staticmethod
    def of(
        workload: Workload, schema: pa.Schema, delay_us: int, shards: int, **options: object
    ) -> GrowingStream:
        """A stream that begins with these queries."""
        made = simulate(workload, schema, delay_us, shards, **options)
        found = GrowingStream(made.stream, delay_us)
        found.epochs, found.removed = [Epoch(workload.plan())], set()
        return found

    def add(self, workload: Workload, joins: bool = True) -> int:
        """Add queries; returns the time after which their windows begin."""
        self.epochs.append(Epoch(workload.plan(), self.latest, joins))
        self._restart()
        return self.latest

    def remove(self, query: int) -> None:
        """Remove a query."""
        self.removed.add(query)
        self._restart()

    def _restart(self) -> None:
        old = self.stream
        job = old.job
        given = job.schema, job.options, 0, job.limits, job.arithmetic, job.buckets
        changed = stream_job(self.epochs, self.removed, *given, keeps_rejects=True)
        self.stream = replace(changed, delay_ms=old.delay_ms)
        names = [[f"q{query}" for query in each.queries] for each in changed.job.exchanges]
        require_same_exchanges(told_of(*job.exchanges), told_of(*changed.job.exchanges), names)


def check_added(seed: int, monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> int:
    """Add queries while a stream runs; returns how many joined the exchange of others."""
    rng = random.Random(seed)
    events, order_column = random_events(rng) + random_events(rng), rng.choice([None, None, "seq"])
    texts = [text for text in texts if "WITHIN" in text]
    if len(texts) < 2 or not events:
        return 0
    events.sort(key=lambda event: (event["ts"], event["seq"]))
    events = [{**event, "ts": event["ts"] + START, "seq": i} for i, event in enumerate(events)]
    table, delay = pa.Table.from_pylist(events, SCHEMA), rng.choice([0, 1, 3, 10])
    keep_raw(monkeypatch, rng.choice([0, 0, 1, 3, None]))
    monkeypatch.setattr(stream_choices, "_LIGHT", rng.choice([0, 1 << 16]))
    monkeypatch.setattr(stream_choices, "_PER_VECTOR", rng.choice([0, 8]))
    first = rng.randint(1, len(texts) - 1)
    stream = GrowingStream.of(
        tf.parse(";".join(texts[:first])),
        SCHEMA,
        delay * 1_000_000,
        rng.choice([1, 2]),
        order_column=order_column,
    )
    since, rest = dict.fromkeys(texts[:first], ALWAYS), texts[first:]
    shuffled = table.take(pa.array(arrival(table.column("ts").to_pylist(), delay, rng), pa.int64()))
    for cut in cuts(table.num_rows, rng):
        stream.feed(shuffled.slice(cut.start, cut.stop - cut.start))
        if rest and rng.random() < 0.5:
            many = rng.randint(1, len(rest))
            added, rest = rest[:many], rest[many:]
            since |= dict.fromkeys(added, stream.add(tf.parse(";".join(added))))
    stream.flush()
    assert not any(store.text or store.parts for store in stream.shards.values())
    found = stream.results()
    for text, begin in since.items():
        (query,) = tf.parse(text)
        keys, like = len(query.group_by), tf.parse(text).run(table, order_column=order_column)[query.name]
        rows = ordered(found[query.name], like, keys).to_pylist()
        wanted = oracle.rows(text, events, order_column)
        wanted = [row for row in wanted if begin == ALWAYS or row["window_start"] * 1_000_000 > begin]
        wrong = engine.difference(rows, wanted, keys)
        assert wrong is None, f"seed {seed}: {text} since {begin}\n{wrong}"
    return len(since) - len({q for e in stream.stream.job.exchanges for q in e.queries[:1]})


@pytest.mark.parametrize("seed", seeds(25, 150))
def test_added_queries_have_the_rows_of_the_oracle(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_added(seed, monkeypatch, random_workload(random.Random(seed + 20_000), 6)[0])


@pytest.mark.parametrize("seed", seeds(25, 150))
def test_added_queries_of_every_kind_have_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed + 21_000)
    check_added(seed, monkeypatch, mixed_workload(rng, 6, WINDOWS))
    check_added(seed, monkeypatch, workload_by_alias(rng))


TEXT = """
QUERY {} RETURN g, COUNT(*), SUM(B.x) PATTERN SEQ(A, B+) WHERE B.x > {} GROUP BY g WITHIN 30 s SLIDE {} s
"""


def test_an_added_query_joins_the_vectors_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_raw(monkeypatch, 0)
    monkeypatch.setattr(stream_choices, "_PER_VECTOR", 0)
    old, new = tf.parse(TEXT.format("old", 1, 10)), tf.parse(TEXT.format("new", 5, 10))
    table = layout_1_events(0, 320)
    stream = GrowingStream.of(old, table.schema, 2_000_000, 2)
    for first in range(0, 100, 20):
        stream.feed(table.slice(first, 20))
    since = stream.add(new)
    assert [exchange.queries for exchange in stream.stream.job.exchanges] == [(0, 1)]
    ((group,),) = stream.stream.online.values()
    assert group.queries == (0, 1)
    for first in range(100, 320, 20):
        stream.feed(table.slice(first, 20))
    stream.flush()
    for name, workload, begin in (("old", old, 0), ("new", new, since)):
        wanted = workload.run(table)[name]
        wanted = wanted.filter(pc.greater(wanted.column("window_start"), begin // 1_000_000))
        assert wanted.num_rows
        agree(ordered(stream.results()[name], wanted, 1), wanted)


def test_a_query_that_others_joined_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_raw(monkeypatch, 0)
    old, new = tf.parse(TEXT.format("old", 1, 10)), tf.parse(TEXT.format("new", 5, 15))
    table = layout_1_events(0, 320)
    stream = GrowingStream.of(old, table.schema, 2_000_000, 1)
    stream.feed(table.slice(0, 100))
    since = stream.add(new)
    stream.feed(table.slice(100, 60))
    stream.remove(0)
    stream.feed(table.slice(160, 160))
    kept = [ShardIndex.load(store, ALWAYS).groups for store in stream.shards.values()]
    assert all(len(groups) == 1 for groups in kept)
    stream.flush()
    wanted = new.run(table)["new"]
    wanted = wanted.filter(pc.greater(wanted.column("window_start"), since // 1_000_000))
    agree(ordered(stream.results()["new"], wanted, 1), wanted)
    assert not any(store.text or store.parts for store in stream.shards.values())
