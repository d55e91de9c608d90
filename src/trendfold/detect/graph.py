"""The multi-pattern graph in its compact form (MCEP, section 4.1 and appendix A).

Instead of an edge per pair of patterns, one table maps every maximal common sub-pattern to the patterns that
have it, and another every pattern to its sub-patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from trendfold.detect.pattern import JoinPattern, Relation

Name = tuple[int, int]
"""An element whichever pattern it is in: its leaf, and how many times that leaf came before it."""

PairKey = tuple[Name, Name, Relation]


@dataclass(frozen=True, slots=True)
class SubPattern:
    """Some elements and what must hold between them; names are in order."""

    names: tuple[Name, ...]
    pairs: tuple[PairKey, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass
class Graph:
    """Who shares what."""

    patterns: Sequence[JoinPattern]
    element: list[dict[Name, int]] = field(default_factory=list)
    """Per pattern: the element of each name."""
    having: dict[PairKey, set[int]] = field(default_factory=dict)
    """Per pair of elements: the patterns that have it."""
    shared: dict[SubPattern, set[int]] = field(default_factory=dict)
    """Per maximal common sub-pattern: patterns that have it in common with another."""
    of_pattern: dict[int, set[SubPattern]] = field(default_factory=dict)

    def containing(self, part: SubPattern) -> set[int]:
        """All patterns that contain a sub-pattern of two elements or more."""
        return set.intersection(*(self.having[pair] for pair in part.pairs))

    def part(self, number: int, names: Iterable[Name]) -> SubPattern:
        """A pattern's projection on some names."""
        ordered = tuple(sorted(names))
        element, pattern = self.element[number], self.patterns[number]
        pairs = tuple((a, b, pattern.relation(element[a], element[b])) for a, b in combinations(ordered, 2))
        return SubPattern(ordered, pairs)

    def components(self) -> list[list[int]]:
        """Patterns that are connected by sharing; each component can be planned on its own."""
        found: list[list[int]] = []
        seen: set[int] = set()
        for start in range(len(self.patterns)):
            if start in seen:
                continue
            seen.add(start)
            component, frontier = [start], [start]
            while frontier:
                for part in self.of_pattern.get(frontier.pop(), ()):
                    fresh = self.shared[part] - seen
                    seen |= fresh
                    component += fresh
                    frontier += fresh
            found.append(sorted(component))
        return found


def build_graph(patterns: Sequence[JoinPattern]) -> Graph:
    """All maximal common sub-patterns of two elements or more."""
    graph = Graph(patterns)
    for number, pattern in enumerate(patterns):
        graph.element.append(_names(pattern))
        for pair in graph.part(number, graph.element[number]).pairs:
            graph.having.setdefault(pair, set()).add(number)
    meeting: dict[tuple[int, int], set[PairKey]] = {}
    for pair, numbers in graph.having.items():
        for i, j in combinations(sorted(numbers), 2):
            meeting.setdefault((i, j), set()).add(pair)
    for (i, j), pairs in meeting.items():
        for names in _maximal(pairs):
            part = graph.part(i, names)
            graph.shared.setdefault(part, set()).update((i, j))
            for number in (i, j):
                graph.of_pattern.setdefault(number, set()).add(part)
    return graph


def _names(pattern: JoinPattern) -> dict[Name, int]:
    seen: dict[int, int] = {}
    found = {}
    for i, leaf in enumerate(pattern.leaves):
        found[leaf, seen.get(leaf, 0)] = i
        seen[leaf] = seen.get(leaf, 0) + 1
    return found


def _maximal(pairs: set[PairKey]) -> list[frozenset[Name]]:
    """The largest sets of names any two of which are a pair (Bron and Kerbosch)."""
    near: dict[Name, set[Name]] = {}
    for a, b, _ in pairs:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    found: list[frozenset[Name]] = []

    def grow(chosen: frozenset[Name], open_: set[Name], done: set[Name]) -> None:
        if not open_ and not done:
            found.append(chosen)
            return
        pivot = max(open_ | done, key=lambda name: len(near[name] & open_))
        for name in sorted(open_ - near[pivot]):
            grow(chosen | {name}, open_ & near[name], done & near[name])
            open_, done = open_ - {name}, done | {name}

    grow(frozenset(), set(near), set())
    return found
