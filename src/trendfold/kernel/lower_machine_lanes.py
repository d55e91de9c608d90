"""Machines of several queries + what each kind of row means to each -> the arrays of kernel.machine_lanes.

Queries whose machines differ in the types and conditions of their positions only have one *shape*. What an
event does to a shape depends on the positions it takes there, its *local symbol*, and is one sparse matrix

    N = K + G        new = N · old

K keeps mass where it is, unless the event spends it (*next*), every event makes it forgotten (*contiguous*),
or a NOT moves it to another class; G gathers the mass of the sources into the targets. N becomes operations in
place: rows are written in reading order, a row that is read after it is written is copied first, and a row
that is emptied after it is read last is emptied by that reading. That is done once per shape and local symbol.
A kind of row has different local symbols for different queries; the queries of each are a mask of lanes.

Events of one moment all read the mass from before it. Each gathers into rows of its own (G); after the last, K
of all positions that they take together is applied, and what was gathered is poured in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine, State, Symbol
from trendfold.kernel.lower import RowLowering, extreme_columns, value_columns
from trendfold.kernel.machine_lanes import LaneProgram, aligned
from trendfold.plan.carried import Carried, union
from trendfold.query.nodes import Semantics

VECTOR = 8
"""Lanes of a vector."""

Masks = NDArray[np.bool_]


@dataclass(frozen=True)
class LaneMember:
    """One query: its machine, what rides on its counts, and its windows.

    windows  how many an event can be in
    which    the kind of its windows; queries of one kind open and close theirs at the same rows
    """

    machine: Machine
    carried: Carried
    windows: int = 1
    which: int = 0


@dataclass(frozen=True)
class Taken:
    """Which positions the rows of every kind take: bool[kinds, positions of all members]; kind 0 is none.

    first  int[members + 1]  where the positions of each member begin
    """

    is_taken: Masks
    first: NDArray[np.int64]

    def of_member(self, k: int) -> Masks:
        """The kinds and positions of one member."""
        return self.is_taken[:, self.first[k] : self.first[k + 1]]


def taken_of(alphabet: Sequence[Sequence[Symbol]], members: Sequence[LaneMember]) -> Taken:
    """From sets of positions per kind and member."""
    sizes = [len(member.machine.automaton.positions) for member in members]
    first = np.array([0, *accumulate(sizes)], np.int64)
    found = np.zeros((len(alphabet), int(first[-1])), np.bool_)
    for a, symbols in enumerate(alphabet):
        found[a, [int(first[k]) + p for k, symbol in enumerate(symbols) for p in symbol]] = True
    return Taken(found, first)


def why_not_lanes(machine: Machine, builds_trends: bool = False) -> str:
    """Why a machine cannot be lanes; empty if it can."""
    if machine.by_event or builds_trends:
        return "a predicate compares events, so bindings are kept one by one"
    return ""


# ---- One shape ----------------------------------------------------------------------------------------


class Op(NamedTuple):
    """d <- a·d + b·v·s, s <- c·s, of states and numbers; v is the event's value in a column, 0 is 1."""

    to: int
    of: int
    a: int
    b: int
    c: int
    number: int = 0
    of_number: int = 0
    column: int = 0
    drops: bool = False
    """Whether the lanes that take no part lose what d holds, ..."""
    drops_read: bool = False
    """... or s."""

    @property
    def is_empty(self) -> bool:
        """Whether d is emptied, and that is all."""
        return self.a == 0 and self.b == 0

    @property
    def rows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.to, self.number), (self.of, self.of_number)


class LeastOp(NamedTuple):
    """The same for an extreme: d <- min(d, s, the event's value where `gate` holds mass)."""

    to: int
    of: int
    keeps: bool
    clears: bool
    extreme: int
    gate: int
    column: int = 0
    drops: bool = False
    drops_read: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.keeps and self.of == self.gate == VOID

    @property
    def rows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.to, self.extreme), (self.of, self.extreme)


