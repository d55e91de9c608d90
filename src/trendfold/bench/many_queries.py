"""Fifty queries, and a thousand, beside one of each kind: `Workload.run`, from a table to results.

Planning and checks of the columns are part of it.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from trendfold.api import parse
from trendfold.bench.answers import rows
from trendfold.bench.harness import Case, Promise

EVENTS = 1_000_000
FIFTY = 50

PATTERN, WINDOW = "SEQ(A, B+, C)", "WITHIN 10000 s SLIDE 10000 s"
KINDS: dict[str, tuple[str, float]] = {
    "any": (f"RETURN COUNT(*) PATTERN {PATTERN} {{}} {WINDOW}", 0.25),
    "next": (f"RETURN COUNT(*) PATTERN {PATTERN} SEMANTICS next {{}} {WINDOW}", 0.25),
    "contiguous": (f"RETURN COUNT(*) PATTERN {PATTERN} SEMANTICS contiguous {{}} {WINDOW}", 0.25),
    "NOT at the end": (f"RETURN COUNT(*) PATTERN SEQ(A, B+, NOT D) {{}} {WINDOW}", 0.2),
    "next, 1,000 groups": (
        f"RETURN COUNT(*) PATTERN {PATTERN} SEMANTICS next {{}} GROUP BY g {WINDOW}",
        0.25,
    ),
    "any, 100 values of GROUP BY B.h": (
        f"RETURN COUNT(*) PATTERN {PATTERN} {{}} GROUP BY B.h {WINDOW}",
        0.15,
    ),
    "next, 30 overlaps": (
        f"RETURN COUNT(*) PATTERN {PATTERN} SEMANTICS next {{}} WITHIN 30000 s SLIDE 1000 s",
        0.2,
    ),
    "next, 10 overlaps of 10,000 events": (
        f"RETURN COUNT(*) PATTERN {PATTERN} SEMANTICS next {{}} WITHIN 10000 events SLIDE 1000 events",
        0.25,
    ),
    "any, a window of 100 events per event": (
        f"RETURN COUNT(*) PATTERN {PATTERN} {{}} WITHIN 100 s",
        0.2,
    ),
    "next, windows of 12 events": (
        f"RETURN COUNT(*) PATTERN {PATTERN} SEMANTICS next {{}} WITHIN 12 s SLIDE 12 s",
        0.4,
    ),
    "next, sums": (f"RETURN SUM(B.x) PATTERN {PATTERN} SEMANTICS next {{}} {WINDOW}", 0.3),
    "any, sums": (f"RETURN SUM(B.x) PATTERN {PATTERN} {{}} {WINDOW}", 1 / 6),
    "any, averages": (f"RETURN AVG(B.x) PATTERN {PATTERN} {{}} {WINDOW}", 1 / 6),
    "next, HAVING": (
        f"RETURN COUNT(*) PATTERN {PATTERN} SEMANTICS next {{}} HAVING COUNT(*) > 3 {WINDOW}",
        0.2,
    ),
    "next, AND": (
        f"RETURN COUNT(*) PATTERN AND(SEQ(A, B+), SEQ(C, D)) SEMANTICS next {{}} {WINDOW}",
        0.2,
    ),
}
"""A query of each kind, with a place for its condition; and the least part of one query's events/s."""
THOUSAND, OF_THOUSAND = 1_000, 1 / 15
"""So many queries of the kind "next", and the least part of one query's events/s."""


def many_queries(seed: int, scale: float) -> list[Case]:
    """One query of each kind, and fifty that differ in a threshold; then a thousand of one kind."""
    table = mixed_events(seed, max(1_000, int(EVENTS * scale)))
    found = []
    for kind, (text, promised) in KINDS.items():
        one, fifty = f"{kind}, one query", f"{kind}, {FIFTY} queries"
        found.append(_case(one, table, text, 1))
        case = _case(fifty, table, text, FIFTY, one, (Promise(promised, one),) if scale >= 1 else ())
        found.append(case)
    one, many = "next, one query", f"next, {THOUSAND:,} queries"
    promises = (Promise(OF_THOUSAND, one),) if scale >= 1 else ()
    found.append(_case(many, table, KINDS["next"][0], THOUSAND, one, promises))
    return found


def _case(
    name: str,
    table: pa.Table,
    text: str,
    queries: int,
    floor: str | None = None,
    promises: tuple[Promise, ...] = (),
) -> Case:
    """Answers are compared with every query in a loop of its own."""
    asked = parse(";".join(text.format(f"WHERE B.v > {500 * i // queries}") for i in range(queries)))
    alone = partial(asked.run, table, strategy="cogra")
    return Case(
        name, partial(asked.run, table), len(table), floor, promises, name, rows, lambda: rows(alone())
    )


def mixed_events(seed: int, events: int) -> pa.Table:
    """One event a second, of four types in any order."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "type": pa.array(rng.choice(list("ABCD"), events)).dictionary_encode(),
            "ts": np.arange(events),
            "v": rng.integers(0, 1_000, events),
            "g": rng.integers(0, 1_000, events),
            "x": rng.normal(size=events),
            "h": rng.integers(0, 100, events),
        }
    )
