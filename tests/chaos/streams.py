"""Scenarios of streams over files: one round each, in a folder of its own."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaos.feed import Feed, random_feed
from chaos.figures import Figures, compare, written
from chaos.job import POINTS
from spark.cluster import ENVIRONMENT, cluster

PATIENCE = 600.0
ATTEMPTS = 6
"""How often a stream is started again until it says that it is done."""


@dataclass
class Job:
    """`trendfold stream` over a folder, started as often as it takes."""

    folder: Path
    delay_s: int
    source: tuple[str, ...] = ("--source", "parquet:in", "--files-per-batch", "1")
    output: str = "out"
    master: str = "local[2]"
    settings: tuple[str, ...] = ()
    logs: list[Path] = field(default_factory=list)

    def start(self, point: str = "-") -> subprocess.Popen[bytes]:
        """In a session of its own, so that Python, Java and workers can be killed at once."""
        self.logs.append(self.folder / f"log-{len(self.logs)}")
        asked = ["stream", "q.tql", *self.source, "--master", self.master, "--watermark", f"{self.delay_s} s"]
        asked += ["--checkpoint", "state", "--output", self.output, "--rejects", "rejects"]
        asked += ["--trigger", "available-now", "--flush", *self.settings]
        with self.logs[-1].open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "chaos.job", point, *asked],
                cwd=self.folder,
                env=_environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, point: str = "-") -> int:
        """Its exit code; -9 where it was killed."""
        job = self.start(point)
        try:
            return job.wait(timeout=PATIENCE)
        finally:
            kill(job)

    @property
    def said(self) -> str:
        """What it told last."""
        return self.logs[-1].read_text(errors="replace")

    @property
    def committed(self) -> int:
        """How many micro-batches are done."""
        return len(list((self.folder / "state" / "spark" / "commits").glob("[0-9]*")))

    def wait_for(self, batches: int, job: subprocess.Popen[bytes]) -> None:
        """Until so many micro-batches are done, or it has ended."""
        deadline = time.monotonic() + PATIENCE
        while self.committed < batches and job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)

    def finish(self) -> Figures:
        """Start it until it is done."""
        for _ in range(ATTEMPTS):
            code = self.run()
            if not code or (code == 2 and "has ended" in self.said):
                return Figures()
        return Figures().failing(f"the stream did not end: {_last_line(self.said)}")


def _environment() -> dict[str, str]:
    """As on a user's machine: with SPARK_HOME, Spark's own logging would be taken for theirs."""
    here = {name: value for name, value in ENVIRONMENT.items() if name != "SPARK_HOME"}
    return here | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def kill(job: subprocess.Popen[bytes]) -> bool:
    """SIGKILL to all of it; whether it was still running."""
    was_running = job.poll() is None
    with suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)  # workers may outlive a driver that has ended
    job.wait()
    return was_running


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def is_kind(text: str) -> bool:
    """Whether what a command told is an error in words, and no traceback."""
    return "error:" in text and "Traceback" not in text and "(unexpected:" not in text


def check(feed: Feed, folder: Path) -> Figures:
    """What was written beside what batch gives."""
    expected, refused = feed.expected()
    found = compare(feed.workload, expected, written(folder / "out", expected))
    told = len(written(folder / "rejects", ["rejects"])["rejects"])
    events = sum(table.num_rows for table in feed.files)
    return found + Figures(
        rounds=1, events=events, lost=max(0, refused - told), doubled=max(0, told - refused)
    )


def _begin(rng: random.Random, folder: Path) -> tuple[Feed, Job]:
    feed = random_feed(rng)
    feed.write(folder)
    return feed, Job(folder, feed.delay_s)


# ---------------------------------------------------------------- the driver


def driver_killed_at_random(rng: random.Random, folder: Path) -> Figures:
    """SIGKILL at any moment, some of them before the first micro-batch; files that were read are touched."""
    feed, job = _begin(rng, folder)
    kills = 0
    for _ in range(rng.randint(1, 4)):
        running = job.start()
        job.wait_for(job.committed + rng.randint(0, 4), running)
        with suppress(subprocess.TimeoutExpired):
            running.wait(timeout=rng.uniform(0, 3))
        kills += kill(running)
        if job.committed:
            os.utime(folder / "in" / "000.parquet")  # a file is known by its name, and not read again
    return job.finish() + check(feed, folder) + Figures(faults=kills)


def driver_killed_at_a_point(rng: random.Random, folder: Path) -> Figures:
    """SIGKILL between two steps that belong together."""
    feed, job = _begin(rng, folder)
    kills = 0
    for point in rng.sample(sorted(POINTS), 2):
        code = job.run(f"{point}:{rng.randint(1, 1 if 'flush' in point or 'manifest' in point else 5)}")
        kills += code == -signal.SIGKILL
    return job.finish() + check(feed, folder) + Figures(faults=kills)


def executor_killed(rng: random.Random, folder: Path) -> Figures:
    """SIGKILL to executors of a standalone cluster while the stream runs."""
    feed, job = _begin(rng, folder)
    kills = 0
    (folder / "cluster").mkdir()
    with cluster(folder / "cluster") as running:
        job.master = running.url
        started = job.start()
        for _ in range(2):
            job.wait_for(job.committed + rng.randint(1, 3), started)
            if running.executors() and started.poll() is None:
                running.kill_an_executor()
                kills += 1
        code = started.wait(timeout=PATIENCE)
        kill(started)
        ended = Figures() if not code else job.finish()
    return ended + check(feed, folder) + Figures(faults=kills)


# ---------------------------------------------------------------- the disk


def disk_full(rng: random.Random, folder: Path) -> Figures:
    """A disk that is full under the output or the checkpoint, until there is room again."""
    feed, job = _begin(rng, folder)
    place = folder / rng.choice(["out", "state"])
    size = rng.choice([12, 24, 40]) if place.name == "out" else rng.choice([64, 256, 1_024])
    with small_disk(place, size):
        code = job.run()
        figures = Figures(faults=1 if code else 0, refused=1 if code == 1 else 0)
        if code and not is_kind(job.said):
            figures = figures.failing(f"a full disk under {place.name}: {_last_line(job.said)[:300]}")
        subprocess.run(["mount", "-o", "remount,size=512m", str(place)], check=True)
        return figures + (job.finish() if code else Figures()) + check(feed, folder)


@contextmanager
def small_disk(place: Path, kib: int) -> Iterator[None]:
    """A file system of a few KiB in memory, mounted there; only root can."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "trendfold-chaos", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def may_mount() -> bool:
    """Whether a small disk can be had."""
    return os.geteuid() == 0 and shutil.which("mount") is not None


