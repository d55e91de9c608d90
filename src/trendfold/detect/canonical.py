"""Equal conditions and equal NOTs get one number, so that queries can share joins with equal conditions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from trendfold.automaton.glushkov import Guard
from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import Predicates


@dataclass(frozen=True, slots=True)
class CanonicalNumbers:
    """Per condition on two events, and per NOT: the number of the first one that is equal to it.

    Conditions are numbered as in the machine: those between neighbours, then cross predicates.
    """

    conditions: Mapping[int, int]
    guards: Mapping[int, int]


def canonical_numbers(machine: Machine) -> CanonicalNumbers:
    """The canonical numbers of a machine's conditions and NOTs."""
    conditions = _same_conditions(machine.predicates)
    return CanonicalNumbers(conditions, _same_guards(machine, conditions))


def _same_conditions(predicates: Predicates) -> dict[int, int]:
    first: dict[Hashable, int] = {}
    conditions = (*predicates.adjacency, *predicates.cross)
    return {i: first.setdefault(pair.condition, i) for i, pair in enumerate(conditions)}


def _same_guards(machine: Machine, conditions: Mapping[int, int]) -> dict[int, int]:
    first: dict[Hashable, int] = {}
    return {
        number: first.setdefault(_guard_key(guard, machine, conditions), number)
        for number, guard in enumerate(machine.automaton.guards)
    }


def _guard_key(guard: Guard, machine: Machine, conditions: Mapping[int, int]) -> Hashable:
    """Equal for NOTs of the same events in the same order under the same conditions."""
    predicates = machine.predicates
    number = {p: i for i, p in enumerate(guard.positions)}
    return (
        tuple((machine.automaton.positions[p].type, predicates.wanted_at(p)) for p in guard.positions),
        frozenset(number[p] for p in guard.first),
        frozenset(number[p] for p in guard.last),
        frozenset(
            (number[p], number[q], tuple(conditions[c] for c in predicates.between(p, q)))
            for p, q in guard.edges
        ),
        _cross_key(number, predicates, conditions),
    )


def _cross_key(number: Mapping[int, int], predicates: Predicates, conditions: Mapping[int, int]) -> Hashable:
    """The cross predicates among the numbered positions."""
    return frozenset(
        (conditions[len(predicates.adjacency) + c], number[p], number[q])
        for c, pair in enumerate(predicates.cross)
        for p in number
        for q in number
        if p in pair.left and q in pair.right
    )
