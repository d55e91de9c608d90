"""Rates and selectivities that are counted on the way, and when a new plan pays."""

from __future__ import annotations

import numpy as np
import pytest

from trendfold.detect.adapt import FEW, Adapting, StretchCounts, drift, replan, watch_plan
from trendfold.detect.evaluate import JoinedBatch
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.pattern import JoinPattern, Relation, elements_of

LEAVES = 2


def stretch(made: list[float], looked: float = 1000.0, span: float = 100.0) -> StretchCounts:
    return StretchCounts(np.array(made), np.array([0.0, 0.0, looked]), rows=100, span=span, seconds=1.0)


def test_rates_drift_by_time_and_selectivities_by_pairs() -> None:
    then = stretch([1000.0, 1000.0, 500.0])
    assert drift(then, then, LEAVES) == 1.0
    assert drift(stretch([2000.0, 2000.0, 1000.0], 2000.0, 200.0), then, LEAVES) == pytest.approx(1.0)
    faster = drift(stretch([3000.0, 1000.0, 500.0]), then, LEAVES)
    assert faster == pytest.approx((3000 + FEW) / (1000 + FEW))
    rarer = drift(stretch([1000.0, 1000.0, 100.0]), then, LEAVES)
    assert rarer == pytest.approx((500 + FEW) / (100 + FEW))


def test_a_few_events_are_no_drift() -> None:
    assert drift(stretch([8.0, 0.0, 3.0]), stretch([1.0, 5.0, 0.0]), LEAVES) < 1.5


def batch(low: int, high: int, made: list[int], seconds: float) -> JoinedBatch:
    return JoinedBatch(low, high, {}, np.array(made), np.array([0, 0, 1000]), 0, 0, seconds)


def test_a_new_plan_is_asked_for_when_things_have_changed_for_long_enough() -> None:
    watch = watch_plan(Adapting(looks_after=100, reluctance=1.0), LEAVES, stretch([500.0, 500.0, 0.0]))
    for k in range(4):
        watch.add(batch(100 * k, 100 * k + 100, [500, 500, 200], 0.1), 100.0)
        assert not watch.calls_for_plan(0.3, 10_000)  # all is as it was
    watch.add(batch(400, 500, [2000, 500, 200], 0.1), 100.0)
    assert watch.calls_for_plan(0.3, 10_000)
    assert not watch.calls_for_plan(0.3, 100)  # too little is left to gain from
    assert not watch.calls_for_plan(0.6, 10_000)
    assert watch.pace == watch.first_pace == pytest.approx(0.001)


def test_a_selectivity_that_changed_calls_for_a_plan() -> None:
    watch = watch_plan(Adapting(looks_after=100, reluctance=0.0), LEAVES, stretch([500.0, 500.0, 0.0]))
    watch.add(batch(0, 100, [500, 500, 900], 0.1), 100.0)
    assert not watch.calls_for_plan(0.0, 1000)
    watch.add(batch(100, 200, [500, 500, 20], 0.1), 100.0)
    assert watch.calls_for_plan(0.0, 1000)


def test_replanning_reorders_for_new_rates() -> None:
    """SEQ(A, B, C): whichever of A and C becomes rare is joined first."""
    before = Relation(order=1)
    pattern = JoinPattern("p", (0, 1, 2), {(0, 1): before, (0, 2): before, (1, 2): before}, 100)
    tree = ((0, 1), 2)
    found = replan([pattern], JoinStatistics((5.0, 0.1, 0.01), 1000.0, 1), [tree])
    assert found.new_cost < found.old_cost
    assert set(elements_of(found.trees[0][0])) | set(elements_of(found.trees[0][1])) == {0, 1, 2}
    assert (0, 1) not in found.trees[0]
    assert replan([pattern], JoinStatistics((0.01, 0.1, 5.0), 1000.0, 1), [tree]).trees == (tree,)
