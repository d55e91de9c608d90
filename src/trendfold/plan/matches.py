"""RETURN MATCHES as a plan: the positions, guards and predicates of the whole pattern.

How matches are found, which joins in which order and shared by whom, is decided in `detect`, once rates and
selectivities are known.
"""

from __future__ import annotations

from trendfold.automaton import Automaton, build, split
from trendfold.automaton.machine import Machine
from trendfold.query.nodes import Both, Either, Pattern, Query, Seq


def flatten(pattern: Pattern) -> Automaton:
    """The automaton of a pattern in which AND is read as OR: the same positions and guards, numbered alike.

    Its edges are right inside every part without AND.
    """
    return build(_without_and(pattern))


def match_machine(query: Query) -> Machine:
    """What an event can be in any match of a query, and what its conditions are."""
    automaton = flatten(query.pattern)
    return Machine(automaton, query.semantics, split(query, automaton))


def _without_and(pattern: Pattern) -> Pattern:
    match pattern:
        case Both(parts) | Either(parts):
            return Either(tuple(map(_without_and, parts)))
        case Seq(parts):
            return Seq(tuple(map(_without_and, parts)))
        case _:
            return pattern  # AND stands nowhere else
