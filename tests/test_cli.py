"""The command line: what each command prints and writes, and that no bad input ends in a traceback."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest

from trendfold import api, cli, runtime
from trendfold.cli import main, plot, show, spark_engine
from trendfold.errors import InputError
from trendfold.runtime.ownership import OWNER_FILE
from trendfold.runtime.result import to_table
from trendfold.runtime.writing import WRITERS

QUERIES = """\
QUERY trips
RETURN COUNT(*), SUM(B.x)
PATTERN SEQ(A, B+);

QUERY per_driver
RETURN driver, COUNT(*)
PATTERN B+
GROUP BY driver
"""
EVENTS = "type,ts,driver,x\nA,1,d1,0\nB,2,d1,1.5\nB,3,d2,2.5\nB,4,d1,1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to work in, with queries and events."""
    monkeypatch.chdir(tmp_path)
    Path("queries.tql").write_text(QUERIES, encoding="utf-8")
    Path("events.csv").write_text(EVENTS, encoding="utf-8")
    return tmp_path


ON_SPARK = ("run", "queries.tql", "--input", "events.csv")
RUN = (*ON_SPARK, "--engine", "local")


def source_of(*parts: str) -> Path:
    return Path(cli.__file__).parents[1].joinpath(*parts)


def data_files(folder: str) -> list[str]:
    """What is in an output folder besides the file that says whose it is."""
    found = sorted(path.name for path in Path(folder).iterdir())
    assert found.pop(found.index(OWNER_FILE))
    return found


def in_shell(
    *args: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(source_of().parent), **(environment or {})}
    command = [sys.executable, "-m", "trendfold", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=variables, timeout=600)


# ---------------------------------------------------------------- run


def test_run_prints_a_table_per_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN) == 0
    out, err = capsys.readouterr()
    assert out == (
        "trips\n"
        "window_start  window_end  count  sum_B_x\n"
        "------------  ----------  -----  -------\n"
        "                              7       20\n"
        "\n"
        "per_driver\n"
        "window_start  window_end  driver  count\n"
        "------------  ----------  ------  -----\n"
        "                          d1          3\n"
        "                          d2          1\n"
        "\n"
    )
    assert "4 events, 0 rejects, 2 queries," in err


def test_run_prints_json_and_nothing_else(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        {"query": "trips", "window_start": None, "window_end": None, "count": 7.0, "sum_B_x": 20.0},
        {"query": "per_driver", "window_start": None, "window_end": None, "driver": "d1", "count": 3.0},
        {"query": "per_driver", "window_start": None, "window_end": None, "driver": "d2", "count": 1.0},
    ]


def test_run_writes_a_file_per_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file_format, ending, read in (
        ("parquet", "parquet", pq.read_table),
        ("csv", "csv", pa.csv.read_csv),
        ("json", "jsonl", pa.json.read_json),
    ):
        assert main([*RUN, "--output", f"out/{file_format}", "--format", file_format]) == 0
        assert data_files(f"out/{file_format}") == [f"per_driver.{ending}", f"trips.{ending}"]
        table = read(f"out/{file_format}/per_driver.{ending}")
        assert table.select(["driver", "count"]).to_pydict() == {"driver": ["d1", "d2"], "count": [3.0, 1.0]}
    assert capsys.readouterr().out == ""


def test_files_are_parquet_unless_asked_otherwise(folder: Path) -> None:
    assert main([*RUN, "--output", "out"]) == 0
    assert pq.read_table("out/trips.parquet").column("count").to_pylist() == [7.0]


def test_query_names_become_safe_file_names(folder: Path) -> None:
    Path("queries.tql").write_text(
        'QUERY "../a/b" RETURN COUNT(*) PATTERN A; QUERY ".." RETURN COUNT(*) PATTERN A'
    )
    assert main([*RUN, "--output", "out"]) == 0
    assert data_files("out") == ["%2E%2E.parquet", "..%2Fa%2Fb.parquet"]


def test_a_write_that_fails_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(table: pa.Table, file: object) -> None:
        if table.column_names[-1] == "count":
            raise OSError(28, "No space left on device")
        WRITERS["csv"](table, file)  # type: ignore[arg-type]

    assert main([*RUN, "--output", "out", "--rejects", "bad"]) == 0
    before = {path: path.read_bytes() for path in Path().rglob("*/*")}
    monkeypatch.setitem(WRITERS, "parquet", full)
    assert main([*RUN, "--output", "out", "--rejects", "bad"]) == 1
    assert "error: cannot write 'out/per_driver.parquet': No space left on device" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path().rglob("*/*")} == before


