"""Comparisons between neighbours give the oracle's rows, whatever structure finds the bindings.

`TRENDFOLD_FUZZ=20000 pytest tests/contract/test_neighbours.py -n 2` looks at fresh cases.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold
import workloads
from contract.engine import check, check_seed, difference, many
from trendfold.kernel.jit import IS_PLAIN
from trendfold.plan import PLANNERS, QueryPlan, plan_auto
from trendfold.plan.neighbour import online
from trendfold.query import Query

SEEDS = st.integers(0, 2**40)

one_worker = pytest.mark.xdist_group("growing")
"""Kernels with trees that grow are compiled apart: one worker does it."""
grown = pytest.param("online", marks=[one_worker, pytest.mark.slow])  # no engine uses them yet
every_way = pytest.mark.parametrize("strategy", ["auto", "cogra", grown])


def plan_online(query: Query) -> QueryPlan:
    """The plan of `auto`, with trees that grow instead of ranks wherever there are such."""
    planned = plan_auto(query)
    operands = [replace(o, accesses=tuple(map(online, o.accesses))) for o in planned.operands]
    return replace(planned, operands=tuple(operands))


@pytest.fixture(autouse=True)
def _a_strategy_that_knows_no_values_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "online", plan_online)


@every_way
@many(700)
@given(seed=SEEDS)
def test_counts_are_the_oracles(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, neighbours=True)


@every_way
@many(700)
@given(seed=SEEDS)
def test_aggregates_are_the_oracles(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, neighbours=True, aggregates=True, having=True)


@many(300)
@given(seed=SEEDS)
def test_an_outermost_and_combines_as_the_oracle_does(seed: int) -> None:
    check_seed(seed, "auto", neighbours=True, aggregates=True, both=True)


@pytest.mark.slow
@one_worker
@many(500)
@given(seed=SEEDS)
def test_one_value_compared_by_order_in_a_tree_that_grows_gives_the_oracles_rows(seed: int) -> None:
    rng = random.Random(seed)
    semantics = rng.choice(["any", "next"])
    check(few_values(rng, semantics, 1), "online", origin=f"few_values of seed {seed}")


@pytest.mark.skipif(not IS_PLAIN, reason="the test above, which takes long to compile")
@pytest.mark.parametrize("semantics", ["any", "next"])
@pytest.mark.parametrize("seed", range(12))
def test_one_value_in_a_tree_that_grows_gives_the_oracles_rows_in_plain_python(
    semantics: str, seed: int
) -> None:
    check(few_values(random.Random(seed), semantics, 1), "online", origin=f"few_values of seed {seed}")


@pytest.mark.parametrize("semantics", ["any", "next"])
@many(400)
@given(seed=SEEDS)
def test_two_values_compared_by_order_give_the_oracles_rows(semantics: str, seed: int) -> None:
    case = few_values(random.Random(seed), semantics, 2)
    check(case, "auto", origin=f"few_values(random.Random({seed}), {semantics!r}, 2)")


def few_values(rng: random.Random, semantics: str, orders: int) -> workloads.Case:
    """A few events of few values, some of which neighbours compare by order."""
    pattern, pairs = rng.choice(
        [
            ("A+", [("A", "A")]),
            ("SEQ(A+, B)", [("A", "A"), ("A", "B")]),
            ("SEQ(A, NOT N, B+)", [("A", "B"), ("B", "B")]),
            ("SEQ(A+, NOT SEQ(N, M), B+)", [("A", "A"), ("A", "B"), ("B", "B")]),
            ("(SEQ(A, B))+", [("A", "B"), ("B", "A")]),
            ("(A | B)+", [("A", "B"), ("B", "A"), ("A", "A"), ("B", "B")]),
        ]
    )
    where = []
    for a, b in rng.sample(pairs, rng.randint(1, len(pairs))):
        columns = {"t": "ts"}
        compared = rng.sample("vwkts", orders)
        for one in compared:
            name = columns.get(one, one)
            plus = f" + {rng.randint(-1, 2)}".replace("+ -", "- ") if one in "vwkt" else ""
            where.append(f"{a}.{name}{plus} {rng.choice(workloads.SIGNS[1:])} NEXT({b}).{name}")
        if orders == 2:
            x = columns.get(compared[0], compared[0])
            more = [f"{a}.{x} != NEXT({b}).k"] if x in "vw" else []
            where += rng.choice([[], [], [f"{a}.k = NEXT({b}).k"], more])
    window = rng.choice(["", "WITHIN 6 s SLIDE 6 s", "WITHIN 6 s SLIDE 2 s", "WITHIN 5 s"])
    count = rng.randint(4, 13)
    time = sorted(rng.randint(0, rng.choice([5, 12])) for _ in range(count))
    events = [
        {
            "type": rng.choice("AAABBNM"),
            "ts": time[i],
            "k": rng.randint(0, 2),
            "g": "x",
            "v": rng.choice([None, 0, 1, 1, 2, 3]),
            "w": rng.choice([None, 0.0, -0.0, 0.5, 1.0, 1.5, 2.5]),
            "s": rng.choice([None, "", "x", "xy", "é"]),
        }
        for i in range(count)
    ]
    returned = "COUNT(*), COUNT(A), SUM(A.v) AS s, AVG(A.w) AS a, MIN(A.v) AS low, MAX(A.w) AS high"
    query = (
        f"RETURN {returned}\nPATTERN {pattern}\nSEMANTICS {semantics}\nWHERE {' AND '.join(where)}\n{window}"
    )
    return workloads.Case(query.rstrip(), events, None)


LONG = [
    "PATTERN A+ WHERE A.v > NEXT(A).v",
    "PATTERN A+ WHERE A.w <= NEXT(A).w",
    "PATTERN A+ WHERE A.v != NEXT(A).k",
    "PATTERN A+ WHERE A.k = NEXT(A).k",
    "PATTERN A+ WHERE A.k = NEXT(A).k AND A.w < NEXT(A).w",
    "PATTERN A+ WHERE A.v BETWEEN NEXT(A).v - 3 AND NEXT(A).k",
    "PATTERN A+ WHERE A.v < NEXT(A).v AND A.w >= NEXT(A).w",
    "PATTERN A+ WHERE A.k = NEXT(A).k AND A.v <= NEXT(A).v AND A.w != NEXT(A).w",
    "PATTERN A+ WHERE NEXT(A).v BETWEEN A.v - 1 AND A.v + 2",
    "PATTERN A+ WHERE A.v != NEXT(A).v AND A.k != NEXT(A).k",
    "PATTERN SEQ(A+, B b) WHERE A.v > NEXT(A).v AND A.w < NEXT(b).w",
    "PATTERN SEQ(A+, B b) WHERE A.v > NEXT(A).v AND A.w < NEXT(b).w AND A.k >= NEXT(b).k",
    "PATTERN SEQ(A+, NOT N, B b) WHERE A.v > NEXT(A).v AND A.w > NEXT(A).w AND A.w < NEXT(b).w "
    "AND A.v != NEXT(b).v",
    "PATTERN SEQ(A+, NOT N, B b) WHERE A.v > NEXT(A).v AND A.w < NEXT(b).w",
    "PATTERN SEQ(A, NOT SEQ(N n, M m), B+) WHERE A.w > NEXT(B).w AND n.v < NEXT(m).v AND B.v <= NEXT(B).v",
]


@pytest.mark.parametrize("strategy", ["auto", grown])
@pytest.mark.parametrize("window", ["", "WITHIN 60 s SLIDE 60 s", "WITHIN 90 s SLIDE 20 s"])
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
@pytest.mark.parametrize("query", LONG)
def test_trees_of_several_levels_give_what_the_scan_gives(
    query: str, semantics: str, window: str, strategy: str
) -> None:
    rng = np.random.default_rng(len(query))
    n = 300
    events = pa.table(
        {
            "type": rng.choice(["A", "A", "A", "B", "B", "N", "M"], n),
            "ts": np.sort(rng.integers(0, 250, n)),  # many moments of several events
            "v": pa.array(rng.integers(0, 12, n), mask=rng.random(n) < 0.05),
            "w": rng.normal(size=n).round(1),
            "k": rng.integers(0, 6, n),
        }
    )
    returned = "COUNT(*), LOG2(COUNT(*)) AS bits, SUM(A.w) AS s, MIN(A.v) AS low, MAX(A.w) AS high, COUNT(A)"
    asked = trendfold.parse(f"RETURN {returned} {query} SEMANTICS {semantics} {window}")
    scanned = asked.run(events, strategy="cogra")["q1"].to_pylist()
    assert difference(asked.run(events, strategy=strategy)["q1"].to_pylist(), scanned, 2) is None
