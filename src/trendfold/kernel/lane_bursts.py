"""Bursts: n equal events applied in one step, by powers of the matrix of one event in closed form.

An event changes counts by new = N · old. For all n >= 1

    N^n = A·2^n + B·n + C        exactly if        N · (N - 1)^2 · (N - 2) = 0

which holds for nearly all patterns: a place that follows itself doubles (2^n), one that collects constant
mass grows linearly (n), and spent or forgotten mass is gone after the first event (C).

A sum gains v · F · old from an event with value v. If N · F = F · N, values v1 ... vn add up to

    (v1 + ... + vn) · F · N^(n - 1)

in any order. Least and greatest values do not depend on n at all if the update of an event is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LONGEST = 128
"""Events of one burst: 2^LONGEST times a bound and a value stays in the range of doubles."""


class Growth(NamedTuple):
    """A coefficient that depends on the number of events n: one + twos · 2^n + each · n."""

    one: float
    twos: float
    each: float


Factor = int | Growth
"""A coefficient; a Growth is never constant, so that equal ones compare equal."""
Powers = dict[int, dict[int, Factor]]
"""Rows that n events change: per state the states it is the sum of, and how often each."""
_Dense = NDArray[np.int64]


def parts_of(factor: Factor) -> Growth:
    """A coefficient as three numbers."""
    return factor if isinstance(factor, Growth) else Growth(float(factor), 0.0, 0.0)


def dense(matrix: Mapping[int, Mapping[int, int]], size: int, is_change: bool = True) -> _Dense:
    """All rows; those that are missing are the identity's with `is_change`, otherwise empty."""
    found = np.eye(size, dtype=np.int64) if is_change else np.zeros((size, size), np.int64)
    for t, row in matrix.items():
        found[t] = 0
        for s, n in row.items():
            found[t, s] = n
    return found


def grown(once: _Dense) -> Powers | None:
    """The rows of N^n that differ from the identity; None if it has no such form."""
    one = np.eye(len(once), dtype=np.int64)
    if (once @ (once - one) @ (once - one) @ (once - 2 * one)).any():
        return None
    found = _through(once, once @ once, once @ once @ once)
    return {t: row for t, row in found.items() if row != {t: 1}}


def grown_feed(once: _Dense, inside: _Dense, fed: _Dense) -> Powers | None:
    """F · N^(n - 1), by which the sum of n values is multiplied; None if the order of the values matters.

    inside  N among the states that carry the sum
    fed     F
    """
    one = np.eye(len(once), dtype=np.int64)
    if (inside @ fed != fed @ once).any() or (fed @ (once - one) @ (once - one) @ (once - 2 * one)).any():
        return None
    return {t: row for t, row in _through(fed, fed @ once, fed @ once @ once).items() if row}


def is_idempotent(once: _Dense, inside: _Dense, fed: _Dense) -> bool:
    """Whether n events lower extremes as one with the least of their values does."""
    again, before, after = inside @ inside > 0, inside @ fed > 0, fed @ once > 0
    return bool(((inside > 0) == again).all() and (before == (fed > 0)).all() and (after == before).all())


def _through(first: _Dense, second: _Dense, third: _Dense) -> Powers:
    """The coefficients that are these for n = 1, 2 and 3."""
    twos, each = third - 2 * second + first, 3 * second - third - 2 * first
    one = first - twos - each
    found: Powers = {}
    for t in range(len(first)):
        row = found.setdefault(t, {})
        for s in np.flatnonzero(first[t] | second[t] | third[t]).tolist():
            changes = twos[t, s] or each[t, s]
            growth = Growth(float(one[t, s]), float(twos[t, s]) / 2.0, float(each[t, s]))
            row[s] = growth if changes else int(one[t, s])
    return found
