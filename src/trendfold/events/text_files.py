"""CSV and JSON lines files -> Arrow tables; lines that cannot be parsed become rejects.

pyarrow reads each file first, because it is fast. Only if it fails is the file read again line by line, so a
bad line costs one reject instead of failing the run.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trendfold.errors import InputError, nearest
from trendfold.events.depth import MOST_NESTED, deep_lines
from trendfold.events.findings import Findings
from trendfold.events.times import NUMBER, WHOLE, cast_each, flat_text, matches, read_iso

Array: TypeAlias = "pa.Array[Any]"
Type: TypeAlias = pa.DataType

TYPES: dict[str, Type] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""The types a schema option may name, in Spark's spelling; a timestamp without an offset is UTC."""

SYNONYMS = {
    "str": "string",
    "varchar": "string",
    "bool": "boolean",
    "integer": "int",
    "long": "bigint",
    "real": "float",
}

_BLOCK = 4 << 20
"""Bytes of text parsed at a time."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How to read text files; `schema`, such as "type string, ts timestamp", applies to JSON lines too."""

    header: bool = True
    delimiter: str | None = None
    """One character; None means a tab for .tsv and a comma otherwise."""
    schema: str | None = None
    as_text: str | None = None
    """A column to read as text regardless of its values: times with a custom format."""

    def __post_init__(self) -> None:
        if not isinstance(self.header, bool):
            raise InputError(f"the csv header cannot be {self.header!r}; pass True or False")
        given = self.delimiter
        if given is not None and (len(given) != 1 or not given.isascii() or given in '"\r\n'):
            raise InputError(f"the csv delimiter cannot be {given!r}; pass one ASCII character such as ';'")
        _ = self.types  # raises if the schema is invalid

    @property
    def types(self) -> dict[str, Type]:
        """The declared columns, in their order."""
        return read_schema(self.schema) if self.schema is not None else {}

    def require_for(self, format_: str) -> None:
        """Raise an InputError if an option does not apply to files of this format."""
        if format_ == "csv":
            return
        if not self.header or self.delimiter is not None:
            raise InputError(f"a {_CALLED[format_]} file has neither header nor delimiter; leave them out")
        if format_ == "parquet" and self.schema is not None:
            raise InputError("a Parquet file has its own types; leave out schema (--schema)")


_CALLED = {"parquet": "Parquet", "json": "JSON lines"}


def read_schema(text: str) -> dict[str, Type]:
    """Column types from text such as `type string, speed double, ts timestamp`.

    >>> read_schema("type string, speed double")
    {'type': DataType(string), 'speed': DataType(double)}
    """
    found: dict[str, Type] = {}
    for part in text.split(","):
        name, _, kind = part.strip().replace(":", " ").rpartition(" ")
        name, kind = name.strip(), kind.strip().lower()
        if not name:
            raise InputError(f"schema has {part.strip()!r}; write a name and a type, as in 'speed double'")
        kind = SYNONYMS.get(kind, kind)
        if kind not in TYPES:
            hint = nearest(kind, [*TYPES, *SYNONYMS]) or f"choose one of {', '.join(TYPES)}"
            raise InputError(f"schema has the unknown type {kind!r} for column {name!r}; {hint}")
        if name in found:
            raise InputError(f"schema names the column {name!r} twice; leave one out")
        found[name] = TYPES[kind]
    return found


TEXT, REASON = "\0text", "\0reason"
"""Placeholder names for these reject columns until the columns of all files are known."""


@dataclass(frozen=True)
class FileContent:
    """The rows of one file, and its rejects: TEXT, REASON and the columns that could be parsed."""

    table: pa.Table
    rejects: pa.Table
    findings: Findings = field(default_factory=Findings)


def empty_table(columns: Mapping[str, Type]) -> pa.Table:
    """A table with these columns and no rows."""
    return pa.schema(list(columns.items())).empty_table()


def present(names: Iterable[str], columns: Collection[str] | None) -> list[str]:
    """The names among `columns`; all of them if `columns` is None."""
    return [name for name in names if columns is None or name in columns]


def concat_rejects(parts: Iterable[pa.Table]) -> pa.Table:
    """Concatenate tables of rejects, matching columns by name."""
    found = [part for part in parts if part.num_rows]
    return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, without its details."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


# ---------------------------------------------------------------- lines


