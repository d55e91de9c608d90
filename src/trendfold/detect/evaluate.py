"""A multitree over rows: partial matches as arrays of row numbers, joined batch by batch.

A batch is a range of rows. In each, a node joins what is new on one side with all there is on the other, so
every partial match is made once; what no window reaches from the rows to come is dropped. Memory follows the
window and the batch, which shrinks where partial matches are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.join import SPAN, JoinProgram, Table, join
from trendfold.detect.multitree import Entry, Multitree, Node
from trendfold.detect.space import Reach, Rows, Space
from trendfold.kernel.program import Pairs

FIRST_BATCH = 1 << 14
FEW_MATCHES, MANY_MATCHES = 1 << 18, 1 << 21
"""A batch that makes fewer partial matches is followed by one twice as long; one with more by half of it."""


@dataclass(frozen=True)
class Material:
    """What joins read.

    latest  int32[G, m]  per guard and moment: the latest start among N's trends that have ended by then
    """

    space: Space
    leaves: Sequence[Rows]
    """Per leaf the rows that can be it, in order."""
    reach: Callable[[int | None], Reach]
    pairs: Pairs
    latest: NDArray[np.int32]


class PartialMatchError(Exception):
    """A single row makes more partial matches than memory may hold."""


@dataclass
class Counts:
    """What an evaluation did, per node: partial matches made, and pairs looked at."""

    made: dict[int, int] = field(default_factory=dict)
    looked: dict[int, int] = field(default_factory=dict)
    batches: int = 0
    most_kept: int = 0
    """The most partial matches that were kept from one batch to the next."""


@dataclass(frozen=True)
class _Step:
    """One join: which node is asked, which is sorted, and the program of it."""

    node: Node
    probe: int
    sorted_: int
    program: JoinProgram
    order: NDArray[np.intp]
    """Columns of the join's result in the order of the node's own."""
    reach: Reach
    is_swapped: bool


def detect(
    material: Material,
    tree: Multitree,
    wanted: Sequence[int],
    most: int,
    counts: Counts | None = None,
    start: int = 0,
    largest: int | None = None,
) -> Iterator[tuple[int, Mapping[int, Table]]]:
    """The matches of the `wanted` nodes that end in row `start` or later, with the row after each batch.

    A batch has at most `largest` rows and holds at most `most` partial matches. Before `start`, only what a
    window reaches from there is looked at, so a plan can take over from another at any row.
    """
    counts = counts if counts is not None else Counts()
    rows = len(material.space.moment)
    nodes = tree.in_use()
    sizes = {node.number: len(material.leaves[node.leaves[0]]) for node in nodes if node.is_leaf}
    steps = [_step(node, tree, material, sizes) for node in nodes if not node.is_leaf]
    leaf_tables = {n.number: _leaf_table(material.leaves[n.leaves[0]]) for n in nodes if n.is_leaf}
    reaches = {node.number: material.reach(tree.window(node.number)) for node in nodes}
    old: dict[int, Table] = {step.node.number: _nothing(len(step.node.leaves)) for step in steps}
    low = min((int(reach.low[start]) for reach in reaches.values()), default=0) if start < rows else rows
    size = FIRST_BATCH
    while low < rows:
        high = min(start if low < start else rows, low + min(size, largest or rows))
        view = _View(low, high, leaf_tables, reaches, old)
        made = _batch(view, steps, material, most, counts)
        if made is None:
            if high - low == 1:
                raise PartialMatchError
            size = max(1, (high - low) // 4)
            continue
        if low >= start:
            yield high, {number: view.new(number) for number in wanted}
        old = {s.node.number: _alive(view.every(s.node.number), reaches[s.node.number], high) for s in steps}
        counts.batches += 1
        counts.most_kept = max(counts.most_kept, sum(map(len, old.values())))
        low = high
        size = max(1, size // 2) if made > MANY_MATCHES else size * 2 if made < FEW_MATCHES else size


@dataclass
class _View:
    """The tables of one batch, the rows [low, high)."""

    low: int
    high: int
    leaves: dict[int, Table]
    reaches: dict[int, Reach]
    kept: dict[int, Table]
    made: dict[int, Table] = field(default_factory=dict)
    _bounds: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def _leaf(self, number: int) -> tuple[int, int, int]:
        """Where a leaf's rows that matter begin, where the new ones do, and where they end."""
        if number not in self._bounds:
            table = self.leaves[number]
            ends = np.searchsorted(table[:, 0], [self.reaches[number].low[self.low], self.low, self.high])
            self._bounds[number] = (int(ends[0]), int(ends[1]), int(ends[2]))
        return self._bounds[number]

    def new(self, number: int) -> Table:
        """What ends in this batch."""
        if number in self.leaves:
            _, start, stop = self._leaf(number)
            return self.leaves[number][start:stop]
        return self.made[number]

    def old(self, number: int) -> Table:
        """What ended before, and can still grow."""
        if number in self.leaves:
            begin, start, _ = self._leaf(number)
            return self.leaves[number][begin:start]
        return self.kept[number]

    def every(self, number: int) -> Table:
        """Both."""
        if number in self.leaves:
            begin, _, stop = self._leaf(number)
            return self.leaves[number][begin:stop]
        kept = self.kept[number]
        return np.concatenate([kept, self.made[number]]) if len(kept) else self.made[number]


