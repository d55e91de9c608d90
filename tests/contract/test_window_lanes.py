"""Overlapping windows as lanes of one fold give the oracle's rows, and those of windows one by one.

`TRENDFOLD_FUZZ=20000 pytest tests/contract/test_window_lanes.py -n 2` looks at fresh cases.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract.engine import check, check_seed, difference, many
from trendfold.kernel import window_lanes as kernels
from trendfold.plan import physical, plan
from trendfold.plan.overlap import Sharing
from trendfold.runtime.folds import window_batches

SEEDS = st.integers(0, 2**40)


@pytest.fixture(params=[8, 32], autouse=True, scope="module")
def _lanes_whatever_they_cost(request: pytest.FixtureRequest) -> Iterator[None]:
    """Batches of a few windows, so that there are several, or of all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "bindings_ns", lambda *given: float("inf"))
        patch.setattr(window_batches, "SIZES", (request.param,))
        yield


@many(500)
@given(seed=SEEDS)
def test_windows_of_every_kind_are_the_oracles(seed: int) -> None:
    check(overlapping(random.Random(seed)), "auto", origin=f"overlapping(random.Random({seed}))")


@many(300)
@given(seed=SEEDS)
def test_any_query_with_neighbours_gives_the_oracles_rows(seed: int) -> None:
    check_seed(seed, "auto", neighbours=True, aggregates=True, having=True, both=True)


PATTERNS = {
    "A+": ["A A"],
    "SEQ(A+, B)": ["A A", "A B"],
    "SEQ(A, B+, C)": ["B B", "A B", "B C"],
    "(SEQ(A, B))+": ["A B", "B A"],
    "(A | B)+": ["A B", "B A", "A A", "B B"],
    "SEQ(A, A+)": ["A A"],
    "SEQ(A, NOT N, B+)": ["B B"],
    "SEQ(NOT N, A+, B)": ["A A"],
    "SEQ(A+, B, NOT SEQ(N, M))": ["A A", "A B"],
}
"""Patterns, and which neighbours may be compared: next to a NOT, it is then judged by class."""


def overlapping(rng: random.Random) -> workloads.Case:
    """A few events of few values, whose neighbours are compared in windows that overlap."""
    pattern, pairs = rng.choice(list(PATTERNS.items()))
    where = []
    for pair in rng.sample(pairs, rng.randint(1, len(pairs))):
        a, b = pair.split()
        one, two = rng.choice([("v", "v"), ("w", "w"), ("s", "s"), ("v", "k"), ("ts", "ts")])
        plus = f" + {rng.randint(0, 2)}" if one in "vw" else ""
        compared = f"{a}.{one}{plus} {rng.choice(workloads.SIGNS)} NEXT({b}).{two}"
        between = f"{a}.v BETWEEN NEXT({b}).v - 1 AND NEXT({b}).k"
        where.append(rng.choice([compared, compared, compared, between]))
        where += [f"{a}.k = NEXT({b}).k"] * (rng.random() < 0.3)
    length = rng.randint(2, 9)
    counted = rng.random() < 0.2
    unit = "events" if counted else "s"
    slide = f" SLIDE {rng.randint(1, length - 1)} {unit}" if counted or rng.random() < 0.7 else ""
    groupings = ["", "", "GROUP BY g", "[k]"] + ["GROUP BY A.g"] * ("|" not in pattern)
    grouping = rng.choice(groupings)
    where += [grouping] * (grouping == "[k]")
    lines = [
        "RETURN " + rng.choice(["COUNT(*)", "COUNT(*), COUNT(A), SUM(A.v), AVG(A.w), MIN(A.v), MAX(A.w)"]),
        f"PATTERN {pattern}",
        f"SEMANTICS {rng.choice(['any', 'next'])}",
        f"WHERE {' AND '.join(where)}",
        grouping * (grouping != "[k]"),
        f"WITHIN {length} {unit}{slide}",
    ]
    return workloads.Case("\n".join(line for line in lines if line), random_events(rng, counted), None)


def random_events(rng: random.Random, is_counted: bool) -> list[dict]:
    """A few events of few values; with `is_counted`, no two at one time."""
    time, events = rng.randint(-20, 5), []
    for _ in range(rng.randint(3, 13)):
        time += 1 if is_counted else rng.choice([0, 0, 1, 1, 1, 2, 12])
        events.append(
            {
                "type": rng.choice("AAABBCNM"),
                "ts": time,
                "k": rng.choice([0, 0, 1, None]),
                "g": rng.choice(["x", "x", "y", None]),
                "v": rng.choice([None, 0, 1, 1, 2, 3]),
                "w": rng.choice([None, 0.0, -0.0, 0.5, 1.0, 2.5]),
                "s": rng.choice([None, "", "x", "xy", "é"]),
            }
        )
    return events


LONG = [
    "PATTERN A+ WHERE A.v > NEXT(A).v",
    "PATTERN A+ WHERE A.w <= NEXT(A).w",
    "PATTERN A+ WHERE A.v != NEXT(A).k",
    "PATTERN A+ WHERE A.k = NEXT(A).k",
    "PATTERN A+ WHERE A.k = NEXT(A).k AND A.w < NEXT(A).w",
    "PATTERN A+ WHERE A.v BETWEEN NEXT(A).v - 3 AND NEXT(A).k",
    "PATTERN SEQ(A+, B b) WHERE A.v > NEXT(A).v AND A.w < NEXT(b).w",
    "PATTERN SEQ(A, NOT N, B+) WHERE B.v > NEXT(B).v",
]


