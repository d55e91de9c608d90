"""An hour of event time on Spark: what a stream keeps does not grow, and nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from spark.agreement import agree
from spark.test_stream import Inbox, written
from trendfold.runtime.spark.watch import Progress

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]

GROUPS, MINUTES, PER_MINUTE = 10_000, 60, 20_000


def minute(number: int, rng: np.random.Generator) -> pa.Table:
    """A minute of events. After half an hour all groups are others: those before have stopped sending."""
    groups = rng.integers(0, GROUPS, PER_MINUTE) + (GROUPS if number >= MINUTES // 2 else 0)
    times = (1_000_000 + 60 * number) * 1_000_000 + np.sort(rng.integers(0, 60_000_000, PER_MINUTE))
    return pa.table(
        {
            "type": pa.array(rng.choice(["A", "B"], PER_MINUTE)),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "g": pa.array(groups),
        }
    )


def test_an_hour_at_ten_thousand_groups_holds_state_flat(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tables = [minute(number, rng) for number in range(MINUTES)]
    inbox = Inbox(spark, tmp_path / "in", tables[0].schema)
    for table in tables:
        inbox.put(table)
    workload = tf.parse(
        "QUERY trips RETURN g, COUNT(*) PATTERN SEQ(A, B+) GROUP BY g WITHIN 5 min SLIDE 1 min"
    )
    seen: list[Progress] = []
    handle = workload.start(
        inbox.stream(),
        watermark="30 s",
        checkpoint=tmp_path / "checkpoint",
        output=tmp_path / "out",
        trigger="availableNow",
        flush=True,
    )
    handle.listen(seen.append)
    assert handle.await_termination()
    sizes = {progress.batch: progress.state_bytes for progress in seen}
    steady = [size for batch, size in sorted(sizes.items()) if 10 <= batch < MINUTES]
    half = len(steady) // 2
    assert half > 10
    assert 0 < max(steady[half:]) <= 1.2 * max(steady[:half])
    assert handle.progress.state_rows == 0
    batch = workload.run(pa.concat_tables(tables), engine="local")["trips"]
    agree(written(tmp_path / "out", "trips", batch, 1), batch)
