"""Rings of snapshots, and rows of coefficients over them (see papers.gloria.kernel)."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.simd import gather_rows
from trendfold.kernel.wide import RADIX, SHRINK, normalise
from trendfold.papers.gloria.blocks import NONE, cell, fill, look_again, xcell
from trendfold.papers.gloria.board import (
    BLOCK,
    BLOCK_BASE,
    BLOCK_EXTREMES,
    BLOCK_LO,
    BLOCK_SIZE,
    BLOCK_WIDTH,
    BLOCK_XBASE,
    BLOCKS,
    BOUNDS,
    ENTRIES,
    ENTRY,
    ENTRY_SLOT,
    FAR,
    FOLDINGS,
    FULL,
    IS_FULL,
    LANE_PHIS,
    LANE_PSIS,
    LIST,
    LIST_CAP,
    LIST_ENTRIES,
    LIST_FIRST,
    LIST_WORK,
    LISTS,
    N_BLOCKS,
    N_RINGS,
    N_ROWS,
    OPEN,
    RING,
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
    RING_STATE,
    RING_WORK,
    RINGS,
    ROW,
    ROWS,
    SLOTS,
    SNAPSHOTS,
    TALLY,
    TOP,
    USED,
)  # fmt: skip

LARGEST = 2.0**400
"""Coefficients of a row add up to less, or its ring is folded up."""


@kernel
def begin(s):
    """No snapshots yet: slots are free, and μ is infinite."""
    t, n, c = s.i, s.i, s.f
    for r in range(t[N_RINGS]):
        ring = t[RINGS] + RING * r
        n[t[RING_WORK] + RING_STATE * r + OPEN] = -1
        for slot in range(t[ring + RING_CAP]):
            n[t[SLOTS] + t[ring + RING_SLOTS] + slot] = -1
    for row in range(t[N_ROWS]):
        ring = t[RINGS] + RING * t[t[ROWS] + ROW * row]
        cap, sums = t[ring + RING_CAP], 1 + t[ring + RING_PHIS]
        fill(c, t[t[ROWS] + ROW * row + 1] + sums * cap, t[ring + RING_PSIS] * cap, np.inf)


@kernel
def new_slot(number, row, s):
    """A snapshot that is 0 in all lanes; its last event is that of `row`."""
    t, n = s.i, s.i
    ring, work = t[RINGS] + RING * number, t[RING_WORK] + RING_STATE * number
    slots, slot = t[SLOTS] + t[ring + RING_SLOTS], 0
    while n[slots + slot] >= 0:
        slot += 1
    n[slots + slot] = row
    n[work + TOP] = max(n[work + TOP], slot + 1)
    n[work + USED] += 1
    n[t[TALLY] + SNAPSHOTS] += 1
    if n[work + USED] + t[ring + RING_RESERVE] > t[ring + RING_CAP]:
        n[work + FULL] = n[t[TALLY] + IS_FULL] = 1
    of = t[BLOCKS] + BLOCK * t[ring + RING_BLOCK]
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
    number = t[t[ROWS] + ROW * to]
    ring, work = t[RINGS] + RING * number, t[RING_WORK] + RING_STATE * number
    cap, top = t[ring + RING_CAP], n[work + TOP]
    d, o = t[t[ROWS] + ROW * to + 1], t[t[ROWS] + ROW * source + 1]
    for part in range(1 + t[ring + RING_PHIS]):
        gather_rows(c, d + part * cap, 1.0, c, o + part * cap, top, 1.0, c, 0)
    for part in range(1 + t[ring + RING_PHIS], 1 + t[ring + RING_PHIS] + t[ring + RING_PSIS]):
        for slot in range(top):
            c[d + part * cap + slot] = min(c[d + part * cap + slot], c[o + part * cap + slot])
    grow(to, source, s)


@kernel
def grow(to, source, s):
    """The bound of a row to which another was added; a row that has grown too large is reported."""
    t, n = s.i, s.i
    bound = t[BOUNDS] + t[N_BLOCKS] + to
    s.f[bound] += s.f[t[BOUNDS] + t[N_BLOCKS] + source]
    if not s.f[bound] < LARGEST:
        work = t[RING_WORK] + RING_STATE * t[t[ROWS] + ROW * to]
        d, total = t[t[ROWS] + ROW * to + 1], 0.0
        for slot in range(n[work + TOP]):
            total += s.f[d + slot]
        s.f[bound] = total
        if not total < LARGEST:
            n[work + FULL] = n[t[TALLY] + IS_FULL] = 1


@kernel
def whole_vectors(lanes):
    """So many lanes, and those that a vector with the last of them has more."""
    return (lanes + 7) // 8 * 8


@kernel
def clear_row(row, s):
    """No snapshot is in a row."""
    t, c = s.i, s.f
    ring = t[RINGS] + RING * t[t[ROWS] + ROW * row]
    cap, d = t[ring + RING_CAP], t[t[ROWS] + ROW * row + 1]
    top = whole_vectors(s.i[t[RING_WORK] + RING_STATE * t[t[ROWS] + ROW * row] + TOP])
    for part in range(1 + t[ring + RING_PHIS]):
        fill(c, d + part * cap, top, 0.0)
    for part in range(1 + t[ring + RING_PHIS], 1 + t[ring + RING_PHIS] + t[ring + RING_PSIS]):
        fill(c, d + part * cap, top, np.inf)
    s.f[s.i[BOUNDS] + t[N_BLOCKS] + row] = 0.0


@kernel
def lane_sum(number, row, w, lane, s):
    """Number w of a lane as a row's coefficients say it, a wide number.

    Coefficients are below 2^600 or so: of values whose exponents are four apart, the smaller cannot be seen.
    """
    t, m, e, c = s.i, s.f, s.e, s.f
    ring = t[RINGS] + RING * number
    block, cap = t[ring + RING_BLOCK], t[ring + RING_CAP]
    of = t[BLOCKS] + BLOCK * block
    if w >= t[of + BLOCK_WIDTH]:
        return 0.0, np.int32(0)
    here, upto = t[t[ROWS] + ROW * row + 1], s.i[t[RING_WORK] + RING_STATE * number + TOP]
    phi = t[t[LANE_PHIS] + t[ring + RING_LANE_PHIS] + w * t[of + BLOCK_SIZE] + lane - t[of + BLOCK_LO]]
    sigma = here + (1 + phi) * cap if phi >= 0 else NONE
    if s.i[t[FAR] + block] == 0:
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
        total += m[at] * _lowered(top - e[at]) * c[here + slot]
        if phi >= 0:
            at = cell(block, slot, NONE, lane, t)
            total += m[at] * _lowered(top - e[at]) * c[sigma + slot]
    total, top = normalise(total, top)
    if total == 0.0:
        return 0.0, np.int32(0)
    while top > 0 and abs(total) < 1.0:
        total *= RADIX
        top -= np.int32(1)
    return total, top


@kernel
def _plain_sum(at, count, row, sigma, upto, of, s):
    """The same where no value has an exponent; without σ, `sigma` is 0. Slots lie `step` cells apart."""
    step, total = s.i[of + BLOCK_WIDTH] * s.i[of + BLOCK_SIZE], 0.0
    for slot in range(upto):
        total += s.f[at + slot * step] * s.f[row + slot]
    if sigma > 0:
        for slot in range(upto):
            total += s.f[count + slot * step] * s.f[sigma + slot]
    return normalise(total, np.int32(0))


@kernel
def _lowered(gap):
    """The factor that brings a mantissa to an exponent that is higher by `gap`."""
    factor = 1.0
    if gap > 0:
        factor = SHRINK if gap == 1 else (SHRINK**2 if gap == 2 else (SHRINK**3 if gap == 3 else 0.0))
    return factor if gap >= 0 else 0.0


@kernel
def lane_least(number, row, y, lane, s):
    """Extreme y of a lane, from the snapshots that hold any mass and are in the row."""
    t, m, x, c = s.i, s.f, s.f, s.f
    ring = t[RINGS] + RING * number
    block, cap = t[ring + RING_BLOCK], t[ring + RING_CAP]
    of = t[BLOCKS] + BLOCK * block
    best = np.inf
    if y >= t[of + BLOCK_EXTREMES]:
        return best
    here = t[t[ROWS] + ROW * row + 1]
    psi = t[t[LANE_PSIS] + t[ring + RING_LANE_PSIS] + y * t[of + BLOCK_SIZE] + lane - t[of + BLOCK_LO]]
    mu = here + (1 + t[ring + RING_PHIS] + psi) * cap
    for slot in range(s.i[t[RING_WORK] + RING_STATE * number + TOP]):
        if c[here + slot] != 0.0 and m[cell(block, slot, NONE, lane, t)] != 0.0:
            best = min(best, x[xcell(block, slot, y, lane, t)])
            if psi >= 0:
                best = min(best, c[mu + slot])
    return best


@kernel
def expire(number, oldest, s):
    """Forget the snapshots that are in no open window: the oldest begins at row `oldest`."""
    t, n, c = s.i, s.i, s.f
    ring, work = t[RINGS] + RING * number, t[RING_WORK] + RING_STATE * number
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
            row = t[t[ROWS] + ROW * t[t[RING_ROWS] + q] + 1]
            for part in range(parts):
                c[row + part * cap + slot] = 0.0 if part < sums else np.inf
        for q in range(t[ring + RING_LISTS_], t[ring + RING_LISTS_ + 1]):
            each = t[LISTS] + LIST * t[t[RING_LISTS] + q]
            for at in range(t[each + LIST_CAP]):
                row = t[t[ROWS] + ROW * (t[each + LIST_FIRST] + at) + 1]
                for part in range(parts):
                    c[row + part * cap + slot] = 0.0 if part < sums else np.inf
    n[work + TOP] = top


# ---------------------------------------------------------------- folding up


@kernel
def fold_up(row, s):
    """Make one snapshot of each row of every ring that is full; all events so far are before `row`."""
    t, n = s.i, s.i
    for number in range(t[N_RINGS]):
        work = t[RING_WORK] + RING_STATE * number
        if n[work + FULL]:
            n[t[TALLY] + FOLDINGS] += 1
            made = _fold_rows(number, s)
            _take_back(number, made, row - 1, s)
            n[work + FULL] = 0
    n[t[TALLY] + IS_FULL] = 0


@kernel
def _fold_rows(number, s):
    """Write the values of all rows and entries beside the ring; how many they are."""
    t, n = s.i, s.i
    ring, made = t[RINGS] + RING * number, NONE
    for q in range(t[ring + RING_ROWS_], t[ring + RING_ROWS_ + 1]):
        row = t[t[RING_ROWS] + q]
        if _is_some(number, row, s):
            _fold_row(number, row, made, s)
            made += 1
    for q in range(t[ring + RING_LISTS_], t[ring + RING_LISTS_ + 1]):
        listed = t[t[RING_LISTS] + q]
        each, work = t[LISTS] + LIST * listed, t[LIST_WORK] + 2 * listed
        for k in range(n[work + 1]):
            at = (n[work] + k) % t[each + LIST_CAP]
            entry = t[ENTRIES] + ENTRY * (t[each + LIST_ENTRIES] + at)
            row = t[each + LIST_FIRST] + at
            if n[entry + ENTRY_SLOT] >= 0:
                clear_row(row, s)
                s.f[t[t[ROWS] + ROW * row + 1] + n[entry + ENTRY_SLOT]] = 1.0
            _fold_row(number, row, made, s)
            made += 1
    return made


@kernel
def _is_some(number, row, s):
    here, top = s.i[s.i[ROWS] + ROW * row + 1], s.i[s.i[RING_WORK] + RING_STATE * number + TOP]
    found = 0
    for slot in range(top):
        found += s.f[here + slot] != 0.0
    return found > 0


@kernel
def _fold_row(number, row, made, s):
    """The values of a row, in all lanes of its ring."""
    t = s.i
    spare = t[t[RINGS] + RING * number + RING_SPARE]
    of = t[BLOCKS] + BLOCK * spare
    lo = t[of + BLOCK_LO]
    for lane in range(lo, lo + t[of + BLOCK_SIZE]):
        for w in range(t[of + BLOCK_WIDTH]):
            at = cell(spare, made, w, lane, t)
            s.f[at], s.e[at] = lane_sum(number, row, w, lane, s)
        for y in range(t[of + BLOCK_EXTREMES]):
            s.f[xcell(spare, made, y, lane, t)] = lane_least(number, row, y, lane, s)


@kernel
def _take_back(number, made, last, s):
    """The ring has nothing but what was written beside it, and each row is one snapshot of that."""
    t, n, c = s.i, s.i, s.f
    ring, work = t[RINGS] + RING * number, t[RING_WORK] + RING_STATE * number
    slots, slot = t[SLOTS] + t[ring + RING_SLOTS], 0
    for q in range(t[ring + RING_ROWS_], t[ring + RING_ROWS_ + 1]):
        row = t[t[RING_ROWS] + q]
        is_some = _is_some(number, row, s)
        clear_row(row, s)
        if is_some:
            c[t[t[ROWS] + ROW * row + 1] + slot] = 1.0
            s.f[s.i[BOUNDS] + t[N_BLOCKS] + row] = 1.0
            slot += 1
    for q in range(t[ring + RING_LISTS_], t[ring + RING_LISTS_ + 1]):
        listed = t[t[RING_LISTS] + q]
        each, own = t[LISTS] + LIST * listed, t[LIST_WORK] + 2 * listed
        for k in range(n[own + 1]):
            at = (n[own] + k) % t[each + LIST_CAP]
            n[t[ENTRIES] + ENTRY * (t[each + LIST_ENTRIES] + at) + ENTRY_SLOT] = slot
            clear_row(t[each + LIST_FIRST] + at, s)
            slot += 1
    for here in range(max(n[work + TOP], made)):
        n[slots + here] = last if here < made else -1
    n[work + TOP], n[work + USED], n[work + OPEN] = made, made, -1
    block, spare = t[ring + RING_BLOCK], t[ring + RING_SPARE]
    one, other = t[BLOCKS] + BLOCK * block, t[BLOCKS] + BLOCK * spare
    to, of = t[one + BLOCK_BASE], t[other + BLOCK_BASE]
    for here in range(made * t[one + BLOCK_SIZE] * t[one + BLOCK_WIDTH]):
        s.f[to + here], s.e[to + here] = s.f[of + here], s.e[of + here]
    to, of = t[one + BLOCK_XBASE], t[other + BLOCK_XBASE]
    for here in range(made * t[one + BLOCK_SIZE] * t[one + BLOCK_EXTREMES]):
        s.f[to + here] = s.f[of + here]
    look_again(block, made, s)
