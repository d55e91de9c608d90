"""Any valid sharing plan gives the oracle's rows, whoever shares what.

`TRENDFOLD_FUZZ=20000 pytest tests/contract/test_gloria.py` looks at fresh workloads and plans.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import any_plans
import trendfold as tf
from contract import engine
from contract.test_hamlet import AGGREGATES, LOCAL, WINDOWS, differences, letters, random_events, table
from trendfold.errors import LimitError
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.papers.gloria import Crossing, Share, SharingPlan
from trendfold.papers.gloria import lower as lower_gloria
from trendfold.papers.gloria import plan as gloria
from trendfold.papers.gloria.run import GloriaReady, GloriaTally, ready
from trendfold.papers.gloria.valid import unshared, why_invalid
from trendfold.plan import Group, plan_cogra
from trendfold.runtime.group_rows import read_group
from trendfold.runtime.limits import DEFAULTS, Limits
from trendfold.runtime.request import Request
from trendfold.runtime.workspace import Workspace
from trendfold.testing import oracle

PATTERNS = [
    *("SEQ(A, B, C)", "SEQ(A, B, C, D)", "SEQ(D, A, B, C)", "SEQ(C, SEQ(A, B)+, D)", "SEQ(C, SEQ(A, B)+)"),
    *("SEQ(D, SEQ(A, B)+, C)", "SEQ(SEQ(A, B)+, C)+", "SEQ(D, SEQ(A, SEQ(B, C)+)+)", "SEQ(D, A, B+, C)"),
    *("SEQ(A, B+)", "SEQ(A, B+, C)", "SEQ(A+, B+)", "SEQ(A+, B)+", "(A | B)+", "SEQ(A, (B | C)+, D)"),
    *("SEQ(A, B*, C)", "SEQ(A, B, B+)", "SEQ(A, B{2,}, C)", "SEQ(A, B, A, C)", "B+"),
]
NEIGHBOURS = ["", "", "", "B.v <= NEXT(B).v", "A.v < NEXT(B).v", "A.v < NEXT(B).v", "B.w >= NEXT(C).w"]


def random_workload(rng: random.Random) -> list[str]:
    """2 to 12 queries over the same streams with few patterns, grouped by nothing, g, or that of B."""
    streams, keys = rng.choice(["", "", "[k]"]), rng.choice(["", "", "g", "B.g"])
    patterns = rng.sample(PATTERNS, rng.randint(1, 3))
    neighbours = rng.sample(NEIGHBOURS, 2) if rng.random() < 0.5 else [""]
    found: list[str] = []
    wanted = rng.randint(2, 12)
    for _ in range(200):
        if len(found) == wanted:
            break
        text = random_query(rng, len(found), rng.choice(patterns), [streams, rng.choice(neighbours)], keys)
        if is_allowed(text):
            found.append(text)
    return found


def random_query(rng: random.Random, number: int, pattern: str, where: list[str], keys: str) -> str:
    """One query; streams and keys are those of the whole workload."""
    wanted = [one for one in (*where, *rng.choice(LOCAL).split(" AND ")) if one]
    head = f"QUERY n{number} RETURN {keys + ', ' if keys else ''}{rng.choice(AGGREGATES)} PATTERN {pattern}"
    conditions = f"WHERE {' AND '.join(wanted)}" if wanted else ""
    return f"{head} {conditions} {'GROUP BY ' + keys if keys else ''} {rng.choice(WINDOWS)}"


def is_allowed(text: str) -> bool:
    try:
        tf.parse(text)
        oracle.Meaning(text)
    except (tf.errors.QueryError, ValueError):
        return False
    return True


def wrong_rows(seed: int, queries: list[str], events: list[dict[str, Any]]) -> list[str]:
    """How the rows under a random plan differ from the oracle's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(gloria.PLANNERS, "gloria", any_plans.planner(random.Random(seed)))
        return differences(queries, events, "gloria")


def check(seed: int) -> None:
    rng = random.Random(seed)
    queries, events = random_workload(rng), random_events(rng)
    if not queries:
        return
    wrong = wrong_rows(seed, queries, events)
    if not wrong:
        return
    fewer = True
    while fewer:
        fewer = False
        for smaller in [(queries[:i] + queries[i + 1 :], events) for i in range(len(queries))] + [
            (queries, events[:i] + events[i + 1 :]) for i in range(len(events))
        ]:
            if smaller[0] and smaller[1] and wrong_rows(seed, *smaller):
                (queries, events), fewer = smaller, True
                break
    raise AssertionError(
        f"seed {seed}: {wrong}\nreduced to {wrong_rows(seed, queries, events)}\n{queries}\n{events}"
    )


@engine.many(250)
@given(seed=st.integers(0, 2**40))
def test_any_plan_gives_the_oracles_rows(seed: int) -> None:
    check(seed)


@engine.many(60)
@given(seed=st.integers(0, 2**40))
def test_rings_that_are_folded_up_often(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower_gloria, "MOST_SNAPSHOTS", 1)
        check(seed)


