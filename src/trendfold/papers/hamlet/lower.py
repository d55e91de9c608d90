"""Lower the machines, windows and families of several queries to the table that the kernel reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Symbol
from trendfold.kernel.lower import RowLowering, extreme_columns, lower_frame, lower_guards, value_columns
from trendfold.kernel.lower_machine_lanes import LaneMember
from trendfold.papers.hamlet.arrays import BURST, ENDS, NOTHING, SHARING, Layout
from trendfold.papers.hamlet.plan import BurstFamily
from trendfold.plan.carried import Carried, union

Alphabet = Sequence[Sequence[Symbol]]
"""For each symbol and member, the positions that an event can take."""

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HamletWindows:
    """The windows of all members, each a stretch of rows, one member after the other.

    starts  int64[M+1]  where a member's begin        low, high  int64[]  their rows
    lanes   int64[M]    how many are open at once
    """

    starts: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    lanes: NDArray[np.int64]


def lower_group(
    members: Sequence[LaneMember],
    alphabet: Alphabet,
    families: Sequence[BurstFamily],
    windows: HamletWindows,
    tallies: int,
) -> tuple[Layout, Table]:
    """Lower a group; `families` refer to members by their index in `members`."""
    every = union(member.carried for member in members)
    tables = _TableWriter()
    _add_steps(tables, members, _stepped(alphabet, families), every)
    _add_members(tables, members, alphabet, windows)
    _add_families(tables, [_Sharers(members, alphabet, family, every) for family in families], alphabet)
    tables.count(sharings=max((_sharings(family, windows) for family in families), default=0))
    _add_work(tables, tallies)
    return tables.done()


def _stepped(alphabet: Alphabet, families: Sequence[BurstFamily]) -> Alphabet:
    """The symbols without events of E that are judged pair by pair: no step of a machine takes them."""
    kept = {k: set(at) for family in families if family.is_compared for k, at in family.positions.items()}
    return [[symbol - kept.get(k, set()) for k, symbol in enumerate(symbols)] for symbols in alphabet]


def _sharings(family: BurstFamily, windows: HamletWindows) -> int:
    """The most lanes that share a graphlet, one for each loop of a member."""
    return sum(int(windows.lanes[k]) * len(places) for k, places in family.positions.items())


class _TableWriter:
    """A table under construction: what lies where."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.parts: list[Table] = []
        self.length = 0

    def add(self, name: str, values: Iterable[Any]) -> None:
        """Append numbers or records; `name` records their offset."""
        found = values if isinstance(values, np.ndarray) else np.array(list(values), np.int64)
        part = found.view(np.int64) if found.dtype == np.uint64 else found.astype(np.int64)
        self.sizes[name] = self.length
        self.parts.append(part.reshape(-1))
        self.length += part.size

    def count(self, **sizes: int) -> None:
        """Record counts."""
        self.sizes |= sizes

    def done(self) -> tuple[Layout, Table]:
        return Layout(**self.sizes), np.concatenate(self.parts)


# ---------------------------------------------------------------- machines


