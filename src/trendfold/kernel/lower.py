"""Machine + symbols -> the arrays a kernel reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine, State, Step, Symbol
from trendfold.kernel.bindings import ANY, CONTIGUOUS, NEXT
from trendfold.kernel.program import (
    NOTHING,
    ONE,
    BindingSteps,
    Frame,
    Grid,
    Guards,
    Ints,
    Links,
    Negated,
    Paths,
    SparseRows,
)
from trendfold.plan.carried import Carried, Extreme, Measure, Number
from trendfold.plan.neighbour import Access
from trendfold.query.nodes import EVENT_TIME, OfTrend, Semantics

SEMANTICS = {Semantics.ANY: ANY, Semantics.NEXT: NEXT, Semantics.CONTIGUOUS: CONTIGUOUS}
"""The numbers that kernels know them by."""

Column = tuple[Measure, str]
"""A column of values: an attribute (null is 0), or whether it is present."""


def value_columns(carried: Carried) -> tuple[Column, ...]:
    """The distinct columns that the numbers read."""
    return tuple(dict.fromkeys((n.measure, n.attribute) for n in carried.numbers if n.attribute is not None))


ExtremeColumn = tuple[str | OfTrend, bool]
"""A column of values that extremes read, negated if the second is true: an attribute, the time, or 1."""


def extreme_columns(carried: Carried) -> tuple[ExtremeColumn, ...]:
    """The distinct columns that the extremes read."""
    return tuple(dict.fromkeys(column for x in carried.extremes for column in _columns_of(x)))


def _columns_of(extreme: Extreme) -> tuple[ExtremeColumn, ...]:
    if extreme.of is OfTrend.DURATION:
        return (OfTrend.DURATION, False), (OfTrend.DURATION, True)
    return ((extreme.of or extreme.attribute, extreme.is_max),)


def fed_column(extreme: Extreme, begins: bool, ends: bool) -> ExtremeColumn | None:
    """The column that a binding adds to an extreme, or compares it with; None where it adds nothing.

    A duration loses the time of the first binding and gains that of the last.
    """
    if extreme.of is not OfTrend.DURATION:
        return _columns_of(extreme)[0]
    return None if begins == ends else (OfTrend.DURATION, extreme.is_max != begins)


def lower_frame(machine: Machine, carried: Carried) -> Frame:
    """The shape of the state."""
    number = {state: i for i, state in enumerate(machine.states)}
    return Frame(
        len(number) + 1,  # the last is void: always zero, so that rows can be padded
        carried.width,
        len(carried.extremes),
        number.get(State(START), -1),
        _ints(number[state] for state in machine.whole()),
        carried.added,
        carried.elapsed,
        1 + value_columns(carried).index(PASSED) if carried.elapsed else 0,
        _ints(number[state] for state in open_states(machine)),
    )


PASSED = (Measure.ELAPSED, EVENT_TIME)
"""The column of values that has the time since the row before."""


def age_column(carried: Carried) -> int:
    """The first of the columns that the fold itself fills: the age of what each open state holds."""
    return 1 + len(value_columns(carried))


def open_states(machine: Machine) -> tuple[State, ...]:
    """The states whose trends have begun and not ended: their durations grow."""
    return tuple(state for state in machine.states if state.place not in (START, END))


def lower_rows(machine: Machine, symbols: Sequence[Symbol], carried: Carried) -> tuple[SparseRows, Grid]:
    """The update of every symbol as sparse rows; nothing may be kept binding by binding."""
    lowering = RowLowering(machine, carried)
    per_symbol = [lowering.rows(machine.steps(symbol)) for symbol in symbols]
    extremes = [lowering.extreme_rows(machine.steps(symbol)) for symbol in symbols]
    rows = [row for group in per_symbol for row in group]
    spends = [lowering.spends(machine.steps(symbol)) for symbol in symbols]
    fades = [lowering.fades(machine.steps(symbol)) for symbol in symbols]
    written = [{row[0] // carried.width for row in rows} for rows in per_symbol]
    drains = [[s for s in spent if s not in anew] for spent, anew in zip(spends, written, strict=True)]
    void, void_entry, void_extreme = lowering.void
    program = SparseRows(
        row_start=_starts(per_symbol),
        dst=_ints(row[0] for row in rows).astype(np.uint32),
        keep=np.array([row[1] for row in rows], np.float64),
        op_start=_starts([row[2] for row in rows]),
        op=_flat(row[2] for row in rows).astype(np.uint32),
        vop_start=_starts([row[3] for row in rows]),
        vop=_ints(entry for row in rows for entry, _ in row[3]).astype(np.uint32),
        vcol=_ints(column for row in rows for _, column in row[3]).astype(np.uint32),
        spend=_padded(spends, void),
        drain=_padded(drains, void),
        fade=_padded(fades, void),
        xdst=_padded([[dst for dst, _ in rows] for rows in extremes], void_extreme),
        xsrc=_padded_twice([[[t[0] for t in terms] for _, terms in rows] for rows in extremes], void_extreme),
        xgate=_padded_twice([[[t[1] for t in terms] for _, terms in rows] for rows in extremes], void_entry),
        xcol=_padded_twice([[[t[2] for t in terms] for _, terms in rows] for rows in extremes], 0),
        xadds=_padded([[lowering.adds(dst) for dst, _ in rows] for rows in extremes], 0).astype(np.bool_),
    )
    aged = [lowering.with_ages(rows) for rows in per_symbol]
    return program, _grid(aged, [lowering.touched(rows) for rows in per_symbol], void_entry)


def no_grid(grid: Grid) -> Grid:
    """A grid without rows: every moment is folded in wide arithmetic."""
    return Grid(grid.dst[:, :0], grid.src[:, :0], grid.col[:, :0], grid.times[:, :0], 0, grid.touch)


def _grid(per_symbol: list[list[_Row]], touched: list[list[int]], void: int) -> Grid:
    """All symbols with as many rows and terms as the largest."""
    terms = [
        [Counter([(dst, 0)] * int(keep) + [(op, 0) for op in ops] + vops) for dst, keep, ops, vops in rows]
        for rows in per_symbol
    ]
    most_rows = max((len(rows) for rows in terms), default=0)
    most_terms = max((len(row) for rows in terms for row in rows), default=0)
    if len(terms) * most_rows * most_terms > _LARGEST_GRID:
        most_rows = 0
    dst = np.full((len(terms), most_rows), void, np.uint32)
    src = np.full((len(terms), most_rows, most_terms), void, np.uint32)
    col, times = np.zeros_like(src), np.zeros(src.shape)
    for a, rows in enumerate(terms if most_rows else []):
        plain_first = sorted(range(len(rows)), key=lambda r: any(column for _, column in rows[r]))
        for r, row in enumerate(map(rows.__getitem__, plain_first)):
            dst[a, r] = per_symbol[a][plain_first[r]][0]
            for k, ((entry, column), count) in enumerate(row.items()):
                src[a, r, k], col[a, r, k], times[a, r, k] = entry, column, count
    plain = min((int(np.argmax(np.append(each.any(axis=1), True))) for each in col), default=0)
    return Grid(dst, src, col, times, plain, _padded(touched, 0))


_Row = tuple[int, float, list[int], list[tuple[int, int]]]

_ExtremeRow = tuple[int, list[tuple[int, int, int]]]
"""dst, and terms (source, gate, column)."""

_LARGEST_GRID = 1_000_000
"""Terms of all symbols together; a larger grid is not built, and moments are folded in wide arithmetic."""


class RowLowering:
    """The flattening of (state, number) pairs to entries, for one machine."""

    def __init__(self, machine: Machine, carried: Carried) -> None:
        self.machine, self.carried = machine, carried
        self.number = {state: i for i, state in enumerate(machine.states)}
        self.columns = {column: i for i, column in enumerate(value_columns(carried), 1)}
        self.xcolumns = {column: i for i, column in enumerate(extreme_columns(carried), 1)}
        self.steps = machine.steps(frozenset(p.index for p in machine.automaton.positive))
        self.carries = [self._carriers(number) for number in carried.numbers]
        self.xcarries = [self._reached(extreme.positions) for extreme in carried.extremes]
        for places in self.xcarries[: carried.added]:
            places.add(START)  # where they are 0

    def _carriers(self, number: Number) -> set[int]:
        """The places where a number can be other than zero."""
        if number.measure is Measure.ELAPSED:
            return {state.place for state in self.machine.states} - {START}
        return self._reached(number.positions)

    def _reached(self, positions: frozenset[int]) -> set[int]:
        """The places where a number fed at `positions` can be other than zero."""
        reached: set[int] = set()
        while True:
            grown = {
                target.place
                for step in self.steps
                for target in step.targets
                if step.position in positions or any(s.place in reached for s in step.sources)
            }
            if grown <= reached:
                return reached
            reached |= grown

    @property
    def void(self) -> tuple[int, int, int]:
        """The state that is always empty, and its first entry among numbers and among extremes."""
        state = len(self.number)
        return state, state * self.carried.width, state * len(self.carried.extremes)

    def entry(self, state: State, number: int) -> int:
        """The place of a state's number."""
        return self.number[state] * self.carried.width + number

    def rows(self, steps: tuple[Step, ...]) -> list[_Row]:
        """The rows of an event's targets, for numbers that can be other than zero."""
        spent = {state for step in steps for state in self._spent(step)}
        found: dict[int, _Row] = {}
        for step in steps:
            for target in step.targets:
                keep = 0.0 if self.machine.fades(target.place) or target in spent else 1.0
                for number in range(self.carried.width):
                    ops, vops = self._terms(step, number)
                    dst = self.entry(target, number)
                    if number and target.place not in self.carries[number - 1]:
                        continue
                    row = found.setdefault(dst, (dst, keep, [], []))
                    row[2].extend(ops)
                    row[3].extend(vops)
        return list(found.values())

    def _terms(self, step: Step, number: int) -> tuple[list[int], list[tuple[int, int]]]:
        """The terms of one number: the sources' own, and the event's value times the sources' counts."""
        if number == 0:
            return [self.entry(s, 0) for s in step.sources], []
        carried = self.carried.numbers[number - 1]
        ops = [self.entry(s, number) for s in step.sources if s.place in self.carries[number - 1]]
        if step.position not in carried.positions:
            return ops, []
        counts = [self.entry(s, 0) for s in step.sources]
        if carried.attribute is None:
            return ops + counts, []
        column = self.columns[carried.measure, carried.attribute]
        return ops, [(count, column) for count in counts]

    def with_ages(self, rows: list[_Row]) -> list[_Row]:
        """The rows of an event, which let time pass for the states that they read (see `Grid`)."""
        counts = {entry: (entry - self.carried.elapsed, age) for entry, age in self._ages.items()}
        return [
            (dst, keep, ops, [*vops, *(counts[e] for e in [dst] * int(keep) + ops if e in counts)])
            for dst, keep, ops, vops in rows
        ]

    def touched(self, rows: list[_Row]) -> list[int]:
        """The open states, by number from 1, at which an event adds up durations."""
        first = age_column(self.carried) - 1
        return [self._ages[row[0]] - first for row in rows if row[0] in self._ages]

    @cached_property
    def _ages(self) -> dict[int, int]:
        """Per entry that grows with time the column of its age."""
        if not self.carried.elapsed:
            return {}
        entries = (self.entry(state, self.carried.elapsed) for state in open_states(self.machine))
        return {entry: column for column, entry in enumerate(entries, age_column(self.carried))}

    def adds(self, entry: int) -> bool:
        """Whether an entry of extremes is a sum along a trend."""
        return entry % len(self.carried.extremes) < self.carried.added

    def extreme_rows(self, steps: tuple[Step, ...]) -> list[_ExtremeRow]:
        """The rows of an event's targets, for extremes that can be other than infinite."""
        found: dict[int, _ExtremeRow] = {}
        count = len(self.carried.extremes)
        for step in steps:
            for target in step.targets:
                for x, extreme in enumerate(self.carried.extremes):
                    if target.place not in self.xcarries[x]:
                        continue
                    fed = step.position in extreme.positions
                    dst = self.number[target] * count + x
                    into = found.setdefault(dst, (dst, []))[1]
                    for s in step.sources:
                        column = fed_column(extreme, s.place == START, target.place == END) if fed else None
                        number = 0 if column is None else self.xcolumns[column]
                        into.append((self.number[s] * count + x, self.entry(s, 0), number))
        return list(found.values())

    def _spent(self, step: Step) -> list[State]:
        if self.machine.semantics is not Semantics.NEXT:
            return []
        return [s for s in step.sources if s.place != START]

    def spends(self, steps: tuple[Step, ...]) -> list[int]:
        """The states that an event uses up."""
        return sorted({self.number[s] for step in steps for s in self._spent(step)})

    def fades(self, steps: tuple[Step, ...]) -> list[int]:
        """The states whose mass lasts for one moment only."""
        targets = {target for step in steps for target in step.targets}
        return sorted(self.number[target] for target in targets if self.machine.fades(target.place))


