"""The Spark session: the caller's, or a new one with suitable settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name in PySpark code

from trendfold.errors import UnsupportedError

ARROW_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
UNCHECKED = "2147483647"
"""With exactly this value Spark skips measuring the size of every row, which is slow."""

SETTINGS = {
    ARROW_BATCH: UNCHECKED,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    # Spark matches the message of an interrupted output with a recursive pattern: small stacks overflow.
    "spark.driver.extraJavaOptions": "-Xss16m",
    # Python workers keep freed memory: new pages from the system are expensive (ADR 6).
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "4294967296",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "4294967296",
}
"""Settings of new sessions; a caller's session is not changed."""

_OLDEST_JAVA = 17
HOW_TO_GET_JAVA = (
    "install one (on Debian or Ubuntu, as root: apt-get install openjdk-17-jre-headless) or set JAVA_HOME; "
    "the local engine does not need Java"
)


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, or a new one with additional `settings`."""
    active = SparkSession.getActiveSession()
    if active is not None and master is None:
        return active
    remote = "SPARK_REMOTE" in os.environ or (master or "").startswith("sc://")
    if not remote:
        _require_java()
    # Workers must use the interpreter that has pyarrow and this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("trendfold")
    if master is not None:
        builder = builder.remote(master) if remote else builder.master(master)
    shows_progress = sys.stderr.isatty()
    if not remote:
        for name, value in {**SETTINGS, **(settings or {})}.items():
            builder = builder.config(name, value)
        builder = builder.config("spark.ui.showConsoleProgress", str(shows_progress).lower())
    made: SparkSession = builder.getOrCreate()
    return made


def has_session() -> bool:
    """Whether this process has a session already, started in any of its threads."""
    if SparkSession.getActiveSession() is not None:
        return True
    # The active session is that of a thread. PySpark has no public way to ask for one of another thread.
    connect = sys.modules.get("pyspark.sql.connect.session")
    started = [getattr(SparkSession, "_instantiatedSession", None)]
    started += [getattr(connect.SparkSession, "_default_session", None)] if connect is not None else []
    return any(session is not None for session in started)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise UnsupportedError(
            f"Spark needs Java {_OLDEST_JAVA} or later, but none was found: {HOW_TO_GET_JAVA}"
        )
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    if version is not None and int(version.group(1)) < _OLDEST_JAVA:
        raise UnsupportedError(
            f"Spark needs Java {_OLDEST_JAVA} or later, but {java} is {version.group(1)}: {HOW_TO_GET_JAVA}"
        )


@contextmanager
def needs_connector(spark: SparkSession) -> Iterator[None]:
    """Turn Spark's error for a missing Kafka connector into one that says what to pass."""
    try:
        yield
    except Exception as error:
        if not re.search(r"find (the )?data source: `?kafka", str(error)):
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise UnsupportedError(
            f"this Spark session has no Kafka connector; make it with spark.jars.packages={package} "
            f"(trendfold stream --conf spark.jars.packages={package}); see docs/streaming.md"
        ) from None


def is_remote(spark: SparkSession) -> bool:
    """Whether the session is a Spark Connect client: it sees the server's files, not ours."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def parallelism(spark: SparkSession) -> int:
    """How many tasks can run at once."""
    if not is_remote(spark):
        return int(spark.sparkContext.defaultParallelism)
    return _asked_parallelism(spark)


@cache
def _asked_parallelism(spark: SparkSession) -> int:
    """The parallelism seen by a Connect client, which can only count the partitions of a test query."""
    parts = spark.range(1 << 12).select(F.spark_partition_id().alias("part")).distinct().count()
    return max(1, int(parts))


_SETTINGS = threading.RLock()
"""All threads of a session share its settings: this lock is held while they are changed temporarily."""


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings temporarily, one thread at a time; they are restored afterwards."""
    with _SETTINGS:
        before = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, kept in before.items():
                if kept is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, kept)
