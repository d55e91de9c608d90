"""Generated event tables for trying out queries.

>>> from trendfold import datasets
>>> datasets.ridesharing(events=1_000, seed=7).num_rows
1000

Every function takes the same options: `events`, `seed`, `rate` (events per second), `groups`, `burst` (mean
length of a run of one type), `disorder_s`, `ties`, and, for stock, taxi and bus, `types`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

import pyarrow as pa

from trendfold.events import generate

__all__ = ["activity", "bus", "ridesharing", "smart_home", "stock", "taxi"]


class StreamShape(TypedDict, total=False):
    """The options of a stream besides its length and seed; see `generate.StreamSettings`."""

    rate: float | None
    groups: int | None
    burst: float | None
    disorder_s: float
    ties: float
    types: Sequence[str]


def ridesharing(events: int = 10_000, seed: int = 0, **shape: Unpack[StreamShape]) -> pa.Table:
    """Rides from Request through Travel to Dropoff or Cancel, modelled on HAMLET's generated data."""
    return generate.ridesharing(generate.StreamSettings(events=events, seed=seed, **shape))


def stock(events: int = 10_000, seed: int = 0, **shape: Unpack[StreamShape]) -> pa.Table:
    """Trades; the event type is the ticker, or one of `types`."""
    return generate.stock(generate.StreamSettings(events=events, seed=seed, **shape))


def taxi(events: int = 10_000, seed: int = 0, **shape: Unpack[StreamShape]) -> pa.Table:
    """Taxi trips; the event type is the pick-up location."""
    return generate.taxi(generate.StreamSettings(events=events, seed=seed, **shape))


def bus(events: int = 10_000, seed: int = 0, **shape: Unpack[StreamShape]) -> pa.Table:
    """Positions of buses; the event type is the vehicle journey."""
    return generate.bus(generate.StreamSettings(events=events, seed=seed, **shape))


def smart_home(events: int = 10_000, seed: int = 0, **shape: Unpack[StreamShape]) -> pa.Table:
    """Load and Work measurements of plugs in houses."""
    return generate.smart_home(generate.StreamSettings(events=events, seed=seed, **shape))


def activity(events: int = 10_000, seed: int = 0, **shape: Unpack[StreamShape]) -> pa.Table:
    """Activities and heart rates of people."""
    return generate.activity(generate.StreamSettings(events=events, seed=seed, **shape))
