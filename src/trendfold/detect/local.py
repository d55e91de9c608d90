"""Plans for one pattern: the paper's algorithm A, by dynamic programming and greedily.

Both take parts that are given, a prefix of an order or subtrees of a tree, and plan the rest around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from trendfold.detect.cost import Priced, PricedPart
from trendfold.detect.cuts import best_cuts
from trendfold.detect.pattern import Tree, elements_of, left_deep

MOST_PARTS = 11
"""With more parts than this, 3^parts ways to split are too many: plans are made greedily."""
MOST_ELEMENTS = 62
"""Sets of elements are bits of an integer."""


def best_tree(priced: Priced | PricedPart, given: Sequence[Tree] = ()) -> Tree:
    """The cheapest tree that holds the given subtrees."""
    parts = _parts(priced, given)
    if len(parts) > MOST_PARTS or len(priced.weight) > MOST_ELEMENTS:
        return greedy_tree(priced, given)
    cut = best_cuts(priced.terms, np.array([_mask(part) for part in parts], np.int64)).tolist()

    def tree(s: int) -> Tree:
        if not s & (s - 1):
            return parts[s.bit_length() - 1]
        return tree(cut[s]), tree(s ^ cut[s])

    return tree((1 << len(parts)) - 1)


def greedy_tree(priced: Priced | PricedPart, given: Sequence[Tree] = ()) -> Tree:
    """Join the two parts that make the fewest partial matches, until one is left."""
    parts = [(_mask(part), part) for part in _parts(priced, given)]
    while len(parts) > 1:
        a, b = min(
            combinations(range(len(parts)), 2),
            key=lambda pair: priced.join(parts[pair[0]][0], parts[pair[1]][0]),
        )
        joined = parts[a][0] | parts[b][0], (parts[a][1], parts[b][1])
        parts = [part for k, part in enumerate(parts) if k not in (a, b)] + [joined]
    return parts[0][1]


def best_order(priced: Priced | PricedPart, prefix: tuple[int, ...] = ()) -> Tree:
    """The cheapest order that begins with the prefix, as a left-deep tree."""
    rest = [i for i in range(len(priced.weight)) if i not in prefix]
    if len(rest) > MOST_PARTS + 1:
        return greedy_order(priced, prefix)
    start = sum(1 << i for i in prefix)
    best: dict[int, tuple[float, tuple[int, ...]]] = {start: (0.0, prefix)}
    for _ in rest:
        grown: dict[int, tuple[float, tuple[int, ...]]] = {}
        for chosen, (cost, order) in best.items():
            for i in rest:
                if not chosen >> i & 1:
                    here = cost + (priced.join(chosen, 1 << i) if chosen else 0.0)
                    if here < grown.get(chosen | 1 << i, (float("inf"), ()))[0]:
                        grown[chosen | 1 << i] = here, (*order, i)
        best = grown
    ((_, order),) = best.values()
    return left_deep(order)


def greedy_order(priced: Priced | PricedPart, prefix: tuple[int, ...] = ()) -> Tree:
    """Always the element that makes the fewest partial matches next: the basic reordering (RE)."""
    order, chosen = prefix, sum(1 << i for i in prefix)
    while len(order) < len(priced.weight):
        left = [i for i in range(len(priced.weight)) if not chosen >> i & 1]
        element = min(left, key=lambda i: priced.join(chosen, 1 << i) if chosen else priced.weight[i])
        order, chosen = (*order, element), chosen | 1 << element
    return left_deep(order)


def _parts(priced: Priced | PricedPart, given: Sequence[Tree]) -> list[Tree]:
    taken = {element for tree in given for element in elements_of(tree)}
    return [*given, *(i for i in range(len(priced.weight)) if i not in taken)]


def _mask(tree: Tree) -> int:
    return sum(1 << element for element in elements_of(tree))
