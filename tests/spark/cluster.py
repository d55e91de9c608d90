"""A standalone Spark cluster on this machine: a master and workers as processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
ENVIRONMENT = {
    **os.environ,
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": HOST,
    "PYSPARK_PYTHON": sys.executable,
}
PATIENCE = 120.0
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Cluster:
    """Where the master listens, and where workers keep what is theirs."""

    url: str
    folder: Path

    def executors(self) -> list[int]:
        """The process of every executor of this cluster."""
        return sorted(int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and self._runs(p))

    def _runs(self, process: Path) -> bool:
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            home = (process / "cwd").resolve()
        except OSError:  # it ended meanwhile
            return False
        return _EXECUTOR in words and home.is_relative_to(self.folder.resolve())

    def kill_an_executor(self) -> int:
        """SIGKILL, as a machine that vanishes would; the process that is gone."""
        victim = self.executors()[0]
        os.kill(victim, signal.SIGKILL)
        return victim


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master with workers of one core each."""
    port = _free_port()
    url = f"spark://{HOST}:{port}"
    daemon = [str(HOME / "bin" / "spark-class")]
    master = [*daemon, "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port)]
    master += ["--webui-port", "0"]
    processes = [_start(master, folder / "master.log")]
    try:
        wait_for(lambda: "I have been elected leader" in (folder / "master.log").read_text())
        for number in range(workers):
            home = folder / f"worker-{number}"
            worker = [*daemon, "org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", "2g", "-h", HOST]
            worker += ["--webui-port", "0", "-d", str(home), url]
            processes.append(_start(worker, folder / f"worker-{number}.log"))
        wait_for(lambda: (folder / "master.log").read_text().count("Registering worker") >= workers)
        yield Cluster(url, folder)
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            process.wait(timeout=PATIENCE)


def wait_for(happened: Callable[[], bool]) -> None:
    """Until something has happened, or it is clear that it will not."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, "the cluster does not answer"
        time.sleep(0.1)


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as sink:
        return subprocess.Popen(
            command, env=ENVIRONMENT, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
        )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
