"""A-Seq gives the oracle's rows on random workloads of sequences, however they share their counters."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import trendfold as tf
from contract import engine, sequences
from contract.engine import difference, many
from contract.sequences import Workload
from trendfold.errors import UnsupportedError
from trendfold.plan import prefix, workload
from trendfold.plan.aseq import line_of
from trendfold.plan.prefix import share_prefixes

SEEDS = st.integers(0, 2**40)
TYPES = {"type": pa.string(), "ts": pa.int64(), "k": pa.int64(), "g": pa.string(), "v": pa.int64()}


def to_table(case: Workload) -> pa.Table:
    types = TYPES | {"w": pa.float64()} | ({"seq": pa.int64()} if case.order_column else {})
    return pa.table({name: pa.array([e[name] for e in case.events], type_) for name, type_ in types.items()})


def wrong(case: Workload) -> str | None:
    """What is wrong with the answer to a workload, or None."""
    asked = tf.parse(";\n".join(case.queries))
    result = asked.run(to_table(case), strategy="aseq", engine="local", order_column=case.order_column)
    for query, text in zip(asked, case.queries, strict=True):
        assert result.summary.strategy[query.name] == "aseq"
        expected = oracle.rows(text, case.events, case.order_column)
        problem = difference(result[query.name].to_pylist(), expected, 2 + len(query.group_by))
        if problem:
            return f"{query.name}: {problem}"
    return None


def check(seed: int) -> None:
    """Fail, with a smaller workload, unless the rows are the oracle's."""
    case = sequences.random_workload(random.Random(seed))
    if wrong(case) is None:
        return
    shrinking = True
    while shrinking:
        shrinking = False
        smaller = [
            case._replace(queries=case.queries[:i] + case.queries[i + 1 :]) for i in range(len(case.queries))
        ]
        smaller += [
            case._replace(events=case.events[:i] + case.events[i + 1 :]) for i in range(len(case.events))
        ]
        for candidate in smaller:
            if candidate.queries and wrong(candidate) is not None:
                case, shrinking = candidate, True
                break
    queries = ";\n".join(case.queries)
    raise AssertionError(f"seed {seed}: {wrong(case)}\n{queries}\n{case.events!r}\n{case.order_column!r}")


@many(300)
@given(seed=SEEDS)
def test_workloads_of_sequences_give_the_oracles_rows(seed: int) -> None:
    check(seed)


@many(250)
@given(seed=SEEDS)
def test_lines_may_be_chopped_in_windows_of_any_kind(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            workload, "share_lines", lambda plans: share_prefixes([*map(line_of, plans)], chops=True)
        )
        check(seed)


@many(350)
@given(seed=SEEDS)
def test_lines_may_be_chopped_anywhere(seed: int) -> None:
    def chop(lines: dict[int, prefix.Line]) -> prefix.Cuts:
        rng = random.Random(seed)
        return {
            member: tuple(i for i in range(1, len(line.steps)) if line.opening is None and rng.random() < 0.5)
            for member, line in lines.items()
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix, "chop", chop)
        patch.setattr(
            workload, "share_lines", lambda plans: share_prefixes([*map(line_of, plans)], chops=True)
        )
        patch.setattr("trendfold.runtime.prefix.is_wide", lambda *_: seed % 2 == 0)
        check(seed)


@many(100)
@given(seed=SEEDS)
def test_wide_numbers_give_the_same_rows(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trendfold.runtime.prefix.is_wide", lambda *_: True)
        check(seed)
