"""Streams by name: files that arrive in a folder, or Spark's own clockwork. All others come as DataFrames."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from trendfold.errors import InputError
from trendfold.events.text import CsvOptions
from trendfold.runtime.spark.source import with_text

FILES = ("parquet", "csv", "json")
RATE = "rate"
_RATE_ROWS = 1_000


def open_stream(
    spark: SparkSession,
    source: str,
    csv: CsvOptions,
    types: Sequence[str] = (),
    files_per_batch: int | None = None,
) -> DataFrame:
    """`parquet:FOLDER`, `csv:FOLDER`, `json:FOLDER`, or `rate` and `rate:ROWS_PER_SECOND`."""
    kind, _, rest = source.partition(":")
    if kind == RATE:
        return _rate(spark, rest, types)
    if kind not in FILES or not rest:
        raise InputError(
            f"unknown source {source!r}; it is parquet:FOLDER, csv:FOLDER, json:FOLDER or rate:N"
        )
    reader = spark.readStream.format(kind).schema(_schema(spark, kind, rest, csv))
    if kind == "csv":
        reader = reader.options(header=csv.header, sep=csv.delimiter or ",")
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    return reader.load(rest)


def folder_read(source: str) -> str | None:
    """The folder that a source reads; None where it reads none."""
    kind, _, rest = source.partition(":")
    return rest if kind in FILES and rest else None


def _schema(spark: SparkSession, kind: str, path: str, csv: CsvOptions) -> StructType:
    """Columns as they are declared; otherwise as the files that are there already have them."""
    schema = _columns(spark, kind, path, csv)
    return schema if csv.as_text is None else with_text(schema, csv.as_text)


def _columns(spark: SparkSession, kind: str, path: str, csv: CsvOptions) -> StructType:
    if csv.types:
        return StructType([StructField(n, from_arrow_type(kind_of)) for n, kind_of in csv.types.items()])
    reader = spark.read.format(kind)
    if kind == "csv":
        reader = reader.options(header=csv.header, sep=csv.delimiter or ",", inferSchema=True)
    try:
        found = reader.load(path).schema
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            raise InputError(f"there is no folder {path!r}; make it, or correct the path") from None
        if "UNABLE_TO_INFER_SCHEMA" not in str(error):
            raise
        found = StructType()
    if not found.fields:
        raise InputError(f"no file in {path!r} tells the columns yet; pass --schema, or put one there")
    return found


def _rate(spark: SparkSession, rows: str, types: Sequence[str]) -> DataFrame:
    """Rows by the clock: `ts`, `value` counts up, and `type` takes the given names in turn."""
    if rows and not re.fullmatch(r"[1-9]\d*", rows):
        raise InputError(f"source 'rate:{rows}' is not a number of rows per second, such as rate:1000")
    if not types:
        raise InputError("source 'rate' needs the names of event types: --types A,B,C")
    frame = spark.readStream.format(RATE).option("rowsPerSecond", rows or _RATE_ROWS).load()
    names = F.array([F.lit(name) for name in types])
    turn = (F.col("value") % len(types)).cast("int")
    return frame.select(F.get(names, turn).alias("type"), F.col("timestamp").alias("ts"), "value")
