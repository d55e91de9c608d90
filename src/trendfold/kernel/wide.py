"""Wide numbers: m · 2^(256 e), a double with its own exponent, so that no count overflows.

The number of trends doubles with every event and leaves a double's range after a thousand of them.
A mantissa stays below 2^256 in size, and with an exponent it is at least 1 (unless a sum cancels out), so
of two numbers whose exponents differ by two or more the smaller cannot be seen in the sum.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel

RADIX = 2.0**256
SHRINK = 2.0**-256
RADIX_BITS = 256


@inlined
def add(m1, e1, m2, e2):
    """(m1, e1) + (m2, e2)."""
    if e1 == e2:
        m, e = m1 + m2, e1
    elif m2 == 0.0 or (e1 - e2 > 1 and m1 != 0.0):
        m, e = m1, e1
    elif m1 == 0.0 or e2 - e1 > 1:
        m, e = m2, e2
    elif e1 > e2:
        m, e = m1 + m2 * SHRINK, e1
    else:
        m, e = m2 + m1 * SHRINK, e2
    if abs(m) >= RADIX:
        m *= SHRINK
        e += 1
    return m, e


@inlined
def blend(m1, e1, m2, e2):
    """`add` without a branch, where zero has the exponent 0: for exponents that a branch predictor misses."""
    top = max(e1, e2)
    gap1, gap2 = top - e1, top - e2
    m = m1 * (1.0 if gap1 == 0 else (SHRINK if gap1 == 1 else 0.0)) + m2 * (
        1.0 if gap2 == 0 else (SHRINK if gap2 == 1 else 0.0)
    )
    over = abs(m) >= RADIX
    m = m * SHRINK if over else m
    top = top + np.int32(over)
    return m, top if m != 0.0 else np.int32(0)


@inlined
def times(m, e, a):
    """(m, e) · a for a finite double a; a is brought down first, so that the product stays finite."""
    if abs(a) >= RADIX:
        a *= SHRINK
        e += 1
        if abs(a) >= RADIX:
            a *= SHRINK
            e += 1
            if abs(a) >= RADIX:
                a *= SHRINK
                e += 1
    m *= a
    if abs(m) >= RADIX:
        m *= SHRINK
        e += 1
    if m == 0.0:
        e = 0
    while e > 0 and abs(m) < 1.0:  # a small value of many trends must not hide larger numbers
        m *= RADIX
        e -= 1
    return m, e


@inlined
def wide_product(m1, e1, m2, e2):
    """The product of two wide numbers."""
    m, e = m1 * m2, e1 + e2
    if abs(m) >= RADIX:
        m *= SHRINK
        e += 1
    if m == 0.0:
        e = 0
    while e > 0 and abs(m) < 1.0:
        m *= RADIX
        e -= 1
    return m, e


@inlined
def scale(e_to, e_from):
    """The factor that brings a mantissa of exponent `e_from` to `e_to`; NaN where it would not fit."""
    gap = e_to - e_from
    if gap == 0:
        return 1.0
    if gap == 1:
        return SHRINK
    return 0.0 if gap > 1 else np.nan


@inlined
def lift(e_to, e_from):
    """Like `scale`, but a mantissa one exponent above fits too; it must be normalised later."""
    return RADIX if e_from - e_to == 1 else scale(e_to, e_from)


@inlined
def normalise(m, e):
    """The same number with a mantissa in its range."""
    while abs(m) >= RADIX:
        m *= SHRINK
        e += 1
    return m, e


@kernel
def add_at(where, m, e, total_m, total_e):
    """Add row i of the wide numbers (m, e) into row where[i] of the totals, column by column."""
    for i in range(where.shape[0]):
        t = where[i]
        for c in range(m.shape[1]):
            total_m[t, c], total_e[t, c] = add(total_m[t, c], total_e[t, c], m[i, c], e[i, c])


@kernel
def take_rows(some, m, e, x, taken_m, taken_e, taken_x):
    """Some rows of wide numbers and extremes, which may be columns of a larger array, into the last three."""
    for k in range(some.shape[0]):
        row = some[k]
        for c in range(m.shape[1]):
            taken_m[k, c] = m[row, c]
            taken_e[k, c] = e[row, c]
        for c in range(x.shape[1]):
            taken_x[k, c] = x[row, c]


@kernel
def find_positive(values, some):
    """The places of positive values, into `some`; returns how many there are."""
    found = 0
    for k in range(values.shape[0]):
        some[found] = k
        found += values[k] > 0.0
    return found


def to_double(m: np.ndarray, e: np.ndarray) -> np.ndarray:
    """The doubles nearest to wide numbers; inf or -inf past 1.8e308."""
    if not e.any():
        return m
    with np.errstate(over="ignore"):
        bits = np.minimum(e.astype(np.int64) * RADIX_BITS, 1 << 20)
        return np.asarray(np.ldexp(m, bits.astype(np.int32)))


def log2(m: np.ndarray, e: np.ndarray) -> np.ndarray:
    """log2 of positive wide numbers; NaN for zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(m > 0, np.log2(m) + e.astype(np.float64) * RADIX_BITS, np.nan)


def ratio(m1: np.ndarray, e1: np.ndarray, m2: np.ndarray, e2: np.ndarray) -> np.ndarray:
    """(m1, e1) / (m2, e2), as doubles; NaN where the divisor is zero."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        quotient = np.where(m2 != 0, m1 / m2, np.nan)
        gap = (e1.astype(np.int64) - e2) * RADIX_BITS
        return np.asarray(np.ldexp(quotient, np.clip(gap, -(1 << 20), 1 << 20).astype(np.int32)))


@kernel
def wide_sum(m1, e1, m2, e2):
    """`add`, compiled once and called: for kernels so large that inlining it costs more than a call."""
    return add(m1, e1, m2, e2)


@kernel
def wide_times(m, e, a):
    """`times`, compiled once and called."""
    return times(m, e, a)


@kernel
def lowered(gap):
    """2^(-256 gap): brings a mantissa to an exponent that is higher by `gap`; 0 past 3, or below 0."""
    factor = 1.0
    if gap > 0:
        factor = SHRINK if gap == 1 else (SHRINK**2 if gap == 2 else (SHRINK**3 if gap == 3 else 0.0))
    return factor if gap >= 0 else 0.0
