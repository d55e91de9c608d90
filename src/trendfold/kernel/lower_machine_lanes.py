"""Machines of several queries + what each kind of row means to each -> the arrays of kernel.machine_lanes.

Queries of one shape (lane_shapes) and overlap are a block. A kind of row has different local symbols for
different queries of a block; the queries of each are a mask of lanes, and the operations of the symbol are
done for the runs of the mask (lane_masks). What is done here grows with shapes, kinds of rows and masks that
differ, never with kinds times queries: that is left to NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Machine, Symbol
from trendfold.kernel.lane_bursts import parts_of
from trendfold.kernel.lane_masks import (
    VECTOR,
    LaneWeights,
    Longs,
    Masks,
    Runs,
    SlotLayout,
    distinct_rows,
    padded,
)
from trendfold.kernel.lane_shapes import FRESH, TEMPORARY, VOID, LeastOp, LinearOp, Ops, Shape
from trendfold.kernel.machine_lanes import MachineProgram, aligned
from trendfold.plan.carried import Carried, union


@dataclass(frozen=True)
class LaneMember:
    """One query, or one operand of it: its machine, what rides on its counts, and its windows.

    windows  how many an event can be in
    which    the kind of its windows; queries of one kind open and close theirs at the same rows
    """

    machine: Machine
    carried: Carried
    windows: int = 1
    which: int = 0


@dataclass(frozen=True)
class Taken:
    """Which positions the rows of every kind take: bool[kinds, positions of all members]; kind 0 takes none.

    first  int64[members + 1]  where the positions of each member begin
    """

    is_taken: Masks
    first: Longs

    def of_member(self, k: int) -> Masks:
        """The kinds and positions of one member."""
        return self.is_taken[:, self.first[k] : self.first[k + 1]]

    def alphabet(self, k: int) -> tuple[Symbol, ...]:
        """What every kind means to one member, as sets."""
        return tuple(frozenset(np.flatnonzero(row).tolist()) for row in self.of_member(k))

    def part(self, members: slice) -> Taken:
        """The kinds and positions of members that follow one another."""
        first = self.first[members.start : members.stop + 1]
        return Taken(self.is_taken[:, first[0] : first[-1]], first - first[0])


def taken_of(alphabet: Sequence[Sequence[Symbol]], machines: Sequence[Machine]) -> Taken:
    """From sets of positions per kind and machine."""
    first = np.array([0, *accumulate(len(machine.automaton.positions) for machine in machines)], np.int64)
    found = np.zeros((len(alphabet), int(first[-1])), np.bool_)
    for a, symbols in enumerate(alphabet):
        found[a, [int(first[k]) + p for k, symbol in enumerate(symbols) for p in symbol]] = True
    return Taken(found, first)


# ---- Blocks -------------------------------------------------------------------------------------------


@dataclass
class Block:
    """Queries of one shape and overlap; see MachineProgram for what is counted how.

    members  in the order of their lanes: by kind of window, then by how many kinds of rows concern them, so
             that conditions with thresholds are runs of lanes
    """

    shape: Shape
    windows: int
    members: list[int]
    has_fresh: bool = False
    temporaries: int = 0
    at: int = 0
    xat: int = 0
    first_row: int = 0
    ops: dict[tuple[str, Symbol], Ops] = field(default_factory=dict)
    bursts: dict[Symbol, Ops | None] = field(default_factory=dict)

    @property
    def slots(self) -> SlotLayout:
        """A slot per open window; few queries are not padded to a whole vector."""
        count = len(self.members)
        return SlotLayout(self.windows, padded(count) if count >= VECTOR else 1 << (count - 1).bit_length())

    @property
    def lanes(self) -> int:
        """Cells of a row."""
        return self.slots.lanes

    @property
    def held(self) -> int:
        """Rows of a number that may hold mass between moments: states, then temporaries."""
        return len(self.shape.states) + self.temporaries

    @property
    def plane(self) -> int:
        """Rows of a number: those, the empty one, and what moments of several events gather."""
        return self.held + 1 + self.has_fresh * len(self.shape.states)

    @property
    def rows(self) -> int:
        """Rows of all numbers."""
        return self.plane * self.shape.carried.width

    @property
    def xcells(self) -> int:
        """Cells of all extremes."""
        return self.plane * len(self.shape.carried.extremes) * self.lanes

    def row(self, state: int, number: int = 0) -> int:
        """The place of a state, or of what stands for one, among the block's rows."""
        if state == VOID:
            at = self.held
        elif state >= FRESH:
            at = self.held + 1 + state - FRESH
        elif state >= TEMPORARY:
            at = len(self.shape.states) + state - TEMPORARY
        else:
            at = state
        return number * self.plane + at

    def ops_of(self, what: str, symbol: Symbol) -> Ops:
        """The operations of a local symbol, found once."""
        key = what, symbol
        if key not in self.ops:
            burst = self.burst_of(symbol) if what == "burst" else None
            self.ops[key] = burst or self.shape.ops("alone" if what == "burst" else what, symbol)
            self.temporaries = max(self.temporaries, self.ops[key].temporaries)
        return self.ops[key]

    def burst_of(self, symbol: Symbol) -> Ops | None:
        """What n events of a local symbol do, found once."""
        if symbol not in self.bursts:
            self.bursts[symbol] = self.shape.burst(symbol)
        return self.bursts[symbol]

    def follow(self, before: Block) -> None:
        """Begin where another block ends."""
        self.at = before.at + before.rows * before.lanes
        self.xat = before.xat + before.xcells
        self.first_row = before.first_row + before.rows


