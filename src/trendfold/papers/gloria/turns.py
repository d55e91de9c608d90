"""Windows of papers.gloria.kernel: they open, close, and take what is in no window with them."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.wide import wide_sum
from trendfold.papers.gloria.blocks import NONE, ONE, cell, look_again, xcell
from trendfold.papers.gloria.board import (
    BLOCK,
    BLOCK_EXTREMES,
    BLOCK_WIDTH,
    BLOCKS,
    BOUNDS,
    END_BLOCK,
    ENTRIES,
    ENTRY,
    ENTRY_ROW,
    FAR,
    FIRST,
    LIST,
    LIST_CAP,
    LIST_ENTRIES,
    LIST_FIRST,
    LIST_MEMBERS,
    LIST_MEMBERS_,
    LIST_WORK,
    LISTS,
    MEMBER,
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
    MEMBERS,
    N_LISTS,
    N_MEMBERS,
    N_RINGS,
    OLDEST,
    RING,
    RING_BLOCK,
    RING_MEMBERS,
    RING_MEMBERS_,
    RING_STATE,
    RING_WORK,
    RINGS,
    ROW,
    ROWS,
    TOP,
    WINDOWS,
)  # fmt: skip
from trendfold.papers.gloria.rings import expire, lane_least, lane_sum

LARGE = 2.0**128
"""Blocks with numbers past it are looked at again when windows close: they may have become smaller."""
NEVER = np.int64(1 << 60)


@kernel
def turn(i, rows, s, out):
    """Report the windows that end at row i and begin those that begin there.

    Returns the next row at which one does, and whether any is open.
    """
    t, n = s.i, s.i
    edge, is_open, has_closed = rows, False, False
    for k in range(t[N_MEMBERS]):
        member, own = t[MEMBERS] + MEMBER * k, t[FIRST] + 2 * k
        last = t[member + MEMBER_WINDOWS + 1]
        first, upto = n[own], n[own + 1]
        while first < upto and t[t[WINDOWS] + 2 * first + 1] <= i:
            _close(member, first, s, out)
            has_closed = True
            first += 1
        while upto < last and t[t[WINDOWS] + 2 * upto] <= i:
            lane = _lane_of(member, upto, s)
            for q in range(t[member + MEMBER_STARTS_], t[member + MEMBER_STARTS_ + 1]):
                s.f[cell(t[t[MEMBER_STARTS] + q], NONE, NONE, lane, t)] = 1.0
                s.f[s.i[BOUNDS] + t[t[MEMBER_STARTS] + q]] += 1.0
            upto += 1
        n[own], n[own + 1] = first, upto
        n[t[OLDEST] + k] = NEVER
        if first < upto:
            is_open = True
            edge = min(edge, t[t[WINDOWS] + 2 * first + 1])
            n[t[OLDEST] + k] = t[t[WINDOWS] + 2 * first]
        if upto < last:
            edge = min(edge, t[t[WINDOWS] + 2 * upto])
    if has_closed:
        _forget(s)
    return edge, is_open


@kernel
def _lane_of(member, window, s):
    t = s.i
    return t[member + MEMBER_LANE] + (window - t[member + MEMBER_WINDOWS]) % t[member + MEMBER_LANES]


@kernel
def _close(member, window, s, out):
    """Report a window, whole trends as values and as expressions; its lane is empty then."""
    t, n, m, e, x = s.i, s.i, s.f, s.e, s.f
    lane, end = _lane_of(member, window, s), t[END_BLOCK]
    for w in range(t[member + MEMBER_WIDTH]):
        here = cell(end, NONE, w, lane, t)
        sum_m, sum_e = m[here], e[here]
        for q in range(t[member + MEMBER_ENDS_], t[member + MEMBER_ENDS_ + 1]):
            row = t[t[MEMBER_ENDS] + q]
            part_m, part_e = lane_sum(t[t[ROWS] + ROW * row], row, w, lane, s)
            sum_m, sum_e = wide_sum(sum_m, sum_e, part_m, part_e)
        out.mantissa[window, w], out.exponent[window, w] = sum_m, sum_e
    for y in range(t[member + MEMBER_EXTREMES]):
        best = x[xcell(end, NONE, y, lane, t)]
        for q in range(t[member + MEMBER_ENDS_], t[member + MEMBER_ENDS_ + 1]):
            row = t[t[MEMBER_ENDS] + q]
            best = min(best, lane_least(t[t[ROWS] + ROW * row], row, y, lane, s))
        out.extreme[window, y] = best
    for q in range(t[member + MEMBER_BLOCKS_], t[member + MEMBER_BLOCKS_ + 1]):
        _empty_lane(t[t[MEMBER_BLOCKS] + q], ONE, lane, s)
    for q in range(t[member + MEMBER_RINGS_], t[member + MEMBER_RINGS_ + 1]):
        ring = t[t[MEMBER_RINGS] + q]
        top = n[t[RING_WORK] + RING_STATE * ring + TOP]
        _empty_lane(t[t[RINGS] + RING * ring + RING_BLOCK], top, lane, s)
    for q in range(t[member + MEMBER_LISTS_], t[member + MEMBER_LISTS_ + 1]):
        each = t[LISTS] + LIST * t[t[MEMBER_LISTS] + q]
        _empty_lane(t[each + LIST_FIRST], t[each + LIST_CAP], lane, s)


@kernel
def _empty_lane(block, slots, lane, s):
    t = s.i
    of = t[BLOCKS] + BLOCK * block
    for slot in range(slots):
        for w in range(t[of + BLOCK_WIDTH]):
            here = cell(block, slot, w, lane, t)
            s.f[here], s.e[here] = 0.0, 0
        for y in range(t[of + BLOCK_EXTREMES]):
            s.f[xcell(block, slot, y, lane, t)] = np.inf


@kernel
def _forget(s):
    """Snapshots and entries that are in no open window."""
    t, n = s.i, s.i
    for number in range(t[N_RINGS]):
        ring = t[RINGS] + RING * number
        oldest = NEVER
        for q in range(t[ring + RING_MEMBERS_], t[ring + RING_MEMBERS_ + 1]):
            oldest = min(oldest, n[t[OLDEST] + t[t[RING_MEMBERS] + q]])
        expire(number, oldest, s)
        block = t[ring + RING_BLOCK]
        if n[t[FAR] + block] or s.f[s.i[BOUNDS] + block] > LARGE:
            look_again(block, n[t[RING_WORK] + RING_STATE * number + TOP], s)
    for number in range(t[N_LISTS]):
        each, work = t[LISTS] + LIST * number, t[LIST_WORK] + 2 * number
        oldest = NEVER
        for q in range(t[each + LIST_MEMBERS_], t[each + LIST_MEMBERS_ + 1]):
            oldest = min(oldest, n[t[OLDEST] + t[t[LIST_MEMBERS] + q]])
        while n[work + 1] > 0:
            if n[t[ENTRIES] + ENTRY * (t[each + LIST_ENTRIES] + n[work]) + ENTRY_ROW] >= oldest:
                break
            n[work] = (n[work] + 1) % t[each + LIST_CAP]
            n[work + 1] -= 1
    for block in range(t[END_BLOCK] + 1):  # inboxes come first, and that of whole trends is the last of them
        if n[t[FAR] + block] or s.f[s.i[BOUNDS] + block] > LARGE:
            look_again(block, ONE, s)
