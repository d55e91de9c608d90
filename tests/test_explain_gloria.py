"""`explain` of GLORIA's plans: the chosen path, its weights, what else there was, and the gain."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

import trendfold as tf

WORKLOAD = """
q1: RETURN COUNT(*) PATTERN SEQ(F, A, B, C, D) WITHIN 10 min SLIDE 5 min;
q2: RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B, C, D) WITHIN 10 min SLIDE 10 min;
q3: RETURN COUNT(*) PATTERN SEQ(E, C, D);
q4: RETURN COUNT(*) PATTERN SEQ(C, D) SEMANTICS next
"""
KLEENE = "; ".join(f"QUERY k{i} RETURN COUNT(*) PATTERN SEQ(SEQ(A, B, C)+, D)" for i in range(9))


def queries(text: str, strategy: str = "gloria") -> dict[str, dict]:
    shown = json.loads(str(tf.parse(text).explain(strategy, "json")))
    return {each["query"]: each for each in shown["queries"]}


def test_every_transition_of_a_query_says_who_goes_together_with_which_snapshots() -> None:
    sharing = queries(WORKLOAD)["q1"]["sharing"]
    assert [pool["transitions"] for pool in sharing["path"]] == [
        [[a, b]] for a, b in ("FA", "AB", "BC", "CD")
    ]
    assert sharing["path"][-1]["sets"] == [
        {"queries": ["q1", "q2"], "snapshot": "A"},
        {"queries": ["q3"], "snapshot": ""},
    ]


def test_weights_add_up_to_the_cost_with_what_beginnings_cost() -> None:
    found = queries(WORKLOAD)
    pools = {
        str(p["transitions"]): p["weight"] for q in ("q1", "q2", "q3") for p in found[q]["sharing"]["path"]
    }
    sharing = found["q1"]["sharing"]
    assert sum(pools.values()) + 3 * 100 == sharing["cost"] < sharing["cost_alone"]


def test_alternatives_are_there_with_those_that_were_pruned() -> None:
    third = queries(WORKLOAD)["q2"]["sharing"]["path"][1]
    assert [(other["sets"][0]["snapshot"], other["pruned"]) for other in third["others"]] == [
        ("", False),
        ("B", True),
    ]
    assert not any(
        other["pruned"]
        for pool in queries(WORKLOAD, "gloria-noprune")["q1"]["sharing"]["path"]
        for other in pool["others"]
    )


@pytest.mark.parametrize("format", ["text", "html"])
def test_text_and_page_tell_the_path_and_the_gain(format: str) -> None:
    shown = " ".join(str(tf.parse(WORKLOAD).explain("gloria", format)).split())
    for words in (
        "(q1, q2)^A, (q3)",
        "1.28 times cheaper than 90,300",
        "pruned",
        "consume the bindings they continue",
    ):
        assert words in shown


def test_a_kleene_sub_pattern_is_one_step_of_the_path() -> None:
    shown = str(tf.parse(KLEENE).explain("gloria", "html"))
    assert "(A, B, C)+" in shown
    assert "(k0, k1, k2, k3, k4, k5, and 3 more)^A" in shown


def test_the_drawing_is_well_formed_with_a_box_per_node() -> None:
    page = str(tf.parse(WORKLOAD).explain("gloria", "html"))
    drawn = re.findall(r"<svg.*?</svg>", page, re.S)
    path, *_ = (each for each in drawn if "the path through the GLORIA graph" in each)
    root = ElementTree.fromstring(path)
    boxes = [rect.get("class") for rect in root.iter("rect")]
    assert (boxes.count("chosen"), boxes.count("pruned")) == (4, 2)
