"""Find deeply nested JSON by scanning bytes: recursive JSON readers would overflow the stack on it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MOST_NESTED = 200
"""The most nested objects and arrays allowed in one line of JSON."""

Bytes = NDArray[np.uint8]

_BLOCK = 4 << 20
"""Bytes scanned at a time."""
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


# ---------------------------------------------------------------- candidates


def _crowded(data: Bytes) -> Iterator[tuple[int, int]]:
    """Stretches of whole lines with more than MOST_NESTED brackets, counting those inside strings.

    Arrow continues a value across line ends, except where one line ends with a closing brace and the next
    starts with an opening one: no value continues like that, and no string spans lines.
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
    """Which brackets start a line whose previous line ends with a closing brace."""
    before, is_first = opens - 1, np.zeros(len(opens), np.bool_)
    left = np.flatnonzero(before >= 0)
    while len(left):
        left = left[data[before[left]] <= _BLANK]
        is_first[left] |= data[before[left]] == _NEWLINE
        before[left] -= 1
        left = left[before[left] >= 0]
    found: NDArray[np.bool_] = is_first & (before >= 0) & (data[before] == _CLOSE)
    return found


# ---------------------------------------------------------------- exact nesting


def _deepest(data: Bytes, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each line, whether more than MOST_NESTED levels are open; ignores brackets in strings."""
    found, level = [], 0
    cuts = np.flatnonzero(np.diff(starts // _BLOCK, prepend=-1, append=-1))
    for low, high in pairwise(cuts.tolist()):
        begin, end = int(starts[low]), int(starts[high]) if high < len(starts) else len(data)
        deep, level = _deep(data[begin:end], starts[low:high] - begin, level)
        found.append(deep)
    return np.concatenate(found)


def _deep(data: Bytes, starts: NDArray[np.int64], level: int) -> tuple[NDArray[np.bool_], int]:
    """The same for some lines, starting with `level` open levels; also returns the level at the end."""
    # Blank out escaped characters: they are neither brackets nor quotes.
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
