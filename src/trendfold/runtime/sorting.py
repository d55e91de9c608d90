"""Sort and number integer columns in time linear in their length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel import rows as kernels

_ASKED = 1_000


def row_numbers(count: int) -> NDArray[Any]:
    """0, 1, 2, ...; 32-bit if that is enough."""
    numbers = empty(count, np.int32 if count < 2**31 else np.int64)
    kernels.count_up(numbers)
    return numbers


def sort_with_rows(values: NDArray[np.int64], row: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Sort values and reorder `row` along with them (in place); stable."""
    if not len(values):
        return values, row
    low, high = int(values.min()), int(values.max())
    start, step = np.uint64(low % 2**64), _step(values, low)
    key = empty(len(values), np.uint64)
    if not kernels.sort_keys(values, start, np.uint64(step), key):
        step = 1
        kernels.sort_keys(values, start, np.uint64(step), key)
    digits = (((high - low) // step).bit_length() + 7) // 8
    key, row = kernels.radix_sort(key, row, empty(len(key), key.dtype), empty(len(row), row.dtype), digits)
    key *= np.uint64(step)
    key += start
    return key.view(np.int64), row


def order_of(values: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Rows sorted by value (unstable), and whether each value differs from the one before; no NaN allowed.

    np.sort is several times as fast as np.argsort, so each row's number replaces the last bits of its value;
    the few values that differed only in those bits are sorted afterwards.
    """
    bits = max(1, len(values) - 1).bit_length()
    if bits > _MOST_ROW_BITS or not len(values):
        return _argsort(values)
    key = empty(len(values), np.uint64)
    kernels.pack_floats(values, np.uint64(bits), key)
    key.sort()
    order, is_new = empty(len(values), np.int32), empty(len(values), np.bool_)
    if kernels.settle_order(key, np.uint64(bits), values, order, is_new):
        return order, is_new
    return _argsort(values)


def _argsort(values: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    order = np.argsort(values)
    is_new = np.ones(len(values), np.bool_)
    np.not_equal(values[order[1:]], values[order[:-1]], out=is_new[1:])
    return order, is_new


_MOST_ROW_BITS = 24
"""Of 64: with more, too many values would become equal."""


def _step(values: NDArray[np.int64], low: int) -> int:
    """A common divisor of the gaps, guessed from a few rows: such as the microseconds of a second."""
    some = values[:: len(values) // _ASKED + 1]
    return max(1, int(np.gcd.reduce(some - low)))


def numbered(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The sorted distinct values, and for each row the index of its value."""
    if kernels.is_sorted(values):
        found, row = values, row_numbers(0)
    else:
        found, row = sort_with_rows(values, row_numbers(len(values)))
    which = empty(len(values), row.dtype)
    first = empty(len(values), np.int64)
    count = kernels.number_values(found, row, which, first)
    return first[:count].copy(), which


def numbered_pairs(
    left: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """The sorted distinct pairs (left, right), and for each row the index of its pair."""
    lefts, a = numbered(left)
    rights, b = numbered(right)
    width = max(1, len(rights))
    pairs, which = numbered(a.astype(np.int64) * width + b)
    return lefts[pairs // width], rights[pairs % width], which


def narrow(code: NDArray[Any], high: int) -> tuple[NDArray[Any], int]:
    """Codes below `high`, made dense if `high` is much larger than the number of codes."""
    if high <= 4 * len(code) + 64:
        return code.astype(np.int32 if high < 2**31 else np.int64, copy=False), high
    distinct, dense = numbered(code.astype(np.int64, copy=False))
    return dense, len(distinct)


def combine(combined: NDArray[Any], distinct: int, code: NDArray[Any], high: int) -> tuple[NDArray[Any], int]:
    """Codes of pairs of codes; made dense first if they would exceed 62 bits."""
    if distinct * high >= 2**62:
        code, high = narrow(code, high)
    return narrow(combined.astype(np.int64) * high + code, distinct * high)


def dense(code: NDArray[np.int64], high: int) -> tuple[int, NDArray[Any]]:
    """The number of distinct codes, and for each row the index of its code."""
    if high <= _FEW_CODES:
        seen = np.bincount(code, minlength=high) > 0
        return int(seen.sum()), (np.cumsum(seen) - 1)[code]
    distinct, which = numbered(code)
    return len(distinct), which


_FEW_CODES = 1 << 16
