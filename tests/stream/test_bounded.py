"""WITHIN w EVERY s on streams: trends that reach back over periods give the rows of the oracle."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import trendfold as tf
from contract import engine
from contract.test_machine_lanes import random_events
from contract.test_mixed_lanes import mixed_workload
from contract.test_together import SCHEMA
from spark.agreement import agree
from stream.simulation import Simulation, ordered, simulate
from stream.test_settling import START, check, seeds
from trendfold.errors import QueryError
from trendfold.runtime.release import ALWAYS, require_streamable
from trendfold.runtime.spark.recorder import with_finality
from trendfold.runtime.stream.shard_state import ShardIndex, StatePart
from trendfold.testing import oracle

BOUNDS = ("WITHIN 4 s EVERY 4 s", "WITHIN 9 s EVERY 2 s", "WITHIN 3 s EVERY 10 s", "WITHIN 30 s EVERY 7 s")
OTHERS = ("WITHIN 5 s", "WITHIN 6 s SLIDE 2 s", "WITHIN 5 s SLIDE 5 s")


def texts_of(rng: random.Random, windows: tuple[str, ...]) -> list[str]:
    texts = mixed_workload(rng, 4, windows)
    return [text for text in texts if "AND(" not in text or "EVERY" not in text]


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_any_order_and_cut_gives_the_rows_of_the_oracle(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    check(seed, monkeypatch, texts_of(rng, BOUNDS + (OTHERS if seed % 3 == 0 else ())), most_cuts=30)


ENDS = (
    "SEQ(NOT D, A, B+)",
    "SEQ(A+, B, NOT D)",
    "SEQ(NOT D, A, B, NOT SEQ(C, D))",
    "SEQ(NOT C, NOT D, A, NOT D, B+, NOT D, NOT C)",
)


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_a_not_at_the_ends_waits_and_looks_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    keys = rng.choice(["", "[u] "])
    compared = rng.choice(["", "A.x <= NEXT(B).x", "A.x != B.x"])
    where = " AND ".join(filter(None, [keys.strip(), compared]))
    texts = [
        f"RETURN COUNT(*), SUM(A.x) PATTERN {pattern} SEMANTICS {rng.choice(['any', 'next', 'contiguous'])} "
        f"{'WHERE ' + where if where else ''} {rng.choice(BOUNDS)}"
        for pattern in ENDS
    ]
    check(seed, monkeypatch, texts, most_cuts=30)


@pytest.mark.parametrize("seed", range(10))
def test_open_periods_are_reported_as_updates(seed: int) -> None:
    rng = random.Random(seed)
    events = [{**event, "ts": event["ts"] + START} for event in random_events(rng)]
    text = f"RETURN COUNT(*), SUM(A.x) PATTERN {rng.choice(ENDS)} {rng.choice(BOUNDS)}"
    workload = tf.parse(text)
    table = pa.Table.from_pylist(events, SCHEMA).sort_by("ts")
    stream = simulate(workload, table.schema, 2_000_000, 2)
    stream.stream = replace(stream.stream, emits_updates=True)
    for low in range(0, table.num_rows, 5):
        stream.feed(table.slice(low, 5))
    stream.flush()
    latest: dict[int, dict] = {}
    for rows in stream.results()["q1"]:
        latest |= {row["window_start"]: row for row in rows.to_pylist()}
    expected = oracle.rows(text, events, None)
    wanted = {row["window_start"]: row for row in expected}
    # What an update has reported may be gone, where a NOT at the end has broken the only trend.
    found = [latest[start] for start in sorted(wanted)]
    assert engine.difference(found, expected, 2) is None


def test_a_row_is_final_when_no_not_can_break_its_trends() -> None:
    table = pa.table({"type": ["A"], "ts": pa.array([START])})
    for pattern, wait in (("A", 0), ("SEQ(A, NOT B)", 3)):
        workload = tf.parse(f"RETURN COUNT(*) PATTERN {pattern} WITHIN 3 s EVERY 10 s")
        stream = replace(simulate(workload, table.schema, 0, 1).stream, emits_updates=True)
        rows = pa.table({"window_start": [START], "window_end": [START + 10], "count": [1.0]})
        for seconds, is_final in ((9 + wait, False), (10 + wait, True)):
            told = with_finality(stream, 0, rows, (START + seconds) * 1_000_000)
            assert told.column("is_final").to_pylist() == [is_final], (pattern, seconds)


def test_only_events_within_reach_are_kept() -> None:
    times = START + pa.array(range(4_000)).to_numpy()
    table = pa.table({"type": ["A", "B"] * 2_000, "ts": times})
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 50 s EVERY 5 s")
    stream = simulate(workload, table.schema, 0, 1)
    most = 0
    for low in range(0, 4_000, 40):
        stream.feed(table.slice(low, 40))
        most = max(most, sum(part.rows for part in _parts(stream)))
    stream.flush()
    assert most <= 200
    batch = workload.run(table)["q1"]
    agree(ordered(stream.results()["q1"], batch, 0), batch)


def _parts(stream: Simulation) -> list[StatePart]:
    return ShardIndex.load(stream.shards[0], ALWAYS).parts


def test_once_never_ends_on_a_stream() -> None:
    workload = tf.parse("RETURN COUNT(*) PATTERN A WITHIN 3 s ONCE")
    with pytest.raises(QueryError, match="its only period never ends"):
        require_streamable(tuple(workload))
