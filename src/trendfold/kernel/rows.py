"""Rows of a query: sorted by partition, split into group streams, cut into window items."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel


@kernel
def is_sorted(time):
    """Whether no time is before the one ahead of it."""
    for i in range(1, time.shape[0]):
        if time[i] < time[i - 1]:
            return False
    return True


@kernel
def radix_sort(key, row, spare_key, spare_row, digits):
    """Sort keys, and the row numbers beside them, by the lowest `digits` bytes of the keys; stable.

    key   uint64[n], row  int[n]   what to sort; overwritten
    spare_key, spare_row           as large; overwritten
    Returns keys and rows in order: two of the four arrays. A byte that is the same in all keys costs no pass.
    """
    n = key.shape[0]
    count = np.zeros((digits, 256), np.int64)
    for i in range(n):
        rest = key[i]
        for d in range(digits):
            count[d, rest & np.uint64(255)] += 1
            rest >>= np.uint64(8)
    place = np.empty(256, np.uint64)
    for d in range(digits):
        if count[d].max() == n:
            continue
        total = 0
        for b in range(256):
            place[b] = total
            total += count[d, b]
        shift = np.uint64(8 * d)
        for i in range(n):
            one = key[i]
            b = (one >> shift) & np.uint64(255)
            to = place[b]
            place[b] = to + np.uint64(1)
            spare_key[to] = one
            spare_row[to] = row[i]
        key, spare_key = spare_key, key
        row, spare_row = spare_row, row
    return key, row


@kernel
def count_rows(code, table, partition, keeps_all, start):
    """Where the rows of each partition will begin, into `start`, zeros at first.

    code, table   int32[n], int32[]   a row's symbol is table[code]; without `keeps_all`, symbol 0 is left out
    partition     int[n]              -1 is left out; an empty array: all rows are of partition 0
    start         int[partitions+1]
    """
    is_whole = partition.shape[0] == 0
    for r in range(code.shape[0]):
        p = 0 if is_whole else partition[r]
        if p >= 0 and (keeps_all or table[code[r]] != 0):
            start[p + 1] += 1
    for p in range(1, start.shape[0]):
        start[p] += start[p - 1]


@kernel
def place_rows(order, time, code, table, partition, keeps_all, place, row, symbol, at):
    """Rows by partition, and in time order within it: row numbers, symbols and times at their final place.

    order   int[n]    rows in time order; an empty array: they are already
    time    int64[n]  their times, in that order
    place   int[]     where each partition begins; left where it ends
    row, symbol, at   what is written, as many as `count_rows` counted
    The others are as in `count_rows`.
    """
    is_ordered, is_whole = order.shape[0] == 0, partition.shape[0] == 0
    for i in range(time.shape[0]):
        r = i if is_ordered else order[i]
        p = 0 if is_whole else partition[r]
        s = table[code[r]]
        if p >= 0 and (keeps_all or s != 0):
            to = place[p]
            place[p] = to + 1
            row[to] = r
            symbol[to] = s
            at[to] = time[i]


@kernel
def number_moments(segment, time, order, moment):
    """Moments numbered through: a new one at each segment, and wherever (time, order) changes.

    order   int[n], or empty where there is none
    moment  int32[n], written
    """
    now = -1
    has_order = order.shape[0] > 0
    for s in range(segment.shape[0] - 1):
        for i in range(segment[s], segment[s + 1]):
            if i == segment[s] or time[i] != time[i - 1] or (has_order and order[i] != order[i - 1]):
                now += 1
            moment[i] = now


@kernel
def first_tie(segment, time, order):
    """The first row that is not after the row before it in its segment, or -1. `order` may be empty."""
    for s in range(segment.shape[0] - 1):
        for i in range(segment[s] + 1, segment[s + 1]):
            if time[i] == time[i - 1] and (order.shape[0] == 0 or order[i] == order[i - 1]):
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
            if segment[s] == segment[s + 1]:
                continue
            lo = hi = segment[s]
            k = max(first, (at[lo] - origin - length) // slide + 1)
            begin = origin + k * slide  # of the next window, the first that may hold no row before
            for i in range(segment[s], segment[s + 1]):
                if at[i] < begin:
                    continue
                if at[i] >= begin + length:  # windows without any row
                    k = max(k, (at[i] - origin - length) // slide + 1)
                    begin = origin + k * slide
                while begin <= at[i]:
                    if turn == 1:
                        while at[lo] < begin:
                            lo += 1
                        hi = max(hi, lo)
                        while hi < segment[s + 1] and at[hi] < begin + length:
                            hi += 1
                        owner[n], index[n], low[n], high[n] = s, k, lo, hi
                    n += 1
                    k += 1
                    begin += slide
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