def lower_guards(machine: Machine, symbols: Sequence[Symbol]) -> Guards:
    """The guards whose classes split waiting mass."""
    number = {state: i for i, state in enumerate(machine.states)}
    split = [(g, c) for g, c in enumerate(machine.guard_classes) if c is not None]
    places = [sorted(number[State(p)] for p in machine.exits(g) - machine.by_event) for g, _ in split]
    masks: list[int] = []
    reach: list[list[int]] = [[] for _ in symbols]
    for _, cls in split:
        bit = {r: 1 << i for i, r in enumerate(cls.guard.positions)}
        masks += [sum(bit[r] for r in reached) for reached in cls.sets] + [1 << 63]
        for a, symbol in enumerate(symbols):
            for c in range(cls.broken):
                reached = cls.reached(c, symbol)
                mask = sum(bit[r] for r in reached) | ((1 << 63) if reached & cls.guard.last else 0)
                reach[a].append(mask)
            reach[a].append(0)
    return Guards(
        class_start=_offsets([cls.broken + 1 for _, cls in split]),
        class_mask=np.array(masks, np.uint64),
        reach=np.array(reach, np.uint64).reshape(len(symbols), len(masks)),
        place_start=_offsets([len(p) for p in places]),
        place=_flat(places),
        moves=np.array([machine.moves(symbol) for symbol in symbols], np.bool_),
    )


