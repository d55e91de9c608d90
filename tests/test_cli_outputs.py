"""Output folders: nothing of the input, of others or of earlier runs is lost or left over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trendfold import cli
from trendfold.cli import main
from trendfold.runtime.ownership import OWNER_FILE, Owner
from trendfold.runtime.places import place

A = "QUERY a RETURN COUNT(*) PATTERN A+"
TWO = f"{A}; QUERY b RETURN COUNT(*) PATTERN SEQ(A, B+)"
EVENTS = pa.table({"type": ["A", "B", None], "ts": [1, 2, 3]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with queries and a folder of events whose file has a query's name."""
    monkeypatch.chdir(tmp_path)
    Path("g.tql").write_text(A)
    Path("inp").mkdir()
    pq.write_table(EVENTS, "inp/a.parquet")
    return tmp_path


def run(*options: str, queries: str = "g.tql") -> int:
    return main(["run", queries, *options, *([] if "--engine" in options else ["--engine", "local"])])


def held(folder: str = ".") -> dict[str, bytes]:
    """Every file under a folder."""
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def names(folder: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


def refused(capsys: pytest.CaptureFixture[str], *options: str, queries: str = "g.tql") -> str:
    """Run something that must be refused with one line, and change nothing."""
    before, folders = held(), sorted(path for path in Path().rglob("*") if path.is_dir())
    capsys.readouterr()
    assert run(*options, queries=queries) == 2
    told = capsys.readouterr()
    assert (told.out, held()) == ("", before)
    assert sorted(path for path in Path().rglob("*") if path.is_dir()) == folders
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1
    return told.err


# ---------------------------------------------------------------- apart from the input


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("option", ["--output", "--rejects"])
@pytest.mark.parametrize(
    ("read", "written", "how"),
    [
        ("inp", "inp", "is"),
        ("inp/a.parquet", "inp", "holds"),
        ("inp", ".", "holds"),
        ("inp", "inp/out", "lies in"),
        ("inp/*.parquet", "inp", "holds"),
        ("link", "inp", "is"),
        ("inp", "link/../inp/", "is"),
    ],
)
def test_an_output_that_is_holds_or_lies_in_the_input_is_refused(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    engine: str,
    option: str,
    read: str,
    written: str,
    how: str,
) -> None:
    Path("link").symlink_to("inp")
    told = refused(capsys, "--input", read, option, written, "--overwrite", "--engine", engine)
    assert f"error: {option} {written!r} {how} --input {read!r}" in told
    assert "would overwrite or read the other; choose another folder" in told


def test_an_output_that_holds_what_a_link_of_the_input_leads_to_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("links").mkdir()
    Path("links/one.parquet").symlink_to("../inp/a.parquet")
    Path("more").mkdir()
    Path("more/deep").symlink_to("../inp")
    for read in ("links", "more/*"):
        told = refused(capsys, "--input", read, "--output", "inp", "--overwrite")
        assert "--output 'inp' holds" in told
        assert "which is also input, as" in told


def test_output_and_rejects_are_two_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("g.tql").write_text("QUERY rejects RETURN COUNT(*) PATTERN A+")
    for rejects in ("out", "out/rejects", "."):
        refused(capsys, "--input", "inp", "--output", "out", "--rejects", rejects)
    assert run("--input", "inp", "--output", "out", "--rejects", "bad") == 0
    assert pq.read_table("out/rejects.parquet").column("count").to_pylist() == [1.0]
    assert pq.read_table("bad/rejects.parquet").column("reason").to_pylist() == ["null type"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("s3://bucket/out", "cannot write to 's3://bucket/out'"),
        ("", "the name of the output folder is empty"),
    ],
)
def test_an_output_must_be_a_folder_of_this_machine(
    folder: Path, capsys: pytest.CaptureFixture[str], output: str, message: str
) -> None:
    assert message in refused(capsys, "--input", "inp/a.parquet", "--output", output)


def test_an_output_may_be_a_url_of_this_machine(folder: Path) -> None:
    assert run("--input", "inp", "--output", f"file://{folder}/out") == 0
    assert names("out") == {"a.parquet", OWNER_FILE}


