"""HAVING conditions for which doubles suffice, however large counts are."""

from __future__ import annotations

import pytest

import trendfold as tf
from trendfold.events.schema import Kind
from trendfold.plan.judged import is_decided_by_doubles

QUERY = """
RETURN g, COUNT(*) AS n, SUM(A.x) AS s, SUM(A.i) AS whole PATTERN A+ GROUP BY g HAVING {} WITHIN 1 h SLIDE 1 h
"""


def is_decided(condition: str) -> bool:
    (query,) = tf.parse(QUERY.format(condition))
    return is_decided_by_doubles(query, {"x": Kind.FLOAT, "i": Kind.INTEGER})


@pytest.mark.parametrize(
    "condition",
    [
        "COUNT(*) > 100",
        "100 <= n AND NOT COUNT(A) = 7",
        "n BETWEEN 1 AND 2251799813685248",
        "n IN (1, 2.5, -3) OR g = 4",
        "AVG(A.x) > 1 AND MAX(A.x) < 2 * MIN(A.x)",
        "LOG2(COUNT(*)) > 70",
        "g + 1 = 4",
        "s > 10 AND s / 3 < 7",
        "s / n > 4 OR s > n",
        "n > 5 AND s < 3",
        "whole IS NOT NULL",
    ],
)
def test_counts_beside_small_numbers_and_sums_of_floats_are_decided(condition: str) -> None:
    assert is_decided(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "n > 2251799813685249",
        "COUNT(*) = COUNT(A)",
        "2 * n > 10",
        "ABS(n) > 10",
        "-n < 3",
        "whole > 10",
        "whole + s > 1 AND whole * 2 > 3",
        "1 / (n - COUNT(A)) IS NULL",
        "g > n",
        "n BETWEEN 1 AND COUNT(A)",
        "n > 5 AND whole < 3",
    ],
)
def test_others_may_need_all_digits(condition: str) -> None:
    assert not is_decided(condition)
