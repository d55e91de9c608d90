"""A-Seq against building sequences and against `auto`, shared and unshared: Figures 12 to 16 of its paper.

Trades of 20 tickers, one every 2 ms; a time window ends at every event. Each run is timed from a table in
memory to results.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.api import parse
from trendfold.bench.answers import rows
from trendfold.bench.curves import draw_all
from trendfold.bench.harness import Case, Report
from trendfold.bench.ways import beside, run, run_plans
from trendfold.papers.aseq.plan import line_of
from trendfold.papers.aseq.prefixes import share_prefixes
from trendfold.plan.workload import plan_all

EVENTS, LONG_EVENTS = 3_000, 100_000
"""The number of events where sequences are built, and where they are not."""
TICKERS, EVERY_MS = 20, 2
LENGTHS, WINDOWS = (2, 3, 4, 5), (100, 500, 1_000)
SCALED = ((6, 2_000), (8, 2_000), (10, 2_000))
SHARED = (2, 4, 6)
WORKLOADS = (2, 4, 6)
STARTS = (10, 40, 160, 640)
"""The number of active START events: chop-connect stores a number for each in a snapshot."""


def cases(seed: int, scale: float) -> list[Case]:
    """All figures."""
    few, many = (trades(seed, max(500, int(n * scale))) for n in (EVENTS, LONG_EVENTS))
    return [
        *_one_query(few),
        *_scalability(many),
        *_negation(few),
        *_several(few),
        *_shared(many),
        *_connected(many),
    ]


def _one_query(table: pa.Table) -> list[Case]:
    """Figures 12 and 13; their common point is measured once."""
    found = []
    for length in LENGTHS:
        found += beside(
            f"Figure 12, length {length}",
            table,
            query("q", _line(length), 1_000),
            ("construct", "aseq", "auto"),
        )
    for window in WINDOWS:
        found += beside(
            f"Figure 13, window {window} ms",
            table,
            query("q", _line(3), window),
            ("construct", "aseq", "auto"),
        )
    return found


def _scalability(table: pa.Table) -> list[Case]:
    found = []
    for length, window in SCALED:
        name = f"Figure 14a, length {length}, window {window} ms"
        found += beside(name, table, query("q", _line(length), window), ("aseq", "auto"))
    return found


def _negation(table: pa.Table) -> list[Case]:
    found = []
    for name, line in (("no NOT", ["T0", "T1", "T2"]), ("NOT", ["T0", "T1", "NOT T9", "T2"])):
        found += beside(f"Figure 14b, {name}", table, query("q", line, 1_000), ("construct", "aseq"))
    return found


def _several(table: pa.Table) -> list[Case]:
    """Figure 15: three queries with a common middle part."""
    text = around(3, 2)
    ways = ("construct", "ecube", "aseq alone", "aseq", "auto")
    return beside("Figure 15, 3 queries", table, text, ways)


def _shared(table: pa.Table) -> list[Case]:
    """Figure 16: a common prefix or middle of several lengths, in several queries."""
    found = []
    ways = ("aseq alone", "aseq", "auto")
    for length in SHARED:
        found += beside(f"Figure 16b, prefix of {length}", table, after(3, length), ways)
    for queries in WORKLOADS:
        found += beside(f"Figure 16a, {queries} queries", table, after(queries, 3), ways)
    for length in SHARED:
        name = f"Figure 16c, middle of {length}"
        found += beside(name, table, around(3, length), ways)
        found.append(_chopped(name, table, around(3, length), f"{name}, aseq alone"))
    for queries in WORKLOADS:
        name = f"Figure 16d, {queries} queries"
        found += beside(name, table, around(queries, 3), ways)
        found.append(_chopped(name, table, around(queries, 3), f"{name}, aseq alone"))
    return found


def _connected(table: pa.Table) -> list[Case]:
    """Six queries in one pass, whole and chopped, by the number of active START events (k)."""
    found = []
    for starts in STARTS:
        name, text = f"chop-connect, {starts} START events", around(6, 3, starts * TICKERS * EVERY_MS)
        whole = _chopped(name, table, text, None, at=())
        found += [whole, _chopped(name, table, text, whole.name)]
    return found


def _chopped(what: str, table: pa.Table, text: str, floor: str | None, at: tuple[int, ...] = (1,)) -> Case:
    """Queries around a common middle, all chopped before it, or `at` nothing, whatever is cheaper."""
    plans = plan_all(parse(text).queries, "aseq")
    group = plans[0].group
    assert group is not None
    lines = [*map(line_of, plans)]
    group = replace(group, details=share_prefixes(lines, dict.fromkeys(range(len(lines)), at)))
    answer = run_plans(table, [replace(plan, group=group) for plan in plans])
    way = "aseq chopped" if at else "aseq whole"
    return Case(f"{what}, {way}", answer, len(table), floor, like=what, answer=rows)


def ratios(report: Report) -> dict[str, float]:
    """Figures 12(b) and 13(b) in the paper's own measure: the peak number of objects in memory.

    Stacks hold the matching events of a window, and the sequences built from them; A-Seq has one prefix
    counter for every START event.
    """
    table = trades(int(report.settings["seed"]), max(500, int(EVENTS * report.settings["scale"])))
    codes = np.array([int(type_[1:]) for type_ in table.column("type").to_pylist()])
    found = {}
    for length, window in ((LENGTHS[-1], 1_000), (3, WINDOWS[-1])):
        result = run(table, parse(query("q", _line(length), window)).queries, "auto")()
        sequences = float(max(result["q"].column("count").to_pylist(), default=0.0))
        steps, starts = (_most_at_once(which, window // EVERY_MS) for which in (codes < length, codes == 0))
        found[f"objects of stacks over counters, length {length}, window {window} ms"] = (
            steps + sequences
        ) / starts
    return found


def _most_at_once(which: NDArray[np.bool_], rows: int) -> int:
    """The largest number of selected events in any `rows` consecutive rows."""
    seen = np.concatenate([[0], np.cumsum(which)])
    return int((seen[rows:] - seen[:-rows]).max(initial=seen[-1] if len(seen) <= rows else 0))


def plot(report: Report) -> str:
    """Gains by pattern length, by window, and by the shared part."""
    figures: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in report.measurements:
        figure, what, *_, way = line.name.split(", ")
        numbers = [word for word in what.split() if word.isdigit()]
        if line.of_floor and not line.unfinished and numbers and figure[-2:] not in ("4a", "15"):
            curves = figures.setdefault(f"{figure}, {what.split()[0]}", {})
            curves.setdefault(way, []).append((float(numbers[-1]), line.of_floor))
    return draw_all(figures, "gain over the first way")


# ---------------------------------------------------------------- workloads


def trades(seed: int, events: int) -> pa.Table:
    """Tickers T0 to T19 at random."""
    codes = np.random.default_rng(seed).integers(0, TICKERS, events, dtype=np.int32)
    types = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array([f"T{i}" for i in range(TICKERS)]))
    return pa.table({"type": types, "ts": np.arange(events) * EVERY_MS})


def query(name: str, line: list[str], window_ms: int = 500) -> str:
    """A query that counts a sequence of tickers."""
    return f"QUERY {name} RETURN COUNT(*) PATTERN SEQ({', '.join(line)}) WITHIN {window_ms} ms"


def after(queries: int, length: int) -> str:
    """Queries with a common prefix that end in different tickers."""
    prefix = _line(length)
    return ";".join(query(f"q{i}", [*prefix, f"T{10 + i}"]) for i in range(queries))


def around(queries: int, length: int, window_ms: int = 500) -> str:
    """Queries with a common middle between different tickers."""
    middle = _line(length)
    return ";".join(query(f"q{i}", [f"T{10 + i}", *middle, "T9"], window_ms) for i in range(queries))


def _line(length: int) -> list[str]:
    return [f"T{i}" for i in range(length)]
