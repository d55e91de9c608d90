"""Two values compared by order -> ranks by each value, and the nested trees over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel import nested as kernels
from trendfold.kernel.program import Ints, Nested
from trendfold.plan.neighbour import Access, Structure

Sides = tuple[NDArray[np.float64], NDArray[np.float64]]
Fill = Callable[[Access, Sequence[Sides], Ints, Ints], int]
"""Ranks rows by one value: fills in leaves and spans, and returns the most leaves of a segment."""


def no_nested(accesses: Sequence[Access], segment: NDArray[np.int64], trees: int, rows: int) -> Nested:
    """Memory for nested trees; empty if no access has any."""
    is_nested = np.array([access.structure is Structure.NESTED for access in accesses], np.bool_)
    segments = len(segment) - 1 if is_nested.any() else 0
    per_row = (
        np.repeat(np.arange(segments, dtype=np.int32), np.diff(segment)) if segments else empty(0, np.int32)
    )
    return Nested(
        is_nested=is_nested,
        home=per_row,
        begin=segment[:segments] + np.arange(segments),
        many=np.zeros((len(accesses), segments), np.int32),
        zeros=empty((trees, rows + segments) if segments else (0, 0), np.int32),
    )


def nest(
    fill: Fill,
    access: Access,
    orders: Sequence[Sides],
    segment: NDArray[np.int64],
    nested: Nested,
    number: int,
    trees: slice,
    leaf: Ints,
    span: Ints,
) -> int:
    """Rank the rows of access `number` by both values; returns the most bindings of a segment."""
    sides = dict(zip(access.ordered, orders, strict=True))
    half = span.shape[1] // 2
    by_first, by_second = empty(len(span), np.int32), empty(len(span), np.int32)
    for comparisons, ranks, part in zip(
        access.by_value, (by_first, by_second), (span[:, :half], span[:, half:]), strict=True
    ):
        one = replace(access, structure=Structure.TREE, ordered=comparisons)
        count = fill(one, [sides[c] for c in comparisons], ranks, part)
    leaf[:] = 0
    kernels.nest(segment, by_first, by_second, nested.begin, nested.many[number], leaf, nested.zeros[trees])
    return count


def nested_bytes(nested: Nested) -> int:
    """The bytes of nested trees besides their nodes: a leaf per row and level, and which rows went left."""
    return 2 * nested.zeros.nbytes
