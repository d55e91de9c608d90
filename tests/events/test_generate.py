from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from trendfold import datasets
from trendfold.errors import InputError
from trendfold.events.generate import DATASETS, RIDE, StreamSettings

NAMES = list(DATASETS)
BURSTY = [name for name in NAMES if name != "activity"]
US_PER_S = 1_000_000


def make(name: str, **options: Any) -> pa.Table:
    return DATASETS[name](StreamSettings(**{"events": 20_000, "seed": 1, **options}))


def times_us(table: pa.Table) -> npt.NDArray[np.int64]:
    return table["ts"].cast(pa.int64()).to_numpy()


def codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return column.combine_chunks().dictionary_encode().indices.to_numpy()


def mean_run(values: npt.NDArray[np.int64]) -> float:
    return len(values) / (1 + np.count_nonzero(np.diff(values)))


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_one_stream(name: str) -> None:
    assert make(name, disorder_s=1, ties=0.1).equals(make(name, disorder_s=1, ties=0.1))


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_another_stream(name: str) -> None:
    first, second = make(name), make(name, seed=2)
    assert all(not first[column].equals(second[column]) for column in ("ts", first.column_names[2]))


@pytest.mark.parametrize("events", [0, 1, 2, 101, 5_000])
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_has_as_many_events_as_asked_for(name: str, events: int) -> None:
    table = make(name, events=events, ties=0.5, disorder_s=3, burst=7)
    assert table.num_rows == events
    assert table.schema.field("type").type == pa.string()
    assert table.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert all(column.null_count == 0 for column in table.columns)


@pytest.mark.parametrize("name", NAMES)
def test_times_rise_strictly_when_neither_ties_nor_disorder_is_asked_for(name: str) -> None:
    assert np.diff(times_us(make(name))).min() > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_rate_is_kept_with_ties_and_without(name: str) -> None:
    for ties in (0.0, 0.5):
        seconds = np.ptp(times_us(make(name, rate=40, ties=ties))) / US_PER_S
        assert 20_000 / seconds == pytest.approx(40, rel=0.05)


@pytest.mark.parametrize("ties", [0.1, 0.6, 1.0])
@pytest.mark.parametrize("name", NAMES)
def test_ties_are_the_fraction_of_events_at_the_time_of_the_one_before(name: str, ties: float) -> None:
    assert np.mean(np.diff(times_us(make(name, ties=ties))) == 0) == pytest.approx(ties, abs=0.02)


@pytest.mark.parametrize("burst", [5, 60])
@pytest.mark.parametrize("name", BURSTY)
def test_bursts_have_the_asked_mean_length(name: str, burst: float) -> None:
    assert mean_run(codes(make(name, burst=burst)["type"])) == pytest.approx(burst, rel=0.15)


def test_a_person_keeps_an_activity_for_the_burst_length() -> None:
    table = make("activity", burst=30)
    by_patient = np.argsort(table["patient"].to_numpy(), kind="stable")
    assert mean_run(codes(table["activity"])[by_patient]) == pytest.approx(30, rel=0.15)


@pytest.mark.parametrize("name", NAMES)
def test_disorder_displaces_events_up_to_its_bound(name: str) -> None:
    us = times_us(make(name, rate=100, disorder_s=2))
    lateness = np.maximum.accumulate(us) - us
    assert US_PER_S < lateness.max() <= 2 * US_PER_S


@pytest.mark.parametrize("name", NAMES)
def test_disorder_moves_rows_and_changes_none(name: str) -> None:
    assert make(name, disorder_s=2).sort_by("ts").equals(make(name))


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("ridesharing", "district"),
        ("stock", "company"),
        ("taxi", "driver"),
        ("bus", "line"),
        ("smart-home", "house"),
        ("activity", "patient"),
    ],
)
def test_groups_are_the_values_of_the_grouping_attribute(name: str, column: str) -> None:
    shape = {"types": ("A", "B")} if name == "stock" else {}
    assert len(make(name, groups=6, **shape)[column].unique()) == 6


def test_stock_takes_the_tickers_of_a_workload() -> None:
    table = make("stock", types=("ROKU", "QQQ", "AMD"), burst=2)
    assert set(table["type"].to_pylist()) == {"ROKU", "QQQ", "AMD"}
    assert {"open", "open_level", "vol", "price", "company", "sector"} <= set(table.column_names)


def test_a_stock_opens_where_it_closed_before() -> None:
    table = make("stock", types=("Stock",), groups=3)
    one = table.filter(pc.field("company") == 1)
    np.testing.assert_allclose(one["open"].to_numpy()[1:], one["close"].to_numpy()[:-1], atol=2e-4)


def test_a_ride_goes_through_its_stages_in_order() -> None:
    table = make("ridesharing", burst=50)
    order = {step.type: rank for rank, step in enumerate(RIDE)}
    rides: dict[tuple[int, int], list[str]] = {}
    for driver, rider, kind in zip(
        *(table[column].to_pylist() for column in ("driver", "rider", "type")), strict=True
    ):
        rides.setdefault((driver, rider), []).append(kind)
    for ride in rides.values():
        ranks = [order[kind] for kind in ride if kind != "Travel"]
        assert ranks == sorted(ranks)
        assert "Travel" not in ride or ride.index("Travel") > ride.index("Request")
    endings = [{"Dropoff", "Cancel"} & set(ride) for ride in rides.values()]
    assert {"Dropoff"} in endings
    assert {"Cancel"} in endings
    assert {"Dropoff", "Cancel"} not in endings


def test_the_queries_of_hamlet_figure_1_find_their_types_and_attributes() -> None:
    table = make("ridesharing")
    assert {"Request", "Travel", "Pickup", "Dropoff", "Cancel"} <= set(table["type"].to_pylist())
    assert {"driver", "rider", "district", "duration", "speed", "kind"} <= set(table.column_names)
    assert table.filter((pc.field("type") == "Request") & (pc.field("kind") == "Pool")).num_rows > 0
    assert table.filter((pc.field("type") == "Travel") & (pc.field("speed") < 10)).num_rows > 0


def test_ridesharing_has_twenty_types() -> None:
    assert len(make("ridesharing")["type"].unique()) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"events": -1},
        {"seed": -1},
        {"rate": 0},
        {"groups": 0},
        {"burst": 0.5},
        {"ties": 1.5},
        {"disorder_s": -1},
        {"disorder_s": float("nan")},
        {"types": ("A", "A")},
    ],
    ids=str,
)
def test_a_wrong_option_is_named(wrong: dict[str, Any]) -> None:
    (option,) = wrong
    with pytest.raises(InputError, match=f"option '{option.removesuffix('_s')}' is "):
        StreamSettings(**wrong)


@pytest.mark.parametrize("name", ["ridesharing", "smart-home", "activity"])
def test_fixed_types_cannot_be_named(name: str) -> None:
    with pytest.raises(InputError, match=name):
        make(name, types=("A",))


@pytest.mark.parametrize("name", NAMES)
def test_the_public_functions_give_the_same_tables(name: str) -> None:
    public = getattr(datasets, name.replace("-", "_"))
    assert public(events=500, seed=3, ties=0.2).equals(make(name, events=500, seed=3, ties=0.2))
