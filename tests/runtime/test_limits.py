"""Limits: each stops a run with an error that names it, and just under it the run goes on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import trendfold
from trendfold.errors import InputError, LimitError

ADJACENT = "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x"
PER_GROUP = "RETURN T.g, COUNT(*) PATTERN SEQ(A, T+) SEMANTICS next GROUP BY T.g"
MOVING = "RETURN T.g, COUNT(*) PATTERN SEQ(A, T+) WHERE [u] GROUP BY T.g WITHIN 1000 s"
CROSS = "RETURN COUNT(*) PATTERN SEQ(A+, T) WHERE A.x <= T.x"


def events(n: int) -> pa.Table:
    """A and T in turn; x grows, every T has a group of its own, and there are three users."""
    i = list(range(n))
    return pa.table(
        {"type": ["AT"[k % 2] for k in i], "ts": i, "x": i, "g": i, "u": [k // 2 % 3 for k in i]},
        schema=pa.schema([("type", pa.string()), *[(name, pa.int64()) for name in ("ts", "x", "g", "u")]]),
    )


def run(query: str, n: int = 60, **options: Any) -> pa.Table:
    return trendfold.parse(f"QUERY busy {query}").run(events(n), **options)["busy"]


def needed(query: str, **options: Any) -> int:
    """The bytes of state with which a query runs: whatever it asks for is given, until it is enough."""
    state = 1
    while True:
        try:
            run(query, limits={"state": state}, **options)
        except LimitError as error:
            state = int(re.search(r"needs ([0-9,]+) bytes", str(error))[1].replace(",", ""))
        else:
            return state


@pytest.mark.parametrize(
    ("query", "held"),
    [
        (ADJACENT, "bindings kept one by one"),
        (PER_GROUP, "a copy of the events per group"),
    ],
)
@pytest.mark.parametrize("arithmetic", ["auto", "exact"])
def test_state_is_allowed_up_to_the_limit_and_refused_past_it(query: str, held: str, arithmetic: str) -> None:
    free = run(query, arithmetic=arithmetic)
    most = needed(query, arithmetic=arithmetic)
    with pytest.raises(LimitError) as caught:
        run(query, arithmetic=arithmetic, limits={"state": most - 1})
    told = str(caught.value)
    assert f"query 'busy' needs {most:,} bytes of state for " in told
    assert held in told
    assert f"over limits state={most - 1:,}; raise the limit, " in told
    assert told.endswith("or partition the stream")
    assert run(query, arithmetic=arithmetic, limits={"state": most}).equals(free)


def test_the_state_of_bindings_grows_with_the_window_and_not_with_the_stream() -> None:
    short = f"{ADJACENT} WITHIN 10 s SLIDE 10 s"
    assert needed(short, n=60) == needed(short, n=600) < needed(ADJACENT, n=60)


def test_trees_below_one_another_count_with_all_their_levels() -> None:
    one, two = "PATTERN A+ WHERE A.x < NEXT(A).x", "PATTERN A+ WHERE A.x < NEXT(A).x AND A.g <= NEXT(A).g"
    assert needed(f"RETURN COUNT(*) {two}") > 4 * needed(f"RETURN COUNT(*) {one}")


def test_exact_numbers_of_bindings_count_too() -> None:
    query = "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x"
    wide = needed(query, n=600)
    with pytest.raises(LimitError, match=r"'busy' needs .* for exact numbers of bindings kept one by one"):
        run(query, n=600, arithmetic="exact", limits={"state": wide})


def test_copies_per_group_are_counted_before_they_are_made() -> None:
    # 200,000 rows, half of them in each of 100,000 streams: ten billion copies.
    with pytest.raises(LimitError, match="group by an attribute with fewer values"):
        run(PER_GROUP, n=200_000)


def test_streams_without_rows_count_too() -> None:
    # A window that moves with every event gives each partition a stream for every group.
    with pytest.raises(LimitError, match=f"needs {3 * 30 * 64:,} bytes .* a copy of the events per group"):
        run(MOVING, n=60, limits={"state": 3 * 30 * 64 - 1})


@pytest.mark.parametrize("options", [{}, {"arithmetic": "exact"}])
def test_too_many_trends_are_an_error_that_names_query_and_limit(options: dict[str, str]) -> None:
    with pytest.raises(LimitError, match=r"query 'busy': more than 100 trends .* limits trends=100; raise"):
        run(CROSS, limits={"trends": 100}, **options)


# ---- Windows and rows -----------------------------------------------------------------------------

WINDOWED = {
    "sliding": "RETURN COUNT(*) PATTERN SEQ(A, T) WITHIN 10 s SLIDE 1 s",
    "adjacent": "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 10 s SLIDE 1 s",
    "of events": "RETURN COUNT(*) PATTERN SEQ(A, T) WITHIN 10 events SLIDE 2 events",
    "by partition": "RETURN COUNT(*) PATTERN SEQ(A, T) WHERE [u] WITHIN 10 s SLIDE 3 s",
    "per event": "RETURN COUNT(*) PATTERN SEQ(A, T) WHERE [u] WITHIN 10 s",
    "lanes": "RETURN T.g, COUNT(*) PATTERN SEQ(A, T+) GROUP BY T.g WITHIN 10 s SLIDE 5 s",
    "streams": "RETURN T.g, COUNT(*) PATTERN SEQ(A, T+) SEMANTICS next GROUP BY T.g WITHIN 10 s SLIDE 5 s",
}


def fewest(query: str, **options: Any) -> int:
    """The least limit of windows with which a query runs, by halving."""
    low, high = 0, 100_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            run(query, limits={"windows": middle}, **options)
            high = middle
        except LimitError:
            low = middle
    return high


@pytest.mark.parametrize("query", WINDOWED.values(), ids=WINDOWED)
def test_windows_are_allowed_up_to_the_limit_and_refused_past_it(query: str) -> None:
    free, least = run(query), fewest(query)
    assert len(free) <= least < 20_000
    assert run(query, limits={"windows": least}).equals(free)
    told = rf"query 'busy' has more than {least - 1:,} windows, .* over limits windows={least - 1:,}; raise"
    with pytest.raises(LimitError, match=told):
        run(query, limits={"windows": least - 1})
    with pytest.raises(LimitError, match=told):
        run(query, limits={"windows": least - 1}, strategy="greta")


def test_queries_that_are_folded_together_are_judged_one_by_one() -> None:
    query = WINDOWED["sliding"]
    workload = trendfold.parse(f"QUERY a {query}; QUERY b {query.replace('10 s', '8 s')}; QUERY c {query}")
    assert workload.plan()[0].group is not None
    free = workload.run(events(60))
    some = workload.run(events(60), limits={"windows": fewest(query)})
    assert all(some[name].equals(free[name]) for name in "abc")
    with pytest.raises(LimitError, match="query 'a' has more than 10 windows"):
        workload.run(events(60), limits={"windows": 10})


def test_rows_are_allowed_up_to_the_limit_and_having_decides_which_count() -> None:
    query = "RETURN COUNT(*) PATTERN SEQ(A, T) WITHIN 10 s SLIDE 1 s"
    rows = len(run(query))
    assert len(run(query, limits={"rows": rows})) == rows
    with pytest.raises(LimitError, match=f"query 'busy' has {rows} result rows, over limits rows={rows - 1}"):
        run(query, limits={"rows": rows - 1})
    kept = len(run(f"{query} HAVING COUNT(*) > 10"))
    assert 0 < kept < rows
    assert len(run(f"{query} HAVING COUNT(*) > 10", limits={"rows": kept})) == kept
    with pytest.raises(LimitError, match=f"{kept} result rows"):
        run(f"{query} HAVING COUNT(*) > 10", limits={"rows": kept - 1})


def test_groups_are_allowed_up_to_the_limit() -> None:
    for query in ("RETURN u, COUNT(*) PATTERN SEQ(A, T) GROUP BY u", WINDOWED["lanes"], WINDOWED["streams"]):
        groups = len(set(run(query).column(2).to_pylist()))
        assert len(run(query, limits={"groups": groups}))
        with pytest.raises(LimitError, match=f"has {groups} groups, over limits groups={groups - 1}"):
            run(query, limits={"groups": groups - 1})


# ---- Memory and time, in a process of its own -----------------------------------------------------

GREEDY = """
import contextlib, json, time
import numpy as np, pyarrow as pa, trendfold as tf
from trendfold.bench.hardware import peak_bytes  # of this process; ru_maxrss would be at least its parent's

