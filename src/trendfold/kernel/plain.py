"""The vector steps of kernel.simd and kernel.lane_runs in plain Python, for `NUMBA_DISABLE_JIT=1`.

Arguments are those of the steps of the same names; a row is padded to a multiple of WIDTH lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.kernel.wide import RADIX, RADIX_BITS, SHRINK

WIDTH = 8
LARGEST = 2.0**900
"""Numbers up to here are plain doubles, and so is any sum of fewer than 2^100 of them."""
Numbers = NDArray[np.float64]


def top_of_blocks(exponent: NDArray[np.int32], offset: int, blocks: Any, count: int) -> int:
    """The highest exponent of the blocks; none is below 0."""
    top = 0
    for at, low, high, _ in blocks[:count].tolist():
        begin = int(offset) + at
        top = max(top, int(exponent[begin + low : begin + high].max(initial=0)))
    return top


def sum_blocks(
    mantissa: Numbers, exponent: NDArray[np.int32], offset: int, blocks: Any, count: int, top: int
) -> float:
    """The sum of the blocks' wide numbers as a mantissa for the exponent `top`."""
    sums = np.zeros(WIDTH)
    for at, low, high, _ in blocks[:count].tolist():
        begin = int(offset) + at
        own = slice(begin + low, begin + high)
        gap = np.minimum(int(top) - exponent[own], 3)
        sums[low:high] += mantissa[own] * np.ldexp(1.0, -RADIX_BITS * gap)
    while len(sums) > 1:  # neighbours first, as the vector step adds
        sums = sums[::2] + sums[1::2]
    return float(sums[0])


def _row(begin: int, lanes: int) -> slice:
    return slice(int(begin), int(begin) - (-int(lanes) // WIDTH) * WIDTH)


def gather_rows(sums, to, kept, m, of, lanes, times, factor, f) -> None:
    """For each lane: sums[to] = kept · sums[to] + times · m[of]."""
    sums[_row(to, lanes)] = sums[_row(to, lanes)] * kept + m[_row(of, lanes)] * times


def gather_rows_by_factor(sums, to, kept, m, of, lanes, times, factor, f) -> None:
    """The same, with m[of] times a factor."""
    sums[_row(to, lanes)] = sums[_row(to, lanes)] * kept + m[_row(of, lanes)] * times * factor[_row(f, lanes)]


def trailing_zeros(word: int) -> int:
    """How many zeros stand below the lowest bit of a word that is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


def prefetch(array: Any, at: int) -> None:
    """Plain Python has nothing to prefetch."""


# ---------------------------------------------------------------- runs of windows side by side


def _run(begin: int, at: int, runs: int) -> slice:
    """The lanes of a vector that are open."""
    return slice(int(begin) + int(at), int(begin) + int(at) + int(runs) * WIDTH)


def _listed(places: Any, count: int, offset: int) -> list[int]:
    return [int(place) + int(offset) for place in places[: int(count)]]


def _brought(m: Numbers, e: NDArray[np.int32], top: NDArray[np.int32]) -> Numbers:
    """Mantissas brought to exponents that are no lower; a gap of three or more adds nothing."""
    brought: Numbers = m * np.ldexp(1.0, -RADIX_BITS * np.minimum(top - e, 3))
    return brought


def _store_wide(m: Numbers, e: NDArray[np.int32], into: Numbers, into_e: Any, own: slice) -> None:
    """Store sums with mantissas in their range again, and zero with the exponent 0."""
    is_over = np.abs(m) >= RADIX
    into[own] = np.where(is_over, m * SHRINK, m)
    into_e[own] = np.where(m == 0.0, 0, e + is_over)


def add_up(to, to_at, m, places, count, offset, at, runs) -> None:
    """to[to_at] += the sum of the vectors m[places[i] + offset], i < count."""
    for place in _listed(places, count, offset):
        to[_run(to_at, at, runs)] += m[_run(place, at, runs)]


def add_up_wide(to, to_e, to_at, m, e, places, count, offset, at, runs) -> None:
    """`add_up` of wide numbers, where zero has the exponent 0: all are brought to the highest exponent."""
    own, others = _run(to_at, at, runs), [_run(p, at, runs) for p in _listed(places, count, offset)]
    top = to_e[own].copy()
    for other in others:
        top = np.maximum(top, e[other])
    whole = _brought(to[own], to_e[own], top)
    for other in others:
        whole = whole + _brought(m[other], e[other], top)
    _store_wide(whole, top, to, to_e, own)


def add_to_each(m, places, count, offset, added, added_at, at, runs) -> None:
    """m[places[i] + offset] += added[added_at], for every i < count."""
    for place in _listed(places, count, offset):
        m[_run(place, at, runs)] += added[_run(added_at, at, runs)]


def add_to_each_wide(m, e, places, count, offset, added, added_e, added_at, at, runs) -> None:
    """`add_to_each` of wide numbers, where zero has the exponent 0."""
    part, part_e = added[_run(added_at, at, runs)], added_e[_run(added_at, at, runs)]
    for place in _listed(places, count, offset):
        own = _run(place, at, runs)
        top = np.maximum(e[own], part_e)
        _store_wide(_brought(m[own], e[own], top) + _brought(part, part_e, top), top, m, e, own)


def take_least(to, to_at, x, places, count, offset, at, runs) -> None:
    """to[to_at] = the least of it and the vectors x[places[i] + offset], i < count."""
    own = _run(to_at, at, runs)
    for place in _listed(places, count, offset):
        to[own] = np.minimum(to[own], x[_run(place, at, runs)])


def lower_each(x, places, count, offset, least, least_at, at, runs) -> None:
    """x[places[i] + offset] = the least of it and least[least_at], for every i < count."""
    for place in _listed(places, count, offset):
        own = _run(place, at, runs)
        x[own] = np.minimum(x[own], least[_run(least_at, at, runs)])


def add_times(to, to_at, added, added_at, factor, at, runs) -> None:
    """to[to_at] += added[added_at] · factor."""
    to[_run(to_at, at, runs)] += added[_run(added_at, at, runs)] * factor


def any_mass(m: Numbers, place: int, at: int, runs: int) -> bool:
    """Whether any lane of the run is not zero."""
    return bool((m[_run(place, at, runs)] != 0.0).any())


def any_large(m: Numbers, place: int, at: int, runs: int) -> bool:
    """Whether any lane of the run is past LARGEST, or NaN."""
    return not bool((np.abs(m[_run(place, at, runs)]) <= LARGEST).all())


def count_bits(word: int) -> int:
    """How many bits of a word are set."""
    return int(word).bit_count()