@dataclass(frozen=True)
class Ops:
    """A list of operations of one shape; `temporaries` is how many rows beside the states it needs."""

    linear: tuple[Op, ...] = ()
    least: tuple[LeastOp, ...] = ()
    temporaries: int = 0


VOID = -1
"""A row that is always empty."""
_TEMPORARY, _FRESH = 1 << 20, 1 << 21
"""Temporaries and rows of what a moment gathers are numbered from here until the layout is known."""

Matrix = dict[int, dict[int, int]]
"""Rows that an event changes: per state the states it is the sum of, and how often each."""


class Shape:
    """The states of machines of one shape, and what local symbols do to them."""

    def __init__(self, machine: Machine, carried: Carried, every: Carried) -> None:
        self.machine, self.carried = machine, carried
        self.states = _live(machine)
        self.number = {state: i for i, state in enumerate(self.states)}
        lowering = RowLowering(machine, carried)
        self.carries = [{state.place for state in self.states}, *lowering.carries]
        self.xcarries = lowering.xcarries
        self.columns = {column: i for i, column in enumerate(value_columns(every), 1)}
        self.xcolumns = {column: i for i, column in enumerate(extreme_columns(every), 1)}

    @property
    def start(self) -> int:
        return self.number[State(START)]

    @property
    def whole(self) -> list[int]:
        return [self.number[state] for state in self.machine.whole()]

    @cached_property
    def moved_by(self) -> frozenset[int]:
        """The positions whose events do more than gather: they spend, or move mass between classes."""
        automaton = self.machine.automaton
        guards = frozenset(p for c in self.machine.guard_classes if c for p in c.guard.positions)
        is_next = self.machine.semantics is Semantics.NEXT
        return guards | (frozenset(p.index for p in automaton.positive) if is_next else frozenset())

    def alone(self, symbol: Symbol) -> Ops:
        """What an event does that is alone at its moment."""
        matrix = _sum(self._kept(symbol), self._gathered(symbol))
        return self._ops(matrix, symbol)

    def gather(self, symbol: Symbol) -> Ops:
        """What an event leaves beside the states, where others are at its moment."""
        into = {t + _FRESH: row for t, row in self._gathered(symbol).items()}
        return self._ops({t: row | {t: 1} for t, row in into.items()}, symbol, _FRESH)

    def settle(self, symbol: Symbol) -> Ops:
        """What the positions taken at a moment of several events do together, but gathering."""
        return self._ops(self._kept(symbol), frozenset())

    def pour(self) -> Ops:
        """Add what a moment has gathered."""
        every = frozenset(p.index for p in self.machine.automaton.positive)
        linear, least = [], []
        for t in self._gathered(every):
            place = self.states[t].place
            linear += [Op(t, t + _FRESH, 1, 1, 0, w, w) for w in self._numbers() if place in self.carries[w]]
            for x, places in enumerate(self.xcarries):
                if place in places:
                    least.append(LeastOp(t, t + _FRESH, True, True, x, VOID))
        return Ops(tuple(linear), tuple(least))

    def _numbers(self) -> range:
        """All numbers; counts come last, because others read them."""
        return range(self.carried.width - 1, -1, -1)

    def _kept(self, symbol: Symbol) -> Matrix:
        """K, where it is not the identity."""
        moved: Matrix = {}
        spent = self._spent(symbol)
        for i, state in enumerate(self.states):
            after = None if state in spent else self._class_after(state, symbol)
            if after == state:
                continue
            moved.setdefault(i, {})
            if after in self.number:
                moved.setdefault(self.number[after], {})[i] = 1
        for i in moved:
            state = self.states[i]
            if state not in spent and self._class_after(state, symbol) == state:
                moved[i][i] = 1
        return moved

    def _spent(self, symbol: Symbol) -> set[State]:
        """The states whose mass does not outlast the moment."""
        match self.machine.semantics:
            case Semantics.NEXT:
                used = {s for step in self.machine.steps(symbol) for s in step.sources}
                return {s for s in used if s.place != START}
            case Semantics.CONTIGUOUS:
                return {s for s in self.states if s.place not in (START, END)}
        return set()

    def _class_after(self, state: State, symbol: Symbol) -> State:
        guard = self.machine.guard_at(state.place)
        split = self.machine.guard_classes[guard] if guard is not None else None
        if split is None or state.cls == split.broken:
            return state
        return State(state.place, split.after(state.cls, split.reached(state.cls, symbol)))

    def _gathered(self, symbol: Symbol) -> Matrix:
        """G."""
        found: Matrix = {}
        for t, s, _ in self._terms(symbol):
            row = found.setdefault(t, {})
            row[s] = row.get(s, 0) + 1
        return found

    def _terms(self, symbol: Symbol) -> list[tuple[int, int, int]]:
        """Target, source and position of everything an event adds."""
        return [
            (self.number[t], self.number[s], step.position)
            for step in self.machine.steps(symbol)
            for t in step.targets
            for s in step.sources
            if t in self.number and s in self.number
        ]

    def _ops(self, matrix: Matrix, symbol: Symbol, shift: int = 0) -> Ops:
        """A matrix as operations on all numbers and extremes, and what the event's own values add."""
        linear: list[Op] = []
        least: list[LeastOp] = []
        most = 0
        for x, places in enumerate(self.xcarries):
            ordered, used = in_place(self._within(matrix, places))
            most = max(most, used)
            least += [LeastOp(o.to, o.of, o.a > 0, o.c == 0, x, VOID) for o in ordered]
            least += self._fed_extreme(x, symbol, shift)
        for w in self._numbers():
            ordered, used = in_place(self._within(matrix, self.carries[w]))
            most = max(most, used)
            linear += [o._replace(number=w, of_number=w) for o in ordered]
            linear += self._fed(w, symbol, shift)
        return Ops(tuple(linear), tuple(least), most)

    def _within(self, matrix: Matrix, places: set[int]) -> Matrix:
        """The rows and columns of some places."""

        def inside(i: int) -> bool:
            return self.states[i % _TEMPORARY].place in places

        return {t: {s: n for s, n in row.items() if inside(s)} for t, row in matrix.items() if inside(t)}

    def _fed(self, w: int, symbol: Symbol, shift: int) -> list[Op]:
        """What an event's values add to a number: a value per trend that it continues."""
        if w == 0:
            return []
        fed = self.carried.numbers[w - 1]
        column = 0 if fed.attribute is None else self.columns[fed.measure, fed.attribute]
        often = Counter((t, s) for t, s, position in self._terms(symbol) if position in fed.positions)
        return [Op(t + shift, s, 1, n, 1, w, 0, column) for (t, s), n in often.items()]

    def _fed_extreme(self, x: int, symbol: Symbol, shift: int) -> list[LeastOp]:
        fed = self.carried.extremes[x]
        column = self.xcolumns[fed.attribute, fed.is_max]
        terms = dict.fromkeys((t, s) for t, s, position in self._terms(symbol) if position in fed.positions)
        return [LeastOp(t + shift, VOID, True, False, x, s, column) for t, s in terms]


