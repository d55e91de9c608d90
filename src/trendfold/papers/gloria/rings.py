"""Rings of snapshots, and rows of coefficients over them (see papers.gloria.kernel)."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.simd import gather_rows
from trendfold.kernel.wide import RADIX, lowered, normalise
from trendfold.papers.gloria.blocks import NONE, cell, fill, look_again, xcell
from trendfold.papers.gloria.board import (
    BLOCK_BASE,
    BLOCK_EXTREMES,
    BLOCK_LO,
    BLOCK_SIZE,
    BLOCK_WIDTH,
    BLOCK_XBASE,
    ENTRY_SLOT,
    FOLDINGS,
    FULL,
    IS_FULL,
    LANE_PHIS,
    LANE_PSIS,
    LIST_CAP,
    LIST_ENTRIES,
    LIST_FIRST,
    N_RINGS,
    N_ROWS,
    OPEN,
    RING_BLOCK,
    RING_CAP,
    RING_LANE_PHIS,
    RING_LANE_PSIS,
    RING_LISTS,
    RING_LISTS_,
    RING_PHIS,
    RING_PSIS,
    RING_RESERVE,
    RING_ROWS,
    RING_ROWS_,
    RING_SLOTS,
    RING_SPARE,
    SLOTS,
    SNAPSHOTS,
    TALLY,
    TOP,
    USED,
    block_at,
    entry_at,
    far_at,
    list_at,
    list_work_at,
    ring_at,
    ring_state_at,
    row_begin,
    row_bound_at,
    row_ring,
)  # fmt: skip

LARGEST = 2.0**400
"""A ring is folded up when the coefficients of one of its rows add up to more."""


@kernel
def begin(s):
    """No snapshots yet: slots are free, and μ is infinite."""
    t, n, c = s.i, s.i, s.f
    for r in range(t[N_RINGS]):
        ring = ring_at(t, r)
        n[ring_state_at(t, r) + OPEN] = -1
        for slot in range(t[ring + RING_CAP]):
            n[t[SLOTS] + t[ring + RING_SLOTS] + slot] = -1
    for row in range(t[N_ROWS]):
        ring = ring_at(t, row_ring(t, row))
        cap, sums = t[ring + RING_CAP], 1 + t[ring + RING_PHIS]
        fill(c, row_begin(t, row) + sums * cap, t[ring + RING_PSIS] * cap, np.inf)


@kernel
def new_slot(number, row, s):
    """A snapshot that is 0 in all lanes; its last event is that of `row`."""
    t, n = s.i, s.i
    ring, work = ring_at(t, number), ring_state_at(t, number)
    slots, slot = t[SLOTS] + t[ring + RING_SLOTS], 0
    while n[slots + slot] >= 0:
        slot += 1
    n[slots + slot] = row
    n[work + TOP] = max(n[work + TOP], slot + 1)
    n[work + USED] += 1
    n[t[TALLY] + SNAPSHOTS] += 1
    if n[work + USED] + t[ring + RING_RESERVE] > t[ring + RING_CAP]:
        n[work + FULL] = n[t[TALLY] + IS_FULL] = 1
    of = block_at(t, t[ring + RING_BLOCK])
    cells = t[of + BLOCK_SIZE] * t[of + BLOCK_WIDTH]
    first = t[of + BLOCK_BASE] + slot * cells
    fill(s.f, first, cells, 0.0)
    for here in range(first, first + cells):
        s.e[here] = 0
    cells = t[of + BLOCK_SIZE] * t[of + BLOCK_EXTREMES]
    fill(s.f, t[of + BLOCK_XBASE] + slot * cells, cells, np.inf)
    return slot


@kernel
def add_row(to, source, s):
    """Add the coefficients of a row to another of the same ring."""
    t, n, c = s.i, s.i, s.f
    number = row_ring(t, to)
    ring, work = ring_at(t, number), ring_state_at(t, number)
    cap, top = t[ring + RING_CAP], n[work + TOP]
    d, o = row_begin(t, to), row_begin(t, source)
    for part in range(1 + t[ring + RING_PHIS]):
        gather_rows(c, d + part * cap, 1.0, c, o + part * cap, top, 1.0, c, 0)
    for part in range(1 + t[ring + RING_PHIS], 1 + t[ring + RING_PHIS] + t[ring + RING_PSIS]):
        for slot in range(top):
            c[d + part * cap + slot] = min(c[d + part * cap + slot], c[o + part * cap + slot])
    grow(to, source, s)


@kernel
def grow(to, source, s):
    """Raise the bound of a row to which another was added; past LARGEST its ring must be folded up."""
    t, n = s.i, s.i
    bound = row_bound_at(t, to)
    s.f[bound] += s.f[row_bound_at(t, source)]
    if not s.f[bound] < LARGEST:
        work = ring_state_at(t, row_ring(t, to))
        d, total = row_begin(t, to), 0.0
        for slot in range(n[work + TOP]):
            total += s.f[d + slot]
        s.f[bound] = total
        if not total < LARGEST:
            n[work + FULL] = n[t[TALLY] + IS_FULL] = 1


@kernel
def whole_vectors(lanes):
    """The number of lanes, rounded up to whole vectors."""
    return (lanes + 7) // 8 * 8


@kernel
def clear_row(row, s):
    """Set all coefficients of a row to zero."""
    t, c = s.i, s.f
    ring = ring_at(t, row_ring(t, row))
    cap, d = t[ring + RING_CAP], row_begin(t, row)
    top = whole_vectors(s.i[ring_state_at(t, row_ring(t, row)) + TOP])
    for part in range(1 + t[ring + RING_PHIS]):
        fill(c, d + part * cap, top, 0.0)
    for part in range(1 + t[ring + RING_PHIS], 1 + t[ring + RING_PHIS] + t[ring + RING_PSIS]):
        fill(c, d + part * cap, top, np.inf)
    s.f[row_bound_at(s.i, row)] = 0.0


@kernel
def lane_sum(number, row, w, lane, s):
    """Number w of a lane by a row's coefficients, as a wide number.

    Coefficients are below 2^600 or so: of values whose exponents are four apart, the smaller adds nothing.
    """
    t, m, e, c = s.i, s.f, s.e, s.f
    ring = ring_at(t, number)
    block, cap = t[ring + RING_BLOCK], t[ring + RING_CAP]
    of = block_at(t, block)
    if w >= t[of + BLOCK_WIDTH]:
        return 0.0, np.int32(0)
    here, upto = row_begin(t, row), s.i[ring_state_at(t, number) + TOP]
    phi = t[t[LANE_PHIS] + t[ring + RING_LANE_PHIS] + w * t[of + BLOCK_SIZE] + lane - t[of + BLOCK_LO]]
    sigma = here + (1 + phi) * cap if phi >= 0 else NONE
    if s.i[far_at(t, block)] == 0:
        return _plain_sum(
            cell(block, NONE, w, lane, t), cell(block, NONE, NONE, lane, t), here, sigma, upto, of, s
        )
    top = np.int32(0)
    for slot in range(upto):
        if c[here + slot] != 0.0:
            top = max(top, e[cell(block, slot, w, lane, t)])
        if phi >= 0 and c[sigma + slot] != 0.0:
            top = max(top, e[cell(block, slot, NONE, lane, t)])
    total = 0.0
    for slot in range(upto):
        at = cell(block, slot, w, lane, t)
        total += m[at] * lowered(top - e[at]) * c[here + slot]
        if phi >= 0:
            at = cell(block, slot, NONE, lane, t)
            total += m[at] * lowered(top - e[at]) * c[sigma + slot]
    total, top = normalise(total, top)
    if total == 0.0:
        return 0.0, np.int32(0)
    while top > 0 and abs(total) < 1.0:
        total *= RADIX
        top -= np.int32(1)
    return total, top


@kernel
def _plain_sum(at, count, row, sigma, upto, of, s):
    """`lane_sum` where no value has an exponent; without σ, `sigma` is 0. Slots lie `step` cells apart."""
    step, total = s.i[of + BLOCK_WIDTH] * s.i[of + BLOCK_SIZE], 0.0
    for slot in range(upto):
        total += s.f[at + slot * step] * s.f[row + slot]
    if sigma > 0:
        for slot in range(upto):
            total += s.f[count + slot * step] * s.f[sigma + slot]
    return normalise(total, np.int32(0))


@kernel
def lane_least(number, row, y, lane, s):
    """Extreme y of a lane, from the snapshots that hold any mass and are in the row."""
    t, m, x, c = s.i, s.f, s.f, s.f
    ring = ring_at(t, number)
    block, cap = t[ring + RING_BLOCK], t[ring + RING_CAP]
    of = block_at(t, block)
    best = np.inf
    if y >= t[of + BLOCK_EXTREMES]:
        return best
    here = row_begin(t, row)
    psi = t[t[LANE_PSIS] + t[ring + RING_LANE_PSIS] + y * t[of + BLOCK_SIZE] + lane - t[of + BLOCK_LO]]
    mu = here + (1 + t[ring + RING_PHIS] + psi) * cap
    for slot in range(s.i[ring_state_at(t, number) + TOP]):
        if c[here + slot] != 0.0 and m[cell(block, slot, NONE, lane, t)] != 0.0:
            best = min(best, x[xcell(block, slot, y, lane, t)])
            if psi >= 0:
                best = min(best, c[mu + slot])
    return best


@kernel
def expire(number, oldest, s):
    """Free the snapshots from before row `oldest`, at which the oldest open window begins."""
    t, n, c = s.i, s.i, s.f
    ring, work = ring_at(t, number), ring_state_at(t, number)
    slots, cap = t[SLOTS] + t[ring + RING_SLOTS], t[ring + RING_CAP]
    sums, parts = 1 + t[ring + RING_PHIS], 1 + t[ring + RING_PHIS] + t[ring + RING_PSIS]
    top = 0
    for slot in range(n[work + TOP]):
        if n[slots + slot] < 0:
            continue
        if n[slots + slot] >= oldest:
            top = slot + 1
            continue
        n[slots + slot] = -1
        n[work + USED] -= 1
        if n[work + OPEN] == slot:
            n[work + OPEN] = -1
        for q in range(t[ring + RING_ROWS_], t[ring + RING_ROWS_ + 1]):
            row = row_begin(t, t[t[RING_ROWS] + q])
            for part in range(parts):
                c[row + part * cap + slot] = 0.0 if part < sums else np.inf
        for q in range(t[ring + RING_LISTS_], t[ring + RING_LISTS_ + 1]):
            each = list_at(t, t[t[RING_LISTS] + q])
            for at in range(t[each + LIST_CAP]):
                row = row_begin(t, t[each + LIST_FIRST] + at)
                for part in range(parts):
                    c[row + part * cap + slot] = 0.0 if part < sums else np.inf
    n[work + TOP] = top


# ---------------------------------------------------------------- folding up


@kernel
def fold_up(row, s):
    """Make one snapshot of each row of every ring that is full; all events so far are before `row`."""
    t, n = s.i, s.i
    for number in range(t[N_RINGS]):
        work = ring_state_at(t, number)
        if n[work + FULL]:
            n[t[TALLY] + FOLDINGS] += 1
            made = _fold_rows(number, s)
            _take_back(number, made, row - 1, s)
            n[work + FULL] = 0
    n[t[TALLY] + IS_FULL] = 0


@kernel
def _fold_rows(number, s):
    """Evaluate all rows and entries into the spare block; returns how many there are."""
    t, n = s.i, s.i
    ring, made = ring_at(t, number), NONE
    for q in range(t[ring + RING_ROWS_], t[ring + RING_ROWS_ + 1]):
        row = t[t[RING_ROWS] + q]
        if _is_some(number, row, s):
            _fold_row(number, row, made, s)
            made += 1
    for q in range(t[ring + RING_LISTS_], t[ring + RING_LISTS_ + 1]):
        listed = t[t[RING_LISTS] + q]
        each, work = list_at(t, listed), list_work_at(t, listed)
        for k in range(n[work + 1]):
            at = (n[work] + k) % t[each + LIST_CAP]
            entry = entry_at(t, t[each + LIST_ENTRIES] + at)
            row = t[each + LIST_FIRST] + at
            if n[entry + ENTRY_SLOT] >= 0:
                clear_row(row, s)
                s.f[row_begin(t, row) + n[entry + ENTRY_SLOT]] = 1.0
            _fold_row(number, row, made, s)
            made += 1
    return made


@kernel
def _is_some(number, row, s):
    here, top = row_begin(s.i, row), s.i[ring_state_at(s.i, number) + TOP]
    found = 0
    for slot in range(top):
        found += s.f[here + slot] != 0.0
    return found > 0


@kernel
def _fold_row(number, row, made, s):
    """Evaluate one row in all lanes of its ring."""
    t = s.i
    spare = t[ring_at(t, number) + RING_SPARE]
    of = block_at(t, spare)
    lo = t[of + BLOCK_LO]
    for lane in range(lo, lo + t[of + BLOCK_SIZE]):
        for w in range(t[of + BLOCK_WIDTH]):
            at = cell(spare, made, w, lane, t)
            s.f[at], s.e[at] = lane_sum(number, row, w, lane, s)
        for y in range(t[of + BLOCK_EXTREMES]):
            s.f[xcell(spare, made, y, lane, t)] = lane_least(number, row, y, lane, s)


@kernel
def _take_back(number, made, last, s):
    """Make the evaluated rows the only snapshots of the ring; each row is one of them."""
    t, n, c = s.i, s.i, s.f
    ring, work = ring_at(t, number), ring_state_at(t, number)
    slots, slot = t[SLOTS] + t[ring + RING_SLOTS], 0
    for q in range(t[ring + RING_ROWS_], t[ring + RING_ROWS_ + 1]):
        row = t[t[RING_ROWS] + q]
        is_some = _is_some(number, row, s)
        clear_row(row, s)
        if is_some:
            c[row_begin(t, row) + slot] = 1.0
            s.f[row_bound_at(s.i, row)] = 1.0
            slot += 1
    for q in range(t[ring + RING_LISTS_], t[ring + RING_LISTS_ + 1]):
        listed = t[t[RING_LISTS] + q]
        each, own = list_at(t, listed), list_work_at(t, listed)
        for k in range(n[own + 1]):
            at = (n[own] + k) % t[each + LIST_CAP]
            n[entry_at(t, t[each + LIST_ENTRIES] + at) + ENTRY_SLOT] = slot
            clear_row(t[each + LIST_FIRST] + at, s)
            slot += 1
    for here in range(max(n[work + TOP], made)):
        n[slots + here] = last if here < made else -1
    n[work + TOP], n[work + USED], n[work + OPEN] = made, made, -1
    block, spare = t[ring + RING_BLOCK], t[ring + RING_SPARE]
    one, other = block_at(t, block), block_at(t, spare)
    to, of = t[one + BLOCK_BASE], t[other + BLOCK_BASE]
    for here in range(made * t[one + BLOCK_SIZE] * t[one + BLOCK_WIDTH]):
        s.f[to + here], s.e[to + here] = s.f[of + here], s.e[of + here]
    to, of = t[one + BLOCK_XBASE], t[other + BLOCK_XBASE]
    for here in range(made * t[one + BLOCK_SIZE] * t[one + BLOCK_EXTREMES]):
        s.f[to + here] = s.f[of + here]
    look_again(block, made, s)
