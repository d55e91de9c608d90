"""Any supported input -> one Arrow table of the columns a workload needs, and the rejected lines."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa

from trendfold.errors import InputError, RejectError, TrendfoldError, nearest
from trendfold.events.columns import decoded
from trendfold.events.fields import only_columns, outermost, take_fields, with_fields
from trendfold.events.findings import Findings, sum_of
from trendfold.events.text_files import (
    REASON,
    TEXT,
    CsvOptions,
    FileContent,
    Text,
    Type,
    concat_rejects,
    csv_columns,
    empty_table,
    first_line,
    present,
    read_csv,
    read_json,
    text_of,
)

FORMATS = {
    **dict.fromkeys(("parquet", "pq"), "parquet"),
    **dict.fromkeys(("csv", "tsv", "txt", "dat"), "csv"),
    **dict.fromkeys(("json", "jsonl", "ndjson"), "json"),
}
"""File formats by file name extension."""

COMPRESSIONS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
"""Compressions by the extra extension of a text file."""


AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Files:
    """Events in files that are not read yet: one or several files, folders or globs."""

    path: AnyPath | Sequence[AnyPath]
    csv: CsvOptions = field(default_factory=CsvOptions)

    @property
    def paths(self) -> tuple[str, ...]:
        """Each file, folder or glob."""
        return tuple(os.fspath(path) for path in _several(self.path))

    def __str__(self) -> str:
        return ", ".join(map(repr, self.paths))


def as_files(data: Any) -> Files | None:
    """The files that a path, or a list or tuple of paths, stands for; None for anything else."""
    if isinstance(data, (str, os.PathLike)):
        return Files(data)
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, (str, os.PathLike)) for one in data):
        return Files(tuple(data))
    return data if isinstance(data, Files) else None


def _several(path: AnyPath | Sequence[AnyPath]) -> Sequence[AnyPath]:
    return (path,) if isinstance(path, (str, os.PathLike)) else path


@dataclass(frozen=True)
class Source:
    """The rows of an input, and its rejected lines.

    `rejects` has the columns of `table` as far as they could be parsed, then `text` (the line as it stands
    in the file) and `reason`; a name that is taken gets an underscore in front.
    """

    table: pa.Table
    rejects: pa.Table = field(default_factory=lambda: pa.table({}))
    warnings: tuple[str, ...] = ()
    findings: Findings = field(default_factory=Findings)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.table.schema

    def with_text(self, column: str, time_format: str | None = None) -> Source:
        """Cast `column` to text if it is all null (so it has a type) or if a format reads its integers."""
        at = self.table.schema.get_field_index(column)
        if at < 0 or not is_for_text(self.table.schema.field(at).type, time_format):
            return self
        text = self.table.column(at).cast(pa.string())
        return replace(self, table=self.table.set_column(at, column, text))

    def require_whole(self) -> None:
        """Raise a RejectError if any line was rejected: for `on_reject="fail"`."""
        if self.rejects.num_rows:
            reason = self.rejects.column(self.rejects.num_columns - 1)[0]
            raise RejectError(f"a line is rejected: {reason}; pass on_reject='keep' to keep rejects apart")

    def with_rejects(self, rejects: pa.Table) -> pa.Table:
        """All rejects: first the rejected lines, then the rejected rows."""
        if not self.rejects.num_rows:
            return rejects
        together = pa.concat_tables([rejects, self.rejects], promote_options="permissive")
        reason = rejects.column_names[-1]
        return together.select([*(name for name in together.column_names if name != reason), reason])


def is_for_text(type_: pa.DataType, time_format: str | None) -> bool:
    """Whether a time column is read as text: it is all null, or a format reads its integers."""
    return bool(pa.types.is_null(type_) or (time_format is not None and pa.types.is_integer(type_)))


def in_format(data: Any, time_column: str, time_format: str | None) -> Any:
    """Files set up to read times as text for a custom format; any other data unchanged."""
    files = as_files(data)
    if time_format is None or files is None:
        return data
    return replace(files, csv=replace(files.csv, as_text=time_column))


def read(data: Any, columns: Collection[str] | None = None, time_column: str | None = None) -> Source:
    """Read the given `columns` of `data`.

    If one is missing, all existing columns are returned (for files, without rows), so that an error can
    suggest the nearest name. In text files, a time column that is mostly numbers is read as numbers.
    """
    if isinstance(data, Source):
        return data
    files = as_files(data)
    if files is not None:
        return _read_files(files, columns, time_column)
    return Source(_in_memory(data, columns))


# ---------------------------------------------------------------- in memory


def _in_memory(data: Any, columns: Collection[str] | None) -> pa.Table:
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, pa.RecordBatchReader):
        data = data.read_all()
    if isinstance(data, pa.Table):
        return _project(data, columns)
    module = type(data).__module__.partition(".")[0]
    try:
        if module == "pandas" and hasattr(data, "columns"):
            wanted = _outer([str(name) for name in data.columns], columns)
            table = pa.Table.from_pandas(
                data.loc[:, [str(name) in wanted for name in data.columns]], preserve_index=False
            )
            return _project(table, columns)
        if module == "polars" and hasattr(data, "collect_schema"):
            names = data.collect_schema().names()
            chosen = data.select(_outer(names, columns))
            return _project((chosen.collect() if hasattr(chosen, "collect") else chosen).to_arrow(), columns)
        if hasattr(data, "__arrow_c_stream__"):
            return _project(pa.table(data), columns)
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(f"cannot read the {module} frame: {first_line(error)}") from None
    raise InputError(
        f"cannot read events from a {type(data).__module__}.{type(data).__name__}; pass a pyarrow Table, "
        f"a pandas or polars frame, a path, or a list of paths"
    )


def _project(table: pa.Table, columns: Collection[str] | None) -> pa.Table:
    known = with_fields(table.schema)
    wanted = _wanted(known, columns)
    if set(wanted) <= set(table.column_names):
        return table.select([i for i, name in enumerate(table.column_names) if name in wanted])
    return take_fields(table, wanted)


def _outer(names: Collection[str], columns: Collection[str] | None) -> list[str]:
    """The columns of a frame that hold what is requested, or all if something is missing."""
    if columns is None or not (needed := outermost(columns, names)) <= set(names):
        return list(names)
    return [name for name in names if name in needed]


def _wanted(known: Mapping[str, Type], columns: Collection[str] | None) -> list[str]:
    """What to read of columns and fields: those requested; everything if one is missing, for the error."""
    if columns is None:
        return only_columns(known)
    return [name for name in known if name in columns] if set(columns) <= set(known) else list(known)


# ---------------------------------------------------------------- which files


def _read_files(files: Files, columns: Collection[str] | None, time_column: str | None) -> Source:
    options = files.csv
    paths, warnings = listed(files)
    if not paths:
        return Source(empty_table(dict.fromkeys(columns or (), pa.null())), warnings=warnings)
    readers = [_Reader(path, options, time_column) for path in paths]
    require_one_format(str(files), [reader.format for reader in readers])
    known = _union(reader.columns() for reader in readers)
    if known and columns is not None and not set(columns) <= set(known):
        return Source(empty_table(known))
    parts = [reader.read(columns) for reader in readers]
    schemas = [_plain(part.table.schema) for part in parts]
    schema = _unify([(reader.path, each) for reader, each in zip(readers, schemas, strict=True)])
    if not known:
        schema = pa.schema([(name, pa.null()) for name in columns or options.types])
    schema = readers[0].fits(schema)
    table = pa.concat_tables([_fit(part.table, schema) for part in parts])
    rejects = _named_rejects(concat_rejects([part.rejects for part in parts]), table.column_names)
    return Source(table, rejects, warnings, sum_of(part.findings for part in parts))


def list_files(path: AnyPath | Sequence[AnyPath]) -> list[Path]:
    """The files of a path, sorted: the file itself, all files under a folder, or all that match a glob.

    Names that begin with `_` or `.` are skipped, as Spark does. A file that several paths lead to is read
    once.
    """
    return listed(Files(path))[0]


def listed(files: Files) -> tuple[list[Path], tuple[str, ...]]:
    """The files, and a warning per folder that has none."""
    found = {path: _list(path) for path in files.paths}
    warnings = tuple(f"the folder {path} has no files" for path, there in found.items() if not there)
    every = [file for there in found.values() for file in there]
    if len(found) > 1:
        every = list({os.path.realpath(file): file for file in every}.values())
    return every, warnings


def _list(text: str) -> list[Path]:
    if not text:
        raise InputError("the path of the events is empty; pass a file, a folder or a glob")
    there = Path(text)
    try:
        if there.is_dir():
            return _under(there)
        if there.exists():
            return [there]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {text!r}: {first_line(error)}") from None
    if not has_magic(text):
        raise InputError(missing_file(there))
    found = sorted(Path(match) for match in glob(text, recursive=True))
    if not found:
        raise InputError(f"no file matches {text!r}; check the pattern, or name the folder")
    return list(dict.fromkeys(p for match in found for p in (_under(match) if match.is_dir() else [match])))


def _under(folder: Path) -> list[Path]:
    found = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part[0] in "._" for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            found.append(path)
    return found


def size_on_disk(files: Files) -> int | None:
    """The size of an input's files in bytes; None if they are not on this machine."""
    if any("://" in path for path in files.paths):
        return None
    return sum(each.stat().st_size for each in listed(files)[0])