class _MemberSteps:
    """The steps of all members: those of equal symbols of a member stand once."""

    def __init__(self, members: Sequence[LaneMember], every: Carried) -> None:
        self.members = members
        self.lowerings = [RowLowering(member.machine, member.carried) for member in members]
        columns, xcolumns = _numbered(value_columns(every)), _numbered(extreme_columns(every))
        self.columns = [[0, *(columns[c] for c in value_columns(member.carried))] for member in members]
        self.xcolumns = [[0, *(xcolumns[c] for c in extreme_columns(member.carried))] for member in members]
        self.known: dict[tuple[int, Symbol], tuple[int, ...]] = {}
        self.rows: list[tuple[int, ...]] = []
        self.ops: list[int] = []
        self.vops: list[tuple[int, int]] = []
        self.xrows: list[tuple[int, int, int]] = []
        self.xterms: list[tuple[int, int, int]] = []

    def step(self, k: int, symbol: Symbol) -> tuple[int, ...]:
        """The record of a member's step."""
        if (k, symbol) not in self.known:
            self.known[k, symbol] = self._lower(k, symbol)
        return self.known[k, symbol]

    def _lower(self, k: int, symbol: Symbol) -> tuple[int, ...]:
        machine, lowering = self.members[k].machine, self.lowerings[k]
        steps = machine.steps(symbol)
        low, xlow = len(self.rows), len(self.xrows)
        for dst, _, ops, vops in lowering.rows(steps):
            o, v = len(self.ops), len(self.vops)
            self.rows.append((dst, o, o + len(ops), v, v + len(vops)))
            self.ops += ops
            self.vops += [(entry, self.columns[k][c]) for entry, c in vops]
        for dst, terms in lowering.extreme_rows(steps):
            self.xrows.append((dst, len(self.xterms), len(self.xterms) + len(terms)))
            self.xterms += [(source, gate, self.xcolumns[k][c]) for source, gate, c in terms]
        return low, len(self.rows), xlow, len(self.xrows), int(machine.moves(symbol))


def _numbered(columns: Iterable[Any]) -> dict[Any, int]:
    return {column: i for i, column in enumerate(columns, 1)}


def _add_steps(
    tables: _TableWriter, members: Sequence[LaneMember], alphabet: Alphabet, every: Carried
) -> None:
    steps = _MemberSteps(members, every)
    taken = [[steps.step(k, symbol) for k, symbol in enumerate(symbols)] for symbols in alphabet]
    who = [[k for k, step in enumerate(each) if step[0] < step[1] or step[4]] for each in taken]
    tables.count(
        symbols=len(alphabet),
        members=len(members),
        width=max(member.carried.width for member in members),
        extremes=max(len(member.carried.extremes) for member in members),
        columns=len(value_columns(every)) + 1,
        xcolumns=len(extreme_columns(every)) + 1,
        rows=max((high - low for low, high, *_ in steps.known.values()), default=0),
        xrows=max((high - low for _, _, low, high, _ in steps.known.values()), default=0),
    )
    tables.add("step", taken)
    tables.add("row", steps.rows)
    tables.add("op", steps.ops)
    tables.add("vop", steps.vops)
    tables.add("xrow", steps.xrows)
    tables.add("xterm", steps.xterms)
    tables.add("concerned", _spans(who))
    tables.add("who", (k for each in who for k in each))


def _add_members(
    tables: _TableWriter, members: Sequence[LaneMember], alphabet: Alphabet, windows: HamletWindows
) -> None:
    """Members with their guards, and the lanes and windows that each has."""
    frames = [lower_frame(member.machine, member.carried) for member in members]
    guards = [
        lower_guards(member.machine, [symbols[k] for symbols in alphabet]) for k, member in enumerate(members)
    ]
    classes = np.cumsum([0, *(len(each.class_mask) for each in guards)])
    places = np.cumsum([0, *(len(each.place) for each in guards)])
    guard_ends = _spans([each.class_start[1:] for each in guards])
    whole_ends = _spans([frame.whole for frame in frames])
    lanes = np.cumsum([0, *windows.lanes])
    tables.add(
        "member",
        [
            (
                *(frame.width, frame.extremes, frame.start, *guard_ends[k], *whole_ends[k]),
                *(lanes[k], lanes[k + 1], windows.starts[k], windows.starts[k + 1]),
            )
            for k, frame in enumerate(frames)
        ],
    )
    tables.add(
        "guard",
        [
            (
                *(each.class_start[g] + classes[k], each.class_start[g + 1] + classes[k]),
                *(each.place_start[g] + places[k], each.place_start[g + 1] + places[k]),
            )
            for k, each in enumerate(guards)
            for g in range(len(each.class_start) - 1)
        ],
    )
    tables.count(lanes=int(lanes[-1]), classes=int(classes[-1]))
    tables.add("mask", np.concatenate([each.class_mask for each in guards]))
    tables.add("reach", np.concatenate([each.reach for each in guards], axis=1))
    tables.add("place", np.concatenate([each.place for each in guards]))
    tables.add("whole", np.concatenate([frame.whole for frame in frames]))
    states = np.array([len(member.machine.states) for member in members])
    owner = np.repeat(np.arange(len(members)), windows.lanes)
    sizes = [(states * [getattr(frame, name) for frame in frames])[owner] for name in ("width", "extremes")]
    tables.add("lane", np.stack([np.concatenate([[0], np.cumsum(size)]) for size in sizes], axis=1))
    tables.add("window", np.stack([windows.low, windows.high], axis=1))