@dataclass(frozen=True)
class Text:
    """A text file in memory without the lines that cannot be decoded: those are `rejects`."""

    data: pa.Buffer
    rejects: tuple[Reject, ...] = ()
    is_whole: bool = True
    """Whether the first line is still present."""

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to read."""
        return not _head(self.data).strip()


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that is not a valid row: the kind of error, its description, and the line itself."""

    kind: str
    reason: str
    text: str


def text_of(path: Path, compression: str | None) -> Text:
    """The text of a file; memory-mapped unless it is compressed."""
    if not path.stat().st_size:
        return Text(pa.py_buffer(b""))
    if compression:
        with pa.input_stream(str(path), compression=compression) as stream:
            data = pa.py_buffer(stream.read())
    else:
        with pa.memory_map(str(path)) as mapped:
            data = mapped.read_buffer()
    if data.size and data[:3].to_pybytes() == b"\xef\xbb\xbf":
        data = data[3:]
    try:
        _as_string(data).validate(full=True)
    except pa.ArrowInvalid:
        return _without_broken_lines(data)
    return Text(data)


def _as_string(data: pa.Buffer) -> Array:
    """A whole file as one Arrow string without copying, so Arrow can validate it and count in it."""
    ends = pa.py_buffer(np.array([0, data.size], np.int64))
    return cast(Array, pa.Array.from_buffers(pa.large_string(), 1, [None, ends, data]))


def _without_broken_lines(data: pa.Buffer) -> Text:
    good: list[bytes] = []
    broken: list[Reject] = []
    lines = data.to_pybytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            line.decode("utf-8")
            good.append(line)
        except UnicodeDecodeError:
            shown = line.decode("utf-8", "backslashreplace").rstrip("\r")
            broken.append(Reject("line is not UTF-8", f"line {number} is not UTF-8", shown))
    return Text(pa.py_buffer(b"\n".join(good)), tuple(broken), is_whole=good[:1] == lines[:1])


def _head(data: pa.Buffer, size: int = 1 << 20) -> bytes:
    """The first bytes after leading blanks; empty if there are none."""
    for start in range(0, data.size, size):
        end = min(start + 2 * size, data.size)
        chunk: bytes = data[start:end].to_pybytes().lstrip(b"\r\n")
        if chunk:
            return chunk
    return b""


def _part(table: pa.Table, rejects: Sequence[Reject], path: Path) -> FileContent:
    """Rows and rejected lines; times are converted to microseconds so windows under a second work."""
    table = _in_microseconds(table)
    if not rejects:
        return FileContent(table, pa.table({}))
    lines = {
        TEXT: pa.array([reject.text for reject in rejects], pa.string()),
        REASON: pa.array([f"{reject.reason} ({path.name})" for reject in rejects], pa.string()),
    }
    counts = Counter(reject.kind for reject in rejects)
    examples = {reject.kind: reject.text for reject in reversed(rejects)}
    return FileContent(table, pa.table(lines), Findings(counts, examples))


def _in_microseconds(table: pa.Table) -> pa.Table:
    for i, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit != "us":
            try:
                finer = table.column(i).cast(pa.timestamp("us", column.type.tz))
            except pa.ArrowInvalid:  # nanoseconds or years out of range
                continue
            table = table.set_column(i, column.name, finer)
    return table


# ---------------------------------------------------------------- CSV


def csv_columns(text: Text, path: Path, options: CsvOptions) -> dict[str, Type]:
    """The column names from the header, or from the schema if there is no header."""
    declared = options.types
    if not options.header and declared:
        return declared
    if options.header and not text.is_whole:
        raise InputError(f"the header of {str(path)!r} is not UTF-8; save the file as UTF-8")
    if text.is_blank:
        return {}
    names = next(_records(text.data, path, options))
    if not options.header:
        return {f"f{i}": pa.null() for i in range(len(names))}
    for name in declared:
        if name not in names:
            hint = nearest(name, names) or f"columns are {', '.join(names)}"
            raise InputError(f"schema names the column {name!r}, which {str(path)!r} does not have; {hint}")
    return {name: declared.get(name, pa.null()) for name in names}


def _records(data: pa.Buffer, path: Path, options: CsvOptions) -> Iterator[list[str]]:
    """Records from Python's csv reader: slow, but it tracks line numbers."""
    return csv.reader(
        StringIO(_head(data).decode("utf-8", "ignore"), newline=""), delimiter=_delimiter(path, options)
    )