def missing_file(path: Path) -> str:
    """The message for a missing file: suggests a similar name, or says that its folder is missing."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no file {str(path)!r}, nor a folder {str(folder)!r}; check the path"
    try:
        hint = nearest(path.name, sorted(other.name for other in folder.iterdir()))
    except OSError:
        hint = ""
    return f"there is no file {str(path)!r}; {hint or 'check the path'}"


def file_format(path: Path) -> tuple[str, str | None]:
    """A file's format and compression."""
    named = named_format(path.name)
    if named is not None:
        return named
    if _begins_as_parquet(path):
        return "parquet", None
    raise InputError(unknown_format(str(path)))


def named_format(name: str) -> tuple[str, str | None] | None:
    """Format and compression by file name; None if the name does not tell."""
    endings = [ending.lower() for ending in name.split(".")[1:]]
    compression = COMPRESSIONS.get(endings[-1]) if endings else None
    if compression:
        endings.pop()
    return (FORMATS[endings[-1]], compression) if endings and endings[-1] in FORMATS else None


def unknown_format(path: str) -> str:
    """The message for a file whose name does not tell its format."""
    return (
        f"cannot tell what {path!r} holds; its name should end in .parquet, .csv or .jsonl "
        f"(pass a glob to leave other files out)"
    )


