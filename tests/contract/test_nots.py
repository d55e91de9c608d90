"""Several NOTs side by side: a trend of any of them breaks."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine, matching
from trendfold.errors import UnsupportedError

SEEDS = st.integers(0, 2**40)


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(200)
@given(seed=SEEDS)
def test_several_nots_give_the_oracles_rows(strategy: str, seed: int) -> None:
    features = {"sets": seed % 3 == 0, "both": seed % 4 == 0, "times": seed % 5 == 0}
    engine.check_seed(seed, strategy, nots=True, aggregates=True, **features)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(100)
@given(seed=SEEDS)
def test_matches_with_several_nots_are_the_oracles(strategy: str, seed: int) -> None:
    case = workloads.random_case(random.Random(seed), matches=True, nots=True, cross=seed % 2 == 0)
    matching.check(case, matching.run_with(strategy), f"seed {seed}")


def test_aseq_refuses_a_sequence_among_them_by_the_name_of_the_clause() -> None:
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, NOT B, NOT SEQ(C, E), D)")
    with pytest.raises(UnsupportedError, match="PATTERN has a NOT of a pattern"):
        workload.run(pa.table({"type": ["A", "D"], "ts": [1, 2]}), strategy="aseq")


@pytest.mark.parametrize(("types", "count"), [("AD", [1.0]), ("ABD", []), ("ACD", []), ("AECAD", [1.0])])
def test_an_event_of_any_of_them_resets_aseqs_counts(types: str, count: list[float]) -> None:
    events = pa.table({"type": list(types), "ts": range(len(types))})
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, NOT B, NOT C, D)")
    assert workload.run(events, strategy="aseq")["q1"]["count"].to_pylist() == count


def test_explain_tells_of_nots_side_by_side_as_one() -> None:
    text = str(tf.parse("RETURN COUNT(*) PATTERN SEQ(NOT X, NOT Y, A, NOT B, NOT SEQ(C, D), E)").explain())
    assert "OR(X, Y)" in text
    assert "OR(B, SEQ(C, D))" in text


# ---- Conditions between a NOT and its neighbours ----------------------------------------------------

BREAKABLE = [
    ("SEQ(A a, NOT N n, B b)", ["na", "nb"]),
    ("SEQ(NOT N n, A a+)", ["na"]),
    ("SEQ(A a+, NOT N n, NOT M m, B b+)", ["na", "nb", "ma", "mb"]),
    ("SEQ(A a, NOT ANY(N, M) n)", ["na"]),
    ("SEQ(NOT N n, A a, NOT M m, OR(B b, C c)+, NOT N o)", ["na", "ma", "mb", "mc", "ob", "oc"]),
    ("(SEQ(A a, NOT N n, OR(B b, B c)))+", ["na", "nb", "nc"]),
    ("SEQ(A a{1,2}, NOT N n, SEQ(B b?, C c))", ["na", "nb", "nc"]),
    ("AND(SEQ(A a, NOT N n), SEQ(NOT M m, B b+))", ["na", "mb"]),
    ("SEQ(A a+, NOT SEQ(N, M), NOT N n, B b, NOT M m, NOT SEQ(M, N))", ["na", "nb", "mb"]),
    ("SEQ(A a+, NOT ANY n, ANY(A, B) b+)", ["na", "nb"]),
    ("SEQ(A a, NOT N n, A a)", ["na"]),
]
"""Patterns, and which of their NOTs' names can be compared with which of their neighbours'."""


def breakable_case(rng: random.Random, matches: bool) -> workloads.Case:
    """A case in which conditions between NOTs and neighbours often decide."""
    pattern, pairs = rng.choice(BREAKABLE)
    where = ["[k]"] * (rng.random() < 0.3)
    for n, a in rng.sample(pairs, min(len(pairs), rng.choice([1, 1, 2, 3]))):
        where.append(
            rng.choice(
                [
                    f"{n}.v {rng.choice(workloads.SIGNS)} {a}.v",
                    f"{a}.v {rng.choice(workloads.SIGNS)} {n}.w",
                    f"({n}.v + {a}.v > {rng.randint(1, 4)} OR {n}.w = {a}.w)",
                    f"ABS(TIME({a}) - TIME({n})) {rng.choice(workloads.SIGNS)} {rng.randint(1, 4)} s",
                ]
            )
        )
    if "a+" in pattern and rng.random() < 0.4:
        where.append("a.v <= NEXT(a).v")
    windows = ["", "WITHIN 9 s SLIDE 3 s", "WITHIN 6 s SLIDE 6 s", "WITHIN 7 s"]
    if not pattern.startswith("AND"):
        windows += ["WITHIN 6 s EVERY 4 s", "WITHIN 5 s ONCE"]
    clauses = [f"SEMANTICS {rng.choice(['any', 'any', 'next', 'contiguous'])}"]
    clauses += [rng.choice(["", "WITHIN 6 s"] if matches else windows)]
    clauses += ["GROUP BY " + rng.choice(["g", "k", "a.g"])] * (rng.random() < 0.4)
    aggregates = ["COUNT(*)", "COUNT(*), SUM(a.v)", "COUNT(*), MAX(a.w), AVG(a.v)"]
    returned = "MATCHES(v)" if matches else rng.choice(aggregates)
    text = "\n".join([f"RETURN {returned}", f"PATTERN {pattern}", "WHERE " + " AND ".join(where), *clauses])
    return workloads.Case(text, _breaking_events(rng, 8 if "ANY n," in pattern else 11), None)


def _breaking_events(rng: random.Random, most: int) -> list[dict]:
    time, found = 0, []
    for _ in range(rng.randint(4, most)):
        time += rng.choice([0, 1, 1, 1, 2])
        given = {"type": rng.choice("AABBCNNM"), "ts": time, "k": rng.choice([1, 1, 1, 2])}
        values = {"v": rng.choice([0, 1, 2, 3, None]), "w": rng.choice([0.0, 1.0, 2.0, 3.0])}
        found.append({**given, "g": rng.choice("xxy"), **values, "s": "x"})
    return found


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(200)
@given(seed=SEEDS)
def test_conditions_often_decide_and_the_rows_are_the_oracles(strategy: str, seed: int) -> None:
    engine.check(breakable_case(random.Random(seed), matches=False), strategy, origin=f"seed {seed}")


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(200)
@given(seed=SEEDS)
def test_conditions_often_decide_and_the_matches_are_the_oracles(strategy: str, seed: int) -> None:
    case = breakable_case(random.Random(seed), matches=True)
    matching.check(case, matching.run_with(strategy), f"seed {seed}")


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(150)
@given(seed=SEEDS)
def test_conditions_beside_a_not_give_the_oracles_rows(strategy: str, seed: int) -> None:
    features = {"sets": seed % 3 == 0, "both": seed % 4 == 0, "neighbours": seed % 5 == 0}
    engine.check_seed(seed, strategy, nots=seed % 2 == 0, beside=True, aggregates=True, **features)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(150)
@given(seed=SEEDS)
def test_matches_with_conditions_beside_a_not_are_the_oracles(strategy: str, seed: int) -> None:
    features = {"cross": seed % 2 == 0, "sets": seed % 3 == 0, "both": seed % 5 == 0}
    case = workloads.random_case(random.Random(seed), matches=True, nots=True, beside=True, **features)
    matching.check(case, matching.run_with(strategy), f"seed {seed}")


BESIDE = {
    "WHERE N.v > b.v": "'b' is never next to the NOT of 'N'",
    "WHERE N.v > NEXT(a).v": "NEXT compares 'N', which is negated, with 'a', which is not",
    "WHERE NEXT(N).v > a.v": "NEXT compares 'N', which is negated, with 'a', which is not",
    "WHERE M.v > a.v": "the NOT of 'M' is a pattern, so a condition cannot compare it with 'a'",
    "WHERE A.v > N.v": "'A' refers to both negated and positive events",
}


@pytest.mark.parametrize("where", BESIDE)
def test_a_condition_that_no_not_can_judge_is_an_error(where: str) -> None:
    text = f"RETURN COUNT(*) PATTERN SEQ(A a, NOT N, NOT SEQ(M, M), A c, B b, NOT A d) {where}"
    with pytest.raises(tf.QueryError, match=BESIDE[where]):
        tf.parse(text)


@pytest.mark.parametrize("kind", ["COUNT(*)", "MATCHES"])
def test_an_equality_with_a_not_is_no_partition(kind: str) -> None:
    rows = [("A", 1, 1), ("N", 2, 2), ("A", 5, 1), ("N", 6, 1)]
    types, times, values = zip(*rows, strict=True)
    events = pa.table({"type": types, "ts": times, "v": values})
    text = f"RETURN {kind} PATTERN SEQ(A, NOT N) WHERE A.v = N.v WITHIN 4 s"
    found = tf.parse(text + (" SLIDE 4 s" if kind == "COUNT(*)" else "")).run(events)["q1"].to_pylist()
    assert len(found) == 1


def test_an_equality_of_all_events_hides_others_from_a_not_and_one_of_neighbours_does_not() -> None:
    events = pa.table({"type": ["Request", "Cancel", "Pickup"], "ts": [1, 2, 3], "rider": [1, 2, 1]})
    text = "RETURN COUNT(*) PATTERN SEQ(Request R, NOT Cancel, Pickup P) WHERE R.rider = "
    own, anyone = (tf.parse(text + other).run(events)["q1"] for other in ("P.rider", "NEXT(P).rider"))
    assert (own.num_rows, anyone.num_rows) == (1, 0)


def test_a_not_alone_in_an_and_is_an_error_that_says_so() -> None:
    with pytest.raises(tf.QueryError, match="NOT is an operand of AND, which combines events"):
        tf.parse("RETURN MATCHES PATTERN AND(NOT N, B)")


# ---- AND beside NOT --------------------------------------------------------------------------------


def test_a_not_after_an_and_is_after_all_of_its_events() -> None:
    rows = [("B", 1), ("A", 2), ("C", 3), ("D", 4), ("C", 5)]
    events = pa.table({"type": [t for t, _ in rows], "ts": [t for _, t in rows]})
    text = "RETURN MATCHES PATTERN SEQ(AND(A, B, C), NOT D) WITHIN 10 s"
    (match,) = tf.parse(text).run(events)["q1"].to_pylist()
    assert (match["start"], match["end"]) == (1, 5)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(150)
@given(seed=SEEDS)
def test_and_beside_not_gives_the_oracles_matches(strategy: str, seed: int) -> None:
    case = matching.beside_case(random.Random(seed))
    matching.check(case, matching.run_with(strategy), f"seed {seed}")


def test_explain_tells_how_a_not_with_conditions_is_judged() -> None:
    pattern = "SEQ(NOT M m, A a, NOT N n, B b, NOT M o)"
    where = "n.v > a.v AND n.v != b.v AND m.v > a.v AND o.v = b.v"
    text = str(tf.parse(f"RETURN COUNT(*) PATTERN {pattern} WHERE {where}").explain())
    assert "⊥ → 1 a    if no m before it that meets its conditions" in text
    assert "beside NOT  n.v != b.v" in text
    assert "by moments" in text
