"""The rows of a family of queries as ranges: who is before whom, and how far a window reaches.

Rows are ordered by segment and time, so "after x", "before y" and "in one window with z" are ranges of row
numbers that never leave a segment. Joins compare nothing but row numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import kernel

Rows = NDArray[np.int32]


class Space(NamedTuple):
    """Per row of a family.

    place    int64[n]   where WITHIN measures: the time, or the event's number
    moment   int32[n]   moments are numbered through all segments
    first    int32[n]   the first row of its moment
    after    int32[n]   the first row after its moment
    begin    int32[n]   the first row of its segment
    """

    place: NDArray[np.int64]
    moment: Rows
    first: Rows
    after: Rows
    begin: Rows


class Reach(NamedTuple):
    """Per row the rows that can be in one match with it: [low, high)."""

    low: Rows
    high: Rows


@dataclass(frozen=True)
class Reaches:
    """How far windows of some lengths reach, a row of `low` and `high` each; the length None is no window."""

    lengths: tuple[int | None, ...]
    low: Rows
    high: Rows

    def of(self, length: int | None) -> Reach:
        """The reach of one length."""
        number = self.lengths.index(length)
        return Reach(self.low[number], self.high[number])


def read_space(segment: NDArray[np.int64], place: NDArray[np.int64], moment: Rows) -> Space:
    """The ranges of rows that are ordered by segment and time."""
    count = len(place)
    space = Space(place, moment, *(np.empty(count, np.int32) for _ in range(3)))
    find_moments(segment, moment, space.first, space.after, space.begin)
    return space


def read_reaches(space: Space, segment: NDArray[np.int64], lengths: Iterable[int | None]) -> Reaches:
    """How far windows of some lengths reach from every row."""
    distinct = tuple(dict.fromkeys(lengths))
    low, high = (np.empty((len(distinct), len(space.first)), np.int32) for _ in range(2))
    for number, length in enumerate(distinct):
        find_reach(segment, space.place, -1 if length is None else length, low[number], high[number])
    return Reaches(distinct, low, high)


@kernel
def find_moments(segment, moment, first, after, begin):
    """The bounds of every row's moment and segment."""
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
def find_reach(segment, place, length, low, high):
    """low: the first row of the segment with a place above place - length; high: the first at + length."""
    for s in range(segment.shape[0] - 1):
        start, stop = segment[s], segment[s + 1]
        a, b = start, start
        for i in range(start, stop):
            if length < 0:
                low[i], high[i] = start, stop
                continue
            while place[a] <= place[i] - length:
                a += 1
            while b < stop and place[b] < place[i] + length:
                b += 1
            low[i], high[i] = a, b
