"""`kernel.sliding` in doubles, which suffice for windows of a few hundred events that trends may take.

The two stacks, the order of multiplication and the names are those of `kernel.sliding`. Only counts and sums
are carried, no class moves, and no stretch comes as a matrix. Where a number leaves the range of doubles, the
kernel returns the window that needed it, and wide numbers take over for one front.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.jit import inlined, kernel, lent
from trendfold.kernel.program import ONE
from trendfold.kernel.wide import normalise

LARGEST = 2.0**900
"""Sums of fewer than 2^100 numbers up to here are finite."""


class DoubleStacks(NamedTuple):
    """The steps of a machine, as in BindingSteps but unsigned, and memory for the two stacks.

    spent, spent_start   per symbol: the states that an event empties before it leaves its mass
    front                float64[most alive, numbers]         states · width, rounded up to a multiple of four
    product              float64[states, numbers]             of the front that grows, then of the back
    total                float64[most steps of a moment, numbers]
    """

    step_start: NDArray[np.uint64]
    src_start: NDArray[np.uint64]
    src: NDArray[np.uint64]
    dst_start: NDArray[np.uint64]
    dst: NDArray[np.uint64]
    weight: NDArray[np.int32]
    spent_start: NDArray[np.uint64]
    spent: NDArray[np.uint64]
    front: NDArray[np.float64]
    product: NDArray[np.float64]
    total: NDArray[np.float64]


@kernel
def slide_doubles(events, cut, stacks, frame, k, out):
    """Write the whole trends of the windows from k on; returns the first that does not fit doubles."""
    first, last = cut.first, cut.last
    while k < first.shape[0]:
        middle = last[k]
        if not _grow_front(events, cut, k, stacks, frame):
            return k
        begun = k
        k = _grow_back(events, cut, k, middle, stacks, frame, out)
        if k < first.shape[0] and first[k] < middle:
            return max(k, begun)
    return k


@kernel
def _grow_front(events, cut, k, stacks, frame):
    """Write the vectors of a new front, for the stretches of window k; False if a number is large."""
    events, cut, stacks = lent(events), lent(cut), lent(stacks)
    front, product, total = stacks.front, stacks.product, stacks.total
    spent_start, spent = stacks.spent_start, stacks.spent
    numbers, flat, sums = np.uint64(product.shape[1]), product.reshape(-1), total.reshape(-1)
    symbol, moment = events.symbol, events.moment
    _identity(flat, product.shape[1], product.shape[0], frame.width)
    for j in range(cut.last[k] - 1, cut.first[k] - 1, -1):
        low, high = cut.low[j], cut.high[j]
        while high > low:
            i = high - 1
            while i > low and moment[i - 1] == moment[i]:
                i -= 1
            if not _gather(
                events, i, high, stacks, stacks.dst_start, stacks.dst, frame.width, flat, sums, numbers
            ):
                return False
            _empty_spent(symbol, i, high, spent_start, spent, flat, numbers)
            _scatter(symbol, i, high, stacks, stacks.src_start, stacks.src, flat, sums, numbers)
            high = i
        place, at = j % front.shape[0], frame.start * product.shape[1]
        for n in range(product.shape[1]):
            front[place, n] = flat[at + n]
    return True


@kernel
def _grow_back(events, cut, k, middle, stacks, frame, out):
    """Write the windows from k on that begin before the middle; returns the first that is not written."""
    events, cut, stacks, out = lent(events), lent(cut), lent(stacks), lent(out)
    product, total, width = stacks.product, stacks.total, frame.width
    spent_start, spent = stacks.spent_start, stacks.spent
    numbers, flat, sums = np.uint64(product.shape[1]), product.reshape(-1), total.reshape(-1)
    used = product.shape[0] * width
    front = stacks.front.reshape(-1)
    symbol, moment, first, last = events.symbol, events.moment, cut.first, cut.last
    _identity(flat, product.shape[1], product.shape[0], width)
    j = middle
    while k < first.shape[0] and first[k] < middle:
        while j < last[k]:
            low, high = cut.low[j], cut.high[j]
            while low < high:
                i = low + 1
                while i < high and moment[i] == moment[low]:
                    i += 1
                if not _gather(
                    events, low, i, stacks, stacks.src_start, stacks.src, width, flat, sums, numbers
                ):
                    return k
                _empty_spent(symbol, low, i, spent_start, spent, flat, numbers)
                _scatter(symbol, low, i, stacks, stacks.dst_start, stacks.dst, flat, sums, numbers)
                low = i
            j += 1
        at = (first[k] % stacks.front.shape[0]) * product.shape[1]
        fits = True
        for w in range(width):
            whole = 0.0
            for t in frame.whole:
                here = t * product.shape[1]
                for u in range(0, used, width):
                    whole += front[at + u] * flat[here + u + w]
                    if w > 0:
                        whole += front[at + u + w] * flat[here + u]
            fits &= abs(whole) < LARGEST  # neither infinite nor NaN
            out.mantissa[k, w], out.exponent[k, w] = whole, 0
        if not fits:
            out.mantissa[k] = 0.0
            return k
        for w in range(width):
            out.mantissa[k, w], out.exponent[k, w] = normalise(out.mantissa[k, w], out.exponent[k, w])
        k += 1
    return k


@inlined
def _identity(flat, numbers, states, width):
    """The product of no stretches."""
    for n in range(flat.shape[0]):
        flat[n] = 0.0
    for s in range(states):
        flat[s * numbers + s * width] = 1.0


# Rows are padded to a multiple of four numbers, which one vector instruction adds; and indices are unsigned,
# because a signed one costs a test for wraparound.


@inlined
def _gather(events, start, stop, stacks, of_start, of, width, flat, sums, numbers):
    """What each step of a moment carries from one end, in every slot; False if a number is large."""
    symbol, values, step_start, weight = events.symbol, events.values, stacks.step_start, stacks.weight
    base, top = np.uint64(0), 0.0
    for i in range(start, stop):
        for t in range(step_start[symbol[i]], step_start[np.uint32(symbol[i]) + np.uint32(1)]):
            for n in range(base, base + numbers):
                sums[n] = 0.0
            for o in range(of_start[t], of_start[t + np.uint64(1)]):
                _add_four_by_four(sums, base, flat, of[o] * numbers, numbers)
            for w in range(1, width):
                column = weight[t, w]
                if column >= ONE:
                    value = 1.0 if column == ONE else values[i, column]
                    for n in range(base, base + numbers - np.uint64(width - 1), np.uint64(width)):
                        sums[n + np.uint64(w)] += sums[n] * value
            for n in range(base, base + numbers):
                size = abs(sums[n])
                top = top if size <= top else size  # NaN stays
            base += numbers
    return top < LARGEST


@inlined
def _empty_spent(symbol, start, stop, spent_start, spent, flat, numbers):
    """Empty the states that a moment uses up, or that it lets fade."""
    for i in range(start, stop):
        for o in range(spent_start[symbol[i]], spent_start[np.uint32(symbol[i]) + np.uint32(1)]):
            at = spent[o] * numbers
            for n in range(at, at + numbers):
                flat[n] = 0.0


@inlined
def _scatter(symbol, start, stop, stacks, to_start, to, flat, sums, numbers):
    """Add what the steps of a moment carry at their other ends."""
    step_start, base = stacks.step_start, np.uint64(0)
    for i in range(start, stop):
        for t in range(step_start[symbol[i]], step_start[np.uint32(symbol[i]) + np.uint32(1)]):
            for o in range(to_start[t], to_start[t + np.uint64(1)]):
                _add_four_by_four(flat, to[o] * numbers, sums, base, numbers)
            base += numbers


@inlined
def _add_four_by_four(into, at, given, begin, numbers):
    """Add a row of numbers to another one."""
    for n in range(np.uint64(0), numbers, np.uint64(4)):
        a, b = at + n, begin + n
        into[a] += given[b]
        into[a + np.uint64(1)] += given[b + np.uint64(1)]
        into[a + np.uint64(2)] += given[b + np.uint64(2)]
        into[a + np.uint64(3)] += given[b + np.uint64(3)]
