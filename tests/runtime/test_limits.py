"""Limits: each stops a run with an error that names it, and just under it the run goes on."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

import trendfold
from trendfold.errors import InputError, LimitError

ADJACENT = "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x"
PER_GROUP = "RETURN T.g, COUNT(*) PATTERN SEQ(A, T+) SEMANTICS next GROUP BY T.g"
MOVING = "RETURN T.g, COUNT(*) PATTERN SEQ(A, T+) WHERE [u] GROUP BY T.g WITHIN 1000 s"
CROSS = "RETURN COUNT(*) PATTERN SEQ(A+, T) WHERE A.x <= T.x"


def events(n: int) -> pa.Table:
    """A and T in turn; x grows, every T has a group of its own, and there are three users."""
    i = list(range(n))
    return pa.table(
        {"type": ["AT"[k % 2] for k in i], "ts": i, "x": i, "g": i, "u": [k // 2 % 3 for k in i]},
        schema=pa.schema([("type", pa.string()), *[(name, pa.int64()) for name in ("ts", "x", "g", "u")]]),
    )


def run(query: str, n: int = 60, **options: Any) -> pa.Table:
    return trendfold.parse(f"QUERY busy {query}").run(events(n), **options)["busy"]


def needed(query: str, **options: Any) -> int:
    """The bytes of state with which a query runs: whatever it asks for is given, until it is enough."""
    state = 1
    while True:
        try:
            run(query, limits={"state": state}, **options)
        except LimitError as error:
            state = int(re.search(r"needs ([0-9,]+) bytes", str(error))[1].replace(",", ""))
        else:
            return state


@pytest.mark.parametrize(
    ("query", "held"),
    [
        (ADJACENT, "bindings kept one by one"),
        (PER_GROUP, "a copy of the events per group"),
    ],
)
@pytest.mark.parametrize("arithmetic", ["auto", "exact"])
def test_state_is_allowed_up_to_the_limit_and_refused_past_it(query: str, held: str, arithmetic: str) -> None:
    free = run(query, arithmetic=arithmetic)
    most = needed(query, arithmetic=arithmetic)
    with pytest.raises(LimitError) as caught:
        run(query, arithmetic=arithmetic, limits={"state": most - 1})
    told = str(caught.value)
    assert f"query 'busy' needs {most:,} bytes of state for " in told
    assert held in told
    assert f"past limits state={most - 1:,}; raise the limit, " in told
    assert told.endswith("or partition the stream")
    assert run(query, arithmetic=arithmetic, limits={"state": most}).equals(free)


def test_the_state_of_bindings_grows_with_the_window_and_not_with_the_stream() -> None:
    short = f"{ADJACENT} WITHIN 10 s SLIDE 10 s"
    assert needed(short, n=60) == needed(short, n=600) < needed(ADJACENT, n=60)


def test_trees_below_one_another_count_with_all_their_levels() -> None:
    one, two = "PATTERN A+ WHERE A.x < NEXT(A).x", "PATTERN A+ WHERE A.x < NEXT(A).x AND A.g <= NEXT(A).g"
    assert needed(f"RETURN COUNT(*) {two}") > 4 * needed(f"RETURN COUNT(*) {one}")


def test_exact_numbers_of_bindings_count_too() -> None:
    query = "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x"
    wide = needed(query, n=600)
    with pytest.raises(LimitError, match=r"'busy' needs .* for exact numbers of bindings kept one by one"):
        run(query, n=600, arithmetic="exact", limits={"state": wide})


def test_copies_per_group_are_counted_before_they_are_made() -> None:
    # 200,000 rows, half of them in each of 100,000 streams: ten billion copies.
    with pytest.raises(LimitError, match="group by an attribute with fewer values"):
        run(PER_GROUP, n=200_000)


def test_streams_without_rows_count_too() -> None:
    # A window that moves with every event gives each partition a stream for every group.
    with pytest.raises(LimitError, match=f"needs {3 * 30 * 64:,} bytes .* a copy of the events per group"):
        run(MOVING, n=60, limits={"state": 3 * 30 * 64 - 1})


@pytest.mark.parametrize("options", [{}, {"arithmetic": "exact"}])
def test_too_many_trends_are_an_error_that_names_query_and_limit(options: dict[str, str]) -> None:
    with pytest.raises(LimitError, match=r"query 'busy': more than 100 trends .* limits trends=100; raise"):
        run(CROSS, limits={"trends": 100}, **options)


@pytest.mark.parametrize("limits", [{"stat": 1}, {"state": 0}, {"state": 1.5}])
def test_a_limit_that_makes_no_sense_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="limit 'stat"):
        run(ADJACENT, limits=limits)
