"""Queries whose matches are found together: same rows, partitions, groups and kind of window.

The positions of all of them are in one machine, so every event is read once and the patterns of different
queries are joined from the same leaves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from trendfold.automaton.breaking import NoneBetween
from trendfold.automaton.glushkov import END, START, Automaton, Guard, Position
from trendfold.automaton.machine import Machine
from trendfold.automaton.predicates import Local, Pairwise, Predicates
from trendfold.detect.canonical import canonical_numbers
from trendfold.detect.clauses import Beside, Clause, ClauseElement, clauses
from trendfold.detect.join_statistics import LeafPair
from trendfold.detect.pattern import JoinPattern, join_pattern
from trendfold.plan import OperandPlan, QueryPlan
from trendfold.plan.carried import Carried
from trendfold.query.nodes import Semantics, WindowUnit


@dataclass(frozen=True)
class JointQueries:
    """Queries that are found together, and the clauses of each over the positions of all of them."""

    plans: tuple[QueryPlan, ...]
    merged: QueryPlan
    """One plan with the positions, guards and predicates of all queries."""
    clauses: tuple[tuple[Clause, ...], ...]

    @property
    def machine(self) -> Machine:
        """The machine of the merged plan."""
        return self.merged.operands[0].machine


def joint_queries(plans: Iterable[QueryPlan]) -> list[JointQueries]:
    """The sets of queries that can be found together."""
    found: dict[Hashable, list[QueryPlan]] = {}
    for plan in plans:
        found.setdefault(_joint_key(plan), []).append(plan)
    return [_merged(group) for group in found.values()]


def _joint_key(plan: QueryPlan) -> Hashable:
    """Equal for queries that can be found together."""
    query = plan.query
    if plan.qualified_keys or query.semantics is not Semantics.ANY:
        return query.name  # it has rows of its own, or is walked and shares nothing
    is_counted = query.window is not None and query.window.unit is WindowUnit.EVENTS
    return plan.partition, query.group_by, is_counted, plan.strategy, plan.planning


# ---------------------------------------------------------------- machines of several queries as one


def _merged(plans: Sequence[QueryPlan]) -> JointQueries:
    merging, split = _MergedAutomata(), []
    for plan in plans:
        by, guards_by = len(merging.positions), len(merging.guards)
        merging.add(plan.operands[0].machine)
        found = clauses(plan.query, joins=plan.strategy != "construct")
        split.append(tuple(_shift_clause(clause, by, guards_by) for clause in found))
    machine = Machine(merging.automaton, plans[0].query.semantics, merging.predicates)
    operand = OperandPlan(machine, (), Carried(), builds_trends=True)
    return JointQueries(tuple(plans), replace(plans[0], operands=(operand,)), tuple(split))


@dataclass
class _MergedAutomata:
    """The automata and predicates of machines, one after the other."""

    positions: list[Position] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    edges: set[tuple[int, int]] = field(default_factory=set)
    guard_of: dict[tuple[int, int], int] = field(default_factory=dict)
    predicates: Predicates = field(default_factory=Predicates)

    def add(self, machine: Machine) -> None:
        """Append a machine; its numbers are shifted behind those of the machines before it."""
        automaton, by, guards_by = machine.automaton, len(self.positions), len(self.guards)
        self.positions += [replace(p, index=p.index + by) for p in automaton.positions]
        self.guards += [_shift_guard(guard, by) for guard in automaton.guards]
        for p, q in automaton.edges:
            if p != START and q != END:
                self.edges.add((p + by, q + by))
                if (p, q) in automaton.guard_of:
                    self.guard_of[p + by, q + by] = automaton.guard_of[p, q] + guards_by
        self.predicates = _append(self.predicates, machine.predicates, by)

    @property
    def automaton(self) -> Automaton:
        return Automaton(tuple(self.positions), frozenset(self.edges), tuple(self.guards), self.guard_of)


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
    before = len(one.breaking)

    def shifted(pairs: Iterable[Pairwise]) -> tuple[Pairwise, ...]:
        return tuple(
            replace(
                p,
                condition=p.condition.shifted(by, before)
                if isinstance(p.condition, NoneBetween)
                else p.condition,
                left=_shift(p.left, by),
                right=_shift(p.right, by),
            )
            for p in pairs
        )

    local = tuple(Local(each.condition, _shift(each.positions, by)) for each in other.local)
    return Predicates(
        one.local + local,
        one.adjacency + shifted(other.adjacency),
        one.cross + shifted(other.cross),
        breaking=one.breaking
        + tuple(
            replace(b, negated=_shift(b.negated, by), beside=_shift(b.beside, by)) for b in other.breaking
        ),
        breakers=one.breakers + tuple(breaker.shifted(by, before) for breaker in other.breakers),
    )


def _shift_clause(clause: Clause, by: int, guards_by: int) -> Clause:
    return replace(
        clause,
        elements=tuple(_shift_element(element, by) for element in clause.elements),
        neighbours=tuple(
            replace(n, guard=None if n.guard is None else n.guard + guards_by) for n in clause.neighbours
        ),
        at_start=_shift_guards(clause.at_start, guards_by),
        at_end=_shift_guards(clause.at_end, guards_by),
        across=_shift_guards(clause.across, guards_by),
    )


def _shift_guards(found: Iterable[Beside], by: int) -> tuple[Beside, ...]:
    return tuple(replace(beside, guard=beside.guard + by) for beside in found)


def _shift_element(element: ClauseElement, by: int) -> ClauseElement:
    return replace(
        element,
        positions=_shift(element.positions, by),
        first=_shift(element.first, by),
        last=_shift(element.last, by),
    )


# ---------------------------------------------------------------- the joined parts of clauses


@dataclass(frozen=True)
class ClauseJoins:
    """The joined parts of the clauses of joint queries."""

    clauses: tuple[tuple[int, int], ...]
    """Per pattern its query, and which of the query's clauses it is."""
    patterns: tuple[JoinPattern, ...]
    leaves: tuple[int, ...]
    """Per leaf a position that has the leaf's rows."""

    @property
    def pairs(self) -> tuple[LeafPair, ...]:
        """The leaves between which there are conditions, with these."""
        return leaf_pairs(self.patterns)