def blocks_of(members: Sequence[LaneMember], taken: Taken) -> list[Block]:
    """The members by shape and overlap."""
    every = union(member.carried for member in members)
    together: dict[tuple[object, int], list[int]] = {}
    for k, member in enumerate(members):
        together.setdefault((shape_key(member), member.windows), []).append(k)
    kinds = np.append(taken.is_taken.sum(axis=0), 0)  # that take each position
    concerned = np.add.reduceat(kinds, taken.first[:-1])
    found = []
    for (_, windows), own in together.items():
        first = members[own[0]]
        order = sorted(own, key=lambda k: (members[k].which, -int(concerned[k]), k))
        found.append(Block(Shape(first.machine, first.carried, every), windows, order))
    return found


def shape_key(member: LaneMember) -> object:
    """Equal for machines that differ in the types and conditions of their positions only."""
    machine = member.machine
    automaton = machine.automaton
    guards = automaton.guards, frozenset(automaton.guard_of.items())
    return len(automaton.positions), automaton.edges, guards, machine.semantics, member.carried


def settling_columns(blocks: Sequence[Block], taken: Taken) -> Longs:
    """The columns of `taken` that matter to how a moment of several events settles."""
    own = [
        (taken.first[block.members][:, None] + sorted(block.shape.settled_by)).reshape(-1) for block in blocks
    ]
    return np.sort(np.concatenate(own)).astype(np.int64)


# ---- Lists of operations ------------------------------------------------------------------------------


def lower_machine_lanes(
    blocks: Sequence[Block], taken: Taken, together: Masks | None = None, in_bursts: bool = False
) -> MachineProgram:
    """All members side by side.

    together   per kind of moment of several events, the positions that they take; None if there are no such
    in_bursts  whether equal events that follow each other are applied at once, where they can be

    Lists of operations: one per kind of row, for an event alone at its moment. Where there are moments of
    several events: lists of what each of them gathers, spends and moves (PHASES), and then one per kind of
    moment, which settles it. With `in_bursts` one more per kind of row, for n such events.
    """
    emitted = _Emitted()
    kinds = len(taken.is_taken)
    lists = kinds if together is None else kinds * (1 + len(PHASES)) + len(together)
    has_burst = np.full(kinds, in_bursts)
    for b, block in enumerate(blocks):
        block.has_fresh = together is not None
        symbols = _local_symbols(block, taken.is_taken, taken.first)
        parts = [("alone", symbols, 0)]
        if together is not None:
            parts += [(what, symbols, kinds * number) for number, what in enumerate(PHASES, 1)]
            settling, last = _local_symbols(block, together, taken.first), kinds * (1 + len(PHASES))
            nothing = [frozenset[int]()], np.zeros_like(settling[1])
            parts += [("settle", settling, last), ("pour", nothing, last)]
        if in_bursts:
            parts.append(("burst", symbols, lists))
            has_burst &= ~_without_burst(block, *symbols)
        ops = [[block.ops_of(what, symbol) for symbol in names] for what, (names, _), _ in parts]
        if b:
            block.follow(blocks[b - 1])
        for own, (_, (_, code), first_list) in zip(ops, parts, strict=True):
            emitted.add(block, own, code, first_list)
    burst = np.where(has_burst, lists + np.arange(kinds), -1).astype(np.int32)
    return emitted.program(blocks, lists + in_bursts * kinds, burst)


def _without_burst(block: Block, symbols: list[Symbol], code: Longs) -> Masks:
    """The kinds of rows that mean something to a member of which n do not have a closed form."""
    unfit = [i for i, symbol in enumerate(symbols) if block.burst_of(symbol) is None]
    return np.asarray(np.isin(code, unfit).any(axis=1))


PHASES = "gather", "spend", "move"
"""What each event of several at a moment does, phase by phase."""


