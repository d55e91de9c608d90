"""Queries of an exchange whose matrices are folded in one pass have the rows of the oracle."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from contract import engine
from contract.test_machine_lanes import random_workload
from contract.test_together import SCHEMA
from spark.test_tasks import BUCKETS, arranged, run
from trendfold.events.batch import read_batch, schema_of
from trendfold.events.options import Options
from trendfold.kernel import wide
from trendfold.kernel.jit import IS_PLAIN
from trendfold.kernel.program import Folded
from trendfold.plan import QueryPlan, physical
from trendfold.plan.overlap import matrix_shape
from trendfold.plan.physical import matrices_together
from trendfold.plan.spread import Mode
from trendfold.runtime.folds import matrices_together as runner
from trendfold.runtime.folds.matrices_together import apart, cut_together, fold_together
from trendfold.runtime.limits import Limits
from trendfold.runtime.pieces import cut_pieces, fold_pieces, unpack_folded
from trendfold.runtime.spark import tasks
from trendfold.runtime.spark.blobs import Blob, Content
from trendfold.runtime.spark.exchanges import exchanges, within_exchanges
from trendfold.runtime.spark.tasks import Job, Route
from trendfold.runtime.workspace import Workspace
from trendfold.testing import oracle

NONE = np.zeros(0, np.int64)


def rows_of(job: Job, query: int, blobs: list[Blob]) -> list[dict]:
    found = [b.table() for b in blobs if b.content is Content.RESULT and b.owner == query]
    rows = pa.concat_tables([tasks.empty_result(job, query), *found])
    keys = rows.column_names[: 2 + len(job.plans[query].query.group_by)]
    order = pa.compute.sort_indices(rows, [(name, "ascending", "at_start") for name in keys])
    return rows.take(order).to_pylist()


@pytest.mark.parametrize("route", [Route.STRETCHES, Route.TIME])
@pytest.mark.parametrize("seed", range(4 if IS_PLAIN else 60))
def test_every_query_has_the_oracles_rows(seed: int, route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    check_matrices(rng, *random_workload(rng), route, monkeypatch)


def check_matrices(
    rng: random.Random,
    texts: list[str],
    events: list[dict],
    order_column: str | None,
    route: Route,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fail unless matrices of all queries give the oracle's rows."""
    texts.append(f"QUERY both RETURN COUNT(*) PATTERN AND(SEQ(A, B+), SEQ(C, NOT D, F)) {window_of(texts)}")
    check(texts, events, order_column, route, rng, monkeypatch)


