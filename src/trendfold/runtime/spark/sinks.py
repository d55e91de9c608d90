"""The sinks of a stream: a folder, a table, a Kafka topic, a webhook, the terminal, or a user's function.

A micro-batch that is rerun after a crash delivers the same rows under the same number, so a sink that stores
them by number stores them once. Folders and tables also record their owner (sink_claims.py).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from trendfold.errors import InputError, TrendfoldError
from trendfold.runtime.ownership import OWNER_FILE, Owner, owner_of, read_owner
from trendfold.runtime.places import Place, place
from trendfold.runtime.spark.session import needs_connector, with_settings
from trendfold.runtime.topics import Topic, is_topic, read_topic
from trendfold.runtime.webhooks import is_webhook, post_rows, read_webhook
from trendfold.runtime.writing import WRITERS, file_name, keyed_lines

Foreach = Callable[[DataFrame, int, str], None]
"""Called with the rows of one query in one micro-batch, the batch's number, and the query's name."""
Output = str | os.PathLike[str] | Foreach

FORMATS = ("parquet", "json")
TABLE_FORMATS = ("parquet", "delta", "iceberg")
"""The formats of new tables; `parquet` stands for the default of the session."""
TABLE, TERMINAL = "table:", "terminal"
OWNER_TABLE = "_trendfold"
"""Used in place of a query's name: the table that records the owner of the others."""
_ENDINGS = {"parquet": "parquet", "json": "jsonl"}
_BATCH = re.compile(r"\.?batch=\d+")
_IDENTIFIER = re.compile(r"\w+", re.ASCII)
_LONGEST_NAME = 255
"""The longest file name that file systems allow, in bytes."""
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


class Sink(Protocol):
    """Receives the rows of micro-batches, by query."""

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Write or show rows; if `is_again`, the batch may have been written before."""


def open_sink(output: Output, file_format: str = "parquet") -> Sink:
    """Open the sink for an output."""
    if callable(output):
        return ForeachSink(output)
    text = os.fspath(output)
    if text == TERMINAL:
        return ForeachSink(_show)
    if text.startswith(TABLE):
        return _table(text.removeprefix(TABLE), file_format)
    if is_topic(text):
        return TopicSink(read_topic(text))
    if is_webhook(text):
        return WebhookSink(read_webhook(text))
    if file_format not in FORMATS:
        if file_format in TABLE_FORMATS:
            raise InputError(f"{file_format!r} is a format of tables; write to table:NAME, not to {text!r}")
        raise InputError(f"unknown format {file_format!r} of a stream's output; choose one of {FORMATS}")
    return FolderSink(place(text), file_format)


def open_rejects(output: str | os.PathLike[str], file_format: str) -> Sink:
    """Open the sink for rejects, in the format of the output if it has that one, otherwise in the default."""
    formats = TABLE_FORMATS if os.fspath(output).startswith(TABLE) else FORMATS
    return open_sink(output, file_format if file_format in formats else "parquet")


def folder_of(output: Output | None) -> str | None:
    """The folder of an output; None for any other place."""
    if output is None or callable(output):
        return None
    text = os.fspath(output)
    is_elsewhere = text == TERMINAL or text.startswith(TABLE) or is_topic(text) or is_webhook(text)
    return None if is_elsewhere else text


def _table(name: str, file_format: str) -> TableSink:
    if not all(_IDENTIFIER.fullmatch(part) for part in name.split(".")):
        raise InputError(
            f"{name!r} is not a table name; use letters, digits and underscores, as in table:rides or "
            f"table:database.rides"
        )
    if file_format not in TABLE_FORMATS:
        raise InputError(f"unknown format {file_format!r} of a table; choose one of {TABLE_FORMATS}")
    return TableSink(name, None if file_format == "parquet" else file_format)


def _show(rows: DataFrame, batch: int, query: str) -> None:
    rows.select(F.lit(query).alias("query"), "*").show(truncate=False)


@dataclass(frozen=True)
class FolderSink:
    """A folder per query with a subfolder per micro-batch, which appears atomically and replaces itself."""

    folder: Place
    file_format: str

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Write under a temporary name, then rename."""
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
                path.sync()
                beside.become(final)
            except OSError as error:
                why = os.strerror(error.errno) if error.errno else str(error)
                raise TrendfoldError(
                    f"cannot write {final.url!r}: {why}; no data is lost: fix the cause and restart"
                ) from None

    def __str__(self) -> str:
        return f"the folder {self.folder.url!r}"

    def require_names(self, names: Iterable[str]) -> None:
        """Raise for queries that cannot have separate folders on every file system."""
        known = {OWNER_FILE.casefold(): ""}
        for name in names:
            own = file_name(name)
            if len(own) > _LONGEST_NAME:
                raise InputError(
                    f"query {name[:40] + '...'!r} would have a folder with a name of {len(own)} bytes, but "
                    f"file systems allow {_LONGEST_NAME}; give it a shorter name"
                )
            _require_untaken(name, own, known, "folder")

    def owner(self, spark: SparkSession) -> Owner | None:
        """The owner of the rows."""
        return owner_of(self.folder)

    def holds_any(self, spark: SparkSession, names: Iterable[str]) -> bool:
        """Whether the folder has any files that are not hidden."""
        return any(not name.startswith(".") for name in self.folder.names())

    def clear(self, spark: SparkSession, names: Iterable[str], files: Iterable[str]) -> None:
        """Remove the micro-batches of queries, and the files of a run; everything else stays."""
        for name in names:
            own = self.folder / file_name(name)
            for batch in own.names():
                if _BATCH.fullmatch(batch):
                    (own / batch).remove()
        for name in files:
            (self.folder / name).remove_file()

    def own(self, spark: SparkSession, owner: Owner) -> None:
        """Record the owner of the rows."""
        self.folder.make()
        owner.write(self.folder)


