"""A Spark session with Delta and Iceberg, whose jars and PySpark `make test-lake` gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark
from pyspark.sql import SparkSession

LAKE = Path(__file__).parents[2] / ".lake"


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Delta in Spark's own catalog, and an Iceberg catalog named `ice`."""
    jars = sorted(LAKE.glob("jars/*.jar"))
    if not jars or not Path(pyspark.__file__).is_relative_to(LAKE):
        pytest.skip("`make test-lake` gets Delta, Iceberg and the PySpark they are made for")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = tmp_path_factory.mktemp("lake")
    settings = {
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(home / "ice"),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    yield spark
    spark.stop()
