"""RETURN MATCHES gives the oracle's matches, whatever the plan, the batch and the strategy (spec 8)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import matching
from contract.engine import many, to_table
from trendfold.detect import evaluate
from trendfold.detect.adapt import Adapting, Replanned, Replanner, replan
from trendfold.detect.clauses import clauses
from trendfold.detect.join_statistics import JoinStatistics
from trendfold.detect.joint_queries import joint_queries
from trendfold.detect.pattern import JoinPattern, JoinTree
from trendfold.detect.workplan import JoinPlanner, Workplan
from trendfold.errors import LimitError, UnsupportedError
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.papers.mcep.baselines import BASELINES
from trendfold.papers.mcep.plan import STRATEGIES, PlanSearch
from trendfold.plan.fold_steps import FoldStep
from trendfold.plan.physical import NAMES, Joins
from trendfold.runtime import detection, whole_matches
from trendfold.runtime.find_matches import plan_joins, read_detection_input
from trendfold.runtime.limits import Limits
from trendfold.runtime.match_tables import Shown, match_tables, run_matches
from trendfold.runtime.workspace import Workspace
from trendfold.testing import oracle

SEEDS = st.integers(0, 2**40)


def random_case(rng: random.Random) -> workloads.Case:
    features = {"cross": rng.random() < 0.6, "both": rng.random() < 0.4}
    return workloads.random_case(rng, matches=True, rejects=True, **features)


@pytest.fixture(params=[1, 3, 1 << 14], ids=lambda rows: f"batches of {rows}")
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "FIRST_BATCH", request.param)
    if request.param < 100:
        monkeypatch.setattr(evaluate, "FEW_MATCHES", 0)


@pytest.mark.parametrize("strategy", ["auto", "mcep", "construct"])
@many(120)
@given(seed=SEEDS)
def test_matches_are_the_oracles(strategy: str, seed: int) -> None:
    matching.check(random_case(random.Random(seed)), matching.run_with(strategy), f"seed {seed}")


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@many(100)
@given(seed=SEEDS)
def test_and_may_stand_inside_a_match(strategy: str, seed: int) -> None:
    matching.check(matching.nested_case(random.Random(seed)), matching.run_with(strategy), f"seed {seed}")


# ---- Plans ---------------------------------------------------------------------------------------


def random_tree(rng: random.Random, elements: Sequence[int]) -> JoinTree:
    if len(elements) == 1:
        return elements[0]
    shuffled = rng.sample(elements, len(elements))
    cut = rng.randint(1, len(elements) - 1)
    return random_tree(rng, shuffled[:cut]), random_tree(rng, shuffled[cut:])


def random_plans(seed: int) -> JoinPlanner:
    rng = random.Random(seed)

    def planner(patterns: Sequence[JoinPattern], statistics: JoinStatistics) -> Workplan:
        trees = [random_tree(rng, range(len(pattern.leaves))) for pattern in patterns]
        return Workplan(tuple(trees), shares=rng.random() < 0.8)

    return planner


def run_planned(planner: JoinPlanner) -> matching.Run:
    def run(workload: tf.Workload, case: workloads.Case) -> Any:
        options = Options(order_column=case.order_column)
        workspace = Workspace(read_batch(to_table(case), options))
        tables, _ = run_matches(workload.plan(), workspace, options, Limits(), planner)
        return tables

    return run


@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("seed", range(30))
def test_every_plan_gives_the_same_matches(seed: int) -> None:
    rng = random.Random(seed)
    case = matching.nested_case(rng) if seed % 2 else random_case(rng)
    matching.check(case, run_planned(random_plans(seed)), f"seed {seed}")


def together(rng: random.Random, count: int) -> tuple[tf.Workload, workloads.Case]:
    """Patterns over the same few types and conditions, so that they have much in common."""
    queries = []
    for i in range(count):
        types = rng.sample("ABCDE", rng.choice([2, 3, 3, 4]))
        asked = [f"{a}.v <= {b}.v" for a, b in zip(sorted(types), sorted(types)[1:], strict=False)]
        body = ", ".join(types[:1] + (["NOT N"] if rng.random() < 0.2 else []) + types[1:])
        operator = "AND" if "NOT" not in body and rng.random() < 0.3 else "SEQ"
        where = " AND ".join(rng.sample(asked, rng.randint(1, len(asked))))
        body = f"{operator}({body}) WHERE {where} WITHIN {rng.randint(4, 12)} s"
        queries.append(f"QUERY q{i} RETURN MATCHES(v) PATTERN {body}")
    events = [
        {"type": rng.choice("AABBCCDDEEN"), "ts": i // 2, "k": 1, "g": "x", "v": rng.randint(0, 3), "w": 0.0}
        for i in range(24)
    ]
    return tf.parse(";\n".join(queries)), workloads.Case(";\n".join(queries), events, None)


PLANNERS: dict[str, JoinPlanner] = {
    **BASELINES,
    "annealing": PlanSearch(0.1),
    "tabu": PlanSearch(0.1, "tabu"),
    "vertex": PlanSearch(0.1, together=4),
    "prefix": PlanSearch(0.1, is_prefix=True),
    **STRATEGIES,
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PLANNERS)
def test_patterns_that_share_find_what_they_find_alone(name: str, seed: int) -> None:
    workload, case = together(random.Random(seed), 8)
    found = run_planned(PLANNERS[name])(workload, case)
    for query, text in zip(workload, case.query.split(";\n"), strict=True):
        expected = oracle.matches(text, case.events)
        assert matching.canonical(found[query.name].to_pylist()) == matching.canonical(expected), text


def random_replanner(seed: int) -> Replanner:
    rng = random.Random(seed)

    def replan(
        patterns: Sequence[JoinPattern], statistics: JoinStatistics, trees: Sequence[JoinTree]
    ) -> Replanned:
        return Replanned(tuple(random_tree(rng, range(len(p.leaves))) for p in patterns), 1.0, 1.0)

    return replan


def at_every_batch(rows: int, replan: Replanner) -> Adapting:
    """Plans change after so many rows, whatever that costs."""
    return Adapting(looks_after=rows, drift=0.0, reluctance=0.0, worth=0.0, replan=replan)


def run_changing(seed: int, rows: int, replans: list[int]) -> matching.Run:
    """Run with plans that change after so many rows."""

    def run(workload: tf.Workload, case: workloads.Case) -> Any:
        options = Options(order_column=case.order_column)
        workspace, tables = Workspace(read_batch(to_table(case), options)), {}
        shown = Shown(workspace.batch, options, has_positions=True)
        for joint in joint_queries(workload.plan()):
            ready = read_detection_input(joint, workspace, Limits())
            planned = plan_joins(ready, random_plans(seed))
            found = planned.run(Limits(), adapting=at_every_batch(rows, random_replanner(seed)))
            tables |= match_tables(found, ready, shown)
            replans.append(found.replans)
        return tables

    return run


@many(40)
@given(seed=SEEDS, rows=st.sampled_from([1, 2, 5]))
def test_plans_that_change_at_every_batch_change_no_match(seed: int, rows: int) -> None:
    replans: list[int] = []
    rng = random.Random(seed)
    case = matching.nested_case(rng) if seed % 2 else random_case(rng)
    matching.check(case, run_changing(seed, rows, replans), f"seed {seed}")
    event("replanned" if any(replans) else "never replanned")


@pytest.mark.parametrize("replan_by", [replan, random_replanner(4)], ids=["best", "random"])
def test_many_patterns_whose_plans_change_at_every_batch(replan_by: Replanner) -> None:
    workload, case = together(random.Random(1), 6)
    workspace = Workspace(read_batch(to_table(case), Options()))
    (joint,) = joint_queries(workload.plan())
    planned = plan_joins(read_detection_input(joint, workspace, Limits()), random_plans(3))
    run = planned.run(Limits(), adapting=at_every_batch(3, replan_by))
    counted = [found.count for found in run.matches]
    assert run.replans > 3
    assert counted == [len(oracle.matches(text, case.events)) for text in case.query.split(";\n")]


# ---- Limits, ids, tables -------------------------------------------------------------------------

EVENTS = pa.table({"type": list("AABBC"), "ts": [1, 2, 3, 4, 5], "v": [1, 2, 3, 4, 5]})


def test_limit_keeps_that_many() -> None:
    query = "RETURN MATCHES PATTERN SEQ(A, B) {}"
    every = tf.parse(query.format("")).run(EVENTS)["q1"].to_pylist()
    some = tf.parse(query.format("LIMIT 3")).run(EVENTS)["q1"].to_pylist()
    assert len(every) == 4
    assert len(some) == 3
    assert all(row in every for row in some)
    assert len(tf.parse("RETURN MATCHES PATTERN A+ LIMIT 2").run(EVENTS)["q1"]) == 2


@pytest.fixture(params=[False, True], ids=["in batches", "in blocks"])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How joins go on where partial matches are many: as they are, or in blocks of two from the first on."""
    if request.param:
        monkeypatch.setattr(detection, "TOO_MANY", 3)
        monkeypatch.setattr(evaluate, "BLOCK", 2)
    monkeypatch.setattr(whole_matches, "PORTION", 3)


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("seed", range(100))
def test_limit_keeps_any_true_matches(seed: int) -> None:
    rng = random.Random(seed)
    case = matching.nested_case(rng) if seed % 2 else random_case(rng)
    every = Counter(matching.canonical(oracle.matches(*case)))
    limit = rng.choice([1, 2, 5, 1000])
    workload = tf.parse(f"{case.query.rstrip().rstrip(';')} LIMIT {limit}")
    (query,) = workload
    for run in (matching.run_with("auto"), run_changing(seed, 3, [])):
        found = run(workload, case)[query.name].to_pylist()
        assert len(found) == min(limit, every.total())
        assert Counter(matching.canonical(found)) <= every


