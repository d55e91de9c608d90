"""A sharing plan as a dataflow network of values and expressions.

It does not know lanes or memory: papers.gloria.lower turns it into tables.

    inbox   of a state: the mass, per query and window, that its events may follow, as far as it arrives as
            values. The start of a trend is in it from the beginning of the window.
    ring    the snapshots of one state taken by one Q-set
    row     an expression: a coefficient for every snapshot of a ring
    node    the queries that arrive at a state through the same Q-sets, with a row per ring: the sum of the
            expressions received.
    bundle  queries of a node that forward its row unchanged, without values; if all of them can take the same
            events, that is the whole node, and rows that receive the same sums are one row
    list    events stored individually, because a condition compares an event with the next
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trendfold.automaton.glushkov import Automaton
from trendfold.automaton.predicates import Pairwise
from trendfold.kernel.lower_machine_lanes import LaneMember
from trendfold.papers.gloria import SharingPlan
from trendfold.papers.gloria.valid import Origin, companions, origins

Queries = tuple[int, ...]

END = "⊤"
"""The inbox of whole trends."""


@dataclass(frozen=True)
class List:
    """Stored events of `source`, to be compared with those of `target`; `ring` is -1 if they are values.

    row  the first of its rows: an entry has one unless it is a snapshot itself
    """

    source: str
    target: str
    queries: Queries
    conditions: tuple[int, ...]
    ring: int


@dataclass
class Read:
    """The row and lists of one ring that a node reads; with lists, `total` holds the sum of both."""

    ring: int
    row: int
    total: int
    lists: list[int] = field(default_factory=list)


@dataclass
class QueryBundle:
    """Queries of a node that hand its row on to `targets` and `lists`; `sum` is what a moment adds."""

    node: int
    queries: Queries
    read: Read
    sum: int
    targets: list[int] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)


@dataclass
class NetworkNode:
    """Queries that come to a state the same way, and where the values of its events go.

    valued  queries whose values are needed at every event
    pushes  inboxes, each with the queries that push values into it
    pours   rings, each with the queries of the node that take snapshots there
    keeps   lists of values or snapshots, each with its queries
    """

    state: str
    queries: Queries
    reads: dict[int, Read] = field(default_factory=dict)
    lists: list[int] = field(default_factory=list)
    valued: set[int] = field(default_factory=set)
    pushes: dict[str, list[int]] = field(default_factory=dict)
    pours: dict[int, list[int]] = field(default_factory=dict)
    keeps: dict[int, list[int]] = field(default_factory=dict)
    bundles: dict[tuple[Queries, int], int] = field(default_factory=dict)


@dataclass
class Network:
    """The network; `rows` has the ring of each row, `fed` the rows of each ring that get a new snapshot."""

    members: Sequence[LaneMember]
    plan: SharingPlan
    rings: list[Origin] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    fed: dict[int, list[int]] = field(default_factory=dict)
    nodes: list[NetworkNode] = field(default_factory=list)
    bundles: list[QueryBundle] = field(default_factory=list)
    lists: list[List] = field(default_factory=list)
    conditions: list[Pairwise] = field(default_factory=list)
    ends: dict[int, list[int]] = field(default_factory=dict)
    """The rows of complete trends of each query."""
    inboxes: dict[str, list[int]] = field(default_factory=dict)
    """The queries of each state that has an inbox."""

    def states_of(self, q: int) -> dict[str, int]:
        """The states of a query, and their positions."""
        return {state: p for p, state in enumerate(self.plan.positions[q])}


def connect(plan: SharingPlan, members: Sequence[LaneMember]) -> Network:
    """The network of a valid plan."""
    return _Building(plan, members).network


class _Building:
    """A network under construction."""

    def __init__(self, plan: SharingPlan, members: Sequence[LaneMember]) -> None:
        self.plan, self.members = plan, members
        self.network = Network(members, plan)
        self.ways, self.beside = origins(plan), companions(plan)
        self.ring_of: dict[Origin, int] = {}
        self.list_of: dict[tuple[str, str, Queries | tuple[int, ...], int], int] = {}
        self.numbers: dict[Pairwise, int] = {}
        self.node_of: dict[tuple[str, int], int] = {}
        self.places = [self.network.states_of(q) for q in range(len(members))]
        for state in plan.states:
            self._add_nodes(state, [q for q, places in enumerate(self.places) if state in places])
        for node in range(len(self.network.nodes)):
            self._send(node)
        self._add_inboxes()
        _merge_rows(self.network)

    def _automaton(self, q: int) -> Automaton:
        return self.members[q].machine.automaton

    def _before(self, state: str, q: int) -> list[str]:
        """The predecessor states of a state."""
        return [
            self.plan.positions[q][p] for p in self._automaton(q).sources(self.places[q][state]) if p >= 0
        ]

    def _after(self, state: str, q: int) -> list[str]:
        return [
            self.plan.positions[q][p] for p in self._automaton(q).targets(self.places[q][state]) if p >= 0
        ]

    def _compared(self, source: str, target: str, q: int) -> tuple[int, ...]:
        """The adjacency conditions of a transition, numbered across all queries."""
        predicates = self.members[q].machine.predicates
        found = []
        for i in predicates.between(self.places[q][source], self.places[q][target]):
            alike = Pairwise(predicates.adjacency[i].condition, frozenset(), frozenset())
            if alike not in self.numbers:
                self.numbers[alike] = len(self.network.conditions)
                self.network.conditions.append(alike)
            found.append(self.numbers[alike])
        return tuple(sorted(found))

    # ------------------------------------------------------------ who comes how

    def _add_nodes(self, state: str, queries: Iterable[int]) -> None:
        found: dict[frozenset[tuple[str, Queries, Origin]], list[int]] = {}
        for q in queries:
            ways = {p: self.ways[p, state, q] for p in self._before(state, q)}
            key = frozenset(
                (p, self.beside[p, state, q].queries, way) for p, way in ways.items() if way is not None
            )
            found.setdefault(key, []).append(q)
        for key, own in found.items():
            number = len(self.network.nodes)
            node = NetworkNode(state, tuple(own))
            self.network.nodes.append(node)
            self.node_of |= {(state, q): number for q in own}
            for before, come, way in sorted(key):
                self._add_read(node, before, come, way)
            for q in own:
                for before in self._before(state, q):
                    compared = self._compared(before, state, q)
                    if self.ways[before, state, q] is None and compared:
                        listed = self._list(before, state, compared, -1)
                        if listed not in node.lists:
                            node.lists.append(listed)

    def _add_read(self, node: NetworkNode, before: str, come: Queries, way: Origin) -> None:
        ring = self._ring(way)
        if ring not in node.reads:
            row = self._row(ring)
            node.reads[ring] = Read(ring, row, row)
        read = node.reads[ring]
        compared = self._compared(before, node.state, come[0])
        assert all(self._compared(before, node.state, q) == compared for q in come)
        if compared:
            if read.total == read.row:
                read.total = self._row(ring)
            read.lists.append(self._list(before, node.state, (*compared, -1, *come), ring))

    def _ring(self, way: Origin) -> int:
        if way not in self.ring_of:
            self.ring_of[way] = len(self.network.rings)
            self.network.rings.append(way)
            self.network.fed[self.ring_of[way]] = []
        return self.ring_of[way]

    def _row(self, ring: int) -> int:
        self.network.rows.append(ring)
        return len(self.network.rows) - 1

    def _list(self, source: str, target: str, key: tuple[int, ...], ring: int) -> int:
        """One list per condition for the values of all queries, and per Q-set for expressions."""
        if (source, target, key, ring) not in self.list_of:
            self.list_of[source, target, key, ring] = len(self.network.lists)
            if ring >= 0:
                cut = key.index(-1)
                compared, queries = key[:cut], key[cut + 1 :]
            else:
                compared, queries = key, self._listed(source, target, key)
            self.network.lists.append(List(source, target, queries, compared, ring))
        return self.list_of[source, target, key, ring]

    def _listed(self, source: str, target: str, compared: tuple[int, ...]) -> Queries:
        return tuple(
            q
            for q in range(len(self.members))
            if (source, target, q) in self.ways
            and self.ways[source, target, q] is None
            and self._compared(source, target, q) == compared
        )

    # ------------------------------------------------------------ what goes where

    def _send(self, number: int) -> None:
        node = self.network.nodes[number]
        ways = [(after, q) for q in node.queries for after in self._after(node.state, q)]
        shares = dict.fromkeys((after, self.beside[node.state, after, q]) for after, q in ways)
        for after, share in shares:
            way = self.ways[node.state, after, share.queries[0]]
            if way is None:
                self._send_values(node, after, share.queries[0])
            elif share.snapshot == node.state:
                self._send_snapshots(node, after, share.queries, way)
            else:
                self._hand_on(number, after, share.queries, way)
        self._send_ends(number)

    def _send_values(self, node: NetworkNode, after: str, q: int) -> None:
        node.valued.add(q)
        if compared := self._compared(node.state, after, q):
            node.keeps.setdefault(self._list(node.state, after, compared, -1), []).append(q)
        else:
            node.pushes.setdefault(after, []).append(q)

    def _send_snapshots(self, node: NetworkNode, after: str, come: Queries, way: Origin) -> None:
        ring, own = self._ring(way), [q for q in come if q in node.queries]
        node.valued.update(own)
        if compared := self._compared(node.state, after, come[0]):
            node.keeps[self._list(node.state, after, (*compared, -1, *come), ring)] = own
        else:
            node.pours[ring] = own
            fed = self.network.fed[ring]
            fed += [row for row in self._rows_at(after, come, ring) if row not in fed]

    def _hand_on(self, number: int, after: str, come: Queries, way: Origin) -> None:
        ring, state = self._ring(way), self.network.nodes[number].state
        bundle = self._bundle(number, come, ring)
        if compared := self._compared(state, after, come[0]):
            bundle.lists.append(self._list(state, after, (*compared, -1, *come), ring))
        else:
            bundle.targets += [row for row in self._rows_at(after, come, ring) if row not in bundle.targets]

    def _rows_at(self, after: str, come: Queries, ring: int) -> list[int]:
        """The rows of the nodes a Q-set arrives at."""
        nodes = dict.fromkeys(self.node_of[after, q] for q in come)
        return [self.network.nodes[node].reads[ring].row for node in nodes]

    def _bundle(self, number: int, queries: Queries, ring: int) -> QueryBundle:
        node = self.network.nodes[number]
        key = (node.queries if self._is_even(node) else queries), ring
        if key not in node.bundles:
            node.bundles[key] = len(self.network.bundles)
            read = node.reads[ring]
            self.network.bundles.append(QueryBundle(number, key[0], read, self._row(ring)))
        return self.network.bundles[node.bundles[key]]

    def _is_even(self, node: NetworkNode) -> bool:
        """Whether all queries of a node can take the same events."""
        local = {
            frozenset(self.members[q].machine.predicates.wanted_at(self.places[q][node.state]))
            for q in node.queries
        }
        return len(local) == 1

    def _send_ends(self, number: int) -> None:
        """Whole trends: values where an event has them, otherwise an expression until windows close."""
        node = self.network.nodes[number]
        ending = [q for q in node.queries if self.places[q][node.state] in self._automaton(q).last]
        as_rows = [q for q in ending if q not in node.valued and self._is_pure(node, q)]
        values = [q for q in ending if q not in as_rows]
        if values:
            node.valued.update(values)
            node.pushes[END] = values
        if as_rows:
            (ring,) = node.reads
            bundle, row = self._bundle(number, tuple(as_rows), ring), self._row(ring)
            bundle.targets.append(row)
            for q in as_rows:
                self.network.ends.setdefault(q, []).append(row)

    def _is_pure(self, node: NetworkNode, q: int) -> bool:
        """Whether a node receives one expression for a query, and no values."""
        before = self._before(node.state, q)
        starts = self.places[q][node.state] in self._automaton(q).first
        return not starts and len(node.reads) == 1 and all(self.ways[p, node.state, q] for p in before)

    def _add_inboxes(self) -> None:
        for state in self.plan.states:
            queries = [q for q, places in enumerate(self.places) if state in places]
            is_fed = any(state in node.pushes for node in self.network.nodes)
            if is_fed or any(self.places[q][state] in self._automaton(q).first for q in queries):
                self.network.inboxes[state] = queries


def _merge_rows(network: Network) -> None:
    """Merge rows to which the same is added: where queries part, their common past is one row."""
    fed_by: dict[int, list[int]] = {row: [] for row in range(len(network.rows))}
    for number, bundle in enumerate(network.bundles):
        for row in bundle.targets:
            fed_by[row].append(number)
    own = {bundle.sum for bundle in network.bundles}
    own |= {read.total for node in network.nodes for read in node.reads.values() if read.total != read.row}
    first: dict[object, int] = {}
    number_of: dict[int, int] = {}
    rings: list[int] = []
    for row, ring in enumerate(network.rows):
        key = row if row in own else (ring, tuple(fed_by[row]), row in network.fed[ring])
        if key not in first:
            first[key] = len(rings)
            rings.append(ring)
        number_of[row] = first[key]
    network.rows = rings
    for rows in (*network.fed.values(), *network.ends.values(), *(b.targets for b in network.bundles)):
        rows[:] = dict.fromkeys(number_of[row] for row in rows)
    for bundle in network.bundles:
        bundle.sum = number_of[bundle.sum]
    for node in network.nodes:
        for read in node.reads.values():
            read.row, read.total = number_of[read.row], number_of[read.total]
