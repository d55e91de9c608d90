"""A driver of its own: runs a job for each line it reads, and tells when tasks run and when it is done."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import trendfold as tf
from trendfold.runtime.spark.session import session


def main(master: str, folder: Path) -> None:
    spark = session(master)
    workload = tf.read(folder / "queries.tql")

    def answer(job: str) -> None:
        data = spark.read.parquet(str(folder / "shuffled")) if job == "frame" else str(folder / job)
        result = workload.run(data)
        (folder / "out" / job).mkdir(parents=True)
        for name in result:
            pq.write_table(result[name].toArrow(), folder / "out" / job / f"{name}.parquet")
        result.unpersist()

    with ThreadPoolExecutor(1) as pool:
        for line in sys.stdin:
            under_way = pool.submit(answer, line.strip())
            while not under_way.done() and not _runs_tasks(spark):
                time.sleep(0.02)
            print("running", flush=True)
            under_way.result()
            print("done", time.time(), flush=True)
    spark.stop()


def _runs_tasks(spark: SparkSession) -> bool:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return any(stage is not None and stage.numActiveTasks for stage in stages)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
