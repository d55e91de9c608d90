"""Blocks of kernel.gloria: values lane beside lane, as doubles while no number needs an exponent."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.gloria_program import (
    BLOCK,
    BLOCK_BASE,
    BLOCK_EXTREMES,
    BLOCK_LO,
    BLOCK_SIZE,
    BLOCK_WIDTH,
    BLOCK_XBASE,
    BLOCKS,
    FAR,
)  # fmt: skip
from trendfold.kernel.hamlet_steps import wide_sum
from trendfold.kernel.jit import kernel, reassociated
from trendfold.kernel.simd import gather_rows, gather_rows_by_factor
from trendfold.kernel.wide import RADIX

NONE, MISSING = np.int64(0), np.int64(-1)
"""As arguments: numba compiles a function once more for each number that is written out in a call."""


@kernel
def pour(to, slot, source, from_slot, lo, hi, weight, s):
    """Add the lanes [lo, hi) of a block to another; -1 weighs all alike. Each names a slot of its own."""
    t, n, m, e, x, w, b = s.t, s.n, s.m, s.e, s.x, s.w, s.b
    one, other = t[BLOCKS] + BLOCK * to, t[BLOCKS] + BLOCK * source
    width, size = min(t[one + BLOCK_WIDTH], t[other + BLOCK_WIDTH]), hi - lo
    top = b[to] + b[source]
    if n[t[FAR] + to] or n[t[FAR] + source] or not top < RADIX:
        for number in range(width):
            d, o = cell(to, slot, number, lo, t), cell(source, from_slot, number, lo, t)
            for lane in range(size):
                if weight < 0 or w[weight + lane] != 0.0:
                    m[d + lane], e[d + lane] = wide_sum(m[d + lane], e[d + lane], m[o + lane], e[o + lane])
                    n[t[FAR] + to] |= e[d + lane] != 0
        top = RADIX
    else:
        for number in range(width):
            d, o = cell(to, slot, number, lo, t), cell(source, from_slot, number, lo, t)
            if weight < 0:
                gather_rows(m, d, 1.0, m, o, size, 1.0, m, 0)
            else:
                gather_rows_by_factor(m, d, 1.0, m, o, size, 1.0, w, weight)
    b[to] = top
    for y in range(min(t[one + BLOCK_EXTREMES], t[other + BLOCK_EXTREMES])):
        d, o = xcell(to, slot, y, lo, t), xcell(source, from_slot, y, lo, t)
        for lane in range(size):
            if weight < 0 or w[weight + lane] != 0.0:
                x[d + lane] = min(x[d + lane], x[o + lane])


@kernel
def empty_block(block, s):
    """Nothing is in a block."""
    t = s.t
    of = t[BLOCKS] + BLOCK * block
    first, cells = t[of + BLOCK_BASE], t[of + BLOCK_SIZE] * t[of + BLOCK_WIDTH]
    fill(s.m, first, cells, 0.0)
    for here in range(first, first + cells):
        s.e[here] = 0
    fill(s.x, t[of + BLOCK_XBASE], t[of + BLOCK_SIZE] * t[of + BLOCK_EXTREMES], np.inf)
    s.b[block], s.n[t[FAR] + block] = 0.0, 0


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


@reassociated
def total_size(m, d, size):
    """The sizes of all numbers together: none is larger."""
    total, d = 0.0, np.uint64(d)
    for lane in range(np.uint64(size)):
        total += abs(m[d + lane])
    return total
