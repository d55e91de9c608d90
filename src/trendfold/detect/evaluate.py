"""Follows a multitree over rows: partial matches are arrays of row numbers, joined batch by batch.

A batch is a range of rows. In each batch a node joins the new partial matches of one side with all of the
other, so every partial match is made exactly once. Partial matches that no later row can reach within a
window are dropped. Memory is proportional to the window and the batch, and batches shrink where there are
many partial matches. Where only a few matches are wanted, joins can also run depth first, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.join import JoinedRows, PartialMatches, PoolTables, join_batch, join_block, keep_alive
from trendfold.detect.lower_joins import JoinProgram
from trendfold.detect.row_ranges import Reaches, RowNumbers, RowRanges
from trendfold.kernel.program import Pairs

FIRST_BATCH = 1 << 14
FEW_MATCHES, MANY_MATCHES = 1 << 18, 1 << 21
"""The batch size doubles after a batch with fewer partial matches, and halves after one with more."""
TOO_MANY = 2 * MANY_MATCHES
"""A batch of several rows with more partial matches than this is abandoned and retried with fewer rows."""
COPIES = 2
"""A partial match is in the old batch and in the new one, ..."""
PARTIAL_BYTES = 4 * 8 * COPIES
"""... which takes so many bytes if it has six events."""
BLOCK = 1 << 16
"""How many partial matches of a join are held at a time when joins run depth first."""


@dataclass(frozen=True)
class JoinInput:
    """The arrays that joins read.

    latest  int32[G, m]  per guard and moment: the latest start of the NOT's trends that end by then
    """

    ranges: RowRanges
    leaves: Sequence[RowNumbers]
    """Per leaf its rows, in order."""
    reaches: Reaches
    pairs: Pairs
    latest: NDArray[np.int32]

    @property
    def rows(self) -> JoinedRows:
        """The same for kernels, without the leaves."""
        return JoinedRows(self.ranges, self.reaches.low, self.reaches.high, self.pairs, self.latest)


class PartialMatchError(Exception):
    """More partial matches than may be held; all matches that end before `row` have been found."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


@dataclass
class JoinCounts:
    """Per node: the partial matches made, and the pairs compared."""

    made: dict[int, int] = field(default_factory=dict)
    looked: dict[int, int] = field(default_factory=dict)
    batches: int = 0
    most_kept: int = 0
    """The largest number of partial matches kept from one batch to the next."""
    most_bytes: int = 0
    """The largest memory of the tables of one batch."""

    def add(self, program: JoinProgram, batch: JoinedBatch) -> None:
        """Count one more batch."""
        for node, made, looked in zip(program.nodes, batch.made, batch.looked, strict=True):
            if not node.is_leaf:
                self.made[node.number] = self.made.get(node.number, 0) + int(made)
                self.looked[node.number] = self.looked.get(node.number, 0) + int(looked)
        self.batches += 1
        self.most_kept = max(self.most_kept, batch.kept)
        self.most_bytes = max(self.most_bytes, batch.bytes)


@dataclass(frozen=True)
class JoinedBatch:
    """The result of joining one batch of rows."""

    low: int
    high: int
    """The row after its last one."""
    tables: Mapping[int, PartialMatches]
    """Per wanted node: its partial matches that end in the batch."""
    made: NDArray[np.int64]
    """Per slot: partial matches made; valid until the next batch."""
    looked: NDArray[np.int64]
    """Per slot: pairs compared; valid until the next batch."""
    kept: int
    """How many partial matches are kept for later batches."""
    bytes: int
    """The memory of all its tables."""
    seconds: float
    open: tuple[PartialMatches, ...] = ()
    """Of the last batch, where asked for: per join that another reads, what later events can still join."""


# ---------------------------------------------------------------- batch by batch


