"""A multitree as the arrays that the join kernel reads (see detect.join)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.join import SPAN, JoinSlots, JoinSteps, Longs
from trendfold.detect.multitree import ColumnCondition, JoinNode, Multitree
from trendfold.detect.row_ranges import RowNumbers


@dataclass(frozen=True)
class JoinProgram:
    """The steps and slots of a multitree, and the node of each slot."""

    nodes: tuple[JoinNode, ...]
    steps: JoinSteps
    slots: JoinSlots

    @property
    def leaves(self) -> int:
        """How many slots are leaves; they come first."""
        return len(self.slots.leaf_start) - 1


def lower_joins(tree: Multitree, leaves: Sequence[RowNumbers], lengths: Sequence[int | None]) -> JoinProgram:
    """The program of a multitree, for leaves with these rows and windows of these lengths."""
    used = tree.in_use()
    nodes = [node for node in used if node.is_leaf] + [node for node in used if not node.is_leaf]
    slot = {node.number: i for i, node in enumerate(nodes)}
    window = [lengths.index(tree.window(node.number)) for node in nodes]
    width = [SPAN + len(node.leaves) for node in nodes]
    rows = [leaves[node.leaves[0]] for node in nodes if node.is_leaf]
    slots = JoinSlots(_ints(window), _ints(width), _starts(rows), np.concatenate([_ints([]), *rows]))
    steps = [_step(node, tree, slot, leaves) for node in nodes[len(rows) :]]
    return JoinProgram(tuple(nodes), _pack(steps, window[len(rows) :]), slots)


@dataclass(frozen=True, slots=True)
class _JoinStep:
    """One join; see JoinSteps."""

    probe: int
    sorted: int
    probe_at: int
    sorted_at: int
    key: int
    after: list[int]
    before: list[int]
    order: list[tuple[int, int]]
    apart: list[tuple[int, int]]
    asked: list[tuple[int, int, int]]
    guards: list[tuple[int, int, int]]


def _step(node: JoinNode, tree: Multitree, slot: dict[int, int], leaves: Sequence[RowNumbers]) -> _JoinStep:
    left, right = tree.nodes[node.left], tree.nodes[node.right]
    is_swapped = _is_swapped(left, right, leaves)
    probe, sorted_ = (right, left) if is_swapped else (left, right)
    a, b = len(left.leaves), len(right.leaves)
    # The columns of the node, numbered as the columns of probe and then of sorted.
    moved = [b + k for k in range(a)] + list(range(b)) if is_swapped else list(range(a + b))
    between = [(kind, number, moved[x], moved[y]) for kind, number, x, y in node.between]
    wide = len(probe.leaves)
    before = [(x, y) for kind, _, x, y in between if kind == "before"]
    key = _key(before, range(wide, a + b))
    return _JoinStep(
        slot[probe.number],
        slot[sorted_.number],
        a if is_swapped else 0,
        0 if is_swapped else a,
        SPAN + key - wide,
        [SPAN + x for x, y in before if y == key],
        [SPAN + y for x, y in before if x == key],
        [(SPAN + x, SPAN + y) for x, y in before if key not in (x, y)],
        [(SPAN + x, SPAN + y) for kind, _, x, y in between if kind == "apart"],
        _of_kind("asked", between),
        _of_kind("guard", between),
    )


def _is_swapped(left: JoinNode, right: JoinNode, leaves: Sequence[RowNumbers]) -> bool:
    """Whether the right child is the probe side: the one that is no leaf, has more columns, or fewer rows."""
    if left.is_leaf and right.is_leaf:
        return len(leaves[left.leaves[0]]) > len(leaves[right.leaves[0]])
    if left.is_leaf or right.is_leaf:
        return not right.is_leaf
    return len(left.leaves) < len(right.leaves)


def _key(before: Sequence[tuple[int, int]], columns: range) -> int:
    """The column of the sorted side with the tightest range: bounded on both sides, or else most often."""

    def bounds(column: int) -> tuple[int, int, int]:
        below, above = sum(y == column for _, y in before), sum(x == column for x, _ in before)
        return (below > 0) + (above > 0), below + above, -column

    return max(columns, key=bounds)


def _of_kind(wanted: str, between: Sequence[ColumnCondition]) -> list[tuple[int, int, int]]:
    return [(number, SPAN + x, SPAN + y) for kind, number, x, y in between if kind == wanted]


def _pack(steps: Sequence[_JoinStep], window: Sequence[int]) -> JoinSteps:
    """All steps, concatenated."""

    def entries(name: str, width: int = 1) -> tuple[RowNumbers, RowNumbers]:
        lists = [getattr(step, name) for step in steps]
        table = _ints([entry for some in lists for entry in some])
        return _starts(lists).astype(np.int32), table.reshape(-1, width) if width > 1 else table

    def column(name: str) -> RowNumbers:
        return _ints([getattr(step, name) for step in steps])

    return JoinSteps(
        column("probe"),
        column("sorted"),
        column("probe_at"),
        column("sorted_at"),
        column("key"),
        _ints(window),
        *entries("after"),
        *entries("before"),
        *entries("order", 2),
        *entries("apart", 2),
        *entries("asked", 3),
        *entries("guards", 3),
    )


def _starts(lists: Sequence[Sequence[object] | NDArray[np.int32]]) -> Longs:
    """Where each list begins in their concatenation, and where the last one ends."""
    return np.concatenate([[0], np.cumsum([len(some) for some in lists], dtype=np.int64)])


def _ints(values: Sequence[object]) -> NDArray[np.int32]:
    return np.array(values, np.int32)