def _local_symbols(block: Block, is_taken: Masks, first: Longs) -> tuple[list[Symbol], Longs]:
    """The local symbols of a block, and which one each kind of row is to each member: int[kinds, members]."""
    size = len(block.shape.machine.automaton.positions)
    own = is_taken[:, first[block.members][:, None] + np.arange(size)]
    distinct, code = distinct_rows(own.reshape(-1, size))
    return [frozenset(np.flatnonzero(row).tolist()) for row in distinct], code.reshape(own.shape[:2])


_AnyOp = TypeVar("_AnyOp", LinearOp, LeastOp)
_Shared = list[tuple[_AnyOp, frozenset[int]]]
"""Operations in order, and which local symbols share each."""


def merged(sequences: Sequence[Sequence[_AnyOp]]) -> _Shared[_AnyOp]:
    """Operations of several local symbols in one order.

    The lanes of two symbols have nothing in common, so only the order within each matters. An operation that
    several symbols begin with, and none has later, is done once for all of them.
    """
    left = [list(sequence) for sequence in sequences]
    found: _Shared[_AnyOp] = []
    while any(left):
        heads = dict.fromkeys(sequence[0] for sequence in left if sequence)
        often = Counter(op for sequence in left for op in set(sequence))
        sharing = {op: frozenset(i for i, each in enumerate(left) if each[:1] == [op]) for op in heads}
        ripe = [op for op in heads if len(sharing[op]) == often[op]]
        op = max(ripe or heads, key=lambda op: len(sharing[op]))
        for i in sharing[op]:
            del left[i][0]
        found.append((op, sharing[op]))
    return _dropping(found, frozenset(range(len(sequences))))


def _dropping(found: _Shared[_AnyOp], every: frozenset[int]) -> _Shared[_AnyOp]:
    """Let lanes of symbols that only empty rows be emptied by what others do to these rows (*contiguous*)."""
    busy = frozenset[int]().union(*(sharing for op, sharing in found if not op.is_empty))
    emptied = {(op.rows[0], sharing): i for i, (op, sharing) in enumerate(found) if op.is_empty}
    for i, (op, sharing) in enumerate(found):
        others = every - sharing
        if op.is_empty or not others or others & busy:
            continue
        drops, drops_read = (emptied.pop((row, others), None) for row in op.rows)
        found[i] = op._replace(drops=drops is not None, drops_read=drops_read is not None), sharing
        for done in (drops, drops_read):
            if done is not None:
                found[done] = found[done][0], frozenset()
    return [(op, sharing) for op, sharing in found if sharing]


