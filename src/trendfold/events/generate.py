"""Seeded synthetic streams, modelled on the data the papers evaluate on.

Times are in microseconds although most papers round them to seconds, so only `StreamSettings.ties` decides
whether events share a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from string import ascii_uppercase
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trendfold.errors import InputError

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Array: TypeAlias = "pa.Array[Any]"

ORIGIN_US = 1_704_067_200_000_000
"""2024-01-01 00:00 UTC, a Monday: the start of every stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Parameters of a generated stream; None means the dataset's default."""

    events: int = 10_000
    seed: int = 0
    rate: float | None = None
    """Events per second."""
    groups: int | None = None
    """Distinct values of the attribute that queries group by."""
    burst: float | None = None
    """Mean length of a run of events of one type."""
    disorder_s: float = 0.0
    """How many seconds late a row may be relative to the rows before it."""
    ties: float = 0.0
    """Fraction of events that share the previous event's time."""
    types: Sequence[str] = ()
    """Names of the event types, for datasets that do not fix them: stock, taxi, bus."""

    def __post_init__(self) -> None:
        _require(self.events >= 0, "events", self.events, "0 or more")
        _require(self.seed >= 0, "seed", self.seed, "0 or more")
        _require(self.rate is None or 0 < self.rate < np.inf, "rate", self.rate, "above 0")
        _require(self.groups is None or self.groups >= 1, "groups", self.groups, "1 or more")
        _require(self.burst is None or 1 <= self.burst < np.inf, "burst", self.burst, "1 or more")
        _require(0 <= self.disorder_s < np.inf, "disorder", self.disorder_s, "0 or more seconds")
        _require(0 <= self.ties <= 1, "ties", self.ties, "between 0 and 1")
        _require(len(set(self.types)) == len(self.types), "types", self.types, "names without repetition")


def _require(is_met: bool, option: str, value: object, wanted: str) -> None:
    if not is_met:
        raise InputError(f"option '{option}' is {value!r}; it must be {wanted}")


