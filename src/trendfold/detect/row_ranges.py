"""Order and windows as ranges of row numbers.

Rows are sorted by segment and time, so "after x", "before y" and "in one window with z" are ranges of row
numbers that never leave a segment. Joins compare row numbers and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import kernel

RowNumbers = NDArray[np.int32]


class RowRanges(NamedTuple):
    """Per row, the bounds of its moment and of its segment.

    stamp    int64[n]   what WITHIN measures: the event's time, or its number
    moment   int32[n]   its moment, numbered through all segments
    first    int32[n]   the first row of its moment
    after    int32[n]   the first row after its moment
    begin    int32[n]   the first row of its segment
    """

    stamp: NDArray[np.int64]
    moment: RowNumbers
    first: RowNumbers
    after: RowNumbers
    begin: RowNumbers


class Reach(NamedTuple):
    """Per row the rows that can be in one match with it: [low, high)."""

    low: RowNumbers
    high: RowNumbers


@dataclass(frozen=True)
class Reaches:
    """The reach of windows of several lengths, one row of `low` and `high` each; None is no window."""

    lengths: tuple[int | None, ...]
    low: RowNumbers
    high: RowNumbers

    def of(self, length: int | None) -> Reach:
        """The reach of one length."""
        number = self.lengths.index(length)
        return Reach(self.low[number], self.high[number])


def read_row_ranges(segment: NDArray[np.int64], stamp: NDArray[np.int64], moment: RowNumbers) -> RowRanges:
    """The ranges of rows that are sorted by segment and time."""
    count = len(stamp)
    ranges = RowRanges(stamp, moment, *(np.empty(count, np.int32) for _ in range(3)))
    find_moments(segment, moment, ranges.first, ranges.after, ranges.begin)
    return ranges


def read_reaches(ranges: RowRanges, segment: NDArray[np.int64], lengths: Iterable[int | None]) -> Reaches:
    """How far windows of these lengths reach from every row."""
    distinct = tuple(dict.fromkeys(lengths))
    low, high = (np.empty((len(distinct), len(ranges.first)), np.int32) for _ in range(2))
    for number, length in enumerate(distinct):
        find_reach(segment, ranges.stamp, -1 if length is None else length, low[number], high[number])
    return Reaches(distinct, low, high)


@kernel
def find_moments(segment, moment, first, after, begin):
    """Write the bounds of every row's moment and segment; see RowRanges.

    segment  int64[s+1]  where segments begin, and where the last one ends
    """
    for s in range(segment.shape[0] - 1):
        i = segment[s]
        while i < segment[s + 1]:
            j = i
            while j < segment[s + 1] and moment[j] == moment[i]:
                j += 1
            for k in range(i, j):
                first[k], after[k], begin[k] = i, j, segment[s]
            i = j


@kernel
def find_reach(segment, stamp, length, low, high):
    """Write per row the first row of its segment with a stamp above its own minus `length`, and the first
    with a stamp of at least its own plus `length`; without a window, a negative length, all of the segment.
    """
    for s in range(segment.shape[0] - 1):
        start, stop = segment[s], segment[s + 1]
        a, b = start, start
        for i in range(start, stop):
            if length < 0:
                low[i], high[i] = start, stop
                continue
            while stamp[a] <= stamp[i] - length:
                a += 1
            while b < stop and stamp[b] < stamp[i] + length:
                b += 1
            low[i], high[i] = a, b
