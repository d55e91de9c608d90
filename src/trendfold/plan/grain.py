"""How finely each place must keep its bindings: the grains of COGRA and GRETA."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trendfold.automaton.glushkov import END, START, Automaton
from trendfold.automaton.machine import Machine, classes
from trendfold.automaton.predicates import Predicates
from trendfold.query.nodes import Semantics


class Grain(StrEnum):
    """What a place keeps of its bindings."""

    PATTERN = "pattern"  # the bindings of the last moment, or those not yet continued
    TYPE = "type"  # one vector
    CLASS = "class"  # one vector per class of the NOT after it
    EVENT = "event"  # every binding


@dataclass(frozen=True, slots=True)
class Choice:
    """The grain of one place, and the reason for it."""

    place: int
    grain: Grain
    why: str


def coarsest(
    automaton: Automaton, semantics: Semantics, predicates: Predicates, is_bounded: bool = False
) -> tuple[Choice, ...]:
    """The coarsest correct grain of each place (COGRA, section 3.2, with guards)."""
    total = Machine(automaton, semantics, predicates, is_bounded=is_bounded)
    return tuple(_choose(total, place) for place in _places(automaton))


def finest(automaton: Automaton, why: str) -> tuple[Choice, ...]:
    """Every binding kept at every place (GRETA, and building trends)."""
    return tuple(Choice(p, Grain.EVENT, why) for p in _places(automaton))


def _places(automaton: Automaton) -> tuple[int, ...]:
    return (START, *sorted(automaton.followed), END)


def _choose(machine: Machine, place: int) -> Choice:
    automaton = machine.automaton
    for q in automaton.targets(place):
        if machine.predicates.between(place, q):
            return Choice(place, Grain.EVENT, f"a predicate compares it with the event after it at {q}")
    guard = machine.guard_at(place)
    if guard is not None:
        if _has_own_predicates(machine, guard):
            return Choice(place, Grain.EVENT, "the NOT after it has predicates between its own events")
        split = classes(automaton.guards[guard])
        if split is None:
            return Choice(place, Grain.EVENT, "the NOT after it has too many classes")
        return Choice(place, Grain.CLASS, f"the NOT after it has {split.broken + 1} classes")
    if place in (START, END) or machine.semantics is Semantics.ANY:
        return Choice(place, Grain.TYPE, "no predicate compares it with the event after it")
    which = "last moment's" if machine.semantics is Semantics.CONTIGUOUS else "uncontinued"
    return Choice(place, Grain.PATTERN, f"only the {which} bindings matter under {machine.semantics}")


def _has_own_predicates(machine: Machine, guard: int) -> bool:
    edges = machine.automaton.guards[guard].edges
    return any(machine.predicates.between(p, q) for p, q in edges)
