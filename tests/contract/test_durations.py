"""DURATION and LENGTH of trends: each strategy, engine and grain gives the oracle's rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract import engine

SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(300)
@given(seed=SEEDS)
def test_durations_and_lengths_are_the_oracles(strategy: str, seed: int) -> None:
    engine.check_seed(
        seed, strategy, durations=True, aggregates=seed % 2 == 0, having=seed % 3 == 0, sets=seed % 4 == 0
    )
