"""The merged template: every type once, transitions labelled with the queries they hold for."""

from __future__ import annotations

import trendfold
from trendfold.automaton import build
from trendfold.automaton.merge import Template, merge


def template(*patterns: str) -> Template:
    texts = [f"QUERY n{i} RETURN COUNT(*) PATTERN {pattern}" for i, pattern in enumerate(patterns)]
    return merge([build(query.pattern) for query in trendfold.parse("; ".join(texts))])


def labels(merged: Template) -> dict[str, set[int]]:
    return {f"{t.source}{t.target}": set(t.queries) for t in merged.transitions}


def test_figure_3b_of_hamlet() -> None:
    merged = template("SEQ(A, B+)", "SEQ(C, B+)")
    assert merged.types == ("A", "B", "C")
    assert labels(merged) == {"⊥A": {0}, "⊥C": {1}, "AB": {0}, "BB": {0, 1}, "B⊤": {0, 1}, "CB": {1}}


def test_a_type_that_stands_twice_is_there_once() -> None:
    merged = template("SEQ(A, B, A)")
    assert merged.types == ("A", "B")
    assert labels(merged) == {"⊥A": {0}, "AB": {0}, "A⊤": {0}, "BA": {0}}


def test_nested_kleene_leads_back() -> None:
    assert labels(template("SEQ(A+, B)+"))["BA"] == {0}


def test_negated_types_are_no_part_of_trends() -> None:
    assert template("SEQ(A+, NOT N, B)").types == ("A", "B")
