"""What the console knows and does, without a page: a folder, data in it, a query text and its results."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trendfold import api
from trendfold.errors import InputError, Problem, QueryError, TrendfoldError, plural
from trendfold.events.batch import schema_of
from trendfold.events.options import TICKS
from trendfold.events.schema import Schema
from trendfold.events.sources import read as read_source

DATA = (".parquet", ".csv", ".tsv", ".json", ".jsonl", ".ndjson")
MOST_LISTED = 500
"""The most files that are offered."""
MOST_BYTES = 1_000_000
"""The largest query file that is opened."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The only folder the console reads and writes in."""

    root: Path

    def inside(self, name: str) -> Path:
        """A path in the folder; raises for any other."""
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root):
            raise InputError(f"{name!r} is outside of the folder the console was started in")
        return path

    def files(self, endings: tuple[str, ...]) -> list[str]:
        """Files by name, those in hidden folders and links that lead outside left out."""
        found = []
        for path in sorted(self.root.rglob("*")):
            parts = path.relative_to(self.root).parts
            if path.suffix.lower() not in endings or any(part.startswith((".", "_")) for part in parts):
                continue
            if path.is_file() and path.resolve().is_relative_to(self.root):
                found.append("/".join(parts))
            if len(found) == MOST_LISTED:
                break
        return found

    def open_text(self, name: str) -> str:
        """A query file."""
        path = self.inside(name)
        if path.suffix != ".tql":
            raise InputError(f"{name!r} is no query file; they end in .tql")
        with open(path, encoding="utf-8") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise InputError(f"{name!r} is larger than {MOST_BYTES // 1_000_000} MB")
        return text

    def save_text(self, name: str, text: str) -> Path:
        """Write a query file."""
        from trendfold.runtime.staging import write_files

        path = self.inside(name if name.endswith(".tql") else f"{name}.tql")
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent.name!r} here")
        write_files({path: lambda file: file.write(text.encode())})
        return path


@dataclass(frozen=True, slots=True)
class Data:
    """Events that are open: their columns, their first rows, and how often each type occurs."""

    name: str
    path: Path
    type_column: str
    time_column: str
    events: int
    columns: tuple[tuple[str, str], ...]
    """Names and kinds."""
    types: tuple[tuple[str, int], ...]
    preview: tuple[dict[str, str], ...]
    schema: Schema

    @property
    def options(self) -> dict[str, Any]:
        """How `run` reads it."""
        return {"type_column": self.type_column, "time_column": self.time_column}

    @property
    def words(self) -> tuple[str, ...]:
        """What completion offers: types, then columns."""
        return (*(name for name, _ in self.types), *(name for name, _ in self.columns))


def open_data(folder: Folder, name: str, type_column: str = "", time_column: str = "") -> Data:
    """Open events, and find out what is in them."""
    path = folder.inside(name)
    every = read_source(path).table
    names = every.column_names
    kind = type_column or _likely(names, ("type", "event", "event_type", "kind", "activity"))
    time = time_column or _likely(names, ("ts", "time", "timestamp", "date", "event_time"))
    for column in (kind, time):
        if column not in names:
            raise InputError(f"{name} has no column {column!r}; it has {', '.join(names)}")
    counts = pc.value_counts(every.column(kind).cast(pa.string()).combine_chunks()).to_pylist()
    ranked = sorted(counts, key=lambda each: -each["counts"])
    rows = every.slice(0, 8).to_pylist()
    return Data(
        name,
        path,
        kind,
        time,
        every.num_rows,
        tuple((each.name, str(each.type)) for each in every.schema),
        tuple((str(each["values"]), int(each["counts"])) for each in ranked),
        tuple({key: str(value).removesuffix("+00:00") for key, value in row.items()} for row in rows),
        schema_of(every.schema),
    )


def _likely(names: list[str], wanted: tuple[str, ...]) -> str:
    return next(
        (name for each in wanted for name in names if name.lower() == each), names[0] if names else ""
    )


@dataclass(frozen=True, slots=True)
class Checked:
    """A query text as far as it can be checked: the workload, or its problems."""

    workload: api.Workload | None
    problems: tuple[Problem, ...] = ()
    told: str = ""

    @property
    def summary(self) -> str:
        """What is right or wrong in one line."""
        if self.workload is not None:
            return f"{plural(len(self.workload), 'query', 'queries')}, no errors"
        return f"{plural(len(self.problems), 'error')}"


def check_text(text: str, data: Data | None = None) -> Checked:
    """Parse a text, and check it against the columns of the data."""
    if not text.strip():
        return Checked(None, (), "")
    try:
        workload = api.parse(text)
        if data is not None:
            workload.check_columns(data.schema, data.time_column, TICKS["s"])
    except QueryError as error:
        return Checked(None, error.problems, str(error))
    except TrendfoldError as error:
        return Checked(None, (Problem(str(error)),), str(error))
    return Checked(workload, (), "\n".join(workload.cautions()))


def plan_html(workload: api.Workload) -> str:
    """The plan of a workload."""
    return workload.explain()._repr_html_()


def as_python(text: str, data: Data) -> str:
    """The run as a Python program."""
    options = "".join(f", {name}={value!r}" for name, value in data.options.items())
    quoted = text.strip().replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return (
        f'import trendfold as tf\n\nworkload = tf.parse("""\n{quoted}\n""")\n'
        f"result = workload.run({data.name!r}{options})\nprint(result.summary)\n"
    )


def as_command(file: str, data: Data) -> str:
    """The run as a command line; the text must be saved as a file."""
    words = ["trendfold", "run", file, "--input", data.name]
    words += ["--type-column", data.type_column, "--time-column", data.time_column]
    return shlex.join(words)
