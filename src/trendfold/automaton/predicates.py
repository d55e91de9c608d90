"""Split WHERE into local, adjacency, cross and partition predicates (spec 4, 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from trendfold.automaton.breaking import Breaker, Breaking, NoneBetween, judged
from trendfold.automaton.gaps import separated
from trendfold.automaton.glushkov import Automaton
from trendfold.query.names import PredicateKind, children, kind_by_names, named, with_children
from trendfold.query.nodes import Attribute, Expression, Matches, Query, Semantics
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
    `written` is the conjunct it comes from; the same conditions mean the same, however they are written.
    """

    condition: Expression | NoneBetween
    left: frozenset[int]
    right: frozenset[int]
    written: Expression | None = field(default=None, compare=False, repr=False)
    text: str = field(default="", compare=False)
    """How to show a condition that is not written so in the query."""


@dataclass(frozen=True, slots=True)
class Predicates:
    """The conjuncts of one operand's WHERE, resolved to positions.

    `idle` are those about two events that are never both in a trend.
    """

    local: tuple[Local, ...] = ()
    adjacency: tuple[Pairwise, ...] = ()
    cross: tuple[Pairwise, ...] = ()
    idle: tuple[Pairwise, ...] = field(default=(), compare=False)
    breaking: tuple[Breaking, ...] = ()
    """Conditions between an event of a NOT and a neighbour; `adjacency` has what they mean for pairs."""
    breakers: tuple[Breaker, ...] = ()
    """The columns that these read."""

    @property
    def judges_first_and_last(self) -> bool:
        """Whether a NOT at an end depends on the first and the last event of a trend together."""
        return any(breaker.span is not None for breaker in self.breakers)

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
    local, adjacency, cross, breaking = [], [], [], []
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
            case PredicateKind.CROSS if negated := automaton.negated_of(name for name, _ in names):
                breaking.append(_breaking(conjunct, negated, automaton))
            case PredicateKind.CROSS:
                cross.append(_cross(conjunct, automaton))
            case None:
                raise AssertionError("the checks let a conjunct of no kind through")
    written = Predicates(tuple(local), tuple(adjacency), tuple(cross), breaking=tuple(breaking))
    return _with_nots(written, query, automaton) if breaking else written


def _with_nots(written: Predicates, query: Query, automaton: Automaton) -> Predicates:
    """The predicates, and NOTs with conditions as conditions between neighbours.

    Of a match, NOTs at its ends are judged once it is whole.
    """
    at_ends = not isinstance(query.returns, Matches)
    span = None if query.bound is None else query.bound.length
    found = tuple(
        judged(automaton, written.breaking, query.semantics, written.wanted_at, at_ends=at_ends, span=span)
    )
    pairs = (Pairwise(each.condition, each.left, each.right, text=each.text) for each in found)
    breakers = dict.fromkeys(breaker for each in found for breaker in each.breakers)
    return replace(written, adjacency=(*written.adjacency, *pairs), breakers=tuple(breakers))


def _adjacency(conjunct: Expression, automaton: Automaton) -> Pairwise:
    left = next(name for name, is_next in named(conjunct) if not is_next)
    right = next(name for name, is_next in named(conjunct) if is_next)
    condition = separated(_strip(conjunct, {}))
    return Pairwise(condition, automaton.called(left), automaton.called(right), conjunct)


def _cross(conjunct: Expression, automaton: Automaton) -> Pairwise:
    left, right = sorted(name for name, _ in named(conjunct))
    condition = separated(_strip(conjunct, {right: True}))
    return Pairwise(condition, automaton.called(left), automaton.called(right), conjunct)


# ---------------------------------------------------------------- cross predicates about neighbours


def about_neighbours(predicates: Predicates, automaton: Automaton, semantics: Semantics) -> Predicates:
    """The same predicates; a cross predicate about bindings that are always neighbours is an adjacency one.

    Both say the same of every trend, but an adjacency predicate also plays a part in candidates. Under
    skip-till-any-match and contiguous every candidate counts by itself. Under skip-till-next-match the first
    one counts, and a predicate changes which one that is; there only the trends of NOTs, which are matched
    under skip-till-any-match, are compared so.
    """
    if not predicates.cross:
        return predicates
    adjacency, cross, idle = list(predicates.adjacency), [], []
    for pair in predicates.cross:
        ways = _as_neighbours(pair, automaton)
        is_free = semantics is not Semantics.NEXT or pair.left <= automaton.negated
        if ways == ():
            idle.append(pair)
        elif ways is None or not is_free:
            cross.append(pair)
        else:
            adjacency += ways
    return replace(predicates, adjacency=tuple(adjacency), cross=tuple(cross), idle=tuple(idle))


def _as_neighbours(pair: Pairwise, automaton: Automaton) -> tuple[Pairwise, ...] | None:
    """A cross predicate by the order in which its bindings are neighbours; None if they may be apart."""
    ways = []
    for one in (pair, _turned(pair)):
        next_ = automaton.after(one.left)
        if not automaton.reached(automaton.after(next_)).isdisjoint(one.right):
            return None
        if not next_.isdisjoint(one.right):
            ways.append(one)
    return tuple(ways)


def _turned(pair: Pairwise) -> Pairwise:
    """The same predicate with its sides swapped."""

    assert not isinstance(pair.condition, NoneBetween)  # it is about neighbours

    def other(attribute: Attribute) -> Attribute:
        return replace(attribute, is_next=not attribute.is_next)

    return Pairwise(separated(_mapped(pair.condition, other)), pair.right, pair.left, pair.written)


# ---------------------------------------------------------------- names


def _breaking(conjunct: Expression, negated: str, automaton: Automaton) -> Breaking:
    other = next(name for name, _ in named(conjunct) if name != negated)
    condition = separated(_strip(conjunct, {other: True}))
    return Breaking(condition, automaton.called(negated), automaton.called(other), conjunct)


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
