"""`explain`: fixtures hold a workload and, below a line of dashes, its text; the rest must say the same."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html import escape
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.api import Workload
from trendfold.explain import WIDTH, Explanation, describe, to_html, to_json, to_text

FIXTURES = sorted((Path(__file__).parent / "fixtures" / "explain").glob("*.tql"))
SEPARATOR = "\n---\n"
UPDATE = os.environ.get("TRENDFOLD_UPDATE_FIXTURES") == "1"

KLEENE = "QUERY k RETURN COUNT(*) PATTERN SEQ(A a+, B b) WITHIN 1 min SLIDE 1 min"
MATCHES = "QUERY m RETURN MATCHES PATTERN SEQ(A, B) WITHIN 1 min"


def read(path: Path) -> tuple[str, str]:
    text, _, expected = path.read_text(encoding="utf-8").partition(SEPARATOR)
    return text, expected


def workload(path: Path) -> Workload:
    return tf.parse(read(path)[0])


def value_of(text: str, strategy: str = "auto") -> dict:
    (only,) = to_json(tf.parse(text).explain(strategy).plans)["queries"]
    return only


def operand_of(text: str, strategy: str = "auto") -> dict:
    (only,) = value_of(text, strategy)["operands"]
    return only


def test_there_are_fixtures() -> None:
    assert len(FIXTURES) >= 12


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_text_is_the_fixture(path: Path) -> None:
    text, expected = read(path)
    shown = f"{tf.parse(text).explain()}\n"
    if UPDATE:
        path.write_text(text + SEPARATOR + shown, encoding="utf-8")
    else:
        assert shown == expected


@pytest.mark.parametrize("strategy", ["auto", "greta"])
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_lines_are_short_and_end_in_words(path: Path, strategy: str) -> None:
    for line in str(workload(path).explain(strategy)).splitlines():
        assert len(line) <= WIDTH
        assert line == line.rstrip()


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_value_is_plain_json(path: Path) -> None:
    plans = workload(path).explain().plans
    assert json.loads(json.dumps(to_json(plans))) == to_json(plans)
    assert json.loads(str(workload(path).explain(format="json"))) == to_json(plans)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_page_says_what_the_text_says(path: Path) -> None:
    plans = workload(path).explain().plans
    page = to_html(to_json(plans))
    for value in map(describe, plans):
        assert escape(value["text"]) in page
        assert escape(value.get("reason", "")) in page
        for operand in value.get("operands", ()):
            for grain in operand["grains"]:
                assert escape(grain["why"]) in page
                assert grain["why"] in " ".join(to_text(to_json(plans)).split())


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_page_is_well_formed_and_needs_nothing_else(path: Path) -> None:
    plans = workload(path).explain().plans
    page = to_html(to_json(plans))
    values = list(map(describe, plans))
    pictures = sum(len(value.get("operands", ())) + ("matches" in value) for value in values)
    assert page.count("<svg") == pictures + ("template" in to_json(plans))
    for sign in ("http:", "https:", "src=", "href=", "url(", "@import", "<script"):
        assert sign not in page
    assert "prefers-color-scheme:dark" in page
    for picture in page.split('<div class="picture">')[1:]:
        drawn = ET.fromstring(picture.partition("</div>")[0])
        assert drawn.attrib["viewBox"]
        assert drawn.findall(".//rect")


def test_guards_stand_on_the_edges_of_the_picture() -> None:
    page = to_html(to_json(tf.parse("RETURN COUNT(*) PATTERN SEQ(A, NOT N, B)").plan()))
    assert '<text class="not"' in page
    assert "0 A → 2 B\nNOT N</title>" in page


def test_whatever_is_written_is_escaped() -> None:
    text = (
        """QUERY "<b>&x" RETURN COUNT(*) PATTERN SEQ("<i>" a, NOT "<u>" u, B b) WHERE a."<s>" = '<script>'"""
    )
    page = to_html(to_json(tf.parse(text).plan()))
    for tag in ("<b>", "<i>", "<u>", "<s>", "<script>"):
        assert tag not in page
        assert escape(tag) in page


def test_the_picture_comes_first_with_a_legend() -> None:
    page = to_html(to_json(tf.parse("RETURN COUNT(*) PATTERN SEQ(A, NOT N, B)").plan()))
    assert page.index("<svg") < page.index("Point at a box") < page.index("<pre>")


TWO = "QUERY a RETURN COUNT(*) PATTERN SEQ(A, B+); QUERY b RETURN COUNT(*) PATTERN SEQ(A, B, C)"


def test_a_workload_has_a_template_of_all_its_queries() -> None:
    template = json.loads(str(tf.parse(TWO).explain(format="json")))["template"]
    assert template["types"] == ["A", "B", "C"]
    assert {(t["from"], t["to"]): t["queries"] for t in template["transitions"]} == {
        ("⊥", "A"): ["a", "b"],
        ("A", "B"): ["a", "b"],
        ("B", "B"): ["a"],
        ("B", "C"): ["b"],
        ("B", "⊤"): ["a"],
        ("C", "⊤"): ["b"],
    }
    assert [group["queries"] for group in template["together"]] == [["a", "b"]]
    alone = f"; QUERY c RETURN COUNT(*) PATTERN A WHERE [k]; {MATCHES}"
    template = json.loads(str(tf.parse(TWO + alone).explain(format="json")))["template"]
    assert [group["queries"] for group in template["together"]] == [["a", "b"], ["c"]]
    assert "template" not in json.loads(str(tf.parse(TWO.partition(";")[0]).explain(format="json")))


def test_the_template_is_drawn_with_the_queries_of_every_arrow() -> None:
    [drawn, *_] = re.findall(r"<svg.*?</svg>", str(tf.parse(TWO).explain(format="html")), re.DOTALL)
    root = ET.fromstring(drawn)
    titles = [title.text for title in root.iter("title")]
    assert "A → B: a, b" in titles
    assert "B → B: a" in titles
    shared = [g.get("class") for g in root.iter("g") if "common" in str(g.get("class")).split()]
    assert shared == ["edge common in-0 in-1"] * 2


@pytest.mark.parametrize("text", ["(SEQ(A, B) | SEQ(B, A))", "(SEQ(A, B?, C)+ | D)+", "AND(A+, SEQ(B, C))"])
def test_arrows_and_words_of_a_template_are_inside_its_picture(text: str) -> None:
    queries = tf.parse(
        f"QUERY a RETURN COUNT(*) PATTERN {text}; QUERY b RETURN COUNT(*) PATTERN SEQ(C, A, D)"
    )
    [drawn, *_] = re.findall(r"<svg.*?</svg>", str(queries.explain(format="html")), re.DOTALL)
    root = ET.fromstring(drawn)
    left, top, width, height = map(float, root.get("viewBox", "").split())
    for text_ in root.iter("text"):
        assert left < float(text_.get("x", "nan")) < left + width
        assert top < float(text_.get("y", "nan")) < top + height


def test_rows_and_time_stand_on_the_picture() -> None:
    events = pa.table({"type": ["A", "A", "B"], "ts": [1, 2, 3]})
    query = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B)")
    ran = str(query.explain(format="html", data=events, analyze=True))
    assert [re.sub(r"[\d.]+", "#", word) for word in re.findall('class="took".*?>(.*?)<', ran)] == [
        "# rows",
        "# s",
    ]
    planned = str(query.explain(format="html", data=events))
    assert re.findall('class="took".*?>(.*?)<', planned) == ["3 rows"]


def test_a_page_of_a_run_tells_who_shares_what_and_what_it_took() -> None:
    queries = tf.parse("QUERY a RETURN COUNT(*) PATTERN A+; QUERY b RETURN COUNT(*) PATTERN SEQ(A, B)")
    events = pa.table({"type": ["A", "A", "B"], "ts": [1, 2, 3]})
    page = str(queries.explain(format="html", data=events, analyze=True))
    assert "Who shares what" in page
    assert "<td>a, b</td>" in page
    assert "together with 1 other query" in page
    assert "Who shares what" not in str(queries.explain(format="html"))


# ---------------------------------------------------------------- one query does not fail the others


def test_a_query_without_a_plan_is_explained_by_the_reason() -> None:
    shown = tf.parse(f"{MATCHES}; {KLEENE}").explain("cogra")
    unplanned, planned = to_json(shown.plans)["queries"]
    assert "RETURN MATCHES" in unplanned["reason"]
    assert unplanned["text"].startswith("QUERY m")
    assert "operands" in planned
    assert "no plan     query 'm': RETURN MATCHES" in str(shown)
    assert "RETURN MATCHES" in shown._repr_html_()


# ---------------------------------------------------------------- RETURN MATCHES

SHARING = """QUERY a RETURN MATCHES PATTERN SEQ(A, B, C) WHERE A.v < B.v WITHIN 9 s;
QUERY b RETURN MATCHES PATTERN SEQ(A, B, NOT N, D x+) WHERE A.v < B.v WITHIN 9 s"""


def test_the_multitree_tells_who_shares_what() -> None:
    first, second = to_json(tf.parse(SHARING).explain().plans)["queries"]
    shared = [node for node in first["matches"]["nodes"] if node["shared_with"] == ["b"] and node["joins"]]
    assert [sorted(node["types"]) for node in shared] == [["A", "B"]]
    assert shared[0]["made"] is None
    (clause,) = second["matches"]["clauses"]
    assert [element["how"] for element in clause["elements"]][-1] == "first event joined, others walked"


def test_with_data_partial_matches_are_measured() -> None:
    events = pa.table({"type": list("ABCD") * 5, "ts": range(20), "v": range(20)})
    shown = tf.parse(SHARING).explain(data=events)
    first, _ = to_json(shown.plans)["queries"]
    root = first["matches"]["clauses"][0]["node"]
    (made,) = [node["made"] for node in first["matches"]["nodes"] if node["number"] == root]
    assert made == len(tf.parse(SHARING).run(events)["a"])
    assert f"{made} made" in str(shown)
    assert "shared with b" in shown._repr_html_()


def test_joins_are_written_with_the_aliases_of_their_query() -> None:
    text = """RETURN MATCHES PATTERN SEQ(A x, NOT N, B y, C z)
        WHERE x.v + 1 < z.v AND y.v IN (1, 2) AND y.v <= z.v WITHIN 5 events"""
    shown = tf.parse(text).explain()
    (query,) = to_json(shown.plans)["queries"]
    held = {word for node in query["matches"]["nodes"] for word in (*node["asked"], *node["guards"])}
    assert held == {"x.v + 1 < z.v", "y.v <= z.v", "NOT N"}
    assert {tuple(pair) for node in query["matches"]["nodes"] for pair in node["before"]} == {
        ("x", "y"), ("x", "z"), ("y", "z"),
    }  # fmt: skip
    assert "in one task" in str(shown)
    assert "overlapping in time" in str(tf.parse(MATCHES).explain())
    assert "shuffle key: k" in str(tf.parse("RETURN MATCHES PATTERN SEQ(A, B) WHERE [k]").explain())


def test_the_multitree_is_drawn() -> None:
    page = str(tf.parse(SHARING).explain(format="html"))
    _, first, second = page.split("<svg ")
    for drawn, boxes, shared in ((first, 5, 3), (second, 5, 3)):
        drawn = drawn.split("</svg>")[0]
        assert drawn.count("<rect") == boxes
        assert drawn.count("box shared") == shared  # A, B, and their join
        assert drawn.count("<path") == 4
    assert "A before B\nA.v &lt; B.v" in first


def test_boxes_of_a_drawing_do_not_overlap() -> None:
    queries = "; ".join(
        f"QUERY q{i} RETURN MATCHES PATTERN SEQ(A|B, C, D|E, {last}) WITHIN 9 s"
        for i, last in enumerate("FG")
    )
    page = str(tf.parse(queries).explain(format="html"))
    for drawn in page.split("<svg ")[1:]:
        boxes = [
            (float(x), float(y)) for x, y in re.findall(r'<rect class="[^"]*" x="(\d+)" y="(\d+)"', drawn)
        ]
        assert len(boxes) > 10
        assert all(a[0] != b[0] or abs(a[1] - b[1]) > 58 for a, b in combinations(boxes, 2))


def test_an_unknown_strategy_is_an_error() -> None:
    with pytest.raises(tf.UnsupportedError, match="unknown strategy 'fast'"):
        tf.parse(KLEENE).explain("fast")


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(tf.InputError, match="unknown format 'pdf'; choose one of text, json, html"):
        tf.parse(KLEENE).explain(format="pdf")


def test_an_explanation_prints_in_its_format_and_shows_in_a_notebook() -> None:
    queries = tf.parse(KLEENE)
    assert isinstance(queries.explain(), Explanation)
    assert repr(queries.explain()) == str(queries.explain()) == to_text(to_json(queries.plan()))
    assert str(queries.explain(format="html")).startswith("<!doctype html>")
    assert queries.explain()._repr_html_().startswith('<div class="trendfold">')


def test_construct_is_said_to_build_every_trend() -> None:
    (plan,) = tf.parse(KLEENE).plan()
    built = replace(plan, strategy="construct")
    text = to_text(to_json([built]))
    assert "construct  builds every trend, up to limits.trends" in text
    assert "builds trends" in text
    assert "<svg" in to_html(to_json([built]))


# ---------------------------------------------------------------- what the value says


@pytest.mark.parametrize(
    ("clause", "kind", "overlap"),
    [
        ("", "none", None),
        ("WITHIN 1 min", "per-event", None),
        ("WITHIN 1 min SLIDE 1 min", "tumbling", [1, 1]),
        ("WITHIN 1 min SLIDE 20 s", "sliding", [3, 3]),
        ("WITHIN 1 min SLIDE 25 s", "sliding", [2, 3]),
        ("WITHIN 1 min SLIDE 90 s", "sliding", [0, 1]),
        ("WITHIN 100 events SLIDE 40 events", "count", [2, 3]),
    ],
)
def test_every_kind_of_window_is_named(clause: str, kind: str, overlap: list[int] | None) -> None:
    window = value_of(f"RETURN COUNT(*) PATTERN A+ {clause}")["window"]
    assert window["kind"] == kind
    assert window.get("windows_per_event") == overlap


def test_a_pane_is_the_greatest_length_that_divides_both() -> None:
    window = value_of("RETURN COUNT(*) PATTERN A+ WITHIN 60 s SLIDE 25 s")["window"]
    assert (window["pane"], window["panes_per_window"]) == (5_000_000, 12)


def test_state_is_counted_in_bytes_and_does_not_grow_above_event_grain() -> None:
    state = operand_of("RETURN COUNT(*), SUM(a.x), MIN(a.x) PATTERN SEQ(A a+, B b)")["state"]
    assert (state["states"], state["numbers"], state["extremes"]) == (3, 3, 1)
    assert state["bytes"] == 3 * (3 * 12 + 8)
    assert not state["grows"]


def test_state_grows_where_every_binding_is_kept() -> None:
    state = operand_of("RETURN COUNT(*) PATTERN SEQ(A a+, B b) WHERE a.x < NEXT(a).x")["state"]
    assert state["kept_at"] == [0]
    assert state["grows"]


def test_state_grows_with_a_not_whose_own_events_are_compared() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(NOT SEQ(C c, D d), A) WHERE c.x < NEXT(d).x"
    operand = operand_of(text)
    assert operand["state"]["negated_kept_at"] == [0]
    assert operand["state"]["grows"]
    assert [c["cost"] for c in operand["cost"]] == ["O(1)", "O(bindings)", "O(1)", "none"]


def test_equalities_that_connect_all_aliases_are_partition_predicates() -> None:
    value = value_of("RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE a.u = b.u AND a.x > 1")
    assert value["partition"] == {"attributes": ["u"], "from": ["a.u = b.u"]}
    assert [p["text"] for p in value["operands"][0]["predicates"]["local"]] == ["a.x > 1"]


def test_a_neighbour_predicate_between_strangers_is_said_never_to_apply() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A a, B b, C c) WHERE a.x < NEXT(c).x"
    assert operand_of(text)["predicates"]["adjacency"] == [
        {"text": "a.x < NEXT(c).x", "edges": [], "always": False}
    ]
    assert "never: these positions are never adjacent" in str(tf.parse(text).explain())


def test_copies_of_a_not_keep_their_own_guards() -> None:
    operand = operand_of("RETURN COUNT(*) PATTERN SEQ(NOT X, SEQ(A, NOT N, B){2}, NOT Y)")
    assert [g["pattern"] for g in operand["guards"]] == ["X", "N", "N", "Y"]
    assert [g["where"] for g in operand["guards"]] == ["start", "middle", "middle", "end"]


def test_a_guard_may_be_judged_in_two_ways() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(OR(A a, B b), NOT N, C c) WHERE a.x < NEXT(c).x"
    (guard,) = operand_of(text)["guards"]
    assert [(way["how"], way["places"]) for way in guard["judged"]] == [
        ("by binding time", [0]),
        ("by class", [1]),
    ]


def test_long_names_and_big_patterns_stay_readable() -> None:
    name = "T" * 150
    many = ", ".join(f"E{i}" for i in range(120))
    queries = tf.parse(
        f"RETURN COUNT(*) PATTERN SEQ({name} a, {many}) WHERE a.x IN ({many.replace('E', '1')})"
    )
    assert max(map(len, str(queries.explain()).splitlines())) <= WIDTH
    assert "more; the JSON has them all" in str(queries.explain())
    assert "too many to draw" in str(queries.explain(format="html"))
