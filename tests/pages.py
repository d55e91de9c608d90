"""Runs the blocks of a page: Python, and commands after `$`, in one process and one folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


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


RUN_ALL = """
import json, sys
from trendfold.cli import main

names = {}
for kind, code in json.load(sys.stdin):
    if kind == "python":
        exec(compile(code, "page", "exec"), names)
    else:
        assert main(code) == 0
    sys.stdout.flush()
    print(chr(0), end="", flush=True)
"""


def steps_of(text: str, folder: Path) -> tuple[list[tuple[str, object]], list[str]]:
    """What to run, and what each step prints by the page; files shown by `cat` are made in the folder."""
    steps: list[tuple[str, object]] = []
    printed: list[str] = []
    found = blocks(text)
    for (language, block), (below, expected) in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "python":
            assert below == "text", block
            steps.append((language, block))
            printed.append(expected)
        if language == "console":
            for (program, *args), output in commands(block):
                if program == "cat":
                    (folder / args[0]).write_text(output, encoding="utf-8")
                    continue
                assert program == "trendfold"
                steps.append((program, args))
                printed.append(output)
    return steps, printed


def outputs(steps: list[tuple[str, object]], folder: Path) -> list[str]:
    """What the steps print, all in one process, since some start Spark, and that takes seconds."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(chr(0))[:-1]
