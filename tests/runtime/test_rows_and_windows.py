"""Which rows make a stream, and which stretch of it is which window."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trendfold
from trendfold.errors import InputError, LimitError, QueryError
from trendfold.kernel import rows as kernels

many = settings(max_examples=200, deadline=None, derandomize=True)


def stream(text: str, **columns: list[Any]) -> pa.Table:
    """ "a1 b2 a-3": an A at 1, a B at 2, an A at -3."""
    words = text.split()
    times = pa.array([int(word[1:]) for word in words], pa.int64())
    return pa.table({"type": [word[0].upper() for word in words], "ts": times, **columns})


def windows(query: str, events: pa.Table, **options: Any) -> list[tuple]:
    """(start, end, count) of every row."""
    table = trendfold.parse(f"QUERY q RETURN COUNT(*) {query}").run(events, **options)["q"]
    return [tuple(row.values()) for row in table.to_pylist()]


def groups(query: str, events: pa.Table, **options: Any) -> list[tuple]:
    """(group values, count) of every row, without the window."""
    table = trendfold.parse(f"QUERY q {query}").run(events, **options)["q"]
    return [tuple(row.values())[2:] for row in table.to_pylist()]


# ---- Sliding windows ------------------------------------------------------------------------------


def test_windows_before_the_epoch_have_negative_numbers() -> None:
    events = stream("a-7 a-1 a0 a1")
    assert windows("PATTERN A+ WITHIN 3 s SLIDE 3 s", events) == [(-9, -6, 1), (-3, 0, 1), (0, 3, 3)]
    assert windows("PATTERN A+ WITHIN 4 s SLIDE 3 s", events) == [
        (-9, -5, 1), (-3, 1, 3), (0, 4, 3),
    ]  # fmt: skip


def test_a_slide_past_the_length_leaves_gaps() -> None:
    events = stream("a0 a1 a2 a3 a4 a5 a9")
    assert windows("PATTERN A+ WITHIN 2 s SLIDE 5 s", events) == [(0, 2, 3), (5, 7, 1)]
    assert windows("PATTERN A+ WITHIN 1 s SLIDE 4 s", events) == [(0, 1, 1), (4, 5, 1)]


def test_a_window_holds_its_start_and_not_its_end() -> None:
    assert windows("PATTERN A+ WITHIN 2 s SLIDE 2 s", stream("a0 a2")) == [(0, 2, 1), (2, 4, 1)]


def test_a_window_without_a_trend_has_no_row() -> None:
    assert windows("PATTERN SEQ(A, B) WITHIN 2 s SLIDE 2 s", stream("a1 b2 a4 b5")) == [(4, 6, 1)]


def test_the_origin_shifts_windows() -> None:
    events = stream("a0 a5 a6")
    assert windows("PATTERN A+ WITHIN 5 s SLIDE 5 s", events, origin=1) == [(-4, 1, 1), (1, 6, 1), (6, 11, 1)]
    assert windows("PATTERN A+ WITHIN 5 s SLIDE 5 s", events, origin=11) == windows(
        "PATTERN A+ WITHIN 5 s SLIDE 5 s", events, origin=1
    )


def test_the_midnight_of_a_zone_may_be_the_origin() -> None:
    noon = datetime(2024, 1, 10, 12, tzinfo=UTC)
    events = pa.table({"type": ["A"], "ts": pa.array([noon], pa.timestamp("us", "UTC"))})
    for origin in ("Asia/Tokyo", datetime(1970, 1, 1, tzinfo=UTC) - timedelta(hours=9)):
        ((start, end, _),) = windows("PATTERN A WITHIN 1 d SLIDE 1 d", events, origin=origin)
        assert start == datetime(2024, 1, 9, 15, tzinfo=UTC)
        assert end == datetime(2024, 1, 10, 15, tzinfo=UTC)


def test_an_origin_that_is_no_time_is_an_error() -> None:
    with pytest.raises(InputError, match="'Atlantis'"):
        windows("PATTERN A WITHIN 1 d SLIDE 1 d", stream("a1"), origin="Atlantis")


def test_a_duration_must_be_whole_ticks_of_a_whole_number_of_seconds() -> None:
    with pytest.raises(QueryError, match="ticks"):
        windows("PATTERN A WITHIN 1500 ms SLIDE 1 s", stream("a1"))
    assert windows("PATTERN A WITHIN 1500 ms SLIDE 1 s", stream("a1"), time_unit="ms") == [
        (-1000, 500, 1), (0, 1500, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "value", "start"),
    [
        (pa.int64(), 65, 60),
        (pa.int32(), 65, 60),
        (pa.float64(), 65.5, 60.0),
        (pa.timestamp("s"), 65, datetime(1970, 1, 1, 0, 1)),
        (pa.timestamp("ms"), 65_500, datetime(1970, 1, 1, 0, 1)),
        (pa.timestamp("us", "UTC"), 65_500_000, datetime(1970, 1, 1, 0, 1, tzinfo=UTC)),
        (pa.string(), "1970-01-01T00:01:05", datetime(1970, 1, 1, 0, 1, tzinfo=UTC)),
    ],
)
def test_bounds_are_typed_as_the_time_column(type_: pa.DataType, value: Any, start: Any) -> None:
    events = pa.table({"type": ["A"], "ts": pa.array([value], type_)})
    table = trendfold.parse("QUERY q RETURN COUNT(*) PATTERN A WITHIN 1 min SLIDE 1 min").run(events)["q"]
    assert table["window_start"].to_pylist() == [start]
    if pa.types.is_timestamp(type_):
        assert table.schema.field("window_start").type == type_
        assert table.schema.field("window_end").type == type_


def test_dates_are_times_too() -> None:
    events = pa.table({"type": ["A", "A"], "ts": pa.array([date(2024, 1, 1), date(2024, 1, 3)])})
    found = windows("PATTERN A+ WITHIN 2 d SLIDE 1 d", events)
    assert [count for _, _, count in found] == [1, 1, 1, 1]


@many
@given(
    st.lists(st.lists(st.integers(-30, 30), min_size=1, max_size=8).map(sorted), max_size=3),
    st.integers(1, 12), st.integers(1, 12), st.integers(-5, 5),
    st.sampled_from([0, -2, -(2**63)]), st.sampled_from([-3, 1, 2**63 - 1]),
)  # fmt: skip
def test_every_window_that_holds_a_row_is_cut_once(
    segments: list[list[int]], length: int, slide: int, origin: int, first: int, last: int
) -> None:
    at = np.array([t for segment in segments for t in segment], np.int64)
    starts = np.cumsum([0, *map(len, segments)]).astype(np.int64)
    sliding = starts, at, length, slide, origin, first, last
    count = kernels.count_sliding(*sliding, 10_000)
    found = kernels.cut_sliding(*sliding, count)
    expected = []
    for s, (low, high) in enumerate(pairwise(starts)):
        for k in range(max(first, -60), min(last + 1, 60)):
            begin = origin + k * slide
            inside = [i for i in range(low, high) if begin <= at[i] < begin + length]
            if inside:
                expected.append((s, k, inside[0], inside[-1] + 1))
    assert [tuple(map(int, item)) for item in zip(*found, strict=True)] == expected
    assert count == len(expected)
    for most in range(count):
        assert kernels.count_sliding(*sliding, most) == most + 1


# ---- Windows that move with every event -----------------------------------------------------------


def test_a_window_ends_at_every_event_that_can_end_a_trend() -> None:
    events = stream("a1 b2 a3 b4")
    assert windows("PATTERN SEQ(A, B) WITHIN 3 s", events) == [(-1, 2, 1), (1, 4, 1)]
    assert windows("PATTERN A+ WITHIN 2 s", stream("a1 a2 a4")) == [(-1, 1, 1), (0, 2, 3), (2, 4, 1)]


def test_such_a_window_holds_its_end_and_not_its_start() -> None:
    assert windows("PATTERN SEQ(A, B) WITHIN 2 s", stream("a1 b3")) == []
    assert windows("PATTERN SEQ(A, B) WITHIN 3 s", stream("a1 b3")) == [(0, 3, 1)]


def test_such_a_window_ends_at_the_microsecond_of_its_event() -> None:
    when = datetime(2024, 1, 1, 0, 0, 5, 1)
    events = pa.table({"type": ["A"], "ts": pa.array([when], pa.timestamp("us"))})
    assert windows("PATTERN A WITHIN 2 s", events) == [(when - timedelta(seconds=2), when, 1)]


def test_a_local_predicate_decides_who_can_end_a_trend() -> None:
    events = stream("a1 b2 b3", v=[0, 1, 0])
    found = windows("PATTERN SEQ(A, B) WHERE B.v = 1 WITHIN 5 s", events)
    assert found == [(-3, 2, 1)]


def test_an_event_of_one_partition_ends_a_window_for_all_of_its_group() -> None:
    events = stream("a1 b2 b3", k=[1, 1, 2])
    assert windows("PATTERN SEQ(A, B) WHERE [k] WITHIN 5 s", events) == [(-3, 2, 1), (-2, 3, 1)]
    found = groups("RETURN k, COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 5 s", events)
    assert found == [(1, 1)]  # but not for another group


def test_under_and_an_event_of_any_operand_ends_a_window() -> None:
    found = windows("PATTERN AND(A, B) WITHIN 5 s", stream("a1 b2 a3"))
    assert found == [(-3, 2, 1), (-2, 3, 2)]


def test_tied_events_end_one_window() -> None:
    assert windows("PATTERN A WITHIN 5 s", stream("a1 a1")) == [(-4, 1, 2)]


@many
@given(
    st.lists(st.lists(st.integers(0, 25), min_size=1, max_size=8).map(sorted), max_size=3),
    st.integers(1, 12),
    st.lists(st.integers(0, 25), max_size=6),
)
def test_every_moving_window_that_holds_a_row_is_cut_once(
    segments: list[list[int]], length: int, times: list[int]
) -> None:
    at = np.array([t for segment in segments for t in segment], np.int64)
    starts = np.cumsum([0, *map(len, segments)]).astype(np.int64)
    ending = np.array(sorted(set(times)), np.int64)
    group = np.zeros(len(segments), np.int64)
    moving = starts, at, length, group, np.array([0, len(ending)]), ending
    count = kernels.count_per_event(*moving, 10_000)
    found = kernels.cut_per_event(*moving, count)
    expected = []
    for s, (low, high) in enumerate(pairwise(starts)):
        for t in ending:
            inside = [i for i in range(low, high) if t - length < at[i] <= t]
            if inside:
                expected.append((s, t, inside[0], inside[-1] + 1))
    assert [tuple(map(int, item)) for item in zip(*found, strict=True)] == expected
    assert count == len(expected)
    for most in range(count):
        assert kernels.count_per_event(*moving, most) == most + 1


# ---- Windows of events ----------------------------------------------------------------------------


def test_windows_of_events_count_events_of_every_type() -> None:
    events = stream("a1 x2 a3 a4")
    assert windows("PATTERN A+ WITHIN 2 events SLIDE 1 events", events) == [
        (0, 2, 1), (1, 3, 1), (2, 4, 3), (3, 5, 1),
    ]  # fmt: skip


def test_windows_of_events_begin_at_the_first_event() -> None:
    assert windows("PATTERN A WITHIN 3 events SLIDE 2 events", stream("a-5 a-4")) == [(0, 3, 2)]


def test_windows_of_events_may_leave_gaps() -> None:
    events = stream("a1 a2 a3 a4 a5")
    assert windows("PATTERN A+ WITHIN 1 events SLIDE 3 events", events) == [(0, 1, 1), (3, 4, 1)]


def test_events_are_numbered_in_their_plain_group_and_not_in_their_partition() -> None:
    events = stream("a1 a2 a3 a4", g=["x", "y", "x", "x"], k=[1, 1, 2, 1])
    query = "RETURN g, COUNT(*) PATTERN A+ WHERE [k] GROUP BY g WITHIN 2 events SLIDE 2 events"
    # x: a1, a3 | a4; a1 and a3 are of different partitions.
    assert groups(query, events) == [("x", 2), ("y", 1), ("x", 1)]


def test_an_event_without_a_partition_still_has_a_number() -> None:
    events = stream("a1 a2 a3", k=[1, None, 1])
    assert windows("PATTERN A+ WHERE [k] WITHIN 2 events SLIDE 2 events", events) == [(0, 2, 1), (2, 4, 1)]


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        (pa.array([3, 7, 7], pa.int64()), "7"),
        (pa.array([3.0, 7.25, 7.25]), "7.25"),
        (pa.array(["2024-01-01", "2024-01-02T03:00:00Z", "2024-01-02T04:00:00+01:00"]), "2024-01-02"),
        (pa.array([0, 86_400_000, 86_400_000], pa.timestamp("ms")), "1970-01-02 00:00:00"),
    ],
)
def test_ties_in_windows_of_events_are_an_error_that_names_the_time(times: pa.Array, shown: str) -> None:
    events = pa.table({"type": ["A", "A", "A"], "ts": times})
    with pytest.raises(InputError, match="order_column") as caught:
        windows("PATTERN A WITHIN 2 events SLIDE 1 events", events)
    assert shown in str(caught.value)


def test_an_order_column_that_tells_ties_apart_is_enough() -> None:
    query = "PATTERN A+ WITHIN 2 events SLIDE 2 events"
    events = stream("a7 a7", seq=[2, 1])
    assert windows(query, events, order_column="seq") == [(0, 2, 3)]
    with pytest.raises(InputError, match="7"):
        windows(query, stream("a7 a7", seq=[1, 1]), order_column="seq")


def test_ties_in_different_groups_are_no_ties() -> None:
    events = stream("a7 a7", g=["x", "y"])
    found = groups("RETURN g, COUNT(*) PATTERN A GROUP BY g WITHIN 2 events SLIDE 2 events", events)
    assert found == [("x", 1), ("y", 1)]


# ---- Partitions and groups ------------------------------------------------------------------------


def test_null_is_a_group_of_its_own_and_in_no_partition() -> None:
    events = stream("a1 a2 a3", g=["x", None, None])
    assert groups("RETURN g, COUNT(*) PATTERN A+ GROUP BY g", events) == [(None, 3), ("x", 1)]
    assert groups("RETURN COUNT(*) PATTERN A+ WHERE [g]", events) == [(1,)]
    assert groups("RETURN g, COUNT(*) PATTERN A+ WHERE [g] GROUP BY g", events) == [("x", 1)]


def test_nan_and_minus_zero_group_with_null_and_zero() -> None:
    events = stream("a1 a2 a3 a4", w=[0.0, -0.0, float("nan"), None])
    assert groups("RETURN w, COUNT(*) PATTERN A+ GROUP BY w", events) == [(None, 3), (0.0, 3)]


def test_groups_are_ordered_nulls_first_and_strings_by_bytes() -> None:
    events = stream("a1 a2 a3 a4 a5", g=["é", "z", "Z", None, ""])
    assert groups("RETURN g, COUNT(*) PATTERN A GROUP BY g", events) == [
        (None, 1), ("", 1), ("Z", 1), ("z", 1), ("é", 1),
    ]  # fmt: skip


def test_a_group_of_an_alias_keeps_the_events_of_other_types() -> None:
    events = stream("a1 t2 t3 b4", g=[None, "x", "y", "q"])
    query = "RETURN T.g, COUNT(*) PATTERN SEQ(A, T+, B) GROUP BY T.g"
    assert groups(query, events) == [("x", 1), ("y", 1)]


def test_a_group_of_an_alias_is_a_stream_without_the_alias_of_other_groups() -> None:
    # Under contiguous the T of y would stand between a1 and the T of x.
    events = stream("a1 t2 t3", g=[None, "y", "x"])
    query = "RETURN T.g, COUNT(*) PATTERN SEQ(A, T) SEMANTICS contiguous GROUP BY T.g"
    assert groups(query, events) == [("x", 1), ("y", 1)]


def test_two_grouping_columns_of_one_name_carry_their_alias() -> None:
    events = stream("a1 b2", g=["x", "y"])
    query = "QUERY q RETURN A.g, B.g, COUNT(*) PATTERN SEQ(A, B) GROUP BY A.g, B.g"
    table = trendfold.parse(query).run(events)["q"]
    assert table.column_names == ["window_start", "window_end", "A_g", "B_g", "count"]
    assert groups(query.removeprefix("QUERY q "), events) == [("x", "y", 1)]


def test_partitions_of_one_group_add_up() -> None:
    events = stream("a1 a2 a3 a4", k=[1, 2, 1, 2], g=["x"] * 4)
    assert groups("RETURN g, COUNT(*) PATTERN A+ WHERE [k] GROUP BY g", events) == [("x", 6)]


def test_large_keys_do_not_run_into_each_other() -> None:
    keys = [2**62, -(2**62), 2**62, -(2**62), 0, 2**63 - 1]
    events = stream("a1 a2 a3 a4 a5 a6", k=keys, j=keys[::-1])
    assert groups("RETURN COUNT(*) PATTERN A+ WHERE [k]", events) == [(3 + 3 + 1 + 1,)]
    assert groups("RETURN COUNT(*) PATTERN A+ WHERE [k, j]", events) == [(6,)]


def test_too_many_groups_are_an_error_that_names_the_limit() -> None:
    events = stream("a1 a2 a3", g=["x", "y", "z"])
    with pytest.raises(LimitError, match="groups=2"):
        groups("RETURN g, COUNT(*) PATTERN A GROUP BY g", events, limits={"groups": 2})


def test_an_empty_table_gives_no_rows_and_all_columns() -> None:
    events = stream("a1", g=["x"]).slice(0, 0)
    for clause in ("", "WITHIN 2 s", "WITHIN 2 s SLIDE 1 s", "WITHIN 2 events SLIDE 1 events"):
        query = f"QUERY q RETURN A.g, COUNT(*), MAX(A.ts) PATTERN A+ GROUP BY A.g {clause}"
        table = trendfold.parse(query).run(events)["q"]
        assert table.num_rows == 0
        assert table.column_names == ["window_start", "window_end", "g", "count", "max_A_ts"]
