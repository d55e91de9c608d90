"""Numbers come back from bytes as they were, however narrow they are stored."""

from __future__ import annotations

import numpy as np
import pytest

from trendfold.runtime.stream.packed_columns import pack_columns, unpack_columns


@pytest.mark.parametrize("seed", range(30))
def test_columns_come_back_as_they_were(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(0, 5)), int(rng.integers(0, 7))
    scales = rng.choice([0.0, 1.0, 255.0, 256.0, 7e4, 5e9, 1e300, 0.1, -3.0, np.inf], columns)
    whole = np.floor(rng.random((rows, columns)) * 3) / 2 * np.where(np.isinf(scales), 1.0, scales)
    floats = np.where(np.isinf(scales), np.inf, whole)
    integers = rng.integers(-3, 2**40, (rows, columns)) * rng.choice([0, 1], columns)
    arrays = [floats, integers, integers.astype(np.int32), np.zeros((rows, 0))]
    told, found = unpack_columns(pack_columns({"seed": seed}, arrays))
    assert told == {"seed": seed}
    for one, other in zip(found, arrays, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_small_counts_take_a_byte_and_equal_ones_nothing() -> None:
    counts = np.arange(200.0)[:, None]
    assert len(pack_columns({}, [counts])) < 200 + 100
    assert len(pack_columns({}, [np.ones((200, 8))])) < 200
