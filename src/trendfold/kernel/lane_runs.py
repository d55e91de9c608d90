"""Numbers of many windows side by side: what a fold does to all of them at once, as vector instructions.

A *vector* is one number per window, its lanes side by side. All here works on the lanes of windows that are
open: `runs` times eight of them, from lane `at` on. A vector is named by where it begins in a flat array, and
a list of vectors is an array of such places. As in `kernel.simd`, code is LLVM's own; sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from trendfold.kernel.wide import RADIX, SHRINK

RUN = 8
"""Lanes of a run: two or one of the machine's own vectors."""
LARGEST = 2.0**900
"""Numbers up to here are plain doubles, and so is any sum of fewer than 2^100 of them."""

_BYTE, _INT, _INDEX = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_INTS, _DOUBLES = ir.VectorType(_INT, RUN), ir.VectorType(ir.DoubleType(), RUN)
_SIZE = types.uint64


def _add_up(_context, to, to_at, m, places, count, offset, at, runs):
    """to[to_at] += the sum of the vectors m[places[i] + offset], i < count."""

    def generate(context, builder, signature, args):
        into, source, listed = (_data(context, builder, signature, args, i) for i in (0, 2, 3))
        with _each_run(builder, args[6], args[7]) as lane:
            here = builder.add(args[1], lane)
            whole = _variable(builder, _load(builder, into, here, _DOUBLES))
            with _each_place(builder, listed, args[4], args[5], lane) as place:
                part = _load(builder, source, place, _DOUBLES)
                builder.store(builder.fadd(builder.load(whole), part), whole)
            _store(builder, builder.load(whole), into, here)
        return context.get_dummy_value()

    return types.void(to, _SIZE, m, places, _SIZE, _SIZE, _SIZE, _SIZE), generate


def _add_up_wide(_context, to, to_e, to_at, m, e, places, count, offset, at, runs):
    """`add_up` of wide numbers, where zero has the exponent 0: all are brought to the highest exponent."""

    def generate(context, builder, signature, args):
        into, into_e, source, source_e, listed = (
            _data(context, builder, signature, args, i) for i in (0, 1, 3, 4, 5)
        )
        with _each_run(builder, args[8], args[9]) as lane:
            here = builder.add(args[2], lane)
            before, before_e = _load(builder, into, here, _DOUBLES), _load(builder, into_e, here, _INTS)
            top = _variable(builder, before_e)
            with _each_place(builder, listed, args[6], args[7], lane) as place:
                builder.store(
                    _higher(builder, builder.load(top), _load(builder, source_e, place, _INTS)), top
                )
            highest = builder.load(top)
            whole = _variable(builder, _brought(builder, before, before_e, highest))
            with _each_place(builder, listed, args[6], args[7], lane) as place:
                part, part_e = _load(builder, source, place, _DOUBLES), _load(builder, source_e, place, _INTS)
                part = _brought(builder, part, part_e, highest)
                builder.store(builder.fadd(builder.load(whole), part), whole)
            _store_wide(builder, builder.load(whole), highest, into, into_e, here)
        return context.get_dummy_value()

    return types.void(to, to_e, _SIZE, m, e, places, _SIZE, _SIZE, _SIZE, _SIZE), generate


def _add_to_each(_context, m, places, count, offset, added, added_at, at, runs):
    """m[places[i] + offset] += added[added_at], for every i < count."""

    def generate(context, builder, signature, args):
        into, listed, source = (_data(context, builder, signature, args, i) for i in (0, 1, 4))
        with _each_run(builder, args[6], args[7]) as lane:
            part = _load(builder, source, builder.add(args[5], lane), _DOUBLES)
            with _each_place(builder, listed, args[2], args[3], lane) as place:
                _store(builder, builder.fadd(_load(builder, into, place, _DOUBLES), part), into, place)
        return context.get_dummy_value()

    return types.void(m, places, _SIZE, _SIZE, added, _SIZE, _SIZE, _SIZE), generate


