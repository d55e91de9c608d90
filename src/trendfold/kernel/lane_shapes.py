"""The updates of machines of one shape, as operations in place.

Queries whose machines differ in the types and conditions of their positions only have one *shape*. What an
event does to a shape depends on the positions that it takes there, its *local symbol*, and is one sparse
matrix

    N = K + G        new = N · old

K keeps mass where it is, unless the event spends it (*next*), any event makes it forgotten (*contiguous*),
or a NOT moves it to another class; G gathers the mass of the sources into the targets. A row of N becomes
operations d <- a·d + b·s, s <- c·s. Rows are written in an order in which none is overwritten before it is
read; where rows read each other in a circle, one is copied first; a row that ends empty is emptied by its
last reader.

Events of one moment all read the mass from before it: each gathers into rows of its own (G). Then each spends
the mass it used, then each breaks its NOTs; NOTs of more than two classes are moved by all positions that the
moment takes together; and the gathered mass is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine, State, Symbol
from trendfold.kernel.lane_bursts import Factor, dense, grown, grown_feed, is_idempotent
from trendfold.kernel.lower import (
    PASSED,
    RowLowering,
    extreme_columns,
    fed_column,
    open_states,
    value_columns,
)
from trendfold.plan.carried import Carried
from trendfold.query.nodes import Semantics


class LinearOp(NamedTuple):
    """d <- a·d + b·v·s, s <- c·s, of states and numbers; v is the event's value in a column, 0 is 1."""

    to: int
    of: int
    a: Factor
    b: Factor
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
        """State and number of d and of s."""
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
    adds: bool = False
    """Whether the event's value is added to s, instead of compared."""

    @property
    def is_empty(self) -> bool:
        """Whether d is emptied, and that is all."""
        return not self.keeps and self.of == self.gate == VOID

    @property
    def rows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """State and extreme of d and of s."""
        return (self.to, self.extreme), (self.of, self.extreme)


@dataclass(frozen=True)
class Ops:
    """A list of operations of one shape; `temporaries` is how many rows beside the states it needs."""

    linear: tuple[LinearOp, ...] = ()
    least: tuple[LeastOp, ...] = ()
    temporaries: int = 0


VOID = -1
"""A row that is always empty."""
TEMPORARY, FRESH = 1 << 20, 1 << 21
"""Temporaries and rows of what a moment gathers are numbered from here until the layout is known."""

Matrix = dict[int, dict[int, int]]
"""Rows that an event changes: per state the states it is the sum of, and how often each."""


_Entry = TypeVar("_Entry", bound=Factor)

_MOST_KNOWN = 1 << 14
"""How many lists of operations a shape remembers."""


@dataclass(frozen=True)
class ShapeKey:
    """Equal for machines that differ in the types and conditions of their positions only.

    machine  any of them
    every    what all queries of the group carry: the columns of the events' values
    """

    positions: int
    automaton: object
    semantics: Semantics
    carried: Carried
    every: Carried
    machine: Machine = field(compare=False)


@lru_cache(maxsize=1_024)
def shape_of(key: ShapeKey) -> Shape:
    """The shape of a machine, made once for all queries and runs that have it."""
    return Shape(key.machine, key.carried, key.every)


