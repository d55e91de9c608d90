"""Rows of a query: sorted by partition, split into group streams, cut into window items."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel

_SYMBOL_BITS = 24


@kernel
def is_sorted(time):
    """Whether no time is before the one ahead of it."""
    back = 0
    for i in range(1, time.shape[0]):
        back += time[i] < time[i - 1]
        if back and i & 1023 == 0:  # no branch per row
            return False
    return back == 0


@kernel
def count_up(numbers):
    """0, 1, 2, ... into `numbers`."""
    for i in range(numbers.shape[0]):
        numbers[i] = i


@kernel
def is_count_up(numbers, count):
    """Whether these are 0, 1, 2, ... below `count`."""
    for i in range(numbers.shape[0]):
        if numbers[i] != i:
            return False
    return numbers.shape[0] == count


@kernel
def find_intervals(values, cuts, code):
    """1, 3, 5, ... between the cuts, which are in order, and 2, 4, ... on them, into `code`."""
    size = np.uint64(cuts.shape[0])
    for i in range(values.shape[0]):
        low, left = np.uint64(0), size
        while left > np.uint64(1):  # as often for every value
            half = left >> np.uint64(1)
            low = low + half if cuts[low + half] <= values[i] else low
            left -= half
        first = values[i] >= cuts[low]
        code[i] = 2 * low + 2 - (values[i] != cuts[low]) + 2 * (first and values[i] != cuts[low])


@kernel
def find_kinds(symbol, low, high, place, next_row, found):
    """The symbols of the rows [low, high) of every item as bits, into found[place, word]; items are in order.

    next_row  int64[A]  after all rows, to begin with
    """
    row, kinds = symbol.shape[0], next_row.shape[0]
    for k in range(low.shape[0] - 1, -1, -1):
        to = place[k]
        if high[k] - low[k] <= kinds:
            for i in range(low[k], high[k]):
                a = symbol[i]
                found[to, a >> 6] |= np.uint64(1) << np.uint64(a & 63)
            continue
        while row > low[k]:
            row -= 1
            next_row[symbol[row]] = row
        for a in range(kinds):
            found[to, a >> 6] |= np.uint64(next_row[a] < high[k]) << np.uint64(a & 63)


@kernel
def hold_any(symbol, low, high, place, is_wanted, held):
    """Whether the rows [low, high) of any item have a wanted symbol, into held[place]; `low` is in order.

    is_wanted  bool[A]
    """
    row = 0
    for k in range(low.shape[0]):
        row = max(row, low[k])
        while row < high[k] and not is_wanted[symbol[row]]:
            row += 1
        held[place[k]] |= row < high[k]


@kernel
def have_kinds(found, own, seen):
    """Whether each place has any of each member's own symbols, into seen[member, place].

    found, own  uint64[places, words], uint64[members, words]  symbols as bits
    """
    for place in range(found.shape[0]):
        for member in range(own.shape[0]):
            common = np.uint64(0)
            for w in range(found.shape[1]):
                common |= found[place, w] & own[member, w]
            seen[member, place] = common != 0


@kernel
def sort_keys(values, low, step, key):
    """key = (values - low) / step, into `key`, modulo 2^64; False where a quotient is not whole.

    values  int64[n], low and step uint64, key uint64[n]
    """
    if step == 1:
        for i in range(values.shape[0]):
            key[i] = np.uint64(values[i]) - low
        return True
    whole = True
    for i in range(values.shape[0]):
        gap = np.uint64(values[i]) - low
        key[i] = np.uint64(np.float64(gap) / np.float64(step))
        whole &= key[i] * step == gap
    return whole


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
def number_values(values, row, which, first):
    """Number the distinct values of a sorted array; returns how many there are.

    row    int[n]    the row of each value; an empty array: its place
    which  int[n]    written: per row the number of its value
    first  int64[n]  written: the distinct values
    """
    now = -1
    for i in range(values.shape[0]):
        if i == 0 or values[i] != values[i - 1]:
            now += 1
            first[now] = values[i]
        which[row[i] if row.shape[0] else i] = now
    return now + 1


@kernel
def pack_floats(values, row_bits, key):
    """Keys that sort as the values do, as far as they go, with a row's number in the last bits."""
    whole = values.view(np.int64)
    low = (np.uint64(1) << row_bits) - np.uint64(1)
    for i in range(values.shape[0]):
        # The bits of doubles sort as integers do, but for negative ones, which sort the other way; -0 is 0.
        bits = np.uint64(whole[i]) if values[i] != 0.0 else np.uint64(0)
        bits ^= np.uint64(np.int64(bits) >> 63) | np.uint64(1 << 63)
        key[i] = (bits & ~low) | np.uint64(i)