@dataclass(frozen=True)
class TableSink:
    """A table per query, partitioned by `batch`: a batch that is rerun overwrites its partition.

    All other batches are appended, so that streams can read Delta and Iceberg tables: they refuse overwrites.
    An in-memory catalog forgets its tables when the process ends, but their files stay. They are registered
    again, and so is the table that records their owner: a table property would be lost.

    using  the format of new tables; None for the session's default
    """

    prefix: str
    using: str | None = None

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Write into the table `<prefix>_<query>`."""
        for name, table in tables.items():
            if table.num_rows:
                frame = spark.createDataFrame(table).withColumn("batch", F.lit(batch).cast("bigint"))
                self._put(spark, self._named(name), frame, batch, is_again)

    def _put(self, spark: SparkSession, own: str, frame: DataFrame, batch: int, is_again: bool) -> None:
        if not self._recall(spark, own):
            self._writer(frame).partitionBy("batch").saveAsTable(own)
            return
        kept = spark.table(own).columns
        if kept != frame.columns:
            raise TrendfoldError(
                f"table {own!r} has the columns {', '.join(kept)}, but the rows have "
                f"{', '.join(frame.columns)}; drop the table, or choose another"
            )
        if is_again and spark.table(own).where(F.col("batch") == batch).take(1):
            with with_settings(spark, {_OVERWRITE_MODE: "dynamic"}):
                frame.write.insertInto(own, overwrite=True)  # only the partition of this batch
        else:
            frame.write.insertInto(own)

    def _writer(self, frame: DataFrame) -> DataFrameWriter:
        return frame.write if self.using is None else frame.write.format(self.using)

    def _recall(self, spark: SparkSession, name: str) -> bool:
        return _recall(spark, name, self.using or "parquet")

    def _named(self, query: str) -> str:
        return f"{self.prefix}_{query}"

    def __str__(self) -> str:
        return f"the table {self.prefix!r}"

    def require_names(self, names: Iterable[str]) -> None:
        """Raise for queries that cannot have separate tables."""
        known = {OWNER_TABLE: ""}
        for name in names:
            if not _IDENTIFIER.fullmatch(name) or len(self._named(name)) > _LONGEST_NAME:
                raise InputError(
                    f"query {name[:40]!r} cannot be part of a table name; give it a name of letters, digits "
                    f"and underscores, or write to a folder"
                )
            _require_untaken(name, name, known, "table")

    def owner(self, spark: SparkSession) -> Owner | None:
        """The owner of the rows."""
        own = self._named(OWNER_TABLE)
        rows = spark.table(own).take(1) if self._recall(spark, own) else []
        return read_owner(rows[0][0].encode(), f"table {own!r}") if rows else None

    def holds_any(self, spark: SparkSession, names: Iterable[str]) -> bool:
        """Whether one of these queries has a table."""
        return any(self._recall(spark, self._named(name)) for name in names)

    def clear(self, spark: SparkSession, names: Iterable[str], files: Iterable[str]) -> None:
        """Delete the rows of queries; their tables stay."""
        for name in names:
            own = self._named(name)
            if self._recall(spark, own):
                nothing = spark.createDataFrame([], spark.table(own).schema)
                with with_settings(spark, {_OVERWRITE_MODE: "static"}):
                    nothing.write.insertInto(own, overwrite=True)

    def own(self, spark: SparkSession, owner: Owner) -> None:
        """Record the owner of the rows."""
        own = self._named(OWNER_TABLE)
        frame = spark.createDataFrame([(json.dumps(asdict(owner)),)], "owner string")
        if self._recall(spark, own):
            frame.write.insertInto(own, overwrite=True)
        else:
            self._writer(frame).saveAsTable(own)


def _require_untaken(query: str, name: str, known: dict[str, str], what: str) -> None:
    """Raise if a name is taken, ignoring case; trendfold's own names are known under the empty query."""
    other = known.setdefault(name.casefold(), query)
    if other == query:
        return
    whose = f"query {other!r}" if other else "trendfold itself"
    raise InputError(f"query {query!r} would get the same {what} as {whose}; give it another name")


