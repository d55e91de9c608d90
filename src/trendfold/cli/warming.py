"""Compile kernels ahead of the first query: for images, for drivers of a cluster, and before tests.

python -m trendfold.cli.warming core 0 2     every second query, from the first on
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

QUERIES: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]] = {
    "core": (
        ("RETURN COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 4 s SLIDE 2 s", {}),
        ("RETURN COUNT(*) PATTERN B+ WHERE B.v < NEXT(B).v WITHIN 9 s SLIDE 1 s", {}),
        ("RETURN COUNT(*), SUM(B.v), MIN(B.x) PATTERN SEQ(A, B+, NOT D, C) WITHIN 4 s", {}),
        ("RETURN SUM(B.v), MIN(B.x) PATTERN B+ SEMANTICS next WHERE B.v < NEXT(B).v", {}),
        ("RETURN COUNT(*), SUM(B.v) PATTERN SEQ(A, B+) SEMANTICS next GROUP BY g", {}),
        ("RETURN COUNT(*) PATTERN B+ WHERE B.v < NEXT(B).v", {"arithmetic": "exact"}),
        (
            "RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS contiguous WITHIN 9 EVENTS SLIDE 3 EVENTS",
            {},
        ),
        (
            "RETURN COUNT(*) PATTERN SEQ(A, B+); RETURN SUM(B.v), MIN(B.x) PATTERN SEQ(B+, C) WHERE B.v < 5",
            {},
        ),
        ("RETURN B.g, COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY B.g", {}),
        ("RETURN COUNT(*), SUM(B.v) PATTERN SEQ(A, B+)", {"arithmetic": "exact"}),
        ("RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE A.v < B.v", {}),
        ("RETURN MATCHES PATTERN SEQ(A, B+, NOT D, C) WHERE A.v < C.v WITHIN 4 s", {}),
    ),
    "papers": (
        (
            "a: RETURN COUNT(*) PATTERN SEQ(A, B+); b: RETURN MIN(B.x), COUNT(*) PATTERN B+",
            {"strategy": "hamlet"},
        ),
        (
            "RETURN COUNT(*), SUM(B.v), MIN(B.x) PATTERN SEQ(A, B, C) WITHIN 4 s",
            {"strategy": "aseq"},
        ),
        (
            "a: RETURN COUNT(*) PATTERN SEQ(A, B+); "
            "b: RETURN MIN(B.x), COUNT(*) PATTERN B+ WHERE B.v < NEXT(B).v",
            {"strategy": "hamlet"},
        ),
        (
            "a: RETURN COUNT(*) PATTERN SEQ(A, B+, C); b: RETURN MIN(B.x), SUM(B.v) PATTERN SEQ(D, B+, C)",
            {"strategy": "gloria"},
        ),
    ),
}
"""Small queries that together need most kernels: those of `auto`, and those of the published strategies."""


def warm(kinds: Sequence[str], processes: int) -> list[str]:
    """Compile in processes side by side; returns the last line of each one that failed.

    They share what is on disk: whoever needs a kernel that another has compiled loads it.
    """
    command = [sys.executable, "-m", "trendfold.cli.warming", ",".join(kinds)]
    running = [
        subprocess.Popen(
            [*command, str(part), str(processes)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for part in range(processes)
    ]
    told = [(process.communicate()[1], process.returncode) for process in running]
    return [errors.strip().splitlines()[-1] for errors, code in told if code]


def run_queries(kinds: Sequence[str], engine: str = "local", part: int = 0, of: int = 1) -> None:
    """Run every `of`-th query of some kinds here, from number `part` on."""
    import pyarrow as pa

    from trendfold.api import parse

    events = pa.table(
        {
            "type": list("ABBCABDBC") * 2,
            "ts": list(range(18)),
            "g": ["x", "y"] * 9,
            "v": list(range(9)) * 2,
            "x": [0.5 * i for i in range(18)],
        }
    )
    for text, options in [query for kind in kinds for query in QUERIES[kind]][part::of]:
        parse(text).run(events, engine=engine, **options)


if __name__ == "__main__":
    run_queries(sys.argv[1].split(","), part=int(sys.argv[2]), of=int(sys.argv[3]))
