"""The recipes of docs/cookbook.md print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import cookbook_pictures

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


@pytest.mark.compiled
def test_every_picture_is_drawn_from_what_its_recipe_finds() -> None:
    """If this fails, the recipes or their drawings have changed: `make cookbook`."""
    linked = re.findall(r"^!\[.+\]\(cookbook/(\d\d)\.svg\)$", PAGE, re.MULTILINE)
    assert linked == [f"{number:02}" for number in range(1, 13)]
    for number, chart in cookbook_pictures.charts():
        svg = (cookbook_pictures.PICTURES / f"{number:02}.svg").read_text(encoding="utf-8")
        assert f"<!-- drawn from {cookbook_pictures.digest(chart)} -->" in svg, f"recipe {number}"
        assert len(svg) < 40_000
