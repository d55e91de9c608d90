"""Plans of trends of bounded span: ⊤ fades, and the NOTs at the ends are left to the windows."""

from __future__ import annotations

import pytest

import trendfold as tf
from trendfold.automaton.glushkov import END, START
from trendfold.plan.overlap import Sharing


def plan_of(pattern: str, more: str = "") -> tuple:
    (plan,) = tf.parse(f"RETURN COUNT(*) PATTERN {pattern} {more} WITHIN 5 s EVERY 1 min").plan()
    return plan, plan.operands[0]


def test_what_has_ended_lasts_for_a_moment() -> None:
    _, operand = plan_of("SEQ(A, B+)")
    assert operand.machine.fades(END)
    assert not operand.machine.fades(START)
    assert not operand.machine.fades(0)


def test_nots_at_the_ends_split_no_mass() -> None:
    _, operand = plan_of("SEQ(NOT N, A, NOT M, B, NOT N)")
    assert operand.machine.end_guards == (0, 1) or None not in operand.machine.end_guards
    assert operand.machine.guard_at(START) is None
    assert operand.machine.guard_at(END) is None
    assert operand.machine.guard_at(1) is not None


@pytest.mark.parametrize(
    ("more", "shared"), [("", Sharing.STRETCHES), ("WHERE A.v < NEXT(B).v", Sharing.NOTHING)]
)
def test_moments_share_stretches_unless_neighbours_are_compared(more: str, shared: Sharing) -> None:
    plan, operand = plan_of("SEQ(A, B+)", more)
    assert plan.sharing(operand) is shared


def test_explain_says_how_trends_are_counted_once() -> None:
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B+, NOT C) WITHIN 1 h EVERY 1 d")
    told = " ".join(str(workload.explain()).split())
    assert "a trend shorter than 1 h counts once, in the period of 1 d that holds its last event" in told
    assert "what ends at t is counted in (t - w, t]" in told
    assert "decides, by its latest start, at which moments a trend may end" in told
    once = tf.parse("RETURN COUNT(*) PATTERN A WITHIN 1 h ONCE")
    assert "counts once, in the only row" in str(once.explain())
