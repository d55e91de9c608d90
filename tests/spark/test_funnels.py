"""Funnels on Spark: the rows of the local engine, from a DataFrame, a table and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import trendfold as tf
from trendfold.errors import QueryError, RejectError


def stream(events: int) -> pa.Table:
    draw = np.random.default_rng(5)
    user = draw.integers(0, events // 8, events)
    return pa.table(
        {
            "type": np.array(["view", "cart", "pay", "x"])[draw.integers(0, 4, events)],
            "ts": pa.array(draw.integers(0, 400, events), mask=draw.random(events) < 0.01),
            "user": pa.array(user, mask=user == 3),
            "amount": draw.random(events),
        }
    )


def test_the_rows_are_those_of_the_local_engine(spark: SparkSession, tmp_path: Path) -> None:
    events, cart = stream(4_000), tf.event("cart", as_="c")
    pq.write_table(events, tmp_path / "events.parquet")
    for every in (None, "100 s"):
        asked = {"steps": ["view", cart, "pay"], "by": "user", "within": "60 s", "where": cart.amount > 0.2}
        here = tf.funnel(events, **asked, every=every, engine="local")
        for data in (spark.createDataFrame(events), tmp_path / "events.parquet"):
            there = tf.funnel(data, **asked, every=every, engine="spark")
            assert there.table.schema == here.table.schema
            assert (there.events, there.rejects) == (here.events, here.rejects)
            for one, other in zip(there.table.to_pylist(), here.table.to_pylist(), strict=True):
                assert one == pytest.approx(other)


def test_a_dataframe_chooses_spark_and_warns_of_types_that_are_not_there(spark: SparkSession) -> None:
    found = tf.funnel(spark.createDataFrame(stream(50)), steps=["view", "crat"], by="user", within="1 h")
    assert found.engine == "spark"
    assert any("'crat'" in warning and "'cart'" in warning for warning in found.warnings)


def test_what_is_wrong_is_said(spark: SparkSession) -> None:
    events = spark.createDataFrame(stream(2_000))
    with pytest.raises(QueryError, match="there is no column 'usr'"):
        tf.funnel(events, steps=["view"], by="usr", within="1 h")
    with pytest.raises(RejectError):
        tf.funnel(events, steps=["view"], by="user", within="1 h", on_reject="fail")
