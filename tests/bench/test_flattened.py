"""Fixed-length sequences cover a Kleene query."""

from __future__ import annotations

import pyarrow as pa

import trendfold as tf
from trendfold.api import Workload
from trendfold.bench.flattened import flattened


def test_the_counts_of_all_lengths_add_up() -> None:
    events = pa.table({"type": list("ABBABCBB"), "ts": list(range(8))})
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B+)")
    [whole] = workload.run(events, engine="local")["q1"].to_pylist()
    fixed = Workload(flattened(workload.queries[0], 5))
    counts = [
        row["count"] for table in fixed.run(events, engine="local").values() for row in table.to_pylist()
    ]
    assert sum(counts) == whole["count"] == 31 + 7
    assert len(fixed) == 5
