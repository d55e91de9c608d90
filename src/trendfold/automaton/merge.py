"""Merge automata into one template: each type once, each transition labelled with its queries.

Source: HAMLET (SIGMOD 2021), Section 3.1 and Figure 3(b).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trendfold.automaton.glushkov import END, START, Automaton

ENDS = {START: "⊥", END: "⊤"}
"""How a template writes the start and the end of trends."""


@dataclass(frozen=True, slots=True)
class Transition:
    """In trends of `queries`, an event of type `target` may directly follow one of type `source`."""

    source: str
    target: str
    queries: frozenset[int]


@dataclass(frozen=True, slots=True)
class Template:
    """The merged template of a workload; queries are identified by number."""

    types: tuple[str, ...]
    transitions: tuple[Transition, ...]


def merge(automata: Sequence[Automaton]) -> Template:
    """Merge the automata of all queries; types are ordered by first occurrence."""
    types = dict.fromkeys(p.label for automaton in automata for p in automaton.positive)
    found: dict[tuple[str, str], set[int]] = {}
    for number, automaton in enumerate(automata):
        name = ENDS | {p.index: p.label for p in automaton.positive}
        for p, q in automaton.edges:
            found.setdefault((name[p], name[q]), set()).add(number)
    order = {name: i for i, name in enumerate([ENDS[START], *types, ENDS[END]])}
    edges = sorted(found, key=lambda edge: (order[edge[0]], order[edge[1]]))
    return Template(tuple(types), tuple(Transition(*edge, frozenset(found[edge])) for edge in edges))
