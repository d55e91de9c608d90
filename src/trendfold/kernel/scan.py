"""The sum over all bindings whose value fits: a mask and a sum over contiguous columns."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel, reassociated
from trendfold.kernel.pairs import Op
from trendfold.kernel.wide import SHRINK, add, normalise

_EQ, _NE, _LT, _LE, _GT = int(Op.EQ), int(Op.NE), int(Op.LT), int(Op.LE), int(Op.GT)
_CHUNK = 1024
"""Bindings per chunk: their columns fit the L1 cache."""


@kernel
def total_where(value, mantissa, exponent, count, op, bound):
    """The sum of the counts whose value is `op` the bound, over the first `count`; NaN never is.

    value, mantissa  float64[n]; exponent  int32[n]
    """
    if bound != bound:
        return 0.0, np.int32(0)
    if op == _NE:
        m, e = _between(value, mantissa, exponent, count, -np.inf, np.nextafter(bound, -np.inf))
        m2, e2 = _between(value, mantissa, exponent, count, np.nextafter(bound, np.inf), np.inf)
        return add(m, e, m2, e2)
    low, high = bound, bound
    if op in (_LT, _LE):
        low = -np.inf
        high = np.nextafter(bound, -np.inf) if op == _LT else bound
    elif op != _EQ:
        low = np.nextafter(bound, np.inf) if op == _GT else bound
        high = np.inf
    return _between(value, mantissa, exponent, count, low, high)


@kernel
def _between(value, mantissa, exponent, count, low, high):
    m, e = 0.0, np.int32(0)
    for start in range(0, count, _CHUNK):
        stop = min(count, start + _CHUNK)
        part_m, part_e = _chunk(value[start:stop], mantissa[start:stop], exponent[start:stop], low, high)
        m, e = add(m, e, part_m, part_e)
    return m, e


@reassociated
def _chunk(value, mantissa, exponent, low, high):
    """One chunk: the largest exponent first, then the sum of mantissas brought to it."""
    top = np.int32(0)
    for b in range(value.shape[0]):
        fits = (value[b] >= low) & (value[b] <= high)
        top = max(top, exponent[b] if fits else np.int32(0))
    found = 0.0
    if top == 0:
        for b in range(value.shape[0]):
            fits = (value[b] >= low) & (value[b] <= high)
            found += mantissa[b] if fits else 0.0
    else:
        for b in range(value.shape[0]):
            fits = (value[b] >= low) & (value[b] <= high)
            gap = top - exponent[b]
            scale = 1.0 if gap == 0 else (SHRINK if gap == 1 else 0.0)
            found += mantissa[b] * scale if fits else 0.0
    return normalise(found, top)
