"""Compiles most kernels before any test runs: two processes side by side, each its own half.

Without this, on a fresh machine every pytest worker would compile all of them for itself.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HALVES = (
    [
        ("RETURN COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 4 s SLIDE 2 s", {}),
        ("RETURN COUNT(*), SUM(B.v), MIN(B.x) PATTERN SEQ(A, B+, NOT D, C) WITHIN 4 s", {}),
        ("RETURN COUNT(*), SUM(B.v) PATTERN SEQ(A, B+) SEMANTICS next GROUP BY g", {}),
        ("RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS contiguous WITHIN 9 EVENTS SLIDE 3 EVENTS", {}),
        ("RETURN B.g, COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY B.g", {}),
        ("RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE A.v < B.v", {}),
        ("RETURN COUNT(*), SUM(B.v) PATTERN SEQ(A, B+)", {"arithmetic": "exact"}),
        (
            "a: RETURN COUNT(*) PATTERN SEQ(A, B+); b: RETURN MIN(B.x), COUNT(*) PATTERN B+",
            {"strategy": "hamlet"},
        ),
        (
            "a: RETURN COUNT(*) PATTERN SEQ(A, B+); "
            "b: RETURN MIN(B.x), COUNT(*) PATTERN B+ WHERE B.v < NEXT(B).v",
            {"strategy": "hamlet"},
        ),
        ("RETURN MATCHES PATTERN SEQ(A, B+, NOT D, C) WHERE A.v < C.v WITHIN 4 s", {}),
    ],
    [
        ("RETURN COUNT(*) PATTERN B+ WHERE B.v < NEXT(B).v WITHIN 9 s SLIDE 1 s", {}),
        ("RETURN SUM(B.v), MIN(B.x) PATTERN B+ SEMANTICS next WHERE B.v < NEXT(B).v", {}),
        ("RETURN COUNT(*) PATTERN B+ WHERE B.v < NEXT(B).v", {"arithmetic": "exact"}),
        (
            "RETURN COUNT(*) PATTERN SEQ(A, B+); RETURN SUM(B.v), MIN(B.x) PATTERN SEQ(B+, C) WHERE B.v < 5",
            {},
        ),
        ("RETURN COUNT(*), SUM(B.v), MIN(B.x) PATTERN SEQ(A, B, C) WITHIN 4 s", {"strategy": "aseq"}),
        (
            "a: RETURN COUNT(*) PATTERN SEQ(A, B+, C); b: RETURN MIN(B.x), SUM(B.v) PATTERN SEQ(D, B+, C)",
            {"strategy": "gloria"},
        ),
    ],
)


def compile_kernels() -> None:
    """Both halves at once; a failure shows up again in a test that can tell what it is."""
    command = [sys.executable, str(Path(__file__))]
    running = [subprocess.Popen([*command, str(half)]) for half in range(len(HALVES))]
    for process in running:
        process.wait()


def main(half: int) -> None:
    import pyarrow as pa

    import trendfold as tf

    events = pa.table(
        {
            "type": list("ABBCABDBC") * 2,
            "ts": list(range(18)),
            "g": ["x", "y"] * 9,
            "v": list(range(9)) * 2,
            "x": [0.5 * i for i in range(18)],
        }
    )
    for query, options in HALVES[half]:
        tf.parse(query).run(events, engine="local", **options)


if __name__ == "__main__":
    main(int(sys.argv[1]))
