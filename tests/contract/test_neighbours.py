"""Comparisons between neighbours give the oracle's rows, whatever structure finds the bindings.

`TRENDFOLD_FUZZ=20000 pytest tests/contract/test_neighbours.py -n 2` looks at fresh cases.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold
from contract.engine import check_seed, difference, many

SEEDS = st.integers(0, 2**40)

both_ways = pytest.mark.parametrize("strategy", ["auto", "cogra"])


@both_ways
@many(700)
@given(seed=SEEDS)
def test_counts_are_the_oracles(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, neighbours=True)


@both_ways
@many(700)
@given(seed=SEEDS)
def test_aggregates_are_the_oracles(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, neighbours=True, aggregates=True, having=True)


@many(300)
@given(seed=SEEDS)
def test_an_outermost_and_combines_as_the_oracle_does(seed: int) -> None:
    check_seed(seed, "auto", neighbours=True, aggregates=True, both=True)


LONG = [
    "PATTERN A+ WHERE A.v > NEXT(A).v",
    "PATTERN A+ WHERE A.w <= NEXT(A).w",
    "PATTERN A+ WHERE A.v != NEXT(A).k",
    "PATTERN A+ WHERE A.k = NEXT(A).k",
    "PATTERN A+ WHERE A.k = NEXT(A).k AND A.w < NEXT(A).w",
    "PATTERN A+ WHERE A.v BETWEEN NEXT(A).v - 3 AND NEXT(A).k",
    "PATTERN SEQ(A+, B b) WHERE A.v > NEXT(A).v AND A.w < NEXT(b).w",
    "PATTERN SEQ(A+, NOT N, B b) WHERE A.v > NEXT(A).v AND A.w < NEXT(b).w",
    "PATTERN SEQ(A, NOT SEQ(N n, M m), B+) WHERE A.w > NEXT(B).w AND n.v < NEXT(m).v AND B.v <= NEXT(B).v",
]


@pytest.mark.parametrize("window", ["", "WITHIN 60 s SLIDE 60 s", "WITHIN 90 s SLIDE 20 s"])
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
@pytest.mark.parametrize("query", LONG)
def test_trees_of_several_levels_give_what_the_scan_gives(query: str, semantics: str, window: str) -> None:
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
    tables = [asked.run(events, strategy=strategy)["q1"].to_pylist() for strategy in ("auto", "cogra")]
    assert difference(tables[0], tables[1], 2) is None