class Shape:
    """The states of machines of one shape, and the updates of local symbols."""

    def __init__(self, machine: Machine, carried: Carried, every: Carried) -> None:
        self.machine, self.carried = machine, carried
        self.states = _live(machine)
        self.number = {state: i for i, state in enumerate(self.states)}
        lowering = RowLowering(machine, carried)
        self.carries = [{state.place for state in self.states}, *lowering.carries]
        self.xcarries = lowering.xcarries
        self.columns = {column: i for i, column in enumerate(value_columns(every), 1)}
        self.xcolumns = {column: i for i, column in enumerate(extreme_columns(every), 1)}
        self._known: dict[tuple[str, Symbol], Ops | None] = {}

    @property
    def start(self) -> int:
        """⊥, which holds 1 when a window begins."""
        return self.number[State(START)]

    @property
    def whole(self) -> list[int]:
        """The states that hold whole trends."""
        return [self.number[state] for state in self.machine.whole()]

    @cached_property
    def simple_guards(self) -> frozenset[int]:
        """The guards that one event breaks or leaves as they are: several at a moment do so one by one."""
        split = enumerate(self.machine.guard_classes)
        return frozenset(guard for guard, classes in split if classes is not None and classes.broken == 1)

    @cached_property
    def other_guards(self) -> frozenset[int]:
        """The guards whose classes are moved by all events of a moment together."""
        split = enumerate(self.machine.guard_classes)
        return frozenset(guard for guard, classes in split if classes is not None) - self.simple_guards

    @property
    def settled_by(self) -> frozenset[int]:
        """The positions of the other guards."""
        guards = self.machine.automaton.guards
        return frozenset(p for guard in self.other_guards for p in guards[guard].positions)

    def ops(self, what: str, symbol: Symbol) -> Ops | None:
        """The operations of a local symbol in one phase, found once; None for a burst without closed form."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        if (what, symbol) not in self._known:
            self._known[what, symbol] = self._ops_of(what, symbol)
        return self._known[what, symbol]

    def known(self, what: str, symbol: Symbol) -> Ops:
        """The same in a phase in which every symbol has operations."""
        found = self.ops(what, symbol)
        assert found is not None
        return found

    def _ops_of(self, what: str, symbol: Symbol) -> Ops | None:
        match what:
            case "alone":
                return self.alone(symbol)
            case "gather":
                return self.gather(symbol)
            case "spend":
                return self.spend(symbol)
            case "move":
                return self.move(symbol)
            case "settle":
                return self.settle(symbol)
            case "burst":
                return self.burst(symbol)
            case "pass":
                return self.pass_time()
        return self.pour()

    def alone(self, symbol: Symbol) -> Ops:
        """The update of an event without ties."""
        return self._ops(self._changed(symbol), symbol)

    def burst(self, symbol: Symbol) -> Ops | None:
        """The update of n such events; None where it has no closed form (lane_bursts)."""
        if self.carried.elapsed or self.carried.added:
            return None
        changed, size = self._changed(symbol), len(self.states)
        once = dense(changed, size)
        linear: list[LinearOp] = []
        least: list[LeastOp] = []
        most = 0
        for x, places in enumerate(self.xcarries):
            fed = self._feeding(self.carried.extremes[x].positions, symbol)
            if not is_idempotent(once, self._among(once, places), dense(fed, size, is_change=False)):
                return None
            ordered, used = in_place(self._within(changed, places))
            least += [LeastOp(o.to, o.of, bool(o.a), o.c == 0, x, VOID) for o in ordered]
            least, most = least + self._fed_extreme(x, symbol, 0), max(most, used)
        for w in self._numbers():
            inside = self._among(once, self.carries[w])
            powers, gained = grown(inside), self._grown_feed(w, symbol, once, inside)
            if powers is None or gained is None:
                return None
            ordered, used = in_place(self._within(powers, self.carries[w]))
            linear += [o._replace(number=w, of_number=w) for o in ordered]
            linear, most = linear + gained, max(most, used)
        return Ops(tuple(linear), tuple(least), most)

    def _among(self, once: NDArray[np.int64], places: set[int]) -> NDArray[np.int64]:
        """The matrix of one event among some places; the others stay as they are."""
        inside = np.array([state.place in places for state in self.states])
        return np.where(inside[:, None] & inside, once, np.eye(len(once), dtype=np.int64))

    def _grown_feed(
        self, w: int, symbol: Symbol, once: NDArray[np.int64], inside: NDArray[np.int64]
    ) -> list[LinearOp] | None:
        """The operations that add the values of n events to a number."""
        if w == 0:
            return []
        fed = self._feeding(self.carried.numbers[w - 1].positions, symbol)
        gained = grown_feed(once, inside, dense(fed, len(once), is_change=False))
        if gained is None:
            return None
        column = self._column(w) or self.events_column
        return [LinearOp(t, s, 1, b, 1, w, 0, column) for t, row in gained.items() for s, b in row.items()]

    @property
    def events_column(self) -> int:
        """The column of values that has the number of events of a burst."""
        return len(self.columns) + 1

    def _changed(self, symbol: Symbol) -> Matrix:
        """N, where it is not the identity, for an event that is alone at its moment."""
        return _sum(self._kept_alone(symbol), self._gathered(symbol))

    def _kept_alone(self, symbol: Symbol) -> Matrix:
        """K, where it is not the identity, for an event that is alone at its moment."""
        gone, guards = self._used(symbol) | self._forgotten(), self.simple_guards | self.other_guards
        return self._kept(symbol, gone, guards)

    def pass_time(self) -> Ops:
        """The time since the row before passes for every trend that has begun and not ended."""
        number, column = self.carried.elapsed, self.columns[PASSED]
        return Ops(tuple(LinearOp(s, s, 1, 1, 1, number, 0, column) for s in self.open_states.tolist()))

    @cached_property
    def open_states(self) -> NDArray[np.int32]:
        """The states whose trends have begun and not ended."""
        every = open_states(self.machine)
        return np.array([self.number[state] for state in every if state in self.number], np.int32)

    def gather(self, symbol: Symbol) -> Ops:
        """Of an event with ties: gather its mass into rows beside the states."""
        into = {t + FRESH: row for t, row in self._gathered(symbol).items()}
        return self._ops({t: row | {t: 1} for t, row in into.items()}, symbol, FRESH)

    def spend(self, symbol: Symbol) -> Ops:
        """Of an event with ties: spend the mass it used, once all have gathered."""
        return self._ops(self._kept(symbol, self._used(symbol), frozenset()), frozenset())

    def move(self, symbol: Symbol) -> Ops:
        """Of an event with ties: break its NOTs of two classes, once all have spent."""
        return self._ops(self._kept(symbol, set(), self.simple_guards), frozenset())

    def settle(self, symbol: Symbol) -> Ops:
        """Of a moment of ties: move the classes of other NOTs by all its positions, and forget."""
        return self._ops(self._kept(symbol, self._forgotten(), self.other_guards), frozenset())

    def pour(self) -> Ops:
        """Add the mass that a moment has gathered."""
        every = frozenset(p.index for p in self.machine.automaton.positive)
        linear, least = [], []
        for t in self._gathered(every):
            place = self.states[t].place
            linear += [
                LinearOp(t, t + FRESH, 1, 1, 0, w, w) for w in self._numbers() if place in self.carries[w]
            ]
            for x, places in enumerate(self.xcarries):
                if place in places:
                    least.append(LeastOp(t, t + FRESH, True, True, x, VOID))
        return Ops(tuple(linear), tuple(least))

    def _numbers(self) -> range:
        """All numbers; counts come last, because others read them."""
        return range(self.carried.width - 1, -1, -1)

    def _kept(self, symbol: Symbol, gone: set[State], guards: frozenset[int]) -> Matrix:
        """The rows of K that differ from the identity: some mass is gone, some moved to another class."""
        after = [None if s in gone else self._class_after(s, symbol, guards) for s in self.states]
        moved: Matrix = {i: {} for i, state in enumerate(self.states) if after[i] != state}
        for i in list(moved):
            there = after[i]
            if there is not None and there in self.number:
                moved.setdefault(self.number[there], {})[i] = 1
        for i in moved:
            if after[i] == self.states[i]:
                moved[i][i] = 1
        return moved

    def _used(self, symbol: Symbol) -> set[State]:
        """The states whose mass an event uses up (*next*)."""
        if self.machine.semantics is not Semantics.NEXT:
            return set()
        return {s for step in self.machine.steps(symbol) for s in step.sources if s.place != START}

    def _forgotten(self) -> set[State]:
        """The states whose mass lasts until the next moment (*contiguous*)."""
        if self.machine.semantics is not Semantics.CONTIGUOUS:
            return set()
        return {s for s in self.states if s.place not in (START, END)}

    def _class_after(self, state: State, symbol: Symbol, guards: frozenset[int]) -> State:
        guard = self.machine.guard_at(state.place)
        split = self.machine.guard_classes[guard] if guard in guards else None
        if split is None or state.cls == split.broken:
            return state
        return State(state.place, split.after(state.cls, split.reached(state.cls, symbol)))

    def _gathered(self, symbol: Symbol) -> Matrix:
        """G."""
        return self._feeding(symbol, symbol)

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
        """A matrix as operations on all numbers and extremes, plus those that add the event's own values."""
        linear: list[LinearOp] = []
        least: list[LeastOp] = []
        most = 0
        for x, places in enumerate(self.xcarries):
            if x < self.carried.added and (terms := self._added_terms(x, symbol)):
                lowered, used = self._added(x, terms, symbol, shift)
                least, most = least + lowered, max(most, used)
                continue
            ordered, used = in_place(self._within(matrix, places))
            most = max(most, used)
            least += [LeastOp(o.to, o.of, bool(o.a), o.c == 0, x, VOID) for o in ordered]
            least += self._fed_extreme(x, symbol, shift)
        for w in self._numbers():
            ordered, used = in_place(self._within(matrix, self.carries[w]))
            most = max(most, used)
            linear += [o._replace(number=w, of_number=w) for o in ordered]
            linear += self._fed(w, symbol, shift)
        return Ops(tuple(linear), tuple(least), most)

    def _within(
        self, matrix: Mapping[int, Mapping[int, _Entry]], places: set[int]
    ) -> dict[int, dict[int, _Entry]]:
        """The rows and columns of some places."""

        def inside(i: int) -> bool:
            return self.states[i % TEMPORARY].place in places

        return {t: {s: n for s, n in row.items() if inside(s)} for t, row in matrix.items() if inside(t)}

    def _fed(self, w: int, symbol: Symbol, shift: int) -> list[LinearOp]:
        """The operations that add an event's value to a number: once per trend that it continues."""
        if w == 0:
            return []
        fed = self._feeding(self.carried.numbers[w - 1].positions, symbol)
        column = self._column(w)
        return [
            LinearOp(t + shift, s, 1, n, 1, w, 0, column) for t, row in fed.items() for s, n in row.items()
        ]

    def _column(self, w: int) -> int:
        """The column of the values that a number adds up; 0 if it counts events."""
        fed = self.carried.numbers[w - 1]
        return 0 if fed.attribute is None else self.columns[fed.measure, fed.attribute]

    def _feeding(self, positions: frozenset[int], symbol: Symbol) -> Matrix:
        """The part of G at some positions: per target the sources, and how often each."""
        found: Matrix = {}
        for t, s, position in self._terms(symbol):
            if position in positions:
                row = found.setdefault(t, {})
                row[s] = row.get(s, 0) + 1
        return found

    def _added_terms(self, x: int, symbol: Symbol) -> list[LeastOp]:
        """What an event adds to an added extreme: each target with a source."""
        found = []
        for t, s, _ in self._terms(symbol):
            begins, ends = self.states[s].place == START, self.states[t].place == END
            column = fed_column(self.carried.extremes[x], begins, ends)
            number = 0 if column is None else self.xcolumns[column]
            found.append(LeastOp(t, s, True, False, x, VOID, number, adds=number > 0))
        return list(dict.fromkeys(found))

    def _added(self, x: int, terms: list[LeastOp], symbol: Symbol, shift: int) -> tuple[list[LeastOp], int]:
        """An added extreme: what an event adds is not added to what stays, so it is gathered beside it."""
        if shift:
            return [op._replace(to=op.to + shift) for op in terms], 0
        kept = self._within(self._kept_alone(symbol), self.xcarries[x])
        ordered, used = in_place(kept)
        beside = {t: TEMPORARY + used + i for i, t in enumerate(dict.fromkeys(op.to for op in terms))}
        begun: set[int] = set()
        gathered = []
        for op in terms:
            gathered.append(op._replace(to=beside[op.to], keeps=op.to in begun))
            begun.add(op.to)
        stays = [LeastOp(o.to, o.of, bool(o.a), o.c == 0, x, VOID) for o in ordered]
        poured = [LeastOp(t, at, True, True, x, VOID) for t, at in beside.items()]
        return [*gathered, *stays, *poured], used + len(beside)

    def _fed_extreme(self, x: int, symbol: Symbol, shift: int) -> list[LeastOp]:
        fed = self.carried.extremes[x]
        if fed.of is not None:
            return []
        column = self.xcolumns[fed.attribute, fed.is_max]
        terms = self._feeding(fed.positions, symbol)
        return [LeastOp(t + shift, VOID, True, False, x, s, column) for t, row in terms.items() for s in row]


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