# ---------------------------------------------------------------- a run owns its folder


def test_a_run_replaces_what_an_earlier_run_of_the_workload_wrote(folder: Path) -> None:
    Path("g.tql").write_text(TWO)
    given = ("--input", "inp", "--output", "out", "--rejects", "bad")
    assert run(*given) == 0
    first = json.loads(Path("out", OWNER_FILE).read_text())
    assert names("out") == {"a.parquet", "b.parquet", OWNER_FILE}
    assert first["workload"] == "g.tql"
    assert (first["kind"], first["queries"]) == ("run", ["a", "b"])
    assert first["files"] == ["a.parquet", "b.parquet"]
    Path("out/mine.txt").write_text("a note")
    Path("out/foreign.parquet").write_text("somebody else's")
    Path("g.tql").write_text(A)
    assert run(*given, "--format", "csv") == 0
    assert names("out") == {"a.csv", OWNER_FILE, "mine.txt", "foreign.parquet"}
    assert names("bad") == {"rejects.csv", OWNER_FILE}
    second = json.loads(Path("out", OWNER_FILE).read_text())
    assert second["files"] == ["a.csv"]
    assert second["id"] != first["id"]


def test_a_workload_is_known_by_its_file_or_by_a_query(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--input", "inp", "--output", "out")
    assert run(*given) == 0
    Path("renamed.tql").write_text(TWO)
    assert run(*given, queries="renamed.tql") == 0
    Path("other.tql").write_text("QUERY c RETURN COUNT(*) PATTERN A+")
    told = refused(capsys, *given, queries="other.tql")
    assert "the folder 'out' holds the results of another run, of 'renamed.tql'" in told
    assert "('a.parquet', 'b.parquet')" in told
    assert "--overwrite" in told
    assert run(*given, "--overwrite", queries="other.tql") == 0
    assert names("out") == {"c.parquet", OWNER_FILE}


def test_files_of_nobody_are_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--input", "inp", "--output", "out")
    Path("out/deep").mkdir(parents=True)
    Path("out/notes.md").write_text("no data")
    assert run(*given) == 0
    Path("g.tql").write_text(TWO)
    Path("out/b.parquet").write_text("mine")
    assert "wrote ('b.parquet')" in refused(capsys, *given)
    Path("out", OWNER_FILE).unlink()
    for i in range(5):
        Path(f"out/deep/{i}.csv").write_text("mine")
    told = refused(capsys, *given)
    assert "('a.parquet', 'b.parquet', 'deep/0.csv', ...)" in told
    assert "the folder 'bad' holds" in refused_in("bad", capsys)
    assert run(*given, "--overwrite") == 0
    assert names("out") == {
        "a.parquet",
        "b.parquet",
        OWNER_FILE,
        "notes.md",
        *(f"deep/{i}.csv" for i in range(5)),
    }
    assert pq.read_table("out/b.parquet").num_rows == 1


def refused_in(rejects: str, capsys: pytest.CaptureFixture[str]) -> str:
    Path(rejects).mkdir()
    Path(rejects, "rejects.parquet").write_text("mine")
    return refused(capsys, "--input", "inp", "--rejects", rejects)


def test_the_folder_of_a_stream_is_not_written_into(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    Owner("stream", "7", "g.tql", ("a",)).write(place("out"))
    assert "holds the results of a stream ('a')" in refused(capsys, "--input", "inp", "--output", "out")


def test_a_folder_whose_results_are_gone_is_free(folder: Path) -> None:
    given = ("--input", "inp", "--output", "out")
    assert run(*given) == 0
    Path("out/a.parquet").unlink()
    Path("other.tql").write_text("QUERY c RETURN COUNT(*) PATTERN A+")
    assert run(*given, queries="other.tql") == 0


def test_an_owner_cannot_make_a_run_remove_what_is_elsewhere(folder: Path) -> None:
    Path("out/sub").mkdir(parents=True)
    Path("out/away").symlink_to("../inp")
    Path("out/sub/old.csv").touch()
    files = ("../inp/a.parquet", f"{folder}/inp/a.parquet", "away/a.parquet", "sub/old.csv")
    Owner("run", "7", "g.tql", ("a",), files).write(place("out"))
    before = held("inp")
    assert run("--input", "inp", "--output", "out") == 0
    assert held("inp") == before
    assert not Path("out/sub/old.csv").exists()


def test_a_folder_in_the_place_of_a_file_is_told_before_the_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("out/a.parquet").mkdir(parents=True)
    told = refused(capsys, "--input", "inp", "--output", "out", "--overwrite")
    assert "'out/a.parquet' is a folder, but a file is to be written there" in told


def test_demo_owns_its_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["demo", "--events", "2000", "--engine", "local"]
    assert main(given) == 0
    Path("trendfold-demo/events/part-9.parquet").write_text("mine")
    capsys.readouterr()
    assert main(given) == 0
    assert Path("trendfold-demo/events/part-9.parquet").read_text() == "mine"
    assert "2,000 events, 0 rejects" in capsys.readouterr().err
    Path("mine").mkdir()
    Path("mine/report.html").write_text("mine")
    assert main([*given, "--output", "mine"]) == 2
    assert "('report.html')" in capsys.readouterr().err
    assert names("mine") == {"report.html"}


# ---------------------------------------------------------------- several inputs


@pytest.mark.parametrize("command", ["run", "check", "explain"])
def test_several_inputs_are_read_as_one(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    Path("g.tql").write_text("RETURN MATCHES PATTERN A a LIMIT 9")
    pq.write_table(EVENTS, "second.parquet")
    Path("empty").mkdir()
    inputs = [word for path in ("inp", "second.parquet", "inp/*", "empty") for word in ("--input", path)]
    assert main([command, "g.tql", *inputs, *(["--engine", "local"] if command == "run" else [])]) == 0
    told = capsys.readouterr()
    match command:
        case "run":
            assert "6 events, 2 rejects, 1 query," in told.err
            assert "warning: the folder empty has no files" in told.err
        case "check":
            assert "over 6 events, 2 of them rejects" in told.out
    if command == "run":
        refused(capsys, *inputs, "--output", ".")
        assert "there is no file 'third.csv'" in refused(capsys, *inputs, "--input", "third.csv")


# ---------------------------------------------------------------- killed


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_for_long(folder: Path) -> None:
    rows = 400_000
    pq.write_table(pa.table({"type": ["A"] * rows, "ts": range(rows), "k": range(rows)}), "inp/a.parquet")
    Path("g.tql").write_text("QUERY a RETURN k, COUNT(*) PATTERN A+ GROUP BY k")
    given = ["run", "g.tql", "--input", "inp", "--output", "out", "--engine", "local", "--format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-m", "trendfold", *given], env=environment) as process:
        while not any(path.stat().st_size for path in Path("out").glob(".*.part")):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert [path.name for path in Path("out").iterdir()] == [f".{process.pid}-0.part"]
    pq.write_table(EVENTS, "inp/a.parquet")
    Path("g.tql").write_text(A)
    assert main(given) == 0
    assert names("out") == {"a.jsonl", OWNER_FILE}


def test_leftovers_of_killed_runs_are_removed(folder: Path) -> None:
    given = ("--input", "inp", "--output", "out")
    Path("out").mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for name in (f".{dead.pid}-0.part", f".{os.getpid()}-7.part"):
        Path("out", name).touch()
        Path(name).touch()
    Path(".1-0.part").touch()  # of a process that is running
    assert run(*given) == 0
    assert names("out") == {"a.parquet", OWNER_FILE}
    assert main(["generate", "stock", "--events", "10", "--output", "s.csv"]) == 0
    assert sorted(path.name for path in Path().glob(".*part")) == [".1-0.part"]


def test_two_runs_do_not_write_into_one_folder_at_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holding = "import fcntl, os; fcntl.flock(os.open('out', 0), fcntl.LOCK_EX); print(1, flush=True); input()"
    Path("out").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        told = refused(capsys, "--input", "inp", "--output", "out")
        assert "another run is writing into 'out'; wait for it, or choose another folder" in told
        other.communicate(b"\n")
    assert run("--input", "inp", "--output", "out") == 0
