"""What a stream's progress tells, from Spark's reports."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")
from trendfold.runtime.spark.watch import Progress, latencies


def report(batch: int, second: float, rows: int, took_ms: int, **also: int) -> dict[str, Any]:
    """A report of Spark on one micro-batch."""
    durations = {"triggerExecution": took_ms, "addBatch": took_ms - 1, **also}
    stamp = f"2026-01-01T00:00:{second:06.3f}Z"
    return {"batchId": batch, "timestamp": stamp, "numInputRows": rows, "durationMs": durations}


def test_latency_lasts_from_the_trigger_that_read_events_to_the_end_of_the_next_batch() -> None:
    told = [report(0, 1, 10, 500), report(1, 1.5, 0, 250), report(2, 10, 20, 2_000), report(3, 12, 30, 1_000)]
    assert latencies(told) == [0.75, 3.0]


def test_polls_without_a_batch_and_batches_that_were_not_reported_tell_nothing_of_latency() -> None:
    poll = report(1, 2, 0, 5)
    del poll["durationMs"]["addBatch"]
    assert latencies([report(0, 1, 10, 500), poll]) == []
    assert latencies([report(0, 1, 10, 500), report(5, 9, 10, 500)]) == []
    assert latencies([]) == []


def test_progress_tells_latency_once_it_is_known() -> None:
    seen = 7, 10, 1.0, None, None, 3, 55, 600, 0, 0, {"q": 4}
    assert "latency" not in str(Progress(*seen))
    told = str(Progress(*seen, latency_p50_s=0.5, latency_p99_s=2.0))
    assert "latency 0.50 s (p50) and 2.00 s (p99)" in told