def _live(machine: Machine) -> tuple[State, ...]:
    """The states from which a whole trend can be reached, and ⊥; mass elsewhere need not be kept."""
    every = frozenset(p.index for p in machine.automaton.positive)
    before: dict[State, set[State]] = {}
    for step in machine.steps(every):
        for t in step.targets:
            before.setdefault(t, set()).update(step.sources)
    for state in machine.states:
        before.setdefault(state, set()).update(
            s for s in machine.states if s.place == state.place and s.cls < state.cls
        )
    found = set(machine.whole())
    frontier = list(found)
    while frontier:
        fresh = before[frontier.pop()] - found
        found |= fresh
        frontier += fresh
    return tuple(s for s in machine.states if s in found or s == State(START))


def _sum(kept: Matrix, gathered: Matrix) -> Matrix:
    """K + G; a row that K does not change keeps itself."""
    found = {t: dict(row) for t, row in kept.items()}
    for t, row in gathered.items():
        into = found.setdefault(t, {t: 1})
        for s, n in row.items():
            into[s] = into.get(s, 0) + n
    return found


def in_place(matrix: Matrix) -> tuple[list[Op], int]:
    """The rows of a matrix as operations that read only what is not yet overwritten, and how many temporaries.

    Row t is written when nothing else reads the old t any more. Where rows read each other in a circle, one is
    copied first.
    """
    left = {t: dict(row) for t, row in matrix.items() if row != {t: 1}}
    stands_in: dict[int, int] = {}
    cleared: set[int] = set()
    ops: list[Op] = []

    def readers(s: int) -> list[int]:
        return [t for t, row in left.items() if t != s and s in row and s not in stands_in]

    while left:
        ready = next((t for t in left if not readers(t)), None)
        if ready is None:
            copied = min(left, key=lambda t: len(readers(t)))
            temporary = _TEMPORARY + len(stands_in)
            ops.append(Op(temporary, copied, 0, 1, 1))
            stands_in[copied] = temporary
            continue
        row = left[ready]
        own = 1 if ready in cleared else row.get(ready, 0)
        terms = [(s, n) for s, n in row.items() if s != ready]
        for s, n in terms:
            is_last = s in left and s not in stands_in and readers(s) == [ready] and not left[s].get(s, 0)
            ops.append(Op(ready, stands_in.get(s, s), own, n, 0 if is_last else 1))
            own = 1
            if is_last:
                cleared.add(s)
        if not terms and own != 1:
            ops.append(Op(ready, VOID, own, 0, 1))
        del left[ready]
        for s in cleared & {s for s, row in left.items() if not row}:
            del left[s]
    return ops, len(stands_in)


