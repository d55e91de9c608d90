"""Tables of events: times of every type, types of every kind, and rejects with their reasons."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import trendfold
from trendfold.errors import InputError, RejectError
from trendfold.events.batch import EventBatch, read_batch
from trendfold.events.options import Options

NOON = datetime(2024, 2, 29, 12, 0, 0, 250_000)
NOON_US = 1_709_208_000_250_000


def batch(times: Any, type_: pa.DataType | None = None, **options: Any) -> EventBatch:
    data = times if isinstance(times, pa.Array | pa.ChunkedArray) else pa.array(times, type_)
    table = pa.table({"type": ["A"] * len(data), "ts": data})
    return read_batch(table, Options(**options))


def reasons(found: EventBatch) -> list[str]:
    return found.rejects["reason"].to_pylist()


# ---- Times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "micros"), [("s", 7_000_000), ("ms", 7_000), ("us", 7)])
@pytest.mark.parametrize("type_", [pa.int8(), pa.int32(), pa.uint16(), pa.int64(), pa.uint64()])
def test_whole_numbers_are_ticks_of_the_time_unit(type_: pa.DataType, unit: str, micros: int) -> None:
    assert batch([7, 0], type_, time_unit=unit).time.tolist() == [micros, 0]


@pytest.mark.parametrize(("unit", "micros"), [("s", 1_250_001), ("ms", 1_250), ("us", 1)])
def test_float_times_are_rounded_to_microseconds(unit: str, micros: int) -> None:
    assert batch([1.2500006], pa.float64(), time_unit=unit).time.tolist() == [micros]


def test_negative_times_are_times() -> None:
    assert batch([-3], pa.int64()).time.tolist() == [-3_000_000]
    assert batch([-0.5], pa.float64()).time.tolist() == [-500_000]
    assert batch([datetime(1969, 12, 31, 23, 59, 59, 999_999)]).time.tolist() == [-1]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30"])
@pytest.mark.parametrize(("unit", "lost"), [("s", 250_000), ("ms", 0), ("us", 0), ("ns", 0)])
def test_timestamps_of_every_unit_and_zone_are_microseconds(unit: str, lost: int, zone: str | None) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ticks = NOON_US * per_second // 10**6
    found = batch(pa.array([ticks, None], pa.int64()).cast(pa.timestamp(unit, zone)))
    assert found.time.tolist() == [NOON_US - lost]
    assert reasons(found) == ["null time"]


def test_nanoseconds_are_cut_to_microseconds_and_counted() -> None:
    ticks = [NOON_US * 1000, NOON_US * 1000 + 1, -1, -1000, None]
    found = batch(pa.array(ticks, pa.int64()).cast(pa.timestamp("ns")))
    assert found.time.tolist() == [NOON_US, NOON_US, -1, -1]
    assert found.findings.cut == 2
    text = ["2024-02-29T12:00:00.250000999Z", "2024-02-29 12:00:00.250000000", "1969-12-31T23:59:59.9999999"]
    found = batch(text)
    assert found.time.tolist() == [NOON_US, NOON_US, -1]
    assert found.findings.cut == 2


@pytest.mark.parametrize("type_", [pa.date32(), pa.date64()])
def test_dates_are_their_midnight(type_: pa.DataType) -> None:
    day = 86_400_000_000
    assert batch([date(1970, 1, 2), date(1969, 12, 31)], type_).time.tolist() == [day, -day]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-29T12:00:00.25", NOON_US),
        ("2024-02-29 12:00:00.25", NOON_US),
        ("2024-02-29T12:00:00.250000Z", NOON_US),
        ("2024-02-29T12:00:00.25+00:00", NOON_US),
        ("2024-02-29T13:00:00.25+01:00", NOON_US),
        ("2024-02-29T06:30:00.25-05:30", NOON_US),
        ("2024-02-29T13:00:00.25+0100", NOON_US),
        ("2024-02-29T13:00:00.25+01", NOON_US),
        ("2024-02-29T12:00:00", NOON_US - 250_000),
        ("2024-02-29T12:00", NOON_US - 250_000),
        ("2024-02-29", NOON_US - 250_000 - 43_200_000_000),
        ("1969-12-31T23:59:59.999999", -1),
    ],
)
def test_iso_strings_are_utc_unless_they_say_otherwise(text: str, expected: int) -> None:
    found = batch([text])
    assert found.time.tolist() == [expected]
    assert reasons(found) == []


@pytest.mark.parametrize(
    "text",
    ["", " ", "noon", "2024-02-30", "2023-02-29T00:00:00", "2024-13-01", "2024-02-29T25:00", "29.02.2024",
     "2024-02-29T12:61", "12h", "2024-02-29T12:00:00+99:00", "2024-02-29T12:00:00 Z x"],
)  # fmt: skip
def test_text_that_is_no_time_is_a_reject(text: str) -> None:
    found = batch(["2024-02-29", text, None, "2024-03-01"])
    assert len(found) == 2
    assert reasons(found) == ["unparsable time", "null time"]


def test_text_that_is_a_number_is_a_time_in_its_unit() -> None:
    found = batch(
        ["1709208000.25", "2024-02-29T12:00:00.25", " 7 ", "+7", "-1e3", "1e400", "99999999999999999999", "x"]
    )
    assert found.time.tolist() == [NOON_US, NOON_US, 7_000_000, 7_000_000, -1_000_000_000]
    assert reasons(found) == ["time out of range"] * 2 + ["unparsable time"]
    assert batch(["9007199254740993"], time_unit="us").time.tolist() == [9007199254740993]


def test_strings_with_and_without_offsets_may_be_mixed() -> None:
    found = batch(["2024-02-29T12:00:00.25", "2024-02-29T13:00:00.25+01:00", "2024-02-29T12:00:00.25Z"])
    assert found.time.tolist() == [NOON_US] * 3


@pytest.mark.parametrize(
    "type_", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_times_may_be_any_kind_of_string(type_: pa.DataType) -> None:
    assert batch(pa.array(["2024-02-29T12:00:00.25"]).cast(type_)).time.tolist() == [NOON_US]


def test_floats_that_are_not_finite_are_null_times() -> None:
    found = batch([1.0, math.nan, math.inf, None], pa.float64())
    assert found.time.tolist() == [1_000_000]
    assert reasons(found) == ["null time"] * 3


def test_numbers_past_the_range_of_times_are_rejects() -> None:
    assert reasons(batch([2**62, 1, -(2**63)], pa.int64())) == ["time out of range"] * 2
    assert reasons(batch([1e300, 1.0], pa.float64())) == ["time out of range"]


@pytest.mark.parametrize("data", [pa.array([True]), pa.array([[1]]), pa.array([{"a": 1}])])
def test_a_column_that_holds_no_times_is_an_error(data: pa.Array) -> None:
    with pytest.raises(InputError, match="'ts' \\(time_column\\)"):
        batch(data)


def test_a_time_is_the_same_however_it_is_written() -> None:
    zoned = NOON.replace(tzinfo=UTC)
    columns = [
        pa.array([NOON_US / 1e6]),
        pa.array([NOON]),
        pa.array([zoned.astimezone(timezone(timedelta(hours=5, minutes=30)))]),
        pa.array([NOON.isoformat()]),
        pa.array([zoned.isoformat()]),
    ]
    assert [batch(column).time.tolist() for column in columns] == [[NOON_US]] * len(columns)


# ---- Types ----------------------------------------------------------------------------------------


def types_of(data: pa.Array | pa.ChunkedArray) -> list[str]:
    found = read_batch(pa.table({"type": data, "ts": range(len(data))}), Options())
    return [found.type_names[code] for code in found.type_code]


@pytest.mark.parametrize(
    "data",
    [
        pa.array(["A", "B", "A"]),
        pa.array(["A", "B", "A"], pa.large_string()),
        pa.array(["A", "B", "A"], pa.string_view()),
        pa.array(["A", "B", "A"]).dictionary_encode(),
        pa.chunked_array([["A"], ["B", "A"], []], pa.string()),
        pa.chunked_array([pa.array(["A"]).dictionary_encode(), pa.array(["B", "A"]).dictionary_encode()]),
    ],
    ids=lambda data: str(data.type),
)
def test_types_are_strings_however_they_are_stored(data: pa.Array) -> None:
    assert types_of(data) == ["A", "B", "A"]


def test_a_type_column_that_is_not_a_string_is_cast() -> None:
    assert types_of(pa.array([3, 1, 3])) == ["3", "1", "3"]
    assert types_of(pa.array([3, 1, 3]).dictionary_encode()) == ["3", "1", "3"]
    assert types_of(pa.array([True, False])) == ["true", "false"]


def test_numbers_as_types_match_quoted_names() -> None:
    events = pa.table({"type": [1, 2], "ts": [1, 2]})
    found = trendfold.parse('QUERY q RETURN COUNT(*) PATTERN SEQ("1", "2")').run(events)["q"]
    assert found["count"].to_pylist() == [1]


# ---- Rejects --------------------------------------------------------------------------------------


def test_rejects_keep_their_columns_and_say_why() -> None:
    table = pa.table(
        {
            "type": ["A", None, "A", "A", None],
            "ts": pa.array([1, 2, None, 4, None], pa.int64()),
            "seq": pa.array([1, 2, 3, None, None], pa.int64()),
            "v": [10, 20, 30, 40, 50],
        }
    )
    found = read_batch(table, Options(order_column="seq"))
    assert found.rejects.select(["v", "reason"]).to_pylist() == [
        {"v": 20, "reason": "null type"},
        {"v": 30, "reason": "null time"},
        {"v": 40, "reason": "null order"},
        {"v": 50, "reason": "null type"},
    ]
    assert found.table["v"].to_pylist() == [10]
    assert (len(found), found.time.tolist()) == (1, [1_000_000])


def test_the_reason_does_not_hide_a_column_of_that_name() -> None:
    table = pa.table({"type": pa.array([None], pa.string()), "ts": [1], "reason": ["mine"]})
    found = read_batch(table, Options()).rejects
    assert found.column_names == ["type", "ts", "reason", "_reason"]
    assert found["_reason"].to_pylist() == ["null type"]


def test_a_run_goes_on_without_its_rejects_and_counts_them() -> None:
    table = pa.table({"type": ["A", None, "A"], "ts": [1, 2, 3]})
    result = trendfold.parse("QUERY q RETURN COUNT(*) PATTERN A+").run(table)
    assert result["q"]["count"].to_pylist() == [3]
    assert (result.summary.events, result.summary.rejects) == (3, 1)
    assert result.rejects["reason"].to_pylist() == ["null type"]


def test_a_run_may_stop_at_the_first_reject() -> None:
    table = pa.table({"type": ["A", "A", None], "ts": [1, None, 3]})
    workload = trendfold.parse("RETURN COUNT(*) PATTERN A+")
    with pytest.raises(RejectError, match=r"row 1 .*null time"):
        workload.run(table, on_reject="fail")
    assert workload.run(table.slice(0, 1), on_reject="fail").summary.rejects == 0


def test_without_an_order_column_a_null_there_is_no_reject() -> None:
    table = pa.table({"type": ["A"], "ts": [1], "seq": pa.nulls(1, pa.int64())})
    assert len(read_batch(table, Options())) == 1


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (pa.array([3, 1, 2]), 7),
        (pa.array([0.5, -1.5, 0.25]), 7),
        (pa.array(["c", "a", "b"]), 7),
        (pa.array([2**63 - 1, -(2**63), 0]), 7),
        (pa.array([1, 1, 2]), 5),
        (pa.array([datetime(2024, 1, 3), datetime(2024, 1, 1), datetime(2024, 1, 2)]), 7),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_an_order_column_may_be_of_any_type_that_sorts(order: pa.Array, expected: int) -> None:
    table = pa.table({"type": ["A"] * 3, "ts": [1, 1, 1], "n": order})
    found = trendfold.parse("QUERY q RETURN COUNT(*) PATTERN A+").run(table, order_column="n")["q"]
    assert found["count"].to_pylist() == [expected]


# ---- Columns that are not there -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"type_column": "typ"}, "there is no column 'typ' (type_column); did you mean 'type'?"),
        ({"time_column": "tz"}, "there is no column 'tz' (time_column); did you mean 'ts'?"),
        ({"order_column": "sequence"}, "there is no column 'sequence' (order_column)"),
        ({"id_column": "TYPE"}, "there is no column 'TYPE' (id_column); did you mean 'type'?"),
    ],
)
def test_a_missing_column_is_named_with_the_nearest(options: dict[str, str], hint: str) -> None:
    table = pa.table({"type": ["A"], "ts": [1]})
    with pytest.raises(InputError) as caught:
        read_batch(table, Options(**options))
    assert hint in str(caught.value)


def test_where_no_column_was_named_the_hint_says_what_to_name() -> None:
    table = pa.table({"case": [1], "activity": ["A"], "time": [1], "TS": [1]})
    with pytest.raises(InputError) as caught:
        read_batch(table, Options())
    assert str(caught.value).splitlines() == [
        "there is no column 'type' (type_column); "
        "name the column that has the type of each event: case, activity, time, TS",
        "there is no column 'ts' (time_column); did you mean 'TS'?",
    ]


def test_all_missing_columns_are_named_together() -> None:
    with pytest.raises(InputError) as caught:
        read_batch(pa.table({"kind": ["A"], "when": [1]}), Options())
    assert str(caught.value).count("there is no column") == 2


NESTED = [pa.array([["A"]]), pa.array([{"a": "A"}]), pa.array([["A"]], pa.large_list(pa.string()))]


@pytest.mark.parametrize("data", NESTED, ids=lambda data: str(data.type))
@pytest.mark.parametrize("option", ["type_column", "order_column", "id_column"])
def test_a_nested_column_is_neither_type_nor_order_nor_id(data: pa.Array, option: str) -> None:
    table = pa.table({"type": ["A"], "ts": [1], "x": data})
    with pytest.raises(InputError, match=rf"column 'x' \({option}\) is of type .*(list|struct)<"):
        trendfold.parse("RETURN COUNT(*) PATTERN A").run(table, **{option: "x"})


def test_a_column_that_is_there_twice_is_an_error() -> None:
    table = pa.table([pa.array(["A"]), pa.array([1]), pa.array([2])], ["type", "ts", "ts"])
    with pytest.raises(InputError, match="'ts' exists more than once"):
        read_batch(table, Options())


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (["type;ts"], "the file seems to be separated by ';': pass csv={'delimiter': ';'}"),
        (["type\tts"], "separated by '\\\\t'"),
        (["A", "1"], "the first line looks like data: pass csv={'header': False"),
        (["A", "2024-01-01 10:00"], "the first line looks like data"),
    ],
)
def test_columns_of_a_misread_text_file_come_with_what_to_do(names: list[str], hint: str) -> None:
    with pytest.raises(InputError) as caught:
        read_batch(pa.table({name: ["x"] for name in names}), Options())
    assert hint.replace("\\\\", "\\") in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("time_unit", "min"), ("on_reject", "drop")])
def test_an_unknown_option_names_what_to_choose(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{name} '{value}'; choose"):
        Options(**{name: value})


def test_a_table_without_rows_or_chunks_has_no_events() -> None:
    schema = pa.schema([("type", pa.string()), ("ts", pa.int64())])
    found = read_batch(schema.empty_table(), Options())
    assert (len(found), found.rejects.num_rows) == (0, 0)
    nothing = pa.table({"type": pa.chunked_array([], pa.string()), "ts": pa.chunked_array([], pa.int64())})
    assert len(read_batch(nothing, Options())) == 0


def test_columns_are_read_once() -> None:
    found = batch([1, 2], pa.int64())
    assert found.column("ts") is found.column("ts")
    assert np.array_equal(found.column("ts").values, [1, 2])


def test_types_that_are_no_text_are_told_of() -> None:
    table = pa.table({"type": pa.array([[1], [2]], pa.list_(pa.int64())), "ts": [1, 2]})
    with pytest.raises(InputError, match=r"column 'type' \(type_column\) is of type list<"):
        read_batch(table, Options())


def test_a_signalling_nan_is_null_like_any_other() -> None:
    signalling = np.array([0x7FF0000000000001], np.uint64).view(np.float64)
    table = pa.table({"type": ["A"], "ts": [1], "x": pa.array(signalling)})
    assert not read_batch(table, Options()).column("x").valid.any()