def _begins_as_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None


def require_one_format(where: str, formats: Iterable[str]) -> None:
    """Raise if the files have different formats."""
    counts = Counter(formats)
    if len(counts) > 1:
        held = " and ".join(f"{count} {name}" for name, count in counts.most_common())
        raise InputError(f"{where} has {held} files; pass a glob that matches one kind")


# ---------------------------------------------------------------- one file


class _Reader:
    """One file, opened lazily."""

    def __init__(self, path: Path, options: CsvOptions, time_column: str | None) -> None:
        self.path, self.options, self.time_column = path, options, time_column
        self.format, self.compression = file_format(path)
        options.require_for(self.format)
        self._json: FileContent | None = None
        self._text: Text | None = None

    def columns(self) -> dict[str, Type]:
        """The file's columns; the type is null if only reading the file would tell."""
        with _blame(self.path):
            match self.format:
                case "parquet":
                    return with_fields(self._parquet().schema_arrow)
                case "csv":
                    self._text = text_of(self.path, self.compression)
                    return csv_columns(self._text, self.path, self.options)
                case _:
                    text = text_of(self.path, self.compression)
                    self._json = read_json(text, self.path, self.options, self.time_column)
                    return with_fields(self._json.table.schema)

    def rows(self) -> int:
        """How many rows a Parquet file has."""
        return int(self._parquet().metadata.num_rows)

    def read(self, columns: Collection[str] | None, row_groups: Sequence[int] | None = None) -> FileContent:
        """Read the `columns` the file has, of all rows or of some row groups."""
        with _blame(self.path):
            match self.format:
                case "parquet":
                    schema = self._parquet().schema_arrow
                    known = with_fields(schema)
                    names = present(only_columns(known) if columns is None else known, columns)
                    self.require_single(names)
                    words = [n for n in names if _is_coded(pa.field(n, known[n]), self.time_column)]
                    file = self._parquet([name for name in words if name in schema.names])
                    if row_groups is None:
                        table = file.read(columns=names)
                    else:
                        table = file.read_row_groups(row_groups, columns=names)
                    if not set(names) <= set(schema.names):
                        table = take_fields(table, names)
                    return FileContent(_sound(table), pa.table({}))
                case "csv":
                    assert self._text is not None
                    return read_csv(self._text, self.path, self.options, columns, self.time_column)
                case _:
                    assert self._json is not None
                    table = self._json.table
                    names = (
                        table.column_names if columns is None else present(with_fields(table.schema), columns)
                    )
                    return replace(self._json, table=take_fields(table, names))

    def require_single(self, names: Sequence[str]) -> None:
        """Raise an InputError if a Parquet file has two columns of one of these names."""
        for name, count in Counter(self._parquet().schema_arrow.names).items():
            if name in names and count > 1:
                raise InputError(f"{str(self.path)!r} has {count} columns named {name!r}; rename one")

    def _parquet(self, coded: Sequence[str] = ()) -> Any:
        import pyarrow.parquet as pq

        if not self.path.stat().st_size:
            raise InputError(f"{str(self.path)!r} is empty; a Parquet file has at least a footer")
        return pq.ParquetFile(self.path, read_dictionary=coded)

    def fits(self, schema: pa.Schema) -> pa.Schema:
        """The schema of this file's rows: strings that Parquet dictionary-encodes stay encoded."""
        if self.format != "parquet":
            return schema
        fields = [
            f.with_type(pa.dictionary(pa.int32(), f.type)) if _is_coded(f, self.time_column) else f
            for f in schema
        ]
        return pa.schema(fields)


