"""Queries as lanes of one machine give each the oracle's rows, whatever their semantics, NOTs and windows."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine
from contract.test_together import SCHEMA
from trendfold.errors import LimitError
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.kernel.jit import IS_PLAIN
from trendfold.kernel.lane_shapes import TEMPORARY, VOID, in_place
from trendfold.plan import Group, QueryPlan, plan_auto
from trendfold.plan.cost import Costs
from trendfold.plan.logical import LANES
from trendfold.plan.physical import Apart, Lanes
from trendfold.plan.workload import grouped, lanes_key, units, why_no_lanes
from trendfold.runtime.folding import fold_unit, prepare_group
from trendfold.runtime.folds.in_machine_lanes import MANY_MOMENTS, MOST_MOMENTS
from trendfold.runtime.lane_rows import read_lane_rows
from trendfold.runtime.limits import DEFAULTS
from trendfold.runtime.local import table_of
from trendfold.runtime.request import EVERYTHING, Request
from trendfold.runtime.workspace import Workspace, shared_partitionings
from trendfold.testing import oracle


def fits(plan: QueryPlan) -> bool:
    """Whether the machine of lanes takes a query."""
    return not why_no_lanes(plan)


def run_in_lanes(
    queries: Sequence[object], table: pa.Table, order_column: str | None, in_bursts: bool = False
) -> dict[str, pa.Table]:
    """All queries that fit, in groups as large as can be, down to one; bursts act once where they can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Costs, "pays_in_bursts", lambda *_: in_bursts)
        return _run_in_lanes(queries, table, order_column)


def _run_in_lanes(
    queries: Sequence[object], table: pa.Table, order_column: str | None
) -> dict[str, pa.Table]:
    batch = read_batch(table, Options(order_column=order_column))
    plans = [plan_auto(query) for query in queries]
    plans = list(grouped(plans, "auto", LANES, lanes_key, least=1))
    # GROUP BY T.g of one query alone may name a type that stands elsewhere too: it has no key.
    plans = [_alone(p) if p.group is None and fits(p) else p for p in plans]
    workspace, tables = Workspace(batch, shared=shared_partitionings(plans)), {}
    for unit in units({i: plan for i, plan in enumerate(plans) if plan.group is not None}):
        for folded, step in fold_unit(unit, workspace, EVERYTHING):
            assert step is None or isinstance(step.way, Lanes) or folded.plan.qualified_keys, step
            tables[folded.plan.query.name] = table_of(folded, EVERYTHING)
    return tables


def _alone(plan: QueryPlan) -> QueryPlan:
    return replace(plan, group=Group("auto", LANES, (plan,)), number=0)


def check(
    texts: Sequence[str], events: list[dict], table: pa.Table, order_column: str | None, in_bursts: bool
) -> int:
    """Fail unless every query that fits has the oracle's rows; how many do."""
    queries = list(tf.parse(";\n".join(texts)))
    found = run_in_lanes(queries, table, order_column, in_bursts)
    for query, text in zip(queries, texts, strict=True):
        if query.name in found:
            expected = oracle.rows(text, events, order_column)
            wrong = engine.difference(found[query.name].to_pylist(), expected, 2 + len(query.group_by))
            assert wrong is None, f"{text}: {wrong}\n{texts!r}\n{events!r}\n{order_column!r}, {in_bursts}"
    return len(found)


# ---- Random workloads -----------------------------------------------------------------------------------

SHAPES = (
    "SEQ({0}, {1}+)",
    "SEQ({0}, {1}+, {2})",
    "SEQ({0}, {1}, {2})",
    "{1}+",
    "SEQ({0}+, {1}+)",
    "SEQ({0}, {1}+, {2})+",
    "OR(SEQ({0}, {1}+), SEQ({2}, {3}))",
    "SEQ({0}, {1}?, {2})",
    "SEQ({1}, {1}+)",
    "SEQ({0}, NOT {3}, {1}+)",
    "SEQ({0}, {1}+, NOT {3}, {2})",
    "SEQ(NOT {3}, {0}, {1}+)",
    "SEQ({0}, {1}+, NOT {3})",
    "SEQ(NOT {3}, {1}, NOT {2}, {0}, NOT {3})",
    "SEQ({0}, NOT SEQ({2}, {3}), {1})",
    "SEQ({0}, {1}+, NOT SEQ({2}, {3}))",
    "SEQ({0}, NOT SEQ({2}, {1}, {3}), {1}+)",
    "SEQ({0}, NOT OR({2}, SEQ({3}, {2})), {1})",
    "SEQ({1}, NOT {1}, {0})",
)
TYPES = "ABCDF"  # no letter of SEQ, OR and NOT
FEW = "ABC"


