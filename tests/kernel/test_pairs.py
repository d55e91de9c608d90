"""Programs for two events: the kernel, the columns and the oracle say the same of every pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import trendfold
from trendfold.automaton import build, split
from trendfold.automaton.predicates import Pairwise
from trendfold.events.columns import Column, from_arrow
from trendfold.kernel.pairs import holds
from trendfold.query.nodes import (
    Attribute,
    Between,
    Binary,
    Compare,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Logic,
    Unary,
)
from trendfold.runtime.conditions import compile_pairs
from trendfold.runtime.expressions import evaluate, is_true
from trendfold.testing import oracle

LOW, HIGH = -(2**63), 2**63 - 1

SMALL = {
    "i": pa.array([0, 1, -1, 2, -7, None, 3], pa.int64()),
    "j": pa.array([2, -2, 0, None, 7, 5, 3], pa.int64()),
    "f": pa.array([0.0, -0.0, 1.5, -2.5, None, 0.1, 1e308], pa.float64()),
    "h": pa.array([1.5, 3.0, float("nan"), 0.25, -1e308, float("inf"), 0.1], pa.float64()),
    "s": pa.array(["x", "", None, "xy", "é", "a_b", "z"], pa.string()),
    "u": pa.array(["xy", "x", "é", None, "", "Z", "z"], pa.string()),
    "b": pa.array([True, False, None, True, False, None, True], pa.bool_()),
}
LARGE = {
    **SMALL,
    "i": pa.array([LOW, HIGH, -1, 0, 2**53 + 1, None, 3_037_000_500], pa.int64()),
    "j": pa.array([HIGH, LOW, -1, 2**53, None, 0, -3_037_000_500], pa.int64()),
}


# ---- Random conditions ----------------------------------------------------------------------------


def attributes(names: str) -> st.SearchStrategy[Expression]:
    return st.builds(Attribute, st.none(), st.sampled_from(names), st.booleans())


INTS = [0, 1, -1, 2, 3, -2]
NUMBERS: st.SearchStrategy[Expression] = st.recursive(
    attributes("ijfh") | attributes("ij") | st.builds(Literal, st.sampled_from([*INTS, 0.5, -1.5, None])),
    lambda inner: st.one_of(
        st.builds(Unary, st.sampled_from(["-", "ABS"]), inner),
        st.builds(Binary, st.sampled_from("+-*/%"), inner, inner),
        st.builds(Binary, st.sampled_from("+-*%"), attributes("ij"), attributes("ij")),
    ),
    max_leaves=4,
)
TEXTS: st.SearchStrategy[Expression] = attributes("su") | st.builds(Literal, st.sampled_from(["x", "", "é"]))
SIGNS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
ATOMS: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Compare, SIGNS, NUMBERS, NUMBERS),
    st.builds(Compare, SIGNS, NUMBERS, NUMBERS),
    st.builds(Compare, SIGNS, TEXTS, TEXTS),
    st.builds(IsNull, NUMBERS, st.booleans()),
    st.builds(In, NUMBERS, st.lists(NUMBERS, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(In, TEXTS, st.lists(TEXTS, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(Between, NUMBERS, NUMBERS, NUMBERS, st.booleans()),
    st.builds(Like, attributes("su"), st.sampled_from(["x%", "_", "%\\_%"]), st.booleans()),
    attributes("b"),
)
CONDITIONS: st.SearchStrategy[Expression] = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(Unary, st.just("NOT"), inner),
        st.builds(Logic, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=3,
)


# ---- Three ways to judge all pairs ----------------------------------------------------------------


def columns(arrays: dict[str, pa.Array]) -> tuple[dict[str, Column], int]:
    found = {name: from_arrow(pa.chunked_array([data])) for name, data in arrays.items()}
    return found, len(next(iter(arrays.values())))


def by_kernel(condition: Expression, arrays: dict[str, pa.Array]) -> np.ndarray:
    found, n = columns(arrays)
    pairs = compile_pairs([Pairwise(condition, frozenset(), frozenset())], found.__getitem__, n)
    stacks = np.empty(pairs.depth), np.empty(pairs.depth, np.int64), np.empty(pairs.depth, np.int8)
    return np.array([[holds(pairs, 0, x, y, *stacks) for y in range(n)] for x in range(n)])


def by_columns(condition: Expression, arrays: dict[str, pa.Array]) -> np.ndarray:
    found, n = columns(arrays)
    x, y = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    judged = evaluate(condition, lambda leaf: found[leaf.name].take(y if leaf.is_next else x))
    return np.broadcast_to(is_true(judged), (n * n,)).reshape(n, n)


def by_oracle(condition: Expression, arrays: dict[str, pa.Array]) -> np.ndarray:
    node = as_oracle(condition)
    values = {name: [oracle._value(value) for value in data.to_pylist()] for name, data in arrays.items()}
    n = len(values["i"])

    def judge(x: int, y: int) -> bool:
        return oracle.evaluate(node, lambda leaf: values[leaf[2]][y if leaf[3] else x]) is True

    return np.array([[judge(x, y) for y in range(n)] for x in range(n)])


def as_oracle(node: Any) -> tuple:
    """The same expression in the oracle's notation."""
    match node:
        case Literal(value):
            return ("lit", value)
        case Attribute(_, name, is_next):
            return ("attr", "A", name, is_next)
        case Unary(op, operand):
            return ({"-": "neg", "ABS": "abs", "NOT": "not"}[op], as_oracle(operand))
        case Binary(op, left, right) | Compare(op, left, right):
            return (op, as_oracle(left), as_oracle(right))
        case Logic(op, (*most, last)) if len(most) > 1:
            return (op.lower(), as_oracle(Logic(op, tuple(most))), as_oracle(last))
        case Logic(op, (left, right)):
            return (op.lower(), as_oracle(left), as_oracle(right))
        case IsNull(operand, negated):
            return negate(("null?", as_oracle(operand)), negated)
        case In(operand, items, negated):
            return negate(("in", as_oracle(operand), [as_oracle(item) for item in items]), negated)
        case Between(operand, low, high, negated):
            return negate(("between", as_oracle(operand), as_oracle(low), as_oracle(high)), negated)
        case Like(operand, pattern, negated):
            return negate(("like", as_oracle(operand), ("lit", pattern)), negated)
    raise AssertionError(node)


