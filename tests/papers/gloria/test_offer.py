"""`auto` by a sharing plan: where it is chosen, rows are the oracle's; and when it is chosen."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from contract import engine
from contract.test_gloria import random_workload
from contract.test_hamlet import differences, random_events
from trendfold.kernel.program import Folded
from trendfold.papers.gloria import SharingPlan, choose, run
from trendfold.papers.gloria.choose import cheaper
from trendfold.papers.gloria.path_cost import KernelCosts
from trendfold.plan import Group, cost, physical
from trendfold.plan.statistics import GroupStatistics
from trendfold.runtime.group_rows import GroupRows
from trendfold.runtime.lane_rows import LaneRows
from trendfold.runtime.limits import Limits

WORTH_NS = cost.WORTH_NS
FREE = KernelCosts(event=0.0, lane=0.0, coefficient=0.0, value=0.0, close=0.0)


@pytest.fixture(scope="module")
def always() -> Iterator[list[int]]:
    """Sharing costs nothing, so that all groups of lanes get a plan; counts how many were carried out."""
    carried_out: list[int] = []
    before = run.FOLDS["gloria"]

    def counted(group: Group, together: GroupRows, limits: Limits) -> tuple[Folded, ...] | None:
        carried_out.append(len(group.members))
        return before(group, together, limits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "WORTH_NS", -1.0)
        patch.setattr(physical, "WORTH_NS", -1.0)
        patch.setattr(choose, "cheaper", partial(cheaper, costs=FREE))
        patch.setitem(run.FOLDS, "gloria", counted)
        yield carried_out


@engine.many(60)
@given(seed=st.integers(0, 2**40))
def test_plans_that_auto_finds_give_the_oracles_rows(always: list[int], seed: int) -> None:
    rng = random.Random(seed)
    queries, events = random_workload(rng), random_events(rng)
    if queries:
        assert differences(queries, events, "auto") == []


def test_and_they_were_carried_out(always: list[int]) -> None:
    events = pa.table({"type": list("ABCABC"), "ts": range(6)})
    text = "; ".join(f"RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN {w} s SLIDE 1 s" for w in (2, 3, 4))
    result = tf.parse(text).run(events)
    assert always[-1] == 3
    assert result.summary.sharing["propagations"] > 0
    alone = tf.parse(text).run(events, strategy="cogra")
    assert all(result[name].equals(alone[name]) for name in alone)


# ---------------------------------------------------------------- when

MEASURED = KernelCosts(event=90.0, lane=0.35, coefficient=0.15, value=0.15, close=11.0)
MANY = "; ".join(f"RETURN COUNT(*) PATTERN SEQ(A, B, C, D{i}) WITHIN 8 s SLIDE 1 s" for i in range(40))


def plan_by(text: str, frequencies: dict[str, float], side_by_side: float) -> object:
    group = tf.parse(text).plan()[0].group
    assert group is not None
    known = GroupStatistics(frequencies=frequencies)
    return cheaper(group.members, known, side_by_side, MEASURED)


def test_few_snapshots_and_many_lanes_want_a_plan() -> None:
    types = {"B": 500.0, "C": 500.0} | {f"D{i}": 10.0 for i in range(40)}
    assert plan_by(MANY, {"A": 2.0} | types, side_by_side=1e6) is not None
    assert plan_by(MANY, {"A": 2.0} | types, side_by_side=1e5) is None
    assert plan_by(MANY, {"A": 2_000.0} | types, side_by_side=1e6) is None


def test_coefficients_that_would_double_too_often_do_not() -> None:
    text = MANY.replace("B,", "B+,")
    types = {"A": 2.0, "C": 500.0} | {f"D{i}": 10.0 for i in range(40)}
    assert plan_by(text, types | {"B": 100.0}, side_by_side=1e6) is not None
    assert plan_by(text, types | {"B": 500.0}, side_by_side=1e6) is None


def test_what_rows_are_like() -> None:
    text = "; ".join(f"RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN {w} s SLIDE 10 s" for w in (20, 40))
    types = np.array(list("ABBBB") * 20)
    events = pa.table({"type": types, "ts": np.arange(100)})
    seen: list[tuple[GroupStatistics, float]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "WORTH_NS", -1.0)
        patch.setattr(physical, "WORTH_NS", -1.0)
        patch.setattr(choose, "cheaper", lambda members, known, ns: seen.append((known, ns)))
        tf.parse(text).run(events)
    [(known, lanes_ns)] = seen
    # Windows of 40 s, those at the edges less: 13 of them hold 4 · 100 rows.
    assert known.frequencies == pytest.approx({"A": 400 / 13 / 5, "B": 400 / 13 * 4 / 5})
    assert known.window_share == pytest.approx(4 / 13)
    assert [(work.events, work.bursts) for work in known.work] == [(0, 0), (20, 20), (80, 20)]
    assert lanes_ns > 0


@pytest.mark.parametrize(("worth", "looks"), [(WORTH_NS, 0), (-1.0, 1)])
def test_frequencies_are_counted_only_where_lanes_take_long(worth: float, looks: int) -> None:
    counted: list[object] = []
    count = LaneRows.frequencies
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "WORTH_NS", worth)
        patch.setattr(LaneRows, "frequencies", lambda *given: counted.append(given) or count(*given))
        events = pa.table({"type": list("ABBBB") * 20, "ts": range(100)})
        text = "; ".join(f"RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN {w} s SLIDE 10 s" for w in (20, 40))
        tf.parse(text).run(events)
    assert len(counted) == looks


def test_a_named_sharing_plan_is_found_by_the_frequencies_of_the_rows() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, B, C, D); RETURN COUNT(*) PATTERN SEQ(B, C, D)"
    frequent = pa.table({"type": list("ABBBBBBBBBBBBBBBBCBCBCD"), "ts": range(23)})
    carried_out: list[SharingPlan] = []
    with pytest.MonkeyPatch.context() as patch:
        fold = run.FOLDS["gloria"]
        patch.setitem(
            run.FOLDS,
            "gloria",
            lambda group, *more: carried_out.append(group.details) or fold(group, *more),
        )
        result = tf.parse(text).run(frequent, strategy="gloria")
    [plan] = carried_out
    planned = tf.parse(text).plan("gloria")[0].group
    assert planned is not None
    assert plan.cost != planned.details.cost
    alone = tf.parse(text).run(frequent, strategy="cogra")
    assert all(result[name].equals(alone[name]) for name in alone)