def _batch(view: _View, steps: Sequence[_Step], material: Material, most: int, counts: Counts) -> int | None:
    """Make all new partial matches of a batch; how many, or None if they are too many."""
    total = 0
    done: dict[int, tuple[int, int]] = {}
    for step in steps:
        parts = []
        looked = 0
        for probe, sorted_ in (
            (view.new(step.probe), view.every(step.sorted_)),
            (view.old(step.probe), view.new(step.sorted_)),
        ):
            if not len(probe) or not len(sorted_):
                continue
            found, seen = _join(probe, sorted_, step, material, most - total)
            looked += seen
            if found is None:
                return None
            total += len(found)
            parts.append(found)
        table = np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else None
        view.made[step.node.number] = _nothing(len(step.node.leaves)) if table is None else table
        done[step.node.number] = len(view.made[step.node.number]), looked
    for number, (made, looked) in done.items():
        counts.made[number] = counts.made.get(number, 0) + made
        counts.looked[number] = counts.looked.get(number, 0) + looked
    return total


def _join(
    probe: Table, sorted_: Table, step: _Step, material: Material, most: int
) -> tuple[Table | None, int]:
    key = sorted_[:, step.program.key]
    if sorted_.shape[1] > SPAN + 1:  # a leaf's rows are in order
        sorted_ = sorted_[np.argsort(key, kind="stable")]
    width = probe.shape[1] + sorted_.shape[1] - SPAN
    out = np.empty((max(1, min(max(len(probe), 64), most)), width), np.int32)
    reach = step.reach
    found, table, looked = join(
        probe,
        sorted_,
        step.program,
        material.space,
        reach.low,
        reach.high,
        material.pairs,
        material.latest,
        max(most, 1),
        out,
    )
    if found < 0:
        return None, looked
    table = table[:found]
    return (table[:, step.order] if step.is_swapped else table), looked


def _step(node: Node, tree: Multitree, material: Material, sizes: dict[int, int]) -> _Step:
    """Choose the side that is asked for its range: the one that is no leaf, or else the rarer."""
    left, right = tree.nodes[node.left], tree.nodes[node.right]
    is_swapped = not right.is_leaf if left.is_leaf or right.is_leaf else len(left.leaves) < len(right.leaves)
    if left.is_leaf and right.is_leaf:
        is_swapped = sizes[left.number] > sizes[right.number]
    probe, sorted_ = (right, left) if is_swapped else (left, right)
    a, b = len(left.leaves), len(right.leaves)
    where = list(range(a + b))  # column of the node -> column of the join's result
    if is_swapped:
        where = [b + k for k in range(a)] + list(range(b))
    program = _program(node.between, where, len(probe.leaves), len(sorted_.leaves))
    order = np.array([0, 1, *(SPAN + k for k in where)])
    reach = material.reach(tree.window(node.number))
    return _Step(node, probe.number, sorted_.number, program, order, reach, is_swapped)


def _program(between: Sequence[Entry], where: Sequence[int], wide: int, narrow: int) -> JoinProgram:
    """The program of a join whose left table has `wide` columns of events; `where` moves columns."""
    entries = [(kind, number, where[a], where[b]) for kind, number, a, b in between]
    before = [(a, b) for kind, _, a, b in entries if kind == "before"]
    bounds = {key: sum(key in pair for pair in before) for key in range(wide, wide + narrow)}
    two_sided = {
        key: bool([1 for _, b in before if b == key]) + bool([1 for a, _ in before if a == key])
        for key in bounds
    }
    key = max(bounds, key=lambda k: (two_sided[k], bounds[k], -k))
    return JoinProgram(
        SPAN + key - wide,
        _ints([SPAN + a for a, b in before if b == key]),
        _ints([SPAN + b for a, b in before if a == key]),
        _table([(SPAN + a, SPAN + b) for a, b in before if key not in (a, b)], 2),
        _table([(SPAN + a, SPAN + b) for kind, _, a, b in entries if kind == "apart"], 2),
        _table([(n, SPAN + a, SPAN + b) for kind, n, a, b in entries if kind == "asked"], 3),
        _table([(n, SPAN + a, SPAN + b) for kind, n, a, b in entries if kind == "guard"], 3),
    )


def _ints(values: list[int]) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def _table(values: list[Any], width: int) -> NDArray[np.int32]:
    return np.array(values, np.int32).reshape(-1, width)


def _leaf_table(rows: Rows) -> Table:
    return np.repeat(rows[:, None], SPAN + 1, axis=1).astype(np.int32, copy=False)


def _nothing(columns: int) -> Table:
    return np.empty((0, SPAN + columns), np.int32)


def _alive(table: Table, reach: Reach, high: int) -> Table:
    """The partial matches that a row from `high` on can still join."""
    return table[reach.high[table[:, 0]] > high] if len(table) else table
