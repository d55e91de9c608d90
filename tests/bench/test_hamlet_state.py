"""Bytes of state, counted by hand for a few events."""

from __future__ import annotations

import pyarrow as pa
import pytest

from trendfold.api import parse
from trendfold.bench import hamlet_bench
from trendfold.bench.flattened import flattened
from trendfold.bench.hamlet_state import NUMBER, fixed_state, greta_state, state
from trendfold.bench.harness import Report
from trendfold.bench.paper_claims import read_claims
from trendfold.papers.hamlet.kernel import ALWAYS

TWO = """
    QUERY a RETURN COUNT(*) PATTERN SEQ(A, B+);
    QUERY c RETURN COUNT(*) PATTERN SEQ(C, B+) WHERE B.v != 3
"""


def events(letters: str) -> pa.Table:
    return pa.table({"type": list(letters), "ts": range(len(letters)), "v": range(len(letters))})


def in_use(letters: str) -> int:
    return state(hamlet_bench._group(events(letters), parse(TWO).queries), ALWAYS)


def test_a_snapshot_is_a_number_for_each_query_and_the_largest_graphlet_counts() -> None:
    alike = in_use("ACB")
    assert in_use("ACBBB") == alike + 2 * NUMBER  # one query cannot take the second B
    assert in_use("ACBBBABABB") == in_use("ACBBB")


def test_events_and_steps_are_a_number_each() -> None:
    queries = parse("RETURN COUNT(*) PATTERN SEQ(A, B+)").queries
    assert greta_state(events("ABXB"), queries) == NUMBER * 3
    assert fixed_state(flattened(queries[0], 3)) == NUMBER * (2 + 3 + 4)


@pytest.mark.slow
def test_every_claim_about_memory_has_its_ratio() -> None:
    found = hamlet_bench.ratios(Report("hamlet", (), {}, {"seed": 0, "scale": 1.0}))
    assert {claim.measured for claim in read_claims() if claim.bench == "hamlet" and claim.measured} <= set(
        found
    )
    assert all(ratio > 1 for ratio in found.values())
