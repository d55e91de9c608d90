"""JSON that nests very deep, found by its bytes alone: readers recurse, and it would end the process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MOST_NESTED = 200
"""Levels of objects and arrays in one line of JSON."""

Bytes = NDArray[np.uint8]

_BLOCK = 4 << 20
"""Bytes that are looked at together."""
_NEWLINE, _QUOTE, _BLANK = b'\n" '
_OPEN, _CLOSE = b"{}"
_CASE = 0x20
"""The bit in which [ and {, and ] and }, differ."""


def deep_lines(data: Bytes) -> list[tuple[int, int, int]]:
    """Lines with more than MOST_NESTED open levels: number from 1, first byte, byte after the last."""
    found: list[tuple[int, int, int]] = []
    number, counted = 1, 0
    for begin, end in _crowded(data):
        number, counted = number + _newlines(data[counted:begin]), begin
        starts = np.append(0, 1 + np.flatnonzero(data[begin : end - 1] == _NEWLINE))
        stops = np.append(starts[1:] - 1, end - begin - (data[end - 1] == _NEWLINE))
        for n in np.flatnonzero(_deepest(data[begin:end], starts)).tolist():
            found.append((number + n, begin + int(starts[n]), begin + int(stops[n])))
    return found


def _newlines(data: Bytes) -> int:
    return sum(int((data[at : at + _BLOCK] == _NEWLINE).sum()) for at in range(0, len(data), _BLOCK))


# ---------------------------------------------------------------- where it may be


def _crowded(data: Bytes) -> Iterator[tuple[int, int]]:
    """Stretches of whole lines with more brackets than MOST_NESTED, those in strings too.

    Arrow reads a value on over the ends of lines. Not where a brace closes before the end and one opens after
    it: after a closing brace no value goes on like that, and no string has two lines.
    """
    begin, count = 0, 0
    for at in range(0, len(data), _BLOCK):
        opens = at + np.flatnonzero((data[at : at + _BLOCK] | _CASE) == _OPEN)
        firsts = np.flatnonzero(_begins_line(data, opens))
        lengths = np.diff(np.concatenate([[-count], firsts, [len(opens)]]))
        for k in np.flatnonzero(lengths[:-1] > MOST_NESTED).tolist():
            yield begin if k == 0 else int(opens[firsts[k - 1]]), int(opens[firsts[k]])
        if len(firsts):
            begin = int(opens[firsts[-1]])
        count = int(lengths[-1])
    if count > MOST_NESTED:
        yield begin, len(data)


def _begins_line(data: Bytes, opens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which brackets are the first of a line, the line before ending with a brace."""
    before, is_first = opens - 1, np.zeros(len(opens), np.bool_)
    left = np.flatnonzero(before >= 0)
    while len(left):
        left = left[data[before[left]] <= _BLANK]
        is_first[left] |= data[before[left]] == _NEWLINE
        before[left] -= 1
        left = left[before[left] >= 0]
    found: NDArray[np.bool_] = is_first & (before >= 0) & (data[before] == _CLOSE)
    return found


# ---------------------------------------------------------------- a close look


def _deepest(data: Bytes, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Line by line whether more than MOST_NESTED levels are open in it; brackets in strings do not count."""
    found, level = [], 0
    cuts = np.flatnonzero(np.diff(starts // _BLOCK, prepend=-1, append=-1))
    for low, high in pairwise(cuts.tolist()):
        begin, end = int(starts[low]), int(starts[high]) if high < len(starts) else len(data)
        deep, level = _deep(data[begin:end], starts[low:high] - begin, level)
        found.append(deep)
    return np.concatenate(found)


def _deep(data: Bytes, starts: NDArray[np.int64], level: int) -> tuple[NDArray[np.bool_], int]:
    """The same for some lines, before which `level` levels are open; and how many are open after them."""
    # A backslash and what it escapes are no brackets and no quotes.
    text = data.tobytes().replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    plain = np.frombuffer(text, np.uint8)
    quotes = np.cumsum(plain == _QUOTE)
    at_start = np.append(0, quotes)[starts]
    line = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(plain))))
    outside = (quotes - at_start[line]) % 2 == 0
    folded = plain | _CASE
    steps = (outside & (folded == _OPEN)).astype(np.int64) - (outside & (folded == _CLOSE))
    levels = level + np.cumsum(steps)
    levels -= np.minimum(np.minimum.accumulate(levels), 0)
    deep = np.zeros(len(starts), np.bool_)
    deep[line[levels > MOST_NESTED]] = True
    return deep, int(levels[-1]) if len(levels) else level
