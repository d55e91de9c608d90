"""Patterns -> position automata (spec 3), with a guard for every NOT (spec 6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from itertools import chain, product
from operator import or_

from trendfold.query.names import joined_nots
from trendfold.query.nodes import (
    Both,
    Either,
    EventRef,
    Maybe,
    Not,
    Pattern,
    Plus,
    Repeat,
    Seq,
    TypeSet,
    type_set,
)

START, END = -1, -2
"""The window's start ⊥, followed by *first*, and its end ⊤, preceded by *last*."""


@dataclass(frozen=True, slots=True)
class Position:
    """One occurrence of a type, or set of types, in the pattern; each copy made by `{m,n}` is its own."""

    index: int
    type: str | TypeSet
    alias: str | None

    @property
    def types(self) -> TypeSet:
        """The types of the events that can take it."""
        return type_set(self.type)

    @property
    def label(self) -> str:
        """Its type or types as text."""
        return str(self.type)

    def is_called(self, name: str) -> bool:
        """Whether a name in another clause refers to this position (it may refer to others too)."""
        return name in (self.type, self.alias)


@dataclass(frozen=True, slots=True)
class Guard:
    """One NOT N: N's positions, numbered along with the pattern's; N is matched under skip-till-any."""

    positions: tuple[int, ...]
    first: frozenset[int]
    last: frozenset[int]
    edges: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Automaton:
    """Glushkov's automaton of one pattern.

    `edges` holds (p, q) for q in *follow*(p), (START, q) for q in *first*, and (p, END) for p in
    *last*. Both neighbours of a NOT are non-empty, so an edge crosses at most one guard, and all guarded
    edges out of a place cross the same guard: `guard_of[(p, q)]` is its number.
    """

    positions: tuple[Position, ...]
    edges: frozenset[tuple[int, int]]
    guards: tuple[Guard, ...] = ()
    guard_of: dict[tuple[int, int], int] = field(default_factory=dict)

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that are written in the pattern."""
        return frozenset(name for p in self.positions for name in p.types.names or ())

    @cached_property
    def first(self) -> frozenset[int]:
        """The positions that can begin a trend."""
        return frozenset(q for p, q in self.edges if p == START)

    @cached_property
    def last(self) -> frozenset[int]:
        """The positions that can end a trend."""
        return frozenset(p for p, q in self.edges if q == END)

    @cached_property
    def followed(self) -> frozenset[int]:
        """The positions that some position may follow."""
        return frozenset(p for p, q in self.edges if p != START and q != END)

    def reachable(self, own: frozenset[int], without: frozenset[int] = frozenset()) -> frozenset[int]:
        """The positions a trend can stand at once it has bound one of `own`, and none of `without` after."""
        reached, frontier = set(own), list(own)
        while frontier:
            p = frontier.pop()
            fresh = {q for source, q in self.edges if source == p and q != END} - reached - without
            reached |= fresh
            frontier += fresh
        return frozenset(reached)

    def after(self, own: frozenset[int]) -> frozenset[int]:
        """The positions that may directly follow one of `own`, in a trend or in a trend of a NOT."""
        return frozenset(q for p in own for q in self._next.get(p, ()))

    def reached(self, own: frozenset[int]) -> frozenset[int]:
        """These positions, and all that may come after one of them."""
        reached, frontier = own, own
        while frontier:
            frontier = self.after(frontier) - reached
            reached |= frontier
        return reached

    @cached_property
    def _next(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for p, q in chain(self.edges, *(guard.edges for guard in self.guards)):
            if p != START and q != END:
                found.setdefault(p, []).append(q)
        return found

    @cached_property
    def negated(self) -> frozenset[int]:
        """The positions inside of NOTs."""
        return frozenset(p for guard in self.guards for p in guard.positions)

    @cached_property
    def positive(self) -> tuple[Position, ...]:
        """The positions outside of every NOT."""
        return tuple(p for p in self.positions if p.index not in self.negated)

    @cached_property
    def needed(self) -> frozenset[int]:
        """The positions that every trend takes."""
        return frozenset(p.index for p in self.positive if END not in self._distances(without=p.index))

    @cached_property
    def fewest(self) -> int:
        """The number of events of the shortest trend."""
        return self._distances()[END] - 1

    def _distances(self, without: int | None = None) -> dict[int, int]:
        """The fewest edges from ⊥ to each place that can be reached, without going through one of them."""
        found, frontier = {START: 0}, [START]
        while frontier:
            ahead = {q for p in frontier for q in self.targets(p) if q not in found and q != without}
            found |= dict.fromkeys(ahead, found[frontier[0]] + 1)
            frontier = list(ahead)
        return found

    def sources(self, q: int) -> tuple[int, ...]:
        """The places directly before `q`."""
        return self._sources.get(q, ())

    @cached_property
    def _sources(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for p, q in sorted(self.edges):
            found.setdefault(q, []).append(p)
        return {q: tuple(sources) for q, sources in found.items()}

    def targets(self, p: int) -> tuple[int, ...]:
        """The places directly after `p`, in order."""
        return self._targets.get(p, ())

    @cached_property
    def _targets(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for p, q in sorted(self.edges):
            found.setdefault(p, []).append(q)
        return {p: tuple(targets) for p, targets in found.items()}

    def called(self, name: str) -> frozenset[int]:
        """The positions that `name` refers to, negated ones included."""
        return frozenset(p.index for p in self.positions if p.is_called(name))

    def negated_of(self, names: Iterable[str]) -> str | None:
        """The name of negated events, if the others are of positive ones."""
        found = [(name, self.called(name) <= self.negated) for name in names]
        mixed = len({is_negated for _, is_negated in found}) == 2
        return next((name for name, is_negated in found if is_negated), None) if mixed else None

    def types_at(self, name: str) -> TypeSet:
        """The types of the events that can take the positions that `name` refers to."""
        return reduce(or_, (p.types for p in self.positions if p.is_called(name)))


@dataclass(frozen=True, slots=True)
class _FirstLast:
    """*first* and *last* of a sub-pattern, and whether it accepts the empty sequence."""

    first: frozenset[int]
    last: frozenset[int]
    nullable: bool = False


@lru_cache(maxsize=1_024)
def build(pattern: Pattern) -> Automaton:
    """Glushkov's construction: one position per written occurrence, no epsilon moves.

    Queries of a workload mostly differ in constants: equal patterns have one automaton.
    """
    walk = _Walk()
    parts = joined_nots(pattern.parts) if isinstance(pattern, Seq) else (pattern,)
    start_guard = walk.guard(parts[0].body) if isinstance(parts[0], Not) else None
    inner = parts[1:] if isinstance(parts[0], Not) else parts
    trailing = inner[-1] if isinstance(inner[-1], Not) else None
    ends = walk.sequence(inner[:-1] if trailing else inner)
    end_guard = walk.guard(trailing.body) if trailing else None
    walk.connect({START}, ends.first, start_guard)
    walk.connect(ends.last, {END}, end_guard)
    return Automaton(tuple(walk.positions), frozenset(walk.edges), tuple(walk.guards), dict(walk.guard_of))


@dataclass(slots=True)
class _Walk:
    """The state of the construction: positions numbered and edges added so far."""

    positions: list[Position] = field(default_factory=list)
    edges: set[tuple[int, int]] = field(default_factory=set)
    guards: list[Guard] = field(default_factory=list)
    guard_of: dict[tuple[int, int], int] = field(default_factory=dict)

    def connect(
        self, sources: frozenset[int] | set[int], targets: frozenset[int] | set[int], guard: int | None = None
    ) -> None:
        pairs = set(product(sources, targets))
        self.edges |= pairs
        if guard is not None:
            self.guard_of |= dict.fromkeys(pairs, guard)

    def guard(self, body: Pattern) -> int:
        """Number N's positions, keeping its edges separate from the pattern's."""
        inner = _Walk(self.positions)
        low = len(self.positions)
        ends = inner.visit(body)
        numbers = tuple(range(low, len(self.positions)))
        self.guards.append(Guard(numbers, ends.first, ends.last, frozenset(inner.edges)))
        return len(self.guards) - 1

    def visit(self, node: Pattern) -> _FirstLast:
        """Number the positions under `node`, connect them, and return its *first* and *last*."""
        match node:
            case EventRef(type=kind, alias=alias):
                here = len(self.positions)
                self.positions.append(Position(here, kind, alias))
                return _FirstLast(frozenset({here}), frozenset({here}))
            case Seq(parts):
                return self.sequence(parts)
            case Either(parts):
                ends = [self.visit(part) for part in parts]
                return _FirstLast(
                    frozenset().union(*(e.first for e in ends)),
                    frozenset().union(*(e.last for e in ends)),
                    any(e.nullable for e in ends),
                )
            case Plus(body):
                inner = self.visit(body)
                self.connect(inner.last, inner.first)
                return inner
            case Maybe(body):
                inner = self.visit(body)
                return _FirstLast(inner.first, inner.last, nullable=True)
            case Repeat(body, low, high):
                return self.repeat(body, low, high)
            case Not() | Both():
                raise AssertionError(f"{type(node).__name__} where the checks allow none")

    def repeat(self, body: Pattern, low: int, high: int | None) -> _FirstLast:
        """`P{m,}` is m copies, the last of them `P+`; `P{m,n}` is n copies, any from the m-th on may be last.

        Gives the same positions and edges as m copies followed by nested optionals.
        """
        ends = [self.visit(body) for _ in range(high or low)]
        if high is None:
            self.connect(ends[-1].last, ends[-1].first)
        self._follow(ends, [])
        needed, optional = ends[:low], ends[low:]
        last = _reach(needed[::-1], "last").union(*(e.last for e in optional))
        return _FirstLast(_reach(ends, "first"), last, all(e.nullable for e in needed))

    def sequence(self, parts: tuple[Pattern, ...]) -> _FirstLast:
        """Connect each part to the parts after it, up to and including the first non-empty one.

        A NOT guards every edge that crosses it. In SEQ(A, NOT N, SEQ(B?, C)), flattened, that is
        A to B and also A to C.
        """
        ends: list[_FirstLast] = []
        guards: list[tuple[int, int]] = []
        for part in joined_nots(parts):
            if isinstance(part, Not):
                guards.append((len(ends), self.guard(part.body)))
            else:
                ends.append(self.visit(part))
        self._follow(ends, guards)
        return _FirstLast(_reach(ends, "first"), _reach(ends[::-1], "last"), all(e.nullable for e in ends))

    def _follow(self, ends: list[_FirstLast], guards: list[tuple[int, int]]) -> None:
        for i in range(len(ends)):
            for j in range(i + 1, len(ends)):
                crossed = [guard for place, guard in guards if i < place <= j]
                self.connect(ends[i].last, ends[j].first, crossed[0] if crossed else None)
                if not ends[j].nullable:
                    break


def _reach(ends: list[_FirstLast], side: str) -> frozenset[int]:
    """The union of *first* over the parts that can come first (of *last*, for reversed parts)."""
    found: set[int] = set()
    for part in ends:
        found |= getattr(part, side)
        if not part.nullable:
            break
    return frozenset(found)
