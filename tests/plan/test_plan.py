"""Plans: what no strategy can plan, and that large patterns are planned in time."""

from __future__ import annotations

import time

import pytest

import trendfold as tf
from trendfold.errors import UnsupportedError
from trendfold.plan import PLANNERS, plan

FINDERS = {"auto", "mcep", "spass", "motto", "construct"}


@pytest.mark.parametrize("strategy", sorted(PLANNERS.keys() - FINDERS))
@pytest.mark.parametrize("pattern", ["SEQ(A, B+)", "SEQ(A, AND(B, C))", "AND(SEQ(A, B), C)"])
def test_matches_are_refused_before_anything_is_built(pattern: str, strategy: str) -> None:
    (query,) = tf.parse(f"QUERY late RETURN MATCHES PATTERN {pattern} WITHIN 5 s")
    with pytest.raises(UnsupportedError, match="'late': RETURN MATCHES needs trends"):
        plan(query, strategy)


@pytest.mark.parametrize("strategy", sorted(FINDERS))
def test_a_pattern_with_and_inside_has_all_its_positions(strategy: str) -> None:
    (query,) = tf.parse("RETURN MATCHES PATTERN SEQ(A, AND(B, SEQ(C, NOT N, D+)), E)")
    (operand,) = plan(query, strategy).operands
    assert [p.type for p in operand.machine.automaton.positions] == ["A", "B", "C", "N", "D", "E"]


def test_an_unknown_strategy_is_told_with_the_known_ones() -> None:
    (query,) = tf.parse("RETURN COUNT(*) PATTERN A")
    with pytest.raises(UnsupportedError, match="unknown strategy 'fast'; choose one of auto, "):
        plan(query, "fast")


def many(types: int, letter: str) -> str:
    return f"OR({', '.join(f'{letter}{i}' for i in range(types))})+"


@pytest.mark.parametrize(
    "pattern",
    [
        many(150, "A"),
        f"SEQ({many(150, 'A')}, NOT N, {many(150, 'B')})",
        f"SEQ({', '.join(f'A{i}, NOT N{i}' for i in range(250))}, Z)",
        f"SEQ(A, {', '.join(f'B{i}?' for i in range(150))})",
    ],
    ids=["or", "or and not", "many nots", "options"],
)
def test_the_time_to_plan_follows_the_number_of_edges(pattern: str) -> None:
    (query,) = tf.parse(f"RETURN COUNT(*) PATTERN {pattern}")
    started = time.process_time()
    [operand] = plan(query).operands
    machine = operand.machine
    for position in machine.automaton.positions:
        machine.steps(frozenset({position.index}))
    # Some hundredths of a second per pattern; a search through all edges at every edge took minutes.
    assert time.process_time() - started < 5
    assert len(machine.states) > 150
