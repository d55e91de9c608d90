"""A multitree over rows: partial matches as arrays of row numbers, joined batch by batch.

A batch is a range of rows. In each, a node joins what is new on one side with all there is on the other, so
every partial match is made once; what no window reaches from the rows to come is dropped. Memory follows the
window and the batch, which shrinks where partial matches are many. Where only a few matches are wanted, they
are also found in blocks, depth first, so that no partial match is held for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.join import Table, Tables, join_batch, join_block, keep_alive
from trendfold.detect.lower import JoinProgram
from trendfold.detect.space import Reaches, Rows, Space
from trendfold.kernel.program import Pairs

FIRST_BATCH = 1 << 14
FEW_MATCHES, MANY_MATCHES = 1 << 18, 1 << 21
"""A batch that makes fewer partial matches is followed by one twice as long; one with more by half of it."""
TOO_MANY = 2 * MANY_MATCHES
"""A batch of several rows that makes more is given up, and a shorter one is tried."""
PARTIAL_BYTES = 4 * 8 * 2
"""A partial match of six events, old and new."""
BLOCK = 1 << 16
"""Partial matches of one join that are held at a time, where a few matches are wanted."""


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
    """There are more partial matches than may be held, after all matches that end before `row` are found."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


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

    A batch has at most `largest` rows and holds at most `most` partial matches, or it raises a
    PartialMatchError. Before `start`, only what a window reaches from there is looked at, so a plan can take
    over from another at any row.
    """
    rows, reaches = len(material.space.moment), material.reaches
    slots, count = program.slots, len(program.nodes)
    slot = {node.number: i for i, node in enumerate(program.nodes)}
    tables = Tables(*(np.zeros(count, np.int64) for _ in Tables._fields))
    read = program.steps, slots, material.space, reaches.low, reaches.high, material.pairs, material.latest
    is_joined = np.zeros(count, np.bool_)
    is_joined[program.steps.probe] = is_joined[program.steps.sorted] = True
    kept, pool = np.empty(0, np.int32), np.empty(1 << 16, np.int32)
    low = int(reaches.low[slots.window, start].min(initial=start)) if start < rows else rows
    size = FIRST_BATCH
    while low < rows:
        high = min(start if low < start else rows, low + min(size, largest or rows))
        began = perf_counter()
        room = most if high - low == 1 else min(most, TOO_MANY)
        pool, used = join_batch(low, high, *read, room, kept, tables, pool)
        if used < 0:
            if high - low == 1:
                raise PartialMatchError(low)
            size = max(1, (high - low) // 4)
            continue
        found = {number: _new(tables, slots.width, slot[number], pool) for number in wanted}
        made = int(tables.made[program.leaves :].sum())
        kept, alive = keep_alive(high, slots, is_joined, reaches.high, tables, pool)
        if low >= start:
            size_now = pool.nbytes + kept.nbytes
            yield Batch(low, high, found, tables.made, tables.looked, alive, size_now, perf_counter() - began)
        low = high
        if 2 * kept.nbytes > most * PARTIAL_BYTES:  # the next batch copies them
            raise PartialMatchError(low)
        size = max(1, size // 2) if made > MANY_MATCHES else size * 2 if made < FEW_MATCHES else size


def _new(tables: Tables, widths: Rows, slot: int, pool: Rows) -> Table:
    """A copy of what is new in a slot: the pool is used again."""
    width = int(widths[slot])
    begin = int(tables.begin[slot] + width * tables.old[slot])
    return pool[begin : begin + width * int(tables.new[slot])].reshape(-1, width).copy()


def detect_in_blocks(material: Material, program: JoinProgram, most: int) -> Iterator[Table]:
    """The matches of a left-deep program, some at a time, depth first.

    Of every join a block is held. Raises a PartialMatchError past `most` partial matches.
    """
    steps, slots, reaches = program.steps, program.slots, material.reaches
    read = steps, slots, material.space, reaches.low, reaches.high, material.pairs, material.latest
    if not len(steps.probe):
        yield _leaf(program, 0)
        return
    right = [_leaf(program, slot) for slot in steps.sorted]
    levels, made = [_Level(_leaf(program, int(steps.probe[0])))], 0
    while levels:
        n, level = len(levels) - 1, levels[-1]
        if not len(block := level.block):
            levels.pop()
            continue
        room = max(BLOCK, len(right[n]))  # enough for one row with all
        found, rows = join_block(n, block.reshape(-1), right[n].reshape(-1), *read, room)
        if found < 0:
            level.size //= 2
            continue
        level.at += len(block)
        level.size *= 2 if found < room // 4 else 1
        made += found
        if made > most:
            raise PartialMatchError(0)
        width = int(slots.width[program.leaves + n])
        table = rows[: width * found].reshape(-1, width)
        if len(levels) == len(steps.probe):
            yield table
        else:
            levels.append(_Level(table))


@dataclass
class _Level:
    """Partial matches on their way through one join, and how many go at once."""

    table: Table
    at: int = 0
    size: int = 1

    @property
    def block(self) -> Table:
        return self.table[self.at : self.at + self.size]


def _leaf(program: JoinProgram, slot: int) -> Table:
    """The rows of a leaf as a table."""
    start = program.slots.leaf_start
    rows = program.slots.leaf[start[slot] : start[slot + 1]]
    return np.repeat(rows[:, None], 3, axis=1)
