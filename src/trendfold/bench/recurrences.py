"""Reference answers from recurrences written for one pattern each, without trendfold's code.

Events are in time order, one per moment. For SEQ(A, B+, C) the codes 0, 1, 2 are A, B, C, and windows are
rows in [low, high). Counts exceed doubles, so answers are logarithms to base 2.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


# ---------------------------------------------------------------- windows


def windows(events: int, size: int, slide: int) -> tuple[Ints, Ints]:
    """WITHIN size SLIDE slide over one event per second, starting with the first non-empty window."""
    start = np.arange(slide - size - (slide - size) % slide, events, slide)
    return np.maximum(start, 0), np.minimum(start + size, events)


def windows_to(last: Ints, size: int) -> tuple[Ints, Ints]:
    """WITHIN size without SLIDE: one window ending at each of these events."""
    return np.maximum(last + 1 - size, 0), last + 1


def stretches(groups: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows sorted by group, and the bounds of each group."""
    rows = np.argsort(groups, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(groups)))
    return rows, edges[:-1], edges[1:]


# ---------------------------------------------------------------- SEQ(A, B+, C)


def counts(codes: Any, low: Ints, high: Ints, semantics: str = "skip-till-any-match") -> Floats:
    """log2 of the trends of each window."""
    if semantics == "skip-till-any-match":
        return aggregates(codes, np.zeros(len(codes)), low, high)[:, 0]
    found = np.zeros(len(low))
    _count_sparse(codes, low, high, semantics == "contiguous", found)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(found))


def aggregates(codes: Any, x: Floats, low: Ints, high: Ints) -> Floats:
    """Per window: log2 COUNT(*); SUM(B.x) and COUNT(B) divided by COUNT(*); MIN(B.x) and -MAX(B.x)."""
    found = np.zeros((len(low), 5))
    _aggregate(codes, x, low, high, found)
    return found


@numba.njit(cache=True)
def _aggregate(codes: Any, x: Any, low: Any, high: Any, found: Any) -> None:  # pragma: no cover
    """Count, sum and number of B, of trends that end in A, in B, and complete ones; scaled by 2 ** shift."""
    big = 2.0**300
    for k in range(low.shape[0]):
        shift, one = 0, 1.0
        a = b = b_sum = b_many = c = c_sum = c_many = 0.0
        b_min = c_min = b_max = c_max = np.inf
        for i in range(low[k], high[k]):
            code = codes[i]
            if code == 0:
                a += one
            elif code == 1:
                fresh = a + b
                b_sum += b_sum + fresh * x[i]
                b_many += b_many + fresh
                b += fresh
                if b > 0.0:
                    b_min, b_max = min(b_min, x[i]), min(b_max, -x[i])
            elif code == 2:
                c += b
                c_sum += b_sum
                c_many += b_many
                c_min, c_max = min(c_min, b_min), min(c_max, b_max)
            if c_many + b_many > big:
                one, a, b, b_sum, b_many = one / big, a / big, b / big, b_sum / big, b_many / big
                c, c_sum, c_many = c / big, c_sum / big, c_many / big
                shift += 300
        found[k, 0] = np.log2(c) + shift if c > 0.0 else -np.inf
        found[k, 1], found[k, 2] = (c_sum / c, c_many / c) if c > 0.0 else (0.0, 0.0)
        found[k, 3], found[k, 4] = c_min, c_max


@numba.njit(cache=True)
def _count_sparse(
    codes: Any, low: Any, high: Any, is_contiguous: Any, found: Any
) -> None:  # pragma: no cover
    """Under next, A waits for a B, and B for a B or C; under contiguous, any other event ends both."""
    for k in range(low.shape[0]):
        a = b = 0.0
        for i in range(low[k], high[k]):
            code = codes[i]
            if code == 0:
                a += 1.0
            elif code == 1:
                a, b = 0.0, a + b
            elif code == 2:
                found[k] += b
                b = 0.0
            if is_contiguous:
                a = min(a, 1.0) if code == 0 else 0.0
                b = b if code == 1 else 0.0


def lanes(codes: Any, groups: Ints, low: Ints, high: Ints) -> Floats:
    """GROUP BY B.g: log2 of the trends of each window and group; counts are doubles."""
    found = np.zeros((len(low), int(groups.max(initial=0)) + 1))
    _count_lanes(codes, groups, low, high, found)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(found).reshape(-1))


@numba.njit(cache=True)
def _count_lanes(codes: Any, groups: Any, low: Any, high: Any, found: Any) -> None:  # pragma: no cover
    for k in range(low.shape[0]):
        a, b = 0.0, np.zeros(found.shape[1])
        for i in range(low[k], high[k]):
            if codes[i] == 0:
                a += 1.0
            elif codes[i] == 1:
                b[groups[i]] += b[groups[i]] + a
            else:
                found[k] += b


def whole_numbers(codes: Any, v: Any, low: Ints, high: Ints) -> list[tuple[int, int, int]]:
    """COUNT(*), COUNT(B) and SUM(B.v) of each window as Python integers."""
    found = []
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        a = b = b_many = b_sum = c = c_many = c_sum = 0
        for code, value in zip(codes[first:last].tolist(), v[first:last].tolist(), strict=True):
            if code == 0:
                a += 1
            elif code == 1:
                fresh = a + b
                b, b_many, b_sum = b + fresh, 2 * b_many + fresh, 2 * b_sum + fresh * value
            elif code == 2:
                c, c_many, c_sum = c + b, c_many + b_many, c_sum + b_sum
        found.append((c, c_many, c_sum))
    return found


# ---------------------------------------------------------------- S+ with falling values


def falling(values: Floats, semantics: str) -> Floats:
    """log2 of the trends of S+ with S.x > NEXT(S).x, in one window over all events."""
    if semantics == "next":
        return np.array([np.log2(_falling_next(values))])
    rank = np.empty(len(values), np.int64)
    rank[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return np.array([_falling_any(rank)])


@numba.njit(cache=True)
def _falling_next(values: Any) -> Any:  # pragma: no cover
    """Events wait on a stack for the first lower one; values on the stack are non-decreasing."""
    waiting, many = np.zeros(values.shape[0]), np.zeros(values.shape[0])
    top, total = 0, 0.0
    for i in range(values.shape[0]):
        here = 1.0
        while top > 0 and waiting[top - 1] > values[i]:
            top -= 1
            here += many[top]
        waiting[top], many[top] = values[i], here
        top += 1
        total += here
    return total


@numba.njit(cache=True)
def _falling_any(rank: Any) -> Any:  # pragma: no cover
    """A Fenwick tree of logarithms over ranks, highest value first; -inf is empty."""
    n = rank.shape[0]
    tree = np.full(n + 1, -np.inf)
    total = -np.inf
    for i in range(n):
        here, at = 0.0, rank[i]
        while at > 0:
            here = _log_sum(here, tree[at])
            at -= at & -at
        total = _log_sum(total, here)
        at = rank[i] + 1
        while at <= n:
            tree[at] = _log_sum(tree[at], here)
            at += at & -at
    return total


@numba.njit(cache=True)
def _log_sum(one: Any, other: Any) -> Any:  # pragma: no cover
    """log2 of the sum of two numbers given by their logarithms."""
    low, high = min(one, other), max(one, other)
    return high if low == -np.inf else high + np.log2(1.0 + 2.0 ** (low - high))
