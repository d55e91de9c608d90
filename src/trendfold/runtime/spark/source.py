"""Any supported input -> a source for Spark tasks: files that they open directly, or a DataFrame."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import IntegralType, StringType, StructField, StructType

from trendfold.errors import InputError
from trendfold.events.batch import read_batch, schema_of
from trendfold.events.columns import from_arrow, kind_of
from trendfold.events.findings import Findings
from trendfold.events.options import Options
from trendfold.events.required import require_columns, require_names
from trendfold.events.schema import Kind
from trendfold.events.sources import (
    Files,
    Looked,
    as_files,
    file_format,
    in_format,
    is_for_text,
    listed,
    look,
    named_format,
    read,
    require_one_format,
    unify,
    unknown_format,
    untaken,
)
from trendfold.query.row_types import check_type_conditions, columns_of_types
from trendfold.runtime.spark.catalyst import Untranslatable, condition, spark_name, with_dots, without_dots
from trendfold.runtime.spark.ranges import Range
from trendfold.runtime.spark.session import is_remote, session
from trendfold.runtime.typed_rows import columns_to_read, typed, with_types

ROWS_PER_TASK = 8_000_000
"""Larger inputs are split further, even if that gives more tasks than can run at once."""


@dataclass(frozen=True)
class Split:
    """A part of the input for one task: a file, or some row groups of a Parquet file."""

    path: str
    row_groups: tuple[int, ...] | None
    rows: int
    range: Range | None
    """The first and last time in it, if known without reading it."""


@dataclass(frozen=True)
class FileSource:
    """Files that tasks read directly."""

    spark: SparkSession
    files: Files
    splits: tuple[Split, ...]
    schema: pa.Schema
    rejects: pa.Schema
    warnings: tuple[str, ...] = ()
    raw: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The columns of the files, from which those of `schema` come."""


@dataclass(frozen=True)
class FrameSource:
    """A DataFrame: Spark reads it, and passes columns to tasks."""

    frame: DataFrame
    schema: pa.Schema
    warnings: tuple[str, ...] = ()
    findings: Findings = field(default_factory=Findings)
    """Findings made before Spark got the rows."""

    @property
    def spark(self) -> SparkSession:
        """The session the frame belongs to."""
        return self.frame.sparkSession


