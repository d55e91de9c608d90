"""The speed of detection on streams: micro-batches of a million rows, and 10 to 1,000 patterns.

The floor is a stream over the same files that passes all rows to Python and counts them, without state. One
run of a line is one file, that is one micro-batch. Before a line is timed, its matches in the first file are
compared with those of a batch run.
"""

from __future__ import annotations

from itertools import permutations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trendfold.bench.harness import Case, Promise
from trendfold.bench.stream_lines import (
    CONDITIONS,
    TYPES,
    BenchStream,
    by_group,
    spark_for_streams,
    stateless,
    trendfold,
)

ROWS, GROUPS = 1_000_000, 1_000
PATTERNS = {10: (), 100: (0.25,), 1_000: ()}
"""Numbers of patterns, and the promised fraction of the floor's speed."""
_ORDERS = tuple(permutations(TYPES))
_FILES = 2
"""So many files move the watermark past the end of the first."""


def cases(seed: int, scale: float) -> list[Case]:
    """Three events of a group in a minute, each with a value of its own."""
    rows = max(60_000, int(ROWS * scale))
    spark, files = spark_for_streams(), by_group(seed, rows, GROUPS)
    floor = "stateless mapInArrow count"
    found = [Case(floor, BenchStream(spark, files, stateless).run, rows, expected=lambda: rows)]
    for patterns, promised in PATTERNS.items():
        line = Alerts(spark, files, trendfold, _workload(patterns))
        promises = tuple(Promise(least, floor) for least in promised)
        name = f"trendfold, {patterns:,} patterns"
        found.append(
            Case(name, line.run, rows, floor, promises, answer=line.first_file, expected=line.in_batch)
        )
    return found


def _workload(patterns: int) -> str:
    """Patterns that differ in the order of types and in the values of their events."""
    texts = []
    for n in range(patterns):
        first, second, third = _ORDERS[n % len(_ORDERS)]
        values = n % CONDITIONS, (n // 7) % CONDITIONS, (n // 3) % CONDITIONS
        texts.append(
            f"QUERY p{n} RETURN MATCHES(x) PATTERN SEQ({first} a, {second} b, {third} c) "
            f"WHERE [g] AND a.x = {values[0]} AND b.x = {values[1]} AND c.x = {values[2]} WITHIN 1 min"
        )
    return ";".join(texts)


class Alerts(BenchStream):
    """A stream of matches."""

    def first_file(self, _: object = None) -> list[str]:
        """The matches that end in the first file, after as many files as it takes to report them."""
        for _ in range(_FILES):
            self.run()
        assert self.workload is not None
        found = []
        for query in self.workload:
            for path in sorted((self.folder / "out" / query.name).glob("batch=*")):
                found += _lines(query.name, pq.read_table(path, partitioning=None), self._last_time())
        return sorted(found)

    def in_batch(self) -> list[str]:
        """The same from a batch run over the first file."""
        assert self.workload is not None
        result = self.workload.run(self.files.at(0), engine="local")
        return sorted(
            line for name, table in result.items() for line in _lines(name, table, self._last_time())
        )

    def _last_time(self) -> pa.Scalar:
        return pc.max(pq.read_table(self.files.at(0), columns=["ts"])["ts"])


def _lines(name: str, table: pa.Table, last: pa.Scalar) -> list[str]:
    """Matches that end by a time, as text; without ids, which batch and streams give differently."""
    kept = table.filter(pc.less_equal(table["end"], last)).select(["start", "end", "g"])
    return [f"{name} {row}" for row in kept.to_pylist()]