def lower_steps(machine: Machine, symbols: Sequence[Symbol], carried: Carried) -> BindingSteps:
    """The update of every symbol as steps, lists for the places kept binding by binding."""
    number = {state: i for i, state in enumerate(machine.states)}
    lists = list_numbers(machine)
    per_symbol = [ended_steps(machine, symbol, carried) for symbol in symbols]
    steps = [step for group in per_symbol for step in group]
    scans = [scan for step in steps for scan in step.scans]
    columns = {column: i for i, column in enumerate(value_columns(carried), 1)}
    xcolumns = {column: i for i, column in enumerate(extreme_columns(carried), 1)}

    def weight(step: Step, index: int) -> int:
        if index == 0 or step.position not in carried.numbers[index - 1].positions:
            return NOTHING
        fed = carried.numbers[index - 1]
        return ONE if fed.attribute is None else columns[fed.measure, fed.attribute]

    def xweight(step: Step, index: int) -> int:
        extreme = carried.extremes[index]
        column = fed_column(extreme, *_ends(step)) if step.position in extreme.positions else None
        return NOTHING if column is None else xcolumns[column]

    weights = [[weight(step, w) for w in range(carried.width)] for step in steps]
    xweights = [[xweight(step, x) for x in range(len(carried.extremes))] for step in steps]
    return BindingSteps(
        step_start=_starts(per_symbol),
        src_start=_starts([step.sources for step in steps]),
        src=_ints(number[s] for step in steps for s in step.sources),
        dst_start=_starts([step.targets for step in steps]),
        dst=_ints(number[s] for step in steps for s in step.targets),
        kept_start=_starts([step.kept_at for step in steps]),
        kept=_ints(lists[place] for step in steps for place in step.kept_at),
        scan_start=_starts([step.scans for step in steps]),
        scan=_ints(lists[scan.place] for scan in scans),
        scan_guard=_ints(-1 if scan.guard is None else scan.guard for scan in scans),
        scan_fixed=np.array([scan.place == START for scan in scans], np.bool_),
        pred_start=_starts([scan.predicates for scan in scans]),
        pred=_flat(scan.predicates for scan in scans),
        closing_start=_starts([step.closing for step in steps]),
        closing=_flat(step.closing for step in steps),
        weight=np.array(weights, np.int32).reshape(len(steps), carried.width),
        xweight=np.array(xweights, np.int32).reshape(len(steps), len(carried.extremes)),
        is_start=np.array([s.place == START for s in machine.states], np.bool_),
        fades=np.array([machine.fades(s.place) for s in machine.states], np.bool_),
    )


