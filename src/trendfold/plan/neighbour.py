"""How an event finds the bindings it may continue, where predicates compare it with each of them.

The sum over earlier bindings with a smaller value is a prefix sum. So a conjunction of comparisons
`f(E) op g(NEXT(F))` needs no scan: a table by key answers `=`, a sum tree over ranks answers an inequality
(both sides of the value for `!=`), and nested trees answer two inequalities. Anything else is a scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from trendfold.automaton.breaking import NoneBetween
from trendfold.automaton.glushkov import END, START
from trendfold.automaton.machine import Machine, Scan
from trendfold.query.names import walk
from trendfold.query.nodes import (
    Attribute,
    Between,
    Compare,
    Expression,
    In,
    Logic,
    Semantics,
    Unary,
)

MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator of a comparison after its sides are swapped."""

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Structure(StrEnum):
    """The data structure that holds the bindings of a place for one access."""

    TABLE = "table"
    QUEUE = "queue"
    TREE = "tree"
    NESTED = "nested trees"
    LAST = "last moment"
    SCAN = "scan"


BOUNDS = {
    Structure.TABLE: "O(1)",
    Structure.QUEUE: "O(1)",
    Structure.TREE: "O(log n)",
    Structure.NESTED: "O(log² n)",
    Structure.LAST: "O(last moment)",
    Structure.SCAN: "O(n)",
}
"""The cost per event, for n bindings."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`first op second`: a value of the earlier binding compared with one of the event after it."""

    op: str
    first: Expression
    second: Expression


@dataclass(frozen=True, slots=True)
class Access:
    """How an event finds the bindings at `place` that satisfy these predicates and this guard judged by time.

    Together, `equal`, `ordered` (inequalities and !=), `first_if` and `second_if` (conditions on one event)
    are equivalent to the predicates. Where they cannot be, they are empty and the structure is a scan.
    """

    place: int
    predicates: tuple[int, ...]
    guard: int | None
    structure: Structure
    why: str
    equal: tuple[Comparison, ...] = ()
    ordered: tuple[Comparison, ...] = ()
    first_if: tuple[Expression, ...] = ()
    second_if: tuple[Expression, ...] = ()
    is_online: bool = False
    """Whether its tree grows as values arrive, instead of ranking all values beforehand."""

    @property
    def bound(self) -> str:
        """The cost per event."""
        return BOUNDS[self.structure]

    @property
    def is_indexed(self) -> bool:
        """Whether bindings are found by value, without a scan."""
        return self.structure in (Structure.TABLE, Structure.TREE, Structure.NESTED)

    @property
    def by_value(self) -> tuple[tuple[Comparison, ...], ...]:
        """The comparisons in `ordered`, grouped by the value of the earlier event."""
        firsts = dict.fromkeys(c.first for c in self.ordered)
        return tuple(tuple(c for c in self.ordered if c.first == first) for first in firsts)


def accesses(machine: Machine) -> tuple[Access, ...]:
    """Every access of events to bindings kept one by one, except to ⊥, which is a single binding."""
    if not machine.by_event:
        return ()
    everything = frozenset(p.index for p in machine.automaton.positive)
    scans = [scan for step in machine.steps(everything) for scan in step.scans if scan.place != START]
    found = [_access(machine, scan) for scan in dict.fromkeys(scans)]
    if machine.semantics is Semantics.NEXT:
        return tuple(_as_neighbours_allow(access, found) for access in found)
    return tuple(found)


def scanned_places(machine: Machine, found: Sequence[Access]) -> frozenset[int]:
    """The places whose bindings some event asks one by one; `found` has the accesses, or is empty."""
    indexed = {(a.place, a.predicates, a.guard) for a in found if a.is_indexed}
    everything = frozenset(p.index for p in machine.automaton.positive)
    scans = [scan for step in machine.steps(everything) for scan in step.scans]
    return frozenset(s.place for s in scans if (s.place, s.predicates, s.guard) not in indexed)


def is_judged_by_time(machine: Machine) -> bool:
    """Whether a NOT depends on when a binding was made that is kept one by one."""
    if START in machine.by_event or END in machine.by_event or machine.predicates.breaking:
        return True
    everything = frozenset(p.index for p in machine.automaton.positive)
    return any(s.guard is not None for step in machine.steps(everything) for s in step.scans)


def compared_values(machine: Machine) -> tuple[str, ...]:
    """The attributes of a binding that predicates compare with the event after it."""
    conditions = (predicate.condition for predicate in machine.predicates.adjacency)
    parts = [part for each in conditions if not isinstance(each, NoneBetween) for part in walk(each)]
    return tuple(sorted({p.name for p in parts if isinstance(p, Attribute) and not p.is_next}))


