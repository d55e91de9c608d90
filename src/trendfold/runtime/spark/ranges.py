"""Time ranges of the parts of a source: their overlaps, and how to split time into chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Range = tuple[int, int]
"""First and last time of a part, in microseconds."""


def overlaps(ranges: Sequence[Range]) -> NDArray[np.int64]:
    """The disjoint, sorted intervals [from, to] covered by two or more ranges: int64[z,2].

    Two parts that touch at one time overlap there: their events may belong to one moment.
    """
    found: list[list[int]] = []
    latest: int | None = None
    for low, high in sorted(ranges):
        if latest is not None and low <= latest:
            end = min(latest, high)
            if found and low <= found[-1][1]:
                found[-1][1] = max(found[-1][1], end)
            else:
                found.append([low, end])
        latest = high if latest is None else max(latest, high)
    return np.array(found, np.int64).reshape(-1, 2)


EVER = 2**61
"""Beyond all times."""


def alone_between(ranges: NDArray[np.int64], low: int, high: int) -> Range:
    """The times (after, until) between which the part with times [low, high] has the only rows.

    ranges  of all parts, this one's included; without any, nothing is known of the others
    """
    own = np.flatnonzero((ranges[:, 0] <= low) & (ranges[:, 1] >= high))
    if not len(own):
        return EVER, -EVER
    lengths = ranges[own, 1] - ranges[own, 0]
    others = np.delete(ranges, own[lengths.argmin()], axis=0)
    is_before = others[:, 0] <= low
    return int(others[is_before, 1].max(initial=-EVER)), int(others[~is_before, 0].min(initial=EVER))


def overlapping_share(ranges: Sequence[Range], rows: Sequence[int]) -> float:
    """The estimated share of rows in overlaps, assuming each part's rows are evenly spread."""
    shared = overlaps(ranges)
    total = inside = 0.0
    for (low, high), count in zip(ranges, rows, strict=True):
        begins, ends = np.maximum(shared[:, 0], low), np.minimum(shared[:, 1], high)
        covered = float(np.maximum(0, ends - begins + 1).sum())
        total += count
        inside += count * min(1.0, covered / (high - low + 1))
    return inside / total if total else 0.0


def chunk_times(low: int, high: int, chunks: int) -> NDArray[np.int64]:
    """Times that split [low, high] into about equal chunks; each is the start of a chunk."""
    edges = [low + (high - low + 1) * k // chunks for k in range(1, chunks)]
    return np.unique(np.array(edges, np.int64))
