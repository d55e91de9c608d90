"""How an event finds the bindings it may continue, where predicates compare it with them one by one.

The sum over earlier bindings with a smaller value is a prefix sum. So a conjunction of comparisons
`f(E) op g(NEXT(F))` needs no look at every binding: a table by key for `=`, a sum tree over ranks for an
inequality (both of its sides for `!=`), trees below one another for two. Whatever else is asked is a scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from trendfold.automaton.glushkov import START
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
"""What a comparison becomes when its sides change places."""

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Structure(StrEnum):
    """What the bindings of a place are kept in, for one way of asking them."""

    TABLE = "table"
    TREE = "tree"
    NESTED = "nested trees"
    LAST = "last moment"
    SCAN = "scan"


BOUNDS = {
    Structure.TABLE: "O(1)",
    Structure.TREE: "O(log n)",
    Structure.NESTED: "O(log² n)",
    Structure.LAST: "O(last moment)",
    Structure.SCAN: "O(n)",
}
"""What an event pays, for n bindings."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`first op second`: a value of the earlier binding beside one of the event after it."""

    op: str
    first: Expression
    second: Expression


@dataclass(frozen=True, slots=True)
class Access:
    """How an event asks the bindings at `place`, under these predicates and this guard judged by time.

    `equal`, `ordered` (inequalities and !=), and the conditions on one side alone together mean what the
    predicates mean; where something is left over, the structure is a scan and they are empty.
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
    """Whether its tree grows with the values that come, instead of ranking all of them beforehand."""

    @property
    def bound(self) -> str:
        """What an event pays."""
        return BOUNDS[self.structure]

    @property
    def is_indexed(self) -> bool:
        """Whether bindings are found by their values, without a look at the others."""
        return self.structure in (Structure.TABLE, Structure.TREE, Structure.NESTED)

    @property
    def by_value(self) -> tuple[tuple[Comparison, ...], ...]:
        """The comparisons by order, those of one value of the earlier event together."""
        firsts = dict.fromkeys(c.first for c in self.ordered)
        return tuple(tuple(c for c in self.ordered if c.first == first) for first in firsts)


def accesses(machine: Machine) -> tuple[Access, ...]:
    """Every way in which events ask the bindings kept one by one; ⊥, which is one binding, apart."""
    everything = frozenset(p.index for p in machine.automaton.positive)
    scans = [scan for step in machine.steps(everything) for scan in step.scans if scan.place != START]
    found = [_access(machine, scan) for scan in dict.fromkeys(scans)]
    if machine.semantics is Semantics.NEXT:
        return tuple(_as_neighbours_allow(access, found) for access in found)
    return tuple(found)


def _access(machine: Machine, scan: Scan) -> Access:
    whole = Access(scan.place, scan.predicates, scan.guard, Structure.SCAN, "")
    if machine.semantics is Semantics.CONTIGUOUS:
        return replace(whole, structure=Structure.LAST, why="nothing may lie between neighbours")
    for number in scan.predicates:
        for condition in _conjuncts(machine.predicates.adjacency[number].condition):
            added = _with(whole, condition)
            if added is None:
                return _left_over(whole, "a predicate mixes values of both events")
            whole = added
    return _shaped(whole)


def _with(access: Access, condition: Expression) -> Access | None:
    """The access with one more condition, or None if it compares no value with another."""
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
    """The structure for conditions that are all comparisons."""
    orders = access.by_value
    unequal = [sum(c.op == "!=" for c in comparisons) for comparisons in orders]
    if any(count > 1 for count in unequal):
        return _left_over(access, "a value must differ from several")
    if len(orders) > 2:
        return _left_over(access, "more than two values are compared by order")
    key = "by key" if access.equal else ""
    if len(orders) == 2:
        why = ", ".join(filter(None, [key, "two values are compared by order"]))
        return replace(access, structure=Structure.NESTED, why=why)
    if not orders:
        if access.guard is None:
            return replace(access, structure=Structure.TABLE, why=key or "their sum is all that is asked")
        return replace(access, structure=Structure.TREE, why=f"{key or 'in order'}; NOT drops some")
    both = "both sides of a value" if any(unequal) else "one side of a value"
    between = "between two values" if len(access.ordered) > 1 and not any(unequal) else both
    return replace(access, structure=Structure.TREE, why=", ".join(filter(None, [key, between])))


def _as_neighbours_allow(access: Access, all_of_them: list[Access]) -> Access:
    """Under *next* a binding that was continued is gone for all who ask, so they must agree on how.

    A table forgets a whole key at once; where others ask the same bindings, they leave one by one.
    """
    others = [other for other in all_of_them if other.place == access.place and other is not access]
    if any(other.structure is Structure.SCAN for other in others) and access.is_indexed:
        return _left_over(access, "another event asks the same bindings one by one")
    if access.structure is Structure.TABLE and others:
        return replace(access, structure=Structure.TREE, why=f"{access.why}; others ask the same bindings")
    return access


def _left_over(access: Access, why: str) -> Access:
    return Access(access.place, access.predicates, access.guard, Structure.SCAN, why)


def online(access: Access) -> Access:
    """The same access without ranks, at the same bound, where one inequality or != is all that it asks."""
    is_able = access.structure is Structure.TREE and not access.equal and len(access.ordered) == 1
    return replace(access, is_online=is_able)


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """The parts that must all be true; null is as good as false here."""
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
    """A condition as a value of the first event beside one of the second, if it is that."""
    match condition:
        case Compare(op, left, right) if is_first(left) and is_second(right):
            return Comparison(op, left, right)
        case Compare(op, left, right) if is_second(left) and is_first(right):
            return Comparison(MIRRORED[op], right, left)
    return None


def mentions(node: Expression, *, is_next: bool) -> bool:
    """Whether an expression names an attribute of the second event, or of the first."""
    return any(isinstance(part, Attribute) and part.is_next == is_next for part in walk(node))


def is_first(node: Expression) -> bool:
    """Whether a value is the first event's alone."""
    return mentions(node, is_next=False) and not mentions(node, is_next=True)


def is_second(node: Expression) -> bool:
    """Whether a value is the second event's alone."""
    return mentions(node, is_next=True) and not mentions(node, is_next=False)
