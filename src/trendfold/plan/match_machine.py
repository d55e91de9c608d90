"""The plan of RETURN MATCHES: the positions, guards and predicates of the whole pattern.

Join orders, and the joins that queries share, are planned once rates and selectivities are known.
"""

from __future__ import annotations

from trendfold.automaton import Automaton, build, split
from trendfold.automaton.breaking import without_conditional
from trendfold.automaton.machine import Machine
from trendfold.query.nodes import Both, Either, Pattern, Query, Seq


def flatten(pattern: Pattern) -> Automaton:
    """The automaton of a pattern with every AND replaced by OR; positions and guards keep their numbers.

    Only its edges inside sub-patterns without AND are meaningful.
    """
    return build(_without_and(pattern))


def match_machine(query: Query) -> Machine:
    """The positions that events can take in a query's matches, and the query's conditions."""
    automaton = flatten(query.pattern)
    predicates = split(query, automaton)
    return Machine(without_conditional(automaton, predicates.breaking), query.semantics, predicates)


def _without_and(pattern: Pattern) -> Pattern:
    match pattern:
        case Both(parts) | Either(parts):
            return Either(tuple(map(_without_and, parts)))
        case Seq(parts):
            return Seq(tuple(map(_without_and, parts)))
        case _:
            return pattern  # AND occurs nowhere else