def negate(node: tuple, negated: bool) -> tuple:
    return ("not", node) if negated else node


@settings(max_examples=250, deadline=None, derandomize=True, phases=[Phase.generate])
@given(CONDITIONS)
def test_the_kernel_says_of_every_pair_what_the_columns_say(condition: Expression) -> None:
    assert by_kernel(condition, LARGE).tolist() == by_columns(condition, LARGE).tolist()


@settings(max_examples=400, deadline=None, derandomize=True)
@given(CONDITIONS)
def test_the_columns_say_of_every_pair_what_the_oracle_says(condition: Expression) -> None:
    assert by_columns(condition, SMALL).tolist() == by_oracle(condition, SMALL).tolist()


# ---- By hand --------------------------------------------------------------------------------------


def parsed(text: str) -> Expression:
    (query,) = trendfold.parse(f"RETURN COUNT(*) PATTERN A+ WHERE {text}")
    (pair,) = split(query, build(query.pattern)).adjacency
    return pair.condition


def judged(text: str, x: Any, y: Any, type_: pa.DataType | None = None) -> bool:
    """Whether a condition on A.v and NEXT(A).v is true; kernel and columns must agree."""
    arrays = {"v": pa.array([x, y], type_)}
    condition = parsed(text)
    found: list[Callable[..., np.ndarray]] = [by_kernel, by_columns]
    first, second = (judge(condition, arrays)[0, 1] for judge in found)
    assert first == second
    return bool(first)


