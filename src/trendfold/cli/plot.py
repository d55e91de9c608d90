"""Counts over time as one line on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_LARGEST = 1e308
"""Counts may be infinite as doubles; bar heights may not."""

Bars = Sequence[tuple[datetime, float]]
"""Window starts, and the counts over all groups."""


def counts(table: pa.Table) -> Bars:
    """Trends per window, over all groups."""
    totals: dict[datetime, float] = {}
    columns = (table.column(name).to_pylist() for name in ("window_start", "count"))
    for start, count in zip(*columns, strict=True):
        totals[start] = totals.get(start, 0.0) + count
    return [(start, min(totals[start], _LARGEST)) for start in sorted(totals)]


def sparkline(bars: Bars, width: int = 60) -> str:
    """One line of block characters, logarithmic; with many windows, the maximum of neighbours."""
    if not bars:
        return "(no rows)"
    per_block = -(-len(bars) // width)
    tall = [math.log10(count + 1) for _, count in bars]
    tops = [max(tall[i : i + per_block]) for i in range(0, len(tall), per_block)]
    highest = max(tops) or 1.0
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(top / highest * 8))] for top in tops)