def _count(data: pa.Buffer, byte: bytes) -> int:
    """Count a byte's occurrences, one block at a time."""
    values = np.frombuffer(data, np.uint8)
    blocks = (values[start : start + _BLOCK] for start in range(0, len(values), _BLOCK))
    return sum(int(np.count_nonzero(block == byte[0])) for block in blocks)


def _lines(data: pa.Buffer) -> StringIO:
    return StringIO(data.to_pybytes().decode("utf-8"), newline="")


def _delimiter(path: Path, options: CsvOptions) -> str:
    return options.delimiter or ("\t" if ".tsv" in path.suffixes else ",")


def read_csv(
    text: Text,
    path: Path,
    options: CsvOptions,
    columns: Collection[str] | None,
    time_column: str | None = None,
) -> FileContent:
    """Read the `columns` a CSV file has; a row with the wrong number of fields is a reject."""
    known = csv_columns(text, path, options)
    wanted = present(known, columns)
    if text.is_blank:
        return _part(empty_table({name: known[name] for name in wanted}), text.rejects, path)
    _require_single(wanted, text, path, options)
    has_quotes = _has_quotes(text, path, options)
    declared = {name: kind for name, kind in options.types.items() if name in wanted}
    if options.as_text in wanted:
        declared[options.as_text] = pa.string()
    # Times are converted afterwards: Arrow requires that either all have an offset or none.
    quick = {name: kind for name, kind in declared.items() if not pa.types.is_timestamp(kind)}
    try:
        table, bad = _parse_csv(text.data, path, options, wanted, quick, has_quotes)
    except pa.ArrowInvalid as error:
        if "conversion error" not in str(error):
            raise
        as_text = dict.fromkeys(declared, pa.string())
        table, bad = _parse_csv(text.data, path, options, wanted, as_text, has_quotes)
    if not options.header and declared and bad and not table.num_rows:
        raise InputError(
            f"the schema has {len(options.types)} columns, but every row of {path} differs: {bad[0].reason}"
        )
    # Arrow reads all columns when given none; a file in a folder may have none of those wanted.
    part = _part(table.select(wanted), [*text.rejects, *bad], path)
    return _with_types(part, _number_type(part.table, time_column) | declared, path, time_column)


