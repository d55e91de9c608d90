"""The linear machine: its states, and how one event updates the counts they hold.

A state is a place (a position, ⊥ or ⊤) together with a *class*: how far the NOT on the place's outgoing
edges has matched since a trend reached the place. A state's *mass* is the count, and carried aggregates, of
the trends that are there. An event updates the vector of masses linearly, in a way that depends only on the
set of positions it can take: its *symbol*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trendfold.automaton.glushkov import END, START, Automaton, Guard
from trendfold.automaton.predicates import Predicates
from trendfold.query.nodes import Semantics

Symbol = frozenset[int]
"""The positions, negated ones included, that an event can take."""

MAX_CLASSES = 64
"""With more classes than this, a guard is checked by the latest start of its trends instead."""


@dataclass(frozen=True, slots=True)
class Classes:
    """The possible progress of N since a binding: sets of N's positions reached; the last is `broken`.

    Under skip-till-any, reached positions stay reached, so these sets only grow; `sets` is ordered by
    size, and every transition goes to a higher number.
    """

    guard: Guard
    sets: tuple[frozenset[int], ...]

    @property
    def broken(self) -> int:
        """The class in which N has matched: its mass must not cross, and no event leaves it."""
        return len(self.sets)

    def reached(self, cls: int, symbol: Symbol) -> frozenset[int]:
        """N's positions that an event with this symbol reaches from class `cls`."""
        here = self.sets[cls]
        return frozenset(
            r
            for r in symbol.intersection(self.guard.positions)
            if r in self.guard.first or any((s, r) in self.guard.edges for s in here)
        )

    def after(self, cls: int, reached: frozenset[int]) -> int:
        """The class after a moment whose events reached these positions."""
        if cls == self.broken or reached & self.guard.last:
            return self.broken
        return self.sets.index(self.sets[cls] | reached)


def classes(guard: Guard) -> Classes | None:
    """All classes of a guard; None if there are more than MAX_CLASSES."""
    found = {frozenset[int]()}
    frontier = list(found)
    while frontier:
        here = frontier.pop()
        for r in set(guard.positions) - here - guard.last:
            if r in guard.first or any((s, r) in guard.edges for s in here):
                bigger = here | {r}
                if bigger not in found:
                    found.add(bigger)
                    frontier.append(bigger)
        if len(found) >= MAX_CLASSES:
            return None
    return Classes(guard, tuple(sorted(found, key=lambda s: (len(s), sorted(s)))))


@dataclass(frozen=True, slots=True)
class State:
    """Mass at `place` in class `cls` of the guard on its outgoing edges (0 without a guard)."""

    place: int
    cls: int = 0


@dataclass(frozen=True, slots=True)
class Scan:
    """A lookup in the bindings stored individually at `place`, which an event may continue.

    `predicates` are numbers of adjacency predicates; `guard` is checked by binding time.
    """

    place: int
    predicates: tuple[int, ...] = ()
    guard: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """An event takes `position`: sum the mass of `sources` and `scans`, and add it to `targets`."""

    position: int
    sources: tuple[State, ...]
    scans: tuple[Scan, ...]
    targets: tuple[State, ...]
    kept_at: tuple[int, ...]
    """Places that store this binding individually."""
    closing: tuple[int, ...] = ()
    """The conditions under which a binding stored at ⊤ is whole when its window ends."""


