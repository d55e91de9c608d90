"""Cases for exact arithmetic: the wide fold, then the exact fold that it sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pyarrow as pa

from trendfold.api import parse
from trendfold.bench import recurrences
from trendfold.bench.harness import Case, Promise
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.plan import plan
from trendfold.plan.carried import aggregates
from trendfold.runtime.folding import prepare
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.workspace import Workspace

EVENTS = 1_000_000
WINDOW = 10_000
LINES = {
    "exact COUNT(*)": ("COUNT(*)", 1, (Promise(1e6),)),
    "exact COUNT(*), COUNT(B), SUM(B.v)": ("COUNT(*), COUNT(B), SUM(B.v)", 3, ()),
}
"""RETURN clause, how many columns of the recurrence it has, and the promises."""


def exact_cases(seed: int, scale: float) -> list[Case]:
    """SEQ(A, B+, C) with tumbling windows of 10,000 events: counts of about 3,400 bits."""
    events = max(1, int(EVENTS * scale))
    rng = np.random.default_rng(seed)
    codes, v = rng.integers(0, 3, events, dtype=np.int32), rng.integers(0, 1000, events)
    types = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(["A", "B", "C"]))
    workspace = Workspace(read_batch(pa.table({"type": types, "ts": np.arange(events), "v": v}), Options()))

    @cache
    def whole() -> list[tuple[int, ...]]:
        each = recurrences.whole_numbers(codes, v, *recurrences.windows(events, WINDOW, WINDOW))
        return list(zip(*each, strict=True))

    return [
        Case(
            f"{name}, windows of {WINDOW:,}",
            _fold(workspace, returned),
            events,
            promises=promises,
            answer=lambda found: [column.tolist() for column in found.values()],
            expected=partial(_first, many, whole),
        )
        for name, (returned, many, promises) in LINES.items()
    ]


def _first(many: int, columns: Callable[[], list[tuple[int, ...]]]) -> list[tuple[int, ...]]:
    return columns()[:many]


def _fold(workspace: Workspace, returned: str) -> Callable[[], object]:
    """Time both folds and the conversion to Python integers, without row selection and text output."""
    text = f"RETURN {returned} PATTERN SEQ(A, B+, C) WITHIN {WINDOW} s SLIDE {WINDOW} s"
    query = parse(text).queries[0]
    ready = prepare(plan(query), workspace)

    def run() -> object:
        folded = ready.folded(ready.fold())
        totals = folded.totals()
        return folded.exact(totals, DEFAULTS).values(aggregates(query), np.ones(len(totals), np.bool_))

    return run
