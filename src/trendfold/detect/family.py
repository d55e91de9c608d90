"""Queries whose matches can share work: the same rows, partitions, groups and kind of window.

The positions of all of them stand in one machine, so that every event is looked at once and patterns of
different queries can be joined from the same leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from trendfold.automaton.glushkov import END, START, Automaton, Guard, Position
from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import Local, Pairwise, Predicates
from trendfold.detect.clauses import Clause, Element, clauses
from trendfold.detect.pattern import JoinPattern, join_pattern
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.plan.carried import Carried
from trendfold.query.nodes import Semantics, WindowUnit


@dataclass(frozen=True)
class Family:
    """Queries, one plan over the positions of all of them, and the clauses of each."""

    plans: tuple[QueryPlan, ...]
    joint: QueryPlan
    clauses: tuple[tuple[Clause, ...], ...]

    @property
    def machine(self) -> Machine:
        """All positions, guards and predicates."""
        return self.joint.operands[0].machine


def families(plans: Iterable[QueryPlan]) -> list[Family]:
    """Who can share with whom."""
    found: dict[object, list[QueryPlan]] = {}
    for plan in plans:
        found.setdefault(_likeness(plan), []).append(plan)
    return [_family(group) for group in found.values()]


def _likeness(plan: QueryPlan) -> object:
    query = plan.query
    if plan.qualified_keys or query.semantics is not Semantics.ANY:
        return query.name  # its streams are its own, or it is walked and has nothing to share
    is_counted = query.window is not None and query.window.unit is WindowUnit.EVENTS
    return plan.partition, query.group_by, is_counted, plan.strategy


def _family(plans: Sequence[QueryPlan]) -> Family:
    positions: list[Position] = []
    guards: list[Guard] = []
    edges: set[tuple[int, int]] = set()
    guard_of: dict[tuple[int, int], int] = {}
    predicates = Predicates()
    split = []
    for plan in plans:
        machine = plan.operands[0].machine
        automaton, by, guards_by = machine.automaton, len(positions), len(guards)
        positions += [replace(position, index=position.index + by) for position in automaton.positions]
        guards += [_shift_guard(guard, by) for guard in automaton.guards]
        inside = [(p, q) for p, q in automaton.edges if p != START and q != END]
        edges |= {(p + by, q + by) for p, q in inside}
        guard_of |= {
            (p + by, q + by): automaton.guard_of[p, q] + guards_by
            for p, q in inside
            if (p, q) in automaton.guard_of
        }
        predicates = _append(predicates, machine.predicates, by)
        found = clauses(plan.query, joins=plan.strategy != "construct")
        split.append(tuple(_shift_clause(clause, by, guards_by) for clause in found))
    automaton = Automaton(tuple(positions), frozenset(edges), tuple(guards), guard_of)
    machine = Machine(automaton, plans[0].query.semantics, predicates)
    operand = OperandPlan(machine, (), Carried(), builds_trends=True)
    return Family(tuple(plans), replace(plans[0], operands=(operand,)), tuple(split))


def _shift(positions: Iterable[int], by: int) -> frozenset[int]:
    return frozenset(p + by for p in positions)


def _shift_guard(guard: Guard, by: int) -> Guard:
    return Guard(
        tuple(p + by for p in guard.positions),
        _shift(guard.first, by),
        _shift(guard.last, by),
        frozenset((p + by, q + by) for p, q in guard.edges),
    )


def _append(one: Predicates, other: Predicates, by: int) -> Predicates:
    def shifted(pairs: Iterable[Pairwise]) -> tuple[Pairwise, ...]:
        return tuple(Pairwise(p.condition, _shift(p.left, by), _shift(p.right, by)) for p in pairs)

    local = tuple(Local(each.condition, _shift(each.positions, by)) for each in other.local)
    return Predicates(
        one.local + local,
        one.adjacency + shifted(other.adjacency),
        one.cross + shifted(other.cross),
    )


def _shift_clause(clause: Clause, by: int, guards_by: int) -> Clause:
    return replace(
        clause,
        elements=tuple(_shift_element(element, by) for element in clause.elements),
        neighbours=tuple(
            replace(n, guard=None if n.guard is None else n.guard + guards_by) for n in clause.neighbours
        ),
        at_start=tuple((operand, guard + guards_by) for operand, guard in clause.at_start),
        at_end=tuple((operand, guard + guards_by) for operand, guard in clause.at_end),
    )


def _shift_element(element: Element, by: int) -> Element:
    return replace(
        element,
        positions=_shift(element.positions, by),
        first=_shift(element.first, by),
        last=_shift(element.last, by),
    )


# ---------------------------------------------------------------- what says the same


def same_conditions(predicates: Predicates) -> dict[int, int]:
    """Per condition on two events the first that says the same."""
    first: dict[object, int] = {}
    conditions = (*predicates.adjacency, *predicates.cross)
    return {i: first.setdefault(pair.condition, i) for i, pair in enumerate(conditions)}


def same_guards(machine: Machine) -> dict[int, int]:
    """Per NOT the first that says the same: the same events in the same order under the same conditions."""
    first: dict[object, int] = {}
    same = same_conditions(machine.predicates)
    return {
        number: first.setdefault(_meaning(guard, machine, same), number)
        for number, guard in enumerate(machine.automaton.guards)
    }


def _meaning(guard: Guard, machine: Machine, same: dict[int, int]) -> object:
    predicates, positions = machine.predicates, guard.positions
    number = {p: i for i, p in enumerate(positions)}
    cross = [
        (same[len(predicates.adjacency) + c], number[p], number[q])
        for c, pair in enumerate(predicates.cross)
        for p in positions
        for q in positions
        if p in pair.left and q in pair.right
    ]
    return (
        tuple((machine.automaton.positions[p].type, predicates.wanted_at(p)) for p in positions),
        frozenset(number[p] for p in guard.first),
        frozenset(number[p] for p in guard.last),
        frozenset(
            (number[p], number[q], tuple(same[c] for c in predicates.between(p, q))) for p, q in guard.edges
        ),
        frozenset(cross),
    )


# ---------------------------------------------------------------- what is joined


@dataclass(frozen=True)
class Joins:
    """The joined parts of a family's clauses."""

    clauses: tuple[tuple[int, int], ...]
    """Per pattern its query, and which of the query's clauses it is."""
    patterns: tuple[JoinPattern, ...]
    leaves: tuple[int, ...]
    """Per leaf a position whose rows it has."""


