"""INCLUDE EMPTY and COUNT(DISTINCT ...) on Spark: partial rows of several tasks make the rows of one."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

import trendfold as tf
import workloads
from contract.more_clauses import with_more_clauses
from contract.test_machine_lanes import random_workload
from spark import agreement, test_matrices_together, test_tasks
from spark.test_agreement import stream
from trendfold.kernel.jit import IS_PLAIN
from trendfold.runtime.spark.tasks import Route

pytestmark = pytest.mark.xdist_group("spark")

ROUTES = [Route.STRETCHES, Route.PARTITION, Route.TIME]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("seed", range(4 if IS_PLAIN else 50))
def test_every_route_gives_the_local_rows(seed: int, route: Route, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed + 500)
    case = workloads.random_case(rng, aggregates=True, having=rng.random() < 0.1, both=True)
    case = case._replace(query=with_more_clauses(case.query, rng))
    # A part without events of T has no stream of GROUP BY T.g, and does not tell of its windows.
    (query,) = tf.parse(case.query)
    counts_windows = all(key.alias is None for key in query.group_by)
    test_tasks.check(case, route, rng, monkeypatch, counts_windows=counts_windows)


@pytest.mark.parametrize("route", [Route.STRETCHES, Route.TIME])
@pytest.mark.parametrize("seed", range(4 if IS_PLAIN else 40))
def test_matrices_of_many_queries_give_the_oracles_rows(
    seed: int, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed + 600)
    texts, events, order_column = random_workload(rng)
    texts = [with_more_clauses(text, rng, "u") if rng.random() < 0.8 else text for text in texts]
    test_matrices_together.check(texts, events, order_column, route, rng, monkeypatch)


def test_on_spark(spark: SparkSession) -> None:
    """Partitions of a group are in several tasks, and values of g in several partitions."""
    table = stream(3_000, 12)
    workload = tf.parse("""
    QUERY a RETURN h, COUNT(*), COUNT(DISTINCT g), COUNT(DISTINCT g, v), COUNT(DISTINCT h)
    PATTERN SEQ(A, B+, C) WHERE [g, v] GROUP BY h WITHIN 20 s SLIDE 10 s INCLUDE EMPTY;
    QUERY b RETURN COUNT(*), COUNT(DISTINCT g) PATTERN SEQ(A, B) WHERE [g] AND B.v > 97
    HAVING COUNT(DISTINCT g) != 2 WITHIN 5 s SLIDE 5 s INCLUDE EMPTY;
    QUERY c RETURN B.h, SUM(B.v), COUNT(DISTINCT g) PATTERN SEQ(A, B+) SEMANTICS next WHERE [g]
    GROUP BY B.h WITHIN 5 s SLIDE 5 s INCLUDE EMPTY;
    QUERY d RETURN COUNT(*), COUNT(DISTINCT g) PATTERN SEQ(A, B, A x) WHERE [g] AND B.v < NEXT(x).v
    WITHIN 3 s INCLUDE EMPTY
    """)
    agreement.check(workload, spark.createDataFrame(table).repartition(4), table)
