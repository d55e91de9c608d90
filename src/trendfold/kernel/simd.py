"""Eight wide numbers at a time: what a sum tree does to a block of siblings, as vector instructions.

numba leaves straight-line code scalar, and a loop of eight is unrolled into just that. So these few steps are
written in LLVM's own vectors, which it lowers to what the machine has. Lanes outside [low, high) are empty.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from trendfold.kernel.wide import SHRINK

LANES = 8
_INT, _DOUBLE, _INDEX = ir.IntType(32), ir.DoubleType(), ir.IntType(64)
_INTS, _DOUBLES = ir.VectorType(_INT, LANES), ir.VectorType(_DOUBLE, LANES)


def _raise_tops(_context, exponent, at, low, high, tops):
    """tops = max(tops, exponent[at : at + 8]), lane by lane.

    exponent  int32[n], flat; tops  int32[8]; at, low, high  uint64
    """

    def generate(context, builder, signature, args):
        here = _load(context, builder, signature.args[0], args[0], args[1], _INTS)
        here = builder.select(_inside(builder, args[2], args[3]), here, _all(_INTS, 0))
        place = _place(context, builder, signature.args[4], args[4], ir.Constant(_INDEX, 0), _INTS)
        before = _aligned(builder.load(place), _INTS)
        higher = builder.icmp_signed(">", here, before)
        _aligned(builder.store(builder.select(higher, here, before), place), _INTS)
        return context.get_dummy_value()

    return types.void(exponent, types.uint64, types.uint64, types.uint64, tops), generate


def _add_lanes(_context, mantissa, exponent, at, low, high, top, sums):
    """sums += mantissa[at : at + 8] brought to the exponent `top`, which none may exceed, lane by lane.

    mantissa  float64[n], flat; exponent  int32[n], flat; top  int32; sums  float64[8]
    """

    def generate(context, builder, signature, args):
        here = _load(context, builder, signature.args[0], args[0], args[2], _DOUBLES)
        gap = builder.sub(
            _spread(builder, args[5]), _load(context, builder, signature.args[1], args[1], args[2], _INTS)
        )
        is_near = builder.icmp_signed("==", gap, _all(_INTS, 1))
        scale = builder.select(is_near, _all(_DOUBLES, SHRINK), _all(_DOUBLES, 0.0))
        scale = builder.select(builder.icmp_signed("==", gap, _all(_INTS, 0)), _all(_DOUBLES, 1.0), scale)
        scale = builder.select(_inside(builder, args[3], args[4]), scale, _all(_DOUBLES, 0.0))
        place = _place(context, builder, signature.args[6], args[6], ir.Constant(_INDEX, 0), _DOUBLES)
        before = _aligned(builder.load(place), _DOUBLES)
        _aligned(builder.store(builder.fadd(before, builder.fmul(here, scale)), place), _DOUBLES)
        return context.get_dummy_value()

    signature = types.void(mantissa, exponent, types.uint64, types.uint64, types.uint64, types.int32, sums)
    return signature, generate


def _trailing_zeros(_context, word):
    """How many zeros stand below the lowest bit of a word that is not 0."""

    def generate(_target, builder, _signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _prefetch(_context, array, at):
    """Bring the cache line of array[at] nearer, for what will be read soon."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        constants = [ir.Constant(_INT, value) for value in (1, 3, 1)]  # for writing, to keep, data
        builder.call(function, [builder.bitcast(builder.gep(data, [args[1]]), byte), *constants])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


def _all(kind: Any, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * LANES)


def _spread(builder: Any, value: Any) -> Any:
    """An int32 in every lane."""
    nothing = ir.Constant(_INTS, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, nothing, _all(_INTS, 0))


def _inside(builder: Any, low: Any, high: Any) -> Any:
    """Which lanes are in [low, high)."""
    lane = ir.Constant(_INTS, list(range(LANES)))
    from_low = builder.icmp_signed(">=", lane, _spread(builder, builder.trunc(low, _INT)))
    return builder.and_(from_low, builder.icmp_signed("<", lane, _spread(builder, builder.trunc(high, _INT))))


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    """Where eight values of an array begin."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def _load(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    return _aligned(builder.load(_place(context, builder, kind, array, at, vector)), vector)


def _aligned(instruction: Any, vector: Any) -> Any:
    """An array is aligned as its values are, not as a vector of them."""
    instruction.align = 4 if vector is _INTS else 8
    return instruction


raise_tops: Any = intrinsic(_raise_tops)
add_lanes: Any = intrinsic(_add_lanes)
trailing_zeros: Any = intrinsic(_trailing_zeros)
prefetch: Any = intrinsic(_prefetch)