def _parse_csv(
    data: pa.Buffer,
    path: Path,
    options: CsvOptions,
    wanted: list[str],
    types: Mapping[str, Type],
    has_quotes: bool,
) -> tuple[pa.Table, list[Reject]]:
    """Rows with the right number of fields, and the rejected others."""
    import pyarrow.csv as arrow_csv

    names = list(options.types) if not options.header else []
    bad: list[Reject] = []

    def keep(row: Any) -> str:
        told = f"row {row.number} has {row.actual_columns} fields, not {row.expected_columns}"
        bad.append(Reject("row has the wrong number of fields", told, row.text))
        return "skip"

    def parse(threads: bool, block: int) -> pa.Table:
        bad.clear()
        return arrow_csv.read_csv(
            pa.BufferReader(data if data[-1:].to_pybytes() == b"\n" else _ended(data)),
            arrow_csv.ReadOptions(
                use_threads=threads,
                block_size=block,
                column_names=names,
                autogenerate_column_names=not options.header and not names,
            ),
            arrow_csv.ParseOptions(
                delimiter=_delimiter(path, options), newlines_in_values=has_quotes, invalid_row_handler=keep
            ),
            arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types=types,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    block = _BLOCK
    try:
        table = parse(True, block)
    except pa.ArrowInvalid as error:
        if "straddl" not in str(error):
            raise
        block = min(data.size + 1, 2**31 - 1)  # one row is longer than a block
        table = parse(True, block)
    # Multithreaded parsing has no row numbers, and a reject without its number is hard to find.
    return (parse(False, block), bad) if bad else (table, bad)


def _ended(data: pa.Buffer) -> pa.Buffer:
    """The text with a final newline; without it Arrow ignores a header that is the only line."""
    return pa.py_buffer(data.to_pybytes() + b"\n")


def _has_quotes(text: Text, path: Path, options: CsvOptions) -> bool:
    """Whether values are quoted. Raises if a quote is never closed."""
    quotes = _count(text.data, b'"')
    if quotes % 2:
        reader = csv.reader(_lines(text.data), delimiter=_delimiter(path, options), strict=True)
        while True:
            start = reader.line_num + 1
            try:
                next(reader)
            except StopIteration:
                break
            except csv.Error as error:  # Arrow accepts the quotes that other errors complain about
                if "unexpected end" in str(error) or "field limit" in str(error):
                    message = (
                        f"{str(path)!r}: a quote opened on line {start} is never closed; close or remove it"
                    )
                    raise InputError(message) from None
    return bool(quotes)


def _require_single(wanted: Sequence[str], text: Text, path: Path, options: CsvOptions) -> None:
    if options.header:
        counts = Counter(next(_records(text.data, path, options)))
        for name in wanted:
            if counts[name] > 1:
                hint = "rename one, or read it without header"
                raise InputError(f"{str(path)!r} has {counts[name]} columns named {name!r}; {hint}")


# ---------------------------------------------------------------- JSON lines


def read_json(text: Text, path: Path, options: CsvOptions, time_column: str | None = None) -> FileContent:
    """Read a file of one JSON object per line; any other line is a reject."""
    if text.is_blank:
        return _part(empty_table({}), text.rejects, path)
    if _head(text.data).startswith(b"["):
        raise InputError(f"{str(path)!r} is one JSON array; write one object per line")
    text = _without_deep_lines(text)
    types = {name: kind for name, kind in options.types.items() if name != options.as_text}
    quick = {name: kind for name, kind in types.items() if not pa.types.is_timestamp(kind)}
    ways = [quick]
    if options.as_text is not None:  # Arrow does not read numbers as text: let it infer the type
        ways.insert(0, quick | {options.as_text: pa.string()})
    bad: list[Reject] = []
    table = next((found for way in ways if (found := _quick_json(text.data, way)) is not None), None)
    if table is None:
        table, bad, mixed = _parse_json(text.data)
        if not table.num_rows:
            first = [*text.rejects, *bad][0].reason
            raise InputError(f"no line of {str(path)!r} is a JSON object: {first}") from None
        if time_column in mixed and time_column != options.as_text:
            types = _number_type(table, time_column) | types
    return _with_types(_part(table, [*text.rejects, *bad], path), types, path, time_column)


def _quick_json(data: pa.Buffer, types: Mapping[str, Type]) -> pa.Table | None:
    """The objects as Arrow reads them; None if a line makes it fail."""
    import pyarrow.json as arrow_json

    schema = pa.schema(list(types.items()))
    options = arrow_json.ParseOptions(explicit_schema=schema)
    try:
        return arrow_json.read_json(pa.BufferReader(data), parse_options=options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _without_deep_lines(text: Text) -> Text:
    """Blank out lines nested so deeply that recursive JSON readers would crash the process."""
    deep = deep_lines(np.frombuffer(text.data, np.uint8))
    if not deep:
        return text
    data, kind = bytearray(text.data.to_pybytes()), f"line nests deeper than {MOST_NESTED} levels"
    rejects = list(text.rejects)
    for number, begin, end in deep:
        shown = data[begin:end].decode("utf-8").rstrip("\r")
        rejects.append(Reject(kind, f"line {number} nests deeper than {MOST_NESTED} levels", shown))
        data[begin:end] = b" " * (end - begin)
    return replace(text, data=pa.py_buffer(bytes(data)), rejects=tuple(rejects))


def _parse_json(data: pa.Buffer) -> tuple[pa.Table, list[Reject], set[str]]:
    """Parse line by line. A column of mixed kinds becomes text, as in CSV; the set returned names those."""
    rows, bad = [], []
    for number, line in enumerate(data.to_pybytes().decode("utf-8").split("\n"), 1):
        if not line.strip(" \t\r"):  # JSON's whitespace; Python strips more
            continue
        try:
            rows.append(_json_object(line))
        except (ValueError, RecursionError) as error:
            told = f"line {number} is not a JSON object: {first_line(error)}"
            bad.append(Reject("line is not a JSON object", told, line.rstrip("\r")))
    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, Array] = {}
    mixed = set()
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OverflowError):
            mixed.add(name)
            columns[name] = _json_text(values)
    return pa.table(columns), bad, mixed


def _json_object(line: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(f"the key {Counter(k for k, _ in pairs).most_common(1)[0][0]!r} occurs twice")
        return found

    value = json.loads(line, object_pairs_hook=once)
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}")
    json.dumps(value, ensure_ascii=False).encode()  # fails on half a surrogate pair
    return value


