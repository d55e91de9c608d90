"""Machines of several queries + symbols -> the arrays that kernel.together reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.glushkov import END as WHOLE
from trendfold.automaton.glushkov import START as NOTHING_YET
from trendfold.automaton.machine import Machine, State, Symbol
from trendfold.kernel.lower import Column, extreme_columns, value_columns
from trendfold.kernel.program import (
    ADD,
    ANYHOW,
    BLOCK,
    DENSE,
    GROW,
    KIND,
    LANE,
    LANE_STOP,
    LANES,
    SPARSE,
    TARGETS,
    WIDTH,
    Together,
)
from trendfold.plan.carried import Carried, union

_GROWN, _ADDED = 64, 2
"""Where one lane in so many is concerned, all are looped over: eight at a time cost about as much as one."""

_PADDING = 8
"""Rows begin at multiples of it, so that vectors are aligned."""


@dataclass(frozen=True)
class Member:
    """One query: its machine, what rides on its counts, and in how many windows an event can be."""

    machine: Machine
    carried: Carried
    windows: int = 1


@dataclass
class _ShapeBlock:
    """A shape, and the members that have it; see Together for what is counted how."""

    machine: Machine
    carried: Carried
    first: int = 0
    first_extreme: int = 0
    first_pair: int = 0
    lanes: int = 0
    members: list[int] = field(default_factory=list)

    @property
    def states(self) -> dict[State, int]:
        return {state: i for i, state in enumerate(self.machine.states)}

    def row(self, state: State) -> int:
        return self.first + self.states[state] * self.carried.width

    def xrow(self, state: State) -> int:
        return self.first_extreme + self.states[state] * len(self.carried.extremes)

    @property
    def rows(self) -> int:
        return len(self.states) * self.carried.width

    def edges(self) -> list[tuple[State, State]]:
        """Every (target, source) that a step of some position has."""
        found = dict.fromkeys(
            (target, source)
            for position in self.machine.automaton.positions
            for step in self.machine.steps(frozenset({position.index}))
            for target in step.targets
            for source in step.sources
        )
        return list(found)


def lower_together(members: Sequence[Member], alphabet: Sequence[Sequence[Symbol]]) -> Together:
    """All members side by side; `alphabet` has per symbol and member the positions it takes.

    Every burst acts once.
    """
    blocks, home = _blocks(members)
    every = union(member.carried for member in members)
    values, extremes = value_columns(every), extreme_columns(every)
    lowered = _TogetherLowering(blocks, home, members, values, extremes)
    starts = [0]
    for symbols in alphabet:
        lowered.add_symbol(symbols)
        starts.append(len(lowered.op))
    return lowered.program(starts, alphabet)


def work_of(program: Together) -> list[tuple[int, int]]:
    """Per symbol how many vectors of eight lanes an event writes, and how many operations it is."""
    found = []
    for low, high in pairwise(program.op_start.tolist()):
        vectors = 0
        for op in program.op[low:high]:
            lanes, width = program.block[op[BLOCK], [LANES, WIDTH]]
            touched = int(lanes) // 8 + 1 if op[KIND] == DENSE else int(op[LANE_STOP] - op[LANE])
            vectors += touched * int(width) * int(op[TARGETS])
        found.append((vectors, high - low))
    return found


def _blocks(members: Sequence[Member]) -> tuple[list[_ShapeBlock], NDArray[np.int64]]:
    """Members of one shape are lanes of one block, each with a lane for every window at once."""
    found: dict[object, _ShapeBlock] = {}
    home = np.zeros((len(members), 2), np.int64)
    for k, member in enumerate(members):
        block = found.setdefault(_shape(member), _ShapeBlock(member.machine, member.carried))
        home[k] = list(found).index(_shape(member)), block.lanes
        block.members.append(k)
        block.lanes += member.windows
    row = xrow = pair = 0
    for block in found.values():
        block.first, block.first_extreme, block.first_pair = row, xrow, pair
        row += block.rows
        xrow += len(block.states) * len(block.carried.extremes)
        pair += len(block.edges()) * (2 * block.carried.width - 1)
    return list(found.values()), home


def _shape(member: Member) -> object:
    """Equal for machines that differ in the types of their positions only."""
    automaton = member.machine.automaton
    return len(automaton.positions), frozenset(automaton.edges), member.carried


class _TogetherLowering:
    """Operations, as they are found symbol by symbol."""

    def __init__(
        self,
        blocks: list[_ShapeBlock],
        home: NDArray[np.int64],
        members: Sequence[Member],
        values: tuple[Column, ...],
        extremes: tuple[tuple[str, bool], ...],
    ) -> None:
        self.blocks, self.home, self.members = blocks, home, members
        self.values = {column: i for i, column in enumerate(values, 1)}
        self.extremes = {column: i for i, column in enumerate(extremes, 1)}
        self.pairs = [
            {edge: b.first_pair + i * (2 * b.carried.width - 1) for i, edge in enumerate(b.edges())}
            for b in blocks
        ]
        self.op: list[list[int]] = []
        self.feed: list[list[int]] = []
        self.xfeed: list[list[int]] = []
        self.source: list[int] = []
        self.xsource: list[int] = []
        self.pair: list[tuple[int, int]] = []
        self.lane: list[int] = []
        self.weight: list[float] = []

    def add_symbol(self, symbols: Sequence[Symbol]) -> None:
        """One operation per block and position that some member's rows of a symbol take."""
        takers: dict[tuple[int, int], list[int]] = {}
        for k, symbol in enumerate(symbols):
            for position in sorted(symbol):
                takers.setdefault((int(self.home[k, 0]), position), []).append(k)
        for (b, position), members in takers.items():
            for step in self.blocks[b].machine.steps(frozenset({position})):
                if step.targets and step.sources:
                    self._add(b, position, members, step.sources, step.targets)

    def _add(
        self,
        b: int,
        position: int,
        members: list[int],
        sources: tuple[State, ...],
        targets: tuple[State, ...],
    ) -> None:
        block = self.blocks[b]
        lanes = [
            lane
            for k in members
            for lane in range(int(self.home[k, 1]), int(self.home[k, 1]) + self.members[k].windows)
        ]
        is_loop = State(position) in sources
        kind = DENSE if (_GROWN if is_loop else _ADDED) * len(lanes) >= block.lanes else SPARSE
        others = [s for s in sources if s not in targets]
        way, other, pair = ANYHOW, 0, 0
        if block.carried.width == 1 and not block.carried.extremes and len(targets) == len(others) == 1:
            other, pair = block.row(others[0]), self.pairs[b][targets[0], others[0]]
            if kind == DENSE:
                way = GROW
            elif kind == SPARSE and not is_loop:
                way = ADD
        weight = -1
        if kind == DENSE and len(lanes) < block.lanes:
            weight = len(self.weight)
            chosen = set(lanes)
            self.weight += [float(lane in chosen) for lane in range(_padded_size(block.lanes))]
        both = [*targets, targets[-1]][:2]
        rows = [block.row(t) for t in both] + [block.xrow(t) for t in both]
        source, lane = len(self.source), len(self.lane)
        for s in sources:
            self.source.append(block.row(s))
            self.xsource.append(block.xrow(s))
            self.pair.append((self.pairs[b][both[0], s], self.pairs[b][both[1], s]))
        self.lane += lanes
        ends = source, len(self.source), lane, len(self.lane)
        self.op.append([b, kind, is_loop, way, other, pair, weight, len(targets), *rows, *ends])
        self.feed.append(self._fed(block, position))
        self.xfeed.append(
            [
                self.extremes[x.attribute, x.is_max] if position in x.positions else -1
                for x in block.carried.extremes
            ]
        )

    def _fed(self, block: _ShapeBlock, position: int) -> list[int]:
        """Per number the column of values that a binding adds, or -1; the count has none."""
        return [-1] + [
            -1
            if position not in number.positions
            else 0
            if number.attribute is None
            else self.values[number.measure, number.attribute]
            for number in block.carried.numbers
        ]

    def program(self, starts: list[int], alphabet: Sequence[Sequence[Symbol]]) -> Together:
        at, xat, pair_at, pair_row, cells, xcells, pair_cells = self._layout()
        columns, xcolumns = self._columns(starts, self.feed), self._columns(starts, self.xfeed)
        touching: list[list[int]] = [[] for _ in at]
        for pair, (to, of) in enumerate(pair_row):
            for row in {to, of}:
                touching[row].append(pair)
        return Together(
            block=_longs(
                [
                    b.lanes,
                    b.carried.width,
                    len(b.carried.extremes),
                    b.first,
                    b.rows,
                    b.row(State(NOTHING_YET)),
                    b.row(State(WHOLE)),
                    b.first_extreme,
                ]
                for b in self.blocks
            ).reshape(-1, 8),
            block_pair=_longs([*(b.first_pair for b in self.blocks), len(pair_row)]),
            home=self.home,
            at=_longs(at),
            xat=_longs(xat),
            op=_longs(self.op).reshape(-1, 16),
            op_start=_longs(starts),
            feed=_padded(self.feed),
            xfeed=_padded(self.xfeed),
            source=_longs(self.source),
            xsource=_longs(self.xsource),
            pair=_longs(self.pair).reshape(-1, 2),
            pair_row=_longs(pair_row).reshape(-1, 2),
            pair_at=_longs(pair_at),
            touching_start=_longs(accumulate(map(len, touching), initial=0)),
            touching=_longs(pair for pairs in touching for pair in pairs),
            lane=_longs(self.lane),
            weight=np.array(self.weight, np.float64),
            column_start=_longs(accumulate(map(len, columns), initial=0)),
            column=_longs(c for each in columns for c in each),
            xcolumn_start=_longs(accumulate(map(len, xcolumns), initial=0)),
            xcolumn=_longs(c for each in xcolumns for c in each),
            is_plain=np.array([not c and not x for c, x in zip(columns, xcolumns, strict=True)], np.bool_),
            is_apart=np.array([all(len(s) <= 1 for s in symbols) for symbols in alphabet], np.bool_),
            share_from=np.full(len(alphabet), 2, np.int64),
            cells=cells,
            xcells=xcells,
            pair_cells=pair_cells,
        )

    def _layout(
        self,
    ) -> tuple[list[int], list[int], list[int], list[tuple[int, int]], int, int, int]:
        """Where rows, rows of extremes and pairs begin, the rows of pairs, and how many cells there are."""
        at: list[int] = []
        xat: list[int] = []
        pair_at: list[int] = []
        pair_row: list[tuple[int, int]] = []
        cells = xcells = pair_cells = 0
        for b in self.blocks:
            size = _padded_size(b.lanes)
            for _ in range(b.rows):
                at.append(cells)
                cells += size
            for _ in range(len(b.states) * len(b.carried.extremes)):
                xat.append(xcells)
                xcells += size
            for target, source in b.edges():
                to, of, width = b.row(target), b.row(source), b.carried.width
                for w in range(width):
                    pair_row.append((to + w, of + w))
                for w in range(1, width):
                    pair_row.append((to + w, of))
                for _ in range(2 * width - 1):
                    pair_at.append(pair_cells)
                    pair_cells += size
        return at, xat, pair_at, pair_row, cells, xcells, pair_cells

    @staticmethod
    def _columns(starts: list[int], fed: list[list[int]]) -> list[list[int]]:
        """Per symbol the columns that its events feed."""
        return [
            sorted({column for row in fed[low:high] for column in row if column >= 0})
            for low, high in pairwise(starts)
        ]


def _padded_size(lanes: int) -> int:
    """There is always room for one number more: for a row's bound."""
    return (lanes // _PADDING + 1) * _PADDING


def _longs(values: Iterable[Any]) -> NDArray[np.int64]:
    return np.array(list(values), np.int64)


def _padded(rows: list[list[int]]) -> NDArray[np.int64]:
    """Rows of unequal lengths as one array; what is missing is -1."""
    longest = max(map(len, rows), default=1)
    return _longs([*row, *[-1] * (longest - len(row))] for row in rows).reshape(len(rows), longest)
