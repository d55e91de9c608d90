"""Stream sources by name: files arriving in a folder, a table, a Kafka topic, or Spark's rate source.

Other streams are passed as DataFrames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from trendfold.errors import InputError, UnsupportedError
from trendfold.events.messages import read_messages
from trendfold.events.text_files import CsvOptions, read_schema
from trendfold.runtime.spark.session import needs_connector
from trendfold.runtime.spark.sinks import TABLE
from trendfold.runtime.spark.source import with_text
from trendfold.runtime.stream.parcels import REFUSED, WHY
from trendfold.runtime.topics import Topic, is_topic, read_topic

FILES = ("parquet", "csv", "json")
DELTA, RATE = "delta", "rate"
_RATE_ROWS = 1_000
_VALUE, _PLACE = "value", ("partition", "offset")
"""Columns of Kafka messages: the content, and its position."""


@dataclass(frozen=True)
class SourceSettings:
    """The size of micro-batches, the starting offsets, and further options for Spark's source."""

    files_per_batch: int | None = None
    rows_per_batch: int | None = None
    starting_offsets: str = "earliest"
    options: Mapping[str, str] = field(default_factory=dict)


def open_stream(
    spark: SparkSession,
    source: str,
    csv: CsvOptions,
    types: Sequence[str] = (),
    reading: SourceSettings | None = None,
) -> DataFrame:
    """Open a source.

    `parquet:FOLDER`, `csv:FOLDER`, `json:FOLDER`, `delta:FOLDER`, `table:NAME`, `kafka:SERVERS/TOPIC` or
    `rate:ROWS_PER_SECOND`.
    """
    reading = reading or SourceSettings()
    kind, _, rest = source.partition(":")
    if kind == RATE:
        return _rate(spark, rest, types)
    if is_topic(source):
        return _topic(spark, read_topic(source), csv.schema, reading)
    if rest and (kind == DELTA or source.startswith(TABLE)):
        return _table(spark, source, rest, reading)
    if kind not in FILES or not rest:
        raise InputError(
            f"unknown source {source!r}; use parquet:FOLDER, csv:FOLDER, json:FOLDER, delta:FOLDER, "
            f"table:NAME, kafka:SERVERS/TOPIC or rate:N"
        )
    reader = spark.readStream.format(kind).schema(_schema(spark, kind, rest, csv)).options(**reading.options)
    if kind == "csv":
        reader = reader.options(header=csv.header, sep=csv.delimiter or ",")
    if reading.files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", reading.files_per_batch)
    return reader.load(rest)


def folder_read(source: str) -> str | None:
    """The folder that a source reads; None if it does not read a folder."""
    kind, _, rest = source.partition(":")
    return rest if kind in (*FILES, DELTA) and rest else None


# ---------------------------------------------------------------- tables


def _table(spark: SparkSession, source: str, name: str, reading: SourceSettings) -> DataFrame:
    """A table that streams can read, such as those of Delta and Iceberg."""
    reader = spark.readStream.options(**reading.options)
    if reading.files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", reading.files_per_batch)
    try:
        return reader.table(name) if source.startswith(TABLE) else reader.format(DELTA).load(name)
    except AnalysisException as error:
        told = str(error).partition("\n")[0]
        if "DATA_SOURCE_NOT_FOUND" in told or "Failed to find data source" in told:
            raise UnsupportedError(
                "this Spark session has no Delta; make it with Delta's jars and settings, as "
                "docs/streaming.md shows (--conf spark.jars.packages=io.delta:delta-spark_...)"
            ) from None
        raise InputError(f"cannot read {source!r} as a stream: {told}") from None


# ---------------------------------------------------------------- messages


def _topic(spark: SparkSession, topic: Topic, schema: str | None, reading: SourceSettings) -> DataFrame:
    if schema is None:
        raise InputError(
            "Kafka messages have no schema: pass --schema with names and types, as in "
            "'type string, ts timestamp, speed double'"
        )
    reader = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": topic.servers, "subscribe": topic.name},
        startingOffsets=reading.starting_offsets,
        **reading.options,
    )
    if reading.rows_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", reading.rows_per_batch)
    with needs_connector(spark):
        return json_events(reader.load(), schema)


def json_events(messages: DataFrame, schema: str) -> DataFrame:
    """Parse messages that have a JSON object in the column `value`, as Kafka's do.

    `schema` names the fields that become columns, as in `type string, ts timestamp, speed double`. A message
    that cannot be parsed is rejected with its text and, if the columns `partition` and `offset` exist, its
    position.
    """
    types = read_schema(schema)
    place = [name for name in _PLACE if name in messages.columns]
    given = messages.select(F.col(_VALUE).cast("binary").alias(_VALUE), *place)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield from _events(batch, types).to_batches()

    fields = [StructField(name, from_arrow_type(kind)) for name, kind in types.items()]
    refused = [StructField(name, StringType()) for name in (REFUSED, WHY)]
    return given.mapInArrow(read, StructType([*fields, *refused]))


def _events(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The columns of messages, with text and reason for the rejected ones."""
    found = read_messages(batch.column(0), types)
    why = found.reason.to_pylist()
    if batch.num_columns > 1:
        place = zip(*(column.to_pylist() for column in batch.columns[1:]), strict=True)
        named = (", ".join(f"{n} {v}" for n, v in zip(_PLACE, at, strict=True)) for at in place)
        why = [None if reason is None else f"{reason} ({at})" for reason, at in zip(why, named, strict=True)]
    table = found.table.append_column(REFUSED, found.text)
    return table.append_column(WHY, pa.array(why, pa.string())).combine_chunks()


# ---------------------------------------------------------------- files and the clock


def _schema(spark: SparkSession, kind: str, path: str, csv: CsvOptions) -> StructType:
    """The declared columns; otherwise those of the files already there."""
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
            raise InputError(f"there is no folder {path!r}; create it, or correct the path") from None
        if "UNABLE_TO_INFER_SCHEMA" not in str(error):
            raise
        found = StructType()
    if not found.fields:
        raise InputError(f"no file in {path!r} gives the columns yet; pass --schema, or add a file")
    return found


def _rate(spark: SparkSession, rows: str, types: Sequence[str]) -> DataFrame:
    """Spark's rate source: `ts`, a counting `value`, and `type`, which cycles through the given names."""
    if rows and not re.fullmatch(r"[1-9]\d*", rows):
        raise InputError(f"source 'rate:{rows}' is not a number of rows per second, such as rate:1000")
    if not types:
        raise InputError("source 'rate' needs the names of event types: --types A,B,C")
    frame = spark.readStream.format(RATE).option("rowsPerSecond", rows or _RATE_ROWS).load()
    names = F.array([F.lit(name) for name in types])
    turn = (F.col("value") % len(types)).cast("int")
    return frame.select(F.get(names, turn).alias("type"), F.col("timestamp").alias("ts"), "value")
