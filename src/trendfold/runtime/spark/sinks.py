"""Where the rows of a stream go: a folder, a table, a Kafka topic, the terminal, or a function of the user's.

A micro-batch that is run again after a crash hands over the same rows under the same number, so whatever
keeps them by that number keeps them once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from trendfold.errors import InputError, TrendfoldError
from trendfold.runtime.places import Place, place
from trendfold.runtime.spark.session import needs_connector, with_settings
from trendfold.runtime.topics import Topic, is_topic, read_topic
from trendfold.runtime.writing import WRITERS, file_name, query_lines

Foreach = Callable[[DataFrame, int, str], None]
"""Called with the rows of one query in one micro-batch, the batch's number, and the query's name."""
Output = str | os.PathLike[str] | Foreach

FORMATS = ("parquet", "json")
TABLE, TERMINAL = "table:", "terminal"
_ENDINGS = {"parquet": "parquet", "json": "jsonl"}


class Sink(Protocol):
    """Takes the rows of one micro-batch, by query."""

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Keep or show them; with `is_again` the batch may have been written before."""


def open_sink(output: Output, file_format: str = "parquet") -> Sink:
    """The sink that an output stands for."""
    if callable(output):
        return ForeachSink(output)
    text = os.fspath(output)
    if text == TERMINAL:
        return ForeachSink(_show)
    if text.startswith(TABLE):
        return TableSink(text.removeprefix(TABLE))
    if is_topic(text):
        return TopicSink(read_topic(text))
    if file_format not in FORMATS:
        raise InputError(f"unknown format {file_format!r} of a stream's output; choose one of {FORMATS}")
    found = place(text)
    found.make()
    return FolderSink(found, file_format)


def _show(rows: DataFrame, batch: int, query: str) -> None:
    rows.select(F.lit(query).alias("query"), "*").show(truncate=False)


@dataclass(frozen=True)
class FolderSink:
    """A folder per query, and in it one per micro-batch, which appears whole and replaces itself."""

    folder: Place
    file_format: str

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Write beside, then rename."""
        for name, table in tables.items():
            own = self.folder / file_name(name)
            final = own / f"batch={batch}"
            if not table.num_rows:
                if is_again:
                    final.remove()
                continue
            beside = own / f".batch={batch}"
            beside.remove()
            beside.make()
            path = beside / f"part-0.{_ENDINGS[self.file_format]}"
            try:
                with path.system.open_output_stream(path.path) as file:
                    WRITERS[self.file_format](table, file)
                beside.become(final)
            except OSError as error:
                why = os.strerror(error.errno) if error.errno else str(error)
                raise TrendfoldError(
                    f"cannot write {final.url!r}: {why}; nothing is lost: mend that and start again"
                ) from None


@dataclass(frozen=True)
class TableSink:
    """A table per query, partitioned by `batch`: a batch that is run again overwrites its partition."""

    prefix: str

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Into `<prefix>_<query>`."""
        for name, table in tables.items():
            if not table.num_rows:
                continue
            frame = spark.createDataFrame(table).withColumn("batch", F.lit(batch).cast("bigint"))
            own = f"{self.prefix}_{name}"
            if not spark.catalog.tableExists(own):
                frame.write.partitionBy("batch").saveAsTable(own)
                continue
            with with_settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
                frame.write.insertInto(own, overwrite=True)  # of this batch only


@dataclass(frozen=True)
class ForeachSink:
    """A function, called once per query that has rows."""

    function: Foreach

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Hand over the rows as DataFrames."""
        for name, table in tables.items():
            if table.num_rows:
                self.function(spark.createDataFrame(table), batch, name)


@dataclass(frozen=True)
class TopicSink:
    """A Kafka topic: a JSON object per row.

    A batch that is run again sends its rows again under the same keys, so that a receiver can tell copies.
    """

    topic: Topic

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Keyed `QUERY/BATCH/NUMBER`; rows are numbered in an order that does not depend on how they came."""
        lines = {name: sorted(query_lines(name, table)) for name, table in tables.items()}
        keys = [f"{name}/{batch}/{number}" for name, own in lines.items() for number in range(len(own))]
        values = [line for own in lines.values() for line in own]
        if not values:
            return
        rows = spark.createDataFrame(pa.table({"key": keys, "value": values}))
        with needs_connector(spark):
            rows.write.format("kafka").options(
                **{"kafka.bootstrap.servers": self.topic.servers, "topic": self.topic.name}
            ).save()


# ---------------------------------------------------------------- a micro-batch


def no_place(output: Any) -> InputError:
    """What to say where an output is none."""
    return InputError(
        f"output is {output!r}; it is a folder, 'table:NAME', 'kafka:SERVERS/TOPIC', 'terminal', or a "
        f"function of (rows, batch, query)"
    )
