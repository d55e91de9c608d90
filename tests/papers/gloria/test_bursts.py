"""Bursts of equal events are one step, where no event of a burst can follow another."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from contract.test_gloria import random_workload, wrong_rows
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.kernel.jit import IS_PLAIN
from trendfold.kernel.rows import mark_bursts
from trendfold.papers.gloria import bursts
from trendfold.papers.gloria.run import GloriaReady, ready
from trendfold.runtime.group_rows import read_group
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.workspace import Workspace

AGGREGATES = ("COUNT(*)", "SUM(B.v)", "MIN(C.w)", "MAX(B.w)", "AVG(A.w)", "COUNT(B)", "LOG2(COUNT(*))")
PATTERNS = (
    "SEQ(A, B, C)",
    "SEQ(A, B, C, D)",
    "SEQ(D, A, B, C)",
    "SEQ(A, B+, C)",
    "SEQ(SEQ(A, B)+, C)",
    "SEQ(D, SEQ(A, B, C)+)",
)


def marked(text: str, moments: list[int], steady: str, edges: Sequence[int] = ()) -> list[int]:
    """The rows at which bursts begin."""
    begins = np.zeros(len(text) + 1, np.bool_)
    begins[list(edges)] = True
    symbol = np.array([ord(letter) - 65 for letter in text], np.int32)
    is_steady = np.array([chr(65 + number) in steady for number in range(26)])
    mark_bursts(symbol, np.array(moments, np.int32), is_steady, begins)
    assert begins[-1]
    return np.flatnonzero(begins[:-1]).tolist()


def test_a_burst_is_a_run_of_moments_that_have_only_one_kind_of_event() -> None:
    assert marked("AAABBA", [0, 1, 1, 2, 3, 4], "AB") == [0, 3, 5]
    assert marked("AAABBA", [0, 1, 1, 2, 3, 4], "A") == [0, 3, 4, 5]
    assert marked("AAAA", [0, 1, 2, 3], "A", edges=[2]) == [0, 2]
    # The B of moment 1 follows the first A, and not those of its own moment, which it must not split from.
    assert marked("AAAB", [0, 1, 1, 1], "AB") == [0, 1, 3]
    assert marked("ABBB", [0, 0, 0, 1], "AB") == [0, 1, 3]


def bursty(seed: int, count: int, longest: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    types = np.repeat(rng.choice(list("ABCD"), count), rng.integers(1, longest + 1, count))[:count]
    times, k = np.cumsum(rng.integers(0, 2, count)), rng.integers(0, 2, count)
    return pa.table(
        {"type": types, "ts": times, "k": k, "v": rng.integers(0, 4, count), "w": rng.random(count)}
    )


def queries(seed: int, tail: str) -> str:
    rng = random.Random(seed)
    shown = [
        (rng.choice(AGGREGATES), rng.choice(PATTERNS), rng.choice(["", "", "AND B.v > 1"])) for _ in range(8)
    ]
    return ";".join(
        f"QUERY q{n} RETURN {returned} PATTERN {pattern} WHERE [k] {where} {tail}"
        for n, (returned, pattern, where) in enumerate(shown)
    )


@pytest.mark.skipif(IS_PLAIN, reason="thousands of rows")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tail", ["", "WITHIN 40 s SLIDE 10 s"])
def test_bursts_give_the_rows_of_events_one_by_one(
    seed: int, tail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, workload = bursty(seed, 300, 12), tf.parse(queries(seed, tail))
    together = workload.run(table, strategy="gloria")
    monkeypatch.setattr(bursts, "WORTH", 0.0)
    each = workload.run(table, strategy="gloria")
    for query in workload:
        found, wanted = together[query.name], each[query.name]
        assert found.drop_columns(found.column_names[2:]).equals(wanted.drop_columns(wanted.column_names[2:]))
        for one, other in zip(found.columns[2:], wanted.columns[2:], strict=True):
            assert one.to_pylist() == pytest.approx(other.to_pylist(), rel=1e-9)


def ready_of(workload: tf.Workload, table: pa.Table) -> GloriaReady:
    group = workload.plan("gloria")[0].group
    assert group is not None
    together, _ = read_group(group, Workspace(read_batch(table, Options())))
    assert together is not None
    return ready(group, together, DEFAULTS)


def test_events_that_follow_each_other_are_stepped_one_by_one() -> None:
    table = bursty(1, 600, 30)
    loop = tf.parse(
        "; ".join(f"QUERY k{n} RETURN COUNT(*) PATTERN SEQ(A, B+, {last})" for n, last in enumerate("CD"))
    )
    made = ready_of(loop, table).bursts
    events, many = made.events, made.many
    assert many.sum() == len(made.first) - 1
    longest: dict[int, float] = {}
    for symbol, size in zip(events.symbol.tolist(), many.tolist(), strict=True):
        longest[symbol] = max(size, longest.get(symbol, 0.0))
    assert sorted(longest.values())[0] == 1.0 < sorted(longest.values())[1]  # the B of B+, and all others


@pytest.mark.skipif(IS_PLAIN, reason="thousands of rows")
def test_numbers_past_doubles_are_multiplied_too() -> None:
    types = list("AB" * 700 + "C" * 50)
    table: dict[str, Any] = {"type": types, "ts": list(range(len(types))), "x": [1.5] * len(types)}
    text = "QUERY a RETURN LOG2(COUNT(*)), SUM(C.x) PATTERN SEQ(SEQ(A, B)+, C)"
    workload = tf.parse(f"{text}; {text.replace('QUERY a', 'QUERY b')}")
    rows = workload.run(pa.table(table), strategy="gloria")["b"].to_pylist()
    like = workload.run(pa.table(table), strategy="cogra")["b"].to_pylist()
    assert rows[0]["log2_count"] == pytest.approx(like[0]["log2_count"], rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_random_plans_over_bursts_give_the_oracles_rows(seed: int) -> None:
    rng = random.Random(seed)
    events, ts = [], 0
    while len(events) < 14:
        kind = rng.choice("ABCD")
        for _ in range(rng.randint(2, 4)):
            ts += rng.choice([0, 1, 1])
            one = {"type": kind, "ts": ts, "k": rng.choice([1, 1, 2]), "g": rng.choice("xy"), "s": "s"}
            events.append({**one, "v": rng.choice([0, 1, 2, None]), "w": rng.choice([0.5, -2.0, None])})
    texts = random_workload(rng)
    assert wrong_rows(seed, texts, events[:13]) == []
