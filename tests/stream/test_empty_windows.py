"""INCLUDE EMPTY and COUNT(DISTINCT ...) on streams: folded online and raw, the rows are the oracle's."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import trendfold as tf
from contract.more_clauses import with_more_clauses
from contract.test_machine_lanes import random_workload
from contract.test_mixed_lanes import mixed_workload
from stream.simulation import simulate
from stream.test_moving import use_blocks
from stream.test_settling import START, WINDOWS, check, keep_raw, seeds, workload_by_alias


def more(texts: list[str], rng: random.Random) -> list[str]:
    return [with_more_clauses(text, rng, "u") if rng.random() < 0.8 else text for text in texts]


@pytest.mark.parametrize("seed", seeds(40, 200))
def test_any_workload_order_and_cut_gives_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed + 9_000)
    texts = random_workload(rng)[0] if seed % 2 else mixed_workload(rng, 6, WINDOWS)
    check(seed, monkeypatch, more(texts, rng))


@pytest.mark.parametrize("seed", seeds(20, 80))
def test_trends_grouped_by_an_alias_give_the_rows_of_the_oracle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed + 10_000)
    check(seed, monkeypatch, more(workload_by_alias(rng), rng))


@pytest.mark.parametrize("seed", seeds(15, 60))
def test_windows_per_event_give_the_rows_of_the_oracle(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed + 11_000)
    use_blocks(monkeypatch, rng)
    check(seed, monkeypatch, more(mixed_workload(rng, 5, ("WITHIN 5 s", "WITHIN 11 s")), rng), most_cuts=20)


def test_an_outage_and_the_recovery_after_it_can_be_seen() -> None:
    """Trends stop while events go on, then the source is silent, then trends come back."""
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s INCLUDE EMPTY")
    types = "AB" * 5 + "B" * 10 + "C" * 10 + "AB" * 5
    times = [START + i for i in range(20)] + [START + 30 + i for i in range(20)]
    table = pa.table({"type": list(types), "ts": times})
    for chosen in (0, 100):
        with pytest.MonkeyPatch.context() as patch:
            keep_raw(patch, chosen)
            stream = simulate(workload, table.schema, 0, 1)
            for low in range(0, 40, 4):
                stream.feed(table.slice(low, 4))
            stream.flush()
        rows = [row for part in stream.results()["q1"] for row in part.to_pylist()]
        assert [(row["window_start"] - START, row["count"]) for row in rows] == [(0, 15), (10, 0), (40, 15)]