def detect_in_batches(
    joined: JoinInput,
    program: JoinProgram,
    wanted: Sequence[int],
    most: int,
    start: int = 0,
    largest: int | None = None,
    known: Sequence[PartialMatches] | None = None,
    until: int | None = None,
) -> Iterator[JoinedBatch]:
    """The matches of the `wanted` nodes that end in row `start` or later.

    A batch has at most `largest` rows and holds at most `most` partial matches, or else it raises a
    PartialMatchError. Of the rows before `start`, only those that a window reaches from there are joined, so
    one plan can take over from another at any row; with `known`, what an earlier call gave as `open`, none
    are. `until` asks for what events after that time can join.
    """
    rows, pool = len(joined.ranges.moment), _empty_pool(joined, program)
    low, size = pool.first_row(start), FIRST_BATCH
    if known is not None:
        pool.go_on(known)
        low = start
    while low < rows:
        high = min(start if low < start else rows, low + min(size, largest or rows))
        began = perf_counter()
        room = most if high - low == 1 else min(most, TOO_MANY)
        if not pool.join(low, high, room):
            if high - low == 1:
                raise PartialMatchError(max(low, start))
            size = max(1, (high - low) // 4)
            continue
        found = {number: pool.new(number) for number in wanted}
        still_open = pool.open(until) if until is not None and high == rows else ()
        kept = pool.keep(high)
        if low >= start:
            counts = pool.tables.made, pool.tables.looked
            took = perf_counter() - began
            yield JoinedBatch(low, high, found, *counts, kept, pool.bytes, took, still_open)
        low = high
        if 2 * pool.kept.nbytes > most * PARTIAL_BYTES:  # the next batch copies them
            raise PartialMatchError(max(low, start))
        size = _next_size(size, pool.made)


def _next_size(size: int, made: int) -> int:
    if made > MANY_MATCHES:
        return max(1, size // 2)
    return size * 2 if made < FEW_MATCHES else size


@dataclass
class _Pool:
    """The tables of the current batch, and the partial matches kept from the batches before."""

    joined: JoinInput
    program: JoinProgram
    tables: PoolTables
    slot: Mapping[int, int]
    """Per node its slot."""
    is_joined: NDArray[np.bool_]
    """Per slot, whether another join reads it."""
    values: NDArray[np.int32]
    kept: NDArray[np.int32]

    def first_row(self, start: int) -> int:
        """The first row that a window reaches from row `start`."""
        low = self.joined.reaches.low
        if start >= low.shape[1]:
            return start
        return int(low[self.program.slots.window, start].min(initial=start))

    def join(self, low: int, high: int, most: int) -> bool:
        """Make the tables of the rows [low, high); False if that takes more than `most` partial matches."""
        steps, slots, rows = self.program.steps, self.program.slots, self.joined.rows
        self.values, used = join_batch(
            low, high, steps, slots, rows, most, self.kept, self.tables, self.values
        )
        return bool(used >= 0)

    def new(self, node: int) -> PartialMatches:
        """A copy of the new partial matches of a node: the next batch overwrites the pool."""
        slot, tables = self.slot[node], self.tables
        width = int(self.program.slots.width[slot])
        begin = int(tables.begin[slot] + width * tables.old[slot])
        return self.values[begin : begin + width * int(tables.new[slot])].reshape(-1, width).copy()

    def go_on(self, known: Sequence[PartialMatches]) -> None:
        """Begin with partial matches of rows before the first batch."""
        for slot, table in zip(np.flatnonzero(self._is_kept), known, strict=True):
            self.tables.old[slot] = len(table)
        self.kept = np.concatenate([np.empty(0, np.int32), *(table.reshape(-1) for table in known)])

    def open(self, until: int) -> tuple[PartialMatches, ...]:
        """A copy of the partial matches that an event after `until` can join, of every join that is read."""
        tables, slots, found = self.tables, self.program.slots, []
        stamp, lengths = self.joined.ranges.stamp, self.joined.reaches.lengths
        for slot in np.flatnonzero(self._is_kept):
            width, count = int(slots.width[slot]), int(tables.old[slot] + tables.new[slot])
            begin, length = int(tables.begin[slot]), lengths[slots.window[slot]]
            table = self.values[begin : begin + width * count].reshape(-1, width)
            assert length is not None
            found.append(table[stamp[table[:, 0]] > until + 1 - length])
        return tuple(found)

    @property
    def _is_kept(self) -> NDArray[np.bool_]:
        """The slots whose partial matches later batches read."""
        found = self.is_joined.copy()
        found[: self.program.leaves] = False
        return found

    def keep(self, high: int) -> int:
        """Keep the partial matches that a row from `high` on can join; how many."""
        reach, slots = self.joined.reaches.high, self.program.slots
        self.kept, count = keep_alive(high, slots, self.is_joined, reach, self.tables, self.values)
        return int(count)

    @property
    def made(self) -> int:
        """How many partial matches the batch made."""
        return int(self.tables.made[self.program.leaves :].sum())

    @property
    def bytes(self) -> int:
        return self.values.nbytes + self.kept.nbytes


def _empty_pool(joined: JoinInput, program: JoinProgram) -> _Pool:
    count = len(program.nodes)
    is_joined = np.zeros(count, np.bool_)
    is_joined[program.steps.probe] = is_joined[program.steps.sorted] = True
    return _Pool(
        joined,
        program,
        PoolTables(*(np.zeros(count, np.int64) for _ in PoolTables._fields)),
        {node.number: i for i, node in enumerate(program.nodes)},
        is_joined,
        np.empty(1 << 14, np.int32),
        np.empty(0, np.int32),
    )


# ---------------------------------------------------------------- depth first


def detect_in_blocks(
    joined: JoinInput, program: JoinProgram, most: int
) -> Iterator[tuple[PartialMatches, int]]:
    """The matches of a left-deep program, some at a time, with the number of partial matches made so far.

    Joins run depth first, one block of each at a time. Raises a PartialMatchError past `most` partial
    matches.
    """
    steps = program.steps
    if not len(steps.probe):
        yield _leaf(program, 0), 0
        return
    right = [_leaf(program, slot) for slot in steps.sorted]
    levels, made = [_Level(_leaf(program, int(steps.probe[0])))], 0
    while levels:
        n, level = len(levels) - 1, levels[-1]
        if not len(level.block):
            levels.pop()
            continue
        table = _join_block(joined, program, n, level, right[n])
        if table is None:
            continue
        made += len(table)
        if made > most:
            raise PartialMatchError(0)
        if len(levels) == len(steps.probe):
            yield table, made
        else:
            levels.append(_Level(table))


@dataclass
class _Level:
    """The partial matches that enter one join, and how many of them are joined at once."""

    table: PartialMatches
    at: int = 0
    size: int = 1

    @property
    def block(self) -> PartialMatches:
        return self.table[self.at : self.at + self.size]


def _join_block(
    joined: JoinInput, program: JoinProgram, n: int, level: _Level, right: PartialMatches
) -> PartialMatches | None:
    """Join the next block by step n; None if it makes too many partial matches, and the block shrinks."""
    block, room = level.block, max(BLOCK, len(right))  # room for one row with all of the right side
    sides = block.reshape(-1), right.reshape(-1)
    found, rows = join_block(n, *sides, program.steps, program.slots, joined.rows, room)
    if found < 0:
        level.size //= 2
        return None
    level.at += len(block)
    level.size *= 2 if found < room // 4 else 1
    width = int(program.slots.width[program.leaves + n])
    table: PartialMatches = rows[: width * found].reshape(-1, width)
    return table


def _leaf(program: JoinProgram, slot: int) -> PartialMatches:
    """The rows of a leaf as a table."""
    start = program.slots.leaf_start
    rows = program.slots.leaf[start[slot] : start[slot + 1]]
    return np.repeat(rows[:, None], 3, axis=1)