def _recall(spark: SparkSession, name: str, using: str) -> bool:
    """Whether a table exists; one that the catalog has forgotten is registered again from its files."""
    if spark.catalog.tableExists(name):
        return True
    *database, table = name.split(".")
    try:
        home = spark.catalog.getDatabase(".".join(database) or spark.catalog.currentDatabase()).locationUri
        location = f"{home.rstrip('/')}/{table.lower()}"
        columns = spark.read.format(using).load(location).columns
    except AnalysisException:
        return False  # no such database or folder, or an empty one
    if not columns:
        return False
    spark.catalog.createTable(name, path=location, source=using)
    if using == "parquet" and "batch" in columns:
        spark.catalog.recoverPartitions(name)
    return True


@dataclass(frozen=True)
class ForeachSink:
    """A user's function, called once per query that has rows."""

    function: Foreach

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Call the function with a DataFrame per query."""
        for name, table in tables.items():
            if table.num_rows:
                self.function(spark.createDataFrame(table), batch, name)


@dataclass(frozen=True)
class TopicSink:
    """A Kafka topic: a JSON object per row.

    A batch that is rerun sends its rows again with the same keys, so that a receiver can detect duplicates.
    """

    topic: Topic

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Send every row as JSON, with its key."""
        lines = keyed_lines(tables)
        if not lines:
            return
        keys, values = zip(*lines, strict=True)
        rows = spark.createDataFrame(pa.table({"key": keys, "value": values}))
        with needs_connector(spark):
            rows.write.format("kafka").options(
                **{"kafka.bootstrap.servers": self.topic.servers, "topic": self.topic.name}
            ).save()


# ---------------------------------------------------------------- a micro-batch


def no_place(output: Any) -> InputError:
    """The error for an invalid output."""
    return InputError(
        f"output is {output!r}; pass a folder, 'table:NAME', 'kafka:SERVERS/TOPIC', 'terminal', or a "
        f"function of (rows, batch, query)"
    )


@dataclass(frozen=True)
class WebhookSink:
    """A web address that takes rows as JSON; a batch that is rerun posts its rows with the same keys."""

    url: str

    def write(
        self, spark: SparkSession, batch: int, tables: Mapping[str, pa.Table], is_again: bool = False
    ) -> None:
        """Post the rows of a micro-batch."""
        post_rows(self.url, batch, keyed_lines(tables))
