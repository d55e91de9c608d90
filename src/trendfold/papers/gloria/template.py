"""Automata -> GLORIA's template: states shared by queries, without cycles except those of Kleene plus.

A *unit* is a state, or all states of one Kleene sub-pattern. Queries share a Kleene sub-pattern only if it is
identical in each (Section 7.1), so it is a separate unit from the same types in a sequence. A unit has as
many copies as the order of types requires: SEQ(A, B) and SEQ(B, A) have A or B at two states.

Sets of queries are bits of an int: query k is bit 1 << k.

Source: GLORIA (SIGMOD 2022), Sections 2.2 and 7.1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trendfold.automaton.glushkov import END, START, Automaton

Transition = tuple[str, str]


@dataclass(frozen=True, slots=True)
class GloriaTemplate:
    """The merged automata of a workload; `Mapping[..., int]` are sets of queries.

    types        the event type of every state; states are in topological order
    positions    for each query, the state of every position of its automaton
    transitions  the queries that go from one state to another
    starts       the queries whose trends begin at a state
    ends         and end there
    cycles       the states of each Kleene sub-pattern
    alike        for transitions with adjacency predicates, the sets of queries that may share: those with
                 equal predicates; all queries if the transition is missing
    """

    types: Mapping[str, str]
    positions: tuple[tuple[str, ...], ...]
    transitions: Mapping[Transition, int]
    starts: Mapping[str, int]
    ends: Mapping[str, int]
    cycles: tuple[tuple[str, ...], ...]
    alike: Mapping[Transition, tuple[int, ...]]

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states."""
        return tuple(self.types)


def bits(queries: int) -> Iterator[int]:
    """The numbers of the queries of a set, ascending."""
    while queries:
        low = queries & -queries
        yield low.bit_length() - 1
        queries ^= low


Compared = Callable[[int, int, int], Hashable]
"""The adjacency predicates of a query between two of its positions; equal for equal predicates."""


def make_template(
    automata: Sequence[Automaton | None], compared: Compared = lambda query, p, q: None
) -> GloriaTemplate:
    """The template of all queries, placed one after the other; None is a query that is gone."""
    units = _Units()
    positions = tuple(units.place(automaton) if automaton else () for automaton in automata)
    transitions: dict[Transition, int] = {}
    kinds: dict[Transition, dict[Hashable, int]] = {}
    ends: dict[int, dict[str, int]] = {START: {}, END: {}}
    for query, (automaton, at) in enumerate(zip(automata, positions, strict=True)):
        for p, q in sorted(automaton.edges) if automaton else ():
            if p == START or q == END:
                side = ends[START if p == START else END]
                state = at[q] if p == START else at[p]
                side[state] = side.get(state, 0) | 1 << query
                continue
            edge = at[p], at[q]
            transitions[edge] = transitions.get(edge, 0) | 1 << query
            own = kinds.setdefault(edge, {})
            own[compared(query, p, q)] = own.get(compared(query, p, q), 0) | 1 << query
    order = {state: i for i, state in enumerate(units.in_order())}
    return GloriaTemplate(
        {state: units.types[state] for state in order},
        positions,
        {e: transitions[e] for e in sorted(transitions, key=lambda e: (order[e[0]], order[e[1]]))},
        ends[START],
        ends[END],
        tuple(unit.states for unit in units.units if unit.is_cycle),
        {edge: tuple(own.values()) for edge, own in kinds.items() if len(own) > 1},
    )


@dataclass(slots=True)
class _Unit:
    """A state, or the states of a Kleene sub-pattern; `before` and `after` are sets of units as bits."""

    states: tuple[str, ...]
    is_cycle: bool
    before: int = 0
    after: int = 0


@dataclass(slots=True)
class _Units:
    """The template under construction."""

    units: list[_Unit] = field(default_factory=list)
    copies: dict[Hashable, list[int]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)

    def place(self, automaton: Automaton) -> tuple[str, ...]:
        """The state of every position, except positions inside NOT."""
        at = [""] * len(automaton.positions)
        unit_of: dict[int, int] = {}
        for own in components(automaton):
            sources = {unit_of[p] for q in own for p in automaton.sources(q) if p in unit_of}
            unit = self._find(automaton, own, sources, set(unit_of.values()))
            for place, state in zip(own, self.units[unit].states, strict=True):
                unit_of[place], at[place] = unit, state
            for source in sources:
                self._connect(source, unit)
        return tuple(at)

    def _find(self, automaton: Automaton, own: tuple[int, ...], sources: set[int], used: set[int]) -> int:
        """The first copy that the query has not used, and that does not lead back to its sources."""
        inner = frozenset((own.index(p), own.index(q)) for p in own for q in automaton.targets(p) if q in own)
        key = tuple(automaton.positions[p].label for p in own), inner
        for unit in self.copies.setdefault(key, []):
            if unit not in used and not any(self.units[unit].after >> s & 1 for s in sources):
                return unit
        states = tuple(self._name(type_) for type_ in key[0])
        self.units.append(_Unit(states, bool(inner)))
        self.copies[key].append(len(self.units) - 1)
        return len(self.units) - 1

    def _name(self, type_: str) -> str:
        self.named[type_] = count = self.named.get(type_, 0) + 1
        state = type_ if count == 1 else f"{type_}:{count}"
        self.types[state] = type_
        return state

    def _connect(self, source: int, target: int) -> None:
        if self.units[source].after >> target & 1:
            return
        before = self.units[source].before | 1 << source
        after = self.units[target].after | 1 << target
        for unit in bits(before):
            self.units[unit].after |= after
        for unit in bits(after):
            self.units[unit].before |= before

    def in_order(self) -> list[str]:
        """All states in topological order of their units."""
        order = sorted(range(len(self.units)), key=lambda u: (self.units[u].before.bit_count(), u))
        return [state for unit in order for state in self.units[unit].states]


def components(automaton: Automaton) -> list[tuple[int, ...]]:
    """The positive positions in topological order, grouped by strongly connected component."""
    places = [p.index for p in automaton.positive]
    reach = {p: {q for q in automaton.targets(p) if q >= 0} for p in places}
    for through in places:
        for p in places:
            if through in reach[p]:
                reach[p] |= reach[through]
    found: dict[int, tuple[int, ...]] = {}
    for p in places:
        if p not in found:
            own = tuple(q for q in places if q == p or (q in reach[p] and p in reach[q]))
            found |= dict.fromkeys(own, own)
    distinct = list(dict.fromkeys(found[p] for p in places))
    ahead = {own: len(reach[own[0]].difference(own)) for own in distinct}
    return sorted(distinct, key=lambda own: -ahead[own])
