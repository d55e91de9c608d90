"""Join patterns and statistics made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from random import Random

from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.pattern import JoinPattern, Relation

BEFORE = Relation(order=1)


def sequence(types: str, window: int = 10, **conditions: int) -> JoinPattern:
    """SEQ of one-letter types; `AC=3` asks condition 3 between A and C."""
    relations = {
        (i, j): Relation(1, ((conditions[a + b], False),)) if a + b in conditions else BEFORE
        for j, b in enumerate(types)
        for i, a in enumerate(types[:j])
    }
    return JoinPattern(types, tuple(map(ord, types)), relations, window)


def statistics(patterns: Sequence[JoinPattern], seed: int = 0) -> JoinStatistics:
    rng = Random(seed)
    rates = tuple(rng.uniform(0.1, 2.0) for _ in range(128))
    found = JoinStatistics(rates, 1000.0, 1)
    for pattern in patterns:
        for (i, j), relation in pattern.relations.items():
            value = rng.uniform(0.01, 0.9) if relation.asked else 1.0
            found.selectivity.setdefault((pattern.leaves[i], pattern.leaves[j], relation), value)
    return found


def workload(seed: int) -> list[JoinPattern]:
    rng = Random(seed)
    conditions = {a + b: i for i, (a, b) in enumerate(permutations("ABCDEFGH", 2)) if rng.random() < 0.4}
    return [sequence("".join(rng.sample("ABCDEFGH", rng.choice([3, 4, 5]))), **conditions) for _ in range(12)]
