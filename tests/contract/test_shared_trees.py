"""Queries that compare neighbours alike and share trees give each the oracle's rows.

`TRENDFOLD_FUZZ=20000 pytest tests/contract/test_shared_trees.py -n 2` looks at fresh cases.
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
from contract.engine import difference, many, to_table
from contract.test_window_lanes import PATTERNS, random_events
from trendfold.kernel.lane_runs import RUN
from trendfold.plan import physical
from trendfold.plan.cost import DEFAULT_COSTS
from trendfold.plan.logical import SHARED_TREES, Group
from trendfold.plan.physical import Apart, SharedTrees, choose
from trendfold.plan.statistics import BatchSize, GroupStatistics, OperandStatistics
from trendfold.plan.workload import plan_all
from trendfold.runtime.folds import in_shared_trees
from trendfold.runtime.folds.in_shared_trees import lane_masks
from trendfold.testing import oracle


@pytest.fixture(params=[(1, 8), (8, 16)], ids=str)
def _shared_whatever_it_costs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Several passes and batches, or few; each query alone is never cheaper."""
    windows, queries = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "bindings_ns", lambda *given, **more: float("inf"))
        patch.setattr(physical, "batches_ns", lambda passed, rows, lanes, *given, **more: 1e9 / lanes**4)
        patch.setattr(in_shared_trees, "WINDOWS", (windows,))
        patch.setattr(in_shared_trees, "QUERIES", (queries,))
        yield


@pytest.mark.usefixtures("_shared_whatever_it_costs")
@many(300)
@given(seed=st.integers(0, 2**40))
def test_every_query_has_the_oracles_rows(seed: int) -> None:
    texts, events = random_workload(random.Random(seed))
    table = to_table(workloads.Case(texts[0], events, None))
    workload = tf.parse(";\n".join(texts))
    result = workload.run(table)
    found = any(len(result[name]) for name in result)
    if found and "A.g" not in texts[0]:  # which copies rows, perhaps once per query or more
        assert {type(step.way) for step in result.plan} == {SharedTrees}
    for query, text in zip(workload, texts, strict=True):
        expected = oracle.rows(text, events, None)
        wrong = difference(result[query.name].to_pylist(), expected, 2 + len(query.group_by))
        assert wrong is None, f"seed {seed}: {text}: {wrong}\n{texts!r}\n{events!r}"


def random_workload(rng: random.Random) -> tuple[list[str], list[dict]]:
    """2 to 20 queries that differ in conditions on A and B only."""
    pattern, pairs = rng.choice(list(PATTERNS.items()))
    shared = []
    for pair in rng.sample(pairs, rng.randint(1, len(pairs))):
        a, b = pair.split()
        one = rng.choice(["v", "w", "ts"])
        shared.append(f"{a}.{one} {rng.choice(workloads.SIGNS)} NEXT({b}).{one}")
        shared += [f"{a}.k = NEXT({b}).k"] * (rng.random() < 0.3)
    grouping = rng.choice(["", "", "GROUP BY g", "[k]"] + ["GROUP BY A.g"] * ("|" not in pattern))
    shared += [grouping] * (grouping == "[k]")
    length = rng.randint(2, 9)
    window = rng.choice(["", f"WITHIN {length} s SLIDE {length} s", f"WITHIN {length} s SLIDE 2 s"])
    returned = rng.choice(["COUNT(*)", "COUNT(*), COUNT(A), SUM(A.v), AVG(A.w), MIN(A.v), MAX(A.w)"])
    texts = []
    for i in range(rng.choice([2, 3, 9, 20])):
        where = [*shared, *_conditions(rng, "B" in pattern)]
        rest = f"WHERE {' AND '.join(where)} {grouping * (grouping != '[k]')} {window}"
        texts.append(f"QUERY q{i} RETURN {returned} PATTERN {pattern} {rest}")
    return texts, random_events(rng, False)


def _conditions(rng: random.Random, has_b: bool) -> list[str]:
    found = []
    for name in "AB" if has_b else "A":
        if rng.random() < 0.6:
            found.append(
                rng.choice(
                    [
                        f"{name}.v > {rng.randint(-1, 3)}",
                        f"{name}.v != {rng.randint(0, 2)}",
                        f"{name}.w < 1.0",
                    ]
                )
            )
    return found


