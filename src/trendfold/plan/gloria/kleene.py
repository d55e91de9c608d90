"""Kleene sub-patterns: whose events serve as snapshots on a cycle, and what that costs.

A sub-pattern is one pool. Its nodes are whole paths: all its transitions share one Q-set with the snapshots of
one state S (the path generation principle), or none is shared. Where an expression over S cannot be carried,
since trends begin there or come in from before the cycle, events become snapshots too: *cuts* are all states
that do so. An expression has one origin, the last cut it has passed.

Source: GLORIA (SIGMOD 2022), Section 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trendfold.plan.gloria.cost import Weights
from trendfold.plan.gloria.template import Template, Transition


@dataclass(frozen=True)
class Cycle:
    """A Kleene sub-pattern in its template: its states, transitions, queries, and where they come in."""

    states: tuple[str, ...]
    transitions: tuple[Transition, ...]
    queries: int
    entries: Mapping[str, int]

    def entered(self, queries: int) -> frozenset[str]:
        """The states where trends of these queries begin, or come from before the cycle."""
        return frozenset(state for state, own in self.entries.items() if own & queries)


def cycles_of(template: Template) -> tuple[Cycle, ...]:
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
"""Per state the cut whose snapshots its events hold; a cut is its own."""


def close(cycle: Cycle, queries: int, wanted: Iterable[str]) -> Origins:
    """The origins where the events of `wanted` become snapshots, and those of all states that then have to."""
    cuts = cycle.entered(queries) | frozenset(wanted)
    while True:
        origins = _flow(cycle, cuts)
        torn = [
            state for state in cycle.states if state not in cuts and len(_before(cycle, state, origins)) > 1
        ]
        if not torn:
            return {state: origins[state] for state in cycle.states}
        cuts |= {torn[0]}


def _flow(cycle: Cycle, cuts: frozenset[str]) -> Origins:
    origins = {cut: cut for cut in cuts}
    for _ in cycle.states:
        for source, target in cycle.transitions:
            if target not in origins and source in origins:
                origins[target] = origins[source]
    return origins


def _before(cycle: Cycle, state: str, origins: Origins) -> set[str]:
    return {origins[p] for p, q in cycle.transitions if q == state}


def inner_cost(cycle: Cycle, origins: Origins, queries: int, weights: Weights) -> float:
    """Equations 3 and 4 on every transition of the cycle, for one Q-set of so many queries.

    At a cut every origin that comes from the cycle is evaluated, once per query.
    """
    cost = sum(weights.cross(p, q, origins[p]) for p, q in cycle.transitions)
    for state in cycle.states:
        if origins[state] == state:
            for origin in _before(cycle, state, origins):
                cost += weights.evaluate(state, origin, queries)
    return cost


def carried_cost(cycle: Cycle, snapshot: str, weights: Weights) -> float:
    """The same where a snapshot from before the cycle is carried all through it."""
    return sum(weights.cross(p, q, snapshot) for p, q in cycle.transitions)


def alone_cost(cycle: Cycle, weights: Weights) -> float:
    """Equation 2 on every transition of the cycle, for one query."""
    return sum(weights.cross(p, q, "") for p, q in cycle.transitions)


def uniform(cycle: Cycle, snapshot: str) -> Origins:
    """The paper's own reading, in which every state carries one snapshot, wherever trends begin."""
    return {state: state if state == snapshot else snapshot for state in cycle.states}


def cuttings(cycle: Cycle, queries: int, most: int) -> Sequence[Origins]:
    """All ways to choose cuts; in sub-patterns of more than `most` states one or two beside those needed."""
    found: dict[tuple[str, ...], Origins] = {}
    states = cycle.states
    if len(states) <= most:
        choices = [
            [s for i, s in enumerate(states) if chosen >> i & 1] for chosen in range(1, 1 << len(states))
        ]
    else:
        choices = [[s] for s in states] + [[s, t] for i, s in enumerate(states) for t in states[:i]]
    for wanted in choices:
        origins = close(cycle, queries, wanted)
        found.setdefault(tuple(origins.values()), origins)
    return list(found.values())
