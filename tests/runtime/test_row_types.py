"""`type_expr`: the first condition that holds names the type of a row."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.cli import main
from trendfold.errors import InputError

CONDITIONS: dict[str, tuple[str, Any]] = {
    "A": ("speed < 10", lambda row: row["speed"] is not None and row["speed"] < 10),
    "B": ("lane = 'bus' AND NOT speed > 20", lambda row: row["lane"] == "bus" and _at_most(row, 20)),
    "C": ("lane IN ('x', 'y') OR speed % 2 = 1", lambda row: row["lane"] in ("x", "y") or _is_odd(row)),
    "D": ("speed IS NULL", lambda row: row["speed"] is None),
    "E": ("lane LIKE 'b%'", lambda row: (row["lane"] or "").startswith("b")),
    "F": ("TRUE", lambda row: True),
}


def _at_most(row: dict[str, Any], bound: int) -> bool:
    return row["speed"] is not None and row["speed"] <= bound


def _is_odd(row: dict[str, Any]) -> bool:
    return row["speed"] is not None and row["speed"] % 2 == 1


def rows_of(rng: random.Random, count: int) -> list[dict[str, Any]]:
    lanes = ["bus", "x", "y", "bike", None]
    return [
        {"ts": i, "speed": rng.choice([None, *range(30)]), "lane": rng.choice(lanes), "type": "?"}
        for i in range(count)
    ]


def as_events(rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema(
        [("ts", pa.int64()), ("speed", pa.int64()), ("lane", pa.string()), ("type", pa.string())]
    )
    return pa.Table.from_pylist(rows, schema)


@pytest.mark.parametrize("seed", range(30))
def test_the_rows_are_those_of_a_type_column_made_by_hand(seed: int) -> None:
    rng = random.Random(seed)
    rows = rows_of(rng, rng.randint(0, 40))
    chosen = rng.sample(list(CONDITIONS), rng.randint(1, len(CONDITIONS)))
    workload = tf.parse(
        "RETURN COUNT(*), SUM(x.speed) PATTERN SEQ(ANY x, F?, A) SEMANTICS next; RETURN COUNT(*) PATTERN B+"
    )
    types = [next((name for name in chosen if CONDITIONS[name][1](row)), None) for row in rows]
    by_hand = workload.run(
        as_events([{**row, "type": type_} for row, type_ in zip(rows, types, strict=True)])
    )
    found = workload.run(as_events(rows), type_expr={name: CONDITIONS[name][0] for name in chosen})
    for query in workload:
        assert found[query.name].equals(by_hand[query.name])
    assert found.summary.rejects == by_hand.summary.rejects == types.count(None)
    assert dict(found.summary.reject_reasons) == dict(by_hand.summary.reject_reasons)


def test_conditions_read_the_column_that_types_replace() -> None:
    events = pa.table({"type": ["a1", "b1", "a2"], "ts": [1, 2, 3]})
    found = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B, A x) WHERE x.type = 'A'").run(
        events, type_expr={"A": "type LIKE 'a%'", "B": "type LIKE 'b%'"}
    )
    assert found["q1"]["count"].to_pylist() == [1]


def test_one_type_for_all_rows_and_a_type_column_of_another_name() -> None:
    events = pa.table({"ts": [1, 2, 3], "v": [1, 3, 2]})
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(Reading a, Reading b) WHERE a.v < NEXT(b).v")
    assert workload.run(events, type_expr="Reading")["q1"]["count"].to_pylist() == [2]
    assert workload.run(events, type_expr="Reading", type_column="kind")["q1"]["count"].to_pylist() == [2]


def test_times_can_be_compared() -> None:
    events = pa.table({"ts": [datetime(2024, 1, day) for day in (1, 2, 3)]})
    asked = {"Old": "ts < TIMESTAMP '2024-01-02'", "New": "TRUE"}
    found = tf.parse("RETURN COUNT(*) PATTERN SEQ(Old, New)").run(events, type_expr=asked)
    assert found["q1"]["count"].to_pylist() == [2]


def test_funnels_take_them() -> None:
    events = as_events([{"ts": i, "speed": i, "lane": "x", "type": "?"} for i in range(3)])
    steps = {"A": "speed = 0", "B": "speed = 2", "C": "TRUE"}
    found = tf.funnel(events, steps=["A", "B"], by="lane", within="1 h", type_expr=steps)
    assert found.table["keys"].to_pylist() == [1, 1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"Slow": "speeed < 10"}, "did you mean 'speed'?"),
        ({"Slow": "speed <"}, "expected a value, found the end of the query"),
        ({"Slow": "speed"}, "expected a condition, found an integer: speed"),
        ({"Slow": "COUNT(*) > 1"}, "aggregates are only allowed in queries"),
        ({"Slow": ":x > 1"}, "a parameter has no value here"),
        ({"Slow": "NEXT(a).speed > 1"}, "NEXT is only allowed in queries"),
        ({"Slow": "lane > 3"}, "cannot compare lane (string) with 3 (integer)"),
        ({"Slow": ""}, "expected one condition"),
        ({"Slow": "TRUE; FALSE"}, "expected one condition"),
        ({}, "type_expr takes conditions by type"),
        ({"Slow": 5}, "as text"),
    ],
)
def test_an_error_names_the_type_and_shows_the_condition(given: Any, told: str) -> None:
    events = as_events([{"ts": 1, "speed": 1, "lane": "x", "type": "?"}])
    with pytest.raises(InputError) as caught:
        tf.parse("RETURN COUNT(*) PATTERN A").run(events, type_expr=given)
    assert told in str(caught.value)
    assert not given or "'Slow'" in str(caught.value)


def test_rows_without_a_type_say_what_would_keep_them() -> None:
    events = as_events([{"ts": i, "speed": 50, "lane": "x", "type": "?"} for i in range(3)])
    found = tf.parse("RETURN COUNT(*) PATTERN A").run(events, type_expr={"A": "speed < 10"})
    assert "a last type with the condition TRUE keeps such rows" in found.summary.warnings[0]


def test_explain_and_why_take_it_too() -> None:
    events = as_events([{"ts": i, "speed": i, "lane": "x", "type": "?"} for i in range(3)])
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B)")
    asked = {"A": "speed = 0", "B": "speed = 1", "C": "TRUE"}
    assert "2 rows" in str(workload.explain(data=events, type_expr=asked))
    assert workload.why_not(events, type_expr=asked).steps


def test_the_command_line_takes_conditions_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.tql").write_text("RETURN COUNT(*) PATTERN SEQ(Slow, Fast)", encoding="utf-8")
    Path("e.csv").write_text("ts,speed\n1,5\n2,20\n3,30\n", encoding="utf-8")
    run = ["run", "q.tql", "--input", "e.csv", "--engine", "local", "--format", "json"]
    assert main([*run, "--type-expr", "Slow=speed < 10", "--type-expr", "Fast=TRUE"]) == 0
    assert '"count": 2' in capsys.readouterr().out
    assert main(["check", "q.tql", "--input", "e.csv", "--type-expr", "Slow=sped < 10"]) == 2
    assert "did you mean 'speed'?" in capsys.readouterr().err
    assert main([*run, "--type-expr", "Slow", "--type-expr", "Fast"]) == 2
    assert "write a type and a condition" in capsys.readouterr().err
