"""Few events per group and window: whole runs in one process, from a table in memory to results."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.api import parse
from trendfold.bench import recurrences
from trendfold.bench.harness import Case, Promise
from trendfold.bench.ways import run
from trendfold.runtime.result import Result

EVENTS, GROUPS = 4_000_000, 1_000
TYPES = "ABC"
NAME = "SEQ(A, B+, C), about {} per group and window"
KLEENE = "A+, about one event per group and window, each a result"
TEXT = "RETURN LOG2(COUNT(*)) PATTERN {} GROUP BY g WITHIN {} ms SLIDE {} ms"


def small_windows(seed: int, scale: float) -> list[Case]:
    """One event per group and window beside a dozen; and one where no window can be left out."""
    rng, events = np.random.default_rng(seed), max(GROUPS, int(EVENTS * scale))
    code, group = rng.integers(0, len(TYPES), events, np.int32), rng.integers(0, GROUPS, events)
    columns = {
        "type": pa.DictionaryArray.from_arrays(pa.array(code), pa.array(list(TYPES))),
        "ts": np.arange(events),
        "g": group,
    }
    table, dozen = pa.table(columns), NAME.format("a dozen events")
    found = []
    for name, each, promises in (
        (dozen, 12, ()),
        (NAME.format("one event"), 1, (Promise(0.5, dozen),)),
    ):
        length = each * GROUPS
        answered = run(table, parse(TEXT.format("SEQ(A, B+, C)", length, length)).queries, "auto")
        expected = partial(_recurrence, code, group, length)
        found.append(Case(name, answered, events, dozen, promises, None, _logarithms, expected))
    answered = run(table, parse(TEXT.format("A+", 3 * GROUPS, 3 * GROUPS)).queries, "auto")
    expected = partial(_sets, code, group, 3 * GROUPS)
    return [*found, Case(KLEENE, answered, events, dozen, (), None, _logarithms, expected)]


def _logarithms(result: Result) -> NDArray[np.float64]:
    return np.asarray(result["q1"].column("log2_count"))


def _recurrence(code: NDArray[np.int32], group: NDArray[np.int64], length: int) -> NDArray[np.float64]:
    """The reference answer: by window, then group, without windows that have no trend."""
    window = np.arange(len(code)) // length * GROUPS + group
    rows, low, high = recurrences.stretches(window)
    found = recurrences.counts(code[rows], low, high)
    return found[np.isfinite(found)]


def _sets(code: NDArray[np.int32], group: NDArray[np.int64], length: int) -> NDArray[np.float64]:
    """Of n events of A there are 2^n - 1 trends."""
    window = np.arange(len(code)) // length * GROUPS + group
    many = np.bincount(window[code == 0])
    return np.asarray(np.log2(2.0 ** many[many > 0] - 1))
