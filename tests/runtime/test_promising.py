"""Windows that cannot hold a trend are left out before they are folded, and still counted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trendfold
from trendfold.automaton.machine import Symbol
from trendfold.errors import LimitError
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.plan.workload import plan_all
from trendfold.runtime.promising import cut_promising
from trendfold.runtime.query_rows import Rows, read_rows
from trendfold.runtime.request import Request
from trendfold.runtime.windows import Asked, Items, cut
from trendfold.runtime.workspace import Workspace

PATTERNS = (
    "SEQ(A, B+, C)",
    "A+",
    "OR(SEQ(A, B), SEQ(A, C))",
    "SEQ(A, B, A)",
    "SEQ(A, NOT B, C)",
    "AND(SEQ(A, B), C)",
    "SEQ(A, B?, C*)",
)
WINDOWS = (
    "WITHIN 3 s SLIDE 3 s",
    "WITHIN 2 s SLIDE 5 s",
    "WITHIN 1 s SLIDE 1 s",
    "WITHIN 6 s SLIDE 2 s",
    "WITHIN 5 s SLIDE 3 s",
    "WITHIN 4 s",
    "WITHIN 3 events SLIDE 2 events",
    "",
)


def _events(rng: random.Random, far: int) -> pa.Table:
    times = sorted(rng.randint(-far, far) for _ in range(rng.randint(1, 40)))
    count = len(times)
    return pa.table(
        {
            "type": [rng.choice("ABCD") for _ in times],
            "ts": pa.array(times, pa.int64()),
            "n": list(range(count)),
            "g": [rng.randint(0, 2) for _ in times],
            "x": [rng.randint(0, 3) for _ in times],
        }
    )


def _may_hold(rows: Rows, items: Items, k: int, automata: list[Any]) -> bool:
    for symbols, alphabet, automaton in zip(rows.symbols, rows.alphabets, automata, strict=True):
        inside = symbols[items.low[k] : items.high[k]]
        taken: Symbol = frozenset().union(*(alphabet[s] for s in inside))
        if len(inside) < automaton.fewest or not automaton.needed <= taken:
            return False
    return True


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("window", WINDOWS)
def test_the_items_are_those_that_have_what_every_trend_needs(pattern: str, window: str) -> None:
    for seed in range(12):
        rng = random.Random(f"{pattern} {window} {seed}")
        table = _events(rng, rng.choice([8, 30, 10**9]))
        where = rng.choice(["", "WHERE A.x > 1"])
        text = f"RETURN COUNT(*) PATTERN {pattern} {where} GROUP BY g {window}"
        (plan,) = plan_all(trendfold.parse(text).queries)
        workspace = Workspace(read_batch(table, Options(order_column="n")))
        rows = read_rows(plan, workspace)
        asked = rng.choice([None, Asked(-3_000_000, 9_000_000, -5_000_000)])
        request = Request(origin=rng.choice([0, 1_000_000, -7]), asked=asked)
        everything = cut(plan, rows, rows.time, request.origin, asked=asked)
        found, windows = cut_promising(plan, rows, request)
        automata = [operand.machine.automaton for operand in plan.operands]
        kept = [k for k in range(len(everything.low)) if _may_hold(rows, everything, k, automata)]
        names = ("segment", "index", "low", "high")
        wanted = [vars(everything)[name][kept].tolist() for name in names]
        length = (everything.high - everything.low).sum()
        if [vars(found)[name].tolist() for name in names] != wanted:
            # Only windows too large to be worth looking through may be kept without need.
            assert length > 16 * automata[0].fewest * len(everything.low)
            assert len(found.low) == len(everything.low)
        assert sorted(windows.tolist()) == np.unique(everything.index).tolist()


def test_windows_left_out_count_in_the_summary_and_towards_the_limit() -> None:
    events = pa.table({"type": list("ABBA"), "ts": [0, 10, 20, 30]})
    workload = trendfold.parse("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 s SLIDE 5 s")
    result = workload.run(events)
    assert (result.summary.windows, result["q1"].num_rows) == (4, 0)
    with pytest.raises(LimitError, match="windows=3"):
        workload.run(events, limits={"windows": 3})
