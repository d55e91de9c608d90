"""Position automata: first, last, follow, and which edges a NOT guards."""

from __future__ import annotations

import random

import pytest

import trendfold
import workloads
from trendfold.automaton import END, START, Automaton, build
from trendfold.query.nodes import Both
from trendfold.testing import oracle


def automaton(pattern: str) -> Automaton:
    (query,) = trendfold.parse(f"RETURN COUNT(*) PATTERN {pattern}")
    return build(query.pattern)


def named(pattern: str) -> tuple[set[str], set[str], set[tuple[str, str]]]:
    """First, last and follow of a pattern whose types or aliases are all different."""
    found = automaton(pattern)
    name = {p.index: p.alias or p.type for p in found.positions}
    follow = {(name[p], name[q]) for p, q in found.edges if p != START and q != END}
    return {name[p] for p in found.first}, {name[p] for p in found.last}, follow


def pairs(text: str) -> set[tuple[str, str]]:
    return {(word[0], word[1]) for word in text.split()}


@pytest.mark.parametrize(
    ("pattern", "first", "last", "follow"),
    [
        ("A", "A", "A", ""),
        ("A+", "A", "A", "AA"),
        ("SEQ(A, B)", "A", "B", "AB"),
        ("SEQ(A, B, C)", "A", "C", "AB BC"),
        ("SEQ(A, B?, C)", "A", "C", "AB AC BC"),
        ("SEQ(A, B*, C)", "A", "C", "AB AC BB BC"),
        ("SEQ(A?, B?, C)", "ABC", "C", "AB AC BC"),
        ("SEQ(A, B?, C?)", "A", "ABC", "AB AC BC"),
        ("SEQ(A, B)+", "A", "B", "AB BA"),
        ("SEQ(A+, B)+", "A", "B", "AA AB BA"),
        ("SEQ(A?, B)+", "AB", "B", "AB BA BB"),
        ("OR(A, B)", "AB", "AB", ""),
        ("OR(A, SEQ(B, C))+", "AB", "AC", "BC AA AB CA CB"),
        ("SEQ(OR(A, B?), C)", "ABC", "C", "AC BC"),
        ("(A+)+", "A", "A", "AA"),
        ("SEQ(A, SEQ(B, C))", "A", "C", "AB BC"),
    ],
)
def test_first_last_and_follow(pattern: str, first: str, last: str, follow: str) -> None:
    assert named(pattern) == (set(first), set(last), pairs(follow))


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("A{1}", "A"),
        ("A{3}", "SEQ(A, A, A)"),
        ("A{2,}", "SEQ(A, A+)"),
        ("A{1,}", "A+"),
        ("A{1,3}", "SEQ(A, SEQ(A, A?)?)"),
        ("A{2,3}", "SEQ(A, A, A?)"),
        ("SEQ(A{0,2}, B)", "SEQ(SEQ(A, A?)?, B)"),
        ("SEQ(A{0,}, B)", "SEQ(A*, B)"),
        ("SEQ(A, B){2}", "SEQ(A, B, A, B)"),
        ("SEQ(B, A*)", "SEQ(B, (A+)?)"),
    ],
)
def test_a_repetition_is_written_out(short: str, long: str) -> None:
    assert automaton(short) == automaton(long)


def test_copies_share_their_alias_and_have_positions_of_their_own() -> None:
    found = automaton("A x{3}")
    assert [(p.index, p.type, p.alias) for p in found.positions] == [(i, "A", "x") for i in range(3)]
    assert found.called("x") == found.called("A") == {0, 1, 2}


def test_a_type_name_means_all_its_positions_and_an_alias_its_own() -> None:
    found = automaton("SEQ(A x, B, A y)")
    assert found.called("A") == {0, 2}
    assert found.called("x") == {0}
    assert found.called("nothing") == frozenset()


def test_sources_are_the_places_an_event_may_follow() -> None:
    found = automaton("SEQ(A?, B)+")
    assert found.sources(0) == (START, 1)
    assert found.sources(1) == (START, 0, 1)
    assert found.sources(END) == (1,)


# ---- NOT ------------------------------------------------------------------------------------------


