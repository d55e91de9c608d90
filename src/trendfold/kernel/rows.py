"""Rows of a query: sorted by partition, split into group streams, cut into window items."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel


@kernel
def bucket(order, partition, partitions):
    """Stable counting sort: `order` again, but by partition first. Rows of partition -1 are left out."""
    start = np.zeros(partitions + 1, np.int64)
    for i in range(order.shape[0]):
        start[partition[order[i]] + 1] += 1
    left_out = start[0]
    start[0] = 0
    for p in range(partitions):
        start[p + 1] += start[p]
    result = np.empty(order.shape[0] - left_out, order.dtype)
    place = start[:-1].copy()
    for i in range(order.shape[0]):
        p = partition[order[i]]
        if p >= 0:
            result[place[p]] = order[i]
            place[p] += 1
    return result, start


@kernel
def number_moments(segment, time, order):
    """Moments numbered through: a new one at each segment, and wherever (time, order) changes."""
    moment = np.empty(time.shape[0], np.int32)
    now = -1
    for s in range(segment.shape[0] - 1):
        for i in range(segment[s], segment[s + 1]):
            if i == segment[s] or time[i] != time[i - 1] or order[i] != order[i - 1]:
                now += 1
            moment[i] = now
    return moment, now + 1


@kernel
def first_tie(segment, time, order):
    """The first row that is not after the row before it in its segment, or -1."""
    for s in range(segment.shape[0] - 1):
        for i in range(segment[s] + 1, segment[s + 1]):
            if time[i] == time[i - 1] and order[i] == order[i - 1]:
                return i
    return -1


@kernel
def cut_sliding(segment, at, length, slide, origin, first):
    """Window items [origin + k·slide, + length) that hold any row, per segment; only k >= first.

    `at` is what windows are measured in: time, or a row's number. Returns segment, k, low, high.
    """
    found = 0
    for turn in range(2):  # first count, then fill
        if turn == 1:
            owner = np.empty(found, np.int32)
            index = np.empty(found, np.int64)
            low = np.empty(found, np.int64)
            high = np.empty(found, np.int64)
        n = 0
        for s in range(segment.shape[0] - 1):
            lo = hi = segment[s]
            k = first
            for i in range(segment[s], segment[s + 1]):
                if i > segment[s] and at[i] == at[i - 1]:
                    continue
                # the windows that hold row i and no row before it come next
                k = max(k, (at[i] - origin - length) // slide + 1)
                while k <= (at[i] - origin) // slide:
                    if turn == 1:
                        begin = origin + k * slide
                        while at[lo] < begin:
                            lo += 1
                        hi = max(hi, lo)
                        while hi < segment[s + 1] and at[hi] < begin + length:
                            hi += 1
                        owner[n], index[n], low[n], high[n] = s, k, lo, hi
                    n += 1
                    k += 1
        found = n
    return owner, index, low, high


@kernel
def cut_per_event(segment, at, length, group, ending_start, ending):
    """Window items (t - length, t] that hold any row, for every t in `ending` of the segment's group.

    ending, ending_start: per group its distinct times in order. Returns segment, t, low, high.
    """
    found = 0
    for turn in range(2):
        if turn == 1:
            owner = np.empty(found, np.int32)
            index = np.empty(found, np.int64)
            low = np.empty(found, np.int64)
            high = np.empty(found, np.int64)
        n = 0
        for s in range(segment.shape[0] - 1):
            lo = hi = segment[s]
            for e in range(ending_start[group[s]], ending_start[group[s] + 1]):
                t = ending[e]
                while hi < segment[s + 1] and at[hi] <= t:
                    hi += 1
                while lo < hi and at[lo] <= t - length:
                    lo += 1
                if lo < hi:
                    if turn == 1:
                        owner[n], index[n], low[n], high[n] = s, t, lo, hi
                    n += 1
        found = n
    return owner, index, low, high


@kernel
def split_streams(segment, value, is_own, stream_start, stream_value):
    """Copy each segment into one stream per value of a group key (spec 4).

    A row with its own value (`is_own`: its type stands only at the key's positions) goes to the stream of
    that value alone; every other row goes to all of its segment's streams.

    stream_start, stream_value   per segment: the values that may give a trend
    Returns the source row of each new row, whether the row has the stream's value, and the new segments.
    """
    streams = stream_value.shape[0]
    start = np.zeros(streams + 1, np.int64)
    for turn in range(2):
        if turn == 1:
            source = np.empty(start[streams], np.int64)
            matches = np.empty(start[streams], np.bool_)
        n = 0
        for s in range(segment.shape[0] - 1):
            for v in range(stream_start[s], stream_start[s + 1]):
                for i in range(segment[s], segment[s + 1]):
                    same = value[i] == stream_value[v]
                    if same or not is_own[i]:
                        if turn == 1:
                            source[n], matches[n] = i, same
                        n += 1
                start[v + 1] = n
    return source, matches, start