@pytest.mark.usefixtures("held")
def test_queries_without_limit_find_all_beside_those_with_one() -> None:
    workload, case = together(random.Random(2), 6)
    texts = case.query.split(";\n")
    limited = tf.parse(";\n".join(text + (" LIMIT 2" if i % 2 else "") for i, text in enumerate(texts)))
    result = limited.run(to_table(case))
    for i, (text, query) in enumerate(zip(texts, workload, strict=True)):
        every = Counter(matching.canonical(oracle.matches(text, case.events)))
        found = Counter(matching.canonical(result[query.name].to_pylist()))
        assert found <= every
        assert found.total() == (min(2, every.total()) if i % 2 else every.total())


@pytest.mark.parametrize("pattern", ["SEQ(A, B)", "SEQ(A, B+)", "SEQ(A+, B+)+"])
def test_too_many_matches_are_an_error_that_names_the_limit(pattern: str) -> None:
    with pytest.raises(LimitError, match="query 'q1' has more than 3 matches, over limits matches=3"):
        tf.parse(f"RETURN MATCHES PATTERN {pattern}").run(EVENTS, limits={"matches": 3})


def test_walks_that_find_nothing_end_at_the_limit_of_trends() -> None:
    events = pa.table({"type": ["A"] * 60 + ["B"], "ts": range(61)})
    with pytest.raises(LimitError, match="over limits trends=1,000"):
        tf.parse("RETURN MATCHES PATTERN SEQ(SEQ(A, A)+, C)").run(
            pa.concat_tables([events, pa.table({"type": ["C"], "ts": [99]})]),
            limits={"trends": 1000, "matches": 10**9},
        )


