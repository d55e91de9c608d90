"""The join plan that a stream follows from one micro-batch to the next, as long as statistics stay alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trendfold.detect.adapt import FEW
from trendfold.detect.join_statistics import JoinStatistics, LeafPair
from trendfold.detect.joint_queries import ClauseJoins
from trendfold.detect.pattern import JoinPattern, JoinTree


@dataclass(frozen=True, slots=True)
class RunningPlan:
    """The trees of all patterns, and the statistics they were made for.

    meaning       a digest of the patterns: the plan is for no others
    rates         per leaf
    selectivities per pair of leaves with conditions, in the order of `ClauseJoins.pairs`
    open          per join that another reads, the partial matches that later events can join: numbers of
                  events; None if they are not known
    until         the last time of the events that `open` is about
    """

    meaning: str
    trees: tuple[JoinTree, ...]
    rates: tuple[float, ...]
    selectivities: tuple[float, ...]
    open: tuple[NDArray[np.int64], ...] | None = field(default=None, compare=False)
    until: int = field(default=0, compare=False)

    def is_of(self, joins: ClauseJoins) -> bool:
        """Whether it is a plan of these joins."""
        return self.meaning == _meaning(joins.patterns)

    def drift(self, now: JoinStatistics, pairs: Sequence[LeafPair], sample: int) -> float:
        """The largest factor by which a rate or a selectivity differs; small numbers hardly count.

        A selectivity that was measured on few rows, at most `sample`, counts as little as these.
        """
        rows = [rate * now.span for rate in now.rates]
        rates = ((a, b * now.span) for a, b in zip(rows, self.rates, strict=True))
        sizes = (min(sample, rows[first], rows[second]) for first, second, _ in pairs)
        shares = zip(pairs, self.selectivities, sizes, strict=True)
        sampled = ((now.selectivity[pair] * size, share * size) for pair, share, size in shares)
        ratios = [(a + FEW) / (b + FEW) for a, b in (*rates, *sampled)]
        return max((max(ratio, 1 / ratio) for ratio in ratios), default=1.0)

    def made_for(self, now: JoinStatistics, joins: ClauseJoins) -> JoinStatistics:
        """The statistics it was made for, with the span and segments of these."""
        shares = dict(zip(joins.pairs, self.selectivities, strict=True))
        return replace(now, rates=self.rates, selectivity=shares)

    def to_value(self) -> list[Any]:
        """As a JSON value, without `open`."""
        return [self.meaning, self.trees, self.rates, self.selectivities]

    @staticmethod
    def from_value(value: list[Any]) -> RunningPlan:
        """What `to_value` gave."""
        meaning, trees, rates, selectivities = value
        return RunningPlan(meaning, tuple(map(_tree, trees)), tuple(rates), tuple(selectivities))


def running_plan(joins: ClauseJoins, trees: Sequence[JoinTree], made_for: JoinStatistics) -> RunningPlan:
    """A plan to go on with."""
    shares = tuple(made_for.selectivity[pair] for pair in joins.pairs)
    return RunningPlan(_meaning(joins.patterns), tuple(trees), made_for.rates, shares)


def _tree(value: Any) -> JoinTree:
    return value if isinstance(value, int) else (_tree(value[0]), _tree(value[1]))


def _meaning(patterns: Sequence[JoinPattern]) -> str:
    told = blake2b(digest_size=8)
    for pattern in patterns:
        told.update(repr(tuple(_told(pattern))).encode())
    return told.hexdigest()


def _told(pattern: JoinPattern) -> Iterator[object]:
    yield pattern.leaves, pattern.window, sorted(pattern.kleene)
    yield sorted(pattern.relations.items(), key=lambda each: each[0])
