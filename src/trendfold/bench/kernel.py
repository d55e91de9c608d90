"""How fast the fold is: events in memory and sorted, one core, against one `numpy.bincount` of their codes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from trendfold.api import parse
from trendfold.bench.harness import Case, Promise
from trendfold.events.batch import Options, read_batch
from trendfold.plan import plan
from trendfold.runtime.local import prepare
from trendfold.runtime.rows import Workspace

FLOOR = "numpy.bincount"
EVENTS = 10_000_000
WINDOWS = (10_000, 1_000_000, 10_000_000)
SEMANTICS = ("skip-till-any-match", "skip-till-next-match", "contiguous")


def cases(seed: int, scale: float) -> list[Case]:
    """COUNT(*) of SEQ(A, B+, C), one partition, tumbling windows from small to all events."""
    events = max(1, int(EVENTS * scale))
    workspace = _stream(seed, events)
    codes = workspace.batch.type_code
    found = [Case(FLOOR, partial(np.bincount, codes), events)]
    for size in WINDOWS:
        size = max(1, int(size * scale)) if size > WINDOWS[0] else size
        names = [f"{semantics}, windows of {size:,}" for semantics in SEMANTICS]
        promises = [(Promise(0.12, FLOOR), Promise(40e6)), *[(Promise(0.8, names[0]),)] * 2]
        for name, semantics, promised in zip(names, SEMANTICS, promises, strict=True):
            found.append(Case(name, _fold(workspace, semantics, size), events, FLOOR, promised))
    return found


def _stream(seed: int, events: int) -> Workspace:
    """Types A, B, C at random, one event per second, already in order."""
    rng = np.random.default_rng(seed)
    codes = pa.array(rng.integers(0, 3, events, dtype=np.int32))
    types = pa.DictionaryArray.from_arrays(codes, pa.array(["A", "B", "C"]))
    table = pa.table({"type": types, "ts": np.arange(events)})
    return Workspace(read_batch(table, Options()))


def _fold(workspace: Workspace, semantics: str, size: int) -> Callable[[], object]:
    """Only the fold: rows are selected, sorted and cut into windows beforehand."""
    text = f"""RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS {semantics}
               WITHIN {size} s SLIDE {size} s"""
    return prepare(plan(parse(text).queries[0]), workspace, origin=0).fold