def random_workload(rng: random.Random, most: int = 12) -> tuple[list[str], list[dict], str | None]:
    """2 to `most` queries that differ in everything but the rows they need, mostly."""
    where = rng.choice(["", "", "[u]"])
    group = rng.choice(["", "", "g"])
    shapes = rng.sample(SHAPES, rng.choice([1, 2, 4, len(SHAPES)]))
    semantics = rng.choice([["any"], ["next"], ["contiguous"], ["any", "next", "contiguous"]])
    many = range(rng.randint(2, most))
    queries = [_query(rng, i, rng.choice(shapes), rng.choice(semantics), where, group) for i in many]
    return queries, random_events(rng), rng.choice([None, None, "seq"])


def _query(rng: random.Random, number: int, shape: str, semantics: str, where: str, group: str) -> str:
    types = rng.sample(TYPES, 4) if rng.random() < 0.3 else [*rng.sample(FEW, 3), "D"]
    pattern = shape.format(*types)
    positive = [t for i, t in enumerate(types) if f"{{{i}}}" in shape and f"NOT {t}" not in pattern]
    named = [t for t in types if pattern.count(t) and t not in _negated(pattern)] or positive
    conditions = [where] if where and rng.random() < 0.9 else []
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        conditions.append(f"{rng.choice(types[:2])}.x {rng.choice(['<', '>', '!='])} {rng.randint(0, 4)}")
    conditions = [c for c in conditions if c.startswith("[") or c[0] in pattern]
    extra = [aggregate(rng, rng.choice(named)) for _ in range(rng.choice([0, 0, 1, 2]))] if named else []
    key = group if rng.random() < 0.9 else ""
    returned = dict.fromkeys([*([key] if key else []), "COUNT(*)", *extra])
    return " ".join(
        part
        for part in [
            f"QUERY w{number} RETURN {', '.join(returned)}",
            f"PATTERN {pattern} SEMANTICS {semantics}",
            f"WHERE {' AND '.join(conditions)}" if conditions else "",
            f"GROUP BY {key}" if key else "",
            _window(rng),
        ]
        if part
    )


def _negated(pattern: str) -> set[str]:
    """The types that stand in a NOT: there the name of a type means two things."""
    found, rest = set(), pattern
    while "NOT " in rest:
        rest = rest[rest.index("NOT ") + 4 :]
        body = rest[: rest.index(")")] if rest.startswith(("SEQ", "OR")) else rest[:1]
        found |= {c for c in body.replace("SEQ", "").replace("OR", "") if c in TYPES}
    return found


def aggregate(rng: random.Random, type_: str) -> str:
    """An aggregate of a type."""
    function = rng.choice(["COUNT", "SUM", "AVG", "MIN", "MAX"])
    return f"COUNT({type_})" if function == "COUNT" else f"{function}({type_}.{rng.choice('xy')})"


def _window(rng: random.Random) -> str:
    size, slide = rng.choice([(4, 4), (9, 9), (8, 4), (7, 3), (20, 5), (6, 8), (9, 1), (18, 6)])
    return rng.choice(["", f"WITHIN {size} s SLIDE {slide} s"])


def random_events(rng: random.Random) -> list[dict]:
    """Times may be equal, values null; events of one type may come in bursts."""
    found: list[dict] = []
    time, ties = rng.randint(-5, 5), rng.choice([0.0, 0.0, 0.3, 0.7])
    type_, stays = "Z", rng.choice([0.0, 0.5, 0.8])
    for _ in range(rng.choice([0, *range(6, 18)])):
        time += 0 if rng.random() < ties else rng.choice([1, 1, 1, 1, 2, 9])
        type_ = type_ if rng.random() < stays else rng.choice(TYPES + 3 * FEW + "Z")
        found.append(
            {
                "type": type_,
                "ts": time,
                "seq": rng.randint(0, 3),
                "u": rng.choice([1, 1, 2, None]),
                "g": rng.choice(["a", "a", "b", None]),
                "x": rng.choice([0, 1, 2, 3, 4, None]),
                "y": rng.choice([-1.5, 0.25, 2.0, None]),
            }
        )
    return rng.sample(found, len(found))


@engine.many(500)
@given(seed=st.integers(0, 2**40))
def test_random_workloads(seed: int) -> None:
    texts, events, order_column = random_workload(random.Random(seed))
    check(texts, events, pa.Table.from_pylist(events, SCHEMA), order_column, in_bursts=seed % 3 > 0)


@engine.many(400)
@given(seed=st.integers(0, 2**40))
def test_one_query_of_any_kind_is_a_group_of_its_own(seed: int) -> None:
    features = {"aggregates": seed % 2 == 0, "having": seed % 3 == 0, "both": seed % 5 == 0}
    case = workloads.random_case(random.Random(seed), **features)
    check([case.query], case.events, engine.to_table(case), case.order_column, in_bursts=seed % 4 > 1)


# ---- Counts that leave the range of doubles -------------------------------------------------------------

