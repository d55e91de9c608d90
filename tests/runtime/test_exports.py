"""Results as frames of pandas and polars, and as JSON."""

from __future__ import annotations

import io
import json
import math

import pyarrow as pa

import trendfold as tf
from trendfold.runtime.writing import WRITERS

EVENTS = pa.table({"type": ["A", "B", "B"], "ts": [0, 1, 2], "v": [0.5, 1.5, None]})
RESULT = tf.parse("trips: RETURN COUNT(*), AVG(B.v) PATTERN SEQ(A, B+); none: RETURN COUNT(*) PATTERN C").run(
    EVENTS
)


def test_frames_of_pandas_by_query() -> None:
    frames = RESULT.to_pandas()
    assert list(frames) == ["trips", "none"]
    assert frames["trips"][["count", "avg_B_v"]].to_numpy().tolist() == [[3.0, 1.5]]
    assert len(frames["none"]) == 0


def test_frames_of_polars_by_query() -> None:
    frames = RESULT.to_polars()
    assert frames["trips"].select("count", "avg_B_v").rows() == [(3.0, 1.5)]
    assert frames["none"].columns == RESULT["none"].column_names


def test_json_writes_whole_numbers_without_a_point() -> None:
    values = [13087.0, -0.0, 0.5, 2.0**53, math.inf, None]
    file = io.BytesIO()
    WRITERS["json"](pa.table({"x": values}), file)
    assert file.getvalue().decode().splitlines()[0] == '{"x": 13087}'
    read = [json.loads(line)["x"] for line in file.getvalue().splitlines()]
    assert read == [13087, 0, 0.5, 2.0**53, "Infinity", None]


def test_a_result_prints_its_rows_with_whole_counts() -> None:
    lines = str(RESULT).splitlines()
    assert lines[0] == "trips"
    assert lines[1].split() == ["window_start", "window_end", "count", "avg_B_v"]
    assert lines[3].split() == ["3", "1.5"]
    assert lines[5] == "none"
    many = tf.parse("RETURN id, COUNT(*) PATTERN A GROUP BY id").run(
        pa.table({"type": ["A"] * 22, "ts": range(22), "id": range(22)})
    )
    assert str(many).splitlines()[-1] == "... and 2 more rows"
