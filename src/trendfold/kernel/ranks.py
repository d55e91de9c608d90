"""Values -> leaves of a sum tree, ranked once for all rows of a segment, whatever its windows."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import inlined, kernel
from trendfold.kernel.tree import EMPTY, OPEN

FIRST, SECOND = 1, 2
"""Kinds of entries, as bits: the value of a binding, of an event that asks, or of one that is both."""


@kernel
def number_leaves(order, is_new, row, side, group, is_apart, count, leaf, below, upto):
    """Number the values of bindings in order, group by group, and count those below each value asked for.

    order       int[k]      entries by value; those without one are left out
    is_new      bool[k]     whether the value at this place is not the one before
    row, side   int[k], int8[k]  per entry
    group       int[k]      entries of one group only see each other; empty where all are of group 0
    is_apart    whether each binding has a leaf of its own, or equal values share one
    count       int32[G]    out: leaves per group; zeros at first
    leaf        int32[n]    out, per row: its leaf in its group, from 0
    below, upto int32[n]    out, per row: how many leaves are below its value, and not above it
    """
    last = np.full(count.shape[0], -1, np.int64)  # per group the run of equal values that its last leaf is of
    has_groups = group.shape[0] > 0
    i = 0
    while i < order.shape[0]:
        j = i
        while j == i or (j < order.shape[0] and not is_new[j]):
            k = order[j]
            if side[k] & SECOND:
                below[row[k]] = count[group[k] if has_groups else 0]
            j += 1
        for o in range(i, j):
            k = order[o]
            if side[k] & FIRST:
                g = group[k] if has_groups else 0
                if is_apart or last[g] != i:
                    last[g] = i
                    count[g] += 1
                leaf[row[k]] = count[g] - 1
        for o in range(i, j):
            k = order[o]
            if side[k] & SECOND:
                upto[row[k]] = count[group[k] if has_groups else 0]
        i = j


@kernel
def place_own(order, is_new, is_apart, below, upto, leaf, span):
    """Leaves and spans where every row is asked and asks, by one value, in one group; returns the leaves.

    below  whether leaves below a value are asked for, or those above it
    upto   whether leaves of the same value are asked for, too
    leaf   int32[n], span  int32[n,2]: written
    """
    count = 0
    for o in range(order.shape[0]):
        count += is_apart or is_new[o]
        leaf[order[o]] = count
    for row in range(leaf.shape[0]):  # in turn: rows by value are all over the place
        _place_span(span, row, leaf[row] - 1, leaf[row], below, upto)
    i = 0
    while is_apart and i < order.shape[0]:
        j = i + 1
        while j < order.shape[0] and not is_new[j]:
            j += 1
        if j > i + 1:
            for o in range(i, j):
                _place_span(span, order[o], i, j, below, upto)
        i = j
    return count


@inlined
def _place_span(span, row, before, after, below, upto):
    """The range of leaves that a row asks for, given the leaves before those of its value and after them."""
    edge = after if upto == below else before  # leaves up to here are on the lower side
    if below:
        span[row, 0] = OPEN if edge > 0 else EMPTY
        span[row, 1] = edge + 1
    else:
        span[row, 0], span[row, 1] = edge, OPEN
