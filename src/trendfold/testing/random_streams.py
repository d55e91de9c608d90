"""Small random streams: with ties, nulls and few distinct values, where mistakes show."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

COLUMNS: Mapping[str, Sequence[Any]] = {"user": ("ann", "bob"), "x": (0, 1, 2, None)}


def random_events(
    seed: int,
    events: int = 10,
    types: Sequence[str] = ("A", "B", "C"),
    columns: Mapping[str, Sequence[Any]] = COLUMNS,
    ties: float = 0.2,
    gap: int = 3,
) -> pa.Table:
    """Events of random types at random whole seconds from 0, in order; the same for the same arguments.

    columns  per attribute the values to draw from, None among them for nulls
    ties     the share of events at the time of the event before
    gap      the longest time between two events, in seconds

    >>> from trendfold.testing import random_events
    >>> random_events(seed=1, events=3).select(["type", "ts", "x"]).to_pylist()
    [{'type': 'B', 'ts': 0, 'x': 0}, {'type': 'C', 'ts': 0, 'x': None}, {'type': 'A', 'ts': 1, 'x': None}]
    """
    draw, now, rows = random.Random(seed), 0, []
    for number in range(events):
        if number and draw.random() >= ties:
            now += draw.randint(1, gap)
        values = {name: draw.choice(list(choices)) for name, choices in columns.items()}
        rows.append({"type": draw.choice(list(types)), "ts": now} | values)
    return pa.table({name: [row[name] for row in rows] for name in ("type", "ts", *columns)})
