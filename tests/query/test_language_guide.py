from __future__ import annotations

import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest

from trendfold.errors import QueryError
from trendfold.query import parse, to_text
from trendfold.query import parser as parser_module
from trendfold.query import printer as printer_module
from trendfold.query.names import RESERVED

GUIDE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
GOOD = re.findall(r"^```sql\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
BAD = re.findall(r"^```sql bad\n(.*?)^```\n+```text\n(.*?)\n```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", GOOD)
def test_every_example_of_the_guide_parses(text: str) -> None:
    for query in parse(text):
        assert parse(to_text(query)) == (query,)


@pytest.mark.parametrize(("text", "message"), BAD)
def test_every_error_of_the_guide_is_the_real_one(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_the_guide_shows_examples_and_every_bad_one_has_its_error() -> None:
    assert len(GOOD) > 10
    assert len(BAD) == GUIDE.count("```sql bad") > 5


def test_the_guide_lists_every_reserved_word() -> None:
    listed = re.findall(r"`([A-Z_ ]+)`", GUIDE.split("## Reserved words")[1])
    assert set(" ".join(listed).split()) == RESERVED


@pytest.mark.parametrize("module", [parser_module, printer_module])
def test_the_examples_in_docstrings_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
