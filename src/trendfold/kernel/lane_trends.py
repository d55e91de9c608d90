"""Results of a fold in lanes, [item, number, lane] -> per lane the items that have a trend."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel

_TILE = 1024
"""Items that are read for all lanes before the next: as many as stay in a core's cache."""


@kernel
def count_by_lane(mantissa, count):
    """In how many items the first number of each lane is positive, into `count`."""
    for i in range(mantissa.shape[0]):
        for lane in range(mantissa.shape[2]):
            count[lane] += mantissa[i, 0, lane] > 0.0


@kernel
def gather_by_lane(order, mantissa, exponent, extreme, first, at, to_m, to_e, to_x):
    """Per lane the items whose first number is positive, in order.

    order     int[items]         the items in the order of results; empty for the order they have
    mantissa  float64[items, numbers, lanes]; exponent alike, or empty where all are 0; extreme alike
    first     int64[lanes]       where the results of each lane begin; a place more than they need
    at        int32[n], written  places in `order`
    to_m, to_e, to_x  [n, .], written
    """
    items, numbers, lanes = mantissa.shape
    counts, to_counts = mantissa.reshape(-1), to_m.reshape(-1)
    stride, width, tile = np.uint64(numbers * lanes), np.uint64(numbers), np.empty(_TILE, np.uint64)
    has_more = numbers > 1 or exponent.shape[0] > 0 or extreme.shape[1] > 0
    next_ = first.copy()
    for low in range(0, items, _TILE):
        size = min(items - low, _TILE)
        for k in range(size):
            tile[k] = np.uint64(order[low + k] if order.shape[0] else low + k) * stride
        for lane in range(lanes):
            begin = to = np.uint64(next_[lane])
            for k in range(size):  # no branch per item
                count = counts[tile[k] + np.uint64(lane)]
                at[to] = low + k
                to_counts[to * width] = count
                to += np.uint64(count > 0.0)
            next_[lane] = to
            if has_more:
                some = at[begin:to]
                _copy_lane(some, order, mantissa, lane, 1, to_m[begin:to])
                if exponent.shape[0]:
                    _copy_lane(some, order, exponent, lane, 0, to_e[begin:to])
                _copy_lane(some, order, extreme, lane, 0, to_x[begin:to])


@kernel
def _copy_lane(some, order, found, lane, first, to):
    """The numbers of one lane from the first one on, for some places in `order`."""
    for w in range(first, found.shape[1]):
        for k in range(some.shape[0]):
            i = order[some[k]] if order.shape[0] else some[k]
            to[k, w] = found[i, w, lane]
