"""DURATION and LENGTH of trends: each strategy, engine and grain gives the oracle's rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workloads
from contract import engine
from contract.test_continued_lanes import check_cut
from contract.test_machine_lanes import check, random_workload
from contract.test_mixed_lanes import mixed_workload
from contract.test_stretches import LONG
from contract.test_together import SCHEMA
from spark.test_matrices_together import check_matrices
from spark.test_tasks import check as check_route
from stream.test_moving import use_blocks
from stream.test_settling import WINDOWS, seeds
from stream.test_settling import check as check_stream
from trendfold.plan import physical
from trendfold.runtime.folds import by_products
from trendfold.runtime.spark.tasks import Route
from workloads import of_trends

SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(200)
@given(seed=SEEDS)
def test_durations_and_lengths_are_the_oracles(strategy: str, seed: int) -> None:
    engine.check_seed(
        seed, strategy, durations=True, aggregates=seed % 2 == 0, having=seed % 3 == 0, sets=seed % 4 == 0
    )


@pytest.mark.parametrize("strategy", ["auto", "cogra"])
@engine.many(100)
@given(seed=SEEDS)
def test_beside_conditions_on_neighbours(strategy: str, seed: int) -> None:
    engine.check_seed(
        seed, strategy, durations=True, neighbours=True, times=seed % 2 == 0, nots=seed % 3 == 0
    )


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
def test_windows_are_products_of_stretches(long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(physical, "products_ns", lambda overlap, shape: 0.0)
    monkeypatch.setattr(by_products, "long_stretch", lambda shape: long)
    for seed in range(200):
        case = workloads.random_case(random.Random(seed), durations=True, nots=seed % 3 == 0)
        engine.check(case, "auto")


def with_trends(rng: random.Random, texts: list[str]) -> list[str]:
    """The same queries, most of which also return something of whole trends."""

    def more() -> str:
        return ", ".join(dict.fromkeys(["COUNT(*)", *(of_trends(rng) for _ in range(rng.randint(0, 3)))]))

    return [text if "AND(" in text else text.replace("COUNT(*)", more(), 1) for text in texts]


@engine.many(200)
@given(seed=SEEDS)
def test_many_queries_in_one_pass(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    table = pa.Table.from_pylist(events, SCHEMA)
    check(with_trends(rng, texts), events, table, order_column, in_bursts=seed % 3 > 0)


@engine.many(150)
@given(seed=SEEDS)
def test_windows_of_many_queries_share_stretches(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    table = pa.Table.from_pylist(events, SCHEMA)
    window = rng.choice(["WITHIN 8 s SLIDE 4 s", "WITHIN 7 s SLIDE 3 s", "WITHIN 9 s SLIDE 1 s"])
    texts = [f"{text.partition(' WITHIN')[0]} {window}" for text in with_trends(rng, texts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "_shares_panes", lambda _, known, __: known.panes is not None)
        check(texts, events, table, order_column, in_bursts=False)


@engine.many(200)
@given(seed=SEEDS)
def test_folds_go_on_from_saved_vectors(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    check_cut(rng, with_trends(rng, texts), events, order_column)


@pytest.mark.parametrize("route", [Route.STRETCHES, Route.TIME, Route.PARTITION])
@pytest.mark.parametrize("seed", seeds(12, 60))
def test_tasks_of_spark_have_the_local_rows(seed: int, route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    check_route(workloads.random_case(rng, durations=True, nots=seed % 3 == 0), route, rng, monkeypatch)


@pytest.mark.parametrize("route", [Route.STRETCHES, Route.TIME])
@pytest.mark.parametrize("seed", seeds(12, 60))
def test_matrices_of_many_queries_give_the_oracles_rows(
    seed: int, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    check_matrices(rng, with_trends(rng, texts), events, order_column, route, monkeypatch)


@pytest.mark.parametrize("seed", seeds(20, 150))
def test_streams_have_the_oracles_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    check_stream(seed, monkeypatch, with_trends(rng, mixed_workload(rng, 6, WINDOWS)))


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_windows_per_event_on_streams(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    use_blocks(monkeypatch, rng)
    texts = with_trends(rng, mixed_workload(rng, 4, ("WITHIN 3 s", "WITHIN 9 s")))
    check_stream(seed, monkeypatch, texts, most_cuts=30)
