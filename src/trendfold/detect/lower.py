"""A multitree as arrays that one kernel follows (see detect.join)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.join import SPAN, Longs, Slots, Steps
from trendfold.detect.multitree import Entry, Multitree, Node
from trendfold.detect.space import Rows


@dataclass(frozen=True)
class JoinProgram:
    """Steps and slots, and the node that is in each slot."""

    nodes: tuple[Node, ...]
    steps: Steps
    slots: Slots

    @property
    def leaves(self) -> int:
        """How many slots are leaves: the first ones."""
        return len(self.slots.leaf_start) - 1


def lower(tree: Multitree, leaves: Sequence[Rows], lengths: Sequence[int | None]) -> JoinProgram:
    """The program of a multitree over leaves with these rows and windows of these lengths."""
    used = tree.in_use()
    nodes = [node for node in used if node.is_leaf] + [node for node in used if not node.is_leaf]
    slot = {node.number: i for i, node in enumerate(nodes)}
    window = [lengths.index(tree.window(node.number)) for node in nodes]
    width = [SPAN + len(node.leaves) for node in nodes]
    rows = [leaves[node.leaves[0]] for node in nodes if node.is_leaf]
    slots = Slots(_ints(window), _ints(width), _starts(rows), np.concatenate([_ints([]), *rows]))
    steps = [_step(node, tree, slot, leaves) for node in nodes[len(rows) :]]
    return JoinProgram(tuple(nodes), _pack(steps, window[len(rows) :]), slots)


@dataclass(frozen=True, slots=True)
class _Step:
    """One join; see Steps."""

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


def _step(node: Node, tree: Multitree, slot: dict[int, int], leaves: Sequence[Rows]) -> _Step:
    """Choose the side that is asked for its range: the one that is no leaf, or else the rarer."""
    left, right = tree.nodes[node.left], tree.nodes[node.right]
    is_swapped = not right.is_leaf if left.is_leaf or right.is_leaf else len(left.leaves) < len(right.leaves)
    if left.is_leaf and right.is_leaf:
        is_swapped = len(leaves[left.leaves[0]]) > len(leaves[right.leaves[0]])
    probe, sorted_ = (right, left) if is_swapped else (left, right)
    a, b = len(left.leaves), len(right.leaves)
    # Where a column of the node stands among those of probe and sorted.
    where = [b + k for k in range(a)] + list(range(b)) if is_swapped else list(range(a + b))
    entries = [(kind, number, where[x], where[y]) for kind, number, x, y in node.between]
    wide = len(probe.leaves)
    before = [(x, y) for kind, _, x, y in entries if kind == "before"]
    key = _key(before, range(wide, a + b))
    return _Step(
        slot[probe.number],
        slot[sorted_.number],
        a if is_swapped else 0,
        0 if is_swapped else a,
        SPAN + key - wide,
        [SPAN + x for x, y in before if y == key],
        [SPAN + y for x, y in before if x == key],
        [(SPAN + x, SPAN + y) for x, y in before if key not in (x, y)],
        [(SPAN + x, SPAN + y) for kind, _, x, y in entries if kind == "apart"],
        _asked(entries, "asked"),
        _asked(entries, "guard"),
    )


def _key(before: Sequence[tuple[int, int]], columns: range) -> int:
    """The column of the sorted side that is bounded best: from both sides, or else most often."""

    def bounds(column: int) -> tuple[int, int, int]:
        below, above = sum(y == column for _, y in before), sum(x == column for x, _ in before)
        return (below > 0) + (above > 0), below + above, -column

    return max(columns, key=bounds)


def _asked(entries: Sequence[Entry], wanted: str) -> list[tuple[int, int, int]]:
    return [(number, SPAN + x, SPAN + y) for kind, number, x, y in entries if kind == wanted]


def _pack(steps: Sequence[_Step], window: Sequence[int]) -> Steps:
    """All steps behind each other."""

    def entries(name: str, width: int = 1) -> tuple[Rows, Rows]:
        lists = [getattr(step, name) for step in steps]
        table = _ints([entry for some in lists for entry in some])
        return _starts(lists).astype(np.int32), table.reshape(-1, width) if width > 1 else table

    def column(name: str) -> Rows:
        return _ints([getattr(step, name) for step in steps])

    return Steps(
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
    """Where each of some lists begins when they stand behind each other, and where the last ends."""
    return np.concatenate([[0], np.cumsum([len(some) for some in lists], dtype=np.int64)])


def _ints(values: Sequence[object]) -> NDArray[np.int32]:
    return np.array(values, np.int32)