class _Emitted:
    """Operations as they are found, block by block; in the end they are sorted by list."""

    def __init__(self) -> None:
        self.weights = LaneWeights()
        self.known: dict[tuple[int, bool, bytes], tuple[Longs, Runs]] = {}
        self.lists: list[Longs] = []
        self.place: list[Longs] = []
        self.change: list[NDArray[np.float64]] = []
        self.growth: list[NDArray[np.float64]] = []
        self.xlists: list[Longs] = []
        self.xplace: list[Longs] = []

    def add(self, block: Block, ops: Sequence[Ops], code: Longs, first_list: int) -> None:
        """The operations of local symbols; `code` tells which each list has for each member."""
        has = np.stack([(code == symbol).any(axis=1) for symbol in range(len(ops))], axis=1)
        together, which = distinct_rows(has)
        for number, symbols in enumerate(together):
            lists, present = np.flatnonzero(which == number), np.flatnonzero(symbols).tolist()
            own = code[lists]
            for linear, sharing in merged([ops[i].linear for i in present]):
                mask = np.isin(own, [present[i] for i in sharing])
                self._add_linear(block, linear, lists + first_list, *self._runs_of(block, mask, linear))
            for least, sharing in merged([ops[i].least for i in present]):
                mask = np.isin(own, [present[i] for i in sharing])
                self._add_least(block, least, lists + first_list, *self._runs_of(block, mask, least))

    def _runs_of(self, block: Block, mask: Masks, op: LinearOp | LeastOp) -> tuple[Longs, Runs]:
        """Which mask each list has, and the masks as runs, found once per block."""
        covers = op.drops or op.drops_read
        key = id(block), covers, mask.tobytes()
        if key not in self.known:
            distinct, code = distinct_rows(mask)
            self.known[key] = code, self.weights.runs(distinct, block.slots, covers)
        return self.known[key]

    def _add_linear(self, block: Block, op: LinearOp, lists: Longs, mask: Longs, runs: Runs) -> None:
        run, which, is_last = runs.of_lists(mask)
        to, of = block.row(op.to, op.number), block.row(op.of, op.of_number)
        rows = block.first_row + to, block.first_row + of, op.column
        self.lists.append(lists[which])
        self.place.append(_places(block, (block.at, to), (block.at, of), runs, run, rows))
        whole = runs.is_whole[mask[which]]
        keeps, left = float(not op.drops), float(not op.drops_read)  # of lanes that take no part
        a, b = parts_of(op.a), parts_of(op.b)
        bounds = [
            np.where(is_last, a.one if op.a else np.where(whole, 0.0, keeps), 1.0),
            np.where(is_last, b.one, 0.0),
            np.where(is_last, np.where(whole, op.c, max(op.c, left)), 1.0),
        ]
        fixed = [np.full(len(run), each) for each in (a.one, b.one, float(op.c), keeps, left)]
        self.change.append(np.stack([*fixed[:3], *bounds, *fixed[3:]], axis=1))
        growing = [np.full(len(run), each) for each in (*a[1:], *b[1:])]
        self.growth.append(np.stack([*growing, *(np.where(is_last, each, 0.0) for each in growing)], axis=1))

    def _add_least(self, block: Block, op: LeastOp, lists: Longs, mask: Longs, runs: Runs) -> None:
        run, which, _ = runs.of_lists(mask)
        to, of = block.row(op.to, op.extreme), block.row(op.of, op.extreme)
        flags = op.keeps + 2 * op.clears + 4 * op.drops + 8 * op.drops_read
        place = _places(block, (block.xat, to), (block.xat, of), runs, run, (0, op.column, flags))
        place[:, 5] = block.at + block.row(op.gate) * block.lanes + runs.vector[run] * VECTOR
        self.xlists.append(lists[which])
        self.xplace.append(place)

    def program(self, blocks: Sequence[Block], lists: int, burst: NDArray[np.int32]) -> MachineProgram:
        """All operations, by list."""
        start, order = _by_list(self.lists, lists)
        x_start, x_order = _by_list(self.xlists, lists)
        change, growth = (
            np.concatenate([np.zeros((0, 8)), *each])[order] for each in (self.change, self.growth)
        )
        rows = [(b.at + r * b.lanes, b.lanes) for b in blocks for r in range(b.rows)]
        row_at, row_lanes = np.array(rows, np.int64).reshape(-1, 2).T.copy()
        last = blocks[-1]
        return MachineProgram(
            op_start=start,
            place=aligned(_records(self.place, order)),
            change=aligned(change),
            growth=aligned(growth if (burst >= 0).any() else growth[:0]),
            burst=burst,
            x_start=x_start,
            xplace=aligned(_records(self.xplace, x_order)),
            weight=aligned(np.concatenate(self.weights.parts)),
            row_at=row_at,
            row_lanes=row_lanes,
            block=np.array([_columns_of(block) for block in blocks], np.int64),
            whole_start=np.array([0, *accumulate(len(b.shape.whole) for b in blocks)], np.int64),
            whole=np.array([state for b in blocks for state in b.shape.whole], np.int64),
            spends=bool((change[:, 2] != 1.0).any()),
            drops=bool((change[:, 6:] != 1.0).any()),
            cells=last.at + last.rows * last.lanes,
            xcells=last.xat + last.xcells,
        )


def _columns_of(block: Block) -> list[int]:
    """See MachineProgram.block."""
    shape = block.shape
    sizes = block.lanes, block.slots.stride, block.plane, block.held
    carried = shape.carried.width, len(shape.carried.extremes)
    return [block.at, block.xat, *sizes, *carried, block.first_row, len(shape.states)]


def _places(
    block: Block, to: tuple[int, int], of: tuple[int, int], runs: Runs, run: Longs, others: tuple[int, ...]
) -> Longs:
    """The records of runs: cells written and read, vectors, weights, and what is the same for all of them."""
    lane = runs.vector[run] * VECTOR
    cells = [at + row * block.lanes + lane for at, row in (to, of)]
    fixed = [np.full(len(run), each) for each in others]
    return np.stack([*cells, runs.vectors[run], runs.weight[run], runs.apace[run], *fixed], axis=1)


def _by_list(lists: list[Longs], count: int) -> tuple[NDArray[np.int32], Longs]:
    """Where each list begins once records are sorted by list, and that order; it is stable."""
    of = np.concatenate([np.zeros(0, np.int64), *lists])
    order = np.argsort(of, kind="stable")
    return np.searchsorted(of[order], np.arange(count + 1)).astype(np.int32), order


def _records(parts: list[Longs], order: Longs) -> NDArray[np.int32]:
    return np.concatenate([np.zeros((0, 8), np.int64), *parts])[order].astype(np.int32)
