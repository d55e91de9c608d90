"""Damaged queries and damaged files: an answer or one error in words, in bounded time, and never a traceback.

A campaign reads in processes of its own: a library below may crash on damaged bytes, and that is counted too.
"""

from __future__ import annotations

import io
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import trendfold as tf
import workloads
from spark.test_agreement import stream
from trendfold.cli import main
from trendfold.errors import TrendfoldError
from trendfold.runtime.writing import WRITERS

DOCS = Path(__file__).parents[2] / "docs"
SLOW_S = 10.0
"""Seconds of a core that no query text may take to be refused or read."""
_FEW = pa.concat_tables([stream(events=60, groups=3, seed=1)])
_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
_ODD = [
    "\0",
    "\ufeff",
    "\u202e",
    "é",
    "𝔸",
    "'",
    '"',
    "`",
    "--",
    "/*",
    ";",
    "(",
    ")",
    "[",
    "\\",
    "%",
    "9" * 400,
    "1e999",
]


# ---------------------------------------------------------------- queries


@cache
def seeds() -> tuple[str, ...]:
    """Queries of the documentation, and random ones."""
    blocks = [
        block
        for path in sorted(DOCS.glob("*.md"))
        for block in re.findall(r"```\w*\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
        if "RETURN" in block and "PATTERN" in block
    ]
    rng = random.Random(0)
    return tuple(blocks) + tuple(workloads.random_case(rng, aggregates=True).query for _ in range(40))


def damaged_text(rng: random.Random) -> str:
    """A query with a few words or characters gone, doubled, swapped or strange."""
    text = rng.choice(seeds())
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        text = rng.choice(_TEXT_FAULTS)(text, rng)
    return text


def _by_words(change: Callable[[list[str], int, random.Random], None]) -> Callable[[str, random.Random], str]:
    def changed(text: str, rng: random.Random) -> str:
        words = _WORDS.findall(text) or [" "]
        change(words, rng.randrange(len(words)), rng)
        return "".join(words)

    return changed


def _drop(words: list[str], at: int, rng: random.Random) -> None:
    del words[at : at + rng.randint(1, 4)]


def _double(words: list[str], at: int, rng: random.Random) -> None:
    words[at:at] = words[at : at + rng.randint(1, 6)]


def _swap(words: list[str], at: int, rng: random.Random) -> None:
    other = rng.randrange(len(words))
    words[at], words[other] = words[other], words[at]


def _strange(words: list[str], at: int, rng: random.Random) -> None:
    words[at] = rng.choice(_ODD)


def _borrow(words: list[str], at: int, rng: random.Random) -> None:
    words[at] = rng.choice(_WORDS.findall(rng.choice(seeds())))


def _flip(text: str, rng: random.Random) -> str:
    return _flipped(text.encode(), rng).decode("utf-8", "replace")


def _nest(text: str, rng: random.Random) -> str:
    deep = rng.choice([3, 50, 2_000])
    opened, closed = rng.choice([("(", ")"), ("SEQ(", ")"), ("NOT ", ""), ("-", ""), ("(A | ", ")")])
    at = rng.randrange(len(text) + 1)
    return f"{text[:at]}{opened * deep}A{closed * deep}{text[at:]}"


def _lengthen(text: str, rng: random.Random) -> str:
    return (text * rng.choice([2, 30]))[:20_000]


_TEXT_FAULTS = [*map(_by_words, (_drop, _double, _swap, _strange, _borrow)), _flip, _nest, _lengthen]


def query_fault(rng: random.Random) -> str | None:
    """What is not as it must be with one damaged query, or None."""
    text = damaged_text(rng)
    began = time.process_time()
    try:
        workload = tf.parse(text)
        if rng.random() < 0.1:
            workload.explain()
            workload.run(_FEW, engine="local")
    except TrendfoldError:
        pass
    except Exception as error:
        return f"{_told(error)} for the query {text[:2_000]!r}"
    took = time.process_time() - began
    return f"{took:.1f} s for the query {text[:2_000]!r}" if took > SLOW_S else None


def _told(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:200]} ({Path(last.filename).name}:{last.lineno})"


# ---------------------------------------------------------------- files


QUERY = """
QUERY one RETURN g, COUNT(*), SUM(B.v), AVG(B.x) PATTERN SEQ(A, B+, C) WHERE B.v > 10 GROUP BY g
WITHIN 20 s SLIDE 10 s;
QUERY two RETURN COUNT(*) PATTERN SEQ(A, NOT D, B) WHERE [h] AND A.v <= 50
"""


def damaged_file(folder: Path, rng: random.Random) -> Path:
    """A file of events whose columns or whose bytes are not as they were."""
    table = stream(events=rng.choice([0, 1, 50, 400]), groups=5, seed=rng.randrange(100))
    if rng.random() < 0.6:
        table = rng.choice(_TABLE_FAULTS)(table, rng)
    ending = rng.choice(["parquet", "csv", "jsonl"])
    path = folder / f"events.{ending}"
    data = _bytes(table, ending)
    if rng.random() < 0.7:
        for _ in range(rng.choice([1, 1, 3, 20])):
            data = rng.choice(_BYTE_FAULTS)(data, rng)
    path.write_bytes(data)
    return path


def _bytes(table: pa.Table, ending: str) -> bytes:
    sink = io.BytesIO()
    try:
        WRITERS["json" if ending == "jsonl" else ending](table, sink)
    except (pa.ArrowException, UnicodeDecodeError):  # CSV has no such column
        return _bytes(table, "jsonl")
    return sink.getvalue()


