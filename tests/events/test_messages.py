"""Messages of one JSON object each, such as Kafka's: columns, and what is told of those that are none."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from trendfold.events.messages import Messages, read_messages
from trendfold.events.text_files import read_schema

TYPES = read_schema("type string, ts timestamp, v bigint, day date, speed double")


def read(*values: bytes | None) -> Messages:
    return read_messages(pa.array(values, pa.binary()), TYPES)


def rows(messages: Messages) -> list[dict[str, Any]]:
    return messages.table.to_pylist()


def test_declared_fields_are_columns_and_others_are_left_alone() -> None:
    found = read(
        b'{"type": "A", "ts": "2024-01-01T00:00:00", "v": 1, "day": "2024-01-02", "more": [1, {"a": "b"}]}',
        b'{"type": "B", "ts": "2024-01-01T02:00:00.5+02:00", "speed": 2, "more": "text"}',
    )
    assert found.reason.null_count == found.text.null_count == 2
    assert found.table.schema.types == list(TYPES.values())
    first, second = rows(found)
    assert (first["type"], first["ts"].isoformat(), first["v"]) == ("A", "2024-01-01T00:00:00+00:00", 1)
    assert (second["ts"].isoformat(), second["v"], second["speed"]) == (
        "2024-01-01T00:00:00.500000+00:00",
        None,
        2.0,
    )


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"nope", "not a JSON object: Expecting value"),
        (b"", "not a JSON object"),
        (None, "no value"),
        (b"[1]", "not a JSON object: it is a list"),
        (b'{"type": "A"} x', "not a JSON object: Extra data"),
        (b'{"type": "A"}{"type": "B"}', "not a JSON object: Extra data"),
        (b'{"type": "A", "type": "B"}', "the key 'type' occurs twice"),
        (b'{"type": "A\n"}', "Invalid control character"),
        (b'{"type": "\\\xff"}', "not UTF-8"),
        (b'{"v": "x"}', "column 'v' holds 'x', which is not a bigint"),
        (b'{"v": 1.5}', "column 'v' holds 1.5, which is not a bigint"),
        (b'{"v": 99999999999999999999}', "which is not a bigint"),
        (b'{"ts": "yesterday"}', "column 'ts' holds 'yesterday', which is not a timestamp"),
        (b'{"day": "2024-13-01"}', "column 'day' holds '2024-13-01', which is not a date"),
        (b'{"a":' * 100_000, "not a JSON object"),
    ],
)
def test_a_message_that_is_no_event_is_told_of_with_its_text(message: bytes | None, reason: str) -> None:
    good = b'{"type": "A", "ts": "2024-01-01", "v": 7}'
    found = read(good, message, good)
    assert [row["v"] for row in rows(found)] == [7, None, 7]
    assert set(rows(found)[1].values()) == {None}
    assert reason in found.reason[1].as_py()
    text = None if message is None else message.decode("utf-8", "backslashreplace")
    assert found.text.to_pylist() == [None, text, None]


def test_two_halves_in_two_messages_never_become_one_object() -> None:
    found = read(b'{"type": "A"', b'} {"type": "B"}')
    assert found.reason.null_count == 0
    found = read(b'{"type": "A", "v": {}', b'{"type": "B"}')
    assert found.reason.is_null().to_pylist() == [False, True]


def test_an_object_over_several_lines_is_one_event() -> None:
    found = read(json.dumps({"type": "A", "v": 1}, indent=2).encode(), b'{"type": "B", "v": 2}')
    assert [(row["type"], row["v"]) for row in rows(found)] == [("A", 1), ("B", 2)]


def test_one_bad_message_among_many_leaves_the_others_as_they_are() -> None:
    good = [json.dumps({"type": "A", "v": i}).encode() for i in range(5_000)]
    found = read(*good[:3_000], b"bad", *good[3_000:])
    assert found.table.column("v").to_pylist() == [*range(3_000), None, *range(3_000, 5_000)]
    assert found.reason.null_count == 5_000
