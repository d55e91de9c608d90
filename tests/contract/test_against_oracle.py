"""Every strategy gives the oracle's rows, on thousands of small random cases.

`TRENDFOLD_FUZZ=20000 pytest tests/contract/test_against_oracle.py -n 2` looks at fresh ones.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workloads
from contract import engine
from contract.engine import check_seed, many
from trendfold.errors import UnsupportedError

SEEDS = st.integers(0, 2**40)
EVERYTHING = {"aggregates": True, "having": True, "both": True, "rejects": True}

every_strategy = pytest.mark.parametrize("strategy", engine.STRATEGIES)


@every_strategy
@many(400)
@given(seed=SEEDS)
def test_counts_are_the_oracles(strategy: str, seed: int) -> None:
    check_seed(seed, strategy)


@every_strategy
@many(400)
@given(seed=SEEDS)
def test_aggregates_are_the_oracles(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, aggregates=True)


@every_strategy
@many(250)
@given(seed=SEEDS)
def test_having_keeps_the_rows_the_oracle_keeps(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, aggregates=True, having=True)


@every_strategy
@many(250)
@given(seed=SEEDS)
def test_an_outermost_and_combines_as_the_oracle_does(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, aggregates=True, both=True)


@every_strategy
@many(150)
@given(seed=SEEDS)
def test_rejects_take_no_part(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, rejects=True)


def test_every_strategy_with_gaps_is_a_strategy() -> None:
    assert set(engine.GAPS) <= set(engine.STRATEGIES)
    assert set().union(*engine.GAPS.values()) <= set(engine.FEATURES)


def strategies_for_cross() -> list[Any]:
    not_yet = pytest.mark.xfail(raises=UnsupportedError, strict=True, reason="cross predicates are a gap")
    return [
        pytest.param(name, marks=not_yet if "cross" in engine.GAPS.get(name, ()) else ())
        for name in engine.STRATEGIES
    ]


@pytest.mark.parametrize("strategy", strategies_for_cross())
@many(250)
@given(seed=SEEDS)
def test_cross_predicates_hold_between_all_bindings(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, cross=True, gaps={}, **EVERYTHING)


@every_strategy
@many(150)
@given(seed=SEEDS)
def test_equalities_that_connect_all_aliases_make_a_partition(strategy: str, seed: int) -> None:
    # The generator draws them among cross predicates; those a strategy does not know are left out.
    check_seed(seed, strategy, cross=True, aggregates=True)


# ---- The answer does not depend on how the rows are handed over -----------------------------------


@every_strategy
@many(150)
@given(seed=SEEDS)
def test_the_order_of_rows_does_not_matter(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, engine.shuffled(seed), **EVERYTHING)


@every_strategy
@many(150)
@given(seed=SEEDS)
def test_chunks_and_dictionaries_do_not_matter(strategy: str, seed: int) -> None:
    check_seed(seed, strategy, engine.chunked(seed), **EVERYTHING)


@many(60)
@given(seed=SEEDS)
def test_a_pandas_frame_is_read_like_a_table(seed: int) -> None:
    # Whole numbers beside nulls are floats in such a frame, so results may be floats too.
    check_seed(seed, "auto", lambda case: engine.to_table(case).to_pandas(), typed=False, **EVERYTHING)


@many(60)
@given(seed=SEEDS)
def test_a_pandas_frame_with_nullable_columns_keeps_its_types(seed: int) -> None:
    pd = pytest.importorskip("pandas")
    nullable = {"int64": pd.Int64Dtype(), "double": pd.Float64Dtype(), "string": pd.StringDtype()}

    def shape(case: workloads.Case) -> Any:
        return engine.to_table(case).to_pandas(types_mapper=lambda type_: nullable[str(type_)])

    check_seed(seed, "auto", shape, **EVERYTHING)


@many(60)
@given(seed=SEEDS)
def test_a_polars_frame_is_read_like_a_table(seed: int) -> None:
    pl = pytest.importorskip("polars")
    frames = [lambda frame: frame, lambda frame: frame.lazy()]
    choose = random.Random(seed).choice(frames)
    check_seed(seed, "auto", lambda case: choose(pl.from_arrow(engine.to_table(case))), **EVERYTHING)
