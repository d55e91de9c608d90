"""Reports: what is said, what is drawn, and that any result has a page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.cli import main
from trendfold.errors import InputError
from trendfold.report import failure_page, report_page, view_of
from trendfold.report.charts import figures
from trendfold.report.words import number, sentences, span
from trendfold.runtime.result import Result

RIDES = tf.datasets.ridesharing(events=3_000, seed=7)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def ran(text: str, data: Any = RIDES, **options: Any) -> Result:
    return tf.parse(text).run(data, **options)


def view(text: str, data: Any = RIDES, **options: Any) -> Any:
    result = ran(text, data, **options)
    [query] = result.queries
    return view_of(query, result[query.name], result.summary.rows[query.name])


def drawn(text: str, data: Any = RIDES, **options: Any) -> list[dict[str, Any]]:
    return [each.chart.to_dict() for each in figures(view(text, data, **options))]


def points(chart: Any) -> list[dict[str, Any]]:
    """All rows of the data of a chart."""
    if isinstance(chart, list):
        return [row for each in chart for row in points(each)]
    if not isinstance(chart, dict):
        return []
    own = chart.get("data", {}).get("values", []) if isinstance(chart.get("data"), dict) else []
    named = [row for rows in chart.get("datasets", {}).values() for row in rows]
    return own + named + [row for key, each in chart.items() if key != "data" for row in points(each)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3, "3"),
        (23.456, "23.5"),
        (12_345, "12,345"),
        (2_500_000, "2.5 million"),
        (7e12, "7 trillion"),
        (1.23e20, "1.2×10²⁰"),
        (2e-7, "2×10⁻⁷"),
        (float("inf"), "more than 1.8×10³⁰⁸"),
    ],
)
def test_numbers_for_people(value: float, text: str) -> None:
    assert number(value) == text


def test_spans_for_people() -> None:
    found = [span(ms) for ms in (250, 59_000, 200_000, 7_200_000, 100_000_000)]
    assert found == ["0.25 s", "59 s", "3 min 20 s", "2 h", "1 d 4 h"]


def test_how_much_where_most_and_how_it_changed() -> None:
    times = [NOON + timedelta(minutes=m) for m in range(9) for _ in range(1 + 3 * (m // 3))]
    places = ["here" if i % 4 else "there" for i in range(len(times))]
    data = pa.table({"type": ["A"] * len(times), "ts": times, "place": places})
    said = sentences(view("RETURN place, COUNT(*) PATTERN A GROUP BY place WITHIN 1 min SLIDE 1 min", data))
    assert said[0] == f"{len(times)} trends in 9 windows and 2 groups by place."
    here = places.count("here") / len(places)
    assert said[1] == f"Most are of place here ({here:.0%}), then there ({1 - here:.0%})."
    assert said[2].startswith("The peak is 7, in the window from 2024-01-01 12:06")
    assert said[3] == "It rises: typical windows of the last third have 7 times the first third's."


def test_words_claim_no_more_than_there_is() -> None:
    text = "RETURN g, COUNT(*) PATTERN A GROUP BY g WITHIN 10 s SLIDE 10 s"

    def said(groups: str) -> tuple[str, ...]:
        data = pa.table({"type": ["A"] * len(groups), "ts": range(len(groups)), "g": list(groups)})
        return sentences(view(text, data))

    assert said("abcdeabcdeedcba")[1] == "Every g has the same: 3."
    assert said("aabbc")[1] == "2 groups by g share the most, 2 each."
    assert said("aaabbcdd")[1] == "The largest share is that of g a (38%), then b (25%)."
    assert said("ab" * 10)[2] == "It does not change: every window has 10."


def test_a_group_with_one_row_is_drawn_as_a_point_on_the_whole_axis() -> None:
    data = pa.table({"type": ["A"] * 9, "ts": range(0, 90, 10), "g": ["a"] + ["b"] * 8})
    [over_time, _] = drawn("RETURN g, COUNT(*) PATTERN A GROUP BY g WITHIN 10 s SLIDE 10 s", data)
    rows = points(over_time["vconcat"][0])
    assert {row["g"]: row["lone"] for row in rows} == {"a": 1, "b": 0}
    scales = re.findall(r'"domainMax": (\d+)', json.dumps(over_time))
    assert set(scales) == {"80"}


def test_the_numbers_drawn_are_those_of_the_result() -> None:
    text = "RETURN COUNT(*) PATTERN Request WITHIN 2 s SLIDE 2 s"
    [chart] = drawn(text)
    rows = points(chart["vconcat"][0])
    table = ran(text)["q1"]
    assert [row["y"] for row in rows] == table["count"].to_pylist()
    assert [row["t"] for row in rows] == [
        int(t.timestamp() * 1000) for t in table["window_start"].to_pylist()
    ]


def test_counts_far_apart_are_on_a_logarithmic_scale_and_it_is_said() -> None:
    text = "RETURN COUNT(*) PATTERN Travel+ WITHIN 1 s SLIDE 500 ms"
    [chart] = drawn(text)
    assert '"type": "log"' in json.dumps(chart["vconcat"][0])
    assert "The scale is logarithmic" in figures(view(text))[0].note


def test_groups_are_lines_and_a_heat_map_with_values() -> None:
    over_time, heat = drawn("RETURN kind, COUNT(*) PATTERN Request GROUP BY kind WITHIN 2 s SLIDE 2 s")
    assert {row["g"] for row in points(over_time["vconcat"][0])} == set(RIDES["kind"].unique().to_pylist())
    assert all(row["short"] for row in points(heat))


def test_without_windows_groups_are_bars() -> None:
    [bars] = drawn("RETURN kind, COUNT(*) PATTERN Request GROUP BY kind")
    assert sum(row["y"] for row in points(bars)) == RIDES["type"].to_pylist().count("Request")


def test_a_single_number_needs_no_picture() -> None:
    assert drawn("RETURN COUNT(*) PATTERN Request") == []


def test_matches_are_timelines_of_their_events() -> None:
    text = "RETURN MATCHES(kind) PATTERN SEQ(Request R, Cancel C) WHERE [rider] WITHIN 1 min"
    found = drawn(text)
    rows = points(found[0])
    assert {row["event"] for row in rows} == {"R", "C"}
    assert all(row["after"] == 0 for row in rows if row["event"] == "R")
    assert rows[0]["attributes"].startswith("kind: ")


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_numeric_times_and_windows_of_events(unit: str) -> None:
    data = pa.table({"type": ["A", "B"] * 50, "ts": range(100)})
    assert drawn(f"RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 {unit} SLIDE 10 {unit}", data, time_unit=unit)
    assert drawn("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 EVENTS SLIDE 10 EVENTS", data)
    assert drawn("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 3 s", data)


def test_infinite_and_null_numbers_are_left_out_of_pictures() -> None:
    data = pa.table({"type": ["A"] * 3000, "ts": range(3000), "x": pa.nulls(3000, pa.float64())})
    text = "RETURN COUNT(*), SUM(A.x) PATTERN A+ WITHIN 2000 s SLIDE 500 s"
    said = " ".join(sentences(view(text, data)))
    assert "More than 1.8×10³⁰⁸ trends" in said
    assert "sum_A_x is null in every row." in said
    page = report_page(ran(text, data))
    assert "NaN" not in page.split("<script>")[0]


def test_the_comment_above_a_query_is_its_question() -> None:
    page = report_page(ran("-- How many\n-- requests?\nRETURN COUNT(*) PATTERN Request"))
    assert '<p class="question">How many requests?</p>' in page


def test_text_of_the_data_is_not_markup() -> None:
    data = pa.table(
        {"type": ["A"] * 4, "ts": [1, 2, 3, 4], "g": ["</script><script>alert(1)</script>", "b"] * 2}
    )
    page = report_page(ran("RETURN g, COUNT(*) PATTERN A GROUP BY g WITHIN 2 s SLIDE 2 s", data), "<i>")
    assert "<script>alert" not in page
    assert "<i>" not in page.split("</head>")[0]


def test_empty_rejected_and_failed_have_faces_of_their_own() -> None:
    empty = report_page(ran("RETURN COUNT(*) PATTERN Nothing"))
    assert "No trend of this pattern was found" in empty
    assert "trendfold why" in empty
    bad = pa.table({"type": ["A"], "ts": pa.array([None], pa.int64())})
    assert "No row could be read as an event" in report_page(ran("RETURN COUNT(*) PATTERN A", bad))
    page = failure_page(tf.parse("RETURN COUNT(*) PATTERN A").queries, InputError("no <such> column"))
    assert "The run failed" in page
    assert "no &lt;such&gt; column" in page


def test_a_million_rows_are_sampled_and_it_is_said() -> None:
    many = 1_000_000
    data = pa.table({"type": ["A"] * many, "ts": np.arange(many), "g": np.arange(many) % 7})
    result = ran("RETURN g, COUNT(*) PATTERN A GROUP BY g WITHIN 1 s SLIDE 1 s", data)
    assert result.summary.rows["q1"] == many
    page = report_page(result)
    assert "These are 1,000 of 1,000,000 rows: a sample, evenly over all of them." in page
    assert "A point is the mean of 4,167 windows" in page
    assert len(page) < 4_000_000


def test_a_chart_for_a_notebook() -> None:
    result = ran(
        "QUERY a RETURN COUNT(*) PATTERN A WITHIN 1 s SLIDE 1 s; QUERY b RETURN COUNT(*) PATTERN Request"
    )
    with pytest.raises(InputError, match="name one of a, b"):
        result.plot()
    assert "nothing to draw" in result.plot("a").to_json()
    assert ran("RETURN kind, COUNT(*) PATTERN Request GROUP BY kind WITHIN 2 s SLIDE 2 s").plot().to_dict()


def test_the_command_line_writes_a_report_even_of_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.tql").write_text("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 1 h", encoding="utf-8")
    (tmp_path / "e.csv").write_text("type,ts\n" + "A,1\n" * 9 + "B,2\n" * 9, encoding="utf-8")
    page = tmp_path / "pages" / "page.html"
    words = ["run", str(tmp_path / "q.tql"), "--input", str(tmp_path / "e.csv"), "--engine", "local"]
    assert main([*words, "--report", str(page)]) == 0
    assert "81 matches of the pattern." in page.read_text(encoding="utf-8")
    assert main([*words, "--report", str(page), "--limit", "matches=5"]) == 1
    assert "The run failed" in page.read_text(encoding="utf-8")
    assert main([*words, "--report", str(tmp_path / "e.csv")]) == 2
    assert "does not end in .html" in capsys.readouterr().err


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    ran("RETURN COUNT(*) PATTERN Request WITHIN 2 s SLIDE 2 s").report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"<link|@import|url\(|\bsrc=", own)
