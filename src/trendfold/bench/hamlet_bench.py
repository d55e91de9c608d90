"""HAMLET against its paper's baselines: Figures 8 to 12, scaled to one machine.

Figures 8 to 10: queries that differ only around a common E+, on a ridesharing stream, beside GRETA, the
baseline of the paper, and COGRA, the cheapest way not to share. Figures 11 and 12:
queries with different patterns, predicates, aggregates and windows on a stock stream with bursts of 120
events, sharing by decision or always. Rows are selected and sorted beforehand; timed is the fold of all
queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.api import parse
from trendfold.bench.answers import Answer, Columns, trends, trends_of_each
from trendfold.bench.curves import draw
from trendfold.bench.flattened import flattened
from trendfold.bench.hamlet_state import fixed_state, greta_state, state
from trendfold.bench.harness import Case, Measurement, Promise, Report
from trendfold.events.batch import read_batch
from trendfold.events.generate import StreamSettings, ridesharing, stock
from trendfold.events.options import Options
from trendfold.kernel.jit import kernel
from trendfold.kernel.program import Folded
from trendfold.papers.hamlet.kernel import ALWAYS, BY_BENEFIT, choose
from trendfold.papers.hamlet.run import HamletReady, HamletTally, ready
from trendfold.plan import plan
from trendfold.plan.workload import plan_all
from trendfold.query.nodes import Query
from trendfold.runtime.folding import prepare
from trendfold.runtime.group_rows import read_group
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.workspace import Workspace

PER_MINUTE, QUERIES = (10_000, 15_000, 20_000), (5, 15, 25)
"""Figures 8 and 9; each is varied with the other at its maximum."""
MINUTES = 3
LARGE = 100_000, 50
"""Events per window, and queries: the maximum of the paper's figures."""
STOCK_PER_MINUTE, STOCK_QUERIES = (2_000, 3_000, 4_000), (20, 50)
STOCK_MINUTES = 25
COMPARED_PER_MINUTE, COMPARED_MINUTES = 1_000, 20
FASTER = 1.25
"""The promised speedup of deciding over always sharing, for the fewest queries and the most events."""

_AROUND = (
    "Request Assign Accept Pickup Dropoff Cancel Pay Arrive Wait Open Quote Message Expire Rate Tip".split()
)
Counts = NDArray[np.int64]

_TICKERS = "S U V W X Y Z".split()


def cases(seed: int, scale: float) -> list[Case]:
    """All lines; `scale` multiplies events per minute, not numbers of queries."""
    return [
        *_low_setting(seed, scale),
        *_figures_8_to_10(seed, scale),
        *_figures_11_and_12(seed, scale),
        *_compared(seed, scale),
    ]


def _low_setting(seed: int, scale: float) -> list[Case]:
    """Windows small enough to build all trends, and to cover them with sequences of fixed length."""
    table, queries = _few_in_window(seed, scale)
    n, group = len(table), _group(table, queries)
    longest = _most_in_window(group)
    fixed = [each for query in queries for each in flattened(query, longest)]
    ways: dict[str, tuple[Callable[[], object], Answer]] = {
        "hamlet": (_fold(group, BY_BENEFIT), lambda found: _totals(trends(found[0]))),
        "static": (_fold(group, ALWAYS), lambda found: _totals(trends(found[0]))),
        "greta": (_alone(table, queries, "greta"), lambda found: _totals(trends_of_each(found))),
        "construct": (_alone(table, queries, "construct"), lambda found: _totals(trends_of_each(found))),
        f"flattened to {longest}": (
            _alone(table, fixed, "cogra"),
            lambda found: _totals(trends_of_each(found)).reshape(len(queries), longest).sum(axis=1),
        ),
    }
    return [
        Case(_name("windows of 10", n, 5, way), run, n, like="windows of 10", answer=answer)
        for way, (run, answer) in ways.items()
    ]


def _few_in_window(seed: int, scale: float) -> tuple[pa.Table, tuple[Query, ...]]:
    """About ten events in a window."""
    table = ridesharing(StreamSettings(events=_scaled(4_000, scale), seed=seed, rate=100.0, burst=3))
    return table, rides(5, "WITHIN 100 ms SLIDE 100 ms")


def _totals(found: Sequence[Columns]) -> NDArray[np.float64]:
    """The total number of trends of each query over all windows."""
    return np.array([np.exp2(log).sum() for log, *_ in found])


