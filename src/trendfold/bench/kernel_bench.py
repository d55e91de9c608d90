"""The speed of the fold: sorted events in memory, one core, against one `numpy.bincount` of their codes.

Answers are compared with recurrences written for this pattern alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trendfold.api import parse
from trendfold.bench import prepare, recurrences
from trendfold.bench.answers import Columns, columns, trends
from trendfold.bench.exact_cases import exact_cases
from trendfold.bench.harness import Case, Promise
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.plan import plan
from trendfold.runtime.folding import ReadyQuery
from trendfold.runtime.folding import prepare as prepare_query
from trendfold.runtime.workspace import Workspace

FLOOR = "numpy.bincount"
EVENTS = 10_000_000
WINDOWS = (10_000, 1_000_000, 10_000_000)
SEMANTICS = ("skip-till-any-match", "skip-till-next-match", "contiguous")
GROUPS = 1_000
FIVE = "COUNT(*), SUM(B.x), MIN(B.x), MAX(B.x), AVG(B.x)"


def cases(seed: int, scale: float) -> list[Case]:
    """SEQ(A, B+, C): counts in windows of all sizes, then other aggregates, overlaps, and groups."""
    events = max(1, int(EVENTS * scale))
    workspace = stream(seed, events)
    codes = workspace.batch.type_code.astype(np.intp)
    floor = Case(FLOOR, partial(np.bincount, codes), events, expected=partial(_counted, codes))
    others = [case for case in [*prepare.cases(seed, scale), *exact_cases(seed, scale)] if case.name != FLOOR]
    return [floor, *_counts(workspace, events, scale), *_shapes(workspace, events), *others]


def _counted(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.array([np.count_nonzero(codes == code) for code in range(codes.max(initial=0) + 1)])


def _shapes(workspace: Workspace, events: int) -> list[Case]:
    """Several aggregates, overlapping windows, and groups as lanes."""
    codes, x, g = workspace.batch.type_code, *(workspace.batch.column(name).values for name in "xg")

    def five() -> list[Columns]:
        return [columns(*recurrences.aggregates(codes, x, *recurrences.windows(events, 10_000, 10_000)).T)]

    def overlapping() -> list[Columns]:
        return [columns(recurrences.counts(codes, *recurrences.windows(events, 30_000, 1_000)))]

    def lanes() -> list[Columns]:
        return [columns(recurrences.lanes(codes, g, *recurrences.windows(events, 100_000, 100_000)))]

    shapes = [
        ("five aggregates, wide numbers", FIVE, "", (10_000, 1), 20e6, five),
        ("30 overlapping windows", "COUNT(*)", "", (30_000, 30), 30e6, overlapping),
        (f"GROUP BY B.g, {GROUPS:,} groups as lanes", "COUNT(*)", "GROUP BY B.g", (100_000, 1), 5e6, lanes),
    ]
    found = []
    for name, returns, clause, within, promised, expected in shapes:
        text = f"RETURN {returns} PATTERN SEQ(A, B+, C) {clause} {_within(*within)}"
        run, promises = fold(workspace, text), (Promise(promised),)
        found.append(Case(name, run, events, FLOOR, promises, answer=trends, expected=expected))
    return found


def _counts(workspace: Workspace, events: int, scale: float) -> list[Case]:
    """COUNT(*) in one partition, in tumbling windows of small size up to all events, for each semantics."""
    found = []
    sizes = [max(1, int(given * scale)) if given > WINDOWS[0] else given for given in WINDOWS]
    for size in dict.fromkeys(sizes):  # with a small scale two of them may be equal
        names = [f"{semantics}, windows of {size:,}" for semantics in SEMANTICS]
        promises = [(Promise(0.12, FLOOR), Promise(40e6)), *[(Promise(0.8, names[0]),)] * 2]
        for name, semantics, promised in zip(names, SEMANTICS, promises, strict=True):
            text = f"RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS {semantics} {_within(size)}"
            run, expected = fold(workspace, text), partial(_expected, workspace, size, semantics)
            found.append(Case(name, run, events, FLOOR, promised, answer=trends, expected=expected))
    return found


def _expected(workspace: Workspace, size: int, semantics: str) -> list[Columns]:
    codes = workspace.batch.type_code
    windows = recurrences.windows(len(codes), size, size)
    return [columns(recurrences.counts(codes, *windows, semantics))]


def _within(size: int, overlap: int = 1) -> str:
    return f"WITHIN {size} s SLIDE {size // overlap} s"


def stream(seed: int, events: int) -> Workspace:
    """Types A, B, C at random, one event per second, already in order."""
    rng = np.random.default_rng(seed)
    codes = pa.array(rng.integers(0, 3, events, dtype=np.int32))
    columns = {
        "type": pa.DictionaryArray.from_arrays(codes, pa.array(["A", "B", "C"])),
        "ts": np.arange(events),
        "x": rng.random(events),
        "g": rng.integers(0, GROUPS, events),
    }
    return Workspace(read_batch(pa.table(columns), Options()))


def fold(workspace: Workspace, text: str, strategy: str = "auto") -> Callable[[], object]:
    """Only the fold: rows are selected, sorted and split into windows beforehand."""
    return ready(workspace, text, strategy).fold


def ready(workspace: Workspace, text: str, strategy: str) -> ReadyQuery:
    """A query prepared up to the fold of its windows."""
    return prepare_query(plan(parse(text).queries[0], strategy), workspace)
