"""Statistics of a stream reach the planner: those of an earlier run, of a sample, or of the rows at hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import trendfold as tf
from trendfold.cli import main
from trendfold.errors import InputError
from trendfold.papers.gloria import SharingPlan
from trendfold.plan.physical import SharedPlan

QUERIES = """
QUERY q1 RETURN COUNT(*) PATTERN SEQ(F, A, B, C, D) WITHIN 10 min SLIDE 5 min;
QUERY q2 RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B, C, D) WITHIN 10 min SLIDE 10 min;
QUERY q3 RETURN COUNT(*) PATTERN SEQ(E, C, D) WITHIN 10 min SLIDE 10 min
"""


def events(weights: tuple[int, ...] = (1, 20, 20, 20, 20, 20), count: int = 1_500) -> pa.Table:
    rng = random.Random(7)
    types = rng.choices("ABCDEF", weights, k=count)
    return pa.table({"type": types, "ts": list(range(count)), "x": [float(n % 7) for n in range(count)]})


def sharing(shown: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(shown))["queries"][0]["sharing"]
    return found


def plan_of(result: tf.Result) -> SharingPlan:
    [step] = result.plan
    assert isinstance(step.way, SharedPlan)
    plan: SharingPlan = step.way.details
    return plan


def test_a_run_tells_events_per_second_by_type() -> None:
    table = pa.table({"type": ["A", "B", "B", "C"], "ts": [0, 1, 2, 10], "x": [1.0] * 4})
    result = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B+)").run(table)
    assert result.statistics == {"rates": {"A": 0.1, "B": 0.2, "C": 0.1}}
    assert json.loads(json.dumps(result.statistics)) == result.statistics


@pytest.mark.parametrize("analyze", [False, True])
def test_explain_with_data_shows_the_plan_that_runs(analyze: bool) -> None:
    workload, table = tf.parse(QUERIES), events()
    ran = plan_of(workload.run(table, strategy="gloria"))
    told = sharing(workload.explain("gloria", "json", data=table, analyze=analyze))
    assert told["cost"] == ran.cost
    assert told["cost"] != sharing(workload.explain("gloria", "json"))["cost"]
    sets = [pool["sets"] for pool in told["path"]]
    names = ("q1", "q2", "q3")
    assert sets == [
        [{"queries": [names[q] for q in s.queries], "snapshot": s.snapshot} for s in pool.chosen]
        for pool in ran.considered
        if any(0 in s.queries for s in pool.chosen)
    ]


def test_given_statistics_decide_the_plan_and_never_the_rows() -> None:
    workload, table = tf.parse(QUERIES), events()
    measured = workload.run(table, strategy="gloria")
    rare_b = {"rates": {**measured.statistics["rates"], "A": 5.0, "B": 0.001}}
    given = workload.run(table, strategy="gloria", statistics=rare_b)
    assert plan_of(given).crossings != plan_of(measured).crossings
    assert "planned by the statistics given" in str(given.plan)
    assert sharing(workload.explain("gloria", "json", statistics=rare_b))["cost"] == plan_of(given).cost
    for name in measured:
        assert given[name].equals(measured[name])


def test_join_planning_takes_the_same_statistics() -> None:
    workload = tf.parse("RETURN MATCHES PATTERN SEQ(A, B, C) WITHIN 20 s")
    table = events(count=300)
    like = workload.run(table)
    given = workload.run(table, statistics={"rates": {"A": 50.0, "B": 0.1, "C": 5.0}})
    assert given["q1"].num_rows == like["q1"].num_rows > 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"rate": {}}, "statistics has no 'rate'; did you mean 'rates'"),
        ({"rates": {"A": -1.0}}, "statistics' rates must be events per second by type"),
        ({"rates": {"A": "often"}}, "statistics' rates must be events per second by type"),
        ([1.0], "statistics must be like result.statistics of an earlier run"),
    ],
)
def test_wrong_statistics_are_refused(given: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        tf.parse(QUERIES).run(events(), statistics=given)


def test_the_command_line_writes_and_reads_statistics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pa.parquet.write_table(events(), tmp_path / "in.parquet")
    (tmp_path / "q.tql").write_text(QUERIES)
    asked = ["run", str(tmp_path / "q.tql"), "--input", str(tmp_path / "in.parquet"), "--engine", "local"]
    known = str(tmp_path / "known" / "rates.json")
    assert main([*asked, "--strategy", "gloria", "--save-statistics", known]) == 0
    first = capsys.readouterr().out
    assert set(json.loads(Path(known).read_text())["rates"]) == set("ABCDEF")
    assert main([*asked, "--strategy", "gloria", "--statistics", known]) == 0
    assert capsys.readouterr().out == first
    told = ["explain", str(tmp_path / "q.tql"), "--strategy", "gloria", "--format", "json"]
    assert main([*told, "--statistics", known]) == 0
    assert (
        sharing(capsys.readouterr().out)["cost"]
        != sharing(tf.parse(QUERIES).explain("gloria", "json"))["cost"]
    )
    assert main([*asked, "--statistics", str(tmp_path / "none.json")]) == 2
    assert "cannot read statistics from" in capsys.readouterr().err
