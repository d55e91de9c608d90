"""Many queries in one pass: their machines stand side by side, and an event steps them all.

For queries that only count, under *any*, over rows sorted the same way. Each machine is a block of states of
its own; every state has LANES numbers, one per state that mass may have come into the stretch from, so a
pass gives a matrix per query (see kernel.stretch). What an event costs is the number of queries that its type
concerns, and not a pass over the rows for each.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel
from trendfold.kernel.simd import step_rows
from trendfold.kernel.wide import RADIX, add, lift, normalise

LANES = 4


@kernel
def fold_bundle(code, moment, bounds, bundle, mantissa, exponent):
    """Fold the rows [bounds[k], bounds[k+1]) into row k of `mantissa` and `exponent`.

    Entry state · LANES + lane is what mass 1 at the start of that lane becomes.
    """
    row_start, dst, src = bundle.row_start, bundle.dst, bundle.src
    terms, entries = src.shape[1], mantissa.shape[1]
    flat = src.reshape(-1)
    m, e = np.zeros(entries + LANES), np.zeros(entries + LANES, np.int32)
    new_m, new_e = np.zeros_like(m), np.zeros_like(e)
    factor = np.ones(flat.shape[0] * LANES)
    is_bridged = False
    for k in range(bounds.shape[0] - 1):
        m[:] = 0.0
        m[bundle.start] = 1.0
        if is_bridged:
            e[:] = 0
            factor[:] = 1.0
            is_bridged = False
        high = bounds[k + 1]
        i = bounds[k]
        while i < high:
            if i + 1 < high and moment[i + 1] == moment[i]:
                j = i + 2
                while j < high and moment[j] == moment[i]:
                    j += 1
                is_bridged |= _fold_tied(code, i, j, bundle, m, e, new_m, new_e, factor)
                i = j
                continue
            row, stop = row_start[code[i]], row_start[code[i] + 1]
            i += 1
            while row < stop:
                if not is_bridged:  # all exponents are 0, as in most stretches
                    row = step_rows(m, dst, flat, terms, row, stop)
                    if row == stop:
                        break
                if not _add_near(row, dst, flat, terms, m, factor):
                    is_bridged = True
                    _add_wide(row, bundle, m, e, m, e)
                    _bridge(bundle, bundle.block[row], e, factor)
                row += 1
        mantissa[k], exponent[k] = m[:entries], e[:entries]


@kernel
def _add_near(row, dst, src, terms, m, factor):
    """Add what a row gathers to its target, exponents bridged by factors; False where that does not do."""
    d = dst[row] * LANES
    sum0, sum1, sum2, sum3 = m[d], m[d + 1], m[d + 2], m[d + 3]
    for t in range(row * terms, (row + 1) * terms):
        s, f = src[t] * LANES, t * LANES
        sum0 += m[s] * factor[f]
        sum1 += m[s + 1] * factor[f + 1]
        sum2 += m[s + 2] * factor[f + 2]
        sum3 += m[s + 3] * factor[f + 3]
    # Counts are never negative; the sum is NaN where exponents are too far apart.
    if not sum0 + sum1 + sum2 + sum3 < RADIX:
        return False
    m[d], m[d + 1], m[d + 2], m[d + 3] = sum0, sum1, sum2, sum3
    return True


@kernel
def _add_wide(r, bundle, m, e, to_m, to_e):
    """Add what row r gathers to its target, in wide arithmetic."""
    d = bundle.dst[r] * LANES
    for lane in range(LANES):
        sum_m, sum_e = to_m[d + lane], to_e[d + lane]
        for t in range(bundle.src.shape[1]):
            s = bundle.src[r, t] * LANES + lane
            sum_m, sum_e = add(sum_m, sum_e, m[s], e[s])
        to_m[d + lane], to_e[d + lane] = normalise(sum_m, sum_e)


@kernel
def _fold_tied(code, i, j, bundle, m, e, new_m, new_e, factor):
    """The events [i, j) of one moment: all read what was there before. Returns whether an exponent moved."""
    for x in range(i, j):
        for r in range(bundle.row_start[code[x]], bundle.row_start[code[x] + 1]):
            _add_wide(r, bundle, m, e, new_m, new_e)
    moved = False
    for x in range(i, j):
        for r in range(bundle.row_start[code[x]], bundle.row_start[code[x] + 1]):
            d, grown = bundle.dst[r] * LANES, False
            for s in range(d, d + LANES):
                before = e[s]
                m[s], e[s] = add(m[s], e[s], new_m[s], new_e[s])
                new_m[s], new_e[s] = 0.0, 0  # tied events may share a row
                grown |= e[s] != before
            if grown:
                _bridge(bundle, bundle.block[r], e, factor)
                moved = True
    return moved


@kernel
def _bridge(bundle, block, e, factor):
    """The factors of all terms of one block, anew; see fold.bridge."""
    terms = bundle.src.shape[1]
    for b in range(bundle.block_start[block], bundle.block_start[block + 1]):
        r = bundle.block_row[b]
        for t in range(terms):
            for lane in range(LANES):
                to, of = e[bundle.dst[r] * LANES + lane], e[bundle.src[r, t] * LANES + lane]
                factor[(r * terms + t) * LANES + lane] = lift(to, of)


@kernel
def count_codes(code, bounds, found):
    """How many rows [bounds[k], bounds[k+1]) have each code, into found[k]."""
    for k in range(bounds.shape[0] - 1):
        for i in range(bounds[k], bounds[k + 1]):
            found[k, code[i]] += 1
