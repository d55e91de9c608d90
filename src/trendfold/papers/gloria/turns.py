"""Windows of papers.gloria.kernel: open, report and close them, and drop what no open window needs."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.wide import wide_sum
from trendfold.papers.gloria.blocks import NONE, ONE, cell, look_again, xcell
from trendfold.papers.gloria.board import (
    BLOCK_EXTREMES,
    BLOCK_WIDTH,
    END_BLOCK,
    ENTRY_ROW,
    LIST_CAP,
    LIST_ENTRIES,
    LIST_FIRST,
    LIST_MEMBERS,
    LIST_MEMBERS_,
    MEMBER_BLOCKS,
    MEMBER_BLOCKS_,
    MEMBER_ENDS,
    MEMBER_ENDS_,
    MEMBER_EXTREMES,
    MEMBER_LANE,
    MEMBER_LANES,
    MEMBER_LISTS,
    MEMBER_LISTS_,
    MEMBER_RINGS,
    MEMBER_RINGS_,
    MEMBER_STARTS,
    MEMBER_STARTS_,
    MEMBER_WIDTH,
    MEMBER_WINDOWS,
    N_LISTS,
    N_MEMBERS,
    N_RINGS,
    OLDEST,
    RING_BLOCK,
    RING_MEMBERS,
    RING_MEMBERS_,
    TOP,
    block_at,
    bound_at,
    entry_at,
    far_at,
    list_at,
    list_work_at,
    member_at,
    open_windows_at,
    ring_at,
    ring_state_at,
    row_ring,
    window_at,
)  # fmt: skip
from trendfold.papers.gloria.rings import expire, lane_least, lane_sum

LARGE = 2.0**128
"""Bounds of blocks past it are computed again when windows close: they may have shrunk."""
NEVER = np.int64(1 << 60)


@kernel
def turn(i, rows, s, out):
    """Report the windows that end at row i and begin those that begin there.

    Returns the next row at which one does, and whether any is open.
    """
    t, n = s.i, s.i
    edge, is_open, has_closed = rows, False, False
    for k in range(t[N_MEMBERS]):
        member, own = member_at(t, k), open_windows_at(t, k)
        last = t[member + MEMBER_WINDOWS + 1]
        first, upto = n[own], n[own + 1]
        while first < upto and t[window_at(t, first) + 1] <= i:
            _close(member, first, s, out)
            has_closed = True
            first += 1
        while upto < last and t[window_at(t, upto)] <= i:
            lane = _lane_of(member, upto, s)
            for q in range(t[member + MEMBER_STARTS_], t[member + MEMBER_STARTS_ + 1]):
                s.f[cell(t[t[MEMBER_STARTS] + q], NONE, NONE, lane, t)] = 1.0
                s.f[bound_at(s.i, t[t[MEMBER_STARTS] + q])] += 1.0
            upto += 1
        n[own], n[own + 1] = first, upto
        n[t[OLDEST] + k] = NEVER
        if first < upto:
            is_open = True
            edge = min(edge, t[window_at(t, first) + 1])
            n[t[OLDEST] + k] = t[window_at(t, first)]
        if upto < last:
            edge = min(edge, t[window_at(t, upto)])
    if has_closed:
        _forget(s)
    return edge, is_open


@kernel
def _lane_of(member, window, s):
    t = s.i
    return t[member + MEMBER_LANE] + (window - t[member + MEMBER_WINDOWS]) % t[member + MEMBER_LANES]


@kernel
def _close(member, window, s, out):
    """Report a window, whole trends as values and as expressions, and empty its lane."""
    t, n, m, e, x = s.i, s.i, s.f, s.e, s.f
    lane, end = _lane_of(member, window, s), t[END_BLOCK]
    for w in range(t[member + MEMBER_WIDTH]):
        here = cell(end, NONE, w, lane, t)
        sum_m, sum_e = m[here], e[here]
        for q in range(t[member + MEMBER_ENDS_], t[member + MEMBER_ENDS_ + 1]):
            row = t[t[MEMBER_ENDS] + q]
            part_m, part_e = lane_sum(row_ring(t, row), row, w, lane, s)
            sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
        out.mantissa[window, w], out.exponent[window, w] = sum_m, sum_e
    for y in range(t[member + MEMBER_EXTREMES]):
        best = x[xcell(end, NONE, y, lane, t)]
        for q in range(t[member + MEMBER_ENDS_], t[member + MEMBER_ENDS_ + 1]):
            row = t[t[MEMBER_ENDS] + q]
            best = min(best, lane_least(row_ring(t, row), row, y, lane, s))
        out.extreme[window, y] = best
    for q in range(t[member + MEMBER_BLOCKS_], t[member + MEMBER_BLOCKS_ + 1]):
        _empty_lane(t[t[MEMBER_BLOCKS] + q], ONE, lane, s)
    for q in range(t[member + MEMBER_RINGS_], t[member + MEMBER_RINGS_ + 1]):
        ring = t[t[MEMBER_RINGS] + q]
        top = n[ring_state_at(t, ring) + TOP]
        _empty_lane(t[ring_at(t, ring) + RING_BLOCK], top, lane, s)
    for q in range(t[member + MEMBER_LISTS_], t[member + MEMBER_LISTS_ + 1]):
        each = list_at(t, t[t[MEMBER_LISTS] + q])
        _empty_lane(t[each + LIST_FIRST], t[each + LIST_CAP], lane, s)


@kernel
def _empty_lane(block, slots, lane, s):
    t = s.i
    of = block_at(t, block)
    for slot in range(slots):
        for w in range(t[of + BLOCK_WIDTH]):
            here = cell(block, slot, w, lane, t)
            s.f[here], s.e[here] = 0.0, 0
        for y in range(t[of + BLOCK_EXTREMES]):
            s.f[xcell(block, slot, y, lane, t)] = np.inf


@kernel
def _forget(s):
    """Drop snapshots and entries that are in no open window."""
    t, n = s.i, s.i
    for number in range(t[N_RINGS]):
        ring = ring_at(t, number)
        oldest = NEVER
        for q in range(t[ring + RING_MEMBERS_], t[ring + RING_MEMBERS_ + 1]):
            oldest = min(oldest, n[t[OLDEST] + t[t[RING_MEMBERS] + q]])
        expire(number, oldest, s)
        block = t[ring + RING_BLOCK]
        if n[far_at(t, block)] or s.f[bound_at(s.i, block)] > LARGE:
            look_again(block, n[ring_state_at(t, number) + TOP], s)
    for number in range(t[N_LISTS]):
        each, work = list_at(t, number), list_work_at(t, number)
        oldest = NEVER
        for q in range(t[each + LIST_MEMBERS_], t[each + LIST_MEMBERS_ + 1]):
            oldest = min(oldest, n[t[OLDEST] + t[t[LIST_MEMBERS] + q]])
        while n[work + 1] > 0:
            if n[entry_at(t, t[each + LIST_ENTRIES] + n[work]) + ENTRY_ROW] >= oldest:
                break
            n[work] = (n[work] + 1) % t[each + LIST_CAP]
            n[work + 1] -= 1
    for block in range(t[END_BLOCK] + 1):  # inboxes come first, and that of whole trends is the last of them
        if n[far_at(t, block)] or s.f[bound_at(s.i, block)] > LARGE:
            look_again(block, ONE, s)
