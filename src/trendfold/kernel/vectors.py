"""Pieces of LLVM code that work on eight numbers at a time; see kernel.simd for why.

An int32 or a double in each slot of a vector. Arrays are flat, and are given by where their values begin.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from trendfold.kernel.wide import RADIX_BITS

WIDTH = 8
"""Numbers that are worked on at a time: slots of a vector."""
INT, DOUBLE, INDEX = ir.IntType(32), ir.DoubleType(), ir.IntType(64)
INTS, DOUBLES = ir.VectorType(INT, WIDTH), ir.VectorType(DOUBLE, WIDTH)


def everywhere(kind: Any, value: float) -> ir.Constant:
    """A constant in every slot."""
    return ir.Constant(kind, [value] * WIDTH)


def spread(builder: Any, value: Any, kind: Any = INTS) -> Any:
    """A value in every slot."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(INT, 0))
    return builder.shuffle_vector(first, nothing, everywhere(INTS, 0))


def higher(builder: Any, a: Any, b: Any) -> Any:
    """The higher of two integers, slot by slot."""
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def scale(builder: Any, gap: Any) -> Any:
    """2^(-256 gap) as doubles made of bits; a gap above 3 counts as 3: no sum changes."""
    small = builder.select(builder.icmp_signed("<", gap, everywhere(INTS, 3)), gap, everywhere(INTS, 3))
    longs = ir.VectorType(INDEX, WIDTH)
    bits = builder.shl(builder.zext(small, longs), everywhere(longs, 52 + RADIX_BITS.bit_length() - 1))
    return builder.bitcast(builder.sub(everywhere(longs, 1023 << 52), bits), DOUBLES)


def data_of(context: Any, builder: Any, signature: Any, args: Any, i: int) -> Any:
    """Where the values of an argument that is an array begin."""
    return context.make_array(signature.args[i])(context, builder, args[i]).data


def load(builder: Any, data: Any, at: Any, kind: Any, mask: Any = None) -> Any:
    """Eight values of an array, or those of a mask."""
    place = builder.bitcast(builder.gep(data, [at]), kind.as_pointer())
    if mask is None:
        return aligned(builder.load(place), kind)
    return _masked(builder, "load", kind, [place, _alignment(kind), mask, ir.Constant(kind, ir.Undefined)])


def store(builder: Any, value: Any, data: Any, at: Any, mask: Any = None) -> None:
    """Eight values into an array, or those of a mask."""
    place = builder.bitcast(builder.gep(data, [at]), value.type.as_pointer())
    if mask is None:
        aligned(builder.store(value, place), value.type)
    else:
        _masked(builder, "store", value.type, [value, place, _alignment(value.type), mask])


def _masked(builder: Any, what: str, kind: Any, args: list[Any]) -> Any:
    """A masked load or store."""
    name = f"llvm.masked.{what}.v{WIDTH}{'i32' if kind == INTS else 'f64'}.p0"
    returned = kind if what == "load" else ir.VoidType()
    called = ir.FunctionType(returned, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, called, name), args)


def _alignment(kind: Any) -> Any:
    return ir.Constant(INT, 4 if kind == INTS else 8)


def aligned(instruction: Any, kind: Any) -> Any:
    """An array is aligned as its values are, not as a vector of them."""
    instruction.align = _alignment(kind).constant
    return instruction
