"""Sum trees below one another: how much mass lies in a rectangle of two values, in O(log² n).

The bindings of a segment have a rank by each of two values, both counted from 0 and all different. Level 0
is one sum tree over all of them in the order of the second value. Every next level halves the ranks of the
first value once more: its leaves stand half by half, and in each half by the second value. So all halves of
a level lie side by side in one sum tree, and the last level is in the order of the first value.

A stretch of first ranks is at most two halves per level; of each half, a stretch of second ranks is a stretch
of leaves. Where a stretch of a half begins in a half of that half is a matter of counting who went left:
`zeros`, per level and leaf, tells how many leaves before it are in a left half. It needs no search.

A half with bit length `shift` begins at a multiple of 2^shift, and every half before it is full: so half of
the leaves before it went left, and where it begins need not be stored.
"""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.tree import EMPTY, OPEN

MOST_SPANS = 4 * 65
"""Per question: up to two ranges of each value, and for each of the four pairs two halves at each of 32
levels."""


def level_count(bindings: int) -> int:
    """The number of trees that so many bindings need."""
    return max(0, bindings - 1).bit_length() + 1


@kernel
def nest(segment, first, second, begin, count, leaf, zeros):
    """Build the levels of all segments.

    segment        int64[S+1]  rows of each
    first, second  int32[n]    per row: its rank by each value, from 1; 0 where it is not asked
    begin          int64[S]    where the counts of a segment begin
    count          int32[S]    out: bindings of each segment
    leaf           int32[L,n]  out: per level and row its leaf, from 1; zeros at first
    zeros          int32[L,.]  out
    """
    most = np.diff(segment).max() if begin.shape[0] else 0
    now, after, row_of = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int64)
    for s in range(begin.shape[0]):
        many = 0
        for row in range(segment[s], segment[s + 1]):
            if first[row] > 0:
                now[second[row] - 1] = first[row] - 1
                row_of[first[row] - 1] = row
                many += 1
        count[s] = many
        shift = _bit_length(many)
        level = 0
        while True:
            for p in range(many):
                leaf[level, row_of[now[p]]] = p + 1
            if shift == 0:
                break
            _halve(now, after, many, shift, zeros[level], begin[s])
            now, after = after, now
            shift -= 1
            level += 1


@kernel
def _halve(now, after, many, shift, zeros, begin):
    """Split each half of one level into two halves, in order."""
    half = 1 << (shift - 1)
    left = 0
    for p in range(many):
        zeros[begin + p] = left
        start = (p >> shift) << shift
        to_left = start + left - (start >> 1)
        if now[p] & half:
            after[start + half + p - to_left] = now[p]
        else:
            after[to_left] = now[p]
            left += 1
    zeros[begin + many] = left


@inlined
def _bit_length(bindings):
    """The number of levels below the first: the bits of the largest rank."""
    bits = 0
    while (1 << bits) < bindings:
        bits += 1
    return bits


@kernel
def find_spans(nested, a, tree, span, e, spans):
    """The ranges of leaves that event `e` asks for through access `a`, whose first tree is `tree`.

    spans  int32[., 3]  out: tree, and the leaves around the range; returns how many
    """
    home = nested.home[e]
    many, begin = nested.many[a, home], nested.begin[home]
    half = span.shape[2] // 2
    found = 0
    for p in range(0, half, 2):
        if span[a, e, p] == EMPTY:
            continue
        x0, x1 = _inside(span[a, e, p], span[a, e, p + 1], many)
        for q in range(half, 2 * half, 2):
            if span[a, e, q] == EMPTY:
                continue
            y0, y1 = _inside(span[a, e, q], span[a, e, q + 1], many)
            found = _rectangle(nested.zeros, begin, np.int64(tree), many, x0, x1, y0, y1, spans, found)
    return found


@inlined
def _inside(low, high, many):
    """Exclusive bounds of leaves as ranks from 0, the last one excluded."""
    return np.int64(low), np.int64(many if high == OPEN else high - 1)


@kernel
def _rectangle(zeros, begin, tree, many, x0, x1, y0, y1, spans, found):
    """Append the ranges for first ranks [x0, x1) and second ranks [y0, y1).

    From the top down to where both bounds part, then along each: a half is taken whole once it is inside.
    """
    shift = _bit_length(many)
    start = np.int64(0)
    while x0 < x1 and y0 < y1:
        end = min(start + (1 << shift), many)
        if x0 <= start and x1 >= end:
            return _append(tree, y0, y1, spans, found)
        half = start + (1 << (shift - 1))
        left0, left1 = _to_left(zeros, tree, begin, start, y0), _to_left(zeros, tree, begin, start, y1)
        right0, right1 = half + y0 - left0, half + y1 - left1
        tree += 1
        shift -= 1
        if x1 <= half:
            y0, y1 = left0, left1
        elif x0 >= half:
            start, y0, y1 = half, right0, right1
        else:
            found = _from(zeros, begin, tree, shift, start, x0, left0, left1, spans, found)
            return _until(zeros, begin, tree, shift, half, many, x1, right0, right1, spans, found)
    return found


@kernel
def _from(zeros, begin, tree, shift, start, x0, y0, y1, spans, found):
    """Append the ranges of a half from rank x0 on."""
    while y0 < y1 and x0 > start:
        half = start + (1 << (shift - 1))
        left0, left1 = _to_left(zeros, tree, begin, start, y0), _to_left(zeros, tree, begin, start, y1)
        right0, right1 = half + y0 - left0, half + y1 - left1
        tree += 1
        shift -= 1
        if x0 < half:
            found = _append(tree, right0, right1, spans, found)
            y0, y1 = left0, left1
        else:
            start, y0, y1 = half, right0, right1
    return _append(tree, y0, y1, spans, found)


@kernel
def _until(zeros, begin, tree, shift, start, many, x1, y0, y1, spans, found):
    """Append the ranges of a half before rank x1, which is past its start."""
    while y0 < y1 and x1 < min(start + (1 << shift), many):
        half = start + (1 << (shift - 1))
        left0, left1 = _to_left(zeros, tree, begin, start, y0), _to_left(zeros, tree, begin, start, y1)
        tree += 1
        shift -= 1
        if x1 > half:
            found = _append(tree, left0, left1, spans, found)
            start, y0, y1 = half, half + y0 - left0, half + y1 - left1
        else:
            y0, y1 = left0, left1
    return _append(tree, y0, y1, spans, found)


@inlined
def _to_left(zeros, tree, begin, start, p):
    """Where the leaves before p, of the half that begins at `start`, end in its left half."""
    return start + zeros[tree, begin + p] - (start >> 1)


@inlined
def _append(tree, y0, y1, spans, found):
    """Append a range of leaves, unless it is empty."""
    if y0 < y1:
        spans[found, 0], spans[found, 1], spans[found, 2] = tree, y0, y1 + 1
        found += 1
    return found
