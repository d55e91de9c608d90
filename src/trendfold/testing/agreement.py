"""What a query means for a small stream, by the oracle, and asserts that compare results with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, TypeAlias

import pyarrow as pa

from trendfold.api import Workload, parse
from trendfold.query import to_text
from trendfold.query.nodes import Matches
from trendfold.runtime.result import to_table
from trendfold.testing import oracle

Events: TypeAlias = Any
"""A pyarrow Table, a pandas or polars frame, or a list of rows as dictionaries."""
Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def expected_rows(
    query: str,
    events: Events,
    *,
    order_column: str | None = None,
    type_column: str = "type",
    time_column: str = "ts",
) -> list[Row]:
    """The rows of a query with aggregates, found by building every trend: for small streams only.

    More than 500 events, or 5 million trends, are an OracleError. Times are numbers of seconds, or
    timestamps, which become seconds since 1970, in the rows too.

    >>> from trendfold.testing import expected_rows
    >>> events = [{"type": "A", "ts": 1}, {"type": "B", "ts": 2}, {"type": "B", "ts": 3}]
    >>> expected_rows("RETURN COUNT(*) PATTERN SEQ(A, B+)", events)
    [{'window_start': None, 'window_end': None, 'count': 3}]
    """
    return oracle.rows(query, _rows(events, time_column), order_column, type_column, time_column)


def expected_trends(
    query: str,
    events: Events,
    *,
    order_column: str | None = None,
    type_column: str = "type",
    time_column: str = "ts",
) -> list[list[tuple[int, str]]]:
    """The trends behind those rows, before HAVING: lists of (number of the row in the input, alias).

    >>> from trendfold.testing import expected_trends
    >>> events = [{"type": "A", "ts": 1}, {"type": "B", "ts": 2}, {"type": "B", "ts": 3}]
    >>> expected_trends("RETURN COUNT(*) PATTERN SEQ(A, B+) SEMANTICS next", events)
    [[(0, 'A'), (1, 'B')], [(0, 'A'), (1, 'B'), (2, 'B')]]
    """
    found = oracle.trends(query, _rows(events, time_column), order_column, type_column, time_column)
    return [list(trend) for trends in found.values() for trend in trends]


def expected_matches(
    query: str,
    events: Events,
    *,
    order_column: str | None = None,
    type_column: str = "type",
    time_column: str = "ts",
    id_column: str | None = None,
) -> list[Row]:
    """The rows of a RETURN MATCHES query; all of them, whatever its LIMIT."""
    rows = _rows(events, time_column)
    return oracle.matches(query, rows, order_column, type_column, time_column, id_column)


def assert_rows_equal(found: Any, expected: Any, *, any_order: bool = False) -> None:
    """Fail, with the first difference, unless two results have the same rows: tables, frames or lists.

    Numbers are equal to one part in 10^9, whether whole or not; nulls equal nulls only.

    any_order  whether rows may come in any order

    >>> from trendfold.testing import assert_rows_equal
    >>> assert_rows_equal([{"count": 3.0}], [{"count": 3}])
    """
    ours, theirs = _in_seconds(_listed(found)), _in_seconds(_listed(expected))
    if any_order:
        ours, theirs = sorted(ours, key=_sort_key), sorted(theirs, key=_sort_key)
    for number, (row, wanted) in enumerate(zip_longest(ours, theirs)):
        if difference := _difference(row, wanted):
            raise AssertionError(
                f"row {number}: {difference}\nfound {len(ours)} rows, expected {len(theirs)}:\n"
                f"  found    {row}\n  expected {wanted}"
            )


def assert_agrees(
    workload: Workload | str,
    events: Events,
    *,
    order_column: str | None = None,
    type_column: str = "type",
    time_column: str = "ts",
    id_column: str | None = None,
    **options: Any,
) -> None:
    """Fail unless `workload.run(events, **options)` gives the rows that the oracle finds by brute force.

    options  as for `run`, such as `engine="spark"` or `strategy="greta"`

    >>> from trendfold.testing import assert_agrees, random_events
    >>> for seed in range(20):
    ...     assert_agrees("RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B+) WHERE [user]", random_events(seed))
    """
    asked = parse(workload) if isinstance(workload, str) else workload
    columns: dict[str, Any] = {
        "order_column": order_column,
        "type_column": type_column,
        "time_column": time_column,
    }
    rows = _rows(events, time_column)
    result = asked.run(_to_arrow(events), id_column=id_column, **columns, **options)
    for query in asked:
        text, found = to_text(query), to_table(result[query.name])
        is_matches = isinstance(query.returns, Matches)
        try:
            if is_matches and query.limit is not None:
                _assert_among(
                    _listed(found), expected_matches(text, rows, id_column=id_column, **columns), query.limit
                )
            elif is_matches:
                assert_rows_equal(
                    found, expected_matches(text, rows, id_column=id_column, **columns), any_order=True
                )
            else:
                assert_rows_equal(found, oracle.rows(text, rows, **columns))
        except AssertionError as error:
            raise AssertionError(
                f"query {query.name!r} disagrees with the oracle in {error}\n{text}\nevents = {rows}"
            ) from None


def _assert_among(found: list[Row], expected: list[Row], limit: int) -> None:
    """LIMIT keeps any matches, as many as there are up to it."""
    left = [_sort_key(row) for row in _in_seconds(expected)]
    wanted = min(limit, len(left))
    if len(found) != wanted:
        raise AssertionError(f"the number of matches: {len(found)} instead of {wanted}")
    for number, row in enumerate(_in_seconds(found)):
        if (key := _sort_key(row)) not in left:
            raise AssertionError(f"row {number}: no such match is expected: {row}")
        left.remove(key)


# ---------------------------------------------------------------- rows


def _rows(events: Events, time_column: str) -> list[Row]:
    """Events as rows whose times are seconds; the oracle would drop any other, so that is an error."""
    rows: list[Row] = _in_seconds(_listed(events))
    for number, row in enumerate(rows):
        time = row.get(time_column)
        if time is not None and (isinstance(time, bool) or not isinstance(time, int | float)):
            raise oracle.OracleError(f"row {number} has the time {time!r}; give seconds, or timestamps")
    return rows


def _listed(rows: Any) -> list[Row]:
    if isinstance(rows, list):
        return rows
    found: list[Row] = _to_arrow(rows).to_pylist()
    return found


def _to_arrow(rows: Any) -> pa.Table:
    if isinstance(rows, list):
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: [row.get(name) for row in rows] for name in names})
    if isinstance(rows, pa.Table):
        return rows
    if hasattr(rows, "to_arrow"):  # polars
        return rows.to_arrow()
    return pa.Table.from_pandas(rows, preserve_index=False)


def _in_seconds(value: Any) -> Any:
    """Timestamps as seconds since 1970, wherever they are."""
    if isinstance(value, datetime):
        seconds = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
        micros = (seconds.days * 86_400 + seconds.seconds) * 1_000_000 + seconds.microseconds
        return micros // 1_000_000 if micros % 1_000_000 == 0 else micros / 1_000_000
    if isinstance(value, Mapping):
        return {name: _in_seconds(each) for name, each in value.items()}
    return [_in_seconds(each) for each in value] if isinstance(value, list) else value


def _sort_key(row: Row) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def _difference(row: Row | None, wanted: Row | None) -> str:
    """How a row differs from the expected one; empty if it does not."""
    if row is None or wanted is None:
        return "it is missing" if row is None else "it is not expected"
    if list(row) != list(wanted):
        return f"columns {list(row)} instead of {list(wanted)}"
    return next(_differences(row, wanted), "")


def _differences(row: Row, wanted: Row) -> Iterator[str]:
    for name, value in row.items():
        if not _same(value, wanted[name]):
            yield f"{name} is {value!r} instead of {wanted[name]!r}"


def _same(found: Any, expected: Any) -> bool:
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_same(found[name], expected[name]) for name in found)
    numbers = int | float
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, numbers) and isinstance(expected, numbers):
        return found == expected or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == expected)
