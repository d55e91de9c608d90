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
    if found := _why_by_event(machine, place):
        return Choice(place, Grain.EVENT, found)
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


def _why_by_event(machine: Machine, place: int) -> str:
    """Which predicate needs every binding at a place; empty if none does."""
    automaton, between = machine.automaton, machine.predicates.between
    if place == END:
        is_judged = any(between(p, END) for p in automaton.last)
        return "a condition with the last event decides whether the NOT breaks it" if is_judged else ""
    for q in automaton.targets(place):
        if q != END and (found := between(place, q)):
            text = machine.predicates.adjacency[found[0]].text
            which = f"the NOT before the event after it has conditions with its neighbours ({text})"
            return which if text else f"a predicate compares it with the event after it at {q}"
    return ""


def _has_own_predicates(machine: Machine, guard: int) -> bool:
    edges = machine.automaton.guards[guard].edges
    return any(machine.predicates.between(p, q) for p, q in edges)