GROWING = (
    "SEQ(A, B+, C)",
    "B+",
    "SEQ(A+, B+, C)",
    "SEQ(A, B+, C)+",
    "SEQ(B, B+)",
    "SEQ(A, B+, NOT D, C)",
    "SEQ(A, B+, NOT D)",
    "SEQ(NOT D, A, B+)",
    "SEQ(A, B+, NOT SEQ(D, C), C)",
    "OR(SEQ(A, C), SEQ(B+, NOT D, C))",
)
ASKED = ("SUM(B.x)", "AVG(B.x)", "MIN(B.y)", "MAX(B.x)", "COUNT(B)")
WINDOWS = ("", "WITHIN 700 s SLIDE 700 s", "WITHIN 900 s SLIDE 300 s", "WITHIN 400 s SLIDE 500 s")


def many_events(rng: random.Random, events: int, with_ties: bool) -> pa.Table:
    """Bursts of 1 to 300 events of one type; D is rare."""
    types: list[str] = []
    while len(types) < events:
        types += rng.choice("AABBBBC") * rng.choice([1, 1, 2, 5, 40, 300])
        types += "D" * (rng.random() < 0.1)
    steps = [rng.choice([0, 1]) if with_ties and rng.random() < 0.2 else 1 for _ in range(events)]
    return pa.table(
        {
            "type": types[:events],
            "ts": np.cumsum(steps),
            "x": [rng.choice([None, -2.5, 0.0, 1.0, 3.25, 1e6]) for _ in range(events)],
            "y": [rng.choice([None, 4, 7, -1]) for _ in range(events)],
        }
    )


def growing_workload(rng: random.Random, windows: Sequence[str] = WINDOWS) -> tf.Workload:
    """Queries whose counts double with every event, and others beside them."""
    texts = []
    for i in range(rng.randint(2, 10)):
        pattern, semantics = rng.choice(GROWING), rng.choice(["any", "any", "any", "next", "contiguous"])
        extra = rng.sample(ASKED, rng.randint(0, 3))
        where = f"WHERE B.x < {rng.choice([0, 2, 4])}" if rng.random() < 0.4 else ""
        returned = ", ".join(["COUNT(*)", "LOG2(COUNT(*))", *extra])
        window = rng.choice(windows)
        texts.append(f"QUERY q{i} RETURN {returned} PATTERN {pattern} SEMANTICS {semantics} {where} {window}")
    return tf.parse(";".join(texts))


def close(found: object, wanted: object, weight: float) -> bool:
    """Equal, or to 1e-9 of what a sum's terms come to."""
    if not isinstance(found, float) or not isinstance(wanted, float) or math.isinf(wanted):
        return found == wanted
    return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9 * weight)


@pytest.mark.parametrize("seed", range(2 if IS_PLAIN else 24))
def test_counts_of_any_size_are_as_each_query_alone(seed: int) -> None:
    rng = random.Random(seed)
    size = 400 if IS_PLAIN else 3_000
    events, asked = many_events(rng, size, with_ties=seed % 2 == 1), growing_workload(rng)
    found, wanted = run_in_lanes(list(asked), events, None, seed % 3 > 0), asked.run(events, strategy="cogra")
    assert list(found) == list(wanted)
    for name in wanted:
        rows, right = found[name].to_pylist(), wanted[name].to_pylist()
        assert len(rows) == len(right), name
        for row, other in zip(rows, right, strict=True):
            weight = 1e6 * other["count"] * size if math.isfinite(other["count"]) else 1.0
            for column in other:
                assert close(row[column], other[column], weight), (name, column, row, other)


@pytest.mark.parametrize("in_bursts", [False, True])
def test_a_count_doubles_with_every_event(in_bursts: bool) -> None:
    table = pa.table({"type": ["B"] * 1_000, "ts": np.arange(1_000), "x": np.arange(1_000) % 2})
    text = "QUERY {} RETURN LOG2(COUNT(*)), AVG(B.x) PATTERN B+ {}"
    asked = tf.parse(";".join([text.format("a", ""), text.format("b", "WHERE B.x = 1")]))
    found = run_in_lanes(list(asked), table, None, in_bursts)
    assert found["a"].to_pylist()[0]["log2_count"] == pytest.approx(1_000, rel=1e-12)
    assert found["b"].to_pylist()[0]["log2_count"] == pytest.approx(500, rel=1e-12)
    assert [found[name].to_pylist()[0]["avg_B_x"] for name in "ab"] == pytest.approx([0.5, 1.0])


# ---- What it declines, and the parts it is made of --------------------------------------------------------


def group_of(text: str, table: pa.Table) -> tuple[Group, Workspace]:
    """The queries of a text as one group."""
    plans = grouped([plan_auto(query) for query in tf.parse(text)], "auto", LANES, lanes_key, least=1)
    (unit,) = units(dict(enumerate(plans)))
    assert unit.group is not None
    return unit.group, Workspace(read_batch(table, Options()))