def _flipped(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    changed, at = bytearray(data), rng.randrange(len(data))
    changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut_off(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _hole(data: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + data[at + rng.randint(1, 64) :]


def _noise(data: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.randbytes(rng.randint(1, 16)) + data[at:]


_BYTE_FAULTS = [_flipped, _flipped, _cut_off, _hole, _noise]


def _swap_columns(table: pa.Table, rng: random.Random) -> pa.Table:
    """The names change places, so that each has the other's values."""
    names = list(table.column_names)
    a, b = rng.sample(range(len(names)), 2)
    names[a], names[b] = names[b], names[a]
    return table.rename_columns(names)


def _rename_column(table: pa.Table, rng: random.Random) -> pa.Table:
    names = list(table.column_names)
    names[rng.randrange(len(names))] = rng.choice(
        ["", "TS", "type", "ts", "é", "a.b", "count", "window_start", "\0"]
    )
    return table.rename_columns(names)


def _retype_column(table: pa.Table, rng: random.Random) -> pa.Table:
    at = rng.randrange(table.num_columns)
    kinds = [pa.string(), pa.float32(), pa.int8(), pa.bool_(), pa.date32(), pa.timestamp("ns"), pa.null()]
    kinds += [
        pa.decimal128(20, 3),
        pa.binary(),
        pa.uint64(),
        pa.list_(pa.int64()),
        pa.dictionary(pa.int8(), pa.string()),
    ]
    values = [rng.choice([None, value]) for value in table.column(at).to_pylist()]
    kind = rng.choice(kinds)
    try:
        column = pa.array(values, pa.null() if kind == pa.null() else None).cast(kind)
    except (pa.ArrowException, ValueError, TypeError):
        column = pa.nulls(table.num_rows, kind)
    return table.set_column(at, table.column_names[at], column)


def _drop_column(table: pa.Table, rng: random.Random) -> pa.Table:
    return table.drop_columns([rng.choice(table.column_names)])


def _strange_values(table: pa.Table, rng: random.Random) -> pa.Table:
    at = table.schema.get_field_index("x")
    odd = [float("nan"), float("inf"), -0.0, 1e308, None]
    return table.set_column(at, "x", pa.array([rng.choice(odd) for _ in range(table.num_rows)], pa.float64()))


_TABLE_FAULTS = [_swap_columns, _rename_column, _retype_column, _drop_column, _strange_values]


def file_fault(rng: random.Random, folder: Path) -> str | None:
    """What is not as it must be with one damaged file, or None: by Python or by the command line."""
    path = damaged_file(folder, rng)
    if rng.random() < 0.3:
        return _command_fault(rng, path, folder)
    try:
        result = tf.parse(QUERY).run(path, engine="local")
        _ = result.rejects.num_rows, [result[name].num_rows for name in result]
    except TrendfoldError:
        pass
    except Exception as error:
        return _told(error)
    return None


def _command_fault(rng: random.Random, path: Path, folder: Path) -> str | None:
    """One run of the command line: 0, 1 or 2, and nothing that was not foreseen."""
    queries = folder / "q.tql"
    if rng.random() < 0.5:
        queries.write_text(QUERY, encoding="utf-8")
    else:
        queries.write_bytes(damaged_text(rng).encode("utf-8", "surrogatepass"))
    command = rng.choice(["run", "run", "check", "explain"])
    given = [command, str(queries), "--input", str(path)] + (
        ["--engine", "local"] if command == "run" else []
    )
    for option in rng.sample(_OPTIONS, rng.randint(0, 2)):
        given += option
    told = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(told):
        try:
            code: Any = main(given)
        except BaseException as error:
            return f"{type(error).__name__} left the command line for {given}"
    said = told.getvalue()
    if code not in (0, 1, 2) or "(unexpected:" in said or "Traceback" in said:
        return f"code {code} for {given}: {said[:300]}"
    return None


_OPTIONS = [
    ["--time-column", "v"],
    ["--type-column", "h"],
    ["--order-column", "g"],
    ["--order-column", "nowhere"],
    ["--time-unit", "us"],
    ["--schema", "type string, ts timestamp, v bigint"],
    ["--csv-header", "no"],
    ["--csv-delimiter", ";"],
]


# ---------------------------------------------------------------- campaigns


def faults(what: str, seed: int, numbers: Iterable[int]) -> Iterator[tuple[int, str | None]]:
    """Every number with None as its turn comes, and again with what is not as it must be, if anything is."""
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            yield number, None
            rng = random.Random(f"{seed}/{what}/{number}")
            fault = query_fault(rng) if what == "queries" else file_fault(rng, Path(folder))
            if fault is not None:
                yield number, fault


def campaign(seed: int, count: int) -> list[dict[str, Any]]:
    """Queries and files, in processes that may crash."""
    return [_in_processes(what, seed, count) for what in ("queries", "files")]


def _in_processes(what: str, seed: int, count: int) -> dict[str, Any]:
    """Where a process is ended by a signal, the next goes on after the input that ended it."""
    failures, crashes, first = [], [], 0
    while first < count:
        asked = [sys.executable, "-m", "chaos.fuzz", what, str(seed), str(first), str(count)]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        told = done.stdout.splitlines()
        failures += [line for line in told if not line.isdigit()]
        if not done.returncode:
            break
        numbers = [int(line) for line in told if line.isdigit()]
        first = (numbers[-1] if numbers else first) + 1
        crashes.append(f"{seed}/{what}/{first - 1}: ended by {done.returncode}: {done.stderr[-200:]}")
    return {"what": what, "inputs": count, "failures": failures, "crashes": crashes}


def _process(what: str, seed: str, first: str, last: str) -> None:
    for number, fault in faults(what, int(seed), range(int(first), int(last))):
        print(number if fault is None else f"{seed}/{what}/{number}: {fault}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    _process(*sys.argv[1:5])
