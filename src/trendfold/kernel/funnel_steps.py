"""How far the attempts of each key get in a funnel: one pass over the events of a key, or of a period."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel


@kernel
def count_entries(segment, time, symbol, takes, every, origin):
    """How many rows `follow_attempts` writes: the periods of each segment in which an attempt begins."""
    found = 0
    for s in range(segment.shape[0] - 1):
        last, is_any = 0, False
        for i in range(segment[s], segment[s + 1]):
            if takes[symbol[i]] & 1:
                period = (time[i] - origin) // every if every > 0 else 0
                if not is_any or period != last:
                    found += 1
                    if every == 0:
                        break
                    last, is_any = period, True
    return found


@kernel
def follow_attempts(
    segment, time, order, symbol, takes, steps, within, every, origin, period, depth, reached
):
    """Per segment and period in which attempts begin: the attempt that gets furthest.

    segment  int64[s+1]  where the events of each key begin, in time order
    time     int64[n]    in microseconds
    order    int64[n]    tells events of one time apart; empty without an order column
    symbol   int32[n]    into `takes`
    takes    int64[]     the steps that an event can be, as bits
    within   an attempt's last event is less than this after its first
    every    the length of a period; 0: one period over all
    period   int64[m]        out: in which the attempt began
    depth    int32[m]        out: how many steps it got through
    reached  int64[m,steps]  out: the times of these

    An attempt begins at each event of step 1, and takes the first later event of each next step: these are
    the trends of skip-till-next-match. All attempts that wait at a step take the same next event, and the one
    that began last has the most time left: no other is kept.
    """
    waiting = np.empty((steps, steps), np.int64)  # per step the attempt that has got through it: its times
    is_there = np.zeros(steps, np.bool_)
    has_order = order.shape[0] > 0
    row = 0
    for s in range(segment.shape[0] - 1):
        low, end = segment[s], segment[s + 1]
        while low < end:
            if not takes[symbol[low]] & 1:
                low += 1
                continue
            period[row] = (time[low] - origin) // every if every > 0 else 0
            closes = (period[row] + 1) * every + origin if every > 0 else np.int64(2**63 - 1)
            is_there[:] = False
            best, i, low = 0, low, end
            while i < end:
                now, here, moment = time[i], np.int64(0), i
                if now >= closes:
                    low = min(low, i)
                    if now - closes >= within or best == steps:
                        break
                while i < end and time[i] == now and (not has_order or order[i] == order[moment]):
                    here |= takes[symbol[i]]
                    i += 1
                if best < steps:
                    best = _take(
                        here, now, now < closes, steps, within, best, waiting, is_there, reached, row
                    )
                elif every == 0:
                    break
            depth[row] = best
            row += 1


@kernel
def _take(here, now, may_begin, steps, within, best, waiting, is_there, reached, row):
    """Take the events of one moment, the last step first, as none of them follows another; the best depth."""
    for k in range(steps - 1, 0, -1):
        if here >> k & 1 and is_there[k - 1]:
            is_there[k - 1] = False
            if now - waiting[k - 1, 0] < within:
                for j in range(k):
                    waiting[k, j] = waiting[k - 1, j]
                waiting[k, k] = now
                is_there[k] = True
                if k >= best:
                    best = k + 1
                    for j in range(best):
                        reached[row, j] = waiting[k, j]
    if here & 1 and may_begin:
        waiting[0, 0] = now
        is_there[0] = True
        if best == 0:
            best = 1
            reached[row, 0] = now
    return best