def test_queries_that_use_up_or_negate_are_lanes_of_one_run() -> None:
    table = many_events(random.Random(5), 300, with_ties=True)
    text = (
        "QUERY a RETURN COUNT(*), MIN(B.y) PATTERN SEQ(A, B+, NOT D) WITHIN 90 s SLIDE 30 s;"
        "QUERY b RETURN COUNT(*), AVG(B.x) PATTERN SEQ(A, B+) SEMANTICS next WHERE B.x < 2;"
        "QUERY c RETURN COUNT(*) PATTERN SEQ(A, B+) SEMANTICS contiguous;"
        "QUERY d RETURN COUNT(*) PATTERN SEQ(B, A+) SEMANTICS contiguous WITHIN 50 s SLIDE 50 s"
    )
    found = tf.parse(text).run(table)
    assert [(step.queries, type(step.way)) for step in found.plan] == [(("a", "b", "c", "d"), Lanes)]
    alone = tf.parse(text).run(table, strategy="cogra")
    for name in alone:
        assert engine.difference(found[name].to_pylist(), alone[name].to_pylist(), 2) is None


def test_contiguous_queries_are_given_all_rows() -> None:
    table = many_events(random.Random(5), 50, with_ties=False)
    rows = []
    for semantics in ("next", "contiguous"):
        group, workspace = group_of(f"RETURN COUNT(*) PATTERN SEQ(A, B) SEMANTICS {semantics}", table)
        together, _ = read_lane_rows(group, workspace)
        assert together is not None
        rows.append(len(together.rows.row))
    assert rows[0] < rows[1] == len(table)


@pytest.mark.parametrize("seed", range(2 if IS_PLAIN else 12))
def test_values_of_any_size_are_as_each_query_alone(seed: int) -> None:
    rng = random.Random(seed)
    events, asked = many_events(rng, 300, with_ties=seed % 2 == 1), growing_workload(rng)
    sizes = [None, 0.0, 3.25, 1e6, 1e70, 1e300, 1e-70, 5e-300]  # no two signs: nothing cancels out
    events = events.set_column(2, "x", pa.array([rng.choice(sizes) for _ in range(300)]))
    found, wanted = run_in_lanes(list(asked), events, None), asked.run(events, strategy="cogra")
    for name in wanted:
        for row, other in zip(found[name].to_pylist(), wanted[name].to_pylist(), strict=True):
            assert all(close(row[column], other[column], 0.0) for column in other), (name, row, other)


def test_moments_may_settle_in_many_ways_but_not_in_all() -> None:
    rng = np.random.default_rng(1)
    moments, queries = 2 * MOST_MOMENTS, 16
    bits = 1 << rng.integers(0, queries, (2, 4 * moments))  # every event matters to two queries at most
    times = np.repeat(np.arange(moments), 4)
    table = pa.table({"type": ["D"] * 4 * moments, "ts": times, "x": bits[0] | bits[1]})
    text = ";".join(
        f"QUERY q{i} RETURN COUNT(*) PATTERN SEQ(A, NOT SEQ(D, C), B) WHERE D.x % {1 << i + 1} >= {1 << i}"
        for i in range(queries)
    )
    way = prepare_group(*group_of(text, table)).way
    assert isinstance(way, Apart)
    assert way.why == MANY_MOMENTS


def test_a_limit_on_state_is_kept() -> None:
    table = many_events(random.Random(5), 50, with_ties=False)
    group, workspace = group_of("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 50 s SLIDE 1 s", table)
    ready = prepare_group(group, workspace, Request(limits=replace(DEFAULTS, state=100)))
    with pytest.raises(LimitError, match="state"):
        ready.fold()


@engine.many(300)
@given(seed=st.integers(0, 2**40))
def test_a_matrix_in_place_is_the_matrix(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.randint(1, 6)
    rows = rng.sample(range(size), rng.randint(0, size))
    matrix = {t: {s: rng.randint(1, 3) for s in range(size) if rng.random() < 0.4} for t in rows}
    whole = np.eye(size)
    for t, row in matrix.items():
        whole[t] = [row.get(s, 0) for s in range(size)]
    old = np.array([rng.randint(0, 9) for _ in range(size)], float)
    new = dict(enumerate(old.tolist())) | {VOID: 0.0}
    ops, temporaries = in_place(matrix)
    for op in ops:
        assert op.to != op.of
        new[op.to] = op.a * new.get(op.to, 99.0) + op.b * new[op.of]
        new[op.of] *= op.c
    assert [new[i] for i in range(size)] == (whole @ old).tolist()
    assert {i for i in new if i >= TEMPORARY} == set(range(TEMPORARY, TEMPORARY + temporaries))
