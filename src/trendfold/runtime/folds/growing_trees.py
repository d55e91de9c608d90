"""Comparisons -> cuts between values, for trees that grow as values arrive, without ranking beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.events.buffers import empty
from trendfold.kernel import growing
from trendfold.kernel.program import Frame, Grown, Ints
from trendfold.plan.neighbour import Access

Cuts = tuple[NDArray[np.float64] | float, bool, NDArray[np.float64] | float, bool]
"""Two cuts: the value of each, and whether the cut lies after the entries with that value."""
Growth = tuple[growing.TreePool, tuple[NDArray[Any], ...], Ints]


def no_grown(accesses: Sequence[Access], tree_start: Ints, rows: int, pairs: int) -> Grown:
    """Memory for the values and cuts of growing trees; empty if no tree grows."""
    is_grown = np.array([access.is_online for access in accesses], np.bool_)
    rows = rows if is_grown.any() else 0
    return Grown(
        is_grown=is_grown,
        is_apart=np.zeros(len(accesses), np.bool_),
        access=np.repeat(np.arange(len(accesses), dtype=np.int32), np.diff(tree_start)),
        value=np.full((len(accesses), rows), np.nan),
        cut=np.zeros((len(accesses), rows, 2 * pairs)),
        is_behind=np.zeros((len(accesses), rows, 2 * pairs), np.bool_),
    )


def cut_values(
    access: Access,
    sides: tuple[NDArray[np.float64], NDArray[np.float64]],
    first: NDArray[np.bool_],
    second: NDArray[np.bool_],
    grown: Grown,
    number: int,
) -> None:
    """Fill in the values of bindings and the cuts of lookups; all other rows have neither."""
    (compared,) = access.ordered
    grown.value[number] = np.where(first, sides[0], np.nan)
    cut, is_behind = grown.cut[number], grown.is_behind[number]
    cut[:, 0::2], cut[:, 1::2] = np.inf, -np.inf
    for p, (low, low_behind, high, high_behind) in enumerate(_cuts(compared.op, sides[1])):
        cut[:, 2 * p] = np.where(second, low, np.inf)
        cut[:, 2 * p + 1] = np.where(second, high, -np.inf)
        is_behind[:, 2 * p], is_behind[:, 2 * p + 1] = low_behind, high_behind


def _cuts(op: str, value: NDArray[np.float64]) -> list[Cuts]:
    """The cuts between which the values v with `v op value` lie."""
    match op:
        case "<" | "<=":
            return [(-np.inf, False, value, op == "<=")]
        case ">" | ">=":
            return [(value, op == ">", np.inf, True)]
    return [*_cuts("<", value), *_cuts(">", value)]


def pool_bytes(grown: Grown, longest: int, frame: Frame) -> int:
    """The most bytes that growing trees can take in a window of `longest` rows."""
    return _nodes(grown, longest) * growing.node_bytes(frame.width, frame.extremes)


def growth(grown: Grown, longest: int, frame: Frame) -> Growth | None:
    """Empty trees and their working memory, or None if no tree grows.

    There is one tree per access, so that both have the same numbers; trees that do not grow stay empty.
    """
    nodes = _nodes(grown, longest)
    if not nodes:
        return None
    pool = growing.make_pool(nodes, len(grown.is_grown), frame.width, frame.extremes)
    return pool, growing.scratch(), empty(longest, np.int32)


def _nodes(grown: Grown, longest: int) -> int:
    return growing.most_nodes(longest, len(grown.is_grown)) if grown.is_grown.any() else 0
