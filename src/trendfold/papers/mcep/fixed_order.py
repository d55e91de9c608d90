"""SPASS and MOTTO as MCEP describes them: patterns share parts, but none changes the order of its elements.

Both join every pattern from left to right, after the parts that it shares. They differ in which parts may be
shared, and in how these are selected (MCEP, section 7):

- SPASS scores sub-expressions, runs of elements that follow each other, by their *redundancy ratio*: the work
  that sharing a part saves, as a share of all work of the patterns that have it. Parts are taken by score,
  and cover each pattern without overlaps: a greedy approximation of the minimal substring cover.
- MOTTO shares runs (merging), parts of them (decomposition), and any set of elements, for which it transforms
  a sequence to a conjunction. The cheapest plan of all is a directed Steiner tree; it is approximated by
  adding the part that saves most until none does. Our joins take any set of elements as they are, so the
  transformation needs no operator of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from time import monotonic

from trendfold.detect.join_cost import PricedPattern, price
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.pattern import JoinPattern, JoinTree, left_deep
from trendfold.detect.plan_state import plan_state
from trendfold.detect.workplan import Workplan
from trendfold.papers.mcep.pattern_graph import MultiPatternGraph, SubPattern, build_graph

MOST_S = 5.0
"""MOTTO adds no part to its plan after so many seconds."""

Elements = tuple[int, ...]
"""Elements of a pattern, in the order written."""


@dataclass(frozen=True)
class Shareable:
    """A part that several patterns have, and its elements in each of them."""

    elements: dict[int, Elements] = field(hash=False)


def plan_spass(patterns: Sequence[JoinPattern], statistics: JoinStatistics) -> Workplan:
    """Share runs of elements, those with the largest redundancy ratio first."""
    priced = [price(pattern, statistics) for pattern in patterns]
    work = [_cost([each], [each.pattern.written]) for each in priced]
    found = [part for part in _parts(patterns) if all(map(_is_run, part.elements.values()))]
    scored = sorted(found, key=lambda part: -_redundancy(part, priced, work))
    return Workplan(_covered(patterns, scored))


def plan_motto(patterns: Sequence[JoinPattern], statistics: JoinStatistics) -> Workplan:
    """Share any parts, each time the one that makes the plan of all patterns cheapest."""
    priced = [price(pattern, statistics) for pattern in patterns]
    left, chosen = _parts(patterns), list[Shareable]()
    trees = _covered(patterns, chosen)
    least = _cost(priced, trees)
    end = monotonic() + MOST_S
    while left and monotonic() < end:
        costs = [_cost(priced, _covered(patterns, [*chosen, part])) for part in left]
        best = min(range(len(left)), key=costs.__getitem__)
        if costs[best] >= least:
            break
        least = costs[best]
        chosen.append(left.pop(best))
    return Workplan(_covered(patterns, chosen))


def _redundancy(part: Shareable, priced: Sequence[PricedPattern], work: Sequence[float]) -> float:
    """The share of its patterns' work that is saved if a part is joined once."""
    number = next(iter(part.elements))
    once = _cost([priced[number]], [left_deep(part.elements[number])])
    return once * (len(part.elements) - 1) / max(sum(work[i] for i in part.elements), 1e-300)


def _parts(patterns: Sequence[JoinPattern]) -> list[Shareable]:
    """The common sub-patterns of at least two elements, and the runs inside them."""
    graph = build_graph(patterns)
    found: dict[SubPattern, Shareable] = {}
    for whole, owners in graph.shared.items():
        owner = min(owners)
        elements = sorted(graph.element[owner][name] for name in whole.names)
        for some in (tuple(elements), *_runs(elements)):
            names = [name for name in whole.names if graph.element[owner][name] in some]
            part = graph.part(owner, names)
            if part not in found:
                found[part] = Shareable(_elements(graph, part))
    return list(found.values())


def _runs(elements: Sequence[int]) -> list[Elements]:
    """The runs of at least two elements that follow each other in the pattern."""
    runs = []
    for i in range(len(elements)):
        for j in range(i + 2, len(elements) + 1):
            if _is_run(tuple(elements[i:j])):
                runs.append(tuple(elements[i:j]))
    return runs


def _is_run(elements: Elements) -> bool:
    return all(b == a + 1 for a, b in pairwise(elements))


def _elements(graph: MultiPatternGraph, part: SubPattern) -> dict[int, Elements]:
    """The elements of a part in every pattern that contains it."""
    return {
        i: tuple(sorted(graph.element[i][name] for name in part.names))
        for i in sorted(graph.containing(part))
    }


def _covered(patterns: Sequence[JoinPattern], parts: Sequence[Shareable]) -> tuple[JoinTree, ...]:
    """Every pattern from left to right, with its parts as units; of two that overlap the first."""
    return tuple(_tree(len(pattern.leaves), i, parts) for i, pattern in enumerate(patterns))


def _tree(count: int, number: int, parts: Sequence[Shareable]) -> JoinTree:
    units: list[Elements] = []
    for elements in (part.elements[number] for part in parts if number in part.elements):
        if not any(set(elements) & set(unit) for unit in units):
            units.append(elements)
    taken = {element for unit in units for element in unit}
    units += [(element,) for element in range(count) if element not in taken]
    trees: list[JoinTree] = [left_deep(unit) for unit in sorted(units)]
    return reduce(lambda one, other: (one, other), trees)


def _cost(priced: Sequence[PricedPattern], trees: Sequence[JoinTree]) -> float:
    return plan_state(list(priced), list(trees)).cost
