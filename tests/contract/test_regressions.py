"""Disagreements with the oracle that were found once, and must not come back."""

from __future__ import annotations

import pyarrow as pa
import pytest

import oracle
import trendfold as tf


def events(types: str) -> list[dict[str, object]]:
    return [{"type": type_, "ts": i} for i, type_ in enumerate(types.split())]


@pytest.mark.parametrize("strategy", ["cogra", "greta"])
def test_a_not_guards_the_edge_that_skips_an_optional_part_behind_it(strategy: str) -> None:
    query = "RETURN COUNT(*) PATTERN SEQ(A, NOT N, SEQ(B?, C))"
    stream = events("A C N C B C A B C")
    rows = tf.parse(query).run(pa.Table.from_pylist(stream), strategy=strategy)["q1"].to_pylist()
    assert rows == oracle.rows(query, stream)