def test_partial_matches_of_one_event_are_bounded_by_state() -> None:
    events = pa.table({"type": ["A"] * 40 + ["B"] * 40, "ts": range(80)})
    with pytest.raises(LimitError, match="bytes of state for partial matches"):
        tf.parse("RETURN MATCHES PATTERN SEQ(A x, A y, B)").run(events, limits={"state": 1000})


def test_the_id_is_the_id_column_or_the_position_in_the_input() -> None:
    events = EVENTS.append_column("name", pa.array(list("pqrst"))).set_column(
        1, "ts", pa.array([None, 2, 3, 4, 5])
    )
    query = tf.parse("RETURN MATCHES(v) PATTERN SEQ(A, C)")
    assert query.run(events)["q1"].to_pylist() == [
        {
            "start": 2,
            "end": 5,
            "A": [{"id": 1, "time": 2, "v": 2}],
            "C": [{"id": 4, "time": 5, "v": 5}],
        }
    ]
    (row,) = query.run(events, id_column="name")["q1"].to_pylist()
    assert (row["A"][0]["id"], row["C"][0]["id"]) == ("q", "t")


def test_no_match_is_an_empty_table_with_all_columns() -> None:
    table = tf.parse("RETURN MATCHES(v) PATTERN SEQ(C, A x+, B) WHERE [v] GROUP BY v").run(EVENTS)["q1"]
    assert table.num_rows == 0
    assert table.column_names == ["start", "end", "v", "C", "x", "B"]
    assert table.schema.field("x").type == pa.list_(
        pa.struct({"id": pa.int64(), "time": pa.int64(), "v": pa.int64()})
    )


def test_matches_and_numbers_of_one_workload() -> None:
    result = tf.parse(
        "QUERY m RETURN MATCHES PATTERN SEQ(A, B); QUERY n RETURN COUNT(*) PATTERN SEQ(A, B)"
    ).run(EVENTS)
    assert len(result["m"]) == result["n"].to_pylist()[0]["count"] == 4
    assert dict(result.summary.strategy) == {"m": "mcep", "n": "cogra"}