def _access(machine: Machine, scan: Scan) -> Access:
    whole = Access(scan.place, scan.predicates, scan.guard, Structure.SCAN, "")
    if machine.semantics is Semantics.CONTIGUOUS:
        return replace(whole, structure=Structure.LAST, why="nothing may lie between neighbours")
    for number in scan.predicates:
        for condition in _conjuncts(machine.predicates.adjacency[number].condition):
            added = _with(whole, condition)
            if added is None:
                return _scan(whole, "a predicate mixes values of both events")
            whole = added
    return _shaped(whole)


def _with(access: Access, condition: Expression | NoneBetween) -> Access | None:
    """The access with one more condition; None if it names both events without comparing a value of each."""
    if isinstance(condition, NoneBetween):
        return None
    if not mentions(condition, is_next=True):
        return replace(access, first_if=(*access.first_if, condition))
    if not mentions(condition, is_next=False):
        return replace(access, second_if=(*access.second_if, condition))
    found = comparison(condition)
    if found is None:
        return None
    if found.op == "=":
        return replace(access, equal=(*access.equal, found))
    return replace(access, ordered=(*access.ordered, found))


def _shaped(access: Access) -> Access:
    """Choose the structure of an access whose conditions are all comparisons."""
    orders = access.by_value
    unequal = [sum(c.op == "!=" for c in comparisons) for comparisons in orders]
    if any(count > 1 for count in unequal):
        return _scan(access, "a value has several != comparisons")
    if len(orders) > 2:
        return _scan(access, "more than two values are compared by order")
    key = "by key" if access.equal else ""
    if len(orders) == 2:
        why = ", ".join(filter(None, [key, "two values are compared by order"]))
        return replace(access, structure=Structure.NESTED, why=why)
    if not orders:
        if access.guard is None:
            return replace(access, structure=Structure.TABLE, why=key or "only their sum is needed")
        return replace(access, structure=Structure.TREE, why=f"{key or 'in order'}; NOT discards some")
    both = "both sides of a value" if any(unequal) else "one side of a value"
    between = "between two values" if len(access.ordered) > 1 and not any(unequal) else both
    return replace(access, structure=Structure.TREE, why=", ".join(filter(None, [key, between])))


def _as_neighbours_allow(access: Access, all_of_them: list[Access]) -> Access:
    """Under *next* a continued binding is removed for every access, so accesses to a place must agree on how.

    A table removes a whole key at once. If other accesses use the same bindings, they are removed one by one.
    """
    others = [other for other in all_of_them if other.place == access.place and other is not access]
    if any(other.structure is Structure.SCAN for other in others) and access.is_indexed:
        return _scan(access, "another event scans the same bindings")
    if access.structure is Structure.TABLE and others:
        return replace(
            access, structure=Structure.TREE, why=f"{access.why}; other events look up the same bindings"
        )
    return access


def _scan(access: Access, why: str) -> Access:
    return Access(access.place, access.predicates, access.guard, Structure.SCAN, why)


def online(access: Access) -> Access:
    """The same access without ranks, at the same bound, if its only condition is one inequality or !=."""
    is_able = access.structure is Structure.TREE and not access.equal and len(access.ordered) == 1
    return replace(access, is_online=is_able)


def _conjuncts(condition: Expression | NoneBetween) -> Iterator[Expression | NoneBetween]:
    """The conjuncts of a condition; null counts as false here."""
    match condition:
        case Logic("AND", parts):
            for part in parts:
                yield from _conjuncts(part)
        case Between(operand, low, high, False):
            yield Compare(">=", operand, low)
            yield Compare("<=", operand, high)
        case In(operand, (only,), negated):
            yield Compare("!=" if negated else "=", operand, only)
        case Unary("NOT", Compare(op, left, right)):
            yield Compare(_NEGATED[op], left, right)
        case _:
            yield condition


def comparison(condition: Expression) -> Comparison | None:
    """A condition as a comparison of a value of the first event with one of the second, or None."""
    match condition:
        case Compare(op, left, right) if is_first(left) and is_second(right):
            return Comparison(op, left, right)
        case Compare(op, left, right) if is_second(left) and is_first(right):
            return Comparison(MIRRORED[op], right, left)
    return None


def mentions(node: Expression, *, is_next: bool) -> bool:
    """Whether an expression names an attribute of the second event (`is_next`), or of the first."""
    return any(isinstance(part, Attribute) and part.is_next == is_next for part in walk(node))


def is_first(node: Expression) -> bool:
    """Whether an expression depends on the first event only."""
    return mentions(node, is_next=False) and not mentions(node, is_next=True)


def is_second(node: Expression) -> bool:
    """Whether an expression depends on the second event only."""
    return mentions(node, is_next=True) and not mentions(node, is_next=False)