@engine.many(60)
@given(seed=st.integers(0, 2**40))
def test_auto_gives_the_oracles_rows_of_such_workloads(seed: int) -> None:
    rng = random.Random(seed)
    queries, events = random_workload(rng), random_events(rng)
    assert not queries or not differences(queries, events, "auto")


# ---- What plans do ----------------------------------------------------------------------------------


def group_of(queries: str, plan: SharingPlan | random.Random) -> Group:
    """All queries under a plan, or under a random one."""
    members = tuple(plan_cogra(query) for query in tf.parse(queries).queries)
    if isinstance(plan, random.Random):
        plan = any_plans.random_plan(plan, members)
    return Group("gloria", "gloria", members, plan)


def made_ready(group: Group, events: pa.Table, limits: Limits = DEFAULTS) -> GloriaReady:
    together, _ = read_group(group, Workspace(read_batch(events, Options())), Request(limits=limits))
    assert together is not None
    return ready(group, together, limits)


def test_random_plans_share_in_all_ways() -> None:
    found: Counter[str] = Counter()
    for seed in range(120):
        rng = random.Random(seed)
        queries, events = random_workload(rng), random_events(rng)
        if not queries:
            continue
        one = made_ready(group_of("; ".join(queries), rng), table(events))
        network, tally = one.network, one.fold()[1]
        found["snapshots"] += tally.snapshots
        found["handed on"] += tally.propagations
        found["evaluated"] += tally.evaluations
        found["values kept one by one"] += any(each.ring < 0 for each in network.lists)
        found["snapshots kept one by one"] += any(
            network.lists[i].ring >= 0 for node in network.nodes for i in node.keeps
        )
        found["expressions kept one by one"] += any(bundle.lists for bundle in network.bundles)
        found["merged"] += any(len(node.reads) > 1 for node in network.nodes)
        found["split"] += any(len(node.bundles) > 1 for node in network.nodes)
    assert found["snapshots"] > 1000
    assert found["handed on"] > 500
    assert found["evaluated"] > 3000
    assert min(found.values()) >= 5, found


# ---- The paper's examples ---------------------------------------------------------------------------

FIGURE_4 = "q1: RETURN COUNT(*) PATTERN SEQ(C, SEQ(A, B)+, D); q2: RETURN COUNT(*) PATTERN SEQ(C, SEQ(A, B)+)"
STATES = ("C", "A", "B", "D")
BOTH = (0, 1)


def figure_4(shared: bool) -> SharingPlan:
    """Figure 4(b): both queries go through all of C, (A, B)+ with snapshots of C; or Figure 4(c)."""

    def crossing(source: str, target: str, queries: tuple[int, ...] = BOTH) -> Crossing:
        return Crossing(source, target, (Share(queries, "C"),))

    plan = SharingPlan(
        STATES,
        (STATES, STATES[:3]),
        (crossing("C", "A"), crossing("A", "B"), crossing("B", "A"), crossing("B", "D", (0,))),
        0.0,
        0.0,
    )
    return plan if shared else unshared(plan)


@pytest.mark.parametrize("shared", [False, True], ids=["example 3.1", "example 3.2"])
def test_figure_4_event_by_event(shared: bool) -> None:
    # c0 a1 b2 a3 b4 d5: aggregates 1 1 1 2 3 4; q2 adds up those of b2 and b4, q1 that of d5.
    wanted = {"C": (0, 0), "CA": (0, 0), "CAB": (0, 1), "CABA": (0, 1), "CABAB": (0, 4), "CABABD": (4, 4)}
    for stream, counts in wanted.items():
        folded, _ = made_ready(group_of(FIGURE_4, figure_4(shared)), letters(stream)).fold()
        assert tuple(float(part.mantissa[0, 0]) for part in folded) == counts, stream


def test_figure_4_one_snapshot_serves_all() -> None:
    _, tally = made_ready(group_of(FIGURE_4, figure_4(True)), letters("CABABD")).fold()
    # c0 is the snapshot. An a hands its coefficient on to b, a b to a and to what d of q1 reads, and that
    # is the whole trends of q2, too, d to those of q1; nothing is evaluated before windows close.
    assert tally == GloriaTally(snapshots=1, propagations=2 * 1 + 2 * 2 + 1, evaluations=0, foldings=0)
    _, alone = made_ready(group_of(FIGURE_4, figure_4(False)), letters("CABABD")).fold()
    assert alone == GloriaTally()


def test_consecutive_snapshots_are_one_until_somebody_reads_them() -> None:
    plan = figure_4(True)
    assert made_ready(group_of(FIGURE_4, plan), letters("CCCAB")).fold()[1].snapshots == 1
    assert made_ready(group_of(FIGURE_4, plan), letters("CCCABCCA")).fold()[1].snapshots == 2


def test_an_event_that_one_query_cannot_take_is_a_snapshot() -> None:
    queries = FIGURE_4 + " WHERE B.v < 5"
    events = letters("CABABD").set_column(2, "v", pa.array([0.0, 0.0, 9.0, 0.0, 1.0, 0.0]))
    folded, tally = made_ready(group_of(queries, figure_4(True)), events).fold()
    assert tally.snapshots == 2
    assert [part.mantissa[0, 0] for part in folded] == [4.0, 2.0]


