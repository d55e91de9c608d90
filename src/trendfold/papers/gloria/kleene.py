"""Kleene sub-patterns: which events serve as snapshots on a cycle, and the cost.

A sub-pattern is one pool. Its nodes are whole paths: either all transitions share one Q-set with the
snapshots of one state S (the path generation principle), or none is shared. If an expression over S cannot be
continued, because trends begin at a state or enter the cycle there, events of that state become snapshots
too: *cuts* are all such states. An expression has one origin, the last cut it passed.

Source: GLORIA (SIGMOD 2022), Section 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from trendfold.papers.gloria.path_cost import Weights
from trendfold.papers.gloria.template import GloriaTemplate, Transition


@dataclass(frozen=True)
class Cycle:
    """A Kleene sub-pattern in its template: its states, transitions, queries, and entry states."""

    states: tuple[str, ...]
    transitions: tuple[Transition, ...]
    queries: int
    entries: Mapping[str, int]

    def entered(self, queries: int) -> frozenset[str]:
        """The states where trends of these queries begin or enter the cycle."""
        return frozenset(state for state, own in self.entries.items() if own & queries)


def cycles_of(template: GloriaTemplate) -> tuple[Cycle, ...]:
    """The Kleene sub-patterns of a template."""
    found = []
    for states in template.cycles:
        inner = tuple(e for e in template.transitions if e[0] in states and e[1] in states)
        entries = {state: template.starts.get(state, 0) for state in states}
        for (source, target), queries in template.transitions.items():
            if target in entries and source not in entries:
                entries[target] |= queries
        found.append(Cycle(states, inner, template.transitions[inner[0]], entries))
    return tuple(found)


Origins = dict[str, str]
"""The snapshot state of each state: a cut has its own; empty if queries continue alone."""


def close(cycle: Cycle, queries: int, wanted: Iterable[str], by_themselves: Iterable[str] = ()) -> Origins:
    """The origins if the states `wanted` are cuts, and so are all states that must be cuts then.

    From the states `by_themselves`, queries continue alone.
    """
    plain = frozenset(by_themselves)
    cuts = (cycle.entered(queries) | frozenset(wanted)) - plain
    while True:
        origins = _flow(cycle, cuts, plain)
        torn = [s for s in cycle.states if s not in cuts | plain and not _agree(cycle, s, origins)]
        if not torn:
            return {state: origins[state] for state in cycle.states}
        cuts |= {torn[0]}


def _flow(cycle: Cycle, cuts: frozenset[str], plain: frozenset[str]) -> Origins:
    origins = {cut: cut for cut in cuts} | dict.fromkeys(plain, "")
    for _ in cycle.states:
        for source, target in cycle.transitions:
            if target not in origins and origins.get(source):
                origins[target] = origins[source]
    return origins


def _agree(cycle: Cycle, state: str, origins: Origins) -> bool:
    """Whether everything that arrives at a state has the state's origin."""
    return state in origins and {origins.get(p, "") for p in before(cycle, state)} == {origins[state]}


def before(cycle: Cycle, state: str) -> tuple[str, ...]:
    """The predecessors of a state on the cycle."""
    return tuple(p for p, q in cycle.transitions if q == state)


def evaluation(cycle: Cycle, origins: Origins, queries: int, weights: Weights) -> float:
    """Equation 4 on the cycle: a state that does not reuse its expressions evaluates them, once per query."""
    cost = 0.0
    for state in cycle.states:
        if origins[state] in (state, ""):
            for origin in {origins[p] for p in before(cycle, state)} - {""}:
                cost += weights.evaluate(state, origin, queries)
    return cost


MOST_CUT = 4
"""Sub-patterns with more states are not cut in all ways."""


def cuttings(cycle: Cycle, queries: int) -> Sequence[Origins]:
    """All ways to choose cuts and states where queries continue alone; with many states, one or two cuts."""
    found: dict[tuple[str, ...], Origins] = {}
    states = cycle.states
    if len(states) <= MOST_CUT:
        ways = [
            dict(zip(states, each, strict=True))
            for each in product("cut alone on".split(), repeat=len(states))
        ]
    else:
        pairs = [{s: "cut", t: "cut"} for i, s in enumerate(states) for t in states[:i]]
        ways = [*({s: "cut"} for s in states), *pairs]
    for way in ways:
        cut, plain = ([s for s in states if way.get(s) == how] for how in ("cut", "alone"))
        origins = close(cycle, queries, cut, plain)
        if any(origins.values()):
            found.setdefault(tuple(origins.values()), origins)
    return list(found.values())
