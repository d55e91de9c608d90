"""Several NOTs side by side: a trend of any of them breaks."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine, matching
from trendfold.errors import UnsupportedError

SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(200)
@given(seed=SEEDS)
def test_several_nots_give_the_oracles_rows(strategy: str, seed: int) -> None:
    features = {"sets": seed % 3 == 0, "both": seed % 4 == 0, "times": seed % 5 == 0}
    engine.check_seed(seed, strategy, nots=True, aggregates=True, **features)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(100)
@given(seed=SEEDS)
def test_matches_with_several_nots_are_the_oracles(strategy: str, seed: int) -> None:
    case = workloads.random_case(random.Random(seed), matches=True, nots=True, cross=seed % 2 == 0)
    matching.check(case, matching.run_with(strategy), f"seed {seed}")


def test_aseq_refuses_them_by_the_name_of_the_clause() -> None:
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, NOT B, NOT C, D)")
    with pytest.raises(UnsupportedError, match="PATTERN has a NOT of a pattern"):
        workload.run(pa.table({"type": ["A", "D"], "ts": [1, 2]}), strategy="aseq")


def test_explain_tells_of_nots_side_by_side_as_one() -> None:
    text = str(tf.parse("RETURN COUNT(*) PATTERN SEQ(NOT X, NOT Y, A, NOT B, NOT SEQ(C, D), E)").explain())
    assert "OR(X, Y)" in text
    assert "OR(B, SEQ(C, D))" in text