def _figures_8_to_10(seed: int, scale: float) -> list[Case]:
    found = []
    sizes = [(n, QUERIES[-1]) for n in PER_MINUTE] + [(PER_MINUTE[-1], k) for k in QUERIES[:-1]]
    for per_minute, k in sizes:
        n = _scaled(per_minute, scale)
        table = _rides(seed, n, MINUTES)
        queries = rides(k, "WITHIN 1 min SLIDE 1 min")
        greta, group = _name("rides", n, k, "greta"), _group(table, queries)
        # GRETA scans all bindings, so one window is enough; HAMLET's answer for that window is compared.
        part = table.slice(0, n)
        alike, ours = f"rides {n}, {k}", partial(_over, _group(part, queries))
        found += [
            Case(_name("rides", n, k, way), _alone(part, queries, way), n, like=alike, answer=trends_of_each)
            for way in ("greta", "cogra")
        ]
        name, run = _name("rides", n, k, "hamlet"), _fold(group, BY_BENEFIT)
        found.append(Case(name, run, n * MINUTES, greta, like=alike, answer=ours))
    return [*found, *_large(seed, scale)]


def _over(group: HamletReady, _: object) -> object:
    """HAMLET's answer for a part of the events."""
    return trends(group.fold(BY_BENEFIT)[0])


def _large(seed: int, scale: float) -> list[Case]:
    n, k = _scaled(LARGE[0], scale), LARGE[1]
    table = _rides(seed, n, 1)
    queries = rides(k, "WITHIN 1 min SLIDE 1 min")
    run, alone = _fold(_group(table, queries), BY_BENEFIT), _alone(table, queries, "cogra")
    return [
        Case(_name("rides", n, k, "hamlet"), run, n, answer=_first, expected=lambda: trends_of_each(alone()))
    ]


def _figures_11_and_12(seed: int, scale: float) -> list[Case]:
    found = []
    sizes = [(n, STOCK_QUERIES[0]) for n in STOCK_PER_MINUTE]
    sizes += [(STOCK_PER_MINUTE[-1], k) for k in STOCK_QUERIES[1:]]
    for per_minute, k in sizes:
        table, n = _stocks(seed, scale, per_minute), _scaled(per_minute, scale)
        group = _group(table, trades(k))
        events, static = n * STOCK_MINUTES, _name("stock", n, k, "static")
        is_promised = (per_minute, k) == (STOCK_PER_MINUTE[-1], STOCK_QUERIES[0])
        promises = (Promise(FASTER, static),) if is_promised else ()
        alike, run = f"stock {n}, {k}", _fold(group, BY_BENEFIT)
        found.append(Case(static, _fold(group, ALWAYS), events, like=alike, answer=_first))
        name, alone = _name("stock", n, k, "cogra"), _alone(table, trades(k), "cogra")
        found.append(Case(name, alone, events, static, like=alike, answer=trends_of_each))
        name = _name("stock", n, k, "hamlet")
        found.append(Case(name, run, events, static, promises, like=alike, answer=_first))
    return found


def _compared(seed: int, scale: float) -> list[Case]:
    """Queries whose predicate compares each price with the next, so every event scans those before it."""
    n, found = _scaled(COMPARED_PER_MINUTE, scale), []
    options = StreamSettings(
        events=n * COMPARED_MINUTES, seed=seed, rate=n / 60, burst=120, types=_TICKERS, groups=7
    )
    table = stock(options)
    for k in STOCK_QUERIES:
        queries = rising(k)
        group, greta, alike = _group(table, queries), _name("rising", n, k, "greta"), f"rising {n}, {k}"
        for way in ("greta", "cogra"):
            name, run = _name("rising", n, k, way), _alone(table, queries, way)
            found.append(Case(name, run, len(table), like=alike, answer=trends_of_each))
        for way, choice in (("static", ALWAYS), ("hamlet", BY_BENEFIT)):
            name, run = _name("rising", n, k, way), _fold(group, choice)
            found.append(Case(name, run, len(table), greta, like=alike, answer=_first))
    return found


def _first(found: tuple[tuple[Folded, ...], HamletTally]) -> object:
    return trends(found[0])


