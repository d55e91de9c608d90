"""Lower a network, with symbols and windows, to the tables of papers.gloria.kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.automaton.machine import Symbol
from trendfold.kernel.lower import extreme_columns, value_columns
from trendfold.papers.gloria import board as program
from trendfold.papers.gloria.board import HEADER, TABLES, Board
from trendfold.papers.gloria.network import END, Network, NetworkNode, QueryBundle
from trendfold.plan.carried import Carried

Alphabet = Sequence[tuple[Symbol, ...]]
MOST_SNAPSHOTS = 1024
"""A ring with more snapshots is compacted: every expression becomes one snapshot."""


VECTOR = 8
"""The vector width for lanes and coefficients; unused places have weight 0."""


@dataclass(frozen=True)
class GloriaWindows:
    """The windows of all members, one member after the other.

    starts   int64[M+1]  where those of a member begin
    low, high  int64[]   their rows
    lanes    int64[M]    how many are open at once
    most     the most rows of some symbols in a window of some members
    tied     the most rows of one moment
    """

    starts: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    lanes: NDArray[np.int64]
    most: Callable[[Collection[int], Collection[int]], int]
    tied: int


@dataclass(frozen=True)
class LoweredNetwork:
    """The tables and weights, and how much room the rest needs.

    numbers  mantissas, and as many exponents; `room` are extremes, coefficients and bounds
    """

    tables: NDArray[np.int64]
    weights: NDArray[np.float64]
    numbers: int
    extremes: int
    room: int
    work: int

    def size(self) -> int:
        """Bytes of state."""
        return 12 * self.numbers + 8 * (self.room + self.work + len(self.tables) + len(self.weights))

    def board(self) -> Board:
        """An empty board."""
        floats = np.zeros(self.numbers + self.room + len(self.weights))
        floats[self.numbers : self.numbers + self.extremes] = np.inf
        floats[self.numbers + self.room :] = self.weights
        whole = np.concatenate([self.tables, np.zeros(self.work, np.int64)])
        return Board(whole, floats, np.zeros(self.numbers, np.int32))


def lower_network(
    network: Network, alphabet: Alphabet, every: Carried, windows: GloriaWindows
) -> LoweredNetwork:
    """The tables; `every` are the columns that rows have."""
    return _NetworkLowering(network, alphabet, every, windows).done()


@dataclass
class _RecordTables:
    """Records by table."""

    records: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in TABLES})
    sizes: dict[str, int] = field(default_factory=dict)

    def put(self, name: str, *numbers: int) -> int:
        """Append a record, and return its offset."""
        own = self.records[name]
        own += map(int, numbers)
        return len(own) - len(numbers)

    def span(self, name: str, records: Iterable[Sequence[int]], size: int = 1) -> tuple[int, int]:
        """Append records of `size` numbers, and return their bounds."""
        low = len(self.records[name]) // size
        for record in records:
            self.put(name, *record)
        return low, len(self.records[name]) // size


class _NetworkLowering:
    """Tables under construction."""

    def __init__(self, network: Network, alphabet: Alphabet, every: Carried, windows: GloriaWindows) -> None:
        self.network, self.alphabet, self.windows = network, alphabet, windows
        self.members = network.members
        self.column = {c: i for i, c in enumerate(value_columns(every), 1)}
        self.xcolumn = {c: i for i, c in enumerate(extreme_columns(every), 1)}
        self.tables = _RecordTables()
        self.weights: list[NDArray[np.float64]] = []
        self.weights_end = 0
        self.known: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self.numbers = self.extremes = self.coefficients = 0
        self.blocks = 0
        self._order_lanes()
        self.takers = [self._takers(a) for a in range(len(alphabet))]
        self.rings = [_RingShape(self, r) for r in range(len(network.rings))]
        self._add_blocks()
        self._add_expressions()
        for node in network.nodes:
            self._add_node(node)
        self._add_steps()
        self._add_members()

    # ------------------------------------------------------------ lanes and weights

    def _order_lanes(self) -> None:
        """Order queries such that those that share rare states are adjacent."""
        positions = self.network.plan.positions
        many = Counter(state for states in positions for state in states)
        order = sorted(
            range(len(positions)), key=lambda q: sorted((-many[state], state) for state in positions[q])
        )
        self.lane = np.zeros(len(order), np.int64)
        self.lane[order] = np.cumsum([0, *self.windows.lanes[order]])[:-1]
        self.lanes = int(self.windows.lanes.sum())

    def hull(self, queries: Collection[int]) -> tuple[int, int]:
        """The lanes from the first to the last of some queries, rounded to whole vectors."""
        own = np.array(sorted(queries))
        high = int((self.lane[own] + self.windows.lanes[own]).max())
        return int(self.lane[own].min()) // VECTOR * VECTOR, _whole(high)

    def weight(self, lo: int, hi: int, queries: Collection[int]) -> int:
        """The offset of weights: 1 for the lanes of the queries, and 0 for the others of a hull."""
        key = lo, hi, tuple(sorted(queries))
        if key not in self.known:
            row = np.zeros(hi - lo)
            for q in key[2]:
                row[self.lane[q] - lo : self.lane[q] - lo + self.windows.lanes[q]] = 1.0
            self.known[key] = self.weights_end
            self.weights.append(row)
            self.weights_end += len(row)
        return self.known[key]

    def _takers(self, a: int) -> dict[str, set[int]]:
        """For each state, the queries that can take a symbol there."""
        found: dict[str, set[int]] = {}
        for q, symbol in enumerate(self.alphabet[a]):
            for position in symbol:
                found.setdefault(self.network.plan.positions[q][position], set()).add(q)
        return found

    # ------------------------------------------------------------ blocks

    def block(self, queries: Collection[int], copies: int = 1) -> int:
        """Allocate values of some queries: numbers and extremes, lane by lane."""
        lo, hi = self.hull(queries)
        size = hi - lo
        width = max(self.members[q].carried.width for q in queries)
        extremes = max(len(self.members[q].carried.extremes) for q in queries)
        self.tables.put("blocks", self.numbers, self.extremes, lo, size, width, extremes)
        self.numbers += copies * size * width
        self.extremes += copies * size * extremes
        self.blocks += 1
        return self.blocks - 1

    def _add_blocks(self) -> None:
        network = self.network
        self.inbox = {state: self.block(queries) for state, queries in network.inboxes.items()}
        self.inbox[END] = self.block(range(len(self.members)))
        self.values = [self.block(node.queries) if self._has_values(node) else -1 for node in network.nodes]
        self.gains = [self.block(node.queries) if self._has_values(node) else -1 for node in network.nodes]

    def _has_values(self, node: NetworkNode) -> bool:
        return bool(node.valued) or any(self._uneven(self.network.bundles[b]) for b in node.bundles.values())

    def _uneven(self, bundle: QueryBundle) -> set[int]:
        """The symbols that only some queries of a bundle can take."""
        state, own = self.network.nodes[bundle.node].state, set(bundle.queries)
        met = [(a, own & takers.get(state, set())) for a, takers in enumerate(self.takers)]
        return {a for a, some in met if some and some != own}

    # ------------------------------------------------------------ expressions

    def _add_expressions(self) -> None:
        """Rows, lists, rings, bundles."""
        network, tables = self.network, self.tables
        self.row_size = [shape.rows() * shape.cap for shape in self.rings]
        for ring in network.rows:
            self._add_row(ring)
        for number in range(len(network.lists)):
            self._add_list(number)
        slots = 0
        for r, shape in enumerate(self.rings):
            queries = network.rings[r][1]
            held = [i for i, ring in enumerate(network.rows) if ring == r and i not in shape.passing]
            lists = [i for i, each in enumerate(network.lists) if each.ring == r]
            tables.put(
                "rings",
                *(self.block(queries, shape.cap), shape.cap, len(shape.phis), len(shape.psis), slots),
                *(self.block(queries, shape.folded), shape.reserve, 0),
                *tables.span("ring_rows", ([i] for i in held)),
                *tables.span("ring_lists", ([i] for i in lists)),
                *tables.span("ring_members", ([q] for q in queries)),
                *tables.span("fed", ([row] for row in network.fed[r])),
                *tables.span("phis", shape.phi_weights(), program.PHI),
                *(tables.put("lane_phis", *shape.lane_phis()), tables.put("lane_psis", *shape.lane_psis())),
                *(0, 0),
            )
            slots += shape.cap
        self.slots = slots
        for bundle in network.bundles:
            self._add_bundle(bundle)

    def _add_row(self, ring: int, copies: int = 1) -> None:
        for _ in range(copies):
            self.tables.put("rows", ring, self.coefficients)
            self.coefficients += self.row_size[ring]

    def _add_list(self, number: int) -> None:
        each, tables = self.network.lists[number], self.tables
        cap = self.list_cap(number)
        if each.ring < 0:
            holders = [q for q in range(len(self.members)) if each.target in self.network.states_of(q)]
            first = self.block(holders, cap)
        else:
            first = len(tables.records["rows"]) // program.ROW
            self._add_row(each.ring, cap)
        tables.put(
            "lists",
            *(each.ring, cap, self._entries_before(number), first),
            *tables.span("conditions", ([c] for c in each.conditions)),
            *tables.span("list_members", ([q] for q in each.queries)),
        )

    def list_cap(self, number: int) -> int:
        """The maximum number of entries in any window."""
        each = self.network.lists[number]
        own = set(each.queries)
        symbols = [a for a, takers in enumerate(self.takers) if own & takers.get(each.source, set())]
        return self.windows.most(symbols, each.queries) * self.keepers(number) + 1

    def keepers(self, number: int) -> int:
        """How many nodes store an event in a list; each stores its own lanes."""
        return max(1, sum(number in node.keeps for node in self.network.nodes))

    def _entries_before(self, number: int) -> int:
        return sum(self.list_cap(i) for i in range(number))

    def _add_bundle(self, bundle: QueryBundle) -> None:
        tables, shape = self.tables, self.rings[bundle.read.ring]
        lo, hi = self.hull(bundle.queries)
        state = self.network.nodes[bundle.node].state
        fed = [*(phi.get(state, -1) for phi in shape.phis), *(psi.get(state, -1) for psi in shape.psis)]
        tables.put(
            "bundles",
            *(bundle.read.ring, bundle.read.total, bundle.sum),
            self.block(bundle.queries) if self._uneven(bundle) else -1,
            *tables.span("targets", ([row] for row in sorted(bundle.targets, key=bundle.read.row.__eq__))),
            *tables.span("bundle_lists", ([i] for i in bundle.lists)),
            *(tables.put("columns", *fed), lo, hi, self.weight(lo, hi, bundle.queries)),
        )

    # ------------------------------------------------------------ nodes

    def _add_node(self, node: NetworkNode) -> None:
        tables, number = self.tables, len(self.tables.records["nodes"]) // program.NODE
        lo, hi = self.hull(node.queries)
        reads = []
        for read in node.reads.values():
            lists = tables.span("lists_read", ([i] for i in read.lists))
            reads.append((read.row, read.total, read.ring, *lists))
        low = tables.span("reads", reads, program.READ)
        bundles = list(node.bundles.values())
        tables.put(
            "nodes",
            *(self.inbox.get(node.state, -1), self.values[number], self.gains[number]),
            *low,
            *tables.span("lists_read", ([i] for i in node.lists)),
            *tables.span("feeds", self._feeds(node, lo, hi), program.FEED),
            *tables.span("xfeeds", self._xfeeds(node, lo, hi), program.FEED),
            *tables.span(
                "pushes", (self._part(self.inbox[to], own) for to, own in node.pushes.items()), program.PUSH
            ),
            *tables.span("pours", (self._part(r, own) for r, own in node.pours.items()), program.PUSH),
            *((bundles[0], bundles[-1] + 1) if bundles else (0, 0)),
        )

    def _part(self, target: int, queries: Collection[int]) -> tuple[int, int, int, int]:
        lo, hi = self.hull(queries)
        return target, lo, hi, self.weight(lo, hi, queries)

    def _feeds(self, node: NetworkNode, lo: int, hi: int) -> list[tuple[int, int, int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for q in node.queries:
            for w, columns in enumerate(self.number_columns(q), 1):
                if node.state in columns:
                    found.setdefault((w, columns[node.state]), []).append(q)
        return [(w, column, self.weight(lo, hi, own)) for (w, column), own in found.items()]

    def _xfeeds(self, node: NetworkNode, lo: int, hi: int) -> list[tuple[int, int, int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for q in node.queries:
            for y, columns in enumerate(self.extreme_columns(q)):
                if node.state in columns:
                    found.setdefault((y, columns[node.state]), []).append(q)
        return [(y, column, self.weight(lo, hi, own)) for (y, column), own in found.items()]

    def number_columns(self, q: int) -> list[dict[str, int]]:
        """For each number of a query but the count: the column it reads at each state."""
        states = self.network.plan.positions[q]
        return [
            {
                states[p]: 0 if number.attribute is None else self.column[number.measure, number.attribute]
                for p in number.positions
            }
            for number in self.members[q].carried.numbers
        ]

    def extreme_columns(self, q: int) -> list[dict[str, int]]:
        """The same for extremes."""
        states = self.network.plan.positions[q]
        return [
            {states[p]: self.xcolumn[extreme.attribute, extreme.is_max] for p in extreme.positions}
            for extreme in self.members[q].carried.extremes
        ]

    # ------------------------------------------------------------ symbols

    def _add_steps(self) -> None:
        tables = self.tables
        at: dict[str, list[int]] = {}
        for i, node in enumerate(self.network.nodes):
            at.setdefault(node.state, []).append(i)
        for takers in self.takers:
            tables.put("lists_met", *tables.span("lists_of", self._lists_of(takers, at)))
            tables.put("steps", len(tables.records["ops"]) // program.OP)
            for state, queries in takers.items():
                for i in at[state]:
                    if queries.intersection(self.network.nodes[i].queries):
                        self._add_op(i, queries.intersection(self.network.nodes[i].queries))
        tables.put("steps", len(tables.records["ops"]) // program.OP)

    def _lists_of(self, takers: dict[str, set[int]], at: dict[str, list[int]]) -> list[list[int]]:
        """The lists that an event reads at any node."""
        nodes = [self.network.nodes[i] for state in takers for i in at[state]]
        read = [i for node in nodes if takers[node.state].intersection(node.queries) for i in _listed(node)]
        return [[i] for i in dict.fromkeys(read)]

    def _add_op(self, number: int, takers: set[int]) -> None:
        node, tables = self.network.nodes[number], self.tables
        even: list[int] = []
        uneven: list[int] = []
        for b in node.bundles.values():
            queries = self.network.bundles[b].queries
            some = takers.intersection(queries)
            if some:
                (even if len(some) == len(queries) else uneven).append(b)
        valued = takers & node.valued.union(*(self.network.bundles[b].queries for b in uneven))
        weight = self.weight(*self.hull(node.queries), valued) if valued else -1
        tables.put(
            "ops",
            *(number, weight, sum(int(self.windows.lanes[q]) for q in valued) if node.reads else 0),
            *tables.span("uses", ([b] for b in even)),
            *tables.span("uses", ([b] for b in uneven)),
            *tables.span(
                "keeps",
                (self._part(i, own) for i, own in node.keeps.items() if takers.intersection(own)),
                program.PUSH,
            ),
        )

    # ------------------------------------------------------------ members

    def _add_members(self) -> None:
        tables, network = self.tables, self.network
        for q, member in enumerate(self.members):
            states = network.states_of(q)
            first = member.machine.automaton.first
            tables.put(
                "members",
                *(self.lane[q], self.windows.lanes[q], self.windows.starts[q], self.windows.starts[q + 1]),
                *(member.carried.width, len(member.carried.extremes)),
                *tables.span("member_starts", ([self.inbox[s]] for s, p in states.items() if p in first)),
                *tables.span("member_blocks", ([self.inbox[s]] for s in (*states, END) if s in self.inbox)),
                *tables.span("member_rings", ([r] for r, (_, own) in enumerate(network.rings) if q in own)),
                *tables.span(
                    "member_lists",
                    ([i] for i, each in enumerate(network.lists) if each.ring < 0 and q in each.queries),
                ),
                *tables.span("member_ends", ([row] for row in network.ends.get(q, ()))),
            )
        for low, high in zip(self.windows.low, self.windows.high, strict=True):
            tables.put("windows", low, high)

    # ------------------------------------------------------------ all of it

    def done(self) -> LoweredNetwork:
        """One array after the other, behind a header."""
        records = self.tables.records
        rows = len(records["rows"]) // program.ROW
        self._place_floats(rows)
        work = self._work()
        header, end, used = [], HEADER, program.TALLIES
        for name in TABLES:
            if name in work:
                header.append(used)
                used += work[name]
            else:
                header.append(end)
                end += len(records[name])
        header = [place + end if name in work else place for name, place in zip(TABLES, header, strict=True)]
        bounds = self.numbers + self.extremes + self.coefficients
        header += [len(self.members), len(self.network.rings), len(self.network.lists), self.blocks, rows]
        header += [self.inbox[END], bounds, end]
        parts: list[Any] = [header, *(records[name] for name in TABLES if name not in work)]
        return LoweredNetwork(
            np.concatenate([np.array(part, np.int64) for part in parts]),
            np.concatenate([*self.weights, np.zeros(0)]),
            self.numbers,
            self.extremes,
            self.extremes + self.coefficients + self.blocks + rows,
            used,
        )

    def _work(self) -> dict[str, int]:
        """The size of each part of the work array."""
        network = self.network
        entries = self._entries_before(len(network.lists))
        return {
            "first": 2 * len(self.members),
            "oldest": len(self.members),
            "far": self.blocks,
            "dirty": len(network.nodes),
            "touched": len(network.nodes),
            "adding": 2 * len(network.bundles),
            "ring_work": program.RING_STATE * len(network.rings),
            "slots": self.slots,
            "list_work": 2 * len(network.lists),
            "entries": program.ENTRY * entries,
            "matched": entries,
            "found": len(network.lists),
        }

    def _place_floats(self, rows: int) -> None:
        """Place extremes, coefficients, bounds and weights after the numbers."""
        self._shift("blocks", program.BLOCK, program.BLOCK_XBASE, self.numbers)
        self._shift("rows", program.ROW, 1, self.numbers + self.extremes)
        weights = self.numbers + self.extremes + self.coefficients + self.blocks + rows
        for name, size, place in (
            ("ops", program.OP, program.OP_WEIGHT),
            ("feeds", program.FEED, 2),
            ("xfeeds", program.FEED, 2),
            ("pushes", program.PUSH, 3),
            ("pours", program.PUSH, 3),
            ("keeps", program.PUSH, 3),
            ("bundles", program.BUNDLE, program.BUNDLE_HULL + 2),
            ("phis", program.PHI, 2),
        ):
            self._shift(name, size, place, weights)

    def _shift(self, name: str, size: int, place: int, by: int) -> None:
        own = self.tables.records[name]
        for i in range(place, len(own), size):
            if own[i] >= 0:
                own[i] += by


class _RingShape:
    """The dimensions of a ring."""

    def __init__(self, lowering: _NetworkLowering, ring: int) -> None:
        network = lowering.network
        state, self.queries = network.rings[ring]
        self.lowering = lowering
        bundles = [bundle for bundle in network.bundles if bundle.read.ring == ring]
        handed_on = {network.nodes[bundle.node].state for bundle in bundles}
        self.passing = {bundle.sum for bundle in bundles}
        for node in network.nodes:
            read = node.reads.get(ring)
            if read is not None and read.total != read.row:
                self.passing.add(read.total)
        self.phi = [
            [_restricted(columns, handed_on) for columns in lowering.number_columns(q)] for q in self.queries
        ]
        self.psi = [
            [_restricted(columns, handed_on) for columns in lowering.extreme_columns(q)] for q in self.queries
        ]
        self.phis = _distinct(self.phi)
        self.psis = _distinct(self.psi)
        own = set(self.queries)
        makers = {a for a, takers in enumerate(lowering.takers) if own & takers.get(state, set())}
        makers = makers.union(*(lowering._uneven(bundle) for bundle in bundles))
        lists = [i for i, each in enumerate(network.lists) if each.ring == ring]
        held = sum(each == ring for each in network.rows) - len(self.passing)
        self.folded = held + sum(lowering.list_cap(i) for i in lists)
        self.reserve = 1 + len(bundles) + lowering.windows.tied * sum(map(lowering.keepers, lists))
        most = lowering.windows.most(sorted(makers), self.queries)
        self.cap = _whole(min(most + 1, MOST_SNAPSHOTS) + self.folded + 2 * self.reserve)

    def rows(self) -> int:
        """The number of coefficients per snapshot."""
        return 1 + len(self.phis) + len(self.psis)

    def phi_weights(self) -> list[tuple[int, int, int]]:
        """For each number and σ row, its queries."""
        found: dict[tuple[int, int], list[int]] = {}
        for q, own in zip(self.queries, self.phi, strict=True):
            for w, columns in enumerate(own, 1):
                if columns:
                    found.setdefault((w, self.phis.index(columns)), []).append(q)
        lo, hi = self.lowering.hull(self.queries)
        return [(w, phi, self.lowering.weight(lo, hi, own)) for (w, phi), own in found.items()]

    def lane_phis(self) -> list[int]:
        """The σ row of each number and lane, or -1."""
        width = max(self.lowering.members[q].carried.width for q in self.queries)
        return self._by_lane(width, [[{}, *own] for own in self.phi], self.phis)

    def lane_psis(self) -> list[int]:
        """The μ row of each extreme and lane, or -1."""
        extremes = max(len(self.lowering.members[q].carried.extremes) for q in self.queries)
        return self._by_lane(extremes, self.psi, self.psis)

    def _by_lane(
        self, many: int, columns: list[list[dict[str, int]]], rows: list[dict[str, int]]
    ) -> list[int]:
        lo, hi = self.lowering.hull(self.queries)
        found = np.full((many, hi - lo), -1, np.int64)
        for q, own in zip(self.queries, columns, strict=True):
            at = self.lowering.lane[q] - lo
            for i, each in enumerate(own):
                found[i, at : at + self.lowering.windows.lanes[q]] = rows.index(each) if each else -1
        return [int(number) for number in found.reshape(-1)]


def _listed(node: NetworkNode) -> list[int]:
    return [*node.lists, *(i for read in node.reads.values() for i in read.lists)]


def _restricted(columns: dict[str, int], states: set[str]) -> dict[str, int]:
    return {state: column for state, column in columns.items() if state in states}


def _distinct(groups: list[list[dict[str, int]]]) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    for group in groups:
        found += [each for each in group if each and each not in found]
    return found


def _whole(lanes: int) -> int:
    return -(-lanes // VECTOR) * VECTOR
