"""JSON that nests deeper than readers stand: it is found, on one line or many, and costs a reject."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import trendfold as tf
from trendfold.events import depth
from trendfold.events.depth import MOST_NESTED, deep_lines

A, B = '{"type":"A","ts":1}\n', '{"type":"B","ts":3}\n'
DEEP = 30_000


def found(text: str) -> list[int]:
    return [number for number, _, _ in deep_lines(np.frombuffer(text.encode(), np.uint8))]


@pytest.fixture(params=[depth._BLOCK, 1_000], ids=["one block", "many blocks"], autouse=True)
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "_BLOCK", request.param)


def objects(levels: int, end: str = "") -> str:
    return f'{{"a":{end}' * levels + "1" + f"}}{end}" * levels


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\n\n"])
def test_a_line_past_the_limit_is_found_and_one_at_the_limit_is_not(end: str) -> None:
    lines = [A.strip(), objects(MOST_NESTED), objects(MOST_NESTED + 1), A.strip(), objects(DEEP), A.strip()]
    skipped = end.count("\n")
    assert found(end.join(lines)) == [1 + 2 * skipped, 1 + 4 * skipped]


def test_brackets_beside_each_other_or_in_strings_do_not_nest() -> None:
    flat = json.dumps({"a": [[]] * 1_000, "b": "[" * 1_000, "c": '\\"' + "{" * 1_000, "d": [{}] * 1_000})
    assert found(A + flat + "\n" + B) == []
    assert found("") == found("\n") == found("[") == found(A * 3) == []


def test_a_value_that_goes_on_over_lines_is_found() -> None:
    for deep in (objects(DEEP, "\n"), '{"}":\n' * DEEP + "1" + "}\n" * DEEP, '{\n"}{":\n' * DEEP):
        lines = found(A + deep + "\n" + B)
        assert lines
        assert lines[0] > MOST_NESTED / 2
        assert 1 not in lines


def test_a_deep_line_is_a_reject_and_the_process_lives(tmp_path: Path) -> None:
    deep = '{"type":"B","ts":2,"x":' + "[" * DEEP + "]" * DEEP + "}\n"
    path = tmp_path / "e.jsonl"
    path.write_text(A + deep + B)
    result = tf.parse("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B)").run(path, engine="local")
    assert result["q"].column("count").to_pylist() == [1]
    assert result.rejects.column("reason").to_pylist() == [
        f"line 2 nests deeper than {MOST_NESTED} levels (e.jsonl)"
    ]
    assert result.rejects.column("text").to_pylist() == [deep.strip()]
    assert dict(result.summary.reject_reasons) == {f"line nests deeper than {MOST_NESTED} levels": 1}
    path.write_text(A + objects(DEEP, "\n") + "\n" + B)
    assert tf.parse("QUERY q RETURN COUNT(*) PATTERN SEQ(A, B)").run(path, engine="local")["q"].num_rows == 1