# ---------------------------------------------------------------- families


class _Sharers:
    """The sharers of one type's bursts."""

    def __init__(
        self, members: Sequence[LaneMember], alphabet: Alphabet, family: BurstFamily, every: Carried
    ) -> None:
        self.members, self.alphabet = members, alphabet
        self.positions = family.positions
        self.is_compared = family.is_compared
        self.value, self.extreme = _numbered(value_columns(every)), _numbered(extreme_columns(every))
        self.units: dict[tuple[bool, ...], int] = {}
        self.unit = [-1] * len(members)
        for k in self.positions:
            signature = tuple(self._takes(symbols, k) for symbols in alphabet)
            self.unit[k] = self.units.setdefault(signature, len(self.units))
        self.columns = _distinct(self._fed_columns(*loop) for loop in self.loops)
        self.xcolumns = _distinct(self._xfed_columns(*loop) for loop in self.loops)

    @property
    def loops(self) -> list[tuple[int, int]]:
        """Members and their positions with E+."""
        return [(k, place) for k, places in self.positions.items() for place in places]

    def _takes(self, symbols: Sequence[Symbol], k: int) -> bool:
        """Whether an event can take all of a member's positions: one that can take only some ends a burst."""
        return symbols[k] == set(self.positions[k])

    def concern(self, symbols: Sequence[Symbol]) -> int:
        """How an event affects the sharers (Definition 4.1)."""
        if any(symbols[k] and not self._takes(symbols, k) for k in self.positions):
            return ENDS
        return BURST if any(symbols[k] for k in self.positions) else NOTHING

    def takers(self, symbols: Sequence[Symbol]) -> set[int]:
        """The units that can take an event of the burst."""
        if self.concern(symbols) != BURST:
            return set()
        return {self.unit[k] for k in self.positions if self._takes(symbols, k)}

    def record(self, symbols: Sequence[Symbol]) -> tuple[int, int, int]:
        """A symbol's concern, whether it is uneven, and the unit without which it would be even."""
        takers = self.takers(symbols)
        others = set(self.units.values()) - takers
        if not takers or not others:
            return self.concern(symbols), False, -1
        sole = next((next(iter(side)) for side in (others, takers) if len(side) == 1), -1)
        return BURST, True, sole

    def types(self) -> int:
        """The maximum number of event types in a sharer's pattern."""
        machines = [self.members[k].machine for k in self.positions]
        return max(len({p.label for p in machine.automaton.positions}) for machine in machines)

    def touches(self) -> list[bool]:
        """For each member, whether rows inside a burst affect it."""
        inside = [symbols for symbols in self.alphabet if self.concern(symbols) != ENDS]
        return [any(symbols[k] for symbols in inside) for k in range(len(self.members))]

    def states(self, k: int, place: int) -> tuple[list[int], list[int]]:
        """The states an event at E reads (besides stored events), and the states it adds its mass to."""
        machine = self.members[k].machine
        number = {state: i for i, state in enumerate(machine.states)}
        (step,) = machine.steps(frozenset({place}))
        here = {place} if self.is_compared else set()
        sources = [number[state] for state in step.sources if state.place not in here]
        return sources, [number[state] for state in step.targets]

    def _fed_columns(self, k: int, place: int) -> list[int]:
        """For each number of a member, the column an event at E adds to it: 0 for one, -1 for nothing."""
        found = [-1]
        for number in self.members[k].carried.numbers:
            name = number.attribute
            column = 0 if name is None else self.value[number.measure, name]
            found.append(column if place in number.positions else -1)
        return found

    def _xfed_columns(self, k: int, place: int) -> list[int]:
        carried = self.members[k].carried.extremes
        return [self.extreme[x.attribute, x.is_max] if place in x.positions else -1 for x in carried]

    def fed(self, k: int, place: int, width: int) -> list[int]:
        """For each number, its index among the family's columns, or -1."""
        return _padded([_place(self.columns, column) for column in self._fed_columns(k, place)], width)

    def xfed(self, k: int, place: int, extremes: int) -> list[int]:
        """The same for extremes."""
        return _padded([_place(self.xcolumns, column) for column in self._xfed_columns(k, place)], extremes)


