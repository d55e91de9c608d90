"""Wide numbers against Python's integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trendfold.kernel import wide

MANTISSAS = st.floats(1.0, 2.0**256, exclude_max=True)
COUNTS = st.tuples(MANTISSAS, st.integers(0, 6)) | st.tuples(st.integers(0, 2**53).map(float), st.just(0))
"""What a fold makes: a mantissa below 1 only where there is no exponent."""
SIGNED = COUNTS.flatmap(lambda n: st.sampled_from([n, (-n[0], n[1])]))
VALUES = st.floats(-(2.0**1000), 2.0**1000, allow_nan=False)

many = settings(max_examples=400, deadline=None, derandomize=True)


def exact(number: tuple[float, int]) -> Fraction:
    return Fraction(number[0]) * Fraction(2) ** (256 * number[1])


def is_near(found: tuple[float, int], expected: Fraction, size: Fraction) -> bool:
    """Within a few roundings of doubles, measured by the sum of absolute values."""
    return abs(exact(found) - expected) <= size * Fraction(1, 2**50)


def is_kept_small(number: tuple[float, int]) -> bool:
    return abs(number[0]) < wide.RADIX


@many
@given(COUNTS, COUNTS)
def test_a_sum_of_counts_is_theirs(x: tuple[float, int], y: tuple[float, int]) -> None:
    found = wide.add(*x, *y)
    assert is_near(found, exact(x) + exact(y), exact(x) + exact(y))
    assert is_kept_small(found)


@many
@given(SIGNED, SIGNED)
def test_a_sum_of_either_sign_errs_by_no_more_than_the_sizes_allow(
    x: tuple[float, int], y: tuple[float, int]
) -> None:
    found = wide.add(*x, *y)
    assert is_near(found, exact(x) + exact(y), abs(exact(x)) + abs(exact(y)))
    assert is_kept_small(found)


@many
@given(COUNTS, COUNTS)
def test_a_sum_does_not_depend_on_the_order(x: tuple[float, int], y: tuple[float, int]) -> None:
    assert exact(wide.add(*x, *y)) == exact(wide.add(*y, *x))


@many
@given(st.integers(0, 2**52), st.integers(0, 2**52))
def test_small_counts_are_exact(x: int, y: int) -> None:
    assert wide.add(float(x), 0, float(y), 0) == (x + y, 0)


@many
@given(COUNTS, VALUES)
def test_a_count_times_a_value_stays_finite(x: tuple[float, int], value: float) -> None:
    found = wide.times(*x, value)
    expected = exact(x) * Fraction(value)
    assert is_kept_small(found)
    assert is_near(found, expected, abs(expected)) or abs(found[0]) < 2.0**-1000


def test_a_product_with_zero_has_no_exponent() -> None:
    assert wide.times(3.0, 5, 0.0) == (0.0, 0)


@pytest.mark.parametrize("value", [2.0**256, 2.0**700, -(2.0**1023), 1.7976931348623157e308])
def test_a_value_past_the_radix_is_brought_down(value: float) -> None:
    found = wide.times(2.0**255, 1, value)
    assert is_kept_small(found)
    assert exact(found) == Fraction(2) ** 511 * Fraction(value)


@pytest.mark.parametrize(
    ("to", "given_", "factor"), [(3, 3, 1.0), (3, 2, 2.0**-256), (3, 1, 0.0), (3, 0, 0.0)]
)
def test_a_scale_brings_a_mantissa_to_a_higher_exponent(to: int, given_: int, factor: float) -> None:
    assert wide.scale(to, given_) == factor


def test_a_scale_to_a_lower_exponent_is_no_number() -> None:
    assert math.isnan(wide.scale(1, 2))


@many
@given(st.lists(st.tuples(st.integers(0, 2), COUNTS), max_size=12))
def test_rows_are_added_where_they_belong(parts: list[tuple[int, tuple[float, int]]]) -> None:
    where = np.array([t for t, _ in parts], np.int64)
    m = np.array([[n[0], 1.0] for _, n in parts]).reshape(len(parts), 2)
    e = np.array([[n[1], 0] for _, n in parts], np.int32).reshape(len(parts), 2)
    total_m, total_e = np.zeros((3, 2)), np.zeros((3, 2), np.int32)
    wide.add_at(where, m, e, total_m, total_e)
    for t in range(3):
        expected = sum((exact(n) for to, n in parts if to == t), Fraction(0))
        assert is_near((total_m[t, 0], int(total_e[t, 0])), expected, expected)
        assert total_m[t, 1] == sum(to == t for to, _ in parts)


@many
@given(st.lists(SIGNED, min_size=1, max_size=5))
def test_as_doubles_they_are_the_nearest_or_infinite(numbers: list[tuple[float, int]]) -> None:
    m, e = np.array([n[0] for n in numbers]), np.array([n[1] for n in numbers], np.int32)
    for found, number in zip(wide.to_double(m, e), numbers, strict=True):
        try:
            assert found == float(exact(number))
        except OverflowError:
            assert found == math.copysign(math.inf, number[0])


def test_a_number_past_the_range_of_doubles_reads_inf() -> None:
    m, e = np.array([1.0, -1.0, 0.0, 2.0**255]), np.array([4, 4, 4, 3], np.int32)
    assert wide.to_double(m, e).tolist() == [math.inf, -math.inf, 0.0, 2.0**1023]
    huge = wide.to_double(np.array([1.0]), np.array([2**31 - 1], np.int32))
    assert huge.tolist() == [math.inf]


@many
@given(COUNTS)
def test_a_logarithm_is_that_of_the_integer(x: tuple[float, int]) -> None:
    found = wide.log2(np.array([x[0]]), np.array([x[1]], np.int32))[0]
    if x[0] == 0:
        assert math.isnan(found)
    else:
        assert math.isclose(found, math.log2(x[0]) + 256 * x[1], rel_tol=1e-12, abs_tol=1e-12)


@many
@given(SIGNED, COUNTS)
def test_a_ratio_is_finite_where_its_value_is(x: tuple[float, int], y: tuple[float, int]) -> None:
    arrays = [np.array([x[0]]), np.array([x[1]], np.int32), np.array([y[0]]), np.array([y[1]], np.int32)]
    found = wide.ratio(*arrays)[0]
    if y[0] == 0:
        assert math.isnan(found)
        return
    expected = exact(x) / exact(y)
    if 2**-1000 < abs(expected) < 2**1000 or expected == 0:
        assert abs(Fraction(float(found)) - expected) <= abs(expected) * Fraction(1, 2**50)
    else:
        assert math.isinf(found) or abs(found) < 2.0**-990 or abs(found) > 2.0**990
