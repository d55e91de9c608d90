"""Where the trends of a bounded span begin and end (`WITHIN w EVERY s`, `WITHIN w ONCE`).

A trend that begins at row s may end at the rows [since[s], before[s]) of its segment:

    before[s]  the first row with a time of at least time(s) + w
    since[s]   the first row of its moment, or a later one if the NOTs around the trend break shorter ones

Let L(m) be the latest start of an N-trend that has ended by moment m (guards.latest_starts). A NOT at the
start breaks (s, t) if L(m(s) - 1) is later than time(t) - w: it does not from row before[l] on, for the row l
of that start. A NOT at the end breaks it if an N-trend after t ends before time(s) + w: it does not if t is
not before L(m(before[s] - 1)). Neither `since` nor `before` decreases within a segment, so the trends that
end at a moment are those that begin at consecutive rows [low, until).
"""

from __future__ import annotations

from trendfold.kernel.jit import kernel


@kernel
def find_ends(segment, time, moment, length, begins, closes, since, before):
    """Write where a trend that begins at each row may end.

    segment         int64[s+1]  where each segment's rows begin
    begins, closes  int32[m]    per moment L of the NOT before and after a trend; empty if there is none
    since, before   int64[n]    out
    """
    for k in range(segment.shape[0] - 1):
        low, high = segment[k], segment[k + 1]
        stop = low
        for s in range(low, high):
            while stop < high and time[stop] - time[s] < length:
                stop += 1
            is_tied = s > low and moment[s] == moment[s - 1]
            before[s], since[s] = stop, since[s - 1] if is_tied else s
        start = end = low
        for s in range(low, high):
            if begins.shape[0] > 0 and moment[s] > moment[low]:
                latest = begins[moment[s] - 1]
                if latest >= moment[low]:
                    while moment[start] < latest:
                        start += 1
                    since[s] = max(since[s], before[start])
            if closes.shape[0] > 0:
                latest = closes[moment[before[s] - 1]]
                while end < high and moment[end] < latest:
                    end += 1
                since[s] = max(since[s], end)


@kernel
def cut_moments(segment, time, moment, ends, since, before, period, origin, first, last, out):
    """Cut a window per moment at which trends may end; returns how many.

    ends         bool[n]      whether a row can end a trend
    period       the length of periods, 0 for a single one; those numbered first to last are asked for
    out          (int32[], int64[], int64[], int64[], int64[]): segment, period, low, until and high
    """
    owner, index, lows, untils, highs = out
    many = 0
    for k in range(segment.shape[0] - 1):
        low = until = i = segment[k]
        while i < segment[k + 1]:
            j, can_end = i, False
            while j < segment[k + 1] and moment[j] == moment[i]:
                can_end |= ends[j]
                j += 1
            number = (time[i] - origin) // period if period > 0 else 0
            if can_end and first <= number <= last:
                while before[low] <= i:
                    low += 1
                until = max(until, low)
                while until < j and since[until] <= i:
                    until += 1
                if low < until:
                    owner[many], index[many] = k, number
                    lows[many], untils[many], highs[many] = low, until, j
                    many += 1
            i = j
    return many
