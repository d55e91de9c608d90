"""Partial matches follow the window: more events need no more memory; LIMIT ends where it is reached."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pytest

import trendfold as tf
from stream.simulation import simulate
from trendfold.detect import evaluate
from trendfold.detect.adapt import Adapting
from trendfold.detect.evaluate import JoinCounts, PartialMatchError, detect_in_batches
from trendfold.detect.joint_queries import joint_queries
from trendfold.errors import LimitError
from trendfold.events.batch import read_batch
from trendfold.events.options import Options
from trendfold.runtime.find_matches import plan_joins, read_detection_input
from trendfold.runtime.limits import Limits
from trendfold.runtime.whole_matches import MatchBindings, QueryMatches
from trendfold.runtime.workspace import Workspace

LIMITED = "RETURN MATCHES PATTERN SEQ(T0 a, T1 b) WHERE a.x < b.x WITHIN 9 s LIMIT 5"
QUERIES = """
QUERY a RETURN MATCHES PATTERN SEQ(T0 a, T1 b, T2 c) WHERE a.x < c.x WITHIN {w};
QUERY b RETURN MATCHES PATTERN SEQ(T0 a, T1 b, NOT T4, T3 d) WHERE a.x < d.x WITHIN {w};
QUERY c RETURN MATCHES PATTERN AND(T1 b, T2 c, T3 d) WHERE b.x < c.x AND c.x < d.x WITHIN {w}
"""


def counted(events: int, window: str, queries: str = QUERIES) -> JoinCounts:
    rng = np.random.default_rng(7)
    types = pa.array([f"T{i}" for i in rng.integers(0, 5, events)]).dictionary_encode()
    table = pa.table({"type": types, "ts": np.arange(events), "x": rng.normal(size=events)})
    workspace = Workspace(read_batch(table, Options()))
    (joint,) = joint_queries(tf.parse(queries.format(w=window)).plan())
    counts = JoinCounts()
    plan_joins(read_detection_input(joint, workspace, Limits())).run(
        Limits(matches=2**40), counts, Adapting(looks_after=256)
    )
    return counts


@pytest.mark.compiled
@pytest.mark.parametrize("unit", ["s", "events"])
def test_partial_matches_do_not_grow_with_the_stream(unit: str) -> None:
    once, four = counted(40_000, f"20 {unit}"), counted(160_000, f"20 {unit}")
    assert sum(four.made.values()) > 3 * sum(once.made.values())
    assert 0 < four.most_kept < 2 * once.most_kept
    assert four.most_bytes < 1.5 * once.most_bytes


@pytest.mark.compiled
def test_they_grow_with_the_window() -> None:
    assert counted(40_000, "80 s").most_kept > 4 * counted(40_000, "20 s").most_kept


def test_limit_ends_the_joins() -> None:
    assert counted(40_000, "9 s", LIMITED).batches == 1


@pytest.mark.parametrize("most", [1, 40])
def test_no_match_that_was_found_before_is_found_again_after_too_many_partial_ones(most: int) -> None:
    types = pa.array(["T0", "T1", "T2"] * 40)
    table = pa.table({"type": types, "ts": np.arange(120), "x": np.zeros(120)})
    (joint,) = joint_queries(tf.parse("RETURN MATCHES PATTERN SEQ(T0, T1, T2)").plan())
    planned = plan_joins(read_detection_input(joint, Workspace(read_batch(table, Options())), Limits()))
    with pytest.raises(PartialMatchError) as caught:
        list(detect_in_batches(planned.joined, planned.route.program, planned.route.roots, most, start=100))
    assert caught.value.row >= 100


# ---- Limits mean what they say --------------------------------------------------------------------


def one_of_each(kinds: int, events: int = 2_000) -> tuple[tf.Workload, pa.Table]:
    """A sequence of so many types, any two of which are often in one window."""
    rng, names = np.random.default_rng(1), "abcdefgh"[:kinds]
    types = [f"T{i}" for i in rng.integers(0, kinds, events)]
    table = pa.table({"type": types, "ts": np.arange(events), "x": rng.normal(size=events)})
    body = ", ".join(f"T{i} {name}" for i, name in enumerate(names))
    where = f"WHERE a.x + 3.5 < {names[-1]}.x WITHIN {30 * kinds} s"
    return tf.parse(f"RETURN MATCHES PATTERN SEQ({body}) {where}"), table


@pytest.mark.compiled
@pytest.mark.parametrize("kinds", [3, 5, 8])
@pytest.mark.parametrize("state", [200_000, 1_000_000])
def test_partial_matches_take_no_more_than_half_above_the_limit_of_state(
    kinds: int, state: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = [0]
    join = evaluate._Pool.join

    def watched(pool: evaluate._Pool, low: int, high: int, limit: int) -> bool:
        done = join(pool, low, high, limit)
        most[0] = max(most[0], pool.bytes)
        return done

    monkeypatch.setattr(evaluate._Pool, "join", watched)
    workload, table = one_of_each(kinds)
    with contextlib.suppress(LimitError):
        workload.run(table, limits={"state": state, "trends": 2**40})
    assert 0 < most[0] <= 1.5 * state


@pytest.mark.parametrize("pattern", ["SEQ(A, B)", "SEQ(A, B+)", "A+"])
def test_matches_are_refused_before_there_are_half_more_than_the_limit(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [0]
    add = QueryMatches.add

    def watched(found: QueryMatches, bindings: MatchBindings) -> None:
        held[0] = max(held[0], found.count + len(bindings))
        add(found, bindings)

    monkeypatch.setattr(QueryMatches, "add", watched)
    table = pa.table({"type": ["A"] * 700 + ["B"] * 700, "ts": range(1_400)})
    limit = 150_000
    with pytest.raises(LimitError, match=f"has more than {limit:,} matches, over limits matches={limit:,}"):
        tf.parse(f"RETURN MATCHES PATTERN {pattern}").run(table, limits={"matches": limit})
    assert limit < held[0] <= 1.5 * limit


def test_a_stream_refuses_more_matches_than_the_limit_and_more_state() -> None:
    table = pa.table({"type": ["A", "B"] * 300, "ts": range(1_000, 1_600)})
    workload = tf.parse("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 100 s")
    for limits, message in (
        (Limits(matches=100), "has more than 100 matches"),
        (Limits(state=500), "over limits state=500"),
    ):
        stream = simulate(workload, table.schema, 0, limits=limits)
        stream.feed(table)
        with pytest.raises(AssertionError, match=message):  # the driver raises what shards tell
            stream.results()
