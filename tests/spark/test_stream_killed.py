"""A stream whose driver or executors are killed loses no row and writes none twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trendfold as tf
from spark.agreement import agree
from spark.cluster import ENVIRONMENT, cluster
from spark.stream_job import QUERIES
from spark.test_agreement import stream
from spark.test_stream import written
from stream.simulation import arrival, ordered

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

JOB = Path(__file__).with_name("stream_job.py")
KILLS = int(os.environ.get("TRENDFOLD_KILLS") or 6)
FILES = 24


def prepare(folder: Path, seed: int) -> pa.Table:
    """Files of a few events each, whose events arrive out of order inside the delay."""
    table = stream(events=24_000, groups=20, seed=seed)
    micros = table.column("ts").cast(pa.int64()).to_pylist()
    shuffled = table.take(pa.array(arrival(micros, 5e6, random.Random(seed))))
    (folder / "in").mkdir(parents=True)
    edges = np.linspace(0, table.num_rows, FILES + 1).astype(int)
    for i in range(FILES):
        path = folder / "in" / f"{i:03}.parquet"
        pq.write_table(shuffled.slice(edges[i], edges[i + 1] - edges[i]), path)
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))  # Spark takes files in this order
    return table


def start(folder: Path, master: str, number: int) -> subprocess.Popen[bytes]:
    with (folder / f"log-{number}").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(JOB), master, str(folder)],
            env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_until(folder: Path, number: int, told: str, job: subprocess.Popen[bytes]) -> None:
    while told not in (folder / f"log-{number}").read_text():
        assert job.poll() is None or told in (folder / f"log-{number}").read_text(), (
            folder / f"log-{number}"
        ).read_text()[-3000:]
        time.sleep(0.05)


def committed(folder: Path) -> int:
    """How many micro-batches are done."""
    return len(list((folder / "checkpoint" / "spark" / "commits").glob("[0-9]*")))


def compare(folder: Path, table: pa.Table) -> None:
    workload = tf.parse(QUERIES)
    batch = workload.run(table, engine="local")
    for query in workload:
        wanted = batch[query.name]
        assert wanted.num_rows
        agree(written(folder / "out", query.name, wanted, len(query.group_by)), wanted)


def test_a_driver_that_is_killed_again_and_again_gives_the_rows_of_batch(tmp_path: Path) -> None:
    table, rng = prepare(tmp_path, 3), random.Random(7)
    kills = 0
    for kill in range(KILLS):
        job = start(tmp_path, "local[2]", kill)
        wait_until(tmp_path, kill, "started", job)
        enough = committed(tmp_path) + rng.randint(0, 4)
        while committed(tmp_path) < enough and job.poll() is None:
            time.sleep(0.05)
        try:
            job.wait(timeout=rng.uniform(0, 3))  # somewhere in the micro-batch that follows
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)  # Python, Java and the workers at once
            job.wait()
            kills += 1
            continue
        break  # it was over before it could be killed
    else:
        job = start(tmp_path, "local[2]", KILLS)
        job.wait()
        assert job.returncode == 0, (tmp_path / f"log-{KILLS}").read_text()[-3000:]
    assert kills
    assert "done" in "".join(path.read_text() for path in tmp_path.glob("log-*"))
    compare(tmp_path, table)


def test_a_table_goes_on_in_a_new_process_and_is_not_for_other_checkpoints(tmp_path: Path) -> None:
    """The catalog is in memory: a new process finds the files of tables that it knows nothing of."""
    table = prepare(tmp_path, 5)

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )

    (tmp_path / "q.tql").write_text(QUERIES)
    stream = ["-m", "trendfold", "stream", "q.tql", "--source", "parquet:in", "--watermark", "5 s"]
    stream += ["--trigger", "available-now", "--output", "table:kept", "--files-per-batch", "6"]
    moved = sorted((tmp_path / "in").iterdir())[12:]
    (tmp_path / "later").mkdir()
    for path in moved:
        path.rename(tmp_path / "later" / path.name)
    first = run(*stream, "--checkpoint", "state")
    assert first.returncode == 0, first.stderr[-3000:]
    assert "UDF" not in first.stderr, "PySpark's worker reports on its own start"
    for path in (tmp_path / "later").iterdir():
        path.rename(tmp_path / "in" / path.name)
    second = run(*stream, "--checkpoint", "state", "--flush")
    assert second.returncode == 0, second.stderr[-3000:]
    other = run(*stream, "--checkpoint", "other")
    assert other.returncode == 2
    assert "the table 'kept' (output) holds the rows of another stream" in other.stderr
    assert not (tmp_path / "table:kept").exists()
    batch = tf.parse(QUERIES).run(table, engine="local")
    for query in tf.parse(QUERIES):
        wanted = batch[query.name]
        parts = sorted((tmp_path / "spark-warehouse" / f"kept_{query.name}").glob("batch=*/*.parquet"))
        found = [pq.read_table(path, partitioning=None) for path in parts]
        agree(ordered(found, wanted, len(query.group_by)), wanted)


def test_an_executor_that_is_killed_while_a_stream_runs_changes_nothing(tmp_path: Path) -> None:
    table = prepare(tmp_path, 4)
    with cluster(tmp_path) as running:
        job = start(tmp_path, running.url, 0)
        wait_until(tmp_path, 0, "started", job)
        killed = 0
        try:
            for _ in range(3):
                time.sleep(8)
                if running.executors() and job.poll() is None:
                    running.kill_an_executor()
                    killed += 1
            assert killed
            assert job.wait(timeout=900) == 0, (tmp_path / "log-0").read_text()[-3000:]
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
    compare(tmp_path, table)