# ---------------------------------------------------------------- the datasets


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a ride: its event type, and its probability under each of `OUTCOMES`."""

    type: str
    chances: tuple[float, float, float]
    mean: float = 1.0
    """The mean number of events of the step, if it happens."""


RIDE = (
    Stage("Open", (0.5, 0.5, 0.5)),
    Stage("Quote", (0.6, 0.6, 0.6)),
    Stage("Request", (1, 1, 1)),
    Stage("Assign", (0.8, 0.8, 0.8)),
    Stage("Accept", (1, 1, 1)),
    Stage("Message", (0.2, 0.3, 0.2)),
    Stage("Travel", (1, 1, 1), mean=4),
    Stage("Arrive", (0.8, 0.2, 0)),
    Stage("Wait", (0.3, 0.3, 0)),
    Stage("Cancel", (0, 1, 0)),
    Stage("Refund", (0, 0.3, 0)),
    Stage("Expire", (0, 0, 0.5)),
    Stage("Pickup", (1, 0, 0)),
    Stage("Travel", (1, 0, 0), mean=6),
    Stage("Detour", (0.1, 0, 0)),
    Stage("Stop", (0.1, 0, 0)),
    Stage("Dropoff", (1, 0, 0)),
    Stage("Pay", (1, 0, 0)),
    Stage("Tip", (0.3, 0, 0)),
    Stage("Receipt", (0.5, 0, 0)),
    Stage("Rate", (0.4, 0, 0)),
)
"""The steps of a ride in order; 20 event types."""

OUTCOMES = (0.7, 0.2, 0.1)
"""Shares of rides that are completed, cancelled by the rider, or abandoned without a pickup."""

KINDS = ("Pool", "X", "XL", "Comfort", "Black")
DRIVERS = 2_000
RIDERS = 50_000
STEP_S = 5.0
"""Mean time between two events of a ride."""


def ridesharing(options: StreamSettings) -> pa.Table:
    """Interleaved rides of a (driver, rider) from Request through Travel to Dropoff or Cancel.

    20 event types, 10 k events a minute, grouped by district. `burst` reorders events close in
    time so that equal types are adjacent, keeping the order within each ride; runs only get longer.
    Source: HAMLET (SIGMOD 2021), Section 5.1 and Figure 1.
    """
    _refuse_types(options, "ridesharing")
    rng = _random(options, "ridesharing")
    rate, n = options.rate or 10_000 / 60, options.events
    ride, stage = _interleaved_rides(rng, n, rate)
    if options.burst is not None:
        together = _bursts_of_stages(stage, options.burst)
        ride, stage = ride[together], stage[together]
    rides, districts = int(ride.max(initial=0)) + 1, options.groups or 20
    home = rng.integers(districts, size=rides)
    kind = rng.choice(len(KINDS), size=rides, p=(0.4, 0.3, 0.1, 0.1, 0.1))
    has_moved = rng.random(n) < 0.1
    columns = {
        "driver": pa.array(ride % DRIVERS),
        "rider": pa.array(rng.integers(RIDERS, size=rides)[ride]),
        "district": pa.array((home[ride] + has_moved) % districts),
        "kind": _named(KINDS, kind[ride]),
        "speed": _rounded(rng.gamma(2.5, 8.0, size=n), 1),
        "duration": pa.array(rng.integers(5, 300, size=n)),
        "price": _rounded(rng.gamma(4.0, 4.0, size=rides)[ride], 2),
    }
    return _stream(options, rate, _named([step.type for step in RIDE], stage), columns)


def stock(options: StreamSettings) -> pa.Table:
    """Trades of companies; the ticker is the event type, and each price is a random walk.

    220 tickers, 4.5 k events a minute, bursts of 120. `groups` is the number of companies, at least one per
    type: `types=("Stock",)` gives many companies of one type. `open_level` is the open price in steps of 10.
    Source: HAMLET (SIGMOD 2021), Section 5.1; GLORIA, Section 8.1; COGRA (SIGMOD 2019), query q3.
    """
    rng, n = _random(options, "stock"), options.events
    tickers = options.types or _tickers(220)
    code = _bursts(rng, n, len(tickers), options.burst or 120)
    per_ticker = -(-(options.groups or 220) // len(tickers))
    company = code + len(tickers) * rng.integers(per_ticker, size=n)
    start = rng.lognormal(np.log(50), 0.8, size=len(tickers) * per_ticker)
    step = rng.normal(0, 0.002, size=n)
    close = start[company] * np.exp(_sum_so_far(step, company))
    opened = close * np.exp(-step)
    spread = np.exp(rng.exponential(0.0005, size=(2, n)))
    columns = {
        "company": pa.array(company),
        "sector": pa.array(company % 11),
        "transaction": pa.array(np.arange(n)),
        "price": _rounded(close, 4),
        "open": _rounded(opened, 4),
        "close": _rounded(close, 4),
        "high": _rounded(np.maximum(opened, close) * spread[0], 4),
        "low": _rounded(np.minimum(opened, close) / spread[1], 4),
        "open_level": pa.array((opened // 10).astype(np.int64)),
        "vol": pa.array(rng.lognormal(np.log(100), 1.0, size=n).astype(np.int64)),
    }
    return _stream(options, options.rate or 4_500 / 60, _named(tickers, code), columns)


def taxi(options: StreamSettings) -> pa.Table:
    """Taxi trips; the pick-up location is the event type.

    217 locations, 200 events a minute, grouped by driver.
    Source: HAMLET (SIGMOD 2021), Section 5.1; GLORIA, Section 8.1; COGRA (SIGMOD 2019), Section 8.1.
    """
    rng, n = _random(options, "taxi"), options.events
    places = options.types or [f"L{i:03}" for i in range(1, 218)]
    code = _bursts(rng, n, len(places), options.burst or 1)
    driver = rng.integers(options.groups or 1_000, size=n)
    distance = rng.gamma(1.5, 2.0, size=n)
    speed = rng.gamma(4.0, 3.0, size=n) + 1
    columns = {
        "driver": pa.array(driver),
        "rider": pa.array(rng.integers(RIDERS, size=n)),
        "vendor": pa.array(driver % 3),
        "pickup": pa.array(code),
        "dropoff": pa.array(rng.integers(len(places), size=n)),
        "passengers": pa.array(rng.integers(1, 7, size=n)),
        "distance": _rounded(distance, 2),
        "speed": _rounded(speed, 1),
        "duration": pa.array((distance / speed * 3600).astype(np.int64)),
        "price": _rounded(3 + 2.5 * distance + rng.exponential(2.0, size=n), 2),
    }
    return _stream(options, options.rate or 200 / 60, _named(places, code), columns)


def bus(options: StreamSettings) -> pa.Table:
    """Positions of buses; the vehicle journey is the event type.

    4,368 journeys on 120 lines (`groups`). The rate is not published; it is that of a thousand buses
    reporting every 20 s.
    Source: GLORIA, Section 8.1.
    """
    rng, n = _random(options, "bus"), options.events
    journeys = options.types or [f"J{i:04}" for i in range(1, 4_369)]
    code = _bursts(rng, n, len(journeys), options.burst or 1)
    centre = rng.normal((53.35, -6.26), (0.05, 0.08), size=(len(journeys), 2))
    position = centre[code] + rng.normal(0, 0.005, size=(n, 2))
    columns = {
        "line": pa.array(code % (options.groups or 120)),
        "journey": pa.array(code),
        "congestion": pa.array(rng.random(n) < 0.1),
        "lat": _rounded(position[:, 0], 6),
        "lon": _rounded(position[:, 1], 6),
        "delay": pa.array(rng.normal(60, 180, size=n).astype(np.int64)),
    }
    return _stream(options, options.rate or 50.0, _named(journeys, code), columns)


PLUGS_PER_HOUSE = 53
MEASUREMENTS = ("Load", "Work")


def smart_home(options: StreamSettings) -> pa.Table:
    """Measurements of smart plugs in houses: current load (W), or cumulative work (kWh).

    40 houses (`groups`) of 53 plugs, 20 k events a minute.
    Source: HAMLET (SIGMOD 2021), Section 5.1, after the DEBS 2014 challenge.
    """
    _refuse_types(options, "smart-home")
    rng, n = _random(options, "smart-home"), options.events
    code = _bursts(rng, n, len(MEASUREMENTS), options.burst or 2)
    house = rng.integers(options.groups or 40, size=n)
    plug = rng.integers(PLUGS_PER_HOUSE, size=n)
    load = rng.gamma(0.8, 80.0, size=n)
    work = _sum_so_far(load / 3_600_000, house * PLUGS_PER_HOUSE + plug)
    columns = {
        "house": pa.array(house),
        "household": pa.array(plug % 4),
        "plug": pa.array(plug),
        "value": _rounded(np.where(code == 0, load, work), 6),
        "voltage": _rounded(rng.normal(230, 3, size=n), 1),
    }
    return _stream(options, options.rate or 20_000 / 60, _named(MEASUREMENTS, code), columns)


PASSIVE = ("lying", "sitting", "standing", "watching TV", "computer work", "car driving", "ironing")
ACTIVE = (
    *("walking", "running", "cycling", "Nordic walking", "ascending stairs", "descending stairs"),
    *("vacuum cleaning", "folding laundry", "house cleaning", "playing soccer", "rope jumping"),
)


def activity(options: StreamSettings) -> pa.Table:
    """Reports of people's activity and heart rate; the only event type is Activity.

    14 people (`groups`), 18 activities, `kind` passive or active; nine reports a second from each person.
    With only one type, `burst` is the mean number of a person's reports before the activity changes.
    Source: COGRA (SIGMOD 2019), Section 8.1 and query q4.
    """
    _refuse_types(options, "activity")
    rng, n = _random(options, "activity"), options.events
    people = options.groups or 14
    patient = rng.integers(people, size=n)
    by_patient = np.argsort(patient, kind="stable")
    code = np.empty(n, dtype=np.int64)
    code[by_patient] = _bursts(rng, n, len(PASSIVE) + len(ACTIVE), options.burst or 100)
    is_active = code >= len(PASSIVE)
    heart = np.where(is_active, rng.normal(115, 20, size=n), rng.normal(70, 12, size=n))
    columns = {
        "patient": pa.array(patient),
        "activity": _named((*PASSIVE, *ACTIVE), code),
        "kind": _named(("passive", "active"), is_active.astype(np.int64)),
        "rate": pa.array(np.clip(heart, 35, 210).astype(np.int64)),
    }
    return _stream(options, options.rate or 9.0 * people, pa.repeat("Activity", n), columns)


DATASETS: dict[str, Callable[[StreamSettings], pa.Table]] = {
    "ridesharing": ridesharing,
    "stock": stock,
    "taxi": taxi,
    "bus": bus,
    "smart-home": smart_home,
    "activity": activity,
}


# ---------------------------------------------------------------- rides


def _interleaved_rides(rng: np.random.Generator, n: int, rate: float) -> tuple[Ints, Ints]:
    """The ride and the stage of each of `n` events, in time order."""
    chances = np.array([stage.chances for stage in RIDE])
    means = np.array([stage.mean for stage in RIDE])
    events_per_ride = float((chances * means[:, None] @ np.array(OUTCOMES)).sum())
    # More rides than needed: the last ones are cut off at the end of the stream.
    rides = int(1.3 * n / events_per_ride) + 50
    outcome = rng.choice(len(OUTCOMES), size=rides, p=OUTCOMES)
    happens = rng.random((rides, len(RIDE))) < chances.T[outcome]
    counts = (happens * rng.geometric(1 / means, size=(rides, len(RIDE)))).ravel()
    stage = np.repeat(np.tile(np.arange(len(RIDE)), rides), counts)
    ride = np.repeat(np.repeat(np.arange(rides), len(RIDE)), counts)
    # A short stream has shorter steps, so that it contains complete rides too.
    step_s = min(STEP_S, 0.1 * n / rate / events_per_ride)
    started = np.sort(rng.random(rides)) * rides * events_per_ride / rate
    time = started[ride] + _sum_so_far(rng.exponential(step_s, size=len(ride)), ride)
    in_time = np.argsort(time, kind="stable")[:n]
    return ride[in_time], stage[in_time]


def _bursts_of_stages(stage: Ints, burst: float) -> Ints:
    """A row order in which runs of one type have about `burst` events and every ride stays in order.

    Rows are cut into blocks, each sorted by stage; stages never decrease within a ride.
    """
    shares = np.bincount(stage, minlength=len(RIDE)) / max(len(stage), 1)
    block = _block_size(shares, burst, len(stage))
    return np.lexsort((stage, np.arange(len(stage)) // block))


def _block_size(shares: Floats, burst: float, largest: int) -> int:
    """The smallest block whose number of events per distinct stage is `burst` in expectation."""
    low, high = 1, max(largest, 1)
    while low < high:
        middle = (low + high) // 2
        distinct = (1 - (1 - shares) ** middle).sum()
        low, high = (low, middle) if middle >= burst * distinct else (middle + 1, high)
    return low


# ---------------------------------------------------------------- parts of every stream


def _random(options: StreamSettings, purpose: str) -> np.random.Generator:
    """An independent random stream per purpose: adding disorder, say, does not change the events."""
    return np.random.default_rng([options.seed, *purpose.encode()])


def _refuse_types(options: StreamSettings, dataset: str) -> None:
    if options.types:
        raise InputError(f"option 'types' is not for {dataset!r}, whose event types are fixed; leave it out")


def _stream(options: StreamSettings, rate: float, types: Array, columns: Mapping[str, Array]) -> pa.Table:
    """The events with their times, in arrival order."""
    since_start = _times_us(options, rate)
    ts = pa.array(ORIGIN_US + since_start).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table({"type": types, "ts": ts, **columns})
    if not options.disorder_s:
        return table
    late = _random(options, "disorder").random(options.events) * options.disorder_s * 1e6
    return table.take(np.argsort(since_start + late, kind="stable"))


def _times_us(options: StreamSettings, rate: float) -> Ints:
    """Increasing times with exponential gaps of at least a microsecond, and no gap before a tie."""
    rng = _random(options, "times")
    is_tied = rng.random(options.events) < options.ties
    is_tied[:1] = True
    mean_us = 1e6 / rate / max(1 - options.ties, 1e-9)
    gaps = np.maximum(1, np.rint(rng.exponential(mean_us, size=options.events))).astype(np.int64)
    return np.cumsum(np.where(is_tied, 0, gaps))


def _bursts(rng: np.random.Generator, n: int, kinds: int, burst: float) -> Ints:
    """Codes below `kinds` in runs of geometric length with mean `burst`; neighbouring runs differ."""
    is_start = rng.random(n) < 1 / burst
    is_start[:1] = True
    run: Ints = np.cumsum(is_start) - 1
    steps = rng.integers(1, kinds, size=n) if kinds > 1 else np.zeros(n, dtype=np.int64)
    codes: Ints = np.cumsum(steps) % kinds
    return codes.take(run)


def _sum_so_far(values: Floats, key: Ints) -> Floats:
    """Running sum of `values` per key, the row itself included."""
    order = np.argsort(key, kind="stable")
    total = np.cumsum(values[order])
    is_first = np.diff(key[order], prepend=-1) != 0
    before = (total - values[order])[is_first]
    sums = np.empty(len(values))
    sums[order] = total - before[np.cumsum(is_first) - 1]
    return sums


def _named(names: Sequence[str], codes: Ints) -> Array:
    return pa.array(names, type=pa.string()).take(codes)


def _rounded(values: Floats, digits: int) -> Array:
    return pa.array(np.round(values, digits))


def _tickers(count: int) -> list[str]:
    """AAA, AAB, AAC, ..."""
    return ["".join(letters) for letters in islice(product(ascii_uppercase, repeat=3), count)]
