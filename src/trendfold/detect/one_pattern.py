"""Plans for one pattern: the paper's algorithm A, by dynamic programming or greedily.

Parts may be given, a prefix of an order or subtrees of a tree, and the rest is planned around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from trendfold.detect.join_cost import PricedPart, PricedPattern
from trendfold.detect.pattern import JoinTree, elements_of, left_deep
from trendfold.detect.splits import best_splits

MOST_PARTS = 11
"""Dynamic programming tries 3^parts splits; patterns with more parts are planned greedily."""
MOST_ELEMENTS = 62
"""Sets of elements are the bits of an int64."""

Priceable = PricedPattern | PricedPart

_Orders = dict[int, tuple[float, tuple[int, ...]]]
"""Per set of elements: the cost of its cheapest order, and that order."""


def best_tree(priced: Priceable, given: Sequence[JoinTree] = ()) -> JoinTree:
    """The cheapest tree that contains the given subtrees."""
    parts = _parts(priced, given)
    if len(parts) > MOST_PARTS or len(priced.weight) > MOST_ELEMENTS:
        return greedy_tree(priced, given)
    half = best_splits(priced.terms, np.array([_mask(part) for part in parts], np.int64)).tolist()

    def tree(s: int) -> JoinTree:
        if not s & (s - 1):
            return parts[s.bit_length() - 1]
        return tree(half[s]), tree(s ^ half[s])

    return tree((1 << len(parts)) - 1)


def greedy_tree(priced: Priceable, given: Sequence[JoinTree] = ()) -> JoinTree:
    """Join the two parts that are cheapest to join, until one is left."""
    parts = [(_mask(part), part) for part in _parts(priced, given)]
    while len(parts) > 1:
        a, b = min(
            combinations(range(len(parts)), 2),
            key=lambda pair: priced.join(parts[pair[0]][0], parts[pair[1]][0]),
        )
        joined = parts[a][0] | parts[b][0], (parts[a][1], parts[b][1])
        parts = [part for k, part in enumerate(parts) if k not in (a, b)] + [joined]
    return parts[0][1]


def best_order(priced: Priceable, prefix: tuple[int, ...] = ()) -> JoinTree:
    """The cheapest order that begins with the prefix, as a left-deep tree."""
    rest = [i for i in range(len(priced.weight)) if i not in prefix]
    if len(rest) > MOST_PARTS + 1:
        return greedy_order(priced, prefix)
    best: _Orders = {sum(1 << i for i in prefix): (0.0, prefix)}
    for _ in rest:
        best = _with_one_more(priced, best, rest)
    ((_, order),) = best.values()
    return left_deep(order)


def _with_one_more(priced: Priceable, best: _Orders, rest: Sequence[int]) -> _Orders:
    """The cheapest orders of all sets with one more element."""
    grown: _Orders = {}
    for chosen, (cost, order) in best.items():
        for i in rest:
            if not chosen >> i & 1:
                here = cost + (priced.join(chosen, 1 << i) if chosen else 0.0)
                if here < grown.get(chosen | 1 << i, (float("inf"), ()))[0]:
                    grown[chosen | 1 << i] = here, (*order, i)
    return grown


def greedy_order(priced: Priceable, prefix: tuple[int, ...] = ()) -> JoinTree:
    """Always join next the element that is cheapest to join: the paper's basic reordering (RE)."""
    order, chosen = prefix, sum(1 << i for i in prefix)
    while len(order) < len(priced.weight):
        left = [i for i in range(len(priced.weight)) if not chosen >> i & 1]
        element = min(left, key=lambda i: priced.join(chosen, 1 << i) if chosen else priced.weight[i])
        order, chosen = (*order, element), chosen | 1 << element
    return left_deep(order)


def _parts(priced: Priceable, given: Sequence[JoinTree]) -> list[JoinTree]:
    taken = {element for tree in given for element in elements_of(tree)}
    return [*given, *(i for i in range(len(priced.weight)) if i not in taken)]


def _mask(tree: JoinTree) -> int:
    return sum(1 << element for element in elements_of(tree))
