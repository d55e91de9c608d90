"""`explain` of queries that are folded together: groups, pairs, panes, the merged template, and reasons."""

from __future__ import annotations

import json

import pytest

import trendfold as tf
from trendfold.explain import to_json

WORKLOAD = """
q1: RETURN COUNT(*) PATTERN SEQ(A, B+) WITHIN 10 min SLIDE 5 min;
q2: RETURN COUNT(*), SUM(B.x) PATTERN SEQ(C, B+) WITHIN 15 min SLIDE 5 min;
q3: RETURN AVG(B.x) PATTERN SEQ(D, B+);
q4: RETURN COUNT(*) PATTERN B+ SEMANTICS next;
q5: RETURN MATCHES PATTERN SEQ(A, B) WITHIN 5 s
"""


def queries(strategy: str) -> dict[str, dict]:
    shown = json.loads(str(tf.parse(WORKLOAD).explain(strategy, "json")))
    return {each["query"]: each for each in shown["queries"]}


@pytest.mark.parametrize("strategy", ["hamlet", "hamlet-static"])
def test_every_pair_of_a_group_says_what_is_shared(strategy: str) -> None:
    found = queries(strategy)
    assert [found[name]["strategy"] for name in ("q1", "q2", "q3", "q4")] == [strategy] * 3 + ["cogra"]
    assert [
        (each["query"], each["types"], each["aggregates"]) for each in found["q2"]["sharing"]["with"]
    ] == [
        ("q1", ["B"], ["COUNT(*)"]),
        ("q3", ["B"], ["SUM(B.x)"]),
    ]
    [nothing] = [each for each in found["q1"]["sharing"]["with"] if each["query"] == "q3"]
    assert nothing["why_not"] == "no aggregate in common, although both have B+"


def test_the_template_and_the_panes_are_there() -> None:
    sharing = queries("hamlet")["q1"]["sharing"]
    assert sharing["pane"] == 300_000_000
    assert {"from": "B", "to": "B", "queries": ["q1", "q2", "q3"]} in sharing["template"]
    assert sharing["sub_patterns"] == [{"type": "B", "queries": ["q1", "q2", "q3"]}]


def test_a_query_outside_says_why() -> None:
    found = queries("hamlet")
    assert "consume the bindings they continue" in found["q4"]["sharing"]["alone"]
    assert "MATCHES" in found["q5"]["reason"]
    assert queries("cogra")["q1"]["sharing"] == {}


def test_text_and_page_tell_the_same() -> None:
    text, page = (str(tf.parse(WORKLOAD).explain("hamlet", format)) for format in ("text", "html"))
    told = (
        "gcd of all window lengths and slides",
        "no aggregate in common",
        "consume the bindings they continue",
    )
    for words in told:
        assert words in " ".join(text.split())
        assert words in page


def test_an_unknown_strategy_is_told_with_all_that_are_known() -> None:
    with pytest.raises(tf.errors.UnsupportedError, match="greta, cogra, mcep, spass, motto, hamlet"):
        tf.parse("RETURN COUNT(*) PATTERN A").explain("hamlett")


def test_auto_tells_who_are_lanes_together_and_why_others_are_alone() -> None:
    workload = tf.parse(
        "QUERY a RETURN COUNT(*) PATTERN SEQ(A, B+, C); QUERY b RETURN COUNT(*) PATTERN SEQ(D, B+, E);"
        "QUERY c RETURN SUM(B.x) PATTERN B+; QUERY d RETURN COUNT(*) PATTERN SEQ(A, NOT C, B);"
        "QUERY e RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [u];"
        "QUERY f RETURN COUNT(*) PATTERN A+ SEMANTICS next;"
        "QUERY g RETURN COUNT(*) PATTERN B+ WHERE B.x < NEXT(B).x"
    )
    a, b, c, d, e, f, g = to_json(workload.plan())["queries"]
    assert a["together"] == [
        "one pass over rows sorted once; a burst of equal events is applied once for all queries",
        "b: same shape: lanes side by side",
        "c: different shape: a block of its own",
        "d: different shape: a block of its own",
        "f: different shape: a block of its own",
    ]
    assert b["together"][1] == "a: same shape: lanes side by side"
    assert c["sharing"] == {}
    assert f["together"][1] == "a: different shape: a block of its own"
    assert d["together"][-1] == "f: different shape: a block of its own"
    told = "no other query compares neighbours alike in the same windows, partitions and groups"
    assert g["sharing"] == {"alone": told}
    assert e["sharing"] == {"alone": "no other query that fits into lanes has the same partitions and groups"}
