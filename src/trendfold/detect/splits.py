"""The dynamic programme of tree plans: every set of parts is split where its tree is cheapest."""

from __future__ import annotations

import numpy as np

from trendfold.kernel.jit import kernel


@kernel
def best_splits(terms, masks):
    """Per set of parts, one of the two halves that are joined last in its cheapest tree.

    terms  Terms     the weights, selectivities and orders that make up C(S), see detect.join_cost
    masks  int64[k]  the elements of each part; sets of parts are the bits of 0 .. 2^k - 1
    """
    count = 1 << masks.shape[0]
    made, ordered = np.ones(count), np.ones(count)  # C(S) and order(S)
    best, split = np.zeros(count), np.zeros(count, np.int64)
    for s in range(1, count):
        ordered[s] = _ordered(terms, _elements(masks, s))
        made[s] = _unordered(terms, _elements(masks, s)) * ordered[s]
        if s & (s - 1) == 0:
            continue
        best[s] = np.inf
        lowest, half = s & -s, (s - 1) & s
        while half:
            if half & lowest:  # each split once
                rest = s ^ half
                pairs = made[half] * made[rest] * ordered[s] / (ordered[half] * ordered[rest])
                here = best[half] + best[rest] + made[s] + terms.look * pairs
                if here < best[s]:
                    best[s], split[s] = here, half
            half = (half - 1) & s
    return split


@kernel
def _elements(masks, parts):
    """The elements of some parts."""
    found = 0
    for part in range(masks.shape[0]):
        if parts >> part & 1:
            found |= masks[part]
    return found


@kernel
def _unordered(terms, elements):
    """C(S) without order(S): the product of all weights and selectivities."""
    found = 1.0
    for i in range(terms.weight.shape[0]):
        if elements >> i & 1:
            found *= terms.weight[i]
            for j in range(i):
                if elements >> j & 1:
                    found *= terms.sel[i, j]
    return found


@kernel
def _ordered(terms, elements):
    """order(S): the share of arrangements of S that are in order."""
    found = 1.0
    for i in range(terms.weight.shape[0]):
        if elements >> i & 1:
            earlier = 0
            for j in range(terms.weight.shape[0]):
                if elements >> j & 1:
                    earlier += terms.before[i] >> j & 1
            found /= 1 + earlier
    return found
