"""A stream on which all engines' definitions agree: per window and key one A, then all B, then one C."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

KINDS = ("A", "B", "C", "D")
"""No query uses D; it breaks contiguous trends."""
KEYS = 20
WINDOW_S, HALF_S = 20, 10
"""All events of a window are in its first half, so a match of at most that length cannot cross windows."""
STARTS = 100
"""The number of values of x; query i excludes windows whose A has x = i."""


@dataclass(frozen=True)
class AlignedStream:
    """Events in time order, as a table for trendfold and as numbers for the peers."""

    length: int
    """The number of B per window and key."""
    table: pa.Table
    numbers: NDArray[np.int64]
    """Key, time in milliseconds, kind and x of every event."""


def stream(seed: int, events: int, length: int) -> AlignedStream:
    """About `events` events; every fourth window of a key has a D between A and C."""
    rng = np.random.default_rng(seed)
    blocks = max(KEYS, round(events / (length + 2.25)))
    parts = [_block(rng, number, length) for number in range(blocks)]
    rows = np.concatenate(parts)
    rows = rows[np.lexsort((rows[:, 0], rows[:, 1]))]
    kinds = pa.DictionaryArray.from_arrays(pa.array(rows[:, 2].astype(np.int32)), pa.array(KINDS))
    columns = {"g": rows[:, 0], "ts": rows[:, 1], "type": kinds, "x": rows[:, 3]}
    return AlignedStream(length, pa.table(columns), rows)


def known_counts(stream: AlignedStream, semantics: str, queries: int) -> NDArray[np.float64]:
    """Query, window, key and count by construction: all non-empty sets of B under any, else one trend.

    Query i excludes windows whose A has x = i; under contiguous a D in between leaves no trend.
    """
    key, at, kind, x = stream.numbers.T
    window = at // (WINDOW_S * 1_000)
    first = np.flatnonzero(kind == 0)
    if semantics == "contiguous":
        block = window * KEYS + key
        first = first[~np.isin(block[first], block[kind == 3])]
    first = first[np.lexsort((key[first], window[first]))]
    count = 2.0**stream.length - 1 if semantics == "any" else 1.0
    parts = []
    for query in range(queries):
        own = first[x[first] != query]
        rows = np.full(len(own), query), window[own], key[own], np.full(len(own), count)
        parts.append(np.column_stack(rows).astype(np.float64))
    return np.concatenate(parts)


def _block(rng: np.random.Generator, number: int, length: int) -> NDArray[np.int64]:
    """The events of one window of one key."""
    kinds = [0, *[1] * length, 2]
    if rng.random() < 0.25:
        kinds.insert(int(rng.integers(1, len(kinds))), 3)
    window, key = divmod(number, KEYS)
    slots = np.sort(rng.choice(HALF_S * 1_000 - 1, len(kinds), replace=False))
    at = window * WINDOW_S * 1_000 + slots
    return np.column_stack([np.full(len(kinds), key), at, kinds, rng.integers(0, STARTS, len(kinds))])
