"""The multi-pattern graph in its compact form (MCEP, section 4.1 and appendix A).

Instead of an edge per pair of patterns, one table maps every maximal common sub-pattern to the patterns that
contain it, and another every pattern to its sub-patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from trendfold.detect.pattern import JoinPattern, Relation

ElementName = tuple[int, int]
"""An element independent of its pattern: its leaf, and how often that leaf occurs before it."""

NamedPair = tuple[ElementName, ElementName, Relation]


@dataclass(frozen=True, slots=True)
class SubPattern:
    """Some elements, in the order of their names, and the conditions between them."""

    names: tuple[ElementName, ...]
    pairs: tuple[NamedPair, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class MultiPatternGraph:
    """Which patterns have which sub-patterns in common."""

    patterns: Sequence[JoinPattern]
    element: Sequence[Mapping[ElementName, int]]
    """Per pattern: the element of each name."""
    having: dict[NamedPair, set[int]] = field(default_factory=dict)
    """Per pair of elements: the patterns that contain it."""
    shared: dict[SubPattern, set[int]] = field(default_factory=dict)
    """Per maximal common sub-pattern: the patterns that have it in common with another."""
    of_pattern: dict[int, set[SubPattern]] = field(default_factory=dict)

    def containing(self, part: SubPattern) -> set[int]:
        """All patterns that contain a sub-pattern of at least two elements."""
        return set.intersection(*(self.having[pair] for pair in part.pairs))

    def part(self, number: int, names: Iterable[ElementName]) -> SubPattern:
        """The projection of a pattern on some names."""
        ordered = tuple(sorted(names))
        element, pattern = self.element[number], self.patterns[number]
        pairs = tuple((a, b, pattern.relation(element[a], element[b])) for a, b in combinations(ordered, 2))
        return SubPattern(ordered, pairs)

    def components(self) -> list[list[int]]:
        """The sets of patterns that sharing connects; each can be planned on its own."""
        found: list[list[int]] = []
        seen: set[int] = set()
        for start in range(len(self.patterns)):
            if start not in seen:
                component = self._reachable(start)
                seen |= component
                found.append(sorted(component))
        return found

    def _reachable(self, start: int) -> set[int]:
        """The patterns that sharing connects with one."""
        found, frontier = {start}, [start]
        while frontier:
            for part in self.of_pattern.get(frontier.pop(), ()):
                fresh = self.shared[part] - found
                found |= fresh
                frontier += fresh
        return found


def build_graph(patterns: Sequence[JoinPattern]) -> MultiPatternGraph:
    """The graph of all maximal common sub-patterns of at least two elements."""
    graph = MultiPatternGraph(patterns, [_named_elements(pattern) for pattern in patterns])
    for number, elements in enumerate(graph.element):
        for pair in graph.part(number, elements).pairs:
            graph.having.setdefault(pair, set()).add(number)
    for (i, j), pairs in _common_pairs(graph).items():
        for names in _maximal_cliques(pairs):
            part = graph.part(i, names)
            graph.shared.setdefault(part, set()).update((i, j))
            for number in (i, j):
                graph.of_pattern.setdefault(number, set()).add(part)
    return graph


def _named_elements(pattern: JoinPattern) -> dict[ElementName, int]:
    seen: dict[int, int] = {}
    found = {}
    for i, leaf in enumerate(pattern.leaves):
        found[leaf, seen.get(leaf, 0)] = i
        seen[leaf] = seen.get(leaf, 0) + 1
    return found


def _common_pairs(graph: MultiPatternGraph) -> dict[tuple[int, int], set[NamedPair]]:
    """Per two patterns the pairs of elements that both contain."""
    found: dict[tuple[int, int], set[NamedPair]] = {}
    for pair, numbers in graph.having.items():
        for i, j in combinations(sorted(numbers), 2):
            found.setdefault((i, j), set()).add(pair)
    return found


def _maximal_cliques(pairs: set[NamedPair]) -> list[frozenset[ElementName]]:
    """The maximal sets of names any two of which are a pair (Bron and Kerbosch)."""
    near: dict[ElementName, set[ElementName]] = {}
    for a, b, _ in pairs:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    found: list[frozenset[ElementName]] = []

    def grow(chosen: frozenset[ElementName], open_: set[ElementName], done: set[ElementName]) -> None:
        if not open_ and not done:
            found.append(chosen)
            return
        pivot = max(open_ | done, key=lambda name: len(near[name] & open_))
        for name in sorted(open_ - near[pivot]):
            grow(chosen | {name}, open_ & near[name], done & near[name])
            open_, done = open_ - {name}, done | {name}

    grow(frozenset(), set(near), set())
    return found
