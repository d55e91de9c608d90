"""The README and the pages beside it say what is so: their code is run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trendfold.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[tuple[str, str]]:
    """Fenced blocks as (language, content)."""
    return [
        (found[1], found[2])
        for found in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def commands(block: str) -> Iterator[tuple[list[str], str]]:
    """The lines after `$` and what each prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, printed = part.partition("\n")
        yield shlex.split(line), printed


def test_every_block_is_of_a_kind_that_is_tried() -> None:
    assert {language for language, _ in blocks(README)} == {"sh", "python", "text", "console"}


def test_the_python_blocks_print_what_stands_below_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks(README)
    names: dict[str, object] = {}
    ran = 0
    for (language, code), (below, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "python":
            exec(compile(code, "README.md", "exec"), names)
            assert below == "text"
            assert capsys.readouterr().out == expected
            ran += 1
    assert ran == 2


def test_the_commands_print_what_stands_below_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for language, block in blocks(README):
        if language != "console":
            continue
        for (program, *args), expected in commands(block):
            if program == "cat":
                Path(args[0]).write_text(expected, encoding="utf-8")
                continue
            assert program == "trendfold"
            assert main(args) == 0
            assert capsys.readouterr().out.rstrip() == expected.rstrip()


def test_the_targets_of_make_are_there() -> None:
    for language, block in blocks(README):
        if language == "sh":
            for line in block.splitlines():
                done = subprocess.run(
                    [*shlex.split(line), "-n"], cwd=ROOT, capture_output=True, text=True, check=True
                )
                assert "trendfold demo" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_worked_example_of_the_architecture_is_true() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = "\n".join(code for language, code in blocks(text) if language == "python")
    found = doctest.DocTestRunner().run(
        doctest.DocTestParser().get_doctest(steps, {}, "architecture.md", None, 0)
    )
    assert found.attempted > 20
    assert found.failed == 0


def test_the_architecture_names_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    there = (ROOT / "src" / "trendfold").iterdir()
    rooms = {path.stem for path in there if path.suffix in ("", ".py") and not path.stem.startswith("_")}
    assert {room for room in rooms if f"`{room}`" not in text} == set()


def test_paths_named_in_the_architecture_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`([a-z_]+/[a-z_]+\.(?:py|lark|tql))`", text):
        assert (ROOT / "src" / "trendfold" / name).exists() or (ROOT / name).exists(), name