def _sound(table: pa.Table) -> pa.Table:
    """Validate strings and dictionary codes: kernels look codes up without bounds checks."""
    for column in table.columns:
        if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type):
            column.validate(full=True)
    return table


def _is_coded(field: pa.Field, time_column: str | None) -> bool:
    """Whether to read a Parquet column dictionary-encoded; text times are read as plain strings."""
    is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    return bool(is_text and field.name != time_column)


class _blame:  # noqa: N801 - reads as a statement
    """Turn an exception of pyarrow or the system into an InputError that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemoryError):  # pyarrow's is an ArrowException too; do not blame the file
            return
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise MemoryError(str(error)) from None
        if isinstance(error, pa.ArrowException) and "Failed to launch worker thread" in str(error):
            raise TrendfoldError(
                f"cannot read {str(self.path)!r}: the system cannot start another thread; free some "
                f"memory, or allow more processes (ulimit -u)"
            ) from None
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"cannot read {str(self.path)!r}: {error.strerror}") from None
        if isinstance(error, (OSError, pa.ArrowException, UnicodeDecodeError, EOFError)):
            reason = f"{first_line(error)}; is the file damaged, or of another format than its name says?"
            raise InputError(f"cannot read {str(self.path)!r}: {reason}") from None


# ---------------------------------------------------------------- one file at a time


@dataclass(frozen=True)
class Looked:
    """A file's schema and size, known before its rows are used; text files are read for it."""

    path: str
    format: str
    schema: pa.Schema
    rows: int
    rejects: int = 0


