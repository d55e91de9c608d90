"""The steps of the machine of lanes as vector instructions, each with its plain Python twin.

A step works on runs of vectors of eight lanes. `weight` has a number per lane, 1 where the lane takes part
and 0 where it does not; a run in which all take part reads the same eight ones again (`apace` is 0,
otherwise 8).

    linear step   d <- a·d + b·s,   s <- c·s       and for lanes that take no part  d <- a0·d,  s <- c0·s
    wide step     the same for numbers with an exponent each (kernel.wide)
    least step    d <- min(d or +inf, s, value where gate holds mass),   s <- s or +inf
                  or, where it adds,  d <- min(d or +inf, s + value)

a0 and c0 are 0 or 1. d and s never overlap. All arrays are flat; d, s, gate and w are where the first lane
is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import NDArray

from trendfold.kernel.jit import vector_step
from trendfold.kernel.vectors import (
    DOUBLE,
    DOUBLES,
    INDEX,
    INTS,
    WIDTH,
    data_of,
    everywhere,
    higher,
    load,
    scale,
    spread,
    store,
)
from trendfold.kernel.wide import RADIX_BITS

NOTHING = float("inf")
"""The least of nothing."""

# ---------------------------------------------------------------- vector instructions


@contextmanager
def _each_run(builder: Any, vectors: Any) -> Iterator[Any]:
    """Loop over the vectors of a run: the offset of each from the first."""
    with cgutils.for_range(builder, vectors) as loop:
        yield builder.shl(loop.index, ir.Constant(INDEX, 3))


def _weights(builder: Any, data: Any, w: Any, apace: Any, at: Any) -> Any:
    """1 for the lanes that take part, 0 for the others."""
    step = builder.and_(at, builder.sub(ir.Constant(INDEX, 0), builder.lshr(apace, ir.Constant(INDEX, 3))))
    return load(builder, data, builder.add(w, step), DOUBLES)


def _takes_part(builder: Any, data: Any, w: Any, apace: Any, at: Any) -> Any:
    """Which lanes take part."""
    weight = _weights(builder, data, w, apace, at)
    return builder.fcmp_unordered("!=", weight, everywhere(DOUBLES, 0.0))


def _linear(has_spend: bool) -> Any:
    """The linear step where other lanes stay as they are; without `has_spend` s is not written."""

    def linear(_context, m, d, s, vectors, a, b, c, weight, w, apace):
        def generate(context, builder, signature, args):
            data, weights = (data_of(context, builder, signature, args, i) for i in (0, 7))
            _, d, s, vectors, a, b, c, _, w, apace = args
            a, b, c = (spread(builder, each, DOUBLES) for each in (a, b, c))
            with _each_run(builder, vectors) as at:
                part = _takes_part(builder, weights, w, apace, at)
                old = load(builder, data, builder.add(d, at), DOUBLES)
                read = load(builder, data, builder.add(s, at), DOUBLES)
                new = builder.fadd(builder.fmul(old, a, _FUSED), builder.fmul(read, b, _FUSED), _FUSED)
                store(builder, builder.select(part, new, old), data, builder.add(d, at))
                if has_spend:
                    left = builder.select(part, builder.fmul(read, c), read)
                    store(builder, left, data, builder.add(s, at))
            return context.get_dummy_value()

        index, number = types.int64, types.float64
        return types.void(m, index, index, index, number, number, number, weight, index, index), generate

    return linear


def _dropping(_context, m, d, s, vectors, a, b, c, a0, c0, weight, w, apace):
    """The linear step: the coefficients of a lane are those of its weight."""

    def generate(context, builder, signature, args):
        data, weights = (data_of(context, builder, signature, args, i) for i in (0, 9))
        _, d, s, vectors, a, b, c, a0, c0, _, w, apace = args
        gains = builder.fsub(a, a0), b, builder.fsub(c, c0), a0, c0
        a, b, c, a0, c0 = (spread(builder, each, DOUBLES) for each in gains)
        with _each_run(builder, vectors) as at:
            part = _weights(builder, weights, w, apace, at)
            to, of = builder.add(d, at), builder.add(s, at)
            old, read = load(builder, data, to, DOUBLES), load(builder, data, of, DOUBLES)
            keep = builder.fadd(builder.fmul(part, a, _FUSED), a0, _FUSED)
            added = builder.fmul(builder.fmul(part, b), read, _FUSED)
            store(builder, builder.fadd(builder.fmul(old, keep, _FUSED), added, _FUSED), data, to)
            left = builder.fadd(builder.fmul(part, c, _FUSED), c0, _FUSED)
            store(builder, builder.fmul(read, left), data, of)
        return context.get_dummy_value()

    index, number = types.int64, types.float64
    numbers = number, number, number, number, number
    return types.void(m, index, index, index, *numbers, weight, index, index), generate


_FUSED = ("contract",)
"""A product and a sum may be one instruction."""


def _wide(_context, m, e, d, s, vectors, a, b, c, a0, c0, weight, w, apace):
    """The linear step for wide numbers: both sides are brought to the higher exponent; a zero has exponent 0.

    Factors are at most 1, so that a·bound(d) + b·bound(s) bounds the mantissas here too. What is multiplied
    by 0 has no exponent: it would hide the other side.
    """

    def generate(context, builder, signature, args):
        m_data, e_data, weights = (data_of(context, builder, signature, args, i) for i in (0, 1, 10))
        _, _, d, s, vectors, a, b, c, a0, c0, _, w, apace = args
        zeros, nothing = everywhere(DOUBLES, 0.0), everywhere(INTS, 0)
        is_kept, is_read, stays, is_kept_outside, stays_outside = (
            builder.fcmp_unordered("!=", each, ir.Constant(DOUBLE, 0.0)) for each in (a, b, c, a0, c0)
        )
        a, b = (spread(builder, each, DOUBLES) for each in (a, b))
        with _each_run(builder, vectors) as at:
            part = _takes_part(builder, weights, w, apace, at)
            to, of = builder.add(d, at), builder.add(s, at)
            (old, old_e), (read, read_e) = (_load_wide(builder, m_data, e_data, each) for each in (to, of))
            own = builder.fmul(old, a), builder.select(is_kept, old_e, nothing)
            other = builder.fmul(read, b), builder.select(is_read, read_e, nothing)
            new, new_e = _sum_wide(builder, own, other)
            outside = builder.select(is_kept_outside, old, zeros)
            outside_e = builder.select(is_kept_outside, old_e, nothing)
            store(builder, builder.select(part, new, outside), m_data, to)
            store(builder, builder.select(part, new_e, outside_e), e_data, to)
            stay = builder.or_(
                builder.and_(part, _bits(builder, stays)),
                builder.and_(builder.not_(part), _bits(builder, stays_outside)),
            )
            store(builder, builder.select(stay, read, zeros), m_data, of)
            store(builder, builder.select(stay, read_e, nothing), e_data, of)
        return context.get_dummy_value()

    index, number = types.int64, types.float64
    numbers = number, number, number, number, number
    return types.void(m, e, index, index, index, *numbers, weight, index, index), generate


def _wide_gain(_context, m, e, d, s, vectors, a, b, weight, w, apace):
    """The wide step for c = a0 = c0 = 1, which is half the work."""

    def generate(context, builder, signature, args):
        m_data, e_data, weights = (data_of(context, builder, signature, args, i) for i in (0, 1, 7))
        _, _, d, s, vectors, a, b, _, w, apace = args
        nothing = everywhere(INTS, 0)
        is_kept, is_read = (
            _bits(builder, builder.fcmp_unordered("!=", each, ir.Constant(DOUBLE, 0.0))) for each in (a, b)
        )
        a, b = (spread(builder, each, DOUBLES) for each in (a, b))
        with _each_run(builder, vectors) as at:
            part = _takes_part(builder, weights, w, apace, at)
            to, of = builder.add(d, at), builder.add(s, at)
            (old, old_e), (read, read_e) = (_load_wide(builder, m_data, e_data, each) for each in (to, of))
            own = builder.fmul(old, a), builder.select(is_kept, old_e, nothing)
            other = builder.fmul(read, b), builder.select(is_read, read_e, nothing)
            new, new_e = _sum_wide(builder, own, other)
            store(builder, builder.select(part, new, old), m_data, to)
            store(builder, builder.select(part, new_e, old_e), e_data, to)
        return context.get_dummy_value()

    index, number = types.int64, types.float64
    return types.void(m, e, index, index, index, number, number, weight, index, index), generate


def _load_wide(builder: Any, m_data: Any, e_data: Any, at: Any) -> tuple[Any, Any]:
    return load(builder, m_data, at, DOUBLES), load(builder, e_data, at, INTS)


def _sum_wide(builder: Any, one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    """The sum of two wide numbers, at the higher of their exponents; 0 if it is zero."""
    top = higher(builder, one[1], other[1])
    parts = (builder.fmul(m, scale(builder, builder.sub(top, e))) for m, e in (one, other))
    whole = builder.fadd(*parts)
    is_zero = builder.fcmp_ordered("==", whole, everywhere(DOUBLES, 0.0))
    return whole, builder.select(is_zero, everywhere(INTS, 0), top)


def _each_part(builder: Any, count: Any) -> Iterator[tuple[Any, Any]]:
    """Code for whole vectors of `count` cells, then for the rest: where each begins, and its mask."""
    whole = builder.lshr(count, ir.Constant(INDEX, 3))
    with _each_run(builder, whole) as at:
        yield at, None
    left = builder.and_(count, ir.Constant(INDEX, WIDTH - 1))
    with builder.if_then(builder.icmp_unsigned("!=", left, ir.Constant(INDEX, 0))):
        one = ir.Constant(_BYTE, 1)
        bits = builder.sub(builder.shl(one, builder.trunc(left, _BYTE)), one)
        mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), WIDTH))
        yield builder.shl(whole, ir.Constant(INDEX, 3)), mask


_BYTE = ir.IntType(8)


def _fill(_context, cells, first, count, value):
    """The same value in some cells. Not a loop of numba: many are short, and it compiles sooner."""

    def generate(context, builder, signature, args):
        data = data_of(context, builder, signature, args, 0)
        kind = INTS if isinstance(signature.args[0].dtype, types.Integer) else DOUBLES
        vector = spread(builder, args[3], kind)
        for at, mask in _each_part(builder, args[2]):
            store(builder, vector, data, builder.add(args[1], at), mask)
        return context.get_dummy_value()

    return types.void(cells, types.int64, types.int64, cells.dtype), generate


def _copy(_context, to, to_first, cells, first, count):
    """Some cells to others."""

    def generate(context, builder, signature, args):
        into, data = (data_of(context, builder, signature, args, i) for i in (0, 2))
        for at, mask in _each_part(builder, args[4]):
            found = load(builder, data, builder.add(args[3], at), DOUBLES, mask)
            store(builder, found, into, builder.add(args[1], at), mask)
        return context.get_dummy_value()

    return types.void(to, types.int64, cells, types.int64, types.int64), generate


def _bits(builder: Any, bit: Any) -> Any:
    """One truth value for all lanes."""
    return spread(builder, bit, ir.VectorType(ir.IntType(1), WIDTH))


def _least(_context, x, d, s, m, gate, vectors, value, flags, weight, w, apace):
    """The least step; see machine_lanes.XFLAGS."""

    def generate(context, builder, signature, args):
        x_data, m_data, weights = (data_of(context, builder, signature, args, i) for i in (0, 3, 8))
        _, d, s, _, gate, vectors, value, flags, _, w, apace = args
        none, zeros = everywhere(DOUBLES, NOTHING), everywhere(DOUBLES, 0.0)
        keeps, clears, drops, drops_read, adds = (
            builder.trunc(builder.lshr(flags, ir.Constant(INDEX, bit)), ir.IntType(1)) for bit in range(5)
        )
        added = spread(builder, builder.select(adds, value, ir.Constant(DOUBLE, 0.0)), DOUBLES)
        value = spread(builder, value, DOUBLES)
        with _each_run(builder, vectors) as at:
            part = _takes_part(builder, weights, w, apace, at)
            to, of = builder.add(d, at), builder.add(s, at)
            old, read = load(builder, x_data, to, DOUBLES), load(builder, x_data, of, DOUBLES)
            mass = load(builder, m_data, builder.add(gate, at), DOUBLES)
            fed = builder.select(builder.fcmp_unordered("!=", mass, zeros), value, none)
            raised = builder.fadd(read, added)
            new = _lower(builder, builder.select(keeps, old, none), _lower(builder, raised, fed))
            outside = builder.select(drops, none, old)
            store(builder, builder.select(part, new, outside), x_data, to)
            inside, beside = (builder.select(each, none, read) for each in (clears, drops_read))
            store(builder, builder.select(part, inside, beside), x_data, of)
        return context.get_dummy_value()

    index, number = types.int64, types.float64
    return types.void(x, index, index, m, index, index, number, index, weight, index, index), generate


def _lower(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


# ---------------------------------------------------------------- plain Python

Numbers = NDArray[np.float64]


def _run(first: int, vectors: int) -> slice:
    return slice(int(first), int(first) + WIDTH * int(vectors))


def _plain_part(weight: Numbers, w: int, apace: int, vectors: int) -> NDArray[np.bool_]:
    if apace:
        return np.asarray(weight[_run(w, vectors)] != 0.0)
    return np.tile(weight[_run(w, 1)] != 0.0, int(vectors))


def plain_linear(m, d, s, vectors, a, b, c, weight, w, apace) -> None:
    """For the lanes that take part: m[d] = a·m[d] + b·m[s]; m[s] = c·m[s]."""
    plain_dropping(m, d, s, vectors, a, b, c, 1.0, 1.0, weight, w, apace)


def plain_dropping(m, d, s, vectors, a, b, c, a0, c0, weight, w, apace) -> None:
    """The same; for the other lanes m[d] = a0·m[d]; m[s] = c0·m[s]."""
    part, to, of = _plain_part(weight, w, apace, vectors), _run(d, vectors), _run(s, vectors)
    old, read = m[to].copy(), m[of].copy()
    m[to] = np.where(part, a * old + b * read, a0 * old)
    m[of] = np.where(part, c * read, c0 * read)


def plain_wide(m, e, d, s, vectors, a, b, c, a0, c0, weight, w, apace) -> None:
    """The same for wide numbers."""
    part, to, of = _plain_part(weight, w, apace, vectors), _run(d, vectors), _run(s, vectors)
    old, read, old_e, read_e = m[to].copy(), m[of].copy(), e[to].copy(), e[of].copy()
    own_e, other_e = old_e * (a != 0), read_e * (b != 0)
    top = np.maximum(own_e, other_e)
    new = a * old * _brought(top - own_e) + b * read * _brought(top - other_e)
    m[to] = np.where(part, new, a0 * old)
    e[to] = np.where(part, np.where(new == 0.0, 0, top), old_e * (a0 != 0))
    m[of] = np.where(part, c * read, c0 * read)
    e[of] = np.where(part, read_e * (c != 0), read_e * (c0 != 0))


def plain_wide_gain(m, e, d, s, vectors, a, b, weight, w, apace) -> None:
    """The same for c = a0 = c0 = 1."""
    plain_wide(m, e, d, s, vectors, a, b, 1.0, 1.0, 1.0, weight, w, apace)


def _brought(gap: NDArray[np.int32]) -> Numbers:
    return np.asarray(np.ldexp(1.0, -RADIX_BITS * np.minimum(gap, 3)))


def plain_least(x, d, s, m, gate, vectors, value, flags, weight, w, apace) -> None:
    """For the lanes that take part: x[d] = the least of it, x[s], and the value where m[gate] is not 0.

    Where it adds, the least of it and x[s] plus the value.
    """
    part, to, of = _plain_part(weight, w, apace, vectors), _run(d, vectors), _run(s, vectors)
    old, read = x[to].copy(), x[of].copy()
    keeps, clears, drops, drops_read, adds = (int(flags) >> bit & 1 for bit in range(5))
    fed = np.where(m[_run(gate, vectors)] != 0.0, value, np.inf)
    new = np.minimum(old if keeps else np.inf, np.minimum(read + value if adds else read, fed))
    x[to] = np.where(part, new, np.inf if drops else old)
    x[of] = np.where(part, np.inf if clears else read, np.inf if drops_read else read)


def plain_fill(cells, first, count, value) -> None:
    """The same value in some cells."""
    cells[int(first) : int(first) + int(count)] = value


def plain_copy(to, to_first, cells, first, count) -> None:
    """Some cells to others."""
    to[int(to_first) : int(to_first) + int(count)] = cells[int(first) : int(first) + int(count)]


fill_cells: Any = vector_step(_fill, plain_fill)
copy_cells: Any = vector_step(_copy, plain_copy)
linear_step: Any = vector_step(_linear(has_spend=False), plain_linear)
spending_step: Any = vector_step(_linear(has_spend=True), plain_linear)
dropping_step: Any = vector_step(_dropping, plain_dropping)
wide_step: Any = vector_step(_wide, plain_wide)
wide_gain_step: Any = vector_step(_wide_gain, plain_wide_gain)
least_step: Any = vector_step(_least, plain_least)
