"""GLORIA's template: states, their order, and what is shared of Kleene sub-patterns."""

from __future__ import annotations

from random import Random

import pytest

from sharing_plans import automata_of, random_kleene, random_sequences
from trendfold.papers.gloria.kleene import close, cuttings, cycles_of
from trendfold.papers.gloria.template import GloriaTemplate, bits, make_template


def template_of(*patterns: str) -> GloriaTemplate:
    return make_template(automata_of(patterns))


def test_figure_2_of_the_paper() -> None:
    template = template_of("SEQ(R, SEQ(P, T)+, D)", "SEQ(A, R, SEQ(P, T)+, D)", "SEQ(A, R, SEQ(P, T)+, C)")
    assert dict(template.transitions) == {
        ("A", "R"): 0b110,
        ("R", "P"): 0b111,
        ("P", "T"): 0b111,
        ("T", "P"): 0b111,
        ("T", "D"): 0b011,
        ("T", "C"): 0b100,
    }
    assert (template.starts, template.ends) == ({"R": 0b001, "A": 0b110}, {"D": 0b011, "C": 0b100})
    assert template.cycles == (("P", "T"),)


def test_a_type_that_stands_twice_has_two_states() -> None:
    template = template_of("SEQ(A, B, A)", "SEQ(B, A)")
    assert template.positions == (("A", "B", "A:2"), ("B", "A:2"))
    assert template.types == {"A": "A", "B": "B", "A:2": "A"}
    assert template.transitions["B", "A:2"] == 0b11


def test_types_in_two_orders_make_no_cycle() -> None:
    template = template_of("SEQ(A, B)", "SEQ(B, A)")
    assert template.cycles == ()
    assert template.positions == (("A", "B"), ("B", "A:2"))


def test_what_few_queries_have_is_copied_and_not_what_most_share() -> None:
    """Placed one by one, the second query would find Y behind B, and get copies of A and B."""
    template = template_of("SEQ(A, B, Y)", "SEQ(Y, A, B)", "SEQ(X, A, B)")
    assert template.transitions["A", "B"] == 0b111
    assert sorted(template.states) == ["A", "B", "X", "Y", "Y:2"]


def test_a_kleene_sub_pattern_is_shared_as_a_whole_or_not_at_all() -> None:
    template = template_of("SEQ(A, B)+", "SEQ(A, B)", "SEQ(SEQ(A, B)+, C)", "SEQ(A, B, C)+")
    assert template.transitions["A", "B"] == 0b0101
    assert template.transitions["A:2", "B:2"] == 0b0010
    assert template.transitions["A:3", "B:3"] == 0b1000


def test_states_are_in_an_order_in_which_sequences_run_forward() -> None:
    for seed in range(60):
        make = random_sequences if seed % 2 else random_kleene
        template = make_template(automata_of(make(Random(seed))))
        place = {state: i for i, state in enumerate(template.states)}
        inside = {state: cycle for cycle in template.cycles for state in cycle}
        for source, target in template.transitions:
            is_inner = source in inside and inside[source] == inside.get(target)
            assert is_inner or place[source] < place[target]


def test_options_and_alternatives_are_transitions_too() -> None:
    template = template_of("SEQ(A, B?, C | D)", "SEQ(A, C)")
    assert template.transitions["A", "C"] == 0b11
    assert template.transitions["A", "D"] == template.transitions["B", "C"] == 0b01


def test_neighbours_that_are_compared_differently_do_not_go_together() -> None:
    automata = automata_of(["SEQ(A, B, C)"] * 3)
    template = make_template(automata, lambda query, p, q: query > 1 and p == 0)
    assert template.alike == {("A", "B"): (0b011, 0b100)}


@pytest.mark.parametrize(
    ("wanted", "origins"),
    [
        ("C", {"C": "C", "A": "C", "B": "C", "D": "C"}),
        ("A", {"C": "C", "A": "A", "B": "A", "D": "A"}),
        ("B", {"C": "C", "A": "A", "B": "B", "D": "B"}),
        ("D", {"C": "C", "A": "C", "B": "C", "D": "D"}),
    ],
)
def test_where_expressions_cannot_be_carried_events_become_snapshots(
    wanted: str, origins: dict[str, str]
) -> None:
    """In SEQ(C, SEQ(A, B)+, D)+ trends begin at C, and A follows both C and B."""
    [cycle] = cycles_of(template_of("SEQ(C, SEQ(A, B)+, D)+", "SEQ(C, SEQ(A, B)+, D)+"))
    assert close(cycle, 0b11, [wanted]) == origins


def test_all_ways_to_cut_a_sub_pattern_begin_where_trends_do() -> None:
    [cycle] = cycles_of(template_of("SEQ(A, B)+", "SEQ(A, B)+"))
    found = [tuple(origins.values()) for origins in cuttings(cycle, 0b11)]
    assert sorted(found) == [("", "B"), ("A", ""), ("A", "A"), ("A", "B")]


def test_bits_are_numbers() -> None:
    assert list(bits(0b101001)) == [0, 3, 5]
