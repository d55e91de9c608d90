"""`trendfold funnel`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trendfold.cli import main

FUNNEL = ["funnel", "--by", "user", "--within", "1 h", "--input", "clicks.parquet", "--engine", "local"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    clicks = {"type": ["view", "cart", "pay", "view"], "ts": [0, 40, 60, 5], "user": ["a", "a", "a", "b"]}
    pq.write_table(pa.table({**clicks, "amount": [None, None, 7.5, None]}), "clicks.parquet")
    return tmp_path


def test_it_prints_a_table_and_writes_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FUNNEL, "--steps", "view, cart, ANY(pay, invoice) p", "--svg", "funnel.svg"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[3:] == [
        "   1  view     2         1",
        "   2  cart     1       0.5          0.5            40              40",
        "   3  p        1       0.5            1            20              20",
        "",
    ]
    assert err.splitlines()[-2].startswith("4 events, 0 rejects")
    assert "no event has the type 'invoice'" in err
    assert Path("funnel.svg").read_text("utf-8").count("<rect") == 3


def test_it_prints_json_with_whole_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--steps",
        "view, pay p",
        "--where",
        "p.amount > 5 AND p.amount < 9",
        "--format",
        "json",
        "--every",
        "1 d",
    ]
    assert main([*FUNNEL, *words]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(
        '{"query": "funnel", "window_start": 0, "window_end": 86400, "step": 1, "name": "view", '
    )
    assert json.loads(second)["keys"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "view, cart+"], "1:11: expected ',' or the end of the query, found '+'"),
        (["--steps", "view, (a | b)"], "is no single event"),
        (["--steps", " "], "there is no text"),
        (["--steps", "view", "--where", "view.amount >"], "expected a value"),
        (["--steps", "view", "--where", "viu.amount > 1"], "did you mean 'view'?"),
        (["--steps", "view", "--where", "(" * 300], "nested deeper"),
        (["--steps", "view", "--every", "1 month"], "duration"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FUNNEL, *words]) == 2
    assert message in capsys.readouterr().err
