"""Reading whatever a user hands over: what comes back, what is rejected, and what each error says."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trendfold as tf
from trendfold.errors import InputError, QueryError, RejectError, TrendfoldError
from trendfold.events.sources import Files, Source, _blame, list_files, read
from trendfold.events.text_files import CsvOptions, read_schema

ROWS = pa.table({"type": ["A", "B", "B"], "ts": [1, 2, 3], "x": [1.5, 2.5, None], "other": ["p", "q", "r"]})
COLUMNS = {"type", "ts", "x"}
SEQ = "RETURN COUNT(*) PATTERN SEQ(A, B+)"


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def reasons(source: Source) -> list[str]:
    return source.rejects.column("reason").to_pylist()


def count(data: object, query: str = SEQ, **options: object) -> float:
    table = tf.parse(query).run(data, **options, engine="local")["q1"]  # type: ignore[arg-type]
    return table.column("count")[0].as_py() if table.num_rows else 0.0


# ---------------------------------------------------------------- what can be read


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "events.parquet")
    return tmp_path / "events.parquet"


def test_parquet_is_read_by_column(parquet: Path) -> None:
    table = read(parquet, COLUMNS).table
    assert table.column_names == ["type", "ts", "x"]
    assert table.cast(ROWS.select(["type", "ts", "x"]).schema).equals(ROWS.select(["type", "ts", "x"]))


def test_a_parquet_file_may_have_any_name(parquet: Path) -> None:
    renamed = parquet.rename(parquet.with_name("part-00000"))
    assert read(renamed, COLUMNS).table.num_rows == 3


CSV = "type,ts,x,other\nA,1,1.5,p\nB,2,2.5,q\nB,3,,r\n"
JSON = '{"type":"A","ts":1,"x":1.5}\n{"type":"B","ts":2,"x":2.5}\n\n{"type":"B","ts":3}\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("events.csv", CSV),
        ("events.csv", CSV.replace("\n", "\r\n")),
        ("events.csv", "\ufeff" + CSV),
        ("events.csv", CSV.rstrip("\n")),
        ("events.tsv", CSV.replace(",", "\t")),
        ("events.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("events.jsonl", JSON),
        ("events.json", JSON.rstrip("\n")),
        ("events.jsonl.gz", gzip.compress(JSON.encode(), mtime=0)),
    ],
)
def test_text_files_give_the_same_table_as_parquet(tmp_path: Path, name: str, text: str | bytes) -> None:
    source = read(put(tmp_path / name, text), COLUMNS)
    assert source.table.to_pydict() == ROWS.select(["type", "ts", "x"]).to_pydict()
    assert source.rejects.num_rows == 0


def test_frames_give_the_columns_that_are_asked_for() -> None:
    wanted = ROWS.select(["type", "ts", "x"]).to_pydict()
    assert read(ROWS, COLUMNS).table.to_pydict() == wanted
    assert read(ROWS.to_batches()[0], COLUMNS).table.to_pydict() == wanted
    assert read(ROWS.to_reader(), COLUMNS).table.to_pydict() == wanted
    assert read(pl.from_arrow(ROWS), COLUMNS).table.to_pydict() == wanted
    assert read(pl.from_arrow(ROWS).lazy(), COLUMNS).table.to_pydict() == wanted  # type: ignore[union-attr]
    frame = pd.DataFrame(
        {"type": ["A", "B", "B"], "ts": [1, 2, 3], "x": [1.5, 2.5, None], "odd": [1, "a", object()]}
    )
    assert read(frame, COLUMNS).table.to_pydict() == wanted


def test_a_csv_without_header_takes_its_names_from_the_schema(tmp_path: Path) -> None:
    path = put(tmp_path / "events.csv", "A;1;1.5\nB;2;2.5\n")
    options = CsvOptions(header=False, delimiter=";", schema="type string, ts bigint, x double")
    assert read(Files(path, options), COLUMNS).table.to_pydict() == {
        "type": ["A", "B"],
        "ts": [1, 2],
        "x": [1.5, 2.5],
    }
    assert read(Files(path, CsvOptions(header=False, delimiter=";"))).table.column_names == ["f0", "f1", "f2"]


def test_an_empty_field_is_null_and_a_quoted_one_is_not(tmp_path: Path) -> None:
    source = read(put(tmp_path / "e.csv", 'type,ts\n,1\n"",2\nNA,3\n'))
    assert source.table.column("type").to_pylist() == [None, "", "NA"]


def test_times_in_text_have_microseconds_whatever_their_digits(tmp_path: Path) -> None:
    text = "type,a,b,c\nA,2024-01-01 00:00:00,2024-01-01T00:00:00.25,2024-01-01T00:00:00+02:00\n"
    schema = read(put(tmp_path / "e.csv", text)).table.schema
    assert schema.field("a").type == schema.field("b").type == pa.timestamp("us")
    assert schema.field("c").type == pa.timestamp("us", "UTC")


def test_quoted_line_breaks_stay_in_their_value(tmp_path: Path) -> None:
    source = read(put(tmp_path / "e.csv", 'type,x\nA,"one\ntwo"\nB,5" pipe\n'))
    assert source.table.column("x").to_pylist() == ["one\ntwo", '5" pipe']


def test_a_line_may_be_longer_than_a_block(tmp_path: Path) -> None:
    long = "x" * 9_000_000
    source = read(put(tmp_path / "e.csv", f"type,x\nA,{long}\nB,y\n"))
    assert source.table.column("x").to_pylist() == [long, "y"]


# ---------------------------------------------------------------- folders and globs


def test_a_folder_is_all_its_files_but_hidden_ones(tmp_path: Path) -> None:
    put(tmp_path / "d" / "b.csv", "type,ts\nB,2\n")
    put(tmp_path / "d" / "deep" / "a.csv", "type,ts\nA,1\n")
    put(tmp_path / "d" / "_SUCCESS", "")
    put(tmp_path / "d" / ".b.csv.crc", "zz")
    assert sorted(read(tmp_path / "d").table.column("type").to_pylist()) == ["A", "B"]
    assert count(tmp_path / "d") == 1


def test_a_glob_matches_files_and_folders(tmp_path: Path) -> None:
    put(tmp_path / "jan.csv", "type,ts\nA,1\n")
    put(tmp_path / "feb.csv", "type,ts\nB,2\n")
    put(tmp_path / "notes.md", "no data")
    assert read(str(tmp_path / "*.csv")).table.num_rows == 2
    with pytest.raises(InputError, match=r"no file matches '.*\*\.parquet'; check the pattern"):
        read(str(tmp_path / "*.parquet"))


def test_files_of_a_folder_are_unified_by_name(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"type": ["A"], "ts": pa.array([1], pa.int32()), "x": [1]}), tmp_path / "a.parquet"
    )
    pq.write_table(pa.table({"ts": [2], "type": ["B"], "y": ["n"], "x": [0.5]}), tmp_path / "b.parquet")
    table = read(tmp_path).table
    assert table.to_pylist() == [
        {"type": "A", "ts": 1, "x": 1.0, "y": None},
        {"type": "B", "ts": 2, "x": 0.5, "y": "n"},
    ]


def test_a_clash_of_types_names_both_files(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "type,ts,x\nA,1,\n")
    put(tmp_path / "b.csv", "type,ts,x\nA,1,5\n")
    put(tmp_path / "c.csv", "type,ts,x\nB,2,five\n")
    with pytest.raises(InputError, match=r"column 'x' is int64 in '.*b\.csv' but string in '.*c\.csv'"):
        read(tmp_path)
    assert read(tmp_path, {"type", "ts"}).table.num_rows == 3
    declared = read(Files(tmp_path, CsvOptions(schema="x string")))
    assert declared.table.column("x").to_pylist() == [None, "5", "five"]


def test_a_folder_of_several_formats_is_an_error(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", CSV)
    put(tmp_path / "b.jsonl", JSON)
    with pytest.raises(InputError, match="has 1 csv and 1 json files; pass a glob"):
        read(tmp_path)


# ---------------------------------------------------------------- nothing to read

EMPTY = """
QUERY a RETURN g, COUNT(*), SUM(B.x), MIN(B.x) PATTERN SEQ(A, B+) WHERE B.x > 1 AND [u]
GROUP BY g WITHIN 1 min SLIDE 30 s;
QUERY b RETURN COUNT(*) PATTERN A+
"""


@pytest.mark.parametrize(
    "name", ["e.csv", "e.jsonl", "folder", "head.csv", "cut.csv", "blank.csv", "e.parquet"]
)
def test_no_rows_give_empty_tables_with_the_right_columns(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    match name:
        case "folder":
            path.mkdir()
        case "head.csv":
            put(path, "type,ts,g,u,x\n")
        case "cut.csv":
            put(path, "type,ts,g,u,x")
        case "blank.csv":
            put(path, "\n\n\n")
        case "e.parquet":
            kinds = {
                "type": pa.string(),
                "ts": pa.timestamp("us"),
                "g": pa.string(),
                "u": pa.int64(),
                "x": pa.float64(),
            }
            pq.write_table(pa.schema(list(kinds.items())).empty_table(), path)
        case _:
            put(path, "")
    result = tf.parse(EMPTY).run(path, engine="local")
    assert result["a"].column_names == ["window_start", "window_end", "g", "count", "sum_B_x", "min_B_x"]
    assert result["b"].column_names == ["window_start", "window_end", "count"]
    assert result["a"].num_rows == result["b"].num_rows == result.summary.events == 0


def test_an_empty_folder_is_worth_a_warning(tmp_path: Path) -> None:
    assert read(tmp_path).warnings == (f"the folder {tmp_path} has no files",)
    assert any(
        "has no files" in warning for warning in tf.parse(SEQ).run(tmp_path, engine="local").summary.warnings
    )


# ---------------------------------------------------------------- what cannot be read


def test_a_missing_file_gets_the_nearest_name(tmp_path: Path) -> None:
    put(tmp_path / "rides.parquet", "")
    with pytest.raises(
        InputError, match=r"there is no file '.*ride\.parquet'; did you mean 'rides\.parquet'\?"
    ):
        read(tmp_path / "ride.parquet")
    with pytest.raises(InputError, match=r"nor a folder '.*nowhere'"):
        read(tmp_path / "nowhere" / "rides.parquet")
    with pytest.raises(InputError, match="the path of the events is empty"):
        read("")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_damaged_parquet_names_the_file(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"bad\.parquet'"):
        read(put(tmp_path / "bad.parquet", content))


def test_parquet_that_is_damaged_inside_names_the_file(parquet: Path) -> None:
    content = bytearray(parquet.read_bytes())
    content[4:60] = b"\xff" * 56
    with pytest.raises(InputError, match=r"cannot read '.*events\.parquet'"):
        read(put(parquet, bytes(content)), COLUMNS)


def test_a_broken_gzip_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read '.*e\.csv\.gz'"):
        read(put(tmp_path / "e.csv.gz", gzip.compress(CSV.encode())[:-12]))


def test_a_file_of_an_unknown_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot tell what '.*e\.xlsx' holds"):
        read(put(tmp_path / "e.xlsx", "zz"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_names_the_file(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", CSV)
    path.chmod(0)
    with pytest.raises(InputError, match=r"cannot read '.*e\.csv': Permission denied"):
        read(path)


def test_an_object_that_holds_no_events_is_named() -> None:
    with pytest.raises(InputError, match=r"cannot read events from a builtins\.int; pass a pyarrow Table"):
        read(5)


def test_a_json_array_is_not_json_lines(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"e\.json' is one JSON array; write one object per line"):
        read(put(tmp_path / "e.json", '[{"type":"A"}]'))
    with pytest.raises(InputError, match=r"no line of .* is a JSON object"):
        read(put(tmp_path / "e.json", "no JSON\nat all\n"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE B.speeed > 1", "did you mean 'speed'"),
        ("RETURN SUM(B.spee) PATTERN SEQ(A, B+)", "did you mean 'speed'"),
        ("RETURN COUNT(*) PATTERN SEQ(A, B+) WHERE [drivr]", "did you mean 'driver'"),
        ("RETURN drivers, COUNT(*) PATTERN SEQ(A, B+) GROUP BY drivers", "did you mean 'driver'"),
        ("RETURN COUNT(*) PATTERN SEQ(A, B+) HAVING MAX(B.sped) > 1", "did you mean 'speed'"),
    ],
)
@pytest.mark.parametrize("name", ["e.csv", "e.parquet", "e.jsonl"])
def test_a_missing_attribute_gets_the_nearest_column(
    tmp_path: Path, name: str, query: str, message: str
) -> None:
    table = pa.table({"type": ["A", "B"], "ts": [1, 2], "speed": [1.0, 2.0], "driver": [1, 1]})
    match name:
        case "e.parquet":
            pq.write_table(table, tmp_path / name)
        case "e.csv":
            put(tmp_path / name, "type,ts,speed,driver\nA,1,1.0,1\nB,2,2.0,1\n")
        case _:
            put(tmp_path / name, '{"type":"A","ts":1,"speed":1.0,"driver":1}\n')
    with pytest.raises(QueryError, match=message):
        tf.parse(query).run(tmp_path / name, engine="local")
    with pytest.raises(QueryError, match=message):
        tf.parse(query).run(table)


@pytest.mark.parametrize("option", ["type_column", "time_column", "order_column", "id_column"])
def test_a_missing_option_column_gets_the_nearest_column(parquet: Path, option: str) -> None:
    with pytest.raises(InputError, match=rf"there is no column 'othr' \({option}\); did you mean 'other'\?"):
        tf.parse(SEQ).run(parquet, **{option: "othr"}, engine="local")  # type: ignore[arg-type]


def test_two_columns_of_one_name_are_an_error_if_they_are_needed(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", "type,ts,x,x\nA,1,2,3\n")
    assert read(path, {"type", "ts"}).table.num_rows == 1
    with pytest.raises(InputError, match="2 columns named 'x'; rename one, or read it without header"):
        read(path, COLUMNS)


def test_a_column_of_another_kind_is_an_error_with_a_place(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", "type,ts,x\nA,1,2\nB,2,two\n")
    with pytest.raises(QueryError, match=r"1:\d+: query 'q1'"):
        tf.parse("RETURN SUM(B.x) PATTERN SEQ(A, B+)").run(path, engine="local")
    with pytest.raises(InputError, match=r"'ok' \(time_column\) is of type bool"):
        tf.parse(SEQ).run(put(tmp_path / "t.csv", "type,ok\nA,true\n"), time_column="ok", engine="local")


# ---------------------------------------------------------------- rejects


def test_rows_of_another_length_are_rejects(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", "type,ts,x\nA,1,1\nB,2\nB,3,3,3\nB,4,4\n")
    source = read(path, COLUMNS)
    assert source.table.column("ts").to_pylist() == [1, 4]
    assert reasons(source) == ["row 3 has 2 fields, not 3 (e.csv)", "row 4 has 4 fields, not 3 (e.csv)"]
    assert source.rejects.column("text").to_pylist() == ["B,2", "B,3,3,3"]


def test_rejected_lines_join_rejected_rows(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", "type,ts\nA,1\n,2\nB\nB,4\nB,\n")
    result = tf.parse(SEQ).run(path, engine="local")
    assert result["q1"].column("count").to_pylist() == [1.0]
    assert result.summary.events == 5
    assert result.summary.rejects == result.rejects.num_rows == 3
    assert result.rejects.column_names[-1] == "reason"
    assert result.rejects.column("reason").to_pylist() == [
        "null type",
        "null time",
        "row 4 has 1 fields, not 2 (e.csv)",
    ]
    with pytest.raises(RejectError, match="row 4 has 1 fields, not 2"):
        tf.parse(SEQ).run(path, on_reject="fail", engine="local")


def test_unparsable_times_are_rejects(tmp_path: Path) -> None:
    result = tf.parse(SEQ).run(
        put(tmp_path / "e.csv", "type,ts\nA,2024-01-01\nB,soon\nB,2024-01-02T00:00:00Z\n"), engine="local"
    )
    assert result.rejects.column("reason").to_pylist() == ["unparsable time"]
    assert result["q1"].column("count").to_pylist() == [1.0]


WINDOWS = f"{SEQ} WITHIN 10 s SLIDE 10 s"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", "type,ts\nA,1\nB, 2\nB,x\nB,4\n"),
        ("e.jsonl", '{"type":"A","ts":1}\n{"type":"B","ts":2}\n{"type":"B","ts":"x"}\n{"type":"B","ts":4}\n'),
    ],
)
def test_one_time_that_is_no_number_costs_its_own_row_alone(tmp_path: Path, name: str, text: str) -> None:
    path = put(tmp_path / name, text)
    result = tf.parse(WINDOWS).run(path, engine="local")
    assert result["q1"].to_pylist() == [{"window_start": 0, "window_end": 10, "count": 3.0}]
    assert result.rejects.to_pylist() == [
        {"type": "B", "ts": None, "reason": f"column 'ts' holds 'x', which is not a bigint ({name})"}
    ]
    assert (result.summary.events, result.summary.rejects) == (4, 1)
    with pytest.raises(RejectError, match="column 'ts' holds 'x'"):
        tf.parse(WINDOWS).run(path, on_reject="fail", engine="local")


@pytest.mark.parametrize(
    ("times", "read_as", "rejects"),
    [
        ("1 2 x 4", [1, 2, 4], 1),
        ("-1 2.5 x 4e0 .5", [-1.0, 2.5, 4.0, 0.5], 1),
        ("1 x 2024-01-01 3 4", [1, 3, 4], 2),
        ("1 2 99999999999999999999 x", [1, 2], 2),
    ],
)
def test_times_that_are_mostly_numbers_are_numbers(
    tmp_path: Path, times: str, read_as: list[float], rejects: int
) -> None:
    path = put(tmp_path / "e.csv", "\n".join(["type,ts", *(f"A,{time}" for time in times.split())]))
    source = read(path, {"type", "ts"}, "ts")
    assert source.table.column("ts").to_pylist() == read_as
    assert source.rejects.num_rows == rejects
    assert read(path, {"type", "ts"}).table.schema.field("ts").type == pa.string()


@pytest.mark.parametrize("times", ["2024-01-01 2024-01-02 3", "soon later 3", "1 x", "2024-01-01 x"])
def test_times_that_are_not_mostly_numbers_stay_text(tmp_path: Path, times: str) -> None:
    path = put(tmp_path / "e.csv", "\n".join(["type,ts", *(f"A,{time}" for time in times.split())]))
    source = read(path, {"type", "ts"}, "ts")
    assert source.table.column("ts").to_pylist() == times.split()


def test_times_of_json_that_are_text_throughout_stay_text(tmp_path: Path) -> None:
    path = put(tmp_path / "e.jsonl", '{"type":"A","ts":"1"}\nno object\n{"type":"A","ts":"2"}\n')
    assert read(path, {"type", "ts"}, "ts").table.column("ts").to_pylist() == ["1", "2"]


def test_files_with_and_without_a_bad_time_go_together(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "type,ts\nA,1\nB,2\n")
    put(tmp_path / "b.csv", "type,ts\nB,3\nB,x\nB,4\n")
    result = tf.parse(WINDOWS).run(tmp_path, engine="local")
    assert result["q1"].column("count").to_pylist() == [7.0]
    assert result.rejects.column("reason").to_pylist() == [
        "column 'ts' holds 'x', which is not a bigint (b.csv)"
    ]


def test_a_declared_time_is_not_guessed(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", "type,ts\nA,1\nA,2\nA,x\n")
    declared = read(Files(path, CsvOptions(schema="ts string")), {"type", "ts"}, "ts")
    assert declared.table.column("ts").to_pylist() == ["1", "2", "x"]


@pytest.mark.parametrize("column", ["reason", "text"])
def test_the_names_of_reject_columns_give_way_to_the_data(tmp_path: Path, column: str) -> None:
    path = put(tmp_path / "e.csv", f"type,ts,{column}\nA,1,why\nB\n")
    assert f"_{column}" in read(path).rejects.column_names
    result = tf.parse(f"RETURN COUNT(*) PATTERN A WHERE A.{column} = 'why'").run(path, engine="local")
    assert f"_{column}" in result.rejects.column_names


def test_rejects_are_counted_by_kind_and_not_by_line(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", b"type,ts,x\nA,1,1\nB,2\nB,3,4,5\n\xff,4,1\nB,5,much\nB,6,more\nB,7,2\n,8,1\n")
    files = Files(tmp_path / "a.csv", CsvOptions(schema="x double"))
    result = tf.parse("RETURN SUM(B.x) PATTERN SEQ(A, B+)").run(files, engine="local")
    assert dict(result.summary.reject_reasons) == {
        "line is not UTF-8": 1,
        "row has the wrong number of fields": 2,
        "column 'x' holds a value that is not a double": 2,
        "null type": 1,
    }
    assert sum(result.summary.reject_reasons.values()) == result.summary.rejects == 6
    path = put(tmp_path / "e.jsonl", '{"type":"A","ts":1}\nno\n[1]\n{"type":"B","ts":4}\n')
    result = tf.parse(SEQ).run(path, engine="local")
    assert dict(result.summary.reject_reasons) == {"line is not a JSON object": 2}


def test_text_files_are_read_in_the_format_of_their_times(tmp_path: Path) -> None:
    options: dict[str, Any] = {"engine": "local", "time_format": "%d%m%Y%H"}
    for name, text in (
        ("a.csv", "type,ts\nA,0102200810\nB,0102200811\n"),  # numbers would lose the zero
        ("a.jsonl", '{"type":"A","ts":"0102200810"}\n{"type":"B","ts":"0102200811"}\n'),
        ("b.jsonl", '{"type":"A","ts":1102200810}\n{"type":"B","ts":1102200811}\n'),
    ):
        result = tf.parse(WINDOWS.replace("10 s", "1 d")).run(put(tmp_path / name, text), **options)
        assert (result.summary.rejects, result["q1"].num_rows) == (0, 1)
        assert result["q1"].column("window_start").to_pylist()[0].year == 2008
    iso = put(tmp_path / "c.csv", "type,ts\nA,2008-02-01 10:00:00\nB,2008-02-01 11:00:00\n")
    found = tf.parse(WINDOWS.replace("10 s", "1 d")).run(iso, engine="local", time_format="%Y-%d-%m %H:%M:%S")
    assert found["q1"].column("window_start").to_pylist()[0].month == 1


def test_declared_times_are_cut_to_microseconds(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", "type,ts\nA,2024-01-01T00:00:00.123456789Z\nB,2024-01-01T00:00:01Z\n")
    files = Files(path, CsvOptions(schema="ts timestamp"))
    summary = tf.parse(SEQ).run(files, engine="local").summary
    assert (summary.rejects, summary.warnings) == (
        0,
        ("1 time is finer than a microsecond and was truncated to microseconds",),
    )


def test_options_of_text_files_are_for_text_files(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"type": ["A"], "ts": [1]}), path)
    workload = tf.parse(SEQ)
    with pytest.raises(InputError, match="a Parquet file has its own types; leave out schema"):
        workload.run(path, csv={"schema": "ts string"}, engine="local")
    with pytest.raises(InputError, match="a Parquet file has neither header nor delimiter"):
        workload.run(path, csv={"header": False}, engine="local")
    lines = put(tmp_path / "e.jsonl", '{"type":"A","ts":1}\n')
    with pytest.raises(InputError, match="a JSON lines file has neither header nor delimiter"):
        workload.run(lines, csv={"delimiter": ";"}, engine="local")
    with pytest.raises(InputError, match="unknown csv option 'seperator'"):
        workload.run(lines, csv={"seperator": ";"}, engine="local")
    with pytest.raises(InputError, match="csv is for paths"):
        workload.run(pa.table({"type": ["A"], "ts": [1]}), csv={"delimiter": ";"})
    with pytest.raises(InputError, match="header cannot be 'no'; pass True or False"):
        workload.run(lines, csv={"header": "no"}, engine="local")


def test_csv_options_reach_the_reader(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", "A;1\nB;2\n")
    csv = {"header": False, "delimiter": ";", "schema": "type string, ts bigint"}
    assert tf.parse(SEQ).run(path, csv=csv, engine="local").summary.events == 2


def test_two_columns_of_one_name_in_parquet_are_an_error_where_they_are_needed(tmp_path: Path) -> None:
    path, columns = tmp_path / "e.parquet", [pa.array(["A"]), pa.array([1]), pa.array([2])]
    pq.write_table(pa.table(columns, ["type", "ts", "ts"]), path)
    with pytest.raises(InputError, match="has 2 columns named 'ts'; rename one"):
        tf.parse(SEQ).run(path, engine="local")
    pq.write_table(pa.table([*columns, columns[2]], ["type", "ts", "x", "x"]), path)
    assert tf.parse(SEQ).run(path, engine="local").summary.events == 1


def test_lines_that_are_not_utf8_are_rejects(tmp_path: Path) -> None:
    source = read(put(tmp_path / "e.csv", b"type,ts,x\nA,1,1\nB\xff,2,1\nB\xe9\nB,4,1\n"), COLUMNS)
    assert source.table.column("ts").to_pylist() == [1, 4]
    assert reasons(source) == ["line 3 is not UTF-8 (e.csv)", "line 4 is not UTF-8 (e.csv)"]
    assert source.rejects.column("text").to_pylist() == ["B\\xff,2,1", "B\\xe9"]
    source = read(put(tmp_path / "e.jsonl", b'{"type":"A","ts":1}\n{"type":"\xff","ts":2}\n'))
    assert source.table.num_rows == 1
    assert reasons(source) == ["line 2 is not UTF-8 (e.jsonl)"]


def test_a_header_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the header of '.*e\.csv' is not UTF-8"):
        read(put(tmp_path / "e.csv", CSV.encode("utf-16")))


def test_a_quote_that_is_never_closed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a quote opened on line 3 is never closed"):
        read(put(tmp_path / "e.csv", 'type,x\nA,"a"\nB,"b\nB,c\nB,d\n'))


def test_values_that_are_not_of_the_declared_type_are_rejects(tmp_path: Path) -> None:
    text = (
        "type,ts,x\nA,2024-01-01 00:00:00,1\nB,2024-01-01T00:00:01Z, 2.5\nB,later,3\nB,2024-01-01,much\nB\n"
    )
    options = CsvOptions(schema="type string, ts timestamp, x double")
    source = read(Files(put(tmp_path / "e.csv", text), options), COLUMNS)
    assert source.table.schema.types == [pa.string(), pa.timestamp("us", "UTC"), pa.float64()]
    assert source.table.column("x").to_pylist() == [1.0, 2.5]
    assert sorted(reasons(source)) == [
        "column 'ts' holds 'later', which is not a timestamp (e.csv)",
        "column 'x' holds 'much', which is not a double (e.csv)",
        "row 6 has 1 fields, not 3 (e.csv)",
    ]


def test_json_lines_that_are_no_objects_are_rejects(tmp_path: Path) -> None:
    text = '{"type":"A","ts":1}\n{"type":"B","ts":\n[1]\n{"type":"B","type":"C"}\n{"type":"B","ts":4}\n'
    source = read(put(tmp_path / "e.jsonl", text))
    assert source.table.to_pylist() == [{"type": "A", "ts": 1}, {"type": "B", "ts": 4}]
    assert [reason.partition(":")[0] for reason in reasons(source)] == [
        f"line {n} is not a JSON object" for n in (2, 3, 4)
    ]


def test_half_a_surrogate_pair_is_no_text(tmp_path: Path) -> None:
    source = read(put(tmp_path / "e.jsonl", '{"type":"\\ud800"}\n{"type":"A"}\n'))
    assert source.table.column("type").to_pylist() == ["A"]
    assert source.rejects.num_rows == 1


def test_rows_without_any_wanted_column_are_still_rows(tmp_path: Path) -> None:
    result = tf.parse(SEQ).run(put(tmp_path / "e.jsonl", "{}\n{}\n"), engine="local")
    assert result.rejects.column("reason").to_pylist() == ["null type", "null type"]
    for name, text in (("a.csv", "type,ts\nA,1\n"), ("b.csv", "x,y\n1,2\n3,4\n")):
        put(tmp_path / "folder" / name, text)
    table = read(tmp_path / "folder", {"type", "ts"}).table
    assert table.to_pydict() == {"type": ["A", None, None], "ts": [1, None, None]}


def test_lines_that_are_all_broken_are_all_rejects(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", b"\xff\n\xfe\n")
    source = read(Files(path, CsvOptions(header=False)), {"type", "ts"})
    assert source.rejects.num_rows == 2
    assert sorted(source.table.column_names) == ["ts", "type"]


def test_a_json_column_of_mixed_kinds_is_text(tmp_path: Path) -> None:
    path = put(tmp_path / "e.jsonl", '{"type":"A","ts":1,"x":1}\n{"type":7,"ts":2,"x":"two"}\n')
    table = read(path).table
    assert table.column("type").to_pylist() == ["A", "7"]
    assert table.column("x").to_pylist() == ["1", "two"]
    declared = read(Files(path, CsvOptions(schema="x double")))
    assert declared.table.column("x").to_pylist() == [1.0]
    assert reasons(declared) == ["column 'x' holds 'two', which is not a double (e.jsonl)"]


def test_a_schema_that_fits_no_row_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", "A,1\nB,2\n")
    with pytest.raises(
        InputError, match=r"the schema has 3 columns, but every row of .* differs: row 1 has 2 fields"
    ):
        read(Files(path, CsvOptions(header=False, schema="type string, ts int, x int")))


# ---------------------------------------------------------------- options


def test_a_schema_is_names_and_types() -> None:
    assert read_schema("a string, my col:double , ts timestamp") == {
        "a": pa.string(),
        "my col": pa.float64(),
        "ts": pa.timestamp("us", "UTC"),
    }


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("a", "schema has 'a'; write a name and a type"),
        ("a string,", "schema has ''; write a name and a type"),
        ("a strnig", "unknown type 'strnig' for column 'a'; did you mean 'string'"),
        ("a int, a int", "names the column 'a' twice"),
    ],
)
def test_a_wrong_schema_says_what_to_write(schema: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CsvOptions(schema=schema)


def test_a_schema_of_columns_that_are_not_there_is_an_error(tmp_path: Path) -> None:
    path = put(tmp_path / "e.csv", CSV)
    with pytest.raises(
        InputError, match=r"schema names the column 'typ', which .* does not have; did you mean 'type'"
    ):
        read(Files(path, CsvOptions(schema="typ string")))


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "é"])
def test_a_delimiter_is_one_character(delimiter: str) -> None:
    with pytest.raises(InputError, match="the csv delimiter cannot be"):
        CsvOptions(delimiter=delimiter)


def test_a_line_that_only_python_takes_for_blank_is_a_reject(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"type": "A", "ts": 1}\n\x1d\n\n{"type": "B", "ts": 2}\n')
    found = read(path)
    assert found.table.num_rows == 2
    assert found.rejects.column("text").to_pylist() == ["\x1d"]
    path.write_bytes(b"\x1d")
    with pytest.raises(InputError, match=r"no line of .* is a JSON object: line 1 is not a JSON object"):
        read(path)


# ---------------------------------------------------------------- several paths


def test_several_paths_are_one_input(tmp_path: Path) -> None:
    for name, text in {"a.csv": "type,ts\nA,1\n", "b.csv": "type,ts,x\nB,2,5\n"}.items():
        (tmp_path / name).write_text(text)
    both = [tmp_path / "b.csv", str(tmp_path / "a.csv")]
    for several in (both, tuple(both), Files(both)):
        assert read(several).table.to_pydict() == {"type": ["B", "A"], "ts": [2, 1], "x": [5, None]}
    result = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B)").run(both, engine="local")
    assert result["q1"].column("count").to_pylist() == [1.0]


def test_a_file_that_several_paths_lead_to_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("type,ts\nA,1\n")
    (tmp_path / "link.csv").symlink_to("a.csv")
    paths = [tmp_path, tmp_path / "a.csv", tmp_path / "link.csv", f"{tmp_path}/*.csv"]
    assert len(list_files(paths)) == 1
    assert read(paths).table.num_rows == 1


def test_several_paths_must_all_lead_to_one_kind_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("type,ts\nA,1\n")
    (tmp_path / "b.jsonl").write_text('{"type": "A", "ts": 1}\n')
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"a\.csv', .*b\.jsonl' has 1 csv and 1 json files"):
        read([tmp_path / "a.csv", tmp_path / "b.jsonl"])
    with pytest.raises(InputError, match="there is no file"):
        read([tmp_path / "a.csv", tmp_path / "c.csv"])
    assert read([tmp_path / "a.csv", tmp_path / "empty"]).warnings == (
        f"the folder {tmp_path / 'empty'} has no files",
    )
    for wrong in ([], [tmp_path / "a.csv", 1]):
        with pytest.raises(InputError, match=r"cannot read events from a builtins\.list"):
            read(wrong)


def test_want_of_memory_is_no_fault_of_the_file() -> None:
    with pytest.raises(MemoryError), _blame(Path("a.csv")):
        raise pa.ArrowMemoryError("malloc of size 64 failed")
    with pytest.raises(MemoryError), _blame(Path("a.csv")):
        raise OSError(12, "Cannot allocate memory")
    with pytest.raises(TrendfoldError, match="cannot start another thread") as told, _blame(Path("a.csv")):
        raise pa.ArrowException("Unknown error: Failed to launch worker thread: Resource unavailable")
    assert told.value.exit_code == 1


def test_a_damaged_parquet_file_never_gives_codes_without_words(tmp_path: Path) -> None:
    table = pa.table({"type": ["A", "B", "C", "D"] * 25, "ts": list(range(100))})
    path = tmp_path / "events.parquet"
    pq.write_table(table, path, compression="none")
    whole, told, damaged = path.read_bytes(), 0, 0
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    for at in range(4, len(whole) - footer):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x0C]) + whole[at + 1 :])
        try:
            read(path).table.column("type").cast(pa.string()).to_pylist()
            damaged += 1
        except InputError:
            told += 1
    assert told
    assert damaged