@dataclass(frozen=True)
class Machine:
    """One operand of a query, ready for lowering.

    `by_event` are the places that store each binding, because an adjacency predicate or a guard
    checked by time needs them; all other places store one vector per class.
    """

    automaton: Automaton
    semantics: Semantics
    predicates: Predicates
    by_event: frozenset[int] = frozenset()
    is_bounded: bool = False
    """Whether the span of each trend is bounded (`query.nodes.SpanBound`): see `fades` and `end_guards`."""

    def fades(self, place: int) -> bool:
        """Whether mass lasts for one moment only: under *contiguous*; at ⊤ if spans are bounded.

        With a bound, what a fold ends with is what its last moment has ended.
        """
        if place == END:
            return self.is_bounded
        return place != START and self.semantics is Semantics.CONTIGUOUS

    @cached_property
    def end_guards(self) -> tuple[int | None, int | None]:
        """The guards before the first and after the last event of a trend.

        If spans are bounded, no mass is split by them: they decide where a trend that begins at an event may
        end (kernel.trend_ends).
        """
        guarded = sorted(self.automaton.guard_of.items())
        before = next((guard for (p, _), guard in guarded if p == START), None)
        return before, next((guard for (_, q), guard in guarded if q == END), None)

    @cached_property
    def guard_classes(self) -> tuple[Classes | None, ...]:
        """The classes of each guard; None if no mass is split by them."""
        return tuple(
            classes(guard) if self.exits(g) - self.by_event else None
            for g, guard in enumerate(self.automaton.guards)
        )

    @property
    def has_not_at_end(self) -> bool:
        """Whether an event after a trend's last one may still break it."""
        is_judged = any(self.predicates.between(p, END) for p in self.automaton.last)
        return is_judged or any(q == END for _, q in self.automaton.guard_of)

    def exits(self, guard: int) -> frozenset[int]:
        """The places whose outgoing edges cross `guard`; ⊤ itself for the guard at the end.

        Under contiguous semantics no event lies between neighbours, so a NOT there never matches.
        """
        return self._exits[guard]

    @cached_property
    def _exits(self) -> tuple[frozenset[int], ...]:
        found: list[set[int]] = [set() for _ in self.automaton.guards]
        for (p, q), guard in self.automaton.guard_of.items():
            if self.is_bounded and (p == START or q == END):
                continue
            if self.semantics is not Semantics.CONTIGUOUS or p == START or q == END:
                found[guard].add(END if q == END else p)
        return tuple(frozenset(places) for places in found)

    def crossed(self, p: int, q: int) -> int | None:
        """The guard that the edge from p to q crosses; None if there is none."""
        guard = self.automaton.guard_of.get((p, q))
        return guard if guard is not None and p in self.exits(guard) else None

    def guard_at(self, place: int) -> int | None:
        """The guard whose classes split the mass at `place`."""
        return self._guard_at.get(place)

    @cached_property
    def _guard_at(self) -> dict[int, int]:
        return {place: g for g, places in reversed(list(enumerate(self._exits))) for place in places}

    @cached_property
    def states(self) -> tuple[State, ...]:
        """All states: ⊥, ⊤ and every position that has a successor, each in all of its classes."""
        return tuple(state for states in self._states_at.values() for state in states)

    @cached_property
    def _states_at(self) -> dict[int, tuple[State, ...]]:
        """The states of every place that does not store bindings individually, in order."""
        places = (START, *sorted(self.automaton.followed), END)
        return {p: self._states_of(p) for p in places if p not in self.by_event}

    def _states_of(self, place: int) -> tuple[State, ...]:
        guard = self.guard_at(place)
        split = self.guard_classes[guard] if guard is not None else None
        return tuple(State(place, c) for c in range(split.broken + 1 if split else 1))

    def steps(self, symbol: Symbol) -> tuple[Step, ...]:
        """The steps of an event, one per position. All read the vector as it was before its moment."""
        return tuple(self._step(q) for q in sorted(symbol & self._positive))

    @cached_property
    def _positive(self) -> frozenset[int]:
        return frozenset(p.index for p in self.automaton.positive)

    def _step(self, q: int) -> Step:
        sources: list[State] = []
        scans: list[Scan] = []
        for p in self.automaton.sources(q):
            guard = self.crossed(p, q)
            if p in self.by_event:
                scans.append(Scan(p, self.predicates.between(p, q), guard))
            else:
                states = self._states_at[p]
                sources += states if guard is None else states[:-1]
        places = [q] * (q in self.automaton.followed) + [END] * (q in self.automaton.last)
        return Step(
            q,
            tuple(sources),
            tuple(scans),
            tuple(State(place) for place in places if place not in self.by_event),
            tuple(place for place in places if place in self.by_event),
            self.predicates.between(q, END) if END in self.by_event else (),
        )

    def whole(self) -> tuple[State, ...]:
        """The states at ⊤ that count as results: all classes but the broken one."""
        if END in self.by_event:
            return ()
        states = self._states_at[END]
        return states[:-1] or states

    def moves(self, symbol: Symbol) -> bool:
        """Whether an event with this symbol moves mass between classes."""
        return any(c and symbol.intersection(c.guard.positions) for c in self.guard_classes)
