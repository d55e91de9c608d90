"""Rings of snapshots, and rows of coefficients over them (see papers.gloria.kernel)."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.simd import gather_rows
from trendfold.kernel.wide import RADIX, lowered, normalise
from trendfold.papers.gloria import board as rec
from trendfold.papers.gloria.blocks import NONE, cell, fill, look_again, xcell

LARGEST = 2.0**400
"""A ring is folded up when the coefficients of one of its rows add up to more."""


@kernel
def begin(s):
    """No snapshots yet: slots are free, and μ is infinite."""
    t, n, c = s.i, s.i, s.f
    for r in range(t[rec.N_RINGS]):
        ring = rec.ring_at(t, r)
        n[rec.ring_state_at(t, r) + rec.OPEN] = -1
        for slot in range(t[ring + rec.RING_CAP]):
            n[t[rec.SLOTS] + t[ring + rec.RING_SLOTS] + slot] = -1
    for row in range(t[rec.N_ROWS]):
        ring = rec.ring_at(t, rec.row_ring(t, row))
        cap, sums = t[ring + rec.RING_CAP], 1 + t[ring + rec.RING_PHIS]
        fill(c, rec.row_begin(t, row) + sums * cap, t[ring + rec.RING_PSIS] * cap, np.inf)


@kernel
def new_slot(number, row, s):
    """A snapshot that is 0 in all lanes; its last event is that of `row`."""
    t, n = s.i, s.i
    ring, work = rec.ring_at(t, number), rec.ring_state_at(t, number)
    slots, slot = t[rec.SLOTS] + t[ring + rec.RING_SLOTS], 0
    while n[slots + slot] >= 0:
        slot += 1
    n[slots + slot] = row
    n[work + rec.TOP] = max(n[work + rec.TOP], slot + 1)
    n[work + rec.USED] += 1
    n[t[rec.TALLY] + rec.SNAPSHOTS] += 1
    if n[work + rec.USED] + t[ring + rec.RING_RESERVE] > t[ring + rec.RING_CAP]:
        n[work + rec.FULL] = n[t[rec.TALLY] + rec.IS_FULL] = 1
    of = rec.block_at(t, t[ring + rec.RING_BLOCK])
    cells = t[of + rec.BLOCK_SIZE] * t[of + rec.BLOCK_WIDTH]
    first = t[of + rec.BLOCK_BASE] + slot * cells
    fill(s.f, first, cells, 0.0)
    for here in range(first, first + cells):
        s.e[here] = 0
    cells = t[of + rec.BLOCK_SIZE] * t[of + rec.BLOCK_EXTREMES]
    fill(s.f, t[of + rec.BLOCK_XBASE] + slot * cells, cells, np.inf)
    return slot


@kernel
def add_row(to, source, s):
    """Add the coefficients of a row to another of the same ring."""
    t, n, c = s.i, s.i, s.f
    number = rec.row_ring(t, to)
    ring, work = rec.ring_at(t, number), rec.ring_state_at(t, number)
    cap, top = t[ring + rec.RING_CAP], n[work + rec.TOP]
    d, o = rec.row_begin(t, to), rec.row_begin(t, source)
    for part in range(1 + t[ring + rec.RING_PHIS]):
        gather_rows(c, d + part * cap, 1.0, c, o + part * cap, top, 1.0, c, 0)
    for part in range(1 + t[ring + rec.RING_PHIS], 1 + t[ring + rec.RING_PHIS] + t[ring + rec.RING_PSIS]):
        for slot in range(top):
            c[d + part * cap + slot] = min(c[d + part * cap + slot], c[o + part * cap + slot])
    grow(to, source, 1.0, s)


@kernel
def grow(to, source, k_times, s):
    """Raise the bound of a row to which another was added so often; past LARGEST its ring is folded up."""
    t, n = s.i, s.i
    bound = rec.row_bound_at(t, to)
    s.f[bound] += s.f[rec.row_bound_at(t, source)]
    if not s.f[bound] < LARGEST:
        work = rec.ring_state_at(t, rec.row_ring(t, to))
        d, total = rec.row_begin(t, to), 0.0
        for slot in range(n[work + rec.TOP]):
            total += s.f[d + slot]
        s.f[bound] = total
        if not total < LARGEST:
            n[work + rec.FULL] = n[t[rec.TALLY] + rec.IS_FULL] = 1


@kernel
def whole_vectors(lanes):
    """The number of lanes, rounded up to whole vectors."""
    return (lanes + 7) // 8 * 8


@kernel
def clear_row(row, s):
    """Set all coefficients of a row to zero."""
    t, c = s.i, s.f
    ring = rec.ring_at(t, rec.row_ring(t, row))
    cap, d = t[ring + rec.RING_CAP], rec.row_begin(t, row)
    top = whole_vectors(s.i[rec.ring_state_at(t, rec.row_ring(t, row)) + rec.TOP])
    for part in range(1 + t[ring + rec.RING_PHIS]):
        fill(c, d + part * cap, top, 0.0)
    for part in range(1 + t[ring + rec.RING_PHIS], 1 + t[ring + rec.RING_PHIS] + t[ring + rec.RING_PSIS]):
        fill(c, d + part * cap, top, np.inf)
    s.f[rec.row_bound_at(s.i, row)] = 0.0


@kernel
def lane_sum(number, row, w, lane, s):
    """Number w of a lane by a row's coefficients, as a wide number.

    Coefficients are below 2^600 or so: of values whose exponents are four apart, the smaller adds nothing.
    """
    t, m, e, c = s.i, s.f, s.e, s.f
    ring = rec.ring_at(t, number)
    block, cap = t[ring + rec.RING_BLOCK], t[ring + rec.RING_CAP]
    of = rec.block_at(t, block)
    if w >= t[of + rec.BLOCK_WIDTH]:
        return 0.0, np.int32(0)
    here, upto = rec.row_begin(t, row), s.i[rec.ring_state_at(t, number) + rec.TOP]
    phi = t[
        t[rec.LANE_PHIS]
        + t[ring + rec.RING_LANE_PHIS]
        + w * t[of + rec.BLOCK_SIZE]
        + lane
        - t[of + rec.BLOCK_LO]
    ]
    sigma = here + (1 + phi) * cap if phi >= 0 else NONE
    if s.i[rec.far_at(t, block)] == 0:
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
    step, total = s.i[of + rec.BLOCK_WIDTH] * s.i[of + rec.BLOCK_SIZE], 0.0
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
    ring = rec.ring_at(t, number)
    block, cap = t[ring + rec.RING_BLOCK], t[ring + rec.RING_CAP]
    of = rec.block_at(t, block)
    best = np.inf
    if y >= t[of + rec.BLOCK_EXTREMES]:
        return best
    here = rec.row_begin(t, row)
    psi = t[
        t[rec.LANE_PSIS]
        + t[ring + rec.RING_LANE_PSIS]
        + y * t[of + rec.BLOCK_SIZE]
        + lane
        - t[of + rec.BLOCK_LO]
    ]
    mu = here + (1 + t[ring + rec.RING_PHIS] + psi) * cap
    for slot in range(s.i[rec.ring_state_at(t, number) + rec.TOP]):
        if c[here + slot] != 0.0 and m[cell(block, slot, NONE, lane, t)] != 0.0:
            best = min(best, x[xcell(block, slot, y, lane, t)])
            if psi >= 0:
                best = min(best, c[mu + slot])
    return best


@kernel
def expire(number, oldest, s):
    """Free the snapshots from before row `oldest`, at which the oldest open window begins."""
    t, n, c = s.i, s.i, s.f
    ring, work = rec.ring_at(t, number), rec.ring_state_at(t, number)
    slots, cap = t[rec.SLOTS] + t[ring + rec.RING_SLOTS], t[ring + rec.RING_CAP]
    sums, parts = 1 + t[ring + rec.RING_PHIS], 1 + t[ring + rec.RING_PHIS] + t[ring + rec.RING_PSIS]
    top = 0
    for slot in range(n[work + rec.TOP]):
        if n[slots + slot] < 0:
            continue
        if n[slots + slot] >= oldest:
            top = slot + 1
            continue
        n[slots + slot] = -1
        n[work + rec.USED] -= 1
        if n[work + rec.OPEN] == slot:
            n[work + rec.OPEN] = -1
        for q in range(t[ring + rec.RING_ROWS_], t[ring + rec.RING_ROWS_ + 1]):
            row = rec.row_begin(t, t[t[rec.RING_ROWS] + q])
            for part in range(parts):
                c[row + part * cap + slot] = 0.0 if part < sums else np.inf
        for q in range(t[ring + rec.RING_LISTS_], t[ring + rec.RING_LISTS_ + 1]):
            each = rec.list_at(t, t[t[rec.RING_LISTS] + q])
            for at in range(t[each + rec.LIST_CAP]):
                row = rec.row_begin(t, t[each + rec.LIST_FIRST] + at)
                for part in range(parts):
                    c[row + part * cap + slot] = 0.0 if part < sums else np.inf
    n[work + rec.TOP] = top


# ---------------------------------------------------------------- folding up


@kernel
def fold_up(row, s):
    """Make one snapshot of each row of every ring that is full; all events so far are before `row`."""
    t, n = s.i, s.i
    for number in range(t[rec.N_RINGS]):
        work = rec.ring_state_at(t, number)
        if n[work + rec.FULL]:
            n[t[rec.TALLY] + rec.FOLDINGS] += 1
            made = _fold_rows(number, s)
            _take_back(number, made, row - 1, s)
            n[work + rec.FULL] = 0
    n[t[rec.TALLY] + rec.IS_FULL] = 0


@kernel
def _fold_rows(number, s):
    """Evaluate all rows and entries into the spare block; returns how many there are."""
    t, n = s.i, s.i
    ring, made = rec.ring_at(t, number), NONE
    for q in range(t[ring + rec.RING_ROWS_], t[ring + rec.RING_ROWS_ + 1]):
        row = t[t[rec.RING_ROWS] + q]
        if _is_some(number, row, s):
            _fold_row(number, row, made, s)
            made += 1
    for q in range(t[ring + rec.RING_LISTS_], t[ring + rec.RING_LISTS_ + 1]):
        listed = t[t[rec.RING_LISTS] + q]
        each, work = rec.list_at(t, listed), rec.list_work_at(t, listed)
        for k in range(n[work + 1]):
            at = (n[work] + k) % t[each + rec.LIST_CAP]
            entry = rec.entry_at(t, t[each + rec.LIST_ENTRIES] + at)
            row = t[each + rec.LIST_FIRST] + at
            if n[entry + rec.ENTRY_SLOT] >= 0:
                clear_row(row, s)
                s.f[rec.row_begin(t, row) + n[entry + rec.ENTRY_SLOT]] = 1.0
            _fold_row(number, row, made, s)
            made += 1
    return made


@kernel
def _is_some(number, row, s):
    here, top = rec.row_begin(s.i, row), s.i[rec.ring_state_at(s.i, number) + rec.TOP]
    found = 0
    for slot in range(top):
        found += s.f[here + slot] != 0.0
    return found > 0


@kernel
def _fold_row(number, row, made, s):
    """Evaluate one row in all lanes of its ring."""
    t = s.i
    spare = t[rec.ring_at(t, number) + rec.RING_SPARE]
    of = rec.block_at(t, spare)
    lo = t[of + rec.BLOCK_LO]
    for lane in range(lo, lo + t[of + rec.BLOCK_SIZE]):
        for w in range(t[of + rec.BLOCK_WIDTH]):
            at = cell(spare, made, w, lane, t)
            s.f[at], s.e[at] = lane_sum(number, row, w, lane, s)
        for y in range(t[of + rec.BLOCK_EXTREMES]):
            s.f[xcell(spare, made, y, lane, t)] = lane_least(number, row, y, lane, s)


@kernel
def _take_back(number, made, last, s):
    """Make the evaluated rows the only snapshots of the ring; each row is one of them."""
    t, n, c = s.i, s.i, s.f
    ring, work = rec.ring_at(t, number), rec.ring_state_at(t, number)
    slots, slot = t[rec.SLOTS] + t[ring + rec.RING_SLOTS], 0
    for q in range(t[ring + rec.RING_ROWS_], t[ring + rec.RING_ROWS_ + 1]):
        row = t[t[rec.RING_ROWS] + q]
        is_some = _is_some(number, row, s)
        clear_row(row, s)
        if is_some:
            c[rec.row_begin(t, row) + slot] = 1.0
            s.f[rec.row_bound_at(s.i, row)] = 1.0
            slot += 1
    for q in range(t[ring + rec.RING_LISTS_], t[ring + rec.RING_LISTS_ + 1]):
        listed = t[t[rec.RING_LISTS] + q]
        each, own = rec.list_at(t, listed), rec.list_work_at(t, listed)
        for k in range(n[own + 1]):
            at = (n[own] + k) % t[each + rec.LIST_CAP]
            n[rec.entry_at(t, t[each + rec.LIST_ENTRIES] + at) + rec.ENTRY_SLOT] = slot
            clear_row(t[each + rec.LIST_FIRST] + at, s)
            slot += 1
    for here in range(max(n[work + rec.TOP], made)):
        n[slots + here] = last if here < made else -1
    n[work + rec.TOP], n[work + rec.USED], n[work + rec.OPEN] = made, made, -1
    block, spare = t[ring + rec.RING_BLOCK], t[ring + rec.RING_SPARE]
    one, other = rec.block_at(t, block), rec.block_at(t, spare)
    to, of = t[one + rec.BLOCK_BASE], t[other + rec.BLOCK_BASE]
    for here in range(made * t[one + rec.BLOCK_SIZE] * t[one + rec.BLOCK_WIDTH]):
        s.f[to + here], s.e[to + here] = s.f[of + here], s.e[of + here]
    to, of = t[one + rec.BLOCK_XBASE], t[other + rec.BLOCK_XBASE]
    for here in range(made * t[one + rec.BLOCK_SIZE] * t[one + rec.BLOCK_EXTREMES]):
        s.f[to + here] = s.f[of + here]
    look_again(block, made, s)
