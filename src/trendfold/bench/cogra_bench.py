"""COGRA against building trends, GRETA and flattened queries: Figures 5 to 13 of its paper, on one machine.

Each run is timed from a table in memory to results. Windows tumble; trends are built only in small windows,
because their number doubles with every event under skip-till-any-match.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from trendfold.api import parse
from trendfold.bench.answers import rows
from trendfold.bench.curves import draw_all
from trendfold.bench.flattened import flattened
from trendfold.bench.harness import Case, Report
from trendfold.bench.ways import beside, run
from trendfold.runtime.result import Result

LOW, HIGH = (8, 12, 16), (2_000, 8_000, 32_000)
"""Events per window: where trends can be built, and where they cannot."""
LINEAR = (1_000, 10_000, 100_000)
"""Events per window where there are few trends: next and contiguous."""
GROUPS = (5, 15, 30)
SELECTIVITIES = (10, 50, 90)
EVENTS = 4_000


def cases(seed: int, scale: float) -> list[Case]:
    """All figures; `scale` multiplies events, both per window and in total."""
    return [
        *_low(seed, scale),
        *_high(seed, scale),
        *_linear(seed, scale),
        *_groups(seed, scale),
        *_selectivity(seed, scale),
    ]


def _low(seed: int, scale: float) -> list[Case]:
    """Figures 5 and 8: windows small enough to build all trends, and to cover them with fixed lengths."""
    found = []
    for size in LOW:
        table = events(seed, _scaled(EVENTS, scale))
        what = f"Figures 5 and 8, any, {size} a window"
        found += beside(
            what, table, text("any", size), ("construct", "greta", "cogra"), floor="cogra", unit="s"
        )
        found.append(_flattened(what, table, size))
    return found


def _flattened(what: str, table: pa.Table, size: int) -> Case:
    """A-Seq as in COGRA's paper: one sequence query for each possible length of B+ in a window."""
    queries = flattened(parse(text("any", size)).queries[0], size - 2)
    return Case(
        f"{what}, flattened",
        run(table, queries, "aseq", unit="s"),
        len(table),
        f"{what}, cogra",
        like=what,
        answer=summed,
    )


def summed(result: Result) -> list[pa.Table]:
    """The counts summed over all lengths, as one table."""
    whole = pa.concat_tables([result[name] for name in result])
    total = whole.group_by(["window_start", "window_end"]).aggregate([("count", "sum")])
    return rows({"q1": total.select(["window_start", "window_end", "count_sum"])})


def _high(seed: int, scale: float) -> list[Case]:
    """Figure 10: one window; GRETA stores all events, COGRA a number per type."""
    found = []
    for size in HIGH:
        n = _scaled(size, scale)
        found += beside(
            f"Figure 10, any, {n} a window",
            events(seed, n),
            text("any", n),
            ("greta", "cogra", "auto"),
            floor="cogra",
            unit="s",
        )
    return found


def _linear(seed: int, scale: float) -> list[Case]:
    """Figures 6, 7, 9 and 11: there are few trends, so they can be built even in large windows."""
    found = []
    for semantics, figures in (("next", "6 and 9"), ("contiguous", "7 and 11")):
        for size in LINEAR:
            n = _scaled(size, scale)
            ways = ("construct", "greta", "cogra", "auto") if size < LINEAR[-1] else ("cogra", "auto")
            found += beside(
                f"Figures {figures}, {semantics}, {n} a window",
                events(seed, n),
                text(semantics, n),
                ways,
                floor="cogra",
                unit="s",
            )
    return found


def _groups(seed: int, scale: float) -> list[Case]:
    """Figure 12: the fewer groups in a window, the more trends."""
    found = []
    for groups in GROUPS:
        table = events(seed, _scaled(EVENTS, scale), groups)
        what = f"Figure 12, {groups} groups"
        ways = ("construct", "greta", "cogra", "auto") if groups > GROUPS[0] else ("greta", "cogra", "auto")
        found += beside(what, table, text("any", 8 * GROUPS[-1], "GROUP BY g"), ways, floor="cogra", unit="s")
    return found


def _selectivity(seed: int, scale: float) -> list[Case]:
    """Figure 13: the selectivity of a predicate on neighbours."""
    found = []
    for percent in SELECTIVITIES:
        table = events(seed, _scaled(EVENTS, scale), percent=percent)
        found += beside(
            f"Figure 13, {percent} %, one window",
            table,
            text("any", 10**6, "WHERE B.x < NEXT(B).y"),
            ("greta", "cogra", "auto"),
            floor="cogra",
            unit="s",
        )
        found += beside(
            f"Figure 13, {percent} %, 16 a window",
            table,
            text("any", 16, "WHERE B.x < NEXT(B).y"),
            ("construct", "cogra", "auto"),
            floor="cogra",
            unit="s",
        )
    return found


def ratios(report: Report) -> dict[str, float]:
    """Memory as the count of stored numbers: SASE and GRETA store every event of a window, COGRA fewer.

    That is one number per type or, if B is compared with the next, one for every B and two for A and C.
    """
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    found = {}
    for semantics, size in (("any", HIGH[-1]), ("next", LINEAR[-1]), ("contiguous", LINEAR[-1])):
        n = _scaled(size, scale)
        found[f"events of a window over numbers of COGRA, {semantics}, {n} a window"] = n / 3
    table = events(seed, _scaled(EVENTS, scale), percent=90)
    compared = table.column("type").to_pylist().count("B")
    found["events of a window over numbers of COGRA, 90 %, one window"] = len(table) / (compared + 2)
    return found


def plot(report: Report) -> str:
    """How many times slower than COGRA, by the parameter each figure varies."""
    figures: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in report.measurements:
        figure, *what, way = line.name.split(", ")
        varied = next((part for part in reversed(what) if part.split()[0].isdigit()), "")
        if figure == "Figure 13":
            varied, figure = what[0], f"{figure}, {what[1]}"
        if line.of_floor and not line.unfinished and varied:
            curves = figures.setdefault(f"{figure}: {varied.split()[-1]}; times slower than COGRA", {})
            curves.setdefault(way, []).append((float(varied.split()[0]), 1 / line.of_floor))
    return draw_all(figures, "times slower than COGRA")


def text(semantics: str, window_s: int, clause: str = "") -> str:
    """A query for SEQ(A, B+, C), as in the peers bench."""
    return (
        f"QUERY q1 RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS {semantics} {clause} "
        f"WITHIN {window_s} s SLIDE {window_s} s"
    )


def events(seed: int, count: int, groups: int = 1, percent: int = 50) -> pa.Table:
    """One event a second, groups in turn, three of four events are B; `percent` of pairs of B have x < y."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(3, count, p=(0.125, 0.75, 0.125)).astype(np.int32)
    types = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(["A", "B", "C"]))
    y = np.where(rng.random(count) < percent / 100, 2.0, -1.0)
    columns = {"type": types, "ts": np.arange(count), "g": np.arange(count) % groups}
    return pa.table({**columns, "x": rng.random(count), "y": y})


def _scaled(count: int, scale: float) -> int:
    return max(100, int(count * scale))
