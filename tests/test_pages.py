"""Pages of docs/: their examples are run, some are made from the code, and all are on the site."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from pages import ROOT, outputs, steps_of

DOCS = ROOT / "docs"
REFERENCE = runpy.run_path(str(ROOT / "tools" / "reference.py"))


@pytest.mark.parametrize(
    ("page", "steps"), [("tutorial.md", 8), ("sharing.md", 1), ("operations.md", 2), ("scale.md", 1)]
)
def test_examples_print_what_stands_below_them(page: str, steps: int, tmp_path: Path) -> None:
    run, printed = steps_of((DOCS / page).read_text(encoding="utf-8"), tmp_path)
    assert len(run) == steps
    assert [text.rstrip() for text in outputs(run, tmp_path)] == [text.rstrip() for text in printed]


@pytest.mark.parametrize("page", ["reference.md", "command-line.md", "api.md"])
def test_pages_made_from_the_code_are_those_of_this_code(page: str) -> None:
    assert REFERENCE["PAGES"][page]() == (DOCS / page).read_text(encoding="utf-8"), "run `make reference`"


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": ([\w/-]+\.md)$", nav, re.MULTILINE)
    assert len(listed) == len(set(listed))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if path.parent.name != "adr"}
    of_the_top_folder = {"index.md", "contributing.md", "code-of-conduct.md", "security.md", "changelog.md"}
    assert set(listed) == there | of_the_top_folder
