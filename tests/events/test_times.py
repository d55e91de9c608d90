"""Times in a format of their own, numbers that are no such times, and what is told when rows are rejected."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import trendfold as tf
from trendfold.errors import InputError
from trendfold.events.findings import Findings
from trendfold.events.times import read_format, suggested_formats
from trendfold.runtime.result import Result

WORKLOAD = tf.parse("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 h SLIDE 1 h")


def read(written: str, *texts: str | None) -> list[str | None]:
    times = read_format(written).read(pa.array(texts, pa.large_string()))
    return [
        str(np.datetime64(int(micros), "us")).removesuffix(".000000") if is_time else None
        for micros, is_time in zip(times.micros, times.is_time, strict=True)
    ]


def run(times: Any, types: str = "AB", **options: Any) -> Result:
    table = pa.table({"type": list(types), "ts": times})
    return WORKLOAD.run(table, **options)


# ---- Formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "text", "expected"),
    [
        ("%d/%m/%Y %H:%M", "31/12/2023 10:00", "2023-12-31T10:00:00"),
        ("%d/%m/%Y %H:%M", "1/2/2023 9:05", "2023-02-01T09:05:00"),
        ("%Y%m%d%H%M", "200802010900", "2008-02-01T09:00:00"),
        ("%m/%d/%y %I:%M:%S %p", "12/31/99 12:00:01 am", "1999-12-31T00:00:01"),
        ("%m/%d/%y %I:%M %p", "12/31/68 11:59 PM", "2068-12-31T23:59:00"),
        ("%d %b %Y", "29 feb 2024", "2024-02-29T00:00:00"),
        ("%A, %d %B %Y", "Thursday, 29 February 2024", "2024-02-29T00:00:00"),
        ("%Y-%j", "2024-366", "2024-12-31T00:00:00"),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2024-02-29T12:00:00.25+01:30", "2024-02-29T10:30:00.250000"),
        ("%Y-%m-%dT%H:%M:%S%z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59"),
        ("%d/%b/%Y:%H:%M:%S %z", "10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36"),
        ("%Y (100%%)", "2024 (100%)", "2024-01-01T00:00:00"),
    ],
)
def test_a_format_reads_what_strptime_reads(written: str, text: str, expected: str) -> None:
    assert read(written, text) == [expected]


def test_what_does_not_fit_a_format_is_no_time() -> None:
    texts = ["31/02/2023", "29/02/2023", "32/01/2023", "1/13/2023", "31/12/2023 ", "", None, "31.12.2023"]
    assert read("%d/%m/%Y", *texts) == [None] * len(texts)
    assert read("%Y-%j", "2023-366") == [None]


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ("%d/%m", "has no year"),
        ("", "has no year"),
        ("%Y-%Q", "has the unknown directive '%Q'"),
        ("%Y%", "has the unknown directive '%'"),
        ("%Y %Y", "has '%Y' twice"),
        ("%Y %y", "has both '%Y' and '%y'"),
        ("%Y %H %I", "has both '%H' and '%I'"),
    ],
)
def test_a_wrong_format_says_what_is_wrong(written: str, wrong: str) -> None:
    with pytest.raises(InputError, match="time_format") as caught:
        run(["2024", "2024"], time_format=written)
    assert wrong in str(caught.value)


@pytest.mark.parametrize(
    "times",
    [
        pa.array(["200802010900", "200802010901"]),
        pa.array([200802010900, 200802010901]),
        pa.array(["200802010900", "200802010901"]).dictionary_encode(),
    ],
    ids=lambda times: str(times.type),
)
def test_a_format_reads_text_and_whole_numbers(times: pa.Array) -> None:
    found = run(times, time_format="%Y%m%d%H%M")
    assert found["q"].column("window_start").to_pylist() == [datetime(2008, 2, 1, 9, tzinfo=UTC)]
    assert found.summary.warnings == ()


def test_a_format_is_not_for_times_that_are_times_already() -> None:
    stamps = pa.array([1, 2], pa.timestamp("us"))
    for times in (stamps, pa.array([1.5, 2.5])):
        with pytest.raises(InputError, match="time_format is for text or whole numbers; leave it out"):
            run(times, time_format="%Y")


@pytest.mark.parametrize(
    ("example", "formats"),
    [
        ("31/12/2023 10:00", ["%d/%m/%Y %H:%M"]),
        ("03/04/2023", ["%d/%m/%Y", "%m/%d/%Y"]),
        ("12/31/2023 10:00 PM", ["%m/%d/%Y %I:%M %p"]),
        ("Sun, 31 Dec 2023 10:00:00 +0000", ["%a, %d %b %Y %H:%M:%S %z"]),
        ("200802010900", ["%Y%m%d%H%M"]),
        ("noon", []),
    ],
)
def test_common_formats_are_suggested(example: str, formats: list[str]) -> None:
    assert suggested_formats(example) == formats


# ---- What is told ---------------------------------------------------------------------------------


def test_that_all_rows_are_rejected_is_said_first_with_the_option_that_helps() -> None:
    found = run(["31/12/2023 10:00", "31/12/2023 10:01"])
    told = (
        "2 of 2 rows are rejected, because 'ts' holds '31/12/2023 10:00', which is not an ISO 8601 time; "
        "pass time_format='%d/%m/%Y %H:%M'"
    )
    assert found.summary.warnings[0] == told
    assert str(found.summary).splitlines()[0] == f"warning: {told}"
    assert found.summary.has_no_events
    assert dict(found.summary.reject_reasons) == {"unparsable time": 2}
    assert run(["31/12/2023 10:00"] * 2, time_format="%d/%m/%Y %H:%M").summary.rejects == 0


@pytest.mark.parametrize(
    ("times", "options", "why"),
    [
        (["x", "y", "2024-01-01"], {}, "because 'ts' holds 'x'.*pass time_format, written as"),
        (["x", "y", None], {}, "3 of 3 rows are rejected, most of them because 'ts' holds 'x'"),
        ([None, None, "2024-01-01"], {}, "'ts' is null; is another column the time_column\\?"),
        ([1_700_000_000_000_000] * 3, {}, "out of range in time_unit='s'; pass time_unit='us'"),
        ([1_700_000_000_000_000_000] * 3, {}, "if it counts nanoseconds, divide it by 1,000"),
        (["2024"] * 3, {"time_format": "%d.%m.%Y"}, "time_format='%d.%m.%Y' does not read"),
    ],
)
def test_most_rows_rejected_come_with_a_reason(times: list[Any], options: dict[str, Any], why: str) -> None:
    summary = run(times, "AAA", **options).summary
    assert re.search(why, summary.warnings[0])
    assert str(summary).startswith("warning: ")


def test_half_of_the_rows_is_not_most_of_them() -> None:
    summary = run(["x", "2024-01-01"]).summary
    assert not any("rejected" in warning for warning in summary.warnings)
    assert not summary.has_no_events


def test_no_row_at_all_is_no_failure() -> None:
    summary = run(pa.array([], pa.string()), "").summary
    assert not summary.has_no_events
    assert str(summary).startswith("0 events")


def test_nanoseconds_of_pandas_are_events_and_the_cut_is_told() -> None:
    times = pd.to_datetime(["2024-01-01 10:00:00.123456789", "2024-01-01 10:00:01"], format="ISO8601")
    found = WORKLOAD.run(pd.DataFrame({"type": ["A", "B"], "ts": times}))
    assert found["q"].column("count").to_pylist() == [1]
    assert found.summary.warnings == ("1 time is finer than a microsecond and was truncated to microseconds",)


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([200802010900, 200812312359], "200812312359 is read as 8333-.*pass time_format='%Y%m%d%H%M'"),
        ([20080201, 20081231], "look like dates: .*pass time_format='%Y%m%d'"),
        ([1_700_000_000_000, 1_700_000_000_001], "after the year 2200: .*pass time_unit='ms'"),
        ([200802010900.0, 200812312359.0], "pass time_format='%Y%m%d%H%M'"),
        (["200802010900", "200812312359"], "pass time_format='%Y%m%d%H%M'"),
    ],
)
def test_numbers_that_are_hardly_such_times_are_told_of(numbers: list[Any], told: str) -> None:
    (warning, *_) = run(numbers).summary.warnings
    assert re.search(told, warning)


@pytest.mark.parametrize("numbers", [[1, 2], [1_700_000_000, 1_700_000_001], [20_000_000, 20_000_060]])
def test_numbers_that_may_be_such_times_are_not(numbers: list[int]) -> None:
    assert run(numbers).summary.warnings == ()


def test_findings_of_parts_add_up_and_travel_as_json() -> None:
    one = Findings({"null time": 1}, {"null time": "None"}, 2, 3, {"%Y%m%d": 3}, 1, ("20240101", "1970"))
    other = Findings({"null time": 2, "null type": 1}, {"null type": "x"}, numbers=1)
    both = one + other
    assert both.rejects == {"null time": 3, "null type": 1}
    assert (both.cut, both.numbers, both.far, both.odd) == (2, 4, 1, ("20240101", "1970"))
    assert Findings.from_json(both.to_json()) == both
