"""Split WHERE into local, adjacency, cross and partition predicates (spec 4, 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from trendfold.automaton.gaps import separated
from trendfold.automaton.glushkov import Automaton
from trendfold.query.names import PredicateKind, children, kind_by_names, named, with_children
from trendfold.query.nodes import Attribute, Expression, Query
from trendfold.query.partitions import connecting_attributes, equal_attribute


@dataclass(frozen=True, slots=True)
class Local:
    """A condition on one event, without its alias, and the positions it applies to."""

    condition: Expression
    positions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Pairwise:
    """A condition on two bindings: one at `left` (bare names), one at `right` (NEXT, or the second alias).

    Adjacency: the right binding directly follows the left. Cross: any two bindings of a trend.
    """

    condition: Expression
    left: frozenset[int]
    right: frozenset[int]


@dataclass(frozen=True, slots=True)
class Predicates:
    """The conjuncts of one operand's WHERE, resolved to positions."""

    local: tuple[Local, ...] = ()
    adjacency: tuple[Pairwise, ...] = ()
    cross: tuple[Pairwise, ...] = ()

    def wanted_at(self, position: int) -> tuple[Expression, ...]:
        """The local conditions an event must meet to take `position`, in the order written."""
        found = tuple(p.condition for p in self.local if position in p.positions)
        return found if len(found) < 2 else tuple(dict.fromkeys(found))

    def between(self, p: int, q: int) -> tuple[int, ...]:
        """The numbers of the adjacency predicates for a binding at `p` directly followed by `q`."""
        return tuple(i for i, a in enumerate(self.adjacency) if p in a.left and q in a.right)


def split(query: Query, automaton: Automaton) -> Predicates:
    """The predicates of `query` that refer to `automaton`, one of its operands."""
    partition = set(connecting_attributes(query))
    local, adjacency, cross = [], [], []
    for conjunct in query.where:
        names = named(conjunct)
        if not all(automaton.called(name) for name, _ in names):
            continue  # belongs to another operand
        if equal_attribute(conjunct) in partition:
            continue
        match kind_by_names(names):
            case PredicateKind.LOCAL:
                ((name, _),) = names
                local.append(Local(_strip(conjunct, {}), automaton.called(name)))
            case PredicateKind.ADJACENCY:
                adjacency.append(_adjacency(conjunct, automaton))
            case PredicateKind.CROSS:
                cross.append(_cross(conjunct, automaton))
            case None:
                raise AssertionError("the checks let a conjunct of no kind through")
    return Predicates(tuple(local), tuple(adjacency), tuple(cross))


def _adjacency(conjunct: Expression, automaton: Automaton) -> Pairwise:
    left = next(name for name, is_next in named(conjunct) if not is_next)
    right = next(name for name, is_next in named(conjunct) if is_next)
    condition = separated(_strip(conjunct, {}))
    return Pairwise(condition, automaton.called(left), automaton.called(right))


def _cross(conjunct: Expression, automaton: Automaton) -> Pairwise:
    left, right = sorted(name for name, _ in named(conjunct))
    condition = separated(_strip(conjunct, {right: True}))
    return Pairwise(condition, automaton.called(left), automaton.called(right))


def _strip(node: Expression, second: dict[str, bool]) -> Expression:
    """The expression without aliases; `is_next` marks the second binding's attributes."""

    def bare(attribute: Attribute) -> Attribute:
        is_second = attribute.is_next or second.get(attribute.alias or "", False)
        return replace(attribute, alias=None, is_next=is_second)

    return _mapped(node, bare)


def between_names(condition: Expression, left: str, right: str, *, is_adjacency: bool) -> Expression:
    """A condition on two bindings, written with two aliases."""

    def named_(attribute: Attribute) -> Attribute:
        alias = right if attribute.is_next else left
        return replace(attribute, alias=alias, is_next=attribute.is_next and is_adjacency)

    return _mapped(condition, named_)


def _mapped(part: Expression, change: Callable[[Attribute], Attribute]) -> Expression:
    """Apply `change` to all attributes of an expression."""
    if isinstance(part, Attribute):
        return change(part)
    under = children(part)
    return with_children(part, tuple(_mapped(child, change) for child in under)) if under else part