@pytest.mark.usefixtures("_shared_whatever_it_costs")
@pytest.mark.parametrize("n", [pytest.param(3_000, marks=pytest.mark.compiled), 360])
def test_counts_of_very_different_size_are_all_right(n: int) -> None:
    """One query counts past 2^1000, or 2^256, while another takes hardly any event."""
    rng = np.random.default_rng(3)
    events = pa.table(
        {
            "type": ["A"] * n,
            "ts": np.arange(n),
            "v": -np.arange(n) + rng.integers(-8, 8, n),
            "u": rng.integers(0, 100, n),
            "w": (rng.normal(size=n) * 10.0 ** rng.integers(-200, 300, n)).tolist(),
        }
    )
    text = (
        "RETURN LOG2(COUNT(*)), COUNT(*), SUM(A.w), MIN(A.v) PATTERN A+ WHERE A.v > NEXT(A).v AND A.u < {} "
        f"WITHIN {n * 5 // 6} s SLIDE {n // 6} s"
    )
    thresholds = [100, 50, 1, 0, 3, 10, 99, 100, 70, 2]
    result = tf.parse(";".join(text.format(u) for u in thresholds)).run(events)
    assert [type(step.way) for step in result.plan] == [SharedTrees]
    for name, u in zip(result, thresholds, strict=True):
        alone = tf.parse(text.format(u)).run(events)["q1"].to_pylist()
        assert len(result[name]) == len(alone)
        for one, other in zip(result[name].to_pylist(), alone, strict=True):
            assert one == pytest.approx(other, rel=1e-9, nan_ok=True)


# ---- The choice -----------------------------------------------------------------------------------------

RISING = "RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.v < NEXT(B).v AND {} {} WITHIN 9 s SLIDE 9 s"


def method(*texts: str) -> list[str]:
    plans = plan_all(tf.parse(";".join(texts)).queries)
    return [plan.alone if plan.group is None else plan.group.method for plan in plans]


def test_queries_share_trees_where_they_differ_in_local_conditions_only() -> None:
    one = RISING.format("B.k > 1", "")
    assert method(one, RISING.format("A.k != 7", "")) == [SHARED_TREES] * 2
    assert method(one, RISING.format("B.k > 2", "GROUP BY g"))[0].startswith("no other query compares")
    assert method(one, RISING.format("B.k > 2 AND B.w < NEXT(B).w", ""))[0].startswith("no other query")
    assert method(one, one.replace("9 s SLIDE 9 s", "8 s SLIDE 8 s"))[0].startswith("no other query compares")
    following = one.replace("WHERE", "SEMANTICS next WHERE")
    assert method(following, following)[0].startswith("a predicate compares events")


def test_a_not_shares_trees_only_where_its_conditions_are_equal() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, NOT N, B+) WHERE B.v < NEXT(B).v AND B.k > {} AND N.k > {}"
    assert method(text.format(1, 1), text.format(2, 1)) == [SHARED_TREES] * 2
    assert method(text.format(1, 1), text.format(1, 2))[0].startswith("no other query compares")


def group_of(queries: int) -> Group:
    texts = [RISING.format(f"B.k > {i}", "") for i in range(queries)]
    group = plan_all(tf.parse(";".join(texts)).queries)[0].group
    assert group is not None
    return group


def measured(share: float, *sizes: BatchSize) -> GroupStatistics:
    return GroupStatistics(
        rows=1_000, trees=OperandStatistics(window_rows=1_000, batches=sizes), own_share=share
    )


def test_the_choice_follows_the_expected_cost() -> None:
    eight, all_of_them = BatchSize(1, 1_000, 10_000, 8), BatchSize(1, 1_000, 60_000, 56)
    way = choose(group_of(50), measured(0.5, eight, all_of_them), DEFAULT_COSTS)
    assert isinstance(way, SharedTrees)
    assert way.queries == 56
    assert way.why.startswith("50 queries compare neighbours alike; sharing trees is expected to be")
    few = choose(group_of(50), measured(0.001, eight, all_of_them), DEFAULT_COSTS)
    assert isinstance(few, Apart)
    assert "few of the rows" in few.why
    large = choose(group_of(50), measured(0.5, BatchSize(1, 1_000, 1 << 40, 56)), DEFAULT_COSTS)
    assert isinstance(large, Apart)
    assert "memory" in large.why


def test_lanes_of_a_step_are_the_runs_that_have_one() -> None:
    is_taken = np.zeros((3, 2 * RUN + 1), np.bool_)
    is_taken[1, RUN] = is_taken[1, 2 * RUN] = True
    is_taken[2] = True
    masks = lane_masks(is_taken)
    assert (masks.queries, masks.stride) == (2 * RUN + 1, 3 * RUN)
    assert masks.is_full.tolist() == [False, False, True]
    assert masks.at.tolist() == [0, RUN, 0]
    assert masks.runs.tolist() == [0, 2, 3]


def test_explain_says_who_is_beside_a_query() -> None:
    texts = [RISING.format(f"B.k > {i}", "") for i in range(2)]
    told = str(tf.parse(";".join(texts)).explain())
    assert "values are ranked and bindings are found once" in told
    assert "q2: same shape: lanes side by side" in told
