"""Operations on numbers of many windows side by side, as vector instructions.

A *vector* is one number per window, its lanes side by side. All here works on the lanes of windows that are
open: `runs` times eight of them, from lane `at` on. A vector is named by where it begins in a flat array, and
a list of vectors is an array of such places. As in `kernel.simd`, this is LLVM code: sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from trendfold.kernel import plain
from trendfold.kernel.jit import vector_step
from trendfold.kernel.plain import LARGEST
from trendfold.kernel.vectors import (
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
from trendfold.kernel.wide import RADIX, SHRINK

RUN = WIDTH
"""Lanes of a run: one vector step."""

_BYTE = ir.IntType(8)
_SIZE = types.uint64


Combine = Callable[[Any, Any, Any], Any]
"""The instruction that combines two vectors, given a builder: their sum, or the lesser of each lane."""


def _sum(builder: Any, a: Any, b: Any) -> Any:
    return builder.fadd(a, b)


def _lower(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _from_each(combine: Combine) -> Any:
    """to[to_at] is combined with the vectors m[places[i] + offset], i < count."""

    def from_each(_context, to, to_at, m, places, count, offset, at, runs):
        def generate(context, builder, signature, args):
            into, source, listed = (data_of(context, builder, signature, args, i) for i in (0, 2, 3))
            with _each_run(builder, args[6], args[7]) as lane:
                here = builder.add(args[1], lane)
                whole = _variable(builder, load(builder, into, here, DOUBLES))
                with _each_place(builder, listed, args[4], args[5], lane) as place:
                    part = load(builder, source, place, DOUBLES)
                    builder.store(combine(builder, part, builder.load(whole)), whole)
                store(builder, builder.load(whole), into, here)
            return context.get_dummy_value()

        return types.void(to, _SIZE, m, places, _SIZE, _SIZE, _SIZE, _SIZE), generate

    return from_each


def _into_each(combine: Combine) -> Any:
    """m[places[i] + offset] is combined with added[added_at], for every i < count."""

    def into_each(_context, m, places, count, offset, added, added_at, at, runs):
        def generate(context, builder, signature, args):
            into, listed, source = (data_of(context, builder, signature, args, i) for i in (0, 1, 4))
            with _each_run(builder, args[6], args[7]) as lane:
                part = load(builder, source, builder.add(args[5], lane), DOUBLES)
                with _each_place(builder, listed, args[2], args[3], lane) as place:
                    store(builder, combine(builder, part, load(builder, into, place, DOUBLES)), into, place)
            return context.get_dummy_value()

        return types.void(m, places, _SIZE, _SIZE, added, _SIZE, _SIZE, _SIZE), generate

    return into_each


def _add_up_wide(_context, to, to_e, to_at, m, e, places, count, offset, at, runs):
    """`add_up` of wide numbers, where zero has the exponent 0: all are brought to the highest exponent."""

    def generate(context, builder, signature, args):
        into, into_e, source, source_e, listed = (
            data_of(context, builder, signature, args, i) for i in (0, 1, 3, 4, 5)
        )
        with _each_run(builder, args[8], args[9]) as lane:
            here = builder.add(args[2], lane)
            before, before_e = load(builder, into, here, DOUBLES), load(builder, into_e, here, INTS)
            top = _variable(builder, before_e)
            with _each_place(builder, listed, args[6], args[7], lane) as place:
                builder.store(higher(builder, builder.load(top), load(builder, source_e, place, INTS)), top)
            highest = builder.load(top)
            whole = _variable(builder, _brought(builder, before, before_e, highest))
            with _each_place(builder, listed, args[6], args[7], lane) as place:
                part, part_e = load(builder, source, place, DOUBLES), load(builder, source_e, place, INTS)
                part = _brought(builder, part, part_e, highest)
                builder.store(builder.fadd(builder.load(whole), part), whole)
            _store_wide(builder, builder.load(whole), highest, into, into_e, here)
        return context.get_dummy_value()

    return types.void(to, to_e, _SIZE, m, e, places, _SIZE, _SIZE, _SIZE, _SIZE), generate


def _add_to_each_wide(_context, m, e, places, count, offset, added, added_e, added_at, at, runs):
    """`add_to_each` of wide numbers, where zero has the exponent 0."""

    def generate(context, builder, signature, args):
        into, into_e, listed, source, source_e = (
            data_of(context, builder, signature, args, i) for i in (0, 1, 2, 5, 6)
        )
        with _each_run(builder, args[8], args[9]) as lane:
            here = builder.add(args[7], lane)
            part, part_e = load(builder, source, here, DOUBLES), load(builder, source_e, here, INTS)
            with _each_place(builder, listed, args[3], args[4], lane) as place:
                before, before_e = load(builder, into, place, DOUBLES), load(builder, into_e, place, INTS)
                top = higher(builder, before_e, part_e)
                brought = (_brought(builder, before, before_e, top), _brought(builder, part, part_e, top))
                _store_wide(builder, builder.fadd(*brought), top, into, into_e, place)
        return context.get_dummy_value()

    return types.void(m, e, places, _SIZE, _SIZE, added, added_e, _SIZE, _SIZE, _SIZE), generate


def _add_times(_context, to, to_at, added, added_at, factor, at, runs):
    """to[to_at] += added[added_at] · factor."""

    def generate(context, builder, signature, args):
        into, source = (data_of(context, builder, signature, args, i) for i in (0, 2))
        factors = spread(builder, args[4], DOUBLES)
        with _each_run(builder, args[5], args[6]) as lane:
            here = builder.add(args[1], lane)
            part = load(builder, source, builder.add(args[3], lane), DOUBLES)
            whole = builder.fadd(load(builder, into, here, DOUBLES), builder.fmul(part, factors))
            store(builder, whole, into, here)
        return context.get_dummy_value()

    return types.void(to, _SIZE, added, _SIZE, types.float64, _SIZE, _SIZE), generate


def _any_mass(_context, m, place, at, runs):
    """Whether any lane of the run is not zero."""
    return types.boolean(m, _SIZE, _SIZE, _SIZE), _any(
        lambda builder, numbers: builder.fcmp_unordered("!=", numbers, everywhere(DOUBLES, 0.0))
    )


def _any_large(_context, m, place, at, runs):
    """Whether any lane of the run is past LARGEST, or NaN."""

    def is_large(builder: Any, numbers: Any) -> Any:
        above = builder.fcmp_unordered(">", numbers, everywhere(DOUBLES, LARGEST))
        return builder.or_(above, builder.fcmp_unordered("<", numbers, everywhere(DOUBLES, -LARGEST)))

    return types.boolean(m, _SIZE, _SIZE, _SIZE), _any(is_large)


def _any(is_so: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Code for whether a condition holds in any lane."""

    def generate(context, builder, signature, args):
        source = data_of(context, builder, signature, args, 0)
        found = _variable(builder, ir.Constant(_BYTE, 0))
        with _each_run(builder, args[2], args[3]) as lane:
            here = is_so(builder, load(builder, source, builder.add(args[1], lane), DOUBLES))
            builder.store(builder.or_(builder.load(found), builder.bitcast(here, _BYTE)), found)
        return builder.icmp_unsigned("!=", builder.load(found), ir.Constant(_BYTE, 0))

    return generate


