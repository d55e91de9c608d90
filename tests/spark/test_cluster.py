"""A real cluster whose executors are killed while a job runs: the rows are those of the local engine."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.agreement import agree, put
from spark.cluster import ENVIRONMENT, cluster, wait_for
from spark.test_agreement import WORKLOAD, stream

DRIVER = Path(__file__).with_name("driver.py")


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_an_executor_that_is_killed_in_mid_job_changes_nothing(tmp_path: Path) -> None:
    table = stream(events=400_000, groups=200)
    rows = list(range(table.num_rows))
    random.Random(5).shuffle(rows)
    cuts = [table.num_rows * i // 6 for i in range(1, 6)]
    put(table, tmp_path / "ordered", cuts)
    put(table.take(pa.array(rows)), tmp_path / "shuffled", cuts)
    (tmp_path / "queries.tql").write_text(WORKLOAD.queries[0].text)
    here = WORKLOAD.run(table, engine="local")
    command = [sys.executable, str(DRIVER)]
    with (
        cluster(tmp_path) as running,
        subprocess.Popen(
            [*command, running.url, str(tmp_path)], env=ENVIRONMENT, stdin=PIPE, stdout=PIPE, text=True
        ) as driver,
    ):
        assert driver.stdin is not None
        assert driver.stdout is not None
        for job in ("ordered", "shuffled", "frame"):
            print(job, file=driver.stdin, flush=True)
            assert driver.stdout.readline() == "running\n"
            killed, at = running.kill_an_executor(), time.time()
            told, ended = driver.stdout.readline().split()
            assert told == "done"
            assert float(ended) > at, "the job was over before the executor was killed"
            assert killed not in running.executors()
            wait_for(lambda: len(running.executors()) == 2)  # the killed one is replaced
            for query in WORKLOAD:
                agree(pq.read_table(tmp_path / "out" / job / f"{query.name}.parquet"), here[query.name])
        driver.stdin.close()
        assert driver.wait(timeout=60) == 0