def is_frame(data: Any) -> bool:
    """Whether something is a Spark DataFrame, classic or Connect."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "mapInArrow")


def open_source(data: Any, columns: Collection[str], options: Options) -> FileSource | FrameSource:
    """Open the source of a run; its columns are known, no rows are read yet."""
    if is_frame(data):
        return frame_source(data, columns, options)
    spark = session()
    files = as_files(in_format(data, options.time_column, options.time_format))
    if files is None:  # an in-memory table is sent to the cluster
        wanted = columns_to_read(columns, options)
        table = read(data, wanted, options.time_column).with_text(options.time_column).table
        table = with_types(table, options)
        options = replace(options, type_conditions=())
        require_columns(table.schema, options)
        table, cut = _in_microseconds(table, options.time_column)
        source = frame_source(spark.createDataFrame(_for_spark(table)), columns, options)
        return replace(source, findings=Findings(cut=cut))
    if is_remote(spark) or any("://" in path for path in files.paths):
        return frame_source(read_by_spark(spark, files), columns, options)
    return file_source(spark, files, columns, options)


# ---------------------------------------------------------------- DataFrames


def frame_source(frame: DataFrame, columns: Collection[str], options: Options) -> FrameSource:
    """A DataFrame restricted to `columns`; all columns if one is missing."""
    if frame.isStreaming:
        raise InputError("run() needs bounded data; use start() for a streaming DataFrame")
    frame = typed_frame(with_field_columns(frame, columns_to_read(columns, options)), options)
    require_names(frame.columns, options, columns)  # Spark cannot distinguish columns of the same name
    needed = [name for name in frame.columns if name in columns]
    if set(columns) <= set(needed):
        frame = frame.select(*map(spark_name, needed))
    frame = with_text_times(frame, options)
    schema = frame.limit(0).toArrow().schema.remove_metadata()
    require_columns(schema, options)
    return FrameSource(frame, schema)


def with_field_columns(frame: DataFrame, needed: Collection[str] | None = None) -> DataFrame:
    """A DataFrame with the needed fields of structs as columns: of the structs, Spark then reads only these.

    If something is missing, or for None, these are all fields.
    """
    schema, known = frame.schema, {".".join(path): path for path in _field_paths(frame.schema)}
    missing = known.keys() if needed is None else set(needed) - set(schema.names)
    wanted = missing if missing <= known.keys() else known.keys()
    paths = {name: path for name, path in known.items() if name in wanted and name not in schema.names}
    fields = [F.col(".".join(map(spark_name, path))).alias(name) for name, path in paths.items()]
    return frame.select("*", *fields) if fields else frame


def _field_paths(schema: StructType, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for each in schema.fields:
        if path:
            yield (*path, each.name)
        if isinstance(each.dataType, StructType):
            yield from _field_paths(each.dataType, (*path, each.name))


def typed_frame(frame: DataFrame, options: Options) -> DataFrame:
    """A DataFrame with the types of its rows (`type_expr`): by Spark, or in Python where Spark cannot."""
    if not options.type_conditions:
        return frame
    wanted = columns_of_types(options.type_conditions)
    is_whole = wanted <= set(frame.columns)  # if not, all columns are known to the error
    names = [name for name in frame.columns if name in wanted or not is_whole]
    kinds = schema_of(to_arrow_schema(frame.select(*map(spark_name, names)).schema))
    check_type_conditions(options.type_conditions, kinds)
    try:
        held = [condition(each.condition, kinds) for each in options.type_conditions]
    except Untranslatable:
        return _typed_in_python(frame, options)
    types = [F.when(one, F.lit(each.type)) for one, each in zip(held, options.type_conditions, strict=True)]
    return frame.withColumn(options.type_column, F.coalesce(*types))


def _typed_in_python(frame: DataFrame, options: Options) -> DataFrame:
    kept = [f for f in frame.schema.fields if f.name != options.type_column]
    schema = StructType([*kept, StructField(options.type_column, StringType())])

    def add_types(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from with_types(with_dots(pa.Table.from_batches([batch])), options).to_batches()

    return without_dots(frame).mapInArrow(add_types, schema)


def with_text_times(frame: DataFrame, options: Options) -> DataFrame:
    """Cast an integer time column to text if a time format is to parse it."""
    name = options.time_column
    if options.time_format is None or not isinstance(frame.schema[name].dataType, IntegralType):
        return frame
    return frame.withColumn(name, F.col(spark_name(name)).cast("string"))


def _in_microseconds(table: pa.Table, time_column: str) -> tuple[pa.Table, int]:
    """The table with times in microseconds, as Spark has them, and how many were truncated."""
    at = table.schema.get_field_index(time_column)
    given = table.schema.field(at).type
    if not pa.types.is_timestamp(given) or given.unit != "ns":
        return table, 0
    column = from_arrow(table.column(at))
    micros, rest = np.divmod(column.values, column.per_microsecond)
    times = pa.array(micros, mask=~column.valid).cast(pa.timestamp("us", given.tz))
    return table.set_column(at, time_column, times), int((rest != 0).sum())


def _for_spark(table: pa.Table) -> pa.Table:
    """A table Spark can read: no dictionaries, no null types, no empty chunks (it stops at the first)."""
    for i, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(column.type.value_type))
        elif pa.types.is_null(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(pa.string()))
    return table.combine_chunks()


def read_by_spark(spark: SparkSession, files: Files) -> DataFrame:
    """Let Spark read files that this process cannot see."""
    paths, csv = list(dict.fromkeys(files.paths)), files.csv
    reader = spark.read.format(kind := _format_there(spark, files))
    csv.require_for(kind)
    if kind == "parquet":
        return reader.load(paths)
    if kind == "csv":
        reader = reader.options(header=csv.header, sep=csv.delimiter or ",", inferSchema=True)
    frame = reader.load(paths)
    if kind == "csv" and not csv.header and len(csv.types) == len(frame.columns):
        frame = frame.toDF(*csv.types)
    if csv.as_text in frame.columns and not isinstance(frame.schema[csv.as_text].dataType, StringType):
        frame = reader.schema(with_text(frame.schema, csv.as_text)).load(paths)
    declared = {name: kind for name, kind in csv.types.items() if name in frame.columns}
    declared.pop(csv.as_text or "", None)
    casts = {name: F.col(spark_name(name)).try_cast(from_arrow_type(kind)) for name, kind in declared.items()}
    return frame.withColumns(casts) if casts else frame


def with_text(schema: StructType, column: str) -> StructType:
    """The schema with one column cast to text."""
    return StructType([StructField(f.name, StringType()) if f.name == column else f for f in schema.fields])


def _format_there(spark: SparkSession, files: Files) -> str:
    """The format of files that only Spark can list, judged by their names without reading them."""
    names = spark.read.format("binaryFile").load(list(files.paths)).inputFiles()
    found = [format_ for name in names if (format_ := named_format(name.rpartition("/")[2])) is not None]
    if not found:
        raise InputError(unknown_format(files.paths[0]))
    require_one_format(str(files), [kind for kind, _ in found])
    return found[0][0]


# ---------------------------------------------------------------- files


def file_source(spark: SparkSession, files: Files, columns: Collection[str], options: Options) -> FileSource:
    """Inspect the files: columns, sizes and, if it is cheap, time ranges."""
    found, warnings = listed(files)
    paths = [str(path) for path in found]
    if not paths:
        wanted = columns_to_read(columns, options) & set(columns)  # types of no rows need no conditions
        nothing = read(files, wanted, options.time_column).with_text(options.time_column, options.time_format)
        schema = nothing.schema
        if options.type_conditions:
            schema = schema.append(pa.field(options.type_column, pa.string()))
        return FileSource(spark, files, (), schema, _with_reason(schema), nothing.warnings, schema)
    looked = _look_at(spark, paths, files, columns_to_read(columns, options), options.time_column)
    raw = _text_time(unify(looked), options)
    schema = typed(raw, options)
    require_columns(schema, options)
    splits = [split for one in looked for split in _splits(one, raw, options)]
    rejects = _with_reason(schema, has_text=any(one.rejects for one in looked))
    return FileSource(spark, files, tuple(splits), schema, rejects, warnings, raw)


def _look_at(
    spark: SparkSession, paths: list[str], files: Files, columns: Collection[str], time_column: str
) -> list[Looked]:
    """Inspect files here if that is cheap; large text files must be read for their types, so tasks do it."""
    csv, wanted = files.csv, tuple(columns)
    is_parquet = file_format(Path(paths[0]))[0] == "parquet"
    if is_parquet or sum(Path(path).stat().st_size for path in paths) <= _LITTLE_TEXT:
        return [look(path, csv, wanted, time_column) for path in paths]

    def read_there(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                one = look(paths[number], csv, wanted, time_column)
                row = [number, one.format, one.schema.serialize().to_pybytes(), one.rows, one.rejects]
                yield pa.RecordBatch.from_pydict(
                    dict(zip(_LOOKED, [[value] for value in row], strict=True)), schema=_LOOKED_SCHEMA
                )

    ddl = "number bigint, format string, schema binary, rows bigint, rejects bigint"
    numbers = spark.range(0, len(paths), 1, len(paths))
    found = numbers.mapInArrow(read_there, ddl).orderBy("number").collect()
    return [
        Looked(paths[n], kind, pa.ipc.read_schema(pa.py_buffer(bytes(schema))), rows, rejects)
        for n, kind, schema, rows, rejects in found
    ]


_LITTLE_TEXT = 32 << 20
_LOOKED_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("format", pa.string()),
        ("schema", pa.binary()),
        ("rows", pa.int64()),
        ("rejects", pa.int64()),
    ]
)
_LOOKED = _LOOKED_SCHEMA.names


def _text_time(schema: pa.Schema, options: Options) -> pa.Schema:
    """Cast the time column to text if it is all null, or integers for a time format to parse."""
    at = schema.get_field_index(options.time_column)
    if at >= 0 and is_for_text(schema.field(at).type, options.time_format):
        return schema.set(at, pa.field(options.time_column, pa.string()))
    return schema


def _with_reason(schema: pa.Schema, has_text: bool = False) -> pa.Schema:
    """The columns of rejects: those of the events, then the line of the file, then the reason."""
    taken = schema.names
    for name in ("text", "reason") if has_text else ("reason",):
        schema = schema.append(pa.field(untaken(name, taken), pa.string()))
    return schema


def _splits(looked: Looked, schema: pa.Schema, options: Options) -> list[Split]:
    if looked.format != "parquet":
        return [Split(looked.path, None, looked.rows, None)]
    meta = pq.read_metadata(looked.path)
    ranges = _ranges(meta, schema, options)
    found: list[Split] = []
    for group in range(meta.num_row_groups):
        rows, known = meta.row_group(group).num_rows, ranges[group]
        found.append(Split(looked.path, (group,), rows, known))
    return found


def _ranges(meta: Any, schema: pa.Schema, options: Options) -> list[Range | None]:
    """The first and last time of each row group, from Parquet statistics."""
    none: list[Range | None] = [None] * meta.num_row_groups
    at = schema.get_field_index(options.time_column)
    if at < 0 or kind_of(schema.field(at).type) not in (Kind.TIME, Kind.INTEGER):
        return none
    names = [meta.schema.column(i).path for i in range(meta.num_columns)]
    if options.time_column not in names:
        return none
    column = names.index(options.time_column)
    ends: list[Any] = []
    for group in range(meta.num_row_groups):
        statistics = meta.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max:
            return none
        ends += [statistics.min, statistics.max]
    try:
        times = pa.array(ends).cast(schema.field(at).type)
        table = pa.table({options.time_column: times, options.type_column: pa.array([""] * len(ends))})
        batch = read_batch(table, replace(options, order_column=None, id_column=None, on_reject="keep"))
    except (pa.ArrowException, InputError):
        return none
    if len(batch) < len(ends):
        return none
    return [(int(low), int(high)) for low, high in zip(batch.time[::2], batch.time[1::2], strict=True)]


def tasks_of(splits: Sequence[Split], parallelism: int) -> tuple[tuple[Split, ...], ...]:
    """Assign splits in time order to tasks of about equal size; each task reads adjacent splits."""
    if all(split.range is not None for split in splits):
        splits = sorted(splits, key=lambda split: split.range or (0, 0))
    total = sum(split.rows for split in splits)
    count = max(parallelism, -(-total // ROWS_PER_TASK))
    count = -(-count // parallelism) * parallelism
    found: list[list[Split]] = [[] for _ in range(count)]
    done = 0
    for split in splits:
        found[min(count - 1, (done + split.rows // 2) * count // max(1, total))].append(split)
        done += split.rows
    return tuple(tuple(task) for task in found if task)
