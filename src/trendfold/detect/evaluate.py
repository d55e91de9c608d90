"""A multitree over rows: partial matches as arrays of row numbers, joined batch by batch.

A batch is a range of rows. In each, a node joins what is new on one side with all there is on the other, so
every partial match is made once; what no window reaches from the rows to come is dropped. Memory follows the
window and the batch, which shrinks where partial matches are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.join import Table, Tables, join_batch, keep_alive
from trendfold.detect.lower import JoinProgram
from trendfold.detect.space import Reaches, Rows, Space
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
    reaches: Reaches
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
    most_bytes: int = 0
    """The most memory that the tables of a batch took."""

    def add(self, program: JoinProgram, batch: Batch) -> None:
        """Count one more batch."""
        for node, made, looked in zip(program.nodes, batch.made, batch.looked, strict=True):
            if not node.is_leaf:
                self.made[node.number] = self.made.get(node.number, 0) + int(made)
                self.looked[node.number] = self.looked.get(node.number, 0) + int(looked)
        self.batches += 1
        self.most_kept = max(self.most_kept, batch.kept)
        self.most_bytes = max(self.most_bytes, batch.bytes)


@dataclass(frozen=True)
class Batch:
    """What a batch of rows gave."""

    low: int
    high: int
    """The row after it."""
    tables: Mapping[int, Table]
    """Per node that is wanted: its partial matches that end in the batch."""
    made: NDArray[np.int64]
    looked: NDArray[np.int64]
    kept: int
    """How many partial matches are kept for batches to come."""
    bytes: int
    """The memory of all its tables."""
    seconds: float
    """How long it took."""


def detect(
    material: Material,
    program: JoinProgram,
    wanted: Sequence[int],
    most: int,
    start: int = 0,
    largest: int | None = None,
) -> Iterator[Batch]:
    """The matches of the `wanted` nodes that end in row `start` or later.

    A batch has at most `largest` rows and holds at most `most` partial matches. Before `start`, only what a
    window reaches from there is looked at, so a plan can take over from another at any row.
    """
    rows, reaches = len(material.space.moment), material.reaches
    slots, count = program.slots, len(program.nodes)
    slot = {node.number: i for i, node in enumerate(program.nodes)}
    tables = Tables(*(np.zeros(count, np.int64) for _ in Tables._fields))
    read = program.steps, slots, material.space, reaches.low, reaches.high, material.pairs, material.latest
    kept, pool = np.empty(0, np.int32), np.empty(1 << 16, np.int32)
    low = int(reaches.low[slots.window, start].min(initial=start)) if start < rows else rows
    size = FIRST_BATCH
    while low < rows:
        high = min(start if low < start else rows, low + min(size, largest or rows))
        began = perf_counter()
        pool, used = join_batch(low, high, *read, most, kept, tables, pool)
        if used < 0:
            if high - low == 1:
                raise PartialMatchError
            size = max(1, (high - low) // 4)
            continue
        found = {number: _new(tables, slots.width, slot[number], pool) for number in wanted}
        made = int(tables.made[program.leaves :].sum())
        kept, alive = keep_alive(high, slots, reaches.high, tables, pool)
        if low >= start:
            size_now = pool.nbytes + kept.nbytes
            yield Batch(low, high, found, tables.made, tables.looked, alive, size_now, perf_counter() - began)
        low = high
        size = max(1, size // 2) if made > MANY_MATCHES else size * 2 if made < FEW_MATCHES else size


def _new(tables: Tables, widths: Rows, slot: int, pool: Rows) -> Table:
    """A copy of what is new in a slot: the pool is used again."""
    width = int(widths[slot])
    begin = int(tables.begin[slot] + width * tables.old[slot])
    return pool[begin : begin + width * int(tables.new[slot])].reshape(-1, width).copy()
