"""The README and the pages beside it say what is so: their code is run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from pages import ROOT, blocks, outputs, steps_of
from trendfold import parse

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_block_is_of_a_kind_that_is_tried() -> None:
    assert {language for language, _ in blocks(README)} == {"sh", "python", "text", "console"}


def texts(svg: str) -> list[str]:
    """The words and numbers of a picture."""
    return re.findall(r"<text[^>]*>([^<]+)<", svg)


def test_examples_print_what_stands_below_them(tmp_path: Path) -> None:
    steps, printed = steps_of(README, tmp_path)
    assert [kind for kind, _ in steps].count("python") == 8
    assert [kind for kind, _ in steps].count("trendfold") == 3
    assert [text.rstrip() for text in outputs(steps, tmp_path)] == [text.rstrip() for text in printed]
    drawn, shown = (
        (folder / "gave_up.svg").read_text(encoding="utf-8") for folder in (tmp_path, ROOT / "docs")
    )
    assert texts(drawn) == texts(shown) != []


def test_the_targets_of_make_are_there_and_so_are_the_extras() -> None:
    install, targets = (block.splitlines() for language, block in blocks(README) if language == "sh")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for line in install:
        assert line.startswith("pip install .")
        assert {name for found in re.findall(r"\.\[([a-z,]+)\]", line) for name in found.split(",")} <= {
            *extras
        }
    assert targets == ["make demo", "make test"]
    for line, runs in zip(targets, ("trendfold demo", "pytest"), strict=True):
        done = subprocess.run(
            [*shlex.split(line), "-n"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert runs in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(("page", "count"), [("spark.md", 3), ("streaming.md", 3)])
def test_the_python_on_the_pages_about_spark_is_python(page: str, count: int) -> None:
    found = [code for language, code in blocks((ROOT / "docs" / page).read_text()) if language == "python"]
    assert len(found) == count
    for code in found:
        compile(code, page, "exec")


def test_the_page_about_spark_shows_what_explain_says() -> None:
    found = dict(blocks((ROOT / "docs" / "spark.md").read_text(encoding="utf-8")))
    told = str(parse(found["sql"]).explain())
    for part in found["text"].split("\n\n"):
        assert part.strip("\n") in told


@pytest.mark.parametrize(
    ("page", "least"),
    [("architecture.md", 20), ("aseq.md", 4), ("matches.md", 5), ("gloria.md", 12), ("complexity.md", 5)],
)
def test_the_worked_example_of_a_page_is_true(page: str, least: int) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    steps = "\n".join(code for language, code in blocks(text) if language == "python")
    found = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(steps, {}, page, None, 0))
    assert found.attempted >= least
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


def test_the_glossary_has_every_word_once_and_in_order() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][1:]
    words = [word for word in words if set(word) != {"-"}]
    assert len(set(words)) == len(words) > 50
    assert [word.lower() for word in words] == sorted(word.lower() for word in words)
