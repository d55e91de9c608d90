"""Machines of several queries + what each kind of row means to each -> the arrays of kernel.machine_lanes.

Queries of one shape (lane_shapes) and overlap are a block. A kind of row has different local symbols for
different queries of a block; the queries of each are a mask of lanes, and the operations of the symbol are
done for the runs of the mask (lane_masks). What is done here grows with shapes, kinds of rows and masks that
differ, never with kinds times queries: that is left to NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
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
from trendfold.kernel.lane_shapes import (
    FRESH,
    TEMPORARY,
    VOID,
    LeastOp,
    LinearOp,
    Ops,
    Shape,
    ShapeKey,
    shape_of,
)
from trendfold.kernel.machine_lanes import MachineProgram, aligned
from trendfold.plan.carried import Carried, union


@dataclass(frozen=True)
class LaneMember:
    """One query, or one operand of it: its machine, what rides on its counts, and its windows.

    windows  how many an event can be in
    which    the kind of its windows; queries of one kind open and close theirs at the same rows
    own      the positions of T in GROUP BY T.g, if the values of g are slots
    values   how many values there may be at once
    """

    machine: Machine
    carried: Carried
    windows: int = 1
    which: int = 0
    own: Symbol = frozenset()
    values: int = 1


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
    own      the positions of T, where GROUP BY T.g makes slots of the values of g
    values   how many slots a window has
    before   the block of the same queries for what has not passed T; it is the same for all values
    """

    shape: Shape
    windows: int
    members: list[int]
    own: Symbol = frozenset()
    values: int = 1
    before: Block | None = None
    has_fresh: bool = False
    temporaries: int = 0
    at: int = 0
    xat: int = 0
    first_row: int = 0

    @property
    def slots(self) -> SlotLayout:
        """A slot per open window and value; few queries are not padded to a whole vector."""
        count = len(self.members)
        stride = 1 << (count - 1).bit_length() if count < VECTOR else padded(count)
        return SlotLayout(self.windows * self.values, stride)

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

    @cached_property
    def alive(self) -> frozenset[int]:
        """The states that may hold mass: with values of GROUP BY T.g, those before T or those from T on."""
        automaton = self.shape.machine.automaton
        if self.before is not None:
            places = automaton.reachable(self.own) | {END}
        elif self.own:
            places = automaton.reachable(frozenset([START]), without=self.own)
        else:
            return frozenset(range(len(self.shape.states)))
        return frozenset(i for i, state in enumerate(self.shape.states) if state.place in places)

    def ops_of(self, what: str, symbol: Symbol) -> Ops:
        """The operations of a local symbol; those of one event where a burst has none."""
        found = self.shape.ops(what, symbol) or self.shape.known("alone", symbol)
        self.make_room([found])
        return self.acting(found, self) if self.own else found

    def make_room(self, ops: Sequence[Ops]) -> None:
        """Have as many temporaries as lists of operations need."""
        self.temporaries = max([self.temporaries, *(each.temporaries for each in ops)])

    def acting(self, ops: Ops, of: Block) -> Ops:
        """The operations that may change anything, if those read another block."""
        linear = [op for op in ops.linear if of.may_hold(op.of) or (op.a != 1 and self.may_hold(op.to))]
        return replace(ops, linear=tuple(linear))

    def may_hold(self, state: int) -> bool:
        """Whether a state, or what stands for one, may hold mass."""
        is_state = state < TEMPORARY or state >= FRESH
        return not is_state or state % TEMPORARY in self.alive

    def follow(self, before: Block) -> None:
        """Begin where another block ends."""
        self.at = before.at + before.rows * before.lanes
        self.xat = before.xat + before.xcells
        self.first_row = before.first_row + before.rows


def blocks_of(members: Sequence[LaneMember], taken: Taken) -> list[Block]:
    """The members by shape and overlap."""
    every = union(member.carried for member in members)
    together: dict[tuple[ShapeKey, int, Symbol, int], list[int]] = {}
    for k, member in enumerate(members):
        key = shape_key(member, every), member.windows, member.own, member.values
        together.setdefault(key, []).append(k)
    kinds = np.append(taken.is_taken.sum(axis=0), 0)  # that take each position
    concerned = np.add.reduceat(kinds, taken.first[:-1])
    found = []
    for (shape, windows, own, values), those in together.items():
        order = sorted(those, key=lambda k: (members[k].which, -int(concerned[k]), k))
        size = VECTOR if values > _MANY_VALUES else len(order)
        for part in (order[k : k + size] for k in range(0, len(order), size)):
            found.append(Block(shape_of(shape), windows, part, own))
            if own:
                found.append(Block(shape_of(shape), windows, part, own, values, found[-1]))
    return found


