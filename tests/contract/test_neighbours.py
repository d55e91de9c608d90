"""Comparisons between neighbours give the oracle's rows, whatever structure finds the bindings.

`TRENDFOLD_FUZZ=20000 pytest tests/contract/test_neighbours.py -n 2` looks at fresh cases.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.engine import check_seed, many

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