def in_place(matrix: Mapping[int, Mapping[int, Factor]]) -> tuple[list[LinearOp], int]:
    """The rows of a matrix as operations on the vector itself, and how many temporaries they need.

    Row t is written when no row still to be written reads the old t.
    """
    left = {t: dict(row) for t, row in matrix.items() if row != {t: 1}}
    stands_in: dict[int, int] = {}
    cleared: set[int] = set()
    ops: list[LinearOp] = []

    def readers(s: int) -> list[int]:
        return [t for t, row in left.items() if t != s and s in row and s not in stands_in]

    while left:
        ready = next((t for t in left if not readers(t)), None)
        if ready is None:
            copied = min(left, key=lambda t: len(readers(t)))
            temporary = TEMPORARY + len(stands_in)
            ops.append(LinearOp(temporary, copied, 0, 1, 1))
            stands_in[copied] = temporary
            continue
        row = left[ready]
        own = 1 if ready in cleared else row.get(ready, 0)
        terms = [(s, n) for s, n in row.items() if s != ready]
        for s, n in terms:
            is_last = s in left and s not in stands_in and readers(s) == [ready] and not left[s].get(s, 0)
            ops.append(LinearOp(ready, stands_in.get(s, s), own, n, 0 if is_last else 1))
            own = 1
            if is_last:
                cleared.add(s)
        if not terms and own != 1:
            ops.append(LinearOp(ready, VOID, own, 0, 1))
        del left[ready]
        for s in cleared & {s for s, row in left.items() if not row}:
            del left[s]
    return ops, len(stands_in)