def ratios(report: Report) -> dict[str, float]:
    """Figures 9 and 12: the peak state of all queries, in bytes."""
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    table, queries = _few_in_window(seed, scale)
    group = _group(table, queries)
    fixed = [each for query in queries for each in flattened(query, _most_in_window(group))]
    per_minute = _scaled(PER_MINUTE[-1], scale)
    large, many = _rides(seed, per_minute, 1), rides(QUERIES[-1], "WITHIN 1 min SLIDE 1 min")
    found = {
        "state in windows of 10, fixed lengths over hamlet": fixed_state(fixed) / state(group, BY_BENEFIT),
        f"state, rides, {per_minute} a minute, {QUERIES[-1]} queries, greta over hamlet": (
            greta_state(large, many) / state(_group(large, many), BY_BENEFIT)
        ),
    }
    for k in STOCK_QUERIES:
        stocks, name = _stock_group(seed, scale, STOCK_PER_MINUTE[-1], k), f"stock, {k} queries"
        always, chosen = (stocks.fold(choice)[1].snapshots for choice in (ALWAYS, BY_BENEFIT))
        found[f"snapshots, {name}, static over hamlet"] = always / chosen
        always, chosen = (state(stocks, choice) for choice in (ALWAYS, BY_BENEFIT))
        found[f"state, {name}, static over hamlet"] = always / chosen
    return found


def notes(report: Report) -> tuple[str, ...]:
    """Latency per window; sharing and decisions on the stock stream, and the cost of deciding."""
    seed, scale = int(report.settings["seed"]), report.settings["scale"]
    group = _stock_group(seed, scale, STOCK_PER_MINUTE[-1], STOCK_QUERIES[0])
    started = perf_counter()
    chosen = group.fold(BY_BENEFIT)[1]
    took = perf_counter() - started
    always = group.fold(ALWAYS)[1]
    deciding = chosen.decisions * _seconds_of_a_choice() / took
    rides_lines = [line for line in report.measurements if line.name.startswith("rides")]
    return (
        *(f"latency per window: {_latency_ms(line):.1f} ms ({line.name})" for line in rides_lines),
        f"stock: {_shared(chosen)} by decision, {_shared(always)} always",
        f"{chosen.decisions:,} decisions, {chosen.splits:,} splits, {chosen.merges:,} merges; deciding takes "
        f"{100 * deciding:.2f} % of the fold (promised: under 1 %)",
    )


def plot(report: Report) -> str:
    """Seconds by number of events for each strategy, for the figures that vary it."""
    curves: dict[str, list[tuple[float, float]]] = {}
    wanted = {f"rides {QUERIES[-1]}": "rides", f"stock {STOCK_QUERIES[0]}": "stock"}
    for line in report.measurements:
        stream, _, k, way = (part.strip() for part in line.name.split(","))
        label = wanted.get(f"{stream} {k.split()[0]}")
        if label is not None:
            curves.setdefault(f"{label}, {way}", []).append((line.events, line.median_s))
    return draw({name: sorted(points) for name, points in curves.items()}, {})


# ---------------------------------------------------------------- workloads


def _rides(seed: int, per_minute: int, minutes: int) -> pa.Table:
    return ridesharing(StreamSettings(events=per_minute * minutes, seed=seed, rate=per_minute / 60, burst=50))


