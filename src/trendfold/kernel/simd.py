"""Vector steps in LLVM: eight wide numbers at a time, as a sum tree and the shared folds need them.

numba leaves straight-line code scalar, and a loop of eight is unrolled into just that. So these few steps are
written with LLVM vectors, which LLVM lowers to the instructions of the machine. kernel.plain says in Python
what each step means. In a block of siblings, slots outside [low, high) count as empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from trendfold.kernel import plain
from trendfold.kernel.jit import vector_step
from trendfold.kernel.vectors import (
    DOUBLES,
    INDEX,
    INT,
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

# Blocks of eight are given as
#
#   offset  uint64        where the numbers begin, in arrays that are flat
#   blocks  uint64[., 4]  first number, slots [1, 2); the rest is not read
#   count   int64         of blocks
#
# Eight results are kept in registers, which is why the loops are here: numba would store them at every step.


def _top_of_blocks(_context, exponent, offset, blocks, count):
    """The highest exponent of the blocks; none is below 0."""

    def generate(context, builder, signature, args):
        data = data_of(context, builder, signature, args, 0)
        tops = cgutils.alloca_once_value(builder, everywhere(INTS, 0))

        def step(at, inside):
            here = builder.select(inside, load(builder, data, at, INTS), everywhere(INTS, 0))
            builder.store(higher(builder, here, builder.load(tops)), tops)

        _for_blocks(context, builder, signature, args, 1, step)
        return _folded(builder, builder.load(tops), lambda a, b: higher(builder, a, b))

    return types.int32(exponent, types.uint64, blocks, types.int64), generate


def _sum_blocks(_context, mantissa, exponent, offset, blocks, count, top):
    """The sum of the blocks' wide numbers as a mantissa for the exponent `top`, the highest of them."""

    def generate(context, builder, signature, args):
        m_data, e_data = (data_of(context, builder, signature, args, i) for i in (0, 1))
        sums = cgutils.alloca_once_value(builder, everywhere(DOUBLES, 0.0))
        top = spread(builder, args[5])

        def step(at, inside):
            here = builder.select(inside, load(builder, m_data, at, DOUBLES), everywhere(DOUBLES, 0.0))
            exponents = builder.select(inside, load(builder, e_data, at, INTS), top)
            brought = builder.fmul(here, scale(builder, builder.sub(top, exponents)))
            builder.store(builder.fadd(builder.load(sums), brought), sums)

        _for_blocks(context, builder, signature, args, 2, step)
        return _folded(builder, builder.load(sums), builder.fadd)

    signature = types.float64(mantissa, exponent, types.uint64, blocks, types.int64, types.int32)
    return signature, generate


def _for_blocks(context: Any, builder: Any, signature: Any, args: Any, first: int, step: Any) -> None:
    """Take the step at every block; argument `first` is the offset, then come blocks and count."""
    offset, count = args[first], args[first + 2]
    data = data_of(context, builder, signature, args, first + 1)
    with cgutils.for_range(builder, count) as loop:
        row = builder.shl(loop.index, _index(2))
        at, low, high = (builder.load(builder.gep(data, [builder.add(row, _index(i))])) for i in range(3))
        step(builder.add(offset, at), _inside(builder, low, high))


def _gather_rows(has_factor: bool) -> Any:
    """For each lane: sums[to] = kept · sums[to] + times · factor · m[of]."""

    def gather(_context, sums, to, kept, m, of, lanes, times, factor, f):
        def generate(context, builder, signature, args):
            s_data, m_data, f_data = (data_of(context, builder, signature, args, i) for i in (0, 3, 7))
            _, to, kept, _, of, lanes, times, _, f = args
            gain, kept = spread(builder, times, DOUBLES), spread(builder, kept, DOUBLES)
            with _each_vector(builder, lanes) as at:
                old = builder.fmul(load(builder, s_data, builder.add(to, at), DOUBLES), kept)
                read = builder.fmul(load(builder, m_data, builder.add(of, at), DOUBLES), gain)
                if has_factor:
                    read = builder.fmul(read, load(builder, f_data, builder.add(f, at), DOUBLES))
                store(builder, builder.fadd(old, read), s_data, builder.add(to, at))
            return context.get_dummy_value()

        index, number = types.int64, types.float64
        return types.void(sums, index, number, m, index, index, number, factor, index), generate

    return gather


@contextmanager
def _each_vector(builder: Any, lanes: Any) -> Iterator[Any]:
    """A loop over where each vector of a row of `lanes` lanes begins."""
    count = builder.lshr(builder.add(lanes, _index(WIDTH - 1)), _index(3))
    with cgutils.for_range(builder, count) as loop:
        yield builder.shl(loop.index, _index(3))


def _trailing_zeros(_context, word):
    """How many zeros stand below the lowest bit of a word that is not 0."""

    def generate(_target, builder, _signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


def _prefetch(_context, array, at):
    """Prefetch the cache line of array[at]."""

    def generate(context, builder, signature, args):
        data = data_of(context, builder, signature, args, 0)
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, INT, INT, INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        constants = [ir.Constant(INT, value) for value in (1, 3, 1)]  # for writing, to keep, data
        builder.call(function, [builder.bitcast(builder.gep(data, [args[1]]), byte), *constants])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


def _index(value: int) -> ir.Constant:
    return ir.Constant(INDEX, value)


def _folded(builder: Any, vector: Any, pair: Any) -> Any:
    """One value from eight, neighbours first."""
    values = [builder.extract_element(vector, ir.Constant(INT, slot)) for slot in range(WIDTH)]
    while len(values) > 1:
        values = [pair(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _inside(builder: Any, low: Any, high: Any) -> Any:
    """Which slots are in [low, high)."""
    slot = ir.Constant(INTS, list(range(WIDTH)))
    from_low = builder.icmp_signed(">=", slot, spread(builder, builder.trunc(low, INT)))
    return builder.and_(from_low, builder.icmp_signed("<", slot, spread(builder, builder.trunc(high, INT))))


top_of_blocks: Any = vector_step(_top_of_blocks, plain.top_of_blocks)
sum_blocks: Any = vector_step(_sum_blocks, plain.sum_blocks)
gather_rows: Any = vector_step(_gather_rows(has_factor=False), plain.gather_rows)
gather_rows_by_factor: Any = vector_step(_gather_rows(has_factor=True), plain.gather_rows_by_factor)
trailing_zeros: Any = vector_step(_trailing_zeros, plain.trailing_zeros)
prefetch: Any = vector_step(_prefetch, plain.prefetch)