# ---- Blocks of lanes ----------------------------------------------------------------------------------


@dataclass
class Block:
    """Queries of one shape and overlap; see LaneProgram for what is counted how.

    members  in the order of their lanes: by kind of window, then by how many kinds of rows concern them, so
             that thresholds are runs of lanes
    """

    shape: Shape
    slots: int
    members: list[int]
    has_fresh: bool = False
    temporaries: int = 0
    at: int = 0
    xat: int = 0
    first_row: int = 0
    ops: dict[tuple[str, Symbol], Ops] = field(default_factory=dict)

    @property
    def stride(self) -> int:
        """Lanes of a slot: few queries are not padded to a whole vector."""
        count = len(self.members)
        return _padded(count) if count >= VECTOR else 1 << (count - 1).bit_length()

    @property
    def lanes(self) -> int:
        return _padded(self.slots * self.stride)

    @property
    def held(self) -> int:
        """Rows of a number that may hold mass between moments: states, then temporaries."""
        return len(self.shape.states) + self.temporaries

    @property
    def plane(self) -> int:
        """Rows of a number: those, the empty one, and what moments gather."""
        return self.held + 1 + self.has_fresh * len(self.shape.states)

    @property
    def rows(self) -> int:
        return self.plane * self.shape.carried.width

    @property
    def xcells(self) -> int:
        return self.plane * len(self.shape.carried.extremes) * self.lanes

    def row(self, state: int, number: int = 0) -> int:
        """The place of a state, or of what stands for one, among the block's rows."""
        if state == VOID:
            at = self.held
        elif state >= _FRESH:
            at = self.held + 1 + state - _FRESH
        elif state >= _TEMPORARY:
            at = len(self.shape.states) + state - _TEMPORARY
        else:
            at = state
        return number * self.plane + at

    def ops_of(self, what: str, symbol: Symbol) -> Ops:
        """The operations of a local symbol, found once."""
        key = what, symbol
        if key not in self.ops:
            self.ops[key] = self.shape.pour() if what == "pour" else getattr(self.shape, what)(symbol)
            self.temporaries = max(self.temporaries, self.ops[key].temporaries)
        return self.ops[key]