def ended_steps(machine: Machine, symbol: Symbol, carried: Carried) -> tuple[Step, ...]:
    """The steps of an event, where trends that it begins or ends have steps of their own if that matters."""
    steps = machine.steps(symbol)
    if not any(extreme.of is OfTrend.DURATION for extreme in carried.extremes):
        return steps
    apart = [
        _part(step, begins, ends) for step in steps for begins in (False, True) for ends in (False, True)
    ]
    return tuple(s for s in apart if (s.sources or s.scans) and (s.targets or s.kept_at))


def _part(step: Step, begins: bool, ends: bool) -> Step:
    """The part of a step that begins trends, or goes on with some; and that ends them, or not."""
    return replace(
        step,
        sources=tuple(state for state in step.sources if (state.place == START) is begins),
        scans=tuple(scan for scan in step.scans if (scan.place == START) is begins),
        targets=tuple(state for state in step.targets if (state.place == END) is ends),
        kept_at=tuple(place for place in step.kept_at if (place == END) is ends),
        closing=step.closing if ends else (),
    )


def _ends(step: Step) -> tuple[bool, bool]:
    """Whether a part of a step begins trends, and whether it ends them."""
    places = [state.place for state in step.sources] + [scan.place for scan in step.scans]
    into = [*(state.place for state in step.targets), *step.kept_at]
    return START in places, END in into


