"""The operators of a stream's Spark query: rows are packed into parcels, and those are sent to shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from trendfold.events.batch import schema_of
from trendfold.runtime.spark import blobs, processor
from trendfold.runtime.spark.blobs import Blob
from trendfold.runtime.spark.buckets import partition_labels
from trendfold.runtime.spark.catalyst import with_dots, without_dots
from trendfold.runtime.spark.engine import narrowed, translatable
from trendfold.runtime.spark.shipping import adopt_compiled
from trendfold.runtime.spark.source import FrameSource
from trendfold.runtime.stream.parcels import CLOCK, REFUSED, WHY, Parcel, pack_events
from trendfold.runtime.stream.shards import flush
from trendfold.runtime.stream.stream_job import StreamJob

Batches = Iterator[pa.RecordBatch]

PARCEL = pa.schema(
    [
        pa.field("clock", pa.timestamp("us", "UTC")),
        *blobs.SCHEMA,
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("rest", pa.binary()),
    ]
)
PARCEL_DDL = f"clock timestamp, {blobs.DDL}, low bigint, high bigint, rest binary"


def judged_by_spark(stream: StreamJob) -> StreamJob:
    """The stream whose conditions Spark evaluates where it can, so that rows reach Python with their bits."""
    conditions = dict.fromkeys(c for n in stream.asked for c in stream.job.exchanges[n].conditions)
    bits = translatable(conditions, schema_of(stream.job.schema))
    return replace(stream, job=replace(stream.job, bits=bits))


def pack(stream: StreamJob, source: FrameSource) -> DataFrame:
    """Pack rows into parcels."""
    labels = partition_labels(stream.job.buckets)

    def pack_part(batches: Batches) -> Batches:
        adopt_compiled()
        parts = [batch for batch in batches if batch.num_rows]
        if parts:
            latest, parcels = pack_events(stream, with_dots(pa.Table.from_batches(parts)))
            for parcel in parcels:
                yield _row(parcel, labels, latest)

    also = [name for name in (REFUSED, WHY) if name in source.frame.columns]
    also += stream.job.schema.names if stream.keeps_rejects else []
    rows = narrowed(stream.job, source, also)
    if stream.max_ahead is not None:
        rows = rows.withColumn(CLOCK, F.current_timestamp())  # stored with the batch's offsets
    return without_dots(rows).mapInArrow(pack_part, PARCEL_DDL)


def to_shards(parcels: DataFrame, shards: StatefulProcessor, delay_ms: int) -> DataFrame:
    """Send parcels to shards.

    The watermark follows the latest time of each part. Its column is dropped before the stateful operator;
    otherwise Spark would silently drop late parcels.
    """
    timed = parcels.withWatermark("clock", f"{delay_ms} milliseconds").drop("clock")
    return timed.groupBy("bucket").transformWithStateInPandas(shards, blobs.DDL, "append", "EventTime")


def _row(parcel: Parcel, labels: Sequence[int], latest: int | None) -> pa.RecordBatch:
    blob = parcel.blob
    payload = blob.payload if isinstance(blob.payload, bytes) else blob.payload.to_pybytes()
    values = [latest, labels[blob.bucket], int(blob.content), blob.owner, blob.rows, payload]
    columns = [[value] for value in (*values, parcel.low, parcel.high, parcel.rest)]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, PARCEL, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PARCEL)


# ---------------------------------------------------------------- flush


def flush_from(spark: SparkSession, stream: StreamJob, checkpoint: str) -> list[Blob]:
    """The open windows of all shards, computed from the state in the checkpoint."""

    def read(variable: str) -> DataFrame:
        reader = spark.read.format("statestore").option("path", checkpoint)
        return reader.option("stateVarName", variable).load()

    bucket = F.col("key.bucket").alias("bucket")
    indexes = read(processor.INDEX).select(
        bucket, F.lit(-1).cast("bigint").alias("number"), F.encode("value.text", "UTF-8").alias("payload")
    )
    parts = read(processor.PARTS).select(
        bucket, F.col("user_map_key.number").alias("number"), F.col("user_map_value.payload").alias("payload")
    )

    def fold(batches: Batches) -> Batches:
        kept: dict[int, dict[int, bytes]] = {}
        for batch in batches:
            for shard, number, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                kept.setdefault(shard, {})[number] = payload
        for shard, state in kept.items():
            told = flush(stream, _Kept(state))
            yield from blobs.to_batches(replace(blob, bucket=shard) for blob in told)

    together = indexes.unionByName(parts).repartition(stream.job.buckets, "bucket")
    return list(blobs.from_batches(together.mapInArrow(fold, blobs.DDL).toArrow().to_batches()))


@dataclass
class _Kept:
    """A shard's state read from the checkpoint; changes are not stored."""

    state: dict[int, bytes]

    def index(self) -> str | None:
        text = self.state.get(-1)
        return None if text is None else text.decode()

    def set_index(self, text: str) -> None:
        self.state[-1] = text.encode()

    def get(self, number: int) -> bytes:
        return self.state[number]

    def put(self, number: int, payload: bytes) -> None:
        self.state[number] = payload

    def drop(self, number: int) -> None:
        del self.state[number]

    def clear(self) -> None:
        self.state.clear()
