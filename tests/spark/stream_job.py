"""A stream in a process of its own, for tests that kill it: goes on from its checkpoint wherever it was."""

from __future__ import annotations

import sys
from pathlib import Path

import trendfold as tf
from trendfold.runtime.spark.session import session

QUERIES = """
QUERY grouped RETURN g, COUNT(*), SUM(B.v) PATTERN SEQ(A, B+, C) WHERE B.v > 50 GROUP BY g
WITHIN 20 s SLIDE 10 s;
QUERY whole RETURN COUNT(*) PATTERN SEQ(A, B, NOT D) WHERE [g] WITHIN 10 s SLIDE 10 s;
QUERY moving RETURN h, COUNT(*) PATTERN SEQ(A, C) GROUP BY h HAVING COUNT(*) > 2 WITHIN 2 s
"""


def main(master: str, folder: str) -> None:
    """Read all files there are, a few per micro-batch, and report everything at the end."""
    spark, root = session(master), Path(folder)
    schema = spark.read.parquet(str(root / "in")).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(root / "in"))
    handle = tf.parse(QUERIES).start(
        stream,
        watermark="5 s",
        checkpoint=root / "checkpoint",
        output=root / "out",
        trigger="availableNow",
        flush=True,
        shards=2,
    )
    print("started", flush=True)
    handle.await_termination()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
