"""Queries that are folded together are so on Spark too: the same rows, and bursts that were shared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from spark.agreement import check, put

pytestmark = pytest.mark.xdist_group("spark")

KLEENE = """
QUERY one RETURN g, COUNT(*), SUM(B.x) PATTERN SEQ(A, B+) WHERE B.x > 2 GROUP BY g WITHIN 60 s SLIDE 20 s;
QUERY two RETURN g, COUNT(*), MIN(B.x) PATTERN SEQ(C, B+, A) GROUP BY g WITHIN 40 s SLIDE 20 s;
QUERY three RETURN g, COUNT(*) PATTERN SEQ(A, B+, C) WHERE B.x < 7 GROUP BY g WITHIN 60 s SLIDE 60 s;
QUERY four RETURN g, COUNT(*), AVG(B.x) PATTERN SEQ(C, B+) GROUP BY g;
QUERY five RETURN COUNT(*) PATTERN SEQ(A, C) WHERE [g] AND A.x > 5 WITHIN 60 s SLIDE 30 s;
QUERY six RETURN g, COUNT(*) PATTERN SEQ(A, B+) WHERE B.x <= NEXT(B).x GROUP BY g WITHIN 40 s SLIDE 20 s;
QUERY seven RETURN g, COUNT(*), MAX(B.x) PATTERN SEQ(C, B+)
    WHERE B.x <= NEXT(B).x GROUP BY g WITHIN 60 s SLIDE 20 s
"""
SEQUENCES = """
QUERY one RETURN g, COUNT(*), SUM(B.x) PATTERN SEQ(A, B, C) GROUP BY g WITHIN 60 s SLIDE 20 s;
QUERY two RETURN g, COUNT(*) PATTERN SEQ(A, B, C, D) WHERE D.x < 7 GROUP BY g WITHIN 60 s SLIDE 20 s;
QUERY three RETURN g, COUNT(*) PATTERN SEQ(A, NOT D, B) GROUP BY g WITHIN 30 s;
QUERY four RETURN COUNT(*), MAX(C.x) PATTERN SEQ(C, A, B) WHERE [g] WITHIN 30 s
"""
LINES = "; ".join(
    f"QUERY n{i} RETURN g, {what} PATTERN SEQ(A, B, C, {last}) GROUP BY g WITHIN {within} s SLIDE 20 s"
    for i, (what, last, within) in enumerate(
        [("COUNT(*)", "D", 60), ("SUM(B.x)", "D", 40), ("MIN(C.x)", "D, A", 60), ("AVG(B.x)", "B", 40)] * 2
    )
)
"""What GLORIA's plans share: of the patterns above they share nothing, as that costs no less."""


def bursts(seed: int, events: int = 3_000, lengths: Sequence[int] = (1, 1, 3, 9)) -> pa.Table:
    """Runs of one type, in four groups."""
    rng = np.random.default_rng(seed)
    types = np.repeat(rng.choice(list("ABBCD"), events), rng.choice(lengths, events))[:events]
    return pa.table(
        {
            "type": pa.array(types),
            "ts": np.cumsum(rng.integers(0, 2, events)),
            "g": rng.integers(0, 4, events),
            "x": rng.integers(0, 10, events).astype(float),
        }
    )


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        ("auto", KLEENE),
        ("aseq", SEQUENCES),
        ("hamlet", KLEENE),
        slow("gloria", LINES),
        slow("gloria-greedy", KLEENE),
        slow("hamlet-static", KLEENE),
    ],
)
def test_spark_folds_together_what_the_local_engine_does(
    spark: SparkSession, tmp_path: Path, strategy: str, text: str
) -> None:
    table = bursts(5, lengths=(20, 60))  # long enough for `auto`, too: window edges end bursts
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(table.num_rows)))
    path = put(shuffled, tmp_path / "events", [700, 1_500, 2_200])  # in no order: rows come together by key
    result = check(tf.parse(text), path, table, views=False, strategy=strategy)
    assert set(result.summary.strategy.values()) <= {strategy, "auto", "cogra", "greta"}
    assert any(result.summary.sharing.values()) == (strategy != "aseq")  # which has no bursts


def test_a_sharing_plan_follows_a_sample_of_the_rows_and_explain_shows_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, workload = bursts(5, events=1_500), tf.parse(LINES)
    path = put(table.take(pa.array(np.random.default_rng(1).permutation(1_500))), tmp_path / "events", [700])
    result = check(workload, path, table, views=False, strategy="gloria")
    [step] = result.plan
    assert step.way.why.endswith("planned by a sample of the rows")
    given = workload.run(path, engine="spark", strategy="gloria", statistics=result.statistics)
    assert [step.way.why.split("; ")[-1] for step in given.plan] == ["planned by the statistics given"]
    like = workload.run(table, strategy="gloria", statistics=result.statistics)
    assert given.plan.steps[0].way == like.plan.steps[0].way
    assert result.statistics["rates"] == pytest.approx(like.statistics["rates"])
    told = workload.explain("gloria", "json", data=path, engine="spark", analyze=True)
    [shown] = {each["sharing"]["cost"] for each in json.loads(str(told))["queries"]}
    assert shown == step.way.details.cost
