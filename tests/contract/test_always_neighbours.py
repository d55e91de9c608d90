"""A condition on two aliases that are always neighbours needs no NEXT, and changes no row."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine
from trendfold.automaton import build, split
from trendfold.automaton.predicates import about_neighbours
from trendfold.plan import plan_auto

SHAPES = {
    "SEQ(A a, B b)": "ab",
    "SEQ(A a, B b, C c)": "abc",
    "SEQ(A a, B b, C c, A d)": "abcd",
    "OR(SEQ(A a, B b), SEQ(B b, A a))": "ab",
    "OR(SEQ(A a, B b), SEQ(C a, D b, A c))": "abc",
    "OR(SEQ(A a, B b), C c)": "abc",
    "SEQ(A a, B?, C c)": "ac",
    "SEQ(A a, B b?, C c)": "abc",
    "SEQ(A a, B b+, C c)": "abc",
    "SEQ(A a, B b{1,2})": "ab",
    "SEQ(A a, A b)": "ab",
    "SEQ(A a, OR(B b, C c), D d)": "abcd",
    "SEQ(A a, B b)+": "ab",
    "SEQ(D d, SEQ(A a, B b)+)": "abd",
    "SEQ(A a, NOT C, B b, D d)": "abd",
    "SEQ(A a, NOT SEQ(B b, C c), D d)": "bc",
    "SEQ(NOT SEQ(B b, C c, B d), A a)": "bcd",
    "SEQ(A a, B b, NOT D)": "ab",
    "AND(SEQ(A a, B b), SEQ(C c, D d))": "ab",
    "SEQ(ANY(A, B) a, ANY b)": "ab",
}


def random_case(rng: random.Random) -> workloads.Case:
    pattern = rng.choice(list(SHAPES))
    one, other = rng.sample(SHAPES[pattern], 2)
    condition = rng.choice([
        f"{one}.v {rng.choice(workloads.SIGNS)} {other}.v", f"{one}.v + 1 > {other}.v OR {one}.k = {other}.k",
        f"{one}.v < {other}.v AND {other}.k != {one}.k", f"TIME({other}) - TIME({one}) <= 3 s",
        f"TIME({one}) < TIME({other})",
    ])  # fmt: skip
    group = rng.choice(["", "", "GROUP BY g"])
    asked = "COUNT(*), SUM(A.v) AS s" if "(A a" in pattern else "COUNT(*)"
    window = rng.choice(["", "WITHIN 9 s SLIDE 3 s", "WITHIN 6 s SLIDE 6 s", "WITHIN 5 s"])
    semantics = rng.choice(["any", "any", "contiguous", "next"])
    where = f"({condition})" if " OR " in condition else condition
    where += rng.choice(["", "", " AND [k]"])
    text = f"RETURN {'g, ' * bool(group)}{asked} PATTERN {pattern} SEMANTICS {semantics} WHERE {where}"
    events = [
        {"type": rng.choice("AABBCD"), "ts": i // 2 + rng.randint(0, 2), "k": rng.choice([1, 1, 2, None])}
        | {"g": rng.choice("xy"), "v": rng.choice([0, 1, 2, 3, None]), "w": 0.5, "s": ""}
        for i in range(rng.randint(0, 16))
    ]
    return workloads.Case(f"{text} {group} {window}", events, None)


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(400)
@given(seed=st.integers(0, 2**40))
def test_random_conditions_agree_with_the_oracle(strategy: str, seed: int) -> None:
    engine.check(random_case(random.Random(seed)), strategy, origin=f"seed {seed}")


def decided(text: str, semantics: str = "any") -> str:
    (query,) = tf.parse(f"RETURN COUNT(*) PATTERN {text} SEMANTICS {semantics}")
    automaton = build(query.pattern)
    found = about_neighbours(split(query, automaton), automaton, query.semantics)
    (kind,) = [name for name in ("adjacency", "cross", "idle") if getattr(found, name)]
    return kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SEQ(U, P, S) WHERE P.v != U.v", "adjacency"),
        ("SEQ(U, P, S) WHERE S.v != U.v", "cross"),
        ("SEQ(U, P+, S) WHERE P.v != U.v", "cross"),
        ("SEQ(U, P?, S) WHERE S.v != U.v", "cross"),
        ("SEQ(U, P?, S) WHERE P.v != U.v", "adjacency"),
        ("SEQ(U, P)+ WHERE P.v != U.v", "cross"),
        ("OR(SEQ(A a, B b), SEQ(B b, A a)) WHERE a.v < b.v", "adjacency"),
        ("OR(SEQ(A a, B b), SEQ(A a, C, B b)) WHERE a.v < b.v", "cross"),
        ("OR(SEQ(A a, B b), C c) WHERE c.v < b.v", "idle"),
        ("SEQ(A x, A) WHERE A.v < x.v", "adjacency"),
        ("SEQ(A a, B b{2}) WHERE a.v < b.v", "cross"),
        ("SEQ(A, NOT SEQ(B, C), D) WHERE B.v < C.v", "adjacency"),
        ("SEQ(A, NOT SEQ(B+, C), D) WHERE B.v < C.v", "cross"),
        ("AND(SEQ(A, B), C) WHERE A.v < B.v", None),
    ],
)
def test_which_conditions_compare_neighbours(text: str, kind: str | None) -> None:
    if kind is None:
        (query,) = tf.parse(f"RETURN COUNT(*) PATTERN {text}")
        assert not any(operand.machine.predicates.cross for operand in plan_auto(query).operands)
        return
    assert decided(text) == decided(text, "contiguous") == kind
    inside_a_not = kind == "adjacency" and "NOT" in text
    assert decided(text, "next") == ("cross" if kind == "adjacency" and not inside_a_not else kind)


def test_explain_says_so() -> None:
    told = str(tf.parse("RETURN COUNT(*) PATTERN SEQ(U, P, S) WHERE P.v != U.v").explain())
    assert "on 0 U → 1 P; without NEXT, because these are always" in told
    told = str(tf.parse("RETURN COUNT(*) PATTERN OR(U, SEQ(P, S)) WHERE P.v != U.v").explain())
    assert "never: no trend has both" in told
