"""Pieces of LLVM code that work on eight numbers at a time; see kernel.simd for why.

An int32 or a double in each slot of a vector. Arrays are flat, and are given by where their values begin.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

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


def load(builder: Any, data: Any, at: Any, kind: Any) -> Any:
    """Eight values of an array."""
    return aligned(builder.load(builder.bitcast(builder.gep(data, [at]), kind.as_pointer())), kind)


def store(builder: Any, value: Any, data: Any, at: Any) -> None:
    """Eight values into an array."""
    place = builder.bitcast(builder.gep(data, [at]), value.type.as_pointer())
    aligned(builder.store(value, place), value.type)


def aligned(instruction: Any, kind: Any) -> Any:
    """An array is aligned as its values are, not as a vector of them."""
    instruction.align = 4 if kind == INTS else 8
    return instruction