def leaf_pairs(patterns: Iterable[JoinPattern]) -> tuple[LeafPair, ...]:
    """The leaves of patterns between which there are conditions, with these; each once."""
    found = (
        (pattern.leaves[i], pattern.leaves[j], relation)
        for pattern in patterns
        for (i, j), relation in pattern.relations.items()
    )
    return tuple(dict.fromkeys(found))


def read_joins(joint: JointQueries) -> ClauseJoins:
    """The patterns of all clauses, over common leaves."""
    leaves, canonical = _Leaves(joint), canonical_numbers(joint.machine)
    found = [
        ((q, k), join_pattern(plan.query.name, clause, joint.machine, _window(plan), leaves.of, canonical))
        for q, (plan, split) in enumerate(zip(joint.plans, joint.clauses, strict=True))
        for k, clause in enumerate(split)
        if clause.fixed
    ]
    return ClauseJoins(
        tuple(at for at, _ in found), tuple(pattern for _, pattern in found), tuple(leaves.positions)
    )


def _window(plan: QueryPlan) -> int | None:
    return None if plan.query.window is None else plan.query.window.length


@dataclass
class _Leaves:
    """Numbers leaves; positions of the same type under the same local conditions have the same one."""

    joint: JointQueries
    positions: list[int] = field(default_factory=list)
    _number: dict[Hashable, int] = field(default_factory=dict)

    def of(self, position: int) -> int:
        """The leaf of a position."""
        number = self._number.setdefault(self._key(position), len(self.positions))
        if number == len(self.positions):
            self.positions.append(position)
        return number

    def _key(self, position: int) -> Hashable:
        if self.joint.merged.qualified_keys:
            return position  # its rows also depend on the group
        machine = self.joint.machine
        return machine.automaton.positions[position].type, machine.predicates.wanted_at(position)


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
