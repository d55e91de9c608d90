"""Statistics of joins: measured, named, saved, and given to the next run, which finds the same matches."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
from contract import matching
from contract.engine import many, to_table
from trendfold.cli import main
from trendfold.detect.sample import measure_joins
from trendfold.runtime import find_matches
from workloads import random_case

SEEDS = st.integers(0, 2**40)
EVENTS = pa.table(
    {
        "type": ["A", "B", "A", "B", "N", "B"] * 20,
        "ts": range(120),
        "v": [i % 7 for i in range(120)],
        "u": [i % 3 for i in range(120)],
    }
)
WORKLOAD = """
QUERY a RETURN MATCHES PATTERN SEQ(A, NOT N n, B b)
    WHERE [u] AND A.v < b.v AND n.v > 3 AND b.v > 1 WITHIN 30 s;
QUERY b RETURN MATCHES PATTERN AND(B x, A) WHERE A.v < x.v WITHIN 5 events;
QUERY c RETURN MATCHES PATTERN SEQ(A x, A y) WHERE x.v < y.v WITHIN 20 s
"""


def test_statistics_are_named_like_patterns() -> None:
    found = tf.parse(WORKLOAD).run(EVENTS).statistics["joins"]
    assert found["rates"].keys() == {"A WHERE [u]", "B WHERE [u] AND B.v > 1", "A"}
    assert found["rates"]["A"] == pytest.approx(40 / 116)  # from the first A to the last
    assert found["shares"].keys() == {"A", "B"}
    assert found["shares"]["B"] == pytest.approx(60 / 119)
    assert found["selectivities"].keys() == {
        "SEQ(A, NOT N, B) WHERE [u] AND B.v > 1 AND N.v > 3 AND A.v < B.v",
        "AND(A, B) WHERE A.v < B.v",
        "SEQ(A a, A b) WHERE a.v < b.v",
    }


@many(40)
@given(seed=SEEDS)
def test_statistics_of_a_run_go_through_json_into_the_next_which_measures_nothing(seed: int) -> None:
    rng = random.Random(seed)
    case = matching.nested_case(rng) if seed % 2 else random_case(rng, matches=True)
    workload, table = tf.parse(case.query), to_table(case)
    first = workload.run(table, order_column=case.order_column)
    saved = json.loads(json.dumps(first.statistics))

    def refuse(*args: Any) -> float:
        raise AssertionError("measured again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trendfold.detect.sample.sample_pairs", refuse)
        again = workload.run(table, order_column=case.order_column, statistics=saved)
    assert again.statistics == saved
    for name in first:
        assert matching.canonical(again[name].to_pylist()) == matching.canonical(first[name].to_pylist())


@pytest.mark.parametrize("rare", [("A", "B"), ("B", "N")])
def test_known_selectivities_decide_the_plan(rare: tuple[str, str]) -> None:
    workload = tf.parse("RETURN MATCHES PATTERN AND(A, B, N) WHERE A.v < B.v AND B.v < N.v WITHIN 9 s")
    named = {
        pair: f"AND({', '.join(pair)}) WHERE {pair[0]}.v < {pair[1]}.v" for pair in (("A", "B"), ("B", "N"))
    }
    known = {name: 1e-6 if pair == rare else 1.0 for pair, name in named.items()}
    shown = workload.explain(data=EVENTS, format="json", statistics={"joins": {"selectivities": known}})
    (query,) = json.loads(str(shown))["queries"]
    inner = [node["names"] for node in query["matches"]["nodes"] if len(node["names"]) == 2]
    assert [sorted(names) for names in inner] == [sorted(rare)]
    assert query["matches"]["statistics"]["selectivities"] == known


def test_explain_tells_statistics_plan_cost_and_what_was_tried() -> None:
    text = " ".join(str(tf.parse(WORKLOAD).explain(data=EVENTS, planning={"search": "tabu"})).split())
    assert "planned every pattern's own best plan, cost " in text
    assert "statistics 0." in text
    assert "of all events B" in text


def test_a_rate_that_may_be_misspelled_is_a_warning() -> None:
    result = tf.parse(WORKLOAD).run(EVENTS, planning={"statistics": {"AA": 1.0, "Zebra": 2.0}})
    assert result.summary.warnings == (
        "planning's statistics name no type of a pattern by 'AA'; did you mean 'A'?",
    )


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        ({"join": {}}, "statistics has no 'join'; did you mean 'joins'?"),
        ({"joins": {"rate": {"A": 1}}}, "statistics' joins have no 'rate'; did you mean 'rates'?"),
        ({"joins": {"selectivities": {"SEQ(A, B)": 2}}}, "of joins must be numbers from 0 to 1"),
        (
            {"joins": {"rates": {"A": "often"}}},
            "statistics' rates of joins must be events per second by type",
        ),
        ({"joins": 1}, "statistics' joins must be like result.statistics['joins'] of an earlier run"),
    ],
)
def test_statistics_that_make_no_sense_are_an_error(statistics: dict[str, Any], message: str) -> None:
    with pytest.raises(tf.errors.InputError) as caught:
        tf.parse(WORKLOAD).run(EVENTS, statistics=statistics)
    assert message in str(caught.value)


def test_statistics_of_planning_win() -> None:
    known = {"joins": {"selectivities": {"SEQ(A a, A b) WHERE a.v < b.v": 0.25}}}
    other = {"joins": {"selectivities": {"SEQ(A a, A b) WHERE a.v < b.v": 0.5}}}
    workload = tf.parse(WORKLOAD)
    for options in ({"planning": {"statistics": known}, "statistics": other}, {"statistics": known}):
        found = workload.run(EVENTS, **options).statistics["joins"]["selectivities"]
        assert found["SEQ(A a, A b) WHERE a.v < b.v"] == 0.25


def test_what_is_not_known_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def watched(*args: Any, known: dict[Any, float], **options: Any) -> Any:
        asked.append(len(known))
        return measure_joins(*args, known=known, **options)

    monkeypatch.setattr(find_matches, "measure_joins", watched)
    whole = tf.parse(WORKLOAD).run(EVENTS).statistics["joins"]
    some = {"SEQ(A a, A b) WHERE a.v < b.v": 0.25}
    found = tf.parse(WORKLOAD).run(EVENTS, statistics={"joins": {"selectivities": some}}).statistics["joins"]
    assert found["selectivities"] == {**whole["selectivities"], **some}
    assert found["rates"] == whole["rates"]
    assert sorted(asked) == [0, 0, 0, 0, 0, 1]


def test_the_command_line_writes_statistics_and_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries, events, saved = tmp_path / "q.tql", tmp_path / "events.parquet", tmp_path / "kept" / "known.json"
    queries.write_text(WORKLOAD)
    pq.write_table(EVENTS, events)
    given = [str(queries), "--input", str(events)]
    asked = ["run", *given, "--engine", "local", "--format", "json"]
    assert main([*asked, "--save-statistics", str(saved)]) == 0
    first = capsys.readouterr().out
    statistics = json.loads(saved.read_text())
    assert statistics == tf.parse(WORKLOAD).run(EVENTS).statistics
    statistics["joins"]["selectivities"]["SEQ(A a, A b) WHERE a.v < b.v"] = 0.125
    saved.write_text(json.dumps(statistics))
    assert main([*asked, "--statistics", str(saved)]) == 0
    assert capsys.readouterr().out == first
    assert main(["explain", *given, "--statistics", str(saved), "--planning", "search=tabu"]) == 0
    assert "0.125 of pairs    SEQ(A a, A b) WHERE a.v < b.v" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_file_that_holds_no_statistics_is_an_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries, saved = tmp_path / "q.tql", tmp_path / "known.json"
    queries.write_text("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 1 min")
    saved.write_text(text)
    stream = ["--source", "parquet:x", "--watermark", "1 s", "--checkpoint", str(tmp_path / "c")]
    assert main(["stream", str(queries), *stream, "--statistics", str(saved)]) == 2
    assert "statistics" in capsys.readouterr().err