n = 20_000
three = pa.table({"type": ["A", "B", "A"], "ts": [0, 1_000, 2_000]})
each = pa.table({"type": ["A"] * n, "ts": np.arange(n) * 1_000, "g": np.arange(n)})
one = pa.table({"type": ["A"] + ["T"] * n, "ts": np.arange(n + 1), "g": np.arange(n + 1)})
rng = np.random.default_rng(1)
mixed = pa.table({"type": rng.choice(list("ABC"), 200), "ts": np.arange(200), "v": rng.integers(0, 100, 200)})
sorted_ = pa.table({"type": ["A"] * n + ["B"] * n + ["C"] * n, "ts": np.arange(3 * n), "v": np.arange(3 * n)})
shuffled = sorted_.set_column(0, "type", pa.array(rng.permutation(sorted_["type"].to_pylist())))
few = sorted_.take(np.concatenate([np.arange(k, k + 1_000) for k in (0, n, 2 * n)]))
CASES = {
    "days by milliseconds": ("COUNT(*) PATTERN SEQ(A, B) WITHIN 10 d SLIDE 1 ms", three),
    "each window in each partition": ("COUNT(*) PATTERN A WHERE [g] WITHIN 100 d", each),
    "each window in each group": ("T.g, COUNT(*) PATTERN SEQ(A, T+) GROUP BY T.g WITHIN 9 s SLIDE 1 ms", one),
    "cross": ("COUNT(*) PATTERN SEQ(A a, B b+, C c) WHERE a.v < c.v", mixed),
    "cross of all": ("COUNT(*) PATTERN SEQ(A a, B b+, C c) WHERE b.v < c.v", mixed),
    "cross of none": ("COUNT(*) PATTERN SEQ(A a, B b+, C c) WHERE a.v > c.v + 1000", mixed),
    "limit": ("MATCHES PATTERN SEQ(A, B, C) LIMIT 5", shuffled),
    "limit at the end": ("MATCHES PATTERN SEQ(A, B, C) LIMIT 5", sorted_),
    "limit and kleene": ("MATCHES PATTERN SEQ(A a+, B b+, C, NOT B) LIMIT 5", sorted_),
    "no limit": ("MATCHES PATTERN SEQ(A, B, C)", shuffled),
    "no limit at the end": ("MATCHES PATTERN SEQ(A, B, C)", few),
}
for name, (query, events) in CASES.items():
    workload = tf.parse(f"RETURN {query}")
    with contextlib.suppress(tf.TrendfoldError):  # compile
        workload.run(events.slice(0, 2), time_unit="ms")
    began = time.process_time()
    try:
        told = workload.run(events, time_unit="ms")["q1"].num_rows
    except tf.TrendfoldError as error:
        told = str(error)
    peak = peak_bytes() // 2**20
    print(json.dumps([name, told, time.process_time() - began, peak]), flush=True)
"""
ENDS = {
    "days by milliseconds": "over limits windows=20,000,000",
    "each window in each partition": "over limits windows=20,000,000",
    "each window in each group": "over limits windows=20,000,000",
    "cross": "over limits trends=10,000,000",
    "cross of all": "over limits trends=10,000,000",
    "cross of none": "over limits trends=10,000,000",
    "limit": 5,
    "limit at the end": 5,
    "limit and kleene": 5,
    "no limit": "over limits matches=1,000,000",
    "no limit at the end": "over limits matches=1,000,000",
}


def test_what_would_take_all_memory_or_minutes_ends_in_seconds_and_a_gigabyte() -> None:
    done = subprocess.run([sys.executable, "-c", GREEDY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in told] == list(ENDS)
    for name, end, seconds, megabytes in told:
        assert (ENDS[name] in end) if isinstance(end, str) else end == ENDS[name], (name, end)
        assert megabytes < 1_000, (name, megabytes)
        assert seconds < 20, (name, seconds)


@pytest.mark.parametrize("limits", [{"stat": 1}, {"state": 0}, {"state": 1.5}])
def test_a_limit_that_makes_no_sense_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="limit 'stat"):
        run(ADJACENT, limits=limits)