def _json_text(values: list[Any]) -> Array:
    return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values], pa.string())


def read_objects(texts: Sequence[str], types: Mapping[str, Type]) -> tuple[pa.Table, list[str]]:
    """Parse one JSON object per text into the declared columns; also why each text is rejected, or "".

    A rejected text gives a row of nulls.
    """
    rows: list[dict[str, Any]] = []
    reasons = []
    for text in texts:
        try:
            rows.append(_json_object(text))
            reasons.append("")
        except (ValueError, RecursionError) as error:
            rows.append({})
            reasons.append(f"not a JSON object: {first_line(error)}")
    columns = {}
    for name, kind in types.items():
        columns[name], fits, _ = convert(_json_text([row.get(name) for row in rows]), kind)
        for row in np.flatnonzero(~fits):
            reasons[row] = reasons[row] or type_mismatch(name, rows[row][name], kind)
    good = pa.array([not reason for reason in reasons])
    return pa.table({name: pc.if_else(good, values, None) for name, values in columns.items()}), reasons


def type_mismatch(name: str, value: Any, kind: Type) -> str:
    """The reason for rejecting a row whose value does not have the declared type."""
    return f"column {name!r} holds {value!r}, which is not a {_spelled(kind)}"


# ---------------------------------------------------------------- types of columns


def _number_type(table: pa.Table, time_column: str | None) -> dict[str, Type]:
    """The numeric type for a text time column that is mostly numbers; empty for any other column.

    A single non-numeric cell turns a whole column into text, and text must be ISO 8601 to be a time. Reading
    it as numbers rejects only the rows with such a cell.
    """
    if time_column is None or time_column not in table.column_names:
        return {}
    if not pa.types.is_string(table.column(time_column).type):
        return {}
    text = flat_text(table.column(time_column))
    whole, numbers = int(matches(text, WHOLE).sum()), int(matches(text, NUMBER).sum())
    if 2 * numbers <= len(text) - text.null_count:
        return {}
    return {time_column: pa.int64() if whole == numbers else pa.float64()}


def _with_types(
    part: FileContent, types: Mapping[str, Type], path: Path, time_column: str | None
) -> FileContent:
    """Cast columns to their declared types; a row with a value that cannot be cast is a reject."""
    table, reasons = part.table, np.full(part.table.num_rows, "", dtype=object)
    found = part.findings
    for name, kind in types.items():
        if name not in table.column_names or table.column(name).type == kind:
            continue
        text = pc.cast(table.column(name), pa.string()).combine_chunks()
        text = pa.concat_arrays(text.chunks) if isinstance(text, pa.ChunkedArray) else text
        values, fits, cut = convert(text, kind)
        bad = np.flatnonzero(~fits & (reasons == ""))
        for row in bad:
            reasons[row] = f"{type_mismatch(name, text[int(row)].as_py(), kind)} ({path.name})"
        if len(bad):
            what = f"column {name!r} holds a value that is not a {_spelled(kind)}"
            found += Findings({what: len(bad)}, {what: text[int(bad[0])].as_py()})
        found += Findings(cut=cut if name == time_column else 0)
        table = table.set_column(table.column_names.index(name), name, values)
    refused = reasons != ""
    if not refused.any():
        return FileContent(table, part.rejects, found)
    why = pa.array(reasons[refused].tolist(), pa.string())
    rejects = table.filter(pa.array(refused)).append_column(REASON, why)
    return FileContent(table.filter(pa.array(~refused)), concat_rejects([part.rejects, rejects]), found)


def _spelled(kind: Type) -> str:
    return next(name for name, known in TYPES.items() if known == kind)


def convert(text: Array, kind: Type) -> tuple[Array, NDArray[np.bool_], int]:
    """Cast text to a type: the values, null where casting fails; where it succeeds; truncated times.

    The last is the number of times finer than a microsecond.
    """
    if pa.types.is_string(kind):
        return text, np.ones(len(text), np.bool_), 0
    trimmed = pc.utf8_trim_whitespace(text)
    if not pa.types.is_timestamp(kind):
        return *cast_each(trimmed, kind), 0
    times = read_iso(trimmed)
    micros = pa.array(times.micros, mask=~times.is_time)
    is_null = trimmed.is_null().to_numpy(zero_copy_only=False)
    return micros.cast(kind), times.is_time | is_null, int(times.is_finer.sum())
