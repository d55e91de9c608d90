"""Queries folded together under HAMLET give the oracle's rows, whatever is shared.

`TRENDFOLD_FUZZ=20000 pytest tests/contract/test_hamlet.py` looks at fresh workloads.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine
from hamlet_benefit import Burst, Sharer, pruned_choice, snapshots
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.papers.hamlet import kernel
from trendfold.papers.hamlet.run import NO_JOURNAL, HamletTally, ready
from trendfold.plan.workload import plan_all
from trendfold.runtime.group_rows import GroupRows, read_group
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.workspace import Workspace
from trendfold.testing import oracle

STRATEGIES = ("hamlet", "hamlet-static")
CHOICES = {"hamlet": kernel.BY_BENEFIT, "hamlet-static": kernel.ALWAYS}

PATTERNS = [
    *("B+", "SEQ(A, B+)", "SEQ(C, B+)", "SEQ(A, B+, C)", "SEQ(D, B+, A)", "SEQ(A+, B+)", "SEQ(B+, C+)"),
    *("SEQ(A+, B)+", "SEQ(A, B+)+", "(A | B)+", "(B+ | SEQ(C, D))", "SEQ(A, B*, C)", "SEQ(A, B?)"),
    *("SEQ(A, B+, NOT C, D)", "SEQ(B+, NOT C)", "SEQ(NOT D, B+)", "SEQ(A, NOT SEQ(C, D), B+)"),
    *("SEQ(A, B, B+)", "SEQ(A, B{2,})", "SEQ(A, C)", "SEQ(A, B+, NOT B, C)"),
    *("SEQ(A, B+, C, B+)", "(SEQ(A, B+) | SEQ(B+, C))", "SEQ(B+, A, B b+)", "SEQ(B+, NOT D, A, B+)+"),
]
WINDOWS = [
    *("", "WITHIN 6 s SLIDE 2 s", "WITHIN 4 s SLIDE 4 s", "WITHIN 6 s SLIDE 3 s", "WITHIN 2 s SLIDE 3 s"),
    *("WITHIN 8 s SLIDE 1 s", "WITHIN 5 s"),
]
COMPARED = [
    "B.v <= NEXT(B).v",
    "B.v != NEXT(B).v",
    "B.w + 1 > NEXT(B).w",
    "B.w < NEXT(B).w AND B.v >= NEXT(B).v",
]
LOCAL = ["", "", "", "B.v < 2", "B.v != 1", "B.w > 0.5", "B.v IS NOT NULL", "A.v > 0", "C.k = 1 AND B.v < 3"]
AGGREGATES = [
    *("COUNT(*)", "COUNT(*)", "COUNT(B)", "SUM(B.v)", "AVG(B.w)", "MIN(B.w)", "MAX(B.v)", "LOG2(COUNT(*))"),
    *("SUM(A.v)", "MIN(C.w)", "COUNT(*), AVG(B.v), MAX(A.w)"),
]


def random_query(
    rng: random.Random, number: int, streams: str, keys: str, conditions: Sequence[str] = LOCAL
) -> str:
    """One query; streams and keys are those of most queries of the workload."""
    pattern = rng.choice(PATTERNS)
    local = rng.choice(conditions)
    names = [word[0] for word in local.split(" AND ") if word]
    positive = pattern.split("NOT ")[0] + (
        pattern.rsplit(",", 1)[1] if pattern.endswith(("D)", "B+)")) else ""
    )
    wanted = [conjunct for conjunct in [streams, *local.split(" AND ")] if conjunct]
    wanted = [one for one in wanted if one.startswith("[") or all(name in positive for name in names)]
    returned = rng.choice(AGGREGATES)
    while any(f"({name}" in returned and name not in positive for name in "ABC"):
        returned = rng.choice(AGGREGATES)
    where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
    more = rng.choice(["", "", "", "", "", "SEMANTICS next", "HAVING COUNT(*) > 1"])
    grouped = f"GROUP BY {keys}" if keys else ""
    head = f"{keys}, " if keys else ""
    window = rng.choice(WINDOWS)
    return f"QUERY n{number} RETURN {head}{returned} PATTERN {pattern} {where} {grouped} {window} {more}"


def random_workload(rng: random.Random, conditions: Sequence[str] = LOCAL) -> list[str]:
    """Queries of which most read the same streams; those that the language refuses are left out."""
    streams, keys = rng.choice(["", "", "[k]"]), rng.choice(["", "", "g"])
    found = []
    for number in range(rng.randint(2, 12)):
        own = streams if rng.random() < 0.9 else "[k]"
        text = random_query(rng, number, own, keys, conditions)
        try:
            tf.parse(text)
            oracle.Meaning(text)
        except (tf.errors.QueryError, ValueError):
            continue
        found.append(text)
    return found


def random_events(rng: random.Random) -> list[dict[str, Any]]:
    """Bursts of one type, some of them at one time."""
    events: list[dict[str, Any]] = []
    ts = 0
    while len(events) < 13:
        kind = rng.choice("AABBBBCD")
        for _ in range(rng.randint(1, 6 if kind == "B" else 2)):
            ts += rng.choice([0, 0, 1, 1, 1, 2])
            events.append(
                {
                    **{"type": kind, "ts": ts, "k": rng.choice([1, 1, 1, 2, None]), "g": rng.choice("xy")},
                    **{
                        "v": rng.choice([0, 1, 2, 3, None]),
                        "w": rng.choice([0.5, 1.25, -2.0, None]),
                        "s": "s",
                    },
                }
            )
    return events[: rng.randint(2, 13)]


def table(events: list[dict[str, Any]]) -> pa.Table:
    return engine.to_table(workloads.Case("", events, None))


def differences(queries: list[str], events: list[dict[str, Any]], strategy: str) -> list[str]:
    result = tf.parse("; ".join(queries)).run(table(events), strategy=strategy)
    found = []
    for text in queries:
        (query,) = tf.parse(text)
        expected = oracle.rows(text, events, None)
        problem = engine.difference(result[query.name].to_pylist(), expected, 2 + len(query.group_by))
        found += [f"{text}: {problem}"] if problem else []
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@engine.many(120)
@given(seed=st.integers(0, 2**40))
def test_workloads_are_the_oracles(strategy: str, seed: int) -> None:
    check_workload(strategy, seed, LOCAL)


@pytest.mark.parametrize("strategy", STRATEGIES)
@engine.many(100)
@given(seed=st.integers(0, 2**40))
def test_workloads_that_compare_neighbours_are_the_oracles(strategy: str, seed: int) -> None:
    check_workload(strategy, seed, [*COMPARED, *LOCAL[:4], f"{COMPARED[0]} AND B.v < 3"])


def check_workload(strategy: str, seed: int, conditions: Sequence[str]) -> None:
    rng = random.Random(seed)
    queries, events = random_workload(rng, conditions), random_events(rng)
    if not queries:
        return
    wrong = differences(queries, events, strategy)
    if not wrong:
        return
    fewer = True
    while fewer:
        fewer = False
        for smaller in [(queries[:i] + queries[i + 1 :], events) for i in range(len(queries))] + [
            (queries, events[:i] + events[i + 1 :]) for i in range(len(events))
        ]:
            if smaller[0] and smaller[1] and differences(*smaller, strategy):
                (queries, events), fewer = smaller, True
                break
    raise AssertionError(
        f"seed {seed}: {wrong}\nreduced to {differences(queries, events, strategy)}\n{events}"
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@engine.many(60)
@given(seed=st.integers(0, 2**40))
def test_a_query_that_is_alone_is_the_oracles(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, aggregates=True, having=True, both=True, cross=True, rejects=True)


def group_rows(queries: str, events: pa.Table, strategy: str) -> tuple[Any, GroupRows]:
    """The group that a workload is planned as, and its rows."""
    plans = plan_all(tf.parse(queries).queries, strategy)
    workspace = Workspace(read_batch(events, Options()))
    together, _ = read_group(plans[0].group, workspace)
    assert together is not None
    return plans[0].group, together


def folded(
    queries: str, events: pa.Table, strategy: str, lines: int = 0
) -> tuple[Any, HamletTally, np.ndarray]:
    group, together = group_rows(queries, events, strategy)
    journal = np.zeros((lines, 5)) if lines else NO_JOURNAL
    found, tally = ready(group, together, DEFAULTS).fold(CHOICES[strategy], journal)
    return found, tally, journal[1 : 1 + int(journal[0, 0])] if lines else journal


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_queries_share_a_type_at_several_positions(strategy: str) -> None:
    rng = random.Random(11)
    types = [kind for _ in range(12) for kind in [rng.choice("AACD"), *"B" * rng.randint(1, 9)]]
    events = pa.table({"type": types, "ts": range(len(types)), "v": [rng.randint(0, 9) for _ in types]})
    text = "RETURN COUNT(*), SUM(B.v), MIN(B.v) PATTERN {} WITHIN 40 s SLIDE 8 s"
    patterns = ["SEQ(A, B+, C, B+)", "SEQ(B+, A, B+)", "SEQ(D, B+)", "(SEQ(A, B+) | SEQ(B+, C))"]
    workload = tf.parse("; ".join(map(text.format, patterns)))
    found, expected = workload.run(events, strategy=strategy), workload.run(events, strategy="cogra")
    assert len(found.plan) == 1
    assert found.summary.sharing["shared bursts"] > 0
    for query in workload:
        assert engine.difference(found[query.name].to_pylist(), expected[query.name].to_pylist(), 2) is None


def test_random_workloads_do_share() -> None:
    shared = uneven = alone = 0
    for seed in range(40):
        rng = random.Random(seed)
        queries, events = random_workload(rng), random_events(rng)
        plans = plan_all(tf.parse("; ".join(queries)).queries, "hamlet-static") if queries else ()
        alone += sum(plan.group is None for plan in plans)
        for group in {id(plan.group): plan.group for plan in plans if plan.group}.values():
            workspace = Workspace(read_batch(table(events), Options()))
            together, _ = read_group(group, workspace)
            assert together is not None
            tally = ready(group, together, DEFAULTS).fold(kernel.ALWAYS)[1]
            shared += tally.shared_bursts
            uneven += tally.event_snapshots
    assert shared > 50
    assert uneven > 20
    assert alone > 20


@pytest.mark.parametrize("bursts", [pytest.param(60, marks=pytest.mark.compiled), 12])
def test_expressions_stay_right_past_the_range_of_doubles(bursts: int) -> None:
    # Each event may follow nearly all before it: coefficients and values need exponents.
    rng = random.Random(7)
    types = [kind for _ in range(bursts) for kind in ["A", *"B" * 25, "C"]]
    events = pa.table({"type": types, "ts": range(len(types)), "v": [rng.random() for _ in types]})
    text = "RETURN LOG2(COUNT(*)), AVG(B.v) PATTERN SEQ({}, B+) WHERE B.v < NEXT(B).v + 0.9 {}"
    for window in ("", f"WITHIN {bursts * 10} s SLIDE {bursts * 3} s"):
        workload = tf.parse("; ".join(text.format(first, window) for first in "AC"))
        expected = workload.run(events, strategy="cogra")
        for strategy in STRATEGIES:
            found = workload.run(events, strategy=strategy)
            assert found.summary.sharing["shared bursts"] > 0
            for name in ("q1", "q2"):
                problem = engine.difference(found[name].to_pylist(), expected[name].to_pylist(), 2)
                assert problem is None, f"{strategy} {window} {name}: {problem}"


# ---- The paper's tables ---------------------------------------------------------------------------

TWO = "q1: RETURN COUNT(*) PATTERN SEQ(A, B+); q2: RETURN COUNT(*) PATTERN SEQ(C, B+)"


def letters(text: str) -> pa.Table:
    return pa.table({"type": list(text), "ts": list(range(len(text))), "v": [0.0] * len(text)})


def test_table_3_one_snapshot_goes_through_a_burst() -> None:
    _, _, journal = folded(TWO, letters("AACBBBB"), "hamlet-static", 100)
    assert [line[4] for line in journal if line[0] == kernel.COEFFICIENT] == [1, 2, 4, 8]


def test_table_4_values_of_both_snapshots() -> None:
    # Graphlets A1 C2 B3 A4 C5 B6; the paper's own sum(C5) is garbled: with 3, y is 1 + 15 + 3 for q2.
    _, tally, journal = folded(TWO, letters("AACBBBBAACCCB"), "hamlet-static", 100)
    values = [tuple(line[[3, 4]]) for line in journal if line[0] == kernel.VALUE]
    assert values == [(0, 2), (1, 1), (0, 34), (1, 19)]
    assert (tally.bursts, tally.shared_bursts, tally.graphlets, tally.event_snapshots) == (2, 2, 2, 0)


def test_table_5_an_edge_that_holds_for_one_query_makes_a_snapshot() -> None:
    # Graphlets as above. The edge (b4, b5) holds for q1 alone: b5 is a snapshot z, and b6 = 4x + z.
    events = letters("AACBBBBAACCCB").set_column(2, "v", pa.array([0.0] * 3 + [1, 3, 2, 4] + [0] * 5 + [5.0]))
    _, tally, journal = folded(TWO + " WHERE B.v < NEXT(B).v", events, "hamlet-static", 100)
    assert (tally.bursts, tally.shared_bursts, tally.graphlets, tally.event_snapshots) == (2, 2, 2, 1)
    values = [tuple(line[[1, 3, 4]]) for line in journal if line[0] == kernel.VALUE]
    (x, z, rest) = ([value for row, _, value in values if row == r] for r in (3, 5, 12))
    assert (x, z) == ([2, 1], [8, 2])
    by_row = {
        row: [tuple(line[[2, 4]]) for line in journal if line[0] == 1 and line[1] == row] for row in (6, 12)
    }
    assert by_row[6] == [(0, 4), (1, 1)]
    coefficients = dict(by_row[12])
    y = [sum(coefficients[s] * each[q] for s, each in enumerate((x, z, rest))) for q in (0, 1)]
    assert y == [34, 15]


def test_an_event_that_one_query_cannot_take_gets_a_snapshot() -> None:
    events = letters("AACBBBB").set_column(2, "v", pa.array([0.0, 0.0, 0.0, 1.0, 1.0, 9.0, 1.0]))
    found, tally, journal = folded(TWO + " WHERE B.v < 5", events, "hamlet-static", 100)
    assert tally.event_snapshots == 1
    assert [tuple(line[[2, 3, 4]]) for line in journal if line[0] == kernel.VALUE and line[2] == 1] == [
        (1, 0, 8),
        (1, 1, 0),
    ]
    assert [part.mantissa.tolist() for part in found] == [[[30.0]], [[7.0]]]


# ---- Deciding -------------------------------------------------------------------------------------


def test_the_kernel_chooses_as_the_model_does() -> None:
    for seed in range(500):
        rng = random.Random(seed)
        b = rng.randint(1, 12)
        burst = Burst(b, b + rng.randint(0, 40), b, rng.randint(1, 4))
        sharers = [
            Sharer(rng.randint(1, 4), frozenset(e for e in range(b) if rng.random() < rng.choice([0, 0.3])))
            for _ in range(rng.randint(2, 8))
        ]
        everybody = frozenset(range(len(sharers)))
        created = snapshots(sharers, everybody)
        alone = [created - snapshots(sharers, everybody - {q}) for q in everybody]
        chosen = np.zeros(len(sharers), np.int64)
        many = np.array([sharer.windows for sharer in sharers])
        kernel.choose(burst.b, burst.n, burst.g, burst.t, created, many, np.array(alone), chosen)
        picked = frozenset(np.flatnonzero(chosen).tolist())
        k, made = int(many @ chosen), snapshots(sharers, picked)
        pays = kernel.cost(burst.b, burst.n, burst.g, burst.t, k, made, made) < k * burst.b * burst.n
        assert (picked if pays else frozenset()) == pruned_choice(burst, sharers), seed


def test_graphlets_are_split_and_merged_as_bursts_change() -> None:
    even, uneven = [1.0] * 8, [9.0, 1.0] * 4
    values = [0.0] * 3 + even + [0.0] + uneven + [0.0] + even + [0.0] + uneven
    events = letters("AAC" + "C".join(["B" * 8] * 4)).set_column(2, "v", pa.array(values))
    _, tally, _ = folded(TWO + " WHERE B.v < 5", events, "hamlet")
    assert (tally.bursts, tally.shared_bursts, tally.splits, tally.merges) == (4, 2, 2, 1)
    assert tally.event_snapshots == 0
    _, static, _ = folded(TWO + " WHERE B.v < 5", events, "hamlet-static")
    assert (static.shared_bursts, static.event_snapshots, static.decisions) == (4, 8, 0)


# ---- Numbers past doubles -------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("ties", "bits", "runs"),
    [
        pytest.param(1, 60, 400, marks=pytest.mark.compiled, id="apart"),
        pytest.param(3, 60, 400, marks=pytest.mark.compiled, id="tied"),
        pytest.param(2, 300, 400, marks=pytest.mark.compiled, id="large values"),
        pytest.param(1, 300, 16, id="large values, few events"),
        pytest.param(1, 60, 40, id="apart, few events"),
    ],
)
def test_large_numbers_agree_with_queries_alone(strategy: str, ties: int, bits: int, runs: int) -> None:
    rng = np.random.default_rng(ties)
    types = np.repeat(rng.choice(["A", "B", "B", "C"], runs), rng.geometric(1 / 30, runs))
    count = len(types)
    events = pa.table(
        {
            "type": types.tolist(),
            "ts": [i // ties for i in range(count)],
            "v": rng.integers(-5, 5, count),
            "w": 2.0 ** rng.uniform(-60, bits, count),
        }
    )
    size = runs * 15 // 2 // ties
    within = [f"WITHIN {size} s SLIDE {size // 3} s", f"WITHIN {2 * size} s SLIDE {size} s", ""]
    returned = ["LOG2(COUNT(*)), AVG(B.v)", "LOG2(COUNT(*)), AVG(B.w), MIN(B.w)", "LOG2(COUNT(B)), MAX(B.v)"]
    patterns = ["SEQ(A, B+)", "SEQ(A, B+, C)", "SEQ(A+, B+)", "(B | SEQ(A, C))+", "SEQ(A, B+, NOT A, C)"]
    local = ["", "WHERE B.v < 3", "WHERE B.v != 2 AND B.w > 0.001"]
    queries = [
        f"QUERY n{i} RETURN {returned[i % 3]} PATTERN {patterns[i % 5]} {local[i % 3]} {within[i % 2]}"
        for i in range(15)
    ]
    workload = tf.parse("; ".join(queries))
    together, alone = workload.run(events, strategy=strategy), workload.run(events, strategy="cogra")
    for query in workload:
        rows, expected = together[query.name].to_pylist(), alone[query.name].to_pylist()
        assert len(rows) == len(expected) > 0
        assert engine.difference(rows, expected, 2) is None, query.name
