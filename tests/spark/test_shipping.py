"""Executors on a machine without compiled kernels get them from the driver, with the job."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trendfold
from spark.cluster import ENVIRONMENT, cluster

DRIVER = """
import sys
import trendfold as tf
from trendfold.runtime.spark.session import session

spark = session(sys.argv[1], {"spark.executorEnv.PYTHONPATH": sys.argv[2], "spark.cores.max": "1"})
rows = tf.parse("RETURN COUNT(*) PATTERN SEQ(A, B+) WITHIN 8 s").run(spark.read.parquet(sys.argv[3]))["q1"]
print([row["count"] for row in rows.orderBy("window_end").collect()])
"""


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_executors_adopt_what_the_driver_has_compiled(tmp_path: Path) -> None:
    installed = [tmp_path / name for name in ("driver", "executor")]
    for path in installed:
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(trendfold.__file__).parent, path / "trendfold", ignore=without)
    events = pa.table({"type": list("ABBAB"), "ts": pa.array([1, 2, 3, 4, 5], pa.int64())})
    pq.write_table(events, tmp_path / "events.parquet")
    driver, executor = installed

    def run_on(package: Path) -> str:
        """The counts, from a driver with the first package and an executor with this one."""
        command = [sys.executable, "-c", DRIVER, running.url, str(package), str(tmp_path / "events.parquet")]
        environment = {**ENVIRONMENT, "PYTHONPATH": str(driver)}
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    with cluster(tmp_path, workers=1) as running:
        here = run_on(driver)  # both compile into one folder
        compiled = kernels(driver)
        assert len(compiled) > 20
        assert kernels(executor) == set()
        assert run_on(executor) == here == "[1.0, 3.0, 8.0]\n"
    assert kernels(executor) == compiled  # adopted, and no other was compiled


def kernels(package: Path) -> set[str]:
    return {path.relative_to(package).as_posix() for path in package.rglob("*.nb[ic]")}
