"""For tests of queries: what one means, by brute force, random streams, and asserts (docs/testing.md).

The oracle enumerates every trend of a small stream and shares no code with the engines, so that both can be
compared.
"""

from trendfold.testing.agreement import (
    assert_agrees,
    assert_rows_equal,
    expected_matches,
    expected_rows,
    expected_trends,
)
from trendfold.testing.oracle import OracleError
from trendfold.testing.oracle_syntax import OracleSyntaxError
from trendfold.testing.random_streams import random_events

__all__ = [
    "OracleError",
    "OracleSyntaxError",
    "assert_agrees",
    "assert_rows_equal",
    "expected_matches",
    "expected_rows",
    "expected_trends",
    "random_events",
]
