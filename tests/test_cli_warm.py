"""`trendfold warm` compiles ahead, and says what is kept."""

from __future__ import annotations

import re

import pytest

from trendfold.cli import main
from trendfold.cli.warming import QUERIES
from trendfold.query import parse


def test_a_number_of_processes_below_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "--processes", "0"]) == 2
    assert capsys.readouterr().err == "error: --processes is 0; it must be 1 or more\n"


def test_what_is_compiled_ahead_are_queries_of_every_semantics() -> None:
    texts = [text for kind in QUERIES.values() for text, _ in kind]
    found = {query.semantics for text in texts for query in parse(text)}
    assert {str(semantics) for semantics in found} == {
        "skip-till-any-match",
        "skip-till-next-match",
        "contiguous",
    }


@pytest.mark.slow
def test_kernels_are_compiled_by_processes_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "--processes", "2"]) == 0
    told = re.fullmatch(r"([\d,]+) kernels are compiled and kept, (\d+) MB\n", capsys.readouterr().out)
    assert told is not None
    assert int(told[1].replace(",", "")) > 100
