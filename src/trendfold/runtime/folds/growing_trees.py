"""Comparisons -> cuts between values, for trees that grow: nothing is ranked beforehand."""

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
"""Two cuts: the value of each, and whether it is behind the entries that have it."""
Growth = tuple[growing.TreePool, tuple[NDArray[Any], ...], Ints]


def no_grown(accesses: Sequence[Access], tree_start: Ints, rows: int, pairs: int) -> Grown:
    """Room for the values and cuts of trees that grow, of no size where there are none."""
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
    """The value of every row that is asked, and the cuts of those that ask; others have none at all."""
    (compared,) = access.ordered
    grown.value[number] = np.where(first, sides[0], np.nan)
    cut, is_behind = grown.cut[number], grown.is_behind[number]
    cut[:, 0::2], cut[:, 1::2] = np.inf, -np.inf
    for p, (low, low_behind, high, high_behind) in enumerate(_cuts(compared.op, sides[1])):
        cut[:, 2 * p] = np.where(second, low, np.inf)
        cut[:, 2 * p + 1] = np.where(second, high, -np.inf)
        is_behind[:, 2 * p], is_behind[:, 2 * p + 1] = low_behind, high_behind


def _cuts(op: str, value: NDArray[np.float64]) -> list[Cuts]:
    """Between which cuts the values lie that are `op` the one asked for."""
    match op:
        case "<" | "<=":
            return [(-np.inf, False, value, op == "<=")]
        case ">" | ">=":
            return [(value, op == ">", np.inf, True)]
    return [*_cuts("<", value), *_cuts(">", value)]


def pool_bytes(grown: Grown, longest: int, frame: Frame) -> int:
    """How large the trees that grow may become in a window of so many rows."""
    return _nodes(grown, longest) * growing.node_bytes(frame.width, frame.extremes)


def growth(grown: Grown, longest: int, frame: Frame) -> Growth | None:
    """Empty trees and what is needed to work on them, or None where none grow.

    There is one per access, so that they have the same numbers; those that do not grow stay empty.
    """
    nodes = _nodes(grown, longest)
    if not nodes:
        return None
    pool = growing.make_pool(nodes, len(grown.is_grown), frame.width, frame.extremes)
    return pool, growing.scratch(), empty(longest, np.int32)


def _nodes(grown: Grown, longest: int) -> int:
    return growing.most_nodes(longest, len(grown.is_grown)) if grown.is_grown.any() else 0
