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
    """The template of all queries; None is a query that is gone."""
    units = _Units()
    queries = [_query_of(automaton) if automaton else None for automaton in automata]
    there = [query for query in queries if query is not None]
    units.place_all(there)
    states = units.named(there)
    types = {
        state: type_
        for unit, own in states.items()
        for state, type_ in zip(own, units.units[unit].types, strict=True)
    }
    positions = tuple(
        _states_of(query, len(automaton.positions), states) if query and automaton else ()
        for query, automaton in zip(queries, automata, strict=True)
    )
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
    order = {state: i for i, state in enumerate(types)}
    return GloriaTemplate(
        types,
        positions,
        {e: transitions[e] for e in sorted(transitions, key=lambda e: (order[e[0]], order[e[1]]))},
        ends[START],
        ends[END],
        tuple(own for number, own in states.items() if units.units[number].is_cycle),
        {edge: tuple(own.values()) for edge, own in kinds.items() if len(own) > 1},
    )


Key = tuple[tuple[str, ...], frozenset[tuple[int, int]]]
"""What components must have in common for queries to share them: their types, and the transitions inside."""


@dataclass(slots=True)
class _Unit:
    """A state, or the states of a Kleene sub-pattern; `before` and `after` are sets of units as bits."""

    types: tuple[str, ...]
    is_cycle: bool
    before: int = 0
    after: int = 0


@dataclass(frozen=True)
class _Query:
    """The components of a query's automaton: what each is, and which it leads to. `at` has their units."""

    positions: tuple[tuple[int, ...], ...]
    keys: tuple[Key, ...]
    steps: tuple[tuple[int, int], ...]
    later: tuple[frozenset[int], ...]
    at: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Units:
    """The template under construction.

    Where types come in different orders, one of them needs a copy. The transitions of most queries are placed
    first, and so what few queries have is copied.
    """

    units: list[_Unit] = field(default_factory=list)
    copies: dict[Key, list[int]] = field(default_factory=dict)

    def place_all(self, queries: Sequence[_Query]) -> None:
        """Place all components, those of frequent transitions first."""
        having: dict[tuple[Key, Key], list[tuple[_Query, int, int]]] = {}
        for query in queries:
            for source, target in query.steps:
                step = query.keys[source], query.keys[target]
                having.setdefault(step, []).append((query, source, target))
        for places in sorted(having.values(), key=len, reverse=True):
            for query, source, target in places:
                self._place(query, source)
                self._place(query, target)
        for query in queries:
            for alone in range(len(query.keys)):
                self._place(query, alone)

    def _place(self, query: _Query, own: int) -> None:
        """Place a component at the first copy that the query has not used and that makes no cycle."""
        if own in query.at:
            return
        before = [unit for other, unit in query.at.items() if own in query.later[other]]
        after = [unit for other, unit in query.at.items() if other in query.later[own]]
        query.at[own] = found = self._find(query, own, before, after)
        for unit in before:
            self._connect(unit, found)
        for unit in after:
            self._connect(found, unit)

    def _find(self, query: _Query, own: int, before: Sequence[int], after: Sequence[int]) -> int:
        key = query.keys[own]
        for number in self.copies.setdefault(key, []):
            unit = self.units[number]
            leads_back = any(unit.after >> u & 1 for u in before) or any(unit.before >> u & 1 for u in after)
            if number not in query.at.values() and not leads_back:
                return number
        types, inner = key
        self.units.append(_Unit(types, bool(inner)))
        self.copies[key].append(len(self.units) - 1)
        return len(self.units) - 1

    def _connect(self, source: int, target: int) -> None:
        if self.units[source].after >> target & 1:
            return
        before = self.units[source].before | 1 << source
        after = self.units[target].after | 1 << target
        for unit in bits(before):
            self.units[unit].after |= after
        for unit in bits(after):
            self.units[unit].before |= before

    def in_order(self) -> list[int]:
        """The numbers of all units, in topological order."""
        return sorted(range(len(self.units)), key=lambda u: (self.units[u].before.bit_count(), u))

    def named(self, queries: Sequence[_Query]) -> dict[int, tuple[str, ...]]:
        """The states of each unit, in topological order; `A:2` is the second A, as one reads the queries."""
        count: dict[str, int] = {}
        states: dict[int, tuple[str, ...]] = {}
        for number in dict.fromkeys(query.at[i] for query in queries for i in range(len(query.keys))):
            own = []
            for type_ in self.units[number].types:
                count[type_] = count.get(type_, 0) + 1
                own.append(type_ if count[type_] == 1 else f"{type_}:{count[type_]}")
            states[number] = tuple(own)
        return {number: states[number] for number in self.in_order()}


def _states_of(query: _Query, length: int, states: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    """The state of every position, empty for positions inside NOT."""
    at = [""] * length
    for i, places in enumerate(query.positions):
        for place, state in zip(places, states[query.at[i]], strict=True):
            at[place] = state
    return tuple(at)


def _query_of(automaton: Automaton) -> _Query:
    own = components(automaton)
    number = {p: i for i, places in enumerate(own) for p in places}
    steps = {(number[p], number[q]) for p in number for q in automaton.targets(p) if q in number}
    later: list[frozenset[int]] = [frozenset()] * len(own)
    for i in reversed(range(len(own))):  # components are in topological order
        ahead = [j for source, j in steps if source == i != j]
        later[i] = frozenset(ahead).union(*(later[j] for j in ahead))
    keys = tuple(_key(automaton, places) for places in own)
    return _Query(tuple(own), keys, tuple(sorted((i, j) for i, j in steps if i != j)), tuple(later))


def _key(automaton: Automaton, own: tuple[int, ...]) -> Key:
    inner = frozenset((own.index(p), own.index(q)) for p in own for q in automaton.targets(p) if q in own)
    return tuple(automaton.positions[p].label for p in own), inner


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
