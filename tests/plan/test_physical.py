"""The one place that chooses how to fold: pure, and what it answered is what ran."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.plan import Group, QueryPlan, plan
from trendfold.plan.cost import DEFAULT_COSTS, Costs
from trendfold.plan.fold_steps import FoldStep, PhysicalPlan, from_value, merged, to_value
from trendfold.plan.overlap import Overlap
from trendfold.plan.physical import (
    NAMES,
    Apart,
    Bindings,
    Combined,
    Fold,
    Lanes,
    Matrices,
    Products,
    SharedPlan,
    Slots,
    Trends,
    Vectors,
    choose,
    choose_exchange,
    values_are_slots,
)
from trendfold.plan.statistics import (
    BatchSize,
    GroupStatistics,
    OperandStatistics,
    QueryStatistics,
    ValueStatistics,
)


def planned(text: str, strategy: str = "auto") -> QueryPlan:
    return plan(tf.parse(text).queries[0], strategy)


def chosen(text: str, known: OperandStatistics, *, burst: float = 1.0, strategy: str = "auto") -> Fold:
    unit = planned(text, strategy)
    return choose(unit, QueryStatistics(1_000, burst, (known,) * len(unit.operands)), DEFAULT_COSTS)


COUNT = "RETURN COUNT(*) PATTERN SEQ(A, B+, C) {}"
SLIDING = COUNT.format("WITHIN 30 s SLIDE 1 s")
MANY_ROWS = Overlap(windows=1_000, window_rows=30_000_000, long=1_000, long_rows=1_000_000, short_rows=0)
FEW_ROWS = Overlap(windows=1_000, window_rows=2_000, long=0, long_rows=0, short_rows=1_000)


def test_overlapping_windows_share_stretches_only_where_that_is_cheaper() -> None:
    assert isinstance(chosen(SLIDING, OperandStatistics(MANY_ROWS)), Products)
    assert isinstance(chosen(SLIDING, OperandStatistics(FEW_ROWS)), Vectors)
    assert isinstance(chosen(SLIDING, OperandStatistics(MANY_ROWS, stack_bytes=1 << 40)), Vectors)
    assert isinstance(chosen(SLIDING, OperandStatistics()), Vectors)


SHORT_ROWS = Overlap(windows=1_000, window_rows=3_000_000, long=0, long_rows=0, short_rows=2_000)


@pytest.mark.parametrize(
    ("text", "known", "in_doubles"),
    [
        (SLIDING, OperandStatistics(SHORT_ROWS, is_small=True), True),
        (SLIDING.replace("COUNT(*)", "SUM(B.v)"), OperandStatistics(SHORT_ROWS, is_small=True), True),
        (SLIDING, OperandStatistics(SHORT_ROWS), False),  # values may leave the range of doubles
        (SLIDING, OperandStatistics(MANY_ROWS, is_small=True), False),  # matrices are wide
        (SLIDING.replace("COUNT(*)", "MIN(B.v)"), OperandStatistics(SHORT_ROWS, is_small=True), False),
        (SLIDING.replace("COUNT(*)", "AVG(DURATION)"), OperandStatistics(SHORT_ROWS, is_small=True), False),
        (
            COUNT.format("WITHIN 90 s SLIDE 1 s").replace("C)", "NOT C)"),
            OperandStatistics(SHORT_ROWS, is_small=True),
            False,
        ),
    ],
)
def test_products_begin_in_doubles_where_these_may_do(
    text: str, known: OperandStatistics, in_doubles: bool
) -> None:
    way = chosen(text, known)
    assert isinstance(way, Products)
    assert way.in_doubles is in_doubles
    assert ("doubles" in way.why) is in_doubles


def test_every_choice_has_its_reason() -> None:
    reasons = {
        chosen(COUNT.format(""), OperandStatistics()).why,
        chosen(COUNT.format("WITHIN 1 s SLIDE 1 s"), OperandStatistics()).why,
        chosen(SLIDING, OperandStatistics(), strategy="cogra").why,
        chosen(SLIDING, OperandStatistics()).why,
        chosen(SLIDING, OperandStatistics(FEW_ROWS)).why,
        chosen(SLIDING, OperandStatistics(MANY_ROWS)).why,
    }
    assert len(reasons) == 6


def test_a_single_query_is_lanes_where_equal_events_come_in_bursts() -> None:
    assert isinstance(chosen(COUNT.format(""), OperandStatistics(), burst=100.0), Lanes)
    assert isinstance(chosen(COUNT.format(""), OperandStatistics(), burst=1.5), Vectors)
    summed = "RETURN SUM(B.x) PATTERN SEQ(A, B+)"
    assert isinstance(chosen(summed, OperandStatistics(), burst=100.0), Vectors)


def test_compared_windows_pass_trees_in_the_batches_that_cost_least() -> None:
    text = "RETURN COUNT(*) PATTERN A+ WHERE A.v > NEXT(A).v WITHIN 30 s SLIDE 1 s"
    batches = tuple(BatchSize(n, 1_000_000 // n + 30_000, n * 10_000) for n in (8, 16, 32))
    way = chosen(text, OperandStatistics(window_rows=1_000_000, batches=batches))
    assert isinstance(way, Bindings)
    assert way.windows in (8, 16, 32)
    huge = tuple(BatchSize(each.windows, each.passed, 1 << 40) for each in batches)
    assert chosen(text, OperandStatistics(window_rows=1_000_000, batches=huge)) == Bindings(
        1, "a predicate compares neighbours; windows overlap too little to share trees"
    )


def test_the_operands_of_and_are_chosen_one_by_one() -> None:
    way = chosen("RETURN COUNT(*) PATTERN AND(SEQ(A, B+), C+)", OperandStatistics())
    assert isinstance(way, Combined)
    assert [type(each) for each in way.operands] == [Vectors, Vectors]


def group_of(text: str, strategy: str = "auto") -> Group:
    group = tf.parse(text).plan(strategy)[0].group
    assert group is not None
    return group


TWO = "; ".join(COUNT.format(where) for where in ("WHERE B.x > 1", "WHERE B.x > 2"))


@pytest.mark.parametrize(
    "known",
    [
        GroupStatistics(values=ValueStatistics(rows=1_000, acting=500, copied=300_000, slots=0)),
        GroupStatistics(values=ValueStatistics(rows=1_000, acting=500, copied=600_000, slots=1_000)),
        GroupStatistics(kinds=5_000),
        GroupStatistics(windows_fit=False),
        GroupStatistics(obstacle="events of one moment combine in too many ways"),
    ],
)
def test_what_forbids_folding_queries_together(known: GroupStatistics) -> None:
    assert isinstance(choose(group_of(TWO), known, DEFAULT_COSTS), Apart)
    assert isinstance(choose(group_of(TWO), GroupStatistics(), DEFAULT_COSTS), Lanes)


def test_values_are_slots_where_that_is_cheaper_than_copies_of_the_rows() -> None:
    group = group_of(TWO)
    for slots, copied, expected in [(20, 20_000, True), (200, 1_500, False), (0, 20_000, False)]:
        known = ValueStatistics(rows=1_000, acting=500, copied=copied, slots=slots)
        assert values_are_slots(group, known, DEFAULT_COSTS) is expected


def test_a_named_strategy_keeps_its_plan() -> None:
    way = choose(group_of(TWO, "hamlet"), GroupStatistics(), Costs())
    assert isinstance(way, SharedPlan)
    assert way.method == "hamlet"


def test_matrices_are_sent_where_they_are_smaller_than_their_rows() -> None:
    assert isinstance(choose_exchange(1_000_000, 1_000_000), Matrices)
    assert choose_exchange(10_000, 10_000_000) is None


# ---------------------------------------------------------------- what ran


def events(count: int = 400) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "type": rng.choice(["A", "B", "C"], count),
            "ts": np.arange(count),
            "v": rng.integers(0, 9, count),
            "g": rng.choice(["x", "y"], count),
        }
    )


RAN: dict[type[Fold], str] = {
    Vectors: "RETURN COUNT(*) PATTERN SEQ(A, B+, C) SEMANTICS next WITHIN 9 s SLIDE 9 s",
    Products: "RETURN COUNT(*) PATTERN SEQ(A, B+, C) WITHIN 300 s SLIDE 1 s",
    Bindings: "RETURN COUNT(*) PATTERN A+ WHERE A.v > NEXT(A).v WITHIN 9 s SLIDE 9 s",
    Trends: "RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE A.v > C.v WITHIN 9 s SLIDE 9 s",
    Combined: "RETURN COUNT(*) PATTERN AND(SEQ(A, B), C) WITHIN 9 s SLIDE 9 s",
    Slots: "RETURN B.g, COUNT(*) PATTERN SEQ(A, B+) GROUP BY B.g WITHIN 9 s SLIDE 9 s",
}


@pytest.mark.parametrize(("way", "text"), RAN.items(), ids=[NAMES[way] for way in RAN])
def test_what_was_chosen_is_what_explain_shows_and_what_ran(way: type[Fold], text: str) -> None:
    workload = tf.parse(text)
    [step] = workload.run(events()).plan
    assert isinstance(step.way, way)
    assert step.queries == ("q1",)
    assert step.rows > 0
    assert step.seconds > 0
    assert step.bytes > 0
    told = json.loads(str(workload.explain(format="json", data=events())))["queries"][0]["steps"]
    assert [(each["why"], each["rows"]) for each in told] == [(step.way.why, step.rows)]
    assert step.way.why in " ".join(str(workload.explain(data=events())).split())


def test_queries_that_run_together_are_one_step() -> None:
    result = tf.parse(TWO.replace("B.x", "B.v")).run(events())
    [step] = result.plan
    assert (step.queries, type(step.way)) == (("q1", "q2"), Lanes)
    assert result.plan.of("q2") == (step,)
    assert result.summary.sharing == dict(step.counts)
    assert str(result.plan).startswith("q1, q2 (2): lanes\n")


def test_queries_that_could_have_run_together_say_why_they_did_not() -> None:
    text = "; ".join(f"RETURN MIN(B.v) PATTERN SEQ({t}, B) GROUP BY B.v" for t in "AC")
    result = tf.parse(text).run(events())
    assert [step.queries for step in result.plan] == [("q1",), ("q2",)]
    assert all("not folded with other queries: GROUP BY has " in s.way.why for s in result.plan)


def test_digits_of_queries_in_lanes_are_read_from_the_same_rows() -> None:
    result = tf.parse(TWO.replace("B.x", "B.v")).run(events(), arithmetic="exact")
    [step] = result.plan
    assert isinstance(step.way, Lanes)
    alone = [
        tf.parse(q).run(events(), arithmetic="exact")["q1"] for q in TWO.replace("B.x", "B.v").split(";")
    ]
    assert [result[name] for name in result] == alone


def test_a_query_with_not_is_a_lane_unless_its_rows_forbid_it() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, B+, NOT C) HAVING COUNT(*) > 3"
    assert isinstance(chosen(text, OperandStatistics()), Lanes)
    plan = tf.parse(text).plan()[0]
    known = QueryStatistics(rows=9, burst=1.0, operands=(OperandStatistics(),), obstacle="too many ways")
    assert isinstance(choose(plan, known, DEFAULT_COSTS), Vectors)


@pytest.mark.parametrize("strategy", ["hamlet", "aseq", "gloria"])
def test_a_paper_s_plan_is_a_step_with_what_it_counted(strategy: str) -> None:
    kleene = "" if strategy == "aseq" else "+"
    text = f"RETURN COUNT(*) PATTERN SEQ(A, B{kleene}, C); RETURN COUNT(*) PATTERN SEQ(C, B{kleene}, A)"
    result = tf.parse(text).run(events(60), strategy=strategy)
    [step] = result.plan
    assert isinstance(step.way, SharedPlan)
    assert f"shared plan of {strategy}" in str(step)


def test_analyze_needs_data_and_tells_what_steps_took() -> None:
    workload = tf.parse(RAN[Vectors])
    with pytest.raises(tf.InputError, match="needs data"):
        workload.explain(analyze=True)
    [query] = json.loads(str(workload.explain(format="json", data=events(), analyze=True)))["queries"]
    assert query["steps"][0]["bytes"] > 0
    assert "steps" not in json.loads(str(workload.explain(format="json")))["queries"][0]


STEPS = [
    FoldStep(("a", "b"), Lanes("x"), 10, 0.5, 100, counts={"bursts": 3}),
    FoldStep(("c",), Combined((Vectors("y"), Bindings(8, "z")), "w"), 5, 0.1, 7),
    FoldStep(("d",), SharedPlan("gloria", None, "v"), 1, 0.2, 3, tasks=2),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.queries[0])
def test_a_step_survives_the_way_from_a_task_to_the_driver(step: FoldStep) -> None:
    assert from_value(json.loads(json.dumps(to_value(step)))) == step


def test_equal_steps_of_many_tasks_are_added_up() -> None:
    one = STEPS[0]
    assert merged([one, STEPS[1], one]) == PhysicalPlan(
        (FoldStep(("a", "b"), Lanes("x"), 20, 1.0, 100, 2, {"bursts": 6}), STEPS[1])
    )
