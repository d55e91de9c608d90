"""Rows sorted by time and partition: the kernels against numpy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trendfold.kernel import rows as kernels
from trendfold.runtime.sorting import numbered, numbered_pairs, sort_with_rows

many = settings(max_examples=150, deadline=None, derandomize=True)
INT64 = st.integers(-(2**63), 2**63 - 1)
NO_ORDER = np.zeros(0, np.int32)


def radix(values: np.ndarray, row_type: type = np.int32) -> tuple[np.ndarray, np.ndarray]:
    return sort_with_rows(values, np.arange(len(values), dtype=row_type))


@many
@given(st.lists(st.one_of(INT64, st.integers(-5, 5)), max_size=60))
def test_any_values_are_sorted_as_numpy_sorts_them(values: list[int]) -> None:
    given_ = np.array(values, np.int64)
    found, row = radix(given_)
    np.testing.assert_array_equal(row, np.argsort(given_, kind="stable"))
    np.testing.assert_array_equal(found, np.sort(given_))


@pytest.mark.parametrize("step", [1, 7, 1_000_000, 2**40])
@pytest.mark.parametrize("row_type", [np.int32, np.int64])
def test_equal_values_stay_in_the_order_given(step: int, row_type: type) -> None:
    values = np.random.default_rng(step % 97).integers(-500, 500, 20_000) * step
    found, row = radix(values, row_type)
    np.testing.assert_array_equal(row, np.argsort(values, kind="stable"))
    np.testing.assert_array_equal(found, np.sort(values))
    assert row.dtype == row_type


def test_one_value_off_the_grid_of_all_others_is_sorted_too() -> None:
    values = np.arange(50_000)[::-1] * 1_000_000
    values[77] += 1  # not among the rows that are asked for their common step
    np.testing.assert_array_equal(radix(values)[0], np.sort(values))


@many
@given(st.lists(st.one_of(INT64, st.integers(-5, 5)), max_size=40), st.booleans())
def test_values_are_numbered_as_numpy_does(values: list[int], is_sorted: bool) -> None:
    given_ = np.array(sorted(values) if is_sorted else values, np.int64)
    expected, inverse = np.unique(given_, return_inverse=True)
    found, which = numbered(given_)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(which, inverse)


@many
@given(st.lists(st.tuples(st.one_of(INT64, st.integers(-2, 2)), st.integers(-2, 2)), max_size=40))
def test_pairs_are_numbered_in_their_order(pairs: list[tuple[int, int]]) -> None:
    left, right = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    lefts, rights, which = numbered_pairs(left, right)
    distinct = sorted(set(pairs))
    assert list(zip(lefts.tolist(), rights.tolist(), strict=True)) == distinct
    assert which.tolist() == [distinct.index(pair) for pair in pairs]


def test_sorting_is_by_the_bytes_asked_for() -> None:
    key = np.array([0x201, 0x102, 0x101, 0x200], np.uint64)
    row = np.arange(4, dtype=np.int32)
    _, by_lowest = kernels.radix_sort(key.copy(), row.copy(), key.copy(), row.copy(), 1)
    assert by_lowest.tolist() == [3, 0, 2, 1]
    _, by_both = kernels.radix_sort(key.copy(), row.copy(), key.copy(), row.copy(), 2)
    assert by_both.tolist() == [2, 1, 3, 0]


@pytest.mark.parametrize("size", [0, 1, 2, 1023, 1024, 1025, 5000])
def test_a_step_back_is_seen_wherever_it_is(size: int) -> None:
    time = np.arange(size)
    assert kernels.is_sorted(time)
    assert kernels.is_sorted(np.zeros(size, np.int64))
    for at in {1, size // 2, size - 1} & set(range(1, size)):
        late = time.copy()
        late[at] = -1
        assert not kernels.is_sorted(late)


def placed(
    order: np.ndarray,
    time: np.ndarray,
    symbol: np.ndarray,
    partition: np.ndarray,
    count: int,
    keeps_all: bool,
) -> tuple[list[tuple[int, int, int]], np.ndarray]:
    start = np.zeros(count + 1, np.uint32)
    kernels.count_rows(symbol, partition, keeps_all, start)
    segment, total = start.astype(np.int64), int(start[-1])
    sizes = (total + 1, np.int32), (total + 1, np.int32), (total + 1, np.int64)
    row, symbols, times = (np.empty(*size) for size in sizes)
    if len(partition):
        packed = np.empty((total, 2), np.int64)
        kernels.place_rows(order, time, symbol, partition, keeps_all, start, packed)
        kernels.unpack_rows(packed, row, symbols, times)
    else:
        kernels.select_rows(order, time, symbol, keeps_all, row, symbols, times)
    found = (each[:total].tolist() for each in (row, symbols, times))
    return list(zip(*found, strict=True)), segment


@many
@given(st.data(), st.integers(0, 40), st.integers(1, 5), st.booleans(), st.booleans(), st.booleans())
def test_rows_are_by_partition_and_in_time_order_within_it(
    data: st.DataObject, n: int, count: int, keeps_all: bool, is_ordered: bool, is_whole: bool
) -> None:
    def integers(low: int, high: int, type_: type) -> np.ndarray:
        return np.array(data.draw(st.lists(st.integers(low, high), min_size=n, max_size=n)), type_)

    order = np.array(data.draw(st.permutations(range(n))), np.int32)
    time = np.sort(integers(-9, 9, np.int64))
    symbol, partition = integers(0, 3, np.uint8), integers(-1, count - 1, np.int32)
    if is_ordered:
        order = np.arange(n, dtype=np.int32)
    if is_whole:
        partition, count = np.zeros(n, np.int32), 1
    expected = [
        [
            (int(r), int(symbol[r]), int(t))
            for r, t in zip(order, time, strict=True)
            if partition[r] == p and (keeps_all or symbol[r])
        ]
        for p in range(count)
    ]
    found, segment = placed(
        NO_ORDER if is_ordered else order, time, symbol, NO_ORDER if is_whole else partition, count, keeps_all
    )
    assert [found[low:high] for low, high in pairwise(segment)] == expected
    assert segment[-1] == len(found)


@many
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=6), max_size=4),
    st.booleans(),
)
def test_a_moment_is_new_at_a_segment_and_where_time_or_order_changes(
    segments: list[list[tuple[int, int]]], has_order: bool
) -> None:
    rows = [(s, *pair) for s, segment in enumerate(segments) for pair in sorted(segment)]
    keys = [row if has_order else row[:2] for row in rows]
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    starts = np.cumsum([0, *map(len, segments)]).astype(np.int64)
    order = np.array([row[2] for row in rows], np.int64) if has_order else np.zeros(0, np.int64)
    moment = np.empty(len(rows), np.int32)
    kernels.number_moments(starts, np.array([row[1] for row in rows], np.int64), order, moment)
    assert moment.tolist() == [numbers[key] for key in keys]
