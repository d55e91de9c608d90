"""Positions of several types, aliases over different types, and conditions on the type."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trendfold as tf
import workloads
from contract import engine, matching
from contract.test_machine_lanes import check as check_lanes
from contract.test_machine_lanes import random_workload
from contract.test_together import SCHEMA
from trendfold.errors import UnsupportedError
from trendfold.testing import oracle

SEEDS = st.integers(0, 2**40)
EVERYTHING = {"aggregates": True, "having": True, "both": True, "rejects": True}


@pytest.mark.parametrize("strategy", engine.STRATEGIES)
@engine.many(250)
@given(seed=SEEDS)
def test_sets_of_types_give_the_oracles_rows(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, sets=True, **EVERYTHING)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(150)
@given(seed=SEEDS)
def test_names_over_several_types_are_compared(strategy: str, seed: int) -> None:
    engine.check_seed(seed, strategy, sets=True, cross=True, neighbours=seed % 2 == 0, aggregates=True)


@pytest.mark.parametrize("strategy", ["auto", "construct"])
@engine.many(120)
@given(seed=SEEDS)
def test_matches_with_sets_of_types_are_the_oracles(strategy: str, seed: int) -> None:
    rng = random.Random(seed)
    features = {"cross": rng.random() < 0.6, "both": rng.random() < 0.4}
    case = workloads.random_case(rng, matches=True, sets=True, **features)
    matching.check(case, matching.run_with(strategy), f"seed {seed}")


def with_sets(text: str, rng: random.Random) -> str:
    """A query in which some types that no other clause names are sets."""
    head, pattern, rest = re.fullmatch(r"(.*PATTERN )(.*?)( SEMANTICS.*)", text).groups()
    free = [name for name in "ABCDF" if not re.search(rf"\b{name}\b", head + rest)]
    sets = {name: rng.choice(["ANY", "ANY(A, B)", f"ANY({name}, C)", f"ANY({name})"]) for name in free}
    return head + re.sub(r"\b[ABCDF]\b", lambda found: sets.get(found[0], found[0]), pattern) + rest


@engine.many(300)
@given(seed=SEEDS)
def test_queries_with_sets_are_lanes_beside_those_without(seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    texts = [with_sets(text, rng) if rng.random() < 0.7 else text for text in texts]
    check_lanes(texts, events, pa.Table.from_pylist(events, SCHEMA), order_column, in_bursts=seed % 3 > 0)


@pytest.mark.parametrize("strategy", ["hamlet", "gloria"])
@engine.many(100)
@given(seed=SEEDS)
def test_methods_that_share_types_fold_queries_with_sets_alone(strategy: str, seed: int) -> None:
    rng = random.Random(seed)
    texts, events, order_column = random_workload(rng)
    texts = [with_sets(text, rng) if rng.random() < 0.7 else text for text in texts]
    table = pa.Table.from_pylist(events, SCHEMA)
    found = tf.parse(";".join(texts)).run(table, strategy=strategy, order_column=order_column)
    for number, text in enumerate(texts):
        wanted = oracle.rows(text, events, order_column)
        assert engine.difference(found[f"w{number}"].to_pylist(), wanted, 0) is None, text


@engine.many(300)
@given(seed=SEEDS)
def test_sequences_of_sets_are_counted_by_aseq(seed: int) -> None:
    case = workloads.random_case(random.Random(seed), sets=True, aggregates=True)
    with suppress(UnsupportedError):  # what is no sequence, as without sets
        engine.check(case, "aseq", gaps={})


def test_a_sequence_of_sets_is_one_that_aseq_counts() -> None:
    table = pa.table({"type": ["A", "B", "C", "B", "D"], "ts": [1, 2, 3, 4, 5]})
    workload = tf.parse("RETURN COUNT(*) PATTERN SEQ(ANY(A, B) x, ANY, NOT ANY(C, X), ANY(B, D))")
    found = workload.run(table, strategy="aseq")["q1"].to_pylist()
    assert found == workload.run(table, strategy="construct")["q1"].to_pylist()
    assert found[0]["count"] == 6.0


def test_a_wildcard_is_a_condition_on_the_type() -> None:
    table = pa.table({"type": ["S", "W_a", "X", "W_b", "Wc", "D"], "ts": [1, 2, 3, 4, 5, 6]})
    workload = tf.parse(r"RETURN COUNT(*) PATTERN SEQ(S, ANY w+, D) WHERE w.type LIKE 'W\_%'")
    assert workload.run(table)["q1"].column("count").to_pylist() == [3.0]


def test_types_alike_are_one_kind_of_rows() -> None:
    # A thousand types beside ANY+ are as one: the alphabet does not grow with them.
    table = pa.table({"type": [f"T{i}" for i in range(1_000)] + ["A", "B"], "ts": list(range(1_002))})
    workload = tf.parse("RETURN LOG2(COUNT(*)) PATTERN SEQ(A, ANY) ; RETURN COUNT(*) PATTERN SEQ(ANY, A)")
    found = workload.run(table)
    assert found["q1"].column("log2_count").to_pylist() == [0.0]
    assert found["q2"].column("count").to_pylist() == [1_000.0]


def test_only_named_types_can_be_unseen() -> None:
    table = pa.table({"type": ["A", "B"], "ts": [1, 2]})
    found = tf.parse("RETURN COUNT(*) PATTERN SEQ(ANY, ANY(B, Bb) x)").run(table)
    assert [w for w in found.summary.warnings if "no event has the type" in w] == [
        "no event has the type 'Bb' of q1; did you mean 'B'?"
    ]