def read_joins(family: Family) -> Joins:
    """The patterns of all clauses, over leaves that each stand for the same events everywhere."""
    machine = family.machine
    positions, predicates = machine.automaton.positions, machine.predicates
    number: dict[object, int] = {}
    leaves: list[int] = []

    def leaf_of(position: int) -> int:
        key: object = positions[position].type, predicates.wanted_at(position)
        if family.joint.qualified_keys:
            key = position  # its rows also depend on the group
        if number.setdefault(key, len(leaves)) == len(leaves):
            leaves.append(position)
        return number[key]

    same = same_conditions(predicates), same_guards(machine)
    found = [
        ((q, k), _pattern(family.plans[q], clause, machine, leaf_of, *same))
        for q, split in enumerate(family.clauses)
        for k, clause in enumerate(split)
        if clause.fixed
    ]
    return Joins(tuple(at for at, _ in found), tuple(pattern for _, pattern in found), tuple(leaves))


def _pattern(
    plan: QueryPlan,
    clause: Clause,
    machine: Machine,
    leaf_of: Callable[[int], int],
    same_condition: dict[int, int],
    same_guard: dict[int, int],
) -> JoinPattern:
    window = None if plan.query.window is None else plan.query.window.length
    positions, predicates = machine.automaton.positions, machine.predicates
    return join_pattern(
        plan.query.name, clause, positions, predicates, window, leaf_of, same_condition, same_guard
    )


# ---------------------------------------------------------------- machines of walked elements


def walk_machine(machine: Machine, clause: Clause, number: int) -> Machine:
    """The machine of one walked element, with the edges to its neighbours in the clause."""
    element, automaton = clause.elements[number], machine.automaton
    own = element.positions
    edges = {(p, q) for p, q in automaton.edges if p in own and q in own}
    guard_of = {edge: automaton.guard_of[edge] for edge in edges if edge in automaton.guard_of}
    edges |= {(START, q) for q in element.first} | {(p, END) for p in element.last}
    for meeting in clause.neighbours:
        if number in (meeting.left, meeting.right):
            left, right = clause.elements[meeting.left], clause.elements[meeting.right]
            across = {(p, q) for p in left.last for q in right.first}
            edges |= across
            if meeting.guard is not None:
                guard_of |= dict.fromkeys(across, meeting.guard)
    walked = Automaton(automaton.positions, frozenset(edges), automaton.guards, guard_of)
    return Machine(walked, machine.semantics, machine.predicates)