def blocks_of(members: Sequence[LaneMember], taken: Taken) -> list[Block]:
    """The members by shape and overlap."""
    every = union(member.carried for member in members)
    together: dict[object, list[int]] = {}
    for k, member in enumerate(members):
        together.setdefault((_shape_key(member), member.windows), []).append(k)
    concerned = np.add.reduceat(
        np.concatenate([taken.is_taken.sum(axis=0), [0]]), taken.first[:-1]
    )  # positions of all kinds of rows, by member
    found = []
    for (_, windows), own in together.items():  # type: ignore[misc]
        first = members[own[0]]
        order = sorted(own, key=lambda k: (members[k].which, -int(concerned[k]), k))
        found.append(Block(Shape(first.machine, first.carried, every), windows, order))
    return found


def _shape_key(member: LaneMember) -> object:
    """Equal for machines that differ in the types and conditions of their positions only."""
    machine = member.machine
    automaton = machine.automaton
    guards = automaton.guards, frozenset(automaton.guard_of.items())
    return len(automaton.positions), automaton.edges, guards, machine.semantics, member.carried


def settling_columns(blocks: Sequence[Block], taken: Taken) -> NDArray[np.int64]:
    """The columns of `taken` that matter to how a moment of several events settles."""
    found = [
        int(taken.first[k]) + p
        for block in blocks
        for p in sorted(block.shape.moved_by)
        for k in block.members
    ]
    return np.array(sorted(found), np.int64)


def lower_machine_lanes(blocks: Sequence[Block], taken: Taken, together: Masks | None = None) -> LaneProgram:
    """All members side by side.

    together  per kind of moment of several events, the positions that its events take; None if there is none

    Lists of operations: per kind of row alone; where there are moments of several events also per kind of row
    gathering, and then per kind of such a moment.
    """
    emitted = _Emitted()
    kinds = len(taken.is_taken)
    for b, block in enumerate(blocks):
        block.has_fresh = together is not None
        symbols = _local_symbols(block, taken.is_taken, taken.first)
        plans = [("alone", symbols, 0)]
        if together is not None:
            plans += [("gather", symbols, kinds)]
            plans += [("settle", _local_symbols(block, together, taken.first), 2 * kinds)]
            plans += [("pour", _nothing_taken(block, len(together)), 2 * kinds)]
        for what, (names, _), _ in plans:
            for symbol in names:
                block.ops_of(what, symbol)
        _lay_out(blocks, b)
        for what, (names, code), first_list in plans:
            emitted.add(block, [block.ops_of(what, symbol) for symbol in names], code, first_list)
    lists = kinds if together is None else 2 * kinds + len(together)
    return emitted.program(blocks, lists)


def _lay_out(blocks: Sequence[Block], b: int) -> None:
    """Where a block begins: behind the one before it."""
    if b:
        before = blocks[b - 1]
        blocks[b].at = before.at + before.rows * before.lanes
        blocks[b].xat = before.xat + before.xcells
        blocks[b].first_row = before.first_row + before.rows


def _local_symbols(
    block: Block, is_taken: Masks, first: NDArray[np.int64]
) -> tuple[list[Symbol], NDArray[np.int32]]:
    """The local symbols of a block's members, and which one each kind of row is to each: int32[kinds, members]."""
    size = len(block.shape.machine.automaton.positions)
    columns = first[block.members][:, None] + np.arange(size)
    bits = np.packbits(is_taken[:, columns], axis=2)
    flat = np.ascontiguousarray(bits.reshape(-1, bits.shape[2]))
    distinct, code = _distinct_rows(flat)
    positions = np.unpackbits(distinct, axis=1, count=size).astype(np.bool_)
    names = [frozenset(np.flatnonzero(row).tolist()) for row in positions]
    return names, code.reshape(bits.shape[:2]).astype(np.int32)


def _nothing_taken(block: Block, count: int) -> tuple[list[Symbol], NDArray[np.int32]]:
    return [frozenset()], np.zeros((count, len(block.members)), np.int32)