def lower_links(machine: Machine, symbols: Sequence[Symbol], steps: BindingSteps) -> Links:
    """The symbols of one step at most; nothing may be kept binding by binding."""
    count = np.diff(steps.step_start)
    is_alone = [n < 2 and not machine.moves(s) for n, s in zip(count, symbols, strict=True)]
    taken = [
        int(t) if alone and n else None
        for alone, n, t in zip(is_alone, count, steps.step_start[:-1], strict=True)
    ]
    src = [_items(steps.src, steps.src_start, t) for t in taken]
    dst = [_items(steps.dst, steps.dst_start, t) for t in taken]
    spent = [
        spent_by(machine, symbol) if alone else [] for symbol, alone in zip(symbols, is_alone, strict=True)
    ]
    weight = np.full((len(taken), steps.weight.shape[1]), NOTHING, np.int32)
    xweight = np.full((len(taken), steps.xweight.shape[1]), NOTHING, np.int32)
    for a, t in enumerate(taken):
        if t is not None:
            weight[a], xweight[a] = steps.weight[t], steps.xweight[t]
    return Links(
        is_alone=np.array(is_alone, np.bool_),
        src_start=_starts(src),
        src=_flat(src),
        dst_start=_starts(dst),
        dst=_flat(dst),
        spent_start=_starts(spent),
        spent=_flat(spent),
        weight=weight,
        xweight=xweight,
    )


def _items(items: Ints, start: Ints, k: int | None) -> list[int]:
    """The items of k in a CSR pair; no items for None."""
    return [] if k is None else items[start[k] : start[k + 1]].tolist()


