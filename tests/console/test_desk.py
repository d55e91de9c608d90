"""The console without a page: its folder, its data, completion, colours, and who may come in."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trendfold.console.colours import colours
from trendfold.console.completion import offered, place_typed
from trendfold.console.desk import (
    DATA,
    Folder,
    as_command,
    as_python,
    check_text,
    open_data,
)
from trendfold.console.flow import within
from trendfold.console.gate import COOKIE, Gate
from trendfold.console.worker import Run, StoppedError
from trendfold.errors import InputError, TrendfoldError


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    root = tmp_path / "here"
    (root / "sub").mkdir(parents=True)
    (root / ".hidden").mkdir()
    (tmp_path / "secret.csv").write_text("event,time\nA,1\n")
    (root / ".hidden" / "x.csv").write_text("a\n1\n")
    (root / "sub" / "e.csv").write_text("event,time,x\nA,1,5\nB,2,6\nB,3,7\n")
    (root / "link.csv").symlink_to(tmp_path / "secret.csv")
    return Folder(root.resolve())


def test_only_files_of_the_folder_are_offered_and_opened(folder: Folder) -> None:
    assert folder.files(DATA) == ["sub/e.csv"]
    for name in ("../secret.csv", "link.csv", "/etc/passwd", "sub/../../secret.csv"):
        with pytest.raises(InputError, match="outside of the folder"):
            folder.inside(name)
    with pytest.raises(InputError, match="outside of the folder"):
        folder.save_text("../over.tql", "x")
    with pytest.raises(InputError, match="no query file"):
        folder.open_text("sub/e.csv")


def test_streams_come_from_the_folder_too(folder: Folder) -> None:
    assert within(folder, "csv:sub") == f"csv:{folder.root / 'sub'}"
    assert within(folder, "rate:5") == "rate:5"
    for source, told in (
        ("csv:..", "outside"),
        ("csv:nowhere", "no folder"),
        ("kafka:a/b", "unknown source"),
    ):
        with pytest.raises(InputError, match=told):
            within(folder, source)


def test_queries_are_saved_and_opened(folder: Folder) -> None:
    assert folder.save_text("sub/mine", "RETURN COUNT(*) PATTERN A").name == "mine.tql"
    assert folder.open_text("sub/mine.tql") == "RETURN COUNT(*) PATTERN A"
    assert folder.files((".tql",)) == ["sub/mine.tql"]


def test_data_tells_its_types_columns_and_first_rows(folder: Folder) -> None:
    data = open_data(folder, "sub/e.csv")
    assert (data.type_column, data.time_column, data.events) == ("event", "time", 3)
    assert data.types == (("B", 2), ("A", 1))
    assert [name for name, _ in data.columns] == ["event", "time", "x"]
    assert data.preview[0] == {"event": "A", "time": "1", "x": "5"}
    with pytest.raises(InputError, match="no column 'nix'"):
        open_data(folder, "sub/e.csv", type_column="nix")


def test_a_text_is_checked_against_the_columns(folder: Folder) -> None:
    data = open_data(folder, "sub/e.csv")
    assert check_text("RETURN COUNT(*) PATTERN A WHERE A.x > 1", data).workload is not None
    [problem] = check_text("RETURN COUNT(*) PATTERN A WHERE A.xx > 1", data).problems
    assert "'xx'" in problem.message
    assert (problem.line, problem.column) == (1, 33)
    assert check_text("RETURN COUNT(*) PATTERN", data).problems
    assert check_text("  ").problems == ()


def test_a_run_is_answered_in_another_process(folder: Folder) -> None:
    path = folder.root / "sub" / "e.csv"
    text = "QUERY a RETURN COUNT(*) PATTERN SEQ(A, B+); QUERY b RETURN COUNT(*) PATTERN A"
    asked = Run()
    page = asked.answer(text, path, "sub/e.csv", {"type_column": "event", "time_column": "time"})
    assert "3 trends" in page
    assert (asked.done, asked.total) == (2, 2)
    with pytest.raises(TrendfoldError, match="no column 'when'"):
        Run().answer(text, path, "", {"type_column": "event", "time_column": "when"})
    with pytest.raises(StoppedError):
        Run(is_stopped=True).answer(text, path, "", {})


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_run_ends_within_a_query(folder: Folder, is_stopped: bool) -> None:
    many = 200_000  # a quarter of an hour
    slow = pa.table({"type": ["A"] * many, "ts": range(many), "x": np.random.default_rng(1).random(many)})
    pq.write_table(slow, folder.root / "slow.parquet")
    text = "RETURN COUNT(*) PATTERN A+ WHERE A.x * NEXT(A).x < 0.9"
    running = Run()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(running.answer, text, folder.root / "slow.parquet", "", {})
        with pytest.raises(TimeoutError):
            answer.result(5)
        assert running._worker is not None
        running.stop() if is_stopped else running._worker.end()  # as the system does where memory is short
        with pytest.raises(StoppedError if is_stopped else TrendfoldError) as told:
            answer.result(10)
        assert is_stopped or "memory is short" in str(told.value)
    options = {"type_column": "event", "time_column": "time"}
    path = folder.root / "sub" / "e.csv"
    assert "2 trends" in Run().answer("RETURN COUNT(*) PATTERN B", path, "", options)


def test_a_run_is_copied(folder: Folder) -> None:
    data = open_data(folder, "sub/e.csv")
    text = "RETURN COUNT(*) PATTERN SEQ(A, B+)"
    copied = as_python(text, data).replace("'sub/e.csv'", repr(str(data.path)))
    compile(copied, "copied", "exec")
    assert "type_column='event'" in copied
    assert as_command("my file.tql", data).startswith("trendfold run 'my file.tql' --input sub/e.csv")


def test_completion_offers_the_words_of_the_data_first() -> None:
    text = "PATTERN SEQ(Re"
    assert place_typed("PATTERN SEQ(R", text) == len(text)
    begun, words = offered(text, len(text), ("Request", "Receipt", "x"))
    assert (begun, words[:2]) == ("Re", ("Request", "Receipt"))
    assert "RETURN" in words
    assert offered("PATTERN SEQ(", 12, ("x",)) == ("", ())
    assert offered("WITHIN 5 s", 10, ("speed",)) == ("", ())
    assert place_typed("ab cd", "abX cd") == 3
    assert place_typed("aXb", "ab") == 1


def test_colours_of_a_text() -> None:
    found = [
        (kind, text[span.start : span.end])
        for text in ["-- why\nPATTERN A+ 'x' 10 min"]
        for kind, span in colours(text, {"A"})
    ]
    assert found == [
        ("comment", "-- why"),
        ("clause", "PATTERN"),
        ("type", "A"),
        ("string", "'x'"),
        ("number", "10"),
        ("number", "min"),
    ]


def asked(kind: str, query: str = "", **headers: str) -> tuple[int | None, list[MutableMapping[str, Any]]]:
    """The status with which a request is answered; None if it was closed."""
    sent: list[MutableMapping[str, Any]] = []

    async def inner(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    given = {"host": "127.0.0.1:80", **headers}
    scope = {
        "type": kind,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    asyncio.run(Gate(inner, "right")(scope, None, send))  # type: ignore[arg-type]
    return sent[0].get("status"), sent


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("token=right", {}, 200),
        ("", {"cookie": f"{COOKIE}=right"}, 200),
        ("", {"cookie": f"{COOKIE}=right", "origin": "http://127.0.0.1:80"}, 200),
        ("", {}, 403),
        ("token=wrong", {}, 403),
        ("token=", {"cookie": f"{COOKIE}="}, 403),
        ("token=right", {"host": "evil.example:80"}, 403),
        ("", {"cookie": f"{COOKIE}=right", "origin": "http://evil.example"}, 403),
    ],
)
def test_who_may_come_in(query: str, headers: dict[str, str], status: int) -> None:
    assert asked("http", query, **headers)[0] == status
    assert (asked("websocket", query, **headers)[1][0]["type"] == "websocket.close") == (status == 403)


def test_the_token_becomes_a_cookie_that_scripts_cannot_read() -> None:
    [(_, cookie)] = asked("http", "token=right")[1][0]["headers"]
    assert b"HttpOnly" in cookie
    assert b"SameSite=Strict" in cookie
