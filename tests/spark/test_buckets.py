"""Buckets go where Spark's own hash puts their labels."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from trendfold.runtime.spark.buckets import partition_labels, spark_hash

pytestmark = pytest.mark.xdist_group("spark")


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    rows = spark.range(-50, 500).select(F.col("id").cast("int"), F.hash(F.col("id").cast("int"))).collect()
    assert [spark_hash(number) for number, _ in rows] == [wanted for _, wanted in rows]


@pytest.mark.parametrize("parts", [1, 2, 7, 400])
def test_every_partition_has_a_label(parts: int) -> None:
    labels = partition_labels(parts)
    assert [spark_hash(label) % parts for label in labels] == list(range(parts))
