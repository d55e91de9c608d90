"""Ctrl-C, sent to real processes: it ends them at once, with 130, a word, and nothing half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trendfold import cli

SLOW_IMPORTS = """
import sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == {module!r}:
            print("importing", flush=True)
            time.sleep(5)
sys.meta_path.insert(0, Slow())
"""
SCRIPT = "-c import sys; from trendfold.__main__ import main; sys.exit(main())"
"""What pip makes of the command's entry in pyproject.toml."""
COUNT = "QUERY a RETURN COUNT(*) PATTERN A+"
RUN = ("run", "g.tql", "--input", "events.parquet", "--output", "out", "--engine", "local")
AT_ONCE_S = 5.0
"""A second on a machine that has nothing else to do."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a query and events."""
    monkeypatch.chdir(tmp_path)
    Path("g.tql").write_text(COUNT)
    put_events(10)
    return tmp_path


def put_events(count: int) -> None:
    table = pa.table({"type": ["A"] * count, "ts": range(count), "x": range(count)})
    pq.write_table(table, "events.parquet")


@contextmanager
def started(*args: str, entry: str = "-m trendfold", **variables: str) -> Iterator[subprocess.Popen[str]]:
    source = str(Path(cli.__file__).parents[2])
    variables["PYTHONPATH"] = os.pathsep.join([source, *filter(None, [variables.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, *entry.split(" ", 1), *args],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def interrupt(process: subprocess.Popen[str], within_s: float = AT_ONCE_S) -> None:
    """Press Ctrl-C, as a terminal does: for the whole group."""
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=within_s)
    assert (process.returncode, told.splitlines()[-1]) == (130, "interrupted")
    assert "Traceback" not in told
    assert "Error" not in told
    assert "ignored" not in told


def wait_until(is_so: Callable[[], object], process: subprocess.Popen[str], within_s: float = 120) -> None:
    end = time.monotonic() + within_s
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def is_untouched(folder: str) -> bool:
    return not Path(folder).exists() or not list(Path(folder).iterdir())


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("module", ["trendfold.api", "numpy", "pyarrow", "lark", "numba"])
@pytest.mark.parametrize("entry", ["-m trendfold", SCRIPT])
def test_an_interrupt_while_modules_are_imported(folder: Path, module: str, entry: str) -> None:
    Path("slow").mkdir()
    Path("slow/sitecustomize.py").write_text(SLOW_IMPORTS.format(module=module))
    with started(*RUN, entry=entry, PYTHONPATH="slow") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        interrupt(process)
    assert is_untouched("out")


def test_an_interrupt_while_loops_are_compiled(folder: Path) -> None:
    with started(*RUN, NUMBA_CACHE_DIR="cache") as process:
        wait_until(lambda: list(Path().glob("cache/*/*.nbi")), process)
        interrupt(process)
    assert is_untouched("out")


@pytest.mark.slow
def test_an_interrupt_at_many_moments_of_compiling(folder: Path) -> None:
    for moment in range(20):
        with started(*RUN, NUMBA_CACHE_DIR=f"cache{moment}") as process:
            wait_until(lambda at=moment: cpu_seconds(process) > 1.5 + at / 7, process)
            interrupt(process)
        assert is_untouched("out")


def test_an_interrupt_in_a_loop_that_takes_long(folder: Path) -> None:
    put_events(2_000_000)
    Path("g.tql").write_text("QUERY a RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x")
    with started(*RUN, "--strategy", "cogra") as process:
        wait_until(lambda: cpu_seconds(process) > 4, process)
        interrupt(process)
    assert is_untouched("out")


def test_an_interrupt_while_results_are_written(folder: Path) -> None:
    put_events(400_000)
    Path("g.tql").write_text("QUERY a RETURN x, COUNT(*) PATTERN A+ GROUP BY x")
    with started(*RUN, "--format", "json") as process:
        wait_until(lambda: any(path.stat().st_size for path in Path("out").glob(".*.part")), process)
        interrupt(process)
    assert is_untouched("out")


def test_an_interrupt_that_is_ignored_is_ignored(folder: Path) -> None:
    """As a shell's background job does."""
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, '-m', 'trendfold', *sys.argv[1:]])"
    )
    with started(*RUN, entry=f"-c {ignoring}") as process:
        wait_until(lambda: Path("out").exists(), process)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
    assert process.returncode == 0
    assert Path("out/a.parquet").exists()


# ---------------------------------------------------------------- on Spark


def heard(process: subprocess.Popen[str]) -> list[str]:
    """The lines of standard error, as they come."""
    lines: list[str] = []

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)

    threading.Thread(target=listen, daemon=True).start()
    return lines


def of_session(process: subprocess.Popen[str]) -> list[str]:
    """The commands of all processes that a process has started, and they in turn."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == process.pid and fields[0] != "Z":
                found.append((path / "cmdline").read_text())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@pytest.mark.parametrize(
    "moment", [pytest.param(name, marks=pytest.mark.slow) for name in ("bin/java", "pyspark.daemon")]
)
def test_an_interrupt_on_spark_stops_java_too(folder: Path, moment: str) -> None:
    """Once while Java starts, and once while workers fold."""
    pytest.importorskip("pyspark")
    put_events(200_000)
    Path("g.tql").write_text("QUERY a RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x")
    with started(*RUN[:-1], "spark", "--master", "local[2]", "--strategy", "cogra") as process:
        told = heard(process)
        wait_until(lambda: any(moment in command for command in of_session(process)), process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=30) == 130
        end = time.monotonic() + 30
        while of_session(process) and time.monotonic() < end:
            time.sleep(0.1)
        assert of_session(process) == []
    assert told[0] == "starting Spark\n"
    assert "interrupted\n" in told
    assert "Traceback" not in "".join(told)
    assert is_untouched("out")
