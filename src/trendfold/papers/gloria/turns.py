"""Windows of papers.gloria.kernel: open, report and close them, and drop what no open window needs."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.wide import wide_sum
from trendfold.papers.gloria import board as rec
from trendfold.papers.gloria.blocks import NONE, ONE, cell, look_again, xcell
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
    for k in range(t[rec.N_MEMBERS]):
        member, own = rec.member_at(t, k), rec.open_windows_at(t, k)
        last = t[member + rec.MEMBER_WINDOWS + 1]
        first, upto = n[own], n[own + 1]
        while first < upto and t[rec.window_at(t, first) + 1] <= i:
            _close(member, first, s, out)
            has_closed = True
            first += 1
        while upto < last and t[rec.window_at(t, upto)] <= i:
            lane = _lane_of(member, upto, s)
            for q in range(t[member + rec.MEMBER_STARTS_], t[member + rec.MEMBER_STARTS_ + 1]):
                s.f[cell(t[t[rec.MEMBER_STARTS] + q], NONE, NONE, lane, t)] = 1.0
                s.f[rec.bound_at(s.i, t[t[rec.MEMBER_STARTS] + q])] += 1.0
            upto += 1
        n[own], n[own + 1] = first, upto
        n[t[rec.OLDEST] + k] = NEVER
        if first < upto:
            is_open = True
            edge = min(edge, t[rec.window_at(t, first) + 1])
            n[t[rec.OLDEST] + k] = t[rec.window_at(t, first)]
        if upto < last:
            edge = min(edge, t[rec.window_at(t, upto)])
    if has_closed:
        _forget(s)
    return edge, is_open


@kernel
def _lane_of(member, window, s):
    t = s.i
    return (
        t[member + rec.MEMBER_LANE] + (window - t[member + rec.MEMBER_WINDOWS]) % t[member + rec.MEMBER_LANES]
    )


@kernel
def _close(member, window, s, out):
    """Report a window, whole trends as values and as expressions, and empty its lane."""
    t, n, m, e, x = s.i, s.i, s.f, s.e, s.f
    lane, end = _lane_of(member, window, s), t[rec.END_BLOCK]
    for w in range(t[member + rec.MEMBER_WIDTH]):
        here = cell(end, NONE, w, lane, t)
        sum_m, sum_e = m[here], e[here]
        for q in range(t[member + rec.MEMBER_ENDS_], t[member + rec.MEMBER_ENDS_ + 1]):
            row = t[t[rec.MEMBER_ENDS] + q]
            part_m, part_e = lane_sum(rec.row_ring(t, row), row, w, lane, s)
            sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
        out.mantissa[window, w], out.exponent[window, w] = sum_m, sum_e
    for y in range(t[member + rec.MEMBER_EXTREMES]):
        best = x[xcell(end, NONE, y, lane, t)]
        for q in range(t[member + rec.MEMBER_ENDS_], t[member + rec.MEMBER_ENDS_ + 1]):
            row = t[t[rec.MEMBER_ENDS] + q]
            best = min(best, lane_least(rec.row_ring(t, row), row, y, lane, s))
        out.extreme[window, y] = best
    for q in range(t[member + rec.MEMBER_BLOCKS_], t[member + rec.MEMBER_BLOCKS_ + 1]):
        _empty_lane(t[t[rec.MEMBER_BLOCKS] + q], ONE, lane, s)
    for q in range(t[member + rec.MEMBER_RINGS_], t[member + rec.MEMBER_RINGS_ + 1]):
        ring = t[t[rec.MEMBER_RINGS] + q]
        top = n[rec.ring_state_at(t, ring) + rec.TOP]
        _empty_lane(t[rec.ring_at(t, ring) + rec.RING_BLOCK], top, lane, s)
    for q in range(t[member + rec.MEMBER_LISTS_], t[member + rec.MEMBER_LISTS_ + 1]):
        each = rec.list_at(t, t[t[rec.MEMBER_LISTS] + q])
        _empty_lane(t[each + rec.LIST_FIRST], t[each + rec.LIST_CAP], lane, s)


@kernel
def _empty_lane(block, slots, lane, s):
    t = s.i
    of = rec.block_at(t, block)
    for slot in range(slots):
        for w in range(t[of + rec.BLOCK_WIDTH]):
            here = cell(block, slot, w, lane, t)
            s.f[here], s.e[here] = 0.0, 0
        for y in range(t[of + rec.BLOCK_EXTREMES]):
            s.f[xcell(block, slot, y, lane, t)] = np.inf


@kernel
def _forget(s):
    """Drop snapshots and entries that are in no open window."""
    t, n = s.i, s.i
    for number in range(t[rec.N_RINGS]):
        ring = rec.ring_at(t, number)
        oldest = NEVER
        for q in range(t[ring + rec.RING_MEMBERS_], t[ring + rec.RING_MEMBERS_ + 1]):
            oldest = min(oldest, n[t[rec.OLDEST] + t[t[rec.RING_MEMBERS] + q]])
        expire(number, oldest, s)
        block = t[ring + rec.RING_BLOCK]
        if n[rec.far_at(t, block)] or s.f[rec.bound_at(s.i, block)] > LARGE:
            look_again(block, n[rec.ring_state_at(t, number) + rec.TOP], s)
    for number in range(t[rec.N_LISTS]):
        each, work = rec.list_at(t, number), rec.list_work_at(t, number)
        oldest = NEVER
        for q in range(t[each + rec.LIST_MEMBERS_], t[each + rec.LIST_MEMBERS_ + 1]):
            oldest = min(oldest, n[t[rec.OLDEST] + t[t[rec.LIST_MEMBERS] + q]])
        while n[work + 1] > 0:
            if n[rec.entry_at(t, t[each + rec.LIST_ENTRIES] + n[work]) + rec.ENTRY_ROW] >= oldest:
                break
            n[work] = (n[work] + 1) % t[each + rec.LIST_CAP]
            n[work + 1] -= 1
    for block in range(
        t[rec.END_BLOCK] + 1
    ):  # inboxes come first, and that of whole trends is the last of them
        if n[rec.far_at(t, block)] or s.f[rec.bound_at(s.i, block)] > LARGE:
            look_again(block, ONE, s)