def _count_bits(_context, word):
    """How many bits of a word are set."""

    def generate(_target, builder, _signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate


# ---- Pieces of code -------------------------------------------------------------------------------


@contextmanager
def _each_run(builder: Any, at: Any, runs: Any) -> Iterator[Any]:
    """A loop over the first lanes of the runs."""
    with cgutils.for_range(builder, runs, intp=INDEX) as loop:
        yield builder.add(at, builder.mul(loop.index, ir.Constant(INDEX, RUN)))


@contextmanager
def _each_place(builder: Any, listed: Any, count: Any, offset: Any, lane: Any) -> Iterator[Any]:
    """A loop over where the run of each vector in a list begins."""
    beyond = builder.add(offset, lane)
    with cgutils.for_range(builder, count, intp=INDEX) as loop:
        yield builder.add(builder.load(builder.gep(listed, [loop.index])), beyond)


def _variable(builder: Any, value: Any) -> Any:
    """A mutable value; LLVM keeps it in a register."""
    place = cgutils.alloca_once(builder, value.type)
    builder.store(value, place)
    return place


def _brought(builder: Any, m: Any, e: Any, top: Any) -> Any:
    """Mantissas brought to exponents that are no lower; a gap of three or more adds nothing."""
    return builder.fmul(m, scale(builder, builder.sub(top, e)))


def _store_wide(builder: Any, m: Any, e: Any, into: Any, into_e: Any, place: Any) -> None:
    """Store sums with mantissas in their range again, and zero with the exponent 0."""
    above = builder.fcmp_ordered(">=", m, everywhere(DOUBLES, RADIX))
    is_over = builder.or_(above, builder.fcmp_ordered("<=", m, everywhere(DOUBLES, -RADIX)))
    m = builder.select(is_over, builder.fmul(m, everywhere(DOUBLES, SHRINK)), m)
    e = builder.add(e, builder.zext(is_over, INTS))
    is_zero = builder.fcmp_ordered("==", m, everywhere(DOUBLES, 0.0))
    e = builder.select(is_zero, everywhere(INTS, 0), e)
    store(builder, m, into, place)
    store(builder, e, into_e, place)


add_up: Any = vector_step(_from_each(_sum), plain.add_up)
add_up_wide: Any = vector_step(_add_up_wide, plain.add_up_wide)
add_to_each: Any = vector_step(_into_each(_sum), plain.add_to_each)
add_to_each_wide: Any = vector_step(_add_to_each_wide, plain.add_to_each_wide)
take_least: Any = vector_step(_from_each(_lower), plain.take_least)
lower_each: Any = vector_step(_into_each(_lower), plain.lower_each)
add_times: Any = vector_step(_add_times, plain.add_times)
any_mass: Any = vector_step(_any_mass, plain.any_mass)
any_large: Any = vector_step(_any_large, plain.any_large)
count_bits: Any = vector_step(_count_bits, plain.count_bits)
