"""Blocks of papers.gloria.kernel: values lane by lane, in plain doubles while no number needs an exponent."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.simd import gather_rows_by_factor
from trendfold.kernel.wide import RADIX, wide_sum
from trendfold.papers.gloria import board as rec

NONE, ONE, MISSING = np.int64(0), np.int64(1), np.int64(-1)
"""As arguments: numba compiles a function once more for each literal in a call."""


@kernel
def pour(to, slot, source, lo, hi, weight, s):
    """Add the lanes [lo, hi) of a block, weighted, to a slot of another."""
    one, other = rec.block_at(s.i, to), rec.block_at(s.i, source)
    top = s.f[rec.bound_at(s.i, to)] + s.f[rec.bound_at(s.i, source)]
    if s.i[rec.far_at(s.i, to)] + s.i[rec.far_at(s.i, source)] == 0 and top < RADIX:
        s.f[rec.bound_at(s.i, to)] = top
        size = s.i[other + rec.BLOCK_SIZE]
        d = s.i[one + rec.BLOCK_BASE] + slot * s.i[one + rec.BLOCK_WIDTH] * s.i[one + rec.BLOCK_SIZE]
        d += lo - s.i[one + rec.BLOCK_LO]
        o = s.i[other + rec.BLOCK_BASE] + lo - s.i[other + rec.BLOCK_LO]
        for _ in range(min(s.i[one + rec.BLOCK_WIDTH], s.i[other + rec.BLOCK_WIDTH])):
            gather_rows_by_factor(s.f, d, 1.0, s.f, o, hi - lo, 1.0, s.f, weight)
            d += s.i[one + rec.BLOCK_SIZE]
            o += size
    else:
        _pour_wide(to, slot, source, lo, hi, weight, s)
    if s.i[one + rec.BLOCK_EXTREMES] > 0 and s.i[other + rec.BLOCK_EXTREMES] > 0:
        _pour_extremes(to, slot, source, lo, hi, weight, s)


@kernel
def _pour_wide(to, slot, source, lo, hi, weight, s):
    """`pour` in wide arithmetic."""
    t, n, m, e, w = s.i, s.i, s.f, s.e, s.f
    one, other = rec.block_at(t, to), rec.block_at(t, source)
    for number in range(min(t[one + rec.BLOCK_WIDTH], t[other + rec.BLOCK_WIDTH])):
        d, o = cell(to, slot, number, lo, t), cell(source, NONE, number, lo, t)
        for lane in range(hi - lo):
            if w[weight + lane] != 0.0:
                m[d + lane], e[d + lane] = wide_sum(m[d + lane], e[d + lane], m[o + lane], e[o + lane])
                n[rec.far_at(t, to)] |= e[d + lane] != 0
    if to <= t[rec.END_BLOCK]:
        look_again(to, ONE, s)
    else:
        s.f[rec.bound_at(s.i, to)] = RADIX


@kernel
def _pour_extremes(to, slot, source, lo, hi, weight, s):
    t, x, w = s.i, s.f, s.f
    one, other = rec.block_at(t, to), rec.block_at(t, source)
    for y in range(min(t[one + rec.BLOCK_EXTREMES], t[other + rec.BLOCK_EXTREMES])):
        d, o = xcell(to, slot, y, lo, t), xcell(source, NONE, y, lo, t)
        for lane in range(hi - lo):
            if w[weight + lane] != 0.0:
                x[d + lane] = min(x[d + lane], x[o + lane])


@kernel
def empty_block(block, s):
    """Empty a block."""
    t = s.i
    of = rec.block_at(t, block)
    first, cells = t[of + rec.BLOCK_BASE], t[of + rec.BLOCK_SIZE] * t[of + rec.BLOCK_WIDTH]
    fill(s.f, first, cells, 0.0)
    for here in range(first, first + cells):
        s.e[here] = 0
    fill(s.f, t[of + rec.BLOCK_XBASE], t[of + rec.BLOCK_SIZE] * t[of + rec.BLOCK_EXTREMES], np.inf)
    s.f[rec.bound_at(s.i, block)], s.i[rec.far_at(t, block)] = 0.0, 0


# ---------------------------------------------------------------- loops over lanes


@kernel
def cell(block, slot, number, lane, t):
    """The place of a number of a lane."""
    of = rec.block_at(t, block)
    at = (slot * t[of + rec.BLOCK_WIDTH] + number) * t[of + rec.BLOCK_SIZE]
    return t[of + rec.BLOCK_BASE] + at + lane - t[of + rec.BLOCK_LO]


@kernel
def xcell(block, slot, y, lane, t):
    """The place of an extreme of a lane."""
    of = rec.block_at(t, block)
    at = (slot * t[of + rec.BLOCK_EXTREMES] + y) * t[of + rec.BLOCK_SIZE]
    return t[of + rec.BLOCK_XBASE] + at + lane - t[of + rec.BLOCK_LO]


@kernel
def fill(m, d, size, value):
    """m[d...] = value."""
    d = np.uint64(d)
    for lane in range(np.uint64(size)):
        m[d + lane] = value


@kernel
def look_again(block, slots, s):
    """Find again whether any number of a block has an exponent, and the largest mantissa."""
    t, n = s.i, s.i
    of = rec.block_at(t, block)
    first = t[of + rec.BLOCK_BASE]
    far, top = 0, 0.0
    for here in range(first, first + slots * t[of + rec.BLOCK_SIZE] * t[of + rec.BLOCK_WIDTH]):
        far |= s.e[here] != 0
        top = max(top, abs(s.f[here]))
    n[rec.far_at(t, block)], s.f[rec.bound_at(s.i, block)] = far, top
