"""One Spark session for all of these tests, on one worker; classic, or a Connect client where asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from trendfold.runtime.spark.session import session

REMOTE = "TRENDFOLD_TEST_REMOTE"
"""Names the Connect server that these tests should go through."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in str(item.path).replace(os.sep, "/"):
            item.add_marker(pytest.mark.filterwarnings("default"))  # PySpark's own are not ours to fix


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    if remote := os.environ.get(REMOTE):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # a server started here runs workers here
        os.environ.setdefault("SPARK_TESTING", "1")  # it takes a free port, and the client asks it which
        made = SparkSession.builder.remote(remote).getOrCreate()
    else:
        made = session("local[2]")
    yield made
    made.stop()
