"""The recipes of docs/cookbook.md print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "cookbook.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.compiled
def test_every_recipe_prints_what_stands_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(re.findall(r"^## \d+\. ", PAGE, re.MULTILINE)) == 12
    assert len(BLOCKS) == 13  # the generator stands first
    names: dict[str, Any] = {}
    for code, output in BLOCKS:
        exec(code, names)
        assert capsys.readouterr().out == output