def spent_by(machine: Machine, symbol: Symbol) -> list[int]:
    """The states that an event empties before it leaves its mass."""
    sources = {source for step in machine.steps(symbol) for source in step.sources}
    is_next = machine.semantics is Semantics.NEXT
    return [
        i
        for i, state in enumerate(machine.states)
        if machine.fades(state.place) or (is_next and state in sources and state.place != START)
    ]


def list_numbers(machine: Machine) -> dict[int, int]:
    """Place -> list, for the places kept binding by binding."""
    return {place: i for i, place in enumerate(sorted(machine.by_event))}


@dataclass(frozen=True)
class ValueAccesses:
    """The accesses of a machine, as `BindingIndex` numbers them, and the symbols that use them.

    way        int32[C]       per scan, in the order of `BindingSteps`: its access, or -1
    is_first   bool[A, symbols]  whether an event of a symbol is kept where the access looks
    is_second  bool[A, symbols]  whether an event of a symbol asks through it
    """

    accesses: tuple[Access, ...]
    way: Ints
    is_first: NDArray[np.bool_]
    is_second: NDArray[np.bool_]


def lower_asked(
    machine: Machine, symbols: Sequence[Symbol], accesses: Sequence[Access], carried: Carried
) -> ValueAccesses:
    """The accesses that find bindings by their values, and the symbols they concern."""
    found = tuple(access for access in accesses if access.is_indexed)
    number = {(a.place, a.predicates, a.guard): i for i, a in enumerate(found)}
    ways = [
        [[number.get((c.place, c.predicates, c.guard), -1) for c in step.scans] for step in steps]
        for steps in (ended_steps(machine, symbol, carried) for symbol in symbols)
    ]
    is_first = [[a.place in symbol for symbol in symbols] for a in found]
    is_second = [[any(i in way for way in steps) for steps in ways] for i in range(len(found))]
    shape = (len(found), len(symbols))
    return ValueAccesses(
        found,
        _ints(way for steps in ways for scans in steps for way in scans),
        np.array(is_first, np.bool_).reshape(shape),
        np.array(is_second, np.bool_).reshape(shape),
    )


def lower_negated(machine: Machine, symbols: Sequence[Symbol]) -> Negated:
    """All guards, for judging them by time."""
    guards = machine.automaton.guards
    positions = [r for guard in guards for r in guard.positions]
    number = {r: i for i, r in enumerate(positions)}
    first = {r for guard in guards for r in guard.first}
    last = {r for guard in guards for r in guard.last}
    edges = [[(s, r) for guard in guards for s, to in sorted(guard.edges) if to == r] for r in positions]
    takes = [sorted(number[r] for r in symbol if r in number) for symbol in symbols]
    predicates = [machine.predicates.between(s, r) for group in edges for s, r in group]
    return Negated(
        npos_start=_offsets([len(guard.positions) for guard in guards]),
        is_first=np.array([r in first for r in positions], np.bool_),
        is_last=np.array([r in last for r in positions], np.bool_),
        take_start=_starts(takes),
        take=_flat(takes),
        from_start=_starts(edges),
        from_=_ints(number[s] for group in edges for s, _ in group),
        pred_start=_starts(predicates),
        pred=_flat(predicates),
    )