def test_a_ring_past_its_length_is_folded_into_fewer_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_gloria, "MOST_SNAPSHOTS", 1)
    a = b = 0  # C first, an A follows C or B, a B follows A
    for c in range(1, 31):
        a += c + b
        b += a
    folded, tally = made_ready(group_of(FIGURE_4, figure_4(True)), letters("CAB" * 30 + "D")).fold()
    assert tally.foldings > 1
    assert [float(part.mantissa[0, 0]) for part in folded] == [b, b]


# ---- Plans that cannot be carried out ---------------------------------------------------------------


def problem(*crossings: Crossing, positions: Sequence[tuple[str, ...]] = (STATES, STATES[:3])) -> str:
    automata = [plan_cogra(q).operands[0].machine.automaton for q in tf.parse(FIGURE_4).queries]
    return why_invalid(SharingPlan(STATES, tuple(positions), crossings, 0.0, 0.0), automata)


def test_why_plans_cannot_be_carried_out() -> None:
    good = figure_4(True).crossings
    assert problem(*good) == ""
    assert problem(*figure_4(False).crossings) == ""
    assert "no sharing plan" in problem(*good[:3])
    assert "no partition" in problem(*good[:2], replace(good[2], shares=(Share((0,), "C"),)), good[3])
    assert "no snapshots of B" in problem(good[0], Crossing("A", "B", (Share(BOTH, "B"),)), *good[2:])
    apart = Crossing("B", "A", (Share((0,), "C"), Share((1,), "C")))
    assert "by all of them together" in problem(*good[:2], apart, good[3])
    own = Crossing("B", "A", (Share(BOTH, "B"),))
    assert "with the same snapshots" in problem(*good[:2], own, good[3])
    assert "one state" in problem(*good, positions=(("C", "A", "B", "A"), STATES[:3]))
    assert "several queries" in problem(Crossing("C", "A", (Share(BOTH),)), *good[1:])


def test_state_past_the_limit_is_told() -> None:
    with pytest.raises(LimitError, match="snapshots of queries"):
        made_ready(group_of(FIGURE_4, figure_4(True)), letters("CABABD"), Limits(state=100))


# ---- Numbers past doubles ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ties", "bits", "seed", "runs"),
    [
        pytest.param(1, 60, 1, 900, marks=pytest.mark.compiled, id="apart"),
        pytest.param(1, 60, 2, 900, marks=pytest.mark.compiled, id="apart again"),
        pytest.param(3, 60, 3, 900, marks=pytest.mark.compiled, id="tied"),
        pytest.param(2, 300, 4, 900, marks=pytest.mark.compiled, id="large values"),
        pytest.param(1, 300, 5, 75, id="large values, few events"),
        pytest.param(1, 60, 6, 180, id="apart, few events"),
    ],
)
def test_large_numbers_agree_with_queries_alone(ties: int, bits: int, seed: int, runs: int) -> None:
    rng = np.random.default_rng(seed)
    types = np.repeat(rng.choice(["A", "B", "B", "C"], runs), rng.geometric(1 / 4, runs))
    count = len(types)
    events = pa.table(
        {
            "type": types.tolist(),
            "ts": [i // ties for i in range(count)],
            "v": rng.integers(-5, 5, count),
            "w": 2.0 ** rng.uniform(-60, bits, count),
        }
    )
    size = runs * 5 // 3 // ties
    within = [f"WITHIN {size} s SLIDE {size // 3} s", f"WITHIN {2 * size} s SLIDE {size} s", ""]
    returned = ["LOG2(COUNT(*)), AVG(B.v)", "LOG2(COUNT(*)), AVG(B.w), MIN(B.w)", "LOG2(COUNT(B)), MAX(B.v)"]
    patterns = ["SEQ(A, B+)", "SEQ(A, B+, C)", "SEQ(A, B)+", "SEQ(A, SEQ(B, C)+)", "SEQ(SEQ(A, B)+, C)"]
    local = ["", "", "WHERE B.v < 4"]
    queries = [
        f"QUERY n{i} RETURN {returned[i % 3]} PATTERN {patterns[i % 5]} {local[i % 3]} {within[i % 2]}"
        for i in range(10)
    ]
    queries_text = "; ".join(queries)
    with pytest.MonkeyPatch.context() as patch:
        planner = any_plans.planner(random.Random(seed))
        patch.setitem(gloria.PLANNERS, "gloria", planner)
        together = tf.parse(queries_text).run(events, strategy="gloria")
    alone = tf.parse(queries_text).run(events, strategy="cogra")
    for query in tf.parse(queries_text):
        rows, expected = together[query.name].to_pylist(), alone[query.name].to_pylist()
        assert len(rows) == len(expected) > 0
        for one, other in zip(rows, expected, strict=True):
            assert one == pytest.approx(other, rel=1e-9), query.name