def check(
    texts: list[str],
    events: list[dict],
    order_column: str | None,
    route: Route,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fail unless every query has the oracle's rows, however the events are cut and sent."""
    table, options = pa.Table.from_pylist(events, SCHEMA), Options(order_column=order_column)
    workload = tf.parse(";\n".join(texts))
    plans = workload.plan()
    monkeypatch.setattr(physical, "_FEW_BYTES", 1 << 30)  # matrices, always
    monkeypatch.setattr(runner, "MOST_KINDS", rng.choice([2, 1 << 12]))
    own = exchanges(plans, schema_of(table.schema), options, "auto")
    plans = within_exchanges(plans, own)
    parts, shared, chunks = arranged(table, options, route, rng)
    linear = [exchange.mode is Mode.LINEAR for exchange in own]
    routes = tuple(route if is_linear else Route.PARTITION for is_linear in linear)
    sizes = {"buckets": BUCKETS, "finishers": 2, "shared": shared, "chunks": chunks}
    job = Job(plans, own, routes, options, table.schema, 0, Limits(), "auto", **sizes)
    blobs = run(job, parts)
    assert not [blob for blob in blobs if blob.content in (Content.ERROR, Content.OVERLAP)]
    for number, (plan, text) in enumerate(zip(plans, texts, strict=True)):
        expected = oracle.rows(text, events, order_column)
        wrong = engine.difference(rows_of(job, number, blobs), expected, 2 + len(plan.query.group_by))
        assert wrong is None, f"{text}: {wrong}\n{texts!r}\n{events!r}\n{order_column!r}"


def window_of(texts: list[str]) -> str:
    return texts[0][texts[0].index("WITHIN") :] if "WITHIN" in texts[0] else ""


# ---------------------------------------------------------------- numbers of any size

ASKED = [
    "COUNT(*) PATTERN SEQ(A, B+, C)",
    "COUNT(*), SUM(B.x), MAX(B.x) PATTERN SEQ(A, B+) WHERE B.x < 2",
    "COUNT(*) PATTERN SEQ(A, B+, NOT D, C)",
    "COUNT(*), AVG(C.x) PATTERN (SEQ(A, C))+ SEMANTICS next",
    "COUNT(*) PATTERN AND(A+, SEQ(B, C))",
    "COUNT(D), MIN(D.x) PATTERN SEQ(D+, E z)",
    "COUNT(*) PATTERN C",
]
TAIL = "GROUP BY g WITHIN 40 s SLIDE 20 s"


def plans_of(asked: list[str], tail: str = TAIL) -> dict[int, QueryPlan]:
    return dict(enumerate(tf.parse(";\n".join(f"RETURN {each} {tail}" for each in asked)).plan()))


def many_rows(rows: int, seconds: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "type": rng.choice(list("ABCDE"), rows),
            "ts": np.sort(rng.integers(-seconds // 2, seconds // 2, rows)),
            "g": pa.array(rng.integers(0, 3, rows), mask=rng.random(rows) < 0.1),
            "x": rng.integers(0, 4, rows).astype(np.float64),
        }
    )


@pytest.mark.parametrize("rows", [1, 7, 300, 300 if IS_PLAIN else 20_000])
@pytest.mark.parametrize("seed", range(4))
def test_side_by_side_and_alone(rows: int, seed: int) -> None:
    """Few rows over a long time, and many at the same moments: counts leave the range of doubles."""
    plans = plans_of(ASKED)
    table = many_rows(rows, 100 if seed % 2 else 100_000, seed)
    workspace = Workspace(read_batch(table, Options(time_unit="s")))
    assert matrices_together(plans) == [tuple(plans)]
    (together,) = cut_together(plans, workspace, 0, NONE)
    found = dict(apart(fold_together(together, workspace)))
    for query, plan in plans.items():
        alone = fold_pieces(plan, workspace, cut_pieces(plan, workspace, 0, NONE))
        assert found[query].column("g").to_pylist() == alone.column("g").to_pylist()
        for i, operand in enumerate(plan.operands):
            shape = matrix_shape(operand.machine, operand.carried)
            size = (shape.starts, shape.states, shape.width), shape.extremes
            assert_alike(*(unpack_folded(each, i, *size) for each in (found[query], alone)))


def assert_alike(one: Folded, other: Folded) -> None:
    np.testing.assert_array_equal(one.extreme, other.extreme)
    for each in (one, other):
        assert (np.abs(each.mantissa) < wide.RADIX).all()
    np.testing.assert_allclose(
        wide.log2(one.mantissa, one.exponent), wide.log2(other.mantissa, other.exponent), rtol=1e-12
    )
    small = (one.exponent == 0) & (other.exponent == 0)
    np.testing.assert_allclose(one.mantissa[small], other.mantissa[small], rtol=1e-12)


# ---------------------------------------------------------------- who is beside whom


def test_queries_with_the_same_panes_and_groups_are_folded_in_one_pass() -> None:
    tails = [TAIL, "GROUP BY g WITHIN 60 s SLIDE 20 s", "GROUP BY g WITHIN 30 s SLIDE 30 s", "", TAIL]
    texts = [f"RETURN {asked} {tail}" for asked, tail in zip(ASKED, tails, strict=False)]
    texts.append(f"RETURN COUNT(*) PATTERN SEQ(A, B) SEMANTICS contiguous {TAIL}")  # which needs all rows
    plans = dict(enumerate(tf.parse(";\n".join(texts)).plan()))
    assert matrices_together(plans) == [(0, 1, 4), (2,), (3,), (5,)]


def test_the_state_of_a_pass_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(physical, "_MOST_CELLS", 40)
    assert matrices_together(plans_of(["COUNT(*) PATTERN SEQ(A, B+, C)"] * 5)) == [(0, 1), (2, 3), (4,)]
