"""Lower a family of lines, with its symbols, to the arrays of `papers.aseq.marks`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from trendfold.automaton.machine import Symbol
from trendfold.kernel.lower import extreme_columns, value_columns
from trendfold.kernel.program import Ints
from trendfold.papers.aseq.marks import ADD, LEAST, OWN, RESET, RESET_LEAST, VALUE, PrefixProgram
from trendfold.papers.aseq.prefixes import Barred, CounterReading, ExpiryFamily, LineElement, Link
from trendfold.plan.carried import Carried, Measure


@dataclass(frozen=True, slots=True)
class _Rider:
    """An aggregate carried with a count: a measure of an attribute, or its minimum (maximum if negated)."""

    what: tuple[Measure, str | None] | tuple[str, bool]
    places: frozenset[int]

    def between(self, low: int, high: int) -> _Rider:
        """The part that places low, ..., high - 1 contribute, renumbered from 0."""
        return _Rider(self.what, frozenset(p - low for p in self.places if low <= p < high))

    @property
    def is_extreme(self) -> bool:
        return not isinstance(self.what[0], Measure)


_COUNT = _Rider((Measure.BINDINGS, None), frozenset())
"""The count itself: no place contributes values, and it is always present."""


def lower_prefixes(
    family: ExpiryFamily, carried: Sequence[Carried], columns: Carried, alphabet: Sequence[Sequence[Symbol]]
) -> PrefixProgram:
    """The program of a family; `carried` and each symbol are by member, `columns` is what events hold."""
    lowering = _PrefixLowering(family, carried, columns)
    per_symbol = [lowering.operations(symbols) for symbols in alphabet]
    starts = [
        [
            t
            for t, tree in enumerate(family.trees)
            if takes(tree.nodes[0].step.element, tree.nodes[0].member, s)
        ]
        for s in alphabet
    ]
    bars = [
        [t for t, tree in enumerate(family.trees) if _takes_any(tree.opening, tree.nodes[0].member, s)]
        for s in alphabet
    ]
    joins = [[i for i, link in enumerate(family.links) if link.into == t] for t in range(len(family.trees))]
    roots, low_roots = lowering.roots()
    joints = [*map(lowering.link, range(len(family.links))), *map(lowering.reading, family.readings)]
    terms = [term for joint in joints for term in joint.terms]
    return PrefixProgram(
        op_start=csr_starts(per_symbol),
        op=_table(per_symbol, 6),
        start_start=csr_starts(starts),
        start=_table(starts, 1).reshape(-1),
        is_slow=np.array(
            [
                bool(barred)
                or any(_is_slow(joints[link]) for t in begun for link in joins[t])
                or any(op[0] not in (ADD, VALUE) for op in ops)
                for begun, barred, ops in zip(starts, bars, per_symbol, strict=True)
            ],
            np.bool_,
        ),
        bar_start=csr_starts(bars),
        bar=_table(bars, 1).reshape(-1),
        root_start=csr_starts(roots),
        root=_table(roots, 2),
        low_root_start=csr_starts(low_roots),
        low_root=_table(low_roots, 2),
        entry_start=csr_starts(lowering.by_tree(is_extreme=False)),
        low_start=csr_starts(lowering.by_tree(is_extreme=True)),
        is_joined=np.array([bool(links) for links in joins], np.bool_),
        join_start=csr_starts(joins),
        join=_table(joins, 1).reshape(-1),
        before=int32s(joint.before for joint in joints),
        tree=int32s(joint.tree for joint in joints),
        origin=int32s(joint.origin for joint in joints),
        gate=int32s(joint.gate for joint in joints),
        out_start=csr_starts([joint.terms for joint in joints]),
        term_start=csr_starts(terms),
        term=_table(terms, 2),
        low_out_start=csr_starts([joint.extremes for joint in joints]),
        low_out=_table([joint.extremes for joint in joints], 2),
        links=len(family.links),
        deepest=max(node.depth for tree in family.trees for node in tree.nodes),
    )


def takes(element: LineElement, member: int, symbols: Sequence[Symbol]) -> bool:
    """Whether an event of some symbol can take the place of an element."""
    return element.position in symbols[member]


def _takes_any(barred: Barred, member: int, symbols: Sequence[Symbol]) -> bool:
    return any(takes(element, member, symbols) for element in barred)


@dataclass(frozen=True, slots=True)
class _Joint:
    """A link or a reading: see `PrefixProgram`."""

    before: int
    tree: int
    origin: int
    gate: int
    terms: list[list[tuple[int, int]]]
    extremes: list[tuple[int, int]]


def _is_slow(link: _Joint) -> bool:
    """Whether the snapshots of a link are more than copies of counters."""
    return link.before >= 0 or bool(link.extremes)


@dataclass(slots=True)
class _PrefixLowering:
    """Entries of a family: which riders each node has, for the queries that pass it, and their numbers."""

    family: ExpiryFamily
    carried: Sequence[Carried]
    columns: Carried
    riders: dict[tuple[int, int], dict[_Rider, None]] = field(default_factory=dict)
    """By (tree, node), COUNT first."""
    kept: dict[int, dict[_Rider, None]] = field(default_factory=dict)
    """The riders in each link's snapshots, by places of the whole line; COUNT first."""
    entry: dict[tuple[int, int, _Rider], int] = field(default_factory=dict)
    number: dict[tuple[int, _Rider], int] = field(default_factory=dict)
    """The number of each link's rider among those of all links."""
    named: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    """The (tree, node)s of each member's position."""

    def __post_init__(self) -> None:
        for t, tree in enumerate(self.family.trees):
            for n, node in enumerate(tree.nodes):
                self.riders[t, n] = {_COUNT: None}
                for element in (node.step.element, *node.step.barred):
                    self.named.setdefault((node.member, element.position), []).append((t, n))
        self.kept = {link: {_COUNT: None} for link in range(len(self.family.links))}
        for reading in self.family.readings:
            for rider in self.of_member(reading):
                self._ride(reading, rider)
        for is_extreme in (False, True):
            found = [key for group in self.by_tree(is_extreme=is_extreme) for key in group]
            self.entry |= {key: i for i, key in enumerate(found)}
            held = [
                (link, rider)
                for link, riders in self.kept.items()
                for rider in riders
                if rider.is_extreme == is_extreme
            ]
            self.number |= {key: i for i, key in enumerate(held)}

    def of_member(self, reading: CounterReading) -> list[_Rider]:
        """The aggregates that a query carries: COUNT, then its numbers and extremes in order."""
        place = {position: i for i, position in enumerate(reading.positions)}
        carried = self.carried[reading.member]
        numbers = [
            _Rider((n.measure, n.attribute), frozenset(map(place.__getitem__, n.positions)))
            for n in carried.numbers
        ]
        extremes = [
            _Rider((x.attribute, x.is_max), frozenset(map(place.__getitem__, x.positions)))
            for x in carried.extremes
        ]
        return [_COUNT, *numbers, *extremes]

    def _ride(self, reading: CounterReading, rider: _Rider) -> None:
        """Note a rider at every node and link that its query passes, as far as it is fed by then."""
        low = 0
        for tree, end in self.family.pieces(reading):
            path = self.family.trees[tree].path(end)
            for depth, node in enumerate(path):
                self._note(self.riders[tree, node], rider.between(low, low + depth + 1))
            low += len(path)
        for link, cut in zip(self._links(reading), reading.cuts, strict=True):
            self._note(self.kept[link], rider.between(0, cut))

    def _note(self, riders: dict[_Rider, None], part: _Rider) -> None:
        if part.places:
            riders[part] = None

    def _links(self, reading: CounterReading) -> list[int]:
        found = []
        at = reading.link
        while at >= 0:
            found.append(at)
            at = self.family.links[at].before
        return found[::-1]

    def by_tree(self, *, is_extreme: bool) -> list[list[tuple[int, int, _Rider]]]:
        """The entries of each tree, for numbers or extremes, in node order."""
        return [
            [
                (t, n, r)
                for n in range(len(tree.nodes))
                for r in self.riders[t, n]
                if r.is_extreme == is_extreme
            ]
            for t, tree in enumerate(self.family.trees)
        ]

    def column(self, rider: _Rider) -> int:
        """The value column of a rider; -1 if every event contributes 1."""
        if rider.is_extreme:
            return 1 + extreme_columns(self.columns).index(rider.what)
        return -1 if rider.what[1] is None else 1 + value_columns(self.columns).index(rider.what)

    def operations(self, symbols: Sequence[Symbol]) -> list[tuple[int, ...]]:
        """The operations of an event on all trees: deepest first, and resets before additions."""
        found: list[tuple[int, ...]] = []
        for t, n in self._touched(symbols):
            node = self.family.trees[t].nodes[n]
            for rider in self.riders[t, n]:
                dst = self.entry[t, n, rider]
                if _takes_any(node.step.barred, node.member, symbols):
                    found.append((RESET_LEAST if rider.is_extreme else RESET, t, node.depth, dst, 0, 0))
                if node.parent >= 0 and takes(node.step.element, node.member, symbols):
                    found += self._gather(t, node.parent, node.depth, rider, dst)
        return sorted(found, key=lambda op: (-op[2], op[0] not in (RESET, RESET_LEAST)))

    def _touched(self, symbols: Sequence[Symbol]) -> list[tuple[int, int]]:
        """The (tree, node)s that an event updates or resets."""
        taken = {(member, position) for member, symbol in enumerate(symbols) for position in symbol}
        return sorted({place for key in taken for place in self.named.get(key, ())})

    def _gather(self, tree: int, parent: int, depth: int, rider: _Rider, dst: int) -> list[tuple[int, ...]]:
        """The operations that add to a rider: its value at the previous prefix, and the event's value."""
        count, past = self.entry[tree, parent, _COUNT], rider.between(0, depth)
        found: list[tuple[int, ...]] = []
        if rider is _COUNT or past.places:
            kind = LEAST if rider.is_extreme else ADD
            found.append((kind, tree, depth, dst, self.entry[tree, parent, past], 0))
        if depth in rider.places:
            column = self.column(rider)
            kind = OWN if rider.is_extreme else (ADD if column < 0 else VALUE)
            found.append((kind, tree, depth, dst, count, max(0, column)))
        return found

    def roots(self) -> tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]]:
        """For each tree, the (entry, column)s that a START event sets, for numbers and for extremes."""
        found: tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]] = ([], [])
        for t in range(len(self.family.trees)):
            for side in found:
                side.append([])
            for rider in self.riders[t, 0]:
                found[rider.is_extreme][t].append((self.entry[t, 0, rider], self.column(rider)))
        return found

    def link(self, number: int) -> _Joint:
        """The joint of a link's snapshots."""
        return self._joint(self.family.links[number], list(self.kept[number]))

    def reading(self, reading: CounterReading) -> _Joint:
        """The counters and snapshots from which the result of a query is computed."""
        at = Link(reading.link, reading.tree, reading.node, -1)
        return self._joint(at, self.of_member(reading))

    def _joint(self, at: Link, riders: list[_Rider]) -> _Joint:
        pieces = self.family.pieces(CounterReading(-1, at.before, at.tree, at.node, (), ()))
        low = sum(len(self.family.trees[tree].path(end)) for tree, end in pieces[:-1])
        numbers = [self._terms(at, rider, low) for rider in riders if not rider.is_extreme]
        extremes = [self._sides(at, rider, low) for rider in riders if rider.is_extreme]
        gate = self.entry[at.tree, at.node, _COUNT]
        return _Joint(at.before, at.tree, pieces[0][0], gate, numbers, extremes)

    def _sides(self, at: Link, rider: _Rider, low: int) -> tuple[int, int]:
        """For a rider's parts before and after the cut: its number in snapshots and entry; -1 for none."""
        left, right = rider.between(0, low), rider.between(low, low + 1 + self._depth(at))
        return (
            self.number[at.before, left] if left.places else -1,
            self.entry[at.tree, at.node, right] if right.places else -1,
        )

    def _depth(self, at: Link) -> int:
        return self.family.trees[at.tree].nodes[at.node].depth

    def _terms(self, at: Link, rider: _Rider, low: int) -> list[tuple[int, int]]:
        """The products that sum to a number: (c1, n1) · (c2, n2) = (c1 · c2, n1 · c2 + c1 · n2)."""
        count = self.entry[at.tree, at.node, _COUNT]
        left, right = self._sides(at, rider, low)
        if at.before < 0:
            return [(-1, count if rider is _COUNT else right)]
        counted = self.number[at.before, _COUNT]
        if rider is _COUNT:
            return [(counted, count)]
        return [(left, count)] * (left >= 0) + [(counted, right)] * (right >= 0)


def int32s(values: Iterable[int]) -> Ints:
    """An array of numbers."""
    return np.array(list(values), np.int32)


def csr_starts(groups: Sequence[Sequence[object]]) -> Ints:
    """Where each group begins among all of them, and where the last ends."""
    return int32s(accumulate((len(group) for group in groups), initial=0))


def _table(groups: Iterable[Iterable[object]], width: int) -> Ints:
    """All rows of all groups, concatenated."""
    return np.array([row for group in groups for row in group], np.int32).reshape(-1, width)