def _distinct_rows(rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The distinct rows of a table of bytes, and which one each row is."""
    if rows.shape[1] == 0 or not len(rows):
        return rows[:1], np.zeros(len(rows), np.int64)
    if rows.shape[1] == 1:
        _, index, code = np.unique(rows[:, 0], return_index=True, return_inverse=True)
    else:
        whole = rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
        _, index, code = np.unique(whole, return_index=True, return_inverse=True)
    return rows[index], code.reshape(-1)


class _Runs(NamedTuple):
    """Masks as runs of vectors in which all lanes take part, or some: per mask, in order of lanes.

    start    int64[masks+1]  the runs of each mask
    vector   int64[runs]     the first vector
    vectors  int64[runs]     how many
    weight   int64[runs]     the first weight
    apace    int64[runs]     8 if each lane has a weight, 0 where the first eight weights stand for all
    is_whole bool[masks]     whether every query takes part
    """

    start: NDArray[np.int64]
    vector: NDArray[np.int64]
    vectors: NDArray[np.int64]
    weight: NDArray[np.int64]
    apace: NDArray[np.int64]
    is_whole: NDArray[np.bool_]


_NONE, _SOME, _ALL = range(3)
"""How many lanes of a vector take part."""
_GAP, _LONG = 3, 16
"""A gap of so few vectors is passed over, and a stretch of so many full ones is worth a run without weights."""


def _equal_runs(kind: NDArray[np.int8]) -> tuple[NDArray[np.int64], ...]:
    """Runs of equal numbers in each row of a table: row, first, size and number."""
    edges = np.ones(kind.shape, np.bool_)
    edges[:, 1:] = kind[:, 1:] != kind[:, :-1]
    of, first = np.nonzero(edges)
    after = np.append(first[1:], 0)
    return of, first, np.where(after > first, after, kind.shape[1]) - first, kind[of, first]


def _smoothed(kind: NDArray[np.int8], covers: bool) -> NDArray[np.int8]:
    """Fewer runs: a run costs as much as a few vectors."""
    _, first, size, kinds = _equal_runs(kind)
    is_inside = (first > 0) & (first + size < kind.shape[1])
    gap = (kinds == _NONE) & (covers | ((size <= _GAP) & is_inside))
    short = (kinds == _ALL) & (size < _LONG) & (size < kind.shape[1])
    return np.repeat(np.where(gap | short, _SOME, kinds), size).reshape(kind.shape)


_AnyOp = TypeVar("_AnyOp", Op, LeastOp)
_Shared = list[tuple[_AnyOp, frozenset[int]]]
"""Operations in order, and which local symbols share each."""


def _merged(sequences: Sequence[Sequence[_AnyOp]]) -> _Shared[_AnyOp]:
    """Operations of several local symbols in one order.

    The lanes of two symbols have nothing in common, so only the order within each matters. An operation that
    several begin with, and none has later, is done once for all of them.
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
    return _decided(found, frozenset(range(len(sequences))))


def _decided(found: _Shared[_AnyOp], every: frozenset[int]) -> _Shared[_AnyOp]:
    """Lanes of symbols that only empty rows are emptied by what other lanes do to these rows (*contiguous*)."""
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
    """Operations as they are found block by block and symbol by symbol; they are sorted by list at the end."""

    def __init__(self) -> None:
        self.weights: list[NDArray[np.float64]] = [np.ones(VECTOR)]
        self.used = VECTOR
        self.known: dict[tuple[int, bool, bytes], tuple[NDArray[np.int64], _Runs]] = {}
        self.place: list[NDArray[np.int64]] = []
        self.change: list[NDArray[np.float64]] = []
        self.xplace: list[NDArray[np.int64]] = []
        self.lists: list[NDArray[np.int64]] = []
        self.xlists: list[NDArray[np.int64]] = []

    def add(self, block: Block, ops: Sequence[Ops], code: NDArray[np.int32], first_list: int) -> None:
        """The operations of local symbols, for the lists and members that have them: int32[lists, members]."""
        has = np.stack([(code == symbol).any(axis=1) for symbol in range(len(ops))], axis=1)
        together, which = _distinct_rows(np.packbits(has, axis=1))
        for number, symbols in enumerate(np.unpackbits(together, axis=1, count=len(ops))):
            lists, present = np.flatnonzero(which == number), np.flatnonzero(symbols).tolist()
            own = code[lists]
            for linear, sharing in _merged([ops[i].linear for i in present]):
                mask = np.isin(own, [present[i] for i in sharing])
                self._add_linear(block, linear, lists + first_list, *self._runs_of(block, mask, linear))
            for least, sharing in _merged([ops[i].least for i in present]):
                mask = np.isin(own, [present[i] for i in sharing])
                self._add_least(block, least, lists + first_list, *self._runs_of(block, mask, least))

    def _runs_of(self, block: Block, mask: Masks, op: Op | LeastOp) -> tuple[NDArray[np.int64], _Runs]:
        """Which mask each list has, and the distinct masks as runs, found once per block."""
        bits, covers = np.packbits(mask, axis=1), op.drops or op.drops_read
        key = id(block), covers, bits.tobytes()
        if key not in self.known:
            distinct, code = _distinct_rows(bits)
            queries = np.unpackbits(distinct, axis=1, count=mask.shape[1]).astype(np.bool_)
            self.known[key] = code, self._runs(block, queries, covers)
        return self.known[key]

    def _runs(self, block: Block, masks: Masks, covers: bool) -> _Runs:
        """Masks of queries as runs of the lanes of all slots; with `covers` runs go over every lane."""
        count, lanes = masks.shape[1], block.lanes
        slot = np.zeros((len(masks) + 1, block.stride), np.bool_)
        slot[:-1, :count] = masks
        slot[-1, :count] = True  # which lanes are any query's
        tiled = np.zeros((len(slot), lanes), np.bool_)
        tiled[:, : block.slots * block.stride] = np.tile(slot, (1, block.slots))
        vectors = tiled.reshape(len(slot), -1, VECTOR)
        some = vectors[:-1].any(axis=2)
        full = (vectors[:-1] | ~vectors[-1]).all(axis=2) & some
        of, first, size, kinds = _equal_runs(_smoothed(some.astype(np.int8) + full, covers))
        kept = kinds != _NONE
        of, first, size, kinds = of[kept], first[kept], size[kept], kinds[kept]
        mixed = kinds == _SOME
        begin = np.cumsum(np.where(mixed, size * VECTOR, 0)) + self.used
        weight = np.where(mixed, begin - size * VECTOR, 0)
        inside = np.repeat(of[mixed], size[mixed]), _ranges(first[mixed], size[mixed])
        self.weights.append(vectors[inside].astype(np.float64).reshape(-1))
        self.used += len(self.weights[-1])
        start = np.searchsorted(of, np.arange(len(masks) + 1))
        return _Runs(start, first, size, weight, np.where(mixed, VECTOR, 0), masks.all(axis=1))

    def _add_linear(
        self, block: Block, op: Op, lists: NDArray[np.int64], mask: NDArray[np.int64], runs: _Runs
    ) -> None:
        run, which, is_last = _spread(mask, runs)
        to, of = block.row(op.to, op.number), block.row(op.of, op.of_number)
        rows = block.first_row + to, block.first_row + of, op.column
        self.lists.append(lists[which])
        self.place.append(_places(block, (block.at, to), (block.at, of), runs, run, rows))
        whole = runs.is_whole[mask[which]]
        keeps, left = float(not op.drops), float(not op.drops_read)
        bounds = [
            np.where(is_last, np.where(whole, op.a, max(op.a, keeps)), 1.0),
            np.where(is_last, op.b, 0.0),
            np.where(is_last, np.where(whole, op.c, max(op.c, left)), 1.0),
        ]
        fixed = [np.full(len(run), float(each)) for each in (op.a, op.b, op.c, keeps, left)]
        self.change.append(np.stack([*fixed[:3], *bounds, *fixed[3:]], axis=1))

    def _add_least(
        self, block: Block, op: LeastOp, lists: NDArray[np.int64], mask: NDArray[np.int64], runs: _Runs
    ) -> None:
        run, which, _ = _spread(mask, runs)
        to, of = block.row(op.to, op.extreme), block.row(op.of, op.extreme)
        flags = op.keeps + 2 * op.clears + 4 * op.drops + 8 * op.drops_read
        place = _places(block, (block.xat, to), (block.xat, of), runs, run, (0, op.column, flags))
        place[:, 5] = block.at + block.row(op.gate) * block.lanes + runs.vector[run] * VECTOR
        self.xlists.append(lists[which])
        self.xplace.append(place)

    def program(self, blocks: Sequence[Block], lists: int) -> LaneProgram:
        """All operations, by list."""
        start, (place, change) = _by_list(self.lists, lists, [self.place, self.change])
        x_start, (xplace,) = _by_list(self.xlists, lists, [self.xplace])
        last = blocks[-1]
        rows = [(b.at + r * b.lanes, b.lanes) for b in blocks for r in range(b.rows)]
        row_at, row_lanes = np.array(rows, np.int64).reshape(-1, 2).T.copy()
        return LaneProgram(
            op_start=start,
            place=aligned(place.astype(np.int32)),
            change=aligned(change),
            x_start=x_start,
            xplace=xplace.astype(np.int32),
            weight=aligned(np.concatenate(self.weights)),
            row_at=row_at,
            row_lanes=row_lanes,
            block=np.array(
                [
                    [
                        b.at,
                        b.xat,
                        b.lanes,
                        b.stride,
                        b.plane,
                        b.held,
                        b.shape.carried.width,
                        len(b.shape.carried.extremes),
                        b.first_row,
                        b.shape.start,
                    ]
                    for b in blocks
                ],
                np.int64,
            ),
            whole_start=np.array([0, *accumulate(len(b.shape.whole) for b in blocks)], np.int64),
            whole=np.array([state for b in blocks for state in b.shape.whole], np.int64),
            spends=bool((change[:, 2] != 1.0).any()),
            drops=bool((change[:, 6:] != 1.0).any()),
            cells=last.at + last.rows * last.lanes,
            xcells=last.xat + last.xcells,
        )


def _places(
    block: Block,
    to: tuple[int, int],
    of: tuple[int, int],
    runs: _Runs,
    run: NDArray[np.int64],
    others: tuple[int, ...],
) -> NDArray[np.int64]:
    """The records of runs: cells written and read, vectors, weights, and what is the same for all of them."""
    lane = runs.vector[run] * VECTOR
    cells = [at + row * block.lanes + lane for at, row in (to, of)]
    fixed = [np.full(len(run), each) for each in others]
    return np.stack([*cells, runs.vectors[run], runs.weight[run], runs.apace[run], *fixed], axis=1)


def _spread(
    mask: NDArray[np.int64], runs: _Runs
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The runs of every list's mask: run, place of the list, and whether the run is its last."""
    sizes = runs.start[mask + 1] - runs.start[mask]
    which = np.repeat(np.arange(len(mask)), sizes)
    at = _ranges(np.zeros(len(mask), np.int64), sizes)
    return runs.start[mask[which]] + at, which, at == sizes[which] - 1


def _ranges(first: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """first, first + 1, ... so many times, one after another."""
    begin = np.cumsum(size) - size
    return np.arange(int(size.sum())) - np.repeat(begin - first, size)


def _by_list(
    lists: list[NDArray[np.int64]], count: int, columns: list[list[NDArray[np.float64]]] | list
) -> tuple[NDArray[np.int32], list[NDArray[np.float64]]]:
    """Records sorted by their list; those of one list stay in order."""
    if not lists:
        return np.zeros(count + 1, np.int32), [np.zeros((0, 8)) for _ in columns]
    of = np.concatenate(lists)
    order = np.argsort(of, kind="stable")
    start = np.searchsorted(of[order], np.arange(count + 1)).astype(np.int32)
    return start, [np.concatenate(column)[order] for column in columns]


def _padded(lanes: int) -> int:
    return -(-lanes // VECTOR) * VECTOR
