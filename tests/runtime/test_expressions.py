"""Expressions over columns: SQL's values, three-valued logic, and what becomes null."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trendfold
from trendfold.automaton import build, split
from trendfold.errors import QueryError
from trendfold.events.columns import from_arrow
from trendfold.runtime.expressions import evaluate, like_regex
from trendfold.testing import oracle

LOW, HIGH = -(2**63), 2**63 - 1


def judged(condition: str, **columns: pa.Array) -> list[bool | None]:
    """A condition over the events of A, one answer per row: true, false or null."""
    (query,) = trendfold.parse(f"RETURN COUNT(*) PATTERN A WHERE ({condition})")
    (local,) = split(query, build(query.pattern)).local
    read = {name: from_arrow(pa.chunked_array([data])) for name, data in columns.items()}
    found = evaluate(local.condition, lambda leaf: read[leaf.name])
    rows = len(next(iter(columns.values())))
    values, valid = np.broadcast_to(found.values, (rows,)), np.broadcast_to(found.valid, (rows,))
    return [bool(value) if ok else None for value, ok in zip(values, valid, strict=True)]


def one(condition: str, value: Any, type_: pa.DataType | None = None) -> bool | None:
    (found,) = judged(condition, v=pa.array([value], type_))
    return found


# ---- Three-valued logic ---------------------------------------------------------------------------

T, F, N = True, False, None
TRUTHS = [T, F, N]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("A.x AND A.y", [T, F, N, F, F, F, N, F, N]),
        ("A.x OR A.y", [T, T, T, T, F, N, T, N, N]),
        ("NOT A.x", [F, F, F, T, T, T, N, N, N]),
        ("A.x = A.y", [T, F, N, F, T, N, N, N, N]),
        ("NOT (A.x AND A.y)", [F, T, N, T, T, T, N, T, N]),
        ("A.x IS NULL", [F, F, F, F, F, F, T, T, T]),
        ("A.x IS NOT NULL AND A.y", [T, F, N, T, F, N, F, F, F]),
        ("A.x AND A.y AND NULL", [N, F, N, F, F, F, N, F, N]),
        ("A.x OR A.y OR TRUE", [T] * 9),
    ],
)
def test_null_is_neither_true_nor_false(condition: str, expected: list[bool | None]) -> None:
    x = pa.array([a for a in TRUTHS for _ in TRUTHS], pa.bool_())
    y = pa.array([b for _ in TRUTHS for b in TRUTHS], pa.bool_())
    assert judged(condition, x=x, y=y) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("A.v IN (1, 2)", [T, F, N]),
        ("A.v IN (1, NULL)", [T, N, N]),
        ("A.v NOT IN (1, 2)", [F, T, N]),
        ("A.v NOT IN (1, NULL)", [F, N, N]),
        ("A.v BETWEEN 1 AND 2", [T, F, N]),
        ("A.v BETWEEN 2 AND 1", [F, F, N]),
        ("A.v BETWEEN NULL AND 2", [N, F, N]),  # 3 is past the upper end, whatever the lower is
        ("A.v NOT BETWEEN NULL AND 2", [N, T, N]),
        ("A.v = NULL", [N, N, N]),
        ("A.v != 1", [F, T, N]),
        ("A.v <> 1", [F, T, N]),
        ("A.v + NULL > 1", [N, N, N]),
        ("-A.v < -2", [F, T, N]),
        ("ABS(A.v - 2) = 1", [T, T, N]),
    ],
)
def test_null_spreads_through_comparisons(condition: str, expected: list[bool | None]) -> None:
    assert judged(condition, v=pa.array([1, 3, None], pa.int64())) == expected


# ---- Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("(A.v + 1) IS NULL", HIGH, T),
        ("(A.v + 1) IS NULL", HIGH - 1, F),
        ("(A.v - 1) IS NULL", LOW, T),
        ("(A.v * 2) IS NULL", 2**62, T),
        ("(A.v * 2) IS NULL", -(2**62), F),
        ("(A.v * -1) IS NULL", LOW, T),
        ("(-1 * A.v) IS NULL", LOW, T),
        ("(A.v * A.v) IS NULL", 3_037_000_500, T),
        ("(A.v * A.v) IS NULL", 3_037_000_499, F),
        ("(A.v * A.v) IS NULL", LOW, T),
        ("(-A.v) IS NULL", LOW, T),
        ("ABS(A.v) IS NULL", LOW, T),
        ("ABS(A.v) = 9223372036854775807", -HIGH, T),
        ("A.v % -1 = 0", LOW, T),
        ("A.v % 10 = -8", LOW, T),
        ("A.v % 3 = -1", -7, T),
        ("A.v % -3 = 1", 7, T),
        ("A.v % 1.5 = -1.0", -7, T),
        ("(A.v % 0) IS NULL", 7, T),
        ("(A.v / 0) IS NULL", 7, T),
        ("A.v / 2 = 3.5", 7, T),  # float division
        ("A.v + 1 > 0", HIGH, N),
        ("A.v = 9007199254740993", 2**53 + 1, T),
        ("A.v = 9007199254740992", 2**53 + 1, F),
    ],
)
def test_whole_numbers_overflow_to_null(condition: str, value: int, expected: bool | None) -> None:
    assert one(condition, value, pa.int64()) is expected


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("A.v = 0", -0.0, T),
        ("A.v < 0", -0.0, F),
        ("A.v IS NULL", math.nan, T),
        ("A.v IS NULL", math.inf, T),
        ("A.v IS NULL", -math.inf, T),
        ("A.v > 1", math.inf, N),
        ("(A.v * 10) IS NULL", 1e308, T),
        ("(A.v / 0.0) IS NULL", 1.0, T),
        ("(A.v / -0.0) IS NULL", 1.0, T),
        ("1 / A.v IS NULL", -0.0, T),
        ("(A.v % 0) IS NULL", 1.5, T),
        ("A.v % 2 = -0.5", -2.5, T),
        ("(A.v - 1e308) IS NULL", -1e308, T),
        ("-A.v = 0", 0.0, T),
    ],
)
def test_doubles_have_one_zero_and_nothing_infinite(
    condition: str, value: float, expected: bool | None
) -> None:
    assert one(condition, value, pa.float64()) is expected


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.uint64(), pa.float32()]
)
def test_every_width_of_number_is_a_number(type_: pa.DataType) -> None:
    assert judged("A.v + 200 > 300", v=pa.array([100, 101, None], type_)) == [F, T, N]


def test_unsigned_numbers_past_63_bits_are_doubles() -> None:
    assert one("A.v > 9223372036854775807", 2**64 - 1, pa.uint64()) is True


def test_decimals_count_as_doubles() -> None:
    from decimal import Decimal

    assert judged("A.v = 1.25", v=pa.array([Decimal("1.25"), Decimal("1.50"), None])) == [T, F, N]


# ---- Strings --------------------------------------------------------------------------------------

LIKES = [
    ("x%", "xyz", T),
    ("x%", "x", T),
    ("x%", "ax", F),
    ("%x", "ax", T),
    ("%x%", "axb", T),
    ("_", "x", T),
    ("_", "", F),
    ("_", "xy", F),
    ("_", "é", T),  # one character, not one byte
    ("_", "😀", T),
    ("", "", T),
    ("", "x", F),
    ("%", "", T),
    ("%", "a\nb", T),  # % takes a new line too
    ("_", "\n", T),
    ("a\\_b", "a_b", T),
    ("a\\_b", "axb", F),
    ("100\\%", "100%", T),
    ("100\\%", "1000", F),
    ("a\\\\b", "a\\b", T),
    ("a\\b", "ab", T),  # an escaped letter is itself
    ("a\\", "a\\", T),  # a lone escape at the end is itself
    ("a.c", "abc", F),
    ("(a|b)*", "(a|b)*", T),
    ("[ab]", "a", F),
    ("^a$", "a", F),
    ("A%", "abc", F),  # case matters
    ("x", "x\n", F),
    ("%é_", "aéb", T),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), LIKES)
def test_like_knows_percent_underscore_and_the_escape(pattern: str, text: str, expected: bool) -> None:
    assert one(f"A.v LIKE '{pattern}'", text) is expected
    assert one(f"A.v NOT LIKE '{pattern}'", text) is not expected
    assert oracle._like(text, pattern) is expected


def test_like_of_null_is_null() -> None:
    assert one("A.v LIKE '%'", None, pa.string()) is None
    assert one("A.v NOT LIKE '%'", None, pa.string()) is None


def test_a_pattern_is_no_regular_expression() -> None:
    assert like_regex("a%") == r"(?s)^\x{61}.*$"


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("A.v < 'a'", "Z", T),
        ("A.v < 'é'", "z", T),
        ("A.v < '😀'", "\uffff", T),  # by bytes of UTF-8, not by halves of UTF-16
        ("A.v = 'x'", "x", T),
        ("A.v = 'x '", "x", F),
        ("A.v = 'it''s'", "it's", T),
        ("A.v >= ''", "", T),
        ("A.v IN ('a', 'b')", "b", T),
        ("A.v BETWEEN 'a' AND 'c'", "bz", T),
        ("A.v = 'x'", None, N),
    ],
)
def test_strings_compare_by_bytes(condition: str, value: str | None, expected: bool | None) -> None:
    assert one(condition, value, pa.string()) is expected


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_kind_of_string_is_a_string(type_: pa.DataType) -> None:
    assert judged("A.v = 'x'", v=pa.array(["x", "y", None], type_)) == [T, F, N]


def test_a_dictionary_is_its_values_even_with_a_word_twice() -> None:
    codes, words = pa.array([0, 1, 2, None], pa.int8()), pa.array(["x", "y", "x"])
    data = pa.DictionaryArray.from_arrays(codes, words)
    assert judged("A.v = 'x'", v=data) == [T, F, T, N]
    assert judged("A.v = A.w", v=data, w=pa.array(["x", "x", "x", "x"])) == [T, F, T, N]


def test_two_columns_of_strings_share_one_order() -> None:
    v, w = pa.array(["b", "a", None, "c"]), pa.array(["a", "b", "x", "c"])
    assert judged("A.v < A.w", v=v, w=w) == [F, T, N, F]


# ---- Unlike types ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    ["A.v = 'x'", "A.s > 1", "A.s + 1 = 2", "A.s = A.v", "A.v IN (1, 'x')", "A.s", "A.v LIKE 'x'"],
)
def test_comparing_unlike_types_is_an_error(condition: str) -> None:
    table = pa.table({"type": ["A"], "ts": [1], "v": [1], "s": ["x"]})
    with pytest.raises(QueryError):
        trendfold.parse(f"RETURN COUNT(*) PATTERN A WHERE {condition}").run(table)


def test_a_column_without_values_goes_with_every_type() -> None:
    nothing = pa.nulls(2)
    for condition in ("A.v = 'x'", "A.v > 1", "A.v LIKE 'x'", "A.v + 1 = 2"):
        assert judged(condition, v=nothing) == [N, N]


def test_times_of_different_units_compare_on_one_scale() -> None:
    v = pa.array([1_000_000, 1_000_001, None], pa.timestamp("us"))
    w = pa.array([1_000_000_000, 1_000_000_999, 0], pa.timestamp("ns"))
    assert judged("A.v = A.w", v=v, w=w) == [T, F, N]
    assert judged("A.v > A.w", v=v, w=w) == [F, T, N]