@pytest.mark.parametrize(
    ("text", "x", "y", "expected"),
    [
        ("A.v < NEXT(A).v", 1, 2, True),
        ("A.v < NEXT(A).v", 2, 2, False),
        ("A.v < NEXT(A).v", 1, None, False),
        ("NEXT(A).v > A.v", 1, 2, True),
        ("NOT A.v < NEXT(A).v", 1, None, False),
        ("A.v + NEXT(A).v > 0", HIGH, 1, False),  # null, not a negative number
        ("A.v + NEXT(A).v < 0", HIGH, 1, False),
        ("(A.v + NEXT(A).v) IS NULL", HIGH, 1, True),
        ("(A.v + NEXT(A).v) IS NULL", HIGH, 0, False),
        ("(A.v + NEXT(A).v) IS NULL", LOW, -1, True),
        ("(A.v - NEXT(A).v) IS NULL", LOW, 1, True),
        ("(A.v - NEXT(A).v) IS NULL", -1, LOW, False),
        ("(A.v - NEXT(A).v) IS NULL", 0, LOW, True),
        ("(A.v * NEXT(A).v) IS NULL", 2**32, 2**31, True),
        ("(A.v * NEXT(A).v) IS NULL", -(2**32), 2**31, False),  # exactly the least
        ("(A.v * NEXT(A).v) IS NULL", LOW, -1, True),
        ("(A.v * NEXT(A).v) IS NULL", -1, LOW, True),
        ("(A.v * NEXT(A).v) IS NULL", LOW, 1, False),
        ("(A.v * NEXT(A).v) IS NULL", 0, LOW, False),
        ("(A.v * NEXT(A).v) IS NULL", 3_037_000_500, 3_037_000_500, True),
        ("(A.v * NEXT(A).v) IS NULL", 3_037_000_499, 3_037_000_499, False),
        ("A.v % NEXT(A).v = -1", -7, 2, True),  # the sign of the left side
        ("A.v % NEXT(A).v = 1", 7, -2, True),
        ("A.v % NEXT(A).v = 0", LOW, -1, True),
        ("(A.v % NEXT(A).v) IS NULL", 7, 0, True),
        ("A.v % NEXT(A).v < 0", LOW, 10, True),
        ("A.v % NEXT(A).v = A.v", 5, LOW, True),
        ("A.v % NEXT(A).v = 0", LOW, LOW, True),
        ("(A.v / NEXT(A).v) IS NULL", 7, 0, True),
        ("A.v / NEXT(A).v = 3.5", 7, 2, True),
        ("ABS(A.v - NEXT(A).v) = 3", 1, 4, True),
        ("(-(A.v + NEXT(A).v)) IS NULL", LOW, 0, True),
        ("ABS(A.v + NEXT(A).v) IS NULL", LOW, 0, True),
        ("A.v < NEXT(A).v", 2**53, 2**53 + 1, True),  # as doubles they would be equal
        ("A.v = NEXT(A).v", 2**53, 2**53 + 1, False),
        ("A.v <= NEXT(A).v OR A.v > NEXT(A).v + 1", 2**53 + 1, 2**53, False),
    ],
)
def test_whole_numbers_overflow_to_null_and_compare_exactly(
    text: str, x: int, y: int | None, expected: bool
) -> None:
    assert judged(text, x, y, pa.int64()) is expected


@pytest.mark.parametrize(
    ("text", "x", "y", "expected"),
    [
        ("A.v = NEXT(A).v", 0.0, -0.0, True),
        ("A.v = NEXT(A).v", float("nan"), float("nan"), False),
        ("A.v != NEXT(A).v", float("inf"), 1.0, False),
        ("(A.v * NEXT(A).v) IS NULL", 1e200, 1e200, True),
        ("(A.v / NEXT(A).v) IS NULL", 1.0, -0.0, True),
        ("A.v % NEXT(A).v = -0.5", -2.5, 2.0, True),
        ("(A.v < NEXT(A).v OR A.v IS NOT NULL)", 1.0, None, True),
        ("(A.v < NEXT(A).v AND A.v IS NULL)", 1.0, None, False),
        ("NOT (A.v < NEXT(A).v AND A.v IS NULL)", 1.0, None, True),  # false, whatever is null
    ],
)
def test_doubles_that_are_not_finite_are_null(text: str, x: float, y: float | None, expected: bool) -> None:
    assert judged(text, x, y, pa.float64()) is expected


@pytest.mark.parametrize(
    ("text", "x", "y", "expected"),
    [
        ("A.v < NEXT(A).v", "Z", "a", True),  # by bytes
        ("A.v < NEXT(A).v", "z", "é", True),
        ("A.v = NEXT(A).v", "é", "e\u0301", False),
        ("A.v = NEXT(A).v", None, None, False),
        ("A.v IN (NEXT(A).v, 'q')", "q", None, True),
        ("A.v NOT IN (NEXT(A).v, 'q')", "x", None, False),
        ("A.v BETWEEN 'a' AND NEXT(A).v", "b", "c", True),
        ("(A.v LIKE 'x%' AND NEXT(A).v LIKE '%y')", "xa", "by", True),
    ],
)
def test_strings_compare_by_bytes(text: str, x: str | None, y: str | None, expected: bool) -> None:
    assert judged(text, x, y, pa.string()) is expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_compare_to_the_last_tick(unit: str) -> None:
    now = 1_700_000_000 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert judged("A.v < NEXT(A).v", now, now + 1, pa.timestamp(unit))
    assert not judged("A.v < NEXT(A).v", now, now, pa.timestamp(unit))
