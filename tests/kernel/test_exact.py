"""Whole numbers of any size: the kernels' digits, and decimal text."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from trendfold.kernel import exact
from trendfold.runtime.exact_values import to_text

LENGTHS = [1, 2, 3, 7]


class Digits:
    """Some numbers as the kernels keep them, modulo 2^(64 length)."""

    def __init__(self, length: int, *values: int) -> None:
        self.length, self.modulus = length, 1 << (64 * length)
        # What is not in use may hold anything.
        self.digits = np.full((len(values), length), 0xDEADBEEF, np.uint64)
        self.used = np.zeros(len(values), np.int64)
        for row, value in enumerate(values):
            value %= self.modulus
            while value:
                self.digits[row, self.used[row]] = value & (2**64 - 1)
                self.used[row] += 1
                value >>= 64

    def __getitem__(self, row: int) -> int:
        data = self.digits[row, : self.used[row]].astype("<u8").tobytes()
        return int.from_bytes(data, "little")

    def rows(self, row: int) -> tuple[exact.Digits, np.uint32]:
        return exact.Digits(self.digits, self.used), np.uint32(row)


def some_number(rng: random.Random, length: int) -> int:
    bits = rng.choice([0, 1, 31, 32, 33, 63, 64, 65, 64 * length - 1, rng.randint(0, 64 * length)])
    return rng.choice([rng.getrandbits(bits) if bits else 0, (1 << bits) - 1, 1 << max(0, bits - 1)])


@pytest.mark.parametrize("length", LENGTHS)
def test_sums_are_python_s_modulo_the_digits(length: int) -> None:
    rng = random.Random(length)
    for _ in range(500):
        a, b = some_number(rng, length), some_number(rng, length)
        numbers = Digits(length, a, b)
        exact.add(*numbers.rows(0), *numbers.rows(1), length)
        assert numbers[0] == (a + b) % numbers.modulus
        assert numbers[1] == b % numbers.modulus


@pytest.mark.parametrize("length", LENGTHS)
def test_multiples_are_python_s_modulo_the_digits(length: int) -> None:
    rng = random.Random(length)
    for _ in range(1000):
        a, b, factor = some_number(rng, length), some_number(rng, length), some_number(rng, 1)
        factor %= 2**64
        negative = rng.random() < 0.5
        numbers = Digits(length, a, b)
        exact.add_times(*numbers.rows(0), *numbers.rows(1), np.uint64(factor), negative, length)
        assert numbers[0] == (a + (-factor if negative else factor) * b) % numbers.modulus


def test_a_number_is_added_to_itself() -> None:
    numbers = Digits(3, 2**100 + 2**64 - 1)
    exact.add(*numbers.rows(0), *numbers.rows(0), 3)
    assert numbers[0] == 2 * (2**100 + 2**64 - 1)


# ---- Text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0, 1, 63, 64, 1999, 2000, 2001, 8191, 8192, 8193, 20_000, 65_537])
def test_text_is_the_decimal_digits(bits: int) -> None:
    rng = random.Random(bits)
    limit = sys.get_int_max_str_digits()
    for value in [1 << bits, (1 << bits) - 1, rng.getrandbits(bits) if bits else 0]:
        sys.set_int_max_str_digits(0)
        try:
            expected = str(value)
        finally:
            sys.set_int_max_str_digits(limit)
        assert to_text(value) == expected
        assert to_text(-value) == (f"-{expected}" if value else "0")


@pytest.mark.parametrize("power", [600, 601, 602, 700, 5_000, 300_000])
def test_zeros_and_nines_keep_their_places(power: int) -> None:
    assert to_text(10**power) == "1" + "0" * power
    assert to_text(10**power - 1) == "9" * power
    assert to_text(10**power + 7) == "1" + "0" * (power - 1) + "7"


def test_text_obeys_no_limit_and_leaves_it_alone() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert len(to_text(1 << 100_000)) == 30_103
        assert sys.get_int_max_str_digits() == 640
    finally:
        sys.set_int_max_str_digits(before)