def _add_families(tables: _TableWriter, families: Sequence[_Sharers], alphabet: Alphabet) -> None:
    units = max((len(each.units) for each in families), default=0)
    members = range(len(families[0].members)) if families else range(0)
    loops = [(each, k, place) for each in families for k, place in each.loops]
    states = [side for each, k, place in loops for side in each.states(k, place)]
    ends = _spans(states)
    column, xcolumn = _spans([f.columns for f in families]), _spans([f.xcolumns for f in families])
    tables.count(families=len(families), units=units)
    tables.add(
        "of",
        (
            next((f for f, each in enumerate(families) if each.concern(symbols) == BURST), -1)
            for symbols in alphabet
        ),
    )
    tables.add("concern", [each.record(symbols) for each in families for symbols in alphabet])
    takes = np.zeros((len(families), len(alphabet), units), np.int64)
    for f, each in enumerate(families):
        for a, symbols in enumerate(alphabet):
            takes[f, a, sorted(each.takers(symbols))] = 1
    tables.add("takes", takes)
    tables.add("family", [(len(f.units), f.types(), *column[i], *xcolumn[i]) for i, f in enumerate(families)])
    own = iter(_spans([each.positions.get(k, ()) for each in families for k in members]))
    sharers = [(each.unit[k], touched) for each in families for k, touched in enumerate(each.touches())]
    tables.add("sharer", [(*sharer, *next(own)) for sharer in sharers])
    tables.add("loop", [(*ends[2 * j], *ends[2 * j + 1]) for j in range(len(loops))])
    tables.add("state", (state for side in states for state in side))
    tables.add("column", (c for each in families for c in each.columns))
    tables.add("xcolumn", (c for each in families for c in each.xcolumns))
    tables.add("fed", [each.fed(k, place, tables.sizes["width"]) for each, k, place in loops])
    tables.add("xfed", [each.xfed(k, place, tables.sizes["extremes"]) for each, k, place in loops])


def _add_work(tables: _TableWriter, tallies: int) -> None:
    """Lay out the work array."""
    members, lanes, sharings, symbols, families, units = (
        tables.sizes[name] for name in ("members", "lanes", "sharings", "symbols", "families", "units")
    )
    at = 0
    for name, size in (
        ("first", members),
        ("upto", members),
        ("wide", lanes),
        ("many", symbols),
        ("seen", symbols),
        ("meaning", symbols),
        ("open", families * units),
        ("chosen", units),
        ("alone", units),
        ("before", families),
        ("sharing", SHARING * sharings),
        ("tally", tallies),
    ):
        tables.count(**{name: at})
        at += size
    tables.count(work=at)


def _distinct(groups: Iterable[Iterable[int]]) -> list[int]:
    return list(dict.fromkeys(number for group in groups for number in group if number >= 0))


def _place(columns: list[int], column: int) -> int:
    return columns.index(column) if column in columns else -1


def _padded(numbers: list[int], size: int) -> list[int]:
    return [*numbers, *[-1] * (size - len(numbers))]


def _spans(groups: Sequence[Any]) -> list[tuple[int, int]]:
    """The bounds of each group in their concatenation."""
    ends = np.cumsum([0, *(len(group) for group in groups)])
    return [(int(low), int(high)) for low, high in pairwise(ends)]