# ---------------------------------------------------------------- removed state


def _removable(state: Path, rng: random.Random) -> list[Path]:
    """Some part of a checkpoint."""
    spark = state / "spark"
    stored = [path for path in (spark / "state").rglob("*") if path.is_file()]
    parts = [state / "workload.json", state / "tally.json", spark, state, spark / "state", spark / "metadata"]
    parts += [spark / "offsets", spark / "commits", spark / "sources"]
    parts += [max(spark.glob("offsets/[0-9]*"), key=lambda path: int(path.name))]
    parts += rng.sample(stored, min(3, len(stored)))
    return [path for path in parts if path.exists()]


def state_removed(rng: random.Random, folder: Path) -> Figures:
    """Part of the checkpoint is gone: the stream says so, or gives the rows of batch all the same."""
    feed, job = _begin(rng, folder)
    running = job.start()
    job.wait_for(rng.randint(3, 6), running)
    kills = kill(running)
    if not kills or not (folder / "state" / "spark" / "offsets").exists():
        return Figures(rounds=1)
    gone = rng.choice(_removable(folder / "state", rng))
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    what = f"without {gone.relative_to(folder)}"
    code = job.run()
    if code == 0:
        found = check(feed, folder) + Figures(faults=1)
        return (
            found
            if found.is_clean
            else found.failing(f"{what} rows are not those of batch, and nobody said so")
        )
    figures = Figures(rounds=1, faults=1, refused=1)
    return figures if is_kind(job.said) else figures.failing(f"{what}: {_last_line(job.said)[:300]}")


SCENARIOS: dict[str, Callable[[random.Random, Path], Figures]] = {
    "driver killed at random": driver_killed_at_random,
    "driver killed at a point": driver_killed_at_a_point,
    "executor killed": executor_killed,
    "disk full": disk_full,
    "state removed": state_removed,
}