@kernel
def settle_order(key, row_bits, values, order, is_new):
    """Rows out of sorted keys, equal keys in the order of their values; False if that would take too long.

    is_new  out: whether a value is not the one before it. Where keys tell that, no value is read.
    """
    low = (np.uint64(1) << row_bits) - np.uint64(1)
    moves = 8 * key.shape[0]
    first = 0
    for i in range(key.shape[0]):
        row = key[i] & low
        if i == 0 or (key[i] ^ key[i - 1]) & ~low:
            order[i], is_new[i], first = row, True, i
            continue
        j = i
        while j > first and values[np.uint64(order[j - 1])] > values[row]:
            order[j], is_new[j] = order[j - 1], is_new[j - 1]
            j -= 1
            moves -= 1
            if moves < 0:
                return False
        order[j], is_new[j] = row, j == first or values[np.uint64(order[j - 1])] != values[row]
        if j < i:
            is_new[j + 1] = True
    return True


@kernel
def look_up(table, code, found):
    """found = table[code], row by row; codes are not negative."""
    for i in range(code.shape[0]):
        found[i] = table[np.uint64(code[i])]


@kernel
def count_rows(symbol, partition, keeps_all, start):
    """Where the rows of each partition will begin, into `start`, zeros at first.

    symbol     int[n]   without `keeps_all`, rows of symbol 0 are left out
    partition  int[n]   rows of -1 are left out; an empty array: all rows are of partition 0
    start      uint[partitions+1]
    """
    if partition.shape[0] == 0:
        count = 0
        for r in range(symbol.shape[0]):
            count += keeps_all or symbol[r] != 0  # no branch: which rows are selected is no pattern
        start[1] = count
        return
    for r in range(symbol.shape[0]):
        p = partition[r]
        if p >= 0 and (keeps_all or symbol[r] != 0):
            start[p + 1] += 1
    for p in range(1, start.shape[0]):
        start[p] += start[p - 1]


@kernel
def select_rows(order, time, symbol, keeps_all, row, symbols, times):
    """The rows of one partition in time order: row numbers, symbols and times.

    order   int[n]    rows in time order; an empty array: they are already
    time    int64[n]  their times, in that order
    row, symbols, times   what is written, as many as `count_rows` counted, and one more
    """
    is_ordered = order.shape[0] == 0
    to = np.uint64(0)
    for i in range(time.shape[0]):
        r = np.uint64(i if is_ordered else order[i])
        s = symbol[r]
        row[to], symbols[to], times[to] = r, s, time[i]
        to += np.uint64(keeps_all or s != 0)  # no branch: which rows are selected is no pattern


@kernel
def place_rows(order, time, symbol, partition, keeps_all, place, packed):
    """Rows by partition, and in time order within it.

    order, time as in `select_rows`, symbol and partition as in `count_rows`
    place   uint[]     where each partition begins; left where it ends
    packed  int64[m,2] written: a row's time, then its number << 24 | symbol. Side by side, because
                       every partition is written at a place of its own, and each of those costs a cache line
    """
    is_ordered = order.shape[0] == 0
    for i in range(time.shape[0]):
        r = np.uint64(i if is_ordered else order[i])
        s = symbol[r]
        if partition[r] >= 0 and (keeps_all or s != 0):
            p = np.uint64(partition[r])
            to = place[p]
            place[p] += 1
            packed[to, 0] = time[i]
            packed[to, 1] = (np.int64(r) << _SYMBOL_BITS) | np.int64(s)