def guarded(pattern: str) -> dict[str, set[str]]:
    """Per guard, by its own types: the edges that cross it, ⊥ and ⊤ for the window's ends."""
    found = automaton(pattern)
    name = {p.index: p.alias or p.type for p in found.positions} | {START: "⊥", END: "⊤"}
    result: dict[str, set[str]] = {}
    for (p, q), guard in found.guard_of.items():
        own = "".join(name[r] for r in found.guards[guard].positions)
        result.setdefault(own, set()).add(name[p] + name[q])
    return result


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("SEQ(A, B)", {}),
        ("SEQ(A, NOT N, B)", {"N": {"AB"}}),
        ("SEQ(A+, NOT N, B+)", {"N": {"AB"}}),
        ("SEQ(A, NOT N, B)+", {"N": {"AB"}}),
        ("SEQ(OR(A, B), NOT N, OR(C, D))", {"N": {"AC", "AD", "BC", "BD"}}),
        ("SEQ(NOT N, A)", {"N": {"⊥A"}}),
        ("SEQ(A, NOT N)", {"N": {"A⊤"}}),
        ("SEQ(NOT N, OR(A, B), NOT M)", {"N": {"⊥A", "⊥B"}, "M": {"A⊤", "B⊤"}}),
        ("SEQ(A, NOT SEQ(N, M), B)", {"NM": {"AB"}}),
        ("SEQ(A, NOT N, B, NOT M, C)", {"N": {"AB"}, "M": {"BC"}}),
        ("SEQ(A, NOT N, B, C?)", {"N": {"AB"}}),
    ],
)
def test_a_not_guards_the_edges_that_cross_its_place(pattern: str, expected: dict[str, set[str]]) -> None:
    assert guarded(pattern) == expected


def test_a_guard_has_its_own_first_last_and_edges() -> None:
    found = automaton("SEQ(A, NOT SEQ(N, OR(M, K)+), B)")
    (guard,) = found.guards
    name = {p.index: p.type for p in found.positions}
    assert {name[p] for p in guard.first} == {"N"}
    assert {name[p] for p in guard.last} == {"M", "K"}
    assert {name[p] + name[q] for p, q in guard.edges} == {"NM", "NK", "MM", "MK", "KM", "KK"}
    assert [p.type for p in found.positive] == ["A", "B"]


# ---- Against the oracle ---------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_random_patterns_have_the_oracles_automata(start: int) -> None:
    for seed in range(start, start + 100):
        text = workloads.random_case(random.Random(seed), both=True).query
        (query,) = trendfold.parse(text)
        patterns = query.pattern.parts if isinstance(query.pattern, Both) else (query.pattern,)
        meaning = oracle.Meaning(text)
        for pattern, expected in zip(patterns, meaning.operands, strict=True):
            found = build(pattern)
            number = dict(zip([p.index for p in found.positive], expected.own, strict=True))
            assert [p.type for p in found.positive] == [meaning.positions[p].name for p in expected.own]
            assert {number[p] for p in found.first} == expected.first, text
            assert {number[p] for p in found.last} == expected.last, text
            follow = {(number[p], number[q]) for p, q in found.edges if p != START and q != END}
            assert follow == {(p, q) for p, after in expected.follow.items() for q in after}, text
            crossing = {(number[p], number[q]) for p, q in found.guard_of if p != START and q != END}
            assert crossing == {pair for pair, some in expected.crossing.items() if some}, text


@pytest.mark.parametrize(
    ("pattern", "needed", "fewest"),
    [
        ("A+", "A", 1),
        ("SEQ(A, B+, C)", "ABC", 3),
        ("SEQ(A, B*, C)", "AC", 2),
        ("SEQ(A, OR(B, C), D)", "AD", 3),
        ("OR(A, SEQ(B, C))", "", 1),
        ("OR(SEQ(A, B), SEQ(C, D, E))+", "", 2),
        ("SEQ(A, NOT B, C)", "AC", 2),
        ("SEQ(NOT A, B{2,3}, NOT C)", "BB", 2),
        ("SEQ(A, B, A)", "ABA", 3),
    ],
)
def test_positions_that_every_trend_takes(pattern: str, needed: str, fewest: int) -> None:
    found = automaton(pattern)
    assert "".join(found.positions[p].type for p in sorted(found.needed)) == needed
    assert found.fewest == fewest