def look(
    path: str | os.PathLike[str],
    options: CsvOptions,
    columns: Collection[str] | None = None,
    time_column: str | None = None,
) -> Looked:
    """Inspect one file: the `columns` it has, or all of its columns if one is missing."""
    reader = _Reader(Path(path), options, time_column)
    known = reader.columns()
    wanted = _wanted(known, columns)
    if reader.format == "parquet":
        reader.require_single(wanted)
        schema = pa.schema([(name, known[name]) for name in wanted])
        return Looked(str(path), reader.format, schema, reader.rows())
    part = reader.read(wanted)
    return Looked(str(path), reader.format, part.table.schema, part.table.num_rows, part.rejects.num_rows)


def unify(looked: Sequence[Looked]) -> pa.Schema:
    """One schema for the rows of all files."""
    require_one_format(repr(str(Path(looked[0].path).parent)), [one.format for one in looked])
    return _unify([(Path(one.path), one.schema) for one in looked])


def read_file(
    path: str | os.PathLike[str],
    options: CsvOptions,
    schema: pa.Schema,
    row_groups: Sequence[int] | None = None,
    time_column: str | None = None,
) -> Source:
    """Read one file, or some of its row groups, into the unified columns."""
    reader = _Reader(Path(path), options, time_column)
    reader.columns()
    part = reader.read(schema.names, row_groups)
    table = _fit(part.table, reader.fits(schema))
    rejects = _named_rejects(concat_rejects([part.rejects]), table.column_names)
    return Source(table, rejects, findings=part.findings)


# ---------------------------------------------------------------- many files


def _union(columns: Iterable[Mapping[str, Type]]) -> dict[str, Type]:
    """All columns of all files; a known type wins over an unknown one."""
    found: dict[str, Type] = {}
    for part in columns:
        for name, kind in part.items():
            if name not in found or pa.types.is_null(found[name]):
                found[name] = kind
    return found


def _unify(schemas: Sequence[tuple[Path, pa.Schema]]) -> pa.Schema:
    """Merge schemas by column name; numbers widen, and an error for a conflict names both files."""
    found: dict[str, tuple[Path, pa.Field]] = {}
    for path, schema in schemas:
        for column in schema.remove_metadata():
            column = column.remove_metadata().with_nullable(True)
            first, known = found.get(column.name, (path, column))
            if pa.types.is_null(known.type):
                first = path
            try:
                together = pa.unify_schemas(
                    [pa.schema([known]), pa.schema([column])], promote_options="permissive"
                ).field(0)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                raise InputError(
                    f"column {column.name!r} is {known.type} in {str(first)!r} but {column.type} in "
                    f"{str(path)!r}; read them apart, or give it a type in the schema (CSV, JSON lines)"
                ) from None
            found[column.name] = (first, together)
    return pa.schema([column for _, column in found.values()])


def _fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly these columns; missing ones are null."""
    columns = [
        _as_type(table.column(column.name), column.type)
        if column.name in table.column_names
        else pa.chunked_array([pa.nulls(table.num_rows, column.type)])
        for column in schema
    ]
    return pa.table(columns, schema=schema) if columns else table


def _as_type(data: pa.ChunkedArray, wanted: Type) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(wanted) or data.type == wanted:
        return data.cast(wanted)
    return decoded(data).cast(wanted.value_type).dictionary_encode()


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with dictionary columns decoded."""
    return pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )


def _named_rejects(rejects: pa.Table, taken: Collection[str]) -> pa.Table:
    """Rejects with `text` and `reason` as last columns, renamed if a column has that name."""
    last = [name for name in (TEXT, REASON) if name in rejects.column_names]
    rejects = rejects.select([*(name for name in rejects.column_names if name not in last), *last])
    return rejects.rename_columns([untaken(n[1:], taken) if n in last else n for n in rejects.column_names])


def untaken(name: str, taken: Collection[str]) -> str:
    """The name, with underscores in front until it is unique."""
    return untaken(f"_{name}", taken) if name in taken else name
