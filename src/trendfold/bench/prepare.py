"""The speed of preparing and folding rows: many interleaved groups, and end to end from an unsorted table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.api import parse
from trendfold.bench import recurrences
from trendfold.bench.answers import Columns, columns, trends
from trendfold.bench.harness import Case, Promise
from trendfold.events.batch import EventBatch, read_batch
from trendfold.events.options import Options
from trendfold.plan import plan
from trendfold.runtime.folding import prepare
from trendfold.runtime.workspace import Workspace

FLOOR = "numpy.bincount"
EVENTS = 10_000_000
GROUPS = ((1_000, 30e6), (100_000, 15e6))
"""Numbers of groups, and the promised events/s."""
UNSORTED = 8e6
WINDOW = 10_000


def cases(seed: int, scale: float) -> list[Case]:
    """COUNT(*) of SEQ(A, B+, C): by group from sorted events, and from an unsorted table."""
    events = max(1, int(EVENTS * scale))
    rng = np.random.default_rng(seed)
    types = _types(rng, events)
    codes = types.indices.to_numpy().astype(np.intp)
    found = [Case(FLOOR, partial(np.bincount, codes), events)]
    for groups, promised in GROUPS:
        g = rng.integers(0, groups, events)
        run = _grouped(read_batch(pa.table({"type": types, "ts": np.arange(events), "g": g}), Options()))
        name, promises = f"{groups:,} groups interleaved, prepared and folded", (Promise(promised),)
        expected = partial(_by_group, codes, g)
        found.append(Case(name, run, events, FLOOR, promises, answer=trends, expected=expected))
    seconds = rng.permutation(events)
    return [*found, _end_to_end(types, seconds, codes)]


def _by_group(codes: NDArray[np.intp], groups: NDArray[np.int64]) -> list[Columns]:
    rows, low, high = recurrences.stretches(groups)
    return [columns(recurrences.counts(codes[rows], low, high))]


def _types(rng: np.random.Generator, events: int) -> pa.DictionaryArray:
    """A, B, C at random."""
    codes = pa.array(rng.integers(0, 3, events, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array(["A", "B", "C"]))


def _grouped(batch: EventBatch) -> Callable[[], object]:
    """From sorted columns in memory to the aggregates of every group."""
    one = plan(parse("RETURN COUNT(*) PATTERN SEQ(A, B+, C) GROUP BY g").queries[0])
    batch.column("g")  # read from Arrow beforehand
    return lambda: prepare(one, Workspace(batch)).fold()


def _end_to_end(types: pa.DictionaryArray, seconds: NDArray[np.int64], codes: NDArray[np.intp]) -> Case:
    """From a table of strings, timestamps and numbers, one event per second, unsorted, to the result."""
    times = pa.array(seconds * 1_000_000).cast(pa.timestamp("us"))
    table = pa.table({"type": types.cast(pa.string()), "ts": times, "x": np.zeros(len(types))})
    workload = parse(
        f"RETURN COUNT(*), LOG2(COUNT(*)) PATTERN SEQ(A, B+, C) WITHIN {WINDOW} s SLIDE {WINDOW} s"
    )

    def expected() -> NDArray[np.float64]:
        ordered = np.empty_like(codes)
        ordered[seconds] = codes
        found = recurrences.counts(ordered, *recurrences.windows(len(codes), WINDOW, WINDOW))
        return found[np.isfinite(found)]

    return Case(
        f"end to end, unsorted, windows of {WINDOW:,}",
        partial(workload.run, table),
        len(table),
        FLOOR,
        (Promise(UNSORTED),),
        answer=lambda result: result["q1"]["log2_count"].to_numpy(),
        expected=expected,
    )