@pytest.mark.parametrize(
    ("text", "strategy", "reason"),
    [
        ("RETURN MATCHES PATTERN A", "cogra", "use 'auto', 'mcep' or 'construct'"),
        ("RETURN COUNT(*) PATTERN A", "mcep", "RETURN has aggregates"),
    ],
)
def test_a_strategy_says_what_it_is_not_for(text: str, strategy: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        tf.parse(text).run(EVENTS, strategy=strategy)


def test_a_pattern_with_too_many_clauses_is_walked() -> None:
    (many_ways,) = tf.parse(f"RETURN MATCHES PATTERN SEQ({', '.join(['(A|B)'] * 9)})")
    (few_ways,) = tf.parse("RETURN MATCHES PATTERN SEQ(A|B, C?, D)")
    (clause,) = clauses(many_ways)
    assert clause.walked == (0,)
    assert len(clauses(few_ways)) == 4


# ---- How it ran ----------------------------------------------------------------------------------


def detected(text: str, strategy: str = "auto") -> tuple[FoldStep, ...]:
    options = Options()
    workspace = Workspace(read_batch(EVENTS, options))
    return run_matches(tf.parse(text).plan(strategy), workspace, options, Limits())[1]


def test_queries_found_together_report_their_joins_together() -> None:
    (found,) = detected(
        "QUERY p RETURN MATCHES PATTERN SEQ(A, B); QUERY q RETURN MATCHES PATTERN SEQ(A, B, C);"
        "QUERY n RETURN COUNT(*) PATTERN SEQ(A, B)"
    )
    assert found.queries == ("p", "q")
    assert isinstance(found.way, Joins)
    told = "one plan for measured rates and selectivities joins 2 patterns (annealing over edges: "
    assert found.way.why.startswith(told)
    assert found.rows == 5
    # 4 of (A, B), 4 of (A, B, C); 2 of (B, C) if that is joined first
    assert found.counts["partial matches"] in (8, 10)
    assert found.counts["replans"] == 0
    assert found.seconds > 0


@pytest.mark.parametrize(
    ("text", "strategy", "method", "reason"),
    [
        ("RETURN MATCHES PATTERN SEQ(A, B+)", "auto", "joins", "repeated events are added one by one"),
        ("RETURN MATCHES PATTERN SEQ(A, B)+", "auto", "walks", "all of the pattern is repeated"),
        ("RETURN MATCHES PATTERN SEQ(A, B) SEMANTICS next", "auto", "walks", "skip-till-next-match"),
        ("RETURN MATCHES PATTERN SEQ(A, B)", "construct", "walks", "strategy 'construct'"),
    ],
)
def test_a_report_says_why_events_are_joined_or_walked(
    text: str, strategy: str, method: str, reason: str
) -> None:
    (found,) = detected(text, strategy)
    assert NAMES[type(found.way)] == method
    assert reason in found.way.why
    assert bool(found.counts["partial matches"]) == (method == "joins")


# ---- Planning in the user's hands -----------------------------------------------------------------

WISHES = [
    {"search": "tabu", "neighbourhood": "vertex", "seconds": 0.1},
    {"seconds": 0},
    {"statistics": {"A": 100.0, "B": 0.01}, "seconds": 0.1},
]


@pytest.mark.parametrize("strategy", ["auto", "spass", "motto"])
@pytest.mark.parametrize("wish", WISHES)
def test_whatever_is_planned_the_matches_are_the_same(strategy: str, wish: dict) -> None:
    workload, case = together(random.Random(7), 8)
    table = to_table(case)
    usual, found = workload.run(table), workload.run(table, strategy=strategy, planning=wish)
    for name in usual:
        assert matching.canonical(found[name].to_pylist()) == matching.canonical(usual[name].to_pylist())


def test_the_plan_that_ran_tells_what_the_search_tried() -> None:
    workload, case = together(random.Random(7), 8)
    planning = {"search": "tabu", "neighbourhood": "vertex", "seconds": 0.1}
    (step,) = workload.run(to_table(case), planning=planning).plan
    assert "tabu over vertices of 3: " in step.way.why
    assert ", cost " in step.way.why


@pytest.mark.parametrize(
    ("planning", "message"),
    [
        ({"serch": "tabu"}, "planning has no 'serch'; did you mean 'search'?"),
        ({"search": "genetic"}, "planning's search must be 'annealing' or 'tabu', not 'genetic'"),
        ({"neighbourhood": 2}, "planning's neighbourhood must be 'edge' or 'vertex', not 2"),
        ({"seconds": -1}, "planning's seconds must be a number from 0 on, not -1"),
        ({"statistics": {"A": "often"}}, "planning's statistics must be events per second by type"),
    ],
)
def test_a_wish_that_cannot_be_met_is_an_error(planning: dict, message: str) -> None:
    table = pa.table({"type": ["A"], "ts": [1]})
    with pytest.raises(tf.errors.InputError) as caught:
        tf.parse("RETURN MATCHES PATTERN A").run(table, planning=planning)
    assert message in str(caught.value)


def test_spass_and_motto_only_find_matches() -> None:
    with pytest.raises(tf.errors.UnsupportedError, match="strategy 'motto' only finds matches"):
        tf.parse("RETURN COUNT(*) PATTERN A").plan("motto")