def _add_to_each_wide(_context, m, e, places, count, offset, added, added_e, added_at, at, runs):
    """`add_to_each` of wide numbers, where zero has the exponent 0."""

    def generate(context, builder, signature, args):
        into, into_e, listed, source, source_e = (
            _data(context, builder, signature, args, i) for i in (0, 1, 2, 5, 6)
        )
        with _each_run(builder, args[8], args[9]) as lane:
            here = builder.add(args[7], lane)
            part, part_e = _load(builder, source, here, _DOUBLES), _load(builder, source_e, here, _INTS)
            with _each_place(builder, listed, args[3], args[4], lane) as place:
                before, before_e = _load(builder, into, place, _DOUBLES), _load(builder, into_e, place, _INTS)
                top = _higher(builder, before_e, part_e)
                brought = (_brought(builder, before, before_e, top), _brought(builder, part, part_e, top))
                _store_wide(builder, builder.fadd(*brought), top, into, into_e, place)
        return context.get_dummy_value()

    return types.void(m, e, places, _SIZE, _SIZE, added, added_e, _SIZE, _SIZE, _SIZE), generate


def _take_least(_context, to, to_at, x, places, count, offset, at, runs):
    """to[to_at] = the least of it and the vectors x[places[i] + offset], i < count."""

    def generate(context, builder, signature, args):
        into, source, listed = (_data(context, builder, signature, args, i) for i in (0, 2, 3))
        with _each_run(builder, args[6], args[7]) as lane:
            here = builder.add(args[1], lane)
            least = _variable(builder, _load(builder, into, here, _DOUBLES))
            with _each_place(builder, listed, args[4], args[5], lane) as place:
                builder.store(
                    _lower(builder, _load(builder, source, place, _DOUBLES), builder.load(least)), least
                )
            _store(builder, builder.load(least), into, here)
        return context.get_dummy_value()

    return types.void(to, _SIZE, x, places, _SIZE, _SIZE, _SIZE, _SIZE), generate


def _lower_each(_context, x, places, count, offset, least, least_at, at, runs):
    """x[places[i] + offset] = the least of it and least[least_at], for every i < count."""

    def generate(context, builder, signature, args):
        into, listed, source = (_data(context, builder, signature, args, i) for i in (0, 1, 4))
        with _each_run(builder, args[6], args[7]) as lane:
            part = _load(builder, source, builder.add(args[5], lane), _DOUBLES)
            with _each_place(builder, listed, args[2], args[3], lane) as place:
                _store(builder, _lower(builder, part, _load(builder, into, place, _DOUBLES)), into, place)
        return context.get_dummy_value()

    return types.void(x, places, _SIZE, _SIZE, least, _SIZE, _SIZE, _SIZE), generate


def _add_times(_context, to, to_at, added, added_at, factor, at, runs):
    """to[to_at] += added[added_at] · factor."""

    def generate(context, builder, signature, args):
        into, source = (_data(context, builder, signature, args, i) for i in (0, 2))
        factors = _spread(builder, args[4])
        with _each_run(builder, args[5], args[6]) as lane:
            here = builder.add(args[1], lane)
            part = _load(builder, source, builder.add(args[3], lane), _DOUBLES)
            whole = builder.fadd(_load(builder, into, here, _DOUBLES), builder.fmul(part, factors))
            _store(builder, whole, into, here)
        return context.get_dummy_value()

    return types.void(to, _SIZE, added, _SIZE, types.float64, _SIZE, _SIZE), generate


def _any_mass(_context, m, place, at, runs):
    """Whether any lane of the run is not zero."""
    return types.boolean(m, _SIZE, _SIZE, _SIZE), _any(
        lambda builder, numbers: builder.fcmp_unordered("!=", numbers, _all(0.0))
    )


def _any_large(_context, m, place, at, runs):
    """Whether any lane of the run is past LARGEST, or is no number."""

    def is_large(builder: Any, numbers: Any) -> Any:
        above = builder.fcmp_unordered(">", numbers, _all(LARGEST))
        return builder.or_(above, builder.fcmp_unordered("<", numbers, _all(-LARGEST)))

    return types.boolean(m, _SIZE, _SIZE, _SIZE), _any(is_large)


