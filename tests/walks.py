"""The walks of docs/architecture.md, and a way to follow them: which functions were called, and when."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def walks() -> dict[str, list[str]]:
    """The functions that every walk of the page names, in order: the first word of each line of a block."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```walk (.+?)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return {name: [line.split()[0] for line in block.splitlines() if line.strip()] for name, block in found}


def calls_of(run: Callable[[], Any]) -> list[str]:
    """Every call of a function of trendfold, as `room.module.function`."""
    seen: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("trendfold."):
            seen.append(f"{module.removeprefix('trendfold.')}.{frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen


def is_compiled(name: str) -> bool:
    """Whether a name is that of a kernel, whose calls Python does not see."""
    module, _, function = name.rpartition(".")
    return hasattr(getattr(import_module(f"trendfold.{module}"), function, None), "py_func")


def astray(walk: list[str], calls: list[str]) -> list[str]:
    """The functions of a walk that were not called after those before them; kernels must only be there."""
    at, lost = 0, []
    for name in walk:
        if is_kernel(name):
            continue
        if name in calls[at:]:
            at = calls.index(name, at)
        else:
            lost.append(name)
    return lost


def is_kernel(name: str) -> bool:
    """Whether calls of a function cannot be seen, because it is compiled."""
    return (name.startswith("kernel.") or name.startswith("detect.")) and is_compiled(name)