def lower_paths(
    machine: Machine, symbols: Sequence[Symbol], carried: Carried, guard: int | None = None
) -> Paths:
    """The pattern, or with `guard` one NOT's pattern, as a graph to walk."""
    automaton = machine.automaton
    if guard is None:
        positions = {p.index for p in automaton.positive}
        edges = sorted((p, q) for p, q in automaton.edges if p != START and q != END)
        first, last = automaton.first, automaton.last
    else:
        negated = automaton.guards[guard]
        positions, edges = set(negated.positions), sorted(negated.edges)
        first, last = negated.first, negated.last
    count = len(automaton.positions)
    number = np.full((count, count), -1, np.int32)
    for i, (p, q) in enumerate(edges):
        number[p, q] = i
    takes = [sorted(symbol & positions) for symbol in symbols]
    predicates = [machine.predicates.between(p, q) for p, q in edges]
    cross = machine.predicates.cross
    ends = [machine.guard_at(START), machine.guard_at(END)] if guard is None else [None, None]
    between = machine.predicates.between
    opening = [between(START, p) if guard is None else () for p in range(count)]
    closing = [between(p, END) if guard is None else () for p in range(count)]
    columns = {column: i for i, column in enumerate(value_columns(carried), 1)}
    xcolumns = {column: i for i, column in enumerate(extreme_columns(carried), 1)}
    weight = np.full((count, carried.width), NOTHING, np.int32)
    for w, fed in enumerate(carried.numbers, 1):
        weight[sorted(fed.positions), w] = (
            ONE if fed.attribute is None else columns[fed.measure, fed.attribute]
        )
    xweight = np.full((count, len(carried.extremes)), NOTHING, np.int32)
    for x, extreme in enumerate(carried.extremes):
        if (column := fed_column(extreme, begins=False, ends=False)) is not None:
            xweight[sorted(extreme.positions), x] = xcolumns[column]
    ended = [
        [fed_column(extreme, begins=begins, ends=not begins) for begins in (True, False)]
        if extreme.of is OfTrend.DURATION
        else [None, None]
        for extreme in carried.extremes
    ]
    return Paths(
        take_start=_starts(takes),
        take=_flat(takes),
        edge=number,
        guard=_ints(-1 if guard is not None else _or_none(machine.crossed(p, q)) for p, q in edges),
        pred_start=_starts(predicates),
        pred=_flat(predicates),
        is_first=np.array([p in first for p in range(count)], np.bool_),
        is_last=np.array([p in last for p in range(count)], np.bool_),
        ends=_ints(_or_none(end) for end in ends),
        opening_start=_starts(opening),
        opening=_flat(opening),
        closing_start=_starts(closing),
        closing=_flat(closing),
        cross_left=np.array([[p in c.left for p in range(count)] for c in cross], np.bool_).reshape(
            -1, count
        ),
        cross_right=np.array([[p in c.right for p in range(count)] for c in cross], np.bool_).reshape(
            -1, count
        ),
        cross=_ints(range(len(machine.predicates.adjacency), len(machine.predicates.adjacency) + len(cross))),
        weight=weight,
        xweight=xweight,
        xends=_ints(NOTHING if c is None else xcolumns[c] for pair in ended for c in pair).reshape(-1, 2),
        elapsed=carried.elapsed,
        added=carried.added,
    )


def _or_none(guard: int | None) -> int:
    return -1 if guard is None else guard


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int32)


def _padded(groups: Sequence[Sequence[int]], filler: int) -> NDArray[np.uint32]:
    """Rows of unequal lengths as one array; what is missing is `filler`."""
    longest = max((len(group) for group in groups), default=0)
    rows = [[*group, *[filler] * (longest - len(group))] for group in groups]
    return np.array(rows, np.int64).reshape(len(groups), longest).astype(np.uint32)


def _padded_twice(groups: Sequence[Sequence[Sequence[int]]], filler: int) -> NDArray[np.uint32]:
    """`_padded` for rows of rows."""
    longest = max((len(group) for group in groups), default=0)
    deepest = max((len(row) for group in groups for row in group), default=0)
    rows = [row for group in groups for row in [*group, *[()] * (longest - len(group))]]
    flat = [[*row, *[filler] * (deepest - len(row))] for row in rows]
    return np.array(flat, np.int64).reshape(len(groups), longest, deepest).astype(np.uint32)


def _flat(groups: Iterable[Sequence[int]]) -> Ints:
    return _ints(value for group in groups for value in group)


def _offsets(sizes: Sequence[int]) -> Ints:
    return _ints(accumulate(sizes, initial=0))


def _starts(groups: Sequence[Sequence[object]]) -> NDArray[np.int32]:
    return _offsets([len(group) for group in groups])
