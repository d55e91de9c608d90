"""Integers as doubles in the same order: what MIN and MAX of integers compare."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trendfold.errors import InputError
from trendfold.events.columns import Column
from trendfold.events.schema import Kind
from trendfold.runtime.values import coded, require_codes, uncoded

MOST = 4_370_000_000_000_000_000
ENDS = [2**63 - 1, -(2**63)]
INTEGERS = st.one_of(
    st.integers(-MOST, MOST), st.integers(2**53 - 3, 2**53 + 3), st.integers(-5, 5), st.sampled_from(ENDS)
)


@given(values=st.lists(INTEGERS, min_size=1, max_size=20))
def test_codes_are_finite_ordered_and_mean_one_integer_each(values: list[int]) -> None:
    array = np.array(values, np.int64)
    codes = coded(array)
    assert np.isfinite(codes).all()
    assert uncoded(codes).tolist() == values
    assert [values[i] for i in np.argsort(codes, kind="stable")] == sorted(values)


def test_integers_up_to_2_to_the_53_are_their_own_codes() -> None:
    values = np.array([0, 1, -1, 2**53 - 1, 1 - 2**53])
    assert coded(values).tolist() == [float(v) for v in values.tolist()]


@pytest.mark.parametrize("value", [2**62, -(2**63) + 1, 2**63 - 2])
def test_an_integer_without_a_code_is_refused(value: int) -> None:
    column = Column(Kind.INTEGER, np.array([value]), np.ones(1, np.bool_))
    with pytest.raises(InputError, match="query 'q': over a stream, MIN and MAX take values of 'n' up to"):
        require_codes("q", "n", column)
