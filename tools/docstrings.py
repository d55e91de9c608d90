"""Docstrings on the site: aligned arguments become lists, and examples become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ARGUMENT = re.compile(r"^(\w[\w, `*.]*?) {2,}(\S.*)$")


def as_markdown(text: str) -> str:
    """A docstring with its lists of arguments and its examples marked."""
    return "\n\n".join(_part(part) for part in re.split(r"\n{2,}", text.strip()))


def _part(part: str) -> str:
    lines = part.splitlines()
    if lines[0].startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if not _ARGUMENT.match(lines[0]):
        return part
    told: list[str] = []
    for line in lines:
        if found := _ARGUMENT.match(line):
            told.append(f"- `{found[1].strip('`')}`: {found[2]}")
        else:
            told.append(f"  {line.strip()}")
    return "\n".join(told)


class Docstrings(griffe.Extension):
    """Changes every docstring before it is shown."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