def rides(k: int, window: str) -> tuple[Query, ...]:
    """Queries that differ only in the types around Travel+."""
    texts = []
    for i in range(k):
        first, last = _AROUND[i % len(_AROUND)], _AROUND[(7 * i + 3 + i // len(_AROUND)) % len(_AROUND)]
        last = last if last != first else "Receipt"
        texts.append(f"QUERY r{i} RETURN COUNT(*) PATTERN SEQ({first}, Travel T+, {last}) {window}")
    return parse("; ".join(texts)).queries


_SHAPES = ("SEQ({a}, S+)", "SEQ({a}, S+, {b})", "SEQ({a}, S+, U+, {b})", "SEQ({a}, S+, U+, V+)")
_LOCAL = ("", "WHERE S.vol > 100", "", "WHERE S.vol > 60", "WHERE S.vol > 40 AND S.vol < 200")
_RETURNS = ("COUNT(*)", "COUNT(*), AVG(S.price)", "COUNT(*), MAX(S.price)", "COUNT(*), SUM(S.vol)")
_WITHIN = ("5 min SLIDE 5 min", "10 min SLIDE 5 min", "20 min SLIDE 10 min")


def trades(k: int) -> tuple[Query, ...]:
    """Kleene patterns of one to three types, several windows and aggregates; predicates are selective."""
    texts = []
    for i in range(k):
        a, b = _TICKERS[3 + i % 4], _TICKERS[3 + (i + 1 + i // 4) % 4]
        shape = _SHAPES[i % len(_SHAPES)].format(a=a, b=b)
        within = _WITHIN[(i // 5) % len(_WITHIN)]
        texts.append(
            f"QUERY s{i} RETURN {_RETURNS[i % 4]} PATTERN {shape} {_LOCAL[(i // 2) % 5]} WITHIN {within}"
        )
    return parse("; ".join(texts)).queries


def rising(k: int) -> tuple[Query, ...]:
    """Non-decreasing prices between different trades, with several aggregates."""
    texts = []
    for i in range(k):
        a, b = _TICKERS[3 + i % 4], _TICKERS[3 + (i + 1 + i // 4) % 4]
        texts.append(
            f"QUERY c{i} RETURN {_RETURNS[i % 4]} PATTERN SEQ({a}, S+, {b}) "
            f"WHERE S.price <= NEXT(S).price WITHIN 5 min SLIDE 5 min"
        )
    return parse("; ".join(texts)).queries


def _stocks(seed: int, scale: float, per_minute: int) -> pa.Table:
    n = _scaled(per_minute, scale)
    return stock(
        StreamSettings(events=n * STOCK_MINUTES, seed=seed, rate=n / 60, burst=120, types=_TICKERS, groups=7)
    )


def _stock_group(seed: int, scale: float, per_minute: int, k: int) -> HamletReady:
    return _group(_stocks(seed, scale, per_minute), trades(k))


# ---------------------------------------------------------------- ways


def _group(table: pa.Table, queries: Sequence[Query]) -> HamletReady:
    """All queries as one group, with rows read and sorted."""
    group = plan_all(queries, "hamlet")[0].group
    assert group is not None
    assert len(group.members) == len(queries)
    together, _ = read_group(group, Workspace(read_batch(table, Options())))
    assert together is not None
    return ready(group, together, DEFAULTS)


def _fold(group: HamletReady, choice: int) -> Callable[[], object]:
    return lambda: group.fold(choice)


def _alone(table: pa.Table, queries: Sequence[Query], strategy: str) -> Callable[[], object]:
    """Run the queries one after the other."""
    workspace = Workspace(read_batch(table, Options()))
    folds = [prepare(plan(query, strategy), workspace).fold for query in queries]
    return lambda: [fold() for fold in folds]


def _most_in_window(group: HamletReady) -> int:
    """The maximum number of events of the shared type in a window: the longest match of E+."""
    of = group.table[group.at.of : group.at.of + group.at.symbols]
    seen = np.concatenate([[0], np.cumsum(of[group.events.symbol] >= 0)])
    return int((seen[group.windows.high] - seen[group.windows.low]).max(initial=1))


def _shared(tally: HamletTally) -> str:
    return f"{tally.shared_bursts:,} of {tally.bursts:,} bursts shared with {tally.snapshots:,} snapshots"


def _seconds_of_a_choice(units: int = 8, times: int = 100_000) -> float:
    """The average seconds for one choice of the query set."""
    many, alone, chosen = np.ones(units, np.int64), np.zeros(units, np.int64), np.zeros(units, np.int64)
    choose_often(2, many, alone, chosen)
    started = perf_counter()
    choose_often(times, many, alone, chosen)
    return (perf_counter() - started) / times


@kernel
def choose_often(times: int, many: Counts, alone: Counts, chosen: Counts) -> None:
    """Make `times` different choices of the query set."""
    for i in range(times):
        alone[i % alone.shape[0]] = i & 7
        choose(120, 10_000 + i, 120, 3, 20, many, alone, chosen)  # type: ignore[no-untyped-call]


def _scaled(events: int, scale: float) -> int:
    return max(200, int(events * scale))


def _name(stream: str, per_minute: int, k: int, way: str) -> str:
    return f"{stream}, {per_minute} a minute, {k} queries, {way}"


def _latency_ms(line: Measurement) -> float:
    """The time from the last event of a window to its result, for windows one after the other."""
    per_minute = int(line.name.split(", ")[1].split()[0])
    return 1e3 * line.median_s * per_minute / line.events