_MANY_VALUES = 16
"""With more values of GROUP BY T.g, blocks have one vector of queries: a run of a mask is for all values."""


def shape_key(member: LaneMember, every: Carried) -> ShapeKey:
    """The shape of a member's machine, where its group carries `every` number."""
    machine = member.machine
    automaton = machine.automaton
    edges = automaton.edges, automaton.guards, frozenset(automaton.guard_of.items())
    return ShapeKey(len(automaton.positions), edges, machine.semantics, member.carried, every, machine)


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
    Where durations are added up, time passes first, at every row; no time is between rows of one moment.
    """
    emitted = _Emitted()
    kinds = len(taken.is_taken)
    own = own_columns(blocks, taken)
    public, of_value = taken.is_taken & ~own, taken.is_taken & own
    is_mixed = _mixed(public, of_value, taken.first)
    lists = kinds if together is None else kinds * (1 + len(PHASES)) + len(together)
    has_burst = in_bursts & ~of_value.any(axis=1)  # events of different values are no burst
    for b, block in enumerate(blocks):
        block.has_fresh = together is not None or bool(is_mixed.any())
        symbols = _local_symbols(block, public, taken.first)
        parts = _passing(block, symbols, has_moments=together is not None)
        parts += _lists_of_events(block, public, is_mixed, taken.first, symbols)
        if together is not None:
            parts += [(what, symbols, kinds * number) for number, what in enumerate(PHASES, 1)]
            settling, last = _local_symbols(block, together, taken.first), kinds * (1 + len(PHASES))
            nothing = [frozenset[int]()], np.zeros_like(settling[1])
            parts += [("settle", settling, last), ("pour", nothing, last)]
        if in_bursts:
            parts.append(("burst", symbols, lists))
            has_burst &= ~_without_burst(block, *symbols)
        ops = [[block.ops_of(what, symbol) for symbol in names] for what, (names, _), _ in parts]
        at_values = None
        if block.before is not None:  # before any operation is added: temporaries move rows
            at_values = _at_values(block, of_value, taken.first)
        if b:
            block.follow(blocks[b - 1])
        for each, (_, (_, code), first_list) in zip(ops, parts, strict=True):
            emitted.add(_whole(block), each, code, first_list)
        if at_values is not None:
            _add_events_of_values(emitted, block, at_values, is_mixed, together is not None)
    for block in blocks if is_mixed.any() else ():
        code = np.repeat(is_mixed[:, None].astype(np.int64), len(block.members), axis=1)
        emitted.add(_whole(block), [Ops(), block.ops_of("pour", frozenset())], code, 0)
    burst = np.where(has_burst, lists + np.arange(kinds), -1).astype(np.int32)
    return emitted.program(blocks, lists + in_bursts * kinds, burst)


_LocalSymbols = tuple[list[Symbol], Longs]
"""Local symbols, and which each kind of row is to each member: int[kinds, members]."""
_ListPart = tuple[str, _LocalSymbols, int]
"""What events do, their local symbols, and the first list."""


def _passing(block: Block, symbols: _LocalSymbols, has_moments: bool) -> list[_ListPart]:
    """Time passes before any event, where durations are added up."""
    if not block.shape.carried.elapsed:
        return []
    kinds = len(symbols[1])
    always = [frozenset[int]()], np.zeros_like(symbols[1])
    lists = [0, kinds * (1 + PHASES.index("gather"))] if has_moments else [0]
    return [("pass", always, first_list) for first_list in lists]


def _lists_of_events(
    block: Block, public: Masks, is_mixed: Masks, first: Longs, symbols: _LocalSymbols
) -> list[_ListPart]:
    """What events alone at their moments do, but for those at T; mixed ones gather, and pour in the end."""
    if not is_mixed.any():
        return [("alone", symbols, 0)]
    alone, gathering = (public & some[:, None] for some in (~is_mixed, is_mixed))
    return [
        ("alone", _local_symbols(block, alone, first), 0),
        ("gather", _local_symbols(block, gathering, first), 0),
    ]


def own_columns(blocks: Sequence[Block], taken: Taken) -> Masks:
    """Which columns of `taken` are positions of T, whose events act on the slots of one value."""
    found = np.zeros(taken.is_taken.shape[1], np.bool_)
    for block in blocks:
        found[(taken.first[block.members][:, None] + sorted(block.own)).reshape(-1).astype(np.int64)] = True
    return found


class _Reach(NamedTuple):
    """The cells on which operations act: rows of two blocks, in some slots.

    to, of   the blocks of the rows written and read
    slots    the lanes of a run
    lanes    where they begin in both blocks, once or for every open window
    shift    how far apart the values of GROUP BY T.g are in both
    """

    to: Block
    of: Block
    slots: SlotLayout
    lanes: tuple[tuple[int, int], ...] = ((0, 0),)
    shift: tuple[int, int] = (0, 0)


def _whole(block: Block) -> _Reach:
    """All slots of a block."""
    return _Reach(block, block, block.slots)


def _mixed(public: Masks, of_value: Masks, first: Longs) -> Masks:
    """The kinds of rows that a member takes at T and elsewhere, too: they act like several of one moment."""
    each = [np.logical_or.reduceat(taken, first[:-1], axis=1) for taken in (public, of_value)]
    return np.asarray((each[0] & each[1]).any(axis=1))


class _AtValues(NamedTuple):
    """What events at T do to a block: per local symbol, and which each kind of row is to each member.

    alone, gathered  the operations of an event alone, and of one with ties, on the slots of its value
    code             int[kinds, members]
    nothing          the symbol of other events
    """

    alone: list[Ops]
    gathered: list[Ops]
    code: Longs
    nothing: int


def _at_values(block: Block, of_value: Masks, first: Longs) -> _AtValues:
    names, code = _local_symbols(block, of_value, first)
    alone, gathered = ([block.shape.known(what, symbol) for symbol in names] for what in ("alone", "gather"))
    block.make_room(alone)
    return _AtValues(alone, gathered, code, names.index(frozenset()))


def _add_events_of_values(
    emitted: _Emitted, block: Block, at: _AtValues, is_mixed: Masks, has_moments: bool
) -> None:
    """Events at T: they act on the slots of their value, and there on what has not passed T yet."""
    before, stride, kinds = block.before, block.slots.stride, len(is_mixed)
    assert before is not None
    one, windows = SlotLayout(1, stride, has_neighbours=stride < VECTOR), range(block.windows)
    own = tuple((w * block.values * stride, w * block.values * stride) for w in windows)
    other = tuple((w * block.values * stride, w * stride) for w in windows)
    inside = _Reach(block, block, one, own, (stride, stride))
    across = _Reach(block, before, one, other, (stride, 0))
    within, read = ([block.acting(ops, of) for ops in at.gathered] for of in (block, before))
    alone, mixed = (np.where(some[:, None], at.code, at.nothing) for some in (~is_mixed, is_mixed))
    emitted.add(inside, [block.acting(ops, block) for ops in at.alone], alone, 0)
    emitted.add(across, [_at_once(ops) for ops in read], alone, 0)
    gathering = [(mixed, 0)] if is_mixed.any() else []
    if has_moments:
        gathering.append((at.code, kinds * (1 + PHASES.index("gather"))))
    for code, first_list in gathering:
        emitted.add(inside, within, code, first_list)
        emitted.add(across, read, code, first_list)


def _at_once(gathered: Ops) -> Ops:
    """What an event gathers, added to the states themselves: the rows read are of another block."""
    return Ops(tuple(op._replace(to=op.to - FRESH) for op in gathered.linear))


def _without_burst(block: Block, symbols: list[Symbol], code: Longs) -> Masks:
    """The kinds of rows that mean something to a member of which n do not have a closed form."""
    unfit = np.array([block.shape.ops("burst", symbol) is None for symbol in symbols], np.bool_)
    return np.asarray(unfit[code].any(axis=1))


PHASES = "gather", "spend", "move"
"""What each event of several at a moment does, phase by phase."""


def _local_symbols(block: Block, is_taken: Masks, first: Longs) -> _LocalSymbols:
    """What kinds of rows mean to the members of a block."""
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


@dataclass(frozen=True)
class _ListRuns:
    """The runs of the masks that some lists of operations have.

    run      int[n]   the run; which: the place of its list; is_last: whether it is the list's last
    whole    bool[n]  whether every query takes part in the list's mask
    """

    runs: Runs
    run: Longs
    which: Longs
    is_last: Masks
    whole: Masks


class _Emitted:
    """Operations as they are found, block by block; in the end they are sorted by list.

    lists, cells   per operation the lists of its runs; and cells written and read, vectors, weights
    rows, numbers  per operation what is the same for all runs, and how often each is repeated
    is_last, whole per operation of its runs, see _ListRuns
    shift          per operation, see MachineProgram
    """

    def __init__(self) -> None:
        self.weights = LaneWeights()
        self.known: dict[tuple[SlotLayout, bool, int, bytes], _ListRuns] = {}
        self.lists: list[Longs] = []
        self.cells: list[Longs] = []
        self.rows: list[tuple[int, ...]] = []
        self.numbers: list[tuple[float, ...]] = []
        self.shift: list[tuple[int, int]] = []
        self.is_last: list[Masks] = []
        self.whole: list[Masks] = []
        self.xlists: list[Longs] = []
        self.xplace: list[Longs] = []

    def add(self, reach: _Reach, ops: Sequence[Ops], code: Longs, first_list: int) -> None:
        """The operations of local symbols; `code` tells which each list has for each member."""
        has = np.zeros((len(code), len(ops)), np.bool_)
        has[np.repeat(np.arange(len(code)), code.shape[1]), code.reshape(-1)] = True
        together, which = distinct_rows(has)
        for number, symbols in enumerate(together):
            lists, present = np.flatnonzero(which == number), np.flatnonzero(symbols).tolist()
            own = code[lists]
            for linear, sharing in merged([ops[i].linear for i in present]):
                mask = _among(own, [present[i] for i in sharing], len(ops))
                self._add_linear(reach, linear, lists + first_list, self._runs_of(reach, mask, linear))
            for least, sharing in merged([ops[i].least for i in present]):
                mask = _among(own, [present[i] for i in sharing], len(ops))
                self._add_least(reach.to, least, lists + first_list, self._runs_of(reach, mask, least))

    def _runs_of(self, reach: _Reach, mask: Masks, op: LinearOp | LeastOp) -> _ListRuns:
        """The masks of all lists as runs, found once per layout of lanes."""
        covers = op.drops or op.drops_read
        key = reach.slots, covers, mask.shape[1], mask.tobytes()
        if key not in self.known:
            distinct, code = distinct_rows(mask)
            runs = self.weights.runs(distinct, reach.slots, covers)
            run, which, is_last = runs.of_lists(code)
            self.known[key] = _ListRuns(runs, run, which, is_last, runs.is_whole[code[which]])
        return self.known[key]

    def _add_linear(self, reach: _Reach, op: LinearOp, lists: Longs, on: _ListRuns) -> None:
        to, of = reach.to.row(op.to, op.number), reach.of.row(op.of, op.of_number)
        keeps, left = float(not op.drops), float(not op.drops_read)  # of lanes that take no part
        numbers = *parts_of(op.a), *parts_of(op.b), float(op.c), keeps, left, float(bool(op.a))
        for k, (to_lane, of_lane) in enumerate(reach.lanes, 1):
            cells = reach.to.at + to * reach.to.lanes + to_lane, reach.of.at + of * reach.of.lanes + of_lane
            self.lists.append(lists[on.which])
            self.cells.append(_cells(*cells, on))
            self.rows.append((reach.to.first_row + to, reach.of.first_row + of, op.column))
            self.numbers.append(numbers)
            self.shift.append(reach.shift)
            self.is_last.append(on.is_last & (k == len(reach.lanes)))
            self.whole.append(on.whole & (reach.shift[0] == 0))

    def _add_least(self, block: Block, op: LeastOp, lists: Longs, on: _ListRuns) -> None:
        to, of = block.row(op.to, op.extreme), block.row(op.of, op.extreme)
        flags = op.keeps + 2 * op.clears + 4 * op.drops + 8 * op.drops_read + 16 * op.adds
        gate = block.at + block.row(op.gate) * block.lanes + on.runs.vector[on.run] * VECTOR
        fixed = np.broadcast_to(np.array([op.column, flags]), (len(on.run), 2))
        self.xlists.append(lists[on.which])
        cells = block.xat + to * block.lanes, block.xat + of * block.lanes
        self.xplace.append(np.column_stack([_cells(*cells, on), gate, fixed]))

    def _changes(self) -> tuple[Longs, NDArray[np.float64], NDArray[np.float64], Longs]:
        """The records of all linear operations: place, change, growth and shift, see MachineProgram."""
        sizes = [len(each) for each in self.lists]
        rows = np.repeat(np.array(self.rows, np.int64).reshape(-1, 3), sizes, axis=0)
        place = np.column_stack([np.concatenate([np.zeros((0, 5), np.int64), *self.cells]), rows])
        numbers = np.repeat(np.array(self.numbers, np.float64).reshape(-1, 10), sizes, axis=0)
        a, a_twos, a_each, b, b_twos, b_each, c, keeps, left, has_a = numbers.T
        none = np.zeros(0, np.bool_)
        is_last, whole = np.concatenate([none, *self.is_last]), np.concatenate([none, *self.whole])
        bounds = [
            np.where(is_last, np.where(has_a > 0.0, a, np.where(whole, 0.0, keeps)), 1.0),
            np.where(is_last, b, 0.0),
            np.where(is_last, np.where(whole, c, np.maximum(c, left)), 1.0),
        ]
        growing = [a_twos, a_each, b_twos, b_each]
        growth = np.stack([*growing, *(np.where(is_last, each, 0.0) for each in growing)], axis=1)
        shift = np.repeat(np.array(self.shift, np.int64).reshape(-1, 2), sizes, axis=0)
        return place, np.stack([a, b, c, *bounds, keeps, left], axis=1), growth, shift

    def program(self, blocks: Sequence[Block], lists: int, burst: NDArray[np.int32]) -> MachineProgram:
        """All operations, by list."""
        start, order = _by_list(self.lists, lists)
        x_start, x_order = _by_list(self.xlists, lists)
        place, change, growth, shift = (each[order] for each in self._changes())
        rows = [(b.at + r * b.lanes, b.lanes) for b in blocks for r in range(b.rows)]
        row_at, row_lanes = np.array(rows, np.int64).reshape(-1, 2).T.copy()
        last = blocks[-1]
        return MachineProgram(
            op_start=start,
            place=aligned(place.astype(np.int32)),
            change=aligned(change),
            growth=aligned(growth if (burst >= 0).any() else growth[:0]),
            burst=burst,
            x_start=x_start,
            xplace=aligned(
                np.concatenate([np.zeros((0, 8), np.int64), *self.xplace])[x_order].astype(np.int32)
            ),
            weight=aligned(np.concatenate(self.weights.parts)),
            shift=(shift if shift.any() else shift[:0]).astype(np.int32),
            row_at=row_at,
            row_lanes=row_lanes,
            block=np.array([_columns_of(block) for block in blocks], np.int64),
            whole_start=np.array([0, *accumulate(len(b.shape.whole) for b in blocks)], np.int64),
            whole=np.array([state for b in blocks for state in b.shape.whole], np.int64),
            spends=bool((change[:, 2] != 1.0).any()),
            drops=bool((change[:, 6:] != 1.0).any()),
            cells=last.at + last.rows * last.lanes + VECTOR,  # a vector may begin at the last lane
            xcells=last.xat + last.xcells,
        )


def _columns_of(block: Block) -> list[int]:
    """See MachineProgram.block."""
    shape = block.shape
    sizes = block.lanes, block.slots.stride, block.plane, block.held
    carried = shape.carried.width, len(shape.carried.extremes)
    return [block.at, block.xat, *sizes, *carried, block.first_row, len(shape.states), shape.carried.added]


def _among(code: Longs, symbols: Sequence[int], count: int) -> Masks:
    """Where a code is one of some symbols, of so many in all."""
    is_one = np.zeros(count, np.bool_)
    is_one[symbols] = True
    return is_one[code]


def _cells(to: int, of: int, on: _ListRuns) -> Longs:
    """The cells that runs write and read, from the first lanes of two rows on; their vectors and weights."""
    lane, runs, run = on.runs.vector[on.run] * VECTOR, on.runs, on.run
    return np.stack([to + lane, of + lane, runs.vectors[run], runs.weight[run], runs.apace[run]], axis=1)


def _by_list(lists: list[Longs], count: int) -> tuple[NDArray[np.int32], Longs]:
    """Where each list begins once records are sorted by list, and that order; it is stable."""
    of = np.concatenate([np.zeros(0, np.int64), *lists])
    order = np.argsort(of, kind="stable")
    return np.searchsorted(of[order], np.arange(count + 1)).astype(np.int32), order