@pytest.mark.parametrize("window", ["WITHIN 90 s SLIDE 5 s", "WITHIN 90 s SLIDE 41 s", "WITHIN 20 s"])
@pytest.mark.parametrize("semantics", ["any", "next"])
@pytest.mark.parametrize("query", LONG)
def test_trees_of_several_levels_give_what_the_scan_gives(query: str, semantics: str, window: str) -> None:
    rng = np.random.default_rng(len(query))
    n = 400
    events = pa.table(
        {
            "type": rng.choice(["A", "A", "A", "B", "B", "N"], n),
            "ts": np.sort(rng.integers(0, 300, n)),  # many moments of several events
            "v": pa.array(rng.integers(0, 12, n), mask=rng.random(n) < 0.05),
            "w": rng.normal(size=n).round(1),
            "k": rng.integers(0, 6, n),
            "g": rng.choice(["x", "y"], n),
        }
    )
    returned = "COUNT(*), LOG2(COUNT(*)) AS bits, SUM(A.w) AS s, MIN(A.v) AS low, MAX(A.w) AS high, COUNT(A)"
    asked = tf.parse(f"RETURN {returned} {query} SEMANTICS {semantics} GROUP BY g {window}")
    assert plan(asked.queries[0]).sharing(plan(asked.queries[0]).operands[0]) is Sharing.TREES
    scanned = asked.run(events, strategy="cogra")["q1"].to_pylist()
    assert difference(asked.run(events)["q1"].to_pylist(), scanned, 3) is None


@pytest.mark.parametrize("n", [pytest.param(6_000, marks=pytest.mark.compiled), 720])
@pytest.mark.parametrize("semantics", ["any", "next"])
def test_lanes_whose_numbers_are_of_very_different_size_are_all_right(semantics: str, n: int) -> None:
    """Prices fall: a window counts past 2^1000 while another, just begun, counts its first events."""
    rng = np.random.default_rng(3)
    fall = np.arange(n) % (n * 5 // 12)
    events = pa.table(
        {
            "type": ["A"] * n,
            "ts": np.arange(n),
            "v": (-fall + rng.integers(-8, 8, n)).tolist(),
            "w": (rng.normal(size=n) * 10.0 ** rng.integers(-200, 300, n)).tolist(),
        }
    )
    query = tf.parse(
        f"RETURN LOG2(COUNT(*)), COUNT(*), AVG(A.v), SUM(A.w), MIN(A.v) PATTERN A+ SEMANTICS {semantics} "
        f"WHERE A.v > NEXT(A).v WITHIN {n * 5 // 12} s SLIDE {n // 60} s"
    )
    shared = query.run(events)["q1"].to_pylist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "bindings_ns", lambda *given: 0.0)
        alone = query.run(events)["q1"].to_pylist()
    assert len(shared) == len(alone) > 60
    bits = [row["log2_count"] for row in shared]
    assert max(bits) > (n // 5 if semantics == "any" else 5)
    for one, other in zip(shared, alone, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_windows_are_lanes_only_where_each_binding_is_found_in_one_tree() -> None:
    def shared(text: str, strategy: str = "auto") -> Sharing | None:
        planned = plan(tf.parse(f"RETURN COUNT(*) {text}").queries[0], strategy)
        return planned.sharing(planned.operands[0])

    overlap = "WITHIN 9 s SLIDE 3 s"
    falling = "PATTERN A+ WHERE A.v > NEXT(A).v"
    assert shared(f"{falling} {overlap}") is Sharing.TREES
    assert shared(f"{falling} WITHIN 9 s") is Sharing.TREES
    assert shared(f"{falling} WITHIN 9 s SLIDE 9 s") is None
    assert shared(f"{falling} {overlap}", "cogra") is Sharing.NOTHING
    assert shared(f"{falling} AND A.w > NEXT(A).w {overlap}") is Sharing.NOTHING
    assert shared(f"{falling} SEMANTICS contiguous {overlap}") is Sharing.NOTHING
    assert shared(f"PATTERN A+ WHERE A.v + NEXT(A).v > 3 {overlap}") is Sharing.NOTHING
    judged = "PATTERN SEQ(A, NOT N, B) WHERE A.v > NEXT(B).v"
    assert shared(f"{judged} {overlap}") is Sharing.NOTHING


def test_a_batch_past_the_limit_of_state_is_smaller() -> None:
    events = pa.table({"type": ["A"] * 400, "ts": range(400), "v": [i * 7 % 41 for i in range(400)]})
    query = tf.parse("RETURN COUNT(*) PATTERN A+ WHERE A.v > NEXT(A).v WITHIN 100 s SLIDE 4 s")
    wanted = query.run(events)["q1"].to_pylist()
    assert query.run(events, limits={"state": 30_000})["q1"].to_pylist() == wanted


def test_windows_of_a_batch_are_of_one_segment_and_overlap() -> None:
    segment = np.array([0, 0, 0, 0, 0, 1, 1], np.int32)
    low = np.array([0, 2, 4, 20, 22, 30, 31], np.int64)
    high = np.array([6, 8, 10, 26, 28, 36, 36], np.int64)
    first = np.zeros(8, np.int64)
    count = kernels.cut_batches(segment, low, high, 2, first)
    assert first[: count + 1].tolist() == [0, 2, 3, 5, 7]