def _any(is_so: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Code that tells whether something is so in any lane."""

    def generate(context, builder, signature, args):
        source = _data(context, builder, signature, args, 0)
        found = _variable(builder, ir.Constant(_BYTE, 0))
        with _each_run(builder, args[2], args[3]) as lane:
            here = is_so(builder, _load(builder, source, builder.add(args[1], lane), _DOUBLES))
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
    with cgutils.for_range(builder, runs, intp=_INDEX) as loop:
        yield builder.add(at, builder.mul(loop.index, ir.Constant(_INDEX, RUN)))


@contextmanager
def _each_place(builder: Any, listed: Any, count: Any, offset: Any, lane: Any) -> Iterator[Any]:
    """A loop over where the run of each vector in a list begins."""
    beyond = builder.add(offset, lane)
    with cgutils.for_range(builder, count, intp=_INDEX) as loop:
        yield builder.add(builder.load(builder.gep(listed, [loop.index])), beyond)


def _variable(builder: Any, value: Any) -> Any:
    """A value that changes: LLVM keeps it in a register."""
    place = cgutils.alloca_once(builder, value.type)
    builder.store(value, place)
    return place


def _brought(builder: Any, m: Any, e: Any, top: Any) -> Any:
    """Mantissas brought to exponents that are no lower; two apart nothing of them is seen."""
    gap = builder.sub(top, e)
    is_near = builder.icmp_signed("==", gap, ir.Constant(_INTS, [1] * RUN))
    scale = builder.select(is_near, _all(SHRINK), _all(0.0))
    is_same = builder.icmp_signed("==", gap, ir.Constant(_INTS, [0] * RUN))
    return builder.fmul(m, builder.select(is_same, _all(1.0), scale))


def _store_wide(builder: Any, m: Any, e: Any, into: Any, into_e: Any, place: Any) -> None:
    """Store sums with mantissas in their range again, and zero with the exponent 0."""
    above = builder.fcmp_ordered(">=", m, _all(RADIX))
    is_over = builder.or_(above, builder.fcmp_ordered("<=", m, _all(-RADIX)))
    m = builder.select(is_over, builder.fmul(m, _all(SHRINK)), m)
    e = builder.add(e, builder.zext(is_over, _INTS))
    is_zero = builder.fcmp_ordered("==", m, _all(0.0))
    e = builder.select(is_zero, ir.Constant(_INTS, [0] * RUN), e)
    _store(builder, m, into, place)
    _store(builder, e, into_e, place)


def _higher(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def _lower(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _all(value: float) -> ir.Constant:
    return ir.Constant(_DOUBLES, [value] * RUN)


def _spread(builder: Any, value: Any) -> Any:
    """A double in every lane."""
    nothing = ir.Constant(_DOUBLES, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_INTS, [0] * RUN))


def _data(context: Any, builder: Any, signature: Any, args: Any, number: int) -> Any:
    """Where the values of an argument that is an array begin."""
    return context.make_array(signature.args[number])(context, builder, args[number]).data


def _load(builder: Any, data: Any, at: Any, vector: Any) -> Any:
    place = builder.bitcast(builder.gep(data, [at]), vector.as_pointer())
    return _aligned(builder.load(place), vector)


def _store(builder: Any, value: Any, data: Any, at: Any) -> None:
    place = builder.bitcast(builder.gep(data, [at]), value.type.as_pointer())
    _aligned(builder.store(value, place), value.type)


def _aligned(instruction: Any, vector: Any) -> Any:
    """An array is aligned as its values are, not as a vector of them."""
    instruction.align = 4 if vector == _INTS else 8
    return instruction


add_up: Any = intrinsic(_add_up)
add_up_wide: Any = intrinsic(_add_up_wide)
add_to_each: Any = intrinsic(_add_to_each)
add_to_each_wide: Any = intrinsic(_add_to_each_wide)
take_least: Any = intrinsic(_take_least)
lower_each: Any = intrinsic(_lower_each)
add_times: Any = intrinsic(_add_times)
any_mass: Any = intrinsic(_any_mass)
any_large: Any = intrinsic(_any_large)
count_bits: Any = intrinsic(_count_bits)