def test_run_passes_its_options_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text("RETURN COUNT(*) PATTERN SEQ(A, B+) WITHIN 10 s SLIDE 10 s")
    Path("events.txt").write_text("A;1000;1\nB;2000;2\nB;2000;3\n")
    options = (
        "--csv-header no --csv-delimiter ; --time-column when --type-column kind --order-column seq".split()
    )
    schema = ["--schema", "kind string, when bigint, seq int"]
    given = [
        "run",
        "queries.tql",
        "--input",
        "events.txt",
        "--engine",
        "local",
        *options,
        *schema,
        "--time-unit",
        "ms",
        "--origin",
        "500",
    ]
    assert main([*given, "--format", "json", "--strategy", "greta"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row == {"query": "q1", "window_start": 500, "window_end": 10_500, "count": 3.0}


def test_rejects_are_told_and_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("events.csv").write_text(EVENTS + "B,6\n,7,d1,1\nB,,d1,1\nB,,d2,1\n")
    assert main([*RUN, "--rejects", "bad", "--format", "json"]) == 0
    told = capsys.readouterr().err
    assert "8 events, 4 rejects" in told
    assert "rejects: 2 × null time; 1 × null type; 1 × row has the wrong number of fields" in told
    rows = [json.loads(line) for line in Path("bad/rejects.jsonl").read_text().splitlines()]
    assert [row["reason"] for row in rows] == [
        "null type",
        "null time",
        "null time",
        "row 6 has 2 fields, not 4 (events.csv)",
    ]
    assert rows[-1]["text"] == "B,6"
    assert main([*RUN, "--on-reject", "fail"]) == 1
    assert main([*RUN]) == 0
    assert "(--rejects DIR writes them)" in capsys.readouterr().err


def test_one_bad_time_among_numbers_is_one_reject(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text("RETURN COUNT(*) PATTERN SEQ(A, B+) WITHIN 10 s SLIDE 10 s")
    Path("events.csv").write_text("type,ts\nA,1\nB,2\nB,x\nB,4\n")
    assert main([*RUN, "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"query": "q1", "window_start": 0, "window_end": 10, "count": 3.0}
    assert "4 events, 1 reject, 1 query, 1 window, 1 row in" in printed.err
    assert "rejects: 1 × column 'ts' holds a value that is not a bigint" in printed.err
    assert main(["check", "queries.tql", "--input", "events.csv"]) == 0
    assert "over 4 events, 1 of them a reject" in capsys.readouterr().out


PROGRESS = re.compile("queries done|compiling, once")


def test_no_event_left_is_a_failure_that_says_what_would_help(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("queries.tql").write_text("RETURN COUNT(*) PATTERN SEQ(A, B)")
    Path("events.csv").write_text("type,ts\nA,31/12/2023 10:00\nB,31/12/2023 10:01\n")
    told = (
        "warning: 2 of 2 rows are rejected, because 'ts' holds '31/12/2023 10:00', which is not an ISO 8601 "
        "time; pass time_format='%d/%m/%Y %H:%M'"
    )
    assert main([*RUN, "--format", "json"]) == 1
    printed = capsys.readouterr()
    assert next(line for line in printed.err.splitlines() if not PROGRESS.search(line)) == told
    assert "rejects: 2 × unparsable time" in printed.err
    checked = ("check", "queries.tql", "--input", "events.csv")
    assert main(checked) == 1
    assert told in capsys.readouterr().err
    helped = ("--time-format", "%d/%m/%Y %H:%M")
    assert main([*RUN, "--format", "json", *helped]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 1
    assert main([*checked, *helped]) == 0
    assert "over 2 events, 0 of them rejects" in capsys.readouterr().out
    assert main(["explain", "queries.tql", "--input", "events.csv", *helped]) == 0


def test_a_line_that_nests_too_deep_does_not_end_the_process(folder: Path) -> None:
    deep = '{"type":"B","ts":2,"x":' + "[" * 30_000 + "]" * 30_000 + "}\n"
    Path("events.jsonl").write_text('{"type":"A","ts":1}\n' + deep + '{"type":"B","ts":3}\n')
    Path("queries.tql").write_text("RETURN COUNT(*) PATTERN SEQ(A, B)")
    done = in_shell("run", "queries.tql", "--input", "events.jsonl", "--engine", "local", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "rejects: 1 × line nests deeper than 200 levels" in done.stderr


def test_a_csv_file_of_another_shape_comes_with_the_option_that_reads_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("queries.tql").write_text("RETURN COUNT(*) PATTERN SEQ(A, B)")
    Path("events.csv").write_text("type;ts\nA;1\nB;2\n")
    assert "the file seems to be separated by ';'" in (told := fails(capsys, RUN))
    assert "--csv-delimiter ';'" in told
    assert main([*RUN, "--csv-delimiter", ";"]) == 0
    capsys.readouterr()
    Path("events.csv").write_text("A,1\nB,2\n")
    assert "the first line looks like data" in (told := fails(capsys, RUN))
    assert "--csv-header no with --schema" in told
    assert main([*RUN, "--csv-header", "no", "--schema", "type string, ts bigint"]) == 0
    capsys.readouterr()
    pq.write_table(pa.table({"type": ["A"], "ts": [1]}), "events.parquet")
    parquet = ["run", "queries.tql", "--input", "events.parquet", "--engine", "local"]
    assert "a Parquet file has its own types; leave out schema (--schema)" in fails(
        capsys, [*parquet, "--schema", "ts string"]
    )


def test_warnings_reach_standard_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text("RETURN COUNT(*) PATTERN SEQ(A, Bee+)")
    assert main(RUN) == 0
    assert "warning: no event has the type 'Bee' of q1" in capsys.readouterr().err


def test_infinite_counts_are_still_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text("RETURN COUNT(*), LOG2(COUNT(*)) PATTERN B+")
    Path("events.csv").write_text("type,ts\n" + "".join(f"B,{i}\n" for i in range(2_000)))
    assert main([*RUN, "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["count"] == "Infinity"
    assert row["log2_count"] == pytest.approx(2_000)


def test_a_column_called_query_keeps_its_values(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text('RETURN "query", COUNT(*) PATTERN B GROUP BY "query"')
    Path("events.csv").write_text("type,ts,query\nB,1,why\n")
    assert main([*RUN, "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["query"], row["_query"]) == ("q1", "why")


def test_values_cannot_move_the_cursor(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("events.csv").write_text("type,ts,driver,x\nA,1,a,0\nB,2,\x1b[2Jgone,1\n")
    assert main(RUN) == 0
    assert "\\x1b[2Jgone" in capsys.readouterr().out


def test_a_terminal_sees_the_first_rows_and_how_many_more(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    table = pa.table({"count": [float(i) for i in range(25)], "name": ["[b]x[/b]"] * 25})
    show.print_table("q", to_table(table, show.rows_shown()), table.num_rows)
    out = capsys.readouterr().out
    assert "... and 5 more rows (--output DIR writes all of them)" in out
    assert "[b]x[/b]" in out
    assert " 19 " in out
    assert " 20 " not in out


def test_a_terminal_sees_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with show.progress() as tell:
        tell("a", 1, 2)
        tell("b", 2, 2)
    assert capsys.readouterr().out == ""


def test_elsewhere_progress_is_a_line_a_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 0.5, 1.2, 1.2, 1.9, 2.5, 2.5])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with show.log_to_stderr(verbose=False, quiet=False), show.progress() as tell:
        for done in range(1, 5):
            tell(f"q{done}", done, 4)
    assert capsys.readouterr().err == "2 of 4 queries done (q2)\n4 of 4 queries done (q4)\n"


# ---------------------------------------------------------------- check, explain


def test_check_says_how_many_queries_are_fine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "queries.tql"]) == 0
    assert capsys.readouterr().out == "queries.tql: all 2 queries are fine\n"
    assert main(["check", "queries.tql", "--input", "events.csv"]) == 0
    assert capsys.readouterr().out == "queries.tql: all 2 queries are fine over 4 events, 0 of them rejects\n"


def test_check_shows_every_error_with_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text(
        "QUERY a RETURN COUNT(*) PATTERN SEQ(A B;\n"
        "QUERY b RETURN COUNT(*) PATTERN A WHERE Aa.x > 1;\n"
        "QUERY c RETURN COUNT(*) PATTERN A\n"
    )
    assert main(["check", "queries.tql"]) == 2
    err = capsys.readouterr().err
    assert re.search(r"^queries\.tql:1:\d+: query 'a': ", err, re.MULTILINE)
    assert re.search(r"^queries\.tql:2:41: query 'b': ", err, re.MULTILINE)
    assert "   2 | QUERY b RETURN COUNT(*) PATTERN A WHERE Aa.x > 1;\n" in err
    assert f"{' ' * (7 + 40)}^^" in err
    assert "Traceback" not in err


def test_check_and_run_warn_of_what_is_hardly_meant(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text(
        "QUERY a RETURN COUNT(*) PATTERN SEQ(A, B)\nWHERE B.x < NEXT(A).x WITHIN 1 s SLIDE 2 s"
    )
    told = "warning: query 'a', line 2: B.x < NEXT(A).x never applies: A never directly follows B"
    for command in (["check", "queries.tql"], ["run", "queries.tql", "--input", "events.csv"]):
        assert main(command if command[0] == "check" else [*command, "--engine", "local"]) == 0
        err = capsys.readouterr().err
        assert told in err
        assert "warning: query 'a', line 2: SLIDE is longer than WITHIN" in err


def test_check_with_input_knows_columns_and_types(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text(
        "QUERY a RETURN SUM(B.driver) PATTERN B;\n"
        "QUERY b RETURN MIN(B.xx) PATTERN B;\n"
        "QUERY c RETURN MAX(B.x) PATTERN B"
    )
    assert main(["check", "queries.tql", "--input", "events.csv", "--time-column", "tss"]) == 2
    err = capsys.readouterr().err
    assert "queries.tql:1:" in err or "queries.tql:2:" in err
    assert "there is no column 'xx'" in err
    assert "there is no column 'tss' (time_column); did you mean 'ts'?" in err
    assert main(["check", "queries.tql", "--input", "events.csv"]) == 2
    assert "queries.tql:2:16: query 'b': there is no column 'xx'\n" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_matches_in_each_format(folder: Path, form: str) -> None:
    Path("queries.tql").write_text("QUERY m RETURN MATCHES(x) PATTERN SEQ(A, B b) LIMIT 2", encoding="utf-8")
    assert main([*RUN, "--output", "out", "--format", form, "--id-column", "driver"]) == 0
    [name] = data_files("out")
    file = Path("out", name)
    match form:
        case "parquet":
            rows = pq.read_table(file).to_pylist()
        case "csv":
            rows = pyarrow.csv.read_csv(file).to_pylist()
            rows = [row | {name: json.loads(row[name]) for name in "Ab"} for row in rows]
        case _:
            rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 2
    assert rows[0]["A"] == [{"id": "d1", "time": 1, "x": 0.0}]


def test_explain_with_input_tells_partial_matches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_text("RETURN MATCHES PATTERN SEQ(A, B) WITHIN 9 s", encoding="utf-8")
    assert main(["explain", "queries.tql", "--input", "events.csv"]) == 0
    assert "3 made" in capsys.readouterr().out


def test_explain_in_each_format(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "queries.tql"]) == 0
    assert "trips" in capsys.readouterr().out
    assert main(["explain", "queries.tql", "--format", "json", "--input", "events.csv"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["explain", "queries.tql", "--format", "html"]) == 0
    assert "<svg" in capsys.readouterr().out


# ---------------------------------------------------------------- generate, bench, demo


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "json"])
def test_generated_events_can_be_run(folder: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    out = f"made/rides.{ending}"
    assert main(["generate", "ridesharing", "--events", "500", "--seed", "3", "--output", out]) == 0
    assert capsys.readouterr().out == f"{out}: 500 events of ridesharing, seed 3\n"
    Path("rides.tql").write_text(
        "RETURN COUNT(*) PATTERN SEQ(Request R, Travel T+) WHERE [driver, rider] WITHIN 1 min SLIDE 1 min"
    )
    assert main(["run", "rides.tql", "--input", out, "--engine", "local", "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert "500 events, 0 rejects" in printed.err
    first = json.loads(printed.out.splitlines()[0])
    assert first["window_start"] == "2024-01-01T00:00:00+00:00"


def test_generate_takes_the_shape_of_the_stream(folder: Path) -> None:
    shape = "--rate 10 --groups 3 --burst 5 --disorder 2 --ties 0.5 --types X,Y".split()
    assert main(["generate", "stock", "--events", "200", *shape, "--output", "s.parquet"]) == 0
    assert set(pq.read_table("s.parquet").column("type").to_pylist()) == {"X", "Y"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ridesharin", "--output", "a.csv"], "unknown dataset 'ridesharin'; did you mean 'ridesharing'?"),
        (["bus", "--output", "a.xlsx"], "cannot tell the format of 'a.xlsx'"),
        (["bus", "--output", "a.csv", "--events", "-1"], "option 'events' is -1; it must be 0 or more"),
        (["activity", "--output", "a.csv", "--types", "X"], "option 'types' is not for 'activity'"),
    ],
)
def test_wrong_options_of_generate(
    folder: Path, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    assert main(["generate", *args]) == 2
    assert message in capsys.readouterr().err


def test_bench_fails_when_a_promise_is_not_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from trendfold import bench
    from trendfold.bench.harness import Case, Promise

    def cases(seed: int, scale: float) -> list[Case]:
        return [Case("nothing", lambda: None, int(10 * scale), promises=(Promise(promised),))]

    module = type(sys)("trendfold_bench_of_nothing")
    module.cases = cases  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(bench.BENCHES, "nothing", module.__name__)
    promised = 1.0
    assert main(["bench", "nothing", "--repeats", "2", "--scale", "2", "--json", "out/b.json"]) == 0
    assert json.loads(Path("out/b.json").read_text())["settings"] == {"seed": 0, "scale": 2.0, "repeats": 2}
    assert "pass" in capsys.readouterr().out
    promised = 1e30
    assert main(["bench", "nothing", "--repeats", "1"]) == 1
    assert "FAIL" in capsys.readouterr().out


def test_bench_writes_one_page_of_several_and_puts_their_figures_into_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trendfold import bench
    from trendfold.bench.harness import Case

    for name in ("one", "two"):
        module = type(sys)(f"trendfold_bench_{name}")
        module.cases = lambda seed, scale, name=name: [Case(f"case of {name}", lambda: None, 10)]  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(bench.BENCHES, name, module.__name__)
    assert main(["bench", "one", "two", "--repeats", "1", "--report", "out", "--into", "kept.json"]) == 0
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert page.index("case of one") < page.index("case of two")
    assert not re.search(r"<script|<link|@import|url\(|\b(?:src|href)=", page)
    assert list(json.loads(Path("kept.json").read_text(encoding="utf-8"))) == ["one", "two"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["kernel", "kernl"], "unknown bench 'kernl'"),
        (["kernel", "hamlet", "--json", "out.json"], "--json and --plot are for one bench"),
        (["kernl"], "unknown bench 'kernl'; did you mean 'kernel'?"),
        (["kernel", "--plot", "out.svg"], "bench 'kernel' draws nothing; leave out --plot"),
        (["kernel", "--scale", "0"], "--scale is 0.0; it must be above 0"),
        (["kernel", "--repeats", "0", "--scale", "0.0001"], "option 'repeats' is 0"),
    ],
)
def test_wrong_options_of_bench(capsys: pytest.CaptureFixture[str], args: list[str], message: str) -> None:
    assert main(["bench", *args]) == 2
    assert message in capsys.readouterr().err


DEMO = ("rides", "waiting", "pool", "cancelled", "faster", "gave_up")


def test_demo_prints_writes_and_reports(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--events", "20000", "--engine", "local"]) == 0
    out = capsys.readouterr().out
    for name in DEMO:
        assert re.search(rf"^{name}\n(window_start|start) ", out, re.MULTILINE)
        if name != "gave_up":  # matches are not counted
            assert re.search(rf"^{name} +[▁▂▃▄▅▆▇█]+$", out, re.MULTILINE)
        assert pq.read_table(f"trendfold-demo/results/{name}.parquet").num_rows > 0
    assert data_files("trendfold-demo") == ["demo.tql", "events", "report.html", "results"]
    parts = sorted(Path("trendfold-demo/events").iterdir())
    times = [pq.read_table(part).column("ts").to_pylist() for part in parts]
    assert sum(map(len, times)) == 20_000
    assert all(earlier[-1] <= later[0] for earlier, later in pairwise(times))
    assert Path("trendfold-demo/demo.tql").read_text() == source_of("demo.tql").read_text()


def test_the_report_needs_nothing_else(folder: Path) -> None:
    assert main(["demo", "--events", "20000", "--engine", "local"]) == 0
    page = Path("trendfold-demo/report.html").read_text(encoding="utf-8")
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"<link|@import|url\(|\bsrc=", own)
    for name in DEMO:
        assert f"<h2>{name}</h2>" in page
    assert "PATTERN SEQ(Request R, Travel T+, NOT Pickup P)" in page
    assert "T.speed &lt; NEXT(T).speed" in page
    assert "Where do riders cancel while their driver is stuck in slow traffic?" in page
    assert "How it was computed" in page
    assert page.count("data-chart=") >= 10


def test_demo_of_no_events_is_no_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--events", "0", "--engine", "local"]) == 0
    assert "(no rows)" in capsys.readouterr().out


def without_ids(values: list[Any]) -> list[Any]:
    """Events of matches without their row numbers, which Spark's rows do not have."""
    return [
        [{k: v for k, v in event.items() if k != "id"} for event in value]
        if isinstance(value, list)
        else value
        for value in values
    ]


@pytest.mark.slow
def test_demo_on_spark_writes_what_the_local_engine_does(folder: Path) -> None:
    given = ["demo", "--events", "20000", "--output", "out"]
    assert in_shell(*given, "--engine", "local", cwd=folder).returncode == 0
    expected_of = {name: pq.read_table(f"out/results/{name}.parquet") for name in DEMO}
    done = in_shell(*given, "--master", "local[2]", cwd=folder)
    assert done.returncode == 0, done.stderr
    for name, local in expected_of.items():
        found = pq.read_table(f"out/results/{name}.parquet")
        assert found.column_names == local.column_names
        found = found.cast(local.schema)  # Spark writes times without their zone, which is UTC
        for column in local.column_names:
            expected = without_ids(local.column(column).to_pylist())
            assert without_ids(found.column(column).to_pylist()) == (
                pytest.approx(expected, rel=1e-12) if isinstance(expected[0], float) else expected
            )


def test_blocks_are_as_tall_as_the_logarithm() -> None:
    noon = datetime(2024, 1, 1, 12)
    assert plot.sparkline([(noon, 0.0), (noon, 9.0), (noon, 99.0), (noon, 9999.0)]) == "▁▃▅█"
    assert plot.sparkline([(noon, float(i)) for i in range(600)], width=60).count("█") > 30
    assert len(plot.sparkline([(noon, 1.0)] * 601, width=60)) <= 60


# ---------------------------------------------------------------- bad input


def fails(capsys: pytest.CaptureFixture[str], args: Sequence[str], code: int = 2) -> str:
    """Run something that must fail, with one clear error and nothing on standard output."""
    assert main(args) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert "(unexpected:" not in err
    return err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the workload has no query"),
        ("RETURN COUNT(*) PATTERN A?", "empty"),
        ("RETURN COUNT(*) PATTERN A WHERE b.x = 1", "unknown alias 'b'"),
        ("QUERY a RETURN COUNT(*) PATTERN A; QUERY a RETURN COUNT(*) PATTERN B", "two queries are named 'a'"),
        ("RETURN COUNT(*) PATTERN A WITHIN 1 min SLIDE 0 min", "SLIDE"),
        ("RETURN COUNT(*) PATTERN A WITHIN -5 min", "WITHIN"),
        ("RETURN COUNT(*) PATTERN " + "(" * 10_000 + "A" + ")" * 10_000, "nested deeper than 200"),
    ],
)
def test_bad_queries(folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    Path("queries.tql").write_text(text)
    assert message in fails(capsys, RUN)
    err = fails(capsys, ["check", "queries.tql"])
    assert err.startswith("queries.tql:")
    assert message in err


def test_a_query_file_that_is_too_large_is_not_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open("queries.tql", "wb") as file:
        file.truncate(50_000_000)
    started = time.perf_counter()
    assert "queries.tql is larger than 5 MB; split the workload" in fails(capsys, ["check", "queries.tql"])
    assert time.perf_counter() - started < 2


def test_a_query_file_that_is_not_utf8(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("queries.tql").write_bytes(b"RETURN COUNT(*) PATTERN \xff")
    assert "queries.tql is not UTF-8 at byte 24; save it as UTF-8" in fails(capsys, RUN)


def test_a_query_file_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no file 'querys.tql'; did you mean 'queries.tql'?" in fails(
        capsys, ["check", "querys.tql"]
    )
    assert "cannot read .: Is a directory" in fails(capsys, ["check", "."])
    with pytest.raises(InputError, match="cannot read"):
        api.read("a\0b")


def test_input_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = ["run", "queries.tql", "--engine", "local", "--input"]
    err = fails(capsys, [*nothing, "event.csv"])
    assert err == "error: there is no file 'event.csv'; did you mean 'events.csv'?\n"
    assert "no file matches '*.parquet'" in fails(capsys, [*nothing, "*.parquet"])


def test_input_that_is_damaged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.parquet").write_bytes(b"PAR1 and nothing else")
    assert "cannot read 'bad.parquet'" in fails(
        capsys, ["run", "queries.tql", "--input", "bad.parquet", "--engine", "local"]
    )


def test_columns_that_are_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = fails(capsys, [*RUN, "--type-column", "typ"])
    assert err == "error: there is no column 'typ' (type_column); did you mean 'type'?\n"
    Path("queries.tql").write_text("RETURN SUM(B.xx) PATTERN B")
    assert "queries.tql:1:8: query 'q1': there is no column 'xx'" in fails(capsys, RUN)


def test_times_that_are_no_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("events.csv").write_text("type,ts,driver,x\nA,2024-01-01,a,1\nB,tomorrow,b,2\n")
    assert main(RUN) == 0
    assert "2 events, 1 reject," in capsys.readouterr().err


def test_input_without_a_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("events.csv").write_text("")
    assert main([*RUN, "--output", "out", "--format", "csv"]) == 0
    assert Path("out/per_driver.csv").read_text() == '"window_start","window_end","driver","count"\n'
    assert main([*RUN, "--format", "json"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "csv"], "--format csv needs --output DIR"),
        (["--master", "local"], "--master is for --engine spark"),
        (["--strategy", "gretta"], "unknown strategy 'gretta'"),
        (["--origin", "Mars/Olympus"], "origin 'Mars/Olympus' is neither"),
        (["--csv-delimiter", ";;"], "the csv delimiter cannot be ';;'"),
        (["--schema", "x dbl"], "unknown type 'dbl'"),
        (["--output", "queries.tql"], "cannot make the folder 'queries.tql': File exists"),
        (["--rejects", "queries.tql/x"], "cannot make the folder 'queries.tql/x': Not a directory"),
        (["--output", "a", "--output", "b"], "argument --output: given twice; leave one out"),
        (["--limit", "groups"], "--limit is 'groups'; write a name and a number, as in 'groups=1000'"),
        (["--limit", "group=1"], "unknown limit 'group'; did you mean 'groups'?"),
        (["--limit", "groups=few"], "limit 'groups' is 'few'; it must be a positive whole number"),
        (["--limit", "groups=0"], "limit 'groups' is 0; it must be a positive whole number"),
        (["--limit", "groups=1", "--limit", "groups=2"], "--limit 'groups' is given twice; leave one out"),
        (["--param", "x"], "--param is 'x'; write a name and a value, as in 'least=10'"),
        (["--param", "x=Paris"], "--param x is 'Paris'; write a number, a 'string',"),
        (["--param", "x=1", "--param", "x=2"], "--param 'x' is given twice; leave one out"),
        (["--param", "x=1"], "no query has the parameter 'x'"),
        (["--time-unit", "ns"], "invalid choice: 'ns'"),
        (["--time-format", "%d/%m"], "time_format '%d/%m' has no year"),
        (["--no-such-option"], "unrecognized arguments: --no-such-option"),
    ],
)
def test_wrong_options_of_run(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert message in fails(capsys, [*RUN, *options])


@pytest.mark.parametrize("command", ["run", "check", "explain"])
def test_parameters_are_given_as_literals(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    Path("p.tql").write_text(
        "RETURN COUNT(*) PATTERN A WHERE A.x >= :least AND A.driver = :who WITHIN :w SLIDE :w"
    )
    arguments = [
        command,
        "p.tql",
        "--input",
        "events.csv",
        *(["--engine", "local"] if command == "run" else []),
    ]
    assert "p.tql:1:40: query 'q1': the parameter 'least' has no value" in fails(capsys, arguments)
    given = ["--param", "least=0", "--param", "who='it''s'", "--param", "w=10 min"]
    assert main([*arguments, *given]) == 0


STREAM = ["stream", "q.tql", "--source", "parquet:in", "--checkpoint", "state"]


def test_a_stream_tells_what_is_wrong_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.tql").write_text("RETURN COUNT(*) PATTERN A+ WITHIN 5 events SLIDE 5 events", encoding="utf-8")
    assert "are required: --watermark" in fails(capsys, STREAM)
    told = fails(capsys, [*STREAM, "--watermark", "5 s"])
    assert told.startswith("q.tql:1:28: query 'q1': count windows are for batch")
    Path("q.tql").write_text("RETURN COUNT(*) PATTERN A+ WITHIN 5 s SLIDE 5 s", encoding="utf-8")
    assert "--watermark is 'soon'" in fails(capsys, [*STREAM, "--watermark", "soon"])
    fine = [*STREAM, "--watermark", "5 s"]
    topic = [*fine[:3], "kafka:localhost/rides", *fine[4:]]
    told = fails(capsys, [*topic, "--schema", "type string"])
    assert "'kafka:localhost/rides' is not a Kafka topic; write kafka:HOST:PORT/TOPIC" in told
    assert "needs --schema" in fails(capsys, [*fine[:3], "kafka:localhost:9092/rides", *fine[4:]])
    assert "'kafka:x' is not a Kafka topic" in fails(capsys, [*fine, "--output", "kafka:x"])
    assert "--conf is 'spark.jars'; write NAME=VALUE" in fails(capsys, [*fine, "--conf", "spark.jars"])
    assert not Path("kafka:x").exists()
    assert "--format delta needs --output" in fails(capsys, [*fine, "--format", "delta"])
    told = fails(capsys, [*fine, "--format", "delta", "--output", "rows"])
    assert "'delta' is a format of tables; write to table:NAME, not to 'rows'" in told
    assert not Path("rows").exists()


def test_a_live_table_shows_how_a_stream_gets_on() -> None:
    pytest.importorskip("pyspark")
    from rich.console import Console

    from trendfold.cli.stream_command import live_table
    from trendfold.runtime.spark.watch import Progress

    seen = 7, 1_234_567, 890.4, None, None, 3, 55, 6_000, 2, 1, {"trips": 42}
    progress = Progress(*seen, vectors=77, latency_p50_s=1.5, latency_p99_s=2.25)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(live_table(progress))
    shown = console.export_text()
    for text in (
        "batch 7",
        "1,234,567",
        "890",
        "none yet",
        "55",
        "77",
        "6,000 bytes",
        "1.50 s, 2.25 s",
        "rows of trips",
        "42",
    ):
        assert text in shown


def test_a_console_of_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no folder 'nowhere'" in fails(capsys, ["console", "nowhere"])


def test_without_a_command_usage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "usage: trendfold" in fails(capsys, [])
    assert main(["--help"]) == 0
    assert main(["--version"]) == 0
    shown = capsys.readouterr().out
    assert "trendfold 0." in shown
    assert "console" in shown
    assert "console" in fails(capsys, ["consle"])


def test_what_nobody_foresaw_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str, params: object) -> api.Workload:
        raise ZeroDivisionError("of all things\nand more")

    monkeypatch.setattr(api, "read", broken)
    assert main(RUN) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ZeroDivisionError: of all things (unexpected: run again with --debug")
    assert err.count("\n") == 1
    for debug in ([*RUN, "--debug"], ["--debug", *RUN]):
        with pytest.raises(ZeroDivisionError):
            main(debug)


def test_want_of_memory_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(path: str, params: object) -> api.Workload:
        raise MemoryError

    monkeypatch.setattr(api, "read", too_much)
    assert "error: out of memory" in fails(capsys, RUN, code=1)


SHORT_OF_MEMORY = """
import resource, sys
import trendfold.cli.folders, trendfold.runtime.local
from trendfold.cli import main

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (80 << 20),) * 2)
sys.exit(main(sys.argv[1:]))
"""


def test_want_of_memory_is_not_taken_for_a_damaged_file(folder: Path) -> None:
    events = 10_000_000
    pq.write_table(pa.table({"type": pa.repeat("A", events), "ts": range(events)}), "events.parquet")
    Path("queries.tql").write_text("RETURN COUNT(*) PATTERN A+")
    given = ["run", "queries.tql", "--input", "events.parquet", "--engine", "local"]
    environment = {**os.environ, "PYTHONPATH": str(source_of().parent)}
    command = [sys.executable, "-c", SHORT_OF_MEMORY, *given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr == "error: out of memory; take fewer events or queries at a time\n"


def test_a_terminal_without_unicode_is_no_reason_to_fail(folder: Path) -> None:
    Path("queries.tql").write_text("RETURN driver, COUNT(*) PATTERN B GROUP BY driver", encoding="utf-8")
    Path("events.csv").write_text("type,ts,driver\nB,1,é\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(source_of().parent), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "trendfold", *RUN]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=True)
    assert "\\xe9" in done.stdout


def test_an_interrupt_ends_with_130(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: str, params: object) -> api.Workload:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "read", interrupted)
    assert main(RUN) == 130


# ---------------------------------------------------------------- Spark


def test_without_pyspark_events_are_folded_locally_with_a_notice(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "has_spark", lambda: False)
    assert main(ON_SPARK) == 0
    told = capsys.readouterr().err
    assert told.startswith("pyspark is not installed (pip install 'trendfold[spark]'): running locally\n")
    assert "(local)" in told
    for asked in (["--engine", "spark"], ["--master", "local[2]"]):
        assert "engine 'spark' needs pyspark: pip install" in fails(capsys, [*ON_SPARK, *asked])


SMALL = "an input of 0 kB is answered in this process, without Spark (--engine spark for Spark)\n"


def test_a_small_input_is_answered_without_spark_and_says_so(folder: Path) -> None:
    done = in_shell(*ON_SPARK, cwd=folder, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0, done.stderr
    assert SMALL in done.stderr
    assert "(local)" in done.stderr
    assert " trendfold.cli\n" in done.stderr  # imports are listed
    assert "pyspark" not in done.stderr


def test_a_large_input_goes_to_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "runs_spark", lambda: False)
    assert runtime.engine_for("events.csv")[0] == "local"
    monkeypatch.setattr(runtime, "SMALL_INPUT", Path("events.csv").stat().st_size)
    assert runtime.engine_for("events.csv") == ("spark", ())
    assert runtime.engine_for("s3://bucket/events.csv") == ("spark", ())


def test_under_spark_submit_and_with_a_connect_server_spark_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert runtime.engine_for("events.csv") == ("spark", ())


def test_input_is_looked_for_before_spark_starts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = fails(capsys, ["run", "queries.tql", "--input", "event.csv"])
    assert err == "error: there is no file 'event.csv'; did you mean 'events.csv'?\n"
    assert "unknown master 'locl[2]'; use local[N], " in fails(capsys, [*ON_SPARK, "--master", "locl[2]"])


JOB_FAILED = """\
An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, \
most recent failure: Lost task 0.0 in stage 2.0 (TID 4) (10.0.0.1 executor driver): {}
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1136)
"""
TASK_FAILED = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "tasks.py", line 16, in fold
    raise {0}
{0}: first line
second line
"""


TASK_OUT_OF_MEMORY = (
    "a Spark task ran out of memory; run fewer tasks at once, or on a cluster raise "
    "spark.executor.memoryOverhead"
)


@pytest.mark.parametrize(
    ("name", "text", "message", "code"),
    [
        (
            "PythonException",
            TASK_FAILED.format("ValueError"),
            "a Spark task failed: ValueError: first line",
            1,
        ),
        ("PythonException", TASK_FAILED.format("trendfold.errors.InputError"), "first line", 2),
        ("PythonException", TASK_FAILED.format("trendfold.errors.LimitError"), "first line", 1),
        ("PythonException", TASK_FAILED.format("trendfold.errors.QueryError"), "first line", 1),
        (
            "Py4JJavaError",
            JOB_FAILED.format("java.io.IOException: No space left on device"),
            "No space left on device",
            1,
        ),
        (
            "Py4JJavaError",
            JOB_FAILED.format(
                "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."
            ),
            "a Python worker of Spark died, usually because it ran out of memory; run fewer tasks at once, "
            "or on a cluster raise spark.executor.memoryOverhead",
            1,
        ),
        *(
            ("PythonException", TASK_FAILED.format(name), TASK_OUT_OF_MEMORY, 1)
            for name in (
                "MemoryError",
                "pyarrow.lib.ArrowMemoryError",
                "numpy._core._exceptions._ArrayMemoryError",
            )
        ),
        (
            "Py4JJavaError",
            JOB_FAILED.format(
                "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command "
                "exited with code 137, exit code 137"
            ),
            "a Spark executor was killed because it ran out of memory; raise spark.executor.memoryOverhead",
            1,
        ),
        (
            "Py4JJavaError",
            JOB_FAILED.format("java.lang.OutOfMemoryError: Java heap space"),
            "Spark ran out of memory; raise spark.driver.memory, and on a cluster spark.executor.memory",
            1,
        ),
        (
            "AnalysisException",
            "[PATH_NOT_FOUND] Path does not exist: s3://bucket/x. SQLSTATE: 42K03",
            "Path does not exist: s3://bucket/x.",
            2,
        ),
    ],
)
def test_what_spark_raises_is_told_in_a_line(name: str, text: str, message: str, code: int) -> None:
    raised = type(name, (Exception,), {"__module__": "pyspark.errors.exceptions.captured"})(text)
    told = spark_engine.readable(raised)
    assert told is not None
    assert (str(told), told.exit_code) == (message, code)
    assert spark_engine.readable(ValueError(text)) is None
    assert "Java process has ended" in str(spark_engine.readable(ConnectionRefusedError(111, "refused")))


@pytest.mark.slow
def test_spark_and_local_print_the_same(folder: Path) -> None:
    Path("events.csv").write_text(EVENTS + "B,6\nB,,d1,1\n")
    local = in_shell(*RUN, "--format", "json", cwd=folder)
    done = in_shell(*ON_SPARK, "--format", "json", "--master", "local[2]", "--rejects", "bad", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == local.stdout
    assert len(done.stdout.splitlines()) == 3
    assert "6 events, 2 rejects, 2 queries," in done.stderr
    rejects = "rejects: 1 × null time; 1 × row has the wrong number of fields\n"
    assert f"(spark: stretches)\n{rejects}" in done.stderr
    assert len(Path("bad/rejects.jsonl").read_text().splitlines()) == 2
    assert len(done.stderr.splitlines()) <= 5  # Spark's own lines do not drown ours


def test_spark_without_java_says_what_to_do(folder: Path) -> None:
    Path("nothing").mkdir()
    hidden = {"JAVA_HOME": str(folder / "nothing"), "PATH": str(folder / "nothing")}
    done = in_shell(*ON_SPARK, "--engine", "spark", cwd=folder, environment=hidden)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: Spark needs Java 17 or later, but none was found: install one" in done.stderr
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------- as a process


def test_a_real_process_prints_json_and_ends_in_time(folder: Path) -> None:
    in_shell(*RUN, cwd=folder)  # compiles, the first time
    before = _seconds_of_children()
    done = in_shell(*RUN, "--format", "json", cwd=folder)
    assert done.returncode == 0
    assert [json.loads(line)["count"] for line in done.stdout.splitlines()] == [7.0, 3.0, 1.0]
    # The promise is 2 s. CPU time does not depend on what else runs, but busy cores are slower.
    assert _seconds_of_children() - before < 4


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_real_process_fails_with_its_code(folder: Path) -> None:
    done = in_shell("check", "nothing.tql", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no file 'nothing.tql'" in done.stderr


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    Path("queries.tql").write_text("RETURN x, COUNT(*) PATTERN B GROUP BY x")
    Path("events.csv").write_text("type,ts,x\n" + "".join(f"B,{i},{i}\n" for i in range(50_000)))
    environment = {**os.environ, "PYTHONPATH": str(source_of().parent)}
    command = [sys.executable, "-m", "trendfold", *RUN, "--format", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read().decode()
    assert process.returncode == 141
    assert "Error" not in told
    assert "Traceback" not in told


def test_check_loads_no_engine(folder: Path) -> None:
    code = (
        "import sys; from trendfold.cli import main; main(['check', 'queries.tql']); "
        "print([m for m in ('numba', 'rich', 'pandas', 'pyspark') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(source_of().parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


WITHOUT_A_HOME = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS: Python itself may be in root's home
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
reads_all = 1 << 2  # CAP_DAC_READ_SEARCH
assert libc.capset(struct.pack("Ii", 0x20080522, 0), struct.pack("6I", reads_all, reads_all, 0, 0, 0, 0)) == 0
from trendfold.__main__ import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_without_a_home_runs_a_package_that_is_read_only(folder: Path) -> None:
    """As in a container with `--user`: nobody of that number is known, and nothing is writable but /tmp."""
    Path("tmp").mkdir(mode=0o777)
    Path("tmp").chmod(0o777)
    work = Path("work")
    work.mkdir()
    work.chmod(0o777)
    variables = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    variables |= {"PYTHONPATH": str(source_of().parent), "TMPDIR": str(folder / "tmp")}
    given = ["run", "../queries.tql", "--input", "../events.csv", "--engine", "local", "--format", "json"]
    for home in ({}, {"HOME": "/"}, {"HOME": "/root"}):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_A_HOME, *given],
            capture_output=True,
            text=True,
            cwd=work,
            env=variables | home,
        )
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["count"] for line in done.stdout.splitlines()] == [7.0, 3.0, 1.0]
        assert list(work.iterdir()) == []  # no folder called `~`
    assert [path.name for path in Path("tmp").iterdir()] == ["trendfold-54321"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no owners of folders")
def test_compiled_loops_are_kept_only_where_nobody_else_can_write(tmp_path: Path) -> None:
    from trendfold.kernel.jit import _is_private

    assert _is_private(str(tmp_path / "new"))
    assert _is_private(str(tmp_path / "new"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert not _is_private(str(tmp_path / "open"))
    (tmp_path / "link").symlink_to(tmp_path / "new")
    assert not _is_private(str(tmp_path / "link"))