@kernel
def unpack_rows(packed, row, symbols, times):
    """Unpack the records of `place_rows` into three arrays."""
    for i in range(packed.shape[0]):
        times[i] = packed[i, 0]
        row[i] = packed[i, 1] >> _SYMBOL_BITS
        symbols[i] = packed[i, 1] & ((1 << _SYMBOL_BITS) - 1)


@kernel
def count_picked(code, symbol_of):
    """How many rows have a symbol."""
    found = 0
    for i in range(code.shape[0]):
        found += symbol_of[np.uint64(code[i])] != 0
    return found


@kernel
def pick_rows(row, time, code, segment, symbol_of, keeps_all, rows, symbols, times, segments):
    """The rows that have a symbol, or all, out of rows sorted by segment and time; returns how many.

    row, time, code, segment         what there is
    symbol_of  int32[]               the symbol of each code
    rows, symbols, times, segments   written: what is picked, and where each segment begins now
    """
    to = np.uint64(0)
    for s in range(segment.shape[0] - 1):
        segments[s] = to
        for i in range(np.uint64(segment[s]), np.uint64(segment[s + 1])):
            symbol = symbol_of[np.uint64(code[i])]
            rows[to], symbols[to], times[to] = row[i], symbol, time[i]
            to += np.uint64(keeps_all or symbol != 0)  # no branch: which rows are picked is no pattern
    segments[segment.shape[0] - 1] = to
    return np.int64(to)


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
def _seek(at, low, high, value):
    """The first place in [low, high) where `at` is not below `value`, or high; quick if it is near `low`."""
    step = 1
    while low + step < high and at[low + step] < value:
        low += step
        step *= 2
    high = min(high, low + step)
    while low < high:
        middle = (low + high) // 2
        if at[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def count_sliding(segment, at, length, slide, origin, first, last, most):
    """How many items `cut_sliding` cuts, or most + 1 where they are more; windows are not gone through."""
    found = 0
    for s in range(segment.shape[0] - 1):
        i, end, k = segment[s], segment[s + 1], first
        while i < end:
            k = max(k, (at[i] - origin - length) // slide + 1)
            if k > last:
                break
            newest = min(last, (at[i] - origin) // slide)
            if newest >= k:
                if newest - k >= most - found:
                    return most + 1
                found += newest - k + 1
                k = newest + 1
            i = _seek(at, i, end, origin + k * slide)
    return found


@kernel
def cut_sliding(segment, at, length, slide, origin, first, last, found):
    """Window items [origin + k·slide, + length) that hold any row, per segment; only first <= k <= last.

    `at` is what windows are measured in: time, or a row's number. There are at most `found`; `count_sliding`
    counts them. Returns segment, k, low, high.
    """
    owner, index = np.empty(found, np.int32), np.empty(found, np.int64)
    low, high = np.empty(found, np.int64), np.empty(found, np.int64)
    n = 0
    for s in range(segment.shape[0] - 1):
        i = hi = segment[s]
        end = segment[s + 1]
        k = max(first, (at[i] - origin - length) // slide + 1) if i < end else first
        while i < end and k <= last:
            if at[i] >= origin + k * slide + length:
                k = (at[i] - origin - length) // slide + 1
            begin = origin + k * slide
            while begin <= at[i] and k <= last:  # the windows that hold row i and no row before it
                hi = _seek(at, max(hi, i), end, begin + length)
                owner[n], index[n], low[n], high[n] = s, k, i, hi
                n += 1
                k += 1
                begin += slide
            if slide >= length:
                i = max(i, hi)
            if i < end and at[i] < begin:
                i = _seek(at, i, end, begin)
    return owner[:n], index[:n], low[:n], high[:n]


@kernel
def cut_apart(segment, at, length, slide, origin, first, last, needs, lowest, seen, owner, index, low, high):
    """`cut_sliding` for windows that do not overlap, without those that hold no trend; see `_may_hold`.

    lowest, seen   uint8[]  written: 1 per window k that holds any row, at k - lowest
    owner, index, low, high   written
    Returns how many items there are, and how many of them may hold a trend.
    """
    found = n = 0
    for s in range(segment.shape[0] - 1):
        i, end = segment[s], segment[s + 1]
        k = lowest - 2
        while i < end:
            ahead = at[i] - origin - (k + 1) * slide
            if ahead >= slide:
                k = (at[i] - origin) // slide
            elif ahead >= 0:  # the next window, the most likely one, without a division
                k += 1
            begin = origin + k * slide
            if k > last:
                break
            if k < first or at[i] >= begin + length:
                i = _seek(at, i, end, begin + slide)
                continue
            to = _seek(at, i, end, begin + length)
            seen[k - lowest] = 1
            found += 1
            owner[n], index[n], low[n], high[n] = s, k, i, to
            n += _may_hold(i, to, needs)
            i = to
    return found, n


@kernel
def keep_items(low, high, needs, positions, next_row, kept):
    """The items that may hold a trend, into the last places of `kept`; returns the first of these places.

    low       in order; windows may overlap, so rows are not read again for each of them
    needs     see `_may_hold`; positions: how many positions every trend takes
    next_row  int64[positions]  after all rows, to begin with
    """
    symbol, bits, _, fewest = needs
    row, first = symbol.shape[0], kept.shape[0]
    for k in range(low.shape[0] - 1, -1, -1):
        while row > low[k]:
            row -= 1
            taken = bits[symbol[row]]
            for p in range(positions):
                if taken >> np.uint64(p) & np.uint64(1):
                    next_row[p] = row
        is_kept = high[k] - low[k] >= fewest
        for p in range(positions):
            is_kept &= next_row[p] < high[k]
        if is_kept:
            first -= 1
            kept[first] = k
    return first


@inlined
def _may_hold(low, high, needs):
    """Whether rows [low, high) may hold a trend: enough rows, and one for each position every trend takes.

    needs  symbol int32[n]; bits uint64[A] the needed positions an event of a symbol can take; all of them;
           and the fewest rows
    """
    symbol, bits, wanted, fewest = needs
    missing = wanted
    if high - low < fewest:
        return False
    for i in range(low, high):
        missing &= ~bits[symbol[i]]
        if missing == 0:
            break
    return missing == 0


@kernel
def count_per_event(segment, at, length, group, ending_start, ending, most):
    """How many items `cut_per_event` cuts, or most + 1 where they are more; windows are not gone through."""
    found = 0
    for s in range(segment.shape[0] - 1):
        e, last = ending_start[group[s]], ending_start[group[s] + 1]
        for i in range(segment[s], segment[s + 1]):
            # the windows that hold row i and no row before it
            e = _seek(ending, e, last, at[i])
            after = _seek(ending, e, last, at[i] + length)
            if after - e > most - found:
                return most + 1
            found += after - e
            e = after
    return found


@kernel
def cut_per_event(segment, at, length, group, ending_start, ending, found):
    """Window items (t - length, t] that hold any row, for every t in `ending` of the segment's group.

    ending, ending_start: per group its distinct times in order. `found` is how many there are, as
    `count_per_event` counts them. Returns segment, t, low, high.
    """
    owner, index = np.empty(found, np.int32), np.empty(found, np.int64)
    low, high = np.empty(found, np.int64), np.empty(found, np.int64)
    n = 0
    for s in range(segment.shape[0] - 1):
        lo = hi = segment[s]
        e, last = ending_start[group[s]], ending_start[group[s] + 1]
        while e < last:
            t = ending[e]
            while hi < segment[s + 1] and at[hi] <= t:
                hi += 1
            while lo < hi and at[lo] <= t - length:
                lo += 1
            if lo < hi:
                owner[n], index[n], low[n], high[n] = s, t, lo, hi
                n += 1
                e += 1
            elif hi < segment[s + 1]:
                e = _seek(ending, e, last, at[hi])  # no row until then
            else:
                break
    return owner, index, low, high


@kernel
def start_streams(segment, value, is_own, stream_start, stream_value):
    """Where each stream begins when segments are copied into one stream per value of a group key (spec 4).

    A row with its own value (`is_own`: its type stands only at the key's positions) goes to the stream of
    that value alone; every other row goes to all of its segment's streams.

    stream_start, stream_value   per segment: the values that may give a trend, in order
    """
    start = np.zeros(stream_value.shape[0] + 1, np.int64)
    for s in range(segment.shape[0] - 1):
        low, high = stream_start[s], stream_start[s + 1]
        public = 0
        for i in range(segment[s], segment[s + 1]):
            if not is_own[i]:
                public += 1
                continue
            v = low + np.searchsorted(stream_value[low:high], value[i])
            if v < high and stream_value[v] == value[i]:
                start[v + 1] += 1
        for v in range(low, high):
            start[v + 1] += start[v] + public
    return start


@kernel
def split_streams(segment, value, is_own, stream_start, stream_value, source, matches):
    """Copy segments into streams as `start_streams` says, in place.

    source   the row that each new row is a copy of
    matches  whether it has the stream's value
    """
    n = 0
    for s in range(segment.shape[0] - 1):
        for v in range(stream_start[s], stream_start[s + 1]):
            for i in range(segment[s], segment[s + 1]):
                same = value[i] == stream_value[v]
                if same or not is_own[i]:
                    source[n], matches[n] = i, same
                    n += 1


@kernel
def copy_into_streams(segment, value, is_own, stream_start, stream_value, rows, copies):
    """Copy segments into streams as `start_streams` says: `split_streams` and its gathers in one pass.

    rows    rows, times and kinds; per kind the one without the key's positions; per row whether it takes one
    copies  rows, times and kinds; per copy whether it takes one of the key's positions
    """
    row, time, kind, other, takes = rows
    into_row, into_time, into_kind, into_takes = copies
    n = 0
    for s in range(segment.shape[0] - 1):
        for v in range(stream_start[s], stream_start[s + 1]):
            for i in range(segment[s], segment[s + 1]):
                same = value[i] == stream_value[v]
                if same or not is_own[i]:
                    into_row[n], into_time[n] = row[i], time[i]
                    into_kind[n] = kind[i] if same else other[kind[i]]
                    into_takes[n] = same and takes[i]
                    n += 1


@kernel
def write_passed(time, into):
    """The time since the row before, in microseconds; none before a new segment that begins earlier."""
    for i in range(time.shape[0]):
        into[i] = max(0, time[i] - time[i - 1]) if i else 0.0


@kernel
def write_times(time, sign, into):
    """Times, or with a sign of -1 less than 0."""
    for i in range(time.shape[0]):
        into[i] = sign * time[i]


@kernel
def mark_bursts(symbol, moment, steady, begins):
    """Mark the rows at which bursts begin; `begins`, which is one longer, has those where windows do or end.

    symbol, moment  int[n]    of every row
    steady          bool[a]   whether events of a symbol never follow each other
    """
    rows = symbol.shape[0]
    was_pure, i = False, 0
    while i < rows:
        stop = i + 1
        while stop < rows and moment[stop] == moment[i]:
            stop += 1
        is_pure = True
        for r in range(i + 1, stop):
            is_pure &= symbol[r] == symbol[i]
        joins = i > 0 and was_pure and is_pure and symbol[i - 1] == symbol[i]
        for r in range(i, stop):
            if not steady[symbol[r]] or not joins:
                begins[r] = True
            joins = r + 1 < stop and symbol[r + 1] == symbol[r]
        was_pure, i = is_pure, stop
    begins[rows] = True
