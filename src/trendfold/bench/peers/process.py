"""A peer: a Java program of ours that runs another engine in its own process."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trendfold.bench.harness import Timed, UnfinishedError
from trendfold.bench.peers.aligned_stream import WINDOW_S, AlignedStream
from trendfold.errors import InputError

FOLDER = "TRENDFOLD_PEERS"
"""The environment variable naming the folder with the jars: `flink` and, if available, `esper`."""
LIMIT_S = 60.0
"""A job that takes longer is given up, and larger ones of its kind are not started."""
_HERE = Path(__file__).parent
_OPENED = (
    "java.base/java.lang", "java.base/java.util", "java.base/java.lang.invoke", "java.base/java.net"
)  # fmt: skip


@dataclass
class Program:
    """A Java program, compiled on first use, and killed if it does not answer in time."""

    source: str
    jars: Path
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="trendfold-peers-")))
    running: subprocess.Popen[str] | None = None

    def reply(self, request: Sequence[str]) -> str:
        """Send a line of requests, and return the line of reply."""
        process = self.running if self.running is not None else self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(request) + "\n")
        process.stdin.flush()
        answered = threading.Event()
        threading.Thread(target=_kill_late, args=(process, answered), daemon=True).start()
        line = process.stdout.readline()
        while line and not line.startswith("done "):
            line = process.stdout.readline()
        answered.set()
        if not line:
            self.running = None
            raise UnfinishedError(self._why(process.wait()))
        return line.removeprefix("done ").strip()

    def _why(self, code: int) -> str:
        if code < 0:
            return f"not finished in {LIMIT_S:g} s"
        last = [line for line in (self.folder / "errors").read_text("utf-8").splitlines() if line.strip()]
        causes = [line for line in last if "Exception" in line or "Error" in line] or last[-1:]
        return f"failed: {causes[-1].strip() if causes else f'exit code {code}'}"

    def _start(self) -> subprocess.Popen[str]:
        if not (self.folder / f"{self.source}.class").exists():
            compiled = [_java("javac"), "-nowarn", "-d", str(self.folder), "-cp", f"{self.jars}/*"]
            subprocess.run([*compiled, str(_HERE / f"{self.source}.java")], check=True, capture_output=True)
        opened = [word for name in _OPENED for word in ("--add-opens", f"{name}=ALL-UNNAMED")]
        path = os.pathsep.join((str(self.folder), f"{self.jars}/*"))
        command = [_java("java"), "-Xmx2g", "-Dlog4j2.level=ERROR", *opened, "-cp", path, self.source]
        with (self.folder / "errors").open("w", encoding="utf-8") as errors:
            self.running = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        return self.running


@dataclass
class Peer:
    """A method of a program, and the semantics it supports."""

    name: str
    program: Program
    method: str
    can: tuple[str, ...]
    given_up: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    """The length it did not finish, and why, by semantics and number of queries."""

    def ask(self, semantics: str, queries: int, events: AlignedStream) -> Timed:
        """The seconds and counts of the job."""
        length, why = self.given_up.get((semantics, queries), (events.length + 1, ""))
        if length < events.length:
            raise UnfinishedError(f"not begun: {length} B were {why}")
        folder = self.program.folder
        sent = folder / f"events-{len(events.table)}-{events.length}"
        if not sent.exists():
            events.numbers.astype(">i8").tofile(sent)
        answers = folder / "answers"
        request = (self.method, semantics, str(queries), str(WINDOW_S * 1_000), str(sent), str(answers))
        try:
            seconds = float(self.program.reply(request))
        except UnfinishedError as problem:
            self.given_up[semantics, queries] = events.length, str(problem)
            raise
        return Timed(seconds, counts(np.fromfile(answers, ">i8")))


def _kill_late(process: subprocess.Popen[str], answered: threading.Event) -> None:
    """Kill a late process; counts second by second, so that time the machine is suspended does not count."""
    for _ in range(round(LIMIT_S)):
        if answered.wait(1.0):
            return
    process.kill()


def counts(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Query, window, key and count of every answer."""
    rows = numbers.reshape(-1, 4).astype(np.float64)
    return rows[np.lexsort(rows.T[2::-1])]


def found_peers() -> list[Peer]:
    """The peers whose jars are available."""
    named = os.environ.get(FOLDER)
    if named is None or not (Path(named) / "flink").is_dir():
        raise InputError(f"there are no peers; run 'make bench-peers', or name their folder in {FOLDER}")
    flink = Program("FlinkPeer", Path(named) / "flink")
    peers = [
        Peer("Flink CEP", flink, "cep", ("any", "next", "contiguous")),
        Peer("Flink SQL", flink, "sql", ("next", "contiguous")),
    ]
    if (Path(named) / "esper").is_dir():
        esper = Program("EsperPeer", Path(named) / "esper")
        peers.append(Peer("Esper", esper, "match_recognize", ("next", "contiguous")))
    return peers


def _java(name: str) -> str:
    """The path of a JDK program."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    path = path or shutil.which(name)
    if path is None:
        raise InputError(f"'{name}' was not found; peers need a JDK for Java 17 (set JAVA_HOME)")
    return path
