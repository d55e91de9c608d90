"""Blocks of papers.gloria.kernel: values lane beside lane, as doubles while no number needs an exponent."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.simd import gather_rows_by_factor
from trendfold.kernel.wide import RADIX, wide_sum
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
    END_BLOCK,
    FAR,
)  # fmt: skip

NONE, ONE, MISSING = np.int64(0), np.int64(1), np.int64(-1)
"""As arguments: numba compiles a function once more for each number that is written out in a call."""


@kernel
def pour(to, slot, source, lo, hi, weight, s):
    """Add the lanes [lo, hi) of a block, weighted, to a slot of another."""
    one, other = s.i[BLOCKS] + BLOCK * to, s.i[BLOCKS] + BLOCK * source
    top = s.f[s.i[BOUNDS] + to] + s.f[s.i[BOUNDS] + source]
    if s.i[s.i[FAR] + to] + s.i[s.i[FAR] + source] == 0 and top < RADIX:
        s.f[s.i[BOUNDS] + to] = top
        size = s.i[other + BLOCK_SIZE]
        d = s.i[one + BLOCK_BASE] + slot * s.i[one + BLOCK_WIDTH] * s.i[one + BLOCK_SIZE]
        d += lo - s.i[one + BLOCK_LO]
        o = s.i[other + BLOCK_BASE] + lo - s.i[other + BLOCK_LO]
        for _ in range(min(s.i[one + BLOCK_WIDTH], s.i[other + BLOCK_WIDTH])):
            gather_rows_by_factor(s.f, d, 1.0, s.f, o, hi - lo, 1.0, s.f, weight)
            d += s.i[one + BLOCK_SIZE]
            o += size
    else:
        _pour_wide(to, slot, source, lo, hi, weight, s)
    if s.i[one + BLOCK_EXTREMES] > 0 and s.i[other + BLOCK_EXTREMES] > 0:
        _pour_extremes(to, slot, source, lo, hi, weight, s)


@kernel
def _pour_wide(to, slot, source, lo, hi, weight, s):
    """The same in wide arithmetic."""
    t, n, m, e, w = s.i, s.i, s.f, s.e, s.f
    one, other = t[BLOCKS] + BLOCK * to, t[BLOCKS] + BLOCK * source
    for number in range(min(t[one + BLOCK_WIDTH], t[other + BLOCK_WIDTH])):
        d, o = cell(to, slot, number, lo, t), cell(source, NONE, number, lo, t)
        for lane in range(hi - lo):
            if w[weight + lane] != 0.0:
                m[d + lane], e[d + lane] = wide_sum(m[d + lane], e[d + lane], m[o + lane], e[o + lane])
                n[t[FAR] + to] |= e[d + lane] != 0
    if to <= t[END_BLOCK]:
        look_again(to, ONE, s)
    else:
        s.f[s.i[BOUNDS] + to] = RADIX


@kernel
def _pour_extremes(to, slot, source, lo, hi, weight, s):
    t, x, w = s.i, s.f, s.f
    one, other = t[BLOCKS] + BLOCK * to, t[BLOCKS] + BLOCK * source
    for y in range(min(t[one + BLOCK_EXTREMES], t[other + BLOCK_EXTREMES])):
        d, o = xcell(to, slot, y, lo, t), xcell(source, NONE, y, lo, t)
        for lane in range(hi - lo):
            if w[weight + lane] != 0.0:
                x[d + lane] = min(x[d + lane], x[o + lane])


@kernel
def empty_block(block, s):
    """Nothing is in a block."""
    t = s.i
    of = t[BLOCKS] + BLOCK * block
    first, cells = t[of + BLOCK_BASE], t[of + BLOCK_SIZE] * t[of + BLOCK_WIDTH]
    fill(s.f, first, cells, 0.0)
    for here in range(first, first + cells):
        s.e[here] = 0
    fill(s.f, t[of + BLOCK_XBASE], t[of + BLOCK_SIZE] * t[of + BLOCK_EXTREMES], np.inf)
    s.f[s.i[BOUNDS] + block], s.i[t[FAR] + block] = 0.0, 0


# ---------------------------------------------------------------- loops over lanes


@kernel
def cell(block, slot, number, lane, t):
    """Where a number of a lane stands."""
    of = t[BLOCKS] + BLOCK * block
    at = (slot * t[of + BLOCK_WIDTH] + number) * t[of + BLOCK_SIZE]
    return t[of + BLOCK_BASE] + at + lane - t[of + BLOCK_LO]


@kernel
def xcell(block, slot, y, lane, t):
    """Where an extreme of a lane stands."""
    of = t[BLOCKS] + BLOCK * block
    at = (slot * t[of + BLOCK_EXTREMES] + y) * t[of + BLOCK_SIZE]
    return t[of + BLOCK_XBASE] + at + lane - t[of + BLOCK_LO]


@kernel
def fill(m, d, size, value):
    """m[d...] = value."""
    d = np.uint64(d)
    for lane in range(np.uint64(size)):
        m[d + lane] = value


@kernel
def look_again(block, slots, s):
    """Whether any number of a block has an exponent, and how large they are."""
    t, n = s.i, s.i
    of = t[BLOCKS] + BLOCK * block
    first = t[of + BLOCK_BASE]
    far, top = 0, 0.0
    for here in range(first, first + slots * t[of + BLOCK_SIZE] * t[of + BLOCK_WIDTH]):
        far |= s.e[here] != 0
        top = max(top, abs(s.f[here]))
    n[t[FAR] + block], s.f[s.i[BOUNDS] + block] = far, top
