"""HAVING conditions for which doubles suffice, however large counts are."""

from __future__ import annotations

import pytest

import trendfold as tf
from trendfold.plan.judged import is_decided_by_doubles

QUERY = "RETURN g, COUNT(*) AS n, SUM(A.x) AS s PATTERN A+ GROUP BY g HAVING {} WITHIN 1 h SLIDE 1 h"


def is_decided(condition: str) -> bool:
    (query,) = tf.parse(QUERY.format(condition))
    return is_decided_by_doubles(query)


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
    ],
)
def test_counts_beside_small_numbers_are_decided(condition: str) -> None:
    assert is_decided(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "n > 2251799813685249",
        "COUNT(*) = COUNT(A)",
        "2 * n > 10",
        "ABS(n) > 10",
        "-n < 3",
        "s > 10",
        "g > n",
        "n BETWEEN 1 AND COUNT(A)",
        "n > 5 AND s < 3",
    ],
)
def test_others_may_need_all_digits(condition: str) -> None:
    assert not is_decided(condition)
